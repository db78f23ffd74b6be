/* Traces: which is current, what gradients reach, claims about arguments, and what is left when memory fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "graph/graph.h"

static nt_tensor input(int index, nt_dtype dtype, nt_shape shape) {
    return nt__input(1, index, "x", (nt__type){dtype, shape});
}

static nt__graph *begin(void) {
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    return graph;
}

static void assert_sound(const nt__graph *graph) {
    if (nt__trace_status(graph) != NT_OK) fail_msg("%s", nt_error_message());
}

/* ---- which trace ------------------------------------------------------------------------------------------------ */

static void traces_nest(void **state) {
    (void)state;
    assert_null(nt__trace_current());
    nt__graph *outer = begin();
    nt_tensor x = input(0, NT_F32, nt_dims(2));
    nt__graph *inner = begin();
    assert_ptr_equal(nt__trace_current(), inner);
    nt_tensor y = input(0, NT_F32, nt_dims(3));
    assert_int_equal(nt_dim(nt_exp(y), 0), 3);
    assert_sound(inner);
    assert_true(nt__tensor_failed(nt_exp(x)));
    assert_int_equal(nt__trace_status(inner), NT_INVALID);
    nt__trace_end(inner);
    assert_ptr_equal(nt__trace_current(), outer);
    assert_int_equal(nt_dim(nt_exp(x), 0), 2);
    assert_sound(outer);
    nt__trace_end(outer);
    assert_null(nt__trace_current());
}

/* ---- what a tensor says ----------------------------------------------------------------------------------------- */

static void a_tensor_tells_its_type(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(0, NT_BF16, nt_dims(2, 3, 4));
    assert_int_equal(nt_dtype_of(x), NT_BF16);
    assert_int_equal(nt_rank(x), 3);
    assert_true(nt_shape_equal(nt_shape_of(x), nt_dims(2, 3, 4)));
    assert_int_equal(nt_dim(x, 0), 2);
    assert_int_equal(nt_dim(x, -1), 4);
    assert_int_equal(nt_dtype_of(nt_less(x, 0)), NT_BOOL);
    assert_true(nt_shape_equal(nt_shape_of(nt_mean(x, 0, -1)), nt_dims(3)));
    assert_true(nt_shape_equal(nt_shape_of(nt_matmul(x, nt_transpose(x, 0, 2, 1))), nt_dims(2, 3, 3)));
    assert_sound(graph);
    nt__trace_end(graph);
}

/* What changes nothing makes no operation. */
static void an_operation_that_changes_nothing_is_its_operand(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(0, NT_F32, nt_dims(2, 3)), scalar = input(1, NT_F32, (nt_shape){0});
    assert_int_equal(nt_reshape(x, 2, -1).id, x.id);
    assert_int_equal(nt_transpose(x, 0, 1).id, x.id);
    assert_int_equal(nt_broadcast(x, nt_dims(2, 3)).id, x.id);
    assert_int_equal(nt_convert(x, NT_F32).id, x.id);
    assert_int_equal(nt_sum(scalar).id, scalar.id);
    assert_sound(graph);
    nt__trace_end(graph);
}

/* ---- what a gradient reaches ------------------------------------------------------------------------------------ */

static void zeros_where_the_loss_does_not_depend(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(0, NT_F32, nt_dims(2)), unused = input(1, NT_F64, nt_dims(3));
    nt_tensor label = input(2, NT_I32, nt_dims(2)), stopped = input(3, NT_F32, nt_dims(2));
    nt_tensor loss = nt_sum(nt_mul(nt_mul(x, nt_convert(label, NT_F32)), nt_stop_gradient(stopped)));
    const nt_tensor inputs[] = {x, unused, label, stopped, x, loss};
    nt_tensor gradients[6];
    bool reached[6];
    nt__gradient(loss, inputs, 6, gradients, reached);
    assert_sound(graph);
    const bool expected[] = {true, false, false, false, true, true};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(reached[i], expected[i]);
        assert_int_equal(nt_dtype_of(gradients[i]), nt_dtype_of(inputs[i]));
        assert_true(nt_shape_equal(nt_shape_of(gradients[i]), nt_shape_of(inputs[i])));
    }
    assert_int_equal(gradients[0].id, gradients[4].id);
    nt__trace_end(graph);
}

static void a_failed_gradient_reaches_nothing(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor x = input(0, NT_F32, nt_dims(2)), gradient = x;
    bool reached = true;
    nt__gradient(nt_exp(x), &x, 1, &gradient, &reached);
    assert_false(reached);
    assert_true(nt__tensor_failed(gradient));
    assert_int_equal(nt__trace_status(graph), NT_INVALID);
    nt__trace_end(graph);
}

/* ---- claims ----------------------------------------------------------------------------------------------------- */

static void a_claim_sticks_to_the_argument(void **state) {
    (void)state;
    nt__graph *graph = begin();
    size_t count;
    nt_tensor label = input(4, NT_U8, nt_dims(2, 3));
    assert_false(nt__claim_range(nt_convert(nt_reshape(label, 6), NT_I32), 0, 10, (nt_site){"f.c", "loss", 12}));
    assert_false(nt__claim_range(nt_add(label, 1), 0, 11, NT_SITE));
    assert_false(nt__claim_range(nt_full(NT_I32, nt_dims(2), 1), 0, 11, NT_SITE));
    const nt__claim *claims = nt__claims(graph, &count);
    assert_int_equal(count, 1);
    assert_int_equal(claims[0].role, 1);
    assert_int_equal(claims[0].index, 4);
    assert_true(claims[0].bounds.low == 0);
    assert_true(claims[0].bounds.high == 9);
    assert_int_equal(claims[0].site.line, 12);
    assert_string_equal(claims[0].site.function, "loss");
    assert_sound(graph);
    nt__trace_end(graph);
}

/* Of the arguments that the host looks at the program need not check the values again, unless a conversion may have
 * wrapped them. */
static void the_host_makes_sure_of_arguments_of_one_role(void **state) {
    (void)state;
    nt__graph *graph = begin();
    nt_tensor label = input(4, NT_I32, nt_dims(6)), other = nt__input(2, 0, "other", (nt__type){NT_I32, nt_dims(6)});
    assert_false(nt__claim_range(label, 0, 10, NT_SITE));
    nt__claims_are_checked(1);
    assert_true(nt__claim_range(label, 0, 10, NT_SITE));
    assert_true(nt__claim_range(nt_reshape(nt_convert(label, NT_I64), 2, 3), -1, 10, NT_SITE));
    assert_true(nt__claim_range(nt_convert(label, NT_U8), 0, 256, NT_SITE));
    assert_false(nt__claim_range(nt_convert(label, NT_U8), 0, 257, NT_SITE));
    assert_false(nt__claim_range(nt_convert(nt_convert(label, NT_U8), NT_I32), -1, 10, NT_SITE));
    assert_false(nt__claim_range(nt_add(label, 1), 0, 10, NT_SITE));
    assert_false(nt__claim_range(other, 0, 10, NT_SITE));
    nt__trace_end(graph);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Cross entropy of a network with two layers, its gradients, and the text. */
static nt_status trace_network(const nt_array *table, nt__printed *printed) {
    nt__graph *graph = nt__trace_begin();
    if (!graph) return NT_OUT_OF_MEMORY;
    nt_tensor x = input(0, NT_F32, nt_dims(8, 20)), label = input(1, NT_I32, nt_dims(8));
    nt_tensor weights[] = {input(2, NT_F32, nt_dims(20, 16)), input(3, NT_F32, nt_dims(16)),
                           input(4, NT_F32, nt_dims(16, 10)), input(5, NT_F32, nt_dims(10))};
    nt_tensor hidden = nt_relu(nt_add(nt_matmul(x, weights[0]), weights[1]));
    nt_tensor scores = nt_log_softmax(nt_add(nt_matmul(hidden, weights[2]), nt_max(weights[3], nt_constant(table))));
    nt__claim_range(label, 0, 10, NT_SITE);
    nt_tensor loss = nt_neg(nt_mean(nt_sum(nt_mul(scores, nt_one_hot(label, 10, NT_F32)), -1))), gradients[4];
    nt__gradient(loss, weights, 4, gradients, NULL);
    nt__result results[5] = {{"loss", loss, {0}}};
    for (int i = 0; i < 4; i++) results[1 + i] = (nt__result){"gradient", gradients[i], weights[i]};
    nt_status status = nt__print("network", results, 5, printed);
    nt__trace_end(graph);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    nt_array *table = nt_array_new(NT_F32, nt_dims(10));
    assert_non_null(table);
    size_t live = nt__memory().live, failures = 0;
    nt_status status = NT_OUT_OF_MEMORY;
    for (size_t n = 1; status != NT_OK; n++) {
        nt__printed printed;
        nt__memory_fail_at(n);
        status = trace_network(table, &printed);
        nt__memory_fail_at(0);
        if (status == NT_OK) {
            nt__printed_free(&printed);
        } else {
            failures++;
            assert_int_equal(status, NT_OUT_OF_MEMORY);
            assert_non_null(strstr(nt_error_message(), "out of"));
            assert_non_null(strstr(nt_error_message(), "memory"));
        }
        assert_int_equal(nt__memory().live, live);
        assert_null(nt__trace_current());
    }
    assert_true(failures > 20);
    nt_array_free(table);
}

/* A message needs memory itself: without, the error is that there is none. */
static void a_message_may_find_no_memory(void **state) {
    (void)state;
    size_t live = nt__memory().live, messages = 0, failures = 0;
    for (size_t n = 1; messages == 0; n++) {
        nt__graph *graph = begin();
        nt_tensor x = input(0, NT_F32, nt_dims(2));
        nt__memory_fail_at(n);
        nt_reshape(x, 3);
        nt__memory_fail_at(0);
        nt_status status = nt__trace_status(graph);
        assert_true(status == NT_OUT_OF_MEMORY || status == NT_INVALID);
        messages += status == NT_INVALID;
        failures += status == NT_OUT_OF_MEMORY;
        nt__trace_end(graph);
        assert_true(n < 100);
    }
    assert_true(failures > 0);
    assert_int_equal(nt__memory().live, live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_nest),
        cmocka_unit_test(a_tensor_tells_its_type),
        cmocka_unit_test(an_operation_that_changes_nothing_is_its_operand),
        cmocka_unit_test(zeros_where_the_loss_does_not_depend),
        cmocka_unit_test(a_failed_gradient_reaches_nothing),
        cmocka_unit_test(a_claim_sticks_to_the_argument),
        cmocka_unit_test(the_host_makes_sure_of_arguments_of_one_role),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_message_may_find_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
