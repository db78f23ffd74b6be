/* src/optim: single rules against trusted trajectories, parameters and states after every step, f32 and f64; rules on
 * arrays taken together and on parameters of 16 bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stepper.h"
#include "trajectories.h"

/* ---- one rule --------------------------------------------------------------------------------------------------- */

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
              (const char *const[]){"rmsprop/default", "rmsprop/momentum", "rmsprop/centered", "rmsprop/optax_form",
                                    "adagrad/default", "adagrad/initial0.1", "adadelta/default", "adamax/default",
                                    "nadam/default", "nadam/momentum_decay", "amsgrad/raw_maximum",
                                    "amsgrad/corrected_maximum", "lion/default", "lion/decay", NULL});
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

/* ---- parameters of 16 bits -------------------------------------------------------------------------------------- */

/* The first step of Adam and RAdam in f32: eta for a gradient that is not zero, nothing for one that is. The
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
        cmocka_unit_test(sixteen_bit_parameters_are_updated_in_f32),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
