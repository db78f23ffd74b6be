/* Schedules: values that change from one optimizer step to the next.
 *
 * A schedule is a function of the step and the horizon. Steps are optimizer steps, counted from 1, whatever accum is:
 * the value for step t is the one that all micro-batches of step t see. The horizon is max_epochs times the steps of an
 * epoch; max_steps does not change it. What can be scheduled is an input of the programs whether it is or not, so a
 * schedule compiles nothing.
 */
#ifndef NITRO_SCHEDULE_H
#define NITRO_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "nitro/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Called once for each optimizer step, on the training thread, with step >= 1. Control flow and state of its own are
 * allowed; only the step is known again when a run is continued. */
typedef double (*nt_schedule_function)(int64_t step, int64_t total, void *context);

/* From step `after` + 1 on, when `after` steps have been made, the value is `value`. */
typedef struct nt_schedule_point {
    int64_t after;
    double value;
} nt_schedule_point;

enum { NT_SCHEDULE_NUMBERS = 4 };

/* A value: copy it freely. The zero value is no schedule. Points and parts of nt_schedule_piecewise,
 * nt_schedule_interpolated and nt_schedule_sequence are not in it: they live as long as the block that the call is
 * written in. nt_schedule_set and nt_run_new copy them. */
typedef struct nt_schedule {
    const struct nt_schedule_kind *kind;
    double numbers[NT_SCHEDULE_NUMBERS];
    int64_t steps, begin, warmup;
    double warmup_from;
    nt_schedule_function function;
    void *context;
    const nt_schedule_point *points;
    const struct nt_schedule_part *parts;
    size_t count; /* of points or parts */
} nt_schedule;

/* A schedule for so many steps. */
typedef struct nt_schedule_part {
    int64_t steps; /* 0: all that are left */
    nt_schedule schedule;
} nt_schedule_part;

/* A member that is not given, or is 0, has its default. */
typedef struct nt_schedule_options {
    int64_t steps; /* how many steps the way takes: all of the horizon that is left after `begin`. Of linear, cosine,
                      polynomial and one-cycle */
    int64_t begin; /* steps before it begins; until then it has the value of its first step: 0 */
} nt_schedule_options;

/* Below, c = t - 1 - begin, at least 0, counts the steps made since the beginning, and p = c / steps, at most 1, is how
 * much of the way they are: step 1 has p = 0, and p = 1 comes one step after the last. Unless something else is said,
 * steps past the horizon go on by the same formula. */

/* Always `value`. */
nt_schedule nt_schedule_constant(double value);

/* from + (to - from) p. Later steps keep `to`. */
#define nt_schedule_linear(from, to, ...) nt_schedule_linear_with(from, to, (nt_schedule_options){__VA_ARGS__})
nt_schedule nt_schedule_linear_with(double from, double to, nt_schedule_options options);

/* to + (from - to) (1 + cos(pi p)) / 2. Later steps keep `to`. Loshchilov and Hutter 2017, one period. */
#define nt_schedule_cosine(from, to, ...) nt_schedule_cosine_with(from, to, (nt_schedule_options){__VA_ARGS__})
nt_schedule nt_schedule_cosine_with(double from, double to, nt_schedule_options options);

/* The same cosine again and again: the first period takes `period` steps, each further one `multiplier` times as many
 * as the one before; each begins with `from`. Warm restarts, Loshchilov and Hutter 2017. period >= 1, multiplier >= 1
 * (0: 1). Periods of any lengths are a nt_schedule_sequence of cosines. */
#define nt_schedule_restarts(from, to, period, multiplier, ...) \
    nt_schedule_restarts_with(from, to, period, multiplier, (nt_schedule_options){__VA_ARGS__})
nt_schedule nt_schedule_restarts_with(double from, double to, double period, double multiplier,
                                      nt_schedule_options options);

/* from rate^(c / every), but not beyond `limit`: not below it when rate < 1, not above it when rate > 1; 0: no limit.
 * rate > 0, every > 0. */
#define nt_schedule_exponential(from, rate, every, limit, ...) \
    nt_schedule_exponential_with(from, rate, every, limit, (nt_schedule_options){__VA_ARGS__})
nt_schedule nt_schedule_exponential_with(double from, double rate, double every, double limit,
                                         nt_schedule_options options);

/* to + (from - to) (1 - p)^power, power > 0. Later steps keep `to`. */
#define nt_schedule_polynomial(from, to, power, ...) \
    nt_schedule_polynomial_with(from, to, power, (nt_schedule_options){__VA_ARGS__})
nt_schedule nt_schedule_polynomial_with(double from, double to, double power, nt_schedule_options options);

/* from factor^floor(c / every): times `factor` after every `every` steps. every >= 1. */
#define nt_schedule_step(from, factor, every, ...) \
    nt_schedule_step_with(from, factor, every, (nt_schedule_options){__VA_ARGS__})
nt_schedule nt_schedule_step_with(double from, double factor, double every, nt_schedule_options options);

/* Up from peak / start_divisor to `peak` and down to peak / start_divisor / final_divisor, both along a cosine. The
 * peak is at c = fraction_up steps - 1, which may lie between two steps, and the last step has the end value, which
 * later ones keep. Smith and Topin 2019, in the form with two phases. Numbers that are 0 have their defaults:
 * fraction_up 0.3 (in (0, 1)), start_divisor 25, final_divisor 10000. */
#define nt_schedule_one_cycle(peak, fraction_up, start_divisor, final_divisor, ...) \
    nt_schedule_one_cycle_with(peak, fraction_up, start_divisor, final_divisor, (nt_schedule_options){__VA_ARGS__})
nt_schedule nt_schedule_one_cycle_with(double peak, double fraction_up, double start_divisor, double final_divisor,
                                       nt_schedule_options options);

/* peak min((c + 1) / warmup, sqrt(warmup / (c + 1))): `peak` at step `warmup` >= 1. Vaswani et al. 2017, whose scale
 * for a model of size d is peak = 1 / sqrt(d warmup). */
#define nt_schedule_inverse_sqrt(peak, warmup, ...) \
    nt_schedule_inverse_sqrt_with(peak, warmup, (nt_schedule_options){__VA_ARGS__})
nt_schedule nt_schedule_inverse_sqrt_with(double peak, double warmup, nt_schedule_options options);

/* nt_schedule_piecewise(0.1, {500, 0.05}, {800, 0.01}): 0.1 for 500 steps, then 0.05 for 300, then 0.01. The points are
 * in order, each `after` >= 1. */
#define nt_schedule_piecewise(from, ...)                                 \
    nt_schedule_piecewise_with(from, (nt_schedule_point[]){__VA_ARGS__}, \
                               sizeof((nt_schedule_point[]){__VA_ARGS__}) / sizeof(nt_schedule_point))
nt_schedule nt_schedule_piecewise_with(double from, const nt_schedule_point *points, size_t count);

/* The same points joined by straight lines, from `from` at step 1 on; after the last one its value is kept. */
#define nt_schedule_interpolated(from, ...)                                 \
    nt_schedule_interpolated_with(from, (nt_schedule_point[]){__VA_ARGS__}, \
                                  sizeof((nt_schedule_point[]){__VA_ARGS__}) / sizeof(nt_schedule_point))
nt_schedule nt_schedule_interpolated_with(double from, const nt_schedule_point *points, size_t count);

/* nt_schedule_sequence({100, nt_schedule_linear(0, 0.1)}, {0, nt_schedule_cosine(0.1, 0)}): one after the other. Each
 * counts its steps from its own beginning, and its horizon is its own number of steps; the last one goes on past it.
 * Only the last may have 0 steps, which are all that are left. */
#define nt_schedule_sequence(...)                                \
    nt_schedule_sequence_with((nt_schedule_part[]){__VA_ARGS__}, \
                              sizeof((nt_schedule_part[]){__VA_ARGS__}) / sizeof(nt_schedule_part))
nt_schedule nt_schedule_sequence_with(const nt_schedule_part *parts, size_t count);

/* A function of yours. A value that is not finite ends the run with an error; past the horizon it makes the run keep
 * the value of step `total`, with a notice. `context` must outlive the run. */
nt_schedule nt_schedule_of(nt_schedule_function function, void *context);

/* `then` with a warm-up of `steps` before it: from + (first - from) t / steps, where `first` is the value of `then` at
 * its step 1; so step 1 is not wasted on `from`, and step `steps` has `first`. `then` counts its steps, and its
 * horizon, from after the warm-up. Takes the place of a warm-up that `then` has already. */
nt_schedule nt_schedule_warmup(int64_t steps, double from, nt_schedule then);

/* The value for a step, which counts from 1, under a horizon of `total` steps. NaN with a message for what is no
 * schedule. */
double nt_schedule_value(const nt_schedule *schedule, int64_t step, int64_t total);
/* Writes it as text, "cosine(0.001 0)". */
nt_status nt_schedule_print(const nt_schedule *schedule, FILE *out);

/* ---- what is scheduled ------------------------------------------------------------------------------------------ */

/* A schedule by the name of what it sets:
 *
 *     "smoothing", "device.smoothing"              a Device field; values are converted to its type
 *     "learning_rate", "opt.learning_rate"         the base rate of all groups
 *     "opt.backbone.learning_rate"                 of the group backbone, instead of the base rate
 *
 * A value must lie where what it sets must: a rate is not negative, another scalar is in the range of its rule (as
 * nitro/optim.h names it), a Device field is what the losses and layers that are given it need (nitro/losses.h). The
 * first and the last value of a run and some between are checked when the run is made, but for those of a function;
 * each one at its step.
 *
 * A group's rate_ratio multiplies its rate also when that is scheduled. A bare name that is both a Device
 * field and a scalar of the optimizer is an error; the longer spellings say which is meant. */
typedef struct nt_named_schedule {
    const char *name;
    nt_schedule schedule;
} nt_named_schedule;

/* What the schedules hook fills: nt_schedule_set(out, "learning_rate", nt_schedule_cosine(1e-3, 0)). The name,
 * points and parts are copied. What is wrong with a name is an error of nt_run_new. */
typedef struct nt_schedules nt_schedules;
void nt_schedule_set(nt_schedules *schedules, const char *name, nt_schedule schedule);

#ifdef __cplusplus
}
#endif

#endif
