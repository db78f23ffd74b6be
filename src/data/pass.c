/* A pass over a split: in which order its rows come, which of them are in a batch, which fields go to the device.
 * Not here: reading them (batch.c), threads (workers.c).
 */
#include "data/data_internal.h"

#include "base/random.h"

static nt_status find_fields(nt__pass *pass, const nt__stream_options *options) {
    const nt__split *split = pass->split;
    pass->fields = nt__alloc(options->field_count, sizeof *pass->fields);
    if (!pass->fields) return NT_OUT_OF_MEMORY;
    for (; pass->field_count < options->field_count; pass->field_count++) {
        const char *name = options->fields[pass->field_count];
        const nt__split_field *field = nt__split_field_find(split, name);
        if (!field) return nt__fail(NT_NOT_FOUND, "there is no field '%s', there are: %s", name, split->field_names);
        pass->fields[pass->field_count] = (size_t)(field - split->fields);
    }
    return NT_OK;
}

nt_status nt__pass_order_rows(nt__pass *pass, uint64_t seed) {
    if (!pass->split->options.shuffle) return NT_OK;
    size_t rows = (size_t)pass->split->rows;
    pass->order = nt__alloc(rows, sizeof *pass->order);
    if (!pass->order) return NT_OUT_OF_MEMORY;
    nt__key key = nt__key_fold_text(nt__key_of_seed(seed), "shuffle");
    nt__permutation(nt__key_fold(key, (uint32_t)pass->epoch), rows, pass->order);
    return NT_OK;
}

nt_status nt__pass_begin(nt__pass *pass, const nt__split *split, const nt__stream_options *options) {
    *pass = (nt__pass){
        .split = split,
        .engine = options->engine,
        .device = options->device,
        .epoch = options->epoch,
        .batches = nt__split_batches(split),
    };
    nt_status status = find_fields(pass, options);
    if (status == NT_OK) status = nt__pass_order_rows(pass, options->seed);
    return status == NT_OK ? nt__source_begin(split, options->epoch, options->seed) : status;
}

void nt__pass_end(nt__pass *pass) {
    nt__free(pass->order);
    nt__free(pass->fields);
    *pass = (nt__pass){0};
}

nt__rows nt__pass_rows(const nt__pass *pass, int64_t batch) {
    int64_t size = pass->split->options.batch, first = batch * size, left = pass->split->rows - first;
    return (nt__rows){
        .order = pass->order ? pass->order + first : NULL,
        .first = first,
        .count = left < size ? left : size,
    };
}
