/* Every mistake of a user's: the whole message, with file, line and function; and what a trace does after its first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "graph/graph.h"

/* ---- mistakes, a function each: AT(call) notes the line that the message must name ------------------------------ */

static int line;
#define AT(call) (line = __LINE__, call)

static nt_tensor tensor(nt_dtype dtype, nt_shape shape) {
    return nt__input(0, 0, "x", (nt__type){dtype, shape});
}

#define F32(...) tensor(NT_F32, nt_dims(__VA_ARGS__))
#define I32(...) tensor(NT_I32, nt_dims(__VA_ARGS__))
#define BOOL(...) tensor(NT_BOOL, nt_dims(__VA_ARGS__))
#define SCALAR tensor(NT_F32, (nt_shape){0})

#define MISTAKE(name, call)       \
    static nt_tensor name(void) { \
        return AT(call);          \
    }

MISTAKE(add_shapes, nt_add(F32(2, 3), F32(4)))
MISTAKE(add_types, nt_add(F32(2), I32(2)))
MISTAKE(add_fraction, nt_add(I32(2), 0.5))
MISTAKE(add_bool, nt_add(BOOL(2), BOOL(2)))
MISTAKE(sub_negative_number, nt_sub(tensor(NT_U8, nt_dims(2)), -1))
MISTAKE(mul_large_number, nt_mul(200, tensor(NT_I8, nt_dims(2))))
MISTAKE(div_nan, nt_div(I32(2), (double)NAN))
MISTAKE(max_two_to_63, nt_max(tensor(NT_I64, nt_dims(2)), 0x1p63))
MISTAKE(min_two_to_64, nt_min(tensor(NT_U64, nt_dims(2)), 0x1p64))
MISTAKE(pow_bool, nt_pow(BOOL(2), 2))
MISTAKE(neg_bool, nt_neg(BOOL(2)))
MISTAKE(abs_unsigned, nt_abs(tensor(NT_U8, nt_dims(2))))
MISTAKE(sign_bool, nt_sign(BOOL(2)))
MISTAKE(exp_integer, nt_exp(I32(3)))
MISTAKE(relu_bool, nt_relu(BOOL(2)))
MISTAKE(equal_types, nt_equal(F32(2), I32(2)))
MISTAKE(less_shapes, nt_less(F32(2, 3), F32(2)))
MISTAKE(where_condition, nt_where(F32(2), F32(2), 1))
MISTAKE(where_types, nt_where(BOOL(2), F32(2), I32(2)))
MISTAKE(where_shapes, nt_where(BOOL(2), F32(3), 0))
MISTAKE(where_number, nt_where(BOOL(2), 0.5, I32(2)))
MISTAKE(full_fraction, nt_full(NT_I32, nt_dims(2), 1.5))
MISTAKE(full_two_for_bool, nt_full(NT_BOOL, nt_dims(2), 2))
MISTAKE(full_negative_size, nt_full(NT_F32, nt_dims(2, -3), 0))
MISTAKE(full_too_many_elements, nt_full(NT_U8, nt_dims(INT64_C(1) << 40, INT64_C(1) << 40), 0))
MISTAKE(full_too_many_bytes, nt_full(NT_F64, nt_dims(INT64_C(1) << 61), 0))
MISTAKE(full_nine_axes, nt_full(NT_F32, (nt_shape){.rank = 9}, 0))
MISTAKE(full_unknown_type, nt_full(NT_DTYPE_COUNT, nt_dims(2), 0))
MISTAKE(constant_of_null, nt_constant(NULL))
MISTAKE(iota_axis, nt_iota(NT_I32, nt_dims(2, 3), 2))
MISTAKE(iota_scalar, nt_iota(NT_I32, (nt_shape){0}, -1))
MISTAKE(iota_bool, nt_iota(NT_BOOL, nt_dims(2), 0))
MISTAKE(iota_nine_axes, nt_iota(NT_I32, (nt_shape){.rank = 9}, 8))
MISTAKE(one_hot_of_floats, nt_one_hot(F32(3), 10, NT_F32))
MISTAKE(one_hot_no_class, nt_one_hot(I32(3), 0, NT_F32))
MISTAKE(one_hot_too_many, nt_one_hot(I32(8), INT64_MAX, NT_F32))
MISTAKE(convert_to_nothing, nt_convert(F32(2), NT_DTYPE_COUNT))
MISTAKE(reshape_count, nt_reshape(F32(2, 3), 4, 2))
MISTAKE(reshape_two_unknown, nt_reshape(F32(2, 3), -1, -1))
MISTAKE(reshape_remainder, nt_reshape(F32(2, 3), -1, 4))
MISTAKE(reshape_unknown_of_zero, nt_reshape(F32(0, 3), -1, 0))
MISTAKE(reshape_overflow, nt_reshape(F32(2, 3), INT64_MAX, INT64_MAX))
MISTAKE(reshape_number, nt_reshape(nt_tensor_number(3), 1))
MISTAKE(transpose_count, nt_transpose(F32(2, 3), 0))
MISTAKE(transpose_twice, nt_transpose(F32(2, 3), -1, 1))
MISTAKE(transpose_outside, nt_transpose(F32(2, 3), 0, 2))
MISTAKE(broadcast_sizes, nt_broadcast(F32(2, 3), nt_dims(2, 4)))
MISTAKE(broadcast_fewer_axes, nt_broadcast(F32(2, 3), nt_dims(3)))
MISTAKE(broadcast_negative, nt_broadcast(F32(1), nt_dims(-3)))
MISTAKE(broadcast_too_large, nt_broadcast(F32(1), nt_dims(INT64_MAX, INT64_MAX)))
MISTAKE(slice_beyond, nt_slice(F32(6, 5), nt_dims(2, 0), nt_dims(7, 5)))
MISTAKE(slice_negative, nt_slice(F32(6), nt_dims(-1), nt_dims(2)))
MISTAKE(slice_backward, nt_slice(F32(6), nt_dims(3), nt_dims(2)))
MISTAKE(slice_axes, nt_slice(F32(6, 5), nt_dims(0), nt_dims(1)))
MISTAKE(update_slice_beyond, nt_update_slice(F32(4), F32(2), nt_dims(3)))
MISTAKE(update_slice_negative, nt_update_slice(F32(4), F32(2), nt_dims(-1)))
MISTAKE(update_slice_overflow, nt_update_slice(F32(4), F32(2), nt_dims(INT64_MAX)))
MISTAKE(update_slice_types, nt_update_slice(F32(4), I32(2), nt_dims(0)))
MISTAKE(update_slice_axes, nt_update_slice(F32(4), F32(2, 2), nt_dims(0)))
MISTAKE(sum_axis, nt_sum(F32(2, 3), 2))
MISTAKE(sum_axis_twice, nt_sum(F32(2, 3), 1, -1))
MISTAKE(sum_of_scalar, nt_sum(SCALAR, -1))
MISTAKE(sum_nine_axes, nt_sum(F32(2), 0, 1, 2, 3, 4, 5, 6, 7, 8))
MISTAKE(sum_bool, nt_sum(BOOL(2)))
MISTAKE(mean_integer, nt_mean(I32(2)))
MISTAKE(mean_axis, nt_mean(F32(2), -2))
MISTAKE(reduce_max_bool, nt_reduce_max(BOOL(2)))
MISTAKE(softmax_scalar, nt_softmax(SCALAR))
MISTAKE(softmax_integer, nt_softmax(I32(2)))
MISTAKE(log_softmax_scalar, nt_log_softmax(SCALAR))
MISTAKE(matmul_inner, nt_matmul(F32(128, 784), F32(512, 10)))
MISTAKE(matmul_inner_vector, nt_matmul(F32(3), F32(4, 2)))
MISTAKE(matmul_batch, nt_matmul(F32(2, 3, 4), F32(3, 4, 5)))
MISTAKE(matmul_types, nt_matmul(F32(2, 3), I32(3, 2)))
MISTAKE(matmul_scalar, nt_matmul(F32(2, 3), SCALAR))
MISTAKE(matmul_bool, nt_matmul(BOOL(2, 3), BOOL(3, 2)))
MISTAKE(and_float, nt_and(F32(2), F32(2)))
MISTAKE(shift_bool, nt_shift_left(BOOL(2), BOOL(2)))
MISTAKE(sin_integer, nt_sin(I32(2)))
MISTAKE(trunc_integer, nt_trunc(I32(2)))
MISTAKE(is_nan_integer, nt_is_nan(I32(2)))
MISTAKE(atan2_shapes, nt_atan2(F32(2), F32(3)))
MISTAKE(bitcast_parts, nt_bitcast(tensor(NT_U8, nt_dims(3, 3)), NT_F32))
MISTAKE(prod_bool, nt_prod(BOOL(2)))
MISTAKE(any_float, nt_any(F32(2)))
MISTAKE(variance_integer, nt_variance(I32(2), 0))
MISTAKE(logsumexp_axis, nt_logsumexp(F32(2, 3), 2))
MISTAKE(argmax_empty, nt_argmax(F32(2, 0), 1))
MISTAKE(cumsum_axis, nt_cumsum(SCALAR, 0, NT_FORWARD))
MISTAKE(cumprod_bool, nt_cumprod(BOOL(2), 0, NT_FORWARD))
MISTAKE(cummax_axis, nt_cummax(F32(2, 3), 2, NT_FORWARD))
MISTAKE(cummin_bool, nt_cummin(BOOL(2), 0, NT_BACKWARD))
MISTAKE(cumlogsumexp_integer, nt_cumlogsumexp(I32(2), 0, NT_FORWARD))
MISTAKE(softmax_axis, nt_softmax(F32(2, 3), 0, 2))
MISTAKE(hypot_integer, nt_hypot(I32(2), 2))
MISTAKE(hypot_shapes, nt_hypot(F32(2), F32(3)))
MISTAKE(copysign_types, nt_copysign(F32(2), I32(2)))
MISTAKE(logaddexp_shapes, nt_logaddexp(F32(2), F32(3)))
MISTAKE(lgamma_integer, nt_lgamma(I32(2)))
MISTAKE(polygamma_order, nt_polygamma(-1, F32(2)))
MISTAKE(round_half_away_bool, nt_round_half_away(BOOL(2)))
MISTAKE(scatter_mul_bool, nt_scatter_mul(BOOL(3), I32(2), BOOL(2), 0))
MISTAKE(scatter_min_types, nt_scatter_min(F32(3), I32(2), I32(2), 0))
MISTAKE(slice_stride, nt_slice_strided(F32(6), nt_dims(0), nt_dims(6), nt_dims(0)))
MISTAKE(pad_too_much_cut, nt_pad(F32(2, 3), nt_dims(0, -2), nt_dims(0, -2), 0))
MISTAKE(pad_value, nt_pad(F32(2), nt_dims(1), nt_dims(1), I32(2)))
MISTAKE(pad_reflect_wide, nt_pad_reflect(F32(3), nt_dims(3), nt_dims(0)))
MISTAKE(pad_edge_empty, nt_pad_edge(F32(0), nt_dims(1), nt_dims(0)))
MISTAKE(expand_axis, nt_expand(F32(2), 2))
MISTAKE(squeeze_wide, nt_squeeze(F32(1, 3), 1))
MISTAKE(concatenate_shapes, nt_concatenate(1, F32(2, 3), F32(3, 3)))
MISTAKE(stack_types, nt_stack(0, F32(2), I32(2)))
MISTAKE(range_outside, nt_range(F32(2, 3), -1, 2, 4))
MISTAKE(tile_axes, nt_tile(F32(2, 3), nt_dims(2)))
MISTAKE(repeat_negative, nt_repeat(F32(2), -1, 0))
MISTAKE(triangle_vector, nt_lower_triangle(F32(2), 0))
MISTAKE(take_float, nt_take(F32(2), F32(2), 0))
MISTAKE(take_empty, nt_take(F32(0, 2), I32(2), 0))
MISTAKE(take_axes, nt_take(F32(1, 1, 1, 1, 1), I32(1, 1, 1, 1, 1), 0))
MISTAKE(take_along_shape, nt_take_along(F32(2, 3), I32(3, 3), 1))
MISTAKE(scatter_types, nt_scatter_add(F32(3), I32(2), I32(2), 0))
MISTAKE(dynamic_slice_size, nt_dynamic_slice(F32(2, 3), I32(2), nt_dims(3, 3)))
MISTAKE(sort_bool, nt_sort(BOOL(2), 0, NT_ASCENDING))
MISTAKE(top_k_large, nt_top_k(F32(2, 3), 4, NULL))
static nt_tensor parts_uneven(void) {
    nt_tensor out[2];
    AT(nt_parts(F32(2, 3), 1, 2, out));
    return out[0];
}

MISTAKE(outer_of_matrix, nt_outer(F32(2, 3), F32(3)))
MISTAKE(outer_types, nt_outer(F32(2), I32(3)))
MISTAKE(norm_integer, nt_norm(I32(2)))
MISTAKE(norm1_bool, nt_norm1(BOOL(2)))
MISTAKE(norm_max_axis, nt_norm_max(F32(2), 1))
MISTAKE(einsum_null, nt_einsum(NULL, F32(2)))
MISTAKE(einsum_few_terms, nt_einsum("ij->i", F32(2, 3), F32(3)))
MISTAKE(einsum_many_terms, nt_einsum("ij,j->i", F32(2, 3)))
MISTAKE(einsum_sign, nt_einsum("i...j->ij", F32(2, 3)))
MISTAKE(einsum_long_term, nt_einsum("abcdefghi", F32(2, 3)))
MISTAKE(einsum_unknown, nt_einsum("ij->ik", F32(2, 3)))
MISTAKE(einsum_twice, nt_einsum("ij->ii", F32(2, 3)))
MISTAKE(einsum_rank, nt_einsum("ij,jk->ik", F32(2, 3), F32(3)))
MISTAKE(einsum_sizes, nt_einsum("ij,jk->ik", F32(2, 3), F32(4, 5)))
MISTAKE(einsum_diagonal, nt_einsum("ii->i", F32(2, 3)))
MISTAKE(einsum_types, nt_einsum("i,i->", F32(2), I32(2)))
MISTAKE(einsum_bool, nt_einsum("i->", BOOL(2)))
MISTAKE(einsum_nine_axes, nt_einsum("abcde,fghi->abcdefghi", F32(1, 1, 1, 1, 1), F32(1, 1, 1, 1)))
MISTAKE(conv_integer, nt_conv1d(I32(1, 4, 2), I32(3, 2, 2)))
MISTAKE(conv_types, nt_conv1d(F32(1, 4, 2), I32(3, 2, 2)))
MISTAKE(conv_rank, nt_conv2d(F32(1, 4, 2), F32(3, 2, 2)))
MISTAKE(conv_channels, nt_conv1d(F32(1, 4, 2), F32(3, 3, 2)))
MISTAKE(conv_groups, nt_conv1d(F32(1, 4, 4), F32(3, 2, 3), .groups = 2))
MISTAKE(conv_negative_groups, nt_conv1d(F32(1, 4, 4), F32(3, 2, 3), .groups = -2))
MISTAKE(conv_stride, nt_conv2d(F32(1, 4, 4, 1), F32(3, 3, 1, 1), .stride = {1, -2}))
MISTAKE(conv_dilation, nt_conv1d(F32(1, 4, 1), F32(3, 1, 1), .dilation = {INT64_MAX}))
MISTAKE(conv_too_wide, nt_conv1d(F32(1, INT64_C(1) << 40, 1), F32(1, 1, 1), .input_dilation = {INT32_MAX}))
MISTAKE(conv_two_paddings, nt_conv1d(F32(1, 4, 1), F32(3, 1, 1), .same = true, .pad = {{1, 1}}))
MISTAKE(conv_padding, nt_conv1d(F32(1, 4, 1), F32(3, 1, 1), .pad = {{INT64_MAX, 1}}))
MISTAKE(conv_does_not_fit, nt_conv1d(F32(1, 4, 1), F32(3, 1, 1), .dilation = {2}))
MISTAKE(conv_no_axes, nt_conv_at(F32(1, 4, 1), F32(3, 1, 1), 0, (nt_conv_options){0}, NT_SITE))
MISTAKE(transposed_cut, nt_conv1d_transposed(F32(1, 1, 1), F32(3, 1, 1), .pad = {{2, 1}}))
MISTAKE(transposed_output_padding, nt_conv1d_transposed(F32(1, 2, 1), F32(3, 1, 1), .output_padding = {1}))
MISTAKE(global_pool_rank, nt_global_avg_pool(F32(4, 3)))
MISTAKE(global_pool_integer, nt_global_max_pool(I32(2, 4, 1)))
MISTAKE(global_pool_never_set, nt_global_avg_pool((nt_tensor){0}))
MISTAKE(pool_integer, nt_max_pool(I32(1, 4, 1), nt_dims(2)))
MISTAKE(pool_rank, nt_max_pool(F32(1, 4, 1), nt_dims(2, 2)))
MISTAKE(pool_window, nt_avg_pool(F32(1, 4, 1), nt_dims(-2)))
MISTAKE(pool_padding, nt_avg_pool(F32(1, 4, 1), nt_dims(2), .pad = {{2, 0}}))
MISTAKE(pool_does_not_fit, nt_max_pool(F32(1, 4, 1), nt_dims(5)))

/* Numbers of elements that overflow 64 bits end the engine's process: every operation that makes more than it takes. */
#define HUGE_VECTOR F32(INT64_C(1) << 40)
#define HUGE_BYTES tensor(NT_U8, nt_dims(INT64_C(1) << 61))
MISTAKE(outer_too_large, nt_outer(HUGE_VECTOR, HUGE_VECTOR))
MISTAKE(add_too_large, nt_add(nt_expand(HUGE_VECTOR, 1), HUGE_VECTOR))
MISTAKE(einsum_too_large, nt_einsum("i,j->ij", HUGE_VECTOR, HUGE_VECTOR))
MISTAKE(tile_too_large, nt_tile(HUGE_VECTOR, nt_dims(INT64_C(1) << 40)))
MISTAKE(repeat_too_large, nt_repeat(HUGE_VECTOR, INT64_C(1) << 22, 0))
MISTAKE(pad_too_large, nt_pad(HUGE_VECTOR, nt_dims(INT64_MAX), nt_dims(0), 0))
MISTAKE(pad_edge_too_large, nt_pad_edge(HUGE_VECTOR, nt_dims(INT64_MAX), nt_dims(0)))
MISTAKE(concatenate_too_large, nt_concatenate(0, HUGE_BYTES, HUGE_BYTES, HUGE_BYTES, HUGE_BYTES))
MISTAKE(take_too_large, nt_take(HUGE_VECTOR, I32(INT64_C(1) << 30, INT64_C(1) << 30), 0))
MISTAKE(convert_too_large, nt_convert(HUGE_BYTES, NT_F64))
MISTAKE(triangle_too_large, nt_triangle(INT64_C(1) << 40, INT64_C(1) << 40, 0))
MISTAKE(dim_axis, (nt_dim(F32(2, 3), 2), F32(1)))
MISTAKE(dim_of_scalar, (nt_dim(SCALAR, 0), F32(1)))
MISTAKE(stop_gradient_of_nothing, nt_stop_gradient((nt_tensor){0}))
MISTAKE(never_set, nt_add((nt_tensor){0}, F32(2)))
MISTAKE(never_set_in_where, nt_where(BOOL(2), F32(3), (nt_tensor){0}))

static nt_tensor kept_in_a_global;
MISTAKE(of_an_earlier_trace, nt_mul(F32(2), kept_in_a_global))

static nt_tensor made_by_hand(void) {
    nt_tensor x = F32(2);
    x.id = 77;
    return AT(nt_tanh(x));
}

/* The gradient has no place of its own in the user's source: the message names where the loss was made. */
static nt_tensor gradient_of(nt_tensor loss) {
    nt_tensor gradient;
    nt__gradient(loss, &loss, 1, &gradient, NULL);
    return gradient;
}

static nt_tensor loss_not_scalar(void) {
    nt_tensor loss = AT(nt_square(F32(5)));
    return gradient_of(loss);
}

static nt_tensor loss_integer(void) {
    nt_tensor loss = AT(nt_sum(I32(5)));
    return gradient_of(loss);
}

static nt_tensor cotangent_of_another_type(void) {
    nt_tensor x = F32(2), y = AT(nt_exp(x)), out;
    nt__vjp(y, F32(3), &x, 1, &out, NULL);
    return out;
}

#define REST_OF_TYPE                                                                                                  \
    " is not possible: it needs a known element type, at most 8 axes, sizes from 0, and a number of bytes that fits " \
    "in memory"
#define NOT_BROADCAST ": the shapes do not broadcast: aligned at the last axis, sizes must be equal or 1"
#define NOT_STRETCHED ": aligned at the last axis, sizes must be equal or 1"
#define NOT_A_VALUE "; convert the tensor with nt_convert"

#define ROW(name, message) \
    { #name, name, message }
static const struct {
    const char *name;
    nt_tensor (*make)(void);
    const char *message; /* after "FILE:LINE in FUNCTION: " */
} mistakes[] = {
    ROW(add_shapes, "add: f32[2,3] and f32[4]" NOT_BROADCAST),
    ROW(add_types, "add: f32[2] and i32[2]: element types differ; nt_convert makes them equal"),
    ROW(add_fraction, "add: the number 0.5 is not a value of i32" NOT_A_VALUE),
    ROW(add_bool, "add: needs a floating or integer tensor, got bool[2]; nt_convert makes one"),
    ROW(sub_negative_number, "sub: the number -1 is not a value of u8" NOT_A_VALUE),
    ROW(mul_large_number, "mul: the number 200 is not a value of i8" NOT_A_VALUE),
    ROW(div_nan, "div: the number nan is not a value of i32" NOT_A_VALUE),
    ROW(max_two_to_63, "max: the number 9.22337203685478e+18 is not a value of i64" NOT_A_VALUE),
    ROW(min_two_to_64, "min: the number 1.84467440737096e+19 is not a value of u64" NOT_A_VALUE),
    ROW(pow_bool, "pow: the number 2 is not a value of bool" NOT_A_VALUE),
    ROW(neg_bool, "neg: needs a floating or integer tensor, got bool[2]; nt_convert makes one"),
    ROW(abs_unsigned, "abs: needs a floating or signed integer tensor, got u8[2]; nt_convert makes one"),
    ROW(sign_bool, "sign: needs a floating or signed integer tensor, got bool[2]; nt_convert makes one"),
    ROW(exp_integer, "exp: needs a floating tensor, got i32[3]; nt_convert makes one"),
    ROW(relu_bool, "relu: needs a floating or integer tensor, got bool[2]; nt_convert makes one"),
    ROW(equal_types, "equal: f32[2] and i32[2]: element types differ; nt_convert makes them equal"),
    ROW(less_shapes, "less: f32[2,3] and f32[2]" NOT_BROADCAST),
    ROW(where_condition, "where: f32[2], f32[2] and 1: the condition must be bool; a comparison makes one"),
    ROW(where_types, "where: f32[2] and i32[2]: element types differ; nt_convert makes them equal"),
    ROW(where_shapes, "where: bool[2], f32[3] and 0" NOT_BROADCAST),
    ROW(where_number, "where: the number 0.5 is not a value of i32" NOT_A_VALUE),
    ROW(full_fraction, "full: the number 1.5 is not a value of i32" NOT_A_VALUE),
    ROW(full_two_for_bool, "full: the number 2 is not a value of bool" NOT_A_VALUE),
    ROW(full_negative_size, "full: f32[2,-3]" REST_OF_TYPE),
    ROW(full_too_many_elements, "full: u8[1099511627776,1099511627776]" REST_OF_TYPE),
    ROW(full_too_many_bytes, "full: f64[2305843009213693952]" REST_OF_TYPE),
    ROW(full_nine_axes, "full: f32[rank 9]" REST_OF_TYPE),
    ROW(full_unknown_type, "full: unknown type[2]" REST_OF_TYPE),
    ROW(constant_of_null, "constant: array is NULL: was it not read or made?"),
    ROW(iota_axis, "iota: axis 2 of i32[2,3]: its axes run from -2 to 1"),
    ROW(iota_scalar, "iota: axis -1 of i32[]: a scalar has no axes"),
    ROW(iota_bool, "iota: needs a floating or integer tensor, got bool[2]; nt_convert makes one"),
    ROW(iota_nine_axes, "iota: i32[rank 9]" REST_OF_TYPE),
    ROW(one_hot_of_floats, "one_hot: needs integer labels of at most 7 axes and at least 1 class, got f32[3] and 10"),
    ROW(one_hot_no_class, "one_hot: needs integer labels of at most 7 axes and at least 1 class, got i32[3] and 0"),
    ROW(one_hot_too_many, "one_hot: f32[8,9223372036854775807]" REST_OF_TYPE),
    ROW(convert_to_nothing, "convert: unknown type[2]" REST_OF_TYPE),
    ROW(reshape_count, "reshape: f32[2,3] has 6 elements and cannot become [4,2]"),
    ROW(reshape_two_unknown, "reshape: f32[2,3] has 6 elements and cannot become [-1,-1]"),
    ROW(reshape_remainder, "reshape: f32[2,3] has 6 elements and cannot become [-1,4]"),
    ROW(reshape_unknown_of_zero, "reshape: f32[0,3] has 0 elements and cannot become [-1,0]"),
    ROW(reshape_overflow,
        "reshape: f32[2,3] has 6 elements and cannot become [9223372036854775807,9223372036854775807]"),
    ROW(reshape_number, "reshape: an operand is the number 3 and has to be a tensor; nt_full makes one"),
    ROW(transpose_count, "transpose: f32[2,3]: the axes [0] must name each axis once"),
    ROW(transpose_twice, "transpose: f32[2,3]: the axes [-1,1] must name each axis once"),
    ROW(transpose_outside, "transpose: f32[2,3]: the axes [0,2] must name each axis once"),
    ROW(broadcast_sizes, "broadcast: f32[2,3] does not stretch to [2,4]" NOT_STRETCHED),
    ROW(broadcast_fewer_axes, "broadcast: f32[2,3] does not stretch to [3]" NOT_STRETCHED),
    ROW(broadcast_negative, "broadcast: f32[-3]" REST_OF_TYPE),
    ROW(broadcast_too_large, "broadcast: f32[9223372036854775807,9223372036854775807]" REST_OF_TYPE),
    ROW(slice_beyond, "slice: f32[6,5] has no block from [2,0] to [7,5]"),
    ROW(slice_negative, "slice: f32[6] has no block from [-1] to [2]"),
    ROW(slice_backward, "slice: f32[6] has no block from [3] to [2]"),
    ROW(slice_axes, "slice: f32[6,5] has no block from [0] to [1]"),
    ROW(update_slice_beyond, "update_slice: f32[2] does not fit into f32[4] at [3]"),
    ROW(update_slice_negative, "update_slice: f32[2] does not fit into f32[4] at [-1]"),
    ROW(update_slice_overflow, "update_slice: f32[2] does not fit into f32[4] at [9223372036854775807]"),
    ROW(update_slice_types, "update_slice: i32[2] does not fit into f32[4] at [0]"),
    ROW(update_slice_axes, "update_slice: f32[2,2] does not fit into f32[4] at [0]"),
    ROW(sum_axis, "sum: axis 2 of f32[2,3]: its axes run from -2 to 1"),
    ROW(sum_axis_twice, "sum: f32[2,3]: the axes [1,-1] must be different ones"),
    ROW(sum_of_scalar, "sum: axis -1 of f32[]: a scalar has no axes"),
    ROW(sum_nine_axes, "sum: f32[2]: the axes [rank 9] must be different ones"),
    ROW(sum_bool, "sum: needs a floating or integer tensor, got bool[2]; nt_convert makes one"),
    ROW(mean_integer, "mean: needs a floating tensor, got i32[2]; nt_convert makes one"),
    ROW(mean_axis, "mean: axis -2 of f32[2]: its axes run from -1 to 0"),
    ROW(reduce_max_bool, "reduce_max: needs a floating or integer tensor, got bool[2]; nt_convert makes one"),
    ROW(softmax_scalar, "softmax: axis -1 of f32[]: a scalar has no axes"),
    ROW(softmax_integer, "softmax: needs a floating tensor, got i32[2]; nt_convert makes one"),
    ROW(log_softmax_scalar, "log_softmax: axis -1 of f32[]: a scalar has no axes"),
    ROW(matmul_inner, "matmul: f32[128,784] x f32[512,10]: inner sizes 784 and 512 differ"),
    ROW(matmul_inner_vector, "matmul: f32[3] x f32[4,2]: inner sizes 3 and 4 differ"),
    ROW(matmul_batch, "matmul: f32[2,3,4] x f32[3,4,5]: the leading axes do not broadcast: sizes must be equal or 1"),
    ROW(matmul_types, "matmul: f32[2,3] x i32[3,2]: element types differ; nt_convert makes them equal"),
    ROW(matmul_scalar, "matmul: f32[2,3] x f32[]: a scalar has no axis to contract; nt_mul multiplies by one"),
    ROW(matmul_bool, "matmul: needs a floating or integer tensor, got bool[2,3]; nt_convert makes one"),
    ROW(and_float, "and: needs a bool or integer tensor, got f32[2]; nt_convert makes one"),
    ROW(shift_bool, "shift_left: needs an integer tensor, got bool[2]; nt_convert makes one"),
    ROW(sin_integer, "sin: needs a floating tensor, got i32[2]; nt_convert makes one"),
    ROW(trunc_integer, "trunc: needs a floating tensor, got i32[2]; nt_convert makes one"),
    ROW(is_nan_integer, "is_nan: needs a floating tensor, got i32[2]; nt_convert makes one"),
    ROW(atan2_shapes, "atan2: f32[2] and f32[3]" NOT_BROADCAST),
    ROW(bitcast_parts, "bitcast: u8[3,3] does not become f32: a wider type takes a last axis with the parts of one "
                       "element, a narrower one adds such an axis, and bool has no bits of its own"),
    ROW(prod_bool, "prod: needs a floating or integer tensor, got bool[2]; nt_convert makes one"),
    ROW(any_float, "any: needs a bool tensor, got f32[2]; a comparison makes one"),
    ROW(variance_integer, "variance: needs a floating tensor, got i32[2]; nt_convert makes one"),
    ROW(logsumexp_axis, "logsumexp: axis 2 of f32[2,3]: its axes run from -2 to 1"),
    ROW(argmax_empty, "argmax: axis 1 of f32[2,0]: its size must be from 1 to 2147483647"),
    ROW(cumsum_axis, "cumsum: axis 0 of f32[]: a scalar has no axes"),
    ROW(cumprod_bool, "cumprod: needs a floating or integer tensor, got bool[2]; nt_convert makes one"),
    ROW(cummax_axis, "cummax: axis 2 of f32[2,3]: its axes run from -2 to 1"),
    ROW(cummin_bool, "cummin: needs a floating or integer tensor, got bool[2]; nt_convert makes one"),
    ROW(cumlogsumexp_integer, "cumlogsumexp: needs a floating tensor, got i32[2]; nt_convert makes one"),
    ROW(softmax_axis, "softmax: axis 2 of f32[2,3]: its axes run from -2 to 1"),
    ROW(hypot_integer, "hypot: needs a floating tensor, got i32[2]; nt_convert makes one"),
    ROW(hypot_shapes, "hypot: f32[2] and f32[3]" NOT_BROADCAST),
    ROW(copysign_types, "copysign: f32[2] and i32[2]: element types differ; nt_convert makes them equal"),
    ROW(logaddexp_shapes, "logaddexp: f32[2] and f32[3]" NOT_BROADCAST),
    ROW(lgamma_integer, "lgamma: needs a floating tensor, got i32[2]; nt_convert makes one"),
    ROW(polygamma_order, "polygamma: the order is -1: it must be at least 0"),
    ROW(round_half_away_bool, "round_half_away: needs a floating tensor, got bool[2]; nt_convert makes one"),
    ROW(scatter_mul_bool, "scatter_mul: needs a floating or integer tensor, got bool[3]; nt_convert makes one"),
    ROW(scatter_min_types, "scatter_min: i32[2] into f32[3]: element types differ; nt_convert makes them equal"),
    ROW(slice_stride, "slice: the strides [0] of f32[6] must be positive, one for each axis"),
    ROW(pad_too_much_cut, "pad: f32[2,3] cannot be padded by [0,-2] before and [0,-2] after: one number for each axis, "
                          "and no more may be cut than is there"),
    ROW(pad_value, "pad: f32[2] is filled with a number or a scalar of its element type, got i32[2]"),
    ROW(pad_reflect_wide, "pad_reflect: f32[3] has no border of [3] before and [0] after: one number from 0 for each "
                          "axis, below its size"),
    ROW(pad_edge_empty, "pad_edge: f32[0] has no border of [1] before and [0] after: one number from 0 for each axis, "
                        "and an empty axis has no edge"),
    ROW(expand_axis, "expand: axis 2 of f32[2]: the new axis is one from -2 to 1, and a tensor has at most 8"),
    ROW(squeeze_wide, "squeeze: axis 1 of f32[1,3] is not of size 1; nt_reshape joins axes"),
    ROW(concatenate_shapes,
        "concatenate: tensor 0 is f32[2,3] and tensor 1 is f32[3,3]: element types and all axes but axis 1 must agree"),
    ROW(stack_types, "stack: tensor 0 is f32[2] and tensor 1 is i32[2]: all must have one type and shape"),
    ROW(range_outside, "range: axis 1 of f32[2,3] has no range from 2 to 4"),
    ROW(tile_axes, "tile: f32[2,3] needs one number of copies for each axis, got [2]"),
    ROW(repeat_negative, "repeat: -1 copies along axis 0 of f32[2] are not possible"),
    ROW(triangle_vector, "lower_triangle: needs a matrix in the last two axes, got f32[2]"),
    ROW(take_float, "take: needs an integer tensor, got f32[2]; nt_convert makes one"),
    ROW(take_empty, "take: axis 0 of f32[0,2] is empty: there is nothing to read"),
    ROW(take_axes, "take: f32[1,1,1,1,1] at i32[1,1,1,1,1]: the result would have more than 8 axes"),
    ROW(take_along_shape,
        "take_along: f32[2,3] at i32[3,3]: all axes but axis 1 must have the same sizes; nt_take reads whole slices"),
    ROW(scatter_types, "scatter_add: i32[2] into f32[3]: element types differ; nt_convert makes them equal"),
    ROW(dynamic_slice_size,
        "dynamic_slice: a block [3,3] of f32[2,3] at i32[2]: it must fit, and the start has one integer for each axis"),
    ROW(sort_bool, "sort: needs a floating or integer tensor, got bool[2]; nt_convert makes one"),
    ROW(top_k_large, "top_k: k is 4: the last axis of f32[2,3] has fewer elements"),
    ROW(parts_uneven, "parts: axis 1 of f32[2,3] does not fall into 2 equal parts; nt_range cuts others"),
    ROW(outer_of_matrix, "outer: f32[2,3] x f32[3]: needs two vectors; nt_einsum multiplies other shapes"),
    ROW(outer_types, "outer: f32[2] x i32[3]: element types differ; nt_convert makes them equal"),
    ROW(norm_integer, "norm: needs a floating tensor, got i32[2]; nt_convert makes one"),
    ROW(norm1_bool, "norm1: needs a floating tensor, got bool[2]; nt_convert makes one"),
    ROW(norm_max_axis, "reduce_max: axis 1 of f32[2]: its axes run from -1 to 0"),
    ROW(einsum_null, "einsum: equation is NULL"),
    ROW(einsum_few_terms, "einsum: \"ij->i\": has 1 terms for 2 operands, at '->i'"),
    ROW(einsum_many_terms, "einsum: \"ij,j->i\": has more terms than the 1 operands given"),
    ROW(einsum_sign, "einsum: \"i...j->ij\": '...j->ij' is neither a letter, a comma nor \"->\""),
    ROW(einsum_long_term, "einsum: \"abcdefghi\": a term has more than 8 letters"),
    ROW(einsum_unknown, "einsum: \"ij->ik\": no operand has the axis 'k' of the result"),
    ROW(einsum_twice, "einsum: \"ij->ii\": the result names the axis 'i' twice"),
    ROW(einsum_rank, "einsum: \"ij,jk->ik\": the term 'jk' has 2 letters, its operand is f32[3]"),
    ROW(einsum_sizes, "einsum: \"ij,jk->ik\": the axis 'j' has the sizes 3 and 4"),
    ROW(einsum_diagonal, "einsum: \"ii->i\": the axis 'i' has the sizes 2 and 3"),
    ROW(einsum_types, "einsum: \"i,i->\": f32[2] and i32[2]: element types differ; nt_convert makes them equal"),
    ROW(einsum_bool, "einsum: needs a floating or integer tensor, got bool[2]; nt_convert makes one"),
    ROW(einsum_nine_axes, "einsum: \"abcde,fghi->abcdefghi\": the product 'abcdefghi' has 9 axes, and a tensor has at "
                          "most 8; another order of the operands may do"),
    ROW(conv_integer, "conv: needs a floating tensor, got i32[1,4,2]; nt_convert makes one"),
    ROW(conv_types, "conv: f32[1,4,2] and kernel i32[3,2,2]: element types differ; nt_convert makes them equal"),
    ROW(conv_rank, "conv: f32[1,4,2] and kernel f32[3,2,2]: with 2 spatial axes both have 4 axes"),
    ROW(conv_channels, "conv: 2 input channels in 1 groups need a kernel of 2 input channels, it has 3"),
    ROW(conv_groups, "conv: 2 groups do not divide 4 input and 3 output channels"),
    ROW(conv_negative_groups, "conv: -2 groups do not divide 4 input and 3 output channels"),
    ROW(conv_stride, "conv: stride -2 of spatial axis 1: it must be from 1 to 2147483647"),
    ROW(conv_dilation, "conv: dilation 9223372036854775807 of spatial axis 0: it must be from 1 to 2147483647"),
    ROW(conv_too_wide, "conv: spatial axis 0: 1099511627776 elements with dilation 2147483647 and a kernel of 1 with "
                       "dilation 1 are too wide"),
    ROW(conv_two_paddings, "conv: both `same` and `pad` are given"),
    ROW(conv_padding, "conv: padding [9223372036854775807,1] of spatial axis 0 is not possible"),
    ROW(conv_does_not_fit, "conv: spatial axis 0: a kernel of 3 with dilation 2 does not fit into 4 elements with "
                           "dilation 1 and padding [0,0]"),
    ROW(conv_no_axes, "conv: 0 spatial axes: there are 1 to 3"),
    ROW(transposed_cut, "conv_transposed: spatial axis 0: a kernel of 3 with dilation 1 does not fit into 1 elements "
                        "with dilation 1 and padding [0,1]"),
    ROW(transposed_output_padding,
        "conv_transposed: output padding 1 of spatial axis 0 must be at least 0 and less than the stride 1"),
    ROW(global_pool_rank, "global_avg_pool: needs a floating tensor [samples, positions..., channels] with 1 to 3 axes "
                          "of positions, got f32[4,3]"),
    ROW(global_pool_integer, "global_max_pool: needs a floating tensor [samples, positions..., channels] with 1 to 3 "
                             "axes of positions, got i32[2,4,1]"),
    ROW(global_pool_never_set,
        "global_avg_pool: the tensor was never set: it is zero bytes, not the result of an operation"),
    ROW(pool_integer, "max_pool: needs a floating tensor, got i32[1,4,1]; nt_convert makes one"),
    ROW(pool_rank, "max_pool: f32[1,4,1] with a window of [2,2]: a window has 1 to 3 axes, and the tensor two more"),
    ROW(pool_window, "avg_pool: window -2 of spatial axis 0: it must be from 1 to 2147483647"),
    ROW(pool_padding, "avg_pool: padding [2,0] of spatial axis 0 must be at least 0 and less than the window, 2"),
    ROW(pool_does_not_fit, "max_pool: spatial axis 0: a window of 5 does not fit into 4 elements with padding [0,0]"),
    ROW(outer_too_large, "dot: f32[1099511627776,1099511627776]" REST_OF_TYPE),
    ROW(add_too_large, "broadcast: f32[1099511627776,1099511627776]" REST_OF_TYPE),
    ROW(einsum_too_large, "dot: f32[1099511627776,1099511627776]" REST_OF_TYPE),
    ROW(tile_too_large, "tile: 1099511627776 copies along axis 0 of f32[1099511627776] are not possible"),
    ROW(repeat_too_large, "repeat: f32[4611686018427387904]" REST_OF_TYPE),
    ROW(pad_too_large, "pad: f32[1099511627776] cannot be padded by [9223372036854775807] before and [0] after: one "
                       "number for each axis, and no more may be cut than is there"),
    ROW(pad_edge_too_large, "pad_edge: f32[9223372036854775807]" REST_OF_TYPE),
    ROW(concatenate_too_large, "concatenate: u8[-1]" REST_OF_TYPE),
    ROW(take_too_large, "convert: i64[1073741824,1073741824]" REST_OF_TYPE),
    ROW(convert_too_large, "convert: f64[2305843009213693952]" REST_OF_TYPE),
    ROW(triangle_too_large, "iota: i64[1099511627776,1099511627776]" REST_OF_TYPE),
    ROW(dim_axis, "dim: axis 2 of f32[2,3]: its axes run from -2 to 1"),
    ROW(dim_of_scalar, "dim: axis 0 of f32[]: a scalar has no axes"),
    ROW(stop_gradient_of_nothing,
        "stop_gradient: the tensor was never set: it is zero bytes, not the result of an operation"),
    ROW(never_set, "add: the tensor was never set: it is zero bytes, not the result of an operation"),
    ROW(never_set_in_where, "where: the tensor was never set: it is zero bytes, not the result of an operation"),
    ROW(of_an_earlier_trace,
        "mul: the tensor belongs to an earlier trace: a tensor lives as long as the call of the hook that made it, so "
        "do not keep one in a global or static variable"),
    ROW(made_by_hand, "tanh: the tensor is not the result of an operation of this trace"),
    ROW(loss_not_scalar, "loss: must be a floating scalar, got f32[5]; nt_mean or nt_sum makes one"),
    ROW(loss_integer, "loss: must be a floating scalar, got i32[]; nt_mean or nt_sum makes one"),
    ROW(cotangent_of_another_type, "gradient: the cotangent of f32[2] must have its type, got f32[3]"),
};

static nt__graph *begin(void) {
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    return graph;
}

static void each_mistake_has_its_message(void **state) {
    (void)state;
    nt__graph *earlier = begin();
    kept_in_a_global = F32(2);
    nt__trace_end(earlier);
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        nt__graph *graph = begin();
        nt_tensor made = mistakes[i].make();
        char expected[1024];
        snprintf(expected, sizeof expected, "%s:%d in %s: %s", __FILE__, line, mistakes[i].name, mistakes[i].message);
        assert_int_equal(nt__trace_status(graph), NT_INVALID);
        assert_string_equal(nt_error_message(), expected);
        assert_true(nt__tensor_failed(made));
        nt__trace_end(graph);
    }
}

/* ---- mistakes without a place ----------------------------------------------------------------------------------- */

static nt_status print_one(const char *name, nt_tensor value, nt_tensor takes) {
    nt__printed printed;
    nt_status status = nt__print("m", &(nt__result){name, value, takes}, 1, &printed);
    assert_null(printed.text.data);
    return status;
}

static void results_are_checked_by_name(void **state) {
    (void)state;
    nt__graph *graph = begin();
    assert_int_equal(print_one("logits", (nt_tensor){0}, (nt_tensor){0}), NT_INVALID);
    assert_string_equal(nt_error_message(),
                        "logits: the tensor was never set: it is zero bytes, not the result of an operation");
    nt__trace_end(graph);
    assert_int_equal(print_one("logits", (nt_tensor){0}, (nt_tensor){0}), NT_INVALID);
    assert_string_equal(nt_error_message(), "printing 'm': no trace is under way");
    graph = begin();
    assert_true(nt__tensor_failed(gradient_of((nt_tensor){0})));
    assert_int_equal(nt__trace_status(graph), NT_INVALID);
    assert_string_equal(nt_error_message(),
                        "loss: the tensor was never set: it is zero bytes, not the result of an operation");
    nt__trace_end(graph);
    graph = begin();
    assert_true(nt__tensor_failed(tensor(NT_F32, nt_dims(-1))));
    assert_int_equal(nt__trace_status(graph), NT_INVALID);
    assert_string_equal(nt_error_message(), "input: f32[-1]" REST_OF_TYPE);
    nt__trace_end(graph);
}

static void assert_donation_refused(nt__graph *graph, const nt__result *results, size_t count, const char *message) {
    nt__printed printed;
    char expected[512];
    snprintf(expected, sizeof expected, "%s:%d in donations_are_checked: %s", __FILE__, line, message);
    assert_int_equal(nt__print("m", results, count, &printed), NT_INVALID);
    assert_string_equal(nt_error_message(), expected);
    nt__trace_end(graph);
}

static void donations_are_checked(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = F32(3), y = AT(nt_exp(x));
    assert_donation_refused(graph, &(nt__result){"w", y, y}, 1,
                            "w: a result of f32[3] cannot take the memory of f32[3]: that is not an argument");
    graph = begin();
    x = F32(4);
    y = AT(nt_slice(x, nt_dims(0), nt_dims(3)));
    assert_donation_refused(graph, &(nt__result){"w", y, x}, 1,
                            "w: a result of f32[3] cannot take the memory of f32[4]: the numbers of bytes differ");
    graph = begin();
    x = F32(3);
    y = AT(nt_exp(x));
    assert_donation_refused(graph, (nt__result[]){{"v", y, x}, {"w", y, x}}, 2,
                            "w: a result of f32[3] cannot take the memory of f32[3]: another result takes it already");
}

static void operations_need_a_trace(void **state) {
    (void)state;
    const char *rest = "no trace is under way: operations belong in traced hooks (forward, loss, ...)";
    char expected[512];
    assert_null(nt__trace_current());
    nt_tensor full = AT(nt_full(NT_F32, nt_dims(2), 1));
    snprintf(expected, sizeof expected, "%s:%d in operations_need_a_trace: full: %s", __FILE__, line, rest);
    assert_string_equal(nt_error_message(), expected);
    assert_true(nt__tensor_failed(full));
    nt_tensor sum = AT(nt_add(kept_in_a_global, 1));
    snprintf(expected, sizeof expected, "%s:%d in operations_need_a_trace: add: %s", __FILE__, line, rest);
    assert_string_equal(nt_error_message(), expected);
    assert_true(nt__tensor_failed(sum));
    int64_t size = AT(nt_dim(sum, 0));
    snprintf(expected, sizeof expected, "%s:%d in operations_need_a_trace: dim: %s", __FILE__, line, rest);
    assert_string_equal(nt_error_message(), expected);
    assert_int_equal(size, 1);
    assert_true(nt__tensor_failed(F32(2)));
    snprintf(expected, sizeof expected, "x: %s", rest);
    assert_string_equal(nt_error_message(), expected);
    nt_tensor gradient = gradient_of(sum);
    snprintf(expected, sizeof expected, "gradient: %s", rest);
    assert_string_equal(nt_error_message(), expected);
    assert_true(nt__tensor_failed(gradient));
}

/* ---- after the first -------------------------------------------------------------------------------------------- */

static void the_first_error_stays(void **state) {
    (void)state;
    nt__graph *graph = begin();
    char expected[512];
    nt_tensor bad = AT(nt_reshape(F32(2, 3), 5));
    snprintf(expected, sizeof expected,
             "%s:%d in the_first_error_stays: reshape: f32[2,3] has 6 elements and cannot %s", __FILE__, line,
             "become [5]");
    nt_tensor later[] = {nt_add(bad, 1),
                         nt_matmul(bad, F32(2)),
                         nt_exp(I32(2)),
                         nt_where(bad, bad, 2),
                         nt_sum(bad, 7),
                         nt_softmax(bad),
                         nt_transpose(bad, 3),
                         nt_one_hot(bad, 3, NT_F32),
                         nt_slice(bad, nt_dims(0), nt_dims(9)),
                         nt_update_slice(bad, bad, nt_dims(0)),
                         nt_full(NT_F32, nt_dims(2), 1),
                         nt_max(bad, (nt_tensor){0}),
                         nt_mean(bad),
                         gradient_of(bad)};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) assert_true(nt__tensor_failed(later[i]));
    assert_int_equal(nt__trace_status(graph), NT_INVALID);
    assert_string_equal(nt_error_message(), expected);
    nt__trace_end(graph);
}

/* A hook computes with sizes: it must come to its end with those of a failed tensor. */
static void sizes_of_a_failed_tensor_are_one(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor bad = nt_reshape(F32(2, 3), 5);
    for (int axis = -NT_MAX_RANK; axis < NT_MAX_RANK; axis++) assert_int_equal(nt_dim(bad, axis), 1);
    assert_int_equal(nt_dim(bad, 100), 1);
    assert_int_equal(784 / nt_dim(bad, 0) % nt_dim(bad, 1), 0);
    assert_int_equal(nt_rank(bad), NT_MAX_RANK);
    assert_int_equal(nt_shape_elements(nt_shape_of(bad)), 1);
    assert_int_equal(nt_dtype_of(bad), NT_F32);
    nt_tensor never = {0};
    assert_int_equal(nt_dim(never, 0), 1);
    assert_int_equal(nt_rank(nt_tensor_number(3)), 0);
    nt__trace_end(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_has_its_message), cmocka_unit_test(results_are_checked_by_name),
        cmocka_unit_test(donations_are_checked),        cmocka_unit_test(operations_need_a_trace),
        cmocka_unit_test(the_first_error_stays),        cmocka_unit_test(sizes_of_a_failed_tensor_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
