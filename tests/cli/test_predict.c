/* Prediction through the command: what a user types, sees and finds afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>

#include "command.h"

#include "array/array.h"
#include "nitro.h"

static char example[SCRATCH_PATH], pair[SCRATCH_PATH], runs[SCRATCH_PATH];
static const char images[] = "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz";

/* "--name=<scratch folder>/file"; valid until the fourth next call. */
static const char *flag(const char *name, const char *file) {
    static char texts[4][2 * SCRATCH_PATH];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    snprintf(text, sizeof texts[0], "--%s=%s", name, scratch(file));
    return text;
}

static const ended *good(const ended *e, int line) {
    if (e->code != 0) fail_msg("line %d: exit %d\n%s", line, e->code, e->err);
    return e;
}
#define done(...) good(nitro(__VA_ARGS__), __LINE__)

static void failed(const ended *e, int code, const char *message) {
    assert_has(e->err, message);
    assert_has(e->err, "nitro: ");
    assert_string_equal(e->out, "");
    assert_int_equal(e->code, code);
}

static void run_python(const char *program) {
    const char *const words[] = {"python3", "-c", program, getenv("NT_PYTHONPATH"), scratch_folder, NULL};
    good(run_words(words), __LINE__);
}

#define PYTHON_HEAD                                        \
    "import sys, gzip; sys.path.insert(0, sys.argv[1])\n"  \
    "import numpy as np\n"                                 \
    "from safetensors.numpy import load_file, save_file\n" \
    "folder = sys.argv[2] + '/'\n"

static nt_array *read_npy(const char *file) {
    nt_array *array = nt_npy_read(scratch(file));
    if (!array) fail_msg("%s", nt_error_message());
    return array;
}

static json_int_t counter(json_t *root, const char *first, const char *second, const char *third) {
    json_t *object = json_object_get(json_object_get(root, first), second);
    json_t *value = third ? json_object_get(object, third) : object;
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

/* ---- the example ------------------------------------------------------------------------------------------------ */

static void check_stats(void) {
    json_t *stats = json_load_file(scratch("stats.json"), 0, NULL);
    assert_non_null(stats);
    assert_int_equal(counter(stats, "cache", "misses", NULL), 1);
    assert_int_equal(counter(stats, "buffers", "all", "live_count"), 0);
    assert_int_equal(counter(stats, "transfers", "download", "count"), 79);
    json_decref(stats);
}

/* The rows that metrics see of the split test: as many are right. No training data is there. */
static void predictions_are_what_evaluation_counts(void **state) {
    (void)state;
    char label[] = "test accuracy ";
    done("train", example, "--max-steps=20", runs, "--quiet");
    const ended *e = done("evaluate", example, runs, "--quiet");
    const char *at = strstr(e->out, label);
    assert_non_null(at);
    long right = lround(strtod(at + strlen(label), NULL) * 10000);

    char input[SCRATCH_PATH];
    snprintf(input, sizeof input, "--input=image=%s", images);
    e = done("predict", example, input, flag("out", "all.npy"), runs, "--data-dir=/nowhere",
             flag("stats", "stats.json"));
    assert_has(e->out, "predictions f32[10000,10] in ", "all.npy\n");
    assert_has(e->err, "Fashion: 235146 parameters in 6 arrays\n", "compiled forward of Fashion in ");
    check_stats();
    nt_array *logits = read_npy("all.npy");
    nt_array *labels = nt_idx_read("/usr/share/datasets/fashion-mnist", "t10k-labels-idx1-ubyte.gz");
    assert_int_equal(nt_count_correct(logits, labels), right);
    nt_array_free(labels);
    nt_array_free(logits);
}

/* Any number of rows, by field or without it, in either format: the same numbers. */
static void numpy_gives_and_takes(void **state) {
    (void)state;
    run_python(PYTHON_HEAD
               "raw = gzip.open('/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz').read()\n"
               "a = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 28, 28)\n"
               "np.save(folder + 'first.npy', a[:300])\n"
               "np.save(folder + 'one.npy', a[:1])\n"
               "np.save(folder + 'none.npy', a[:0])\n"
               "save_file({'image': a[:300], 'other': np.zeros(7, np.int64)}, folder + 'first.safetensors')\n");
    const ended *e =
        done("predict", example, flag("input", "first.npy"), flag("out", "first-out.npy"), runs, "--quiet");
    assert_has(e->out, "predictions f32[300,10] in ");
    assert_string_equal(e->err, "");
    done("predict", example, flag("input", "first.safetensors"), flag("out", "first-out.safetensors"), runs, "--quiet");
    done("predict", example, "--input", scratch("one.npy"), "--out", scratch("one-out.npy"), runs, "--quiet");
    e = done("predict", example, flag("input", "none.npy"), flag("out", "none-out.npy"), runs);
    assert_has(e->out, "predictions f32[0,10] in ");
    assert_has_not(e->err, "compiled");
    run_python(PYTHON_HEAD "a = np.load(folder + 'all.npy'); b = np.load(folder + 'first-out.npy')\n"
                           "assert a.shape == (10000, 10) and a.dtype == np.float32 and np.isfinite(a).all()\n"
                           "assert np.array_equal(a[:300], b)\n"
                           "c = load_file(folder + 'first-out.safetensors')\n"
                           "assert list(c) == ['outputs'] and np.array_equal(c['outputs'], b)\n"
                           "assert np.array_equal(np.load(folder + 'one-out.npy'), a[:1])\n"
                           "assert np.load(folder + 'none-out.npy').shape == (0, 10)\n");
}

static void parameters_are_never_made_up(void **state) {
    (void)state;
    const ended *e =
        nitro("predict", example, flag("input", "one.npy"), flag("out", "x.npy"), flag("run-dir", "empty"));
    assert_has(e->err, "cannot open '", "empty/parameters.safetensors'",
               "Train first, or name the parameters with --weights=FILE");
    assert_int_equal(e->code, 1);
    assert_int_equal(access(scratch("x.npy"), F_OK), -1);
    done("predict", example, flag("input", "one.npy"), flag("out", "x.npy"), flag("run-dir", "empty"),
         flag("weights", "runs/parameters.safetensors"));
    /* Parameters of another model. */
    e = nitro("predict", example, flag("input", "one.npy"), flag("out", "x.npy"), runs, "--hidden=12");
    assert_has(e->err, "was trained with other values of fields than are given here",
               "hidden: 256 in the file, 12 here");
    assert_int_equal(e->code, 1);
    unlink(scratch("x.npy"));
}

/* ---- two fields ------------------------------------------------------------------------------------------------- */

static const char pair_text[] =
    "#include <nitro.h>\n"
    "#define PAIR(FIELD, DEVICE, GRAPH_CONST) FIELD(int, samples, 4, \"in a batch\")\n"
    "NT_EXPERIMENT(Pair, PAIR)\n"
    "static nt_status build_data(const Pair *e, nt_data *data) {\n"
    "    nt_split(data, \"train\", .batch = e->samples);\n"
    "    nt_split_field(data, \"train\", \"x\", nt_array_new(NT_F32, nt_dims(8, 3)));\n"
    "    nt_split_field(data, \"train\", \"mask\", nt_array_new(NT_BOOL, nt_dims(8)));\n"
    "    return nt_data_status(data);\n"
    "}\n"
    "static nt_tensor forward(const Pair_view *e, nt_model *m, nt_batch *batch) {\n"
    "    nt_tensor mask = nt_reshape(nt_field(batch, \"mask\"), -1, 1);\n"
    "    nt_tensor w = nt_parameter(m, \"w\", nt_dims(3), .init = nt_ones());\n"
    "    nt_tensor out = nt_where(mask, nt_mul(nt_field(batch, \"x\"), w), -1);\n"
    "#ifdef HALF\n"
    "    out = nt_convert(out, NT_BF16);\n"
    "#endif\n"
    "    return out;\n"
    "}\n"
    "static nt_tensor loss(const Pair_view *e, nt_tensor out, nt_batch *batch) { return nt_mean(out); }\n"
    "NT_DEFINE(Pair, PAIR, .build_data = build_data, .forward = forward, .loss = loss);\n";

static void several_inputs_are_fields_by_name(void **state) {
    (void)state;
    put_text("pair.c", pair_text);
    done("train", pair, "--max-steps=1", "--learning-rate=1e-30", flag("run-dir", "pair"), "--quiet");
    run_python(PYTHON_HEAD "x = np.arange(15, dtype=np.float32).reshape(5, 3)\n"
                           "mask = np.array([True, False, True, True, False])\n"
                           "np.save(folder + 'x.npy', x); np.save(folder + 'mask.npy', mask)\n"
                           "np.save(folder + 'short.npy', mask[:4])\n"
                           "np.save(folder + 'double.npy', x.astype(np.float64))\n"
                           "save_file({'x': x, 'mask': mask}, folder + 'both.safetensors')\n"
                           "save_file({'flags': mask}, folder + 'flags.safetensors')\n");
    done("predict", pair, flag("input", "both.safetensors"), flag("out", "both-out.npy"), flag("run-dir", "pair"));
    char x[SCRATCH_PATH], mask[SCRATCH_PATH];
    snprintf(x, sizeof x, "x=%s", scratch("x.npy"));
    snprintf(mask, sizeof mask, "mask=%s", scratch("flags.safetensors"));
    done("predict", pair, "--input", x, "--input", mask, flag("out", "single-out.npy"), flag("run-dir", "pair"));
    run_python(PYTHON_HEAD "x = np.arange(15, dtype=np.float32).reshape(5, 3)\n"
                           "x[[1, 4]] = -1\n"
                           "assert np.array_equal(np.load(folder + 'both-out.npy'), x)\n"
                           "assert np.array_equal(np.load(folder + 'single-out.npy'), x)\n");

    /* What NumPy has no type for is refused before anything is compiled. */
    const ended *e = nitro("predict", pair, "--input", x, "--input", mask, flag("out", "y.npy"),
                           flag("run-dir", "pair"), "--cflags=-DHALF");
    assert_has(e->err, "y.npy': NumPy has no type for bf16; write a .safetensors file");
    assert_has_not(e->err, "compiled forward");
    assert_int_equal(e->code, 1);
    done("predict", pair, "--input", x, "--input", mask, flag("out", "half.safetensors"), flag("run-dir", "pair"),
         "--cflags=-DHALF");

    char other[SCRATCH_PATH];
    failed(nitro("predict", pair, "--input", x, flag("out", "y.npy"), flag("run-dir", "pair"), "--quiet"), 1,
           "the batch has no field 'mask'; its fields are: x");
    snprintf(other, sizeof other, "mask=%s", scratch("short.npy"));
    failed(nitro("predict", pair, "--input", x, "--input", other, flag("out", "y.npy"), flag("run-dir", "pair"),
                 "--quiet"),
           1, "field 'mask' has 4 rows, field 'x' has 5");
    snprintf(other, sizeof other, "x=%s", scratch("double.npy"));
    failed(nitro("predict", pair, "--input", other, "--input", mask, flag("out", "y.npy"), flag("run-dir", "pair"),
                 "--quiet"),
           1, "input 'x' is f64[5,3], training had f32[n,3]: save it as float32");
    snprintf(other, sizeof other, "flag=%s", scratch("both.safetensors"));
    failed(nitro("predict", pair, "--input", x, "--input", other, flag("out", "y.npy")), 2,
           "has 2 arrays and none is called 'flag', so it cannot be that field");
    assert_int_equal(access(scratch("y.npy"), F_OK), -1);
}

/* ---- wrong use -------------------------------------------------------------------------------------------------- */

/* A file that shows whether the compiler was asked: it is an error then. */
static const char *broken(void) {
    static char path[SCRATCH_PATH];
    put_text("broken.c", "this does not compile\n");
    snprintf(path, sizeof path, "%s", scratch("broken.c"));
    return path;
}

static void words_are_checked_before_the_work(void **state) {
    (void)state;
    put_text("text.csv", "1,2,3\n");
    put_text("bad.npy", "no array\n");
    const char *file = broken();
    char in[2 * SCRATCH_PATH], out[2 * SCRATCH_PATH];
    snprintf(in, sizeof in, "%s", flag("input", "one.npy"));
    snprintf(out, sizeof out, "%s", flag("out", "x.npy"));
    failed(nitro("predict", in, out), 2, "no file was given: write nitro predict FILE.c");
    failed(nitro("predict", file, in), 2, "no --out was given: name a .npy or .safetensors file");
    failed(nitro("predict", file, out), 2, "no array was given: write --input=FILE or --input=FIELD=FILE");
    failed(nitro("predict", file, in, "--out=x.npz"), 2,
           "--out=x.npz: predictions are written to a file that ends in "
           ".npy or .safetensors");
    failed(nitro("predict", file, in, "--out=.npy"), 2, "ends in .npy or .safetensors");
    failed(nitro("predict", file, out, "--input"), 2, "--input needs a value");
    failed(nitro("predict", file, out, "--input=image="), 2, "write --input=FIELD=FILE");
    failed(nitro("predict", file, out, "--input==x.npy"), 2, "write --input=FIELD=FILE");
    failed(nitro("predict", file, out, flag("input", "absent.npy")), 2, "absent.npy': No such file");
    failed(nitro("predict", file, out, flag("input", "absent.idx")), 2, "found neither '");
    failed(nitro("predict", file, out, flag("input", "bad.npy")), 2, "bad.npy': not a NumPy file");
    failed(nitro("predict", file, out, flag("input", "a.npz")), 2, "a.npz' is an archive of arrays: save the one that");
    failed(nitro("predict", file, out, flag("input", "text.csv")), 2,
           "Inputs are .npy, .safetensors and IDX files, the last also packed by gzip");
    assert_int_equal(nitro("predict", file, in, out)->code, 1); /* only now the compiler was asked */
    put_experiment("some.c", "Some", "", "");
    failed(nitro("train", scratch("some.c"), "--input=x"), 2,
           "--input is a flag of nitro predict and not of this command");
    failed(nitro("predict", scratch("some.c"), in, out, "--split=val"), 2, "--split is a flag of nitro evaluate");
}

/* A target that cannot be written is found before anything is compiled, and looking leaves nothing after. */
static void targets_are_checked_before_the_work(void **state) {
    (void)state;
    const char *file = broken();
    mkdir(scratch("folder.npy"), 0755);
    mkdir(scratch("targets"), 0755);
    failed(nitro("predict", file, flag("input", "one.npy"), flag("out", "nowhere/x.npy")), 2, "--out: cannot write '");
    failed(nitro("predict", file, flag("input", "one.npy"), flag("out", "folder.npy")), 2, "is a folder: name a file");
    static const char *const commands[] = {"train", "evaluate"};
    for (int i = 0; i < 2; i++) {
        failed(nitro(commands[i], file, flag("stats", "nowhere/s.json")), 2, "nowhere/s.json");
        failed(nitro(commands[i], file, flag("stats", "targets")), 2, "--stats: '");
        assert_int_equal(nitro(commands[i], file, flag("stats", "targets/s.json"))->code, 1);
    }
    failed(
        nitro("predict", file, flag("input", "one.npy"), flag("out", "targets/x.npy"), flag("stats", "nowhere/s.json")),
        2, "--stats: cannot write '");
    assert_int_equal(scratch_entries(scratch("targets")), 0);
}

/* What fails leaves the former file as it was. */
static void a_failure_keeps_the_former_file(void **state) {
    (void)state;
    put_text("kept.npy", "as it was");
    assert_int_equal(nitro("predict", example, flag("input", "mask.npy"), flag("out", "kept.npy"), runs)->code, 1);
    char text[MOST_OUTPUT];
    read_output("kept.npy", text);
    assert_string_equal(text, "as it was");
}

static void the_manual_has_the_command(void **state) {
    (void)state;
    assert_has(nitro("help")->out, "nitro predict FILE.c [MORE.c ...] --input [FIELD=]FILE ... --out FILE",
               "  predict ", "--input ", "--out ");
    const ended *e = nitro("predict", "--help");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "usage: nitro predict", "The training data is not needed", "--weights", "--input", "--out",
               "--run-dir", "Every field of an experiment is a flag");
    assert_has_not(e->out, "--split");
}

static int set_up(void **state) {
    snprintf(example, sizeof example, "%s/../examples/fashion.c", getenv("NT_TESTS"));
    int status = command_make(state);
    snprintf(pair, sizeof pair, "%s", scratch("pair.c"));
    snprintf(runs, sizeof runs, "%s", flag("run-dir", "runs"));
    return status;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_are_what_evaluation_counts), cmocka_unit_test(numpy_gives_and_takes),
        cmocka_unit_test(parameters_are_never_made_up),           cmocka_unit_test(several_inputs_are_fields_by_name),
        cmocka_unit_test(words_are_checked_before_the_work),      cmocka_unit_test(targets_are_checked_before_the_work),
        cmocka_unit_test(a_failure_keeps_the_former_file),        cmocka_unit_test(the_manual_has_the_command),
    };
    return cmocka_run_group_tests_name("predict", tests, set_up, scratch_remove);
}
