/* Reading and writing at indices that the program computes: take, gather along an axis, scatter, blocks at a moving
 * start. Indices become i32 or i64 first, so that no bound overflows their type.
 *
 * Attribute lists of gather and scatter: the axes of a whole slice in the result (updates), the batching axes, the axis
 * that is indexed; of gather, the sizes of a slice.
 */
#include "graph/emit.h"

enum { WINDOW, BATCHING, INDEXED, SIZES };

/* ---- indices ---------------------------------------------------------------------------------------------------- */

/* Integer indices into an axis of `size` in a type that holds them and the bounds. What does not fit stays too large.
 */
static nt_tensor signed_index(const char *what, nt_tensor indices, int64_t size, nt_site site) {
    const nt__node *node = nt__node_of(indices, site, what);
    if (!node || !nt__type_integer(site, what, node->type)) return nt__failed();
    nt_dtype dtype = node->type.dtype;
    if (dtype == NT_U64) indices = nt_min_at(indices, nt_tensor_number((double)size), site);
    bool small = nt_dtype_size(dtype) < (nt__dtype_is_unsigned(dtype) ? 4 : 8) && size <= INT32_MAX;
    return nt_convert_at(indices, small ? NT_I32 : NT_I64, site);
}

static nt_tensor inside(nt_tensor indices, int64_t size, nt_site site) {
    nt_tensor low = nt_greater_equal_at(indices, nt_tensor_number(0), site);
    return nt_and_at(low, nt_less_at(indices, nt_tensor_number((double)size), site), site);
}

/* ---- gather ----------------------------------------------------------------------------------------------------- */

/* Of indices for the slices of x across `axis`; the result has the axes of the indices in its place. */
static nt__attributes across(nt_shape x, int axis, int index_rank) {
    nt__attributes attributes = {.lists = {[INDEXED] = nt_dims(axis), [SIZES] = x}};
    nt_shape *window = &attributes.lists[WINDOW];
    for (int i = 0; i < x.rank; i++)
        if (i != axis) window->dims[window->rank++] = i < axis ? i : i - 1 + index_rank;
    attributes.lists[SIZES].dims[axis] = 1;
    return attributes;
}

/* Of an index for each element of the result: all other axes go along. */
static nt__attributes along(int rank, int axis) {
    nt__attributes attributes = {.lists = {[INDEXED] = nt_dims(axis), [SIZES] = {.rank = rank}}};
    nt_shape *batching = &attributes.lists[BATCHING];
    for (int i = 0; i < rank; i++) {
        if (i != axis) batching->dims[batching->rank++] = i;
        attributes.lists[SIZES].dims[i] = 1;
    }
    return attributes;
}

/* The result's type is that of what a scatter with the same attributes would write. */
static nt__type gathered(nt__type x, nt_shape indices, const nt__attributes *attributes) {
    nt_shape window = attributes->lists[WINDOW], sizes = attributes->lists[SIZES];
    int axis = (int)attributes->lists[INDEXED].dims[0];
    nt__type type = {x.dtype, {.rank = window.rank + indices.rank}};
    for (int i = 0, next = 0, slice = 0, index = 0; i < type.shape.rank; i++) {
        bool of_slice = next < window.rank && window.dims[next] == i;
        slice += of_slice && slice == axis; /* the indexed axis is not in the result */
        type.shape.dims[i] = of_slice ? sizes.dims[slice++] : indices.dims[index++];
        next += of_slice;
    }
    return type;
}

static nt_tensor gather(nt_tensor x, nt_tensor indices, const nt__attributes *attributes, nt_site site) {
    nt__type from = {nt_dtype_of(x), nt_shape_of(x)}, to = gathered(from, nt_shape_of(indices), attributes);
    nt_tensor operands[] = {x, indices};
    /* The engine refuses slices of nothing even where none is read. */
    if (nt_shape_elements(to.shape) == 0) return nt__filled("take", to, 0, site);
    return nt__emit(NT__OP_gather, site, to, 2, operands, attributes);
}

static bool adds_up(nt__reducer reducer) {
    return reducer == NT__ADD || reducer == NT__MULTIPLY;
}

static nt_tensor scatter(nt_tensor x, nt_tensor indices, nt_tensor updates, const nt__attributes *attributes,
                         nt__reducer reducer, nt_site site) {
    if (nt_shape_elements(nt_shape_of(x)) == 0 || nt_shape_elements(nt_shape_of(updates)) == 0) return x;
    nt__attributes own = *attributes;
    own.choice = (int)reducer;
    nt_dtype dtype = nt_dtype_of(x);
    if (adds_up(reducer)) {
        x = nt__widened(x, site);
        updates = nt__widened(updates, site);
    }
    nt_tensor operands[] = {x, indices, updates};
    return nt_convert_at(nt__emit(NT__OP_scatter, site, (nt__type){0}, 3, operands, &own), dtype, site);
}

/* Where an index stood that was moved into the range, its slice gets the cotangent. */
void nt__gradient_gather(const nt__backward *b, nt_tensor *out) {
    const nt__node *x = b->node->operands[0];
    double last = (double)x->type.shape.dims[b->node->attributes.lists[INDEXED].dims[0]] - 1;
    nt_tensor indices =
        nt_clamp_at(b->operands[1], nt_tensor_number(0), nt_tensor_number(last < 0 ? 0 : last), b->site);
    nt_tensor zeros = nt__filled("gather", x->type, 0, b->site);
    out[0] = scatter(zeros, indices, b->cotangent, &b->node->attributes, NT__ADD, b->site);
}

/* An axis that can be read from: its type and place, and that it is not empty unless nothing is read. */
static const nt__node *indexed(const char *what, nt_tensor x, nt_tensor indices, int64_t axis, int *at, nt_site site) {
    const nt__node *node = nt__node_of(x, site, what), *index = nt__node_of(indices, site, what);
    if (!node || !index || !nt__type_integer(site, what, index->type) || !nt__axis(site, what, node->type, axis, at))
        return NULL;
    char one[NT__TYPE_TEXT], other[NT__TYPE_TEXT];
    if (node->type.shape.rank - 1 + index->type.shape.rank > NT_MAX_RANK) {
        nt__trace_fail(site, what, "%s at %s: the result would have more than %d axes", nt__type_text(node->type, one),
                       nt__type_text(index->type, other), NT_MAX_RANK);
        return NULL;
    }
    return node;
}

static bool not_empty(const char *what, const nt__node *x, nt_tensor indices, int axis, nt_site site) {
    char text[NT__TYPE_TEXT];
    if (x->type.shape.dims[axis] > 0 || nt_shape_elements(nt_shape_of(indices)) == 0) return true;
    nt__trace_fail(site, what, "axis %d of %s is empty: there is nothing to read", axis, nt__type_text(x->type, text));
    return false;
}

nt_tensor nt_take_at(nt_tensor x, nt_tensor indices, int64_t axis, nt_site site) {
    int at;
    const nt__node *node = indexed("take", x, indices, axis, &at, site);
    if (!node || !not_empty("take", node, indices, at, site)) return nt__failed();
    nt_shape shape = node->type.shape;
    nt__attributes attributes = across(shape, at, nt_rank(indices));
    return gather(x, signed_index("take", indices, shape.dims[at], site), &attributes, site);
}

/* Whether the indices have the shape of x along all axes but one. */
static bool goes_along(const char *what, const nt__node *x, nt_tensor indices, int axis, nt_site site) {
    nt__type index = {nt_dtype_of(indices), nt_shape_of(indices)};
    nt_shape shape = index.shape;
    if (shape.rank == x->type.shape.rank) shape.dims[axis] = x->type.shape.dims[axis];
    if (nt_shape_equal(shape, x->type.shape)) return true;
    char one[NT__TYPE_TEXT], other[NT__TYPE_TEXT];
    nt__trace_fail(site, what, "%s at %s: all axes but axis %d must have the same sizes; nt_take reads whole slices",
                   nt__type_text(x->type, one), nt__type_text(index, other), axis);
    return false;
}

nt_tensor nt_take_along_at(nt_tensor x, nt_tensor indices, int64_t axis, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "take_along"), *index = nt__node_of(indices, site, "take_along");
    int at;
    if (!node || !index || !nt__type_integer(site, "take_along", index->type) ||
        !nt__axis(site, "take_along", node->type, axis, &at) || !goes_along("take_along", node, indices, at, site) ||
        !not_empty("take_along", node, indices, at, site))
        return nt__failed();
    nt__attributes attributes = along(node->type.shape.rank, at);
    return gather(x, signed_index("take_along", indices, node->type.shape.dims[at], site), &attributes, site);
}

nt_tensor nt__put_along(nt_tensor x, nt_tensor indices, nt_tensor updates, int axis, nt_site site) {
    nt__attributes attributes = along(nt_rank(x), axis);
    return scatter(x, indices, updates, &attributes, NT__ADD, site);
}

/* ---- scatter ---------------------------------------------------------------------------------------------------- */

static nt_tensor write(const char *what, nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis,
                       nt__reducer reducer, nt_site site) {
    int at;
    const nt__node *node = indexed(what, x, indices, axis, &at, site);
    bool (*right)(nt_site, const char *, nt__type) = adds_up(reducer) ? nt__type_adds_up : nt__type_numeric;
    if (!node || !right(site, what, node->type)) return nt__failed();
    nt__attributes attributes = across(node->type.shape, at, nt_rank(indices));
    nt__type wanted = gathered(node->type, nt_shape_of(indices), &attributes);
    if (nt__is_number(updates)) updates = nt__given_number(what, wanted, updates.number, site);
    const nt__node *update = nt__node_of(updates, site, what);
    if (!update) return nt__failed();
    char one[NT__TYPE_TEXT], other[NT__TYPE_TEXT];
    if (update->type.dtype != node->type.dtype)
        return nt__trace_fail(site, what, "%s into %s: element types differ; nt_convert makes them equal",
                              nt__type_text(update->type, one), nt__type_text(node->type, other));
    updates = nt_broadcast_at(updates, wanted.shape, site);
    return scatter(x, signed_index(what, indices, node->type.shape.dims[at], site), updates, &attributes, reducer,
                   site);
}

nt_tensor nt_scatter_set_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site) {
    return write("scatter_set", x, indices, updates, axis, NT__SECOND, site);
}

nt_tensor nt_scatter_add_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site) {
    return write("scatter_add", x, indices, updates, axis, NT__ADD, site);
}

nt_tensor nt_scatter_max_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site) {
    nt__reducer reducer = nt_dtype_is_float(nt_dtype_of(x)) ? NT__MAXIMUM_OR_NAN : NT__MAXIMUM;
    return write("scatter_max", x, indices, updates, axis, reducer, site);
}

nt_tensor nt_scatter_min_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site) {
    nt__reducer reducer = nt_dtype_is_float(nt_dtype_of(x)) ? NT__MINIMUM_OR_NAN : NT__MINIMUM;
    return write("scatter_min", x, indices, updates, axis, reducer, site);
}

nt_tensor nt_scatter_mul_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site) {
    return write("scatter_mul", x, indices, updates, axis, NT__MULTIPLY, site);
}

/* What the updates of a scatter find at their places in x; zeros for an update that was left out. */
static nt_tensor read_back(const nt__backward *b, nt_tensor x) {
    const nt_shape *lists = b->node->attributes.lists;
    int axis = (int)lists[INDEXED].dims[0];
    int64_t size = b->node->type.shape.dims[axis];
    nt_shape updates = b->node->operands[2]->type.shape, thin = b->node->operands[1]->type.shape;
    if (size == 0) return nt__filled("scatter", b->node->operands[2]->type, 0, b->site);
    /* The axes of the slices that follow the indexed one come after those of the indices. */
    for (int i = axis + 1; lists[WINDOW].rank && i < b->node->type.shape.rank; i++) thin.dims[thin.rank++] = 1;
    nt_tensor written =
        nt_broadcast_at(nt_reshape_at(inside(b->operands[1], size, b->site), thin, b->site), updates, b->site);
    nt_tensor found = gather(x, b->operands[1], &b->node->attributes, b->site);
    return nt_where_at(written, found, nt_tensor_number(0), b->site);
}

/* Those that are the largest (smallest) share the cotangent. */
static void scatter_extreme_gradient(const nt__backward *b, nt_tensor *out) {
    nt_dtype dtype = nt_dtype_of(b->cotangent);
    nt_tensor kept = nt_convert_at(nt_equal_at(b->operands[0], b->value, b->site), dtype, b->site);
    nt_tensor won = nt_convert_at(nt_equal_at(b->operands[2], read_back(b, b->value), b->site), dtype, b->site);
    nt_tensor winners = scatter(kept, b->operands[1], won, &b->node->attributes, NT__ADD, b->site);
    nt_tensor each = nt_div_at(b->cotangent, winners, b->site);
    out[0] = nt_where_at(nt_equal_at(kept, nt_tensor_number(1), b->site), each, nt_tensor_number(0), b->site);
    out[2] = nt_mul_at(won, read_back(b, each), b->site);
}

static nt_tensor scatter_like(const nt__backward *b, double start, nt_tensor updates, nt__reducer reducer) {
    nt_tensor whole = nt__filled("scatter", b->node->type, start, b->site);
    return scatter(whole, b->operands[1], updates, &b->node->attributes, reducer, b->site);
}

/* Of an update, the product of x and the other updates at its place, which is right at zeros too: there, the product of
 * those that are not zero, unless another one is. */
static void scatter_product_gradient(const nt__backward *b, nt_tensor *out) {
    nt_dtype dtype = nt_dtype_of(b->cotangent);
    nt_tensor zero = nt_tensor_number(0), one = nt_tensor_number(1), update = b->operands[2];
    if (b->wanted[0]) out[0] = nt_mul_at(b->cotangent, scatter_like(b, 1, update, NT__MULTIPLY), b->site);
    if (!b->wanted[2]) return;
    nt_tensor is_zero = nt_equal_at(update, zero, b->site), own_zeros = nt_convert_at(is_zero, dtype, b->site);
    nt_tensor zeros = read_back(b, scatter_like(b, 0, own_zeros, NT__ADD));
    nt_tensor factor = nt_where_at(is_zero, one, update, b->site);
    nt_tensor product = read_back(b, nt_mul_at(b->operands[0], scatter_like(b, 1, factor, NT__MULTIPLY), b->site));
    nt_tensor alone = nt_equal_at(zeros, own_zeros, b->site);
    nt_tensor others = nt_where_at(alone, nt_div_at(product, factor, b->site), zero, b->site);
    out[2] = nt_mul_at(read_back(b, b->cotangent), others, b->site);
}

void nt__gradient_scatter(const nt__backward *b, nt_tensor *out) {
    int reducer = b->node->attributes.choice;
    if (reducer == NT__MULTIPLY) {
        scatter_product_gradient(b, out);
        return;
    }
    if (reducer != NT__ADD && reducer != NT__SECOND) {
        scatter_extreme_gradient(b, out);
        return;
    }
    out[0] = b->cotangent;
    if (reducer == NT__SECOND && b->wanted[0]) {
        nt_tensor zeros = nt__filled("scatter", b->node->operands[2]->type, 0, b->site);
        out[0] = scatter(b->cotangent, b->operands[1], zeros, &b->node->attributes, NT__SECOND, b->site);
    }
    if (b->wanted[2]) out[2] = read_back(b, b->cotangent);
}

/* ---- blocks at a moving start ----------------------------------------------------------------------------------- */

/* Checks a block and fills in the scalar starts, one for each axis. */
static bool starts_of(const char *what, nt__type whole, nt_shape block, nt_tensor start, nt_tensor *out, nt_site site) {
    const nt__node *node = nt__node_of(start, site, what);
    if (!node || !nt__type_integer(site, what, node->type)) return false;
    int rank = whole.shape.rank;
    char one[NT__TYPE_TEXT], other[NT__TYPE_TEXT], third[NT__TYPE_TEXT];
    bool fits = block.rank == rank && rank > 0 && nt_shape_equal(node->type.shape, nt_dims(rank));
    for (int i = 0; fits && i < rank; i++) fits = block.dims[i] >= 0 && block.dims[i] <= whole.shape.dims[i];
    if (!fits) {
        nt__trace_fail(site, what, "a block %s of %s at %s: it must fit, and the start has one integer for each axis",
                       nt__shape_text(block, one), nt__type_text(whole, other), nt__type_text(node->type, third));
        return false;
    }
    for (int i = 0; i < rank; i++) {
        nt_tensor own = nt_reshape_at(nt_range_at(start, 0, i, i + 1, site), (nt_shape){0}, site);
        out[i] = nt_convert_at(signed_index(what, own, whole.shape.dims[i], site), NT_I64, site);
    }
    return true;
}

nt_tensor nt_dynamic_slice_at(nt_tensor x, nt_tensor start, nt_shape sizes, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "dynamic_slice");
    nt_tensor operands[NT__MAX_OPERANDS] = {x};
    if (!node || !starts_of("dynamic_slice", node->type, sizes, start, operands + 1, site)) return nt__failed();
    return nt__emit(NT__OP_dynamic_slice, site, (nt__type){node->type.dtype, sizes}, 1 + sizes.rank, operands,
                    &(nt__attributes){.lists = {sizes}});
}

nt_tensor nt_dynamic_update_at(nt_tensor x, nt_tensor update, nt_tensor start, nt_site site) {
    const nt__node *whole = nt__node_of(x, site, "dynamic_update"),
                   *block = nt__node_of(update, site, "dynamic_update");
    nt_tensor operands[NT__MAX_OPERANDS] = {x, update};
    if (!whole || !block || !starts_of("dynamic_update", whole->type, block->type.shape, start, operands + 2, site))
        return nt__failed();
    char one[NT__TYPE_TEXT], other[NT__TYPE_TEXT];
    if (block->type.dtype != whole->type.dtype)
        return nt__trace_fail(site, "dynamic_update", "%s into %s: element types differ; nt_convert makes them equal",
                              nt__type_text(block->type, one), nt__type_text(whole->type, other));
    return nt__emit(NT__OP_dynamic_update, site, (nt__type){0}, 2 + whole->type.shape.rank, operands, NULL);
}

/* The node that writes `update` at the starts of b, its operands from `first`. */
static nt_tensor write_block(const nt__backward *b, nt_tensor x, nt_tensor update, int first) {
    nt_tensor operands[NT__MAX_OPERANDS] = {x, update};
    int count = b->node->operand_count - first;
    for (int i = 0; i < count; i++) operands[2 + i] = b->operands[first + i];
    return nt__emit(NT__OP_dynamic_update, b->site, (nt__type){0}, 2 + count, operands, NULL);
}

void nt__gradient_dynamic_slice(const nt__backward *b, nt_tensor *out) {
    nt_tensor zeros = nt__filled("dynamic_slice", b->node->operands[0]->type, 0, b->site);
    out[0] = write_block(b, zeros, b->cotangent, 1);
}

void nt__gradient_dynamic_update(const nt__backward *b, nt_tensor *out) {
    nt__type block = b->node->operands[1]->type;
    if (b->wanted[0]) out[0] = write_block(b, b->cotangent, nt__filled("dynamic_update", block, 0, b->site), 2);
    if (!b->wanted[1]) return;
    nt_tensor operands[NT__MAX_OPERANDS] = {b->cotangent};
    int count = b->node->operand_count - 2;
    for (int i = 0; i < count; i++) operands[1 + i] = b->operands[2 + i];
    out[1] =
        nt__emit(NT__OP_dynamic_slice, b->site, block, 1 + count, operands, &(nt__attributes){.lists = {block.shape}});
}
