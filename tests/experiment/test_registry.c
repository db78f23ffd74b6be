/* The registry: what constructors put in before main, order, replacement, threads, refused memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "experiment/experiment.h"

#define FIRST(FIELD, DEVICE, GRAPH_CONST) FIELD(int, batch, 8, "samples in a micro-batch")
NT_EXPERIMENT(First, FIRST)
NT_DEFINE(First, FIRST, .build_data = NULL);

/* A second experiment in the same file, with a Host field of the same name. */
#define SECOND(FIELD, DEVICE, GRAPH_CONST) FIELD(int, batch, 16, "samples in a micro-batch")
NT_EXPERIMENT(Second, SECOND)
NT_DEFINE(Second, SECOND, .build_data = NULL);

static size_t registered(void) {
    size_t count = 0;
    while (nt_experiment_at(count)) count++;
    return count;
}

/* Must run first: what is there when main begins. */
static void definitions_register_before_main(void **state) {
    (void)state;
    assert_int_equal(registered(), 2);
    assert_ptr_equal(nt_experiment_find("First"), First_experiment());
    assert_ptr_equal(nt_experiment_find("Second"), Second_experiment());
    assert_ptr_equal(nt_experiment_at(0), First_experiment());
    assert_ptr_equal(nt_experiment_at(1), Second_experiment());
    assert_null(nt_experiment_find("Third"));
    assert_null(nt_experiment_find(""));
    assert_null(nt_experiment_at(2));
    assert_null(nt_experiment_at(SIZE_MAX));
}

static void the_newest_definition_counts_and_keeps_its_place(void **state) {
    (void)state;
    static const nt_experiment newer = {.name = "First", .file = "newer.c"};
    size_t count = registered();
    nt_experiment_register(&newer);
    assert_int_equal(registered(), count);
    assert_ptr_equal(nt_experiment_at(0), &newer);
    assert_ptr_equal(nt_experiment_find("First"), &newer);
    assert_ptr_equal(nt_experiment_at(1), Second_experiment());
    nt_experiment_register(First_experiment());
    assert_ptr_equal(nt_experiment_find("First"), First_experiment());
}

static void remember_line(const char *line, void *context) {
    snprintf(context, 200, "%s", line);
}

/* The registry has room for eight before it grows, so one of nine needs memory. */
static void refused_memory_is_reported_and_loses_nothing_else(void **state) {
    (void)state;
    static const nt_experiment more[9] = {{.name = "m0"}, {.name = "m1"}, {.name = "m2"},
                                          {.name = "m3"}, {.name = "m4"}, {.name = "m5"},
                                          {.name = "m6"}, {.name = "m7"}, {.name = "m8"}};
    char line[200] = "";
    nt_notice_function before = nt_set_notice(remember_line, line);
    for (size_t i = 0; i < 9 && !line[0]; i++) {
        size_t count = registered();
        nt__memory_fail_at(1);
        nt_experiment_register(&more[i]);
        nt__memory_fail_at(0);
        if (!line[0]) {
            assert_ptr_equal(nt_experiment_find(more[i].name), &more[i]);
            continue;
        }
        assert_non_null(strstr(line, "could not be registered: out of host memory"));
        assert_non_null(strstr(line, more[i].name));
        assert_int_equal(registered(), count);
        assert_null(nt_experiment_find(more[i].name));
    }
    assert_true(line[0] != 0);
    nt_set_notice(before, NULL);
}

enum { THREADS = 4, EACH = 50 };
static nt_experiment many[THREADS][EACH];
static char names[THREADS][EACH][16];

static void *register_many(void *of_thread) {
    nt_experiment *mine = of_thread;
    for (size_t i = 0; i < EACH; i++) {
        nt_experiment_register(&mine[i]);
        if (nt_experiment_find(mine[i].name) != &mine[i]) return mine;
    }
    return NULL;
}

static void threads_may_register_at_the_same_time(void **state) {
    (void)state;
    size_t before = registered();
    pthread_t threads[THREADS];
    for (size_t t = 0; t < THREADS; t++)
        for (size_t i = 0; i < EACH; i++) {
            snprintf(names[t][i], sizeof names[t][i], "T%zu_%zu", t, i);
            many[t][i].name = names[t][i];
        }
    for (size_t t = 0; t < THREADS; t++) assert_int_equal(pthread_create(&threads[t], NULL, register_many, many[t]), 0);
    for (size_t t = 0; t < THREADS; t++) {
        void *failed;
        pthread_join(threads[t], &failed);
        assert_null(failed);
    }
    assert_int_equal(registered(), before + THREADS * EACH);
    assert_ptr_equal(nt_experiment_find("T3_49"), &many[3][49]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(definitions_register_before_main),
        cmocka_unit_test(the_newest_definition_counts_and_keeps_its_place),
        cmocka_unit_test(refused_memory_is_reported_and_loses_nothing_else),
        cmocka_unit_test(threads_may_register_at_the_same_time),
    };
    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
