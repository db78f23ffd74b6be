/* Pooling: the largest or the mean element of a window that moves over the spatial axes. Windows that do not overlap
 * are a reshape and a reduction, which is several times faster than the engine's moving windows. Not here: convolution
 * (conv.c).
 */
#include <float.h>
#include <math.h>

#include "graph/emit.h"
#include "graph/window.h"

/* ---- moving windows: operations with an entry of the window for each axis --------------------------------------- */

bool nt__shape_window(nt__node *node) {
    const nt__window *w = node->attributes.window;
    node->type = node->operands[0]->type;
    for (int i = 0; i < node->type.shape.rank; i++)
        node->type.shape.dims[i] = nt__window_places(w, i, node->type.shape.dims[i]);
    return true;
}

void nt__print_window(const nt__node *node, nt__text *text) {
    const nt__window *w = node->attributes.window;
    nt__text_add(text, " <{");
    nt__padding_print(w->low, w->high, text);
    nt__list_print("base_dilations", w->base_dilation, text);
    nt__list_print("window_dilations", w->window_dilation, text);
    nt__list_print("window_dimensions", w->size, text);
    nt__list_print("window_strides", w->stride, text);
    nt__text_add(text, "}> ({\n");
    nt__reducer_print(node->attributes.choice, node->type.dtype, text);
    nt__text_add(text, "    })");
}

void nt__print_window_pick(const nt__node *node, nt__text *text) {
    const nt__window *w = node->attributes.window;
    nt__text_add(text, " <{");
    nt__padding_print(w->low, w->high, text);
    nt__list_print("window_dimensions", w->size, text);
    nt__list_print("window_strides", w->stride, text);
    nt__text_add(text, "}> ({\n");
    nt__reducer_print(NT__FIRST_MAXIMUM, node->type.dtype, text);
    nt__text_add(text, "    }, {\n");
    nt__reducer_print(NT__ADD, node->type.dtype, text);
    nt__text_add(text, "    })");
}

/* `operands` end with the number that padding is and the reduction starts from. */
static nt_tensor moving(nt__op op, nt__reducer reducer, int count, nt_tensor *operands, double start,
                        const nt__window *window, nt_site site) {
    const char *what = nt__operations[op].name;
    nt__window *kept = nt__trace_alloc(site, what, 1, sizeof *kept);
    if (!kept) return nt__failed();
    *kept = *window;
    operands[count - 1] = nt__identity(nt_dtype_of(operands[0]), start, site);
    nt_tensor y =
        nt__emit(op, site, (nt__type){0}, count, operands, &(nt__attributes){.window = kept, .choice = reducer});
    nt__type type = {nt_dtype_of(y), nt_shape_of(y)};
    return nt_shape_elements(type.shape) == 0 ? nt__filled(what, type, 0, site) : y;
}

nt_tensor nt__window_reduce(nt__op op, nt__reducer reducer, nt_tensor x, double start, const nt__window *window,
                            nt_site site) {
    return moving(op, reducer, 2, (nt_tensor[2]){x}, start, window, site);
}

static nt_tensor window_sum(nt_tensor x, const nt__window *window, nt_site site) {
    return nt__window_reduce(NT__OP_window_sum, NT__ADD, x, 0, window, site);
}

static nt_tensor window_max(nt_tensor x, const nt__window *window, nt_site site) {
    return nt__window_reduce(NT__OP_window_max, NT__MAXIMUM_OR_NAN, x, -HUGE_VAL, window, site);
}

/* The sum over windows of the cotangent, spread out by the stride. */
void nt__gradient_window_sum(const nt__backward *b, nt_tensor *out) {
    const nt__window *w = b->node->attributes.window;
    nt__window back = *w;
    back.stride = w->base_dilation;
    back.base_dilation = w->stride;
    for (int i = 0; i < w->size.rank; i++) {
        back.low.dims[i] = nt__window_opposite_low(w, i);
        nt__window_pad_for(&back, i, b->node->type.shape.dims[i], b->node->operands[0]->type.shape.dims[i]);
    }
    out[0] = window_sum(b->cotangent, &back, b->site);
}

/* The largest number that is below all but -infinity. */
static double lowest(nt_dtype dtype) {
    static const double numbers[] = {
        [NT_F32] = -FLT_MAX, [NT_F64] = -DBL_MAX, [NT_BF16] = -0x1.FEp127, [NT_F16] = -65504};
    return numbers[dtype];
}

/* Each window gives its cotangent to the first of its largest elements. The engine takes another one of them where the
 * window is padded, so the padding is written out; an element that is as low becomes a little larger, so that it wins.
 */
void nt__gradient_window_max(const nt__backward *b, nt_tensor *out) {
    nt__window w = *b->node->attributes.window;
    nt_tensor x = b->operands[0];
    nt_shape low = w.low, high = w.high, none = {.rank = low.rank}, size = nt_shape_of(x), end = size;
    for (int i = 0; i < low.rank; i++) end.dims[i] += low.dims[i];
    bool padded = !nt_shape_equal(low, none) || !nt_shape_equal(high, none);
    if (padded) {
        x = nt_max_at(x, nt_tensor_number(lowest(nt_dtype_of(x))), b->site);
        x = nt_pad_at(x, low, high, nt_tensor_number(-HUGE_VAL), b->site);
        w.low = w.high = none;
    }
    nt_tensor operands[] = {x, b->cotangent, {0}};
    nt_tensor picked = moving(NT__OP_window_pick, NT__FIRST_MAXIMUM, 3, operands, 0, &w, b->site);
    out[0] = padded ? nt_slice_at(picked, low, end, b->site) : picked;
}

/* Every element that the windows have at one offset, one for each place of the window. */
static nt_tensor at_offset(nt_tensor padded, nt_shape offset, nt_shape places, const nt__window *w, nt_site site) {
    nt_shape limit = offset;
    for (int i = 0; i < offset.rank; i++) limit.dims[i] += (places.dims[i] - 1) * w->stride.dims[i] + 1;
    return nt_slice_strided_at(padded, offset, limit, w->stride, site);
}

/* The next offset in row-major order; false after the last. */
static bool next_offset(nt_shape *offset, const nt__window *w) {
    for (int i = offset->rank; i-- > 0;) {
        if (++offset->dims[i] < w->size.dims[i]) return true;
        offset->dims[i] = 0;
    }
    return false;
}

/* The choice is linear in what it chooses from: each window reads the cotangent where its first largest element is. No
 * operation of the engine reads there, so the offsets of the window are compared one after the other. */
void nt__gradient_window_pick(const nt__backward *b, nt_tensor *out) {
    const nt__window *w = b->node->attributes.window;
    if (!b->wanted[1]) return;
    nt_shape places = b->node->operands[1]->type.shape, offset = {.rank = places.rank};
    nt_tensor x = nt_pad_at(b->operands[0], w->low, w->high, nt_tensor_number(-HUGE_VAL), b->site);
    nt_tensor from = nt_pad_at(b->cotangent, w->low, w->high, nt_tensor_number(0), b->site);
    nt_tensor largest = at_offset(x, offset, places, w, b->site), found = at_offset(from, offset, places, w, b->site);
    while (next_offset(&offset, w)) {
        nt_tensor other = at_offset(x, offset, places, w, b->site);
        nt_tensor first_nan = nt_and_at(nt_is_nan_at(other, b->site), nt_equal_at(largest, largest, b->site), b->site);
        nt_tensor wins = nt_or_at(nt_greater_at(other, largest, b->site), first_nan, b->site);
        largest = nt_where_at(wins, other, largest, b->site);
        found = nt_where_at(wins, at_offset(from, offset, places, w, b->site), found, b->site);
    }
    out[1] = found;
}

/* ---- windows side by side --------------------------------------------------------------------------------------- */

static bool side_by_side(const nt__window *w) {
    bool right = true;
    for (int i = 0; i < w->size.rank; i++)
        right = right && w->stride.dims[i] == w->size.dims[i] && w->low.dims[i] == 0 && w->high.dims[i] == 0;
    return right;
}

/* Splits each axis with a window into windows and places in one; the axes of the places in *inner. Elements after the
 * last whole window are cut off. */
static nt_tensor blocks_of(nt_tensor x, const nt__window *w, nt_shape *inner, nt_site site) {
    nt_shape shape = nt_shape_of(x), start = {.rank = shape.rank}, limit = shape, blocks = {0};
    *inner = (nt_shape){0};
    for (int i = 0; i < shape.rank; i++) {
        int64_t size = w->size.dims[i], count = shape.dims[i] / size;
        limit.dims[i] = count * size;
        blocks.dims[blocks.rank++] = count;
        if (size == 1) continue;
        inner->dims[inner->rank++] = blocks.rank;
        blocks.dims[blocks.rank++] = size;
    }
    nt_tensor whole = nt_shape_equal(limit, shape) ? x : nt_slice_at(x, start, limit, site);
    return nt_reshape_at(whole, blocks, site);
}

/* The position in its window of each element, counted from the last, which has 1. */
static nt_tensor places_from_the_end(nt_shape shape, nt_shape inner, nt_site site) {
    int64_t number = 1;
    nt_tensor before = nt_full_at(NT_I64, shape, 0, (nt_site){0});
    for (int i = inner.rank; i-- > 0;) {
        nt_tensor along = nt_iota_at(NT_I64, shape, (int)inner.dims[i], site);
        nt_tensor step = nt__filled("max_pool", (nt__type){NT_I64, {0}}, (double)number, site);
        before = nt_add_at(before, nt_mul_at(along, step, site), site);
        number *= shape.dims[inner.dims[i]];
    }
    return nt_sub_at(nt__filled("max_pool", (nt__type){NT_I64, {0}}, (double)number, site), before, site);
}

/* The cotangent goes to the first of the largest elements; a nan is the largest. */
void nt__gradient_first_max(const nt__backward *b, nt_tensor *out) {
    nt_tensor x = b->operands[1];
    nt_shape shape = nt_shape_of(x), kept = shape, inner = b->node->attributes.lists[0];
    for (int i = 0; i < inner.rank; i++) kept.dims[inner.dims[i]] = 1;
    nt_tensor largest = nt_equal_at(x, nt_reshape_at(b->value, kept, b->site), b->site);
    nt_tensor hit = nt_where_at(nt_not_equal_at(x, x, b->site),
                                nt__filled("max_pool", (nt__type){NT_BOOL, {0}}, 1, b->site), largest, b->site);
    nt_tensor none = nt__filled("max_pool", (nt__type){NT_I64, {0}}, 0, b->site);
    nt_tensor place = nt_where_at(hit, places_from_the_end(shape, inner, b->site), none, b->site);
    nt_tensor first = nt_reshape_at(nt_reduce_max_at(place, inner, b->site), kept, b->site);
    nt_tensor zero = nt__filled("max_pool", (nt__type){nt_dtype_of(x), {0}}, 0, b->site);
    out[1] = nt_where_at(nt_equal_at(place, first, b->site), nt_reshape_at(b->cotangent, kept, b->site), zero, b->site);
}

/* ---- the user's pooling ----------------------------------------------------------------------------------------- */

#define REFUSE(format, ...) (nt__trace_fail(site, what, format, __VA_ARGS__), false)

/* An entry for each axis of x out of the spatial ones; `other` for samples and channels. */
static void widen(nt_shape *list, int first, int64_t other) {
    nt_shape wide = {.rank = list->rank + 2};
    for (int i = 0; i < wide.rank; i++)
        wide.dims[i] = i >= first && i < first + list->rank ? list->dims[i - first] : other;
    *list = wide;
}

static bool padding_is_right(const char *what, const nt__window *w, const nt_shape *x, int first, nt_site site) {
    for (int i = 0; i < w->size.rank; i++) {
        int64_t low = w->low.dims[i], high = w->high.dims[i], size = w->size.dims[i];
        if (low < 0 || high < 0 || low >= size || high >= size)
            return REFUSE("padding [%lld,%lld] of spatial axis %d must be at least 0 and less than the window, %lld",
                          (long long)low, (long long)high, i, (long long)size);
        if (nt__window_places(w, i, x->dims[first + i]) < 1)
            return REFUSE("spatial axis %d: a window of %lld does not fit into %lld elements with padding [%lld,%lld]",
                          i, (long long)size, (long long)x->dims[first + i], (long long)low, (long long)high);
    }
    return true;
}

static bool is_given(const int64_t list[NT_CONV_AXES]) {
    bool found = false;
    for (int i = 0; i < NT_CONV_AXES; i++) found = found || list[i] != 0;
    return found;
}

/* Reads the options into a window with an entry for each axis of x. */
static bool take_window(const char *what, nt_tensor x, nt_shape size, const nt_pool_options *options, nt_site site,
                        nt__window *w) {
    char text[NT__TYPE_TEXT], window_text[NT__TYPE_TEXT];
    const nt__node *node = nt__node_of(x, site, what);
    if (!node || !nt__type_floating(site, what, node->type)) return false;
    int axes = size.rank, first = options->channels_first ? 2 : 1;
    if (axes < 1 || axes > NT_CONV_AXES || node->type.shape.rank != axes + 2)
        return REFUSE("%s with a window of %s: a window has 1 to %d axes, and the tensor two more",
                      nt__type_text(node->type, text), nt__shape_text(size, window_text), NT_CONV_AXES);
    static const int64_t none[NT_CONV_AXES];
    const nt__list_options call = {what, options->written, axes, site};
    int64_t sizes[NT_CONV_AXES] = {0};
    for (int i = 0; i < axes; i++) sizes[i] = size.dims[i];
    *w = (nt__window){.groups = 1};
    if (!nt__list_numbers(&call, "window", sizes, 1, &w->size) ||
        !nt__list_numbers(&call, "stride", is_given(options->stride) ? options->stride : sizes, sizes[0], &w->stride) ||
        !nt__list_numbers(&call, "dilation", none, 1, &w->base_dilation) ||
        !nt__list_padding(&call, (const int64_t(*)[2])options->pad, options->same, &w->low, &w->high))
        return false;
    w->window_dilation = w->base_dilation;
    for (int i = 0; options->same && i < axes; i++) nt__window_pad_same(w, i, node->type.shape.dims[first + i]);
    if (!padding_is_right(what, w, &node->type.shape, first, site)) return false;
    nt_shape *lists[] = {&w->size, &w->stride, &w->base_dilation, &w->window_dilation};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) widen(lists[i], first, 1);
    widen(&w->low, first, 0);
    widen(&w->high, first, 0);
    return true;
}

nt_tensor nt_max_pool_at(nt_tensor x, nt_shape window, nt_pool_options options, nt_site site) {
    nt__window w;
    nt_shape inner;
    if (!take_window("max_pool", x, window, &options, site, &w)) return nt__failed();
    if (!side_by_side(&w)) return window_max(x, &w, site);
    nt_tensor blocks = blocks_of(x, &w, &inner, site);
    if (inner.rank == 0) return blocks;
    nt_tensor operands[] = {nt_reduce_max_at(blocks, inner, site), blocks};
    return nt__emit(NT__OP_first_max, site, (nt__type){0}, 2, operands, &(nt__attributes){.lists = {inner}});
}

/* Elements of each window that are no padding, with size 1 for samples and channels. */
static nt_tensor numbers_of(nt_tensor x, const nt__window *w, bool channels_first, nt_site site) {
    nt__type type = {nt_dtype_of(x), nt_shape_of(x)};
    type.shape.dims[0] = type.shape.dims[channels_first ? 1 : type.shape.rank - 1] = 1;
    return window_sum(nt__filled("avg_pool", type, 1, site), w, site);
}

nt_tensor nt_avg_pool_at(nt_tensor x, nt_shape window, nt_pool_options options, nt_site site) {
    nt__window w;
    nt_shape inner;
    if (!take_window("avg_pool", x, window, &options, site, &w)) return nt__failed();
    if (side_by_side(&w)) {
        nt_tensor blocks = blocks_of(x, &w, &inner, site);
        return inner.rank == 0 ? blocks : nt_mean_at(blocks, inner, site);
    }
    double number = 1;
    bool padded = false;
    for (int i = 0; i < w.size.rank; i++) {
        number *= (double)w.size.dims[i];
        padded = padded || w.low.dims[i] || w.high.dims[i];
    }
    nt_dtype dtype = nt_dtype_of(x);
    x = nt__widened(x, site);
    nt_tensor divisor = padded && !options.count_padding
                            ? numbers_of(x, &w, options.channels_first, site)
                            : nt__filled("avg_pool", (nt__type){nt_dtype_of(x), {0}}, number, site);
    return nt_convert_at(nt_div_at(window_sum(x, &w, site), divisor, site), dtype, site);
}

typedef nt_tensor (*pool)(nt_tensor x, nt_shape window, nt_pool_options options, nt_site site);

/* [n, positions..., c] to [n, c] */
static nt_tensor pool_all(const char *what, pool over, nt_tensor x, nt_site site) {
    const nt__node *node = nt__node_of(x, site, what);
    if (!node) return nt__failed();
    nt_shape shape = node->type.shape, all = {.rank = shape.rank - 2};
    if (all.rank < 1 || all.rank > NT_CONV_AXES || !nt_dtype_is_float(node->type.dtype)) {
        char text[NT__TYPE_TEXT];
        return nt__trace_fail(site, what,
                              "needs a floating tensor [samples, positions..., channels] with 1 to %d axes of "
                              "positions, got %s",
                              NT_CONV_AXES, nt__type_text(node->type, text));
    }
    for (int i = 0; i < all.rank; i++) all.dims[i] = shape.dims[i + 1];
    nt_tensor y = over(x, all, (nt_pool_options){0}, site);
    return nt__tensor_failed(y) ? y : nt_reshape_at(y, nt_dims(shape.dims[0], shape.dims[shape.rank - 1]), site);
}

nt_tensor nt_global_max_pool_at(nt_tensor x, nt_site site) {
    return pool_all("global_max_pool", nt_max_pool_at, x, site);
}

nt_tensor nt_global_avg_pool_at(nt_tensor x, nt_site site) {
    return pool_all("global_avg_pool", nt_avg_pool_at, x, site);
}
