/* Presets, and experiments shown to a reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "experiment/experiment.h"

#define SOME(FIELD, DEVICE, GRAPH_CONST)                 \
    GRAPH_CONST(int, hidden, 256, "units")               \
    DEVICE(float, smoothing, 0.0f, "label smoothing")    \
    DEVICE(nt_array *, table, NULL, "an array")          \
    DEVICE(nt_arrays *, frozen, NULL, "a set of arrays") \
    FIELD(int, batch, 128, "images in a micro-batch")    \
    FIELD(const char *, folder, "data", "a folder")
NT_EXPERIMENT(Some, SOME)

static void quick(Some *e) {
    e->batch = 8;
}

static void wide(Some *e) {
    e->hidden = 1024;
    e->smoothing = 0.5f;
}

NT_DEFINE(Some, SOME, .presets = NT_PRESETS(Some, {"quick", "a first look", quick}, {"wide", "the large model", wide}));

#define PLAIN(FIELD, DEVICE, GRAPH_CONST) FIELD(int, batch, 128, "images in a micro-batch")
NT_EXPERIMENT(Plain, PLAIN)
NT_DEFINE(Plain, PLAIN, .build_data = NULL);

/* What a preset does not set has the declaration's default, never another preset's value; what is set
 * afterwards wins. */
static void a_preset_starts_from_the_defaults(void **state) {
    (void)state;
    Some e = {.batch = 1, .hidden = 1};
    assert_int_equal(nt_preset(Some_experiment(), "wide", &e), NT_OK);
    assert_int_equal(e.hidden, 1024);
    assert_true(e.smoothing == 0.5f);
    assert_int_equal(e.batch, 128);
    assert_int_equal(nt_preset(Some_experiment(), "quick", &e), NT_OK);
    assert_int_equal(e.hidden, 256);
    assert_true(e.smoothing == 0);
    assert_int_equal(e.batch, 8);
    e.batch = 4;
    assert_int_equal(e.batch, 4);
}

static void presets_are_listed(void **state) {
    (void)state;
    const char *doc;
    assert_string_equal(Some_experiment()->hooks.preset(1, &doc, NULL), "wide");
    assert_string_equal(doc, "the large model");
    assert_null(Some_experiment()->hooks.preset(2, &doc, NULL));
    assert_null(Plain_experiment()->hooks.preset(0, &doc, NULL));
}

static void an_unknown_preset_is_refused(void **state) {
    (void)state;
    Some e = Some_defaults();
    assert_int_equal(nt_preset(Some_experiment(), "large", &e), NT_INVALID);
    assert_string_equal(nt_error_message(), "experiment Some has no preset 'large'; it has: quick, wide");
    assert_int_equal(e.batch, 128);
    Plain plain = Plain_defaults();
    assert_int_equal(nt_preset(Plain_experiment(), "large", &plain), NT_INVALID);
    assert_string_equal(nt_error_message(), "experiment Plain has no preset 'large': it declares none; .presets = "
                                            "NT_PRESETS(Plain, ...) in its NT_DEFINE does");
    assert_int_equal(nt_preset(NULL, "large", &plain), NT_INVALID);
    nt__memory_fail_at(1);
    assert_int_equal(nt_preset(Some_experiment(), "large", &e), NT_OUT_OF_MEMORY);
    nt__memory_fail_at(0);
}

/* ---- display ---------------------------------------------------------------------------------------------------- */

static char *printed(const Some *e, nt_form form) {
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_int_equal(nt_experiment_print(Some_experiment(), e, form, out), NT_OK);
    fclose(out);
    return text;
}

static void an_experiment_is_a_table_or_a_line(void **state) {
    (void)state;
    Some e = Some_defaults();
    e.table = nt_array_new(NT_F32, nt_dims(1000, 1000));
    e.frozen = nt_arrays_new();
    nt_arrays_put(e.frozen, "first", nt_array_new(NT_F32, nt_dims(512, 64)));
    nt_arrays_put(e.frozen, "second", nt_array_new(NT_F32, nt_dims(64)));
    nt_array_set(e.table, 0, 12345);
    char *line = printed(&e, NT_LINE), *table = printed(&e, NT_TABLE);
    assert_string_equal(line, "Some(hidden = 256, smoothing = 0, table = f32[1000,1000], frozen = {first: f32[512,64], "
                              "second: f32[64]}, batch = 128, folder = \"data\")");
    const char *rows = strchr(table, '\n');
    assert_non_null(strstr(table, "test_presets.c)"));
    assert_string_equal(rows, "\n"
                              "  hidden     GraphConst  256\n"
                              "  smoothing  Device      0\n"
                              "  table      Device      f32[1000,1000]\n"
                              "  frozen     Device      {first: f32[512,64], second: f32[64]}\n"
                              "  batch      Host        128\n"
                              "  folder     Host        \"data\"\n");
    assert_true(strlen(line) < 2000 && strlen(table) < 2000);
    free(line);
    free(table);
    nt_array_free(e.table);
    nt_arrays_free(e.frozen);
}

static void what_cannot_be_written_is_reported(void **state) {
    (void)state;
    Some e = Some_defaults();
    FILE *out = fopen("/dev/null", "r");
    assert_non_null(out);
    assert_int_equal(nt_experiment_print(Some_experiment(), &e, NT_LINE, out), NT_IO);
    nt__memory_fail_at(1);
    assert_int_equal(nt_experiment_print(Some_experiment(), &e, NT_LINE, out), NT_OUT_OF_MEMORY);
    nt__memory_fail_at(0);
    fclose(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_preset_starts_from_the_defaults),  cmocka_unit_test(presets_are_listed),
        cmocka_unit_test(an_unknown_preset_is_refused),       cmocka_unit_test(an_experiment_is_a_table_or_a_line),
        cmocka_unit_test(what_cannot_be_written_is_reported),
    };
    return cmocka_run_group_tests_name("presets", tests, NULL, NULL);
}
