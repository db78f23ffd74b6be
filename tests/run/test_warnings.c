/* Warnings: lines about what changes a result. No `quiet` hides one, and a warning function makes each an error of the
 * call that warns. A case a warning.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <unistd.h>

#include "course.h"
#include "base/files.h"

/* ---- hooks that make a run warn --------------------------------------------------------------------------------- */

static int64_t other_seed(const void *e) {
    (void)e;
    return 99;
}

static bool spare_none(const void *e, const char *path, nt_shape shape) {
    (void)e;
    (void)path;
    (void)shape;
    return true;
}

static nt_tensor forward_with_more(const void *e, nt_model *m, nt_batch *batch) {
    nt_dense(m, "more", nt_field(batch, "x"), 1);
    return Course_experiment()->hooks.forward(e, m, batch);
}

static void schedule_smoothing(const void *e, nt_schedules *out) {
    (void)e;
    nt_schedule_set(out, "smoothing", nt_schedule_constant(0.1));
}

static nt_status derive_smoothing(void *e, const nt_data *data) {
    (void)data;
    ((Course *)e)->smoothing = 0.25f;
    return NT_OK;
}

/* ---- the cases -------------------------------------------------------------------------------------------------- */

static nt_named_schedule rate_to_zero[2];
static const char *const maps[] = {"heads.*=", "*=*"};
static char saved[SCRATCH_PATH];

static void no_change(course *c) {
    (void)c;
}

static void train_two_epochs(course *c) {
    train_stretch(c, (stretch){0});
}

static void stop_in_the_first(course *c) {
    train_stretch(c, (stretch){.stop_at = 2});
}

static void train_with_another_seed(course *c) {
    stop_in_the_first(c);
    c->experiment.hooks.seed = other_seed;
}

static void stop_and_limit(course *c) {
    stop_in_the_first(c);
    c->options.max_steps = (nt_maybe_int){true, 3};
}

static void stop_and_change_the_log(course *c) {
    char path[SCRATCH_PATH + 32];
    stop_in_the_first(c);
    snprintf(path, sizeof path, "%s/metrics.jsonl", course_folder());
    assert_ok(nt__write_file(path, "{}\n", 3));
}

/* The older record is resumed, the newest one is not there. */
static void stop_and_remove_a_record(course *c) {
    nt__record_source source;
    train_two_epochs(c);
    assert_ok(nt__record_source_auto(course_folder(), &source));
    assert_int_equal(unlink(source.path), 0);
    nt__record_source_free(&source);
    c->options.resume = NULL;
    c->options.max_epochs = (nt_maybe_int){true, 1};
}

static void compute_in_f16(course *c) {
    c->options.compute_dtype = "f16";
}

static void add_a_parameter(course *c) {
    c->experiment.hooks.forward = forward_with_more;
}

static void decay_all(course *c) {
    chosen = nt_adamw(.weight_decay = 0.1);
    c->experiment.hooks.no_decay = spare_none;
}

static void set_what_is_scheduled(course *c) {
    fields.smoothing = 0.3f;
    c->experiment.hooks.schedules = schedule_smoothing;
}

static void give_what_is_derived(course *c) {
    static const char *const given[] = {"smoothing"};
    fields.smoothing = 0.5f;
    c->experiment.hooks.derive = derive_smoothing;
    c->options.given_fields = given;
    c->options.given_field_count = 1;
}

static void replace_the_schedules(course *c) {
    c->experiment.hooks.schedules = schedule_smoothing;
    c->options.schedules = rate_to_zero;
}

static void rate_ends(course *c) {
    c->options.schedules = rate_to_zero;
}

static void rank_without_validation(course *c) {
    fields.val = false;
    c->options.checkpoint_metric = "val_loss";
}

static void rank_backwards(course *c) {
    c->options.checkpoint_metric = "val_loss";
    c->options.checkpoint_mode = "max";
}

static void map_what_is_not_there(course *c) {
    nt_run *run;
    snprintf(saved, sizeof saved, "%s", scratch("saved.safetensors"));
    nt_run_options options = {.no_log = true, .quiet = true};
    assert_ok(nt_run_new(&c->experiment, c->fields, &options, &run));
    assert_ok(nt_run_save(run, saved));
    nt_run_free(run);
    c->options.weights = saved;
    c->options.weight_maps = maps;
    c->options.weight_map_count = 2;
}

typedef enum use { SETS_UP, TRAINS, TRAINS_MORE } use;

static const struct {
    void (*prepare)(course *c);
    bool resumes;
    use use; /* what warns */
    const char *line;
} cases[] = {
    {no_change, true, SETS_UP, "so the run begins anew"},
    {train_with_another_seed, true, SETS_UP, "the seed is that of the checkpoint, 42, not 99 as it was asked for"},
    {train_two_epochs, true, SETS_UP, "after epoch 2 of 2, so training returns at once"},
    {stop_and_limit, true, SETS_UP, "so training returns at once: give a larger max_steps"},
    {stop_and_change_the_log, true, TRAINS, "the log does not go on where the checkpoint was made, so it begins anew"},
    {stop_and_remove_a_record, false, TRAINS, "is gone, so checkpoints.json lists it no more"},
    {compute_in_f16, false, SETS_UP, "layers compute in f16"},
    {add_a_parameter, false, SETS_UP, "the loss does not depend on parameter 'more.weight'"},
    {decay_all, false, SETS_UP, "the no_decay hook spares nothing in group 'default'"},
    {set_what_is_scheduled, false, SETS_UP, "smoothing has a schedule (the schedules hook); the given 0.3 is not used"},
    {give_what_is_derived, false, SETS_UP, "smoothing: 0.5 given, 0.25 by derive"},
    {replace_the_schedules, false, SETS_UP, "without a schedule now: smoothing"},
    {rate_ends, false, TRAINS_MORE, "schedule learning_rate is over at step 8: it stays at 0 from here on"},
    {rank_without_validation, false, SETS_UP, "there is no split 'val', so no checkpoint is ranked"},
    {rank_backwards, false, SETS_UP, "checkpoint_mode is max, and of 'val_loss' smaller values are better by its name"},
    {map_what_is_not_there, false, SETS_UP, "these fit nothing: 'heads.*='"},
};

/* ---- two answers to a warning ----------------------------------------------------------------------------------- */

static nt_status keep_warning(const char *line, void *context) {
    keep_notice(line, context);
    return NT_OK;
}

static nt_status refuse(const char *line, void *context) {
    keep_notice(line, context);
    return NT_INVALID;
}

static nt_status use_run(nt_run *run, use how) {
    nt_status status = how == SETS_UP ? NT_OK : nt_train(run);
    return status == NT_OK && how == TRAINS_MORE ? nt_train_more(run, 1, 0) : status;
}

/* Goes through a case; what happens before the run that warns is not listened to. */
static nt_status go_through(size_t i, nt_warning_function answer) {
    nt_run *run;
    course c = make_course();
    rate_to_zero[0] = (nt_named_schedule){"learning_rate", nt_schedule_linear(1e-3, 0)};
    c.options.quiet = true;
    nt_set_notice(NULL, NULL);
    cases[i].prepare(&c);
    nt__text_free(&notices);
    if (cases[i].resumes) c.options.resume = "auto";
    c.options.run_dir = course_folder();
    nt_set_warning(answer, NULL);
    nt_status status = nt_run_new(&c.experiment, c.fields, &c.options, &run);
    if (status == NT_OK) status = use_run(run, cases[i].use);
    nt_set_warning(NULL, NULL);
    nt_run_free(run);
    return status;
}

static void quiet_hides_no_warning(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(go_through(i, keep_warning));
        assert_told(cases[i].line);
        assert_int_equal(count_told(cases[i].line), 1);
    }
}

static void a_warning_can_be_an_error(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(go_through(i, refuse), NT_INVALID, cases[i].line);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quiet_hides_no_warning),
        cmocka_unit_test(a_warning_can_be_an_error),
    };
    return cmocka_run_group_tests(tests, scratch_make, end_courses);
}
