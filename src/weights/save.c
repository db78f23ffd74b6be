/* Parameters from the flat buffers of the device to named host arrays: reading one, saving all, with the layer states.
 * Not here: loading (load.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights/model_pair.h"

/* ---- saving ----------------------------------------------------------------------------------------------------- */

/* Host copies, and the arrays of a file, which lie in them: parameters first. */
typedef struct saved {
    nt__arena arena;
    nt_array **copies;
    nt__named_array *arrays;
    size_t copy_count, count;
    char *facts; /* what the model needs beside them, as JSON; of free() */
} saved;

static nt_status read_states(nt__resident *resident, saved *s) {
    nt_status status = NT_OK;
    const nt__leaf *state;
    size_t place;
    for (size_t i = 0; status == NT_OK && (state = nt__layer_state(resident->traced, i, &place)); i++) {
        nt_array **copy = &s->copies[s->copy_count];
        status = nt__layer_state_read(resident, i, copy);
        if (status != NT_OK) break;
        s->copy_count++;
        s->arrays[s->count++] = (nt__named_array){state->path, state->type, (*copy)->data};
    }
    return status;
}

static nt_status read_all(nt__resident *resident, saved *s) {
    size_t groups = resident->traced->layout.group_count, rows = resident->traced->layout.row_count,
           states = nt__layer_state_count(resident->traced);
    s->copies = nt__arena_alloc(&s->arena, groups + states, sizeof *s->copies);
    s->arrays = nt__arena_alloc(&s->arena, rows + states + resident->traced->device_fields.count, sizeof *s->arrays);
    nt_status status = s->copies && s->arrays ? nt__averages_begin(resident) : NT_OUT_OF_MEMORY;
    if (status != NT_OK) return status;
    for (size_t g = 0; status == NT_OK && g < groups; g++) {
        status = nt__group_read(resident, (int)g, &s->copies[g]);
        if (status == NT_OK) s->copy_count++;
    }
    nt__averages_end(resident);
    for (size_t i = 0; status == NT_OK && i < rows; i++) {
        const nt__row *row = &resident->traced->layout.rows[i];
        s->arrays[s->count++] = (nt__named_array){row->path, row->type, nt__row_data(row, s->copies[row->group])};
    }
    return status == NT_OK ? read_states(resident, s) : status;
}

/* ---- what derive set (model_facts.h) ---------------------------------------------------------------------------- */

static nt_status add_field_array(saved *s, const char *field, const char *member, const nt_array *array) {
    const char *name =
        nt__arena_sprintf(&s->arena, NT__FIELD_ARRAYS "%s%s%s", field, member ? "." : "", member ? member : "");
    s->arrays[s->count++] = (nt__named_array){name, nt__array_type(array), array->data};
    return name ? NT_OK : NT_OUT_OF_MEMORY;
}

/* The slots are the arrays of all Device fields; the fields of the struct have what the device has. */
static nt_status add_fields(const nt__traced *traced, saved *s) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < traced->device_fields.count; i++) {
        const nt__device_slot *slot = &traced->device_fields.slots[i];
        const nt_field_info *field = &traced->task->experiment->fields[slot->field];
        const void *at = (const char *)traced->task->fields + field->offset;
        if (!traced->task->derived[slot->field] || nt__field_is_number(field)) continue;
        const nt_array *array =
            slot->member ? nt_arrays_find(*(nt_arrays *const *)at, slot->member) : *(nt_array *const *)at;
        status = add_field_array(s, field->name, slot->member, array);
    }
    return status;
}

static nt_status print_facts(const nt__traced *traced, saved *s) {
    json_t *facts = nt__model_facts(traced);
    s->facts = facts ? json_dumps(facts, JSON_COMPACT) : NULL;
    json_decref(facts);
    return s->facts ? NT_OK : nt__fail(NT_OUT_OF_MEMORY, "out of host memory for the fields of a model");
}

static void free_saved(saved *s) {
    free(s->facts);
    for (size_t i = 0; i < s->copy_count; i++) nt_array_free(s->copies[i]);
    nt__arena_free(&s->arena);
}

static nt_status check_finite(const nt__resident *resident, const char *path, const saved *s) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < s->count; i++)
        status = nt__check_finite(resident, path, &s->arrays[i], i >= resident->traced->layout.row_count);
    return status;
}

nt_status nt__weights_save(nt__resident *resident, const char *path) {
    saved s = {.count = 0};
    nt_status status = read_all(resident, &s);
    if (status == NT_OK) status = check_finite(resident, path, &s);
    if (status == NT_OK) status = add_fields(resident->traced, &s);
    if (status == NT_OK) status = print_facts(resident->traced, &s);
    const char *const metadata[][2] = {
        {"experiment", resident->task->experiment->name}, {"format", "nitro-parameters-1"}, {NT__MODEL_KEY, s.facts}};
    if (status == NT_OK) status = nt__safetensors_write(path, s.arrays, s.count, metadata, 3);
    free_saved(&s);
    return status;
}
