/* Whole runs whose forward has control flow: a parameter declared in a body is one parameter, and a loop, a checkpoint
 * and a branch train like the code that they stand for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nitro/control.h"
#include "run/run_internal.h"
#include "toy.h"

enum { ROWS = 16, TIME = 5, UNITS = 4 };

#define SEQUENCES(FIELD, DEVICE, GRAPH_CONST)                                            \
    GRAPH_CONST(int, kind, 0, "how the cells follow each other: one of enum kind below") \
    DEVICE(float, rate, 0.5f, "a scalar that the body uses")                             \
    FIELD(int, batch, 4, "rows in a micro-batch")
NT_EXPERIMENT(Sequences, SEQUENCES)
enum kind { COPIES, LOOP, CHECKPOINTS, BRANCHES, KINDS };

static nt_array *values(int seed, nt_shape shape) {
    nt_array *made = nt_array_new(NT_F32, shape);
    for (int64_t i = 0; i < nt_shape_elements(shape); i++)
        ((float *)made->data)[i] =
            nt__uniform_of_bits(nt__random_bits(nt__key_of_seed((uint64_t)seed), (uint64_t)i)) * 2 - 1;
    return made;
}

static nt_status build_data(const Sequences *e, nt_data *data) {
    nt_split(data, "train", .batch = e->batch);
    nt_split_field(data, "train", "x", values(1, nt_dims(ROWS, TIME, UNITS)));
    nt_split_field(data, "train", "y", values(2, nt_dims(ROWS, UNITS)));
    return nt_data_status(data);
}

typedef struct cell {
    const Sequences_view *e;
    nt_model *m;
    nt_tensor weight, bias;
} cell;

static void declare(cell *c) {
    NT_SCOPE(c->m, "cell") {
        c->weight = nt_parameter(c->m, "weight", nt_dims(UNITS, UNITS), .init = nt_normal(0.5));
        c->bias = nt_parameter(c->m, "bias", nt_dims(UNITS));
    }
}

static nt_tensor after(const cell *c, nt_tensor h, nt_tensor x) {
    return nt_tanh(nt_add(nt_add(nt_matmul(h, c->weight), c->bias), nt_mul(x, c->e->rate)));
}

static nt_loop step(nt_loop now, void *context) {
    cell *c = context;
    declare(c);
    return (nt_loop){.carry = {after(c, now.carry[0], now.inputs[0])}};
}

static nt_values once(nt_values x, void *context) {
    return (nt_values){{after(context, x.at[0], x.at[1])}};
}

static nt_values never(nt_values x, void *context) {
    (void)context;
    return (nt_values){{nt_mul(x.at[0], x.at[1])}};
}

static nt_loop checkpointed(nt_loop now, void *context) {
    declare(context);
    return (nt_loop){.carry = {nt_remat(once, context, now.carry[0], now.inputs[0]).at[0]}};
}

static nt_loop branching(nt_loop now, void *context) {
    declare(context);
    nt_tensor which = nt_less(now.index, TIME);
    return (nt_loop){.carry = {nt_cond(which, once, never, context, now.carry[0], now.inputs[0]).at[0]}};
}

static nt_tensor forward(const Sequences_view *e, nt_model *m, nt_batch *batch) {
    static const nt_loop_body bodies[KINDS] = {NULL, step, checkpointed, branching};
    cell c = {.e = e, .m = m};
    nt_tensor x = nt_transpose(nt_field(batch, "x"), 1, 0, 2), h = nt_mul(nt_sum(x, 0), 0);
    if (e->kind != COPIES) return nt_scan(bodies[e->kind], &c, .carry = {h}, .inputs = {x}).carry[0];
    declare(&c);
    for (int i = 0; i < TIME; i++) h = after(&c, h, nt_squeeze(nt_range(x, 0, i, i + 1), 0));
    return h;
}

static nt_tensor loss(const Sequences_view *e, nt_tensor outputs, nt_batch *batch) {
    (void)e;
    return nt_mean(nt_square(nt_sub(outputs, nt_field(batch, "y"))));
}

static nt_rule optimizer(const Sequences *e, const char *group) {
    (void)group;
    (void)e;
    return nt_sgd();
}

NT_DEFINE(Sequences, SEQUENCES, .build_data = build_data, .forward = forward, .loss = loss, .optimizer = optimizer);

typedef struct outcome {
    float weight[UNITS * UNITS];
    size_t parameters;
} outcome;

static outcome train(enum kind kind) {
    outcome result = {.parameters = 0};
    heard h = {0};
    Sequences e = Sequences_defaults();
    e.kind = (int)kind;
    nt_run_options options = quiet_options(&h);
    options.accum = (nt_maybe_int){true, 2};
    options.max_epochs = (nt_maybe_int){true, 4};
    options.learning_rate = (nt_maybe_double){true, 0.2};
    nt_run *run;
    assert_ok(nt_run_new(Sequences_experiment(), &e, &options, &run));
    assert_ok(nt_train(run));
    nt_parameter_info info;
    while (nt_run_parameter_at(run, result.parameters, &info)) result.parameters++;
    nt_array *weight = nt_run_parameter(run, "cell.weight");
    assert_non_null(weight);
    assert_int_equal(weight->bytes, sizeof result.weight);
    memcpy(result.weight, weight->data, weight->bytes);
    nt_array_free(weight);
    nt_run_free(run);
    return result;
}

static void control_flow_trains_like_what_it_stands_for(void **state) {
    (void)state;
    outcome copies = train(COPIES);
    assert_int_equal(copies.parameters, 2);
    for (enum kind kind = LOOP; kind < KINDS; kind++) {
        outcome other = train(kind);
        assert_int_equal(other.parameters, 2);
        for (int i = 0; i < UNITS * UNITS; i++) assert_float_equal(other.weight[i], copies.weight[i], 1e-5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_flow_trains_like_what_it_stands_for),
    };
    return cmocka_run_group_tests_name("control", tests, NULL, shut_down);
}
