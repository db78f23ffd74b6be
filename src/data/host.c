/* The rows of a batch on the host, as metrics hooks see them, and what such hooks count.
 * Not here: filling them (batch.c), combining values over batches (metrics.c).
 */
#include "data/data_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MISSING_NAME = 128 };

/* The rows of one field. */
typedef struct field_rows {
    nt_array array; /* `data` is NULL until they were read or asked for */
    bool owned;     /* else they lie in the split's array or in what was lent to the device */
} field_rows;

/* What asking leaves after. A hook has its batch as const; for it, asking changes nothing. */
typedef struct asked {
    char missing[MISSING_NAME];    /* "" while every field asked for was there */
    const nt__split_field *failed; /* memory for its rows was short */
    nt_array *stand_in;            /* what a hook gets for a field that is not there */
    field_rows fields[];           /* one for each field of the split */
} asked;

struct nt_host_batch {
    const nt__split *split;
    nt__rows rows;
    uint32_t *order; /* what rows.order points to; NULL when the rows are in order */
    asked *notes;
};

/* ---- making and freeing ----------------------------------------------------------------------------------------- */

static bool copy_order(nt_host_batch *batch) {
    if (!batch->rows.order) return true;
    batch->order = nt__alloc((size_t)batch->rows.count, sizeof *batch->order);
    if (!batch->order) return false;
    memcpy(batch->order, batch->rows.order, (size_t)batch->rows.count * sizeof *batch->order);
    batch->rows.order = batch->order;
    return true;
}

static bool make_notes(nt_host_batch *batch) {
    const nt__split *split = batch->split;
    batch->notes = nt__alloc(1, sizeof *batch->notes + split->field_count * sizeof *batch->notes->fields);
    for (size_t i = 0; batch->notes && i < split->field_count; i++) {
        nt__type type = nt__field_type(&split->fields[i], batch->rows.count);
        size_t bytes = (size_t)batch->rows.count * nt__field_row_bytes(&split->fields[i]);
        batch->notes->fields[i].array = (nt_array){type.dtype, type.shape, bytes, NULL, .references = 1};
    }
    return batch->notes;
}

nt_host_batch *nt__host_batch_new(const nt__split *split, const nt__rows *rows) {
    nt_host_batch *batch = nt__alloc(1, sizeof *batch);
    if (!batch) return NULL;
    *batch = (nt_host_batch){.split = split, .rows = *rows};
    if (copy_order(batch) && make_notes(batch)) return batch;
    nt__host_batch_free(batch);
    return NULL;
}

static void free_notes(nt_host_batch *batch) {
    asked *notes = batch->notes;
    if (!notes) return;
    for (size_t i = 0; i < batch->split->field_count; i++)
        if (notes->fields[i].owned) nt__spare_give(&batch->split->fields[i], notes->fields[i].array.data);
    nt_array_free(notes->stand_in);
    nt__free(notes);
}

void nt__host_batch_free(nt_host_batch *batch) {
    if (!batch) return;
    free_notes(batch);
    nt__free(batch->order);
    nt__free(batch);
}

/* ---- what is read ahead ----------------------------------------------------------------------------------------- */

bool nt__host_batch_make_room(nt_host_batch *batch, size_t field) {
    field_rows *rows = &batch->notes->fields[field];
    rows->array.data = nt__spare_take(batch->split, &batch->split->fields[field]);
    rows->owned = rows->array.data != NULL;
    return rows->owned;
}

nt_array *nt__host_batch_array(nt_host_batch *batch, size_t field) {
    return &batch->notes->fields[field].array;
}

void *nt__host_batch_lend(nt_host_batch *batch, size_t field) {
    batch->notes->fields[field].owned = false;
    return batch->notes->fields[field].array.data;
}

const nt__split *nt__host_batch_split(const nt_host_batch *batch) {
    return batch->split;
}

const nt__rows *nt__host_batch_rows(const nt_host_batch *batch) {
    return &batch->rows;
}

/* ---- fields ----------------------------------------------------------------------------------------------------- */

static const nt_array nothing = {.dtype = NT_I64, .shape = {.rank = 1}};

/* Zeros, one for each row: a hook that does not look for NULL goes on with them, and the error is raised after it. */
static const nt_array *stand_in(const nt_host_batch *batch) {
    asked *notes = batch->notes;
    if (!notes->stand_in) notes->stand_in = nt_array_new(NT_I64, nt_dims(batch->rows.count));
    return notes->stand_in ? notes->stand_in : &nothing;
}

/* Rows in order lie one after the other in the split's array; others are copied together. */
static const nt_array *look_up(const nt_host_batch *batch, const nt__split_field *field, field_rows *rows) {
    if (!batch->order) {
        rows->array.data = nt__split_row(batch->split, field, batch->rows.first);
        return &rows->array;
    }
    rows->array.data = nt__spare_take(batch->split, field);
    rows->owned = rows->array.data != NULL;
    if (!rows->owned) {
        batch->notes->failed = field;
        return stand_in(batch);
    }
    nt__rows_gather(batch->split, field, &batch->rows, rows->array.data);
    return &rows->array;
}

static const nt_array *note_missing(const nt_host_batch *batch, const char *field) {
    char *missing = batch->notes->missing;
    if (!*missing) snprintf(missing, MISSING_NAME, "%s", field);
    return stand_in(batch);
}

const nt_array *nt_host_field(const nt_host_batch *batch, const char *field) {
    if (!nt__given(batch, "nt_host_field", "batch")) return &nothing;
    if (!nt__given(field, "nt_host_field", "field")) field = "(no name: NULL)";
    const nt__split_field *found = nt__split_field_find(batch->split, field);
    if (!found) return note_missing(batch, field);
    field_rows *rows = &batch->notes->fields[found - batch->split->fields];
    return rows->array.data ? &rows->array : look_up(batch, found, rows);
}

nt_status nt__host_batch_status(const nt_host_batch *batch) {
    const asked *notes = batch->notes;
    if (notes->failed)
        return nt__fail(NT_OUT_OF_MEMORY, "out of host memory for %" PRId64 " rows of field '%s' of split '%s'",
                        batch->rows.count, notes->failed->name, batch->split->name);
    if (*notes->missing)
        return nt__fail(NT_NOT_FOUND, "field '%s' was asked for, split '%s' has: %s", notes->missing,
                        batch->split->name, batch->split->field_names);
    return NT_OK;
}

/* ---- counting --------------------------------------------------------------------------------------------------- */

static bool can_count(const nt_array *scores, const nt_array *labels) {
    return nt_dtype_is_float(scores->dtype) && !nt_dtype_is_float(labels->dtype) && scores->shape.rank == 2 &&
           labels->shape.rank == 1 && scores->shape.dims[0] == labels->shape.dims[0];
}

static bool check_count(const nt_array *scores, const nt_array *labels) {
    if (!nt__given(scores, "nt_count_correct", "scores") || !nt__given(labels, "nt_count_correct", "labels"))
        return false;
    if (can_count(scores, labels)) return true;
    char scores_text[NT__TYPE_TEXT], labels_text[NT__TYPE_TEXT];
    nt__fail(NT_INVALID,
             "nt_count_correct: scores %s and labels %s: scores must be [n, classes] of a floating type, labels [n] of "
             "an integer type",
             nt__type_text(nt__array_type(scores), scores_text), nt__type_text(nt__array_type(labels), labels_text));
    return false;
}

/* Index of the first largest of `count` numbers; -1 when one is nan or there is none. */
static int64_t first_largest(nt_dtype dtype, const char *row, int64_t count) {
    size_t size = nt_dtype_size(dtype);
    int64_t best = -1;
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double value = nt__element_get(dtype, row + (size_t)i * size);
        if (isnan(value)) return -1;
        if (best >= 0 && value <= largest) continue;
        best = i;
        largest = value;
    }
    return best;
}

int64_t nt_count_correct(const nt_array *scores, const nt_array *labels) {
    if (!check_count(scores, labels)) return -1;
    int64_t rows = scores->shape.dims[0], classes = scores->shape.dims[1], correct = 0;
    size_t row_bytes = (size_t)classes * nt_dtype_size(scores->dtype);
    const char *row = scores->data;
    for (int64_t i = 0; i < rows; i++, row += row_bytes) {
        int64_t best = first_largest(scores->dtype, row, classes);
        correct += best >= 0 && nt_array_get(labels, i) == (double)best;
    }
    return correct;
}
