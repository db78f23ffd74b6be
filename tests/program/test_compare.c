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
    assert_moved(&none, &other, NUMBER, "constant <{value = dense<0x40400000>");
    assert_moved(&none, &equal, NUMBER, "constant <{value = dense<0x40400000>");
    assert_moved(&equal, &none, NUMBER, "new, constant <{value = dense<0x40400000>");
    assert_moved(&none, &none, 0, "the same program");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_edited_one_of_two_equal_expressions_is_named),
        cmocka_unit_test(a_repeated_expression_that_goes_leaves_its_use),
        cmocka_unit_test(a_number_that_meets_an_equal_one_is_named),
    };
    return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
