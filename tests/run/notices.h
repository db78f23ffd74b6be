/* The notices of a run, kept in the order in which they came. Include after cmocka.
 */
#ifndef NT_TESTS_RUN_NOTICES_H
#define NT_TESTS_RUN_NOTICES_H

#include <string.h>

#include "base/base.h"

/* Since it was freed, a line each; for nt_set_notice(keep_notice, NULL). */
static nt__text notices;

static inline void keep_notice(const char *text, void *context) {
    (void)context;
    nt__text_add(&notices, "%s\n", text);
}

static inline int count_told(const char *part) {
    int count = 0;
    for (const char *at = notices.data; at && (at = strstr(at, part)); at++) count++;
    return count;
}

static inline void assert_told(const char *part) {
    if (!count_told(part)) fail_msg("no '%s' in:\n%s", part, notices.data ? notices.data : "");
}

#endif
