/* The lines in which two texts differ. */
#ifndef NT_CLI_LINE_DIFF_H
#define NT_CLI_LINE_DIFF_H

#include "base/base.h"

/* Called for each line that only one text has, in order; where lines were replaced, the old ones come first. `number`
 * is the line's in its own text, from 1. */
typedef void (*nt__line_difference)(bool is_new, size_t number, const char *line, void *context);
nt_status nt__line_diff(const char *old_text, const char *new_text, nt__line_difference function, void *context);

#endif
