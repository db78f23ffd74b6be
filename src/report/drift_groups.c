/* How groups are trained, of a run against the code of now: which group a parameter is in, the rules with their
 * numbers, rates, what a decay spares and where it leads. Hooks decide these on the host, so no program shows all of
 * them. Not here: programs, fields and settings (drift.c).
 */
#include <string.h>

#include "report/report.h"

/* The run, and what the code of now gives in its place. */
typedef struct pair {
    const nt__traced *old, *new;
    const nt__rate *rates; /* of the run */
    nt__text *report;
} pair;

/* ---- parameters by name ----------------------------------------------------------------------------------------- */

/* The row of a parameter, -1: the layout has none. */
static int find_row(const nt__traced *traced, const char *path) {
    for (size_t i = 0; i < traced->layout.row_count; i++)
        if (strcmp(traced->layout.rows[i].path, path) == 0) return (int)i;
    return -1;
}

static int find_group(const nt__traced *traced, const char *name) {
    for (size_t g = 0; g < traced->layout.group_count; g++)
        if (strcmp(traced->layout.groups[g].name, name) == 0) return (int)g;
    return -1;
}

static const char *group_of(const nt__traced *traced, int row) {
    return traced->layout.groups[traced->layout.rows[row].group].name;
}

/* How many more like the first line are left out. */
static void end_line(const pair *p, size_t more) {
    if (more) nt__text_add(p->report, " (and %zu more)", more);
    nt__text_add(p->report, "\n");
}

/* ---- what is compared ------------------------------------------------------------------------------------------- */

static void compare_places(const pair *p) {
    size_t moved = 0;
    for (size_t i = 0; i < p->new->layout.row_count; i++) {
        const char *path = p->new->layout.rows[i].path, *now = group_of(p->new, (int)i);
        int row = find_row(p->old, path);
        if (row < 0 || strcmp(group_of(p->old, row), now) == 0 || moved++) continue;
        nt__text_add(p->report, "  param_group: '%s' from group '%s' to '%s'; this run keeps its groups", path,
                     group_of(p->old, row), now);
    }
    if (moved) end_line(p, moved - 1);
}

/* A rule without the decay after it, which has a line of its own. */
static nt_rule without_decay(const nt__training *training) {
    nt_rule rule = training->rule;
    rule.count -= training->decays;
    return rule;
}

static bool prints_alike(const pair *p, const nt_rule *a, const nt_rule *b, bool constants, nt__text *before,
                         nt__text *now) {
    nt__rule_print(a, constants, before);
    nt__rule_print(b, constants, now);
    p->report->failed |= before->failed || now->failed;
    return p->report->failed || strcmp(before->data, now->data) == 0;
}

/* Numbers that are inputs are no part of a program; rules that differ in more are told with the program. */
static void compare_rule(const pair *p, int old, int new) {
    nt_rule a = without_decay(&p->old->training[old]), b = without_decay(&p->new->training[new]);
    nt__text texts[4] = {0};
    if (prints_alike(p, &a, &b, true, &texts[0], &texts[1]) && !prints_alike(p, &a, &b, false, &texts[2], &texts[3]))
        nt__text_add(p->report, "  rule of group '%s': %s -> %s\n", p->new->layout.groups[new].name, texts[2].data,
                     texts[3].data);
    for (int i = 0; i < 4; i++) nt__text_free(&texts[i]);
}

static double ratio_now(const pair *p, const char *group) {
    const nt_hooks *hooks = &p->new->task->experiment->hooks;
    return hooks->rate_ratio ? hooks->rate_ratio(p->new->task->fields, group) : 1;
}

static void compare_ratio(const pair *p, int old, int new) {
    const char *name = p->new->layout.groups[new].name;
    double before = p->rates[old].ratio, now = ratio_now(p, name);
    if (before != now)
        nt__text_add(p->report, "  rate_ratio of group '%s': %g -> %g; this run still uses %g\n", name, before,
                     nt__plain_nan(now), before);
}

/* The number after a group's rule; 0: no decay. */
static double decay_of(const nt__training *training) {
    return training->decays ? training->rule.links[training->rule.count - 1].numbers[0] : 0;
}

static void compare_decay(const pair *p, int old, int new) {
    double before = decay_of(&p->old->training[old]), now = decay_of(&p->new->training[new]);
    if (before != now)
        nt__text_add(p->report, "  weight_decay of group '%s': %g -> %g; this run still uses %g\n",
                     p->new->layout.groups[new].name, before, now, before);
}

static const char *const anchors[] = {
    [NT_ANCHOR_ZERO] = "zero", [NT_ANCHOR_INITIAL] = "the initial values", [NT_ANCHOR_ARRAY] = "an array"};

static void compare_anchor(const pair *p, int old, int new) {
    const nt__training *before = &p->old->training[old], *now = &p->new->training[new];
    bool other_kind = before->anchor.kind != now->anchor.kind;
    bool other_array = now->anchor.kind == NT_ANCHOR_ARRAY && !nt__hash_equal(before->anchor_hash, now->anchor_hash);
    if (!before->decays || !now->decays || (!other_kind && !other_array)) return;
    nt__text_add(p->report, "  decay_anchor of group '%s': %s -> %s; this run keeps its own\n",
                 p->new->layout.groups[new].name, anchors[before->anchor.kind],
                 other_kind ? anchors[now->anchor.kind] : "other values");
}

static bool is_spared(const nt__traced *traced, int row) {
    return traced->training[traced->layout.rows[row].group].spared[row];
}

static bool decays(const nt__traced *traced, int row) {
    return traced->training[traced->layout.rows[row].group].decays;
}

static void compare_spared(const pair *p) {
    size_t moved = 0;
    for (size_t i = 0; i < p->new->layout.row_count; i++) {
        const char *path = p->new->layout.rows[i].path;
        int row = find_row(p->old, path), now = (int)i;
        if (row < 0 || !decays(p->old, row) || !decays(p->new, now)) continue;
        if (is_spared(p->old, row) == is_spared(p->new, now) || moved++) continue;
        nt__text_add(p->report, "  no_decay: '%s' %s now; this run goes on as it was", path,
                     is_spared(p->new, now) ? "does not decay" : "decays");
    }
    if (moved) end_line(p, moved - 1);
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

void nt__drift_compare_groups(const nt__resident *resident, const nt__traced *now, nt__text *report) {
    const nt__traced *traced = resident->traced;
    const pair p = {traced, now, resident->rates, report};
    compare_places(&p);
    for (size_t g = 0; g < now->layout.group_count; g++) {
        int old = find_group(traced, now->layout.groups[g].name);
        if (old < 0) continue;
        compare_rule(&p, old, (int)g);
        compare_ratio(&p, old, (int)g);
        compare_decay(&p, old, (int)g);
        compare_anchor(&p, old, (int)g);
    }
    compare_spared(&p);
}
