/* Rules that keep parameters to evaluate with beside those that are trained: the moving average, schedule-free AdamW.
 * Formulas: nitro/optim.h.
 */
#include "optim/rules.h"

/* ---- the moving average ----------------------------------------------------------------------------------------- */

/* The last of its chain: u->g is all that is subtracted. */
static nt_tensor ema_update(nt_update *u) {
    u->next_state[0] = nt__average(u, u->state[0], 0, nt_sub(u->x, u->g));
    return u->g;
}

static nt_tensor ema_evaluated(const nt_update *u) {
    return u->state[0];
}

static const nt_rule_kind ema = {.name = "EMA",
                                 .numbers = {{.name = "ema_decay", .range = NT_FROM_0_BELOW_1, .is_input = true}},
                                 .states = {{.name = "average", .start = NT_START_AT_PARAMETERS}},
                                 .update = ema_update,
                                 .evaluated = ema_evaluated};

nt_rule nt__ema(double decay) {
    return nt_rule_of(&ema, decay);
}

/* ---- schedule-free AdamW ---------------------------------------------------------------------------------------- */

enum { BETA1, BETA2, EPSILON, WEIGHT_DECAY, WEIGHT_POWER };
enum { Z, SQUARE, POWER2, LARGEST_RATE, WEIGHTS };

/* The average x, of which u->x is beta1 and z the rest. */
static nt_tensor average_of(const nt_update *u) {
    return nt_div(nt_sub(u->x, nt_mul(nt__one_minus(u, BETA1), u->state[Z])), u->numbers[BETA1]);
}

/* What of the average the new z becomes: its weight among those of all steps. */
static nt_tensor share_of_step(nt_update *u) {
    nt_tensor largest = u->next_state[LARGEST_RATE] = nt_max(u->state[LARGEST_RATE], u->eta);
    nt_tensor weight = nt_pow(largest, u->numbers[WEIGHT_POWER]);
    nt_tensor sum = u->next_state[WEIGHTS] = nt_add(u->state[WEIGHTS], weight);
    nt_tensor some = nt_greater(sum, 0);
    return nt_where(some, nt_div(weight, nt_where(some, sum, 1)), 0);
}

static nt_tensor schedule_free_update(nt_update *u) {
    nt_tensor square = u->next_state[SQUARE] = nt__average(u, u->state[SQUARE], BETA2, nt_square(u->g));
    nt_tensor corrected = nt_div(square, nt_sub(1, u->state[POWER2]));
    nt_tensor direction = nt_div(u->g, nt_add(nt_sqrt(corrected), u->numbers[EPSILON]));
    nt_tensor step = nt_mul(u->eta, nt__with_decay(u, direction, u->numbers[WEIGHT_DECAY]));
    nt_tensor z = u->next_state[Z] = nt_sub(u->state[Z], step), share = share_of_step(u);
    u->next_state[POWER2] = nt_mul(u->state[POWER2], u->numbers[BETA2]);
    nt_tensor average = nt_add(nt_mul(nt_sub(1, share), average_of(u)), nt_mul(share, z));
    nt_tensor x = nt_add(nt_mul(average, u->numbers[BETA1]), nt_mul(z, nt__one_minus(u, BETA1)));
    return nt_sub(u->x, x);
}

static const nt_rule_kind schedule_free = {
    .name = "schedule-free AdamW",
    .numbers = {{.name = "beta1", .range = NT_BETWEEN_0_AND_1},
                {.name = "beta2", .range = NT_BETWEEN_0_AND_1},
                {.name = "epsilon", .range = NT_ABOVE_0},
                {.name = "weight_decay", .range = NT_NOT_NEGATIVE, .is_input = true},
                {.name = "weight_power", .range = NT_NOT_NEGATIVE}},
    .states = {{.name = "z", .start = NT_START_AT_PARAMETERS},
               {.name = "v"},
               {.name = "power2", .is_scalar = true, .start = NT_START_AT_NUMBER, .number = BETA2},
               {.name = "largest_rate", .is_scalar = true},
               {.name = "weights", .is_scalar = true}},
    .update = schedule_free_update,
    .evaluated = average_of,
    .uses_rate = true,
    .uses_decayed = true};

nt_rule nt_schedule_free_adamw_with(nt_schedule_free_options options) {
    return nt_rule_of(&schedule_free, nt__or(options.beta1, 0.9), nt__or(options.beta2, 0.999),
                      nt__or(options.epsilon, 1e-8), options.weight_decay, nt__or(options.weight_power, 2));
}
