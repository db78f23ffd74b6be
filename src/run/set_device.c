/* Device fields of a live run, set and read by their users: what is refused, in the order that a user has to mend it.
 * Not here: how a value gets to the device (device_fields.c).
 */
#include <string.h>

#include "run/run_internal.h"

/* What a name means: a slot, or a whole set. */
typedef struct target {
    const char *call, *name;
    size_t field;
    const nt_field_info *info;
    const nt__device_slot *slot; /* NULL: a set */
} target;

/* ---- the gate --------------------------------------------------------------------------------------------------- */

static nt_status fail_unknown(const nt__task *task, const target *t) {
    nt__text names = {0};
    for (size_t i = 0; i < task->experiment->field_count; i++)
        nt__text_add(&names, "%s%s", i ? ", " : "", task->experiment->fields[i].name);
    nt_status status = names.failed ? NT_OUT_OF_MEMORY
                                    : nt__fail(NT_INVALID, "%s: %s has no field '%s'; it has: %s", t->call,
                                               task->experiment->name, t->name, names.length ? names.data : "none");
    nt__text_free(&names);
    return status;
}

static nt_status check_marker(const nt__task *task, const target *t) {
    const char *experiment = task->experiment->name, *field = t->info->name;
    switch (t->info->marker) {
    case NT_HOST:
        return nt__fail(NT_INVALID,
                        "%s: field %s of %s is Host: no program sees it, so a live run has nothing to set. Make a new "
                        "run with another value",
                        t->call, field, experiment);
    case NT_GRAPH_CONST:
        return nt__fail(
            NT_INVALID,
            "%s: field %s of %s is GraphConst, a constant of the programs: another value is another program. "
            "Make a new run, which uses again every program that the value does not change; or mark the "
            "field DEVICE, when it decides no shape and no control flow",
            t->call, field, experiment);
    default: return NT_OK;
    }
}

/* Its type and shape would be part of programs that were made without it. */
static nt_status check_there(const nt__traced *traced, const target *t) {
    if (!traced->device_fields.contents[t->field].absent) return NT_OK;
    return nt__fail(
        NT_INVALID,
        "%s: field %s of %s was NULL when the run was made, and no program reads it: make a new run with it", t->call,
        t->info->name, traced->task->experiment->name);
}

static nt_status find_slot(const nt__traced *traced, target *t, const char *member) {
    size_t first = traced->device_fields.first[t->field], count = traced->device_fields.contents[t->field].count;
    bool is_set = t->info->type == NT_FIELD_ARRAYS;
    if (!is_set && !member) t->slot = &traced->device_fields.slots[first];
    if (!member) return NT_OK;
    for (size_t i = 0; is_set && i < count; i++)
        if (strcmp(traced->device_fields.slots[first + i].member, member) == 0)
            t->slot = &traced->device_fields.slots[first + i];
    if (t->slot) return NT_OK;
    nt__text shown = {0};
    nt__field_print(t->info, traced->task->fields, &shown);
    nt_status status = shown.failed ? NT_OUT_OF_MEMORY
                                    : nt__fail(NT_INVALID, "%s: field %s of %s is %s and has no array '%s'", t->call,
                                               t->info->name, traced->task->experiment->name, shown.data, member);
    nt__text_free(&shown);
    return status;
}

/* Place of the field whose name has this length; the number of fields when there is none. */
static size_t find_field(const nt_experiment *experiment, const char *name, size_t length) {
    size_t field = 0;
    for (; field < experiment->field_count; field++) {
        const char *of_field = experiment->fields[field].name;
        if (strlen(of_field) == length && memcmp(of_field, name, length) == 0) break;
    }
    return field;
}

/* `name` is a field, or "field.member" of a set. */
static nt_status find_target(const nt__traced *traced, const char *call, const char *name, target *t) {
    *t = (target){.call = call, .name = name};
    if (!nt__given(name, call, "field")) return NT_INVALID;
    size_t length = strcspn(name, ".");
    t->field = find_field(traced->task->experiment, name, length);
    if (t->field == traced->task->experiment->field_count) return fail_unknown(traced->task, t);
    t->info = &traced->task->experiment->fields[t->field];
    nt_status status = check_marker(traced->task, t);
    if (status == NT_OK) status = check_there(traced, t);
    return status == NT_OK ? find_slot(traced, t, name[length] ? name + length + 1 : NULL) : status;
}

static nt_status check_schedule(const nt__resident *resident, const target *t) {
    if (!nt__field_scheduled(resident, t->field)) return NT_OK;
    return nt__fail(NT_INVALID,
                    "%s: field %s of %s has a schedule, which would overwrite this value at the next step. Change the "
                    "schedule, or make a run without one",
                    t->call, t->info->name, resident->task->experiment->name);
}

static nt_status find_writable(const nt__resident *resident, const char *call, const char *name, target *t) {
    nt_status status = find_target(resident->traced, call, name, t);
    return status == NT_OK ? check_schedule(resident, t) : status;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static bool is_scalar(const target *t) {
    return nt__field_is_number(t->info);
}

static nt_status refuse_kind(const nt__task *task, const target *t, const char *given) {
    char type[NT__TYPE_TEXT];
    const char *is = t->slot ? nt__type_text(t->slot->type, type) : "a set of arrays";
    return nt__fail(NT_INVALID, "%s: field %s of %s is %s and cannot be %s", t->call, t->name, task->experiment->name,
                    is, given);
}

static nt_status set_number(nt__resident *resident, const char *field, double value) {
    target t;
    nt_status status = find_writable(resident, "nt_set_device", field, &t);
    if (status == NT_OK && !is_scalar(&t)) status = refuse_kind(resident->task, &t, "a number");
    if (status != NT_OK) return status;
    status = nt__device_field_write_number(resident, t.field, value);
    return status == NT_OK ? status : nt__fail_in(status, "nt_set_device: field");
}

nt_status nt_set_device_number(nt_run *run, const char *field, double value) {
    NT__USE(run, "nt_set_device");
    return used ? set_number(&run->resident, field, value) : NT_INVALID;
}

/* A 64-bit integer need not be a double. */
nt_status nt_set_device_integer(nt_run *run, const char *field, int64_t value) {
    NT__USE(run, "nt_set_device");
    if (!used) return NT_INVALID;
    target t;
    nt_status status = find_writable(&run->resident, "nt_set_device", field, &t);
    if (status != NT_OK) return status;
    bool as_it_is = t.info->type == NT_FIELD_INT64 || (t.info->type == NT_FIELD_UINT64 && value >= 0);
    if (!as_it_is) return set_number(&run->resident, field, (double)value);
    status = nt__device_field_write(&run->resident, t.field, &value);
    return status == NT_OK ? status : nt__fail_in(status, "nt_set_device");
}

/* ---- arrays ----------------------------------------------------------------------------------------------------- */

/* The array as the slot's element type; the shape is part of the program. */
static nt_status fit(const nt__task *task, const target *t, const nt__device_slot *slot, nt_array *value,
                     nt_array **out) {
    char is[NT__TYPE_TEXT], given[NT__TYPE_TEXT];
    *out = nt__array_convert(value, slot->type.dtype);
    if (!*out) return nt__fail_in(nt_error_status(), "%s: field %s of %s", t->call, slot->name, task->experiment->name);
    if (nt_shape_equal(value->shape, slot->type.shape)) return NT_OK;
    nt_array_free(*out);
    return nt__fail(NT_INVALID,
                    "%s: field %s of %s is %s and the new array is %s: the shape of an array is part of the programs. "
                    "Make a new run with it",
                    t->call, slot->name, task->experiment->name, nt__type_text(slot->type, is),
                    nt__type_text(nt__array_type(value), given));
}

nt_status nt_set_device_array(nt_run *run, const char *field, nt_array *value) {
    NT__USE(run, "nt_set_device");
    if (!used) return NT_INVALID;
    target t;
    nt_array *fitting;
    nt_status status = find_writable(&run->resident, "nt_set_device", field, &t);
    if (status != NT_OK) return status;
    if (!nt__given(value, t.call, "value")) return NT_INVALID;
    if (!t.slot) return refuse_kind(&run->task, &t, "one array; give an nt_arrays, or FIELD.NAME");
    status = fit(&run->task, &t, t.slot, value, &fitting);
    if (status != NT_OK) return status;
    if (is_scalar(&t))
        status = nt__device_field_write(&run->resident, t.field, fitting->data);
    else
        status = nt__device_slot_write(&run->resident, (size_t)(t.slot - run->traced.device_fields.slots), fitting);
    nt_array_free(fitting);
    return status == NT_OK ? status : nt__fail_in(status, "nt_set_device");
}

/* A set with the same names, each array converted; NULL with a message. */
static nt_arrays *fit_all(const nt__traced *traced, const target *t, const nt_arrays *value) {
    size_t first = traced->device_fields.first[t->field], count = traced->device_fields.contents[t->field].count;
    nt_arrays *fitting = nt_arrays_new();
    nt_status status = fitting ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < count; i++) {
        const nt__device_slot *slot = &traced->device_fields.slots[first + i];
        nt_array *array = nt_arrays_find(value, slot->member), *converted = NULL;
        status = array
                     ? fit(traced->task, t, slot, array, &converted)
                     : nt__fail_in(NT_INVALID, "%s: field %s of %s", t->call, t->name, traced->task->experiment->name);
        if (status == NT_OK) status = nt_arrays_put(fitting, slot->member, converted);
    }
    if (status == NT_OK) return fitting;
    nt_arrays_free(fitting);
    return NULL;
}

nt_status nt_set_device_arrays(nt_run *run, const char *field, nt_arrays *value) {
    NT__USE(run, "nt_set_device");
    if (!used) return NT_INVALID;
    target t;
    nt_status status = find_writable(&run->resident, "nt_set_device", field, &t);
    if (status != NT_OK) return status;
    if (!nt__given(value, t.call, "value")) return NT_INVALID;
    if (t.slot) return refuse_kind(&run->task, &t, "a set of arrays");
    if (nt_arrays_count(value) != run->traced.device_fields.contents[t.field].count)
        return nt__fail(NT_INVALID, "nt_set_device: field %s of %s has %zu arrays and the new set %zu", t.name,
                        run->task.experiment->name, run->traced.device_fields.contents[t.field].count,
                        nt_arrays_count(value));
    nt_arrays *fitting = fit_all(&run->traced, &t, value);
    if (!fitting) return nt_error_status();
    status = nt__device_field_write(&run->resident, t.field, &fitting);
    nt_arrays_free(fitting);
    return status == NT_OK ? status : nt__fail_in(status, "nt_set_device");
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

nt_array *nt_get_device(nt_run *run, const char *field) {
    NT__USE(run, "nt_get_device");
    if (!used) return NULL;
    target t;
    if (find_target(&run->traced, "nt_get_device", field, &t) != NT_OK) return NULL;
    if (!t.slot) {
        refuse_kind(&run->task, &t, "read as one; name an array of it: FIELD.NAME");
        return NULL;
    }
    size_t index = (size_t)(t.slot - run->traced.device_fields.slots);
    nt_array *value = nt_array_new(t.slot->type.dtype, t.slot->type.shape);
    if (!value || nt__buffer_read(run->traced.engine, &run->resident.values[index].buffer, value->data) == NT_OK)
        return value;
    nt_array_free(value);
    return NULL;
}
