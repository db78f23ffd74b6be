/* Reductions over axes, and what is made of them: mean, softmax. */
#include <math.h>

#include "graph/node.h"

static bool refuse_axes(nt_site site, const char *what, nt__type type, nt_shape axes) {
    char text[NT__TYPE_TEXT], list[NT__TYPE_TEXT];
    nt__trace_fail(site, what, "%s: the axes %s must be different ones", nt__type_text(type, text),
                   nt__shape_text(axes, list));
    return false;
}

/* The axes sorted, negative ones resolved, all of them when the list is empty. False after keeping an error. */
static bool resolve_axes(nt_site site, const char *what, nt__type type, nt_shape *axes) {
    bool all = axes->rank == 0, chosen[NT_MAX_RANK] = {0};
    if (axes->rank > NT_MAX_RANK) return refuse_axes(site, what, type, *axes);
    for (int i = 0; i < axes->rank; i++) {
        int axis;
        if (!nt__axis(site, what, type, axes->dims[i], &axis)) return false;
        if (chosen[axis]) return refuse_axes(site, what, type, *axes);
        chosen[axis] = true;
    }
    axes->rank = 0;
    for (int i = 0; i < type.shape.rank; i++)
        if (all || chosen[i]) axes->dims[axes->rank++] = i;
    return true;
}

static nt_tensor reduce(nt__op op, nt__reducer reducer, nt_tensor x, nt_shape axes, double start, nt_site site) {
    const char *what = nt__operations[op].name;
    const nt__node *node = nt__node_of(x, site, what);
    if (!node || !nt__type_numeric(site, what, node->type) || !resolve_axes(site, what, node->type, &axes))
        return nt__failed();
    if (axes.rank == 0) return x;
    nt_tensor operands[] = {x, nt__filled(what, (nt__type){node->type.dtype, {0}}, start, site)};
    return nt__emit(op, site, (nt__type){0}, 2, operands, &(nt__attributes){.lists = {axes}, .choice = reducer});
}

bool nt__shape_reduce(nt__node *node) {
    nt_shape from = node->operands[0]->type.shape, axes = node->attributes.lists[0];
    node->type = (nt__type){node->operands[0]->type.dtype, {0}};
    for (int i = 0, next = 0; i < from.rank; i++) {
        if (next < axes.rank && axes.dims[next] == i)
            next++;
        else
            node->type.shape.dims[node->type.shape.rank++] = from.dims[i];
    }
    return true;
}

/* The shape of a reduction's operand with size 1 along the reduced axes. */
static nt_shape kept_shape(const nt__node *node) {
    nt_shape shape = node->operands[0]->type.shape, axes = node->attributes.lists[0];
    for (int i = 0; i < axes.rank; i++) shape.dims[axes.dims[i]] = 1;
    return shape;
}

static nt_tensor stretch_back(const nt__backward *b, nt_tensor x) {
    nt_tensor kept = nt_reshape_at(x, kept_shape(b->node), b->site);
    return nt_broadcast_at(kept, b->node->operands[0]->type.shape, b->site);
}

nt_tensor nt_sum_at(nt_tensor x, nt_shape axes, nt_site site) {
    return reduce(NT__OP_sum, NT__ADD, x, axes, 0, site);
}

void nt__gradient_sum(const nt__backward *b, nt_tensor *out) {
    out[0] = stretch_back(b, b->cotangent);
}

nt_tensor nt_mean_at(nt_tensor x, nt_shape axes, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "mean");
    if (!node || !nt__type_floating(site, "mean", node->type) || !resolve_axes(site, "mean", node->type, &axes))
        return nt__failed();
    double number = 1;
    for (int i = 0; i < axes.rank; i++) number *= (double)node->type.shape.dims[axes.dims[i]];
    return nt_div_at(nt_sum_at(x, axes, site), nt_tensor_number(number), site);
}

/* What a maximum starts from: the identity of max in the type. */
static double lowest(nt_dtype dtype) {
    if (nt_dtype_is_float(dtype)) return -HUGE_VAL;
    char element[8];
    nt__element_set(dtype, element, -HUGE_VAL);
    return nt__element_get(dtype, element);
}

nt_tensor nt_reduce_max_at(nt_tensor x, nt_shape axes, nt_site site) {
    nt_dtype dtype = nt_dtype_of(x);
    nt__reducer reducer = nt_dtype_is_float(dtype) ? NT__MAXIMUM_OR_NAN : NT__MAXIMUM;
    return reduce(NT__OP_reduce_max, reducer, x, axes, lowest(dtype), site);
}

void nt__gradient_reduce_max(const nt__backward *b, nt_tensor *out) {
    nt_dtype dtype = nt_dtype_of(b->cotangent);
    nt_tensor largest = nt_convert_at(nt_equal_at(b->operands[0], stretch_back(b, b->value), b->site), dtype, b->site);
    nt_tensor number = nt_sum_at(largest, b->node->attributes.lists[0], b->site);
    nt_tensor each = nt_div_at(b->cotangent, number, b->site);
    out[0] = nt_mul_at(stretch_back(b, each), largest, b->site);
}

/* ---- softmax: along the last axis ------------------------------------------------------------------------------- */

static bool has_last_axis(const char *what, nt_tensor x, nt_site site) {
    const nt__node *node = nt__node_of(x, site, what);
    int last;
    return node && nt__type_floating(site, what, node->type) && nt__axis(site, what, node->type, -1, &last);
}

/* What a reduction of x along its last axis gave, with that axis as size 1. */
static nt_tensor with_last_axis(nt_tensor x, nt_tensor reduced, nt_site site) {
    nt_shape kept = nt_shape_of(x);
    kept.dims[kept.rank - 1] = 1;
    return nt_reshape_at(reduced, kept, site);
}

/* x minus its largest. The shift carries no gradient, for it cancels, and needs not keep nan, for x does. */
static nt_tensor shifted(nt_tensor x, nt_site site) {
    nt_tensor largest = reduce(NT__OP_reduce_max, NT__MAXIMUM, x, nt_dims(-1), -HUGE_VAL, site);
    return nt_sub_at(x, with_last_axis(x, nt_stop_gradient_at(largest, site), site), site);
}

static nt_tensor sum_kept(nt_tensor x, nt_site site) {
    return with_last_axis(x, nt_sum_at(x, nt_dims(-1), site), site);
}

nt_tensor nt_log_softmax_at(nt_tensor x, nt_site site) {
    if (!has_last_axis("log_softmax", x, site)) return nt__failed();
    nt_tensor z = shifted(x, site);
    return nt_sub_at(z, nt_log_at(sum_kept(nt_exp_at(z, site), site), site), site);
}

nt_tensor nt_softmax_at(nt_tensor x, nt_site site) {
    if (!has_last_axis("softmax", x, site)) return nt__failed();
    nt_tensor e = nt_exp_at(shifted(x, site), site);
    return nt_div_at(e, sum_kept(e, site), site);
}
