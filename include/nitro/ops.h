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

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arithmetic: floating and integer --------------------------------------------------------------------------- */

/* Integers wrap around where a result is not of their type, as NumPy's do. */

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
/* Remainders. rem has the sign of a (C's fmod), mod that of b (Python's %). Integers: x rem 0 and x mod 0 are x;
 * floating: nan. Gradient: c, -c trunc(a / b); mod: c, -c floor(a / b). */
#define nt_rem(a, b) nt_rem_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
#define nt_mod(a, b) nt_mod_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
/* The largest whole number that is not above a / b. Integers: x / 0 as in nt_div. Gradient: 0. */
#define nt_floor_div(a, b) nt_floor_div_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
/* min(max(x, low), high): x moved into the range; all three broadcast; a nan of any is the result. Gradient: c inside,
 * 0 outside, half at a bound, where a bound that is a tensor gets the rest. */
#define nt_clamp(x, low, high) nt_clamp_at(NT_TENSOR(x), NT_TENSOR(low), NT_TENSOR(high), NT_SITE)

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
nt_tensor nt_rem_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_mod_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_floor_div_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_clamp_at(nt_tensor x, nt_tensor low, nt_tensor high, nt_site site);

/* ---- functions of one floating tensor --------------------------------------------------------------------------- */

#define nt_exp(x) nt_exp_at(NT_TENSOR(x), NT_SITE)           /* Gradient: c y */
#define nt_expm1(x) nt_expm1_at(NT_TENSOR(x), NT_SITE)       /* exp(x) - 1, exact near 0. Gradient: c (y + 1) */
#define nt_log(x) nt_log_at(NT_TENSOR(x), NT_SITE)           /* Natural logarithm. Gradient: c / x */
#define nt_log1p(x) nt_log1p_at(NT_TENSOR(x), NT_SITE)       /* log(1 + x), exact near 0. Gradient: c / (1 + x) */
#define nt_sqrt(x) nt_sqrt_at(NT_TENSOR(x), NT_SITE)         /* Gradient: c / (2 y) */
#define nt_rsqrt(x) nt_rsqrt_at(NT_TENSOR(x), NT_SITE)       /* 1 / sqrt(x). Gradient: -c y / (2 x) */
#define nt_tanh(x) nt_tanh_at(NT_TENSOR(x), NT_SITE)         /* Gradient: c (1 - y y) */
#define nt_logistic(x) nt_logistic_at(NT_TENSOR(x), NT_SITE) /* 1 / (1 + exp(-x)). Gradient: c y (1 - y) */
#define nt_sigmoid(x) nt_logistic(x)                         /* the same under the name that is looked for */
#define nt_relu(x) nt_relu_at(NT_TENSOR(x), NT_SITE)         /* max(x, 0), keeps nan. Gradient: c where x > 0, else 0 */
#define nt_exp2(x) nt_exp2_at(NT_TENSOR(x), NT_SITE)         /* 2 to the power x. Gradient: c y log(2) */
#define nt_log2(x) nt_log2_at(NT_TENSOR(x), NT_SITE)         /* Logarithm to the base 2. Gradient: c / (x log(2)) */
#define nt_log10(x) nt_log10_at(NT_TENSOR(x), NT_SITE)       /* Logarithm to the base 10. Gradient: c / (x log(10)) */
/* Cube root, of negative x too. Gradient: c / (3 y y), infinite at 0 */
#define nt_cbrt(x) nt_cbrt_at(NT_TENSOR(x), NT_SITE)
#define nt_sin(x) nt_sin_at(NT_TENSOR(x), NT_SITE)     /* Radians. Gradient: c cos(x) */
#define nt_cos(x) nt_cos_at(NT_TENSOR(x), NT_SITE)     /* Gradient: -c sin(x) */
#define nt_tan(x) nt_tan_at(NT_TENSOR(x), NT_SITE)     /* Gradient: c (1 + y y) */
#define nt_asin(x) nt_asin_at(NT_TENSOR(x), NT_SITE)   /* -pi/2..pi/2; nan outside -1..1. Gradient: c / sqrt(1 - x x) */
#define nt_acos(x) nt_acos_at(NT_TENSOR(x), NT_SITE)   /* 0..pi; nan outside -1..1. Gradient: -c / sqrt(1 - x x) */
#define nt_atan(x) nt_atan_at(NT_TENSOR(x), NT_SITE)   /* -pi/2..pi/2. Gradient: c / (1 + x x) */
#define nt_sinh(x) nt_sinh_at(NT_TENSOR(x), NT_SITE)   /* (exp(x) - exp(-x)) / 2. Gradient: c cosh(x) */
#define nt_cosh(x) nt_cosh_at(NT_TENSOR(x), NT_SITE)   /* (exp(x) + exp(-x)) / 2. Gradient: c sinh(x) */
#define nt_asinh(x) nt_asinh_at(NT_TENSOR(x), NT_SITE) /* Gradient: c / sqrt(x x + 1) */
#define nt_acosh(x) nt_acosh_at(NT_TENSOR(x), NT_SITE) /* nan below 1. Gradient: c / sqrt(x x - 1) */
#define nt_atanh(x) nt_atanh_at(NT_TENSOR(x), NT_SITE) /* nan outside -1..1. Gradient: c / (1 - x x) */
/* 2/sqrt(pi) times the integral of exp(-t t) from 0 to x. Gradient: 2 c exp(-x x) / sqrt(pi) */
#define nt_erf(x) nt_erf_at(NT_TENSOR(x), NT_SITE)
/* 1 - erf(x), exact for large x. Gradient: -2 c exp(-x x) / sqrt(pi) */
#define nt_erfc(x) nt_erfc_at(NT_TENSOR(x), NT_SITE)
/* erf(y) = x; nan outside -1..1. Gradient: c sqrt(pi) exp(y y) / 2 */
#define nt_erf_inv(x) nt_erf_inv_at(NT_TENSOR(x), NT_SITE)
/* log |Gamma(x)|. Gradient: c digamma(x) */
#define nt_lgamma(x) nt_lgamma_at(NT_TENSOR(x), NT_SITE)
/* The derivative of log Gamma(x), and the one of that of whole order n from 0 (0: digamma itself). nan at 0 and at
 * negative whole x. Gradient: c polygamma(1, x); c polygamma(n + 1, x) */
#define nt_digamma(x) nt_digamma_at(NT_TENSOR(x), NT_SITE)
#define nt_polygamma(n, x) nt_polygamma_at(n, NT_TENSOR(x), NT_SITE)
/* Whole numbers: not above x, not below x, the nearest (round: the even one of two; round_half_away: the one further
 * from 0), toward zero. Keep nan, infinities and the sign of zero. Gradient: 0. */
#define nt_floor(x) nt_floor_at(NT_TENSOR(x), NT_SITE)
#define nt_ceil(x) nt_ceil_at(NT_TENSOR(x), NT_SITE)
#define nt_round(x) nt_round_at(NT_TENSOR(x), NT_SITE)
#define nt_round_half_away(x) nt_round_half_away_at(NT_TENSOR(x), NT_SITE)
#define nt_trunc(x) nt_trunc_at(NT_TENSOR(x), NT_SITE)
/* Of two floating tensors: the angle of the point (b, a), -pi..pi, in the quadrant of the point. Gradient:
 * c b / (a a + b b), -c a / (a a + b b). */
#define nt_atan2(a, b) nt_atan2_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
/* log(exp(a) + exp(b)) without overflow; -inf counts nothing. Gradient: c exp(a - y), c exp(b - y). */
#define nt_logaddexp(a, b) nt_logaddexp_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
/* sqrt(a a + b b) without overflow. Gradient: c a / y, c b / y, 0 where y is 0. */
#define nt_hypot(a, b) nt_hypot_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
/* |a| with the sign of b, that of a zero or nan too. Gradient: c where the sign of a stays, -c where it changes, 0 at
 * a = 0; none in b. */
#define nt_copysign(a, b) nt_copysign_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)

nt_tensor nt_exp_at(nt_tensor x, nt_site site);
nt_tensor nt_expm1_at(nt_tensor x, nt_site site);
nt_tensor nt_log_at(nt_tensor x, nt_site site);
nt_tensor nt_log1p_at(nt_tensor x, nt_site site);
nt_tensor nt_sqrt_at(nt_tensor x, nt_site site);
nt_tensor nt_rsqrt_at(nt_tensor x, nt_site site);
nt_tensor nt_tanh_at(nt_tensor x, nt_site site);
nt_tensor nt_logistic_at(nt_tensor x, nt_site site);
nt_tensor nt_relu_at(nt_tensor x, nt_site site);
nt_tensor nt_exp2_at(nt_tensor x, nt_site site);
nt_tensor nt_log2_at(nt_tensor x, nt_site site);
nt_tensor nt_log10_at(nt_tensor x, nt_site site);
nt_tensor nt_cbrt_at(nt_tensor x, nt_site site);
nt_tensor nt_sin_at(nt_tensor x, nt_site site);
nt_tensor nt_cos_at(nt_tensor x, nt_site site);
nt_tensor nt_tan_at(nt_tensor x, nt_site site);
nt_tensor nt_asin_at(nt_tensor x, nt_site site);
nt_tensor nt_acos_at(nt_tensor x, nt_site site);
nt_tensor nt_atan_at(nt_tensor x, nt_site site);
nt_tensor nt_sinh_at(nt_tensor x, nt_site site);
nt_tensor nt_cosh_at(nt_tensor x, nt_site site);
nt_tensor nt_asinh_at(nt_tensor x, nt_site site);
nt_tensor nt_acosh_at(nt_tensor x, nt_site site);
nt_tensor nt_atanh_at(nt_tensor x, nt_site site);
nt_tensor nt_erf_at(nt_tensor x, nt_site site);
nt_tensor nt_erfc_at(nt_tensor x, nt_site site);
nt_tensor nt_erf_inv_at(nt_tensor x, nt_site site);
nt_tensor nt_lgamma_at(nt_tensor x, nt_site site);
nt_tensor nt_digamma_at(nt_tensor x, nt_site site);
nt_tensor nt_polygamma_at(int order, nt_tensor x, nt_site site);
nt_tensor nt_floor_at(nt_tensor x, nt_site site);
nt_tensor nt_ceil_at(nt_tensor x, nt_site site);
nt_tensor nt_round_at(nt_tensor x, nt_site site);
nt_tensor nt_round_half_away_at(nt_tensor x, nt_site site);
nt_tensor nt_trunc_at(nt_tensor x, nt_site site);
nt_tensor nt_atan2_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_logaddexp_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_hypot_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_copysign_at(nt_tensor a, nt_tensor b, nt_site site);

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

/* Of floating tensors: which elements are neither infinite nor nan, are nan, are infinite. bool; no gradient. */
#define nt_is_finite(x) nt_is_finite_at(NT_TENSOR(x), NT_SITE)
#define nt_is_nan(x) nt_is_nan_at(NT_TENSOR(x), NT_SITE)
#define nt_is_inf(x) nt_is_inf_at(NT_TENSOR(x), NT_SITE)

nt_tensor nt_is_finite_at(nt_tensor x, nt_site site);
nt_tensor nt_is_nan_at(nt_tensor x, nt_site site);
nt_tensor nt_is_inf_at(nt_tensor x, nt_site site);

/* ---- logic and bits --------------------------------------------------------------------------------------------- */

/* Of bool tensors; of integers, bit by bit. No gradient. */
#define nt_and(a, b) nt_and_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
#define nt_or(a, b) nt_or_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
#define nt_xor(a, b) nt_xor_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
#define nt_not(x) nt_not_at(x, NT_SITE)
/* Integers a moved by b bits. shift_right is C's >>: it repeats the sign bit of a signed type and fills an unsigned one
 * with 0; shift_right_logical fills any with 0. A shift by the width of the type or more, or by a negative number,
 * leaves only what fills. No gradient. */
#define nt_shift_left(a, b) nt_shift_left_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
#define nt_shift_right(a, b) nt_shift_right_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
#define nt_shift_right_logical(a, b) nt_shift_right_logical_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
#define nt_popcount(x) nt_popcount_at(x, NT_SITE) /* The number of bits that are 1 in an integer. */
#define nt_count_leading_zeros(x)                                                      \
    nt_count_leading_zeros_at(x, NT_SITE) /* Of integers; of 0: the width of the type. \
                                           */
/* The bits of x, not bool, read as another type. Of the same width: the shape stays. A narrower type adds a last axis
 * with the parts of each element, low bits first; for a wider one the last axis must hold the parts of one element and
 * is dropped. No gradient. */
#define nt_bitcast(x, dtype) nt_bitcast_at(x, dtype, NT_SITE)

nt_tensor nt_and_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_or_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_xor_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_not_at(nt_tensor x, nt_site site);
nt_tensor nt_shift_left_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_shift_right_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_shift_right_logical_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_popcount_at(nt_tensor x, nt_site site);
nt_tensor nt_count_leading_zeros_at(nt_tensor x, nt_site site);
nt_tensor nt_bitcast_at(nt_tensor x, nt_dtype dtype, nt_site site);

/* ---- new values ------------------------------------------------------------------------------------------------- */

/* A tensor of `shape` filled with one number. */
#define nt_full(dtype, shape, value) nt_full_at(dtype, shape, value, NT_SITE)
/* A small host array as a constant of the program: its elements are written into the program's text. Data belongs in a
 * field of the batch, a DEVICE field or a parameter, and is refused here, before it is read: all constant arrays of a
 * trace that differ may have 65,536 bytes. Data that comes as many numbers is refused too: one line may make constants
 * of 4,096 different elements in a trace. */
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
/* Every strides[i]-th of them, from start[i]; strides are positive. Gradient: c at their places in zeros. */
#define nt_slice_strided(x, start, limit, strides) nt_slice_strided_at(x, start, limit, strides, NT_SITE)
/* low[i] elements before and high[i] after x along each axis, all of them `value` (a number or a scalar of the type of
 * x). A negative number cuts as many elements off. Gradient: c without them, zeros where x was cut; their sum for
 * value.
 */
#define nt_pad(x, low, high, value) nt_pad_at(x, low, high, NT_TENSOR(value), NT_SITE)
/* x with the block `update` written at `start` (constant). Gradient: c with zeros in the block; the block of c. */
#define nt_update_slice(x, update, start) nt_update_slice_at(x, update, start, NT_SITE)
/* The value of x; no gradient flows back. */
#define nt_stop_gradient(x) nt_stop_gradient_at(x, NT_SITE)

nt_tensor nt_convert_at(nt_tensor x, nt_dtype dtype, nt_site site);
nt_tensor nt_reshape_at(nt_tensor x, nt_shape shape, nt_site site);
nt_tensor nt_transpose_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_broadcast_at(nt_tensor x, nt_shape shape, nt_site site);
nt_tensor nt_slice_at(nt_tensor x, nt_shape start, nt_shape limit, nt_site site);
nt_tensor nt_slice_strided_at(nt_tensor x, nt_shape start, nt_shape limit, nt_shape strides, nt_site site);
nt_tensor nt_pad_at(nt_tensor x, nt_shape low, nt_shape high, nt_tensor value, nt_site site);
nt_tensor nt_update_slice_at(nt_tensor x, nt_tensor update, nt_shape start, nt_site site);
nt_tensor nt_stop_gradient_at(nt_tensor x, nt_site site);

/* ---- moving elements -------------------------------------------------------------------------------------------- */

/* A new axis of size 1 at `axis` of the result; -1 is the last one. Gradient: c without it. */
#define nt_expand(x, axis) nt_expand_at(x, axis, NT_SITE)
/* x without the axes named, all of size 1: nt_squeeze(x, 0, -1); without any such axis when none is named. Gradient: c
 * with them. */
#define nt_squeeze(x, ...) nt_squeeze_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* Tensors one after the other along an axis that they have, or along a new one: nt_concatenate(0, a, b, c). All other
 * sizes are equal; nt_concatenate_at and nt_stack_at take an array. Gradient: each gets its part of c. */
#define nt_concatenate(axis, ...) \
    nt_concatenate_at((nt_tensor[]){__VA_ARGS__}, NT_COUNT_TENSORS_(__VA_ARGS__), axis, NT_SITE)
#define nt_stack(axis, ...) nt_stack_at((nt_tensor[]){__VA_ARGS__}, NT_COUNT_TENSORS_(__VA_ARGS__), axis, NT_SITE)
#define NT_COUNT_TENSORS_(...) ((int)(sizeof((nt_tensor[]){__VA_ARGS__}) / sizeof(nt_tensor)))
/* Elements start <= index < limit along one axis. Gradient: c in zeros at its place. */
#define nt_range(x, axis, start, limit) nt_range_at(x, axis, start, limit, NT_SITE)
/* An axis in `parts` equal ones, which come in out[0], ... Gradient: each c at its place. */
#define nt_parts(x, axis, parts, out) nt_parts_at(x, axis, parts, out, NT_SITE)
/* Along the axes the other way around; none given means all. Gradient: c flipped back. */
#define nt_flip(x, ...) nt_flip_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* Element i of an axis goes to i + shift; what leaves at one end comes in at the other. Gradient: c rolled back. */
#define nt_roll(x, shift, axis) nt_roll_at(x, shift, axis, NT_SITE)
/* Copies: x as a whole repeats.dims[i] times along axis i (0 1 0 1); each element of one axis (0 0 1 1). Gradient: c
 * summed over the copies. */
#define nt_tile(x, repeats) nt_tile_at(x, repeats, NT_SITE)
#define nt_repeat(x, repeats, axis) nt_repeat_at(x, repeats, axis, NT_SITE)
/* Borders of low[i] elements before and high[i] after along each axis: of the element at the edge (a a | a b c), or of
 * those next to it (c b | a b c), fewer than the axis has. Gradient: c summed over the copies. */
#define nt_pad_edge(x, low, high) nt_pad_edge_at(x, low, high, NT_SITE)
#define nt_pad_reflect(x, low, high) nt_pad_reflect_at(x, low, high, NT_SITE)
/* bool [rows, columns]: where column <= row + diagonal. nt_not gives the rest. */
#define nt_triangle(rows, columns, diagonal) nt_triangle_at(rows, columns, diagonal, NT_SITE)
/* The matrices in the last two axes with zeros above, below the diagonal; 0 is the main one, 1 the next above it.
 * Gradient: the same of c. */
#define nt_lower_triangle(x, diagonal) nt_lower_triangle_at(x, diagonal, NT_SITE)
#define nt_upper_triangle(x, diagonal) nt_upper_triangle_at(x, diagonal, NT_SITE)

nt_tensor nt_expand_at(nt_tensor x, int64_t axis, nt_site site);
nt_tensor nt_squeeze_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_concatenate_at(const nt_tensor *tensors, int count, int64_t axis, nt_site site);
nt_tensor nt_stack_at(const nt_tensor *tensors, int count, int64_t axis, nt_site site);
nt_tensor nt_range_at(nt_tensor x, int64_t axis, int64_t start, int64_t limit, nt_site site);
void nt_parts_at(nt_tensor x, int64_t axis, int64_t parts, nt_tensor *out, nt_site site);
nt_tensor nt_flip_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_roll_at(nt_tensor x, int64_t shift, int64_t axis, nt_site site);
nt_tensor nt_tile_at(nt_tensor x, nt_shape repeats, nt_site site);
nt_tensor nt_repeat_at(nt_tensor x, int64_t repeats, int64_t axis, nt_site site);
nt_tensor nt_pad_edge_at(nt_tensor x, nt_shape low, nt_shape high, nt_site site);
nt_tensor nt_pad_reflect_at(nt_tensor x, nt_shape low, nt_shape high, nt_site site);
nt_tensor nt_triangle_at(int64_t rows, int64_t columns, int64_t diagonal, nt_site site);
nt_tensor nt_lower_triangle_at(nt_tensor x, int64_t diagonal, nt_site site);
nt_tensor nt_upper_triangle_at(nt_tensor x, int64_t diagonal, nt_site site);

/* ---- indexing --------------------------------------------------------------------------------------------------- */

/* Indices are integers from 0; a negative one does not count from the end. One that is out of range reads the nearest
 * element (below 0 the first, else the last) and writes nothing. The start of a block moves so far that the block lies
 * inside. */

/* Slices of x [.., n, ..] across an axis: its place takes the axes of the indices. The rows of an embedding are
 * nt_take(table, tokens, 0). Gradient: c added up at the slices read. */
#define nt_take(x, indices, axis) nt_take_at(x, indices, axis, NT_SITE)
/* y[.., i, ..] = x[.., indices[.., i, ..], ..]: indices have the shape of x but for one axis. Gradient: c added up at
 * the elements read. */
#define nt_take_along(x, indices, axis) nt_take_along_at(x, indices, axis, NT_SITE)
/* x with the slices of `updates`, in the shape that nt_take(x, indices, axis) has (or a number, or what broadcasts to
 * it), written over, added to, multiplied into, or as a larger (smaller) one put for, those at the indices. Floating
 * and integer; add and mul: integers as in nt_sum. Where indices of set are equal, one of the updates is written. A nan
 * of max or min is the result. Gradient: set: c with zeros there, c there; add: c, c there; mul: c times the product of
 * the others, at zeros too; max and min: c shared evenly among equal largest (smallest) ones. */
#define nt_scatter_set(x, indices, updates, axis) nt_scatter_set_at(x, indices, NT_TENSOR(updates), axis, NT_SITE)
#define nt_scatter_add(x, indices, updates, axis) nt_scatter_add_at(x, indices, NT_TENSOR(updates), axis, NT_SITE)
#define nt_scatter_mul(x, indices, updates, axis) nt_scatter_mul_at(x, indices, NT_TENSOR(updates), axis, NT_SITE)
#define nt_scatter_max(x, indices, updates, axis) nt_scatter_max_at(x, indices, NT_TENSOR(updates), axis, NT_SITE)
#define nt_scatter_min(x, indices, updates, axis) nt_scatter_min_at(x, indices, NT_TENSOR(updates), axis, NT_SITE)
/* The block of shape `sizes` at `start`, an integer tensor [rank of x], and x with a block written there. Gradient: c
 * in zeros at its place; c with zeros in the block, the block of c. */
#define nt_dynamic_slice(x, start, sizes) nt_dynamic_slice_at(x, start, sizes, NT_SITE)
#define nt_dynamic_update(x, update, start) nt_dynamic_update_at(x, update, start, NT_SITE)

nt_tensor nt_take_at(nt_tensor x, nt_tensor indices, int64_t axis, nt_site site);
nt_tensor nt_take_along_at(nt_tensor x, nt_tensor indices, int64_t axis, nt_site site);
nt_tensor nt_scatter_set_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site);
nt_tensor nt_scatter_add_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site);
nt_tensor nt_scatter_mul_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site);
nt_tensor nt_scatter_max_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site);
nt_tensor nt_scatter_min_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site);
nt_tensor nt_dynamic_slice_at(nt_tensor x, nt_tensor start, nt_shape sizes, nt_site site);
nt_tensor nt_dynamic_update_at(nt_tensor x, nt_tensor update, nt_tensor start, nt_site site);

/* ---- sorting: floating and integer ------------------------------------------------------------------------------ */

/* Along an axis; equal elements keep their order in both directions; a nan counts as larger than all numbers. Gradient:
 * c at the places that the elements came from. */
typedef enum nt_order { NT_ASCENDING, NT_DESCENDING } nt_order;
#define nt_sort(x, axis, order) nt_sort_at(x, axis, order, NT_SITE)
/* i32 indices of the elements in that order. No gradient. */
#define nt_argsort(x, axis, order) nt_argsort_at(x, axis, order, NT_SITE)
/* The k largest along the last axis, descending, the first of equal ones first: [..., n] to [..., k]. Their i32 indices
 * come in *indices, which may be NULL. Gradient: c at the places that the elements came from. */
#define nt_top_k(x, k, indices) nt_top_k_at(x, k, indices, NT_SITE)

nt_tensor nt_sort_at(nt_tensor x, int64_t axis, nt_order order, nt_site site);
nt_tensor nt_argsort_at(nt_tensor x, int64_t axis, nt_order order, nt_site site);
nt_tensor nt_top_k_at(nt_tensor x, int64_t k, nt_tensor *indices, nt_site site);

/* ---- reductions ------------------------------------------------------------------------------------------------- */

/* Over `axes`: nt_sum(x, -1), nt_sum(x, 0, 1); none given means all: nt_sum(x). The axes are dropped; NT_KEEP among
 * them keeps them with size 1: nt_sum(x, -1, NT_KEEP). */
#define NT_KEEP (INT64_MIN + 1)
/* Sum and product: floating, and integer of 32 and 64 bits, which wrap around; of 8 and 16 bits they are an error, for
 * they soon overflow: nt_sum(nt_convert(x, NT_I32)). 0 and 1 of no elements. What is formed of many elements of bf16
 * and f16, here and below, is formed in f32 and rounded once. A sum over several axes is added up along the longest
 * first and then in f64, so that it is right to some 6 digits however many elements there are.
 * Gradient: c stretched; prod: c times the product of the others, at zeros too. Mean: floating, nan of no elements.
 * Gradient: c / number. */
#define nt_sum(x, ...) nt_sum_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
#define nt_prod(x, ...) nt_prod_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
#define nt_mean(x, ...) nt_mean_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* Largest and smallest element; a nan is the result. Of no elements: the smallest (largest) value of the type.
 * Gradient: c shared evenly among equal ones. */
#define nt_reduce_max(x, ...) nt_reduce_max_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
#define nt_reduce_min(x, ...) nt_reduce_min_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* sum((x - mean) (x - mean)) / (number - correction), floating, and its square root, the standard deviation. The
 * correction is 0 for all of a population and 1 for a sample of it; nan where nothing is left to divide by. Gradient:
 * 2 c (x - mean) / (number - correction); of the deviation nan where it is 0. */
#define nt_variance(x, correction, ...) nt_variance_at(x, correction, NT_AXES_(__VA_ARGS__), NT_SITE)
#define nt_deviation(x, correction, ...) nt_deviation_at(x, correction, NT_AXES_(__VA_ARGS__), NT_SITE)
/* log(sum(exp(x))), floating, without overflow; -inf counts nothing, -inf of no others. Gradient: c exp(x - y). */
#define nt_logsumexp(x, ...) nt_logsumexp_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* Whether any, all elements of a bool tensor are true; false, true of none. No gradient. */
#define nt_any(x, ...) nt_any_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
#define nt_all(x, ...) nt_all_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* i32 index of the largest, smallest element along one axis, which is dropped: the first of equal ones, and the first
 * nan where there is one. The axis may not be empty. No gradient. */
#define nt_argmax(x, axis) nt_argmax_at(x, axis, NT_SITE)
#define nt_argmin(x, axis) nt_argmin_at(x, axis, NT_SITE)
/* Running sum, product, largest and smallest element along one axis, in the shape of x: element i is made of elements
 * 0..i, backward of i..last. Floating and integer; a nan stays in all that follow. Gradient: of the sum, c summed the
 * other way; of the product, by the products of the others, at zeros too; of an extreme, c to the element that it is,
 * the first one met of equal ones. cumsum and cumprod: integers as in nt_sum. cumlogsumexp: log(sum(exp(x))), floating,
 * without overflow; -inf counts nothing. Gradient: exp(x[i]) times the sum of c[j] exp(-y[j]) over the j that i is part
 * of. */
typedef enum nt_direction { NT_FORWARD, NT_BACKWARD } nt_direction;
#define nt_cumsum(x, axis, direction) nt_cumsum_at(x, axis, direction, NT_SITE)
#define nt_cumprod(x, axis, direction) nt_cumprod_at(x, axis, direction, NT_SITE)
#define nt_cummax(x, axis, direction) nt_cummax_at(x, axis, direction, NT_SITE)
#define nt_cummin(x, axis, direction) nt_cummin_at(x, axis, direction, NT_SITE)
#define nt_cumlogsumexp(x, axis, direction) nt_cumlogsumexp_at(x, axis, direction, NT_SITE)

nt_tensor nt_sum_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_prod_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_mean_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_reduce_max_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_reduce_min_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_variance_at(nt_tensor x, double correction, nt_shape axes, nt_site site);
nt_tensor nt_deviation_at(nt_tensor x, double correction, nt_shape axes, nt_site site);
nt_tensor nt_logsumexp_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_any_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_all_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_argmax_at(nt_tensor x, int64_t axis, nt_site site);
nt_tensor nt_argmin_at(nt_tensor x, int64_t axis, nt_site site);
nt_tensor nt_cumsum_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site);
nt_tensor nt_cumprod_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site);
nt_tensor nt_cummax_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site);
nt_tensor nt_cummin_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site);
nt_tensor nt_cumlogsumexp_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site);

/* exp(x) / sum(exp(x)) over the axes named, without overflow, and its logarithm; floating. When none is named, along
 * the last axis: nt_softmax(x). Gradient: y (c - sum(c y)); c - exp(y) sum(c). */
#define nt_softmax(x, ...) nt_softmax_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
#define nt_log_softmax(x, ...) nt_log_softmax_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)

nt_tensor nt_softmax_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_log_softmax_at(nt_tensor x, nt_shape axes, nt_site site);

/* ---- linear algebra --------------------------------------------------------------------------------------------- */

/* Matrix product of the last two axes, [..., m, k] x [..., k, n] -> [..., m, n]. A vector operand has its missing axis
 * added and dropped again; leading axes broadcast (numpy.matmul). Floating, and integers as in nt_sum. Gradient: c b^T,
 * a^T c. */
#define nt_matmul(a, b) nt_matmul_at(a, b, NT_SITE)
/* Two vectors [m] and [n]: a[i] b[j], [m, n]. Gradient: c b, a c. */
#define nt_outer(a, b) nt_outer_at(a, b, NT_SITE)
/* Einstein summation: nt_einsum("bij,bjk->bik", a, b). One term an operand, one letter an axis; what the result does
 * not name is summed, after the product of the elements that share their letters. A letter twice in a term means the
 * diagonal. Without "->" the result has the letters that stand once, in the order of the alphabet. Operands are
 * contracted from left to right. Types as of nt_matmul. Letters of equal name have equal size. Gradient: the equation
 * with c in the place of the operand. */
#define nt_einsum(equation, ...) \
    nt_einsum_at(equation, (nt_tensor[]){__VA_ARGS__}, sizeof((nt_tensor[]){__VA_ARGS__}) / sizeof(nt_tensor), NT_SITE)

nt_tensor nt_matmul_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_outer_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_einsum_at(const char *text, const nt_tensor *operands, size_t count, nt_site site);

/* Norms over axes, which are dropped: nt_norm(x, -1); none given means all. 0 where there is no element. Euclidean, the
 * root of the sum of squares (infinite where the squares are). Gradient: c x / y, 0 where y is 0. */
#define nt_norm(x, ...) nt_norm_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* Sum of the absolute values. Gradient: c sign(x). */
#define nt_norm1(x, ...) nt_norm1_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* Largest absolute value. Gradient: c sign(x) at the largest ones, shared evenly among equal ones. */
#define nt_norm_max(x, ...) nt_norm_max_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)

nt_tensor nt_norm_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_norm1_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_norm_max_at(nt_tensor x, nt_shape axes, nt_site site);

/* ---- convolution and pooling ------------------------------------------------------------------------------------ */

/* Options with an entry for each spatial axis. A list of fewer entries than axes goes on with its last one: .stride =
 * {2} is a stride of 2 along all axes, .pad = {{1, 1}} one zero at each end of all, .pad = {{1, 1}, {0, 0}} some along
 * the first axis alone. A list of none is the default; an entry for an axis that there is not is an error. The macros
 * count the entries of `pad` and `output_padding` in their own text; the functions nt_conv_at, ... take these as they
 * stand unless `written` has that text. A 0 in one of the other lists is the entry before it. */
enum { NT_CONV_AXES = 3 };
/* The text of the options, after their macros are expanded. */
#define NT_WRITTEN_(...) "" #__VA_ARGS__
#define NT_WRITTEN(...) NT_WRITTEN_(__VA_ARGS__)
#define NT_OPTIONS_(type, ...) ((type){.written = NT_WRITTEN(__VA_ARGS__), __VA_ARGS__})

typedef struct nt_conv_options {
    const char *written;            /* the macros': these options as text; NULL is none */
    int64_t stride[NT_CONV_AXES];   /* 1 */
    bool same;                      /* padding with zeros for ceil(size / stride) results, the odd one after */
    int64_t pad[NT_CONV_AXES][2];   /* or zeros before and after; negative ones cut off. None: only whole windows */
    int64_t dilation[NT_CONV_AXES]; /* of the kernel: 1 */
    int64_t input_dilation[NT_CONV_AXES]; /* zeros between the elements of x: 1 */
    int64_t groups;                       /* 1; as many as channels: each channel by itself */
    bool channels_first; /* x [n, c, h, w], kernel [out, in / groups, kh, kw]; slower on some engines */
} nt_conv_options;
/* nt_conv2d(x, kernel, .stride = {2}, .same = true): x [n, h, w, in], kernel [kh, kw, in / groups, out], result [n, h',
 * w', out] with h' = floor((h + padding - dilation (kh - 1) - 1) / stride) + 1:
 * y[n, p, q, o] = sum over i, j, c of x[n, stride p + dilation i - before, ..., c] kernel[i, j, c, o] (the kernel is
 * not flipped). Floating types. In one dimension x is [n, l, in], in three [n, d, h, w, in]. Gradient: convolutions of
 * c with the kernel, and of x with c. */
#define nt_conv1d(x, kernel, ...) nt_conv_at(x, kernel, 1, NT_OPTIONS_(nt_conv_options, __VA_ARGS__), NT_SITE)
#define nt_conv2d(x, kernel, ...) nt_conv_at(x, kernel, 2, NT_OPTIONS_(nt_conv_options, __VA_ARGS__), NT_SITE)
#define nt_conv3d(x, kernel, ...) nt_conv_at(x, kernel, 3, NT_OPTIONS_(nt_conv_options, __VA_ARGS__), NT_SITE)

typedef struct nt_conv_transposed_options {
    const char *written;
    int64_t stride[NT_CONV_AXES];         /* 1 */
    int64_t pad[NT_CONV_AXES][2];         /* what is cut off the result before and after */
    int64_t output_padding[NT_CONV_AXES]; /* 0; more of the result after, less than the stride */
    int64_t dilation[NT_CONV_AXES];       /* 1 */
    int64_t groups;                       /* 1 */
    bool channels_first;
} nt_conv_transposed_options;
/* What the gradient of a convolution does to c, with the layouts of nt_conv2d (the kernel is flipped): the result has
 * h' = (h - 1) stride - padding + dilation (kh - 1) + output_padding + 1. Gradient: convolutions. */
#define nt_conv1d_transposed(x, kernel, ...) \
    nt_conv_transposed_at(x, kernel, 1, NT_OPTIONS_(nt_conv_transposed_options, __VA_ARGS__), NT_SITE)
#define nt_conv2d_transposed(x, kernel, ...) \
    nt_conv_transposed_at(x, kernel, 2, NT_OPTIONS_(nt_conv_transposed_options, __VA_ARGS__), NT_SITE)
#define nt_conv3d_transposed(x, kernel, ...) \
    nt_conv_transposed_at(x, kernel, 3, NT_OPTIONS_(nt_conv_transposed_options, __VA_ARGS__), NT_SITE)

nt_tensor nt_conv_at(nt_tensor x, nt_tensor kernel, int axes, nt_conv_options options, nt_site site);
nt_tensor nt_conv_transposed_at(nt_tensor x, nt_tensor kernel, int axes, nt_conv_transposed_options options,
                                nt_site site);

typedef struct nt_pool_options {
    const char *written;
    int64_t stride[NT_CONV_AXES]; /* the window: side by side */
    bool same;                    /* padding for ceil(size / stride) results, the odd one after */
    int64_t pad[NT_CONV_AXES][2]; /* or before and after, less than the window. None: only whole windows */
    bool count_padding;           /* avg_pool: divide by the whole window, not by what of it is no padding */
    bool channels_first;          /* x [n, c, h, w] and not [n, h, w, c] */
} nt_pool_options;
/* nt_max_pool(x, nt_dims(2, 2), .stride = {2}): largest element of each window; floating types, 1 to 3 spatial axes,
 * [n, h, w, c] to [n, h', w', c] with h' = floor((h + padding - window) / stride) + 1. Padding is -infinity; a nan is
 * the result. Gradient: c to the first of the largest elements of the window, in row-major order, never to padding. */
#define nt_max_pool(x, window, ...) nt_max_pool_at(x, window, NT_OPTIONS_(nt_pool_options, __VA_ARGS__), NT_SITE)
/* Mean of each window, without its padding. Gradient: c / number to each element. */
#define nt_avg_pool(x, window, ...) nt_avg_pool_at(x, window, NT_OPTIONS_(nt_pool_options, __VA_ARGS__), NT_SITE)
/* The same with one window over all positions, of 1 to 3 axes: [n, h, w, c] to [n, c]. */
#define nt_global_max_pool(x) nt_global_max_pool_at(x, NT_SITE)
#define nt_global_avg_pool(x) nt_global_avg_pool_at(x, NT_SITE)

nt_tensor nt_max_pool_at(nt_tensor x, nt_shape window, nt_pool_options options, nt_site site);
nt_tensor nt_avg_pool_at(nt_tensor x, nt_shape window, nt_pool_options options, nt_site site);
nt_tensor nt_global_max_pool_at(nt_tensor x, nt_site site);
nt_tensor nt_global_avg_pool_at(nt_tensor x, nt_site site);

/* The axes of a reduction: a leading marker lets the list be empty. Always inline, for gcc warns where it makes a copy
 * of the function that does not read an empty list. */
#define NT_AXES_(...) nt_axes_list((int64_t[]){INT64_MIN, ##__VA_ARGS__}, NT_COUNT_(INT64_MIN, ##__VA_ARGS__))
static inline __attribute__((always_inline)) nt_shape nt_axes_list(const int64_t *marked, int count) {
    nt_shape axes = {count - 1, {0}};
    for (int i = 1; i < count && i <= NT_MAX_RANK; i++) axes.dims[i - 1] = marked[i];
    return axes;
}

#ifdef __cplusplus
}
#endif

#endif
