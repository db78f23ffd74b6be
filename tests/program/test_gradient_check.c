/* The public check of gradients: that it passes right ones at inputs that hurt, and finds wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "nitro/check.h"
#include "nitro/ops.h"
#include "xla/xla.h"

static nt_array *array(nt_dtype dtype, nt_shape shape, const double *values) {
    nt_array *made = nt_array_new(dtype, shape);
    assert_non_null(made);
    if (!values) return made;
    int64_t elements = nt_shape_elements(shape);
    for (int64_t i = 0; i < elements; i++) nt_array_set(made, i, values[i]);
    return made;
}

static nt_status check_one(nt_checked_function function, nt_dtype dtype, nt_shape shape, const double *values,
                           nt_gradient_report *report) {
    nt_array *x = array(dtype, shape, values);
    nt_status status = nt_check_gradient(function, NULL, &x, 1, report);
    nt_array_free(x);
    return status;
}

/* Many operations at once: a compile is what costs. Axes: [3, 1, 4]. */
static nt_tensor everything(const nt_tensor *inputs, void *context) {
    (void)context;
    nt_tensor x = inputs[0], rows = nt_reshape(x, 3, 4), sum = nt_norm(nt_matmul(rows, nt_transpose(rows, 1, 0)));
    sum = nt_add(sum, nt_sum(nt_max(x, 0.5)));
    sum = nt_add(sum, nt_sum(nt_relu(x)));
    sum = nt_add(sum, nt_sum(nt_abs(x)));
    sum = nt_add(sum, nt_sum(nt_square(nt_reduce_max(rows, -1))));
    sum = nt_add(sum, nt_norm_max(nt_einsum("ij,kj->ki", rows, rows), 0, 1));
    nt_tensor picture = nt_reshape(x, 1, 3, 4, 1);
    sum = nt_add(sum, nt_sum(nt_max_pool(picture, nt_dims(2, 2), .stride = {1})));
    sum = nt_add(sum, nt_sum(nt_max_pool(picture, nt_dims(1, 2))));
    sum = nt_add(sum, nt_sum(nt_square(nt_avg_pool(picture, nt_dims(3, 3), .stride = {1}, .same = true))));
    nt_tensor kernel = nt_reshape(nt_slice(rows, nt_dims(0, 0), nt_dims(2, 2)), 2, 2, 1, 1);
    return nt_add(sum, nt_sum(nt_square(nt_conv2d(picture, kernel, .same = true))));
}

static void right_gradients_pass(void **state) {
    (void)state;
    nt_gradient_report report;
    static const double ties[] = {0.5, 0.5, 2, 2, -1, -1, 0, 0, 0.5, 3, 3, -1};
    if (check_one(everything, NT_F64, nt_dims(3, 1, 4), ties, &report) != NT_OK) fail_msg("%s", nt_error_message());
    assert_true(report.error <= 1e-6);
    assert_true(report.element >= 0);
    static const double large[] = {1e4, 2e4, -3e4, 1e4, 5e4, 2e4, 3e4, 1e4, 2e4, -1e4, 1e4, 6e4};
    if (check_one(everything, NT_F32, nt_dims(3, 1, 4), large, &report) != NT_OK) fail_msg("%s", nt_error_message());
}

static nt_tensor of_nothing(const nt_tensor *inputs, void *context) {
    (void)context;
    nt_tensor x = inputs[0];
    nt_tensor pooled = nt_sum(nt_max_pool(nt_reshape(x, 0, 3, 1), nt_dims(2), .stride = {1}));
    nt_tensor ones = nt_full(NT_F64, nt_dims(2, 1, 2), 1), number = nt_norm(x);
    return nt_add(number, nt_add(pooled, nt_sum(nt_conv1d(nt_reshape(x, 0, 3, 1), ones))));
}

static void nothing_has_no_element(void **state) {
    (void)state;
    nt_gradient_report report;
    assert_int_equal(check_one(of_nothing, NT_F64, nt_dims(0, 3), NULL, &report), NT_OK);
    assert_int_equal(report.element, -1);
    assert_true(report.error == 0);
}

/* The derivative is 2 x, and this says 0 for half of it. */
static nt_tensor wrong(const nt_tensor *inputs, void *context) {
    *(int *)context += 1;
    return nt_sum(nt_mul(nt_mul(inputs[0], nt_stop_gradient(inputs[0])), nt_convert(inputs[1], NT_F64)));
}

static void a_wrong_gradient_is_shown(void **state) {
    (void)state;
    int traced = 0;
    nt_gradient_report report;
    nt_array *inputs[] = {array(NT_F64, nt_dims(3), (double[]){0.125, -3, 1}),
                          array(NT_I32, nt_dims(3), (double[]){1, 1, 0})};
    assert_int_equal(nt_check_gradient(wrong, &traced, inputs, 2, &report), NT_INVALID);
    assert_int_equal(traced, 1);
    assert_int_equal(report.input, 0);
    assert_int_equal(report.element, 1);
    assert_true(report.gradient == -3);
    assert_true(fabs(report.difference + 6) < 1e-6);
    assert_true(fabs(report.error - 0.5) < 1e-6);
    const char *start = "gradient check: element 1 of input 0, which is -3: the gradient is -3 and the central ";
    assert_memory_equal(nt_error_message(), start, strlen(start));
    assert_int_equal(nt_check_gradient(wrong, &traced, inputs, 2, NULL, .tolerance = 0.6), NT_OK);
    nt_array_free(inputs[0]);
    nt_array_free(inputs[1]);
}

static nt_tensor root(const nt_tensor *inputs, void *context) {
    (void)context;
    return nt_sqrt(nt_sum(nt_square(inputs[0])));
}

static nt_tensor no_scalar(const nt_tensor *inputs, void *context) {
    (void)context;
    return inputs[0];
}

static void what_cannot_be_compared(void **state) {
    (void)state;
    nt_gradient_report report;
    assert_int_equal(check_one(root, NT_F64, nt_dims(1), (double[]){0}, &report), NT_INVALID);
    assert_true(isnan(report.gradient) && isinf(report.error));
    assert_int_equal(check_one(no_scalar, NT_F64, nt_dims(1), (double[]){0}, &report), NT_INVALID);
    assert_string_equal(nt_error_message(), "loss: must be a floating scalar, got f64[1]; nt_mean or nt_sum makes one");
    nt_array *nothing = NULL;
    assert_int_equal(nt_check_gradient(root, NULL, &nothing, 1, NULL), NT_INVALID);
    assert_int_equal(nt_check_gradient(NULL, NULL, &nothing, 1, NULL), NT_INVALID);
    assert_int_equal(nt_check_gradient(root, NULL, NULL, 1, NULL), NT_INVALID);
    assert_int_equal(nt_check_gradient(root, NULL, &nothing, 1, NULL, .step = -1), NT_INVALID);
}

static int close_engine(void **state) {
    (void)state;
    return nt__engine_close() == NT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_gradients_pass),
        cmocka_unit_test(nothing_has_no_element),
        cmocka_unit_test(a_wrong_gradient_is_shown),
        cmocka_unit_test(what_cannot_be_compared),
    };
    return cmocka_run_group_tests(tests, NULL, close_engine);
}
