/* Manual mode: a train_step hook that owns the step. What it computes, compiles, transfers and reports; what is refused
 * of it is in test_manual_refused.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "adversarial.h"

/* ---- helpers ---------------------------------------------------------------------------------------------------- */

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

/* Both updates, by hand. The second one sees the critic that the first one made, and is not differentiated
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
        assert_int_equal(manual_heard.steps[i], i + 1); /* Counted from 1, as always */
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

/* A one-dimensional network learns where its data lies. */
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

/* One program for all batches, which are its arguments. Another hook is one more. */
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
    assert_int_equal(misses() - before, 3); /* with two programs of the validation */
    before = misses();
    assert_ok(nt_train_more(run, 0, 2));
    assert_int_equal(misses() - before, 0);
    assert_int_equal(nt_cache_stats().hits, hits);
    assert_true(h.losses[0] != h.losses[1] && h.losses[1] != h.losses[2]);
    assert_ok(nt_train_more(another, 0, 1));
    assert_int_equal(misses() - before, 1);
    /* No accumulator, no count. */
    assert_int_equal(nt__engine_counts_now().buffers[NT__ACCUMULATOR].live_count, 0);
    assert_null(run->traced.programs.gradient);
    assert_null(run->traced.programs.optimizer);
    nt_run_free(run);
    nt_run_free(another);
}

/* Only what train_step reads goes to the device. */
static void only_declared_fields_are_transferred(void **state) {
    (void)state;
    nt_run *run = make_of(Pair_experiment(), NULL, quiet_options(NULL));
    assert_int_equal(run->traced.routes.train.count, 2);
    assert_string_equal(run->traced.routes.train.names[0], "x");
    assert_string_equal(run->traced.routes.train.names[1], "z");
    nt_run_free(run);
}

/* Validation and prediction go through forward, and val_loss is the loss hook's. */
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
    /* The loss hook is optional. */
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

/* A name without a group is for all of them, with one for its own; nothing compiles. */
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
    nt__report_add(&run->resident, &report);
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

/* Nothing is rolled back, as in automatic training. */
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
        cmocka_unit_test(every_allocation_can_fail),
    };
    return cmocka_run_group_tests(tests, scratch_make, tear_down);
}
