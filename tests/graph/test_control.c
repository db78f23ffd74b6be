/* Control flow in traced code: golden cases, gradients against central differences, what is printed, what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"
#include "nitro/check.h"
#include "nitro/control.h"
#include "nitro/gradient.h"
#include "nitro/random.h"

#define IN(name) golden_input(c, name)

/* ---- golden cases ----------------------------------------------------------------------------------------------- */

static nt_tensor affine(nt_tensor x, nt_tensor weight, nt_tensor bias) {
    return nt_add(nt_matmul(x, nt_transpose(weight, 1, 0)), bias);
}

/* The order of the gates: input, forget, cell, output. */
static void lstm(const golden_case *c, nt_tensor x, nt_tensor *hidden, nt_tensor *cell) {
    nt_tensor gates[4];
    nt_tensor all = nt_add(affine(x, IN("w_input"), IN("b_input")), affine(*hidden, IN("w_hidden"), IN("b_hidden")));
    nt_parts(all, -1, 4, gates);
    nt_tensor kept = nt_mul(nt_logistic(gates[1]), *cell);
    *cell = nt_add(kept, nt_mul(nt_logistic(gates[0]), nt_tanh(gates[2])));
    *hidden = nt_mul(nt_logistic(gates[3]), nt_tanh(*cell));
}

static nt_tensor build_lstm_cell(const golden_case *c) {
    nt_tensor hidden = IN("h"), cell = IN("c");
    lstm(c, IN("x"), &hidden, &cell);
    c->outputs[1] = cell;
    return hidden;
}

static nt_tensor build_gru_cell(const golden_case *c) {
    nt_tensor a[3], b[3], h = IN("h");
    nt_parts(affine(IN("x"), IN("w_input"), IN("b_input")), -1, 3, a);
    nt_parts(affine(h, IN("w_hidden"), IN("b_hidden")), -1, 3, b);
    nt_tensor reset = nt_logistic(nt_add(a[0], b[0])), update = nt_logistic(nt_add(a[1], b[1]));
    nt_tensor new = nt_tanh(nt_add(a[2], nt_mul(reset, b[2])));
    return nt_add(nt_mul(nt_sub(1, update), new), nt_mul(update, h));
}

static nt_tensor build_rnn_cell(const golden_case *c) {
    nt_tensor hidden = nt_matmul(IN("h"), nt_transpose(IN("w_hidden"), 1, 0));
    return nt_tanh(nt_add(affine(IN("x"), IN("w_input"), IN("bias")), hidden));
}

static nt_loop lstm_step(nt_loop now, void *context) {
    lstm(context, now.inputs[0], &now.carry[0], &now.carry[1]);
    return (nt_loop){.carry = {now.carry[0], now.carry[1]}, .outputs = {now.carry[0]}};
}

static nt_tensor build_lstm_sequence(const golden_case *c) {
    nt_loop all = nt_scan(lstm_step, (void *)c, .carry = {IN("h"), IN("c")}, .inputs = {IN("xs")});
    c->outputs[1] = all.carry[0];
    c->outputs[2] = all.carry[1];
    return all.outputs[0];
}

static nt_loop halve_and_add(nt_loop now, void *context) {
    (void)context;
    return (nt_loop){.carry = {nt_add(nt_mul(now.carry[0], 0.5), now.inputs[0])}, .outputs = {nt_sin(now.carry[0])}};
}

static nt_tensor halve_and_add_all(const golden_case *c, bool unroll) {
    nt_loop all = nt_scan(halve_and_add, NULL, .carry = {IN("s")}, .inputs = {IN("xs")}, .unroll = unroll);
    c->outputs[1] = all.outputs[0];
    return all.carry[0];
}

static nt_tensor build_scan(const golden_case *c) {
    return halve_and_add_all(c, false);
}

static nt_tensor build_scan_unrolled(const golden_case *c) {
    return halve_and_add_all(c, true);
}

static nt_values squared(nt_values x, void *context) {
    (void)context;
    return (nt_values){{nt_square(x.at[0])}};
}

static nt_values exponential(nt_values x, void *context) {
    (void)context;
    return (nt_values){{nt_exp(x.at[0])}};
}

static nt_tensor build_cond(const golden_case *c) {
    return nt_cond(nt_greater(IN("p"), 0), squared, exponential, NULL, IN("x")).at[0];
}

static nt_tensor build_stop_gradient(const golden_case *c) {
    return nt_mul(IN("x"), nt_stop_gradient(IN("x")));
}

static nt_tensor build_gradient_penalty(const golden_case *c) {
    nt_tensor x = IN("x"), gradient;
    nt__gradient(nt_sum(nt_tanh(nt_matmul(x, IN("w")))), &x, 1, &gradient, NULL);
    return nt_sum(nt_square(gradient));
}

static const golden_row rows[] = {
    {"lstm_cell", build_lstm_cell},
    {"gru_cell", build_gru_cell},
    {"rnn_cell", build_rnn_cell},
    {"scan_lstm", build_lstm_sequence},
    {"scan", build_scan_unrolled},
    {"scan", build_scan},
    {"cond", build_cond},
    {"stop_gradient", build_stop_gradient},
    {"grad_of_grad_norm", build_gradient_penalty},
};

static const golden_plan plan = {"ops/recurrent.json", rows, sizeof rows / sizeof *rows, {NULL}};

static void golden_f32(void **state) {
    (void)state;
    golden_check(&plan, NT_F32);
}

static void golden_f64(void **state) {
    (void)state;
    golden_check(&plan, NT_F64);
}

/* ---- gradients against central differences ---------------------------------------------------------------------- */

/* Inputs: a matrix [3, 3], a sequence [4, 3], a vector [3]. */
enum { MATRIX, SEQUENCE, VECTOR, INPUTS };

static const nt_tensor *outside; /* the inputs, for bodies */

static nt_loop mix(nt_loop now, void *context) {
    (void)context;
    nt_tensor next = nt_tanh(nt_add(nt_matmul(now.carry[0], outside[MATRIX]), now.inputs[0]));
    return (nt_loop){.carry = {next, nt_add(now.carry[1], 1)},
                     .outputs = {nt_mul(next, now.carry[0]), nt_convert(now.index, NT_F64), now.carry[1]}};
}

static nt_tensor scan_forward(const nt_tensor *x) {
    outside = x;
    nt_loop all = nt_scan(mix, NULL, .carry = {x[VECTOR], nt_full(NT_I32, (nt_shape){0}, 3)}, .inputs = {x[SEQUENCE]});
    nt_tensor weighted = nt_mul(all.outputs[0], nt_expand(nt_add(all.outputs[1], 1), 1));
    return nt_add(nt_sum(weighted), nt_sum(nt_square(all.carry[0])));
}

/* Two matrices: the cotangent of the first is a product after the loop, that of the second, by which more rows are
 * multiplied, a sum in it. */
static nt_loop two_products(nt_loop now, void *context) {
    (void)context;
    nt_tensor few = nt_tanh(nt_add(nt_matmul(now.carry[0], outside[MATRIX]), now.inputs[0]));
    nt_tensor many = nt_sin(nt_matmul(now.carry[1], nt_mul(outside[MATRIX], 0.5)));
    return (nt_loop){.carry = {few, many}, .outputs = {nt_mul(few, nt_sum(many, 0))}};
}

static nt_tensor products_in_a_scan(const nt_tensor *x) {
    outside = x;
    nt_loop all = nt_scan(two_products, NULL, .carry = {x[VECTOR], nt_concatenate(0, x[SEQUENCE], x[SEQUENCE])},
                          .inputs = {x[SEQUENCE]}, .direction = NT_BACKWARD);
    return nt_sum(nt_square(all.outputs[0]));
}

/* Factors of every sort: a matrix twice, one that is a value of outside too, a slice, one that two products share, one
 * that is the same in each iteration, one that is its own cotangent. */
static nt_loop factors_step(nt_loop now, void *context) {
    (void)context;
    nt_tensor row = nt_reshape(now.inputs[0], 1, 3), turned = nt_transpose(outside[MATRIX], 1, 0);
    nt_tensor shared = nt_mul(nt_matmul(now.carry[0], outside[MATRIX]), nt_logistic(nt_matmul(now.carry[0], turned)));
    nt_tensor same = nt_einsum("rn,n->r", outside[MATRIX], outside[VECTOR]);
    nt_tensor own = nt_mul(nt_einsum("rk,nk->nr", row, outside[MATRIX]), nt_transpose(row, 1, 0));
    nt_tensor next = nt_tanh(nt_add(nt_matmul(shared, outside[MATRIX]), nt_mul(row, same)));
    return (nt_loop){.carry = {next}, .outputs = {nt_add(nt_matmul(next, outside[MATRIX]), nt_sum(own))}};
}

static nt_tensor factors_in_a_scan(const nt_tensor *x) {
    outside = x;
    nt_tensor first = nt_reshape(nt_matmul(x[VECTOR], x[MATRIX]), 1, 3);
    nt_loop all = nt_scan(factors_step, NULL, .carry = {first}, .inputs = {nt_matmul(x[SEQUENCE], x[MATRIX])});
    return nt_add(nt_sum(nt_square(all.outputs[0])), nt_sum(nt_matmul(all.carry[0], x[MATRIX])));
}

/* A cotangent of as many axes as there may be, which cannot be stacked for a product after the loop. */
static nt_loop step_of_all_axes(nt_loop now, void *context) {
    const nt_tensor *matrix = context;
    nt_tensor product = nt_einsum("rk,kabcdefg->rabcdefg", now.inputs[0], *matrix);
    return (nt_loop){.carry = {nt_add(product, nt_mul(now.carry[0], 0.5))}};
}

static nt_tensor all_axes_in_a_scan(const nt_tensor *x) {
    nt_tensor matrix = nt_reshape(x[MATRIX], 3, 3, 1, 1, 1, 1, 1, 1);
    nt_loop all = nt_scan(step_of_all_axes, &matrix, .carry = {nt_reshape(x[VECTOR], 1, 3, 1, 1, 1, 1, 1, 1)},
                          .inputs = {nt_reshape(x[SEQUENCE], 4, 1, 3)});
    return nt_sum(nt_sin(all.carry[0]));
}

static nt_loop of_length_one(nt_loop now, void *context) {
    (void)context;
    return (nt_loop){.carry = {nt_mul(now.carry[0], outside[VECTOR])}};
}

static nt_tensor scan_once(const nt_tensor *x) {
    outside = x;
    return nt_sum(nt_scan(of_length_one, NULL, .carry = {x[VECTOR]}, .length = 1).carry[0]);
}

/* The row of a matrix, scanned by its elements, for each row of another one. */
static nt_loop inner_step(nt_loop now, void *context) {
    const nt_tensor *row = context;
    nt_tensor next = nt_sin(nt_add(nt_mul(now.carry[0], now.inputs[0]), row[0]));
    return (nt_loop){.carry = {next}, .outputs = {nt_mul(next, nt_sum(outside[VECTOR]))}};
}

static nt_loop outer_step(nt_loop now, void *context) {
    (void)context;
    nt_tensor row = nt_sum(nt_square(now.inputs[0]));
    nt_loop inner =
        nt_scan(inner_step, &row, .carry = {now.carry[0]}, .inputs = {outside[MATRIX]}, .direction = NT_BACKWARD);
    return (nt_loop){.carry = {nt_add(inner.carry[0], now.inputs[0])}, .outputs = {inner.outputs[0]}};
}

static nt_tensor nested_scans(const nt_tensor *x) {
    outside = x;
    nt_loop all = nt_scan(outer_step, NULL, .carry = {x[VECTOR]}, .inputs = {x[SEQUENCE]});
    return nt_add(nt_sum(nt_square(all.outputs[0])), nt_sum(all.carry[0]));
}

/* A scan inside a branch inside a scan. */
static nt_values by_loop(nt_values x, void *context) {
    (void)context;
    nt_tensor row = nt_sum(x.at[0]);
    return (nt_values){{nt_scan(inner_step, &row, .carry = {x.at[0]}, .inputs = {outside[MATRIX]}).carry[0]}};
}

static nt_values by_product(nt_values x, void *context) {
    (void)context;
    return (nt_values){{nt_mul(nt_exp(nt_mul(x.at[0], 0.1)), nt_tanh(outside[VECTOR]))}};
}

static nt_loop branching_step(nt_loop now, void *context) {
    (void)context;
    nt_tensor odd = nt_equal(nt_rem(now.index, 2), 1);
    nt_tensor next = nt_cond(odd, by_loop, by_product, NULL, nt_add(now.carry[0], now.inputs[0])).at[0];
    return (nt_loop){.carry = {next}, .outputs = {next}};
}

static nt_tensor branches_in_a_scan(const nt_tensor *x) {
    outside = x;
    nt_loop all = nt_scan(branching_step, NULL, .carry = {x[VECTOR]}, .inputs = {x[SEQUENCE]});
    return nt_sum(nt_mul(all.outputs[0], x[SEQUENCE]));
}

static nt_values layer(nt_values x, void *context) {
    (void)context;
    nt_tensor inner = nt_tanh(nt_matmul(x.at[0], outside[MATRIX]));
    return (nt_values){{nt_sin(nt_add(inner, outside[VECTOR])), nt_square(inner)}};
}

static nt_values two_layers(nt_values x, void *context) {
    return layer(nt_remat(layer, context, x.at[0]), context);
}

static nt_tensor remats(const nt_tensor *x) {
    outside = x;
    nt_values first = nt_remat(layer, NULL, x[SEQUENCE]);
    nt_values second = nt_remat(two_layers, NULL, nt_add(first.at[0], first.at[1]));
    return nt_sum(nt_mul(second.at[0], x[SEQUENCE]));
}

static nt_values loop_within(nt_values x, void *context) {
    (void)context;
    return (nt_values){{nt_scan(branching_step, NULL, .carry = {outside[VECTOR]}, .inputs = {x.at[0]}).outputs[0]}};
}

static nt_tensor remat_of_a_scan(const nt_tensor *x) {
    outside = x;
    return nt_sum(nt_square(nt_remat(loop_within, NULL, nt_sin(x[SEQUENCE])).at[0]));
}

/* What is computed again draws what it drew the first time. */
static nt_values dropped_layer(nt_values x, void *context) {
    const nt_tensor *index = context;
    nt_tensor key = nt_random_fold(nt_full(NT_U32, nt_dims(2), 7), nt_convert(*index, NT_U32));
    nt_tensor kept = nt_random_bernoulli(key, 0.5, nt_shape_of(x.at[0]));
    return layer((nt_values){{nt_where(kept, nt_mul(x.at[0], 2), 0)}}, NULL);
}

static nt_loop remat_step(nt_loop now, void *context) {
    (void)context;
    nt_values y = nt_remat(dropped_layer, &now.index, nt_add(now.carry[0], now.inputs[0]));
    return (nt_loop){.carry = {y.at[0]}, .outputs = {y.at[1]}};
}

static nt_tensor scan_of_remats(const nt_tensor *x) {
    outside = x;
    nt_loop all = nt_scan(remat_step, NULL, .carry = {x[VECTOR]}, .inputs = {x[SEQUENCE]});
    return nt_add(nt_sum(all.outputs[0]), nt_sum(all.carry[0]));
}

/* x sin(y) by hand; the second output is a whole number. */
static nt_values product(nt_values x, void *context) {
    (void)context;
    return (nt_values){{nt_mul(x.at[0], nt_sin(x.at[1])), nt_argmax(x.at[0], -1)}};
}

static nt_values product_backward(nt_values x, nt_values y, nt_values c, void *context) {
    (void)y;
    (void)context;
    return (nt_values){{nt_mul(c.at[0], nt_sin(x.at[1])), nt_mul(c.at[0], nt_mul(x.at[0], nt_cos(x.at[1])))}};
}

static nt_loop custom_step(nt_loop now, void *context) {
    (void)context;
    nt_values y = nt_custom_gradient(product, product_backward, NULL, now.carry[0], now.inputs[0]);
    return (nt_loop){.carry = {nt_add(y.at[0], outside[VECTOR])}};
}

static nt_values custom_within(nt_values x, void *context) {
    return nt_custom_gradient(product, product_backward, context, x.at[0], outside[VECTOR]);
}

static nt_tensor custom_gradients(const nt_tensor *x) {
    outside = x;
    nt_loop all = nt_scan(custom_step, NULL, .carry = {x[VECTOR]}, .inputs = {x[SEQUENCE]});
    return nt_sum(nt_remat(custom_within, NULL, all.carry[0]).at[0]);
}

/* A softmax, whose gradient is its own, in each sort of body, in a function with its own gradient, and where what it
 * makes is what a gradient is by. */
static nt_values weighed(nt_values x, void *context) {
    (void)context;
    return (nt_values){{nt_softmax(nt_matmul(x.at[0], outside[MATRIX]))}};
}

static nt_values weighed_twice(nt_values x, void *context) {
    return nt_remat(weighed, context, nt_softmax(x.at[0], 0));
}

static nt_values slope_of_weights(nt_values x, void *context) {
    (void)context;
    nt_tensor weights = nt_softmax(nt_mul(x.at[0], 2));
    return (nt_values){{nt_grad(nt_sum(nt_exp(nt_mul(weights, x.at[0]))), weights)}};
}

static nt_values slope_backward(nt_values x, nt_values y, nt_values c, void *context) {
    (void)y;
    nt_tensor slope = slope_of_weights(x, context).at[0];
    return (nt_values){{nt_grad(nt_sum(nt_mul(slope, c.at[0])), x.at[0])}};
}

static nt_loop softmax_step(nt_loop now, void *context) {
    nt_tensor odd = nt_equal(nt_rem(now.index, 2), 1), same = nt_softmax(outside[VECTOR]);
    nt_tensor next = nt_cond(odd, weighed_twice, weighed, context, nt_mul(now.carry[0], now.inputs[0])).at[0];
    return (nt_loop){.carry = {nt_add(next, same)}, .outputs = {nt_mul(next, same)}};
}

static nt_tensor softmaxes(const nt_tensor *x) {
    outside = x;
    nt_loop all = nt_scan(softmax_step, NULL, .carry = {x[VECTOR]}, .inputs = {x[SEQUENCE]});
    nt_tensor slope = nt_custom_gradient(slope_of_weights, slope_backward, NULL, x[SEQUENCE]).at[0];
    return nt_add(nt_sum(nt_mul(all.outputs[0], x[SEQUENCE])), nt_sum(nt_mul(slope, x[SEQUENCE])));
}

/* Steps of gradient descent, whose gradient flows through the gradients: of a carry, and of what is outside. */
static nt_loop descent_step(nt_loop now, void *context) {
    (void)context;
    nt_tensor error = nt_sum(nt_square(nt_sub(nt_matmul(outside[MATRIX], now.carry[0]), now.inputs[0])));
    nt_tensor other = nt_grad(nt_sum(nt_exp(nt_mul(outside[VECTOR], now.carry[0]))), outside[VECTOR]);
    nt_tensor next = nt_sub(now.carry[0], nt_mul(nt_grad(error, now.carry[0]), 0.1));
    return (nt_loop){.carry = {next}, .outputs = {other}};
}

static nt_tensor gradients_in_a_scan(const nt_tensor *x) {
    outside = x;
    nt_loop all = nt_scan(descent_step, NULL, .carry = {x[VECTOR]}, .inputs = {x[SEQUENCE]});
    return nt_add(nt_sum(nt_square(all.outputs[0])), nt_sum(all.carry[0]));
}

/* A gradient in a branch in a scan, of what outside was made of x: through the values of both regions around. */
static nt_values slope_in_a_branch(nt_values x, void *context) {
    const nt_tensor *made = context;
    nt_tensor y = nt_sum(nt_mul(nt_mul(made[0], made[1]), nt_exp(nt_mul(x.at[0], outside[VECTOR]))));
    return (nt_values){{nt_grad(y, outside[VECTOR])}};
}

static nt_loop slope_step(nt_loop now, void *context) {
    nt_tensor made[] = {*(const nt_tensor *)context, nt_cos(outside[VECTOR])};
    nt_tensor slope =
        nt_cond(nt_equal(now.index, 1), slope_in_a_branch, by_product, made, nt_mul(now.inputs[0], 0.5)).at[0];
    return (nt_loop){.carry = {nt_add(now.carry[0], slope)}};
}

static nt_tensor gradients_of_what_is_outside(const nt_tensor *x) {
    outside = x;
    nt_tensor made = nt_sin(x[VECTOR]);
    return nt_sum(nt_scan(slope_step, &made, .carry = {x[VECTOR]}, .inputs = {x[SEQUENCE]}).carry[0]);
}

/* The same gradient in a body and outside of it, of everything that is made of x. */
static nt_values slope_here(nt_values x, void *context) {
    nt_tensor made = nt_mul(nt_sin(*(const nt_tensor *)context), x.at[0]);
    return (nt_values){{nt_grad(nt_sum(nt_mul(made, outside[VECTOR])), outside[VECTOR])}};
}

/* Of both rows the sum of the differences to the gradient outside, then the sum of that one. */
static nt_tensor places_compared(nt_tensor x) {
    const nt_tensor all[INPUTS] = {[VECTOR] = x};
    outside = all;
    nt_tensor squared = nt_square(x), given = nt_tanh(x);
    nt_tensor inside = nt_cond(nt_less(nt_sum(x), 1e9), slope_here, slope_here, &squared, given).at[0];
    nt_tensor again = nt_remat(slope_here, &squared, given).at[0];
    nt_tensor plain = slope_here((nt_values){{given}}, &squared).at[0];
    return nt_stack(0, nt_sum(nt_abs(nt_sub(inside, plain))), nt_sum(nt_abs(nt_sub(again, plain))), nt_sum(plain));
}

/* What is held constant may go through a loop without a gradient, in a body too. */
static nt_tensor below_three(nt_loop now, void *context) {
    (void)context;
    return nt_less(now.index, 3);
}

static nt_loop doubled(nt_loop now, void *context) {
    (void)context;
    return (nt_loop){.carry = {nt_mul(now.carry[0], 2)}};
}

static nt_loop held_step(nt_loop now, void *context) {
    nt_tensor held = nt_while(below_three, doubled, context, nt_stop_gradient(nt_sign(now.carry[0]))).carry[0];
    return (nt_loop){.carry = {nt_sin(nt_mul(now.carry[0], held))}};
}

static nt_tensor held_while(const nt_tensor *x) {
    return nt_sum(nt_scan(held_step, NULL, .carry = {x[VECTOR]}, .length = 2).carry[0]);
}

/* What is held constant outside of the loop counts as held in it. */
static nt_values times_held(nt_values x, void *context) {
    return (nt_values){{nt_mul(x.at[0], *(const nt_tensor *)context)}};
}

static nt_values times_held_backward(nt_values x, nt_values y, nt_values c, void *context) {
    (void)x;
    (void)y;
    return times_held(c, context);
}

static nt_loop custom_held_step(nt_loop now, void *context) {
    return (nt_loop){.carry = {nt_custom_gradient(times_held, times_held_backward, context, now.carry[0]).at[0]}};
}

static nt_tensor custom_of_held(const nt_tensor *x) {
    nt_tensor held = nt_stop_gradient(nt_full(NT_F64, nt_dims(3), 2));
    return nt_sum(nt_scan(custom_held_step, &held, .carry = {x[VECTOR]}, .length = 2).carry[0]);
}

static nt_values takes_nothing(nt_values x, void *context) {
    (void)x;
    (void)context;
    return (nt_values){{outside[VECTOR]}};
}

/* Branches that return what they are given, and what is outside. */
static nt_tensor empty_branches(const nt_tensor *x) {
    outside = x;
    nt_tensor which = nt_less(nt_sum(x[MATRIX]), 1e9);
    return nt_sum(nt_mul(nt_cond(which, takes_nothing, exponential, NULL, x[VECTOR]).at[0], x[SEQUENCE]));
}

/* Compiling is what takes time: second derivatives are those of bodies in each other. */
static const struct {
    nt_tensor (*function)(const nt_tensor *x);
    int derivatives;
} functions[] = {
    {scan_forward, 1},
    {products_in_a_scan, 2},
    {factors_in_a_scan, 1},
    {all_axes_in_a_scan, 1},
    {scan_once, 2},
    {nested_scans, 2},
    {branches_in_a_scan, 2},
    {remats, 1},
    {empty_branches, 1},
    {remat_of_a_scan, 1},
    {scan_of_remats, 2},
    {custom_gradients, 2},
    {softmaxes, 2},
    {gradients_in_a_scan, 1},
    {gradients_of_what_is_outside, 1},
    {held_while, 1},
    {custom_of_held, 1},
};

/* One function of the table, and the sum of the squares of its gradients, which has second derivatives. */
typedef struct checked {
    nt_tensor (*function)(const nt_tensor *x);
    int derivatives;
} checked;

static nt_tensor check_function(const nt_tensor *x, void *context) {
    const checked *c = context;
    nt_tensor value = c->function(x), gradients[INPUTS];
    for (int i = 1; i < c->derivatives; i++) {
        nt__gradient(value, x, INPUTS, gradients, NULL);
        value = nt_tensor_number(0);
        for (int k = 0; k < INPUTS; k++) value = nt_add(value, nt_sum(nt_square(gradients[k])));
    }
    return value;
}

static nt_array *values(nt_shape shape, int seed) {
    nt_array *array = nt_array_new(NT_F64, shape);
    assert_non_null(array);
    for (int64_t i = 0; i < nt_shape_elements(shape); i++)
        nt_array_set(array, i, 0.7 * sin((double)(5 * seed + 3 * i + 1)));
    return array;
}

static void check_derivatives(int derivatives) {
    nt_array *inputs[INPUTS] = {values(nt_dims(3, 3), MATRIX), values(nt_dims(4, 3), SEQUENCE),
                                values(nt_dims(3), VECTOR)};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        checked c = {functions[i].function, derivatives};
        if (functions[i].derivatives < derivatives) continue;
        nt_status status = nt_check_gradient(check_function, &c, inputs, INPUTS, NULL);
        if (status != NT_OK) fail_msg("function %zu, derivative %d: %s", i, derivatives, nt_error_message());
    }
    for (int i = 0; i < INPUTS; i++) nt_array_free(inputs[i]);
}

static void gradients_are_those_of_differences(void **state) {
    (void)state;
    check_derivatives(1);
}

static void second_derivatives_are_those_of_differences(void **state) {
    (void)state;
    check_derivatives(2);
}

/* Where a gradient is computed changes nothing: in bodies, what is made of x outside of them depends on it too. */
static void a_gradient_in_a_body_is_that_outside(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    nt_tensor compared = places_compared(traced_input(0, (nt__type){NT_F64, nt_dims(3)}));
    assert_ok(nt__trace_status(graph));
    traced program = traced_compile(traced_engine(), &(nt__result){"compared", compared, {0}}, 1);
    nt_array *x = values(nt_dims(3), VECTOR), *result;
    traced_run(&program, &x, &result);
    double expected = 0;
    for (int64_t i = 0; i < 3; i++) {
        double at = nt_array_get(x, i), sine = sin(at * at), t = tanh(at);
        expected += sine * t + at * t * 2 * at * cos(at * at) + at * sine * (1 - t * t);
    }
    assert_true(nt_array_get(result, 0) < 1e-12 && nt_array_get(result, 1) < 1e-12);
    assert_true(fabs(nt_array_get(result, 2) - expected) < 1e-12);
    nt_array_free(x);
    nt_array_free(result);
    traced_free(&program);
    nt__trace_end(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_f32),
        cmocka_unit_test(golden_f64),
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(a_gradient_in_a_body_is_that_outside),
        cmocka_unit_test(second_derivatives_are_those_of_differences),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
