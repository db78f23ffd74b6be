/* Whether the definition of an experiment is right: what the compiler cannot see.
 * Not here: whether values of fields make sense.
 */
#include "experiment/experiment.h"

#include <string.h>

static nt_status check_hooks(const nt_experiment *experiment) {
    const struct {
        const char *name, *what;
        bool defined;
    } required[] = {
        {"build_data", "it fills the splits", experiment->hooks.build_data != NULL},
        {"forward", "it is the model", experiment->hooks.forward != NULL},
    };
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        const char *name = required[i].name;
        if (required[i].defined) continue;
        return nt__fail(NT_INVALID, "experiment %s (%s) has no %s hook, and %s: write .%s = %s in its NT_DEFINE",
                        experiment->name, experiment->file, name, required[i].what, name, name);
    }
    return NT_OK;
}

/* Where a metric is computed is which hook is defined; both for one job would report everything twice. */
static nt_status check_residency(const nt_experiment *experiment) {
    const nt_hooks *hooks = &experiment->hooks;
    const struct {
        const char *host, *device, *what;
        bool both;
    } pairs[] = {
        {"metrics", "device_metrics", "an evaluation", hooks->metrics && hooks->device_metrics},
        {"host_train_metrics", "train_metrics", "training", hooks->host_train_metrics && hooks->train_metrics},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (!pairs[i].both) continue;
        return nt__fail(NT_INVALID,
                        "experiment %s (%s) defines both .%s (host arrays) and .%s (traced) for %s: keep one of them",
                        experiment->name, experiment->file, pairs[i].host, pairs[i].device, pairs[i].what);
    }
    return NT_OK;
}

/* Beside train_step, which reports its own values, train metrics of automatic training would be left out without a
 * word; an experiment that trains both ways has manual_training. */
static nt_status check_manual(const nt_experiment *experiment) {
    const nt_hooks *hooks = &experiment->hooks;
    const char *other = hooks->train_metrics        ? "train_metrics"
                        : hooks->host_train_metrics ? "host_train_metrics"
                                                    : NULL;
    if (hooks->manual_training && !hooks->train_step)
        return nt__fail(NT_INVALID,
                        "experiment %s (%s) has a manual_training hook and no train_step: write .train_step, or leave "
                        ".manual_training out",
                        experiment->name, experiment->file);
    if (!hooks->train_step || hooks->manual_training || !other) return NT_OK;
    return nt__fail(NT_INVALID,
                    "experiment %s (%s) has both .train_step and .%s: train_step reports values of a step itself, with "
                    "nt_device_value; leave .%s out, or add a .manual_training hook that says which way it trains",
                    experiment->name, experiment->file, other, other);
}

/* The macros see to this when the experiment is compiled; a table made by hand comes without them. */
static nt_status check_types(const nt_experiment *experiment) {
    for (size_t i = 0; i < experiment->field_count; i++) {
        const nt_field_info *field = &experiment->fields[i];
        if (nt__field_fits_marker(field)) continue;
        return nt__fail(
            NT_INVALID,
            "experiment %s (%s): the field %s is a %s and cannot be marked %s: %s. Make it a FIELD (host code "
            "only)%s",
            experiment->name, experiment->file, field->name, nt__field_type_text(field),
            field->marker == NT_DEVICE ? "DEVICE" : "GRAPH_CONST",
            field->marker == NT_DEVICE ? "an input of a program is a number, an array or a set of arrays"
                                       : "a constant of a program is a number, a string or a list of numbers",
            field->type == NT_FIELD_STRING ? " or GRAPH_CONST" : "");
    }
    return NT_OK;
}

/* Fields that only steer the run. Traced code has no use for them, and as GraphConst each value would be another
 * program. */
static bool is_for_the_run(const nt_field_info *field) {
    static const char *const names[] = {"seed",   "max_epochs",   "max_steps",  "run_dir",         "n_devs",
                                        "logger", "checkpointer", "early_stop", "check_divergence"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(field->name, names[i]) == 0) return true;
    return false;
}

static nt_status report_run_fields(const nt_experiment *experiment, const char *names, bool has_seed) {
    return nt__fail(NT_INVALID,
                    "experiment %s (%s): these fields steer the run and must not be marked GRAPH_CONST: %s. Leave each "
                    "a FIELD%s",
                    experiment->name, experiment->file, names,
                    has_seed ? "; with seed as a constant of the programs, a sweep over seeds would recompile for each "
                               "one"
                             : "");
}

static nt_status check_run_fields(const nt_experiment *experiment) {
    nt__text names = {0};
    bool has_seed = false;
    for (size_t i = 0; i < experiment->field_count; i++) {
        const nt_field_info *field = &experiment->fields[i];
        if (field->marker != NT_GRAPH_CONST || !is_for_the_run(field)) continue;
        nt__text_add(&names, "%s%s", names.length ? ", " : "", field->name);
        has_seed |= strcmp(field->name, "seed") == 0;
    }
    nt_status status = NT_OK;
    if (names.failed)
        status = NT_OUT_OF_MEMORY;
    else if (names.length)
        status = report_run_fields(experiment, names.data, has_seed);
    nt__text_free(&names);
    return status;
}

nt_status nt__experiment_check(const nt_experiment *experiment) {
    nt_status status = check_hooks(experiment);
    if (status == NT_OK) status = check_residency(experiment);
    if (status == NT_OK) status = check_manual(experiment);
    if (status == NT_OK) status = check_types(experiment);
    if (status == NT_OK) status = check_run_fields(experiment);
    if (status == NT_OK) status = nt__presets_check(experiment);
    return status;
}
