/* What a trace claims of the numbers in its arguments.
 * Not here: who checks that (run, data).
 */
#include <math.h>

#include "graph/region.h"

enum { MOST_CHECKED_ROLES = 32 };

static bool has_value(nt_dtype dtype, double value) {
    char element[8];
    nt__element_set(dtype, element, value);
    return nt__element_get(dtype, element) == value;
}

/* Whether a conversion to this type wraps no integer within the bounds. */
static bool has_all(nt_dtype dtype, const nt__bounds *b) {
    if (!b->integers || b->low > b->high) return true;
    return has_value(dtype, b->low < 0 ? b->low : 0) && has_value(dtype, b->high);
}

/* Rounding to integers, and to true and false, makes other numbers of those that there are. Labels that are given as
 * floating numbers are a mistake, which the check names. */
static bool conversion_keeps(nt_dtype from, nt_dtype to, const nt__bounds *b) {
    if (to == NT_BOOL) return from == NT_BOOL;
    return b->integers || nt_dtype_is_float(to) || !nt_dtype_is_float(from);
}

static bool constant_holds(const nt__node *node, const nt__bounds *b, nt__outside *out) {
    size_t count = node->attributes.splat ? 1 : (size_t)nt_shape_elements(node->type.shape);
    nt__bounds each = *b;
    if (node->attributes.splat) each.sums_to_1 = 0;
    return nt__bounds_hold(&each, node->type.dtype, node->attributes.elements, count, out);
}

static bool is_positive_constant(const nt__node *node) {
    static const nt__bounds positive = {.low = 0, .high = INFINITY, .above_low = true};
    nt__outside outside;
    while (node->op == NT__OP_reshape || node->op == NT__OP_broadcast || node->op == NT__OP_convert)
        node = node->operands[0];
    return node->op == NT__OP_constant && constant_holds(node, &positive, &outside);
}

/* What is multiplied or divided by positive constants, where only the sign matters. */
static const nt__node *before_scale(const nt__node *node, const nt__bounds *b) {
    if (b->integers || b->signs || b->low != 0 || !isinf(b->high)) return NULL;
    if (is_positive_constant(node->operands[1])) return node->operands[0];
    return node->op == NT__OP_mul && is_positive_constant(node->operands[0]) ? node->operands[1] : NULL;
}

/* What has the same elements, but for their order and how often they are there, or those that have the bounds whenever
 * these have; NULL: nothing. */
static const nt__node *source_of(const nt__node *node, const nt__bounds *b) {
    const nt__node *original = nt__region_original(node);
    if (original) return original;
    switch (node->op) {
    case NT__OP_reshape:
    case NT__OP_stop_gradient:
    case NT__OP_transpose:
    case NT__OP_broadcast: return node->operands[0];
    case NT__OP_mul:
    case NT__OP_div: return before_scale(node, b);
    case NT__OP_slice: return node->attributes.choice == NT__REAL_ROWS ? node->operands[0] : NULL;
    case NT__OP_convert:
        return conversion_keeps(node->operands[0]->type.dtype, node->type.dtype, b) ? node->operands[0] : NULL;
    default: return NULL;
    }
}

/* Elements that are in another order, stretched or joined are no groups with a known sum, but each keeps its range. */
static bool loses_sums(const nt__node *node) {
    return node->op == NT__OP_transpose || node->op == NT__OP_broadcast || node->op == NT__OP_concatenate;
}

/* `wraps`: a conversion on the way may have made other numbers of those that are claimed. */
static bool keep(const nt__node *node, const nt__bounds *b, bool wraps, const char *advice, nt_site site) {
    nt__graph *graph = nt__trace_current();
    if (node->op != NT__OP_input || !nt__region_always_runs(graph->region)) return false;
    if (!NT__GROW(graph->claims, graph->claim_count, graph->claim_capacity)) {
        nt__trace_out_of_memory();
        return false;
    }
    int role = node->attributes.role;
    graph->claims[graph->claim_count++] = (nt__claim){role, node->attributes.index, *b, advice, site};
    return !wraps && role < MOST_CHECKED_ROLES && graph->checked_roles >> role & 1;
}

/* A claim that is being made. With `call` constants are checked too. */
typedef struct claimed {
    const nt__bounds *bounds;
    const char *call, *argument, *advice;
    nt_site site;
} claimed;

static bool claim(const nt__node *node, const claimed *c, bool wraps) {
    nt__outside outside;
    nt__bounds each = *c->bounds;
    if (loses_sums(node)) each.sums_to_1 = 0;
    for (const nt__node *next; (next = source_of(node, &each));) {
        wraps = wraps || !has_all(node->type.dtype, &each);
        node = next;
        if (loses_sums(node)) each.sums_to_1 = 0;
    }
    const claimed own = {&each, c->call, c->argument, c->advice, c->site};
    if (node->op == NT__OP_concatenate) {
        bool sure = true;
        for (int i = 0; i < node->operand_count; i++)
            if (i == 0 || node->operands[i] != node->operands[i - 1])
                sure = claim(node->operands[i], &own, wraps) && sure;
        return sure;
    }
    if (c->call && node->op == NT__OP_constant && !constant_holds(node, &each, &outside)) {
        if (node->attributes.splat)
            nt__trace_fail(c->site, c->call, "%s: %s", c->argument, outside.text);
        else
            nt__trace_fail(c->site, c->call, "%s, element %zu: %s", c->argument, outside.element, outside.text);
    }
    return keep(node, &each, wraps, c->advice, c->site);
}

static bool claim_of(nt_tensor x, const claimed *c) {
    const nt__node *node = nt__node_of(x, c->site, "claim");
    return node && claim(node, c, false);
}

bool nt__claim_bounds(nt_tensor x, const nt__bounds *bounds, const char *call, const char *argument, const char *advice,
                      nt_site site) {
    return claim_of(x, &(claimed){bounds, call, argument, advice, site});
}

bool nt__claim_range_advising(nt_tensor x, int64_t low, int64_t limit, const char *advice, nt_site site) {
    const nt__bounds bounds = {.low = (double)low, .high = (double)(limit - 1), .integers = true};
    return claim_of(x, &(claimed){&bounds, NULL, NULL, advice, site});
}

bool nt__claim_range(nt_tensor x, int64_t low, int64_t limit, nt_site site) {
    return nt__claim_range_advising(x, low, limit, "correct the data, or the number of classes", site);
}

void nt__claims_are_checked(int role) {
    nt__graph *graph = nt__trace_current();
    if (graph && role < MOST_CHECKED_ROLES) graph->checked_roles |= UINT32_C(1) << role;
}

const nt__claim *nt__claims(const nt__graph *graph, size_t *count) {
    *count = graph->claim_count;
    return graph->claims;
}
