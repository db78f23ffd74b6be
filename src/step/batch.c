/* The batch that hooks see: its fields, and which of them each kind of pass sends to the device.
 * Not here: reading and staging batches (the folder data).
 */
#include <string.h>

#include "step/tracing.h"

/* ---- fields ----------------------------------------------------------------------------------------------------- */

nt__batch_field *nt__batch_new(nt__traced *traced, size_t count, int64_t size) {
    nt__batch_field *fields = nt__arena_alloc(&traced->task->arena, count, sizeof *fields);
    nt_tensor *inputs = nt__arena_alloc(&traced->task->arena, count, sizeof *inputs);
    if (!fields || !inputs) return NULL;
    traced->batch_size = size;
    traced->batch_fields = fields;
    traced->batch = (nt_batch){.fields = fields, .count = count, .role = NT__ROLE_BATCH, .inputs = inputs};
    return fields;
}

/* The fields of a batch, from the split that training uses, else from the first one. */
nt_status nt__batch_list(nt__traced *traced) {
    const nt__split *split = traced->train ? traced->train : nt__data_split_at(traced->data, 0);
    nt__batch_field *fields = nt__batch_new(traced, split->field_count, split->options.batch);
    for (size_t i = 0; fields && i < split->field_count; i++)
        fields[i] = (nt__batch_field){split->fields[i].name, nt__split_field_type(split, &split->fields[i])};
    return fields ? NT_OK : NT_OUT_OF_MEMORY;
}

/* The field of a prediction that came without a name has the one it was read under. */
void nt__batch_name_field(nt__traced *traced) {
    for (size_t i = 0; i < traced->batch.count; i++)
        if (!traced->batch_fields[i].name) traced->batch_fields[i].name = traced->batch.taken;
}

/* ---- which batch fields go to the device ------------------------------------------------------------------------ */

static void mark_routes(const nt__program *program, bool *used) {
    size_t count;
    const nt__argument *arguments = program ? nt__program_arguments(program, &count) : NULL;
    for (size_t i = 0; arguments && i < count; i++)
        if (arguments[i].role == NT__ROLE_BATCH) used[arguments[i].index] = true;
}

static nt_status list_routes(nt__traced *traced, const bool *used, nt__routes *routes) {
    routes->names = nt__arena_alloc(&traced->task->arena, traced->batch.count + 1, sizeof *routes->names);
    routes->position = nt__arena_alloc(&traced->task->arena, traced->batch.count + 1, sizeof *routes->position);
    if (!routes->names || !routes->position) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < traced->batch.count; i++) {
        routes->position[i] = used[i] ? (int)routes->count : -1;
        if (used[i]) routes->names[routes->count++] = traced->batch_fields[i].name;
    }
    return NT_OK;
}

nt_status nt__routes_list(nt__traced *traced) {
    bool *used = nt__arena_alloc(&traced->task->arena, traced->batch.count + 1, sizeof *used);
    if (!used) return NT_OUT_OF_MEMORY;
    mark_routes(traced->programs.gradient, used);
    mark_routes(traced->programs.manual_step, used);
    nt_status status = list_routes(traced, used, &traced->routes.train);
    memset(used, 0, sizeof *used * traced->batch.count);
    mark_routes(traced->programs.forward, used);
    if (status == NT_OK) status = list_routes(traced, used, &traced->routes.prediction);
    memset(used, 0, sizeof *used * traced->batch.count);
    for (size_t i = 0; i < traced->programs.evaluation_count; i++)
        mark_routes(traced->programs.evaluations[i].program, used);
    return status == NT_OK ? list_routes(traced, used, &traced->routes.evaluation) : status;
}
