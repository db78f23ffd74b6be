/* Options that a run cannot use: each is refused by name, with the reason. A hook, a field or a default that is not
 * used is no error: nobody asked for it. Not here: values that are wrong by themselves (settings.c).
 */
#include <string.h>

#include "run/plan.h"
#include "run/run_internal.h"

/* ---- reasons ---------------------------------------------------------------------------------------------------- */

static nt_status refuse(const char *name, const char *reason) {
    return nt__fail(NT_INVALID, "the option %s is given, and nothing would use it: %s. Leave it out", name, reason);
}

static bool is_option(const nt__settings *s, const nt__setting *setting) {
    return *(const nt__source *)((const char *)&s->from + setting->from) == NT__FROM_OPTION;
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
        return refuse(setting->name, s->no_log ? "no checkpoint is written, because no_log is given"
                                               : "no checkpoint is written, because checkpoint is false");
    }
    return NT_OK;
}

static bool logs_nothing(const nt__settings *s) {
    return s->no_log || (strcmp(s->log, "none") == 0 && s->logger_count == 0);
}

static nt_status check_log(const nt__settings *s) {
    if (s->no_log && s->from.log == NT__FROM_OPTION && strcmp(s->log, "none") != 0)
        return refuse("log", "nothing is logged, because no_log is given");
    if (s->no_log && s->logger_count) return refuse("loggers", "nothing is logged, because no_log is given");
    if (s->histograms && logs_nothing(s))
        return refuse("histograms", "there is no log. The logger tensorboard keeps histograms");
    if (s->histograms && s->logger_count == 0 && !strstr(s->log, "tensorboard"))
        return refuse("histograms", "none of the loggers keeps histograms; log = tensorboard does");
    return NT_OK;
}

nt_status nt__options_check_used(const nt_run *run, const nt_run_options *options) {
    const nt__settings *s = &run->settings;
    bool has_weights = options->weights && *options->weights;
    if (options->weight_map_count && !has_weights && !options->trained_weights)
        return refuse("weight_maps", "no weights are given whose arrays they could rename");
    if (s->evaluate_only) return NT_OK;
    nt_status status = check_checkpoints(s, options);
    return status == NT_OK ? check_log(s) : status;
}

/* ---- values that a schedule takes the place of ------------------------------------------------------------------ */

/* What the schedules hook declares for these fields, as text. */
static nt_status declared_text(const nt_run *run, const void *fields, nt__text *out) {
    nt_schedules declared = {0};
    nt__hook_begin(run, "schedules");
    run->experiment->hooks.schedules(fields, &declared);
    nt_status status = nt__hook_end(run, "schedules", declared.status);
    for (size_t i = 0; status == NT_OK && i < declared.count; i++) {
        nt__text_add(out, "%s ", declared.items[i].name);
        nt__schedule_print(&declared.items[i].schedule, out);
    }
    nt__schedules_free(&declared);
    return status == NT_OK && out->failed ? NT_OUT_OF_MEMORY : status;
}

/* A hook that refuses the value reads it. */
static nt_status compare_declared(const nt_run *run, void *fields, bool *differs) {
    nt__text now = {0}, then = {0};
    nt_status status = declared_text(run, run->fields, &now);
    nt_status other = status == NT_OK ? declared_text(run, fields, &then) : NT_OK;
    *differs = other != NT_OK || strcmp(now.data ? now.data : "", then.data ? then.data : "") != 0;
    nt__text_free(&now);
    nt__text_free(&then);
    return status == NT_OK && other == NT_OUT_OF_MEMORY ? other : status;
}

/* *out: the schedules come from the hook, and are others with another value of the field. */
static nt_status hook_reads(const nt_run *run, const nt_field_info *field, double value, bool *out) {
    *out = false;
    if (run->schedules_from_option || !run->experiment->hooks.schedules) return NT_OK;
    char *fields = nt__alloc(1, run->experiment->size + 1);
    if (!fields) return NT_OUT_OF_MEMORY;
    memcpy(fields, run->fields, run->experiment->size);
    *out = nt__field_from_number(field, value, fields + field->offset) != NT_OK;
    nt_status status = *out ? NT_OK : compare_declared(run, fields, out);
    nt__free(fields);
    return status;
}

static bool differs_from_default(const nt_run *run, const nt_field_info *field) {
    return memcmp((const char *)run->fields + field->offset, (const char *)run->defaults + field->offset,
                  field->size) != 0;
}

/* A field that a flag gave is an error. Of one that a preset or the program set it is not known whether it was to
 * count. */
static nt_status check_field(const nt_run *run, size_t place) {
    const nt_field_info *field = &run->experiment->fields[place];
    bool is_read, differs = differs_from_default(run, field);
    if (!nt__field_scheduled(run, place) || (!differs && !run->given[place])) return NT_OK;
    double number = nt__field_number(field, run->fields);
    double other = differs ? nt__field_number(field, run->defaults) : number / 2 + 0.25;
    nt_status status = hook_reads(run, field, other, &is_read);
    if (status != NT_OK || is_read) return status;
    if (run->given[place])
        return nt__fail(NT_INVALID,
                        "the field %s is given as %g, and nothing would use it: %s sets it at each step. Leave one of "
                        "them out",
                        field->name, nt__plain_nan(number), nt__schedules_source(run));
    return nt__warn("%s: %s has a schedule (%s); the given %g is not used", run->experiment->name, field->name,
                    nt__schedules_source(run), nt__plain_nan(number));
}

static bool uses_base_rate(const nt_run *run, size_t g) {
    return !run->training[g].frozen && !run->rates[g].binding && nt__rule_uses_rate(&run->training[g].rule);
}

bool nt__uses_base_rate(const nt_run *run) {
    for (size_t g = 0; run->rates && g < run->layout.group_count; g++)
        if (uses_base_rate(run, g)) return true;
    return false;
}

static nt_status check_rate(const nt_run *run) {
    const nt_field_info *field = nt__setting_field(run->experiment, "learning_rate");
    double rate = run->settings.learning_rate;
    if (run->settings.from.learning_rate != NT__FROM_OPTION || nt__uses_base_rate(run)) return NT_OK;
    bool is_read = false;
    nt_status status = field ? hook_reads(run, field, rate / 2, &is_read) : NT_OK;
    if (status != NT_OK || is_read) return status;
    return nt__fail(NT_INVALID,
                    "the option learning_rate is given as %g, and nothing would use it: %s%s. Leave it out, or give "
                    "a schedule of learning_rate as an option, which replaces the hook's",
                    rate, run->binding_count ? nt__schedules_source(run) : "no rule of the optimizer",
                    run->binding_count ? " sets every rate" : " uses a rate");
}

nt_status nt__scheduled_check_used(const nt_run *run) {
    nt_status status = check_rate(run);
    for (size_t i = 0; status == NT_OK && i < run->experiment->field_count; i++) status = check_field(run, i);
    return status;
}
