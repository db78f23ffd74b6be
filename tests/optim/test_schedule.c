/* Schedules as functions of the step: the golden values of other libraries, what is refused, schedules from text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"

/* ---- values ----------------------------------------------------------------------------------------------------- */

static double number_of(const json_t *args, const char *name) {
    json_t *value = json_object_get(args, name);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static nt_schedule golden_linear(const json_t *args) {
    int64_t begin = (int64_t)json_number_value(json_object_get(args, "begin"));
    return nt_schedule_linear(number_of(args, "from"), number_of(args, "to"),
                              .steps = (int64_t)number_of(args, "steps"), .begin = begin);
}

static nt_schedule golden_constant(const json_t *args) {
    return nt_schedule_constant(number_of(args, "value"));
}

/* Its steps are the horizon, which is the default. */
static nt_schedule golden_cosine(const json_t *args) {
    return nt_schedule_cosine(number_of(args, "from"), number_of(args, "to"));
}

/* "peak/2*(1 + cos(pi*t/total))" */
static double of_progress(int64_t step, int64_t total, void *context) {
    double t = (double)(step < total ? step : total);
    return *(const double *)context / 2 * (1 + cos(acos(-1) * t / (double)total));
}

static double peak;
static nt_schedule golden_function(const json_t *args) {
    peak = number_of(args, "peak");
    return nt_schedule_of(of_progress, &peak);
}

static const struct {
    const char *kind;
    nt_schedule (*make)(const json_t *args);
} kinds[] = {{"constant", golden_constant},
             {"linear", golden_linear},
             {"cosine", golden_cosine},
             {"c_function", golden_function}};

static size_t check_case(const json_t *golden) {
    const char *kind = json_string_value(json_object_get(golden, "kind"));
    size_t found = 0;
    while (found < sizeof kinds / sizeof *kinds && strcmp(kinds[found].kind, kind) != 0) found++;
    if (found == sizeof kinds / sizeof *kinds) return 0;
    nt_schedule schedule = kinds[found].make(json_object_get(golden, "args"));
    assert_int_equal(nt__schedule_check(&schedule), NT_OK);
    json_t *steps = json_object_get(golden, "steps"), *values = json_object_get(golden, "values");
    int64_t total = json_integer_value(json_object_get(golden, "total"));
    for (size_t i = 0; i < json_array_size(steps); i++) {
        int64_t step = json_integer_value(json_array_get(steps, i));
        double wanted = json_number_value(json_array_get(values, i));
        double got = nt__schedule_value(&schedule, step, total);
        if (fabs(got - wanted) > 1e-15 + 1e-12 * fabs(wanted))
            fail_msg("%s at step %lld: %.17g, wanted %.17g", json_string_value(json_object_get(golden, "name")),
                     (long long)step, got, wanted);
    }
    return json_array_size(steps);
}

/* S2, S3, S6: with the numbers of optax and torch, past the horizon too. */
static void values_are_those_of_other_libraries(void **state) {
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/schedules.json", getenv("NT_TESTS"));
    json_t *document = json_load_file(path, 0, NULL), *golden;
    assert_non_null(document);
    size_t index, checked = 0;
    json_array_foreach(json_object_get(document, "cases"), index, golden) checked += check_case(golden);
    assert_true(checked > 150);
    json_decref(document);
}

static void the_way_takes_what_is_left_of_the_horizon(void **state) {
    (void)state;
    nt_schedule late = nt_schedule_linear(1, 0, .begin = 4);
    assert_true(nt__schedule_value(&late, 5, 12) == 1);
    assert_true(nt__schedule_value(&late, 9, 12) == 0.5);
    assert_true(nt__schedule_value(&late, 13, 12) == 0);
    nt_schedule never = nt_schedule_linear(1, 0, .begin = 40);
    assert_true(nt__schedule_value(&never, 12, 12) == 1);
    nt_schedule only = nt_schedule_cosine(1, 0);
    assert_true(nt__schedule_value(&only, 1, 1) == 1);
    assert_true(nt__schedule_value(&only, 1, 0) == 1);
}

/* */
static void what_varies(void **state) {
    (void)state;
    nt_schedule constant = nt_schedule_constant(3), linear = nt_schedule_linear(1, 0);
    assert_false(nt__schedule_varies(&constant));
    assert_true(nt__schedule_varies(&linear));
    assert_true(nt__schedule_value(&constant, 999, 7) == 3);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void assert_refused(nt_schedule schedule, const char *message) {
    assert_int_equal(nt__schedule_check(&schedule), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), message));
}

static void odd_numbers_are_refused(void **state) {
    (void)state;
    assert_refused((nt_schedule){0}, "it has no schedule: make one with nt_schedule_constant");
    assert_refused(nt_schedule_of(NULL, NULL), "nt_schedule_of was given no function (NULL)");
    assert_refused(nt_schedule_constant(NAN), "constant from nan to 0: both must be finite");
    assert_refused(nt_schedule_linear(1, INFINITY), "linear from 1 to inf: both must be finite");
    assert_refused(nt_schedule_cosine(1, 0, .steps = -1), "cosine with steps -1 and begin 0: both are 0 or more");
    assert_refused(nt_schedule_cosine(1, 0, .begin = -2), "cosine with steps 0 and begin -2");
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void assert_printed(nt_schedule schedule, const char *wanted) {
    nt__text text = {0};
    nt__schedule_print(&schedule, &text);
    assert_string_equal(text.data, wanted);
    nt__text_free(&text);
}

static void schedules_as_text(void **state) {
    (void)state;
    assert_printed(nt_schedule_constant(0.5), "constant(0.5)");
    assert_printed(nt_schedule_linear(1e-3, 0), "linear(0.001 0)");
    assert_printed(nt_schedule_cosine(1, 0, .steps = 5, .begin = 2), "cosine(1 0 steps 5 begin 2)");
    assert_printed(nt_schedule_of(of_progress, NULL), "function");
}

static void schedules_from_text(void **state) {
    (void)state;
    nt_schedules all = {0};
    assert_int_equal(nt__schedule_parse("learning_rate=cosine:1e-3:0", &all), NT_OK);
    assert_int_equal(nt__schedule_parse("device.smoothing=constant:0.25", &all), NT_OK);
    assert_int_equal(nt__schedule_parse("opt.head.learning_rate=linear:-1:2.5", &all), NT_OK);
    assert_int_equal(all.count, 3);
    assert_string_equal(all.items[0].name, "learning_rate");
    assert_string_equal(all.items[2].name, "opt.head.learning_rate");
    assert_printed(all.items[0].schedule, "cosine(0.001 0)");
    assert_printed(all.items[1].schedule, "constant(0.25)");
    assert_printed(all.items[2].schedule, "linear(-1 2.5)");
    nt__schedules_free(&all);
}

static void text_that_is_no_schedule(void **state) {
    (void)state;
    static const char *const texts[] = {"learning_rate", "=cosine:1:0",   "a=cosine:1", "a=cosine:1:0:3",
                                        "a=cosine:1:x",  "a=constant",    "a=warm:1:0", "a=function",
                                        "a=constant:",   "a=linear:1:0 ", "",           "a=linear 1 0"};
    nt_schedules all = {0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(nt__schedule_parse(texts[i], &all), NT_INVALID);
        assert_non_null(strstr(nt_error_message(), "is no schedule: write NAME=KIND:NUMBERS"));
        assert_non_null(strstr(nt_error_message(), texts[i]));
    }
    assert_int_equal(all.count, 0);
    nt__schedules_free(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_other_libraries),
        cmocka_unit_test(the_way_takes_what_is_left_of_the_horizon),
        cmocka_unit_test(what_varies),
        cmocka_unit_test(odd_numbers_are_refused),
        cmocka_unit_test(schedules_as_text),
        cmocka_unit_test(schedules_from_text),
        cmocka_unit_test(text_that_is_no_schedule),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
