/* The batch that hooks see: its fields, and which of them each kind of pass sends to the device.
 * Not here: reading and staging batches (the folder data).
 */
#include <string.h>

#include "run/plan.h"
#include "run/run_internal.h"

/* ---- fields ----------------------------------------------------------------------------------------------------- */

nt__batch_field *nt__batch_new(nt_run *run, size_t count, int64_t size) {
    nt__batch_field *fields = nt__arena_alloc(&run->arena, count, sizeof *fields);
    nt_tensor *inputs = nt__arena_alloc(&run->arena, count, sizeof *inputs);
    if (!fields || !inputs) return NULL;
    run->batch_size = size;
    run->batch_fields = fields;
    run->batch = (nt_batch){.fields = fields, .count = count, .role = NT__ROLE_BATCH, .inputs = inputs};
    return fields;
}

/* The fields of a batch, from the split that training uses, else from the first one. */
nt_status nt__batch_list(nt_run *run) {
    const nt__split *split = run->train ? run->train : nt__data_split_at(run->data, 0);
    nt__batch_field *fields = nt__batch_new(run, split->field_count, split->options.batch);
    for (size_t i = 0; fields && i < split->field_count; i++)
        fields[i] = (nt__batch_field){split->fields[i].name, nt__split_field_type(split, &split->fields[i])};
    return fields ? NT_OK : NT_OUT_OF_MEMORY;
}

/* The field of a prediction that came without a name has the one it was read under. */
void nt__batch_name_field(nt_run *run) {
    for (size_t i = 0; i < run->batch.count; i++)
        if (!run->batch_fields[i].name) run->batch_fields[i].name = run->batch.taken;
}

/* ---- which batch fields go to the device ------------------------------------------------------------------------ */

static void mark_routes(const nt__program *program, bool *used) {
    size_t count;
    const nt__argument *arguments = program ? nt__program_arguments(program, &count) : NULL;
    for (size_t i = 0; arguments && i < count; i++)
        if (arguments[i].role == NT__ROLE_BATCH) used[arguments[i].index] = true;
}

static nt_status list_routes(nt_run *run, const bool *used, nt__routes *routes) {
    routes->names = nt__arena_alloc(&run->arena, run->batch.count + 1, sizeof *routes->names);
    routes->position = nt__arena_alloc(&run->arena, run->batch.count + 1, sizeof *routes->position);
    if (!routes->names || !routes->position) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < run->batch.count; i++) {
        routes->position[i] = used[i] ? (int)routes->count : -1;
        if (used[i]) routes->names[routes->count++] = run->batch_fields[i].name;
    }
    return NT_OK;
}

nt_status nt__routes_list(nt_run *run) {
    bool *used = nt__arena_alloc(&run->arena, run->batch.count + 1, sizeof *used);
    if (!used) return NT_OUT_OF_MEMORY;
    mark_routes(run->programs.gradient, used);
    mark_routes(run->programs.manual_step, used);
    nt_status status = list_routes(run, used, &run->routes.train);
    memset(used, 0, sizeof *used * run->batch.count);
    mark_routes(run->programs.forward, used);
    if (status == NT_OK) status = list_routes(run, used, &run->routes.prediction);
    memset(used, 0, sizeof *used * run->batch.count);
    for (size_t i = 0; i < run->programs.evaluation_count; i++) mark_routes(run->programs.evaluations[i].program, used);
    return status == NT_OK ? list_routes(run, used, &run->routes.evaluation) : status;
}

const char *nt__forward_field(const nt_run *run, size_t index) {
    return index < run->routes.prediction.count ? run->routes.prediction.names[index] : NULL;
}
