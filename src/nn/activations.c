/* Activations, of operations. Branches are chosen with nt_where on arguments that are safe on both sides: a product
 * with a derivative that is infinite there would be nan. */
#include "nitro/activations.h"

#include <math.h>

#include "nitro/control.h"
#include "nn/nn.h"

static nt_tensor number(double value) {
    return nt_tensor_number(value);
}

/* What is activated: a floating tensor, or a C number, which becomes one. */
static bool is_floating(nt_tensor *x, const char *what, nt_site site) {
    char text[NT__TYPE_TEXT];
    if (x->trace == NT_NUMBER_MARK) *x = nt_full_at(NT_F32, (nt_shape){0}, x->number, site);
    if (!nt__tensor_given(*x, site, what, "x")) return false;
    nt__type type = {nt_dtype_of(*x), nt_shape_of(*x)};
    if (nt_dtype_is_float(type.dtype)) return true;
    nt__trace_fail(site, what, "needs a floating tensor, got %s; nt_convert makes one", nt__type_text(type, text));
    return false;
}

static bool is_allowed(bool allowed, double number, const char *what, const char *rule, nt_site site) {
    if (!allowed) nt__trace_fail(site, what, "%s, got %g", rule, nt__plain_nan(number));
    return allowed;
}

/* ---- of the family of relu -------------------------------------------------------------------------------------- */

nt_tensor nt_relu6_at(nt_tensor x, nt_site site) {
    if (!is_floating(&x, "relu6", site)) return nt__failed();
    return nt_where_at(nt_greater_equal_at(x, number(6), site), number(6), nt_relu_at(x, site), site);
}

nt_tensor nt_leaky_relu_at(nt_tensor x, double slope, nt_site site) {
    if (!is_floating(&x, "leaky_relu", site)) return nt__failed();
    if (!is_allowed(isfinite(slope), slope, "leaky_relu", "the slope is a finite number", site)) return nt__failed();
    return nt_where_at(nt_greater_at(x, number(0), site), x, nt_mul_at(x, number(slope), site), site);
}

nt_tensor nt_celu_at(nt_tensor x, double alpha, nt_site site) {
    if (!is_floating(&x, "celu", site)) return nt__failed();
    if (!is_allowed(isfinite(alpha) && alpha > 0, alpha, "celu", "alpha is a finite number above 0", site))
        return nt__failed();
    nt_tensor positive = nt_greater_at(x, number(0), site), below = nt_where_at(positive, number(0), x, site);
    nt_tensor curve = nt_expm1_at(nt_div_at(below, number(alpha), site), site);
    return nt_where_at(positive, x, nt_mul_at(curve, number(alpha), site), site);
}

nt_tensor nt_elu_at(nt_tensor x, double alpha, nt_site site) {
    if (!is_floating(&x, "elu", site)) return nt__failed();
    if (!is_allowed(isfinite(alpha) && alpha >= 0, alpha, "elu", "alpha is a finite number from 0 on", site))
        return nt__failed();
    nt_tensor positive = nt_greater_at(x, number(0), site), below = nt_where_at(positive, number(0), x, site);
    return nt_where_at(positive, x, nt_mul_at(nt_expm1_at(below, site), number(alpha), site), site);
}

nt_tensor nt_selu_at(nt_tensor x, nt_site site) {
    if (!is_floating(&x, "selu", site)) return nt__failed();
    const double scale = 1.0507009873554805, alpha = 1.6732632423543772;
    return nt_mul_at(nt_elu_at(x, alpha, site), number(scale), site);
}

nt_tensor nt_hard_tanh_at(nt_tensor x, nt_site site) {
    if (!is_floating(&x, "hard_tanh", site)) return nt__failed();
    nt_tensor low = nt_where_at(nt_less_equal_at(x, number(-1), site), number(-1), x, site);
    return nt_where_at(nt_greater_equal_at(x, number(1), site), number(1), low, site);
}

nt_tensor nt_hard_sigmoid_at(nt_tensor x, nt_site site) {
    if (!is_floating(&x, "hard_sigmoid", site)) return nt__failed();
    return nt_div_at(nt_relu6_at(nt_add_at(x, number(3), site), site), number(6), site);
}

nt_tensor nt_hard_swish_at(nt_tensor x, nt_site site) {
    if (!is_floating(&x, "hard_swish", site)) return nt__failed();
    return nt_mul_at(x, nt_hard_sigmoid_at(x, site), site);
}

/* ---- smooth ones ------------------------------------------------------------------------------------------------ */

/* By erfc, which keeps its digits far below 0 where 1 + erf has none left. */
nt_tensor nt_gelu_at(nt_tensor x, nt_site site) {
    if (!is_floating(&x, "gelu", site)) return nt__failed();
    nt_tensor twice = nt_erfc_at(nt_mul_at(x, number(-M_SQRT1_2), site), site);
    return nt_mul_at(nt_mul_at(x, number(0.5), site), twice, site);
}

/* sqrt(2 / pi) (x + 0.044715 x^3), times `sign`. */
static nt_tensor gelu_argument(nt_tensor x, double sign, nt_site site) {
    nt_tensor cubed = nt_mul_at(nt_square_at(x, site), x, site);
    nt_tensor inner = nt_add_at(x, nt_mul_at(cubed, number(0.044715), site), site);
    return nt_mul_at(inner, number(sign * M_SQRT1_2 * M_2_SQRTPI), site);
}

static nt_values gelu_tanh(nt_values x, void *context) {
    nt_site site = *(const nt_site *)context;
    nt_tensor tanh = nt_tanh_at(gelu_argument(x.at[0], 1, site), site);
    return (nt_values){{nt_mul_at(nt_mul_at(x.at[0], number(0.5), site), nt_add_at(tanh, number(1), site), site)}};
}

/* c ((1 - t) / 2 + sqrt(1 / (2 pi)) (b + 3 0.044715 b x^2)) where b = x (1 - t^2), with t the tanh of the negative,
 * which the forward pass has not: the engine would write and read that one, which takes longer than to compute it
 * again. Far from 0, where x^2 overflows, b is 0 first. */
static nt_values gelu_tanh_cotangent(nt_values x, nt_values y, nt_values c, void *context) {
    (void)y;
    nt_site site = *(const nt_site *)context;
    nt_tensor tanh = nt_tanh_at(gelu_argument(x.at[0], -1, site), site);
    nt_tensor bend = nt_mul_at(x.at[0], nt_sub_at(number(1), nt_square_at(tanh, site), site), site);
    nt_tensor third = nt_mul_at(nt_mul_at(bend, x.at[0], site), x.at[0], site);
    nt_tensor inner = nt_add_at(bend, nt_mul_at(third, number(3 * 0.044715), site), site);
    nt_tensor slope = nt_mul_at(inner, number(M_SQRT1_2 * M_2_SQRTPI), site);
    nt_tensor twice = nt_add_at(nt_sub_at(number(1), tanh, site), slope, site);
    return (nt_values){{nt_mul_at(c.at[0], nt_mul_at(twice, number(0.5), site), site)}};
}

nt_tensor nt_gelu_tanh_at(nt_tensor x, nt_site site) {
    if (!is_floating(&x, "gelu_tanh", site)) return nt__failed();
    return nt_custom_gradient_at(gelu_tanh, gelu_tanh_cotangent, &site, (nt_values){{x}}, site).at[0];
}

nt_tensor nt_silu_at(nt_tensor x, nt_site site) {
    if (!is_floating(&x, "silu", site)) return nt__failed();
    return nt_mul_at(x, nt_logistic_at(x, site), site);
}

nt_tensor nt_softplus_at(nt_tensor x, nt_site site) {
    if (!is_floating(&x, "softplus", site)) return nt__failed();
    return nt_logaddexp_at(x, number(0), site);
}

nt_tensor nt_log_sigmoid_at(nt_tensor x, nt_site site) {
    if (!is_floating(&x, "log_sigmoid", site)) return nt__failed();
    return nt_neg_at(nt_softplus_at(nt_neg_at(x, site), site), site);
}

nt_tensor nt_softsign_at(nt_tensor x, nt_site site) {
    if (!is_floating(&x, "softsign", site)) return nt__failed();
    return nt_div_at(x, nt_add_at(nt_abs_at(x, site), number(1), site), site);
}

nt_tensor nt_mish_at(nt_tensor x, nt_site site) {
    if (!is_floating(&x, "mish", site)) return nt__failed();
    return nt_mul_at(x, nt_tanh_at(nt_softplus_at(x, site), site), site);
}

nt_tensor nt_glu_at(nt_tensor x, int64_t axis, nt_site site) {
    if (!is_floating(&x, "glu", site)) return nt__failed();
    nt_shape start = {.rank = nt_rank(x)}, middle = nt_shape_of(x), end = middle;
    int64_t place = axis < 0 ? axis + start.rank : axis;
    if (place < 0 || place >= start.rank || end.dims[place] % 2 != 0) {
        char text[NT__TYPE_TEXT];
        return nt__trace_fail(site, "glu", "%s has no axis %lld of even size to halve",
                              nt__type_text((nt__type){nt_dtype_of(x), end}, text), (long long)axis);
    }
    middle.dims[place] = start.dims[place] = end.dims[place] / 2;
    nt_tensor second = nt_slice_at(x, start, end, site);
    start.dims[place] = 0;
    return nt_mul_at(nt_slice_at(x, start, middle, site), nt_logistic_at(second, site), site);
}
