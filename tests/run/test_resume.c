/* What a run carries besides the states of its rule goes on exactly too: random numbers, batch statistics, moving
 * averages, schedules, Device fields, groups, sums over counts, data from sources; in whole steps and within them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "resume.h"
#include "toy_source.h"

static Course fields;

static const char *group_of(const void *e, const char *path) {
    (void)e;
    return strstr(path, "bias") ? "biases" : NULL;
}

static nt_rule adam(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_adam();
}

static course plain_course(void) {
    course c = {.experiment = *Course_experiment(), .fields = &fields};
    nt_array_free(fields.shift);
    fields = Course_defaults();
    fields.shift = course_shift();
    c.experiment.hooks.optimizer = adam;
    c.options.max_epochs = (nt_maybe_int){true, 2};
    c.options.learning_rate = (nt_maybe_double){true, 0.03};
    return c;
}

/* ---- what is carried -------------------------------------------------------------------------------------------- */

static void layers_that_carry_something_go_on(void **state) {
    (void)state;
    for (int accum = 1; accum <= 4; accum *= 2) {
        course c = plain_course();
        fields.draws = fields.normed = true;
        c.options.accum = (nt_maybe_int){true, accum};
        assert_resumes(&c, "dropout and batch normalization");
    }
}

static void a_sum_over_a_count_goes_on(void **state) {
    (void)state;
    course c = plain_course();
    fields.weighted = true;
    c.options.accum = (nt_maybe_int){true, 2};
    c.options.gradient_clip_norm = (nt_maybe_double){true, 0.5};
    c.options.gradient_norm = true;
    assert_resumes(&c, "weighted loss");
}

/* The schedule is where it would be, in a step under way too. */
static void averages_groups_and_schedules_go_on(void **state) {
    (void)state;
    const nt_named_schedule schedules[] = {{"opt.learning_rate", nt_schedule_cosine(0.05, 0.001)},
                                           {"opt.ema_decay", nt_schedule_linear(0.5, 0.99)},
                                           {"smoothing", nt_schedule_linear(0.0, 0.2)},
                                           {0}};
    course c = plain_course();
    c.experiment.hooks.param_group = group_of;
    c.options.schedules = schedules;
    c.options.learning_rate.given = false;
    c.options.ema_decay = (nt_maybe_double){true, 0.9};
    c.options.accum = (nt_maybe_int){true, 2};
    assert_resumes(&c, "averages and schedules");
}

static void without_validation_it_goes_on(void **state) {
    (void)state;
    course c = plain_course();
    fields.val = false;
    assert_resumes(&c, "no split val");
}

/* ---- Device fields ---------------------------------------------------------------------------------------------- */

static void set_fields(nt_run *run, int64_t step) {
    if (step != 3) return;
    nt_array *shift = course_shift();
    nt_array_set(shift, 1, -2);
    assert_ok(nt_set_device(run, "shift", shift));
    assert_ok(nt_set_device(run, "smoothing", 0.25));
    nt_array_free(shift);
}

/* A value that was set in the course of training is there again, and one that the run is given anew wins over it. */
static void device_fields_have_the_values_they_were_given(void **state) {
    (void)state;
    course c = plain_course();
    trained whole, resumed;
    c.at_step = set_fields;
    train_stretch(&c, (stretch){0});
    trained_read(&whole);
    scratch_remove_path(course_folder());
    train_stretch(&c, (stretch){.stop_at = 5});
    train_stretch(&c, (stretch){.resume = true});
    trained_read(&resumed);
    assert_same(&whole, &resumed, "Device fields");
    trained_free(&resumed);
    scratch_remove_path(course_folder());

    train_stretch(&c, (stretch){.stop_at = 5});
    fields.smoothing = 0.4f;
    train_stretch(&c, (stretch){.resume = true});
    trained_read(&resumed);
    const nt__named_array *smoothing = nt__record_find(&resumed.record, "device/smoothing");
    const nt__named_array *shift = nt__record_find(&resumed.record, "device/shift");
    assert_non_null(smoothing);
    assert_non_null(shift);
    assert_true(nt__element_get(NT_F32, smoothing->data) == (double)0.4f);
    assert_true(nt__element_get(NT_F32, (const float *)shift->data + 1) == -2);
    trained_free(&resumed);
    trained_free(&whole);
    scratch_remove_path(course_folder());
}

/* ---- data ------------------------------------------------------------------------------------------------------- */

static Toy toy;

static course toy_course(void) {
    course c = {.experiment = *Toy_experiment(), .fields = &toy};
    toy = Toy_defaults();
    toy.rows = 64;
    c.options.max_epochs = (nt_maybe_int){true, 2};
    c.options.accum = (nt_maybe_int){true, 2};
    return c;
}

/* The order of every epoch, whatever read it. */
static void sources_with_workers_go_on(void **state) {
    (void)state;
    course c = toy_course();
    c.experiment.hooks.build_data = toy_source_data;
    toy_reading_reset(3);
    assert_resumes(&c, "a source with workers");
}

/* ---- records within an epoch ------------------------------------------------------------------------------------ */

/* Records every step take nothing away from what a run computes. */
static void records_within_an_epoch_change_nothing(void **state) {
    (void)state;
    course c = plain_course();
    trained without, with;
    fields.draws = fields.normed = true;
    c.options.accum = (nt_maybe_int){true, 2};
    train_stretch(&c, (stretch){0});
    trained_read(&without);
    scratch_remove_path(course_folder());
    c.options.checkpoint_every_steps = (nt_maybe_int){true, 1};
    train_stretch(&c, (stretch){0});
    trained_read(&with);
    assert_same(&without, &with, "a record every step");
    trained_free(&with);
    scratch_remove_path(course_folder());
    c.options.checkpoint_every_steps = (nt_maybe_int){0};
    c.options.checkpoint_every_minutes = (nt_maybe_double){true, 1e-9};
    train_stretch(&c, (stretch){0});
    trained_read(&with);
    assert_same(&without, &with, "a record each moment");
    trained_free(&with);
    trained_free(&without);
    scratch_remove_path(course_folder());
}

static int end(void **state) {
    nt_array_free(fields.shift);
    return shut_down_and_remove(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_that_carry_something_go_on),
        cmocka_unit_test(a_sum_over_a_count_goes_on),
        cmocka_unit_test(averages_groups_and_schedules_go_on),
        cmocka_unit_test(without_validation_it_goes_on),
        cmocka_unit_test(device_fields_have_the_values_they_were_given),
        cmocka_unit_test(sources_with_workers_go_on),
        cmocka_unit_test(records_within_an_epoch_change_nothing),
    };
    return cmocka_run_group_tests(tests, course_make, end);
}
