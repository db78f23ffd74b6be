/* src/data/workers.c: several threads read ahead and the order stays; errors come with their batch; threads that end,
 * get stuck or are slow hold up nobody for long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "made_source.h"
#include "base/files.h"

/* ---- order ------------------------------------------------------------------------------------------------------ */

/* Each batch once and in its turn, whatever the number of workers and whoever is slow. */
static void the_order_is_the_same_for_any_number_of_workers(void **state) {
    (void)state;
    enum { ROWS = 203, BATCH = 5, BATCHES = 41 };
    static const struct {
        int workers, host, device;
    } limits[] = {{1, 0, 0}, {2, 0, 0}, {2, 2, 3}, {4, 4, 1}, {8, 0, 2}, {8, 30, 0}, {64, 0, 0}};
    int expected[MOST_ROWS], rows[MOST_ROWS];
    living before = living_now();
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        made m = MADE(ROWS, .slow_at = 1, .slow = 0.02, .pace = i % 2 ? 0.001 : 0);
        nt_data *data = data_of(&m, (nt_split_options){.batch = BATCH,
                                                       .shuffle = true,
                                                       .workers = limits[i].workers,
                                                       .host_batches = limits[i].host,
                                                       .device_batches = limits[i].device});
        nt__stream *stream = open_pass(data, pass_options());
        assert_int_equal(run_pass(stream, BATCH, i ? rows : expected), ROWS);
        if (i) assert_memory_equal(rows, expected, sizeof(int) * ROWS);
        nt__stream_close(stream);
        for (int j = 0; j < BATCHES; j++) assert_int_equal(m.reads_of[j], 1);
        assert_true(m.most_reading <= limits[i].workers);
        assert_int_equal(m.reads, BATCHES);
        nt__data_free(data);
        assert_nothing_left(before);
    }
}

static void arrays_too_may_have_workers(void **state) {
    (void)state;
    enum { ROWS = 203 };
    int expected[MOST_ROWS], rows[MOST_ROWS];
    for (int workers = 1; workers <= 4; workers++) {
        nt_data *data = nt__data_new();
        nt_split(data, "train", .batch = 8, .shuffle = true, .workers = workers);
        nt_split_field(data, "train", "image", made_grid(ROWS));
        nt_split_field(data, "train", "label", made_line(NT_U8, ROWS));
        nt__stream *stream = open_pass(data, pass_options());
        assert_int_equal(run_pass(stream, 8, workers > 1 ? rows : expected), ROWS);
        if (workers > 1) assert_memory_equal(rows, expected, sizeof(int) * ROWS);
        nt__stream_close(stream);
        nt__data_free(data);
    }
}

/* No more places than workers and a very slow first batch; more workers than batches. */
static void narrow_windows_complete(void **state) {
    (void)state;
    int rows[MOST_ROWS];
    for (int batches = 1; batches <= 16; batches *= 4) {
        made m = MADE(batches * 2, .slow_at = 1, .slow = 0.1);
        nt_data *data = data_of(&m, (nt_split_options){.batch = 2, .workers = 8, .host_batches = 8});
        nt__stream *stream = open_pass(data, pass_options());
        assert_int_equal(run_pass(stream, 2, rows), batches * 2);
        nt__stream_close(stream);
        nt__data_free(data);
    }
}

/* ---- limits ----------------------------------------------------------------------------------------------------- */

static int reads_now(made *m) {
    pthread_mutex_lock(&m->lock);
    int reads = m->reads;
    pthread_mutex_unlock(&m->lock);
    return reads;
}

static void wait_for_reads(made *m, int reads) {
    for (int i = 0; i < 5000 && reads_now(m) < reads; i++) made_sleep(0.001);
}

static void queues_are_bounded(void **state) {
    (void)state;
    enum { HOST = 5, DEVICE = 2 };
    made m = MADE(100);
    living before = living_now();
    nt_data *data =
        data_of(&m, (nt_split_options){.batch = 2, .workers = 3, .host_batches = HOST, .device_batches = DEVICE});
    nt__stream *stream = open_pass(data, pass_options());
    nt__staged *held[4] = {NULL};
    for (int taken = 0; taken < 4; taken++) {
        wait_for_reads(&m, HOST + DEVICE + taken);
        made_sleep(0.01);
        assert_int_equal(reads_now(&m), HOST + DEVICE + taken);
        assert_int_equal(nt__engine_counts_now().buffers[NT__STAGED].live_count, 2 * DEVICE);
        assert_int_equal(nt__engine_counts_now().buffers[NT__BATCH].live_count, 2 * taken);
        held[taken] = next(stream);
    }
    nt__stream_close(stream);
    assert_int_equal(nt__engine_counts_now().buffers[NT__STAGED].live_count, 0);
    for (int i = 0; i < 4; i++) nt__staged_free(held[i]);
    nt__data_free(data);
    assert_nothing_left(before);
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

/* After all batches before it and not sooner, and again at every later call. */
static void an_error_comes_with_its_batch(void **state) {
    (void)state;
    living before = living_now();
    for (int workers = 1; workers <= 8; workers *= 2) {
        for (int64_t at = 0; at < 16; at += 5) {
            made m = MADE(32, .fails_at = at + 1, .slow_at = at, .slow = 0.02);
            char message[128];
            int batches;
            nt_data *data = data_of(&m, (nt_split_options){.batch = 2, .workers = workers});
            nt__stream *stream = open_pass(data, pass_options());
            snprintf(message, sizeof message, "split 'train', batch %d of 16: source 'made': file %d is not there",
                     (int)at + 1, (int)at + 1);
            for (int again = 0; again < 2; again++) {
                assert_int_equal(count_batches(stream, &batches), NT_IO);
                assert_int_equal(batches, again ? 0 : at);
                assert_string_equal(nt_error_message(), message);
                nt__fail(NT_INVALID, "something else");
            }
            nt__stream_close(stream);
            nt__data_free(data);
            assert_nothing_left(before);
        }
    }
}

/* Batch 2 fails late, batch 3 soon: the first in the order of the pass is the one that comes out. */
static void the_first_error_of_the_pass_counts(void **state) {
    (void)state;
    int batches;
    made m = MADE(32, .fails_at = 3, .also_fails_at = 4, .slow_at = 3, .slow = 0.05);
    nt_data *data = data_of(&m, (nt_split_options){.batch = 2, .workers = 4});
    nt__stream *stream = open_pass(data, pass_options());
    assert_int_equal(count_batches(stream, &batches), NT_IO);
    assert_int_equal(batches, 2);
    assert_message_has("batch 3 of 16: source 'made': file 3");
    nt__stream_close(stream);
    nt__data_free(data);
}

static void nobody_has_to_look_at_an_error(void **state) {
    (void)state;
    made m = MADE(32, .fails_at = 3);
    nt_data *data = data_of(&m, (nt_split_options){.batch = 2, .workers = 4});
    living before = living_now();
    for (int turn = 0; turn < 20; turn++) {
        nt__stream *stream = open_pass(data, pass_options());
        if (turn % 2) nt__staged_free(next(stream));
        made_sleep(turn % 5 * 0.0005);
        nt__stream_close(stream);
        assert_nothing_left(before);
    }
    nt__data_free(data);
}

/* Which thread meets the refusal differs from pass to pass: it is an error or it was not reached. */
static void refused_allocations_leave_nothing(void **state) {
    (void)state;
    made m = MADE(32);
    nt_data *data = data_of(&m, (nt_split_options){.batch = 2, .workers = 4});
    living before = living_now();
    int refused = 0;
    for (size_t n = 1; n < 200; n++) {
        int batches = 0;
        nt__stream *stream;
        nt__stream_options options = pass_options();
        nt__memory_fail_at(n);
        nt_status status = nt__stream_open(nt__data_split_at(data, 0), &options, &stream);
        if (status == NT_OK) status = count_batches(stream, &batches);
        nt__stream_close(stream);
        nt__memory_fail_at(0);
        assert_true(status == NT_OUT_OF_MEMORY || batches == 16);
        refused += status == NT_OUT_OF_MEMORY;
        assert_nothing_left(before);
    }
    assert_true(refused > 50);
    nt__data_free(data);
}

/* ---- threads that end or hang ----------------------------------------------------------------------------------- */

/* It ends in its read, or asks to be cancelled and returns. */
static void a_worker_that_ends_is_named(void **state) {
    (void)state;
    living before = living_now();
    for (int workers = 1; workers <= 4; workers *= 4) {
        for (int64_t at = 0; at < 16; at++) {
            int batches;
            made m = MADE(32, .exits_at = at % 2 ? at + 1 : 0, .cancels_at = at % 2 ? 0 : at + 1);
            nt_data *data = data_of(&m, (nt_split_options){.batch = 2, .workers = workers});
            nt__stream *stream = open_pass(data, pass_options());
            double start = nt__seconds();
            assert_int_equal(count_batches(stream, &batches), NT_INVALID);
            assert_int_equal(batches, at);
            char where[64];
            snprintf(where, sizeof where, "split 'train', batch %d of 16: worker ", (int)at + 1);
            assert_message_has_all((const char *[]){where, "'made'", "pthread_exit"}, 3);
            nt__stream_close(stream);
            assert_true(nt__seconds() - start < 5);
            nt__data_free(data);
            assert_nothing_left(before);
            assert_int_equal(m.closes, 1);
        }
    }
}

static void wait_until_nothing_is_left(living before) {
    for (int i = 0; i < 5000 && nt__memory().live > before.blocks; i++) made_sleep(0.001);
    assert_nothing_left(before);
}

/* The pass is left, the data freed, while the source still has the thread: what it uses lives until it comes back. */
static void a_stuck_worker_is_named_and_left_behind(void **state) {
    (void)state;
    living before = living_now();
    for (int workers = 1; workers <= 4; workers *= 4) {
        int batches;
        made m = MADE(32, .sticks_at = 4);
        nt_data *data = data_of(&m, (nt_split_options){.batch = 2, .workers = workers, .time_limit = 0.5});
        nt__stream *stream = open_pass(data, pass_options());
        double start = nt__seconds();
        assert_int_equal(count_batches(stream, &batches), NT_IO);
        double waited = nt__seconds() - start;
        assert_int_equal(batches, 3);
        assert_true(waited >= 0.45 && waited < 5);
        assert_message_has_all(
            (const char *[]){"split 'train', batch 4 of 16: worker ", "'made' for ", "seconds", "time_limit = 0.5"}, 4);
        assert_int_equal(count_batches(stream, &batches), NT_IO);
        assert_int_equal(batches, 0);
        nt__stream_close(stream);
        assert_true(nt__seconds() - start < 5);
        nt__data_free(data);
        assert_int_equal(made_closes(&m), 0);
        made_release(&m);
        wait_until_nothing_is_left(before);
        assert_int_equal(made_closes(&m), 1);
    }
}

static void a_pass_is_left_at_once_while_workers_read(void **state) {
    (void)state;
    living before = living_now();
    made m = MADE(32, .sticks_at = 3);
    int rows[MOST_ROWS];
    nt_data *data = data_of(&m, (nt_split_options){.batch = 2, .workers = 2});
    nt__stream *stream = open_pass(data, pass_options());
    nt__staged *staged = next(stream);
    double start = nt__seconds();
    nt__stream_close(stream);
    assert_true(nt__seconds() - start < 5);
    assert_int_equal(nt__engine_counts_now().buffers[NT__STAGED].live_count, 0);
    assert_int_equal(rows_of(staged, 2, rows), 2);
    nt__staged_free(staged);
    /* Another pass beside the thread that was left behind: any row may be read at any time. */
    pthread_mutex_lock(&m.lock);
    m.sticks_at = 0;
    pthread_mutex_unlock(&m.lock);
    stream = open_pass(data, pass_options());
    assert_int_equal(run_pass(stream, 2, rows), 32);
    nt__stream_close(stream);
    nt__data_free(data);
    made_release(&m);
    wait_until_nothing_is_left(before);
    assert_int_equal(made_closes(&m), 1);
}

/* A source with one position cannot begin again before the thread that was left in it has come out. */
static void a_source_in_order_waits_for_the_thread_in_it(void **state) {
    (void)state;
    living before = living_now();
    made m = MADE(32, .in_order = true, .sticks_at = 3);
    int rows[MOST_ROWS];
    nt_data *data = data_of(&m, (nt_split_options){.batch = 2, .time_limit = 0.5});
    nt__stream *stream = open_pass(data, pass_options());
    wait_for_reads(&m, 3);
    nt__stream_close(stream);
    nt__stream_options options = pass_options();
    assert_int_equal(nt__stream_open(nt__data_split_at(data, 0), &options, &stream), NT_IO);
    assert_message_has_all((const char *[]){"split 'train'", "source 'made'", "earlier pass", "0.5 seconds"}, 4);
    assert_int_equal(m.begins, 1);
    made_release(&m);
    stream = open_pass(data, pass_options());
    assert_int_equal(run_pass(stream, 2, rows), 32);
    nt__stream_close(stream);
    nt__data_free(data);
    wait_until_nothing_is_left(before);
}

/* ---- stopping --------------------------------------------------------------------------------------------------- */

static double stop_after; /* nt__seconds */

static bool stopping(void) {
    return nt__seconds() > stop_after;
}

static void a_stop_ends_the_waiting(void **state) {
    (void)state;
    made m = MADE(32, .slow_at = 2, .slow = 2);
    nt__staged *staged;
    nt_data *data = data_of(&m, (nt_split_options){.batch = 2, .workers = 2});
    nt__stream_options options = pass_options();
    options.stopping = stopping;
    stop_after = nt__seconds() + 0.1;
    nt__stream *stream = open_pass(data, options);
    nt__staged_free(next(stream)); /* a batch that is there is given in any case */
    assert_int_equal(nt__stream_next(stream, &staged), NT_INTERRUPTED);
    assert_true(nt__seconds() - stop_after < 1.5);
    assert_null(staged);
    assert_string_equal(nt_error_message(), "split 'train', batch 2 of 16: stopped as asked");
    stop_after += 1000;
    staged = next(stream);
    assert_int_equal(staged->index, 1);
    nt__staged_free(staged);
    nt__stream_close(stream);
    nt__data_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_is_the_same_for_any_number_of_workers),
        cmocka_unit_test(arrays_too_may_have_workers),
        cmocka_unit_test(narrow_windows_complete),
        cmocka_unit_test(queues_are_bounded),
        cmocka_unit_test(an_error_comes_with_its_batch),
        cmocka_unit_test(the_first_error_of_the_pass_counts),
        cmocka_unit_test(nobody_has_to_look_at_an_error),
        cmocka_unit_test(refused_allocations_leave_nothing),
        cmocka_unit_test(a_worker_that_ends_is_named),
        cmocka_unit_test(a_stuck_worker_is_named_and_left_behind),
        cmocka_unit_test(a_pass_is_left_at_once_while_workers_read),
        cmocka_unit_test(a_source_in_order_waits_for_the_thread_in_it),
        cmocka_unit_test(a_stop_ends_the_waiting),
    };
    return cmocka_run_group_tests_name("workers", tests, open_engine, close_engine);
}
