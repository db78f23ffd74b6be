/* The summary of a model: its parameters and layer states as a table, with totals.
 * Not here: how the groups are trained (report_groups.c), the fields (print.c).
 */
#include <string.h>

#include "report/report.h"

/* ---- tables ----------------------------------------------------------------------------------------------------- */

enum { PATH, SHAPE, TYPE, COUNT, BYTES, GROUP, COLUMNS };

typedef struct line {
    const char *cells[COLUMNS];
} line;

typedef struct table {
    nt__arena arena;
    line *lines;
    size_t count, capacity;
    bool failed;
} table;

/* Adds a copy of the cells, with escapes for what a terminal would obey. */
static void add_line(table *t, const char *const *cells) {
    if (t->failed || !NT__GROW(t->lines, t->count, t->capacity)) {
        t->failed = true;
        return;
    }
    for (size_t i = 0; i < COLUMNS; i++) {
        nt__text shown = {0};
        nt__text_show(&shown, cells[i], "");
        t->lines[t->count].cells[i] = nt__arena_strdup(&t->arena, shown.data ? shown.data : "");
        t->failed |= shown.failed || !t->lines[t->count].cells[i];
        nt__text_free(&shown);
    }
    t->count++;
}

static int width_of(const table *t, size_t column) {
    size_t widest = 0;
    for (size_t i = 0; i < t->count; i++) {
        size_t width = nt__shown_width(t->lines[i].cells[column]);
        if (width > widest) widest = width;
    }
    return (int)widest;
}

/* Numbers end below one another. Nothing stands after the last cell that has text. */
static void print_line(const line *l, const int *widths, nt__text *out) {
    size_t columns = COLUMNS;
    while (columns && !*l->cells[columns - 1]) columns--;
    for (size_t i = 0; i < columns; i++) {
        bool is_number = i == COUNT || i == BYTES;
        int gap = widths[i] - (int)nt__shown_width(l->cells[i]), behind = i + 1 == columns ? 0 : gap;
        nt__text_add(out, "  %*s%s%*s", is_number ? gap : 0, "", l->cells[i], is_number ? 0 : behind, "");
    }
    nt__text_add(out, "\n");
}

/* Also frees the table. */
static void print_table(table *t, nt__text *out) {
    int widths[COLUMNS] = {0};
    out->failed |= t->failed;
    for (size_t i = 0; i < COLUMNS && !t->failed; i++) widths[i] = width_of(t, i);
    for (size_t i = 0; i < t->count && !t->failed; i++) print_line(&t->lines[i], widths, out);
    nt__arena_free(&t->arena);
    nt__free(t->lines);
}

/* ---- arrays of the model ---------------------------------------------------------------------------------------- */

/* Of arrays that were listed. */
typedef struct total {
    size_t arrays;
    int64_t elements, bytes;
} total;

static void count_in(total *sum, nt__type type) {
    int64_t elements = nt_shape_elements(type.shape);
    sum->arrays++;
    sum->elements += elements;
    sum->bytes += elements * (int64_t)nt_dtype_size(type.dtype);
}

/* The sizes stand for the cells COUNT and BYTES. */
static void add_sizes(table *t, const char **cells, const total *sizes) {
    nt__text count = {0}, bytes = {0};
    nt__add_count(sizes->elements, &count);
    nt__add_count(sizes->bytes, &bytes);
    t->failed |= count.failed || bytes.failed;
    cells[COUNT] = count.data;
    cells[BYTES] = bytes.data;
    if (!t->failed) add_line(t, cells);
    nt__text_free(&count);
    nt__text_free(&bytes);
}

static void add_array(table *t, const char *path, nt__type type, const char *group, total *sum) {
    char shape[NT__TYPE_TEXT];
    total own = {0};
    count_in(&own, type);
    count_in(sum, type);
    const char *cells[COLUMNS] = {path, nt__shape_text(type.shape, shape), nt_dtype_name(type.dtype), "", "", group};
    add_sizes(t, cells, &own);
}

static void add_total(table *t, const char *group, const total *sum) {
    char arrays[64];
    snprintf(arrays, sizeof arrays, "%zu array%s", sum->arrays, sum->arrays == 1 ? "" : "s");
    const char *cells[COLUMNS] = {"total", arrays, "", "", "", group};
    add_sizes(t, cells, sum);
}

static table begin_table(bool has_groups) {
    table t = {.count = 0};
    add_line(&t, (const char *const[COLUMNS]){"path", "shape", "type", "count", "bytes", has_groups ? "group" : ""});
    return t;
}

/* A group's total has the group beside it; one group alone has all there is. */
static void add_group_totals(table *t, const nt__layout *layout) {
    for (size_t g = 0; layout->group_count > 1 && g < layout->group_count; g++) {
        total sum = {0};
        for (size_t i = 0; i < layout->row_count; i++)
            if (layout->rows[i].group == (int)g) count_in(&sum, layout->rows[i].type);
        add_total(t, layout->groups[g].name, &sum);
    }
}

static void add_parameters(const nt__traced *traced, nt__text *out) {
    const nt__layout *layout = &traced->layout;
    table t = begin_table(true);
    total sum = {0};
    for (size_t i = 0; i < layout->row_count; i++) {
        const nt__row *row = &layout->rows[i];
        add_array(&t, row->path, row->type, layout->groups[row->group].name, &sum);
    }
    add_group_totals(&t, layout);
    add_total(&t, "", &sum);
    nt__text_add(out, "parameters\n");
    print_table(&t, out);
}

static void add_states(const nt__traced *traced, nt__text *out) {
    table t = begin_table(false);
    total sum = {0};
    const nt__leaf *state;
    size_t place;
    for (size_t i = 0; (state = nt__layer_state(traced, i, &place)); i++)
        add_array(&t, state->path, state->type, "", &sum);
    add_total(&t, "", &sum);
    nt__text_add(out, "layer states\n");
    print_table(&t, out);
}

/* What layers compute in where it is not what the parameters have. */
static void add_title(const nt__task *task, nt__text *out) {
    nt__text_add(out, "%s", task->experiment->name);
    if (nt__compute_dtype(&task->settings) != NT_F32)
        nt__text_add(out, ", layers compute in %s", task->settings.compute_dtype);
    nt__text_add(out, "\n");
}

void nt__summary_add(const nt__traced *traced, nt__text *out) {
    size_t place;
    add_title(traced->task, out);
    add_parameters(traced, out);
    if (nt__layer_state(traced, 0, &place)) add_states(traced, out);
}
