/* src/log/csv.c: rows, and how a resumed run goes on with them; read by Python's csv module too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <sys/wait.h>

#include "../base/scratch.h"
#include "base/files.h"
#include "log/log.h"

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

static void *open_log(const char *folder, bool resumes, int64_t position) {
    void *state;
    nt_log_start start = {.run_dir = scratch(folder), .resumes = resumes, .position = position};
    assert_int_equal(nt__make_folder(start.run_dir), NT_OK);
    if (nt__csv_logger.open(NULL, &start, &state) != NT_OK) fail_msg("%s", nt_error_message());
    return state;
}

static void put(void *state, nt_log_line line) {
    if (nt__csv_logger.line(state, &line) != NT_OK) fail_msg("%s", nt_error_message());
}

static void put_loss(void *state, int64_t step, double loss) {
    const nt_log_value value = {"loss", NULL, loss};
    put(state,
        (nt_log_line){.type = "metrics", .context = "train", .step = step, .epoch = 1, .values = &value, .count = 1});
}

static void assert_file(const char *name, const char *text) {
    char *got;
    size_t length;
    if (nt__read_file(scratch(name), &got, &length) != NT_OK) fail_msg("%s", nt_error_message());
    assert_string_equal(got, text);
    nt__free(got);
}

static void put_all_types(void *state) {
    const nt_log_value params[] = {{"hidden", NULL, 32}, {"rate", NULL, 0.1}, {"note", "a, \"b\"\nc", 0}};
    const nt_log_value report[] = {{"key", "binding_report", 0}, {"value", "data\n  train: 8 batches\n", 0}};
    const nt_log_value metrics[] = {{"accuracy", NULL, 0.75}, {"lost", NULL, NAN}, {"f,1", NULL, 1}};
    const nt_log_value finish = {"status", "completed", 0}, source = {"path", "net.c", 0};
    put(state, (nt_log_line){.type = "params", .values = params, .count = 3});
    put(state, (nt_log_line){.type = "other", .values = report, .count = 2});
    put(state, (nt_log_line){.type = "source", .values = &source, .count = 1});
    put_loss(state, 1, 2.5);
    put(state,
        (nt_log_line){.type = "metrics", .context = "validate", .step = 4, .epoch = 1, .values = metrics, .count = 3});
    put(state, (nt_log_line){.type = "finish", .values = &finish, .count = 1});
}

static void each_value_is_a_row(void **state) {
    (void)state;
    void *log = open_log("rows", false, -1);
    put_all_types(log);
    nt__csv_logger.close(log);
    assert_file("rows/metrics.csv", "type,context,epoch,step,name,value\n"
                                    "params,,,,hidden,32\n"
                                    "params,,,,rate,0.1\n"
                                    "params,,,,note,\"a, \"\"b\"\"\nc\"\n"
                                    "other,,,,binding_report,\"data\n  train: 8 batches\n\"\n"
                                    "metrics,train,1,1,loss,2.5\n"
                                    "metrics,validate,1,4,accuracy,0.75\n"
                                    "metrics,validate,1,4,\"f,1\",1\n"
                                    "finish,,,,status,completed\n");
}

/* A context may be any name. */
static void a_context_is_a_cell(void **state) {
    (void)state;
    void *log = open_log("context", false, -1);
    const nt_log_value value = {"a,b\"\nc", NULL, 1};
    put(log, (nt_log_line){.type = "metrics",
                           .context = "ctx,with\"comma\nnewline",
                           .step = 8,
                           .epoch = 1,
                           .values = &value,
                           .count = 1});
    nt__csv_logger.close(log);
    assert_file("context/metrics.csv", "type,context,epoch,step,name,value\n"
                                       "metrics,\"ctx,with\"\"comma\nnewline\",1,8,\"a,b\"\"\nc\",1\n");
}

static void python_reads_them(void **state) {
    (void)state;
    void *log = open_log("python", false, -1);
    put_all_types(log);
    nt__csv_logger.close(log);
    static const char program[] = "import csv, sys\n"
                                  "rows = list(csv.DictReader(open(sys.argv[1], newline='')))\n"
                                  "assert [r['name'] for r in rows] == ['hidden', 'rate', 'note', 'binding_report', "
                                  "'loss', 'accuracy', 'f,1', 'status'], rows\n"
                                  "assert rows[2]['value'] == 'a, \"b\"\\nc'\n"
                                  "assert (rows[5]['context'], rows[5]['step'], rows[5]['value']) == "
                                  "('validate', '4', '0.75')\n";
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execlp("python3", "python3", "-c", program, scratch("python/metrics.csv"), (char *)NULL);
        _exit(98);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

/* A resumed run goes on after the last step that it keeps, with one header. */
static void a_resumed_run_has_no_step_twice(void **state) {
    (void)state;
    void *log = open_log("resumed", false, -1);
    put_loss(log, 1, 3);
    put_loss(log, 2, 2);
    int64_t position = nt__csv_logger.position(log);
    put_loss(log, 3, 1);
    nt__csv_logger.close(log);
    log = open_log("resumed", true, position);
    put_loss(log, 3, 0.5);
    nt__csv_logger.close(log);
    assert_file("resumed/metrics.csv", "type,context,epoch,step,name,value\n"
                                       "metrics,train,1,1,loss,3\n"
                                       "metrics,train,1,2,loss,2\n"
                                       "metrics,train,1,3,loss,0.5\n");
}

static void once_is_not_again(void **state) {
    (void)state;
    const nt_log_value params[] = {{"hidden", NULL, 32}, {"rate", NULL, 0.5}};
    const nt_log_line line = {.type = "params", .values = params, .count = 2, .once = true};
    void *log = open_log("once", false, -1);
    put(log, line);
    int64_t position = nt__csv_logger.position(log);
    nt__csv_logger.close(log);
    log = open_log("once", true, position);
    put(log, line);
    put_loss(log, 1, 3);
    nt__csv_logger.close(log);
    assert_file("once/metrics.csv", "type,context,epoch,step,name,value\n"
                                    "params,,,,hidden,32\n"
                                    "params,,,,rate,0.5\n"
                                    "metrics,train,1,1,loss,3\n");
}

static void a_failed_allocation_leaves_nothing(void **state) {
    (void)state;
    assert_int_equal(nt__make_folder(scratch("memory")), NT_OK);
    size_t before = nt__memory().live;
    nt_status status = NT_OUT_OF_MEMORY;
    for (size_t n = 1; status != NT_OK; n++) {
        void *log = NULL;
        nt_log_start start = {.run_dir = scratch("memory"), .position = -1};
        const nt_log_value value = {"loss", NULL, 1};
        nt__memory_fail_at(n);
        status = nt__csv_logger.open(NULL, &start, &log);
        bool is_open = status == NT_OK;
        if (is_open) status = nt__csv_logger.line(log, &(nt_log_line){.type = "metrics", .values = &value, .count = 1});
        nt__memory_fail_at(0);
        if (is_open) nt__csv_logger.close(log);
        assert_true(status == NT_OK || status == NT_OUT_OF_MEMORY);
        assert_int_equal(nt__memory().live, before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_value_is_a_row), cmocka_unit_test(a_context_is_a_cell),
        cmocka_unit_test(python_reads_them),   cmocka_unit_test(a_resumed_run_has_no_step_twice),
        cmocka_unit_test(once_is_not_again),   cmocka_unit_test(a_failed_allocation_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
