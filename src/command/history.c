/* nitro history: the epochs of a run; and what the commands that look at runs share.
 * Not here: the table itself (history_table.c).
 */
#include "command/command.h"
#include "show/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- choosing a run --------------------------------------------------------------------------------------------- */

/* ---- which rows and columns ------------------------------------------------------------------------------------- */

/* "16:30", "16:", ":30" or "16". */
static bool read_range(const char *text, int64_t *low, int64_t *high) {
    char *end;
    const char *colon = strchr(text, ':');
    *low = 1;
    *high = INT64_MAX;
    if (*text != ':') {
        *low = strtoll(text, &end, 10);
        if (end == text || (*end && end != colon)) return false;
    }
    if (!colon) *high = *low;
    if (colon && colon[1]) {
        *high = strtoll(colon + 1, &end, 10);
        if (*end) return false;
    }
    return *low <= *high;
}

/* What there is instead. */
static nt_status choose_rows(const nt__history *history, const char *range, nt__history_view *view) {
    int64_t low, high;
    view->first = 0;
    view->count = history->row_count;
    if (!range) return NT_OK;
    if (!read_range(range, &low, &high))
        return nt__fail(NT_INVALID, "--epochs is '%s': write FIRST:LAST, as in --epochs=16:30", range);
    while (view->count && history->rows[view->first].epoch < low) {
        view->first++;
        view->count--;
    }
    while (view->count && history->rows[view->first + view->count - 1].epoch > high) view->count--;
    if (view->count) return NT_OK;
    if (!history->row_count) return nt__fail(NT_INVALID, "--epochs is '%s', and no epoch has ended yet", range);
    return nt__fail(NT_INVALID, "--epochs is '%s', and the log has the epochs %lld to %lld", range,
                    (long long)history->rows[0].epoch, (long long)history->rows[history->row_count - 1].epoch);
}

/* The loss, the metric of the best, the others; or those that were named, in the same order. */
static nt_status choose_columns(const nt__history *history, const nt__words *names, const nt__best *best,
                                size_t *columns, size_t *count) {
    bool *wanted = nt__alloc(history->metric_count, sizeof *wanted);
    nt_status status = wanted ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < names->count; i++) {
        size_t metric;
        status = nt__history_find_metric(history, names->items[i], &metric);
        wanted[metric] = true;
    }
    *count = 0;
    for (size_t place = 0; status == NT_OK && place <= history->metric_count; place++) {
        size_t metric = place == 0 ? NT__METRIC_LOSS : place == 1 ? best->metric : place - 1;
        bool is_again = place > 1 && metric == best->metric;
        bool is_loss_again = place > 0 && metric == NT__METRIC_LOSS;
        if (!is_again && !is_loss_again && (names->count == 0 || wanted[metric])) columns[(*count)++] = metric;
    }
    nt__free(wanted);
    return status;
}

static nt_status show(const nt__history *history, const nt__command_options *options) {
    nt__best best;
    /* Of several metrics that were named, the first decides. */
    const char *name = options->metrics.count ? options->metrics.items[0] : NULL;
    nt__history_view view = {.history = history, .best = &best, .screen = nt__screen_of_output(), .now = time(NULL)};
    size_t *columns = nt__alloc(history->metric_count + 1, sizeof *columns);
    nt_status status = columns ? nt__history_best(history, name, options->mode, &best) : NT_OUT_OF_MEMORY;
    if (status == NT_OK) status = choose_columns(history, &options->metrics, &best, columns, &view.column_count);
    if (status == NT_OK) status = choose_rows(history, options->epochs, &view);
    view.columns = columns;
    if (status == NT_OK && !nt__history_show(&view, stdout)) status = NT_OUT_OF_MEMORY;
    nt__free(columns);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static nt_status check_operands(const nt__arguments *arguments) {
    if (arguments->files.count <= 1) return NT_OK;
    return nt__fail(NT_INVALID, "nitro history takes one run, and %zu were given; nitro runs lists several",
                    arguments->files.count);
}

static nt__exit_code show_run(const nt__arguments *arguments, const nt__command_options *options) {
    nt__history history = {0};
    char *run;
    nt_status status = nt__choose_run(arguments, &run);
    if (status == NT_OK) status = nt__history_read(run, false, &history);
    if (status == NT_OK) status = show(&history, options);
    nt__history_free(&history);
    nt__free(run);
    return status == NT_OK ? NT__EXIT_DONE : nt__report_failure(status);
}

static nt__exit_code run_history(const nt__arguments *arguments) {
    nt__command_options options;
    nt_status status = nt__arguments_options(arguments, &options);
    if (status == NT_OK) status = nt__arguments_fields(arguments, NULL, NULL);
    if (status == NT_OK) status = check_operands(arguments);
    nt__exit_code code = status == NT_OK ? show_run(arguments, &options) : nt__report_wrong_use(status);
    nt__command_options_free(&options);
    return code;
}

static const char manual[] =
    "Prints a row for each epoch of a run: its mean loss and its validation metrics, the best epoch marked. On a\n"
    "terminal rows in the middle and columns on the right are left out if there is no room, and the last lines say\n"
    "so. RUN is a folder of a run or its log, also of one that is under way or was killed; without it, the run below\n"
    "runs/ that was written last.";

const nt__command nt__history_command = {
    .name = "history",
    .does = NT__READS_LOG,
    .operands = "[RUN] [flags]",
    .summary = "the epochs of a run, as a table",
    .manual = manual,
    .run = run_history,
};
