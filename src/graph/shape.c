/* Operations that move elements: reshape, transpose, broadcast, slices. */
#include <string.h>

#include "graph/emit.h"

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

/* ---- padding ---------------------------------------------------------------------------------------------------- */

/* `inside` elements go between two neighbours. Negative numbers at the ends cut. */
static nt_tensor pad(nt_tensor x, nt_shape low, nt_shape high, nt_shape inside, nt_tensor value, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "pad");
    if (!node) return nt__failed();
    if (nt__is_number(value)) value = nt__given_number("pad", (nt__type){node->type.dtype, {0}}, value.number, site);
    const nt__node *filler = nt__node_of(value, site, "pad");
    if (!filler) return nt__failed();
    char type[NT__TYPE_TEXT], other[NT__TYPE_TEXT];
    if (filler->type.dtype != node->type.dtype || filler->type.shape.rank != 0)
        return nt__trace_fail(site, "pad", "%s is filled with a number or a scalar of its element type, got %s",
                              nt__type_text(node->type, type), nt__type_text(filler->type, other));
    nt_tensor operands[] = {x, value};
    return nt__emit(NT__OP_pad, site, (nt__type){0}, 2, operands, &(nt__attributes){.lists = {low, high, inside}});
}

/* The size of a padded axis; negative when it is not possible. */
static int64_t padded(int64_t size, int64_t low, int64_t high, int64_t inside) {
    int64_t between = 0, sum;
    bool over = inside < 0 || (size > 1 && __builtin_mul_overflow(size - 1, inside, &between));
    over = over || __builtin_add_overflow(size, between, &sum) || __builtin_add_overflow(sum, low, &sum);
    return over || __builtin_add_overflow(sum, high, &sum) ? -1 : sum;
}

bool nt__shape_pad(nt__node *node) {
    const nt_shape *lists = node->attributes.lists;
    node->type = node->operands[0]->type;
    nt_shape *shape = &node->type.shape;
    bool right = lists[0].rank == shape->rank && lists[1].rank == shape->rank;
    for (int i = 0; right && i < shape->rank; i++) {
        shape->dims[i] = padded(shape->dims[i], lists[0].dims[i], lists[1].dims[i], lists[2].dims[i]);
        right = shape->dims[i] >= 0;
    }
    if (right) return true;
    char type[NT__TYPE_TEXT], low[NT__TYPE_TEXT], high[NT__TYPE_TEXT];
    nt__trace_fail(node->site, "pad",
                   "%s cannot be padded by %s before and %s after: one number for each axis, and no more may be cut "
                   "than is there",
                   nt__type_text(node->operands[0]->type, type), nt__shape_text(lists[0], low),
                   nt__shape_text(lists[1], high));
    return false;
}

nt_tensor nt_pad_at(nt_tensor x, nt_shape low, nt_shape high, nt_tensor value, nt_site site) {
    return pad(x, low, high, (nt_shape){.rank = nt_rank(x)}, value, site);
}

/* Cutting what was padded and padding what was cut, then every element that came from x. What is left of c was the
 * filler's. */
void nt__gradient_pad(const nt__backward *b, nt_tensor *out) {
    nt_shape low = b->node->attributes.lists[0], high = b->node->attributes.lists[1];
    nt_shape start = {.rank = low.rank}, strides = b->node->attributes.lists[2];
    for (int i = 0; i < low.rank; i++) {
        low.dims[i] = -low.dims[i];
        high.dims[i] = -high.dims[i];
        strides.dims[i]++;
    }
    nt_tensor whole = nt_pad_at(b->cotangent, low, high, nt_tensor_number(0), b->site);
    nt_tensor own = nt_slice_strided_at(whole, start, nt_shape_of(whole), strides, b->site);
    if (b->wanted[0]) out[0] = own;
    if (b->wanted[1])
        out[1] =
            nt_sub_at(nt_sum_at(b->cotangent, (nt_shape){0}, b->site), nt_sum_at(own, (nt_shape){0}, b->site), b->site);
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

static bool strides_right(nt_shape strides, int rank) {
    bool right = strides.rank == rank;
    for (int i = 0; right && i < rank; i++) right = strides.dims[i] > 0;
    return right;
}

nt_tensor nt_slice_strided_at(nt_tensor x, nt_shape start, nt_shape limit, nt_shape strides, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "slice");
    if (!node) return nt__failed();
    char type[NT__TYPE_TEXT], from[NT__TYPE_TEXT], to[NT__TYPE_TEXT];
    if (!block_inside(node->type.shape, start, limit))
        return nt__trace_fail(site, "slice", "%s has no block from %s to %s", nt__type_text(node->type, type),
                              nt__shape_text(start, from), nt__shape_text(limit, to));
    if (!strides_right(strides, start.rank))
        return nt__trace_fail(site, "slice", "the strides %s of %s must be positive, one for each axis",
                              nt__shape_text(strides, from), nt__type_text(node->type, type));
    return nt__emit(NT__OP_slice, site, (nt__type){0}, 1, &x, &(nt__attributes){.lists = {start, limit, strides}});
}

nt_tensor nt_slice_at(nt_tensor x, nt_shape start, nt_shape limit, nt_site site) {
    nt_shape ones = {.rank = start.rank};
    for (int i = 0; i < NT_MAX_RANK; i++) ones.dims[i] = 1;
    return nt_slice_strided_at(x, start, limit, ones, site);
}

nt_tensor nt__real_rows(nt_tensor x, int64_t rows, nt_site site) {
    nt_shape start = {.rank = nt_rank(x)}, limit = nt_shape_of(x), ones = limit;
    for (int i = 0; i < ones.rank; i++) ones.dims[i] = 1;
    limit.dims[0] = rows;
    return nt__emit(NT__OP_slice, site, (nt__type){0}, 1, &x,
                    &(nt__attributes){.lists = {start, limit, ones}, .choice = NT__REAL_ROWS});
}

bool nt__shape_slice(nt__node *node) {
    const nt_shape *lists = node->attributes.lists;
    node->type = node->operands[0]->type;
    for (int i = 0; i < node->type.shape.rank; i++) {
        int64_t length = lists[1].dims[i] - lists[0].dims[i], stride = lists[2].dims[i];
        node->type.shape.dims[i] = length / stride + (length % stride != 0);
    }
    return true;
}

/* A block is written into zeros; elements that stood apart are padded apart. */
void nt__gradient_slice(const nt__backward *b, nt_tensor *out) {
    nt_shape start = b->node->attributes.lists[0], inside = b->node->attributes.lists[2], high = {.rank = start.rank};
    nt__type whole = b->node->operands[0]->type;
    bool block = true;
    for (int i = 0; i < start.rank; i++) {
        int64_t size = b->node->type.shape.dims[i];
        inside.dims[i] = size > 1 ? inside.dims[i] - 1 : 0;
        block = block && inside.dims[i] == 0;
        high.dims[i] = whole.shape.dims[i] - padded(size, start.dims[i], 0, inside.dims[i]);
    }
    if (block)
        out[0] = nt_update_slice_at(nt__filled("slice", whole, 0, b->site), b->cotangent, start, b->site);
    else
        out[0] = pad(b->cotangent, start, high, inside, nt_tensor_number(0), b->site);
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
