/* bf16 and f16 against the golden numbers, whose truth is in f64: that results are as near to it as the type allows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden_files.h"

static nt_tensor build_add(const golden_case *c) {
    return nt_add(IN("a"), IN("b"));
}

static nt_tensor build_mul(const golden_case *c) {
    return nt_mul(IN("a"), IN("b"));
}

static nt_tensor build_div(const golden_case *c) {
    return nt_div(IN("a"), IN("b"));
}

static nt_tensor build_exp(const golden_case *c) {
    return nt_exp(X);
}

static nt_tensor build_tanh(const golden_case *c) {
    return nt_tanh(X);
}

static nt_tensor build_logistic(const golden_case *c) {
    return nt_logistic(X);
}

static nt_tensor build_gelu_exact(const golden_case *c) {
    return nt_mul(nt_mul(0.5, X), nt_erfc(nt_mul(X, -M_SQRT1_2)));
}

static nt_tensor build_softmax(const golden_case *c) {
    return nt_softmax(X, golden_number(c, "axis"));
}

/* A product of the narrow type is exact in f32. */
static nt_tensor build_matmul(const golden_case *c) {
    nt_dtype result = golden_dtype(golden_text(c, "result"), NT_F32);
    return nt_matmul(nt_convert(IN("a"), result), nt_convert(IN("b"), result));
}

static nt_tensor build_sum(const golden_case *c) {
    return nt_sum_at(X, golden_list(c, "axes"), NT_SITE);
}

static nt_tensor build_mean(const golden_case *c) {
    return nt_mean_at(X, golden_list(c, "axes"), NT_SITE);
}

static nt_tensor build_convert(const golden_case *c) {
    return nt_convert(X, NT_F16);
}

static nt_tensor build_loss_scaling(const golden_case *c) {
    double scale = golden_number(c, "scale");
    return nt_div(nt_convert(nt_convert(nt_mul(X, scale), NT_F16), NT_F32), scale);
}

static const golden_row rows[] = {
    {"add", build_add},
    {"mul", build_mul},
    {"div", build_div},
    {"exp", build_exp},
    {"tanh", build_tanh},
    {"logistic", build_logistic},
    {"softmax", build_softmax},
    {"gelu_exact", build_gelu_exact},
    {"matmul", build_matmul},
    {"sum", build_sum},
    {"mean", build_mean},
    {"convert", build_convert},
    {"loss_scaling", build_loss_scaling},
};

enum { ROWS = sizeof rows / sizeof *rows };

static golden_case read_case(golden_run *run, const json_t *json) {
    golden_case c = {.attributes = json_object_get(json, "attrs"), .floating = run->floating};
    const char *input;
    json_t *array;
    json_object_foreach(json_object_get(json, "inputs"), input, array) {
        c.names[c.count] = input;
        c.inputs[c.count++] = golden_add_array(run, array);
    }
    return c;
}

static nt_tensor build_case(const golden_case *c, const json_t *json) {
    for (size_t i = 0; i < ROWS; i++)
        if (golden_is(json, "op", rows[i].op)) return rows[i].build(c);
    fail_msg("no row builds '%s'", json_string_value(json_object_get(json, "op")));
    return nt__failed();
}

/* A subnormal number may come out as 0. */
static bool is_near(double got, double expected, const json_t *tolerance) {
    double relative = json_number_value(json_object_get(tolerance, "rtol"));
    double absolute = json_number_value(json_object_get(tolerance, "atol"));
    return golden_close(got, expected, relative, absolute) || (got == 0 && fabs(expected) < 0x1p-14);
}

static bool is_right(const json_t *json, const nt_array *got) {
    const json_t *truth = json_object_get(json, "truth_f64"), *list = truth ? truth : json_object_get(json, "expected");
    assert_int_equal(json_array_size(list), nt_shape_elements(got->shape));
    for (size_t i = 0; i < json_array_size(list); i++) {
        double own = nt_array_get(got, (int64_t)i), expected = golden_element(list, i);
        if (is_near(own, expected, json_object_get(json, "tolerance"))) continue;
        print_error("%s: [%zu] is %.9g, expected %.9g\n", json_string_value(json_object_get(json, "name")), i, own,
                    expected);
        return false;
    }
    return true;
}

/* Ends the trace; got[i] becomes result i. */
static void run_traced(const golden_run *run, nt__graph *graph, nt_array **got) {
    traced program = traced_compile(traced_engine(), run->results, run->result_count);
    nt__trace_end(graph);
    nt_array *none = NULL;
    traced_run(&program, run->arrays ? run->arrays : &none, got);
    traced_free(&program);
}

static void trace_cases(golden_run *run, const json_t *cases) {
    const json_t *json;
    size_t index;
    json_array_foreach(cases, index, json) {
        golden_case c = read_case(run, json);
        golden_add_result(run, build_case(&c, json), (golden_expected){.name = "case"});
    }
}

static void as_near_as_the_type_allows(void **state) {
    (void)state;
    json_t *document = golden_read("ops/low_precision.json");
    const json_t *cases = json_object_get(document, "cases");
    golden_run run = {.floating = NT_F32};
    nt_array **got = nt__alloc(json_array_size(cases), sizeof *got);
    size_t wrong = 0;
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    assert_non_null(got);
    trace_cases(&run, cases);
    assert_ok(nt__trace_status(graph));
    run_traced(&run, graph, got);
    for (size_t i = 0; i < run.result_count; i++) wrong += !is_right(json_array_get(cases, i), got[i]);
    golden_free(&run, got);
    json_decref(document);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_near_as_the_type_allows)};
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
