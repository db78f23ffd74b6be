/* Muon: momentum of a matrix made orthogonal; arrays that are no matrices are updated by Adam. Formulas: nitro/optim.h.
 */
#include <math.h>

#include "optim/rules.h"

enum { BETA, BETA1, BETA2, EPSILON, ITERATIONS, NESTEROV, ADAM_RATIO };
enum { MEAN, SQUARES, POWER, POWER1, POWER2 };

static bool is_matrix(nt_shape shape) {
    return shape.rank == 2;
}

/* The second moments are of what is no matrix. */
static int64_t count_others(const nt_rule_array *arrays, size_t count, const double *numbers) {
    (void)numbers;
    int64_t length = 0;
    for (size_t i = 0; i < count; i++) length += is_matrix(arrays[i].shape) ? 0 : arrays[i].length;
    return length;
}

/* ---- matrices --------------------------------------------------------------------------------------------------- */

static nt_tensor transposed(nt_tensor x) {
    return nt_transpose(x, 0, 2, 1);
}

/* Jordan et al. 2024: a polynomial that takes singular values near 1 when it is iterated. */
static nt_tensor iterate(nt_tensor x) {
    nt_tensor a = nt_matmul(x, transposed(x));
    nt_tensor b = nt_add(nt_mul(-4.775, a), nt_mul(2.0315, nt_matmul(a, a)));
    return nt_add(nt_mul(3.4445, x), nt_matmul(b, x));
}

/* Matrices [matrices, rows, columns] with singular values near 1. The products are of the shorter side. */
static nt_tensor orthogonal(const nt_update *u, nt_tensor x) {
    nt_shape shape = nt_shape_of(x);
    bool tall = shape.dims[1] > shape.dims[2];
    nt_tensor squares = nt_sum(nt_convert(nt_sum(nt_square(x), 2, NT_KEEP), NT_F64), 1, NT_KEEP);
    x = nt_div(x, nt_add(nt_convert(nt_sqrt(squares), u->dtype), u->numbers[EPSILON]));
    if (tall) x = transposed(x);
    for (int i = 0; i < (int)u->constants[ITERATIONS]; i++) x = iterate(x);
    return tall ? transposed(x) : x;
}

/* The momentum with the bias of its start taken off, and with nesterov a step ahead. */
static nt_tensor corrected(const nt_update *u, nt_tensor mean, nt_tensor g) {
    nt_tensor power = u->state[POWER];
    if (u->constants[NESTEROV] == 0) return nt_div(mean, nt_sub(1, power));
    nt_tensor ahead = nt_div(nt_mul(mean, u->numbers[BETA]), nt_sub(1, nt_mul(power, u->numbers[BETA])));
    return nt_add(ahead, nt_div(nt_mul(g, nt__one_minus(u, BETA)), nt_sub(1, power)));
}

static nt_tensor matrix_step(const nt_update *u, const nt__bundle *bundle, nt__sheet *means) {
    nt_tensor g = nt__bundle_take(bundle, u->g);
    nt_tensor mean = nt__average(u, nt__bundle_take(bundle, u->state[MEAN]), BETA, g);
    double rows = (double)bundle->shape.dims[0], columns = (double)bundle->shape.dims[1];
    nt__sheet_put(means, bundle, mean);
    return nt_mul(sqrt(fmax(1, columns / rows)), orthogonal(u, corrected(u, mean, g)));
}

/* ---- other arrays ----------------------------------------------------------------------------------------------- */

/* The second moments of what is no matrix, packed: where those of the next bundle lie, and the new ones. */
typedef struct squares {
    nt_tensor next;
    int64_t at;
} squares;

static nt_tensor adam_step(const nt_update *u, const nt__bundle *bundle, nt__sheet *means, squares *s) {
    nt_tensor g = nt__bundle_take(bundle, u->g);
    nt_tensor mean = nt__average(u, nt__bundle_take(bundle, u->state[MEAN]), BETA1, g);
    nt_tensor old = nt__packed_take(u->state[SQUARES], s->at, nt_shape_of(g));
    nt_tensor square = nt__average(u, old, BETA2, nt_square(g));
    nt__sheet_put(means, bundle, mean);
    s->at = nt__packed_put(&s->next, s->at, square);
    nt_tensor root = nt_sqrt(nt_div(square, nt_sub(1, u->state[POWER2])));
    nt_tensor direction = nt_div(nt_div(mean, nt_sub(1, u->state[POWER1])), nt_add(root, u->numbers[EPSILON]));
    return nt_mul(u->numbers[ADAM_RATIO], direction);
}

/* ---- the rule --------------------------------------------------------------------------------------------------- */

static nt_tensor muon_update(nt_update *u) {
    nt__sheet steps = nt__sheet_new(u), means = nt__sheet_new(u);
    squares s = {.next = nt_full(u->dtype, nt_shape_of(u->state[SQUARES]), 0)};
    for (size_t i = 0; i < u->bundle_count; i++) {
        const nt__bundle *bundle = &u->bundles[i];
        nt_tensor step = is_matrix(bundle->shape) ? matrix_step(u, bundle, &means) : adam_step(u, bundle, &means, &s);
        nt__sheet_put(&steps, bundle, step);
    }
    u->next_state[MEAN] = nt__sheet_done(&means);
    u->next_state[SQUARES] = s.next;
    u->next_state[POWER] = nt_mul(u->state[POWER], u->numbers[BETA]);
    u->next_state[POWER1] = nt_mul(u->state[POWER1], u->numbers[BETA1]);
    u->next_state[POWER2] = nt_mul(u->state[POWER2], u->numbers[BETA2]);
    return nt_mul(u->eta, nt__sheet_done(&steps));
}

static const nt_rule_kind muon = {
    .name = "Muon",
    .numbers = {{.name = "beta", .range = NT_BETWEEN_0_AND_1},
                {.name = "beta1", .range = NT_BETWEEN_0_AND_1},
                {.name = "beta2", .range = NT_BETWEEN_0_AND_1},
                {.name = "epsilon", .range = NT_ABOVE_0},
                {.name = "iterations", .range = NT_ABOVE_0},
                {.name = "nesterov", .range = NT_YES_OR_NO},
                {.name = "adam_ratio", .range = NT_ABOVE_0, .is_input = true}},
    .states = {{.name = "m"},
               {.name = "v", .length = count_others},
               {.name = "power", .is_scalar = true, .start = NT_START_AT_NUMBER, .number = BETA},
               {.name = "power1", .is_scalar = true, .start = NT_START_AT_NUMBER, .number = BETA1},
               {.name = "power2", .is_scalar = true, .start = NT_START_AT_NUMBER, .number = BETA2}},
    .update = muon_update,
    .uses_rate = true};

nt_rule nt_muon_with(nt_muon_options options) {
    return nt_rule_of(&muon, nt__or(options.beta, 0.95), nt__or(options.beta1, 0.9), nt__or(options.beta2, 0.999),
                      nt__or(options.epsilon, 1e-8), options.iterations ? options.iterations : 5, !options.no_nesterov,
                      nt__or(options.adam_ratio, 1));
}
