/* Parameters that evaluations have and training does not: the moving average (ema_decay) and schedule-free AdamW, in
 * validation, evaluation, prediction and saved files, while training goes on with its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/run_internal.h"
#include "toy.h"

/* ---- making ----------------------------------------------------------------------------------------------------- */

static nt_rule sgd(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_sgd();
}

static nt_rule schedule_free(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_schedule_free_adamw();
}

static const char *group_of(const void *e, const char *path) {
    (void)e;
    return strncmp(path, "hidden", 6) == 0 ? "body" : NULL;
}

static nt_rule frozen_body(const void *e, const char *group) {
    return strcmp(group, "body") == 0 ? nt_frozen() : sgd(e, group);
}

static nt_experiment with_rule(nt_rule (*rule)(const void *e, const char *group)) {
    nt_experiment changed = *Toy_experiment();
    changed.hooks.optimizer = rule;
    return changed;
}

static nt_run *make(const nt_experiment *experiment, double ema_decay, heard *h) {
    Toy e = Toy_defaults();
    nt_run *run;
    nt_run_options options = quiet_options(h);
    options.learning_rate = (nt_maybe_double){true, 0.1};
    options.ema_decay = (nt_maybe_double){ema_decay > 0, ema_decay};
    assert_ok(nt_run_new(experiment, &e, &options, &run));
    return run;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* A buffer of a group as host elements. */
static nt_array *copy_of(nt_run *run, nt__buffer *buffer) {
    nt_array *array = nt_array_new(buffer->type.dtype, buffer->type.shape);
    assert_non_null(array);
    assert_ok(nt__buffer_read(run->traced.engine, buffer, array->data));
    return array;
}

static nt_array *trained(nt_run *run) {
    return copy_of(run, &run->resident.device.parameters[0]);
}

/* What evaluations have of the group that all parameters are in. */
static nt_array *evaluated(nt_run *run) {
    assert_ok(nt__averages_begin(&run->resident));
    nt_array *array = copy_of(run, nt__evaluated_parameters(&run->resident, 0));
    nt__averages_end(&run->resident);
    return array;
}

static void assert_same(const nt_array *a, const nt_array *b, double tolerance) {
    assert_int_equal(a->bytes, b->bytes);
    for (int64_t i = 0; i < nt_shape_elements(a->shape); i++) {
        double x = nt_array_get(a, i), y = nt_array_get(b, i);
        if (fabs(x - y) > tolerance) fail_msg("element %lld: %.9g and %.9g", (long long)i, x, y);
    }
}

static double metric(const nt_results *results, const char *name) {
    for (size_t i = 0; i < results->count; i++)
        if (strcmp(results->values[i].name, name) == 0) return results->values[i].value;
    fail_msg("no metric '%s'", name);
    return 0;
}

static nt_array *predict(nt_run *run) {
    nt_array *points = toy_points(20, false), *out;
    assert_ok(nt_predict(run, &(nt_named_array){"x", points}, 1, &out));
    nt_array_free(points);
    return out;
}

/* ---- the moving average ----------------------------------------------------------------------------------------- */

static void the_average_follows_the_parameters(void **state) {
    (void)state;
    nt_experiment experiment = with_rule(sgd);
    nt_run *run = make(&experiment, 0.75, NULL);
    nt_array *average = trained(run), *start = evaluated(run);
    assert_same(average, start, 0);
    nt_array_free(start);
    for (int step = 0; step < 5; step++) {
        assert_ok(nt_train_more(run, 0, 1));
        nt_array *x = trained(run), *got = evaluated(run);
        for (int64_t i = 0; i < nt_shape_elements(x->shape); i++)
            nt_array_set(average, i, 0.75 * nt_array_get(average, i) + 0.25 * nt_array_get(x, i));
        assert_same(got, average, 1e-6);
        nt_array_free(x);
        nt_array_free(got);
    }
    nt_array_free(average);
    nt_run_free(run);
}

/* The losses are those of a run without it, bit by bit, and evaluating in between changes nothing. */
static void training_goes_on_with_its_own(void **state) {
    (void)state;
    nt_experiment experiment = with_rule(sgd);
    heard with = {0}, without = {0};
    nt_run *averaging = make(&experiment, 0.9, &with), *plain = make(&experiment, 0, &without);
    for (int epoch = 0; epoch < 2; epoch++) {
        assert_ok(nt_train_more(averaging, 1, 0));
        assert_ok(nt_train_more(plain, 1, 0));
        assert_ok(nt_validate(averaging, NULL));
        nt_array_free(predict(averaging));
        nt_array_free(nt_run_parameter(averaging, "hidden.bias"));
    }
    assert_int_equal(with.count, 16);
    for (size_t i = 0; i < with.count; i++) assert_true(with.losses[i] == without.losses[i]);
    assert_null(plain->traced.programs.average);
    nt_run_free(averaging);
    nt_run_free(plain);
}

/* A run that only evaluates, with what the other one saved. */
static nt_run *evaluator_of(nt_run *run) {
    const char *path = scratch("average.safetensors");
    Toy e = Toy_defaults();
    nt_run *evaluator;
    nt_run_options options = quiet_options(NULL);
    options.evaluate_only = true;
    assert_ok(nt_run_save(run, path));
    assert_ok(nt_run_new(Toy_experiment(), &e, &options, &evaluator));
    assert_ok(nt_run_load(evaluator, path));
    return evaluator;
}

static void assert_evaluates_alike(nt_run *run) {
    nt_run *evaluator = evaluator_of(run);
    nt_results here, there;
    assert_ok(nt_validate(run, &here));
    assert_ok(nt_validate(evaluator, &there));
    assert_true(metric(&here, "accuracy") == metric(&there, "accuracy"));
    nt_array *mine = predict(run), *its = predict(evaluator);
    assert_same(mine, its, 0);
    nt_array_free(mine);
    nt_array_free(its);
    mine = nt_run_parameter(run, "hidden.weight");
    its = nt_run_parameter(evaluator, "hidden.weight");
    assert_same(mine, its, 0);
    nt_array_free(mine);
    nt_array_free(its);
    nt_run_free(evaluator);
}

/* Not with what is trained: that predicts something else. */
static void all_that_looks_at_parameters_has_the_average(void **state) {
    (void)state;
    nt_experiment experiment = with_rule(sgd);
    nt_run *run = make(&experiment, 0.9, NULL);
    assert_ok(nt_train_more(run, 3, 0));
    assert_evaluates_alike(run);
    nt_array *average = predict(run);
    run->resident.device.averages[0] = run->resident.device.parameters[0];
    run->resident.device.average_users = 1;
    nt_array *raw = predict(run);
    run->resident.device.average_users = 0;
    run->resident.device.averages[0] = (nt__buffer){0};
    double largest = 0;
    for (int64_t i = 0; i < nt_shape_elements(raw->shape); i++)
        largest = fmax(largest, fabs(nt_array_get(raw, i) - nt_array_get(average, i)));
    assert_true(largest > 1e-3);
    nt_array_free(average);
    nt_array_free(raw);
    nt_run_free(run);
}

static void a_loaded_file_starts_the_average_again(void **state) {
    (void)state;
    nt_experiment experiment = with_rule(sgd);
    nt_run *run = make(&experiment, 0.9, NULL);
    assert_ok(nt_train_more(run, 2, 0));
    const char *path = scratch("loaded.safetensors");
    assert_ok(nt_run_save(run, path));
    assert_ok(nt_train_more(run, 1, 0));
    assert_ok(nt_run_load(run, path));
    nt_array *x = trained(run), *average = evaluated(run);
    assert_same(x, average, 0);
    nt_array_free(x);
    nt_array_free(average);
    nt_run_free(run);
}

static void a_frozen_group_has_no_average(void **state) {
    (void)state;
    nt_experiment experiment = with_rule(frozen_body);
    experiment.hooks.param_group = group_of;
    nt_run *run = make(&experiment, 0.9, NULL);
    assert_int_equal(run->traced.layout.group_count, 2);
    assert_int_equal(run->traced.state_count, 1);
    assert_ok(nt_train_more(run, 2, 0));
    assert_evaluates_alike(run);
    nt_run_free(run);
}

static void the_decay_is_a_number_below_1(void **state) {
    (void)state;
    static const double wrong[] = {1, -0.5, 2, NAN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Toy e = Toy_defaults();
        nt_run *run;
        nt_run_options options = quiet_options(NULL);
        options.ema_decay = (nt_maybe_double){true, wrong[i]};
        assert_fails(nt_run_new(Toy_experiment(), &e, &options, &run), NT_INVALID,
                     "give a number below 1 such as 0.999, 0 for no average");
    }
}

static void the_report_says_where_the_decay_is_from(void **state) {
    (void)state;
    nt_experiment experiment = with_rule(sgd);
    nt_run *run = make(&experiment, 0.9, NULL);
    nt__text text = {0};
    nt__report_add(&run->resident, &text);
    assert_non_null(strstr(text.data, "\n  ema_decay: 0.9 [option]\n"));
    assert_non_null(strstr(text.data, "\n    ema_decay 0.9 [option]\n"));
    nt__text_free(&text);
    nt_run_free(run);
}

/* Its decay may follow a schedule: with 0 from the start on, the average is what is trained. */
static void the_decay_may_be_scheduled(void **state) {
    (void)state;
    nt_experiment experiment = with_rule(sgd);
    Toy e = Toy_defaults();
    nt_run *run;
    nt_run_options options = quiet_options(NULL);
    options.ema_decay = (nt_maybe_double){true, 0.9};
    options.schedules = (const nt_named_schedule[]){{"opt.ema_decay", nt_schedule_constant(0)}, {0}};
    assert_ok(nt_run_new(&experiment, &e, &options, &run));
    assert_ok(nt_train_more(run, 0, 3));
    nt_array *x = trained(run), *average = evaluated(run);
    assert_same(x, average, 0);
    nt_array_free(x);
    nt_array_free(average);
    nt_run_free(run);
}

/* ---- schedule-free AdamW ---------------------------------------------------------------------------------------- */

static void schedule_free_evaluates_its_average(void **state) {
    (void)state;
    nt_experiment experiment = with_rule(schedule_free);
    heard h = {0};
    nt_run *run = make(&experiment, 0, &h);
    assert_ok(nt_train_more(run, 20, 0));
    nt_results results;
    assert_ok(nt_validate(run, &results));
    assert_true(metric(&results, "accuracy") > 0.9);
    assert_true(h.losses[h.count - 1] < h.losses[0] / 2);
    nt_array *y = trained(run), *x = evaluated(run), *z = copy_of(run, &run->resident.device.states[0]);
    for (int64_t i = 0; i < nt_shape_elements(y->shape); i++)
        nt_array_set(z, i, 0.9 * nt_array_get(x, i) + 0.1 * nt_array_get(z, i));
    assert_same(y, z, 1e-6);
    nt_array_free(x);
    nt_array_free(y);
    nt_array_free(z);
    assert_evaluates_alike(run);
    nt_run_free(run);
}

/* The weight_decay hook would decay y after its back. */
static double some_decay(const void *e, const char *group) {
    (void)e;
    (void)group;
    return 0.1;
}

static void schedule_free_has_one_average_and_one_decay(void **state) {
    (void)state;
    nt_experiment experiment = with_rule(schedule_free);
    Toy e = Toy_defaults();
    nt_run *run;
    nt_run_options options = quiet_options(NULL);
    options.ema_decay = (nt_maybe_double){true, 0.9};
    assert_fails(nt_run_new(&experiment, &e, &options, &run), NT_INVALID, "both say what to evaluate with");
    options.ema_decay = (nt_maybe_double){0};
    experiment.hooks.weight_decay = some_decay;
    assert_fails(nt_run_new(&experiment, &e, &options, &run), NT_INVALID, "would decay twice");
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static nt_rule lamb(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_lamb(.weight_decay = 0.01);
}

/* Every batch that is read is used. */
static nt_status whole_life(const nt_experiment *experiment) {
    Toy e = Toy_defaults();
    nt_run *run;
    e.rows = 32;
    e.val_rows = 16;
    nt_run_options options = quiet_options(NULL);
    options.ema_decay = (nt_maybe_double){true, 0.9};
    nt_status status = nt_run_new(experiment, &e, &options, &run);
    if (status != NT_OK) return status;
    status = nt_train_more(run, 1, 0);
    if (status == NT_OK) status = nt_run_save(run, scratch("life.safetensors"));
    if (status == NT_OK) status = nt_run_load(run, scratch("life.safetensors"));
    if (status == NT_OK) status = nt_validate(run, NULL);
    nt_run_free(run);
    return status;
}

/* Every allocation fails in turn: an error each time, nothing alive afterwards. */
static void every_allocation_may_fail(void **state) {
    (void)state;
    nt_experiment experiment = with_rule(lamb);
    assert_ok(whole_life(&experiment));
    size_t live = nt__memory().live, failures = 0;
    for (size_t n = 1;; n++) {
        size_t before = nt__memory().total;
        nt__memory_fail_at(n);
        nt_status status = whole_life(&experiment);
        bool reached = nt__memory().total - before >= n;
        nt__memory_fail_at(0);
        if (nt__memory().live != live) fail_msg("allocation %zu: %zu blocks, %zu before", n, nt__memory().live, live);
        if (nt__engine_counts_now().all_buffers.live_count != 0) fail_msg("allocation %zu: a buffer is alive", n);
        if (!reached) break;
        if (status == NT_OK) fail_msg("allocation %zu failed and nobody noticed", n);
        failures++;
    }
    assert_true(failures > 200);
}

static int end(void **state) {
    return scratch_remove(state) | shut_down(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_average_follows_the_parameters),
        cmocka_unit_test(training_goes_on_with_its_own),
        cmocka_unit_test(all_that_looks_at_parameters_has_the_average),
        cmocka_unit_test(a_loaded_file_starts_the_average_again),
        cmocka_unit_test(a_frozen_group_has_no_average),
        cmocka_unit_test(the_decay_is_a_number_below_1),
        cmocka_unit_test(the_report_says_where_the_decay_is_from),
        cmocka_unit_test(the_decay_may_be_scheduled),
        cmocka_unit_test(schedule_free_evaluates_its_average),
        cmocka_unit_test(schedule_free_has_one_average_and_one_decay),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, scratch_make, end);
}
