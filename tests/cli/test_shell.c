/* nitro shell: one process in which files are edited, compiled, loaded and run again. The commands come through a pipe,
 * and through a terminal where keys matter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>

#include "command.h"

/* ---- the experiment --------------------------------------------------------------------------------------------- */

static const char helper_source[] = "#include <nitro.h>\n"
                                    "nt_tensor helper(nt_tensor x) {\n"
                                    "    return nt_mul(nt_tanh(x), 2);\n"
                                    "}\n";

/* A pass over val is one batch: "calls" counts them, in the copy of the code that is running. */
static const char main_source[] =
    "#include <nitro.h>\n"
    "nt_tensor helper(nt_tensor x);\n"
    "#define LIST(FIELD, DEVICE, GRAPH_CONST) GRAPH_CONST(int, hidden, 3, \"units\") FIELD(int, batch, 8, \"\")\n"
    "NT_EXPERIMENT(Edited, LIST)\n"
    "static nt_status build_data(const Edited *e, nt_data *data) {\n"
    "    nt_array *x = nt_array_new(NT_F32, nt_dims(32, 3)), *label = nt_array_new(NT_I32, nt_dims(32));\n"
    "    for (int i = 0; i < 96; i++) nt_array_set(x, i, (i * 37 % 17 - 8) / 8.0);\n"
    "    for (int i = 0; i < 32; i++) nt_array_set(label, i, i * 7 % 2);\n"
    "    nt_split(data, \"train\", .batch = e->batch);\n"
    "    nt_split(data, \"val\", .batch = e->batch, .limit = 8, .shares = \"train\");\n"
    "    nt_split_field(data, \"train\", \"x\", nt_array_retain(x));\n"
    "    nt_split_field(data, \"train\", \"label\", nt_array_retain(label));\n"
    "    nt_split_field(data, \"val\", \"x\", x);\n"
    "    nt_split_field(data, \"val\", \"label\", label);\n"
    "    return nt_data_status(data);\n"
    "}\n"
    "static nt_tensor forward(const Edited_view *e, nt_model *m, nt_batch *batch) {\n"
    "    return nt_dense(m, \"logits\", helper(nt_dense(m, \"hidden\", nt_field(batch, \"x\"), e->hidden)), 2);\n"
    "}\n"
    "static nt_tensor loss(const Edited_view *e, nt_tensor logits, nt_batch *batch) {\n"
    "    return nt_cross_entropy(logits, nt_field(batch, \"label\"));\n"
    "}\n"
    "static void metrics(const Edited *e, nt_metrics *out, const nt_array *logits, const nt_host_batch *batch) {\n"
    "    static int calls;\n"
    "    static _Thread_local int thread_calls;\n"
    "    nt_metric_sum(out, \"first\", nt_array_get(logits, 0));\n"
    "    nt_metric_sum(out, \"calls\", 10 * ++calls + ++thread_calls);\n"
    "}\n"
    "NT_DEFINE(Edited, LIST, .build_data = build_data, .forward = forward, .loss = loss, .metrics = metrics);\n";

static void put_edited(const char *file, const char *text, const char *old, const char *new) {
    static char edited[1 << 14];
    const char *at = strstr(text, old);
    assert_non_null(at);
    int length = snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    assert_true(length < (int)sizeof edited);
    put_text(file, edited);
}

static int start_afresh(void **state) {
    (void)state;
    put_text("main.c", main_source);
    put_text("helper.c", helper_source);
    return chdir(scratch_folder);
}

/* ---- a shell that runs ------------------------------------------------------------------------------------------ */

typedef struct shell {
    pid_t child;
    int to, from;
} shell;

static const char *const usual_words[] = {"shell", "main.c", "helper.c", NULL};

static void become_shell(const char *const *words) {
    const char *all[MOST_WORDS] = {command_path()};
    for (size_t i = 0; words[i] && i + 2 < MOST_WORDS; i++) all[i + 1] = words[i];
    execv(all[0], (char *const *)(uintptr_t)all);
    _exit(126);
}

static shell start_with(const char *const *words) {
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(out[1], STDERR_FILENO);
        become_shell(words);
    }
    close(in[0]);
    close(out[1]);
    return (shell){child, in[1], out[0]};
}

static void send_text(const shell *s, const char *text) {
    assert_int_equal(write(s->to, text, strlen(text)), (ssize_t)strlen(text));
}

enum { PATIENCE_MS = 90000, MOST_SHOWN = 1 << 18 }; /* a compiler quotes a whole macro for each mistake in it */

/* What comes until the text stands at the end of it, or anywhere. */
static const char *read_until(const shell *s, const char *text) {
    static char output[MOST_SHOWN];
    size_t length = 0;
    *output = 0;
    while (!strstr(output, text)) {
        struct pollfd input = {.fd = s->from, .events = POLLIN};
        ssize_t got = poll(&input, 1, PATIENCE_MS) == 1 ? read(s->from, output + length, 1) : -1;
        if (got != 1 || length + 2 > sizeof output) fail_msg("'%s' did not come:\n%s", text, output);
        output[++length] = 0;
    }
    return output;
}

/* Times are another thing each time: "1.234 s" becomes "# s". */
static void hide_times(char *text) {
    char *out = text;
    while (*text) {
        char *end = text;
        while (isdigit((unsigned char)*end) || *end == '.') end++;
        if (end > text && strncmp(end, " s", 2) == 0 && memchr(text, '.', (size_t)(end - text))) {
            *out++ = '#';
            text = end;
        } else {
            *out++ = *text++;
        }
    }
    *out = 0;
}

/* Sends a line and gives what was written for it. The list of help ends where the next command may come. */
static const char *ask(const shell *s, const char *line) {
    static char answer[MOST_SHOWN];
    char both[1024];
    snprintf(both, sizeof both, "%s\nhelp\n", line);
    send_text(s, both);
    snprintf(answer, sizeof answer, "%s", read_until(s, "so does the end of the input\n"));
    char *list = strstr(answer, "  new [NAME]");
    assert_non_null(list);
    *list = 0;
    hide_times(answer);
    return answer;
}

static int finish(shell *s) {
    int how;
    close(s->to);
    char byte;
    while (read(s->from, &byte, 1) == 1) continue;
    close(s->from);
    assert_int_equal(waitpid(s->child, &how, 0), s->child);
    return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
}

static double value_after(const char *text, const char *label) {
    const char *at = strstr(text, label);
    if (!at) fail_msg("'%s' is not in:\n%s", label, text);
    return at ? strtod(at + strlen(label), NULL) : 0;
}

#define loaded_line "loaded main.c: compiled in # s, loaded in # s; new makes a run with it\n"
#define again_line "loaded main.c: it was compiled before, loaded in # s; new makes a run with it\n"
#define setup_line                                                                                                    \
    "Edited: 20 parameters in 4 arrays; RAdam(beta1 0.9, beta2 0.999, epsilon 1e-08), rate 0.001; 4 batches of 8, 4 " \
    "steps an epoch\n"

/* ---- edits ------------------------------------------------------------------------------------------------------ */

/* The whole of what a person sees, from the first compile to an edit and back. */
static void edits_in_one_process(void **state) {
    (void)state;
    shell s = start_with((const char *const[]){"shell", "main.c", "helper.c", "--stats=stats.json", NULL});
    assert_string_equal(ask(&s, "new"), setup_line "run 1 is a new Edited\n");
    const char *answer = ask(&s, "train 2 epochs");
    static const char compiled[] =
        "compiled gradient of Edited in # s (first program of its kind); 1 program, # s in all\n"
        "compiled optimizer of Edited in # s (first program of its kind); 2 programs, # s in all\n"
        "compiled evaluation of Edited in # s (first program of its kind); 3 programs, # s in all\n"
        "epoch  train loss   val first   val calls    val_loss  seconds\n    1      0.";
    assert_memory_equal(answer, compiled, strlen(compiled));
    assert_has(answer, "\n    2      0.");

    /* An edited helper in another file: the old run keeps its program and says so. */
    put_edited("helper.c", helper_source, "nt_tanh(x)", "nt_logistic(x)");
    static const char drift[] = loaded_line
        "Edited: the code has changed since this run was made. It goes on with what it was made with; a new run uses "
        "the new code. What differs:\n"
        "  gradient program: helper.c:3 in helper: tanh : (tensor<8x3xf32>) -> tensor<8x3xf32> -> logistic : "
        "(tensor<8x3xf32>) -> tensor<8x3xf32>\n"
        "  forward program: helper.c:3 in helper: tanh : (tensor<8x3xf32>) -> tensor<8x3xf32> -> logistic : "
        "(tensor<8x3xf32>) -> tensor<8x3xf32>\n"
        "epoch  train loss";
    answer = ask(&s, "train 1 epoch");
    assert_memory_equal(answer, drift, strlen(drift));
    assert_has_not(answer, "compiled gradient");
    assert_has(ask(&s, "drift"), "  gradient program: helper.c:3 in helper: tanh");

    /* A new one compiles exactly what moved, and the miss says what that was. */
    assert_string_equal(ask(&s, "new edited"), setup_line "run edited is a new Edited\n");
    answer = ask(&s, "train 1 epoch");
    static const char moved[] =
        "compiled gradient of Edited in # s (helper.c:3 in helper: tanh : (tensor<8x3xf32>) -> tensor<8x3xf32> -> "
        "logistic : (tensor<8x3xf32>) -> tensor<8x3xf32>); 4 programs, # s in all\n"
        "compiled evaluation of Edited in # s (helper.c:3 in helper: tanh : (tensor<8x3xf32>) -> tensor<8x3xf32> -> "
        "logistic : (tensor<8x3xf32>) -> tensor<8x3xf32>); 5 programs, # s in all\nepoch";
    assert_memory_equal(answer, moved, strlen(moved));
    assert_string_equal(ask(&s, "drift"), "nothing differs\n");

    /* A file that is written again as it was loads nothing; one that compiles to the same programs compiles none. */
    put_edited("helper.c", helper_source, "nt_tanh(x)", "nt_logistic(x)");
    assert_string_equal(ask(&s, "drift"), "nothing differs\n");
    put_edited("helper.c", helper_source, "return nt_mul(nt_tanh(x), 2);",
               "/* a\ncomment */ nt_tensor renamed = nt_logistic(x); return nt_mul(renamed, 2);");
    assert_string_equal(ask(&s, "drift"), loaded_line "nothing differs\n");
    assert_has(ask(&s, "new same"), "run same is a new Edited\n");
    assert_has_not(ask(&s, "train 1 epoch"), "compiled");
    assert_has(ask(&s, "cache"), "5 compiled in # s, 0 from the cache on disk in # s, 4 reused, 5 held\n  gradient of "
                                 "Edited, # s: first program");

    /* Back to the first content. */
    put_text("helper.c", helper_source);
    assert_has(ask(&s, "new back"), again_line, "run back is a new Edited\n");
    assert_has_not(ask(&s, "train 1 epoch"), "compiled");
    assert_has(ask(&s, "runs"), "     run     experiment  epoch  step\n     1       Edited      3      12\n",
               "  *  back    Edited      1      4\n");
    assert_int_equal(finish(&s), 0);

    static char stats[MOST_OUTPUT];
    read_output("stats.json", stats);
    assert_has(stats, "\"misses\": 5,", "\"live_count\": 0,");
}

/* Three edits in a row give three results, and static and thread-local counters begin anew each time. */
static void each_load_is_seen(void **state) {
    (void)state;
    static const char *const factors[] = {"2", "5", "9", "2"};
    double first[4];
    shell s = start_with(usual_words);
    for (size_t i = 0; i < 4; i++) {
        char edited[64];
        snprintf(edited, sizeof edited, "nt_tanh(x), %s", factors[i]);
        put_edited("helper.c", helper_source, "nt_tanh(x), 2", edited);
        ask(&s, "new");
        const char *answer = ask(&s, "validate");
        first[i] = value_after(answer, "val first ");
        assert_true(value_after(answer, "val calls ") == 11);
        assert_true(value_after(ask(&s, "validate"), "val calls ") == 22);
    }
    assert_true(first[0] != first[1] && first[1] != first[2] && first[0] != first[2] && first[0] == first[3]);
    /* The first run is still the first code, and its counter went on with nobody else's. */
    assert_string_equal(ask(&s, "use 1"), "");
    assert_true(value_after(ask(&s, "validate"), "val calls ") == 33);
    assert_int_equal(finish(&s), 0);
}

/* Messages of the compiler are shown, the old code stays, and the next edit that compiles is taken. */
static void broken_files_leave_the_old_code(void **state) {
    (void)state;
    shell s = start_with(usual_words);
    ask(&s, "new");
    double first = value_after(ask(&s, "validate"), "val first ");
    put_edited("helper.c", helper_source, "nt_tanh(x)", "nt_tanh(y)");
    const char *answer = ask(&s, "validate");
    assert_has(answer, "helper.c:3:", "undeclared",
               "nitro: the code that was loaded before is still used: compiling 'helper.c' failed");
    assert_true(value_after(answer, "val first ") == first);
    answer = ask(&s, "validate");
    assert_has(answer, "the files do not compile; the code that was loaded before is still used (reload tries again)");
    assert_has_not(answer, "undeclared");
    assert_has(ask(&s, "reload"), "undeclared");
    put_text("helper.c", helper_source);
    answer = ask(&s, "validate");
    assert_has_not(answer, "nitro:");
    assert_has_not(answer, "loaded");
    assert_string_equal(ask(&s, "reload"), "the files are those that are loaded\n");
    /* A file that the compiler read and that is gone. */
    put_text("size.h", "#define SIZE 3\n");
    put_edited("helper.c", helper_source, "2", "SIZE");
    assert_has(ask(&s, "drift"), "SIZE");
    put_edited("helper.c", helper_source, "#include <nitro.h>\n", "#include <nitro.h>\n#include \"size.h\"\n");
    assert_string_equal(ask(&s, "drift"), loaded_line "nothing differs\n");
    put_text("size.h", "#define SIZE 4 /* longer */\n");
    assert_string_equal(ask(&s, "drift"), loaded_line "nothing differs\n");
    assert_int_equal(unlink(scratch("size.h")), 0);
    assert_has(ask(&s, "drift"), "size.h: No such file", "nothing differs\n");
    assert_int_equal(finish(&s), 1);
}

/* Another layout under a run that lives; an experiment that is gone; one more. */
static void other_fields_and_experiments(void **state) {
    (void)state;
    shell s = start_with(usual_words);
    ask(&s, "new");
    put_edited("main.c", main_source, "GRAPH_CONST(int, hidden, 3, \"units\")",
               "GRAPH_CONST(int, hidden, 4, \"units\") GRAPH_CONST(double, depth, 1, \"\")");
    assert_has(ask(&s, "validate"),
               "  field hidden: default 3 -> 4; this run still uses 3\n"
               "  field depth (double): added, default 1; this run has no such field\n",
               "val first ");
    assert_has(ask(&s, "new --depth=2"), "run 2 is a new Edited\n");
    assert_has(ask(&s, "fields"), "depth   double  2      GraphConst");
    put_text("main.c", main_source);
    assert_has(ask(&s, "new --depth=2"),
               "nitro: there is no flag --depth; the fields of Edited, as the files define it "
               "now: --hidden, --batch\n");
    put_edited("main.c", main_source, "NT_EXPERIMENT(Edited, LIST)",
               "NT_EXPERIMENT(Other, LIST)\ntypedef Other Edited;\ntypedef Other_view Edited_view;");
    assert_has(ask(&s, "reload"), "error: "); /* NT_DEFINE still says Edited */
    static char other[1 << 14];
    snprintf(other, sizeof other, "%s", main_source);
    for (char *at; (at = strstr(other, "Edited"));) memcpy(at, "Differ", 6);
    put_text("main.c", other);
    assert_has(ask(&s, "new"), "run 3 is a new Differ\n");
    assert_has(ask(&s, "new --experiment=Edited"), "the files have no experiment of that name, they have: Differ");
    assert_has(ask(&s, "use 1"), "");
    assert_has(ask(&s, "validate"), "val first ");
    assert_string_equal(ask(&s, "drift"), "the files no longer define Edited; the run keeps the code it has\n");
    assert_has(ask(&s, "use 3"), "");
    assert_string_equal(ask(&s, "drift"), "nothing differs\n");
    assert_int_equal(finish(&s), 1);
}

/* Also one that was given, to the shell or to new: a run that lives has it. */
static void runs_that_live_have_folders_of_their_own(void **state) {
    (void)state;
    shell s = start_with((const char *const[]){"shell", "main.c", "helper.c", "--run-dir=given", NULL});
    for (int i = 0; i < 2; i++) {
        ask(&s, "new");
        assert_has(ask(&s, "train 1 step"), "train loss");
    }
    ask(&s, "new third --run-dir=given");
    assert_has(ask(&s, "train 1 step"), "train loss");
    ask(&s, "new --run-dir=other");
    assert_has(ask(&s, "train 1 step"), "train loss");
    assert_int_equal(finish(&s), 0);
    assert_int_equal(access("given/metrics.jsonl", F_OK) | access("given-2/metrics.jsonl", F_OK), 0);
    assert_int_equal(access("given-third/metrics.jsonl", F_OK) | access("other/metrics.jsonl", F_OK), 0);
}

/* A worker and a traced hook that call exit: no success, in a command and at the prompt. */
static void exit_is_no_success(void **state) {
    (void)state;
    put_edited("helper.c", helper_source, "    return nt_mul", "    exit(0);\n    return nt_mul");
    static char edited[MOST_OUTPUT];
    read_output("helper.c", edited);
    put_edited("helper.c", edited, "#include <nitro.h>\n", "#include <nitro.h>\n#include <stdlib.h>\n");
    const ended *e = nitro("train", "main.c", "helper.c");
    assert_int_equal(e->code, 1);
    assert_has(e->err, "nitro: the code of the experiment called exit");
    shell s = start_with(usual_words);
    send_text(&s, "new\n");
    read_until(&s, "called exit");
    assert_int_equal(finish(&s), 1);

    put_text("helper.c", helper_source);
    put_edited("main.c", main_source, "static int calls;", "exit(0); static int calls;");
    read_output("main.c", edited);
    put_edited("main.c", edited, "#include <nitro.h>\n", "#include <nitro.h>\n#include <stdlib.h>\n");
    e = nitro("train", "main.c", "helper.c");
    assert_int_equal(e->code, 1);
    assert_has(e->err, "nitro: the code of the experiment called exit");

    put_edited("main.c", main_source, "static nt_status build_data(const Edited *e, nt_data *data) {\n",
               "#include <stdlib.h>\n"
               "static nt_status leave(void *context, nt_request *request) { exit(0); }\n"
               "static nt_status build_data(const Edited *e, nt_data *data) {\n"
               "    static const nt_source_field fields[] = {{\"x\", NT_F32, {1, {3}}}, {\"label\", NT_I32, {0}}};\n"
               "    nt_split(data, \"train\", .batch = e->batch, .workers = 2);\n"
               "    nt_split_source(data, \"train\", (nt_source){.rows = 64, .fields = fields, .field_count = 2,\n"
               "                                               .read = leave});\n"
               "    return nt_data_status(data);\n");
    e = nitro("train", "main.c", "helper.c");
    assert_int_equal(e->code, 1);
    assert_has(e->err, "nitro: the code of the experiment called exit");
}

/* ---- commands --------------------------------------------------------------------------------------------------- */

static void wrong_commands_are_explained(void **state) {
    (void)state;
    shell s = start_with((const char *const[]){"shell", "main.c", "helper.c", "--hidden=5", NULL});
    assert_string_equal(ask(&s, "train"), "nitro: train needs a run, and there is none; new makes one\n");
    assert_string_equal(ask(&s, "trian"),
                        "nitro: there is no command 'trian' (did you mean train?); help lists the commands\n");
    assert_string_equal(ask(&s, "use"), "nitro: use is written: use NAME\n");
    assert_string_equal(ask(&s, "use 7"), "nitro: there is no run 7; runs lists them\n");
    assert_string_equal(
        ask(&s, "new --hiden=3"),
        "nitro: there is no flag --hiden (did you mean --hidden?); the fields of Edited, as the files define it "
        "now: --hidden, --batch\n");
    assert_string_equal(ask(&s, "new --hidden=x"), "nitro: hidden (int): 'x' is not a whole number; write digits, for "
                                                   "example 256\n");
    assert_string_equal(ask(&s, "new --cflags=-O0"),
                        "nitro: --cflags is a flag of nitro train and not of this command: leave it out\n");
    assert_string_equal(ask(&s, "new a b"),
                        "nitro: new takes one name, and 'b' was given too; flags are written --name=value\n");
    static const char *const no_names[] = {"", "../../evil", ".", ".x", "a/b", "a b", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof no_names / sizeof *no_names; i++) {
        char line[32], part[32];
        snprintf(line, sizeof line, "new '%s'", no_names[i]);
        snprintf(part, sizeof part, "nitro: '%s' is no name for a run", no_names[i]);
        assert_has(ask(&s, line), part, "letters, digits, '.', '-' and '_'");
    }
    assert_has(ask(&s, "new a-_.9"), "run a-_.9 is a new Edited\n");
    assert_string_equal(ask(&s, "new a-_.9"), "nitro: there is a run a-_.9 already; give another name, or free it\n");
    assert_has(ask(&s, "fields"), "hidden  int   5      GraphConst  units\n");
    assert_string_equal(ask(&s, "train x"), "nitro: 'x epochs' is no amount of training: write train, train 3 epochs "
                                            "or train 100 steps\n");
    assert_has(ask(&s, "evaluate nosuch"), "nitro: experiment 'Edited' has no split 'nosuch'; its splits are: ");
    assert_has(ask(&s, "load"), "nitro: ", "parameters.safetensors");
    assert_has(ask(&s, "use \"open"), "nitro: the command");
    assert_string_equal(ask(&s, "# nothing"), "");
    assert_string_equal(ask(&s, "   "), "");
    assert_has(ask(&s, "train 3 steps"), "compiled gradient of Edited");
    assert_string_equal(ask(&s, "save p.safetensors"), "parameters in p.safetensors\n");
    assert_string_equal(ask(&s, "load p.safetensors"), "");
    assert_string_equal(ask(&s, "save"), "parameters in runs/Edited/parameters.safetensors\n");
    assert_has(ask(&s, "new second"), "run second");
    assert_string_equal(ask(&s, "save"), "parameters in runs/Edited-second/parameters.safetensors\n");
    assert_string_equal(ask(&s, "free"), "");
    assert_string_equal(ask(&s, "free all"), "");
    assert_string_equal(ask(&s, "runs"), "    run  experiment  epoch  step\n");
    send_text(&s, "quit\n");
    assert_int_equal(finish(&s), 1); /* a command failed */
}

/* ---- saving ----------------------------------------------------------------------------------------------------- */

static void assert_same_file(const char *a, const char *b, bool wanted) {
    static char first[MOST_OUTPUT], second[MOST_OUTPUT];
    read_output(a, first);
    read_output(b, second);
    assert_int_equal(memcmp(first, second, sizeof first) == 0, wanted);
}

#define KEPT "runs/Edited/parameters.safetensors"

/* What was trained is not lost to initial values, to a second save or to another run. */
static void a_save_loses_nothing(void **state) {
    (void)state;
    unlink(KEPT);
    unlink(KEPT ".previous");
    shell s = start_with(usual_words);
    ask(&s, "new one");
    ask(&s, "train 2 steps");
    assert_string_equal(ask(&s, "save"), "parameters in " KEPT "\n");
    assert_string_equal(ask(&s, "save trained"), "parameters in trained\n");
    assert_int_equal(access(KEPT ".previous", F_OK), -1);
    ask(&s, "train 2 steps");
    assert_string_equal(ask(&s, "save"), "parameters in " KEPT "\n");
    assert_same_file(KEPT ".previous", "trained", true);
    assert_same_file(KEPT, "trained", false);
    ask(&s, "save trained-more");
    ask(&s, "new two");
    ask(&s, "train 1 steps");
    assert_has(ask(&s, "save " KEPT), "cannot write '" KEPT "': the folder 'runs/Edited' is in use by another run");
    ask(&s, "free one");
    ask(&s, "new three");
    assert_has(ask(&s, "save " KEPT), "is there already, and this run has only the parameters that it was drawn with");
    assert_has(ask(&s, "save no-folder/file"), "there is no folder 'no-folder'");
    assert_same_file(KEPT, "trained-more", true);
    assert_string_equal(ask(&s, "load trained"), "");
    assert_string_equal(ask(&s, "save " KEPT), "parameters in " KEPT "\n");
    assert_same_file(KEPT, "trained", true);
    assert_same_file(KEPT ".previous", "trained-more", true);
    assert_string_equal(ask(&s, "save /dev/null"), "parameters in /dev/null\n");
    assert_int_equal(access("/dev/null.previous", F_OK), -1);
    finish(&s);
}

/* The loss of the only step is finite, its gradient is not. */
static void parameters_that_are_not_finite_are_not_saved(void **state) {
    (void)state;
    static char kept_bytes[MOST_OUTPUT], after_bytes[MOST_OUTPUT];
    const ended *e = nitro("train", "main.c", "helper.c", "--max-steps=1", "--run-dir=finite");
    if (e->code != 0) fail_msg("%s", e->err);
    read_output("finite/parameters.safetensors", kept_bytes);
    put_edited("main.c", main_source, "return nt_cross_entropy(logits, nt_field(batch, \"label\"));",
               "return nt_add(nt_cross_entropy(logits, nt_field(batch, \"label\")), "
               "nt_mean(nt_sqrt(nt_mul(logits, 0.0))));");
    e = nitro("train", "main.c", "helper.c", "--max-steps=1", "--run-dir=finite");
    assert_int_equal(e->code, 1);
    assert_has(e->err, "9 of the 9 elements of parameter 'hidden.weight' are infinite or not a number");
    read_output("finite/parameters.safetensors", after_bytes);
    assert_memory_equal(kept_bytes, after_bytes, sizeof kept_bytes);
    assert_int_equal(access(scratch("finite/parameters.safetensors.new"), F_OK), -1);
    assert_int_equal(access(scratch("finite/parameters.safetensors.previous"), F_OK), -1);
}

/* The initial values are no result. */
static void nothing_to_train_is_said(void **state) {
    (void)state;
    const ended *e = nitro("train", "main.c", "helper.c", "--max-epochs=0", "--run-dir=nothing");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "nothing was trained, since max_epochs or max_steps is 0; nothing is saved\n");
    assert_int_equal(access(scratch("nothing/parameters.safetensors"), F_OK), -1);
    shell s = start_with(usual_words);
    ask(&s, "new --max-steps=3");
    assert_has_not(ask(&s, "train"), "nothing to train");
    assert_string_equal(ask(&s, "train"),
                        "nothing to train: max_epochs or max_steps is reached at step 3; train 1 epoch "
                        "trains on\n");
    assert_int_equal(finish(&s), 0);
}

/* Device fields of a live run, presets, predictions: the whole of what is printed. */
static void fields_presets_and_predictions(void **state) {
    (void)state;
    static char first[1 << 14];
    snprintf(first, sizeof first, "%s", main_source);
    put_edited("main.c", first, "FIELD(int, batch, 8, \"\")",
               "FIELD(int, batch, 8, \"\") DEVICE(float, scale, 1, \"of the loss\")");
    static char second[MOST_OUTPUT];
    read_output("main.c", second);
    put_edited("main.c", second, "return nt_cross_entropy(logits, nt_field(batch, \"label\"));",
               "return nt_mul(nt_cross_entropy(logits, nt_field(batch, \"label\")), e->scale);");
    read_output("main.c", second);
    put_edited("main.c", second, "NT_DEFINE(Edited, LIST,",
               "static void wide(Edited *e) { e->hidden = 5; e->scale = 0.5f; }\n"
               "NT_DEFINE(Edited, LIST, .presets = NT_PRESETS(Edited, {\"wide\", \"\", wide}),");
    shell s = start_with(usual_words);
    assert_string_equal(ask(&s, "set scale=2"), "nitro: set needs a run, and there is none; new makes one\n");
    assert_has(ask(&s, "new --preset=wide --batch=4"), "run 1 is a new Edited\n");
    assert_string_equal(ask(&s, "fields"), "  field   type   value  marker      meaning\n"
                                           "  hidden  int    5      GraphConst  units\n"
                                           "  batch   int    4      Host\n"
                                           "  scale   float  0.5    Device      of the loss\n");
    assert_string_equal(ask(&s, "set scale=0.25"), "scale = 0.25\n");
    assert_string_equal(ask(&s, "get scale"), "scale = 0.25\n");
    assert_has(ask(&s, "fields"), "scale   float  0.25   Device");
    assert_string_equal(ask(&s, "get hidden"), "hidden = 5\n");
    assert_string_equal(ask(&s, "get nosuch"),
                        "nitro: nt_get_device: Edited has no field 'nosuch'; it has: hidden, batch, scale\n");
    assert_string_equal(ask(&s, "set batch=2"),
                        "nitro: nt_set_device: field batch of Edited is Host: no program sees it, so a live run has "
                        "nothing to set. Make a new run with another value\n");
    assert_has(ask(&s, "set hidden=2"), "nitro: nt_set_device: field hidden of Edited is GraphConst",
               "Make a new run, which uses again every program");
    assert_has(ask(&s, "set scale=x"), "nitro: scale (float): 'x' is no");
    assert_string_equal(ask(&s, "set scale"),
                        "nitro: 'scale' sets nothing: write set FIELD=VALUE, of an array set FIELD=FILE.npy\n");
    assert_string_equal(ask(&s, "set"), "nitro: set is written: set FIELD=VALUE\n");
    assert_has(ask(&s, "new --preset=narrow"), "nitro: experiment Edited has no preset 'narrow'; it has: wide");

    static const char points[] = "import sys; sys.path.insert(0, sys.argv[1]); import numpy\n"
                                 "numpy.save('x.npy', numpy.ones((5, 3), 'float32'))\n";
    assert_int_equal(run_words((const char *const[]){"python3", "-c", points, getenv("NT_PYTHONPATH"), NULL})->code, 0);
    assert_string_equal(ask(&s, "predict --input=x.npy --out=y.npy"),
                        "nitro: run 1 has only the parameters that it was drawn with: train it, or load some\n");
    ask(&s, "train 1 epoch");
    assert_string_equal(ask(&s, "predict --input=x.npy --out=y.npy"),
                        "compiled forward of Edited in # s (first program of its kind); 4 programs, # s in all\n"
                        "predictions f32[5,2] in y.npy\n");
    assert_string_equal(ask(&s, "predict --input=x.npy --out=y.npy"), "predictions f32[5,2] in y.npy\n");
    assert_has(ask(&s, "predict --input=x.npy"), "nitro: no --out was given");
    assert_has(ask(&s, "predict --out=y.npy"), "nitro: no array was given");
    assert_string_equal(ask(&s, "predict x.npy"), "nitro: predict takes flags, and 'x.npy' is none: write "
                                                  "--input=x.npy\n");
    assert_string_equal(ask(&s, "predict --inptu=x.npy"), "nitro: there is no flag --inptu (did you mean --input?)\n");
    assert_int_equal(finish(&s), 1);
    assert_int_equal(access(scratch("y.npy"), F_OK), 0);
    const ended *e = nitro("shell", "main.c", "helper.c", "--preset=narrow");
    assert_int_equal(e->code, 2);
    assert_has(e->err, "has no preset 'narrow'");
}

static void wrong_use_ends_before_the_prompt(void **state) {
    (void)state;
    const ended *e = nitro("shell");
    assert_int_equal(e->code, 2);
    assert_has(e->err, "no file was given: write nitro shell FILE.c");
    e = nitro("shell", "main.c", "helper.c", "--hiden=3");
    assert_int_equal(e->code, 2);
    assert_has(e->err, "there is no flag --hiden (did you mean --hidden?)");
    e = nitro("shell", "main.c");
    assert_int_equal(e->code, 1);
    assert_has(e->err, "undefined symbol: helper");
    e = nitro("train", "main.c", "helper.c", "--watch");
    assert_int_equal(e->code, 2);
    assert_has(e->err, "--watch is a flag of nitro shell");
    assert_has(nitro("shell", "--help")->out, "usage: nitro shell FILE.c", "--watch", "--max-epochs");
}

/* ---- interrupts ------------------------------------------------------------------------------------------------- */

static void an_interrupt_ends_the_command_only(void **state) {
    (void)state;
    shell s = start_with(usual_words);
    ask(&s, "new");
    send_text(&s, "train 1000000 epochs\n");
    read_until(&s, "\n    3 ");
    kill(s.child, SIGINT);
    read_until(&s, "nitro: stopping after this step; Ctrl-\\ ends the process at once\n");
    read_until(&s, "nitro: stopped as asked at step ");
    assert_has(ask(&s, "validate"), "val first ");
    usleep(500000); /* what comes while a command ends belongs to that command */
    kill(s.child, SIGINT);
    assert_int_equal(finish(&s), 130);

    s = start_with(usual_words);
    ask(&s, "new");
    send_text(&s, "train 1000000 epochs\n");
    read_until(&s, "\n    3 ");
    kill(s.child, SIGTERM);
    assert_int_equal(finish(&s), 130);
}

/* ---- at a terminal ---------------------------------------------------------------------------------------------- */

static shell start_at_terminal(const char *const *words) {
    int terminal;
    struct winsize size = {.ws_row = 24, .ws_col = 200};
    fflush(NULL);
    pid_t child = forkpty(&terminal, NULL, NULL, &size);
    assert_true(child >= 0);
    if (child == 0) {
        setenv("TERM", "dumb", 1);
        become_shell(words);
    }
    return (shell){child, terminal, terminal};
}

static void a_terminal_has_a_prompt_and_watches(void **state) {
    (void)state;
    const char *editing = getenv("NT_EDITING");
    bool edits = editing && strcmp(editing, "1") == 0;
    shell s = start_at_terminal((const char *const[]){"shell", "main.c", "helper.c", "--watch", NULL});
    if (!edits) read_until(&s, "built without libedit");
    read_until(&s, "nitro> ");
    send_text(&s, edits ? "hel\t\n" : "help\n");
    read_until(&s, "so does the end of the input");
    read_until(&s, "nitro> ");
    send_text(&s, edits ? "new --hid\t7 --log=csv,js\t\n" : "new --hidden=7 --log=csv,jsonl\n");
    read_until(&s, "run 1 is a new Edited");
    read_until(&s, "nitro> ");
    send_text(&s, edits ? "ge\thid\t\n" : "get hidden\n");
    read_until(&s, "hidden = 7");
    read_until(&s, "nitro> ");
    /* A line is given up, and the prompt comes back. */
    send_text(&s, "train 100\x03");
    read_until(&s, "nitro> ");
    /* Nobody types: code that changes is loaded at once. */
    put_edited("helper.c", helper_source, "nt_tanh(x)", "nt_tanh(nt_exp(x))");
    read_until(&s, "loaded main.c: compiled in ");
    put_edited("helper.c", helper_source, "nt_tanh(x)", "nt_tanh(y)");
    read_until(&s, "the code that was loaded before is still used: compiling 'helper.c' failed");
    put_text("helper.c", helper_source);
    read_until(&s, "loaded main.c: it was compiled before");
    /* Ctrl-C in a command. */
    send_text(&s, "train 1000000 epochs\n");
    read_until(&s, "epoch  train loss");
    send_text(&s, "\x03");
    read_until(&s, "nitro: stopped as asked at step ");
    read_until(&s, "nitro> ");
    send_text(&s, "quit\n");
    int how;
    char byte;
    while (read(s.from, &byte, 1) == 1) continue;
    close(s.from);
    assert_int_equal(waitpid(s.child, &how, 0), s.child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    if (!edits) return;
    static char history[MOST_OUTPUT];
    read_output("cache/nitro/shell-history", history);
    assert_has(history, "help", "new\\040--hidden=7", "quit");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(edits_in_one_process, start_afresh),
        cmocka_unit_test_setup(each_load_is_seen, start_afresh),
        cmocka_unit_test_setup(broken_files_leave_the_old_code, start_afresh),
        cmocka_unit_test_setup(other_fields_and_experiments, start_afresh),
        cmocka_unit_test_setup(runs_that_live_have_folders_of_their_own, start_afresh),
        cmocka_unit_test_setup(exit_is_no_success, start_afresh),
        cmocka_unit_test_setup(wrong_commands_are_explained, start_afresh),
        cmocka_unit_test_setup(a_save_loses_nothing, start_afresh),
        cmocka_unit_test_setup(parameters_that_are_not_finite_are_not_saved, start_afresh),
        cmocka_unit_test_setup(nothing_to_train_is_said, start_afresh),
        cmocka_unit_test_setup(fields_presets_and_predictions, start_afresh),
        cmocka_unit_test_setup(wrong_use_ends_before_the_prompt, start_afresh),
        cmocka_unit_test_setup(an_interrupt_ends_the_command_only, start_afresh),
        cmocka_unit_test_setup(a_terminal_has_a_prompt_and_watches, start_afresh),
    };
    return cmocka_run_group_tests_name("shell", tests, command_make, scratch_remove);
}
