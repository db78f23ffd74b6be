/* Fields of an experiment: found by name, set from text, written as text.
 * Not here: the types (types.c); which text the user gave for which field (the command's business).
 */
#include <stdio.h>
#include <string.h>

#include "experiment/types.h"

const nt_field_info *nt__field_find(const nt_experiment *experiment, const char *name) {
    for (size_t i = 0; i < experiment->field_count; i++)
        if (strcmp(experiment->fields[i].name, name) == 0) return &experiment->fields[i];
    return NULL;
}

const char *nt__marker_name(nt_marker marker) {
    static const char *const names[] = {
        [NT_HOST] = "Host",
        [NT_DEVICE] = "Device",
        [NT_GRAPH_CONST] = "GraphConst",
    };
    return names[marker];
}

void nt__fields_copy(const nt_experiment *from, const void *from_fields, const nt_experiment *to, void *to_fields) {
    for (size_t i = 0; i < to->field_count; i++) {
        const nt_field_info *field = &to->fields[i], *before = nt__field_find(from, field->name);
        if (!before || before->type != field->type || before->size != field->size) continue;
        memcpy((char *)to_fields + field->offset, (const char *)from_fields + before->offset, field->size);
    }
}

const char *nt__field_type_name(nt_field_type type) {
    return nt__field_types[type].name;
}

/* A header makes bool a macro, and a pointer to text is a string to its reader. */
const char *nt__field_type_text(const nt_field_info *field) {
    nt__field_kind kind = nt__field_types[field->type].kind;
    bool has_word = kind == NT__KIND_TEXT || kind == NT__KIND_LIST || field->type == NT_FIELD_BOOL;
    if (nt__field_is_choice(field)) return "choice";
    return field->type_name && !has_word ? field->type_name : nt__field_types[field->type].name;
}

bool nt__field_is_number(const nt_field_info *field) {
    return nt__field_types[field->type].kind == NT__KIND_NUMBER;
}

bool nt__field_holds_arrays(const nt_field_info *field) {
    return nt__field_types[field->type].kind == NT__KIND_ARRAYS;
}

bool nt__field_fits_marker(const nt_field_info *field) {
    const nt__field_type *type = &nt__field_types[field->type];
    return field->marker == NT_HOST || (field->marker == NT_DEVICE ? type->may_be_device : type->may_be_graph_const);
}

nt_status nt__fields_check(const nt_experiment *experiment, const void *fields) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < experiment->field_count; i++)
        status = nt__field_check(&experiment->fields[i], fields);
    return status;
}

nt_status nt__field_parse(const nt_field_info *field, const char *text, void *fields) {
    return nt__field_types[field->type].parse(field, text, (char *)fields + field->offset);
}

void nt__field_print(const nt_field_info *field, const void *fields, nt__text *out) {
    nt__field_types[field->type].print(field, (const char *)fields + field->offset, out);
}

static int hex_digit(char c) {
    static const char digits[] = "0123456789abcdef";
    const char *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* What nt__print_quoted writes after a backslash: a quote, a backslash, or x and two digits, which are not 00. -1: none
 * of that. */
static int escaped_byte(const char *at, size_t *length) {
    *length = 1;
    if (*at == '"' || *at == '\\') return *at;
    int high = *at == 'x' ? hex_digit(at[1]) : -1, low = high >= 0 ? hex_digit(at[2]) : -1;
    *length = 3;
    return low >= 0 && high * 16 + low > 0 ? high * 16 + low : -1;
}

/* NULL: it is not what nt__print_quoted writes, or memory is short. */
static char *unescape(const char *text, nt__arena *arena) {
    size_t length = strlen(text);
    if (length < 2 || text[0] != '"' || text[length - 1] != '"') return NULL;
    char *bytes = nt__arena_strdup(arena, text), *to = bytes;
    if (!bytes) return NULL;
    for (const char *at = text + 1, *end = text + length - 1; at < end;) {
        size_t taken = 1;
        int byte = *at == '\\' ? escaped_byte(at + 1, &taken) : (unsigned char)*at;
        taken += *at == '\\';
        if (byte < 0 || at + taken > end || *at == '"') return NULL;
        *to++ = (char)byte;
        at += taken;
    }
    *to = 0;
    return bytes;
}

nt_status nt__field_unprint(const nt_field_info *field, const char *text, nt__arena *arena, void *at) {
    nt_field_info alone = *field;
    alone.offset = 0;
    if (field->type != NT_FIELD_STRING) return nt__field_parse(&alone, text, at);
    char *bytes = NULL;
    if (strcmp(text, "NULL") != 0 && !(bytes = unescape(text, arena)))
        return nt__field_refuse(field, text, "is not a text in quotes");
    nt_status status = nt__field_check(&alone, &bytes);
    if (status == NT_OK) memcpy(at, &bytes, sizeof bytes);
    return status;
}

enum { MOST_TEXT = 80 };

/* Cuts between two characters of UTF-8. */
static void show_beginning(const char *text, nt__text *out) {
    size_t length = MOST_TEXT;
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) length--;
    nt__print_quoted(text, length, out);
    nt__text_add(out, "... (%zu bytes)", strlen(text));
}

void nt__field_show(const nt_field_info *field, const void *fields, bool follow, nt__text *out) {
    const char *text = NULL;
    if (field->type == NT_FIELD_STRING) memcpy(&text, (const char *)fields + field->offset, sizeof text);
    if (text && strlen(text) > MOST_TEXT)
        show_beginning(text, out);
    else if (nt__field_holds_arrays(field) && field->marker == NT_HOST && !follow)
        nt__text_add(out, "%.64s", nt__field_type_text(field));
    else
        nt__field_print(field, fields, out);
}

double nt__field_number(const nt_field_info *field, const void *fields) {
    if (!nt__field_is_number(field)) return 0;
    return nt__element_get(nt__field_types[field->type].dtype, (const char *)fields + field->offset);
}

nt_dtype nt__field_dtype(nt_field_type type) {
    return nt__field_types[type].dtype;
}

/* ---- numbers as values ------------------------------------------------------------------------------------------ */

nt_status nt__field_from_number(const nt_field_info *field, double number, void *at) {
    if (nt__field_is_number(field) && nt__element_from_number(nt__field_dtype(field->type), at, number)) return NT_OK;
    return nt__fail(NT_INVALID, "%s (%s) cannot be %.15g", field->name, nt__field_type_text(field), number);
}
