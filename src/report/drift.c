/* A run against the code and the settings of now. A run keeps the programs, hooks and values that it was made with;
 * when it is used, its hooks are traced again as the newest definition of its name has them, and what differs is told.
 * The trace takes milliseconds, compiles nothing and leaves nothing after.
 * Not here: how groups are trained (drift_groups.c), comparing two programs (program/compare.c), loading code
 * (experiment/load.c).
 */
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

/* One check under way. */
typedef struct check {
    const nt__resident *resident;
    const nt_experiment *now; /* the newest definition */
    struct {
        nt__task task;
        nt__traced traced;
    } scratch;        /* what a new run with the same data, fields and options would trace */
    bool training;    /* else what only training uses is left out */
    bool traced;      /* the scratch run has all its traces */
    nt__text *report; /* lines, each with its line end */
} check;

/* ---- the scratch run -------------------------------------------------------------------------------------------- */

/* A definition that is registered under the same name as when the run was made is the run's own: it may be one that was
 * never registered. */
static const nt_experiment *newest_definition(const nt__task *task) {
    const nt_experiment *now = nt_experiment_find(task->experiment->name);
    return now && now != task->registered ? now : task->experiment;
}

static nt_status prepare(check *c) {
    const nt__task *task = c->resident->task;
    const nt__traced *traced = c->resident->traced;
    nt__task *t = &c->scratch.task;
    nt__traced *s = &c->scratch.traced;
    s->task = t;
    t->experiment = c->now;
    t->settings = task->settings;
    t->settings.quiet = true;
    s->data = traced->data;
    s->train = c->training ? traced->train : NULL;
    s->laid_out_by_training = traced->laid_out_by_training;
    s->batch_fields = traced->batch_fields;
    s->batch = traced->batch;
    s->batch_size = traced->batch_size;
    s->engine = traced->engine;
    s->is_check = true;
    t->fields = nt__arena_alloc(&t->arena, 1, c->now->size + 1);
    t->view = nt__arena_alloc(&t->arena, 1, c->now->view_size + 1);
    t->defaults = nt__arena_alloc(&t->arena, 1, c->now->size + 1);
    s->batch.inputs = nt__arena_alloc(&t->arena, s->batch.count + 1, sizeof *s->batch.inputs);
    if (!t->fields || !t->view || !t->defaults || !s->batch.inputs) return NT_OUT_OF_MEMORY;
    c->now->set_defaults(t->defaults);
    memcpy(t->fields, t->defaults, c->now->size);
    nt__fields_copy(task->experiment, task->fields, c->now, t->fields);
    t->settings.manual = nt__is_manual(c->now, t->fields);
    return NT_OK;
}

static nt_status trace(check *c) {
    nt__task *t = &c->scratch.task;
    nt__traced *s = &c->scratch.traced;
    const nt_hooks *hooks = &c->now->hooks;
    nt_status status = nt__experiment_check(c->now);
    if (status != NT_OK) return status;
    if (s->train && !hooks->loss && !t->settings.manual)
        return nt__fail(NT_INVALID, "%s: experiment '%s' has no loss hook; add .loss to NT_DEFINE", c->now->file,
                        c->now->name);
    status = nt__device_fields_list(s);
    return status == NT_OK ? nt__trace_programs(s) : status;
}

/* Data, batch fields and engine are the run's. */
static void release(check *c) {
    nt__programs_free(&c->scratch.traced);
    nt__arena_free(&c->scratch.task.arena);
}

/* ---- programs --------------------------------------------------------------------------------------------------- */

/* Whether they differ; the difference is added to the text. */
static bool differ(check *c, const nt__program *old, const nt__program *new, nt__text *difference) {
    bool different = old && new &&nt__program_compare(old, new, difference);
    c->report->failed |= difference->failed;
    return different;
}

static void compare_program(check *c, const char *role, const nt__program *old, const nt__program *new) {
    nt__text difference = {0};
    if (differ(c, old, new, &difference))
        nt__text_add(c->report, "  %s program: %s\n", role, difference.data ? difference.data : "");
    nt__text_free(&difference);
}

/* The program of an evaluation begins with forward, so what differs there is told once. */
static bool compare_evaluation(check *c, const nt__program *old, const nt__program *new) {
    nt__text own = {0}, of_forward = {0};
    bool different = differ(c, old, new, &own);
    differ(c, c->resident->traced->programs.forward, c->scratch.traced.programs.forward, &of_forward);
    bool is_same = own.data && of_forward.data && strcmp(own.data, of_forward.data) == 0;
    if (different && !is_same) nt__text_add(c->report, "  evaluation program: %s\n", own.data ? own.data : "");
    nt__text_free(&of_forward);
    nt__text_free(&own);
    return different;
}

/* Programs of evaluations differ in their number of rows only: the first that moved stands for all. */
static void compare_evaluations(check *c) {
    const nt_hooks *old = &c->resident->task->experiment->hooks, *new = &c->now->hooks;
    bool same_hooks = !old->metrics == !new->metrics && !old->device_metrics == !new->device_metrics;
    if (!same_hooks) return; /* which is told of the hooks */
    const nt__programs *before = &c->resident->traced->programs, *now = &c->scratch.traced.programs;
    for (size_t i = 0; i < before->evaluation_count && i < now->evaluation_count; i++)
        if (compare_evaluation(c, before->evaluations[i].program, now->evaluations[i].program)) return;
}

static nt_status compare_programs(check *c) {
    nt_status status = trace(c);
    if (status == NT_OUT_OF_MEMORY) return status;
    if (status != NT_OK) {
        nt__text_add(c->report, "  the new code does not trace: %s\n", nt_error_message());
        return NT_OK;
    }
    c->traced = true;
    compare_program(c, "gradient", c->resident->traced->programs.gradient, c->scratch.traced.programs.gradient);
    compare_program(c, "optimizer", c->resident->traced->programs.optimizer, c->scratch.traced.programs.optimizer);
    compare_program(c, "manual_step", c->resident->traced->programs.manual_step,
                    c->scratch.traced.programs.manual_step);
    compare_program(c, "average", c->resident->traced->programs.average, c->scratch.traced.programs.average);
    compare_program(c, "forward", c->resident->traced->programs.forward, c->scratch.traced.programs.forward);
    compare_evaluations(c);
    return NT_OK;
}

/* ---- fields and settings ---------------------------------------------------------------------------------------- */

static void print_setting(const nt__setting *setting, const nt__settings *from, nt__text *out) {
    const nt_field_info as_field = {.name = setting->name, .type = setting->type, .offset = setting->value};
    nt__field_print(&as_field, from, out);
}

/* What the run has: an option may have taken the place of the field. */
static void print_in_use(const nt__task *task, const nt_field_info *field, const nt__setting *setting, nt__text *out) {
    if (setting)
        print_setting(setting, &task->settings, out);
    else
        nt__field_print(field, task->fields, out);
}

/* The default then against the default now: a value that was given when the run was made is no drift. */
static void compare_default(check *c, const nt_field_info *before, const nt_field_info *now) {
    const nt__setting *setting = nt__setting_find(now->name);
    if (setting && nt__setting_is_for_training(setting) && !c->training) return;
    nt__text old = {0}, new = {0}, used = {0};
    nt__field_print(before, c->resident->task->defaults, &old);
    nt__field_print(now, c->scratch.task.defaults, &new);
    print_in_use(c->resident->task, before, setting, &used);
    c->report->failed |= old.failed || new.failed || used.failed;
    if (!c->report->failed && strcmp(old.data, new.data) != 0)
        nt__text_add(c->report, "  field %s: default %s -> %s; this run still uses %s\n", now->name, old.data, new.data,
                     used.data);
    nt__text_free(&old);
    nt__text_free(&new);
    nt__text_free(&used);
}

static void report_added(check *c, const nt_field_info *field) {
    nt__text value = {0};
    nt__field_print(field, c->scratch.task.defaults, &value);
    nt__text_add(c->report, "  field %s (%s): added, default %s; this run has no such field\n", field->name,
                 nt__field_type_name(field->type), value.data ? value.data : "");
    c->report->failed |= value.failed;
    nt__text_free(&value);
}

static void compare_field(check *c, const nt_field_info *now) {
    const nt_field_info *before = nt__field_find(c->resident->task->experiment, now->name);
    if (!before) {
        report_added(c, now);
        return;
    }
    if (before->marker != now->marker)
        nt__text_add(c->report, "  field %s: %s -> %s\n", now->name, nt__marker_name(before->marker),
                     nt__marker_name(now->marker));
    if (before->type == now->type && before->size == now->size)
        compare_default(c, before, now);
    else
        nt__text_add(c->report, "  field %s: %s (%zu bytes) -> %s (%zu bytes); this run keeps its own\n", now->name,
                     nt__field_type_name(before->type), before->size, nt__field_type_name(now->type), now->size);
}

static void compare_fields(check *c) {
    const nt_experiment *before = c->resident->task->experiment;
    for (size_t i = 0; i < c->now->field_count; i++) compare_field(c, &c->now->fields[i]);
    for (size_t i = 0; i < before->field_count; i++)
        if (!nt__field_find(c->now, before->fields[i].name))
            nt__text_add(c->report, "  field %s (%s): removed; this run keeps it\n", before->fields[i].name,
                         nt__field_type_name(before->fields[i].type));
}

/* Whether a hook is there. What a host hook does cannot be compared. */
static void compare_hooks(check *c) {
    const nt_hooks *before = &c->resident->task->experiment->hooks, *now = &c->now->hooks;
    const struct {
        const char *name;
        bool before, now, training;
    } hooks[] = {
        {"metrics", before->metrics, now->metrics, false},
        {"device_metrics", before->device_metrics, now->device_metrics, false},
        {"train_metrics", before->train_metrics, now->train_metrics, true},
        {"host_train_metrics", before->host_train_metrics, now->host_train_metrics, true},
    };
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
        if (hooks[i].before == hooks[i].now || (hooks[i].training && !c->training)) continue;
        nt__text_add(c->report, "  hook %s: %s; this run %s\n", hooks[i].name, hooks[i].now ? "added" : "removed",
                     hooks[i].now ? "has none" : "keeps its own");
    }
}

/* What a setting's hook says, or without one the default; fields have been compared. */
static void compare_setting(check *c, const nt__setting *setting, const nt__settings *now) {
    const nt__task *task = c->resident->task;
    nt__text old = {0}, new = {0}, used = {0};
    print_setting(setting, &task->declared, &old);
    print_setting(setting, now, &new);
    print_setting(setting, &task->settings, &used);
    c->report->failed |= old.failed || new.failed || used.failed;
    if (!c->report->failed && strcmp(old.data, new.data) != 0)
        nt__text_add(c->report, "  %s: %s -> %s; this run still uses %s\n", setting->name, old.data, new.data,
                     used.data);
    nt__text_free(&old);
    nt__text_free(&new);
    nt__text_free(&used);
}

static nt_status compare_settings(check *c) {
    nt__settings now;
    const nt__setting_owner owner = {c->scratch.task.experiment, c->scratch.task.fields, &c->scratch.task.arena};
    nt_status status = nt__settings_declared(&owner, &now);
    for (size_t i = 0; status == NT_OK && nt__setting_at(i); i++) {
        const nt__setting *setting = nt__setting_at(i);
        bool hooked = nt__has_setting_hook(&c->resident->task->experiment->hooks, setting) ||
                      nt__has_setting_hook(&c->now->hooks, setting);
        if (hooked && (c->training || !nt__setting_is_for_training(setting))) compare_setting(c, setting, &now);
    }
    return status;
}

/* The way of training is that of the day the run was made. */
static void compare_mode(check *c) {
    static const char *const modes[] = {"automatic", "manual (train_step)"};
    bool before = c->resident->task->settings.manual, now = c->scratch.task.settings.manual;
    if (before != now)
        nt__text_add(c->report, "  training: %s -> %s; this run goes on as it was made\n", modes[before], modes[now]);
}

/* ---- the report ------------------------------------------------------------------------------------------------- */

static void add_title(const nt__task *task, const nt__text *lines, nt__text *out) {
    if (!lines->length) return;
    nt__text_add(out,
                 "%s: the code has changed since this run was made. It goes on with what it was made with; a new run "
                 "uses the new code. What differs:\n%.*s",
                 task->experiment->name, (int)(lines->length - 1), lines->data);
    out->failed |= lines->failed;
}

static nt_status compare(const nt__resident *resident, bool training, nt__text *out) {
    nt__text lines = {0};
    check c = {.resident = resident, .now = newest_definition(resident->task), .training = training, .report = &lines};
    nt_status status = prepare(&c);
    if (status == NT_OK) status = compare_programs(&c);
    if (status == NT_OK) {
        compare_fields(&c);
        compare_hooks(&c);
        status = compare_settings(&c);
        if (training) compare_mode(&c);
        if (training && resident->traced->train && c.traced)
            nt__drift_compare_groups(resident, &c.scratch.traced, &lines);
        add_title(resident->task, &lines, out);
        if (lines.failed || out->failed) status = NT_OUT_OF_MEMORY;
    }
    release(&c);
    nt__text_free(&lines);
    return status;
}

/* Hooks that are traced must not use the run, and a message that stood before the check stands after it. */
static nt_status compare_apart(nt__reporting *reporting, bool training, nt__text *out) {
    nt__kept_error before = {0};
    nt__error_keep(&before, nt_error_status());
    reporting->seen_generation = nt__experiment_generation();
    reporting->checking = true;
    nt_status status = compare(reporting->resident, training, out);
    reporting->checking = false;
    if (status == NT_OK) {
        nt__fail_nothing();
        nt__error_raise(&before);
    }
    return status;
}

nt_status nt__drift_report(nt__reporting *reporting, const char **report) {
    if (reporting->checking) return nt__fail(NT_INVALID, "nt_run_drift: called by a hook that it traces");
    nt__text text = {0};
    nt_status status = compare_apart(reporting, true, &text);
    if (status != NT_OK) {
        nt__text_free(&text);
        return status;
    }
    nt__text_free(&reporting->drift);
    reporting->drift = text;
    if (text.length) *report = text.data;
    return NT_OK;
}

/* One notice a line. */
static void tell(char *report) {
    for (char *rest, *line = strtok_r(report, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        nt__notice("%s", line);
}

nt_status nt__drift_tell(nt__reporting *reporting, bool training) {
    if (reporting->task->settings.quiet) return NT_OK;
    nt__text text = {0};
    nt_status status = compare_apart(reporting, training, &text);
    if (status == NT_OK && text.length) tell(text.data);
    nt__text_free(&text);
    return status;
}

nt_status nt__drift_look(nt__reporting *reporting, bool training) {
    return reporting->seen_generation == nt__experiment_generation() ? NT_OK : nt__drift_tell(reporting, training);
}
