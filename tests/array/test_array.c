/* src/array: the table of element types, shapes, conversion of single elements, arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "array/array.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

/* As doubles: the standard names are floats. */
#define INF HUGE_VAL
#define NOT_A_NUMBER ((double)NAN)

/* ---- the table -------------------------------------------------------------------------------------------------- */

static void every_type_has_its_row(void **state) {
    (void)state;
    static const struct {
        nt_dtype dtype;
        const char *name;
        size_t size;
        bool is_float;
    } rows[] = {
        {NT_F32, "f32", 4, true},    {NT_F64, "f64", 8, true},  {NT_BF16, "bf16", 2, true}, {NT_F16, "f16", 2, true},
        {NT_I8, "i8", 1, false},     {NT_I16, "i16", 2, false}, {NT_I32, "i32", 4, false},  {NT_I64, "i64", 8, false},
        {NT_U8, "u8", 1, false},     {NT_U16, "u16", 2, false}, {NT_U32, "u32", 4, false},  {NT_U64, "u64", 8, false},
        {NT_BOOL, "bool", 1, false},
    };
    assert_int_equal(sizeof rows / sizeof *rows, NT_DTYPE_COUNT);
    for (size_t i = 0; i < NT_DTYPE_COUNT; i++) {
        assert_string_equal(nt_dtype_name(rows[i].dtype), rows[i].name);
        assert_int_equal(nt_dtype_size(rows[i].dtype), rows[i].size);
        assert_int_equal(nt_dtype_is_float(rows[i].dtype), rows[i].is_float);
    }
}

static void a_type_out_of_range_is_none(void **state) {
    (void)state;
    const nt_dtype wrong[] = {NT_DTYPE_COUNT, (nt_dtype)-1, (nt_dtype)1000};
    for (int i = 0; i < 3; i++) {
        assert_string_equal(nt_dtype_name(wrong[i]), "unknown type");
        assert_int_equal(nt_dtype_size(wrong[i]), 0);
        assert_false(nt_dtype_is_float(wrong[i]));
        assert_null(nt_array_new(wrong[i], nt_dims(2)));
        assert_non_null(strstr(nt_error_message(), "unknown type[2]"));
    }
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static const nt_shape scalar = {0};

static void shapes_are_equal_by_rank_and_sizes(void **state) {
    (void)state;
    nt_shape with_rest = nt_dims(2, 3);
    with_rest.dims[5] = 99; /* beyond the rank, so of no meaning */
    assert_true(nt_shape_equal(nt_dims(2, 3), with_rest));
    assert_true(nt_shape_equal(scalar, scalar));
    assert_false(nt_shape_equal(nt_dims(2, 3), nt_dims(3, 2)));
    assert_false(nt_shape_equal(nt_dims(2, 3), nt_dims(2, 3, 1)));
    assert_false(nt_shape_equal(nt_dims(1), scalar));
    nt_shape invalid = {.rank = NT_MAX_RANK + 1};
    assert_false(nt_shape_equal(invalid, invalid));
}

static void elements_are_counted_without_overflow(void **state) {
    (void)state;
    const int64_t half = INT64_C(1) << 31;
    assert_int_equal(nt_shape_elements(scalar), 1);
    assert_int_equal(nt_shape_elements(nt_dims(128, 784)), 128 * 784);
    assert_int_equal(nt_shape_elements(nt_dims(1, 2, 3, 4, 5, 6, 7, 8)), 40320);
    assert_int_equal(nt_shape_elements(nt_dims(3, 0, 2)), 0);
    assert_true(nt_shape_elements(nt_dims((INT64_C(1) << 62) - 1)) == (INT64_C(1) << 62) - 1);
    assert_int_equal(nt_shape_elements(nt_dims(half, half)), -1);          /* 2^62 */
    assert_int_equal(nt_shape_elements(nt_dims(half, half, half, 4)), -1); /* wraps in 64 bits */
    assert_int_equal(nt_shape_elements(nt_dims(0, half, half)), -1);       /* so would a product of the others */
    assert_int_equal(nt_shape_elements(nt_dims(-1, 2)), -1);
    assert_int_equal(nt_shape_elements(nt_dims(0, -2)), -1);
    assert_int_equal(nt_shape_elements((nt_shape){.rank = -1}), -1);
    assert_int_equal(nt_shape_elements((nt_shape){.rank = NT_MAX_RANK + 1}), -1);
}

static void types_have_text(void **state) {
    (void)state;
    char text[NT__TYPE_TEXT];
    assert_string_equal(nt__type_text((nt__type){NT_F32, nt_dims(128, 784)}, text), "f32[128,784]");
    assert_string_equal(nt__type_text((nt__type){NT_BOOL, scalar}, text), "bool[]");
    assert_string_equal(nt__shape_text(nt_dims(7), text), "[7]");
    assert_string_equal(nt__shape_text((nt_shape){.rank = 9}, text), "[rank 9]");
    assert_string_equal(nt__shape_text((nt_shape){.rank = -1}, text), "[rank -1]");
    nt__type longest = {NT_BF16, {.rank = NT_MAX_RANK}};
    for (int i = 0; i < NT_MAX_RANK; i++) longest.shape.dims[i] = INT64_MIN;
    const char *end = nt__type_text(longest, text) + strlen(text) - 22;
    assert_string_equal(end, ",-9223372036854775808]");
}

static void types_have_bytes(void **state) {
    (void)state;
    size_t bytes = 0;
    assert_true(nt__type_bytes((nt__type){NT_F64, nt_dims(3, 5)}, &bytes));
    assert_int_equal(bytes, 120);
    assert_true(nt__type_bytes((nt__type){NT_BF16, scalar}, &bytes));
    assert_int_equal(bytes, 2);
    assert_true(nt__type_bytes((nt__type){NT_U8, nt_dims(INT64_C(1) << 61)}, &bytes));
    assert_true(bytes == (size_t)1 << 61);
    assert_false(nt__type_bytes((nt__type){NT_F32, nt_dims(INT64_C(1) << 61)}, &bytes)); /* 2^63 */
    assert_false(nt__type_bytes((nt__type){NT_F64, nt_dims(INT64_C(1) << 61)}, &bytes)); /* wraps to 0 */
    assert_false(nt__type_bytes((nt__type){NT_F32, nt_dims(-1)}, &bytes));
    assert_false(nt__type_bytes((nt__type){NT_DTYPE_COUNT, nt_dims(1)}, &bytes));
}

static void types_are_equal_by_both_parts(void **state) {
    (void)state;
    nt__type type = {NT_F32, nt_dims(2)};
    assert_true(nt__type_equal(type, type));
    assert_false(nt__type_equal(type, (nt__type){NT_F64, nt_dims(2)}));
    assert_false(nt__type_equal(type, (nt__type){NT_F32, nt_dims(3)}));
}

/* ---- single elements -------------------------------------------------------------------------------------------- */

/* Through an address that suits no type. */
static double through(nt_dtype dtype, double value) {
    char memory[16];
    memset(memory, 0x55, sizeof memory);
    nt__element_set(dtype, memory + 1, value);
    assert_int_equal(memory[0], 0x55);
    assert_int_equal(memory[1 + nt_dtype_size(dtype)], 0x55);
    return nt__element_get(dtype, memory + 1);
}

static bool same(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

static void values_come_back(void **state) {
    (void)state;
    static const struct {
        nt_dtype dtype;
        double in, out;
    } rows[] = {
        {NT_F64, 0.1, 0.1},
        {NT_F64, -0.0, -0.0},
        {NT_F64, 1e300, 1e300},
        {NT_F64, INF, INF},
        {NT_F64, NOT_A_NUMBER, NOT_A_NUMBER},
        {NT_F32, 0.1, (double)0.1f},
        {NT_F32, -1e300, -INF},
        {NT_F32, 1e-45, 1.401298464324817e-45},
        {NT_F32, NOT_A_NUMBER, NOT_A_NUMBER},
        {NT_I8, 127, 127},
        {NT_I8, -128.9, -128},
        {NT_I8, 200, 127},
        {NT_I8, -200, -128},
        {NT_I8, NOT_A_NUMBER, 0},
        {NT_I8, -2.9, -2},
        {NT_I16, 32767.5, 32767},
        {NT_I16, -1e9, -32768},
        {NT_I32, 2147483647, 2147483647},
        {NT_I32, 1e10, 2147483647},
        {NT_I32, -INF, -2147483648.0},
        {NT_I64, -9007199254740993.0, -9007199254740992.0},
        {NT_I64, 1e30, 9223372036854775808.0}, /* 2^63 - 1, as a double */
        {NT_I64, -1e30, -9223372036854775808.0},
        {NT_I64, NOT_A_NUMBER, 0},
        {NT_U8, 255, 255},
        {NT_U8, 256, 255},
        {NT_U8, -1, 0},
        {NT_U8, -0.5, 0},
        {NT_U16, 65535, 65535},
        {NT_U16, INF, 65535},
        {NT_U32, 4294967295, 4294967295},
        {NT_U32, 1e12, 4294967295},
        {NT_U64, 9223372036854775808.0, 9223372036854775808.0},
        {NT_U64, 1e30, 18446744073709551616.0},
        {NT_U64, -3, 0},
        {NT_BOOL, 0, 0},
        {NT_BOOL, -0.0, 0},
        {NT_BOOL, 0.1, 1},
        {NT_BOOL, -7, 1},
        {NT_BOOL, NOT_A_NUMBER, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!same(through(rows[i].dtype, rows[i].in), rows[i].out))
            fail_msg("%s: %.17g gives %.17g, not %.17g", nt_dtype_name(rows[i].dtype), rows[i].in,
                     through(rows[i].dtype, rows[i].in), rows[i].out);
}

static void the_largest_integers_are_stored_exactly(void **state) {
    (void)state;
    int64_t i64;
    uint64_t u64;
    nt__element_set(NT_I64, &i64, 1e30);
    nt__element_set(NT_U64, &u64, 1e30);
    assert_true(i64 == INT64_MAX);
    assert_true(u64 == UINT64_MAX);
    nt__element_set(NT_I64, &i64, 0x1p63); /* one more than the largest */
    nt__element_set(NT_U64, &u64, 0x1p64);
    assert_true(i64 == INT64_MAX);
    assert_true(u64 == UINT64_MAX);
    nt__element_set(NT_I64, &i64, 9223372036854774784.0); /* the largest double below 2^63 */
    assert_true(i64 == INT64_MAX - 1023);
}

static uint16_t bits_of(nt_dtype dtype, double value) {
    uint16_t bits;
    nt__element_set(dtype, &bits, value);
    return bits;
}

static double value_of(nt_dtype dtype, uint16_t bits) {
    return nt__element_get(dtype, &bits);
}

static void known_bits_of_16_bit_floats(void **state) {
    (void)state;
    static const struct {
        nt_dtype dtype;
        double value;
        uint16_t bits;
    } rows[] = {
        {NT_F16, 0.0, 0x0000},       {NT_F16, -0.0, 0x8000},           {NT_F16, 1.0, 0x3C00},
        {NT_F16, -2.0, 0xC000},      {NT_F16, 65504.0, 0x7BFF},        {NT_F16, 0x1p-14, 0x0400},
        {NT_F16, 0x1p-24, 0x0001},   {NT_F16, 0.333251953125, 0x3555}, {NT_F16, INF, 0x7C00},
        {NT_F16, -INF, 0xFC00},      {NT_BF16, 1.0, 0x3F80},           {NT_BF16, -2.25, 0xC010},
        {NT_BF16, 0x1p-133, 0x0001}, {NT_BF16, 0x1p-126, 0x0080},      {NT_BF16, 0x1.FEp127, 0x7F7F},
        {NT_BF16, INF, 0x7F80},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(bits_of(rows[i].dtype, rows[i].value), rows[i].bits);
        assert_true(same(value_of(rows[i].dtype, rows[i].bits), rows[i].value));
    }
    assert_int_equal(bits_of(NT_F16, 1e6), 0x7C00);
    assert_int_equal(bits_of(NT_F16, -DBL_MAX), 0xFC00);
    assert_int_equal(bits_of(NT_F16, DBL_TRUE_MIN), 0x0000);
    assert_int_equal(bits_of(NT_BF16, -DBL_TRUE_MIN), 0x8000);
    assert_int_equal(bits_of(NT_BF16, DBL_MAX), 0x7F80);
    /* Through float this would be rounded twice: first down to the tie, then to even. */
    assert_int_equal(bits_of(NT_F16, 1.0 + 0x1p-11 + 0x1p-40), 0x3C01);
    assert_int_equal(bits_of(NT_BF16, 1.0 + 0x1p-8 + 0x1p-40), 0x3F81);
}

/* Every value comes back; between two neighbours the nearer one is taken, in the middle the even one. The neighbour of
 * the largest finite value is infinity, for rounding as far away as the one below. */
static void check_rounding(nt_dtype dtype, uint16_t infinity) {
    for (uint16_t sign = 0; sign < 2; sign++) {
        uint16_t top = (uint16_t)(sign << 15);
        for (uint16_t bits = 0; bits < infinity; bits++) {
            double low = value_of(dtype, top | bits);
            double high =
                bits + 1 == infinity ? 2 * low - value_of(dtype, top | (bits - 1)) : value_of(dtype, top | (bits + 1));
            double middle = low + (high - low) / 2;
            assert_int_equal(bits_of(dtype, low), top | bits);
            assert_int_equal(bits_of(dtype, middle), top | (bits + (bits & 1)));
            assert_int_equal(bits_of(dtype, nextafter(middle, low)), top | bits);
            assert_int_equal(bits_of(dtype, nextafter(middle, high)), top | (bits + 1));
        }
        assert_int_equal(bits_of(dtype, value_of(dtype, top | infinity)), top | infinity);
        for (uint16_t bits = infinity + 1; bits < 0x8000; bits++) {
            assert_true(isnan(value_of(dtype, top | bits)));
            assert_true(isnan(value_of(dtype, bits_of(dtype, value_of(dtype, top | bits)))));
        }
    }
}

static void f16_rounds_to_nearest_even_everywhere(void **state) {
    (void)state;
    check_rounding(NT_F16, 0x7C00);
}

static void bf16_rounds_to_nearest_even_everywhere(void **state) {
    (void)state;
    check_rounding(NT_BF16, 0x7F80);
}

/* A bf16 is the upper half of a float. */
static void bf16_values_are_upper_halves(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        uint32_t word = bits << 16;
        float value;
        memcpy(&value, &word, sizeof value);
        assert_true(same(value_of(NT_BF16, (uint16_t)bits), (double)value));
    }
}

/* ---- arrays ----------------------------------------------------------------------------------------------------- */

static void a_new_array_is_aligned_zeros(void **state) {
    (void)state;
    for (int i = 0; i < NT_DTYPE_COUNT; i++) {
        nt_array *array = nt_array_new((nt_dtype)i, nt_dims(3, 5));
        assert_int_equal(array->dtype, i);
        assert_true(nt_shape_equal(array->shape, nt_dims(3, 5)));
        assert_int_equal(array->bytes, 15 * nt_dtype_size((nt_dtype)i));
        assert_int_equal((uintptr_t)array->data % 64, 0);
        for (int j = 0; j < 15; j++) assert_true(same(nt_array_get(array, j), 0.0));
        nt_array_set(array, 14, 1);
        assert_true(nt_array_get(array, 14) == 1 && nt_array_get(array, 13) == 0);
        nt_array_free(array);
    }
}

static void an_array_copies_its_data(void **state) {
    (void)state;
    int32_t data[] = {1, -2, 3, 4, 5, -6};
    nt_array *array = nt_array_from(NT_I32, nt_dims(2, 3), data);
    data[0] = 9;
    assert_true(nt_array_get(array, 0) == 1 && nt_array_get(array, 5) == -6);
    nt_array_free(array);
    nt_array *empty = nt_array_from(NT_F32, nt_dims(0, 4), NULL);
    assert_int_equal(empty->bytes, 0);
    assert_non_null(empty->data);
    nt_array_free(empty);
    nt_array *number = nt_array_from(NT_F64, scalar, &(double){2.5});
    assert_true(nt_array_get(number, 0) == 2.5);
    nt_array_free(number);
}

static void an_array_lives_until_its_last_reference(void **state) {
    (void)state;
    size_t live = nt__memory().live;
    nt_array *array = nt_array_new(NT_F32, nt_dims(4));
    assert_ptr_equal(nt_array_retain(array), array);
    nt_array_free(array);
    nt_array_set(array, 3, 7);
    assert_true(nt_array_get(array, 3) == 7);
    nt_array_free(array);
    nt_array_free(NULL);
    assert_null(nt_array_retain(NULL));
    assert_int_equal(nt__memory().live, live);
}

static void *retain_and_free(void *array) {
    for (int i = 0; i < 20000; i++) nt_array_free(nt_array_retain(array));
    return NULL;
}

static void references_hold_when_threads_share(void **state) {
    (void)state;
    pthread_t threads[4];
    nt_array *array = nt_array_new(NT_F32, nt_dims(4));
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, retain_and_free, array), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(array->references, 1);
    nt_array_free(array);
}

static void impossible_arrays_are_refused(void **state) {
    (void)state;
    assert_null(nt_array_new(NT_F32, nt_dims(2, -3)));
    assert_non_null(strstr(nt_error_message(), "f32[2,-3]"));
    assert_null(nt_array_new(NT_F64, nt_dims(INT64_C(1) << 61)));
    assert_non_null(strstr(nt_error_message(), "f64[2305843009213693952]"));
    assert_null(nt_array_from(NT_F32, (nt_shape){.rank = 9}, NULL));
    assert_non_null(strstr(nt_error_message(), "at most 8 axes"));
    size_t live = nt__memory().live;
    for (size_t n = 1; n <= 2; n++) {
        nt__memory_fail_at(n);
        assert_null(nt_array_new(NT_F32, nt_dims(2, 3)));
        assert_non_null(strstr(nt_error_message(), "new array f32[2,3]: out of host memory"));
        assert_int_equal(nt__memory().live, live);
    }
}

static void elements_out_of_range_are_refused(void **state) {
    (void)state;
    nt_array *array = nt_array_new(NT_I16, nt_dims(2, 3));
    nt__fail(NT_OK, "nothing");
    assert_true(isnan(nt_array_get(array, 6)));
    assert_string_equal(nt_error_message(), "element 6 of an array i16[2,3]: it has the elements 0 to 5");
    nt_array_set(array, -1, 1);
    assert_non_null(strstr(nt_error_message(), "element -1"));
    nt_array_free(array);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_its_row),
        cmocka_unit_test(a_type_out_of_range_is_none),
        cmocka_unit_test(shapes_are_equal_by_rank_and_sizes),
        cmocka_unit_test(elements_are_counted_without_overflow),
        cmocka_unit_test(types_have_text),
        cmocka_unit_test(types_have_bytes),
        cmocka_unit_test(types_are_equal_by_both_parts),
        cmocka_unit_test(values_come_back),
        cmocka_unit_test(the_largest_integers_are_stored_exactly),
        cmocka_unit_test(known_bits_of_16_bit_floats),
        cmocka_unit_test(f16_rounds_to_nearest_even_everywhere),
        cmocka_unit_test(bf16_rounds_to_nearest_even_everywhere),
        cmocka_unit_test(bf16_values_are_upper_halves),
        cmocka_unit_test(a_new_array_is_aligned_zeros),
        cmocka_unit_test(an_array_copies_its_data),
        cmocka_unit_test(an_array_lives_until_its_last_reference),
        cmocka_unit_test(references_hold_when_threads_share),
        cmocka_unit_test(impossible_arrays_are_refused),
        cmocka_unit_test(elements_out_of_range_are_refused),
    };
    return cmocka_run_group_tests_name("array", tests, NULL, NULL);
}
