/* A record back into a run: what must be the same, then every array and the place in training.
 * Not here: which record that is (resume.c), the place (resume_place.c), what is only told (resume_changes.c), how it
 * was made (snapshot.c).
 */
#include <string.h>

#include "checkpoint/records.h"

enum { MOST_DIFFERENCES = 6 };

static const char advice[] =
    "Give the run what it had then, or start over without resume; --weights takes the parameters alone";

/* ---- the GraphConst fields -------------------------------------------------------------------------------------- */

/* The facts come out of a file, whose hash is right but which another version may have written. */
nt_status nt__record_fact(const nt__record *record, const char *key, json_type type, json_t **out) {
    *out = json_object_get(record->facts, key);
    if (*out && json_typeof(*out) == type) return NT_OK;
    return nt__fail(NT_INVALID, "the checkpoint has no fact '%s' of the right kind: it was not written by this program",
                    key);
}

static bool is_object_of_texts(json_t *object) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) if (!json_is_string(value)) return false;
    return true;
}

/* Another experiment may have the same fields and the same layout. */
static nt_status check_experiment(const nt__task *task, const nt__record *record) {
    const char *then = json_string_value(json_object_get(record->facts, "experiment"));
    if (!then || strcmp(then, task->experiment->name) == 0) return NT_OK;
    return nt__fail(NT_INVALID, "the checkpoint is of experiment '%s', and this is '%s'. %s", then,
                    task->experiment->name, advice);
}

nt_status nt__restore_check_config(const nt__task *task, const nt__record *record) {
    json_t *then = NULL, *now;
    nt__text lines = {0};
    nt_status status = check_experiment(task, record);
    if (status == NT_OK) status = nt__record_fact(record, "config", JSON_OBJECT, &then);
    if (status == NT_OK && !is_object_of_texts(then))
        return nt__fail(NT_INVALID, "the fact 'config' of the checkpoint has a value that is no text");
    if (status != NT_OK) return status;
    now = nt__record_config(task);
    if (!now) return NT_OUT_OF_MEMORY;
    size_t found = nt__list_changes(&(nt__changes){then, now, NULL}, &lines);
    json_decref(now);
    if (found)
        status =
            nt__fail(NT_INVALID,
                     "%zu GraphConst field%s of experiment '%s' differ%s from the checkpoint, whose parameters belong "
                     "to another model:%s\n%s",
                     found, found == 1 ? "" : "s", task->experiment->name, found == 1 ? "s" : "",
                     lines.data ? lines.data : "", advice);
    nt__text_free(&lines);
    return status;
}

/* ---- the layout ------------------------------------------------------------------------------------------------- */

static const char *path_of(const json_t *row) {
    const char *path = json_string_value(json_array_get(row, 0));
    return path ? path : "?";
}

static const json_t *find_row(const json_t *rows, const char *path) {
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row) if (strcmp(path_of(row), path) == 0) return row;
    return NULL;
}

/* "body, elements 8 to 16, f32[2,4]" */
static void describe_row(const json_t *row, nt__text *out) {
    if (!row) {
        nt__text_add(out, "absent");
        return;
    }
    json_int_t offset = json_integer_value(json_array_get(row, 2)), length = json_integer_value(json_array_get(row, 3));
    const char *group = json_string_value(json_array_get(row, 1)), *type = json_string_value(json_array_get(row, 4));
    nt__text_add(out, "%s, group %s from element %lld, %lld elements", type ? type : "?", group ? group : "?",
                 (long long)offset, (long long)length);
}

static size_t list_rows(const json_t *then, const json_t *now, nt__text *out) {
    size_t found = 0, i;
    const json_t *const sides[] = {then, now};
    for (int side = 0; side < 2; side++) {
        json_t *row;
        json_array_foreach((json_t *)sides[side], i, row) {
            const json_t *other = find_row(sides[1 - side], path_of(row));
            if (side == 1 && other) continue; /* it was told from the other side */
            if (other && json_equal(row, (json_t *)other)) continue;
            if (++found > MOST_DIFFERENCES) continue;
            nt__text_add(out, "\n  %s: ", path_of(row));
            describe_row(side == 0 ? row : NULL, out);
            nt__text_add(out, " -> ");
            describe_row(side == 0 ? other : row, out);
        }
    }
    return found;
}

static nt_status check_layout(const nt__traced *traced, const nt__record *record) {
    json_t *then;
    nt__text lines = {0};
    nt_status status = nt__record_fact(record, "layout", JSON_ARRAY, &then);
    if (status != NT_OK) return status;
    json_t *now = nt__record_layout(traced);
    if (!now) return NT_OUT_OF_MEMORY;
    if (!json_equal(then, now)) {
        size_t found = list_rows(then, now, &lines);
        status = nt__fail(
            NT_INVALID,
            "the parameters of experiment '%s' lie elsewhere than in the checkpoint (%zu then, %zu now), so "
            "moments of the optimizer would be applied to wrong ones:%s%s\n%s",
            traced->task->experiment->name, json_array_size(then), json_array_size(now),
            lines.data ? lines.data : " they are in another order", found > MOST_DIFFERENCES ? "\n  ..." : "", advice);
    }
    nt__text_free(&lines);
    json_decref(now);
    return status;
}

/* ---- the anchors ------------------------------------------------------------------------------------------------ */

static nt_status compare_anchors(const nt__traced *traced, const json_t *then, const json_t *now) {
    if (json_equal((json_t *)then, (json_t *)now)) return NT_OK;
    if (json_is_null(then) != json_is_null(now) || json_array_size(then) != json_array_size(now))
        return nt__fail(
            NT_INVALID,
            "the checkpoint has %s for its decay, and experiment '%s' now has %s: the decay_anchor hook has "
            "changed. %s",
            json_is_null(then) ? "no anchor" : "anchors", traced->task->experiment->name,
            json_is_null(now) ? "none" : "some", advice);
    for (size_t g = 0; g < traced->layout.group_count; g++) {
        const json_t *a = json_array_get(then, g), *b = json_array_get(now, g);
        if (json_equal((json_t *)a, (json_t *)b)) continue;
        return nt__fail(NT_INVALID,
                        "the decay anchor of group '%s' has the checksum %s in the checkpoint and %s now: the initial "
                        "values, or the array of the decay_anchor hook, are not reproducible. Going on with another "
                        "anchor would be another training, so it is not offered. %s",
                        traced->layout.groups[g].name, json_is_string(a) ? json_string_value(a) : "of none",
                        json_is_string(b) ? json_string_value(b) : "of none", advice);
    }
    return NT_OK;
}

static nt_status check_anchors(const nt__resident *resident, const nt__record *record) {
    const json_t *then = json_object_get(record->facts, "anchor_hashes");
    json_t *now = nt__record_anchors(resident);
    if (!now) return NT_OUT_OF_MEMORY;
    json_t *none = json_null();
    nt_status status = compare_anchors(resident->traced, then ? then : none, now);
    json_decref(now);
    return status;
}

/* ---- the rules -------------------------------------------------------------------------------------------------- */

static const char *rule_of(const json_t *group) {
    const char *rule = json_string_value(json_object_get(group, "rule"));
    return rule ? rule : "?";
}

/* Numbers of a rule may be others now; what it remembers may not. */
static nt_status check_groups(const nt__traced *traced, const nt__record *record) {
    json_t *then;
    nt_status status = nt__record_fact(record, "groups", JSON_ARRAY, &then);
    if (status != NT_OK) return status;
    json_t *now = nt__record_groups(traced);
    if (!now) return NT_OUT_OF_MEMORY;
    if (json_array_size(then) != json_array_size(now))
        status = nt__fail(NT_INVALID, "the checkpoint has %zu groups of parameters, experiment '%s' has %zu. %s",
                          json_array_size(then), traced->task->experiment->name, json_array_size(now), advice);
    for (size_t g = 0; status == NT_OK && g < traced->layout.group_count; g++) {
        const json_t *a = json_array_get(then, g), *b = json_array_get(now, g);
        if (json_equal(json_object_get(a, "states"), json_object_get(b, "states")) &&
            json_equal(json_object_get(a, "name"), json_object_get(b, "name")))
            continue;
        status =
            nt__fail(NT_INVALID,
                     "the optimizer of group '%s' was %s in the checkpoint and is %s now, whose states are others. %s",
                     traced->layout.groups[g].name, rule_of(a), rule_of(b), advice);
    }
    json_decref(now);
    return status;
}

/* ---- arrays ----------------------------------------------------------------------------------------------------- */

typedef struct restore {
    nt__resident *resident;
    const nt__record *record;
    nt__arena names;
} restore;

static nt_status find_array(const nt__record *record, const char *name, nt__type type, const nt__named_array **out) {
    char wanted[NT__TYPE_TEXT], got[NT__TYPE_TEXT];
    if (!name) return NT_OUT_OF_MEMORY;
    *out = nt__record_find(record, name);
    if (*out && nt__type_equal((*out)->type, type)) return NT_OK;
    return nt__fail(NT_INVALID, "the checkpoint has %s for '%s', and the run needs %s. %s",
                    *out ? nt__type_text((*out)->type, got) : "nothing", name, nt__type_text(type, wanted), advice);
}

/* Another value for a buffer that is alive. It is freed first, so that a large one is not there twice. */
static nt_status replace(nt__resident *resident, nt__buffer *buffer, const void *data) {
    nt__buffer fresh = {0};
    nt__type type = buffer->type;
    nt__purpose purpose = buffer->purpose;
    char name[NT__BUFFER_NAME];
    memcpy(name, buffer->name, sizeof name);
    nt__buffer_free(buffer);
    nt_status status = nt__upload(resident, name, purpose, type, data, &fresh);
    if (status == NT_OK) *buffer = fresh;
    return status;
}

static nt_status take_buffer(void *context, const char *name, nt__buffer *buffer) {
    const restore *r = context;
    const nt__named_array *array = NULL;
    nt_status status = find_array(r->record, name, buffer->type, &array);
    return status == NT_OK ? replace(r->resident, buffer, array->data) : status;
}

static nt_status gather_rows(restore *r, int group, nt_array *flat) {
    const nt__layout *layout = &r->resident->traced->layout;
    size_t size = nt_dtype_size(flat->dtype);
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < layout->row_count; i++) {
        const nt__row *row = &layout->rows[i];
        const nt__named_array *array = NULL;
        if (row->group != group) continue;
        status = find_array(r->record, nt__arena_sprintf(&r->names, NT__RECORD_PARAMETERS "%s", row->path), row->type,
                            &array);
        if (status == NT_OK) memcpy(nt__row_data(row, flat), array->data, (size_t)row->length * size);
    }
    return status;
}

static nt_status take_parameters(restore *r, size_t g) {
    nt__type type = nt__group_type(&r->resident->traced->layout.groups[g]);
    nt_array *flat = nt_array_new(type.dtype, type.shape);
    if (!flat) return NT_OUT_OF_MEMORY;
    nt_status status = gather_rows(r, (int)g, flat);
    if (status == NT_OK) status = replace(r->resident, &r->resident->device.parameters[g], flat->data);
    nt_array_free(flat);
    return status;
}

/* ---- what changes from step to step ----------------------------------------------------------------------------- */

/* A Device field that was set in the course of training has that value again. One that the run is given another value
 * for than it began with then keeps the new one. */
static nt_status take_slot(restore *r, size_t index, json_t *starts, json_t *now) {
    const nt__device_slot *slot = &r->resident->traced->device_fields.slots[index];
    const nt_field_info *field = &r->resident->task->experiment->fields[slot->field];
    json_t *then = json_object_get(starts, slot->name);
    const char *name = nt__record_slot_name(slot, &r->names);
    if (!name) return NT_OUT_OF_MEMORY;
    const nt__named_array *array = nt__record_find(r->record, name);
    bool is_kept = !then || !array || !json_equal(then, json_object_get(now, slot->name));
    if (is_kept || !nt__type_equal(array->type, slot->type)) return NT_OK;
    if (nt__field_is_number(field)) return nt__device_field_write(r->resident, slot->field, array->data);
    nt_array *copy = nt_array_from(array->type.dtype, array->type.shape, array->data);
    nt_status status = copy ? nt__device_slot_write(r->resident, index, copy) : NT_OUT_OF_MEMORY;
    nt_array_free(copy);
    return status;
}

static nt_status take_device_fields(restore *r) {
    json_t *starts, *now = nt__record_device_starts(r->resident);
    nt_status status = now ? nt__record_fact(r->record, "device_starts", JSON_OBJECT, &starts) : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < r->resident->traced->device_fields.count; i++)
        status = take_slot(r, i, starts, now);
    json_decref(now);
    return status;
}

static void take_schedules(const nt__resident *resident, const nt__record *record) {
    const json_t *values = json_object_get(record->facts, "schedules");
    double value;
    for (size_t i = 0; i < resident->binding_count; i++)
        if (nt__record_number_of(json_object_get(values, resident->bindings[i].name), &value))
            resident->bindings[i].value = value;
}

/* A step under way goes on with the values that it began with. */
static nt_status take_place(restore *r, const nt__place_of_record *p) {
    nt__resident *resident = r->resident;
    resident->step = p->step;
    resident->epoch = p->epoch + (p->batch > 0);
    resident->resumed = p->batch > 0 ? p->at : (nt__position){0};
    resident->resumed.is_open = p->batch > 0;
    resident->resumed.seen = p->batch;
    take_schedules(resident, r->record);
    return p->micro_batch > 0 ? nt__schedules_apply(resident) : NT_OK;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static nt_status check_all(const nt__recording *recording, const nt__record *record, nt__place_of_record *p) {
    nt_status status = check_layout(recording->traced, record);
    if (status == NT_OK) status = check_anchors(recording->resident, record);
    if (status == NT_OK) status = check_groups(recording->traced, record);
    if (status == NT_OK) status = nt__place_read(record, p);
    if (status == NT_OK) status = nt__place_check(recording, record, p);
    return status == NT_OK ? nt__resume_warn_changes(recording, record, p) : status;
}

static nt_status take_all(restore *r, const nt__place_of_record *p) {
    nt_status status = NT_OK;
    for (size_t g = 0; status == NT_OK && g < r->resident->traced->layout.group_count; g++)
        status = take_parameters(r, g);
    if (status == NT_OK) status = nt__record_layer_states(r->resident, &r->names, take_buffer, r);
    if (status == NT_OK) status = nt__record_optimizer(r->resident, &r->names, take_buffer, r);
    if (status == NT_OK && p->micro_batch > 0) status = nt__record_accumulators(r->resident, &r->names, take_buffer, r);
    if (status == NT_OK) status = take_device_fields(r);
    return status == NT_OK ? take_place(r, p) : status;
}

nt_status nt__restore_take(nt__recording *recording, const nt__record *record) {
    restore r = {.resident = recording->resident, .record = record};
    nt__place_of_record p = {0};
    nt_status status = check_all(recording, record, &p);
    if (status == NT_OK) status = take_all(&r, &p);
    nt__arena_free(&r.names);
    return status;
}

/* States lie where their parameters do, so the layout has to be that of the record too. */
static nt_status check_optimizer(const nt__traced *traced, const nt__record *record) {
    if (traced->state_count == 0)
        return nt__fail(NT_INVALID,
                        "restore_optimizer is given, and no rule of experiment '%s' has states that could be restored: "
                        "leave it out",
                        traced->task->experiment->name);
    nt_status status = check_groups(traced, record);
    if (status == NT_OK) status = check_layout(traced, record);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "restore_optimizer");
}

nt_status nt__restore_optimizer(nt__resident *resident, const nt__record *record) {
    restore r = {.resident = resident, .record = record};
    nt_status status = check_optimizer(resident->traced, record);
    if (status == NT_OK) status = nt__record_optimizer(resident, &r.names, take_buffer, &r);
    nt__arena_free(&r.names);
    return status;
}
