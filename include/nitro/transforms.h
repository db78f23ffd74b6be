/* Rules beside those: averages to evaluate with, changes of a gradient or a step, decay.
 * The notes at the top of nitro/optim.h hold.
 */
#ifndef NITRO_TRANSFORMS_H
#define NITRO_TRANSFORMS_H

#include "nitro/rule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- rules that evaluate with other parameters than they train -------------------------------------------------- */

typedef struct nt_schedule_free_options {
    const struct nt_options_are_given_by_name *by_name;
    double beta1;        /* 0.9; between 0 and 1. Constants, but for weight_decay */
    double beta2;        /* 0.999 */
    double epsilon;      /* 1e-8 */
    double weight_decay; /* 0; 0 or more; an input */
    double weight_power; /* 2: a step counts for the largest rate so far to this power */
} nt_schedule_free_options;

/* AdamW without a schedule that has to know the end. y is the parameters where gradients are taken: v = beta2 v +
 * (1 - beta2) g g; z = z - eta (g / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay y); x = (1 - c) x + c z, c the
 * step's weight divided by those of all steps; y = beta1 x + (1 - beta1) z. Evaluations, predictions and saved
 * parameters are x = (y - (1 - beta1) z) / beta1, which is not kept: with parameters of 16 bits it has the rounding of
 * y, so f32 is the better type here. What the no_decay hook spares does not decay. A constant rate after a warm-up is
 * usual. Defazio et al. 2024. */
#define nt_schedule_free_adamw(...) nt_schedule_free_adamw_with((nt_schedule_free_options){__VA_ARGS__})
nt_rule nt_schedule_free_adamw_with(nt_schedule_free_options options);

/* ---- rules that change a gradient or a step --------------------------------------------------------------------- */

typedef struct nt_clip_grad_options {
    double delta; /* 10; above 0; an input */
} nt_clip_grad_options;

/* dx = g between -delta and delta, element by element. */
#define nt_clip_grad(...) nt_clip_grad_with((nt_clip_grad_options){__VA_ARGS__})
nt_rule nt_clip_grad_with(nt_clip_grad_options options);

typedef struct nt_clip_norm_options {
    double omega; /* 10; above 0; an input */
    double p;     /* 2; above 0; INFINITY is the largest magnitude; a constant */
} nt_clip_norm_options;

/* dx = g min(omega / n, 1), n the p-norm of the group's gradient. The norm of all groups together is clipped by the
 * run's gradient_clip_norm. A norm of nan makes all of the group nan. */
#define nt_clip_norm(...) nt_clip_norm_with((nt_clip_norm_options){__VA_ARGS__})
nt_rule nt_clip_norm_with(nt_clip_norm_options options);

typedef struct nt_weight_decay_options {
    double weight_decay; /* 5e-4; 0 or more; an input */
} nt_weight_decay_options;

/* dx = g + weight_decay x: the decay enters the rule after it (L2 regularization). */
#define nt_weight_decay(...) nt_weight_decay_with((nt_weight_decay_options){__VA_ARGS__})
nt_rule nt_weight_decay_with(nt_weight_decay_options options);

/* The last of a chain: dx = g + eta weight_decay (x - anchor), g what the rule before it subtracts; parameters that
 * no_decay excludes keep g. The number is 0 or more, and an input. The weight_decay hook of an experiment puts it
 * after a group's rule. */
nt_rule nt_decay(double number);

/* A group that is not trained: no gradient, no update, no state. It stands alone. */
nt_rule nt_frozen(void);

/* ---- what a decay leads to -------------------------------------------------------------------------------------- */

typedef enum nt_anchor_kind { NT_ANCHOR_ZERO, NT_ANCHOR_INITIAL, NT_ANCHOR_ARRAY } nt_anchor_kind;

/* Zero; the parameters as they were drawn when the run was made, whatever is loaded later; or an array of the group's
 * type and length, its parameters one after the other, which is read while the run is made. */
typedef struct nt_anchor {
    nt_anchor_kind kind;
    const struct nt_array *array;
} nt_anchor;
#define nt_anchor_zero() ((nt_anchor){NT_ANCHOR_ZERO, NULL})
#define nt_anchor_initial() ((nt_anchor){NT_ANCHOR_INITIAL, NULL})
#define nt_anchor_array(values) ((nt_anchor){NT_ANCHOR_ARRAY, values})

#ifdef __cplusplus
}
#endif

#endif
