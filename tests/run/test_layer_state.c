/* Layer states in whole runs: what they become, who reads them, where they are saved, what they cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/run_internal.h"
#include "toy.h"

enum { BATCH = 8, BATCHES = 4, MOST_STEPS = 64 };

/* A running mean of the samples' first coordinate, which forward adds, and how often it moved. */
#define AVERAGES(FIELD, DEVICE, GRAPH_CONST)                                   \
    GRAPH_CONST(double, keep, 0.75, "of the running mean in each micro-batch") \
    GRAPH_CONST(bool, drops, false, "draws random numbers too")                \
    GRAPH_CONST(int, width, 1, "of the state that nothing sets")               \
    GRAPH_CONST(bool, breaks, false, "the mean becomes nan")                   \
    FIELD(bool, trains, true, "there is a split train")
NT_EXPERIMENT(Averages, AVERAGES)

static nt_status build_data(const Averages *e, nt_data *data) {
    nt_split(data, "val", .batch = BATCH);
    nt_split_field(data, "val", "x", toy_points(BATCH + 3, false));
    if (!e->trains) return nt_data_status(data);
    nt_split(data, "train", .batch = BATCH);
    nt_split_field(data, "train", "x", toy_points(BATCH * BATCHES, false));
    return nt_data_status(data);
}

static nt_tensor forward(const Averages_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_field(batch, "x"), average = {0}, still = {0};
    NT_SCOPE(m, "norm") {
        average = nt_state(m, "average", nt_dims(1));
        nt_tensor moved = nt_state(m, "moved", (nt_shape){0}, .dtype = NT_I64);
        still = nt_state(m, "still", nt_dims(e->width), .init = nt_normal(2));
        nt_tensor now = nt_mean(nt_slice(x, nt_dims(0, 0), nt_dims(BATCH, 1)), 0);
        nt_tensor next = nt_add(nt_mul(average, e->keep), nt_mul(now, 1 - e->keep));
        nt_state_set(m, "average", e->breaks ? nt_log(nt_sub(nt_mul(next, 0), 1)) : next);
        nt_state_set(m, "moved", nt_add(moved, 1));
    }
    if (e->drops) x = nt_dropout(m, "drop", x, 0.5);
    nt_tensor y = nt_dense(m, "out", x, 2);
    return nt_add(nt_add(y, average), nt_sum(still));
}

static nt_tensor loss(const Averages_view *e, nt_tensor outputs, nt_batch *batch) {
    (void)e;
    (void)batch;
    return nt_mean(nt_square(outputs));
}

NT_DEFINE(Averages, AVERAGES, .build_data = build_data, .forward = forward, .loss = loss);

static nt_run *make(const Averages *e, nt_run_options options) {
    nt_run *run;
    assert_ok(nt_run_new(Averages_experiment(), e, &options, &run));
    return run;
}

static nt_run *train(const Averages *e, int64_t accum, int64_t epochs) {
    nt_run_options options = quiet_options(NULL);
    options.accum = (nt_maybe_int){true, accum};
    options.max_epochs = (nt_maybe_int){true, epochs};
    nt_run *run = make(e, options);
    assert_ok(nt_train(run));
    return run;
}

static double state_of(nt_run *run, const char *path) {
    nt_array *copy = nt_run_state(run, path);
    if (!copy) fail_msg("%s", nt_error_message());
    double value = nt_array_get(copy, 0);
    nt_array_free(copy);
    return value;
}

/* ---- training and evaluation ------------------------------------------------------------------------------------ */

/* As often as forward is applied, accum times a step. */
static void states_move_with_each_micro_batch(void **state) {
    (void)state;
    Averages e = Averages_defaults();
    nt_array *points = toy_points(BATCH * BATCHES, false);
    double average = 0;
    for (int b = 0; b < 2 * BATCHES; b++) {
        double sum = 0;
        for (int i = 0; i < BATCH; i++) sum += nt_array_get(points, (b % BATCHES * BATCH + i) * 4);
        average = 0.75 * average + 0.25 * sum / BATCH;
    }
    nt_array_free(points);
    static const int64_t accums[] = {1, 4};
    for (int i = 0; i < 2; i++) {
        nt_run *run = train(&e, accums[i], 2);
        assert_int_equal(nt_run_step(run), 2 * BATCHES / accums[i]);
        assert_true(state_of(run, "norm.moved") == 2 * BATCHES);
        assert_true(fabs(state_of(run, "norm.average") - average) < 1e-6);
        nt_run_free(run);
    }
}

static nt_array *predict(nt_run *run) {
    nt_array *points = toy_points(5, false), *outputs;
    assert_ok(nt_predict(run, &(nt_named_array){"x", points}, 1, &outputs));
    nt_array_free(points);
    return outputs;
}

/* An evaluation reads them and leaves them alone. */
static void an_evaluation_changes_nothing(void **state) {
    (void)state;
    Averages e = Averages_defaults();
    nt_run *run = train(&e, 1, 1);
    double average = state_of(run, "norm.average");
    nt_array *first = predict(run);
    assert_ok(nt_validate(run, NULL));
    nt_array *second = predict(run);
    assert_true(state_of(run, "norm.moved") == BATCHES);
    assert_true(state_of(run, "norm.average") == average);
    assert_memory_equal(first->data, second->data, first->bytes);
    nt_array_free(first);
    nt_array_free(second);
    nt_run_free(run);
}

/* The outputs are those of the state: what a dense layer gives, and the state added. */
static void an_evaluation_reads_what_training_left(void **state) {
    (void)state;
    Averages e = Averages_defaults();
    nt_run *run = train(&e, 1, 1);
    nt_array *outputs = predict(run), *points = toy_points(5, false);
    nt_array *weight = nt_run_parameter(run, "out.weight"), *bias = nt_run_parameter(run, "out.bias");
    double wanted = nt_array_get(bias, 0) + state_of(run, "norm.average") + state_of(run, "norm.still");
    for (int i = 0; i < 4; i++) wanted += nt_array_get(points, i) * nt_array_get(weight, 2 * i);
    assert_true(fabs(nt_array_get(outputs, 0) - wanted) < 1e-5);
    nt_array_free(bias);
    nt_array_free(weight);
    nt_array_free(points);
    nt_array_free(outputs);
    nt_run_free(run);
}

/* ---- what there is ---------------------------------------------------------------------------------------------- */

static void states_are_listed(void **state) {
    (void)state;
    Averages e = Averages_defaults();
    e.drops = true;
    nt_run *run = make(&e, quiet_options(NULL));
    static const char *const paths[] = {"norm.average", "norm.moved", "norm.still"};
    nt_state_info info;
    for (size_t i = 0; i < 3; i++) {
        assert_true(nt_run_state_at(run, i, &info));
        assert_string_equal(info.path, paths[i]);
    }
    assert_false(nt_run_state_at(run, 3, &info)); /* the counter of draws is the model's own */
    assert_null(nt_run_state(run, "norm"));
    assert_string_equal(nt_error_message(), "experiment 'Averages' has no layer state 'norm'; its layer states are: "
                                            "norm.average, norm.moved, norm.still");
    nt_run_free(run);
}

/* Drawn from seed and path as parameters are. */
static void initial_values_follow_the_seed(void **state) {
    (void)state;
    Averages e = Averages_defaults();
    nt_run_options options = quiet_options(NULL);
    nt_run *run = make(&e, options), *again = make(&e, options);
    options.seed = (nt_maybe_int){true, 5};
    nt_run *other = make(&e, options);
    assert_true(state_of(run, "norm.still") != 0);
    assert_true(state_of(run, "norm.still") == state_of(again, "norm.still"));
    assert_true(state_of(run, "norm.still") != state_of(other, "norm.still"));
    assert_true(state_of(run, "norm.moved") == 0);
    nt_run_free(run);
    nt_run_free(again);
    nt_run_free(other);
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static void assert_same_predictions(nt_run *a, nt_run *b) {
    nt_array *first = predict(a), *second = predict(b);
    assert_memory_equal(first->data, second->data, first->bytes);
    nt_array_free(first);
    nt_array_free(second);
}

/* A handle that trains, one that only evaluates, and one without data, which compares the file later. */
static void states_are_saved_and_loaded(void **state) {
    (void)state;
    Averages e = Averages_defaults();
    e.drops = true;
    nt_run *trained = train(&e, 1, 1);
    assert_ok(nt_run_save(trained, scratch("averages.safetensors")));
    for (int kind = 0; kind < 4; kind++) {
        nt_run_options options = quiet_options(NULL);
        options.evaluate_only = kind == 1;
        options.no_data = kind == 2;
        options.batch = (nt_maybe_int){kind == 2, BATCH};
        e.trains = kind != 3;
        nt_run *run = make(&e, options);
        assert_ok(nt_run_load(run, scratch("averages.safetensors")));
        assert_same_predictions(trained, run);
        assert_true(state_of(run, "norm.moved") == BATCHES);
        nt_run_free(run);
    }
    nt_run_free(trained);
}

/* All of a file or nothing of it. */
static void a_file_with_other_states_is_refused(void **state) {
    (void)state;
    Averages e = Averages_defaults(), wider = e;
    wider.width = 3;
    nt_run *trained = train(&e, 1, 1), *other = make(&wider, quiet_options(NULL));
    assert_ok(nt_run_save(trained, scratch("averages.safetensors")));
    nt_array *before = nt_run_parameter(other, "out.weight");
    assert_fails(nt_run_load(other, scratch("averages.safetensors")), NT_INVALID,
                 "other GraphConst values than run 'Averages' has, whose model is another one:\n"
                 "  width: 1 in the file, 3 here");
    nt_array *after = nt_run_parameter(other, "out.weight");
    assert_memory_equal(before->data, after->data, before->bytes);
    assert_true(state_of(other, "norm.moved") == 0);
    nt_array_free(before);
    nt_array_free(after);
    nt_run_free(other);
    nt_run_free(trained);
}

static void states_that_are_nan_are_not_saved(void **state) {
    (void)state;
    Averages e = Averages_defaults();
    e.breaks = true;
    nt_run_options options = quiet_options(NULL);
    options.max_steps = (nt_maybe_int){true, 1};
    nt_run *run = make(&e, options);
    assert_ok(nt_train(run));
    assert_fails(nt_run_save(run, scratch("nan.safetensors")), NT_DIVERGED,
                 "1 of the 1 elements of layer state 'norm.average' are not a number");
    nt_run_free(run);
}

/* ---- programs and memory ---------------------------------------------------------------------------------------- */

/* The argument and the result of a state are one memory; a state that nothing sets is no result. */
static void only_what_is_set_is_a_result(void **state) {
    (void)state;
    Averages e = Averages_defaults();
    nt_run *run = make(&e, quiet_options(NULL));
    assert_int_equal(run->traced.programs.carried_count, 2);
    size_t count, donated = 0, read = 0;
    const nt__argument *arguments = nt__program_arguments(run->traced.programs.gradient, &count);
    for (size_t i = 0; i < count; i++)
        if (arguments[i].role == NT__ROLE_LAYER_STATE) {
            donated += arguments[i].donated_to >= 0;
            read++;
        }
    assert_int_equal(donated, 2);
    assert_int_equal(read, 3);
    arguments = nt__program_arguments(run->traced.programs.forward, &count);
    for (size_t i = 0; i < count; i++) assert_int_equal(arguments[i].donated_to, -1);
    nt_run_free(run);
}

static void a_change_of_state_is_what_moved(void **state) {
    (void)state;
    Averages e = Averages_defaults();
    nt_run *run = train(&e, 1, 1);
    const char *drift;
    assert_ok(nt_run_drift(run, &drift));
    assert_string_equal(drift, "");
    nt_run_free(run);
    e.width = 2;
    run = train(&e, 1, 1);
    bool told = false;
    const nt_cache_report_t *report;
    for (size_t i = 0; (report = nt_cache_report(i)); i++)
        told |= strstr(report->moved, "layer state norm.still: f32[1] -> f32[2]") != NULL;
    assert_true(told);
    nt_run_free(run);
}

static void memory_is_flat(void **state) {
    (void)state;
    static heard h;
    Averages e = Averages_defaults();
    nt_run_options options = quiet_options(&h);
    options.max_epochs = (nt_maybe_int){true, 20};
    nt_run *run = make(&e, options);
    nt__engine_counts before = nt__engine_counts_now();
    assert_ok(nt_train(run));
    nt__engine_counts after = nt__engine_counts_now();
    assert_int_equal(before.buffers[NT__LAYER_STATE].live_count, 3);
    assert_int_equal(before.buffers[NT__LAYER_STATE].live_bytes, 4 + 8 + 4);
    assert_int_equal(after.buffers[NT__LAYER_STATE].live_bytes, before.buffers[NT__LAYER_STATE].live_bytes);
    assert_int_equal(after.all_buffers.live_bytes, before.all_buffers.live_bytes);
    assert_int_equal(after.uploads[NT__LAYER_STATE].count, before.uploads[NT__LAYER_STATE].count);
    assert_int_equal(after.downloads[NT__LAYER_STATE].count, before.downloads[NT__LAYER_STATE].count);
    nt_run_free(run);
}

static void note_setup(const nt_event *event, void *context) {
    char *text = context;
    if (event->kind == NT_EVENT_SETUP) snprintf(text, 256, "%s", event->text);
}

static void the_setup_line_counts_them(void **state) {
    (void)state;
    char text[256] = "";
    Averages e = Averages_defaults();
    nt_run_options options = quiet_options(NULL);
    options.on_event = note_setup;
    options.event_context = text;
    nt_run_free(make(&e, options));
    assert_non_null(strstr(text, "10 parameters in 2 arrays, 3 elements of layer state in 3 arrays; RAdam"));
}

/* ---- memory of the host ----------------------------------------------------------------------------------------- */

/* A run from a file and back into it; compiles nothing. */
static nt_status load_and_save(const Averages *e) {
    nt_run_options options = quiet_options(NULL);
    nt_run *run;
    nt_status status = nt_run_new(Averages_experiment(), e, &options, &run);
    if (status == NT_OK) status = nt_run_load(run, scratch("averages.safetensors"));
    if (status == NT_OK) status = nt_run_save(run, scratch("again.safetensors"));
    nt_run_free(run);
    return status;
}

static void a_failed_allocation_leaves_nothing(void **state) {
    (void)state;
    Averages e = Averages_defaults();
    nt_run *trained = train(&e, 1, 1);
    assert_ok(nt_run_save(trained, scratch("averages.safetensors")));
    nt_run_free(trained);
    size_t before = nt__memory().live, failures = 0;
    for (size_t n = 1;; n++) {
        nt__memory_fail_at(n);
        nt_status status = load_and_save(&e);
        nt__memory_fail_at(0);
        assert_int_equal(nt__memory().live, before);
        if (status == NT_OK) break;
        assert_int_equal(status, NT_OUT_OF_MEMORY);
        failures++;
    }
    assert_true(failures > 100);
}

static int tear_down(void **state) {
    int failed = shut_down(state);
    return scratch_remove(state) || failed;
}

/* The counter of the draws is no layer state. */
static void the_summary_has_them(void **state) {
    (void)state;
    nt_run *run = make(&(Averages){.width = 300, .drops = true, .trains = true}, quiet_options(NULL));
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_ok(nt_run_summary(run, out));
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "Averages\n"
                              "parameters\n"
                              "  path        shape     type  count  bytes  group\n"
                              "  out.weight  [4,2]     f32       8     32  default\n"
                              "  out.bias    [2]       f32       2      8  default\n"
                              "  total       2 arrays           10     40\n"
                              "layer states\n"
                              "  path          shape     type  count  bytes\n"
                              "  norm.average  [1]       f32       1      4\n"
                              "  norm.moved    []        i64       1      8\n"
                              "  norm.still    [300]     f32     300  1,200\n"
                              "  total         3 arrays          302  1,212\n");
    free(text);
    nt_run_free(run);
}

static void a_summary_without_memory_says_so(void **state) {
    (void)state;
    nt_run *run = make(&(Averages){.width = 2, .trains = true}, quiet_options(NULL));
    int64_t live = nt__memory().live;
    FILE *out = fopen("/dev/null", "we");
    assert_non_null(out);
    nt_status status = NT_OUT_OF_MEMORY;
    uint64_t at = 1;
    for (; status == NT_OUT_OF_MEMORY && at < 200; at++) {
        nt__memory_fail_at(at);
        status = nt_run_summary(run, out);
        nt__memory_fail_at(0);
        assert_int_equal(nt__memory().live, live);
    }
    assert_int_equal(status, NT_OK);
    assert_true(at > 10);
    fclose(out);
    nt_run_free(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_move_with_each_micro_batch),
        cmocka_unit_test(an_evaluation_changes_nothing),
        cmocka_unit_test(an_evaluation_reads_what_training_left),
        cmocka_unit_test(states_are_listed),
        cmocka_unit_test(initial_values_follow_the_seed),
        cmocka_unit_test(states_are_saved_and_loaded),
        cmocka_unit_test(a_file_with_other_states_is_refused),
        cmocka_unit_test(states_that_are_nan_are_not_saved),
        cmocka_unit_test(only_what_is_set_is_a_result),
        cmocka_unit_test(a_change_of_state_is_what_moved),
        cmocka_unit_test(memory_is_flat),
        cmocka_unit_test(the_setup_line_counts_them),
        cmocka_unit_test(the_summary_has_them),
        cmocka_unit_test(a_summary_without_memory_says_so),
        cmocka_unit_test(a_failed_allocation_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, scratch_make, tear_down);
}
