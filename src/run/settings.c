/* Settings of a run: for each the option, else the experiment's field of that name, else the default. */
#include <math.h>
#include <string.h>

#include "run/run_internal.h"

/* Of max_steps that were not given. */
static const int64_t no_limit = INT64_MAX;

/* A numeric field of the experiment with this name, or NULL. */
static const nt_field_info *numeric_field(const nt_run *run, const char *name) {
    const nt_field_info *field = nt__field_find(run->experiment, name);
    return field && nt__field_is_number(field) ? field : NULL;
}

/* Fields of an integer type are read as they are; one of a floating type must hold a whole number that fits. */
static nt_status integer(const nt_run *run, const char *name, nt_maybe_int option, int64_t otherwise, int64_t *out,
                         nt__source *from) {
    const nt_field_info *field = option.given ? NULL : numeric_field(run, name);
    *from = option.given ? NT__FROM_OPTION : field ? NT__FROM_FIELD : NT__FROM_DEFAULT;
    *out = option.given ? option.value : otherwise;
    if (!field) return NT_OK;
    double value = nt__field_number(field, run->fields);
    if (field->type == NT_FIELD_INT64)
        memcpy(out, (const char *)run->fields + field->offset, sizeof *out);
    else if (value == floor(value) && fabs(value) < 0x1p53)
        *out = (int64_t)value;
    else
        return nt__fail(NT_INVALID, "field %s is %g; it must be a whole number below 2^53", name, nt__plain_nan(value));
    return NT_OK;
}

static double real(const nt_run *run, const char *name, nt_maybe_double option, double otherwise, nt__source *from) {
    const nt_field_info *field = option.given ? NULL : numeric_field(run, name);
    *from = option.given ? NT__FROM_OPTION : field ? NT__FROM_FIELD : NT__FROM_DEFAULT;
    if (option.given) return option.value;
    return field ? nt__field_number(field, run->fields) : otherwise;
}

static const char *folder(nt_run *run, const char *option, nt__source *from) {
    const nt_field_info *field = nt__field_find(run->experiment, "run_dir");
    const char *text = option;
    if (!text && field && field->type == NT_FIELD_STRING)
        memcpy(&text, (const char *)run->fields + field->offset, sizeof text);
    *from = !text || !*text ? NT__FROM_DEFAULT : option ? NT__FROM_OPTION : NT__FROM_FIELD;
    if (text && *text) return nt__arena_strdup(&run->arena, text);
    return nt__arena_sprintf(&run->arena, "runs/%s", run->experiment->name);
}

/* Samples in a batch of a handle without data. A field of that name counts when it is an integer. */
static nt_status batch(nt_run *run, nt_maybe_int option) {
    const nt_field_info *field = nt__field_find(run->experiment, "batch");
    bool is_integer = field && (field->type == NT_FIELD_INT || field->type == NT_FIELD_INT64);
    if (option.given && !run->settings.no_data)
        return nt__fail(NT_INVALID,
                        "batch is given as %lld, but the splits say how large a batch is: give it with "
                        "no_data only",
                        (long long)option.value);
    run->settings.batch = option.given ? option.value : 128;
    nt_status status = NT_OK;
    nt__source from;
    if (!option.given && is_integer) status = integer(run, "batch", option, 128, &run->settings.batch, &from);
    if (status != NT_OK || run->settings.batch >= 1 || !run->settings.no_data) return status;
    return nt__fail(NT_INVALID, "batch is %lld; a batch has at least 1 sample", (long long)run->settings.batch);
}

static nt_status check(const nt__settings *s) {
    if (s->seed < 0) return nt__fail(NT_INVALID, "seed is %lld; give 0 or more", (long long)s->seed);
    if (s->evaluate_only) return NT_OK;
    if (s->accum < 1)
        return nt__fail(NT_INVALID, "accum is %lld; a step has at least 1 micro-batch: give 1 or more",
                        (long long)s->accum);
    if (s->max_epochs < 0) return nt__fail(NT_INVALID, "max_epochs is %lld; give 0 or more", (long long)s->max_epochs);
    if (s->max_steps < 0) return nt__fail(NT_INVALID, "max_steps is %lld; give 0 or more", (long long)s->max_steps);
    if (!isfinite(s->gradient_clip_norm))
        return nt__fail(NT_INVALID, "gradient_clip_norm is %g; give a finite number, 0 for no clipping",
                        nt__plain_nan(s->gradient_clip_norm));
    if (s->learning_rate <= 0 || !isfinite(s->learning_rate))
        return nt__fail(NT_INVALID,
                        "learning_rate is %g (from the option, else from the learning_rate hook); give a finite number "
                        "above 0",
                        nt__plain_nan(s->learning_rate));
    return NT_OK;
}

double nt__learning_rate_of(const nt_experiment *experiment, const void *fields) {
    return experiment->hooks.learning_rate ? experiment->hooks.learning_rate(fields) : 1e-3;
}

nt_status nt__settings_resolve(nt_run *run, const nt_run_options *options) {
    const nt_hooks *hooks = &run->experiment->hooks;
    nt__settings *s = &run->settings;
    nt_status status = NT_OK;
    s->run_dir = folder(run, options->run_dir, &s->from.run_dir);
    if (status == NT_OK) status = integer(run, "seed", options->seed, 42, &s->seed, &s->from.seed);
    if (status == NT_OK)
        status = integer(run, "max_epochs", options->max_epochs, 1, &s->max_epochs, &s->from.max_epochs);
    if (status == NT_OK)
        status = integer(run, "max_steps", options->max_steps, no_limit, &s->max_steps, &s->from.max_steps);
    if (status == NT_OK) status = integer(run, "accum", options->accum, 1, &s->accum, &s->from.accum);
    s->gradient_clip_norm =
        real(run, "gradient_clip_norm", options->gradient_clip_norm, 0, &s->from.gradient_clip_norm);
    run->hook_rate = nt__learning_rate_of(run->experiment, run->fields);
    s->learning_rate = options->learning_rate.given ? options->learning_rate.value : run->hook_rate;
    s->from.learning_rate = options->learning_rate.given ? NT__FROM_OPTION
                            : hooks->learning_rate       ? NT__FROM_HOOK
                                                         : NT__FROM_DEFAULT;
    s->from.rule = hooks->optimizer ? NT__FROM_HOOK : NT__FROM_DEFAULT;
    s->no_data = options->no_data;
    s->no_log = options->no_log;
    s->evaluate_only = options->evaluate_only || options->no_data;
    s->quiet = options->quiet;
    s->trace_transfers = options->trace_transfers;
    s->no_disk_cache = options->no_disk_cache;
    if (!s->run_dir) return NT_OUT_OF_MEMORY;
    if (status == NT_OK) status = batch(run, options->batch);
    return status == NT_OK ? check(s) : status;
}
