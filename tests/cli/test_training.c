/* Training through the command, on real data: what a user types, sees and finds afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>

#include "../base/scratch.h"
#include "base/files.h"
#include "format/format.h"

static char nitro[SCRATCH_PATH], example[SCRATCH_PATH];

/* Starts the command in the scratch folder with its output in the files out and err there. */
static pid_t start(const char *const *words) {
    const char *arguments[32] = {nitro};
    int count = 1;
    while (*words && count < 31) arguments[count++] = *words++;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) return child;
    if (chdir(scratch_folder) != 0) _exit(99);
    dup2(open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
    dup2(open("err", O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
    execv(nitro, (char *const *)arguments);
    _exit(98);
}

static int finish(pid_t child) {
    int state;
    assert_int_equal(waitpid(child, &state, 0), child);
    assert_true(WIFEXITED(state));
    return WEXITSTATUS(state);
}

static char *contents(const char *name) {
    char *text = NULL;
    size_t length;
    if (nt__read_file(scratch(name), &text, &length) != NT_OK) fail_msg("%s", nt_error_message());
    assert_non_null(text);
    return text;
}

#define run(...) run_at((const char *const[]){__VA_ARGS__, NULL}, __LINE__)
static void run_at(const char *const *words, int line) {
    int code = finish(start(words));
    if (code == 0) return;
    print_error("line %d: exit %d\n%s\n", line, code, contents("err"));
    fail();
}

/* The number after a text of the output, such as "test accuracy ". */
static double number_after(const char *text, const char *label) {
    const char *at = strstr(text, label);
    if (!at) fail_msg("'%s' is not in:\n%s", label, text);
    return at ? strtod(at + strlen(label), NULL) : NAN;
}

static json_int_t counter(json_t *root, const char *first, const char *second, const char *third) {
    json_t *object = json_object_get(json_object_get(root, first), second);
    json_t *value = third ? json_object_get(object, third) : object;
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

/* The safetensors package of Python reads the parameters: names, shapes, types, finite values. */
static void read_in_python(void) {
    const char *program = "import sys; sys.path.insert(0, sys.argv[1])\n"
                          "from safetensors.numpy import load_file\n"
                          "arrays = load_file(sys.argv[2])\n"
                          "assert sorted(arrays) == ['hidden1.bias', 'hidden1.weight', 'hidden2.bias',"
                          " 'hidden2.weight', 'logits.bias', 'logits.weight'], sorted(arrays)\n"
                          "assert arrays['hidden1.weight'].shape == (784, 256)\n"
                          "assert all(a.dtype == 'float32' and abs(a).max() < 100 for a in arrays.values())\n";
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execlp("python3", "python3", "-c", program, getenv("NT_PYTHONPATH"),
               scratch("runs/Fashion/parameters.safetensors"), (char *)NULL);
        _exit(98);
    }
    assert_int_equal(finish(child), 0);
}

static void the_example_reaches_its_accuracy(void **state) {
    (void)state;
    run("train", example, "--max-epochs=5", "--stats", "stats.json");
    char *out = contents("out");
    double accuracy = number_after(out, "test accuracy ");
    assert_true(accuracy >= 0.86);
    nt__free(out);

    json_error_t error;
    json_t *stats = json_load_file(scratch("stats.json"), 0, &error);
    assert_non_null(stats);
    /* Gradient and optimizer; evaluations of full batches, and of the last ones of val and test. */
    assert_int_equal(counter(stats, "cache", "misses", NULL), 5);
    assert_int_equal(counter(stats, "cache", "entries", NULL), 5);
    assert_int_equal(json_array_size(json_object_get(json_object_get(stats, "cache"), "reports")), 5);
    assert_int_equal(counter(stats, "buffers", "batch", "live_count"), 0);
    assert_int_equal(counter(stats, "buffers", "staged_batch", "live_count"), 0);
    assert_true(counter(stats, "buffers", "parameters", "peak_bytes") >= 235146 * 4);
    assert_true(counter(stats, "transfers", "upload", "count") >= 5 * 429 * 2);
    json_decref(stats);

    nt__safetensors file;
    assert_int_equal(nt__safetensors_read(scratch("runs/Fashion/parameters.safetensors"), &file), NT_OK);
    assert_int_equal(file.count, 6);
    const nt__named_array *weight = nt__safetensors_find(&file, "hidden1.weight");
    assert_non_null(weight);
    assert_true(nt_shape_equal(weight->type.shape, nt_dims(784, 256)));
    nt__safetensors_free(&file);

    read_in_python();

    char *log = contents("runs/Fashion/metrics.jsonl");
    int lines = 0;
    for (const char *at = log; (at = strstr(at, "\"context\":\"train\"")); at++) lines++;
    assert_int_equal(lines, 5 * 429);
    nt__free(log);

    run("evaluate", example);
    out = contents("out");
    assert_true(number_after(out, "test accuracy ") == accuracy);
    nt__free(out);
}

static void max_steps_and_run_dir(void **state) {
    (void)state;
    run("train", example, "--max-steps=3", "--run-dir", "elsewhere", "--seed=1", "--learning-rate=0.01", "--quiet");
    char *log = contents("elsewhere/metrics.jsonl"), *err = contents("err");
    assert_non_null(strstr(log, "\"step\":3"));
    assert_null(strstr(log, "\"step\":4"));
    assert_non_null(strstr(log, "\"learning_rate\":0.01"));
    assert_non_null(strstr(log, "{\"key\":\"binding_report\",\"value\":\"data\\n  train: 429 batches"));
    assert_non_null(strstr(log, "  learning_rate: 0.01 [option]"));
    assert_null(strstr(err, "compiled"));
    nt__free(log);
    nt__free(err);
}

/* On the example itself. */
static void schedules_and_transfers(void **state) {
    (void)state;
    run("train", example, "--max-steps=3", "--run-dir", "scheduled", "--trace-transfers",
        "--schedule=learning_rate=cosine:1e-3:0", "--schedule", "smoothing=linear:0.1:0");
    char *err = contents("err");
    assert_non_null(strstr(err, "rate cosine(0.001 0)"));
    assert_non_null(strstr(err, "transfers of the setup: up: device field smoothing 4 B, parameters"));
    assert_non_null(strstr(err,
                           "transfers of step 2: up: batch batch.image 100352 B, batch batch.label 128 B, device field "
                           "smoothing 4 B, rate learning_rate.default 4 B; down: output loss 4 B\n"));
    assert_null(strstr(err, "transfers of step 4"));
    nt__free(err);
}

/* Before a run, and without an engine: every step in the file, the picture, where things come from. */
static void a_schedule_is_shown_before_a_run(void **state) {
    (void)state;
    char *plugin = nt__strdup(getenv("NITRO_PLUGIN"));
    assert_int_equal(setenv("NITRO_PLUGIN", "/no/such/plugin.so", 1), 0);
    run("schedule", example, "--schedule=learning_rate=warmup:200:cosine:2e-3:0", "--schedule=smoothing=constant:0.5",
        "--out", "steps.csv");
    char *out = contents("out"), *csv = contents("steps.csv");
    assert_non_null(strstr(out, "learning_rate: warmup(200) then cosine(0.002 0) [option], 2145 steps\n"));
    assert_non_null(strstr(out, "  1     1e-05\n"));
    assert_non_null(strstr(out, "\u2588"));
    assert_true(strncmp(csv, "step,learning_rate,smoothing\n1,1.0000000000000001e-05,0.5\n", 55) == 0);
    size_t lines = 0;
    for (const char *at = csv; (at = strchr(at, '\n')); at++) lines++;
    assert_int_equal(lines, 1 + 5 * 429);
    nt__free(csv);
    nt__free(out);
    run("schedule", example, "--resume", "--restore-best", "--no-cache", "--quiet", "--trace-transfers",
        "--gradient-norm", "--histograms", "--log=tensorboard", "--compile-option=a=1", "--no-checkpoint");
    out = contents("out");
    assert_non_null(strstr(out, "Fashion has no schedule"));
    nt__free(out);
    run("help", example, "--resolved", "--schedule=learning_rate=cosine:1e-3:0", "--seed=4", "--weights=absent",
        "--weight-map=a=b", "--restore-optimizer", "--quiet");
    out = contents("out");
    assert_non_null(strstr(out, "  train: 429 batches of 128, 55000 rows, of which drop_last drops 88; 1 worker"));
    assert_non_null(strstr(out, "  seed: 4 [option]\n  max_epochs: 5 [field]\n  accum: 1 [default]\n"));
    assert_non_null(strstr(out, "  gradient clip: none [default]\n"));
    assert_non_null(strstr(out,
                           "  learning_rate: cosine(0.001 0); sets learning_rate of all groups, each ratio applied "
                           "[option]\n"));
    assert_non_null(strstr(out, "  default: rate by schedule 'learning_rate', ratio 1.00, rule RAdam, 235,146 "
                                "parameters\n"));
    nt__free(out);
    assert_int_equal(finish(start((const char *const[]){"help", example, "--seed=4", NULL})), 2);
    char *err = contents("err");
    assert_non_null(strstr(err, "--seed goes with --resolved"));
    nt__free(err);
    assert_int_equal(finish(start((const char *const[]){"help", example, "--no-checkpoint", NULL})), 2);
    err = contents("err");
    assert_non_null(strstr(err, "--no-checkpoint goes with --resolved"));
    nt__free(err);
    assert_int_equal(setenv("NITRO_PLUGIN", plugin, 1), 0);
    nt__free(plugin);
}

/* The same way, without an engine: what a flag makes of the model. */
static void a_summary_is_shown_before_a_run(void **state) {
    (void)state;
    char *plugin = nt__strdup(getenv("NITRO_PLUGIN"));
    assert_int_equal(setenv("NITRO_PLUGIN", "/no/such/plugin.so", 1), 0);
    run("summary", example, "--hidden=512");
    char *out = contents("out");
    assert_string_equal(out, "Fashion\n"
                             "parameters\n"
                             "  path            shape      type    count      bytes  group\n"
                             "  hidden1.weight  [784,512]  f32   401,408  1,605,632  default\n"
                             "  hidden1.bias    [512]      f32       512      2,048  default\n"
                             "  hidden2.weight  [512,256]  f32   131,072    524,288  default\n"
                             "  hidden2.bias    [256]      f32       256      1,024  default\n"
                             "  logits.weight   [256,10]   f32     2,560     10,240  default\n"
                             "  logits.bias     [10]       f32        10         40  default\n"
                             "  total           6 arrays         535,818  2,143,272\n");
    nt__free(out);
    run("summary", example, "--compute-dtype=bf16");
    out = contents("out");
    assert_memory_equal(out, "Fashion, layers compute in bf16\n", 32);
    nt__free(out);
    assert_int_equal(setenv("NITRO_PLUGIN", plugin, 1), 0);
    nt__free(plugin);
}

/* A preset is where the fields start; flags win over it, and the log has its name. */
static void a_preset_sets_fields_and_flags_win(void **state) {
    (void)state;
    char *fashion = NULL;
    size_t length;
    assert_int_equal(nt__read_file(example, &fashion, &length), NT_OK);
    char *definition = strstr(fashion, "NT_DEFINE(");
    assert_non_null(definition);
    *definition = 0;
    char *text =
        nt__sprintf("%sstatic void small(Fashion *e) { e->hidden = 16; e->batch = 250; }\n"
                    "NT_DEFINE(Fashion, FASHION, .build_data = build_data, .forward = forward, .loss = loss,\n"
                    "          .metrics = metrics, .presets = NT_PRESETS(Fashion, {\"small\", \"\", small}));\n",
                    fashion);
    assert_non_null(text);
    scratch_put("presets.c", text, strlen(text));
    nt__free(text);
    nt__free(fashion);
    run("train", "presets.c", "--preset=small", "--batch=500", "--max-steps=2", "--run-dir=preset", "--quiet");
    char *log = contents("preset/metrics.jsonl");
    *strchr(log, '\n') = 0;
    assert_non_null(strstr(log, "\"hidden\":16"));
    assert_non_null(strstr(log, "\"batch\":500"));
    assert_non_null(strstr(log, "\"preset\":\"small\""));
    nt__free(log);
    run("evaluate", "presets.c", "--preset=small", "--split=val", "--run-dir=preset");
    char *out = contents("out");
    assert_true(isfinite(number_after(out, "val accuracy ")));
    nt__free(out);
}

static bool has_trained(void) {
    char *text;
    size_t length;
    if (nt__read_file(scratch("runs/Fashion/metrics.jsonl"), &text, &length) != NT_OK) return false;
    bool trained = strstr(text, "\"step\":20}") != NULL;
    nt__free(text);
    return trained;
}

static void one_interrupt_ends_at_the_next_step(void **state) {
    (void)state;
    unlink(scratch("runs/Fashion/metrics.jsonl"));
    unlink(scratch("runs/Fashion/parameters.safetensors"));
    pid_t child = start((const char *const[]){"train", example, "--max-epochs=1000", NULL});
    for (int tries = 0; !has_trained(); tries++) {
        if (tries == 3000) {
            kill(child, SIGKILL);
            fail_msg("no step in 30 s:\n%s", contents("err"));
        }
        usleep(10000);
    }
    kill(child, SIGINT);
    assert_int_equal(finish(child), 130);
    nt__safetensors file;
    assert_int_equal(nt__safetensors_read(scratch("runs/Fashion/parameters.safetensors"), &file), NT_OK);
    nt__safetensors_free(&file);
    char *log = contents("runs/Fashion/metrics.jsonl");
    assert_non_null(strstr(log, "\"status\":\"requested\""));
    nt__free(log);
}

/* A reader that goes away does not end the run, and what was learned before is kept beside. */
static void a_closed_pipe_does_not_end_the_run(void **state) {
    (void)state;
    run("train", example, "--max-steps=2", "--run-dir", "piped", "--quiet");
    char *before = contents("piped/parameters.safetensors"), command[4 * SCRATCH_PATH];
    snprintf(
        command, sizeof command,
        "cd '%s' && { '%s' train '%s' --max-epochs=2 --max-steps=600 --run-dir=piped --quiet; echo $? >code; } | true",
        scratch_folder, nitro, example);
    assert_int_equal(system(command), 0);
    char *log = contents("piped/metrics.jsonl"), *kept = contents("piped/parameters.safetensors.previous");
    assert_non_null(strstr(log, "\"step\":600"));
    assert_memory_equal(before, kept, 64);
    char *code = contents("code");
    assert_string_equal(code, "1\n"); /* the output was lost, and that is said */
    nt__free(before);
    nt__free(log);
    nt__free(kept);
    nt__free(code);
}

/* The new file cannot be written, for a folder has its name: the former one stays where it is. */
static void a_save_that_fails_changes_nothing(void **state) {
    (void)state;
    run("train", example, "--max-steps=2", "--run-dir", "kept", "--quiet");
    assert_int_equal(mkdir(scratch("kept/parameters.safetensors.new"), 0755), 0);
    char *before = contents("kept/parameters.safetensors");
    const char *const again[] = {"train", example, "--max-steps=3", "--run-dir", "kept", "--quiet", NULL};
    assert_int_equal(finish(start(again)), 1);
    char *after = contents("kept/parameters.safetensors"), *err = contents("err");
    assert_memory_equal(before, after, 4096);
    assert_int_equal(access(scratch("kept/parameters.safetensors.previous"), F_OK), -1);
    assert_non_null(strstr(err, "parameters.safetensors.new"));
    nt__free(before);
    nt__free(after);
    nt__free(err);
}

/* The parameters in a folder of runs: all differ from those in another one. */
static void assert_all_moved(const char *from, const char *to, size_t count) {
    nt__safetensors before, after;
    assert_int_equal(nt__safetensors_read(scratch(from), &before), NT_OK);
    assert_int_equal(nt__safetensors_read(scratch(to), &after), NT_OK);
    assert_int_equal(before.count, count);
    for (size_t i = 0; i < before.count; i++) {
        const nt__named_array *now = nt__safetensors_find(&after, before.arrays[i].name);
        size_t bytes;
        assert_non_null(now);
        assert_true(nt__type_bytes(now->type, &bytes));
        if (memcmp(before.arrays[i].data, now->data, bytes) == 0) fail_msg("%s did not move", before.arrays[i].name);
    }
    nt__safetensors_free(&before);
    nt__safetensors_free(&after);
}

/* Two networks, two losses, two optimizers, and a loss with a gradient in it; then images from noise. */
static void the_adversarial_example_trains(void **state) {
    (void)state;
    char gan[SCRATCH_PATH], input[SCRATCH_PATH];
    snprintf(gan, sizeof gan, "%s/../examples/gan.c", getenv("NT_TESTS"));
    run("train", gan, "--hidden=32", "--r1", "--max-steps=1", "--run-dir", "one", "--quiet");
    run("train", gan, "--hidden=32", "--r1", "--max-steps=4", "--run-dir", "four");
    char *err = contents("err"), *log = contents("four/metrics.jsonl");
    assert_non_null(strstr(err, "compiled manual_step of Gan"));
    int steps = 0;
    for (const char *at = log; (at = strstr(at, "\"context\":\"train\"")); at++) steps++;
    assert_int_equal(steps, 4);
    assert_true(isfinite(number_after(log, "{\"loss\":")));
    assert_true(number_after(log, "\"penalty\":") > 0);
    assert_true(number_after(log, "\"generator_loss\":") > 0);
    assert_null(strstr(log, "null"));
    assert_all_moved("one/parameters.safetensors", "four/parameters.safetensors", 12);
    nt_array *noise = nt_array_new(NT_F32, nt_dims(3, 64)), *images;
    assert_int_equal(nt_npy_write(scratch("noise.npy"), noise), NT_OK);
    snprintf(input, sizeof input, "--input=noise=%s", scratch("noise.npy"));
    run("predict", gan, "--hidden=32", "--weights=four/parameters.safetensors", input, "--out=images.npy");
    images = nt_npy_read(scratch("images.npy"));
    assert_non_null(images);
    assert_true(nt_shape_equal(images->shape, nt_dims(3, 784)));
    nt_array_free(noise);
    nt_array_free(images);
    assert_int_equal(finish(start((const char *const[]){"evaluate", gan, "--hidden=32", "--split=train",
                                                        "--weights=four/parameters.safetensors", NULL})),
                     1);
    char *refused = contents("err");
    assert_non_null(strstr(refused, "experiment 'Gan' has no metrics hook and no loss"));
    nt__free(refused);
    run("help", gan);
    char *out = contents("out");
    assert_non_null(strstr(out, "--learning-rate             double   the hook"));
    nt__free(out);
    nt__free(err);
    nt__free(log);
}

/* examples/convnet.c, fewer channels and a few steps: it learns, and what is saved is what is evaluated. */
static void the_convolution_example_trains(void **state) {
    (void)state;
    char convnet[SCRATCH_PATH];
    snprintf(convnet, sizeof convnet, "%s/../examples/convnet.c", getenv("NT_TESTS"));
    run("train", convnet, "--channels=4", "--max-steps=40", "--run-dir", "convnet", "--quiet");
    char *trained = contents("out");
    double accuracy = number_after(trained, "test accuracy ");
    assert_true(accuracy > 0.5 && accuracy < 1);
    run("evaluate", convnet, "--channels=4", "--run-dir", "convnet", "--quiet");
    char *evaluated = contents("out");
    assert_true(number_after(evaluated, "test accuracy ") == accuracy);
    nt__free(trained);
    nt__free(evaluated);
}

/* examples/rule.c: a kind of one's own, whose number that is an input compiles nothing when a schedule sets it. */
static void a_rule_of_ones_own_trains(void **state) {
    (void)state;
    char rule[SCRATCH_PATH];
    snprintf(rule, sizeof rule, "%s/../examples/rule.c", getenv("NT_TESTS"));
    run("train", rule, "--run-dir", "yogi", "--gradient-norm");
    char *log = contents("yogi/metrics.jsonl"), *out = contents("out");
    assert_non_null(strstr(log, "\"rule\":\"Yogi\""));
    assert_non_null(strstr(log, "\"grad_norm\":"));
    const char *last = strstr(out, "\n   20 ");
    assert_non_null(last);
    assert_true(strtod(last + strlen("\n   20 "), NULL) < 1e-8);
    nt__free(log);
    nt__free(out);
    run("train", rule, "--run-dir", "yogi", "--schedule", "opt.beta1=linear:0.5:0.9", "--ema-decay=0.99");
}

static int set_up(void **state) {
    snprintf(nitro, sizeof nitro, "%s/nitro", getenv("NITRO_BUILD"));
    snprintf(example, sizeof example, "%s/../examples/fashion.c", getenv("NT_TESTS"));
    signal(SIGINT, SIG_DFL); /* what starts the tests may ignore it */
    return scratch_make(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_reaches_its_accuracy),
        cmocka_unit_test(the_adversarial_example_trains),
        cmocka_unit_test(the_convolution_example_trains),
        cmocka_unit_test(max_steps_and_run_dir),
        cmocka_unit_test(schedules_and_transfers),
        cmocka_unit_test(a_schedule_is_shown_before_a_run),
        cmocka_unit_test(a_summary_is_shown_before_a_run),
        cmocka_unit_test(a_preset_sets_fields_and_flags_win),
        cmocka_unit_test(one_interrupt_ends_at_the_next_step),
        cmocka_unit_test(a_closed_pipe_does_not_end_the_run),
        cmocka_unit_test(a_save_that_fails_changes_nothing),
        cmocka_unit_test(a_rule_of_ones_own_trains),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_remove);
}
