/* Fields of an experiment: found by name, set from text, written as text.
 * Not here: which text the user gave for which field (the command's business).
 */
#include "experiment/experiment.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* ---- text to values --------------------------------------------------------------------------------------------- */

static nt_status refuse(const nt_field_info *field, const char *text, const char *why) {
    return nt__fail(NT_INVALID, "%s (%s): '%s' %s", field->name, nt__field_type_text(field), text, why);
}

static nt_status parse_bool(const nt_field_info *field, const char *text, void *at) {
    static const struct {
        const char *word;
        bool value;
    } words[] = {{"true", true}, {"false", false}, {"1", true},  {"0", false},
                 {"yes", true},  {"no", false},    {"on", true}, {"off", false}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(text, words[i].word) != 0) continue;
        *(bool *)at = words[i].value;
        return NT_OK;
    }
    return refuse(field, text, "is neither true nor false; write true or false (also 1/0, yes/no, on/off)");
}

/* strtol and strtod skip spaces in front; a value with spaces around it is more likely a slip. */
static bool is_whole(const char *text, const char *end) {
    return end != text && *end == 0 && !isspace((unsigned char)*text);
}

/* "1e3" and "256.0" are numbers but not written as whole ones; the message then shows how to write them. */
static nt_status refuse_integer(const nt_field_info *field, const char *text) {
    char *end, why[160];
    double number = nt__read_double(text, &end);
    bool can_be_whole = is_whole(text, end) && fabs(number) < 1e15 && number == floor(number);
    if (!can_be_whole) return refuse(field, text, "is not a whole number; write digits, for example 256");
    nt__format(why, sizeof why, "is not written as a whole number; write %.0f", number);
    return refuse(field, text, why);
}

static nt_status refuse_range(const nt_field_info *field, const char *text, const char *low, const char *high) {
    char why[160];
    nt__format(why, sizeof why, "is out of range; it must be from %s to %s", low, high);
    return refuse(field, text, why);
}

/* Little-endian, which array.h checks: the low bytes of a number are the number in a smaller type. */
static nt_status parse_signed(const nt_field_info *field, const char *text, void *at) {
    size_t size = nt_dtype_size(nt__field_dtype(field->type));
    int64_t high = INT64_MAX >> (64 - 8 * size), low = -high - 1;
    char *end, least[32], most[32];
    errno = 0;
    int64_t number = strtoll(text, &end, 10);
    if (!is_whole(text, end)) return refuse_integer(field, text);
    snprintf(least, sizeof least, "%" PRId64, low);
    snprintf(most, sizeof most, "%" PRId64, high);
    if (errno != 0 || number < low || number > high) return refuse_range(field, text, least, most);
    memcpy(at, &number, size);
    return NT_OK;
}

/* strtoull takes "-1" as a number modulo 2^64. */
static nt_status parse_unsigned(const nt_field_info *field, const char *text, void *at) {
    size_t size = nt_dtype_size(nt__field_dtype(field->type));
    uint64_t high = UINT64_MAX >> (64 - 8 * size);
    char *end, most[32];
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    if (!is_whole(text, end)) return refuse_integer(field, text);
    snprintf(most, sizeof most, "%" PRIu64, high);
    if (errno != 0 || *text == '-' || number > high) return refuse_range(field, text, "0", most);
    memcpy(at, &number, size);
    return NT_OK;
}

/* True when a decimal or hexadecimal number has a digit other than 0 in front of its exponent. */
static bool has_nonzero_digit(const char *text) {
    bool hexadecimal = strchr(text, 'x') || strchr(text, 'X');
    const char *exponent = strpbrk(text, hexadecimal ? "pP" : "eE");
    for (; *text && text != exponent; text++)
        if (isxdigit((unsigned char)*text) && *text != '0') return true;
    return false;
}

/* `number` is the text rounded to the field's type. "inf" is a value of its own; 1e999 is out of range, and so is a
 * number so small that only 0 is left of it. */
static nt_status check_range(const nt_field_info *field, const char *text, double number, double smallest,
                             double largest) {
    char why[160];
    bool named_infinity = strchr(text, 'i') || strchr(text, 'I');
    bool too_large = isinf(number) && !named_infinity;
    bool too_small = number == 0 && has_nonzero_digit(text);
    if (!too_large && !too_small) return NT_OK;
    nt__format(why, sizeof why, "is out of range; sizes go from %g to %g", smallest, largest);
    return refuse(field, text, why);
}

static nt_status refuse_real(const nt_field_info *field, const char *text) {
    return refuse(field, text, "is not a number; write for example 0.1 or 1e-3");
}

static nt_status parse_float(const nt_field_info *field, const char *text, void *at) {
    char *end;
    float number = nt__read_float(text, &end);
    if (!is_whole(text, end)) return refuse_real(field, text);
    nt_status status = check_range(field, text, (double)number, (double)FLT_TRUE_MIN, (double)FLT_MAX);
    if (status == NT_OK) *(float *)at = number;
    return status;
}

static nt_status parse_double(const nt_field_info *field, const char *text, void *at) {
    char *end;
    double number = nt__read_double(text, &end);
    if (!is_whole(text, end)) return refuse_real(field, text);
    nt_status status = check_range(field, text, number, DBL_TRUE_MIN, DBL_MAX);
    if (status == NT_OK) *(double *)at = number;
    return status;
}

static nt_status parse_string(const nt_field_info *field, const char *text, void *at) {
    (void)field;
    *(const char **)at = text;
    return NT_OK;
}

static nt_status refuse_flag(const nt_field_info *field, const char *text, void *at) {
    (void)at;
    return refuse(field, text,
                  "was given, but a field of this type has no text form; set it in C, in a preset, or in derive");
}

/* ---- values to text --------------------------------------------------------------------------------------------- */

static void print_bool(const nt_field_info *field, const void *at, nt__text *out) {
    (void)field;
    nt__text_add(out, "%s", *(const bool *)at ? "true" : "false");
}

/* The unused high bits take the sign. */
static void print_signed(const nt_field_info *field, const void *at, nt__text *out) {
    size_t size = nt_dtype_size(nt__field_dtype(field->type));
    int64_t number = 0;
    memcpy((char *)&number + (sizeof number - size), at, size);
    nt__text_add(out, "%" PRId64, number >> (64 - 8 * size));
}

static void print_unsigned(const nt_field_info *field, const void *at, nt__text *out) {
    uint64_t number = 0;
    memcpy(&number, at, nt_dtype_size(nt__field_dtype(field->type)));
    nt__text_add(out, "%" PRIu64, number);
}

/* Six digits, or as many as it takes to read back as the same number; nan never compares equal and ends at the most
 * digits. */
static void print_float(const nt_field_info *field, const void *at, nt__text *out) {
    (void)field;
    float number = *(const float *)at;
    char digits[64];
    for (int count = 6; count <= FLT_DECIMAL_DIG; count++) {
        nt__format(digits, sizeof digits, "%.*g", count, (double)number);
        if (nt__read_float(digits, NULL) == number) break;
    }
    nt__text_add(out, "%s", digits);
}

static void print_double(const nt_field_info *field, const void *at, nt__text *out) {
    (void)field;
    double number = *(const double *)at;
    char digits[64];
    for (int count = 6; count <= DBL_DECIMAL_DIG; count++) {
        nt__format(digits, sizeof digits, "%.*g", count, number);
        if (nt__read_double(digits, NULL) == number) break;
    }
    nt__text_add(out, "%s", digits);
}

/* Quotes, backslashes and control characters get a backslash, so that the text stays on one line and ends where it
 * seems to end. */
static void print_bytes(const char *text, size_t length, nt__text *out) {
    nt__text_add(out, "\"");
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte < ' ' || byte == 127)
            nt__text_add(out, "\\x%02x", byte);
        else
            nt__text_add(out, byte == '"' || byte == '\\' ? "\\%c" : "%c", byte);
    }
    nt__text_add(out, "\"");
}

static void print_string(const nt_field_info *field, const void *at, nt__text *out) {
    (void)field;
    const char *text = *(const char *const *)at;
    if (text)
        print_bytes(text, strlen(text), out);
    else
        nt__text_add(out, "NULL");
}

static void print_type(const nt_array *array, nt__text *out) {
    char type[NT__TYPE_TEXT];
    nt__text_add(out, "%s", nt__type_text(nt__array_type(array), type));
}

static void print_array(const nt_field_info *field, const void *at, nt__text *out) {
    (void)field;
    const nt_array *array = *(nt_array *const *)at;
    if (array)
        print_type(array, out);
    else
        nt__text_add(out, "NULL");
}

enum { MOST_MEMBERS = 8, MOST_NAME = 32 };

static void print_members(const nt_arrays *arrays, nt__text *out) {
    size_t count = nt_arrays_count(arrays), shown = count <= MOST_MEMBERS ? count : MOST_MEMBERS;
    nt__text_add(out, "{");
    for (size_t i = 0; i < shown; i++) {
        nt__text_add(out, "%s%.*s: ", i ? ", " : "", MOST_NAME, nt_arrays_name(arrays, i));
        print_type(nt_arrays_at(arrays, i), out);
    }
    if (shown < count) nt__text_add(out, ", %zu more", count - shown);
    nt__text_add(out, "}");
}

static void print_arrays(const nt_field_info *field, const void *at, nt__text *out) {
    (void)field;
    const nt_arrays *arrays = *(nt_arrays *const *)at;
    if (arrays)
        print_members(arrays, out);
    else
        nt__text_add(out, "NULL");
}

static void print_nothing(const nt_field_info *field, const void *at, nt__text *out) {
    (void)at;
    nt__text_add(out, "%.64s", nt__field_type_text(field));
}

/* ---- the types -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    nt_dtype dtype; /* of numbers */
    bool is_number;
    nt_status (*parse)(const nt_field_info *field, const char *text, void *at);
    void (*print)(const nt_field_info *field, const void *at, nt__text *out);
} types[] = {
    [NT_FIELD_BOOL] = {"bool", NT_BOOL, true, parse_bool, print_bool},
    [NT_FIELD_INT] = {"int", NT_I32, true, parse_signed, print_signed},
    [NT_FIELD_INT64] = {"int64_t", NT_I64, true, parse_signed, print_signed},
    [NT_FIELD_FLOAT] = {"float", NT_F32, true, parse_float, print_float},
    [NT_FIELD_DOUBLE] = {"double", NT_F64, true, parse_double, print_double},
    [NT_FIELD_STRING] = {"string", NT_U8, false, parse_string, print_string},
    [NT_FIELD_INT8] = {"int8_t", NT_I8, true, parse_signed, print_signed},
    [NT_FIELD_UINT8] = {"uint8_t", NT_U8, true, parse_unsigned, print_unsigned},
    [NT_FIELD_INT16] = {"int16_t", NT_I16, true, parse_signed, print_signed},
    [NT_FIELD_UINT16] = {"uint16_t", NT_U16, true, parse_unsigned, print_unsigned},
    [NT_FIELD_UINT] = {"unsigned", NT_U32, true, parse_unsigned, print_unsigned},
    [NT_FIELD_UINT64] = {"uint64_t", NT_U64, true, parse_unsigned, print_unsigned},
    [NT_FIELD_ARRAY] = {"nt_array *", NT_U8, false, refuse_flag, print_array},
    [NT_FIELD_ARRAYS] = {"nt_arrays *", NT_U8, false, refuse_flag, print_arrays},
    [NT_FIELD_OTHER] = {"another type", NT_U8, false, refuse_flag, print_nothing},
};
_Static_assert(sizeof(int) == 4 && sizeof(long) == 8 && sizeof(short) == 2, "the table takes these sizes for granted");

void nt__fields_copy(const nt_experiment *from, const void *from_fields, const nt_experiment *to, void *to_fields) {
    for (size_t i = 0; i < to->field_count; i++) {
        const nt_field_info *field = &to->fields[i], *before = nt__field_find(from, field->name);
        if (!before || before->type != field->type || before->size != field->size) continue;
        memcpy((char *)to_fields + field->offset, (const char *)from_fields + before->offset, field->size);
    }
}

const char *nt__field_type_name(nt_field_type type) {
    return types[type].name;
}

/* A header makes bool a macro, and a pointer to text is a string to its reader. */
const char *nt__field_type_text(const nt_field_info *field) {
    bool as_declared = field->type_name && field->type != NT_FIELD_BOOL && field->type != NT_FIELD_STRING;
    return as_declared ? field->type_name : types[field->type].name;
}

bool nt__field_is_number(const nt_field_info *field) {
    return types[field->type].is_number;
}

bool nt__field_has_flag(const nt_field_info *field) {
    return types[field->type].parse != refuse_flag;
}

nt_status nt__field_parse(const nt_field_info *field, const char *text, void *fields) {
    return types[field->type].parse(field, text, (char *)fields + field->offset);
}

void nt__field_print(const nt_field_info *field, const void *fields, nt__text *out) {
    types[field->type].print(field, (const char *)fields + field->offset, out);
}

/* What print_bytes writes. NULL: it is none of that. */
static char *unescape(const char *text, nt__arena *arena) {
    size_t length = strlen(text);
    if (length < 2 || text[0] != '"' || text[length - 1] != '"') return NULL;
    char *bytes = nt__arena_strdup(arena, text), *to = bytes;
    if (!bytes) return NULL;
    for (const char *at = text + 1; at < text + length - 1; at++) {
        unsigned byte;
        bool is_escape = *at == '\\';
        if (is_escape && at[1] == 'x' && sscanf(at + 2, "%2x", &byte) == 1) {
            *to++ = (char)byte;
            at += 3;
        } else {
            *to++ = is_escape ? *++at : *at;
        }
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
        return refuse(field, text, "is not a text in quotes");
    memcpy(at, &bytes, sizeof bytes);
    return NT_OK;
}

enum { MOST_TEXT = 80 };

/* Cuts between two characters of UTF-8. */
static void show_beginning(const char *text, nt__text *out) {
    size_t length = MOST_TEXT;
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) length--;
    print_bytes(text, length, out);
    nt__text_add(out, "... (%zu bytes)", strlen(text));
}

void nt__field_show(const nt_field_info *field, const void *fields, bool follow, nt__text *out) {
    const char *text = NULL;
    bool is_array = field->type == NT_FIELD_ARRAY || field->type == NT_FIELD_ARRAYS;
    if (field->type == NT_FIELD_STRING) memcpy(&text, (const char *)fields + field->offset, sizeof text);
    if (text && strlen(text) > MOST_TEXT)
        show_beginning(text, out);
    else if (is_array && field->marker == NT_HOST && !follow)
        print_nothing(field, NULL, out);
    else
        nt__field_print(field, fields, out);
}

double nt__field_number(const nt_field_info *field, const void *fields) {
    if (!types[field->type].is_number) return 0;
    return nt__element_get(types[field->type].dtype, (const char *)fields + field->offset);
}

nt_dtype nt__field_dtype(nt_field_type type) {
    return types[type].dtype;
}

/* ---- numbers as values ------------------------------------------------------------------------------------------ */

nt_status nt__field_from_number(const nt_field_info *field, double number, void *at) {
    if (nt__field_is_number(field) && nt__element_from_number(nt__field_dtype(field->type), at, number)) return NT_OK;
    return nt__fail(NT_INVALID, "%s (%s) cannot be %.15g", field->name, nt__field_type_text(field), number);
}
