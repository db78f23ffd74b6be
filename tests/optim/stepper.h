/* An optimizer program of some groups, run step by step with its parameters and states fed back.
 * Not here: the gradients' accumulation, which is the run's. Include after cmocka.
 */
#ifndef NT_TESTS_OPTIM_STEPPER_H
#define NT_TESTS_OPTIM_STEPPER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../graph/traced.h"
#include "optim/optim.h"

enum { STEPPER_GROUPS = 2 };

/* The arrays of a group. CLIPPED is what the rule saw as its gradient; EVALUATED is there where the rule averages. */
enum {
    PARAMETERS,
    GRADIENT,
    RATE,
    CLIPPED,
    EVALUATED,
    DECAYED,
    ANCHOR,
    PLACES,
    INPUT = PLACES + NT__PLACE_TABLES,
    STATE = INPUT + NT__MAX_INPUTS,
    GROUP_ARRAYS = STATE + NT__MAX_STATES
};

typedef struct stepper {
    size_t group_count;
    nt_rule rules[STEPPER_GROUPS];
    bool spares, anchored; /* the decays have a mask, an anchor */
    nt__group groups[STEPPER_GROUPS];
    nt_array *arrays[STEPPER_GROUPS * GROUP_ARRAYS]; /* an input's index is its array's number */
    nt__result results[STEPPER_GROUPS * GROUP_ARRAYS];
    int takers[STEPPER_GROUPS * GROUP_ARRAYS]; /* the array that a result becomes */
    size_t result_count;
    traced program;
} stepper;

static inline nt_array **stepper_array(stepper *s, size_t group, int what) {
    return &s->arrays[group * GROUP_ARRAYS + (size_t)what];
}

static inline nt_tensor stepper_input(stepper *s, size_t group, int what, nt__type type, double start) {
    nt_array *array = *stepper_array(s, group, what) = nt_array_new(type.dtype, type.shape);
    assert_non_null(array);
    for (int64_t i = 0; i < nt_shape_elements(type.shape); i++) nt_array_set(array, i, start);
    return traced_input((int)group * GROUP_ARRAYS + what, type);
}

static inline void stepper_result(stepper *s, size_t group, int what, nt_tensor value) {
    s->takers[s->result_count] = (int)group * GROUP_ARRAYS + what;
    s->results[s->result_count++] = (nt__result){"result", value, {0}};
}

/* An array that starts as the parameters is set when the test sets them. */
static inline void stepper_update(stepper *s, size_t group, nt_tensor gradient) {
    const nt_rule *rule = &s->rules[group];
    nt_tensor states[NT__MAX_STATES], next[NT__MAX_STATES], inputs[NT__MAX_INPUTS], decayed = {0}, anchor = {0};
    nt__type type = nt__group_type(&s->groups[group]);
    nt__step step = {
        .g = gradient, .inputs = inputs, .states = states, .next_states = next, .group = &s->groups[group]};
    nt__state state;
    nt__named_input input;
    step.x = stepper_input(s, group, PARAMETERS, type, 0);
    step.eta = stepper_input(s, group, RATE, (nt__type){type.dtype, {0}}, 0);
    for (int i = 0; nt__rule_input(rule, (size_t)i, &input); i++)
        inputs[i] = stepper_input(s, group, INPUT + i, (nt__type){nt__arithmetic_type(type.dtype), {0}}, input.value);
    for (int i = 0; nt__rule_state(rule, (size_t)i, &state); i++)
        states[i] =
            stepper_input(s, group, STATE + i, nt__state_type(&state, &s->groups[group]), nt__state_start(&state));
    if (s->spares) decayed = stepper_input(s, group, DECAYED, (nt__type){NT_BOOL, type.shape}, 1);
    if (s->anchored) anchor = stepper_input(s, group, ANCHOR, type, 0);
    nt_tensor places[NT__PLACE_TABLES];
    for (int i = 0; i < NT__PLACE_TABLES && nt__rule_uses_arrays(rule); i++) {
        places[i] = stepper_input(s, group, PLACES + i, nt__place_type(&s->groups[group], i), 0);
        nt__place_fill(&s->groups[group], i, (*stepper_array(s, group, PLACES + i))->data);
        step.places = places;
    }
    step.decayed = s->spares ? &decayed : NULL;
    step.anchor = s->anchored ? &anchor : NULL;
    nt_tensor x = nt__rule_apply(rule, &step);
    stepper_result(s, group, PARAMETERS, x);
    if (nt__rule_averages(rule)) {
        nt__step behind = {.x = x, .inputs = inputs, .states = next, .group = &s->groups[group]};
        stepper_result(s, group, EVALUATED, nt__rule_evaluated(rule, &behind));
    }
    stepper_result(s, group, CLIPPED, gradient);
    for (int i = 0; nt__rule_state(rule, (size_t)i, &state); i++) stepper_result(s, group, STATE + i, next[i]);
}

/* The groups and rules of `s` are set. What is traced is the optimizer program of a run. */
static inline void stepper_trace(stepper *s, double clip) {
    nt_tensor gradients[STEPPER_GROUPS];
    for (size_t g = 0; g < s->group_count; g++)
        gradients[g] = stepper_input(s, g, GRADIENT, nt__group_type(&s->groups[g]), 0);
    if (clip > 0) nt__clip_by_global_norm(gradients, s->group_count, nt__global_norm(gradients, s->group_count), clip);
    for (size_t g = 0; g < s->group_count; g++) stepper_update(s, g, gradients[g]);
    assert_ok(nt__trace_status(nt__trace_current()));
}

static inline void stepper_compile(stepper *s, double clip) {
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    stepper_trace(s, clip);
    s->program = traced_compile(traced_engine(), s->results, s->result_count);
    nt__trace_end(graph);
}

/* A stepper of one group of `length` elements. */
static inline stepper stepper_of_one(nt_rule rule, nt_dtype dtype, int64_t length) {
    return (stepper){
        .group_count = 1, .rules = {rule}, .groups = {{.name = "default", .dtype = dtype, .length = length}}};
}

/* Sets the elements of an array from `values`. One that the rule does not have is left alone. */
static inline void stepper_set(stepper *s, size_t group, int what, const double *values) {
    nt_array *array = *stepper_array(s, group, what);
    if (!array) return;
    for (int64_t i = 0; i < nt_shape_elements(array->shape); i++) nt_array_set(array, i, values[i]);
}

static inline double stepper_get(stepper *s, size_t group, int what, int64_t index) {
    return nt_array_get(*stepper_array(s, group, what), index);
}

static inline void stepper_step(stepper *s) {
    nt_array *outputs[STEPPER_GROUPS * GROUP_ARRAYS];
    traced_run(&s->program, s->arrays, outputs);
    for (size_t i = 0; i < s->result_count; i++) {
        nt_array_free(s->arrays[s->takers[i]]);
        s->arrays[s->takers[i]] = outputs[i];
    }
}

static inline void stepper_free(stepper *s) {
    for (size_t i = 0; i < STEPPER_GROUPS * GROUP_ARRAYS; i++) nt_array_free(s->arrays[i]);
    traced_free(&s->program);
}

/* Setup and teardown of a group of tests. The second also checks that the tests left nothing after. */
static inline int open_engine(void **state) {
    (void)state;
    return traced_engine() ? 0 : -1;
}

static inline int close_engine(void **state) {
    (void)state;
    assert_ok(nt__engine_close());
    if (nt__memory().live) print_error("%zu blocks of host memory were not freed\n", nt__memory().live);
    return nt__memory().live ? -1 : 0;
}

#endif
