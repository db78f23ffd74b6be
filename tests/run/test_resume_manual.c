/* Manual mode goes on exactly where it was: two networks, each with a rule and states of its own, in one step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "adversarial.h"
#include "resume.h"

static nt_status shuffled(const void *e, nt_data *data) {
    const Pair *pair = e;
    int64_t rows = (int64_t)pair->batches * ROWS;
    nt_split(data, "train", .batch = ROWS, .shuffle = true);
    nt_split_field(data, "train", "x", samples(1, rows, WIDTH));
    nt_split_field(data, "train", "z", samples(2, rows, NOISE));
    return nt_split_field(data, "train", "unused", samples(3, rows, 1));
}

static void manual_training_goes_on_exactly(void **state) {
    (void)state;
    Pair e = Pair_defaults();
    e.linear = false;
    course c = {.experiment = *Pair_experiment(), .fields = &e};
    c.experiment.hooks.optimizer = adam;
    c.options.max_epochs = (nt_maybe_int){true, 2};
    c.options.gradient_clip_norm = (nt_maybe_double){true, 0.05};
    const nt_named_schedule schedules[] = {{"opt.learning_rate", nt_schedule_linear(0.05, 0.01)}, {0}};
    c.options.schedules = schedules;
    assert_resumes(&c, "manual");
}

/* The rows of an epoch under way are those of then, here too; what else differs is told. */
static void another_order_of_the_rows_is_refused(void **state) {
    (void)state;
    Pair e = Pair_defaults();
    course c = {.experiment = *Pair_experiment(), .fields = &e};
    nt_run *run;
    c.options.max_epochs = (nt_maybe_int){true, 2};
    train_stretch(&c, (stretch){.max_steps = 2});
    nt_run_options options = c.options;
    options.run_dir = course_folder();
    options.resume = "auto";
    e.batches = 4;
    assert_fails(nt_run_new(&c.experiment, &e, &options, &run), NT_INVALID, "\n  train.rows: ");
    e.batches = 3;
    c.experiment.hooks.build_data = shuffled;
    assert_fails(nt_run_new(&c.experiment, &e, &options, &run), NT_INVALID, "\n  train.shuffle: false -> true");
    scratch_remove_path(course_folder());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manual_training_goes_on_exactly),
        cmocka_unit_test(another_order_of_the_rows_is_refused),
    };
    return cmocka_run_group_tests(tests, course_make, shut_down_and_remove);
}
