/* Options of training that a handle cannot use are refused; what a folder has of other runs is told; each line comes
 * once, with a derive hook too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "course.h"

/* ---- handles that do not train ---------------------------------------------------------------------------------- */

static nt_status test_alone(const void *e, nt_data *data) {
    (void)e;
    return course_split(data, "test", 2 * COURSE_BATCH, false);
}

typedef struct refusal {
    const char *name;
    nt_run_options options;
} refusal;

static nt_named_schedule schedules[2] = {{.name = "smoothing"}}; /* with its value from begin() on */

static const refusal refusals[] = {{"resume", {.resume = "auto"}},
                                   {"restore_optimizer", {.restore_optimizer = true, .weights = "run:latest"}},
                                   {"restore_best", {.restore_best = true}},
                                   {"gradient_norm", {.gradient_norm = true}},
                                   {"histograms", {.histograms = true, .log = "tensorboard"}},
                                   {"schedules", {.schedules = schedules}}};

static nt_status start(const course *c, nt_run_options options, nt_run **run) {
    options.run_dir = course_folder();
    return nt_run_new(&c->experiment, c->fields, &options, run);
}

/* With the checkpoint of a run that trained, which restore_optimizer would be of. */
static void without_a_split_train_they_are_refused(void **state) {
    (void)state;
    course c = make_course();
    char weights[SCRATCH_PATH + 32], text[256];
    nt_run *run;
    train_stretch(&c, (stretch){0});
    snprintf(weights, sizeof weights, "%s:latest", course_folder());
    c.experiment.hooks.build_data = test_alone;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        nt_run_options options = refusals[i].options;
        if (options.weights) options.weights = weights;
        snprintf(text, sizeof text,
                 "%s is for training, and experiment 'Course' has no split 'train' (its splits: test)",
                 refusals[i].name);
        assert_fails(start(&c, options, &run), NT_INVALID, text);
        assert_null(run);
    }
    assert_ok(start(&c, (nt_run_options){.weights = weights}, &run)); /* to be evaluated */
    nt_run_free(run);
}

/* Flags may be used again for an evaluation: of those that it takes, schedules have no use. */
static void so_are_they_where_nothing_is_trained(void **state) {
    (void)state;
    course c = make_course();
    nt_run *run;
    for (int no_data = 0; no_data < 2; no_data++)
        for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
            nt_run_options options = refusals[i].options;
            options.evaluate_only = !no_data;
            options.no_data = no_data;
            nt_status status = start(&c, options, &run);
            nt_run_free(run);
            if (options.schedules) {
                assert_int_equal(status, NT_OK);
                continue;
            }
            assert_int_equal(status, NT_INVALID);
            assert_non_null(strstr(nt_error_message(), refusals[i].name));
        }
}

/* Weights of a handle without data wait for its first prediction. */
static void weights_are_of_a_handle_without_data_too(void **state) {
    (void)state;
    course c = make_course();
    nt_run *run, *other;
    char path[SCRATCH_PATH + 32];
    assert_ok(start(&c, (nt_run_options){.seed = {true, 5}}, &other));
    snprintf(path, sizeof path, "%s.safetensors", course_folder());
    assert_ok(nt_run_save(other, path));
    assert_ok(start(&c, (nt_run_options){.no_data = true, .weights = path}, &run));
    nt_array *x = toy_points(COURSE_BATCH, false), *outputs[2];
    const nt_named_array input = {"x", x};
    assert_ok(nt_predict(run, &input, 1, &outputs[0]));
    assert_ok(nt_predict(other, &input, 1, &outputs[1]));
    assert_memory_equal(outputs[0]->data, outputs[1]->data, outputs[0]->bytes);
    for (int i = 0; i < 2; i++) nt_array_free(outputs[i]);
    nt_array_free(x);
    nt_run_free(run);
    nt_run_free(other);
}

/* ---- a folder with records of other runs ------------------------------------------------------------------------ */

static size_t records_in(const char *folder) {
    nt__manifest manifest;
    assert_ok(nt__manifest_read(folder, &manifest));
    size_t count = manifest.count;
    nt__manifest_free(&manifest);
    return count;
}

static void others_in_the_folder_are_told(void **state) {
    (void)state;
    course c = make_course();
    nt_run *run;
    train_stretch(&c, (stretch){0});
    assert_int_equal(count_told("other run"), 0);
    assert_ok(start(&c, c.options, &run));
    assert_told("Course: '");
    assert_told("' holds 2 checkpoints of 1 other run, which stay: nothing deletes them");
    nt_run_free(run);
    nt__text_free(&notices);
    nt_run_options options = c.options;
    options.resume = "auto";
    assert_ok(start(&c, options, &run)); /* they are its own */
    assert_int_equal(count_told("other run"), 0);
    nt_run_free(run);
    options = c.options;
    options.quiet = true;
    assert_ok(start(&c, options, &run));
    assert_int_equal(count_told("other run"), 0);
    nt_run_free(run);
}

/* Before any is deleted, also to whoever wants to hear nothing. */
static void those_that_may_be_deleted_are_a_warning(void **state) {
    (void)state;
    course c = make_course();
    nt_run *run;
    train_stretch(&c, (stretch){0});
    train_stretch(&c, (stretch){0});
    size_t before = records_in(course_folder());
    nt__text_free(&notices);
    nt_run_options options = c.options;
    options.checkpoint_scope = "dir";
    options.checkpoint_keep = (nt_maybe_int){true, 1};
    options.quiet = true;
    assert_ok(start(&c, options, &run));
    assert_told(
        "' holds 4 checkpoints of 2 other runs, and checkpoint_scope is dir: all are ranked together, and those "
        "that are not kept (checkpoint_keep 1) are deleted, whosever they are");
    assert_int_equal(records_in(course_folder()), before);
    assert_ok(nt_train(run));
    nt_run_free(run);
    assert_true(records_in(course_folder()) <= 2);
}

/* ---- once ------------------------------------------------------------------------------------------------------- */

static nt_status derive(void *e, const nt_data *data) {
    (void)e;
    (void)data;
    return NT_OK;
}

static int64_t seven(const void *e) {
    (void)e;
    return 7;
}

static int64_t one(const void *e) {
    (void)e;
    return 1;
}

static void every_line_comes_once(void **state) {
    (void)state;
    course c = make_course();
    nt_run *run;
    c.experiment.hooks.derive = derive;
    train_stretch(&c, (stretch){0});
    nt__text_free(&notices);
    nt_run_options options = c.options;
    options.resume = "auto";
    c.experiment.hooks.seed = seven;
    c.experiment.hooks.max_steps = one;
    options.compute_dtype = "f16";
    assert_ok(start(&c, options, &run));
    assert_int_equal(run->task.settings.seed, 42);
    nt_run_free(run);
    assert_int_equal(count_told("the seed is that of the checkpoint, 42, not 7 as it was asked for"), 1);
    assert_int_equal(count_told("goes on with run"), 1);
    assert_int_equal(count_told("training returns at once"), 1);
    assert_int_equal(count_told("layers compute in f16"), 1);
    assert_int_equal(count_told("not as in the checkpoint"), 1);
}

static int begin(void **state) {
    schedules[0].schedule = nt_schedule_constant(0);
    nt_set_notice(keep_notice, NULL);
    return course_make(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_split_train_they_are_refused),
        cmocka_unit_test(so_are_they_where_nothing_is_trained),
        cmocka_unit_test(weights_are_of_a_handle_without_data_too),
        cmocka_unit_test(others_in_the_folder_are_told),
        cmocka_unit_test(those_that_may_be_deleted_are_a_warning),
        cmocka_unit_test(every_line_comes_once),
    };
    return cmocka_run_group_tests(tests, begin, end_courses);
}
