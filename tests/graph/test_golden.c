/* Operations on elements against trusted numbers: value and vector-Jacobian product of every golden case, f32 and f64.
 * Those that know of axes are in test_golden_arrays.c, activations and losses in the tests of nn, loops in
 * test_control.c. Gradients of what has no golden case are in test_gradients.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden_files.h"

/* ---- element-wise ----------------------------------------------------------------------------------------------- */

UNARY(neg)
UNARY(abs)
UNARY(sign)
UNARY(square)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(exp)
UNARY(expm1)
UNARY(log)
UNARY(log1p)
UNARY(tanh)
UNARY(logistic)
UNARY(relu)
UNARY(exp2)
UNARY(log2)
UNARY(log10)
UNARY(cbrt)
UNARY(sin)
UNARY(cos)
UNARY(tan)
UNARY(asin)
UNARY(acos)
UNARY(atan)
UNARY(sinh)
UNARY(cosh)
UNARY(asinh)
UNARY(acosh)
UNARY(atanh)
UNARY(erf)
UNARY(erfc)
UNARY(erf_inv)
UNARY(lgamma)
UNARY(digamma)
UNARY(floor)
UNARY(ceil)
UNARY(trunc)
UNARY(round_half_away)
UNARY(is_finite)
UNARY(is_nan)
UNARY(not )
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(max)
BINARY(min)
BINARY(pow)
BINARY(equal)
BINARY(not_equal)
BINARY(less)
BINARY(less_equal)
BINARY(greater)
BINARY(greater_equal)
BINARY(atan2)
BINARY(rem)
BINARY(mod)
BINARY(logaddexp)
BINARY(hypot)
BINARY(copysign)
BINARY(and)
BINARY(or)
BINARY(xor)
BINARY(floor_div)
BINARY(shift_left)
BINARY(shift_right_logical)

static nt_tensor build_round(const golden_case *c) {
    return nt_round(X);
}

static nt_tensor build_reciprocal(const golden_case *c) {
    return nt_div(1, X);
}

static nt_tensor build_squared_difference(const golden_case *c) {
    return nt_square(nt_sub(IN("a"), IN("b")));
}

static nt_tensor build_number_power(const golden_case *c) {
    return nt_pow(X, golden_number(c, "exponent"));
}

static nt_tensor build_where(const golden_case *c) {
    return nt_where(IN("c"), IN("a"), IN("b"));
}

static nt_tensor build_where_sqrt(const golden_case *c) {
    return nt_where(nt_greater(X, 0), nt_sqrt(X), 0);
}

static nt_tensor build_where_sqrt_safe(const golden_case *c) {
    nt_tensor positive = nt_greater(X, 0);
    return nt_where(positive, nt_sqrt(nt_where(positive, X, 1)), 0);
}

static nt_tensor build_clamp(const golden_case *c) {
    if (golden_has(c, "lo")) return nt_clamp(IN("x"), IN("lo"), IN("hi"));
    return nt_clamp(X, golden_number(c, "lo"), golden_number(c, "hi"));
}

static const golden_row elementwise[] = {
    {"neg", build_neg},
    {"abs", build_abs},
    {"sign", build_sign},
    {"square", build_square},
    {"sqrt", build_sqrt},
    {"rsqrt", build_rsqrt},
    {"exp", build_exp},
    {"expm1", build_expm1},
    {"log", build_log},
    {"log1p", build_log1p},
    {"tanh", build_tanh},
    {"logistic", build_logistic},
    {"relu", build_relu},
    {"add", build_add},
    {"sub", build_sub},
    {"mul", build_mul},
    {"div", build_div},
    {"max", build_max},
    {"min", build_min},
    {"pow", build_pow},
    {"integer_pow", build_number_power},
    {"reciprocal", build_reciprocal},
    {"squared_difference", build_squared_difference},
    {"equal", build_equal},
    {"not_equal", build_not_equal},
    {"less", build_less},
    {"less_equal", build_less_equal},
    {"greater", build_greater},
    {"greater_equal", build_greater_equal},
    {"where", build_where},
    {"where_sqrt", build_where_sqrt},
    {"where_sqrt_safe", build_where_sqrt_safe},
    {"clamp", build_clamp},
    {"exp2", build_exp2},
    {"log2", build_log2},
    {"log10", build_log10},
    {"cbrt", build_cbrt},
    {"sin", build_sin},
    {"cos", build_cos},
    {"tan", build_tan},
    {"asin", build_asin},
    {"acos", build_acos},
    {"atan", build_atan},
    {"sinh", build_sinh},
    {"cosh", build_cosh},
    {"asinh", build_asinh},
    {"acosh", build_acosh},
    {"atanh", build_atanh},
    {"erf", build_erf},
    {"erfc", build_erfc},
    {"erf_inv", build_erf_inv},
    {"floor", build_floor},
    {"ceil", build_ceil},
    {"trunc", build_trunc},
    {"is_finite", build_is_finite},
    {"is_nan", build_is_nan},
    {"not", build_not},
    {"atan2", build_atan2},
    {"rem", build_rem},
    {"mod", build_mod},
    {"logaddexp", build_logaddexp},
    {"and", build_and},
    {"or", build_or},
    {"xor", build_xor},
    {"round_half_even", build_round},
    {"round_half_away", build_round_half_away},
    {"lgamma", build_lgamma},
    {"digamma", build_digamma},
    {"hypot", build_hypot},
    {"copysign", build_copysign},
};

/* ---- integers and conversion ------------------------------------------------------------------------------------ */

static nt_tensor build_convert(const golden_case *c) {
    const char *through = golden_text(c, "through"), *to = golden_text(c, "to");
    nt_tensor y = nt_convert(X, golden_dtype(through ? through : to, NT_F32));
    return nt_dtype_is_float(nt_dtype_of(y)) ? nt_convert(y, c->floating) : y;
}

static nt_tensor build_bitcast(const golden_case *c) {
    nt_tensor x = nt_dtype_is_float(nt_dtype_of(X)) ? nt_convert(X, NT_F32) : X;
    nt_tensor y = nt_bitcast(x, golden_dtype(golden_text(c, "to"), NT_F32));
    return nt_dtype_is_float(nt_dtype_of(y)) ? nt_convert(y, c->floating) : y;
}

static nt_tensor build_shift_right(const golden_case *c) {
    return nt_shift_right(IN("a"), IN("b"));
}

static nt_tensor build_popcount(const golden_case *c) {
    return nt_popcount(X);
}

static nt_tensor build_count_leading_zeros(const golden_case *c) {
    return nt_count_leading_zeros(X);
}

static const golden_row integer_and_convert[] = {
    {"add", build_add},
    {"sub", build_sub},
    {"mul", build_mul},
    {"div_trunc", build_div},
    {"max", build_max},
    {"min", build_min},
    {"abs", build_abs},
    {"sign", build_sign},
    {"integer_pow", build_number_power},
    {"convert", build_convert},
    {"rem_trunc", build_rem},
    {"mod_floor", build_mod},
    {"floor_div", build_floor_div},
    {"and", build_and},
    {"or", build_or},
    {"xor", build_xor},
    {"shift_left", build_shift_left},
    {"shift_right_logical", build_shift_right_logical},
    {"shift_right_arithmetic", build_shift_right},
    {"popcount", build_popcount},
    {"count_leading_zeros", build_count_leading_zeros},
    {"bitcast", build_bitcast},
};

/* ---- the files -------------------------------------------------------------------------------------------------- */

/* Left out: a bound counts as a tie here, as in jnp.clip. */
FILE_TEST(elementwise, "ops/elementwise.json", "elementwise/clamp/at_bounds_lax")
FILE_TEST(integer_and_convert, "ops/integer_and_convert.json", NULL)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_f32),
        cmocka_unit_test(elementwise_f64),
        cmocka_unit_test(integer_and_convert_f32),
        cmocka_unit_test(integer_and_convert_f64),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
