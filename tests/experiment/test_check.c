/* The check of a definition: what it refuses, and that each message says where and what to write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "experiment/experiment.h"

/* Never called: the check only looks whether a hook is there. */
static nt_status some_build_data(const void *e, nt_data *data) {
    (void)e;
    (void)data;
    return NT_OK;
}

static nt_tensor some_forward(const void *view, nt_model *m, nt_batch *batch) {
    (void)view;
    (void)m;
    (void)batch;
    return (nt_tensor){0};
}

#define BOTH_HOOKS \
    { .build_data = some_build_data, .forward = some_forward }

static nt_experiment with_fields(const nt_field_info *fields, size_t count) {
    return (nt_experiment){
        .name = "Digits", .file = "digits.c", .hooks = BOTH_HOOKS, .fields = fields, .field_count = count};
}

static void a_complete_definition_passes(void **state) {
    (void)state;
    nt_experiment experiment = with_fields(NULL, 0);
    assert_int_equal(nt__experiment_check(&experiment), NT_OK);
}

static void a_missing_hook_is_named_with_what_to_write(void **state) {
    (void)state;
    nt_experiment experiment = with_fields(NULL, 0);
    experiment.hooks.build_data = NULL;
    assert_int_equal(nt__experiment_check(&experiment), NT_INVALID);
    assert_string_equal(nt_error_message(), "experiment Digits (digits.c) has no build_data hook, and it fills the "
                                            "splits: write .build_data = build_data in its NT_DEFINE");
    experiment.hooks = (nt_hooks){.build_data = some_build_data};
    assert_int_equal(nt__experiment_check(&experiment), NT_INVALID);
    assert_string_equal(nt_error_message(), "experiment Digits (digits.c) has no forward hook, and it is the model: "
                                            "write .forward = forward in its NT_DEFINE");
}

/* The macros refuse these when the experiment is compiled; a table made by hand is checked when a run is made. */
static void a_type_that_its_marker_does_not_take_is_refused(void **state) {
    (void)state;
    static const nt_field_info right[] = {
        {.name = "rate", .type = NT_FIELD_FLOAT, .marker = NT_DEVICE},
        {.name = "table", .type = NT_FIELD_ARRAY, .marker = NT_DEVICE},
        {.name = "frozen", .type = NT_FIELD_ARRAYS, .marker = NT_DEVICE},
        {.name = "count", .type = NT_FIELD_UINT64, .marker = NT_GRAPH_CONST},
        {.name = "folder", .type = NT_FIELD_STRING, .marker = NT_HOST},
        {.name = "data", .type = NT_FIELD_OTHER, .marker = NT_HOST},
        {.name = "activation", .type = NT_FIELD_STRING, .marker = NT_GRAPH_CONST},
    };
    static const struct {
        nt_field_info field;
        const char *message;
    } wrong[] = {
        {{.name = "label", .type = NT_FIELD_STRING, .marker = NT_DEVICE},
         "the field label is a string and cannot be marked DEVICE: an input of a program is a number, an array or a "
         "set "
         "of arrays. Make it a FIELD (host code only) or GRAPH_CONST"},
        {{.name = "table", .type = NT_FIELD_ARRAY, .marker = NT_GRAPH_CONST},
         "the field table is a nt_array * and cannot be marked GRAPH_CONST: a constant of a program is a number, a "
         "string or a list of numbers. Make it a FIELD (host code only)"},
        {{.name = "data", .type = NT_FIELD_OTHER, .marker = NT_DEVICE, .type_name = "struct dataset *"},
         "the field data is a struct dataset * and cannot be marked DEVICE: an input of a program is a number, an "
         "array or "
         "a set of arrays. Make it a FIELD (host code only)"},
    };
    nt_experiment experiment = with_fields(right, sizeof right / sizeof *right);
    assert_int_equal(nt__experiment_check(&experiment), NT_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        experiment = with_fields(&wrong[i].field, 1);
        assert_int_equal(nt__experiment_check(&experiment), NT_INVALID);
        assert_string_equal(nt_error_message() + strlen("experiment Digits (digits.c): "), wrong[i].message);
    }
}

static const char *twins(size_t index, const char **doc, void *e) {
    (void)doc;
    (void)e;
    static const char *const names[] = {"small", "large", "small", NULL};
    return names[index];
}

static void two_presets_of_a_name_are_refused(void **state) {
    (void)state;
    nt_experiment experiment = with_fields(NULL, 0);
    experiment.hooks.preset = twins;
    assert_int_equal(nt__experiment_check(&experiment), NT_INVALID);
    assert_string_equal(nt_error_message(),
                        "experiment Digits (digits.c): two presets have the same name; rename one; its presets are: "
                        "'small', 'large', 'small'");
}

static const char *nameless(size_t index, const char **doc, void *e) {
    (void)doc;
    (void)e;
    static const char *const names[] = {"small", "", NULL};
    return names[index];
}

/* Also when a preset is asked for, which is before the definition is looked at. */
static void a_preset_without_a_name_is_refused(void **state) {
    (void)state;
    static const char message[] = "experiment Digits (digits.c): a preset has an empty name; give it one; its presets "
                                  "are: 'small', ''";
    nt_experiment experiment = with_fields(NULL, 0);
    char fields[8];
    experiment.hooks.preset = nameless;
    assert_int_equal(nt__experiment_check(&experiment), NT_INVALID);
    assert_string_equal(nt_error_message(), message);
    assert_int_equal(nt_preset(&experiment, "large", fields), NT_INVALID);
    assert_string_equal(nt_error_message(), message);
}

static void fields_of_the_run_as_constants_are_all_named(void **state) {
    (void)state;
    static const nt_field_info fields[] = {
        {.name = "max_epochs", .type = NT_FIELD_INT, .marker = NT_GRAPH_CONST},
        {.name = "hidden", .type = NT_FIELD_INT, .marker = NT_GRAPH_CONST},
        {.name = "run_dir", .type = NT_FIELD_STRING, .marker = NT_GRAPH_CONST},
        {.name = "seed", .type = NT_FIELD_INT, .marker = NT_GRAPH_CONST},
    };
    nt_experiment experiment = with_fields(fields, 3);
    assert_int_equal(nt__experiment_check(&experiment), NT_INVALID);
    assert_string_equal(nt_error_message(),
                        "experiment Digits (digits.c): these fields steer the run and must not be marked GRAPH_CONST: "
                        "max_epochs, run_dir. Leave each a FIELD");
    experiment.field_count = 4;
    assert_int_equal(nt__experiment_check(&experiment), NT_INVALID);
    assert_string_equal(nt_error_message(),
                        "experiment Digits (digits.c): these fields steer the run and must not be marked GRAPH_CONST: "
                        "max_epochs, run_dir, seed. Leave each a FIELD; with seed as a constant of the programs, a "
                        "sweep over seeds would recompile for each one");
}

static void other_run_keywords_may_be_constants(void **state) {
    (void)state;
    static const nt_field_info fields[] = {
        {.name = "accum", .type = NT_FIELD_INT, .marker = NT_GRAPH_CONST},
        {.name = "gradient_clip_norm", .type = NT_FIELD_DOUBLE, .marker = NT_GRAPH_CONST},
        {.name = "seed", .type = NT_FIELD_INT, .marker = NT_DEVICE},
        {.name = "max_epochs", .type = NT_FIELD_INT, .marker = NT_HOST},
    };
    nt_experiment experiment = with_fields(fields, 4);
    assert_int_equal(nt__experiment_check(&experiment), NT_OK);
}

static void refused_memory_is_reported_and_freed(void **state) {
    (void)state;
    static const nt_field_info fields[] = {{.name = "seed", .type = NT_FIELD_INT, .marker = NT_GRAPH_CONST}};
    nt_experiment experiment = with_fields(fields, 1);
    size_t live = nt__memory().live;
    nt__memory_fail_at(1);
    assert_int_equal(nt__experiment_check(&experiment), NT_OUT_OF_MEMORY);
    assert_int_equal(nt__memory().live, live);
    assert_non_null(strstr(nt_error_message(), "out of host memory"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_complete_definition_passes),
        cmocka_unit_test(a_missing_hook_is_named_with_what_to_write),
        cmocka_unit_test(a_type_that_its_marker_does_not_take_is_refused),
        cmocka_unit_test(two_presets_of_a_name_are_refused),
        cmocka_unit_test(a_preset_without_a_name_is_refused),
        cmocka_unit_test(fields_of_the_run_as_constants_are_all_named),
        cmocka_unit_test(other_run_keywords_may_be_constants),
        cmocka_unit_test(refused_memory_is_reported_and_freed),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
