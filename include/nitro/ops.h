/* Operations on tensors.
 *
 * Every operation is a macro over a function that takes the place of the call. x, a, b are tensors or C numbers. Two
 * operands broadcast as in numpy: aligned at the last axis, an axis of size 1 stretches. Element types must be equal
 * (nt_convert converts); a C number takes the type of the other operand. Axes may be negative: -1 is the last.
 * "Gradient" gives the cotangent of each operand in terms of the cotangent c of the result y.
 */
#ifndef NITRO_OPS_H
#define NITRO_OPS_H

#include "nitro/tensor.h"

/* ---- arithmetic: floating and integer --------------------------------------------------------------------------- */

#define nt_add(a, b) nt_add_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE) /* a + b. Gradient: c, c */
#define nt_sub(a, b) nt_sub_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE) /* a - b. Gradient: c, -c */
#define nt_mul(a, b) nt_mul_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE) /* a b. Gradient: c b, c a */
/* a / b. Gradient: c / b, -c y / b. Integers truncate toward zero; x / 0 is -1 (unsigned: all ones). */
#define nt_div(a, b) nt_div_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
/* a to the power b. Gradient: c b a^(b-1) (0 where b is 0), c y log(a) (0 where a is 0 and b is not negative). */
#define nt_pow(a, b) nt_pow_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
/* Larger and smaller of two; a nan of either is the result. Gradient: c to the operand that won, half to each of two
 * equal ones. */
#define nt_max(a, b) nt_max_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
#define nt_min(a, b) nt_min_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
#define nt_neg(x) nt_neg_at(NT_TENSOR(x), NT_SITE)       /* -x. Gradient: -c */
#define nt_abs(x) nt_abs_at(NT_TENSOR(x), NT_SITE)       /* |x|, signed types. Gradient: c sign(x), 0 at 0 */
#define nt_sign(x) nt_sign_at(NT_TENSOR(x), NT_SITE)     /* -1, 0 or 1; keeps nan; signed types. Gradient: 0 */
#define nt_square(x) nt_square_at(NT_TENSOR(x), NT_SITE) /* x x. Gradient: 2 c x */

nt_tensor nt_add_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_sub_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_mul_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_div_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_pow_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_max_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_min_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_neg_at(nt_tensor x, nt_site site);
nt_tensor nt_abs_at(nt_tensor x, nt_site site);
nt_tensor nt_sign_at(nt_tensor x, nt_site site);
nt_tensor nt_square_at(nt_tensor x, nt_site site);

/* ---- functions of one floating tensor --------------------------------------------------------------------------- */

#define nt_exp(x) nt_exp_at(NT_TENSOR(x), NT_SITE)           /* Gradient: c y */
#define nt_expm1(x) nt_expm1_at(NT_TENSOR(x), NT_SITE)       /* exp(x) - 1, exact near 0. Gradient: c (y + 1) */
#define nt_log(x) nt_log_at(NT_TENSOR(x), NT_SITE)           /* Natural logarithm. Gradient: c / x */
#define nt_log1p(x) nt_log1p_at(NT_TENSOR(x), NT_SITE)       /* log(1 + x), exact near 0. Gradient: c / (1 + x) */
#define nt_sqrt(x) nt_sqrt_at(NT_TENSOR(x), NT_SITE)         /* Gradient: c / (2 y) */
#define nt_rsqrt(x) nt_rsqrt_at(NT_TENSOR(x), NT_SITE)       /* 1 / sqrt(x). Gradient: -c y / (2 x) */
#define nt_tanh(x) nt_tanh_at(NT_TENSOR(x), NT_SITE)         /* Gradient: c (1 - y y) */
#define nt_logistic(x) nt_logistic_at(NT_TENSOR(x), NT_SITE) /* 1 / (1 + exp(-x)). Gradient: c y (1 - y) */
#define nt_relu(x) nt_relu_at(NT_TENSOR(x), NT_SITE)         /* max(x, 0), keeps nan. Gradient: c where x > 0, else 0 */

nt_tensor nt_exp_at(nt_tensor x, nt_site site);
nt_tensor nt_expm1_at(nt_tensor x, nt_site site);
nt_tensor nt_log_at(nt_tensor x, nt_site site);
nt_tensor nt_log1p_at(nt_tensor x, nt_site site);
nt_tensor nt_sqrt_at(nt_tensor x, nt_site site);
nt_tensor nt_rsqrt_at(nt_tensor x, nt_site site);
nt_tensor nt_tanh_at(nt_tensor x, nt_site site);
nt_tensor nt_logistic_at(nt_tensor x, nt_site site);
nt_tensor nt_relu_at(nt_tensor x, nt_site site);

/* ---- comparison and choice -------------------------------------------------------------------------------------- */

/* bool tensors; any comparison with nan is false, except not_equal. No gradient. */
#define nt_equal(a, b) nt_equal_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
#define nt_not_equal(a, b) nt_not_equal_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
#define nt_less(a, b) nt_less_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
#define nt_less_equal(a, b) nt_less_equal_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
#define nt_greater(a, b) nt_greater_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
#define nt_greater_equal(a, b) nt_greater_equal_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
/* a where the bool tensor `which` is true, else b; all three broadcast. Gradient: c or 0. */
#define nt_where(which, a, b) nt_where_at(which, NT_TENSOR(a), NT_TENSOR(b), NT_SITE)

nt_tensor nt_equal_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_not_equal_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_less_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_less_equal_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_greater_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_greater_equal_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_where_at(nt_tensor which, nt_tensor a, nt_tensor b, nt_site site);

/* ---- new values ------------------------------------------------------------------------------------------------- */

/* A tensor of `shape` filled with one number. */
#define nt_full(dtype, shape, value) nt_full_at(dtype, shape, value, NT_SITE)
/* A small host array as a constant of the program: its elements are written into the program's text. Data belongs in a
 * field of the batch, a DEVICE field or a parameter, and is refused here, before it is read: all constant arrays of a
 * trace may have 65,536 bytes. Data that comes as many numbers is refused too: one line may make constants of 4,096
 * different elements in a trace. */
#define nt_constant(array) nt_constant_at(array, #array, NT_SITE)
/* Index along `axis`: 0, 1, 2, ... in a tensor of `shape`. */
#define nt_iota(dtype, shape, axis) nt_iota_at(dtype, shape, axis, NT_SITE)
/* Integer labels [...] to [..., classes]: 1 at the label, else 0; a label outside 0..classes-1 gives a row of zeros. No
 * gradient. */
#define nt_one_hot(labels, classes, dtype) nt_one_hot_at(labels, classes, dtype, NT_SITE)

nt_tensor nt_full_at(nt_dtype dtype, nt_shape shape, double value, nt_site site);
nt_tensor nt_constant_at(const nt_array *array, const char *expression, nt_site site);
nt_tensor nt_iota_at(nt_dtype dtype, nt_shape shape, int axis, nt_site site);
nt_tensor nt_one_hot_at(nt_tensor labels, int64_t classes, nt_dtype dtype, nt_site site);

/* ---- types and shapes ------------------------------------------------------------------------------------------- */

/* Another element type. Floating to integer truncates and saturates, nan gives 0; to bool: whether it is not 0.
 * Gradient between floating types: c converted back; else none. */
#define nt_convert(x, dtype) nt_convert_at(x, dtype, NT_SITE)
/* The same elements, row-major, in another shape; one size may be -1: what is left. nt_reshape(x, -1, 784). Gradient: c
 * reshaped back. */
#define nt_reshape(x, ...) nt_reshape_at(x, nt_dims(__VA_ARGS__), NT_SITE)
/* Axis i of the result is axis axes[i] of x: nt_transpose(x, 1, 0). Gradient: c transposed back. */
#define nt_transpose(x, ...) nt_transpose_at(x, nt_dims(__VA_ARGS__), NT_SITE)
/* Stretches x to `shape` by numpy's rule. Gradient: c summed over what was stretched. */
#define nt_broadcast(x, shape) nt_broadcast_at(NT_TENSOR(x), shape, NT_SITE)
/* Elements start[i] <= index < limit[i] along each axis. Gradient: c in zeros at its place. */
#define nt_slice(x, start, limit) nt_slice_at(x, start, limit, NT_SITE)
/* x with the block `update` written at `start` (constant). Gradient: c with zeros in the block; the block of c. */
#define nt_update_slice(x, update, start) nt_update_slice_at(x, update, start, NT_SITE)
/* The value of x; no gradient flows back. */
#define nt_stop_gradient(x) nt_stop_gradient_at(x, NT_SITE)

nt_tensor nt_convert_at(nt_tensor x, nt_dtype dtype, nt_site site);
nt_tensor nt_reshape_at(nt_tensor x, nt_shape shape, nt_site site);
nt_tensor nt_transpose_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_broadcast_at(nt_tensor x, nt_shape shape, nt_site site);
nt_tensor nt_slice_at(nt_tensor x, nt_shape start, nt_shape limit, nt_site site);
nt_tensor nt_update_slice_at(nt_tensor x, nt_tensor update, nt_shape start, nt_site site);
nt_tensor nt_stop_gradient_at(nt_tensor x, nt_site site);

/* ---- reductions ------------------------------------------------------------------------------------------------- */

/* Floating and integer (mean: floating). Over `axes`, which are dropped: nt_sum(x, -1), nt_sum(x, 0, 1); none given
 * means all: nt_sum(x). Gradient: c stretched; mean: c / number. */
#define nt_sum(x, ...) nt_sum_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
#define nt_mean(x, ...) nt_mean_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* Largest element; a nan is the result. Gradient: c shared evenly among equal largest ones. */
#define nt_reduce_max(x, ...) nt_reduce_max_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)

nt_tensor nt_sum_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_mean_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_reduce_max_at(nt_tensor x, nt_shape axes, nt_site site);

/* log(softmax(x)) along the last axis, without overflow. */
#define nt_log_softmax(x) nt_log_softmax_at(x, NT_SITE)
/* exp(x) / sum(exp(x)) along the last axis, without overflow. */
#define nt_softmax(x) nt_softmax_at(x, NT_SITE)

nt_tensor nt_log_softmax_at(nt_tensor x, nt_site site);
nt_tensor nt_softmax_at(nt_tensor x, nt_site site);

/* ---- linear algebra --------------------------------------------------------------------------------------------- */

/* Matrix product of the last two axes, [..., m, k] x [..., k, n] -> [..., m, n]. A vector operand has its missing axis
 * added and dropped again; leading axes broadcast (numpy.matmul). Gradient: c b^T, a^T c. */
#define nt_matmul(a, b) nt_matmul_at(a, b, NT_SITE)
nt_tensor nt_matmul_at(nt_tensor a, nt_tensor b, nt_site site);

/* The axes of a reduction: a leading marker lets the list be empty. */
#define NT_AXES_(...) nt_axes_list((int64_t[]){INT64_MIN, ##__VA_ARGS__}, NT_COUNT_(INT64_MIN, ##__VA_ARGS__))
static inline nt_shape nt_axes_list(const int64_t *marked, int count) {
    nt_shape axes = {.rank = count - 1};
    for (int i = 1; i < count && i <= NT_MAX_RANK; i++) axes.dims[i - 1] = marked[i];
    return axes;
}

#endif
