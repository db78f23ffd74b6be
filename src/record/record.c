/* A record in memory: named arrays and facts.
 * Not here: its file (file.c).
 */
#include "record/record_internal.h"

#include <math.h>
#include <string.h>

static nt_status no_memory(const char *key) {
    return nt__fail(NT_OUT_OF_MEMORY, "out of host memory for '%s' of a checkpoint", key);
}

nt_status nt__record_new(nt__record *out) {
    *out = (nt__record){.facts = json_object()};
    return out->facts ? NT_OK : no_memory("facts");
}

void nt__record_free(nt__record *record) {
    json_decref(record->facts);
    for (size_t i = 0; record->held && i < record->count; i++) nt_array_free(record->held[i]);
    nt__free(record->held);
    if (record->held) nt__free(record->arrays);
    nt__safetensors_free(&record->file);
    nt__arena_free(&record->names);
    nt__map_free(&record->places);
    *record = (nt__record){0};
}

/* ---- arrays ----------------------------------------------------------------------------------------------------- */

static nt__hash hash_of(const char *name) {
    return nt__hash_bytes(name, strlen(name));
}

const nt__named_array *nt__record_find(const nt__record *record, const char *name) {
    uint32_t number = nt__map_find(&record->places, hash_of(name));
    return number ? &record->arrays[number - 1] : NULL;
}

nt_status nt__record_list_places(nt__record *record) {
    for (size_t i = 0; i < record->count; i++)
        if (!nt__map_put(&record->places, hash_of(record->arrays[i].name), (uint32_t)i + 1)) return NT_OUT_OF_MEMORY;
    return NT_OK;
}

nt_status nt__record_add_part(nt__record *record, const char *name, nt__type type, const void *at, nt_array *whole) {
    if (nt__record_find(record, name)) return nt__fail(NT_INVALID, "the checkpoint has an array '%s' already", name);
    char *copy = nt__arena_strdup(&record->names, name);
    if (!copy || !NT__GROW(record->held, record->count, record->held_capacity) ||
        !NT__GROW(record->arrays, record->count, record->capacity) ||
        !nt__map_put(&record->places, hash_of(name), (uint32_t)record->count + 1))
        return NT_OUT_OF_MEMORY;
    record->held[record->count] = nt_array_retain(whole);
    record->arrays[record->count++] = (nt__named_array){copy, type, at};
    return NT_OK;
}

nt_status nt__record_add(nt__record *record, const char *name, nt_array *array) {
    if (!array) return nt_error_status();
    nt_status status = nt__record_add_part(record, name, nt__array_type(array), array->data, array);
    nt_array_free(array);
    return status;
}

/* ---- facts ------------------------------------------------------------------------------------------------------ */

nt_status nt__record_set(nt__record *record, const char *key, json_t *value) {
    return json_object_set_new(record->facts, key, value) == 0 ? NT_OK : no_memory(key);
}

static nt_status fail_fact(const char *key, const json_t *value, const char *wanted) {
    char text[64] = {0};
    size_t length = value ? json_dumpb(value, text, sizeof text - 1, JSON_ENCODE_ANY | JSON_COMPACT) : 0;
    return nt__fail(NT_INVALID, "the checkpoint's '%s' is %s, it must be %s", key,
                    !value                  ? "missing"
                    : length >= sizeof text ? "too long to be shown"
                                            : text,
                    wanted);
}

nt_status nt__record_integer(const nt__record *record, const char *key, int64_t *out) {
    const json_t *value = json_object_get(record->facts, key);
    if (!json_is_integer(value)) return fail_fact(key, value, "an integer");
    *out = json_integer_value(value);
    return NT_OK;
}

nt_status nt__record_text(const nt__record *record, const char *key, bool may_be_null, const char **out) {
    const json_t *value = json_object_get(record->facts, key);
    *out = json_string_value(value);
    if (*out || (may_be_null && json_is_null(value))) return NT_OK;
    return fail_fact(key, value, may_be_null ? "a string or null" : "a string");
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    double number;
} not_finite[] = {{"inf", (double)INFINITY}, {"-inf", -(double)INFINITY}, {"nan", (double)NAN}};
enum { NOT_FINITE = sizeof not_finite / sizeof *not_finite };

json_t *nt__record_number(double number) {
    if (isfinite(number)) return json_real(number);
    for (int i = 0; i < NOT_FINITE - 1; i++)
        if (number == not_finite[i].number) return json_string(not_finite[i].text);
    return json_string(not_finite[NOT_FINITE - 1].text);
}

bool nt__record_number_of(const json_t *value, double *out) {
    if (json_is_number(value)) {
        *out = json_number_value(value);
        return true;
    }
    const char *text = json_string_value(value);
    for (int i = 0; text && i < NOT_FINITE; i++) {
        if (strcmp(text, not_finite[i].text) != 0) continue;
        *out = not_finite[i].number;
        return true;
    }
    return false;
}
