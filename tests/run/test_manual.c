/* Manual mode: a train_step hook that owns the step. Two networks with a loss each; what it computes, what it compiles,
 * what is refused. MM-1 to MM-16, TM-2 to TM-13, L55 to L57, S22 to S24. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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
static double sample(uint64_t stream, uint64_t i) {
    double sum = 0;
    for (uint64_t j = 0; j < 12; j++) sum += nt__uniform_of_bits(nt__random_bits(nt__key_of_seed(stream), 12 * i + j));
    return sum - 6;
}

static nt_array *samples(uint64_t stream, int64_t rows, int64_t columns) {
    nt_array *array = nt_array_new(NT_F32, nt_dims(rows, columns));
    for (int64_t i = 0; array && i < rows * columns; i++) nt_array_set(array, i, sample(stream, (uint64_t)i));
    return array;
}

static nt_status build_data(const Pair *e, nt_data *data) {
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

static nt_tensor generate(const Pair_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_field(batch, "z");
    NT_SCOPE(m, "gen") {
        if (!e->linear) x = nt_tanh(nt_dense(m, "hidden", x, 16));
        x = nt_dense(m, "out", x, WIDTH, .no_bias = true);
    }
    return x;
}

static nt_tensor score(const Pair_view *e, nt_model *m, nt_tensor x) {
    NT_SCOPE(m, "disc") {
        if (!e->linear) x = nt_tanh(nt_dense(m, "hidden", x, 16));
        x = nt_dense(m, "out", x, 1);
    }
    return x;
}

static nt_tensor forward(const Pair_view *e, nt_model *m, nt_batch *batch) {
    return generate(e, m, batch);
}

static nt_tensor loss(const Pair_view *e, nt_tensor outputs, nt_batch *batch) {
    (void)e;
    return nt_mean(nt_square(nt_sub(outputs, nt_field(batch, "x"))));
}

/* What the critic makes of real samples less what it makes of generated ones, to be pushed up by it. */
static nt_tensor critic_loss(const Pair_view *e, nt_model *m, nt_batch *batch, nt_tensor fake) {
    nt_tensor of_real = score(e, m, nt_field(batch, "x")), of_fake = of_real;
    NT_REUSE(m) of_fake = score(e, m, fake);
    return nt_mul(nt_sub(nt_mean(of_fake), nt_mean(of_real)), e->weight);
}

static nt_tensor train_step(const Pair_view *e, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
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

static const char *param_group(const Pair *e, const char *path) {
    (void)e;
    return strncmp(path, "gen.", 4) == 0 ? "gen" : "disc";
}

static nt_rule optimizer(const Pair *e, const char *group) {
    (void)e;
    (void)group;
    return nt_sgd();
}

static double learning_rate(const Pair *e) {
    (void)e;
    return 0.1;
}

NT_DEFINE(Pair, PAIR, .build_data = build_data, .forward = forward, .loss = loss, .train_step = train_step,
          .param_group = param_group, .optimizer = optimizer, .learning_rate = learning_rate);

/* ---- helpers ---------------------------------------------------------------------------------------------------- */

typedef nt_tensor (*step_hook)(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                               nt_device_metrics *metrics);

/* Variants live as long as the process: caches and drift reports look at them. */
static nt_experiment *variant(step_hook hook) {
    static nt_experiment variants[64];
    static size_t count;
    assert_true(count < sizeof variants / sizeof *variants);
    variants[count] = *Pair_experiment();
    if (hook) variants[count].hooks.train_step = hook;
    return &variants[count++];
}

static nt_run *make_of(const nt_experiment *experiment, const Pair *fields, nt_run_options options) {
    nt_run *run;
    assert_ok(nt_run_new(experiment, fields, &options, &run));
    return run;
}

static uint64_t misses(void) {
    return nt_cache_stats().misses;
}

static void read_parameter(nt_run *run, const char *path, double *out) {
    nt_array *array = nt_run_parameter(run, path);
    assert_non_null(array);
    for (int64_t i = 0; i < nt_shape_elements(array->shape); i++) out[i] = nt_array_get(array, i);
    nt_array_free(array);
}

/* The largest difference of the elements. */
static double moved(nt_run *run, const char *path, const double *before, size_t count) {
    double now[256], most = 0;
    assert_true(count <= 256);
    read_parameter(run, path, now);
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs(now[i] - before[i]));
    return most;
}

/* ---- what a step computes --------------------------------------------------------------------------------------- */

/* TM-4: both updates, by hand. The second one sees the critic that the first one made, and is not differentiated
 * through how it was made. */
static void a_step_is_what_it_says(void **state) {
    (void)state;
    static heard h;
    double critic[WIDTH], bias, generator[NOISE * WIDTH], mean_x[WIDTH] = {0}, mean_z[NOISE] = {0};
    Pair e = Pair_defaults();
    e.batches = 1;
    nt_run *run = make_of(Pair_experiment(), &e, quiet_options(&h));
    read_parameter(run, "disc.out.weight", critic);
    read_parameter(run, "disc.out.bias", &bias);
    read_parameter(run, "gen.out.weight", generator);
    for (int i = 0; i < ROWS * WIDTH; i++) mean_x[i % WIDTH] += (float)sample(1, (uint64_t)i) / ROWS;
    for (int i = 0; i < ROWS * NOISE; i++) mean_z[i % NOISE] += (float)sample(2, (uint64_t)i) / ROWS;
    double expected_loss = 0;
    for (int c = 0; c < WIDTH; c++) {
        double fake = 0;
        for (int j = 0; j < NOISE; j++) fake += mean_z[j] * generator[j * WIDTH + c];
        expected_loss += (fake - mean_x[c]) * critic[c];
        critic[c] -= 0.1 * (fake - mean_x[c]);
    }
    for (int c = 0; c < NOISE * WIDTH; c++) generator[c] += 0.1 * mean_z[c / WIDTH] * critic[c % WIDTH];
    assert_ok(nt_train(run));
    assert_int_equal(h.count, 1);
    assert_true(fabs(h.losses[0] - expected_loss) < 1e-5);
    assert_true(moved(run, "disc.out.weight", critic, WIDTH) < 1e-5);
    assert_true(moved(run, "disc.out.bias", &bias, 1) == 0);
    assert_true(moved(run, "gen.out.weight", generator, NOISE * WIDTH) < 1e-5);
    nt_run_free(run);
}

/* The loss of automatic training, as a train_step. */
static nt_tensor like_automatic(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                                nt_device_metrics *metrics) {
    (void)metrics;
    nt_tensor value = loss(view, generate(view, m, batch), batch);
    nt_step(optimizers, nt_parameter_grads(m, value, ""));
    return value;
}

static nt_rule adam(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_adam();
}

static double decay(const void *e, const char *group) {
    (void)e;
    (void)group;
    return 0.1;
}

/* Rule, state, rate, decay, clip and schedule of a group are those of automatic training. */
static void nt_step_is_the_step_of_automatic_training(void **state) {
    (void)state;
    static heard manual_heard, automatic_heard;
    nt_experiment *manual = variant(like_automatic), *automatic = variant(NULL);
    automatic->hooks.train_step = NULL;
    manual->hooks.param_group = automatic->hooks.param_group = NULL;
    manual->hooks.optimizer = automatic->hooks.optimizer = adam;
    manual->hooks.weight_decay = automatic->hooks.weight_decay = decay;
    Pair e = Pair_defaults();
    e.linear = false;
    nt_named_schedule schedules[] = {{"opt.learning_rate", nt_schedule_linear(0.05, 0.01)}, {0}};
    nt_run_options options = quiet_options(&manual_heard);
    options.gradient_clip_norm = (nt_maybe_double){true, 0.05};
    options.max_epochs = (nt_maybe_int){true, 3};
    options.schedules = schedules;
    nt_run *a = make_of(manual, &e, options);
    options.on_event = listen;
    options.event_context = &automatic_heard;
    nt_run *b = make_of(automatic, &e, options);
    assert_ok(nt_train(a));
    assert_ok(nt_train(b));
    assert_int_equal(manual_heard.count, 9);
    for (size_t i = 0; i < 9; i++) {
        assert_true(fabs(manual_heard.losses[i] - automatic_heard.losses[i]) < 1e-6);
        assert_int_equal(manual_heard.steps[i], i + 1); /* MM-10: counted from 1, as always */
    }
    double weight[16 * WIDTH];
    read_parameter(b, "gen.out.weight", weight);
    assert_true(moved(a, "gen.out.weight", weight, 16 * WIDTH) < 1e-6);
    nt_run_free(a);
    nt_run_free(b);
}

static nt_tensor steps_twice(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                             nt_device_metrics *metrics) {
    (void)metrics;
    nt_tensor value = {0};
    for (int i = 0; i < 2; i++) NT_REUSE(m) {
            value = loss(view, generate(view, m, batch), batch);
            nt_step(optimizers, nt_parameter_grads(m, value, ""));
        }
    return value;
}

/* Two calls of nt_step are two steps of the rule: its state goes on. */
static void a_group_may_be_stepped_twice(void **state) {
    (void)state;
    nt_experiment *once = variant(like_automatic), *twice = variant(steps_twice);
    once->hooks.param_group = twice->hooks.param_group = NULL;
    once->hooks.optimizer = twice->hooks.optimizer = adam;
    Pair e = Pair_defaults();
    e.batches = 1;
    nt_run_options options = quiet_options(NULL);
    options.max_epochs = (nt_maybe_int){true, 4};
    nt_run *a = make_of(once, &e, options);
    options.max_epochs = (nt_maybe_int){true, 2};
    nt_run *b = make_of(twice, &e, options);
    assert_ok(nt_train(a));
    assert_ok(nt_train(b));
    double weight[NOISE * WIDTH];
    read_parameter(a, "gen.out.weight", weight);
    assert_true(moved(b, "gen.out.weight", weight, NOISE * WIDTH) < 1e-6);
    nt_run_free(a);
    nt_run_free(b);
}

static nt_tensor critic_only(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                             nt_device_metrics *metrics) {
    (void)metrics;
    nt_tensor critic = critic_loss(view, m, batch, generate(view, m, batch));
    nt_step(optimizers, nt_parameter_grads(m, critic, ""));
    return critic;
}

static nt_rule frozen_generator(const void *e, const char *group) {
    (void)e;
    return strcmp(group, "gen") == 0 ? nt_frozen() : nt_sgd();
}

/* A step of one sub-tree leaves the other bit by bit as it was, and gradients of a frozen group are nobody's. */
static void the_other_network_stays(void **state) {
    (void)state;
    nt_experiment *changed = variant(critic_only);
    changed->hooks.optimizer = frozen_generator;
    double generator[NOISE * WIDTH], critic[WIDTH];
    nt_run *run = make_of(changed, NULL, quiet_options(NULL));
    read_parameter(run, "gen.out.weight", generator);
    read_parameter(run, "disc.out.weight", critic);
    assert_ok(nt_train(run));
    assert_true(moved(run, "gen.out.weight", generator, NOISE * WIDTH) == 0);
    assert_true(moved(run, "disc.out.weight", critic, WIDTH) > 0.01);
    nt_run_free(run);
}

static nt_tensor own_gradients(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                               nt_device_metrics *metrics) {
    (void)metrics;
    nt_tensor value = loss(view, generate(view, m, batch), batch);
    const char *const names[] = {"gen.out.weight"};
    const nt_tensor ones[] = {nt_full(NT_F32, nt_dims(NOISE, WIDTH), 1)};
    nt_step(optimizers, nt_named_tensors(names, ones, 1));
    return value;
}

static void gradients_of_ones_own_are_taken(void **state) {
    (void)state;
    nt_experiment *changed = variant(own_gradients);
    double generator[NOISE * WIDTH];
    nt_run *run = make_of(changed, NULL, quiet_options(NULL));
    read_parameter(run, "gen.out.weight", generator);
    assert_ok(nt_train(run));
    for (int i = 0; i < NOISE * WIDTH; i++) generator[i] -= 3 * 0.1;
    assert_true(moved(run, "gen.out.weight", generator, NOISE * WIDTH) < 1e-6);
    nt_run_free(run);
}

/* TM-13: a one-dimensional network learns where its data lies. */
static nt_tensor softplus(nt_tensor x) {
    return nt_logaddexp(x, 0);
}

static nt_tensor adversarial(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                             nt_device_metrics *metrics) {
    (void)metrics;
    const Pair_view *e = view;
    nt_tensor fake = generate(e, m, batch), of_real = score(e, m, nt_field(batch, "x")), of_fake = of_real;
    NT_REUSE(m) of_fake = score(e, m, fake);
    nt_tensor slope = nt_grad(nt_sum(of_real), nt_field(batch, "x"));
    nt_tensor critic = nt_add(nt_mean(softplus(nt_neg(of_real))), nt_mean(softplus(of_fake)));
    critic = nt_add(critic, nt_mul(e->weight, nt_mean(nt_sum(nt_square(slope), -1))));
    nt_step(optimizers, nt_parameter_grads(m, critic, "disc"));
    NT_REUSE(m) of_fake = score(e, m, fake);
    nt_step(optimizers, nt_parameter_grads(m, nt_mean(softplus(nt_neg(of_fake))), "gen"));
    return critic;
}

static nt_rule adam_without_inertia(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_adam(.beta1 = 0.5);
}

static void a_distribution_is_learned(void **state) {
    (void)state;
    nt_experiment *changed = variant(adversarial);
    changed->hooks.optimizer = adam_without_inertia;
    Pair e = Pair_defaults();
    e.linear = false;
    e.weight = 0.1f;
    e.batches = 10;
    nt_run_options options = quiet_options(NULL);
    options.max_epochs = (nt_maybe_int){true, 60};
    options.learning_rate = (nt_maybe_double){true, 1e-2};
    nt_cache_reset();
    uint64_t before = misses();
    nt_run *run = make_of(changed, &e, options);
    assert_ok(nt_train(run));
    assert_int_equal(nt_run_step(run), 600);
    nt_array *z = samples(9, 1000, NOISE), *made;
    assert_ok(nt_predict(run, &(nt_named_array){"z", z}, 1, &made));
    double sum = 0, squares = 0;
    for (int i = 0; i < 1000 * WIDTH; i++) {
        double value = nt_array_get(made, i);
        sum += value;
        squares += value * value;
    }
    double mean = sum / (1000 * WIDTH), deviation = sqrt(squares / (1000 * WIDTH) - mean * mean);
    if (fabs(mean) > 0.15 || deviation < 0.8 || deviation > 1.2) fail_msg("mean %g, deviation %g", mean, deviation);
    /* One step program, and forward with its two metrics programs. */
    assert_int_equal(misses() - before, 4);
    nt_array_free(z);
    nt_array_free(made);
    nt_run_free(run);
}

/* ---- programs, data, memory ------------------------------------------------------------------------------------- */

/* TM-2, MM-3: one program for all batches, which are its arguments. TM-10: another hook is one more. */
static void a_run_compiles_one_program_of_training(void **state) {
    (void)state;
    static heard h;
    nt_cache_reset();
    Pair e = Pair_defaults();
    nt_experiment *other = variant(critic_only);
    other->hooks.optimizer = frozen_generator;
    nt_run *run = make_of(Pair_experiment(), &e, quiet_options(&h));
    nt_run *another = make_of(other, &e, quiet_options(NULL));
    uint64_t before = misses(), hits = nt_cache_stats().hits;
    assert_ok(nt_train_more(run, 0, 1));
    assert_int_equal(misses() - before, 4); /* with forward and two metrics programs of the validation */
    before = misses();
    assert_ok(nt_train_more(run, 0, 2));
    assert_int_equal(misses() - before, 0);
    assert_int_equal(nt_cache_stats().hits, hits);
    assert_true(h.losses[0] != h.losses[1] && h.losses[1] != h.losses[2]);
    assert_ok(nt_train_more(another, 0, 1));
    assert_int_equal(misses() - before, 1);
    /* L57: no accumulator, no count. */
    assert_int_equal(nt__engine_counts_now().buffers[NT__ACCUMULATOR].live_count, 0);
    assert_null(run->programs.gradient);
    assert_null(run->programs.optimizer);
    nt_run_free(run);
    nt_run_free(another);
}

/* TM-9, DS-14: only what train_step reads goes to the device. */
static void only_declared_fields_are_transferred(void **state) {
    (void)state;
    nt_run *run = make_of(Pair_experiment(), NULL, quiet_options(NULL));
    assert_int_equal(run->routes.train.count, 2);
    assert_string_equal(run->routes.train.names[0], "x");
    assert_string_equal(run->routes.train.names[1], "z");
    nt_run_free(run);
}

/* MM-14: validation and prediction go through forward, and val_loss is the loss hook's. */
static void evaluation_goes_through_forward(void **state) {
    (void)state;
    nt_experiment *without = variant(NULL);
    without->hooks.loss = NULL;
    nt_run_options options = quiet_options(NULL);
    nt_run *run = make_of(Pair_experiment(), NULL, options), *bare = make_of(without, NULL, options);
    nt_results results;
    assert_ok(nt_train(run));
    assert_ok(nt_validate(run, &results));
    assert_int_equal(results.count, 1);
    assert_string_equal(results.values[0].name, "val_loss");
    assert_true(isfinite(results.values[0].value));
    /* MM-12: the loss hook is optional. */
    assert_ok(nt_train(bare));
    assert_ok(nt_validate(bare, &results));
    assert_int_equal(results.count, 0);
    double trained[WIDTH];
    read_parameter(run, "disc.out.weight", trained);
    assert_true(moved(bare, "disc.out.weight", trained, WIDTH) == 0);
    nt_run_free(run);
    nt_run_free(bare);
}

/* What only train_step declares is saved, and is not in the way of a handle that does not train. */
static void files_have_all_parameters(void **state) {
    (void)state;
    nt_run_options options = quiet_options(NULL);
    nt_run *run = make_of(Pair_experiment(), NULL, options);
    assert_ok(nt_train(run));
    assert_ok(nt_run_save(run, scratch("pair.safetensors")));
    options.evaluate_only = true;
    nt_run *evaluating = make_of(Pair_experiment(), NULL, options);
    assert_ok(nt_run_load(evaluating, scratch("pair.safetensors")));
    double trained[NOISE * WIDTH];
    read_parameter(run, "gen.out.weight", trained);
    assert_true(moved(evaluating, "gen.out.weight", trained, NOISE * WIDTH) == 0);
    nt_parameter_info info;
    assert_true(nt_run_parameter_at(evaluating, 0, &info));
    assert_false(nt_run_parameter_at(evaluating, 1, &info));
    nt_run *again = make_of(Pair_experiment(), NULL, quiet_options(NULL));
    assert_ok(nt_run_load(again, scratch("pair.safetensors")));
    assert_true(moved(again, "gen.out.weight", trained, NOISE * WIDTH) == 0);
    nt_run_free(run);
    nt_run_free(evaluating);
    nt_run_free(again);
}

/* ---- schedules and Device fields -------------------------------------------------------------------------------- */

/* TM-7, S22: a name without a group is for all of them, with one for its own; nothing compiles. */
static void schedules_reach_each_optimizer(void **state) {
    (void)state;
    nt_run_options options = quiet_options(NULL);
    nt_named_schedule own[] = {{"opt.gen.learning_rate", nt_schedule_constant(1e-5)}, {0}};
    nt_named_schedule all[] = {{"opt.learning_rate", nt_schedule_constant(1e-5)}, {0}};
    double generator[NOISE * WIDTH], critic[WIDTH];
    nt_run *plain = make_of(Pair_experiment(), NULL, options);
    read_parameter(plain, "gen.out.weight", generator);
    read_parameter(plain, "disc.out.weight", critic);
    assert_ok(nt_train(plain));
    uint64_t before = misses();
    double usual = moved(plain, "disc.out.weight", critic, WIDTH);
    options.schedules = own;
    nt_run *run = make_of(Pair_experiment(), NULL, options);
    assert_ok(nt_train(run));
    assert_true(moved(run, "gen.out.weight", generator, NOISE * WIDTH) <
                moved(run, "disc.out.weight", critic, WIDTH) / 5);
    nt__text report = {0};
    nt__report_add(run, &report);
    assert_non_null(strstr(report.data, "opt.gen.learning_rate: constant(1e-05), a constant; sets learning_rate of "
                                        "group gen"));
    assert_non_null(strstr(report.data, "training: manual, a train_step for each batch [hook]"));
    nt__text_free(&report);
    nt_run_free(run);
    options.schedules = all;
    run = make_of(Pair_experiment(), NULL, options);
    assert_ok(nt_train(run));
    assert_true(moved(run, "gen.out.weight", generator, NOISE * WIDTH) < usual / 5);
    assert_true(moved(run, "disc.out.weight", critic, WIDTH) < usual / 5);
    assert_int_equal(misses(), before);
    nt_run_free(run);
    nt_run_free(plain);
}

/* A Device field that the step reads, set and scheduled. */
static void device_fields_are_inputs(void **state) {
    (void)state;
    static heard h;
    nt_run_options options = quiet_options(&h);
    nt_run *run = make_of(Pair_experiment(), NULL, options);
    assert_ok(nt_set_device(run, "weight", 0));
    assert_ok(nt_train(run));
    for (size_t i = 0; i < 3; i++) assert_true(h.losses[i] == 0);
    nt_run_free(run);
    nt_named_schedule schedules[] = {{"weight", nt_schedule_constant(0)}, {0}};
    options.schedules = schedules;
    h.count = 0;
    run = make_of(Pair_experiment(), NULL, options);
    assert_ok(nt_train(run));
    for (size_t i = 0; i < 3; i++) assert_true(h.losses[i] == 0);
    nt_run_free(run);
}

/* ---- values of a step ------------------------------------------------------------------------------------------- */

static void keep_value(const nt_event *event, void *context) {
    if (event->kind != NT_EVENT_STEP) return;
    assert_int_equal(event->value_count, 1);
    assert_string_equal(event->values[0].name, "generator_loss");
    *(double *)context = event->values[0].value;
}

static void values_are_reported(void **state) {
    (void)state;
    double value = NAN;
    nt_run_options options = quiet_options(NULL);
    options.on_event = keep_value;
    options.event_context = &value;
    nt_run *run = make_of(Pair_experiment(), NULL, options);
    assert_ok(nt_train(run));
    assert_true(isfinite(value));
    nt_run_free(run);
}

/* MM-11: nothing is rolled back, as in automatic training. */
static void a_loss_of_nan_ends_the_run(void **state) {
    (void)state;
    Pair e = Pair_defaults();
    e.poison = true;
    nt_run *run = make_of(Pair_experiment(), &e, quiet_options(NULL));
    assert_fails(nt_train(run), NT_DIVERGED, "the loss is nan at step 2 of epoch 1 (micro-batch 2 of split 'train')");
    nt_run_free(run);
}

static nt_tensor weighted(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                          nt_device_metrics *metrics) {
    (void)view, (void)metrics;
    nt_tensor sum = nt_sum(nt_square(generate(view, m, batch)));
    nt_tensor value = nt_weighted_loss(sum, ROWS * WIDTH);
    nt_step(optimizers, nt_parameter_grads(m, value, "gen"));
    return value;
}

/* A weighted loss is its quotient: a step is one batch. */
static void a_weighted_loss_is_a_quotient(void **state) {
    (void)state;
    static heard h;
    double generator[NOISE * WIDTH], expected = 0;
    nt_run *run = make_of(variant(weighted), NULL, quiet_options(&h));
    read_parameter(run, "gen.out.weight", generator);
    for (int row = 0; row < ROWS; row++)
        for (int c = 0; c < WIDTH; c++) {
            double made = 0;
            for (int j = 0; j < NOISE; j++)
                made += (float)sample(2, (uint64_t)row * NOISE + (uint64_t)j) * generator[j * WIDTH + c];
            expected += made * made / (ROWS * WIDTH);
        }
    assert_ok(nt_train(run));
    assert_true(fabs(h.losses[0] - expected) < 1e-5);
    nt_run_free(run);
}

/* Noise drawn in the step: other numbers in each step, and in each call of a network that is called again. */
static nt_tensor noise_of(nt_model *m) {
    return nt_mean(nt_random_normal(nt_random_key(m, "noise"), NT_F32, nt_dims(8)));
}

static nt_tensor draws(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                       nt_device_metrics *metrics) {
    nt_tensor first = noise_of(m), second = first, value = nt_mean(generate(view, m, batch));
    NT_REUSE(m) second = noise_of(m);
    nt_step(optimizers, nt_parameter_grads(m, value, "gen"));
    nt_device_value(metrics, "difference", nt_sub(first, second));
    return first;
}

static void keep_difference(const nt_event *event, void *context) {
    if (event->kind != NT_EVENT_STEP) return;
    assert_true(event->values[0].value != 0);
    ((double *)context)[event->step - 1] = event->loss;
}

static void a_step_draws_numbers_of_its_own(void **state) {
    (void)state;
    double losses[2][3];
    for (int i = 0; i < 2; i++) {
        nt_run_options options = quiet_options(NULL);
        options.on_event = keep_difference;
        options.event_context = losses[i];
        nt_run *run = make_of(variant(draws), NULL, options);
        assert_ok(nt_train(run));
        nt_run_free(run);
    }
    assert_true(losses[0][0] != losses[0][1] && losses[0][1] != losses[0][2]);
    assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
}

static void count_call(nt_model *m) {
    nt_tensor calls = nt_state(m, "calls", nt_dims(1));
    nt_state_set(m, "calls", nt_add(calls, 1));
}

static nt_tensor counts(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                        nt_device_metrics *metrics) {
    nt_tensor value = nt_mean(generate(view, m, batch));
    (void)metrics;
    count_call(m);
    NT_REUSE(m) count_call(m);
    nt_step(optimizers, nt_parameter_grads(m, value, "gen"));
    return value;
}

/* A layer that is called twice in a step goes on from what it set; evaluation has no use for it. */
static void a_step_keeps_layer_state(void **state) {
    (void)state;
    nt_run *run = make_of(variant(counts), NULL, quiet_options(NULL));
    assert_ok(nt_train(run));
    assert_ok(nt_validate(run, NULL));
    nt_array *calls = nt_run_state(run, "calls");
    assert_non_null(calls);
    assert_true(nt_array_get(calls, 0) == 2 * 3);
    nt_array_free(calls);
    nt_run_free(run);
}

/* ---- which way -------------------------------------------------------------------------------------------------- */

static bool no(const void *e) {
    (void)e;
    return false;
}

/* MM-1, H-35: the flag declines; then train_step is as if it were not there. */
static void the_flag_declines(void **state) {
    (void)state;
    nt_experiment *declined = variant(NULL);
    declined->hooks.manual_training = no;
    nt_run_options options = quiet_options(NULL);
    options.accum = (nt_maybe_int){true, 3};
    nt_run *run = make_of(declined, NULL, options);
    assert_non_null(run->programs.gradient);
    assert_null(run->programs.manual_step);
    assert_int_equal(run->layout.row_count, 1);
    assert_ok(nt_train(run));
    assert_int_equal(nt_run_step(run), 1);
    nt_run_free(run);
}

/* MM-1: flipping it later is drift, and so is another train_step. */
static void changes_are_told(void **state) {
    (void)state;
    const char *report;
    nt_experiment *same = variant(NULL), *declined = variant(NULL), *other = variant(critic_only);
    nt_experiment_register(same);
    nt_run *run = make_of(same, NULL, quiet_options(NULL));
    assert_ok(nt_run_drift(run, &report));
    assert_string_equal(report, "");
    other->hooks.optimizer = frozen_generator;
    nt_experiment_register(other);
    assert_ok(nt_run_drift(run, &report));
    assert_non_null(strstr(report, "manual_step program: "));
    declined->hooks.manual_training = no;
    nt_experiment_register(declined);
    assert_ok(nt_run_drift(run, &report));
    assert_non_null(strstr(report, "training: manual (train_step) -> automatic; this run goes on as it was made"));
    assert_ok(nt_train(run));
    nt_run_free(run);
    nt_experiment_register(Pair_experiment());
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

#define HOOK(name, ...)                                                                              \
    static nt_tensor name(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers, \
                          nt_device_metrics *metrics) {                                              \
        const Pair_view *e = view;                                                                   \
        nt_tensor made = generate(e, m, batch), value = loss(e, made, batch);                        \
        (void)metrics, (void)optimizers, (void)value;                                                \
        __VA_ARGS__                                                                                  \
    }
HOOK(no_step, return value;)
HOOK(part_of_a_group, nt_step(optimizers, nt_parameter_grads(m, nt_mean(score(e, m, made)), "disc.out.weight"));
     return value;)
HOOK(forgets_a_group, nt_step(optimizers, nt_parameter_grads(m, nt_mean(score(e, m, made)), "disc")); return value;)
HOOK(unknown_scope, nt_step(optimizers, nt_parameter_grads(m, value, "generator")); return value;)
HOOK(beside_a_scope, nt_step(optimizers, nt_parameter_grads(m, value, "ge")); return value;)
HOOK(of_before, nt_step(optimizers, nt_parameter_grads(m, value, "gen"));
     nt_step(optimizers, nt_parameter_grads(m, value, "gen")); return value;)
HOOK(held_constant, nt_step(optimizers, nt_parameter_grads(m, nt_stop_gradient(value), "gen")); return value;)
HOOK(of_a_vector, nt_step(optimizers, nt_parameter_grads(m, made, "gen")); return value;)
HOOK(returns_a_vector, nt_step(optimizers, nt_parameter_grads(m, value, "gen")); return made;)
HOOK(returns_nothing, nt_step(optimizers, nt_parameter_grads(m, value, "gen")); return (nt_tensor){0};)
HOOK(no_gradients, nt_step(optimizers, (nt_tensors){0}); return value;)
HOOK(no_optimizers, nt_step(NULL, nt_parameter_grads(m, value, "gen")); return value;)
HOOK(no_scope, nt_step(optimizers, nt_parameter_grads(m, value, NULL)); return value;)
HOOK(no_parameter, nt_step(optimizers, nt_named_tensors((const char *[]){"gen"}, &made, 1)); return value;)
HOOK(other_type, nt_step(optimizers, nt_named_tensors((const char *[]){"gen.out.weight"}, &made, 1)); return value;)
HOOK(twice_in_a_list,
     nt_step(optimizers, nt_named_tensors(((const char *[]){"a", "a"}), ((nt_tensor[]){made, made}), 2));
     return value;)
HOOK(without_reuse, nt_step(optimizers, nt_parameter_grads(m, value, "gen")); generate(e, m, batch); return value;)
HOOK(never_leaves, NT_REUSE(m) return value; return value;)
HOOK(combined_value, nt_device_mean(metrics, "n", 1, 1); return value;)
HOOK(named_loss, nt_device_value(metrics, "loss", 1); return value;)
HOOK(unknown_field, return nt_mean(nt_field(batch, "y"));)

/* A step in a body of control flow, by an optimizer that it finds in its context. */
static nt_values steps_in_a_body(nt_values x, void *context) {
    nt_step(context, nt_named_tensors((const char *[]){"gen.out.weight"}, &x.at[1], 1));
    return x;
}
static nt_loop steps_in_a_loop(nt_loop now, void *context) {
    steps_in_a_body((nt_values){{now.carry[0], now.carry[1]}}, context);
    return now;
}
#define GIVEN value, nt_full(NT_F32, nt_dims(NOISE, WIDTH), 1)
HOOK(in_a_branch, nt_cond(nt_less(value, 1), steps_in_a_body, steps_in_a_body, optimizers, GIVEN); return value;)
HOOK(in_a_checkpoint, nt_checkpoint(steps_in_a_body, optimizers, GIVEN); return value;)
HOOK(in_a_scan, nt_scan(steps_in_a_loop, optimizers, .carry = {GIVEN}, .length = 2); return value;)

/* Gradients of the trace that learns the parameters, in the one that makes the program. */
static nt_tensors kept_gradients;
HOOK(of_an_earlier_trace, if (!kept_gradients.content) kept_gradients = nt_parameter_grads(m, value, "gen");
     nt_step(optimizers, kept_gradients); return value;)
HOOK(member_of_an_earlier_trace, if (!kept_gradients.content) kept_gradients = nt_parameter_grads(m, value, "gen");
     return nt_mean(nt_member(kept_gradients, "gen.out.weight"));)

static void refuse_at(const nt_experiment *experiment, nt_run_options options, const char *part, int line) {
    nt_run *run;
    assert_fails_at(nt_run_new(experiment, NULL, &options, &run), NT_INVALID, part, line);
    assert_null(run);
}
#define refuse(experiment, options, part) refuse_at(experiment, options, part, __LINE__)

/* MM-4, MM-6: what is wrong, and where. */
static void mistakes_in_the_hook_are_named(void **state) {
    (void)state;
    static const struct {
        step_hook hook;
        const char *message;
    } rows[] = {
        {no_step, "train_step of Pair gives no gradients of group 'gen' to nt_step, so it would never be trained: step "
                  "it, or let the optimizer hook freeze it with nt_frozen()"},
        {forgets_a_group, "no gradients of group 'gen' to nt_step"},
        {part_of_a_group, "in part_of_a_group: step: group 'disc' is updated as a whole, and parameter 'disc.out.bias' "
                          "of it has no gradient here: the param_group hook"},
        {unknown_scope, "in unknown_scope: parameter_grads: there is no parameter below 'generator'; there are: gen"},
        {beside_a_scope, "there is no parameter below 'ge'; there are: gen"},
        {of_before, "in of_before: parameter_grads: the loss depends on no parameter below 'gen' as they are now: "
                    "nt_step gives parameters new values"},
        {held_constant, "in held_constant: parameter_grads: the loss depends on no parameter below 'gen'"},
        {of_a_vector, "must be a floating scalar, got f32[32,4]; nt_mean or nt_sum makes one"},
        {returns_a_vector, "train_step of Pair returned f32[32,4]; it returns the loss of the step, a floating scalar"},
        {returns_nothing, "train_step of Pair: it returned no tensor"},
        {no_gradients, "in no_gradients: step: the nt_tensors was never set"},
        {no_optimizers, "in no_optimizers: step: optimizers is NULL"},
        {no_scope, "in no_scope: parameter_grads: scope is NULL"},
        {no_parameter, "in no_parameter: step: 'gen' is no parameter; gradients are named by the paths"},
        {other_type, "in other_type: step: the gradient of 'gen.out.weight' is f32[32,4]; it must be f32[4,4]"},
        {twice_in_a_list, "in twice_in_a_list: named_tensors: 'a' stands twice in the list"},
        {without_reuse, "or share the parameter with NT_REUSE"},
        {never_leaves, "in never_leaves: reuse: NT_REUSE was entered and never left"},
        {combined_value, "train_metrics and train_step report values of one batch: nt_device_value"},
        {named_loss, "'loss' is a name of the run's own in the line of a step"},
        {in_a_branch, "in steps_in_a_body: step: in a body of control flow, which may run any number of times"},
        {in_a_checkpoint, "in steps_in_a_body: step: in a body of control flow"},
        {in_a_scan, "in steps_in_a_body: step: in a body of control flow"},
        {of_an_earlier_trace, "in of_an_earlier_trace: step: the nt_tensors belongs to an earlier trace"},
        {member_of_an_earlier_trace, "member: the nt_tensors belongs to an earlier trace"},
        {unknown_field, "the batch has no field 'y'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuse(variant(rows[i].hook), quiet_options(NULL), rows[i].message);
}

static void train_metrics(const void *view, nt_device_metrics *metrics, nt_tensor outputs, nt_batch *batch) {
    (void)view, (void)metrics, (void)outputs, (void)batch;
}

static bool yes(const void *e) {
    (void)e;
    return true;
}

static double no_number(const void *e, const char *group) {
    (void)e;
    (void)group;
    return NAN;
}

/* TM-5, E-8, H-39: accum. MM-12: train metrics beside train_step. S23, TM-8: paths of schedules. */
static void what_does_not_go_with_it_is_refused(void **state) {
    (void)state;
    nt_run_options options = quiet_options(NULL);
    options.accum = (nt_maybe_int){true, 2};
    refuse(Pair_experiment(), options,
           "accum is 2 (from the option accum), and training is manual (the train_step hook), which makes a step of "
           "each batch");
    options.evaluate_only = true; /* which has no steps */
    nt_run_free(make_of(Pair_experiment(), NULL, options));
    options = quiet_options(NULL);
    nt_experiment *changed = variant(NULL);
    changed->hooks.train_metrics = train_metrics;
    refuse(changed, options, "has both .train_step and .train_metrics: train_step reports values of a step itself");
    changed->hooks.manual_training = yes; /* they are for the other way */
    nt_run *run = make_of(changed, NULL, options);
    assert_ok(nt_train(run));
    nt_run_free(run);
    changed = variant(NULL);
    changed->hooks.train_step = NULL;
    changed->hooks.manual_training = yes;
    refuse(changed, options, "has a manual_training hook and no train_step");
    changed = variant(NULL);
    changed->hooks.weight_decay = no_number;
    refuse(changed, options, "the weight_decay hook gave nan for group 'gen'");
    nt_named_schedule schedules[] = {{"opt.critic.learning_rate", nt_schedule_constant(1)}, {0}};
    options.schedules = schedules;
    refuse(Pair_experiment(), options, "there is no parameter group 'critic'; groups: gen, disc");
    changed = variant(NULL);
    changed->hooks.optimizer = adam;
    schedules[0].name = "opt.gen.beta1";
    refuse(changed, options, "beta1 of rule Adam is a constant of the program and cannot be scheduled");
}

/* What no loss depends on is told, unless it is frozen. */
static nt_tensor ignores_the_bias(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                                  nt_device_metrics *metrics) {
    nt_parameter(m, "gen_extra", nt_dims(2));
    nt_tensor made = generate(view, m, batch), value = loss(view, made, batch);
    (void)metrics;
    nt_step(optimizers, nt_parameter_grads(m, value, ""));
    return value;
}

static char noticed[512];
static void keep_notice(const char *text, void *context) {
    (void)context;
    snprintf(noticed, sizeof noticed, "%s", text);
}

static void what_no_loss_reaches_is_told(void **state) {
    (void)state;
    nt_experiment *changed = variant(ignores_the_bias);
    changed->hooks.param_group = NULL;
    nt_run_options options = quiet_options(NULL);
    options.quiet = false;
    nt_notice_function before = nt_set_notice(keep_notice, NULL);
    nt_run_free(make_of(changed, NULL, options));
    nt_set_notice(before, NULL);
    assert_string_equal(noticed, "Pair: no loss of train_step depends on parameter 'gen_extra'; its gradient is zero");
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static void every_allocation_can_fail(void **state) {
    (void)state;
    nt_run_options options = quiet_options(NULL);
    nt_run *run = make_of(Pair_experiment(), NULL, options);
    assert_ok(nt_train(run));
    nt_run_free(run);
    size_t live = nt__memory().live, step = 1;
    nt_status status = NT_OUT_OF_MEMORY;
    for (size_t n = 1; status != NT_OK; n += step) {
        nt__memory_fail_at(n);
        status = nt_run_new(Pair_experiment(), NULL, &options, &run);
        if (status == NT_OK) status = nt_train(run);
        nt__memory_fail_at(0);
        nt_run_free(run);
        if (status != NT_OK) assert_int_equal(nt__memory().live, live);
        step = n < 100 ? 1 : 13;
    }
}

static int tear_down(void **state) {
    return scratch_remove(state) || shut_down(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_what_it_says),
        cmocka_unit_test(nt_step_is_the_step_of_automatic_training),
        cmocka_unit_test(a_group_may_be_stepped_twice),
        cmocka_unit_test(the_other_network_stays),
        cmocka_unit_test(gradients_of_ones_own_are_taken),
        cmocka_unit_test(a_distribution_is_learned),
        cmocka_unit_test(a_run_compiles_one_program_of_training),
        cmocka_unit_test(only_declared_fields_are_transferred),
        cmocka_unit_test(evaluation_goes_through_forward),
        cmocka_unit_test(files_have_all_parameters),
        cmocka_unit_test(schedules_reach_each_optimizer),
        cmocka_unit_test(device_fields_are_inputs),
        cmocka_unit_test(values_are_reported),
        cmocka_unit_test(a_loss_of_nan_ends_the_run),
        cmocka_unit_test(a_weighted_loss_is_a_quotient),
        cmocka_unit_test(a_step_draws_numbers_of_its_own),
        cmocka_unit_test(a_step_keeps_layer_state),
        cmocka_unit_test(the_flag_declines),
        cmocka_unit_test(changes_are_told),
        cmocka_unit_test(mistakes_in_the_hook_are_named),
        cmocka_unit_test(what_does_not_go_with_it_is_refused),
        cmocka_unit_test(what_no_loss_reaches_is_told),
        cmocka_unit_test(every_allocation_can_fail),
    };
    return cmocka_run_group_tests(tests, scratch_make, tear_down);
}
