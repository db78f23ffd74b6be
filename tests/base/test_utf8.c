/* UTF-8: what is well-formed, how a text looks on a terminal that must not obey it, and how wide it is. */
/* NOLINTBEGIN(misc-misleading-bidirectional): characters that turn the direction are what is tried. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/base.h"

static const struct {
    const char *text, *shown; /* with line breaks and tabs kept */
    size_t width;             /* of what is shown, of one line */
} rows[] = {
    {"", "", 0},
    {"plain text", "plain text", 10},
    {"plain\ttext\n", "plain\ttext\n", 0},
    {"gr\xc3\xbc\xc3\x9f\xe2\x9c\x93", "gr\xc3\xbc\xc3\x9f\xe2\x9c\x93", 5},
    {"\xe6\x97\xa5\xe6\x9c\xac", "\xe6\x97\xa5\xe6\x9c\xac", 4}, /* two columns each */
    {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", 2},
    {"e\xcc\x81", "e\xcc\x81", 1}, /* an accent of its own */
    {"\x1b[2J\r\x7f", "\\x1b[2J\\r\\x7f", 13},
    {"\x1b]0;title\a", "\\x1b]0;title\\a", 14},
    {"caf\xe9", "caf\\xe9", 7},
    {"cut \xe2\x9c", "cut \\xe2\\x9c", 12},
    {"\xc2\x9b"
     "31m\xc2\xa0",
     "\\u009b31m\xc2\xa0", 10},              /* And a blank that is none */
    {"a\xe2\x80\xaeltr", "a\\u202eltr", 10}, /* turns the direction */
    {"\xe2\x81\xa6\xe2\x80\x8f", "\\u2066\\u200f", 12},
    {"\xe2\x80\xa8line", "\\u2028line", 10},
    {"\xef\xbb\xbfmark", "\\ufeffmark", 10},
    {"\xc2\xad", "\\u00ad", 6},              /* a soft hyphen */
    {"\xf3\xa0\x80\x81", "\\U000e0001", 10}, /* a tag, which is hidden */
    {"\xe2\x80\x8d", "\xe2\x80\x8d", 0},     /* the joiner of scripts and emoji */
    {"\xed\xa0\x80", "\\xed\\xa0\\x80", 12}, /* half a surrogate pair */
};
enum { ROWS = sizeof rows / sizeof *rows };

static void what_a_terminal_obeys_is_an_escape(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        nt__text text = {0};
        nt__text_show(&text, rows[i].text, "\n\t");
        assert_string_equal(text.data ? text.data : "", rows[i].shown);
        nt__text_free(&text);
        nt__fail(NT_INVALID, "'%s'", rows[i].text);
        char message[64];
        snprintf(message, sizeof message, "'%s'", rows[i].shown);
        assert_string_equal(nt_error_message(), message);
    }
    nt__text text = {0};
    nt__text_show(&text, "a\nb\tc", "");
    assert_string_equal(text.data, "a\\nb\\tc");
    nt__text_free(&text);
}

static void every_byte_is_shown(void **state) {
    (void)state;
    for (int byte = 1; byte < 256; byte++) {
        char text[2] = {(char)byte, 0}, shown[16];
        size_t length = nt__show(text, "", shown, sizeof shown);
        assert_int_equal(length, strlen(shown));
        assert_true(nt__is_utf8(shown, length));
        assert_int_equal(length == 1, byte >= 0x20 && byte < 0x7f);
    }
}

/* No part of a character or an escape. */
static void what_does_not_fit_is_left_out(void **state) {
    (void)state;
    char out[8];
    assert_int_equal(nt__show("ab\x1b", "", out, 6), 6);
    assert_string_equal(out, "ab");
    assert_int_equal(nt__show("ab\x1b", "", out, 7), 6);
    assert_string_equal(out, "ab\\x1b");
    assert_int_equal(nt__show("\xc3\xbc\xc3\xbc", "", out, 4), 4);
    assert_string_equal(out, "\xc3\xbc");
    assert_int_equal(nt__show("abc", "", NULL, 0), 3);
}

static void widths_are_columns(void **state) {
    (void)state;
    size_t width;
    for (size_t i = 0; i < ROWS; i++)
        if (!strpbrk(rows[i].shown, "\n\t")) assert_int_equal(nt__shown_width(rows[i].shown), rows[i].width);
    assert_int_equal(nt__fitting("\xe6\x97\xa5\xe6\x9c\xac", 3, &width), 3);
    assert_int_equal(width, 2);
    assert_int_equal(nt__fitting("abc", 2, &width), 2);
    assert_int_equal(nt__fitting("abc", 9, &width), 3);
    assert_int_equal(width, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_terminal_obeys_is_an_escape),
        cmocka_unit_test(every_byte_is_shown),
        cmocka_unit_test(what_does_not_fit_is_left_out),
        cmocka_unit_test(widths_are_columns),
    };
    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
/* NOLINTEND(misc-misleading-bidirectional) */
