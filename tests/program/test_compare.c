/* What moved between two traces in which equal expressions are one node: the place that is named is the one that was
 * edited. Whole experiments are edited in tests/run/test_edits.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "program/program_internal.h"

/* A function of the user's whose lines are edited one at a time. */
typedef struct edit {
    bool first_is_tanh, second_is_tanh, no_second;
    double number;
} edit;

enum { FIRST = __LINE__ + 3, SECOND = FIRST + 1, NUMBER = SECOND + 1 };

static nt_tensor function(const edit *e, nt_tensor x) {
    nt_tensor y = e->first_is_tanh ? nt_tanh(x) : nt_exp(x);
    if (!e->no_second) y = nt_mul(y, e->second_is_tanh ? nt_tanh(x) : nt_exp(x));
    return nt_neg(nt_add(nt_mul(y, 2), e->number));
}

static nt__printed print(const edit *e) {
    nt__printed printed;
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    nt_tensor x = nt__input(0, 0, "x", (nt__type){NT_F32, nt_dims(2)});
    nt_status status = nt__print("test", &(nt__result){"y", function(e, x), {0}}, 1, &printed);
    if (status != NT_OK) fail_msg("%s", nt_error_message());
    nt__trace_end(graph);
    return printed;
}

static nt__description description_of(const nt__printed *printed) {
    return (nt__description){.lines = printed->lines,
                             .line_count = printed->line_count,
                             .text = printed->text.data,
                             .first_line = printed->first_line};
}

/* `line` 0: the message has no place. */
static void assert_moved(const edit *old, const edit *new, int line, const char *what) {
    nt__printed before = print(old), after = print(new);
    nt__description from = description_of(&before), to = description_of(&after);
    nt__text text = {0};
    nt__description_compare(&from, &to, &text);
    char place[64] = "";
    if (line) snprintf(place, sizeof place, "test_compare.c:%d in function: ", line);
    const char *found = strstr(text.data, place);
    if (!found || strncmp(found + strlen(place), what, strlen(what)) != 0)
        fail_msg("'%s' is not '%s%s'", text.data, place, what);
    nt__text_free(&text);
    nt__printed_free(&before);
    nt__printed_free(&after);
}

static void the_edited_one_of_two_equal_expressions_is_named(void **state) {
    (void)state;
    const edit none = {.number = 3}, first = {.first_is_tanh = true, .number = 3};
    const edit second = {.second_is_tanh = true, .number = 3};
    assert_moved(&none, &first, FIRST, "new, tanh"); /* the exponential is still there, for the second */
    assert_moved(&none, &second, SECOND, "new, tanh");
    assert_moved(&second, &none, SECOND, "tanh : (tensor<2xf32>) -> tensor<2xf32> -> gone");
    assert_moved(&first, &second, FIRST, "tanh : (tensor<2xf32>) -> tensor<2xf32> -> exponential");
}

static void a_repeated_expression_that_goes_leaves_its_use(void **state) {
    (void)state;
    const edit none = {.number = 3}, without = {.no_second = true, .number = 3};
    assert_moved(&none, &without, SECOND, "multiply : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> -> gone");
    assert_moved(&without, &none, SECOND, "new, multiply");
}

/* The number 2 is in the line already. */
static void a_number_that_meets_an_equal_one_is_named(void **state) {
    (void)state;
    const edit none = {.number = 3}, equal = {.number = 2}, other = {.number = 4};
    assert_moved(&none, &other, NUMBER, "constant <{value = dense<3>");
    assert_moved(&none, &equal, NUMBER, "constant <{value = dense<3>");
    assert_moved(&equal, &none, NUMBER, "new, constant <{value = dense<3>");
    assert_moved(&none, &none, 0, "the same program");
}

/* ---- how a line is shown ---------------------------------------------------------------------------------------- */

static void assert_shown(const char *old, const char *new, const char *expected) {
    const nt_site nowhere = {"", "", 0};
    const nt__line before = {old, nowhere}, after = {new, nowhere};
    const nt__description from = {.lines = &before, .line_count = 1, .text = old};
    const nt__description to = {.lines = &after, .line_count = 1, .text = new};
    nt__text text = {0};
    nt__description_compare(&from, &to, &text);
    assert_string_equal(text.data, expected);
    nt__text_free(&text);
}

static void floating_constants_are_shown_in_decimal(void **state) {
    (void)state;
    assert_shown("constant dense<0x3DCCCCCD> : tensor<8x3xf32>", "constant dense<0xFF800000> : tensor<f32>",
                 "constant dense<0.1> : tensor<8x3xf32> -> constant dense<-inf> : tensor<f32>");
    assert_shown("constant dense<0x3FB999999999999A> : tensor<f64>", "constant dense<[0x3C00, 0x8000]> : tensor<2xf16>",
                 "constant dense<0.1> : tensor<f64> -> constant dense<[1, -0]> : tensor<2xf16>");
    assert_shown("constant dense<0x3DCD> : tensor<2xbf16>", "constant dense<0x7F7FFFFF> : tensor<2xf32>",
                 "constant dense<0.1> : tensor<2xbf16> -> constant dense<3.4028235e+38> : tensor<2xf32>");
    /* A nan that no number gives, and what is no element, stay as they are. */
    assert_shown("constant dense<0x7FC00000> : tensor<f32>", "constant dense<0xFFC00001> : tensor<f32>",
                 "constant dense<nan> : tensor<f32> -> constant dense<0xFFC00001> : tensor<f32>");
    assert_shown("x 0x12 : tensor<f32>", "x 0x : tensor<4", "x 0x12 : tensor<f32> -> x 0x : tensor<4");
}

/* Of two long lines the parts that differ are shown, wherever these are. */
static void long_lines_are_cut_where_they_differ(void **state) {
    (void)state;
    enum { ELEMENTS = 100 };
    for (int different = 0; different < ELEMENTS; different++) {
        nt__text old = {0}, new = {0}, shown = {0};
        nt__text_add(&old, "constant <{value = dense<[0x41100000");
        nt__text_add(&new, "constant <{value = dense<[0x41100000");
        for (int i = 0; i < ELEMENTS; i++) {
            nt__text_add(&old, ", 0x3F800000");
            nt__text_add(&new, ", 0x%s", i == different ? "42F68000" : "3F800000");
        }
        nt__text_add(&old, "]> : tensor<101xf32>}>");
        nt__text_add(&new, "]> : tensor<101xf32>}>");
        const nt__line before = {old.data, {"", "", 0}}, after = {new.data, {"", "", 0}};
        const nt__description from = {.lines = &before, .line_count = 1, .text = old.data};
        const nt__description to = {.lines = &after, .line_count = 1, .text = new.data};
        nt__description_compare(&from, &to, &shown);
        assert_memory_equal(shown.data, "constant ", strlen("constant "));
        assert_non_null(strstr(shown.data, " -> constant "));
        assert_non_null(strstr(strstr(shown.data, " -> "), ", 123.25"));
        assert_non_null(strstr(shown.data, "..."));
        assert_in_range(shown.length, 200, 290);
        nt__text_free(&old);
        nt__text_free(&new);
        nt__text_free(&shown);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_edited_one_of_two_equal_expressions_is_named),
        cmocka_unit_test(a_repeated_expression_that_goes_leaves_its_use),
        cmocka_unit_test(a_number_that_meets_an_equal_one_is_named),
        cmocka_unit_test(floating_constants_are_shown_in_decimal),
        cmocka_unit_test(long_lines_are_cut_where_they_differ),
    };
    return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
