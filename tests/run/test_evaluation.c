/* An evaluation computes what training computes: gradients with respect to fields of the batch, rows that look at one
 * another, short last batches; val_loss beside the metrics; names that a log cannot hold; predictions of short batches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "nitro/gradient.h"
#include "notices.h"
#include "run/run_internal.h"
#include "toy.h"

/* ---- an experiment that is all loss ----------------------------------------------------------------------------- */

/* val has 6 rows 0 0 0 0 10 20 in batches of 4, train the 4 rows 1 2 3 4. */
#define ALL(FIELD, DEVICE, GRAPH_CONST) FIELD(bool, drop, false, "whether val drops its last batch")
NT_EXPERIMENT(All, ALL)

static nt_status build_data(const All *e, nt_data *data) {
    static const float train[] = {1, 2, 3, 4}, val[] = {0, 0, 0, 0, 10, 20};
    nt_split(data, "train", .batch = 4);
    nt_split_field(data, "train", "x", nt_array_from(NT_F32, nt_dims(4, 1), train));
    nt_split(data, "val", .batch = 4, .drop_last = e->drop);
    nt_split_field(data, "val", "x", nt_array_from(NT_F32, nt_dims(6, 1), val));
    return nt_data_status(data);
}

/* w x x with w = 3: what is differentiated is 6 x. */
static nt_tensor squared(const All_view *e, nt_model *m, nt_batch *batch) {
    (void)e;
    return nt_mul(nt_square(nt_field(batch, "x")), nt_parameter(m, "w", nt_dims(1), .init = nt_filled(3)));
}
static nt_tensor slope_loss(const All_view *e, nt_tensor u, nt_batch *batch) {
    (void)e;
    return nt_mean(nt_square(nt_grad(nt_sum(u), nt_field(batch, "x"))));
}

NT_DEFINE(All, ALL, .build_data = build_data, .forward = squared, .loss = slope_loss);

static nt_tensor centred(const void *view, nt_model *m, nt_batch *batch) {
    (void)view;
    nt_tensor x = nt_field(batch, "x");
    return nt_add(nt_sub(x, nt_mean(x, 0, NT_KEEP)), nt_parameter(m, "b", nt_dims(1)));
}
static nt_tensor mean_square(const void *view, nt_tensor y, nt_batch *batch) {
    (void)view, (void)batch;
    return nt_mean(nt_square(y));
}
static nt_tensor plain(const void *view, nt_model *m, nt_batch *batch) {
    (void)view;
    return nt_mul(nt_field(batch, "x"), nt_parameter(m, "w", nt_dims(1), .init = nt_filled(1)));
}
/* Counts on a batch of 4. */
static nt_tensor of_four(const void *view, nt_model *m, nt_batch *batch) {
    return nt_reshape(plain(view, m, batch), 4, 1);
}

static nt_run *make(const nt_experiment *experiment, nt_run_options options) {
    All e = All_defaults();
    nt_run *run;
    options.no_log = options.quiet = true;
    assert_ok(nt_run_new(experiment, &e, &options, &run));
    return run;
}

static double value_of(nt_results results, const char *name) {
    for (size_t i = 0; i < results.count; i++)
        if (strcmp(results.values[i].name, name) == 0) return results.values[i].value;
    fail_msg("no value '%s'", name);
    return 0;
}

static void assert_near(double value, double wanted) {
    if (!(fabs(value - wanted) <= 1e-4 * fabs(wanted))) fail_msg("%.7g, wanted %.7g", value, wanted);
}

/* ---- the loss of a validation is the loss ----------------------------------------------------------------------- */

/* (36 of 0, 0, 0, 0, 10, 20) in the mean: of rows that there are, by batches of 4 and 2. */
static void a_loss_that_differentiates_with_respect_to_its_inputs(void **state) {
    (void)state;
    nt_run *run = make(All_experiment(), (nt_run_options){0});
    nt_results results;
    assert_ok(nt_evaluate(run, "train", &results));
    assert_near(value_of(results, "val_loss"), 270);
    assert_ok(nt_validate(run, &results));
    assert_near(value_of(results, "val_loss"), 36.0 * 500 / 6);
    nt_run_free(run);
}

static void slope(const void *view, nt_device_metrics *m, nt_tensor u, nt_batch *batch) {
    (void)view;
    nt_device_sum(m, "slope", nt_sum(nt_grad(nt_sum(u), nt_field(batch, "x"))));
}

static void metrics_that_differentiate(void **state) {
    (void)state;
    nt_experiment sloped = *All_experiment();
    nt_results results;
    sloped.hooks.device_metrics = slope;
    nt_run *run = make(&sloped, (nt_run_options){0});
    assert_ok(nt_validate(run, &results));
    assert_int_equal(results.count, 2);
    assert_string_equal(results.values[1].name, "val_loss");
    assert_near(results.values[1].value, 36.0 * 500 / 6);
    assert_near(results.values[0].value, 6 * 30);
    nt_run_free(run);
}

/* The last batch has 10 and 20: their mean is 15. */
static void rows_see_the_rows_that_there_are(void **state) {
    (void)state;
    nt_experiment mixing = *All_experiment();
    nt_results results;
    mixing.hooks.forward = centred;
    mixing.hooks.loss = mean_square;
    nt_run *run = make(&mixing, (nt_run_options){0});
    assert_ok(nt_validate(run, &results));
    assert_near(value_of(results, "val_loss"), 50.0 / 6);
    nt_run_free(run);
}

static double seen_rows, seen_sum;
static void look(const void *e, nt_metrics *m, const nt_array *outputs, const nt_host_batch *batch) {
    (void)e, (void)batch;
    seen_rows = (double)outputs->shape.dims[0];
    seen_sum = 0;
    for (int64_t i = 0; i < outputs->shape.dims[0]; i++) seen_sum += fabs(nt_array_get(outputs, i));
    nt_metric_sum(m, "rows", seen_rows);
}

static void host_hooks_too(void **state) {
    (void)state;
    nt_experiment mixing = *All_experiment();
    nt_results results;
    mixing.hooks.forward = centred;
    mixing.hooks.loss = mean_square;
    mixing.hooks.metrics = look;
    nt_run *run = make(&mixing, (nt_run_options){0});
    assert_ok(nt_validate(run, &results));
    assert_true(seen_rows == 2 && seen_sum == 10);
    assert_true(value_of(results, "rows") == 6);
    assert_near(value_of(results, "val_loss"), 50.0 / 6);
    nt_run_free(run);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
}

/* ---- which programs there are ----------------------------------------------------------------------------------- */

static void one_program_for_each_number_of_rows(void **state) {
    (void)state;
    nt_cache_reset();
    nt_experiment measured = *All_experiment();
    All e = {.drop = true};
    nt_run_options options = quiet_options(NULL);
    uint64_t before = nt_cache_stats().misses;
    nt_run *run;
    measured.hooks.device_metrics = slope;
    assert_ok(nt_run_new(&measured, &e, &options, &run));
    assert_int_equal(run->traced.programs.evaluation_count, 1);
    assert_ok(nt_validate(run, NULL));
    assert_int_equal(nt_cache_stats().misses - before, 1);
    nt_run_free(run);
    run = make(&measured, (nt_run_options){0});
    assert_int_equal(run->traced.programs.evaluation_count, 2);
    assert_ok(nt_validate(run, NULL));
    assert_int_equal(nt_cache_stats().misses - before, 2);
    nt_run_free(run);
}

static nt_tensor slope_of_four(const void *view, nt_tensor u, nt_batch *batch) {
    (void)view;
    return nt_mean(nt_square(nt_grad(nt_sum(u), nt_field(batch, "x"))));
}
static nt_tensor centred_four(const void *view, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_reshape(plain(view, m, batch), 4, 1);
    return nt_sub(x, nt_mean(x, 0, NT_KEEP));
}

/* Filled up where copies change nothing of the other rows; a gradient with respect to what is not in it is refused. */
static void a_forward_that_counts_on_full_batches(void **state) {
    (void)state;
    nt_experiment fixed = *All_experiment(), mixing = fixed, sloped = fixed;
    All e = All_defaults();
    nt_run_options options = quiet_options(NULL);
    nt_results results;
    nt_run *run;
    options.evaluate_only = true;
    fixed.hooks.forward = sloped.hooks.forward = of_four;
    mixing.hooks.forward = centred_four;
    fixed.hooks.loss = mixing.hooks.loss = mean_square;
    sloped.hooks.loss = slope_of_four;
    assert_ok(nt_run_new(&fixed, &e, &options, &run));
    assert_ok(nt_validate(run, &results));
    assert_near(value_of(results, "val_loss"), 500.0 / 6);
    nt_run_free(run);
    assert_fails(nt_run_new(&mixing, &e, &options, &run), NT_INVALID, "split 'val' has a last batch of 2 rows");
    assert_non_null(strstr(nt_error_message(), "Take the number of rows from nt_dim(x, 0), or give the split "
                                               ".drop_last = true"));
    assert_fails(nt_run_new(&sloped, &e, &options, &run), NT_INVALID,
                 "in slope_of_four: grad: with respect to x: forward cannot be traced for the rows of a short last");
    e.drop = true;
    assert_ok(nt_run_new(&mixing, &e, &options, &run));
    nt_run_free(run);
    assert_ok(nt_run_new(&sloped, &e, &options, &run));
    assert_ok(nt_validate(run, &results));
    assert_near(value_of(results, "val_loss"), 1);
    nt_run_free(run);
}

/* ---- val_loss beside what the hooks report ---------------------------------------------------------------------- */

static void own_loss(const void *view, nt_device_metrics *m, nt_tensor u, nt_batch *batch) {
    (void)view, (void)u, (void)batch;
    nt_device_mean(m, "val_loss", 7, 1);
}
static void own_loss_on_host(const void *e, nt_metrics *m, const nt_array *outputs, const nt_host_batch *batch) {
    (void)e, (void)outputs, (void)batch;
    nt_metric_mean(m, "val_loss", 8, 1);
}

static void a_val_loss_of_the_users_takes_its_place(void **state) {
    (void)state;
    nt_experiment traced = *All_experiment(), on_host = traced;
    nt_results results;
    traced.hooks.device_metrics = own_loss;
    on_host.hooks.metrics = own_loss_on_host;
    for (int host = 0; host < 2; host++) {
        nt_run *run = make(host ? &on_host : &traced, (nt_run_options){0});
        assert_ok(nt_validate(run, &results));
        assert_int_equal(results.count, 1);
        assert_true(value_of(results, "val_loss") == 7 + host);
        nt_run_free(run);
    }
}

static void the_setting_leaves_it_out(void **state) {
    (void)state;
    nt_experiment measured = *All_experiment();
    nt_results results;
    measured.hooks.device_metrics = slope;
    nt_run *run = make(&measured, (nt_run_options){.val_loss = {true, false}});
    assert_ok(nt_validate(run, &results));
    assert_int_equal(results.count, 1);
    assert_string_equal(results.values[0].name, "slope");
    nt_run_free(run);
    run = make(All_experiment(), (nt_run_options){.val_loss = {true, false}});
    assert_ok(nt_validate(run, &results));
    assert_int_equal(results.count, 0);
    nt_run_free(run);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static const char *name;
static void named(const void *view, nt_device_metrics *m, nt_tensor u, nt_batch *batch) {
    (void)view, (void)u, (void)batch;
    nt_device_sum(m, name, 1);
}
static void named_value(const void *view, nt_device_metrics *m, nt_tensor u, nt_batch *batch) {
    (void)view, (void)u, (void)batch;
    nt_device_value(m, name, 1);
}
static void named_on_host(const void *e, nt_metrics *m, const nt_array *outputs, const nt_host_batch *batch) {
    (void)e, (void)outputs, (void)batch;
    nt_metric_sum(m, name, 1);
}

static void names_that_a_log_cannot_hold_are_refused(void **state) {
    (void)state;
    static const char *const names[][2] = {{"type", "' is a key that each line of the log has by itself"},
                                           {"context", "' is a key that each line of the log has by itself"},
                                           {"epoch", "' is a key that each line of the log has by itself"},
                                           {"step", "' is a key that each line of the log has by itself"},
                                           {"\xff", "' is not valid UTF-8"}};
    nt_experiment traced = *All_experiment(), training = traced, on_host = traced, training_on_host = traced;
    traced.hooks.device_metrics = named;
    training.hooks.train_metrics = named_value;
    on_host.hooks.metrics = named_on_host;
    training_on_host.hooks.host_train_metrics = named_on_host;
    All e = All_defaults();
    nt_run_options options = quiet_options(NULL);
    nt_run *run;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *part = names[i][1];
        name = names[i][0];
        assert_fails(nt_run_new(&traced, &e, &options, &run), NT_INVALID, part);
        assert_fails(nt_run_new(&training, &e, &options, &run), NT_INVALID, part);
        run = make(&on_host, (nt_run_options){0});
        assert_fails(nt_validate(run, NULL), NT_INVALID, part);
        nt_run_free(run);
        run = make(&training_on_host, (nt_run_options){0});
        assert_fails(nt_train(run), NT_INVALID, part);
        nt_run_free(run);
    }
    name = "step";
    assert_fails(nt_run_new(&traced, &e, &options, &run), NT_INVALID,
                 "metric 'step' is a key that each line of the log has by itself: give it another name");
}

/* ---- predictions ------------------------------------------------------------------------------------------------ */

static void predict(nt_run *run, const nt_array *x, nt_array **out) {
    assert_ok(nt_predict(run, &(nt_named_array){"x", x}, 1, out));
}

static void copies_change_no_prediction(void **state) {
    (void)state;
    static const float values[] = {0, 0, 0, 0, 10, 20};
    nt_array *x = nt_array_from(NT_F32, nt_dims(6, 1), values), *out;
    nt_experiment mixing = *All_experiment(), apart = mixing;
    mixing.hooks.forward = centred;
    apart.hooks.forward = plain;
    mixing.hooks.loss = apart.hooks.loss = mean_square;
    All e = All_defaults();
    nt_run_options options = {.no_log = true};
    nt_run *run;
    nt__text_free(&notices);
    nt_set_notice(keep_notice, NULL);
    assert_ok(nt_run_new(&mixing, &e, &options, &run));
    for (int again = 0; again < 2; again++) {
        predict(run, x, &out);
        assert_true(nt_array_get(out, 0) == 0 && nt_array_get(out, 4) == -5 && nt_array_get(out, 5) == 5);
        nt_array_free(out);
    }
    assert_int_equal(count_told("a row may depend on the other rows of its batch"), 1);
    nt_run_free(run);

    nt__text_free(&notices);
    uint64_t before = nt_cache_stats().misses;
    assert_ok(nt_run_new(&apart, &e, &options, &run));
    predict(run, x, &out);
    assert_true(nt_array_get(out, 4) == 10 && nt_array_get(out, 5) == 20);
    assert_int_equal(nt_cache_stats().misses - before, 1);
    assert_int_equal(count_told("a row may depend"), 0);
    nt_array_free(out);
    nt_run_free(run);
    nt_set_notice(NULL, NULL);
    nt_array_free(x);
}

/* ---- many metrics ----------------------------------------------------------------------------------------------- */

enum { MANY = 20000 };
static void many(const void *e, nt_metrics *m, const nt_array *outputs, const nt_host_batch *batch) {
    (void)e, (void)outputs, (void)batch;
    for (int i = 0; i < MANY; i++) {
        char text[32];
        snprintf(text, sizeof text, "metric %d", i);
        nt_metric_sum(m, text, i);
    }
}

static void many_metrics(void **state) {
    (void)state;
    nt_experiment wide = *All_experiment();
    nt_results results;
    wide.hooks.metrics = many;
    nt_run *run = make(&wide, (nt_run_options){0});
    assert_ok(nt_validate(run, &results));
    assert_int_equal(results.count, MANY + 1);
    assert_true(value_of(results, "metric 19999") == 2 * 19999);
    nt_run_free(run);
}

static int end(void **state) {
    nt__text_free(&notices);
    return shut_down(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_that_differentiates_with_respect_to_its_inputs),
        cmocka_unit_test(metrics_that_differentiate),
        cmocka_unit_test(rows_see_the_rows_that_there_are),
        cmocka_unit_test(host_hooks_too),
        cmocka_unit_test(one_program_for_each_number_of_rows),
        cmocka_unit_test(a_forward_that_counts_on_full_batches),
        cmocka_unit_test(a_val_loss_of_the_users_takes_its_place),
        cmocka_unit_test(the_setting_leaves_it_out),
        cmocka_unit_test(names_that_a_log_cannot_hold_are_refused),
        cmocka_unit_test(copies_change_no_prediction),
        cmocka_unit_test(many_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
