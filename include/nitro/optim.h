/* Optimizer rules: how a step turns gradients into new parameters.
 *
 * x is a parameter, g its gradient, eta the learning rate, t the step counted from 1; x becomes x - dx. All state lives
 * on the device, one array for each group of parameters. A rule has numbers. Some are inputs of the program: another
 * value compiles nothing, and a schedule may set them. The others are constants of the program. The learning rate is an
 * input of every rule, so it is not given to a constructor.
 *
 * A member of an options struct that is not given, or is 0, has its default. Members are given by name, as in
 * nt_adam(.beta1 = 0.8). Where a rule uses the rate the first member is a pointer that is never set, so that
 * nt_adam(1e-3), which other libraries take for the rate and which would be beta1 here, does not compile.
 */
#ifndef NITRO_OPTIM_H
#define NITRO_OPTIM_H

#include <stdbool.h>
#include <stddef.h>

#include "nitro/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NT_RULE_MAX_NUMBERS = 8, NT_RULE_MAX_STATES = 6, NT_CHAIN_MAX = 6 };

/* A rule with its numbers. */
typedef struct nt_rule_link {
    const struct nt_rule_kind *kind;
    double numbers[NT_RULE_MAX_NUMBERS];
} nt_rule_link;

/* A rule, or a chain of them. The zero value is the default rule, RAdam. */
typedef struct nt_rule {
    size_t count; /* of links; a chain of more than NT_CHAIN_MAX is refused when a run is made */
    nt_rule_link links[NT_CHAIN_MAX];
} nt_rule;

/* "RAdam", "Adam", "SGD"; of a chain "ClipGrad, Adam". Lives until the thread's next call. */
const char *nt_rule_name(nt_rule rule);

/* ---- rules that use the learning rate --------------------------------------------------------------------------- */

/* dx = eta g. */
nt_rule nt_sgd(void);

typedef struct nt_momentum_options {
    const struct nt_options_are_given_by_name *by_name;
    double rho; /* 0.9; between 0 and 1; an input */
} nt_momentum_options;

/* v = rho v + eta g; dx = v. The rate is inside the velocity. Polyak 1964. */
#define nt_momentum(...) nt_momentum_with((nt_momentum_options){__VA_ARGS__})
nt_rule nt_momentum_with(nt_momentum_options options);

/* dx = (1 + rho) eta g - rho^2 v; then v = rho v - eta g. Nesterov 1983, in the form of Bengio et al. 2013. */
#define nt_nesterov(...) nt_nesterov_with((nt_momentum_options){__VA_ARGS__})
nt_rule nt_nesterov_with(nt_momentum_options options);

/* beta1 and beta2 lie between 0 and 1, epsilon above 0. Constants. */
typedef struct nt_adam_options {
    const struct nt_options_are_given_by_name *by_name;
    double beta1;   /* 0.9 */
    double beta2;   /* 0.999 */
    double epsilon; /* 1e-8 */
} nt_adam_options;

/* m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g g; dx = eta (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) +
 * epsilon). Kingma and Ba 2015. */
#define nt_adam(...) nt_adam_with((nt_adam_options){__VA_ARGS__})
nt_rule nt_adam_with(nt_adam_options options);

/* Adam whose step is rectified by the variance of its adaptive rate, and un-adapted while that is unknown (rho <= 4).
 * Liu et al. 2020. */
#define nt_radam(...) nt_radam_with((nt_adam_options){__VA_ARGS__})
nt_rule nt_radam_with(nt_adam_options options);

typedef struct nt_adamw_options {
    const struct nt_options_are_given_by_name *by_name;
    double beta1;        /* 0.9 */
    double beta2;        /* 0.999 */
    double epsilon;      /* 1e-8 */
    double weight_decay; /* 0; 0 or more; an input */
    bool uncoupled;      /* the decay is not multiplied by the rate */
} nt_adamw_options;

/* With Adam's dx: dx + eta weight_decay x; uncoupled: dx + weight_decay x. Every parameter decays, whatever the
 * no_decay hook says; with nt_adam() and the weight_decay hook those that it spares, by default those of one axis, do
 * not. Loshchilov and Hutter 2019. */
#define nt_adamw(...) nt_adamw_with((nt_adamw_options){__VA_ARGS__})
nt_rule nt_adamw_with(nt_adamw_options options);

/* m as Adam; u = max(beta2 u, |g| + epsilon); dx = eta (m / (1 - beta1^t)) / u. Kingma and Ba 2015. */
#define nt_adamax(...) nt_adamax_with((nt_adam_options){__VA_ARGS__})
nt_rule nt_adamax_with(nt_adam_options options);

typedef struct nt_nadam_options {
    const struct nt_options_are_given_by_name *by_name;
    double beta1;          /* 0.9 */
    double beta2;          /* 0.999 */
    double epsilon;        /* 1e-8 */
    double momentum_decay; /* 0; 0 or more. Constants */
} nt_nadam_options;

/* Adam with a look ahead in its mean: beta1 m / (1 - beta1^(t+1)) + (1 - beta1) g / (1 - beta1^t). With momentum_decay
 * the look ahead has a beta1 of its own at each step, b(t) = beta1 (1 - 0.96^(t momentum_decay) / 2): b(t+1) m / (1 -
 * b(1) b(2) ... b(t+1)) + (1 - b(t)) g / (1 - b(1) b(2) ... b(t)). Dozat 2016. */
#define nt_nadam(...) nt_nadam_with((nt_nadam_options){__VA_ARGS__})
nt_rule nt_nadam_with(nt_nadam_options options);

typedef struct nt_amsgrad_options {
    const struct nt_options_are_given_by_name *by_name;
    double beta1;   /* 0.9 */
    double beta2;   /* 0.999 */
    double epsilon; /* 1e-8. Constants */
    bool corrected; /* the maximum is taken of v / (1 - beta2^t) */
} nt_amsgrad_options;

/* Adam that divides by the largest v so far; the maximum is taken before the correction by 1 - beta2^t, as in Reddi et
 * al. 2018, or after it. */
#define nt_amsgrad(...) nt_amsgrad_with((nt_amsgrad_options){__VA_ARGS__})
nt_rule nt_amsgrad_with(nt_amsgrad_options options);

typedef struct nt_lion_options {
    const struct nt_options_are_given_by_name *by_name;
    double beta1;        /* 0.9 */
    double beta2;        /* 0.99 */
    double weight_decay; /* 0; 0 or more; an input */
} nt_lion_options;

/* dx = eta (sign(beta1 m + (1 - beta1) g) + weight_decay x); then m = beta2 m + (1 - beta2) g. A rate a tenth of Adam's
 * is usual. Chen et al. 2023. */
#define nt_lion(...) nt_lion_with((nt_lion_options){__VA_ARGS__})
nt_rule nt_lion_with(nt_lion_options options);

typedef struct nt_rmsprop_options {
    const struct nt_options_are_given_by_name *by_name;
    double alpha;    /* 0.99; between 0 and 1. Constant, as all here but momentum */
    double epsilon;  /* 1e-8 */
    double momentum; /* 0; below 1; an input when the rule has momentum at all */
    bool centered;
} nt_rmsprop_options;

/* v = alpha v + (1 - alpha) g g; u = g / (sqrt(v) + epsilon); dx = eta u. With momentum: b = momentum b + u; dx = eta
 * b. Centered: a = alpha a + (1 - alpha) g, and v - a a stands for v under the root. Tieleman and Hinton 2012;
 * centered: Graves 2013. */
#define nt_rmsprop(...) nt_rmsprop_with((nt_rmsprop_options){__VA_ARGS__})
nt_rule nt_rmsprop_with(nt_rmsprop_options options);

typedef struct nt_adagrad_options {
    const struct nt_options_are_given_by_name *by_name;
    double epsilon;             /* 1e-10. Constants */
    double initial_accumulator; /* 0 */
} nt_adagrad_options;

/* s = s + g g, from initial_accumulator; dx = eta g / (sqrt(s) + epsilon). Duchi et al. 2011. */
#define nt_adagrad(...) nt_adagrad_with((nt_adagrad_options){__VA_ARGS__})
nt_rule nt_adagrad_with(nt_adagrad_options options);

typedef struct nt_adadelta_options {
    const struct nt_options_are_given_by_name *by_name;
    double rho;     /* 0.9; between 0 and 1. Constants */
    double epsilon; /* 1e-6 */
} nt_adadelta_options;

/* v = rho v + (1 - rho) g g; d = g sqrt(u + epsilon) / sqrt(v + epsilon); u = rho u + (1 - rho) d d; dx = eta d. A rate
 * of 1 is usual. Zeiler 2012. */
#define nt_adadelta(...) nt_adadelta_with((nt_adadelta_options){__VA_ARGS__})
nt_rule nt_adadelta_with(nt_adadelta_options options);

/* ---- rules that look at each array ------------------------------------------------------------------------------ */

typedef struct nt_lamb_options {
    const struct nt_options_are_given_by_name *by_name;
    double beta1;        /* 0.9 */
    double beta2;        /* 0.999 */
    double epsilon;      /* 1e-6 */
    double weight_decay; /* 0; 0 or more; an input */
} nt_lamb_options;

/* u = Adam's dx / eta + weight_decay x; dx = eta r u, with r = |x| / |u| of each array by itself, 1 where one of the
 * norms is 0. What the no_decay hook spares (by default arrays of one axis: biases, scales, shifts) does not decay and
 * has r = 1. You et al. 2020, without a bound on |x|. */
#define nt_lamb(...) nt_lamb_with((nt_lamb_options){__VA_ARGS__})
nt_rule nt_lamb_with(nt_lamb_options options);

typedef struct nt_lars_options {
    const struct nt_options_are_given_by_name *by_name;
    double momentum;     /* 0.9; between 0 and 1; an input */
    double weight_decay; /* 0; 0 or more; an input */
    double trust;        /* 0.001; above 0; a constant, as what follows */
    double epsilon;      /* 0; 0 or more */
    bool nesterov;
} nt_lars_options;

/* u = g + weight_decay x; s = eta r u, with r = trust |x| / (|u| + epsilon) of each array by itself, 1 where one of the
 * norms is 0; v = momentum v + s; dx = v, with nesterov momentum v + s. What the no_decay hook spares does not decay
 * and has r = 1. You et al. 2017; the rate is inside the velocity. */
#define nt_lars(...) nt_lars_with((nt_lars_options){__VA_ARGS__})
nt_rule nt_lars_with(nt_lars_options options);

typedef struct nt_adafactor_options {
    const struct nt_options_are_given_by_name *by_name;
    double decay_rate;         /* 0.8; above 0. Constants */
    double clipping_threshold; /* 1: largest root of the mean square of a step before it is scaled */
    double epsilon;            /* 1e-30 */
    double factored_from;      /* 128: arrays whose last two axes have as many elements or more are factored */
    bool no_parameter_scale;   /* the step is not multiplied by the array's own size */
    double smallest_scale;     /* 1e-3: the least that it is multiplied by */
} nt_adafactor_options;

/* v = d v + (1 - d) (g g + epsilon) with d = 1 - t^-decay_rate, kept for a factored array as means over its rows and
 * over its columns, r and c, which stand for r c / mean(r); u = g / sqrt(v); u = u / max(1, rms(u) /
 * clipping_threshold); dx = eta max(rms(x), smallest_scale) u, rms the root of the mean square of an array. State: for
 * a matrix of n by m n + m numbers. An array of more axes is matrices of its last two. Equal arrays that lie at equal
 * distances, as those of equal layers do, are updated together; with the other arrays the program grows. Shazeer and
 * Stern 2018, without momentum; the rate is a schedule's (1 / sqrt(t) up to 0.01 in the paper). */
#define nt_adafactor(...) nt_adafactor_with((nt_adafactor_options){__VA_ARGS__})
nt_rule nt_adafactor_with(nt_adafactor_options options);

typedef struct nt_muon_options {
    const struct nt_options_are_given_by_name *by_name;
    double beta;       /* 0.95; between 0 and 1. Constants, but for adam_ratio */
    double beta1;      /* 0.9, of arrays that are no matrices */
    double beta2;      /* 0.999 */
    double epsilon;    /* 1e-8 */
    int iterations;    /* 5 */
    bool no_nesterov;  /* the momentum itself is made orthogonal, not a step ahead of it */
    double adam_ratio; /* 1: what the rate is multiplied by for arrays that are no matrices; above 0; an input */
} nt_muon_options;

/* Of a matrix (two axes: inputs, outputs): m = beta m + (1 - beta) g; n = beta m / (1 - beta^(t+1)) + (1 - beta) g / (1
 * - beta^t); X = n / (|n| + epsilon), then 5 times X = 3.4445 X - 4.775 A X + 2.0315 A A X with A = X X^T; dx = eta
 * sqrt(max(1, outputs / inputs)) X. Arrays of other than two axes take Adam's dx times adam_ratio. Embeddings and the
 * last layer are matrices too, which are better put into a group with another rule by the param_group hook; a weight
 * decay is that of the weight_decay hook. Equal matrices at equal distances are updated together, as with Adafactor.
 * Jordan et al. 2024. */
#define nt_muon(...) nt_muon_with((nt_muon_options){__VA_ARGS__})
nt_rule nt_muon_with(nt_muon_options options);

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

/* ---- chains ----------------------------------------------------------------------------------------------------- */

/* What a rule subtracts is the gradient of the next one; all see x as it was: nt_chain(nt_clip_grad(), nt_adam()).
 * Refused when a run is made: two rules with the same input (also: two that use the learning rate), none that uses the
 * rate, nt_decay elsewhere than at the end, nt_frozen, more than NT_CHAIN_MAX rules. */
#define nt_chain(...) \
    nt_chain_of((const nt_rule[]){__VA_ARGS__}, sizeof((const nt_rule[]){__VA_ARGS__}) / sizeof(nt_rule))
nt_rule nt_chain_of(const nt_rule *rules, size_t count);

/* ---- a rule of one's own ---------------------------------------------------------------------------------------- */

typedef enum nt_range {
    NT_ABOVE_0,
    NT_NOT_NEGATIVE,
    NT_BETWEEN_0_AND_1, /* neither of the two */
    NT_FROM_0_BELOW_1,  /* 0 too, as a schedule may give it */
    NT_YES_OR_NO,       /* 0 or 1 */
} nt_range;

/* A number of a rule. Its name is what a schedule calls it: opt.NAME. */
typedef struct nt_rule_number {
    const char *name;
    nt_range range;
    bool is_input; /* an input of the program; else a constant of it, which cannot be scheduled */
} nt_rule_number;

typedef enum nt_start { NT_START_AT_VALUE, NT_START_AT_NUMBER, NT_START_AT_PARAMETERS } nt_start;

/* An array of a group: a parameter as the model declared it, and its place in the group's flat tensor. */
typedef struct nt_rule_array {
    const char *path;
    nt_shape shape;
    int64_t offset, length; /* elements */
} nt_rule_array;

/* A part of a rule's state, for each group: one element for each parameter, a scalar, or as many elements as `length`
 * says. Of f64 for parameters of f64, else of f32. */
typedef struct nt_rule_state {
    const char *name;
    bool is_scalar;
    bool is_count; /* a scalar of i32 */
    /* Elements, from the group's arrays and the rule's numbers; NULL: one for each parameter. */
    int64_t (*length)(const nt_rule_array *arrays, size_t count, const double *numbers);
    nt_start start; /* with NT_START_AT_NUMBER `number` is the place among the rule's numbers */
    int number;
    double value;
} nt_rule_state;

/* What an update sees: tensors of a group, flat, in f64 for parameters of f64, else in f32. */
typedef struct nt_update {
    nt_dtype dtype;
    nt_tensor x, g, eta;      /* eta: a scalar */
    const nt_tensor *numbers; /* one for each number: a scalar, or the C number that a constant is */
    const double *constants;  /* the same as C numbers; nan for inputs */
    const nt_tensor *state;
    nt_tensor *next_state;       /* to be set, each in the type of its state */
    const nt_rule_array *arrays; /* of the group, in the order of their places */
    size_t array_count;
    const struct nt__bundle *bundles; /* the same for nitro's own rules */
    size_t bundle_count;
    const nt_tensor *places;  /* for nt_update_sums and nt_update_spread; NULL where the kind does not use arrays */
    const nt_tensor *decayed; /* bool: which elements decay; NULL: all */
    const nt_tensor *anchor;  /* what they decay to; NULL: zero */
} nt_update;

/* A static struct: it must live as long as the runs. */
typedef struct nt_rule_kind {
    const char *name;
    nt_rule_number numbers[NT_RULE_MAX_NUMBERS]; /* ends with the first that has no name, as the states do */
    nt_rule_state states[NT_RULE_MAX_STATES];
    nt_tensor (*update)(nt_update *u); /* traced; returns dx */
    /* Traced; the parameters that evaluations, predictions and saved files have, from x, the numbers and the state
     * (g and eta are not set). NULL: the parameters themselves. A rule with it is the last of its chain. */
    nt_tensor (*evaluated)(const nt_update *u);
    bool uses_rate;
    bool uses_decayed; /* the update looks at `decayed`, which the no_decay hook says; else it is NULL */
    bool uses_arrays;  /* the update calls nt_update_sums or nt_update_spread */
} nt_rule_kind;

/* Of each array of the group the sum over its elements of the flat tensor x: f64 [array_count]. And the other way: a
 * number for each array, [array_count] of any type, at each of its elements. Neither makes the program grow with the
 * number of arrays. */
nt_tensor nt_update_sums(const nt_update *u, nt_tensor x);
nt_tensor nt_update_spread(const nt_update *u, nt_tensor values);

/* The rule with numbers, in the order of its kind: nt_rule_of(&kind, 0.9, 1e-8). */
#define nt_rule_of(kind, ...) nt_rule_with(kind, (const double[NT_RULE_MAX_NUMBERS]){__VA_ARGS__})
nt_rule nt_rule_with(const nt_rule_kind *kind, const double *numbers);

#ifdef __cplusplus
}
#endif

#endif
