/* The commands of nitro: each is a row at the end of its own file.
 */
#ifndef NT_COMMAND_COMMAND_H
#define NT_COMMAND_COMMAND_H

#include "cli/cli.h"

#define COMMAND(name, flags, idle) extern const nt__command nt__##name##_command;
#include "cli/commands.def"
#undef COMMAND

#endif
