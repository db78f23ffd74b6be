/* src/optim/clip.c: the norm of gradients, to the precision of f32 for as many elements as models have; and a rule of
 * the user's own beside it: a struct with a traced update and its numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stepper.h"

/* ---- the norm --------------------------------------------------------------------------------------------------- */

/* The norm of scale * [0, 1, ..., length - 1] / length: made on the device, so that no host memory is needed. */
static double norm_of_ramp(int64_t length, double scale) {
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    nt_tensor factor = traced_input(0, (nt__type){NT_F32, {0}});
    nt_tensor ramp = nt_mul(nt_iota(NT_F32, nt_dims(length), 0), nt_div(factor, (double)length));
    nt__result result = {"norm", nt__global_norm(&ramp, 1), {0}};
    traced program = traced_compile(traced_engine(), &result, 1);
    nt__trace_end(graph);
    nt_array *input = nt_array_new(NT_F32, (nt_shape){0}), *output;
    nt_array_set(input, 0, scale);
    traced_run(&program, &input, &output);
    double norm = nt_array_get(output, 0);
    nt_array_free(input);
    nt_array_free(output);
    traced_free(&program);
    return norm;
}

static double norm_of_ramp_exactly(int64_t length, double scale) {
    double n = (double)length;
    return scale / n * sqrt((n - 1) * n * (2 * n - 1) / 6);
}

/* A sum in f32 of 10^8 squares would stop near 2^24. Lengths that 32 equal pieces divide, and that they do not. */
static void the_norm_is_right_to_f32_precision(void **state) {
    (void)state;
    static const int64_t lengths[] = {7, 31, 32, 33, 257, 1000000, 100000000, 100000001};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        double got = norm_of_ramp(lengths[i], 3), expected = norm_of_ramp_exactly(lengths[i], 3);
        if (fabs(got / expected - 1) > 2e-7)
            fail_msg("%lld elements: %.9g, expected %.9g", (long long)lengths[i], got, expected);
    }
}

/* The largest magnitude, and a root that is no square root. */
static void other_norms(void **state) {
    (void)state;
    static const struct { double p, scale; } cases[] = {{INFINITY, 0.5}, {3, 2 / 4.497941445275415}};
    for (int i = 0; i < 2; i++) {
        stepper s = stepper_of_one(nt_chain(nt_clip_norm(.omega = 2, .p = cases[i].p), nt_sgd()), NT_F32, 2);
        stepper_compile(&s, 0);
        stepper_set(&s, 0, GRADIENT, (double[]){3, -4});
        stepper_set(&s, 0, RATE, (double[]){1});
        stepper_step(&s);
        assert_true(fabs(stepper_get(&s, 0, PARAMETERS, 0) + 3 * cases[i].scale) < 1e-6);
        assert_true(fabs(stepper_get(&s, 0, PARAMETERS, 1) - 4 * cases[i].scale) < 1e-6);
        stepper_free(&s);
    }
}

/* ---- a rule of one's own ---------------------------------------------------------------------------------------- */

/* Heavy ball whose velocity starts at the parameters, with a counter and a limit. */
static nt_tensor own_update(nt_update *u) {
    nt_tensor v = nt_add(nt_mul(u->numbers[0], u->state[0]), u->g);
    u->next_state[0] = v;
    u->next_state[1] = nt_add(u->state[1], 1);
    return nt_min(nt_mul(u->eta, v), u->constants[1]);
}

static const nt_rule_kind own = {.name = "Own",
                                 .numbers = {{.name = "drag", .range = NT_BETWEEN_0_AND_1, .is_input = true},
                                             {.name = "limit", .range = NT_ABOVE_0}},
                                 .states = {{.name = "v", .start = NT_START_AT_PARAMETERS},
                                            {.name = "count", .is_scalar = true, .is_count = true, .value = 5}},
                                 .update = own_update,
                                 .uses_rate = true};

static void a_rule_of_ones_own(void **state) {
    (void)state;
    nt_rule rule = nt_rule_of(&own, 0.5, 10);
    assert_int_equal(nt__rule_check(&rule), NT_OK);
    stepper s = stepper_of_one(rule, NT_F32, 2);
    stepper_compile(&s, 0);
    stepper_set(&s, 0, PARAMETERS, (double[]){4, 8});
    stepper_set(&s, 0, STATE, (double[]){4, 8});
    stepper_set(&s, 0, GRADIENT, (double[]){1, 1000});
    stepper_set(&s, 0, RATE, (double[]){0.5});
    stepper_step(&s);
    assert_true(stepper_get(&s, 0, PARAMETERS, 0) == 2.5);
    assert_true(stepper_get(&s, 0, PARAMETERS, 1) == -2);
    assert_true(stepper_get(&s, 0, STATE, 0) == 3 && stepper_get(&s, 0, STATE + 1, 0) == 6);
    stepper_free(&s);
}

static nt_tensor forgets(nt_update *u) {
    u->next_state[0] = nt_mul(u->state[0], 2);
    return u->g;
}

static nt_tensor widens(nt_update *u) {
    u->next_state[0] = u->g;
    u->next_state[1] = nt_convert(u->state[1], NT_F32);
    return u->g;
}

static nt_tensor shrinks(nt_update *u) {
    u->next_state[0] = u->g;
    u->next_state[1] = u->state[1];
    return nt_sum(u->g);
}

/* What an update must give back (a type fixed point). */
static void what_an_update_gives_is_checked(void **state) {
    (void)state;
    static const struct {
        nt_tensor (*update)(nt_update *u);
        const char *message;
    } cases[] = {{forgets, "its update set no next_state[1], the state 'count'"},
                 {widens, "its update made f32[] of the state 'count', which is i32[]"},
                 {shrinks, "its update returned f32[]; it must be as the parameters are"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nt_rule_kind kind = own;
        kind.update = cases[i].update;
        nt_rule rule = nt_rule_of(&kind, 0.5, 10);
        nt__graph *graph = nt__trace_begin();
        nt_tensor states[] = {traced_input(0, (nt__type){NT_F32, nt_dims(2)}),
                              traced_input(1, (nt__type){NT_I32, {0}})};
        nt_tensor next[2], drag = traced_input(2, (nt__type){NT_F32, {0}});
        const nt__group group = {.name = "default", .dtype = NT_F32, .length = 2};
        nt__step step = {.x = states[0],
                         .g = states[0],
                         .eta = drag,
                         .inputs = &drag,
                         .states = states,
                         .next_states = next,
                         .group = &group};
        nt__rule_apply(&rule, &step);
        assert_int_equal(nt__trace_status(graph), NT_INVALID);
        if (!strstr(nt_error_message(), cases[i].message)) fail_msg("%s", nt_error_message());
        nt__trace_end(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_norm_is_right_to_f32_precision),
        cmocka_unit_test(other_norms),
        cmocka_unit_test(a_rule_of_ones_own),
        cmocka_unit_test(what_an_update_gives_is_checked),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
