/* The rows of a batch on the host, as metrics hooks see them, and what such hooks count.
 * Not here: the rows on the device (stream.c), combining values over batches (metrics.c).
 */
#include "data/data_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MISSING_NAME = 128 };

/* What asking leaves behind. A hook has its batch as const; for it, asking changes nothing. */
typedef struct asked {
    char missing[MISSING_NAME];    /* "" while every field asked for was there */
    const nt__split_field *failed; /* memory for its rows was short */
    nt_array *stand_in;            /* what a hook gets for a field that is not there */
    nt_array fields[];             /* one for each field of the split; `data` is NULL until it is asked for */
} asked;

struct nt_host_batch {
    const nt__split *split;
    nt__rows rows;
    uint32_t *order; /* what rows.order points to; NULL when the rows are contiguous in the split's arrays */
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
    batch->notes = nt__alloc(1, sizeof *batch->notes + batch->split->field_count * sizeof *batch->notes->fields);
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

/* Rows of a contiguous batch lie in the split's own arrays. */
static bool owns_rows(const nt_host_batch *batch) {
    return batch->order && batch->notes;
}

void nt__host_batch_free(nt_host_batch *batch) {
    if (!batch) return;
    for (size_t i = 0; owns_rows(batch) && i < batch->split->field_count; i++) nt__free(batch->notes->fields[i].data);
    if (batch->notes) nt_array_free(batch->notes->stand_in);
    nt__free(batch->notes);
    nt__free(batch->order);
    nt__free(batch);
}

/* ---- fields ----------------------------------------------------------------------------------------------------- */

/* Address of the batch's rows of a field: in the split's array, or a copy of them; NULL when memory is short. */
static void *rows_of(const nt_host_batch *batch, const nt__split_field *field, size_t bytes) {
    if (!batch->order) return nt__split_row(batch->split, field, batch->rows.first);
    void *copy = nt__alloc_aligned(bytes);
    if (copy) nt__rows_gather(batch->split, field, &batch->rows, copy);
    return copy;
}

static const nt_array nothing = {.dtype = NT_I64, .shape = {.rank = 1}};

/* Zeros, one for each row: a hook that does not look for NULL goes on with them, and the error is raised after it. */
static const nt_array *stand_in(const nt_host_batch *batch) {
    asked *notes = batch->notes;
    if (!notes->stand_in) notes->stand_in = nt_array_new(NT_I64, nt_dims(batch->rows.count));
    return notes->stand_in ? notes->stand_in : &nothing;
}

static const nt_array *fill(const nt_host_batch *batch, const nt__split_field *field, nt_array *array) {
    size_t bytes = (size_t)batch->rows.count * nt__field_row_bytes(field);
    void *data = rows_of(batch, field, bytes);
    if (!data) {
        batch->notes->failed = field;
        return stand_in(batch);
    }
    *array = (nt_array){field->array->dtype, field->array->shape, bytes, data, .references = 1};
    array->shape.dims[0] = batch->rows.count;
    return array;
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
    nt_array *array = &batch->notes->fields[found - batch->split->fields];
    return array->data ? array : fill(batch, found, array);
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
             nt__type_text((nt__type){scores->dtype, scores->shape}, scores_text),
             nt__type_text((nt__type){labels->dtype, labels->shape}, labels_text));
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
