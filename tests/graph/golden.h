/* Golden cases: traces each case of a file the way its operation's builder says, runs all of them as one program, and
 * compares values and vector-Jacobian products with the file's numbers and tolerances. Include after cmocka.
 */
#ifndef NT_TESTS_GRAPH_GOLDEN_H
#define NT_TESTS_GRAPH_GOLDEN_H

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/emit.h"
#include "traced.h"

enum { GOLDEN_MAX_INPUTS = 9, GOLDEN_MAX_OUTPUTS = 4 };

/* What a builder gets: the inputs as tensors, in the file's order. Floating inputs have the type of the run. Results
 * after the first go into `outputs`, at their places. */
typedef struct golden_case {
    const json_t *attributes;
    nt_dtype floating;
    size_t count;
    const char *names[GOLDEN_MAX_INPUTS];
    nt_tensor inputs[GOLDEN_MAX_INPUTS];
    nt_tensor *outputs;
} golden_case;

/* An operation of a golden file, and what makes its value: its first output. */
typedef struct golden_row {
    const char *op;
    nt_tensor (*build)(const golden_case *c);
} golden_row;

/* What is run of a file. */
typedef struct golden_plan {
    const char *file;
    const golden_row *rows; /* operations without a row are not run */
    size_t row_count;
    const char *left_out[4]; /* cases of these operations that are not run either */
} golden_plan;

/* ---- for builders ----------------------------------------------------------------------------------------------- */

static inline bool golden_has(const golden_case *c, const char *input) {
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->names[i], input) == 0) return true;
    return false;
}

static inline nt_tensor golden_input(const golden_case *c, const char *name) {
    size_t i = 0;
    while (i < c->count && strcmp(c->names[i], name)) i++;
    if (i == c->count) fail_msg("no input '%s'", name);
    return c->inputs[i];
}

static inline double golden_number_or(const golden_case *c, const char *attribute, double otherwise) {
    const json_t *value = json_object_get(c->attributes, attribute);
    return value ? json_number_value(value) : otherwise;
}

static inline double golden_number(const golden_case *c, const char *attribute) {
    if (!json_is_number(json_object_get(c->attributes, attribute))) fail_msg("no number '%s'", attribute);
    return golden_number_or(c, attribute, 0);
}

static inline const char *golden_text(const golden_case *c, const char *attribute) {
    return json_string_value(json_object_get(c->attributes, attribute));
}

static inline nt_shape golden_shape_of(const json_t *list) {
    nt_shape shape = {.rank = (int)json_array_size(list)};
    assert_true(shape.rank <= NT_MAX_RANK);
    for (int i = 0; i < shape.rank; i++) shape.dims[i] = json_integer_value(json_array_get(list, (size_t)i));
    return shape;
}

static inline nt_shape golden_list(const golden_case *c, const char *attribute) {
    return golden_shape_of(json_object_get(c->attributes, attribute));
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static inline json_t *golden_read(const char *file) {
    char path[4096];
    const char *tests = getenv("NT_TESTS");
    if (!tests) fail_msg("NT_TESTS must be the path of the tests folder");
    snprintf(path, sizeof path, "%s/golden/%s", tests, file);
    json_error_t error;
    json_t *document = json_load_file(path, 0, &error);
    if (!document) fail_msg("%s:%d: %s", path, error.line, error.text);
    return document;
}

static inline double golden_element(const json_t *list, size_t i) {
    const json_t *element = json_array_get(list, i);
    if (json_is_string(element)) return strtod(json_string_value(element), NULL); /* nan, inf, -inf */
    return json_is_boolean(element) ? json_is_true(element) : json_number_value(element);
}

/* The element type of a name; f32 and f64 mean the floating type of the run. */
static inline nt_dtype golden_dtype(const char *name, nt_dtype floating) {
    nt_dtype dtype = 0;
    while (dtype < NT_DTYPE_COUNT && strcmp(nt_dtype_name(dtype), name)) dtype++;
    if (dtype == NT_DTYPE_COUNT) fail_msg("unknown element type '%s'", name);
    return dtype == NT_F32 || dtype == NT_F64 ? floating : dtype;
}

/* Results without "dtype" are floating. */
static inline nt__type golden_type(const json_t *json, nt_dtype floating) {
    const char *name = json_string_value(json_object_get(json, "dtype"));
    return (nt__type){name ? golden_dtype(name, floating) : floating, golden_shape_of(json_object_get(json, "shape"))};
}

static inline nt_array *golden_array(const json_t *json, nt_dtype floating) {
    const json_t *data = json_object_get(json, "data");
    nt__type type = golden_type(json, floating);
    nt_array *array = nt_array_new(type.dtype, type.shape);
    assert_non_null(array);
    assert_int_equal(json_array_size(data), nt_shape_elements(array->shape));
    for (size_t i = 0; i < json_array_size(data); i++) nt_array_set(array, (int64_t)i, golden_element(data, i));
    return array;
}

/* ---- a run: all cases of a file --------------------------------------------------------------------------------- */

/* What one result must be. */
typedef struct golden_expected {
    const char *name;          /* of the case */
    const char *input;         /* of which this is the vector-Jacobian product; NULL: the value */
    const json_t *numbers;     /* with "f32", "f64", "tolerance"; or "dtype", "data" */
    const json_t *alternative; /* the other source's, when both are right */
} golden_expected;

typedef struct golden_run {
    nt_dtype floating;
    nt_array **arrays;
    nt__result *results;
    golden_expected *expected;
    size_t array_count, array_capacity, result_count, result_capacity, expected_capacity;
} golden_run;

static inline nt_tensor golden_add_array(golden_run *run, const json_t *json) {
    assert_true(NT__GROW(run->arrays, run->array_count, run->array_capacity));
    nt_array *array = run->arrays[run->array_count++] = golden_array(json, run->floating);
    return traced_input((int)run->array_count - 1, (nt__type){array->dtype, array->shape});
}

static inline void golden_add_result(golden_run *run, nt_tensor value, golden_expected expected) {
    assert_true(NT__GROW(run->results, run->result_count, run->result_capacity));
    assert_true(NT__GROW(run->expected, run->result_count, run->expected_capacity));
    run->results[run->result_count] = (nt__result){expected.name, value, {0}};
    run->expected[run->result_count++] = expected;
}

/* Where two libraries differ, the file says whose numbers count: "take". */
static inline golden_expected golden_expect_vjp(const json_t *json, const char *name, const char *input,
                                                const json_t *numbers) {
    const json_t *second = json_object_get(json_object_get(json, "vjp_of_second_source"), input);
    const char *take = json_string_value(json_object_get(json, "take"));
    golden_expected expected = {name, input, numbers, NULL};
    if (second && strcmp(take, "either") == 0) expected.alternative = second;
    if (second && strcmp(take, "vjp_of_second_source") == 0) expected.numbers = second;
    return expected;
}

/* The products of all outputs are added up. */
static inline void golden_add_vjp(golden_run *run, const json_t *json, const char *name, const golden_case *c,
                                  const nt_tensor *outputs) {
    json_t *products = json_object_get(json, "vjp"), *numbers;
    nt_tensor inputs[GOLDEN_MAX_INPUTS], out[GOLDEN_MAX_INPUTS];
    const char *input, *names[GOLDEN_MAX_INPUTS];
    size_t count = 0;
    json_object_foreach(products, input, numbers) {
        names[count] = input;
        inputs[count++] = golden_input(c, input);
    }
    if (count == 0) return;
    const json_t *cotangents = json_object_get(json, "cotangents");
    for (size_t o = 0; o < json_array_size(cotangents); o++) {
        if (!nt_dtype_is_float(nt_dtype_of(outputs[o]))) continue;
        nt_tensor seed = golden_add_array(run, json_array_get(cotangents, o)), of_one[GOLDEN_MAX_INPUTS];
        nt__vjp(outputs[o], seed, inputs, count, of_one, NULL);
        for (size_t i = 0; i < count; i++) out[i] = o ? nt_add(out[i], of_one[i]) : of_one[i];
    }
    for (size_t i = 0; i < count; i++)
        golden_add_result(run, out[i], golden_expect_vjp(json, name, names[i], json_object_get(products, names[i])));
}

static inline void golden_add_case(golden_run *run, const json_t *json, const golden_row *row) {
    const char *name = json_string_value(json_object_get(json, "name")), *input;
    golden_case c = {.attributes = json_object_get(json, "attrs"), .floating = run->floating};
    json_t *array;
    json_object_foreach(json_object_get(json, "inputs"), input, array) {
        assert_true(c.count < GOLDEN_MAX_INPUTS);
        c.names[c.count] = input;
        c.inputs[c.count++] = golden_add_array(run, array);
    }
    const nt__graph *graph = nt__trace_current();
    nt_tensor outputs[GOLDEN_MAX_OUTPUTS] = {{0}};
    c.outputs = outputs;
    outputs[0] = row->build(&c);
    if (nt__trace_status(graph) != NT_OK) fail_msg("%s: %s", name, nt_error_message());
    const json_t *expected = json_object_get(json, "outputs");
    assert_true(json_array_size(expected) <= GOLDEN_MAX_OUTPUTS);
    for (size_t i = 0; i < json_array_size(expected); i++)
        golden_add_result(run, outputs[i], (golden_expected){name, NULL, json_array_get(expected, i), NULL});
    golden_add_vjp(run, json, name, &c, outputs);
    if (nt__trace_status(graph) != NT_OK) fail_msg("%s: gradient: %s", name, nt_error_message());
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static inline bool golden_close(double got, double expected, double relative, double absolute) {
    if (isnan(got) || isnan(expected)) return isnan(got) && isnan(expected);
    if (isinf(got) || isinf(expected)) return got == expected;
    return fabs(got - expected) <= absolute + relative * fabs(expected);
}

static inline bool golden_has_type(const golden_expected *e, nt__type expected, const nt_array *got) {
    nt__type own = {got->dtype, got->shape};
    char own_text[NT__TYPE_TEXT], expected_text[NT__TYPE_TEXT];
    if (nt__type_equal(own, expected)) return true;
    print_error("%s: %s is %s, expected %s\n", e->name, e->input ? e->input : "value", nt__type_text(own, own_text),
                nt__type_text(expected, expected_text));
    return false;
}

/* The first element that differs from `numbers`; -1: none. */
static inline int64_t golden_difference(const golden_run *run, const golden_expected *e, const json_t *numbers,
                                        const nt_array *got, double *expected) {
    const char *precision = nt_dtype_name(run->floating);
    const json_t *own = json_object_get(numbers, precision), *data = own ? own : json_object_get(numbers, "data");
    const json_t *tolerance = json_object_get(json_object_get(e->numbers, "tolerance"), precision);
    double relative = json_number_value(json_object_get(tolerance, "rtol"));
    double absolute = json_number_value(json_object_get(tolerance, "atol"));
    assert_int_equal(json_array_size(data), nt_shape_elements(got->shape));
    for (size_t i = 0; i < json_array_size(data); i++) {
        *expected = golden_element(data, i);
        if (got->dtype == NT_F32) *expected = (double)(float)*expected; /* the file has 9 digits */
        if (!golden_close(nt_array_get(got, (int64_t)i), *expected, relative, absolute)) return (int64_t)i;
    }
    return -1;
}

static inline bool golden_is_right(const golden_run *run, const golden_expected *e, const nt_array *got) {
    double expected;
    if (!golden_has_type(e, golden_type(e->numbers, run->floating), got)) return false;
    if (e->alternative && golden_difference(run, e, e->alternative, got, &expected) < 0) return true;
    int64_t at = golden_difference(run, e, e->numbers, got, &expected);
    if (at < 0) return true;
    print_error("%s: %s[%d] is %.17g, expected %.17g\n", e->name, e->input ? e->input : "value", (int)at,
                nt_array_get(got, at), expected);
    return false;
}

static inline size_t golden_compare(const golden_run *run, nt_array *const *results) {
    size_t wrong = 0;
    for (size_t i = 0; i < run->result_count; i++) wrong += !golden_is_right(run, &run->expected[i], results[i]);
    return wrong;
}

/* ---- a file ----------------------------------------------------------------------------------------------------- */

static inline bool golden_is(const json_t *json, const char *key, const char *text) {
    return text && strcmp(json_string_value(json_object_get(json, key)), text) == 0;
}

static inline bool golden_is_left_out(const json_t *json, const golden_plan *plan) {
    bool found = false;
    for (size_t i = 0; i < 4; i++) found = found || golden_is(json, "name", plan->left_out[i]);
    return found;
}

static inline void golden_trace(golden_run *run, const json_t *document, const golden_plan *plan) {
    const json_t *cases = json_object_get(document, "cases"), *json;
    size_t left_out = 0, to_leave_out = 0, index;
    while (to_leave_out < 4 && plan->left_out[to_leave_out]) to_leave_out++;
    for (size_t r = 0; r < plan->row_count; r++) {
        size_t before = run->result_count;
        json_array_foreach(cases, index, json) {
            if (!golden_is(json, "op", plan->rows[r].op)) continue;
            if (golden_is_left_out(json, plan))
                left_out++;
            else
                golden_add_case(run, json, &plan->rows[r]);
        }
        if (run->result_count == before) fail_msg("%s has no case of '%s'", plan->file, plan->rows[r].op);
    }
    if (left_out != to_leave_out) fail_msg("%s has not all of the cases that are left out", plan->file);
}

static inline void golden_free(golden_run *run, nt_array **results) {
    for (size_t i = 0; i < run->array_count; i++) nt_array_free(run->arrays[i]);
    for (size_t i = 0; i < run->result_count; i++) nt_array_free(results[i]);
    nt__free(run->arrays);
    nt__free(run->results);
    nt__free(run->expected);
    nt__free(results);
}

/* Runs what was traced, ends the trace and frees the run. Every value and gradient must agree. */
static inline void golden_finish(golden_run *run, nt__graph *graph) {
    traced program = traced_compile(traced_engine(), run->results, run->result_count);
    nt__trace_end(graph);
    nt_array **results = nt__alloc(run->result_count, sizeof *results);
    assert_non_null(results);
    traced_run(&program, run->arrays, results);
    traced_free(&program);
    size_t wrong = golden_compare(run, results);
    golden_free(run, results);
    assert_int_equal(wrong, 0);
}

/* Runs the cases of the plan. Every row must meet one. */
static inline void golden_check(const golden_plan *plan, nt_dtype floating) {
    json_t *document = golden_read(plan->file);
    golden_run run = {.floating = floating};
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    golden_trace(&run, document, plan);
    golden_finish(&run, graph);
    json_decref(document);
}

#endif
