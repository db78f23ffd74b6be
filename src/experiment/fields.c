/* Fields of an experiment: found by name, set from text, written as text.
 * Not here: which text the user gave for which field (the command's business).
 */
#include "experiment/experiment.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
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
    return nt__fail(NT_INVALID, "%s (%s): '%s' %s", field->name, nt__field_type_name(field->type), text, why);
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
    double number = strtod(text, &end);
    bool can_be_whole = is_whole(text, end) && fabs(number) < 1e15 && number == floor(number);
    if (!can_be_whole) return refuse(field, text, "is not a whole number; write digits, for example 256");
    snprintf(why, sizeof why, "is not written as a whole number; write %.0f", number);
    return refuse(field, text, why);
}

static nt_status parse_integer(const nt_field_info *field, const char *text, int64_t low, int64_t high, int64_t *out) {
    char *end, why[160];
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (!is_whole(text, end)) return refuse_integer(field, text);
    *out = number;
    if (errno == 0 && number >= low && number <= high) return NT_OK;
    snprintf(why, sizeof why, "is out of range; it must be from %" PRId64 " to %" PRId64, low, high);
    return refuse(field, text, why);
}

static nt_status parse_int(const nt_field_info *field, const char *text, void *at) {
    int64_t number;
    nt_status status = parse_integer(field, text, INT_MIN, INT_MAX, &number);
    if (status == NT_OK) *(int *)at = (int)number;
    return status;
}

static nt_status parse_int64(const nt_field_info *field, const char *text, void *at) {
    int64_t number;
    nt_status status = parse_integer(field, text, INT64_MIN, INT64_MAX, &number);
    if (status == NT_OK) *(int64_t *)at = number;
    return status;
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
    snprintf(why, sizeof why, "is out of range; sizes go from %g to %g", smallest, largest);
    return refuse(field, text, why);
}

static nt_status refuse_real(const nt_field_info *field, const char *text) {
    return refuse(field, text, "is not a number; write for example 0.1 or 1e-3");
}

static nt_status parse_float(const nt_field_info *field, const char *text, void *at) {
    char *end;
    float number = strtof(text, &end);
    if (!is_whole(text, end)) return refuse_real(field, text);
    nt_status status = check_range(field, text, (double)number, (double)FLT_TRUE_MIN, (double)FLT_MAX);
    if (status == NT_OK) *(float *)at = number;
    return status;
}

static nt_status parse_double(const nt_field_info *field, const char *text, void *at) {
    char *end;
    double number = strtod(text, &end);
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

/* ---- values to text --------------------------------------------------------------------------------------------- */

static void print_bool(const void *at, nt__text *out) {
    nt__text_add(out, "%s", *(const bool *)at ? "true" : "false");
}

static void print_int(const void *at, nt__text *out) {
    nt__text_add(out, "%d", *(const int *)at);
}

static void print_int64(const void *at, nt__text *out) {
    nt__text_add(out, "%" PRId64, *(const int64_t *)at);
}

/* Six digits, or as many as it takes to read back as the same number; nan never compares equal and ends at the most
 * digits. */
static void print_float(const void *at, nt__text *out) {
    float number = *(const float *)at;
    char digits[64];
    for (int count = 6; count <= FLT_DECIMAL_DIG; count++) {
        snprintf(digits, sizeof digits, "%.*g", count, (double)number);
        if (strtof(digits, NULL) == number) break;
    }
    nt__text_add(out, "%s", digits);
}

static void print_double(const void *at, nt__text *out) {
    double number = *(const double *)at;
    char digits[64];
    for (int count = 6; count <= DBL_DECIMAL_DIG; count++) {
        snprintf(digits, sizeof digits, "%.*g", count, number);
        if (strtod(digits, NULL) == number) break;
    }
    nt__text_add(out, "%s", digits);
}

/* Quotes, backslashes and control characters get a backslash, so that the text stays on one line and ends where it
 * seems to end. */
static void print_string(const void *at, nt__text *out) {
    const char *text = *(const char *const *)at;
    if (!text) {
        nt__text_add(out, "NULL");
        return;
    }
    nt__text_add(out, "\"");
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < ' ' || byte == 127)
            nt__text_add(out, "\\x%02x", byte);
        else
            nt__text_add(out, byte == '"' || byte == '\\' ? "\\%c" : "%c", byte);
    }
    nt__text_add(out, "\"");
}

/* ---- values as numbers ------------------------------------------------------------------------------------------ */

static double bool_number(const void *at) {
    return *(const bool *)at ? 1 : 0;
}

static double int_number(const void *at) {
    return *(const int *)at;
}

static double int64_number(const void *at) {
    return (double)*(const int64_t *)at;
}

static double float_number(const void *at) {
    return (double)*(const float *)at;
}

static double double_number(const void *at) {
    return *(const double *)at;
}

static double string_number(const void *at) {
    (void)at;
    return 0;
}

/* ---- the types -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    nt_dtype dtype; /* on the device; a string cannot be there */
    nt_status (*parse)(const nt_field_info *field, const char *text, void *at);
    void (*print)(const void *at, nt__text *out);
    double (*number)(const void *at);
} types[] = {
    [NT_FIELD_BOOL] = {"bool", NT_BOOL, parse_bool, print_bool, bool_number},
    [NT_FIELD_INT] = {"int", NT_I32, parse_int, print_int, int_number},
    [NT_FIELD_INT64] = {"int64_t", NT_I64, parse_int64, print_int64, int64_number},
    [NT_FIELD_FLOAT] = {"float", NT_F32, parse_float, print_float, float_number},
    [NT_FIELD_DOUBLE] = {"double", NT_F64, parse_double, print_double, double_number},
    [NT_FIELD_STRING] = {"string", NT_U8, parse_string, print_string, string_number},
};

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

nt_status nt__field_parse(const nt_field_info *field, const char *text, void *fields) {
    return types[field->type].parse(field, text, (char *)fields + field->offset);
}

void nt__field_print(const nt_field_info *field, const void *fields, nt__text *out) {
    types[field->type].print((const char *)fields + field->offset, out);
}

double nt__field_number(const nt_field_info *field, const void *fields) {
    return types[field->type].number((const char *)fields + field->offset);
}

nt_dtype nt__field_dtype(nt_field_type type) {
    return types[type].dtype;
}

/* ---- numbers as values ------------------------------------------------------------------------------------------ */

nt_status nt__field_from_number(const nt_field_info *field, double number, void *at) {
    bool has_numbers = field->type != NT_FIELD_STRING;
    if (has_numbers && nt__element_from_number(nt__field_dtype(field->type), at, number)) return NT_OK;
    return nt__fail(NT_INVALID, "%s (%s) cannot be %.15g", field->name, nt__field_type_name(field->type), number);
}
