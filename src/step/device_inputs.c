/* Device fields as inputs of the programs: each is one, a set of arrays one an array.
 * Not here: their values on the device (device_fields.c).
 */
#include <string.h>

#include "step/tracing.h"

/* ---- the list --------------------------------------------------------------------------------------------------- */

static nt_array *array_in(const void *value) {
    return *(nt_array *const *)value;
}

static nt_arrays *arrays_in(const void *value) {
    return *(nt_arrays *const *)value;
}

const void *nt__field_value(const nt__task *task, size_t field) {
    return (const char *)task->fields + task->experiment->fields[field].offset;
}

/* A pointer to an array or a set that is NULL. A program that reads it cannot be; others do without. */
static bool is_absent(const nt__task *task, size_t field) {
    nt_field_type type = task->experiment->fields[field].type;
    if (type == NT_FIELD_ARRAY) return !array_in(nt__field_value(task, field));
    return type == NT_FIELD_ARRAYS && !arrays_in(nt__field_value(task, field));
}

/* Inputs that a field needs. */
static size_t count_slots(const nt__task *task, size_t field) {
    if (is_absent(task, field)) return 0;
    return task->experiment->fields[field].type == NT_FIELD_ARRAYS
               ? nt_arrays_count(arrays_in(nt__field_value(task, field)))
               : 1;
}

/* What whoever reads the field is told. NULL: memory is short. */
static const char *why_absent(nt__task *task, size_t field) {
    const nt_field_info *info = &task->experiment->fields[field];
    return nt__arena_sprintf(&task->arena, "DEVICE field %s (%s) of %s is NULL: %s", info->name,
                             nt__field_type_text(info), task->experiment->name,
                             task->settings.no_data
                                 ? "a run without data, as that of nitro predict, does not call derive. Set the field "
                                   "in C before nt_run_new, or predict with a run that has data, as the shell does"
                                 : "set it before the run is made, or in derive");
}

static bool fill_slot(nt__task *task, size_t field, size_t member, nt__device_slot *slot) {
    const nt_field_info *info = &task->experiment->fields[field];
    const void *value = nt__field_value(task, field);
    *slot = (nt__device_slot){.field = field, .name = info->name};
    if (info->type == NT_FIELD_ARRAY)
        slot->type = nt__array_type(array_in(value));
    else if (info->type != NT_FIELD_ARRAYS)
        slot->type = (nt__type){nt__field_dtype(info->type), {0}};
    else {
        slot->type = nt__array_type(nt_arrays_at(arrays_in(value), member));
        slot->member = nt__arena_strdup(&task->arena, nt_arrays_name(arrays_in(value), member));
        slot->name = slot->member ? nt__arena_sprintf(&task->arena, "%s.%s", info->name, slot->member) : NULL;
    }
    return slot->name != NULL;
}

static nt_status make_room(nt__traced *traced, size_t slots) {
    size_t fields = traced->task->experiment->field_count;
    traced->device_fields.slots = nt__arena_alloc(&traced->task->arena, slots + 1, sizeof *traced->device_fields.slots);
    traced->device_fields.members =
        nt__arena_alloc(&traced->task->arena, slots + 1, sizeof *traced->device_fields.members);
    traced->device_fields.tensors =
        nt__arena_alloc(&traced->task->arena, slots + 1, sizeof *traced->device_fields.tensors);
    traced->device_fields.contents =
        nt__arena_alloc(&traced->task->arena, fields + 1, sizeof *traced->device_fields.contents);
    traced->device_fields.first =
        nt__arena_alloc(&traced->task->arena, fields + 1, sizeof *traced->device_fields.first);
    bool right = traced->device_fields.slots && traced->device_fields.members && traced->device_fields.tensors &&
                 traced->device_fields.contents && traced->device_fields.first;
    return right ? NT_OK : NT_OUT_OF_MEMORY;
}

static nt_status fill_slots(nt__traced *traced, size_t field) {
    size_t count = count_slots(traced->task, field), first = traced->device_fields.count;
    const char *absent = is_absent(traced->task, field) ? why_absent(traced->task, field) : NULL;
    if (is_absent(traced->task, field) && !absent) return NT_OUT_OF_MEMORY;
    traced->device_fields.first[field] = first;
    for (size_t i = 0; i < count; i++) {
        if (!fill_slot(traced->task, field, i, &traced->device_fields.slots[first + i])) return NT_OUT_OF_MEMORY;
        traced->device_fields.members[first + i] = traced->device_fields.slots[first + i].member;
        traced->device_fields.count++;
    }
    traced->device_fields.contents[field] =
        (struct nt_tensors_content){.name = traced->task->experiment->fields[field].name,
                                    .absent = absent,
                                    .count = count,
                                    .names = &traced->device_fields.members[first],
                                    .tensors = &traced->device_fields.tensors[first]};
    return NT_OK;
}

nt_status nt__device_fields_list(nt__traced *traced) {
    const nt_experiment *experiment = traced->task->experiment;
    size_t all = 0;
    for (size_t i = 0; i < experiment->field_count; i++)
        if (experiment->fields[i].marker == NT_DEVICE) all += count_slots(traced->task, i);
    nt_status status = make_room(traced, all);
    for (size_t i = 0; status == NT_OK && i < experiment->field_count; i++)
        if (experiment->fields[i].marker == NT_DEVICE) status = fill_slots(traced, i);
    return status;
}

/* The tensor of a field that is no set. */
static nt_tensor input_of(const nt__traced *traced, size_t field) {
    const char *absent = traced->device_fields.contents[field].absent;
    return absent ? nt__absent(absent) : traced->device_fields.tensors[traced->device_fields.first[field]];
}

void nt__device_fields_input(nt__traced *traced) {
    const nt_experiment *experiment = traced->task->experiment;
    for (size_t i = 0; i < traced->device_fields.count; i++)
        traced->device_fields.tensors[i] = nt__input(NT__ROLE_DEVICE, (int)i, traced->device_fields.slots[i].name,
                                                     traced->device_fields.slots[i].type);
    for (size_t i = 0; i < experiment->field_count; i++) {
        const nt_field_info *field = &experiment->fields[i];
        char *at = (char *)traced->task->view + field->view_offset;
        nt_tensors all = nt__tensors_of(&traced->device_fields.contents[i]);
        if (field->marker != NT_DEVICE) continue;
        if (field->type == NT_FIELD_ARRAYS) {
            memcpy(at, &all, sizeof all);
        } else {
            nt_tensor tensor = input_of(traced, i);
            memcpy(at, &tensor, sizeof tensor);
        }
    }
}

/* ---- elements --------------------------------------------------------------------------------------------------- */

const void *nt__slot_elements(const nt__task *task, const nt__device_slot *slot, const void *value) {
    const nt_field_info *field = &task->experiment->fields[slot->field];
    if (field->type == NT_FIELD_ARRAY) return array_in(value)->data;
    return field->type == NT_FIELD_ARRAYS ? nt_arrays_find(arrays_in(value), slot->member)->data : value;
}

const void *nt__device_slot_data(const nt__traced *traced, size_t slot) {
    const nt__device_slot *of = &traced->device_fields.slots[slot];
    return nt__slot_elements(traced->task, of, nt__field_value(traced->task, of->field));
}
