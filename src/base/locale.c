/* Numbers as text and back, in whatever locale the program is: a file, a name or a flag that nitro writes in one is
 * read in any other. What is formatted elsewhere (text.c, status.c) comes through here too.
 */
#include "base/base.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t plain;

static void make_plain(void) {
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* That of C; the program's own where there is no memory for it. */
static locale_t plain_locale(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_plain);
    return plain ? plain : LC_GLOBAL_LOCALE;
}

int nt__vformat(char *out, size_t size, const char *format, va_list arguments) {
    locale_t before = uselocale(plain_locale());
    int length = vsnprintf(out, size, format, arguments);
    uselocale(before);
    return length;
}

int nt__format(char *out, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = nt__vformat(out, size, format, arguments);
    va_end(arguments);
    return length;
}

double nt__read_double(const char *text, char **end) {
    return plain_locale() == LC_GLOBAL_LOCALE ? strtod(text, end) : strtod_l(text, end, plain_locale());
}

float nt__read_float(const char *text, char **end) {
    return plain_locale() == LC_GLOBAL_LOCALE ? strtof(text, end) : strtof_l(text, end, plain_locale());
}
