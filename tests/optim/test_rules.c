/* src/optim: the rules and the clip against trusted trajectories, parameters and states after every step, f32 and f64;
 * and what the optimizer program's text holds. Rule numbers (F, L) are those of the reference's description.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../graph/golden.h"
#include "stepper.h"

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static const json_t *member(const json_t *object, const char *key) {
    const json_t *found = json_object_get(object, key);
    if (!found) fail_msg("no '%s'", key);
    return found;
}

static const json_t *find_case(const json_t *document, const char *name) {
    const json_t *json;
    size_t index;
    json_array_foreach(json_object_get(document, "cases"), index,
                       json) if (strcmp(json_string_value(json_object_get(json, "name")), name) == 0) return json;
    fail_msg("no case '%s'", name);
    return NULL;
}

static double setting(const json_t *settings, const char *key) {
    return json_number_value(json_object_get(settings, key));
}

static double beta(const json_t *settings, size_t index) {
    return json_number_value(json_array_get(json_object_get(settings, "beta"), index));
}

static nt_adam_options adam_options(const json_t *s) {
    return (nt_adam_options){.beta1 = beta(s, 0), .beta2 = beta(s, 1), .epsilon = setting(s, "epsilon")};
}

/* Decay multiplies by the rate itself; the file's lambda is that product. */
static nt_rule decay_of(const json_t *s, double eta) {
    return nt_decay(setting(s, "lambda") / eta);
}

static nt_rule rule_of(const char *name, const json_t *s, double eta) {
    nt_adam_options as_adam = adam_options(s);
    double decay = setting(s, "lambda");
    if (strcmp(name, "Descent") == 0) return nt_sgd();
    if (strcmp(name, "Momentum") == 0) return nt_momentum(.rho = setting(s, "rho"));
    if (strcmp(name, "Nesterov") == 0) return nt_nesterov(.rho = setting(s, "rho"));
    if (strcmp(name, "Adam") == 0) return nt_adam_with(as_adam);
    if (strcmp(name, "RAdam") == 0) return nt_radam_with(as_adam);
    if (strcmp(name, "NAdam") == 0) return nt_nadam_with(as_adam);
    if (strcmp(name, "Adamax") == 0) return nt_adamax_with(as_adam);
    if (strcmp(name, "AMSGrad") == 0) return nt_amsgrad_with(as_adam);
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

/* The rate of a chain is that of the rule which has one. */
static double eta_of(const json_t *chain) {
    const json_t *s;
    size_t index;
    double eta = 0;
    json_array_foreach(chain, index, s) if (json_object_get(s, "eta")) eta = setting(s, "eta");
    return eta;
}

static nt_rule chain_of(const json_t *chain) {
    nt_rule rules[NT_CHAIN_MAX];
    const json_t *s;
    size_t index;
    json_array_foreach(chain, index, s) rules[index] = rule_of(json_string_value(member(s, "rule")), s, eta_of(chain));
    nt_rule rule = nt_chain_of(rules, json_array_size(chain));
    assert_ok(nt__rule_check(&rule));
    return rule;
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

/* Elements first, first + stride, ... of a case's array `key`, as rows of `width` a step. */
typedef struct expectation {
    const char *key;
    size_t width, first, stride;
} expectation;

static size_t count_wrong(const json_t *c, nt_dtype dtype, size_t step, expectation e, const nt_array *got) {
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

/* ---- one rule (F1, F4, F6) -------------------------------------------------------------------------------------- */

enum { SIZE = 10 };

static void take_row(const json_t *list, size_t row, size_t width, double *out) {
    for (size_t i = 0; i < width; i++) out[i] = golden_element(list, row * width + i);
}

/* The file's names of the states: the powers of both betas are its pair bt, of one alone b1t. */
static expectation expected_state(const json_t *c, const nt__state *state) {
    static char key[64];
    const char *name = state->state->name, *rule = state->link->kind->name;
    bool single = json_object_get(member(c, "f64"), "b1t") != NULL;
    size_t size = state->state->is_scalar ? 1 : SIZE;
    expectation e = {name, size, 0, 1};
    if (strncmp(name, "power", 5) == 0)
        e = single ? (expectation){"b1t", 1, 0, 1} : (expectation){"bt", 2, name[5] == '2', 1};
    if (json_object_get(member(c, "f64"), e.key)) return e;
    snprintf(key, sizeof key, "%s.%s", rule, e.key);
    e.key = key;
    return e;
}

static size_t compare_step(const json_t *c, nt_dtype dtype, size_t step, stepper *s) {
    size_t wrong = count_wrong(c, dtype, step, (expectation){"x", SIZE, 0, 1}, *stepper_array(s, 0, PARAMETERS));
    nt__state state;
    bool states = json_object_size(member(c, "f64")) > 1; /* some cases have parameters only */
    for (int i = 0; states && nt__rule_state(&s->rules[0], (size_t)i, &state); i++)
        wrong += count_wrong(c, dtype, step, expected_state(c, &state), *stepper_array(s, 0, STATE + i));
    return wrong;
}

static const json_t *data_of(const json_t *c, const char *key) {
    return member(member(c, key), "data");
}

/* What the decay spares and leads to, where the case has it. */
static void set_decay(const json_t *c, stepper *s) {
    double row[SIZE];
    if (s->spares) {
        take_row(data_of(c, "no_decay_mask"), 0, SIZE, row);
        stepper_set(s, 0, DECAYED, row);
    }
    if (s->anchored) {
        take_row(data_of(c, "anchor"), 0, SIZE, row);
        stepper_set(s, 0, ANCHOR, row);
    }
}

/* The file's leaves, all in one group. */
static nt__layout layout_of(const json_t *document, nt_dtype dtype) {
    nt__layout layout;
    nt__leaf leaves[SIZE];
    const json_t *json;
    size_t index;
    json_array_foreach(member(document, "layout"), index, json) leaves[index] = (nt__leaf){
        .path = json_string_value(member(json, "leaf")), .type = {dtype, golden_shape_of(member(json, "shape"))}};
    assert_ok(nt__layout_build(leaves, json_array_size(member(document, "layout")), NULL, &layout));
    return layout;
}

static size_t run_rule_case(const json_t *document, const json_t *c, nt_dtype dtype) {
    const json_t *sequence = member(document, json_string_value(member(c, "sequence")));
    nt__layout layout = layout_of(document, dtype);
    stepper s = {.group_count = 1, .rules = {chain_of(member(c, "chain"))}, .groups = {layout.groups[0]}};
    s.spares = json_object_get(c, "no_decay_mask") != NULL;
    s.anchored = json_object_get(c, "anchor") != NULL;
    stepper_compile(&s, 0);
    double row[SIZE], eta = eta_of(member(c, "chain"));
    take_row(member(sequence, "x0"), 0, SIZE, row);
    stepper_set(&s, 0, PARAMETERS, row);
    stepper_set(&s, 0, RATE, &eta);
    set_decay(c, &s);
    size_t wrong = 0, steps = (size_t)json_integer_value(member(c, "steps"));
    assert_true(steps >= 12);
    for (size_t step = 0; step < steps; step++) {
        take_row(member(sequence, "gradients"), step, SIZE, row);
        stepper_set(&s, 0, GRADIENT, row);
        stepper_step(&s);
        wrong += compare_step(c, dtype, step, &s);
    }
    stepper_free(&s);
    nt__layout_free(&layout);
    return wrong;
}

static const nt_dtype precisions[] = {NT_F32, NT_F64};

static void run_cases(const char *file, const char *const *names) {
    json_t *document = golden_read(file);
    size_t wrong = 0;
    for (; *names; names++)
        for (int i = 0; i < 2; i++) wrong += run_rule_case(document, find_case(document, *names), precisions[i]);
    json_decref(document);
    assert_int_equal(wrong, 0);
}

static void run_rule_cases(const char *const *names) {
    run_cases("optim/reference_rules.json", names);
}

static void sgd_follows_f1(void **state) {
    (void)state;
    run_rule_cases((const char *const[]){"descent/default", "descent/quarter", NULL});
}

static void adam_follows_f4(void **state) {
    (void)state;
    run_rule_cases((const char *const[]){"adam/default", "adam/fast", NULL});
}

static void radam_follows_f6(void **state) {
    (void)state;
    run_rule_cases((const char *const[]){"radam/default", "radam/beta2_0.9", NULL});
}

static void momentum_and_nesterov_follow_f2_f3(void **state) {
    (void)state;
    run_rule_cases(
        (const char *const[]){"momentum/default", "momentum/rho0.5", "nesterov/default", "nesterov/large", NULL});
}

static void adamw_follows_f5(void **state) {
    (void)state;
    run_rule_cases((const char *const[]){"adamw/default_no_decay", "adamw/coupled", "adamw/uncoupled", NULL});
}

static void weight_decay_and_clips_follow_f7_f8_f9(void **state) {
    (void)state;
    run_rule_cases((const char *const[]){"weight_decay_descent", "weight_decay_adam_l2", "clip_grad_descent",
                                         "clip_norm_adam", "clip_norm_p1_descent", NULL});
}

static void decay_follows_f10_l44(void **state) {
    (void)state;
    run_rule_cases((const char *const[]){"decay/zero_anchor_radam", "decay/masked_adam", "decay/anchored_descent",
                                         "decay/anchored_masked_adam", "decay/anchored_w0_momentum", NULL});
}

static void other_rules_follow_their_formulas(void **state) {
    (void)state;
    run_cases("optim/more_rules.json",
              (const char *const[]){"rmsprop/default", "rmsprop/momentum", "rmsprop/centered", "adagrad/default",
                                    "adagrad/initial0.1", "adadelta/default", "adamax/default", "nadam/default",
                                    "amsgrad/raw_maximum", "lion/default", "lion/decay", NULL});
}

static void trust_ratios_are_of_each_array(void **state) {
    (void)state;
    run_cases("optim/more_rules.json",
              (const char *const[]){"lamb/default", "lamb/decay", "lars/default", "lars/decay_nesterov", NULL});
}

static void adafactor_factors_matrices(void **state) {
    (void)state;
    run_cases("optim/more_rules.json", (const char *const[]){"adafactor/factored", "adafactor/not_factored", NULL});
}

/* The file moves its matrix only, so that alone is the group. */
static size_t run_muon(const json_t *document, const json_t *c, nt_dtype dtype) {
    const json_t *sequence = member(document, "sequence");
    nt__layout layout;
    nt__leaf leaf = {.path = "w", .type = {dtype, nt_dims(2, 3)}};
    assert_ok(nt__layout_build(&leaf, 1, NULL, &layout));
    stepper s = {.group_count = 1, .rules = {chain_of(member(c, "chain"))}, .groups = {layout.groups[0]}};
    stepper_compile(&s, 0);
    double row[SIZE], eta = eta_of(member(c, "chain"));
    take_row(member(sequence, "x0"), 0, SIZE, row);
    stepper_set(&s, 0, PARAMETERS, row);
    stepper_set(&s, 0, RATE, &eta);
    size_t wrong = 0, width = json_array_size(member(member(c, "f64"), "m")) / 12;
    for (size_t step = 0; step < 12; step++) {
        take_row(member(sequence, "gradients"), step, SIZE, row);
        stepper_set(&s, 0, GRADIENT, row);
        stepper_step(&s);
        wrong += count_wrong(c, dtype, step, (expectation){"x", SIZE, 0, 1}, *stepper_array(&s, 0, PARAMETERS));
        wrong += count_wrong(c, dtype, step, (expectation){"m", width, 0, 1}, *stepper_array(&s, 0, STATE));
        wrong += count_wrong(c, dtype, step, (expectation){"bt", 1, 0, 1}, *stepper_array(&s, 0, STATE + 2));
    }
    stepper_free(&s);
    nt__layout_free(&layout);
    return wrong;
}

/* A row without gradients, as of a word that is in no sample, beside rows of large ones. */
static void adafactor_keeps_rows_without_gradients(void **state) {
    (void)state;
    const nt__leaf leaf = {"table", {NT_F32, nt_dims(3, 2)}, nt_zeros(), {0}};
    nt__layout layout;
    assert_ok(nt__layout_build(&leaf, 1, NULL, &layout));
    stepper s = {.group_count = 1,
                 .rules = {nt_adafactor(.factored_from = 2, .no_parameter_scale = true)},
                 .groups = {layout.groups[0]}};
    stepper_compile(&s, 0);
    stepper_set(&s, 0, PARAMETERS, (const double[]){1, 1, 1, 1, 1, 1});
    stepper_set(&s, 0, GRADIENT, (const double[]){0, 0, 1e6, 1e6, -1e6, -1e6});
    stepper_set(&s, 0, RATE, (const double[]){0.5});
    for (int step = 0; step < 2; step++) stepper_step(&s);
    /* Scaled gradients are 0, 1 and -1, whose mean square is below the threshold. */
    const double expected[] = {1, 1, 0, 0, 2, 2};
    for (int i = 0; i < 6; i++) assert_true(fabs(stepper_get(&s, 0, PARAMETERS, i) - expected[i]) < 1e-4);
    stepper_free(&s);
    nt__layout_free(&layout);
}

static void muon_makes_steps_of_matrices_orthogonal(void **state) {
    (void)state;
    json_t *document = golden_read("optim/more_rules.json");
    for (int i = 0; i < 2; i++)
        assert_int_equal(run_muon(document, find_case(document, "muon/matrix_only"), precisions[i]), 0);
    json_decref(document);
}

/* What is no matrix takes Adam's steps: those of the file at its vectors alone. */
static void muon_updates_vectors_as_adam_does(void **state) {
    (void)state;
    enum { WEIGHTS = 6, VECTORS = SIZE - WEIGHTS };
    json_t *document = golden_read("optim/reference_rules.json");
    const json_t *c = find_case(document, "adam/default"), *sequence = member(document, "sequence");
    nt__leaf leaves[] = {{.path = "b", .type = {NT_F64, nt_dims(3)}}, {.path = "scale", .type = {NT_F64, nt_dims(1)}}};
    nt__layout layout;
    assert_ok(nt__layout_build(leaves, 2, NULL, &layout));
    stepper s = {.group_count = 1, .rules = {nt_muon(.adam_ratio = 0.5)}, .groups = {layout.groups[0]}};
    stepper_compile(&s, 0);
    double row[SIZE], eta = 2 * eta_of(member(c, "chain"));
    take_row(member(sequence, "x0"), 0, SIZE, row);
    stepper_set(&s, 0, PARAMETERS, row + WEIGHTS);
    stepper_set(&s, 0, RATE, &eta);
    for (size_t step = 0; step < 12; step++) {
        take_row(member(sequence, "gradients"), step, SIZE, row);
        stepper_set(&s, 0, GRADIENT, row + WEIGHTS);
        stepper_step(&s);
        expectation x = {"x", SIZE, WEIGHTS, 1}, v = {"v", SIZE, WEIGHTS, 1};
        assert_int_equal((*stepper_array(&s, 0, STATE + 1))->shape.dims[0], VECTORS);
        assert_int_equal(count_wrong(c, NT_F64, step, x, *stepper_array(&s, 0, PARAMETERS)), 0);
        assert_int_equal(count_wrong(c, NT_F64, step, v, *stepper_array(&s, 0, STATE + 1)), 0);
    }
    stepper_free(&s);
    nt__layout_free(&layout);
    json_decref(document);
}

/* ---- arrays taken together -------------------------------------------------------------------------------------- */

/* Two layers of a tall matrix, a kernel and a bias, between two arrays of other shapes. */
static const nt_shape layers[] = {{2, {5, 4}}, {2, {6, 3}},       {4, {2, 1, 3, 4}}, {1, {3}},
                                  {2, {6, 3}}, {4, {2, 1, 3, 4}}, {1, {3}},          {0, {0}}};
enum { LAYERS = sizeof layers / sizeof *layers };

/* Three steps with numbers that differ from element to element. */
static void take_steps(stepper *s) {
    stepper_compile(s, 0);
    double eta = 0.25;
    stepper_set(s, 0, RATE, &eta);
    nt_array *x = *stepper_array(s, 0, PARAMETERS);
    for (int64_t i = 0; i < x->shape.dims[0]; i++) nt_array_set(x, i, sin((double)i));
    for (int step = 0; step < 3; step++) {
        nt_array *g = *stepper_array(s, 0, GRADIENT);
        for (int64_t i = 0; i < g->shape.dims[0]; i++) nt_array_set(g, i, cos((double)(i * (step + 2))));
        stepper_step(s);
    }
}

/* The rule's parameters on all of the layers and on each array by itself. */
static void arrays_are_updated_as_each_alone(nt_rule rule) {
    nt__leaf leaves[LAYERS];
    nt__layout layout;
    char path[] = "leaf";
    for (size_t i = 0; i < LAYERS; i++) leaves[i] = (nt__leaf){.path = path, .type = {NT_F64, layers[i]}};
    assert_ok(nt__layout_build(leaves, LAYERS, NULL, &layout));
    nt__group together = layout.groups[0], apart = together;
    nt__bundle bundles[LAYERS];
    assert_int_equal(together.bundle_count, 5);
    for (size_t i = 0; i < LAYERS; i++)
        bundles[i] = (nt__bundle){.shape = layers[i],
                                  .length = together.arrays[i].length,
                                  .repeats = 1,
                                  .start = together.arrays[i].offset,
                                  .period = together.arrays[i].length};
    apart.bundles = bundles;
    apart.bundle_count = LAYERS;
    stepper s = {.group_count = 1, .rules = {rule}, .groups = {together}};
    stepper alone = {.group_count = 1, .rules = {rule}, .groups = {apart}};
    take_steps(&s);
    take_steps(&alone);
    for (int64_t i = 0; i < together.length; i++)
        assert_true(golden_close(stepper_get(&s, 0, PARAMETERS, i), stepper_get(&alone, 0, PARAMETERS, i), 1e-9, 0));
    stepper_free(&s);
    stepper_free(&alone);
    nt__layout_free(&layout);
}

static void equal_layers_change_nothing(void **state) {
    (void)state;
    arrays_are_updated_as_each_alone(nt_adafactor(.factored_from = 3));
    arrays_are_updated_as_each_alone(nt_muon());
}

/* Rows and columns of matrices, the matrices of a kernel apart; all elements of what is not factored. */
static void adafactor_keeps_rows_and_columns(void **state) {
    (void)state;
    static const nt_rule_array arrays[] = {{"w", {2, {200, 130}}, 0, 26000},
                                           {"kernel", {4, {3, 3, 128, 128}}, 26000, 147456},
                                           {"narrow", {2, {200, 127}}, 173456, 25400},
                                           {"b", {1, {500}}, 198856, 500}};
    nt_rule rule = nt_adafactor();
    nt__state state_of;
    nt__group group = {.name = "", .dtype = NT_BF16, .length = 199356, .arrays = arrays, .array_count = 4};
    assert_true(nt__rule_state(&rule, 0, &state_of));
    nt__type type = nt__state_type(&state_of, &group), wanted = {NT_F32, nt_dims(330 + 9 * 256 + 25400 + 500)};
    assert_true(nt__type_equal(type, wanted));
}

/* What no_decay spares is scaled by no ratio and does not decay. */
static void trust_ratios_spare_what_does_not_decay(void **state) {
    (void)state;
    for (int lars = 0; lars < 2; lars++) {
        nt__leaf leaves[] = {{.path = "w", .type = {NT_F64, nt_dims(1, 2)}},
                             {.path = "b", .type = {NT_F64, nt_dims(1)}}};
        nt__layout layout;
        assert_ok(nt__layout_build(leaves, 2, NULL, &layout));
        nt_rule rule = lars ? nt_lars(.weight_decay = 1, .trust = 0.5) : nt_lamb(.weight_decay = 1, .epsilon = 1e-30);
        stepper s = {.group_count = 1, .rules = {rule}, .groups = {layout.groups[0]}, .spares = true};
        stepper_compile(&s, 0);
        stepper_set(&s, 0, PARAMETERS, (double[]){3, 4, 5});
        stepper_set(&s, 0, GRADIENT, (double[]){1, -1, 2});
        stepper_set(&s, 0, DECAYED, (double[]){1, 1, 0});
        stepper_set(&s, 0, RATE, (double[]){0.5});
        stepper_step(&s);
        /* Both directions are [3 + 1, 4 - 1], of norm 5 as x; LAMB's of the bias is the sign of its gradient. */
        double scale = lars ? 0.5 * 0.5 : 0.5;
        assert_true(golden_close(stepper_get(&s, 0, PARAMETERS, 0), 3 - scale * 4, 1e-12, 0));
        assert_true(golden_close(stepper_get(&s, 0, PARAMETERS, 1), 4 - scale * 3, 1e-12, 0));
        assert_true(golden_close(stepper_get(&s, 0, PARAMETERS, 2), 5 - 0.5 * (lars ? 2 : 1), 1e-12, 0));
        stepper_free(&s);
        nt__layout_free(&layout);
    }
}

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

/* ---- groups, rates and the clip (L16, L20, L51 to L53) ---------------------------------------------------------- */

/* The layout of a case's groups, and where each leaf lies in the file's own vectors. */
typedef struct composition {
    nt__layout layout;
    int64_t offsets[SIZE];
} composition;

static bool holds(const json_t *list, const char *text) {
    const json_t *item;
    size_t index;
    json_array_foreach(list, index, item) if (strcmp(json_string_value(item), text) == 0) return true;
    return false;
}

static const char *group_of_leaf(const json_t *c, const char *leaf) {
    const json_t *group;
    size_t index;
    json_array_foreach(member(c, "groups"), index,
                       group) if (holds(member(group, "leaves"), leaf)) return json_string_value(member(group, "name"));
    fail_msg("'%s' is in no group", leaf);
    return NULL;
}

static composition composition_of(const json_t *document, const json_t *c, nt_dtype dtype) {
    composition built;
    nt__leaf leaves[SIZE];
    const char *names[SIZE];
    const json_t *json;
    size_t index;
    json_array_foreach(member(document, "layout"), index, json) {
        const char *name = json_string_value(member(json, "leaf"));
        leaves[index] = (nt__leaf){.path = name, .type = {dtype, golden_shape_of(member(json, "shape"))}};
        names[index] = group_of_leaf(c, name);
        built.offsets[index] = json_integer_value(member(json, "offset"));
    }
    assert_ok(nt__layout_build(leaves, json_array_size(member(document, "layout")), names, &built.layout));
    return built;
}

/* Elements of a flat array of the file, given to each group at its leaves' places. */
static void scatter(const composition *of, const double *values, int what, stepper *s) {
    for (size_t i = 0; i < of->layout.row_count; i++) {
        const nt__row *row = &of->layout.rows[i];
        for (int64_t j = 0; j < row->length; j++)
            nt_array_set(*stepper_array(s, (size_t)row->group, what), row->offset + j, values[of->offsets[i] + j]);
    }
}

static void start_parameters(const composition *of, const json_t *x0, stepper *s) {
    double row[SIZE];
    take_row(x0, 0, SIZE, row);
    scatter(of, row, PARAMETERS, s);
}

/* L29: the number of a decay is multiplied by the group's rate in the program. */
static nt_rule rule_of_group(const json_t *group) {
    nt_rule rule = rule_of(json_string_value(member(group, "rule")), group, 0);
    double decay = setting(group, "lambda_base");
    return decay > 0 ? nt_chain(rule, nt_decay(decay)) : rule;
}

/* L49: leaves of one axis are spared, in the groups that say so. */
static void set_spared(const composition *of, const json_t *groups, stepper *s) {
    double elements[SIZE];
    for (size_t i = 0; i < of->layout.row_count; i++) {
        const nt__row *row = &of->layout.rows[i];
        const json_t *group = json_array_get(groups, (size_t)row->group);
        bool spared = json_is_true(member(group, "decay_excludes_1d_leaves")) && row->type.shape.rank == 1;
        for (int64_t j = 0; j < row->length; j++) elements[of->offsets[i] + j] = !spared;
    }
    scatter(of, elements, DECAYED, s);
}

/* Groups without an anchor decay to zero. */
static void set_anchors(const json_t *groups, stepper *s) {
    double row[SIZE];
    for (size_t g = 0; g < s->group_count; g++) {
        const json_t *anchor = member(json_array_get(groups, g), "anchor");
        if (!json_is_array(anchor)) continue;
        take_row(anchor, 0, json_array_size(anchor), row);
        stepper_set(s, g, ANCHOR, row);
    }
}

static const char *with_group(const char *kind, const char *group) {
    static char key[64];
    snprintf(key, sizeof key, "%s.%s", kind, group);
    return key;
}

/* The file's accumulated gradients and rates of a step. */
static void set_step(stepper *s, const json_t *numbers, size_t step) {
    double row[SIZE];
    for (size_t g = 0; g < s->group_count; g++) {
        size_t width = (size_t)s->groups[g].length;
        take_row(member(numbers, with_group("accumulated", s->groups[g].name)), step, width, row);
        stepper_set(s, g, GRADIENT, row);
        double eta = golden_element(member(numbers, "eta"), step * s->group_count + g);
        stepper_set(s, g, RATE, &eta);
    }
}

/* The rule's gradient is the accumulated one times the file's scale; the very same one where that is 1. */
static size_t count_wrong_clips(stepper *s, const json_t *c, nt_dtype dtype, size_t step) {
    const char *precision = nt_dtype_name(dtype);
    double scale = golden_element(member(member(c, precision), "scale"), step);
    double tolerance = dtype == NT_F32 ? 4e-6 : 1e-12;
    size_t wrong = 0;
    for (size_t g = 0; g < s->group_count; g++) {
        for (int64_t i = 0; i < s->groups[g].length; i++) {
            double got = stepper_get(s, g, CLIPPED, i), expected = stepper_get(s, g, GRADIENT, i) * scale;
            if (golden_close(got, expected, scale == 1 ? 0 : tolerance, 0)) continue;
            print_error("%s %s, step %zu: clipped gradient %lld is %.17g, expected %.17g\n", precision,
                        json_string_value(member(c, "name")), step + 1, (long long)i, got, expected);
            wrong++;
        }
    }
    return wrong;
}

static size_t run_composition(const json_t *document, const char *name, nt_dtype dtype) {
    const json_t *c = find_case(document, name), *numbers = member(c, nt_dtype_name(dtype));
    composition of = composition_of(document, c, dtype);
    const json_t *groups = member(c, "groups");
    stepper s = {.group_count = of.layout.group_count, .spares = true};
    bool anchored = false;
    assert_int_equal(s.group_count, json_array_size(groups));
    for (size_t g = 0; g < s.group_count; g++) {
        const json_t *group = json_array_get(groups, g);
        s.groups[g] = of.layout.groups[g];
        assert_string_equal(s.groups[g].name, json_string_value(member(group, "name")));
        s.rules[g] = rule_of_group(group);
        anchored = anchored || json_is_array(member(group, "anchor"));
    }
    s.anchored = anchored;
    stepper_compile(&s, json_number_value(member(c, "clip_global_norm")));
    start_parameters(&of, member(member(document, "sequence"), "x0"), &s);
    set_spared(&of, groups, &s);
    if (s.anchored) set_anchors(groups, &s);
    size_t wrong = 0, steps = (size_t)json_integer_value(member(c, "steps"));
    assert_true(steps >= 3);
    for (size_t step = 0; step < steps; step++) {
        set_step(&s, numbers, step);
        stepper_step(&s);
        wrong += count_wrong_clips(&s, c, dtype, step);
        for (size_t g = 0; g < s.group_count; g++) {
            expectation x = {with_group("x", s.groups[g].name), (size_t)s.groups[g].length, 0, 1};
            wrong += count_wrong(c, dtype, step, x, *stepper_array(&s, g, PARAMETERS));
        }
    }
    stepper_free(&s);
    nt__layout_free(&of.layout);
    return wrong;
}

static void run_compositions(const char *const *names) {
    json_t *document = golden_read("optim/composition.json");
    size_t wrong = 0;
    for (; *names; names++)
        for (int i = 0; i < 2; i++) wrong += run_composition(document, *names, precisions[i]);
    json_decref(document);
    assert_int_equal(wrong, 0);
}

static void the_global_norm_is_clipped_l51_l53(void **state) {
    (void)state;
    run_compositions((const char *const[]){"clip_active_adam", "clip_inactive_adam", "clip_zero_gradient", NULL});
}

static void accumulated_gradients_are_clipped_once_l51(void **state) {
    (void)state;
    run_compositions((const char *const[]){"accumulate4_adam", "accumulate3_radam_clip", NULL});
}

static void each_group_has_its_own_rate_and_state_l20(void **state) {
    (void)state;
    run_compositions((const char *const[]){"two_groups_ratio", NULL});
}

/* L28, L29: each group decays by its own rate; the norm is that of both. */
static void groups_have_rules_and_decays_of_their_own_l29(void **state) {
    (void)state;
    run_compositions((const char *const[]){"two_rules_clip_decay", "anchored_group", NULL});
}

/* A rate of 0 at the last step keeps the chain (Q2). */
static void rates_move_from_step_to_step_l28(void **state) {
    (void)state;
    run_compositions((const char *const[]){"scheduled_rate_momentum", "scheduled_rate_adam_decay", NULL});
}

/* ---- one step of SGD, bit by bit (A8 to A10) -------------------------------------------------------------------- */

static float from_bits(const json_t *list, size_t i) {
    uint32_t bits = (uint32_t)strtoul(json_string_value(json_array_get(list, i)), NULL, 16);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool has_bits(const nt_array *got, const json_t *expected) {
    for (size_t i = 0; i < json_array_size(expected); i++)
        if (((const float *)got->data)[i] != from_bits(expected, i)) return false;
    return true;
}

static void set_bits(stepper *s, int what, const json_t *list) {
    float *elements = (*stepper_array(s, 0, what))->data;
    for (size_t i = 0; i < json_array_size(list); i++) elements[i] = from_bits(list, i);
}

/* One rounding or two, but the same for all elements; with a power of two both give the same. */
static void a_step_of_sgd_is_rounded_once_or_twice(void **state) {
    (void)state;
    json_t *document = golden_read("optim/descent_fma.json");
    const json_t *c;
    size_t index;
    json_array_foreach(member(document, "cases"), index, c) {
        double eta = setting(c, "eta");
        stepper s = stepper_of_one(nt_sgd(), NT_F32, (int64_t)json_array_size(member(c, "x")));
        stepper_compile(&s, 0);
        set_bits(&s, PARAMETERS, member(c, "x"));
        set_bits(&s, GRADIENT, member(c, "g"));
        stepper_set(&s, 0, RATE, &eta);
        stepper_step(&s);
        const nt_array *x = *stepper_array(&s, 0, PARAMETERS);
        assert_true(has_bits(x, member(c, "fused")) || has_bits(x, member(c, "two_roundings")));
        stepper_free(&s);
    }
    json_decref(document);
}

/* L53: nothing is divided by a norm of zero. */
static void a_zero_gradient_moves_nothing(void **state) {
    (void)state;
    stepper s = stepper_of_one(nt_sgd(), NT_F32, 2);
    stepper_compile(&s, 1);
    stepper_set(&s, 0, PARAMETERS, (double[]){0.5, -3});
    stepper_set(&s, 0, GRADIENT, (double[]){0, -0.0});
    stepper_set(&s, 0, RATE, (double[]){0.25});
    stepper_step(&s);
    assert_true(stepper_get(&s, 0, PARAMETERS, 0) == 0.5 && stepper_get(&s, 0, PARAMETERS, 1) == -3);
    stepper_free(&s);
}

static void a_nan_gradient_is_not_clipped_away(void **state) {
    (void)state;
    stepper s = stepper_of_one(nt_sgd(), NT_F32, 2);
    stepper_compile(&s, 1);
    stepper_set(&s, 0, GRADIENT, (double[]){NAN, 1});
    stepper_step(&s);
    assert_true(isnan(stepper_get(&s, 0, PARAMETERS, 0)) && isnan(stepper_get(&s, 0, PARAMETERS, 1)));
    stepper_free(&s);
}

/* L51: one norm over all groups, also when their element types differ: 3, 4 and 12 have the norm 13. */
static void groups_of_other_types_share_the_norm(void **state) {
    (void)state;
    static const nt_dtype types[][2] = {{NT_F32, NT_F64}, {NT_F64, NT_F32}, {NT_F16, NT_F32}, {NT_BF16, NT_BF16}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        stepper s = {.group_count = 2,
                     .rules = {nt_sgd(), nt_sgd()},
                     .groups = {{.name = "default", .dtype = types[i][0], .length = 2},
                                {.name = "other", .dtype = types[i][1], .length = 1}}};
        stepper_compile(&s, 6.5);
        stepper_set(&s, 0, GRADIENT, (double[]){3, -4});
        stepper_set(&s, 1, GRADIENT, (double[]){12});
        stepper_step(&s);
        assert_true(stepper_get(&s, 0, CLIPPED, 0) == 1.5 && stepper_get(&s, 0, CLIPPED, 1) == -2);
        assert_true(stepper_get(&s, 1, CLIPPED, 0) == 6);
        stepper_free(&s);
    }
}

/* ---- parameters of 16 bits -------------------------------------------------------------------------------------- */

/* The first step of Adam and RAdam in f32: eta for a gradient that is not zero, nothing for one that is. L19: the
 * parameters keep their type. */
static void sixteen_bit_parameters_are_updated_in_f32(void **state) {
    (void)state;
    static const nt_dtype types[] = {NT_F16, NT_BF16};
    for (int i = 0; i < 4; i++) {
        stepper s = stepper_of_one(i / 2 ? nt_radam() : nt_adam(), types[i % 2], 3);
        stepper_compile(&s, 0);
        stepper_set(&s, 0, PARAMETERS, (double[]){1, 1, 1});
        stepper_set(&s, 0, GRADIENT, (double[]){0, 1, -1});
        stepper_set(&s, 0, RATE, (double[]){0.25});
        stepper_step(&s);
        const nt_array *updated = *stepper_array(&s, 0, PARAMETERS);
        assert_true(updated && updated->dtype == types[i % 2]);
        assert_true(stepper_get(&s, 0, PARAMETERS, 0) == 1);
        assert_true(stepper_get(&s, 0, PARAMETERS, 1) == 0.75);
        assert_true(stepper_get(&s, 0, PARAMETERS, 2) == 1.25);
        assert_true(stepper_get(&s, 0, STATE + 1, 1) == (double)(1 - 0.999f));
        stepper_free(&s);
    }
}

/* ---- the program's text ----------------------------------------------------------------------------------------- */

static nt__printed print_optimizer(nt_rule rule, double clip) {
    stepper s = stepper_of_one(rule, NT_F32, SIZE);
    nt__printed printed;
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    stepper_trace(&s, clip);
    assert_ok(nt__print("optimizer", s.results, s.result_count, &printed));
    nt__trace_end(graph);
    stepper_free(&s);
    return printed;
}

static bool same_optimizer(nt_rule rule, double clip, nt_rule other_rule, double other_clip) {
    nt__printed first = print_optimizer(rule, clip), second = print_optimizer(other_rule, other_clip);
    bool same = strcmp(first.text.data, second.text.data) == 0;
    nt__printed_free(&first);
    nt__printed_free(&second);
    return same;
}

static void no_threshold_emits_nothing_l52(void **state) {
    (void)state;
    nt__printed printed = print_optimizer(nt_sgd(), 0);
    assert_null(strstr(printed.text.data, "sqrt"));
    assert_null(strstr(printed.text.data, "constant"));
    nt__printed_free(&printed);
    assert_true(same_optimizer(nt_adam(), 0, nt_adam(), -1));
    assert_true(same_optimizer(nt_adam(), 0, nt_adam(), NAN));
}

static void a_threshold_is_a_constant_of_the_text_l54(void **state) {
    (void)state;
    assert_false(same_optimizer(nt_adam(), 0, nt_adam(), 1));
    assert_false(same_optimizer(nt_adam(), 1, nt_adam(), 2));
    assert_true(same_optimizer(nt_adam(), 1, nt_adam(), 1));
}

static void the_constants_of_a_rule_are_in_the_text(void **state) {
    (void)state;
    assert_true(same_optimizer(nt_adam(), 0, nt_adam(.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8), 0));
    assert_false(same_optimizer(nt_adam(), 0, nt_adam(.beta1 = 0.8), 0));
    assert_false(same_optimizer(nt_adam(), 0, nt_adam(.beta2 = 0.9), 0));
    assert_false(same_optimizer(nt_adam(), 0, nt_adam(.epsilon = 1e-6), 0));
    assert_false(same_optimizer(nt_adam(), 0, nt_radam(), 0));
}

/* The rate, the states and the step are arguments, each once. L21: none of them is a constant. */
static void rates_and_states_are_arguments(void **state) {
    (void)state;
    nt__printed printed = print_optimizer(nt_radam(), 0);
    bool seen[GROUP_ARRAYS] = {false};
    assert_int_equal(printed.argument_count, 8);
    for (size_t i = 0; i < printed.argument_count; i++) seen[printed.arguments[i].index] = true;
    assert_true(seen[PARAMETERS] && seen[GRADIENT] && seen[RATE]);
    for (int i = 0; i < 5; i++) assert_true(seen[STATE + i]);
    nt__printed_free(&printed);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static void the_default_rule_is_radam(void **state) {
    (void)state;
    nt_rule rule = nt__rule_resolve((nt_rule){0});
    nt__text text = {0};
    nt__rule_print(&rule, false, &text);
    assert_string_equal(text.data, "RAdam(beta1 0.9, beta2 0.999, epsilon 1e-08)");
    nt__text_free(&text);
    assert_string_equal(nt_rule_name((nt_rule){0}), "RAdam");
    assert_string_equal(nt_rule_name(nt_adam()), "Adam");
    assert_string_equal(nt_rule_name(nt_sgd()), "SGD");
    rule = nt__rule_resolve(nt_sgd());
    nt__rule_print(&rule, false, &text);
    assert_string_equal(text.data, "SGD()");
    nt__text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_follows_f1),
        cmocka_unit_test(momentum_and_nesterov_follow_f2_f3),
        cmocka_unit_test(adam_follows_f4),
        cmocka_unit_test(adamw_follows_f5),
        cmocka_unit_test(radam_follows_f6),
        cmocka_unit_test(weight_decay_and_clips_follow_f7_f8_f9),
        cmocka_unit_test(decay_follows_f10_l44),
        cmocka_unit_test(other_rules_follow_their_formulas),
        cmocka_unit_test(trust_ratios_are_of_each_array),
        cmocka_unit_test(adafactor_factors_matrices),
        cmocka_unit_test(adafactor_keeps_rows_without_gradients),
        cmocka_unit_test(muon_makes_steps_of_matrices_orthogonal),
        cmocka_unit_test(muon_updates_vectors_as_adam_does),
        cmocka_unit_test(equal_layers_change_nothing),
        cmocka_unit_test(adafactor_keeps_rows_and_columns),
        cmocka_unit_test(trust_ratios_spare_what_does_not_decay),
        cmocka_unit_test(schedule_free_adamw_trains_y_and_evaluates_x),
        cmocka_unit_test(the_moving_average_starts_at_the_parameters),
        cmocka_unit_test(the_global_norm_is_clipped_l51_l53),
        cmocka_unit_test(accumulated_gradients_are_clipped_once_l51),
        cmocka_unit_test(each_group_has_its_own_rate_and_state_l20),
        cmocka_unit_test(groups_have_rules_and_decays_of_their_own_l29),
        cmocka_unit_test(rates_move_from_step_to_step_l28),
        cmocka_unit_test(a_step_of_sgd_is_rounded_once_or_twice),
        cmocka_unit_test(a_zero_gradient_moves_nothing),
        cmocka_unit_test(a_nan_gradient_is_not_clipped_away),
        cmocka_unit_test(groups_of_other_types_share_the_norm),
        cmocka_unit_test(sixteen_bit_parameters_are_updated_in_f32),
        cmocka_unit_test(no_threshold_emits_nothing_l52),
        cmocka_unit_test(a_threshold_is_a_constant_of_the_text_l54),
        cmocka_unit_test(the_constants_of_a_rule_are_in_the_text),
        cmocka_unit_test(rates_and_states_are_arguments),
        cmocka_unit_test(the_default_rule_is_radam),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
