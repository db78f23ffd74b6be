/* nitro diff: in what two runs differ: fields and settings, environment, source text, metrics.
 * Not here: which lines of two texts differ (line_diff.c).
 */
#include <stdlib.h>
#include <string.h>

#include "command/command.h"
#include "show/show.h"

enum { MOST_LINES = 40, CELL = 64 };

/* ---- values by name --------------------------------------------------------------------------------------------- */

static const char absent[] = "-";

/* A text as it is, anything else as JSON. */
static void add_json(nt__table *table, const json_t *value) {
    char *text = value && !json_is_string(value) ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    const char *shown = json_is_string(value) ? json_string_value(value) : text;
    nt__table_add(table, value && shown ? shown : absent);
    free(text);
}

/* What is in every line of a type, or differs between any two runs. */
static bool is_compared(const char *name, bool is_environment) {
    if (strcmp(name, "type") == 0) return false;
    return !is_environment || (strcmp(name, "started") != 0 && strcmp(name, "seconds_before") != 0);
}

static void add_difference(nt__table *table, const char *name, const json_t *a, const json_t *b) {
    if (a && b && json_equal(a, b)) return;
    nt__table_add(table, name);
    add_json(table, a);
    add_json(table, b);
}

static bool print_values(const char *title, bool is_environment, json_t *a, json_t *b) {
    const char *name;
    json_t *value;
    nt__table table = {0};
    json_object_foreach(a, name, value) {
        if (is_compared(name, is_environment)) add_difference(&table, name, value, json_object_get(b, name));
    }
    json_object_foreach(b, name, value) {
        bool is_in_both = json_object_get(a, name) != NULL;
        if (!is_in_both && is_compared(name, is_environment)) add_difference(&table, name, NULL, value);
    }
    printf("\n%s%s\n", title, table.cells.count ? "" : ": the same");
    return nt__table_print(&table, 3, stdout);
}

/* ---- source text ------------------------------------------------------------------------------------------------ */

typedef struct printed {
    const char *path;
    size_t count;
} printed;

static void print_line(bool is_new, size_t number, const char *line, void *context) {
    printed *p = context;
    if (p->count++ < MOST_LINES) nt__say_line(stdout, "  %s:%zu %c %s", p->path, number, is_new ? '+' : '-', line);
}

static nt_status print_text(const char *path, const char *a, const char *b) {
    printed p = {.path = path};
    nt_status status = nt__line_diff(a, b, print_line, &p);
    if (p.count > MOST_LINES) nt__say_line(stdout, "  %s: %zu more lines differ", path, p.count - MOST_LINES);
    return status;
}

static nt_status print_sources(json_t *a, json_t *b) {
    const char *path;
    json_t *text;
    nt_status status = NT_OK;
    bool same = json_equal(a, b);
    printf("\nsource%s\n", same ? ": the same" : "");
    json_object_foreach(a, path, text) {
        const char *other = json_string_value(json_object_get(b, path));
        if (!other)
            nt__say_line(stdout, "  %s: only in the first", path);
        else if (status == NT_OK && json_string_value(text))
            status = print_text(path, json_string_value(text), other);
    }
    json_object_foreach(b, path, text) {
        if (!json_object_get(a, path)) nt__say_line(stdout, "  %s: only in the second", path);
    }
    return status;
}

/* ---- metrics ---------------------------------------------------------------------------------------------------- */

enum { METRIC_COLUMNS = 5 };

static const char *last_text(const nt__history *run, const char *name, char out[CELL]) {
    int metric = nt__history_metric(run, name);
    const double *value =
        metric >= 0 && run->row_count ? nt__row_value(&run->rows[run->row_count - 1], (size_t)metric) : NULL;
    snprintf(out, CELL, "%s", absent);
    if (value) nt__format(out, CELL, "%.6g", *value);
    return out;
}

/* "0.5 (23)": with its epoch. */
static const char *best_text(const nt__history *run, const char *name, char out[CELL]) {
    nt__best best;
    snprintf(out, CELL, "%s", absent);
    if (nt__history_metric(run, name) < 0 || nt__history_best(run, name, NULL, &best) != NT_OK || !best.found)
        return out;
    const nt__history_row *row = &run->rows[best.row];
    nt__format(out, CELL, "%.6g (%lld)", *nt__row_value(row, best.metric), (long long)row->epoch);
    return out;
}

static void add_metric(nt__table *table, const char *name, const nt__history *a, const nt__history *b) {
    char cell[CELL];
    nt__table_add(table, name);
    nt__table_add(table, last_text(a, name, cell));
    nt__table_add(table, last_text(b, name, cell));
    nt__table_add(table, best_text(a, name, cell));
    nt__table_add(table, best_text(b, name, cell));
}

static bool print_metrics(const nt__history *a, const nt__history *b) {
    static const char *const header[METRIC_COLUMNS] = {"metric", "last", "last", "best (epoch)", "best (epoch)"};
    nt__table table = {0};
    printf("\nmetrics\n");
    for (size_t i = 0; i < METRIC_COLUMNS; i++) nt__table_add(&table, header[i]);
    for (size_t i = 0; i < a->metric_count; i++) add_metric(&table, a->metrics[i], a, b);
    for (size_t i = 0; i < b->metric_count; i++)
        if (nt__history_metric(a, b->metrics[i]) < 0) add_metric(&table, b->metrics[i], a, b);
    return nt__table_print(&table, METRIC_COLUMNS, stdout);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static void print_run(const char *place, const nt__history *run) {
    nt__say_line(stdout, "%s: %s (%s), %zu epoch%s, %s", place, nt__history_experiment(run), run->folder,
                 run->row_count, run->row_count == 1 ? "" : "s", nt__history_state(run));
    nt__history_notes(run, stdout);
}

static nt_status print_all(const nt__history *a, const nt__history *b) {
    print_run("first", a);
    print_run("second", b);
    if (!print_values("fields and settings", false, a->params, b->params) ||
        !print_values("environment", true, a->environment, b->environment))
        return NT_OUT_OF_MEMORY;
    nt_status status = print_sources(a->sources, b->sources);
    return status == NT_OK && !print_metrics(a, b) ? NT_OUT_OF_MEMORY : status;
}

static nt__exit_code diff(const char *first, const char *second) {
    nt__history a = {0}, b = {0};
    nt_status status = nt__history_read(first, true, &a);
    if (status == NT_OK) status = nt__history_read(second, true, &b);
    if (status == NT_OK) status = print_all(&a, &b);
    nt__history_free(&a);
    nt__history_free(&b);
    return status == NT_OK ? NT__EXIT_DONE : nt__report_failure(status);
}

static nt__exit_code run_diff(const nt__arguments *arguments) {
    nt__command_options options;
    nt_status status = nt__arguments_options(arguments, &options);
    if (status == NT_OK) status = nt__arguments_fields(arguments, NULL, NULL);
    if (status == NT_OK && arguments->files.count != 2)
        status = nt__fail(NT_INVALID, "nitro diff takes two runs, and %zu %s given: write nitro diff RUN RUN",
                          arguments->files.count, arguments->files.count == 1 ? "was" : "were");
    nt__command_options_free(&options);
    if (status != NT_OK) return nt__report_wrong_use(status);
    return diff(arguments->files.items[0], arguments->files.items[1]);
}

static const char manual[] =
    "Prints in what two runs differ: fields and settings, environment, lines of the source files, and their metrics\n"
    "side by side.";

const nt__command nt__diff_command = {
    .name = "diff",
    .does = NT__READS_LOG,
    .operands = "RUN RUN",
    .summary = "in what two runs differ",
    .manual = manual,
    .run = run_diff,
};
