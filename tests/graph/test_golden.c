/* The operations against trusted numbers: value and vector-Jacobian product of every golden case, f32 and f64.
 * Gradients of what has no golden case are in test_gradients.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"

#define IN(name) golden_input(c, name)
#define X c->inputs[0]

/* ---- element-wise ----------------------------------------------------------------------------------------------- */

#define UNARY(name)                                       \
    static nt_tensor build_##name(const golden_case *c) { \
        return nt_##name(X);                              \
    }
#define BINARY(name)                                      \
    static nt_tensor build_##name(const golden_case *c) { \
        return nt_##name(IN("a"), IN("b"));               \
    }
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

/* ---- activations: compositions of the operations ---------------------------------------------------------------- */

static nt_tensor softplus(nt_tensor x) {
    return nt_logaddexp(x, 0);
}

static nt_tensor build_log_sigmoid(const golden_case *c) {
    return nt_neg(softplus(nt_neg(X)));
}

static nt_tensor build_softplus(const golden_case *c) {
    return softplus(X);
}

static nt_tensor build_softsign(const golden_case *c) {
    return nt_div(X, nt_add(1, nt_abs(X)));
}

static nt_tensor relu6(nt_tensor x) {
    return nt_where(nt_less(x, 6), nt_relu(x), 6);
}

static nt_tensor build_relu6(const golden_case *c) {
    return relu6(X);
}

static nt_tensor build_leaky_relu(const golden_case *c) {
    return nt_where(nt_greater_equal(X, 0), X, nt_mul(golden_number(c, "negative_slope"), X));
}

/* The inner choice keeps the exponential of what is not chosen from overflowing. */
static nt_tensor elu(nt_tensor x, double scale) {
    nt_tensor positive = nt_greater(x, 0), curve = nt_expm1(nt_div(nt_where(positive, 0, x), scale));
    return nt_where(positive, x, nt_mul(scale, curve));
}

static nt_tensor build_elu(const golden_case *c) {
    return elu(X, golden_number_or(c, "alpha", 1));
}

/* Klambauer et al. 2017 */
static nt_tensor build_selu(const golden_case *c) {
    const double scale = 1.0507009873554804934193349852946, slope = 1.6732632423543772848170429916717;
    nt_tensor positive = nt_greater(X, 0), curve = nt_mul(slope, nt_expm1(nt_where(positive, 0, X)));
    return nt_mul(scale, nt_where(positive, X, curve));
}

static nt_tensor gelu(nt_tensor x) {
    return nt_mul(nt_mul(0.5, x), nt_erfc(nt_mul(x, -M_SQRT1_2)));
}

static nt_tensor build_gelu_exact(const golden_case *c) {
    return gelu(X);
}

static nt_tensor build_gelu_tanh(const golden_case *c) {
    nt_tensor cube = nt_mul(nt_square(X), X), inner = nt_add(X, nt_mul(0.044715, cube));
    return nt_mul(nt_mul(0.5, X), nt_add(1, nt_tanh(nt_mul(M_2_SQRTPI * M_SQRT1_2, inner))));
}

static nt_tensor build_silu(const golden_case *c) {
    return nt_mul(X, nt_logistic(X));
}

static nt_tensor build_mish(const golden_case *c) {
    return nt_mul(X, nt_tanh(softplus(X)));
}

static nt_tensor build_hard_tanh(const golden_case *c) {
    return nt_where(nt_greater(X, 1), 1, nt_where(nt_less(X, -1), -1, X));
}

static nt_tensor hard_sigmoid(nt_tensor x) {
    return nt_div(relu6(nt_add(x, 3)), 6);
}

static nt_tensor build_hard_sigmoid(const golden_case *c) {
    return hard_sigmoid(X);
}

static nt_tensor build_hard_swish(const golden_case *c) {
    return nt_mul(X, hard_sigmoid(X));
}

static nt_tensor build_glu(const golden_case *c) {
    nt_tensor parts[2];
    nt_parts(X, golden_number(c, "axis"), 2, parts);
    return nt_mul(parts[0], nt_logistic(parts[1]));
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
    {"log_sigmoid", build_log_sigmoid},
    {"softplus", build_softplus},
    {"softsign", build_softsign},
    {"relu6", build_relu6},
    {"leaky_relu", build_leaky_relu},
    {"elu", build_elu},
    {"selu", build_selu},
    {"celu", build_elu},
    {"gelu_exact", build_gelu_exact},
    {"gelu_tanh", build_gelu_tanh},
    {"silu", build_silu},
    {"mish", build_mish},
    {"hard_tanh", build_hard_tanh},
    {"hard_sigmoid", build_hard_sigmoid},
    {"hard_swish", build_hard_swish},
    {"glu", build_glu},
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

/* ---- matrix products -------------------------------------------------------------------------------------------- */

BINARY(matmul)

/* The general contraction has no public name of its own yet. */
static nt_tensor build_dot_general(const golden_case *c) {
    nt__attributes attributes = {.lists = {golden_list(c, "batch_a"), golden_list(c, "batch_b"),
                                           golden_list(c, "contract_a"), golden_list(c, "contract_b")}};
    return nt__emit(NT__OP_dot, NT_SITE, (nt__type){0}, 2, (nt_tensor[]){IN("a"), IN("b")}, &attributes);
}

static nt_tensor build_dense(const golden_case *c) {
    return nt_add(nt_matmul(IN("x"), IN("w")), IN("b"));
}

static nt_tensor build_einsum(const golden_case *c) {
    return nt_einsum_at(golden_text(c, "equation"), c->inputs, c->count, NT_SITE);
}

static const golden_row dot[] = {
    {"dot_general", build_dot_general},
    {"matmul", build_matmul},
    {"einsum", build_einsum},
    {"dense", build_dense},
};

/* ---- reductions ------------------------------------------------------------------------------------------------- */

static nt_shape axes_of(const golden_case *c) {
    nt_shape axes = golden_list(c, "axes");
    if (json_is_true(json_object_get(c->attributes, "keep"))) axes.dims[axes.rank++] = NT_KEEP;
    return axes;
}

#define REDUCTION(name)                                   \
    static nt_tensor build_##name(const golden_case *c) { \
        return nt_##name##_at(X, axes_of(c), NT_SITE);    \
    }
REDUCTION(sum)
REDUCTION(mean)
REDUCTION(prod)
REDUCTION(reduce_max)
REDUCTION(reduce_min)
REDUCTION(logsumexp)
REDUCTION(any)
REDUCTION(all)

static nt_tensor build_variance(const golden_case *c) {
    return nt_variance_at(X, golden_number(c, "ddof"), axes_of(c), NT_SITE);
}

static nt_tensor build_deviation(const golden_case *c) {
    return nt_deviation_at(X, golden_number(c, "ddof"), axes_of(c), NT_SITE);
}

static nt_tensor build_argmax(const golden_case *c) {
    return nt_argmax(X, golden_number(c, "axis"));
}

static nt_tensor build_argmin(const golden_case *c) {
    return nt_argmin(X, golden_number(c, "axis"));
}

static nt_direction direction_of(const golden_case *c) {
    return json_is_true(json_object_get(c->attributes, "reverse")) ? NT_BACKWARD : NT_FORWARD;
}

#define CUMULATIVE(name)                                                \
    static nt_tensor build_##name(const golden_case *c) {               \
        return nt_##name(X, golden_number(c, "axis"), direction_of(c)); \
    }
CUMULATIVE(cumsum)
CUMULATIVE(cumprod)
CUMULATIVE(cummax)
CUMULATIVE(cumlogsumexp)

static nt_tensor build_norm2(const golden_case *c) {
    return nt_norm_at(X, axes_of(c), NT_SITE);
}

static nt_tensor build_norm1(const golden_case *c) {
    return nt_norm1_at(X, axes_of(c), NT_SITE);
}

static nt_tensor build_softmax(const golden_case *c) {
    return nt_softmax(X, golden_number(c, "axis"));
}

static nt_tensor build_log_softmax(const golden_case *c) {
    return nt_log_softmax(X, golden_number(c, "axis"));
}

static const golden_row reduce[] = {
    {"sum", build_sum},         {"mean", build_mean},
    {"prod", build_prod},       {"max", build_reduce_max},
    {"min", build_reduce_min},  {"var", build_variance},
    {"std", build_deviation},   {"logsumexp", build_logsumexp},
    {"any", build_any},         {"all", build_all},
    {"argmax", build_argmax},   {"argmin", build_argmin},
    {"cumsum", build_cumsum},   {"cumprod", build_cumprod},
    {"cummax", build_cummax},   {"cumlogsumexp", build_cumlogsumexp},
    {"softmax", build_softmax}, {"log_softmax", build_log_softmax},
    {"norm2", build_norm2},     {"norm1", build_norm1},
};

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static nt_tensor build_reshape(const golden_case *c) {
    return nt_reshape_at(X, golden_list(c, "shape"), NT_SITE);
}

static nt_tensor build_transpose(const golden_case *c) {
    return nt_transpose_at(X, golden_list(c, "permutation"), NT_SITE);
}

static nt_tensor build_broadcast(const golden_case *c) {
    return nt_broadcast(X, golden_list(c, "shape"));
}

static nt_tensor build_expand_dims(const golden_case *c) {
    return nt_expand(X, golden_number(c, "axis"));
}

static nt_tensor build_squeeze(const golden_case *c) {
    return nt_squeeze(X, golden_number(c, "axis"));
}

static nt_tensor build_concatenate(const golden_case *c) {
    return nt_concatenate_at(c->inputs, (int)c->count, golden_number(c, "axis"), NT_SITE);
}

static nt_tensor build_stack(const golden_case *c) {
    return nt_stack_at(c->inputs, (int)c->count, golden_number(c, "axis"), NT_SITE);
}

static nt_shape ends(const golden_case *c, size_t which) {
    const json_t *padding = json_object_get(c->attributes, "padding");
    nt_shape list = {.rank = (int)json_array_size(padding)};
    for (int i = 0; i < list.rank; i++)
        list.dims[i] = json_integer_value(json_array_get(json_array_get(padding, (size_t)i), which));
    return list;
}

/* Elements between two others are the gradient of a slice with strides. */
static nt_tensor build_pad(const golden_case *c) {
    const char *mode = golden_text(c, "mode");
    if (strcmp(mode, "edge") == 0) return nt_pad_edge(X, ends(c, 0), ends(c, 1));
    if (strcmp(mode, "reflect") == 0) return nt_pad_reflect(X, ends(c, 0), ends(c, 1));
    if (!json_object_get(c->attributes, "interior"))
        return nt_pad(X, ends(c, 0), ends(c, 1), golden_number(c, "value"));
    nt_tensor value = nt_full(c->floating, (nt_shape){0}, golden_number(c, "value"));
    nt__attributes attributes = {.lists = {ends(c, 0), ends(c, 1), golden_list(c, "interior")}};
    return nt__emit(NT__OP_pad, NT_SITE, (nt__type){0}, 2, (nt_tensor[]){X, value}, &attributes);
}

static nt_tensor build_flip(const golden_case *c) {
    return nt_flip_at(X, golden_list(c, "axes"), NT_SITE);
}

static nt_tensor build_roll(const golden_case *c) {
    return nt_roll(X, golden_number(c, "shift"), golden_number(c, "axis"));
}

static nt_tensor build_tile(const golden_case *c) {
    return nt_tile(X, golden_list(c, "repeats"));
}

static nt_tensor build_repeat(const golden_case *c) {
    return nt_repeat(X, golden_number(c, "repeats"), golden_number(c, "axis"));
}

static nt_tensor build_triu(const golden_case *c) {
    return nt_upper_triangle(X, golden_number(c, "k"));
}

static nt_tensor build_tril(const golden_case *c) {
    return nt_lower_triangle(X, golden_number(c, "k"));
}

static nt_tensor build_slice(const golden_case *c) {
    return nt_slice_strided(X, golden_list(c, "start"), golden_list(c, "limit"), golden_list(c, "stride"));
}

static nt_tensor build_one_hot(const golden_case *c) {
    return nt_one_hot(IN("i"), (int64_t)golden_number(c, "classes"), c->floating);
}

static nt_tensor build_iota(const golden_case *c) {
    return nt_iota(NT_I32, golden_list(c, "shape"), (int)golden_number(c, "axis"));
}

static nt_tensor build_split(const golden_case *c) {
    nt_shape sizes = golden_list(c, "sizes");
    int64_t axis = (int64_t)golden_number(c, "axis"), start = 0;
    for (int i = 0; i < sizes.rank; i++) {
        c->outputs[i] = nt_range(X, axis, start, start + sizes.dims[i]);
        start += sizes.dims[i];
    }
    return c->outputs[0];
}

static const golden_row shapes[] = {
    {"reshape", build_reshape},
    {"transpose", build_transpose},
    {"broadcast_to", build_broadcast},
    {"expand_dims", build_expand_dims},
    {"squeeze", build_squeeze},
    {"concatenate", build_concatenate},
    {"stack", build_stack},
    {"split", build_split},
    {"pad", build_pad},
    {"flip", build_flip},
    {"roll", build_roll},
    {"tile", build_tile},
    {"repeat", build_repeat},
    {"triu", build_triu},
    {"tril", build_tril},
    {"slice", build_slice},
    {"one_hot", build_one_hot},
    {"iota", build_iota},
};

/* ---- indexing --------------------------------------------------------------------------------------------------- */

static nt_tensor build_take(const golden_case *c) {
    return nt_take(IN("t"), IN("i"), golden_number_or(c, "axis", 0));
}

static nt_tensor build_take_along(const golden_case *c) {
    return nt_take_along(IN("t"), IN("i"), golden_number(c, "axis"));
}

static nt_tensor build_scatter_set(const golden_case *c) {
    return nt_scatter_set(IN("t"), IN("i"), IN("u"), golden_number(c, "axis"));
}

static nt_tensor build_scatter_add(const golden_case *c) {
    return nt_scatter_add(IN("t"), IN("i"), IN("u"), golden_number(c, "axis"));
}

static nt_tensor build_scatter_mul(const golden_case *c) {
    return nt_scatter_mul(IN("t"), IN("i"), IN("u"), golden_number(c, "axis"));
}

static nt_tensor build_dropout(const golden_case *c) {
    return nt_where(IN("keep"), nt_div(IN("x"), 1 - golden_number(c, "rate")), 0);
}

static nt_tensor build_scatter_max(const golden_case *c) {
    return nt_scatter_max(IN("t"), IN("i"), IN("u"), golden_number(c, "axis"));
}

static nt_tensor build_segment_sum(const golden_case *c) {
    nt_tensor zeros = nt_full(c->floating, nt_dims((int64_t)golden_number(c, "segments"), nt_dim(IN("u"), 1)), 0);
    return nt_scatter_add(zeros, IN("i"), IN("u"), 0);
}

static nt_tensor build_dynamic_slice(const golden_case *c) {
    return nt_dynamic_slice(IN("x"), IN("start"), golden_list(c, "sizes"));
}

static nt_tensor build_dynamic_update(const golden_case *c) {
    return nt_dynamic_update(IN("x"), IN("u"), IN("start"));
}

static nt_order order_of(const golden_case *c) {
    return json_is_true(json_object_get(c->attributes, "descending")) ? NT_DESCENDING : NT_ASCENDING;
}

static nt_tensor build_sort(const golden_case *c) {
    return nt_sort(X, golden_number(c, "axis"), order_of(c));
}

static nt_tensor build_argsort(const golden_case *c) {
    return nt_argsort(X, golden_number(c, "axis"), order_of(c));
}

static nt_tensor build_top_k(const golden_case *c) {
    return nt_top_k(X, golden_number(c, "k"), &c->outputs[1]);
}

static const golden_row indexing[] = {
    {"take", build_take},
    {"embedding", build_take},
    {"take_along_axis", build_take_along},
    {"scatter_set", build_scatter_set},
    {"scatter_add", build_scatter_add},
    {"scatter_max", build_scatter_max},
    {"scatter_mul", build_scatter_mul},
    {"dropout", build_dropout},
    {"segment_sum", build_segment_sum},
    {"dynamic_slice", build_dynamic_slice},
    {"dynamic_update_slice", build_dynamic_update},
    {"sort", build_sort},
    {"argsort", build_argsort},
    {"top_k", build_top_k},
};

/* ---- convolution and pooling ------------------------------------------------------------------------------------ */

static const json_t *member(const golden_case *c, const char *name, size_t i) {
    return json_array_get(json_object_get(c->attributes, name), i);
}

static void read_numbers(const golden_case *c, const char *name, int64_t *out) {
    for (size_t i = 0; i < json_array_size(json_object_get(c->attributes, name)); i++)
        out[i] = json_integer_value(member(c, name, i));
}

/* True when the case says "SAME". */
static bool read_padding(const golden_case *c, int64_t (*out)[2]) {
    if (golden_text(c, "padding")) return true;
    for (size_t i = 0; i < json_array_size(json_object_get(c->attributes, "padding")); i++)
        for (size_t j = 0; j < 2; j++) out[i][j] = json_integer_value(json_array_get(member(c, "padding", i), j));
    return false;
}

static bool channels_first(const golden_case *c) {
    return strncmp(golden_text(c, "layout"), "NC", 2) == 0;
}

static nt_tensor build_conv(const golden_case *c) {
    nt_conv_options options = {.groups = (int64_t)golden_number(c, "groups"), .channels_first = channels_first(c)};
    read_numbers(c, "stride", options.stride);
    read_numbers(c, "kernel_dilation", options.dilation);
    read_numbers(c, "input_dilation", options.input_dilation);
    options.same = read_padding(c, options.pad);
    return nt_conv_at(IN("x"), IN("w"), nt_rank(X) - 2, options, NT_SITE);
}

static nt_tensor build_conv_transposed(const golden_case *c) {
    nt_conv_transposed_options options = {.groups = 1};
    read_numbers(c, "stride", options.stride);
    read_numbers(c, "kernel_dilation", options.dilation);
    read_numbers(c, "output_padding", options.output_padding);
    read_padding(c, options.pad);
    return nt_conv_transposed_at(IN("x"), IN("w"), nt_rank(X) - 2, options, NT_SITE);
}

static nt_pool_options pool_options(const golden_case *c) {
    nt_pool_options options = {.channels_first = channels_first(c)};
    options.count_padding = json_is_true(json_object_get(c->attributes, "count_include_pad"));
    read_numbers(c, "stride", options.stride);
    options.same = read_padding(c, options.pad);
    return options;
}

static nt_tensor build_max_pool(const golden_case *c) {
    return nt_max_pool_at(X, golden_list(c, "window"), pool_options(c), NT_SITE);
}

static nt_tensor build_avg_pool(const golden_case *c) {
    return nt_avg_pool_at(X, golden_list(c, "window"), pool_options(c), NT_SITE);
}

static nt_tensor build_global_avg_pool(const golden_case *c) {
    return nt_mean(X, 1, 2);
}

static const golden_row conv[] = {
    {"conv1d", build_conv},
    {"conv2d", build_conv},
    {"conv3d", build_conv},
    {"conv2d_transposed", build_conv_transposed},
};

static const golden_row pool[] = {
    {"max_pool1d", build_max_pool},
    {"max_pool2d", build_max_pool},
    {"avg_pool2d", build_avg_pool},
    {"global_avg_pool2d", build_global_avg_pool},
};

/* ---- derivatives ------------------------------------------------------------------------------------------------ */

static nt_tensor build_stop_gradient(const golden_case *c) {
    return nt_mul(X, nt_stop_gradient(X));
}

/* The squared norm of a gradient, which is differentiated again. */
static nt_tensor build_gradient_penalty(const golden_case *c) {
    nt_tensor x = IN("x"), gradient;
    nt__gradient(nt_sum(nt_tanh(nt_matmul(x, IN("w")))), &x, 1, &gradient, NULL);
    return nt_sum(nt_square(gradient));
}

static const golden_row derivatives[] = {
    {"stop_gradient", build_stop_gradient},
    {"grad_of_grad_norm", build_gradient_penalty},
};

/* ---- losses: compositions of the operations --------------------------------------------------------------------- */

static nt_tensor reduced(const golden_case *c, nt_tensor each) {
    const char *reduction = golden_text(c, "reduction");
    if (strcmp(reduction, "none") == 0) return each;
    if (strcmp(reduction, "sum") == 0) return nt_sum(each);
    if (strcmp(reduction, "mean") == 0) return nt_mean(each);
    assert_string_equal(reduction, "batchmean");
    return nt_div(nt_sum(each), (double)nt_dim(each, 0));
}

/* The mean divides by the weights of the labels of the rows that count. */
static nt_tensor build_cross_entropy(const golden_case *c) {
    nt_tensor log_probability = nt_log_softmax(IN("logits")), labels = IN("labels");
    double smoothing = golden_number_or(c, "label_smoothing", 0);
    double ignored = golden_number_or(c, "ignore_index", INT32_MIN);
    int64_t classes = nt_dim(log_probability, -1);
    nt_tensor hot = nt_one_hot(labels, classes, c->floating);
    nt_tensor counts = nt_convert(nt_not_equal(labels, ignored), c->floating);
    nt_tensor weight = nt_full(c->floating, nt_dims(1), 1);
    if (golden_has(c, "w")) weight = IN("w");
    nt_tensor cost = nt_neg(nt_mul(weight, log_probability));
    nt_tensor smooth = nt_mul(nt_mean(cost, -1), counts);
    nt_tensor each = nt_add(nt_mul(1 - smoothing, nt_sum(nt_mul(hot, cost), -1)), nt_mul(smoothing, smooth));
    if (strcmp(golden_text(c, "reduction"), "mean")) return reduced(c, each);
    return nt_div(nt_sum(each), nt_sum(nt_mul(hot, weight)));
}

static nt_tensor build_cross_entropy_soft(const golden_case *c) {
    nt_tensor target = IN("targets"), log_probability = nt_log_softmax(IN("logits"));
    nt_tensor cost = nt_where(nt_equal(target, 0), 0, nt_mul(target, log_probability));
    return reduced(c, nt_neg(nt_sum(cost, -1)));
}

static nt_tensor difference(const golden_case *c) {
    return nt_sub(IN("prediction"), IN("target"));
}

static nt_tensor build_mse(const golden_case *c) {
    return reduced(c, nt_square(difference(c)));
}

static nt_tensor build_mae(const golden_case *c) {
    return reduced(c, nt_abs(difference(c)));
}

static nt_tensor build_huber(const golden_case *c) {
    nt_tensor d = difference(c), size = nt_abs(d);
    double delta = golden_number(c, "delta");
    nt_tensor outer = nt_mul(delta, nt_sub(size, 0.5 * delta));
    return reduced(c, nt_where(nt_less_equal(size, delta), nt_mul(0.5, nt_square(d)), outer));
}

static nt_tensor build_smooth_l1(const golden_case *c) {
    nt_tensor d = difference(c), size = nt_abs(d);
    double beta = golden_number(c, "beta");
    return reduced(c, nt_where(nt_less(size, beta), nt_mul(0.5 / beta, nt_square(d)), nt_sub(size, 0.5 * beta)));
}

static nt_tensor build_kl(const golden_case *c) {
    nt_tensor target = IN("target"), positive = nt_greater(target, 0);
    nt_tensor log_target = nt_log(nt_where(positive, target, 1));
    return reduced(c, nt_where(positive, nt_mul(target, nt_sub(log_target, IN("log_prediction"))), 0));
}

static nt_tensor hinge(const golden_case *c) {
    return nt_max(0, nt_sub(1, nt_mul(IN("target"), IN("score"))));
}

static nt_tensor build_hinge(const golden_case *c) {
    return reduced(c, hinge(c));
}

static nt_tensor build_hinge_squared(const golden_case *c) {
    return reduced(c, nt_square(hinge(c)));
}

static const golden_row losses[] = {
    {"cross_entropy", build_cross_entropy},
    {"cross_entropy_soft", build_cross_entropy_soft},
    {"mse", build_mse},
    {"mae", build_mae},
    {"huber", build_huber},
    {"smooth_l1", build_smooth_l1},
    {"kl", build_kl},
    {"hinge", build_hinge},
    {"hinge_squared", build_hinge_squared},
};

/* ---- the files -------------------------------------------------------------------------------------------------- */

#define FILE_TEST(rows, file, ...)                                                                  \
    static const golden_plan rows##_plan = {file, rows, sizeof rows / sizeof *rows, {__VA_ARGS__}}; \
    static void rows##_f32(void **state) {                                                          \
        (void)state;                                                                                \
        golden_check(&rows##_plan, NT_F32);                                                         \
    }                                                                                               \
    static void rows##_f64(void **state) {                                                          \
        (void)state;                                                                                \
        golden_check(&rows##_plan, NT_F64);                                                         \
    }
/* Left out: a bound counts as a tie here, as in jnp.clip. */
FILE_TEST(elementwise, "ops/elementwise.json", "elementwise/clamp/at_bounds_lax")
FILE_TEST(integer_and_convert, "ops/integer_and_convert.json", NULL)
FILE_TEST(dot, "ops/dot.json", NULL)
/* Left out: no axes means all axes here. */
FILE_TEST(reduce, "ops/reduce.json", "reduce/sum/no_axes")
FILE_TEST(shapes, "ops/shape.json", NULL)
/* Left out: an index out of range reads the nearest element, and none counts from the end, as these do. */
FILE_TEST(indexing, "ops/index.json", "index/take_out_of_range_fill", "index/dynamic_slice_clamped_low",
          "index/dynamic_update_clamped_low")
FILE_TEST(conv, "ops/conv.json", NULL)
FILE_TEST(pool, "ops/pool.json", NULL)
FILE_TEST(derivatives, "ops/recurrent.json", NULL)
FILE_TEST(losses, "losses.json", NULL)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_f32),
        cmocka_unit_test(elementwise_f64),
        cmocka_unit_test(integer_and_convert_f32),
        cmocka_unit_test(integer_and_convert_f64),
        cmocka_unit_test(dot_f32),
        cmocka_unit_test(dot_f64),
        cmocka_unit_test(reduce_f32),
        cmocka_unit_test(reduce_f64),
        cmocka_unit_test(shapes_f32),
        cmocka_unit_test(shapes_f64),
        cmocka_unit_test(indexing_f32),
        cmocka_unit_test(indexing_f64),
        cmocka_unit_test(conv_f32),
        cmocka_unit_test(conv_f64),
        cmocka_unit_test(pool_f32),
        cmocka_unit_test(pool_f64),
        cmocka_unit_test(derivatives_f32),
        cmocka_unit_test(derivatives_f64),
        cmocka_unit_test(losses_f32),
        cmocka_unit_test(losses_f64),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
