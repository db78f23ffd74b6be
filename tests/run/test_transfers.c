/* Device transfers happen at known times: what each step uploads and downloads, counted by purpose and told in lines.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/run_internal.h"
#include "toy.h"

enum { STEPS = 8, MOST_ACCUM = 8 };

static nt_experiment variant; /* Toy; tests may take its metrics away */

static nt_schedule half(void) {
    return nt_schedule_linear(0.5, 0);
}

/* A step of `accum` micro-batches of 16, 8 steps an epoch, no validation unless a test wants it. */
static Toy toy_of(int accum) {
    Toy e = Toy_defaults();
    e.rows = 16 * STEPS * accum;
    e.val_rows = 0;
    return e;
}

static nt_run_options options_of(int accum, const nt_named_schedule *schedules) {
    nt_run_options options = quiet_options(NULL);
    options.accum = (nt_maybe_int){true, accum};
    options.schedules = schedules;
    return options;
}

static nt_run *make(const Toy *e, nt_run_options options) {
    nt_run *run;
    assert_ok(nt_run_new(&variant, e, &options, &run));
    return run;
}

/* ---- counters --------------------------------------------------------------------------------------------------- */

static nt__engine_counts before;

static void start(void) {
    before = nt__engine_counts_now();
}

static void assert_moved(const char *what, const nt__transfer *now, const nt__transfer *then, uint64_t count,
                         uint64_t bytes) {
    if (now->count - then->count != count || now->bytes - then->bytes != bytes)
        fail_msg("%s: %llu transfers of %llu bytes, wanted %llu of %llu", what,
                 (unsigned long long)(now->count - then->count), (unsigned long long)(now->bytes - then->bytes),
                 (unsigned long long)count, (unsigned long long)bytes);
}

/* What was uploaded since `start`, by purpose: a purpose that is not listed moved nothing. */
typedef struct moved {
    uint64_t count, bytes;
} moved;

static void assert_uploads(const moved *uploads) {
    nt__engine_counts now = nt__engine_counts_now();
    for (int p = 0; p < NT__PURPOSE_COUNT; p++)
        assert_moved(nt__purpose_name((nt__purpose)p), &now.uploads[p], &before.uploads[p], uploads[p].count,
                     uploads[p].bytes);
}

static void assert_downloads(const moved *downloads) {
    nt__engine_counts now = nt__engine_counts_now();
    for (int p = 0; p < NT__PURPOSE_COUNT; p++)
        assert_moved(nt__purpose_name((nt__purpose)p), &now.downloads[p], &before.downloads[p], downloads[p].count,
                     downloads[p].bytes);
}

/* 4 points of 4 bytes and a label of one, 16 rows. Gradients are filled up to a multiple of 32. */
enum { BATCH_BYTES = 16 * (4 * 4 + 1), PARAMETERS = 4 * 8 + 8 + 8 * 2 + 2, GRADIENTS = 64 };

/* Everything that the setup uploads, and that it uploads once. RAdam: two moments, three scalars. */
static void the_setup_uploads_each_thing_once(void **state) {
    (void)state;
    Toy e = toy_of(1);
    start();
    nt_run *run = make(&e, options_of(1, NULL));
    assert_uploads((const moved[NT__PURPOSE_COUNT]){[NT__PARAMETERS] = {1, 4 * PARAMETERS},
                                                    [NT__ACCUMULATOR] = {1, 4 * GRADIENTS},
                                                    [NT__OPTIMIZER_STATE] = {5, 4 * (2 * PARAMETERS + 3)},
                                                    [NT__DEVICE_FIELD] = {1, 4},
                                                    [NT__RATE] = {1, 4},
                                                    [NT__FLAG] = {2, 2}});
    assert_downloads((const moved[NT__PURPOSE_COUNT]){{0, 0}});
    nt_run_free(run);
}

/* With accum 8 as with accum 1, batches and their losses aside. */
static void assert_epoch(int accum, const nt_named_schedule *schedules, uint64_t fields, uint64_t rates) {
    Toy e = toy_of(accum);
    uint64_t batches = STEPS * (uint64_t)accum;
    nt_run *run = make(&e, options_of(accum, schedules));
    start();
    assert_ok(nt_train(run));
    assert_int_equal(nt_run_step(run), STEPS);
    assert_uploads((const moved[NT__PURPOSE_COUNT]){[NT__STAGED] = {2 * batches, BATCH_BYTES * batches},
                                                    [NT__DEVICE_FIELD] = {fields, 4 * fields},
                                                    [NT__RATE] = {rates, 4 * rates}});
    assert_downloads((const moved[NT__PURPOSE_COUNT]){[NT__OUTPUT] = {batches, 4 * batches}});
    nt_run_free(run);
}

static void an_epoch_uploads_what_moved(void **state) {
    (void)state;
    static const int accums[] = {1, MOST_ACCUM};
    const nt_named_schedule both[] = {{"smoothing", half()}, {"learning_rate", nt_schedule_cosine(1e-2, 0)}, {0}};
    const nt_named_schedule constants[] = {
        {"smoothing", nt_schedule_constant(0.25)}, {"learning_rate", nt_schedule_constant(1e-2)}, {0}};
    const nt_named_schedule same[] = {
        {"smoothing", nt_schedule_constant(0)}, {"learning_rate", nt_schedule_constant(1e-3)}, {0}};
    /* The first value is the one that is there already; 3 steps move, the others keep theirs. */
    const nt_named_schedule short_way[] = {{"learning_rate", nt_schedule_linear(1e-3, 4e-3, .steps = 3)}, {0}};
    for (int i = 0; i < 2; i++) {
        assert_epoch(accums[i], NULL, 0, 0);
        assert_epoch(accums[i], both, STEPS, STEPS);
        assert_epoch(accums[i], constants, 1, 1); /* The same slot; it moves at the first step */
        assert_epoch(accums[i], same, 0, 0);
        assert_epoch(accums[i], short_way, 0, 3);
    }
}

/* Bits decide. -0 is not 0, and a value that comes back is uploaded again. */
static double comes_back(int64_t step, int64_t total, void *context) {
    static const double values[] = {0, -0.0, -0.0, 0, 0.5, 0.5, 0, 0};
    (void)total;
    (void)context;
    return values[(step - 1) % STEPS];
}

static void bits_decide_what_moved(void **state) {
    (void)state;
    const nt_named_schedule list[] = {{"smoothing", nt_schedule_of(comes_back, NULL)}, {0}};
    assert_epoch(1, list, 4, 0);
}

/* Two groups have slots of their own. */
static const char *own_group(const void *e, const char *path) {
    (void)e;
    return strncmp(path, "hidden.", 7) == 0 ? "hidden" : NULL;
}

static void each_group_has_its_rate(void **state) {
    (void)state;
    const nt_named_schedule list[] = {{"opt.hidden.learning_rate", nt_schedule_cosine(1e-2, 0)}, {0}};
    variant.hooks.param_group = own_group;
    assert_epoch(1, list, 0, STEPS);
    const nt_named_schedule all[] = {{"learning_rate", nt_schedule_cosine(1e-2, 0)}, {0}};
    assert_epoch(MOST_ACCUM, all, 0, 2 * STEPS);
    variant.hooks.param_group = NULL;
}

/* An evaluation uploads its batches and nothing else, and leaves the slots as they are. */
static void an_evaluation_uploads_its_batches(void **state) {
    (void)state;
    const nt_named_schedule list[] = {{"smoothing", half()}, {0}};
    Toy e = toy_of(1);
    e.val_rows = 40;
    nt_run *run = make(&e, options_of(1, list));
    assert_ok(nt_train(run));
    start();
    assert_ok(nt_validate(run, NULL));
    /* Batches of 16, 16 and 8 rows; forward and loss read x and label. */
    assert_uploads((const moved[NT__PURPOSE_COUNT]){[NT__STAGED] = {2 * 3, 3 * BATCH_BYTES}});
    assert_downloads((const moved[NT__PURPOSE_COUNT]){[NT__OUTPUT] = {2 * 3, 40 * 2 * 4 + 3 * 4}});
    assert_true(((const Toy *)run->task.fields)->smoothing == 0.0625f); /* of step 8 */
    nt_run_free(run);
}

/* Slots are few and of one size, whatever moves: live buffers do not grow with the steps. */
static void slots_do_not_pile_up(void **state) {
    (void)state;
    const nt_named_schedule both[] = {{"smoothing", half()}, {"learning_rate", nt_schedule_cosine(1e-2, 0)}, {0}};
    Toy e = toy_of(1);
    nt_run_options options = options_of(1, both);
    options.max_epochs = (nt_maybe_int){true, 20};
    nt_run *run = make(&e, options);
    assert_ok(nt_train(run));
    nt__engine_counts now = nt__engine_counts_now();
    assert_int_equal(now.buffers[NT__DEVICE_FIELD].live_count, 2);
    assert_int_equal(now.buffers[NT__RATE].live_count, 2);
    assert_int_equal(now.buffers[NT__FLAG].live_count, 2);
    nt_run_free(run);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

enum { MOST_LINES = 32 };
static char lines[MOST_LINES][512];
static int line_count;
static void keep_line(const char *line, void *context) {
    (void)context;
    if (strncmp(line, "transfers of ", 13) == 0 && line_count < MOST_LINES)
        snprintf(lines[line_count++], sizeof lines[0], "%s", line);
}

static void assert_line(int index, const char *wanted) {
    if (index >= line_count) fail_msg("%d lines, wanted '%s'", line_count, wanted);
    assert_string_equal(lines[index], wanted);
}

static void trace(const Toy *e, int accum, const nt_named_schedule *schedules) {
    nt_notice_function old = nt_set_notice(keep_line, NULL);
    nt_run_options options = options_of(accum, schedules);
    options.trace_transfers = true;
    line_count = 0;
    nt_run *run = make(e, options);
    assert_ok(nt_train(run));
    nt_run_free(run);
    nt_set_notice(old, NULL);
}

static void each_step_is_a_line(void **state) {
    (void)state;
    const nt_named_schedule list[] = {
        {"smoothing", half()}, {"learning_rate", nt_schedule_linear(1e-3, 2e-3, .steps = 1, .begin = 2)}, {0}};
    Toy e = toy_of(2);
    e.val_rows = 40;
    trace(&e, 2, list);
    assert_int_equal(line_count, 1 + STEPS + 1);
    assert_line(0,
                "transfers of the setup: up: device field smoothing 4 B, parameters parameters.default 232 B, rate "
                "learning_rate.default 4 B, accumulator accumulator.default 256 B, optimizer state RAdam.m.default 232 "
                "B, optimizer state RAdam.v.default 232 B, optimizer state RAdam.power1.default 4 B, optimizer state "
                "RAdam.power2.default 4 B, optimizer state RAdam.t.default 4 B, flag first.false 1 B, flag first.true "
                "1 B; down: nothing");
    assert_line(1,
                "transfers of step 1: up: batch batch.x 2 x 256 B, batch batch.label 2 x 16 B, device field smoothing "
                "4 B; down: output loss 2 x 4 B");
    assert_line(3,
                "transfers of step 3: up: batch batch.x 2 x 256 B, batch batch.label 2 x 16 B, device field smoothing "
                "4 B; down: output loss 2 x 4 B");
    assert_line(4,
                "transfers of step 4: up: batch batch.x 2 x 256 B, batch batch.label 2 x 16 B, device field smoothing "
                "4 B, rate learning_rate.default 4 B; down: output loss 2 x 4 B");
    assert_line(8,
                "transfers of step 8: up: batch batch.x 2 x 256 B, batch batch.label 2 x 16 B, device field smoothing "
                "4 B; down: output loss 2 x 4 B");
    assert_line(9, "transfers of an evaluation of split 'val': up: batch batch.x 3 x 256 B, batch batch.label 3 x 16 "
                   "B; down: output val_loss 3 x 4 B, output outputs 2 x 128 B, output outputs 64 B");
}

static void nothing_is_told_unless_asked_for(void **state) {
    (void)state;
    nt_notice_function old = nt_set_notice(keep_line, NULL);
    Toy e = toy_of(1);
    line_count = 0;
    nt_run *run = make(&e, options_of(1, NULL));
    assert_ok(nt_train(run));
    nt_run_free(run);
    assert_int_equal(line_count, 0);
    nt_set_notice(old, NULL);
}

static int use_toy(void **state) {
    (void)state;
    variant = *Toy_experiment();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_setup_uploads_each_thing_once),
        cmocka_unit_test(an_epoch_uploads_what_moved),
        cmocka_unit_test(bits_decide_what_moved),
        cmocka_unit_test(each_group_has_its_rate),
        cmocka_unit_test(an_evaluation_uploads_its_batches),
        cmocka_unit_test(slots_do_not_pile_up),
        cmocka_unit_test(each_step_is_a_line),
        cmocka_unit_test(nothing_is_told_unless_asked_for),
    };
    return cmocka_run_group_tests_name("transfers", tests, use_toy, shut_down);
}
