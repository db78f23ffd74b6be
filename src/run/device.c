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

/* Elements of a flat array in another element type. */
static nt_status upload_converted(nt_run *run, const char *name, nt__purpose purpose, nt__type type, nt_dtype from,
                                  const char *data, nt__buffer *out) {
    size_t bytes, size = nt_dtype_size(type.dtype);
    if (!nt__type_bytes(type, &bytes)) return nt__fail(NT_INVALID, "%s is too large", name);
    char *converted = nt__alloc_aligned(bytes);
    if (!converted) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < bytes / size; i++)
        nt__element_set(type.dtype, converted + i * size, nt__element_get(from, data + i * nt_dtype_size(from)));
    nt_status status = nt__buffer_upload(run->engine, 0, name, purpose, type, converted, out);
    nt__free(converted);
    return status;
}

/* ---- the optimizer ---------------------------------------------------------------------------------------------- */

static nt_status upload_state(nt_run *run, size_t g, size_t index, const void *parameters) {
    const nt__group *group = &run->layout.groups[g];
    const nt__training *training = &run->training[g];
    nt__buffer *out = &run->device.states[training->first_state + index];
    nt__state state;
    if (!nt__rule_state(&training->rule, index, &state)) return NT_OK;
    const char *name =
        nt__arena_sprintf(&run->arena, "%s.%s.%s", state.link->kind->name, state.state->name, group->name);
    if (!name) return NT_OUT_OF_MEMORY;
    nt__type type = nt__state_type(&state, group);
    if (state.state->start != NT_START_AT_PARAMETERS)
        return upload_filled(run, name, NT__OPTIMIZER_STATE, type, nt__state_start(&state), out);
    return upload_converted(run, name, NT__OPTIMIZER_STATE, type, group->dtype, parameters, out);
}

nt_status nt__states_restart(nt_run *run, size_t g, const void *parameters, nt__buffer *fresh) {
    const nt__group *group = &run->layout.groups[g];
    nt_status status = NT_OK;
    nt__state state;
    for (size_t s = 0; status == NT_OK && nt__rule_state(&run->training[g].rule, s, &state); s++) {
        size_t at = run->training[g].first_state + s;
        if (state.state->start != NT_START_AT_PARAMETERS) continue;
        status = upload_converted(run, run->device.states[at].name, NT__OPTIMIZER_STATE, nt__state_type(&state, group),
                                  group->dtype, parameters, &fresh[at]);
    }
    return status;
}

/* true where an element decays; only where some array of the group does not. */
static nt_status upload_decayed(nt_run *run, size_t g) {
    nt__training *training = &run->training[g];
    if (!training->spared_count) return NT_OK;
    const nt__group *group = &run->layout.groups[g];
    const char *name = nt__arena_sprintf(&run->arena, "decayed.%s", group->name);
    char *elements = nt__alloc_aligned((size_t)group->length);
    nt_status status = name && elements ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < run->layout.row_count; i++) {
        const nt__row *row = &run->layout.rows[i];
        if (row->group == (int)g) memset(elements + row->offset, !training->spared[i], (size_t)row->length);
    }
    if (status == NT_OK)
        status = nt__buffer_upload(run->engine, 0, name, NT__OPTIMIZER_STATE,
                                   (nt__type){NT_BOOL, nt_dims(group->length)}, elements, &training->decayed_elements);
    nt__free(elements);
    return status;
}

static nt_status upload_anchor(nt_run *run, size_t g, const void *parameters) {
    nt__training *training = &run->training[g];
    if (training->anchor.kind == NT_ANCHOR_ZERO) return NT_OK;
    const nt__group *group = &run->layout.groups[g];
    const char *name = nt__arena_sprintf(&run->arena, "anchor.%s", group->name);
    if (!name) return NT_OUT_OF_MEMORY;
    const void *values = training->anchor.kind == NT_ANCHOR_ARRAY ? training->anchor.array->data : parameters;
    nt_status status = nt__buffer_upload(run->engine, 0, name, NT__OPTIMIZER_STATE, nt__group_type(group), values,
                                         &training->anchor_elements);
    if (status == NT_OK) training->anchor_hash = nt__hash_bytes(values, training->anchor_elements.bytes);
    return status;
}

static nt_status upload_place(nt_run *run, size_t g, int table) {
    const nt__group *group = &run->layout.groups[g];
    nt__type type = nt__place_type(group, table);
    size_t bytes;
    const char *name = nt__arena_sprintf(&run->arena, "places.%s", group->name);
    void *elements = name && nt__type_bytes(type, &bytes) ? nt__alloc_aligned(bytes) : NULL;
    if (!elements) return NT_OUT_OF_MEMORY;
    nt__place_fill(group, table, elements);
    nt_status status =
        nt__buffer_upload(run->engine, 0, name, NT__OPTIMIZER_STATE, type, elements, &run->training[g].places[table]);
    nt__free(elements);
    return status;
}

static nt_status upload_places(nt_run *run, size_t g) {
    nt_status status = NT_OK;
    for (int i = 0; status == NT_OK && i < NT__PLACE_TABLES && nt__rule_uses_arrays(&run->training[g].rule); i++)
        status = upload_place(run, g, i);
    return status;
}

/* A manual step keeps no gradients. */
static nt_status upload_accumulator(nt_run *run, size_t g) {
    const nt__group *group = &run->layout.groups[g];
    if (run->settings.manual) return NT_OK;
    const char *name = nt__arena_sprintf(&run->arena, "accumulator.%s", group->name);
    if (!name) return NT_OUT_OF_MEMORY;
    return upload_filled(run, name, NT__ACCUMULATOR, nt__gradients_type(group), 0, &run->device.accumulators[g]);
}

/* What training needs of a group that is trained and does not change: scalars, what the decay needs. */
static nt_status upload_optimizer(nt_run *run, size_t g, const void *parameters) {
    const nt__training *training = &run->training[g];
    nt_status status = nt__rate_write(run, &run->rates[g], run->settings.learning_rate);
    size_t inputs = nt__rule_input_count(&training->rule);
    for (size_t i = 0; status == NT_OK && i < inputs; i++) {
        nt__rate *input = &run->inputs[training->first_input + i];
        status = nt__rate_write(run, input, input->value);
    }
    if (status == NT_OK) status = upload_decayed(run, g);
    if (status == NT_OK) status = upload_anchor(run, g, parameters);
    return status == NT_OK ? upload_places(run, g) : status;
}

/* What a launch takes and gives another value: accumulator, state of the rule, which only updates take. */
static nt_status upload_donated(nt_run *run, size_t g, const void *parameters, bool has_states) {
    size_t states = has_states ? nt__rule_state_count(&run->training[g].rule) : 0;
    nt_status status = upload_accumulator(run, g);
    for (size_t s = 0; status == NT_OK && s < states; s++) status = upload_state(run, g, s, parameters);
    return status;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

/* A group is one block: the parameter that takes most of it is likely to be the one with a wrong size. */
static nt_status fail_for_largest(const nt_run *run, size_t g) {
    char text[NT__TYPE_TEXT];
    const nt__row *largest = NULL;
    for (size_t i = 0; i < run->layout.row_count; i++) {
        const nt__row *row = &run->layout.rows[i];
        if (row->group == (int)g && (!largest || row->length > largest->length)) largest = row;
    }
    if (!largest) return NT_OUT_OF_MEMORY;
    return nt__fail_in(NT_OUT_OF_MEMORY, "initial values of the parameters, the largest of which is '%s' %s",
                       largest->path, nt__type_text(largest->type, text));
}

/* Draws the initial values of a group's leaves into one flat array and uploads it, and what else starts from it.
 * `is_second`: of a second device, which shares what does not change. */
static nt_status upload_parameters(nt_run *run, size_t g, bool is_second) {
    const nt__group *group = &run->layout.groups[g];
    size_t count, size = nt_dtype_size(group->dtype);
    const nt__leaf *leaves = nt__model_leaves(run->model, &count);
    char *flat = nt__alloc_aligned((size_t)group->length * size);
    if (!flat) return fail_for_largest(run, g);
    const char *name = nt__arena_sprintf(&run->arena, "parameters.%s", group->name);
    nt_status status = name ? NT_OK : NT_OUT_OF_MEMORY;
    nt__key key = nt__key_of_seed((uint64_t)run->settings.seed);
    for (size_t i = 0; status == NT_OK && i < count; i++) {
        const nt__row *row = &run->layout.rows[i];
        if (row->group == (int)g) status = nt__leaf_draw(&leaves[i], key, flat + (size_t)row->offset * size);
    }
    if (status == NT_OK)
        status = nt__buffer_upload(run->engine, 0, name, NT__PARAMETERS, nt__group_type(group), flat,
                                   &run->device.parameters[g]);
    bool trains = run->train && !run->training[g].frozen;
    if (status == NT_OK && trains && !is_second) status = upload_optimizer(run, g, flat);
    if (status == NT_OK && trains) status = upload_donated(run, g, flat, !is_second || run->settings.manual);
    nt__free(flat);
    return status;
}

static bool make_room(nt_run *run) {
    size_t groups = run->layout.group_count, states = run->state_count, layer_states;
    nt__model_states(run->model, &layer_states);
    run->device.layer_states = nt__arena_alloc(&run->arena, layer_states + 1, sizeof(nt__buffer));
    run->device.parameters = nt__arena_alloc(&run->arena, groups, sizeof(nt__buffer));
    run->device.accumulators = nt__arena_alloc(&run->arena, groups, sizeof(nt__buffer));
    run->device.states = nt__arena_alloc(&run->arena, states + 1, sizeof(nt__buffer));
    run->device.averages = nt__arena_alloc(&run->arena, groups, sizeof(nt__buffer));
    run->device.average_results = nt__arena_alloc(&run->arena, groups, sizeof(nt__buffer *));
    /* No program has more arguments than everything that one can be bound to. */
    size_t most = (5 + NT__PLACE_TABLES) * groups + states + layer_states + run->input_count +
                  run->device_fields.count + run->batch.count + 4;
    run->device.bound = nt__arena_alloc(&run->arena, most, sizeof *run->device.bound);
    return run->device.parameters && run->device.accumulators && run->device.states && run->device.averages &&
           run->device.average_results && run->device.layer_states && run->device.bound;
}

/* The results of the program of averages, in its order. */
static void bind_averages(nt_run *run) {
    size_t count = 0;
    for (size_t g = 0; run->training && g < run->layout.group_count; g++)
        if (nt__rule_averages(&run->training[g].rule)) run->device.average_results[count++] = &run->device.averages[g];
}

static nt_status set_up(nt_run *run, bool is_second) {
    if (!make_room(run)) return NT_OUT_OF_MEMORY;
    bind_averages(run);
    nt_status status = NT_OK;
    for (size_t g = 0; status == NT_OK && g < run->layout.group_count; g++)
        status = upload_parameters(run, g, is_second);
    if (status == NT_OK) status = nt__layer_states_upload(run);
    if (status == NT_OK && run->train && run->weighted)
        status = upload_filled(run, "accumulator.count", NT__ACCUMULATOR, (nt__type){run->count_dtype, {0}}, 0,
                               &run->device.count);
    for (int flag = 0; status == NT_OK && flag < 2; flag++)
        status = upload_filled(run, flag ? "first.true" : "first.false", NT__FLAG, (nt__type){NT_BOOL, {0}}, flag,
                               &run->device.flags[flag]);
    return status;
}

nt_status nt__device_setup(nt_run *run) {
    return set_up(run, false);
}

static void free_scalars(nt__rate *scalars, size_t count) {
    for (size_t i = 0; i < count; i++) {
        nt__buffer_free(&scalars[i].buffer);
        nt__buffer_free(&scalars[i].former);
    }
}

/* What a second device has too. */
static void free_carried(nt_run *run) {
    size_t groups = run->device.parameters ? run->layout.group_count : 0;
    for (size_t g = 0; g < groups; g++) {
        nt__buffer_free(&run->device.parameters[g]);
        if (run->device.accumulators) nt__buffer_free(&run->device.accumulators[g]);
        if (run->device.averages) nt__buffer_free(&run->device.averages[g]);
    }
    for (size_t s = 0; run->device.states && s < run->state_count; s++) nt__buffer_free(&run->device.states[s]);
    nt__layer_states_free(run);
    for (int flag = 0; flag < 2; flag++) nt__buffer_free(&run->device.flags[flag]);
    nt__buffer_free(&run->device.count);
    nt__buffer_free(&run->device.outputs);
}

void nt__device_free(nt_run *run) {
    if (run->rates) free_scalars(run->rates, run->layout.group_count);
    if (run->inputs) free_scalars(run->inputs, run->input_count);
    for (size_t g = 0; run->training && g < run->layout.group_count; g++) {
        nt__buffer_free(&run->training[g].decayed_elements);
        nt__buffer_free(&run->training[g].anchor_elements);
        for (int i = 0; i < NT__PLACE_TABLES; i++) nt__buffer_free(&run->training[g].places[i]);
    }
    free_carried(run);
}

nt_status nt__device_swap(nt_run *run, nt__device *own) {
    *own = run->device;
    run->device = (nt__device){0};
    nt_status status = set_up(run, true);
    if (status != NT_OK) nt__device_swap_back(run, own);
    return status;
}

void nt__device_swap_back(nt_run *run, const nt__device *own) {
    free_carried(run);
    run->device = *own;
}

/* ---- launching -------------------------------------------------------------------------------------------------- */

static nt__buffer *bound(nt_run *run, const nt__argument *argument, const nt__routes *routes, nt__staged *staged,
                         bool first) {
    int index = argument->index;
    switch ((nt__role)argument->role) {
    case NT__ROLE_PARAMETERS: return nt__evaluated_parameters(run, (size_t)index);
    case NT__ROLE_ACCUMULATOR: return &run->device.accumulators[index];
    case NT__ROLE_STATE: return &run->device.states[index];
    case NT__ROLE_RATE: return &run->rates[index].buffer;
    case NT__ROLE_INPUT: return &run->inputs[index].buffer;
    case NT__ROLE_DECAYED: return &run->training[index].decayed_elements;
    case NT__ROLE_ANCHOR: return &run->training[index].anchor_elements;
    case NT__ROLE_PLACES: return &run->training[index / NT__PLACE_TABLES].places[index % NT__PLACE_TABLES];
    case NT__ROLE_COUNT: return &run->device.count;
    case NT__ROLE_LAYER_STATE: return &run->device.layer_states[index];
    case NT__ROLE_SEED: return &run->device.seed;
    case NT__ROLE_FIRST: return &run->device.flags[first];
    case NT__ROLE_DEVICE: return &run->device_fields.slots[index].buffer;
    case NT__ROLE_BATCH: return &staged->buffers[routes->position[index]];
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
