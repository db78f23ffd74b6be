/* src/base/random.h: against numbers of another implementation of the same generator, and the properties of the draws
 * that are our own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/random.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- golden cases ----------------------------------------------------------------------------------------------- */

static const char *text_of(const json_t *row, const char *key) {
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static uint64_t hex(const json_t *word) {
    const char *text = json_string_value(word);
    assert_non_null(text);
    return strtoull(text, NULL, 16);
}

static nt__key key_of(const json_t *pair) {
    assert_int_equal(json_array_size(pair), 2);
    return (nt__key){(uint32_t)hex(json_array_get(pair, 0)), (uint32_t)hex(json_array_get(pair, 1))};
}

static void assert_key(nt__key got, const json_t *expected) {
    nt__key key = key_of(expected);
    assert_int_equal(got.high, key.high);
    assert_int_equal(got.low, key.low);
}

static void check_block(const json_t *row, nt__key key, const json_t *expected) {
    nt__key counter = key_of(json_object_get(row, "counter"));
    assert_key(nt__threefry(key, counter.high, counter.low), expected);
}

static void check_seed(const json_t *row, nt__key key, const json_t *expected) {
    (void)key;
    const char *seed = text_of(row, "seed");
    assert_key(nt__key_of_seed(*seed == '-' ? (uint64_t)strtoll(seed, NULL, 10) : strtoull(seed, NULL, 10)), expected);
}

static void check_split(const json_t *row, nt__key key, const json_t *expected) {
    (void)row;
    for (size_t i = 0; i < json_array_size(expected); i++)
        assert_key(nt__threefry(key, 0, (uint32_t)i), json_array_get(expected, i));
}

static void check_fold(const json_t *row, nt__key key, const json_t *expected) {
    assert_key(nt__key_fold(key, (uint32_t)json_integer_value(json_object_get(row, "data"))), expected);
}

static void check_fold_twice(const json_t *row, nt__key key, const json_t *expected) {
    const json_t *data = json_object_get(row, "data");
    for (size_t i = 0; i < 2; i++) key = nt__key_fold(key, (uint32_t)json_integer_value(json_array_get(data, i)));
    assert_key(key, expected);
}

/* The narrow words are the low bits of the 32-bit ones, the wide ones a whole block. */
static uint64_t word_of(const char *dtype, nt__key key, uint64_t index) {
    nt__key block = nt__threefry(key, (uint32_t)(index >> 32), (uint32_t)index);
    uint32_t bits = nt__random_bits(key, index);
    if (strcmp(dtype, "u8") == 0) return (uint8_t)bits;
    if (strcmp(dtype, "u16") == 0) return (uint16_t)bits;
    return strcmp(dtype, "u32") == 0 ? bits : (uint64_t)block.high << 32 | block.low;
}

static void check_bits(const json_t *row, nt__key key, const json_t *expected) {
    for (size_t i = 0; i < json_array_size(expected); i++)
        assert_true(word_of(text_of(row, "dtype"), key, i) == hex(json_array_get(expected, i)));
}

static float uniform(nt__key key, uint64_t index) {
    return nt__uniform_of_bits(nt__random_bits(key, index));
}

/* A uniform f64 takes other bits, and one of another range adds roundings of its own. */
static void check_uniform(const json_t *row, nt__key key, const json_t *expected) {
    if (strcmp(text_of(row, "dtype"), "f32") || json_number_value(json_object_get(row, "low")) != 0) return;
    for (size_t i = 0; i < json_array_size(expected); i++)
        assert_true(uniform(key, i) == (float)json_number_value(json_array_get(expected, i)));
}

static void check_mask(const json_t *row, nt__key key, const json_t *expected) {
    const json_t *fold = json_object_get(row, "fold");
    float p = (float)json_number_value(json_object_get(row, "p"));
    if (fold) key = nt__key_fold(key, (uint32_t)json_integer_value(fold));
    for (size_t i = 0; i < json_array_size(expected); i++)
        assert_int_equal(uniform(key, i) < p, json_integer_value(json_array_get(expected, i)));
}

/* What the operations of the file are here. The others (normal, permutation, ...) are drawn in another way. */
static const struct {
    const char *op;
    void (*check)(const json_t *row, nt__key key, const json_t *expected);
    int cases; /* in the file */
} operations[] = {
    {"threefry2x32", check_block, 7},
    {"key", check_seed, 7},
    {"split", check_split, 6},
    {"fold_in", check_fold, 18},
    {"fold_in_twice", check_fold_twice, 3},
    {"bits", check_bits, 24},
    {"uniform", check_uniform, 9},
    {"bernoulli", check_mask, 12},
    {"bernoulli_folded", check_mask, 3},
};

static json_t *read_golden(void) {
    char path[4096];
    json_error_t error;
    const char *tests = getenv("NT_TESTS");
    assert_non_null(tests); /* the folder of the tests */
    snprintf(path, sizeof path, "%s/golden/rng.json", tests);
    json_t *whole = json_load_file(path, 0, &error);
    if (!whole) fail_msg("%s: %s", path, error.text);
    return whole;
}

static int check_operation(const json_t *cases, size_t operation) {
    int checked = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *row = json_array_get(cases, i), *key = json_object_get(row, "key");
        if (strcmp(text_of(row, "op"), operations[operation].op)) continue;
        operations[operation].check(row, key ? key_of(key) : (nt__key){0}, json_object_get(row, "expected"));
        checked++;
    }
    return checked;
}

static void the_generator_gives_the_golden_numbers(void **state) {
    (void)state;
    json_t *whole = read_golden();
    const json_t *cases = json_object_get(whole, "cases");
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        assert_int_equal(check_operation(cases, i), operations[i].cases);
    json_decref(whole);
}

/* ---- keys and words --------------------------------------------------------------------------------------------- */

static void the_counter_has_64_bits(void **state) {
    (void)state;
    nt__key key = nt__key_of_seed(42);
    uint64_t index = (UINT64_C(3) << 32) | 5;
    nt__key block = nt__threefry(key, 3, 5);
    assert_int_equal(nt__random_bits(key, index), block.high ^ block.low);
    assert_int_not_equal(nt__random_bits(key, index), nt__random_bits(key, 5));
}

static void names_give_keys_of_their_own(void **state) {
    (void)state;
    static const char *const names[] = {"shuffle", "shuffle ", "Shuffle", "", "a", "b"};
    enum { COUNT = sizeof names / sizeof *names };
    nt__key key = nt__key_of_seed(1), keys[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        keys[i] = nt__key_fold_text(key, names[i]);
        nt__key again = nt__key_fold_text(key, names[i]);
        assert_memory_equal(&keys[i], &again, sizeof again);
        for (size_t j = 0; j < i; j++) assert_memory_not_equal(&keys[i], &keys[j], sizeof keys[i]);
    }
    nt__key folded = nt__key_fold(key, (uint32_t)nt__hash_bytes("shuffle", 7).low);
    assert_memory_equal(&keys[0], &folded, sizeof folded);
}

static void uniform_numbers_lie_in_0_to_1(void **state) {
    (void)state;
    assert_true(nt__uniform_of_bits(0) == 0);
    assert_true(nt__uniform_of_bits(511) == 0); /* the low 9 bits are not used */
    assert_true(nt__uniform_of_bits(512) == 0x1p-23f);
    assert_true(nt__uniform_of_bits(UINT32_C(1) << 31) == 0.5f);
    assert_true(nt__uniform_of_bits(UINT32_MAX) == 1 - 0x1p-23f);
}

/* ---- permutations ----------------------------------------------------------------------------------------------- */

static void a_permutation_holds_each_number_once(void **state) {
    (void)state;
    enum { LARGEST = 1000 };
    uint32_t order[LARGEST], again[LARGEST];
    for (size_t count = 0; count <= LARGEST; count = count < 8 ? count + 1 : count * 5) {
        char seen[LARGEST] = {0};
        nt__permutation(nt__key_of_seed(count), count, order);
        nt__permutation(nt__key_of_seed(count), count, again);
        assert_memory_equal(order, again, count * sizeof *order);
        for (size_t i = 0; i < count; i++) {
            assert_true(order[i] < count);
            assert_int_equal(seen[order[i]]++, 0);
        }
    }
}

static void other_keys_give_other_permutations(void **state) {
    (void)state;
    enum { COUNT = 100, KEYS = 20 };
    uint32_t orders[KEYS][COUNT];
    for (uint32_t key = 0; key < KEYS; key++) {
        nt__permutation(nt__key_fold(nt__key_of_seed(7), key), COUNT, orders[key]);
        for (uint32_t other = 0; other < key; other++)
            assert_memory_not_equal(orders[key], orders[other], sizeof orders[key]);
    }
}

/* All 24 orders of 4 things come out equally often: of 24,000 draws, 1000 each with a standard deviation of 31. */
static void permutations_are_unbiased(void **state) {
    (void)state;
    int seen[256] = {0};
    uint32_t order[4];
    for (uint32_t i = 0; i < 24000; i++) {
        nt__permutation(nt__key_fold(nt__key_of_seed(2), i), 4, order);
        seen[order[0] | order[1] << 2 | order[2] << 4 | order[3] << 6]++;
    }
    int orders = 0;
    for (int i = 0; i < 256; i++) {
        if (!seen[i]) continue;
        orders++;
        assert_in_range(seen[i], 850, 1150);
    }
    assert_int_equal(orders, 24);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_generator_gives_the_golden_numbers),
        cmocka_unit_test(the_counter_has_64_bits),
        cmocka_unit_test(names_give_keys_of_their_own),
        cmocka_unit_test(uniform_numbers_lie_in_0_to_1),
        cmocka_unit_test(a_permutation_holds_each_number_once),
        cmocka_unit_test(other_keys_give_other_permutations),
        cmocka_unit_test(permutations_are_unbiased),
    };
    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
