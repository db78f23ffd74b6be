/* Rules that scale each parameter by the size of its gradients, without a mean of them: RMSprop, Adagrad, Adadelta.
 * Formulas: nitro/optim.h. */
#include "optim/rules.h"

/* ---- RMSprop: four kinds, so that no state is kept that the options do not need --------------------------------- */

enum { ALPHA, EPSILON, MOMENTUM };
enum { SQUARE, BEHIND_SQUARE };

static nt_tensor scaled(nt_update *u, int mean_state) {
    nt_tensor square = u->next_state[SQUARE] = nt__average(u, u->state[SQUARE], ALPHA, nt_square(u->g));
    if (mean_state > 0) {
        nt_tensor mean = u->next_state[mean_state] = nt__average(u, u->state[mean_state], ALPHA, u->g);
        /* A variance; rounding may leave it a little below 0. */
        square = nt_max(nt_sub(square, nt_square(mean)), 0);
    }
    return nt_div(u->g, nt_add(nt_sqrt(square), u->numbers[EPSILON]));
}

static nt_tensor with_momentum(nt_update *u, int state, nt_tensor step) {
    u->next_state[state] = nt_add(nt_mul(u->state[state], u->numbers[MOMENTUM]), step);
    return nt_mul(u->next_state[state], u->eta);
}

static nt_tensor plain_update(nt_update *u) {
    return nt_mul(scaled(u, 0), u->eta);
}

static nt_tensor centered_update(nt_update *u) {
    return nt_mul(scaled(u, BEHIND_SQUARE), u->eta);
}

static nt_tensor momentum_update(nt_update *u) {
    return with_momentum(u, BEHIND_SQUARE, scaled(u, 0));
}

static nt_tensor centered_momentum_update(nt_update *u) {
    return with_momentum(u, BEHIND_SQUARE + 1, scaled(u, BEHIND_SQUARE));
}

#define RMSPROP_NUMBERS                               \
    {.name = "alpha", .range = NT_BETWEEN_0_AND_1}, { \
        .name = "epsilon", .range = NT_ABOVE_0        \
    }
#define RMSPROP_MOMENTUM \
    { .name = "momentum", .range = NT_FROM_0_BELOW_1, .is_input = true }

/* By whether it is centered and whether it has momentum. */
static const nt_rule_kind rmsprop[2][2] = {
    {{.name = "RMSprop",
      .numbers = {RMSPROP_NUMBERS},
      .states = {{.name = "v"}},
      .update = plain_update,
      .uses_rate = true},
     {.name = "RMSprop",
      .numbers = {RMSPROP_NUMBERS, RMSPROP_MOMENTUM},
      .states = {{.name = "v"}, {.name = "buf"}},
      .update = momentum_update,
      .uses_rate = true}},
    {{.name = "RMSprop, centered",
      .numbers = {RMSPROP_NUMBERS},
      .states = {{.name = "v"}, {.name = "g_avg"}},
      .update = centered_update,
      .uses_rate = true},
     {.name = "RMSprop, centered",
      .numbers = {RMSPROP_NUMBERS, RMSPROP_MOMENTUM},
      .states = {{.name = "v"}, {.name = "g_avg"}, {.name = "buf"}},
      .update = centered_momentum_update,
      .uses_rate = true}},
};

nt_rule nt_rmsprop_with(nt_rmsprop_options options) {
    return nt_rule_of(&rmsprop[options.centered][options.momentum != 0], nt__or(options.alpha, 0.99),
                      nt__or(options.epsilon, 1e-8), options.momentum);
}

/* ---- Adagrad ---------------------------------------------------------------------------------------------------- */

enum { ADAGRAD_EPSILON, INITIAL_ACCUMULATOR };

static nt_tensor adagrad_update(nt_update *u) {
    nt_tensor sum = u->next_state[0] = nt_add(u->state[0], nt_square(u->g));
    return nt_mul(nt_div(u->g, nt_add(nt_sqrt(sum), u->numbers[ADAGRAD_EPSILON])), u->eta);
}

static const nt_rule_kind adagrad = {
    .name = "Adagrad",
    .numbers = {{.name = "epsilon", .range = NT_ABOVE_0}, {.name = "initial_accumulator", .range = NT_NOT_NEGATIVE}},
    .states = {{.name = "sum", .start = NT_START_AT_NUMBER, .number = INITIAL_ACCUMULATOR}},
    .update = adagrad_update,
    .uses_rate = true};

nt_rule nt_adagrad_with(nt_adagrad_options options) {
    return nt_rule_of(&adagrad, nt__or(options.epsilon, 1e-10), options.initial_accumulator);
}

/* ---- Adadelta --------------------------------------------------------------------------------------------------- */

enum { RHO, ADADELTA_EPSILON };
enum { GRADIENTS, STEPS };

static nt_tensor adadelta_update(nt_update *u) {
    nt_tensor epsilon = u->numbers[ADADELTA_EPSILON];
    u->next_state[GRADIENTS] = nt__average(u, u->state[GRADIENTS], RHO, nt_square(u->g));
    nt_tensor ratio =
        nt_div(nt_sqrt(nt_add(u->state[STEPS], epsilon)), nt_sqrt(nt_add(u->next_state[GRADIENTS], epsilon)));
    nt_tensor step = nt_mul(ratio, u->g);
    u->next_state[STEPS] = nt__average(u, u->state[STEPS], RHO, nt_square(step));
    return nt_mul(step, u->eta);
}

static const nt_rule_kind adadelta = {
    .name = "Adadelta",
    .numbers = {{.name = "rho", .range = NT_BETWEEN_0_AND_1}, {.name = "epsilon", .range = NT_ABOVE_0}},
    .states = {{.name = "v"}, {.name = "u"}},
    .update = adadelta_update,
    .uses_rate = true};

nt_rule nt_adadelta_with(nt_adadelta_options options) {
    return nt_rule_of(&adadelta, nt__or(options.rho, 0.9), nt__or(options.epsilon, 1e-6));
}
