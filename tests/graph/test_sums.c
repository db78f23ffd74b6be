/* How exact sums, means and what is made of them are: of many elements, and of elements of 16 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "graph/emit.h"
#include "nitro/gradient.h"
#include "traced.h"

/* ---- many elements ---------------------------------------------------------------------------------------------- */

static const struct {
    nt_shape shape, axes; /* no axes: all */
} many[] = {
    {{2, {4096, 4096}}, {0}},
    {{3, {32, 256, 64}}, {0}},
    {{3, {32, 256, 64}}, {2, {0, 1}}},
    {{4, {64, 14, 14, 64}}, {3, {0, 1, 2}}},
    {{4, {8, 4, 128, 128}}, {3, {0, 2, NT_KEEP}}},
    {{2, {1, 1 << 20}}, {0}},
};

/* The same element all over is what adds up the most errors. */
static void a_mean_of_equal_elements_is_that_element(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        nt_array *x = nt_array_new(NT_F32, many[i].shape), *got[2] = {NULL};
        assert_non_null(x);
        for (int64_t k = 0; k < nt_shape_elements(x->shape); k++) ((float *)x->data)[k] = 0.1F;
        nt__graph *graph = nt__trace_begin();
        nt_tensor in = traced_input(0, nt__array_type(x)), gradient;
        nt_tensor mean = nt_mean_at(in, many[i].axes, NT_SITE);
        nt_grads_at(nt_sum(mean), &in, 1, &gradient, NT_SITE);
        nt_tensor first = nt_reshape(nt_slice(nt_reshape(gradient, -1), nt_dims(0), nt_dims(1)), 1);
        nt__result results[] = {{"mean", mean, {0}}, {"gradient", first, {0}}};
        traced program = traced_compile(traced_engine(), results, 2);
        nt__trace_end(graph);
        traced_run(&program, &x, got);
        traced_free(&program);
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): traced_run has filled it */
        double means = (double)nt_shape_elements(got[0]->shape), each = means / (double)nt_shape_elements(x->shape);
        for (int64_t k = 0; k < nt_shape_elements(got[0]->shape); k++)
            if (!(fabs(nt_array_get(got[0], k) / 0.1 - 1) <= 1e-6))
                fail_msg("row %d: the mean is %.9g", (int)i, nt_array_get(got[0], k));
        assert_true(fabs(nt_array_get(got[1], 0) / each - 1) < 1e-6);
        for (int k = 0; k < 2; k++) nt_array_free(got[k]);
        nt_array_free(x);
    }
}

/* ---- 16 bits ---------------------------------------------------------------------------------------------------- */

/* Each is computed of the same elements in f64 too, rounded once at the end. */
#define EACH_NARROW(ROW)                                                                   \
    ROW(softmax, nt_softmax(X))                                                            \
    ROW(softmax_of_axes, nt_softmax(nt_reshape(X, 8, 25), 0, 1))                           \
    ROW(log_softmax, nt_log_softmax(X))                                                    \
    ROW(logsumexp, nt_logsumexp(nt_reshape(X, 8, 25), 1))                                  \
    ROW(sum, nt_sum(X))                                                                    \
    ROW(mean, nt_mean(X))                                                                  \
    ROW(variance, nt_variance(X, 1))                                                       \
    ROW(deviation, nt_deviation(X, 0))                                                     \
    ROW(prod, nt_prod(NEAR))                                                               \
    ROW(norm, nt_norm(X))                                                                  \
    ROW(norm1, nt_norm1(X))                                                                \
    ROW(cumsum, nt_cumsum(X, 0, NT_FORWARD))                                               \
    ROW(cumprod, nt_cumprod(NEAR, 0, NT_BACKWARD))                                         \
    ROW(cumlogsumexp, nt_cumlogsumexp(X, 0, NT_FORWARD))                                   \
    ROW(scatter_add, nt_scatter_add(nt_full(nt_dtype_of(X), nt_dims(2), 0), PLACES, X, 0)) \
    ROW(embedding, of_embedding(X))                                                        \
    ROW(matmul, nt_matmul(X, X))

#define X x
#define NEAR near_one /* numbers around 1, whose products stay there */
#define PLACES nt_full(NT_I32, nt_dims(ELEMENTS), 1)
enum { ELEMENTS = 200 };

/* The gradient of a table of which one row is read many times. */
static nt_tensor of_embedding(nt_tensor x) {
    nt_tensor table = nt_slice(x, nt_dims(0), nt_dims(2)), gradient;
    nt_grads_at(nt_sum(nt_mul(nt_take(table, PLACES, 0), nt_stop_gradient(nt_abs(x)))), &table, 1, &gradient, NT_SITE);
    return gradient;
}

#define BUILD(name, value)                                           \
    static nt_tensor build_##name(nt_tensor x, nt_tensor near_one) { \
        (void)x, (void)near_one;                                     \
        return value;                                                \
    }
EACH_NARROW(BUILD)

#define ROW(name, value) {#name, build_##name},
static const struct {
    const char *name;
    nt_tensor (*build)(nt_tensor x, nt_tensor near_one);
} rows[] = {EACH_NARROW(ROW)};
enum { ROWS = sizeof rows / sizeof *rows };

static void narrow_elements_are_rounded_once(void **state) {
    (void)state;
    const nt_dtype narrow[] = {NT_BF16, NT_F16};
    const double step[] = {0x1p-8, 0x1p-11}; /* half a step of the type, of its size */
    for (int t = 0; t < 2; t++) {
        nt_array *in[2], *got[2 * ROWS];
        nt_tensor x[2], wide[2];
        for (int k = 0; k < 2; k++) {
            in[k] = nt_array_new(narrow[t], nt_dims(ELEMENTS));
            for (int i = 0; i < ELEMENTS; i++) {
                double number = (double)(i * 37 % ELEMENTS) / 32 - 3;
                nt_array_set(in[k], i, k ? 1 + number / 64 : number);
            }
        }
        nt__graph *graph = nt__trace_begin();
        for (int k = 0; k < 2; k++) {
            x[k] = traced_input(k, nt__array_type(in[k]));
            wide[k] = nt_convert(x[k], NT_F64);
        }
        nt__result results[2 * ROWS];
        for (int i = 0; i < ROWS; i++) {
            results[2 * i] = (nt__result){rows[i].name, rows[i].build(x[0], x[1]), {0}};
            results[2 * i + 1] = (nt__result){rows[i].name, rows[i].build(wide[0], wide[1]), {0}};
        }
        assert_ok(nt__trace_status(graph));
        traced program = traced_compile(traced_engine(), results, 2 * ROWS);
        nt__trace_end(graph);
        traced_run(&program, in, got);
        traced_free(&program);
        for (int i = 0; i < ROWS; i++) {
            assert_int_equal(got[2 * i]->dtype, narrow[t]);
            for (int64_t k = 0; k < nt_shape_elements(got[2 * i]->shape); k++) {
                double is = nt_array_get(got[2 * i], k), right = nt_array_get(got[2 * i + 1], k);
                bool vanishes = fabs(right) < 1e-4; /* f16 has fewer digits there */
                if (!(fabs(is - right) <= 1.1 * step[t] * fabs(right) || (vanishes && fabs(is - right) < 1e-7)))
                    fail_msg("%s of %s, element %d: %.9g, right is %.9g", rows[i].name, nt_dtype_name(narrow[t]),
                             (int)k, is, right);
            }
        }
        for (int i = 0; i < 2 * ROWS; i++) nt_array_free(got[i]);
        for (int k = 0; k < 2; k++) nt_array_free(in[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mean_of_equal_elements_is_that_element),
        cmocka_unit_test(narrow_elements_are_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
