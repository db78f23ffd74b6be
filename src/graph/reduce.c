/* Reductions over axes, and what is made of them: variance, places of extremes, softmax. Not here: running reductions
 * (cumulative.c). */
#include <math.h>

#include "graph/emit.h"
#include "nitro/control.h"

static bool refuse_axes(nt_site site, const char *what, nt__type type, nt_shape axes) {
    char text[NT__TYPE_TEXT], list[NT__TYPE_TEXT];
    nt__trace_fail(site, what, "%s: the axes %s must be different ones", nt__type_text(type, text),
                   nt__shape_text(axes, list));
    return false;
}

/* Takes NT_KEEP out of the list; says whether it was there. */
static bool take_keep(nt_shape *axes) {
    int left = 0, given = axes->rank;
    for (int i = 0; i < given; i++)
        if (axes->dims[i] != NT_KEEP) axes->dims[left++] = axes->dims[i];
    axes->rank = left;
    return left < given;
}

bool nt__axes(nt_site site, const char *what, nt__type type, nt_shape *axes, bool *keep) {
    bool chosen[NT_MAX_RANK] = {0};
    if (axes->rank > NT_MAX_RANK) return refuse_axes(site, what, type, *axes);
    *keep = take_keep(axes);
    bool all = axes->rank == 0;
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

/* `shape` with size 1 along the reduced axes. */
static nt_shape kept(nt_shape shape, nt_shape axes) {
    for (int i = 0; i < axes.rank; i++) shape.dims[axes.dims[i]] = 1;
    return shape;
}

/* Of operands whose type was checked. `start` is what the reduction of no elements gives. */
static nt_tensor reduce(nt__op op, nt__reducer reducer, nt_tensor x, nt_shape axes, double start, nt_site site) {
    const char *what = nt__operations[op].name;
    const nt__node *node = nt__node_of(x, site, what);
    bool keep;
    if (!node || !nt__axes(site, what, node->type, &axes, &keep)) return nt__failed();
    if (axes.rank == 0) return x;
    nt_tensor operands[] = {x, nt__identity(node->type.dtype, start, site)};
    nt_tensor y = nt__emit(op, site, (nt__type){0}, 2, operands, &(nt__attributes){.lists = {axes}, .choice = reducer});
    return keep ? nt_reshape_at(y, kept(node->type.shape, axes), site) : y;
}

static nt_tensor reduce_numeric(nt__op op, nt__reducer reducer, nt_tensor x, nt_shape axes, double start,
                                nt_site site) {
    const nt__node *node = nt__node_of(x, site, nt__operations[op].name);
    if (!node || !nt__type_numeric(site, nt__operations[op].name, node->type)) return nt__failed();
    return reduce(op, reducer, x, axes, start, site);
}

static nt_tensor reduce_bool(nt__op op, nt__reducer reducer, nt_tensor x, nt_shape axes, double start, nt_site site) {
    const nt__node *node = nt__node_of(x, site, nt__operations[op].name);
    char text[NT__TYPE_TEXT];
    if (!node) return nt__failed();
    if (node->type.dtype != NT_BOOL)
        return nt__trace_fail(site, nt__operations[op].name, "needs a bool tensor, got %s; a comparison makes one",
                              nt__type_text(node->type, text));
    return reduce(op, reducer, x, axes, start, site);
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

static nt_tensor stretch_back(const nt__backward *b, nt_tensor x) {
    nt_shape from = b->node->operands[0]->type.shape;
    nt_tensor thin = nt_reshape_at(x, kept(from, b->node->attributes.lists[0]), b->site);
    return nt_broadcast_at(thin, from, b->site);
}

/* In bf16 and f16 a sum soon stops growing, and what is made of several steps loses digits with each: f32. */
nt_tensor nt__widened(nt_tensor x, nt_site site) {
    nt_dtype dtype = nt_dtype_of(x);
    return nt_dtype_is_float(dtype) && nt_dtype_size(dtype) == 2 ? nt_convert_at(x, NT_F32, site) : x;
}

/* An engine adds up one axis in parts; several at once it may take element by element, which is slower and loses
 * digits. So where they have many elements the longest of them is first. Its sums go on in f64, few as they are: of one
 * type the two would become one again. */
enum { MANY = 1024 };

static bool is_sum_of_many(nt_tensor x, nt_shape axes) {
    nt_shape shape = nt_shape_of(x);
    int64_t number = 1;
    int long_axes = 0;
    for (int i = 0; i < axes.rank; i++) {
        number *= shape.dims[axes.dims[i]];
        long_axes += shape.dims[axes.dims[i]] > 1;
    }
    return nt_dtype_of(x) == NT_F32 && long_axes > 1 && number >= MANY;
}

static nt_tensor sum_of_many(nt_tensor x, nt_shape axes, nt_site site) {
    nt_shape shape = nt_shape_of(x), rest = {0};
    int longest = 0;
    for (int i = 1; i < axes.rank; i++)
        if (shape.dims[axes.dims[i]] > shape.dims[axes.dims[longest]]) longest = i;
    for (int i = 0; i < axes.rank; i++)
        if (i != longest) rest.dims[rest.rank++] = axes.dims[i] - (i > longest);
    nt_tensor sums = reduce(NT__OP_sum, NT__ADD, x, nt_dims(axes.dims[longest]), 0, site);
    sums = reduce(NT__OP_sum, NT__ADD, nt_convert_at(sums, NT_F64, site), rest, 0, site);
    return nt_convert_at(sums, NT_F32, site);
}

nt_tensor nt_sum_at(nt_tensor x, nt_shape axes, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "sum");
    bool keep;
    if (!node || !nt__type_adds_up(site, "sum", node->type) || !nt__axes(site, "sum", node->type, &axes, &keep))
        return nt__failed();
    nt_tensor wide = nt__widened(x, site);
    nt_tensor sum =
        is_sum_of_many(wide, axes) ? sum_of_many(wide, axes, site) : reduce(NT__OP_sum, NT__ADD, wide, axes, 0, site);
    if (keep) sum = nt_reshape_at(sum, kept(node->type.shape, axes), site);
    return nt_convert_at(sum, node->type.dtype, site);
}

void nt__gradient_sum(const nt__backward *b, nt_tensor *out) {
    out[0] = stretch_back(b, b->cotangent);
}

/* Checks a floating operand and its axes. The number of elements that one result is made of, negative after an error.
 */
static double number_reduced(const char *what, nt_tensor x, nt_shape axes, nt_site site) {
    const nt__node *node = nt__node_of(x, site, what);
    bool keep;
    if (!node || !nt__type_floating(site, what, node->type) || !nt__axes(site, what, node->type, &axes, &keep))
        return -1;
    double number = 1;
    for (int i = 0; i < axes.rank; i++) number *= (double)node->type.shape.dims[axes.dims[i]];
    return number;
}

/* The same axes, kept. All of them is the empty list, so that there is room. */
static nt_shape keeping(nt_shape axes, int rank) {
    take_keep(&axes);
    if (axes.rank == rank) axes.rank = 0;
    axes.dims[axes.rank++] = NT_KEEP;
    return axes;
}

nt_tensor nt_mean_at(nt_tensor x, nt_shape axes, nt_site site) {
    double number = number_reduced("mean", x, axes, site);
    if (number < 0) return nt__failed();
    nt_tensor mean = nt_div_at(nt_sum_at(nt__widened(x, site), axes, site), nt_tensor_number(number), site);
    return nt_convert_at(mean, nt_dtype_of(x), site);
}

/* In two passes: the mean of the squares minus the square of the mean loses all digits far from 0. */
static nt_tensor variance(const char *what, nt_tensor x, double correction, nt_shape axes, nt_site site) {
    double number = number_reduced(what, x, axes, site);
    if (number < 0) return nt__failed();
    nt_tensor wide = nt__widened(x, site), mean = nt_mean_at(wide, keeping(axes, nt_rank(x)), site);
    nt_tensor sum = nt_sum_at(nt_square_at(nt_sub_at(wide, mean, site), site), axes, site);
    return nt_div_at(sum, nt_tensor_number(fmax(0, number - correction)), site);
}

nt_tensor nt_variance_at(nt_tensor x, double correction, nt_shape axes, nt_site site) {
    return nt_convert_at(variance("variance", x, correction, axes, site), nt_dtype_of(x), site);
}

nt_tensor nt_deviation_at(nt_tensor x, double correction, nt_shape axes, nt_site site) {
    nt_tensor wide = nt_sqrt_at(variance("deviation", x, correction, axes, site), site);
    return nt_convert_at(wide, nt_dtype_of(x), site);
}

nt_tensor nt_reduce_max_at(nt_tensor x, nt_shape axes, nt_site site) {
    nt__reducer reducer = nt_dtype_is_float(nt_dtype_of(x)) ? NT__MAXIMUM_OR_NAN : NT__MAXIMUM;
    return reduce_numeric(NT__OP_reduce_max, reducer, x, axes, -HUGE_VAL, site);
}

nt_tensor nt_reduce_min_at(nt_tensor x, nt_shape axes, nt_site site) {
    nt__reducer reducer = nt_dtype_is_float(nt_dtype_of(x)) ? NT__MINIMUM_OR_NAN : NT__MINIMUM;
    return reduce_numeric(NT__OP_reduce_min, reducer, x, axes, HUGE_VAL, site);
}

void nt__gradient_reduce_extreme(const nt__backward *b, nt_tensor *out) {
    nt_dtype dtype = nt_dtype_of(b->cotangent);
    nt_tensor winners = nt_convert_at(nt_equal_at(b->operands[0], stretch_back(b, b->value), b->site), dtype, b->site);
    nt_tensor number = nt_sum_at(winners, b->node->attributes.lists[0], b->site);
    nt_tensor each = nt_div_at(b->cotangent, number, b->site);
    out[0] = nt_mul_at(stretch_back(b, each), winners, b->site);
}

nt_tensor nt_any_at(nt_tensor x, nt_shape axes, nt_site site) {
    return reduce_bool(NT__OP_any, NT__EITHER, x, axes, 0, site);
}

nt_tensor nt_all_at(nt_tensor x, nt_shape axes, nt_site site) {
    return reduce_bool(NT__OP_all, NT__BOTH, x, axes, 1, site);
}

/* ---- the place of an extreme ------------------------------------------------------------------------------------ */

/* The first index along the axis at which x is its extreme or nan. */
static nt_tensor first_extreme(const char *what, nt_tensor x, int64_t axis,
                               nt_tensor (*extreme)(nt_tensor x, nt_shape axes, nt_site site), nt_site site) {
    const nt__node *node = nt__node_of(x, site, what);
    char text[NT__TYPE_TEXT];
    int at;
    if (!node || !nt__type_numeric(site, what, node->type) || !nt__axis(site, what, node->type, axis, &at))
        return nt__failed();
    int64_t size = node->type.shape.dims[at];
    if (size == 0 || size > INT32_MAX)
        return nt__trace_fail(site, what, "axis %d of %s: its size must be from 1 to %d", at,
                              nt__type_text(node->type, text), INT32_MAX);
    nt_tensor hit = nt_equal_at(x, extreme(x, nt_dims(at, NT_KEEP), site), site);
    if (nt_dtype_is_float(node->type.dtype)) hit = nt_or_at(hit, nt_is_nan_at(x, site), site);
    nt_tensor index = nt_iota_at(NT_I32, node->type.shape, at, site);
    nt_tensor of_hits = nt_where_at(hit, index, nt_tensor_number((double)size - 1), site);
    return nt_reduce_min_at(of_hits, nt_dims(at), site);
}

nt_tensor nt_argmax_at(nt_tensor x, int64_t axis, nt_site site) {
    return first_extreme("argmax", x, axis, nt_reduce_max_at, site);
}

nt_tensor nt_argmin_at(nt_tensor x, int64_t axis, nt_site site) {
    return first_extreme("argmin", x, axis, nt_reduce_min_at, site);
}

/* ---- products --------------------------------------------------------------------------------------------------- */

nt_tensor nt_prod_at(nt_tensor x, nt_shape axes, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "prod");
    if (!node || !nt__type_adds_up(site, "prod", node->type)) return nt__failed();
    nt_tensor product = reduce(NT__OP_prod, NT__MULTIPLY, nt__widened(x, site), axes, 1, site);
    return nt_convert_at(product, node->type.dtype, site);
}

/* The product of all elements before or after each, without it. */
static nt_tensor others(nt_tensor x, bool after, nt_site site) {
    nt_tensor inclusive = nt_cumprod_at(x, 0, after ? NT_BACKWARD : NT_FORWARD, site);
    nt_shape low = nt_dims(after ? -1 : 1, 0), high = nt_dims(-low.dims[0], 0);
    return nt_pad_at(inclusive, low, high, nt_tensor_number(1), site);
}

/* The product of the other elements, which is right at zeros too. The reduced axes become axis 0. */
void nt__gradient_prod(const nt__backward *b, nt_tensor *out) {
    nt_shape from = b->node->operands[0]->type.shape, axes = b->node->attributes.lists[0];
    nt_shape order = axes, back = {.rank = from.rank}, moved = {.rank = from.rank}, flat = {2, {1, 1}};
    for (int i = 0, next = 0; i < from.rank; i++) {
        bool reduced = next < axes.rank && axes.dims[next] == i;
        if (reduced)
            next++;
        else
            order.dims[order.rank++] = i;
        flat.dims[!reduced] *= from.dims[i];
    }
    for (int i = 0; i < from.rank; i++) {
        back.dims[order.dims[i]] = i;
        moved.dims[i] = from.dims[order.dims[i]];
    }
    nt_tensor x = nt_reshape_at(nt_transpose_at(b->operands[0], order, b->site), flat, b->site);
    nt_tensor product = nt_mul_at(others(x, false, b->site), others(x, true, b->site), b->site);
    nt_tensor unfolded = nt_transpose_at(nt_reshape_at(product, moved, b->site), back, b->site);
    out[0] = nt_mul_at(stretch_back(b, b->cotangent), unfolded, b->site);
}

/* ---- logsumexp -------------------------------------------------------------------------------------------------- */

/* The shift is the largest element where that is finite: it carries no gradient, for it cancels. */
nt_tensor nt_logsumexp_at(nt_tensor x, nt_shape axes, nt_site site) {
    if (number_reduced("logsumexp", x, axes, site) < 0) return nt__failed();
    nt_dtype dtype = nt_dtype_of(x);
    x = nt__widened(x, site);
    nt_tensor largest = reduce(NT__OP_reduce_max, NT__MAXIMUM, x, keeping(axes, nt_rank(x)), -HUGE_VAL, site);
    nt_tensor finite = nt_where_at(nt_is_finite_at(largest, site), largest, nt_tensor_number(0), site);
    nt_tensor shift = nt_stop_gradient_at(finite, site);
    nt_tensor sum = nt_sum_at(nt_exp_at(nt_sub_at(x, shift, site), site), axes, site);
    nt_tensor y = nt_add_at(nt_log_at(sum, site), nt_reshape_at(shift, nt_shape_of(sum), site), site);
    return nt_convert_at(y, dtype, site);
}

/* ---- softmax ---------------------------------------------------------------------------------------------------- */

/* The axes to go over, kept; the last one when none is named. False after keeping an error. */
static bool softmax_axes(const char *what, nt_tensor x, nt_shape *axes, nt_site site) {
    bool keep;
    if (take_keep(axes), axes->rank == 0) *axes = nt_dims(-1);
    const nt__node *node = nt__node_of(x, site, what);
    if (!node || !nt__type_floating(site, what, node->type) || !nt__axes(site, what, node->type, axes, &keep))
        return false;
    *axes = keeping(*axes, node->type.shape.rank);
    return true;
}

/* x minus its largest. The shift carries no gradient, for it cancels, and needs not keep nan, for x does. */
static nt_tensor shifted(nt_tensor x, nt_shape kept_axes, nt_site site) {
    nt_tensor largest = reduce(NT__OP_reduce_max, NT__MAXIMUM, x, kept_axes, -HUGE_VAL, site);
    return nt_sub_at(x, nt_stop_gradient_at(largest, site), site);
}

nt_tensor nt_log_softmax_at(nt_tensor x, nt_shape axes, nt_site site) {
    if (!softmax_axes("log_softmax", x, &axes, site)) return nt__failed();
    nt_tensor z = shifted(nt__widened(x, site), axes, site);
    nt_tensor y = nt_sub_at(z, nt_log_at(nt_sum_at(nt_exp_at(z, site), axes, site), site), site);
    return nt_convert_at(y, nt_dtype_of(x), site);
}

typedef struct softmax {
    nt_shape axes; /* kept */
    nt_site site;
} softmax;

static nt_values softmax_value(nt_values x, void *context) {
    const softmax *s = context;
    nt_tensor e = nt_exp_at(shifted(x.at[0], s->axes, s->site), s->site);
    return (nt_values){{nt_div_at(e, nt_sum_at(e, s->axes, s->site), s->site)}};
}

/* y (c - sum(c y)), which passes over the elements less often than the gradients of the quotient and of the power. */
static nt_values softmax_cotangent(nt_values x, nt_values y, nt_values c, void *context) {
    (void)x;
    const softmax *s = context;
    nt_tensor mean = nt_sum_at(nt_mul_at(c.at[0], y.at[0], s->site), s->axes, s->site);
    return (nt_values){{nt_mul_at(y.at[0], nt_sub_at(c.at[0], mean, s->site), s->site)}};
}

nt_tensor nt_softmax_at(nt_tensor x, nt_shape axes, nt_site site) {
    softmax s = {axes, site};
    if (!softmax_axes("softmax", x, &s.axes, site)) return nt__failed();
    nt_values wide = {{nt__widened(x, site)}};
    nt_tensor y = nt_custom_gradient_at(softmax_value, softmax_cotangent, &s, wide, site).at[0];
    return nt_convert_at(y, nt_dtype_of(x), site);
}
