/* Options that a run cannot use: each is refused by name, with the reason. A hook, a field or a default that is not
 * used is no error: nobody asked for it.
 * Not here: values that are wrong by themselves (check.c); what a schedule takes the place of (resident/scheduled.c).
 */
#include <string.h>

#include "setting/setting.h"

nt_status nt__refuse_unused(const char *name, const char *reason) {
    return nt__fail(NT_INVALID, "the option %s is given, and nothing would use it: %s. Leave it out", name, reason);
}

static bool is_option(const nt__settings *s, const nt__setting *setting) {
    return nt__setting_source(setting, s) == NT__FROM_OPTION;
}

/* What RUN:best is looked for by, also in weights and a record to go on from. */
static bool finds_best(const nt__setting *setting) {
    return strcmp(setting->name, "checkpoint_metric") == 0 || strcmp(setting->name, "checkpoint_mode") == 0;
}

static bool asks_for_best(const char *source) {
    return source && nt__ends_in(source, ":best");
}

/* Where no checkpoint is written, nothing can say when and which. */
static nt_status check_checkpoints(const nt__settings *s, const nt_run_options *options) {
    const nt__setting *setting;
    bool finds = asks_for_best(options->weights) || asks_for_best(options->resume);
    if (s->checkpoint && !s->no_log) return NT_OK;
    for (size_t i = 0; (setting = nt__setting_at(i)); i++) {
        if (strncmp(setting->name, "checkpoint", strlen("checkpoint")) != 0 || !is_option(s, setting)) continue;
        if (strcmp(setting->name, "checkpoint") == 0 && !s->checkpoint) continue;
        if (finds_best(setting) && finds) continue;
        return nt__refuse_unused(setting->name, s->no_log ? "no checkpoint is written, because no_log is given"
                                                          : "no checkpoint is written, because checkpoint is false");
    }
    return NT_OK;
}

static bool logs_nothing(const nt__settings *s) {
    return s->no_log || (strcmp(s->log, "none") == 0 && s->logger_count == 0);
}

static nt_status check_log(const nt__settings *s) {
    if (s->no_log && s->from.log == NT__FROM_OPTION && strcmp(s->log, "none") != 0)
        return nt__refuse_unused("log", "nothing is logged, because no_log is given");
    if (s->no_log && s->logger_count) return nt__refuse_unused("loggers", "nothing is logged, because no_log is given");
    if (s->histograms && logs_nothing(s))
        return nt__refuse_unused("histograms", "there is no log. The logger tensorboard keeps histograms");
    if (s->histograms && s->logger_count == 0 && !strstr(s->log, "tensorboard"))
        return nt__refuse_unused("histograms", "none of the loggers keeps histograms; log = tensorboard does");
    return NT_OK;
}

nt_status nt__options_check_used(const nt__settings *s, const nt_run_options *options) {
    bool has_weights = options->weights && *options->weights;
    if (options->weight_map_count && !has_weights && !options->trained_weights)
        return nt__refuse_unused("weight_maps", "no weights are given whose arrays they could rename");
    if (s->evaluate_only) return NT_OK;
    nt_status status = check_checkpoints(s, options);
    return status == NT_OK ? check_log(s) : status;
}
