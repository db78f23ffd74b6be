/* A loss, or parameters, that are not finite: the message names the batch that is to blame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/run_internal.h"
#include "toy.h"

/* The loss is w x, as the root of its square: its gradient is nan where x is 0, and so is what follows. */
enum { ROWS = 8 };
#define ROOTS(FIELD, DEVICE, GRAPH_CONST)                       \
    GRAPH_CONST(bool, manual, false, "train_step trains")       \
    GRAPH_CONST(bool, logs, false, "the logarithm of the root") \
    GRAPH_CONST(bool, squares, false, "the square of the root") \
    DEVICE(float, factor, 1.0f, "of the loss")                  \
    FIELD(int, zero, 5, "row with 0, from 0; -1: none")         \
    FIELD(int, bad, -1, "row with nan; -1: none")               \
    FIELD(bool, reads, false, "the rows come from a source")    \
    FIELD(int, epochs, 2, "max_epochs")
NT_EXPERIMENT(Roots, ROOTS)

static double row_of(const Roots *e, int64_t row) {
    return row == e->zero ? 0 : row == e->bad ? NAN : 1 + (double)row / 8;
}

static Roots read_by; /* what the source reads for */

static nt_status read_rows(void *context, nt_request *request) {
    (void)context;
    for (int64_t i = 0; i < request->count; i++)
        nt_array_set(request->fields[0], i, row_of(&read_by, request->rows[i]));
    return NT_OK;
}

static nt_status build_data(const Roots *e, nt_data *data) {
    static const nt_source_field field = {"x", NT_F32, {1, {1}}};
    nt_split(data, "train", .batch = 1);
    if (e->reads) {
        read_by = *e;
        return nt_split_source(
            data, "train",
            (nt_source){.name = "rows", .rows = ROWS, .fields = &field, .field_count = 1, .read = read_rows});
    }
    nt_array *x = nt_array_new(NT_F32, nt_dims(ROWS, 1));
    for (int i = 0; i < ROWS; i++) nt_array_set(x, i, row_of(e, i));
    return nt_split_field(data, "train", "x", x);
}

static nt_tensor forward(const Roots_view *e, nt_model *m, nt_batch *b) {
    nt_tensor w = nt_parameter(m, "w", nt_dims(1), .init = nt_ones());
    nt_tensor y = nt_sqrt(nt_mul(nt_square(nt_field(b, "x")), nt_square(w)));
    return e->logs ? nt_log(y) : e->squares ? nt_square(y) : y;
}

static nt_tensor loss(const Roots_view *e, nt_tensor y, nt_batch *b) {
    (void)b;
    return nt_mul(nt_mean(y), e->factor);
}

static nt_tensor train_step(const void *view, nt_model *m, nt_batch *b, nt_optimizers *optimizers,
                            nt_device_metrics *metrics) {
    const Roots_view *e = view;
    (void)metrics;
    nt_tensor made = loss(e, forward(e, m, b), b);
    nt_step(optimizers, nt_parameter_grads(m, made, ""));
    return made;
}

static nt_rule optimizer(const Roots *e, const char *group) {
    (void)e;
    (void)group;
    return nt_sgd();
}

NT_DEFINE(Roots, ROOTS, .build_data = build_data, .forward = forward, .loss = loss, .optimizer = optimizer);

static const nt_experiment *experiment(const Roots *e) {
    static nt_experiment manual;
    if (!e->manual) return Roots_experiment();
    manual = *Roots_experiment();
    manual.hooks = (nt_hooks){.build_data = manual.hooks.build_data,
                              .forward = manual.hooks.forward,
                              .optimizer = manual.hooks.optimizer,
                              .train_step = train_step};
    return &manual;
}

typedef struct given {
    Roots e;
    int64_t accum;
    double clip, ema, rate;
} given;

static nt_run *make(const given *g) {
    nt_run_options o = quiet_options(NULL);
    if (g->accum) o.accum = (nt_maybe_int){true, g->accum};
    if (g->clip > 0) o.gradient_clip_norm = (nt_maybe_double){true, g->clip};
    if (g->ema > 0) o.ema_decay = (nt_maybe_double){true, g->ema};
    o.learning_rate = (nt_maybe_double){true, g->rate > 0 ? g->rate : 0.01};
    o.max_epochs = (nt_maybe_int){true, g->e.epochs};
    nt_run *run;
    assert_ok(nt_run_new(experiment(&g->e), &g->e, &o, &run));
    return run;
}

static given with(int zero, int64_t accum) {
    given g = {.e = Roots_defaults(), .accum = accum};
    g.e.zero = zero;
    return g;
}

/* Trains to the failure, whose message has `part`, and does not advise what cannot help. */
static void diverges_at(const given *g, const char *part, int line) {
    nt_run *run = make(g);
    nt__engine_counts before = nt__engine_counts_now();
    assert_fails_at(nt_train(run), NT_DIVERGED, part, line);
    if (strstr(nt_error_message(), "clip")) fail_msg("line %d: %s", line, nt_error_message());
    nt__engine_counts after = nt__engine_counts_now(); /* what was tried is gone */
    assert_int_equal(after.buffers[NT__PARAMETERS].live_count, before.buffers[NT__PARAMETERS].live_count);
    assert_int_equal(after.buffers[NT__ACCUMULATOR].live_count, before.buffers[NT__ACCUMULATOR].live_count);
    assert_int_equal(after.buffers[NT__LAYER_STATE].live_count, before.buffers[NT__LAYER_STATE].live_count);
    assert_int_equal(after.buffers[NT__BATCH].live_count, 0);
    nt_run_free(run);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
}
#define diverges(g, part) diverges_at((g), (part), __LINE__)

static void the_gradient_of_the_step_before_is_named(void **state) {
    (void)state;
    static const char wanted[] =
        "the loss is nan at step 7 of epoch 1 (micro-batch 7 of split 'train'): the parameters were not finite before "
        "step 7, so the gradient of step 6 was not: look at its batch (micro-batch 6 of epoch 1), whose loss is finite";
    given g = with(5, 1);
    diverges(&g, wanted);
    g.clip = 1;
    diverges(&g, wanted);
    g.ema = 0.9;
    diverges(&g, wanted);
    g = with(5, 1);
    g.e.manual = true;
    diverges(&g, wanted);
}

/* The micro-batch of a step, and a step of the epoch before. */
static void its_micro_batch_is_named(void **state) {
    (void)state;
    given g = with(2, 4);
    diverges(&g,
             "the loss is nan at step 2 of epoch 1 (micro-batch 5 of split 'train'): the parameters were not finite "
             "before step 2, so the gradient of step 1 was not: look at its batch (micro-batch 3 of epoch 1)");
    g = with(7, 1);
    diverges(&g,
             "the loss is nan at step 9 of epoch 2 (micro-batch 1 of split 'train'): the parameters were not finite "
             "before step 9, so the gradient of step 8 was not: look at its batch (micro-batch 8 of epoch 1)");
}

/* Its own batch where that is to blame, also in a later step. */
static void a_bad_batch_is_named_itself(void **state) {
    (void)state;
    given g = with(-1, 1);
    g.e.bad = 3;
    diverges(
        &g, "the loss is nan at step 4 of epoch 1 (micro-batch 4 of split 'train'). The parameters are not the reason: "
            "look at the data of that batch for nan and infinity");
    g.e.manual = true;
    diverges(&g, "at step 4 of epoch 1 (micro-batch 4 of split 'train'). The parameters are not the reason: look at");
    g = with(3, 1);
    g.e.logs = true;
    diverges(
        &g,
        "the loss is -inf at step 4 of epoch 1 (micro-batch 4 of split 'train'). The parameters are not the reason");
    g = with(-1, 1);
    g.e.bad = 0;
    diverges(&g, "before any update: look at the data of that batch for nan and infinity");
}

/* A source is not read again, so it cannot be told whether the gradient or the step was at fault. */
static void of_a_source_both_are_named(void **state) {
    (void)state;
    given g = with(5, 1);
    g.e.reads = true;
    diverges(&g,
             "Its batch has a finite loss with the initial parameters, so the parameters were not finite before step "
             "7, or the loss is not at them. Look at the gradient of step 6 of epoch 1 (micro-batch 6 of split "
             "'train')");
}

static void a_device_field_is_named(void **state) {
    (void)state;
    given g = with(-1, 1);
    g.e.factor = NAN;
    diverges(&g, ", and Device field factor is nan: give it a finite value");
}

/* What grows step by step is no fault of a batch. */
static void steps_that_are_too_large_are_told_by_the_losses(void **state) {
    (void)state;
    given g = with(-1, 1);
    g.e.squares = true;
    g.e.epochs = 9;
    g.rate = 100;
    for (int clips = 0; clips < 2; clips++) {
        if (clips) g.clip = 1e30;
        nt_run *run = make(&g);
        assert_fails(nt_train(run), NT_DIVERGED, ". The losses had grown from 1 to ");
        assert_non_null(strstr(nt_error_message(), "with a lower learning rate (now 100)"));
        assert_int_equal(strstr(nt_error_message(), " or with gradient_clip_norm") == NULL, clips);
        nt_run_free(run);
    }
}

/* ---- parameters that are found out when they are saved ---------------------------------------------------------- */

static void a_file_names_the_last_step(void **state) {
    (void)state;
    const char *path = scratch("w.safetensors");
    given g = with(7, 1);
    g.e.epochs = 1;
    nt_run *run = make(&g);
    assert_ok(nt_train(run));
    assert_fails(
        nt_run_save(run, path), NT_DIVERGED,
        "1 of the 1 elements of parameter 'w' are infinite or not a number. The loss was finite up to there, so "
        "look at the gradient of step 8 of epoch 1 (micro-batch 8 of split 'train'), or of an earlier step");
    assert_null(strstr(nt_error_message(), "clip"));
    /* It goes on with them. */
    assert_fails(
        nt_train_more(run, 1, 0), NT_DIVERGED,
        "step 9 of epoch 2 (micro-batch 1 of split 'train'), before any update of this training. Its batch has a "
        "finite loss with the initial parameters, so those that training began with are not finite");
    nt_run_free(run);
    g = with(6, 4);
    g.e.epochs = 1;
    run = make(&g);
    assert_ok(nt_train(run));
    assert_fails(nt_run_save(run, path), NT_DIVERGED, "step 2 of epoch 1 (micro-batches 5 to 8 of split 'train')");
    nt_run_free(run);
}

/* A run that goes on from a checkpoint. */
static void a_resumed_run_names_it_too(void **state) {
    (void)state;
    char folder[2 * SCRATCH_PATH];
    snprintf(folder, sizeof folder, "%s", scratch("resumed"));
    Roots e = Roots_defaults();
    e.zero = 5;
    nt_run_options o = {.quiet = true, .run_dir = folder};
    o.max_steps = (nt_maybe_int){true, 4};
    nt_run *run;
    assert_ok(nt_run_new(Roots_experiment(), &e, &o, &run));
    assert_ok(nt_train(run));
    nt_run_free(run);
    o.max_steps = (nt_maybe_int){false, 0};
    o.resume = "auto";
    assert_ok(nt_run_new(Roots_experiment(), &e, &o, &run));
    assert_fails(
        nt_train(run), NT_DIVERGED,
        "step 7 of epoch 1 (micro-batch 7 of split 'train'): the parameters were not finite before step 7, so the "
        "gradient of step 6 was not: look at its batch (micro-batch 6 of epoch 1)");
    nt_run_free(run);
    /* The last step before a checkpoint. */
    e.zero = 7;
    o.resume = NULL;
    o.max_epochs = (nt_maybe_int){true, 1};
    assert_ok(nt_run_new(Roots_experiment(), &e, &o, &run));
    assert_fails(
        nt_train(run), NT_DIVERGED,
        "the checkpoint is not written: 1 of the 1 elements of parameter 'w' are infinite or not a number. The loss "
        "was finite up to there, so look at the gradient of step 8 of epoch 1 (micro-batch 8 of split 'train')");
    assert_null(strstr(nt_error_message(), "clip"));
    nt_run_free(run);
}

static int tidy_up(void **state) {
    scratch_remove(state);
    return shut_down(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gradient_of_the_step_before_is_named),
        cmocka_unit_test(its_micro_batch_is_named),
        cmocka_unit_test(a_bad_batch_is_named_itself),
        cmocka_unit_test(of_a_source_both_are_named),
        cmocka_unit_test(a_device_field_is_named),
        cmocka_unit_test(steps_that_are_too_large_are_told_by_the_losses),
        cmocka_unit_test(a_file_names_the_last_step),
        cmocka_unit_test(a_resumed_run_names_it_too),
    };
    return cmocka_run_group_tests(tests, scratch_make, tidy_up);
}
