/* Experiments from source files: compiled, kept, loaded. */
#ifndef NT_CLI_BUILD_H
#define NT_CLI_BUILD_H

#include "base/base.h"

typedef struct nt__build_request {
    const char *const *files;
    size_t file_count;
    const char *cflags, *ldflags; /* more flags as one text each; NULL: none */
} nt__build_request;

/* Makes one shared object of the files, or finds the one that was made of the same contents, and loads it: its
 * experiments are registered afterwards. It stays loaded until the process ends. What the compiler says goes to
 * standard error. `object`, when not NULL, gets the path of what was loaded; the caller frees it. */
nt_status nt__build(const nt__build_request *request, char **object);

#endif
