/* Whole numbers, of which many are equal: which of equal elements gets the gradient, comes first or counts, as the
 * headers say it, against loops written out here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "graph/emit.h"
#include "grid.h"
#include "nitro/gradient.h"

/* ---- pooling ---------------------------------------------------------------------------------------------------- */

enum { AXES = NT_CONV_AXES, POOLS = 12, RUNS = 18, MOST = 2 * 2 * 7 * 7 * 7 };

typedef struct pool_case {
    nt_dtype dtype;
    int axes;
    bool channels_first, lowest; /* lowest: some elements are -infinity, as padding is */
    int64_t samples, channels, size[AXES], window[AXES], stride[AXES], pad[AXES][2], places[AXES];
} pool_case;

static pool_case draw_pool(grid_random *random) {
    pool_case c = {.dtype = grid_next(random) % 2 ? NT_F32 : NT_F64, .axes = (int)grid_from_to(random, 1, 3)};
    c.channels_first = grid_next(random) % 2;
    c.lowest = grid_next(random) % 8 == 0;
    c.samples = grid_from_to(random, 1, 2);
    c.channels = grid_from_to(random, 1, 2);
    for (int i = 0; i < AXES; i++) {
        bool used = i < c.axes;
        c.size[i] = used ? grid_from_to(random, 2, 6) : 1;
        c.window[i] = used ? grid_from_to(random, 1, 3) : 1;
        c.stride[i] = used ? grid_from_to(random, 1, 3) : 1;
        for (int end = 0; end < 2; end++) c.pad[i][end] = used ? grid_from_to(random, 0, c.window[i] - 1) : 0;
        int64_t wide = c.size[i] + c.pad[i][0] + c.pad[i][1];
        if (wide < c.window[i]) return draw_pool(random);
        c.places[i] = (wide - c.window[i]) / c.stride[i] + 1;
    }
    return c;
}

static nt_shape pool_shape(const pool_case *c, const int64_t *size) {
    nt_shape shape = {.rank = c->axes + 2};
    shape.dims[0] = c->samples;
    for (int i = 0; i < c->axes; i++) shape.dims[i + 1 + c->channels_first] = size[i];
    shape.dims[c->channels_first ? 1 : c->axes + 1] = c->channels;
    return shape;
}

static int64_t pool_at(const pool_case *c, const int64_t *size, int64_t n, int64_t channel, const int64_t *place) {
    int64_t at = (place[0] * size[1] + place[1]) * size[2] + place[2], all = size[0] * size[1] * size[2];
    return c->channels_first ? (n * c->channels + channel) * all + at : (n * all + at) * c->channels + channel;
}

static bool next_place(int64_t *place, const int64_t *size) {
    for (int i = AXES; i-- > 0;) {
        if (++place[i] < size[i]) return true;
        place[i] = 0;
    }
    return false;
}

/* The first of the largest elements of the window at `p`. */
static int64_t first_largest(const pool_case *c, const double *x, int64_t n, int64_t channel, const int64_t *p) {
    int64_t k[AXES] = {0}, best = -1;
    do {
        int64_t from[AXES];
        bool inside = true;
        for (int i = 0; i < AXES; i++) {
            from[i] = p[i] * c->stride[i] + k[i] - c->pad[i][0];
            inside = inside && from[i] >= 0 && from[i] < c->size[i];
        }
        int64_t at = inside ? pool_at(c, c->size, n, channel, from) : -1;
        if (inside && (best < 0 || x[at] > x[best])) best = at;
    } while (next_place(k, c->window));
    return best;
}

static void pool_gradient(const pool_case *c, const double *x, const double *cotangent, double *value, double *out) {
    for (int64_t n = 0; n < c->samples; n++)
        for (int64_t channel = 0; channel < c->channels; channel++) {
            int64_t p[AXES] = {0};
            do {
                int64_t best = first_largest(c, x, n, channel, p), at = pool_at(c, c->places, n, channel, p);
                value[at] = x[best];
                out[best] += cotangent[at];
            } while (next_place(p, c->places));
        }
}

static nt_tensor build_pool(const pool_case *c, nt_tensor x) {
    nt_pool_options options = {.channels_first = c->channels_first};
    nt_shape window = {.rank = c->axes};
    for (int i = 0; i < c->axes; i++) {
        window.dims[i] = c->window[i];
        options.stride[i] = c->stride[i];
        for (int end = 0; end < 2; end++) options.pad[i][end] = c->pad[i][end];
    }
    return nt_max_pool_at(x, window, options, NT_SITE);
}

static nt_array *whole_numbers(nt_dtype dtype, nt_shape shape, bool lowest, grid_random *random) {
    nt_array *array = nt_array_new(dtype, shape);
    assert_non_null(array);
    for (int64_t i = 0; i < nt_shape_elements(shape); i++) {
        int64_t number = grid_from_to(random, -2, 1);
        nt_array_set(array, i, lowest && number < 0 ? -HUGE_VAL : (double)number);
    }
    return array;
}

static void elements_of(const nt_array *array, double *out) {
    for (int64_t i = 0; i < nt_shape_elements(array->shape); i++) out[i] = nt_array_get(array, i);
}

static bool same(const char *what, const nt_array *got, const double *right) {
    for (int64_t i = 0; i < nt_shape_elements(got->shape); i++) {
        double is = nt_array_get(got, i);
        if (is == right[i] || (isnan(is) && isnan(right[i]))) continue;
        fprintf(stderr, "%s, element %lld: %g, right is %g\n", what, (long long)i, is, right[i]);
        return false;
    }
    return true;
}

static void describe_pool(const pool_case *c) {
    fprintf(stderr, "  of %s%s:", nt_dtype_name(c->dtype), c->channels_first ? ", channels first" : "");
    for (int i = 0; i < c->axes; i++)
        fprintf(stderr, " size %lld, window %lld, stride %lld, padding %lld %lld;", (long long)c->size[i],
                (long long)c->window[i], (long long)c->stride[i], (long long)c->pad[i][0], (long long)c->pad[i][1]);
    fprintf(stderr, "\n");
}

static bool pools(size_t index) {
    grid_random random = grid_begin(index);
    pool_case cases[POOLS];
    nt_array *arrays[2 * POOLS], *got[2 * POOLS] = {NULL};
    nt__result results[2 * POOLS];
    nt__graph *graph = nt__trace_begin();
    for (int i = 0; i < POOLS; i++) {
        const pool_case c = cases[i] = draw_pool(&random);
        arrays[2 * i] = whole_numbers(c.dtype, pool_shape(&c, c.size), c.lowest, &random);
        arrays[2 * i + 1] = whole_numbers(c.dtype, pool_shape(&c, c.places), false, &random);
        nt_tensor x = traced_input(2 * i, nt__array_type(arrays[2 * i])), gradient;
        nt_tensor cotangent = traced_input(2 * i + 1, nt__array_type(arrays[2 * i + 1]));
        nt_tensor y = build_pool(&c, x);
        nt__vjp(y, cotangent, &x, 1, &gradient, NULL);
        results[2 * i] = (nt__result){"pool", y, {0}};
        results[2 * i + 1] = (nt__result){"gradient", gradient, {0}};
    }
    assert_ok(nt__trace_status(graph));
    traced program = traced_compile(traced_engine(), results, 2 * POOLS);
    nt__trace_end(graph);
    traced_run(&program, arrays, got);
    traced_free(&program);
    bool right = true;
    for (int i = 0; i < POOLS; i++) {
        double x[MOST], cotangent[MOST], value[MOST] = {0}, gradient[MOST] = {0};
        elements_of(arrays[2 * i], x);
        elements_of(arrays[2 * i + 1], cotangent);
        pool_gradient(&cases[i], x, cotangent, value, gradient);
        bool own = same("max_pool", got[2 * i], value) && same("its gradient", got[2 * i + 1], gradient);
        if (!own) describe_pool(&cases[i]);
        right = right && own;
    }
    for (int i = 0; i < 2 * POOLS; i++) {
        nt_array_free(arrays[i]);
        nt_array_free(got[i]);
    }
    return right;
}

/* ---- all else, along an axis ------------------------------------------------------------------------------------ */

enum { LONG = 9, LINE_RESULTS = 32 };

typedef struct line {
    double x[LONG], other[LONG], wanted[LINE_RESULTS][LONG];
    nt__result results[LINE_RESULTS];
    const char *names[LINE_RESULTS];
    int count;
} line;

static double *add_line(line *l, const char *name, nt_tensor y) {
    l->results[l->count] = (nt__result){name, y, {0}};
    l->names[l->count] = name;
    return l->wanted[l->count++];
}

/* The gradient of the sum of y with the weights 1, 2, 3, ... */
static nt_tensor weighted(nt_tensor y, nt_tensor of) {
    nt_tensor gradient, weights = nt_add(nt_convert(nt_iota(NT_I32, nt_shape_of(y), 0), nt_dtype_of(y)), 1);
    nt_grads_at(nt_sum(nt_mul(y, weights)), &of, 1, &gradient, NT_SITE);
    return gradient;
}

static nt_tensor of_one(nt_tensor y, nt_tensor of) {
    nt_tensor gradient;
    nt_grads_at(y, &of, 1, &gradient, NT_SITE);
    return gradient;
}

/* The places of x in order: equal ones as they stand. */
static void in_order(const double *x, bool descending, int *out) {
    for (int i = 0; i < LONG; i++) {
        int at = 0;
        for (int j = 0; j < LONG; j++)
            at += descending ? x[j] > x[i] || (x[j] == x[i] && j < i) : x[j] < x[i] || (x[j] == x[i] && j < i);
        out[at] = i;
    }
}

static void add_sorted(line *l, nt_tensor x) {
    int up[LONG], down[LONG];
    in_order(l->x, false, up);
    in_order(l->x, true, down);
    nt_tensor places;
    double *argsort = add_line(l, "argsort", nt_argsort(x, 0, NT_ASCENDING));
    double *descending = add_line(l, "argsort down", nt_argsort(x, 0, NT_DESCENDING));
    double *sort = add_line(l, "sort's gradient", weighted(nt_sort(x, 0, NT_DESCENDING), x));
    nt_tensor top = nt_top_k(x, 4, &places);
    double *top_k = add_line(l, "top_k", places), *gradient = add_line(l, "top_k's gradient", weighted(top, x));
    double *argmax = add_line(l, "argmax", nt_argmax(x, 0)), *argmin = add_line(l, "argmin", nt_argmin(x, 0));
    for (int i = 0; i < LONG; i++) {
        argsort[i] = up[i];
        descending[i] = down[i];
        sort[down[i]] = i + 1;
        if (i < 4) top_k[i] = down[i];
        if (i < 4) gradient[down[i]] = i + 1;
    }
    argmax[0] = down[0];
    argmin[0] = up[0];
}

/* Equal largest (smallest) ones share; the gradient of a running extreme goes to the first one met. */
static void add_extremes(line *l, nt_tensor x) {
    double *max = add_line(l, "reduce_max's gradient", of_one(nt_reduce_max(x), x));
    double *min = add_line(l, "reduce_min's gradient", of_one(nt_reduce_min(x), x));
    double *forward = add_line(l, "cummax's gradient", weighted(nt_cummax(x, 0, NT_FORWARD), x));
    double *backward = add_line(l, "cummin's gradient", weighted(nt_cummin(x, 0, NT_BACKWARD), x));
    double most = l->x[0], least = l->x[0], number[2] = {0};
    for (int i = 0; i < LONG; i++) most = fmax(most, l->x[i]), least = fmin(least, l->x[i]);
    for (int i = 0; i < LONG; i++) number[0] += l->x[i] == most, number[1] += l->x[i] == least;
    for (int i = 0, best = 0; i < LONG; i++) {
        max[i] = l->x[i] == most ? 1 / number[0] : 0;
        min[i] = l->x[i] == least ? 1 / number[1] : 0;
        if (l->x[i] > l->x[best]) best = i;
        forward[best] += i + 1;
    }
    for (int i = LONG - 1, best = LONG - 1; i >= 0; i--) {
        if (l->x[i] < l->x[best]) best = i;
        backward[best] += i + 1;
    }
}

/* Where a function has an edge, the value that the header says. */
static void add_edges(line *l, nt_tensor x, nt_tensor other) {
    double *max = add_line(l, "max's gradient", of_one(nt_sum(nt_max(x, other)), x));
    double *min = add_line(l, "min's gradient", of_one(nt_sum(nt_min(x, other)), other));
    double *relu = add_line(l, "relu's gradient", of_one(nt_sum(nt_relu(x)), x));
    double *size = add_line(l, "abs's gradient", of_one(nt_sum(nt_abs(x)), x));
    double *clamp = add_line(l, "clamp's gradient", of_one(nt_sum(nt_clamp(x, -1, 1)), x));
    for (int i = 0; i < LONG; i++) {
        double a = l->x[i], b = l->other[i];
        max[i] = a > b ? 1 : a == b ? 0.5 : 0;
        min[i] = b < a ? 1 : a == b ? 0.5 : 0;
        relu[i] = a > 0;
        size[i] = (a > 0) - (a < 0);
        clamp[i] = a > -1 && a < 1 ? 1 : a == -1 || a == 1 ? 0.5 : 0;
    }
}

static bool lines(size_t index) {
    static const nt_dtype floating[] = {NT_F32, NT_F64, NT_BF16, NT_F16};
    grid_random random = grid_begin(index);
    nt_array *arrays[2], *got[LINE_RESULTS] = {NULL};
    line l = {.count = 0};
    for (int i = 0; i < 2; i++) arrays[i] = whole_numbers(floating[index % 4], nt_dims(LONG), false, &random);
    elements_of(arrays[0], l.x);
    elements_of(arrays[1], l.other);
    nt__graph *graph = nt__trace_begin();
    nt_tensor x = traced_input(0, nt__array_type(arrays[0])), other = traced_input(1, nt__array_type(arrays[1]));
    add_sorted(&l, x);
    add_extremes(&l, x);
    add_edges(&l, x, other);
    assert_ok(nt__trace_status(graph));
    traced program = traced_compile(traced_engine(), l.results, (size_t)l.count);
    nt__trace_end(graph);
    traced_run(&program, arrays, got);
    traced_free(&program);
    bool right = true;
    for (int i = 0; i < l.count; i++) {
        for (int k = 0; k < LONG; k++) { /* what the type has of a third */
            char element[8];
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): traced_run has filled it */
            nt__element_set(got[i]->dtype, element, l.wanted[i][k]);
            l.wanted[i][k] = nt__element_get(got[i]->dtype, element);
        }
        right &= same(l.names[i], got[i], l.wanted[i]);
        nt_array_free(got[i]);
    }
    for (int i = 0; i < 2; i++) nt_array_free(arrays[i]);
    return right;
}

/* ---- cases ------------------------------------------------------------------------------------------------------ */

static bool run(size_t index) {
    return index % 4 == 3 ? lines(index / 4) : pools(index);
}

static void describe(size_t index, FILE *to) {
    fprintf(to, index % 4 == 3 ? "operations along an axis" : "%d pools", POOLS);
}

int main(int argc, char **argv) {
    return grid_main(&(grid){RUNS, run, describe}, argc, argv);
}
