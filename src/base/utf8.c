/* UTF-8: whether bytes are it, and how texts of others look on a terminal: what that would obey is shown as an escape.
 * Not here: which texts are shown.
 */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

/* ---- characters ------------------------------------------------------------------------------------------------- */

/* Table 3-7 of the Unicode standard: the first byte, the second byte, the number of bytes; later bytes are 80 to BF. */
static const struct {
    unsigned char first_from, first_to, second_from, second_to, length;
} utf8_forms[] = {
    {0x00, 0x7F, 0x00, 0x00, 1}, {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
    {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
    {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
};

/* Bytes of the character at `at`, of which `left` may be read; 0 when there is none. */
static size_t utf8_character(const unsigned char *at, size_t left) {
    size_t form = 0, forms = sizeof utf8_forms / sizeof *utf8_forms;
    while (form < forms && (at[0] < utf8_forms[form].first_from || at[0] > utf8_forms[form].first_to)) form++;
    if (form == forms || utf8_forms[form].length > left) return 0;
    size_t length = utf8_forms[form].length;
    if (length > 1 && (at[1] < utf8_forms[form].second_from || at[1] > utf8_forms[form].second_to)) return 0;
    for (size_t i = 2; i < length; i++)
        if (at[i] < 0x80 || at[i] > 0xBF) return 0;
    return length;
}

/* The number of a character of so many bytes. */
static uint32_t code_of(const unsigned char *at, size_t length) {
    static const unsigned char bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t code = at[0] & bits[length];
    for (size_t i = 1; i < length; i++) code = code << 6 | (at[i] & 0x3F);
    return code;
}

bool nt__is_utf8(const char *bytes, size_t length) {
    const unsigned char *at = (const unsigned char *)bytes;
    while (length > 0) {
        size_t taken = utf8_character(at, length);
        if (taken == 0) return false;
        at += taken;
        length -= taken;
    }
    return true;
}

/* ---- ranges ----------------------------------------------------------------------------------------------------- */

typedef struct range {
    uint32_t first, last;
} range;

#define IS_IN(code, ranges) is_in(code, ranges, sizeof(ranges) / sizeof *(ranges))
static bool is_in(uint32_t code, const range *ranges, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    return false;
}

/* Control and format characters (Unicode's Cc, Cf, Zl and Zp), without the joiners that scripts and emoji need. */
static const range obeyed[] = {
    {0x0, 0x1F},      {0x7F, 0x9F},     {0xAD, 0xAD},       {0x600, 0x605},     {0x61C, 0x61C},     {0x6DD, 0x6DD},
    {0x70F, 0x70F},   {0x180E, 0x180E}, {0x200B, 0x200B},   {0x200E, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},
    {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0x110BD, 0x110BD}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE007F}};

/* Characters that take no column, and that take two. */
static const range narrow[] = {{0x300, 0x36F},   {0x483, 0x489},   {0x591, 0x5BD},   {0x610, 0x61A},
                               {0x64B, 0x65F},   {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200C, 0x200D},
                               {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xE0100, 0xE01EF}};
static const range wide[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xAC00, 0xD7A3},
                             {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
                             {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1FAFF}, {0x20000, 0x3FFFD}};

static size_t columns_of(uint32_t code) {
    return IS_IN(code, narrow) ? 0 : IS_IN(code, wide) ? 2 : 1;
}

/* ---- showing ---------------------------------------------------------------------------------------------------- */

enum { MOST = 16 }; /* bytes of one character or escape, with its NUL */

static void escape(uint32_t code, char out[MOST]) {
    static const char letters[] = "abtnvfr"; /* of 7 to 13 */
    if (code >= 7 && code <= 13)
        snprintf(out, MOST, "\\%c", letters[code - 7]);
    else
        snprintf(out, MOST, code < 0x80 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
}

/* One character of the text, as it is shown, to `out`. Returns the bytes of the text that it is of. */
static size_t show_character(const unsigned char *at, size_t left, const char *kept, char out[MOST]) {
    size_t taken = utf8_character(at, left);
    if (taken == 0) {
        snprintf(out, MOST, "\\x%02x", *at);
        return 1;
    }
    uint32_t code = code_of(at, taken);
    if (IS_IN(code, obeyed) && !(code < 0x80 && strchr(kept, (int)code))) {
        escape(code, out);
        return taken;
    }
    memcpy(out, at, taken);
    out[taken] = 0;
    return taken;
}

size_t nt__show(const char *text, const char *kept, char *out, size_t size) {
    const unsigned char *at = (const unsigned char *)text;
    size_t left = strlen(text), length = 0, written = 0;
    bool fits = true;
    while (left > 0) {
        char shown[MOST];
        size_t taken = show_character(at, left, kept, shown), bytes = strlen(shown);
        fits = fits && length + bytes < size;
        if (fits) {
            memcpy(out + length, shown, bytes);
            written = length + bytes;
        }
        length += bytes;
        at += taken;
        left -= taken;
    }
    if (size) out[written] = 0;
    return length;
}

void nt__text_show(nt__text *out, const char *text, const char *kept) {
    const unsigned char *at = (const unsigned char *)text;
    size_t left = strlen(text);
    while (left > 0) {
        char shown[MOST];
        size_t taken = show_character(at, left, kept, shown);
        nt__text_say(out, shown);
        at += taken;
        left -= taken;
    }
}

size_t nt__fitting(const char *text, size_t columns, size_t *width) {
    const unsigned char *at = (const unsigned char *)text;
    size_t length = strlen(text), bytes = 0;
    *width = 0;
    while (bytes < length) {
        size_t taken = utf8_character(at + bytes, length - bytes);
        size_t own = taken ? columns_of(code_of(at + bytes, taken)) : 1;
        if (*width + own > columns) break;
        *width += own;
        bytes += taken ? taken : 1;
    }
    return bytes;
}

size_t nt__shown_width(const char *text) {
    size_t width;
    nt__fitting(text, SIZE_MAX, &width);
    return width;
}
