/* Rules: each a row with its state and a traced update. Formulas: nitro/optim.h. */
#include <math.h>
#include <string.h>

#include "optim/optim.h"

/* Parameters of 16 bits are updated in f32: in bf16 beta2 = 0.999 is 1, in f16 a second moment of 1e-8 is 0. */
static nt_dtype arithmetic_type(nt_dtype dtype) {
    return dtype == NT_F64 ? NT_F64 : NT_F32;
}

/* A constant in the arithmetic of the update's type: 1 - 0.999 in f32 is not 0.001 in f64. */
static double narrow(nt_dtype dtype, double value) {
    double element = 0;
    nt__element_set(dtype, &element, value);
    return nt__element_get(dtype, &element);
}

static double one_minus(nt_dtype dtype, double value) {
    return narrow(dtype, 1 - narrow(dtype, value));
}

/* ---- SGD -------------------------------------------------------------------------------------------------------- */

static nt_tensor sgd_update(nt__update *u) {
    return nt_mul(u->eta, u->g);
}

static const struct nt_rule_kind sgd = {.name = "SGD", .update = sgd_update};

nt_rule nt_sgd(void) {
    return (nt_rule){.kind = &sgd};
}

/* ---- Adam and RAdam --------------------------------------------------------------------------------------------- */

enum { BETA1, BETA2, EPSILON };
enum { FIRST_MOMENT, SECOND_MOMENT, POWER1, POWER2, STEP };

#define ADAM_CONSTANTS \
    { "beta1", "beta2", "epsilon" }
/* power1 and power2 are beta to the t: they start at t = 1 and advance after use. */
#define ADAM_STATES                                                                   \
    {.name = "m", .starts_at_constant = -1}, {.name = "v", .starts_at_constant = -1}, \
        {.name = "power1", .scalar = true, .starts_at_constant = BETA1}, {            \
        .name = "power2", .scalar = true, .starts_at_constant = BETA2                 \
    }

static nt_tensor moment(const nt__update *u, int state, int beta, nt_tensor value) {
    double kept = u->rule->constants[beta];
    return nt_add(nt_mul(u->state[state], kept), nt_mul(value, one_minus(u->dtype, kept)));
}

/* Advances the moments and the powers; returns the two bias-corrected moments. */
static void advance_moments(nt__update *u, nt_tensor *mean, nt_tensor *square) {
    u->next_state[FIRST_MOMENT] = moment(u, FIRST_MOMENT, BETA1, u->g);
    u->next_state[SECOND_MOMENT] = moment(u, SECOND_MOMENT, BETA2, nt_square(u->g));
    *mean = nt_div(u->next_state[FIRST_MOMENT], nt_sub(1, u->state[POWER1]));
    *square = nt_div(u->next_state[SECOND_MOMENT], nt_sub(1, u->state[POWER2]));
    u->next_state[POWER1] = nt_mul(u->state[POWER1], u->rule->constants[BETA1]);
    u->next_state[POWER2] = nt_mul(u->state[POWER2], u->rule->constants[BETA2]);
}

static nt_tensor adapted(const nt__update *u, nt_tensor mean, nt_tensor square) {
    return nt_div(mean, nt_add(nt_sqrt(square), u->rule->constants[EPSILON]));
}

static nt_tensor adam_update(nt__update *u) {
    nt_tensor mean, square;
    advance_moments(u, &mean, &square);
    return nt_mul(adapted(u, mean, square), u->eta);
}

/* How much the variance of the adaptive rate is known at step t: rho = rho_inf - 2 t beta2^t / (1 - beta2^t), and the
 * factor that rectifies it. rho is the difference of two numbers near 2,000, so these scalars are f64 whatever the
 * parameters are. */
static nt_tensor rectification(const nt__update *u, nt_tensor *known) {
    double beta2 = narrow(u->dtype, u->rule->constants[BETA2]), limit = 2 / (1 - beta2) - 1;
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

static nt_tensor radam_update(nt__update *u) {
    nt_tensor mean, square, known;
    advance_moments(u, &mean, &square);
    u->next_state[STEP] = nt_add(u->state[STEP], 1);
    nt_tensor factor = rectification(u, &known);
    return nt_where(known, nt_mul(nt_mul(adapted(u, mean, square), u->eta), factor), nt_mul(mean, u->eta));
}

static const struct nt_rule_kind adam = {
    .name = "Adam", .constants = ADAM_CONSTANTS, .state_count = 4, .states = {ADAM_STATES}, .update = adam_update};
static const struct nt_rule_kind radam = {
    .name = "RAdam",
    .constants = ADAM_CONSTANTS,
    .state_count = 5,
    .states = {ADAM_STATES, {.name = "t", .scalar = true, .counts = true, .starts_at_constant = -1, .start = 1}},
    .update = radam_update};

static nt_rule with_constants(const struct nt_rule_kind *kind, nt_adam_options options) {
    return (nt_rule){kind,
                     {options.beta1 != 0 ? options.beta1 : 0.9, options.beta2 != 0 ? options.beta2 : 0.999,
                      options.epsilon != 0 ? options.epsilon : 1e-8}};
}

nt_rule nt_adam_with(nt_adam_options options) {
    return with_constants(&adam, options);
}

nt_rule nt_radam_with(nt_adam_options options) {
    return with_constants(&radam, options);
}

/* ---- any rule --------------------------------------------------------------------------------------------------- */

nt_rule nt__rule_resolve(nt_rule rule) {
    return rule.kind ? rule : nt_radam();
}

const char *nt_rule_name(nt_rule rule) {
    return nt__rule_resolve(rule).kind->name;
}

nt_status nt__rule_check(const nt_rule *rule) {
    for (int i = 0; i < NT_RULE_MAX_CONSTANTS && rule->kind->constants[i]; i++) {
        const char *name = rule->kind->constants[i];
        bool beta = strncmp(name, "beta", 4) == 0;
        double value = rule->constants[i];
        if (!(value > 0) || !isfinite(value) || (beta && value >= 1))
            return nt__fail(NT_INVALID, "%s of rule %s is %g; it must be %s", name, rule->kind->name, value,
                            beta ? "between 0 and 1" : "above 0");
    }
    return NT_OK;
}

const char *nt__rule_scalar(size_t index) {
    static const char *const names[] = {"learning_rate"};
    return index < sizeof names / sizeof *names ? names[index] : NULL;
}

void nt__rule_print(const nt_rule *rule, nt__text *out) {
    nt__text_add(out, "%s(", rule->kind->name);
    for (int i = 0; i < NT_RULE_MAX_CONSTANTS && rule->kind->constants[i]; i++)
        nt__text_add(out, "%s%s %g", i ? ", " : "", rule->kind->constants[i], rule->constants[i]);
    nt__text_add(out, ")");
}

nt__type nt__state_type(const nt__state *state, const nt__group *group) {
    nt_dtype dtype = state->counts ? NT_I32 : arithmetic_type(group->dtype);
    if (state->scalar) return (nt__type){dtype, {0}};
    return (nt__type){dtype, nt_dims(group->length)};
}

double nt__state_start(const nt__state *state, const nt_rule *rule) {
    return state->starts_at_constant < 0 ? state->start : rule->constants[state->starts_at_constant];
}

nt_tensor nt__rule_apply(const nt_rule *rule, nt_tensor x, nt_tensor g, nt_tensor eta, const nt_tensor *state,
                         nt_tensor *next_state) {
    nt_dtype dtype = arithmetic_type(nt_dtype_of(x));
    nt_tensor wide = nt_convert(x, dtype);
    nt__update u = {rule, dtype, wide, nt_convert(g, dtype), nt_convert(eta, dtype), state, next_state};
    return nt_convert(nt_sub(wide, rule->kind->update(&u)), nt_dtype_of(x));
}
