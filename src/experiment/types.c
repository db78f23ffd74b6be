/* The types of fields: how each is read from text and written as text, and what it is. The rows are in nitro/fields.h.
 * Not here: fields of an experiment (fields.c).
 */
#include "experiment/types.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- text to values --------------------------------------------------------------------------------------------- */

nt_status nt__field_refuse(const nt_field_info *field, const char *text, const char *why) {
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
    return nt__field_refuse(field, text, "is neither true nor false; write true or false (also 1/0, yes/no, on/off)");
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
    if (!can_be_whole) return nt__field_refuse(field, text, "is not a whole number; write digits, for example 256");
    nt__format(why, sizeof why, "is not written as a whole number; write %.0f", number);
    return nt__field_refuse(field, text, why);
}

static nt_status refuse_range(const nt_field_info *field, const char *text, const char *low, const char *high) {
    char why[160];
    nt__format(why, sizeof why, "is out of range; it must be from %s to %s", low, high);
    return nt__field_refuse(field, text, why);
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
    return nt__field_refuse(field, text, why);
}

static nt_status refuse_real(const nt_field_info *field, const char *text) {
    return nt__field_refuse(field, text, "is not a number; write for example 0.1 or 1e-3");
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

/* ---- choices ---------------------------------------------------------------------------------------------------- */

/* The text of the type, once the compiler has replaced NT_CHOICE, has the words in quotes. */
static const char *choices_of(const nt_field_info *field, size_t *length) {
    static const char before[] = "nt_choice_(\"";
    const char *found = field->type == NT_FIELD_STRING && field->type_name ? strstr(field->type_name, before) : NULL;
    if (!found) return NULL;
    found += sizeof before - 1;
    *length = strcspn(found, "\"");
    return found;
}

bool nt__field_is_choice(const nt_field_info *field) {
    size_t length;
    return choices_of(field, &length) != NULL;
}

void nt__field_print_choices(const nt_field_info *field, nt__text *out) {
    size_t length;
    const char *words = choices_of(field, &length);
    if (words) nt__text_add(out, "%.*s", (int)length, words);
}

static nt_status check_choice(const nt_field_info *field, const char *text) {
    size_t length;
    const char *words = choices_of(field, &length);
    char why[256];
    if (!words) return NT_OK;
    for (const char *at = words, *end = words + length; at < end;) {
        at += strspn(at, ", ");
        size_t word = strcspn(at, ", \"");
        if (text && word == strlen(text) && strncmp(at, text, word) == 0) return NT_OK;
        at += word;
    }
    snprintf(why, sizeof why, "is none of %.*s", (int)length, words);
    return nt__field_refuse(field, text ? text : "NULL", why);
}

/* ---- lists ------------------------------------------------------------------------------------------------------ */

/* Both lists begin with a count of one type, and numbers of 8 bytes follow. */
_Static_assert(sizeof(nt_ints) == sizeof(nt_reals) && offsetof(nt_ints, at) == offsetof(nt_reals, at) &&
                   sizeof(int64_t) == sizeof(double),
               "lists of both types are read alike");

static nt_field_info number_of(const nt_field_info *field) {
    nt_field_info number = *field;
    number.type = field->type == NT_FIELD_INTS ? NT_FIELD_INT64 : NT_FIELD_DOUBLE;
    number.type_name = NULL;
    return number;
}

static nt_status parse_number(const nt_field_info *number, const char *from, size_t length, void *at) {
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text - 1), from);
    return number->type == NT_FIELD_INT64 ? parse_signed(number, text, at) : parse_double(number, text, at);
}

/* "64,32"; "none" and no text are the empty list. */
static nt_status parse_list(const nt_field_info *field, const char *text, void *at) {
    const nt_field_info number = number_of(field);
    nt_ints list = {0};
    if (*text && strcmp(text, "none") != 0)
        for (const char *from = text;; from += strcspn(from, ",") + 1) {
            if (list.count == NT_LIST_MAX)
                return nt__field_refuse(field, text, "has more numbers than a list holds, which is 16");
            nt_status status = parse_number(&number, from, strcspn(from, ","), &list.at[list.count++]);
            if (status != NT_OK) return nt__fail_in(status, "entry %d of '%s'", (int)list.count, text);
            if (!from[strcspn(from, ",")]) break;
        }
    memcpy(at, &list, sizeof list);
    return NT_OK;
}

static nt_status check_list(const nt_field_info *field, const void *at) {
    int64_t count;
    memcpy(&count, at, sizeof count);
    if (count >= 0 && count <= NT_LIST_MAX) return NT_OK;
    return nt__fail(NT_INVALID, "%s (%s) has a count of %lld; a list has 0 to %d numbers", field->name,
                    nt__field_type_text(field), (long long)count, NT_LIST_MAX);
}

/* ---- text and what has none ------------------------------------------------------------------------------------- */

static nt_status parse_string(const nt_field_info *field, const char *text, void *at) {
    nt_status status = check_choice(field, text);
    if (status == NT_OK) *(const char **)at = text;
    return status;
}

static nt_status parse_none(const nt_field_info *field, const char *text, void *at) {
    (void)at;
    return nt__field_refuse(
        field, text, "was given, but a field of this type has no text form; set it in C, in a preset, or in derive");
}
#define parse_array parse_none
#define parse_arrays parse_none

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
void nt__print_quoted(const char *text, size_t length, nt__text *out) {
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
        nt__print_quoted(text, strlen(text), out);
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

static void print_list(const nt_field_info *field, const void *at, nt__text *out) {
    const nt_field_info number = number_of(field);
    nt_ints list;
    memcpy(&list, at, sizeof list);
    if (list.count <= 0) nt__text_say(out, "none");
    for (int64_t i = 0; i < list.count && i < NT_LIST_MAX; i++) {
        if (i) nt__text_say(out, ",");
        (number.type == NT_FIELD_INT64 ? print_signed : print_double)(&number, &list.at[i], out);
    }
}

static void print_none(const nt_field_info *field, const void *at, nt__text *out) {
    (void)at;
    nt__text_add(out, "%.64s", nt__field_type_text(field));
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

#define TYPE(id, type, name, kind, dtype, device, constant, text) \
    [NT_FIELD_##id] = {name, NT__KIND_##kind, dtype, device, constant, parse_##text, print_##text},

const nt__field_type nt__field_types[] = {
    NT_FIELD_TYPES_(TYPE, NT_NO_FIELD_ROW_)[NT_FIELD_OTHER] = {"another type", NT__KIND_OTHER, NT_U8, false, false,
                                                               parse_none, print_none},
};
_Static_assert(sizeof(int) == 4 && sizeof(long) == 8 && sizeof(short) == 2, "the rows take these sizes for granted");

bool nt__field_has_flag(const nt_field_info *field) {
    return nt__field_types[field->type].parse != parse_none;
}

nt_status nt__field_check(const nt_field_info *field, const void *fields) {
    const char *at = (const char *)fields + field->offset, *text = NULL;
    if (nt__field_types[field->type].kind == NT__KIND_LIST) return check_list(field, at);
    if (field->type != NT_FIELD_STRING) return NT_OK;
    memcpy(&text, at, sizeof text);
    return check_choice(field, text);
}
