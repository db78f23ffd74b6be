/* "Did you mean ...?" */
#ifndef NT_CLI_CLOSEST_H
#define NT_CLI_CLOSEST_H

#include "cli/words.h"

/* Adds " (did you mean --hidden?)" with the candidates that differ least from `name`, each with `before` in front. Adds
 * nothing when none is close. */
void nt__add_closest(nt__text *out, const char *name, const nt__words *candidates, const char *before);

#endif
