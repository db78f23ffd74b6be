/* The binding report: where everything of a run bound, and from where. Computed from what the run has; it touches
 * neither data nor device, and nothing in it is an error.
 * Not here: its section on groups (report_groups.c), how the settings are found (setting/resolve.c), how schedules bind
 * (schedules.c).
 */

#include <string.h>

#include "report/report.h"

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

static void add_data(const nt__traced *traced, nt__text *out) {
    size_t count = nt__data_split_count(traced->data);
    if (count) nt__text_add(out, "data\n");
    for (size_t i = 0; i < count; i++) add_split(nt__data_split_at(traced->data, i), out);
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
static bool is_told(const nt__resident *resident, const nt__setting *setting) {
    const nt__settings *s = &resident->task->settings;
    bool is_given = nt__setting_source(setting, s) != NT__FROM_DEFAULT;
    if (setting->told & NT__NOT_IN_REPORT) return false;
    if (s->evaluate_only && nt__setting_is_for_training(setting)) return false;
    if (strcmp(setting->name, "learning_rate") == 0) return nt__uses_base_rate(resident);
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

static void add_settings(const nt__resident *resident, nt__text *out) {
    const nt__settings *s = &resident->task->settings;
    const nt__setting *setting;
    nt__text_add(out, "settings\n");
    for (size_t i = 0; (setting = nt__setting_at(i)); i++)
        if (is_told(resident, setting)) add_setting(s, setting, out);
    if (s->evaluate_only) return;
    if (resident->traced->train) {
        nt__text_add(out, "  rule: ");
        nt__rules_print(resident->traced, false, out);
        nt__text_add(out, " [%s]\n", nt__source_name(s->from.rule));
    }
    if (s->manual) nt__text_add(out, "  training: manual, a train_step for each batch [hook]\n");
}

/* ---- bindings --------------------------------------------------------------------------------------------------- */

static bool sets_rate(const nt__binding *binding) {
    return strcmp(binding->scalar, "learning_rate") == 0;
}

static void add_binding(const nt__resident *resident, const nt__binding *binding, nt__text *out) {
    nt__text_add(out, "  %s: ", binding->name);
    nt__schedule_print(&binding->schedule, out);
    if (!nt__schedule_varies(&binding->schedule)) nt__text_add(out, ", a constant");
    if (binding->field >= 0)
        nt__text_add(out, "; sets Device field %s", resident->task->experiment->fields[binding->field].name);
    else if (binding->group >= 0)
        nt__text_add(out, "; sets %s of group %s%s", binding->scalar,
                     resident->traced->layout.groups[binding->group].name,
                     sets_rate(binding) ? ", its ratio applied" : "");
    else
        nt__text_add(out, "; sets %s of all groups%s", binding->scalar,
                     sets_rate(binding) ? ", each ratio applied" : "");
    nt__text_add(out, " [%s]\n", nt__schedules_source_name(resident));
}

/* Those of the optimizer come before Device fields. */
static void add_bindings(const nt__resident *resident, nt__text *out) {
    nt__text_add(out, "bindings\n");
    add_clip(&resident->task->settings, out);
    for (int fields = 0; fields < 2; fields++)
        for (size_t i = 0; i < resident->binding_count; i++)
            if ((resident->bindings[i].field >= 0) == fields) add_binding(resident, &resident->bindings[i], out);
}

void nt__report_add(const nt__resident *resident, nt__text *out) {
    add_data(resident->traced, out);
    add_settings(resident, out);
    if (resident->traced->train) add_bindings(resident, out);
    nt__report_add_groups(resident, out);
}
