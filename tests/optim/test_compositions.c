/* src/optim: groups with rules, rates and decays of their own under one clip, against trusted trajectories; and single
 * steps: of SGD bit by bit, of gradients that are zero or no number, of groups of different types.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stepper.h"
#include "trajectories.h"

/* ---- groups, rates and the clip --------------------------------------------------------------------------------- */

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

/* The number of a decay is multiplied by the group's rate in the program. */
static nt_rule rule_of_group(const json_t *group) {
    nt_rule rule = rule_of(json_string_value(member(group, "rule")), group, 0);
    double decay = setting(group, "lambda_base");
    return decay > 0 ? nt_chain(rule, nt_decay(decay)) : rule;
}

/* Leaves of one axis are spared, in the groups that say so. */
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

/* Each group decays by its own rate; the norm is that of both. */
static void groups_have_rules_and_decays_of_their_own_l29(void **state) {
    (void)state;
    run_compositions((const char *const[]){"two_rules_clip_decay", "anchored_group", NULL});
}

/* A rate of 0 at the last step keeps the chain. */
static void rates_move_from_step_to_step_l28(void **state) {
    (void)state;
    run_compositions((const char *const[]){"scheduled_rate_momentum", "scheduled_rate_adam_decay", NULL});
}

/* ---- one step of SGD, bit by bit -------------------------------------------------------------------------------- */

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

/* Nothing is divided by a norm of zero. */
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

/* One norm over all groups, also when their element types differ: 3, 4 and 12 have the norm 13. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_global_norm_is_clipped_l51_l53),
        cmocka_unit_test(accumulated_gradients_are_clipped_once_l51),
        cmocka_unit_test(each_group_has_its_own_rate_and_state_l20),
        cmocka_unit_test(groups_have_rules_and_decays_of_their_own_l29),
        cmocka_unit_test(rates_move_from_step_to_step_l28),
        cmocka_unit_test(a_step_of_sgd_is_rounded_once_or_twice),
        cmocka_unit_test(a_zero_gradient_moves_nothing),
        cmocka_unit_test(a_nan_gradient_is_not_clipped_away),
        cmocka_unit_test(groups_of_other_types_share_the_norm),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
