/* Convolution: one general operation, whose gradients are convolutions again; the transposed one is the same operation
 * with a dilated input and a kernel that was turned around: by an operation of its own, for the engine has no fast
 * convolution that runs a kernel backwards.
 * Not here: pooling (pool.c).
 */
#include "graph/emit.h"
#include "graph/window.h"

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

/* From the first element to the last, of `count` elements that stand `step` apart. */
static int64_t span(int64_t count, int64_t step) {
    return count > 0 ? (count - 1) * step + 1 : 0;
}

/* The axis of a tensor that plays a part: a spatial axis, NT__SAMPLE or NT__CHANNEL. */
static int axis_of(nt_shape parts, int64_t part) {
    int axis = 0;
    while (parts.dims[axis] != part) axis++;
    return axis;
}

static int64_t size_of(const nt__node *node, nt_shape parts, int64_t part) {
    return node->type.shape.dims[axis_of(parts, part)];
}

/* Places of the window along a spatial axis; 0 or less when it does not fit. */
int64_t nt__window_places(const nt__window *w, int axis, int64_t size) {
    int64_t padded = span(size, w->base_dilation.dims[axis]) + w->low.dims[axis] + w->high.dims[axis];
    int64_t window = span(w->size.dims[axis], w->window_dilation.dims[axis]);
    return padded < window ? 0 : (padded - window) / w->stride.dims[axis] + 1;
}

bool nt__shape_conv(nt__node *node) {
    const nt__window *w = node->attributes.window;
    const nt__node *x = node->operands[0], *kernel = node->operands[1];
    node->type = (nt__type){x->type.dtype, {.rank = w->result.rank}};
    for (int axis = 0; axis < w->result.rank; axis++) {
        int64_t part = w->result.dims[axis], *size = &node->type.shape.dims[axis];
        if (part == NT__SAMPLE)
            *size = size_of(x, w->x, NT__SAMPLE);
        else if (part == NT__CHANNEL)
            *size = size_of(kernel, w->kernel, NT__CHANNEL);
        else
            *size = nt__window_places(w, (int)part, size_of(x, w->x, part));
    }
    return true;
}

/* The kernel run backwards. */
static nt_tensor backwards(nt_tensor kernel, const nt__window *w, nt_site site) {
    nt_shape axes = {0};
    for (int i = 0; i < w->kernel.rank; i++)
        if (w->kernel.dims[i] >= 0) axes.dims[axes.rank++] = i;
    return nt_flip_at(kernel, axes, site);
}

/* The engine's fast convolution is slow where each channel is by itself. It does not run a kernel backwards, so asking
 * for that, of a kernel that is backwards already, gets plain loops, which are a hundred times faster there. */
static bool has_single_channels(nt_tensor kernel, const nt__window *w) {
    return w->groups > 1 && nt_shape_of(kernel).dims[axis_of(w->kernel, NT__SAMPLE)] == 1;
}

/* Where the kernel is as large as the image the engine multiplies the two and sums, in all but f64, and forgets that
 * the kernel runs backwards. */
static bool covers_all(nt_tensor x, const nt__window *w) {
    for (int i = 0; i < w->size.rank; i++)
        if (nt_shape_of(x).dims[axis_of(w->x, i)] != w->size.dims[i] || w->low.dims[i] != 0 || w->high.dims[i] != 0)
            return false;
    return true;
}

/* Takes off the elements that a negative padding before cuts. With a padding after, the engine would read the memory
 * around the image for them. */
static nt_tensor cut_before(nt_tensor x, nt__window *w, nt_site site) {
    nt_shape start = {.rank = w->x.rank}, size = nt_shape_of(x);
    bool any = false;
    for (int i = 0; i < w->x.rank; i++) {
        int64_t part = w->x.dims[i];
        if (part < 0 || w->low.dims[part] >= 0 || size.dims[i] == 0) continue;
        int64_t step = w->base_dilation.dims[part], cut = (step - 1 - w->low.dims[part]) / step;
        if (cut >= size.dims[i]) {
            cut = size.dims[i];
            w->high.dims[part] -= step - 1; /* after the last element stand no zeros of the dilation */
        }
        w->low.dims[part] += cut * step;
        start.dims[i] = cut;
        any = true;
    }
    return any ? nt_slice_at(x, start, size, site) : x;
}

/* An engine exchanges image and kernel where that makes fewer products. It takes an axis for groups of channels where
 * the image is dilated by the size of the kernel, the stride is one less and nothing is padded, and ends the process
 * where the image along it has another size than the kernel. A kernel that runs backwards is not taken for groups. */
static bool exchange_would_fail(nt_tensor x, const nt__window *w) {
    bool fails = false;
    int64_t own = 1, exchanged = 1;
    for (int i = 0; i < w->size.rank; i++) {
        int64_t size = nt_shape_of(x).dims[axis_of(w->x, i)], kernel = w->size.dims[i], stride = w->stride.dims[i];
        int64_t low = w->low.dims[i], high = w->high.dims[i], dilation = w->base_dilation.dims[i];
        bool single = w->window_dilation.dims[i] == 1, plain = single && low == 0 && high == 0;
        bool groups = plain && dilation == kernel && stride == kernel - 1;
        if (groups || (plain && dilation == 1 && stride == 1 && size == kernel)) {
            fails = fails || size != kernel;
            continue;
        }
        bool spreads = single && size == 1 && stride == 1 && low == kernel - 1 && high == kernel - 1;
        own *= kernel;
        exchanged *= spreads ? kernel : size;
    }
    return fails && own > exchanged;
}

/* A convolution of nothing, or over nothing, is zeros, which need no operands. */
static nt_tensor convolve(nt_tensor x, nt_tensor kernel, nt__window window, nt_site site) {
    x = cut_before(x, &window, site);
    nt__window *kept = nt__trace_alloc(site, "conv", 1, sizeof *kept);
    if (!kept) return nt__failed();
    *kept = window;
    bool slow = has_single_channels(kernel, &window) && !covers_all(x, &window);
    kept->reversed = slow || exchange_would_fail(x, &window);
    if (kept->reversed) kernel = backwards(kernel, &window, site);
    nt_tensor y =
        nt__emit(NT__OP_conv, site, (nt__type){0}, 2, (nt_tensor[]){x, kernel}, &(nt__attributes){.window = kept});
    nt_shape shape = nt_shape_of(y);
    bool empty = nt_shape_elements(nt_shape_of(x)) == 0 || nt_shape_elements(nt_shape_of(kernel)) == 0 ||
                 nt_shape_elements(shape) == 0;
    return empty ? nt__filled("conv", (nt__type){nt_dtype_of(y), shape}, 0, site) : y;
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void print_parts(nt_shape parts, const char *sample, const char *channel, nt__text *text) {
    for (int i = 0; i < parts.rank; i++) {
        nt__text_put(text, i ? ", " : "[", i ? 2 : 1);
        if (parts.dims[i] >= 0)
            nt__text_add(text, "%d", (int)parts.dims[i]);
        else
            nt__text_add(text, "%s", parts.dims[i] == NT__SAMPLE ? sample : channel);
    }
    nt__text_put(text, "]", 1);
}

void nt__print_conv(const nt__node *node, nt__text *text) {
    const nt__window *w = node->attributes.window;
    nt__text_add(text, " <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<");
    print_parts(w->x, "b", "f", text);
    nt__text_put(text, "x", 1);
    print_parts(w->kernel, "i", "o", text);
    nt__text_put(text, "->", 2);
    print_parts(w->result, "b", "f", text);
    nt__text_add(text, ">, feature_group_count = %lld : i64, ", (long long)w->groups);
    nt__padding_print(w->low, w->high, text);
    nt__list_print("lhs_dilation", w->base_dilation, text);
    nt__list_print("rhs_dilation", w->window_dilation, text);
    nt__list_print("window_strides", w->stride, text);
    for (int i = 0; w->reversed && i < w->size.rank; i++)
        nt__text_add(text, i ? ", true" : ", window_reversal = array<i1: true");
    nt__text_add(text, w->reversed ? ">}>" : "}>");
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

/* The same axes with samples and channels (of a kernel: input and output channels) exchanged. */
static nt_shape exchanged(nt_shape parts) {
    for (int i = 0; i < parts.rank; i++)
        if (parts.dims[i] < 0) parts.dims[i] = NT__SAMPLE + NT__CHANNEL - parts.dims[i];
    return parts;
}

/* Takes the groups out of axis `from`, where they are the outer part, and makes them the outer part of axis `to`. */
static nt_tensor move_groups(nt_tensor x, int from, int to, int64_t groups, nt_site site) {
    if (groups == 1) return x;
    nt_shape shape = nt_shape_of(x), split = {0}, order = {0}, merged = shape;
    for (int i = 0; i < shape.rank; i++) {
        if (i == from) split.dims[split.rank++] = groups;
        split.dims[split.rank++] = i == from ? shape.dims[i] / groups : shape.dims[i];
    }
    for (int i = 0; i < shape.rank; i++) {
        if (i == to) order.dims[order.rank++] = from;
        order.dims[order.rank++] = i + (i >= from);
    }
    merged.dims[from] /= groups;
    merged.dims[to] *= groups;
    return nt_reshape_at(nt_transpose_at(nt_reshape_at(x, split, site), order, site), merged, site);
}

/* The padding after that makes the window stand at exactly `count` places. */
void nt__window_pad_for(nt__window *w, int axis, int64_t size, int64_t count) {
    w->high.dims[axis] = (count - 1) * w->stride.dims[axis] + span(w->size.dims[axis], w->window_dilation.dims[axis]) -
                         w->low.dims[axis] - span(size, w->base_dilation.dims[axis]);
}

/* Padding before of the convolution that runs the kernel the other way. */
int64_t nt__window_opposite_low(const nt__window *w, int axis) {
    return (w->size.dims[axis] - 1) * w->window_dilation.dims[axis] - w->low.dims[axis];
}

/* With respect to x: the cotangent, with the stride as its dilation, is convolved with the kernel run backwards. */
static nt_tensor x_cotangent(const nt__backward *b) {
    const nt__window *w = b->node->attributes.window;
    const nt__node *x = b->node->operands[0];
    nt__window back = *w;
    back.x = w->result;
    back.kernel = exchanged(w->kernel);
    back.result = w->x;
    back.stride = w->base_dilation;
    back.base_dilation = w->stride;
    for (int i = 0; i < w->size.rank; i++) {
        back.low.dims[i] = nt__window_opposite_low(w, i);
        nt__window_pad_for(&back, i, size_of(b->node, w->result, i), size_of(x, w->x, i));
    }
    nt_tensor kernel = w->reversed ? b->operands[1] : backwards(b->operands[1], w, b->site);
    kernel = move_groups(kernel, axis_of(w->kernel, NT__CHANNEL), axis_of(w->kernel, NT__SAMPLE), w->groups, b->site);
    return convolve(b->cotangent, kernel, back, b->site);
}

static bool has_base_dilation(const nt__window *w) {
    bool found = false;
    for (int i = 0; i < w->base_dilation.rank; i++) found = found || w->base_dilation.dims[i] > 1;
    return found;
}

/* With respect to the kernel: x is convolved with the cotangent, the samples being what is summed. Where x is dilated,
 * the cotangent is convolved with x, which gives the kernel backwards: a dilated window costs nothing, a dilated base
 * is as large as it looks. */
static nt_tensor kernel_cotangent(const nt__backward *b) {
    const nt__window *w = b->node->attributes.window;
    bool swapped = has_base_dilation(w);
    const nt__node *x = b->node->operands[0], *y = b->node, *kernel = b->node->operands[1];
    const nt__node *moved = swapped ? y : x, *still = swapped ? x : y;
    nt_shape moved_parts = swapped ? w->result : w->x, still_parts = swapped ? w->x : w->result;
    nt__window back = *w;
    back.x = exchanged(moved_parts);
    back.kernel = still_parts;
    back.result = swapped ? exchanged(w->kernel) : w->kernel;
    back.stride = w->window_dilation;
    back.base_dilation = swapped ? w->stride : w->base_dilation;
    back.window_dilation = swapped ? w->base_dilation : w->stride;
    for (int i = 0; i < w->size.rank; i++) {
        back.size.dims[i] = size_of(still, still_parts, i);
        if (swapped) back.low.dims[i] = nt__window_opposite_low(w, i);
        nt__window_pad_for(&back, i, size_of(moved, moved_parts, i), size_of(kernel, w->kernel, i));
    }
    nt_tensor base = move_groups(swapped ? b->cotangent : b->operands[0], axis_of(moved_parts, NT__CHANNEL),
                                 axis_of(moved_parts, NT__SAMPLE), w->groups, b->site);
    nt_tensor product = convolve(base, swapped ? b->operands[0] : b->cotangent, back, b->site);
    if (!swapped) return product;
    /* The groups are in the input channels, and belong into the output channels. */
    nt_tensor grouped =
        move_groups(product, axis_of(w->kernel, NT__SAMPLE), axis_of(w->kernel, NT__CHANNEL), w->groups, b->site);
    return backwards(grouped, w, b->site);
}

void nt__gradient_conv(const nt__backward *b, nt_tensor *out) {
    if (b->wanted[0]) out[0] = x_cotangent(b);
    if (b->wanted[1]) out[1] = kernel_cotangent(b);
    if (b->wanted[1] && b->node->attributes.window->reversed)
        out[1] = backwards(out[1], b->node->attributes.window, b->site);
}

/* ---- the user's convolution ------------------------------------------------------------------------------------- */

#define REFUSE(format, ...) (nt__trace_fail(site, what, format, __VA_ARGS__), false)

static nt_shape parts_of(int axes, int64_t first, int64_t second, bool spatial_first) {
    nt_shape parts = {0};
    if (!spatial_first) parts.dims[parts.rank++] = first;
    if (!spatial_first && second) parts.dims[parts.rank++] = second;
    for (int i = 0; i < axes; i++) parts.dims[parts.rank++] = i;
    return parts;
}

static void name_axes(nt__window *w, int axes, bool channels_first) {
    if (channels_first) {
        w->x = w->result = parts_of(axes, NT__SAMPLE, NT__CHANNEL, false);
        w->kernel = parts_of(axes, NT__CHANNEL, NT__SAMPLE, false);
        return;
    }
    w->x = parts_of(axes, NT__SAMPLE, 0, false);
    w->x.dims[w->x.rank++] = NT__CHANNEL;
    w->result = w->x;
    w->kernel = parts_of(axes, 0, 0, true);
    w->kernel.dims[w->kernel.rank++] = NT__SAMPLE;
    w->kernel.dims[w->kernel.rank++] = NT__CHANNEL;
}

static bool types_are_right(const char *what, const nt__node *x, const nt__node *kernel, int axes, nt_site site) {
    char text[NT__TYPE_TEXT], kernel_text[NT__TYPE_TEXT];
    if (!nt__type_floating(site, what, x->type)) return false;
    if (x->type.dtype != kernel->type.dtype)
        return REFUSE("%s and kernel %s: element types differ; nt_convert makes them equal",
                      nt__type_text(x->type, text), nt__type_text(kernel->type, kernel_text));
    if (axes < 1 || axes > NT_CONV_AXES) return REFUSE("%d spatial axes: there are 1 to %d", axes, NT_CONV_AXES);
    if (x->type.shape.rank == axes + 2 && kernel->type.shape.rank == axes + 2) return true;
    return REFUSE("%s and kernel %s: with %d spatial axes both have %d axes", nt__type_text(x->type, text),
                  nt__type_text(kernel->type, kernel_text), axes, axes + 2);
}

static bool channels_are_right(const char *what, const nt__node *x, const nt__node *kernel, const nt__window *w,
                               nt_site site) {
    int64_t own = size_of(x, w->x, NT__CHANNEL), in = size_of(kernel, w->kernel, NT__SAMPLE);
    int64_t out = size_of(kernel, w->kernel, NT__CHANNEL);
    if (w->groups < 1 || own % w->groups || out % w->groups)
        return REFUSE("%lld groups do not divide %lld input and %lld output channels", (long long)w->groups,
                      (long long)own, (long long)out);
    if (own / w->groups == in) return true;
    return REFUSE("%lld input channels in %lld groups need a kernel of %lld input channels, it has %lld",
                  (long long)own, (long long)w->groups, (long long)(own / w->groups), (long long)in);
}

/* Padding that gives ceil(size / stride) places, the odd element after. */
void nt__window_pad_same(nt__window *w, int axis, int64_t size) {
    int64_t wide = span(size, w->base_dilation.dims[axis]), stride = w->stride.dims[axis];
    int64_t window = span(w->size.dims[axis], w->window_dilation.dims[axis]);
    int64_t missing = (wide + stride - 1) / stride * stride - stride + window - wide;
    if (missing < 0) missing = 0;
    w->low.dims[axis] = missing / 2;
    w->high.dims[axis] = missing - missing / 2;
}

/* Spans that could overflow are refused before anything is computed of them. */
static bool spans_are_possible(const char *what, const nt__node *x, const nt__window *w, nt_site site) {
    for (int i = 0; i < w->size.rank; i++) {
        int64_t size = size_of(x, w->x, i), span_of[2], most = INT64_MAX / 8;
        if (__builtin_mul_overflow(size, w->base_dilation.dims[i], &span_of[0]) || span_of[0] > most ||
            __builtin_mul_overflow(w->size.dims[i], w->window_dilation.dims[i], &span_of[1]) || span_of[1] > most)
            return REFUSE("spatial axis %d: %lld elements with dilation %lld and a kernel of %lld with dilation %lld "
                          "are too wide",
                          i, (long long)size, (long long)w->base_dilation.dims[i], (long long)w->size.dims[i],
                          (long long)w->window_dilation.dims[i]);
    }
    return true;
}

static bool windows_fit(const char *what, const nt__node *x, const nt__window *w, nt_site site) {
    for (int i = 0; i < w->size.rank; i++) {
        int64_t size = size_of(x, w->x, i);
        if (nt__window_places(w, i, size) < 1)
            return REFUSE("spatial axis %d: a kernel of %lld with dilation %lld does not fit into %lld elements with "
                          "dilation %lld and padding [%lld,%lld]",
                          i, (long long)w->size.dims[i], (long long)w->window_dilation.dims[i], (long long)size,
                          (long long)w->base_dilation.dims[i], (long long)w->low.dims[i], (long long)w->high.dims[i]);
    }
    return true;
}

static void take_kernel_size(const nt__node *kernel, int axes, nt__window *w) {
    w->size.rank = axes;
    for (int i = 0; i < axes; i++) w->size.dims[i] = size_of(kernel, w->kernel, i);
}

/* ---- convolutions that are faster as a product ------------------------------------------------------------------ */

/* The engines' kernels are slow for images of one channel, and in the gradient of those with a stride, where they also
 * multiply the zeros in between. The product of the elements of the windows with the kernel is not. It is taken where
 * it has no more elements than the image, or few. */
enum { MOST_PATCHES = 25 };

static bool patches_are_faster(const nt__node *x, const nt__node *kernel, const nt__window *w, int axes) {
    if (axes != 2 || w->x.dims[0] != NT__SAMPLE || w->x.dims[3] != NT__CHANNEL || w->groups != 1) return false;
    if (x->type.dtype != NT_F32 && x->type.dtype != NT_F64) return false;
    for (int i = 0; i < axes; i++)
        if (w->base_dilation.dims[i] != 1 || w->window_dilation.dims[i] != 1) return false;
    int64_t taps = w->size.dims[0] * w->size.dims[1], channels = x->type.shape.dims[3];
    bool is_gray = channels == 1 && taps > 1 && taps <= MOST_PATCHES && kernel->type.shape.dims[3] > 1;
    return (taps == 1 || is_gray) && nt_shape_elements(x->type.shape) > 0;
}

/* [n, h', w', taps * channels]: each element of the windows. */
static nt_tensor patches_of(nt_tensor x, const nt__window *w, nt_site site) {
    const int64_t *low = w->low.dims, *high = w->high.dims, *stride = w->stride.dims;
    nt_shape size = nt_shape_of(x);
    int64_t rows = nt__window_places(w, 0, size.dims[1]), columns = nt__window_places(w, 1, size.dims[2]);
    nt_tensor padded =
        nt_pad_at(x, nt_dims(0, low[0], low[1], 0), nt_dims(0, high[0], high[1], 0), nt_tensor_number(0), site);
    nt_tensor patches[MOST_PATCHES];
    int taps = 0;
    for (int64_t i = 0; i < w->size.dims[0]; i++)
        for (int64_t k = 0; k < w->size.dims[1]; k++)
            patches[taps++] = nt_slice_strided_at(
                padded, nt_dims(0, i, k, 0),
                nt_dims(size.dims[0], i + (rows - 1) * stride[0] + 1, k + (columns - 1) * stride[1] + 1, size.dims[3]),
                nt_dims(1, stride[0], stride[1], 1), site);
    return nt_concatenate_at(patches, taps, 3, site);
}

static nt_tensor convolve_patches(nt_tensor x, nt_tensor kernel, const nt__window *w, nt_site site) {
    nt_shape size = nt_shape_of(kernel);
    nt_tensor matrix = nt_reshape_at(kernel, nt_dims(size.dims[0] * size.dims[1] * size.dims[2], size.dims[3]), site);
    return nt_matmul_at(patches_of(x, w, site), matrix, site);
}

nt_tensor nt_conv_at(nt_tensor x, nt_tensor kernel, int axes, nt_conv_options options, nt_site site) {
    const char *what = "conv";
    const nt__node *node = nt__node_of(x, site, what), *kernel_node = nt__node_of(kernel, site, what);
    if (!node || !kernel_node || !types_are_right(what, node, kernel_node, axes, site)) return nt__failed();
    nt__window w = {.groups = options.groups ? options.groups : 1};
    name_axes(&w, axes, options.channels_first);
    take_kernel_size(kernel_node, axes, &w);
    const nt__list_options call = {what, options.written, axes, site};
    bool right = nt__list_numbers(&call, "stride", options.stride, 1, &w.stride) &&
                 nt__list_numbers(&call, "dilation", options.dilation, 1, &w.window_dilation) &&
                 nt__list_numbers(&call, "input dilation", options.input_dilation, 1, &w.base_dilation) &&
                 nt__list_padding(&call, (const int64_t(*)[2])options.pad, options.same, &w.low, &w.high) &&
                 channels_are_right(what, node, kernel_node, &w, site) && spans_are_possible(what, node, &w, site);
    for (int i = 0; right && options.same && i < axes; i++) nt__window_pad_same(&w, i, size_of(node, w.x, i));
    if (!right || !windows_fit(what, node, &w, site)) return nt__failed();
    if (patches_are_faster(node, kernel_node, &w, axes)) return convolve_patches(x, kernel, &w, site);
    return convolve(x, kernel, w, site);
}

nt_tensor nt_conv_transposed_at(nt_tensor x, nt_tensor kernel, int axes, nt_conv_transposed_options options,
                                nt_site site) {
    const char *what = "conv_transposed";
    const nt__node *node = nt__node_of(x, site, what), *kernel_node = nt__node_of(kernel, site, what);
    if (!node || !kernel_node || !types_are_right(what, node, kernel_node, axes, site)) return nt__failed();
    nt__window w = {.groups = options.groups ? options.groups : 1};
    name_axes(&w, axes, options.channels_first);
    take_kernel_size(kernel_node, axes, &w);
    static const int64_t none[NT_CONV_AXES];
    const nt__list_options call = {what, options.written, axes, site};
    nt_shape more;
    bool right = nt__list_numbers(&call, "stride", none, 1, &w.stride) &&
                 nt__list_numbers(&call, "dilation", options.dilation, 1, &w.window_dilation) &&
                 nt__list_numbers(&call, "stride", options.stride, 1, &w.base_dilation) &&
                 nt__list_padding(&call, (const int64_t(*)[2])options.pad, false, &w.low, &w.high) &&
                 nt__list_output_padding(&call, options.output_padding, &more) &&
                 channels_are_right(what, node, kernel_node, &w, site) && spans_are_possible(what, node, &w, site);
    for (int i = 0; right && i < axes; i++) {
        int64_t extra = more.dims[i];
        if (extra < 0 || extra >= w.base_dilation.dims[i])
            right = REFUSE("output padding %lld of spatial axis %d must be at least 0 and less than the stride %lld",
                           (long long)extra, i, (long long)w.base_dilation.dims[i]);
        int64_t low = nt__window_opposite_low(&w, i);
        w.high.dims[i] = low + w.low.dims[i] - w.high.dims[i] + extra;
        w.low.dims[i] = low;
    }
    if (!right || !windows_fit(what, node, &w, site)) return nt__failed();
    return convolve(x, backwards(kernel, &w, site), w, site);
}
