/* Operations that put elements elsewhere, made of those in shape.c: axes of size 1, joining and cutting, copies,
 * borders, triangles. */
#include "graph/emit.h"

/* ---- axes of size 1 --------------------------------------------------------------------------------------------- */

nt_tensor nt_expand_at(nt_tensor x, int64_t axis, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "expand");
    if (!node) return nt__failed();
    nt_shape from = node->type.shape, to = {.rank = from.rank + 1};
    int64_t at = axis < 0 ? axis + to.rank : axis;
    char text[NT__TYPE_TEXT];
    if (at < 0 || at >= to.rank || from.rank == NT_MAX_RANK)
        return nt__trace_fail(site, "expand",
                              "axis %lld of %s: the new axis is one from %d to %d, and a tensor has at most %d",
                              (long long)axis, nt__type_text(node->type, text), -to.rank, from.rank, NT_MAX_RANK);
    for (int i = 0; i < to.rank; i++) to.dims[i] = i == at ? 1 : from.dims[i - (i > at)];
    return nt_reshape_at(x, to, site);
}

nt_tensor nt_squeeze_at(nt_tensor x, nt_shape axes, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "squeeze");
    bool named = axes.rank > 0, keep;
    if (!node || !nt__axes(site, "squeeze", node->type, &axes, &keep)) return nt__failed();
    nt_shape from = node->type.shape, to = {0};
    char text[NT__TYPE_TEXT];
    for (int i = 0, next = 0; i < from.rank; i++) {
        bool chosen = next < axes.rank && axes.dims[next] == i;
        next += chosen;
        if (chosen && named && from.dims[i] != 1)
            return nt__trace_fail(site, "squeeze", "axis %d of %s is not of size 1; nt_reshape joins axes", i,
                                  nt__type_text(node->type, text));
        if (!chosen || from.dims[i] != 1) to.dims[to.rank++] = from.dims[i];
    }
    return nt_reshape_at(x, to, site);
}

/* ---- joining ---------------------------------------------------------------------------------------------------- */

bool nt__shape_concatenate(nt__node *node) {
    node->type = node->operands[0]->type;
    int64_t *size = &node->type.shape.dims[node->attributes.choice];
    /* A sum that does not fit is refused as a size below 0. */
    for (int i = 1; i < node->operand_count; i++)
        if (__builtin_add_overflow(*size, node->operands[i]->type.shape.dims[node->attributes.choice], size)) {
            *size = -1;
            break;
        }
    return true;
}

/* The range start <= index < limit along one axis. */
static nt_tensor range_of(nt_tensor x, int axis, int64_t start, int64_t limit, nt_site site) {
    nt_shape low = {.rank = nt_rank(x)}, high = nt_shape_of(x);
    low.dims[axis] = start;
    high.dims[axis] = limit;
    return nt_slice_at(x, low, high, site);
}

void nt__gradient_concatenate(const nt__backward *b, nt_tensor *out) {
    int axis = b->node->attributes.choice;
    int64_t start = 0;
    for (int i = 0; i < b->node->operand_count; i++) {
        int64_t limit = start + b->node->operands[i]->type.shape.dims[axis];
        if (b->wanted[i]) out[i] = range_of(b->cotangent, axis, start, limit, b->site);
        start = limit;
    }
}

/* Whether two types differ at most in the size of one axis. */
static bool joins(nt__type a, nt__type b, int axis) {
    if (a.dtype != b.dtype || a.shape.rank != b.shape.rank) return false;
    b.shape.dims[axis] = a.shape.dims[axis];
    return nt_shape_equal(a.shape, b.shape);
}

/* Of one operation's operands at most, whose types were checked. */
static nt_tensor join_few(const nt_tensor *tensors, int count, int axis, nt_site site) {
    if (count == 1) return tensors[0];
    return nt__emit(NT__OP_concatenate, site, (nt__type){0}, count, tensors, &(nt__attributes){.choice = axis});
}

/* Many operands are joined in groups, then the groups. */
static nt_tensor join(const nt_tensor *tensors, int count, int axis, nt_site site) {
    if (count <= NT__MAX_OPERANDS) return join_few(tensors, count, axis, site);
    int groups = count / NT__MAX_OPERANDS + (count % NT__MAX_OPERANDS != 0);
    nt_tensor *joined = nt__trace_alloc(site, "concatenate", (size_t)groups, sizeof *joined);
    if (!joined) return nt__failed();
    for (int i = 0; i < groups; i++) {
        int first = i * NT__MAX_OPERANDS, left = count - first;
        joined[i] = join_few(tensors + first, left < NT__MAX_OPERANDS ? left : NT__MAX_OPERANDS, axis, site);
    }
    return join(joined, groups, axis, site);
}

/* Checks that there are tensors, all of the current trace, and that they join along the axis. */
static bool can_join(const char *what, const nt_tensor *tensors, int count, int64_t axis, int *at, nt_site site) {
    if (count < 1 || !tensors) {
        nt__trace_fail(site, what, "needs at least one tensor");
        return false;
    }
    const nt__node *first = nt__node_of(tensors[0], site, what);
    if (!first || !nt__axis(site, what, first->type, axis, at)) return false;
    for (int i = 1; i < count; i++) {
        const nt__node *node = nt__node_of(tensors[i], site, what);
        if (!node) return false;
        if (joins(first->type, node->type, *at)) continue;
        char one[NT__TYPE_TEXT], other[NT__TYPE_TEXT];
        nt__trace_fail(site, what,
                       "tensor 0 is %s and tensor %d is %s: element types and all axes but axis %d must agree",
                       nt__type_text(first->type, one), i, nt__type_text(node->type, other), *at);
        return false;
    }
    return true;
}

nt_tensor nt_concatenate_at(const nt_tensor *tensors, int count, int64_t axis, nt_site site) {
    int at;
    return can_join("concatenate", tensors, count, axis, &at, site) ? join(tensors, count, at, site) : nt__failed();
}

nt_tensor nt_stack_at(const nt_tensor *tensors, int count, int64_t axis, nt_site site) {
    if (count < 1 || !tensors) return nt__trace_fail(site, "stack", "needs at least one tensor");
    nt_tensor *thin = nt__trace_alloc(site, "stack", (size_t)count, sizeof *thin);
    const nt__node *first = nt__node_of(tensors[0], site, "stack");
    if (!thin || !first) return nt__failed();
    for (int i = 0; i < count; i++) {
        const nt__node *node = nt__node_of(tensors[i], site, "stack");
        char one[NT__TYPE_TEXT], other[NT__TYPE_TEXT];
        if (!node) return nt__failed();
        if (!nt__type_equal(first->type, node->type))
            return nt__trace_fail(site, "stack", "tensor 0 is %s and tensor %d is %s: all must have one type and shape",
                                  nt__type_text(first->type, one), i, nt__type_text(node->type, other));
        thin[i] = nt_expand_at(tensors[i], axis, site);
    }
    return nt_concatenate_at(thin, count, axis, site);
}

/* ---- cutting ---------------------------------------------------------------------------------------------------- */

nt_tensor nt_range_at(nt_tensor x, int64_t axis, int64_t start, int64_t limit, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "range");
    int at;
    if (!node || !nt__axis(site, "range", node->type, axis, &at)) return nt__failed();
    char text[NT__TYPE_TEXT];
    if (start < 0 || limit < start || limit > node->type.shape.dims[at])
        return nt__trace_fail(site, "range", "axis %d of %s has no range from %lld to %lld", at,
                              nt__type_text(node->type, text), (long long)start, (long long)limit);
    return range_of(x, at, start, limit, site);
}

void nt_parts_at(nt_tensor x, int64_t axis, int64_t parts, nt_tensor *out, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "parts");
    int at;
    if (!nt__trace_given(out, site, "parts", "out")) return;
    for (int64_t i = 0; i < parts; i++) out[i] = nt__failed();
    if (!node || !nt__axis(site, "parts", node->type, axis, &at)) return;
    char text[NT__TYPE_TEXT];
    int64_t size = node->type.shape.dims[at];
    if (parts < 1 || size % parts != 0) {
        nt__trace_fail(site, "parts", "axis %d of %s does not fall into %lld equal parts; nt_range cuts others", at,
                       nt__type_text(node->type, text), (long long)parts);
        return;
    }
    for (int64_t i = 0; i < parts; i++) out[i] = range_of(x, at, i * (size / parts), (i + 1) * (size / parts), site);
}

/* ---- order ------------------------------------------------------------------------------------------------------ */

nt_tensor nt_flip_at(nt_tensor x, nt_shape axes, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "flip");
    bool keep;
    if (!node || !nt__axes(site, "flip", node->type, &axes, &keep)) return nt__failed();
    if (node->op == NT__OP_flip && nt_shape_equal(node->attributes.lists[0], axes))
        return nt__tensor_of(node->operands[0]);
    return nt__emit(NT__OP_flip, site, (nt__type){0}, 1, &x, &(nt__attributes){.lists = {axes}});
}

void nt__gradient_flip(const nt__backward *b, nt_tensor *out) {
    nt_shape axes = b->node->attributes.lists[0];
    out[0] = axes.rank ? nt_flip_at(b->cotangent, axes, b->site) : b->cotangent;
}

nt_tensor nt_roll_at(nt_tensor x, int64_t shift, int64_t axis, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "roll");
    int at;
    if (!node || !nt__axis(site, "roll", node->type, axis, &at)) return nt__failed();
    int64_t size = node->type.shape.dims[at];
    if (size == 0 || shift % size == 0) return x;
    int64_t cut = size - (shift % size + size) % size;
    nt_tensor parts[] = {range_of(x, at, cut, size, site), range_of(x, at, 0, cut, site)};
    return nt_concatenate_at(parts, 2, at, site);
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */

/* x with `copies` along an axis: of the axis as a whole one after the other, or of each of its elements. */
static nt_tensor copy_axis(const char *what, nt_tensor x, int axis, int64_t copies, bool each, nt_site site) {
    nt__type type = {nt_dtype_of(x), nt_shape_of(x)};
    int64_t before = 1, after = 1;
    for (int i = 0; i < type.shape.rank; i++) *(i < axis + each ? &before : &after) *= type.shape.dims[i];
    char text[NT__TYPE_TEXT];
    int64_t size;
    if (copies < 0 || __builtin_mul_overflow(type.shape.dims[axis], copies, &size))
        return nt__trace_fail(site, what, "%lld copies along axis %d of %s are not possible", (long long)copies, axis,
                              nt__type_text(type, text));
    type.shape.dims[axis] = size;
    if (!nt__type_possible(site, what, type)) return nt__failed();
    nt_tensor thin = nt_reshape_at(x, nt_dims(before, 1, after), site);
    return nt_reshape_at(nt_broadcast_at(thin, nt_dims(before, copies, after), site), type.shape, site);
}

nt_tensor nt_tile_at(nt_tensor x, nt_shape repeats, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "tile");
    if (!node) return nt__failed();
    char text[NT__TYPE_TEXT], list[NT__TYPE_TEXT];
    if (repeats.rank != node->type.shape.rank)
        return nt__trace_fail(site, "tile", "%s needs one number of copies for each axis, got %s",
                              nt__type_text(node->type, text), nt__shape_text(repeats, list));
    for (int i = 0; i < repeats.rank; i++)
        if (repeats.dims[i] != 1) x = copy_axis("tile", x, i, repeats.dims[i], false, site);
    return x;
}

nt_tensor nt_repeat_at(nt_tensor x, int64_t repeats, int64_t axis, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "repeat");
    int at;
    if (!node || !nt__axis(site, "repeat", node->type, axis, &at)) return nt__failed();
    return copy_axis("repeat", x, at, repeats, true, site);
}

/* ---- borders ---------------------------------------------------------------------------------------------------- */

typedef nt_tensor border(nt_tensor x, int axis, int64_t width, bool high, nt_site site);

/* The element at the end, as often as the border is wide. */
static nt_tensor edge(nt_tensor x, int axis, int64_t width, bool high, nt_site site) {
    int64_t at = high ? nt_shape_of(x).dims[axis] - 1 : 0;
    return copy_axis("pad_edge", range_of(x, axis, at, at + 1, site), axis, width, true, site);
}

/* The elements next to the one at the end, in the other order. */
static nt_tensor mirror(nt_tensor x, int axis, int64_t width, bool high, nt_site site) {
    int64_t start = high ? nt_shape_of(x).dims[axis] - 1 - width : 1;
    return nt_flip_at(range_of(x, axis, start, start + width, site), nt_dims(axis), site);
}

/* `spare` is how many elements of an axis its border cannot be made of. */
static bool borders_fit(const char *what, nt__type type, nt_shape low, nt_shape high, int64_t spare, nt_site site) {
    bool right = low.rank == type.shape.rank && high.rank == type.shape.rank;
    for (int i = 0; right && i < type.shape.rank; i++) {
        int64_t size = type.shape.dims[i], widest = low.dims[i] > high.dims[i] ? low.dims[i] : high.dims[i];
        right = low.dims[i] >= 0 && high.dims[i] >= 0 && (widest == 0 || (spare ? widest <= size - spare : size > 0));
    }
    if (right) return true;
    char text[NT__TYPE_TEXT], before[NT__TYPE_TEXT], after[NT__TYPE_TEXT];
    nt__trace_fail(site, what, "%s has no border of %s before and %s after: one number from 0 for each axis%s",
                   nt__type_text(type, text), nt__shape_text(low, before), nt__shape_text(high, after),
                   spare ? ", below its size" : ", and an empty axis has no edge");
    return false;
}

static nt_tensor with_borders(nt_tensor x, nt_shape low, nt_shape high, border *make, nt_site site) {
    for (int i = 0; i < low.rank; i++) {
        nt_tensor parts[3];
        int count = 0;
        if (low.dims[i]) parts[count++] = make(x, i, low.dims[i], false, site);
        parts[count++] = x;
        if (high.dims[i]) parts[count++] = make(x, i, high.dims[i], true, site);
        if (count > 1) x = nt_concatenate_at(parts, count, i, site);
    }
    return x;
}

nt_tensor nt_pad_edge_at(nt_tensor x, nt_shape low, nt_shape high, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "pad_edge");
    if (!node || !borders_fit("pad_edge", node->type, low, high, 0, site)) return nt__failed();
    return with_borders(x, low, high, edge, site);
}

nt_tensor nt_pad_reflect_at(nt_tensor x, nt_shape low, nt_shape high, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "pad_reflect");
    if (!node || !borders_fit("pad_reflect", node->type, low, high, 1, site)) return nt__failed();
    return with_borders(x, low, high, mirror, site);
}

/* ---- triangles -------------------------------------------------------------------------------------------------- */

nt_tensor nt_triangle_at(int64_t rows, int64_t columns, int64_t diagonal, nt_site site) {
    nt_shape shape = nt_dims(rows, columns);
    nt_tensor row = nt_iota_at(NT_I64, shape, 0, site), column = nt_iota_at(NT_I64, shape, 1, site);
    return nt_less_equal_at(nt_sub_at(column, row, site), nt_tensor_number((double)diagonal), site);
}

static nt_tensor triangle_of(const char *what, nt_tensor x, int64_t diagonal, bool upper, nt_site site) {
    const nt__node *node = nt__node_of(x, site, what);
    if (!node || !nt__type_numeric(site, what, node->type)) return nt__failed();
    char text[NT__TYPE_TEXT];
    int rank = node->type.shape.rank;
    if (rank < 2)
        return nt__trace_fail(site, what, "needs a matrix in the last two axes, got %s",
                              nt__type_text(node->type, text));
    const int64_t *sizes = &node->type.shape.dims[rank - 2];
    nt_tensor lower = nt_triangle_at(sizes[0], sizes[1], upper ? diagonal - 1 : diagonal, site),
              zero = nt_tensor_number(0);
    return upper ? nt_where_at(lower, zero, x, site) : nt_where_at(lower, x, zero, site);
}

nt_tensor nt_lower_triangle_at(nt_tensor x, int64_t diagonal, nt_site site) {
    return triangle_of("lower_triangle", x, diagonal, false, site);
}

nt_tensor nt_upper_triangle_at(nt_tensor x, int64_t diagonal, nt_site site) {
    return triangle_of("upper_triangle", x, diagonal, true, site);
}
