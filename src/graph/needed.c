/* Which nodes of a trace a program has: what its results need and nothing else, in bodies too.
 *
 * Each node is looked at once. A carry of a loop is needed when its last value is, or when the body needs it for
 * something that is needed; then all that belongs to it is.
 */
#include "graph/printer.h"

typedef struct search {
    nt__printer *p;
    const nt__node **waiting;
    size_t count;
} search;

static void need(search *s, const nt__node *node) {
    if (s->p->needed[node->id]) return;
    s->p->needed[node->id] = true;
    s->waiting[s->count++] = node;
}

bool nt__is_inline(const nt__control *control) {
    return control->op == NT__OP_remat || control->op == NT__OP_custom_gradient;
}

/* The values of a loop's carry. */
static void need_carry(search *s, const nt__control *control, size_t index) {
    need(s, control->operands.items[index]);
    need(s, control->results.items[index]);
    need(s, nt__control_body(control)->results.items[index]);
    for (int i = 0; i < control->region_count; i++) need(s, control->regions[i]->parameters.items[index]);
}

static void need_result(search *s, const nt__control *control, size_t index) {
    need(s, control->owner);
    if (index < control->carries)
        need_carry(s, control, index);
    else if (control->op == NT__OP_barrier)
        need(s, control->operands.items[index]);
    else if (nt__is_inline(control))
        need(s, control->regions[0]->results.items[index]);
    else
        for (int i = 0; i < control->region_count; i++) need(s, control->regions[i]->results.items[index]);
}

static void need_parameter(search *s, const nt__node *node) {
    const nt__control *control = node->region->control;
    size_t index = (size_t)node->attributes.index;
    need(s, control->owner);
    if (node->attributes.choice == NT__CARRY) need_carry(s, control, index);
    if (node->attributes.choice <= NT__SLICE) need(s, control->operands.items[index]);
}

/* Whatever its results are: what decides which body runs, and whether one runs again. */
static void need_decision(search *s, const nt__control *control) {
    if (control->op == NT__OP_cond) need(s, control->operands.items[0]);
    if (control->op == NT__OP_while) need(s, control->regions[0]->results.items[0]);
}

static void need_what_makes(search *s, const nt__node *node) {
    if (node->op == NT__OP_result)
        need_result(s, node->operands[0]->control, (size_t)node->attributes.index);
    else if (node->op == NT__OP_region_parameter)
        need_parameter(s, node);
    else if (node->control)
        need_decision(s, node->control);
    else
        for (int i = 0; i < node->operand_count; i++) need(s, node->operands[i]);
}

bool nt__mark_needed(nt__printer *p) {
    search s = {.p = p, .waiting = nt__alloc(p->graph->node_count, sizeof(const nt__node *))};
    if (!s.waiting) return false;
    for (size_t i = 0; i < p->result_count; i++) {
        need(&s, p->graph->nodes[p->results[i].value.id]);
        if (p->results[i].takes.trace) need(&s, p->graph->nodes[p->results[i].takes.id]);
    }
    while (s.count > 0) need_what_makes(&s, s.waiting[--s.count]);
    nt__free(s.waiting);
    return true;
}

bool nt__result_needed(const nt__printer *p, const nt__control *control, size_t index) {
    return p->needed[control->results.items[index]->id];
}
