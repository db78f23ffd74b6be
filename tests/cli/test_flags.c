/* Flags that a run does not use are refused, and warnings are shown whatever is asked for, or are errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/arguments.h"
#include "command.h"

static const char source[] =
    "#include <nitro.h>\n"
    "#define LIST(FIELD, DEVICE, GRAPH_CONST) DEVICE(float, smoothing, 0.1f, \"of labels\") "
    "FIELD(int, batch, 8, \"\")\n"
    "NT_EXPERIMENT(Small, LIST)\n"
    "static nt_status build_data(const Small *e, nt_data *data) {\n"
    "    nt_array *x = nt_array_new(NT_F32, nt_dims(32, 3)), *label = nt_array_new(NT_I32, nt_dims(32));\n"
    "    for (int i = 0; i < 96; i++) nt_array_set(x, i, (i * 37 % 17 - 8) / 8.0);\n"
    "    for (int i = 0; i < 32; i++) nt_array_set(label, i, i * 7 % 2);\n"
    "    nt_split(data, \"train\", .batch = e->batch);\n"
    "    nt_split(data, \"val\", .batch = e->batch, .limit = 8, .shares = \"train\");\n"
    "    nt_split_field(data, \"train\", \"x\", nt_array_retain(x));\n"
    "    nt_split_field(data, \"train\", \"label\", nt_array_retain(label));\n"
    "    nt_split_field(data, \"val\", \"x\", x);\n"
    "    nt_split_field(data, \"val\", \"label\", label);\n"
    "    return nt_data_status(data);\n"
    "}\n"
    "static nt_tensor forward(const Small_view *e, nt_model *m, nt_batch *batch) {\n"
    "    return nt_dense(m, \"logits\", nt_field(batch, \"x\"), 2);\n"
    "}\n"
    "static nt_tensor loss(const Small_view *e, nt_tensor logits, nt_batch *batch) {\n"
    "    return nt_cross_entropy(logits, nt_field(batch, \"label\"), .label_smoothing = e->smoothing);\n"
    "}\n"
    "NT_DEFINE(Small, LIST, .build_data = build_data, .forward = forward, .loss = loss);\n";

/* ---- warnings --------------------------------------------------------------------------------------------------- */

static const char resumes_nothing[] = "warning: Small: there is nothing to resume in 'runs/Small', so the run begins "
                                      "anew\n";

static void quiet_shows_warnings(void **state) {
    (void)state;
    scratch_remove_path("runs");
    const ended *e = nitro("train", "small.c", "--resume", "--quiet");
    assert_int_equal(e->code, 0);
    assert_string_equal(e->err, resumes_nothing);
    assert_has(e->out, "parameters in runs/Small/parameters.safetensors\n");
}

static void strict_makes_errors_of_warnings(void **state) {
    (void)state;
    scratch_remove_path("runs");
    const ended *e = nitro("train", "small.c", "--resume", "--quiet", "--strict");
    assert_int_equal(e->code, 1);
    assert_string_equal(e->err, "nitro: Small: there is nothing to resume in 'runs/Small', so the run begins anew\n");
    assert_string_equal(e->out, "");
    assert_int_equal(access("runs/Small/parameters.safetensors", F_OK), -1);
    e = nitro("train", "small.c", "--quiet", "--strict");
    assert_int_equal(e->code, 0);
    assert_string_equal(e->err, "");
}

static void a_shell_can_be_strict(void **state) {
    (void)state;
    char line[SCRATCH_PATH * 2];
    scratch_remove_path("runs");
    snprintf(line, sizeof line, "echo new --resume | %s shell small.c --quiet", command_path());
    const ended *e = run_words((const char *const[]){"sh", "-c", line, NULL});
    assert_int_equal(e->code, 0);
    assert_string_equal(e->err, resumes_nothing);
    scratch_remove_path("runs");
    strcat(line, " --strict");
    e = run_words((const char *const[]){"sh", "-c", line, NULL});
    assert_int_equal(e->code, 1);
    assert_string_equal(e->err, "nitro: Small: there is nothing to resume in 'runs/Small', so the run begins anew\n");
}

/* ---- every flag ------------------------------------------------------------------------------------------------- */

/* For each flag a command line that gives it no effect, and what refuses that. `words` begins with the command; without
 * any, the flag has an effect in every line that its commands take. */
static const struct {
    const char *flag, *words[8], *part;
} rows[] = {
    {"preset", {"train", "small.c", "--preset=none"}, "has no preset 'none'"},
    {"run_dir", {0}, NULL},
    {"seed",
     {"train", "small.c", "--run-dir=seeded", "--resume", "--max-epochs=9", "--seed=7", "--strict"},
     "the seed is that of the checkpoint, 42, not 7 as it was asked for"},
    {"max_epochs", {"evaluate", "small.c", "--max-epochs=3"}, "is a flag of nitro train"},
    {"max_steps",
     {"train", "small.c", "--run-dir=seeded", "--resume", "--max-steps=2"},
     "the option max_steps is given as 2, and the checkpoint is at step 4 already"},
    {"accum", {"evaluate", "small.c", "--accum=2"}, "is a flag of nitro train"},
    {"gradient_clip_norm", {"evaluate", "small.c", "--gradient-clip-norm=1"}, "is a flag of nitro train"},
    {"ema_decay", {"evaluate", "small.c", "--ema-decay=0.9"}, "is a flag of nitro train"},
    {"learning_rate",
     {"train", "small.c", "--learning-rate=1", "--schedule=learning_rate=cosine:1:0"},
     "the option learning_rate is given as 1, and nothing would use it: the run's option sets every rate"},
    {"check_divergence", {"evaluate", "small.c", "--no-check-divergence"}, "is a flag of nitro train"},
    {"log", {"evaluate", "small.c", "--log=csv"}, "is a flag of nitro train"},
    {"compute_dtype", {0}, NULL},
    {"resume", {"train", "small.c", "--resume", "--weights=w"}, "leave one out"},
    {"val_loss", {0}, NULL},
    {"checkpoint", {"evaluate", "small.c", "--no-checkpoint"}, "is a flag of nitro train"},
    {"checkpoint_every_steps",
     {"train", "small.c", "--no-checkpoint", "--checkpoint-every-steps=2"},
     "the option checkpoint_every_steps is given, and nothing would use it: no checkpoint is written"},
    {"checkpoint_every_minutes",
     {"train", "small.c", "--no-checkpoint", "--checkpoint-every-minutes=2"},
     "the option checkpoint_every_minutes is given"},
    {"checkpoint_keep",
     {"train", "small.c", "--no-checkpoint", "--checkpoint-keep=2"},
     "the option checkpoint_keep is given"},
    {"checkpoint_metric", {"evaluate", "small.c", "--checkpoint-metric=val_loss"}, "add --weights=RUN:best"},
    {"checkpoint_mode",
     {"train", "small.c", "--no-checkpoint", "--checkpoint-mode=min"},
     "the option checkpoint_mode is given"},
    {"checkpoint_keep_latest",
     {"train", "small.c", "--no-checkpoint", "--no-checkpoint-keep-latest"},
     "the option checkpoint_keep_latest is given"},
    {"checkpoint_keep_epochs",
     {"train", "small.c", "--no-checkpoint", "--checkpoint-keep-epochs=2"},
     "the option checkpoint_keep_epochs is given"},
    {"checkpoint_keep_steps",
     {"train", "small.c", "--no-checkpoint", "--checkpoint-keep-steps=2"},
     "the option checkpoint_keep_steps is given"},
    {"checkpoint_scope",
     {"train", "small.c", "--no-checkpoint", "--checkpoint-scope=dir"},
     "the option checkpoint_scope is given"},
    {"schedule", {"train", "small.c", "--schedule=smothing=constant:1"}, "smothing"},
    {"split", {"train", "small.c", "--split=val"}, "is a flag of nitro evaluate"},
    {"weights", {"train", "small.c", "--weights=w", "--resume"}, "leave one out"},
    {"weight_map", {"train", "small.c", "--weight-map=*=*"}, "there is no --weights: add that"},
    {"restore_optimizer", {"train", "small.c", "--restore-optimizer"}, "goes with --weights of a checkpoint"},
    {"restore_best", {"evaluate", "small.c", "--restore-best"}, "is a flag of nitro train"},
    {"input", {"train", "small.c", "--input=x.npy"}, "is a flag of nitro predict"},
    {"out", {"train", "small.c", "--out=x.npy"}, "is a flag of nitro predict"},
    {"resolved", {"train", "small.c", "--resolved"}, "is a flag of nitro help"},
    {"compile_option", {0}, NULL},
    {"no_cache", {0}, NULL},
    {"metric", {"train", "small.c", "--metric=loss"}, "is a flag of nitro history"},
    {"mode", {"train", "small.c", "--mode=min"}, "is a flag of nitro history"},
    {"x", {"history", "--x=step"}, "is a flag of nitro plot"},
    {"epochs", {"plot", "--epochs=1:2"}, "is a flag of nitro history"},
    {"all", {"cache", "list", "--all"}, "--all goes with nitro cache clear"},
    {"quiet", {"help", "small.c", "--quiet"}, "goes with --resolved"},
    {"strict", {"help", "small.c", "--strict"}, "goes with --resolved"},
    {"stats", {"help", "small.c", "--stats=s.json"}, "goes with --resolved"},
    {"trace_transfers", {"help", "small.c", "--trace-transfers"}, "goes with --resolved"},
    {"gradient_norm", {"train", "small.c", "--gradient-norm", "--log=none"}, "leave one of them out"},
    {"histograms", {"train", "small.c", "--histograms"}, "none of the loggers keeps histograms"},
    {"help", {0}, NULL},
    {"experiment", {"help", "train", "--experiment=Small"}, "goes with a FILE.c"},
    {"watch", {"train", "small.c", "--watch"}, "is a flag of nitro shell"},
    {"cflags", {"help", "--cflags=-O0"}, "goes with a FILE.c"},
    {"ldflags", {"help", "train", "--ldflags=-lm"}, "goes with a FILE.c"},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void every_flag_has_a_row(void **state) {
    (void)state;
    const nt__keyword *keyword;
    for (size_t i = 0; (keyword = nt__keyword_at(i)); i++) {
        size_t row = 0;
        while (row < ROWS && strcmp(rows[row].flag, keyword->field.name) != 0) row++;
        if (row == ROWS) fail_msg("no row for %s", keyword->field.name);
    }
}

static void a_flag_without_effect_is_refused(void **state) {
    (void)state;
    assert_int_equal(nitro("train", "small.c", "--run-dir=seeded", "--quiet")->code, 0);
    for (size_t i = 0; i < ROWS; i++) {
        if (!rows[i].words[0]) continue;
        const ended *e = run_nitro(rows[i].words);
        if (e->code == 0 || !strstr(e->err, rows[i].part))
            fail_msg("%s: exit %d, no '%s' in: %s", rows[i].flag, e->code, rows[i].part, e->err);
    }
}

/* Of a field too, whatever value it is given. */
static void a_field_under_a_schedule_is_refused(void **state) {
    (void)state;
    static const char *const values[] = {"--smoothing=0.3", "--smoothing=0.1"};
    for (size_t i = 0; i < 2; i++) {
        const ended *e = nitro("schedule", "small.c", values[i], "--schedule=smoothing=constant:0.2");
        assert_int_equal(e->code, 1);
        assert_has(e->err, "the field smoothing is given as 0.", "the run's option sets it at each step");
    }
}

/* A shell that makes no run writes its counters too. */
static void a_shell_writes_its_counters(void **state) {
    (void)state;
    char line[SCRATCH_PATH * 2];
    snprintf(line, sizeof line, "echo help | %s shell small.c --stats=counters.json", command_path());
    assert_int_equal(run_words((const char *const[]){"sh", "-c", line, NULL})->code, 0);
    assert_int_equal(access("counters.json", F_OK), 0);
}

/* Of one flag the last value counts, as for other commands. */
static void the_last_value_counts(void **state) {
    (void)state;
    const ended *e = nitro("help", "small.c", "--resolved", "--seed=1", "--seed=2");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "seed: 2 [option]");
}

static int set_up(void **state) {
    if (command_make(state) != 0 || chdir(scratch_folder) != 0) return -1;
    put_text("small.c", source);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quiet_shows_warnings),
        cmocka_unit_test(strict_makes_errors_of_warnings),
        cmocka_unit_test(a_shell_can_be_strict),
        cmocka_unit_test(every_flag_has_a_row),
        cmocka_unit_test(a_flag_without_effect_is_refused),
        cmocka_unit_test(a_field_under_a_schedule_is_refused),
        cmocka_unit_test(a_shell_writes_its_counters),
        cmocka_unit_test(the_last_value_counts),
    };
    return cmocka_run_group_tests_name("flags", tests, set_up, scratch_remove);
}
