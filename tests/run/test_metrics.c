/* Metrics of traced hooks: their values, and what of them makes a program another one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "notices.h"
#include "base/files.h"
#include "toy.h"

/* ---- hooks, with their types erased as NT_DEFINE does ----------------------------------------------------------- */

static nt_tensor correct(nt_tensor logits, nt_batch *batch) {
    nt_tensor label = nt_convert(nt_field(batch, "label"), NT_I32);
    nt_tensor hit = nt_one_hot(label, 2, NT_BOOL);
    nt_tensor at_label = nt_sum(nt_where(hit, logits, 0), -1), largest = nt_reduce_max(logits, -1);
    return nt_sum(nt_convert(nt_equal(at_label, largest), NT_I32));
}

static void on_device(const void *view, nt_device_metrics *m, nt_tensor logits, nt_batch *batch) {
    (void)view;
    nt_device_mean(m, "accuracy", correct(logits, batch), nt_dim(logits, 0));
    nt_device_max(m, "last", nt_reduce_max(nt_convert(nt_field(batch, "number"), NT_F32)));
    nt_device_min(m, "first", nt_neg(nt_reduce_max(nt_neg(nt_convert(nt_field(batch, "number"), NT_F32)))));
    nt_device_sum(m, "rows", nt_dim(logits, 0));
}

static void on_device_otherwise(const void *view, nt_device_metrics *m, nt_tensor logits, nt_batch *batch) {
    (void)view;
    nt_device_mean(m, "error", nt_sub(nt_dim(logits, 0), correct(logits, batch)), nt_dim(logits, 0));
}

static void in_training(const void *view, nt_device_metrics *m, nt_tensor logits, nt_batch *batch) {
    (void)view;
    nt_device_value(m, "correct", correct(logits, batch));
    nt_device_value(m, "half", 0.5);
}

static void in_training_on_host(const void *e, nt_metrics *m, const nt_array *logits, const nt_host_batch *batch) {
    (void)e;
    nt_metric_sum(m, "correct", (double)nt_count_correct(logits, nt_host_field(batch, "label")));
}

typedef struct variant {
    void (*device_metrics)(const void *, nt_device_metrics *, nt_tensor, nt_batch *);
    void (*train_metrics)(const void *, nt_device_metrics *, nt_tensor, nt_batch *);
    void (*host_train_metrics)(const void *, nt_metrics *, const nt_array *, const nt_host_batch *);
    bool keep_metrics; /* the host hook of the toy beside it */
} variant;

static nt_experiment toy_with(variant v) {
    nt_experiment toy = *Toy_experiment();
    if (!v.keep_metrics) toy.hooks.metrics = NULL;
    toy.hooks.device_metrics = v.device_metrics;
    toy.hooks.train_metrics = v.train_metrics;
    toy.hooks.host_train_metrics = v.host_train_metrics;
    return toy;
}

/* ---- a run and what it told ------------------------------------------------------------------------------------- */

enum { MOST_STEPS = 64 };
typedef struct told {
    double losses[MOST_STEPS], values[MOST_STEPS];
    size_t steps, value_count;
} told;

static void hear(const nt_event *event, void *context) {
    told *t = context;
    if (event->kind != NT_EVENT_STEP || t->steps == MOST_STEPS) return;
    t->losses[t->steps] = event->loss;
    t->value_count = event->value_count;
    if (event->value_count) {
        assert_string_equal(event->values[0].name, "correct");
        t->values[t->steps] = event->values[0].value;
    }
    t->steps++;
}

/* Trains, evaluates val, and returns the programs compiled. */
static uint64_t run_it(const nt_experiment *experiment, int accum, told *t, nt_results *results, nt_run **kept) {
    uint64_t before = nt_cache_stats().misses;
    Toy e = Toy_defaults();
    nt_run_options options = {.no_log = true, .quiet = true, .on_event = t ? hear : NULL, .event_context = t};
    options.max_epochs = (nt_maybe_int){true, 2};
    options.accum = (nt_maybe_int){true, accum};
    nt_run *run;
    assert_ok(nt_run_new(experiment, &e, &options, &run));
    assert_ok(nt_train(run));
    assert_ok(nt_validate(run, results));
    if (kept)
        *kept = run;
    else
        nt_run_free(run);
    return nt_cache_stats().misses - before;
}

static double value_of(nt_results results, const char *name) {
    for (size_t i = 0; i < results.count; i++)
        if (strcmp(results.values[i].name, name) == 0) return results.values[i].value;
    fail_msg("no metric '%s'", name);
    return 0;
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

/* Both places give the same, also with the short last batch, each by a program of 16 and one of 8
 * rows. */
static void device_and_host_agree(void **state) {
    (void)state;
    nt_cache_reset();
    nt_experiment host = toy_with((variant){.keep_metrics = true}),
                  device = toy_with((variant){.device_metrics = on_device});
    nt_results on_host, on_dev;
    nt_run *a, *b;
    assert_int_equal(run_it(&host, 1, NULL, &on_host, &a), 4);
    assert_int_equal(run_it(&device, 1, NULL, &on_dev, &b), 2);
    assert_string_equal(nt_cache_report(4)->program, "evaluation");
    assert_true(value_of(on_host, "val_loss") == value_of(on_dev, "val_loss"));
    assert_true(value_of(on_host, "accuracy") == value_of(on_dev, "accuracy"));
    assert_true(value_of(on_dev, "last") == 39 && value_of(on_host, "last") == 39);
    assert_true(value_of(on_dev, "first") == 0);
    assert_true(value_of(on_dev, "rows") == 40);
    nt_run_free(a);
    nt_run_free(b);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
}

/* 5.3: a metric moves the programs of evaluations, a train metric the gradient program. */
static void what_a_metric_moves(void **state) {
    (void)state;
    nt_cache_reset();
    nt_results results;
    nt_experiment first = toy_with((variant){.device_metrics = on_device}),
                  other = toy_with((variant){.device_metrics = on_device_otherwise}),
                  training = toy_with((variant){.device_metrics = on_device, .train_metrics = in_training}),
                  host = toy_with((variant){.keep_metrics = true}),
                  on_host = toy_with((variant){.keep_metrics = true, .host_train_metrics = in_training_on_host});
    assert_int_equal(run_it(&first, 1, NULL, &results, NULL), 4);
    assert_int_equal(run_it(&other, 1, NULL, &results, NULL), 2);
    assert_string_equal(nt_cache_report(4)->program, "evaluation");
    assert_int_equal(run_it(&training, 1, NULL, &results, NULL), 1);
    assert_string_equal(nt_cache_report(6)->program, "gradient");
    assert_int_equal(run_it(&host, 1, NULL, &results, NULL), 2);    /* the outputs are a result of an evaluation */
    assert_int_equal(run_it(&on_host, 1, NULL, &results, NULL), 1); /* The outputs are a result of gradient */
    assert_string_equal(nt_cache_report(9)->program, "gradient");
}

/* Of the closing micro-batch, in both residencies alike, and no gradient changes. */
static void train_metrics_of_a_step(void **state) {
    (void)state;
    nt_results results;
    for (int accum = 1; accum <= 2; accum++) {
        told plain = {0}, device = {0}, host = {0};
        nt_experiment without = toy_with((variant){.keep_metrics = true}),
                      traced = toy_with((variant){.keep_metrics = true, .train_metrics = in_training}),
                      on_host = toy_with((variant){.keep_metrics = true, .host_train_metrics = in_training_on_host});
        run_it(&without, accum, &plain, &results, NULL);
        run_it(&traced, accum, &device, &results, NULL);
        run_it(&on_host, accum, &host, &results, NULL);
        assert_int_equal(device.steps, 16 / accum);
        assert_int_equal(plain.value_count, 0);
        assert_int_equal(device.value_count, 2);
        assert_int_equal(host.value_count, 1);
        for (size_t i = 0; i < device.steps; i++) {
            assert_true(fabs(plain.losses[i] - device.losses[i]) < 1e-6);
            assert_true(fabs(plain.losses[i] - host.losses[i]) < 1e-6);
            assert_true(device.values[i] == host.values[i]);
            assert_true(device.values[i] > 0 && device.values[i] <= 16);
        }
    }
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
}

/* Beside the loss in the line of the step. */
static void the_log_has_them(void **state) {
    (void)state;
    char *text;
    size_t length;
    scratch_make(state);
    nt_experiment traced = toy_with((variant){.keep_metrics = true, .train_metrics = in_training});
    nt_run_options options = {.run_dir = scratch_folder, .quiet = true, .max_steps = {true, 1}};
    Toy e = Toy_defaults();
    nt_run *run;
    assert_ok(nt_run_new(&traced, &e, &options, &run));
    assert_ok(nt_train(run));
    nt_run_free(run);
    assert_ok(nt__read_file(scratch("metrics.jsonl"), &text, &length));
    /* The line of step 1 has all three, and no other line has any. */
    assert_non_null(strstr(text, "\"loss\":"));
    assert_non_null(strstr(text, "\"correct\":"));
    assert_non_null(strstr(text, "\"half\":0.5"));
    const char *end = strchr(strstr(text, "\"half\""), '\n');
    assert_non_null(end);
    assert_null(strstr(end, "\"half\""));
    nt__free(text);
    scratch_remove(state);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void not_scalar(const void *view, nt_device_metrics *m, nt_tensor logits, nt_batch *batch) {
    (void)view;
    (void)batch;
    nt_device_sum(m, "logits", logits);
}
static void twice(const void *view, nt_device_metrics *m, nt_tensor logits, nt_batch *batch) {
    (void)view;
    (void)batch;
    nt_device_sum(m, "n", nt_sum(logits));
    nt_device_max(m, "n", nt_sum(logits));
}
static void no_way_of_combining(const void *view, nt_device_metrics *m, nt_tensor logits, nt_batch *batch) {
    (void)view;
    (void)batch;
    nt_device_value(m, "n", nt_sum(logits));
}
static void combined(const void *view, nt_device_metrics *m, nt_tensor logits, nt_batch *batch) {
    (void)view;
    (void)batch;
    nt_device_mean(m, "n", nt_sum(logits), 1);
}
static void named_loss(const void *view, nt_device_metrics *m, nt_tensor logits, nt_batch *batch) {
    (void)view;
    (void)batch;
    nt_device_value(m, "loss", nt_sum(logits));
}
static void unset(const void *view, nt_device_metrics *m, nt_tensor logits, nt_batch *batch) {
    (void)view;
    (void)logits;
    (void)batch;
    nt_device_value(m, "n", (nt_tensor){0});
}
static void negative_count(const void *view, nt_device_metrics *m, nt_tensor logits, nt_batch *batch) {
    (void)view;
    (void)batch;
    nt_device_mean(m, "n", nt_sum(logits), -2);
}
static void too_few(const void *e, nt_metrics *m, const nt_array *logits, const nt_host_batch *batch) {
    (void)e;
    (void)batch;
    (void)logits;
    nt_metric_mean(m, "n", 1, -1);
}
static void named_loss_on_host(const void *e, nt_metrics *m, const nt_array *logits, const nt_host_batch *batch) {
    (void)e;
    (void)batch;
    (void)logits;
    nt_metric_sum(m, "loss", 1);
}
static void named_norm_on_host(const void *e, nt_metrics *m, const nt_array *logits, const nt_host_batch *batch) {
    (void)e;
    (void)batch;
    (void)logits;
    nt_metric_sum(m, "grad_norm", 1);
}

static void what_is_refused(void **state) {
    (void)state;
    const struct {
        variant hooks;
        const char *part;
    } cases[] = {
        {{.device_metrics = not_scalar},
         "in not_scalar: nt_device_sum: metric 'logits': the value is f32[16,2] and must be a scalar"},
        {{.device_metrics = twice}, "metric 'n' was reported at"},
        {{.device_metrics = no_way_of_combining},
         "metric 'n': device_metrics says how batches are combined: nt_device_mean"},
        {{.train_metrics = combined},
         "metric 'n': train_metrics and train_step report values of one batch: nt_device_value"},
        {{.train_metrics = named_loss}, "give 'loss' another name"},
        {{.train_metrics = unset}, "in unset: nt_device_value: metric 'n': the value was never set: it is zero bytes"},
        {{.device_metrics = negative_count}, "nt_device_mean: metric 'n': the count is -2; it must be at least 0"},
        {{.device_metrics = on_device, .keep_metrics = true},
         "defines both .metrics (host arrays) and .device_metrics (traced) for an evaluation: keep one of them"},
        {{.train_metrics = in_training, .host_train_metrics = in_training_on_host},
         "defines both .host_train_metrics (host arrays) and .train_metrics (traced) for training"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nt_experiment toy = toy_with(cases[i].hooks);
        nt_run_options options = quiet_options(NULL);
        Toy e = Toy_defaults();
        nt_run *run;
        assert_fails(nt_run_new(&toy, &e, &options, &run), NT_INVALID, cases[i].part);
    }
}

/* A host hook that fails ends the run with the place, and frees everything. Names of the run's own are refused as those
 * of traced hooks are. */
static void a_failing_host_hook(void **state) {
    (void)state;
    const struct {
        variant hooks;
        const char *part;
    } cases[] = {
        {{.host_train_metrics = too_few}, "metric 'n': the count of a mean is -1, it must be from 0 on"},
        {{.host_train_metrics = named_loss_on_host},
         "host_train_metrics of Toy: 'loss' is a name of the run's own in the line of a step: give 'loss' another "
         "name"},
        {{.host_train_metrics = named_norm_on_host}, "give 'grad_norm' another name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nt_experiment toy = toy_with(cases[i].hooks);
        nt_run_options options = quiet_options(NULL);
        Toy e = Toy_defaults();
        nt_run *run;
        assert_ok(nt_run_new(&toy, &e, &options, &run));
        assert_fails(nt_train(run), NT_INVALID, cases[i].part);
        assert_non_null(strstr(nt_error_message(), "step 1 of epoch 1, micro-batch 1 of split 'train'"));
        nt_run_free(run);
        assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
    }
}

/* ---- what checkpoints are ranked by ----------------------------------------------------------------------------- */

/* Sets up a run that writes checkpoints; trains it where `out` is NULL. */
static nt_status rank_by(const char *metric, variant hooks, int val_rows, nt_run **out) {
    static nt_experiment toy; /* a run needs it until it is freed */
    toy = toy_with(hooks);
    nt_run_options options = {.run_dir = scratch("ranked"), .checkpoint_metric = metric};
    options.max_epochs = (nt_maybe_int){true, 2};
    Toy e = Toy_defaults();
    e.val_rows = val_rows;
    nt_run *run;
    nt__text_free(&notices);
    nt_set_notice(keep_notice, NULL);
    nt_status status = nt_run_new(&toy, &e, &options, &run);
    if (status == NT_OK && !out) status = nt_train(run);
    nt_set_notice(NULL, NULL);
    if (out) *out = run;
    if (!out) nt_run_free(run);
    return status;
}

static void a_metric_that_cannot_be_is_refused_at_once(void **state) {
    (void)state;
    nt_run *run;
    const variant device = {.device_metrics = on_device}, none = {0};
    assert_fails(rank_by("acuracy", device, 40, &run), NT_INVALID,
                 "checkpoints are ranked by 'acuracy' (checkpoint_metric), which no validation of experiment 'Toy' "
                 "reports (did you mean accuracy?); it reports: accuracy, last, first, rows, val_loss. Rank them by "
                 "one of these");
    assert_null(run);
    assert_fails(rank_by("accuracy", none, 40, &run), NT_INVALID, "it reports: val_loss. Rank them by one of these");
    assert_ok(rank_by("accuracy", device, 40, &run));
    nt_run_free(run);
    assert_ok(rank_by("val_loss", none, 40, &run));
    assert_int_equal(count_told("checkpoint"), 0);
    nt_run_free(run);
}

/* A direction is known or asked for. */
static void a_metric_whose_direction_is_not_known_is_refused(void **state) {
    (void)state;
    nt_run *run;
    assert_fails(rank_by("last", (variant){.device_metrics = on_device}, 40, &run), NT_INVALID,
                 "checkpoints are ranked by 'last' (checkpoint_metric), and its name does not say whether larger or "
                 "smaller values are better: give checkpoint_mode \"max\" or \"min\"");
}

/* restore_best where there can be no best, and where there was none. */
static void a_best_that_cannot_be_is_refused(void **state) {
    (void)state;
    nt_experiment toy = toy_with((variant){.keep_metrics = true});
    Toy e = Toy_defaults();
    nt_run *run;
    const struct {
        nt_run_options options;
        int val_rows;
        const char *part;
    } cases[] = {
        {{.no_log = true}, 40, "restore_best needs a best checkpoint, and run 'Toy' is made with no_log"},
        {{.checkpoint = {true, false}}, 40, "run 'Toy' is made with checkpoint = false"},
        {{0}, 0, "run 'Toy' has no split 'val', so no checkpoint is scored: add one in build_data"},
        {{.evaluate_only = true}, 40, "restore_best is for training, and run 'Toy' only evaluates or predicts"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nt_run_options options = cases[i].options;
        options.run_dir = scratch("no-best");
        options.restore_best = options.quiet = true;
        e.val_rows = cases[i].val_rows;
        assert_fails(nt_run_new(&toy, &e, &options, &run), NT_INVALID, cases[i].part);
    }
    e = Toy_defaults();
    toy = toy_with((variant){.device_metrics = on_device});
    nt_run_options options = {.run_dir = scratch("no-best"), .restore_best = true, .quiet = true};
    options.val_loss = (nt_maybe_bool){true, false};
    assert_fails(nt_run_new(&toy, &e, &options, &run), NT_INVALID,
                 "checkpoints are ranked by 'val_loss' (checkpoint_metric), which no validation of experiment 'Toy' "
                 "reports; it reports: accuracy, last, first, rows");
    /* It ends within the first epoch, whose checkpoint is not scored. */
    options.val_loss = (nt_maybe_bool){0};
    options.max_steps = (nt_maybe_int){true, 3};
    options.checkpoint_metric = "accuracy";
    assert_ok(nt_run_new(&toy, &e, &options, &run));
    assert_fails(
        nt_train(run), NT_NOT_FOUND,
        "restore_best finds no checkpoint of this run that was scored by accuracy, so the parameters are those "
        "of the last step: the validation at the end of an epoch scores one");
    assert_int_equal(nt_run_step(run), 3);
    nt_run_free(run);
}

static void a_metric_that_cannot_be_known_is_told_of(void **state) {
    (void)state;
    nt_run *run;
    assert_ok(rank_by("accuracy", (variant){.keep_metrics = true}, 40, &run));
    assert_int_equal(count_told("Toy: checkpoints are to be ranked by 'accuracy' (checkpoint_metric); what the metrics "
                                "hook reports is known from the first validation on"),
                     1);
    nt_run_free(run);
    assert_ok(rank_by("val_loss", (variant){0}, 0, &run));
    assert_int_equal(count_told("there is no split 'val', so no checkpoint is ranked and there is no best"), 1);
    nt_run_free(run);
    assert_fails(rank_by("my_accuracy", (variant){.keep_metrics = true}, 40, NULL), NT_INVALID,
                 "it reports: accuracy, last, val_loss. Rank them by one of these");
}

static void how_the_best_is_found_is_told_once(void **state) {
    (void)state;
    assert_ok(rank_by(NULL, (variant){.keep_metrics = true}, 40, NULL));
    assert_int_equal(count_told("Toy: checkpoints are ranked by val_loss, the smaller the better\n"), 1);
    assert_ok(rank_by("accuracy", (variant){.device_metrics = on_device}, 40, NULL));
    assert_int_equal(count_told("Toy: checkpoints are ranked by accuracy, the larger the better\n"), 1);
    assert_int_equal(count_told("there is no best"), 0);
    assert_ok(rank_by(NULL, (variant){.keep_metrics = true}, 0, NULL));
    assert_int_equal(count_told("there is no split 'val', so no checkpoint is ranked and there is no best: add one"),
                     1);
}

/* Without a val_loss, which nobody asked for. */
static void that_there_is_no_best_is_told_once(void **state) {
    (void)state;
    const variant variants[] = {{.keep_metrics = true}, {.device_metrics = on_device}, {0}};
    static const char *const parts[] = {"checkpoint_metric can name one of: accuracy, last\n",
                                        "checkpoint_metric can name one of: accuracy, last, first, rows\n",
                                        "there is no best: add a hook for loss or metrics\n"};
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        nt_experiment toy = toy_with(variants[i]);
        nt_run_options options = {.run_dir = scratch("unranked"), .val_loss = {true, false}};
        options.max_epochs = (nt_maybe_int){true, 2};
        Toy e = Toy_defaults();
        nt_run *run;
        nt__text_free(&notices);
        nt_set_notice(keep_notice, NULL);
        assert_ok(nt_run_new(&toy, &e, &options, &run));
        assert_ok(nt_train(run));
        nt_set_notice(NULL, NULL);
        nt_run_free(run);
        assert_int_equal(count_told(parts[i]), 1);
        assert_int_equal(count_told("no validation reports 'val_loss', so only the newest checkpoint is kept"), 1);
    }
}

static int end(void **state) {
    nt__text_free(&notices);
    scratch_remove(state);
    return shut_down(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_and_host_agree),
        cmocka_unit_test(what_a_metric_moves),
        cmocka_unit_test(train_metrics_of_a_step),
        cmocka_unit_test(the_log_has_them),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(a_failing_host_hook),
        cmocka_unit_test(a_metric_that_cannot_be_is_refused_at_once),
        cmocka_unit_test(a_metric_that_cannot_be_known_is_told_of),
        cmocka_unit_test(a_metric_whose_direction_is_not_known_is_refused),
        cmocka_unit_test(a_best_that_cannot_be_is_refused),
        cmocka_unit_test(how_the_best_is_found_is_told_once),
        cmocka_unit_test(that_there_is_no_best_is_told_once),
    };
    return cmocka_run_group_tests(tests, scratch_make, end);
}
