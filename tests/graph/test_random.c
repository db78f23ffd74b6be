/* Traced random numbers against the golden vectors: all cases as one program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"
#include "nitro/random.h"

enum { MOST_CASES = 128 };

static nt_shape shape_of_case(const json_t *c) {
    return golden_shape_of(json_object_get(c, "shape"));
}

static nt_dtype dtype_of_case(const json_t *c) {
    return strcmp(json_string_value(json_object_get(c, "dtype")), "f64") == 0 ? NT_F64 : NT_F32;
}

static double number_of(const json_t *c, const char *name) {
    return json_number_value(json_object_get(c, name));
}

static nt_dtype bits_type(const json_t *c) {
    return golden_dtype(json_string_value(json_object_get(c, "dtype")), NT_F32);
}

static nt_tensor build_bits(const json_t *c, nt_tensor key) {
    return nt_random_bits(key, bits_type(c), shape_of_case(c));
}

static nt_tensor build_fold(const json_t *c, nt_tensor key) {
    return nt_random_fold(key, number_of(c, "data"));
}

static nt_tensor build_fold_twice(const json_t *c, nt_tensor key) {
    const json_t *data = json_object_get(c, "data");
    nt_tensor once = nt_random_fold(key, json_number_value(json_array_get(data, 0)));
    return nt_random_fold(once, json_number_value(json_array_get(data, 1)));
}

/* Keys one below the other. */
static nt_tensor build_split(const json_t *c, nt_tensor key) {
    nt_tensor keys[8];
    int count = (int)number_of(c, "n");
    for (int i = 0; i < count; i++) keys[i] = nt_random_fold(key, i);
    return nt_stack_at(keys, count, 0, NT_SITE);
}

static nt_tensor build_exponential(const json_t *c, nt_tensor key) {
    return nt_neg(nt_log1p(nt_neg(nt_random_uniform(key, dtype_of_case(c), shape_of_case(c)))));
}

static nt_tensor build_uniform(const json_t *c, nt_tensor key) {
    nt_tensor unit = nt_random_uniform(key, dtype_of_case(c), shape_of_case(c));
    double low = number_of(c, "low"), high = number_of(c, "high");
    return low == 0 && high == 1 ? unit : nt_add(nt_mul(unit, high - low), low);
}

static nt_tensor build_normal(const json_t *c, nt_tensor key) {
    return nt_random_normal(key, dtype_of_case(c), shape_of_case(c));
}

static nt_tensor build_truncated(const json_t *c, nt_tensor key) {
    assert_true(number_of(c, "low") == -number_of(c, "high"));
    return nt_random_truncated_normal(key, dtype_of_case(c), shape_of_case(c), number_of(c, "high"));
}

static nt_tensor build_bernoulli(const json_t *c, nt_tensor key) {
    return nt_random_bernoulli(key, number_of(c, "p"), shape_of_case(c));
}

static nt_tensor build_folded_bernoulli(const json_t *c, nt_tensor key) {
    return build_bernoulli(c, nt_random_fold(key, number_of(c, "fold")));
}

static nt_tensor build_categorical(const json_t *c, nt_tensor key) {
    const json_t *logits = json_object_get(c, "logits");
    int64_t classes = (int64_t)json_array_size(logits);
    nt_array *array = nt_array_new(NT_F32, nt_dims(classes));
    assert_non_null(array);
    for (int64_t i = 0; i < classes; i++) nt_array_set(array, i, golden_element(logits, (size_t)i));
    nt_tensor constant = nt_constant(array);
    nt_array_free(array);
    nt_shape shape = shape_of_case(c);
    shape.dims[shape.rank++] = classes;
    return nt_random_categorical(key, nt_broadcast(constant, shape));
}

static nt_tensor build_permutation(const json_t *c, nt_tensor key) {
    return nt_random_permutation(key, (int64_t)number_of(c, "n"));
}

static const struct {
    const char *op;
    nt_tensor (*build)(const json_t *c, nt_tensor key);
} rows[] = {
    {"bits", build_bits},
    {"fold_in", build_fold},
    {"split", build_split},
    {"exponential", build_exponential},
    {"fold_in_twice", build_fold_twice},
    {"uniform", build_uniform},
    {"normal", build_normal},
    {"truncated_normal", build_truncated},
    {"bernoulli", build_bernoulli},
    {"bernoulli_folded", build_folded_bernoulli},
    {"categorical", build_categorical},
    {"permutation", build_permutation},
};

static double expected_element(const json_t *list, size_t i) {
    const json_t *element = json_array_get(list, i);
    const char *text = json_string_value(element);
    return text ? (double)strtoull(text, NULL, 16) : json_number_value(element);
}

/* A double does not hold them. */
static bool has_words(const json_t *expected, const nt_array *got) {
    bool same = true;
    for (size_t i = 0; i < json_array_size(expected); i++) {
        uint64_t wanted = strtoull(json_string_value(json_array_get(expected, i)), NULL, 16);
        same = same && ((const uint64_t *)got->data)[i] == wanted;
    }
    return same;
}

/* Of a split: one key below the other. */
static bool are_keys(const json_t *expected, const nt_array *got) {
    bool same = nt_shape_elements(got->shape) == 2 * (int64_t)json_array_size(expected);
    for (size_t i = 0; same && i < json_array_size(expected); i++)
        for (size_t j = 0; same && j < 2; j++)
            same = nt_array_get(got, (int64_t)(2 * i + j)) == expected_element(json_array_get(expected, i), j);
    return same;
}

static bool is_right(const json_t *c, const nt_array *got) {
    const json_t *expected = json_object_get(c, "expected"), *tolerance = json_object_get(c, "tolerance");
    double relative = number_of(tolerance, "rtol"), absolute = number_of(tolerance, "atol");
    if (json_is_array(json_array_get(expected, 0))) return are_keys(expected, got);
    assert_int_equal(json_array_size(expected), nt_shape_elements(got->shape));
    if (got->dtype == NT_U64) return has_words(expected, got);
    for (size_t i = 0; i < json_array_size(expected); i++) {
        double wanted = expected_element(expected, i), own = nt_array_get(got, (int64_t)i);
        if (got->dtype == NT_F32) wanted = (double)(float)wanted; /* the file has 9 digits */
        if (golden_close(own, wanted, relative, absolute)) continue;
        print_error("%s: [%zu] is %.17g, expected %.17g\n", json_string_value(json_object_get(c, "name")), i, own,
                    wanted);
        return false;
    }
    return true;
}

static bool is_covered(const json_t *c, size_t row) {
    return strcmp(json_string_value(json_object_get(c, "op")), rows[row].op) == 0;
}

static void the_golden_numbers(void **state) {
    (void)state;
    json_t *document = golden_read("rng.json"), *c;
    const json_t *cases[MOST_CASES];
    nt__result results[MOST_CASES];
    nt_array *keys[MOST_CASES], *got[MOST_CASES];
    size_t count = 0, index, wrong = 0;
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        size_t before = count;
        json_array_foreach(json_object_get(document, "cases"), index, c) {
            if (!is_covered(c, row)) continue;
            assert_true(count < MOST_CASES);
            keys[count] = nt_array_new(NT_U32, nt_dims(2));
            assert_non_null(keys[count]);
            for (int i = 0; i < 2; i++)
                nt_array_set(keys[count], i, expected_element(json_object_get(c, "key"), (size_t)i));
            nt_tensor key = traced_input((int)count, (nt__type){NT_U32, nt_dims(2)});
            results[count] = (nt__result){"draw", rows[row].build(c, key), {0}};
            assert_ok(nt__trace_status(graph));
            cases[count++] = c;
        }
        if (count == before) fail_msg("rng.json has no case of '%s'", rows[row].op);
    }
    traced program = traced_compile(traced_engine(), results, count);
    nt__trace_end(graph);
    traced_run(&program, keys, got);
    traced_free(&program);
    for (size_t i = 0; i < count; i++) {
        wrong += !is_right(cases[i], got[i]);
        nt_array_free(keys[i]);
        nt_array_free(got[i]);
    }
    json_decref(document);
    assert_int_equal(wrong, 0);
}

static void check_message(nt_tensor (*make)(nt_tensor key), nt__type key, const char *message) {
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    make(traced_input(0, key));
    assert_int_equal(nt__trace_status(graph), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), message));
    nt__trace_end(graph);
}

static nt_tensor integers(nt_tensor key) {
    return nt_random_uniform(key, NT_I32, nt_dims(2));
}

static nt_tensor many(nt_tensor key) {
    return nt_random_bits(key, NT_U32, nt_dims(INT64_C(1) << 33));
}

static nt_tensor signed_bits(nt_tensor key) {
    return nt_random_bits(key, NT_I32, nt_dims(2));
}

static nt_tensor cut_at_zero(nt_tensor key) {
    return nt_random_truncated_normal(key, NT_F32, nt_dims(2), 0);
}

static nt_tensor negative(nt_tensor key) {
    return nt_random_permutation(key, -1);
}

static nt_tensor folded_float(nt_tensor key) {
    return nt_random_fold(key, nt_full(NT_F32, nt_dims(1), 0));
}

static void mistakes(void **state) {
    (void)state;
    nt__type key = {NT_U32, nt_dims(2)};
    check_message(many, (nt__type){NT_U32, nt_dims(3)}, "random_bits: a key is u32[2], got u32[3]");
    check_message(many, key, "random_bits: [8589934592]: one key draws at most 4294967295 elements");
    check_message(signed_bits, key, "random_bits: draws u8, u16, u32 or u64; nt_bitcast reads them as another type");
    check_message(integers, key, "random_uniform: draws f32 or f64; nt_convert makes other types of them");
    check_message(cut_at_zero, key, "random_truncated_normal: cut at 0: it must be above 0");
    check_message(negative, key, "random_permutation: of -1 elements: there may be 0 to 2147483647");
    check_message(folded_float, key, "random_fold: what is folded in is u32[], got f32[1]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_golden_numbers),
        cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
