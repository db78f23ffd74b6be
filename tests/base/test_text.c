/* src/base: text that grows, UTF-8, close names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/closest.h"

#include <stdio.h>
#include <string.h>

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void text_grows_by_adding(void **state) {
    (void)state;
    nt__text text = {0};
    nt__text_put(&text, "", 0);
    assert_string_equal(text.data, "");
    for (int i = 0; i < 1000; i++) nt__text_add(&text, "%d,", i);
    assert_int_equal(text.length, 10 * 2 + 90 * 3 + 900 * 4);
    assert_memory_equal(text.data, "0,1,2,3,4,5,6,7,8,9,10,", 23);
    assert_string_equal(text.data + text.length - 8, "998,999,");
    nt__text_free(&text);
    assert_null(text.data);
    nt__text_put(&text, "a\0b", 3);
    assert_int_equal(text.length, 3);
    assert_memory_equal(text.data, "a\0b", 4);
    nt__text_free(&text);
}

static void a_failed_text_stays_failed(void **state) {
    (void)state;
    nt__text text = {0};
    nt__text_add(&text, "kept");
    nt__memory_fail_at(1);
    nt__text_add(&text, "%200d", 1);
    assert_true(text.failed);
    nt__text_add(&text, "ignored");
    nt__text_put(&text, "ignored", 7);
    assert_string_equal(text.data, "kept");
    nt__text_free(&text);
    assert_false(text.failed);
}

static void copies_and_formatted_text(void **state) {
    (void)state;
    char *copy = nt__strdup("text");
    char *formatted = nt__sprintf("%1000d|%s", 5, copy);
    assert_string_equal(copy, "text");
    assert_int_equal(strlen(formatted), 1005);
    assert_string_equal(formatted + 998, " 5|text");
    nt__free(copy);
    nt__free(formatted);
    nt__memory_fail_at(1);
    assert_null(nt__strdup("text"));
    nt__memory_fail_at(1);
    assert_null(nt__sprintf("%d", 1));
}

static size_t encode(uint32_t point, char out[4]) {
    static const unsigned char leads[] = {0x00, 0xC0, 0xE0, 0xF0};
    int more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    for (int i = more; i > 0; i--, point >>= 6) out[i] = (char)(0x80 | (point & 0x3F));
    out[0] = (char)(leads[more] | point);
    return (size_t)more + 1;
}

/* Every code point but the surrogates, and no part of one. */
static void utf8_is_told_from_other_bytes(void **state) {
    (void)state;
    char bytes[4];
    for (uint32_t point = 0; point < 0x120000; point++) {
        size_t length = encode(point, bytes);
        bool is_character = point < 0x110000 && (point < 0xD800 || point > 0xDFFF);
        assert_int_equal(nt__is_utf8(bytes, length), is_character);
        for (size_t cut = 1; cut < length; cut++) assert_false(nt__is_utf8(bytes, cut));
    }
    assert_true(nt__is_utf8("", 0));
    assert_true(nt__is_utf8("gr\xc3\xbc\xc3\x9f"
                            "e \xe2\x9c\x93",
                            11));
    const char *const wrong[] = {"\x80",
                                 "a\xff",
                                 "\xc0\x80",
                                 "\xc1\xbf",
                                 "\xe0\x9f\xbf",
                                 "\xf0\x8f\xbf\xbf",
                                 "\xf4\x90\x80\x80",
                                 "\xc3\x28",
                                 "\xe2\x9c\x28",
                                 "\xe2\x28\x9c",
                                 "\xf1\x80\x80\xc0",
                                 "\xf5\x80\x80\x80"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(nt__is_utf8(wrong[i], strlen(wrong[i])));
}

static void integers_are_decimal(void **state) {
    (void)state;
    nt__text text = {0};
    const int64_t numbers[] = {0, 7, -7, 10, 128784, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        nt__text_integer(&text, numbers[i]);
        nt__text_say(&text, ";");
    }
    assert_string_equal(text.data, "0;7;-7;10;128784;9223372036854775807;-9223372036854775808;");
    nt__text_free(&text);
}

/* A piece that just fits, and one that is a byte too long for what is there. */
static void text_grows_at_its_edge(void **state) {
    (void)state;
    for (int length = 60; length < 68; length++) {
        nt__text text = {0};
        nt__text_add(&text, "%*d", length, 5);
        assert_int_equal(text.length, length);
        nt__text_add(&text, "%*d", 64 - length > 0 ? 64 - length : 1, 6);
        assert_int_equal(text.length, strlen(text.data));
        assert_int_equal(text.data[length - 1], '5');
        assert_int_equal(text.data[text.length - 1], '6');
        nt__text_free(&text);
    }
}

/* ---- close names ------------------------------------------------------------------------------------------------ */

static void closest(const char *name, const char *expected) {
    static const char *const known[] = {"hidden", "hidden-units", "max-epochs", "max-steps", "seed", "a.fc.weight"};
    nt__text out = {0};
    nt__text_add(&out, "x");
    nt__add_closest(&out, name, known, sizeof known / sizeof *known, "--");
    assert_string_equal(out.data + 1, expected);
    nt__text_free(&out);
}

static void close_names_are_found(void **state) {
    (void)state;
    closest("hiden", " (did you mean --hidden?)");
    closest("hdiden", " (did you mean --hidden?)");
    closest("hiddenx", " (did you mean --hidden?)");
    closest("sede", " (did you mean --seed?)");
    closest("max-eposh", " (did you mean --max-epochs?)");
    closest("max", " (did you mean --max-epochs or --max-steps?)");
    closest("hidden-un", " (did you mean --hidden-units?)");
    closest("learning-rate", "");
    closest("x", "");
    closest("", "");
    closest("a-name-that-is-longer-than-any-flag-could-be-and-has-more-than-64-letters", "");
}

/* A star stands for any letters, also for none, at no price. */
static void close_patterns_are_found(void **state) {
    (void)state;
    closest("*.fc.weigth", " (did you mean --a.fc.weight?)");
    closest("a.fc*.weight", " (did you mean --a.fc.weight?)");
    closest("a.*", " (did you mean --a.fc.weight?)");
    closest("max-*s", " (did you mean --max-epochs or --max-steps?)");
    closest("b.*.bias", "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_grows_by_adding),      cmocka_unit_test(a_failed_text_stays_failed),
        cmocka_unit_test(copies_and_formatted_text), cmocka_unit_test(utf8_is_told_from_other_bytes),
        cmocka_unit_test(close_names_are_found),     cmocka_unit_test(close_patterns_are_found),
        cmocka_unit_test(integers_are_decimal),      cmocka_unit_test(text_grows_at_its_edge),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
