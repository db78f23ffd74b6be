/* Chains of rules: making them, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "optim/rules.h"

/* ---- making ----------------------------------------------------------------------------------------------------- */

nt_rule nt_rule_with(const nt_rule_kind *kind, const double *numbers) {
    nt_rule rule = {.count = 1, .links = {{.kind = kind}}};
    memcpy(rule.links[0].numbers, numbers, sizeof rule.links[0].numbers);
    return rule;
}

/* One that does not fit is counted all the same: checking says so. */
nt_rule nt_chain_of(const nt_rule *rules, size_t count) {
    nt_rule chain = {0};
    for (size_t i = 0; i < count; i++) {
        nt_rule rule = nt__rule_resolve(rules[i]);
        for (size_t j = 0; j < rule.count && j < NT_CHAIN_MAX; j++)
            if (chain.count + j < NT_CHAIN_MAX) chain.links[chain.count + j] = rule.links[j];
        chain.count += rule.count;
    }
    return chain;
}

nt_rule nt__rule_resolve(nt_rule rule) {
    return rule.count ? rule : nt_radam();
}

bool nt__rule_is_frozen(const nt_rule *rule) {
    return rule->count == 1 && rule->links[0].kind == &nt__frozen_kind;
}

bool nt__rule_has_decay(const nt_rule *rule) {
    for (size_t i = 0; i < rule->count; i++)
        if (rule->links[i].kind == &nt__decay_kind) return true;
    return false;
}

bool nt__rule_averages(const nt_rule *rule) {
    return rule->links[rule->count - 1].kind->evaluated != NULL;
}

nt_rule nt__rule_with_ema(nt_rule rule, double decay) {
    return nt_chain(rule, nt__ema(decay));
}

bool nt__rule_uses_decayed(const nt_rule *rule) {
    for (size_t i = 0; i < rule->count; i++)
        if (rule->links[i].kind->uses_decayed) return true;
    return false;
}

bool nt__rule_uses_rate(const nt_rule *rule) {
    for (size_t i = 0; i < rule->count; i++)
        if (rule->links[i].kind->uses_rate) return true;
    return false;
}

bool nt__rule_uses_arrays(const nt_rule *rule) {
    for (size_t i = 0; i < rule->count; i++)
        if (rule->links[i].kind->uses_arrays) return true;
    return false;
}

static size_t kept_links(const nt_rule *rule) {
    return rule->count < NT_CHAIN_MAX ? rule->count : NT_CHAIN_MAX;
}

static const char *name_of(const nt_rule_link *link) {
    return link->kind && link->kind->name ? link->kind->name : "?";
}

const char *nt_rule_name(nt_rule rule) {
    static _Thread_local char names[256];
    size_t at = 0;
    rule = nt__rule_resolve(rule);
    if (rule.count == 1 && rule.links[0].kind) return name_of(&rule.links[0]);
    for (size_t i = 0; i < kept_links(&rule) && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", name_of(&rule.links[i]));
    return names;
}

/* ---- one rule --------------------------------------------------------------------------------------------------- */

static const struct range {
    const char *text;
    double low, high;
    bool with_low, with_high;
} ranges[] = {
    [NT_ABOVE_0] = {"above 0", 0, INFINITY, false, false},
    [NT_NOT_NEGATIVE] = {"0 or more", 0, INFINITY, true, true},
    [NT_BETWEEN_0_AND_1] = {"between 0 and 1", 0, 1, false, false},
    [NT_FROM_0_BELOW_1] = {"from 0 to below 1", 0, 1, true, false},
    [NT_YES_OR_NO] = {"0 or 1", 0, 1, true, true},
};

/* Only the p of a norm may be infinite. */
static bool lies_in(const nt_rule_number *number, double value) {
    const struct range *range = &ranges[number->range];
    if (isinf(value)) return value > 0 && number->range == NT_ABOVE_0 && strcmp(number->name, "p") == 0;
    bool is_above = range->with_low ? value >= range->low : value > range->low;
    return is_above && (range->with_high ? value <= range->high : value < range->high);
}

bool nt__rule_takes(const nt_rule *rule, const char *name, double value, const char **range) {
    for (size_t i = 0; i < rule->count; i++)
        for (int n = 0; n < NT_RULE_MAX_NUMBERS && rule->links[i].kind->numbers[n].name; n++) {
            const nt_rule_number *number = &rule->links[i].kind->numbers[n];
            if (strcmp(number->name, name) != 0 || lies_in(number, value)) continue;
            *range = ranges[number->range].text;
            return false;
        }
    return true;
}

/* The kind of a rule of the user's own. */
static nt_status check_kind(const nt_rule_kind *kind) {
    if (!kind || !kind->name || !*kind->name)
        return nt__fail(NT_INVALID, "a rule has no kind, or one without a name: the constructors of nitro/optim.h make "
                                    "rules, and nt_rule_of makes one of a kind of one's own");
    if (!kind->update && kind != &nt__frozen_kind)
        return nt__fail(NT_INVALID, "rule %s has no update: its kind needs a traced function that returns dx",
                        kind->name);
    for (int i = 0; i < NT_RULE_MAX_STATES && kind->states[i].name; i++) {
        const nt_rule_state *state = &kind->states[i];
        for (int k = 0; k < i; k++)
            if (strcmp(kind->states[k].name, state->name) == 0)
                return nt__fail(NT_INVALID, "rule %s has two states named '%s': a checkpoint tells them by name",
                                kind->name, state->name);
        bool right = state->start != NT_START_AT_NUMBER ||
                     (state->number >= 0 && state->number < NT_RULE_MAX_NUMBERS && kind->numbers[state->number].name);
        if (!right)
            return nt__fail(NT_INVALID, "state '%s' of rule %s starts at number %d, and the rule has no such number",
                            state->name, kind->name, state->number);
        if (state->start == NT_START_AT_PARAMETERS && (state->is_scalar || state->is_count || state->length))
            return nt__fail(NT_INVALID, "state '%s' of rule %s %s and cannot start at the parameters", state->name,
                            kind->name, state->length ? "has a length of its own" : "is a scalar");
    }
    return NT_OK;
}

static nt_status check_link(const nt_rule_link *link) {
    nt_status status = check_kind(link->kind);
    for (int i = 0; status == NT_OK && i < NT_RULE_MAX_NUMBERS && link->kind->numbers[i].name; i++) {
        const nt_rule_number *number = &link->kind->numbers[i];
        for (int k = 0; k < i; k++)
            if (strcmp(link->kind->numbers[k].name, number->name) == 0)
                return nt__fail(NT_INVALID, "rule %s has two numbers named '%s': a schedule tells them by name",
                                link->kind->name, number->name);
        if (lies_in(number, link->numbers[i])) continue;
        return nt__fail(NT_INVALID, "%s of rule %s is %g; it must be %s", number->name, link->kind->name,
                        nt__plain_nan(link->numbers[i]), ranges[number->range].text);
    }
    return status;
}

/* ---- the chain -------------------------------------------------------------------------------------------------- */

/* What stands after it would move the parameters that it averages, or average them again. */
static nt_status refuse_average(const nt_rule *rule, size_t at) {
    const nt_rule_kind *kind = rule->links[at].kind, *next = rule->links[at + 1].kind;
    if (next->evaluated)
        return nt__fail(NT_INVALID,
                        "rules %s and %s of one chain both say what to evaluate with: leave one of them out (EMA is "
                        "the run's ema_decay)",
                        kind->name, next->name);
    return nt__fail(NT_INVALID,
                    "%s is rule %zu of a chain of %zu (%s): it must be the last, since what it evaluates with follows "
                    "from what is subtracted in the end",
                    kind->name, at + 1, rule->count, nt_rule_name(*rule));
}

static nt_status check_positions(const nt_rule *rule) {
    for (size_t i = 0; rule->count > 1 && i < rule->count; i++) {
        const nt_rule_kind *kind = rule->links[i].kind;
        if (kind == &nt__frozen_kind)
            return nt__fail(NT_INVALID,
                            "nt_frozen is rule %zu of a chain of %zu (%s): a frozen group has no other rule", i + 1,
                            rule->count, nt_rule_name(*rule));
        if (kind->evaluated && i + 1 < rule->count) return refuse_average(rule, i);
        if (kind == &nt__decay_kind && i + 1 < rule->count && !rule->links[i + 1].kind->evaluated)
            return nt__fail(
                NT_INVALID,
                "Decay is rule %zu of a chain of %zu (%s): it must be the last, so that it is not scaled by "
                "what follows",
                i + 1, rule->count, nt_rule_name(*rule));
    }
    return NT_OK;
}

/* The first input, the rate included, that both have; NULL when there is none. */
static const char *shared_input(const nt_rule_kind *a, const nt_rule_kind *b) {
    if (a->uses_rate && b->uses_rate) return "learning_rate";
    for (int i = 0; i < NT_RULE_MAX_NUMBERS && a->numbers[i].name; i++)
        for (int j = 0; j < NT_RULE_MAX_NUMBERS && b->numbers[j].name; j++)
            if (a->numbers[i].is_input && b->numbers[j].is_input && strcmp(a->numbers[i].name, b->numbers[j].name) == 0)
                return a->numbers[i].name;
    return NULL;
}

static nt_status check_inputs(const nt_rule *rule) {
    for (size_t i = 0; i < rule->count; i++)
        for (size_t j = 0; j < i; j++) {
            const nt_rule_kind *first = rule->links[j].kind, *second = rule->links[i].kind;
            const char *name = shared_input(first, second);
            if (name)
                return nt__fail(
                    NT_INVALID,
                    "rules %s and %s of one chain both have %s, which would act twice and could not be told "
                    "apart in a schedule: leave one of them out",
                    first->name, second->name, name);
        }
    return NT_OK;
}

static nt_status check_rate(const nt_rule *rule) {
    for (size_t i = 0; i < rule->count; i++)
        if (rule->links[i].kind->uses_rate) return NT_OK;
    if (nt__rule_is_frozen(rule)) return NT_OK;
    return nt__fail(
        NT_INVALID,
        "no rule of the chain (%s) uses the learning rate: add one that does, such as nt_sgd() or nt_adam()",
        nt_rule_name(*rule));
}

nt_status nt__rule_check(const nt_rule *rule) {
    if (rule->count > NT_CHAIN_MAX)
        return nt__fail(NT_INVALID, "a chain of %zu rules (%s, ...): at most %d", rule->count, nt_rule_name(*rule),
                        NT_CHAIN_MAX);
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < rule->count; i++) status = check_link(&rule->links[i]);
    if (status == NT_OK) status = check_positions(rule);
    if (status == NT_OK) status = check_inputs(rule);
    return status == NT_OK ? check_rate(rule) : status;
}
