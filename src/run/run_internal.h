/* Inside of the run folder: a handle, and what its calls share. */
#ifndef NT_RUN_RUN_INTERNAL_H
#define NT_RUN_RUN_INTERNAL_H

#include "checkpoint/checkpoint.h"
#include "run/run.h"

/* The thread that uses a run now, and how many of its calls are under way, one inside the other (use.c). */
typedef struct nt__use {
    _Atomic(const char *) thread; /* NULL: none */
    int depth;                    /* that thread's own */
} nt__use;

/* A handle: its parts, each with an owner of its own, and the newest results. */
struct nt_run {
    nt__use use;
    nt__task task;
    nt__traced traced;
    nt__resident resident;
    nt__reporting reporting;
    nt__waiting waiting;
    nt__recording recording;
    bool told_waiting; /* that training waits for data: said once */
    nt_metrics *results;
    nt_value *result_values; /* of the newest evaluation; NULL: of none */
    size_t result_count;
    nt__arena first; /* of a handle without data: what its first prediction laid out */
};

/* ---- calls (use.c) ---------------------------------------------------------------------------------------------- */

/* Each public call about a run begins with one of the two macros. The run is `used` until the call returns; NULL: an
 * error says that it is NULL or that another thread uses it. NT__USE_ALONE: or that the call comes from within another
 * one, as those of hooks and listeners do. */
#define NT__USE(run, call) \
    __attribute__((cleanup(nt__use_end))) nt_run *const used __attribute__((unused)) = nt__use_begin(run, call, false)
#define NT__USE_ALONE(run, call) \
    __attribute__((cleanup(nt__use_end))) nt_run *const used __attribute__((unused)) = nt__use_begin(run, call, true)
nt_run *nt__use_begin(const nt_run *run, const char *call, bool alone);
void nt__use_end(nt_run *const *used);

/* ---- life (run.c, print.c) -------------------------------------------------------------------------------------- */

/* Error when the run has no data: `what` it cannot do. */
nt_status nt__check_has_data(const nt__task *task, const char *what);
/* Everything that needs the layout of a batch: the traces, the parameters on the device. */
nt_status nt__lay_out(nt_run *run);
/* Undoes that, also half of it. */
void nt__lay_out_undo(nt_run *run);
/* The event of the setup, with the line that sums it up. */
nt_status nt__tell_setup(const nt__resident *resident);

/* ---- values of a step (step_metrics.c) -------------------------------------------------------------------------- */

/* Calls a host metrics hook on the real rows of a batch; `outputs` is the host copy of all rows. */
typedef void (*nt__host_hook)(const void *e, nt_metrics *metrics, const nt_array *outputs, const nt_host_batch *batch);
nt_status nt__call_host_hook(nt__task *task, nt__host_hook hook, const char *name, const nt_array *outputs,
                             nt__staged *staged, nt_metrics *into);

/* The values of one step at a time: its loss, the norm of its gradients if it is asked for, then those of the hook
 * train_metrics or host_train_metrics. */
typedef struct nt__step_metrics {
    nt_array *outputs;   /* host copy for the host hook; NULL without it */
    nt_metrics *on_host; /* what it set */
    nt_value *values;    /* the first are the run's own */
    size_t own, count;
} nt__step_metrics;
enum { NT__VALUE_LOSS, NT__VALUE_NORM };
nt_status nt__step_metrics_begin(const nt__traced *traced, nt__step_metrics *metrics);
/* `buffers` are the results that the gradient program has for them. */
nt_status nt__step_metrics_read(nt__traced *traced, nt__step_metrics *metrics, nt__buffer *buffers, nt__staged *staged);
void nt__step_metrics_end(nt__step_metrics *metrics);

/* ---- training (train.c, diverged.c) ----------------------------------------------------------------------------- */

/* Where the results of a launch go that has the loss, after the loss itself and without those for metrics, and those of
 * the optimizer program: to the slots of the arguments whose memory they take. *norm: the place of the norm among the
 * latter. */
void nt__bind_results(nt__resident *resident, nt__buffer **loss_results, nt__buffer **optimizer_results, size_t *norm);

/* A loss that is not finite. */
typedef struct nt__divergence {
    double loss;
    nt__place at;
    nt__staged *staged;        /* that micro-batch */
    int64_t began;             /* steps made before this training */
    double first_loss, before; /* the first loss of this training, and that of the step before; nan: there is none */
} nt__divergence;
/* NT_DIVERGED with what to look at. It may launch the program once more, with other parameters. */
nt_status nt__diverged(nt__resident *resident, const nt__divergence *d);

/* ---- passes without training (evaluate.c) ----------------------------------------------------------------------- */

/* A pass over a split with the parameters to evaluate with; `batch` is called for each batch in its order.
 * NT_INTERRUPTED: it was asked to stop. */
typedef nt_status (*nt__batch_function)(void *context, nt__staged *staged);
nt_status nt__pass_without_training(nt__resident *resident, const nt__split *split, const nt__routes *routes,
                                    nt__batch_function batch, void *context);
/* One evaluation. NT_INTERRUPTED: it was asked to stop, and there are no results. */
nt_status nt__evaluate_split(nt_run *run, const nt__split *split);
/* The values of the newest evaluation. */
const nt_value *nt__result_values(const nt_run *run, size_t *count);
void nt__results_forget(nt_run *run);

#endif
