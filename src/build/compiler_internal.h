/* The C compiler: which one, whether it is still the same one, and running it. */
#ifndef NT_BUILD_COMPILER_INTERNAL_H
#define NT_BUILD_COMPILER_INTERNAL_H

#include "base/words.h"

typedef struct nt__compiler {
    nt__words command;    /* how to call it: "gcc", or "ccache" and "gcc" */
    const char *identity; /* real path, size and time of change of every program in the command */
} nt__compiler;

/* The compiler of the environment variable CC, else the first of cc, gcc and clang that is in PATH. Text lives in the
 * arena; the caller frees the command. */
nt_status nt__compiler_find(nt__arena *arena, nt__compiler *out);

/* Runs a program and waits for it. Its standard output goes to our standard error, where its messages go too. Fails
 * when it could not be run or was ended by a signal; else *exit_code is what it returned. */
nt_status nt__process_run(const nt__words *command, int *exit_code);

#endif
