/* The flags that every experiment has: one row each, with all that the parser and the manual need to know.
 * Not here: fields of experiments, which come from their declarations.
 */
#include "cli/arguments.h"

enum {
    RUNS = NT__TRAIN | NT__EVALUATE | NT__PREDICT,
    MAKES = RUNS | NT__SHELL | NT__NEW,
    SETS = MAKES | NT__HELP | NT__SCHEDULE | NT__SUMMARY,
    BUILDS = RUNS | NT__HELP | NT__SHELL | NT__SCHEDULE | NT__SUMMARY,
    LOOKS = NT__HISTORY | NT__RUNS | NT__PLOT,
    TRAINS = SETS & ~(NT__EVALUATE | NT__PREDICT),
    ALL = BUILDS | NT__DEVICES | NT__CACHE | LOOKS | NT__DIFF
};

#define FIELD(name_, member, type_, default_, doc_) \
    .field = {.name = name_,                        \
              .type = NT_FIELD_##type_,             \
              .default_text = default_,             \
              .doc = doc_,                          \
              .offset = offsetof(nt__command_options, member)}

#define FLAG(group_, commands_, ...) \
    { FIELD(__VA_ARGS__), .given = NT__NOT_NOTED, .group = NT__FLAGS_##group_, .commands = commands_ }

/* Settings of a run. A number says itself that it was given, a text by not being NULL. */
#define NUMBER(commands_, name, type, default_, doc)                                                               \
    {                                                                                                              \
        FIELD(#name, run.name.value, type, default_, doc), .given = offsetof(nt__command_options, run.name.given), \
                                                           .group = NT__FLAGS_RUN, .commands = commands_,          \
                                                           .is_setting = true, .idle = NT__SUMMARY                 \
    }
#define TEXT(commands_, idle_, name, default_, doc)                                                             \
    {                                                                                                           \
        FIELD(#name, run.name, STRING, default_, doc), .given = NT__NOT_NOTED, .group = NT__FLAGS_RUN,          \
                                                       .commands = commands_, .is_setting = true, .idle = idle_ \
    }

/* A flag of a run that may be given several times. */
#define LIST(commands_, name_, member, default_, doc_)                                                \
    {                                                                                                 \
        FIELD(name_, member, STRING, default_, doc_), .given = NT__NOT_NOTED, .group = NT__FLAGS_RUN, \
                                                      .commands = commands_, .is_list = true          \
    }

static const nt__keyword keywords[] = {
    FLAG(RUN, BUILDS | NT__NEW, "preset", run.preset, STRING, "none",
         "fields set by a name of the experiment's; flags win over it"),
    TEXT(SETS, NT__SUMMARY, run_dir, "runs/<Experiment>", "folder of the parameters, the checkpoints and the log"),
    NUMBER(SETS, seed, INT64, "42", "of initial values and of the order of samples"),
    NUMBER(TRAINS, max_epochs, INT64, "1", "passes over the training data"),
    NUMBER(TRAINS, max_steps, INT64, "no limit", "stop after that many optimizer steps"),
    NUMBER(TRAINS, accum, INT64, "1", "micro-batches in an optimizer step"),
    NUMBER(TRAINS, gradient_clip_norm, DOUBLE, "no clipping", "largest norm of all gradients together"),
    NUMBER(TRAINS, ema_decay, DOUBLE, "no average", "of a moving average of the parameters, which evaluations have"),
    NUMBER(TRAINS, learning_rate, DOUBLE, "0.001", "step size of the optimizer"),
    NUMBER(TRAINS, check_divergence, BOOL, "true", "end training at a loss that is not finite"),
    TEXT(TRAINS, NT__SUMMARY, log, "jsonl", "loggers of the run, divided by commas, or none"),
    TEXT(SETS, 0, compute_dtype, "f32", "what layers compute in, f32, bf16 or f16; parameters and outputs stay f32"),
    {FIELD("resume", run.resume, STRING, "none",
           "go on from the newest checkpoint in run_dir, or --resume=PATH, =RUN:best, =RUN:latest; RUN: latest, an id "
           "or a "
           "folder"),
     .given = NT__NOT_NOTED, .group = NT__FLAGS_RUN, .commands = NT__TRAIN | NT__SHELL | NT__NEW, .alone = "auto"},
    NUMBER(TRAINS, checkpoint, BOOL, "true", "write checkpoints to resume from, one an epoch and one at the end"),
    NUMBER(TRAINS, checkpoint_every_steps, INT64, "no", "also one at each multiple of so many steps"),
    NUMBER(TRAINS, checkpoint_every_minutes, DOUBLE, "no", "also one when so many have passed since the last"),
    NUMBER(TRAINS, checkpoint_keep, INT64, "3", "how many of the best are kept"),
    TEXT(SETS, NT__SUMMARY, checkpoint_metric, "val_loss",
         "what they are ranked by; with a hook for metrics name one of its values"),
    TEXT(SETS, NT__SUMMARY, checkpoint_mode, "by the name", "min or max: which value of it is better"),
    NUMBER(TRAINS, checkpoint_keep_latest, BOOL, "true", "keep the newest too, whatever it scored"),
    NUMBER(TRAINS, checkpoint_keep_epochs, INT64, "no", "keep each of an epoch that is a multiple of this too"),
    NUMBER(TRAINS, checkpoint_keep_steps, INT64, "no", "the same of the step"),
    TEXT(TRAINS, NT__SUMMARY, checkpoint_scope, "run",
         "dir: rank those of all runs in run_dir together, and delete the rest"),
    NUMBER(SETS & ~NT__PREDICT, val_loss, BOOL, "true", "validations and evaluations report the loss"),
    {FIELD("schedule", schedules, STRING, "the schedules hook",
           "NAME=cosine:FROM:TO or another kind, which `nitro help train` lists; for each value once. Replaces all of "
           "the hook"),
     .given = NT__NOT_NOTED, .group = NT__FLAGS_RUN, .commands = TRAINS, .idle = NT__SUMMARY, .is_list = true},
    FLAG(RUN, NT__EVALUATE, "split", split, STRING, "test", "the data to evaluate"),
    FLAG(RUN, NT__EVALUATE | NT__PREDICT | NT__TRAIN, "weights", weights, STRING, "those trained; train: none",
         "the parameters to use or to start with: a file, or RUN:best, RUN:latest; RUN: latest, an id of run_dir or a "
         "folder"),
    LIST(NT__EVALUATE | NT__PREDICT | NT__TRAIN, "weight_map", maps, "none",
         "FROM=TO[:transpose], once or more: arrays called FROM in the weights are TO; * is any text"),
    FLAG(RUN, NT__TRAIN, "restore_optimizer", run.restore_optimizer, BOOL, "false",
         "with --weights of a checkpoint: take the optimizer's states too"),
    FLAG(RUN, NT__TRAIN | NT__SHELL | NT__NEW, "restore_best", run.restore_best, BOOL, "false",
         "end training with the parameters of the best checkpoint"),
    LIST(NT__PREDICT | NT__PREDICT_AGAIN, "input", inputs, "none",
         "[FIELD=]FILE, once or more: .npy, .safetensors or IDX (also .gz), axis 0 the sample"),
    FLAG(RUN, NT__PREDICT | NT__PREDICT_AGAIN | NT__SCHEDULE | NT__PLOT, "out", out, STRING, "none",
         "the predictions: a .npy or .safetensors file; schedule: a .csv with every step; plot: an .svg or .png"),
    FLAG(OUTPUT, NT__HELP, "resolved", resolved, BOOL, "false", "where each setting and schedule of a run comes from"),
    LIST(MAKES, "compile_option", compile_options, "none", "NAME=VALUE for the engine's compiler, once or more"),
    FLAG(RUN, MAKES, "no_cache", run.no_disk_cache, BOOL, "false", "compile, and leave the programs on disk alone"),
    {FIELD("metric", metrics, STRING, "val_loss, or the first one",
           "once or more; history: the first decides on the best; plot: also CONTEXT/NAME, as train/loss"),
     .given = NT__NOT_NOTED, .group = NT__FLAGS_OUTPUT, .commands = LOOKS, .is_list = true},
    FLAG(OUTPUT, LOOKS, "mode", mode, STRING, "by the name",
         "min or max: whether the best is the smallest or the largest"),
    FLAG(OUTPUT, NT__PLOT, "x", x, STRING, "epoch", "epoch or step; of CONTEXT/NAME step"),
    FLAG(OUTPUT, NT__HISTORY, "epochs", epochs, STRING, "all that fit", "FIRST:LAST, those that are shown"),
    FLAG(OUTPUT, NT__CACHE, "all", all, BOOL, "false", "clear: the compiled experiments too"),
    FLAG(OUTPUT, MAKES, "quiet", run.quiet, BOOL, "false", "results only and warnings: no progress, no notices"),
    FLAG(OUTPUT, RUNS | NT__SHELL | NT__SCHEDULE | NT__SUMMARY, "strict", strict, BOOL, "false",
         "a warning is an error: what would change a result ends the command with exit code 1"),
    FLAG(OUTPUT, RUNS | NT__SHELL, "stats", stats, STRING, "none",
         "write counters of the process to this JSON file at the end"),
    FLAG(OUTPUT, MAKES, "trace_transfers", run.trace_transfers, BOOL, "false",
         "a line a step: what moved to and from the device"),
    FLAG(OUTPUT, NT__TRAIN | NT__SHELL | NT__NEW, "gradient_norm", run.gradient_norm, BOOL, "false",
         "each step's line in the log has grad_norm, the norm of the gradients before any clip"),
    FLAG(OUTPUT, NT__TRAIN | NT__SHELL | NT__NEW, "histograms", run.histograms, BOOL, "false",
         "the tensorboard log has a histogram of each parameter, an epoch each"),
    FLAG(OUTPUT, ALL, "help", help, BOOL, "false", "show how the command is used"),
    FLAG(BUILD, BUILDS | NT__NEW, "experiment", experiment, STRING, "the only one", "which experiment of the files"),
    FLAG(BUILD, NT__SHELL, "watch", watch, BOOL, "false", "compile and load at once when a file changes"),
    FLAG(BUILD, BUILDS, "cflags", cflags, STRING, "none", "more flags for the compiler, quoted as for a shell"),
    FLAG(BUILD, BUILDS, "ldflags", ldflags, STRING, "none", "more flags and libraries for the linker"),
};

const nt__keyword *nt__keyword_at(size_t index) {
    return index < sizeof keywords / sizeof *keywords ? &keywords[index] : NULL;
}

/* Same name, dashes and underscores being the same. */
static bool is_same_name(const char *a, const char *b) {
    while (*a && (*a == *b || (*a == '-' && *b == '_'))) {
        a++;
        b++;
    }
    return *a == 0 && *b == 0;
}

const nt__keyword *nt__keyword_find(const char *name) {
    for (size_t i = 0; nt__keyword_at(i); i++)
        if (is_same_name(name, keywords[i].field.name)) return &keywords[i];
    return NULL;
}
