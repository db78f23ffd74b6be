/* What the model carries from micro-batch to micro-batch: its layer states and the counter of its draws, on the device
 * for as long as the handle, and as host arrays.
 * Not here: which there are and what they become (the folder nn), files of them (weights.c).
 */
#include <string.h>

#include "resident/resident.h"

/* ---- on the device ---------------------------------------------------------------------------------------------- */

static nt_status upload(nt__resident *resident, const nt__leaf *state, nt__buffer *out) {
    size_t bytes;
    if (!nt__type_bytes(state->type, &bytes)) return nt__fail(NT_INVALID, "%s is too large", state->path);
    void *data = nt__alloc_aligned(bytes);
    if (!data) return NT_OUT_OF_MEMORY;
    nt_status status = nt__leaf_draw(state, nt__key_of_seed((uint64_t)resident->task->settings.seed), data);
    if (status == NT_OK) status = nt__upload(resident, state->path, NT__LAYER_STATE, state->type, data, out);
    nt__free(data);
    return status;
}

nt_status nt__layer_states_upload(nt__resident *resident) {
    size_t count;
    const nt__leaf *states = nt__model_states(resident->traced->model, &count);
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < count; i++)
        status = upload(resident, &states[i], &resident->device.layer_states[i]);
    if (status != NT_OK || !nt__model_is_seeded(resident->traced->model)) return status;
    nt__key key = nt__model_seed((uint64_t)resident->task->settings.seed);
    return nt__upload(resident, "seed", NT__LAYER_STATE, (nt__type){NT_U32, nt_dims(2)},
                      (const uint32_t[2]){key.high, key.low}, &resident->device.seed);
}

void nt__layer_states_free(nt__resident *resident) {
    size_t count = 0;
    if (resident->device.layer_states) nt__model_states(resident->traced->model, &count);
    for (size_t i = 0; i < count; i++) nt__buffer_free(&resident->device.layer_states[i]);
    nt__buffer_free(&resident->device.seed);
}

/* ---- those of layers, as host arrays ---------------------------------------------------------------------------- */

const nt__leaf *nt__layer_state(const nt__traced *traced, size_t index, size_t *place) {
    size_t count;
    const nt__leaf *states = nt__model_states(traced->model, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(states[i].path, NT__DRAWS_PATH) == 0 || index-- > 0) continue;
        *place = i;
        return &states[i];
    }
    return NULL;
}

size_t nt__layer_state_count(const nt__traced *traced) {
    size_t count = 0, place;
    while (nt__layer_state(traced, count, &place)) count++;
    return count;
}

nt_status nt__layer_state_read(nt__resident *resident, size_t index, nt_array **out) {
    size_t place;
    const nt__leaf *state = nt__layer_state(resident->traced, index, &place);
    *out = nt_array_new(state->type.dtype, state->type.shape);
    if (!*out) return NT_OUT_OF_MEMORY;
    nt_status status = nt__buffer_read(resident->traced->engine, &resident->device.layer_states[place], (*out)->data);
    if (status == NT_OK) return NT_OK;
    nt_array_free(*out);
    *out = NULL;
    return status;
}
