/* A signal that asks for the end, at each moment of a command: it ends promptly, with the right exit code, and keeps
 * what there is. The code of the experiment sends it to itself, the compiler to the command.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/stat.h>

#include "base/files.h"
#include "command.h"
#include "nitro/array.h"

/* At the moment that WHERE names it sends itself SIGNAL, TIMES times; then it waits for ever if WAIT is set. */
static const char experiment[] =
    "#include <nitro.h>\n"
    "#include <signal.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "#include <unistd.h>\n"
    "static void at(const char *moment) {\n"
    "    if (!getenv(\"WHERE\") || strcmp(getenv(\"WHERE\"), moment)) return;\n"
    "    for (int i = 0; i < atoi(getenv(\"TIMES\")); i++) kill(getpid(), atoi(getenv(\"SIGNAL\")));\n"
    "    while (getenv(\"WAIT\")) pause();\n"
    "}\n"
    "#define LIST(FIELD, DEVICE, GRAPH_CONST) FIELD(int, batch, 4, \"samples\")\n"
    "NT_EXPERIMENT(Small, LIST)\n"
    "static void add(nt_data *data, const char *split, int batch, int rows) {\n"
    "    nt_split(data, split, .batch = batch);\n"
    "    nt_split_field(data, split, \"x\", nt_array_new(NT_F32, nt_dims(rows, 2)));\n"
    "}\n"
    "static nt_status build_data(const Small *e, nt_data *data) {\n"
    "    at(\"build_data\");\n"
    "    add(data, \"train\", e->batch, 16), add(data, \"val\", e->batch, 16), add(data, \"test\", e->batch, 3);\n"
    "    return nt_data_status(data);\n"
    "}\n"
    "static nt_tensor forward(const Small_view *e, nt_model *m, nt_batch *b) {\n"
    "    (void)e;\n"
    "    at(\"forward\");\n"
    "    return nt_dense(m, \"d\", nt_field(b, \"x\"), 2);\n"
    "}\n"
    "static nt_tensor loss(const Small_view *e, nt_tensor y, nt_batch *b) {\n"
    "    return (void)e, (void)b, nt_mean(nt_square(y));\n"
    "}\n"
    "static void step(const Small *e, nt_metrics *out, const nt_array *y, const nt_host_batch *b) {\n"
    "    static int steps;\n"
    "    (void)e, (void)y, (void)b;\n"
    "    nt_metric_max(out, \"one\", 1);\n"
    "    at(steps == 0 ? \"first step\" : steps == 2 ? \"third step\" : \"\");\n"
    "    steps++;\n"
    "}\n"
    "static void metrics(const Small *e, nt_metrics *out, const nt_array *y, const nt_host_batch *b) {\n"
    "    (void)e, (void)b;\n"
    "    nt_metric_max(out, \"one\", 1);\n"
    "    at(y->shape.dims[0] == 3 ? \"test\" : \"val\");\n"
    "}\n"
    "NT_DEFINE(Small, LIST, .build_data = build_data, .forward = forward, .loss = loss, .metrics = metrics,\n"
    "          .host_train_metrics = step);\n"
    "__attribute__((constructor)) static void load(void) {\n"
    "    at(\"load\");\n"
    "}\n";

/* WHERE is "compile" or "link": the compiler sends it before or after its work. */
static const char compiler[] = "#!/bin/sh\n"
                               "case \"$*\" in *-shared*) what=link ;; *) what=compile ;; esac\n"
                               "[ \"$WHERE\" = $what ] && [ $what = compile ] && kill -$SIGNAL $PPID && sleep 30\n"
                               "gcc \"$@\" || exit\n"
                               "[ \"$WHERE\" = $what ] && kill -$SIGNAL $PPID\n"
                               "exit 0\n";

static int prepare(void **state) {
    if (command_make(state) != 0 || chdir(scratch_folder) != 0) return -1;
    put_text("net.c", experiment);
    put_text("compiler", compiler);
    return chmod(scratch("compiler"), 0755) == 0 ? setenv("CC", scratch("compiler"), 1) : -1;
}

static void set_number(const char *name, int number) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    setenv(name, text, 1);
}

/* With the signal at the moment. */
static const ended *run_with(const char *where, int signal_number, int times, bool waits, const char *const *words) {
    setenv("WHERE", where, 1);
    set_number("SIGNAL", signal_number);
    set_number("TIMES", times);
    if (waits)
        setenv("WAIT", "1", 1);
    else
        unsetenv("WAIT");
    scratch_remove_path(scratch("runs"));
    return run_nitro(words);
}

static const char *const train[] = {"train", "net.c", "--max-epochs=2", NULL};

static bool exists(const char *name) {
    return access(scratch(name), F_OK) == 0;
}

static void the_compiler_is_ended_too(void **state) {
    (void)state;
    static const char *const moments[] = {"compile", "link"};
    for (int i = 0; i < 2; i++) {
        scratch_remove_path(scratch("cache"));
        double start = nt__seconds();
        const ended *e = run_with(moments[i], SIGTERM, 1, false, train);
        assert_int_equal(e->code, 130);
        assert_has(e->err, "nitro: stopped by a signal while '");
        assert_true(nt__seconds() - start < 25);
        assert_false(exists("runs"));
    }
    assert_int_equal(run_with("compile", SIGHUP, 1, false, train)->code, 129);
}

/* Whatever the hook does after it. */
static void the_setup_ends_at_once(void **state) {
    (void)state;
    static const char *const moments[] = {"load", "build_data", "forward"};
    static const struct {
        int number, code;
    } signals[] = {{SIGINT, 130}, {SIGTERM, 130}, {SIGHUP, 129}, {SIGXCPU, 152}};
    for (size_t s = 0; s < sizeof signals / sizeof *signals; s++)
        for (size_t m = 0; m < sizeof moments / sizeof *moments; m++) {
            const ended *e = run_with(moments[m], signals[s].number, 1, true, train);
            assert_int_equal(e->code, signals[s].code);
            assert_has(e->err, "nitro: stopped; nothing is saved\n");
            assert_false(exists("runs"));
        }
}

static void a_run_without_a_step_ends_in_a_moment(void **state) {
    (void)state;
    const ended *e = run_with("first step", SIGTERM, 1, true, train);
    assert_int_equal(e->code, 130);
    assert_has(e->err, "nitro: stopped; nothing is saved\n");
    e = run_with("first step", SIGTERM, 1, false, train);
    assert_int_equal(e->code, 130);
    assert_true(exists("runs/Small/parameters.safetensors"));
}

static void assert_kept(const ended *e, int code) {
    assert_int_equal(e->code, code);
    assert_has(e->err, "nitro: stopping after this step", "the parameters are saved, and --resume goes on from here");
    assert_true(exists("runs/Small/parameters.safetensors"));
    assert_true(exists("runs/Small/checkpoints.json") || scratch_entries(scratch("runs/Small")) >= 3);
}

static void training_keeps_what_it_has(void **state) {
    (void)state;
    static const char *const moments[] = {"third step", "val", "test"};
    static const struct {
        int number, code;
    } signals[] = {{SIGINT, 130}, {SIGTERM, 130}, {SIGHUP, 129}, {SIGXCPU, 152}};
    for (size_t s = 0; s < sizeof signals / sizeof *signals; s++)
        for (size_t m = 0; m < sizeof moments / sizeof *moments; m++)
            assert_kept(run_with(moments[m], signals[s].number, 1, false, train), signals[s].code);
}

static void the_second_ends_at_once(void **state) {
    (void)state;
    const ended *e = run_with("third step", SIGHUP, 2, true, train);
    assert_int_equal(e->code, 129);
    assert_false(exists("runs/Small/parameters.safetensors"));
}

static void what_is_ignored_stays_ignored(void **state) {
    (void)state;
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        signal(ignored[i], SIG_IGN); /* the command inherits it */
        const ended *e = run_with("third step", ignored[i], 1, false, train);
        signal(ignored[i], SIG_DFL);
        assert_int_equal(e->code, 0);
        assert_has_not(e->err, "stopping");
    }
}

static void a_stop_and_a_closed_pipe_end_nothing(void **state) {
    (void)state;
    assert_int_equal(run_with("third step", SIGPIPE, 1, false, train)->code, 0);
    assert_int_equal(run_with("third step", SIGCONT, 1, false, train)->code, 0);
}

static void evaluation_and_prediction_end_too(void **state) {
    (void)state;
    assert_int_equal(run_with("", SIGTERM, 0, false, train)->code, 0);
    rename(scratch("runs"), scratch("kept"));
    const char *const evaluate[] = {"evaluate", "net.c", "--weights=kept/Small/parameters.safetensors", NULL};
    assert_int_equal(run_with("test", SIGHUP, 1, false, evaluate)->code, 129);
    assert_int_equal(run_with("test", SIGTERM, 1, true, evaluate)->code, 130); /* in a moment */
    nt_array *x = nt_array_new(NT_F32, nt_dims(3, 2));
    assert_int_equal(nt_npy_write(scratch("x.npy"), x), NT_OK);
    nt_array_free(x);
    const char *const predict[] = {"predict",       "net.c",       "--weights=kept/Small/parameters.safetensors",
                                   "--input=x.npy", "--out=y.npy", NULL};
    const ended *e = run_with("forward", SIGTERM, 1, true, predict);
    assert_int_equal(e->code, 130);
    assert_false(exists("y.npy"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_compiler_is_ended_too),
        cmocka_unit_test(the_setup_ends_at_once),
        cmocka_unit_test(a_run_without_a_step_ends_in_a_moment),
        cmocka_unit_test(training_keeps_what_it_has),
        cmocka_unit_test(the_second_ends_at_once),
        cmocka_unit_test(what_is_ignored_stays_ignored),
        cmocka_unit_test(a_stop_and_a_closed_pipe_end_nothing),
        cmocka_unit_test(evaluation_and_prediction_end_too),
    };
    return cmocka_run_group_tests_name("cli/signals", tests, prepare, scratch_remove);
}
