/* nitro runs: the runs below a folder, the newest first.
 * Not here: the epochs of one of them (history.c).
 */
#include "command/command.h"
#include "show/show.h"

#include <string.h>
#include <time.h>

#include "base/closest.h"

enum { COLUMNS = 8, CELL = 96 };

/* "3/10": of so many that were asked for. A run that was resumed with fewer than it had done has more. */
static const char *epoch_text(const nt__history *history, char out[CELL]) {
    const json_t *most = json_object_get(history->params, "max_epochs");
    int64_t last = history->row_count ? history->rows[history->row_count - 1].epoch : 0;
    int length = snprintf(out, CELL, "%lld", (long long)last);
    if (json_is_integer(most) && json_integer_value(most) >= last)
        snprintf(out + length, (size_t)(CELL - length), "/%lld", (long long)json_integer_value(most));
    return out;
}

/* Of the metric that was named; a run that has it not has no best. */
static nt_status best_text(const nt__history *history, const nt__command_options *options, char value[CELL],
                           char epoch[CELL]) {
    nt__best best;
    const char *name = options->metrics.count ? options->metrics.items[0] : NULL;
    value[0] = epoch[0] = 0;
    if (name && nt__history_metric(history, name) < 0) return NT_OK;
    nt_status status = nt__history_best(history, name, options->mode, &best);
    if (status == NT_OK && best.direction == NT__DIRECTION_UNKNOWN)
        snprintf(value, CELL, "%.64s: --mode?", history->metrics[best.metric]);
    if (status != NT_OK || !best.found) return status;
    const nt__history_row *row = &history->rows[best.row];
    nt__format(value, CELL, "%.64s %.4g", history->metrics[best.metric], *nt__row_value(row, best.metric));
    snprintf(epoch, CELL, "%lld", (long long)row->epoch);
    return NT_OK;
}

/* The runs of a list, and the metrics that any of them has. */
typedef struct listing {
    nt__table table;
    const nt__command_options *options;
    nt__words metrics;
    nt__map seen; /* metrics */
    bool has_metric;
} listing;

static nt_status note_metrics(listing *l, const nt__history *history) {
    for (size_t i = 0; history->row_count && i < history->metric_count; i++) {
        const char *name = history->metrics[i];
        nt__hash hash = nt__hash_bytes(name, strlen(name));
        l->has_metric |= l->options->metrics.count && strcmp(name, l->options->metrics.items[0]) == 0;
        if (nt__map_find(&l->seen, hash)) continue;
        if (!nt__map_put(&l->seen, hash, 1)) return NT_OUT_OF_MEMORY;
        nt__words_add(&l->metrics, nt__arena_strdup(&l->table.arena, name));
    }
    return l->metrics.failed ? NT_OUT_OF_MEMORY : NT_OK;
}

static nt_status add_run(listing *l, const char *folder) {
    nt__history history;
    char epoch[CELL], step[CELL], best[CELL], best_epoch[CELL], started[NT__TIME], duration[NT__DURATION];
    nt_status status = nt__history_read(folder, false, &history);
    if (status == NT_OK) status = note_metrics(l, &history);
    if (status == NT_OK) status = best_text(&history, l->options, best, best_epoch);
    if (status == NT_OK) {
        const char *state = nt__history_state(&history);
        snprintf(step, sizeof step, "%lld", (long long)nt__history_steps(&history));
        const char *const cells[COLUMNS] = {
            folder,
            state,
            epoch_text(&history, epoch),
            step,
            best,
            best_epoch,
            nt__duration_text(nt__history_seconds(&history, state, time(NULL)), duration),
            nt__time_text(nt__history_started(&history), started)};
        for (size_t i = 0; i < COLUMNS; i++) nt__table_add(&l->table, cells[i]);
    }
    nt__history_free(&history);
    return status;
}

/* A metric that no run has is a name that was mistyped. */
static nt_status check_metric(const listing *l, const char *folder) {
    const nt__words *named = &l->options->metrics;
    if (!named->count || l->has_metric) return NT_OK;
    nt__text text = {0};
    nt__text_add(&text, "no run below %s has a metric '%s'", folder, named->items[0]);
    nt__add_closest(&text, named->items[0], l->metrics.items, l->metrics.count, "");
    if (l->metrics.count) nt__text_say(&text, "; there are ");
    for (size_t i = 0; i < l->metrics.count; i++) nt__text_add(&text, "%s%s", i ? ", " : "", l->metrics.items[i]);
    nt_status status = text.failed ? NT_OUT_OF_MEMORY : nt__fail(NT_INVALID, "%s", text.data);
    nt__text_free(&text);
    return status;
}

/* Without metrics.jsonl nothing is known of its epochs; what it left is there. */
static nt_status add_unlogged(nt__table *table, const nt__run_folder *run) {
    char started[NT__TIME];
    const char *const cells[COLUMNS] = {
        run->path, "no metrics.jsonl", "", "", "", "", "", nt__time_text(run->changed / 1000000000, started)};
    for (size_t i = 0; i < COLUMNS; i++) nt__table_add(table, cells[i]);
    return NT_OK;
}

static nt_status list(const char *folder, const nt__run_folders *runs, const nt__command_options *options) {
    static const char *const header[COLUMNS] = {"run", "state", "epoch", "step", "best", "in epoch", "time", "started"};
    listing l = {.options = options};
    nt_status status = NT_OK;
    for (size_t i = 0; i < COLUMNS && runs->count; i++) nt__table_add(&l.table, header[i]);
    for (size_t i = 0; status == NT_OK && i < runs->count; i++)
        status = runs->items[i].has_log ? add_run(&l, runs->items[i].path) : add_unlogged(&l.table, &runs->items[i]);
    if (status == NT_OK && runs->count) status = check_metric(&l, folder);
    if (status == NT_INVALID) l.table.cells.count = 0;
    if (!runs->count) nt__say_line(stdout, "no runs below %s: nitro train makes one", folder);
    nt__words_free(&l.metrics);
    nt__map_free(&l.seen);
    bool printed = nt__table_print(&l.table, COLUMNS, stdout);
    return status == NT_OK && !printed ? NT_OUT_OF_MEMORY : status;
}

static nt_status check_operands(const nt__arguments *arguments, const nt__command_options *options) {
    if (arguments->files.count > 1)
        return nt__fail(NT_INVALID, "nitro runs takes one folder, and %zu were given", arguments->files.count);
    if (options->metrics.count > 1)
        return nt__fail(NT_INVALID, "--metric is given %zu times, and nitro runs shows the best of one",
                        options->metrics.count);
    return NT_OK;
}

static nt__exit_code list_runs(const nt__arguments *arguments, const nt__command_options *options) {
    const char *folder = arguments->files.count ? arguments->files.items[0] : "runs";
    nt__run_folders runs;
    nt_status status = nt__run_folders_find(folder, &runs);
    if (status == NT_OK) status = list(folder, &runs, options);
    nt__run_folders_free(&runs);
    return status == NT_OK ? NT__EXIT_DONE : nt__report_failure(status);
}

static nt__exit_code run_runs(const nt__arguments *arguments) {
    nt__command_options options;
    nt_status status = nt__arguments_options(arguments, &options);
    if (status == NT_OK) status = nt__arguments_fields(arguments, NULL, NULL);
    if (status == NT_OK) status = check_operands(arguments, &options);
    nt__exit_code code = status == NT_OK ? list_runs(arguments, &options) : nt__report_wrong_use(status);
    nt__command_options_free(&options);
    return code;
}

static const char manual[] =
    "Prints a row for each run in a folder and up to four levels below, the one written last first. Its state is how\n"
    "training ended (completed, requested, error), running while a process holds the folder, else killed. A run that\n"
    "kept no metrics.jsonl, as with --log=tensorboard, has a row that says so, with the time of its newest file.";

const nt__command nt__runs_command = {
    .name = "runs",
    .does = NT__READS_LOG,
    .operands = "[FOLDER] [flags]",
    .summary = "the runs below runs/ or another folder",
    .manual = manual,
    .run = run_runs,
};
