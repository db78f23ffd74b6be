/* Losses that are a sum over a count: with any accum a step is that of its merged batch. The
 * accumulator has one more scalar, and the division comes before the clip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/run_internal.h"
#include "toy.h"

enum { ROWS = 16, TOKENS = 128 };

/* Rows of tokens of which the first few count: 4 micro-batches of 4 rows have 3, 50, 7 and 120 of them, and in
 * the last of them `empty` leaves none. */
#define TEXTS(FIELD, DEVICE, GRAPH_CONST)                                                   \
    GRAPH_CONST(bool, adds, false, "a term is added after nt_weighted_loss")                \
    GRAPH_CONST(bool, plain, false, "the mean of a micro-batch, for a comparison")          \
    GRAPH_CONST(bool, bad, false, "a sum that is no scalar")                                \
    GRAPH_CONST(bool, whole, false, "the sum has all tokens, also those that do not count") \
    FIELD(int, batch, 4, "rows in a micro-batch")                                           \
    FIELD(bool, empty, false, "the last micro-batch has no token")                          \
    FIELD(bool, none, false, "no row has any")                                              \
    FIELD(bool, validates, false, "the same rows are val")
NT_EXPERIMENT(Texts, TEXTS)

static nt_array *mask(const Texts *e) {
    static const int counts[4] = {3, 50, 7, 120};
    nt_array *made = nt_array_new(NT_U8, nt_dims(ROWS, TOKENS));
    for (int part = 0; part < 4; part++)
        for (int i = 0; i < counts[part]; i++) {
            uint8_t *row = (uint8_t *)made->data + (size_t)(part * 4 + i % 4) * TOKENS;
            row[i / 4] = !e->none && !(e->empty && part == 3);
        }
    return made;
}

static nt_array *tokens(void) {
    nt_array *made = nt_array_new(NT_F32, nt_dims(ROWS, TOKENS));
    for (int i = 0; i < ROWS * TOKENS; i++)
        ((float *)made->data)[i] = nt__uniform_of_bits(nt__random_bits(nt__key_of_seed(7), (uint64_t)i)) * 4 - 1;
    return made;
}

static void add_split(const Texts *e, nt_data *data, const char *name) {
    nt_split(data, name, .batch = e->batch);
    nt_split_field(data, name, "x", tokens());
    nt_split_field(data, name, "mask", mask(e));
}

static nt_status build_data(const Texts *e, nt_data *data) {
    add_split(e, data, "train");
    if (e->validates) add_split(e, data, "val");
    return nt_data_status(data);
}

static nt_tensor forward(const Texts_view *e, nt_model *m, nt_batch *batch) {
    (void)e;
    nt_tensor x = nt_reshape(nt_field(batch, "x"), -1, 1);
    nt_tensor y = nt_dense(m, "out", nt_tanh(nt_dense(m, "hidden", x, 6)), 1);
    return nt_reshape(y, nt_dim(nt_field(batch, "x"), 0), TOKENS);
}

static nt_tensor loss(const Texts_view *e, nt_tensor outputs, nt_batch *batch) {
    nt_tensor counts = nt_convert(nt_field(batch, "mask"), NT_F32);
    nt_tensor wrong = nt_square(nt_sub(outputs, nt_square(nt_field(batch, "x"))));
    nt_tensor each = e->whole ? wrong : nt_mul(wrong, counts);
    if (e->plain) return nt_div(nt_sum(each), nt_sum(counts));
    if (e->bad) return nt_weighted_loss(each, nt_sum(counts));
    nt_tensor result = nt_weighted_loss(nt_sum(each), nt_sum(counts));
    return e->adds ? nt_add(result, 1) : result;
}

static nt_rule optimizer(const Texts *e, const char *group) {
    (void)group;
    (void)e;
    return nt_sgd();
}

NT_DEFINE(Texts, TEXTS, .build_data = build_data, .forward = forward, .loss = loss, .optimizer = optimizer);

/* ---- training --------------------------------------------------------------------------------------------------- */

typedef struct outcome {
    float parameters[32];
    size_t count;
    heard heard;
    double val_loss;
} outcome;

static nt_run *make(const Texts *e, int64_t accum, double clip, int64_t epochs, heard *h) {
    nt_run_options options = quiet_options(h);
    options.accum = (nt_maybe_int){true, accum};
    options.max_epochs = (nt_maybe_int){true, epochs};
    options.learning_rate = (nt_maybe_double){true, 0.1};
    options.gradient_clip_norm = (nt_maybe_double){true, clip};
    nt_run *run;
    assert_ok(nt_run_new(Texts_experiment(), e, &options, &run));
    return run;
}

static outcome train(Texts e, int batch, int64_t accum, double clip, int64_t epochs) {
    outcome result = {.count = 0};
    e.batch = batch;
    nt_run *run = make(&e, accum, clip, epochs, &result.heard);
    assert_ok(nt_train(run));
    nt_results values;
    if (e.validates) {
        assert_ok(nt_validate(run, &values));
        assert_string_equal(values.values[0].name, "val_loss");
        result.val_loss = values.values[0].value;
    }
    nt_parameter_info info;
    for (size_t i = 0; nt_run_parameter_at(run, i, &info); i++) {
        nt_array *array = nt_run_parameter(run, info.path);
        assert_non_null(array);
        memcpy(result.parameters + result.count, array->data, array->bytes);
        result.count += array->bytes / sizeof(float);
        nt_array_free(array);
    }
    nt_run_free(run);
    assert_int_equal(result.count, 6 + 6 + 6 + 1);
    return result;
}

static double distance(const outcome *a, const outcome *b) {
    double largest = 0;
    for (size_t i = 0; i < a->count; i++) largest = fmax(largest, fabs((double)a->parameters[i] - b->parameters[i]));
    return largest;
}

/* With and without a clip that binds: the division comes before it. */
static void a_step_is_that_of_the_merged_batch(void **state) {
    (void)state;
    static const double clips[] = {0, 0.05};
    for (int c = 0; c < 2; c++) {
        Texts e = Texts_defaults();
        outcome merged = train(e, 16, 1, clips[c], 3), four = train(e, 4, 4, clips[c], 3),
                two = train(e, 8, 2, clips[c], 3);
        assert_true(distance(&merged, &four) < 1e-6);
        assert_true(distance(&merged, &two) < 1e-6);
        e.plain = true;
        outcome means = train(e, 4, 4, clips[c], 3);
        assert_true(distance(&merged, &means) > 1e-4);
    }
}

/* With one micro-batch in a step it is the plain mean. */
static void with_accum_1_it_is_the_mean(void **state) {
    (void)state;
    Texts e = Texts_defaults();
    outcome weighted = train(e, 4, 1, 0, 2);
    e.plain = true;
    outcome plain = train(e, 4, 1, 0, 2);
    assert_true(distance(&weighted, &plain) < 1e-6);
    for (size_t i = 0; i < 8; i++) assert_true(fabs(weighted.heard.losses[i] - plain.heard.losses[i]) < 1e-5);
}

/* Losses of steps and epochs, and val_loss. */
static void what_is_reported_does_not_depend_on_accum(void **state) {
    (void)state;
    Texts e = Texts_defaults();
    e.validates = true;
    outcome merged = train(e, 16, 1, 0, 3), four = train(e, 4, 4, 0, 3);
    assert_int_equal(merged.heard.count, 3);
    assert_int_equal(four.heard.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_true(fabs(merged.heard.losses[i] / four.heard.losses[i] - 1) < 1e-5);
        assert_true(fabs(merged.heard.epoch_losses[i] / four.heard.epoch_losses[i] - 1) < 1e-5);
        assert_true(fabs(merged.heard.losses[i] / merged.heard.epoch_losses[i] - 1) < 1e-6);
    }
    assert_true(fabs(merged.val_loss / four.val_loss - 1) < 1e-5);
    assert_true(merged.val_loss < merged.heard.losses[0]);
}

/* Micro-batches and steps that count nothing are no 0 / 0. */
static void nothing_to_count_is_no_nan(void **state) {
    (void)state;
    Texts e = Texts_defaults();
    e.empty = true;
    outcome merged = train(e, 16, 1, 0, 2), four = train(e, 4, 4, 0, 2);
    assert_true(distance(&merged, &four) < 1e-6);
    e.none = true;
    outcome still = train(e, 4, 2, 0, 1), more = train(e, 4, 1, 0, 2);
    assert_true(still.heard.losses[0] == 0);
    assert_true(distance(&still, &more) == 0);
}

/* Where nothing counts, what is in the sum moves nothing; an epoch of that has no mean. */
static void the_sum_without_a_count_moves_nothing(void **state) {
    (void)state;
    Texts e = Texts_defaults();
    e.none = e.whole = e.validates = true;
    outcome still = train(e, 4, 2, 0, 1), more = train(e, 4, 1, 0, 2);
    assert_true(still.heard.losses[0] == 0 && more.heard.losses[3] == 0);
    assert_true(distance(&still, &more) == 0);
    assert_true(isnan(still.heard.epoch_losses[0]) && isnan(still.val_loss));
    e.none = false;
    e.empty = true;
    outcome some = train(e, 4, 1, 0, 1);
    assert_true(some.heard.losses[2] > 0 && some.heard.losses[3] == 0);
    assert_true(isfinite(some.heard.epoch_losses[0]) && isfinite(some.val_loss));
}

/* The most that was alive at the end of a step, beside batches, which come when their worker has time. */
static void note_peak(const nt_event *event, void *context) {
    uint64_t *peak = context;
    nt__engine_counts counts = nt__engine_counts_now();
    uint64_t batches = counts.buffers[NT__BATCH].live_bytes + counts.buffers[NT__STAGED].live_bytes;
    uint64_t others = counts.all_buffers.live_bytes - batches;
    if (event->kind == NT_EVENT_STEP && others > *peak) *peak = others;
}

static uint64_t peak_of(int64_t accum) {
    Texts e = Texts_defaults();
    e.batch = 1;
    uint64_t peak = 0;
    nt_run *run = make(&e, accum, 0, 4, NULL);
    run->task.on_event = note_peak;
    run->task.event_context = &peak;
    assert_ok(nt_train(run));
    nt_run_free(run);
    assert_true(peak > 0);
    return peak;
}

/* What is alive does not grow with the micro-batches of a step. */
static void memory_does_not_depend_on_accum(void **state) {
    (void)state;
    assert_int_equal(peak_of(8), peak_of(2)); /* both have a step that closes inside the epoch */
}

/* ---- terms beside the sum --------------------------------------------------------------------------------------- */

/* A term of tokens and a penalty of the parameters, which forward hands to the loss as a column. A weight of 0 leaves
 * out rows that hold nan. */
#define PENALISED(FIELD, DEVICE, GRAPH_CONST)                             \
    GRAPH_CONST(int, form, 2, "how the penalty is added")                 \
    GRAPH_CONST(bool, leaves_out, false, "rows of weight 0 are left out") \
    FIELD(bool, holes, false, "rows of weight 0 hold nan")                \
    FIELD(int, batch, 8, "rows in a micro-batch")
NT_EXPERIMENT(Penalised, PENALISED)
enum { PENALISED_ROWS = 32, PENALISED_WIDTH = 4 };

static nt_status penalised_data(const Penalised *e, nt_data *data) {
    nt_array *x = nt_array_new(NT_F32, nt_dims(PENALISED_ROWS, PENALISED_WIDTH));
    nt_array *w = nt_array_new(NT_F32, nt_dims(PENALISED_ROWS));
    for (int i = 0; i < PENALISED_ROWS; i++) {
        bool counts = i * 7 % 5 < 1 + i / 8;
        nt_array_set(w, i, counts);
        for (int k = 0; k < PENALISED_WIDTH; k++)
            nt_array_set(x, i * PENALISED_WIDTH + k, e->holes && !counts ? NAN : sin(1.7 * (i * PENALISED_WIDTH + k)));
    }
    nt_split(data, "train", .batch = e->batch);
    nt_split_field(data, "train", "x", x);
    nt_split_field(data, "train", "w", w);
    return nt_data_status(data);
}

static nt_tensor penalised_forward(const Penalised_view *e, nt_model *m, nt_batch *b) {
    nt_tensor p = nt_parameter(m, "p", nt_dims(PENALISED_WIDTH, 1), .init = nt_ones()), x = nt_field(b, "x");
    if (e->leaves_out) x = nt_where(nt_reshape(nt_greater(nt_field(b, "w"), 0), -1, 1), x, 0);
    nt_tensor y = nt_matmul(x, p), penalty = nt_reshape(nt_mul(nt_sum(nt_square(p)), 0.1), 1, 1);
    return nt_concatenate(1, y, nt_broadcast(penalty, nt_shape_of(y)));
}

static nt_tensor penalised_loss(const Penalised_view *e, nt_tensor outputs, nt_batch *b) {
    int64_t n = nt_dim(outputs, 0);
    nt_tensor y = nt_reshape(nt_slice(outputs, nt_dims(0, 0), nt_dims(n, 1)), -1), w = nt_field(b, "w");
    nt_tensor penalty = nt_mean(nt_slice(outputs, nt_dims(0, 1), nt_dims(n, 2)));
    nt_tensor each = nt_mul(w, nt_square(nt_sub(y, 1))), count = nt_sum(w);
    nt_tensor sum = nt_sum(e->leaves_out ? nt_where(nt_greater(w, 0), each, 0) : each);
    if (e->form == 0) return nt_add(nt_weighted_loss(sum, count), penalty);
    if (e->form == 1) return nt_weighted_loss(nt_add(sum, penalty), count);
    return nt_weighted_loss(nt_add(sum, nt_mul(penalty, count)), count);
}

static nt_rule penalised_optimizer(const Penalised *e, const char *group) {
    (void)e;
    (void)group;
    return nt_sgd();
}

NT_DEFINE(Penalised, PENALISED, .build_data = penalised_data, .forward = penalised_forward, .loss = penalised_loss,
          .optimizer = penalised_optimizer);

static nt_status train_penalised(Penalised e, int accum, float *out) {
    nt_run_options options = quiet_options(NULL);
    e.batch = PENALISED_ROWS / accum;
    options.accum = (nt_maybe_int){true, accum};
    options.max_epochs = (nt_maybe_int){true, 1};
    options.learning_rate = (nt_maybe_double){true, 0.1};
    nt_run *run;
    nt_status status = nt_run_new(Penalised_experiment(), &e, &options, &run);
    if (status != NT_OK) return status;
    status = nt_train(run);
    nt_array *p = nt_run_parameter(run, "p");
    memcpy(out, p->data, p->bytes);
    nt_array_free(p);
    nt_run_free(run);
    return status;
}

static double farthest(const float *a, const float *b) {
    double far = 0;
    for (int i = 0; i < PENALISED_WIDTH; i++) far = fmax(far, fabs((double)a[i] - b[i]));
    return far;
}

/* The form that the message and the header name is the only one whose step does not depend on accum. */
static void a_penalty_is_added_times_the_count(void **state) {
    (void)state;
    float merged[PENALISED_WIDTH], four[PENALISED_WIDTH];
    Penalised e = Penalised_defaults();
    e.form = 0;
    assert_fails(train_penalised(e, 1, merged), NT_INVALID,
                 "times the count: nt_weighted_loss(nt_add(sum, nt_mul(penalty, count)), count)");
    e.form = 1;
    assert_ok(train_penalised(e, 1, merged));
    assert_ok(train_penalised(e, 4, four));
    assert_true(farthest(merged, four) > 1e-4);
    e.form = 2;
    assert_ok(train_penalised(e, 1, merged));
    assert_ok(train_penalised(e, 4, four));
    assert_true(farthest(merged, four) < 1e-6);
}

/* As the header says: nt_where before the model and after the losses. */
static void rows_of_weight_0_can_be_left_out(void **state) {
    (void)state;
    float whole[PENALISED_WIDTH], holes[PENALISED_WIDTH];
    Penalised e = Penalised_defaults();
    assert_ok(train_penalised(e, 4, whole));
    e.holes = true;
    assert_fails(train_penalised(e, 4, holes), NT_DIVERGED, "before any update: look at the data of that batch");
    e.leaves_out = true;
    assert_ok(train_penalised(e, 4, holes));
    assert_true(farthest(whole, holes) < 1e-6);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void the_count_must_not_be_lost(void **state) {
    (void)state;
    Texts e = Texts_defaults();
    nt_run_options options = quiet_options(NULL);
    nt_run *run;
    e.adds = true;
    assert_fails(nt_run_new(Texts_experiment(), &e, &options, &run), NT_INVALID,
                 "loss made an nt_weighted_loss and returned another tensor");
    e.adds = false;
    e.bad = true;
    assert_fails(nt_run_new(Texts_experiment(), &e, &options, &run), NT_INVALID,
                 "in loss: weighted_loss: the sum is f32[4,128]; it must be a floating scalar");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_that_of_the_merged_batch),
        cmocka_unit_test(with_accum_1_it_is_the_mean),
        cmocka_unit_test(what_is_reported_does_not_depend_on_accum),
        cmocka_unit_test(nothing_to_count_is_no_nan),
        cmocka_unit_test(the_sum_without_a_count_moves_nothing),
        cmocka_unit_test(memory_does_not_depend_on_accum),
        cmocka_unit_test(a_penalty_is_added_times_the_count),
        cmocka_unit_test(rows_of_weight_0_can_be_left_out),
        cmocka_unit_test(the_count_must_not_be_lost),
    };
    return cmocka_run_group_tests_name("weighted", tests, NULL, shut_down);
}
