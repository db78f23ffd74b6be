/* The values of Device fields on the device: uploaded when the run is made and when one gets another value.
 * Not here: what a user may set on a live run (set_device.c); when a schedule gives a field another value.
 */
#include <string.h>

#include "resident/resident.h"

static nt_array *array_in(const void *value) {
    return *(nt_array *const *)value;
}

static nt_arrays *arrays_in(const void *value) {
    return *(nt_arrays *const *)value;
}

/* ---- uploads ---------------------------------------------------------------------------------------------------- */

static nt_status upload(nt__resident *resident, const nt__device_slot *slot, const void *value, nt__buffer *out) {
    return nt__upload(resident, slot->name, NT__DEVICE_FIELD, slot->type,
                      nt__slot_elements(resident->traced->task, slot, value), out);
}

nt_status nt__device_fields_upload(nt__resident *resident) {
    resident->values =
        nt__arena_alloc(&resident->task->arena, resident->traced->device_fields.count + 1, sizeof *resident->values);
    nt_status status = resident->values ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < resident->traced->device_fields.count; i++) {
        const nt__device_slot *slot = &resident->traced->device_fields.slots[i];
        nt__device_value *value = &resident->values[i];
        const void *given = nt__field_value(resident->task, slot->field);
        status = upload(resident, slot, given, &value->buffer);
        if (status == NT_OK)
            value->start = nt__hash_bytes(nt__slot_elements(resident->task, slot, given), value->buffer.bytes);
    }
    return status;
}

void nt__device_fields_free(nt__resident *resident) {
    for (size_t i = 0; resident->values && i < resident->traced->device_fields.count; i++) {
        nt__buffer_free(&resident->values[i].buffer);
        nt__buffer_free(&resident->values[i].former);
    }
}

/* ---- another value ---------------------------------------------------------------------------------------------- */

/* What the programs claim of the slots' elements in `value`. */
static nt_status check_claims(const nt__traced *traced, size_t first, size_t count, const void *value) {
    nt_status status = NT_OK;
    for (size_t i = first; status == NT_OK && i < first + count; i++)
        status =
            nt__device_claims_check(traced, i, nt__slot_elements(traced->task, &traced->device_fields.slots[i], value));
    return status;
}

/* The new buffers are made before the old ones are given up. */
static nt_status replace(nt__resident *resident, size_t first, size_t count, const void *value) {
    nt_status right = check_claims(resident->traced, first, count, value);
    if (right != NT_OK) return right;
    nt__buffer *fresh = nt__alloc(count + 1, sizeof *fresh);
    nt_status status = fresh ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < count; i++)
        status = upload(resident, &resident->traced->device_fields.slots[first + i], value, &fresh[i]);
    for (size_t i = 0; fresh && i < count; i++) {
        nt__buffer *left = status == NT_OK ? &resident->values[first + i].buffer : &fresh[i];
        nt__buffer_free(left);
        if (status == NT_OK) *left = fresh[i];
    }
    nt__free(fresh);
    return status;
}

static nt_status write_scalar(nt__resident *resident, size_t field, const void *value) {
    size_t size = resident->task->experiment->fields[field].size;
    void *own = (char *)resident->task->fields + resident->task->experiment->fields[field].offset;
    if (memcmp(own, value, size) == 0) return NT_OK;
    size_t first = resident->traced->device_fields.first[field];
    const nt__device_slot *slot = &resident->traced->device_fields.slots[first];
    nt__device_value *on_device = &resident->values[first];
    nt_status status = nt__device_claims_check(resident->traced, first, value);
    if (status != NT_OK) return status;
    status = nt__slot_write(resident, NT__DEVICE_FIELD, slot->name, slot->type, value, &on_device->buffer,
                            &on_device->former);
    if (status == NT_OK) memcpy(own, value, size);
    return status;
}

static nt_status write_array(nt__resident *resident, size_t field, nt_array *array) {
    nt_array **own = (nt_array **)((char *)resident->task->fields + resident->task->experiment->fields[field].offset);
    nt_status status = replace(resident, resident->traced->device_fields.first[field], 1, &array);
    if (status != NT_OK) return status;
    nt_array_retain(array);
    nt_array_free(*own);
    *own = array;
    return NT_OK;
}

static nt_status write_arrays(nt__resident *resident, size_t field, const nt_arrays *arrays) {
    nt_arrays **own = (nt_arrays **)((char *)resident->task->fields + resident->task->experiment->fields[field].offset);
    nt_arrays *copy = nt__arrays_copy(arrays);
    nt_status status = copy ? NT_OK : NT_OUT_OF_MEMORY;
    if (status == NT_OK)
        status = replace(resident, resident->traced->device_fields.first[field],
                         resident->traced->device_fields.contents[field].count, &copy);
    nt_arrays_free(status == NT_OK ? *own : copy);
    if (status == NT_OK) *own = copy;
    return status;
}

nt_status nt__device_field_write(nt__resident *resident, size_t field, const void *value) {
    switch (resident->task->experiment->fields[field].type) {
    case NT_FIELD_ARRAY: return write_array(resident, field, array_in(value));
    case NT_FIELD_ARRAYS: return write_arrays(resident, field, arrays_in(value));
    default: return write_scalar(resident, field, value);
    }
}

nt_status nt__device_field_write_number(nt__resident *resident, size_t field, double number) {
    char value[sizeof(double)];
    nt_status status = nt__field_from_number(&resident->task->experiment->fields[field], number, value);
    return status == NT_OK ? nt__device_field_write(resident, field, value) : status;
}

nt_status nt__device_slot_write(nt__resident *resident, size_t slot, nt_array *array) {
    size_t field = resident->traced->device_fields.slots[slot].field,
           member = slot - resident->traced->device_fields.first[field];
    if (!resident->traced->device_fields.slots[slot].member) return nt__device_field_write(resident, field, &array);
    nt_arrays *own = arrays_in(nt__field_value(resident->task, field)), *changed = nt__arrays_copy(own);
    if (!changed) return NT_OUT_OF_MEMORY;
    nt__arrays_replace(changed, member, nt_array_retain(array));
    nt_status status = replace(resident, slot, 1, &changed);
    if (status == NT_OK) nt__arrays_replace(own, member, nt_array_retain(array));
    nt_arrays_free(changed);
    return status;
}
