/* Rules of the first order: SGD, momentum, Nesterov, LARS, Lion. Formulas: nitro/optim.h. */
#include "optim/rules.h"

/* ---- SGD -------------------------------------------------------------------------------------------------------- */

static nt_tensor sgd_update(nt_update *u) {
    return nt_mul(u->eta, u->g);
}

static const nt_rule_kind sgd = {.name = "SGD", .update = sgd_update, .uses_rate = true};

nt_rule nt_sgd(void) {
    return nt_rule_of(&sgd, 0);
}

/* ---- momentum --------------------------------------------------------------------------------------------------- */

#define MOMENTUM_PARTS                                                                                      \
    .numbers = {{.name = "rho", .range = NT_BETWEEN_0_AND_1, .is_input = true}}, .states = {{.name = "v"}}, \
    .uses_rate = true

static nt_tensor momentum_update(nt_update *u) {
    return u->next_state[0] = nt_add(nt_mul(u->state[0], u->numbers[0]), nt_mul(u->eta, u->g));
}

/* The old velocity enters dx; its sign is opposite to that of momentum. */
static nt_tensor nesterov_update(nt_update *u) {
    nt_tensor rho = u->numbers[0], step = nt_mul(u->eta, u->g), kept = nt_mul(rho, u->state[0]);
    u->next_state[0] = nt_sub(kept, step);
    return nt_sub(nt_mul(nt_add(1, rho), step), nt_mul(rho, kept));
}

static const nt_rule_kind momentum = {.name = "Momentum", MOMENTUM_PARTS, .update = momentum_update};
static const nt_rule_kind nesterov = {.name = "Nesterov", MOMENTUM_PARTS, .update = nesterov_update};

nt_rule nt_momentum_with(nt_momentum_options options) {
    return nt_rule_of(&momentum, nt__or(options.rho, 0.9));
}

nt_rule nt_nesterov_with(nt_momentum_options options) {
    return nt_rule_of(&nesterov, nt__or(options.rho, 0.9));
}

/* ---- LARS ------------------------------------------------------------------------------------------------------- */

enum { LARS_MOMENTUM, LARS_DECAY, TRUST, LARS_EPSILON, NESTEROV };

static nt_tensor lars_update(nt_update *u) {
    nt_tensor direction = nt__with_decay(u, u->g, u->numbers[LARS_DECAY]);
    nt_tensor trust = nt__trust_ratio(u, direction, u->constants[TRUST], u->numbers[LARS_EPSILON]);
    nt_tensor step = nt_mul(u->eta, nt_mul(trust, direction));
    nt_tensor v = u->next_state[0] = nt_add(nt_mul(u->state[0], u->numbers[LARS_MOMENTUM]), step);
    return u->constants[NESTEROV] != 0 ? nt_add(nt_mul(v, u->numbers[LARS_MOMENTUM]), step) : v;
}

static const nt_rule_kind lars = {.name = "LARS",
                                  .numbers = {{.name = "momentum", .range = NT_FROM_0_BELOW_1, .is_input = true},
                                              {.name = "weight_decay", .range = NT_NOT_NEGATIVE, .is_input = true},
                                              {.name = "trust", .range = NT_ABOVE_0},
                                              {.name = "epsilon", .range = NT_NOT_NEGATIVE},
                                              {.name = "nesterov", .range = NT_YES_OR_NO}},
                                  .states = {{.name = "v"}},
                                  .update = lars_update,
                                  .uses_rate = true,
                                  .uses_decayed = true,
                                  .uses_arrays = true};

nt_rule nt_lars_with(nt_lars_options options) {
    return nt_rule_of(&lars, nt__or(options.momentum, 0.9), options.weight_decay, nt__or(options.trust, 1e-3),
                      options.epsilon, options.nesterov);
}

/* ---- Lion ------------------------------------------------------------------------------------------------------- */

enum { BETA1, BETA2, WEIGHT_DECAY };

static nt_tensor lion_update(nt_update *u) {
    nt_tensor direction = nt_sign(nt__average(u, u->state[0], BETA1, u->g));
    u->next_state[0] = nt__average(u, u->state[0], BETA2, u->g);
    return nt_mul(u->eta, nt_add(direction, nt_mul(u->numbers[WEIGHT_DECAY], u->x)));
}

static const nt_rule_kind lion = {.name = "Lion",
                                  .numbers = {{.name = "beta1", .range = NT_BETWEEN_0_AND_1},
                                              {.name = "beta2", .range = NT_BETWEEN_0_AND_1},
                                              {.name = "weight_decay", .range = NT_NOT_NEGATIVE, .is_input = true}},
                                  .states = {{.name = "m"}},
                                  .update = lion_update,
                                  .uses_rate = true};

nt_rule nt_lion_with(nt_lion_options options) {
    return nt_rule_of(&lion, nt__or(options.beta1, 0.9), nt__or(options.beta2, 0.99), options.weight_decay);
}
