/* The arrays of a prediction against those that the model was trained with, as the file of its weights has them.
 * Not here: what forward reads of a batch that is laid out (predict.c).
 */
#include <string.h>

#include "weights/model_pair.h"

/* ---- written ---------------------------------------------------------------------------------------------------- */

static json_t *row_fact(nt__type row) {
    json_t *dims = json_array();
    bool right = dims != NULL;
    for (int i = 0; right && i < row.shape.rank; i++) right = nt__facts_append(dims, json_integer(row.shape.dims[i]));
    dims = nt__facts_whole(dims, right);
    return dims ? json_pack("{s:s, s:o}", "dtype", nt_dtype_name(row.dtype), "row", dims) : NULL;
}

json_t *nt__record_inputs(const nt__traced *traced) {
    json_t *object = json_object();
    bool right = object != NULL;
    for (size_t i = 0; right && nt__is_laid_out(traced) && i < traced->batch.count; i++) {
        const nt__batch_field *field = &traced->batch_fields[i];
        if (traced->routes.prediction.position[i] >= 0)
            right = nt__facts_put(object, field->name, row_fact(nt__row_type(field->type)));
    }
    return nt__facts_whole(object, right);
}

/* ---- read back -------------------------------------------------------------------------------------------------- */

/* False: the file has no such type. */
static bool read_row(const json_t *input, nt__type *out) {
    const char *name = json_string_value(json_object_get(input, "dtype"));
    const json_t *dims = json_object_get(input, "row");
    *out = (nt__type){.dtype = 0};
    while (name && out->dtype < NT_DTYPE_COUNT && strcmp(nt_dtype_name(out->dtype), name) != 0) out->dtype++;
    if (!name || out->dtype == NT_DTYPE_COUNT || !json_is_array(dims) || json_array_size(dims) >= NT_MAX_RANK)
        return false;
    out->shape.rank = (int)json_array_size(dims);
    for (int i = 0; i < out->shape.rank; i++) out->shape.dims[i] = json_integer_value(json_array_get(dims, (size_t)i));
    return true;
}

/* "f32[n,8]": any number of such rows. */
static const char *rows_text(nt__type row, char out[NT__TYPE_TEXT]) {
    char dims[NT__TYPE_TEXT];
    const char *inner = nt__shape_text(row.shape, dims);
    snprintf(out, NT__TYPE_TEXT, "%s[n%s%s", nt_dtype_name(row.dtype), row.shape.rank ? "," : "", inner + 1);
    return out;
}

/* ---- one array -------------------------------------------------------------------------------------------------- */

static nt_status fail_rank(const char *name, nt__type given, nt__type row) {
    char got[NT__TYPE_TEXT], wanted[NT__TYPE_TEXT], one[NT__TYPE_TEXT];
    nt__type sample = row;
    memmove(sample.shape.dims + 1, sample.shape.dims, (size_t)row.shape.rank * sizeof *sample.shape.dims);
    sample.shape.dims[0] = 1;
    sample.shape.rank++;
    bool is_sample = nt_shape_equal(given.shape, row.shape);
    return nt__fail(NT_INVALID, "input '%s' is %s, training had %s: axis 0 counts the samples%s%s", name,
                    nt__type_text(given, got), rows_text(row, wanted), is_sample ? "; one sample is " : "",
                    is_sample ? nt__type_text(sample, one) : "");
}

static nt_status check_input(const char *name, const nt_array *array, nt__type row) {
    static const char *const numpy[NT_DTYPE_COUNT] = {
        [NT_F32] = "float32", [NT_F64] = "float64", [NT_BF16] = "bf16 (safetensors)",
        [NT_F16] = "float16", [NT_I8] = "int8",     [NT_I16] = "int16",
        [NT_I32] = "int32",   [NT_I64] = "int64",   [NT_U8] = "uint8",
        [NT_U16] = "uint16",  [NT_U32] = "uint32",  [NT_U64] = "uint64",
        [NT_BOOL] = "bool"};
    char got[NT__TYPE_TEXT], wanted[NT__TYPE_TEXT];
    nt__type given = nt__array_type(array);
    if (given.shape.rank != row.shape.rank + 1) return fail_rank(name, given, row);
    if (given.dtype == row.dtype) return NT_OK;
    return nt__fail(NT_INVALID, "input '%s' is %s, training had %s: save it as %s", name, nt__type_text(given, got),
                    rows_text(row, wanted), numpy[row.dtype]);
}

/* Whether forward may refuse it, or make another model for it. */
static bool has_other_rows(const nt_array *array, nt__type row) {
    return !nt_shape_equal(nt__row_type(nt__array_type(array)).shape, row.shape);
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

/* NULL: none are known. */
static const json_t *inputs_of(const nt__waiting *waiting) {
    const nt__weights *weights = waiting->weights;
    if (!weights || weights->is_mapped || nt__model_other_experiment(waiting->task, weights)) return NULL;
    return json_object_get(weights->facts, "inputs");
}

/* A name may be left out where there is one input. */
static const nt_array *find_given(const nt_named_array *given, size_t count, const char *name, bool is_only) {
    for (size_t i = 0; i < count; i++)
        if (given[i].name ? strcmp(given[i].name, name) == 0 : is_only) return given[i].array;
    return NULL;
}

static nt_status fail_nameless(const json_t *inputs) {
    nt__text text = {0};
    const char *name, *first = NULL;
    json_t *input;
    json_object_foreach((json_t *)inputs, name, input) {
        char rows[NT__TYPE_TEXT];
        nt__type row;
        if (!first) first = name;
        nt__text_add(&text, "%s%s", text.length ? ", " : "", name);
        if (read_row(input, &row)) nt__text_add(&text, " %s", rows_text(row, rows));
    }
    nt_status status = text.failed
                           ? NT_OUT_OF_MEMORY
                           : nt__fail(NT_INVALID,
                                      "forward reads several fields (%s), and an array without a name was given: "
                                      "name each, as in --input %s=FILE",
                                      text.data ? text.data : "", first ? first : "FIELD");
    nt__text_free(&text);
    return status;
}

nt_status nt__inputs_check(const nt__waiting *waiting, const nt_named_array *given, size_t count) {
    const json_t *inputs = inputs_of(waiting);
    const char *name;
    json_t *input;
    nt_status status = NT_OK;
    for (size_t i = 0; i < count; i++)
        if (!given[i].name && json_object_size(inputs) > 1) return fail_nameless(inputs);
    json_object_foreach((json_t *)inputs, name, input) {
        nt__type row;
        const nt_array *array = find_given(given, count, name, json_object_size(inputs) == 1);
        if (status == NT_OK && array && read_row(input, &row)) status = check_input(name, array, row);
    }
    return status;
}

nt_status nt__inputs_explain(const nt__waiting *waiting, const nt_named_array *given, size_t count, nt_status status) {
    const json_t *inputs = inputs_of(waiting);
    const char *name;
    json_t *input;
    if (status != NT_INVALID) return status;
    json_object_foreach((json_t *)inputs, name, input) {
        nt__type row;
        char got[NT__TYPE_TEXT], wanted[NT__TYPE_TEXT];
        const nt_array *array = find_given(given, count, name, json_object_size(inputs) == 1);
        if (!array || !read_row(input, &row) || !has_other_rows(array, row)) continue;
        return nt__fail(status,
                        "input '%s' is %s, training had %s, and the model does not fit it: give it rows like those "
                        "(%s)",
                        name, nt__type_text(nt__array_type(array), got), rows_text(row, wanted), nt_error_message());
    }
    return status;
}

/* ---- a batch that is laid out ----------------------------------------------------------------------------------- */

bool nt__inputs_are_same(const nt__traced *traced, const nt__weights *weights) {
    const json_t *inputs = json_object_get(weights->facts, "inputs");
    for (size_t i = 0; i < traced->batch.count; i++) {
        const nt__batch_field *field = &traced->batch_fields[i];
        nt__type row;
        if (traced->routes.prediction.position[i] < 0) continue;
        if (!read_row(json_object_get(inputs, field->name), &row)) return false;
        if (!nt__type_equal(nt__row_type(field->type), row)) return false;
    }
    return true;
}
