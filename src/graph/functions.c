/* Functions of floating tensors: roots and logarithms beyond the natural ones, trigonometric and hyperbolic functions,
 * the error and gamma functions, rounding, remainders. Those that losses and layers are made of are in elementwise.c.
 * Derivatives: Abramowitz and Stegun, Handbook of Mathematical Functions, 4.3 to 4.6, 6.3, 6.4 and 7.1.
 */
#include <math.h>

#include "graph/emit.h"
#include "graph/rules.h"

/* ---- roots, powers and logarithms ------------------------------------------------------------------------------- */

#define UNARY(name)                                       \
    nt_tensor nt_##name##_at(nt_tensor x, nt_site site) { \
        return nt__unary(NT__OP_##name, x, site);         \
    }
UNARY(cbrt)

void nt__gradient_cbrt(const nt__backward *b, nt_tensor *out) {
    out[0] = DIV(C, MUL(3, MUL(Y, Y)));
}

/* A number stands for an f32 scalar, as in nt__unary. False after keeping the error. */
static bool floating(const char *what, nt_tensor *x, nt_site site) {
    if (nt__is_number(*x)) *x = nt__filled(what, (nt__type){NT_F32, {0}}, x->number, site);
    const nt__node *node = nt__node_of(*x, site, what);
    return node && nt__type_floating(site, what, node->type);
}

nt_tensor nt_exp2_at(nt_tensor x, nt_site site) {
    return floating("exp2", &x, site) ? nt_pow_at(nt_tensor_number(2), x, site) : nt__failed();
}

static nt_tensor logarithm(const char *what, nt_tensor x, double base, nt_site site) {
    if (!floating(what, &x, site)) return nt__failed();
    return nt_mul_at(nt_log_at(x, site), nt_tensor_number(1 / log(base)), site);
}

nt_tensor nt_log2_at(nt_tensor x, nt_site site) {
    return logarithm("log2", x, 2, site);
}

nt_tensor nt_log10_at(nt_tensor x, nt_site site) {
    return logarithm("log10", x, 10, site);
}

/* The larger plus log(1 + exp(smaller - larger)); of two equal infinities the sum, for their difference is nan. */
nt_tensor nt_logaddexp_at(nt_tensor a, nt_tensor b, nt_site site) {
    nt_tensor difference = nt__binary("logaddexp", NT__OP_sub, a, b, site, NULL);
    if (!floating("logaddexp", &difference, site)) return nt__failed();
    nt_tensor rest = nt_log1p_at(nt_exp_at(nt_neg_at(nt_abs_at(difference, site), site), site), site);
    nt_tensor sum = nt_add_at(nt_max_at(a, b, site), rest, site);
    return nt_where_at(nt_is_nan_at(difference, site), nt_add_at(a, b, site), sum, site);
}

/* Both operands in their common type and shape, floating. False after keeping the error. */
static bool bring_together(const char *what, nt_tensor *a, nt_tensor *b, nt_site site) {
    nt_tensor both = nt__binary(what, NT__OP_add, *a, *b, site, NULL);
    const nt__node *node = nt__node_of(both, site, what);
    if (!node || !nt__type_floating(site, what, node->type)) return false;
    *a = nt__tensor_of(node->operands[0]);
    *b = nt__tensor_of(node->operands[1]);
    return true;
}

/* Divided by the larger one, so that no square overflows; as a constant, for it cancels in the derivative. */
nt_tensor nt_hypot_at(nt_tensor a, nt_tensor b, nt_site site) {
    if (!bring_together("hypot", &a, &b, site)) return nt__failed();
    nt_tensor zero = nt_tensor_number(0), one = nt_tensor_number(1);
    nt_tensor larger = nt_stop_gradient_at(nt_max_at(nt_abs_at(a, site), nt_abs_at(b, site), site), site);
    nt_tensor divides = nt_and_at(nt_greater_at(larger, zero, site), nt_is_finite_at(larger, site), site);
    nt_tensor scale = nt_where_at(divides, larger, one, site);
    nt_tensor squares =
        nt_add_at(nt_square_at(nt_div_at(a, scale, site), site), nt_square_at(nt_div_at(b, scale, site), site), site);
    nt_tensor at_zero = nt_equal_at(squares, zero, site);
    nt_tensor root = nt_sqrt_at(nt_where_at(at_zero, one, squares, site), site);
    return nt_where_at(at_zero, zero, nt_mul_at(scale, root, site), site);
}

/* ---- trigonometric functions ------------------------------------------------------------------------------------ */

UNARY(sin)
UNARY(cos)
UNARY(tan)
UNARY(asin)
UNARY(acos)

/* The angle of the point (b, a). An engine that finds b to be 1 may take an arc tangent of its own, which is garbage
 * for many elements on some; so b is what it cannot find out: where a is nan, and b does not matter, it is another
 * number. */
static nt_tensor angle(nt__op op, nt_tensor a, nt_tensor b, nt_site site) {
    nt_tensor unknown = nt_where_at(nt_equal_at(a, a, site), b, nt_mul_at(b, nt_tensor_number(2), site), site);
    return nt__binary(nt__operations[op].name, op, a, unknown, site, NULL);
}

nt_tensor nt_atan_at(nt_tensor x, nt_site site) {
    if (!floating("atan", &x, site)) return nt__failed();
    return angle(NT__OP_atan, x, nt__identity(nt_dtype_of(x), 1, site), site);
}

nt_tensor nt_atan2_at(nt_tensor a, nt_tensor b, nt_site site) {
    if (!bring_together("atan2", &a, &b, site)) return nt__failed();
    return angle(NT__OP_atan2, a, b, site);
}

void nt__gradient_sin(const nt__backward *b, nt_tensor *out) {
    out[0] = MUL(C, nt_cos_at(A, b->site));
}

void nt__gradient_cos(const nt__backward *b, nt_tensor *out) {
    out[0] = NEG(MUL(C, nt_sin_at(A, b->site)));
}

void nt__gradient_tan(const nt__backward *b, nt_tensor *out) {
    out[0] = MUL(C, ADD(1, MUL(Y, Y)));
}

/* 1 - x x as a product, which loses no digits near 1. */
static nt_tensor one_minus_square(const nt__backward *b) {
    return MUL(SUB(1, A), ADD(1, A));
}

void nt__gradient_asin(const nt__backward *b, nt_tensor *out) {
    out[0] = DIV(C, nt_sqrt_at(one_minus_square(b), b->site));
}

void nt__gradient_acos(const nt__backward *b, nt_tensor *out) {
    out[0] = NEG(DIV(C, nt_sqrt_at(one_minus_square(b), b->site)));
}

void nt__gradient_atan(const nt__backward *b, nt_tensor *out) {
    out[0] = DIV(C, ADD(1, MUL(A, A)));
}

void nt__gradient_atan2(const nt__backward *b, nt_tensor *out) {
    nt_tensor square = ADD(MUL(A, A), MUL(B, B));
    if (b->wanted[0]) out[0] = MUL(C, DIV(B, square));
    if (b->wanted[1]) out[1] = NEG(MUL(C, DIV(A, square)));
}

/* ---- hyperbolic functions --------------------------------------------------------------------------------------- */

UNARY(sinh)
UNARY(cosh)
UNARY(asinh)
UNARY(acosh)
UNARY(atanh)

void nt__gradient_sinh(const nt__backward *b, nt_tensor *out) {
    out[0] = MUL(C, nt_cosh_at(A, b->site));
}

void nt__gradient_cosh(const nt__backward *b, nt_tensor *out) {
    out[0] = MUL(C, nt_sinh_at(A, b->site));
}

void nt__gradient_asinh(const nt__backward *b, nt_tensor *out) {
    out[0] = DIV(C, nt_sqrt_at(ADD(MUL(A, A), 1), b->site));
}

void nt__gradient_acosh(const nt__backward *b, nt_tensor *out) {
    out[0] = DIV(C, nt_sqrt_at(MUL(SUB(A, 1), ADD(A, 1)), b->site));
}

void nt__gradient_atanh(const nt__backward *b, nt_tensor *out) {
    out[0] = DIV(C, one_minus_square(b));
}

/* ---- the error function ----------------------------------------------------------------------------------------- */

UNARY(erf)
UNARY(erfc)
UNARY(erf_inv)

/* c times the derivative of erf. */
static nt_tensor bell(const nt__backward *b) {
    return MUL(MUL(C, M_2_SQRTPI), nt_exp_at(NEG(MUL(A, A)), b->site));
}

void nt__gradient_erf(const nt__backward *b, nt_tensor *out) {
    out[0] = bell(b);
}

void nt__gradient_erfc(const nt__backward *b, nt_tensor *out) {
    out[0] = NEG(bell(b));
}

void nt__gradient_erf_inv(const nt__backward *b, nt_tensor *out) {
    out[0] = MUL(MUL(C, 1 / M_2_SQRTPI), nt_exp_at(MUL(Y, Y), b->site));
}

/* ---- the gamma function ----------------------------------------------------------------------------------------- */

UNARY(lgamma)
UNARY(digamma)

nt_tensor nt_polygamma_at(int order, nt_tensor x, nt_site site) {
    if (!floating("polygamma", &x, site)) return nt__failed();
    if (order < 0) return nt__trace_fail(site, "polygamma", "the order is %d: it must be at least 0", order);
    nt__type type = {nt_dtype_of(x), nt_shape_of(x)};
    nt_tensor operands[] = {nt__filled("polygamma", type, order, site), x};
    return order == 0 ? nt_digamma_at(x, site) : nt__emit(NT__OP_polygamma, site, type, 2, operands, NULL);
}

void nt__gradient_lgamma(const nt__backward *b, nt_tensor *out) {
    out[0] = MUL(C, nt_digamma_at(A, b->site));
}

void nt__gradient_digamma(const nt__backward *b, nt_tensor *out) {
    out[0] = MUL(C, nt_polygamma_at(1, A, b->site));
}

void nt__gradient_polygamma(const nt__backward *b, nt_tensor *out) {
    nt_tensor operands[] = {ADD(A, 1), B};
    out[1] = MUL(C, nt__emit(NT__OP_polygamma, b->site, b->node->type, 2, operands, NULL));
}

/* ---- rounding --------------------------------------------------------------------------------------------------- */

UNARY(floor)
UNARY(ceil)
UNARY(round)
UNARY(round_half_away)

nt_tensor nt_trunc_at(nt_tensor x, nt_site site) {
    if (!floating("trunc", &x, site)) return nt__failed();
    return nt_where_at(nt_less_at(x, nt_tensor_number(0), site), nt_ceil_at(x, site), nt_floor_at(x, site), site);
}

/* ---- remainders ------------------------------------------------------------------------------------------------- */

nt_tensor nt_rem_at(nt_tensor a, nt_tensor b, nt_site site) {
    return nt__binary("rem", NT__OP_rem, a, b, site, NULL);
}

void nt__gradient_rem(const nt__backward *b, nt_tensor *out) {
    if (b->wanted[0]) out[0] = C;
    if (b->wanted[1]) out[1] = NEG(MUL(C, nt_trunc_at(DIV(A, B), b->site)));
}

/* Where the remainder of a C division must move by one divisor: it is not 0 and has the other sign. */
static nt_tensor wrong_side(nt_tensor remainder, nt_tensor divisor, nt_site site) {
    nt_tensor zero = nt_tensor_number(0);
    nt_tensor signs = nt_xor_at(nt_less_at(remainder, zero, site), nt_less_at(divisor, zero, site), site);
    return nt_and_at(nt_not_equal_at(remainder, zero, site), signs, site);
}

nt_tensor nt_mod_at(nt_tensor a, nt_tensor b, nt_site site) {
    nt_tensor remainder = nt__binary("mod", NT__OP_rem, a, b, site, NULL);
    nt_tensor divisor =
        nt__is_number(b) ? nt__filled("mod", (nt__type){nt_dtype_of(remainder), {0}}, b.number, site) : b;
    nt_tensor moved =
        nt_where_at(wrong_side(remainder, divisor, site), nt_add_at(remainder, divisor, site), remainder, site);
    if (nt_dtype_is_float(nt_dtype_of(remainder))) return moved;
    return nt_where_at(nt_equal_at(divisor, nt_tensor_number(0), site), a, moved, site);
}

nt_tensor nt_floor_div_at(nt_tensor a, nt_tensor b, nt_site site) {
    nt_tensor quotient = nt__binary("floor_div", NT__OP_div, a, b, site, NULL);
    nt_dtype dtype = nt_dtype_of(quotient);
    if (nt_dtype_is_float(dtype)) return nt_floor_at(quotient, site);
    nt_tensor divisor = nt__is_number(b) ? nt__filled("floor_div", (nt__type){dtype, {0}}, b.number, site) : b;
    nt_tensor zero = nt_tensor_number(0), less = nt_sub_at(quotient, nt_tensor_number(1), site);
    nt_tensor down =
        nt_and_at(wrong_side(nt_rem_at(a, divisor, site), divisor, site), nt_not_equal_at(divisor, zero, site), site);
    return nt_where_at(down, less, quotient, site);
}

nt_tensor nt_clamp_at(nt_tensor x, nt_tensor low, nt_tensor high, nt_site site) {
    return nt_min_at(nt_max_at(x, low, site), high, site);
}

/* The sign of a zero and of a nan counts, so it is read from the bits. */
static nt_tensor has_sign(nt_tensor x, nt_site site) {
    size_t size = nt_dtype_size(nt_dtype_of(x));
    nt_dtype bits = size == 8 ? NT_I64 : size == 4 ? NT_I32 : NT_I16;
    return nt_less_at(nt_bitcast_at(x, bits, site), nt_tensor_number(0), site);
}

nt_tensor nt_copysign_at(nt_tensor a, nt_tensor b, nt_site site) {
    if (!bring_together("copysign", &a, &b, site)) return nt__failed();
    nt_tensor size = nt_abs_at(a, site);
    return nt_where_at(has_sign(b, site), nt_neg_at(size, site), size, site);
}

/* ---- what a number is ------------------------------------------------------------------------------------------- */

nt_tensor nt_is_nan_at(nt_tensor x, nt_site site) {
    return floating("is_nan", &x, site) ? nt_not_equal_at(x, x, site) : nt__failed();
}

nt_tensor nt_is_inf_at(nt_tensor x, nt_site site) {
    if (!floating("is_inf", &x, site)) return nt__failed();
    return nt_equal_at(nt_abs_at(x, site), nt_tensor_number(HUGE_VAL), site);
}

nt_tensor nt_is_finite_at(nt_tensor x, nt_site site) {
    if (!floating("is_finite", &x, site)) return nt__failed();
    return nt_less_at(nt_abs_at(x, site), nt_tensor_number(HUGE_VAL), site);
}
