/* Equal expressions are one node: which are, which are not, and what that leaves alone: places, gradients, scopes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "graph/emit.h"
#include "nitro/gradient.h"

static nt__graph *begin(void) {
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    return graph;
}

static void end(nt__graph *graph) {
    if (nt__trace_status(graph) != NT_OK) fail_msg("%s", nt_error_message());
    nt__trace_end(graph);
}

static nt_tensor input(nt_shape shape) {
    return nt__input(0, 0, "x", (nt__type){NT_F32, shape});
}

static nt__printed print(nt_tensor value) {
    nt__printed printed;
    if (nt__print("test", &(nt__result){"value", value, {0}}, 1, &printed) != NT_OK) fail_msg("%s", nt_error_message());
    return printed;
}

#define ONE(a, b) assert_int_equal((a).id, (b).id)
#define TWO(a, b) assert_int_not_equal((a).id, (b).id)

/* ---- which are one ---------------------------------------------------------------------------------------------- */

static void equal_expressions_are_one_line(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(nt_dims(4));
    nt_tensor a = nt_mul(nt_exp(x), 2), b = nt_mul(nt_exp(x), 2);
    ONE(a, b);
    nt__printed printed = print(nt_add(a, b));
    assert_int_equal(printed.line_count, 4);
    assert_string_equal(printed.lines[3].text, "add : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>");
    assert_non_null(strstr(printed.text.data, "%3 = \"stablehlo.add\"(%2, %2) : "));
    nt__printed_free(&printed);
    end(graph);
}

static void attributes_tell_expressions_apart(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(nt_dims(3, 3)), image = input(nt_dims(1, 6, 6, 1)), kernel = input(nt_dims(2, 2, 1, 1));
    ONE(nt_sum(x, 0), nt_sum(x, -2));
    TWO(nt_sum(x, 0), nt_sum(x, 1));
    TWO(nt_sum(x, 0), nt_prod(x, 0));
    ONE(nt_less(x, 1), nt_less(x, 1));
    TWO(nt_less(x, 1), nt_less_equal(x, 1));
    ONE(nt_iota(NT_I32, nt_dims(3), 0), nt_iota(NT_I32, nt_dims(3), 0));
    TWO(nt_iota(NT_I32, nt_dims(3, 3), 0), nt_iota(NT_I32, nt_dims(3, 3), 1));
    TWO(nt_iota(NT_I32, nt_dims(3), 0), nt_iota(NT_I64, nt_dims(3), 0));
    TWO(nt_reshape(x, 9), nt_reshape(x, 1, 9));
    TWO(nt_sort(x, 0, NT_ASCENDING), nt_argsort(x, 0, NT_ASCENDING));
    TWO(nt_sort(x, 0, NT_ASCENDING), nt_sort(x, 0, NT_DESCENDING));
    ONE(nt_conv2d(image, kernel, .stride = {2}), nt_conv2d(image, kernel, .stride = {2, 2}));
    TWO(nt_conv2d(image, kernel), nt_conv2d(image, kernel, .stride = {2, 2}));
    TWO(nt_sub(x, nt_exp(x)), nt_sub(nt_exp(x), x));
    ONE(nt_sigmoid(x), nt_logistic(x));
    TWO(nt_add(x, nt_exp(x)), nt_add(nt_exp(x), x)); /* as they are written */
    end(graph);
}

static void constants_are_one_by_their_elements(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_array *small = nt_array_new(NT_F32, nt_dims(2)), *same = nt_array_new(NT_F32, nt_dims(2));
    nt_array *other = nt_array_new(NT_F32, nt_dims(1, 2));
    assert_non_null(small);
    assert_non_null(same);
    assert_non_null(other);
    ONE(nt_constant(small), nt_constant(same));
    TWO(nt_constant(small), nt_constant(other));
    nt_tensor before = nt_constant(small);
    nt_array_set(small, 1, 1);
    TWO(nt_constant(small), before);
    ONE(nt_constant(same), before);
    ONE(nt_full(NT_F32, nt_dims(2), 0.1), nt_full(NT_F32, nt_dims(2), 0.1));
    TWO(nt_full(NT_F32, nt_dims(2), 0.0), nt_full(NT_F32, nt_dims(2), -0.0));
    TWO(nt_full(NT_F32, nt_dims(2), 0), nt_full(NT_I32, nt_dims(2), 0));
    nt_array_free(other);
    nt_array_free(same);
    nt_array_free(small);
    end(graph);
}

static void inputs_and_nodes_of_their_own_are_never_one(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(nt_dims(2));
    TWO(x, input(nt_dims(2)));
    const nt__attributes alone = {.alone = true};
    nt_tensor first = nt__emit(NT__OP_neg, NT_SITE, (nt__type){0}, 1, &x, &alone);
    nt_tensor second = nt__emit(NT__OP_neg, NT_SITE, (nt__type){0}, 1, &x, &alone);
    TWO(first, second);
    TWO(nt_neg(x), first);
    TWO(nt_exp(first), nt_exp(second)); /* so what is computed from them is computed twice */
    end(graph);
}

static void scopes_share_within_themselves(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(nt_dims(2)), outer = nt_exp(x);
    uint32_t program = nt__share_begin();
    nt_tensor body = nt_exp(x);
    TWO(body, outer);
    ONE(nt_exp(x), body);
    uint32_t enclosing = nt__share_begin();
    TWO(nt_exp(x), body);
    nt__share_end(enclosing);
    ONE(nt_exp(x), body);
    nt__share_end(program);
    ONE(nt_exp(x), outer);
    nt__share_begin();
    TWO(nt_exp(x), body);
    nt__share_end(program);
    end(graph);
}

/* ---- what sharing leaves alone ---------------------------------------------------------------------------------- */

static void the_first_place_stays(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(nt_dims(2));
    int line = __LINE__ + 1;
    nt_tensor first = nt_exp(x);
    nt_tensor second = nt_exp(x);
    nt__printed printed = print(second);
    assert_int_equal(printed.line_count, 1);
    assert_int_equal(printed.lines[0].site.line, line);
    ONE(first, second);
    nt__printed_free(&printed);
    end(graph);
}

/* exp(x) exp(x), from one variable or from two calls, is the same program with the same gradient. */
static nt__printed gradient_of_squares(bool twice) {
    nt__graph *graph = begin();
    nt_tensor x = input(nt_dims(2)), gradient, a = nt_exp(x), b = a;
    if (twice) b = nt_exp(x);
    nt__gradient(nt_sum(nt_mul(a, b)), &x, 1, &gradient, NULL);
    nt__printed printed = print(gradient);
    end(graph);
    return printed;
}

static void gradients_of_one_node_add_up(void **state) {
    (void)state;
    nt__printed one = gradient_of_squares(false), two = gradient_of_squares(true);
    assert_string_equal(one.text.data, two.text.data);
    assert_non_null(strstr(one.text.data, "stablehlo.add")); /* both uses count */
    nt__printed_free(&one);
    nt__printed_free(&two);
}

static void rules_use_what_the_function_made(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(nt_dims(2)), gradient;
    nt_tensor cosine = nt_cos(x);
    nt__gradient(nt_sum(nt_mul(nt_stop_gradient(cosine), nt_sin(x))), &x, 1, &gradient, NULL);
    nt__printed printed = print(gradient);
    const char *first = strstr(printed.text.data, "cosine");
    assert_non_null(first);
    assert_null(strstr(first + 1, "cosine"));
    nt__printed_free(&printed);
    end(graph);
}

/* y depends on h; that it depends on the other exponential is no part of dy/dh, and could not be left out. */
static void a_gradient_by_a_value_made_twice_is_refused(void **state) {
    (void)state;
    char places[128];
    nt__graph *graph = begin();
    nt_tensor x = input(nt_dims(2));
    int line = __LINE__ + 1;
    nt_tensor h = nt_exp(x);
    nt_tensor y = nt_sum(nt_mul(h, nt_exp(x)));
    snprintf(places, sizeof places, "test_share.c:%d and ", line);
    nt_grad(y, h);
    assert_int_equal(nt__trace_status(graph), NT_INVALID);
    if (!strstr(nt_error_message(), "grad: with respect to an expression that is made twice, by ") ||
        !strstr(nt_error_message(), places))
        fail_msg("%s", nt_error_message());
    nt__trace_end(graph);
    graph = begin();
    x = input(nt_dims(2));
    h = nt_exp(x);
    y = nt_sum(nt_mul(h, h));
    assert_true(nt_shape_equal(nt_shape_of(nt_grad(y, h)), nt_dims(2)));
    end(graph);
}

/* The rule of cos computes a sine; the one written here is another expression. */
static void what_rules_compute_is_not_made_twice(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    nt_tensor x = nt__input(0, 0, "x", (nt__type){NT_F32, nt_dims(3)});
    nt_tensor slope = nt_grad(nt_sum(nt_cos(x)), x), sine = nt_sin(x);
    nt_tensor two = nt_grad(nt_sum(nt_add(nt_square(sine), slope)), sine);
    assert_int_equal(nt__trace_status(graph), NT_OK);
    assert_true(nt__tensor_made(two));
    nt__trace_end(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_expressions_are_one_line),
        cmocka_unit_test(attributes_tell_expressions_apart),
        cmocka_unit_test(constants_are_one_by_their_elements),
        cmocka_unit_test(inputs_and_nodes_of_their_own_are_never_one),
        cmocka_unit_test(scopes_share_within_themselves),
        cmocka_unit_test(the_first_place_stays),
        cmocka_unit_test(gradients_of_one_node_add_up),
        cmocka_unit_test(rules_use_what_the_function_made),
        cmocka_unit_test(a_gradient_by_a_value_made_twice_is_refused),
        cmocka_unit_test(what_rules_compute_is_not_made_twice),
    };
    return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
