/* One batch of a pass: its rows read into memory of the full size, and that memory lent to the device.
 * Not here: which rows they are (pass.c), who does this when (workers.c).
 */
#include "data/data_internal.h"

#include <stdio.h>
#include <string.h>

/* ---- on the host ------------------------------------------------------------------------------------------------ */

static void repeat_last_row(char *data, size_t row_bytes, int64_t rows, int64_t batch) {
    const char *last = data + (size_t)(rows - 1) * row_bytes;
    for (int64_t i = rows; i < batch; i++) memcpy(data + (size_t)i * row_bytes, last, row_bytes);
}

static void normalise_bools(uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) bytes[i] = bytes[i] != 0;
}

/* What every program may rely on: a batch of the full size, bools of 0 and 1. */
static void complete(const nt__split *split, nt_host_batch *batch) {
    for (size_t i = 0; i < split->field_count; i++) {
        const nt_array *array = nt__host_batch_array(batch, i);
        if (!array->data) continue;
        if (array->dtype == NT_BOOL) normalise_bools(array->data, array->bytes);
        repeat_last_row(array->data, nt__field_row_bytes(&split->fields[i]), array->shape.dims[0],
                        split->options.batch);
    }
}

static void read_arrays(const nt__split *split, nt_host_batch *batch) {
    for (size_t i = 0; i < split->field_count; i++) {
        const nt_array *array = nt__host_batch_array(batch, i);
        if (array->data) nt__rows_gather(split, &split->fields[i], nt__host_batch_rows(batch), array->data);
    }
}

/* Rows of arrays can be looked up whenever a hook asks; only what goes to the device is copied. A source fills all. */
static nt_status make_room(const nt__pass *pass, nt_host_batch *batch) {
    bool all = nt__split_has_source(pass->split);
    size_t count = all ? pass->split->field_count : pass->field_count;
    for (size_t i = 0; i < count; i++) {
        size_t field = all ? i : pass->fields[i];
        if (!nt__host_batch_make_room(batch, field))
            return nt__fail_in(NT_OUT_OF_MEMORY, "field '%s'", pass->split->fields[field].name);
    }
    return NT_OK;
}

nt_status nt__batch_read(const nt__pass *pass, int64_t index, nt__staged **out) {
    const nt__split *split = pass->split;
    nt__rows rows = nt__pass_rows(pass, index);
    nt__staged *staged = *out = nt__alloc(1, sizeof *staged);
    if (!staged) return NT_OUT_OF_MEMORY;
    staged->index = index;
    staged->rows = rows.count;
    staged->host = nt__host_batch_new(split, &rows);
    nt_status status = staged->host ? make_room(pass, staged->host) : NT_OUT_OF_MEMORY;
    if (status == NT_OK && nt__split_has_source(split))
        status = nt__source_read(split, pass->epoch, index, staged->host);
    else if (status == NT_OK)
        read_arrays(split, staged->host);
    if (status == NT_OK) complete(split, staged->host);
    return status;
}

/* ---- on the device ---------------------------------------------------------------------------------------------- */

nt_status nt__batch_stage(const nt__pass *pass, nt__staged *staged) {
    staged->buffers = nt__alloc(pass->field_count, sizeof *staged->buffers);
    staged->fields = nt__alloc(pass->field_count, sizeof *staged->fields);
    if (!staged->buffers || !staged->fields) return NT_OUT_OF_MEMORY;
    memcpy(staged->fields, pass->fields, pass->field_count * sizeof *staged->fields);
    staged->buffer_count = pass->field_count;
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < pass->field_count; i++) {
        const nt__split_field *field = &pass->split->fields[pass->fields[i]];
        char name[NT__BUFFER_NAME];
        snprintf(name, sizeof name, "batch.%s", field->name);
        status = nt__buffer_lend(pass->engine, pass->device, name, NT__STAGED, nt__split_field_type(pass->split, field),
                                 nt__host_batch_lend(staged->host, pass->fields[i]), &staged->buffers[i]);
    }
    return status;
}

/* The host's rows may lie in what was lent: nobody looks at them from here on. */
static void take_back(nt__staged *staged) {
    const nt__split_field *fields = nt__host_batch_split(staged->host)->fields;
    for (size_t i = 0; i < staged->buffer_count; i++)
        nt__spare_give(&fields[staged->fields[i]], nt__buffer_take_back(&staged->buffers[i]));
}

void nt__staged_free(nt__staged *staged) {
    if (!staged) return;
    if (staged->buffer_count) take_back(staged);
    nt__free(staged->buffers);
    nt__free(staged->fields);
    nt__host_batch_free(staged->host);
    nt__free(staged);
}
