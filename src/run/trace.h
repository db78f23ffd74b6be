/* One trace of a run's hooks under way: what programs.c makes programs with. */
#ifndef NT_RUN_TRACE_H
#define NT_RUN_TRACE_H

#include "run/run_internal.h"

typedef struct nt__tracing {
    nt_run *run;
    nt__graph *graph;
    nt__arena arena;
    nt_tensor *parameters; /* one a group */
    nt_tensor *leaves;     /* one a parameter */
    nt_tensor outputs;     /* what forward returned */
    nt__quotient loss;     /* what the loss is a quotient of; no value: it is none */
} nt__tracing;

/* Begins a trace, of a model that trains or of one that is evaluated, with the view filled and, once there is a layout,
 * the parameters as inputs. */
nt_status nt__tracing_begin(nt__tracing *t, nt_run *run, bool training);
void nt__tracing_end(nt__tracing *t);

/* An input with the name "<kind>.<name>". */
nt_tensor nt__tracing_input(nt__tracing *t, nt__role role, int index, const char *kind, const char *name,
                            nt__type type);

/* Calls of the hooks; what they return is checked. forward fills t->outputs, loss t->loss. */
void nt__tracing_forward(nt__tracing *t);
nt_tensor nt__tracing_loss(nt__tracing *t);
/* Notes the outputs' type and checks their axis 0: before the loss is traced, which would find fault with it in its own
 * words. */
void nt__tracing_check_outputs(nt__tracing *t);
/* Error when they are not those that were noted: forward of an evaluation returns what it returns in training. */
void nt__tracing_check_same_outputs(nt__tracing *t);
/* Claims of the hooks about batch fields, against the data. */
nt_status nt__tracing_check_claims(nt__tracing *t);

/* Prints the trace and makes a program of it. `extra` are parts beyond the GraphConst values and the arguments. */
nt_status nt__tracing_finish(nt__tracing *t, const char *role, const nt__result *results, const nt__port *ports,
                             size_t count, const nt__part *extra, size_t extra_count, nt__program **out);

#endif
