/* The operations in every element type, on numbers that all types hold: that the engine takes the text and gives the
 * value; constants with their extreme values; what becomes of nan.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "traced.h"

static const double not_a_number = (double)NAN;

/* ---- one program for all ---------------------------------------------------------------------------------------- */

enum { MAX_RESULTS = 1024, MAX_ELEMENTS = 6 };

static nt__result results[MAX_RESULTS];
static double expected[MAX_RESULTS][MAX_ELEMENTS];
static char names[MAX_RESULTS][48];
static size_t result_count;

static void expect_list(nt_tensor y, const char *what, const double *numbers, size_t count) {
    assert_true(result_count < MAX_RESULTS && count <= MAX_ELEMENTS);
    if (nt__trace_status(nt__trace_current()) != NT_OK) fail_msg("%s: %s", what, nt_error_message());
    snprintf(names[result_count], sizeof names[0], "%s", what);
    assert_int_equal(nt_shape_elements(nt_shape_of(y)), count);
    memcpy(expected[result_count], numbers, count * sizeof *numbers);
    results[result_count] = (nt__result){names[result_count], y, {0}};
    result_count++;
}

#define EXPECT(y, ...) expect_list(y, #y, (double[]){__VA_ARGS__}, sizeof(double[]){__VA_ARGS__} / sizeof(double))

static bool same(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

/* Runs what was expected since the last call. */
static void check(nt_array *const *arrays) {
    static nt_array *got[MAX_RESULTS];
    size_t wrong = 0;
    traced program = traced_compile(traced_engine(), results, result_count);
    traced_run(&program, arrays, got);
    for (size_t i = 0; i < result_count; i++) {
        char type[NT__TYPE_TEXT];
        nt__type_text((nt__type){got[i]->dtype, got[i]->shape}, type);
        for (int64_t j = 0; j < nt_shape_elements(got[i]->shape); j++) {
            double element = nt_array_get(got[i], j);
            if (same(element, expected[i][j])) continue;
            print_error("%s %s: [%d] is %.17g, expected %.17g\n", type, names[i], (int)j, element, expected[i][j]);
            wrong++;
        }
        nt_array_free(got[i]);
    }
    traced_free(&program);
    result_count = 0;
    assert_int_equal(wrong, 0);
}

static nt_array *array_of(nt_dtype dtype, const double *numbers, int64_t count) {
    nt_array *array = nt_array_new(dtype, nt_dims(count));
    assert_non_null(array);
    for (int64_t i = 0; i < count; i++) nt_array_set(array, i, numbers[i]);
    return array;
}

/* ---- arithmetic in every type ----------------------------------------------------------------------------------- */

static bool is_signed(nt_dtype dtype) {
    return nt_dtype_is_float(dtype) || dtype == NT_I8 || dtype == NT_I16 || dtype == NT_I32 || dtype == NT_I64;
}

static void expect_arithmetic(nt_dtype dtype, nt_tensor a, nt_tensor b) {
    EXPECT(nt_add(a, b), 9, 9, 2);
    EXPECT(nt_sub(a, b), 3, 5, 0);
    EXPECT(nt_mul(a, b), 18, 14, 1);
    EXPECT(nt_div(a, b), 2, nt_dtype_is_float(dtype) ? 3.5 : 3, 1);
    EXPECT(nt_pow(a, 2), 36, 49, 1);
    EXPECT(nt_max(a, 6), 6, 7, 6);
    EXPECT(nt_max(b, a), 6, 7, 1);
    EXPECT(nt_min(2, a), 2, 2, 1);
    EXPECT(nt_min(b, a), 3, 2, 1);
    EXPECT(nt_square(b), 9, 4, 1);
    EXPECT(nt_relu(a), 6, 7, 1);
    if (!is_signed(dtype)) return;
    EXPECT(nt_neg(a), -6, -7, -1);
    EXPECT(nt_abs(nt_sub(b, a)), 3, 5, 0);
    EXPECT(nt_sign(nt_sub(b, a)), -1, -1, 0);
    EXPECT(nt_relu(nt_sub(3, a)), 0, 0, 2);
}

static void expect_choice(nt_tensor a, nt_tensor b) {
    EXPECT(nt_equal(a, b), 0, 0, 1);
    EXPECT(nt_not_equal(a, 7), 1, 0, 1);
    EXPECT(nt_less(b, a), 1, 1, 0);
    EXPECT(nt_less_equal(a, b), 0, 0, 1);
    EXPECT(nt_greater(a, 6), 0, 1, 0);
    EXPECT(nt_greater_equal(a, 6), 1, 1, 0);
    EXPECT(nt_where(nt_greater(a, b), a, 0), 6, 7, 0);
}

static void expect_movement(nt_dtype dtype, nt_tensor a, nt_tensor b) {
    EXPECT(nt_full(dtype, nt_dims(2), 5), 5, 5);
    EXPECT(nt_iota(dtype, nt_dims(2, 3), -1), 0, 1, 2, 0, 1, 2);
    EXPECT(nt_transpose(nt_reshape(a, 3, -1), 1, 0), 6, 7, 1);
    EXPECT(nt_broadcast(a, nt_dims(2, 3)), 6, 7, 1, 6, 7, 1);
    EXPECT(nt_slice(a, nt_dims(1), nt_dims(3)), 7, 1);
    EXPECT(nt_update_slice(a, nt_slice(b, nt_dims(0), nt_dims(2)), nt_dims(1)), 6, 3, 2);
    EXPECT(nt_stop_gradient(a), 6, 7, 1);
    EXPECT(nt_reduce_max(a), 7);
    if (nt_dtype_is_float(dtype) || nt_dtype_size(dtype) >= 4) {
        EXPECT(nt_sum(a), 14);
        EXPECT(nt_matmul(a, b), 33);
    }
    for (nt_dtype to = 0; to < NT_DTYPE_COUNT; to++) {
        bool truth = to == NT_BOOL;
        EXPECT(nt_convert(a, to), truth ? 1 : 6, truth ? 1 : 7, 1);
    }
    if (nt_dtype_is_float(dtype)) EXPECT(nt_global_max_pool(nt_reshape(a, 1, 3, 1)), 7);
    if (!nt_dtype_is_float(dtype)) EXPECT(nt_one_hot(nt_sub(b, 1), 2, dtype), 0, 0, 0, 1, 1, 0);
}

static void every_type_computes(void **state) {
    (void)state;
    nt_array *arrays[2 * NT_DTYPE_COUNT];
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    for (nt_dtype dtype = 0; dtype < NT_BOOL; dtype++) {
        arrays[2 * dtype] = array_of(dtype, (double[]){6, 7, 1}, 3);
        arrays[2 * dtype + 1] = array_of(dtype, (double[]){3, 2, 1}, 3);
        nt_tensor a = traced_input(2 * (int)dtype, (nt__type){dtype, nt_dims(3)});
        nt_tensor b = traced_input(2 * (int)dtype + 1, (nt__type){dtype, nt_dims(3)});
        expect_arithmetic(dtype, a, b);
        expect_choice(a, b);
        expect_movement(dtype, a, b);
    }
    check(arrays);
    nt__trace_end(graph);
    for (size_t i = 0; i < 2 * NT_BOOL; i++) nt_array_free(arrays[i]);
}

static void bool_is_chosen_and_moved(void **state) {
    (void)state;
    nt_array *arrays[] = {array_of(NT_BOOL, (double[]){0, 1, 1}, 3), array_of(NT_BOOL, (double[]){0, 0, 1}, 3)};
    nt__graph *graph = nt__trace_begin();
    nt_tensor a = traced_input(0, (nt__type){NT_BOOL, nt_dims(3)}),
              b = traced_input(1, (nt__type){NT_BOOL, nt_dims(3)});
    EXPECT(nt_equal(a, b), 1, 0, 1);
    EXPECT(nt_less(b, a), 0, 1, 0);
    EXPECT(nt_where(a, b, 1), 1, 0, 1);
    EXPECT(nt_full(NT_BOOL, nt_dims(1, 2), 1), 1, 1);
    EXPECT(nt_broadcast(nt_reshape(a, 3, 1), nt_dims(3, 2)), 0, 0, 1, 1, 1, 1);
    EXPECT(nt_sum(nt_convert(a, NT_I32)), 2);
    check(arrays);
    nt__trace_end(graph);
    for (size_t i = 0; i < 2; i++) nt_array_free(arrays[i]);
}

/* ---- constants -------------------------------------------------------------------------------------------------- */

/* Compared as bytes: a double does not hold all 64-bit integers. */
static void constants_arrive_bit_for_bit(void **state) {
    (void)state;
    const double extremes[] = {-HUGE_VAL, HUGE_VAL, 0, -0.0, not_a_number, 1};
    nt_array *constants[NT_DTYPE_COUNT], *got[NT_DTYPE_COUNT];
    nt__result all[NT_DTYPE_COUNT];
    nt__graph *graph = nt__trace_begin();
    for (nt_dtype dtype = 0; dtype < NT_DTYPE_COUNT; dtype++) {
        constants[dtype] = array_of(dtype, extremes, 6);
        constants[dtype]->shape = nt_dims(3, 1, 2);
        all[dtype] = (nt__result){"constant", nt_constant(constants[dtype]), {0}};
    }
    traced program = traced_compile(traced_engine(), all, NT_DTYPE_COUNT);
    nt__trace_end(graph);
    traced_run(&program, constants, got);
    for (nt_dtype dtype = 0; dtype < NT_DTYPE_COUNT; dtype++) {
        assert_true(nt_shape_equal(got[dtype]->shape, nt_dims(3, 1, 2)));
        assert_memory_equal(got[dtype]->data, constants[dtype]->data, constants[dtype]->bytes);
        nt_array_free(got[dtype]);
        nt_array_free(constants[dtype]);
    }
    traced_free(&program);
}

/* ---- labels ----------------------------------------------------------------------------------------------------- */

/* A label that is no class must not become one by wrapping around: 2^32 + 1 is not 1, and 257 is not 1 of 8 bits. */
static void labels_do_not_wrap(void **state) {
    (void)state;
    const int64_t wide[] = {INT64_C(4294967297), 1, -1};
    const uint64_t huge[] = {UINT64_MAX, 0, UINT64_C(1) << 32};
    const uint32_t large[] = {UINT32_MAX, UINT32_C(1) << 31, 1};
    nt_array *arrays[] = {nt_array_from(NT_I64, nt_dims(3), wide), nt_array_from(NT_U64, nt_dims(3), huge),
                          nt_array_from(NT_U32, nt_dims(3), large), array_of(NT_U8, (double[]){1, 255, 0}, 3)};
    nt__graph *graph = nt__trace_begin();
    nt_tensor labels[4];
    for (int i = 0; i < 4; i++) labels[i] = traced_input(i, (nt__type){arrays[i]->dtype, nt_dims(3)});
    EXPECT(nt_one_hot(labels[0], 2, NT_F32), 0, 0, 0, 1, 0, 0);
    EXPECT(nt_one_hot(labels[1], 2, NT_F32), 0, 0, 1, 0, 0, 0);
    EXPECT(nt_one_hot(labels[2], 2, NT_F32), 0, 0, 0, 0, 0, 1);
    EXPECT(nt_sum(nt_one_hot(labels[3], 300, NT_I32), -1), 1, 1, 1);
    check(arrays);
    nt__trace_end(graph);
    for (size_t i = 0; i < 4; i++) nt_array_free(arrays[i]);
}

/* ---- nan -------------------------------------------------------------------------------------------------------- */

static void nan_is_not_lost(void **state) {
    (void)state;
    const nt_dtype floating[] = {NT_F32, NT_F64, NT_BF16, NT_F16};
    nt_array *arrays[8];
    nt__graph *graph = nt__trace_begin();
    for (int i = 0; i < 4; i++) {
        arrays[2 * i] = array_of(floating[i], (double[]){not_a_number, 1, 2}, 3);
        arrays[2 * i + 1] = array_of(floating[i], (double[]){1, not_a_number, 3}, 3);
        nt_tensor a = traced_input(2 * i, (nt__type){floating[i], nt_dims(3)});
        nt_tensor b = traced_input(2 * i + 1, (nt__type){floating[i], nt_dims(3)});
        EXPECT(nt_max(a, b), not_a_number, not_a_number, 3);
        EXPECT(nt_min(a, b), not_a_number, not_a_number, 2);
        EXPECT(nt_max(a, 0), not_a_number, 1, 2);
        EXPECT(nt_max(0, a), not_a_number, 1, 2);
        EXPECT(nt_min(0, a), not_a_number, 0, 0);
        EXPECT(nt_max(a, not_a_number), not_a_number, not_a_number, not_a_number);
        EXPECT(nt_max(nt_full(floating[i], nt_dims(1), not_a_number), b), not_a_number, not_a_number, not_a_number);
        EXPECT(nt_min(b, nt_full(floating[i], nt_dims(1), not_a_number)), not_a_number, not_a_number, not_a_number);
        EXPECT(nt_max(a, nt_constant(arrays[2 * i + 1])), not_a_number, not_a_number, 3);
        EXPECT(nt_max(nt_constant(arrays[2 * i + 1]), a), not_a_number, not_a_number, 3);
        EXPECT(nt_relu(a), not_a_number, 1, 2);
        EXPECT(nt_sign(a), not_a_number, 1, 1);
        EXPECT(nt_reduce_max(a), not_a_number);
        EXPECT(nt_reduce_max(b), not_a_number);
        EXPECT(nt_reduce_max(nt_reshape(b, 3, 1), 1), 1, not_a_number, 3);
        EXPECT(nt_softmax(a), not_a_number, not_a_number, not_a_number);
        EXPECT(nt_log_softmax(b), not_a_number, not_a_number, not_a_number);
        EXPECT(nt_equal(a, a), 0, 1, 1);
    }
    EXPECT(nt_max(2, 3), 3);
    EXPECT(nt_max(2, not_a_number), not_a_number);
    EXPECT(nt_max(not_a_number, 2), not_a_number);
    check(arrays);
    nt__trace_end(graph);
    for (size_t i = 0; i < 8; i++) nt_array_free(arrays[i]);
}

/* ---- ends of the number line ------------------------------------------------------------------------------------ */

/* Operations of several lines, where one of the lines alone would overflow or lose a nan or a sign. */
static void extremes_come_out_right(void **state) {
    (void)state;
    const nt_dtype floating[] = {NT_F32, NT_F64, NT_BF16, NT_F16};
    const double inf = HUGE_VAL, nan = not_a_number;
    nt_array *arrays[8];
    nt__graph *graph = nt__trace_begin();
    for (int i = 0; i < 4; i++) {
        arrays[2 * i] = array_of(floating[i], (double[]){-0.0, 0, -inf, nan, 3, -nan}, 6);
        arrays[2 * i + 1] = array_of(floating[i], (double[]){24576, -inf, 0, 4, -24576, nan}, 6);
        nt_tensor a = traced_input(2 * i, (nt__type){floating[i], nt_dims(6)});
        nt_tensor b = traced_input(2 * i + 1, (nt__type){floating[i], nt_dims(6)}), indices;
        EXPECT(nt_top_k(a, 6, &indices), nan, nan, 3, 0, 0, -inf);
        EXPECT(indices, 3, 5, 4, 0, 1, 2);
        EXPECT(nt_sort(a, 0, NT_DESCENDING), nan, nan, 3, 0, 0, -inf);
        EXPECT(nt_cummax(a, 0, NT_FORWARD), 0, 0, 0, nan, nan, nan);
        EXPECT(nt_cummin(b, 0, NT_BACKWARD), nan, nan, nan, nan, nan, nan);
        EXPECT(nt_cummin(b, 0, NT_FORWARD), 24576, -inf, -inf, -inf, -inf, nan);
        EXPECT(nt_cumlogsumexp(nt_slice(a, nt_dims(2), nt_dims(4)), 0, NT_FORWARD), -inf, nan);
        EXPECT(nt_cumlogsumexp(nt_full(floating[i], nt_dims(3), -inf), 0, NT_FORWARD), -inf, -inf, -inf);
        EXPECT(nt_hypot(nt_slice(a, nt_dims(0), nt_dims(3)), 0), 0, 0, inf);
        EXPECT(nt_hypot(nt_mul(b, 0.75), b), 30720, inf, 0, 5, 30720, nan);
        EXPECT(nt_copysign(2, a), -2, 2, -2, 2, 2, -2);
        EXPECT(nt_round_half_away(nt_full(floating[i], nt_dims(1), -2.5)), -3);
    }
    check(arrays);
    nt__trace_end(graph);
    for (size_t i = 0; i < 8; i++) nt_array_free(arrays[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_computes),
        cmocka_unit_test(bool_is_chosen_and_moved),
        cmocka_unit_test(constants_arrive_bit_for_bit),
        cmocka_unit_test(labels_do_not_wrap),
        cmocka_unit_test(nan_is_not_lost),
        cmocka_unit_test(extremes_come_out_right),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
