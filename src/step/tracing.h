/* One trace of a run's hooks under way: what programs are made with. */
#ifndef NT_STEP_TRACING_H
#define NT_STEP_TRACING_H

#include "step/step.h"

typedef struct nt__tracing {
    nt__traced *traced;
    nt__graph *graph;
    nt__arena arena;
    nt_tensor *parameters; /* one a group */
    nt_tensor *leaves;     /* one a parameter */
    nt_tensor outputs;     /* what forward returned */
    nt__quotient loss;     /* what the loss is a quotient of; no value: it is none */
} nt__tracing;

/* Begins a trace, of a model that trains or of one that is evaluated, with the view filled and, once there is a layout,
 * the parameters as inputs. */
nt_status nt__tracing_begin(nt__tracing *t, nt__traced *traced, bool training);
void nt__tracing_end(nt__tracing *t);

/* An input with the name "<kind>.<name>". */
nt_tensor nt__tracing_input(nt__tracing *t, nt__role role, int index, const char *kind, const char *name,
                            nt__type type);

/* Calls of the hooks; what they return is checked. forward fills t->outputs, loss t->loss. */
/* Around a traced hook. What a call that is no operation has failed with in it, as nt_array_get, becomes the error of
 * the trace. */
void nt__tracing_hook_begin(nt__tracing *t, const char *hook);
void nt__tracing_hook_end(nt__tracing *t, const char *hook);
void nt__tracing_forward(nt__tracing *t);
nt_tensor nt__tracing_loss(nt__tracing *t);
nt_tensor nt__tracing_train_step(nt__tracing *t, nt_optimizers *optimizers, nt_device_metrics *metrics);
/* The same before there is a layout: the hook declares its parameters, and nt_step gives them some other value. */
void nt__tracing_learn_train_step(nt__tracing *t);
/* Notes the outputs' type and checks their axis 0: before the loss is traced, which would find fault with it in its own
 * words. */
void nt__tracing_check_outputs(nt__tracing *t);
/* Error when they are not those that were noted, for the rows of the batch that is traced: forward of an evaluation
 * returns what it returns in training. */
void nt__tracing_check_same_outputs(nt__tracing *t);
/* Claims of the hooks about batch fields, against the data. */
nt_status nt__tracing_check_claims(nt__tracing *t);

/* What the rule of a group works with in a trace: inputs of the program, then what updates made of them. */
typedef struct nt__update {
    nt_tensor states[NT__MAX_STATES], next[NT__MAX_STATES], inputs[NT__MAX_INPUTS], decayed, anchor;
    nt_tensor places[NT__PLACE_TABLES];
    nt__step step; /* it points at the arrays above, so an update stays where it is; g is still to be set */
} nt__update;
void nt__update_begin(nt__tracing *t, size_t g, nt__update *update);

/* Results of a program that updates: parameters of the trained groups, then their states. */
typedef struct nt__updated {
    nt__result *results;
    nt__port *ports;
    size_t groups, states; /* trained groups in all, states that are there already */
} nt__updated;
/* Adds those of a group, the `place`-th that is trained; each takes the memory of its input. */
void nt__update_add(nt__tracing *t, size_t g, size_t place, nt_tensor x, const nt_tensor *states,
                    const nt_tensor *taken, nt__updated *out);
/* Lists the layer states that this trace changed, and adds them to the results; each takes the memory of its input. */
nt_status nt__carried_list(nt__traced *traced);
void nt__carried_add(const nt__traced *traced, nt__result *results, nt__port *ports);
/* Clips the norm of all of them together, where the run has a threshold. The norm before that, where it was needed. */
nt_tensor nt__clip_gradients(const nt__task *task, nt_tensor *gradients, size_t count);

/* programs.c: the program of a micro-batch. */
nt_status nt__trace_gradient(nt__traced *traced);
/* updates.c: the program that closes a step, and the one that makes what evaluations have for parameters: none where no
 * rule averages. */
nt_status nt__trace_optimizer(nt__traced *traced);
nt_status nt__trace_average(nt__traced *traced);

/* evaluations.c: the programs of evaluations. */
nt_status nt__trace_evaluations(nt__traced *traced);
/* manual.c: the program of a step in manual mode. */
nt_status nt__trace_manual_step(nt__traced *traced);
/* batch.c: the field of a prediction that came without a name has the one it was read under. */
void nt__batch_name_field(nt__traced *traced);
/* device_inputs.c: the inputs of the trace under way, put into the view. */
void nt__device_fields_input(nt__traced *traced);
/* device_claims.c: keeps what a trace claims of a Device field, and checks the value that it has now. */
nt_status nt__device_claims_add(nt__traced *traced, const nt__claim *claim);

/* What layers compute in, a part of every program that has forward in it. */
nt__part nt__tracing_compute_part(const nt__tracing *t);
/* Prints the trace and makes a program of it. `extra` are parts beyond the GraphConst values and the arguments. */
nt_status nt__tracing_finish(nt__tracing *t, const char *role, const nt__result *results, const nt__port *ports,
                             size_t count, const nt__part *extra, size_t extra_count, nt__program **out);

#endif
