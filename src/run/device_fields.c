/* Device fields: each is an input of the programs, uploaded when the run is made and when it gets another value.
 * Not here: when a schedule gives one another value.
 */
#include <string.h>

#include "run/run_internal.h"

nt_status nt__device_fields_list(nt_run *run) {
    const nt_experiment *experiment = run->experiment;
    run->slots = nt__arena_alloc(&run->arena, experiment->field_count + 1, sizeof *run->slots);
    if (!run->slots) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < experiment->field_count; i++) {
        if (experiment->fields[i].marker != NT_DEVICE) continue;
        nt__type scalar = {nt__field_dtype(experiment->fields[i].type), {0}};
        run->slots[run->slot_count++] = (nt__device_slot){.field = i, .type = scalar};
    }
    return NT_OK;
}

static nt_status upload(nt_run *run, const nt__device_slot *slot, const void *data, nt__buffer *out) {
    const char *name = run->experiment->fields[slot->field].name;
    return nt__buffer_upload(run->engine, 0, name, NT__DEVICE_FIELD, slot->type, data, out);
}

nt_status nt__device_fields_upload(nt_run *run) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < run->slot_count; i++) {
        nt__device_slot *slot = &run->slots[i];
        const nt_field_info *field = &run->experiment->fields[slot->field];
        status = upload(run, slot, (const char *)run->fields + field->offset, &slot->buffer);
    }
    return status;
}

void nt__device_fields_free(nt_run *run) {
    for (size_t i = 0; i < run->slot_count; i++) {
        nt__buffer_free(&run->slots[i].buffer);
        nt__buffer_free(&run->slots[i].former);
    }
}

/* ---- another value ---------------------------------------------------------------------------------------------- */

static nt__device_slot *slot_of(nt_run *run, size_t field) {
    for (size_t i = 0; i < run->slot_count; i++)
        if (run->slots[i].field == field) return &run->slots[i];
    return NULL;
}

static nt_status replace(nt_run *run, nt__device_slot *slot, const void *data) {
    const char *name = run->experiment->fields[slot->field].name;
    return nt__slot_write(run, NT__DEVICE_FIELD, name, slot->type, data, &slot->buffer, &slot->former);
}

nt_status nt__device_field_write(nt_run *run, size_t field, const void *value) {
    const nt_field_info *info = &run->experiment->fields[field];
    void *own = (char *)run->fields + info->offset;
    if (memcmp(own, value, info->size) == 0) return NT_OK;
    nt_status status = replace(run, slot_of(run, field), value);
    if (status == NT_OK) memcpy(own, value, info->size);
    return status;
}

nt_status nt__device_field_write_number(nt_run *run, size_t field, double number) {
    char value[sizeof(double)];
    nt_status status = nt__field_from_number(&run->experiment->fields[field], number, value);
    return status == NT_OK ? nt__device_field_write(run, field, value) : status;
}
