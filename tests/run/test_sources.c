/* Runs whose data comes from sources: the same numbers as from arrays, flat memory, and every way such a run ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/time.h>

#include "toy_source.h"
#include "base/files.h"

static nt_experiment sourced; /* Toy with sources */

static nt_run *make(const Toy *e, nt_run_options options) {
    nt_run *run;
    assert_ok(nt_run_new(&sourced, e, &options, &run));
    return run;
}

static void end(nt_run *run) {
    nt_run_free(run);
    assert_int_equal(reading.closed, reading.made);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
}

/* ---- the same numbers ------------------------------------------------------------------------------------------- */

typedef struct outcome {
    nt_array *weight;
    double accuracy, last;
    heard heard;
} outcome;

static void train_and_validate(const nt_experiment *experiment, outcome *out) {
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(&out->heard);
    options.max_epochs = (nt_maybe_int){true, 5};
    options.learning_rate = (nt_maybe_double){true, 0.02};
    nt_run *run;
    nt_results results;
    memset(out, 0, sizeof *out);
    assert_ok(nt_run_new(experiment, &e, &options, &run));
    assert_ok(nt_train(run));
    assert_ok(nt_validate(run, &results));
    out->accuracy = results.values[0].value;
    out->last = results.values[1].value;
    out->weight = nt_run_parameter(run, "hidden.weight");
    assert_non_null(out->weight);
    nt_run_free(run);
}

static void a_run_is_the_same_from_arrays_and_any_workers(void **state) {
    (void)state;
    static outcome arrays, one;
    train_and_validate(Toy_experiment(), &arrays);
    for (int workers = 1; workers <= 4; workers += 3) {
        toy_reading_reset(workers);
        train_and_validate(&sourced, &one);
        assert_int_equal(reading.closed, 2);
        assert_memory_equal(one.weight->data, arrays.weight->data, arrays.weight->bytes);
        assert_memory_equal(one.heard.losses, arrays.heard.losses, sizeof arrays.heard.losses);
        assert_int_equal(one.heard.count, 40);
        assert_true(one.accuracy == arrays.accuracy && one.last == 39);
        nt_array_free(one.weight);
    }
    nt_array_free(arrays.weight);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

typedef struct memory {
    nt__engine_counts first; /* after step 2 */
    size_t blocks;           /* after epoch 2 */
    long resident;
    int64_t steps, epochs;
} memory;

/* A sanitizer keeps freed memory for a while. */
#ifdef __SANITIZE_ADDRESS__
enum { SLACK = 300 << 20 };
#else
enum { SLACK = 2 << 20 };
#endif

static long resident_bytes(void) {
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return resident * 4096;
}

/* At the last step of an epoch there is less: nothing is under way. */
static void compare_step(memory *m) {
    nt__engine_counts now = nt__engine_counts_now();
    if (++m->steps == 2) m->first = now;
    if (m->steps <= 2) return;
    for (int p = 0; p < NT__PURPOSE_COUNT; p++) {
        uint64_t most = p == NT__STAGED ? 2 : p == NT__BATCH ? 4 : m->first.buffers[p].live_count;
        assert_true(now.buffers[p].live_count <= most);
        if (p == NT__STAGED || p == NT__BATCH || p == NT__OUTPUT) continue;
        assert_int_equal(now.buffers[p].live_count, m->first.buffers[p].live_count);
        assert_int_equal(now.buffers[p].live_bytes, m->first.buffers[p].live_bytes);
    }
}

static void compare_epoch(memory *m) {
    if (++m->epochs == 2) {
        m->blocks = nt__memory().live;
        m->resident = resident_bytes();
    }
    if (m->epochs <= 2) return;
    assert_int_equal(nt__memory().live, m->blocks);
    assert_true(resident_bytes() - m->resident < SLACK);
}

static void compare(const nt_event *event, void *context) {
    if (event->kind == NT_EVENT_STEP) compare_step(context);
    if (event->kind == NT_EVENT_EPOCH) compare_epoch(context);
}

/* 10,000 steps in 20 epochs, each with a validation. */
static void memory_is_flat(void **state) {
    (void)state;
    memory m = {.steps = 0};
    Toy e = Toy_defaults();
    e.batch = 4;
    e.rows = 2000;
    e.hidden = 2;
    nt_run_options options = quiet_options(NULL);
    options.on_event = compare;
    options.event_context = &m;
    options.max_epochs = (nt_maybe_int){true, 20};
    toy_reading_reset(3);
    nt_run *run = make(&e, options);
    assert_ok(nt_train(run));
    assert_int_equal(m.steps, 10000);
    assert_int_equal(m.epochs, 20);
    nt__engine_counts after = nt__engine_counts_now();
    assert_int_equal(after.buffers[NT__BATCH].live_count, 0);
    assert_int_equal(after.buffers[NT__STAGED].live_count, 0);
    assert_int_equal(after.buffers[NT__OUTPUT].live_count, 0);
    end(run);
}

/* Outputs that are an input of the program, unchanged, are freed without that input. */
static nt_tensor returns_a_parameter(const void *view, nt_model *m, nt_batch *batch) {
    (void)view;
    (void)batch;
    return nt_parameter(m, "table", nt_dims(16, 2), .init = nt_ones());
}

static nt_tensor returns_a_field(const void *view, nt_model *m, nt_batch *batch) {
    (void)view;
    nt_parameter(m, "table", nt_dims(16, 2), .init = nt_ones());
    return nt_field(batch, "x");
}

static nt_status only_val(const void *e, nt_data *data) {
    return toy_source_split(e, data, "val", 40, false);
}

static double sum_of_outputs;

static void sum_outputs(const void *e, nt_metrics *metrics, const nt_array *outputs, const nt_host_batch *batch) {
    (void)e;
    (void)batch;
    double sum = 0;
    for (int64_t i = 0; i < nt_shape_elements(outputs->shape); i++) sum += nt_array_get(outputs, i);
    nt_metric_sum(metrics, "sum", sum);
    sum_of_outputs += sum;
}

static void evaluation_frees_nothing_that_is_shared(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(NULL);
    for (int field = 0; field < 2; field++) {
        nt_experiment changed = sourced;
        changed.hooks = (nt_hooks){.build_data = only_val, .metrics = sum_outputs};
        changed.hooks.forward = field ? returns_a_field : returns_a_parameter;
        toy_reading_reset(2);
        nt_run *run;
        assert_ok(nt_run_new(&changed, &e, &options, &run));
        uint64_t buffers = nt__engine_counts_now().all_buffers.live_count;
        double sums[2];
        for (int i = 0; i < 2; i++) {
            sum_of_outputs = 0;
            assert_ok(nt_validate(run, NULL));
            assert_int_equal(nt__engine_counts_now().all_buffers.live_count, buffers);
            sums[i] = sum_of_outputs;
        }
        assert_true(sums[0] == sums[1] && (field || sums[0] == 2 * 40));
        nt_array *table = nt_run_parameter(run, "table");
        assert_non_null(table);
        assert_true(nt_array_get(table, 31) == 1);
        nt_array_free(table);
        end(run);
    }
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

static void assert_idle(size_t blocks) {
    nt__engine_counts now = nt__engine_counts_now();
    assert_int_equal(now.buffers[NT__BATCH].live_count, 0);
    assert_int_equal(now.buffers[NT__STAGED].live_count, 0);
    assert_int_equal(now.buffers[NT__OUTPUT].live_count, 0);
    assert_int_equal(nt__memory().live, blocks);
}

/* The error of the source, the place, and a run that can go on. */
static void errors_of_a_source_end_the_phase(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(NULL);
    options.max_epochs = (nt_maybe_int){true, 4};
    toy_reading_reset(3);
    nt_run *run = make(&e, options);
    reading.fails = 3;
    assert_fails(nt_train(run), NT_IO, "split 'train', batch 3 of 8: source 'toy rows': the disk is gone");
    assert_int_equal(nt_run_step(run), 2);
    assert_fails(nt_validate(run, NULL), NT_IO, "split 'val', batch 3 of 3: source 'toy rows': the disk is gone");
    size_t blocks = nt__memory().live; /* with the metrics of the batches before */
    assert_fails(nt_train(run), NT_IO, "split 'train', batch 3 of 8: source 'toy rows': the disk is gone");
    assert_idle(blocks);
    assert_fails(nt_validate(run, NULL), NT_IO, "split 'val', batch 3 of 3: source 'toy rows': the disk is gone");
    assert_idle(blocks);
    reading.fails = 0;
    reading.exits = 2;
    assert_fails(nt_train(run), NT_INVALID, "split 'train', batch 2 of 8: worker ");
    assert_idle(blocks);
    reading.exits = 0;
    assert_int_equal(reading.closed, 0);
    assert_ok(nt_train(run));
    assert_ok(nt_validate(run, NULL));
    assert_int_equal(nt_run_epoch(run), 4);
    end(run);
}

static void labels_of_a_source_are_checked_as_they_come(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    e.bad_label = 7;
    toy_reading_reset(2);
    nt_run *run = make(&e, quiet_options(NULL));
    assert_fails(nt_train(run), NT_INVALID,
                 "source 'toy rows': field 'label', row 5: 7 is not in 0..1; correct the data, or the number of "
                 "classes; a label that marks");
    end(run);
}

static void a_nan_is_the_error_although_workers_wait(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    e.poison = true;
    toy_reading_reset(4);
    nt_run *run = make(&e, quiet_options(NULL));
    assert_fails(nt_train(run), NT_DIVERGED, "the loss is nan at step ");
    end(run);
}

/* ---- stopping --------------------------------------------------------------------------------------------------- */

static void on_alarm(int number) {
    (void)number;
    nt_stop_request();
}

/* SIGALRM in a tenth of a second stands for a Ctrl-C. */
static void interrupt_soon(void) {
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_usec = 100000}}, NULL);
}

static void an_interrupt_ends_the_waiting_for_a_worker(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    toy_reading_reset(2);
    nt_run *run = make(&e, quiet_options(NULL));
    reading.sticks = 3;
    interrupt_soon();
    double start = nt__seconds();
    assert_fails(nt_train(run), NT_INTERRUPTED, "stopped as asked at step 2 of epoch 1");
    assert_true(nt__seconds() - start < 5);
    nt_stop_clear();
    interrupt_soon();
    start = nt__seconds();
    assert_fails(nt_validate(run, NULL), NT_INTERRUPTED, "split 'val', batch 3 of 3: stopped as asked");
    assert_true(nt__seconds() - start < 5);
    nt_stop_clear();
    nt_run_free(run); /* the sources live on: threads are in them */
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
    toy_release(true);
    for (int i = 0; i < 5000; i++) {
        pthread_mutex_lock(&reading.lock);
        bool closed = reading.closed == 2;
        pthread_mutex_unlock(&reading.lock);
        if (closed) return;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    fail_msg("the sources were not closed");
}

static void a_stuck_worker_ends_training(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    toy_reading_reset(2);
    reading.time_limit = 0.5;
    nt_run *run = make(&e, quiet_options(NULL));
    reading.sticks = 5;
    assert_fails(nt_train(run), NT_IO, "split 'train', batch 5 of 8: worker ");
    assert_non_null(strstr(nt_error_message(), "has been reading 'toy rows' for "));
    assert_int_equal(nt_run_step(run), 4);
    toy_release(true);
    nt_run_free(run);
}

/* ---- short memory ----------------------------------------------------------------------------------------------- */

static void every_refused_allocation_of_a_pass_leaves_nothing(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    toy_reading_reset(3);
    nt_run *run = make(&e, quiet_options(NULL));
    assert_ok(nt_validate(run, NULL));
    size_t blocks = nt__memory().live;
    int refused = 0;
    for (size_t n = 1; n < 120; n++) {
        nt__memory_fail_at(n);
        nt_status status = nt_validate(run, NULL);
        nt__memory_fail_at(0);
        if (status != NT_OK) assert_fails(status, NT_OUT_OF_MEMORY, "out of host memory");
        refused += status != NT_OK;
        assert_ok(nt_validate(run, NULL)); /* results again, as before */
        assert_idle(blocks);
    }
    assert_true(refused > 20);
    end(run);
}

/* ---- the report of waiting -------------------------------------------------------------------------------------- */

static char notices[4][600];
static int notice_count;
static void keep_notice(const char *line, void *context) {
    (void)context;
    if (strstr(line, "waited for data") && notice_count < 4)
        snprintf(notices[notice_count++], sizeof notices[0], "%s", line);
}

static void waiting_is_reported_once(void **state) {
    (void)state;
    nt_notice_function before = nt_set_notice(keep_notice, NULL);
    for (int quiet = 0; quiet < 2; quiet++) {
        Toy e = Toy_defaults();
        e.val_rows = 0;
        nt_run_options options = quiet_options(NULL);
        options.quiet = quiet;
        options.max_epochs = (nt_maybe_int){true, 2 - quiet};
        toy_reading_reset(1);
        nt_run *run = make(&e, options);
        assert_ok(nt_train(run)); /* quick: nothing to say */
        nt_run_free(run);
        assert_int_equal(notice_count, quiet);
        reading.pace = 0.1;
        run = make(&e, options);
        assert_ok(nt_train(run));
        nt_run_free(run);
        assert_int_equal(notice_count, 1);
    }
    nt_set_notice(before, NULL);
    assert_non_null(strstr(notices[0], "Toy: epoch 1 waited for data "));
    assert_non_null(strstr(notices[0], "times as fast"));
    assert_non_null(strstr(notices[0], "has 1 worker, 2 host batches and 1 device batches: more .workers"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_the_same_from_arrays_and_any_workers),
        cmocka_unit_test(memory_is_flat),
        cmocka_unit_test(evaluation_frees_nothing_that_is_shared),
        cmocka_unit_test(errors_of_a_source_end_the_phase),
        cmocka_unit_test(labels_of_a_source_are_checked_as_they_come),
        cmocka_unit_test(a_nan_is_the_error_although_workers_wait),
        cmocka_unit_test(an_interrupt_ends_the_waiting_for_a_worker),
        cmocka_unit_test(a_stuck_worker_ends_training),
        cmocka_unit_test(every_refused_allocation_of_a_pass_leaves_nothing),
        cmocka_unit_test(waiting_is_reported_once),
    };
    sourced = *Toy_experiment();
    sourced.hooks.build_data = toy_source_data;
    return cmocka_run_group_tests_name("sources", tests, NULL, shut_down);
}
