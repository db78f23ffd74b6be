/* Sorting along an axis, and what is made of it. A node is one result of the engine's sort, which orders the elements
 * and their indices together. */
#include "graph/node.h"

enum { VALUES, INDICES, RESULTS };

static nt_tensor sorted(const char *what, nt_tensor x, int64_t axis, nt_order order, int result, nt_site site) {
    const nt__node *node = nt__node_of(x, site, what);
    char text[NT__TYPE_TEXT];
    int at;
    if (!node || !nt__type_numeric(site, what, node->type) || !nt__axis(site, what, node->type, axis, &at))
        return nt__failed();
    if (node->type.shape.dims[at] > INT32_MAX)
        return nt__trace_fail(site, what, "axis %d of %s has more than %d elements", at,
                              nt__type_text(node->type, text), INT32_MAX);
    nt_tensor operands[] = {x, nt_iota_at(NT_I32, node->type.shape, at, site)};
    nt__attributes attributes = {.lists = {nt_dims(at)}, .choice = order, .result = result, .results = RESULTS};
    return nt__emit(NT__OP_sort, site, (nt__type){0}, RESULTS, operands, &attributes);
}

bool nt__shape_sort(nt__node *node) {
    node->type = node->operands[node->attributes.result]->type;
    return true;
}

/* Each cotangent goes back to where its element came from. */
void nt__gradient_sort(const nt__backward *b, nt_tensor *out) {
    const nt__attributes *attributes = &b->node->attributes;
    int axis = (int)attributes->lists[0].dims[0];
    nt_tensor origin = sorted("sort", b->operands[0], axis, (nt_order)attributes->choice, INDICES, b->site);
    out[0] = nt__put_along(nt__filled("sort", b->node->type, 0, b->site), origin, b->cotangent, axis, b->site);
}

nt_tensor nt_sort_at(nt_tensor x, int64_t axis, nt_order order, nt_site site) {
    return sorted("sort", x, axis, order, VALUES, site);
}

nt_tensor nt_argsort_at(nt_tensor x, int64_t axis, nt_order order, nt_site site) {
    return sorted("argsort", x, axis, order, INDICES, site);
}

nt_tensor nt_top_k_at(nt_tensor x, int64_t k, nt_tensor *indices, nt_site site) {
    if (indices) *indices = nt__failed();
    const nt__node *node = nt__node_of(x, site, "top_k");
    char text[NT__TYPE_TEXT];
    int last;
    if (!node || !nt__axis(site, "top_k", node->type, -1, &last)) return nt__failed();
    if (k < 0 || k > node->type.shape.dims[last])
        return nt__trace_fail(site, "top_k", "k is %lld: the last axis of %s has fewer elements", (long long)k,
                              nt__type_text(node->type, text));
    if (indices) *indices = nt_range_at(sorted("top_k", x, last, NT_DESCENDING, INDICES, site), last, 0, k, site);
    return nt_range_at(sorted("top_k", x, last, NT_DESCENDING, VALUES, site), last, 0, k, site);
}
