/* How each group of parameters is trained: its rule, the decay after it, what the decay spares and where it leads.
 * Resolved once, when the layout is known.
 * Not here: rates and buffers (device.c).
 */
#include <math.h>
#include <string.h>

#include "step/step.h"

/* ---- the rule --------------------------------------------------------------------------------------------------- */

static nt_status ask_decay(const nt__task *task, const char *group, double *out) {
    const nt_hooks *hooks = &task->experiment->hooks;
    nt__hook_begin(task->experiment, "weight_decay");
    *out = hooks->weight_decay ? hooks->weight_decay(task->fields, group) : 0;
    nt_status status = nt__hook_end(task->experiment, "weight_decay", NT_OK);
    if (status != NT_OK) return status;
    if (*out >= 0 && isfinite(*out)) return NT_OK;
    return nt__fail(NT_INVALID, "the weight_decay hook gave %g for group '%s'; give 0 or more, 0 for no decay",
                    nt__plain_nan(*out), group);
}

/* A rule that decays by itself would decay twice. */
static nt_status refuse_twice(const nt_rule *rule, const char *group, double decay) {
    const char *owner = nt__rule_owner(rule, "weight_decay");
    return nt__fail(
        NT_INVALID,
        "group '%s' would decay twice: rule %s has a weight_decay of its own, and the weight_decay hook gave "
        "%g. Let the hook give 0, or take a rule without%s",
        group, owner, decay, strcmp(owner, "AdamW") == 0 ? ": nt_adam() with the hook is AdamW" : "");
}

/* A coefficient that is not 0 puts Decay after the rule for good: a rate of 0 changes nothing of that. */
static nt_status add_decay(const nt__task *task, const char *group, nt__training *training) {
    double decay;
    bool is_input;
    nt_rule *rule = &training->rule;
    nt_status status = ask_decay(task, group, &decay);
    if (status != NT_OK || decay == 0 || nt__rule_is_frozen(rule)) return status;
    if (nt__rule_has_number(rule, "weight_decay", &is_input)) return refuse_twice(rule, group, decay);
    *rule = nt_chain(*rule, nt_decay(decay));
    training->decay_is_hooked = true;
    return NT_OK;
}

static nt_status find_rule(const nt__task *task, const char *group, nt__training *out) {
    const nt_hooks *hooks = &task->experiment->hooks;
    nt__hook_begin(task->experiment, "optimizer");
    out->rule = nt__rule_resolve(hooks->optimizer ? hooks->optimizer(task->fields, group) : (nt_rule){0});
    nt_status status = nt__calls_status();
    nt__hook_leave();
    if (status == NT_OK) status = nt__rule_check(&out->rule);
    if (status == NT_OK) status = add_decay(task, group, out);
    if (status == NT_OK && task->settings.ema_decay > 0 && !nt__rule_is_frozen(&out->rule))
        out->rule = nt__rule_with_ema(out->rule, task->settings.ema_decay);
    if (status == NT_OK) status = nt__rule_check(&out->rule);
    return status == NT_OK ? NT_OK
                           : nt__fail_in(status, "the optimizer of group '%s' of %s", group, task->experiment->name);
}

/* A rule of the user's own says it by a function. */
static nt_status check_lengths(const nt__group *group, const nt_rule *rule) {
    nt__state state;
    for (size_t s = 0; nt__rule_state(rule, s, &state); s++) {
        nt__type type = nt__state_type(&state, group);
        size_t bytes;
        if (type.shape.rank == 0 || (type.shape.dims[0] >= 0 && nt__type_bytes(type, &bytes))) continue;
        return nt__fail(NT_INVALID,
                        "the optimizer of group '%s': state '%s' of rule %s has a length of %lld; its function must "
                        "give 0 or more, and what memory can hold",
                        group->name, state.state->name, state.link->kind->name, (long long)type.shape.dims[0]);
    }
    return NT_OK;
}

/* ---- what decays ------------------------------------------------------------------------------------------------ */

/* The default: biases, scales and shifts have one axis and do not decay. */
static bool is_spared(const nt__task *task, const nt__row *row) {
    const nt_hooks *hooks = &task->experiment->hooks;
    if (!hooks->no_decay) return row->type.shape.rank == 1;
    return hooks->no_decay(task->fields, row->path, row->type.shape);
}

static nt_status find_spared(nt__traced *traced, size_t g, nt__training *training) {
    training->spared = nt__arena_alloc(&traced->task->arena, traced->layout.row_count + 1, sizeof *training->spared);
    if (!training->spared) return NT_OUT_OF_MEMORY;
    nt__hook_begin(traced->task->experiment, "no_decay");
    for (size_t i = 0; i < traced->layout.row_count; i++) {
        if (traced->layout.rows[i].group != (int)g) continue;
        training->spared[i] = is_spared(traced->task, &traced->layout.rows[i]);
        training->array_count++;
        training->spared_count += training->spared[i];
    }
    return nt__hook_end(traced->task->experiment, "no_decay", NT_OK);
}

static nt_status check_anchor(const nt__group *group, nt_anchor anchor) {
    if (anchor.kind != NT_ANCHOR_ARRAY) return NT_OK;
    nt__type type = nt__group_type(group);
    char wanted[NT__TYPE_TEXT], got[NT__TYPE_TEXT];
    if (!anchor.array)
        return nt__fail(NT_INVALID, "the decay_anchor hook gave no array (NULL) for group '%s'", group->name);
    if (anchor.array->dtype == type.dtype && nt_shape_equal(anchor.array->shape, type.shape)) return NT_OK;
    return nt__fail(NT_INVALID,
                    "the decay_anchor hook gave %s for group '%s'; it must be %s, the group's parameters one after the "
                    "other (nt_run_parameter_at has their places)",
                    nt__type_text((nt__type){anchor.array->dtype, anchor.array->shape}, got), group->name,
                    nt__type_text(type, wanted));
}

static nt_status find_anchor(const nt__traced *traced, size_t g, nt__training *training) {
    const nt_hooks *hooks = &traced->task->experiment->hooks;
    if (!hooks->decay_anchor) return NT_OK;
    nt__hook_begin(traced->task->experiment, "decay_anchor");
    training->anchor = hooks->decay_anchor(traced->task->fields, traced->layout.groups[g].name);
    nt_status status = nt__hook_end(traced->task->experiment, "decay_anchor", NT_OK);
    if (status == NT_OK) status = check_anchor(&traced->layout.groups[g], training->anchor);
    if (status == NT_OK && training->anchor.kind == NT_ANCHOR_ARRAY)
        training->anchor_hash = nt__hash_bytes(training->anchor.array->data, training->anchor.array->bytes);
    return status;
}

/* ---- all groups ------------------------------------------------------------------------------------------------- */

static nt_status resolve(nt__traced *traced, size_t g) {
    nt__training *training = &traced->training[g];
    nt_status status = find_rule(traced->task, traced->layout.groups[g].name, training);
    if (status == NT_OK) status = check_lengths(&traced->layout.groups[g], &training->rule);
    if (status != NT_OK) return status;
    training->frozen = nt__rule_is_frozen(&training->rule);
    training->first_state = traced->state_count;
    training->first_input = traced->input_count;
    traced->state_count += nt__rule_state_count(&training->rule);
    traced->input_count += nt__rule_input_count(&training->rule);
    training->decays = nt__rule_has_decay(&training->rule);
    if (nt__rule_uses_decayed(&training->rule)) status = find_spared(traced, g, training);
    return status == NT_OK && training->decays ? find_anchor(traced, g, training) : status;
}

nt_status nt__groups_resolve(nt__traced *traced) {
    size_t groups = traced->layout.group_count, frozen = 0;
    traced->state_count = traced->input_count = 0;
    traced->training = nt__arena_alloc(&traced->task->arena, groups, sizeof *traced->training);
    nt_status status = traced->training ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t g = 0; status == NT_OK && g < groups; g++) {
        status = resolve(traced, g);
        frozen += traced->training[g].frozen;
    }
    if (status != NT_OK || frozen < groups) return status;
    return nt__fail(NT_INVALID,
                    "the optimizer hook of %s freezes all groups, so there is nothing to train: make the run with "
                    "evaluate_only, or let a group have another rule than nt_frozen()",
                    traced->task->experiment->name);
}

/* ---- a hook that is not heard ----------------------------------------------------------------------------------- */

/* A rule that has a decay of its own and does not ask which parameters decay, as AdamW. */
static bool decays_all(const nt_rule *rule) {
    nt__named_input input;
    if (nt__rule_uses_decayed(rule)) return false;
    for (size_t i = 0; nt__rule_input(rule, i, &input); i++)
        if (strcmp(input.name, "weight_decay") == 0 && input.value > 0) return true;
    return false;
}

nt_status nt__groups_warn(const nt__traced *traced) {
    nt_status status = NT_OK;
    for (size_t g = 0; traced->task->experiment->hooks.no_decay && status == NT_OK && g < traced->layout.group_count;
         g++) {
        const nt_rule *rule = &traced->training[g].rule;
        if (!decays_all(rule)) continue;
        const char *owner = nt__rule_owner(rule, "weight_decay");
        status = nt__warn("%s: the no_decay hook spares nothing in group '%s': the weight_decay of %s is for every "
                          "parameter. The weight_decay hook%s heeds it",
                          traced->task->experiment->name, traced->layout.groups[g].name, owner,
                          strcmp(owner, "AdamW") == 0 ? " with nt_adam(), which is AdamW," : "");
    }
    return status;
}

/* ---- showing ---------------------------------------------------------------------------------------------------- */

static void print_one(const nt__traced *traced, size_t g, bool constants, nt__text *out) {
    const nt__training *training = &traced->training[g];
    nt__rule_print(&training->rule, constants, out);
    if (training->decays && !constants)
        nt__text_add(out, ", %zu of %zu arrays decay", training->array_count - training->spared_count,
                     training->array_count);
    else if (training->array_count && !constants)
        nt__text_add(out, ", no_decay spares %zu of %zu arrays", training->spared_count, training->array_count);
}

void nt__rules_print(const nt__traced *traced, bool constants, nt__text *out) {
    if (!traced->training) return;
    if (traced->layout.group_count == 1) {
        print_one(traced, 0, constants, out);
        return;
    }
    nt__text first = {0}, other = {0};
    bool same = true;
    print_one(traced, 0, constants, &first);
    for (size_t g = 1; g < traced->layout.group_count; g++) {
        nt__text_free(&other);
        print_one(traced, g, constants, &other);
        same = same && !first.failed && !other.failed && strcmp(first.data, other.data) == 0;
    }
    out->failed |= first.failed || other.failed;
    for (size_t g = 0; g < traced->layout.group_count && !same; g++) {
        nt__text_add(out, "%s%s: ", g ? "; " : "", traced->layout.groups[g].name);
        print_one(traced, g, constants, out);
    }
    if (same && first.data) nt__text_add(out, "%s", first.data);
    nt__text_free(&first);
    nt__text_free(&other);
}

const char *nt__rule_names(const nt__traced *traced, nt__arena *arena) {
    const char *first = nt__arena_strdup(arena, nt_rule_name(traced->training[0].rule)), *all = "";
    bool same = true;
    for (size_t g = 0; first && all && g < traced->layout.group_count; g++) {
        const char *name = nt_rule_name(traced->training[g].rule);
        same = same && strcmp(first, name) == 0;
        all = nt__arena_sprintf(arena, "%s%s%s: %s", all, g ? "; " : "", traced->layout.groups[g].name, name);
    }
    return same ? first : all;
}
