/* What the facts of a model must look like, whoever wrote the file: those who read them look at values alone.
 * Not here: what the facts mean (model_facts.h).
 */
#include <string.h>

#include "weights/model_pair.h"

/* ---- the kinds of members --------------------------------------------------------------------------------------- */

static bool is_text(const json_t *value) {
    return json_is_string(value);
}

static bool is_seed(const json_t *value) {
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool is_compute_dtype(const json_t *value) {
    return nt__is_compute_dtype(json_string_value(value));
}

static bool are_texts(const json_t *value) {
    size_t i;
    json_t *item;
    if (!json_is_array(value)) return false;
    json_array_foreach((json_t *)value, i, item) if (!json_is_string(item)) return false;
    return true;
}

static bool are_texts_or_null(const json_t *value) {
    return json_is_null(value) || are_texts(value);
}

static bool are_named_texts(const json_t *value) {
    const char *name;
    json_t *item;
    if (!json_is_object(value)) return false;
    json_object_foreach((json_t *)value, name, item) if (!json_is_string(item)) return false;
    return true;
}

static bool is_row(const json_t *dims) {
    size_t i;
    json_t *size;
    if (!json_is_array(dims) || json_array_size(dims) >= NT_MAX_RANK) return false;
    json_array_foreach((json_t *)dims, i,
                       size) if (!json_is_integer(size) || json_integer_value(size) < 0) return false;
    return true;
}

static bool is_dtype(const json_t *value) {
    const char *name = json_string_value(value);
    for (nt_dtype dtype = 0; name && dtype < NT_DTYPE_COUNT; dtype++)
        if (strcmp(nt_dtype_name(dtype), name) == 0) return true;
    return false;
}

static bool are_inputs(const json_t *value) {
    const char *name;
    json_t *item;
    if (!json_is_object(value)) return false;
    json_object_foreach((json_t *)value, name, item) {
        if (!is_dtype(json_object_get(item, "dtype")) || !is_row(json_object_get(item, "row"))) return false;
    }
    return true;
}

/* ---- the members ------------------------------------------------------------------------------------------------ */

/* A file may lack any of them, as one of an earlier version does. */
static const struct {
    const char *name, *what;
    bool (*is_right)(const json_t *value);
} members[] = {
    {"experiment", "a text", is_text},
    {"compute_dtype", "\"f32\", \"bf16\" or \"f16\"", is_compute_dtype},
    {"seed", "a whole number from 0", is_seed},
    {"config", "an object of texts", are_named_texts},
    {"devices", "an object of texts", are_named_texts},
    {"host", "an object of texts", are_named_texts},
    {"derived", "a list of texts", are_texts},
    {"given", "an object of texts", are_named_texts},
    {"types", "an object of texts", are_named_texts},
    {"inputs", "an object of {\"dtype\": an element type, \"row\": sizes of fewer than 8 axes}", are_inputs},
    {"numbers", "a list of texts, or null", are_texts_or_null},
};

enum { MOST_SHOWN = 60 };

/* A text that does not fit is not shown at all: the library leaves out the pieces of it that find no room. */
static nt_status refuse(const char *name, const char *what, const json_t *value) {
    char text[MOST_SHOWN + 1] = {0};
    size_t length = json_dumpb(value, text, MOST_SHOWN, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
    return nt__fail(NT_INVALID, "its fact '%s' is %s, and it must be %s: the file was changed", name,
                    length > MOST_SHOWN ? "too long to be shown" : text, what);
}

nt_status nt__model_facts_check(const json_t *facts) {
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const json_t *value = json_object_get(facts, members[i].name);
        if (value && !members[i].is_right(value)) return refuse(members[i].name, members[i].what, value);
    }
    return NT_OK;
}

/* ---- from text -------------------------------------------------------------------------------------------------- */

nt_status nt__model_facts_parse(const char *text, json_t **out) {
    nt_status status = nt__facts_read(text, out);
    if (status == NT_OK && !json_is_object(*out))
        status = nt__fail(NT_INVALID, "the metadata '%s' are no JSON object: the file was changed", NT__MODEL_KEY);
    if (status == NT_OK) status = nt__model_facts_check(*out);
    if (status == NT_OK) return NT_OK;
    json_decref(*out);
    *out = NULL;
    return status;
}
