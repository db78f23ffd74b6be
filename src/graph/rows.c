/* Where the rows of a batch lie in each value of a trace, to tell whether a row of the outputs depends on other rows of
 * the batch. Whatever a rule does not follow counts as mixed, so an answer that rows are apart is sure.
 */
#include <string.h>

#include "graph/region.h"

typedef struct search {
    nt__row_axis *rows; /* one a node, by its id; zeros: mixed */
    int role;
} search;

static const nt__row_axis mixed = {NT__ROWS_MIXED, 0, 0, 0}, none = {NT__ROWS_NONE, 0, 0, 0};

static nt__row_axis along(nt__row_axis from, int axis) {
    from.axis = axis;
    return from;
}

static bool is_same(nt__row_axis a, nt__row_axis b) {
    bool same = a.kind == b.kind;
    return same && (a.kind != NT__ROWS_ALONG || (a.axis == b.axis && a.outer == b.outer && a.inner == b.inner));
}

/* Of a value whose elements are made of one element of each. */
static nt__row_axis join(nt__row_axis a, nt__row_axis b) {
    if (a.kind == NT__ROWS_NONE) return b;
    return b.kind == NT__ROWS_NONE || is_same(a, b) ? a : mixed;
}

static bool contains(nt_shape list, int axis) {
    for (int i = 0; i < list.rank; i++)
        if (list.dims[i] == axis) return true;
    return false;
}

/* Entries of the list that are below the axis. */
static int count_below(nt_shape list, int axis) {
    int count = 0;
    for (int i = 0; i < list.rank; i++) count += list.dims[i] < axis;
    return count;
}

static int place_in(nt_shape list, int64_t entry) {
    int i = 0;
    while (i < list.rank && list.dims[i] != entry) i++;
    return i;
}

/* ---- elements --------------------------------------------------------------------------------------------------- */

nt__row_axis nt__track_mixed(const nt__node *node, const nt__row_axis *operands) {
    (void)node, (void)operands;
    return mixed;
}

nt__row_axis nt__track_none(const nt__node *node, const nt__row_axis *operands) {
    (void)node, (void)operands;
    return none;
}

nt__row_axis nt__track_first(const nt__node *node, const nt__row_axis *operands) {
    (void)node;
    return operands[0];
}

nt__row_axis nt__track_elementwise(const nt__node *node, const nt__row_axis *operands) {
    nt__row_axis rows = none;
    for (int i = 0; i < node->operand_count; i++) {
        bool fits = nt_shape_equal(node->operands[i]->type.shape, node->type.shape);
        rows = join(rows, fits || operands[i].kind == NT__ROWS_NONE ? operands[i] : mixed);
    }
    return rows;
}

/* Of operands from `first` on that are scalars beside the tensors. */
static bool are_none(const nt__node *node, const nt__row_axis *operands, int first) {
    for (int i = first; i < node->operand_count; i++)
        if (operands[i].kind != NT__ROWS_NONE) return false;
    return true;
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

/* In the order of elements the rows have `before` parts in front of them and as many elements after as there are
 * left: the axis of the new shape that has all of them is looked for. */
nt__row_axis nt__track_reshape(const nt__node *node, const nt__row_axis *operands) {
    nt__row_axis rows = operands[0];
    nt_shape from = node->operands[0]->type.shape, to = node->type.shape;
    if (rows.kind != NT__ROWS_ALONG) return rows;
    int64_t count = from.dims[rows.axis] / (rows.outer * rows.inner), before = rows.outer, parts = 1;
    for (int i = 0; i < rows.axis; i++) before *= from.dims[i];
    for (int i = 0; i < to.rank && parts > 0; parts *= to.dims[i++]) {
        int64_t outer = before / parts;
        if (before % parts == 0 && to.dims[i] > 0 && to.dims[i] % (outer * count) == 0)
            return (nt__row_axis){NT__ROWS_ALONG, i, outer, to.dims[i] / (outer * count)};
    }
    return mixed;
}

nt__row_axis nt__track_transpose(const nt__node *node, const nt__row_axis *operands) {
    nt__row_axis rows = operands[0];
    return rows.kind == NT__ROWS_ALONG ? along(rows, place_in(node->attributes.lists[0], rows.axis)) : rows;
}

nt__row_axis nt__track_broadcast(const nt__node *node, const nt__row_axis *operands) {
    nt__row_axis rows = operands[0];
    if (rows.kind != NT__ROWS_ALONG) return rows;
    int axis = (int)node->attributes.lists[0].dims[rows.axis];
    bool kept = node->type.shape.dims[axis] == node->operands[0]->type.shape.dims[rows.axis];
    return kept ? along(rows, axis) : mixed;
}

/* Of operations that leave the axis of the rows alone where it keeps its size. */
static nt__row_axis if_whole(const nt__node *node, nt__row_axis rows) {
    bool whole = rows.kind != NT__ROWS_ALONG ||
                 node->type.shape.dims[rows.axis] == node->operands[0]->type.shape.dims[rows.axis];
    return whole ? rows : mixed;
}

nt__row_axis nt__track_slice(const nt__node *node, const nt__row_axis *operands) {
    return if_whole(node, operands[0]);
}

nt__row_axis nt__track_dynamic_slice(const nt__node *node, const nt__row_axis *operands) {
    return are_none(node, operands, 1) ? if_whole(node, operands[0]) : mixed;
}

/* Negative padding cuts, so that an axis may keep its size and have moved. */
nt__row_axis nt__track_pad(const nt__node *node, const nt__row_axis *operands) {
    nt__row_axis rows = operands[0];
    const nt_shape *lists = node->attributes.lists;
    if (!are_none(node, operands, 1)) return mixed;
    if (rows.kind != NT__ROWS_ALONG) return rows;
    bool kept = !lists[0].dims[rows.axis] && !lists[1].dims[rows.axis] && !lists[2].dims[rows.axis];
    return kept ? rows : mixed;
}

/* A block that has all rows, or none of the batch. */
nt__row_axis nt__track_update(const nt__node *node, const nt__row_axis *operands) {
    nt__row_axis block = operands[1];
    const nt__node *whole = node->operands[0], *update = node->operands[1];
    if (!are_none(node, operands, 2)) return mixed;
    if (block.kind == NT__ROWS_ALONG && update->type.shape.dims[block.axis] != whole->type.shape.dims[block.axis])
        return mixed;
    return join(operands[0], block);
}

nt__row_axis nt__track_concatenate(const nt__node *node, const nt__row_axis *operands) {
    nt__row_axis rows = none;
    for (int i = 0; i < node->operand_count; i++) rows = join(rows, operands[i]);
    return rows.kind == NT__ROWS_ALONG && rows.axis == node->attributes.choice ? mixed : rows;
}

static nt__row_axis unless_listed(nt_shape axes, nt__row_axis rows) {
    return rows.kind == NT__ROWS_ALONG && contains(axes, rows.axis) ? mixed : rows;
}

nt__row_axis nt__track_flip(const nt__node *node, const nt__row_axis *operands) {
    return unless_listed(node->attributes.lists[0], operands[0]);
}

/* ---- indices ---------------------------------------------------------------------------------------------------- */

enum { WINDOW, BATCHING, INDEXED }; /* as in index.c */

/* The axis of the result that an axis of x is, which is not the indexed one. */
static int axis_of_slice(const nt__node *node, int axis) {
    const nt_shape *lists = node->attributes.lists;
    return (int)lists[WINDOW].dims[axis - (axis > lists[INDEXED].dims[0])];
}

/* That of the index's axis: those that are no axes of a slice, in order. */
static int axis_of_index(const nt__node *node, int rank, int axis) {
    for (int i = 0; i < rank; i++)
        if (!contains(node->attributes.lists[WINDOW], i) && axis-- == 0) return i;
    return rank;
}

/* Whole slices: of a table by the rows' indices, or of all rows at the same ones. */
static nt__row_axis gather_slices(const nt__node *node, nt__row_axis x, nt__row_axis indices) {
    if (indices.kind == NT__ROWS_MIXED) return mixed;
    if (x.kind == NT__ROWS_NONE && indices.kind == NT__ROWS_ALONG)
        return along(indices, axis_of_index(node, node->type.shape.rank, indices.axis));
    if (x.kind != NT__ROWS_ALONG) return x;
    if (indices.kind != NT__ROWS_NONE) return mixed;
    bool is_indexed = x.axis == node->attributes.lists[INDEXED].dims[0];
    return is_indexed ? mixed : along(x, axis_of_slice(node, x.axis));
}

static bool goes_along(const nt__node *node) {
    return node->attributes.lists[BATCHING].rank > 0;
}

nt__row_axis nt__track_gather(const nt__node *node, const nt__row_axis *operands) {
    nt__row_axis x = operands[0], indices = operands[1];
    if (!goes_along(node)) return gather_slices(node, x, indices);
    return join(unless_listed(node->attributes.lists[INDEXED], x), indices);
}

nt__row_axis nt__track_scatter(const nt__node *node, const nt__row_axis *operands) {
    nt__row_axis x = operands[0], indices = operands[1], updates = operands[2];
    nt_shape indexed = node->attributes.lists[INDEXED];
    if (goes_along(node)) return unless_listed(indexed, join(x, join(indices, updates)));
    if (indices.kind != NT__ROWS_NONE) return mixed;
    for (int axis = 0; updates.kind == NT__ROWS_ALONG && axis < node->type.shape.rank; axis++)
        if (!contains(indexed, axis) && axis_of_slice(node, axis) == updates.axis)
            return unless_listed(indexed, join(x, along(updates, axis)));
    return updates.kind == NT__ROWS_NONE ? unless_listed(indexed, x) : mixed;
}

nt__row_axis nt__track_sort(const nt__node *node, const nt__row_axis *operands) {
    return unless_listed(node->attributes.lists[0], nt__track_elementwise(node, operands));
}

nt__row_axis nt__track_top_k(const nt__node *node, const nt__row_axis *operands) {
    return unless_listed(nt_dims(node->type.shape.rank - 1), operands[0]);
}

/* ---- sums ------------------------------------------------------------------------------------------------------- */

nt__row_axis nt__track_reduce(const nt__node *node, const nt__row_axis *operands) {
    nt_shape axes = node->attributes.lists[0];
    nt__row_axis rows = are_none(node, operands, 1) ? unless_listed(axes, operands[0]) : mixed;
    return rows.kind == NT__ROWS_ALONG ? along(rows, rows.axis - count_below(axes, rows.axis)) : rows;
}

/* Of one factor: the axis of the product that has its rows. `before`: free axes of the other factor that come first. */
static nt__row_axis in_product(nt__row_axis rows, nt_shape batch, nt_shape contract, int before) {
    if (rows.kind != NT__ROWS_ALONG) return rows;
    if (contains(contract, rows.axis)) return mixed;
    if (contains(batch, rows.axis)) return along(rows, place_in(batch, rows.axis));
    int free = rows.axis - count_below(batch, rows.axis) - count_below(contract, rows.axis);
    return along(rows, batch.rank + before + free);
}

/* Rows of both factors are one axis of the product only where that is an axis of the batch in both. */
nt__row_axis nt__track_dot(const nt__node *node, const nt__row_axis *operands) {
    const nt_shape *lists = node->attributes.lists;
    int free_a = node->operands[0]->type.shape.rank - lists[0].rank - lists[2].rank;
    return join(in_product(operands[0], lists[0], lists[2], 0), in_product(operands[1], lists[1], lists[3], free_a));
}

nt__row_axis nt__track_conv(const nt__node *node, const nt__row_axis *operands) {
    nt__row_axis rows = operands[0];
    const nt__window *window = node->attributes.window;
    if (operands[1].kind != NT__ROWS_NONE) return mixed;
    if (rows.kind != NT__ROWS_ALONG) return rows;
    bool is_sample = window->x.dims[rows.axis] == NT__SAMPLE;
    return is_sample ? along(rows, place_in(window->result, NT__SAMPLE)) : mixed;
}

nt__row_axis nt__track_window(const nt__node *node, const nt__row_axis *operands) {
    nt__row_axis rows = none;
    const nt__window *w = node->attributes.window;
    for (int i = 0; i < node->operand_count; i++) rows = join(rows, operands[i]);
    if (rows.kind != NT__ROWS_ALONG) return rows;
    bool alone = w->size.dims[rows.axis] == 1 && w->stride.dims[rows.axis] == 1 && !w->low.dims[rows.axis] &&
                 !w->high.dims[rows.axis] && w->base_dilation.dims[rows.axis] == 1;
    return alone ? rows : mixed;
}

/* ---- bodies ----------------------------------------------------------------------------------------------------- */

static void look_at(search *s, const nt__region *region);

static nt__row_axis *rows_of(const search *s, const nt__node *node) {
    return &s->rows[node->id];
}

/* Of one slice along axis 0. */
static nt__row_axis sliced(nt__row_axis rows) {
    if (rows.kind != NT__ROWS_ALONG) return rows;
    return rows.axis == 0 ? mixed : along(rows, rows.axis - 1);
}

static nt__row_axis stacked(nt__row_axis rows) {
    return rows.kind == NT__ROWS_ALONG ? along(rows, rows.axis + 1) : rows;
}

/* Parameters that are no carries: those keep what they have. */
static void take_operands(search *s, const nt__region *region) {
    const nt__nodes *operands = &region->control->operands;
    if (region->index) *rows_of(s, region->index) = none;
    for (size_t i = 0; i < region->parameters.count; i++) {
        const nt__node *parameter = region->parameters.items[i];
        int kind = parameter->attributes.choice;
        if (kind != NT__VALUE && kind != NT__SLICE) continue;
        nt__row_axis rows = *rows_of(s, operands->items[parameter->attributes.index]);
        *rows_of(s, parameter) = kind == NT__SLICE ? sliced(rows) : rows;
    }
}

static void run(search *s, const nt__region *region) {
    take_operands(s, region);
    look_at(s, region);
}

static nt__row_axis *carry_of(const search *s, const nt__region *region, size_t index) {
    for (size_t i = 0; i < region->parameters.count; i++) {
        const nt__node *parameter = region->parameters.items[i];
        if (parameter->attributes.choice == NT__CARRY && (size_t)parameter->attributes.index == index)
            return rows_of(s, parameter);
    }
    return NULL;
}

static void set_carry(const search *s, const nt__control *control, size_t index, nt__row_axis rows) {
    for (int i = 0; i < control->region_count; i++) {
        nt__row_axis *carry = carry_of(s, control->regions[i], index);
        if (carry) *carry = rows;
    }
    *rows_of(s, control->results.items[index]) = rows;
}

/* What an iteration makes of the carries is joined with what they began with, until nothing changes any more: a carry
 * changes twice at most. */
static void look_at_loop(search *s, const nt__control *control) {
    const nt__region *body = nt__control_body(control);
    bool changed = true;
    for (size_t i = 0; i < control->carries; i++) set_carry(s, control, i, *rows_of(s, control->operands.items[i]));
    while (changed) {
        changed = false;
        for (int i = 0; i < control->region_count; i++) run(s, control->regions[i]);
        bool decides =
            control->op == NT__OP_while && rows_of(s, control->regions[0]->results.items[0])->kind != NT__ROWS_NONE;
        for (size_t i = 0; i < control->carries; i++) {
            nt__row_axis before = *rows_of(s, control->results.items[i]);
            nt__row_axis now = decides ? mixed : join(before, *rows_of(s, body->results.items[i]));
            changed |= !is_same(before, now);
            set_carry(s, control, i, now);
        }
    }
    for (size_t i = control->carries; i < control->results.count; i++)
        *rows_of(s, control->results.items[i]) = stacked(*rows_of(s, body->results.items[i]));
}

static void look_at_choice(search *s, const nt__control *control) {
    bool decided = rows_of(s, control->operands.items[0])->kind == NT__ROWS_NONE;
    run(s, control->regions[0]);
    run(s, control->regions[1]);
    for (size_t i = 0; i < control->results.count; i++) {
        nt__row_axis yes = *rows_of(s, control->regions[0]->results.items[i]);
        nt__row_axis no = *rows_of(s, control->regions[1]->results.items[i]);
        *rows_of(s, control->results.items[i]) = decided ? join(yes, no) : mixed;
    }
}

static void look_at_function(search *s, const nt__control *control) {
    run(s, control->regions[0]);
    for (size_t i = 0; i < control->results.count; i++)
        *rows_of(s, control->results.items[i]) = *rows_of(s, control->regions[0]->results.items[i]);
}

static void look_at_control(search *s, const nt__control *control) {
    switch (control->op) {
    case NT__OP_scan:
    case NT__OP_while: look_at_loop(s, control); break;
    case NT__OP_cond: look_at_choice(s, control); break;
    case NT__OP_remat:
    case NT__OP_custom_gradient: look_at_function(s, control); break;
    case NT__OP_barrier:
        for (size_t i = 0; i < control->results.count; i++)
            *rows_of(s, control->results.items[i]) = *rows_of(s, control->operands.items[i]);
        break;
    default: break;
    }
}

/* ---- nodes in their order --------------------------------------------------------------------------------------- */

static void look_at_node(search *s, const nt__node *node) {
    nt__row_axis operands[NT__MAX_OPERANDS];
    if (node->op == NT__OP_input && node->attributes.role == s->role) {
        *rows_of(s, node) = (nt__row_axis){NT__ROWS_ALONG, 0, 1, 1};
        return;
    }
    for (int i = 0; i < node->operand_count; i++) operands[i] = *rows_of(s, node->operands[i]);
    *rows_of(s, node) = nt__operations[node->op].rows(node, operands);
}

/* Results and parameters have what their operation gave them. */
static void look_at(search *s, const nt__region *region) {
    for (const nt__node *node = region->first; node; node = node->next) {
        if (node->control)
            look_at_control(s, node->control);
        else if (node->op != NT__OP_result && node->op != NT__OP_region_parameter)
            look_at_node(s, node);
    }
}

bool nt__rows_are_apart(nt_tensor x, int role, int64_t count) {
    const nt__graph *graph = nt__trace_current();
    const nt__node *node = nt__node_of(x, (nt_site){0}, "rows");
    if (!node || count == 1) return count == 1;
    search s = {.role = role};
    s.rows = nt__trace_alloc((nt_site){0}, "rows", graph->node_count, sizeof *s.rows);
    if (!s.rows) return false;
    look_at(&s, &graph->program);
    nt__row_axis rows = *rows_of(&s, node);
    bool is_axis_0 = rows.kind == NT__ROWS_ALONG && rows.axis == 0 && rows.outer == 1 && rows.inner == 1;
    return rows.kind == NT__ROWS_NONE || is_axis_0;
}
