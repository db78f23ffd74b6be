/* Flags that a run does not use are refused, and warnings are shown whatever is asked for, or are errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "command.h"

static const char source[] =
    "#include <nitro.h>\n"
    "#define LIST(FIELD, DEVICE, GRAPH_CONST) DEVICE(float, smoothing, 0.1f, \"of labels\") "
    "FIELD(int, batch, 8, \"\")\n"
    "NT_EXPERIMENT(Small, LIST)\n"
    "static nt_status build_data(const Small *e, nt_data *data) {\n"
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
    "static nt_tensor forward(const Small_view *e, nt_model *m, nt_batch *batch) {\n"
    "    return nt_dense(m, \"logits\", nt_field(batch, \"x\"), 2);\n"
    "}\n"
    "static nt_tensor loss(const Small_view *e, nt_tensor logits, nt_batch *batch) {\n"
    "    return nt_cross_entropy(logits, nt_field(batch, \"label\"), .label_smoothing = e->smoothing);\n"
    "}\n"
    "NT_DEFINE(Small, LIST, .build_data = build_data, .forward = forward, .loss = loss);\n";

/* ---- warnings --------------------------------------------------------------------------------------------------- */

static const char resumes_nothing[] = "warning: Small: there is nothing to resume in 'runs/Small', so the run begins "
                                      "anew\n";

static void quiet_shows_warnings(void **state) {
    (void)state;
    scratch_remove_path("runs");
    const ended *e = nitro("train", "small.c", "--resume", "--quiet");
    assert_int_equal(e->code, 0);
    assert_string_equal(e->err, resumes_nothing);
    assert_has(e->out, "parameters in runs/Small/parameters.safetensors\n");
}

static void strict_makes_errors_of_warnings(void **state) {
    (void)state;
    scratch_remove_path("runs");
    const ended *e = nitro("train", "small.c", "--resume", "--quiet", "--strict");
    assert_int_equal(e->code, 1);
    assert_string_equal(e->err, "nitro: Small: there is nothing to resume in 'runs/Small', so the run begins anew\n");
    assert_string_equal(e->out, "");
    assert_int_equal(access("runs/Small/parameters.safetensors", F_OK), -1);
    e = nitro("schedule", "small.c", "--smoothing=0.3", "--schedule=smoothing=constant:0.2", "--strict");
    assert_int_equal(e->code, 1);
    assert_has(e->err, "the given 0.3 is not used");
    e = nitro("train", "small.c", "--quiet", "--strict");
    assert_int_equal(e->code, 0);
    assert_string_equal(e->err, "");
}

static void a_shell_can_be_strict(void **state) {
    (void)state;
    char line[SCRATCH_PATH * 2];
    scratch_remove_path("runs");
    snprintf(line, sizeof line, "echo new --resume | %s shell small.c --quiet", command_path());
    const ended *e = run_words((const char *const[]){"sh", "-c", line, NULL});
    assert_int_equal(e->code, 0);
    assert_string_equal(e->err, resumes_nothing);
    scratch_remove_path("runs");
    strcat(line, " --strict");
    e = run_words((const char *const[]){"sh", "-c", line, NULL});
    assert_int_equal(e->code, 1);
    assert_string_equal(e->err, "nitro: Small: there is nothing to resume in 'runs/Small', so the run begins anew\n");
}

static int set_up(void **state) {
    if (command_make(state) != 0 || chdir(scratch_folder) != 0) return -1;
    put_text("small.c", source);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quiet_shows_warnings),
        cmocka_unit_test(strict_makes_errors_of_warnings),
        cmocka_unit_test(a_shell_can_be_strict),
    };
    return cmocka_run_group_tests_name("flags", tests, set_up, scratch_remove);
}
