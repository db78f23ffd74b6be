/* src/optim/chain.c: how rules and chains print, and which are refused. No engine. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "optim/optim.h"

static void refused(nt_rule rule, const char *message) {
    rule = nt__rule_resolve(rule);
    assert_int_equal(nt__rule_check(&rule), NT_INVALID);
    if (!strstr(nt_error_message(), message)) fail_msg("'%s' is not in '%s'", message, nt_error_message());
}

static void admitted(nt_rule rule) {
    rule = nt__rule_resolve(rule);
    assert_int_equal(nt__rule_check(&rule), NT_OK);
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static void numbers_have_ranges(void **state) {
    (void)state;
    refused(nt_adam(.beta1 = 1.5), "beta1 of rule Adam is 1.5; it must be between 0 and 1");
    refused(nt_momentum(.rho = 1), "rho of rule Momentum is 1; it must be between 0 and 1");
    refused(nt_radam(.epsilon = -1), "epsilon of rule RAdam is -1; it must be above 0");
    refused(nt_adam(.epsilon = INFINITY), "epsilon of rule Adam is inf");
    refused(nt_chain(nt_clip_grad(.delta = NAN), nt_sgd()), "delta of rule ClipGrad is nan; it must be above 0");
    refused(nt_adamw(.weight_decay = -0.1), "weight_decay of rule AdamW is -0.1; it must be 0 or more");
    refused(nt_chain(nt_sgd(), nt_decay(-1)), "weight_decay of rule Decay is -1; it must be 0 or more");
    refused(nt_rmsprop(.momentum = 1), "momentum of rule RMSprop is 1");
    admitted(nt_chain(nt_clip_norm(.p = INFINITY), nt_sgd()));
    admitted((nt_rule){0});
}

/* ---- chains ----------------------------------------------------------------------------------------------------- */

static void decay_is_last_l41(void **state) {
    (void)state;
    refused(nt_chain(nt_decay(0.1), nt_adam()), "Decay is rule 1 of a chain of 2 (Decay, Adam): it must be the last");
    admitted(nt_chain(nt_clip_norm(), nt_radam(), nt_decay(0.1)));
}

static void an_average_is_last(void **state) {
    (void)state;
    refused(nt_chain(nt_schedule_free_adamw(), nt_clip_norm()),
            "schedule-free AdamW is rule 1 of a chain of 2 (schedule-free AdamW, ClipNorm): it must be the last");
    refused(nt__rule_with_ema(nt_schedule_free_adamw(), 0.9),
            "rules schedule-free AdamW and EMA of one chain both say what to evaluate with");
    refused(nt_chain(nt_schedule_free_adamw(), nt_decay(0.1)), "it must be the last");
    admitted(nt__rule_with_ema(nt_chain(nt_adam(), nt_decay(0.1)), 0.9));
    refused(nt__rule_with_ema(nt_adam(), 1), "ema_decay of rule EMA is 1; it must be from 0 to below 1");
    admitted(nt_chain(nt_clip_norm(), nt_schedule_free_adamw()));
}

static void inputs_are_not_shared_l42(void **state) {
    (void)state;
    refused(nt_chain(nt_adam(), nt_sgd()), "rules Adam and SGD of one chain both have learning_rate");
    refused(nt_chain(nt_adamw(), nt_decay(0.1)), "rules AdamW and Decay of one chain both have weight_decay");
    refused(nt_chain(nt_weight_decay(), nt_sgd(), nt_decay(0.1)), "rules WeightDecay and Decay of one chain both have");
    refused(nt_chain(nt_clip_grad(), nt_clip_grad(), nt_sgd()), "rules ClipGrad and ClipGrad of one chain both have");
    admitted(nt_chain(nt_clip_norm(), nt_clip_grad(), nt_adam()));
}

static void a_chain_uses_the_rate(void **state) {
    (void)state;
    refused(nt_chain(nt_clip_norm(), nt_clip_grad()),
            "no rule of the chain (ClipNorm, ClipGrad) uses the learning rate");
    refused(nt_decay(0.1), "no rule of the chain (Decay) uses the learning rate");
}

static void frozen_stands_alone(void **state) {
    (void)state;
    admitted(nt_frozen());
    refused(nt_chain(nt_frozen(), nt_adam()), "nt_frozen is rule 1 of a chain of 2 (Frozen, Adam)");
}

static void a_chain_has_a_limit(void **state) {
    (void)state;
    nt_rule four = nt_chain(nt_clip_norm(), nt_clip_grad(), nt_weight_decay(), nt_sgd());
    refused(nt_chain(four, four), "a chain of 8 rules (ClipNorm, ClipGrad, WeightDecay, SGD, ClipNorm, ClipGrad, ...)");
}

/* ---- kinds of one's own ----------------------------------------------------------------------------------------- */

static nt_tensor nothing(nt_update *u) {
    return u->g;
}

static int64_t one_element(const nt_rule_array *arrays, size_t count, const double *numbers) {
    (void)arrays;
    (void)count;
    (void)numbers;
    return 1;
}

static void a_kind_must_make_sense_l39(void **state) {
    (void)state;
    static const nt_rule_kind nameless = {.update = nothing}, still = {.name = "Still", .uses_rate = true},
                              lost = {.name = "Lost",
                                      .update = nothing,
                                      .uses_rate = true,
                                      .states = {{.name = "s", .start = NT_START_AT_NUMBER, .number = 2}}},
                              flat = {.name = "Flat",
                                      .update = nothing,
                                      .uses_rate = true,
                                      .states = {{.name = "s", .is_scalar = true, .start = NT_START_AT_PARAMETERS}}};
    static const nt_rule_kind other = {
        .name = "Other",
        .update = nothing,
        .uses_rate = true,
        .states = {{.name = "s", .length = one_element, .start = NT_START_AT_PARAMETERS}}};
    static const nt_rule_kind twins = {
        .name = "Twins", .update = nothing, .uses_rate = true, .states = {{.name = "s"}, {.name = "t"}, {.name = "s"}}};
    static const nt_rule_kind same = {.name = "Same",
                                      .update = nothing,
                                      .uses_rate = true,
                                      .numbers = {{.name = "a", .range = NT_ABOVE_0}, {.name = "a"}}};
    refused(nt_rule_of(&twins, 0), "rule Twins has two states named 's': a checkpoint tells them by name");
    refused(nt_rule_of(&same, 1, 1), "rule Same has two numbers named 'a': a schedule tells them by name");
    refused(nt_rule_of(&other, 0), "state 's' of rule Other has a length of its own and cannot start at the param");
    refused(nt_rule_of(NULL, 0), "a rule has no kind");
    refused(nt_rule_of(&nameless, 0), "a rule has no kind, or one without a name");
    refused(nt_rule_of(&still, 0), "rule Still has no update");
    refused(nt_rule_of(&lost, 0), "state 's' of rule Lost starts at number 2");
    refused(nt_rule_of(&flat, 0), "state 's' of rule Flat is a scalar and cannot start at the parameters");
}

/* ---- showing ---------------------------------------------------------------------------------------------------- */

static void assert_printed(nt_rule rule, bool constants, const char *expected) {
    nt__text text = {0};
    nt__rule_print(&rule, constants, &text);
    assert_string_equal(text.data, expected);
    nt__text_free(&text);
}

/* What is no part of the program is left out where the program is described. */
static void inputs_are_no_constants(void **state) {
    (void)state;
    nt_rule chain = nt_chain(nt_clip_norm(.omega = 2), nt_momentum(), nt_decay(0.5));
    assert_printed(chain, false, "ClipNorm(omega 2, p 2) > Momentum(rho 0.9) > Decay(weight_decay 0.5)");
    assert_printed(chain, true, "ClipNorm(p 2) > Momentum() > Decay()");
    assert_string_equal(nt_rule_name(chain), "ClipNorm, Momentum, Decay");
    assert_int_equal(nt__rule_input_count(&chain), 3);
    assert_int_equal(nt__rule_state_count(&chain), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_ranges),     cmocka_unit_test(decay_is_last_l41),
        cmocka_unit_test(an_average_is_last),      cmocka_unit_test(inputs_are_not_shared_l42),
        cmocka_unit_test(a_chain_uses_the_rate),   cmocka_unit_test(frozen_stands_alone),
        cmocka_unit_test(a_chain_has_a_limit),     cmocka_unit_test(a_kind_must_make_sense_l39),
        cmocka_unit_test(inputs_are_no_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
