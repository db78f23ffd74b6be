/* Adam and its kin: RAdam, AdamW, Adamax, NAdam, AMSGrad, LAMB. Formulas: nitro/optim.h. */
#include "optim/rules.h"

enum { BETA1, BETA2, EPSILON, WEIGHT_DECAY, UNCOUPLED, MOMENTUM_DECAY = WEIGHT_DECAY, CORRECTED = WEIGHT_DECAY };
/* After the powers each rule has its own. */
enum { FIRST_MOMENT, SECOND_MOMENT, POWER1, POWER2, STEP, LARGEST = STEP, MOMENTUM_PRODUCT };

#define BETAS_AND_EPSILON                                                                             \
    {.name = "beta1", .range = NT_BETWEEN_0_AND_1}, {.name = "beta2", .range = NT_BETWEEN_0_AND_1}, { \
        .name = "epsilon", .range = NT_ABOVE_0                                                        \
    }
/* power1 and power2 are beta to the t: they start at t = 1 and advance after use. */
#define MOMENTS_AND_POWERS                                                                                             \
    {.name = "m"}, {.name = "v"}, {.name = "power1", .is_scalar = true, .start = NT_START_AT_NUMBER, .number = BETA1}, \
    {                                                                                                                  \
        .name = "power2", .is_scalar = true, .start = NT_START_AT_NUMBER, .number = BETA2                              \
    }

/* ---- moments ---------------------------------------------------------------------------------------------------- */

static nt_tensor without_bias(const nt_update *u, nt_tensor value, int power) {
    return nt_div(value, nt_sub(1, u->state[power]));
}

static nt_tensor advance_power(const nt_update *u, int power, int beta) {
    return u->next_state[power] = nt_mul(u->state[power], u->numbers[beta]);
}

/* Advances the moments and the powers; returns the two bias-corrected moments. */
static void advance_moments(nt_update *u, nt_tensor *mean, nt_tensor *square) {
    u->next_state[FIRST_MOMENT] = nt__average(u, u->state[FIRST_MOMENT], BETA1, u->g);
    u->next_state[SECOND_MOMENT] = nt__average(u, u->state[SECOND_MOMENT], BETA2, nt_square(u->g));
    *mean = without_bias(u, u->next_state[FIRST_MOMENT], POWER1);
    *square = without_bias(u, u->next_state[SECOND_MOMENT], POWER2);
    advance_power(u, POWER1, BETA1);
    advance_power(u, POWER2, BETA2);
}

static nt_tensor adapted(const nt_update *u, nt_tensor mean, nt_tensor square) {
    return nt_div(mean, nt_add(nt_sqrt(square), u->numbers[EPSILON]));
}

/* ---- updates ---------------------------------------------------------------------------------------------------- */

static nt_tensor adam_update(nt_update *u) {
    nt_tensor mean, square;
    advance_moments(u, &mean, &square);
    return nt_mul(adapted(u, mean, square), u->eta);
}

static nt_tensor adamw_update(nt_update *u) {
    nt_tensor mean, square;
    advance_moments(u, &mean, &square);
    nt_tensor direction = adapted(u, mean, square), decay = nt_mul(u->numbers[WEIGHT_DECAY], u->x);
    if (u->constants[UNCOUPLED] != 0) return nt_add(nt_mul(u->eta, direction), decay);
    return nt_mul(u->eta, nt_add(direction, decay));
}

/* How much the variance of the adaptive rate is known at step t: rho = rho_inf - 2 t beta2^t / (1 - beta2^t), and the
 * factor that rectifies it. rho is the difference of two numbers near 2,000, so these scalars are f64 whatever the
 * parameters are. */
static nt_tensor rectification(const nt_update *u, nt_tensor *known) {
    double beta2 = nt__constant(u, BETA2), limit = 2 / (1 - beta2) - 1;
    nt_tensor t = nt_convert(u->state[STEP], NT_F64), power = nt_pow(beta2, t);
    nt_tensor rho = nt_sub(limit, nt_div(nt_mul(nt_mul(2, t), power), nt_sub(1, power)));
    *known = nt_greater(rho, 4);
    /* While the variance is unknown the root would be of a negative number: a safe rho keeps nan out of both branches.
     */
    nt_tensor safe = nt_where(*known, rho, 5);
    nt_tensor ratio =
        nt_div(nt_mul(nt_mul(nt_sub(safe, 4), nt_sub(safe, 2)), limit), nt_mul((limit - 4) * (limit - 2), safe));
    return nt_convert(nt_sqrt(ratio), u->dtype);
}

static nt_tensor radam_update(nt_update *u) {
    nt_tensor mean, square, known;
    advance_moments(u, &mean, &square);
    u->next_state[STEP] = nt_add(u->state[STEP], 1);
    nt_tensor factor = rectification(u, &known);
    return nt_where(known, nt_mul(nt_mul(adapted(u, mean, square), u->eta), factor), nt_mul(mean, u->eta));
}

static nt_tensor nadam_update(nt_update *u) {
    nt_tensor mean, square;
    advance_moments(u, &mean, &square);
    nt_tensor next_power = u->next_state[POWER1];
    nt_tensor ahead = nt_div(nt_mul(u->next_state[FIRST_MOMENT], u->numbers[BETA1]), nt_sub(1, next_power));
    nt_tensor now = without_bias(u, nt_mul(u->g, nt__one_minus(u, BETA1)), POWER1);
    return nt_mul(adapted(u, nt_add(ahead, now), square), u->eta);
}

/* beta1 (1 - 0.96^(t momentum_decay) / 2), the momentum of step t. */
static nt_tensor momentum_at(const nt_update *u, nt_tensor t) {
    nt_tensor exponent = nt_mul(nt_convert(t, u->dtype), u->numbers[MOMENTUM_DECAY]);
    return nt_mul(u->numbers[BETA1], nt_sub(1, nt_div(nt_pow(0.96, exponent), 2)));
}

static nt_tensor nadam_decaying_update(nt_update *u) {
    nt_tensor mean, square;
    advance_moments(u, &mean, &square);
    u->next_state[STEP] = nt_add(u->state[STEP], 1);
    nt_tensor momentum = momentum_at(u, u->state[STEP]), next = momentum_at(u, u->next_state[STEP]);
    nt_tensor product = u->next_state[MOMENTUM_PRODUCT] = nt_mul(u->state[MOMENTUM_PRODUCT], momentum);
    nt_tensor now = nt_div(nt_mul(u->g, nt_sub(1, momentum)), nt_sub(1, product));
    nt_tensor ahead = nt_div(nt_mul(u->next_state[FIRST_MOMENT], next), nt_sub(1, nt_mul(product, next)));
    return nt_mul(adapted(u, nt_add(ahead, now), square), u->eta);
}

static nt_tensor amsgrad_update(nt_update *u) {
    nt_tensor mean, square;
    advance_moments(u, &mean, &square);
    bool corrected = u->constants[CORRECTED] != 0;
    nt_tensor v = corrected ? square : u->next_state[SECOND_MOMENT];
    nt_tensor largest = u->next_state[LARGEST] = nt_max(u->state[LARGEST], v);
    return nt_mul(adapted(u, mean, corrected ? largest : without_bias(u, largest, POWER2)), u->eta);
}

enum { MAX_MOMENT, MAX_NORM, MAX_POWER };

static nt_tensor adamax_update(nt_update *u) {
    u->next_state[MAX_MOMENT] = nt__average(u, u->state[MAX_MOMENT], BETA1, u->g);
    nt_tensor size = nt_add(nt_abs(u->g), u->numbers[EPSILON]);
    u->next_state[MAX_NORM] = nt_max(nt_mul(u->state[MAX_NORM], u->numbers[BETA2]), size);
    nt_tensor mean = without_bias(u, u->next_state[MAX_MOMENT], MAX_POWER);
    advance_power(u, MAX_POWER, BETA1);
    return nt_mul(nt_div(mean, u->next_state[MAX_NORM]), u->eta);
}

static nt_tensor lamb_update(nt_update *u) {
    nt_tensor mean, square;
    advance_moments(u, &mean, &square);
    nt_tensor direction = nt__with_decay(u, adapted(u, mean, square), u->numbers[WEIGHT_DECAY]);
    nt_tensor trust = nt__trust_ratio(u, direction, 1, nt_tensor_number(0));
    return nt_mul(u->eta, nt_mul(trust, direction));
}

/* ---- the rules -------------------------------------------------------------------------------------------------- */

static const nt_rule_kind adam = {.name = "Adam",
                                  .numbers = {BETAS_AND_EPSILON},
                                  .states = {MOMENTS_AND_POWERS},
                                  .update = adam_update,
                                  .uses_rate = true};
static const nt_rule_kind adamw = {.name = "AdamW",
                                   .numbers = {BETAS_AND_EPSILON,
                                               {.name = "weight_decay", .range = NT_NOT_NEGATIVE, .is_input = true},
                                               {.name = "uncoupled", .range = NT_YES_OR_NO}},
                                   .states = {MOMENTS_AND_POWERS},
                                   .update = adamw_update,
                                   .uses_rate = true};
static const nt_rule_kind lamb = {
    .name = "LAMB",
    .numbers = {BETAS_AND_EPSILON, {.name = "weight_decay", .range = NT_NOT_NEGATIVE, .is_input = true}},
    .states = {MOMENTS_AND_POWERS},
    .update = lamb_update,
    .uses_rate = true,
    .uses_decayed = true,
    .uses_arrays = true};
#define COUNT \
    { .name = "t", .is_scalar = true, .is_count = true, .value = 1 }
static const nt_rule_kind radam = {.name = "RAdam",
                                   .numbers = {BETAS_AND_EPSILON},
                                   .states = {MOMENTS_AND_POWERS, COUNT},
                                   .update = radam_update,
                                   .uses_rate = true};
static const nt_rule_kind nadam = {.name = "NAdam",
                                   .numbers = {BETAS_AND_EPSILON},
                                   .states = {MOMENTS_AND_POWERS},
                                   .update = nadam_update,
                                   .uses_rate = true};
static const nt_rule_kind nadam_decaying = {
    .name = "NAdam",
    .numbers = {BETAS_AND_EPSILON, {.name = "momentum_decay", .range = NT_NOT_NEGATIVE}},
    .states = {MOMENTS_AND_POWERS, COUNT, {.name = "mu_product", .is_scalar = true, .value = 1}},
    .update = nadam_decaying_update,
    .uses_rate = true};
static const nt_rule_kind amsgrad = {.name = "AMSGrad",
                                     .numbers = {BETAS_AND_EPSILON, {.name = "corrected", .range = NT_YES_OR_NO}},
                                     .states = {MOMENTS_AND_POWERS, {.name = "v_max"}},
                                     .update = amsgrad_update,
                                     .uses_rate = true};
static const nt_rule_kind adamax = {
    .name = "Adamax",
    .numbers = {BETAS_AND_EPSILON},
    .states = {{.name = "m"},
               {.name = "u"},
               {.name = "power1", .is_scalar = true, .start = NT_START_AT_NUMBER, .number = BETA1}},
    .update = adamax_update,
    .uses_rate = true};

static nt_rule with_options(const nt_rule_kind *kind, nt_adam_options options) {
    return nt_rule_of(kind, nt__or(options.beta1, 0.9), nt__or(options.beta2, 0.999), nt__or(options.epsilon, 1e-8));
}

nt_rule nt_adam_with(nt_adam_options options) {
    return with_options(&adam, options);
}

nt_rule nt_radam_with(nt_adam_options options) {
    return with_options(&radam, options);
}

/* Two kinds, so that no state is kept that the options do not need. */
nt_rule nt_nadam_with(nt_nadam_options options) {
    return nt_rule_of(options.momentum_decay != 0 ? &nadam_decaying : &nadam, nt__or(options.beta1, 0.9),
                      nt__or(options.beta2, 0.999), nt__or(options.epsilon, 1e-8), options.momentum_decay);
}

nt_rule nt_amsgrad_with(nt_amsgrad_options options) {
    return nt_rule_of(&amsgrad, nt__or(options.beta1, 0.9), nt__or(options.beta2, 0.999), nt__or(options.epsilon, 1e-8),
                      options.corrected);
}

nt_rule nt_adamax_with(nt_adam_options options) {
    return with_options(&adamax, options);
}

nt_rule nt_adamw_with(nt_adamw_options options) {
    return nt_rule_of(&adamw, nt__or(options.beta1, 0.9), nt__or(options.beta2, 0.999), nt__or(options.epsilon, 1e-8),
                      options.weight_decay, options.uncoupled);
}

nt_rule nt_lamb_with(nt_lamb_options options) {
    return nt_rule_of(&lamb, nt__or(options.beta1, 0.9), nt__or(options.beta2, 0.999), nt__or(options.epsilon, 1e-6),
                      options.weight_decay);
}
