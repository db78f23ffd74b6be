/* The flags that every experiment has: one row each, with all that the parser and the manual need to know.
 * Not here: fields of experiments, which come from their declarations.
 */
#include "cli/arguments.h"

enum { RUNS = NT__TRAIN | NT__EVALUATE, BUILDS = RUNS | NT__HELP, ALL = BUILDS | NT__DEVICES };

#define ROW(name_, member, type_, default_, doc_) \
    .field = {.name = name_, .type = type_, .default_text = default_, .doc = doc_, .offset = offsetof(nt__settings, member)}
#define UNNOTED(name, member, type, default_, doc) \
    ROW(name, member, type, default_, doc), .given = NT__NOT_NOTED
/* For options of a run that say themselves whether they were given. */
#define NOTED(name, member, type, default_, doc) \
    ROW(name, run.member.value, type, default_, doc), .given = offsetof(nt__settings, run.member.given)

static const nt__keyword keywords[] = {
    {UNNOTED("run_dir", run.run_dir, NT_FIELD_STRING, "runs/<Experiment>", "folder of the parameters and the log"),
     .group = NT__GROUP_RUN, .commands = RUNS, .has_field = true},
    {NOTED("seed", seed, NT_FIELD_INT64, "42", "of initial values and of the order of samples"),
     .group = NT__GROUP_RUN, .commands = RUNS, .has_field = true},
    {NOTED("max_epochs", max_epochs, NT_FIELD_INT64, "1", "passes over the training data"),
     .group = NT__GROUP_RUN, .commands = RUNS, .has_field = true},
    {NOTED("max_steps", max_steps, NT_FIELD_INT64, "no limit", "stop after that many optimizer steps"),
     .group = NT__GROUP_RUN, .commands = RUNS, .has_field = true},
    {NOTED("accum", accum, NT_FIELD_INT64, "1", "micro-batches in an optimizer step"),
     .group = NT__GROUP_RUN, .commands = RUNS, .has_field = true},
    {NOTED("gradient_clip_norm", gradient_clip_norm, NT_FIELD_DOUBLE, "no clipping",
           "largest norm of all gradients together"),
     .group = NT__GROUP_RUN, .commands = RUNS, .has_field = true},
    {NOTED("learning_rate", learning_rate, NT_FIELD_DOUBLE, "the learning_rate hook, else 0.001",
           "step size of the optimizer"),
     .group = NT__GROUP_RUN, .commands = RUNS},
    {UNNOTED("split", split, NT_FIELD_STRING, "test", "the data to evaluate"),
     .group = NT__GROUP_RUN, .commands = NT__EVALUATE},
    {UNNOTED("weights", weights, NT_FIELD_STRING, "<run_dir>/parameters.safetensors", "the parameters to evaluate"),
     .group = NT__GROUP_RUN, .commands = NT__EVALUATE},
    {UNNOTED("quiet", run.quiet, NT_FIELD_BOOL, "false", "results only: no progress, no notices"),
     .group = NT__GROUP_OUTPUT, .commands = RUNS},
    {UNNOTED("stats", stats, NT_FIELD_STRING, "none", "write counters of the process to this JSON file at the end"),
     .group = NT__GROUP_OUTPUT, .commands = RUNS},
    {UNNOTED("help", help, NT_FIELD_BOOL, "false", "show how the command is used"),
     .group = NT__GROUP_OUTPUT, .commands = ALL},
    {UNNOTED("experiment", experiment, NT_FIELD_STRING, "the only one", "which experiment of the files"),
     .group = NT__GROUP_BUILD, .commands = BUILDS},
    {UNNOTED("cflags", cflags, NT_FIELD_STRING, "none", "more flags for the compiler, quoted as for a shell"),
     .group = NT__GROUP_BUILD, .commands = BUILDS},
    {UNNOTED("ldflags", ldflags, NT_FIELD_STRING, "none", "more flags and libraries for the linker"),
     .group = NT__GROUP_BUILD, .commands = BUILDS},
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
