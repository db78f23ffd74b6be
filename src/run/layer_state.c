/* What the model carries from micro-batch to micro-batch: its layer states and the counter of its draws, on the device
 * for as long as the handle, and as host arrays.
 * Not here: which there are and what they become (the folder nn), files of them (weights.c).
 */
#include <string.h>

#include "run/run_internal.h"

/* ---- on the device ---------------------------------------------------------------------------------------------- */

static nt_status upload(nt_run *run, const nt__leaf *state, nt__buffer *out) {
    size_t bytes;
    if (!nt__type_bytes(state->type, &bytes)) return nt__fail(NT_INVALID, "%s is too large", state->path);
    void *data = nt__alloc_aligned(bytes);
    if (!data) return NT_OUT_OF_MEMORY;
    nt_status status = nt__leaf_draw(state, nt__key_of_seed((uint64_t)run->settings.seed), data);
    if (status == NT_OK)
        status = nt__buffer_upload(run->engine, 0, state->path, NT__LAYER_STATE, state->type, data, out);
    nt__free(data);
    return status;
}

nt_status nt__layer_states_upload(nt_run *run) {
    size_t count;
    const nt__leaf *states = nt__model_states(run->model, &count);
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < count; i++)
        status = upload(run, &states[i], &run->device.layer_states[i]);
    if (status != NT_OK || !nt__model_is_seeded(run->model)) return status;
    nt__key key = nt__model_seed((uint64_t)run->settings.seed);
    return nt__buffer_upload(run->engine, 0, "seed", NT__LAYER_STATE, (nt__type){NT_U32, nt_dims(2)},
                             (const uint32_t[2]){key.high, key.low}, &run->device.seed);
}

void nt__layer_states_free(nt_run *run) {
    size_t count = 0;
    if (run->device.layer_states) nt__model_states(run->model, &count);
    for (size_t i = 0; i < count; i++) nt__buffer_free(&run->device.layer_states[i]);
    nt__buffer_free(&run->device.seed);
}

/* ---- those of layers, as host arrays ---------------------------------------------------------------------------- */

const nt__leaf *nt__layer_state(const nt_run *run, size_t index, size_t *place) {
    size_t count;
    const nt__leaf *states = nt__model_states(run->model, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(states[i].path, NT__DRAWS_PATH) == 0 || index-- > 0) continue;
        *place = i;
        return &states[i];
    }
    return NULL;
}

size_t nt__layer_state_count(const nt_run *run) {
    size_t count = 0, place;
    while (nt__layer_state(run, count, &place)) count++;
    return count;
}

nt_status nt__layer_state_read(nt_run *run, size_t index, nt_array **out) {
    size_t place;
    const nt__leaf *state = nt__layer_state(run, index, &place);
    *out = nt_array_new(state->type.dtype, state->type.shape);
    if (!*out) return NT_OUT_OF_MEMORY;
    nt_status status = nt__buffer_read(run->engine, &run->device.layer_states[place], (*out)->data);
    if (status == NT_OK) return NT_OK;
    nt_array_free(*out);
    *out = NULL;
    return status;
}

bool nt_run_state_at(const nt_run *run, size_t index, nt_state_info *out) {
    size_t place;
    NT__USE(run, "nt_run_state_at");
    if (!used || !nt__given(out, "nt_run_state_at", "out")) return false;
    const nt__leaf *state = nt__is_laid_out(run) ? nt__layer_state(run, index, &place) : NULL;
    if (!state) return false;
    *out = (nt_state_info){.path = state->path, .dtype = state->type.dtype, .shape = state->type.shape};
    return true;
}

static void fail_unknown(const nt_run *run, const char *path) {
    nt__text paths = {0};
    nt_state_info info;
    for (size_t i = 0; nt_run_state_at(run, i, &info); i++) nt__text_add(&paths, "%s%s", i ? ", " : "", info.path);
    nt__fail(NT_NOT_FOUND, "experiment '%s' has no layer state '%s'; its layer states are: %s", run->experiment->name,
             path, paths.length ? paths.data : "none");
    nt__text_free(&paths);
}

nt_array *nt_run_state(nt_run *run, const char *path) {
    nt_state_info info;
    nt_array *copy;
    NT__USE(run, "nt_run_state");
    if (!used || !nt__given(path, "nt_run_state", "path")) return NULL;
    if (nt__check_laid_out(run) != NT_OK) return NULL;
    for (size_t i = 0; nt_run_state_at(run, i, &info); i++)
        if (strcmp(info.path, path) == 0) return nt__layer_state_read(run, i, &copy) == NT_OK ? copy : NULL;
    fail_unknown(run, path);
    return NULL;
}
