/* Running sums, products, extremes and log-sum-exps along an axis. Each is one moving window as wide as the axis, which
 * the engine computes in blocks: compared in bench/README.md with the other ways.
 */
#include <math.h>

#include "graph/emit.h"
#include "graph/rules.h"
#include "graph/window.h"

/* ---- making ----------------------------------------------------------------------------------------------------- */

/* The window that ends (begins) at each element and reaches to the start (end) of the axis. */
static nt__window reaching(nt_shape shape, int axis, nt_direction direction) {
    nt__window window = {.low = {.rank = shape.rank}, .high = {.rank = shape.rank}, .groups = 1};
    window.size.rank = shape.rank;
    for (int i = 0; i < shape.rank; i++) window.size.dims[i] = 1;
    window.stride = window.base_dilation = window.window_dilation = window.size;
    window.size.dims[axis] = shape.dims[axis];
    (direction == NT_FORWARD ? &window.low : &window.high)->dims[axis] = shape.dims[axis] - 1;
    return window;
}

/* Of an operand and an axis that were checked. What adds up does so in f32 at least. */
static nt_tensor running(nt__reducer reducer, double identity, nt_tensor x, int axis, nt_direction direction,
                         nt_site site) {
    nt_shape shape = nt_shape_of(x);
    nt_dtype dtype = nt_dtype_of(x);
    if (shape.dims[axis] < 2 || nt_shape_elements(shape) == 0) return x;
    if (reducer == NT__ADD || reducer == NT__MULTIPLY || reducer == NT__LOG_SUM_EXP) x = nt__widened(x, site);
    nt__window window = reaching(shape, axis, direction);
    nt_tensor y = nt__window_reduce(NT__OP_cumulative, reducer, x, identity, &window, site);
    return nt_convert_at(y, dtype, site);
}

static bool can_run(const char *what, nt_tensor x, int64_t axis, int *at, nt_site site) {
    const nt__node *node = nt__node_of(x, site, what);
    return node && nt__type_numeric(site, what, node->type) && nt__axis(site, what, node->type, axis, at);
}

static bool can_add_up(const char *what, nt_tensor x, int64_t axis, int *at, nt_site site) {
    return can_run(what, x, axis, at, site) && nt__type_adds_up(site, what, (nt__type){nt_dtype_of(x), nt_shape_of(x)});
}

nt_tensor nt_cumsum_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site) {
    int at;
    return can_add_up("cumsum", x, axis, &at, site) ? running(NT__ADD, 0, x, at, direction, site) : nt__failed();
}

nt_tensor nt_cumprod_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site) {
    int at;
    return can_add_up("cumprod", x, axis, &at, site) ? running(NT__MULTIPLY, 1, x, at, direction, site) : nt__failed();
}

nt_tensor nt_cummax_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site) {
    int at;
    if (!can_run("cummax", x, axis, &at, site)) return nt__failed();
    nt__reducer reducer = nt_dtype_is_float(nt_dtype_of(x)) ? NT__MAXIMUM_OR_NAN : NT__MAXIMUM;
    return running(reducer, -HUGE_VAL, x, at, direction, site);
}

nt_tensor nt_cummin_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site) {
    int at;
    if (!can_run("cummin", x, axis, &at, site)) return nt__failed();
    nt__reducer reducer = nt_dtype_is_float(nt_dtype_of(x)) ? NT__MINIMUM_OR_NAN : NT__MINIMUM;
    return running(reducer, HUGE_VAL, x, at, direction, site);
}

nt_tensor nt_cumlogsumexp_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site) {
    int at;
    const nt__node *node = nt__node_of(x, site, "cumlogsumexp");
    if (!node || !nt__type_floating(site, "cumlogsumexp", node->type) ||
        !nt__axis(site, "cumlogsumexp", node->type, axis, &at))
        return nt__failed();
    return running(NT__LOG_SUM_EXP, -HUGE_VAL, x, at, direction, site);
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

/* Where the window of a node runs. */
static int axis_of(const nt__node *node) {
    int axis = 0;
    while (node->attributes.window->size.dims[axis] == 1) axis++;
    return axis;
}

static nt_direction direction_of(const nt__node *node) {
    return node->attributes.window->low.dims[axis_of(node)] > 0 ? NT_FORWARD : NT_BACKWARD;
}

static nt_direction opposite_of(const nt__node *node) {
    return direction_of(node) == NT_FORWARD ? NT_BACKWARD : NT_FORWARD;
}

/* x moved by `steps` in the direction in which the node runs, against it when negative; `filler` comes in. */
static nt_tensor moved(const nt__backward *b, nt_tensor x, int64_t steps, double filler) {
    int axis = axis_of(b->node);
    nt_shape low = {.rank = nt_rank(x)}, high = low;
    low.dims[axis] = direction_of(b->node) == NT_FORWARD ? steps : -steps;
    high.dims[axis] = -low.dims[axis];
    return nt_pad_at(x, low, high, nt_tensor_number(filler), b->site);
}

static nt_tensor sum_gradient(const nt__backward *b) {
    return running(NT__ADD, 0, C, axis_of(b->node), opposite_of(b->node), b->site);
}

/* The product of all elements before i, times s(i) = c(i) + x(i + 1) s(i + 1), which is right at zeros too. The
 * recurrence by doubling: after step k, s has the terms of 2^k elements and `factor` the product that the rest takes.
 * Source: Hillis and Steele, Data parallel algorithms, 1986; Blelloch, Prefix sums and their applications, 1990.
 */
static nt_tensor product_gradient(const nt__backward *b) {
    int64_t size = b->node->type.shape.dims[axis_of(b->node)];
    nt_tensor factor = moved(b, A, -1, 0), sum = C;
    for (int64_t step = 1; step < size; step *= 2) {
        sum = ADD(sum, MUL(factor, moved(b, sum, -step, 0)));
        factor = MUL(factor, moved(b, factor, -step, 0));
    }
    return MUL(moved(b, Y, 1, 1), sum);
}

/* Each cotangent goes to the element that the running extreme is: the first of equal ones. That is the last place
 * where x went beyond all before it, or became nan. */
static nt_tensor extreme_gradient(const nt__backward *b) {
    const nt__node *node = b->node;
    int axis = axis_of(node), reducer = node->attributes.choice;
    int64_t last = node->type.shape.dims[axis] - 1;
    bool forward = direction_of(node) == NT_FORWARD;
    nt_tensor before = moved(b, Y, 1, 0);
    nt_tensor beyond = reducer == NT__MAXIMUM_OR_NAN ? IS(greater, A, before) : IS(less, A, before);
    nt_tensor first_nan = nt_and_at(nt_is_nan_at(A, b->site), IS(equal, before, before), b->site);
    nt_tensor places = nt_iota_at(last < INT32_MAX ? NT_I32 : NT_I64, node->type.shape, axis, b->site);
    nt_tensor changes = WHERE(nt_or_at(beyond, first_nan, b->site), places, forward ? 0 : (double)last);
    nt_tensor origin =
        forward ? nt_cummax_at(changes, axis, NT_FORWARD, b->site) : nt_cummin_at(changes, axis, NT_BACKWARD, b->site);
    return nt__put_along(nt__filled("cumulative", node->type, 0, b->site), origin, C, axis, b->site);
}

/* exp(x(i)) times the sum of c(j) exp(-y(j)) over j from i on, for the positive (negative) cotangents, in logarithms,
 * so that nothing overflows. Where y is -infinity nothing was counted. */
static nt_tensor log_gradient_part(const nt__backward *b, nt_tensor c) {
    nt_tensor counts = nt_and_at(IS(greater, c, 0), IS(greater, Y, -HUGE_VAL), b->site);
    nt_tensor weight = WHERE(counts, SUB(nt_log_at(WHERE(counts, c, 1), b->site), WHERE(counts, Y, 0)), -HUGE_VAL);
    nt_tensor sum = running(NT__LOG_SUM_EXP, -HUGE_VAL, weight, axis_of(b->node), opposite_of(b->node), b->site);
    return nt_exp_at(ADD(A, sum), b->site);
}

static nt_tensor log_gradient(const nt__backward *b) {
    return SUB(log_gradient_part(b, C), log_gradient_part(b, NEG(C)));
}

void nt__gradient_cumulative(const nt__backward *b, nt_tensor *out) {
    static nt_tensor (*const rules[])(const nt__backward *b) = {
        [NT__ADD] = sum_gradient,
        [NT__MULTIPLY] = product_gradient,
        [NT__MAXIMUM_OR_NAN] = extreme_gradient,
        [NT__MINIMUM_OR_NAN] = extreme_gradient,
        [NT__LOG_SUM_EXP] = log_gradient,
    };
    out[0] = rules[b->node->attributes.choice](b);
}
