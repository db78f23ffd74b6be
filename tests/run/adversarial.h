/* An adversarial pair on one-dimensional data, two networks with a loss each, whose train_step hook owns the step, and
 * variants of it, which the tests of manual mode share. Include after cmocka.
 */
#ifndef NT_TESTS_RUN_ADVERSARIAL_H
#define NT_TESTS_RUN_ADVERSARIAL_H

#include "run/run_internal.h"
#include "toy.h"

/* ---- an adversarial pair on one-dimensional data ---------------------------------------------------------------- */

#define PAIR(FIELD, DEVICE, GRAPH_CONST)                     \
    GRAPH_CONST(bool, linear, true, "no hidden layers")      \
    DEVICE(float, weight, 1.0f, "of the loss of the critic") \
    FIELD(int, batches, 3, "in train")                       \
    FIELD(bool, poison, false, "a nan in the data of batch 2")
NT_EXPERIMENT(Pair, PAIR)

enum { ROWS = 32, WIDTH = 4, NOISE = 4 };

/* Mean 0, variance 1, roughly normal. */
static inline double sample(uint64_t stream, uint64_t i) {
    double sum = 0;
    for (uint64_t j = 0; j < 12; j++) sum += nt__uniform_of_bits(nt__random_bits(nt__key_of_seed(stream), 12 * i + j));
    return sum - 6;
}

static inline nt_array *samples(uint64_t stream, int64_t rows, int64_t columns) {
    nt_array *array = nt_array_new(NT_F32, nt_dims(rows, columns));
    for (int64_t i = 0; array && i < rows * columns; i++) nt_array_set(array, i, sample(stream, (uint64_t)i));
    return array;
}

static inline nt_status build_data(const Pair *e, nt_data *data) {
    int64_t rows = (int64_t)e->batches * ROWS;
    nt_array *x = samples(1, rows, WIDTH);
    if (x && e->poison) nt_array_set(x, ROWS * WIDTH, NAN);
    nt_split(data, "train", .batch = ROWS);
    nt_split_field(data, "train", "x", x);
    nt_split_field(data, "train", "z", samples(2, rows, NOISE));
    nt_split_field(data, "train", "unused", samples(3, rows, 1));
    nt_split(data, "val", .batch = ROWS);
    nt_split_field(data, "val", "x", samples(4, ROWS + 8, WIDTH));
    nt_split_field(data, "val", "z", samples(5, ROWS + 8, NOISE));
    nt_split_field(data, "val", "unused", samples(6, ROWS + 8, 1));
    return nt_data_status(data);
}

static inline nt_tensor generate(const Pair_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_field(batch, "z");
    NT_SCOPE(m, "gen") {
        if (!e->linear) x = nt_tanh(nt_dense(m, "hidden", x, 16));
        x = nt_dense(m, "out", x, WIDTH, .no_bias = true);
    }
    return x;
}

static inline nt_tensor score(const Pair_view *e, nt_model *m, nt_tensor x) {
    NT_SCOPE(m, "disc") {
        if (!e->linear) x = nt_tanh(nt_dense(m, "hidden", x, 16));
        x = nt_dense(m, "out", x, 1);
    }
    return x;
}

static inline nt_tensor forward(const Pair_view *e, nt_model *m, nt_batch *batch) {
    return generate(e, m, batch);
}

static inline nt_tensor loss(const Pair_view *e, nt_tensor outputs, nt_batch *batch) {
    (void)e;
    return nt_mean(nt_square(nt_sub(outputs, nt_field(batch, "x"))));
}

/* What the critic makes of real samples less what it makes of generated ones, to be pushed up by it. */
static inline nt_tensor critic_loss(const Pair_view *e, nt_model *m, nt_batch *batch, nt_tensor fake) {
    nt_tensor of_real = score(e, m, nt_field(batch, "x")), of_fake = of_real;
    NT_REUSE(m) of_fake = score(e, m, fake);
    return nt_mul(nt_sub(nt_mean(of_fake), nt_mean(of_real)), e->weight);
}

static inline nt_tensor train_step(const Pair_view *e, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                                   nt_device_metrics *metrics) {
    nt_tensor fake = generate(e, m, batch), of_fake = fake;
    nt_tensor critic = critic_loss(e, m, batch, fake);
    nt_step(optimizers, nt_parameter_grads(m, critic, "disc"));
    NT_REUSE(m) of_fake = score(e, m, fake);
    nt_tensor generator = nt_neg(nt_mean(of_fake));
    nt_step(optimizers, nt_parameter_grads(m, generator, "gen"));
    nt_device_value(metrics, "generator_loss", generator);
    return critic;
}

static inline const char *param_group(const Pair *e, const char *path) {
    (void)e;
    return strncmp(path, "gen.", 4) == 0 ? "gen" : "disc";
}

static inline nt_rule optimizer(const Pair *e, const char *group) {
    (void)e;
    (void)group;
    return nt_sgd();
}

static inline double learning_rate(const Pair *e) {
    (void)e;
    return 0.1;
}

NT_DEFINE(Pair, PAIR, .build_data = build_data, .forward = forward, .loss = loss, .train_step = train_step,
          .param_group = param_group, .optimizer = optimizer, .learning_rate = learning_rate);

/* ---- variants --------------------------------------------------------------------------------------------------- */

typedef nt_tensor (*step_hook)(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                               nt_device_metrics *metrics);

/* Variants live as long as the process: caches and drift reports look at them. */
static inline nt_experiment *variant(step_hook hook) {
    static nt_experiment variants[64];
    static size_t count;
    assert_true(count < sizeof variants / sizeof *variants);
    variants[count] = *Pair_experiment();
    if (hook) variants[count].hooks.train_step = hook;
    return &variants[count++];
}

static inline nt_run *make_of(const nt_experiment *experiment, const Pair *fields, nt_run_options options) {
    nt_run *run;
    assert_ok(nt_run_new(experiment, fields, &options, &run));
    return run;
}

static inline nt_rule adam(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_adam();
}

static inline nt_tensor critic_only(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                                    nt_device_metrics *metrics) {
    (void)metrics;
    nt_tensor critic = critic_loss(view, m, batch, generate(view, m, batch));
    nt_step(optimizers, nt_parameter_grads(m, critic, ""));
    return critic;
}

static inline nt_rule frozen_generator(const void *e, const char *group) {
    (void)e;
    return strcmp(group, "gen") == 0 ? nt_frozen() : nt_sgd();
}

#endif
