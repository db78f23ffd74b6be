/* Programs: printed text with a content key, compiled at most once in a process, and a report of what moved when one is
 * compiled. Not here: what the programs compute, device buffers.
 */
#ifndef NT_PROGRAM_PROGRAM_H
#define NT_PROGRAM_PROGRAM_H

#include "graph/graph.h"
#include "nitro/cache.h"
#include "xla/xla.h"

/* A named value that went into a program: "GraphConst hidden" = "256". When a program is compiled again, those that
 * differ are what moved. */
typedef struct nt__part {
    const char *name, *value;
} nt__part;

typedef struct nt__program_spec {
    const char *role;        /* "gradient" */
    const char *experiment;  /* "Fashion" */
    const nt__port *results; /* of the printed text, in order; their types are checked by the engine */
    size_t result_count;
    const nt__part *parts;
    size_t part_count;
    bool quiet;                 /* no line for a compile */
    const char *failure_folder; /* of the file about a failed compile; NULL: none is written */
} nt__program_spec;

typedef struct nt__program nt__program;

/* Makes a program of a printed trace, which it takes over (also when the call fails). Nothing is compiled. */
nt_status nt__program_new(nt__engine *engine, const nt__program_spec *spec, nt__printed *printed, nt__program **out);
void nt__program_free(nt__program *program);
/* The arguments, in the order nt__program_run wants them. */
const nt__argument *nt__program_arguments(const nt__program *program, size_t *count);
/* Finds the executable: in the process's cache, else by compiling. Only the first call of a program looks. */
nt_status nt__program_ready(nt__program *program);
/* False when the two are one compiled program; else adds what differs: "fashion.c:14 in forward: tanh ... -> sine ..."
 */
bool nt__program_compare(const nt__program *old, const nt__program *new, nt__text *out);
/* Launches the program (nt__executable_run), after making it ready. */
nt_status nt__program_run(nt__program *program, nt__buffer *const *arguments, nt__buffer *const *results);
/* Memory of the compiled program. */
nt_status nt__program_memory(nt__program *program, nt__executable_memory *out);
/* The text, for tests and for looking at. */
const char *nt__program_text(const nt__program *program);

#endif
