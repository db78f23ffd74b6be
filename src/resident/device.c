/* What lives on the device as long as the handle, and the binding of a program's arguments to it. */
#include <string.h>

#include "resident/resident.h"
#include "base/files.h"

/* The one that everything is on, and how many the engine is asked for. */
enum { ONE_DEVICE = 0, DEVICES = 1 };

/* ---- the engine ------------------------------------------------------------------------------------------------ */

nt_status nt__device_open(nt__resident *resident) {
    nt_status status = nt__engine_open(DEVICES, &resident->traced->engine);
    return status == NT_OK ? nt__options_try(resident->traced->engine, resident->traced->compile_options) : status;
}

/* ---- uploads ---------------------------------------------------------------------------------------------------- */

static nt_status upload_filled(nt__resident *resident, const char *name, nt__purpose purpose, nt__type type,
                               double value, nt__buffer *out) {
    size_t bytes, size = nt_dtype_size(type.dtype);
    if (!nt__type_bytes(type, &bytes)) return nt__fail(NT_INVALID, "%s is too large", name);
    char *data = nt__alloc_aligned(bytes);
    if (!data) return NT_OUT_OF_MEMORY;
    for (size_t at = 0; value != 0 && at < bytes; at += size) nt__element_set(type.dtype, data + at, value);
    nt_status status = nt__upload(resident, name, purpose, type, data, out);
    nt__free(data);
    return status;
}

nt_status nt__upload(const nt__resident *resident, const char *name, nt__purpose purpose, nt__type type,
                     const void *data, nt__buffer *out) {
    return nt__buffer_upload(resident->traced->engine, ONE_DEVICE, name, purpose, type, data, out);
}

nt_status nt__slot_write(nt__resident *resident, nt__purpose purpose, const char *name, nt__type type, const void *data,
                         nt__buffer *slot, nt__buffer *former) {
    size_t bytes;
    nt__buffer fresh = {0};
    if (!nt__type_bytes(type, &bytes)) return nt__fail(NT_INVALID, "%s is too large", name);
    void *copy = nt__alloc_aligned(bytes);
    if (!copy) return NT_OUT_OF_MEMORY;
    memcpy(copy, data, bytes);
    nt_status status = nt__buffer_lend(resident->traced->engine, ONE_DEVICE, name, purpose, type, copy, &fresh);
    if (status != NT_OK) return status;
    nt__buffer_free(former);
    *former = *slot;
    *slot = fresh;
    return NT_OK;
}

/* Elements of a flat array in another element type. */
static nt_status upload_converted(nt__resident *resident, const char *name, nt__purpose purpose, nt__type type,
                                  nt_dtype from, const char *data, nt__buffer *out) {
    size_t bytes, size = nt_dtype_size(type.dtype);
    if (!nt__type_bytes(type, &bytes)) return nt__fail(NT_INVALID, "%s is too large", name);
    char *converted = nt__alloc_aligned(bytes);
    if (!converted) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < bytes / size; i++)
        nt__element_set(type.dtype, converted + i * size, nt__element_get(from, data + i * nt_dtype_size(from)));
    nt_status status = nt__upload(resident, name, purpose, type, converted, out);
    nt__free(converted);
    return status;
}

/* ---- the optimizer ---------------------------------------------------------------------------------------------- */

static nt_status upload_state(nt__resident *resident, size_t g, size_t index, const void *parameters) {
    const nt__group *group = &resident->traced->layout.groups[g];
    const nt__training *training = &resident->traced->training[g];
    nt__buffer *out = &resident->device.states[training->first_state + index];
    nt__state state;
    if (!nt__rule_state(&training->rule, index, &state)) return NT_OK;
    const char *name =
        nt__arena_sprintf(&resident->task->arena, "%s.%s.%s", state.link->kind->name, state.state->name, group->name);
    if (!name) return NT_OUT_OF_MEMORY;
    nt__type type = nt__state_type(&state, group);
    if (state.state->start != NT_START_AT_PARAMETERS)
        return upload_filled(resident, name, NT__OPTIMIZER_STATE, type, nt__state_start(&state), out);
    return upload_converted(resident, name, NT__OPTIMIZER_STATE, type, group->dtype, parameters, out);
}

nt_status nt__states_restart(nt__resident *resident, size_t g, const void *parameters, nt__buffer *fresh) {
    const nt__group *group = &resident->traced->layout.groups[g];
    nt_status status = NT_OK;
    nt__state state;
    for (size_t s = 0; status == NT_OK && nt__rule_state(&resident->traced->training[g].rule, s, &state); s++) {
        size_t at = resident->traced->training[g].first_state + s;
        if (state.state->start != NT_START_AT_PARAMETERS) continue;
        status = upload_converted(resident, resident->device.states[at].name, NT__OPTIMIZER_STATE,
                                  nt__state_type(&state, group), group->dtype, parameters, &fresh[at]);
    }
    return status;
}

/* true where an element decays; only where some array of the group does not. */
static nt_status upload_decayed(nt__resident *resident, size_t g) {
    nt__training *training = &resident->traced->training[g];
    if (!training->spared_count) return NT_OK;
    const nt__group *group = &resident->traced->layout.groups[g];
    const char *name = nt__arena_sprintf(&resident->task->arena, "decayed.%s", group->name);
    char *elements = nt__alloc_aligned((size_t)group->length);
    nt_status status = name && elements ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < resident->traced->layout.row_count; i++) {
        const nt__row *row = &resident->traced->layout.rows[i];
        if (row->group == (int)g) memset(elements + row->offset, !training->spared[i], (size_t)row->length);
    }
    if (status == NT_OK)
        status = nt__upload(resident, name, NT__OPTIMIZER_STATE, (nt__type){NT_BOOL, nt_dims(group->length)}, elements,
                            &resident->fixed[g].decayed);
    nt__free(elements);
    return status;
}

static nt_status upload_anchor(nt__resident *resident, size_t g, const void *parameters) {
    nt__training *training = &resident->traced->training[g];
    if (training->anchor.kind == NT_ANCHOR_ZERO) return NT_OK;
    const nt__group *group = &resident->traced->layout.groups[g];
    const char *name = nt__arena_sprintf(&resident->task->arena, "anchor.%s", group->name);
    if (!name) return NT_OUT_OF_MEMORY;
    const void *values = training->anchor.kind == NT_ANCHOR_ARRAY ? training->anchor.array->data : parameters;
    nt_status status =
        nt__upload(resident, name, NT__OPTIMIZER_STATE, nt__group_type(group), values, &resident->fixed[g].anchor);
    if (status == NT_OK) resident->fixed[g].anchor_hash = nt__hash_bytes(values, resident->fixed[g].anchor.bytes);
    return status;
}

static nt_status upload_place(nt__resident *resident, size_t g, int table) {
    const nt__group *group = &resident->traced->layout.groups[g];
    nt__type type = nt__place_type(group, table);
    size_t bytes;
    const char *name = nt__arena_sprintf(&resident->task->arena, "places.%s", group->name);
    void *elements = name && nt__type_bytes(type, &bytes) ? nt__alloc_aligned(bytes) : NULL;
    if (!elements) return NT_OUT_OF_MEMORY;
    nt__place_fill(group, table, elements);
    nt_status status =
        nt__upload(resident, name, NT__OPTIMIZER_STATE, type, elements, &resident->fixed[g].places[table]);
    nt__free(elements);
    return status;
}

static nt_status upload_places(nt__resident *resident, size_t g) {
    nt_status status = NT_OK;
    for (int i = 0;
         status == NT_OK && i < NT__PLACE_TABLES && nt__rule_uses_arrays(&resident->traced->training[g].rule); i++)
        status = upload_place(resident, g, i);
    return status;
}

/* A manual step keeps no gradients. */
static nt_status upload_accumulator(nt__resident *resident, size_t g) {
    const nt__group *group = &resident->traced->layout.groups[g];
    if (resident->task->settings.manual) return NT_OK;
    const char *name = nt__arena_sprintf(&resident->task->arena, "accumulator.%s", group->name);
    if (!name) return NT_OUT_OF_MEMORY;
    return upload_filled(resident, name, NT__ACCUMULATOR, nt__gradients_type(group), 0,
                         &resident->device.accumulators[g]);
}

/* What training needs of a group that is trained and does not change: scalars, what the decay needs. */
static nt_status upload_optimizer(nt__resident *resident, size_t g, const void *parameters) {
    const nt__training *training = &resident->traced->training[g];
    nt_status status = nt__rate_write(resident, &resident->rates[g], resident->task->settings.learning_rate);
    size_t inputs = nt__rule_input_count(&training->rule);
    for (size_t i = 0; status == NT_OK && i < inputs; i++) {
        nt__rate *input = &resident->inputs[training->first_input + i];
        status = nt__rate_write(resident, input, input->value);
    }
    if (status == NT_OK) status = upload_decayed(resident, g);
    if (status == NT_OK) status = upload_anchor(resident, g, parameters);
    return status == NT_OK ? upload_places(resident, g) : status;
}

/* What a launch takes and gives another value: accumulator, state of the rule, which only updates take. */
static nt_status upload_donated(nt__resident *resident, size_t g, const void *parameters, bool has_states) {
    size_t states = has_states ? nt__rule_state_count(&resident->traced->training[g].rule) : 0;
    nt_status status = upload_accumulator(resident, g);
    for (size_t s = 0; status == NT_OK && s < states; s++) status = upload_state(resident, g, s, parameters);
    return status;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

/* A group is one block: the parameter that takes most of it is likely to be the one with a wrong size. */
static nt_status fail_for_largest(const nt__traced *traced, size_t g) {
    char text[NT__TYPE_TEXT];
    const nt__row *largest = NULL;
    for (size_t i = 0; i < traced->layout.row_count; i++) {
        const nt__row *row = &traced->layout.rows[i];
        if (row->group == (int)g && (!largest || row->length > largest->length)) largest = row;
    }
    if (!largest) return NT_OUT_OF_MEMORY;
    return nt__fail_in(NT_OUT_OF_MEMORY, "initial values of the parameters, the largest of which is '%s' %s",
                       largest->path, nt__type_text(largest->type, text));
}

/* Draws the initial values of a group's leaves into one flat array and uploads it, and what else starts from it.
 * `is_second`: of a second device, which shares what does not change. */
static nt_status upload_parameters(nt__resident *resident, size_t g, bool is_second) {
    const nt__group *group = &resident->traced->layout.groups[g];
    size_t count, size = nt_dtype_size(group->dtype);
    const nt__leaf *leaves = nt__model_leaves(resident->traced->model, &count);
    char *flat = nt__alloc_aligned((size_t)group->length * size);
    if (!flat) return fail_for_largest(resident->traced, g);
    const char *name = nt__arena_sprintf(&resident->task->arena, "parameters.%s", group->name);
    nt_status status = name ? NT_OK : NT_OUT_OF_MEMORY;
    nt__key key = nt__key_of_seed((uint64_t)resident->task->settings.seed);
    for (size_t i = 0; status == NT_OK && i < count; i++) {
        const nt__row *row = &resident->traced->layout.rows[i];
        if (row->group == (int)g) status = nt__leaf_draw(&leaves[i], key, flat + (size_t)row->offset * size);
    }
    if (status == NT_OK)
        status =
            nt__upload(resident, name, NT__PARAMETERS, nt__group_type(group), flat, &resident->device.parameters[g]);
    bool trains = resident->traced->train && !resident->traced->training[g].frozen;
    if (status == NT_OK && trains && !is_second) status = upload_optimizer(resident, g, flat);
    if (status == NT_OK && trains)
        status = upload_donated(resident, g, flat, !is_second || resident->task->settings.manual);
    nt__free(flat);
    return status;
}

static bool make_room(nt__resident *resident) {
    size_t groups = resident->traced->layout.group_count, states = resident->traced->state_count, layer_states;
    nt__model_states(resident->traced->model, &layer_states);
    resident->device.layer_states = nt__arena_alloc(&resident->task->arena, layer_states + 1, sizeof(nt__buffer));
    resident->device.parameters = nt__arena_alloc(&resident->task->arena, groups, sizeof(nt__buffer));
    resident->device.accumulators = nt__arena_alloc(&resident->task->arena, groups, sizeof(nt__buffer));
    resident->device.states = nt__arena_alloc(&resident->task->arena, states + 1, sizeof(nt__buffer));
    resident->device.averages = nt__arena_alloc(&resident->task->arena, groups, sizeof(nt__buffer));
    resident->device.average_results = nt__arena_alloc(&resident->task->arena, groups, sizeof(nt__buffer *));
    /* No program has more arguments than everything that one can be bound to. */
    size_t most = (5 + NT__PLACE_TABLES) * groups + states + layer_states + resident->traced->input_count +
                  resident->traced->device_fields.count + resident->traced->batch.count + 4;
    resident->device.bound = nt__arena_alloc(&resident->task->arena, most, sizeof *resident->device.bound);
    return resident->device.parameters && resident->device.accumulators && resident->device.states &&
           resident->device.averages && resident->device.average_results && resident->device.layer_states &&
           resident->device.bound;
}

/* The results of the program of averages, in its order. */
static void bind_averages(nt__resident *resident) {
    size_t count = 0;
    for (size_t g = 0; resident->traced->training && g < resident->traced->layout.group_count; g++)
        if (nt__rule_averages(&resident->traced->training[g].rule))
            resident->device.average_results[count++] = &resident->device.averages[g];
}

static nt_status set_up(nt__resident *resident, bool is_second) {
    if (!make_room(resident)) return NT_OUT_OF_MEMORY;
    bind_averages(resident);
    nt_status status = NT_OK;
    for (size_t g = 0; status == NT_OK && g < resident->traced->layout.group_count; g++)
        status = upload_parameters(resident, g, is_second);
    if (status == NT_OK) status = nt__layer_states_upload(resident);
    if (status == NT_OK && resident->traced->train && resident->traced->weighted)
        status = upload_filled(resident, "accumulator.count", NT__ACCUMULATOR,
                               (nt__type){resident->traced->count_dtype, {0}}, 0, &resident->device.count);
    for (int flag = 0; status == NT_OK && flag < 2; flag++)
        status = upload_filled(resident, flag ? "first.true" : "first.false", NT__FLAG, (nt__type){NT_BOOL, {0}}, flag,
                               &resident->device.flags[flag]);
    return status;
}

nt_status nt__device_setup(nt__resident *resident) {
    resident->fixed =
        nt__arena_alloc(&resident->task->arena, resident->traced->layout.group_count + 1, sizeof *resident->fixed);
    return resident->fixed ? set_up(resident, false) : NT_OUT_OF_MEMORY;
}

static void free_scalars(nt__rate *scalars, size_t count) {
    for (size_t i = 0; i < count; i++) {
        nt__buffer_free(&scalars[i].buffer);
        nt__buffer_free(&scalars[i].former);
    }
}

/* What a second device has too. */
static void free_carried(nt__resident *resident) {
    size_t groups = resident->device.parameters ? resident->traced->layout.group_count : 0;
    for (size_t g = 0; g < groups; g++) {
        nt__buffer_free(&resident->device.parameters[g]);
        if (resident->device.accumulators) nt__buffer_free(&resident->device.accumulators[g]);
        if (resident->device.averages) nt__buffer_free(&resident->device.averages[g]);
    }
    for (size_t s = 0; resident->device.states && s < resident->traced->state_count; s++)
        nt__buffer_free(&resident->device.states[s]);
    nt__layer_states_free(resident);
    for (int flag = 0; flag < 2; flag++) nt__buffer_free(&resident->device.flags[flag]);
    nt__buffer_free(&resident->device.count);
    nt__buffer_free(&resident->device.outputs);
}

void nt__device_free(nt__resident *resident) {
    if (resident->rates) free_scalars(resident->rates, resident->traced->layout.group_count);
    if (resident->inputs) free_scalars(resident->inputs, resident->traced->input_count);
    for (size_t g = 0; resident->fixed && g < resident->traced->layout.group_count; g++) {
        nt__buffer_free(&resident->fixed[g].decayed);
        nt__buffer_free(&resident->fixed[g].anchor);
        for (int i = 0; i < NT__PLACE_TABLES; i++) nt__buffer_free(&resident->fixed[g].places[i]);
    }
    free_carried(resident);
}

nt_status nt__device_swap(nt__resident *resident, nt__device *own) {
    *own = resident->device;
    resident->device = (nt__device){0};
    nt_status status = set_up(resident, true);
    if (status != NT_OK) nt__device_swap_back(resident, own);
    return status;
}

void nt__device_swap_back(nt__resident *resident, const nt__device *own) {
    free_carried(resident);
    resident->device = *own;
}

/* ---- launching -------------------------------------------------------------------------------------------------- */

static nt__buffer *bound(nt__resident *resident, const nt__argument *argument, const nt__routes *routes,
                         nt__staged *staged, bool first) {
    int index = argument->index;
    switch ((nt__role)argument->role) {
    case NT__ROLE_PARAMETERS: return nt__evaluated_parameters(resident, (size_t)index);
    case NT__ROLE_ACCUMULATOR: return &resident->device.accumulators[index];
    case NT__ROLE_STATE: return &resident->device.states[index];
    case NT__ROLE_RATE: return &resident->rates[index].buffer;
    case NT__ROLE_INPUT: return &resident->inputs[index].buffer;
    case NT__ROLE_DECAYED: return &resident->fixed[index].decayed;
    case NT__ROLE_ANCHOR: return &resident->fixed[index].anchor;
    case NT__ROLE_PLACES: return &resident->fixed[index / NT__PLACE_TABLES].places[index % NT__PLACE_TABLES];
    case NT__ROLE_COUNT: return &resident->device.count;
    case NT__ROLE_LAYER_STATE: return &resident->device.layer_states[index];
    case NT__ROLE_SEED: return &resident->device.seed;
    case NT__ROLE_FIRST: return &resident->device.flags[first];
    case NT__ROLE_DEVICE: return &resident->values[index].buffer;
    case NT__ROLE_BATCH: return &staged->buffers[routes->position[index]];
    default: return NULL;
    }
}

nt_status nt__launch(nt__resident *resident, nt__program *program, const nt__routes *routes, nt__staged *staged,
                     bool first, nt__buffer *const *results) {
    size_t count;
    const nt__argument *arguments = nt__program_arguments(program, &count);
    for (size_t i = 0; i < count; i++)
        resident->device.bound[i] = bound(resident, &arguments[i], routes, staged, first);
    return nt__program_run(program, resident->device.bound, results);
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

nt_status nt__device_stream(nt__resident *resident, const nt__split *split, const nt__routes *routes, int64_t epoch,
                            int64_t first_batch, nt__stream **out) {
    const nt__stream_options options = {.engine = resident->traced->engine,
                                        .device = ONE_DEVICE,
                                        .fields = routes->names,
                                        .field_count = routes->count,
                                        .seed = (uint64_t)resident->task->settings.seed,
                                        .epoch = epoch,
                                        .first_batch = first_batch,
                                        .stopping = nt__stop_is_set};
    return nt__stream_open(split, &options, out);
}
