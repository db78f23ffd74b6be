/* A model in files: parameters and layer states into a run and out of it, with what the model needs beside them, from a
 * file of nitro's, from a checkpoint, or from a file that others wrote.
 * Not here: the form of a file (the folders array and record), the rest of a checkpoint (the folder checkpoint).
 */
#ifndef NT_WEIGHTS_WEIGHTS_H
#define NT_WEIGHTS_WEIGHTS_H

#include "record/record.h"
#include "resident/resident.h"

/* Names of arrays in a checkpoint: "parameters/hidden.weight", "averages/..." (what evaluations have, if that differs),
 * "states/..." of layers, "device/FIELD". */
#define NT__RECORD_PARAMETERS "parameters/"
#define NT__RECORD_AVERAGES "averages/"
#define NT__RECORD_STATES "states/"
#define NT__RECORD_FIELDS "device/"

/* ---- what a file has (weights_file.c, weights_map.c) ------------------------------------------------------------ */

/* Arrays under the paths of a model. All zeros: none. */
typedef struct nt__weights {
    nt__record record; /* the file; facts NULL: it is no checkpoint */
    bool is_record;
    nt__named_array *arrays;
    size_t count;
    nt__unknown_array *unknown; /* beside these, what no array can be */
    size_t unknown_count;
    json_t *facts;           /* what the model needs beside arrays; NULL: the file does not say */
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

/* Reads `source`, a path or a checkpoint as `resume` names it, and applies rules to the names in it. */
nt_status nt__weights_read(nt__task *task, const char *source, const char *const *maps, size_t map_count,
                           nt__weights *out);
const nt__named_array *nt__weights_find(const nt__weights *weights, const char *path);
void nt__weights_free(nt__weights *weights);
/* "FROM=TO[:transpose | :AXES]"; see nt_run_load_mapped. The error names the rule, or, if none fits an array of the
 * file, all of them with the names that are close. */
nt_status nt__weights_map(nt__weights *weights, const char *const *maps, size_t count);
/* Whether a path is one that keeps what it has. */
bool nt__weights_keeps(const nt__weights *weights, const char *path);
/* Whether a path is that of a pattern with one '*' at most. */
bool nt__weights_fits(const char *pattern, const char *path);

/* ---- loading (load.c) and saving (weights.c) -------------------------------------------------------------------- */

/* Weights for the layout that is to come, of a handle without data for its first prediction. */
typedef struct nt__waiting {
    nt__task *task;
    nt__traced *traced;
    nt__resident *resident;
    nt__weights *weights; /* NULL: none */
    char *source;
    bool adopts;   /* the fields have the values of the file */
    bool restores; /* take the states of the rules too */
} nt__waiting;

/* Parameters and layer states of a file or checkpoint, as nt_run_load_mapped has them. */
nt_status nt__weights_load(nt__waiting *waiting, const char *source, const char *const *maps, size_t map_count);
/* Reads those of the options, before the data: they wait for the layout. A run that only evaluates or predicts has its
 * fields from them. */
nt_status nt__weights_open(nt__waiting *waiting, const nt_run_options *options);
/* The weights that wait, if any: their arrays, then what else of the file does not fit the run. */
nt_status nt__load_waiting(nt__waiting *waiting);
nt_status nt__settle_waiting(nt__waiting *waiting);
void nt__forget_waiting(nt__waiting *waiting);
/* As nt_run_save. */
nt_status nt__weights_save(nt__resident *resident, const char *path);

/* ---- fields from a file (adopt.c) ------------------------------------------------------------------------------- */

/* Before the data: gives the fields the values that the weights were trained with. A field that was given another value
 * is an error with both. */
nt_status nt__adopt(nt__task *task, const nt__weights *weights, const char *source);
/* After derive: the same of what derive set; what it would have been is told. */
nt_status nt__adopt_again(nt__waiting *waiting);
/* After the settings were resolved: the seed and what layers compute in, if no option says another. */
nt_status nt__adopt_settings(nt__waiting *waiting);

/* ---- inputs of a prediction (inputs.c) -------------------------------------------------------------------------- */

/* Before a layout is made for arrays that were given: whether they have the element types and the ranks of those that
 * the waiting weights were trained with, and names if these are several. A row of other sizes may do. */
nt_status nt__inputs_check(const nt__waiting *waiting, const nt_named_array *given, size_t count);
/* Why that may be, of a layout that failed with NT_INVALID: rows of other sizes than in training. */
nt_status nt__inputs_explain(const nt__waiting *waiting, const nt_named_array *given, size_t count, nt_status status);

/* ---- what a model needs beside its arrays (model_facts.c, model_schema.c) --------------------------------------- */

/* An object:
 *   experiment, compute_dtype  text
 *   seed                       integer
 *   config, devices, host      fields by marker, name to text (nt__field_print): GraphConst; Device numbers as they are
 *                              now; Host numbers and texts, in a file of parameters those that derive set
 *   derived                    names of the fields that derive set
 *   given                      of these, name to text before derive
 *   types                      name to type of those fields
 *   inputs                     of the fields that forward reads, name to {dtype, row: sizes of a row's axes}
 *   numbers                    the different floating constants of the forward program, at most 64; or null
 * NULL when memory is short. The others are members of it. */
json_t *nt__model_facts(const nt__traced *traced);
json_t *nt__record_config(const nt__task *task);
json_t *nt__record_fields(const nt__task *task, nt_marker marker);
json_t *nt__record_derived(const nt__task *task);
json_t *nt__record_given(const nt__task *task);
json_t *nt__record_types(const nt__task *task);
json_t *nt__record_numbers(const nt__traced *traced);
json_t *nt__record_inputs(const nt__traced *traced); /* inputs.c */

/* Whether each member that there is has its kind; the error names the member, its value and what it must be. And the
 * facts of a text; *out is NULL after a failure. */
nt_status nt__model_facts_check(const json_t *facts);
nt_status nt__model_facts_parse(const char *text, json_t **out);

/* Puts a value into an object or at the end of a list; takes it over. False: memory is short. */
bool nt__facts_put(json_t *object, const char *name, json_t *value);
bool nt__facts_append(json_t *list, json_t *value);
/* What was filled, or NULL if something of it is missing. */
json_t *nt__facts_whole(json_t *value, bool right);

#endif
