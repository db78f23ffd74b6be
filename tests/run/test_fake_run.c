/* Whole runs on the fake plugin: whichever of its calls fails, the run says what and where, and leaves nothing alive.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../fake/fake.h"
#include "base/files.h"
#include "toy_source.h"

/* ---- a whole life ----------------------------------------------------------------------------------------------- */

enum { EPOCHS = 2, STEPS = 3 /* an epoch */, VAL_BATCHES = 2, PROGRAMS = 4, VALIDATIONS = EPOCHS + 1 };
enum { TRAIN_RUNS = 2 * STEPS * EPOCHS, ALL_RUNS = TRAIN_RUNS + VAL_BATCHES * VALIDATIONS };

static nt_experiment variant; /* Toy, or Toy without metrics, which brings the programs of val_loss */
static int accum = 1;
static bool saves = true, averages; /* averages: with a moving average and the norm of the gradients */

static Toy small_toy(void) {
    Toy e = Toy_defaults();
    e.rows = 16 * STEPS;
    e.val_rows = 16 + 4;
    return e;
}

static nt_run_options short_options(heard *h) {
    nt_run_options options = quiet_options(h);
    options.max_epochs = (nt_maybe_int){true, EPOCHS};
    options.accum = (nt_maybe_int){true, accum};
    options.ema_decay = (nt_maybe_double){averages, 0.5};
    options.gradient_norm = averages;
    return options;
}

static nt_status make_small(nt_run **run) {
    Toy e = small_toy();
    nt_run_options options = short_options(NULL);
    return nt_run_new(&variant, &e, &options, run);
}

static nt_status save_and_load(nt_run *run) {
    nt_status status = nt_run_save(run, scratch("toy.safetensors"));
    return status == NT_OK ? nt_run_load(run, scratch("toy.safetensors")) : status;
}

/* Makes a run, trains, evaluates, saves and loads unless told not to, and ends. The first failure; its message is the
 * thread's. */
static nt_status live(void) {
    nt_run *run;
    nt_status status = make_small(&run);
    if (status == NT_OK) status = nt_train(run);
    if (status == NT_OK) status = nt_validate(run, NULL);
    if (status == NT_OK && saves) status = save_and_load(run);
    nt_run_free(run);
    return status;
}

static nt_status (*lives)(void) = live;

static size_t memory_at_start; /* blocks; the list of experiments lives as long as the process */

static void assert_end(void) {
    assert_ok(nt_shutdown());
    assert_nothing_left(memory_at_start);
}

/* A life that ends early. */
#define assert_life_fails(wanted, ...)                                     \
    do {                                                                   \
        const char *const parts[] = {__VA_ARGS__};                         \
        nt_status ending = lives();                                        \
        for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) \
            assert_fails(ending, (wanted), parts[part]);                   \
    } while (0)

/* ---- ends that are none of a failure ---------------------------------------------------------------------------- */

static void normal_end(void **state) {
    (void)state;
    assert_ok(live());
    assert_int_equal(fake_count("compiles"), PROGRAMS);
    assert_int_equal(nt__engine_counts_now().compiles, PROGRAMS);
    assert_int_equal(nt_cache_stats().misses, PROGRAMS);
    assert_int_equal(fake_count("runs"), ALL_RUNS);
    /* A loss a step, loss and outputs of a batch, and the parameters once. */
    assert_int_equal(fake_count("downloads"), STEPS * EPOCHS + 2 * VAL_BATCHES * VALIDATIONS + 1);
    assert_same_counts(0, 0);
    assert_end();
    assert_same_counts(0, 0);
}

static void same_in_the_middle(const nt_event *event, void *context) {
    int *epochs = context;
    if (event->kind != NT_EVENT_EPOCH) return;
    assert_same_counts(0, 0);
    ++*epochs;
}

/* Between two epochs no worker is at work, so the counts can be compared. */
static void counts_in_the_middle(void **state) {
    (void)state;
    int epochs = 0;
    Toy e = small_toy();
    nt_run_options options = short_options(NULL);
    options.on_event = same_in_the_middle;
    options.event_context = &epochs;
    nt_run *run;
    assert_ok(nt_run_new(Toy_experiment(), &e, &options, &run));
    assert_ok(nt_train(run));
    assert_int_equal(epochs, EPOCHS);
    nt_run_free(run);
    assert_same_counts(0, 0);
    assert_end();
}

static void stop_request(void **state) {
    (void)state;
    static heard h;
    h.stop_at = 2;
    Toy e = small_toy();
    nt_run_options options = short_options(&h);
    nt_run *run;
    assert_ok(nt_run_new(Toy_experiment(), &e, &options, &run));
    assert_fails(nt_train(run), NT_INTERRUPTED, "stopped as asked at step 3 of epoch 1");
    nt_run_free(run);
    assert_same_counts(0, 0);
    nt_stop_clear();
    assert_end();
}

static void ends_well(void **state) {
    (void)state;
    assert_ok(live());
    assert_same_counts(0, 0);
    assert_end();
}

/* ---- one failure, one message ----------------------------------------------------------------------------------- */

static void compile_error(void **state) {
    (void)state;
    assert_life_fails(NT_ENGINE, "toy.h:", " in toy_", "compiling 'gradient of Toy'", "engine error 2 (unknown)",
                      "the fake plugin dislikes this operation");
    assert_int_equal(nt_cache_stats().misses, 0);
    assert_same_counts(0, 0);
    assert_end();
}

/* A run that logs, in a run_dir of the scratch folder. The failure of its training; its message is the thread's. */
static nt_status train_with_log(const char *run_dir) {
    Toy e = small_toy();
    nt_run_options options = short_options(NULL);
    options.no_log = false;
    options.run_dir = scratch(run_dir);
    nt_run *run;
    nt_status status = nt_run_new(&variant, &e, &options, &run);
    if (status == NT_OK) status = nt_train(run);
    nt_run_free(run);
    return status;
}

/* A megabyte of the engine's words: the message has their beginning, the file all of them. */
static void long_compile_error(void **state) {
    (void)state;
    static const char *const parts[] = {"toy.h:",
                                        " in toy_forward: compiling 'gradient of Toy': engine error 2 (unknown): -:",
                                        "the fake plugin dislikes this operation\n",
                                        "goes on and on about it [...]",
                                        "; its arguments are smoothing f32[], parameters.default f32[58], x f32[16,4]",
                                        ", x f32[16,4], label u8[16], accumulator.default f32[64]",
                                        ". All that the engine said and the program's text are in '"};
    nt_status status = train_with_log("long");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_fails(status, NT_ENGINE, parts[i]);
    assert_fails(status, NT_ENGINE, scratch("long/failed-gradient.txt'"));
    assert_true(strlen(nt_error_message()) < 2000);
    char *text;
    size_t length;
    assert_ok(nt__read_file(scratch("long/failed-gradient.txt"), &text, &length));
    assert_true(length > 1000000);
    assert_non_null(strstr(text, "and here it ends\n\n---- the program ----\nmodule @gradient"));
    assert_non_null(strstr(text, "stablehlo.tanh"));
    assert_memory_equal(text, strstr(nt_error_message(), ": ") + 2, 200);
    nt__free(text);
    assert_int_equal(scratch_entries(scratch("long")), 2); /* and the log: nothing half-written */
    assert_same_counts(0, 0);
    assert_end();
}

/* Where the file cannot be written the message is the same without its last sentence. */
static void compile_error_without_a_file(void **state) {
    (void)state;
    assert_int_equal(mkdir(scratch("blocked"), 0700), 0);
    assert_int_equal(mkdir(scratch("blocked/failed-gradient.txt"), 0700), 0);
    nt_status status = train_with_log("blocked");
    assert_fails(status, NT_ENGINE, "; its arguments are smoothing f32[], parameters.default f32[58]");
    assert_null(strstr(nt_error_message(), "failed-gradient"));
    assert_int_equal(scratch_entries(scratch("blocked")), 2);
    assert_end();
}

static void compile_oom(void **state) {
    (void)state;
    assert_life_fails(NT_OUT_OF_MEMORY, "compiling 'optimizer of Toy'", "engine error 8 (out of memory)", "4096 bytes");
    assert_int_equal(nt_cache_stats().misses, 1);
    assert_same_counts(0, 0);
    assert_end();
}

static void other_result_shape(void **state) {
    (void)state;
    assert_life_fails(NT_INVALID, "compiling 'gradient of Toy'", "result 0 'loss'", "in the signature",
                      "f32[7] in the program");
    assert_same_counts(0, 0);
    assert_end();
}

static void upload_oom_at_setup(void **state) {
    (void)state;
    nt_run *run;
    assert_fails(make_small(&run), NT_OUT_OF_MEMORY, "uploading 'parameters.");
    assert_null(run);
    assert_fails(NT_OUT_OF_MEMORY, NT_OUT_OF_MEMORY, "engine error 8 (out of memory)");
    assert_same_counts(0, 0);
    assert_end();
}

/* The worker's message reaches the caller. */
static void upload_oom_while_training(void **state) {
    (void)state;
    nt_run *run;
    char settings[64];
    assert_ok(make_small(&run));
    int64_t at_setup = fake_count("uploads");
    nt_run_free(run);
    assert_end();
    snprintf(settings, sizeof settings, "upload=oom@%d", (int)at_setup + 3);
    setenv("NITRO_FAKE", settings, 1);
    assert_life_fails(NT_OUT_OF_MEMORY, "split 'train', batch 2 of 3", "uploading 'batch.x'",
                      "engine error 8 (out of memory)");
    assert_same_counts(0, 0);
    assert_end();
}

static void run_oom(void **state) {
    (void)state;
    assert_life_fails(NT_OUT_OF_MEMORY, "running 'gradient of Toy'", "engine error 8 (out of memory)", "4096 bytes.",
                      "bytes in all are on the devices", "make the batch or the model smaller");
    assert_int_equal(fake_count("runs"), 2);
    assert_same_counts(0, 0);
    assert_end();
}

static void refused_argument(void **state) {
    (void)state;
    assert_life_fails(NT_ENGINE, "running 'optimizer of Toy'", "engine error 3 (invalid argument)",
                      "argument 1 to replica 0");
    assert_same_counts(0, 0);
    assert_end();
}

/* The parameters went with the failed run: whatever needs them says so. */
static void taken_parameters(void **state) {
    (void)state;
    nt_run *run;
    assert_ok(make_small(&run));
    assert_fails(nt_train(run), NT_ENGINE, "running 'optimizer of Toy'");
    assert_same_counts(0, 0);
    assert_null(nt_run_parameter(run, "hidden.weight"));
    assert_fails(NT_INVALID, NT_INVALID, "was donated to 'optimizer of Toy'");
    assert_fails(nt_validate(run, NULL), NT_INVALID, "was donated to 'optimizer of Toy'");
    assert_fails(nt_train(run), NT_INVALID, "was donated to 'optimizer of Toy'");
    nt_run_free(run);
    assert_same_counts(0, 0);
    assert_end();
}

static void readback_error(void **state) {
    (void)state;
    assert_life_fails(NT_ENGINE, "reading 'loss'", "engine error 13 (internal)", "as it was told to");
    assert_same_counts(0, 0);
    assert_end();
}

/* A run whose failure had no lasting cause can go on. */
static void goes_on_after_a_failure(void **state) {
    (void)state;
    nt_run *run;
    assert_ok(make_small(&run));
    assert_fails(nt_train(run), NT_OUT_OF_MEMORY, "running 'gradient of Toy'");
    assert_ok(nt_train(run));
    assert_ok(nt_validate(run, NULL));
    nt_run_free(run);
    assert_same_counts(0, 0);
    assert_end();
}

static const char *group_of(const void *e, const char *path) {
    (void)e;
    return strncmp(path, "hidden", 6) == 0 ? "hidden" : "logits";
}

/* Parameters of another seed, in a file; how many uploads the setup of a run takes. */
static int save_other_parameters(void) {
    Toy e = small_toy();
    nt_run_options options = short_options(NULL);
    options.seed = (nt_maybe_int){true, 99};
    nt_run *run;
    assert_ok(nt_run_new(&variant, &e, &options, &run));
    int uploads = (int)fake_count("uploads");
    assert_ok(nt_run_save(run, scratch("toy.safetensors")));
    nt_run_free(run);
    assert_end();
    return uploads;
}

/* A file is taken whole or not at all: the second of two groups has no room. */
static void a_load_that_fails_changes_nothing(void **state) {
    (void)state;
    static const char *const paths[] = {"hidden.weight", "logits.weight"};
    variant.hooks.param_group = group_of;
    char settings[64];
    snprintf(settings, sizeof settings, "upload=oom@%d", save_other_parameters() + 2);
    setenv("NITRO_FAKE", settings, 1);
    nt_run *run;
    assert_ok(make_small(&run));
    nt_array *before[2];
    for (int i = 0; i < 2; i++) before[i] = nt_run_parameter(run, paths[i]);
    for (int load = 0; load < 2; load++) {
        nt_status status = nt_run_load(run, scratch("toy.safetensors"));
        assert_int_equal(status, load == 0 ? NT_OUT_OF_MEMORY : NT_OK);
        for (int i = 0; i < 2; i++) {
            nt_array *now = nt_run_parameter(run, paths[i]);
            assert_int_equal(memcmp(before[i]->data, now->data, now->bytes) == 0, load == 0);
            nt_array_free(now);
        }
    }
    for (int i = 0; i < 2; i++) nt_array_free(before[i]);
    nt_run_free(run);
    assert_same_counts(0, 0);
    assert_end();
}

static void validates_after_a_failure(void **state) {
    (void)state;
    nt_run *run;
    assert_ok(make_small(&run));
    assert_fails(nt_validate(run, NULL), NT_ENGINE, "reading 'val_loss'");
    assert_ok(nt_validate(run, NULL));
    nt_run_free(run);
    assert_same_counts(0, 0);
    assert_end();
}

/* ---- other plugins ---------------------------------------------------------------------------------------------- */

static void other_major_version(void **state) {
    (void)state;
    assert_life_fails(NT_ENGINE, getenv("NITRO_PLUGIN"), "has PJRT API 1.0", "make setup");
    assert_end();
}

static void small_table(void **state) {
    (void)state;
    assert_life_fails(NT_ENGINE, getenv("NITRO_PLUGIN"), "has no PJRT_Executable_OutputElementTypes",
                      "use a newer plugin");
    assert_int_equal(fake_count("clients_made"), 0);
    assert_end();
}

/* ---- predictions ------------------------------------------------------------------------------------------------ */

static nt_array *samples; /* two batches and a short one */

/* A life that only predicts: with parameters from a file, two times. */
static nt_status predict_twice(void) {
    Toy e = small_toy();
    nt_run_options options = quiet_options(NULL);
    options.no_data = true;
    nt_run *run;
    nt_array *out = NULL, *again = NULL;
    nt_status status = nt_run_new(&variant, &e, &options, &run);
    if (status == NT_OK) status = nt_run_load(run, scratch("toy.safetensors"));
    if (status == NT_OK) status = nt_predict(run, &(nt_named_array){NULL, samples}, 1, &out);
    if (status == NT_OK) status = nt_predict(run, &(nt_named_array){"x", samples}, 1, &again);
    nt_array_free(out);
    nt_array_free(again);
    nt_run_free(run);
    return status;
}

/* Parameters for the file, and what is alive from here on belongs to the test. */
static void begin_predictions(void) {
    nt_run *run;
    assert_ok(make_small(&run));
    assert_ok(nt_run_save(run, scratch("toy.safetensors")));
    nt_run_free(run);
    assert_end();
    samples = toy_points(2 * 16 + 3, false);
    assert_non_null(samples);
    memory_at_start = nt__memory().live;
    lives = predict_twice;
}

static void prediction(void **state) {
    (void)state;
    begin_predictions();
    int64_t compiles = fake_count("compiles"), runs = fake_count("runs");
    assert_ok(predict_twice());
    assert_int_equal(fake_count("compiles") - compiles, 1);
    assert_int_equal(fake_count("runs") - runs, 2 * 3);
    assert_same_counts(0, 0);
    assert_end();
}

/* One handle: after a prediction that failed, the next one is right. */
static void predicts_after_a_failure(void **state) {
    (void)state;
    begin_predictions();
    Toy e = small_toy();
    nt_run_options options = quiet_options(NULL);
    options.no_data = true;
    nt_run *run;
    nt_array *out;
    nt_named_array x = {NULL, samples};
    setenv("NITRO_FAKE", "upload=oom@3", 1);
    assert_ok(nt_run_new(&variant, &e, &options, &run));
    assert_fails(nt_predict(run, &x, 1, &out), NT_OUT_OF_MEMORY, "prediction of Toy: ");
    assert_null(out);
    assert_ok(nt_predict(run, &x, 1, &out));
    nt_array_free(out);
    nt_run_free(run);
    assert_same_counts(0, 0);
    assert_end();
}

/* ---- every call fails in turn ----------------------------------------------------------------------------------- */

/* What a life without a failure counts. */
static int calls_of(const char *count) {
    setenv("NITRO_FAKE", "", 1);
    int64_t before = 0;
    json_t *counts = fake_counts_now();
    if (counts) before = fake_number(counts, count);
    json_decref(counts);
    assert_ok(lives());
    int calls = (int)(fake_count(count) - before);
    assert_end();
    return calls;
}

/* The bytes that were lent for a batch nobody used fail unnoticed; so a life may succeed where `may_succeed`. */
static void fail_call(const char *point, const char *how, nt_status wanted, int call, bool may_succeed) {
    char settings[64];
    snprintf(settings, sizeof settings, "%s=%s@%d", point, how, call);
    setenv("NITRO_FAKE", settings, 1);
    nt_status status = lives();
    if (!(may_succeed && status == NT_OK)) {
        if (status != wanted || !strstr(nt_error_message(), ": engine error "))
            fail_msg("%s: %s: %s", settings, nt_status_name(status), status ? nt_error_message() : "");
    }
    assert_end();
}

static void every_call_fails(const char *point, const char *count) {
    int calls = calls_of(count);
    assert_true(calls > 0);
    for (int call = 1; call <= calls; call++) {
        fail_call(point, "error", NT_ENGINE, call, false);
        fail_call(point, "oom", NT_OUT_OF_MEMORY, call, false);
    }
    assert_same_counts(0, 0);
}

static void every_compile_fails(void **state) {
    (void)state;
    every_call_fails("compile", "compiles");
}

static void every_upload_fails(void **state) {
    (void)state;
    every_call_fails("upload", "uploads");
}

static void every_run_fails(void **state) {
    (void)state;
    every_call_fails("run", "runs");
    int calls = calls_of("runs");
    for (int call = 1; call <= calls; call++) {
        fail_call("run", "taken", NT_ENGINE, call, false);
        fail_call("run", "refused", NT_ENGINE, call, false);
    }
    assert_same_counts(0, 0);
}

static void every_readback_fails(void **state) {
    (void)state;
    every_call_fails("readback", "downloads");
}

static void everything_of_val_loss_fails(void **state) {
    variant.hooks.metrics = NULL;
    accum = STEPS;
    saves = false;
    every_compile_fails(state);
    every_run_fails(state);
    every_readback_fails(state);
}

static void everything_of_an_average_fails(void **state) {
    averages = true;
    every_compile_fails(state);
    every_upload_fails(state);
    every_run_fails(state);
    every_readback_fails(state);
}

/* Which event is which depends on how far ahead the worker is. */
static void every_event_fails(void **state) {
    (void)state;
    int calls = calls_of("events_made");
    for (int call = 1; call <= calls; call++) fail_call("event", "error", NT_ENGINE, call, true);
}

static void everything_of_a_prediction_fails(void **state) {
    begin_predictions();
    every_compile_fails(state);
    every_upload_fails(state);
    every_run_fails(state);
    every_readback_fails(state);
    every_event_fails(state);
}

/* ---- the same with data from sources and three workers ---------------------------------------------------------- */

static void use_sources(void) {
    toy_reading_reset(3);
    variant.hooks.build_data = toy_source_data;
}

static void sources_end_well(void **state) {
    use_sources();
    ends_well(state);
    assert_int_equal(reading.made, 2);
    assert_int_equal(reading.closed, 2);
}

static void sources_fail(void **state) {
    (void)state;
    use_sources();
    for (reading.fails = 1; reading.fails <= STEPS; reading.fails++) {
        assert_life_fails(NT_IO, "split 'train', batch ", "source 'toy rows': the disk is gone");
        assert_end();
    }
    reading.fails = 0;
    for (reading.exits = 1; reading.exits <= STEPS; reading.exits++) {
        assert_life_fails(NT_INVALID, "split 'train', batch ", "pthread_exit");
        assert_end();
    }
    assert_same_counts(0, 0);
}

static void sources_are_stopped(void **state) {
    (void)state;
    static heard h;
    use_sources();
    h.stop_at = 2;
    Toy e = small_toy();
    nt_run_options options = short_options(&h);
    nt_run *run;
    assert_ok(nt_run_new(&variant, &e, &options, &run));
    assert_fails(nt_train(run), NT_INTERRUPTED, "stopped as asked at step 3 of epoch 1");
    assert_int_equal(nt__engine_counts_now().buffers[NT__BATCH].live_count, 0);
    assert_int_equal(nt__engine_counts_now().buffers[NT__STAGED].live_count, 0);
    nt_run_free(run);
    assert_same_counts(0, 0);
    nt_stop_clear();
    assert_end();
}

static void *stop_and_release(void *unused) {
    usleep(50000);
    nt_stop_request();
    usleep(500000);
    toy_release(true);
    return unused;
}

/* The first batch does not come: the epoch has no loss, and is not told. */
static void sources_are_stopped_at_once(void **state) {
    (void)state;
    static heard h;
    pthread_t other;
    use_sources();
    reading.sticks = 1;
    Toy e = small_toy();
    nt_run_options options = short_options(&h);
    nt_run *run;
    assert_ok(nt_run_new(&variant, &e, &options, &run));
    assert_int_equal(pthread_create(&other, NULL, stop_and_release, NULL), 0);
    assert_fails(nt_train(run), NT_INTERRUPTED, "stopped as asked at step 0 of epoch 1");
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(h.count, 0);
    assert_int_equal(h.epochs, 0);
    nt_run_free(run);
    nt_stop_clear();
    assert_same_counts(0, 0);
    assert_end();
}

static void sources_and_every_upload_fails(void **state) {
    use_sources();
    every_upload_fails(state);
}

static void sources_and_every_readback_fails(void **state) {
    use_sources();
    every_readback_fails(state);
}

/* ---- the same with a model that draws and carries a state ------------------------------------------------------- */

static nt_tensor carrying_forward(const void *view, nt_model *m, nt_batch *batch) {
    nt_tensor seen = nt_state(m, "seen", nt_dims(1));
    nt_state_set(m, "seen", nt_add(seen, 1));
    return nt_add(nt_dropout(m, "drop", toy_forward(view, m, batch), 0.5), seen);
}

static void carrying_ends_well(void **state) {
    variant.hooks.forward = carrying_forward;
    ends_well(state);
}

static void everything_of_a_model_that_carries_fails(void **state) {
    variant.hooks.forward = carrying_forward;
    every_upload_fails(state);
    every_run_fails(state);
    every_readback_fails(state);
}

int main(int argc, char **argv) {
    static const fake_case cases[] = {
        {"normal end", "", normal_end},
        {"counts in the middle", "", counts_in_the_middle},
        {"stop request", "", stop_request},
        {"slow events", "event=slow", ends_well},
        {"older version", "api=0.40", ends_well},
        {"refused option", "refuse-option", ends_well},
        {"no IsDeleted", "missing=PJRT_Buffer_IsDeleted", ends_well},
        {"no memory statistics", "missing=PJRT_Executable_GetCompiledMemoryStats", ends_well},
        {"compile error", "compile=error", compile_error},
        {"long compile error", "compile=long", long_compile_error},
        {"compile error without a file", "compile=long", compile_error_without_a_file},
        {"second compile oom", "compile=oom@2", compile_oom},
        {"other result shape", "result-shape", other_result_shape},
        {"upload oom at setup", "upload=oom@2", upload_oom_at_setup},
        {"upload oom while training", "", upload_oom_while_training},
        {"third run oom", "run=oom@3", run_oom},
        {"refused argument", "run=refused@4", refused_argument},
        {"taken parameters", "run=taken@4", taken_parameters},
        {"second readback error", "readback=error@2", readback_error},
        {"goes on after a failure", "run=oom@3", goes_on_after_a_failure},
        {"a load that fails changes nothing", "", a_load_that_fails_changes_nothing},
        {"validates after a failure", "readback=error@1", validates_after_a_failure},
        {"other major version", "api=1.0", other_major_version},
        {"small table", "small-table", small_table},
        {"every compile fails", "", every_compile_fails},
        {"every upload fails", "", every_upload_fails},
        {"every run fails", "", every_run_fails},
        {"every readback fails", "", every_readback_fails},
        {"everything of val_loss fails", "", everything_of_val_loss_fails},
        {"everything of an average fails", "", everything_of_an_average_fails},
        {"every event fails", "", every_event_fails},
        {"prediction", "", prediction},
        {"predicts after a failure", "", predicts_after_a_failure},
        {"everything of a prediction fails", "", everything_of_a_prediction_fails},
        {"sources", "", sources_end_well},
        {"sources and slow events", "event=slow", sources_end_well},
        {"sources fail", "", sources_fail},
        {"sources are stopped", "", sources_are_stopped},
        {"sources are stopped at once", "", sources_are_stopped_at_once},
        {"sources and every upload fails", "", sources_and_every_upload_fails},
        {"sources and every readback fails", "", sources_and_every_readback_fails},
        {"carrying", "", carrying_ends_well},
        {"everything of a model that carries fails", "", everything_of_a_model_that_carries_fails},
    };
    variant = *Toy_experiment();
    memory_at_start = nt__memory().live;
    return fake_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
