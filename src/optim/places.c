/* Sums over each array of a group, and numbers of each array spread over its elements, by programs that do not grow
 * with the arrays. The flat tensor is cut into rows. A row that lies in one array is summed as it is; only the elements
 * of rows that hold more than one array are looked at one by one. Three tables say which is which: inputs, so that no
 * text holds them. Not here: the arrays as matrices (arrays.c).
 */
#include "optim/rules.h"

enum { ROW = 256 };

/* ---- the tables on the host ------------------------------------------------------------------------------------- */

/* Walks the rows; `array` is the one that holds the row's first element. */
typedef struct walk {
    const nt__group *group;
    size_t array;
    int64_t start, limit; /* elements of the row; the last row may be short */
} walk;

static walk first_row(const nt__group *group) {
    return (walk){.group = group, .limit = group->length < ROW ? group->length : ROW};
}

static const nt_rule_array *array_of(const walk *w) {
    return &w->group->arrays[w->array];
}

static void skip_to(walk *w, int64_t element) {
    while (w->array + 1 < w->group->array_count && array_of(w)->offset + array_of(w)->length <= element) w->array++;
}

static bool next_row(walk *w) {
    w->start += ROW;
    w->limit = w->group->length < w->start + ROW ? w->group->length : w->start + ROW;
    return w->start < w->group->length;
}

/* Whether it is whole and lies in one array. */
static bool is_plain(walk *w) {
    skip_to(w, w->start);
    return w->limit - w->start == ROW && array_of(w)->offset + array_of(w)->length >= w->limit;
}

static int64_t count_single(const nt__group *group) {
    int64_t count = 0;
    walk w = first_row(group);
    do {
        if (!is_plain(&w)) count += w.limit - w.start;
    } while (next_row(&w));
    return count;
}

static nt_dtype place_dtype(const nt__group *group) {
    return group->length > INT32_MAX ? NT_I64 : NT_I32;
}

nt__type nt__place_type(const nt__group *group, int table) {
    return (nt__type){place_dtype(group), nt_dims(table == NT__PLACE_ROWS ? group->length / ROW : count_single(group))};
}

/* The array of each row; one past the last for a row with several. */
static void fill_rows(const nt__group *group, nt_dtype dtype, char *out) {
    walk w = first_row(group);
    do {
        if (w.limit - w.start < ROW) return;
        size_t array = is_plain(&w) ? w.array : group->array_count;
        nt__element_set(dtype, out + (size_t)(w.start / ROW) * nt_dtype_size(dtype), (double)array);
    } while (next_row(&w));
}

/* The elements that are looked at one by one: their places, or their arrays. */
static void fill_single(const nt__group *group, bool arrays, nt_dtype dtype, char *out) {
    walk w = first_row(group);
    do {
        if (is_plain(&w)) continue;
        for (int64_t i = w.start; i < w.limit; i++, out += nt_dtype_size(dtype)) {
            skip_to(&w, i);
            nt__element_set(dtype, out, arrays ? (double)w.array : (double)i);
        }
    } while (next_row(&w));
}

void nt__place_fill(const nt__group *group, int table, void *out) {
    nt_dtype dtype = place_dtype(group);
    if (table == NT__PLACE_ROWS)
        fill_rows(group, dtype, out);
    else
        fill_single(group, table == NT__PLACE_ARRAYS, dtype, out);
}

/* ---- traced ----------------------------------------------------------------------------------------------------- */

static int64_t length_of(nt_tensor x) {
    return nt_shape_of(x).dims[0];
}

/* Where a kind forgot to say uses_arrays there are no tables. */
static bool has_places(const nt_update *u, const char *call) {
    if (u->places) return true;
    nt__trace_fail((nt_site){0}, call, "the rule's kind does not say .uses_arrays = true");
    return false;
}

nt_tensor nt_update_sums(const nt_update *u, nt_tensor x) {
    if (!has_places(u, "nt_update_sums")) return nt__failed();
    const nt_tensor *places = u->places;
    int64_t arrays = (int64_t)u->array_count, rows = length_of(places[NT__PLACE_ROWS]);
    nt_tensor sums = nt_full(NT_F64, nt_dims(arrays), 0);
    if (rows) {
        nt_tensor whole = nt_reshape(nt_slice(x, nt_dims(0), nt_dims(rows * ROW)), rows, ROW);
        sums = nt_scatter_add(sums, places[NT__PLACE_ROWS], nt_convert(nt_sum(whole, 1), NT_F64), 0);
    }
    if (!length_of(places[NT__PLACE_ELEMENTS])) return sums;
    nt_tensor single = nt_take(x, places[NT__PLACE_ELEMENTS], 0);
    return nt_scatter_add(sums, places[NT__PLACE_ARRAYS], nt_convert(single, NT_F64), 0);
}

nt_tensor nt_update_spread(const nt_update *u, nt_tensor values) {
    if (!has_places(u, "nt_update_spread")) return nt__failed();
    const nt_tensor *places = u->places;
    int64_t rows = length_of(places[NT__PLACE_ROWS]);
    nt_tensor flat = nt_full(nt_dtype_of(values), nt_shape_of(u->x), 0);
    if (rows) {
        nt_tensor column = nt_reshape(nt_take(values, places[NT__PLACE_ROWS], 0), rows, 1);
        nt_tensor whole = nt_reshape(nt_broadcast(column, nt_dims(rows, ROW)), rows * ROW);
        flat = nt_update_slice(flat, whole, nt_dims(0));
    }
    if (!length_of(places[NT__PLACE_ELEMENTS])) return flat;
    nt_tensor single = nt_take(values, places[NT__PLACE_ARRAYS], 0);
    return nt_scatter_set(flat, places[NT__PLACE_ELEMENTS], single, 0);
}
