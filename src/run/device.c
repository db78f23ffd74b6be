/* What lives on the device as long as the handle, and the binding of a program's arguments to it. */
#include <string.h>

#include "run/run_internal.h"

/* ---- uploads ---------------------------------------------------------------------------------------------------- */

static nt_status upload_filled(nt_run *run, const char *name, nt__purpose purpose, nt__type type, double value,
                               nt__buffer *out) {
    size_t bytes, size = nt_dtype_size(type.dtype);
    if (!nt__type_bytes(type, &bytes)) return nt__fail(NT_INVALID, "%s is too large", name);
    char *data = nt__alloc_aligned(bytes);
    if (!data) return NT_OUT_OF_MEMORY;
    for (size_t at = 0; value != 0 && at < bytes; at += size) nt__element_set(type.dtype, data + at, value);
    nt_status status = nt__buffer_upload(run->engine, 0, name, purpose, type, data, out);
    nt__free(data);
    return status;
}

nt_status nt__slot_write(nt_run *run, nt__purpose purpose, const char *name, nt__type type, const void *data,
                         nt__buffer *slot, nt__buffer *former) {
    size_t bytes;
    nt__buffer fresh = {0};
    if (!nt__type_bytes(type, &bytes)) return nt__fail(NT_INVALID, "%s is too large", name);
    void *copy = nt__alloc_aligned(bytes);
    if (!copy) return NT_OUT_OF_MEMORY;
    memcpy(copy, data, bytes);
    nt_status status = nt__buffer_lend(run->engine, 0, name, purpose, type, copy, &fresh);
    if (status != NT_OK) return status;
    nt__buffer_free(former);
    *former = *slot;
    *slot = fresh;
    return NT_OK;
}

/* Draws the initial values of a group's leaves into one flat array and uploads it. */
static nt_status upload_parameters(nt_run *run, size_t g) {
    const nt__group *group = &run->layout.groups[g];
    size_t count, size = nt_dtype_size(group->dtype);
    const nt__leaf *leaves = nt__model_leaves(run->model, &count);
    char *flat = nt__alloc_aligned((size_t)group->length * size);
    const char *name = nt__arena_sprintf(&run->arena, "parameters.%s", group->name);
    nt_status status = flat && name ? NT_OK : NT_OUT_OF_MEMORY;
    nt__key key = nt__key_of_seed((uint64_t)run->settings.seed);
    for (size_t i = 0; status == NT_OK && i < count; i++) {
        const nt__row *row = &run->layout.rows[i];
        if (row->group == (int)g) status = nt__leaf_draw(&leaves[i], key, flat + (size_t)row->offset * size);
    }
    if (status == NT_OK)
        status = nt__buffer_upload(run->engine, 0, name, NT__PARAMETERS, nt__group_type(group), flat,
                                   &run->device.parameters[g]);
    nt__free(flat);
    return status;
}

/* ---- setup ------------------------------------------------------------------------------------------------------ */

/* What only training needs of a group: accumulator, state of the rule, rate. */
static nt_status upload_optimizer(nt_run *run, size_t g) {
    const nt__group *group = &run->layout.groups[g];
    nt_status status = nt__rate_write(run, g, run->settings.learning_rate);
    if (status != NT_OK) return status;
    const char *accumulator = nt__arena_sprintf(&run->arena, "accumulator.%s", group->name);
    if (!accumulator) return NT_OUT_OF_MEMORY;
    status = upload_filled(run, accumulator, NT__ACCUMULATOR, nt__group_type(group), 0, &run->device.accumulators[g]);
    int states = run->rule.kind->state_count;
    for (int s = 0; status == NT_OK && s < states; s++) {
        const nt__state *state = &run->rule.kind->states[s];
        const char *name = nt__arena_sprintf(&run->arena, "%s.%s.%s", run->rule.kind->name, state->name, group->name);
        if (!name) return NT_OUT_OF_MEMORY;
        status = upload_filled(run, name, NT__OPTIMIZER_STATE, nt__state_type(state, group),
                               nt__state_start(state, &run->rule), &run->device.states[g * (size_t)states + (size_t)s]);
    }
    return status;
}

static bool make_room(nt_run *run) {
    size_t groups = run->layout.group_count, states = groups * (size_t)run->rule.kind->state_count;
    run->device.parameters = nt__arena_alloc(&run->arena, groups, sizeof(nt__buffer));
    run->device.accumulators = nt__arena_alloc(&run->arena, groups, sizeof(nt__buffer));
    run->device.states = nt__arena_alloc(&run->arena, states + 1, sizeof(nt__buffer));
    /* No program has more arguments than everything that one can be bound to. */
    size_t most = 3 * groups + states + run->device_fields.count + run->batch.count + 2;
    run->device.bound = nt__arena_alloc(&run->arena, most, sizeof *run->device.bound);
    return run->device.parameters && run->device.accumulators && run->device.states && run->device.bound;
}

nt_status nt__device_setup(nt_run *run) {
    if (!make_room(run)) return NT_OUT_OF_MEMORY;
    nt_status status = NT_OK;
    for (size_t g = 0; status == NT_OK && g < run->layout.group_count; g++) {
        status = upload_parameters(run, g);
        if (status == NT_OK && run->train) status = upload_optimizer(run, g);
    }
    for (int flag = 0; status == NT_OK && flag < 2; flag++)
        status = upload_filled(run, flag ? "first.true" : "first.false", NT__FLAG, (nt__type){NT_BOOL, {0}}, flag,
                               &run->device.flags[flag]);
    return status;
}

void nt__device_free(nt_run *run) {
    size_t groups = run->device.parameters ? run->layout.group_count : 0;
    for (size_t g = 0; g < groups; g++) {
        nt__buffer_free(&run->device.parameters[g]);
        if (run->device.accumulators) nt__buffer_free(&run->device.accumulators[g]);
    }
    for (size_t g = 0; run->rates && g < run->layout.group_count; g++) {
        nt__buffer_free(&run->rates[g].buffer);
        nt__buffer_free(&run->rates[g].former);
    }
    for (size_t s = 0; run->device.states && s < groups * (size_t)run->rule.kind->state_count; s++)
        nt__buffer_free(&run->device.states[s]);
    for (int flag = 0; flag < 2; flag++) nt__buffer_free(&run->device.flags[flag]);
    nt__buffer_free(&run->device.outputs);
}

/* ---- launching -------------------------------------------------------------------------------------------------- */

static nt__buffer *bound(nt_run *run, const nt__argument *argument, const nt__routes *routes, nt__staged *staged,
                         bool first) {
    int index = argument->index;
    switch ((nt__role)argument->role) {
    case NT__ROLE_PARAMETERS: return &run->device.parameters[index];
    case NT__ROLE_ACCUMULATOR: return &run->device.accumulators[index];
    case NT__ROLE_STATE: return &run->device.states[index];
    case NT__ROLE_RATE: return &run->rates[index].buffer;
    case NT__ROLE_FIRST: return &run->device.flags[first];
    case NT__ROLE_DEVICE: return &run->device_fields.slots[index].buffer;
    case NT__ROLE_BATCH: return &staged->buffers[routes->position[index]];
    case NT__ROLE_OUTPUTS: return &run->device.outputs;
    default: return NULL;
    }
}

nt_status nt__launch(nt_run *run, nt__program *program, const nt__routes *routes, nt__staged *staged, bool first,
                     nt__buffer *const *results) {
    size_t count;
    const nt__argument *arguments = nt__program_arguments(program, &count);
    for (size_t i = 0; i < count; i++) run->device.bound[i] = bound(run, &arguments[i], routes, staged, first);
    return nt__program_run(program, run->device.bound, results);
}
