/* What was given and a schedule takes the place of, once all schedules are bound.
 * Not here: what the settings alone tell (setting/unused.c).
 */
#include <string.h>

#include "resident/resident.h"

/* What the schedules hook declares for these fields, as text. */
static nt_status declared_text(const nt__task *task, const void *fields, nt__text *out) {
    nt_schedules declared = {0};
    nt__hook_begin(task->experiment, "schedules");
    task->experiment->hooks.schedules(fields, &declared);
    nt_status status = nt__hook_end(task->experiment, "schedules", declared.status);
    for (size_t i = 0; status == NT_OK && i < declared.count; i++) {
        nt__text_add(out, "%s ", declared.items[i].name);
        nt__schedule_print(&declared.items[i].schedule, out);
    }
    nt__schedules_free(&declared);
    return status == NT_OK && out->failed ? NT_OUT_OF_MEMORY : status;
}

/* A hook that refuses the value reads it. */
static nt_status compare_declared(const nt__task *task, void *fields, bool *differs) {
    nt__text now = {0}, then = {0};
    nt_status status = declared_text(task, task->fields, &now);
    nt_status other = status == NT_OK ? declared_text(task, fields, &then) : NT_OK;
    *differs = other != NT_OK || strcmp(now.data ? now.data : "", then.data ? then.data : "") != 0;
    nt__text_free(&now);
    nt__text_free(&then);
    return status == NT_OK && other == NT_OUT_OF_MEMORY ? other : status;
}

/* *out: the schedules come from the hook, and are others with another value of the field. */
static nt_status hook_reads(const nt__resident *resident, const nt_field_info *field, double value, bool *out) {
    *out = false;
    if (resident->schedules_from_option || !resident->task->experiment->hooks.schedules) return NT_OK;
    char *fields = nt__alloc(1, resident->task->experiment->size + 1);
    if (!fields) return NT_OUT_OF_MEMORY;
    memcpy(fields, resident->task->fields, resident->task->experiment->size);
    *out = nt__field_from_number(field, value, fields + field->offset) != NT_OK;
    nt_status status = *out ? NT_OK : compare_declared(resident->task, fields, out);
    nt__free(fields);
    return status;
}

static bool differs_from_default(const nt__task *task, const nt_field_info *field) {
    return memcmp((const char *)task->fields + field->offset, (const char *)task->defaults + field->offset,
                  field->size) != 0;
}

/* A field that a flag gave is an error. Of one that a preset or the program set it is not known whether it was to
 * count. */
static nt_status check_field(const nt__resident *resident, size_t place) {
    const nt_field_info *field = &resident->task->experiment->fields[place];
    bool is_read, differs = differs_from_default(resident->task, field);
    if (!nt__field_scheduled(resident, place) || (!differs && !resident->task->given[place])) return NT_OK;
    double number = nt__field_number(field, resident->task->fields);
    double other = differs ? nt__field_number(field, resident->task->defaults) : number / 2 + 0.25;
    nt_status status = hook_reads(resident, field, other, &is_read);
    if (status != NT_OK || is_read) return status;
    if (resident->task->given[place])
        return nt__fail(NT_INVALID,
                        "the field %s is given as %g, and nothing would use it: %s sets it at each step. Leave one of "
                        "them out",
                        field->name, nt__plain_nan(number), nt__schedules_source(resident));
    return nt__warn("%s: %s has a schedule (%s); the given %g is not used", resident->task->experiment->name,
                    field->name, nt__schedules_source(resident), nt__plain_nan(number));
}

static bool uses_base_rate(const nt__resident *resident, size_t g) {
    return !resident->traced->training[g].frozen && !resident->rates[g].binding &&
           nt__rule_uses_rate(&resident->traced->training[g].rule);
}

bool nt__uses_base_rate(const nt__resident *resident) {
    for (size_t g = 0; resident->rates && g < resident->traced->layout.group_count; g++)
        if (uses_base_rate(resident, g)) return true;
    return false;
}

static nt_status check_rate(const nt__resident *resident) {
    const nt_field_info *field = nt__setting_field(resident->task->experiment, "learning_rate");
    double rate = resident->task->settings.learning_rate;
    if (resident->task->settings.from.learning_rate != NT__FROM_OPTION || nt__uses_base_rate(resident)) return NT_OK;
    bool is_read = false;
    nt_status status = field ? hook_reads(resident, field, rate / 2, &is_read) : NT_OK;
    if (status != NT_OK || is_read) return status;
    return nt__fail(NT_INVALID,
                    "the option learning_rate is given as %g, and nothing would use it: %s%s. Leave it out, or give "
                    "a schedule of learning_rate as an option, which replaces the hook's",
                    rate, resident->binding_count ? nt__schedules_source(resident) : "no rule of the optimizer",
                    resident->binding_count ? " sets every rate" : " uses a rate");
}

nt_status nt__scheduled_check_used(const nt__resident *resident) {
    nt_status status = check_rate(resident);
    for (size_t i = 0; status == NT_OK && i < resident->task->experiment->field_count; i++)
        status = check_field(resident, i);
    return status;
}
