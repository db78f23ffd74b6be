/* src/nn: initial values against trusted formulas and draws, and what a parameter's draw depends on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/nn.h"

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

static json_t *golden;

static int read_golden(void **state) {
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s/golden/initialisers.json", getenv("NT_TESTS"));
    golden = json_load_file(path, 0, NULL);
    return golden ? 0 : -1;
}

static int free_golden(void **state) {
    (void)state;
    json_decref(golden);
    return nt__memory().live ? -1 : 0;
}

/* The name of a case when it begins with `prefix`, without that; else NULL. */
static const char *name_after(const json_t *c, const char *prefix) {
    const char *name = json_string_value(json_object_get(c, "name"));
    return strncmp(name, prefix, strlen(prefix)) == 0 ? name + strlen(prefix) : NULL;
}

static nt_shape shape_of(const json_t *list) {
    nt_shape shape = {.rank = (int)json_array_size(list)};
    for (int i = 0; i < shape.rank; i++) shape.dims[i] = json_integer_value(json_array_get(list, (size_t)i));
    return shape;
}

enum { DRAWS = 20000 };
static float draws[DRAWS], other_draws[DRAWS];
static const nt__key key = {3, 4};

static double mean_of(const float *values) {
    double sum = 0;
    for (int i = 0; i < DRAWS; i++) sum += values[i];
    return sum / DRAWS;
}

static double deviation_of(const float *values) {
    double sum = 0, mean = mean_of(values);
    for (int i = 0; i < DRAWS; i++) sum += (values[i] - mean) * (values[i] - mean);
    return sqrt(sum / DRAWS);
}

static double largest_of(const float *values) {
    double largest = 0;
    for (int i = 0; i < DRAWS; i++) largest = fmax(largest, fabs((double)values[i]));
    return largest;
}

/* The file's bound for a standard deviation of n samples. */
static void assert_deviation(const float *values, double expected) {
    double relative = fabs(deviation_of(values) / expected - 1);
    if (relative > 5 / sqrt(2.0 * DRAWS)) fail_msg("the deviation is %g, expected %g", deviation_of(values), expected);
}

/* ---- fans ------------------------------------------------------------------------------------------------------- */

/* A scaled initialiser draws what the absolute one with the file's limit or deviation draws. */
static void assert_scale(nt_init scaled, nt_shape shape, nt_init absolute) {
    nt__init_draw(scaled, shape, key, 50, draws);
    nt__init_draw(absolute, shape, key, 50, other_draws);
    for (int i = 0; i < 50; i++) {
        double wanted = (double)other_draws[i];
        if (fabs((double)draws[i] - wanted) > 1e-6 * fabs(wanted)) fail_msg("%g is not %g", (double)draws[i], wanted);
    }
}

static double number_of(const json_t *c, const char *scheme, const char *what) {
    const json_t *number = json_object_get(json_object_get(c, scheme), what);
    if (!json_is_number(number)) fail_msg("no %s of %s", what, scheme);
    return json_number_value(number);
}

static void fans_follow_the_shape(void **state) {
    (void)state;
    const json_t *c;
    size_t index, seen = 0;
    json_array_foreach(json_object_get(golden, "cases"), index, c) {
        if (!name_after(c, "fans/")) continue;
        nt_shape shape = shape_of(json_object_get(c, "shape"));
        assert_scale(nt_glorot_uniform(), shape, nt_uniform(number_of(c, "glorot_uniform", "limit")));
        assert_scale(nt_he_normal(), shape, nt_truncated_normal(number_of(c, "he_truncated_normal", "parent_std")));
        assert_scale(nt_lecun_normal(), shape,
                     nt_truncated_normal(number_of(c, "lecun_truncated_normal", "parent_std")));
        assert_scale(nt_glorot_normal(), shape,
                     nt_truncated_normal(number_of(c, "glorot_truncated_normal", "parent_std")));
        assert_scale(nt_he_uniform(), shape, nt_uniform(number_of(c, "he_uniform", "limit")));
        assert_scale(nt_lecun_uniform(), shape, nt_uniform(number_of(c, "lecun_uniform", "limit")));
        seen++;
    }
    assert_int_equal(seen, 8);
}

static void a_constant_fills(void **state) {
    (void)state;
    nt__init_draw(nt_filled(0.25), nt_dims(200, 100), key, DRAWS, draws);
    assert_true(draws[0] == 0.25F && draws[DRAWS - 1] == 0.25F);
}

/* Inputs and outputs of a vector are its length, of a scalar 1. */
static void vectors_and_scalars_have_fans_too(void **state) {
    (void)state;
    assert_scale(nt_glorot_uniform(), nt_dims(6), nt_uniform(sqrt(0.5)));
    assert_scale(nt_glorot_uniform(), (nt_shape){0}, nt_uniform(sqrt(3)));
}

static void the_cut_is_corrected_in_the_variance(void **state) {
    (void)state;
    nt__init_draw(nt_he_normal(), nt_dims(200, 100), key, DRAWS, draws);
    assert_deviation(draws, sqrt(2.0 / 200));
    nt__init_draw(nt_lecun_normal(), nt_dims(200, 100), key, DRAWS, draws);
    assert_deviation(draws, sqrt(1.0 / 200));
    nt__init_draw(nt_glorot_uniform(), nt_dims(200, 100), key, DRAWS, draws);
    assert_deviation(draws, sqrt(2.0 / 300));
}

/* ---- draws ------------------------------------------------------------------------------------------------------ */

/* The file's uniform starts at 0: ours is as wide, with its middle at 0. */
static const struct {
    const char *name;
    nt_init init;
    double shift;
} drawn[] = {
    {"glorot_uniform_key", {NT_INIT_UNIFORM, NT_SCALE_GLOROT, 0}, 0},
    {"he_normal_key", {NT_INIT_TRUNCATED_NORMAL, NT_SCALE_HE, 0}, 0},
    {"lecun_normal_key", {NT_INIT_TRUNCATED_NORMAL, NT_SCALE_LECUN, 0}, 0},
    {"normal_0.02_key", {NT_INIT_NORMAL, NT_SCALE_ABSOLUTE, 0.02}, 0},
    {"truncated_normal_0.02_key", {NT_INIT_TRUNCATED_NORMAL, NT_SCALE_ABSOLUTE, 0.02}, 0},
    {"uniform_0.1_key", {NT_INIT_UNIFORM, NT_SCALE_ABSOLUTE, 0.05}, 0.05},
};

static nt__key key_of(const json_t *c) {
    const json_t *words = json_object_get(c, "key");
    return (nt__key){(uint32_t)strtoul(json_string_value(json_array_get(words, 0)), NULL, 16),
                     (uint32_t)strtoul(json_string_value(json_array_get(words, 1)), NULL, 16)};
}

static void compare_draw(const json_t *c, size_t row) {
    const json_t *expected = json_object_get(c, "expected"), *data = json_object_get(expected, "data");
    const json_t *tolerance = json_object_get(c, "tolerance");
    size_t count = json_array_size(data);
    nt__init_draw(drawn[row].init, shape_of(json_object_get(expected, "shape")), key_of(c), count, draws);
    for (size_t i = 0; i < count; i++) {
        double wanted = json_number_value(json_array_get(data, i)), got = (double)draws[i] + drawn[row].shift;
        double bound = json_number_value(json_object_get(tolerance, "atol")) +
                       json_number_value(json_object_get(tolerance, "rtol")) * fabs(wanted);
        if (fabs(got - wanted) > bound)
            fail_msg("%s: element %zu is %.9g, expected %.9g", drawn[row].name, i, got, wanted);
    }
}

static void draws_are_those_of_a_trusted_library(void **state) {
    (void)state;
    const json_t *c;
    size_t index, seen = 0;
    json_array_foreach(json_object_get(golden, "cases"), index, c) {
        const char *name = name_after(c, "draw/");
        for (size_t row = 0; name && row < COUNT_OF(drawn); row++) {
            if (strncmp(name, drawn[row].name, strlen(drawn[row].name))) continue;
            compare_draw(c, row);
            seen++;
        }
    }
    assert_int_equal(seen, 12);
}

static void the_public_names_are_the_drawn_ones(void **state) {
    (void)state;
    const nt_init inits[] = {nt_glorot_uniform(),       nt_he_normal(),  nt_lecun_normal(), nt_normal(0.02),
                             nt_truncated_normal(0.02), nt_uniform(0.05)};
    for (size_t i = 0; i < COUNT_OF(inits); i++) {
        assert_int_equal(inits[i].kind, drawn[i].init.kind);
        assert_int_equal(inits[i].scale, drawn[i].init.scale);
        assert_true(inits[i].value == drawn[i].init.value);
    }
}

static void distributions_have_their_moments_and_bounds(void **state) {
    (void)state;
    nt_shape shape = nt_dims(DRAWS);
    nt__init_draw(nt_normal(0.5), shape, key, DRAWS, draws);
    assert_deviation(draws, 0.5);
    assert_true(fabs(mean_of(draws)) < 5 * 0.5 / sqrt(DRAWS));
    assert_true(largest_of(draws) > 3 * 0.5 && largest_of(draws) < 6 * 0.5);
    nt__init_draw(nt_truncated_normal(0.5), shape, key, DRAWS, draws);
    assert_deviation(draws, 0.5 * 0.87962566103423978);
    assert_true(largest_of(draws) <= 1 && largest_of(draws) > 0.99);
    nt__init_draw(nt_uniform(0.5), shape, key, DRAWS, draws);
    assert_deviation(draws, 0.5 / sqrt(3));
    assert_true(largest_of(draws) <= 0.5 && largest_of(draws) > 0.499);
    nt__init_draw(nt_ones(), shape, key, DRAWS, draws);
    assert_true(mean_of(draws) == 1 && deviation_of(draws) == 0);
    nt__init_draw(nt_zeros(), shape, key, DRAWS, draws);
    assert_true(largest_of(draws) == 0);
}

/* ---- orthogonal ones -------------------------------------------------------------------------------------------- */

/* Element (i, j) of the Gram matrix of the columns, or of the rows where these are fewer. */
static double gram(const double *a, size_t rows, size_t columns, size_t i, size_t j) {
    double sum = 0;
    if (rows < columns)
        for (size_t c = 0; c < columns; c++) sum += a[i * columns + c] * a[j * columns + c];
    else
        for (size_t r = 0; r < rows; r++) sum += a[r * columns + i] * a[r * columns + j];
    return sum;
}

static void assert_orthogonal(nt_shape shape, nt_dtype dtype, double gain, double tolerance) {
    static double values[400];
    char out[sizeof values];
    size_t count = (size_t)nt_shape_elements(shape);
    size_t columns = (size_t)shape.dims[shape.rank - 1], rows = count / columns;
    size_t fewer = rows < columns ? rows : columns;
    assert_true(count <= COUNT_OF(values));
    nt__leaf l = {.path = "w", .type = {dtype, shape}, .init = nt_orthogonal(gain)};
    assert_int_equal(nt__leaf_draw(&l, key, out), NT_OK);
    for (size_t i = 0; i < count; i++) values[i] = nt__element_get(dtype, out + i * nt_dtype_size(dtype));
    for (size_t i = 0; i < fewer; i++)
        for (size_t j = 0; j < fewer; j++) {
            double difference = gram(values, rows, columns, i, j) - (i == j ? gain * gain : 0);
            if (fabs(difference) > tolerance) fail_msg("Gram element %zu, %zu is off by %g", i, j, difference);
        }
}

static void orthogonal_values_have_their_gram_matrix(void **state) {
    (void)state;
    const json_t *c;
    size_t index, seen = 0;
    json_array_foreach(json_object_get(golden, "cases"), index, c) {
        if (!name_after(c, "orthogonal/")) continue;
        nt_shape shape = shape_of(json_object_get(c, "shape"));
        double gain = json_number_value(json_object_get(c, "gain"));
        assert_orthogonal(shape, NT_F32, gain, number_of(c, "tolerance", "f32_atol"));
        assert_orthogonal(shape, NT_F64, gain, number_of(c, "tolerance", "f64_atol"));
        seen++;
    }
    assert_int_equal(seen, 4);
    assert_orthogonal(nt_dims(10, 40), NT_F64, 1.5, 1e-12);
    assert_orthogonal(nt_dims(9), NT_F64, 2, 1e-12);
    assert_orthogonal(nt_dims(1, 1), NT_F64, 2, 1e-12);
}

/* Another key is another rotation, and no direction is preferred: elements of many have mean 0 and variance 1 / n. */
static void orthogonal_values_are_spread_evenly(void **state) {
    (void)state;
    enum { SIZE = 4 };
    for (uint32_t i = 0; i < DRAWS / (SIZE * SIZE); i++) {
        nt__leaf l = {.path = "w", .type = {NT_F32, nt_dims(SIZE, SIZE)}, .init = nt_orthogonal(1)};
        assert_int_equal(nt__leaf_draw(&l, (nt__key){i, 9}, draws + i * SIZE * SIZE), NT_OK);
    }
    assert_deviation(draws, 0.5);
    assert_true(fabs(mean_of(draws)) < 5 * 0.5 / sqrt(DRAWS));
}

static void an_orthogonal_draw_without_memory_says_so(void **state) {
    (void)state;
    float out[20];
    const nt__leaf l = {.path = "w", .type = {NT_F32, nt_dims(4, 5)}, .init = nt_orthogonal(1)};
    for (uint64_t at = 1; at <= 2; at++) {
        nt__memory_fail_at(at);
        nt_status status = nt__leaf_draw(&l, key, out);
        nt__memory_fail_at(0);
        assert_int_equal(status, NT_OUT_OF_MEMORY);
        assert_int_equal(nt__memory().live, 0);
    }
}

/* ---- leaves ----------------------------------------------------------------------------------------------------- */

static nt__leaf leaf(const char *path, nt_dtype dtype, nt_init init) {
    return (nt__leaf){.path = path, .type = {dtype, nt_dims(4, 5)}, .init = init};
}

static void draw(nt__leaf l, uint64_t seed, void *out) {
    assert_int_equal(nt__leaf_draw(&l, nt__key_of_seed(seed), out), NT_OK);
}

/* The key is the seed folded with the path: no other parameter has a part in it. */
static void a_draw_depends_on_the_seed_and_the_path(void **state) {
    (void)state;
    float first[20], again[20], path[20], seed[20];
    draw(leaf("a.weight", NT_F32, nt_glorot_uniform()), 1, first);
    draw(leaf("b.weight", NT_F32, nt_glorot_uniform()), 1, path);
    draw(leaf("a.weight", NT_F32, nt_glorot_uniform()), 2, seed);
    draw(leaf("a.weight", NT_F32, nt_glorot_uniform()), 1, again);
    assert_memory_equal(first, again, sizeof first);
    for (int i = 0; i < 20; i++) assert_true(first[i] != path[i] && first[i] != seed[i] && path[i] != seed[i]);
}

/* A draw has the resolution of f32 in every type. */
static void every_floating_type_draws_the_same_numbers(void **state) {
    (void)state;
    static const nt_dtype types[] = {NT_F64, NT_BF16, NT_F16};
    static const double resolution[] = {0, 1.0 / 256, 1.0 / 2048};
    float wanted[20];
    draw(leaf("w", NT_F32, nt_glorot_uniform()), 1, wanted);
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        char got[20 * 8];
        draw(leaf("w", types[t], nt_glorot_uniform()), 1, got);
        for (size_t i = 0; i < 20; i++) {
            double element = nt__element_get(types[t], got + i * nt_dtype_size(types[t]));
            assert_true(fabs(element - (double)wanted[i]) <= resolution[t] * fabs((double)wanted[i]));
        }
    }
}

static void a_draw_without_memory_says_so(void **state) {
    (void)state;
    double out[20];
    nt__leaf l = leaf("w", NT_F64, nt_ones());
    nt__memory_fail_at(1);
    nt_status status = nt__leaf_draw(&l, key, out);
    nt__memory_fail_at(0);
    assert_int_equal(status, NT_OUT_OF_MEMORY);
    assert_int_equal(nt__memory().live, 0);
    assert_int_equal(nt__leaf_draw(&l, key, out), NT_OK);
    assert_true(out[0] == 1 && out[19] == 1);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void what_cannot_be_drawn_is_refused_where_it_is_declared(void **state) {
    (void)state;
    static const struct {
        nt_shape shape;
        nt_init init;
        const char *message; /* NULL: it can be drawn */
    } rows[] = {
        {{1, {8}},
         {.kind = NT_INIT_NORMAL, .value = -1},
         "'w' starts from nt_normal(-1): the standard deviation has to be finite and at least 0"},
        {{1, {8}},
         {.kind = NT_INIT_TRUNCATED_NORMAL, .value = (double)INFINITY},
         "'w' starts from nt_truncated_normal(inf): the standard deviation has to be finite and at least 0"},
        {{1, {8}},
         {.kind = NT_INIT_UNIFORM, .value = (double)NAN},
         "'w' starts from nt_uniform(nan): the limit has to be finite and at least 0"},
        {{2, {2, 4}},
         {.kind = NT_INIT_ORTHOGONAL, .value = -2},
         "'w' starts from nt_orthogonal(-2): the gain has to be finite and at least 0"},
        {{1, {8}},
         {.kind = NT_INIT_CONSTANT, .value = (double)NAN},
         "'w' starts from nt_filled(nan): the value has to be a number"},
        {{1, {8}},
         {.kind = (__typeof__(nt_zeros().kind))99},
         "'w' has an initial value of kind 99 and scale 0, which there are not: nt_normal, nt_glorot_uniform and the "
         "like make one"},
        {{1, {8}},
         {.kind = NT_INIT_NORMAL, .scale = (__typeof__(nt_zeros().scale))7},
         "'w' has an initial value of kind 3 and scale 7, which there are not: nt_normal, nt_glorot_uniform and the "
         "like make one"},
        {{2, {4, 8}},
         {.kind = NT_INIT_FORGET_BIAS, .value = 1},
         "'w' starts from nt_forget_bias and is f32[4,8]: only the bias of an LSTM, [4 * units], has a forget gate"},
        {{1, {6}},
         {.kind = NT_INIT_FORGET_BIAS, .value = 1},
         "'w' starts from nt_forget_bias and is f32[6]: only the bias of an LSTM, [4 * units], has a forget gate"},
        {{1, {8}}, {.kind = NT_INIT_FORGET_BIAS, .value = -1}, NULL},
        {{1, {8}}, {.kind = NT_INIT_CONSTANT, .value = -(double)INFINITY}, NULL},
        {{1, {8}}, {.kind = NT_INIT_NORMAL}, NULL},
        {{1, {8}}, {.kind = NT_INIT_DEFAULT}, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int is_state = 0; is_state < 2; is_state++) {
            nt__graph *graph = nt__trace_begin();
            nt_model *model = nt__model_new((nt__model_roles){1, 2, 3});
            nt__model_begin(model, true, NULL);
            if (is_state)
                nt_state(model, "w", rows[i].shape, .init = rows[i].init);
            else
                nt_parameter(model, "w", rows[i].shape, .init = rows[i].init);
            assert_int_equal(nt__trace_status(graph), rows[i].message ? NT_INVALID : NT_OK);
            if (rows[i].message) {
                const char *said = strstr(nt_error_message(), is_state ? ": state: " : ": parameter: ");
                assert_non_null(said);
                assert_string_equal(strchr(said, '\''), rows[i].message);
            }
            nt__trace_end(graph);
            nt__model_free(model);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_drawn_is_refused_where_it_is_declared),
        cmocka_unit_test(fans_follow_the_shape),
        cmocka_unit_test(a_constant_fills),
        cmocka_unit_test(vectors_and_scalars_have_fans_too),
        cmocka_unit_test(the_cut_is_corrected_in_the_variance),
        cmocka_unit_test(draws_are_those_of_a_trusted_library),
        cmocka_unit_test(the_public_names_are_the_drawn_ones),
        cmocka_unit_test(distributions_have_their_moments_and_bounds),
        cmocka_unit_test(orthogonal_values_have_their_gram_matrix),
        cmocka_unit_test(orthogonal_values_are_spread_evenly),
        cmocka_unit_test(an_orthogonal_draw_without_memory_says_so),
        cmocka_unit_test(a_draw_depends_on_the_seed_and_the_path),
        cmocka_unit_test(every_floating_type_draws_the_same_numbers),
        cmocka_unit_test(a_draw_without_memory_says_so),
    };
    return cmocka_run_group_tests(tests, read_golden, free_golden);
}
