/* What a model needs beside its arrays, as JSON: the values of its fields, what derive set, what layers compute in. It
 * stands among the facts of a record, and in the metadata of a file of parameters, under the same names.
 * Not here: taking it out of a file (adopt.c).
 */
#include <stdlib.h>
#include <string.h>

#include "weights/model_pair.h"

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

bool nt__facts_put(json_t *object, const char *name, json_t *value) {
    return json_object_set_new(object, name, value) == 0;
}

bool nt__facts_append(json_t *list, json_t *value) {
    return json_array_append_new(list, value) == 0;
}

json_t *nt__facts_whole(json_t *value, bool right) {
    if (right) return value;
    json_decref(value);
    return NULL;
}

/* ---- fields as text --------------------------------------------------------------------------------------------- */

/* JSON has UTF-8 alone: the bytes of another text are escaped as control characters are, which reads back the same. */
static json_t *text_of(const char *text) {
    nt__text escaped = {0};
    if (nt__is_utf8(text, strlen(text))) return json_string(text);
    for (const char *at = text; *at; at++)
        nt__text_add(&escaped, (unsigned char)*at < 128 ? "%c" : "\\x%02x", (unsigned char)*at);
    json_t *value = escaped.failed ? NULL : json_string(escaped.data);
    nt__text_free(&escaped);
    return value;
}

json_t *nt__field_fact(const nt_field_info *field, const void *fields) {
    nt__text text = {0};
    nt__field_print(field, fields, &text);
    json_t *value = text.failed ? NULL : text_of(text.data ? text.data : "");
    nt__text_free(&text);
    return value;
}

static json_t *fields_of(const nt__task *task, nt_marker marker, bool only_derived) {
    json_t *object = json_object();
    bool right = object != NULL;
    for (size_t i = 0; right && i < task->experiment->field_count; i++) {
        const nt_field_info *field = &task->experiment->fields[i];
        bool is_in = field->marker == marker && nt__field_has_flag(field) && (task->derived[i] || !only_derived);
        if (is_in) right = nt__facts_put(object, field->name, nt__field_fact(field, task->fields));
    }
    return nt__facts_whole(object, right);
}

json_t *nt__record_fields(const nt__task *task, nt_marker marker) {
    return fields_of(task, marker, false);
}

json_t *nt__record_config(const nt__task *task) {
    return nt__record_fields(task, NT_GRAPH_CONST);
}

json_t *nt__record_derived(const nt__task *task) {
    json_t *list = json_array();
    bool right = list != NULL;
    for (size_t i = 0; right && i < task->experiment->field_count; i++)
        if (task->derived[i]) right = nt__facts_append(list, json_string(task->experiment->fields[i].name));
    return nt__facts_whole(list, right);
}

json_t *nt__record_types(const nt__task *task) {
    json_t *object = json_object();
    bool right = object != NULL;
    for (size_t i = 0; right && i < task->experiment->field_count; i++) {
        const nt_field_info *field = &task->experiment->fields[i];
        if (field->marker != NT_HOST || task->derived[i])
            right = nt__facts_put(object, field->name, json_string(nt__field_type_name(field->type)));
    }
    return nt__facts_whole(object, right);
}

/* What the fields that derive set were before that. */
json_t *nt__record_given(const nt__task *task) {
    json_t *object = json_object();
    bool right = object != NULL;
    for (size_t i = 0; right && task->underived && i < task->experiment->field_count; i++) {
        const nt_field_info *field = &task->experiment->fields[i];
        if (task->derived[i] && nt__field_has_flag(field))
            right = nt__facts_put(object, field->name, nt__field_fact(field, task->underived));
    }
    return nt__facts_whole(object, right);
}

/* ---- numbers of the forward program ----------------------------------------------------------------------------- */

/* A constant of the text: "dense<0x3F800000> : tensor<8x4xf32>", or a list of such elements. */
typedef struct constant {
    const char *elements;
    size_t length;
    nt_dtype dtype; /* floating */
} constant;

static bool find_float(const char *type, size_t length, nt_dtype *out) {
    static const nt_dtype floats[] = {NT_BF16, NT_F16, NT_F32, NT_F64}; /* bf16 ends in f16 */
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        const char *name = nt_dtype_name(floats[i]);
        size_t end = strlen(name);
        if (length < end || memcmp(type + length - end, name, end) != 0) continue;
        *out = floats[i];
        return true;
    }
    return false;
}

/* After the next floating constant; NULL: there is none. */
static const char *next_constant(const char *at, constant *out) {
    static const char before[] = "value = dense<", between[] = "> : tensor<";
    while ((at = strstr(at, before))) {
        const char *end = strstr(at += sizeof before - 1, between), *type = end ? end + sizeof between - 1 : NULL;
        if (!end) return NULL;
        *out = (constant){.elements = at, .length = (size_t)(end - at)};
        at = type;
        if (find_float(type, strcspn(type, ">"), &out->dtype)) return at;
    }
    return NULL;
}

/* "0.5"; of several elements their hash. */
static json_t *constant_fact(const constant *c) {
    char text[64], hex[33];
    if (c->elements[0] == '0') {
        uint64_t bits = strtoull(c->elements, NULL, 16);
        nt__format(text, sizeof text, "%.9g", nt__plain_nan(nt__element_get(c->dtype, &bits)));
    } else {
        nt__hash_hex(nt__hash_bytes(c->elements, c->length), hex);
        snprintf(text, sizeof text, "array %s", hex);
    }
    return json_string(text);
}

bool nt__facts_list_has(const json_t *list, const json_t *value) {
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)list, i, item) if (json_equal(item, (json_t *)value)) return true;
    return false;
}

enum { MOST_NUMBERS = 64 };

json_t *nt__record_numbers(const nt__traced *traced) {
    const char *at = traced->programs.forward ? nt__program_text(traced->programs.forward) : NULL;
    constant c;
    if (!at) return json_null();
    json_t *list = json_array();
    bool right = list != NULL;
    while (right && json_array_size(list) < MOST_NUMBERS && (at = next_constant(at, &c))) {
        json_t *value = constant_fact(&c);
        right = value != NULL;
        if (right && nt__facts_list_has(list, value))
            json_decref(value);
        else if (right)
            right = nt__facts_append(list, value);
    }
    return nt__facts_whole(list, right);
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

typedef struct fact {
    const char *name;
    json_t *value; /* taken over */
} fact;

json_t *nt__model_facts(const nt__traced *traced) {
    const fact facts[] = {{"experiment", text_of(traced->task->experiment->name)},
                          {"compute_dtype", json_string(traced->task->settings.compute_dtype)},
                          {"seed", json_integer(traced->task->settings.seed)},
                          {"config", nt__record_config(traced->task)},
                          {"devices", nt__record_fields(traced->task, NT_DEVICE)},
                          {"host", fields_of(traced->task, NT_HOST, true)},
                          {"derived", nt__record_derived(traced->task)},
                          {"given", nt__record_given(traced->task)},
                          {"types", nt__record_types(traced->task)},
                          {"inputs", nt__record_inputs(traced)},
                          {"numbers", nt__record_numbers(traced)}};
    json_t *object = json_object();
    bool right = object != NULL;
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        bool put = object && nt__facts_put(object, facts[i].name, facts[i].value);
        right &= put;
    }
    return nt__facts_whole(object, right);
}
