/* Golden trajectories of src/optim: reads cases of their files, makes the rules and layouts that they name, and
 * compares arrays with the numbers and tolerances of a step. Not here: running them, which is stepper.h's. Include
 * after cmocka.
 */
#ifndef NT_TESTS_OPTIM_TRAJECTORIES_H
#define NT_TESTS_OPTIM_TRAJECTORIES_H

#include "../graph/golden.h"
#include "optim/optim.h"

/* The parameters of a trajectory. */
enum { SIZE = 10 };

static const nt_dtype precisions[] = {NT_F32, NT_F64};

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static inline const json_t *member(const json_t *object, const char *key) {
    const json_t *found = json_object_get(object, key);
    if (!found) fail_msg("no '%s'", key);
    return found;
}

static inline const json_t *find_case(const json_t *document, const char *name) {
    const json_t *json;
    size_t index;
    json_array_foreach(json_object_get(document, "cases"), index,
                       json) if (strcmp(json_string_value(json_object_get(json, "name")), name) == 0) return json;
    fail_msg("no case '%s'", name);
    return NULL;
}

static inline double setting(const json_t *settings, const char *key) {
    return json_number_value(json_object_get(settings, key));
}

static inline void take_row(const json_t *list, size_t row, size_t width, double *out) {
    for (size_t i = 0; i < width; i++) out[i] = golden_element(list, row * width + i);
}

/* ---- what a case is of ------------------------------------------------------------------------------------------ */

/* The file's leaves, all in one group. */
static inline nt__layout layout_of(const json_t *document, nt_dtype dtype) {
    nt__layout layout;
    nt__leaf leaves[SIZE];
    const json_t *json;
    size_t index;
    json_array_foreach(member(document, "layout"), index, json) leaves[index] = (nt__leaf){
        .path = json_string_value(member(json, "leaf")), .type = {dtype, golden_shape_of(member(json, "shape"))}};
    assert_ok(nt__layout_build(leaves, json_array_size(member(document, "layout")), NULL, &layout));
    return layout;
}

static inline double beta(const json_t *settings, size_t index) {
    return json_number_value(json_array_get(json_object_get(settings, "beta"), index));
}

static inline nt_adam_options adam_options(const json_t *s) {
    return (nt_adam_options){.beta1 = beta(s, 0), .beta2 = beta(s, 1), .epsilon = setting(s, "epsilon")};
}

/* Decay multiplies by the rate itself; the file's lambda is that product. */
static inline nt_rule decay_of(const json_t *s, double eta) {
    return nt_decay(setting(s, "lambda") / eta);
}

static inline nt_rule rule_of(const char *name, const json_t *s, double eta) {
    nt_adam_options as_adam = adam_options(s);
    double decay = setting(s, "lambda");
    if (strcmp(name, "Descent") == 0) return nt_sgd();
    if (strcmp(name, "Momentum") == 0) return nt_momentum(.rho = setting(s, "rho"));
    if (strcmp(name, "Nesterov") == 0) return nt_nesterov(.rho = setting(s, "rho"));
    if (strcmp(name, "Adam") == 0) return nt_adam_with(as_adam);
    if (strcmp(name, "RAdam") == 0) return nt_radam_with(as_adam);
    if (strncmp(name, "NAdam", 5) == 0)
        return nt_nadam(.beta1 = as_adam.beta1, .beta2 = as_adam.beta2, .epsilon = as_adam.epsilon,
                        .momentum_decay = setting(s, "momentum_decay"));
    if (strcmp(name, "Adamax") == 0) return nt_adamax_with(as_adam);
    if (strncmp(name, "AMSGrad", 7) == 0)
        return nt_amsgrad(.beta1 = as_adam.beta1, .beta2 = as_adam.beta2, .epsilon = as_adam.epsilon,
                          .corrected = strcmp(name, "AMSGrad_corrected") == 0);
    if (strcmp(name, "AdamW") == 0)
        return nt_adamw(.beta1 = as_adam.beta1, .beta2 = as_adam.beta2, .epsilon = as_adam.epsilon,
                        .weight_decay = decay, .uncoupled = json_is_false(json_object_get(s, "couple")));
    if (strcmp(name, "Lion") == 0)
        return nt_lion(.beta1 = as_adam.beta1, .beta2 = as_adam.beta2, .weight_decay = decay);
    if (strcmp(name, "RMSprop") == 0)
        return nt_rmsprop(.alpha = setting(s, "alpha"), .epsilon = as_adam.epsilon, .momentum = setting(s, "momentum"),
                          .centered = json_is_true(json_object_get(s, "centered")));
    if (strcmp(name, "Adagrad") == 0)
        return nt_adagrad(.epsilon = as_adam.epsilon, .initial_accumulator = setting(s, "initial_accumulator"));
    if (strcmp(name, "Adadelta") == 0) return nt_adadelta(.rho = setting(s, "rho"), .epsilon = as_adam.epsilon);
    if (strcmp(name, "LAMB") == 0)
        return nt_lamb(.beta1 = as_adam.beta1, .beta2 = as_adam.beta2, .epsilon = as_adam.epsilon,
                       .weight_decay = decay);
    if (strcmp(name, "LARS") == 0)
        return nt_lars(.momentum = setting(s, "momentum"), .trust = setting(s, "trust_coefficient"),
                       .epsilon = setting(s, "epsilon"), .weight_decay = decay,
                       .nesterov = json_is_true(json_object_get(s, "nesterov")));
    if (strcmp(name, "Adafactor") == 0)
        return nt_adafactor(.decay_rate = setting(s, "decay_rate"),
                            .factored_from = setting(s, "min_dim_size_to_factor"),
                            .clipping_threshold = setting(s, "clipping_threshold"),
                            .no_parameter_scale = json_is_false(json_object_get(s, "multiply_by_parameter_scale")));
    if (strcmp(name, "Muon") == 0) return nt_muon(.beta = setting(s, "beta"), .epsilon = setting(s, "epsilon"));
    if (strcmp(name, "WeightDecay") == 0) return nt_weight_decay(.weight_decay = decay);
    if (strcmp(name, "ClipGrad") == 0) return nt_clip_grad(.delta = setting(s, "delta"));
    if (strcmp(name, "ClipNorm") == 0) return nt_clip_norm(.omega = setting(s, "omega"), .p = setting(s, "p"));
    if (strcmp(name, "Decay") != 0) fail_msg("no rule '%s'", name);
    return decay_of(s, eta);
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

/* Elements first, first + stride, ... of a case's array `key`, as rows of `width` a step. */
typedef struct expectation {
    const char *key;
    size_t width, first, stride;
} expectation;

static inline size_t count_wrong(const json_t *c, nt_dtype dtype, size_t step, expectation e, const nt_array *got) {
    const char *precision = nt_dtype_name(dtype);
    const json_t *numbers = member(member(c, precision), e.key);
    const json_t *tolerance = member(member(member(c, "tolerance"), e.key), precision);
    double relative = json_number_value(member(tolerance, "rtol")),
           absolute = json_number_value(member(tolerance, "atol"));
    size_t wrong = 0, count = (size_t)nt_shape_elements(got->shape);
    for (size_t i = 0; i < count; i++) {
        double element = nt_array_get(got, (int64_t)i);
        double expected = golden_element(numbers, step * e.width + e.first + i * e.stride);
        if (golden_close(element, expected, relative, absolute)) continue;
        print_error("%s %s, step %zu: %s[%zu] is %.17g, expected %.17g within %g relative + %g\n", precision,
                    json_string_value(member(c, "name")), step + 1, e.key, i, element, expected, relative, absolute);
        wrong++;
    }
    return wrong;
}

#endif
