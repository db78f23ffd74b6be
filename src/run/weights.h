/* Weights: parameters and layer states to load into a run, from a file of nitro's, from a record, or from a file that
 * others wrote. Not here: taking them (load.c), saving (weights.c).
 */
#ifndef NT_RUN_WEIGHTS_H
#define NT_RUN_WEIGHTS_H

#include "record/record.h"
#include "run/run_internal.h"

/* Arrays under the paths of a model. All zeros: none. */
typedef struct nt__weights {
    nt__record record; /* the file; facts NULL: it is no record */
    bool is_record;
    nt__named_array *arrays;
    size_t count;
    nt__unknown_array *unknown; /* beside these, what no array can be */
    size_t unknown_count;
    json_t *facts;           /* what the model needs beside arrays (model_facts.h); NULL: the file does not say */
    nt__named_array *fields; /* arrays of Device fields, "FIELD" or "FIELD.MEMBER" */
    size_t field_count;

    /* Of a file whose names were changed: it need not fit in all. */
    bool is_mapped, has_renames; /* has_renames: some map is not a "=TO" */
    const char **kept;           /* patterns of paths that keep what they have */
    size_t kept_count, renamed, transposed;
    const char **unfit; /* maps that fit no array of the file, though others do */
    size_t unfit_count;
    nt_array **made; /* what was transposed */
    size_t made_count;
    nt__arena arena;
} nt__weights;

/* weights_file.c: reads `source`, a path or a record as `resume` names it, and applies rules to the names in it. */
nt_status nt__weights_read(nt_run *run, const char *source, const char *const *maps, size_t map_count,
                           nt__weights *out);
const nt__named_array *nt__weights_find(const nt__weights *weights, const char *path);
void nt__weights_free(nt__weights *weights);

/* weights_map.c */
/* "FROM=TO[:transpose | :AXES]"; see nt_run_load_mapped. The error names the rule, or, where none fits an array of the
 * file, all of them with the names that are close. */
nt_status nt__weights_map(nt__weights *weights, const char *const *maps, size_t count);
/* Whether a path is one that keeps what it has. */
bool nt__weights_keeps(const nt__weights *weights, const char *path);
/* Whether a path is that of a pattern with one '*' at most. */
bool nt__weights_fits(const char *pattern, const char *path);

#endif
