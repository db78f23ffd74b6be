/* Bodies as regions of a trace: what they see, what of them is printed, what is refused, and that nothing is lost when
 * memory is short. What they compute is in test_control.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "graph/emit.h"
#include "nitro/control.h"
#include "nitro/gradient.h"

static nt_tensor input(int index, nt_dtype dtype, nt_shape shape) {
    return nt__input(3, index, "input", (nt__type){dtype, shape});
}

static nt_tensor vector(int index) {
    return input(index, NT_F32, nt_dims(3));
}

static nt_tensor scalar(nt_dtype dtype, double value) {
    return nt_full(dtype, (nt_shape){0}, value);
}

static size_t occurrences(const char *text, const char *part) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) count++;
    return count;
}

/* Prints the tensor as the program's only result and ends the trace. */
static nt__printed printed_of(nt_tensor value, nt__graph *graph) {
    nt__printed printed;
    if (nt__print("test", &(nt__result){"value", value, {0}}, 1, &printed) != NT_OK) fail_msg("%s", nt_error_message());
    nt__trace_end(graph);
    return printed;
}

/* ---- the text --------------------------------------------------------------------------------------------------- */

static nt_tensor captured;

static nt_loop add_step(nt_loop now, void *context) {
    (void)context;
    return (nt_loop){.carry = {nt_add(now.carry[0], now.inputs[0])}, .outputs = {nt_mul(now.carry[0], captured)}};
}

static void a_scan_is_a_while_over_a_counter(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    captured = input(1, NT_F32, (nt_shape){0});
    nt_tensor x = vector(0);
    nt_loop all = nt_scan(add_step, NULL, .carry = {scalar(NT_F32, 0)}, .inputs = {x}, .direction = NT_BACKWARD);
    nt__printed printed = printed_of(all.outputs[0], graph);
    assert_string_equal(
        printed.text.data,
        "module @test {\n"
        "  func.func public @main(%arg0: tensor<f32>, %arg1: tensor<3xf32>) -> (tensor<3xf32>) {\n"
        "    %0 = \"stablehlo.constant\"() <{value = dense<0x00000000> : tensor<f32>}> : () -> tensor<f32>\n"
        "    %1 = \"stablehlo.constant\"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>\n"
        "    %2 = \"stablehlo.constant\"() <{value = dense<0x00000000> : tensor<3xf32>}> : () -> tensor<3xf32>\n"
        "    %3:3 = \"stablehlo.while\"(%1, %0, %2) ({\n"
        "      ^bb0(%4: tensor<i32>, %5: tensor<f32>, %6: tensor<3xf32>):\n"
        "      %7 = \"stablehlo.constant\"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>\n"
        "      %8 = \"stablehlo.compare\"(%4, %7) <{compare_type = #stablehlo<comparison_type SIGNED>, "
        "comparison_direction = #stablehlo<comparison_direction LT>}> : "
        "(tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "      \"stablehlo.return\"(%8) : (tensor<i1>) -> ()\n"
        "    }, {\n"
        "      ^bb0(%9: tensor<i32>, %10: tensor<f32>, %11: tensor<3xf32>):\n"
        "      %12 = \"stablehlo.constant\"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>\n"
        "      %13 = \"stablehlo.constant\"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>\n"
        "      %14 = \"stablehlo.constant\"() <{value = dense<2> : tensor<i32>}> : () -> tensor<i32>\n"
        "      %15 = \"stablehlo.subtract\"(%14, %9) : (tensor<i32>, tensor<i32>) -> tensor<i32>\n"
        "      %16 = \"stablehlo.dynamic_slice\"(%arg1, %15) <{slice_sizes = array<i64: 1>}> : (tensor<3xf32>, "
        "tensor<i32>) -> tensor<1xf32>\n"
        "      %17 = \"stablehlo.reshape\"(%16) : (tensor<1xf32>) -> tensor<f32>\n"
        "      %18 = \"stablehlo.add\"(%10, %17) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
        "      %19 = \"stablehlo.multiply\"(%10, %arg0) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
        "      %20 = \"stablehlo.reshape\"(%19) : (tensor<f32>) -> tensor<1xf32>\n"
        "      %21 = \"stablehlo.dynamic_update_slice\"(%11, %20, %15) : (tensor<3xf32>, tensor<1xf32>, tensor<i32>) "
        "-> "
        "tensor<3xf32>\n"
        "      %22 = \"stablehlo.add\"(%9, %12) : (tensor<i32>, tensor<i32>) -> tensor<i32>\n"
        "      \"stablehlo.return\"(%22, %18, %21) : (tensor<i32>, tensor<f32>, tensor<3xf32>) -> ()\n"
        "    }) : (tensor<i32>, tensor<f32>, tensor<3xf32>) -> (tensor<i32>, tensor<f32>, tensor<3xf32>)\n"
        "    return %3#2 : tensor<3xf32>\n"
        "  }\n"
        "}\n");
    assert_int_equal(printed.first_line, 3);
    assert_int_equal(printed.line_count, 23);
    assert_string_equal(printed.lines[16].text, "add : (tensor<f32>, tensor<f32>) -> tensor<f32>");
    assert_string_equal(printed.lines[16].site.function, "add_step");
    nt__printed_free(&printed);
}

/* The first carry alone is used: neither the second one, nor what is stacked, nor what only they need is in the text.
 */
static nt_loop two_carries(nt_loop now, void *context) {
    (void)context;
    nt_tensor unused = nt_sin(nt_mul(now.carry[1], now.inputs[1]));
    return (nt_loop){.carry = {nt_exp(now.carry[0]), nt_tanh(unused)}, .outputs = {unused, now.index}};
}

static void only_what_is_needed_is_printed(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    nt_loop all =
        nt_scan(two_carries, NULL, .carry = {scalar(NT_F32, 0), scalar(NT_F32, 1)}, .inputs = {vector(0), vector(1)});
    nt__printed printed = printed_of(all.carry[0], graph);
    assert_non_null(strstr(printed.text.data, "exponential"));
    assert_null(strstr(printed.text.data, "tanh"));
    assert_null(strstr(printed.text.data, "sine"));
    assert_null(strstr(printed.text.data, "dynamic"));
    assert_null(strstr(printed.text.data, "%arg"));
    assert_non_null(strstr(printed.text.data, "%2:2 = \"stablehlo.while\""));
    nt__printed_free(&printed);
}

static nt_loop recurrent_step(nt_loop now, void *context) {
    (void)context;
    nt_tensor next = nt_tanh(nt_add(nt_matmul(now.carry[0], captured), now.inputs[0]));
    return (nt_loop){.carry = {next}, .outputs = {next}};
}

/* The gradient of a matrix [8, 8] by which `rows` rows are multiplied in each of five iterations. */
static nt__printed gradient_of_a_matrix(int64_t rows) {
    nt__graph *graph = nt__trace_begin();
    nt_tensor gradient;
    captured = input(0, NT_F32, nt_dims(8, 8));
    nt_loop all = nt_scan(recurrent_step, NULL, .carry = {input(1, NT_F32, nt_dims(rows, 8))},
                          .inputs = {input(2, NT_F32, nt_dims(5, rows, 8))});
    nt__gradient(nt_sum(nt_square(all.outputs[0])), &captured, 1, &gradient, NULL);
    return printed_of(gradient, graph);
}

/* One product after the loop of what the iterations multiplied, where the rows to keep are fewer elements than the
 * matrix that would be added to in each. */
static void the_gradient_of_a_matrix_is_one_product_or_a_sum(void **state) {
    (void)state;
    nt__printed few = gradient_of_a_matrix(3), many = gradient_of_a_matrix(16);
    static const char sum[] = "(tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>";
    assert_non_null(strstr(few.text.data, "(tensor<15x8xf32>, tensor<15x8xf32>) -> tensor<8x8xf32>"));
    assert_null(strstr(few.text.data, sum));
    assert_null(strstr(many.text.data, "tensor<80x8xf32>"));
    assert_non_null(strstr(many.text.data, sum));
    nt__printed_free(&few);
    nt__printed_free(&many);
}

static nt_loop nested(nt_loop now, void *context) {
    const int *depth = context;
    int below = *depth - 1;
    nt_tensor x = nt_sin(nt_mul(now.carry[0], captured));
    if (below > 0) x = nt_scan(nested, &below, .carry = {x}, .length = 2).carry[0];
    return (nt_loop){.carry = {nt_cos(x)}};
}

static size_t nodes_of_gradient(int depth, size_t *lines) {
    nt__graph *graph = nt__trace_begin();
    nt_tensor gradient;
    captured = vector(0);
    nt_tensor last = nt_scan(nested, &depth, .carry = {captured}, .length = 3).carry[0];
    nt__gradient(nt_sum(last), &captured, 1, &gradient, NULL);
    size_t nodes = graph->node_count;
    nt__printed printed = printed_of(gradient, graph);
    *lines = printed.line_count;
    nt__printed_free(&printed);
    return nodes;
}

/* Values of an inner body are kept once for each loop around it, so that a loop more costs one more than the last. */
static void nodes_grow_with_the_depth_and_no_faster(void **state) {
    (void)state;
    size_t nodes[5], lines[5];
    for (int i = 0; i < 5; i++) nodes[i] = nodes_of_gradient(i + 1, &lines[i]);
    for (int i = 2; i < 5; i++) {
        size_t more = nodes[i] - nodes[i - 1], before = nodes[i - 1] - nodes[i - 2];
        assert_true(more <= before + 16);
        assert_true(lines[i] - lines[i - 1] <= lines[i - 1] - lines[i - 2] + 16);
    }
}

static nt__printed print_gradient(void) {
    nt__graph *graph = nt__trace_begin();
    nt_tensor gradient;
    int depth = 3;
    captured = vector(0);
    nt_tensor last = nt_scan(nested, &depth, .carry = {captured}, .length = 3).carry[0];
    nt__gradient(nt_sum(last), &captured, 1, &gradient, NULL);
    return printed_of(gradient, graph);
}

static void the_text_is_the_same_each_time(void **state) {
    (void)state;
    nt__printed one = print_gradient(), two = print_gradient();
    assert_string_equal(one.text.data, two.text.data);
    assert_int_equal(one.line_count + 6, occurrences(one.text.data, "\n") + 1);
    nt__printed_free(&one);
    nt__printed_free(&two);
}

/* ---- what bodies see -------------------------------------------------------------------------------------------- */

static nt_values twice_the_same(nt_values x, void *context) {
    (void)context;
    return (nt_values){{nt_add(nt_exp(x.at[0]), nt_exp(x.at[0]))}};
}

/* Equal expressions are one within a body, and not across its border. */
static void equal_expressions_are_one_within_a_body(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    nt_tensor x = vector(0), outer = nt_exp(x);
    nt_values y = nt_cond(nt_less(nt_sum(x), 0), twice_the_same, twice_the_same, NULL, x);
    nt__printed printed = printed_of(nt_add(outer, nt_add(y.at[0], nt_exp(x))), graph);
    assert_int_equal(occurrences(printed.text.data, "exponential"), 3);
    nt__printed_free(&printed);
}

static nt_tensor iterations[2];
static size_t loops;

static nt_loop note_inner(nt_loop now, void *context) {
    (void)context;
    loops = nt__trace_loops();
    for (size_t i = 0; i < loops && i < 2; i++) iterations[i] = nt__trace_iteration(i);
    nt_tensor both = nt_add(nt_mul(iterations[0], 10), iterations[1]);
    assert_int_equal(iterations[1].id, now.index.id);
    return (nt_loop){.outputs = {both}};
}

static nt_values note_branch(nt_values x, void *context) {
    (void)context;
    return (nt_values){{nt_add(nt_sum(nt_scan(note_inner, NULL, .length = 2).outputs[0]), x.at[0])}};
}

static nt_loop note_outer(nt_loop now, void *context) {
    (void)context;
    nt_tensor yes = nt_equal(now.carry[0], 0);
    return (nt_loop){.carry = {nt_cond(yes, note_branch, note_branch, NULL, now.carry[0]).at[0]}};
}

static nt_tensor below_ten(nt_loop now, void *context) {
    (void)context;
    return nt_less(now.carry[0], 10);
}

static void the_iterations_of_all_loops_around_are_known(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    assert_int_equal(nt__trace_loops(), 0);
    nt_loop last = nt_while(below_ten, note_outer, NULL, scalar(NT_I32, 0));
    assert_int_equal(loops, 2);
    assert_int_equal(nt__trace_loops(), 0);
    nt__printed printed = printed_of(last.carry[0], graph);
    assert_int_equal(occurrences(printed.text.data, "stablehlo.while"), 3);
    nt__printed_free(&printed);
}

static nt_values make_outside(nt_values x, void *context) {
    assert_true(nt__trace_in_body());
    nt__trace_place place = nt__trace_leave_bodies();
    assert_false(nt__trace_in_body());
    *(nt_tensor *)context = nt_exp(vector(7));
    nt__trace_go_back(place);
    return (nt_values){{nt_mul(x.at[0], nt_mul(*(nt_tensor *)context, nt_exp(vector(7))))}};
}

static nt_loop around_outside(nt_loop now, void *context) {
    return (nt_loop){.carry = {nt_remat(make_outside, context, now.carry[0]).at[0]}};
}

/* What a body makes for the whole program is used there and outside. */
static void bodies_can_be_left_for_a_while(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    assert_false(nt__trace_in_body());
    nt_tensor shared;
    nt_tensor last = nt_scan(around_outside, &shared, .carry = {vector(0)}, .length = 3).carry[0];
    nt__printed printed = printed_of(nt_add(last, nt_exp(shared)), graph);
    const char *loop = strstr(printed.text.data, "stablehlo.while");
    const char *first = strstr(printed.text.data, "stablehlo.exponential");
    assert_true(first && loop && first < loop);
    nt__printed_free(&printed);
    assert_false(nt__trace_in_body());
    nt__trace_go_back(nt__trace_leave_bodies());
}

static nt_values claim(nt_values x, void *context) {
    nt__claim_range(nt_reshape(x.at[0], 3), 0, 7, NT_SITE);
    nt__claim_range(*(nt_tensor *)context, 0, 9, NT_SITE);
    return (nt_values){{nt_convert(x.at[0], NT_F32)}};
}

/* A body that always runs claims like the code around it; a branch, which may not run, claims nothing. */
static void claims_reach_arguments_through_bodies(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    nt_tensor labels = input(0, NT_I32, nt_dims(3)), others = input(1, NT_I32, nt_dims(2));
    nt_remat(claim, &others, labels);
    nt_cond(nt_equal(nt_sum(labels), 0), claim, claim, &others, labels);
    size_t count;
    const nt__claim *claims = nt__claims(graph, &count);
    assert_int_equal(count, 2);
    assert_int_equal(claims[0].index, 0);
    assert_true(claims[0].bounds.high == 6);
    assert_int_equal(claims[1].index, 1);
    assert_true(claims[1].bounds.high == 8);
    assert_int_equal(nt__trace_status(graph), NT_OK);
    nt__trace_end(graph);
}

static void no_iterations_give_the_carry_back(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    nt_tensor none = input(0, NT_F32, nt_dims(0, 3)), first = vector(1);
    captured = vector(2);
    nt_loop all = nt_scan(add_step, NULL, .carry = {first}, .inputs = {none});
    assert_int_equal(all.carry[0].id, first.id);
    assert_true(nt_shape_equal(nt_shape_of(all.outputs[0]), nt_dims(0, 3)));
    nt__printed printed = printed_of(all.outputs[0], graph);
    assert_null(strstr(printed.text.data, "while"));
    nt__printed_free(&printed);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static nt_loop carry_of_other_type(nt_loop now, void *context) {
    (void)context;
    return (nt_loop){.carry = {now.carry[0], nt_convert(now.carry[1], NT_F64)}};
}

static nt_loop carry_is_short(nt_loop now, void *context) {
    (void)context;
    return (nt_loop){.carry = {now.carry[0]}};
}

static nt_loop has_outputs(nt_loop now, void *context) {
    (void)context;
    return (nt_loop){.carry = {now.carry[0]}, .outputs = {now.carry[0]}};
}

static nt_loop with_a_gap(nt_loop now, void *context) {
    (void)context;
    nt_loop next = {.carry = {now.carry[0]}};
    next.outputs[1] = now.carry[0];
    return next;
}

static nt_loop keeps_it(nt_loop now, void *context) {
    captured = nt_exp(now.carry[0]);
    (void)context;
    return (nt_loop){.carry = {now.carry[0]}};
}

static nt_tensor vector_condition(nt_loop now, void *context) {
    (void)context;
    return nt_less(now.carry[0], 1);
}

static nt_tensor scalar_condition(nt_loop now, void *context) {
    (void)context;
    return nt_less(nt_sum(now.carry[0]), 1);
}

static nt_values as_it_is(nt_values x, void *context) {
    (void)context;
    return x;
}

static nt_values summed(nt_values x, void *context) {
    (void)context;
    return (nt_values){{nt_sum(x.at[0])}};
}

static nt_values nothing(nt_values x, void *context) {
    (void)context;
    (void)x;
    return (nt_values){0};
}

static nt_values of_outside(nt_values x, void *context) {
    (void)context;
    return (nt_values){{nt_mul(x.at[0], captured)}};
}

static nt_values scalar_cotangent(nt_values x, nt_values y, nt_values c, void *context) {
    (void)x;
    (void)y;
    (void)context;
    return (nt_values){{nt_sum(c.at[0])}};
}

static nt_loop slope_of_a_slice(nt_loop now, void *context) {
    (void)context;
    return (nt_loop){.outputs = {nt_grad(nt_square(now.inputs[0]), captured)}};
}

static nt_loop eight_axes(nt_loop now, void *context) {
    (void)context;
    return (nt_loop){.outputs = {nt_reshape(now.inputs[0], 1, 1, 1, 1, 1, 1, 1, 1)}};
}

typedef struct mistake {
    void (*make)(nt_tensor x); /* x: f32[3] */
    const char *message;
} mistake;

#define MISTAKE(name, ...)          \
    static void name(nt_tensor x) { \
        __VA_ARGS__;                \
        (void)x;                    \
    }
MISTAKE(changes_its_type, nt_scan(carry_of_other_type, NULL, .carry = {x, x}, .length = 2))
MISTAKE(loses_a_carry, nt_scan(carry_is_short, NULL, .carry = {x, x}, .length = 2))
MISTAKE(no_length, nt_scan(carry_is_short, NULL, .carry = {x}))
MISTAKE(other_length, nt_scan(carry_is_short, NULL, .carry = {x}, .inputs = {x}, .length = 4))
MISTAKE(different_inputs, nt_scan(carry_is_short, NULL, .carry = {x}, .inputs = {x, nt_range(x, 0, 0, 2)}))
MISTAKE(cuts_a_scalar, nt_scan(carry_is_short, NULL, .carry = {x}, .inputs = {nt_sum(x)}))
MISTAKE(a_gap, nt_scan(with_a_gap, NULL, .carry = {x}, .length = 2))
MISTAKE(no_direction, nt_scan(carry_is_short, NULL, .carry = {x}, .length = 2, .direction = 5))
MISTAKE(no_body, nt_scan(NULL, NULL, .carry = {x}, .length = 2))
MISTAKE(too_long, nt_scan(carry_is_short, NULL, .carry = {x}, .length = INT64_C(1) << 31))
MISTAKE(too_many_copies, nt_scan(carry_is_short, NULL, .carry = {x}, .length = 1025, .unroll = true))
MISTAKE(stacks_eight_axes, nt_scan(eight_axes, NULL, .inputs = {nt_range(x, 0, 0, 0)}))
MISTAKE(escapes, nt_scan(keeps_it, NULL, .carry = {x}, .length = 2); nt_neg(captured))
MISTAKE(not_a_condition, nt_while(vector_condition, carry_is_short, NULL, x))
MISTAKE(stacks_unknown, nt_while(scalar_condition, has_outputs, NULL, x))
MISTAKE(while_changes, nt_while(scalar_condition, carry_of_other_type, NULL, x, x))
MISTAKE(differentiates, nt_tensor y = nt_while(scalar_condition, carry_is_short, NULL, nt_sin(x)).carry[0], gradient;
        nt__gradient(nt_sum(y), &x, 1, &gradient, NULL))
MISTAKE(no_predicate, nt_cond(nt_sum(x), as_it_is, as_it_is, NULL, x))
MISTAKE(other_types, nt_cond(nt_less(nt_sum(x), 1), as_it_is, summed, NULL, x))
MISTAKE(other_counts, nt_cond(nt_less(nt_sum(x), 1), as_it_is, nothing, NULL, x))
MISTAKE(uses_outside, captured = nt_exp(x); nt_custom_gradient(of_outside, scalar_cotangent, NULL, x))
MISTAKE(wrong_cotangent, nt_custom_gradient(as_it_is, scalar_cotangent, NULL, x))
MISTAKE(number_as_carry, nt_scan(carry_is_short, NULL, .carry = {NT_TENSOR(1)}, .length = 2))

MISTAKE(slope_of_slices, captured = x; nt_scan(slope_of_a_slice, NULL, .inputs = {nt_sin(x)}))

static const mistake mistakes[] = {
    {changes_its_type, "in changes_its_type: scan: carry[1] is f32[3] and 'carry_of_other_type' returns f64[3] for it"},
    {loses_a_carry, "scan: the carry has 2 tensors and 'carry_is_short' returns 1"},
    {no_length, "scan: there are no inputs to cut: .length says how many iterations, at least 1"},
    {other_length, "scan: inputs[0] has 3 slices and the length is given as 4"},
    {different_inputs, "scan: inputs[1] has 2 slices and inputs[0] 3"},
    {cuts_a_scalar, "scan: inputs[0] is a scalar: it has no axis to be cut along"},
    {a_gap, "scan: outputs[1] is set and outputs[0] is not"},
    {no_body, "scan: body is NULL"},
    {no_direction, "scan: the direction is 5: give NT_FORWARD or NT_BACKWARD"},
    {too_long, "scan: a length of 2147483648: it may be 2147483647"},
    {too_many_copies, "scan: a length of 1025: with .unroll, which puts a copy of the body into the program for each "
                      "iteration, it may be 1024; leave .unroll out"},
    {stacks_eight_axes, "scan: f32[1,1,1,1,1,1,1,1] cannot be stacked: it would have more than 8 axes"},
    {escapes, "in escapes: neg: the tensor was made at "},
    {not_a_condition, "while: the condition must be a bool scalar, got bool[3]"},
    {stacks_unknown, "while: 'has_outputs' returns outputs: only a scan"},
    {while_changes, "while: carry[1] is f32[3] and 'carry_of_other_type' returns f64[3] for it"},
    {differentiates, "in differentiates: while: a loop whose length depends on values has no gradient"},
    {no_predicate, "cond: which must be a bool scalar, got f32[]"},
    {other_types, "cond: at[0] is f32[3] in the branch for true and f32[] in the one for false"},
    {other_counts, "cond: the branch for true returns 1 tensors and the one for false 0"},
    {uses_outside, "custom_gradient: the function uses f32[3], made at "},
    {wrong_cotangent, "custom_gradient: x.at[0] is f32[3] and 'backward' returns f32[] for its cotangent"},
    {slope_of_slices,
     "in slope_of_slices: grad: in the body of this scan, with respect to a tensor of outside that its "
     "inputs are made of"},
    {number_as_carry, "scan: an operand is the number 1 and has to be a tensor"},
};

static void each_mistake_has_its_message(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        nt__graph *graph = nt__trace_begin();
        mistakes[i].make(vector(0));
        assert_ptr_equal(graph->region, &graph->program);
        if (nt__trace_status(graph) != NT_INVALID) fail_msg("mistake %zu is not found", i);
        if (!strstr(nt_error_message(), mistakes[i].message) || !strstr(nt_error_message(), "test_regions.c:"))
            fail_msg("'%s' is not in: %s", mistakes[i].message, nt_error_message());
        nt__trace_end(graph);
    }
}

static void an_escaped_tensor_is_told_with_both_places(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    escapes(vector(0));
    assert_int_equal(nt__trace_status(graph), NT_INVALID);
    assert_int_equal(occurrences(nt_error_message(), "test_regions.c:"), 3);
    assert_non_null(strstr(nt_error_message(), "in a body of the scan at "));
    nt__trace_end(graph);
}

/* After an error, and without a trace, what comes back can be used like any failed tensor. */
static void after_an_error_the_results_are_failed_tensors(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    nt_tensor x = vector(0);
    nt_loop loop = nt_scan(carry_is_short, NULL, .carry = {x, x}, .length = 2);
    assert_true(nt__tensor_failed(loop.carry[0]));
    assert_true(nt__tensor_failed(nt_neg(loop.outputs[NT_MAX_VALUES - 1])));
    assert_true(nt__tensor_failed(nt_cond(x, as_it_is, as_it_is, NULL, x).at[3]));
    nt__trace_end(graph);
    assert_true(nt__tensor_failed(nt_remat(as_it_is, NULL, x).at[0]));
    if (!strstr(nt_error_message(), "no trace is under way")) fail_msg("%s", nt_error_message());
}

/* ---- short memory ----------------------------------------------------------------------------------------------- */

static nt_values all_of_it(nt_values x, void *context) {
    (void)context;
    nt_loop inner = nt_scan(add_step, NULL, .carry = {nt_exp(x.at[0])}, .inputs = {nt_stack(0, x.at[0], captured)});
    return (nt_values){{nt_mul(inner.carry[0], nt_reshape(nt_range(inner.outputs[0], 0, 0, 1), 3))}};
}

static nt_values own_backward(nt_values x, nt_values y, nt_values c, void *context) {
    (void)y;
    (void)context;
    return (nt_values){{nt_mul(c.at[0], x.at[0])}};
}

static nt_loop every_kind(nt_loop now, void *context) {
    (void)context;
    nt_tensor x = nt_remat(all_of_it, NULL, now.carry[0]).at[0];
    x = nt_cond(nt_equal(now.index, 1), all_of_it, twice_the_same, NULL, x).at[0];
    return (nt_loop){.carry = {nt_custom_gradient(as_it_is, own_backward, NULL, x).at[0]}};
}

static bool trace_fails_at(size_t n) {
    nt__memory_fail_at(n);
    nt__graph *graph = nt__trace_begin();
    nt__printed printed = {0};
    nt_status status = graph ? NT_OK : NT_OUT_OF_MEMORY;
    if (graph) {
        nt_tensor x = vector(0), gradient;
        captured = nt_sin(x);
        nt_tensor y = nt_scan(every_kind, NULL, .carry = {x}, .length = 2, .unroll = n % 2).carry[0];
        nt__gradient(nt_sum(y), &x, 1, &gradient, NULL);
        status = nt__print("test", &(nt__result){"gradient", gradient, {0}}, 1, &printed);
    }
    nt__memory_fail_at(0);
    if (status != NT_OK) assert_int_equal(status, NT_OUT_OF_MEMORY);
    nt__printed_free(&printed);
    nt__trace_end(graph);
    return status != NT_OK;
}

static void a_failed_allocation_leaves_nothing(void **state) {
    (void)state;
    size_t before = nt__memory().live, n = 1, passed = 0;
    for (; passed < 2; n++) {
        passed = trace_fails_at(n) ? 0 : passed + 1;
        assert_int_equal(nt__memory().live, before);
    }
    assert_true(n > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scan_is_a_while_over_a_counter),
        cmocka_unit_test(only_what_is_needed_is_printed),
        cmocka_unit_test(the_gradient_of_a_matrix_is_one_product_or_a_sum),
        cmocka_unit_test(nodes_grow_with_the_depth_and_no_faster),
        cmocka_unit_test(the_text_is_the_same_each_time),
        cmocka_unit_test(equal_expressions_are_one_within_a_body),
        cmocka_unit_test(the_iterations_of_all_loops_around_are_known),
        cmocka_unit_test(bodies_can_be_left_for_a_while),
        cmocka_unit_test(claims_reach_arguments_through_bodies),
        cmocka_unit_test(no_iterations_give_the_carry_back),
        cmocka_unit_test(each_mistake_has_its_message),
        cmocka_unit_test(an_escaped_tensor_is_told_with_both_places),
        cmocka_unit_test(after_an_error_the_results_are_failed_tensors),
        cmocka_unit_test(a_failed_allocation_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
