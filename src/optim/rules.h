/* What the files of rules share.
 * Not here: chains and what a run asks of a rule (optim.h).
 */
#ifndef NT_OPTIM_RULES_H
#define NT_OPTIM_RULES_H

#include "optim/optim.h"

/* Elements that a sum adds in f32, one of each of as many equal pieces of the tensor, before f64 takes over. */
enum { NT__SUMMED_APART = 32 };

/* Kinds that chains and runs treat apart. */
extern const nt_rule_kind nt__decay_kind, nt__frozen_kind;

/* Moving average of the parameters, for the end of a chain: a = decay a + (1 - decay) (x - dx), from the initial
 * parameters on. */
nt_rule nt__ema(double decay);

/* 1 less a number of the rule. Of a constant it is taken in the update's type: 1 - 0.999 in f32 is not 0.001 in f64. */
nt_tensor nt__one_minus(const nt_update *u, int number);
/* An average of `value` that forgets: number state + (1 - number) value. */
nt_tensor nt__average(const nt_update *u, nt_tensor state, int number, nt_tensor value);
/* A constant as it is in the update's type. */
double nt__constant(const nt_update *u, int number);

/* The p-norm of a flat tensor, in its type. */
nt_tensor nt__norm(nt_tensor x, double p);

/* ---- arrays of a group (arrays.c) ------------------------------------------------------------------------------- */

/* The arrays of a bundle out of a flat tensor: [repeats, the axes of an array...]. */
nt_tensor nt__bundle_take(const nt__bundle *bundle, nt_tensor flat);

/* A flat tensor that is put together bundle by bundle, in their order. */
typedef struct nt__sheet {
    nt_tensor flat, stretch;
    const nt__bundle *open; /* the last bundle of a stretch that is not in `flat` yet */
} nt__sheet;
nt__sheet nt__sheet_new(const nt_update *u);
/* `values` has the elements of the bundle in their order, in any shape. */
void nt__sheet_put(nt__sheet *sheet, const nt__bundle *bundle, nt_tensor values);
nt_tensor nt__sheet_done(nt__sheet *sheet);

/* The size of an array's last axis; 1 of a scalar. */
int64_t nt__last_axis(const nt__bundle *bundle);
/* A state of its own length holds parts one after the other: the one from element `at` on, in its shape; and one that
 * is written there, which gives the place after it. */
nt_tensor nt__packed_take(nt_tensor packed, int64_t at, nt_shape shape);
int64_t nt__packed_put(nt_tensor *packed, int64_t at, nt_tensor values);

/* ---- trust ratios (trust.c) ------------------------------------------------------------------------------------- */

/* direction + decay x, where elements decay. */
nt_tensor nt__with_decay(const nt_update *u, nt_tensor direction, nt_tensor decay);
/* Of each array coefficient |x| / (|direction| + epsilon), at each of its elements; 1 where one of the norms is 0 and
 * for arrays that do not decay. */
nt_tensor nt__trust_ratio(const nt_update *u, nt_tensor direction, double coefficient, nt_tensor epsilon);

static inline double nt__or(double given, double otherwise) {
    return given != 0 ? given : otherwise;
}

#endif
