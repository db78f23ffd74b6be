/* The training loop: programs, steps, transfers, device memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "toy.h"
#include "base/files.h"

static nt_run *make(const Toy *e, nt_run_options options) {
    nt_run *run;
    assert_ok(nt_run_new(Toy_experiment(), e, &options, &run));
    return run;
}

/* ---- programs --------------------------------------------------------------------------------------------------- */

static uint64_t misses_of(Toy e, nt_run_options options) {
    uint64_t before = nt_cache_stats().misses;
    nt_run *run = make(&e, options);
    assert_int_equal(nt_cache_stats().misses, before); /* Construction compiles nothing */
    assert_ok(nt_train(run));
    nt_run_free(run);
    return nt_cache_stats().misses - before;
}

static void what_compiles(void **state) {
    (void)state;
    nt_cache_reset();
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(NULL);
    options.max_epochs = (nt_maybe_int){true, 3};
    assert_int_equal(misses_of(e, options), 4); /* Train, and validate batches of 16 and 8 */
    assert_int_equal(nt_cache_stats().entries, 4);
    assert_string_equal(nt_cache_report(0)->program, "gradient");
    assert_string_equal(nt_cache_report(0)->moved, "first program of its kind");

    nt_run_options other = options;
    other.seed = (nt_maybe_int){true, 7};
    other.learning_rate = (nt_maybe_double){true, 0.1};
    other.max_epochs = (nt_maybe_int){true, 1};
    other.max_steps = (nt_maybe_int){true, 3};
    Toy same = e;
    same.smoothing = 0.3f; /* Device */
    same.rows = 256;       /* Host */
    assert_int_equal(misses_of(same, other), 0);

    Toy wider = e;
    wider.hidden = 12;
    assert_int_equal(misses_of(wider, options), 4);
    assert_non_null(strstr(nt_cache_report(4)->moved, "GraphConst hidden: 8 -> 12"));
    assert_int_equal(misses_of(e, options), 0); /* back again: all are still there */

    nt_run_options accum = options, clip = options;
    accum.accum = (nt_maybe_int){true, 2};
    assert_int_equal(misses_of(e, accum), 1);
    assert_string_equal(nt_cache_report(8)->program, "gradient");
    assert_non_null(strstr(nt_cache_report(8)->moved, "accum: 1 -> 2"));
    clip.gradient_clip_norm = (nt_maybe_double){true, 0.5};
    assert_int_equal(misses_of(e, clip), 1);
    assert_string_equal(nt_cache_report(9)->program, "optimizer");
    assert_non_null(strstr(nt_cache_report(9)->moved, "gradient_clip_norm: 0 -> 0.5"));
    assert_null(nt_cache_report(10));
    assert_int_equal(nt_cache_stats().misses, nt_cache_stats().entries);
}

static char notices[4][400];
static int notice_count;
static void keep_notice(const char *line, void *context) {
    (void)context;
    if (notice_count < 4) snprintf(notices[notice_count++], sizeof notices[0], "%s", line);
}

static void one_line_for_a_miss(void **state) {
    (void)state;
    nt_cache_reset();
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(NULL);
    nt_notice_function before = nt_set_notice(keep_notice, NULL);
    assert_int_equal(misses_of(e, options), 4);
    assert_int_equal(notice_count, 0);
    nt_cache_reset();
    options.quiet = false;
    assert_int_equal(misses_of(e, options), 4);
    assert_int_equal(notice_count, 4);
    assert_non_null(strstr(notices[0], "compiled gradient of Toy in "));
    nt_set_notice(before, NULL);
}

/* ---- device memory ---------------------------------------------------------------------------------------------- */

static void memory_is_flat(void **state) {
    (void)state;
    static heard h;
    memset(&h, 0, sizeof h);
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(&h);
    options.max_epochs = (nt_maybe_int){true, 250};
    nt_run *run = make(&e, options);
    assert_ok(nt_train(run));
    assert_int_equal(h.count, 2000);
    assert_int_equal(h.steps[1999], 2000); /* A line a step, 1..N without gaps */
    for (size_t i = 0; i < h.count; i++) assert_int_equal(h.steps[i], i + 1);
    for (int p = 0; p < NT__PURPOSE_COUNT; p++) {
        if (p == NT__STAGED || p == NT__BATCH) continue;
        assert_int_equal(h.at_step_1999.buffers[p].live_count, h.at_step_2.buffers[p].live_count);
        assert_int_equal(h.at_step_1999.buffers[p].live_bytes, h.at_step_2.buffers[p].live_bytes);
    }
    /* A batch of the step, the one before it, the consumer's, one staged and one in the worker's hands. */
    assert_true(h.at_step_1999.all_buffers.peak_count <= h.at_step_2.all_buffers.live_count + 4 * 2);
    nt__engine_counts after = nt__engine_counts_now();
    assert_int_equal(after.buffers[NT__BATCH].live_count, 0);
    assert_int_equal(after.buffers[NT__STAGED].live_count, 0);
    assert_int_equal(after.buffers[NT__OUTPUT].live_count, 0);
    nt_run_free(run);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_bytes, 0);
}

/* What is alive while a step of several micro-batches is under way is what one of a single micro-batch has. */
static void memory_does_not_depend_on_accum(void **state) {
    (void)state;
    static heard h[3];
    memset(h, 0, sizeof h);
    for (int i = 0; i < 3; i++) {
        Toy e = Toy_defaults();
        nt_run_options options = quiet_options(&h[i]);
        options.accum = (nt_maybe_int){true, 1 << i};
        nt_run *run = make(&e, options);
        assert_ok(nt_train(run));
        nt_run_free(run);
        assert_true(h[i].at_step_2.buffers[NT__ACCUMULATOR].live_count > 0);
        for (int p = 0; p < NT__PURPOSE_COUNT; p++) {
            if (p == NT__STAGED || p == NT__BATCH || p == NT__OUTPUT) continue; /* small, and those of now */
            assert_int_equal(h[i].at_step_2.buffers[p].live_count, h[0].at_step_2.buffers[p].live_count);
            assert_int_equal(h[i].at_step_2.buffers[p].live_bytes, h[0].at_step_2.buffers[p].live_bytes);
            assert_int_equal(h[i].at_step_2.buffers[p].peak_bytes, h[0].at_step_2.buffers[p].peak_bytes);
        }
    }
}

/* A field that no traced hook reads never reaches the device. */
static void only_read_fields_are_uploaded(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    e.val_rows = 0;
    nt_run *run = make(&e, quiet_options(NULL));
    nt__engine_counts before = nt__engine_counts_now();
    assert_ok(nt_train(run));
    nt__transfer staged = nt__engine_counts_now().uploads[NT__STAGED];
    assert_int_equal(staged.count - before.uploads[NT__STAGED].count, 8 * 2);
    assert_int_equal(staged.bytes - before.uploads[NT__STAGED].bytes, 128 * (4 * 4 + 1));
    nt_run_free(run);
}

/* ---- learning --------------------------------------------------------------------------------------------------- */

static void it_learns_and_repeats(void **state) {
    (void)state;
    static heard first, second, third;
    Toy e = Toy_defaults();
    heard *all[] = {&first, &second, &third};
    for (int i = 0; i < 3; i++) {
        memset(all[i], 0, sizeof *all[i]);
        nt_run_options options = quiet_options(all[i]);
        options.max_epochs = (nt_maybe_int){true, 20};
        options.learning_rate = (nt_maybe_double){true, 0.02};
        options.seed = (nt_maybe_int){true, i == 2 ? 1 : 42};
        nt_run *run = make(&e, options);
        assert_ok(nt_train(run));
        nt_results results;
        assert_ok(nt_validate(run, &results));
        assert_string_equal(results.values[0].name, "accuracy");
        assert_true(results.values[0].value > 0.9);
        assert_true(results.values[1].value == 39); /* Metrics see the real rows, not the padding */
        nt_run_free(run);
    }
    assert_true(first.epoch_losses[19] < 0.5 * first.epoch_losses[0]);
    assert_memory_equal(first.losses, second.losses, sizeof first.losses);
    assert_memory_not_equal(first.losses, third.losses, sizeof first.losses);
}

/* Accumulation over equal micro-batches equals the merged batch. */
static void accumulation_equals_the_merged_batch(void **state) {
    (void)state;
    nt_array *weights[2];
    for (int i = 0; i < 2; i++) {
        Toy e = Toy_defaults();
        e.batch = i ? 8 : 32;
        e.rows = 32; /* one step an epoch, so the order of the rows does not matter */
        nt_run_options options = quiet_options(NULL);
        options.accum = (nt_maybe_int){true, i ? 4 : 1};
        options.max_epochs = (nt_maybe_int){true, 10};
        nt_run *run = make(&e, options);
        assert_ok(nt_train(run));
        assert_int_equal(nt_run_step(run), 10); /* Steps, never micro-batches */
        weights[i] = nt_run_parameter(run, "hidden.weight");
        assert_non_null(weights[i]);
        nt_run_free(run);
    }
    for (int64_t i = 0; i < nt_shape_elements(weights[0]->shape); i++)
        assert_true(fabs(nt_array_get(weights[0], i) - nt_array_get(weights[1], i)) < 1e-6);
    nt_array_free(weights[0]);
    nt_array_free(weights[1]);
}

/* ---- endings ---------------------------------------------------------------------------------------------------- */

static void a_nan_stops_the_run(void **state) {
    (void)state;
    static heard h;
    memset(&h, 0, sizeof h);
    Toy e = Toy_defaults();
    e.poison = true;
    nt_run *run = make(&e, quiet_options(&h));
    assert_fails(nt_train(run), NT_DIVERGED, "the loss is nan at step ");
    assert_non_null(strstr(nt_error_message(), "of epoch 1"));
    assert_non_null(strstr(nt_error_message(), "look at the data of that batch"));
    char step[32];
    snprintf(step, sizeof step, "at step %zu of", h.count + 1);
    assert_non_null(strstr(nt_error_message(), step));
    nt_run_free(run);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
    /* Told to go on, it does, and the epoch's loss is nan. */
    memset(&h, 0, sizeof h);
    nt_run_options options = quiet_options(&h);
    options.check_divergence = (nt_maybe_bool){true, false};
    run = make(&e, options);
    assert_ok(nt_train(run));
    assert_int_equal(h.epochs, 1);
    assert_true(isnan(h.epoch_losses[0]));
    nt_run_free(run);
}

static void a_stop_request_ends_at_the_next_step(void **state) {
    (void)state;
    static heard h;
    memset(&h, 0, sizeof h);
    h.stop_at = 11;
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(&h);
    options.max_epochs = (nt_maybe_int){true, 100};
    nt_run *run = make(&e, options);
    assert_fails(nt_train(run), NT_INTERRUPTED, "stopped as asked at step 12 of epoch 2");
    assert_int_equal(h.count, 12); /* one step was in flight; its loss was read as well */
    nt_stop_clear();
    assert_int_equal(nt__engine_counts_now().buffers[NT__BATCH].live_count, 0);
    assert_int_equal(nt__engine_counts_now().buffers[NT__STAGED].live_count, 0);
    nt_run_free(run);
}

static void keep_steps(const nt_event *event, void *context) {
    int64_t *steps = context;
    if (event->kind == NT_EVENT_STEP) *steps = event->steps;
}

/* Each call tells the step that it ends at, also past the epochs that the run was made for. */
static void progress_is_told_to_the_end_of_each_call(void **state) {
    (void)state;
    int64_t steps = 0;
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(NULL);
    options.max_epochs = (nt_maybe_int){true, 2};
    options.on_event = keep_steps;
    options.event_context = &steps;
    nt_run *run = make(&e, options);
    assert_ok(nt_train(run));
    assert_int_equal(steps, 16);
    assert_ok(nt_train_more(run, 1, 0));
    assert_int_equal(steps, 24);
    assert_ok(nt_train_more(run, 0, 3));
    assert_int_equal(steps, 27);
    assert_int_equal(nt_run_step(run), 27);
    nt_run_free(run);
}

/* What validations and epochs told until the request, which comes with a batch of the second validation. */
typedef struct cut_short {
    size_t batches, epochs, values;
    int64_t batches_of_one;
} cut_short;

static void stop_in_second_validation(const nt_event *event, void *context) {
    cut_short *c = context;
    if (event->kind == NT_EVENT_EVALUATING) {
        c->batches_of_one = event->batches;
        if (++c->batches == (size_t)event->batches + 1) nt_stop_request();
    }
    if (event->kind == NT_EVENT_EPOCH) {
        c->epochs++;
        c->values = event->value_count;
    }
}

static void a_stop_request_ends_a_validation_at_the_next_batch(void **state) {
    (void)state;
    cut_short c = {0};
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(NULL);
    options.max_epochs = (nt_maybe_int){true, 100};
    options.on_event = stop_in_second_validation;
    options.event_context = &c;
    nt_run *run = make(&e, options);
    assert_fails(nt_train(run), NT_INTERRUPTED, "stopped as asked at step 16 of epoch 2");
    assert_true(c.batches_of_one > 1);
    assert_int_equal(c.batches, c.batches_of_one + 1);
    assert_int_equal(c.epochs, 2);
    assert_int_equal(c.values, 0); /* the epoch that was cut short has no validation */
    nt_stop_clear();
    assert_int_equal(nt__engine_counts_now().buffers[NT__STAGED].live_count, 0);
    assert_int_equal(nt__engine_counts_now().buffers[NT__OUTPUT].live_count, 0);
    nt_run_free(run);
}

static void max_steps_ends_the_run(void **state) {
    (void)state;
    static const int64_t limits[] = {0, 1, 8, 13};
    for (size_t i = 0; i < 4; i++) {
        Toy e = Toy_defaults();
        nt_run_options options = quiet_options(NULL);
        options.max_epochs = (nt_maybe_int){true, 100};
        options.max_steps = (nt_maybe_int){true, limits[i]};
        nt_run *run = make(&e, options);
        assert_ok(nt_train(run));
        assert_int_equal(nt_run_step(run), limits[i]);
        nt_run_free(run);
    }
}

/* What a listener tries while the run is at work. */
static void meddle(const nt_event *event, void *context) {
    nt_run **run = context;
    if (event->kind != NT_EVENT_STEP || event->step != 3) return;
    assert_fails(nt_train(*run), NT_INVALID, "nt_train: run 'Toy' is training, evaluating or predicting");
    assert_fails(nt_evaluate(*run, "val", NULL), NT_INVALID,
                 "nt_evaluate: run 'Toy' is training, evaluating or predicting");
    nt_run_free(*run);
}

static void a_listener_cannot_start_the_run_again(void **state) {
    (void)state;
    nt_run *run;
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(NULL);
    options.on_event = meddle;
    options.event_context = &run;
    nt_notice_function before = nt_set_notice(NULL, NULL);
    assert_ok(nt_run_new(Toy_experiment(), &e, &options, &run));
    assert_ok(nt_train(run));
    nt_set_notice(before, NULL);
    assert_int_equal(nt_run_step(run), 8);
    nt_run_free(run);
}

static void huge_numbers_of_epochs_do_not_overflow(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(NULL);
    options.max_epochs = (nt_maybe_int){true, INT64_MAX};
    options.max_steps = (nt_maybe_int){true, 2};
    nt_run *run = make(&e, options);
    assert_ok(nt_train(run));
    assert_int_equal(nt_run_step(run), 2);
    nt_run_free(run);
}

/* ---- the log ---------------------------------------------------------------------------------------------------- */

static void the_log_has_a_line_a_step(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(NULL);
    options.no_log = false;
    options.run_dir = scratch("runs/toy");
    options.max_epochs = (nt_maybe_int){true, 2};
    nt_run *run = make(&e, options);
    assert_ok(nt_train(run));
    char path[SCRATCH_PATH], *text;
    size_t length;
    snprintf(path, sizeof path, "%s/metrics.jsonl", nt_run_dir(run));
    assert_ok(nt__read_file(path, &text, &length));
    int lines = 0, train = 0, validate = 0, waiting = 0, means = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), lines++) {
        train += strstr(line, "\"context\":\"train\"") != NULL;
        validate += strstr(line, "\"context\":\"validate\"") && strstr(line, "\"accuracy\":");
        means += strstr(line, "\"context\":\"epoch\"") && strstr(line, "\"loss\":");
        waiting += strstr(line, "\"data_wait_frac\":") != NULL;
        if (lines == 0) assert_non_null(strstr(line, "\"hidden\":8"));
        if (lines == 2) assert_non_null(strstr(line, "{\"experiment\":\"Toy\",\"started\":"));
        if (lines == 3) assert_non_null(strstr(line, "toy.h\","));
        if (lines == 1)
            assert_non_null(strstr(line, "{\"key\":\"binding_report\",\"value\":\"data\\n  train: 8 batches"));
    }
    assert_int_equal(train, 16);
    assert_int_equal(validate, 2);
    assert_int_equal(waiting, 2);
    assert_int_equal(means, 2);
    assert_int_equal(lines, 4 + 16 + 2 + 2 + 2 + 1);
    nt__free(text);
    nt_run_free(run);
}

/* ---- saving and loading ----------------------------------------------------------------------------------------- */

static void parameters_survive_a_file(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run *run = make(&e, quiet_options(NULL));
    assert_ok(nt_train(run));
    assert_ok(nt_run_save(run, scratch("p.safetensors")));
    nt_array *before = nt_run_parameter(run, "logits.weight");
    nt_results results;
    assert_ok(nt_validate(run, &results));
    double accuracy = results.values[0].value;
    nt_run_free(run);

    nt_run_options options = quiet_options(NULL);
    options.seed = (nt_maybe_int){true, 99};
    run = make(&e, options);
    assert_ok(nt_run_load(run, scratch("p.safetensors")));
    nt_array *after = nt_run_parameter(run, "logits.weight");
    assert_memory_equal(before->data, after->data, before->bytes);
    assert_ok(nt_validate(run, &results));
    assert_true(results.values[0].value == accuracy);
    nt_array_free(before);
    nt_array_free(after);
    assert_null(nt_run_parameter(run, "nothing"));
    assert_non_null(strstr(nt_error_message(), "hidden.weight, hidden.bias, logits.weight, logits.bias"));
    nt_run_free(run);

    e.hidden = 5;
    run = make(&e, quiet_options(NULL));
    assert_fails(nt_run_load(run, scratch("p.safetensors")), NT_INVALID, "hidden: 8 in the file, 5 here");
    nt_run_free(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_compiles),
        cmocka_unit_test(one_line_for_a_miss),
        cmocka_unit_test(memory_does_not_depend_on_accum),
        cmocka_unit_test(memory_is_flat),
        cmocka_unit_test(only_read_fields_are_uploaded),
        cmocka_unit_test(it_learns_and_repeats),
        cmocka_unit_test(accumulation_equals_the_merged_batch),
        cmocka_unit_test(a_nan_stops_the_run),
        cmocka_unit_test(a_stop_request_ends_at_the_next_step),
        cmocka_unit_test(progress_is_told_to_the_end_of_each_call),
        cmocka_unit_test(a_stop_request_ends_a_validation_at_the_next_batch),
        cmocka_unit_test(max_steps_ends_the_run),
        cmocka_unit_test(a_listener_cannot_start_the_run_again),
        cmocka_unit_test(huge_numbers_of_epochs_do_not_overflow),
        cmocka_unit_test_setup_teardown(the_log_has_a_line_a_step, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(parameters_survive_a_file, scratch_make, scratch_remove),
    };
    return cmocka_run_group_tests(tests, NULL, shut_down);
}
