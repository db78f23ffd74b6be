/* The whole state of a live run as a record: what is on the device as host arrays, the rest as facts.
 * Not here: back again (restore.c), when that happens (checkpoints.c).
 */

#include "run/model_facts.h"
#include "run/records.h"

/* ---- names ------------------------------------------------------------------------------------------------------ */

const char *nt__record_slot_name(const nt__device_slot *slot, nt__arena *arena) {
    return nt__arena_sprintf(arena, NT__RECORD_FIELDS "%s", slot->name);
}

/* ---- whole buffers, with their names ---------------------------------------------------------------------------- */

nt_status nt__record_layer_states(nt_run *run, nt__arena *names, nt__record_use *use, void *context) {
    size_t count;
    const nt__leaf *states = nt__model_states(run->model, &count);
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < count; i++)
        status = use(context, nt__arena_sprintf(names, NT__RECORD_STATES "%s", states[i].path),
                     &run->device.layer_states[i]);
    return status;
}

static const char *state_name(const nt_run *run, size_t group, size_t index, nt__arena *names) {
    nt__state state;
    nt__rule_state(&run->training[group].rule, index, &state);
    return nt__arena_sprintf(names, "optimizer/%s/%zu.%s.%s", run->layout.groups[group].name, index,
                             state.link->kind->name, state.state->name);
}

nt_status nt__record_optimizer(nt_run *run, nt__arena *names, nt__record_use *use, void *context) {
    nt_status status = NT_OK;
    for (size_t g = 0; g < run->layout.group_count; g++) {
        const nt__training *training = &run->training[g];
        size_t count = training->frozen ? 0 : nt__rule_state_count(&training->rule);
        for (size_t i = 0; status == NT_OK && i < count; i++)
            status = use(context, state_name(run, g, i, names), &run->device.states[training->first_state + i]);
    }
    return status;
}

nt_status nt__record_accumulators(nt_run *run, nt__arena *names, nt__record_use *use, void *context) {
    nt_status status = NT_OK;
    for (size_t g = 0; status == NT_OK && g < run->layout.group_count; g++)
        if (!run->training[g].frozen)
            status = use(context, nt__arena_sprintf(names, "accumulators/%s", run->layout.groups[g].name),
                         &run->device.accumulators[g]);
    return status == NT_OK && run->weighted ? use(context, "accumulated", &run->device.count) : status;
}

/* ---- arrays ----------------------------------------------------------------------------------------------------- */

typedef struct snapshot {
    nt_run *run;
    nt__record *record;
    nt__arena names;
} snapshot;

static nt_status read_buffer(nt_run *run, nt__buffer *buffer, nt_array **out) {
    *out = nt__record_writer_array(run->recording.writer, buffer->type.dtype, buffer->type.shape);
    nt_status status = *out ? nt__buffer_read(run->engine, buffer, (*out)->data) : NT_OUT_OF_MEMORY;
    if (status == NT_OK) return NT_OK;
    nt_array_free(*out);
    *out = NULL;
    return status;
}

static nt_status add_buffer(void *context, const char *name, nt__buffer *buffer) {
    const snapshot *s = context;
    nt_array *copy;
    if (!name) return NT_OUT_OF_MEMORY;
    nt_status status = read_buffer(s->run, buffer, &copy);
    return status == NT_OK ? nt__record_add(s->record, name, copy) : status;
}

static nt_status check_finite(const nt_run *run, const nt__row *row, const void *at) {
    const nt__named_array named = {row->path, row->type, at};
    return run->settings.check_divergence ? nt__check_finite(run, "the checkpoint", &named, false) : NT_OK;
}

/* The parameters of a group, one array each, where they lie in the copy of its buffer. */
static nt_status add_rows(snapshot *s, const char *prefix, int group, nt_array *flat) {
    const nt__layout *layout = &s->run->layout;
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < layout->row_count; i++) {
        const nt__row *row = &layout->rows[i];
        if (row->group != group) continue;
        const char *name = nt__arena_sprintf(&s->names, "%s%s", prefix, row->path);
        if (!name) return NT_OUT_OF_MEMORY;
        const char *at = nt__row_data(row, flat);
        status = check_finite(s->run, row, at);
        if (status == NT_OK) status = nt__record_add_part(s->record, name, row->type, at, flat);
    }
    return status;
}

static nt_status add_group(snapshot *s, const char *prefix, int group, nt__buffer *buffer) {
    nt_array *flat;
    nt_status status = read_buffer(s->run, buffer, &flat);
    if (status != NT_OK) return status;
    status = add_rows(s, prefix, group, flat);
    nt_array_free(flat);
    return status;
}

static nt_status add_parameters(snapshot *s) {
    nt_status status = NT_OK;
    for (size_t g = 0; status == NT_OK && g < s->run->layout.group_count; g++)
        status = add_group(s, NT__RECORD_PARAMETERS, (int)g, &s->run->device.parameters[g]);
    return status;
}

/* They follow from the states, but a handle that only evaluates has no states. */
static nt_status add_averages(snapshot *s) {
    nt_run *run = s->run;
    if (!run->programs.average) return NT_OK;
    nt_status status = nt__averages_begin(run);
    if (status != NT_OK) return status;
    for (size_t g = 0; status == NT_OK && g < run->layout.group_count; g++)
        status = add_group(s, NT__RECORD_AVERAGES, (int)g, nt__evaluated_parameters(run, g));
    nt__averages_end(run);
    return status;
}

static nt_status add_device_fields(snapshot *s) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < s->run->device_fields.count; i++) {
        nt__device_slot *slot = &s->run->device_fields.slots[i];
        status = add_buffer(s, nt__record_slot_name(slot, &s->names), &slot->buffer);
    }
    return status;
}

/* ---- facts about what the run is -------------------------------------------------------------------------------- */

json_t *nt__record_hash(nt__hash hash) {
    char hex[33];
    nt__hash_hex(hash, hex);
    return json_string(hex);
}

json_t *nt__record_device_starts(const nt_run *run) {
    json_t *object = json_object();
    bool right = object != NULL;
    for (size_t i = 0; right && i < run->device_fields.count; i++)
        right =
            nt__facts_put(object, run->device_fields.slots[i].name, nt__record_hash(run->device_fields.slots[i].start));
    return nt__facts_whole(object, right);
}

json_t *nt__record_layout(const nt_run *run) {
    json_t *list = json_array();
    bool right = list != NULL;
    char type[NT__TYPE_TEXT];
    for (size_t i = 0; right && i < run->layout.row_count; i++) {
        const nt__row *row = &run->layout.rows[i];
        right = nt__facts_append(list, json_pack("[s, s, I, I, s]", row->path, run->layout.groups[row->group].name,
                                                 (json_int_t)row->offset, (json_int_t)row->length,
                                                 nt__type_text(row->type, type)));
    }
    return nt__facts_whole(list, right);
}

json_t *nt__record_anchors(const nt_run *run) {
    bool any = false, right = true;
    for (size_t g = 0; g < run->layout.group_count; g++) any |= run->training[g].anchor.kind != NT_ANCHOR_ZERO;
    if (!any) return json_null();
    json_t *list = json_array();
    right = list != NULL;
    for (size_t g = 0; right && g < run->layout.group_count; g++) {
        const nt__training *training = &run->training[g];
        right = nt__facts_append(
            list, training->anchor.kind == NT_ANCHOR_ZERO ? json_null() : nt__record_hash(training->anchor_hash));
    }
    return nt__facts_whole(list, right);
}

static json_t *state_types(const nt_run *run, size_t g) {
    json_t *list = json_array();
    nt__state state;
    char type[NT__TYPE_TEXT];
    bool right = list != NULL;
    for (size_t i = 0; right && nt__rule_state(&run->training[g].rule, i, &state); i++)
        right = nt__facts_append(list, json_pack("[s, s, s]", state.link->kind->name, state.state->name,
                                                 nt__type_text(nt__state_type(&state, &run->layout.groups[g]), type)));
    return nt__facts_whole(list, right);
}

json_t *nt__record_groups(const nt_run *run) {
    json_t *list = json_array();
    bool right = list != NULL;
    for (size_t g = 0; right && g < run->layout.group_count; g++) {
        nt__text rule = {0};
        nt__rule_print(&run->training[g].rule, false, &rule);
        json_t *states = rule.failed ? NULL : state_types(run, g);
        right = states && nt__facts_append(list, json_pack("{s:s, s:s, s:o}", "name", run->layout.groups[g].name,
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
static json_t *schedules(const nt_run *run) {
    json_t *object = json_object();
    bool right = object != NULL;
    for (size_t i = 0; right && i < run->binding_count; i++)
        right = nt__facts_put(object, run->bindings[i].name, nt__record_number(run->bindings[i].value));
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
static json_t *logs(const nt_run *run) {
    json_t *object = json_object();
    nt__log_position at;
    for (size_t i = 0; object && run->log && nt__log_position_at(run->log, i, &at); i++)
        if (json_object_set_new(object, at.name, json_integer(at.at)) != 0) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static nt_status add_place(snapshot *s, const nt__position *at) {
    const nt_run *run = s->run;
    int64_t seen = at->is_open ? at->seen : 0;
    double spent = run->recording.spent + nt__seconds() - run->recording.started;
    const fact facts[] = {{"step", json_integer(run->step)},
                          {"epoch", json_integer(run->epoch - at->is_open)},
                          {"batch", json_integer(seen)},
                          {"batches", json_integer(nt__split_batches(run->train))},
                          {"accum", json_integer(run->settings.accum)},
                          {"micro_batch", json_integer(seen % run->settings.accum)},
                          {"order", at->is_open && at->is_ordered ? nt__record_hash(at->order) : json_null()},
                          {"seconds", nt__record_number(spent)},
                          {"sums", sums(at)},
                          {"schedules", schedules(run)},
                          {"logs", logs(run)}};
    return set_all(s->record, facts, sizeof facts / sizeof *facts);
}

static nt_status add_identity(snapshot *s) {
    const nt_run *run = s->run;
    const fact facts[] = {{"experiment", json_string(run->experiment->name)},
                          {"seed", json_integer(run->settings.seed)},
                          {"preset", optional_text(run->preset)},
                          {"max_epochs", json_integer(run->settings.max_epochs)},
                          {"horizon", json_integer(run->horizon)},
                          {"data", json_deep_copy(run->recording.data)},
                          {"settings", nt__record_settings(run)},
                          {"config", nt__record_config(run)},
                          {"compute_dtype", json_string(run->settings.compute_dtype)},
                          {"host", nt__record_fields(run, NT_HOST)},
                          {"devices", nt__record_fields(run, NT_DEVICE)},
                          {"device_starts", nt__record_device_starts(run)},
                          {"derived", nt__record_derived(run)},
                          {"given", nt__record_given(run)},
                          {"types", nt__record_types(run)},
                          {"inputs", nt__record_inputs(run)},
                          {"numbers", nt__record_numbers(run)},
                          {"layout", nt__record_layout(run)},
                          {"groups", nt__record_groups(run)},
                          {"anchor_hashes", nt__record_anchors(run)}};
    return set_all(s->record, facts, sizeof facts / sizeof *facts);
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static nt_status add_arrays(snapshot *s, const nt__position *at) {
    /* Only a step under way has something in the accumulators. */
    bool is_within_step = at->seen % s->run->settings.accum != 0;
    nt_status status = add_parameters(s);
    if (status == NT_OK) status = add_averages(s);
    if (status == NT_OK) status = nt__record_layer_states(s->run, &s->names, add_buffer, s);
    if (status == NT_OK) status = nt__record_optimizer(s->run, &s->names, add_buffer, s);
    if (status == NT_OK && is_within_step) status = nt__record_accumulators(s->run, &s->names, add_buffer, s);
    return status == NT_OK ? add_device_fields(s) : status;
}

nt_status nt__snapshot_take(nt_run *run, const nt__position *at, const char *stop_reason, const nt_value *values,
                            size_t count, nt__record *out) {
    snapshot s = {.run = run, .record = out};
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
