/* Operations that take each element by itself: arithmetic, functions, comparison, logic. The notes at the top of
 * nitro/ops.h hold.
 */
#ifndef NITRO_ELEMENTWISE_H
#define NITRO_ELEMENTWISE_H

#include "nitro/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arithmetic: floating and integer --------------------------------------------------------------------------- */

/* Integers wrap around if a result is not of their type, as NumPy's do. */

#define nt_add(a, b) nt_add_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE) /* a + b. Gradient: c, c */
#define nt_sub(a, b) nt_sub_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE) /* a - b. Gradient: c, -c */
#define nt_mul(a, b) nt_mul_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE) /* a b. Gradient: c b, c a */
/* a / b. Gradient: c / b, -c y / b. Integers truncate toward zero; x / 0 is -1 (unsigned: all ones). */
#define nt_div(a, b) nt_div_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
/* a to the power b. Gradient: c b a^(b-1) (0 if b is 0), c y log(a) (0 if a is 0 and b is not negative). */
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
#define nt_relu(x) nt_relu_at(NT_TENSOR(x), NT_SITE)         /* max(x, 0), keeps nan. Gradient: c if x > 0, else 0 */
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
/* sqrt(a a + b b) without overflow. Gradient: c a / y, c b / y, 0 if y is 0. */
#define nt_hypot(a, b) nt_hypot_at(NT_TENSOR(a), NT_TENSOR(b), NT_SITE)
/* |a| with the sign of b, that of a zero or nan too. Gradient: c if the sign of a stays, -c if it changes, 0 at
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
/* a if the bool tensor `which` is true, else b; all three broadcast. Gradient: c or 0. */
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

#ifdef __cplusplus
}
#endif

#endif
