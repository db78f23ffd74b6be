/* src/log: the lines of a log, read back, and what happens where it cannot be written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "../base/scratch.h"
#include "base/files.h"
#include "log/log.h"

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

static nt__jsonl *open_log(const char *name) {
    nt__jsonl *log;
    nt_status status = nt__jsonl_open(scratch(name), &log);
    if (status != NT_OK) fail_msg("%s", nt_error_message());
    assert_non_null(log);
    return log;
}

static void write_line(nt__jsonl *log, const char *type, const char *context, int64_t step, int64_t epoch,
                       const nt_log_value *values, size_t count) {
    nt_status status = nt__jsonl_line(
        log, &(nt_log_line){
                 .type = type, .context = context, .step = step, .epoch = epoch, .values = values, .count = count});
    if (status != NT_OK) fail_msg("%s", nt_error_message());
}

static char *read_log(const char *name) {
    char *text;
    size_t length;
    if (nt__read_file(scratch(name), &text, &length) != NT_OK) fail_msg("%s", nt_error_message());
    assert_int_equal(strlen(text), length);
    return text;
}

static void assert_log(const char *name, const char *text) {
    char *got = read_log(name);
    assert_string_equal(got, text);
    nt__free(got);
}

/* The only line of a log, as an object without a name that stands twice. */
static json_t *only_line(const char *name) {
    char *text = read_log(name);
    size_t length = strlen(text);
    assert_true(length > 0 && strchr(text, '\n') == text + length - 1);
    json_error_t error;
    json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!line) fail_msg("%s: %s", error.text, text);
    nt__free(text);
    return line;
}

static void assert_text(const json_t *line, const char *name, const char *value) {
    const char *got = json_string_value(json_object_get(line, name));
    if (!got) fail_msg("no text '%s'", name);
    assert_string_equal(got, value);
}

static void assert_integer(const json_t *line, const char *name, int64_t value) {
    assert_true(json_is_integer(json_object_get(line, name)));
    assert_int_equal(json_integer_value(json_object_get(line, name)), value);
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static void a_line_is_an_object_with_its_place_in_the_run(void **state) {
    (void)state;
    nt__jsonl *log = open_log("metrics.jsonl");
    const nt_log_value values[] = {{"train_loss", NULL, 0.25}, {"note", "a \"quote\"\nand a line", 0}};
    write_line(log, "metrics", "train", 1234567890123, 3, values, COUNT_OF(values));
    nt__jsonl_close(log);
    json_t *line = only_line("metrics.jsonl");
    assert_text(line, "type", "metrics");
    assert_text(line, "context", "train");
    assert_integer(line, "step", 1234567890123);
    assert_integer(line, "epoch", 3);
    assert_true(json_number_value(json_object_get(line, "train_loss")) == 0.25);
    assert_text(line, "note", "a \"quote\"\nand a line");
    assert_int_equal(json_object_size(line), 6);
    json_decref(line);
}

static void without_a_context_there_is_no_place(void **state) {
    (void)state;
    nt__jsonl *log = open_log("params.jsonl");
    write_line(log, "params", NULL, 5, 6, &(nt_log_value){"hidden", NULL, 256}, 1);
    nt__jsonl_close(log);
    assert_log("params.jsonl", "{\"hidden\":256,\"type\":\"params\"}\n");
}

static void the_lines_own_names_win(void **state) {
    (void)state;
    nt__jsonl *log = open_log("names.jsonl");
    const nt_log_value values[] = {
        {"type", "mine", 0}, {"context", "mine", 0}, {"epoch", NULL, 0.5}, {"step", NULL, 77}, {"loss", NULL, 1}};
    write_line(log, "metrics", "validation", 8, 2, values, COUNT_OF(values));
    nt__jsonl_close(log);
    json_t *line = only_line("names.jsonl");
    assert_text(line, "type", "metrics");
    assert_text(line, "context", "validation");
    assert_integer(line, "step", 8);
    assert_integer(line, "epoch", 2);
    assert_int_equal(json_object_size(line), 5);
    json_decref(line);
}

static void numbers_that_are_not_finite_are_left_out(void **state) {
    (void)state;
    nt__jsonl *log = open_log("finite.jsonl");
    const nt_log_value values[] = {
        {"a", NULL, NAN}, {"b", NULL, INFINITY}, {"c", NULL, -INFINITY}, {"d", NULL, -0.5}, {"e", "text", NAN}};
    write_line(log, "metrics", NULL, 0, 0, values, COUNT_OF(values));
    nt__jsonl_close(log);
    assert_log("finite.jsonl", "{\"d\":-0.5,\"e\":\"text\",\"type\":\"metrics\"}\n");
}

/* 9 digits tell every f32 from its neighbours. */
static void numbers_survive_as_f32(void **state) {
    (void)state;
    static const float numbers[] = {0.1F, 1.0F / 3, 1.17549435e-38F, 3.40282347e38F, 16777217.0F, 1.00000012F, -2.5F};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        nt__jsonl *log = open_log("numbers.jsonl");
        write_line(log, "metrics", NULL, 0, 0, &(nt_log_value){"x", NULL, (double)numbers[i]}, 1);
        nt__jsonl_close(log);
        json_t *line = only_line("numbers.jsonl");
        assert_true((float)json_number_value(json_object_get(line, "x")) == numbers[i]);
        json_decref(line);
    }
}

/* A seed of the whole range that a double holds is not rounded. */
static void whole_numbers_keep_every_digit(void **state) {
    (void)state;
    nt__jsonl *log = open_log("whole.jsonl");
    const nt_log_value values[] = {{"seed", NULL, 9007199254740991},
                                   {"low", NULL, -1234567890123},
                                   {"zero", NULL, 0},
                                   {"half", NULL, 0.5},
                                   {"large", NULL, 1e300}};
    write_line(log, "params", NULL, 0, 0, values, COUNT_OF(values));
    nt__jsonl_close(log);
    assert_log("whole.jsonl", "{\"seed\":9007199254740991,\"low\":-1234567890123,\"zero\":0,\"half\":0.5,"
                              "\"large\":1e300,\"type\":\"params\"}\n");
}

/* Whoever looks while the run goes on sees whole lines, each as soon as it was logged. */
static void a_line_can_be_read_before_the_log_is_closed(void **state) {
    (void)state;
    nt__jsonl *log = open_log("live.jsonl");
    write_line(log, "a", NULL, 0, 0, NULL, 0);
    assert_log("live.jsonl", "{\"type\":\"a\"}\n");
    write_line(log, "b", NULL, 0, 0, NULL, 0);
    assert_log("live.jsonl", "{\"type\":\"a\"}\n{\"type\":\"b\"}\n");
    nt__jsonl_close(log);
    nt__jsonl_close(NULL);
}

static void text_that_is_not_utf8_is_refused_by_name(void **state) {
    (void)state;
    nt__jsonl *log = open_log("utf8.jsonl");
    assert_int_equal(
        nt__jsonl_line(log,
                       &(nt_log_line){.type = "params", .values = &(nt_log_value){"path", "caf\xe9", 0}, .count = 1}),
        NT_INVALID);
    assert_non_null(strstr(nt_error_message(), scratch("utf8.jsonl")));
    assert_non_null(strstr(nt_error_message(), "'path'"));
    assert_non_null(strstr(nt_error_message(), "UTF-8"));
    assert_int_equal(
        nt__jsonl_line(log,
                       &(nt_log_line){.type = "params", .values = &(nt_log_value){"caf\xe9", NULL, 1}, .count = 1}),
        NT_INVALID);
    write_line(log, "params", NULL, 0, 0, &(nt_log_value){"caf\xc3\xa9", "\xc3\xa9", 0}, 1);
    nt__jsonl_close(log);
    assert_log("utf8.jsonl", "{\"caf\xc3\xa9\":\"\xc3\xa9\",\"type\":\"params\"}\n");
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static void the_former_log_is_kept(void **state) {
    (void)state;
    static const char *const types[] = {"first", "second", "third"};
    for (int i = 0; i < 3; i++) {
        nt__jsonl *log = open_log("kept.jsonl");
        write_line(log, types[i], NULL, 0, 0, NULL, 0);
        nt__jsonl_close(log);
    }
    assert_log("kept.jsonl", "{\"type\":\"third\"}\n");
    assert_log("kept.jsonl.previous", "{\"type\":\"second\"}\n");
}

static void assert_io_error(nt_status status, const char *path, const char *reason) {
    assert_int_equal(status, NT_IO);
    assert_memory_equal(nt_error_message(), path, strlen(path));
    if (!strstr(nt_error_message(), reason)) fail_msg("'%s' is not in '%s'", reason, nt_error_message());
}

static void a_folder_that_is_not_there_is_named(void **state) {
    (void)state;
    nt__jsonl *log;
    const char *path = scratch("nowhere/metrics.jsonl");
    assert_io_error(nt__jsonl_open(path, &log), path, "cannot write the log: cannot create '");
    assert_null(log);
}

/* Also for the superuser, whom no permission stops: a part of the path is a file. */
static void a_path_through_a_file_is_named(void **state) {
    (void)state;
    nt__jsonl *log;
    scratch_put("file", "x", 1);
    const char *path = scratch("file/metrics.jsonl");
    assert_io_error(nt__jsonl_open(path, &log), path, "Not a directory");
    assert_null(log);
}

static void a_former_log_that_cannot_be_kept_is_not_overwritten(void **state) {
    (void)state;
    nt__jsonl *log;
    scratch_put("taken.jsonl", "old", 3);
    assert_int_equal(mkdir(scratch("taken.jsonl.previous"), 0700), 0);
    const char *path = scratch("taken.jsonl");
    assert_int_equal(nt__jsonl_open(path, &log), NT_OK);
    assert_io_error(nt__jsonl_line(log, &(nt_log_line){.type = "a"}), path, "cannot keep the former file as ");
    nt__jsonl_close(log);
    assert_log("taken.jsonl", "old");
    assert_int_equal(access(scratch("taken.jsonl.new"), F_OK), -1);
}

/* A limit of the process stands for a disk that is full. */
static void a_full_disk_is_told_at_the_line(void **state) {
    (void)state;
    nt__jsonl *log = open_log("full.jsonl");
    const char *path = scratch("full.jsonl");
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){20, before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    nt_status first = nt__jsonl_line(log, &(nt_log_line){.type = "a"});
    nt_status second = nt__jsonl_line(log, &(nt_log_line){.type = "b"});
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(first, NT_OK);
    assert_io_error(second, path,
                    "cannot write the log: File too large; raise the limit for files (ulimit -f) or choose");
    assert_log("full.jsonl", "{\"type\":\"a\"}\n"); /* nothing of the line that did not fit */
    write_line(log, "c", NULL, 0, 0, NULL, 0);
    nt__jsonl_close(log);
    assert_log("full.jsonl", "{\"type\":\"a\"}\n{\"type\":\"c\"}\n");
}

/* The disk is full from the start: the former log, and the one before it, stay where they are. */
static void a_log_without_a_first_line_changes_nothing(void **state) {
    (void)state;
    nt__jsonl *log;
    struct rlimit before;
    scratch_put("whole.jsonl", "old", 3);
    scratch_put("whole.jsonl.previous", "older", 5);
    const char *path = scratch("whole.jsonl");
    assert_int_equal(nt__jsonl_open(path, &log), NT_OK);
    assert_log("whole.jsonl", "old");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){5, before.rlim_max}), 0);
    nt_status status = nt__jsonl_line(log, &(nt_log_line){.type = "params"});
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_io_error(status, path, "cannot write the log: File too large");
    nt__jsonl_close(log);
    assert_log("whole.jsonl", "old");
    assert_log("whole.jsonl.previous", "older");
    assert_int_equal(access(scratch("whole.jsonl.new"), F_OK), -1);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static void a_failed_allocation_leaves_nothing(void **state) {
    (void)state;
    size_t before = nt__memory().live, n = 1;
    for (;; n++) {
        nt__jsonl *log;
        nt__memory_fail_at(n);
        nt_status status = nt__jsonl_open(scratch("memory.jsonl"), &log);
        nt__memory_fail_at(0);
        nt__jsonl_close(log);
        assert_int_equal(nt__memory().live, before);
        if (status == NT_OK) break;
        assert_int_equal(status, NT_OUT_OF_MEMORY);
        assert_null(log);
    }
    assert_int_equal(n, 4);
}

/* ---- a run that goes on ----------------------------------------------------------------------------------------- */

static const nt_log_value name_value = {"name", "one", 0}, other_name = {"name", "two", 0}, loss = {"loss", NULL, 0.5};

static nt_status write_once(nt__jsonl *log, const nt_log_value *value) {
    return nt__jsonl_line(log, &(nt_log_line){.type = "params", .values = value, .count = 1, .once = true});
}

/* A log of a line about the run and two steps; the length after the first of them. */
static int64_t write_steps(const char *name) {
    nt__jsonl *log = open_log(name);
    assert_int_equal(write_once(log, &name_value), NT_OK);
    write_line(log, "metrics", "train", 1, 1, &loss, 1);
    int64_t length = nt__jsonl_length(log);
    write_line(log, "metrics", "train", 2, 1, &loss, 1);
    nt__jsonl_close(log);
    return length;
}

/* After the step that the run goes on from, with no step twice. */
static void a_log_goes_on_behind_a_step(void **state) {
    (void)state;
    int64_t length = write_steps("on.jsonl");
    char *whole = read_log("on.jsonl");
    nt__jsonl *log;
    assert_int_equal(nt__jsonl_continue(scratch("on.jsonl"), length, &log), NT_OK);
    assert_int_equal(nt__jsonl_length(log), length);
    assert_log("on.jsonl", whole);
    assert_int_equal(write_once(log, &name_value), NT_OK);
    assert_log("on.jsonl", whole); /* it has that line: nothing was written */
    write_line(log, "metrics", "train", 2, 1, &loss, 1);
    nt__jsonl_close(log);
    assert_log("on.jsonl", whole);
    assert_log("on.jsonl.previous", whole);
    nt__free(whole);
}

static void what_differs_of_a_run_that_goes_on_is_a_line(void **state) {
    (void)state;
    int64_t length = write_steps("differs.jsonl");
    nt__jsonl *log;
    assert_int_equal(nt__jsonl_continue(scratch("differs.jsonl"), length, &log), NT_OK);
    assert_int_equal(write_once(log, &other_name), NT_OK);
    nt__jsonl_close(log);
    assert_log("differs.jsonl", "{\"name\":\"one\",\"type\":\"params\"}\n"
                                "{\"loss\":0.5,\"type\":\"metrics\",\"context\":\"train\",\"epoch\":1,\"step\":1}\n"
                                "{\"name\":\"two\",\"type\":\"params\"}\n");
}

static void a_log_that_was_changed_is_not_gone_on_with(void **state) {
    (void)state;
    int64_t length = write_steps("changed.jsonl");
    char *whole = read_log("changed.jsonl");
    const int64_t lengths[] = {-1, length - 1, length + 1, 100000};
    nt__jsonl *log;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        assert_int_equal(nt__jsonl_continue(scratch("changed.jsonl"), lengths[i], &log), NT_INVALID);
        assert_null(log);
        assert_non_null(strstr(nt_error_message(), "no line of it ends at byte"));
    }
    assert_int_equal(nt__jsonl_continue(scratch("missing.jsonl"), 0, &log), NT_NOT_FOUND);
    assert_log("changed.jsonl", whole);
    nt__free(whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_an_object_with_its_place_in_the_run),
        cmocka_unit_test(without_a_context_there_is_no_place),
        cmocka_unit_test(the_lines_own_names_win),
        cmocka_unit_test(numbers_that_are_not_finite_are_left_out),
        cmocka_unit_test(numbers_survive_as_f32),
        cmocka_unit_test(whole_numbers_keep_every_digit),
        cmocka_unit_test(a_line_can_be_read_before_the_log_is_closed),
        cmocka_unit_test(text_that_is_not_utf8_is_refused_by_name),
        cmocka_unit_test(the_former_log_is_kept),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
        cmocka_unit_test(a_path_through_a_file_is_named),
        cmocka_unit_test(a_former_log_that_cannot_be_kept_is_not_overwritten),
        cmocka_unit_test(a_full_disk_is_told_at_the_line),
        cmocka_unit_test(a_log_without_a_first_line_changes_nothing),
        cmocka_unit_test(a_failed_allocation_leaves_nothing),
        cmocka_unit_test(a_log_goes_on_behind_a_step),
        cmocka_unit_test(what_differs_of_a_run_that_goes_on_is_a_line),
        cmocka_unit_test(a_log_that_was_changed_is_not_gone_on_with),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
