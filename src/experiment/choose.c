/* Telling which word of a choice a hook has.
 * Not here: whether a value is one of the field's words (types.c).
 */
#include <string.h>

#include "experiment/experiment.h"
#include "graph/graph.h"

static int fail_to_choose(const char *value, const char *const *words, nt_site site) {
    nt__text list = {0};
    for (size_t i = 0; words[i]; i++) nt__text_add(&list, "%s'%s'", i ? ", " : "", words[i]);
    nt__trace_fail(site, "nt_choose",
                   "the value is %s%s%s, and the words are %s: add it, or mend the word that means it",
                   value ? "'" : "", value ? value : "NULL", value ? "'" : "", list.data ? list.data : "");
    nt__text_free(&list);
    return -1;
}

int nt_choose_at(const char *value, const char *const *words, nt_site site) {
    for (int i = 0; value && words[i]; i++)
        if (strcmp(value, words[i]) == 0) return i;
    return fail_to_choose(value, words, site);
}
