/* The binding report: where everything of a run bound, and from where. Computed from what the run has; it touches
 * neither data nor device, and nothing in it is an error.
 * Not here: its section on groups (report_groups.c), how the settings are found (setting/resolve.c), how schedules bind
 * (schedules.c).
 */

#include <string.h>

#include "run/plan.h"
#include "run/run_internal.h"

/* ---- data ------------------------------------------------------------------------------------------------------- */

static void add_split(const nt__split *split, nt__text *out) {
    int64_t batch = split->options.batch, last = split->rows % batch;
    int64_t batches = nt__split_batches(split);
    nt__text_say(out, "  ");
    nt__text_show(out, split->name, "");
    nt__text_add(out, ": %lld batch%s of %lld, %lld row%s", (long long)batches, batches == 1 ? "" : "es",
                 (long long)batch, (long long)split->rows, split->rows == 1 ? "" : "s");
    if (last && split->options.drop_last) nt__text_add(out, ", of which drop_last drops %lld", (long long)last);
    if (last && !split->options.drop_last) nt__text_add(out, ", the last batch has %lld", (long long)last);
    nt__text_add(out, "; %d worker%s, %d host batch%s, %d device batch%s\n", split->options.workers,
                 split->options.workers == 1 ? "" : "s", split->options.host_batches,
                 split->options.host_batches == 1 ? "" : "es", split->options.device_batches,
                 split->options.device_batches == 1 ? "" : "es");
}

static void add_data(const nt_run *run, nt__text *out) {
    size_t count = nt__data_split_count(run->data);
    if (count) nt__text_add(out, "data\n");
    for (size_t i = 0; i < count; i++) add_split(nt__data_split_at(run->data, i), out);
}

/* ---- settings --------------------------------------------------------------------------------------------------- */

static void add_clip(const nt__settings *s, nt__text *out) {
    nt__text_add(out, "  gradient clip: ");
    if (s->gradient_clip_norm > 0)
        nt__text_add(out, "norm %.3g%s", s->gradient_clip_norm, s->manual ? " of each nt_step" : "");
    else
        nt__text_add(out, "none");
    nt__text_add(out, " [%s]\n", nt__source_name(s->from.gradient_clip_norm));
}

/* With the direction of a metric that was named, too. */
static bool is_told(const nt_run *run, const nt__setting *setting) {
    const nt__settings *s = &run->settings;
    bool is_given = nt__setting_source(setting, s) != NT__FROM_DEFAULT;
    if (setting->told & NT__NOT_IN_REPORT) return false;
    if (s->evaluate_only && nt__setting_is_for_training(setting)) return false;
    if (strcmp(setting->name, "learning_rate") == 0) return nt__uses_base_rate(run);
    if (strcmp(setting->name, "checkpoint_mode") == 0 && s->from.checkpoint_metric != NT__FROM_DEFAULT) return true;
    return is_given || setting->told & NT__REPORT;
}

/* A text may be anything; it stays on one line. */
static void add_setting(const nt__settings *s, const nt__setting *setting, nt__text *out) {
    nt__text value = {0};
    nt__setting_print(setting, s, &value);
    nt__text_add(out, "  %s: ", setting->name);
    if (value.data) nt__text_show(out, value.data, "");
    nt__text_add(out, " [%s]\n", nt__source_name(nt__setting_source(setting, s)));
    out->failed |= value.failed;
    nt__text_free(&value);
}

static void add_settings(const nt_run *run, nt__text *out) {
    const nt__settings *s = &run->settings;
    const nt__setting *setting;
    nt__text_add(out, "settings\n");
    for (size_t i = 0; (setting = nt__setting_at(i)); i++)
        if (is_told(run, setting)) add_setting(s, setting, out);
    if (s->evaluate_only) return;
    if (run->train) {
        nt__text_add(out, "  rule: ");
        nt__rules_print(run, false, out);
        nt__text_add(out, " [%s]\n", nt__source_name(s->from.rule));
    }
    if (s->manual) nt__text_add(out, "  training: manual, a train_step for each batch [hook]\n");
}

/* ---- bindings --------------------------------------------------------------------------------------------------- */

static const char *schedule_source(const nt_run *run) {
    return run->schedules_from_option ? "option" : "schedules hook";
}

static bool sets_rate(const nt__binding *binding) {
    return strcmp(binding->scalar, "learning_rate") == 0;
}

static void add_binding(const nt_run *run, const nt__binding *binding, nt__text *out) {
    nt__text_add(out, "  %s: ", binding->name);
    nt__schedule_print(&binding->schedule, out);
    if (!nt__schedule_varies(&binding->schedule)) nt__text_add(out, ", a constant");
    if (binding->field >= 0)
        nt__text_add(out, "; sets Device field %s", run->experiment->fields[binding->field].name);
    else if (binding->group >= 0)
        nt__text_add(out, "; sets %s of group %s%s", binding->scalar, run->layout.groups[binding->group].name,
                     sets_rate(binding) ? ", its ratio applied" : "");
    else
        nt__text_add(out, "; sets %s of all groups%s", binding->scalar,
                     sets_rate(binding) ? ", each ratio applied" : "");
    nt__text_add(out, " [%s]\n", schedule_source(run));
}

/* Those of the optimizer come before Device fields. */
static void add_bindings(const nt_run *run, nt__text *out) {
    nt__text_add(out, "bindings\n");
    add_clip(&run->settings, out);
    for (int fields = 0; fields < 2; fields++)
        for (size_t i = 0; i < run->binding_count; i++)
            if ((run->bindings[i].field >= 0) == fields) add_binding(run, &run->bindings[i], out);
}

void nt__report_add(const nt_run *run, nt__text *out) {
    add_data(run, out);
    add_settings(run, out);
    if (run->train) add_bindings(run, out);
    nt__report_add_groups(run, out);
}

nt_status nt_run_report(const nt_run *run, FILE *out) {
    NT__USE(run, "nt_run_report");
    if (!used || !nt__given(out, "nt_run_report", "out")) return NT_INVALID;
    nt__text text = {0};
    nt__report_add(run, &text);
    return nt__text_write(&text, out);
}

/* ---- the schedules of a plan ------------------------------------------------------------------------------------ */

const nt_schedule *nt__plan_schedule(const nt_run *run, size_t index, const char **name, const char **source) {
    if (index >= run->binding_count) return NULL;
    *name = run->bindings[index].name;
    *source = schedule_source(run);
    return &run->bindings[index].schedule;
}

int64_t nt__plan_steps(const nt_run *run) {
    return run->horizon;
}
