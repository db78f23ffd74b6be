/* What was given and this run cannot use, once its data, its optimizer and its schedules are known.
 * Not here: what the settings alone tell (setting/unused.c).
 */
#include <string.h>

#include "run/run_internal.h"

/* ---- options of training ---------------------------------------------------------------------------------------- */

/* A line of flags may be used again for an evaluation, so settings and schedules are no mistake there. */
nt_status nt__settings_check_trained(const nt_run *run, const nt_run_options *options) {
    bool evaluates = run->settings.evaluate_only;
    const struct {
        const char *name;
        bool is_given;
    } all[] = {{"resume", options->resume != NULL},     {"restore_optimizer", options->restore_optimizer},
               {"restore_best", options->restore_best}, {"gradient_norm", options->gradient_norm},
               {"histograms", options->histograms},     {"schedules", options->schedules && !evaluates}};
    for (size_t i = 0; !run->train && i < sizeof all / sizeof *all; i++) {
        if (!all[i].is_given) continue;
        if (evaluates)
            return nt__fail(NT_INVALID, "%s is for training, and run '%s' only evaluates or predicts: leave it out",
                            all[i].name, run->experiment->name);
        return nt__fail(NT_INVALID,
                        "%s is for training, and experiment '%s' has no split 'train' (its splits: %s): leave it out, "
                        "or add the split in build_data",
                        all[i].name, run->experiment->name, nt__data_split_names(run->data));
    }
    return NT_OK;
}

/* ---- values that a schedule takes the place of ------------------------------------------------------------------ */

/* What the schedules hook declares for these fields, as text. */
static nt_status declared_text(const nt_run *run, const void *fields, nt__text *out) {
    nt_schedules declared = {0};
    nt__hook_begin(run->experiment, "schedules");
    run->experiment->hooks.schedules(fields, &declared);
    nt_status status = nt__hook_end(run->experiment, "schedules", declared.status);
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
