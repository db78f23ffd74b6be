/* What a resumed run must have in common with its record, what may be another, and what is told;
 * no record is made of parameters that are not finite.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "course.h"
#include "base/files.h"
#include "history/history.h"
#include "nitro/checkpoint.h"

/* A run that goes on from the newest record, or is refused. */
static nt_status go_on(const course *c, nt_run **run) {
    nt_run_options options = c->options;
    options.run_dir = course_folder();
    if (!options.resume) options.resume = "auto";
    return nt_run_new(&c->experiment, c->fields, &options, run);
}

static void refuse(const course *c, const char *const *parts, size_t count) {
    nt_run *run;
    assert_int_equal(go_on(c, &run), NT_INVALID);
    assert_null(run);
    for (size_t i = 0; i < count; i++)
        if (!strstr(nt_error_message(), parts[i])) fail_msg("no '%s' in: %s", parts[i], nt_error_message());
}
#define REFUSE(c, ...) \
    refuse(c, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* ---- what must be the same -------------------------------------------------------------------------------------- */

static void other_graph_constants_are_refused_with_the_difference(void **state) {
    (void)state;
    course c = make_course();
    train_stretch(&c, (stretch){0});
    fields.hidden = 7;
    fields.normed = true;
    REFUSE(&c, "resuming from ", "2 GraphConst fields of experiment 'Course' differ", "\n  hidden: 6 -> 7",
           "\n  normed: false -> true", "start over without resume");
}

static const char *moved_group(const void *e, const char *path) {
    (void)e;
    return strcmp(path, "hidden.bias") == 0 ? "apart" : NULL;
}

static void another_layout_is_refused_with_what_moved(void **state) {
    (void)state;
    course c = make_course();
    train_stretch(&c, (stretch){0});
    c.experiment.hooks.param_group = moved_group;
    REFUSE(&c, "lie elsewhere than in the checkpoint (4 then, 4 now)", "wrong ones",
           "\n  hidden.bias: f32[6], group default from element 24, 6 elements -> f32[6], group apart from element 0");
}

static void another_rule_is_refused(void **state) {
    (void)state;
    course c = make_course();
    train_stretch(&c, (stretch){0});
    chosen = nt_momentum();
    REFUSE(&c, "the optimizer of group 'default' was Adam", "and is Momentum", "whose states are others");
    chosen = nt_adam(.beta1 = 0.5);
    nt_run *run;
    assert_ok(go_on(&c, &run)); /* its numbers may change */
    nt_run_free(run);
}

static double decay(const void *e, const char *group) {
    (void)e;
    (void)group;
    return 0.01;
}

static nt_array *anchor_values;
static nt_anchor anchor_array(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_anchor_array(anchor_values);
}
static nt_anchor anchor_initial(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_anchor_initial();
}

static void another_anchor_is_refused(void **state) {
    (void)state;
    course c = make_course();
    c.experiment.hooks.weight_decay = decay;
    c.experiment.hooks.decay_anchor = anchor_initial;
    train_stretch(&c, (stretch){0});
    nt_run *run;
    assert_ok(go_on(&c, &run)); /* the initial values are those of the seed, so the anchor is the same */
    nt_run_free(run);
    c.experiment.hooks.decay_anchor = NULL;
    REFUSE(&c, "the checkpoint has anchors for its decay", "now has none", "decay_anchor hook has changed");
    anchor_values = nt_array_new(NT_F32, nt_dims(4 * 6 + 6 + 6 * 2 + 2));
    c.experiment.hooks.decay_anchor = anchor_array;
    REFUSE(&c, "the decay anchor of group 'default' has the checksum ", " in the checkpoint and ", "not reproducible",
           "it is not offered");
    nt_array_free(anchor_values);
}

static void without_anchors_there_is_no_checksum(void **state) {
    (void)state;
    course c = make_course();
    trained t;
    train_stretch(&c, (stretch){0});
    trained_read(&t);
    assert_true(json_is_null(json_object_get(t.record.facts, "anchor_hashes")));
    trained_free(&t);
}

static void within_an_epoch_the_data_and_the_step_are_the_same(void **state) {
    (void)state;
    course c = make_course();
    c.options.accum = (nt_maybe_int){true, 2};
    train_stretch(&c, (stretch){.stop_at = 1});
    c.options.accum = (nt_maybe_int){true, 4};
    REFUSE(&c, "micro-batch 3 of an epoch in steps of 2 (accum)", "--accum=2");
    c.options.accum = (nt_maybe_int){true, 2};
    fields.batches = 6;
    REFUSE(&c, "batch 3 of 4 of an epoch, and split 'train' has 6 batches now");
}

/* Between epochs both may be others. */
static void between_epochs_the_data_may_be_others(void **state) {
    (void)state;
    course c = make_course();
    train_stretch(&c, (stretch){0});
    fields.batches = 6;
    c.options.accum = (nt_maybe_int){true, 3};
    c.options.max_epochs = (nt_maybe_int){true, 3};
    train_stretch(&c, (stretch){.resume = true});
    trained t;
    int64_t step;
    trained_read(&t);
    assert_ok(nt__record_integer(&t.record, "step", &step));
    assert_int_equal(step, 8 + 2);
    trained_free(&t);
}

static void only_training_is_resumed(void **state) {
    (void)state;
    course c = make_course();
    train_stretch(&c, (stretch){0});
    c.options.evaluate_only = true;
    REFUSE(&c, "resume is for training, and run 'Course' only evaluates or predicts: give the checkpoint as weights");
}

/* ---- what may be another ---------------------------------------------------------------------------------------- */

/* An epoch more, or two, and it is the run of so many epochs. */
static void more_epochs_go_on_exactly(void **state) {
    (void)state;
    course c = make_course();
    trained whole, longer;
    c.options.max_epochs = (nt_maybe_int){true, 4};
    train_stretch(&c, (stretch){0});
    trained_read(&whole);
    scratch_remove_path(course_folder());
    c.options.max_epochs = (nt_maybe_int){true, 2};
    train_stretch(&c, (stretch){0});
    c.options.max_epochs = (nt_maybe_int){true, 4};
    nt_run *run;
    assert_ok(go_on(&c, &run));
    assert_int_equal(nt_run_epoch(run), 2);
    assert_int_equal(nt_run_step(run), 8);
    assert_ok(nt_train(run));
    assert_int_equal(nt_run_epoch(run), 4);
    assert_int_equal(nt_run_step(run), 16);
    nt_run_free(run);
    trained_read(&longer);
    assert_same(&whole, &longer, "more epochs");
    trained_free(&longer);
    trained_free(&whole);
    c.options.resume = NULL;
    c.options.run_dir = scratch("fresh");
    assert_ok(nt_run_new(&c.experiment, &fields, &c.options, &run));
    assert_int_equal(nt_run_epoch(run), 0);
    assert_int_equal(nt_run_step(run), 0);
    nt_run_free(run);
}

static int64_t seed_of_hook(const void *e) {
    (void)e;
    return 99;
}

static void the_seed_is_that_of_the_record(void **state) {
    (void)state;
    course c = make_course();
    nt_run *run;
    c.options.seed = (nt_maybe_int){true, 11};
    train_stretch(&c, (stretch){0});
    assert_ok(go_on(&c, &run)); /* the same seed is no contradiction */
    nt_run_free(run);
    c.options.seed.value = 99;
    assert_ok(go_on(&c, &run));
    assert_int_equal(run->task.settings.seed, 11);
    assert_told("the seed is that of the checkpoint, 11, not 99 as it was asked for");
    nt_run_free(run);
    c.options.seed.given = false;
    c.experiment.hooks.seed = seed_of_hook;
    assert_ok(go_on(&c, &run));
    assert_int_equal(run->task.settings.seed, 11);
    assert_told("the seed is that of the checkpoint, 11, not 99 as it was asked for");
    nt_run_free(run);
}

/* ---- what is told ----------------------------------------------------------------------------------------------- */

static void what_is_resumed_is_told(void **state) {
    (void)state;
    course c = make_course();
    nt_run *run;
    assert_ok(go_on(&c, &run));
    assert_told("there is nothing to resume in '");
    assert_told("so the run begins anew");
    assert_int_equal(nt_run_epoch(run), 0);
    nt_run_free(run);
    train_stretch(&c, (stretch){.stop_at = 5});
    assert_ok(go_on(&c, &run));
    assert_told("goes on with run ");
    assert_told("after epoch 1 and 2 batches, step 6: ");
    assert_int_equal(nt_run_epoch(run), 2);
    assert_int_equal(nt_run_step(run), 6);
    assert_null(strstr(notices.data, "returns at once"));
    nt_run_free(run);
}

static int64_t two_steps(const void *e) {
    (void)e;
    return 2;
}

/* A max_steps that the checkpoint has reached leaves nothing to train; one that it is past cannot be meant. */
static void a_run_past_its_max_steps_is_told(void **state) {
    (void)state;
    course c = make_course();
    nt_run *run;
    train_stretch(&c, (stretch){.stop_at = 5});
    c.options.max_steps = (nt_maybe_int){true, 2};
    REFUSE(&c, "the option max_steps is given as 2, and the checkpoint is at step 6 already: give more");
    c.options.max_steps = (nt_maybe_int){true, 6};
    assert_ok(go_on(&c, &run));
    assert_told("the checkpoint is at step 6, and max_steps is 6, so training returns at once");
    nt_run_free(run);
    c.options.max_steps.given = false;
    c.experiment.hooks.max_steps = two_steps;
    assert_ok(go_on(&c, &run));
    assert_told("the checkpoint is at step 6, and max_steps is 2, so training returns at once: give a larger "
                "max_steps to go on");
    assert_ok(nt_train(run));
    assert_int_equal(nt_run_step(run), 6);
    nt_run_free(run);
}

/* Nothing is trained, and nothing is written over the record. */
static void a_run_that_is_over_is_told(void **state) {
    (void)state;
    course c = make_course();
    trained before, after;
    nt_run *run;
    train_stretch(&c, (stretch){0});
    trained_read(&before);
    assert_ok(go_on(&c, &run));
    c.options.max_epochs.value = 1;
    REFUSE(&c, "the option max_epochs is given as 1, and the checkpoint is at epoch 2 already");
    assert_told("the checkpoint is of a run that ended (completed) after epoch 2 of 2, so training returns at once");
    assert_ok(nt_train(run));
    assert_int_equal(nt_run_step(run), 8);
    nt_run_free(run);
    trained_read(&after);
    assert_true(json_equal(before.record.facts, after.record.facts));
    trained_free(&after);
    trained_free(&before);
}

/* A log that somebody changed is kept beside, and the run logs from where it is. */
static void a_log_that_was_changed_is_kept(void **state) {
    (void)state;
    course c = make_course();
    char path[SCRATCH_PATH + 32];
    train_stretch(&c, (stretch){.stop_at = 5});
    snprintf(path, sizeof path, "%s/metrics.jsonl", course_folder());
    assert_ok(nt__write_file(path, "{}\n", 3));
    nt_run *run;
    assert_ok(go_on(&c, &run));
    assert_ok(nt_train(run));
    nt_run_free(run);
    assert_told("the log does not go on where the checkpoint was made, so it begins anew");
    char *log = log_lines(path);
    assert_non_null(strstr(log, "\"step\":7}"));
    assert_null(strstr(log, "\"step\":5}"));
    nt__free(log);
}

/* ---- which are kept --------------------------------------------------------------------------------------------- */

static void assert_epochs(size_t runs, const int64_t *epochs, size_t count) {
    nt_checkpoint_run_list *list;
    assert_ok(nt_checkpoint_runs(course_folder(), &list));
    assert_int_equal(list->count, runs);
    assert_int_equal(list->runs[0].checkpoints, count);
    for (size_t i = 0; i < count; i++) assert_int_equal(list->runs[0].epochs[i], epochs[i]);
    nt_checkpoint_runs_free(list);
}

/* Without a validation nothing is ranked, so what stays is what the settings say. */
static void settings_say_which_are_kept(void **state) {
    (void)state;
    course c = make_course();
    Course without = fields;
    without.val = false;
    c.fields = &without;
    c.options.max_epochs = (nt_maybe_int){true, 5};
    c.options.checkpoint_keep_epochs = (nt_maybe_int){true, 2};
    train_stretch(&c, (stretch){0});
    assert_epochs(1, (const int64_t[]){2, 4, 5}, 3);
    /* 4 steps an epoch: the record of step 6 lies within the second. */
    c.options.checkpoint_keep_epochs.given = false;
    c.options.checkpoint_keep_steps = (nt_maybe_int){true, 6};
    c.options.checkpoint_every_steps = (nt_maybe_int){true, 3};
    train_stretch(&c, (stretch){.max_steps = 8});
    assert_epochs(2, (const int64_t[]){1, 2}, 2);
    c.options.checkpoint_keep_steps.given = false;
    c.options.checkpoint_scope = "dir";
    train_stretch(&c, (stretch){0});
    assert_epochs(1, (const int64_t[]){5}, 1);
}

/* ---- what is not written ---------------------------------------------------------------------------------------- */

/* The same of a run without a log or without records: there are no files. */
static void without_records_there_are_none(void **state) {
    (void)state;
    course c = make_course();
    nt_run *run;
    c.options.checkpoint = (nt_maybe_bool){true, false};
    train_stretch(&c, (stretch){0});
    assert_int_equal(scratch_entries(course_folder()), 1);
    assert_ok(go_on(&c, &run));
    assert_told("there is nothing to resume");
    nt_run_free(run);
}

/* Beside nt_set_device, which takes no nan for a smoothing. */
static void poison(nt_run *run, int64_t step) {
    const float nan = NAN;
    for (size_t i = 0; step == 6 && i < run->traced.device_fields.count; i++) {
        nt__device_slot *slot = &run->traced.device_fields.slots[i];
        nt__device_value *value = &run->resident.values[i];
        if (strcmp(slot->name, "smoothing") == 0)
            assert_ok(nt__slot_write(&run->resident, NT__DEVICE_FIELD, slot->name, slot->type, &nan, &value->buffer,
                                     &value->former));
    }
}

/* The newest record is of before, with values that are finite. */
static void no_record_has_values_that_are_not_finite(void **state) {
    (void)state;
    course c = make_course();
    trained t;
    c.at_step = poison;
    const nt_run_options before = c.options;
    c.options.run_dir = course_folder();
    nt_run *run;
    void *context[] = {&(stretch){0}, &c};
    c.options.on_event = course_listen;
    c.options.event_context = context;
    assert_ok(nt_run_new(&c.experiment, &fields, &c.options, &run));
    in_training = run;
    assert_fails(nt_train(run), NT_DIVERGED, "step ");
    in_training = NULL;
    nt_run_free(run);
    c.options = before;
    trained_read(&t);
    int64_t epoch;
    assert_ok(nt__record_integer(&t.record, "epoch", &epoch));
    assert_int_equal(epoch, 1);
    for (size_t i = 0; i < t.record.count; i++) {
        const nt__named_array *array = &t.record.arrays[i];
        for (int64_t k = 0; k < nt_shape_elements(array->type.shape); k++)
            assert_true(isfinite(nt__element_get(array->type.dtype, (const char *)array->data +
                                                                        (size_t)k * nt_dtype_size(array->type.dtype))));
    }
    trained_free(&t);
}

static void pause_once(nt_run *run, int64_t step) {
    (void)run;
    if (step == 3) nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
}

static double seconds_in_log(void) {
    char *text, path[SCRATCH_PATH + 32];
    size_t length;
    snprintf(path, sizeof path, "%s/metrics.jsonl", course_folder());
    assert_ok(nt__read_file(path, &text, &length));
    char *at = strstr(text, "\"seconds\":");
    assert_non_null(at);
    assert_null(strstr(at + 1, "\"seconds\":"));
    double seconds = strtod(at + strlen("\"seconds\":"), NULL);
    nt__free(text);
    return seconds;
}

/* Of the newest start; 0 where it says nothing of what was before. */
static double seconds_before(void) {
    nt__history history;
    assert_ok(nt__history_read(course_folder(), false, &history));
    double seconds = history.seconds_before;
    nt__history_free(&history);
    return seconds;
}

/* The line of its end has the time of the whole run, whatever was cut off the log, and so has that of a new start. */
static void the_time_of_training_goes_on(void **state) {
    (void)state;
    course c = make_course();
    c.at_step = pause_once;
    train_stretch(&c, (stretch){.stop_at = 5});
    assert_true(seconds_in_log() >= 0.3);
    assert_true(seconds_before() == 0);
    c.at_step = NULL;
    for (int turn = 0; turn < 2; turn++) { /* the second one goes on with a run that is over */
        train_stretch(&c, (stretch){.resume = true});
        assert_true(seconds_in_log() >= 0.3);
        assert_true(seconds_before() >= 0.3);
    }
}

static void only_the_best_take_a_validation(void **state) {
    (void)state;
    course c = make_course();
    nt_run *run;
    c.options.run_dir = course_folder();
    c.options.checkpoint_keep_latest = (nt_maybe_bool){true, false};
    assert_ok(nt_run_new(&c.experiment, &fields, &c.options, &run));
    nt_run_free(run);
    fields.val = false;
    assert_fails(nt_run_new(&c.experiment, &fields, &c.options, &run), NT_INVALID,
                 "checkpoint_keep_latest is false, so only the best checkpoints are kept, and experiment 'Course' has "
                 "no split 'val'");
    c.options.checkpoint = (nt_maybe_bool){true, false};
    c.options.checkpoint_keep_latest.given = false;
    assert_ok(nt_run_new(&c.experiment, &fields, &c.options, &run));
    nt_run_free(run);
}

static nt_status no_numbers(const void *e, nt_data *data) {
    (void)e;
    course_split(data, "train", 4 * COURSE_BATCH, true);
    nt_split(data, "val", .batch = COURSE_BATCH);
    nt_array *points = toy_points(12, false);
    nt_array_set(points, 0, NAN);
    nt_split_field(data, "val", "x", points);
    nt_split_field(data, "val", "label", toy_labels(12, 0));
    return nt_data_status(data);
}

/* Where losses need not be finite, a score that is not ends nothing. */
static void a_score_that_is_no_number_ends_a_run_as_a_loss_does(void **state) {
    (void)state;
    course c = make_course();
    nt_run *run;
    c.experiment.hooks.build_data = no_numbers;
    c.options.run_dir = course_folder();
    c.options.quiet = true;
    assert_ok(nt_run_new(&c.experiment, &fields, &c.options, &run));
    assert_fails(nt_train(run), NT_INVALID, "'val_loss', which is nan after epoch 1");
    nt_run_free(run);
    c.options.check_divergence = (nt_maybe_bool){true, false};
    assert_ok(nt_run_new(&c.experiment, &fields, &c.options, &run));
    assert_ok(nt_train(run));
    nt_run_free(run);
    nt__manifest manifest;
    assert_ok(nt__manifest_read(course_folder(), &manifest));
    const nt__record_entry *newest = nt__manifest_latest(&manifest, NULL);
    assert_true(newest->epoch == 2 && !newest->scored);
    nt__manifest_free(&manifest);
}

/* The three lowest of the log, the lowest first. */
static int losses_of_log(double lowest[3]) {
    char *text, *save = NULL, path[SCRATCH_PATH + 32];
    size_t length;
    int count = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", course_folder());
    assert_ok(nt__read_file(path, &text, &length));
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *at = strstr(line, "\"val_loss\":");
        if (!at) continue;
        double loss = strtod(at + strlen("\"val_loss\":"), NULL);
        for (int i = 0; i < 3; i++) {
            if (i < count && loss >= lowest[i]) continue;
            memmove(&lowest[i + 1], &lowest[i], (size_t)(2 - i) * sizeof *lowest);
            lowest[i] = loss;
            break;
        }
        count++;
    }
    nt__free(text);
    return count;
}

static size_t count_at_tens(const nt__manifest *manifest) {
    size_t count = 0;
    for (size_t i = 0; i < manifest->count; i++) count += manifest->entries[i].epoch % 10 == 0;
    return count;
}

/* While a record is written for long, epochs are not held up by those of which nothing would be left. */
static void records_that_are_spared_change_nothing_of_what_is_kept(void **state) {
    (void)state;
    enum { EPOCHS = 40 };
    course c = make_course();
    double lowest[3];
    c.options.max_epochs = (nt_maybe_int){true, EPOCHS};
    c.options.checkpoint_keep_epochs = (nt_maybe_int){true, 10};
    c.options.learning_rate = (nt_maybe_double){true, 0.3}; /* the loss goes up and down */
    train_stretch(&c, (stretch){0});
    assert_int_equal(losses_of_log(lowest), EPOCHS);
    nt__manifest manifest;
    assert_ok(nt__manifest_read(course_folder(), &manifest));
    const nt__record_entry *newest = nt__manifest_latest(&manifest, NULL);
    assert_int_equal(newest->epoch, EPOCHS);
    assert_string_equal(newest->stop_reason, "completed");
    for (int i = 0; i < 3; i++) {
        bool found = false;
        for (size_t k = 0; k < manifest.count; k++)
            found = found || fabs(manifest.entries[k].score - lowest[i]) <= 1e-8 * lowest[i];
        assert_true(found);
    }
    assert_int_equal(count_at_tens(&manifest), EPOCHS / 10);
    assert_true(manifest.count <= 3 + EPOCHS / 10);
    nt__manifest_free(&manifest);
}

static int begin(void **state) {
    nt_set_notice(keep_notice, NULL);
    return course_make(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_graph_constants_are_refused_with_the_difference),
        cmocka_unit_test(another_layout_is_refused_with_what_moved),
        cmocka_unit_test(another_rule_is_refused),
        cmocka_unit_test(another_anchor_is_refused),
        cmocka_unit_test(without_anchors_there_is_no_checksum),
        cmocka_unit_test(within_an_epoch_the_data_and_the_step_are_the_same),
        cmocka_unit_test(between_epochs_the_data_may_be_others),
        cmocka_unit_test(only_training_is_resumed),
        cmocka_unit_test(more_epochs_go_on_exactly),
        cmocka_unit_test(the_seed_is_that_of_the_record),
        cmocka_unit_test(what_is_resumed_is_told),
        cmocka_unit_test(a_run_past_its_max_steps_is_told),
        cmocka_unit_test(a_run_that_is_over_is_told),
        cmocka_unit_test(a_log_that_was_changed_is_kept),
        cmocka_unit_test(settings_say_which_are_kept),
        cmocka_unit_test(without_records_there_are_none),
        cmocka_unit_test(no_record_has_values_that_are_not_finite),
        cmocka_unit_test(the_time_of_training_goes_on),
        cmocka_unit_test(only_the_best_take_a_validation),
        cmocka_unit_test(a_score_that_is_no_number_ends_a_run_as_a_loss_does),
        cmocka_unit_test(records_that_are_spared_change_nothing_of_what_is_kept),
    };
    return cmocka_run_group_tests(tests, begin, end_courses);
}
