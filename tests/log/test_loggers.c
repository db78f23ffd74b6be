/* src/log: loggers by name, and those of a program's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../base/scratch.h"
#include "base/files.h"
#include "log/log.h"

/* ---- a logger that notes its calls ------------------------------------------------------------------------------ */

typedef struct notes {
    char text[1024];
    nt_status open, line; /* what the calls return */
    bool silent;          /* it fails without a message */
} notes;

static void note(notes *n, const char *word) {
    assert_true(strlen(n->text) + strlen(word) + 2 < sizeof n->text);
    strcat(n->text, word);
    strcat(n->text, " ");
}

static nt_status fail_as_told(const notes *n, nt_status status) {
    return status == NT_OK || n->silent ? status : nt_fail(status, "the disk is on fire");
}

static nt_status open_notes(void *context, const nt_log_start *start, void **state) {
    notes *n = *state = context;
    char text[SCRATCH_PATH + 64];
    snprintf(text, sizeof text, "open(%s %s %lld)", strrchr(start->run_dir, '/') + 1, start->resumes ? "again" : "new",
             (long long)start->step);
    note(n, text);
    return fail_as_told(n, n->open);
}

static nt_status note_line(void *state, const nt_log_line *line) {
    notes *n = state;
    note(n, line->type);
    return fail_as_told(n, n->line);
}

static void close_notes(void *state) {
    note(state, "close");
}

static nt_logger logger_of(notes *n, const char *name) {
    return (nt_logger){.name = name, .open = open_notes, .line = note_line, .close = close_notes, .context = n};
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static void names_that_are_no_loggers_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *names, *message;
    } cases[] = {
        {"tensorbord", "there is no logger 'tensorbord'; they are "},
        {"", "there is no logger ''; they are "},
        {"jsonl,", "there is no logger ''; they are "},
        {"jsonl,none", "there is no logger 'none'; they are "},
        {"jsonl,jsonl", "the logger 'jsonl' is named twice: leave one out"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(nt__loggers_check(cases[i].names), NT_INVALID);
        if (strncmp(nt_error_message(), cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("%s: %s", cases[i].names, nt_error_message());
    }
    assert_int_equal(nt__loggers_check("jsonl"), NT_OK);
    assert_int_equal(nt__loggers_check("none"), NT_OK);
}

static void a_function_that_is_missing_is_named(void **state) {
    (void)state;
    notes n = {0};
    nt_logger loggers[2] = {logger_of(&n, "first"), logger_of(&n, "mine")};
    assert_int_equal(nt__loggers_check_own(loggers, 2), NT_OK);
    loggers[1].line = NULL;
    assert_int_equal(nt__loggers_check_own(loggers, 2), NT_INVALID);
    assert_string_equal(nt_error_message(), "loggers[1] ('mine') has no line, which a logger must have");
    loggers[1].open = NULL;
    assert_int_equal(nt__loggers_check_own(loggers, 2), NT_INVALID);
    assert_string_equal(nt_error_message(), "loggers[1] ('mine') has no open, which a logger must have");
    loggers[0].name = NULL;
    assert_int_equal(nt__loggers_check_own(loggers, 2), NT_INVALID);
    assert_string_equal(nt_error_message(), "loggers[0] has no name, which a logger must have");
    assert_int_equal(nt__loggers_check_own(NULL, 1), NT_INVALID);
    assert_string_equal(nt_error_message(), "logger_count is 1, and loggers is NULL");
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

static nt_log_start start_here(void) {
    return (nt_log_start){.run_dir = scratch("run"), .resumes = true, .step = 12};
}

static void each_logger_gets_each_line(void **state) {
    (void)state;
    notes first = {0}, second = {0};
    nt_logger loggers[2] = {logger_of(&first, "first"), logger_of(&second, "second")};
    loggers[1].close = NULL;
    nt_log_start start = start_here();
    nt__log *log;
    assert_int_equal(nt__log_open("none", loggers, 2, &start, NULL, 0, &log), NT_OK);
    assert_int_equal(nt__log_line(log, &(nt_log_line){.type = "params"}), NT_OK);
    assert_int_equal(nt__log_line(log, &(nt_log_line){.type = "finish"}), NT_OK);
    nt__log_close(log);
    assert_string_equal(first.text, "open(run again 12) params finish close ");
    assert_string_equal(second.text, "open(run again 12) params finish ");
}

/* No logger has to see to that. */
static void lines_are_utf8(void **state) {
    (void)state;
    notes n = {0};
    const nt_logger logger = logger_of(&n, "one");
    nt_log_start start = start_here();
    nt__log *log;
    const nt_log_value name = {"caf\xe9", NULL, 1}, text = {"note", "\xff", 0};
    assert_int_equal(nt__log_open("none", &logger, 1, &start, NULL, 0, &log), NT_OK);
    const nt_log_line lines[] = {{.type = "metrics", .context = "\x80"},
                                 {.type = "metrics", .values = &name, .count = 1},
                                 {.type = "params", .values = &text, .count = 1}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(nt__log_line(log, &lines[i]), NT_INVALID);
        assert_non_null(strstr(nt_error_message(), "which is not valid UTF-8"));
    }
    nt__log_close(log);
    assert_string_equal(n.text, "open(run again 12) close ");
}

static nt_status open_at(void *context, const nt_log_start *start, void **state) {
    *(int64_t *)(*state = context) = start->position;
    return NT_OK;
}

static int64_t one_further(void *state) {
    return *(int64_t *)state + 1;
}

/* Each gets its own back; one that is not known, or has none, -1. */
static void a_position_is_kept_for_each_logger(void **state) {
    (void)state;
    int64_t known = 0, unknown = 0, none = 0;
    const nt_logger loggers[] = {
        {.name = "none", .open = open_at, .line = note_line, .context = &none},
        {.name = "known", .open = open_at, .line = note_line, .position = one_further, .context = &known},
        {.name = "unknown", .open = open_at, .line = note_line, .position = one_further, .context = &unknown}};
    const nt__log_position kept[] = {{"another", 3}, {"known", 40}};
    nt_log_start start = start_here();
    nt__log *log;
    nt__log_position at;
    assert_int_equal(nt__log_open("none", loggers, 3, &start, kept, 2, &log), NT_OK);
    assert_true(known == 40 && unknown == -1 && none == -1);
    assert_true(nt__log_position_at(log, 0, &at) && strcmp(at.name, "known") == 0 && at.at == 41);
    assert_true(nt__log_position_at(log, 1, &at) && strcmp(at.name, "unknown") == 0 && at.at == 0);
    assert_false(nt__log_position_at(log, 2, &at));
    nt__log_close(log);
    start.resumes = false;
    assert_int_equal(nt__log_open("none", loggers, 3, &start, kept, 2, &log), NT_OK);
    assert_int_equal(known, -1);
    nt__log_close(log);
}

static void a_failure_says_which_logger_it_is_of(void **state) {
    (void)state;
    notes n = {.line = NT_IO};
    nt_logger logger = logger_of(&n, "mine");
    nt_log_start start = start_here();
    nt__log *log;
    assert_int_equal(nt__log_open("none", &logger, 1, &start, NULL, 0, &log), NT_OK);
    assert_int_equal(nt__log_line(log, &(nt_log_line){.type = "params"}), NT_IO);
    assert_string_equal(nt_error_message(), "logger 'mine': the disk is on fire");
    n.silent = true;
    assert_int_equal(nt__log_line(log, &(nt_log_line){.type = "params"}), NT_IO);
    assert_string_equal(nt_error_message(),
                        "logger 'mine' failed (input or output) and does not say why: let it call nt_fail");
    nt__log_close(log);
}

/* One that did not open is not closed; those before it are. */
static void a_logger_that_does_not_open_undoes_the_others(void **state) {
    (void)state;
    notes good = {0}, bad = {.open = NT_NOT_FOUND};
    nt_logger loggers[2] = {logger_of(&good, "good"), logger_of(&bad, "bad")};
    nt_log_start start = start_here();
    nt__log *log;
    assert_int_equal(nt__log_open("none", loggers, 2, &start, NULL, 0, &log), NT_NOT_FOUND);
    assert_string_equal(nt_error_message(), "logger 'bad': the disk is on fire");
    assert_null(log);
    assert_string_equal(good.text, "open(run again 12) close ");
    assert_string_equal(bad.text, "open(run again 12) ");
}

static void a_failed_allocation_leaves_nothing(void **state) {
    (void)state;
    assert_int_equal(nt__make_folder(scratch("memory")), NT_OK);
    size_t before = nt__memory().live;
    notes n = {0};
    nt_logger logger = logger_of(&n, "mine");
    nt_log_start start = {.run_dir = scratch("memory")};
    nt_status status = NT_OUT_OF_MEMORY;
    for (size_t i = 1; status != NT_OK; i++) {
        nt__log *log;
        n.text[0] = 0;
        nt__memory_fail_at(i);
        status = nt__log_open("jsonl", &logger, 1, &start, NULL, 0, &log);
        nt__memory_fail_at(0);
        assert_true(status == NT_OK || (status == NT_OUT_OF_MEMORY && !log));
        nt__log_close(log);
        assert_int_equal(nt__memory().live, before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_are_no_loggers_are_refused),
        cmocka_unit_test(a_function_that_is_missing_is_named),
        cmocka_unit_test(each_logger_gets_each_line),
        cmocka_unit_test(lines_are_utf8),
        cmocka_unit_test(a_position_is_kept_for_each_logger),
        cmocka_unit_test(a_failure_says_which_logger_it_is_of),
        cmocka_unit_test(a_logger_that_does_not_open_undoes_the_others),
        cmocka_unit_test(a_failed_allocation_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
