/* Sets of named arrays, and arrays as another element type. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "array/array.h"

static nt_array *numbers(nt_dtype dtype, double first, double second) {
    nt_array *array = nt_array_new(dtype, nt_dims(2));
    assert_non_null(array);
    nt_array_set(array, 0, first);
    nt_array_set(array, 1, second);
    return array;
}

static nt_arrays *two(void) {
    nt_arrays *set = nt_arrays_new();
    assert_non_null(set);
    assert_int_equal(nt_arrays_put(set, "weight", numbers(NT_F32, 1, 2)), NT_OK);
    assert_int_equal(nt_arrays_put(set, "bias", numbers(NT_F64, 3, 4)), NT_OK);
    return set;
}

static void arrays_are_found_by_name_and_keep_their_order(void **state) {
    (void)state;
    nt_arrays *set = two();
    assert_int_equal(nt_arrays_count(set), 2);
    assert_string_equal(nt_arrays_name(set, 0), "weight");
    assert_string_equal(nt_arrays_name(set, 1), "bias");
    assert_ptr_equal(nt_arrays_find(set, "bias"), nt_arrays_at(set, 1));
    assert_true(nt_array_get(nt_arrays_find(set, "bias"), 1) == 4);
    assert_null(nt_arrays_find(set, "rate"));
    assert_string_equal(nt_error_message(), "the set has no array 'rate'; it has: weight, bias");
    nt_arrays_free(set);
}

static void what_cannot_be_put_is_refused_and_freed(void **state) {
    (void)state;
    size_t live = nt__memory().live;
    nt_arrays *set = two();
    assert_int_equal(nt_arrays_put(set, "bias", numbers(NT_F32, 0, 0)), NT_INVALID);
    assert_string_equal(nt_error_message(), "the set has an array 'bias' already");
    assert_int_equal(nt_arrays_put(set, "", numbers(NT_F32, 0, 0)), NT_INVALID);
    assert_int_equal(nt_arrays_put(NULL, "a", numbers(NT_F32, 0, 0)), NT_INVALID);
    nt__fail_nothing();
    assert_int_equal(nt_arrays_put(set, "a", NULL), NT_INVALID);
    assert_string_equal(nt_error_message(), "nt_arrays_put: array is NULL (for the name 'a')");
    assert_int_equal(nt_arrays_put(set, "a", nt_array_new(NT_F32, nt_dims(-1))), nt_error_status());
    assert_int_equal(nt_arrays_count(set), 2);
    nt_arrays_free(set);
    assert_int_equal(nt__memory().live, live);
}

static void references_are_counted(void **state) {
    (void)state;
    size_t live = nt__memory().live;
    nt_arrays *set = two();
    nt_array *weight = nt_array_retain(nt_arrays_find(set, "weight"));
    assert_ptr_equal(nt_arrays_retain(set), set);
    nt_arrays_free(set);
    assert_int_equal(nt_arrays_count(set), 2);
    nt_arrays *copy = nt__arrays_copy(set);
    nt_arrays_free(set);
    assert_ptr_equal(nt_arrays_find(copy, "weight"), weight);
    nt__arrays_replace(copy, 0, numbers(NT_F32, 7, 8));
    assert_true(nt_array_get(weight, 0) == 1);
    assert_true(nt_array_get(nt_arrays_find(copy, "weight"), 0) == 7);
    nt_arrays_free(copy);
    nt_array_free(weight);
    nt_arrays_free(NULL);
    assert_null(nt_arrays_retain(NULL));
    assert_int_equal(nt__memory().live, live);
}

static void refused_memory_is_reported_and_freed(void **state) {
    (void)state;
    size_t live = nt__memory().live;
    nt_arrays *set = two();
    size_t before = nt__memory().total;
    nt_arrays_free(nt__arrays_copy(set));
    size_t count = nt__memory().total - before, with_set = nt__memory().live;
    for (size_t n = 1; n <= count; n++) {
        nt__memory_fail_at(n);
        assert_null(nt__arrays_copy(set));
        assert_int_equal(nt__memory().live, with_set);
    }
    nt__memory_fail_at(1);
    assert_null(nt_arrays_find(set, "rate"));
    nt__memory_fail_at(0);
    nt_arrays_free(set);
    assert_int_equal(nt__memory().live, live);
}

static void arrays_convert_where_the_type_has_the_values(void **state) {
    (void)state;
    nt_array *real = numbers(NT_F64, 0.1, -3), *single = nt__array_convert(real, NT_F32);
    assert_int_equal(single->dtype, NT_F32);
    assert_true(((const float *)single->data)[0] == 0.1f);
    nt_array *same = nt__array_convert(single, NT_F32);
    assert_ptr_equal(same, single);
    assert_null(nt__array_convert(real, NT_I32));
    assert_string_equal(nt_error_message(), "element 0 is 0.1, which i32 cannot hold");
    nt_array *large = numbers(NT_I64, 1, 0x1p60);
    assert_null(nt__array_convert(large, NT_F32));
    assert_string_equal(nt_error_message(), "element 1 is 1.15292150460685e+18, which f32 cannot hold");
    nt_array_free(large);
    nt_array_free(same);
    nt_array_free(single);
    nt_array_free(real);
}

static void numbers_become_elements(void **state) {
    (void)state;
    static const struct {
        nt_dtype dtype;
        double number;
        bool fits;
    } cases[] = {{NT_F32, 0.1, true},       {NT_F32, 1e39, false},   {NT_F32, INFINITY, true}, {NT_F32, NAN, true},
                 {NT_BF16, 3, true},        {NT_F16, 1e6, false},    {NT_I8, -128, true},      {NT_I8, 128, false},
                 {NT_U8, -1, false},        {NT_U8, 255, true},      {NT_I32, 0.5, false},     {NT_I32, NAN, false},
                 {NT_I64, 0x1p63, false},   {NT_I64, -0x1p63, true}, {NT_U64, 0x1p64, false},  {NT_U64, 0x1p63, true},
                 {NT_I64, INFINITY, false}, {NT_BOOL, 2, false},     {NT_BOOL, 1, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char element[8] = {7, 7, 7, 7, 7, 7, 7, 7};
        bool fits = nt__element_from_number(cases[i].dtype, element, cases[i].number);
        if (fits != cases[i].fits) fail_msg("%s %g", nt_dtype_name(cases[i].dtype), cases[i].number);
        if (!fits) assert_memory_equal(element, "\7\7\7\7\7\7\7\7", 8);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_found_by_name_and_keep_their_order),
        cmocka_unit_test(what_cannot_be_put_is_refused_and_freed),
        cmocka_unit_test(references_are_counted),
        cmocka_unit_test(refused_memory_is_reported_and_freed),
        cmocka_unit_test(arrays_convert_where_the_type_has_the_values),
        cmocka_unit_test(numbers_become_elements),
    };
    return cmocka_run_group_tests_name("array sets", tests, NULL, NULL);
}
