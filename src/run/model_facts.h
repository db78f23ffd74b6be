/* What a model needs beside its arrays, in files: written by every save and record, compared and taken by every load.
 */
#ifndef NT_RUN_MODEL_FACTS_H
#define NT_RUN_MODEL_FACTS_H

#include "run/run_internal.h"
#include "run/weights.h"

/* ---- written (model_facts.c) ------------------------------------------------------------------------------------ */

/* The metadata of a file of parameters that has it, and what the tensors of Device arrays in it begin with. */
#define NT__MODEL_KEY "nitro_model"
#define NT__FIELD_ARRAYS "fields/"

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
 * NULL when memory is short. */
json_t *nt__model_facts(const nt_run *run);
json_t *nt__record_derived(const nt_run *run);
json_t *nt__record_given(const nt_run *run);
json_t *nt__record_types(const nt_run *run);
json_t *nt__record_numbers(const nt_run *run);
json_t *nt__record_inputs(const nt_run *run); /* inputs.c */
json_t *nt__field_fact(const nt_field_info *field, const void *fields);

/* model_schema.c: whether each member that there is has its kind; the error names the member, its value and what it
 * must be. And the facts of a text; *out is NULL after a failure. */
nt_status nt__model_facts_check(const json_t *facts);
nt_status nt__model_facts_parse(const char *text, json_t **out);

/* Puts a value into an object or at the end of a list; takes it over. False: memory is short. */
bool nt__facts_put(json_t *object, const char *name, json_t *value);
bool nt__facts_append(json_t *list, json_t *value);
bool nt__facts_list_has(const json_t *list, const json_t *value);
/* What was filled, or NULL where something of it is missing. */
json_t *nt__facts_whole(json_t *value, bool right);

/* ---- compared and taken (adopt.c) ------------------------------------------------------------------------------- */

/* Before the data: gives the fields the values that the weights were trained with. A field that was given another value
 * is an error with both. */
nt_status nt__adopt(nt_run *run, const nt__weights *weights, const char *source);
/* After derive: the same of what derive set; what it would have been is told. */
nt_status nt__adopt_again(nt_run *run);
/* After the settings were resolved: the seed and what layers compute in, where no option says another. */
nt_status nt__adopt_settings(nt_run *run);
/* model_compare.c: what differs between the run and weights that it does not adopt. `refuses`: another experiment or
 * another GraphConst value is an error; else it is told with the rest, in one warning. */
nt_status nt__model_compare(const nt_run *run, const nt__weights *weights, const char *source, bool refuses);
/* Once forward is traced: whether it computes with the numbers that it had when the weights were written. */
nt_status nt__model_check_numbers(const nt_run *run, const nt__weights *weights, const char *source);

/* ---- inputs of a prediction (inputs.c) -------------------------------------------------------------------------- */

/* Before a layout is made for arrays that were given: whether they have the element types and the ranks of those that
 * the waiting weights were trained with, and names where these are several. A row of other sizes may do. */
nt_status nt__inputs_check(const nt_run *run, const nt_named_array *given, size_t count);
/* Why that may be, of a layout that failed with NT_INVALID: rows of other sizes than in training. */
nt_status nt__inputs_explain(const nt_run *run, const nt_named_array *given, size_t count, nt_status status);
/* Whether forward reads fields of the same rows as in training; a mean over an axis has its size among the numbers. */
bool nt__inputs_are_same(const nt_run *run, const nt__weights *weights);

#endif
