/* src/optim: what the text of the optimizer program holds, and the names of rules. No engine.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stepper.h"

enum { SIZE = 10 };

/* ---- the program's text ----------------------------------------------------------------------------------------- */

static nt__printed print_optimizer(nt_rule rule, double clip) {
    stepper s = stepper_of_one(rule, NT_F32, SIZE);
    nt__printed printed;
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    stepper_trace(&s, clip);
    assert_ok(nt__print("optimizer", s.results, s.result_count, &printed));
    nt__trace_end(graph);
    stepper_free(&s);
    return printed;
}

static bool same_optimizer(nt_rule rule, double clip, nt_rule other_rule, double other_clip) {
    nt__printed first = print_optimizer(rule, clip), second = print_optimizer(other_rule, other_clip);
    bool same = strcmp(first.text.data, second.text.data) == 0;
    nt__printed_free(&first);
    nt__printed_free(&second);
    return same;
}

static void no_threshold_emits_nothing_l52(void **state) {
    (void)state;
    nt__printed printed = print_optimizer(nt_sgd(), 0);
    assert_null(strstr(printed.text.data, "sqrt"));
    assert_null(strstr(printed.text.data, "constant"));
    nt__printed_free(&printed);
    assert_true(same_optimizer(nt_adam(), 0, nt_adam(), -1));
    assert_true(same_optimizer(nt_adam(), 0, nt_adam(), NAN));
}

static void a_threshold_is_a_constant_of_the_text_l54(void **state) {
    (void)state;
    assert_false(same_optimizer(nt_adam(), 0, nt_adam(), 1));
    assert_false(same_optimizer(nt_adam(), 1, nt_adam(), 2));
    assert_true(same_optimizer(nt_adam(), 1, nt_adam(), 1));
}

static void the_constants_of_a_rule_are_in_the_text(void **state) {
    (void)state;
    assert_true(same_optimizer(nt_adam(), 0, nt_adam(.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8), 0));
    assert_false(same_optimizer(nt_adam(), 0, nt_adam(.beta1 = 0.8), 0));
    assert_false(same_optimizer(nt_adam(), 0, nt_adam(.beta2 = 0.9), 0));
    assert_false(same_optimizer(nt_adam(), 0, nt_adam(.epsilon = 1e-6), 0));
    assert_false(same_optimizer(nt_adam(), 0, nt_radam(), 0));
}

/* The rate, the states and the step are arguments, each once. None of them is a constant. */
static void rates_and_states_are_arguments(void **state) {
    (void)state;
    nt__printed printed = print_optimizer(nt_radam(), 0);
    bool seen[GROUP_ARRAYS] = {false};
    assert_int_equal(printed.argument_count, 8);
    for (size_t i = 0; i < printed.argument_count; i++) seen[printed.arguments[i].index] = true;
    assert_true(seen[PARAMETERS] && seen[GRADIENT] && seen[RATE]);
    for (int i = 0; i < 5; i++) assert_true(seen[STATE + i]);
    nt__printed_free(&printed);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static void the_default_rule_is_radam(void **state) {
    (void)state;
    nt_rule rule = nt__rule_resolve((nt_rule){0});
    nt__text text = {0};
    nt__rule_print(&rule, false, &text);
    assert_string_equal(text.data, "RAdam(beta1 0.9, beta2 0.999, epsilon 1e-08)");
    nt__text_free(&text);
    assert_string_equal(nt_rule_name((nt_rule){0}), "RAdam");
    assert_string_equal(nt_rule_name(nt_adam()), "Adam");
    assert_string_equal(nt_rule_name(nt_sgd()), "SGD");
    rule = nt__rule_resolve(nt_sgd());
    nt__rule_print(&rule, false, &text);
    assert_string_equal(text.data, "SGD()");
    nt__text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_threshold_emits_nothing_l52),
        cmocka_unit_test(a_threshold_is_a_constant_of_the_text_l54),
        cmocka_unit_test(the_constants_of_a_rule_are_in_the_text),
        cmocka_unit_test(rates_and_states_are_arguments),
        cmocka_unit_test(the_default_rule_is_radam),
    };
    return cmocka_run_group_tests(tests, NULL, close_engine);
}
