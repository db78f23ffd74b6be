/* src/nn: the losses against trusted numbers, value and gradient, f32 and f64, and what they refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../graph/golden.h"
#include "nn/nn.h"

/* ---- cross entropy ---------------------------------------------------------------------------------------------- */

static nt_reduction reduction_of(const golden_case *c) {
    static const char *const names[] = {[NT_MEAN] = "mean", [NT_SUM] = "sum", [NT_NONE] = "none"};
    nt_reduction reduction = NT_MEAN;
    while (strcmp(names[reduction], golden_text(c, "reduction"))) {
        assert_true(reduction < NT_NONE);
        reduction++;
    }
    return reduction;
}

static nt_tensor build_cross_entropy(const golden_case *c) {
    nt_tensor logits = golden_input(c, "logits"), labels = golden_input(c, "labels");
    double smoothing = golden_number_or(c, "label_smoothing", 0);
    if (smoothing == 0) return nt_cross_entropy(logits, labels, .reduction = reduction_of(c));
    return nt_cross_entropy(logits, labels, .label_smoothing = nt_tensor_number(smoothing),
                            .reduction = reduction_of(c));
}

/* Class weights and ignored labels are not options of ours. */
static bool applies(const json_t *json) {
    const char *op = json_string_value(json_object_get(json, "op"));
    return strcmp(op, "cross_entropy") == 0 && !json_object_get(json_object_get(json, "inputs"), "w") &&
           !json_object_get(json_object_get(json, "attrs"), "ignore_index");
}

static size_t trace_cases(golden_run *run, const json_t *document) {
    static const golden_row row = {"cross_entropy", build_cross_entropy};
    size_t index, count = 0;
    const json_t *json;
    json_array_foreach(json_object_get(document, "cases"), index, json) {
        if (!applies(json)) continue;
        golden_add_case(run, json, &row);
        count++;
    }
    return count;
}

static void run_cases(nt_dtype floating) {
    json_t *document = golden_read("losses.json");
    golden_run run = {.floating = floating};
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    assert_int_equal(trace_cases(&run, document), 10);
    golden_finish(&run, graph);
    json_decref(document);
}

static void cross_entropy_agrees_in_f32(void **state) {
    (void)state;
    run_cases(NT_F32);
}

static void cross_entropy_agrees_in_f64(void **state) {
    (void)state;
    run_cases(NT_F64);
}

/* ---- values by hand --------------------------------------------------------------------------------------------- */

enum { LOGITS, LABELS, SMOOTHING, INPUTS };

/* The loss of one row of three logits, its gradient, and the same with a tensor of smoothing. */
static void run_row(const float *logits, int label, float smoothing, double *loss, double *gradient) {
    nt_array *arrays[INPUTS] = {nt_array_from(NT_F32, nt_dims(1, 3), logits),
                                nt_array_from(NT_I32, nt_dims(1), &(int32_t){label}),
                                nt_array_from(NT_F32, (nt_shape){0}, &smoothing)};
    nt_tensor inputs[INPUTS], slope;
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    for (int i = 0; i < INPUTS; i++) inputs[i] = traced_input(i, (nt__type){arrays[i]->dtype, arrays[i]->shape});
    nt_tensor value = isnan(smoothing)
                          ? nt_cross_entropy(inputs[LOGITS], inputs[LABELS])
                          : nt_cross_entropy(inputs[LOGITS], inputs[LABELS], .label_smoothing = inputs[SMOOTHING]);
    nt__gradient(value, &inputs[LOGITS], 1, &slope, NULL);
    traced program = traced_compile(traced_engine(), (nt__result[]){{"loss", value, {0}}, {"gradient", slope, {0}}}, 2);
    nt__trace_end(graph);
    nt_array *results[2];
    traced_run(&program, arrays, results);
    traced_free(&program);
    *loss = nt_array_get(results[0], 0);
    for (int i = 0; i < 3; i++) gradient[i] = nt_array_get(results[1], i);
    for (int i = 0; i < INPUTS; i++) nt_array_free(arrays[i]);
    for (int i = 0; i < 2; i++) nt_array_free(results[i]);
}

/* A class that cannot be has a logit of minus infinity: it costs nothing while it is not the label. */
static void a_masked_class_costs_nothing(void **state) {
    (void)state;
    double loss, gradient[3];
    run_row((float[]){0, -INFINITY, 0}, 0, NAN, &loss, gradient);
    assert_true(fabs(loss - log(2)) < 1e-6);
    assert_true(fabs(gradient[0] + 0.5) < 1e-6 && gradient[1] == 0 && fabs(gradient[2] - 0.5) < 1e-6);
}

static void the_label_of_a_masked_class_costs_infinity(void **state) {
    (void)state;
    double loss, gradient[3];
    run_row((float[]){0, -INFINITY, 0}, 1, NAN, &loss, gradient);
    assert_true(isinf(loss) && loss > 0);
}

static void a_nan_logit_reaches_the_loss(void **state) {
    (void)state;
    double loss, gradient[3];
    run_row((float[]){0, NAN, 0}, 0, NAN, &loss, gradient);
    assert_true(isnan(loss));
}

/* The smoothing may be a tensor, so that it can change from step to step: 0 is no smoothing. */
static void the_smoothing_may_be_an_input(void **state) {
    (void)state;
    double plain, none, some, gradient[3];
    run_row((float[]){1, 2, 4}, 1, NAN, &plain, gradient);
    run_row((float[]){1, 2, 4}, 1, 0, &none, gradient);
    run_row((float[]){1, 2, 4}, 1, 0.25F, &some, gradient);
    double total = log(exp(1) + exp(2) + exp(4)), even = total - 7.0 / 3;
    assert_true(fabs(plain - (total - 2)) < 1e-6 && fabs(none - plain) < 1e-6);
    assert_true(fabs(some - (0.75 * (total - 2) + 0.25 * even)) < 1e-6);
}

/* ---- what is claimed and refused -------------------------------------------------------------------------------- */

/* The host checks the labels before a batch is used, also where the trace converts them. */
static void labels_are_claimed_to_be_classes(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    nt_tensor logits = traced_input(0, (nt__type){NT_F32, nt_dims(4, 10)});
    nt_tensor labels = traced_input(7, (nt__type){NT_U8, nt_dims(4)});
    int line = __LINE__ + 1;
    nt_cross_entropy(logits, nt_convert(labels, NT_I32));
    size_t count;
    const nt__claim *claims = nt__claims(graph, &count);
    assert_int_equal(count, 1);
    assert_int_equal(claims[0].index, 7);
    assert_int_equal(claims[0].low, 0);
    assert_int_equal(claims[0].limit, 10);
    assert_int_equal(claims[0].site.line, line);
    assert_string_equal(claims[0].site.function, __func__);
    nt__trace_end(graph);
}

static void wrong_logits_and_labels_are_refused(void **state) {
    (void)state;
    static const struct {
        nt__type logits, labels;
        const char *got;
    } cases[] = {
        {{NT_F32, {2, {4, 10}}}, {NT_F32, {1, {4}}}, "f32[4,10] and f32[4]"},
        {{NT_I32, {2, {4, 10}}}, {NT_I32, {1, {4}}}, "i32[4,10] and i32[4]"},
        {{NT_F32, {2, {4, 10}}}, {NT_I32, {1, {5}}}, "f32[4,10] and i32[5]"},
        {{NT_F32, {2, {4, 10}}}, {NT_I32, {2, {4, 1}}}, "f32[4,10] and i32[4,1]"},
        {{NT_F32, {2, {4, 10}}}, {NT_I32, {2, {4, 10}}}, "f32[4,10] and i32[4,10]"},
        {{NT_F32, {0, {0}}}, {NT_I32, {0, {0}}}, "f32[] and i32[]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char wanted[512];
        nt__graph *graph = nt__trace_begin();
        assert_non_null(graph);
        nt_tensor logits = traced_input(0, cases[i].logits), labels = traced_input(1, cases[i].labels);
        snprintf(wanted, sizeof wanted,
                 "%s:%d in %s: cross_entropy: needs floating logits [..., classes] and integer labels [...], got %s",
                 __FILE__, __LINE__ + 1, __func__, cases[i].got);
        assert_true(nt__tensor_failed(nt_cross_entropy(logits, labels)));
        assert_int_equal(nt__trace_status(graph), NT_INVALID);
        assert_string_equal(nt_error_message(), wanted);
        nt__trace_end(graph);
    }
}

static int close_engine(void **state) {
    (void)state;
    assert_ok(nt__engine_close());
    return nt__memory().live ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cross_entropy_agrees_in_f32),
        cmocka_unit_test(cross_entropy_agrees_in_f64),
        cmocka_unit_test(a_masked_class_costs_nothing),
        cmocka_unit_test(the_label_of_a_masked_class_costs_infinity),
        cmocka_unit_test(a_nan_logit_reaches_the_loss),
        cmocka_unit_test(the_smoothing_may_be_an_input),
        cmocka_unit_test(labels_are_claimed_to_be_classes),
        cmocka_unit_test(wrong_logits_and_labels_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, close_engine);
}
