/* Every operation in every element type: it works, as one program of the engine with its gradient, or it is refused
 * with a message that names the type. Values are compared elsewhere (test_golden.c, test_types.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "graph/emit.h"
#include "traced.h"

/* ---- the table -------------------------------------------------------------------------------------------------- */

/* Element types that an operation takes. */
typedef enum kinds {
    BOOLEAN = 1,
    UNSIGNED = 2,
    SIGNED = 4,
    FLOATING = 8,
    NARROW_UNSIGNED = 16, /* of 8 and 16 bits */
    NARROW_SIGNED = 32,
    INTEGER = UNSIGNED | SIGNED | NARROW_UNSIGNED | NARROW_SIGNED,
    ADDS_UP = UNSIGNED | SIGNED | FLOATING,
    BITS = BOOLEAN | INTEGER,
    WITH_SIGN = SIGNED | NARROW_SIGNED | FLOATING,
    NUMERIC = INTEGER | FLOATING,
    ANY = BOOLEAN | NUMERIC,
} kinds;

static kinds kind_of(nt_dtype dtype) {
    if (nt_dtype_is_float(dtype)) return FLOATING;
    if (dtype == NT_BOOL) return BOOLEAN;
    bool narrow = nt_dtype_size(dtype) < 4;
    if (nt__dtype_is_unsigned(dtype)) return narrow ? NARROW_UNSIGNED : UNSIGNED;
    return narrow ? NARROW_SIGNED : SIGNED;
}

/* What a row computes with: numbers from 1 to 3, shapes [2, 3]. */
typedef struct operands {
    nt_tensor a, b;
    nt_dtype dtype;
} operands;

#define A o->a
#define B o->b
#define INDEX nt_iota(NT_I32, nt_dims(2), 0)
#define PICTURE nt_reshape(A, 1, 2, 3, 1)
#define KERNEL nt_reshape(B, 2, 3, 1, 1)

#define EACH_OPERATION(ROW)                                                           \
    ROW(add, NUMERIC, nt_add(A, B))                                                   \
    ROW(sub, NUMERIC, nt_sub(A, B))                                                   \
    ROW(mul, NUMERIC, nt_mul(A, B))                                                   \
    ROW(div, NUMERIC, nt_div(A, B))                                                   \
    ROW(pow, NUMERIC, nt_pow(A, B))                                                   \
    ROW(rem, NUMERIC, nt_rem(A, B))                                                   \
    ROW(mod, NUMERIC, nt_mod(A, B))                                                   \
    ROW(floor_div, NUMERIC, nt_floor_div(A, B))                                       \
    ROW(max, NUMERIC, nt_max(A, B))                                                   \
    ROW(min, NUMERIC, nt_min(A, B))                                                   \
    ROW(clamp, NUMERIC, nt_clamp(A, 1, 2))                                            \
    ROW(neg, NUMERIC, nt_neg(A))                                                      \
    ROW(abs, WITH_SIGN, nt_abs(A))                                                    \
    ROW(sign, WITH_SIGN, nt_sign(A))                                                  \
    ROW(square, NUMERIC, nt_square(A))                                                \
    ROW(relu, NUMERIC, nt_relu(A))                                                    \
    ROW(exp, FLOATING, nt_exp(A))                                                     \
    ROW(expm1, FLOATING, nt_expm1(A))                                                 \
    ROW(exp2, FLOATING, nt_exp2(A))                                                   \
    ROW(log, FLOATING, nt_log(A))                                                     \
    ROW(log1p, FLOATING, nt_log1p(A))                                                 \
    ROW(log2, FLOATING, nt_log2(A))                                                   \
    ROW(log10, FLOATING, nt_log10(A))                                                 \
    ROW(sqrt, FLOATING, nt_sqrt(A))                                                   \
    ROW(rsqrt, FLOATING, nt_rsqrt(A))                                                 \
    ROW(cbrt, FLOATING, nt_cbrt(A))                                                   \
    ROW(tanh, FLOATING, nt_tanh(A))                                                   \
    ROW(logistic, FLOATING, nt_logistic(A))                                           \
    ROW(sin, FLOATING, nt_sin(A))                                                     \
    ROW(cos, FLOATING, nt_cos(A))                                                     \
    ROW(tan, FLOATING, nt_tan(A))                                                     \
    ROW(asin, FLOATING, nt_asin(A))                                                   \
    ROW(acos, FLOATING, nt_acos(A))                                                   \
    ROW(atan, FLOATING, nt_atan(A))                                                   \
    ROW(atan2, FLOATING, nt_atan2(A, B))                                              \
    ROW(sinh, FLOATING, nt_sinh(A))                                                   \
    ROW(cosh, FLOATING, nt_cosh(A))                                                   \
    ROW(asinh, FLOATING, nt_asinh(A))                                                 \
    ROW(acosh, FLOATING, nt_acosh(A))                                                 \
    ROW(atanh, FLOATING, nt_atanh(A))                                                 \
    ROW(erf, FLOATING, nt_erf(A))                                                     \
    ROW(erfc, FLOATING, nt_erfc(A))                                                   \
    ROW(erf_inv, FLOATING, nt_erf_inv(A))                                             \
    ROW(lgamma, FLOATING, nt_lgamma(A))                                               \
    ROW(digamma, FLOATING, nt_digamma(A))                                             \
    ROW(polygamma, FLOATING, nt_polygamma(1, A))                                      \
    ROW(logaddexp, FLOATING, nt_logaddexp(A, B))                                      \
    ROW(hypot, FLOATING, nt_hypot(A, B))                                              \
    ROW(copysign, FLOATING, nt_copysign(A, B))                                        \
    ROW(floor, FLOATING, nt_floor(A))                                                 \
    ROW(ceil, FLOATING, nt_ceil(A))                                                   \
    ROW(round, FLOATING, nt_round(A))                                                 \
    ROW(round_half_away, FLOATING, nt_round_half_away(A))                             \
    ROW(trunc, FLOATING, nt_trunc(A))                                                 \
    ROW(is_finite, FLOATING, nt_is_finite(A))                                         \
    ROW(is_nan, FLOATING, nt_is_nan(A))                                               \
    ROW(is_inf, FLOATING, nt_is_inf(A))                                               \
    ROW(equal, ANY, nt_equal(A, B))                                                   \
    ROW(not_equal, ANY, nt_not_equal(A, B))                                           \
    ROW(less, ANY, nt_less(A, B))                                                     \
    ROW(less_equal, ANY, nt_less_equal(A, B))                                         \
    ROW(greater, ANY, nt_greater(A, B))                                               \
    ROW(greater_equal, ANY, nt_greater_equal(A, B))                                   \
    ROW(where, ANY, nt_where(nt_equal(A, B), A, B))                                   \
    ROW(and, BITS, nt_and(A, B))                                                      \
    ROW(or, BITS, nt_or(A, B))                                                        \
    ROW(xor, BITS, nt_xor(A, B))                                                      \
    ROW(not, BITS, nt_not(A))                                                         \
    ROW(shift_left, INTEGER, nt_shift_left(A, B))                                     \
    ROW(shift_right, INTEGER, nt_shift_right(A, B))                                   \
    ROW(shift_right_logical, INTEGER, nt_shift_right_logical(A, B))                   \
    ROW(popcount, INTEGER, nt_popcount(A))                                            \
    ROW(count_leading_zeros, INTEGER, nt_count_leading_zeros(A))                      \
    ROW(bitcast, NUMERIC, nt_bitcast(nt_bitcast(A, NT_U8), o->dtype))                 \
    ROW(iota, NUMERIC, nt_iota(o->dtype, nt_dims(3), 0))                              \
    ROW(one_hot, INTEGER, nt_one_hot(A, 3, o->dtype))                                 \
    ROW(reshape, ANY, nt_reshape(A, 3, 2))                                            \
    ROW(transpose, ANY, nt_transpose(A, 1, 0))                                        \
    ROW(broadcast, ANY, nt_broadcast(A, nt_dims(2, 2, 3)))                            \
    ROW(slice, ANY, nt_slice_strided(A, nt_dims(0, 0), nt_dims(2, 3), nt_dims(1, 2))) \
    ROW(pad, ANY, nt_pad(A, nt_dims(1, -1), nt_dims(0, 1), 1))                        \
    ROW(pad_edge, ANY, nt_pad_edge(A, nt_dims(1, 0), nt_dims(0, 1)))                  \
    ROW(pad_reflect, ANY, nt_pad_reflect(A, nt_dims(1, 0), nt_dims(0, 1)))            \
    ROW(update_slice, ANY, nt_update_slice(A, nt_reshape(B, 2, 3), nt_dims(0, 0)))    \
    ROW(concatenate, ANY, nt_concatenate(0, A, B))                                    \
    ROW(stack, ANY, nt_stack(0, A, B))                                                \
    ROW(flip, ANY, nt_flip(A))                                                        \
    ROW(roll, ANY, nt_roll(A, 1, 1))                                                  \
    ROW(tile, ANY, nt_tile(A, nt_dims(1, 2)))                                         \
    ROW(repeat, ANY, nt_repeat(A, 2, 0))                                              \
    ROW(lower_triangle, NUMERIC, nt_lower_triangle(A, 0))                             \
    ROW(upper_triangle, NUMERIC, nt_upper_triangle(A, 0))                             \
    ROW(stop_gradient, ANY, nt_stop_gradient(A))                                      \
    ROW(take, ANY, nt_take(A, INDEX, 1))                                              \
    ROW(take_along, ANY, nt_take_along(A, nt_broadcast(INDEX, nt_dims(2, 2)), 1))     \
    ROW(take_at, INTEGER, nt_take(INDEX, A, 0))                                       \
    ROW(scatter_set, NUMERIC, nt_scatter_set(A, INDEX, nt_take(B, INDEX, 1), 1))      \
    ROW(scatter_add, ADDS_UP, nt_scatter_add(A, INDEX, nt_take(B, INDEX, 1), 1))      \
    ROW(scatter_mul, ADDS_UP, nt_scatter_mul(A, INDEX, nt_take(B, INDEX, 1), 1))      \
    ROW(scatter_max, NUMERIC, nt_scatter_max(A, INDEX, nt_take(B, INDEX, 1), 1))      \
    ROW(scatter_min, NUMERIC, nt_scatter_min(A, INDEX, nt_take(B, INDEX, 1), 1))      \
    ROW(dynamic_slice, ANY, nt_dynamic_slice(A, INDEX, nt_dims(1, 2)))                \
    ROW(dynamic_update, ANY, nt_dynamic_update(A, nt_reshape(B, 2, 3), INDEX))        \
    ROW(sort, NUMERIC, nt_sort(A, 1, NT_DESCENDING))                                  \
    ROW(argsort, NUMERIC, nt_argsort(A, 1, NT_ASCENDING))                             \
    ROW(top_k, NUMERIC, nt_top_k(A, 2, NULL))                                         \
    ROW(sum, ADDS_UP, nt_sum(A, 0))                                                   \
    ROW(prod, ADDS_UP, nt_prod(A, 0))                                                 \
    ROW(mean, FLOATING, nt_mean(A, 0))                                                \
    ROW(reduce_max, NUMERIC, nt_reduce_max(A, 0))                                     \
    ROW(reduce_min, NUMERIC, nt_reduce_min(A, 0))                                     \
    ROW(variance, FLOATING, nt_variance(A, 0, 0))                                     \
    ROW(deviation, FLOATING, nt_deviation(A, 0, 0))                                   \
    ROW(logsumexp, FLOATING, nt_logsumexp(A, 0))                                      \
    ROW(any, BOOLEAN, nt_any(A, 0))                                                   \
    ROW(all, BOOLEAN, nt_all(A, 0))                                                   \
    ROW(argmax, NUMERIC, nt_argmax(A, 0))                                             \
    ROW(argmin, NUMERIC, nt_argmin(A, 0))                                             \
    ROW(cumsum, ADDS_UP, nt_cumsum(A, 1, NT_FORWARD))                                 \
    ROW(cumprod, ADDS_UP, nt_cumprod(A, 1, NT_FORWARD))                               \
    ROW(cummax, NUMERIC, nt_cummax(A, 1, NT_FORWARD))                                 \
    ROW(cummin, NUMERIC, nt_cummin(A, 1, NT_BACKWARD))                                \
    ROW(cumlogsumexp, FLOATING, nt_cumlogsumexp(A, 1, NT_FORWARD))                    \
    ROW(softmax, FLOATING, nt_softmax(A))                                             \
    ROW(log_softmax, FLOATING, nt_log_softmax(A))                                     \
    ROW(matmul, ADDS_UP, nt_matmul(A, nt_transpose(B, 1, 0)))                         \
    ROW(outer, NUMERIC, nt_outer(nt_reshape(A, 6), nt_reshape(B, 6)))                 \
    ROW(einsum, ADDS_UP, nt_einsum("ij,ij->i", A, B))                                 \
    ROW(norm, FLOATING, nt_norm(A, 1))                                                \
    ROW(norm1, FLOATING, nt_norm1(A, 1))                                              \
    ROW(norm_max, FLOATING, nt_norm_max(A, 1))                                        \
    ROW(conv, FLOATING, nt_conv2d(PICTURE, KERNEL))                                   \
    ROW(conv_transposed, FLOATING, nt_conv2d_transposed(PICTURE, KERNEL))             \
    ROW(global_max_pool, FLOATING, nt_global_max_pool(PICTURE))                       \
    ROW(global_avg_pool, FLOATING, nt_global_avg_pool(PICTURE))                       \
    ROW(max_pool, FLOATING, nt_max_pool(PICTURE, nt_dims(2, 2), .stride = {1}))       \
    ROW(avg_pool, FLOATING, nt_avg_pool(PICTURE, nt_dims(2, 2), .stride = {1}, .same = true))

#define BUILD(name, takes, value)                      \
    static nt_tensor build_##name(const operands *o) { \
        return value;                                  \
    }
EACH_OPERATION(BUILD)

typedef struct row {
    const char *name;
    kinds takes;
    nt_tensor (*build)(const operands *o);
} row;

#define ROW(name, takes, value) {#name, takes, build_##name},
static const row rows[] = {EACH_OPERATION(ROW)};
enum { ROWS = sizeof rows / sizeof *rows };

static operands inputs_of(nt_dtype dtype) {
    nt__type type = {dtype, nt_dims(2, 3)};
    return (operands){traced_input(0, type), traced_input(1, type), dtype};
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static bool is_refused(const row *r, nt_dtype dtype) {
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    operands o = inputs_of(dtype);
    r->build(&o);
    nt_status status = nt__trace_status(graph);
    const char *message = status == NT_OK ? "no error" : nt_error_message();
    bool right = status == NT_INVALID && strstr(message, nt_dtype_name(dtype));
    if (!right) print_error("%s of %s: %s\n", r->name, nt_dtype_name(dtype), message);
    nt__trace_end(graph);
    return right;
}

static void other_types_are_refused(void **state) {
    (void)state;
    size_t wrong = 0;
    for (nt_dtype dtype = 0; dtype < NT_DTYPE_COUNT; dtype++)
        for (size_t i = 0; i < ROWS; i++)
            if (!(rows[i].takes & kind_of(dtype))) wrong += !is_refused(&rows[i], dtype);
    assert_int_equal(wrong, 0);
}

/* ---- what works ------------------------------------------------------------------------------------------------- */

static nt_tensor as_number(nt_tensor y) {
    return nt_sum(nt_convert(nt_reshape(y, -1), NT_F32));
}

/* The sum of all: a compile is what costs, and one result is enough for one. */
static nt_tensor everything(const operands *o, const nt__graph *graph) {
    nt_tensor sum = nt_full(NT_F32, (nt_shape){0}, 0);
    for (size_t i = 0; i < ROWS; i++) {
        if (!(rows[i].takes & kind_of(o->dtype))) continue;
        sum = nt_add(sum, as_number(rows[i].build(o)));
        if (nt__trace_status(graph) != NT_OK)
            fail_msg("%s of %s: %s", rows[i].name, nt_dtype_name(o->dtype), nt_error_message());
    }
    return sum;
}

static nt_array *array_of(nt_dtype dtype, int first) {
    nt_array *array = nt_array_new(dtype, nt_dims(2, 3));
    assert_non_null(array);
    for (int i = 0; i < 6; i++) nt_array_set(array, i, dtype == NT_BOOL ? i % 2 : 1 + (first + i) % 3);
    return array;
}

static void works(nt_dtype dtype) {
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    operands o = inputs_of(dtype);
    nt_tensor sum = everything(&o, graph), gradients[2] = {{0}};
    nt__result results[] = {{"sum", sum, {0}}, {"gradient", sum, {0}}, {"gradient", sum, {0}}};
    size_t count = nt_dtype_is_float(dtype) ? 3 : 1;
    if (count == 3) nt__gradient(sum, (nt_tensor[]){o.a, o.b}, 2, gradients, NULL);
    for (size_t i = 1; i < count; i++) results[i].value = gradients[i - 1];
    assert_ok(nt__trace_status(graph));
    nt_array *arrays[] = {array_of(dtype, 0), array_of(dtype, 1)}, *got[3];
    traced program = traced_compile(traced_engine(), results, count);
    nt__trace_end(graph);
    traced_run(&program, arrays, got);
    traced_free(&program);
    for (size_t i = 0; i < count; i++) nt_array_free(got[i]);
    for (size_t i = 0; i < 2; i++) nt_array_free(arrays[i]);
}

/* f32 and f64 are those of the golden numbers. */
static void the_others_work(void **state) {
    (void)state;
    for (nt_dtype dtype = 0; dtype < NT_DTYPE_COUNT; dtype++)
        if (dtype != NT_F32 && dtype != NT_F64) works(dtype);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_types_are_refused),
        cmocka_unit_test(the_others_work),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
