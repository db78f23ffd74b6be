/* Flags that the command cannot use beside the others: each is refused, with the reason.
 * Not here: options that the run itself cannot use (resident/scheduled.c).
 */
#include <string.h>

#include "base/base.h"
#include "cli/arguments.h"

static bool loads_best(const nt__command_options *o) {
    return o->weights && nt__ends_in(o->weights, ":best");
}

static bool ranks_without_best(const nt__command_options *o) {
    return (o->run.checkpoint_metric || o->run.checkpoint_mode) && !loads_best(o);
}

static bool norms_without_log(const nt__command_options *o) {
    return o->run.gradient_norm && o->run.log && strcmp(o->run.log, "none") == 0;
}

static bool optimizer_without_weights(const nt__command_options *o) {
    return o->run.restore_optimizer && !o->weights;
}

static bool maps_without_weights(const nt__command_options *o) {
    return o->maps.count && !o->weights;
}

static const struct {
    const char *commands[2];
    bool (*is_unused)(const nt__command_options *options);
    const char *line;
} rules[] = {
    {{"evaluate", "predict"},
     ranks_without_best,
     "--checkpoint-metric and --checkpoint-mode say which checkpoint is the best, and nothing asks for that: add "
     "--weights=RUN:best, or leave them out"},
    {{"train"},
     norms_without_log,
     "--gradient-norm adds to the log, and --log=none leaves that out: leave one of them out"},
    {{"train"}, optimizer_without_weights, "--restore-optimizer goes with --weights of a checkpoint: add that"},
    {{"train"},
     maps_without_weights,
     "--weight-map gives arrays of --weights other names, and there is no --weights: add that"},
};

static bool is_one_of(const char *const commands[2], const char *name) {
    return strcmp(commands[0], name) == 0 || (commands[1] && strcmp(commands[1], name) == 0);
}

nt_status nt__options_check_together(const nt__takes *command, const nt__command_options *options) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (is_one_of(rules[i].commands, command->command) && rules[i].is_unused(options))
            return nt__fail(NT_INVALID, "%s", rules[i].line);
    return NT_OK;
}
