/* The whole state of a live run as a record: what is on the device as host arrays, the rest as facts.
 * Not here: back again (restore.c), when that happens (checkpoints.c).
 */

#include "checkpoint/records.h"
#include "base/files.h"

/* ---- names ------------------------------------------------------------------------------------------------------ */

const char *nt__record_slot_name(const nt__device_slot *slot, nt__arena *arena) {
    return nt__arena_sprintf(arena, NT__RECORD_FIELDS "%s", slot->name);
}

/* ---- whole buffers, with their names ---------------------------------------------------------------------------- */

nt_status nt__record_layer_states(nt__resident *resident, nt__arena *names, nt__record_use *use, void *context) {
    size_t count;
    const nt__leaf *states = nt__model_states(resident->traced->model, &count);
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < count; i++)
        status = use(context, nt__arena_sprintf(names, NT__RECORD_STATES "%s", states[i].path),
                     &resident->device.layer_states[i]);
    return status;
}

static const char *state_name(const nt__traced *traced, size_t group, size_t index, nt__arena *names) {
    nt__state state;
    nt__rule_state(&traced->training[group].rule, index, &state);
    return nt__arena_sprintf(names, "optimizer/%s/%zu.%s.%s", traced->layout.groups[group].name, index,
                             state.link->kind->name, state.state->name);
}

nt_status nt__record_optimizer(nt__resident *resident, nt__arena *names, nt__record_use *use, void *context) {
    nt_status status = NT_OK;
    for (size_t g = 0; g < resident->traced->layout.group_count; g++) {
        const nt__training *training = &resident->traced->training[g];
        size_t count = training->frozen ? 0 : nt__rule_state_count(&training->rule);
        for (size_t i = 0; status == NT_OK && i < count; i++)
            status = use(context, state_name(resident->traced, g, i, names),
                         &resident->device.states[training->first_state + i]);
    }
    return status;
}

nt_status nt__record_accumulators(nt__resident *resident, nt__arena *names, nt__record_use *use, void *context) {
    nt_status status = NT_OK;
    for (size_t g = 0; status == NT_OK && g < resident->traced->layout.group_count; g++)
        if (!resident->traced->training[g].frozen)
            status = use(context, nt__arena_sprintf(names, "accumulators/%s", resident->traced->layout.groups[g].name),
                         &resident->device.accumulators[g]);
    return status == NT_OK && resident->traced->weighted ? use(context, "accumulated", &resident->device.count)
                                                         : status;
}

/* ---- arrays ----------------------------------------------------------------------------------------------------- */

typedef struct snapshot {
    nt__recording *recording;
    nt__record *record;
    nt__arena names;
} snapshot;

static nt_status read_buffer(nt__recording *recording, nt__buffer *buffer, nt_array **out) {
    *out = nt__record_writer_array(recording->writer, buffer->type.dtype, buffer->type.shape);
    nt_status status = *out ? nt__buffer_read(recording->traced->engine, buffer, (*out)->data) : NT_OUT_OF_MEMORY;
    if (status == NT_OK) return NT_OK;
    nt_array_free(*out);
    *out = NULL;
    return status;
}

static nt_status add_buffer(void *context, const char *name, nt__buffer *buffer) {
    const snapshot *s = context;
    nt_array *copy;
    if (!name) return NT_OUT_OF_MEMORY;
    nt_status status = read_buffer(s->recording, buffer, &copy);
    return status == NT_OK ? nt__record_add(s->record, name, copy) : status;
}

static nt_status check_finite(const nt__resident *resident, const nt__row *row, const void *at) {
    const nt__named_array named = {row->path, row->type, at};
    return resident->task->settings.check_divergence ? nt__check_finite(resident, "the checkpoint", &named, false)
                                                     : NT_OK;
}

/* The parameters of a group, one array each, where they lie in the copy of its buffer. */
static nt_status add_rows(snapshot *s, const char *prefix, int group, nt_array *flat) {
    const nt__layout *layout = &s->recording->traced->layout;
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < layout->row_count; i++) {
        const nt__row *row = &layout->rows[i];
        if (row->group != group) continue;
        const char *name = nt__arena_sprintf(&s->names, "%s%s", prefix, row->path);
        if (!name) return NT_OUT_OF_MEMORY;
        const char *at = nt__row_data(row, flat);
        status = check_finite(s->recording->resident, row, at);
        if (status == NT_OK) status = nt__record_add_part(s->record, name, row->type, at, flat);
    }
    return status;
}

static nt_status add_group(snapshot *s, const char *prefix, int group, nt__buffer *buffer) {
    nt_array *flat;
    nt_status status = read_buffer(s->recording, buffer, &flat);
    if (status != NT_OK) return status;
    status = add_rows(s, prefix, group, flat);
    nt_array_free(flat);
    return status;
}

static nt_status add_parameters(snapshot *s) {
    nt_status status = NT_OK;
    for (size_t g = 0; status == NT_OK && g < s->recording->traced->layout.group_count; g++)
        status = add_group(s, NT__RECORD_PARAMETERS, (int)g, &s->recording->resident->device.parameters[g]);
    return status;
}

/* They follow from the states, but a handle that only evaluates has no states. */
static nt_status add_averages(snapshot *s) {
    nt__recording *recording = s->recording;
    if (!recording->traced->programs.average) return NT_OK;
    nt_status status = nt__averages_begin(recording->resident);
    if (status != NT_OK) return status;
    for (size_t g = 0; status == NT_OK && g < recording->traced->layout.group_count; g++)
        status = add_group(s, NT__RECORD_AVERAGES, (int)g, nt__evaluated_parameters(recording->resident, g));
    nt__averages_end(recording->resident);
    return status;
}

static nt_status add_device_fields(snapshot *s) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < s->recording->traced->device_fields.count; i++) {
        const nt__device_slot *slot = &s->recording->traced->device_fields.slots[i];
        status = add_buffer(s, nt__record_slot_name(slot, &s->names), &s->recording->resident->values[i].buffer);
    }
    return status;
}

/* ---- facts about what the run is -------------------------------------------------------------------------------- */

json_t *nt__record_hash(nt__hash hash) {
    char hex[33];
    nt__hash_hex(hash, hex);
    return json_string(hex);
}

json_t *nt__record_device_starts(const nt__resident *resident) {
    json_t *object = json_object();
    bool right = object != NULL;
    for (size_t i = 0; right && i < resident->traced->device_fields.count; i++)
        right = nt__facts_put(object, resident->traced->device_fields.slots[i].name,
                              nt__record_hash(resident->values[i].start));
    return nt__facts_whole(object, right);
}

json_t *nt__record_layout(const nt__traced *traced) {
    json_t *list = json_array();
    bool right = list != NULL;
    char type[NT__TYPE_TEXT];
    for (size_t i = 0; right && i < traced->layout.row_count; i++) {
        const nt__row *row = &traced->layout.rows[i];
        right = nt__facts_append(list, json_pack("[s, s, I, I, s]", row->path, traced->layout.groups[row->group].name,
                                                 (json_int_t)row->offset, (json_int_t)row->length,
                                                 nt__type_text(row->type, type)));
    }
    return nt__facts_whole(list, right);
}

json_t *nt__record_anchors(const nt__resident *resident) {
    bool any = false, right = true;
    for (size_t g = 0; g < resident->traced->layout.group_count; g++)
        any |= resident->traced->training[g].anchor.kind != NT_ANCHOR_ZERO;
    if (!any) return json_null();
    json_t *list = json_array();
    right = list != NULL;
    for (size_t g = 0; right && g < resident->traced->layout.group_count; g++) {
        const nt__training *training = &resident->traced->training[g];
        right = nt__facts_append(list, training->anchor.kind == NT_ANCHOR_ZERO
                                           ? json_null()
                                           : nt__record_hash(resident->fixed[g].anchor_hash));
    }
    return nt__facts_whole(list, right);
}

static json_t *state_types(const nt__traced *traced, size_t g) {
    json_t *list = json_array();
    nt__state state;
    char type[NT__TYPE_TEXT];
    bool right = list != NULL;
    for (size_t i = 0; right && nt__rule_state(&traced->training[g].rule, i, &state); i++)
        right =
            nt__facts_append(list, json_pack("[s, s, s]", state.link->kind->name, state.state->name,
                                             nt__type_text(nt__state_type(&state, &traced->layout.groups[g]), type)));
    return nt__facts_whole(list, right);
}

json_t *nt__record_groups(const nt__traced *traced) {
    json_t *list = json_array();
    bool right = list != NULL;
    for (size_t g = 0; right && g < traced->layout.group_count; g++) {
        nt__text rule = {0};
        nt__rule_print(&traced->training[g].rule, false, &rule);
        json_t *states = rule.failed ? NULL : state_types(traced, g);
        right = states && nt__facts_append(list, json_pack("{s:s, s:s, s:o}", "name", traced->layout.groups[g].name,
                                                           "rule", rule.data, "states", states));
        nt__text_free(&rule);
    }
    return nt__facts_whole(list, right);
}

/* ---- facts about where it is ------------------------------------------------------------------------------------ */

static json_t *numbers(const nt_value *values, size_t count) {
    json_t *object = json_object();
    bool right = object != NULL;
    for (size_t i = 0; right && i < count; i++)
        right = nt__facts_put(object, values[i].name, nt__record_number(values[i].value));
    return nt__facts_whole(object, right);
}

/* The value that each schedule has reached: one whose function is over keeps it. */
static json_t *schedules(const nt__resident *resident) {
    json_t *object = json_object();
    bool right = object != NULL;
    for (size_t i = 0; right && i < resident->binding_count; i++)
        right = nt__facts_put(object, resident->bindings[i].name, nt__record_number(resident->bindings[i].value));
    return nt__facts_whole(object, right);
}

static json_t *sums(const nt__position *at) {
    const nt_value values[] = {{"loss_sum", at->loss_sum},
                               {"loss_count", at->loss_count},
                               {"step_sum", at->step_sum},
                               {"step_count", at->step_count}};
    return numbers(values, sizeof values / sizeof *values);
}

static json_t *optional_text(const char *text) {
    return text ? json_string(text) : json_null();
}

typedef struct fact {
    const char *name;
    json_t *value; /* taken over */
} fact;

/* All of them are taken over, also after one that fails. */
static nt_status set_all(nt__record *record, const fact *facts, size_t count) {
    nt_status status = NT_OK;
    for (size_t i = 0; i < count; i++) {
        nt_status set = nt__record_set(record, facts[i].name, facts[i].value);
        if (status == NT_OK) status = set;
    }
    return status;
}

/* Where each logger was. */
static json_t *logs(const nt__reporting *reporting) {
    json_t *object = json_object();
    nt__log_position at;
    for (size_t i = 0; object && reporting->log && nt__log_position_at(reporting->log, i, &at); i++)
        if (json_object_set_new(object, at.name, json_integer(at.at)) != 0) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static nt_status add_place(snapshot *s, const nt__position *at) {
    const nt__recording *recording = s->recording;
    int64_t seen = at->is_open ? at->seen : 0;
    double spent = recording->reporting->spent + nt__seconds() - recording->started;
    const fact facts[] = {{"step", json_integer(recording->resident->step)},
                          {"epoch", json_integer(recording->resident->epoch - at->is_open)},
                          {"batch", json_integer(seen)},
                          {"batches", json_integer(nt__split_batches(recording->traced->train))},
                          {"accum", json_integer(recording->task->settings.accum)},
                          {"micro_batch", json_integer(seen % recording->task->settings.accum)},
                          {"order", at->is_open && at->is_ordered ? nt__record_hash(at->order) : json_null()},
                          {"seconds", nt__record_number(spent)},
                          {"sums", sums(at)},
                          {"schedules", schedules(recording->resident)},
                          {"logs", logs(recording->reporting)}};
    return set_all(s->record, facts, sizeof facts / sizeof *facts);
}

static nt_status add_identity(snapshot *s) {
    const nt__recording *recording = s->recording;
    const fact facts[] = {{"experiment", json_string(recording->task->experiment->name)},
                          {"seed", json_integer(recording->task->settings.seed)},
                          {"preset", optional_text(recording->task->preset)},
                          {"max_epochs", json_integer(recording->task->settings.max_epochs)},
                          {"horizon", json_integer(recording->resident->horizon)},
                          {"data", json_deep_copy(recording->data)},
                          {"settings", nt__record_settings(recording->resident)},
                          {"config", nt__record_config(recording->task)},
                          {"compute_dtype", json_string(recording->task->settings.compute_dtype)},
                          {"host", nt__record_fields(recording->task, NT_HOST)},
                          {"devices", nt__record_fields(recording->task, NT_DEVICE)},
                          {"device_starts", nt__record_device_starts(recording->resident)},
                          {"derived", nt__record_derived(recording->task)},
                          {"given", nt__record_given(recording->task)},
                          {"types", nt__record_types(recording->task)},
                          {"inputs", nt__record_inputs(recording->traced)},
                          {"numbers", nt__record_numbers(recording->traced)},
                          {"layout", nt__record_layout(recording->traced)},
                          {"groups", nt__record_groups(recording->traced)},
                          {"anchor_hashes", nt__record_anchors(recording->resident)}};
    return set_all(s->record, facts, sizeof facts / sizeof *facts);
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static nt_status add_arrays(snapshot *s, const nt__position *at) {
    /* Only a step under way has something in the accumulators. */
    bool is_within_step = at->seen % s->recording->task->settings.accum != 0;
    nt_status status = add_parameters(s);
    if (status == NT_OK) status = add_averages(s);
    if (status == NT_OK) status = nt__record_layer_states(s->recording->resident, &s->names, add_buffer, s);
    if (status == NT_OK) status = nt__record_optimizer(s->recording->resident, &s->names, add_buffer, s);
    if (status == NT_OK && is_within_step)
        status = nt__record_accumulators(s->recording->resident, &s->names, add_buffer, s);
    return status == NT_OK ? add_device_fields(s) : status;
}

nt_status nt__snapshot_take(nt__recording *recording, const nt__position *at, const char *stop_reason,
                            const nt_value *values, size_t count, nt__record *out) {
    snapshot s = {.recording = recording, .record = out};
    nt_status status = nt__record_new(out);
    if (status == NT_OK) status = add_arrays(&s, at);
    if (status == NT_OK) status = add_place(&s, at);
    if (status == NT_OK) status = add_identity(&s);
    if (status == NT_OK) status = nt__record_set(out, "metrics", numbers(values, count));
    if (status == NT_OK) status = nt__record_set(out, "stop_reason", optional_text(stop_reason));
    nt__arena_free(&s.names);
    if (status != NT_OK) nt__record_free(out);
    return status;
}
