/* Text to a terminal.
 * Not here: what is an escape (base/utf8.c).
 */
#include "show/show.h"

#include <stdarg.h>

enum { USUAL = 1024 };

static void write_shown(FILE *out, const char *text, const char *kept) {
    nt__text shown = {0};
    nt__text_show(&shown, text, kept);
    if (shown.data && !shown.failed) fputs(shown.data, out);
    nt__text_free(&shown);
}

/* Of what memory is too short for, the beginning. */
void nt__vsay(FILE *out, const char *format, va_list arguments) {
    char usual[USUAL];
    va_list again;
    va_copy(again, arguments);
    int length = nt__vformat(usual, sizeof usual, format, arguments);
    char *longer = length >= USUAL ? nt__alloc((size_t)length + 1, 1) : NULL;
    if (longer) nt__vformat(longer, (size_t)length + 1, format, again);
    va_end(again);
    if (length >= 0) write_shown(out, longer ? longer : usual, "\t");
    nt__free(longer);
}

void nt__say(FILE *out, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    nt__vsay(out, format, arguments);
    va_end(arguments);
}

void nt__say_line(FILE *out, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    nt__vsay(out, format, arguments);
    va_end(arguments);
    fputc('\n', out);
}

void nt__say_lines(FILE *out, const char *text) {
    write_shown(out, text, "\n\t");
}

static int gap(size_t width, size_t taken) {
    return width > taken ? (int)(width - taken) : 0;
}

int nt__cell_left(FILE *out, size_t width, const char *shown) {
    size_t taken = nt__shown_width(shown);
    fprintf(out, "%s%*s", shown, gap(width, taken), "");
    return (int)taken + gap(width, taken);
}

int nt__cell_right(FILE *out, size_t width, const char *shown) {
    size_t taken = nt__shown_width(shown);
    fprintf(out, "%*s%s", gap(width, taken), "", shown);
    return (int)taken + gap(width, taken);
}
