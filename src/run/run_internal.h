/* Inside of the run folder: what a handle holds. */
#ifndef NT_RUN_RUN_INTERNAL_H
#define NT_RUN_RUN_INTERNAL_H

#include "data/data.h"
#include "experiment/experiment.h"
#include "log/log.h"
#include "nitro/run.h"
#include "nn/nn.h"
#include "optim/optim.h"
#include "program/program.h"
#include "record/record.h"
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

/* ---- metrics (metrics.c) ---------------------------------------------------------------------------------------- */

/* Where a number of a traced metric comes from: a result of the program, or -1: it was a C number. */
typedef struct nt__reading {
    int result;
    double number;
} nt__reading;
typedef struct nt__traced_metric {
    const char *name;
    nt_combine combine;
    nt__reading value, count;
} nt__traced_metric;
/* What traced hooks reported in one program. */
typedef struct nt__traced_metrics {
    nt__traced_metric *items;
    size_t count;
    nt__result *results; /* those of the program, in order; tensors of the trace, so only for as long as it lasts */
    size_t result_count;
} nt__traced_metrics;
/* Takes over what was reported; the names live as long as the run. */
nt_status nt__traced_metrics_keep(nt_run *run, const nt_device_metrics *reported, nt__traced_metrics *out);
/* Values, and counts where they are wanted (else NULL), from the program's results in `buffers`. */
nt_status nt__traced_metrics_read(nt_run *run, const nt__traced_metrics *metrics, nt__buffer *buffers, nt_value *values,
                                  double *counts);
/* Calls a host metrics hook on the real rows of a batch; `outputs` is the host copy of all rows. */
typedef void (*nt__host_hook)(const void *e, nt_metrics *metrics, const nt_array *outputs, const nt_host_batch *batch);
nt_status nt__call_host_hook(nt_run *run, nt__host_hook hook, const char *name, const nt_array *outputs,
                             nt__staged *staged, nt_metrics *into);

/* The program of an evaluation for a number of real rows. */
typedef struct nt__evaluation_program {
    int64_t rows;
    nt__program *program;             /* NULL: it would have no result */
    nt__traced_metrics loss, metrics; /* loss: val_loss alone; none where the user reports one, or it is left out */
    double weight;                    /* of the loss of a batch: its rows where it is a mean already, else 1 */
    int outputs;                      /* the result that a hook on the host reads; -1: there is none */
    size_t result_count;
    nt__buffer *buffers; /* one for each result: those of the loss, of the metrics, then the outputs */
    nt__buffer **results;
} nt__evaluation_program;
/* NULL when there is none for so many rows. */
const nt__evaluation_program *nt__evaluation_program_find(const nt_run *run, int64_t rows);
/* The name of the loss in every evaluation. */
#define NT__VAL_LOSS "val_loss"

/* The values of one step at a time: its loss, the norm of its gradients where it is asked for, then those of the hook
 * train_metrics or host_train_metrics. */
typedef struct nt__step_metrics {
    nt_array *outputs;   /* host copy for the host hook; NULL without it */
    nt_metrics *on_host; /* what it set */
    nt_value *values;    /* the first are the run's own */
    size_t own, count;
} nt__step_metrics;
enum { NT__VALUE_LOSS, NT__VALUE_NORM };
nt_status nt__step_metrics_begin(const nt_run *run, nt__step_metrics *metrics);
/* `buffers` are the results that the gradient program has for them. */
nt_status nt__step_metrics_read(nt_run *run, nt__step_metrics *metrics, nt__buffer *buffers, nt__staged *staged);
void nt__step_metrics_end(nt__step_metrics *metrics);

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
    nt__hash start; /* of its value when the run was set up */
    nt__buffer buffer, former;
} nt__device_slot;

/* A schedule bound to what it sets. */
typedef struct nt__binding {
    const char *name; /* as it was given */
    nt_schedule schedule;
    int field;          /* a Device field, by its place in the list of fields; -1: a scalar of the optimizer */
    int group;          /* of a scalar; -1: of all groups */
    const char *scalar; /* its name: learning_rate, or that of a rule's input */
    double value;       /* of the newest step */
    bool told_over;     /* that the run goes on past its end: said once */
    bool held;          /* its function has no value past the horizon: it keeps the last one */
} nt__binding;

/* A scalar of a group's rule on the device: the rate, or another input. */
typedef struct nt__rate {
    const nt__binding *binding; /* NULL: the same value at all steps */
    size_t group;
    nt_dtype dtype;
    double ratio; /* what the value given is multiplied by: of a rate to the base rate, else 1 */
    double value;
    uint64_t element; /* the bits of it that are on the device */
    const char *scalar, *name;
    nt__buffer buffer, former;
} nt__rate;

/* How a group is trained. */
typedef struct nt__training {
    nt_rule rule;         /* with the decay that the weight_decay hook puts after it */
    bool decay_is_hooked; /* it did */
    bool frozen;          /* no gradient, no update, no state */
    size_t first_state, first_input;
    bool decays;                      /* a rule of the chain is Decay */
    bool *spared;                     /* one for each row of the layout: what the no_decay hook leaves alone */
    size_t array_count, spared_count; /* of the group; 0 where no rule asks */
    nt_anchor anchor;
    nt__hash anchor_hash;                                                   /* of its elements; zero: of none */
    nt__buffer decayed_elements, anchor_elements, places[NT__PLACE_TABLES]; /* alive where the program has them */
} nt__training;

/* The transfers of one step: each kind once, with how often it came. */
typedef struct nt__tally_row {
    bool upload;
    nt__purpose purpose;
    char name[NT__BUFFER_NAME];
    size_t bytes;
    uint64_t count;
} nt__tally_row;
typedef struct nt__tally {
    nt__tally_row *rows;
    size_t count, capacity;
    bool failed; /* memory was short */
} nt__tally;
/* A step's loss is read when the next one was launched, so two steps are open at a time. */
typedef struct nt__transfers {
    nt__tally steps[2], others, *now;
} nt__transfers;

/* Where training is in an epoch that it began: what it needs, beside the residents of the device, to go on there. */
typedef struct nt__position {
    bool is_open;                /* the epoch was begun and has not ended */
    int64_t seen;                /* micro-batches of it that were launched */
    double loss_sum, loss_count; /* of the epoch: loss_sum / loss_count is its mean */
    double step_sum, step_count; /* the same of the step under way, of a weighted loss */
    bool is_ordered;             /* `order` is known: the checksum of the order of the rows in this epoch */
    nt__hash order;
} nt__position;

/* A micro-batch of training. */
typedef struct nt__place {
    int64_t step, epoch, batch; /* the step counted from 1, the micro-batch of its epoch from 0 */
} nt__place;

/* Its records: those that it writes, and the one that it goes on from. */
typedef struct nt__recording {
    nt__record_writer *writer; /* open while it trains */
    char id[NT__RUN_ID];
    const char *parent;              /* the record that it branched from; NULL: none */
    bool log_goes_on;                /* the logs in run_dir are those of the record: they go on after it */
    nt__log_position *log_positions; /* where they were then */
    size_t log_position_count;
    int64_t step, batch; /* of the newest record */
    double written;      /* nt__seconds of that */
    double started;      /* nt__seconds at which this call of nt_train began */
    double spent;        /* seconds of training before that call of which the log says nothing */
    double *scores;      /* the best of the records that this training wrote, the best first, at most checkpoint_keep */
    size_t score_count, score_capacity;
    bool told_ranking;  /* by what they are ranked, or that they are not: said once */
    nt__record record;  /* to go on from, until the run is set up; of no facts: none */
    int64_t asked_seed; /* that of the settings, in place of which the run has the record's */
    json_t *data;       /* what its records say of the data; NULL: it writes none */
    char *source;       /* path of that; NULL: the run began anew */
    char *restored;     /* the best record, with whose parameters training ended; NULL: they are its last ones */
} nt__recording;

/* ---- what a handle holds ---------------------------------------------------------------------------------------- */

/* A source file of the experiment, as it was when the run was made. */
typedef struct nt__source_text {
    const char *path, *text; /* text NULL: left out */
    const char *why;         /* it was */
} nt__source_text;

/* All programs, and what is known of them beside their text. */
typedef struct nt__programs {
    nt__program *gradient, *optimizer, *forward;
    nt__program *manual_step;   /* in manual mode in place of gradient and optimizer */
    nt__program *average;       /* what evaluations have for parameters; NULL: the parameters that are trained */
    nt__program *short_forward; /* of the newest short batch of a prediction, where forward may mix rows; else NULL */
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

/* What else lives on the device, and what a launch is called with. */
typedef struct nt__device {
    nt__buffer *parameters, *accumulators; /* one a group */
    nt__buffer *states;
    nt__buffer *layer_states;
    nt__buffer seed;      /* alive when the model draws random numbers */
    nt__buffer *averages; /* one a group: alive in an evaluation, where its rule averages */
    nt__buffer **average_results;
    int average_users;
    nt__buffer count;    /* of the step so far, of a weighted loss */
    nt__buffer flags[2]; /* false, true */
    nt__buffer outputs;  /* of a prediction, for as long as a batch is worked on */
    nt__buffer **bound;  /* the arguments of the launch under way */
} nt__device;

/* The thread that uses a run now, and how many of its calls are under way, one inside the other (use.c). */
typedef struct nt__use {
    _Atomic(const char *) thread; /* NULL: none */
    int depth;                    /* that thread's own */
} nt__use;

struct nt_run {
    nt__use use;
    nt__arena arena;

    /* What it was made of. */
    const nt_experiment *experiment;
    const nt_experiment *registered; /* under its name, when the run was made */
    void *fields, *view;
    void *defaults;  /* of the fields, when the run was made */
    bool *derived;   /* one a field: did derive change it? Also of a run whose fields are those of a file */
    bool *given;     /* was it given in so many words? */
    bool *known;     /* does the file of the weights have its value? */
    bool *kept;      /* and the run another one, on purpose? */
    void *underived; /* the fields before derive; NULL: there is none */
    const char *preset;
    bool is_plan; /* it is only looked at: see plan.h */
    nt__settings settings;
    nt__settings declared;  /* what they would be without options */
    nt__training *training; /* one a group; in a handle for evaluation NULL */
    size_t state_count, input_count;
    nt_event_function on_event;
    void *event_context;

    /* The data, and a batch of it. */
    nt_data *data;
    const nt__split *train; /* NULL: a handle for evaluation */
    nt__batch_field *batch_fields;
    nt_batch batch;
    int64_t batch_size;

    /* The model, traced. */
    nt_model *model;
    nt__layout layout;
    bool laid_out_by_training; /* the first trace was that of a model that trains */
    nt__type outputs_type;
    bool weighted;        /* the loss is a sum over a count: gradients are those of the sum until the step closes */
    nt_dtype count_dtype; /* of that count */
    nt__programs programs;
    struct {
        nt__routes train, evaluation, prediction;
    } routes;

    /* The device. */
    nt__engine *engine;
    nt__options *compile_options; /* NULL: the usual ones */
    nt__device device;
    nt__device_fields device_fields;
    nt__transfers transfers;

    /* What changes from step to step. */
    nt__rate *rates;       /* one a group; in a handle for evaluation none */
    nt__rate *inputs;      /* of the rules, those of the first group first */
    nt__binding *bindings; /* of the schedules */
    size_t binding_count;
    bool schedules_from_option; /* else from the hook */
    int64_t horizon;            /* optimizer steps of all epochs: what schedules call the total */

    /* How far it is. */
    int64_t step, epoch;
    nt__place closed;     /* where the newest step closed; step 0: this handle has made none */
    nt__position resumed; /* where the next training goes on in its epoch; all zeros: it begins one */
    bool told_waiting;    /* that training waits for data: said once */
    nt_metrics *results;
    nt_value *result_values; /* of the newest evaluation; NULL: of none */
    size_t result_count;
    nt__log *log;
    nt__source_text *source_texts;
    size_t source_text_count;
    nt__recording recording;
    int lock; /* of run_dir; -1: none */

    /* Against the code of now. */
    bool checking;            /* its hooks are traced for a comparison */
    bool is_check;            /* this is no run but the scratch of a comparison */
    uint64_t seen_generation; /* of the experiments, when the run was last compared */
    nt__text drift;           /* the report that was asked for last */

    /* Of a handle without data. */
    nt__arena first; /* what its first prediction laid out */
    struct {
        struct nt__weights *weights; /* NULL: none */
        char *source;
        bool adopts;   /* the fields have the values of the file */
        bool restores; /* take the states of the rules too */
    } waiting; /* parameters for the layout that is to come, of a handle without data for its first prediction */
};

/* use.c: each public call about a run begins with one of the two macros. The run is `used` until the call returns;
 * NULL: an error says that it is NULL or that another thread uses it. NT__USE_ALONE: or that the call comes from within
 * another one, as those of hooks and listeners do. */
#define NT__USE(run, call) \
    __attribute__((cleanup(nt__use_end))) nt_run *const used __attribute__((unused)) = nt__use_begin(run, call, false)
#define NT__USE_ALONE(run, call) \
    __attribute__((cleanup(nt__use_end))) nt_run *const used __attribute__((unused)) = nt__use_begin(run, call, true)
nt_run *nt__use_begin(const nt_run *run, const char *call, bool alone);
void nt__use_end(nt_run *const *used);
/* Error when the run has no data: `what` it cannot do. */
nt_status nt__check_has_data(const nt_run *run, const char *what);
/* Everything that needs the layout of a batch: the traces, the parameters on the device. */
nt_status nt__lay_out(nt_run *run);
/* Undoes that, also half of it. */
void nt__lay_out_undo(nt_run *run);
bool nt__is_laid_out(const nt_run *run);

/* batch.c: a batch of `count` fields; names and types are filled in by the caller. NULL when memory is short. */
nt__batch_field *nt__batch_new(nt_run *run, size_t count, int64_t size);
/* The fields of the split that training uses, else of the first one. */
nt_status nt__batch_list(nt_run *run);
/* The field of a prediction that came without a name has the one it was read under. */
void nt__batch_name_field(nt_run *run);
/* The routes of the programs, which have been traced. */
nt_status nt__routes_list(nt_run *run);

/* load.c: parameters and layer states of a file or checkpoint, as nt_run_load_mapped has them. */
nt_status nt__weights_load(nt_run *run, const char *source, const char *const *maps, size_t map_count);
/* The weights that wait for a layout, if any: their arrays, then what else of the file does not fit the run. */
nt_status nt__load_waiting(nt_run *run);
nt_status nt__settle_waiting(nt_run *run);
void nt__forget_waiting(nt_run *run);
/* Reads those of the options, before the data: they wait for the layout. A run that only evaluates or predicts has its
 * fields from them (adopt.c). */
nt_status nt__weights_open(nt_run *run, const nt_run_options *options);
/* NT_DIVERGED when a parameter has an infinity or is not a number, or a layer state is not a number; `path` is not
 * written then. The elements are aligned. */
nt_status nt__check_finite(const nt_run *run, const char *path, const nt__named_array *array, bool is_state);
/* Elements of a parameter that are infinite or not a number, of a state those that are not a number. */
int64_t nt__count_bad(nt__type type, const void *elements, bool is_state);
/* Where the parameter lies in a host copy of its group's buffer. */
char *nt__row_data(const nt__row *row, const nt_array *flat);
/* Error when there is no layout yet. */
nt_status nt__check_laid_out(const nt_run *run);

/* layer_state.c: what the model carries, with its initial values, and the seed. */
nt_status nt__layer_states_upload(nt_run *run);
void nt__layer_states_free(nt_run *run);
/* Those of layers, which are all but the counter of draws; `place` among all. NULL beyond the last. */
const nt__leaf *nt__layer_state(const nt_run *run, size_t index, size_t *place);
size_t nt__layer_state_count(const nt_run *run);
nt_status nt__layer_state_read(nt_run *run, size_t index, nt_array **out);

/* unused.c: NT_INVALID where an option is given that only training has a use for, and the run does not train. */
nt_status nt__settings_check_trained(const nt_run *run, const nt_run_options *options);
/* Once the schedules are bound: error for a learning_rate that nothing uses, a warning for a Device field. */
nt_status nt__scheduled_check_used(const nt_run *run);
/* Whether a group is trained with the setting learning_rate: a rule that uses a rate, and no schedule that sets it. */
bool nt__uses_base_rate(const nt_run *run);

/* programs.c: all programs of the run, traced. */
nt_status nt__trace_programs(nt_run *run);
/* The first trace alone: it learns the parameters and their layout, and makes no program. */
nt_status nt__trace_model(nt_run *run);
void nt__programs_free(nt_run *run);
/* The program of predictions for a batch of so many rows, fewer than the full size, of which copies of a row would
 * change the outputs. It is the run's. */
nt_status nt__short_forward(nt_run *run, int64_t rows, nt__program **out);
/* Results, before those for train metrics, of the program that has the loss: the loss, what the model carries to the
 * next micro-batch, then of the gradient program an accumulator a group and, of a weighted loss, the count of the step
 * so far and that of the micro-batch; of a manual step the parameters and the states of the rules. */
size_t nt__loss_result_count(const nt_run *run);

/* manual.c: the program of a step in manual mode. */
nt_status nt__trace_manual_step(nt_run *run);

/* drift.c: what differs from the code and the settings of now, as notices. `training` false: only what evaluations
 * use. */
nt_status nt__drift_tell(nt_run *run, bool training);
/* The same when code was loaded since the last comparison; else it costs nothing. */
nt_status nt__drift_look(nt_run *run, bool training);
/* drift_groups.c: lines about groups that the code of now, traced as `now`, trains in another way. */
void nt__drift_compare_groups(const nt_run *run, const nt_run *now, nt__text *report);

/* device.c: what lives on the device for as long as the handle, and what a program is called with. */
nt_status nt__device_setup(nt_run *run);
void nt__device_free(nt_run *run);
/* A second one in place of the run's, with initial values, for launches that must not change the run; *own keeps what
 * the run has until it is swapped back. After a failure the run has its own. */
nt_status nt__device_swap(nt_run *run, nt__device *own);
void nt__device_swap_back(nt_run *run, const nt__device *own);
nt_status nt__launch(nt_run *run, nt__program *program, const nt__routes *routes, nt__staged *staged, bool first,
                     nt__buffer *const *results);

/* The states of a group that start at its parameters, anew from these values: each into its place among `fresh`, which
 * has one buffer a state of the run. */
nt_status nt__states_restart(nt_run *run, size_t g, const void *parameters, nt__buffer *fresh);

/* averages.c: between these two calls every program reads the parameters that evaluations have. They may be nested. */
nt_status nt__averages_begin(nt_run *run);
void nt__averages_end(nt_run *run);
/* Those of a group. */
nt__buffer *nt__evaluated_parameters(nt_run *run, size_t g);

/* A new value for a scalar's buffer, from aligned memory that is lent. A program in flight may still read the former
 * one, and freeing lent memory waits for that; so it stays until the value after this. The fresh one is made first. */
nt_status nt__slot_write(nt_run *run, nt__purpose purpose, const char *name, nt__type type, const void *data,
                         nt__buffer *slot, nt__buffer *former);

/* rates.c: the rates without buffers: names, and ratios from the hook. */
nt_status nt__rates_list(nt_run *run);
/* Gives a scalar the value, times its ratio; uploaded when its bits moved. */
nt_status nt__rate_write(nt_run *run, nt__rate *rate, double base);

/* groups.c: rules, decay and anchors of all groups, from the hooks. */
nt_status nt__groups_resolve(nt_run *run);
/* Warns of groups in which the no_decay hook has no effect. */
nt_status nt__groups_warn(const nt_run *run);
/* Their rules, in one text where all are the same. `constants`: what is part of the program. */
void nt__rules_print(const nt_run *run, bool constants, nt__text *out);
/* "RAdam", or "default: Adam; body: Frozen" where they differ. NULL when memory is short. */
const char *nt__rule_names(const nt_run *run, nt__arena *arena);

/* schedules.c: what changes from step to step. */
nt_status nt__schedules_bind(nt_run *run, const nt_named_schedule *option); /* option NULL: the hook's */
/* "the run's option" or "the schedules hook". */
const char *nt__schedules_source(const nt_run *run);
/* Sets everything scheduled to its value for the step to come: before the step's first micro-batch. */
nt_status nt__schedules_apply(nt_run *run);
/* "learning_rate linear(0.1 0), smoothing constant(0.5)"; nothing where there is none. */
void nt__schedules_print(const nt_run *run, nt__text *out);
/* Whether a Device field, by its place in the list of fields, is under a schedule. */
bool nt__field_scheduled(const nt_run *run, size_t field);

/* train.c: optimizer steps in max_epochs, whatever max_steps is. */
int64_t nt__steps_of_all_epochs(const nt_run *run);
/* Where the results of a launch go that has the loss, after the loss itself and without those for metrics, and those of
 * the optimizer program: to the slots of the arguments whose memory they take. *norm: the place of the norm among the
 * latter. */
void nt__bind_results(nt_run *run, nt__buffer **loss_results, nt__buffer **optimizer_results, size_t *norm);

/* diverged.c: a loss that is not finite. */
typedef struct nt__divergence {
    double loss;
    nt__place at;
    nt__staged *staged;        /* that micro-batch */
    int64_t began;             /* steps made before this training */
    double first_loss, before; /* the first loss of this training, and that of the step before; nan: there is none */
} nt__divergence;
/* NT_DIVERGED with what to look at. It may launch the program once more, with other parameters. */
nt_status nt__diverged(nt_run *run, const nt__divergence *d);
/* Adds "step 8 (micro-batches 29 to 32 of epoch 1, split 'train')". */
void nt__add_step(const nt_run *run, const nt__place *closed, nt__text *out);

/* transfers.c: transfers told in lines, when the run was asked to. What the thread moves counts for the step that
 * nt__transfers_at names, else for what nt__transfers_tell names. */
enum { NT__NO_STEP = -1 };
void nt__transfers_begin(nt_run *run);
void nt__transfers_end(nt_run *run);
void nt__transfers_at(nt_run *run, int64_t step);
void nt__transfers_take(nt_run *run, const nt__staged *staged); /* a batch that the worker uploaded */
nt_status nt__transfers_tell_step(nt_run *run, int64_t step);
nt_status nt__transfers_tell(nt_run *run, const char *what);
void nt__transfers_free(nt_run *run);

/* fields.c: the handle's own copy of the experiment. */
nt_status nt__fields_take(nt_run *run, const void *fields, const nt_run_options *options);
nt_status nt__fields_derive(nt_run *run);
void nt__fields_free(nt_run *run);

/* device_fields.c: Device fields as inputs of the programs. */
nt_status nt__device_fields_list(nt_run *run); /* the slots, without buffers: what the traces need */
void nt__device_fields_input(nt_run *run);     /* inputs of the trace under way, put into the view */
nt_status nt__device_fields_upload(nt_run *run);
void nt__device_fields_free(nt_run *run);
/* Gives a Device field (its place in the list of fields) another value: `value` points at a value of the field's C
 * type, which has been checked. Uploaded at once and written to run->fields; bits that are there already are not
 * uploaded again. What a launched program still reads stays until it has ended. After a failure the field is as it was.
 */
nt_status nt__device_field_write(nt_run *run, size_t field, const void *value);
/* The same with a number, converted to the field's type; an error when the type does not have it. */
nt_status nt__device_field_write_number(nt_run *run, size_t field, double number);
/* Another array for one slot, of the slot's type and shape; a reference is kept. */
nt_status nt__device_slot_write(nt_run *run, size_t slot, nt_array *array);

/* The elements of a slot as the run has them. */
const void *nt__device_slot_data(const nt_run *run, size_t slot);

/* device_claims.c: keeps what a trace claims of a Device field, and checks the value that it has now. */
nt_status nt__device_claims_add(nt_run *run, const nt__claim *claim);
/* Checks elements that a slot is to have. */
nt_status nt__device_claims_check(const nt_run *run, size_t slot, const void *elements);
/* The same of a number, converted to the field's type; NT_OK when the type does not have it. */
nt_status nt__device_claims_check_number(const nt_run *run, size_t field, double number);
void nt__device_claims_free(nt_run *run);

/* report.c: where everything bound and from where, as sections of text. */
void nt__report_add(const nt_run *run, nt__text *out);
/* report_groups.c: its section on the groups. */
void nt__report_add_groups(const nt_run *run, nt__text *out);
void nt__add_count(int64_t count, nt__text *out); /* 235146 as 235,146 */

/* evaluate.c: a pass over a split with the parameters to evaluate with; `batch` is called for each batch in its order.
 * NT_INTERRUPTED: it was asked to stop. */
typedef nt_status (*nt__batch_function)(void *context, nt__staged *staged);
nt_status nt__pass_without_training(nt_run *run, const nt__split *split, const nt__routes *routes,
                                    nt__batch_function batch, void *context);
/* One evaluation. NT_INTERRUPTED: it was asked to stop, and there are no results. */
nt_status nt__evaluate_split(nt_run *run, const nt__split *split);
/* The values of the newest evaluation. */
const nt_value *nt__result_values(const nt_run *run, size_t *count);
void nt__results_forget(nt_run *run);

/* events.c: what the run tells its listener, and whether it was told to stop. */
void nt__tell(const nt_run *run, const nt_event *event);
bool nt__stop_requested(void);

/* print.c: the event of the setup, with the line that sums it up. */
nt_status nt__tell_setup(const nt_run *run);

/* origin.c: reads the source files, and logs what made the run. */
nt_status nt__origin_take(nt_run *run, const nt_run_options *options);
nt_status nt__origin_log(nt_run *run);
/* checkpoints.c: the records that training writes. From begin to end there is a writer, where there are records at all.
 */
nt_status nt__recording_begin(nt_run *run);
/* What its records say of the data, and what the record that it goes on from is compared with. */
nt_status nt__recording_describe(nt_run *run);
/* How many records of other runs its folder has: a warning where they may be deleted, else a notice. */
nt_status nt__recording_tell_others(const nt_run *run);
/* Whether one is to be written here, between two steps of an epoch. */
bool nt__record_is_due(const nt_run *run);
/* Writes one, unless the newest is of the same place. `reason`: why training ends here, NULL while it goes on. */
nt_status nt__record_state(nt_run *run, const nt__position *at, const char *reason, const nt_value *values,
                           size_t count);
/* Waits until all are on the disk. */
nt_status nt__recording_end(nt_run *run);
/* The parameters of the best record, where they are asked for. Once those on the disk are known to be whole. */
nt_status nt__restore_best(nt_run *run);
/* Error when that was done. */
nt_status nt__check_not_restored(const nt_run *run);

/* ranking.c: what records are ranked by. What cannot have a best although it is asked for: before the traces, and once
 * all is traced, when names are known; there it also says where there is no best, and what to give. */
nt_status nt__ranking_check(const nt_run *run);
nt_status nt__ranking_check_metric(const nt_run *run);
/* After the first validation: by which value and in which direction, or that it has not the value. */
nt_status nt__ranking_tell(nt_run *run, const nt_value *values, size_t count);
/* Whether a validation without the metric is an error. */
bool nt__needs_metric(const nt_run *run);
/* Error where neither the name of the metric nor the mode says which values are better. */
nt_status nt__check_direction(const nt_run *run);

/* How the settings say to keep them. */
nt__retention nt__run_retention(const nt_run *run);

/* resume.c: the record to go on from, found and read before anything is built; its seed; its identity. */
nt_status nt__resume_find(nt_run *run, const nt_run_options *options);
/* The record's seed in place of the one of the settings, which is kept. */
nt_status nt__resume_seed(nt_run *run);
/* Once the settings and the fields have their values: what must be as it was then, and what is told of the rest. */
nt_status nt__resume_check(nt_run *run);
/* Puts the run where the record was, and forgets the record. */
nt_status nt__resume_take(nt_run *run);

/* log.c: the log in run_dir, begun once and ended by each training. */
nt_status nt__log_begin(nt_run *run);
nt_status nt__log_values(nt_run *run, const char *context, int64_t step, int64_t epoch, const nt_value *values,
                         size_t count);
/* `seconds`: of the training. */
nt_status nt__log_end(nt_run *run, nt_status outcome, double seconds);
/* Of each parameter, where they are asked for. */
nt_status nt__log_histograms(nt_run *run);
/* A line without a place of its own: that of now. */
nt_status nt__log_put(nt_run *run, const nt_log_line *line);

#endif
