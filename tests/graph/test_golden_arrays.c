/* Operations on arrays as a whole against trusted numbers: products, reductions, shapes, indexing, convolution and
 * pooling; value and vector-Jacobian product of every golden case, f32 and f64. Those on elements are in
 * test_golden.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden_files.h"

/* ---- matrix products -------------------------------------------------------------------------------------------- */

BINARY(matmul)

/* The general contraction has no public name of its own yet. */
static nt_tensor build_dot_general(const golden_case *c) {
    nt__attributes attributes = {.lists = {golden_list(c, "batch_a"), golden_list(c, "batch_b"),
                                           golden_list(c, "contract_a"), golden_list(c, "contract_b")}};
    return nt__emit(NT__OP_dot, NT_SITE, (nt__type){0}, 2, (nt_tensor[]){IN("a"), IN("b")}, &attributes);
}

static nt_tensor build_dense(const golden_case *c) {
    return nt_add(nt_matmul(IN("x"), IN("w")), IN("b"));
}

static nt_tensor build_einsum(const golden_case *c) {
    return nt_einsum_at(golden_text(c, "equation"), c->inputs, c->count, NT_SITE);
}

static const golden_row dot[] = {
    {"dot_general", build_dot_general},
    {"matmul", build_matmul},
    {"einsum", build_einsum},
    {"dense", build_dense},
};

/* ---- reductions ------------------------------------------------------------------------------------------------- */

static nt_shape axes_of(const golden_case *c) {
    nt_shape axes = golden_list(c, "axes");
    if (json_is_true(json_object_get(c->attributes, "keep"))) axes.dims[axes.rank++] = NT_KEEP;
    return axes;
}

#define REDUCTION(name)                                   \
    static nt_tensor build_##name(const golden_case *c) { \
        return nt_##name##_at(X, axes_of(c), NT_SITE);    \
    }
REDUCTION(sum)
REDUCTION(mean)
REDUCTION(prod)
REDUCTION(reduce_max)
REDUCTION(reduce_min)
REDUCTION(logsumexp)
REDUCTION(any)
REDUCTION(all)

static nt_tensor build_variance(const golden_case *c) {
    return nt_variance_at(X, golden_number(c, "ddof"), axes_of(c), NT_SITE);
}

static nt_tensor build_deviation(const golden_case *c) {
    return nt_deviation_at(X, golden_number(c, "ddof"), axes_of(c), NT_SITE);
}

static nt_tensor build_argmax(const golden_case *c) {
    return nt_argmax(X, golden_number(c, "axis"));
}

static nt_tensor build_argmin(const golden_case *c) {
    return nt_argmin(X, golden_number(c, "axis"));
}

static nt_direction direction_of(const golden_case *c) {
    return json_is_true(json_object_get(c->attributes, "reverse")) ? NT_BACKWARD : NT_FORWARD;
}

#define CUMULATIVE(name)                                                \
    static nt_tensor build_##name(const golden_case *c) {               \
        return nt_##name(X, golden_number(c, "axis"), direction_of(c)); \
    }
CUMULATIVE(cumsum)
CUMULATIVE(cumprod)
CUMULATIVE(cummax)
CUMULATIVE(cumlogsumexp)

static nt_tensor build_norm2(const golden_case *c) {
    return nt_norm_at(X, axes_of(c), NT_SITE);
}

static nt_tensor build_norm1(const golden_case *c) {
    return nt_norm1_at(X, axes_of(c), NT_SITE);
}

static nt_tensor build_softmax(const golden_case *c) {
    return nt_softmax(X, golden_number(c, "axis"));
}

static nt_tensor build_log_softmax(const golden_case *c) {
    return nt_log_softmax(X, golden_number(c, "axis"));
}

static const golden_row reduce[] = {
    {"sum", build_sum},         {"mean", build_mean},
    {"prod", build_prod},       {"max", build_reduce_max},
    {"min", build_reduce_min},  {"var", build_variance},
    {"std", build_deviation},   {"logsumexp", build_logsumexp},
    {"any", build_any},         {"all", build_all},
    {"argmax", build_argmax},   {"argmin", build_argmin},
    {"cumsum", build_cumsum},   {"cumprod", build_cumprod},
    {"cummax", build_cummax},   {"cumlogsumexp", build_cumlogsumexp},
    {"softmax", build_softmax}, {"log_softmax", build_log_softmax},
    {"norm2", build_norm2},     {"norm1", build_norm1},
};

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static nt_tensor build_reshape(const golden_case *c) {
    return nt_reshape_at(X, golden_list(c, "shape"), NT_SITE);
}

static nt_tensor build_transpose(const golden_case *c) {
    return nt_transpose_at(X, golden_list(c, "permutation"), NT_SITE);
}

static nt_tensor build_broadcast(const golden_case *c) {
    return nt_broadcast(X, golden_list(c, "shape"));
}

static nt_tensor build_expand_dims(const golden_case *c) {
    return nt_expand(X, golden_number(c, "axis"));
}

static nt_tensor build_squeeze(const golden_case *c) {
    return nt_squeeze(X, golden_number(c, "axis"));
}

static nt_tensor build_concatenate(const golden_case *c) {
    return nt_concatenate_at(c->inputs, (int)c->count, golden_number(c, "axis"), NT_SITE);
}

static nt_tensor build_stack(const golden_case *c) {
    return nt_stack_at(c->inputs, (int)c->count, golden_number(c, "axis"), NT_SITE);
}

static nt_shape ends(const golden_case *c, size_t which) {
    const json_t *padding = json_object_get(c->attributes, "padding");
    nt_shape list = {.rank = (int)json_array_size(padding)};
    for (int i = 0; i < list.rank; i++)
        list.dims[i] = json_integer_value(json_array_get(json_array_get(padding, (size_t)i), which));
    return list;
}

/* Elements between two others are the gradient of a slice with strides. */
static nt_tensor build_pad(const golden_case *c) {
    const char *mode = golden_text(c, "mode");
    if (strcmp(mode, "edge") == 0) return nt_pad_edge(X, ends(c, 0), ends(c, 1));
    if (strcmp(mode, "reflect") == 0) return nt_pad_reflect(X, ends(c, 0), ends(c, 1));
    if (!json_object_get(c->attributes, "interior"))
        return nt_pad(X, ends(c, 0), ends(c, 1), golden_number(c, "value"));
    nt_tensor value = nt_full(c->floating, (nt_shape){0}, golden_number(c, "value"));
    nt__attributes attributes = {.lists = {ends(c, 0), ends(c, 1), golden_list(c, "interior")}};
    return nt__emit(NT__OP_pad, NT_SITE, (nt__type){0}, 2, (nt_tensor[]){X, value}, &attributes);
}

static nt_tensor build_flip(const golden_case *c) {
    return nt_flip_at(X, golden_list(c, "axes"), NT_SITE);
}

static nt_tensor build_roll(const golden_case *c) {
    return nt_roll(X, golden_number(c, "shift"), golden_number(c, "axis"));
}

static nt_tensor build_tile(const golden_case *c) {
    return nt_tile(X, golden_list(c, "repeats"));
}

static nt_tensor build_repeat(const golden_case *c) {
    return nt_repeat(X, golden_number(c, "repeats"), golden_number(c, "axis"));
}

static nt_tensor build_triu(const golden_case *c) {
    return nt_upper_triangle(X, golden_number(c, "k"));
}

static nt_tensor build_tril(const golden_case *c) {
    return nt_lower_triangle(X, golden_number(c, "k"));
}

static nt_tensor build_slice(const golden_case *c) {
    return nt_slice_strided(X, golden_list(c, "start"), golden_list(c, "limit"), golden_list(c, "stride"));
}

static nt_tensor build_one_hot(const golden_case *c) {
    return nt_one_hot(IN("i"), (int64_t)golden_number(c, "classes"), c->floating);
}

static nt_tensor build_iota(const golden_case *c) {
    return nt_iota(NT_I32, golden_list(c, "shape"), (int)golden_number(c, "axis"));
}

static nt_tensor build_split(const golden_case *c) {
    nt_shape sizes = golden_list(c, "sizes");
    int64_t axis = (int64_t)golden_number(c, "axis"), start = 0;
    for (int i = 0; i < sizes.rank; i++) {
        c->outputs[i] = nt_range(X, axis, start, start + sizes.dims[i]);
        start += sizes.dims[i];
    }
    return c->outputs[0];
}

static const golden_row shapes[] = {
    {"reshape", build_reshape},
    {"transpose", build_transpose},
    {"broadcast_to", build_broadcast},
    {"expand_dims", build_expand_dims},
    {"squeeze", build_squeeze},
    {"concatenate", build_concatenate},
    {"stack", build_stack},
    {"split", build_split},
    {"pad", build_pad},
    {"flip", build_flip},
    {"roll", build_roll},
    {"tile", build_tile},
    {"repeat", build_repeat},
    {"triu", build_triu},
    {"tril", build_tril},
    {"slice", build_slice},
    {"one_hot", build_one_hot},
    {"iota", build_iota},
};

/* ---- indexing --------------------------------------------------------------------------------------------------- */

static nt_tensor build_take(const golden_case *c) {
    return nt_take(IN("t"), IN("i"), golden_number_or(c, "axis", 0));
}

static nt_tensor build_take_along(const golden_case *c) {
    return nt_take_along(IN("t"), IN("i"), golden_number(c, "axis"));
}

static nt_tensor build_scatter_set(const golden_case *c) {
    return nt_scatter_set(IN("t"), IN("i"), IN("u"), golden_number(c, "axis"));
}

static nt_tensor build_scatter_add(const golden_case *c) {
    return nt_scatter_add(IN("t"), IN("i"), IN("u"), golden_number(c, "axis"));
}

static nt_tensor build_scatter_mul(const golden_case *c) {
    return nt_scatter_mul(IN("t"), IN("i"), IN("u"), golden_number(c, "axis"));
}

static nt_tensor build_dropout(const golden_case *c) {
    return nt_where(IN("keep"), nt_div(IN("x"), 1 - golden_number(c, "rate")), 0);
}

static nt_tensor build_scatter_max(const golden_case *c) {
    return nt_scatter_max(IN("t"), IN("i"), IN("u"), golden_number(c, "axis"));
}

static nt_tensor build_segment_sum(const golden_case *c) {
    nt_tensor zeros = nt_full(c->floating, nt_dims((int64_t)golden_number(c, "segments"), nt_dim(IN("u"), 1)), 0);
    return nt_scatter_add(zeros, IN("i"), IN("u"), 0);
}

static nt_tensor build_dynamic_slice(const golden_case *c) {
    return nt_dynamic_slice(IN("x"), IN("start"), golden_list(c, "sizes"));
}

static nt_tensor build_dynamic_update(const golden_case *c) {
    return nt_dynamic_update(IN("x"), IN("u"), IN("start"));
}

static nt_order order_of(const golden_case *c) {
    return json_is_true(json_object_get(c->attributes, "descending")) ? NT_DESCENDING : NT_ASCENDING;
}

static nt_tensor build_sort(const golden_case *c) {
    return nt_sort(X, golden_number(c, "axis"), order_of(c));
}

static nt_tensor build_argsort(const golden_case *c) {
    return nt_argsort(X, golden_number(c, "axis"), order_of(c));
}

static nt_tensor build_top_k(const golden_case *c) {
    return nt_top_k(X, golden_number(c, "k"), &c->outputs[1]);
}

static const golden_row indexing[] = {
    {"take", build_take},
    {"embedding", build_take},
    {"take_along_axis", build_take_along},
    {"scatter_set", build_scatter_set},
    {"scatter_add", build_scatter_add},
    {"scatter_max", build_scatter_max},
    {"scatter_mul", build_scatter_mul},
    {"dropout", build_dropout},
    {"segment_sum", build_segment_sum},
    {"dynamic_slice", build_dynamic_slice},
    {"dynamic_update_slice", build_dynamic_update},
    {"sort", build_sort},
    {"argsort", build_argsort},
    {"top_k", build_top_k},
};

/* ---- convolution and pooling ------------------------------------------------------------------------------------ */

static const json_t *member(const golden_case *c, const char *name, size_t i) {
    return json_array_get(json_object_get(c->attributes, name), i);
}

static void read_numbers(const golden_case *c, const char *name, int64_t *out) {
    for (size_t i = 0; i < json_array_size(json_object_get(c->attributes, name)); i++)
        out[i] = json_integer_value(member(c, name, i));
}

/* True when the case says "SAME". */
static bool read_padding(const golden_case *c, int64_t (*out)[2]) {
    if (golden_text(c, "padding")) return true;
    for (size_t i = 0; i < json_array_size(json_object_get(c->attributes, "padding")); i++)
        for (size_t j = 0; j < 2; j++) out[i][j] = json_integer_value(json_array_get(member(c, "padding", i), j));
    return false;
}

static bool channels_first(const golden_case *c) {
    return strncmp(golden_text(c, "layout"), "NC", 2) == 0;
}

static nt_conv_options conv_options(const golden_case *c) {
    nt_conv_options options = {.groups = (int64_t)golden_number(c, "groups"), .channels_first = channels_first(c)};
    read_numbers(c, "stride", options.stride);
    read_numbers(c, "kernel_dilation", options.dilation);
    read_numbers(c, "input_dilation", options.input_dilation);
    options.same = read_padding(c, options.pad);
    return options;
}

static nt_tensor build_conv(const golden_case *c) {
    return nt_conv_at(IN("x"), IN("w"), nt_rank(X) - 2, conv_options(c), NT_SITE);
}

static nt_tensor conv_of_channel(const golden_case *c, nt_conv_options options, int64_t channel) {
    nt_tensor x = nt_range(IN("x"), 3, channel, channel + 1), w = nt_range(IN("w"), 2, channel, channel + 1);
    return nt_conv_at(x, w, 2, options, NT_SITE);
}

/* The sum over convolutions of one channel, which have a lowering of their own. */
static nt_tensor build_conv_by_channels(const golden_case *c) {
    nt_conv_options options = conv_options(c);
    if (options.channels_first || options.groups != 1) return build_conv(c);
    nt_tensor sum = conv_of_channel(c, options, 0);
    for (int64_t i = 1; i < nt_dim(IN("x"), 3); i++) sum = nt_add(sum, conv_of_channel(c, options, i));
    return sum;
}

static nt_tensor build_conv_transposed(const golden_case *c) {
    nt_conv_transposed_options options = {.groups = 1};
    read_numbers(c, "stride", options.stride);
    read_numbers(c, "kernel_dilation", options.dilation);
    read_numbers(c, "output_padding", options.output_padding);
    read_padding(c, options.pad);
    return nt_conv_transposed_at(IN("x"), IN("w"), nt_rank(X) - 2, options, NT_SITE);
}

static nt_pool_options pool_options(const golden_case *c) {
    nt_pool_options options = {.channels_first = channels_first(c)};
    options.count_padding = json_is_true(json_object_get(c->attributes, "count_include_pad"));
    read_numbers(c, "stride", options.stride);
    options.same = read_padding(c, options.pad);
    return options;
}

static nt_tensor build_max_pool(const golden_case *c) {
    return nt_max_pool_at(X, golden_list(c, "window"), pool_options(c), NT_SITE);
}

static nt_tensor build_avg_pool(const golden_case *c) {
    return nt_avg_pool_at(X, golden_list(c, "window"), pool_options(c), NT_SITE);
}

static nt_tensor build_global_avg_pool(const golden_case *c) {
    return nt_global_avg_pool(X);
}

static const golden_row conv[] = {
    {"conv1d", build_conv},
    {"conv2d", build_conv},
    {"conv2d", build_conv_by_channels},
    {"conv3d", build_conv},
    {"conv2d_transposed", build_conv_transposed},
};

static const golden_row pool[] = {
    {"max_pool1d", build_max_pool},
    {"max_pool2d", build_max_pool},
    {"avg_pool2d", build_avg_pool},
    {"global_avg_pool2d", build_global_avg_pool},
};

/* ---- the files -------------------------------------------------------------------------------------------------- */

FILE_TEST(dot, "ops/dot.json", NULL)
/* Left out: no axes means all axes here. */
FILE_TEST(reduce, "ops/reduce.json", "reduce/sum/no_axes")
FILE_TEST(shapes, "ops/shape.json", NULL)
/* Left out: an index out of range reads the nearest element, and none counts from the end, as these do. */
FILE_TEST(indexing, "ops/index.json", "index/take_out_of_range_fill", "index/dynamic_slice_clamped_low",
          "index/dynamic_update_clamped_low")
FILE_TEST(conv, "ops/conv.json", NULL)
FILE_TEST(pool, "ops/pool.json", NULL)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dot_f32),      cmocka_unit_test(dot_f64),      cmocka_unit_test(reduce_f32),
        cmocka_unit_test(reduce_f64),   cmocka_unit_test(shapes_f32),   cmocka_unit_test(shapes_f64),
        cmocka_unit_test(indexing_f32), cmocka_unit_test(indexing_f64), cmocka_unit_test(conv_f32),
        cmocka_unit_test(conv_f64),     cmocka_unit_test(pool_f32),     cmocka_unit_test(pool_f64),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
