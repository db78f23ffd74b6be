/* What the files of rules share.
 * Not here: chains and what a run asks of a rule (optim.h).
 */
#ifndef NT_OPTIM_RULES_H
#define NT_OPTIM_RULES_H

#include "optim/optim.h"

/* Kinds that chains and runs treat apart. */
extern const nt_rule_kind nt__decay_kind, nt__frozen_kind;

/* 1 less a number of the rule. Of a constant it is taken in the update's type: 1 - 0.999 in f32 is not 0.001 in f64. */
nt_tensor nt__one_minus(const nt_update *u, int number);
/* An average of `value` that forgets: number state + (1 - number) value. */
nt_tensor nt__average(const nt_update *u, nt_tensor state, int number, nt_tensor value);
/* A constant as it is in the update's type. */
double nt__constant(const nt_update *u, int number);

/* The p-norm of a flat tensor, in its type. */
nt_tensor nt__norm(nt_tensor x, double p);

static inline double nt__or(double given, double otherwise) {
    return given != 0 ? given : otherwise;
}

#endif
