/* Manual mode goes on exactly where it was: two networks, each with a rule and states of its own, in one step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "adversarial.h"
#include "resume.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manual_training_goes_on_exactly),
    };
    return cmocka_run_group_tests(tests, course_make, shut_down_and_remove);
}
