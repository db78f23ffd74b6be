/* Rules that change a gradient or a step and do not use the rate for themselves: clips and decays; and the rule that
 * does nothing. Formulas: nitro/optim.h. */
#include "optim/rules.h"

/* ---- clips ------------------------------------------------------------------------------------------------------ */

static nt_tensor clip_grad_update(nt_update *u) {
    return nt_max(nt_min(u->g, u->numbers[0]), nt_neg(u->numbers[0]));
}

static const nt_rule_kind clip_grad = {.name = "ClipGrad",
                                       .numbers = {{.name = "delta", .range = NT_ABOVE_0, .is_input = true}},
                                       .update = clip_grad_update};

nt_rule nt_clip_grad_with(nt_clip_grad_options options) {
    return nt_rule_of(&clip_grad, nt__or(options.delta, 10));
}

enum { OMEGA, P };

static nt_tensor clip_norm_update(nt_update *u) {
    nt_tensor ratio = nt_div(u->numbers[OMEGA], nt__norm(u->g, u->constants[P]));
    return nt_mul(u->g, nt_min(ratio, 1));
}

static const nt_rule_kind clip_norm = {
    .name = "ClipNorm",
    .numbers = {{.name = "omega", .range = NT_ABOVE_0, .is_input = true}, {.name = "p", .range = NT_ABOVE_0}},
    .update = clip_norm_update};

nt_rule nt_clip_norm_with(nt_clip_norm_options options) {
    return nt_rule_of(&clip_norm, nt__or(options.omega, 10), nt__or(options.p, 2));
}

/* ---- decays ----------------------------------------------------------------------------------------------------- */

static nt_tensor weight_decay_update(nt_update *u) {
    return nt_add(u->g, nt_mul(u->numbers[0], u->x));
}

static const nt_rule_kind weight_decay = {
    .name = "WeightDecay",
    .numbers = {{.name = "weight_decay", .range = NT_NOT_NEGATIVE, .is_input = true}},
    .update = weight_decay_update};

nt_rule nt_weight_decay_with(nt_weight_decay_options options) {
    return nt_rule_of(&weight_decay, nt__or(options.weight_decay, 5e-4));
}

/* Without an anchor there is no difference to take, and without an exclusion no choice. */
static nt_tensor decay_update(nt_update *u) {
    nt_tensor away = u->anchor ? nt_sub(u->x, *u->anchor) : u->x;
    nt_tensor decayed = nt_add(u->g, nt_mul(nt_mul(u->eta, u->numbers[0]), away));
    return u->decayed ? nt_where(*u->decayed, decayed, u->g) : decayed;
}

const nt_rule_kind nt__decay_kind = {.name = "Decay",
                                     .numbers = {{.name = "weight_decay", .range = NT_NOT_NEGATIVE, .is_input = true}},
                                     .update = decay_update,
                                     .uses_decayed = true};

nt_rule nt_decay(double number) {
    return nt_rule_of(&nt__decay_kind, number);
}

/* ---- frozen ----------------------------------------------------------------------------------------------------- */

/* It is never updated, so it has no update. */
const nt_rule_kind nt__frozen_kind = {.name = "Frozen"};

nt_rule nt_frozen(void) {
    return nt_rule_of(&nt__frozen_kind, 0);
}
