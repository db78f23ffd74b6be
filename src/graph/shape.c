/* Operations that move elements: reshape, transpose, broadcast, slices. */
#include <string.h>

#include "graph/node.h"

/* ---- reshape ---------------------------------------------------------------------------------------------------- */

/* Fills in a size of -1. False when the numbers of elements cannot agree. */
static bool complete_shape(nt_shape *shape, int64_t elements) {
    int unknown = -1;
    int64_t known = 1;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == -1 && unknown < 0)
            unknown = i;
        else if (shape->dims[i] < 0 || __builtin_mul_overflow(known, shape->dims[i], &known))
            return false;
    }
    if (unknown < 0) return known == elements;
    if (known == 0 || elements % known != 0) return false;
    shape->dims[unknown] = elements / known;
    return true;
}

nt_tensor nt_reshape_at(nt_tensor x, nt_shape shape, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "reshape");
    if (!node) return nt__failed();
    char from[NT__TYPE_TEXT], to[NT__TYPE_TEXT];
    nt_shape wanted = shape;
    if (shape.rank > NT_MAX_RANK || !complete_shape(&shape, nt_shape_elements(node->type.shape)))
        return nt__trace_fail(site, "reshape", "%s has %lld elements and cannot become %s",
                              nt__type_text(node->type, from), (long long)nt_shape_elements(node->type.shape),
                              nt__shape_text(wanted, to));
    if (nt_shape_equal(shape, node->type.shape)) return x;
    return nt__emit(NT__OP_reshape, site, (nt__type){node->type.dtype, shape}, 1, &x, NULL);
}

void nt__gradient_reshape(const nt__backward *b, nt_tensor *out) {
    out[0] = nt_reshape_at(b->cotangent, b->node->operands[0]->type.shape, b->site);
}

/* ---- transpose -------------------------------------------------------------------------------------------------- */

nt_tensor nt_transpose_at(nt_tensor x, nt_shape axes, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "transpose");
    if (!node) return nt__failed();
    int rank = node->type.shape.rank;
    bool seen[NT_MAX_RANK] = {0}, right = axes.rank == rank, identity = true;
    nt_shape order = {.rank = rank};
    for (int i = 0; right && i < rank; i++) {
        int64_t axis = axes.dims[i] < 0 ? axes.dims[i] + rank : axes.dims[i];
        right = axis >= 0 && axis < rank && !seen[axis];
        if (right) seen[axis] = true;
        identity = identity && axis == i;
        order.dims[i] = axis;
    }
    if (!right) {
        char from[NT__TYPE_TEXT], to[NT__TYPE_TEXT];
        return nt__trace_fail(site, "transpose", "%s: the axes %s must name each axis once",
                              nt__type_text(node->type, from), nt__shape_text(axes, to));
    }
    if (identity) return x;
    return nt__emit(NT__OP_transpose, site, (nt__type){0}, 1, &x, &(nt__attributes){.lists = {order}});
}

bool nt__shape_transpose(nt__node *node) {
    nt__type from = node->operands[0]->type;
    node->type = from;
    for (int i = 0; i < from.shape.rank; i++)
        node->type.shape.dims[i] = from.shape.dims[node->attributes.lists[0].dims[i]];
    return true;
}

void nt__gradient_transpose(const nt__backward *b, nt_tensor *out) {
    nt_shape axes = b->node->attributes.lists[0], back = axes;
    for (int i = 0; i < axes.rank; i++) back.dims[axes.dims[i]] = i;
    out[0] = nt_transpose_at(b->cotangent, back, b->site);
}

/* ---- broadcast -------------------------------------------------------------------------------------------------- */

nt_tensor nt_broadcast_at(nt_tensor x, nt_shape shape, nt_site site) {
    if (nt__is_number(x)) return nt__given_number("broadcast", (nt__type){NT_F32, shape}, x.number, site);
    const nt__node *node = nt__node_of(x, site, "broadcast");
    if (!node) return nt__failed();
    nt_shape from = node->type.shape, places = {.rank = from.rank};
    bool right = shape.rank >= from.rank && shape.rank <= NT_MAX_RANK;
    for (int i = 0; right && i < from.rank; i++) {
        places.dims[i] = shape.rank - from.rank + i;
        right = from.dims[i] == 1 || from.dims[i] == shape.dims[places.dims[i]];
    }
    if (!right) {
        char old[NT__TYPE_TEXT], new[NT__TYPE_TEXT];
        return nt__trace_fail(site, "broadcast",
                              "%s does not stretch to %s: aligned at the last axis, sizes must be equal or 1",
                              nt__type_text(node->type, old), nt__shape_text(shape, new));
    }
    if (nt_shape_equal(shape, from)) return x;
    return nt__emit(NT__OP_broadcast, site, (nt__type){node->type.dtype, shape}, 1, &x,
                    &(nt__attributes){.lists = {places}});
}

void nt__gradient_broadcast(const nt__backward *b, nt_tensor *out) {
    nt_shape from = b->node->operands[0]->type.shape, to = b->node->type.shape, places = b->node->attributes.lists[0];
    nt_shape summed = {0};
    for (int axis = 0, i = 0; axis < to.rank; axis++) {
        bool given = i < places.rank && places.dims[i] == axis;
        if (!given || (from.dims[i] == 1 && to.dims[axis] != 1)) summed.dims[summed.rank++] = axis;
        if (given) i++;
    }
    nt_tensor sum = summed.rank ? nt_sum_at(b->cotangent, summed, b->site) : b->cotangent;
    out[0] = nt_reshape_at(sum, from, b->site);
}

/* ---- slices ----------------------------------------------------------------------------------------------------- */

static bool block_inside(nt_shape whole, nt_shape start, nt_shape limit) {
    if (start.rank != whole.rank || limit.rank != whole.rank) return false;
    for (int i = 0; i < whole.rank; i++)
        if (start.dims[i] < 0 || limit.dims[i] < start.dims[i] || limit.dims[i] > whole.dims[i]) return false;
    return true;
}

/* Where a block that starts at `start` ends. A start too large for the sum gives a limit before it. */
static nt_shape block_limit(nt_shape start, nt_shape block) {
    nt_shape limit = start;
    for (int i = 0; i < block.rank; i++)
        if (__builtin_add_overflow(start.dims[i], block.dims[i], &limit.dims[i])) limit.dims[i] = -1;
    return limit;
}

nt_tensor nt_slice_at(nt_tensor x, nt_shape start, nt_shape limit, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "slice");
    if (!node) return nt__failed();
    if (!block_inside(node->type.shape, start, limit)) {
        char type[NT__TYPE_TEXT], from[NT__TYPE_TEXT], to[NT__TYPE_TEXT];
        return nt__trace_fail(site, "slice", "%s has no block from %s to %s", nt__type_text(node->type, type),
                              nt__shape_text(start, from), nt__shape_text(limit, to));
    }
    nt_shape ones = {.rank = start.rank};
    for (int i = 0; i < ones.rank; i++) ones.dims[i] = 1;
    return nt__emit(NT__OP_slice, site, (nt__type){0}, 1, &x, &(nt__attributes){.lists = {start, limit, ones}});
}

bool nt__shape_slice(nt__node *node) {
    node->type = node->operands[0]->type;
    for (int i = 0; i < node->type.shape.rank; i++)
        node->type.shape.dims[i] = node->attributes.lists[1].dims[i] - node->attributes.lists[0].dims[i];
    return true;
}

void nt__gradient_slice(const nt__backward *b, nt_tensor *out) {
    nt_tensor zeros = nt__filled("slice", b->node->operands[0]->type, 0, b->site);
    out[0] = nt_update_slice_at(zeros, b->cotangent, b->node->attributes.lists[0], b->site);
}

nt_tensor nt_update_slice_at(nt_tensor x, nt_tensor update, nt_shape start, nt_site site) {
    const nt__node *whole = nt__node_of(x, site, "update_slice"), *block = nt__node_of(update, site, "update_slice");
    if (!whole || !block) return nt__failed();
    nt_shape limit = block_limit(start, block->type.shape);
    if (whole->type.dtype != block->type.dtype || block->type.shape.rank != start.rank ||
        !block_inside(whole->type.shape, start, limit)) {
        char type[NT__TYPE_TEXT], piece[NT__TYPE_TEXT], at[NT__TYPE_TEXT];
        return nt__trace_fail(site, "update_slice", "%s does not fit into %s at %s", nt__type_text(block->type, piece),
                              nt__type_text(whole->type, type), nt__shape_text(start, at));
    }
    nt_tensor operands[NT__MAX_OPERANDS] = {x, update};
    for (int i = 0; i < start.rank; i++)
        operands[2 + i] = nt__filled("update_slice", (nt__type){NT_I64, {0}}, (double)start.dims[i], site);
    return nt__emit(NT__OP_update_slice, site, (nt__type){0}, 2 + start.rank, operands,
                    &(nt__attributes){.lists = {start}});
}

bool nt__shape_update_slice(nt__node *node) {
    node->type = node->operands[0]->type;
    return true;
}

void nt__gradient_update_slice(const nt__backward *b, nt_tensor *out) {
    nt_shape start = b->node->attributes.lists[0];
    nt__type block = b->node->operands[1]->type;
    if (b->wanted[0]) {
        nt_tensor zeros = nt__filled("update_slice", block, 0, b->site);
        out[0] = nt_update_slice_at(b->cotangent, zeros, start, b->site);
    }
    if (b->wanted[1]) out[1] = nt_slice_at(b->cotangent, start, block_limit(start, block.shape), b->site);
}

nt_tensor nt_stop_gradient_at(nt_tensor x, nt_site site) {
    return nt__emit(NT__OP_stop_gradient, site, (nt__type){0}, 1, &x, NULL);
}
