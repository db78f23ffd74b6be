/* Optimizer rules: how a step turns gradients into new parameters.
 *
 * x is a parameter, g its gradient, eta the learning rate, t the step counted from 1; x becomes x - dx. All state lives
 * on the device. The rate is an input of the program, so changing it compiles nothing; the other numbers of a rule are
 * constants of the program.
 */
#ifndef NITRO_OPTIM_H
#define NITRO_OPTIM_H

#include <stddef.h>

enum { NT_RULE_MAX_CONSTANTS = 4 };

/* A rule with its constants. The zero value is the default rule, RAdam. */
typedef struct nt_rule {
    const struct nt_rule_kind *kind;
    double constants[NT_RULE_MAX_CONSTANTS];
} nt_rule;

/* A member that is not given, or is 0, has its default. beta1 and beta2 lie between 0 and 1, epsilon above 0. */
typedef struct nt_adam_options {
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

/* dx = eta g. */
nt_rule nt_sgd(void);

/* "RAdam", "Adam", "SGD". */
const char *nt_rule_name(nt_rule rule);

#endif
