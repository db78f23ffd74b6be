/* Text: copies, formatted text of any length, text under construction.
 * Not here: messages of failures, which never allocate (status.c); characters (utf8.c).
 */
#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- copies and formatted text ---------------------------------------------------------------------------------- */

/* Bytes of the formatted text with its NUL; 0 with a message when it cannot be formatted. */
static NT__PRINTF(1, 0) size_t formatted_size(const char *format, va_list arguments) {
    va_list copy;
    va_copy(copy, arguments);
    int length = nt__vformat(NULL, 0, format, copy);
    va_end(copy);
    if (length >= 0) return (size_t)length + 1;
    nt__fail(NT_INVALID, "text of the form \"%s\" could not be formatted: it is longer than 2 GiB or not valid",
             format);
    return 0;
}

/* `arena` NULL: a block of its own. */
static void *place(nt__arena *arena, size_t bytes) {
    return arena ? nt__arena_alloc(arena, 1, bytes) : nt__alloc(1, bytes);
}

static char *copy_text(nt__arena *arena, const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = place(arena, size);
    return copy ? memcpy(copy, text, size) : NULL;
}

static NT__PRINTF(2, 0) char *format_text(nt__arena *arena, const char *format, va_list arguments) {
    size_t size = formatted_size(format, arguments);
    char *text = size ? place(arena, size) : NULL;
    if (text) nt__vformat(text, size, format, arguments);
    return text;
}

char *nt__strdup(const char *text) {
    return copy_text(NULL, text);
}

char *nt__arena_strdup(nt__arena *arena, const char *text) {
    return copy_text(arena, text);
}

char *nt__sprintf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = format_text(NULL, format, arguments);
    va_end(arguments);
    return text;
}

char *nt__arena_sprintf(nt__arena *arena, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = format_text(arena, format, arguments);
    va_end(arguments);
    return text;
}

/* ---- text under construction ------------------------------------------------------------------------------------ */

/* Makes room for `length` more bytes and the NUL. */
static bool reserve(nt__text *text, size_t length) {
    if (text->failed) return false;
    if (length < text->capacity - text->length) return true;
    size_t wanted = text->capacity < 64 ? 64 : text->capacity;
    while (wanted - text->length <= length) {
        if (__builtin_mul_overflow(wanted, 2, &wanted)) wanted = SIZE_MAX;
        if (wanted == SIZE_MAX) break;
    }
    char *grown = nt__realloc(text->data, wanted, 1);
    text->failed = !grown;
    if (!grown) return false;
    text->data = grown;
    text->capacity = wanted;
    return true;
}

void nt__text_put(nt__text *text, const char *bytes, size_t length) {
    if (!reserve(text, length)) return;
    if (length) memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = 0;
}

/* Most pieces fit into what is there already, and need to be formatted once only. */
static NT__PRINTF(2, 0) bool add_in_place(nt__text *text, const char *format, va_list arguments) {
    size_t room = text->capacity - text->length;
    if (room == 0) return false;
    va_list copy;
    va_copy(copy, arguments);
    int length = nt__vformat(text->data + text->length, room, format, copy);
    va_end(copy);
    bool fits = length >= 0 && (size_t)length < room;
    if (fits) text->length += (size_t)length;
    text->data[text->length] = 0;
    return fits;
}

void nt__text_addv(nt__text *text, const char *format, va_list arguments) {
    if (text->failed || add_in_place(text, format, arguments)) return;
    size_t size = formatted_size(format, arguments);
    if (!size) text->failed = true;
    if (!size || !reserve(text, size - 1)) return;
    nt__vformat(text->data + text->length, size, format, arguments);
    text->length += size - 1;
}

void nt__text_say(nt__text *text, const char *words) {
    nt__text_put(text, words, strlen(words));
}

void nt__text_integer(nt__text *text, int64_t number) {
    char digits[24], *at = digits + sizeof digits;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (number < 0) *--at = '-';
    nt__text_put(text, at, (size_t)(digits + sizeof digits - at));
}

void nt__text_add(nt__text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    nt__text_addv(text, format, arguments);
    va_end(arguments);
}

void nt__text_add_real(nt__text *text, double value) {
    char short_text[32];
    nt__format(short_text, sizeof short_text, "%g", value);
    if (nt__read_double(short_text, NULL) == value)
        nt__text_add(text, "%s", short_text);
    else
        nt__text_add(text, "%.17g", value);
}

void nt__text_free(nt__text *text) {
    nt__free(text->data);
    *text = (nt__text){0};
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

double nt__plain_nan(double number) {
    return isnan(number) ? (double)NAN : number;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

bool nt__ends_in(const char *name, const char *ending) {
    size_t length = strlen(name), tail = strlen(ending);
    return length > tail && strcmp(name + length - tail, ending) == 0;
}

/* ---- names in a log --------------------------------------------------------------------------------------------- */

const char *nt__name_problem(const char *name) {
    if (!*name) return "is empty";
    return nt__is_utf8(name, strlen(name)) ? NULL : "is not valid UTF-8";
}

const char *nt__value_name_problem(const char *name) {
    static const char *const keys[] = {"type", "context", "epoch", "step"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(name, keys[i]) == 0) return "is a key that each line of the log has by itself";
    return nt__name_problem(name);
}
