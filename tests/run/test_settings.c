/* Where the settings of a run come from: the option, else the hook, else the field, else the default; and that a bad
 * value says which of them it is from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "nitro.h"
#include "run/run.h"
#include "run/run_internal.h"

#define SOURCES(FIELD, DEVICE, GRAPH_CONST)                      \
    FIELD(const char *, run_dir, "from-field", "a text")         \
    FIELD(int, seed, 2, "a whole number")                        \
    FIELD(long, max_epochs, 2, "a whole number of another type") \
    FIELD(double, max_steps, 2, "a floating one")                \
    FIELD(int, accum, 2, "")                                     \
    FIELD(float, gradient_clip_norm, 2, "")                      \
    FIELD(double, learning_rate, 2, "")                          \
    FIELD(bool, check_divergence, false, "")                     \
    FIELD(const char *, compute_dtype, "f32", "a text of three")
NT_EXPERIMENT(Sources, SOURCES)

static nt_status build_data(const Sources *e, nt_data *data) {
    (void)e;
    nt_split(data, "train", .batch = 2);
    nt_split_field(data, "train", "x", nt_array_new(NT_F32, nt_dims(24, 1)));
    nt_split(data, "val", .batch = 2);
    nt_split_field(data, "val", "x", nt_array_new(NT_F32, nt_dims(4, 1)));
    return nt_data_status(data);
}

static nt_tensor forward(const Sources_view *e, nt_model *m, nt_batch *batch) {
    (void)e;
    return nt_dense(m, "d", nt_field(batch, "x"), 1);
}

static nt_tensor loss(const Sources_view *e, nt_tensor outputs, nt_batch *batch) {
    (void)e;
    (void)batch;
    return nt_mean(outputs);
}

NT_DEFINE(Sources, SOURCES, .build_data = build_data, .forward = forward, .loss = loss);

/* ---- hooks ------------------------------------------------------------------------------------------------------ */

static int calls;

static int64_t hook_whole(const void *e) {
    (void)e;
    calls++;
    return 3;
}
static double hook_real(const void *e) {
    (void)e;
    return 3;
}
static bool hook_truth(const void *e) {
    (void)e;
    return false;
}
static const char *hook_text(const void *e) {
    return ((const Sources *)e)->seed == 2 ? "from-hook" : NULL;
}

static const char *hook_dtype(const void *e) {
    (void)e;
    return "bf16";
}

static nt_experiment with_hooks(void) {
    nt_experiment changed = *Sources_experiment();
    changed.hooks.run_dir = hook_text;
    changed.hooks.seed = changed.hooks.max_epochs = changed.hooks.max_steps = changed.hooks.accum = hook_whole;
    changed.hooks.gradient_clip_norm = changed.hooks.learning_rate = hook_real;
    changed.hooks.check_divergence = hook_truth;
    changed.hooks.compute_dtype = hook_dtype;
    return changed;
}

/* Without the fields, which another experiment has instead. */
#define PLAIN(FIELD, DEVICE, GRAPH_CONST) FIELD(int, other, 0, "")
NT_EXPERIMENT(Plain, PLAIN)
static nt_tensor plain_forward(const Plain_view *e, nt_model *m, nt_batch *batch) {
    (void)e;
    return nt_dense(m, "d", nt_field(batch, "x"), 1);
}
static nt_tensor plain_loss(const Plain_view *e, nt_tensor outputs, nt_batch *batch) {
    (void)e;
    (void)batch;
    return nt_mean(outputs);
}
static nt_status plain_data(const Plain *e, nt_data *data) {
    (void)e;
    return build_data(NULL, data);
}
NT_DEFINE(Plain, PLAIN, .build_data = plain_data, .forward = plain_forward, .loss = plain_loss);

/* ---- what was found --------------------------------------------------------------------------------------------- */

static nt_run_options all_options(void) {
    return (nt_run_options){.run_dir = "from-option",
                            .seed = {true, 4},
                            .max_epochs = {true, 4},
                            .max_steps = {true, 4},
                            .accum = {true, 4},
                            .gradient_clip_norm = {true, 4},
                            .learning_rate = {true, 4},
                            .check_divergence = {true, false},
                            .compute_dtype = "f16",
                            .quiet = true};
}

static nt_run *plan_of(const nt_experiment *experiment, const nt_run_options *options) {
    nt_run *run;
    if (nt__plan_new(experiment, NULL, options, &run) != NT_OK) fail_msg("%s", nt_error_message());
    return run;
}

static void assert_found(const nt_experiment *experiment, const nt_run_options *options, const nt__settings *expected) {
    nt_run *run = plan_of(experiment, options);
    const nt__settings *s = &run->task.settings;
    assert_string_equal(s->run_dir, expected->run_dir);
    assert_int_equal(s->seed, expected->seed);
    assert_int_equal(s->max_epochs, expected->max_epochs);
    assert_int_equal(s->max_steps, expected->max_steps);
    assert_int_equal(s->accum, expected->accum);
    assert_true(s->gradient_clip_norm == expected->gradient_clip_norm);
    assert_true(s->learning_rate == expected->learning_rate);
    assert_int_equal(s->check_divergence, expected->check_divergence);
    assert_string_equal(s->compute_dtype, expected->compute_dtype);
    nt__sources from = s->from;
    from.rule = expected->from.rule;
    assert_memory_equal(&from, &expected->from, sizeof from);
    nt_run_free(run);
}

static nt__settings all_from(nt__source from, const char *run_dir, int64_t number, const char *dtype) {
    nt__sources sources = {.run_dir = from,
                           .seed = from,
                           .max_epochs = from,
                           .max_steps = from,
                           .accum = from,
                           .gradient_clip_norm = from,
                           .learning_rate = from,
                           .check_divergence = from,
                           .compute_dtype = from};
    return (nt__settings){.from = sources,
                          .run_dir = run_dir,
                          .seed = number,
                          .max_epochs = number,
                          .max_steps = number,
                          .accum = number,
                          .gradient_clip_norm = (double)number,
                          .learning_rate = (double)number,
                          .compute_dtype = dtype};
}

static void the_first_that_is_given_counts(void **state) {
    (void)state;
    const nt_run_options none = {.quiet = true}, all = all_options();
    nt_experiment hooked = with_hooks(), plain_hooked = *Plain_experiment();
    plain_hooked.hooks.seed = hook_whole;
    nt__settings expected = all_from(NT__FROM_OPTION, "from-option", 4, "f16");
    assert_found(&hooked, &all, &expected);
    assert_found(Plain_experiment(), &all, &expected);
    expected = all_from(NT__FROM_HOOK, "from-hook", 3, "bf16");
    assert_found(&hooked, &none, &expected);
    expected = all_from(NT__FROM_FIELD, "from-field", 2, "f32");
    assert_found(Sources_experiment(), &none, &expected);
    expected = (nt__settings){.run_dir = "runs/Plain",
                              .seed = 42,
                              .max_epochs = 1,
                              .max_steps = INT64_MAX,
                              .accum = 1,
                              .learning_rate = 1e-3,
                              .check_divergence = true,
                              .compute_dtype = "f32"};
    assert_found(Plain_experiment(), &none, &expected);
    expected.from.seed = NT__FROM_HOOK;
    expected.seed = 3;
    assert_found(&plain_hooked, &none, &expected);
}

static const char *hook_log(const void *e) {
    (void)e;
    return "none";
}

static void assert_log(const nt_experiment *experiment, const char *option, const char *log, nt__source from) {
    const nt_run_options options = {.quiet = true, .log = option};
    nt_run *run = plan_of(experiment, &options);
    assert_string_equal(run->task.settings.log, log);
    assert_int_equal(run->task.settings.from.log, from);
    nt_run_free(run);
}

static void loggers_are_from_the_option_or_the_hook(void **state) {
    (void)state;
    nt_experiment hooked = *Plain_experiment();
    hooked.hooks.log = hook_log;
    assert_log(Plain_experiment(), NULL, "jsonl", NT__FROM_DEFAULT);
    assert_log(&hooked, NULL, "none", NT__FROM_HOOK);
    assert_log(&hooked, "jsonl", "jsonl", NT__FROM_OPTION);
    nt_run *run;
    assert_int_equal(nt__plan_new(&hooked, NULL, &(nt_run_options){.quiet = true, .log = "json"}, &run), NT_INVALID);
    assert_non_null(
        strstr(nt_error_message(), "log is 'json' (from the option log): there is no logger 'json'; they "));
    const nt_logger mine = {.name = "mine"};
    const nt_run_options options = {.quiet = true, .loggers = &mine, .logger_count = 1};
    assert_int_equal(nt__plan_new(&hooked, NULL, &options, &run), NT_INVALID);
    assert_string_equal(nt_error_message(), "loggers[0] ('mine') has no open, which a logger must have");
}

/* A hook of run_dir may leave it to the field, and each hook is asked once. */
static void a_hook_is_asked_once(void **state) {
    (void)state;
    nt_experiment hooked = with_hooks();
    hooked.hooks.max_epochs = hooked.hooks.max_steps = hooked.hooks.accum = NULL;
    Sources fields = Sources_defaults();
    fields.seed = 7;
    nt_run *run;
    calls = 0;
    assert_int_equal(nt__plan_new(&hooked, &fields, NULL, &run), NT_OK);
    assert_int_equal(calls, 1);
    assert_string_equal(run->task.settings.run_dir, "from-field");
    assert_int_equal(run->task.settings.from.run_dir, NT__FROM_FIELD);
    nt_run_free(run);
}

static void the_report_names_the_sources(void **state) {
    (void)state;
    nt_experiment hooked = with_hooks();
    const nt_run_options options = {.seed = {true, 5}, .checkpoint_metric = "f1", .quiet = true};
    nt_run *run = plan_of(&hooked, &options);
    nt__text text = {0};
    nt__report_add(&run->resident, &text);
    static const char *const lines[] = {"run_dir: from-hook [hook]\n",      "seed: 5 [option]\n",
                                        "max_epochs: 3 [hook]\n",           "accum: 3 [hook]\n",
                                        "learning_rate: 3 [hook]\n",        "gradient clip: norm 3 [hook]\n",
                                        "check_divergence: false [hook]\n", "compute_dtype: bf16 [hook]\n",
                                        "checkpoint_metric: f1 [option]\n", "checkpoint_mode: max [default]\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text.data, lines[i])) fail_msg("no '%s' in\n%s", lines[i], text.data);
    nt__text_free(&text);
    nt_run_free(run);
}

/* ---- bad values ------------------------------------------------------------------------------------------------- */

static int64_t below_0(const void *e) {
    (void)e;
    return -1;
}
static double not_a_number(const void *e) {
    (void)e;
    return NAN;
}

static void refuse(const nt_experiment *experiment, const Sources *fields, const nt_run_options *options,
                   const char *message) {
    nt_run *run;
    assert_int_equal(nt__plan_new(experiment, fields, options, &run), NT_INVALID);
    if (!strstr(nt_error_message(), message)) fail_msg("%s", nt_error_message());
}

static void a_bad_value_says_where_it_is_from(void **state) {
    (void)state;
    nt_experiment hooked = *Sources_experiment();
    Sources fields = Sources_defaults();
    hooked.hooks.seed = below_0;
    refuse(&hooked, NULL, NULL, "seed is -1 (from the seed hook); give 0 or more");
    hooked = *Sources_experiment();
    hooked.hooks.accum = below_0;
    refuse(&hooked, NULL, NULL, "accum is -1 (from the accum hook); a step has at least 1 micro-batch");
    hooked = *Sources_experiment();
    hooked.hooks.learning_rate = not_a_number;
    refuse(&hooked, NULL, NULL, "learning_rate is nan (from the learning_rate hook)");
    refuse(&hooked, NULL, &(nt_run_options){.learning_rate = {true, -1}},
           "learning_rate is -1 (from the option learning_rate)");
    fields.max_epochs = -4;
    refuse(Sources_experiment(), &fields, NULL, "max_epochs is -4 (from the field max_epochs); give 0 or more");
    fields = Sources_defaults();
    fields.max_steps = 1.5;
    refuse(Sources_experiment(), &fields, NULL, "field max_steps is 1.5; it must be a whole number below 2^53");
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

static const char *hook_mode(const void *e) {
    (void)e;
    return "max";
}

static void assert_mode_of(const char *metric, const char *given, const char *mode) {
    const nt_run_options options = {.checkpoint_metric = metric, .checkpoint_mode = given};
    nt_run *run = plan_of(Sources_experiment(), &options);
    assert_string_equal(run->task.settings.checkpoint_mode, mode);
    nt_run_free(run);
}

static void how_records_are_kept_is_a_setting_too(void **state) {
    (void)state;
    nt_experiment hooked = *Sources_experiment();
    nt_run *run = plan_of(&hooked, NULL);
    const nt__settings *s = &run->task.settings;
    assert_true(s->checkpoint && s->checkpoint_keep_latest);
    assert_int_equal(s->checkpoint_keep, 3);
    assert_string_equal(s->checkpoint_metric, "val_loss");
    assert_string_equal(s->checkpoint_mode, "min");
    assert_int_equal(s->checkpoint_every_steps, 0);
    assert_true(s->checkpoint_every_minutes == 0);
    nt_run_free(run);
    hooked.hooks.checkpoint_keep = hook_whole;
    hooked.hooks.checkpoint_mode = hook_mode;
    const nt_run_options options = {.checkpoint_metric = "accuracy", .checkpoint_every_minutes = {true, 0.5}};
    run = plan_of(&hooked, &options);
    s = &run->task.settings;
    assert_int_equal(s->checkpoint_keep, 3);
    assert_int_equal(s->from.checkpoint_keep, NT__FROM_HOOK);
    assert_string_equal(s->checkpoint_metric, "accuracy");
    assert_string_equal(s->checkpoint_mode, "max");
    assert_true(s->checkpoint_every_minutes == 0.5);
    nt_run_free(run);
    hooked.hooks.checkpoint = hook_truth;
    run = plan_of(&hooked, NULL);
    assert_false(run->task.settings.checkpoint);
    nt_run_free(run);
    assert_mode_of("accuracy", NULL, "max");
    assert_mode_of("val_loss", NULL, "min");
    assert_mode_of("perplexity", NULL, "min");
    assert_mode_of("accuracy", "min", "min");
    assert_mode_of("exact_match", NULL, "max");
    assert_mode_of("made_up", "max", "max");
    refuse(Sources_experiment(), NULL, &(nt_run_options){.checkpoint_keep = {true, 0}},
           "checkpoint_keep is 0 (from the option checkpoint_keep); give how many of the best are kept, 1 or more");
    refuse(Sources_experiment(), NULL, &(nt_run_options){.checkpoint_mode = "least"},
           "checkpoint_mode is 'least' (from the option checkpoint_mode); give min or max");
    refuse(Sources_experiment(), NULL, &(nt_run_options){.checkpoint_every_steps = {true, -2}},
           "checkpoint_every_steps is -2 (from the option checkpoint_every_steps); give 0 or more");
    refuse(Sources_experiment(), NULL, &(nt_run_options){.checkpoint_keep_epochs = {true, -1}},
           "checkpoint_keep_epochs is -1 (from the option checkpoint_keep_epochs); give 0 or more");
    refuse(Sources_experiment(), NULL, &(nt_run_options){.checkpoint_keep_steps = {true, -1}},
           "checkpoint_keep_steps is -1 (from the option checkpoint_keep_steps); give 0 or more");
    refuse(Sources_experiment(), NULL, &(nt_run_options){.checkpoint_scope = "all"},
           "checkpoint_scope is 'all' (from the option checkpoint_scope); give run, to keep other runs' checkpoints");
    refuse(Sources_experiment(), NULL, &(nt_run_options){.checkpoint_every_minutes = {true, NAN}},
           "checkpoint_every_minutes is nan");
}

/* ---- every row -------------------------------------------------------------------------------------------------- */

/* A value that is not the default, as an option; false: the test knows none for a text. */
static bool give(const nt__setting *setting, nt_run_options *options) {
    static const struct {
        const char *name, *text;
    } texts[] = {{"run_dir", "elsewhere"},   {"log", "csv"},
                 {"compute_dtype", "bf16"},  {"checkpoint_metric", "f1"},
                 {"checkpoint_mode", "max"}, {"checkpoint_scope", "dir"}};
    char *at = (char *)options + setting->option;
    if (setting->type == NT_FIELD_INT64) memcpy(at, &(nt_maybe_int){true, 4}, sizeof(nt_maybe_int));
    if (setting->type == NT_FIELD_DOUBLE) memcpy(at, &(nt_maybe_double){true, 0.25}, sizeof(nt_maybe_double));
    if (setting->type == NT_FIELD_BOOL)
        memcpy(at, &(nt_maybe_bool){true, !setting->initial.truth}, sizeof(nt_maybe_bool));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(texts[i].name, setting->name) == 0) memcpy(at, &texts[i].text, sizeof texts[i].text);
    return setting->type != NT_FIELD_STRING || *(const char **)(void *)at;
}

/* A new row is told like the others, or says in its column where it is not. */
static void every_setting_is_told_when_it_is_given(void **state) {
    (void)state;
    const nt__setting *setting;
    for (size_t i = 0; (setting = nt__setting_at(i)); i++) {
        nt_run_options options = {.quiet = true};
        char line[64];
        if (!give(setting, &options)) fail_msg("no value of %s in this test", setting->name);
        nt_run *run = plan_of(Plain_experiment(), &options);
        nt__text text = {0};
        nt__report_add(&run->resident, &text);
        snprintf(line, sizeof line, "\n  %s: ", setting->name);
        const char *found = strstr(text.data, line), *end = found ? strchr(found + 1, '\n') : NULL;
        if (setting->told & NT__NOT_IN_REPORT)
            assert_null(found);
        else if (!end || strncmp(end - strlen("[option]"), "[option]", strlen("[option]")) != 0)
            fail_msg("no line of %s as an option in\n%s", setting->name, text.data);
        assert_int_equal(nt__setting_source(setting, &run->task.settings), NT__FROM_OPTION);
        nt__text_free(&text);
        nt_run_free(run);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_is_given_counts),
        cmocka_unit_test(loggers_are_from_the_option_or_the_hook),
        cmocka_unit_test(a_hook_is_asked_once),
        cmocka_unit_test(the_report_names_the_sources),
        cmocka_unit_test(a_bad_value_says_where_it_is_from),
        cmocka_unit_test(how_records_are_kept_is_a_setting_too),
        cmocka_unit_test(every_setting_is_told_when_it_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
