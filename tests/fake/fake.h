/* Tests on the fake plugin: each case is a process of its own with its own settings for the plugin, and ends with
 * nothing alive in the plugin. Include after cmocka.
 *
 * A test program lists its cases and calls fake_main. Without an argument it starts itself once for each case, with
 * NITRO_FAKE set and the case's name as argument, and reads what the plugin counted at the end of that process.
 */
#ifndef NT_TESTS_FAKE_FAKE_H
#define NT_TESTS_FAKE_FAKE_H

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>

#include <jansson.h>

#include "../base/scratch.h"
#include "xla/xla.h"

typedef struct fake_case {
    const char *name, *settings; /* of NITRO_FAKE */
    void (*test)(void **state);
} fake_case;

/* ---- what the plugin counts ------------------------------------------------------------------------------------- */

/* The counts as an object, or NULL when the plugin was not loaded. */
static inline json_t *fake_counts_now(void) {
    void *handle = dlopen(getenv("NITRO_PLUGIN"), RTLD_NOW | RTLD_NOLOAD);
    if (!handle) return NULL;
    const char *(*counts)(void);
    *(void **)&counts = dlsym(handle, "nitro_fake_counts");
    json_t *object = counts ? json_loads(counts(), 0, NULL) : NULL;
    dlclose(handle);
    return object;
}

static inline int64_t fake_number(const json_t *counts, const char *key) {
    const json_t *number = json_object_get(counts, key);
    if (!json_is_integer(number)) fail_msg("the plugin does not count '%s'", key);
    return json_integer_value(number);
}

static inline int64_t fake_count(const char *key) {
    json_t *counts = fake_counts_now();
    assert_non_null(counts);
    int64_t number = fake_number(counts, key);
    json_decref(counts);
    return number;
}

/* ---- nothing alive, nothing misused ----------------------------------------------------------------------------- */

static inline void assert_nothing_alive(const json_t *counts) {
    static const char *const kinds[] = {"clients", "buffers", "loaded_executables", "executables", "events", "errors"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char made[64], destroyed[64];
        snprintf(made, sizeof made, "%s_made", kinds[i]);
        snprintf(destroyed, sizeof destroyed, "%s_destroyed", kinds[i]);
        if (fake_number(counts, made) != fake_number(counts, destroyed))
            fail_msg("%s: %lld made, %lld destroyed", kinds[i], (long long)fake_number(counts, made),
                     (long long)fake_number(counts, destroyed));
    }
    assert_int_equal(fake_number(counts, "live_bytes"), 0);
    assert_int_equal(fake_number(counts, "saved_alive"), 0);
}

static inline void assert_not_misused(const json_t *counts) {
    if (fake_number(counts, "misuses"))
        fail_msg("the plugin was misused: %s", json_string_value(json_object_get(counts, "first_misuse")));
}

static inline void assert_nothing_alive_now(void) {
    json_t *counts = fake_counts_now();
    assert_non_null(counts);
    assert_nothing_alive(counts);
    assert_not_misused(counts);
    json_decref(counts);
}

/* The same of nitro, with its engine closed; `blocks` of host memory belong to the process. */
static inline void assert_nothing_left(size_t blocks) {
    assert_nothing_alive_now();
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
    assert_int_equal(nt__engine_counts_now().executables.live_count, 0);
    assert_int_equal(nt__memory().live, blocks);
}

/* ---- both count the same ---------------------------------------------------------------------------------------- */

static inline uint64_t sum_of_transfers(const nt__transfer *transfers) {
    uint64_t sum = 0;
    for (int i = 0; i < NT__PURPOSE_COUNT; i++) sum += transfers[i].count;
    return sum;
}

static inline void assert_same_live(const nt__engine_counts *ours, const json_t *fake) {
    assert_int_equal(ours->all_buffers.live_count,
                     fake_number(fake, "buffers_made") - fake_number(fake, "buffers_destroyed"));
    assert_int_equal(ours->all_buffers.live_bytes, fake_number(fake, "live_bytes"));
    assert_int_equal(ours->executables.live_count,
                     fake_number(fake, "loaded_executables_made") - fake_number(fake, "loaded_executables_destroyed"));
}

/* What is alive and what happened. nitro counts a transfer when it has ended, the plugin when it begins, so those that
 * failed in between are given. */
static inline void assert_same_counts(int64_t failed_uploads, int64_t failed_downloads) {
    nt__engine_counts ours = nt__engine_counts_now();
    json_t *fake = fake_counts_now();
    assert_non_null(fake);
    assert_same_live(&ours, fake);
    assert_int_equal(sum_of_transfers(ours.uploads) + (uint64_t)failed_uploads, fake_number(fake, "uploads"));
    assert_int_equal(sum_of_transfers(ours.downloads) + (uint64_t)failed_downloads, fake_number(fake, "downloads"));
    assert_int_equal(ours.runs, fake_number(fake, "runs"));
    json_decref(fake);
}

/* ---- one process a case ----------------------------------------------------------------------------------------- */

static const char *fake_program; /* of this test, to start it again */

static inline void fake_child(const fake_case *one) {
    int output = open(scratch("output"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    setenv("NITRO_FAKE", one->settings, 1);
    setenv("NITRO_FAKE_COUNTS", scratch("counts"), 1);
    execl("/proc/self/exe", fake_program, one->name, (char *)NULL);
    _exit(127);
}

static inline void fake_print_output(void) {
    char line[1024];
    FILE *file = fopen(scratch("output"), "r");
    while (file && fgets(line, sizeof line, file)) print_error("| %s", line);
    if (file) fclose(file);
}

/* A plugin that was never loaded has written no counts. */
static inline void fake_check_end(void) {
    json_t *counts = json_load_file(scratch("counts"), 0, NULL);
    assert_non_null(counts);
    assert_nothing_alive(counts);
    assert_not_misused(counts);
    json_decref(counts);
}

static inline void fake_run_case(void **state) {
    int status = -1;
    unlink(scratch("counts"));
    pid_t child = fork();
    if (child == 0) fake_child(*state);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0) {
        fake_print_output();
        fail_msg("the process of this case ended with %s %d", WIFSIGNALED(status) ? "signal" : "exit status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    fake_check_end();
}

static inline int fake_parent(const fake_case *cases, size_t count) {
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    for (size_t i = 0; tests && i < count; i++)
        tests[i] =
            (struct CMUnitTest){.name = cases[i].name, .test_func = fake_run_case, .initial_state = (void *)&cases[i]};
    int failed = tests ? _cmocka_run_group_tests("fake", tests, count, scratch_make, scratch_remove) : 1;
    free(tests);
    return failed;
}

static inline int fake_main(int argc, char **argv, const fake_case *cases, size_t count) {
    fake_program = argv[0];
    if (argc < 2) return fake_parent(cases, count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(argv[1], cases[i].name) != 0) continue;
        const struct CMUnitTest test = {.name = argv[1], .test_func = cases[i].test};
        return _cmocka_run_group_tests("case", &test, 1, scratch_make, scratch_remove);
    }
    print_error("there is no case '%s'\n", argv[1]);
    return 1;
}

#endif
