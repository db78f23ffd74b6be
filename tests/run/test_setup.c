/* Setup: what is refused with which message, the val_loss that stands for missing metrics, and
 * short memory at every point. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "toy.h"

static nt_experiment changed; /* Toy with other hooks or fields */

static nt_experiment *toy(void) {
    changed = *Toy_experiment();
    return &changed;
}

static void refuse_at(const nt_experiment *experiment, const Toy *e, nt_run_options options, const char *part,
                      int line) {
    nt_run *run = (nt_run *)&changed;
    nt_status status = nt_run_new(experiment, e, &options, &run);
    assert_fails_at(status, status, part, line);
    if (status == NT_OK) fail_msg("line %d: accepted", line);
    assert_null(run);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
}
#define refuse(experiment, e, options, part) refuse_at(experiment, e, options, part, __LINE__)

/* ---- settings --------------------------------------------------------------------------------------------------- */

static void settings_are_checked(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run_options o = quiet_options(NULL);
    o.accum = (nt_maybe_int){true, 0};
    refuse(toy(), &e, o, "accum is 0 (from the option accum); a step has at least 1 micro-batch");
    o = quiet_options(NULL);
    o.learning_rate = (nt_maybe_double){true, 0};
    refuse(toy(), &e, o, "learning_rate is 0");
    o.learning_rate = (nt_maybe_double){true, -0.1};
    refuse(toy(), &e, o, "learning_rate is -0.1 (from the option learning_rate)");
    o.learning_rate = (nt_maybe_double){true, NAN};
    refuse(toy(), &e, o, "learning_rate is nan");
    o = quiet_options(NULL);
    o.gradient_clip_norm = (nt_maybe_double){true, INFINITY};
    refuse(toy(), &e, o, "gradient_clip_norm is inf");
    o = quiet_options(NULL);
    o.max_epochs = (nt_maybe_int){true, -1};
    refuse(toy(), &e, o, "max_epochs is -1");
    o = quiet_options(NULL);
    o.max_steps = (nt_maybe_int){true, -3};
    refuse(toy(), &e, o, "max_steps is -3");
    o = quiet_options(NULL);
    o.seed = (nt_maybe_int){true, -1};
    refuse(toy(), &e, o, "seed is -1");
    o = quiet_options(NULL);
    o.learning_rate = (nt_maybe_double){true, 1e-300};
    refuse(toy(), &e, o, "learning_rate 1e-300 is 0 in f32");
    o = quiet_options(NULL);
    assert_int_equal(nt_run_new(NULL, &e, &o, (nt_run *[]){NULL}), NT_INVALID);
}

/* ---- hooks ------------------------------------------------------------------------------------------------------ */

static nt_tensor scalar_forward(const void *view, nt_model *m, nt_batch *batch) {
    (void)view;
    return nt_mean(nt_dense(m, "d", nt_field(batch, "x"), 3));
}

static nt_tensor bare_forward(const void *view, nt_model *m, nt_batch *batch) {
    (void)view;
    (void)m;
    return nt_field(batch, "x");
}

static nt_tensor mistyped_field(const void *view, nt_model *m, nt_batch *batch) {
    (void)view;
    return nt_dense(m, "d", nt_field(batch, "image"), 3);
}

static nt_tensor twice(const void *view, nt_model *m, nt_batch *batch) {
    (void)view;
    return nt_add(nt_dense(m, "d", nt_field(batch, "x"), 2), nt_dense(m, "d", nt_field(batch, "x"), 2));
}

static nt_tensor kept_tensor;
static nt_tensor keeps_a_tensor(const void *view, nt_model *m, nt_batch *batch) {
    (void)view;
    nt_tensor x = nt_dense(m, "d", nt_field(batch, "x"), 2);
    if (!kept_tensor.trace) kept_tensor = x;
    return nt_add(x, kept_tensor);
}

static nt_tensor wide_loss(const void *view, nt_tensor outputs, nt_batch *batch) {
    (void)view;
    (void)batch;
    return outputs;
}

static nt_tensor leaves_early(const void *view, nt_model *m, nt_batch *batch) {
    (void)view;
    NT_SCOPE(m, "block") return nt_dense(m, "d", nt_field(batch, "x"), 2);
    return nt_field(batch, "x");
}

static nt_rule odd_rule(const void *e, const char *group) {
    (void)group;
    (void)e;
    return nt_adam(.beta1 = 1.5);
}

static void hooks_are_checked(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run_options o = quiet_options(NULL);
    toy()->hooks.build_data = NULL;
    refuse(&changed, &e, o, "build_data");
    toy()->hooks.forward = NULL;
    refuse(&changed, &e, o, "forward");
    toy()->hooks.loss = NULL;
    refuse(&changed, &e, o, "has a split 'train' but no loss hook");
    toy()->hooks.forward = scalar_forward;
    changed.hooks.loss = wide_loss;
    refuse(&changed, &e, o, "axis 0 of the outputs must be the 16 samples of the batch");
    toy()->hooks.loss = wide_loss;
    refuse(&changed, &e, o, "loss: must be a floating scalar, got f32[16,2]; nt_mean or nt_sum makes one");
    toy()->hooks.forward = bare_forward;
    refuse(&changed, &e, o, "the model has no parameters");
    toy()->hooks.forward = mistyped_field;
    refuse(&changed, &e, o, "the batch has no field 'image'; its fields are: x, label, number");
    assert_non_null(strstr(nt_error_message(), "test_setup.c:"));
    assert_non_null(strstr(nt_error_message(), "in mistyped_field"));
    toy()->hooks.forward = twice;
    refuse(&changed, &e, o, "'d.weight' was declared at ");
    toy()->hooks.forward = leaves_early;
    refuse(&changed, &e, o, "scope: 'block' was entered and never left");
    toy()->hooks.optimizer = odd_rule;
    refuse(&changed, &e, o, "beta1 of rule Adam is 1.5; it must be between 0 and 1");
    toy()->hooks.forward = keeps_a_tensor;
    refuse(&changed, &e, o, "the tensor belongs to an earlier trace");
}

/* ---- operations where no trace is under way --------------------------------------------------------------------- */

/* Each hook returns what is right, and calls an operation. */
#define STRAY (void)nt_full(NT_F32, nt_dims(2), 1)

static nt_status stray_build_data(const void *e, nt_data *data) {
    STRAY;
    return Toy_experiment()->hooks.build_data(e, data);
}
static nt_status stray_derive(void *e, const nt_data *data) {
    (void)e, (void)data;
    STRAY;
    return NT_OK;
}
static double stray_number(const void *e) {
    (void)e;
    STRAY;
    return 0.01;
}
static bool stray_truth(const void *e) {
    (void)e;
    STRAY;
    return false;
}
static nt_tensor never_traced(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                              nt_device_metrics *metrics) {
    (void)view, (void)m, (void)batch, (void)optimizers, (void)metrics;
    return (nt_tensor){0};
}
static nt_rule stray_rule(const void *e, const char *group) {
    (void)e, (void)group;
    STRAY;
    return nt_adam();
}
static double stray_decay(const void *e, const char *group) {
    (void)e, (void)group;
    STRAY;
    return 0.5;
}
static double plain_decay(const void *e, const char *group) {
    (void)e, (void)group;
    return 0.5;
}
static bool stray_choice(const void *e, const char *path, nt_shape shape) {
    (void)e, (void)path, (void)shape;
    STRAY;
    return false;
}
static nt_anchor stray_anchor(const void *e, const char *group) {
    (void)e, (void)group;
    STRAY;
    return (nt_anchor){0};
}
static const char *stray_group(const void *e, const char *path) {
    (void)e, (void)path;
    STRAY;
    return NULL;
}
static void stray_schedules(const void *e, nt_schedules *out) {
    (void)e, (void)out;
    STRAY;
}

/* The failure names the hook, the place of the call, and says what is wrong. */
static void refuse_stray(const char *hook, const char *function) {
    char expected[64];
    Toy e = Toy_defaults();
    snprintf(expected, sizeof expected, "in %s: ", function);
    refuse(&changed, &e, quiet_options(NULL), "no trace is under way: operations belong in traced hooks");
    assert_memory_equal(nt_error_message(), hook, strlen(hook));
    assert_non_null(strstr(nt_error_message(), "test_setup.c:"));
    assert_non_null(strstr(nt_error_message(), expected));
}

static void operations_in_host_hooks_are_refused(void **state) {
    (void)state;
    toy()->hooks.build_data = stray_build_data;
    refuse_stray("build_data of Toy: ", "stray_build_data");
    toy()->hooks.derive = stray_derive;
    refuse_stray("derive of Toy: ", "stray_derive");
    toy()->hooks.learning_rate = stray_number;
    refuse_stray("learning_rate of Toy: ", "stray_number");
    toy()->hooks.manual_training = stray_truth;
    changed.hooks.train_step = never_traced;
    refuse_stray("manual_training of Toy: ", "stray_truth");
    toy()->hooks.optimizer = stray_rule;
    refuse_stray("the optimizer of group 'default' of Toy: ", "stray_rule");
    toy()->hooks.weight_decay = stray_decay;
    refuse_stray("the optimizer of group 'default' of Toy: weight_decay of Toy: ", "stray_decay");
    toy()->hooks.weight_decay = plain_decay;
    changed.hooks.no_decay = stray_choice;
    refuse_stray("no_decay of Toy: ", "stray_choice");
    toy()->hooks.weight_decay = plain_decay;
    changed.hooks.decay_anchor = stray_anchor;
    refuse_stray("decay_anchor of Toy: ", "stray_anchor");
    toy()->hooks.param_group = stray_group;
    refuse_stray("param_group of Toy: ", "stray_group");
    toy()->hooks.rate_ratio = stray_decay;
    refuse_stray("rate_ratio of Toy: ", "stray_decay");
    toy()->hooks.schedules = stray_schedules;
    refuse_stray("schedules of Toy: ", "stray_schedules");
}

static double stray_rate(int64_t step, int64_t total, void *context) {
    (void)step, (void)total, (void)context;
    STRAY;
    return 0.01;
}

static void an_operation_in_a_schedule_ends_training(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run *run;
    nt_run_options options = quiet_options(NULL);
    const nt_named_schedule schedules[] = {{"learning_rate", nt_schedule_of(stray_rate, NULL)}, {0}};
    options.schedules = schedules;
    assert_ok(nt_run_new(toy(), &e, &options, &run));
    assert_fails(nt_train(run), NT_INVALID, "schedule 'learning_rate' of ");
    assert_non_null(strstr(nt_error_message(), "in stray_rate: "));
    nt_run_free(run);
}

/* ---- data and labels -------------------------------------------------------------------------------------------- */

static nt_status fails_to_build(const void *e, nt_data *data) {
    (void)e;
    nt_split(data, "train", .batch = 4);
    return nt_split_field(data, "train", "x", nt_idx_read("/nowhere", "images"));
}

static nt_status short_last_batch(const void *fields, nt_data *data) {
    const Toy *e = fields;
    nt_split(data, "train", .batch = 48);
    nt_split_field(data, "train", "x", toy_points(e->rows, false));
    nt_split_field(data, "train", "label", toy_labels(e->rows, 0));
    return NT_OK;
}

static nt_status no_split(const void *e, nt_data *data) {
    (void)e;
    return nt_data_status(data);
}

static nt_status silent_failure(const void *e, nt_data *data) {
    (void)e;
    (void)data;
    return NT_IO;
}

static nt_status one_reference(const void *fields, nt_data *data) {
    const Toy *e = fields;
    nt_array *points = toy_points(e->rows, false);
    nt_split(data, "train", .batch = 16);
    nt_split_field(data, "train", "x", points);
    return nt_split_field(data, "train", "label", points);
}

static nt_status sets_beyond_the_end(const void *fields, nt_data *data) {
    const Toy *e = fields;
    nt_array *points = toy_points(e->rows, false);
    nt_array_set(points, 100000, 1);
    nt_array_set(points, -1, 1);
    nt_split(data, "train", .batch = 16);
    nt_split_field(data, "train", "x", points);
    nt_split_field(data, "train", "label", toy_labels(e->rows, 0));
    return nt_data_status(data);
}

/* What it tries in vain is no failure when it goes on without it. */
static nt_status tries_a_file(const void *fields, nt_data *data) {
    nt_array_free(nt_npy_read("/nowhere/cached.npy"));
    return toy_build_data(fields, data);
}

static nt_status reads_beyond_the_end(void *fields, const nt_data *data) {
    Toy *e = fields;
    (void)data;
    nt_array *points = toy_points(4, false);
    e->smoothing = (float)nt_array_get(points, 16);
    nt_array_free(points);
    return NT_OK;
}

static nt_status bad_label_in_val(const void *fields, nt_data *data) {
    Toy e = *(const Toy *)fields;
    nt_split(data, "val", .batch = 16);
    nt_split_field(data, "val", "x", toy_points(e.val_rows, false));
    nt_split_field(data, "val", "label", toy_labels(e.val_rows, 9));
    return NT_OK;
}

static void data_is_checked(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run_options o = quiet_options(NULL);
    o.accum = (nt_maybe_int){true, 3};
    refuse(toy(), &e, o, "split 'train' has 8 batches, which accum 3 does not divide");
    assert_non_null(strstr(nt_error_message(), "The nearest numbers of batches that work are 6 and 9"));
    o.accum = (nt_maybe_int){true, 100};
    refuse(toy(), &e, o, "split 'train' has 8 batches, and accum 100 is more than these");
    o = quiet_options(NULL);
    toy()->hooks.build_data = fails_to_build;
    refuse(&changed, &e, o, "/nowhere");
    toy()->hooks.build_data = short_last_batch;
    refuse(&changed, &e, o, "split 'train' has 128 rows and batches of 48, so its last batch is short");
    e.rows = 40;
    refuse(&changed, &e, o, "split 'train' has 40 rows, and a batch of 48 is larger than that");
    e = Toy_defaults();
    toy()->hooks.build_data = no_split;
    refuse(&changed, &e, o, "no split was declared");
    nt__fail(NT_IO, "an older failure");
    toy()->hooks.build_data = silent_failure;
    refuse(&changed, &e, o, "build_data of Toy: the hook returned 'input or output'");
    toy()->hooks.build_data = sets_beyond_the_end;
    refuse(&changed, &e, o, "build_data of Toy: element 100000 of an array f32[128,4]: it has the elements 0 to 511");
    toy()->hooks.derive = reads_beyond_the_end;
    refuse(&changed, &e, o, "derive of Toy: element 16 of an array f32[4,4]: it has the elements 0 to 15");
    toy()->hooks.build_data = tries_a_file;
    nt_run *run;
    assert_ok(nt_run_new(&changed, &e, &o, &run));
    nt_run_free(run);
    toy()->hooks.build_data = one_reference;
    refuse(&changed, &e, o, "is given to 2 fields and has 1 references: give nt_array_retain");
    toy()->hooks.build_data = bad_label_in_val;
    changed.hooks.metrics = NULL;
    refuse(&changed, &e, o, "row 5"); /* also without a split to train on */
    e.bad_label = 7;
    refuse(toy(), &e, o, "row 5");
    assert_non_null(strstr(nt_error_message(), "7"));
    assert_non_null(strstr(nt_error_message(), "toy.h:"));
}

/* ---- what can be asked later ------------------------------------------------------------------------------------ */

static nt_status only_val(const void *fields, nt_data *data) {
    return toy_split(fields, data, "val", 20, false);
}

static void a_nan_at_the_first_step_names_what_it_can(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run_options o = quiet_options(NULL);
    nt_run *run;
    e.smoothing = NAN;
    assert_fails(nt_run_new(Toy_experiment(), &e, &o, &run), NT_INVALID,
                 "Device field 'smoothing': nan is not in 0 <= x < 1");
    e = Toy_defaults();
    e.poison = true;
    e.batch = 128;
    assert_ok(nt_run_new(Toy_experiment(), &e, &o, &run));
    assert_fails(nt_train(run), NT_DIVERGED, "before any update: look at the data of that batch");
    nt_run_free(run);
}

static void a_handle_without_train_evaluates(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run_options o = quiet_options(NULL);
    toy()->hooks.build_data = only_val;
    nt_run *run;
    assert_ok(nt_run_new(&changed, &e, &o, &run));
    assert_fails(nt_train(run), NT_INVALID, "no split 'train' (its splits: val)");
    assert_fails(nt_evaluate(run, "test", NULL), NT_NOT_FOUND, "has no split 'test'; its splits are: val");
    nt_results results;
    assert_ok(nt_validate(run, &results));
    assert_int_equal(results.count, 3); /* accuracy, last, val_loss */
    double first = results.values[0].value;
    assert_ok(nt_validate(run, &results));
    assert_true(results.values[0].value == first);
    nt_run_free(run);
}

static void asks_for_more(const void *e, nt_metrics *out, const nt_array *outputs, const nt_host_batch *batch) {
    (void)e;
    nt_metric_accuracy(out, "accuracy", outputs, nt_host_field(batch, "labels"));
}

static void floats_as_labels(const void *e, nt_metrics *out, const nt_array *outputs, const nt_host_batch *batch) {
    (void)e;
    nt_metric_accuracy(out, "accuracy", outputs, nt_host_field(batch, "x"));
}

static void metrics_hooks_are_checked(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run_options o = quiet_options(NULL);
    nt_run *run;
    toy()->hooks.metrics = asks_for_more;
    assert_ok(nt_run_new(&changed, &e, &o, &run));
    assert_fails(nt_validate(run, NULL), NT_NOT_FOUND,
                 "metrics of Toy: field 'labels' was asked for, split 'val' has: x, label, number");
    nt_run_free(run);
    toy()->hooks.metrics = floats_as_labels;
    assert_ok(nt_run_new(&changed, &e, &o, &run));
    assert_fails(nt_validate(run, NULL), NT_INVALID, "scores f32[16,2] and labels f32[16,4]");
    nt_run_free(run);
}

/* ---- val_loss --------------------------------------------------------------------------------------------------- */

static nt_status three_rows(const void *e, nt_data *data) {
    (void)e;
    nt_split(data, "val", .batch = 2);
    nt_split_field(data, "val", "x", nt_array_from(NT_F32, nt_dims(3, 1), (const float[]){10, 10, 9}));
    return nt_data_status(data);
}

static nt_tensor identity(const void *view, nt_model *m, nt_batch *batch) {
    (void)view;
    return nt_mul(nt_field(batch, "x"), nt_parameter(m, "one", nt_dims(1), .init = nt_ones()));
}

static nt_tensor mean_loss(const void *view, nt_tensor outputs, nt_batch *batch) {
    (void)view;
    (void)batch;
    return nt_mean(outputs);
}

static void val_loss_weighs_samples(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run_options o = quiet_options(NULL);
    toy()->hooks = (nt_hooks){.build_data = three_rows, .forward = identity, .loss = mean_loss};
    nt_run *run;
    assert_ok(nt_run_new(&changed, &e, &o, &run));
    nt_results results;
    assert_ok(nt_validate(run, &results));
    assert_int_equal(results.count, 1);
    assert_string_equal(results.values[0].name, "val_loss");
    assert_true(fabs(results.values[0].value - 29.0 / 3) < 1e-6);
    nt_run_free(run);
}

/* ---- short memory ----------------------------------------------------------------------------------------------- */

static nt_status make_and_step(void) {
    Toy e = Toy_defaults();
    nt_run_options o = quiet_options(NULL);
    nt_run *run;
    e.rows = 32; /* two steps, and no batch is staged that nobody takes */
    e.val_rows = 20;
    nt_status status = nt_run_new(Toy_experiment(), &e, &o, &run);
    if (status != NT_OK) return status;
    status = nt_train(run);
    nt_run_free(run);
    return status;
}

/* What only training asks for is neither checked nor made. */
static void a_handle_that_only_evaluates_checks_nothing_of_training(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run *run;
    nt_results results;
    nt_run_options o = quiet_options(NULL);
    o.evaluate_only = true;
    o.accum = (nt_maybe_int){true, 3}; /* does not divide 8 batches */
    o.learning_rate = (nt_maybe_double){true, 0};
    assert_ok(nt_run_new(toy(), &e, &o, &run));
    assert_ok(nt_evaluate(run, "train", &results));
    assert_string_equal(results.values[0].name, "accuracy");
    assert_int_equal(nt__engine_counts_now().buffers[NT__OPTIMIZER_STATE].live_count, 0);
    assert_int_equal(nt__engine_counts_now().buffers[NT__ACCUMULATOR].live_count, 0);
    assert_fails(nt_train(run), NT_INVALID, "nt_train: run 'Toy' was made with evaluate_only");
    nt_run_free(run);
    o.accum = (nt_maybe_int){true, 0};
    toy()->hooks.build_data = short_last_batch;
    changed.hooks.loss = NULL;
    changed.hooks.metrics = NULL;
    assert_ok(nt_run_new(&changed, &e, &o, &run));
    nt_run_free(run);
}

/* Every allocation of setup and of two steps fails in turn: an error each time, nothing alive afterwards. The toy's own
 * arrays come from the same allocator. */
static void every_allocation_may_fail(void **state) {
    (void)state;
    assert_ok(make_and_step());
    size_t live = nt__memory().live, failures = 0, named = 0;
    for (size_t n = 1;; n++) {
        size_t before = nt__memory().total;
        nt__memory_fail_at(n);
        nt_status status = make_and_step();
        bool reached = nt__memory().total - before >= n;
        nt__memory_fail_at(0);
        if (nt__memory().live != live) fail_msg("allocation %zu: %zu blocks, %zu before", n, nt__memory().live, live);
        if (nt__engine_counts_now().all_buffers.live_count != 0) fail_msg("allocation %zu: a buffer is alive", n);
        if (!reached) break;
        if (status == NT_OK) fail_msg("allocation %zu failed and nobody noticed", n);
        if (status != NT_OUT_OF_MEMORY)
            fail_msg("allocation %zu: %s: %s", n, nt_status_name(status), nt_error_message());
        failures++;
        named +=
            strstr(nt_error_message(), "the largest of which is 'hidden.weight' f32[4,8]: out of host memory") != NULL;
    }
    assert_true(failures > 100);
    assert_true(named > 0); /* the model's own size is the likeliest cause */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(hooks_are_checked),
        cmocka_unit_test(operations_in_host_hooks_are_refused),
        cmocka_unit_test(an_operation_in_a_schedule_ends_training),
        cmocka_unit_test(data_is_checked),
        cmocka_unit_test(a_nan_at_the_first_step_names_what_it_can),
        cmocka_unit_test(a_handle_without_train_evaluates),
        cmocka_unit_test(metrics_hooks_are_checked),
        cmocka_unit_test(val_loss_weighs_samples),
        cmocka_unit_test(a_handle_that_only_evaluates_checks_nothing_of_training),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, shut_down);
}
