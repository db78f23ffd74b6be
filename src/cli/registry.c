/* The commands that there are, for those who list them: the manual, completion.
 * Not here: the list itself (command/main.c).
 */
#include <string.h>

#include "cli/cli.h"

static const nt__command *const none = NULL;
static const nt__command *const *registered = &none;

void nt__commands_register(const nt__command *const *commands) {
    registered = commands;
}

const nt__command *nt__command_at(size_t index) {
    const nt__command *const *at = registered;
    while (*at && index--) at++;
    return *at;
}

const nt__command *nt__command_find(const char *name) {
    for (const nt__command *const *at = registered; *at; at++)
        if (strcmp((*at)->name, name) == 0) return *at;
    return NULL;
}
