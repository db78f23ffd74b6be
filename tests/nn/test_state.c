/* src/nn: layer states during a trace, and how their misuse is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "nitro/control.h"
#include "nn/nn.h"

enum { PARAMETER_ROLE = 1, STATE_ROLE, SEED_ROLE };
static const nt__model_roles roles = {PARAMETER_ROLE, STATE_ROLE, SEED_ROLE};

typedef struct fixture {
    nt__graph *graph;
    nt_model *model;
} fixture;

static int begin(void **state) {
    static fixture f;
    f = (fixture){nt__trace_begin(), nt__model_new(roles)};
    *state = &f;
    if (!f.graph || !f.model) return -1;
    nt__model_begin(f.model, true, NULL);
    return 0;
}

static int end(void **state) {
    fixture *f = *state;
    nt__trace_end(f->graph);
    nt__model_free(f->model);
    return nt__memory().live ? -1 : 0;
}

/* A later trace, in which the one parameter `p` is an input. */
static void trace_again(fixture *f, bool training) {
    nt__trace_end(f->graph);
    f->graph = nt__trace_begin();
    assert_non_null(f->graph);
    nt_tensor value = nt__input(9, 0, "p", (nt__type){NT_F32, nt_dims(2)});
    nt__model_begin(f->model, training, &value);
}

static void assert_error(const fixture *f, int line, const char *function, const char *message) {
    char wanted[1024];
    snprintf(wanted, sizeof wanted, "%s:%d in %s: %s", __FILE__, line, function, message);
    assert_int_equal(nt__trace_status(f->graph), NT_INVALID);
    assert_string_equal(nt_error_message(), wanted);
}

/* An error at `line` whose message shows where the `first` use was, after "at" between the two parts. */
static void assert_both(const fixture *f, int first, int line, const char *function, const char *before,
                        const char *after) {
    char wanted[512];
    snprintf(wanted, sizeof wanted, "%s at %s:%d%s", before, __FILE__, first, after);
    assert_error(f, line, function, wanted);
}

static void the_first_trace_keeps_what_was_declared(void **state) {
    fixture *f = *state;
    nt_tensor seen, mean = {0};
    seen = nt_state(f->model, "seen", (nt_shape){0}, .dtype = NT_I64);
    NT_SCOPE(f->model, "norm") mean = nt_state(f->model, "mean", nt_dims(3), .init = nt_ones());
    size_t count;
    const nt__leaf *states = nt__model_states(f->model, &count);
    assert_int_equal(count, 2);
    assert_string_equal(states[0].path, "seen");
    assert_string_equal(states[1].path, "norm.mean");
    assert_true(nt__type_equal(states[0].type, (nt__type){NT_I64, {0}}));
    assert_true(nt__type_equal(states[1].type, (nt__type){NT_F32, nt_dims(3)}));
    assert_true(states[1].init.value == 1);
    assert_int_equal(nt_dtype_of(seen), NT_I64);
    assert_true(nt_shape_equal(nt_shape_of(mean), nt_dims(3)));
}

/* A state is an input of its role, and what it is set to a result that takes the input's memory. */
static void what_is_set_follows_in_training_only(void **state) {
    fixture *f = *state;
    for (int trace = 0; trace < 3; trace++) {
        bool training = trace < 2;
        if (trace) trace_again(f, training);
        nt_parameter(f->model, "p", nt_dims(2));
        nt_tensor mean = nt_state(f->model, "mean", nt_dims(2)), still = nt_state(f->model, "still", nt_dims(2)), value,
                  next;
        nt_state_set(f->model, "mean", nt_add(mean, 1));
        nt__model_end(f->model);
        assert_int_equal(nt__trace_status(f->graph), NT_OK);
        assert_int_equal(nt__model_update(f->model, 0, &value, &next), training);
        assert_int_equal(value.id, mean.id);
        assert_true(nt__tensor_made(next));
        assert_false(nt__model_update(f->model, 1, &value, &next));
        assert_int_equal(value.id, still.id);
        nt__printed printed;
        assert_int_equal(nt__print("test", &(nt__result){"y", nt_neg(still), {0}}, 1, &printed), NT_OK);
        assert_int_equal(printed.argument_count, 1);
        assert_int_equal(printed.arguments[0].role, STATE_ROLE);
        assert_int_equal(printed.arguments[0].index, 1);
        assert_string_equal(printed.arguments[0].name, "still");
        nt__printed_free(&printed);
    }
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

static void a_path_used_twice_shows_both_places(void **state) {
    fixture *f = *state;
    nt_state(f->model, "mean", nt_dims(2));
    nt_state(f->model, "mean", nt_dims(2));
    assert_both(f, __LINE__ - 2, __LINE__ - 1, __func__, "state: 'mean' was declared",
                " already; give one of the two another name or scope, or share the state with NT_REUSE");
}

static void a_parameter_has_another_path(void **state) {
    fixture *f = *state;
    nt_parameter(f->model, "w", nt_dims(2));
    nt_state(f->model, "w", nt_dims(2));
    assert_both(f, __LINE__ - 2, __LINE__ - 1, __func__, "state: 'w' is a parameter",
                "; give one of the two another name or scope");
}

static void a_state_has_another_path(void **state) {
    fixture *f = *state;
    nt_state(f->model, "w", nt_dims(2));
    nt_parameter(f->model, "w", nt_dims(2));
    assert_both(f, __LINE__ - 2, __LINE__ - 1, __func__, "parameter: 'w' is a state",
                "; give one of the two another name or scope");
}

static void another_type_shows_both_places(void **state) {
    fixture *f = *state;
    nt_state(f->model, "mean", nt_dims(2));
    trace_again(f, true);
    nt_state(f->model, "mean", nt_dims(3));
    assert_both(f, __LINE__ - 3, __LINE__ - 1, __func__, "state: 'mean' is f32[3] here and f32[2]", "");
}

static void a_new_state_in_a_later_trace_is_an_error(void **state) {
    fixture *f = *state;
    trace_again(f, false);
    nt_state(f->model, "mean", nt_dims(2));
    assert_error(f, __LINE__ - 1, __func__,
                 "state: 'mean' was not declared when the training programs were traced, so it has no value: declare "
                 "it in forward whatever the mode");
}

static void an_evaluation_declares_all(void **state) {
    fixture *f = *state;
    int line = __LINE__ + 1;
    nt_state(f->model, "mean", nt_dims(2));
    trace_again(f, false);
    nt__model_end(f->model);
    assert_error(f, line, __func__,
                 "state: 'mean' is declared when the model trains and not when it is evaluated: declare it in forward "
                 "whatever the mode");
}

static void an_empty_state_is_refused(void **state) {
    fixture *f = *state;
    nt_state(f->model, "mean", nt_dims(2, 0));
    assert_error(f, __LINE__ - 1, __func__, "state: 'mean' cannot be f32[2,0]: a state has at least 1 element");
}

static void what_is_not_declared_cannot_be_set(void **state) {
    fixture *f = *state;
    NT_SCOPE(f->model, "norm") nt_state(f->model, "mean", nt_dims(2));
    nt_state_set(f->model, "mean", nt_full(NT_F32, nt_dims(2), 0));
    assert_error(f, __LINE__ - 1, __func__,
                 "state_set: there is no state 'mean' in this trace: nt_state declares it first");
}

static void a_state_keeps_its_type(void **state) {
    fixture *f = *state;
    nt_state(f->model, "mean", nt_dims(2));
    nt_state_set(f->model, "mean", nt_full(NT_F32, nt_dims(3), 0));
    assert_error(f, __LINE__ - 1, __func__, "state_set: 'mean' is f32[2] and cannot become f32[3]");
}

static void a_state_is_set_once(void **state) {
    fixture *f = *state;
    nt_tensor mean = nt_state(f->model, "mean", nt_dims(2));
    nt_state_set(f->model, "mean", mean);
    nt_state_set(f->model, "mean", mean);
    assert_both(f, __LINE__ - 2, __LINE__ - 1, __func__, "state_set: 'mean' was set", " already");
}

/* ---- bodies of control flow ------------------------------------------------------------------------------------- */

static int set_line;

static nt_values running_mean(nt_values x, void *context) {
    nt_model *m = context;
    nt_tensor mean = nt_state(m, "mean", nt_dims(3));
    set_line = __LINE__ + 1;
    nt_state_set(m, "mean", nt_add(nt_mul(mean, 0.5), nt_mean(nt_exp(x.at[0]), 0)));
    return (nt_values){{nt_sub(x.at[0], mean)}};
}

static nt_values around_mean(nt_values x, void *context) {
    return nt_remat(running_mean, context, x.at[0]);
}

static nt_loop mean_in_a_loop(nt_loop now, void *context) {
    return (nt_loop){.carry = {running_mean((nt_values){{now.carry[0]}}, context).at[0]}};
}

/* What the body of nt_remat sets is set once, by the forward pass and not by what the gradient computes again. */
static void a_remat_may_set_a_state(void **state) {
    fixture *f = *state;
    nt_tensor x = nt__input(9, 0, "x", (nt__type){NT_F32, nt_dims(2, 3)}), value, next, gradient;
    nt_tensor y = nt_remat(around_mean, f->model, x).at[0];
    nt__gradient(nt_sum(nt_square(y)), &x, 1, &gradient, NULL);
    assert_true(nt__model_update(f->model, 0, &value, &next));
    assert_true(nt_shape_equal(nt_shape_of(next), nt_dims(3)));
    nt__result results[] = {{"gradient", gradient, {0}}, {"mean", next, value}};
    nt__printed printed;
    if (nt__print("state", results, 2, &printed) != NT_OK) fail_msg("%s", nt_error_message());
    const char *exponential = strstr(printed.text.data, "stablehlo.exponential");
    assert_non_null(exponential);
    assert_null(strstr(exponential + 1, "stablehlo.exponential"));
    nt__printed_free(&printed);
}

static void a_loop_and_a_branch_set_no_state(void **state) {
    fixture *f = *state;
    for (int loop = 0; loop < 2; loop++) {
        nt_tensor x = nt__input(9, 0, "x", (nt__type){NT_F32, nt_dims(2, 3)});
        if (loop)
            nt_scan(mean_in_a_loop, f->model, .carry = {x}, .length = 2);
        else
            nt_cond(nt_less(nt_sum(x), 0), running_mean, running_mean, f->model, x);
        assert_error(f, set_line, "running_mean",
                     "state_set: 'mean' is set in the body of a loop or a branch, which may run any number of times: "
                     "return its value from the body and set it outside");
        trace_again(f, true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_trace_keeps_what_was_declared, begin, end),
        cmocka_unit_test_setup_teardown(what_is_set_follows_in_training_only, begin, end),
        cmocka_unit_test_setup_teardown(a_path_used_twice_shows_both_places, begin, end),
        cmocka_unit_test_setup_teardown(a_parameter_has_another_path, begin, end),
        cmocka_unit_test_setup_teardown(a_state_has_another_path, begin, end),
        cmocka_unit_test_setup_teardown(another_type_shows_both_places, begin, end),
        cmocka_unit_test_setup_teardown(a_new_state_in_a_later_trace_is_an_error, begin, end),
        cmocka_unit_test_setup_teardown(an_evaluation_declares_all, begin, end),
        cmocka_unit_test_setup_teardown(an_empty_state_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(what_is_not_declared_cannot_be_set, begin, end),
        cmocka_unit_test_setup_teardown(a_state_keeps_its_type, begin, end),
        cmocka_unit_test_setup_teardown(a_state_is_set_once, begin, end),
        cmocka_unit_test_setup_teardown(a_remat_may_set_a_state, begin, end),
        cmocka_unit_test_setup_teardown(a_loop_and_a_branch_set_no_state, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
