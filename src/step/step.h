/* What a run computes: its batch, its model and layout, how groups of parameters are trained, and the programs that are
 * traced from its hooks. Nothing here needs a device: a program is text until it is launched.
 * Not here: values, and launching (the folder resident).
 */
#ifndef NT_STEP_STEP_H
#define NT_STEP_STEP_H

#include "data/data.h"
#include "metric/metric.h"
#include "nn/nn.h"
#include "optim/optim.h"
#include "program/program.h"
#include "setting/setting.h"

/* What an argument of a program is; its index counts within the role. */
typedef enum nt__role {
    NT__ROLE_LEAF,        /* in the first trace only, before the layout is known */
    NT__ROLE_PARAMETERS,  /* index: group */
    NT__ROLE_ACCUMULATOR, /* group */
    NT__ROLE_STATE,       /* state, those of the first group first */
    NT__ROLE_RATE,        /* group */
    NT__ROLE_INPUT,       /* another scalar of a rule, those of the first group first */
    NT__ROLE_DECAYED,     /* group: which elements decay */
    NT__ROLE_ANCHOR,      /* group: what they decay to */
    NT__ROLE_PLACES,      /* NT__PLACE_TABLES a group: where its arrays lie */
    NT__ROLE_COUNT,       /* of a loss that is a sum over a count: of the step so far */
    NT__ROLE_FIRST,       /* is this the first micro-batch of a step? */
    NT__ROLE_LAYER_STATE, /* what the model carries: layer states and its counter of draws */
    NT__ROLE_SEED,        /* of the random operations */
    NT__ROLE_DEVICE,      /* slot of the Device fields */
    NT__ROLE_BATCH,       /* field of the batch */
} nt__role;

/* ---- what there is ---------------------------------------------------------------------------------------------- */

/* The program of an evaluation for a number of real rows. */
typedef struct nt__evaluation_program {
    int64_t rows;
    nt__program *program;             /* NULL: it would have no result */
    nt__traced_metrics loss, metrics; /* loss: val_loss alone; none if the user reports one, or it is left out */
    double weight;                    /* of the loss of a batch: its rows if it is a mean already, else 1 */
    int outputs;                      /* the result that a hook on the host reads; -1: there is none */
    size_t result_count;
    nt__buffer *buffers; /* one for each result: those of the loss, of the metrics, then the outputs */
    nt__buffer **results;
} nt__evaluation_program;
/* The name of the loss in every evaluation. */
#define NT__VAL_LOSS "val_loss"

/* All programs, and what is known of them beside their text. */
typedef struct nt__programs {
    nt__program *gradient, *optimizer, *forward;
    nt__program *manual_step;   /* in manual mode in place of gradient and optimizer */
    nt__program *average;       /* what evaluations have for parameters; NULL: the parameters that are trained */
    nt__program *short_forward; /* of the newest short batch of a prediction, if forward may mix rows; else NULL */
    int64_t short_rows;         /* rows of that; 0: there was none yet */
    bool rows_are_apart;        /* in forward no row of the outputs depends on another row of the batch */
    nt__evaluation_program *evaluations;
    size_t evaluation_count;
    nt__traced_metrics train_metrics; /* of the program that has the loss */
    size_t *carried;                  /* layer states that this program changes, in the order of its results */
    size_t carried_count;
    const nt__claim *forward_claims; /* about fields that forward reads */
    size_t forward_claim_count;
} nt__programs;

/* The batch fields that go to the device for a kind of pass: indices into batch_fields, and their names. */
typedef struct nt__routes {
    const char **names;
    int *position; /* of each batch field among the names; -1: not staged */
    size_t count;
} nt__routes;

/* An input that a Device field is: one, or one for each array of a set. */
typedef struct nt__device_slot {
    size_t field;
    const char *member; /* of a set; else NULL */
    const char *name;   /* "smoothing", "frozen.weight" */
    nt__type type;
} nt__device_slot;

/* What a program needs the numbers of a slot to be, and the place of the call that needs it. */
typedef struct nt__device_claim {
    size_t slot;
    nt__bounds bounds;
    char *place; /* "FILE:LINE in loss" */
} nt__device_claim;

/* The Device fields as inputs, in their order. */
typedef struct nt__device_fields {
    nt__device_slot *slots;
    size_t count;                        /* of the slots */
    size_t *first;                       /* one a field of the experiment: its first slot */
    struct nt_tensors_content *contents; /* one a field: its slots */
    const char **members;                /* one a slot, as the slots have them */
    nt_tensor *tensors;                  /* one a slot, in the trace under way */
    nt__device_claim *claims;
    size_t claim_count, claim_capacity;
} nt__device_fields;

/* How a group is trained. */
typedef struct nt__training {
    nt_rule rule;         /* with the decay that the weight_decay hook puts after it */
    bool decay_is_hooked; /* it did */
    bool frozen;          /* no gradient, no update, no state */
    size_t first_state, first_input;
    bool decays;                      /* a rule of the chain is Decay */
    bool *spared;                     /* one for each row of the layout: what the no_decay hook leaves alone */
    size_t array_count, spared_count; /* of the group; 0 if no rule asks */
    nt_anchor anchor;
    nt__hash anchor_hash; /* of the elements of an array; else zero */
} nt__training;

typedef struct nt__traced {
    nt__task *task;
    nt__engine *engine;           /* that compiles; NULL in a plan */
    nt__options *compile_options; /* NULL: the usual ones */

    /* The data, and a batch of it. */
    nt_data *data;
    const nt__split *train; /* NULL: a handle for evaluation */
    nt__batch_field *batch_fields;
    nt_batch batch;
    int64_t batch_size;
    nt__device_fields device_fields;

    /* The model. */
    nt_model *model;
    nt__layout layout;
    bool laid_out_by_training; /* the first trace was that of a model that trains */
    nt__type outputs_type;
    nt__training *training; /* one a group; in a handle for evaluation NULL */
    size_t state_count, input_count;

    /* The programs. */
    bool is_check;        /* this belongs to no run: it is the scratch of a comparison (report/drift.c) */
    bool weighted;        /* the loss is a sum over a count: gradients are those of the sum until the step closes */
    nt_dtype count_dtype; /* of that count */
    nt__programs programs;
    struct {
        nt__routes train, evaluation, prediction;
    } routes;
} nt__traced;

/* ---- programs (programs.c) -------------------------------------------------------------------------------------- */

/* All of them, traced. */
nt_status nt__trace_programs(nt__traced *traced);
/* The first trace alone: it learns the parameters and their layout, and makes no program. */
nt_status nt__trace_model(nt__traced *traced);
void nt__programs_free(nt__traced *traced);
/* The program of predictions for a batch of so many rows, fewer than the full size, of which copies of a row would
 * change the outputs. It is the run's. */
nt_status nt__short_forward(nt__traced *traced, int64_t rows, nt__program **out);
/* Results, before those for train metrics, of the program that has the loss: the loss, what the model carries to the
 * next micro-batch, then of the gradient program an accumulator a group and, of a weighted loss, the count of the step
 * so far and that of the micro-batch; of a manual step the parameters and the states of the rules. */
size_t nt__loss_result_count(const nt__traced *traced);
bool nt__is_laid_out(const nt__traced *traced);
/* Error when there is no layout yet. */
nt_status nt__check_laid_out(const nt__traced *traced);
/* evaluations.c; NULL when there is none for so many rows. */
const nt__evaluation_program *nt__evaluation_program_find(const nt__traced *traced, int64_t rows);

/* ---- groups (groups.c) ------------------------------------------------------------------------------------------ */

/* Rules, decay and anchors of all groups, from the hooks. */
nt_status nt__groups_resolve(nt__traced *traced);
/* Warns of groups in which the no_decay hook has no effect. */
nt_status nt__groups_warn(const nt__traced *traced);
/* Their rules, in one text if all are the same. `constants`: what is part of the program. */
void nt__rules_print(const nt__traced *traced, bool constants, nt__text *out);
/* "RAdam", or "default: Adam; body: Frozen" if they differ. NULL when memory is short. */
const char *nt__rule_names(const nt__traced *traced, nt__arena *arena);

/* ---- the batch (batch.c, train_split.c) ------------------------------------------------------------------------- */

/* A batch of `count` fields; names and types are filled in by the caller. NULL when memory is short. */
nt__batch_field *nt__batch_new(nt__traced *traced, size_t count, int64_t size);
/* The fields of the split that training uses, else of the first one. */
nt_status nt__batch_list(nt__traced *traced);
/* The routes of the programs, which have been traced. */
nt_status nt__routes_list(nt__traced *traced);
/* Whether the split 'train' can be trained on. */
nt_status nt__train_split_check(const nt__traced *traced);
/* NT_INVALID for an option that only training has a use for, if the run does not train. */
nt_status nt__settings_check_trained(const nt__traced *traced, const nt_run_options *options);
/* Optimizer steps in max_epochs, whatever max_steps is. */
int64_t nt__steps_of_all_epochs(const nt__traced *traced);

/* ---- Device fields as inputs (device_inputs.c, device_claims.c) ------------------------------------------------- */

/* The slots: what the traces need. */
nt_status nt__device_fields_list(nt__traced *traced);
/* A field's value in the run's struct; elements of a slot in a value of its field, and in that one. */
const void *nt__field_value(const nt__task *task, size_t field);
const void *nt__slot_elements(const nt__task *task, const nt__device_slot *slot, const void *value);
const void *nt__device_slot_data(const nt__traced *traced, size_t slot);
/* Checks elements that a slot is to have against what programs claim of them. */
nt_status nt__device_claims_check(const nt__traced *traced, size_t slot, const void *elements);
/* The same of a number, converted to the field's type; NT_OK when the type does not have it. */
nt_status nt__device_claims_check_number(const nt__traced *traced, size_t field, double number);
void nt__device_claims_free(nt__traced *traced);

#endif
