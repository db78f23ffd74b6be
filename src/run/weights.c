/* Parameters from the flat buffers of the device to named host arrays: reading one, saving all, with the layer states.
 * Not here: loading (load.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/model_facts.h"

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

char *nt__row_data(const nt__row *row, const nt_array *flat) {
    return (char *)flat->data + (size_t)row->offset * nt_dtype_size(row->type.dtype);
}

static const nt__row *find_row(const nt_run *run, const char *path) {
    for (size_t i = 0; i < run->layout.row_count; i++)
        if (strcmp(run->layout.rows[i].path, path) == 0) return &run->layout.rows[i];
    return NULL;
}

bool nt_run_parameter_at(const nt_run *run, size_t index, nt_parameter_info *out) {
    NT__USE(run, "nt_run_parameter_at");
    if (!used || !nt__given(out, "nt_run_parameter_at", "out")) return false;
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
    NT__USE(run, "nt_run_parameter");
    if (!used || !nt__given(path, "nt_run_parameter", "path")) return NULL;
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
    nt_array *copy = nt_array_from(row->type.dtype, row->type.shape, nt__row_data(row, flat));
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
    char *facts; /* what the model needs beside them, as JSON; of free() */
} saved;

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
    size_t groups = run->layout.group_count, rows = run->layout.row_count, states = nt__layer_state_count(run);
    s->copies = nt__arena_alloc(&s->arena, groups + states, sizeof *s->copies);
    s->arrays = nt__arena_alloc(&s->arena, rows + states + run->device_fields.count, sizeof *s->arrays);
    nt_status status = s->copies && s->arrays ? nt__averages_begin(run) : NT_OUT_OF_MEMORY;
    if (status != NT_OK) return status;
    for (size_t g = 0; status == NT_OK && g < groups; g++) {
        status = read_group(run, (int)g, &s->copies[g]);
        if (status == NT_OK) s->copy_count++;
    }
    nt__averages_end(run);
    for (size_t i = 0; status == NT_OK && i < rows; i++) {
        const nt__row *row = &run->layout.rows[i];
        s->arrays[s->count++] = (nt__named_array){row->path, row->type, nt__row_data(row, s->copies[row->group])};
    }
    return status == NT_OK ? read_states(run, s) : status;
}

/* ---- what derive set (model_facts.h) ---------------------------------------------------------------------------- */

static nt_status add_field_array(saved *s, const char *field, const char *member, const nt_array *array) {
    const char *name =
        nt__arena_sprintf(&s->arena, NT__FIELD_ARRAYS "%s%s%s", field, member ? "." : "", member ? member : "");
    s->arrays[s->count++] = (nt__named_array){name, nt__array_type(array), array->data};
    return name ? NT_OK : NT_OUT_OF_MEMORY;
}

/* The slots are the arrays of all Device fields; the fields of the struct have what the device has. */
static nt_status add_fields(const nt_run *run, saved *s) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < run->device_fields.count; i++) {
        const nt__device_slot *slot = &run->device_fields.slots[i];
        const nt_field_info *field = &run->experiment->fields[slot->field];
        const void *at = (const char *)run->fields + field->offset;
        if (!run->derived[slot->field] || nt__field_is_number(field)) continue;
        const nt_array *array =
            slot->member ? nt_arrays_find(*(nt_arrays *const *)at, slot->member) : *(nt_array *const *)at;
        status = add_field_array(s, field->name, slot->member, array);
    }
    return status;
}

static nt_status print_facts(const nt_run *run, saved *s) {
    json_t *facts = nt__model_facts(run);
    s->facts = facts ? json_dumps(facts, JSON_COMPACT) : NULL;
    json_decref(facts);
    return s->facts ? NT_OK : nt__fail(NT_OUT_OF_MEMORY, "out of host memory for the fields of a model");
}

static void free_saved(saved *s) {
    free(s->facts);
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
int64_t nt__count_bad(nt__type type, const void *elements, bool is_state) {
    size_t width = nt_dtype_size(type.dtype);
    int64_t count = 0, length = nt_shape_elements(type.shape);
    if (type.dtype == NT_F32 && !is_state) return count_bad_f32(elements, length);
    for (int64_t i = 0; i < length; i++) {
        double value = nt__element_get(type.dtype, (const char *)elements + (size_t)i * width);
        count += is_state ? isnan(value) : !isfinite(value);
    }
    return count;
}

/* A loss is computed before the step that it leads to: what the last step broke, no loss has shown. */
static void say_where_from(const nt_run *run, bool is_state, nt__text *out) {
    const nt__place *closed = &run->closed;
    if (is_state) {
        nt__text_say(out, "Look at what its layer was given: a state is computed of that");
    } else if (closed->step == 0) {
        nt__text_say(out, "This run has made no step, so they came with the weights that it was given");
    } else if (!run->settings.check_divergence) {
        nt__text_say(
            out, "Look at the log for the first loss that is not finite, and at the gradient of the step before it");
    } else {
        nt__text_say(out, "The loss was finite up to there, so look at the gradient of ");
        nt__add_step(run, closed, out);
        nt__text_say(out,
                     ", or of an earlier step for parameters that later batches do not use, for what has a value and "
                     "no finite gradient, as the root of 0; where it is finite the step was too large: train again "
                     "with a lower learning rate");
    }
}

nt_status nt__check_finite(const nt_run *run, const char *path, const nt__named_array *array, bool is_state) {
    int64_t bad = nt__count_bad(array->type, array->data, is_state);
    nt__text text = {0};
    if (!bad) return NT_OK;
    nt__text_add(&text, "%s is not written: %lld of the %lld elements of %s '%s' are %s. ", path, (long long)bad,
                 (long long)nt_shape_elements(array->type.shape), is_state ? "layer state" : "parameter", array->name,
                 is_state ? "not a number" : "infinite or not a number");
    say_where_from(run, is_state, &text);
    nt_status status = text.failed ? NT_OUT_OF_MEMORY : nt__fail(NT_DIVERGED, "%s", text.data);
    nt__text_free(&text);
    return status;
}

static nt_status check_finite(const nt_run *run, const char *path, const saved *s) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < s->count; i++)
        status = nt__check_finite(run, path, &s->arrays[i], i >= run->layout.row_count);
    return status;
}

nt_status nt_run_save(nt_run *run, const char *path) {
    NT__USE(run, "nt_run_save");
    if (!used || !nt__given(path, "nt_run_save", "path")) return NT_INVALID;
    if (nt__check_laid_out(run) != NT_OK) return NT_INVALID;
    saved s = {.count = 0};
    nt_status status = read_all(run, &s);
    if (status == NT_OK) status = check_finite(run, path, &s);
    if (status == NT_OK) status = add_fields(run, &s);
    if (status == NT_OK) status = print_facts(run, &s);
    const char *const metadata[][2] = {
        {"experiment", run->experiment->name}, {"format", "nitro-parameters-1"}, {NT__MODEL_KEY, s.facts}};
    if (status == NT_OK) status = nt__safetensors_write(path, s.arrays, s.count, metadata, 3);
    free_saved(&s);
    return status;
}
