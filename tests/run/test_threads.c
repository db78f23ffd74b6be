/* Runs in threads of one process: each trains to what it has alone, whatever the others do at the same time, and a
 * program that several want is compiled once. What a second thread gets that uses a run which is in use.
 * With the fake plugin, which computes nothing, what is compared are counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "run_calls.h"

/* ---- one thread's work ------------------------------------------------------------------------------------------ */

enum { EPOCHS = 2, MOST_THREADS = 4, TURNS = 2 };

/* What a thread does, and what it ended with. */
typedef struct work {
    int id, hidden, seed;
    nt_status status;
    char message[512];
    nt__hash result; /* of parameters, validation and predictions */
} work;

static nt_status hash_parameters(nt_run *run, nt__hasher *hasher) {
    nt_parameter_info info;
    for (size_t i = 0; nt_run_parameter_at(run, i, &info); i++) {
        nt_array *array = nt_run_parameter(run, info.path);
        if (!array) return nt_error_status();
        nt__hasher_add(hasher, array->data, array->bytes);
        nt_array_free(array);
    }
    return NT_OK;
}

static nt_status hash_prediction(nt_run *run, nt__hasher *hasher) {
    nt_array *x = toy_points(37, false), *y = NULL;
    const nt_named_array field = {"x", x};
    nt_status status = nt_predict(run, &field, 1, &y);
    if (status == NT_OK) nt__hasher_add(hasher, y->data, y->bytes);
    nt_array_free(x);
    nt_array_free(y);
    return status;
}

static nt_status hash_validation(nt_run *run, nt__hasher *hasher) {
    nt_results results;
    nt_status status = nt_validate(run, &results);
    for (size_t i = 0; status == NT_OK && i < results.count; i++)
        nt__hasher_add(hasher, &results.values[i].value, sizeof results.values[i].value);
    return status;
}

/* A whole life: training with a log and checkpoints, validation, prediction, saving and loading. */
static nt_status live(work *w) {
    char *folder = nt__sprintf("%s/run-%d", scratch_folder, w->id);
    char *file = nt__sprintf("%s/run-%d/parameters.safetensors", scratch_folder, w->id);
    Toy e = Toy_defaults();
    e.hidden = w->hidden;
    nt_run_options options = {.run_dir = folder,
                              .quiet = true,
                              .seed = {true, w->seed},
                              .max_epochs = {true, EPOCHS},
                              .ema_decay = {true, 0.5}};
    nt_run *run;
    nt_status status = nt_run_new(Toy_experiment(), &e, &options, &run);
    if (status != NT_OK) return status;
    nt__hasher *hasher = nt__hasher_new();
    status = nt_train(run);
    if (status == NT_OK) status = nt_train_more(run, 0, 3);
    if (status == NT_OK) status = hash_validation(run, hasher);
    if (status == NT_OK) status = nt_run_save(run, file);
    if (status == NT_OK) status = nt_run_load(run, file);
    if (status == NT_OK) status = hash_prediction(run, hasher);
    if (status == NT_OK) status = hash_parameters(run, hasher);
    w->result = nt__hasher_end(hasher);
    nt_run_free(run);
    nt__free(folder);
    nt__free(file);
    return status;
}

static void *work_in_thread(void *argument) {
    work *w = argument;
    nt__hash first = {0};
    for (int turn = 0; turn < TURNS && w->status == NT_OK; turn++) {
        w->status = live(w);
        if (turn == 0) first = w->result;
        if (!nt__hash_equal(first, w->result)) w->status = nt_fail(NT_DIVERGED, "turn %d differs from the first", turn);
    }
    if (w->status != NT_OK) snprintf(w->message, sizeof w->message, "%s", nt_error_message());
    return NULL;
}

/* Threads with the same number of hidden units have the same programs; the others different ones. */
static void assert_same_as_alone(int threads, int different) {
    work alone[MOST_THREADS], together[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    for (int i = 0; i < threads; i++) {
        alone[i] = (work){.id = i, .hidden = 8 + i % different, .seed = 3 + i};
        together[i] = alone[i];
        alone[i].status = live(&alone[i]);
        assert_ok(alone[i].status);
    }
    nt_cache_reset(); /* so that they compile at the same time too */
    for (int i = 0; i < threads; i++) assert_int_equal(pthread_create(&ids[i], NULL, work_in_thread, &together[i]), 0);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    for (int i = 0; i < threads; i++) {
        if (together[i].status != NT_OK) fail_msg("thread %d of %d: %s", i, threads, together[i].message);
        if (!nt__hash_equal(alone[i].result, together[i].result))
            fail_msg("thread %d of %d ended with other numbers than alone", i, threads);
    }
    assert_ok(nt_shutdown());
}

static void two_threads_of_the_same_programs(void **state) {
    (void)state;
    assert_same_as_alone(2, 1);
}

static void four_threads_of_two_models(void **state) {
    (void)state;
    assert_same_as_alone(4, 2);
}

/* ---- one compile for all ---------------------------------------------------------------------------------------- */

static atomic_int ready;

/* All at once. */
static void *validate_in_thread(void *argument) {
    work *w = argument;
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(NULL);
    nt_run *run;
    w->status = nt_run_new(Toy_experiment(), &e, &options, &run);
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < MOST_THREADS) usleep(100);
    if (w->status == NT_OK) w->status = nt_validate(run, NULL);
    snprintf(w->message, sizeof w->message, "%s", nt_error_message());
    nt_run_free(run);
    return NULL;
}

static void a_program_is_compiled_once(void **state) {
    (void)state;
    pthread_t ids[MOST_THREADS];
    work works[MOST_THREADS] = {0};
    atomic_store(&ready, 0);
    for (int i = 0; i < MOST_THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, validate_in_thread, &works[i]), 0);
    for (int i = 0; i < MOST_THREADS; i++) pthread_join(ids[i], NULL);
    for (int i = 0; i < MOST_THREADS; i++)
        if (works[i].status != NT_OK) fail_msg("thread %d: %s", i, works[i].message);
    nt_cache_stats_t stats = nt_cache_stats();
    assert_in_range(stats.misses, 1, 4); /* those of a validation */
    assert_int_equal(stats.hits, stats.misses * (MOST_THREADS - 1));
    assert_ok(nt_shutdown());
}

/* Each thread finds the same folder. */
static void the_disk_has_them_too(void **state) {
    (void)state;
    setenv("NITRO_CACHE_DIR", scratch("cache"), 1);
    setenv("NITRO_CACHE_SIZE", "100MB", 1);
    assert_same_as_alone(2, 2);
    setenv("NITRO_CACHE_SIZE", "0", 1);
    unsetenv("NITRO_CACHE_DIR");
}

/* ---- one run, two threads --------------------------------------------------------------------------------------- */

typedef struct shared {
    nt_run *run;
    atomic_bool inside, tried;
} shared;

static void wait_inside(const nt_event *event, void *context) {
    shared *s = context;
    if (event->kind != NT_EVENT_STEP || event->step != 2) return;
    atomic_store(&s->inside, true);
    while (!atomic_load(&s->tried)) usleep(100);
}

static void *train_in_thread(void *argument) {
    shared *s = argument;
    return nt_train(s->run) == NT_OK ? s : NULL;
}

static void a_second_thread_is_refused(void **state) {
    (void)state;
    static shared s;
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(NULL);
    options.on_event = wait_inside;
    options.event_context = &s;
    assert_ok(nt_run_new(Toy_experiment(), &e, &options, &s.run));
    pthread_t id;
    void *trained;
    assert_int_equal(pthread_create(&id, NULL, train_in_thread, &s), 0);
    while (!atomic_load(&s.inside)) usleep(100);
    for (size_t i = 0; i < RUN_CALLS; i++) {
        nt__fail_nothing();
        assert_fails(run_calls[i].call(s.run), NT_INVALID, "in use by another thread");
        assert_non_null(strstr(nt_error_message(), run_calls[i].name));
    }
    assert_fails(nt_shutdown(), NT_INVALID, "1 run is not freed");
    atomic_store(&s.tried, true);
    pthread_join(id, &trained);
    assert_non_null(trained);
    assert_int_equal(nt_run_epoch(s.run), 1); /* the thread has given it back */
    nt_run_free(s.run);
    assert_ok(nt_shutdown());
}

/* ---- a child ---------------------------------------------------------------------------------------------------- */

/* The number of the calls that do not say so. */
static int try_all_in_a_child(nt_run *run) {
    int others = 0;
    nt_run *another;
    for (size_t i = 0; i < RUN_CALLS; i++)
        others += run_calls[i].call(run) != NT_INVALID || !strstr(nt_error_message(), "was forked from process");
    others += nt_run_new(Toy_experiment(), NULL, NULL, &another) != NT_INVALID;
    others += nt_shutdown() != NT_INVALID;
    return others;
}

static void a_forked_child_has_no_engine(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(NULL);
    nt_run *run;
    int how;
    assert_ok(nt_run_new(Toy_experiment(), &e, &options, &run));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(try_all_in_a_child(run));
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    assert_ok(nt_train(run));
    nt_run_free(run);
    assert_ok(nt_shutdown());
}

/* ---- a stop is for all ------------------------------------------------------------------------------------------ */

static atomic_int waiting;

static void stop_once_all_train(const nt_event *event, void *context) {
    (void)context;
    if (event->kind == NT_EVENT_STEP && event->step == 1 && atomic_fetch_add(&waiting, 1) == 1) nt_stop_request();
}

static void *train_long(void *argument) {
    work *w = argument;
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(NULL);
    options.max_epochs = (nt_maybe_int){true, 1000000};
    options.on_event = stop_once_all_train;
    nt_run *run;
    w->status = nt_run_new(Toy_experiment(), &e, &options, &run);
    if (w->status == NT_OK) w->status = nt_train(run);
    nt_run_free(run);
    return NULL;
}

static void a_stop_ends_all_runs(void **state) {
    (void)state;
    pthread_t ids[2];
    work works[2] = {0};
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&ids[i], NULL, train_long, &works[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(ids[i], NULL);
    for (int i = 0; i < 2; i++) assert_int_equal(works[i].status, NT_INTERRUPTED);
    nt_stop_clear();
    assert_ok(nt_shutdown());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_threads_of_the_same_programs),
        cmocka_unit_test(four_threads_of_two_models),
        cmocka_unit_test(a_program_is_compiled_once),
        cmocka_unit_test(the_disk_has_them_too),
        cmocka_unit_test(a_second_thread_is_refused),
        cmocka_unit_test(a_forked_child_has_no_engine),
        cmocka_unit_test_teardown(a_stop_ends_all_runs, shut_down),
    };
    return cmocka_run_group_tests_name("run/threads", tests, scratch_make, scratch_remove);
}
