/* src/optim: parameters to evaluate with, of the schedule-free AdamW and of the moving average, against trusted
 * trajectories, f32 and f64.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stepper.h"
#include "trajectories.h"

/* ---- parameters to evaluate with -------------------------------------------------------------------------------- */

/* The case's warm-up, from 0 at `count` 0 on, in the f32 that its rates were computed in also in f64. */
static double warm_rate(const json_t *settings, size_t count) {
    float warm = (float)setting(settings, "warmup_steps"), peak = (float)setting(settings, "eta");
    float left = 1 - fminf((float)count, warm) / warm;
    return peak - peak * left;
}

/* The case scales z by the rate of a step and weighs by that of the next, so its weights are given to the state. */
static void set_schedule_free(stepper *s, const json_t *settings, size_t step) {
    double sum = 0, weight = 0, eta = warm_rate(settings, step);
    for (size_t t = 1; t <= step + 1; t++) {
        weight = pow(warm_rate(settings, t), 2);
        sum += weight;
    }
    double before = eta * eta * (sum - weight) / weight;
    stepper_set(s, 0, RATE, &eta);
    stepper_set(s, 0, STATE + 4, &before);
}

static size_t run_schedule_free(const json_t *document, const json_t *c, nt_dtype dtype) {
    nt__layout layout = layout_of(document, dtype);
    const json_t *sequence = member(document, "sequence"), *settings = json_array_get(member(c, "chain"), 0);
    stepper s = {.group_count = 1, .rules = {nt_schedule_free_adamw()}, .groups = {layout.groups[0]}};
    stepper_compile(&s, 0);
    double row[SIZE];
    take_row(member(sequence, "x0"), 0, SIZE, row);
    stepper_set(&s, 0, PARAMETERS, row);
    stepper_set(&s, 0, STATE, row);
    size_t wrong = 0;
    for (size_t step = 0; step < 12; step++) {
        take_row(member(sequence, "gradients"), step, SIZE, row);
        stepper_set(&s, 0, GRADIENT, row);
        set_schedule_free(&s, settings, step);
        stepper_step(&s);
        wrong += count_wrong(c, dtype, step, (expectation){"x", SIZE, 0, 1}, *stepper_array(&s, 0, PARAMETERS));
        wrong += count_wrong(c, dtype, step, (expectation){"eval_x", SIZE, 0, 1}, *stepper_array(&s, 0, EVALUATED));
    }
    stepper_free(&s);
    nt__layout_free(&layout);
    return wrong;
}

static void schedule_free_adamw_trains_y_and_evaluates_x(void **state) {
    (void)state;
    json_t *document = golden_read("optim/more_rules.json");
    for (int i = 0; i < 2; i++)
        assert_int_equal(run_schedule_free(document, find_case(document, "schedule_free_adamw"), precisions[i]), 0);
    json_decref(document);
}

/* The cases of averages have one tolerance a precision, and the numbers of f64 with the decay as it is: those of f32
 * are `rounded`, with a decay rounded to f32. */
static size_t count_wrong_average(const json_t *c, nt_dtype dtype, size_t step, const char *key, const nt_array *got,
                                  const double *rounded) {
    const json_t *tolerance = member(member(c, "tolerance"), nt_dtype_name(dtype));
    size_t wrong = 0;
    for (size_t i = 0; i < SIZE; i++) {
        double element = nt_array_get(got, (int64_t)i), expected = rounded[i];
        if (dtype == NT_F64) expected = golden_element(member(member(c, "f64"), key), step * SIZE + i);
        if (golden_close(element, expected, setting(tolerance, "rtol"), setting(tolerance, "atol"))) continue;
        print_error("%s %s, step %zu: %s[%zu] is %.17g, expected %.17g\n", nt_dtype_name(dtype),
                    json_string_value(member(c, "name")), step + 1, key, i, element, expected);
        wrong++;
    }
    return wrong;
}

/* The average of given parameters: a gradient of 0 moves them nowhere. What starts at 0 is compared too: it may be
 * divided by 1 - decay^t. */
static size_t run_average(const json_t *document, const json_t *c, nt_dtype dtype, const char *key) {
    double row[SIZE], average[SIZE], expected[SIZE], given = setting(json_array_get(member(c, "chain"), 0), "decay");
    double decay = dtype == NT_F32 ? (double)(float)given : given, power = 1;
    bool zero = strcmp(key, "from_zero") == 0;
    bool divided = zero && strstr(json_string_value(member(c, "name")), "debiased");
    nt__layout layout = layout_of(document, dtype);
    stepper s = {.group_count = 1, .rules = {nt__rule_with_ema(nt_sgd(), given)}, .groups = {layout.groups[0]}};
    stepper_compile(&s, 0);
    take_row(member(member(document, "sequence"), "x0"), 0, SIZE, average);
    for (int i = 0; zero && i < SIZE; i++) average[i] = 0;
    stepper_set(&s, 0, STATE, average);
    size_t wrong = 0;
    for (size_t step = 0; step < 12; step++) {
        take_row(member(c, "parameters"), step, SIZE, row);
        stepper_set(&s, 0, PARAMETERS, row);
        stepper_step(&s);
        nt_array *got = *stepper_array(&s, 0, EVALUATED);
        power *= decay;
        for (int i = 0; i < SIZE; i++) {
            average[i] = decay * average[i] + (1 - decay) * row[i];
            expected[i] = average[i] / (divided ? 1 - power : 1);
            if (divided) nt_array_set(got, i, nt_array_get(got, i) / (1 - power));
        }
        wrong += count_wrong_average(c, dtype, step, key, got, expected);
    }
    stepper_free(&s);
    nt__layout_free(&layout);
    return wrong;
}

static void the_moving_average_starts_at_the_parameters(void **state) {
    (void)state;
    json_t *document = golden_read("optim/ema.json");
    const json_t *c;
    size_t index, wrong = 0;
    json_array_foreach(member(document, "cases"), index, c) for (int i = 0; i < 2; i++) {
        wrong += run_average(document, c, precisions[i], "from_initial");
        wrong += run_average(document, c, precisions[i], "from_zero");
    }
    json_decref(document);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedule_free_adamw_trains_y_and_evaluates_x),
        cmocka_unit_test(the_moving_average_starts_at_the_parameters),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
