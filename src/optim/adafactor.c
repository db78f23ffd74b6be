/* Adafactor: second moments of a matrix by its rows and columns. Formulas: nitro/optim.h. */
#include <float.h>

#include "optim/rules.h"

enum { DECAY_RATE, THRESHOLD, EPSILON, FACTORED_FROM, PARAMETER_SCALE, SMALLEST_SCALE };
enum { MOMENTS, STEP };

/* ---- the state: of a matrix its rows and columns, of another array its elements --------------------------------- */

static bool is_factored(nt_shape shape, double from) {
    if (shape.rank < 2) return false;
    return (double)shape.dims[shape.rank - 1] >= from && (double)shape.dims[shape.rank - 2] >= from;
}

static int64_t moments_of(nt_shape shape, double from) {
    int64_t elements = nt_shape_elements(shape);
    if (!is_factored(shape, from) || elements == 0) return elements;
    int64_t columns = shape.dims[shape.rank - 1], rows = shape.dims[shape.rank - 2];
    return elements / columns + elements / rows;
}

static int64_t count_moments(const nt_rule_array *arrays, size_t count, const double *numbers) {
    int64_t length = 0;
    for (size_t i = 0; i < count; i++) length += moments_of(arrays[i].shape, numbers[FACTORED_FROM]);
    return length;
}

/* ---- the update of a bundle ------------------------------------------------------------------------------------- */

/* Where the moments of the next bundle lie in the packed state, the new state, and how much of the old one stays. */
typedef struct moments {
    const nt_update *u;
    nt_tensor next, decay;
    int64_t at;
} moments;

/* decay state + (1 - decay) value, for the part of the state that `value` is one for. */
static nt_tensor advance(moments *m, nt_tensor value) {
    nt_tensor old = nt__packed_take(m->u->state[MOMENTS], m->at, nt_shape_of(value));
    nt_tensor new = nt_add(nt_mul(m->decay, old), nt_mul(nt_sub(1, m->decay), value));
    m->at = nt__packed_put(&m->next, m->at, new);
    return new;
}

/* Gradients of matrices [matrices, rows, columns], each element divided by the root of what its row and its column
 * say of its square. */
static nt_tensor scale_factored(moments *m, nt_tensor g, nt_tensor square) {
    nt_tensor rows = advance(m, nt_mean(square, 2)), columns = advance(m, nt_mean(square, 1));
    /* Beside rows of large gradients the share of one without any is below the smallest normal number, which engines
     * take for 0: its root would make nan of the row. */
    double smallest = m->u->dtype == NT_F64 ? DBL_MIN : FLT_MIN;
    nt_tensor share = nt_rsqrt(nt_max(nt_div(rows, nt_mean(rows, 1, NT_KEEP)), smallest));
    return nt_mul(nt_mul(g, nt_expand(share, 2)), nt_expand(nt_rsqrt(columns), 1));
}

static nt_tensor scale_gradient(moments *m, const nt__bundle *bundle) {
    nt_tensor g = nt__bundle_take(bundle, m->u->g);
    nt_shape shape = nt_shape_of(g);
    if (is_factored(bundle->shape, m->u->constants[FACTORED_FROM])) {
        int64_t rows = shape.dims[shape.rank - 2], columns = shape.dims[shape.rank - 1];
        g = nt_reshape(g, -1, rows, columns);
        return scale_factored(m, g, nt_add(nt_square(g), m->u->numbers[EPSILON]));
    }
    return nt_mul(g, nt_rsqrt(advance(m, nt_add(nt_square(g), m->u->numbers[EPSILON]))));
}

/* The root of the mean square of each array, [repeats, 1]. The last axis is summed in the update's type, the others in
 * f64. */
static nt_tensor size_of(const nt_update *u, const nt__bundle *bundle, nt_tensor values) {
    nt_tensor sums = nt_convert(nt_sum(nt_square(values), -1), NT_F64);
    nt_tensor mean = nt_div(nt_sum(nt_reshape(sums, bundle->repeats, -1), 1, NT_KEEP), (double)bundle->length);
    return nt_convert(nt_sqrt(mean), u->dtype);
}

static nt_tensor step_of(moments *m, const nt__bundle *bundle) {
    const nt_update *u = m->u;
    nt_tensor scaled = nt_reshape(scale_gradient(m, bundle), bundle->repeats, -1, nt__last_axis(bundle));
    nt_tensor excess = nt_div(size_of(u, bundle, scaled), u->numbers[THRESHOLD]);
    nt_tensor rows = nt_reshape(scaled, bundle->repeats, bundle->length);
    nt_tensor step = nt_div(rows, nt_max(excess, 1));
    if (u->constants[PARAMETER_SCALE] == 0) return step;
    nt_tensor x = nt_reshape(nt__bundle_take(bundle, u->x), bundle->repeats, -1, nt__last_axis(bundle));
    return nt_mul(step, nt_max(size_of(u, bundle, x), u->numbers[SMALLEST_SCALE]));
}

/* ---- the rule --------------------------------------------------------------------------------------------------- */

/* 1 - t^-decay_rate: in f32 for every type, as the numbers that the rule is known by. */
static nt_tensor decay_at(const nt_update *u) {
    nt_tensor t = nt_convert(u->state[STEP], NT_F32);
    return nt_convert(nt_sub(1, nt_pow(t, -u->constants[DECAY_RATE])), u->dtype);
}

static nt_tensor adafactor_update(nt_update *u) {
    moments m = {.u = u, .next = nt_full(u->dtype, nt_shape_of(u->state[MOMENTS]), 0), .decay = decay_at(u)};
    nt__sheet sheet = nt__sheet_new(u);
    for (size_t i = 0; i < u->bundle_count; i++) nt__sheet_put(&sheet, &u->bundles[i], step_of(&m, &u->bundles[i]));
    u->next_state[MOMENTS] = m.next;
    u->next_state[STEP] = nt_add(u->state[STEP], 1);
    return nt_mul(u->eta, nt__sheet_done(&sheet));
}

static const nt_rule_kind adafactor = {
    .name = "Adafactor",
    .numbers = {{.name = "decay_rate", .range = NT_ABOVE_0},
                {.name = "clipping_threshold", .range = NT_ABOVE_0},
                {.name = "epsilon", .range = NT_ABOVE_0},
                {.name = "factored_from", .range = NT_ABOVE_0},
                {.name = "parameter_scale", .range = NT_YES_OR_NO},
                {.name = "smallest_scale", .range = NT_ABOVE_0}},
    .states = {{.name = "v", .length = count_moments}, {.name = "t", .is_scalar = true, .is_count = true, .value = 1}},
    .update = adafactor_update,
    .uses_rate = true};

nt_rule nt_adafactor_with(nt_adafactor_options options) {
    return nt_rule_of(&adafactor, nt__or(options.decay_rate, 0.8), nt__or(options.clipping_threshold, 1),
                      nt__or(options.epsilon, 1e-30), nt__or(options.factored_from, 128), !options.no_parameter_scale,
                      nt__or(options.smallest_scale, 1e-3));
}
