/* Programs: printed text with a content key, compiled at most once in a process and kept on disk for others, and a
 * report of what moved when one is compiled. Not here: what the programs compute, device buffers.
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

/* ---- compile options (options.c) -------------------------------------------------------------------------------- */

/* Options of the engine's compiler, for all programs of a handle. */
typedef struct nt__options nt__options;

/* Reads "NAME=VALUE" each: true and false are a bool, whole numbers an integer, other numbers a real, anything else
 * text, and in double quotes always text. *out is NULL when there are none. Free it with nt__options_free. */
nt_status nt__options_read(const char *const *texts, size_t count, nt__options **out);
void nt__options_free(nt__options *options);
/* Compiles a trivial program with the options, so that a wrong one is found before anything is built. */
nt_status nt__options_try(nt__engine *engine, const nt__options *options);
/* The engine's bytes; `options` NULL: the usual ones. `keep_barriers`: the pass that takes optimization barriers away
 * before equal values are joined is left out. */
nt_status nt__options_encode(const nt__options *options, bool keep_barriers, uint8_t **bytes, size_t *length);
/* Sorted by name: "a=1 b=true". */
const char *nt__options_text(const nt__options *options);
/* Whether a compile with them writes files that somebody wants, so that a saved program would not do. */
bool nt__options_ask_for_files(const nt__options *options);

/* ---- programs --------------------------------------------------------------------------------------------------- */

typedef struct nt__program_spec {
    const char *role;        /* "gradient" */
    const char *experiment;  /* "Fashion" */
    const nt__port *results; /* of the printed text, in order; their types are checked by the engine */
    size_t result_count;
    const nt__part *parts;
    size_t part_count;
    const nt__options *options; /* read while the program is made; NULL: the usual ones */
    bool quiet;                 /* no line for a compile */
    bool no_disk;               /* neither looked for on disk nor kept there */
    const char *failure_folder; /* of the file about a failed compile; NULL: none is written */
} nt__program_spec;

typedef struct nt__program nt__program;

/* Makes a program of a printed trace, which it takes over (also when the call fails). Nothing is compiled. */
nt_status nt__program_new(nt__engine *engine, const nt__program_spec *spec, nt__printed *printed, nt__program **out);
void nt__program_free(nt__program *program);
/* The arguments, in the order nt__program_run wants them. */
const nt__argument *nt__program_arguments(const nt__program *program, size_t *count);
/* Finds the executable: in the process's cache, else on disk, else by compiling. Only the first call of a program
 * looks. */
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
