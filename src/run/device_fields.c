/* Device fields: each is an input of the programs, a set of arrays one input an array. They are uploaded when the run
 * is made and when one gets another value. Not here: what a user may set on a live run (set_device.c); when a schedule
 * gives a field another value.
 */
#include <string.h>

#include "run/run_internal.h"

/* ---- the list --------------------------------------------------------------------------------------------------- */

static nt_array *array_in(const void *value) {
    return *(nt_array *const *)value;
}

static nt_arrays *arrays_in(const void *value) {
    return *(nt_arrays *const *)value;
}

static const void *value_of(const nt_run *run, size_t field) {
    return (const char *)run->fields + run->experiment->fields[field].offset;
}

/* A pointer to an array or a set that is NULL. A program that reads it cannot be; others do without. */
static bool is_absent(const nt_run *run, size_t field) {
    nt_field_type type = run->experiment->fields[field].type;
    if (type == NT_FIELD_ARRAY) return !array_in(value_of(run, field));
    return type == NT_FIELD_ARRAYS && !arrays_in(value_of(run, field));
}

/* Inputs that a field needs. */
static size_t count_slots(const nt_run *run, size_t field) {
    if (is_absent(run, field)) return 0;
    return run->experiment->fields[field].type == NT_FIELD_ARRAYS ? nt_arrays_count(arrays_in(value_of(run, field)))
                                                                  : 1;
}

/* What whoever reads the field is told. NULL: memory is short. */
static const char *why_absent(nt_run *run, size_t field) {
    const nt_field_info *info = &run->experiment->fields[field];
    return nt__arena_sprintf(&run->arena, "DEVICE field %s (%s) of %s is NULL: %s", info->name,
                             nt__field_type_text(info), run->experiment->name,
                             run->settings.no_data
                                 ? "a run without data, as that of nitro predict, does not call derive. Set the field "
                                   "in C before nt_run_new, or predict with a run that has data, as the shell does"
                                 : "set it before the run is made, or in derive");
}

static bool fill_slot(nt_run *run, size_t field, size_t member, nt__device_slot *slot) {
    const nt_field_info *info = &run->experiment->fields[field];
    const void *value = value_of(run, field);
    *slot = (nt__device_slot){.field = field, .name = info->name};
    if (info->type == NT_FIELD_ARRAY)
        slot->type = nt__array_type(array_in(value));
    else if (info->type != NT_FIELD_ARRAYS)
        slot->type = (nt__type){nt__field_dtype(info->type), {0}};
    else {
        slot->type = nt__array_type(nt_arrays_at(arrays_in(value), member));
        slot->member = nt__arena_strdup(&run->arena, nt_arrays_name(arrays_in(value), member));
        slot->name = slot->member ? nt__arena_sprintf(&run->arena, "%s.%s", info->name, slot->member) : NULL;
    }
    return slot->name != NULL;
}

static nt_status make_room(nt_run *run, size_t slots) {
    size_t fields = run->experiment->field_count;
    run->device_fields.slots = nt__arena_alloc(&run->arena, slots + 1, sizeof *run->device_fields.slots);
    run->device_fields.members = nt__arena_alloc(&run->arena, slots + 1, sizeof *run->device_fields.members);
    run->device_fields.tensors = nt__arena_alloc(&run->arena, slots + 1, sizeof *run->device_fields.tensors);
    run->device_fields.contents = nt__arena_alloc(&run->arena, fields + 1, sizeof *run->device_fields.contents);
    run->device_fields.first = nt__arena_alloc(&run->arena, fields + 1, sizeof *run->device_fields.first);
    bool right = run->device_fields.slots && run->device_fields.members && run->device_fields.tensors &&
                 run->device_fields.contents && run->device_fields.first;
    return right ? NT_OK : NT_OUT_OF_MEMORY;
}

static nt_status fill_slots(nt_run *run, size_t field) {
    size_t count = count_slots(run, field), first = run->device_fields.count;
    const char *absent = is_absent(run, field) ? why_absent(run, field) : NULL;
    if (is_absent(run, field) && !absent) return NT_OUT_OF_MEMORY;
    run->device_fields.first[field] = first;
    for (size_t i = 0; i < count; i++) {
        if (!fill_slot(run, field, i, &run->device_fields.slots[first + i])) return NT_OUT_OF_MEMORY;
        run->device_fields.members[first + i] = run->device_fields.slots[first + i].member;
        run->device_fields.count++;
    }
    run->device_fields.contents[field] = (struct nt_tensors_content){.name = run->experiment->fields[field].name,
                                                                     .absent = absent,
                                                                     .count = count,
                                                                     .names = &run->device_fields.members[first],
                                                                     .tensors = &run->device_fields.tensors[first]};
    return NT_OK;
}

nt_status nt__device_fields_list(nt_run *run) {
    const nt_experiment *experiment = run->experiment;
    size_t all = 0;
    for (size_t i = 0; i < experiment->field_count; i++)
        if (experiment->fields[i].marker == NT_DEVICE) all += count_slots(run, i);
    nt_status status = make_room(run, all);
    for (size_t i = 0; status == NT_OK && i < experiment->field_count; i++)
        if (experiment->fields[i].marker == NT_DEVICE) status = fill_slots(run, i);
    return status;
}

/* The tensor of a field that is no set. */
static nt_tensor input_of(const nt_run *run, size_t field) {
    const char *absent = run->device_fields.contents[field].absent;
    return absent ? nt__absent(absent) : run->device_fields.tensors[run->device_fields.first[field]];
}

void nt__device_fields_input(nt_run *run) {
    const nt_experiment *experiment = run->experiment;
    for (size_t i = 0; i < run->device_fields.count; i++)
        run->device_fields.tensors[i] =
            nt__input(NT__ROLE_DEVICE, (int)i, run->device_fields.slots[i].name, run->device_fields.slots[i].type);
    for (size_t i = 0; i < experiment->field_count; i++) {
        const nt_field_info *field = &experiment->fields[i];
        char *at = (char *)run->view + field->view_offset;
        nt_tensors all = nt__tensors_of(&run->device_fields.contents[i]);
        if (field->marker != NT_DEVICE) continue;
        if (field->type == NT_FIELD_ARRAYS) {
            memcpy(at, &all, sizeof all);
        } else {
            nt_tensor tensor = input_of(run, i);
            memcpy(at, &tensor, sizeof tensor);
        }
    }
}

/* ---- uploads ---------------------------------------------------------------------------------------------------- */

/* Elements of a slot in a value of its field. */
static const void *data_of(const nt_run *run, const nt__device_slot *slot, const void *value) {
    const nt_field_info *field = &run->experiment->fields[slot->field];
    if (field->type == NT_FIELD_ARRAY) return array_in(value)->data;
    return field->type == NT_FIELD_ARRAYS ? nt_arrays_find(arrays_in(value), slot->member)->data : value;
}

const void *nt__device_slot_data(const nt_run *run, size_t slot) {
    const nt__device_slot *of = &run->device_fields.slots[slot];
    return data_of(run, of, value_of(run, of->field));
}

static nt_status upload(nt_run *run, const nt__device_slot *slot, const void *value, nt__buffer *out) {
    return nt__buffer_upload(run->engine, 0, slot->name, NT__DEVICE_FIELD, slot->type, data_of(run, slot, value), out);
}

nt_status nt__device_fields_upload(nt_run *run) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < run->device_fields.count; i++) {
        nt__device_slot *slot = &run->device_fields.slots[i];
        const void *value = value_of(run, slot->field);
        status = upload(run, slot, value, &slot->buffer);
        if (status == NT_OK) slot->start = nt__hash_bytes(data_of(run, slot, value), slot->buffer.bytes);
    }
    return status;
}

void nt__device_fields_free(nt_run *run) {
    for (size_t i = 0; i < run->device_fields.count; i++) {
        nt__buffer_free(&run->device_fields.slots[i].buffer);
        nt__buffer_free(&run->device_fields.slots[i].former);
    }
    nt__device_claims_free(run);
}

/* ---- another value ---------------------------------------------------------------------------------------------- */

/* What the programs claim of the slots' elements in `value`. */
static nt_status check_claims(const nt_run *run, size_t first, size_t count, const void *value) {
    nt_status status = NT_OK;
    for (size_t i = first; status == NT_OK && i < first + count; i++)
        status = nt__device_claims_check(run, i, data_of(run, &run->device_fields.slots[i], value));
    return status;
}

/* The new buffers are made before the old ones are given up. */
static nt_status replace(nt_run *run, size_t first, size_t count, const void *value) {
    nt_status right = check_claims(run, first, count, value);
    if (right != NT_OK) return right;
    nt__buffer *fresh = nt__alloc(count + 1, sizeof *fresh);
    nt_status status = fresh ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < count; i++)
        status = upload(run, &run->device_fields.slots[first + i], value, &fresh[i]);
    for (size_t i = 0; fresh && i < count; i++) {
        nt__buffer *left = status == NT_OK ? &run->device_fields.slots[first + i].buffer : &fresh[i];
        nt__buffer_free(left);
        if (status == NT_OK) *left = fresh[i];
    }
    nt__free(fresh);
    return status;
}

static nt_status write_scalar(nt_run *run, size_t field, const void *value) {
    size_t size = run->experiment->fields[field].size;
    void *own = (char *)run->fields + run->experiment->fields[field].offset;
    if (memcmp(own, value, size) == 0) return NT_OK;
    nt__device_slot *slot = &run->device_fields.slots[run->device_fields.first[field]];
    nt_status status = nt__device_claims_check(run, run->device_fields.first[field], value);
    if (status != NT_OK) return status;
    status = nt__slot_write(run, NT__DEVICE_FIELD, slot->name, slot->type, value, &slot->buffer, &slot->former);
    if (status == NT_OK) memcpy(own, value, size);
    return status;
}

static nt_status write_array(nt_run *run, size_t field, nt_array *array) {
    nt_array **own = (nt_array **)((char *)run->fields + run->experiment->fields[field].offset);
    nt_status status = replace(run, run->device_fields.first[field], 1, &array);
    if (status != NT_OK) return status;
    nt_array_retain(array);
    nt_array_free(*own);
    *own = array;
    return NT_OK;
}

static nt_status write_arrays(nt_run *run, size_t field, const nt_arrays *arrays) {
    nt_arrays **own = (nt_arrays **)((char *)run->fields + run->experiment->fields[field].offset);
    nt_arrays *copy = nt__arrays_copy(arrays);
    nt_status status = copy ? NT_OK : NT_OUT_OF_MEMORY;
    if (status == NT_OK)
        status = replace(run, run->device_fields.first[field], run->device_fields.contents[field].count, &copy);
    nt_arrays_free(status == NT_OK ? *own : copy);
    if (status == NT_OK) *own = copy;
    return status;
}

nt_status nt__device_field_write(nt_run *run, size_t field, const void *value) {
    switch (run->experiment->fields[field].type) {
    case NT_FIELD_ARRAY: return write_array(run, field, array_in(value));
    case NT_FIELD_ARRAYS: return write_arrays(run, field, arrays_in(value));
    default: return write_scalar(run, field, value);
    }
}

nt_status nt__device_field_write_number(nt_run *run, size_t field, double number) {
    char value[sizeof(double)];
    nt_status status = nt__field_from_number(&run->experiment->fields[field], number, value);
    return status == NT_OK ? nt__device_field_write(run, field, value) : status;
}

nt_status nt__device_slot_write(nt_run *run, size_t slot, nt_array *array) {
    size_t field = run->device_fields.slots[slot].field, member = slot - run->device_fields.first[field];
    if (!run->device_fields.slots[slot].member) return nt__device_field_write(run, field, &array);
    nt_arrays *own = arrays_in(value_of(run, field)), *changed = nt__arrays_copy(own);
    if (!changed) return NT_OUT_OF_MEMORY;
    nt__arrays_replace(changed, member, nt_array_retain(array));
    nt_status status = replace(run, slot, 1, &changed);
    if (status == NT_OK) nt__arrays_replace(own, member, nt_array_retain(array));
    nt_arrays_free(changed);
    return status;
}
