/* Every rule goes on exactly where it was: stopped between epochs, within an epoch and within a step, a resumed run has
 * bit for bit the parameters, states and log of one that nothing stopped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "resume.h"

static nt_rule chosen;

static nt_rule choose(const void *e, const char *group) {
    (void)e;
    (void)group;
    return chosen;
}

static void each_rule_goes_on_exactly(void **state) {
    (void)state;
    const struct {
        const char *name;
        nt_rule rule;
    } rules[] = {{"SGD", nt_sgd()},
                 {"Momentum", nt_momentum()},
                 {"Nesterov", nt_nesterov()},
                 {"Adam", nt_adam()},
                 {"RAdam", nt_radam()},
                 {"AdamW", nt_adamw()},
                 {"AdaMax", nt_adamax()},
                 {"NAdam", nt_nadam()},
                 {"AMSGrad", nt_amsgrad()},
                 {"Lion", nt_lion()},
                 {"RMSProp", nt_rmsprop()},
                 {"centered RMSProp", nt_rmsprop(.centered = true)},
                 {"Adagrad", nt_adagrad()},
                 {"Adadelta", nt_adadelta()},
                 {"LAMB", nt_lamb()},
                 {"LARS", nt_lars(.trust = 0.05)},
                 {"Adafactor", nt_adafactor(.factored_from = 2)},
                 {"Adafactor of vectors", nt_adafactor(.no_parameter_scale = true)},
                 {"Muon", nt_muon()},
                 {"schedule-free AdamW", nt_schedule_free_adamw()},
                 {"a chain", nt_chain(nt_clip_grad(), nt_clip_norm(), nt_weight_decay(), nt_adam())}};
    course c = {.experiment = *Course_experiment()};
    Course e = Course_defaults();
    e.shift = course_shift();
    c.experiment.hooks.optimizer = choose;
    c.fields = &e;
    c.options.max_epochs = (nt_maybe_int){true, 2};
    c.options.accum = (nt_maybe_int){true, 2};
    c.options.learning_rate = (nt_maybe_double){true, 0.03};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        chosen = rules[i].rule;
        assert_resumes(&c, rules[i].name);
    }
    nt_array_free(e.shift);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_goes_on_exactly),
    };
    return cmocka_run_group_tests(tests, course_make, shut_down_and_remove);
}
