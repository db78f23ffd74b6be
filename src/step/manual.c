/* Manual mode: train_step traced as one program, and the updates that it asks for.
 * Not here: gradients (nn/gradients.c), rules (optim), the loop (train.c).
 */
#include <string.h>

#include "step/tracing.h"

/* A group that is trained: the parameters and states of now, and those that came in. */
typedef struct group_now {
    nt__update update;
    nt_tensor taken[NT__MAX_STATES];
    bool stepped;
} group_now;

struct nt_optimizers {
    nt__tracing *t;
    group_now **groups; /* one a group; frozen ones have none. NULL: the parameters are being learned */
};

/* ---- what the gradients are of ---------------------------------------------------------------------------------- */

static const char what[] = "step";

/* Index of the leaf of this path, `count` when there is none. */
static size_t find_leaf(const nt__leaf *leaves, size_t count, const char *path) {
    size_t i = 0;
    while (i < count && strcmp(leaves[i].path, path) != 0) i++;
    return i;
}

/* Whether member i is a gradient of a parameter; *leaf is which. */
static bool match(const nt__traced *traced, const struct nt_tensors_content *gradients, size_t i, size_t *leaf,
                  nt_site site) {
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(traced->model, &count);
    char own[NT__TYPE_TEXT], given[NT__TYPE_TEXT];
    nt__type type = {nt_dtype_of(gradients->tensors[i]), nt_shape_of(gradients->tensors[i])};
    *leaf = find_leaf(leaves, count, gradients->names[i]);
    if (*leaf == count) {
        nt__trace_fail(site, what,
                       "'%s' is no parameter; gradients are named by the paths of parameters, as nt_parameter_grads "
                       "does",
                       gradients->names[i]);
        return false;
    }
    if (nt__type_equal(type, leaves[*leaf].type)) return true;
    nt__trace_fail(site, what, "the gradient of '%s' is %s; it must be %s, as the parameter is", gradients->names[i],
                   nt__type_text(type, given), nt__type_text(leaves[*leaf].type, own));
    return false;
}

/* The gradients in the order of the leaves; those that are not there are zero bytes. NULL after keeping an error. */
static nt_tensor *sort_by_leaf(const nt__traced *traced, const struct nt_tensors_content *gradients, nt_site site) {
    size_t count, leaf;
    nt__model_leaves(traced->model, &count);
    nt_tensor *sorted = nt__trace_alloc(site, what, count + 1, sizeof *sorted);
    for (size_t i = 0; sorted && i < gradients->count; i++) {
        if (!match(traced, gradients, i, &leaf, site)) return NULL;
        sorted[leaf] = gradients->tensors[i];
    }
    return sorted;
}

/* How many parameters of the group have a gradient; *missing is one that has none. */
static size_t count_given(const nt__layout *layout, size_t g, const nt_tensor *gradients, const char **missing) {
    size_t given = 0;
    *missing = NULL;
    for (size_t i = 0; i < layout->row_count; i++) {
        if (layout->rows[i].group != (int)g) continue;
        if (gradients[i].trace)
            given++;
        else
            *missing = layout->rows[i].path;
    }
    return given;
}

/* ---- updates ---------------------------------------------------------------------------------------------------- */

/* In the first trace only new values matter, not which. */
static void step_while_learning(nt__traced *traced, const nt_tensor *gradients) {
    size_t count;
    nt__model_leaves(traced->model, &count);
    for (size_t i = 0; i < count; i++)
        if (gradients[i].trace)
            nt__model_set_value(traced->model, i, nt_sub(nt__model_value(traced->model, i), gradients[i]));
}

/* The new values are constants of what follows: a loss after an update is not differentiated through it. */
static void apply(nt_optimizers *optimizers, size_t g, nt_tensor gradient) {
    nt__traced *traced = optimizers->t->traced;
    group_now *now = optimizers->groups[g];
    nt__step *step = &now->update.step;
    step->g = gradient;
    step->x = nt_stop_gradient(nt__rule_apply(&traced->training[g].rule, step));
    memcpy(now->update.states, now->update.next, sizeof now->update.states);
    now->stepped = true;
    for (size_t i = 0; i < traced->layout.row_count; i++)
        if (traced->layout.rows[i].group == (int)g)
            nt__model_set_value(traced->model, i, nt__layout_leaf(&traced->layout.rows[i], step->x));
}

/* The groups that are updated, with their flat gradients; false after keeping an error. */
static bool gather(nt_optimizers *optimizers, const nt_tensor *gradients, size_t *groups, nt_tensor *flat,
                   size_t *count, nt_site site) {
    const nt__layout *layout = &optimizers->t->traced->layout;
    const char *missing;
    *count = 0;
    for (size_t g = 0; g < layout->group_count; g++) {
        if (!count_given(layout, g, gradients, &missing) || !optimizers->groups[g]) continue;
        if (missing) {
            nt__trace_fail(site, what,
                           "group '%s' is updated as a whole, and parameter '%s' of it has no gradient here: the "
                           "param_group hook gives sub-trees that are trained apart groups of their own",
                           layout->groups[g].name, missing);
            return false;
        }
        flat[*count] = nt__layout_gather(layout, (int)g, gradients);
        groups[(*count)++] = g;
    }
    return true;
}

static void step_groups(nt_optimizers *optimizers, const nt_tensor *gradients, nt_site site) {
    const nt__traced *traced = optimizers->t->traced;
    size_t count, *groups = nt__trace_alloc(site, what, traced->layout.group_count, sizeof *groups);
    nt_tensor *flat = nt__trace_alloc(site, what, traced->layout.group_count, sizeof *flat);
    if (!groups || !flat || !gather(optimizers, gradients, groups, flat, &count, site)) return;
    nt__clip_gradients(traced->task, flat, count);
    for (size_t i = 0; i < count; i++)
        apply(optimizers, groups[i], nt__gradients_of(&traced->layout.groups[groups[i]], flat[i]));
}

/* False after keeping an error. */
static bool can_step(const nt_optimizers *optimizers, nt_tensors gradients, nt_site site) {
    if (!nt__trace_given(optimizers, site, what, "optimizers")) return false;
    if (!nt__tensors_given(gradients, site, what)) return false;
    if (!nt__trace_in_body()) return true;
    nt__trace_fail(site, what,
                   "in a body of control flow, which may run any number of times, or again for the gradient; a step is "
                   "made once. Return from the body what it needs, and call nt_step outside");
    return false;
}

void nt_step_at(nt_optimizers *optimizers, nt_tensors gradients, nt_site site) {
    if (!can_step(optimizers, gradients, site)) return;
    nt__traced *traced = optimizers->t->traced;
    nt_tensor *sorted = sort_by_leaf(traced, gradients.content, site);
    if (!sorted) return;
    if (optimizers->groups)
        step_groups(optimizers, sorted, site);
    else
        step_while_learning(traced, sorted);
}

void nt__tracing_learn_train_step(nt__tracing *t) {
    nt_optimizers optimizers = {.t = t};
    nt_device_metrics reported = {0};
    nt__model_restart(t->traced->model);
    nt__tracing_train_step(t, &optimizers, &reported);
    nt__device_metrics_free(&reported);
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static nt_status begin_groups(nt__tracing *t, nt_optimizers *optimizers) {
    const nt__traced *traced = t->traced;
    size_t groups = traced->layout.group_count;
    optimizers->groups = nt__arena_alloc(&t->arena, groups, sizeof *optimizers->groups);
    for (size_t g = 0; optimizers->groups && g < groups; g++) {
        if (traced->training[g].frozen) continue;
        group_now *now = optimizers->groups[g] = nt__arena_alloc(&t->arena, 1, sizeof *now);
        if (!now) return NT_OUT_OF_MEMORY;
        nt__update_begin(t, g, &now->update);
        memcpy(now->taken, now->update.states, sizeof now->taken);
    }
    return optimizers->groups ? NT_OK : NT_OUT_OF_MEMORY;
}

/* The loss, what the model carries, the parameters, the states, the metrics: nt__loss_result_count has all but the
 * last.
 */
static nt_status finish(nt__tracing *t, nt_tensor loss, const nt_optimizers *optimizers) {
    nt__traced *traced = t->traced;
    const nt__traced_metrics *metrics = &traced->programs.train_metrics;
    size_t before = nt__loss_result_count(traced), count = before + metrics->result_count, place = 0;
    nt__result *results = nt__arena_alloc(&t->arena, count, sizeof *results);
    nt__port *ports = nt__arena_alloc(&t->arena, count, sizeof *ports);
    const char *threshold = nt__arena_sprintf(&t->arena, "%g", traced->task->settings.gradient_clip_norm);
    if (!results || !ports || !threshold) return NT_OUT_OF_MEMORY;
    results[0] = (nt__result){.name = "loss", .value = loss};
    ports[0] = (nt__port){.name = "loss", .purpose = NT__OUTPUT};
    size_t carried = traced->programs.carried_count;
    nt__carried_add(traced, results + 1, ports + 1);
    nt__updated out = {.results = results + 1 + carried,
                       .ports = ports + 1 + carried,
                       .groups = before - 1 - carried - traced->state_count};
    for (size_t g = 0; g < traced->layout.group_count; g++) {
        const group_now *now = optimizers->groups[g];
        if (now) nt__update_add(t, g, place++, now->update.step.x, now->update.states, now->taken, &out);
    }
    for (size_t i = 0; i < metrics->result_count; i++) {
        results[before + i] = metrics->results[i];
        ports[before + i] = (nt__port){.name = metrics->results[i].name, .purpose = NT__OUTPUT};
    }
    nt__text rule = {0};
    nt__rules_print(traced, true, &rule);
    nt__part parts[] = {{"gradient_clip_norm", threshold}, {"rule", rule.data}, nt__tracing_compute_part(t)};
    nt_status status = rule.failed ? NT_OUT_OF_MEMORY
                                   : nt__tracing_finish(t, "manual_step", results, ports, count, parts, 3,
                                                        &traced->programs.manual_step);
    nt__text_free(&rule);
    return status;
}

/* A group that is given to no nt_step is most often one that was forgotten; nt_frozen says that it is meant. */
static nt_status check_stepped(const nt__traced *traced, const nt_optimizers *optimizers) {
    for (size_t g = 0; g < traced->layout.group_count; g++) {
        const group_now *now = optimizers->groups[g];
        if (!now || now->stepped) continue;
        return nt__fail(
            NT_INVALID,
            "%s: train_step of %s gives no gradients of group '%s' to nt_step, so it would never be trained: "
            "step it, or let the optimizer hook freeze it with nt_frozen()",
            traced->task->experiment->file, traced->task->experiment->name, traced->layout.groups[g].name);
    }
    return NT_OK;
}

static nt_status warn_unreached(const nt__traced *traced) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < traced->layout.row_count; i++)
        if (!nt__model_reached(traced->model, i) && !traced->training[traced->layout.rows[i].group].frozen)
            status = nt__warn("%s: no loss of train_step depends on parameter '%s'; its gradient is zero",
                              traced->task->experiment->name, traced->layout.rows[i].path);
    return status;
}

static nt_status make_step(nt__tracing *t) {
    nt__traced *traced = t->traced;
    nt_optimizers optimizers = {.t = t};
    nt_device_metrics reported = {0};
    nt_status status = begin_groups(t, &optimizers);
    if (status != NT_OK) return status;
    nt_tensor loss = nt__tracing_train_step(t, &optimizers, &reported);
    status = nt__trace_status(t->graph);
    if (status == NT_OK) status = check_stepped(traced, &optimizers);
    if (status == NT_OK) status = nt__carried_list(traced);
    if (status == NT_OK)
        status = nt__traced_metrics_keep(&traced->task->arena, &reported, &traced->programs.train_metrics);
    if (status == NT_OK) status = finish(t, loss, &optimizers);
    if (status == NT_OK && !traced->is_check) status = warn_unreached(traced);
    nt__device_metrics_free(&reported);
    return status;
}

nt_status nt__trace_manual_step(nt__traced *traced) {
    nt__tracing t;
    nt_status status = nt__tracing_begin(&t, traced, true);
    if (status != NT_OK) return status;
    status = make_step(&t);
    nt__tracing_end(&t);
    return status;
}
