/* Gradients of gradients: each operation's first gradient, differentiated again, against central differences of it; and
 * what nt_grad says of wrong arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "nitro/check.h"
#include "nitro/losses.h"
#include "nitro/nn.h"
#include "xla/xla.h"

/* ---- the operations --------------------------------------------------------------------------------------------- */

typedef nt_tensor (*operation)(nt_tensor x);

/* x is f64[3,4], its elements between 0.1 and 0.9 and all different. */
#define OPERATION(name, expression)           \
    static nt_tensor op_##name(nt_tensor x) { \
        return expression;                    \
    }
#define HEAD nt_slice(x, nt_dims(0, 0), nt_dims(2, 2))
#define TAIL nt_slice(x, nt_dims(1, 2), nt_dims(3, 4))
#define PICTURE nt_reshape(x, 1, 3, 4, 1)
#define PLACES nt_convert(nt_argsort(x, 1, NT_ASCENDING), NT_I32)
#define ROWS nt_convert(nt_iota(NT_I32, nt_dims(2), 0), NT_I32)

OPERATION(add, nt_add(HEAD, TAIL))
OPERATION(sub, nt_sub(HEAD, TAIL))
OPERATION(mul, nt_mul(HEAD, TAIL))
OPERATION(div, nt_div(HEAD, TAIL))
OPERATION(pow, nt_pow(HEAD, TAIL))
OPERATION(pow_number, nt_pow(x, 3))
OPERATION(max, nt_max(HEAD, TAIL))
OPERATION(min, nt_min(HEAD, TAIL))
OPERATION(neg, nt_neg(x))
OPERATION(abs, nt_abs(nt_sub(x, 0.5)))
OPERATION(square, nt_square(x))
OPERATION(rem, nt_rem(HEAD, TAIL))
OPERATION(mod, nt_mod(nt_neg(HEAD), TAIL))
OPERATION(clamp, nt_clamp(x, 0.25, 0.75))
OPERATION(exp, nt_exp(x))
OPERATION(expm1, nt_expm1(x))
OPERATION(log, nt_log(x))
OPERATION(log1p, nt_log1p(x))
OPERATION(sqrt, nt_sqrt(x))
OPERATION(rsqrt, nt_rsqrt(x))
OPERATION(cbrt, nt_cbrt(x))
OPERATION(tanh, nt_tanh(x))
OPERATION(logistic, nt_logistic(x))
OPERATION(relu, nt_relu(nt_sub(x, 0.5)))
OPERATION(exp2, nt_exp2(x))
OPERATION(log2, nt_log2(x))
OPERATION(log10, nt_log10(x))
OPERATION(sin, nt_sin(x))
OPERATION(cos, nt_cos(x))
OPERATION(tan, nt_tan(x))
OPERATION(asin, nt_asin(x))
OPERATION(acos, nt_acos(x))
OPERATION(atan, nt_atan(x))
OPERATION(atan2, nt_atan2(HEAD, TAIL))
OPERATION(sinh, nt_sinh(x))
OPERATION(cosh, nt_cosh(x))
OPERATION(asinh, nt_asinh(x))
OPERATION(acosh, nt_acosh(nt_add(x, 1)))
OPERATION(atanh, nt_atanh(x))
OPERATION(erf, nt_erf(x))
OPERATION(erfc, nt_erfc(x))
OPERATION(erf_inv, nt_erf_inv(x))
OPERATION(logaddexp, nt_logaddexp(HEAD, TAIL))
OPERATION(hypot, nt_hypot(HEAD, TAIL))
OPERATION(copysign, nt_copysign(HEAD, nt_neg(TAIL)))
OPERATION(lgamma, nt_lgamma(x))
OPERATION(digamma, nt_digamma(x))
OPERATION(polygamma, nt_polygamma(2, nt_add(x, 1)))
OPERATION(where, nt_where(nt_greater(x, 0.5), nt_square(x), nt_exp(x)))
OPERATION(convert, nt_convert(nt_convert(x, NT_F64), NT_F64))
OPERATION(reshape, nt_reshape(x, 2, 6))
OPERATION(transpose, nt_transpose(x, 1, 0))
OPERATION(broadcast, nt_broadcast(nt_reshape(x, 3, 1, 4), nt_dims(3, 2, 4)))
OPERATION(slice, nt_slice_strided(x, nt_dims(0, 1), nt_dims(3, 4), nt_dims(2, 2)))
OPERATION(update_slice, nt_update_slice(x, nt_square(HEAD), nt_dims(1, 1)))
OPERATION(pad, nt_pad(x, nt_dims(1, 0), nt_dims(0, 2), 0.5))
OPERATION(pad_reflect, nt_pad_reflect(x, nt_dims(1, 2), nt_dims(2, 1)))
OPERATION(concatenate, nt_concatenate(1, x, nt_square(x)))
OPERATION(flip, nt_flip(x, 0, 1))
OPERATION(take, nt_take(x, nt_mul(ROWS, 2), 0))
OPERATION(take_along, nt_take_along(x, PLACES, 1))
OPERATION(scatter_set, nt_scatter_set(x, ROWS, nt_slice(nt_exp(x), nt_dims(1, 0), nt_dims(3, 4)), 0))
OPERATION(scatter_add, nt_scatter_add(x, ROWS, nt_slice(nt_exp(x), nt_dims(1, 0), nt_dims(3, 4)), 0))
OPERATION(scatter_max, nt_scatter_max(x, ROWS, nt_slice(nt_square(x), nt_dims(1, 0), nt_dims(3, 4)), 0))
OPERATION(scatter_min, nt_scatter_min(x, ROWS, nt_slice(nt_square(x), nt_dims(1, 0), nt_dims(3, 4)), 0))
OPERATION(scatter_mul, nt_scatter_mul(x, ROWS, nt_slice(nt_exp(x), nt_dims(1, 0), nt_dims(3, 4)), 0))
OPERATION(dynamic_slice, nt_dynamic_slice(x, ROWS, nt_dims(2, 2)))
OPERATION(dynamic_update, nt_dynamic_update(x, nt_exp(HEAD), ROWS))
OPERATION(sort, nt_sort(x, 1, NT_DESCENDING))
OPERATION(top_k, nt_top_k(x, 2, NULL))
OPERATION(sum, nt_sum(x, 1))
OPERATION(prod, nt_prod(x, 1))
OPERATION(mean, nt_mean(x, 0))
OPERATION(reduce_max, nt_reduce_max(x, 1))
OPERATION(reduce_min, nt_reduce_min(x, 0))
OPERATION(variance, nt_variance(x, 1, 1))
OPERATION(deviation, nt_deviation(x, 0, 0))
OPERATION(logsumexp, nt_logsumexp(x, 1))
OPERATION(cumsum, nt_cumsum(x, 1, NT_FORWARD))
OPERATION(cumprod, nt_cumprod(x, 0, NT_BACKWARD))
OPERATION(cummax, nt_cummax(x, 1, NT_FORWARD))
OPERATION(cummin, nt_cummin(x, 0, NT_BACKWARD))
OPERATION(cumlogsumexp, nt_cumlogsumexp(x, 1, NT_FORWARD))
OPERATION(softmax_0, nt_softmax(x, 0))
OPERATION(log_softmax, nt_log_softmax(x))
OPERATION(softmax, nt_softmax(x))
OPERATION(matmul, nt_matmul(x, nt_transpose(x, 1, 0)))
OPERATION(outer, nt_outer(nt_reshape(HEAD, 4), nt_reshape(TAIL, 4)))
OPERATION(einsum, nt_einsum("ij,kj->ik", x, x))
OPERATION(norm, nt_norm(x, 1))
OPERATION(norm1, nt_norm1(nt_sub(x, 0.5), 1))
OPERATION(norm_max, nt_norm_max(x, 0))
OPERATION(conv, nt_conv2d(PICTURE, nt_reshape(HEAD, 2, 2, 1, 1), .same = true))
OPERATION(conv_strided, nt_conv2d(PICTURE, nt_reshape(HEAD, 2, 2, 1, 1), .stride = {2}, .dilation = {1, 2}))
OPERATION(conv_groups, nt_conv1d(nt_reshape(x, 1, 6, 2), nt_reshape(TAIL, 2, 1, 2), .groups = 2))
OPERATION(conv_transposed, nt_conv2d_transposed(PICTURE, nt_reshape(HEAD, 2, 2, 1, 1), .stride = {2}))
OPERATION(max_pool, nt_max_pool(PICTURE, nt_dims(1, 2)))
OPERATION(max_pool_overlapping, nt_max_pool(PICTURE, nt_dims(2, 2), .stride = {1}))
OPERATION(max_pool_padded, nt_max_pool(PICTURE, nt_dims(3, 3), .stride = {2}, .same = true))
OPERATION(max_pool_of_square, nt_max_pool(nt_square(PICTURE), nt_dims(2, 3), .stride = {1}, .pad = {{1, 0}, {0, 2}}))
OPERATION(avg_pool, nt_avg_pool(PICTURE, nt_dims(2, 2), .stride = {1}, .same = true))
OPERATION(cross_entropy, nt_cross_entropy(x, nt_iota(NT_I32, nt_dims(3), 0), .reduction = NT_NONE))

#define ROW(name) \
    { #name, op_##name }
static const struct row {
    const char *name;
    operation operation;
} rows[] = {
    ROW(add),
    ROW(sub),
    ROW(mul),
    ROW(div),
    ROW(pow),
    ROW(pow_number),
    ROW(max),
    ROW(min),
    ROW(neg),
    ROW(abs),
    ROW(square),
    ROW(rem),
    ROW(mod),
    ROW(clamp),
    ROW(exp),
    ROW(expm1),
    ROW(log),
    ROW(log1p),
    ROW(sqrt),
    ROW(rsqrt),
    ROW(cbrt),
    ROW(tanh),
    ROW(logistic),
    ROW(relu),
    ROW(exp2),
    ROW(log2),
    ROW(log10),
    ROW(sin),
    ROW(cos),
    ROW(tan),
    ROW(asin),
    ROW(acos),
    ROW(atan),
    ROW(atan2),
    ROW(sinh),
    ROW(cosh),
    ROW(asinh),
    ROW(acosh),
    ROW(atanh),
    ROW(erf),
    ROW(erfc),
    ROW(erf_inv),
    ROW(logaddexp),
    ROW(hypot),
    ROW(copysign),
    ROW(lgamma),
    ROW(digamma),
    ROW(polygamma),
    ROW(where),
    ROW(convert),
    ROW(reshape),
    ROW(transpose),
    ROW(broadcast),
    ROW(slice),
    ROW(update_slice),
    ROW(pad),
    ROW(pad_reflect),
    ROW(concatenate),
    ROW(flip),
    ROW(take),
    ROW(take_along),
    ROW(scatter_set),
    ROW(scatter_add),
    ROW(scatter_max),
    ROW(scatter_mul),
    ROW(scatter_min),
    ROW(dynamic_slice),
    ROW(dynamic_update),
    ROW(sort),
    ROW(top_k),
    ROW(sum),
    ROW(prod),
    ROW(mean),
    ROW(reduce_max),
    ROW(reduce_min),
    ROW(variance),
    ROW(deviation),
    ROW(logsumexp),
    ROW(cumsum),
    ROW(cumprod),
    ROW(cummax),
    ROW(cummin),
    ROW(cumlogsumexp),
    ROW(log_softmax),
    ROW(softmax),
    ROW(matmul),
    ROW(outer),
    ROW(einsum),
    ROW(norm),
    ROW(norm1),
    ROW(norm_max),
    ROW(conv),
    ROW(conv_strided),
    ROW(conv_groups),
    ROW(conv_transposed),
    ROW(max_pool),
    ROW(max_pool_overlapping),
    ROW(max_pool_padded),
    ROW(max_pool_of_square),
    ROW(softmax_0),
    ROW(avg_pool),
    ROW(cross_entropy),
};

/* ---- second derivatives ----------------------------------------------------------------------------------------- */

/* Numbers in the shape of x, no two alike. */
static nt_tensor weights(nt_tensor x, double step) {
    nt_shape shape = nt_shape_of(x);
    nt_tensor places = nt_iota(NT_F64, nt_dims(nt_shape_elements(shape)), 0);
    return nt_reshape_at(nt_sin(nt_mul(nt_add(places, 1), step)), shape, NT_SITE);
}

/* A weighted sum of y and its squares, so that a linear operation has a second derivative too. */
static nt_tensor scalar_of(nt_tensor y) {
    return nt_sum(nt_mul(weights(y, 1.3), nt_add(y, nt_square(y))));
}

static nt_tensor of_first_gradient(const nt_tensor *inputs, void *context) {
    operation apply = ((const struct row *)context)->operation;
    nt_tensor gradient = nt_grad(scalar_of(apply(inputs[0])), inputs[0]);
    return nt_sum(nt_mul(weights(gradient, 0.7), gradient));
}

static nt_array *numbers(void) {
    static const double values[] = {0.31, 0.82, 0.15, 0.64, 0.77, 0.23, 0.56, 0.43, 0.11, 0.69, 0.37, 0.88};
    nt_array *x = nt_array_new(NT_F64, nt_dims(3, 4));
    assert_non_null(x);
    for (int i = 0; i < 12; i++) nt_array_set(x, i, values[i]);
    return x;
}

static void each_operation_has_a_second_derivative(void **state) {
    (void)state;
    nt_array *x = numbers();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct row row = rows[i];
        if (nt_check_gradient(of_first_gradient, &row, &x, 1, NULL, .tolerance = 1e-5) != NT_OK)
            fail_msg("%s: %s", row.name, nt_error_message());
    }
    nt_array_free(x);
}

/* max_pool's second derivative goes where the first maximum is, also when elements are equal, infinite or nan. */
static nt_tensor pool_of_ties(const nt_tensor *inputs, void *context) {
    (void)context;
    nt_tensor x = nt_reshape(nt_stop_gradient(inputs[0]), 1, 12, 1), c = nt_reshape(inputs[1], 1, 6, 1);
    nt_tensor y =
        nt_max_pool(nt_add(x, nt_mul(nt_reshape(inputs[2], 1, 12, 1), 0)), nt_dims(3), .stride = {2}, .same = true);
    nt_tensor chosen = nt_grad(nt_sum(nt_mul(y, nt_square(c))), inputs[2]);
    return nt_sum(nt_mul(weights(chosen, 0.7), chosen));
}

static void ties_have_one_too(void **state) {
    (void)state;
    static const double ties[] = {1, 1, 2, 2, 2, -3, 0, 0, 0, 5, 5, 5};
    nt_array *inputs[] = {nt_array_new(NT_F64, nt_dims(12)), nt_array_new(NT_F64, nt_dims(6)),
                          nt_array_new(NT_F64, nt_dims(12))};
    for (int i = 0; i < 12; i++) nt_array_set(inputs[0], i, ties[i]);
    for (int i = 0; i < 6; i++) nt_array_set(inputs[1], i, 0.5 + i);
    if (nt_check_gradient(pool_of_ties, NULL, inputs, 3, NULL) != NT_OK) fail_msg("%s", nt_error_message());
    for (int i = 0; i < 3; i++) nt_array_free(inputs[i]);
}

/* ---- a gradient penalty ----------------------------------------------------------------------------------------- */

/* Of a network with two layers, with respect to its parameters. */
static nt_tensor penalty(const nt_tensor *inputs, void *context) {
    (void)context;
    nt_tensor x = inputs[0], first = inputs[1], second = inputs[2];
    nt_tensor score = nt_matmul(nt_tanh(nt_matmul(x, first)), second);
    nt_tensor slope = nt_grad(nt_sum(score), x);
    return nt_add(nt_mean(score), nt_mul(10, nt_mean(nt_square(nt_sub(nt_norm(slope, -1), 1)))));
}

static void a_gradient_penalty_is_differentiated(void **state) {
    (void)state;
    nt_array *inputs[] = {numbers(), nt_array_new(NT_F64, nt_dims(4, 5)), nt_array_new(NT_F64, nt_dims(5, 1))};
    for (int i = 0; i < 20; i++) nt_array_set(inputs[1], i, sin(1 + 2 * i));
    for (int i = 0; i < 5; i++) nt_array_set(inputs[2], i, cos(3 * i));
    if (nt_check_gradient(penalty, NULL, inputs, 3, NULL) != NT_OK) fail_msg("%s", nt_error_message());
    for (int i = 0; i < 3; i++) nt_array_free(inputs[i]);
}

/* d3/dx3 of x^5 is 60 x^2, and its gradient 120 x. */
static nt_tensor third(const nt_tensor *inputs, void *context) {
    (void)context;
    nt_tensor y = nt_sum(nt_pow(inputs[0], 5));
    for (int i = 0; i < 3; i++) y = nt_sum(nt_grad(y, inputs[0]));
    return y;
}

static void gradients_nest(void **state) {
    (void)state;
    nt_array *x = nt_array_new(NT_F64, nt_dims(1));
    nt_gradient_report report;
    nt_array_set(x, 0, 0.5);
    if (nt_check_gradient(third, NULL, &x, 1, &report) != NT_OK) fail_msg("%s", nt_error_message());
    assert_true(fabs(report.gradient - 60) < 1e-9);
    nt_array_free(x);
}

/* ---- wrong arguments -------------------------------------------------------------------------------------------- */

static void assert_refused(nt_tensor (*call)(nt_tensor x), const char *message) {
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    call(nt__input(0, 0, "x", (nt__type){NT_F32, nt_dims(3)}));
    assert_int_equal(nt__trace_status(graph), NT_INVALID);
    if (!strstr(nt_error_message(), message)) fail_msg("%s", nt_error_message());
    nt__trace_end(graph);
}

static nt_tensor of_a_vector(nt_tensor x) {
    return nt_grad(nt_square(x), x);
}
static nt_tensor by_integers(nt_tensor x) {
    return nt_grad(nt_sum(x), nt_convert(x, NT_I32));
}
static nt_tensor by_nothing(nt_tensor x) {
    return nt_grad(nt_sum(x), (nt_tensor){0});
}
static nt_tensor into_nothing(nt_tensor x) {
    nt_grads(nt_sum(x), &x, 1, NULL);
    return x;
}

static void wrong_arguments_are_named(void **state) {
    (void)state;
    assert_refused(of_a_vector, "in of_a_vector: grad: of f32[3]: only a floating scalar has a gradient; nt_sum");
    assert_refused(by_integers, "in by_integers: grad: needs a floating tensor, got i32[3]");
    assert_refused(by_nothing, "in by_nothing: grad: the tensor was never set");
    assert_refused(into_nothing, "in into_nothing: grad: gradients is NULL");
}

/* What y does not depend on has a gradient of zeros. */
static nt_tensor of_another(const nt_tensor *inputs, void *context) {
    (void)context;
    nt_tensor y = nt_sum(nt_square(inputs[0])), gradients[2];
    nt_grads(y, inputs, 2, gradients);
    return nt_add(nt_sum(nt_square(gradients[0])), nt_sum(gradients[1]));
}

static void what_is_not_reached_is_zero(void **state) {
    (void)state;
    nt_array *inputs[] = {numbers(), numbers()};
    if (nt_check_gradient(of_another, NULL, inputs, 2, NULL) != NT_OK) fail_msg("%s", nt_error_message());
    nt_array_free(inputs[0]);
    nt_array_free(inputs[1]);
}

static int close_engine(void **state) {
    (void)state;
    return nt__engine_close() == NT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operation_has_a_second_derivative),
        cmocka_unit_test(ties_have_one_too),
        cmocka_unit_test(a_gradient_penalty_is_differentiated),
        cmocka_unit_test(gradients_nest),
        cmocka_unit_test(wrong_arguments_are_named),
        cmocka_unit_test(what_is_not_reached_is_zero),
    };
    return cmocka_run_group_tests(tests, NULL, close_engine);
}
