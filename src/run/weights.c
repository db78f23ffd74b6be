/* Parameters between the flat buffers of the device and named host arrays: reading one, saving and loading all, with
 * the layer states. */
#include <math.h>
#include <string.h>

#include "run/run_internal.h"

/* A host copy of a group's flat buffer, as evaluations have it between nt__averages_begin and nt__averages_end. */
static nt_status read_group(nt_run *run, int group, nt_array **out) {
    nt__type type = nt__group_type(&run->layout.groups[group]);
    *out = nt_array_new(type.dtype, type.shape);
    if (!*out) return NT_OUT_OF_MEMORY;
    nt_status status = nt__buffer_read(run->engine, nt__evaluated_parameters(run, (size_t)group), (*out)->data);
    if (status == NT_OK) return NT_OK;
    nt_array_free(*out);
    *out = NULL;
    return status;
}

static char *piece(const nt__row *row, nt_array *flat) {
    return (char *)flat->data + (size_t)row->offset * nt_dtype_size(row->type.dtype);
}

static const nt__row *find_row(const nt_run *run, const char *path) {
    for (size_t i = 0; i < run->layout.row_count; i++)
        if (strcmp(run->layout.rows[i].path, path) == 0) return &run->layout.rows[i];
    return NULL;
}

bool nt_run_parameter_at(const nt_run *run, size_t index, nt_parameter_info *out) {
    if (!nt__given(run, "nt_run_parameter_at", "run") || !nt__given(out, "nt_run_parameter_at", "out")) return false;
    if (index >= run->layout.row_count) return false;
    const nt__row *row = &run->layout.rows[index];
    *out = (nt_parameter_info){.path = row->path,
                               .group = run->layout.groups[row->group].name,
                               .offset = row->offset,
                               .length = row->length,
                               .dtype = row->type.dtype,
                               .shape = row->type.shape};
    return true;
}

static void fail_unknown(const nt_run *run, const char *path) {
    nt__text paths = {0};
    for (size_t i = 0; i < run->layout.row_count; i++)
        nt__text_add(&paths, "%s%s", i ? ", " : "", run->layout.rows[i].path);
    nt__fail(NT_NOT_FOUND, "experiment '%s' has no parameter '%s'; its parameters are: %s", run->experiment->name, path,
             paths.data ? paths.data : "");
    nt__text_free(&paths);
}

/* Without data the first prediction says what the parameters are. */
nt_status nt__check_laid_out(const nt_run *run) {
    if (nt__is_laid_out(run)) return NT_OK;
    return nt__fail(NT_INVALID,
                    "run '%s' has no parameters yet: it was made with no_data, and its first prediction says which "
                    "there are",
                    run->experiment->name);
}

nt_array *nt_run_parameter(nt_run *run, const char *path) {
    if (!nt__given(run, "nt_run_parameter", "run") || !nt__given(path, "nt_run_parameter", "path")) return NULL;
    if (nt__check_laid_out(run) != NT_OK) return NULL;
    const nt__row *row = find_row(run, path);
    if (!row) {
        fail_unknown(run, path);
        return NULL;
    }
    nt_array *flat = NULL;
    if (nt__averages_begin(run) != NT_OK) return NULL;
    read_group(run, row->group, &flat);
    nt__averages_end(run);
    if (!flat) return NULL;
    nt_array *copy = nt_array_from(row->type.dtype, row->type.shape, piece(row, flat));
    nt_array_free(flat);
    return copy;
}

/* ---- saving ----------------------------------------------------------------------------------------------------- */

/* Host copies, and the arrays of a file, which lie in them: parameters first. */
typedef struct saved {
    nt__arena arena;
    nt_array **copies;
    nt__named_array *arrays;
    size_t copy_count, count;
} saved;

static size_t count_states(const nt_run *run) {
    size_t count = 0, place;
    while (nt__layer_state(run, count, &place)) count++;
    return count;
}

static nt_status read_states(nt_run *run, saved *s) {
    nt_status status = NT_OK;
    const nt__leaf *state;
    size_t place;
    for (size_t i = 0; status == NT_OK && (state = nt__layer_state(run, i, &place)); i++) {
        nt_array **copy = &s->copies[s->copy_count];
        status = nt__layer_state_read(run, i, copy);
        if (status != NT_OK) break;
        s->copy_count++;
        s->arrays[s->count++] = (nt__named_array){state->path, state->type, (*copy)->data};
    }
    return status;
}

static nt_status read_all(nt_run *run, saved *s) {
    size_t groups = run->layout.group_count, rows = run->layout.row_count, states = count_states(run);
    s->copies = nt__arena_alloc(&s->arena, groups + states, sizeof *s->copies);
    s->arrays = nt__arena_alloc(&s->arena, rows + states, sizeof *s->arrays);
    nt_status status = s->copies && s->arrays ? nt__averages_begin(run) : NT_OUT_OF_MEMORY;
    if (status != NT_OK) return status;
    for (size_t g = 0; status == NT_OK && g < groups; g++) {
        status = read_group(run, (int)g, &s->copies[g]);
        if (status == NT_OK) s->copy_count++;
    }
    nt__averages_end(run);
    for (size_t i = 0; status == NT_OK && i < rows; i++) {
        const nt__row *row = &run->layout.rows[i];
        s->arrays[s->count++] = (nt__named_array){row->path, row->type, piece(row, s->copies[row->group])};
    }
    return status == NT_OK ? read_states(run, s) : status;
}

static void free_saved(saved *s) {
    for (size_t i = 0; i < s->copy_count; i++) nt_array_free(s->copies[i]);
    nt__arena_free(&s->arena);
}

/* Of f32, which most parameters are: the exponent of what is not finite has all bits. */
static int64_t count_bad_f32(const uint32_t *bits, int64_t length) {
    int64_t count = 0;
    for (int64_t i = 0; i < length; i++) count += (bits[i] & 0x7f800000u) == 0x7f800000u;
    return count;
}

/* An infinity is wrong in a parameter; a state may begin with one. */
static int64_t count_bad(const nt__named_array *array, bool is_state) {
    size_t width = nt_dtype_size(array->type.dtype);
    int64_t count = 0, length = nt_shape_elements(array->type.shape);
    if (array->type.dtype == NT_F32 && !is_state) return count_bad_f32(array->data, length);
    for (int64_t i = 0; i < length; i++) {
        double value = nt__element_get(array->type.dtype, (const char *)array->data + (size_t)i * width);
        count += is_state ? isnan(value) : !isfinite(value);
    }
    return count;
}

/* A loss is computed before the step that it leads to: what the last step broke, no loss has shown. */
nt_status nt__check_finite(const char *path, const nt__named_array *array, bool is_state) {
    int64_t bad = count_bad(array, is_state);
    if (!bad) return NT_OK;
    return nt__fail(NT_DIVERGED,
                    "%s is not written: %lld of the %lld elements of %s '%s' are %s. "
                    "Train again with a lower learning rate or with gradient clipping, and look for a gradient "
                    "that is not finite (the square root of 0 has one)",
                    path, (long long)bad, (long long)nt_shape_elements(array->type.shape),
                    is_state ? "layer state" : "parameter", array->name,
                    is_state ? "not a number" : "infinite or not a number");
}

static nt_status check_finite(const nt_run *run, const char *path, const saved *s) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < s->count; i++)
        status = nt__check_finite(path, &s->arrays[i], i >= run->layout.row_count);
    return status;
}

nt_status nt_run_save(nt_run *run, const char *path) {
    if (!nt__given(run, "nt_run_save", "run") || !nt__given(path, "nt_run_save", "path")) return NT_INVALID;
    if (nt__check_laid_out(run) != NT_OK) return NT_INVALID;
    saved s = {.count = 0};
    const char *const metadata[][2] = {{"experiment", run->experiment->name}, {"format", "nitro-parameters-1"}};
    nt_status status = read_all(run, &s);
    if (status == NT_OK) status = check_finite(run, path, &s);
    if (status == NT_OK) status = nt__safetensors_write(path, s.arrays, s.count, metadata, 2);
    free_saved(&s);
    return status;
}

/* ---- loading ---------------------------------------------------------------------------------------------------- */

enum { MOST_DIFFERENCES = 6 };

/* The arrays that a file of the model has: parameters, then layer states. False beyond the last. */
static bool array_at(const nt_run *run, size_t index, const char **path, nt__type *type) {
    size_t rows = run->layout.row_count, place;
    const nt__leaf *state = index < rows ? NULL : nt__layer_state(run, index - rows, &place);
    if (index >= rows && !state) return false;
    *path = state ? state->path : run->layout.rows[index].path;
    *type = state ? state->type : run->layout.rows[index].type;
    return true;
}

static bool has_array(const nt_run *run, const char *name) {
    const char *path;
    nt__type type;
    for (size_t i = 0; array_at(run, i, &path, &type); i++)
        if (strcmp(path, name) == 0) return true;
    return false;
}

/* What of the file does not fit the model, up to six lines. */
static size_t list_differences(const nt_run *run, const nt__safetensors *file, nt__text *out) {
    size_t found = 0;
    const char *path;
    nt__type type;
    char here[NT__TYPE_TEXT], there[NT__TYPE_TEXT];
    for (size_t i = 0; array_at(run, i, &path, &type); i++) {
        const nt__named_array *array = nt__safetensors_find(file, path);
        if (array && nt__type_equal(array->type, type)) continue;
        if (++found <= MOST_DIFFERENCES)
            nt__text_add(out, "\n  %s: %s in the model, %s in the file", path, nt__type_text(type, here),
                         array ? nt__type_text(array->type, there) : "missing");
    }
    /* A handle that does not train has not traced train_step, so what only that declares is not in the model. */
    bool may_have_more = run->settings.manual && !run->train;
    for (size_t i = 0; i < file->count && !may_have_more; i++) {
        if (has_array(run, file->arrays[i].name)) continue;
        if (++found <= MOST_DIFFERENCES)
            nt__text_add(out, "\n  %s: not in the model, %s in the file", file->arrays[i].name,
                         nt__type_text(file->arrays[i].type, there));
    }
    return found;
}

static nt_status check_file(const nt_run *run, const char *path, const nt__safetensors *file) {
    nt__text differences = {0};
    size_t found = list_differences(run, file, &differences);
    nt_status status = NT_OK;
    if (found)
        status =
            nt__fail(NT_INVALID,
                     "%s does not fit experiment '%s'; give the GRAPH_CONST fields the values it was trained with, "
                     "or name another file. %zu arrays differ:%s%s",
                     path, run->experiment->name, found, differences.data ? differences.data : "",
                     found > MOST_DIFFERENCES ? "\n  ..." : "");
    nt__text_free(&differences);
    return status;
}

/* A buffer of the run with what is to take its place. */
typedef struct replaced {
    nt__buffer *buffer, fresh;
} replaced;

/* Puts what was uploaded into use, or frees it; the others are as they were. */
static void settle(replaced *all, size_t count, bool use) {
    for (size_t i = 0; i < count; i++) {
        if (all[i].fresh.state != NT__BUFFER_ALIVE) continue;
        nt__buffer_free(use ? all[i].buffer : &all[i].fresh);
        if (use) *all[i].buffer = all[i].fresh;
    }
}

/* Parameters of a group, and the states of its rule that start at them. */
static nt_status upload_group(nt_run *run, int group, const nt__safetensors *file, nt__buffer *fresh,
                              nt__buffer *states) {
    nt__type type = nt__group_type(&run->layout.groups[group]);
    nt_array *flat = nt_array_new(type.dtype, type.shape);
    if (!flat) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < run->layout.row_count; i++) {
        const nt__row *row = &run->layout.rows[i];
        if (row->group != group) continue;
        memcpy(piece(row, flat), nt__safetensors_find(file, row->path)->data,
               (size_t)row->length * nt_dtype_size(row->type.dtype));
    }
    nt_status status =
        nt__buffer_upload(run->engine, 0, run->device.parameters[group].name, NT__PARAMETERS, type, flat->data, fresh);
    if (status == NT_OK && run->training) status = nt__states_restart(run, (size_t)group, flat->data, states);
    nt_array_free(flat);
    return status;
}

static nt_status upload_state(const nt_run *run, const nt__leaf *state, const nt__safetensors *file,
                              nt__buffer *fresh) {
    return nt__buffer_upload(run->engine, 0, state->path, NT__LAYER_STATE, state->type,
                             nt__safetensors_find(file, state->path)->data, fresh);
}

static nt_status upload_all(nt_run *run, const nt__safetensors *file, replaced *all, nt__buffer *states) {
    nt_status status = NT_OK;
    const nt__leaf *state;
    size_t place, count = 0;
    for (size_t g = 0; status == NT_OK && g < run->layout.group_count; g++) {
        all[count].buffer = &run->device.parameters[g];
        status = upload_group(run, (int)g, file, &all[count++].fresh, states);
    }
    for (size_t i = 0; status == NT_OK && (state = nt__layer_state(run, i, &place)); i++) {
        all[count].buffer = &run->device.layer_states[place];
        status = upload_state(run, state, file, &all[count++].fresh);
    }
    return status;
}

/* All of it or nothing: half of a file would be a model that nobody trained. */
static nt_status take(nt_run *run, const char *path, const nt__safetensors *file) {
    nt_status status = check_file(run, path, file);
    if (status != NT_OK) return status;
    size_t arrays = run->layout.group_count + count_states(run), count = arrays + run->state_count;
    replaced *all = nt__alloc(count, sizeof *all);
    nt__buffer *states = nt__alloc(run->state_count + 1, sizeof *states);
    status = all && states ? upload_all(run, file, all, states) : NT_OUT_OF_MEMORY;
    for (size_t i = 0; all && states && i < run->state_count; i++)
        all[arrays + i] = (replaced){&run->device.states[i], states[i]};
    if (all && states) settle(all, count, status == NT_OK);
    nt__free(states);
    nt__free(all);
    return status;
}

static void forget_waiting(nt_run *run) {
    nt__safetensors_free(&run->waiting.file);
    nt__free(run->waiting.path);
    run->waiting.path = NULL;
}

/* Takes the file over, in place of one that waits already. */
static nt_status keep_waiting(nt_run *run, const char *path, nt__safetensors *file) {
    char *copy = nt__strdup(path);
    if (!copy) {
        nt__safetensors_free(file);
        return NT_OUT_OF_MEMORY;
    }
    forget_waiting(run);
    run->waiting.file = *file;
    run->waiting.path = copy;
    return NT_OK;
}

nt_status nt__load_waiting(nt_run *run) {
    if (!run->waiting.path) return NT_OK;
    nt_status status = take(run, run->waiting.path, &run->waiting.file);
    if (status == NT_OK) forget_waiting(run);
    return status;
}

nt_status nt_run_load(nt_run *run, const char *path) {
    if (!nt__given(run, "nt_run_load", "run") || !nt__given(path, "nt_run_load", "path")) return NT_INVALID;
    nt__safetensors file = {0};
    nt_status status = nt__safetensors_read(path, &file);
    if (status != NT_OK) return status;
    if (!nt__is_laid_out(run)) return keep_waiting(run, path, &file);
    status = take(run, path, &file);
    nt__safetensors_free(&file);
    return status;
}
