/* nitro predict: what forward returns for arrays from files, written to a file.
 * Not here: the pass over the arrays (run/predict.c).
 */
#include "cli/cli.h"

#include <string.h>

#include "array/array.h"

/* ---- names of files --------------------------------------------------------------------------------------------- */

static bool ends_in(const char *name, const char *ending) {
    size_t length = strlen(name), part = strlen(ending);
    return length > part && strcmp(name + length - part, ending) == 0;
}

static bool is_npy(const char *path) {
    return ends_in(path, ".npy");
}

static bool is_safetensors(const char *path) {
    return ends_in(path, ".safetensors");
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

/* The arrays of all --input, with references of their own. */
typedef struct inputs {
    nt__arena arena; /* names */
    nt_named_array *fields;
    size_t count, capacity;
} inputs;

static void free_inputs(inputs *in) {
    for (size_t i = 0; i < in->count; i++) nt_array_free((nt_array *)in->fields[i].array);
    nt__free(in->fields);
    nt__arena_free(&in->arena);
}

/* Takes the array over. NULL: the thread's error says why there is none. */
static nt_status add(inputs *in, const char *name, nt_array *array) {
    if (!array) return nt_error_status();
    const char *copy = name ? nt__arena_strdup(&in->arena, name) : NULL;
    if ((name && !copy) || !NT__GROW(in->fields, in->count, in->capacity)) {
        nt_array_free(array);
        return NT_OUT_OF_MEMORY;
    }
    in->fields[in->count++] = (nt_named_array){copy, array};
    return NT_OK;
}

/* All arrays of a file are fields by name; a file with one may give it to a field of another name. */
static nt_status add_file_arrays(inputs *in, const char *name, const char *path, const nt__safetensors *file) {
    nt_status status = NT_OK;
    if (name && file->count != 1)
        return nt__fail(NT_INVALID,
                        "'%s' has %zu arrays, so it cannot be the field '%s': without '%s=' they are fields "
                        "by their own names",
                        path, file->count, name, name);
    for (size_t i = 0; status == NT_OK && i < file->count; i++) {
        const nt__named_array *array = &file->arrays[i];
        status = add(in, name ? name : array->name, nt_array_from(array->type.dtype, array->type.shape, array->data));
    }
    return status;
}

static nt_status add_safetensors(inputs *in, const char *name, const char *path) {
    nt__safetensors file;
    nt_status status = nt__safetensors_read(path, &file);
    if (status != NT_OK) return status;
    status = add_file_arrays(in, name, path, &file);
    nt__safetensors_free(&file);
    return status;
}

/* IDX files have no ending of their own: what is neither of the other two must be one. */
static nt_status add_idx(inputs *in, const char *name, const char *path) {
    nt_status status = add(in, name, nt_idx_read(NULL, path));
    if (status != NT_INVALID) return status;
    return nt__fail(status, "%s. Inputs are .npy, .safetensors and IDX files, the last also packed by gzip",
                    nt_error_message());
}

static nt_status add_path(inputs *in, const char *name, const char *path) {
    if (is_npy(path)) return add(in, name, nt_npy_read(path));
    return is_safetensors(path) ? add_safetensors(in, name, path) : add_idx(in, name, path);
}

/* "[FIELD=]FILE". A '=' behind a '/' belongs to the path. */
static nt_status add_input(inputs *in, const char *text) {
    size_t length = strcspn(text, "=/");
    if (text[length] != '=') return add_path(in, NULL, text);
    if (length == 0 || !text[length + 1])
        return nt__fail(NT_INVALID,
                        "--input=%s: write --input=FIELD=FILE, or --input=FILE where forward reads one field", text);
    const char *name = nt__arena_sprintf(&in->arena, "%.*s", (int)length, text);
    return name ? add_path(in, name, text + length + 1) : NT_OUT_OF_MEMORY;
}

static nt_status read_inputs(const nt__words *values, inputs *in) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < values->count; i++) status = add_input(in, values->items[i]);
    if (status == NT_OK && in->count == 0)
        return nt__fail(NT_INVALID, "no array was given: write --input=FILE or --input=FIELD=FILE once or more; .npy, "
                                    ".safetensors and IDX files are read");
    return status;
}

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

static nt_status write_outputs(const nt__session *session, const nt_array *outputs) {
    const char *path = session->options.out;
    if (is_npy(path)) return nt_npy_write(path, outputs);
    const nt__named_array named = {"outputs", {outputs->dtype, outputs->shape}, outputs->data};
    const char *const metadata[][2] = {{"experiment", session->experiment->name}};
    return nt__safetensors_write(path, &named, 1, metadata, 1);
}

static nt_status keep(nt__session *session, const nt_array *outputs) {
    char text[NT__TYPE_TEXT];
    nt_status status = write_outputs(session, outputs);
    if (status == NT_OK)
        nt__terminal_line(&session->terminal, "predictions %s in %s",
                          nt__type_text((nt__type){outputs->dtype, outputs->shape}, text), session->options.out);
    return status;
}

/* A prediction of no rows says what the outputs are, without work: a file that cannot hold them is found here. What is
 * wrong with the arrays is left for the prediction to say. */
static nt_status check_file_holds(nt__session *session, const inputs *in) {
    if (!is_npy(session->options.out)) return NT_OK;
    nt__arena arena = {0};
    nt_array *empty = nt__arena_alloc(&arena, in->count, sizeof *empty), *outputs = NULL;
    nt_named_array *fields = nt__arena_alloc(&arena, in->count, sizeof *fields);
    nt_status status = empty && fields ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < in->count; i++) {
        empty[i] = *in->fields[i].array;
        empty[i].shape.dims[0] = 0;
        fields[i] = (nt_named_array){in->fields[i].name, &empty[i]};
    }
    if (status == NT_OK && nt_predict(session->run, fields, in->count, &outputs) == NT_OK)
        status = nt__npy_check(session->options.out, outputs);
    nt_array_free(outputs);
    nt__arena_free(&arena);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static nt__exit_code predict(nt__session *session, const inputs *in) {
    nt_array *outputs = NULL;
    nt_status status = nt__session_load_weights(session);
    if (status == NT_OK) status = check_file_holds(session, in);
    if (status == NT_OK) status = nt_predict(session->run, in->fields, in->count, &outputs);
    if (status == NT_OK) status = keep(session, outputs);
    nt_array_free(outputs);
    return status == NT_OK ? NT__EXIT_DONE : nt__session_fail(session, status);
}

static nt__exit_code run(const nt__arguments *arguments, const inputs *in) {
    nt__session session;
    nt__exit_code code = nt__session_open(arguments, "predict", true, &session);
    if (code == NT__EXIT_DONE) code = predict(&session, in);
    return nt__session_close(&session, code);
}

/* Everything that can be wrong with the words, before the files are compiled. */
static nt_status check_words(const nt__arguments *arguments, inputs *in) {
    nt__command_options options;
    nt_status status = nt__arguments_options(arguments, &options);
    if (status == NT_OK) status = nt__arguments_check_files(arguments, "predict");
    if (status == NT_OK) status = check_out(options.out);
    if (status == NT_OK) status = read_inputs(&options.inputs, in);
    nt__command_options_free(&options);
    return status;
}

nt__exit_code nt__predict_command(const nt__arguments *arguments) {
    inputs in = {0};
    nt_status status = check_words(arguments, &in);
    nt__exit_code code = status == NT_OK ? run(arguments, &in) : nt__report_wrong_use(status);
    free_inputs(&in);
    return code;
}
