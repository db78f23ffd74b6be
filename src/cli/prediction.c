/* nitro predict: what forward returns for arrays from files, written to a file.
 * Not here: the pass over the arrays (run/predict.c).
 */
#include "cli/cli.h"
#include "base/files.h"

#include <string.h>

#include "format/format.h"
#include "base/closest.h"
#include "run/run.h"

/* ---- names of files --------------------------------------------------------------------------------------------- */

static bool is_npy(const char *path) {
    return nt__ends_in(path, ".npy");
}

static bool is_safetensors(const char *path) {
    return nt__ends_in(path, ".safetensors");
}

/* Before anything is compiled or read. */
static nt_status check_out(const char *path) {
    if (!path) return nt__fail(NT_INVALID, "no --out was given: name a .npy or .safetensors file for the predictions");
    if (!is_npy(path) && !is_safetensors(path))
        return nt__fail(NT_INVALID, "--out=%s: predictions are written to a file that ends in .npy or .safetensors",
                        path);
    nt_status status = nt__check_can_write(path);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "--out");
}

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

void nt__prediction_free(nt__prediction *p) {
    for (size_t i = 0; i < p->count; i++) nt_array_free((nt_array *)p->fields[i].array);
    nt__free(p->fields);
    nt__words_free(&p->named);
    nt__arena_free(&p->arena);
}

static nt_status check_new(const nt__prediction *p, const char *name) {
    for (size_t i = 0; i < p->count; i++) {
        const char *other = p->fields[i].name;
        if (!name && !other)
            return nt__fail(NT_INVALID,
                            "two arrays without a field's name were given: write --input=FIELD=FILE for each");
        if (name && other && strcmp(name, other) == 0)
            return nt__fail(NT_INVALID, "the field '%s' was given twice: each has one array", name);
    }
    return NT_OK;
}

/* Takes the array over. NULL: the thread's error says why there is none. */
static nt_status add(nt__prediction *p, const char *name, nt_array *array) {
    if (!array) return nt_error_status();
    nt_status status = check_new(p, name);
    if (status != NT_OK) {
        nt_array_free(array);
        return status;
    }
    const char *copy = name ? nt__arena_strdup(&p->arena, name) : NULL;
    if ((name && !copy) || !NT__GROW(p->fields, p->count, p->capacity)) {
        nt_array_free(array);
        return NT_OUT_OF_MEMORY;
    }
    p->fields[p->count++] = (nt_named_array){copy, array};
    return NT_OK;
}

static nt_array *array_of(const nt__named_array *array) {
    return nt_array_from(array->type.dtype, array->type.shape, array->data);
}

/* An error only where forward reads one: others are left out. */
static void tell_unknown(const nt__prediction *p, const char *path, const nt__safetensors *file) {
    nt__text text = {0};
    for (size_t i = 0; i < file->unknown_count; i++)
        nt__text_add(&text, "%s%s %s", i ? ", " : "", file->unknown[i].name, file->unknown[i].type);
    if (text.length && !text.failed && !p->quiet)
        nt__notice("%s: tensors that nitro has no type for are left out: %s", path, text.data);
    nt__text_free(&text);
}

/* All arrays of a file are fields by name. */
static nt_status add_all(nt__prediction *p, const char *path, const nt__safetensors *file) {
    nt_status status = NT_OK;
    if (file->count == 0 && file->unknown_count) return nt__fail_unknown_array(&file->unknown[0]);
    tell_unknown(p, path, file);
    for (size_t i = 0; status == NT_OK && i < file->count; i++)
        status = add(p, file->arrays[i].name, array_of(&file->arrays[i]));
    return status;
}

/* The array of that name, or the only one of the file, whatever its name is. */
static nt_status add_one(nt__prediction *p, const char *name, const char *path, const nt__safetensors *file) {
    const nt__named_array *array = nt__safetensors_find(file, name);
    for (size_t i = 0; i < file->unknown_count; i++)
        if (strcmp(file->unknown[i].name, name) == 0 || (!array && file->count == 0))
            return nt__fail_in(nt__fail_unknown_array(&file->unknown[i]), "%s", path);
    if (!array && file->count == 1) array = &file->arrays[0];
    if (array) return add(p, name, array_of(array));
    return nt__fail(NT_INVALID,
                    "'%s' has %zu arrays and none is called '%s', so it cannot be that field: without '%s=' they are "
                    "fields by their own names",
                    path, file->count, name, name);
}

static nt_status add_file_arrays(nt__prediction *p, const char *name, const char *path, const nt__safetensors *file) {
    return name ? add_one(p, name, path, file) : add_all(p, path, file);
}

static nt_status add_safetensors(nt__prediction *p, const char *name, const char *path) {
    nt__safetensors file;
    nt_status status = nt__safetensors_read(path, &file);
    if (status != NT_OK) return status;
    status = add_file_arrays(p, name, path, &file);
    nt__safetensors_free(&file);
    return status;
}

/* IDX files have no ending of their own: what is neither of the other two must be one. */
static nt_status add_idx(nt__prediction *p, const char *name, const char *path) {
    if (nt__ends_in(path, ".npz"))
        return nt__fail(NT_INVALID,
                        "'%s' is an archive of arrays: save the one that is meant as .npy, or several as .safetensors",
                        path);
    nt_status status = add(p, name, nt_idx_read(NULL, path));
    if (status != NT_INVALID) return status;
    return nt__fail(status, "%s. Inputs are .npy, .safetensors and IDX files, the last also packed by gzip",
                    nt_error_message());
}

static nt_status add_path(nt__prediction *p, const char *name, const char *path) {
    if (is_npy(path)) return add(p, name, nt_npy_read(path));
    return is_safetensors(path) ? add_safetensors(p, name, path) : add_idx(p, name, path);
}

/* "[FIELD=]FILE". A '=' after a '/' belongs to the path. */
static nt_status add_input(nt__prediction *p, const char *text) {
    size_t length = strcspn(text, "=/");
    if (text[length] != '=') return add_path(p, NULL, text);
    if (length == 0 || !text[length + 1])
        return nt__fail(NT_INVALID,
                        "--input=%s: write --input=FIELD=FILE, or --input=FILE if forward reads one field", text);
    const char *name = nt__arena_sprintf(&p->arena, "%.*s", (int)length, text);
    nt__words_add(&p->named, name);
    return !p->named.failed ? add_path(p, name, text + length + 1) : NT_OUT_OF_MEMORY;
}

static nt_status read_inputs(const nt__words *values, nt__prediction *p) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < values->count; i++) status = add_input(p, values->items[i]);
    if (status == NT_OK && p->count == 0)
        return nt__fail(NT_INVALID, "no array was given: write --input=FILE or --input=FIELD=FILE once or more; .npy, "
                                    ".safetensors and IDX files are read");
    return status;
}

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

static nt_status write_outputs(const nt__prediction *p, const nt_experiment *experiment, const nt_array *outputs) {
    if (is_npy(p->out)) return nt_npy_write(p->out, outputs);
    const nt__named_array named = {"outputs", nt__array_type(outputs), outputs->data};
    const char *const metadata[][2] = {{"experiment", experiment->name}};
    return nt__safetensors_write(p->out, &named, 1, metadata, 1);
}

/* A name that forward does not read may be a slip. */
static nt_status check_named(const nt__prediction *p, const nt_run *run) {
    nt__words fields = {0};
    nt__text message = {0};
    for (size_t i = 0; nt__forward_field(run, i); i++) nt__words_add(&fields, nt__forward_field(run, i));
    for (size_t i = 0; i < p->named.count && !message.length; i++) {
        bool is_read = false;
        for (size_t j = 0; j < fields.count; j++) is_read |= strcmp(p->named.items[i], fields.items[j]) == 0;
        if (is_read) continue;
        nt__text_add(&message, "--input %s=: forward does not read that field", p->named.items[i]);
        nt__add_closest(&message, p->named.items[i], fields.items, fields.count, "");
        nt__text_say(&message, "; it reads: ");
        for (size_t j = 0; j < fields.count; j++) nt__text_add(&message, "%s%s", j ? ", " : "", fields.items[j]);
    }
    nt_status status = fields.failed || message.failed ? NT_OUT_OF_MEMORY : NT_OK;
    if (status == NT_OK && message.length) status = nt__fail(NT_INVALID, "%s", message.data);
    nt__words_free(&fields);
    nt__text_free(&message);
    return status;
}

/* A prediction of no rows says what forward reads and what the outputs are, without work: names that mean nothing and a
 * file that cannot hold the outputs are found here. What is wrong with the arrays is left for the prediction to say. */
static nt_status look_ahead(nt_run *run, const nt__prediction *p) {
    nt__arena arena = {0};
    nt_array *empty = nt__arena_alloc(&arena, p->count, sizeof *empty), *outputs = NULL;
    nt_named_array *fields = nt__arena_alloc(&arena, p->count, sizeof *fields);
    nt_status status = empty && fields ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < p->count; i++) {
        empty[i] = *p->fields[i].array;
        empty[i].shape.dims[0] = 0;
        fields[i] = (nt_named_array){p->fields[i].name, &empty[i]};
    }
    if (status == NT_OK && nt_predict(run, fields, p->count, &outputs) == NT_OK) {
        status = check_named(p, run);
        if (status == NT_OK && is_npy(p->out)) status = nt__npy_check(p->out, outputs);
    }
    nt_array_free(outputs);
    nt__arena_free(&arena);
    return status;
}

/* ---- a prediction ----------------------------------------------------------------------------------------------- */

nt_status nt__prediction_read(const nt__command_options *options, nt__prediction *p) {
    nt_status status = check_out(options->out);
    if (status != NT_OK) return status;
    p->quiet = options->run.quiet;
    p->out = nt__arena_strdup(&p->arena, options->out);
    return p->out ? read_inputs(&options->inputs, p) : NT_OUT_OF_MEMORY;
}

nt_status nt__prediction_make(const nt__prediction *p, const nt_experiment *experiment, nt_run *run,
                              nt__terminal *terminal) {
    char text[NT__TYPE_TEXT];
    nt_array *outputs = NULL;
    nt_status status = look_ahead(run, p);
    if (status == NT_OK) status = nt_predict(run, p->fields, p->count, &outputs);
    if (status == NT_OK) status = write_outputs(p, experiment, outputs);
    if (status == NT_OK)
        nt__terminal_line(terminal, "predictions %s in %s", nt__type_text(nt__array_type(outputs), text), p->out);
    nt_array_free(outputs);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */
