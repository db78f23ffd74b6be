/* Sorting along an axis, and the largest elements. A node is one result of the engine's operation, which gives the
 * elements and their indices together. */
#include <math.h>

#include "graph/emit.h"

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

/* ---- the k largest ---------------------------------------------------------------------------------------------- */

void nt__print_top_k(const nt__node *node, nt__text *text) {
    nt_shape shape = node->type.shape;
    nt__text_add(text, " <{k = %lld : i64}>", (long long)shape.dims[shape.rank - 1]);
}

/* Floating numbers as the engine must see them: it orders them by their bits, where -0 is below 0 and a nan with a sign
 * below all. */
static nt_tensor ordered_by_bits(nt_tensor x, nt_site site) {
    nt_dtype dtype = nt_dtype_of(x);
    if (!nt_dtype_is_float(dtype)) return x;
    nt_tensor zero = nt_tensor_number(0), nan = nt__filled("top_k", (nt__type){dtype, {0}}, (double)NAN, site);
    nt_tensor unsigned_zero = nt_where_at(nt_equal_at(x, zero, site), zero, x, site);
    return nt_where_at(nt_is_nan_at(x, site), nan, unsigned_zero, site);
}

/* Their indices along the last axis of `type`. By an operation of its own, many times faster than sorting all. */
static nt_tensor places_of_largest(nt_tensor x, nt__type type, int64_t k, nt_site site) {
    nt_shape shape = type.shape;
    shape.dims[shape.rank - 1] = k;
    if (nt_shape_elements(shape) == 0) return nt__filled("top_k", (nt__type){NT_I32, shape}, 0, site);
    nt_tensor operand = ordered_by_bits(x, site);
    return nt__emit(NT__OP_top_k, site, (nt__type){NT_I32, shape}, 1, &operand,
                    &(nt__attributes){.result = INDICES, .results = RESULTS});
}

nt_tensor nt_top_k_at(nt_tensor x, int64_t k, nt_tensor *indices, nt_site site) {
    if (indices) *indices = nt__failed();
    const nt__node *node = nt__node_of(x, site, "top_k");
    char text[NT__TYPE_TEXT];
    int last;
    if (!node || !nt__type_numeric(site, "top_k", node->type) || !nt__axis(site, "top_k", node->type, -1, &last))
        return nt__failed();
    int64_t size = node->type.shape.dims[last];
    if (k < 0 || k > size)
        return nt__trace_fail(site, "top_k", "k is %lld: the last axis of %s has fewer elements", (long long)k,
                              nt__type_text(node->type, text));
    if (size > INT32_MAX)
        return nt__trace_fail(site, "top_k", "the last axis of %s has more than %d elements",
                              nt__type_text(node->type, text), INT32_MAX);
    nt_tensor places = places_of_largest(x, node->type, k, site);
    if (indices) *indices = places;
    return nt_take_along_at(x, places, last, site);
}
