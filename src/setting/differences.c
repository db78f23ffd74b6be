/* What differs, a line each, the last ones as their number.
 */
#include "setting/setting.h"

enum { MOST_LINES = 8 };

void nt__difference_add(nt__differences *l, const char *format, ...) {
    va_list arguments;
    if (++l->count > MOST_LINES) return;
    nt__text_say(&l->text, "\n  ");
    va_start(arguments, format);
    nt__text_addv(&l->text, format, arguments);
    va_end(arguments);
}

const char *nt__differences_shown(nt__differences *l) {
    if (l->count > MOST_LINES) nt__text_add(&l->text, "\n  and %zu more", l->count - MOST_LINES);
    return l->text.data ? l->text.data : "";
}
