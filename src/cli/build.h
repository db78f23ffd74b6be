/* Experiments from source files: compiled, kept, loaded. */
#ifndef NT_CLI_BUILD_H
#define NT_CLI_BUILD_H

#include "cli/words.h"

typedef struct nt__build_request {
    const char *const *files;
    size_t file_count;
    const char *cflags, *ldflags; /* more flags as one text each; NULL: none */
    const char *loaded;           /* an object that is not loaded again; NULL: none */
} nt__build_request;

typedef struct nt__built {
    char *object;                         /* its path; other contents have another one */
    nt__words files;                      /* everything that the compiler read, the linker's files among them */
    bool loaded;                          /* false: it is the object that was loaded already */
    double compile_seconds, load_seconds; /* 0: found compiled; not loaded */
    nt__arena arena;
} nt__built;

/* Makes one shared object of the files, or finds the one that was made of the same contents, and loads it: its
 * experiments are registered afterwards. It stays loaded until the process ends. What the compiler says goes to
 * standard error. The caller frees what was built; after a failure there is nothing to free. */
nt_status nt__build(const nt__build_request *request, nt__built *out);
void nt__built_free(nt__built *built);
/* Adds the source files that a run keeps: the ones that were given, and headers that lie in their folders or below. */
nt_status nt__built_sources(const nt__built *built, const nt__words *given, nt__words *out);

#endif
