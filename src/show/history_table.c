/* The epochs of a run as a table that fits a terminal: rows in the middle and columns on the right give way first.
 * Not here: which rows and columns are asked for (history.c).
 */
#include <math.h>
#include <string.h>

#include "show/show.h"

enum { CELL = 48, FIXED = 3, LEAST_ROWS = 5, LINES_AROUND = 9 };
static const char ellipsis[] = "\u22ee", green[] = "\033[32m", dim[] = "\033[2m", plain[] = "\033[0m";

/* ---- cells ------------------------------------------------------------------------------------------------------ */

typedef struct column {
    const char *label;
    size_t metric;
    int decimals; /* -1: 4 significant digits */
    bool whole;   /* all its numbers are */
    size_t width;
} column;

enum { EPOCH, STEP, METRICS }; /* the first columns */

typedef struct table {
    nt__arena arena; /* of the labels */
    const nt__history_view *view;
    column *columns;
    size_t count, dropped;
    bool *kept; /* one a row of the view */
    size_t shown;
} table;

static const nt__history_row *row_at(const table *t, size_t i) {
    return &t->view->history->rows[t->view->first + i];
}

static void choose_decimals(const table *t, column *c) {
    double smallest = INFINITY, largest = 0;
    c->whole = true;
    for (size_t i = 0; i < t->view->count; i++) {
        const double *value = t->kept[i] ? nt__row_value(row_at(t, i), c->metric) : NULL;
        if (!value || !isfinite(*value)) continue;
        c->whole = c->whole && *value == trunc(*value);
        if (*value == 0) continue;
        smallest = fmin(smallest, fabs(*value));
        largest = fmax(largest, fabs(*value));
    }
    if (largest == 0)
        c->decimals = 0;
    else if (smallest < 1e-4 || largest >= 1e6)
        c->decimals = -1;
    else
        c->decimals = (int)fmin(fmax(3 - floor(log10(smallest)), 0), 6);
}

static const char *number_text(const column *c, double value, char out[CELL]) {
    if (!isfinite(value) || c->decimals < 0)
        nt__format(out, CELL, "%.4g", nt__plain_nan(value));
    else
        nt__format(out, CELL, "%.*f", c->whole ? 0 : c->decimals, value);
    if (c->whole && fabs(value) >= 1e15) nt__format(out, CELL, "%.4g", value);
    return out;
}

static const char *cell_text(const table *t, const nt__history_row *row, size_t place, char out[CELL]) {
    const column *c = &t->columns[place];
    const double *value = place >= METRICS ? nt__row_value(row, c->metric) : NULL;
    out[0] = 0;
    if (place < METRICS)
        snprintf(out, CELL, "%lld", (long long)(place == EPOCH ? row->epoch : row->step));
    else if (value)
        number_text(c, *value, out);
    return out;
}

static void measure(const table *t, size_t place) {
    char text[CELL];
    column *c = &t->columns[place];
    c->width = nt__shown_width(c->label);
    for (size_t i = 0; i < t->view->count; i++) {
        size_t length = t->kept[i] ? strlen(cell_text(t, row_at(t, i), place, text)) : 0;
        if (length > c->width) c->width = length;
    }
}

/* ---- what fits -------------------------------------------------------------------------------------------------- */

static size_t best_row(const nt__history_view *view) {
    bool is_shown = view->best->found && view->best->row >= view->first && view->best->row - view->first < view->count;
    return is_shown ? view->best->row - view->first : view->count;
}

static size_t budget_of(const nt__history_view *view) {
    size_t rows = view->screen.rows;
    if (!rows) return view->count;
    return rows > LINES_AROUND + LEAST_ROWS ? rows - LINES_AROUND : LEAST_ROWS;
}

/* Two blanks in front of each column, and the mark. */
static size_t width_of(const table *t) {
    size_t width = 2 + 3;
    for (size_t i = 0; i < t->count; i++) width += t->columns[i].width + 2;
    return width;
}

static void drop_columns(table *t) {
    size_t fixed = t->view->best->found ? FIXED + 1 : FIXED;
    while (t->view->screen.columns && t->count > fixed && width_of(t) > t->view->screen.columns) {
        t->count--;
        t->dropped++;
    }
}

/* NULL: memory is short. */
static const char *show_label(table *t, const char *name) {
    nt__text shown = {0};
    nt__text_show(&shown, name, "");
    const char *label = shown.failed ? NULL : nt__arena_strdup(&t->arena, shown.data ? shown.data : "");
    nt__text_free(&shown);
    return label;
}

static bool lay_out(table *t) {
    const nt__history_view *view = t->view;
    t->count = METRICS + view->column_count;
    t->columns = nt__alloc(t->count, sizeof *t->columns);
    t->kept = nt__alloc(view->count + 1, sizeof *t->kept);
    if (!t->columns || !t->kept) return false;
    t->shown = nt__thin_rows(view->count, best_row(view), budget_of(view), t->kept);
    t->columns[EPOCH].label = "epoch";
    t->columns[STEP].label = "step";
    for (size_t i = 0; i < t->count; i++) {
        if (i >= METRICS) {
            t->columns[i].metric = view->columns[i - METRICS];
            t->columns[i].label = show_label(t, view->history->metrics[t->columns[i].metric]);
            if (!t->columns[i].label) return false;
            choose_decimals(t, &t->columns[i]);
        }
        measure(t, i);
    }
    drop_columns(t);
    return true;
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static void print_row(const table *t, size_t i, FILE *out) {
    char text[CELL];
    bool is_best = i == best_row(t->view), coloured = is_best && t->view->screen.colours;
    if (coloured) fputs(green, out);
    for (size_t place = 0; place < t->count; place++)
        fprintf(out, "  %*s", (int)t->columns[place].width, cell_text(t, row_at(t, i), place, text));
    fprintf(out, "%s%s\n", is_best ? " *" : "", coloured ? plain : "");
}

static void print_gap(const table *t, FILE *out) {
    bool coloured = t->view->screen.colours;
    fprintf(out, "%s  %*s%s%s\n", coloured ? dim : "", (int)t->columns[EPOCH].width - 1, "", ellipsis,
            coloured ? plain : "");
}

static void print_rows(const table *t, FILE *out) {
    for (size_t i = 0; i < t->count; i++) {
        fputs("  ", out);
        nt__cell_right(out, t->columns[i].width, t->columns[i].label);
    }
    fputc('\n', out);
    for (size_t i = 0; i < t->view->count; i++) {
        if (t->kept[i])
            print_row(t, i, out);
        else if (t->kept[i - 1])
            print_gap(t, out);
    }
}

static void print_title(const table *t, FILE *out) {
    const nt__history *history = t->view->history;
    size_t metrics = history->metric_count - 1;
    nt__say(out, "%s (%s): ", nt__history_experiment(history), history->folder);
    if (t->shown < history->row_count) fprintf(out, "%zu of ", t->shown);
    fprintf(out, "%zu epoch%s", history->row_count, history->row_count == 1 ? "" : "s");
    if (history->row_count)
        fprintf(out, " (%lld to %lld)", (long long)history->rows[0].epoch,
                (long long)history->rows[history->row_count - 1].epoch);
    nt__say_line(out, ", %zu metric%s, %s", metrics, metrics == 1 ? "" : "s", nt__history_state(history));
}

/* ---- notes ------------------------------------------------------------------------------------------------------ */

static void note_best(const table *t, FILE *out) {
    char text[CELL];
    const nt__best *best = t->view->best;
    if (best->direction == NT__DIRECTION_UNKNOWN)
        nt__say_line(out,
                     "no best is marked: the name '%s' does not say which values are better; give --mode=max or min",
                     t->view->history->metrics[best->metric]);
    if (!best->found) return;
    const nt__history_row *row = &t->view->history->rows[best->row];
    column c = {.metric = best->metric, .decimals = -1};
    for (size_t i = METRICS; i < t->count; i++)
        if (t->columns[i].metric == best->metric) c = t->columns[i];
    nt__say_line(out, "* best %s (%s): %s in epoch %lld", t->view->history->metrics[best->metric],
                 best->direction == NT__LARGER_IS_BETTER ? "max" : "min",
                 number_text(&c, *nt__row_value(row, best->metric), text), (long long)row->epoch);
}

/* As many rows as fit, around the best one or else the last one. */
static void note_thinned(const table *t, FILE *out) {
    const nt__history_view *view = t->view;
    if (t->shown == view->count) return;
    int64_t budget = (int64_t)budget_of(view), n = (int64_t)view->count;
    int64_t centre = best_row(view) < view->count ? (int64_t)best_row(view) + 1 : n;
    int64_t low = centre - budget / 2, most = n - budget + 1;
    low = low > most ? most : low;
    low = low < 1 ? 1 : low;
    fprintf(out, "%zu epochs are not shown: --epochs=%lld:%lld shows those without a gap\n", view->count - t->shown,
            (long long)row_at(t, (size_t)low - 1)->epoch, (long long)row_at(t, (size_t)(low + budget) - 2)->epoch);
}

static void note_dropped(const table *t, FILE *out) {
    if (!t->dropped) return;
    fprintf(out, "not shown, for want of width:");
    for (size_t i = 0; i < t->dropped; i++) fprintf(out, "%s %s", i ? "," : "", t->columns[t->count + i].label);
    fprintf(out, "; --metric=%s shows one\n", t->columns[t->count].label);
}

static void note_earlier(const table *t, FILE *out) {
    const nt__history *history = t->view->history;
    if (history->row_count && history->rows[0].epoch > 1)
        fprintf(out, "epochs before %lld are not in this log\n", (long long)history->rows[0].epoch);
}

void nt__history_notes(const nt__history *history, FILE *out) {
    if (!history->status && history->step)
        fprintf(out, "the log ends at step %lld of epoch %lld\n", (long long)history->step, (long long)history->epoch);
    if (history->torn)
        fprintf(out,
                "the last line has no end (%zu bytes) and is left out: it was being written, or the run was killed\n",
                history->torn);
    if (history->odd_lines)
        fprintf(out, "%lld line%s no JSON object and %s left out, the first is line %lld\n",
                (long long)history->odd_lines, history->odd_lines == 1 ? " is" : "s are",
                history->odd_lines == 1 ? "is" : "are", (long long)history->first_odd);
}

bool nt__history_show(const nt__history_view *view, FILE *out) {
    table t = {.view = view};
    bool good = lay_out(&t);
    if (good) {
        print_title(&t, out);
        if (view->count) print_rows(&t, out);
        note_best(&t, out);
        note_thinned(&t, out);
        note_dropped(&t, out);
        note_earlier(&t, out);
        nt__history_notes(view->history, out);
    }
    nt__arena_free(&t.arena);
    nt__free(t.columns);
    nt__free(t.kept);
    return good;
}
