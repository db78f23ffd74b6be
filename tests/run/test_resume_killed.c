/* A run that is killed goes on from its newest checkpoint, and in the end is the run that nothing killed: parameters,
 * states, and a log in which no step is missing or comes twice. A checkpoint that an older version wrote is still
 * one to go on from.
 *
 * With NT_WRITE_CHECKPOINT=FOLDER it writes the file of the last test, tests/golden/checkpoint-1.safetensors, anew:
 * only for another format version, beside the older files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>

#include "resume.h"
#include "base/files.h"

static Course fields;

static nt_rule adam(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_adam();
}

static course make_course(void) {
    course c = {.experiment = *Course_experiment(), .fields = &fields};
    c.experiment.hooks.optimizer = adam;
    c.options.max_epochs = (nt_maybe_int){true, 3};
    c.options.accum = (nt_maybe_int){true, 2};
    c.options.learning_rate = (nt_maybe_double){true, 0.03};
    c.options.ema_decay = (nt_maybe_double){true, 0.9};
    c.options.checkpoint_every_steps = (nt_maybe_int){true, 1};
    return c;
}

/* ---- killed ----------------------------------------------------------------------------------------------------- */

/* In the first epoch, between two epochs, within the last one. */
static const int64_t deaths[] = {1, 4, 5};
enum { DEATHS = sizeof deaths / sizeof *deaths };

static int64_t dies_at;

static void die(nt_run *run, int64_t step) {
    (void)run;
    if (step == dies_at) kill(getpid(), SIGKILL);
}

/* Before this process has an engine, whose threads a child would not have. */
static void train_and_die(const course *c, int64_t step) {
    course dying = *c;
    char killed[64];
    pid_t child = fork();
    if (child == 0) {
        dies_at = step;
        dying.at_step = die;
        train_stretch(&dying, (stretch){0});
        _exit(0);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    snprintf(killed, sizeof killed, "killed-%lld", (long long)step);
    char from[2 * SCRATCH_PATH];
    snprintf(from, sizeof from, "%s", course_folder());
    assert_int_equal(rename(from, scratch(killed)), 0);
}

static void take_folder(int64_t step) {
    char killed[64], to[2 * SCRATCH_PATH];
    snprintf(killed, sizeof killed, "killed-%lld", (long long)step);
    snprintf(to, sizeof to, "%s", course_folder());
    assert_int_equal(rename(scratch(killed), to), 0);
}

static void a_killed_run_goes_on(void **state) {
    (void)state;
    course c = make_course();
    trained whole, resumed;
    for (size_t i = 0; i < DEATHS; i++) train_and_die(&c, deaths[i]);
    train_stretch(&c, (stretch){0});
    trained_read(&whole);
    for (size_t i = 0; i < DEATHS; i++) {
        scratch_remove_path(course_folder());
        take_folder(deaths[i]);
        train_stretch(&c, (stretch){.resume = true});
        trained_read(&resumed);
        assert_same(&whole, &resumed, "killed");
        trained_free(&resumed);
    }
    trained_free(&whole);
    scratch_remove_path(course_folder());
}

/* ---- an older one ----------------------------------------------------------------------------------------------- */

static const char golden[] = "checkpoint-1.safetensors";

/* In the middle of step 3, in epoch 2. */
static course older_course(void) {
    course c = make_course();
    c.options.max_epochs = (nt_maybe_int){true, 2};
    c.options.checkpoint_every_steps = (nt_maybe_int){0};
    return c;
}

static void write_golden(const char *folder) {
    course c = older_course();
    nt__record_source source;
    char *bytes, path[SCRATCH_PATH];
    size_t length;
    train_stretch(&c, (stretch){.stop_at = 3});
    assert_ok(nt__record_source_auto(course_folder(), &source));
    assert_ok(nt__read_file(source.path, &bytes, &length));
    snprintf(path, sizeof path, "%s/%s", folder, golden);
    assert_ok(nt__write_file(path, bytes, length));
    nt__free(bytes);
    nt__record_source_free(&source);
    scratch_remove_path(course_folder());
}

static void assert_parameter(nt_run *run, const char *path, double first) {
    nt_array *array = nt_run_parameter(run, path);
    assert_non_null(array);
    assert_true(fabs(nt_array_get(array, 0) - first) < 1e-6);
    nt_array_free(array);
}

static void a_checkpoint_of_an_older_version_loads(void **state) {
    (void)state;
    course c = older_course();
    char path[SCRATCH_PATH];
    snprintf(path, sizeof path, "%s/golden/%s", getenv("NT_TESTS"), golden);
    c.options.run_dir = course_folder();
    c.options.resume = path;
    c.options.quiet = true;
    nt_run *run;
    assert_ok(nt_run_new(&c.experiment, &fields, &c.options, &run));
    assert_int_equal(nt_run_epoch(run), 2);
    assert_int_equal(nt_run_step(run), 3);
    assert_int_equal(run->resident.resumed.seen, 3);
    assert_int_equal(run->task.settings.seed, 42);
    assert_parameter(run, "hidden.weight", -0.500686169);
    assert_parameter(run, "logits.bias", 0.012892566);
    assert_ok(nt_train(run));
    assert_int_equal(nt_run_step(run), 4);
    nt_run_free(run);
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

static void the_golden_checkpoint_is_written(void **state) {
    (void)state;
    if (getenv("NT_WRITE_CHECKPOINT")) write_golden(getenv("NT_WRITE_CHECKPOINT"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_run_goes_on),
        cmocka_unit_test(the_golden_checkpoint_is_written),
        cmocka_unit_test(a_checkpoint_of_an_older_version_loads),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
