/* src/nn: attention and rotary positions against trusted numbers, value and gradient, f32 and f64; the layer, and that
 * decoding with a cache gives what it gives for all positions at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_cases.h"
#include "layer_trace.h"
#include "nitro/attention.h"
#include "nitro/control.h"

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

/* ---- decoding --------------------------------------------------------------------------------------------------- */

enum { SAMPLES = 2, POSITIONS = 7, FEATURES = 12, HEADS = 4, MOST_ARRAYS = 9 };

/* One layer; what is decoded is cut into `prompt` positions at once and the others one by one. */
typedef struct decoding {
    int64_t groups, head_size, cache_length, prompt;
    bool rotary, no_bias;
    nt_model *model;
    nt_tensor x; /* [SAMPLES, POSITIONS, FEATURES] */
} decoding;

static nt_tensor window_mask(int64_t window) {
    nt_shape shape = nt_dims(POSITIONS, POSITIONS);
    nt_tensor query = nt_iota(NT_I32, shape, 0), key = nt_iota(NT_I32, shape, 1);
    return nt_less(nt_sub(query, key), (double)window);
}

static nt_tensor at_once(const decoding *d) {
    return nt_multi_head_attention(d->model, "a", d->x, HEADS, .groups = d->groups, .head_size = d->head_size,
                                   .causal = true, .mask = window_mask(d->cache_length), .rotary = d->rotary,
                                   .no_bias = d->no_bias);
}

static nt_tensor with_cache(const decoding *d, nt_tensor x, nt_attention_cache *cache, nt_tensor position) {
    return nt_multi_head_attention(d->model, "a", x, HEADS, .groups = d->groups, .head_size = d->head_size,
                                   .rotary = d->rotary, .no_bias = d->no_bias, .cache = cache, .position = position);
}

static nt_loop decode_one(nt_loop now, void *context) {
    const decoding *d = context;
    nt_attention_cache cache = {now.carry[0], now.carry[1]};
    nt_tensor position = nt_add(now.index, (double)d->prompt);
    nt_tensor y = with_cache(d, nt_reshape(now.inputs[0], SAMPLES, 1, FEATURES), &cache, position);
    return (nt_loop){.carry = {cache.keys, cache.values}, .outputs = {nt_reshape(y, SAMPLES, FEATURES)}};
}

static nt_tensor one_by_one(decoding *d) {
    nt_attention_cache cache =
        nt_attention_cache_empty(NT_F32, SAMPLES, d->groups ? d->groups : HEADS, d->cache_length, d->head_size);
    nt_tensor prompt = {0};
    if (d->prompt) {
        nt_tensor first = nt_slice(d->x, nt_dims(0, 0, 0), nt_dims(SAMPLES, d->prompt, FEATURES));
        prompt = with_cache(d, first, &cache, nt_full(NT_I64, (nt_shape){0}, 0));
    }
    nt_tensor rest = nt_slice(d->x, nt_dims(0, d->prompt, 0), nt_dims(SAMPLES, POSITIONS, FEATURES));
    nt_loop all = nt_scan(decode_one, d, .carry = {cache.keys, cache.values}, .inputs = {nt_transpose(rest, 1, 0, 2)});
    rest = nt_transpose(all.outputs[0], 1, 0, 2);
    return d->prompt ? nt_concatenate(1, prompt, rest) : rest;
}

static nt_array *drawn(nt_shape shape, const char *name) {
    nt_array *array = nt_array_new(NT_F32, shape);
    assert_non_null(array);
    nt__init_draw(nt_normal(0.5), shape, nt__key_fold_text((nt__key){0, 7}, name), (size_t)nt_shape_elements(shape),
                  array->data);
    return array;
}

static void assert_close(const nt_array *a, const nt_array *b) {
    double largest = 0;
    for (int64_t i = 0; i < nt_shape_elements(a->shape); i++) {
        largest = fmax(largest, fabs(nt_array_get(a, i)));
        if (!(fabs(nt_array_get(a, i) - nt_array_get(b, i)) < 2e-6))
            fail_msg("element %d: %.9g at once, %.9g with a cache", (int)i, nt_array_get(a, i), nt_array_get(b, i));
    }
    assert_true(largest > 0.1);
}

static void check_decoding(decoding d) {
    const nt_shape shape = nt_dims(SAMPLES, POSITIONS, FEATURES);
    nt__graph *graph = nt__trace_begin();
    d.model = nt__model_new((nt__model_roles){1, 2, 3});
    nt_array *arrays[MOST_ARRAYS] = {drawn(shape, "x")}, *results[2];
    nt_tensor values[MOST_ARRAYS];
    d.x = traced_input(0, (nt__type){NT_F32, shape});
    nt__model_begin(d.model, true, NULL);
    at_once(&d);
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(d.model, &count);
    assert_true(count < MOST_ARRAYS);
    for (size_t i = 0; i < count; i++) {
        arrays[i + 1] = drawn(leaves[i].type.shape, leaves[i].path);
        values[i] = traced_input((int)i + 1, leaves[i].type);
    }
    nt__model_begin(d.model, false, values);
    nt__result both[2] = {{.value = at_once(&d)}};
    NT_REUSE(d.model) both[1].value = one_by_one(&d);
    nt__model_end(d.model);
    assert_ok(nt__trace_status(graph));
    traced program = traced_compile(traced_engine(), both, 2);
    traced_run(&program, arrays, results);
    assert_close(results[0], results[1]);
    traced_free(&program);
    for (size_t i = 0; i < 2; i++) nt_array_free(results[i]);
    for (size_t i = 0; i <= count; i++) nt_array_free(arrays[i]);
    nt__trace_end(graph);
    nt__model_free(d.model);
}

static void a_cache_gives_what_all_positions_at_once_give(void **state) {
    (void)state;
    check_decoding((decoding){.head_size = 3, .cache_length = POSITIONS});
    check_decoding((decoding){.groups = 2, .head_size = 6, .cache_length = POSITIONS, .rotary = true});
    check_decoding((decoding){.groups = 1, .head_size = 4, .cache_length = 9, .prompt = 3, .rotary = true});
    check_decoding((decoding){.head_size = 3, .cache_length = POSITIONS, .prompt = 5, .no_bias = true});
}

/* A cache that is shorter than the text: each position sees the last ones, as many as the cache has places. */
static void a_short_cache_is_a_window(void **state) {
    (void)state;
    check_decoding((decoding){.groups = 2, .head_size = 2, .cache_length = 3, .rotary = true});
    check_decoding((decoding){.groups = 4, .head_size = 2, .cache_length = 4, .prompt = 4, .rotary = true});
    check_decoding((decoding){.head_size = 3, .cache_length = 1});
}

/* ---- padding ---------------------------------------------------------------------------------------------------- */

/* Lengths are the mask of the first keys of each sample; a sample without any gives 0. */
static void lengths_hide_the_keys_behind_them(void **state) {
    (void)state;
    enum { KEYS = 5 };
    static const int64_t wanted[3] = {2, 0, KEYS};
    const nt_shape shape = nt_dims(3, 2, KEYS, 4);
    nt__graph *graph = nt__trace_begin();
    nt_array *arrays[] = {drawn(shape, "q"), drawn(shape, "k"), drawn(shape, "v"),
                          nt_array_from(NT_I64, nt_dims(3), wanted), nt_array_new(NT_BOOL, nt_dims(3, 1, 1, KEYS))};
    for (int i = 0; i < 3 * KEYS; i++) nt_array_set(arrays[4], i, i % KEYS < wanted[i / KEYS]);
    nt_tensor x[5];
    for (int i = 0; i < 5; i++) x[i] = traced_input(i, (nt__type){arrays[i]->dtype, arrays[i]->shape});
    nt__result both[] = {{.value = nt_attention(x[0], x[1], x[2], .mask = x[4], .causal = true)},
                         {.value = nt_attention(x[0], x[1], x[2], .lengths = x[3], .causal = true)}};
    traced program = traced_compile(traced_engine(), both, 2);
    nt_array *results[2];
    traced_run(&program, arrays, results);
    assert_close(results[0], results[1]);
    for (int i = 0; i < 2 * KEYS * 4; i++) assert_true(nt_array_get(results[1], 2 * KEYS * 4 + i) == 0);
    traced_free(&program);
    for (int i = 0; i < 2; i++) nt_array_free(results[i]);
    for (int i = 0; i < 5; i++) nt_array_free(arrays[i]);
    nt__trace_end(graph);
}

/* ---- masks ------------------------------------------------------------------------------------------------------ */

/* What the causal queries of three keys of size 1 see, the slopes by the queries, and what they see one key later. */
static void run_overflowing(nt_dtype dtype, nt_array **out) {
    static const double numbers[3][3] = {{1000, 1, -1}, {1, 2, 1000}, {1, 10, 100}};
    nt__graph *graph = nt__trace_begin();
    nt_tensor x[3];
    nt_array *arrays[3];
    for (int i = 0; i < 3; i++) {
        assert_non_null(arrays[i] = nt_array_new(dtype, nt_dims(1, 1, 3, 1)));
        for (int k = 0; k < 3; k++) nt_array_set(arrays[i], k, numbers[i][k]);
        x[i] = traced_input(i, (nt__type){dtype, arrays[i]->shape});
    }
    nt_tensor y = nt_attention(x[0], x[1], x[2], .causal = true);
    nt_tensor later = nt_attention(x[0], x[1], x[2], .causal = true, .query_offset = -1);
    nt__result results[] = {{.value = y}, {.value = nt_grad(nt_sum(y), x[0])}, {.value = later}};
    assert_ok(nt__trace_status(graph));
    traced program = traced_compile(traced_engine(), results, 3);
    traced_run(&program, arrays, out);
    traced_free(&program);
    for (int i = 0; i < 3; i++) nt_array_free(arrays[i]);
    nt__trace_end(graph);
}

/* A score that overflows where it is hidden changes nothing: in f16 that of the first query and the last key. */
static void what_is_hidden_may_overflow(void **state) {
    (void)state;
    static const nt_dtype types[] = {NT_F16, NT_BF16, NT_F32, NT_F64};
    /* Of two scores that are 1 apart, the weight of the larger one. */
    const double larger = 1 / (1 + exp(-1)), second = 1 + 9 * larger, third = 10 - 9 * larger;
    const double slope = 9 * larger * (1 - larger);
    const double wanted[3][3] = {{1, second, third}, {0, slope, slope}, {0, 1, third}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        nt_array *out[3];
        run_overflowing(types[t], out);
        double near = types[t] == NT_BF16 ? 0.04 : types[t] == NT_F16 ? 0.005 : 1e-5;
        for (int i = 0; i < 9; i++)
            if (!(fabs(nt_array_get(out[i / 3], i % 3) - wanted[i / 3][i % 3]) < near))
                fail_msg("%s, result %d, element %d: %g, not %g", nt_dtype_name(types[t]), i / 3, i % 3,
                         nt_array_get(out[i / 3], i % 3), wanted[i / 3][i % 3]);
        for (int i = 0; i < 3; i++) nt_array_free(out[i]);
    }
}

/* What no query sees may be no number, and changes neither results nor gradients. */
enum { PADDED = 2, PLACES = 5, WIDTH = 12, OTHER_WIDTH = 8 };
enum { OWN, OTHER, LENGTHS, KEPT, FIRST_LEAF, MOST_INPUTS = FIRST_LEAF + 48 };

static nt_tensor squares_of_rows(nt_tensor y, nt_tensor kept) {
    return nt_sum(nt_square(nt_where(kept, y, 0)));
}

static nt_tensor by_heads(nt_tensor x) {
    return nt_transpose(nt_reshape(x, PADDED, PLACES, 4, 3), 0, 2, 1, 3);
}

static nt_tensor all_with_padding(nt_model *m, const nt_tensor *in) {
    nt_tensor kept = nt_reshape(in[KEPT], PADDED, PLACES, 1), clean = nt_where(kept, in[OWN], 0);
    nt_attention_cache cache = nt_attention_cache_empty(NT_F32, PADDED, 4, PLACES, 3);
    nt_tensor y[] = {
        nt_multi_head_attention(m, "self", in[OWN], 4, .lengths = in[LENGTHS]),
        nt_multi_head_attention(m, "grouped", in[OWN], 4, .groups = 2, .head_size = 4, .lengths = in[LENGTHS],
                                .causal = true, .rotary = true),
        nt_multi_head_attention(m, "cross", clean, 4, .context = in[OTHER], .lengths = in[LENGTHS]),
        nt_multi_head_attention(m, "masked", clean, 4, .context = in[OTHER], .mask = in[KEPT]),
        nt_multi_head_attention(m, "cached", in[OWN], 4, .cache = &cache, .position = nt_full(NT_I32, (nt_shape){0}, 0),
                                .lengths = in[LENGTHS]),
    };
    nt_tensor sum = nt_sum(nt_square(
        nt_attention(by_heads(clean), by_heads(in[OWN]), by_heads(in[OWN]), .lengths = in[LENGTHS], .causal = true)));
    sum = nt_add(
        sum, nt_sum(nt_square(nt_attention(by_heads(clean), by_heads(in[OWN]), by_heads(in[OWN]), .mask = in[KEPT]))));
    for (size_t i = 0; i < sizeof y / sizeof *y; i++) sum = nt_add(sum, squares_of_rows(y[i], kept));
    return sum;
}

static void fill_padding(nt_array *x, const int64_t *lengths, int width) {
    static const double fill[] = {NAN, -INFINITY, INFINITY};
    for (int i = 0; i < PADDED; i++)
        for (int64_t k = lengths[i] * width; k < PLACES * width; k++)
            nt_array_set(x, i * PLACES * width + k, fill[k % 3]);
}

static void what_nobody_sees_changes_nothing(void **state) {
    (void)state;
    static const int64_t lengths[PADDED] = {3, PLACES};
    const nt_shape own = nt_dims(PADDED, PLACES, WIDTH), other = nt_dims(PADDED, PLACES, OTHER_WIDTH);
    nt_array *arrays[MOST_INPUTS] = {drawn(own, "x"), drawn(other, "context"),
                                     nt_array_from(NT_I64, nt_dims(PADDED), lengths),
                                     nt_array_new(NT_BOOL, nt_dims(PADDED, 1, 1, PLACES))};
    for (int i = 0; i < PADDED * PLACES; i++) nt_array_set(arrays[KEPT], i, i % PLACES < lengths[i / PLACES]);
    nt__graph *graph = nt__trace_begin();
    nt_model *m = nt__model_new((nt__model_roles){1, 2, 3});
    nt_tensor in[MOST_INPUTS], wanted[MOST_INPUTS], gradients[MOST_INPUTS];
    for (int i = 0; i < FIRST_LEAF; i++) in[i] = traced_input(i, (nt__type){arrays[i]->dtype, arrays[i]->shape});
    nt__model_begin(m, true, NULL);
    all_with_padding(m, in);
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(m, &count);
    assert_true(FIRST_LEAF + count < MOST_INPUTS);
    for (size_t i = 0; i < count; i++) {
        arrays[FIRST_LEAF + i] = drawn(leaves[i].type.shape, leaves[i].path);
        in[FIRST_LEAF + i] = traced_input(FIRST_LEAF + (int)i, leaves[i].type);
    }
    nt__model_begin(m, true, in + FIRST_LEAF);
    nt_tensor sum = all_with_padding(m, in);
    nt__model_end(m);
    wanted[0] = in[OWN];
    wanted[1] = in[OTHER];
    memcpy(wanted + 2, in + FIRST_LEAF, count * sizeof *wanted);
    nt_grads_at(sum, wanted, count + 2, gradients, NT_SITE);
    for (size_t i = 0; i < count + 2; i++) gradients[i] = nt_reshape(gradients[i], -1);
    nt__result results[] = {{.value = sum}, {.value = nt_concatenate_at(gradients, (int)count + 2, 0, NT_SITE)}};
    assert_ok(nt__trace_status(graph));
    traced program = traced_compile(traced_engine(), results, 2);
    nt_array *plain[2], *filled[2];
    traced_run(&program, arrays, plain);
    fill_padding(arrays[OWN], lengths, WIDTH);
    fill_padding(arrays[OTHER], lengths, OTHER_WIDTH);
    traced_run(&program, arrays, filled);
    for (int i = 0; i < 2; i++) {
        assert_true(fabs(nt_array_get(plain[i], 0)) > 1e-6);
        assert_close(plain[i], filled[i]);
        nt_array_free(plain[i]);
        nt_array_free(filled[i]);
    }
    traced_free(&program);
    for (size_t i = 0; i < FIRST_LEAF + count; i++) nt_array_free(arrays[i]);
    nt__trace_end(graph);
    nt__model_free(m);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static nt_tensor sequence(void) {
    return traced_input(1, (nt__type){NT_F32, nt_dims(2, 5, 12)});
}

static void other_depth(const layer_trace *t) {
    nt_attention(t->x, traced_input(1, (nt__type){NT_F32, nt_dims(2, 4, 5, 2)}), t->x);
}

static void odd_depth(const layer_trace *t) {
    nt_rotary(t->x);
}

static void heads_that_do_not_divide(const layer_trace *t) {
    nt_multi_head_attention(t->model, "a", sequence(), 5);
}

static void no_heads(const layer_trace *t) {
    nt_multi_head_attention(t->model, "a", sequence(), 0);
}

static void negative_heads(const layer_trace *t) {
    nt_multi_head_attention(t->model, "a", sequence(), 4, .head_size = -4);
}

static void groups_that_do_not_divide(const layer_trace *t) {
    nt_multi_head_attention(t->model, "a", sequence(), 4, .groups = 3);
}

static void negative_groups(const layer_trace *t) {
    nt_multi_head_attention(t->model, "a", sequence(), 4, .groups = -2);
}

static void integers_to_attend(const layer_trace *t) {
    nt_multi_head_attention(t->model, "a", nt_convert(sequence(), NT_I32), 4);
}

static void x_of_four_axes(const layer_trace *t) {
    nt_multi_head_attention(t->model, "a", t->x, 4);
}

static void attend_to(const layer_trace *t, nt_dtype dtype, nt_shape context) {
    nt_multi_head_attention(t->model, "a", sequence(), 4, .context = traced_input(2, (nt__type){dtype, context}));
}

static void context_of_another_batch(const layer_trace *t) {
    attend_to(t, NT_F32, nt_dims(3, 7, 8));
}

static void context_of_another_type(const layer_trace *t) {
    attend_to(t, NT_F64, nt_dims(2, 7, 8));
}

static void context_of_two_axes(const layer_trace *t) {
    attend_to(t, NT_F32, nt_dims(2, 7));
}

static void lengths_of_the_layer(const layer_trace *t) {
    nt_multi_head_attention(t->model, "a", sequence(), 4, .lengths = traced_input(2, (nt__type){NT_I32, nt_dims(3)}));
}

static void a_negative_base(const layer_trace *t) {
    nt_rotary(nt_slice(t->x, nt_dims(0, 0, 0, 0), nt_dims(2, 4, 5, 2)), .base = -2);
}

static void a_scale_that_is_infinite(const layer_trace *t) {
    nt_attention(t->x, t->x, t->x, .scale = (double)INFINITY);
}

static void an_empty_cache(const layer_trace *t) {
    nt_attention_cache cache = {0};
    nt_multi_head_attention(t->model, "a", sequence(), 4, .cache = &cache,
                            .position = nt_full(NT_I32, (nt_shape){0}, 1));
}

static void a_cache_without_places(const layer_trace *t) {
    (void)t;
    nt_attention_cache_empty(NT_F32, 2, 4, 0, 3);
}

static void no_queries(const layer_trace *t) {
    nt_attention((nt_tensor){0}, t->x, t->x);
}

static void no_keys(const layer_trace *t) {
    nt_attention(t->x, (nt_tensor){0}, t->x);
}

static void no_values(const layer_trace *t) {
    nt_attention(t->x, t->x, (nt_tensor){0});
}

static void nothing_to_turn(const layer_trace *t) {
    (void)t;
    nt_rotary((nt_tensor){0});
}

static void nothing_to_attend(const layer_trace *t) {
    nt_multi_head_attention(t->model, "a", (nt_tensor){0}, 4);
}

static void odd_heads(const layer_trace *t) {
    nt_multi_head_attention(t->model, "a", sequence(), 4, .rotary = true);
}

static void lengths_of_another_batch(const layer_trace *t) {
    nt_attention(t->x, t->x, t->x, .lengths = traced_input(1, (nt__type){NT_I32, nt_dims(3)}));
}

static void a_position_with_a_fraction(const layer_trace *t) {
    nt_rotary(nt_slice(t->x, nt_dims(0, 0, 0, 0), nt_dims(2, 4, 5, 2)), .position = nt_full(NT_F32, (nt_shape){0}, 1));
}

static void a_cache_without_a_position(const layer_trace *t) {
    nt_attention_cache cache = nt_attention_cache_empty(NT_F32, 2, 4, 8, 3);
    nt_multi_head_attention(t->model, "a", sequence(), 4, .cache = &cache);
}

static void a_cache_of_other_groups(const layer_trace *t) {
    nt_attention_cache cache = nt_attention_cache_empty(NT_F32, 2, 4, 8, 3);
    nt_multi_head_attention(t->model, "a", sequence(), 4, .groups = 2, .cache = &cache,
                            .position = nt_full(NT_I32, (nt_shape){0}, 1));
}

static void a_cache_shorter_than_x(const layer_trace *t) {
    nt_attention_cache cache = nt_attention_cache_empty(NT_F32, 2, 4, 4, 3);
    nt_multi_head_attention(t->model, "a", sequence(), 4, .cache = &cache,
                            .position = nt_full(NT_I32, (nt_shape){0}, 1));
}

static void wrong_shapes_are_refused(void **state) {
    (void)state;
    static const layer_refusal cases[] = {
        {other_depth, "attention: needs queries [batch, heads, queries, depth], keys [batch, groups, keys, depth] and "
                      "values [batch, groups, keys, width] of one floating type, where groups divides heads; got "
                      "f32[2,4,5,3], f32[2,4,5,2] and f32[2,4,5,3]"},
        {odd_depth, "rotary: needs a floating tensor [batch, length, heads, depth] of even depth, got f32[2,4,5,3]"},
        {heads_that_do_not_divide, "multi_head_attention: 'a': 5 heads do not divide the 12 features of x f32[2,5,12]: "
                                   "give another number, or .head_size"},
        {no_heads, "multi_head_attention: 'a': it has 0 heads and needs at least 1"},
        {negative_heads, "multi_head_attention: 'a': .head_size is -4 and has to be above 0; not given, it is the "
                         "features / heads"},
        {groups_that_do_not_divide, "multi_head_attention: 'a': .groups is 3 and has to divide the 4 heads"},
        {negative_groups, "multi_head_attention: 'a': .groups is -2 and has to divide the 4 heads"},
        {integers_to_attend,
         "multi_head_attention: 'a': x has to be floating [batch, length, features], got i32[2,5,12]"},
        {x_of_four_axes, "multi_head_attention: 'a': x has to be floating [batch, length, features], got f32[2,4,5,3]"},
        {context_of_another_batch, "multi_head_attention: 'a': .context is f32[3,7,8] and has to be [batch, keys, "
                                   "features] with the batch and the type of x f32[2,5,12]"},
        {context_of_another_type, "multi_head_attention: 'a': .context is f64[2,7,8] and has to be [batch, keys, "
                                  "features] with the batch and the type of x f32[2,5,12]"},
        {context_of_two_axes, "multi_head_attention: 'a': .context is f32[2,7] and has to be [batch, keys, features] "
                              "with the batch and the type of x f32[2,5,12]"},
        {odd_heads, "multi_head_attention: 'a': the heads have size 3, and rotary positions turn pairs: .head_size has "
                    "to be even"},
        {lengths_of_another_batch, "attention: .lengths has to be integers [2], got i32[3]"},
        {lengths_of_the_layer, "multi_head_attention: 'a': .lengths has to be integers [2], got i32[3]"},
        {a_position_with_a_fraction, "rotary: .position has to be integers [], got f32[]"},
        {a_negative_base, "rotary: .base is -2 and has to be a finite number above 0; not given, it is 10000"},
        {a_scale_that_is_infinite, "attention: .scale is inf and has to be finite"},
        {a_cache_without_a_position,
         "multi_head_attention: 'a': .cache and .position go together, and without a .context"},
        {a_cache_of_other_groups, "multi_head_attention: 'a': the cache has to be keys and values [batch, 2 groups, "
                                  "length, 3], of the type of x "
                                  "and at least as long; got f32[2,4,8,3] and f32[2,4,8,3] for x f32[2,5,12]"},
        {a_cache_shorter_than_x, "multi_head_attention: 'a': the cache has to be keys and values [batch, 4 groups, "
                                 "length, 3], of the type of x "
                                 "and at least as long; got f32[2,4,4,3] and f32[2,4,4,3] for x f32[2,5,12]"},
        {an_empty_cache,
         "multi_head_attention: 'a': .cache->keys was never set: it is zero bytes, not the result of an operation"},
        {a_cache_without_places,
         "attention_cache_empty: a cache is floating and has sizes of at least 1, got f32[2,4,0,3]"},
        {no_queries, "attention: queries was never set: it is zero bytes, not the result of an operation"},
        {no_keys, "attention: keys was never set: it is zero bytes, not the result of an operation"},
        {no_values, "attention: values was never set: it is zero bytes, not the result of an operation"},
        {nothing_to_turn, "rotary: x was never set: it is zero bytes, not the result of an operation"},
        {nothing_to_attend, "multi_head_attention: x was never set: it is zero bytes, not the result of an operation"},
    };
    layers_refuse(nt_dims(2, 4, 5, 3), cases, sizeof cases / sizeof *cases);
}

/* ---- masks that are refused ------------------------------------------------------------------------------------- */

/* Of scores [2, 1, 5, 5] by the operation, and of [2, 4, 5, 5] by the layer; each in a trace of its own. */
static bool takes_mask(nt__type type, bool layer, const char *message) {
    layer_trace t = layer_trace_begin(nt_dims(2, 1, 5, 3));
    nt_tensor mask = traced_input(2, type), y;
    if (layer)
        y = nt_multi_head_attention(t.model, "a", sequence(), 4, .mask = mask);
    else
        y = nt_attention(t.x, t.x, t.x, .mask = mask);
    bool taken = nt__trace_status(t.graph) == NT_OK;
    if (taken)
        assert_true(nt_shape_equal(nt_shape_of(y), layer ? nt_dims(2, 5, 12) : nt_dims(2, 1, 5, 3)));
    else if (!strstr(nt_error_message(), message))
        fail_msg("%s, not %s", nt_error_message(), message);
    layer_trace_end(&t);
    return taken;
}

static void a_mask_broadcasts_to_the_scores(void **state) {
    (void)state;
    static const struct {
        nt__type type;
        bool operation, layer;
    } rows_of_masks[] = {
        {{NT_BOOL, {0}}, true, true},
        {{NT_BOOL, {1, {5}}}, true, true},
        {{NT_BOOL, {2, {5, 5}}}, true, true},
        {{NT_BOOL, {4, {2, 1, 1, 5}}}, true, true},
        {{NT_BOOL, {4, {2, 1, 5, 5}}}, true, true},
        {{NT_BOOL, {4, {2, 4, 5, 5}}}, false, true},
        {{NT_BOOL, {3, {4, 1, 5}}}, false, true},
        {{NT_BOOL, {3, {2, 1, 5}}}, false, false}, /* a padding mask without the axis of the heads */
        {{NT_BOOL, {2, {2, 5}}}, false, false},
        {{NT_BOOL, {2, {5, 4}}}, false, false},
        {{NT_BOOL, {5, {1, 2, 4, 5, 5}}}, false, false},
        {{NT_F32, {2, {5, 5}}}, false, false},
    };
    for (size_t i = 0; i < sizeof rows_of_masks / sizeof *rows_of_masks; i++) {
        char type[NT__TYPE_TEXT], texts[2][512];
        nt__type_text(rows_of_masks[i].type, type);
        for (int layer = 0; layer < 2; layer++)
            snprintf(texts[layer], sizeof texts[layer],
                     ": %s: .mask is %s and has to be bool that broadcasts to [batch, heads, queries, keys], here "
                     "[2,%d,5,5]: aligned at the last axis, each size is 1 or the same. One for the keys of each "
                     "sample, as for padding, is [batch, 1, 1, keys]",
                     layer ? "multi_head_attention: 'a'" : "attention", type, layer ? 4 : 1);
        assert_int_equal(takes_mask(rows_of_masks[i].type, false, texts[0]), rows_of_masks[i].operation);
        assert_int_equal(takes_mask(rows_of_masks[i].type, true, texts[1]), rows_of_masks[i].layer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_f32),
        cmocka_unit_test(attention_f64),
        cmocka_unit_test(the_layer_declares_four_dense_ones),
        cmocka_unit_test(a_cache_gives_what_all_positions_at_once_give),
        cmocka_unit_test(a_short_cache_is_a_window),
        cmocka_unit_test(lengths_hide_the_keys_behind_them),
        cmocka_unit_test(what_nobody_sees_changes_nothing),
        cmocka_unit_test(what_is_hidden_may_overflow),
        cmocka_unit_test(wrong_shapes_are_refused),
        cmocka_unit_test(a_mask_broadcasts_to_the_scores),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
