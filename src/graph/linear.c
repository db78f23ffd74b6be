/* Matrix products: one general contraction (dot) and numpy's matmul and outer over it; norms.
 * Not here: Einstein summation (einsum.c).
 */
#include <stdio.h>

#include "graph/emit.h"

/* Attribute lists of dot: batch axes of a, of b, contracting axes of a, of b. Result axes: batch, then the free axes of
 * a, then of b. */
enum { BATCH_A, BATCH_B, CONTRACT_A, CONTRACT_B };

static bool contains(nt_shape list, int axis) {
    for (int i = 0; i < list.rank; i++)
        if (list.dims[i] == axis) return true;
    return false;
}

static nt_shape free_axes(nt_shape shape, nt_shape batch, nt_shape contract) {
    nt_shape free = {0};
    for (int i = 0; i < shape.rank; i++)
        if (!contains(batch, i) && !contains(contract, i)) free.dims[free.rank++] = i;
    return free;
}

nt_tensor nt__dot(nt_tensor a, nt_tensor b, const nt_shape lists[4], nt_site site) {
    nt_tensor operands[] = {a, b};
    return nt__emit(NT__OP_dot, site, (nt__type){0}, 2, operands,
                    &(nt__attributes){.lists = {lists[0], lists[1], lists[2], lists[3]}});
}

bool nt__shape_dot(nt__node *node) {
    const nt_shape *lists = node->attributes.lists;
    nt__type a = node->operands[0]->type, b = node->operands[1]->type;
    nt_shape free_a = free_axes(a.shape, lists[BATCH_A], lists[CONTRACT_A]);
    nt_shape free_b = free_axes(b.shape, lists[BATCH_B], lists[CONTRACT_B]);
    node->type = (nt__type){a.dtype, {0}};
    nt_shape *out = &node->type.shape;
    for (int i = 0; i < lists[BATCH_A].rank; i++) out->dims[out->rank++] = a.shape.dims[lists[BATCH_A].dims[i]];
    for (int i = 0; i < free_a.rank; i++) out->dims[out->rank++] = a.shape.dims[free_a.dims[i]];
    for (int i = 0; i < free_b.rank; i++) out->dims[out->rank++] = b.shape.dims[free_b.dims[i]];
    return true;
}

static nt_shape range(int first, int count) {
    nt_shape list = {.rank = count};
    for (int i = 0; i < count; i++) list.dims[i] = first + i;
    return list;
}

/* Where the axes of a product stand in an operand, whose batch axes come first in the product. */
static nt_shape places(nt_shape batch, nt_shape second, nt_shape third) {
    nt_shape places = {0};
    const nt_shape *parts[] = {&batch, &second, &third};
    for (int part = 0; part < 3; part++)
        for (int i = 0; i < parts[part]->rank; i++) places.dims[places.rank++] = parts[part]->dims[i];
    return places;
}

/* The contracted axes of one operand in the order in which they stand in the other. */
static nt_shape in_order_of(nt_shape contract, nt_shape other_contract) {
    nt_shape sorted = {.rank = contract.rank};
    for (int i = 0; i < contract.rank; i++) {
        int rank = 0;
        for (int j = 0; j < contract.rank; j++) rank += other_contract.dims[j] < other_contract.dims[i];
        sorted.dims[rank] = contract.dims[i];
    }
    return sorted;
}

static bool is_ascending(nt_shape axes) {
    for (int i = 0; i < axes.rank; i++)
        if (axes.dims[i] != i) return false;
    return true;
}

static nt_tensor put_in_places(nt_tensor product, nt_shape places, nt_site site) {
    nt_shape order = {.rank = places.rank};
    for (int i = 0; i < places.rank; i++) order.dims[places.dims[i]] = i;
    return nt_transpose_at(product, order, site);
}

bool nt__dot_sums_rows(const nt__node *node) {
    const nt_shape *lists = node->attributes.lists;
    return node->op == NT__OP_dot && lists[BATCH_A].rank == 0 && lists[CONTRACT_A].rank == 1 &&
           lists[CONTRACT_A].dims[0] == 0 && lists[CONTRACT_B].dims[0] == 0;
}

static nt_tensor rows_of(nt_tensor x, nt_site site) {
    nt_shape shape = nt_shape_of(x), rows = {.rank = shape.rank - 1};
    for (int i = 0; i < rows.rank; i++) rows.dims[i] = shape.dims[i + 1];
    rows.dims[0] *= shape.dims[0];
    return nt_reshape_at(x, rows, site);
}

nt_tensor nt__dot_of_rows(nt_tensor a, nt_tensor b, nt_site site) {
    return nt__dot(rows_of(a, site), rows_of(b, site), (nt_shape[4]){{0}, {0}, range(0, 1), range(0, 1)}, site);
}

/* A factor of a cotangent: a tensor of the product's gradient, and its axes there. */
typedef struct factor {
    nt_tensor value;
    nt_shape batch, contract;
} factor;

/* Whether the contracted axes are the last ones, one after the other. */
static bool contracts_last(const factor *f) {
    int first = nt_rank(f->value) - f->contract.rank;
    for (int i = 0; i < f->contract.rank; i++)
        if (f->contract.dims[i] != first + i) return false;
    return true;
}

/* About how many elements the engine moves one by one besides multiplying: it packs a first factor that way where it is
 * contracted over another axis than its last, and the product where its axes are not in `order`, with strides. */
static double moved(const factor *first, nt_shape order, nt_shape own) {
    double packed = contracts_last(first) ? 0 : (double)nt_shape_elements(nt_shape_of(first->value));
    return packed + (is_ascending(order) ? 0 : 2 * (double)nt_shape_elements(own));
}

/* Without the barrier the engine would take the factors in the other order and leave the transpose out. */
static nt_tensor multiply(const factor *first, const factor *second, nt_shape order, nt_site site) {
    nt_tensor product = nt__dot(first->value, second->value,
                                (nt_shape[4]){first->batch, second->batch, first->contract, second->contract}, site);
    if (!is_ascending(order) && !contracts_last(first)) product = nt__computed_once(product, site);
    return put_in_places(product, order, site);
}

/* Cotangent of one operand: contract c with the other operand over the other's free axes, then put the axes in order.
 * `own` and `other` say which operand is which. The product is the same whichever factor comes first, but not the order
 * of its axes, nor the time it takes. */
static nt_tensor dot_cotangent(const nt__backward *b, int own) {
    const nt_shape *lists = b->node->attributes.lists;
    int other = 1 - own;
    nt_shape own_shape = b->node->operands[own]->type.shape, other_shape = b->node->operands[other]->type.shape;
    nt_shape own_batch = lists[BATCH_A + own], other_batch = lists[BATCH_A + other];
    nt_shape own_contract = lists[CONTRACT_A + own], other_contract = lists[CONTRACT_A + other];
    nt_shape own_free = free_axes(own_shape, own_batch, own_contract);
    nt_shape other_free = free_axes(other_shape, other_batch, other_contract);
    nt_shape contracted = in_order_of(own_contract, other_contract);
    int batch = own_batch.rank;
    /* In c the free axes of a come before those of b. */
    int place = batch + (own == 0 ? own_free.rank : 0);
    factor c = {b->cotangent, range(0, batch), range(place, other_free.rank)};
    factor operand = {b->operands[other], other_batch, other_free};
    nt_shape order = places(own_batch, own_free, contracted), swapped = places(own_batch, contracted, own_free);
    if (moved(&operand, swapped, own_shape) <= moved(&c, order, own_shape))
        return multiply(&operand, &c, swapped, b->site);
    return multiply(&c, &operand, order, b->site);
}

void nt__gradient_dot(const nt__backward *b, nt_tensor *out) {
    for (int i = 0; i < 2; i++)
        if (b->wanted[i]) out[i] = dot_cotangent(b, i);
}

static const char types_differ[] = "element types differ; nt_convert makes them equal";

/* ---- matmul ----------------------------------------------------------------------------------------------------- */

/* Leading axes of both, broadcast against each other; false when they do not. */
static bool batch_shape(nt_shape a, nt_shape b, nt_shape *out) {
    int rank_a = a.rank - 2, rank_b = b.rank - 2;
    out->rank = rank_a > rank_b ? rank_a : rank_b;
    for (int i = 0; i < out->rank; i++) {
        int64_t size_a = i < out->rank - rank_a ? 1 : a.dims[i - (out->rank - rank_a)];
        int64_t size_b = i < out->rank - rank_b ? 1 : b.dims[i - (out->rank - rank_b)];
        if (size_a != size_b && size_a != 1 && size_b != 1) return false;
        out->dims[i] = size_a == 1 ? size_b : size_a;
    }
    return true;
}

static nt_tensor refuse(nt_site site, const char *what, nt__type a, nt__type b, const char *why) {
    char text_a[NT__TYPE_TEXT], text_b[NT__TYPE_TEXT];
    return nt__trace_fail(site, what, "%s x %s: %s", nt__type_text(a, text_a), nt__type_text(b, text_b), why);
}

static nt_tensor refuse_inner(nt_site site, nt__type a, nt__type b, int64_t inner_a, int64_t inner_b) {
    char why[80];
    snprintf(why, sizeof why, "inner sizes %lld and %lld differ", (long long)inner_a, (long long)inner_b);
    return refuse(site, "matmul", a, b, why);
}

static nt_tensor with_batch(nt_tensor x, nt_shape batch, nt_site site) {
    nt_shape own = nt_shape_of(x), shape = batch;
    shape.dims[shape.rank++] = own.dims[own.rank - 2];
    shape.dims[shape.rank++] = own.dims[own.rank - 1];
    return nt_broadcast_at(x, shape, site);
}

/* Of two tensors with at least two axes each. */
static nt_tensor product(nt_tensor a, nt_tensor b, nt_shape batch, nt_site site) {
    int rank = batch.rank;
    if (nt_rank(b) > 2)
        return nt__dot(with_batch(a, batch, site), with_batch(b, batch, site),
                       (nt_shape[4]){range(0, rank), range(0, rank), range(rank + 1, 1), range(rank, 1)}, site);
    /* A matrix on the right serves all batches in one product of two matrices. Where the leading axes stay apart, the
     * engine does not see that the gradient of the matrix is one too. */
    nt_shape shape = nt_shape_of(a), rows = nt_dims(1, shape.dims[shape.rank - 1]);
    for (int i = 0; i < shape.rank - 1; i++) rows.dims[0] *= shape.dims[i];
    nt_tensor y = nt__dot(nt_reshape_at(a, rows, site), b, (nt_shape[4]){{0}, {0}, range(1, 1), range(0, 1)}, site);
    shape.dims[shape.rank - 1] = nt_shape_of(b).dims[1];
    return nt_reshape_at(y, shape, site);
}

/* A vector on the left is a matrix of one row, one on the right a matrix of one column. */
static nt_shape as_matrix(nt_shape shape, bool left) {
    if (shape.rank > 1) return shape;
    return left ? nt_dims(1, shape.dims[0]) : nt_dims(shape.dims[0], 1);
}

nt_tensor nt_matmul_at(nt_tensor a, nt_tensor b, nt_site site) {
    const nt__node *left = nt__node_of(a, site, "matmul"), *right = nt__node_of(b, site, "matmul");
    if (!left || !right || !nt__type_adds_up(site, "matmul", left->type)) return nt__failed();
    nt__type type_a = left->type, type_b = right->type;
    if (type_a.shape.rank == 0 || type_b.shape.rank == 0)
        return refuse(site, "matmul", type_a, type_b, "a scalar has no axis to contract; nt_mul multiplies by one");
    if (type_a.dtype != type_b.dtype) return refuse(site, "matmul", type_a, type_b, types_differ);
    nt_shape shape_a = as_matrix(type_a.shape, true), shape_b = as_matrix(type_b.shape, false), batch = {0};
    int64_t inner_a = shape_a.dims[shape_a.rank - 1], inner_b = shape_b.dims[shape_b.rank - 2];
    if (inner_a != inner_b) return refuse_inner(site, type_a, type_b, inner_a, inner_b);
    if (!batch_shape(shape_a, shape_b, &batch))
        return refuse(site, "matmul", type_a, type_b, "the leading axes do not broadcast: sizes must be equal or 1");
    nt_tensor y = product(nt_reshape_at(a, shape_a, site), nt_reshape_at(b, shape_b, site), batch, site);
    /* The axis that a vector lacks is not in the result. */
    nt_shape result = batch;
    if (type_a.shape.rank > 1) result.dims[result.rank++] = shape_a.dims[shape_a.rank - 2];
    if (type_b.shape.rank > 1) result.dims[result.rank++] = shape_b.dims[shape_b.rank - 1];
    return nt_reshape_at(y, result, site);
}

/* ---- outer product ---------------------------------------------------------------------------------------------- */

nt_tensor nt_outer_at(nt_tensor a, nt_tensor b, nt_site site) {
    const nt__node *left = nt__node_of(a, site, "outer"), *right = nt__node_of(b, site, "outer");
    if (!left || !right || !nt__type_numeric(site, "outer", left->type)) return nt__failed();
    if (left->type.shape.rank != 1 || right->type.shape.rank != 1)
        return refuse(site, "outer", left->type, right->type, "needs two vectors; nt_einsum multiplies other shapes");
    if (left->type.dtype != right->type.dtype) return refuse(site, "outer", left->type, right->type, types_differ);
    return nt__dot(a, b, (nt_shape[4]){{0}}, site);
}

/* ---- norms ------------------------------------------------------------------------------------------------------ */

static bool has_norm(const char *what, nt_tensor x, nt_site site) {
    const nt__node *node = nt__node_of(x, site, what);
    return node && nt__type_floating(site, what, node->type);
}

/* The derivative of the root at 0 is infinite, and 0 times it is nan: both choices keep it out. */
nt_tensor nt_norm_at(nt_tensor x, nt_shape axes, nt_site site) {
    if (!has_norm("norm", x, site)) return nt__failed();
    nt_tensor zero = nt_tensor_number(0), one = nt_tensor_number(1);
    nt_tensor squares = nt_sum_at(nt_square_at(nt__widened(x, site), site), axes, site);
    nt_tensor at_zero = nt_equal_at(squares, zero, site);
    nt_tensor root = nt_sqrt_at(nt_where_at(at_zero, one, squares, site), site);
    return nt_convert_at(nt_where_at(at_zero, zero, root, site), nt_dtype_of(x), site);
}

nt_tensor nt_norm1_at(nt_tensor x, nt_shape axes, nt_site site) {
    return has_norm("norm1", x, site) ? nt_sum_at(nt_abs_at(x, site), axes, site) : nt__failed();
}

/* The largest of no elements is -infinity, and a norm is not negative. */
nt_tensor nt_norm_max_at(nt_tensor x, nt_shape axes, nt_site site) {
    if (!has_norm("norm_max", x, site)) return nt__failed();
    return nt_relu_at(nt_reduce_max_at(nt_abs_at(x, site), axes, site), site);
}
