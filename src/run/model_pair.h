/* A field of a run and what a file of weights says of it, for those who compare the two (adopt.c, model_compare.c).
 */
#ifndef NT_RUN_MODEL_PAIR_H
#define NT_RUN_MODEL_PAIR_H

#include "run/model_facts.h"

/* What is said of the fields, a line each. */
typedef struct nt__differences {
    nt__text text;
    size_t count;
} nt__differences;
void nt__difference_add(nt__differences *l, const char *format, ...) NT__PRINTF(2, 3);
/* All of them as a text, the last ones as their number. */
const char *nt__differences_shown(nt__differences *l);

typedef struct nt__pair_value {
    _Alignas(16) char bytes[sizeof(nt_ints)]; /* the largest type that has a text form */
} nt__pair_value;

/* One field, and what the file has for it. */
typedef struct nt__pair {
    nt_run *run;
    const nt__weights *weights;
    const nt_field_info *field;
    size_t index;
    const char *text;     /* NULL: arrays */
    nt__pair_value value; /* that of the text, in the field's type of now */
    bool derived;         /* the file says that derive set it */
} nt__pair;
/* False: the file has nothing for that field of the experiment, or the status is not NT_OK. */
bool nt__pair_find(const nt_run *run, const nt__weights *weights, size_t index, nt__pair *out, nt_status *status);
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
void nt__model_list_changes(const nt_run *run, const json_t *facts, nt__differences *l);
/* Warns with the lines, where there are any and `status` is NT_OK, and frees them. */
nt_status nt__model_warn(nt_status status, const nt_run *run, const char *source, const char *what, nt__differences *l);
/* Of an old file, or one that others wrote. */
nt_status nt__model_warn_of_nothing(const nt_run *run, const char *source);
/* The experiment that the file names where that is another one; NULL. */
const char *nt__model_other_experiment(const nt_run *run, const nt__weights *weights);

#endif
