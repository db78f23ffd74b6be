/* A field of a run and what a file of weights says of it, for those who compare the two.
 */
#ifndef NT_WEIGHTS_MODEL_PAIR_H
#define NT_WEIGHTS_MODEL_PAIR_H

#include "weights/weights.h"

/* The metadata of a file of parameters that has what the model needs beside them, and what the tensors of Device arrays
 * in it begin with. */
#define NT__MODEL_KEY "nitro_model"
#define NT__FIELD_ARRAYS "fields/"

typedef struct nt__pair_value {
    _Alignas(16) char bytes[sizeof(nt_ints)]; /* the largest type that has a text form */
} nt__pair_value;

/* One field, and what the file has for it. */
typedef struct nt__pair {
    nt__task *task;
    const nt__weights *weights;
    const nt_field_info *field;
    size_t index;
    const char *text;     /* NULL: arrays */
    nt__pair_value value; /* that of the text, in the field's type of now */
    bool derived;         /* the file says that derive set it */
} nt__pair;
/* False: the file has nothing for that field of the experiment, or the status is not NT_OK. */
bool nt__pair_find(const nt__task *task, const nt__weights *weights, size_t index, nt__pair *out, nt_status *status);
/* Whether the run has the value of the file. */
bool nt__pair_is_same(const nt__pair *p, bool *failed);
/* Whether the value of now is somebody's choice: not the default, or given in so many words, and not what the field was
 * before derive set it in training. */
bool nt__pair_is_chosen(const nt__pair *p, bool *failed);
/* Notes that the file has the field, and whether derive set it. */
void nt__pair_note(const nt__pair *p);
/* Gives the run the value of the file. */
nt_status nt__pair_take(const nt__pair *p);
/* Adds "act: 1 in the file, 0 here". */
void nt__pair_tell(nt__differences *l, const nt__pair *p, const char *here);

/* Adds fields that only one side has, and those of another type. */
void nt__model_list_changes(const nt__task *task, const json_t *facts, nt__differences *l);
/* Warns with the lines, where there are any and `status` is NT_OK, and frees them. */
nt_status nt__model_warn(nt_status status, const nt__task *task, const char *source, const char *what,
                         nt__differences *l);
/* Of an old file, or one that others wrote. */
nt_status nt__model_warn_of_nothing(const nt__task *task, const char *source);
/* The experiment that the file names where that is another one; NULL. */
const char *nt__model_other_experiment(const nt__task *task, const nt__weights *weights);

/* ---- comparing (model_compare.c) -------------------------------------------------------------------------------- */

/* What differs between the run and weights that it does not adopt. `refuses`: another experiment or another GraphConst
 * value is an error; else it is told with the rest, in one warning. */
nt_status nt__model_compare(const nt__task *task, const nt__weights *weights, const char *source, bool refuses);
/* Once forward is traced: whether it computes with the numbers that it had when the weights were written. */
nt_status nt__model_check_numbers(const nt__traced *traced, const nt__weights *weights, const char *source);
/* Whether forward reads fields of the same rows as in training; a mean over an axis has its size among the numbers. */
bool nt__inputs_are_same(const nt__traced *traced, const nt__weights *weights);
json_t *nt__field_fact(const nt_field_info *field, const void *fields);
bool nt__facts_list_has(const json_t *list, const json_t *value);

#endif
