/* The gradient of every operation against central differences, at inputs that hurt: ties, zeros, large values, axes of
 * size 1, nothing at all. A row is one function; an operation that has a gradient and no row fails the last test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "graph/emit.h"
#include "nitro/check.h"
#include "nitro/ops.h"
#include "xla/xla.h"

enum { MAX_INPUTS = 3 };

/* What the elements of an input are. */
typedef enum values {
    SMOOTH,   /* between -2 and 2, no two alike */
    POSITIVE, /* 0.3 to 2.3 */
    UNIT,     /* -0.9 to 0.9 */
    TIES,     /* equal ones, and zeros among them */
    ZEROS,    /* every second one is 0 */
    NOTHING,  /* all are 0 */
    LARGE,    /* up to 200000 */
    FAR,      /* SMOOTH, around 1000 */
} values;

static double element_of(values kind, int input, int64_t i) {
    static const double ties[] = {1, 1, -1, 2, 2, 0, 0, -1, 1, 2, 0};
    double wave = sin((double)(7 * input + 3 * i + 1));
    switch (kind) {
    case SMOOTH: return 2 * wave;
    case POSITIVE: return 1.3 + wave;
    case UNIT: return 0.9 * wave;
    case TIES: return ties[(size_t)(i + 3 * input) % (sizeof ties / sizeof *ties)];
    case ZEROS: return i % 2 ? 2 * wave : 0;
    case LARGE: return 2e5 * wave;
    case FAR: return 1e3 + 2 * wave;
    default: return 0;
    }
}

typedef struct row {
    const char *name;
    nt_tensor (*build)(const nt_tensor *in);
    struct {
        values kind;
        nt_shape shape;
    } inputs[MAX_INPUTS]; /* up to the first without axes */
    bool twice;           /* the gradient is checked, not the value */
    double step;          /* of a function that rounds: of the differences, and the tolerance */
} row;

#define X in[0]
#define A in[0]
#define B in[1]
#define BUILD(name, value)                               \
    static nt_tensor build_##name(const nt_tensor *in) { \
        return value;                                    \
    }

/* ---- element by element ----------------------------------------------------------------------------------------- */

BUILD(add, nt_add(A, B))
BUILD(sub, nt_sub(A, B))
BUILD(mul, nt_mul(A, B))
BUILD(div, nt_div(A, B))
BUILD(pow, nt_pow(A, B))
BUILD(pow_of_zero, nt_pow(nt_mul(0, A), nt_add(1, B)))
BUILD(cube, nt_pow(X, 3))
BUILD(power_zero, nt_pow(X, 0))
BUILD(max, nt_max(A, B))
BUILD(min, nt_min(A, B))
BUILD(neg, nt_neg(X))
BUILD(abs, nt_abs(X))
BUILD(sign, nt_mul(X, nt_sign(X)))
BUILD(square, nt_square(X))
BUILD(rem, nt_rem(A, nt_add(B, 3)))
BUILD(mod, nt_mod(A, nt_add(B, 3)))
BUILD(floor_div, nt_mul(A, nt_floor_div(A, nt_add(B, 3))))
BUILD(clamp, nt_clamp(X, -1, 1))
BUILD(clamp_tensors, nt_clamp(X, in[1], in[2]))
BUILD(exp, nt_exp(X))
BUILD(expm1, nt_expm1(X))
BUILD(log, nt_log(X))
BUILD(log1p, nt_log1p(X))
BUILD(logarithms, nt_add(nt_log2(X), nt_mul(nt_log10(X), nt_exp2(X))))
BUILD(sqrt, nt_sqrt(X))
BUILD(rsqrt, nt_rsqrt(X))
BUILD(cbrt, nt_cbrt(X))
BUILD(tanh, nt_tanh(X))
BUILD(logistic, nt_logistic(X))
BUILD(relu, nt_relu(X))
BUILD(sin, nt_sin(X))
BUILD(cos, nt_cos(X))
BUILD(tan, nt_tan(X))
BUILD(asin, nt_asin(X))
BUILD(acos, nt_acos(X))
BUILD(atan, nt_atan(X))
BUILD(atan2, nt_atan2(A, B))
BUILD(sinh, nt_sinh(X))
BUILD(cosh, nt_cosh(X))
BUILD(asinh, nt_asinh(X))
BUILD(acosh, nt_acosh(nt_add(X, 1)))
BUILD(atanh, nt_atanh(X))
BUILD(erf, nt_erf(X))
BUILD(erfc, nt_erfc(X))
BUILD(erf_inv, nt_erf_inv(X))
BUILD(lgamma, nt_lgamma(X))
BUILD(digamma, nt_digamma(X))
BUILD(polygamma, nt_polygamma(2, X))
BUILD(rounding, nt_mul(X, nt_add(nt_add(nt_floor(X), nt_ceil(X)), nt_add(nt_round(X), nt_trunc(X)))))
BUILD(logaddexp, nt_logaddexp(A, B))
BUILD(hypot, nt_hypot(A, B))
BUILD(copysign, nt_copysign(A, B))
BUILD(where, nt_where(nt_greater(A, B), nt_square(A), nt_mul(3, B)))
BUILD(convert, nt_convert(nt_convert(X, NT_F32), NT_F64))
BUILD(stop_gradient, nt_mul(nt_stop_gradient(nt_mul(0, X)), X))

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

BUILD(reshape, nt_square(nt_reshape(X, -1)))
BUILD(transpose, nt_mul(nt_transpose(X, 1, 2, 0), B))
BUILD(broadcast, nt_mul(nt_broadcast(X, nt_dims(2, 3, 4)), B))
BUILD(expand_squeeze, nt_mul(nt_squeeze(X, 1), nt_squeeze(nt_expand(nt_squeeze(X), 0), 0)))
BUILD(slice, nt_square(nt_slice(X, nt_dims(1, 0), nt_dims(3, 2))))
BUILD(slice_strided, nt_square(nt_slice_strided(X, nt_dims(0, 1), nt_dims(3, 5), nt_dims(2, 3))))
BUILD(pad, nt_square(nt_pad(X, nt_dims(1, -1), nt_dims(-1, 2), 0.5)))
BUILD(pad_value, nt_square(nt_pad_at(A, nt_dims(1, -1), nt_dims(-1, 2), nt_sum(B), NT_SITE)))
BUILD(pad_edge, nt_square(nt_pad_edge(X, nt_dims(2, 0), nt_dims(0, 3))))
BUILD(pad_reflect, nt_square(nt_pad_reflect(X, nt_dims(2, 0), nt_dims(0, 3))))
BUILD(update_slice, nt_square(nt_update_slice(A, B, nt_dims(1, 1))))
BUILD(concatenate, nt_square(nt_concatenate(1, A, B, A)))
BUILD(stack, nt_square(nt_stack(1, A, B)))
BUILD(flip, nt_mul(nt_flip(X, 0), X))
BUILD(roll, nt_mul(nt_roll(X, -2, 1), X))
BUILD(tile, nt_square(nt_tile(X, nt_dims(2, 3))))
BUILD(repeat, nt_square(nt_repeat(X, 3, 1)))
BUILD(triangles, nt_mul(nt_lower_triangle(nt_square(X), 1), nt_upper_triangle(X, -1)))

/* The block is read again, so that its cotangent is the sum of two ways. */
static nt_tensor build_update_slice_twice(const nt_tensor *in) {
    return nt_mul(nt_update_slice(nt_square(A), B, nt_dims(0, 2)), nt_sum(B));
}

static nt_tensor build_parts(const nt_tensor *in) {
    nt_tensor parts[2];
    nt_parts(A, 1, 2, parts);
    return nt_sub(nt_square(parts[0]), nt_mul(parts[1], B));
}

/* ---- indexing and sorting --------------------------------------------------------------------------------------- */

/* -1 to 3 in some order: 0 and 2 twice. */
static nt_tensor places(int64_t count) {
    nt_tensor i = nt_iota(NT_I32, nt_dims(count), 0);
    return nt_sub(nt_mod(nt_mul(i, 3), 5), 1);
}

static nt_tensor build_take(const nt_tensor *in) {
    return nt_mul(nt_take(A, places(6), 1), nt_take(B, nt_convert(nt_add(places(6), 1), NT_U8), 1));
}

static nt_tensor build_take_along(const nt_tensor *in) {
    nt_tensor along = nt_broadcast(nt_reshape(places(4), 1, 4), nt_dims(3, 4));
    return nt_square(nt_take_along(X, along, 1));
}

#define SCATTER(name)                                            \
    static nt_tensor build_scatter_##name(const nt_tensor *in) { \
        return nt_square(nt_scatter_##name(A, places(6), B, 0)); \
    }
SCATTER(add)
SCATTER(max)
SCATTER(min)
SCATTER(mul)

/* Which of several equal indices is written is not said: each is there once. */
static nt_tensor build_scatter_set(const nt_tensor *in) {
    return nt_square(nt_scatter_set(A, nt_add(places(3), 1), B, 0));
}

static nt_tensor build_dynamic_slice(const nt_tensor *in) {
    return nt_square(nt_dynamic_slice(X, nt_iota(NT_I32, nt_dims(2), 0), nt_dims(2, 2)));
}

static nt_tensor build_dynamic_update(const nt_tensor *in) {
    return nt_square(nt_dynamic_update(A, B, nt_mul(nt_iota(NT_I32, nt_dims(2), 0), 9)));
}

BUILD(sort, nt_square(nt_sort(X, 0, NT_DESCENDING)))

static nt_tensor build_top_k(const nt_tensor *in) {
    nt_tensor indices, largest = nt_top_k(nt_square(A), 2, &indices);
    return nt_mul(largest, nt_take_along(B, indices, -1));
}

/* ---- reductions ------------------------------------------------------------------------------------------------- */

BUILD(sum, nt_square(nt_sum(X, 0, NT_KEEP)))
BUILD(prod, nt_prod(X, 0, 2))
BUILD(mean, nt_square(nt_mean(X, -1)))
BUILD(reduce_max, nt_square(nt_reduce_max(X, 1)))
BUILD(reduce_min, nt_reduce_min(X))
BUILD(variance, nt_variance(X, 1, 0))
BUILD(deviation, nt_deviation(X, 0, 0))
BUILD(logsumexp, nt_logsumexp(X, 1))
BUILD(softmax, nt_softmax(X, 0, 1))
BUILD(log_softmax, nt_log_softmax(X, 0))
BUILD(cumsum, nt_square(nt_cumsum(X, 1, NT_FORWARD)))
BUILD(cumsum_backward, nt_square(nt_cumsum(X, 0, NT_BACKWARD)))
BUILD(cumprod, nt_cumprod(X, 1, NT_FORWARD))
BUILD(cumprod_backward, nt_cumprod(X, 0, NT_BACKWARD))
BUILD(cummax, nt_cummax(X, 1, NT_FORWARD))
BUILD(cummax_backward, nt_cummax(X, 0, NT_BACKWARD))
BUILD(cummin, nt_cummin(X, 0, NT_FORWARD))
BUILD(cummin_backward, nt_cummin(X, 1, NT_BACKWARD))
BUILD(cumlogsumexp, nt_cumlogsumexp(X, 1, NT_FORWARD))
BUILD(cumlogsumexp_backward, nt_cumlogsumexp(X, 0, NT_BACKWARD))

/* ---- linear algebra --------------------------------------------------------------------------------------------- */

BUILD(matmul, nt_matmul(A, B))
BUILD(outer, nt_outer(A, B))
BUILD(norm, nt_norm(X, 1))
BUILD(norm1, nt_norm1(X))
BUILD(norm_max, nt_outer(nt_norm_max(A, -1), nt_norm_max(B, 0)))

/* A diagonal, an implied result, a letter in three terms. */
static nt_tensor build_einsums(const nt_tensor *in) {
    nt_tensor implied = nt_einsum("ba , aac", A, B);
    return nt_einsum("bc,ba,aac->cb", implied, A, B);
}

/* ---- windows ---------------------------------------------------------------------------------------------------- */

BUILD(conv, nt_conv2d(A, B, .stride = {2, 1}, .same = true))
BUILD(conv_dilated, nt_conv1d(A, B, .dilation = {2}, .input_dilation = {2}, .pad = {{-1, 2}}, .groups = 2))
BUILD(conv3d, nt_conv3d(A, B, .channels_first = true))
BUILD(transposed, nt_conv2d_transposed(A, B, .stride = {2, 1}, .dilation = {1, 2}, .pad = {{1, 0}, {2, 1}},
                                       .output_padding = {1, 0}, .groups = 2, .channels_first = true))
BUILD(transposed3d, nt_conv3d_transposed(A, B, .stride = {2}))
BUILD(max_pool, nt_max_pool(X, nt_dims(2, 2)))
BUILD(max_pool_overlapping, nt_max_pool(X, nt_dims(3), .stride = {1}, .same = true))
BUILD(max_pool_squares, nt_square(nt_max_pool(X, nt_dims(3), .stride = {1}, .same = true)))
BUILD(max_pool_channels_first, nt_square(nt_max_pool(X, nt_dims(2, 3), .channels_first = true)))
BUILD(global_max_pool, nt_global_max_pool(X))
BUILD(global_avg_pool, nt_square(nt_global_avg_pool(X)))
BUILD(avg_pool, nt_avg_pool(X, nt_dims(2, 2), .stride = {1}, .pad = {{1, 0}, {0, 1}}))
BUILD(avg_pool_same, nt_square(nt_avg_pool(X, nt_dims(3), .stride = {1}, .same = true)))

/* ---- nothing ---------------------------------------------------------------------------------------------------- */

static nt_tensor build_of_nothing(const nt_tensor *in) {
    nt_tensor none = nt_iota(NT_I32, nt_dims(0), 0), two = nt_iota(NT_I64, nt_dims(2), 0);
    nt_tensor written = nt_scatter_add(A, two, B, 0), sorted = nt_sort(A, 0, NT_ASCENDING);
    nt_tensor rows = nt_concatenate(0, nt_take(written, none, 0), sorted, nt_scatter_set(B, none, A, 0),
                                    nt_flip(nt_square(B)), nt_cumsum(A, 0, NT_FORWARD), nt_cumprod(A, 0, NT_FORWARD),
                                    nt_cummax(A, 0, NT_BACKWARD), nt_cumlogsumexp(A, 0, NT_FORWARD));
    nt_tensor products = nt_mul(nt_matmul(nt_transpose(A, 1, 0), A), nt_sum(nt_softmax(A, 0)));
    return nt_concatenate(0, rows, products, nt_reshape(nt_add(nt_prod(A, 0), nt_norm(A, 0)), 1, 2));
}

BUILD(pools_of_nothing, nt_add(nt_sum(nt_max_pool(X, nt_dims(2), .stride = {1})), nt_sum(nt_avg_pool(X, nt_dims(2)))))
BUILD(conv_of_nothing, nt_conv1d(A, B))

/* ---- the table -------------------------------------------------------------------------------------------------- */

#define ROW(what, ...)                                                  \
    {                                                                   \
        .name = #what, .build = build_##what, .inputs = { __VA_ARGS__ } \
    }
#define TWICE(what, ...) \
    { .name = #what, .build = build_##what, .inputs = {__VA_ARGS__}, .twice = true }
#define ELEMENTS(kind) \
    {                  \
        kind, {        \
            2, {       \
                3, 4   \
            }          \
        }              \
    }

static const row rows[] = {
    ROW(add, {SMOOTH, {2, {3, 1}}}, {SMOOTH, {3, {2, 1, 4}}}),
    ROW(sub, {TIES, {1, {1}}}, {LARGE, {2, {3, 4}}}),
    ROW(mul, {ZEROS, {2, {1, 4}}}, {TIES, {2, {3, 4}}}),
    ROW(div, {ZEROS, {2, {3, 4}}}, {POSITIVE, {1, {4}}}),
    ROW(pow, {POSITIVE, {2, {3, 4}}}, {SMOOTH, {1, {4}}}),
    ROW(pow_of_zero, ELEMENTS(SMOOTH), {POSITIVE, {1, {1}}}),
    ROW(cube, ELEMENTS(ZEROS)),
    ROW(power_zero, ELEMENTS(ZEROS)),
    ROW(max, ELEMENTS(TIES), {TIES, {2, {3, 1}}}),
    ROW(min, ELEMENTS(TIES), {TIES, {1, {4}}}),
    ROW(max, ELEMENTS(LARGE), ELEMENTS(LARGE)),
    ROW(neg, ELEMENTS(SMOOTH)),
    ROW(abs, ELEMENTS(ZEROS)),
    ROW(sign, ELEMENTS(SMOOTH)),
    ROW(square, ELEMENTS(ZEROS)),
    ROW(rem, ELEMENTS(LARGE), ELEMENTS(POSITIVE)),
    ROW(mod, ELEMENTS(SMOOTH), ELEMENTS(POSITIVE)),
    ROW(floor_div, ELEMENTS(SMOOTH), ELEMENTS(POSITIVE)),
    ROW(clamp, ELEMENTS(TIES)),
    ROW(clamp_tensors, ELEMENTS(TIES), {NOTHING, {1, {1}}}, {POSITIVE, {2, {3, 1}}}),
    ROW(exp, ELEMENTS(SMOOTH)),
    ROW(expm1, ELEMENTS(ZEROS)),
    ROW(log, ELEMENTS(POSITIVE)),
    ROW(log1p, ELEMENTS(UNIT)),
    ROW(logarithms, ELEMENTS(POSITIVE)),
    ROW(sqrt, ELEMENTS(POSITIVE)),
    ROW(rsqrt, ELEMENTS(POSITIVE)),
    ROW(cbrt, ELEMENTS(SMOOTH)),
    ROW(tanh, ELEMENTS(LARGE)),
    ROW(tanh, ELEMENTS(ZEROS)),
    ROW(logistic, ELEMENTS(LARGE)),
    ROW(logistic, ELEMENTS(ZEROS)),
    ROW(relu, ELEMENTS(ZEROS)),
    ROW(sin, ELEMENTS(SMOOTH)),
    ROW(cos, ELEMENTS(SMOOTH)),
    ROW(tan, ELEMENTS(UNIT)),
    ROW(asin, ELEMENTS(UNIT)),
    ROW(acos, ELEMENTS(UNIT)),
    ROW(atan, ELEMENTS(LARGE)),
    ROW(atan2, ELEMENTS(SMOOTH), {SMOOTH, {1, {4}}}),
    ROW(sinh, ELEMENTS(ZEROS)),
    ROW(cosh, ELEMENTS(ZEROS)),
    ROW(asinh, ELEMENTS(LARGE)),
    ROW(acosh, ELEMENTS(POSITIVE)),
    ROW(atanh, ELEMENTS(UNIT)),
    ROW(erf, ELEMENTS(ZEROS)),
    ROW(erfc, ELEMENTS(LARGE)),
    ROW(erf_inv, ELEMENTS(UNIT)),
    ROW(lgamma, ELEMENTS(POSITIVE)),
    ROW(digamma, ELEMENTS(POSITIVE)),
    ROW(polygamma, ELEMENTS(POSITIVE)),
    ROW(rounding, ELEMENTS(SMOOTH)),
    ROW(logaddexp, ELEMENTS(TIES), ELEMENTS(ZEROS)),
    ROW(hypot, ELEMENTS(TIES), ELEMENTS(ZEROS)),
    ROW(hypot, ELEMENTS(NOTHING), {LARGE, {1, {4}}}),
    ROW(copysign, ELEMENTS(ZEROS), ELEMENTS(SMOOTH)),
    ROW(where, ELEMENTS(TIES), ELEMENTS(SMOOTH)),
    {.name = "convert", .build = build_convert, .inputs = {ELEMENTS(SMOOTH)}, .step = 1e-3},
    ROW(stop_gradient, ELEMENTS(SMOOTH)),
    ROW(reshape, {SMOOTH, {3, {1, 3, 2}}}),
    ROW(transpose, {SMOOTH, {3, {2, 1, 3}}}, {SMOOTH, {3, {1, 3, 2}}}),
    ROW(broadcast, {SMOOTH, {2, {1, 4}}}, {SMOOTH, {3, {2, 3, 1}}}),
    ROW(expand_squeeze, {SMOOTH, {3, {3, 1, 2}}}),
    ROW(slice, ELEMENTS(SMOOTH)),
    ROW(slice_strided, {SMOOTH, {2, {3, 6}}}),
    ROW(pad, ELEMENTS(SMOOTH)),
    ROW(pad_value, ELEMENTS(SMOOTH), {SMOOTH, {1, {2}}}),
    ROW(pad_edge, ELEMENTS(SMOOTH)),
    ROW(pad_reflect, ELEMENTS(SMOOTH)),
    ROW(update_slice, ELEMENTS(SMOOTH), {SMOOTH, {2, {2, 2}}}),
    ROW(update_slice_twice, ELEMENTS(SMOOTH), {SMOOTH, {2, {3, 1}}}),
    ROW(concatenate, ELEMENTS(SMOOTH), {SMOOTH, {2, {3, 1}}}),
    ROW(stack, ELEMENTS(SMOOTH), ELEMENTS(SMOOTH)),
    ROW(flip, ELEMENTS(SMOOTH)),
    ROW(roll, ELEMENTS(SMOOTH)),
    ROW(tile, {SMOOTH, {2, {1, 2}}}),
    ROW(repeat, {SMOOTH, {2, {3, 2}}}),
    ROW(triangles, {SMOOTH, {3, {2, 3, 4}}}),
    ROW(parts, ELEMENTS(SMOOTH), {SMOOTH, {2, {1, 2}}}),
    ROW(take, {SMOOTH, {3, {2, 3, 2}}}, {SMOOTH, {3, {2, 3, 1}}}),
    ROW(take_along, ELEMENTS(SMOOTH)),
    ROW(scatter_set, ELEMENTS(SMOOTH), ELEMENTS(SMOOTH)),
    ROW(scatter_add, ELEMENTS(SMOOTH), {SMOOTH, {2, {6, 4}}}),
    ROW(scatter_max, ELEMENTS(TIES), {TIES, {2, {6, 4}}}),
    ROW(scatter_min, ELEMENTS(TIES), {TIES, {2, {6, 4}}}),
    ROW(scatter_mul, ELEMENTS(ZEROS), {TIES, {2, {6, 4}}}),
    TWICE(scatter_mul, ELEMENTS(SMOOTH), {SMOOTH, {2, {6, 4}}}),
    ROW(dynamic_slice, ELEMENTS(SMOOTH)),
    ROW(dynamic_update, ELEMENTS(SMOOTH), {SMOOTH, {2, {2, 2}}}),
    ROW(sort, ELEMENTS(SMOOTH)),
    ROW(sort, ELEMENTS(TIES)),
    ROW(top_k, {SMOOTH, {2, {3, 5}}}, {SMOOTH, {2, {3, 5}}}),
    ROW(sum, {LARGE, {3, {2, 1, 3}}}),
    ROW(prod, {ZEROS, {3, {3, 1, 2}}}),
    ROW(prod, {TIES, {3, {3, 2, 1}}}),
    TWICE(prod, {SMOOTH, {3, {2, 2, 2}}}),
    ROW(mean, {SMOOTH, {3, {2, 3, 1}}}),
    ROW(reduce_max, ELEMENTS(TIES)),
    ROW(reduce_min, ELEMENTS(TIES)),
    ROW(variance, ELEMENTS(SMOOTH)),
    ROW(variance, ELEMENTS(FAR)),
    ROW(deviation, ELEMENTS(SMOOTH)),
    ROW(logsumexp, ELEMENTS(TIES)),
    ROW(logsumexp, ELEMENTS(LARGE)),
    ROW(softmax, ELEMENTS(ZEROS)),
    ROW(log_softmax, ELEMENTS(LARGE)),
    ROW(cumsum, ELEMENTS(LARGE)),
    ROW(cumsum_backward, {SMOOTH, {3, {3, 1, 2}}}),
    ROW(cumprod, ELEMENTS(ZEROS)),
    ROW(cumprod_backward, {TIES, {2, {5, 2}}}),
    TWICE(cumprod, ELEMENTS(SMOOTH)),
    ROW(cummax, ELEMENTS(TIES)),
    ROW(cummax_backward, ELEMENTS(SMOOTH)),
    ROW(cummin, ELEMENTS(TIES)),
    ROW(cummin_backward, ELEMENTS(LARGE)),
    ROW(cumlogsumexp, ELEMENTS(TIES)),
    ROW(cumlogsumexp_backward, ELEMENTS(LARGE)),
    TWICE(cumlogsumexp, ELEMENTS(SMOOTH)),
    ROW(cumprod, {SMOOTH, {2, {3, 1}}}),
    ROW(matmul, {SMOOTH, {3, {2, 1, 3}}}, {ZEROS, {2, {3, 2}}}),
    ROW(matmul, {SMOOTH, {1, {3}}}, {SMOOTH, {3, {2, 3, 2}}}),
    ROW(outer, {SMOOTH, {1, {3}}}, {SMOOTH, {1, {4}}}),
    ROW(norm, ELEMENTS(TIES)),
    ROW(norm, ELEMENTS(NOTHING)),
    ROW(norm1, ELEMENTS(ZEROS)),
    ROW(norm_max, ELEMENTS(TIES), {SMOOTH, {2, {2, 5}}}),
    ROW(einsums, {SMOOTH, {2, {3, 2}}}, {SMOOTH, {3, {2, 2, 4}}}),
    ROW(conv, {SMOOTH, {4, {1, 3, 4, 2}}}, {ZEROS, {4, {2, 3, 2, 2}}}),
    TWICE(conv_dilated, {SMOOTH, {3, {1, 5, 4}}}, {SMOOTH, {3, {2, 2, 2}}}),
    ROW(conv3d, {SMOOTH, {5, {1, 1, 2, 3, 2}}}, {SMOOTH, {5, {2, 1, 2, 2, 1}}}),
    ROW(transposed, {SMOOTH, {4, {1, 4, 2, 3}}}, {SMOOTH, {4, {2, 2, 3, 2}}}),
    TWICE(transposed3d, {SMOOTH, {5, {1, 1, 2, 1, 2}}}, {SMOOTH, {5, {1, 2, 2, 2, 1}}}),
    ROW(max_pool, {TIES, {4, {1, 4, 5, 1}}}),
    ROW(max_pool_overlapping, {TIES, {3, {1, 6, 2}}}),
    TWICE(max_pool_squares, {SMOOTH, {3, {1, 6, 2}}}),
    ROW(max_pool_channels_first, {SMOOTH, {4, {1, 2, 5, 7}}}),
    ROW(global_max_pool, {TIES, {4, {2, 3, 4, 2}}}),
    ROW(global_avg_pool, {SMOOTH, {5, {2, 2, 3, 2, 2}}}),
    ROW(avg_pool, {ZEROS, {4, {1, 3, 4, 1}}}),
    ROW(avg_pool_same, {SMOOTH, {3, {1, 4, 2}}}),
    ROW(of_nothing, {SMOOTH, {2, {0, 2}}}, {SMOOTH, {2, {2, 2}}}),
    ROW(pools_of_nothing, {SMOOTH, {3, {0, 3, 1}}}),
    ROW(conv_of_nothing, {SMOOTH, {3, {0, 3, 1}}}, {SMOOTH, {3, {2, 1, 2}}}),
};

/* ---- checking --------------------------------------------------------------------------------------------------- */

static bool checked[NT__OP_COUNT];

/* The operations up to here are those of the function: its gradient comes after. */
static void mark_operations(void) {
    const nt__graph *graph = nt__trace_current();
    for (size_t id = 1; id < graph->node_count; id++) checked[graph->nodes[id]->op] = true;
}

/* Elements must not count alike, or errors may cancel. */
static nt_tensor weighted_sum(nt_tensor y) {
    nt_tensor flat = nt_reshape(y, -1), i = nt_iota(NT_F64, nt_shape_of(flat), 0);
    return nt_sum(nt_mul(flat, nt_add(1.5, nt_sin(nt_mul(5, i)))));
}

static int inputs_of(const row *r) {
    int count = 0;
    while (count < MAX_INPUTS && r->inputs[count].shape.rank) count++;
    return count;
}

static nt_tensor value_of(const nt_tensor *in, void *context) {
    const row *r = context;
    nt_tensor y = weighted_sum(r->build(in)), gradients[MAX_INPUTS];
    int count = inputs_of(r);
    if (r->twice) {
        nt__gradient(y, in, (size_t)count, gradients, NULL);
        y = weighted_sum(gradients[0]);
        for (int i = 1; i < count; i++) y = nt_add(y, nt_mul(0.5, weighted_sum(gradients[i])));
    }
    mark_operations();
    return y;
}

static nt_array *input_of(const row *r, int input) {
    nt_array *array = nt_array_new(NT_F64, r->inputs[input].shape);
    assert_non_null(array);
    int64_t elements = nt_shape_elements(array->shape);
    for (int64_t i = 0; i < elements; i++) nt_array_set(array, i, element_of(r->inputs[input].kind, input, i));
    return array;
}

static bool passes(const row *r) {
    nt_array *inputs[MAX_INPUTS];
    int count = inputs_of(r);
    for (int i = 0; i < count; i++) inputs[i] = input_of(r, i);
    nt_status status = nt_check_gradient(value_of, (void *)(uintptr_t)r, inputs, (size_t)count, NULL, .step = r->step,
                                         .tolerance = r->step ? r->step : 2e-6);
    if (status != NT_OK) print_error("row %td, %s: %s\n", r - rows, r->name, nt_error_message());
    for (int i = 0; i < count; i++) nt_array_free(inputs[i]);
    return status == NT_OK;
}

static void every_row_agrees(void **state) {
    (void)state;
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) wrong += !passes(&rows[i]);
    assert_int_equal(wrong, 0);
}

/* Runs after the others, which mark what they check. */
static void every_operation_has_a_row(void **state) {
    (void)state;
    for (int op = NT__OP_scan; op <= NT__OP_barrier; op++) checked[op] = true; /* test_control.c */
    size_t missing = 0;
    for (int op = 0; op < NT__OP_COUNT; op++) {
        if (nt__operations[op].gradient == nt__gradient_zero || checked[op]) continue;
        print_error("'%s' has a gradient and no row\n", nt__operations[op].name);
        missing++;
    }
    assert_int_equal(missing, 0);
}

static int close_engine(void **state) {
    (void)state;
    return nt__engine_close() == NT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_agrees),
        cmocka_unit_test(every_operation_has_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, close_engine);
}
