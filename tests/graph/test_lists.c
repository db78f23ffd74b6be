/* Options with an entry for each spatial axis: a list of fewer entries goes on with its last one, whatever form it is
 * written in, and one of more is refused. Nothing is run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "nn/nn.h"
#include "traced.h"

static nt_tensor image(int axes) {
    nt_shape shape = {.rank = axes + 2};
    for (int i = 0; i < shape.rank; i++) shape.dims[i] = i == 0 || i == axes + 1 ? 1 : 8;
    return traced_input(0, (nt__type){NT_F32, shape});
}

static nt_tensor kernel(int axes) {
    nt_shape shape = {.rank = axes + 2};
    for (int i = 0; i < shape.rank; i++) shape.dims[i] = i < axes ? 3 : 1;
    return traced_input(1, (nt__type){NT_F32, shape});
}

#define X1 image(1)
#define X2 image(2)
#define X3 image(3)
#define K1 kernel(1)
#define K2 kernel(2)
#define K3 kernel(3)
#define NONE     \
    {            \
        { 0, 0 } \
    }
#define SOME     \
    {            \
        { 2, 1 } \
    }
#define FIRST_OF(a, b) (a)
#define MINE(...) nt_conv2d(X2, K2, __VA_ARGS__)

typedef struct row {
    const char *text;
    nt_tensor (*build)(void);
    nt_shape places; /* rank 0: an error */
    const char *message;
} row;

/* What is written, the sizes of the result along the spatial axes. An image has 8 elements along each, a kernel 3. */
#define EACH_LIST(ROW)                                                                                         \
    ROW(stride, nt_conv2d(X2, K2, .stride = {2}), 3, 3)                                                        \
    ROW(pad, nt_conv2d(X2, K2, .stride = {2}, .pad = {{1, 1}}), 4, 4)                                          \
    ROW(pad_of_one, nt_conv2d(X2, K2, .stride = {2}, .pad = {{1, 1}, {0, 0}}), 4, 3)                           \
    ROW(pad_of_the_other, nt_conv2d(X2, K2, .stride = {2}, .pad = {{0, 0}, {1, 1}}), 3, 4)                     \
    ROW(pad_of_two, nt_conv3d(X3, K3, .pad = {{1, 1}, {0, 0}}), 8, 6, 6)                                       \
    ROW(pad_of_three, nt_conv3d(X3, K3, .pad = {{1, 1}, {0, 0}, {2, 2}}), 8, 6, 10)                            \
    ROW(pad_without_braces, nt_conv2d(X2, K2, .pad = {1, 1}), 8, 8)                                            \
    ROW(pad_of_two_without_braces, nt_conv2d(X2, K2, .pad = {1, 1, 0, 0}), 8, 6)                               \
    ROW(pad_with_comma,                                                                                        \
        nt_conv2d(X2, K2,                                                                                      \
                  .pad =                                                                                       \
                      {                                                                                        \
                          {1, 1},                                                                              \
                      },                                                                                       \
                  .stride = {1}),                                                                              \
        8, 8)                                                                                                  \
    ROW(pad_by_place, nt_conv2d(X2, K2, .pad = {[1] = {1, 1}}), 6, 8)                                          \
    ROW(pad_of_one_place, nt_conv2d(X2, K2, .pad[0] = {1, 1}), 8, 6)                                           \
    ROW(pad_of_a_macro, nt_conv2d(X2, K2, .pad = SOME), 9, 9)                                                  \
    ROW(pad_of_an_expression, nt_conv2d(X2, K2, .pad = {{FIRST_OF(1, 2), (1)}}), 8, 8)                         \
    ROW(pad_in_a_macro, MINE(.stride = {1}, .pad = {{1, 1}}), 8, 8)                                            \
    ROW(pad_of_nothing, nt_conv2d(X2, K2, .pad = NONE), 6, 6)                                                  \
    ROW(pad_is_negative, nt_conv2d(X2, K2, .pad = {{-1, -1}}), 4, 4)                                           \
    ROW(dilation, nt_conv3d(X3, K3, .dilation = {1, 2}), 6, 4, 4)                                              \
    ROW(input_dilation, nt_conv2d(X2, K2, .input_dilation = {2}), 13, 13)                                      \
    ROW(transposed, nt_conv2d_transposed(X2, K2, .stride = {2}, .pad = {{1, 1}}), 15, 15)                      \
    ROW(transposed_more, nt_conv2d_transposed(X2, K2, .stride = {2}, .output_padding = {1}), 18, 18)           \
    ROW(transposed_more_of_one, nt_conv2d_transposed(X2, K2, .stride = {2}, .output_padding = {1, 0}), 18, 17) \
    ROW(max_pool, nt_max_pool(X2, nt_dims(3, 3), .stride = {2}, .pad = {{1, 1}}), 4, 4)                        \
    ROW(max_pool_stride_of_two, nt_max_pool(X2, nt_dims(3, 3), .stride = {0, 1}), 2, 6)                        \
    ROW(avg_pool, nt_avg_pool(X3, nt_dims(2, 2, 2), .pad = {{1, 0}, {0, 0}}), 4, 4, 4)                         \
    ROW(avg_pool_all, nt_avg_pool(X3, nt_dims(2, 2, 2), .stride = {1}, .pad = {{1, 0}}), 8, 8, 8)

#define EACH_MISTAKE(ROW)                                                                            \
    ROW(stride_of_two, nt_conv1d(X1, K1, .stride = {1, 2}),                                          \
        "conv: stride has a number for spatial axis 1, and there is 1")                              \
    ROW(pad_for_three, nt_conv2d(X2, K2, .pad = {{0, 0}, {0, 0}, {1, 1}}),                           \
        "padding has a number for spatial axis 2, and there are 2")                                  \
    ROW(dilation_of_two, nt_conv1d(X1, K1, .dilation = {1, 1}), "dilation has a number")             \
    ROW(more_for_two, nt_conv1d_transposed(X1, K1, .stride = {2}, .output_padding = {0, 1}),         \
        "output padding has a number")                                                               \
    ROW(pool_stride, nt_max_pool(X1, nt_dims(2), .stride = {2, 2}), "max_pool: stride has a number") \
    ROW(more_than_stride, nt_conv2d_transposed(X2, K2, .stride = {2, 1}, .output_padding = {1}),     \
        "less than the stride 1")

/* A list may be written without inner braces. */
#pragma GCC diagnostic ignored "-Wmissing-braces"
#define BUILD(name, value, ...)           \
    static nt_tensor build_##name(void) { \
        return value;                     \
    }
EACH_LIST(BUILD)
EACH_MISTAKE(BUILD)

#define RIGHT(name, value, ...) {#name, build_##name, nt_dims(__VA_ARGS__), NULL},
#define WRONG(name, value, text) {#name, build_##name, {0}, text},

static void each_list_goes_on_with_its_last_entry(void **state) {
    (void)state;
    const row rows[] = {EACH_LIST(RIGHT)};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nt__graph *graph = nt__trace_begin();
        nt_shape got = nt_shape_of(rows[i].build());
        if (nt__trace_status(graph) != NT_OK) fail_msg("%s: %s", rows[i].text, nt_error_message());
        assert_int_equal(got.rank, rows[i].places.rank + 2);
        for (int axis = 0; axis < rows[i].places.rank; axis++)
            if (got.dims[axis + 1] != rows[i].places.dims[axis])
                fail_msg("%s: axis %d has %d places, right is %d", rows[i].text, axis, (int)got.dims[axis + 1],
                         (int)rows[i].places.dims[axis]);
        nt__trace_end(graph);
    }
}

static void an_entry_for_no_axis_is_refused(void **state) {
    (void)state;
    const row rows[] = {EACH_MISTAKE(WRONG)};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nt__graph *graph = nt__trace_begin();
        rows[i].build();
        assert_int_equal(nt__trace_status(graph), NT_INVALID);
        if (!strstr(nt_error_message(), rows[i].message)) fail_msg("%s: %s", rows[i].text, nt_error_message());
        nt__trace_end(graph);
    }
}

static void layers_have_the_same_lists(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    nt_model *m = nt__model_new((nt__model_roles){1, 2, 3});
    nt__model_begin(m, true, NULL);
    nt_tensor y = nt_conv_layer(m, "down", X2, 1, nt_dims(3, 3), .stride = {2}, .pad = {{1, 1}});
    assert_true(nt_shape_equal(nt_shape_of(y), nt_dims(1, 4, 4, 1)));
    y = nt_conv_transposed_layer(m, "up", y, 1, nt_dims(3, 3), .stride = {2}, .pad = {{1, 1}}, .output_padding = {1});
    assert_true(nt_shape_equal(nt_shape_of(y), nt_dims(1, 8, 8, 1)));
    assert_ok(nt__trace_status(graph));
    nt__model_end(m);
    nt__model_free(m);
    nt__trace_end(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_list_goes_on_with_its_last_entry),
        cmocka_unit_test(an_entry_for_no_axis_is_refused),
        cmocka_unit_test(layers_have_the_same_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
