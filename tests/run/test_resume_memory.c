/* Allocations fail in turn while a run writes checkpoints, and while another goes on from one: an error each
 * time, nothing alive afterwards, and what is in the folder can be resumed. On the fake plugin.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "resume.h"

static Course fields;

static nt_rule lamb(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_lamb(.weight_decay = 0.01);
}

static double decay(const void *e, const char *group) {
    (void)e;
    (void)group;
    return 0;
}

static nt_anchor initial(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_anchor_initial();
}

static course make_course(void) {
    course c = {.experiment = *Course_experiment(), .fields = &fields};
    c.experiment.hooks.optimizer = lamb;
    c.experiment.hooks.weight_decay = decay;
    c.experiment.hooks.decay_anchor = initial;
    c.options.accum = (nt_maybe_int){true, 2};
    c.options.ema_decay = (nt_maybe_double){true, 0.9};
    c.options.checkpoint_every_steps = (nt_maybe_int){true, 1};
    c.options.quiet = true;
    return c;
}

/* From the newest checkpoint where there is one; with `logs` it writes some. */
static nt_status life(const course *c, bool logs) {
    nt_run_options options = c->options;
    nt_run *run;
    options.run_dir = course_folder();
    options.no_log = !logs;
    options.resume = logs ? NULL : "auto";
    if (!logs) options.checkpoint_every_steps = (nt_maybe_int){0}; /* it writes none */
    nt_status status = nt_run_new(&c->experiment, c->fields, &options, &run);
    if (status == NT_OK) status = nt_train(run);
    nt_run_free(run);
    return status;
}

/* Those of a setup are walked elsewhere too, so that every third is enough. */
static void walk(const course *c, bool logs, size_t at_least) {
    size_t live = nt__memory().live, failures = 0;
    for (size_t n = 1;; n += 3) {
        size_t before = nt__memory().total;
        nt__memory_fail_at(n);
        nt_status status = life(c, logs);
        bool reached = nt__memory().total - before >= n;
        nt__memory_fail_at(0);
        if (status != NT_OK && status != NT_OUT_OF_MEMORY)
            fail_msg("allocation %zu: %s: %s", n, nt_status_name(status), nt_error_message());
        if (nt__memory().live != live) fail_msg("allocation %zu: %zu blocks, %zu before", n, nt__memory().live, live);
        if (nt__engine_counts_now().all_buffers.live_count != 0) fail_msg("allocation %zu: a buffer is alive", n);
        if (!reached) break;
        failures += status == NT_OUT_OF_MEMORY;
    }
    if (failures <= at_least) fail_msg("only %zu of the allocations failed", failures);
}

static void every_allocation_of_a_run_with_checkpoints_can_fail(void **state) {
    (void)state;
    course c = make_course();
    assert_ok(life(&c, true));
    walk(&c, true, 100);
    assert_ok(life(&c, false));
    scratch_remove_path(course_folder());
}

static void every_allocation_of_a_resumed_run_can_fail(void **state) {
    (void)state;
    course c = make_course();
    c.options.checkpoint_every_steps = (nt_maybe_int){0};
    train_stretch(&c, (stretch){.stop_at = 1});
    assert_ok(life(&c, false));
    walk(&c, false, 100);
}

static int begin(void **state) {
    fields = Course_defaults();
    fields.shift = course_shift();
    fields.normed = fields.draws = true;
    return course_make(state);
}

static int end(void **state) {
    nt_array_free(fields.shift);
    return shut_down_and_remove(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_of_a_run_with_checkpoints_can_fail),
        cmocka_unit_test(every_allocation_of_a_resumed_run_can_fail),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
