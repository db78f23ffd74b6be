/* What a trace claims of the numbers in its arguments.
 * Not here: who checks that (run, data).
 */
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

/* What has the same elements, but for their order and how often they are there; NULL: nothing has. */
static const nt__node *behind(const nt__node *node, const nt__bounds *b) {
    const nt__node *original = nt__region_original(node);
    if (original) return original;
    switch (node->op) {
    case NT__OP_reshape:
    case NT__OP_stop_gradient: return node->operands[0];
    case NT__OP_transpose:
    case NT__OP_broadcast: return b->sums_to_1 ? NULL : node->operands[0];
    case NT__OP_convert:
        return conversion_keeps(node->operands[0]->type.dtype, node->type.dtype, b) ? node->operands[0] : NULL;
    default: return NULL;
    }
}

static void check_constant(const nt__node *node, const nt__bounds *b, const char *call, const char *argument,
                           nt_site site) {
    nt__outside outside;
    size_t count = node->attributes.splat ? 1 : (size_t)nt_shape_elements(node->type.shape);
    nt__bounds each = *b;
    if (node->attributes.splat) each.sums_to_1 = 0;
    if (nt__bounds_hold(&each, node->type.dtype, node->attributes.elements, count, &outside)) return;
    nt__trace_fail(site, call, "%s, element %zu: %s", argument, outside.element, outside.text);
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

/* With `call` a constant is checked too. */
static bool claim(nt_tensor x, const nt__bounds *b, const char *call, const char *argument, const char *advice,
                  nt_site site) {
    const nt__node *node = nt__node_of(x, site, "claim"), *next;
    bool wraps = false;
    for (; node && (next = behind(node, b)); node = next) wraps = wraps || !has_all(node->type.dtype, b);
    if (!node) return false;
    if (call && node->op == NT__OP_constant) check_constant(node, b, call, argument, site);
    return keep(node, b, wraps, advice, site);
}

bool nt__claim_bounds(nt_tensor x, const nt__bounds *bounds, const char *call, const char *argument, const char *advice,
                      nt_site site) {
    return claim(x, bounds, call, argument, advice, site);
}

bool nt__claim_range_advising(nt_tensor x, int64_t low, int64_t limit, const char *advice, nt_site site) {
    nt__bounds bounds = {.low = (double)low, .high = (double)(limit - 1), .integers = true};
    return claim(x, &bounds, NULL, NULL, advice, site);
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
