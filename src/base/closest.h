/* "Did you mean ...?" */
#ifndef NT_BASE_CLOSEST_H
#define NT_BASE_CLOSEST_H

#include "base/base.h"

/* Adds " (did you mean --hidden?)" with the candidates that differ least from `name`, each with `before` in front. A
 * '*' in `name` stands for any letters. Adds nothing when none is close. */
void nt__add_closest(nt__text *out, const char *name, const char *const *candidates, size_t count, const char *before);

#endif
