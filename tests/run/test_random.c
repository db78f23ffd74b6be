/* Random operations of a model in whole runs: which masks a run draws, what changes them, and what they cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/run_internal.h"
#include "toy.h"

enum { BATCH = 4, WIDTH = 5, ELEMENTS = BATCH * WIDTH, STEPS = 6, MOST_ROWS = 64 };

/* Outputs are ones that "drop" leaves alone in training, so that a number tells the whole mask. */
#define MASKS(FIELD, DEVICE, GRAPH_CONST)                                              \
    GRAPH_CONST(bool, first, false, "another dropout comes before")                    \
    GRAPH_CONST(bool, elsewhere, false, "the call is in another line")                 \
    GRAPH_CONST(const char *, scope, "net", "the scope of the dropout")                \
    GRAPH_CONST(bool, draws, true, "it drops at all")                                  \
    GRAPH_CONST(bool, noise, false, "outputs are drawn, whatever the mode")            \
    GRAPH_CONST(bool, training_only, false, "a parameter that only training has")      \
    GRAPH_CONST(bool, training_wider, false, "outputs of training have another shape") \
    DEVICE(float, rate, 0.5f, "of the dropout")                                        \
    FIELD(int, rows, BATCH *STEPS, "rows of train")
NT_EXPERIMENT(Masks, MASKS)

static nt_status build_data(const Masks *e, nt_data *data) {
    nt_split(data, "train", .batch = BATCH);
    nt_split_field(data, "train", "x", toy_points(e->rows, false));
    nt_split(data, "val", .batch = BATCH);
    nt_split_field(data, "val", "x", toy_points(2 * BATCH, false));
    return nt_data_status(data);
}

static nt_tensor mask(const Masks_view *e, nt_model *m, nt_tensor ones) {
    if (!e->draws) return ones;
    if (!e->elsewhere) return nt_dropout(m, "drop", ones, e->rate);
    return nt_dropout(m, "drop", ones, e->rate);
}

static nt_tensor forward(const Masks_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor scale = nt_parameter(m, "scale", nt_dims(WIDTH), .init = nt_ones());
    if (e->training_only && nt_is_training(m)) nt_parameter(m, "aux", nt_dims(3));
    nt_tensor x = nt_sum(nt_field(batch, "x"), -1, NT_KEEP), ones = nt_add(nt_mul(x, 0), scale);
    if (e->training_wider && nt_is_training(m)) return nt_concatenate(-1, ones, ones);
    if (e->noise) return nt_add(ones, nt_random_uniform(nt_random_key(m, "noise"), NT_F32, nt_dims(BATCH, WIDTH)));
    if (e->first) nt_dropout(m, "first", ones, 0.25);
    NT_SCOPE(m, "%s", e->scope) ones = mask(e, m, ones);
    return ones;
}

static nt_tensor loss(const Masks_view *e, nt_tensor outputs, nt_batch *batch) {
    (void)e;
    (void)batch;
    return nt_mean(nt_mul(outputs, 0));
}

/* Element i is bit i. */
static void train_metrics(const Masks_view *e, nt_device_metrics *out, nt_tensor outputs, nt_batch *batch) {
    (void)e;
    (void)batch;
    nt_tensor bits = nt_exp2(nt_iota(NT_F32, nt_dims(ELEMENTS), 0));
    nt_tensor flat = nt_reshape(outputs, -1);
    if (nt_dim(flat, 0) != ELEMENTS) return;
    nt_device_value(out, "mask", nt_sum(nt_where(nt_greater(flat, 0), nt_round(bits), 0)));
}

static nt_rule optimizer(const Masks *e, const char *group) {
    (void)group;
    (void)e;
    return nt_sgd();
}

NT_DEFINE(Masks, MASKS, .build_data = build_data, .forward = forward, .loss = loss, .train_metrics = train_metrics,
          .optimizer = optimizer);

/* ---- masks of a run --------------------------------------------------------------------------------------------- */

typedef struct masks {
    uint32_t items[MOST_ROWS];
    size_t count;
    nt__engine_counts at_second, at_last;
} masks;

static void note(const nt_event *event, void *context) {
    masks *m = context;
    if (event->kind != NT_EVENT_STEP || m->count == MOST_ROWS) return;
    if (event->step == 2) m->at_second = nt__engine_counts_now();
    m->at_last = nt__engine_counts_now();
    assert_int_equal(event->value_count, 1);
    m->items[m->count++] = (uint32_t)event->values[0].value;
}

static nt_run *make(const Masks *e, int64_t seed, int64_t accum, masks *m) {
    nt_run_options options = quiet_options(NULL);
    options.seed = (nt_maybe_int){true, seed};
    options.accum = (nt_maybe_int){true, accum};
    options.on_event = m ? note : NULL;
    options.event_context = m;
    nt_run *run;
    assert_ok(nt_run_new(Masks_experiment(), e, &options, &run));
    return run;
}

static masks train(const Masks *e, int64_t seed, int64_t accum) {
    masks m = {.count = 0};
    nt_run *run = make(e, seed, accum, &m);
    assert_ok(nt_train(run));
    nt_run_free(run);
    assert_int_equal(m.count, (size_t)e->rows / BATCH / (size_t)accum);
    return m;
}

/* The same on the host. */
static uint32_t mask_of(int64_t seed, uint32_t micro_batch, const char *path, double rate) {
    nt__key root = nt__key_fold(nt__model_seed((uint64_t)seed), micro_batch);
    uint64_t name = nt__hash_bytes(path, strlen(path)).low;
    nt__key key = nt__threefry(root, (uint32_t)(name >> 32), (uint32_t)name);
    uint32_t bits = 0;
    for (uint32_t i = 0; i < ELEMENTS; i++)
        bits |= (uint32_t)(nt__uniform_of_bits(nt__random_bits(key, i)) < (float)(1 - rate)) << i;
    return bits;
}

static void masks_are_those_of_seed_name_and_micro_batch(void **state) {
    (void)state;
    Masks e = Masks_defaults();
    for (int64_t accum = 1; accum <= 3; accum++) {
        masks m = train(&e, 7, accum);
        for (size_t i = 0; i < m.count; i++)
            assert_int_equal(m.items[i], mask_of(7, (uint32_t)((i + 1) * (size_t)accum - 1), "net.drop", 0.5));
    }
}

static bool same(const masks *a, const masks *b) {
    assert_int_equal(a->count, b->count);
    return memcmp(a->items, b->items, a->count * sizeof *a->items) == 0;
}

/* A seed is an input; another one is no other program. */
static void reseeding_compiles_nothing(void **state) {
    (void)state;
    Masks e = Masks_defaults();
    masks first = train(&e, 7, 1), again = train(&e, 7, 1);
    uint64_t misses = nt_cache_stats().misses;
    masks other = train(&e, 8, 1);
    assert_int_equal(nt_cache_stats().misses, misses);
    assert_true(same(&first, &again));
    assert_false(same(&first, &other));
}

static void other_draws_and_lines_change_no_mask(void **state) {
    (void)state;
    Masks e = Masks_defaults();
    masks plain = train(&e, 7, 1);
    e.first = true;
    masks with_another = train(&e, 7, 1);
    e.first = false;
    e.elsewhere = true;
    masks elsewhere = train(&e, 7, 1);
    e.scope = "other";
    masks renamed = train(&e, 7, 1);
    assert_true(same(&plain, &with_another));
    assert_true(same(&plain, &elsewhere));
    assert_false(same(&plain, &renamed));
    assert_int_equal(renamed.items[0], mask_of(7, 0, "other.drop", 0.5));
}

/* The rate is a Device field here: it goes on drawing what it drew, and drops more. */
static void a_rate_changes_on_a_live_run(void **state) {
    (void)state;
    Masks e = Masks_defaults();
    masks m = {.count = 0};
    nt_run *run = make(&e, 7, 1, &m);
    assert_ok(nt_train_more(run, 0, 2));
    uint64_t misses = nt_cache_stats().misses;
    assert_ok(nt_set_device(run, "rate", 0.9));
    assert_ok(nt_train_more(run, 0, 2));
    assert_int_equal(nt_cache_stats().misses, misses);
    nt_run_free(run);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(m.items[i], mask_of(7, i, "net.drop", i < 2 ? 0.5 : 0.9F));
}

/* ---- what programs have ----------------------------------------------------------------------------------------- */

static bool has(const nt__program *program, nt__role role) {
    size_t count;
    const nt__argument *arguments = nt__program_arguments(program, &count);
    for (size_t i = 0; i < count; i++)
        if (arguments[i].role == (int)role) return true;
    return false;
}

static void only_programs_that_draw_have_a_seed(void **state) {
    (void)state;
    for (int draws = 0; draws < 2; draws++) {
        Masks e = Masks_defaults();
        e.draws = draws;
        nt_run *run = make(&e, 7, 1, NULL);
        assert_int_equal(has(run->traced.programs.gradient, NT__ROLE_SEED), draws);
        assert_int_equal(has(run->traced.programs.gradient, NT__ROLE_LAYER_STATE), draws);
        assert_false(has(run->traced.programs.forward, NT__ROLE_SEED) ||
                     has(run->traced.programs.forward, NT__ROLE_LAYER_STATE) ||
                     has(run->traced.programs.forward, NT__ROLE_DEVICE));
        assert_false(has(run->traced.programs.optimizer, NT__ROLE_SEED));
        assert_int_equal(nt__engine_counts_now().buffers[NT__LAYER_STATE].live_count, 2 * draws);
        nt_run_free(run);
    }
}

/* No upload a step, and memory that stays flat. */
static void drawing_costs_no_transfer(void **state) {
    (void)state;
    Masks e = Masks_defaults();
    masks m = {.count = 0};
    nt_run *run = make(&e, 7, 2, &m);
    uint64_t uploads = nt__engine_counts_now().uploads[NT__LAYER_STATE].count;
    assert_ok(nt_train(run));
    nt__engine_counts now = nt__engine_counts_now();
    assert_int_equal(now.uploads[NT__LAYER_STATE].count, uploads);
    assert_int_equal(now.downloads[NT__LAYER_STATE].count, 0);
    assert_int_equal(m.at_last.buffers[NT__LAYER_STATE].live_bytes, m.at_second.buffers[NT__LAYER_STATE].live_bytes);
    assert_int_equal(m.at_last.buffers[NT__LAYER_STATE].live_bytes, 4 + 8);
    nt_run_free(run);
}

/* ---- evaluation ------------------------------------------------------------------------------------------------- */

static nt_array *predict(nt_run *run, int rows) {
    nt_array *points = toy_points(rows, false), *outputs;
    assert_ok(nt_predict(run, &(nt_named_array){"x", points}, 1, &outputs));
    nt_array_free(points);
    return outputs;
}

static void an_evaluation_drops_nothing(void **state) {
    (void)state;
    Masks e = Masks_defaults();
    nt_run *run = make(&e, 7, 1, NULL);
    assert_ok(nt_train(run));
    nt_array *outputs = predict(run, 3);
    for (int64_t i = 0; i < nt_shape_elements(outputs->shape); i++) assert_true(nt_array_get(outputs, i) == 1);
    nt_array_free(outputs);
    nt_run_free(run);
}

/* What is drawn in an evaluation is a function of seed and name: the same in every batch and every call. */
static void an_evaluation_draws_the_same_each_time(void **state) {
    (void)state;
    Masks e = Masks_defaults();
    e.noise = true;
    nt_run *run = make(&e, 7, 1, NULL), *other = make(&e, 8, 1, NULL);
    nt_array *before = predict(run, 2 * BATCH), *others = predict(other, BATCH);
    assert_ok(nt_train(run));
    nt_array *after = predict(run, 2 * BATCH);
    uint64_t name = nt__hash_bytes("noise", 5).low;
    nt__key key = nt__threefry(nt__model_seed(7), (uint32_t)(name >> 32), (uint32_t)name);
    for (int i = 0; i < 2 * ELEMENTS; i++) {
        float wanted = 1 + nt__uniform_of_bits(nt__random_bits(key, (uint64_t)(i % ELEMENTS)));
        assert_true((float)nt_array_get(before, i) == wanted && (float)nt_array_get(after, i) == wanted);
    }
    assert_true(nt_array_get(others, 0) != nt_array_get(before, 0));
    nt_array_free(before);
    nt_array_free(after);
    nt_array_free(others);
    nt_run_free(run);
    nt_run_free(other);
}

/* ---- what both modes have to agree on --------------------------------------------------------------------------- */

static void assert_refused(const Masks *e, const char *message) {
    nt_run_options options = quiet_options(NULL);
    nt_run *run;
    assert_fails(nt_run_new(Masks_experiment(), e, &options, &run), NT_INVALID, message);
}

/* A file of parameters has to fit whichever mode laid the model out. */
static void parameters_are_declared_in_both_modes(void **state) {
    (void)state;
    Masks e = Masks_defaults();
    e.training_only = true;
    assert_refused(&e, "in forward: parameter: 'aux' is declared when the model trains and not when it is evaluated: "
                       "declare it in forward whatever the mode");
}

static void outputs_are_the_same_in_both_modes(void **state) {
    (void)state;
    Masks e = Masks_defaults();
    e.training_wider = true;
    assert_refused(&e, "forward returned f32[4,10] in training and f32[4,5] in evaluation; loss and metrics take the "
                       "same outputs in both");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_those_of_seed_name_and_micro_batch),
        cmocka_unit_test(reseeding_compiles_nothing),
        cmocka_unit_test(other_draws_and_lines_change_no_mask),
        cmocka_unit_test(a_rate_changes_on_a_live_run),
        cmocka_unit_test(only_programs_that_draw_have_a_seed),
        cmocka_unit_test(drawing_costs_no_transfer),
        cmocka_unit_test(an_evaluation_drops_nothing),
        cmocka_unit_test(an_evaluation_draws_the_same_each_time),
        cmocka_unit_test(parameters_are_declared_in_both_modes),
        cmocka_unit_test(outputs_are_the_same_in_both_modes),
    };
    return cmocka_run_group_tests(tests, NULL, shut_down);
}
