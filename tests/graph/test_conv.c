/* Convolutions against the same ones said in another way, value and gradients: with the padding and the dilation of the
 * image written out as zeros in it, and with the channels first, which is always the engine's own convolution. In f32,
 * for which the engine has its fast kernels.
 * Trusted numbers are in test_golden_arrays.c, gradients against differences in test_gradients.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "nitro/gradient.h"
#include "nitro/ops.h"
#include "traced.h"

/* Images [samples, rows, columns, channels], kernels [rows, columns, in, out]. */
static const struct {
    nt_shape image, kernel;
    nt_conv_options options;
} rows[] = {
    /* kernels of one element */
    {{4, {2, 5, 7, 4}}, {4, {1, 1, 4, 6}}, {.stride = {2, 3}, .pad = {{1, 2}, {0, 3}}}},
    {{4, {2, 5, 7, 4}}, {4, {1, 1, 4, 3}}, {.stride = {1, 2}, .pad = {{-1, -2}, {-3, 1}}}},
    {{4, {2, 5, 7, 1}}, {4, {1, 1, 1, 1}}, {.stride = {20}}},
    {{4, {2, 5, 7, 4}}, {4, {1, 1, 2, 6}}, {.stride = {2}, .pad = {{-1, 2}, {2, -1}}, .groups = 2}},
    {{4, {2, 5, 7, 3}}, {4, {1, 1, 3, 2}}, {.input_dilation = {2, 3}, .pad = {{-3, 2}, {-1, 2}}}},
    /* images of one channel */
    {{4, {2, 7, 7, 1}}, {4, {3, 3, 1, 4}}, {.stride = {2}, .pad = {{2, 0}, {-1, 3}}}},
    {{4, {2, 3, 4, 1}}, {4, {0, 2, 1, 4}}, {.stride = {1}}},
    /* cut before and padded after */
    {{4, {2, 5, 7, 4}}, {4, {2, 2, 4, 6}}, {.pad = {{-1, 1}, {-2, 2}}}},
    {{4, {1, 5, 6, 2}}, {4, {2, 3, 2, 2}}, {.dilation = {2, 1}, .input_dilation = {2, 3}, .pad = {{-3, 2}, {-2, 1}}}},
    {{4, {1, 2, 5, 2}}, {4, {2, 2, 2, 2}}, {.input_dilation = {3}, .pad = {{-5, 6}, {1, 1}}}},
    /* padded further than the kernel reaches, so that the gradient cuts */
    {{4, {1, 4, 5, 3}}, {4, {2, 2, 3, 2}}, {.pad = {{3, 0}, {2, 0}}}},
};

enum { ROWS = sizeof rows / sizeof *rows, EACH = 3 };

/* Zeros between the elements of axis 1 and of axis 2. */
static nt_tensor spread(nt_tensor x, int64_t down, int64_t across) {
    nt_shape size = nt_shape_of(x);
    nt_tensor apart = nt_reshape(x, size.dims[0], size.dims[1], 1, size.dims[2], 1, size.dims[3]);
    apart = nt_pad(apart, nt_dims(0, 0, 0, 0, 0, 0), nt_dims(0, 0, down - 1, 0, across - 1, 0), 0);
    apart = nt_reshape(apart, size.dims[0], size.dims[1] * down, size.dims[2] * across, size.dims[3]);
    return nt_pad(apart, nt_dims(0, 0, 0, 0), nt_dims(0, 1 - down, 1 - across, 0), 0);
}

static nt_tensor written_out(nt_tensor x, nt_tensor kernel, nt_conv_options options) {
    const int64_t(*pad)[2] = (const int64_t(*)[2])options.pad, *step = options.input_dilation;
    if (step[0]) x = spread(x, step[0], step[1] ? step[1] : step[0]);
    x = nt_pad(x, nt_dims(0, pad[0][0], pad[1][0], 0), nt_dims(0, pad[0][1], pad[1][1], 0), 0);
    nt_tensor y = nt_conv2d(nt_transpose(x, 0, 3, 1, 2), nt_transpose(kernel, 3, 2, 0, 1), .channels_first = true,
                            .stride = {options.stride[0], options.stride[1]}, .groups = options.groups,
                            .dilation = {options.dilation[0], options.dilation[1]});
    return nt_transpose(y, 0, 2, 3, 1);
}

/* The value, then the gradients of a sum in which elements do not count alike. */
static void add_results(nt_tensor y, const nt_tensor *inputs, nt__result *results) {
    nt_tensor flat = nt_reshape(y, -1), i = nt_convert(nt_iota(NT_I32, nt_shape_of(flat), 0), NT_F32), gradients[2];
    nt_grads_at(nt_sum(nt_mul(flat, nt_add(1.5, nt_sin(i)))), inputs, 2, gradients, NT_SITE);
    results[0].value = y;
    results[1].value = gradients[0];
    results[2].value = gradients[1];
}

static nt_array *waves(nt_shape shape, double start) {
    nt_array *array = nt_array_new(NT_F32, shape);
    assert_non_null(array);
    for (int64_t i = 0; i < nt_shape_elements(shape); i++) nt_array_set(array, i, sin(start + 3 * (double)i));
    return array;
}

static void assert_equal(const nt_array *got, const nt_array *wanted, int row, int which) {
    assert_true(nt_shape_equal(got->shape, wanted->shape));
    for (int64_t i = 0; i < nt_shape_elements(got->shape); i++) {
        double a = nt_array_get(got, i), b = nt_array_get(wanted, i);
        if (!(fabs(a - b) < 1e-5 * fmax(1, fabs(b))))
            fail_msg("row %d, result %d, element %d: %.9g, written out %.9g", row, which, (int)i, a, b);
    }
}

static void each_is_what_it_is_written_out(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    nt__result results[ROWS * EACH * 2] = {{0}};
    nt_array *inputs[ROWS * 2], *out[ROWS * EACH * 2];
    for (int i = 0; i < ROWS; i++) {
        nt_shape image = rows[i].image, kernel = rows[i].kernel;
        nt_tensor x[] = {traced_input(2 * i, (nt__type){NT_F32, image}),
                         traced_input(2 * i + 1, (nt__type){NT_F32, kernel})};
        inputs[2 * i] = waves(image, 1);
        inputs[2 * i + 1] = waves(kernel, 2);
        add_results(nt_conv_at(x[0], x[1], 2, rows[i].options, NT_SITE), x, &results[2 * EACH * i]);
        add_results(written_out(x[0], x[1], rows[i].options), x, &results[2 * EACH * i + EACH]);
    }
    assert_ok(nt__trace_status(graph));
    traced program = traced_compile(traced_engine(), results, ROWS * EACH * 2);
    nt__trace_end(graph);
    traced_run(&program, inputs, out);
    for (int i = 0; i < ROWS * EACH; i++)
        assert_equal(out[i / EACH * 2 * EACH + i % EACH], out[i / EACH * 2 * EACH + EACH + i % EACH], i / EACH,
                     i % EACH);
    traced_free(&program);
    for (int i = 0; i < ROWS * EACH * 2; i++) nt_array_free(out[i]);
    for (int i = 0; i < ROWS * 2; i++) nt_array_free(inputs[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_is_what_it_is_written_out)};
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
