/* src/nn: the losses against trusted numbers, value and gradient, f32 and f64, and what they refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../graph/golden.h"
#include "layer_trace.h"

/* ---- golden cases ----------------------------------------------------------------------------------------------- */

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
    double smoothing = golden_number_or(c, "label_smoothing", 0), ignored = golden_number_or(c, "ignore_index", 0);
    nt_cross_entropy_options options = {
        .reduction = reduction_of(c), .ignored = (int64_t)ignored, .ignores = ignored != 0};
    if (smoothing != 0) options.label_smoothing = nt_tensor_number(smoothing);
    if (golden_has(c, "w")) options.class_weights = golden_input(c, "w");
    return nt_cross_entropy_at(logits, labels, options, NT_SITE);
}

static nt_tensor build_soft(const golden_case *c) {
    return nt_cross_entropy(golden_input(c, "logits"), golden_input(c, "targets"), .reduction = reduction_of(c));
}

static nt_tensor build_binary(const golden_case *c) {
    return nt_binary_cross_entropy(golden_input(c, "logits"), golden_input(c, "targets"), .reduction = reduction_of(c),
                                   .positive_weight = golden_number_or(c, "positive_weight", 0));
}

static nt_tensor prediction(const golden_case *c) {
    return golden_input(c, "prediction");
}

static nt_tensor target(const golden_case *c) {
    return golden_input(c, "target");
}

static nt_tensor build_mse(const golden_case *c) {
    return nt_mse(prediction(c), target(c), .reduction = reduction_of(c));
}

static nt_tensor build_mae(const golden_case *c) {
    return nt_mae(prediction(c), target(c), .reduction = reduction_of(c));
}

static nt_tensor build_huber(const golden_case *c) {
    return nt_huber(prediction(c), target(c), .reduction = reduction_of(c), .delta = golden_number(c, "delta"));
}

static nt_tensor build_smooth_l1(const golden_case *c) {
    double beta = golden_number(c, "beta");
    return nt_div(nt_huber(prediction(c), target(c), .reduction = reduction_of(c), .delta = beta), beta);
}

static nt_tensor build_kl(const golden_case *c) {
    nt_tensor own = golden_input(c, "log_prediction");
    if (strcmp(golden_text(c, "reduction"), "batchmean"))
        return nt_kl_divergence(own, target(c), .reduction = reduction_of(c));
    return nt_div(nt_kl_divergence(own, target(c), .reduction = NT_SUM), (double)nt_shape_of(own).dims[0]);
}

static nt_tensor build_hinge(const golden_case *c) {
    return nt_hinge(golden_input(c, "score"), golden_input(c, "target"), .reduction = reduction_of(c));
}

static nt_tensor build_hinge_squared(const golden_case *c) {
    return nt_hinge(golden_input(c, "score"), golden_input(c, "target"), .squared = true);
}

static nt_tensor build_hinge_classes(const golden_case *c) {
    return nt_hinge_classes(golden_input(c, "score"), golden_input(c, "labels"), .margin = golden_number(c, "margin"));
}

static nt_tensor build_cosine(const golden_case *c) {
    return nt_cosine_loss(golden_input(c, "a"), golden_input(c, "b"), .reduction = reduction_of(c));
}

static nt_tensor build_info_nce(const golden_case *c) {
    return nt_info_nce(golden_input(c, "a"), golden_input(c, "b"), golden_number(c, "temperature"));
}

static const golden_row rows[] = {
    {"cross_entropy", build_cross_entropy},
    {"cross_entropy_soft", build_soft},
    {"bce_logits", build_binary},
    {"mse", build_mse},
    {"mae", build_mae},
    {"huber", build_huber},
    {"smooth_l1", build_smooth_l1},
    {"kl", build_kl},
    {"hinge", build_hinge},
    {"hinge_squared", build_hinge_squared},
    {"hinge_multi", build_hinge_classes},
    {"cosine", build_cosine},
    {"info_nce", build_info_nce},
};
/* With every row ignored the mean is 0 here and 0 / 0 there. */
static const golden_plan plan = {"losses.json", rows, sizeof rows / sizeof *rows, {"cross_entropy/all_ignored/mean"}};

static void run_cases(nt_dtype floating) {
    golden_check(&plan, floating);
}

static void losses_agree_in_f32(void **state) {
    (void)state;
    run_cases(NT_F32);
}

static void losses_agree_in_f64(void **state) {
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

/* Two rows of three logits of which one does not count: by its label, or by a class of weight 0. */
static void what_does_not_count_may_be_no_number(void **state) {
    (void)state;
    static const float logits[] = {1, 2, 4, NAN, INFINITY, -INFINITY}, masked[] = {1, -INFINITY, 4, 2, -INFINITY, 1};
    nt_array *arrays[] = {nt_array_from(NT_F32, nt_dims(2, 3), logits), nt_array_from(NT_F32, nt_dims(2, 3), masked),
                          nt_array_from(NT_I32, nt_dims(2), (int32_t[]){2, -1}),
                          nt_array_from(NT_I32, nt_dims(2), (int32_t[]){0, 1}),
                          nt_array_from(NT_F32, nt_dims(3), (float[]){2, 0, 1})};
    nt_tensor in[5], slopes[2];
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    for (int i = 0; i < 5; i++) in[i] = traced_input(i, (nt__type){arrays[i]->dtype, arrays[i]->shape});
    nt_tensor ignored = nt_cross_entropy(in[0], in[2], .ignores = true, .ignored = -1);
    nt_tensor weighted = nt_cross_entropy(in[1], in[3], .class_weights = in[4]);
    nt__gradient(nt_add(ignored, weighted), in, 2, slopes, NULL);
    nt__result wanted[] = {
        {"ignored", ignored, {0}}, {"weighted", weighted, {0}}, {"a", slopes[0], {0}}, {"b", slopes[1], {0}}};
    traced program = traced_compile(traced_engine(), wanted, 4);
    nt__trace_end(graph);
    nt_array *out[4];
    traced_run(&program, arrays, out);
    traced_free(&program);
    assert_true(fabs(nt_array_get(out[0], 0) - (log(exp(1) + exp(2) + exp(4)) - 4)) < 1e-6);
    assert_true(fabs(nt_array_get(out[1], 0) - (log(exp(1) + exp(4)) - 1)) < 1e-6);
    for (int i = 0; i < 6; i++) {
        assert_true(isfinite(nt_array_get(out[2], i)) && isfinite(nt_array_get(out[3], i)));
        assert_true(i < 3 || (nt_array_get(out[2], i) == 0 && nt_array_get(out[3], i) == 0));
    }
    for (int i = 0; i < 5; i++) nt_array_free(arrays[i]);
    for (int i = 0; i < 4; i++) nt_array_free(out[i]);
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

/* ---- labels that are no classes --------------------------------------------------------------------------------- */

/* Of four rows with the labels 0, 9, -1 and 1 of three classes, which the trace computes. */
enum { STRANGERS = 4 };

typedef nt_tensor (*of_labelled)(nt_tensor logits, nt_tensor labels);
static nt_tensor of_all(nt_tensor logits, nt_tensor labels) {
    return nt_cross_entropy(logits, labels, .reduction = NT_NONE);
}
static nt_tensor without_minus_one(nt_tensor logits, nt_tensor labels) {
    return nt_cross_entropy(logits, labels, .reduction = NT_NONE, .ignores = true, .ignored = -1);
}
static nt_tensor mean_without_minus_one(nt_tensor logits, nt_tensor labels) {
    return nt_cross_entropy(logits, labels, .ignores = true, .ignored = -1);
}
static nt_tensor hinge_of_all(nt_tensor logits, nt_tensor labels) {
    return nt_hinge_classes(logits, labels, .reduction = NT_NONE);
}

static void check_strangers(of_labelled loss, size_t count, const bool *is_nan) {
    static const float zeros[STRANGERS * 3];
    nt_array *arrays[] = {nt_array_from(NT_F32, nt_dims(STRANGERS, 3), zeros),
                          nt_array_from(NT_I32, nt_dims(STRANGERS), (int32_t[]){-1, 8, -2, 0})};
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    nt_tensor logits = traced_input(0, (nt__type){NT_F32, nt_dims(STRANGERS, 3)});
    nt_tensor labels = nt_add(traced_input(1, (nt__type){NT_I32, nt_dims(STRANGERS)}), 1);
    nt__result result = {"loss", loss(logits, labels), {0}};
    traced program = traced_compile(traced_engine(), &result, 1);
    nt__trace_end(graph);
    nt_array *out;
    traced_run(&program, arrays, &out);
    traced_free(&program);
    assert_int_equal(nt_shape_elements(out->shape), count);
    for (size_t i = 0; i < count; i++) assert_int_equal(isnan(nt_array_get(out, (int64_t)i)), is_nan[i]);
    nt_array_free(out);
    for (int i = 0; i < 2; i++) nt_array_free(arrays[i]);
}

static void a_computed_label_that_is_no_class_costs_nan(void **state) {
    (void)state;
    check_strangers(of_all, STRANGERS, (bool[]){false, true, true, false});
    check_strangers(without_minus_one, STRANGERS, (bool[]){false, true, false, false});
    check_strangers(mean_without_minus_one, 1, (bool[]){true});
    check_strangers(hinge_of_all, STRANGERS, (bool[]){false, true, true, false});
}

/* Whether the program looks whether labels are classes. The field has the role that the host checks. */
static bool looks_at_labels(bool is_field, int64_t ignored) {
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    nt__claims_are_checked(is_field ? 0 : 1);
    nt_tensor logits = traced_input(0, (nt__type){NT_F32, nt_dims(4, 3)});
    nt_tensor field = nt_convert(traced_input(1, (nt__type){NT_U8, nt_dims(4)}), NT_I64);
    nt_tensor loss = nt_cross_entropy(logits, field, .ignores = ignored != 0, .ignored = ignored);
    nt__printed printed;
    assert_ok(nt__print("looking", &(nt__result){"loss", loss, {0}}, 1, &printed));
    bool looks = strstr(printed.text.data, "comparison_direction GE") != NULL;
    nt__printed_free(&printed);
    nt__trace_end(graph);
    return looks;
}

static void the_program_does_not_look_at_what_the_host_checks(void **state) {
    (void)state;
    assert_false(looks_at_labels(true, 0));
    assert_true(looks_at_labels(false, 0));
    assert_false(looks_at_labels(true, -1));
    assert_true(looks_at_labels(true, -100)); /* the host lets -50 through, which is in the range */
    assert_false(looks_at_labels(true, 3));
    assert_true(looks_at_labels(true, 4));
}

/* ---- a sum over a count ----------------------------------------------------------------------------------------- */

/* The loss and its slope in the sum. */
static void run_quotient(float sum, float count, double *loss, double *slope) {
    nt_array *arrays[] = {nt_array_from(NT_F32, (nt_shape){0}, &sum), nt_array_from(NT_F32, (nt_shape){0}, &count)};
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    nt_tensor inputs[2], gradient;
    for (int i = 0; i < 2; i++) inputs[i] = traced_input(i, (nt__type){NT_F32, {0}});
    nt_tensor value = nt_weighted_loss(inputs[0], inputs[1]);
    nt__gradient(value, inputs, 1, &gradient, NULL);
    traced program =
        traced_compile(traced_engine(), (nt__result[]){{"loss", value, {0}}, {"gradient", gradient, {0}}}, 2);
    nt__trace_end(graph);
    nt_array *results[2];
    traced_run(&program, arrays, results);
    traced_free(&program);
    *loss = nt_array_get(results[0], 0);
    *slope = nt_array_get(results[1], 0);
    for (int i = 0; i < 2; i++) nt_array_free(arrays[i]), nt_array_free(results[i]);
}

static void a_weighted_loss_that_counts_nothing_is_0(void **state) {
    (void)state;
    static const float sums[] = {0, 5, INFINITY, NAN};
    double loss, slope;
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        run_quotient(sums[i], 0, &loss, &slope);
        assert_true(loss == 0 && slope == 0);
    }
    run_quotient(5, 4, &loss, &slope);
    assert_true(loss == 1.25 && slope == 0.25);
    run_quotient(5, -4, &loss, &slope);
    assert_true(isnan(loss));
    run_quotient(5, NAN, &loss, &slope);
    assert_true(isnan(loss));
}

/* ---- reductions that no golden case has ------------------------------------------------------------------------- */

static const float first[] = {1, 2, 0.5f, -1, -1, 0.25f}, second[] = {0.8f, 1.5f, 1, -0.5f, 0.2f, 0.9f};
static const int32_t classes_of_rows[] = {0, 1, 1};
static const float signs[] = {1, -1, 1, 1, -1, -1};

typedef nt_tensor (*reducing)(const nt_tensor *in, nt_reduction reduction);
static nt_tensor info_nce(const nt_tensor *in, nt_reduction reduction) {
    return nt_info_nce(in[0], in[1], 0.5, .reduction = reduction);
}
static nt_tensor hinge_classes(const nt_tensor *in, nt_reduction reduction) {
    return nt_hinge_classes(in[0], in[2], .reduction = reduction);
}
static nt_tensor hinge_classes_squared(const nt_tensor *in, nt_reduction reduction) {
    return nt_hinge_classes(in[0], in[2], .squared = true, .reduction = reduction);
}
static nt_tensor hinge_squared(const nt_tensor *in, nt_reduction reduction) {
    return nt_hinge(in[0], in[3], .squared = true, .reduction = reduction);
}

/* Each loss alone, its sum and its mean, computed in f64 by another library. */
static const struct {
    reducing loss;
    size_t count;
    double each[6], sum, mean;
} reductions[] = {
    {info_nce,
     3,
     {0.42503908600597706, 0.15420052266257672, 1.2981774632146839},
     1.8774170718832377,
     0.6258056906277459},
    {hinge_classes, 3, {1, 1.25, 0}, 2.25, 0.75},
    {hinge_classes_squared, 3, {2, 3.125, 0}, 5.125, 1.7083333333333333},
    {hinge_squared, 6, {0, 9, 0.25, 4, 0, 1.5625}, 14.8125, 2.46875},
};

static void check_reductions(size_t row) {
    nt_array *arrays[] = {nt_array_from(NT_F32, nt_dims(3, 2), first), nt_array_from(NT_F32, nt_dims(3, 2), second),
                          nt_array_from(NT_I32, nt_dims(3), classes_of_rows),
                          nt_array_from(NT_F32, nt_dims(3, 2), signs)};
    enum { INPUT_COUNT = sizeof arrays / sizeof *arrays };
    nt_tensor in[INPUT_COUNT];
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    for (int i = 0; i < INPUT_COUNT; i++) in[i] = traced_input(i, (nt__type){arrays[i]->dtype, arrays[i]->shape});
    nt__result results[3];
    for (int i = NT_MEAN; i <= NT_NONE; i++) results[i] = (nt__result){"loss", reductions[row].loss(in, i), {0}};
    traced program = traced_compile(traced_engine(), results, 3);
    nt__trace_end(graph);
    nt_array *out[3];
    traced_run(&program, arrays, out);
    traced_free(&program);
    assert_true(fabs(nt_array_get(out[NT_MEAN], 0) - reductions[row].mean) < 1e-6);
    assert_true(fabs(nt_array_get(out[NT_SUM], 0) - reductions[row].sum) < 2e-6);
    assert_int_equal(nt_shape_elements(out[NT_NONE]->shape), reductions[row].count);
    for (size_t i = 0; i < reductions[row].count; i++)
        assert_true(fabs(nt_array_get(out[NT_NONE], (int64_t)i) - reductions[row].each[i]) < 1e-6);
    for (int i = 0; i < INPUT_COUNT; i++) nt_array_free(arrays[i]);
    for (int i = 0; i < 3; i++) nt_array_free(out[i]);
}

static void losses_are_reduced_as_asked(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++) check_reductions(i);
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
    assert_true(claims[0].bounds.low == 0);
    assert_true(claims[0].bounds.high == 9);
    assert_non_null(strstr(claims[0].advice, ".ignores = true"));
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

/* Beside x, which are the logits. */
static nt_tensor narrow(void) {
    return traced_input(1, (nt__type){NT_F32, nt_dims(4, 1)});
}

static nt_tensor labels(void) {
    return traced_input(3, (nt__type){NT_I32, nt_dims(4)});
}

static void soft_of_another_type(const layer_trace *t) {
    nt_cross_entropy(t->x, traced_input(2, (nt__type){NT_F64, nt_dims(4, 10)}));
}

static void soft_that_ignores(const layer_trace *t) {
    nt_cross_entropy(t->x, t->x, .ignores = true, .ignored = -1);
}

static void other_weights(const layer_trace *t) {
    nt_cross_entropy(t->x, labels(), .class_weights = narrow());
}

static void mse_that_broadcasts(const layer_trace *t) {
    nt_mse(t->x, narrow());
}

static void binary_of_integers(const layer_trace *t) {
    (void)t;
    nt_tensor x = labels();
    nt_binary_cross_entropy(x, x);
}

static void hinge_of_labels(const layer_trace *t) {
    nt_hinge_classes(t->x, t->x);
}

static nt_tensor one_hot_targets(void) {
    return traced_input(2, (nt__type){NT_F32, nt_dims(4, 10)});
}

static const nt_tensor never;

/* A call that gives no tensor. */
#define REFUSED(name, call)                     \
    static void name(const layer_trace *t) {    \
        (void)t;                                \
        assert_true(nt__tensor_failed((call))); \
    }
REFUSED(no_logits, nt_cross_entropy(never, labels()))
REFUSED(no_targets, nt_cross_entropy(t->x, never, .reduction = NT_NONE))
REFUSED(no_binary, nt_binary_cross_entropy(t->x, never, .reduction = NT_NONE))
REFUSED(no_hinge, nt_hinge(t->x, never, .reduction = NT_NONE))
REFUSED(no_scores, nt_hinge_classes(never, labels()))
REFUSED(no_labels, nt_hinge_classes(t->x, never))
REFUSED(no_prediction, nt_mse(never, t->x))
REFUSED(no_target, nt_mae(t->x, never))
REFUSED(no_huber, nt_huber(t->x, never))
REFUSED(no_log_prediction, nt_kl_divergence(never, t->x))
REFUSED(no_cosine, nt_cosine_loss(t->x, never))
REFUSED(no_pairs, nt_info_nce(never, never, 1))
REFUSED(no_temperature, nt_info_nce(t->x, t->x, never))
REFUSED(no_sum, nt_weighted_loss(never, 1))
REFUSED(no_count, nt_weighted_loss(nt_sum(t->x), never))
REFUSED(number_of_mse, nt_mse(nt_tensor_number(3), t->x))
REFUSED(number_of_weights, nt_cross_entropy(t->x, labels(), .class_weights = nt_tensor_number(2)))

static void what_was_never_set_is_refused(void **state) {
    (void)state;
#define ZERO_BYTES " was never set: it is zero bytes, not the result of an operation"
    static const layer_refusal cases[] = {
        {no_logits, "cross_entropy: logits" ZERO_BYTES},
        {no_targets, "cross_entropy: targets" ZERO_BYTES},
        {no_binary, "binary_cross_entropy: targets" ZERO_BYTES},
        {no_hinge, "hinge: targets" ZERO_BYTES},
        {no_scores, "hinge_classes: scores" ZERO_BYTES},
        {no_labels, "hinge_classes: labels" ZERO_BYTES},
        {no_prediction, "mse: prediction" ZERO_BYTES},
        {no_target, "mae: target" ZERO_BYTES},
        {no_huber, "huber: target" ZERO_BYTES},
        {no_log_prediction, "kl_divergence: log_prediction" ZERO_BYTES},
        {no_cosine, "cosine_loss: b" ZERO_BYTES},
        {no_pairs, "info_nce: a" ZERO_BYTES},
        {no_temperature, "info_nce: temperature" ZERO_BYTES},
        {no_sum, "weighted_loss: sum" ZERO_BYTES},
        {no_count, "weighted_loss: count" ZERO_BYTES},
        {number_of_mse, "mse: prediction is the number 3 and has to be a tensor; nt_full makes one"},
        {number_of_weights, "cross_entropy: class_weights is the number 2 and has to be a tensor; nt_full makes one"},
    };
    layers_refuse(nt_dims(4, 10), cases, sizeof cases / sizeof *cases);
}

#define CROSS(name, ...) REFUSED(name, nt_cross_entropy(t->x, labels(), __VA_ARGS__))
CROSS(smoothing_above, .label_smoothing = NT_TENSOR(1.5))
CROSS(smoothing_of_1, .label_smoothing = NT_TENSOR(1))
CROSS(smoothing_below, .label_smoothing = NT_TENSOR(-0.1))
CROSS(smoothing_nan, .label_smoothing = NT_TENSOR((double)-NAN))
CROSS(smoothing_of_rows, .label_smoothing = nt_full(NT_F32, nt_dims(4), 0.1))
CROSS(smoothing_of_integers, .label_smoothing = nt_full(NT_I32, nt_dims(), 0))
CROSS(ignored_alone, .ignored = 3)
CROSS(ignored_too_large, .ignores = true, .ignored = (int64_t)1 << 40)
CROSS(another_reduction, .reduction = (nt_reduction)7)
REFUSED(soft_ignored_alone, nt_cross_entropy(t->x, one_hot_targets(), .ignored = -1))
REFUSED(ignored_unsigned, nt_cross_entropy(t->x, nt_convert(labels(), NT_U8), .ignores = true, .ignored = -1))
REFUSED(bool_labels, nt_cross_entropy(t->x, nt_equal(labels(), 0)))
REFUSED(bool_labels_of_hinge, nt_hinge_classes(t->x, nt_equal(labels(), 0)))
REFUSED(delta_below, nt_huber(t->x, t->x, .delta = -1))
REFUSED(delta_nan, nt_huber(t->x, t->x, .delta = NAN))
REFUSED(delta_infinite, nt_huber(t->x, t->x, .delta = INFINITY))
REFUSED(weight_below, nt_binary_cross_entropy(t->x, t->x, .positive_weight = -2))
REFUSED(margin_below, nt_hinge(t->x, t->x, .margin = -1))
REFUSED(margin_of_classes, nt_hinge_classes(t->x, labels(), .margin = -0.5))
REFUSED(temperature_0, nt_info_nce(t->x, t->x, 0))
REFUSED(temperature_below, nt_info_nce(t->x, t->x, -0.1))
REFUSED(temperatures, nt_info_nce(t->x, t->x, nt_full(NT_F32, nt_dims(2), 1)))
REFUSED(reduction_of_mse, nt_mse(t->x, t->x, .reduction = (nt_reduction)3))
REFUSED(reduction_of_hinge, nt_hinge_classes(t->x, labels(), .reduction = (nt_reduction)3))
REFUSED(count_below, nt_weighted_loss(nt_sum(t->x), -3))
REFUSED(count_infinite, nt_weighted_loss(nt_sum(t->x), INFINITY))

static void numbers_out_of_their_range_are_refused(void **state) {
    (void)state;
#define ABOVE_0 "; it must be a finite number above 0"
#define OR_0 ABOVE_0 ", and 0 stands for 1"
#define REDUCTIONS "; it must be NT_MEAN, NT_SUM or NT_NONE"
    static const layer_refusal cases[] = {
        {smoothing_above, "cross_entropy: label_smoothing is 1.5; it must be in 0 <= s < 1"},
        {smoothing_of_1, "cross_entropy: label_smoothing is 1; it must be in 0 <= s < 1"},
        {smoothing_below, "cross_entropy: label_smoothing is -0.1; it must be in 0 <= s < 1"},
        {smoothing_nan, "cross_entropy: label_smoothing is nan; it must be in 0 <= s < 1"},
        {smoothing_of_rows, "cross_entropy: label_smoothing is f32[4]; it must be a floating scalar or a C number"},
        {smoothing_of_integers, "cross_entropy: label_smoothing is i32[]; it must be a floating scalar or a C number"},
        {ignored_alone,
         "cross_entropy: ignored is 3 without .ignores = true, so that no label would be left out: give both"},
        {soft_ignored_alone,
         "cross_entropy: ignored is -1 without .ignores = true, so that no label would be left out: give both"},
        {ignored_too_large,
         "cross_entropy: ignored is 1099511627776, and no label of i32 can be that: convert the labels"},
        {ignored_unsigned, "cross_entropy: ignored is -1, and no label of u8 can be that: convert the labels"},
        {another_reduction, "cross_entropy: reduction is 7" REDUCTIONS},
        {bool_labels, "cross_entropy: needs floating logits [..., classes] and integer labels [...], got f32[4,10] and "
                      "bool[4]"},
        {bool_labels_of_hinge, "hinge_classes: needs floating scores [..., classes] and integer labels [...], got "
                               "f32[4,10] and bool[4]"},
        {delta_below, "huber: delta is -1" OR_0},
        {delta_nan, "huber: delta is nan" OR_0},
        {delta_infinite, "huber: delta is inf" OR_0},
        {weight_below, "binary_cross_entropy: positive_weight is -2" OR_0},
        {margin_below, "hinge: margin is -1" OR_0},
        {margin_of_classes, "hinge_classes: margin is -0.5" OR_0},
        {temperature_0, "info_nce: temperature is 0" ABOVE_0},
        {temperature_below, "info_nce: temperature is -0.1" ABOVE_0},
        {temperatures, "info_nce: temperature is f32[2]; it must be a floating scalar or a C number"},
        {reduction_of_mse, "mse: reduction is 3" REDUCTIONS},
        {reduction_of_hinge, "hinge_classes: reduction is 3" REDUCTIONS},
        {count_below, "weighted_loss: the count is -3; it must be a finite number from 0"},
        {count_infinite, "weighted_loss: the count is inf; it must be a finite number from 0"},
    };
    layers_refuse(nt_dims(4, 10), cases, sizeof cases / sizeof *cases);
}

static void pairs_of_numbers(const layer_trace *t) {
    nt_tensor x = nt_reshape(t->x, 2, 2, 10);
    nt_info_nce(x, x, 1);
}

static void wrong_operands_are_refused(void **state) {
    (void)state;
    static const layer_refusal cases[] = {
        {soft_of_another_type, "cross_entropy: labels are integers [...], and floating targets are like the logits, "
                               "with none ignored; got f32[4,10] and f64[4,10]"},
        {soft_that_ignores, "cross_entropy: labels are integers [...], and floating targets are like the logits, with "
                            "none ignored; got f32[4,10] and f32[4,10]"},
        {other_weights, "cross_entropy: class_weights are f32[4,1]; they must be f32[10]"},
        {mse_that_broadcasts, "mse: needs two floating tensors of one type and shape, got f32[4,10] and f32[4,1]"},
        {binary_of_integers,
         "binary_cross_entropy: needs two floating tensors of one type and shape, got i32[4] and i32[4]"},
        {hinge_of_labels, "hinge_classes: needs floating scores [..., classes] and integer labels [...], got f32[4,10] "
                          "and f32[4,10]"},
        {pairs_of_numbers, "info_nce: needs two tensors [pairs, depth], got f32[2,2,10] twice"},
    };
    layers_refuse(nt_dims(4, 10), cases, sizeof cases / sizeof *cases);
}

/* The ignored label may be any integer; the host checks that labels are classes or between it and these. */
static void an_ignored_label_is_claimed_too(void **state) {
    (void)state;
    static const struct { int64_t ignored, low, limit; } cases[] = {{-1, -1, 10}, {0, 0, 10}, {10, 0, 11}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nt__graph *graph = nt__trace_begin();
        assert_non_null(graph);
        nt_tensor logits = traced_input(0, (nt__type){NT_F32, nt_dims(4, 10)});
        nt_cross_entropy(logits, traced_input(1, (nt__type){NT_I32, nt_dims(4)}), .ignores = true,
                         .ignored = cases[i].ignored);
        size_t count;
        const nt__claim *claims = nt__claims(graph, &count);
        assert_int_equal(count, 1);
        assert_true(claims[0].bounds.low == cases[i].low && claims[0].bounds.high == cases[i].limit - 1);
        assert_null(strstr(claims[0].advice, ".ignores"));
        nt__trace_end(graph);
    }
}

/* ---- what is claimed of floating numbers ------------------------------------------------------------------------ */

enum { CLAIMED = 7 };

static nt_tensor claimed(nt_shape shape) {
    return traced_input(CLAIMED, (nt__type){NT_F32, shape});
}

static void claim_soft(const layer_trace *t) {
    nt_cross_entropy(t->x, claimed(nt_dims(4, 10)));
}
static void claim_soft_reshaped(const layer_trace *t) {
    nt_cross_entropy(t->x,
                     nt_convert(nt_reshape(traced_input(CLAIMED, (nt__type){NT_U8, nt_dims(2, 20)}), 4, 10), NT_F32));
}
static void claim_soft_turned(const layer_trace *t) {
    nt_cross_entropy(t->x, nt_transpose(claimed(nt_dims(10, 4)), 1, 0));
}
static void claim_soft_joined(const layer_trace *t) {
    nt_cross_entropy(t->x, nt_concatenate(1, claimed(nt_dims(4, 2)), nt_full(NT_F32, nt_dims(4, 8), 0)));
}
static void claim_soft_stretched(const layer_trace *t) {
    nt_kl_divergence(t->x, nt_broadcast(claimed(nt_dims(1, 10)), nt_dims(4, 10)));
}
static void claim_binary(const layer_trace *t) {
    nt_binary_cross_entropy(t->x, nt_stop_gradient(claimed(nt_dims(4, 10))));
}
static void claim_binary_turned(const layer_trace *t) {
    nt_binary_cross_entropy(t->x, nt_transpose(claimed(nt_dims(10, 4)), 1, 0));
}
static void claim_binary_stretched(const layer_trace *t) {
    nt_binary_cross_entropy(t->x, nt_broadcast(claimed(nt_dims(4, 1)), nt_dims(4, 10)));
}
static void claim_hinge(const layer_trace *t) {
    nt_hinge(t->x, claimed(nt_dims(4, 10)));
}
static void claim_kl(const layer_trace *t) {
    nt_kl_divergence(t->x, claimed(nt_dims(4, 10)));
}
static void claim_flat_kl(const layer_trace *t) {
    nt_kl_divergence(nt_reshape(t->x, 40), claimed(nt_dims(40)));
}
static void claim_smoothing(const layer_trace *t) {
    nt_cross_entropy(t->x, nt_full(NT_I32, nt_dims(4), 1), .label_smoothing = claimed((nt_shape){0}));
}
static void claim_weights(const layer_trace *t) {
    nt_cross_entropy(t->x, nt_full(NT_I32, nt_dims(4), 1), .class_weights = claimed(nt_dims(10)));
}
static void claim_joined_weights(const layer_trace *t) {
    nt_tensor weights = nt_concatenate(0, nt_reshape(claimed((nt_shape){0}), 1), nt_full(NT_F32, nt_dims(9), 1));
    nt_cross_entropy(t->x, nt_full(NT_I32, nt_dims(4), 1), .class_weights = weights);
}
static void claim_scaled_weights(const layer_trace *t) {
    nt_tensor weights = nt_div(nt_mul(nt_full(NT_F32, nt_dims(10), 2), claimed((nt_shape){0})), 3);
    nt_cross_entropy(t->x, nt_full(NT_I32, nt_dims(4), 1), .class_weights = weights);
}
static void claim_temperature(const layer_trace *t) {
    nt_info_nce(t->x, t->x, claimed((nt_shape){0}));
}
static void claim_count(const layer_trace *t) {
    nt_weighted_loss(nt_sum(t->x), claimed((nt_shape){0}));
}
static void claim_nothing_of_what_is_computed(const layer_trace *t) {
    nt_binary_cross_entropy(t->x, nt_div(claimed(nt_dims(4, 10)), 255));
    nt_binary_cross_entropy(t->x, nt_convert(nt_convert(claimed(nt_dims(4, 10)), NT_BOOL), NT_F32));
    nt_binary_cross_entropy(t->x, nt_convert(nt_convert(claimed(nt_dims(4, 10)), NT_I32), NT_F32));
    nt_info_nce(t->x, t->x, nt_neg(claimed((nt_shape){0})));
    nt_info_nce(t->x, t->x, nt_mul(claimed((nt_shape){0}), -1));
}

static void ranges_of_floating_numbers_are_claimed(void **state) {
    (void)state;
    static const struct {
        void (*call)(const layer_trace *t);
        nt__bounds bounds;
    } cases[] = {
        {claim_soft, {.low = 0, .high = 1, .sums_to_1 = 10}},
        {claim_soft_reshaped, {.low = 0, .high = 1, .sums_to_1 = 10}},
        {claim_soft_turned, {.low = 0, .high = 1}},
        {claim_soft_joined, {.low = 0, .high = 1}},
        {claim_soft_stretched, {.low = 0, .high = 1}},
        {claim_binary, {.low = 0, .high = 1}},
        {claim_binary_turned, {.low = 0, .high = 1}},
        {claim_binary_stretched, {.low = 0, .high = 1}},
        {claim_hinge, {.low = -1, .high = 1, .signs = true}},
        {claim_kl, {.low = 0, .high = 1, .sums_to_1 = 10}},
        {claim_flat_kl, {.low = 0, .high = 1}},
        {claim_smoothing, {.low = 0, .high = 1, .below_high = true}},
        {claim_weights, {.low = 0, .high = INFINITY}},
        {claim_joined_weights, {.low = 0, .high = INFINITY}},
        {claim_scaled_weights, {.low = 0, .high = INFINITY}},
        {claim_temperature, {.low = 0, .high = INFINITY, .above_low = true}},
        {claim_count, {.low = 0, .high = INFINITY}},
        {claim_nothing_of_what_is_computed, {.high = 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        layer_trace t = layer_trace_begin(nt_dims(4, 10));
        size_t count;
        cases[i].call(&t);
        assert_int_equal(nt__trace_status(t.graph), NT_OK);
        const nt__claim *claims = nt__claims(t.graph, &count);
        assert_int_equal(count, cases[i].bounds.high != 0);
        if (count) assert_int_equal(claims[0].index, CLAIMED);
        if (count) assert_true(nt__bounds_equal(&claims[0].bounds, &cases[i].bounds));
        layer_trace_end(&t);
    }
}

static void constant_targets(const layer_trace *t) {
    nt_binary_cross_entropy(t->x, nt_full(NT_F32, nt_dims(4, 10), 2));
}
static void joined_constants(const layer_trace *t) {
    nt_tensor weights = nt_concatenate(0, nt_full(NT_F32, nt_dims(9), 1), nt_full(NT_F32, nt_dims(1), -2));
    nt_cross_entropy(t->x, nt_full(NT_I32, nt_dims(4), 1), .class_weights = weights);
}
static void constant_weights(const layer_trace *t) {
    static const float weights[10] = {1, 1, 1, -1};
    nt_array *array = nt_array_from(NT_F32, nt_dims(10), weights);
    nt_cross_entropy(t->x, nt_full(NT_I32, nt_dims(4), 1), .class_weights = nt_constant(array));
    nt_array_free(array);
}

static void constants_out_of_their_range_are_refused(void **state) {
    (void)state;
    static const layer_refusal cases[] = {
        {constant_targets, "binary_cross_entropy: targets: 2 is not in 0..1"},
        {joined_constants, "cross_entropy: class_weights: -2 is not a finite number from 0 on"},
        {constant_weights, "cross_entropy: class_weights, element 3: -1 is not a finite number from 0 on"},
    };
    layers_refuse(nt_dims(4, 10), cases, sizeof cases / sizeof *cases);
}

static int close_engine(void **state) {
    (void)state;
    assert_ok(nt__engine_close());
    return nt__memory().live ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_agree_in_f32),
        cmocka_unit_test(losses_agree_in_f64),
        cmocka_unit_test(a_masked_class_costs_nothing),
        cmocka_unit_test(the_label_of_a_masked_class_costs_infinity),
        cmocka_unit_test(a_nan_logit_reaches_the_loss),
        cmocka_unit_test(what_does_not_count_may_be_no_number),
        cmocka_unit_test(the_smoothing_may_be_an_input),
        cmocka_unit_test(a_computed_label_that_is_no_class_costs_nan),
        cmocka_unit_test(the_program_does_not_look_at_what_the_host_checks),
        cmocka_unit_test(a_weighted_loss_that_counts_nothing_is_0),
        cmocka_unit_test(losses_are_reduced_as_asked),
        cmocka_unit_test(labels_are_claimed_to_be_classes),
        cmocka_unit_test(wrong_logits_and_labels_are_refused),
        cmocka_unit_test(wrong_operands_are_refused),
        cmocka_unit_test(what_was_never_set_is_refused),
        cmocka_unit_test(numbers_out_of_their_range_are_refused),
        cmocka_unit_test(an_ignored_label_is_claimed_too),
        cmocka_unit_test(ranges_of_floating_numbers_are_claimed),
        cmocka_unit_test(constants_out_of_their_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, close_engine);
}
