/* Files of logs are made anew: what has their names is neither followed nor opened, whatever kind it is of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>

#include "../base/scratch.h"
#include "base/files.h"
#include "log/events.h"
#include "log/log.h"

static const char *run_folder(void) {
    return scratch("run");
}

static int start(void **state) {
    (void)state;
    scratch_remove_path(run_folder());
    scratch_put("precious", "gold\n", 5);
    return mkdir(run_folder(), 0755);
}

static void assert_untouched(void) {
    char *data;
    size_t length;
    assert_int_equal(nt__read_file(scratch("precious"), &data, &length), NT_OK);
    assert_string_equal(data, "gold\n");
    nt__free(data);
}

static void assert_regular(const char *name) {
    struct stat info;
    assert_int_equal(lstat(scratch(name), &info), 0);
    assert_true(S_ISREG(info.st_mode));
}

static void put_link(const char *name) {
    assert_int_equal(symlink(scratch("precious"), scratch(name)), 0);
}

static void put_second_name(const char *name) {
    assert_int_equal(link(scratch("precious"), scratch(name)), 0);
}

static void put_pipe(const char *name) {
    assert_int_equal(mkfifo(scratch(name), 0600), 0);
}

/* Begins a log of these loggers and writes a line. */
static nt_status write_log(const char *loggers) {
    const nt_log_start begin = {.run_dir = run_folder()};
    const nt_log_value values[] = {{"loss", NULL, 0.5}};
    nt__log *log = NULL;
    nt_status status = nt__log_open(loggers, NULL, 0, &begin, NULL, 0, &log);
    if (status == NT_OK)
        status = nt__log_line(
            log,
            &(nt_log_line){.type = "metrics", .context = "train", .step = 1, .epoch = 1, .values = values, .count = 1});
    nt__log_close(log);
    return status;
}

static void whatever_is_in_the_place_of_a_log(void **state) {
    static void (*const acts[])(const char *name) = {put_link, put_second_name, put_pipe};
    static const char *const names[] = {"metrics.jsonl", "metrics.csv"}, *const endings[] = {".new", "", ".previous"};
    for (size_t act = 0; act < 3; act++) {
        for (size_t ending = 0; ending < 3; ending++) {
            char name[64];
            start(state);
            for (size_t i = 0; i < 2; i++) {
                snprintf(name, sizeof name, "run/%s%s", names[i], endings[ending]);
                acts[act](name);
            }
            if (write_log("jsonl,csv") != NT_OK) fail_msg("%zu %s: %s", act, endings[ending], nt_error_message());
            assert_untouched();
            assert_regular("run/metrics.jsonl");
            assert_regular("run/metrics.csv");
            assert_int_equal(access(scratch("run/metrics.jsonl.new"), F_OK), -1);
        }
    }
}

/* The first log had the name "metrics.jsonl" and has it still, as the previous one. */
static void a_folder_in_the_place_is_an_error(void **state) {
    (void)state;
    assert_int_equal(mkdir(scratch("run/metrics.jsonl.new"), 0755), 0);
    assert_int_equal(write_log("jsonl"), NT_IO);
    assert_non_null(strstr(nt_error_message(), "metrics.jsonl: cannot write the log: cannot remove '"));
}

/* A run that goes on cuts the event file of before; not that of somebody else, to which a link of its name leads. */
static void an_event_file_is_cut_if_it_is_one(void **state) {
    (void)state;
    nt__events events;
    char name[SCRATCH_PATH];
    assert_int_equal(nt__events_open(run_folder(), &events), NT_OK);
    snprintf(name, sizeof name, "run/%s", strrchr(events.path, '/') + 1);
    int number = events.number;
    nt__events_close(&events);
    assert_int_equal(nt__events_cut(run_folder(), number, 10), NT_OK);
    assert_int_equal(unlink(scratch(name)), 0);
    put_link(name);
    assert_int_equal(nt__events_cut(run_folder(), number, 1), NT_IO);
    assert_int_equal(unlink(scratch(name)), 0);
    put_second_name(name);
    assert_int_equal(nt__events_cut(run_folder(), number, 1), NT_IO);
    assert_non_null(strstr(nt_error_message(), "is not a regular file of this user with this name alone"));
    assert_untouched();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_in_the_place_of_a_log),
        cmocka_unit_test_setup(a_folder_in_the_place_is_an_error, start),
        cmocka_unit_test_setup(an_event_file_is_cut_if_it_is_one, start),
    };
    return cmocka_run_group_tests_name("places", tests, scratch_make, scratch_remove);
}
