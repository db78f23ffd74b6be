/* The command with weights of a training: fields that they were trained with, files of others, inputs of predictions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/format.h"
#include "base/files.h"
#include "command.h"

/* What derive finds in the data is what predictions are in units of; forward reads one field, or two. */
static const char source[] =
    "#include <nitro.h>\n"
    "#define UNITS(FIELD, DEVICE, GRAPH_CONST) \\\n"
    "    GRAPH_CONST(int, act, 0, \"0 tanh, 1 square\") DEVICE(float, mean, 0, \"of y\") \\\n"
    "    DEVICE(nt_array *, shift, NULL, \"of x\") FIELD(int, batch, 8, \"samples\")\n"
    "NT_EXPERIMENT(Units, UNITS)\n"
    "static void square(Units *e) { e->act = 1; }\n"
    "static nt_status build_data(const Units *e, nt_data *data) {\n"
    "    nt_array *x = nt_array_new(NT_F32, nt_dims(32, 3)), *y = nt_array_new(NT_F32, nt_dims(32, 1)),\n"
    "             *n = nt_array_new(NT_I32, nt_dims(32));\n"
    "    for (int i = 0; x && i < 96; i++) nt_array_set(x, i, i * 37 % 17);\n"
    "    for (int i = 0; y && i < 32; i++) nt_array_set(y, i, 224 + i % 5);\n"
    "    nt_split(data, \"train\", .batch = e->batch, .limit = 16);\n"
    "    nt_split(data, \"val\", .batch = e->batch, .first = 16);\n"
    "    for (int i = 0; i < 2; i++) {\n"
    "        nt_split_field(data, i ? \"val\" : \"train\", \"x\", i ? x : nt_array_retain(x));\n"
    "        nt_split_field(data, i ? \"val\" : \"train\", \"y\", i ? y : nt_array_retain(y));\n"
    "        nt_split_field(data, i ? \"val\" : \"train\", \"n\", i ? n : nt_array_retain(n));\n"
    "    }\n"
    "    return nt_data_status(data);\n"
    "}\n"
    "static nt_status derive(Units *e, const nt_data *data) {\n"
    "    e->mean = (float)nt_array_get(nt_data_array(data, \"train\", \"y\"), 2);\n"
    "    e->shift = nt_array_new(NT_F32, nt_dims(3));\n"
    "    return nt_data_status(data);\n"
    "}\n"
    "#ifdef PLAIN\n"
    "#define SHIFTED nt_field(b, \"x\")\n"
    "#else\n"
    "#define SHIFTED nt_sub(nt_field(b, \"x\"), e->shift)\n"
    "#endif\n"
    "static nt_tensor forward(const Units_view *e, nt_model *m, nt_batch *b) {\n"
    "    nt_tensor x = nt_dense(m, \"h\", SHIFTED, 4);\n"
    "#ifdef TWO\n"
    "    x = nt_add(x, nt_convert(nt_reshape(nt_field(b, \"n\"), -1, 1), NT_F32));\n"
    "#endif\n"
    "    x = nt_mul(nt_dense(m, \"out\", e->act ? nt_square(x) : nt_tanh(x), 1), 0.001);\n"
    "    return nt_add(x, e->mean);\n"
    "}\n"
    "static nt_tensor loss(const Units_view *e, nt_tensor z, nt_batch *b) { return nt_mse(z, nt_field(b, \"y\")); }\n"
    "NT_DEFINE(Units, UNITS, .build_data = build_data, .derive = derive, .forward = forward, .loss = loss,\n"
    "          .presets = NT_PRESETS(Units, {\"square\", \"of activations\", square}));\n";

static char file[SCRATCH_PATH], run_dir[2 * SCRATCH_PATH], out[2 * SCRATCH_PATH];

static const char *flag(const char *text, const char *name) {
    static char texts[8][2 * SCRATCH_PATH];
    static size_t next;
    char *to = texts[next++ % 8];
    snprintf(to, sizeof texts[0], "%s%s", text, scratch(name));
    return to;
}

static const ended *done(const ended *e) {
    if (e->code != 0) fail_msg("exit %d\n%s%s", e->code, e->out, e->err);
    return e;
}

static void failed(const ended *e, int code, const char *part) {
    assert_has(e->err, part);
    assert_int_equal(e->code, code);
}

static void put_npy(const char *name, nt_dtype dtype, nt_shape shape) {
    nt_array *array = nt_array_new(dtype, shape);
    assert_int_equal(nt_npy_write(scratch(name), array), NT_OK);
    nt_array_free(array);
}

static void evaluations_have_the_fields_of_the_training(void **state) {
    (void)state;
    char loss[32];
    done(nitro("train", file, run_dir, "--act=1", "--quiet", "--max-epochs=2"));
    done(nitro("evaluate", file, run_dir, "--act=1", "--split=val", "--quiet"));
    const ended *e = nitro("evaluate", file, run_dir, "--split=val");
    assert_has(e->err, "act = 1");
    snprintf(loss, sizeof loss, "%.20s", strstr(e->out, "val_loss "));
    assert_has(done(nitro("evaluate", file, run_dir, "--split=val", "--weights=latest:latest", "--quiet"))->out, loss);
    assert_has(done(nitro("evaluate", file, run_dir, "--split=val", "--preset=square", "--strict"))->out, loss);
    failed(nitro("evaluate", file, run_dir, "--split=val", "--act=0"), 1, "act: 1 in the file, 0 here");
    failed(nitro("evaluate", file, run_dir, "--split=val", "--act=2"), 1, "act: 1 in the file, 2 here");
    failed(nitro("evaluate", file, run_dir, "--split=val", "--mean=3"), 1,
           "mean (set by derive): 226 in the file, 3 here");
    e = done(nitro("evaluate", file, run_dir, "--split=val", "--act=0", "--weight-map=*=*", "--quiet"));
    assert_has(e->err, "than are given here, which are used:\n  act: 1 in the file, 0 here");
    assert_has_not(e->out, loss);
    assert_has(done(nitro("evaluate", file, run_dir, "--split=val", "--weight-map=*=*", "--strict"))->out, loss);
    e = done(nitro("train", file, flag("--run-dir=", "tuned"), flag("--weights=", "runs/parameters.safetensors"),
                   "--quiet"));
    assert_has(e->err, "act: 1 in the file, 0 here");
    failed(nitro("train", file, flag("--run-dir=", "tuned"), flag("--weights=", "runs/parameters.safetensors"),
                 "--strict"),
           1, "act: 1 in the file, 0 here");
    failed(nitro("evaluate", file, flag("--run-dir=", "tuned"), "--split=val", "--preset=square"), 1,
           "partly by the preset square:\n  act: 0 in the file, 1 here");
}

/* In the units of y, without data. */
static void predictions_have_what_derive_found(void **state) {
    (void)state;
    put_npy("x.npy", NT_F32, nt_dims(5, 3));
    const ended *e =
        done(nitro("predict", file, run_dir, flag("--input=", "x.npy"), flag("--out=", "out.npy"), "--strict"));
    assert_has(e->err, "mean = 226");
    nt_array *made = nt_npy_read(scratch("out.npy"));
    assert_non_null(made);
    for (int i = 0; i < 5; i++) assert_true(nt_array_get(made, i) > 220 && nt_array_get(made, i) < 230);
    nt_array_free(made);
    failed(nitro("predict", file, run_dir, flag("--input=", "x.npy"), flag("--out=", "y.npy"), "--act=0"), 1,
           "act: 1 in the file, 0 here");
}

static void inputs_are_those_of_the_training(void **state) {
    (void)state;
    const struct {
        nt_dtype dtype;
        nt_shape shape;
        const char *says;
    } cases[] = {
        {NT_F64, nt_dims(5, 3), "input 'x' is f64[5,3], training had f32[n,3]: save it as float32"},
        {NT_I64, nt_dims(5, 3), "input 'x' is i64[5,3], training had f32[n,3]: save it as float32"},
        {NT_F32, nt_dims(3),
         "input 'x' is f32[3], training had f32[n,3]: axis 0 counts the samples; one sample is f32[1,3]"},
        {NT_F32, nt_dims(5, 3, 1), "input 'x' is f32[5,3,1], training had f32[n,3]: axis 0 counts the samples"},
        {NT_F32, nt_dims(5, 4), "input 'x' is f32[5,4], training had f32[n,3], and the model does not fit it"},
        {NT_F32, {0}, "input 'x' is f32[], training had f32[n,3]: axis 0 counts the samples"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_npy("wrong.npy", cases[i].dtype, cases[i].shape);
        const ended *e = nitro("predict", file, run_dir, flag("--input=x=", "wrong.npy"), out, "--quiet");
        failed(e, 1, cases[i].says);
        assert_has_not(e->err, "GRAPH_CONST");
    }
    failed(nitro("predict", file, run_dir, flag("--input=x=", "x.npy"), flag("--input=n=", "x.npy"), out), 1,
           "--input n=: forward does not read that field (did you mean x?); it reads: x");
    failed(nitro("predict", file, run_dir, flag("--input=x=", "x.npy"), flag("--input=x=", "x.npy"), out), 2,
           "the field 'x' was given twice");
    failed(nitro("predict", file, run_dir, flag("--input=", "x.npy"), flag("--input=", "x.npy"), out), 2,
           "two arrays without a field's name were given");
}

static void two_fields_are_named(void **state) {
    (void)state;
    char two[2 * SCRATCH_PATH];
    snprintf(two, sizeof two, "%s", flag("--run-dir=", "two"));
    done(nitro("train", file, two, "--cflags=-DTWO", "--max-steps=1", "--quiet"));
    failed(
        nitro("predict", file, two, "--cflags=-DTWO", flag("--input=", "x.npy"), out), 1,
        "forward reads several fields (x f32[n,3], n i32[n]), and an array without a name was given: name each, as in "
        "--input x=FILE");
    put_npy("n.npy", NT_I32, nt_dims(5));
    done(nitro("predict", file, two, "--cflags=-DTWO", flag("--input=x=", "x.npy"), flag("--input=n=", "n.npy"), out));
    /* Of a file that does not say what forward read. */
    failed(nitro("predict", file, two, "--cflags=-DTWO -DPLAIN", flag("--input=", "x.npy"), out,
                 flag("--weights=", "plain.safetensors")),
           1, "forward reads 'x' and 'n', and one array without a name was given");
}

/* A copy of a file with one more tensor, of eight bytes, in front of its header's others. */
static void put_with_unknown(const char *from, const char *to, const char *name, bool with_facts) {
    nt__safetensors read;
    nt__text header = {0};
    assert_int_equal(nt__safetensors_read(from, &read), NT_OK);
    nt__named_array arrays[16];
    size_t count = 0;
    for (size_t i = 0; i < read.count; i++)
        if (strncmp(read.arrays[i].name, "fields/", 7) != 0) arrays[count++] = read.arrays[i];
    arrays[count] = (nt__named_array){name, {NT_U8, nt_dims(8)}, "12345678"};
    assert_int_equal(nt__safetensors_write(scratch(to), arrays, count + (name != NULL),
                                           with_facts ? read.metadata : NULL, with_facts ? read.metadata_count : 0),
                     NT_OK);
    nt__safetensors_free(&read);
    char *bytes;
    size_t length;
    assert_int_equal(nt__read_file(scratch(to), &bytes, &length), NT_OK);
    char *type = memmem(bytes, length, "\"U8\"", 4);
    if (type) memcpy(type, "\"F4\"", 4);
    scratch_put(to, bytes, length);
    nt__free(bytes);
    nt__text_free(&header);
}

static void tensors_that_nothing_asks_for_are_left_out(void **state) {
    (void)state;
    char weights[2 * SCRATCH_PATH];
    put_with_unknown(scratch("runs/parameters.safetensors"), "odd.safetensors", "scale.q", true);
    snprintf(weights, sizeof weights, "%s", flag("--weights=", "odd.safetensors"));
    failed(nitro("evaluate", file, run_dir, "--split=val", weights), 1,
           "tensor 'scale.q': unsupported element type F4: write the tensor as BOOL");
    done(nitro("evaluate", file, run_dir, "--split=val", weights, "--weight-map", "scale.q="));
    const ended *e =
        done(nitro("evaluate", file, run_dir, "--split=val", "--act=1", weights, "--weight-map", "h.*=h.*"));
    assert_has(e->err, "of a type that nitro has not, and not used: scale.q F4[8]");
    failed(nitro("evaluate", file, run_dir, "--split=val", "--act=1", weights, "--weight-map",
                 "h.bias=", "--weight-map", "scale.q=h.bias"),
           1, "tensor 'h.bias': unsupported element type F4");
    /* Inputs. */
    nt_array *x = nt_array_new(NT_F32, nt_dims(5, 3));
    const nt__named_array named[] = {{"x", nt__array_type(x), x->data}};
    assert_int_equal(nt__safetensors_write(scratch("only.safetensors"), named, 1, NULL, 0), NT_OK);
    nt_array_free(x);
    put_with_unknown(scratch("only.safetensors"), "in.safetensors", "scale.q", false);
    e = done(nitro("predict", file, run_dir, flag("--input=", "in.safetensors"), out));
    assert_has(e->err, "tensors that nitro has no type for are left out: scale.q F4[8]");
    done(nitro("predict", file, run_dir, flag("--input=x=", "in.safetensors"), out));
    failed(nitro("predict", file, run_dir, flag("--input=scale.q=", "in.safetensors"), out), 2,
           "tensor 'scale.q': unsupported element type F4");
}

static void a_shell_refuses_the_weights_of_another_model(void **state) {
    (void)state;
    char commands[4 * SCRATCH_PATH];
    snprintf(commands, sizeof commands,
             "new --quiet\nload %s\nfree\nnew --act=1 --quiet\nload %s\nvalidate\npredict --input=%s --out=%s\n",
             scratch("runs/parameters.safetensors"), scratch("runs/parameters.safetensors"), scratch("x.npy"),
             scratch("shell.npy"));
    put_text("commands", commands);
    char line[8 * SCRATCH_PATH];
    snprintf(line, sizeof line, "%s shell %s %s <%s", command_path(), file, run_dir, scratch("commands"));
    const ended *e = run_words((const char *const[]){"sh", "-c", line, NULL});
    assert_int_equal(e->code, 1);
    assert_has(e->err, "was trained with other GraphConst values than run 'Units' has", "act: 1 in the file, 0 here");
    assert_has(e->out, "val_loss ", "predictions f32[5,1] in ");
    assert_has_not(e->err, "warning");
}

static int set_up(void **state) {
    int status = command_make(state);
    put_text("units.c", source);
    snprintf(file, sizeof file, "%s", scratch("units.c"));
    snprintf(run_dir, sizeof run_dir, "%s", flag("--run-dir=", "runs"));
    snprintf(out, sizeof out, "%s", flag("--out=", "y.npy"));
    return status;
}

static void a_file_without_fields_is_told(void **state) {
    (void)state;
    put_with_unknown(scratch("runs/parameters.safetensors"), "plain.safetensors", NULL, false);
    const ended *e = done(
        nitro("evaluate", file, run_dir, "--split=val", "--act=1", "--quiet", flag("--weights=", "plain.safetensors")));
    assert_has(e->err, "warning: ", "does not say with which fields it was trained");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluations_have_the_fields_of_the_training),
        cmocka_unit_test(predictions_have_what_derive_found),
        cmocka_unit_test(inputs_are_those_of_the_training),
        cmocka_unit_test(a_file_without_fields_is_told),
        cmocka_unit_test(two_fields_are_named),
        cmocka_unit_test(tensors_that_nothing_asks_for_are_left_out),
        cmocka_unit_test(a_shell_refuses_the_weights_of_another_model),
    };
    return cmocka_run_group_tests_name("weights", tests, set_up, scratch_remove);
}
