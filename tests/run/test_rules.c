/* Runs with the rules that look at arrays, and with rules of one's own that do: what is set up, uploaded and trained,
 * in one group and in two, and what a mistake in such a rule says. The formulas are compared in tests/optim.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/run_internal.h"
#include "toy.h"

static nt_rule chosen;

static nt_rule choose(const void *e, const char *group) {
    (void)e;
    (void)group;
    return chosen;
}

static const char *group_of(const void *e, const char *path) {
    (void)e;
    return strstr(path, "bias") ? "biases" : NULL;
}

static nt_status make(nt_rule rule, bool grouped, double rate, heard *h, nt_run **out) {
    static nt_experiment experiment;
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(h);
    experiment = *Toy_experiment();
    experiment.hooks.optimizer = choose;
    experiment.hooks.param_group = grouped ? group_of : NULL;
    options.learning_rate = (nt_maybe_double){true, rate};
    chosen = rule;
    return nt_run_new(&experiment, &e, &options, out);
}

/* A group of vectors alone has no matrix, one of matrices alone no vector: their states of that kind are empty. */
static void each_rule_trains(void **state) {
    (void)state;
    const struct {
        nt_rule rule;
        double rate;
    } rules[] = {{nt_lamb(.weight_decay = 1e-3), 0.05},
                 {nt_lars(.trust = 0.05), 0.05},
                 {nt_adafactor(.factored_from = 2), 0.1},
                 {nt_adafactor(.no_parameter_scale = true), 0.05},
                 {nt_muon(), 0.05},
                 {nt_schedule_free_adamw(), 0.1}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (int grouped = 0; grouped < 2; grouped++) {
            heard h = {0};
            nt_run *run;
            assert_ok(make(rules[i].rule, grouped, rules[i].rate, &h, &run));
            assert_int_equal(run->traced.layout.group_count, 1 + grouped);
            assert_ok(nt_train_more(run, 25, 0));
            if (!(h.epoch_losses[24] < h.epoch_losses[0] / 2))
                fail_msg("%s: loss %g, then %g", nt_rule_name(rules[i].rule), h.epoch_losses[0], h.epoch_losses[24]);
            nt_run_free(run);
        }
}

/* ---- of one's own ----------------------------------------------------------------------------------------------- */

/* SGD whose step of each array is as long as the array's number of elements says. */
static nt_tensor normalized_update(nt_update *u) {
    nt_tensor size = nt_sqrt(nt_update_sums(u, nt_square(u->g)));
    nt_tensor factor = nt_convert(nt_div(1, nt_add(size, 1e-12)), u->dtype);
    return nt_mul(u->eta, nt_mul(u->g, nt_update_spread(u, factor)));
}

static const nt_rule_kind normalized = {
    .name = "Normalized", .update = normalized_update, .uses_rate = true, .uses_arrays = true};

/* The step of every array has the length of the rate. */
static void sums_are_over_arrays_of_the_model(void **state) {
    (void)state;
    nt_run *run;
    assert_ok(make(nt_rule_of(&normalized, 0), false, 0.5, NULL, &run));
    nt_parameter_info info;
    nt_array *before[8], *after;
    size_t count = 0;
    for (; nt_run_parameter_at(run, count, &info); count++) before[count] = nt_run_parameter(run, info.path);
    assert_int_equal(count, 4);
    assert_ok(nt_train_more(run, 0, 1));
    for (size_t i = 0; i < count; i++) {
        assert_true(nt_run_parameter_at(run, i, &info));
        assert_non_null(after = nt_run_parameter(run, info.path));
        double sum = 0;
        for (int64_t j = 0; j < info.length; j++) sum += pow(nt_array_get(after, j) - nt_array_get(before[i], j), 2);
        if (fabs(sqrt(sum) - 0.5) > 1e-5) fail_msg("%s moved by %g", info.path, sqrt(sum));
        nt_array_free(after);
        nt_array_free(before[i]);
    }
    nt_run_free(run);
}

static const nt_rule_kind undeclared = {.name = "Undeclared", .update = normalized_update, .uses_rate = true};

static nt_tensor short_average(const nt_update *u) {
    return nt_sum(u->x);
}

static nt_tensor plain_update(nt_update *u) {
    return nt_mul(u->eta, u->g);
}

static const nt_rule_kind averaging = {
    .name = "Averaging", .update = plain_update, .evaluated = short_average, .uses_rate = true};

static nt_tensor no_average(const nt_update *u) {
    (void)u;
    return (nt_tensor){0};
}

static const nt_rule_kind forgetful = {
    .name = "Forgetful", .update = plain_update, .evaluated = no_average, .uses_rate = true};

static int64_t less_than_nothing(const nt_rule_array *arrays, size_t count, const double *numbers) {
    (void)arrays;
    (void)numbers;
    return -(int64_t)count;
}

static const nt_rule_kind negative = {.name = "Negative",
                                      .states = {{.name = "s", .length = less_than_nothing}},
                                      .update = plain_update,
                                      .uses_rate = true};

static void mistakes_are_told(void **state) {
    (void)state;
    nt_run *run;
    assert_fails(make(nt_rule_of(&undeclared, 0), false, 0.5, NULL, &run), NT_INVALID,
                 "nt_update_sums: the rule's kind does not say .uses_arrays = true");
    assert_fails(make(nt_rule_of(&averaging, 0), false, 0.5, NULL, &run), NT_INVALID,
                 "Averaging: its evaluated returned f32[]; it must be as the parameters are");
    assert_fails(make(nt_rule_of(&forgetful, 0), false, 0.5, NULL, &run), NT_INVALID,
                 "Forgetful: its evaluated returned no tensor");
    assert_fails(make(nt_rule_of(&negative, 0), false, 0.5, NULL, &run), NT_INVALID,
                 "the optimizer of group 'default': state 's' of rule Negative has a length of -4");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_trains),
        cmocka_unit_test(sums_are_over_arrays_of_the_model),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, shut_down);
}
