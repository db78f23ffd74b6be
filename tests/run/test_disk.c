/* What a run does when its folder cannot be had or the disk is full: one clear message, no file half-written, and what
 * was there before is still there. A limit of the process for the size of files stands for a full disk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/files.h"
#include "toy.h"

/* ---- a full disk ------------------------------------------------------------------------------------------------ */

static struct rlimit no_limit;

static void fill_disk(rlim_t bytes) {
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes, no_limit.rlim_max}), 0);
}

static void empty_disk(void) {
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &no_limit), 0);
}

static int set_up(void **state) {
    signal(SIGXFSZ, SIG_IGN);
    return getrlimit(RLIMIT_FSIZE, &no_limit) == 0 ? scratch_make(state) : -1;
}

static int tear_down(void **state) {
    scratch_remove(state);
    return shut_down(state);
}

/* ---- runs that log ---------------------------------------------------------------------------------------------- */

static nt_run *make(const char *run_dir, nt_event_function on_event) {
    Toy e = Toy_defaults();
    e.val_rows = 0;
    nt_run_options options = quiet_options(NULL);
    options.no_log = false;
    options.checkpoint = (nt_maybe_bool){true, false};
    options.run_dir = scratch(run_dir);
    options.on_event = on_event;
    nt_run *run;
    assert_ok(nt_run_new(Toy_experiment(), &e, &options, &run));
    return run;
}

static void assert_file(const char *name, const char *text) {
    char *got;
    size_t length;
    assert_ok(nt__read_file(scratch(name), &got, &length));
    assert_string_equal(got, text);
    nt__free(got);
}

/* The folder has these many files, and the log is whole lines. */
static void assert_log_is_whole(const char *folder, int files) {
    char name[64], *text;
    size_t length;
    snprintf(name, sizeof name, "%s/metrics.jsonl", folder);
    assert_ok(nt__read_file(scratch(name), &text, &length));
    assert_true(length > 0 && text[length - 1] == '\n' && text[0] == '{');
    nt__free(text);
    assert_int_equal(scratch_entries(scratch(folder)), files);
}

/* ---- the folder ------------------------------------------------------------------------------------------------- */

static void a_second_run_in_the_folder_is_refused(void **state) {
    (void)state;
    nt_run *first = make("shared", NULL), *second = make("shared", NULL);
    assert_ok(nt_train(first));
    assert_fails(nt_train(second), NT_INVALID, "run_dir: the folder '");
    assert_fails(nt_train(second), NT_INVALID,
                 "shared' is in use by another run: wait for its end, or give this one another run_dir");
    assert_log_is_whole("shared", 1);
    nt_run_free(first);
    assert_ok(nt_train(second));
    assert_log_is_whole("shared", 2); /* the former log is beside it */
    nt_run_free(second);
}

static void a_run_of_another_process_is_noticed(void **state) {
    (void)state;
    int ready[2], over[2];
    char byte = 0;
    assert_int_equal(mkdir(scratch("other"), 0700), 0);
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(over), 0);
    pid_t child = fork();
    if (child == 0) {
        int folder;
        nt_status status = nt__lock_folder(scratch("other"), &folder);
        bool told = write(ready[1], &byte, 1) == 1 && read(over[0], &byte, 1) == 1;
        _exit(status == NT_OK && told ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    nt_run *run = make("other", NULL);
    assert_fails(nt_train(run), NT_INVALID, "is in use by another run");
    assert_int_equal(write(over[1], &byte, 1), 1);
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    assert_ok(nt_train(run));
    nt_run_free(run);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(over[i]);
    }
}

/* What a killed save left is removed by the run that has the folder, and nothing else is. */
static void leftovers_of_killed_saves_are_removed(void **state) {
    (void)state;
    assert_int_equal(mkdir(scratch("left"), 0700), 0);
    scratch_put("left/parameters.safetensors.new.4711-0-123456789.tmp", "half", 4);
    scratch_put("left/other.new.12-3-45.tmp", "half", 4);
    scratch_put("left/parameters.safetensors", "whole", 5);
    scratch_put("left/mine.new.tmp", "mine", 4);
    scratch_put("left/mine.new.1-2-3.tmp.txt", "mine", 4);
    int folder;
    assert_ok(nt__lock_folder(scratch("left"), &folder));
    nt_run *run = make("left", NULL);
    assert_fails(nt_train(run), NT_INVALID, "is in use by another run");
    assert_int_equal(scratch_entries(scratch("left")), 5);
    nt__unlock_folder(folder);
    assert_ok(nt_train(run));
    nt_run_free(run);
    assert_file("left/parameters.safetensors", "whole");
    assert_file("left/mine.new.tmp", "mine");
    assert_file("left/mine.new.1-2-3.tmp.txt", "mine");
    assert_log_is_whole("left", 4);
}

static void a_folder_that_is_a_file_is_refused(void **state) {
    (void)state;
    scratch_put("file", "text", 4);
    nt_run *run = make("file", NULL);
    assert_fails(nt_train(run), NT_IO, "run_dir: cannot make the folder '");
    assert_fails(nt_train(run), NT_IO, "file': File exists and is no folder; remove it or choose another name");
    nt_run_free(run);
    assert_file("file", "text");
}

/* No permission stops the superuser; this file system does. */
static void a_folder_that_cannot_be_made_is_refused(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run_options options = {.run_dir = "/proc/nitro", .quiet = true};
    nt_run *run;
    assert_ok(nt_run_new(Toy_experiment(), &e, &options, &run));
    assert_fails(nt_train(run), NT_NOT_FOUND,
                 "run_dir: cannot make the folder '/proc/nitro': No such file or directory");
    nt_run_free(run);
}

/* ---- the log ---------------------------------------------------------------------------------------------------- */

static void a_disk_that_is_full_at_the_start_changes_nothing(void **state) {
    (void)state;
    assert_int_equal(mkdir(scratch("start"), 0700), 0);
    scratch_put("start/metrics.jsonl", "former\n", 7);
    nt_run *run = make("start", NULL);
    fill_disk(50);
    nt_status status = nt_train(run);
    empty_disk();
    assert_fails(status, NT_IO,
                 "start/metrics.jsonl: cannot write the log: File too large; raise the limit for files (ulimit -f) or "
                 "choose another folder");
    assert_int_equal(nt_run_step(run), 0);
    assert_file("start/metrics.jsonl", "former\n");
    assert_int_equal(scratch_entries(scratch("start")), 1);
    assert_ok(nt_train(run));
    assert_log_is_whole("start", 2);
    nt_run_free(run);
}

static void fill_at_step_2(const nt_event *event, void *context) {
    (void)context;
    if (event->kind == NT_EVENT_STEP && event->step == 2) fill_disk(300);
}

static void a_disk_that_gets_full_in_training_leaves_whole_lines(void **state) {
    (void)state;
    nt_run *run = make("middle", fill_at_step_2);
    nt_status status = nt_train(run);
    empty_disk();
    assert_fails(status, NT_IO, "middle/metrics.jsonl: cannot write the log: File too large");
    assert_true(nt_run_step(run) >= 2);
    assert_log_is_whole("middle", 1);
    assert_ok(nt_run_save(run, scratch("middle/parameters.safetensors")));
    nt_run_free(run);
}

/* ---- parameters ------------------------------------------------------------------------------------------------- */

static void parameters_that_do_not_fit_leave_the_former_ones(void **state) {
    (void)state;
    assert_int_equal(mkdir(scratch("save"), 0700), 0);
    scratch_put("save/parameters.safetensors", "former", 6);
    nt_run *run = make("save-log", NULL);
    fill_disk(100);
    nt_status status = nt_run_save(run, scratch("save/parameters.safetensors"));
    empty_disk();
    assert_fails(status, NT_IO, "save/parameters.safetensors");
    assert_fails(status, NT_IO, "File too large; raise the limit for files (ulimit -f) or choose another folder");
    assert_file("save/parameters.safetensors", "former");
    assert_int_equal(scratch_entries(scratch("save")), 1);
    assert_fails(nt_run_save(run, "/dev/full"), NT_IO,
                 "cannot write '/dev/full': No space left on device; free space there or choose another folder");
    nt_run_free(run);
}

static void counters_that_do_not_fit_leave_no_file(void **state) {
    (void)state;
    assert_int_equal(mkdir(scratch("stats"), 0700), 0);
    fill_disk(10);
    nt_status status = nt_stats_write(scratch("stats/stats.json"));
    empty_disk();
    assert_fails(status, NT_IO, "stats/stats.json");
    assert_int_equal(scratch_entries(scratch("stats")), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_run_in_the_folder_is_refused),
        cmocka_unit_test(a_run_of_another_process_is_noticed),
        cmocka_unit_test(leftovers_of_killed_saves_are_removed),
        cmocka_unit_test(a_folder_that_is_a_file_is_refused),
        cmocka_unit_test(a_folder_that_cannot_be_made_is_refused),
        cmocka_unit_test(a_disk_that_is_full_at_the_start_changes_nothing),
        cmocka_unit_test(a_disk_that_gets_full_in_training_leaves_whole_lines),
        cmocka_unit_test(parameters_that_do_not_fit_leave_the_former_ones),
        cmocka_unit_test(counters_that_do_not_fit_leave_no_file),
    };
    return cmocka_run_group_tests_name("disk", tests, set_up, tear_down);
}
