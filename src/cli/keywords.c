/* The flags that every experiment has: one row each, with all that the parser and the manual need to know.
 * Not here: fields of experiments, which come from their declarations.
 */
#include "cli/arguments.h"

#define FIELD(name_, member, type_, default_, doc_) \
    .field = {.name = name_,                        \
              .type = NT_FIELD_##type_,             \
              .default_text = default_,             \
              .doc = doc_,                          \
              .offset = offsetof(nt__command_options, member)}

/* Of a set, which commands take by its name; OWN: of a set of its own. */
#define FLAG(group_, set_, ...) \
    { FIELD(__VA_ARGS__), .given = NT__NOT_NOTED, .group = NT__FLAGS_##group_, .set = #set_ }
#define OWN(group_, name_, ...) \
    { FIELD(name_, __VA_ARGS__), .given = NT__NOT_NOTED, .group = NT__FLAGS_##group_, .set = name_ }

/* Settings of a run (nitro/settings.h) are in the set of the part of a run that uses them. A number says itself that it
 * was given, a text by not being NULL. */
#define SET_MODEL "model"
#define SET_RUN "run"
#define SET_EVALUATION "evaluation"
#define SET_BEST "best"
#define SET_TRAINING "training"
#define MEMBER_STRING(name) run.name
#define MEMBER_INT64(name) run.name.value
#define MEMBER_DOUBLE(name) run.name.value
#define MEMBER_BOOL(name) run.name.value
#define GIVEN_STRING(name) NT__NOT_NOTED
#define GIVEN_INT64(name) offsetof(nt__command_options, run.name.given)
#define GIVEN_DOUBLE GIVEN_INT64
#define GIVEN_BOOL GIVEN_INT64
#define SETTING(E, TYPE, name_, scope, initial, shown, check, told, doc_)                                          \
    {FIELD(#name_, MEMBER_##TYPE(name_), TYPE, shown, doc_), .given = GIVEN_##TYPE(name_), .group = NT__FLAGS_RUN, \
     .set = SET_##scope},

/* A flag of a run that may be given several times. */
#define LIST(set_, name_, member, default_, doc_)                                                                   \
    {                                                                                                               \
        FIELD(name_, member, STRING, default_, doc_), .given = NT__NOT_NOTED, .group = NT__FLAGS_RUN, .set = #set_, \
                                                      .is_list = true                                               \
    }

static const nt__keyword keywords[] = {
    FLAG(RUN, choose, "preset", run.preset, STRING, "none",
         "fields set by a name of the experiment's; flags win over it"),
    NT_SETTINGS_(SETTING, ){
        FIELD(
            "resume", run.resume, STRING, "none",
            "go on from the newest checkpoint in run_dir, or --resume=PATH, =RUN:best, =RUN:latest; RUN: latest, an id "
            "or a "
            "folder"),
        .given = NT__NOT_NOTED, .group = NT__FLAGS_RUN, .set = "train", .alone = "auto"},
    {FIELD("schedule", schedules, STRING, "the schedules hook",
           "NAME=cosine:FROM:TO or another kind, which `nitro help train` lists; for each value once. Replaces all of "
           "the hook"),
     .given = NT__NOT_NOTED, .group = NT__FLAGS_RUN, .set = "training", .is_list = true},
    OWN(RUN, "split", split, STRING, "test", "the data to evaluate"),
    FLAG(RUN, weights, "weights", weights, STRING, "those trained; train: none",
         "the parameters to use or to start with: a file, or RUN:best, RUN:latest; RUN: latest, an id of run_dir or a "
         "folder"),
    LIST(weights, "weight_map", maps, "none",
         "FROM=TO[:transpose], once or more: arrays called FROM in the weights are TO; * is any text"),
    OWN(RUN, "restore_optimizer", run.restore_optimizer, BOOL, "false",
        "with --weights of a checkpoint: take the optimizer's states too"),
    FLAG(RUN, train, "restore_best", run.restore_best, BOOL, "false",
         "end training with the parameters of the best checkpoint"),
    LIST(input, "input", inputs, "none",
         "[FIELD=]FILE, once or more: .npy, .safetensors or IDX (also .gz), axis 0 the sample"),
    OWN(RUN, "out", out, STRING, "none",
        "the predictions: a .npy or .safetensors file; schedule: a .csv with every step; plot: an .svg or .png"),
    OWN(OUTPUT, "resolved", resolved, BOOL, "false", "where each setting and schedule of a run comes from"),
    LIST(make, "compile_option", compile_options, "none", "NAME=VALUE for the engine's compiler, once or more"),
    FLAG(RUN, make, "no_cache", run.no_disk_cache, BOOL, "false", "compile, and leave the programs on disk alone"),
    {FIELD("metric", metrics, STRING, "val_loss, or the first one",
           "once or more; history: the first decides on the best; plot: also CONTEXT/NAME, as train/loss"),
     .given = NT__NOT_NOTED, .group = NT__FLAGS_OUTPUT, .set = "look", .is_list = true},
    FLAG(OUTPUT, look, "mode", mode, STRING, "by the name",
         "min or max: whether the best is the smallest or the largest"),
    OWN(OUTPUT, "x", x, STRING, "epoch", "epoch or step; of CONTEXT/NAME step"),
    OWN(OUTPUT, "epochs", epochs, STRING, "all that fit", "FIRST:LAST, those that are shown"),
    OWN(OUTPUT, "all", all, BOOL, "false", "clear: the compiled experiments too"),
    FLAG(OUTPUT, make, "quiet", run.quiet, BOOL, "false", "results only and warnings: no progress, no notices"),
    OWN(OUTPUT, "strict", strict, BOOL, "false",
        "a warning is an error: what would change a result ends the command with exit code 1"),
    OWN(OUTPUT, "stats", stats, STRING, "none", "write counters of the process to this JSON file at the end"),
    FLAG(OUTPUT, make, "trace_transfers", run.trace_transfers, BOOL, "false",
         "a line a step: what moved to and from the device"),
    FLAG(OUTPUT, train, "gradient_norm", run.gradient_norm, BOOL, "false",
         "each step's line in the log has grad_norm, the norm of the gradients before any clip"),
    FLAG(OUTPUT, train, "histograms", run.histograms, BOOL, "false",
         "the tensorboard log has a histogram of each parameter, an epoch each"),
    OWN(OUTPUT, "help", help, BOOL, "false", "show how the command is used"),
    FLAG(BUILD, choose, "experiment", experiment, STRING, "the only one", "which experiment of the files"),
    OWN(BUILD, "watch", watch, BOOL, "false", "compile and load at once when a file changes"),
    FLAG(BUILD, build, "cflags", cflags, STRING, "none", "more flags for the compiler, quoted as for a shell"),
    FLAG(BUILD, build, "ldflags", ldflags, STRING, "none", "more flags and libraries for the linker"),
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
