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

#include "optim/schedule_kinds.h"

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

static double number_or(const json_t *args, const char *name, double otherwise) {
    return json_object_get(args, name) ? number_of(args, name) : otherwise;
}

/* Its staircase is nt_schedule_step. */
static nt_schedule golden_exponential(const json_t *args) {
    double from = number_of(args, "from"), rate = number_of(args, "rate"), every = number_of(args, "every");
    if (json_is_true(json_object_get(args, "staircase"))) return nt_schedule_step(from, rate, every);
    return nt_schedule_exponential(from, rate, every, number_or(args, "end", 0));
}

static nt_schedule golden_polynomial(const json_t *args) {
    return nt_schedule_polynomial(number_of(args, "from"), number_of(args, "to"), number_of(args, "power"),
                                  .steps = (int64_t)number_of(args, "steps"));
}

/* Its scales multiply what was before; ours are values. */
static const nt_schedule_point *golden_points(const json_t *args, size_t *count) {
    static nt_schedule_point points[8];
    double value = number_of(args, "from");
    json_t *boundaries = json_object_get(args, "boundaries"), *scales = json_object_get(args, "scales");
    *count = json_array_size(boundaries);
    assert_true(*count <= 8);
    for (size_t i = 0; i < *count; i++) {
        value *= json_number_value(json_array_get(scales, i));
        points[i] = (nt_schedule_point){json_integer_value(json_array_get(boundaries, i)), value};
    }
    return points;
}

static nt_schedule golden_piecewise(const json_t *args) {
    size_t count;
    const nt_schedule_point *points = golden_points(args, &count);
    return nt_schedule_piecewise_with(number_of(args, "from"), points, count);
}

static nt_schedule golden_interpolated(const json_t *args) {
    size_t count;
    const nt_schedule_point *points = golden_points(args, &count);
    return nt_schedule_interpolated_with(number_of(args, "from"), points, count);
}

static nt_schedule_part parts[3];

/* A warm-up whose first step has its start value: a sequence that begins with a line. */
static nt_schedule from_line(const json_t *args, nt_schedule then) {
    parts[0] = (nt_schedule_part){(int64_t)number_of(args, "warmup_steps"),
                                  nt_schedule_linear(number_of(args, "init"), number_of(args, "peak"))};
    parts[1] = (nt_schedule_part){0, then};
    return nt_schedule_sequence_with(parts, 2);
}

static nt_schedule golden_warmup_cosine(const json_t *args) {
    return from_line(
        args, nt_schedule_cosine(number_of(args, "peak"), number_of(args, "end"),
                                 .steps = (int64_t)(number_of(args, "decay_steps") - number_of(args, "warmup_steps"))));
}

static nt_schedule golden_warmup_exponential(const json_t *args) {
    return from_line(
        args, nt_schedule_exponential(number_of(args, "peak"), number_of(args, "rate"), number_of(args, "every"), 0));
}

static nt_schedule golden_warmup(const json_t *args) {
    return nt_schedule_warmup((int64_t)number_of(args, "warmup_steps"), 0,
                              nt_schedule_constant(number_of(args, "peak")));
}

/* Periods of any lengths are a sequence. */
static nt_schedule golden_restarts(const json_t *args) {
    double from = number_of(args, "peak"), to = number_of(args, "to");
    json_t *periods = json_object_get(args, "periods"), *period;
    if (!periods) return nt_schedule_restarts(from, to, number_of(args, "first_period"), number_of(args, "multiplier"));
    size_t index;
    assert_int_equal(json_array_size(periods), 3);
    json_array_foreach(periods, index, period) parts[index] =
        (nt_schedule_part){json_integer_value(period), nt_schedule_cosine(from, to)};
    return nt_schedule_sequence_with(parts, 3);
}

static nt_schedule golden_one_cycle(const json_t *args) {
    return nt_schedule_one_cycle(number_of(args, "peak"), number_of(args, "fraction_up"),
                                 number_of(args, "start_divisor"), number_of(args, "final_divisor"));
}

static nt_schedule golden_inverse_sqrt(const json_t *args) {
    return nt_schedule_inverse_sqrt(number_of(args, "peak"), number_of(args, "warmup_steps"));
}

/* scale / sqrt(size) min(1 / sqrt(t), t / warmup^1.5) */
static nt_schedule golden_noam(const json_t *args) {
    double warmup = number_of(args, "warmup_steps");
    double peak_rate = number_of(args, "scale") / sqrt(number_of(args, "model_size") * warmup);
    return nt_schedule_inverse_sqrt(peak_rate, warmup);
}

static nt_schedule golden_sequence(const json_t *args) {
    (void)args;
    parts[0] = (nt_schedule_part){4, nt_schedule_linear(0, 0.1)};
    parts[1] = (nt_schedule_part){6, nt_schedule_constant(0.1)};
    parts[2] = (nt_schedule_part){0, nt_schedule_exponential(0.1, 0.9, 1, 0)};
    return nt_schedule_sequence_with(parts, 3);
}

static const struct {
    const char *kind;
    nt_schedule (*make)(const json_t *args); /* NULL: nitro has the other form of it */
} kinds[] = {{"constant", golden_constant},
             {"linear", golden_linear},
             {"cosine", golden_cosine},
             {"c_function", golden_function},
             {"exponential", golden_exponential},
             {"polynomial", golden_polynomial},
             {"piecewise_constant", golden_piecewise},
             {"piecewise_linear", golden_interpolated},
             {"warmup_cosine", golden_warmup_cosine},
             {"warmup", golden_warmup},
             {"warmup_exponential", golden_warmup_exponential},
             {"cosine_restarts", golden_restarts},
             {"one_cycle", golden_one_cycle},
             {"one_cycle_optax", NULL},
             {"inverse_sqrt", golden_inverse_sqrt},
             {"noam", golden_noam},
             {"sequence", golden_sequence}};

static bool has_numbers[NT__KIND_COUNT];

static size_t check_case(const json_t *golden) {
    const char *kind = json_string_value(json_object_get(golden, "kind"));
    const size_t count = sizeof kinds / sizeof *kinds;
    size_t found = 0;
    while (found + 1 < count && strcmp(kinds[found].kind, kind) != 0) found++;
    if (strcmp(kinds[found].kind, kind) != 0) fail_msg("a kind that is not in the table: %s", kind);
    if (!kinds[found].make) return 0;
    nt_schedule schedule = kinds[found].make(json_object_get(golden, "args"));
    has_numbers[schedule.kind - nt__schedule_kinds] = true;
    assert_int_equal(nt__schedule_check(&schedule), NT_OK);
    json_t *steps = json_object_get(golden, "steps"), *values = json_object_get(golden, "values");
    int64_t total = json_integer_value(json_object_get(golden, "total"));
    for (size_t i = 0; i < json_array_size(steps); i++) {
        int64_t step = json_integer_value(json_array_get(steps, i));
        double wanted = json_number_value(json_array_get(values, i));
        double got = nt_schedule_value(&schedule, step, total);
        if (fabs(got - wanted) > 1e-15 + 1e-12 * fabs(wanted))
            fail_msg("%s at step %lld: %.17g, wanted %.17g", json_string_value(json_object_get(golden, "name")),
                     (long long)step, got, wanted);
    }
    return json_array_size(steps);
}

/* With the numbers of optax and torch, past the horizon too. */
static void values_are_those_of_other_libraries(void **state) {
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/schedules.json", getenv("NT_TESTS"));
    json_t *document = json_load_file(path, 0, NULL), *golden;
    assert_non_null(document);
    size_t index, checked = 0;
    json_array_foreach(json_object_get(document, "cases"), index, golden) checked += check_case(golden);
    assert_true(checked > 640);
    for (int kind = 0; kind < NT__KIND_COUNT; kind++)
        if (!has_numbers[kind]) fail_msg("no golden numbers of '%s'", nt__schedule_kinds[kind].name);
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

/* What follows a warm-up has the horizon that is left, and the first step is not lost. */
static void a_warmup_goes_before_any(void **state) {
    (void)state;
    nt_schedule warm = nt_schedule_warmup(4, 0, nt_schedule_linear(1, 0));
    static const double wanted[] = {0.25, 0.5, 0.75, 1, 1, 0.875, 0.75};
    for (int t = 1; t <= 7; t++) assert_true(nt_schedule_value(&warm, t, 12) == wanted[t - 1]);
    assert_true(nt_schedule_value(&warm, 13, 12) == 0);
    nt_schedule raised = nt_schedule_warmup(2, 0.5, nt_schedule_constant(1));
    assert_true(nt_schedule_value(&raised, 1, 9) == 0.75);
    assert_true(nt__schedule_varies(&raised));
    nt_schedule longer = nt_schedule_warmup(100, 0, nt_schedule_cosine(1, 0));
    assert_true(nt_schedule_value(&longer, 10, 10) == 0.1);
}

/* Each part has the horizon of its own steps; sequences hold sequences. */
static void parts_have_their_own_horizon(void **state) {
    (void)state;
    nt_schedule all =
        nt_schedule_sequence({4, nt_schedule_linear(0, 1)},
                             {4, nt_schedule_sequence({2, nt_schedule_constant(5)}, {0, nt_schedule_linear(2, 0)})},
                             {0, nt_schedule_linear(1, 0)});
    static const double wanted[] = {0, 0.25, 0.5, 0.75, 5, 5, 2, 1, 1, 0.75, 0.5, 0.25, 0, 0};
    for (int t = 1; t <= 14; t++) assert_true(nt_schedule_value(&all, t, 12) == wanted[t - 1]);
}

static void odd_horizons_have_values(void **state) {
    (void)state;
    nt_schedule cycle = nt_schedule_one_cycle(1, 0, 0, 0);
    assert_true(nt_schedule_value(&cycle, 1, 1) == 1.0 / 25);
    assert_true(nt_schedule_value(&cycle, 1, 2) == 1);
    assert_true(nt_schedule_value(&cycle, 2, 2) == 1.0 / 25 / 1e4);
    assert_true(nt_schedule_value(&cycle, 900, 20) == 1.0 / 25 / 1e4);
    nt_schedule restarts = nt_schedule_restarts(1, 0, 3, 1.5);
    assert_true(nt_schedule_value(&restarts, 1, 0) == 1);
    for (int64_t t = 1; t < 2000000; t = t * 2 + 1) {
        double value = nt_schedule_value(&restarts, t, 10);
        assert_true(value >= 0 && value <= 1);
    }
}

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
    assert_refused(nt_schedule_constant(NAN), "constant with value nan: it must be finite");
    assert_refused(nt_schedule_linear(1, INFINITY), "linear with to inf: it must be finite");
    assert_refused(nt_schedule_restarts(1, 0, 0.5, 2), "restarts with period 0.5: it must be 1 or more");
    assert_refused(nt_schedule_exponential(1, -0.5, 3, 0), "exponential with rate -0.5: it must be above 0");
    assert_refused(nt_schedule_one_cycle(1, 1.5, 0, 0), "one_cycle with fraction_up 1.5: it must lie between 0 and 1");
    assert_refused(nt_schedule_inverse_sqrt(1, 0), "inverse_sqrt with warmup 0: it must be 1 or more");
    assert_refused(nt_schedule_warmup(-1, 0, nt_schedule_constant(1)), "warmup of -1 steps from 0");
    assert_refused(nt_schedule_warmup(1, NAN, nt_schedule_constant(1)), "warmup of 1 steps from nan");
    assert_refused(nt_schedule_piecewise_with(1, NULL, 0), "piecewise without a point");
    assert_refused(nt_schedule_piecewise(1, {5, 1}, {5, 2}), "a point after 5 steps that follows one after 5");
    assert_refused(nt_schedule_interpolated(1, {0, 1}), "a point after 0 steps that follows one after 0");
    assert_refused(nt_schedule_piecewise(1, {5, NAN}), "piecewise with value nan after 5 steps");
    assert_refused(nt_schedule_sequence_with(NULL, 0), "a sequence without a part");
    assert_refused(nt_schedule_sequence({0, nt_schedule_constant(1)}, {0, nt_schedule_constant(1)}),
                   "part 1 of the sequence has 0 steps: only the last may");
    assert_refused(nt_schedule_sequence({4, nt_schedule_constant(NAN)}),
                   "part 1 of the sequence: constant with value nan");
    assert_true(isnan(nt_schedule_value(NULL, 1, 1)));
    nt_schedule none = {0};
    assert_true(isnan(nt_schedule_value(&none, 1, 1)));
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
    assert_printed(nt_schedule_restarts(1, 0, 8, 2), "restarts(1 0 period 8 multiplier 2)");
    assert_printed(nt_schedule_one_cycle(0.1, 0, 0, 0), "one_cycle(0.1)");
    assert_printed(nt_schedule_warmup(5, 0, nt_schedule_piecewise(1, {5, 0.5}, {9, 0.25})),
                   "warmup(5) then piecewise(1, 0.5 after 5, 0.25 after 9)");
    assert_printed(nt_schedule_warmup(5, 0.5, nt_schedule_constant(1)), "warmup(5 from 0.5) then constant(1)");
    assert_printed(nt_schedule_sequence({4, nt_schedule_linear(0, 1)}, {0, nt_schedule_constant(1)}),
                   "sequence(linear(0 1) for 4, constant(1))");
}

static void a_schedule_is_written(void **state) {
    (void)state;
    char text[64] = {0};
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    nt_schedule cosine = nt_schedule_cosine(1e-3, 0), none = {0};
    assert_int_equal(nt_schedule_print(&cosine, out), NT_OK);
    assert_int_equal(nt_schedule_print(&none, out), NT_INVALID);
    assert_int_equal(nt_schedule_print(NULL, out), NT_INVALID);
    assert_int_equal(nt_schedule_print(&cosine, NULL), NT_INVALID);
    fclose(out);
    assert_string_equal(text, "cosine(0.001 0)");
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

/* The text, and what it prints as when it was read. */
static void every_kind_has_a_spelling(void **state) {
    (void)state;
    static const char *const spelled[][2] = {
        {"restarts:1:0:5", "restarts(1 0 period 5)"},
        {"restarts:1:0:5:2", "restarts(1 0 period 5 multiplier 2)"},
        {"exponential:1:0.5:4", "exponential(1 0.5 every 4)"},
        {"exponential:1:0.5:4:0.1", "exponential(1 0.5 every 4 limit 0.1)"},
        {"polynomial:1:0:2", "polynomial(1 0 power 2)"},
        {"step:1:0.5:10", "step(1 0.5 every 10)"},
        {"one_cycle:0.1", "one_cycle(0.1)"},
        {"one_cycle:0.1:0.25:10:100", "one_cycle(0.1 0.25 start_divisor 10 final_divisor 100)"},
        {"inverse_sqrt:1:500", "inverse_sqrt(1 500)"},
        {"piecewise:1:5:0.5:9:0.25", "piecewise(1, 0.5 after 5, 0.25 after 9)"},
        {"interpolated:1:5:0.5", "interpolated(1, 0.5 after 5)"},
        {"warmup:100:cosine:1e-3:0", "warmup(100) then cosine(0.001 0)"},
        {"linear:0:1@4,constant:1@6,exponential:1:0.9:1",
         "sequence(linear(0 1) for 4, constant(1) for 6, exponential(1 0.9 every 1))"},
    };
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++) {
        char text[128];
        nt_schedules all = {0};
        snprintf(text, sizeof text, "rate=%s", spelled[i][0]);
        if (nt__schedule_parse(text, &all) != NT_OK) fail_msg("%s", nt_error_message());
        assert_int_equal(nt__schedule_check(&all.items[0].schedule), NT_OK);
        assert_printed(all.items[0].schedule, spelled[i][1]);
        nt__schedules_free(&all);
    }
    const char *meaning;
    size_t count = 0;
    while (nt__schedule_spelling(count, &meaning)) count++;
    assert_int_equal(count, 13);
}

static void text_that_is_no_schedule(void **state) {
    (void)state;
    static const char *const texts[] = {"learning_rate",
                                        "=cosine:1:0",
                                        "a=cosine:1",
                                        "a=cosine:1:0:3",
                                        "a=cosine:1:x",
                                        "a=constant",
                                        "a=warm:1:0",
                                        "a=function",
                                        "a=constant:",
                                        "a=linear:1:0 ",
                                        "",
                                        "a=linear 1 0",
                                        "a=warmup:cosine:1:0",
                                        "a=warmup:0:constant:1",
                                        "a=warmup:5",
                                        "a=piecewise:1",
                                        "a=piecewise:1:5",
                                        "a=piecewise:1:5.5:2",
                                        "a=linear:0:1@4",
                                        "a=linear:0:1@4,",
                                        "a=linear:0:1,constant:1",
                                        "a=sequence",
                                        "a=restarts:1:0",
                                        "a=step:1:2:3:4:5"};
    nt_schedules all = {0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(nt__schedule_parse(texts[i], &all), NT_INVALID);
        assert_non_null(strstr(nt_error_message(), "is no schedule: write NAME=KIND:NUMBERS"));
        assert_non_null(strstr(nt_error_message(), texts[i]));
    }
    assert_int_equal(all.count, 0);
    nt__schedules_free(&all);
}

/* One that has itself among its parts would have no end. */
static void nested_sequences_have_a_limit(void **state) {
    (void)state;
    nt_schedule_part itself = {0};
    itself.schedule = nt_schedule_sequence_with(&itself, 1);
    nt_schedules all = {0};
    nt_schedule_set(&all, "learning_rate", itself.schedule);
    assert_int_equal(all.status, NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "nested more than 8 deep"));
    assert_true(isnan(nt_schedule_value(&itself.schedule, 1, 10)));
    nt__schedules_free(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_sequences_have_a_limit),
        cmocka_unit_test(values_are_those_of_other_libraries),
        cmocka_unit_test(the_way_takes_what_is_left_of_the_horizon),
        cmocka_unit_test(a_warmup_goes_before_any),
        cmocka_unit_test(parts_have_their_own_horizon),
        cmocka_unit_test(odd_horizons_have_values),
        cmocka_unit_test(what_varies),
        cmocka_unit_test(odd_numbers_are_refused),
        cmocka_unit_test(schedules_as_text),
        cmocka_unit_test(a_schedule_is_written),
        cmocka_unit_test(schedules_from_text),
        cmocka_unit_test(every_kind_has_a_spelling),
        cmocka_unit_test(text_that_is_no_schedule),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
