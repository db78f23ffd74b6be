/* Schedules of a run: their names bound to what they set, and the values of a step.
 * Not here: the kinds of schedules, and how a value gets to the device.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "resident/resident.h"

const char *nt__schedules_source(const nt__resident *resident) {
    return resident->schedules_from_option ? "the run's option" : "the schedules hook";
}

const char *nt__schedules_source_name(const nt__resident *resident) {
    return resident->schedules_from_option ? "option" : "schedules hook";
}

/* ---- what a name means ------------------------------------------------------------------------------------------ */

/* A schedule gives numbers, so it sets a Device field that is one. */
static bool can_be_scheduled(const nt_field_info *field) {
    return field->marker == NT_DEVICE && nt__field_is_number(field);
}

/* Place of a Device field in the list of fields, -1 when there is none of that name. */
static int find_device(const nt__task *task, const char *name) {
    const nt_field_info *field = nt__field_find(task->experiment, name);
    return field && can_be_scheduled(field) ? (int)(field - task->experiment->fields) : -1;
}

enum { ALL_GROUPS = -1 };

static bool concerns(int group, size_t g) {
    return group == ALL_GROUPS || group == (int)g;
}

/* The rate, or an input of the rule of the group, of some group. */
static bool is_scalar(const nt__resident *resident, int group, const char *name) {
    for (size_t g = 0; g < resident->traced->layout.group_count; g++)
        if (concerns(group, g) && !resident->traced->training[g].frozen && strcmp(name, "learning_rate") == 0)
            return true;
    for (size_t i = 0; i < resident->traced->input_count; i++)
        if (concerns(group, resident->inputs[i].group) && strcmp(resident->inputs[i].scalar, name) == 0) return true;
    return false;
}

/* The rule of which it is a number that cannot change from step to step; else NULL. */
static const char *constant_of(const nt__traced *traced, int group, const char *name) {
    bool is_input = false;
    for (size_t g = 0; g < traced->layout.group_count; g++)
        if (concerns(group, g) && nt__rule_has_number(&traced->training[g].rule, name, &is_input) && !is_input)
            return nt__rule_owner(&traced->training[g].rule, name);
    return NULL;
}

static int find_group(const nt__traced *traced, const char *name, size_t length) {
    for (size_t g = 0; g < traced->layout.group_count; g++) {
        const char *group = traced->layout.groups[g].name;
        if (strlen(group) == length && memcmp(group, name, length) == 0) return (int)g;
    }
    return -1;
}

static void add_device_fields(const nt__task *task, nt__text *out) {
    size_t found = 0;
    nt__text_add(out, "Device fields: ");
    for (size_t i = 0; i < task->experiment->field_count; i++)
        if (can_be_scheduled(&task->experiment->fields[i]))
            nt__text_add(out, "%s%s", found++ ? ", " : "", task->experiment->fields[i].name);
    nt__text_add(out, "%s", found ? "" : "none");
}

static bool is_listed_before(const nt__resident *resident, int group, size_t input) {
    for (size_t i = 0; i < input; i++)
        if (concerns(group, resident->inputs[i].group) &&
            strcmp(resident->inputs[i].scalar, resident->inputs[input].scalar) == 0)
            return true;
    return false;
}

static void add_scalars(const nt__resident *resident, int group, nt__text *out) {
    if (group == ALL_GROUPS)
        nt__text_add(out, "scalars of the optimizer: ");
    else
        nt__text_add(out, "scalars of group '%s': ", resident->traced->layout.groups[group].name);
    nt__text_add(out, "%s", is_scalar(resident, group, "learning_rate") ? "learning_rate" : "none, it is frozen");
    for (size_t i = 0; i < resident->traced->input_count; i++)
        if (concerns(group, resident->inputs[i].group) && !is_listed_before(resident, group, i))
            nt__text_add(out, ", %s", resident->inputs[i].scalar);
}

static void add_groups(const nt__traced *traced, nt__text *out) {
    nt__text_add(out, "groups: ");
    for (size_t g = 0; g < traced->layout.group_count; g++)
        nt__text_add(out, "%s%s", g ? ", " : "", traced->layout.groups[g].name);
}

/* A field that is there but not as a Device field, or a number of the rule that is part of the program. */
static bool add_near_miss(const nt__resident *resident, int group, const char *name, nt__text *out) {
    const nt_field_info *field = nt__field_find(resident->task->experiment, name);
    if (field && field->marker != NT_DEVICE) {
        nt__text_add(out, "field %s is %s, and only a Device field can change from step to step: mark it DEVICE", name,
                     nt__marker_name(field->marker));
        return true;
    }
    if (field && !nt__field_is_number(field)) {
        nt__text_add(out, "Device field %s is an %s, and a schedule gives numbers; nt_set_device sets arrays", name,
                     nt__field_type_text(field));
        return true;
    }
    const char *rule = constant_of(resident->traced, group, name);
    if (!rule) return false;
    nt__text_add(out, "%s of rule %s is a constant of the program and cannot be scheduled; ", name, rule);
    add_scalars(resident, group, out);
    return true;
}

/* Fails with a text under construction. */
static nt_status refuse(nt__text *text) {
    nt_status status = text->failed ? NT_OUT_OF_MEMORY : nt__fail(NT_INVALID, "%s", text->data);
    nt__text_free(text);
    return status;
}

static nt_status bind_device(const nt__resident *resident, const char *name, nt__binding *out) {
    nt__text text = {0};
    out->field = find_device(resident->task, name);
    if (out->field >= 0) return NT_OK;
    if (!add_near_miss(resident, ALL_GROUPS, name, &text)) {
        nt__text_add(&text, "there is no Device field '%s'; ", name);
        add_device_fields(resident->task, &text);
    }
    return refuse(&text);
}

static nt_status bind_scalar(const nt__resident *resident, const char *name, nt__binding *out) {
    nt__text text = {0};
    out->scalar = name;
    if (is_scalar(resident, out->group, name)) return NT_OK;
    if (!constant_of(resident->traced, out->group, name) || !add_near_miss(resident, out->group, name, &text)) {
        nt__text_add(&text, "the optimizer has no scalar '%s'; ", name);
        add_scalars(resident, out->group, &text);
    }
    return refuse(&text);
}

/* "GROUP.SCALAR": groups may have dots in their names. */
static nt_status bind_path(const nt__resident *resident, const char *path, nt__binding *out) {
    const char *dot = strrchr(path, '.');
    size_t length = (size_t)(dot - path);
    nt__text text = {0};
    out->group = find_group(resident->traced, path, length);
    if (out->group >= 0) return bind_scalar(resident, dot + 1, out);
    nt__text_add(&text, "there is no parameter group '%.*s'; ", (int)length, path);
    add_groups(resident->traced, &text);
    nt__text_add(&text, ". A path has one level: opt.GROUP.%s",
                 is_scalar(resident, ALL_GROUPS, dot + 1) ? dot + 1 : "learning_rate");
    return refuse(&text);
}

static void add_nothing_matches(const nt__resident *resident, const char *name, nt__text *out) {
    const char *dot = strrchr(name, '.');
    if (add_near_miss(resident, ALL_GROUPS, name, out)) return;
    nt__text_add(out, "it is the name of nothing that can be scheduled; ");
    add_device_fields(resident->task, out);
    nt__text_add(out, "; ");
    add_scalars(resident, ALL_GROUPS, out);
    nt__text_add(out, " (the rate is learning_rate, not lr or eta)");
    if (dot && find_group(resident->traced, name, (size_t)(dot - name)) >= 0)
        nt__text_add(out, ". Did you mean opt.%s?", name);
}

static nt_status bind_bare(const nt__resident *resident, const char *name, nt__binding *out) {
    nt__text text = {0};
    bool scalar = is_scalar(resident, ALL_GROUPS, name);
    out->scalar = name;
    out->field = find_device(resident->task, name);
    if (scalar != (out->field >= 0)) return NT_OK;
    if (scalar)
        nt__text_add(&text, "it is both a Device field and a scalar of the optimizer: write device.%s or opt.%s", name,
                     name);
    else
        add_nothing_matches(resident, name, &text);
    return refuse(&text);
}

static nt_status bind_name(const nt__resident *resident, nt__binding *out) {
    const char *name = out->name;
    out->field = -1;
    out->group = ALL_GROUPS;
    if (!*name) return nt__fail(NT_INVALID, "it has no name: write that of a Device field, or learning_rate");
    if (strcmp(name, "device") == 0 || strcmp(name, "opt") == 0)
        return nt__fail(NT_INVALID,
                        "the names device and opt stand in front of others: write %s.NAME; a Device field of that name "
                        "is device.%s",
                        name, name);
    if (strncmp(name, "device.", 7) == 0) return bind_device(resident, name + 7, out);
    if (strncmp(name, "opt.", 4) != 0) return bind_bare(resident, name, out);
    return strchr(name + 4, '.') ? bind_path(resident, name + 4, out) : bind_scalar(resident, name + 4, out);
}

/* ---- what a value may be ---------------------------------------------------------------------------------------- */

static nt_status refuse_scalar(const nt__resident *resident, const nt__binding *binding, int64_t step, double value,
                               const char *range) {
    return nt__fail(NT_INVALID, "schedule '%s' of %s gave %g for step %lld of %lld: %s must %s", binding->name,
                    nt__schedules_source(resident), value, (long long)step, (long long)resident->horizon,
                    range ? binding->scalar : "a learning rate", range ? range : "not be negative");
}

/* Of the rate, below 0 a step goes up the loss; 0 leaves the parameters as they are. Other scalars are what the rules
 * say.
 */
static nt_status check_scalar(const nt__resident *resident, const nt__binding *binding, int64_t step, double value) {
    const char *range = NULL;
    if (binding->field >= 0) return NT_OK;
    if (strcmp(binding->scalar, "learning_rate") == 0)
        return value >= 0 ? NT_OK : refuse_scalar(resident, binding, step, value, NULL);
    for (size_t g = 0; g < resident->traced->layout.group_count; g++)
        if (concerns(binding->group, g) &&
            !nt__rule_takes(&resident->traced->training[g].rule, binding->scalar, value, &range)) {
            char text[64];
            snprintf(text, sizeof text, "be %s", range);
            return refuse_scalar(resident, binding, step, value, text);
        }
    return NT_OK;
}

/* A value that is not finite, or that the field's type does not have, is told of at its step, which may never come. */
static nt_status check_ahead_at(const nt__resident *resident, const nt__binding *binding, int64_t step) {
    double value = nt__schedule_value(&binding->schedule, step, resident->horizon);
    if (!isfinite(value)) return NT_OK;
    if (binding->field < 0) return check_scalar(resident, binding, step, value);
    nt_status status = nt__device_claims_check_number(resident->traced, (size_t)binding->field, value);
    if (status == NT_OK) return NT_OK;
    return nt__fail_in(status, "schedule '%s' of %s gave %g for step %lld of %lld", binding->name,
                       nt__schedules_source(resident), value, (long long)step, (long long)resident->horizon);
}

/* Values of some steps, the first and the last among them, before anything is compiled: the others are checked at their
 * steps. */
static nt_status check_ahead(const nt__resident *resident, const nt__binding *binding) {
    enum { MOST_STEPS = 256 };
    int64_t last =
        resident->task->settings.max_steps < resident->horizon ? resident->task->settings.max_steps : resident->horizon;
    int64_t count = last < MOST_STEPS ? last : MOST_STEPS;
    nt_status status = NT_OK;
    if (nt__schedule_has_function(&binding->schedule)) return NT_OK;
    for (int64_t i = 1; status == NT_OK && i <= count; i++) {
        double share = count > 1 ? (double)(i - 1) / (double)(count - 1) : 0;
        int64_t step = i == count ? last : 1 + (int64_t)(share * (double)(last - 1));
        status = check_ahead_at(resident, binding, step);
    }
    for (size_t i = 0; status == NT_OK && binding->schedule.points && i < binding->schedule.count; i++) {
        int64_t after = binding->schedule.points[i].after;
        if (after < last - binding->schedule.warmup)
            status = check_ahead_at(resident, binding, binding->schedule.warmup + after + 1);
    }
    return status;
}

/* ---- binding ---------------------------------------------------------------------------------------------------- */

static nt_status check_unique(const nt__resident *resident, const nt__binding *binding) {
    for (const nt__binding *b = resident->bindings; b < binding; b++) {
        if (b->field != binding->field || b->group != binding->group) continue;
        if (b->field < 0 && strcmp(b->scalar, binding->scalar) != 0) continue;
        return nt__fail(NT_INVALID, "schedule '%s' sets the same value: leave one of them out", b->name);
    }
    return NT_OK;
}

static nt_status bind(nt__resident *resident, const nt_named_schedule *named) {
    nt__binding *binding = &resident->bindings[resident->binding_count];
    *binding = (nt__binding){.name = nt__arena_strdup(&resident->task->arena, named->name)};
    if (!binding->name) return NT_OUT_OF_MEMORY;
    nt_status status = bind_name(resident, binding);
    if (status == NT_OK) status = nt__schedule_check(&named->schedule);
    if (status == NT_OK && !nt__schedule_copy(&resident->task->arena, &named->schedule, &binding->schedule))
        status = NT_OUT_OF_MEMORY;
    if (status == NT_OK) status = check_unique(resident, binding);
    if (status != NT_OK) return nt__fail_in(status, "schedule '%s' of %s", named->name, nt__schedules_source(resident));
    resident->binding_count++;
    return NT_OK;
}

/* A group's own schedule comes before that of all groups. */
static void bind_scalars(const nt__resident *resident, nt__rate *scalars, size_t count) {
    for (size_t b = 0; b < resident->binding_count; b++) {
        const nt__binding *binding = &resident->bindings[b];
        if (binding->field >= 0) continue;
        for (size_t i = 0; i < count; i++) {
            nt__rate *scalar = &scalars[i];
            bool own = binding->group == (int)scalar->group;
            if (strcmp(binding->scalar, scalar->scalar) != 0 || resident->traced->training[scalar->group].frozen)
                continue;
            if (own || (binding->group == ALL_GROUPS && !scalar->binding)) scalar->binding = binding;
        }
    }
}

/* One schedule for several groups replaces what each of them was given; when that differs it is not meant. Rates
 * keep their ratios. */
static nt_status check_replaced(const nt__resident *resident) {
    for (size_t i = 0; i < resident->traced->input_count; i++)
        for (size_t j = 0; j < i; j++) {
            const nt__rate *a = &resident->inputs[j], *b = &resident->inputs[i];
            if (!a->binding || a->binding != b->binding || a->value == b->value) continue;
            return nt__fail(
                NT_INVALID,
                "schedule '%s' of %s would replace %s %g of group '%s' and %g of group '%s': give each group "
                "a schedule of its own, opt.%s.%s",
                a->binding->name, nt__schedules_source(resident), a->scalar, a->value,
                resident->traced->layout.groups[a->group].name, b->value,
                resident->traced->layout.groups[b->group].name, resident->traced->layout.groups[a->group].name,
                a->scalar);
        }
    return NT_OK;
}

static nt_status bind_all(nt__resident *resident, const nt_named_schedule *items, size_t count) {
    nt_status status = NT_OK;
    resident->bindings = nt__arena_alloc(&resident->task->arena, count + 1, sizeof *resident->bindings);
    if (!resident->bindings) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < count; i++) status = bind(resident, &items[i]);
    for (size_t i = 0; status == NT_OK && i < count; i++) status = check_ahead(resident, &resident->bindings[i]);
    if (status != NT_OK) return status;
    bind_scalars(resident, resident->rates, resident->traced->layout.group_count);
    bind_scalars(resident, resident->inputs, resident->traced->input_count);
    status = check_replaced(resident);
    return status == NT_OK ? nt__scheduled_check_used(resident) : status;
}

static size_t count_named(const nt_named_schedule *items) {
    size_t count = 0;
    while (items[count].name) count++;
    return count;
}

/* The option takes the place of the hook's whole list: what it leaves out is not scheduled, which is easily missed. */
static nt_status warn_dropped(const nt__task *task, const nt_named_schedule *option) {
    nt_schedules declared = {0};
    nt__text names = {0};
    if (!task->experiment->hooks.schedules) return NT_OK;
    nt__hook_enter("schedules", task->experiment->name);
    task->experiment->hooks.schedules(task->fields, &declared);
    nt__hook_leave();
    for (size_t i = 0; i < declared.count; i++) {
        bool stays = false;
        for (const nt_named_schedule *o = option; o->name; o++) stays |= strcmp(o->name, declared.items[i].name) == 0;
        if (!stays) nt__text_add(&names, "%s%s", names.length ? ", " : "", declared.items[i].name);
    }
    nt_status status = names.failed ? NT_OUT_OF_MEMORY : NT_OK;
    if (names.length && status == NT_OK)
        status = nt__warn("%s: the schedules given replace all of the schedules hook; without a schedule now: %s",
                          task->experiment->name, names.data);
    nt__text_free(&names);
    nt__schedules_free(&declared);
    return status;
}

nt_status nt__schedules_bind(nt__resident *resident, const nt_named_schedule *option) {
    nt_schedules declared = {0};
    resident->horizon = nt__steps_of_all_epochs(resident->traced);
    resident->schedules_from_option = option != NULL;
    if (option) {
        nt_status status = bind_all(resident, option, count_named(option));
        return status == NT_OK ? warn_dropped(resident->task, option) : status;
    }
    if (!resident->task->experiment->hooks.schedules) return NT_OK;
    nt__hook_begin(resident->task->experiment, "schedules");
    resident->task->experiment->hooks.schedules(resident->task->fields, &declared);
    nt_status status = nt__hook_end(resident->task->experiment, "schedules", declared.status);
    if (status == NT_OK) status = bind_all(resident, declared.items, declared.count);
    nt__schedules_free(&declared);
    return status;
}

void nt__schedules_print(const nt__resident *resident, nt__text *out) {
    for (size_t i = 0; i < resident->binding_count; i++) {
        nt__text_add(out, "%s%s ", i ? ", " : "", resident->bindings[i].name);
        nt__schedule_print(&resident->bindings[i].schedule, out);
    }
}

bool nt__field_scheduled(const nt__resident *resident, size_t field) {
    for (size_t i = 0; i < resident->binding_count; i++)
        if (resident->bindings[i].field == (int)field) return true;
    return false;
}

/* ---- the values of a step --------------------------------------------------------------------------------------- */

static nt_status not_finite(const nt__resident *resident, const nt__binding *binding, int64_t step, double value) {
    return nt__fail(NT_INVALID, "schedule '%s' of %s gave %g for step %lld of %lld: a value must be finite",
                    binding->name, nt__schedules_source(resident), nt__plain_nan(value), (long long)step,
                    (long long)resident->horizon);
}

/* Past the horizon a function that has no value is left at that of the last step. */
static nt_status hold(const nt__resident *resident, nt__binding *binding, int64_t step, double value) {
    double last = nt__schedule_value(&binding->schedule, resident->horizon, resident->horizon);
    if (!isfinite(last)) return not_finite(resident, binding, resident->horizon, last);
    binding->held = true;
    binding->value = last;
    return nt__warn("schedule '%s' gave %g for step %lld, past its horizon of %lld steps: the value of step %lld, %g, "
                    "is kept. Train for as many epochs as the run was made for",
                    binding->name, nt__plain_nan(value), (long long)step, (long long)resident->horizon,
                    (long long)resident->horizon, last);
}

static nt_status find_value(const nt__resident *resident, nt__binding *binding, int64_t step) {
    if (binding->held) return NT_OK;
    nt__hook_enter("schedule", binding->name);
    nt__calls_watch();
    double value = nt__schedule_value(&binding->schedule, step, resident->horizon);
    nt_status status = nt__calls_status();
    nt__hook_leave();
    if (status != NT_OK)
        return nt__fail_in(status, "schedule '%s' of %s", binding->name, nt__schedules_source(resident));
    if (isfinite(value)) {
        binding->value = value;
        return NT_OK;
    }
    bool is_past = resident->horizon > 0 && step > resident->horizon;
    return is_past ? hold(resident, binding, step, value) : not_finite(resident, binding, step, value);
}

/* One that spreads over the run's steps ends with them; steps of its own were chosen, and a function answers itself. */
static nt_status warn_over(const nt__resident *resident, nt__binding *binding, int64_t step) {
    const nt_schedule *schedule = &binding->schedule;
    bool is_spread = nt__schedule_varies(schedule) && !schedule->function && schedule->steps == 0;
    if (!is_spread || step <= resident->horizon || binding->told_over) return NT_OK;
    binding->told_over = true;
    return nt__warn("%s: schedule %s is over at step %lld: it stays at %g from here on",
                    resident->task->experiment->name, binding->name, (long long)resident->horizon, binding->value);
}

static nt_status apply_to_field(nt__resident *resident, const nt__binding *binding) {
    nt_status status = nt__device_field_write_number(resident, (size_t)binding->field, binding->value);
    return status == NT_OK ? NT_OK
                           : nt__fail_in(status, "schedule '%s' of %s", binding->name, nt__schedules_source(resident));
}

static nt_status apply_to_scalars(nt__resident *resident, nt__rate *scalars, size_t count) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < count; i++)
        if (scalars[i].binding) status = nt__rate_write(resident, &scalars[i], scalars[i].binding->value);
    return status;
}

/* Once a step, for the step to come; a function is called once, however many groups there are. */
nt_status nt__schedules_apply(nt__resident *resident) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < resident->binding_count; i++) {
        status = find_value(resident, &resident->bindings[i], resident->step + 1);
        if (status == NT_OK)
            status = check_scalar(resident, &resident->bindings[i], resident->step + 1, resident->bindings[i].value);
        if (status == NT_OK) status = warn_over(resident, &resident->bindings[i], resident->step + 1);
        if (status == NT_OK && resident->bindings[i].field >= 0)
            status = apply_to_field(resident, &resident->bindings[i]);
    }
    if (status != NT_OK || !resident->binding_count) return status;
    status = apply_to_scalars(resident, resident->rates, resident->traced->layout.group_count);
    return status == NT_OK ? apply_to_scalars(resident, resident->inputs, resident->traced->input_count) : status;
}
