/* A crash in the code of an experiment: the last line says in which hook, by which signal and where, the log has whole
 * lines, and the process ends by the signal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>

#include "base/files.h"
#include "command.h"

/* At the moment that WHERE names it crashes as HOW says. */
static const char experiment[] =
    "#include <nitro.h>\n"
    "#include <signal.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "static volatile int zero;\n"
    "static int *volatile nowhere;\n"
    "static int deeper(volatile char *above) {\n"
    "    volatile char here[4096];\n"
    "    here[0] = above ? above[0] : 1;\n"
    "    return (zero ? 0 : deeper(here)) + here[0];\n"
    "}\n"
    "static void at(const char *moment) {\n"
    "    const char *how = getenv(\"HOW\");\n"
    "    if (!getenv(\"WHERE\") || strcmp(getenv(\"WHERE\"), moment)) return;\n"
    "    if (!strcmp(how, \"segv\")) *nowhere = 1;\n"
    "    if (!strcmp(how, \"fpe\")) zero = 7 / zero;\n"
    "    if (!strcmp(how, \"ill\")) __builtin_trap();\n"
    "    if (!strcmp(how, \"abort\")) abort();\n"
    "    if (!strcmp(how, \"bus\")) raise(SIGBUS);\n"
    "    if (!strcmp(how, \"overflow\")) zero = deeper(NULL);\n"
    "    if (!strcmp(how, \"exit\")) exit(0);\n"
    "}\n"
    "#define LIST(FIELD, DEVICE, GRAPH_CONST) FIELD(int, batch, 4, \"samples\")\n"
    "NT_EXPERIMENT(Small, LIST)\n"
    "static nt_status read(void *context, nt_request *request) {\n"
    "    (void)context;\n"
    "    at(\"read\");\n"
    "    memset(request->fields[0]->data, 0, request->fields[0]->bytes);\n"
    "    return NT_OK;\n"
    "}\n"
    "static nt_status build_data(const Small *e, nt_data *data) {\n"
    "    at(\"build_data\");\n"
    "    nt_split(data, \"train\", .batch = e->batch);\n"
    "    const nt_source_field field = {\"x\", NT_F32, nt_dims(2)};\n"
    "    nt_split_source(data, \"train\", (nt_source){.name = \"made\", .rows = 16, .read = read, .fields = &field,\n"
    "                                               .field_count = 1});\n"
    "    nt_split(data, \"val\", .batch = e->batch);\n"
    "    nt_split_field(data, \"val\", \"x\", nt_array_new(NT_F32, nt_dims(16, 2)));\n"
    "    return nt_data_status(data);\n"
    "}\n"
    "static nt_status derive(Small *e, const nt_data *data) {\n"
    "    (void)e, (void)data;\n"
    "    at(\"derive\");\n"
    "    return NT_OK;\n"
    "}\n"
    "static nt_tensor forward(const Small_view *e, nt_model *m, nt_batch *b) {\n"
    "    (void)e;\n"
    "    nt_tensor x = nt_tanh(nt_field(b, \"x\"));\n"
    "    at(\"forward\");\n"
    "    return nt_dense(m, \"d\", x, 2);\n"
    "}\n"
    "static nt_tensor loss(const Small_view *e, nt_tensor y, nt_batch *b) {\n"
    "    (void)e, (void)b;\n"
    "    at(\"loss\");\n"
    "    return nt_mean(nt_square(y));\n"
    "}\n"
    "static double rate(int64_t step, int64_t total, void *context) {\n"
    "    (void)total, (void)context;\n"
    "    if (step == 3) at(\"schedule\");\n"
    "    return 0.1;\n"
    "}\n"
    "static void schedules(const Small *e, nt_schedules *out) {\n"
    "    (void)e;\n"
    "    at(\"schedules\");\n"
    "    nt_schedule_set(out, \"learning_rate\", nt_schedule_of(rate, NULL));\n"
    "}\n"
    "static void step(const Small *e, nt_metrics *out, const nt_array *y, const nt_host_batch *b) {\n"
    "    static int steps;\n"
    "    (void)e, (void)y, (void)b;\n"
    "    nt_metric_max(out, \"one\", 1);\n"
    "    if (++steps == 3) at(\"host_train_metrics\");\n"
    "}\n"
    "static void metrics(const Small *e, nt_metrics *out, const nt_array *y, const nt_host_batch *b) {\n"
    "    (void)e, (void)b, (void)y;\n"
    "    nt_metric_max(out, \"one\", 1);\n"
    "    at(\"metrics\");\n"
    "}\n"
    "NT_DEFINE(Small, LIST, .build_data = build_data, .derive = derive, .forward = forward, .loss = loss,\n"
    "          .metrics = metrics, .host_train_metrics = step, .schedules = schedules);\n"
    "__attribute__((constructor)) static void load(void) {\n"
    "    at(\"a constructor\");\n"
    "}\n";

/* A sanitizer's own handlers would answer first. */
static int prepare(void **state) {
    const char *given = getenv("ASAN_OPTIONS");
    char options[1024];
    if (command_make(state) != 0 || chdir(scratch_folder) != 0) return -1;
    snprintf(options, sizeof options, "%s:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0",
             given ? given : "");
    setenv("ASAN_OPTIONS", options, 1);
    put_text("net.c", experiment);
    return 0;
}

static const ended *crash(const char *where, const char *how) {
    setenv("WHERE", where, 1);
    setenv("HOW", how, 1);
    scratch_remove_path(scratch("runs"));
    return nitro("train", "net.c", "--max-epochs=2");
}

/* The newest line of standard error. */
static const char *last_line(const ended *e) {
    const char *last = e->err, *end;
    while ((end = strchr(last, '\n')) && end[1]) last = end + 1;
    return last;
}

static void assert_crashed(const char *where, const char *of, const char *how, int number) {
    char signal_text[32];
    const ended *e = crash(where, how);
    snprintf(signal_text, sizeof signal_text, ": signal %d (SIG", number);
    if (e->code != 128 + number) fail_msg("%s in %s: code %d:\n%s", how, where, e->code, e->err);
    assert_has(last_line(e), "nitro: crashed in ", where, of, " at net.c:", signal_text);
}

static void each_hook_is_named(void **state) {
    (void)state;
    static const char *const hooks[][2] = {
        {"build_data", " of Small"},
        {"derive", " of Small"},
        {"forward", " of Small"},
        {"loss", " of Small"},
        {"schedules", " of Small"},
        {"metrics", " of Small"},
        {"host_train_metrics", " of Small"},
        {"read", " of made"},
        {"schedule", " of learning_rate"},
    };
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) assert_crashed(hooks[i][0], hooks[i][1], "segv", SIGSEGV);
}

/* The loader is at work then, and cannot be asked where its objects lie. */
static void a_constructor_is_named(void **state) {
    (void)state;
    const ended *e = crash("a constructor", "segv");
    assert_int_equal(e->code, 128 + SIGSEGV);
    assert_has(last_line(e), "nitro: crashed in a constructor of net.c: signal 11 (SIGSEGV");
}

static void each_signal_is_named(void **state) {
    (void)state;
    assert_crashed("build_data", " of Small", "fpe", SIGFPE);
    assert_crashed("forward", " of Small", "ill", SIGILL);
    assert_crashed("metrics", " of Small", "abort", SIGABRT);
    assert_crashed("derive", " of Small", "bus", SIGBUS);
    assert_crashed("build_data", " of Small", "overflow", SIGSEGV);
    assert_crashed("forward", " of Small", "overflow", SIGSEGV);
}

static void the_log_is_complete(void **state) {
    (void)state;
    char *text;
    size_t length;
    assert_crashed("host_train_metrics", " of Small", "segv", SIGSEGV);
    assert_int_equal(nt__read_file(scratch("runs/Small/metrics.jsonl"), &text, &length), NT_OK);
    assert_int_equal(text[length - 1], '\n');
    assert_has(text, "\"step\":1", "\"step\":2");
    nt__free(text);
}

static void exit_is_named_too(void **state) {
    (void)state;
    const ended *e = crash("forward", "exit");
    assert_int_equal(e->code, 1);
    assert_has(e->err, "called exit, in forward of Small, so the command ends here and nothing is saved");
}

static void without_addr2line_the_newest_call_is_told(void **state) {
    (void)state;
    char *path = nt__strdup(getenv("PATH"));
    setenv("CC", "/usr/bin/cc", 1);
    assert_int_equal(crash("forward", "nothing")->code, 0); /* compiled */
    setenv("PATH", "/nowhere", 1);
    const ended *e = crash("forward", "segv");
    setenv("PATH", path, 1);
    unsetenv("CC");
    nt__free(path);
    if (!strstr(last_line(e), "nitro: crashed")) fail_msg("%s", e->err);
    assert_has(last_line(e), "nitro: crashed in forward of Small after the call at net.c:", ": signal 11 (SIGSEGV");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_hook_is_named),   cmocka_unit_test(a_constructor_is_named),
        cmocka_unit_test(each_signal_is_named), cmocka_unit_test(the_log_is_complete),
        cmocka_unit_test(exit_is_named_too),    cmocka_unit_test(without_addr2line_the_newest_call_is_told),
    };
    return cmocka_run_group_tests_name("cli/crash", tests, prepare, scratch_remove);
}
