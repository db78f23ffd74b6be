/* The rules that use the learning rate. The notes at the top of nitro/optim.h hold.
 */
#ifndef NITRO_RULES_H
#define NITRO_RULES_H

#include "nitro/rule.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* u = Adam's dx / eta + weight_decay x; dx = eta r u, with r = |x| / |u| of each array by itself, 1 if one of the
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

/* u = g + weight_decay x; s = eta r u, with r = trust |x| / (|u| + epsilon) of each array by itself, 1 if one of the
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

#ifdef __cplusplus
}
#endif

#endif
