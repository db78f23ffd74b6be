/* What a run keeps on the device for as long as it lives, and how far its training is: parameters, states of rules and
 * layers, Device fields, rates and the schedules that move them; launching a program on them; what is transferred.
 * The device that all of it is on is known here alone.
 */
#ifndef NT_RESIDENT_RESIDENT_H
#define NT_RESIDENT_RESIDENT_H

#include "step/step.h"

/* ---- what there is ---------------------------------------------------------------------------------------------- */

/* The value of a slot of the Device fields. */
typedef struct nt__device_value {
    nt__hash start; /* of the value when the run was set up */
    nt__buffer buffer, former;
} nt__device_value;

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

/* What the rule of a group reads and no step changes. */
typedef struct nt__fixed {
    nt__buffer decayed, anchor, places[NT__PLACE_TABLES]; /* alive if the program has them */
    nt__hash anchor_hash;                                 /* of its elements; zero: of none */
} nt__fixed;

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

/* What launches change, and what one is called with. */
typedef struct nt__device {
    nt__buffer *parameters, *accumulators; /* one a group */
    nt__buffer *states;
    nt__buffer *layer_states;
    nt__buffer seed;      /* alive when the model draws random numbers */
    nt__buffer *averages; /* one a group: alive in an evaluation, if its rule averages */
    nt__buffer **average_results;
    int average_users;
    nt__buffer count;    /* of the step so far, of a weighted loss */
    nt__buffer flags[2]; /* false, true */
    nt__buffer outputs;  /* of a prediction, for as long as a batch is worked on */
    nt__buffer **bound;  /* the arguments of the launch under way */
} nt__device;

/* Where training is in an epoch that it began: what it needs, beside what is on the device, to go on there. */
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

typedef struct nt__resident {
    nt__task *task;
    nt__traced *traced;
    nt__device device;
    nt__device_value *values; /* one a slot of the Device fields */
    nt__fixed *fixed;         /* one a group */
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
} nt__resident;

/* ---- the device (device.c) -------------------------------------------------------------------------------------- */

/* Opens the engine. */
nt_status nt__device_open(nt__resident *resident);
/* Uploads what the handle begins with. */
nt_status nt__device_setup(nt__resident *resident);
void nt__device_free(nt__resident *resident);
/* A second one in place of the run's, with initial values, for launches that must not change the run; *own keeps what
 * the run has until it is swapped back. After a failure the run has its own. */
nt_status nt__device_swap(nt__resident *resident, nt__device *own);
void nt__device_swap_back(nt__resident *resident, const nt__device *own);
/* `data` is row-major and aligned. *out must not be alive. */
nt_status nt__upload(const nt__resident *resident, const char *name, nt__purpose purpose, nt__type type,
                     const void *data, nt__buffer *out);
/* A new value for a buffer, from memory that may go after the call. A program in flight may still read the former one,
 * so it stays until the value after this. The fresh one is made first. */
nt_status nt__slot_write(nt__resident *resident, nt__purpose purpose, const char *name, nt__type type, const void *data,
                         nt__buffer *slot, nt__buffer *former);
/* routes, staged: NULL if the program reads no batch. `first`: of the micro-batches of a step. */
nt_status nt__launch(nt__resident *resident, nt__program *program, const nt__routes *routes, nt__staged *staged,
                     bool first, nt__buffer *const *results);
/* A pass over a split, to the device. */
nt_status nt__device_stream(nt__resident *resident, const nt__split *split, const nt__routes *routes, int64_t epoch,
                            int64_t first_batch, nt__stream **out);
/* The states of a group that start at its parameters, anew from these values: each into its place among `fresh`, which
 * has one buffer a state of the run. */
nt_status nt__states_restart(nt__resident *resident, size_t g, const void *parameters, nt__buffer *fresh);

/* ---- parameters (parameters.c, averages.c, finite.c) ------------------------------------------------------------ */

/* A host copy of a group's flat buffer, as evaluations have it between nt__averages_begin and nt__averages_end. */
nt_status nt__group_read(nt__resident *resident, int group, nt_array **out);
/* A copy of one parameter, as evaluations have it; NULL after a failure. */
nt_array *nt__parameter_read(nt__resident *resident, const nt__row *row);
/* Where the parameter lies in a host copy of its group's buffer. */
char *nt__row_data(const nt__row *row, const nt_array *flat);
/* Between these two calls every program reads the parameters that evaluations have. They may be nested. */
nt_status nt__averages_begin(nt__resident *resident);
void nt__averages_end(nt__resident *resident);
/* Those of a group. */
nt__buffer *nt__evaluated_parameters(nt__resident *resident, size_t g);
/* Elements of a parameter that are infinite or not a number, of a state those that are not a number. */
int64_t nt__count_bad(nt__type type, const void *elements, bool is_state);
/* NT_DIVERGED when there are such; `path` is not written then. The elements are aligned. */
nt_status nt__check_finite(const nt__resident *resident, const char *path, const nt__named_array *array, bool is_state);
/* Adds "step 8 of epoch 1 (micro-batches 29 to 32 of split 'train')". */
void nt__add_step(const nt__task *task, const nt__place *closed, nt__text *out);

/* ---- what the model carries (layer_state.c) --------------------------------------------------------------------- */

nt_status nt__layer_states_upload(nt__resident *resident);
void nt__layer_states_free(nt__resident *resident);
/* Those of layers, which are all but the counter of draws; `place` among all. NULL beyond the last. */
const nt__leaf *nt__layer_state(const nt__traced *traced, size_t index, size_t *place);
size_t nt__layer_state_count(const nt__traced *traced);
nt_status nt__layer_state_read(nt__resident *resident, size_t index, nt_array **out);

/* ---- Device fields (device_fields.c) ---------------------------------------------------------------------------- */

nt_status nt__device_fields_upload(nt__resident *resident);
void nt__device_fields_free(nt__resident *resident);
/* Gives a Device field (its place in the list of fields) another value: `value` points at a value of the field's C
 * type, which has been checked. Uploaded at once and written to the run's fields; bits that are there already are not
 * uploaded again. What a launched program still reads stays until it has ended. After a failure the field is as it was.
 */
nt_status nt__device_field_write(nt__resident *resident, size_t field, const void *value);
/* The same with a number, converted to the field's type; an error when the type does not have it. */
nt_status nt__device_field_write_number(nt__resident *resident, size_t field, double number);
/* Another array for one slot, of the slot's type and shape; a reference is kept. */
nt_status nt__device_slot_write(nt__resident *resident, size_t slot, nt_array *array);

/* ---- rates and schedules (rates.c, schedules.c, scheduled.c) ---------------------------------------------------- */

/* The rates without buffers: names, and ratios from the hook. */
nt_status nt__rates_list(nt__resident *resident);
/* Gives a scalar the value, times its ratio; uploaded when its bits moved. */
nt_status nt__rate_write(nt__resident *resident, nt__rate *rate, double base);
nt_status nt__schedules_bind(nt__resident *resident, const nt_named_schedule *option); /* option NULL: the hook's */
/* "the run's option" or "the schedules hook"; "option" or "schedules hook". */
const char *nt__schedules_source(const nt__resident *resident);
const char *nt__schedules_source_name(const nt__resident *resident);
/* Sets everything scheduled to its value for the step to come: before the step's first micro-batch. */
nt_status nt__schedules_apply(nt__resident *resident);
/* "learning_rate linear(0.1 0), smoothing constant(0.5)"; nothing if there is none. */
void nt__schedules_print(const nt__resident *resident, nt__text *out);
/* Whether a Device field, by its place in the list of fields, is under a schedule. */
bool nt__field_scheduled(const nt__resident *resident, size_t field);
/* Once the schedules are bound: error for a learning_rate that nothing uses, a warning for a Device field. */
nt_status nt__scheduled_check_used(const nt__resident *resident);
/* Whether a group is trained with the setting learning_rate: a rule that uses a rate, and no schedule that sets it. */
bool nt__uses_base_rate(const nt__resident *resident);

/* ---- transfers (transfers.c) ------------------------------------------------------------------------------------ */

/* Told in lines, when the run was asked to. What the thread moves counts for the step that nt__transfers_at names, else
 * for what nt__transfers_tell names. */
enum { NT__NO_STEP = -1 };
void nt__transfers_begin(nt__resident *resident);
void nt__transfers_end(nt__task *task);
void nt__transfers_at(nt__resident *resident, int64_t step);
void nt__transfers_take(nt__resident *resident, const nt__staged *staged); /* a batch that the worker uploaded */
nt_status nt__transfers_tell_step(nt__resident *resident, int64_t step);
nt_status nt__transfers_tell(nt__resident *resident, const char *what);
void nt__transfers_free(nt__resident *resident);

#endif
