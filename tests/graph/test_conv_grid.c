/* Convolutions, transposed ones too, with random strides, dilations, groups, paddings and layouts, in one to three
 * dimensions and in every floating type: the value, the gradients and the gradients of those, against sums written out
 * here. No case may end the process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "graph/emit.h"
#include "grid.h"
#include "nitro/gradient.h"

/* ---- a case ----------------------------------------------------------------------------------------------------- */

enum { AXES = NT_CONV_AXES };

typedef struct conv_case {
    nt_dtype dtype;
    int axes;
    bool transposed, channels_first;
    int64_t samples, groups, in, out; /* channels of one group */
    int64_t size[AXES], kernel[AXES], stride[AXES], dilation[AXES], input_dilation[AXES], pad[AXES][2], extra[AXES];
    int64_t places[AXES]; /* of the result */
} conv_case;

static int64_t span(int64_t count, int64_t step) {
    return (count - 1) * step + 1;
}

static int64_t places_of(const conv_case *c, int i) {
    int64_t window = span(c->kernel[i], c->dilation[i]), pad = c->pad[i][0] + c->pad[i][1];
    if (c->transposed) return (c->size[i] - 1) * c->stride[i] - pad + window + c->extra[i];
    int64_t wide = span(c->size[i], c->input_dilation[i]) + pad;
    return wide < window ? 0 : (wide - window) / c->stride[i] + 1;
}

static void draw_axis(conv_case *c, int i, bool plain, grid_random *random) {
    bool used = i < c->axes;
    c->size[i] = used ? grid_from_to(random, 1, 7) : 1;
    c->kernel[i] = used ? grid_from_to(random, 1, 4) : 1;
    c->stride[i] = used ? grid_from_to(random, 1, 3) : 1;
    c->dilation[i] = used && !plain ? grid_from_to(random, 1, 3) : 1;
    c->input_dilation[i] = used && !plain && !c->transposed && grid_next(random) % 2 ? grid_from_to(random, 1, 3) : 1;
    for (int end = 0; end < 2; end++) c->pad[i][end] = used ? grid_from_to(random, plain ? 0 : -2, 3) : 0;
    c->extra[i] = used && c->transposed ? grid_from_to(random, 0, c->stride[i] - 1) : 0;
    c->places[i] = places_of(c, i);
}

/* Those that ended the process: the engine took an axis with a dilation for groups of channels. */
#define STRIDE_OF_THE_KERNEL                                                                                     \
    .axes = 2, .samples = 4, .size = {6, 3, 1}, .kernel = {2, 2, 1}, .stride = {2, 1, 1}, .dilation = {1, 2, 1}, \
    .input_dilation = {1, 1, 1}, .pad = {{1, 1}}
#define NO_STEPS .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .input_dilation = {1, 1, 1}
static const conv_case known[] = {
    {.dtype = NT_F64, .groups = 2, .in = 1, .out = 2, STRIDE_OF_THE_KERNEL},
    {.dtype = NT_F32, .groups = 1, .in = 2, .out = 4, STRIDE_OF_THE_KERNEL},
    {.dtype = NT_BF16, .groups = 1, .in = 2, .out = 3, .channels_first = true, STRIDE_OF_THE_KERNEL},
    /* A kernel that runs backwards and covers the image, here in a gradient and then in the convolution itself. */
    {.dtype = NT_F32,
     .groups = 2,
     .in = 1,
     .out = 2,
     .axes = 1,
     .samples = 1,
     NO_STEPS,
     .size = {2, 1, 1},
     .kernel = {1, 1, 1},
     .pad = {{2, 0}}},
    {.dtype = NT_BF16,
     .groups = 2,
     .in = 1,
     .out = 2,
     .axes = 1,
     .samples = 1,
     NO_STEPS,
     .size = {2, 1, 1},
     .kernel = {1, 1, 1},
     .pad = {{2, 0}}},
    {.dtype = NT_F32,
     .groups = 3,
     .in = 1,
     .out = 1,
     .axes = 1,
     .samples = 2,
     NO_STEPS,
     .size = {3, 1, 1},
     .kernel = {3, 1, 1}},
    {.dtype = NT_F32,
     .groups = 2,
     .in = 1,
     .out = 1,
     .axes = 2,
     .samples = 2,
     NO_STEPS,
     .size = {3, 2, 1},
     .kernel = {3, 2, 1}},
    {.dtype = NT_F16,
     .groups = 2,
     .in = 1,
     .out = 2,
     .axes = 2,
     .samples = 1,
     NO_STEPS,
     .size = {3, 4, 1},
     .kernel = {3, 2, 1}},
    {.dtype = NT_F32,
     .groups = 2,
     .in = 1,
     .out = 1,
     .axes = 2,
     .samples = 1,
     NO_STEPS,
     .size = {3, 1, 1},
     .kernel = {3, 1, 1},
     .pad = {{0, 0}, {1, 1}}},
    {.dtype = NT_F32,
     .groups = 2,
     .in = 1,
     .out = 1,
     .axes = 1,
     .samples = 1,
     NO_STEPS,
     .size = {2, 1, 1},
     .kernel = {3, 1, 1},
     .pad = {{1, 0}}},
    {.dtype = NT_F32,
     .groups = 2,
     .in = 1,
     .out = 1,
     .axes = 1,
     .samples = 1,
     .size = {2, 1, 1},
     .kernel = {2, 1, 1},
     .stride = {1, 1, 1},
     .dilation = {2, 1, 1},
     .input_dilation = {2, 1, 1}},
};
enum { KNOWN = sizeof known / sizeof *known };

/* Axis 0 as such groups would have it, in the convolution or in the gradient of its image. */
static void make_like_groups(conv_case *c, bool in_gradient, grid_random *random) {
    int64_t kernel = grid_from_to(random, 2, 3);
    c->kernel[0] = kernel;
    c->dilation[0] = 1;
    c->stride[0] = in_gradient ? kernel : kernel - 1;
    c->input_dilation[0] = in_gradient ? kernel - 1 : kernel;
    c->pad[0][0] = c->pad[0][1] = in_gradient ? kernel - 1 : 0;
    c->size[0] = in_gradient ? kernel * grid_from_to(random, 1, 3) : grid_from_to(random, 1, 7);
    c->places[0] = places_of(c, 0);
}

static conv_case case_of(size_t index) {
    static const nt_dtype floating[] = {NT_F32, NT_F64, NT_BF16, NT_F16};
    grid_random random = grid_begin(index);
    conv_case c;
    if (index < KNOWN) {
        c = known[index];
        for (int i = 0; i < AXES; i++) c.places[i] = places_of(&c, i);
        return c;
    }
    do {
        c = (conv_case){.dtype = floating[index % 4], .axes = (int)grid_from_to(&random, 1, 3)};
        c.transposed = grid_next(&random) % 4 == 0;
        c.channels_first = grid_next(&random) % 4 == 0;
        c.samples = grid_from_to(&random, 1, 2);
        c.groups = grid_next(&random) % 2 ? 1 : grid_from_to(&random, 1, 3);
        c.in = grid_from_to(&random, 1, 3);
        c.out = grid_from_to(&random, 1, 3);
        bool plain = grid_next(&random) % 4 == 0;
        for (int i = 0; i < AXES; i++) draw_axis(&c, i, plain, &random);
        bool like_groups = !c.transposed && grid_next(&random) % 5 == 0;
        if (like_groups) make_like_groups(&c, grid_next(&random) % 2 == 0, &random);
    } while (c.places[0] < 1 || c.places[1] < 1 || c.places[2] < 1);
    return c;
}

static void describe_axes(const char *name, const int64_t *numbers, int axes, FILE *to) {
    fprintf(to, ", %s", name);
    for (int i = 0; i < axes; i++) fprintf(to, " %lld", (long long)numbers[i]);
}

static void describe(size_t index, FILE *to) {
    conv_case c = case_of(index);
    fprintf(to, "conv%s of %s, samples %lld, groups %lld of %lld in and %lld out%s", c.transposed ? " transposed" : "",
            nt_dtype_name(c.dtype), (long long)c.samples, (long long)c.groups, (long long)c.in, (long long)c.out,
            c.channels_first ? ", channels first" : "");
    describe_axes("size", c.size, c.axes, to);
    describe_axes("kernel", c.kernel, c.axes, to);
    describe_axes("stride", c.stride, c.axes, to);
    describe_axes("dilation", c.dilation, c.axes, to);
    describe_axes("input dilation", c.input_dilation, c.axes, to);
    describe_axes("padding", c.pad[0], 2 * c.axes, to);
    describe_axes("extra", c.extra, c.axes, to);
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static nt_shape image_shape(const conv_case *c, const int64_t *size, int64_t channels) {
    nt_shape shape = {.rank = c->axes + 2};
    shape.dims[0] = c->samples;
    for (int i = 0; i < c->axes; i++) shape.dims[i + 1 + c->channels_first] = size[i];
    shape.dims[c->channels_first ? 1 : c->axes + 1] = channels;
    return shape;
}

static nt_shape kernel_shape(const conv_case *c) {
    nt_shape shape = {.rank = c->axes + 2};
    for (int i = 0; i < c->axes; i++) shape.dims[c->channels_first ? i + 2 : i] = c->kernel[i];
    shape.dims[c->channels_first ? 1 : c->axes] = c->in;
    shape.dims[c->channels_first ? 0 : c->axes + 1] = c->out * c->groups;
    return shape;
}

static int64_t at(const int64_t *size, const int64_t *place) {
    return (place[0] * size[1] + place[1]) * size[2] + place[2];
}

static int64_t all(const int64_t *size) {
    return size[0] * size[1] * size[2];
}

static int64_t image_at(const conv_case *c, const int64_t *size, int64_t channels, int64_t n, int64_t channel,
                        const int64_t *place) {
    if (c->channels_first) return (n * channels + channel) * all(size) + at(size, place);
    return (n * all(size) + at(size, place)) * channels + channel;
}

static int64_t kernel_at(const conv_case *c, int64_t in, int64_t out, const int64_t *place) {
    if (c->channels_first) return (out * c->in + in) * all(c->kernel) + at(c->kernel, place);
    return (at(c->kernel, place) * c->in + in) * c->out * c->groups + out;
}

/* ---- the sums, written out -------------------------------------------------------------------------------------- */

enum { X, KERNEL, C, U, V, INPUTS }; /* U and V: cotangents of the gradients */
enum { Y, X_BAR, KERNEL_BAR, X_2, KERNEL_2, C_2, RESULTS };

typedef struct sums {
    double *in[INPUTS], *value[RESULTS], *size[RESULTS]; /* size: of absolute values */
} sums;

static void add(sums *s, int result, int64_t index, double value) {
    s->value[result][index] += value;
    s->size[result][index] += fabs(value);
}

/* One product of the convolution: x[i] times kernel[k] is a part of y[o]. All else follows from it. */
static void add_product(sums *s, int64_t i, int64_t k, int64_t o) {
    add(s, Y, o, s->in[X][i] * s->in[KERNEL][k]);
    add(s, X_BAR, i, s->in[C][o] * s->in[KERNEL][k]);
    add(s, KERNEL_BAR, k, s->in[C][o] * s->in[X][i]);
    add(s, X_2, i, s->in[C][o] * s->in[V][k]);
    add(s, KERNEL_2, k, s->in[C][o] * s->in[U][i]);
    add(s, C_2, o, s->in[U][i] * s->in[KERNEL][k]);
    add(s, C_2, o, s->in[X][i] * s->in[V][k]);
}

/* The place of x that the kernel meets at `k` when it stands at `p` of the result; -1: none. */
static int64_t met(const conv_case *c, int i, int64_t p, int64_t k) {
    int64_t way =
        c->transposed ? p + c->pad[i][0] - k * c->dilation[i] : p * c->stride[i] + k * c->dilation[i] - c->pad[i][0];
    int64_t step = c->transposed ? c->stride[i] : c->input_dilation[i];
    return way < 0 || way % step || way / step >= c->size[i] ? -1 : way / step;
}

static bool next_place(int64_t *place, const int64_t *size) {
    for (int i = AXES; i-- > 0;) {
        if (++place[i] < size[i]) return true;
        place[i] = 0;
    }
    return false;
}

static void add_channels(const conv_case *c, sums *s, const int64_t *from, const int64_t *k, const int64_t *p) {
    for (int64_t n = 0; n < c->samples; n++)
        for (int64_t o = 0; o < c->out * c->groups; o++)
            for (int64_t channel = 0; channel < c->in; channel++)
                add_product(s, image_at(c, c->size, c->in * c->groups, n, o / c->out * c->in + channel, from),
                            kernel_at(c, channel, o, k), image_at(c, c->places, c->out * c->groups, n, o, p));
}

static void add_all(const conv_case *c, sums *s) {
    int64_t p[AXES] = {0};
    do {
        int64_t k[AXES] = {0};
        do {
            int64_t from[AXES];
            for (int i = 0; i < AXES; i++) from[i] = met(c, i, p[i], k[i]);
            if (from[0] >= 0 && from[1] >= 0 && from[2] >= 0) add_channels(c, s, from, k, p);
        } while (next_place(k, c->kernel));
    } while (next_place(p, c->places));
}

/* ---- the engine's ----------------------------------------------------------------------------------------------- */

static nt_tensor build(const conv_case *c, nt_tensor x, nt_tensor kernel) {
    nt_conv_options options = {.groups = c->groups, .channels_first = c->channels_first};
    nt_conv_transposed_options other = {.groups = c->groups, .channels_first = c->channels_first};
    for (int i = 0; i < c->axes; i++) {
        options.stride[i] = other.stride[i] = c->stride[i];
        options.dilation[i] = other.dilation[i] = c->dilation[i];
        options.input_dilation[i] = c->input_dilation[i];
        other.output_padding[i] = c->extra[i];
        for (int end = 0; end < 2; end++) options.pad[i][end] = other.pad[i][end] = c->pad[i][end];
    }
    return c->transposed ? nt_conv_transposed_at(x, kernel, c->axes, other, NT_SITE)
                         : nt_conv_at(x, kernel, c->axes, options, NT_SITE);
}

static void trace(const conv_case *c, const nt_shape *shapes, nt__result *results) {
    nt_tensor in[INPUTS], bar[2], second[3];
    for (int i = 0; i < INPUTS; i++) in[i] = traced_input(i, (nt__type){c->dtype, shapes[i]});
    nt_tensor y = build(c, in[X], in[KERNEL]);
    nt_grads_at(nt_sum(nt_mul(y, in[C])), in, 2, bar, NT_SITE);
    nt_tensor both = nt_add(nt_sum(nt_mul(bar[0], in[U])), nt_sum(nt_mul(bar[1], in[V])));
    nt_grads_at(both, in, 3, second, NT_SITE);
    const nt_tensor values[RESULTS] = {y, bar[0], bar[1], second[0], second[1], second[2]};
    for (int i = 0; i < RESULTS; i++) results[i] = (nt__result){"result", values[i], {0}};
}

static bool compare(const conv_case *c, const sums *s, nt_array *const *got) {
    static const char *const names[] = {"the value",
                                        "the gradient of x",
                                        "the gradient of the kernel",
                                        "the second gradient of x",
                                        "the second gradient of the kernel",
                                        "the second gradient of the cotangent"};
    static const double bounds[] = {[NT_F32] = 1e-5, [NT_F64] = 1e-13, [NT_BF16] = 2e-2, [NT_F16] = 3e-3};
    for (int r = 0; r < RESULTS; r++)
        for (int64_t i = 0; i < nt_shape_elements(got[r]->shape); i++) {
            double a = nt_array_get(got[r], i), b = s->value[r][i];
            if (fabs(a - b) <= bounds[c->dtype] * s->size[r][i]) continue;
            fprintf(stderr, "%s, element %lld: %.9g, right is %.9g\n", names[r], (long long)i, a, b);
            return false;
        }
    return true;
}

static nt_array *drawn(nt_dtype dtype, nt_shape shape, grid_random *random) {
    nt_array *array = nt_array_new(dtype, shape);
    assert_non_null(array);
    for (int64_t i = 0; i < nt_shape_elements(shape); i++)
        nt_array_set(array, i, (double)grid_from_to(random, -64, 64) / 32);
    return array;
}

static bool run(size_t index) {
    conv_case c = case_of(index);
    grid_random random = grid_begin(index + 1000000);
    nt_shape x = image_shape(&c, c.size, c.in * c.groups), kernel = kernel_shape(&c);
    nt_shape shapes[INPUTS] = {x, kernel, image_shape(&c, c.places, c.out * c.groups), x, kernel};
    const int like[RESULTS] = {C, X, KERNEL, X, KERNEL, C};
    nt_array *arrays[INPUTS], *got[RESULTS];
    sums s = {.in = {0}};
    for (int i = 0; i < INPUTS; i++) {
        arrays[i] = drawn(c.dtype, shapes[i], &random);
        s.in[i] = calloc((size_t)nt_shape_elements(shapes[i]), sizeof(double));
        for (int64_t e = 0; e < nt_shape_elements(shapes[i]); e++) s.in[i][e] = nt_array_get(arrays[i], e);
    }
    for (int r = 0; r < RESULTS; r++) {
        s.value[r] = calloc((size_t)nt_shape_elements(shapes[like[r]]), sizeof(double));
        s.size[r] = calloc((size_t)nt_shape_elements(shapes[like[r]]), sizeof(double));
    }
    add_all(&c, &s);
    nt__graph *graph = nt__trace_begin();
    nt__result results[RESULTS];
    trace(&c, shapes, results);
    assert_ok(nt__trace_status(graph));
    for (int r = 0; r < RESULTS; r++) assert_true(nt_shape_equal(nt_shape_of(results[r].value), shapes[like[r]]));
    traced program = traced_compile(traced_engine(), results, RESULTS);
    nt__trace_end(graph);
    traced_run(&program, arrays, got);
    traced_free(&program);
    bool right = compare(&c, &s, got);
    for (int i = 0; i < INPUTS; i++) nt_array_free(arrays[i]), free(s.in[i]);
    for (int r = 0; r < RESULTS; r++) nt_array_free(got[r]), free(s.value[r]), free(s.size[r]);
    return right;
}

int main(int argc, char **argv) {
    return grid_main(&(grid){24, run, describe}, argc, argv);
}
