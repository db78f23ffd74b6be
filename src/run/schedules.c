/* Schedules of a run: their names bound to what they set, and the values of a step.
 * Not here: the kinds of schedules, and how a value gets to the device.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run/run_internal.h"

const char *nt__schedules_source(const nt_run *run) {
    return run->schedules_from_option ? "the run's option" : "the schedules hook";
}

/* ---- what a name means ------------------------------------------------------------------------------------------ */

/* A schedule gives numbers, so it sets a Device field that is one. */
static bool can_be_scheduled(const nt_field_info *field) {
    return field->marker == NT_DEVICE && nt__field_is_number(field);
}

/* Place of a Device field in the list of fields, -1 when there is none of that name. */
static int find_device(const nt_run *run, const char *name) {
    const nt_field_info *field = nt__field_find(run->experiment, name);
    return field && can_be_scheduled(field) ? (int)(field - run->experiment->fields) : -1;
}

enum { ALL_GROUPS = -1 };

static bool concerns(int group, size_t g) {
    return group == ALL_GROUPS || group == (int)g;
}

/* The rate, or an input of the rule of the group, of some group. */
static bool is_scalar(const nt_run *run, int group, const char *name) {
    for (size_t g = 0; g < run->layout.group_count; g++)
        if (concerns(group, g) && !run->training[g].frozen && strcmp(name, "learning_rate") == 0) return true;
    for (size_t i = 0; i < run->input_count; i++)
        if (concerns(group, run->inputs[i].group) && strcmp(run->inputs[i].scalar, name) == 0) return true;
    return false;
}

/* The rule of which it is a number that cannot change from step to step; else NULL. */
static const char *constant_of(const nt_run *run, int group, const char *name) {
    bool is_input = false;
    for (size_t g = 0; g < run->layout.group_count; g++)
        if (concerns(group, g) && nt__rule_has_number(&run->training[g].rule, name, &is_input) && !is_input)
            return nt__rule_owner(&run->training[g].rule, name);
    return NULL;
}

static int find_group(const nt_run *run, const char *name, size_t length) {
    for (size_t g = 0; g < run->layout.group_count; g++) {
        const char *group = run->layout.groups[g].name;
        if (strlen(group) == length && memcmp(group, name, length) == 0) return (int)g;
    }
    return -1;
}

static void add_device_fields(const nt_run *run, nt__text *out) {
    size_t found = 0;
    nt__text_add(out, "Device fields: ");
    for (size_t i = 0; i < run->experiment->field_count; i++)
        if (can_be_scheduled(&run->experiment->fields[i]))
            nt__text_add(out, "%s%s", found++ ? ", " : "", run->experiment->fields[i].name);
    nt__text_add(out, "%s", found ? "" : "none");
}

static bool is_listed_before(const nt_run *run, int group, size_t input) {
    for (size_t i = 0; i < input; i++)
        if (concerns(group, run->inputs[i].group) && strcmp(run->inputs[i].scalar, run->inputs[input].scalar) == 0)
            return true;
    return false;
}

static void add_scalars(const nt_run *run, int group, nt__text *out) {
    if (group == ALL_GROUPS)
        nt__text_add(out, "scalars of the optimizer: ");
    else
        nt__text_add(out, "scalars of group '%s': ", run->layout.groups[group].name);
    nt__text_add(out, "%s", is_scalar(run, group, "learning_rate") ? "learning_rate" : "none, it is frozen");
    for (size_t i = 0; i < run->input_count; i++)
        if (concerns(group, run->inputs[i].group) && !is_listed_before(run, group, i))
            nt__text_add(out, ", %s", run->inputs[i].scalar);
}

static void add_groups(const nt_run *run, nt__text *out) {
    nt__text_add(out, "groups: ");
    for (size_t g = 0; g < run->layout.group_count; g++)
        nt__text_add(out, "%s%s", g ? ", " : "", run->layout.groups[g].name);
}

/* A field that is there but not as a Device field, or a number of the rule that is part of the program. */
static bool add_near_miss(const nt_run *run, int group, const char *name, nt__text *out) {
    const nt_field_info *field = nt__field_find(run->experiment, name);
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
    const char *rule = constant_of(run, group, name);
    if (!rule) return false;
    nt__text_add(out, "%s of rule %s is a constant of the program and cannot be scheduled; ", name, rule);
    add_scalars(run, group, out);
    return true;
}

/* Fails with a text under construction. */
static nt_status refuse(nt__text *text) {
    nt_status status = text->failed ? NT_OUT_OF_MEMORY : nt__fail(NT_INVALID, "%s", text->data);
    nt__text_free(text);
    return status;
}

static nt_status bind_device(const nt_run *run, const char *name, nt__binding *out) {
    nt__text text = {0};
    out->field = find_device(run, name);
    if (out->field >= 0) return NT_OK;
    if (!add_near_miss(run, ALL_GROUPS, name, &text)) {
        nt__text_add(&text, "there is no Device field '%s'; ", name);
        add_device_fields(run, &text);
    }
    return refuse(&text);
}

static nt_status bind_scalar(const nt_run *run, const char *name, nt__binding *out) {
    nt__text text = {0};
    out->scalar = name;
    if (is_scalar(run, out->group, name)) return NT_OK;
    if (!constant_of(run, out->group, name) || !add_near_miss(run, out->group, name, &text)) {
        nt__text_add(&text, "the optimizer has no scalar '%s'; ", name);
        add_scalars(run, out->group, &text);
    }
    return refuse(&text);
}

/* "GROUP.SCALAR": groups may have dots in their names. */
static nt_status bind_path(const nt_run *run, const char *path, nt__binding *out) {
    const char *dot = strrchr(path, '.');
    size_t length = (size_t)(dot - path);
    nt__text text = {0};
    out->group = find_group(run, path, length);
    if (out->group >= 0) return bind_scalar(run, dot + 1, out);
    nt__text_add(&text, "there is no parameter group '%.*s'; ", (int)length, path);
    add_groups(run, &text);
    nt__text_add(&text, ". A path has one level: opt.GROUP.%s",
                 is_scalar(run, ALL_GROUPS, dot + 1) ? dot + 1 : "learning_rate");
    return refuse(&text);
}

static void add_nothing_matches(const nt_run *run, const char *name, nt__text *out) {
    const char *dot = strrchr(name, '.');
    if (add_near_miss(run, ALL_GROUPS, name, out)) return;
    nt__text_add(out, "it is the name of nothing that can be scheduled; ");
    add_device_fields(run, out);
    nt__text_add(out, "; ");
    add_scalars(run, ALL_GROUPS, out);
    nt__text_add(out, " (the rate is learning_rate, not lr or eta)");
    if (dot && find_group(run, name, (size_t)(dot - name)) >= 0) nt__text_add(out, ". Did you mean opt.%s?", name);
}

static nt_status bind_bare(const nt_run *run, const char *name, nt__binding *out) {
    nt__text text = {0};
    bool scalar = is_scalar(run, ALL_GROUPS, name);
    out->scalar = name;
    out->field = find_device(run, name);
    if (scalar != (out->field >= 0)) return NT_OK;
    if (scalar)
        nt__text_add(&text, "it is both a Device field and a scalar of the optimizer: write device.%s or opt.%s", name,
                     name);
    else
        add_nothing_matches(run, name, &text);
    return refuse(&text);
}

static nt_status bind_name(const nt_run *run, nt__binding *out) {
    const char *name = out->name;
    out->field = -1;
    out->group = ALL_GROUPS;
    if (!*name) return nt__fail(NT_INVALID, "it has no name: write that of a Device field, or learning_rate");
    if (strcmp(name, "device") == 0 || strcmp(name, "opt") == 0)
        return nt__fail(NT_INVALID,
                        "the names device and opt stand in front of others: write %s.NAME; a Device field of that name "
                        "is device.%s",
                        name, name);
    if (strncmp(name, "device.", 7) == 0) return bind_device(run, name + 7, out);
    if (strncmp(name, "opt.", 4) != 0) return bind_bare(run, name, out);
    return strchr(name + 4, '.') ? bind_path(run, name + 4, out) : bind_scalar(run, name + 4, out);
}

/* ---- what a value may be ---------------------------------------------------------------------------------------- */

static nt_status refuse_scalar(const nt_run *run, const nt__binding *binding, int64_t step, double value,
                               const char *range) {
    return nt__fail(NT_INVALID, "schedule '%s' of %s gave %g for step %lld of %lld: %s must %s", binding->name,
                    nt__schedules_source(run), value, (long long)step, (long long)run->horizon,
                    range ? binding->scalar : "a learning rate", range ? range : "not be negative");
}

/* Of the rate, below 0 a step goes up the loss; 0 leaves the parameters as they are. Other scalars are what the rules
 * say.
 */
static nt_status check_scalar(const nt_run *run, const nt__binding *binding, int64_t step, double value) {
    const char *range = NULL;
    if (binding->field >= 0) return NT_OK;
    if (strcmp(binding->scalar, "learning_rate") == 0)
        return value >= 0 ? NT_OK : refuse_scalar(run, binding, step, value, NULL);
    for (size_t g = 0; g < run->layout.group_count; g++)
        if (concerns(binding->group, g) && !nt__rule_takes(&run->training[g].rule, binding->scalar, value, &range)) {
            char text[64];
            snprintf(text, sizeof text, "be %s", range);
            return refuse_scalar(run, binding, step, value, text);
        }
    return NT_OK;
}

/* A value that is not finite, or that the field's type does not have, is told of at its step, which may never come. */
static nt_status check_ahead_at(const nt_run *run, const nt__binding *binding, int64_t step) {
    double value = nt__schedule_value(&binding->schedule, step, run->horizon);
    if (!isfinite(value)) return NT_OK;
    if (binding->field < 0) return check_scalar(run, binding, step, value);
    nt_status status = nt__device_claims_check_number(run, (size_t)binding->field, value);
    if (status == NT_OK) return NT_OK;
    return nt__fail_in(status, "schedule '%s' of %s gave %g for step %lld of %lld", binding->name,
                       nt__schedules_source(run), value, (long long)step, (long long)run->horizon);
}

/* Values of some steps, the first and the last among them, before anything is compiled: the others are checked at their
 * steps. */
static nt_status check_ahead(const nt_run *run, const nt__binding *binding) {
    enum { MOST_STEPS = 256 };
    int64_t last = run->settings.max_steps < run->horizon ? run->settings.max_steps : run->horizon;
    int64_t count = last < MOST_STEPS ? last : MOST_STEPS;
    nt_status status = NT_OK;
    if (nt__schedule_has_function(&binding->schedule)) return NT_OK;
    for (int64_t i = 1; status == NT_OK && i <= count; i++) {
        double share = count > 1 ? (double)(i - 1) / (double)(count - 1) : 0;
        int64_t step = i == count ? last : 1 + (int64_t)(share * (double)(last - 1));
        status = check_ahead_at(run, binding, step);
    }
    for (size_t i = 0; status == NT_OK && binding->schedule.points && i < binding->schedule.count; i++) {
        int64_t after = binding->schedule.points[i].after;
        if (after < last - binding->schedule.warmup)
            status = check_ahead_at(run, binding, binding->schedule.warmup + after + 1);
    }
    return status;
}

/* ---- binding ---------------------------------------------------------------------------------------------------- */

static nt_status check_unique(const nt_run *run, const nt__binding *binding) {
    for (const nt__binding *b = run->bindings; b < binding; b++) {
        if (b->field != binding->field || b->group != binding->group) continue;
        if (b->field < 0 && strcmp(b->scalar, binding->scalar) != 0) continue;
        return nt__fail(NT_INVALID, "schedule '%s' sets the same value: leave one of them out", b->name);
    }
    return NT_OK;
}

static nt_status bind(nt_run *run, const nt_named_schedule *named) {
    nt__binding *binding = &run->bindings[run->binding_count];
    *binding = (nt__binding){.name = nt__arena_strdup(&run->arena, named->name)};
    if (!binding->name) return NT_OUT_OF_MEMORY;
    nt_status status = bind_name(run, binding);
    if (status == NT_OK) status = nt__schedule_check(&named->schedule);
    if (status == NT_OK && !nt__schedule_copy(&run->arena, &named->schedule, &binding->schedule))
        status = NT_OUT_OF_MEMORY;
    if (status == NT_OK) status = check_unique(run, binding);
    if (status != NT_OK) return nt__fail_in(status, "schedule '%s' of %s", named->name, nt__schedules_source(run));
    run->binding_count++;
    return NT_OK;
}

/* A group's own schedule comes before that of all groups. */
static void bind_scalars(const nt_run *run, nt__rate *scalars, size_t count) {
    for (size_t b = 0; b < run->binding_count; b++) {
        const nt__binding *binding = &run->bindings[b];
        if (binding->field >= 0) continue;
        for (size_t i = 0; i < count; i++) {
            nt__rate *scalar = &scalars[i];
            bool own = binding->group == (int)scalar->group;
            if (strcmp(binding->scalar, scalar->scalar) != 0 || run->training[scalar->group].frozen) continue;
            if (own || (binding->group == ALL_GROUPS && !scalar->binding)) scalar->binding = binding;
        }
    }
}

/* One schedule for several groups replaces what each of them was given; when that differs it is not meant. Rates
 * keep their ratios. */
static nt_status check_replaced(const nt_run *run) {
    for (size_t i = 0; i < run->input_count; i++)
        for (size_t j = 0; j < i; j++) {
            const nt__rate *a = &run->inputs[j], *b = &run->inputs[i];
            if (!a->binding || a->binding != b->binding || a->value == b->value) continue;
            return nt__fail(
                NT_INVALID,
                "schedule '%s' of %s would replace %s %g of group '%s' and %g of group '%s': give each group "
                "a schedule of its own, opt.%s.%s",
                a->binding->name, nt__schedules_source(run), a->scalar, a->value, run->layout.groups[a->group].name,
                b->value, run->layout.groups[b->group].name, run->layout.groups[a->group].name, a->scalar);
        }
    return NT_OK;
}

static nt_status bind_all(nt_run *run, const nt_named_schedule *items, size_t count) {
    nt_status status = NT_OK;
    run->bindings = nt__arena_alloc(&run->arena, count + 1, sizeof *run->bindings);
    if (!run->bindings) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < count; i++) status = bind(run, &items[i]);
    for (size_t i = 0; status == NT_OK && i < count; i++) status = check_ahead(run, &run->bindings[i]);
    if (status != NT_OK) return status;
    bind_scalars(run, run->rates, run->layout.group_count);
    bind_scalars(run, run->inputs, run->input_count);
    status = check_replaced(run);
    return status == NT_OK ? nt__scheduled_check_used(run) : status;
}

static size_t count_named(const nt_named_schedule *items) {
    size_t count = 0;
    while (items[count].name) count++;
    return count;
}

/* The option takes the place of the hook's whole list: what it leaves out is not scheduled, which is easily missed. */
static nt_status warn_dropped(const nt_run *run, const nt_named_schedule *option) {
    nt_schedules declared = {0};
    nt__text names = {0};
    if (!run->experiment->hooks.schedules) return NT_OK;
    nt__hook_enter("schedules", run->experiment->name);
    run->experiment->hooks.schedules(run->fields, &declared);
    nt__hook_leave();
    for (size_t i = 0; i < declared.count; i++) {
        bool stays = false;
        for (const nt_named_schedule *o = option; o->name; o++) stays |= strcmp(o->name, declared.items[i].name) == 0;
        if (!stays) nt__text_add(&names, "%s%s", names.length ? ", " : "", declared.items[i].name);
    }
    nt_status status = names.failed ? NT_OUT_OF_MEMORY : NT_OK;
    if (names.length && status == NT_OK)
        status = nt__warn("%s: the schedules given replace all of the schedules hook; without a schedule now: %s",
                          run->experiment->name, names.data);
    nt__text_free(&names);
    nt__schedules_free(&declared);
    return status;
}

nt_status nt__schedules_bind(nt_run *run, const nt_named_schedule *option) {
    nt_schedules declared = {0};
    run->horizon = nt__steps_of_all_epochs(run);
    run->schedules_from_option = option != NULL;
    if (option) {
        nt_status status = bind_all(run, option, count_named(option));
        return status == NT_OK ? warn_dropped(run, option) : status;
    }
    if (!run->experiment->hooks.schedules) return NT_OK;
    nt__hook_begin(run->experiment, "schedules");
    run->experiment->hooks.schedules(run->fields, &declared);
    nt_status status = nt__hook_end(run->experiment, "schedules", declared.status);
    if (status == NT_OK) status = bind_all(run, declared.items, declared.count);
    nt__schedules_free(&declared);
    return status;
}

void nt__schedules_print(const nt_run *run, nt__text *out) {
    for (size_t i = 0; i < run->binding_count; i++) {
        nt__text_add(out, "%s%s ", i ? ", " : "", run->bindings[i].name);
        nt__schedule_print(&run->bindings[i].schedule, out);
    }
}

bool nt__field_scheduled(const nt_run *run, size_t field) {
    for (size_t i = 0; i < run->binding_count; i++)
        if (run->bindings[i].field == (int)field) return true;
    return false;
}

/* ---- the values of a step --------------------------------------------------------------------------------------- */

static nt_status not_finite(const nt_run *run, const nt__binding *binding, int64_t step, double value) {
    return nt__fail(NT_INVALID, "schedule '%s' of %s gave %g for step %lld of %lld: a value must be finite",
                    binding->name, nt__schedules_source(run), nt__plain_nan(value), (long long)step,
                    (long long)run->horizon);
}

/* Past the horizon a function that has no value is left at that of the last step. */
static nt_status hold(const nt_run *run, nt__binding *binding, int64_t step, double value) {
    double last = nt__schedule_value(&binding->schedule, run->horizon, run->horizon);
    if (!isfinite(last)) return not_finite(run, binding, run->horizon, last);
    binding->held = true;
    binding->value = last;
    return nt__warn("schedule '%s' gave %g for step %lld, past its horizon of %lld steps: the value of step %lld, %g, "
                    "is kept. Train for as many epochs as the run was made for",
                    binding->name, nt__plain_nan(value), (long long)step, (long long)run->horizon,
                    (long long)run->horizon, last);
}

static nt_status find_value(const nt_run *run, nt__binding *binding, int64_t step) {
    if (binding->held) return NT_OK;
    nt__hook_enter("schedule", binding->name);
    nt__calls_watch();
    double value = nt__schedule_value(&binding->schedule, step, run->horizon);
    nt_status status = nt__calls_status();
    nt__hook_leave();
    if (status != NT_OK) return nt__fail_in(status, "schedule '%s' of %s", binding->name, nt__schedules_source(run));
    if (isfinite(value)) {
        binding->value = value;
        return NT_OK;
    }
    bool is_past = run->horizon > 0 && step > run->horizon;
    return is_past ? hold(run, binding, step, value) : not_finite(run, binding, step, value);
}

/* One that spreads over the run's steps ends with them; steps of its own were chosen, and a function answers itself. */
static nt_status warn_over(const nt_run *run, nt__binding *binding, int64_t step) {
    const nt_schedule *schedule = &binding->schedule;
    bool is_spread = nt__schedule_varies(schedule) && !schedule->function && schedule->steps == 0;
    if (!is_spread || step <= run->horizon || binding->told_over) return NT_OK;
    binding->told_over = true;
    return nt__warn("%s: schedule %s is over at step %lld: it stays at %g from here on", run->experiment->name,
                    binding->name, (long long)run->horizon, binding->value);
}

static nt_status apply_to_field(nt_run *run, const nt__binding *binding) {
    nt_status status = nt__device_field_write_number(run, (size_t)binding->field, binding->value);
    return status == NT_OK ? NT_OK
                           : nt__fail_in(status, "schedule '%s' of %s", binding->name, nt__schedules_source(run));
}

static nt_status apply_to_scalars(nt_run *run, nt__rate *scalars, size_t count) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < count; i++)
        if (scalars[i].binding) status = nt__rate_write(run, &scalars[i], scalars[i].binding->value);
    return status;
}

/* Once a step, for the step to come; a function is called once, however many groups there are. */
nt_status nt__schedules_apply(nt_run *run) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < run->binding_count; i++) {
        status = find_value(run, &run->bindings[i], run->step + 1);
        if (status == NT_OK) status = check_scalar(run, &run->bindings[i], run->step + 1, run->bindings[i].value);
        if (status == NT_OK) status = warn_over(run, &run->bindings[i], run->step + 1);
        if (status == NT_OK && run->bindings[i].field >= 0) status = apply_to_field(run, &run->bindings[i]);
    }
    if (status != NT_OK || !run->binding_count) return status;
    status = apply_to_scalars(run, run->rates, run->layout.group_count);
    return status == NT_OK ? apply_to_scalars(run, run->inputs, run->input_count) : status;
}
