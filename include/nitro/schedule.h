/* Schedules: values that change from one optimizer step to the next.
 *
 * A schedule is a function of the step and the horizon. Steps are optimizer steps, counted from 1, whatever accum is:
 * the value for step t is the one that all micro-batches of step t see. The horizon is max_epochs times the steps of an
 * epoch; max_steps does not change it. What can be scheduled is an input of the programs whether it is or not, so a
 * schedule compiles nothing.
 */
#ifndef NITRO_SCHEDULE_H
#define NITRO_SCHEDULE_H

#include <stdint.h>

/* Called once for each optimizer step, on the training thread, with step >= 1. Control flow and state of its own are
 * allowed; only the step is known again when a run is continued. */
typedef double (*nt_schedule_function)(int64_t step, int64_t total, void *context);

/* A value: copy it freely. The zero value is no schedule. */
typedef struct nt_schedule {
    const struct nt_schedule_kind *kind;
    double from, to;
    int64_t steps, begin;
    nt_schedule_function function;
    void *context;
} nt_schedule;

/* A member that is not given, or is 0, has its default. */
typedef struct nt_schedule_options {
    int64_t steps; /* how many steps the way takes: all of the horizon that is left after `begin` */
    int64_t begin; /* steps before it begins; until then the value is `from`: 0 */
} nt_schedule_options;

/* Always `value`. */
nt_schedule nt_schedule_constant(double value);

/* from + (to - from) p, where p = (t - 1 - begin) / steps, held between 0 and 1: step 1 has `from`, and `to` is reached
 * when the way is over, one step after the last. Later steps keep it. */
#define nt_schedule_linear(from, to, ...) nt_schedule_linear_with(from, to, (nt_schedule_options){__VA_ARGS__})
nt_schedule nt_schedule_linear_with(double from, double to, nt_schedule_options options);

/* to + (from - to) (1 + cos(pi p)) / 2 with the same p. Loshchilov and Hutter 2017, one period. */
#define nt_schedule_cosine(from, to, ...) nt_schedule_cosine_with(from, to, (nt_schedule_options){__VA_ARGS__})
nt_schedule nt_schedule_cosine_with(double from, double to, nt_schedule_options options);

/* A function of yours. A value that is not finite ends the run with an error; past the horizon it makes the run keep
 * the value of step `total`, with a notice. `context` must outlive the run. */
nt_schedule nt_schedule_of(nt_schedule_function function, void *context);

/* ---- what is scheduled ------------------------------------------------------------------------------------------ */

/* A schedule by the name of what it sets:
 *
 *     "smoothing", "device.smoothing"              a Device field; values are converted to its type
 *     "learning_rate", "opt.learning_rate"         the base rate of all groups
 *     "opt.backbone.learning_rate"                 of the group backbone, instead of the base rate
 *
 * A group's rate_ratio multiplies its rate also when that is scheduled. A bare name that is both a Device
 * field and a scalar of the optimizer is an error; the longer spellings say which is meant. */
typedef struct nt_named_schedule {
    const char *name;
    nt_schedule schedule;
} nt_named_schedule;

/* What the schedules hook fills: nt_schedule_set(out, "learning_rate", nt_schedule_cosine(1e-3, 0)). The name is
 * copied. What is wrong with a name is an error of nt_run_new. */
typedef struct nt_schedules nt_schedules;
void nt_schedule_set(nt_schedules *schedules, const char *name, nt_schedule schedule);

#endif
