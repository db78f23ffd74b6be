/* Which flags each command takes.
 * Not here: the flags (keywords.c), what a command does (the folder command).
 */
#include <string.h>

#include "cli/arguments.h"

#define COMMAND(name, flags, idle) {#name, flags, idle},
static const nt__takes commands[] = {
#include "cli/commands.def"
};
#undef COMMAND

const nt__takes *nt__takes_at(size_t index) {
    return index < sizeof commands / sizeof *commands ? &commands[index] : NULL;
}

const nt__takes *nt__takes_of(const char *command) {
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].command, command) == 0) return &commands[i];
    return NULL;
}
