/* The text of a trace: byte for byte where that is short, and what else is promised of it and of its table of lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

static nt__graph *begin(void) {
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    return graph;
}

static nt_tensor input(int index, const char *name, nt_dtype dtype, nt_shape shape) {
    return nt__input(3, index, name, (nt__type){dtype, shape});
}

static nt__printed print(const nt__result *results, size_t count) {
    nt__printed printed;
    if (nt__print("test", results, count, &printed) != NT_OK) fail_msg("%s", nt_error_message());
    assert_int_equal(strlen(printed.text.data), printed.text.length);
    return printed;
}

static nt__printed print_value(nt_tensor value) {
    return print(&(nt__result){"value", value, {0}}, 1);
}

static size_t occurrences(const char *text, const char *part) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) count++;
    return count;
}

static void assert_has(const nt__printed *printed, const char *part) {
    if (!strstr(printed->text.data, part)) fail_msg("'%s' is not in\n%s", part, printed->text.data);
}

static void assert_lacks(const nt__printed *printed, const char *part) {
    if (strstr(printed->text.data, part)) fail_msg("'%s' is in\n%s", part, printed->text.data);
}

/* ---- the whole text --------------------------------------------------------------------------------------------- */

static void a_program_is_its_operations_in_order(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor image = input(0, "image", NT_F32, nt_dims(2, 3)), weight = input(1, "weight", NT_F32, nt_dims(3));
    nt_tensor scores = nt_sum(nt_mul(image, weight), 1);
    nt__result results[] = {{"scores", scores, {0}}, {"positive", nt_greater(scores, 0), {0}}};
    nt__printed printed = print(results, 2);
    nt__trace_end(graph);
    assert_string_equal(
        printed.text.data,
        "module @test {\n"
        "  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>) -> (tensor<2xf32>, tensor<2xi1>) {\n"
        "    %0 = \"stablehlo.broadcast_in_dim\"(%arg1) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> "
        "tensor<2x3xf32>\n"
        "    %1 = \"stablehlo.multiply\"(%arg0, %0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>\n"
        "    %2 = \"stablehlo.constant\"() <{value = dense<0x00000000> : tensor<f32>}> : () -> tensor<f32>\n"
        "    %3 = \"stablehlo.reduce\"(%1, %2) <{dimensions = array<i64: 1>}> ({\n"
        "    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "      %r = \"stablehlo.add\"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
        "      \"stablehlo.return\"(%r) : (tensor<f32>) -> ()\n"
        "    }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>\n"
        "    %4 = \"stablehlo.constant\"() <{value = dense<0x00000000> : tensor<2xf32>}> : () -> tensor<2xf32>\n"
        "    %5 = \"stablehlo.compare\"(%3, %4) <{compare_type = #stablehlo<comparison_type FLOAT>, "
        "comparison_direction = #stablehlo<comparison_direction GT>}> : "
        "(tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>\n"
        "    return %3, %5 : tensor<2xf32>, tensor<2xi1>\n"
        "  }\n"
        "}\n");
    nt__printed_free(&printed);
}

static void attributes_are_lists(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(0, "x", NT_F32, nt_dims(2, 3, 4)), y = input(1, "y", NT_F32, nt_dims(2, 4, 5));
    nt_tensor scalar = nt_reshape_at(nt_slice(x, nt_dims(1, 0, 2), nt_dims(2, 1, 3)), (nt_shape){0}, NT_SITE);
    nt__result results[] = {
        {"transpose", nt_transpose(x, 2, 0, -2), {0}},
        {"matmul", nt_matmul(x, y), {0}},
        {"iota", nt_iota(NT_U8, nt_dims(2, 3), -1), {0}},
        {"update", nt_update_slice(x, nt_slice(x, nt_dims(0, 0, 0), nt_dims(1, 1, 1)), nt_dims(1, 2, 3)), {0}},
        {"largest", nt_reduce_max(nt_convert(x, NT_I8), 0, 2), {0}},
        {"scalar", nt_broadcast(scalar, nt_dims(7)), {0}},
    };
    nt__printed printed = print(results, sizeof results / sizeof *results);
    nt__trace_end(graph);
    assert_has(&printed, "<{permutation = array<i64: 2, 0, 1>}>");
    assert_has(&printed,
               "<{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions "
               "= [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>}>");
    assert_has(&printed, "\"stablehlo.iota\"() <{iota_dimension = 1 : i64}> : () -> tensor<2x3xui8>");
    assert_has(&printed,
               "<{start_indices = array<i64: 1, 0, 2>, limit_indices = array<i64: 2, 1, 3>, strides = array<i64: "
               "1, 1, 1>}>");
    assert_has(&printed, " : (tensor<2x3x4xf32>, tensor<1x1x1xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> ");
    assert_has(&printed, "<{dimensions = array<i64: 0, 2>}>");
    assert_has(&printed, "\"stablehlo.maximum\"(%a, %b) : (tensor<i8>, tensor<i8>) -> tensor<i8>");
    assert_has(&printed, "<{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<7xf32>");
    nt__printed_free(&printed);
}

/* The engine reads what comes before a transpose in strides: bench/README.md. */
static void the_gradient_of_a_matrix_needs_no_transpose(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(0, "x", NT_F32, nt_dims(2, 5, 3)), w = input(1, "w", NT_F32, nt_dims(3, 4)), gradients[2];
    nt__gradient(nt_sum(nt_square(nt_matmul(x, w))), (nt_tensor[]){x, w}, 2, gradients, NULL);
    nt__result results[] = {{"x", gradients[0], {0}}, {"w", gradients[1], {0}}};
    nt__printed printed = print(results, 2);
    nt__trace_end(graph);
    assert_lacks(&printed, "stablehlo.transpose");
    assert_has(&printed, "(tensor<10x3xf32>, tensor<10x4xf32>) -> tensor<3x4xf32>");
    nt__printed_free(&printed);
}

/* ---- constants -------------------------------------------------------------------------------------------------- */

static void assert_constant(nt_dtype dtype, nt_shape shape, const void *data, const char *text) {
    nt_array *array = nt_array_from(dtype, shape, data);
    assert_non_null(array);
    nt__graph *graph = begin();
    nt__printed printed = print_value(nt_constant(array));
    nt__trace_end(graph);
    nt_array_free(array);
    assert_has(&printed, text);
    nt__printed_free(&printed);
}

static void constants_are_exact(void **state) {
    (void)state;
    const float singles[] = {NAN, INFINITY, -INFINITY, -0.0f, 1.5f, 1e-45f};
    assert_constant(NT_F32, nt_dims(3, 2), singles,
                    "dense<[[0x7FC00000, 0x7F800000], [0xFF800000, 0x80000000], [0x3FC00000, 0x00000001]]> : "
                    "tensor<3x2xf32>");
    const double doubles[] = {-1.0, 0.1};
    assert_constant(NT_F64, nt_dims(2), doubles, "dense<[0xBFF0000000000000, 0x3FB999999999999A]> : tensor<2xf64>");
    assert_constant(NT_BF16, nt_dims(2), (uint16_t[]){0x3F80, 0x8000}, "dense<[0x3F80, 0x8000]> : tensor<2xbf16>");
    assert_constant(NT_F16, nt_dims(1, 1), (uint16_t[]){0x3C00}, "dense<0x3C00> : tensor<1x1xf16>");
    assert_constant(NT_I8, nt_dims(3), (int8_t[]){-128, -1, 127}, "dense<[-128, -1, 127]> : tensor<3xi8>");
    assert_constant(NT_I16, nt_dims(2), (int16_t[]){INT16_MIN, INT16_MAX}, "dense<[-32768, 32767]> : tensor<2xi16>");
    assert_constant(NT_I32, nt_dims(2), (int32_t[]){INT32_MIN, -7}, "dense<[-2147483648, -7]> : tensor<2xi32>");
    assert_constant(NT_I64, nt_dims(2), (int64_t[]){INT64_MIN, INT64_MAX},
                    "dense<[-9223372036854775808, 9223372036854775807]> : tensor<2xi64>");
    assert_constant(NT_U8, nt_dims(2), (uint8_t[]){0, 255}, "dense<[0, 255]> : tensor<2xui8>");
    assert_constant(NT_U16, nt_dims(1), (uint16_t[]){65535}, "dense<65535> : tensor<1xui16>");
    assert_constant(NT_U32, nt_dims(2), (uint32_t[]){0, UINT32_MAX}, "dense<[0, 4294967295]> : tensor<2xui32>");
    assert_constant(NT_U64, nt_dims(2), (uint64_t[]){UINT64_MAX, 1},
                    "dense<[18446744073709551615, 1]> : tensor<2xui64>");
    assert_constant(NT_BOOL, nt_dims(2, 1), (bool[]){true, false}, "dense<[[true], [false]]> : tensor<2x1xi1>");
    assert_constant(NT_F32, nt_dims(0, 3), singles, "dense<> : tensor<0x3xf32>");
    assert_constant(NT_F32, (nt_shape){0}, singles + 4, "dense<0x3FC00000> : tensor<f32>");
}

static void assert_full(nt_tensor value, const char *text) {
    nt__printed printed = print_value(value);
    assert_has(&printed, text);
    nt__printed_free(&printed);
}

static void a_filled_tensor_prints_one_element(void **state) {
    (void)state;
    nt__graph *graph = begin();
    assert_full(nt_full(NT_F32, nt_dims(128, 784), -0.0), "dense<0x80000000> : tensor<128x784xf32>");
    assert_full(nt_full(NT_I64, nt_dims(3), -0x1p63), "dense<-9223372036854775808> : tensor<3xi64>");
    assert_full(nt_full(NT_BOOL, nt_dims(3), 1), "dense<true> : tensor<3xi1>");
    assert_full(nt_full(NT_F32, nt_dims(3, 0), 1), "dense<> : tensor<3x0xf32>");
    nt__trace_end(graph);
}

/* ---- arguments -------------------------------------------------------------------------------------------------- */

static void only_what_a_result_needs_is_printed(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor second = input(7, "made first", NT_F32, nt_dims(2)), unused = input(8, "unused", NT_I32, nt_dims(3));
    nt_tensor first = input(9, "made last", NT_F32, nt_dims(2));
    nt_exp(first);
    nt_add(unused, 1);
    nt__printed printed = print_value(nt_sub(first, second));
    nt__trace_end(graph);
    assert_int_equal(printed.argument_count, 2);
    assert_string_equal(printed.arguments[0].name, "made first");
    assert_string_equal(printed.arguments[1].name, "made last");
    assert_int_equal(printed.arguments[0].index, 7);
    assert_int_equal(printed.arguments[1].index, 9);
    assert_int_equal(printed.arguments[1].role, 3);
    assert_int_equal(printed.arguments[1].donated_to, -1);
    assert_true(nt__type_equal(printed.arguments[1].type, (nt__type){NT_F32, nt_dims(2)}));
    assert_has(&printed, "    %0 = \"stablehlo.subtract\"(%arg1, %arg0) : ");
    assert_lacks(&printed, "exponential");
    assert_lacks(&printed, "i32");
    assert_int_equal(printed.line_count, 1);
    nt__printed_free(&printed);
}

/* An argument that gives its memory is printed even when nothing reads it; another size of the same bytes will do. */
static void donation_is_an_attribute(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(0, "x", NT_F32, nt_dims(2)), old = input(1, "old", NT_I32, nt_dims(1, 2));
    nt_tensor state_tensor = input(2, "state", NT_F32, nt_dims(2));
    nt__result results[] = {
        {"loss", nt_sum(x), {0}}, {"state", nt_add(state_tensor, x), state_tensor}, {"new", nt_neg(x), old}};
    nt__printed printed = print(results, 3);
    nt__trace_end(graph);
    assert_has(&printed, "@main(%arg0: tensor<2xf32>, %arg1: tensor<1x2xi32> {tf.aliasing_output = 2 : i32}, %arg2: "
                         "tensor<2xf32> {tf.aliasing_output = 1 : i32}) -> ");
    assert_int_equal(printed.arguments[0].donated_to, -1);
    assert_int_equal(printed.arguments[1].donated_to, 2);
    assert_int_equal(printed.arguments[2].donated_to, 1);
    nt__printed_free(&printed);
}

static void a_result_may_be_anything(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(0, "x", NT_F32, nt_dims(2)), one = nt_full(NT_F32, (nt_shape){0}, 1), y = nt_exp(x);
    nt__result results[] = {{"input", x, {0}},
                            {"constant", one, {0}},
                            {"value", y, {0}},
                            {"same", y, {0}},
                            {"stopped", nt_stop_gradient(nt_stop_gradient(x)), {0}},
                            {"after", nt_log(nt_stop_gradient(y)), {0}}};
    nt__printed printed = print(results, 6);
    assert_has(&printed, "    %2 = \"stablehlo.log\"(%1) : ");
    assert_has(&printed, "    return %arg0, %0, %1, %1, %arg0, %2 : tensor<2xf32>, tensor<f32>, tensor<2xf32>, "
                         "tensor<2xf32>, tensor<2xf32>, tensor<2xf32>\n");
    nt__printed_free(&printed);
    printed = print(NULL, 0);
    nt__trace_end(graph);
    assert_string_equal(printed.text.data, "module @test {\n  func.func public @main() -> () {\n    return\n  }\n}\n");
    assert_int_equal(printed.argument_count, 0);
    assert_int_equal(printed.line_count, 0);
    nt__printed_free(&printed);
}

/* ---- a longer program ------------------------------------------------------------------------------------------- */

static nt_tensor network(nt_tensor x, nt_tensor weight, nt_tensor label) {
    nt_tensor scores = nt_log_softmax(nt_matmul(nt_relu(x), weight));
    return nt_neg(nt_mean(nt_sum(nt_mul(scores, nt_one_hot(label, 10, NT_F32)), -1)));
}

/* The same network a few lines further down, with work that leads nowhere between. */
static nt_tensor moved_network(nt_tensor x, nt_tensor weight, nt_tensor label) {
    nt_exp(weight);
    nt_tensor product = nt_matmul(nt_relu(x), weight);
    nt_tensor scores = nt_log_softmax(product);
    nt_reduce_max(scores);
    nt_tensor hot = nt_one_hot(label, 10, NT_F32);
    return nt_neg(nt_mean(nt_sum(nt_mul(scores, hot), -1)));
}

static nt__printed print_network(nt_tensor (*make)(nt_tensor x, nt_tensor weight, nt_tensor label)) {
    nt__graph *graph = begin();
    nt_tensor x = input(0, "x", NT_F32, nt_dims(8, 20)), weight = input(1, "weight", NT_F32, nt_dims(20, 10));
    nt_tensor loss = make(x, weight, input(2, "label", NT_I32, nt_dims(8))), gradient;
    nt__gradient(loss, &weight, 1, &gradient, NULL);
    nt__result results[] = {{"loss", loss, {0}}, {"gradient", gradient, weight}};
    nt__printed printed = print(results, 2);
    nt__trace_end(graph);
    return printed;
}

static void the_same_program_has_the_same_bytes(void **state) {
    (void)state;
    nt__printed once = print_network(network), again = print_network(network), moved = print_network(moved_network);
    assert_string_equal(once.text.data, again.text.data);
    assert_string_equal(once.text.data, moved.text.data);
    assert_int_equal(once.line_count, moved.line_count);
    for (size_t i = 0; i < once.line_count; i++) assert_string_equal(once.lines[i].text, moved.lines[i].text);
    nt__printed_free(&once);
    nt__printed_free(&again);
    nt__printed_free(&moved);
}

static void the_text_names_no_places(void **state) {
    (void)state;
    nt__printed printed = print_network(network);
    assert_lacks(&printed, "test_print");
    assert_lacks(&printed, "/");
    assert_lacks(&printed, "network");
    assert_lacks(&printed, "loc(");
    assert_lacks(&printed, "weight");
    nt__printed_free(&printed);
}

/* A line of the text as its record has it: no indentation, no numbers of values, no dialect. */
static void without_numbers(const char *text, size_t length, char *out, size_t size) {
    static const char dialect[] = "\"stablehlo.";
    while (length && *text == ' ') text++, length--;
    snprintf(out, size, "%.*s", (int)length, text);
    if (out[0] != '%' || !isdigit((unsigned char)out[1])) return;
    char *name = strstr(out, dialect) + sizeof dialect - 1, *quote = strchr(name, '"'), *rest = strchr(quote, ')') + 1;
    char copy[2048];
    snprintf(copy, sizeof copy, "%.*s%s", (int)(quote - name), name, rest);
    snprintf(out, size, "%s", copy);
}

static void every_line_has_its_record(void **state) {
    (void)state;
    nt__printed printed = print_network(network);
    const char *at = printed.text.data;
    for (int i = 1; i < printed.first_line; i++) at = strchr(at, '\n') + 1;
    for (size_t i = 0; i < printed.line_count; i++) {
        char expected[2048];
        const char *end = strchr(at, '\n');
        without_numbers(at, (size_t)(end - at), expected, sizeof expected);
        assert_string_equal(printed.lines[i].text, expected);
        assert_string_equal(printed.lines[i].site.file, __FILE__);
        at = end + 1;
    }
    assert_int_equal(strncmp(at, "    return ", 11), 0);
    assert_int_equal(occurrences(printed.text.data, "^bb0"), 5);
    nt__printed_free(&printed);
}

/* All lines of a region, and those of a gradient rule, belong to the call that made the operation. */
static void lines_name_the_call(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(0, "x", NT_F32, nt_dims(3)), gradient;
    nt_tensor y = nt_exp(x);
    int line_of_exp = __LINE__ - 1;
    nt_tensor z = nt_reduce_max(y);
    int line_of_max = __LINE__ - 1;
    nt__gradient(z, &x, 1, &gradient, NULL);
    nt__result results[] = {{"z", z, {0}}, {"gradient", gradient, {0}}};
    nt__printed printed = print(results, 2);
    nt__trace_end(graph);
    size_t of_exp = 0;
    for (size_t i = 0; i < printed.line_count; i++) {
        assert_string_equal(printed.lines[i].site.function, __func__);
        of_exp += printed.lines[i].site.line == line_of_exp;
        assert_true(printed.lines[i].site.line == line_of_exp || printed.lines[i].site.line == line_of_max);
    }
    assert_int_equal(of_exp, 2);
    nt__printed_free(&printed);
}

/* What the library makes on its own account has no place; the record says so with empty texts. */
static void a_line_may_have_no_place(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(0, "x", NT_F32, nt_dims(3));
    nt__printed printed = print_value(nt_exp_at(nt_tanh(x), (nt_site){0}));
    nt__trace_end(graph);
    assert_int_equal(printed.line_count, 2);
    assert_string_equal(printed.lines[0].site.function, __func__);
    assert_string_equal(printed.lines[1].site.file, "");
    assert_string_equal(printed.lines[1].site.function, "");
    assert_int_equal(printed.lines[1].site.line, 0);
    nt__printed_free(&printed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_its_operations_in_order),
        cmocka_unit_test(the_gradient_of_a_matrix_needs_no_transpose),
        cmocka_unit_test(attributes_are_lists),
        cmocka_unit_test(constants_are_exact),
        cmocka_unit_test(a_filled_tensor_prints_one_element),
        cmocka_unit_test(only_what_a_result_needs_is_printed),
        cmocka_unit_test(donation_is_an_attribute),
        cmocka_unit_test(a_result_may_be_anything),
        cmocka_unit_test(the_same_program_has_the_same_bytes),
        cmocka_unit_test(the_text_names_no_places),
        cmocka_unit_test(every_line_has_its_record),
        cmocka_unit_test(lines_name_the_call),
        cmocka_unit_test(a_line_may_have_no_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
