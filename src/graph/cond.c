/* Branches: one of two functions runs, as a bool scalar says. */
#include "graph/loop.h"

/* ---- the operation ---------------------------------------------------------------------------------------------- */

typedef struct choice {
    void *context;
    const nt_values *x;
    size_t count, results;
    nt_site site;
    nt__control *control;
} choice;

static bool is_predicate(nt_tensor which, nt_site site) {
    const nt__node *node = nt__node_of(which, site, "cond");
    if (!node) return false;
    if (node->type.dtype == NT_BOOL && node->type.shape.rank == 0) return true;
    char text[NT__TYPE_TEXT];
    nt__trace_fail(site, "cond", "which must be a bool scalar, got %s; nt_where chooses between elements",
                   nt__type_text(node->type, text));
    return false;
}

/* The tensors that the function makes of its own become results of the region. */
static bool trace_branch(choice *c, nt__region *region, nt_function function) {
    nt_values y = function(*c->x, c->context);
    if (!nt__count_values(y.at, "at", "cond", c->site, &c->results)) return false;
    for (size_t i = 0; i < c->results; i++)
        if (!nt__region_return(region, y.at[i])) return false;
    return true;
}

static bool trace_function(choice *c, nt_function function) {
    nt__region *region = nt__region_enter(c->control, NULL);
    if (!region) return false;
    bool right = trace_branch(c, region, function);
    nt__region_leave(region);
    return right;
}

static bool branches_agree(const choice *c) {
    const nt__nodes *yes = &c->control->regions[0]->results, *no = &c->control->regions[1]->results;
    if (yes->count != no->count) {
        nt__trace_fail(c->site, "cond", "the branch for true returns %zu tensors and the one for false %zu", yes->count,
                       no->count);
        return false;
    }
    for (size_t i = 0; i < yes->count; i++) {
        char one[NT__TYPE_TEXT], other[NT__TYPE_TEXT];
        if (nt__type_equal(yes->items[i]->type, no->items[i]->type)) continue;
        nt__trace_fail(c->site, "cond", "at[%zu] is %s in the branch for true and %s in the one for false", i,
                       nt__type_text(yes->items[i]->type, one), nt__type_text(no->items[i]->type, other));
        return false;
    }
    return true;
}

nt_values nt_cond_at(nt_tensor which, nt_function yes, nt_function no, void *context, nt_values x, nt_site site) {
    choice c = {.context = context, .x = &x, .site = site};
    bool right = nt__trace_under_way(site, "cond") && nt__trace_right() &&
                 nt__trace_given((const void *)(uintptr_t)yes, site, "cond", "yes") &&
                 nt__trace_given((const void *)(uintptr_t)no, site, "cond", "no") && is_predicate(which, site) &&
                 nt__count_values(x.at, "x", "cond", site, &c.count) &&
                 (c.control = nt__control_begin(NT__OP_cond, site)) && nt__control_operand(c.control, which) &&
                 trace_function(&c, yes) && trace_function(&c, no) && branches_agree(&c) && nt__control_end(c.control);
    if (!right) return nt__failed_values();
    nt_values y = {0};
    for (size_t i = 0; i < c.results; i++) y.at[i] = nt__control_result(c.control, i);
    return y;
}

/* ---- reverse mode ----------------------------------------------------------------------------------------------- */

/* A branch of the gradient, which gives the cotangent of each operand that is wanted. */
typedef struct reverse {
    const nt__backward *b;
    nt__control *control;
    nt__seed *seeds;
    nt__node **inputs;
    nt_tensor *out;
    size_t results;
} reverse;

/* The parameters of a branch that are wanted, and how many. */
static size_t find_inputs(const reverse *r, const nt__region *branch) {
    size_t count = 0;
    for (size_t i = 0; i < branch->parameters.count; i++)
        if (r->b->wanted[branch->parameters.items[i]->attributes.index])
            r->inputs[count++] = branch->parameters.items[i];
    return count;
}

static size_t find_seeds(const reverse *r, const nt__region *branch) {
    size_t count = 0;
    for (size_t i = 0; i < r->results; i++)
        if (nt__has_cotangent(r->b->cotangents[i]))
            r->seeds[count++] = (nt__seed){branch->results.items[i], r->b->cotangents[i]};
    return count;
}

/* What arrived at the operand in this branch; zeros where the branch does not use it. */
static nt_tensor cotangent_of(const reverse *r, int operand, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (r->inputs[i]->attributes.index == operand && nt__has_cotangent(r->out[i])) return r->out[i];
    return nt__filled("cond", r->b->node->operands[operand]->type, 0, r->b->site);
}

static bool trace_products(const reverse *r, nt__region *region) {
    const nt__region *branch = region->forward;
    size_t count = find_inputs(r, branch), seeds = find_seeds(r, branch);
    if (branch->last && !nt__sweep(branch->first, branch->last, r->seeds, seeds, r->inputs, count, r->out))
        return false;
    for (int i = 0; i < r->b->node->operand_count; i++)
        if (r->b->wanted[i] && !nt__region_return(region, cotangent_of(r, i, count))) return false;
    return true;
}

static bool trace_reverse(const reverse *r) {
    const nt__control *forward = r->b->node->control;
    if (!nt__control_operand(r->control, r->b->operands[0])) return false;
    for (int i = 0; i < forward->region_count; i++) {
        nt__region *region = nt__region_enter(r->control, forward->regions[i]);
        if (!region) return false;
        bool right = trace_products(r, region);
        nt__region_leave(region);
        if (!right) return false;
    }
    return nt__control_end(r->control);
}

void nt__gradient_cond(const nt__backward *b, nt_tensor *out) {
    size_t operands = (size_t)b->node->operand_count, next = 0;
    reverse r = {.b = b, .results = b->node->control->results.count};
    r.seeds = nt__trace_alloc(b->site, "cond", r.results, sizeof *r.seeds);
    r.inputs = nt__trace_alloc(b->site, "cond", operands, sizeof(nt__node *));
    r.out = nt__trace_alloc(b->site, "cond", operands, sizeof *r.out);
    r.control = nt__control_begin(NT__OP_cond, b->site);
    if (!r.seeds || !r.inputs || !r.out || !r.control || !trace_reverse(&r)) return;
    for (size_t i = 0; i < operands; i++)
        if (b->wanted[i]) out[i] = nt__control_result(r.control, next++);
}
