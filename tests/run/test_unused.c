/* Options that nothing of a run would use are refused with the reason, and settings come from fields. No engine: the
 * runs are plans.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/run.h"
#include "run/run_internal.h"
#include "toy.h"

/* ---- an experiment whose fields are settings -------------------------------------------------------------------- */

#define RATED(FIELD, DEVICE, GRAPH_CONST)              \
    FIELD(double, learning_rate, 3e-3, "a setting")    \
    FIELD(const char *, log, "csv", "a setting")       \
    FIELD(int, max_epochs, 4, "a setting")             \
    FIELD(bool, scheduled, false, "by the hook")       \
    FIELD(bool, decays_from_rate, false, "the hook's") \
    DEVICE(float, smoothing, 0.1f, "of labels")
NT_EXPERIMENT(Rated, RATED)

static nt_status build_data(const Rated *e, nt_data *data) {
    (void)e;
    nt_split(data, "train", .batch = 16);
    nt_split_field(data, "train", "x", toy_points(64, false));
    nt_split_field(data, "train", "label", toy_labels(64, 0));
    return nt_data_status(data);
}

static nt_tensor forward(const Rated_view *e, nt_model *m, nt_batch *batch) {
    (void)e;
    return nt_dense(m, "logits", nt_field(batch, "x"), 2);
}

static nt_tensor loss(const Rated_view *e, nt_tensor logits, nt_batch *batch) {
    return nt_cross_entropy(logits, nt_field(batch, "label"), .label_smoothing = e->smoothing);
}

static void schedules(const Rated *e, nt_schedules *out) {
    double from = e->decays_from_rate ? e->learning_rate : 0.5;
    if (e->scheduled) nt_schedule_set(out, "learning_rate", nt_schedule_linear(from, 0, .steps = 4 * e->max_epochs));
}

NT_DEFINE(Rated, RATED, .build_data = build_data, .forward = forward, .loss = loss, .schedules = schedules);

static nt_status plan(const Rated *e, const nt_run_options *options, nt_run **run) {
    return nt__plan_new(Rated_experiment(), e, options, run);
}

/* ---- refused ---------------------------------------------------------------------------------------------------- */

static const nt_named_schedule no_schedule[] = {{0}};
static const char *const maps[] = {"*=*"};

#define WHOLE \
    { true, 1 }
#define REAL \
    { true, 0.5 }
#define UNWRITTEN .checkpoint = {true, false}
#define NOT_WRITTEN "no checkpoint is written, because checkpoint is false"

static const struct {
    nt_run_options options;
    const char *name, *reason;
} refused[] = {
    {{UNWRITTEN, .checkpoint_every_steps = WHOLE}, "checkpoint_every_steps", NOT_WRITTEN},
    {{UNWRITTEN, .checkpoint_every_minutes = REAL}, "checkpoint_every_minutes", NOT_WRITTEN},
    {{UNWRITTEN, .checkpoint_keep = WHOLE}, "checkpoint_keep", NOT_WRITTEN},
    {{UNWRITTEN, .checkpoint_metric = "val_loss"}, "checkpoint_metric", NOT_WRITTEN},
    {{UNWRITTEN, .checkpoint_mode = "min"}, "checkpoint_mode", NOT_WRITTEN},
    {{UNWRITTEN, .checkpoint_keep_latest = {true, true}}, "checkpoint_keep_latest", NOT_WRITTEN},
    {{UNWRITTEN, .checkpoint_keep_epochs = WHOLE}, "checkpoint_keep_epochs", NOT_WRITTEN},
    {{UNWRITTEN, .checkpoint_keep_steps = WHOLE}, "checkpoint_keep_steps", NOT_WRITTEN},
    {{UNWRITTEN, .checkpoint_scope = "dir"}, "checkpoint_scope", NOT_WRITTEN},
    {{.no_log = true, .checkpoint = {true, true}}, "checkpoint", "because no_log is given"},
    {{.no_log = true, .checkpoint_keep = WHOLE}, "checkpoint_keep", "because no_log is given"},
    {{.no_log = true, .log = "csv"}, "log", "nothing is logged, because no_log is given"},
    {{.no_log = true, .histograms = true}, "histograms", "there is no log"},
    {{.log = "none", .histograms = true}, "histograms", "there is no log"},
    {{.log = "jsonl,csv", .histograms = true}, "histograms", "none of the loggers keeps histograms"},
    {{.weight_maps = maps, .weight_map_count = 1}, "weight_maps", "no weights are given"},
};

static void an_option_without_effect_is_refused(void **state) {
    (void)state;
    char line[256];
    Rated e = Rated_defaults();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        nt_run *run;
        snprintf(line, sizeof line, "the option %s is given, and nothing would use it: ", refused[i].name);
        assert_fails(plan(&e, &refused[i].options, &run), NT_INVALID, line);
        assert_non_null(strstr(nt_error_message(), refused[i].reason));
        assert_null(run);
    }
}

static void options_with_an_effect_are_taken(void **state) {
    (void)state;
    static const nt_run_options taken[] = {
        {.evaluate_only = true, .max_epochs = WHOLE, .checkpoint_keep = WHOLE},
        {UNWRITTEN, .weights = "other:best", .checkpoint_metric = "val_loss"},
        {.no_log = true, .checkpoint = {true, false}, .log = "none", .gradient_norm = true},
        {.log = "jsonl,tensorboard", .histograms = true},
        {.max_epochs = WHOLE, .checkpoint_keep = WHOLE, .restore_best = true},
    };
    Rated e = Rated_defaults();
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        nt_run *run;
        assert_ok(plan(&e, &taken[i], &run));
        nt_run_free(run);
    }
}

/* ---- the rate --------------------------------------------------------------------------------------------------- */

static double given_rate;
static nt_status plan_with_rate(const Rated *e, const nt_named_schedule *given, nt_run **run) {
    return plan(e, &(nt_run_options){.learning_rate = {true, given_rate}, .schedules = given}, run);
}

static void a_rate_that_nothing_uses_is_refused(void **state) {
    (void)state;
    static const char line[] = "the option learning_rate is given as 0.01, and nothing would use it: ";
    nt_run *run;
    Rated e = Rated_defaults();
    const nt_named_schedule given[] = {{"learning_rate", nt_schedule_constant(1)}, {0}};
    given_rate = 0.01;
    assert_fails(plan_with_rate(&e, given, &run), NT_INVALID, line);
    assert_non_null(strstr(nt_error_message(), "the run's option sets every rate"));
    assert_ok(plan_with_rate(&e, no_schedule, &run));
    nt_run_free(run);
    e.scheduled = true;
    assert_fails(plan_with_rate(&e, NULL, &run), NT_INVALID, line);
    assert_non_null(strstr(nt_error_message(), "the schedules hook sets every rate"));
    assert_ok(plan_with_rate(&e, no_schedule, &run));
    nt_run_free(run);
    e.decays_from_rate = true; /* the hook reads the field, which has what was given */
    assert_ok(plan_with_rate(&e, NULL, &run));
    assert_true(nt__schedule_value(&run->resident.bindings[0].schedule, 1, 16) > 5e-3);
    nt_run_free(run);
}

/* ---- fields ----------------------------------------------------------------------------------------------------- */

static void a_field_gives_each_setting(void **state) {
    (void)state;
    nt_run *run;
    char *text = NULL;
    size_t length;
    Rated e = Rated_defaults();
    assert_ok(plan(&e, NULL, &run));
    assert_true(run->task.settings.learning_rate == 3e-3);
    assert_string_equal(run->task.settings.log, "csv");
    assert_int_equal(run->task.settings.max_epochs, 4);
    FILE *out = open_memstream(&text, &length);
    assert_ok(nt_run_report(run, out));
    fclose(out);
    assert_non_null(strstr(text, "  learning_rate: 0.003 [field]\n"));
    assert_non_null(strstr(text, "  log: csv [field]\n"));
    free(text);
    nt_run_free(run);
}

/* A rate that no group uses is not shown. */
static void a_rate_without_use_is_not_reported(void **state) {
    (void)state;
    nt_run *run;
    char *text = NULL;
    size_t length;
    Rated e = Rated_defaults();
    e.scheduled = true;
    assert_ok(plan(&e, NULL, &run));
    assert_false(nt__uses_base_rate(&run->resident));
    FILE *out = open_memstream(&text, &length);
    assert_ok(nt_run_report(run, out));
    fclose(out);
    assert_null(strstr(text, "  learning_rate: 0.003"));
    free(text);
    nt_run_free(run);
}

/* Hooks see what an option gives in the field of that name. */
static void a_field_has_the_value_of_the_option(void **state) {
    (void)state;
    nt_run *run;
    Rated e = Rated_defaults();
    e.scheduled = true;
    nt_run_options options = {.max_epochs = {true, 7}, .log = "jsonl"};
    assert_ok(plan(&e, &options, &run));
    const Rated *own_fields = run->task.fields;
    assert_int_equal(own_fields->max_epochs, 7);
    assert_string_equal(own_fields->log, "jsonl");
    assert_int_equal(run->resident.bindings[0].schedule.steps, 28);
    assert_int_equal(e.max_epochs, 4);
    nt_run_free(run);
    options.max_epochs.value = (int64_t)1 << 40; /* more than an int */
    assert_fails(plan(&e, &options, &run), NT_INVALID, "max_epochs");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_option_without_effect_is_refused), cmocka_unit_test(options_with_an_effect_are_taken),
        cmocka_unit_test(a_rate_that_nothing_uses_is_refused), cmocka_unit_test(a_field_gives_each_setting),
        cmocka_unit_test(a_rate_without_use_is_not_reported),  cmocka_unit_test(a_field_has_the_value_of_the_option),
    };
    return cmocka_run_group_tests_name("unused", tests, NULL, shut_down);
}
