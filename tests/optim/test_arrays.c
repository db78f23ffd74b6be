/* src/optim: the arrays of a group one by one: which are taken together, out of a flat tensor and into one again, sums
 * over each and numbers spread over each, through the engine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "optim/rules.h"
#include "stepper.h"

enum { MOST = 32 };

static nt__layout layout_of(const nt_shape *shapes, size_t count, nt_dtype dtype) {
    nt__leaf leaves[MOST];
    char path[] = "leaf";
    nt__layout layout;
    assert_true(count <= MOST);
    for (size_t i = 0; i < count; i++) leaves[i] = (nt__leaf){.path = path, .type = {dtype, shapes[i]}};
    assert_ok(nt__layout_build(leaves, count, NULL, &layout));
    return layout;
}

/* ---- bundles ---------------------------------------------------------------------------------------------------- */

static void assert_bundle(const nt__group *group, size_t index, int64_t repeats, int64_t start, int64_t period,
                          int64_t offset, int64_t length) {
    const nt__bundle *b = &group->bundles[index];
    assert_true(index < group->bundle_count);
    assert_int_equal(b->repeats, repeats);
    assert_int_equal(b->start, start);
    assert_int_equal(b->period, period);
    assert_int_equal(b->offset, offset);
    assert_int_equal(b->length, length);
}

/* An embedding, three equal layers of two arrays, a head. */
static const nt_shape stack[] = {{2, {5, 4}}, {2, {4, 4}}, {1, {4}}, {2, {4, 4}},
                                 {1, {4}},    {2, {4, 4}}, {1, {4}}, {2, {4, 3}}};
enum { STACK = sizeof stack / sizeof *stack };

static void equal_layers_are_taken_together(void **state) {
    (void)state;
    nt__layout layout = layout_of(stack, STACK, NT_F32);
    const nt__group *group = &layout.groups[0];
    assert_int_equal(group->array_count, STACK);
    assert_int_equal(group->arrays[2].offset, 36);
    assert_int_equal(group->bundle_count, 4);
    assert_bundle(group, 0, 1, 0, 20, 0, 20);
    assert_bundle(group, 1, 3, 20, 20, 0, 16);
    assert_bundle(group, 2, 3, 20, 20, 16, 4);
    assert_bundle(group, 3, 1, 80, 12, 0, 12);
    nt__layout_free(&layout);
}

static void arrays_of_other_shapes_stand_alone(void **state) {
    (void)state;
    static const nt_shape shapes[] = {{1, {4}}, {2, {2, 2}}, {1, {4}}, {2, {4, 1}}};
    nt__layout layout = layout_of(shapes, 4, NT_F32);
    assert_int_equal(layout.groups[0].bundle_count, 4);
    nt__layout_free(&layout);
    static const nt_shape same[] = {{1, {4}}, {1, {4}}, {1, {4}}, {0, {0}}};
    layout = layout_of(same, 4, NT_F32);
    assert_int_equal(layout.groups[0].bundle_count, 2);
    assert_bundle(&layout.groups[0], 0, 3, 0, 4, 0, 4);
    assert_bundle(&layout.groups[0], 1, 1, 12, 1, 0, 1);
    nt__layout_free(&layout);
}

/* ---- through the engine ----------------------------------------------------------------------------------------- */

enum { FLAT, PLACE, VALUES = PLACE + NT__PLACE_TABLES, ARRAYS };

/* A program of one flat input and the tables; two results. */
typedef struct passage {
    nt__layout layout;
    nt_array *arrays[ARRAYS], *results[2];
    nt_tensor places[NT__PLACE_TABLES], flat, values;
    nt_update u;
    nt__graph *graph;
} passage;

static nt_array *numbers(nt__type type, double factor) {
    nt_array *array = nt_array_new(type.dtype, type.shape);
    assert_non_null(array);
    for (int64_t i = 0; i < nt_shape_elements(type.shape); i++) nt_array_set(array, i, (double)(i % 97 + 1) * factor);
    return array;
}

static void begin(passage *p, const nt_shape *shapes, size_t count, nt_dtype dtype) {
    *p = (passage){.layout = layout_of(shapes, count, dtype), .graph = nt__trace_begin()};
    assert_non_null(p->graph);
    const nt__group *group = &p->layout.groups[0];
    nt__type type = nt__group_type(group), values = {dtype, nt_dims((int64_t)count)};
    p->arrays[FLAT] = numbers(type, 0.25);
    p->arrays[VALUES] = numbers(values, 1);
    for (int i = 0; i < NT__PLACE_TABLES; i++) {
        nt__type place = nt__place_type(group, i);
        p->arrays[PLACE + i] = nt_array_new(place.dtype, place.shape);
        assert_non_null(p->arrays[PLACE + i]);
        nt__place_fill(group, i, p->arrays[PLACE + i]->data);
        p->places[i] = traced_input(PLACE + i, place);
    }
    p->flat = traced_input(FLAT, type);
    p->values = traced_input(VALUES, values);
    p->u = (nt_update){.dtype = dtype,
                       .x = p->flat,
                       .arrays = group->arrays,
                       .array_count = group->array_count,
                       .bundles = group->bundles,
                       .bundle_count = group->bundle_count,
                       .places = p->places};
}

static void run(passage *p, nt_tensor first, nt_tensor second) {
    nt__result results[] = {{"first", first, {0}}, {"second", second, {0}}};
    assert_ok(nt__trace_status(p->graph));
    traced program = traced_compile(traced_engine(), results, 2);
    traced_run(&program, p->arrays, p->results);
    traced_free(&program);
    nt__trace_end(p->graph);
}

static void end(passage *p) {
    for (int i = 0; i < ARRAYS; i++) nt_array_free(p->arrays[i]);
    for (int i = 0; i < 2; i++) nt_array_free(p->results[i]);
    nt__layout_free(&p->layout);
}

/* The numbers are quarters, so that every sum is exact. */
static void check_sums(const nt_shape *shapes, size_t count, nt_dtype dtype) {
    passage p;
    begin(&p, shapes, count, dtype);
    run(&p, nt_update_sums(&p.u, p.flat), nt_update_spread(&p.u, p.values));
    assert_int_equal(p.results[0]->dtype, NT_F64);
    for (size_t i = 0; i < count; i++) {
        const nt_rule_array *array = &p.layout.groups[0].arrays[i];
        double sum = 0;
        for (int64_t j = 0; j < array->length; j++) {
            sum += nt_array_get(p.arrays[FLAT], array->offset + j);
            assert_true(nt_array_get(p.results[1], array->offset + j) == nt_array_get(p.arrays[VALUES], (int64_t)i));
        }
        assert_true(nt_array_get(p.results[0], (int64_t)i) == sum);
    }
    end(&p);
}

/* Rows of one array, of several, a last one that is short; nothing but whole rows; less than a row. */
static void sums_are_over_each_array(void **state) {
    (void)state;
    static const nt_shape mixed[] = {{2, {30, 40}}, {1, {40}}, {0, {0}}, {1, {3}}, {2, {17, 64}}, {1, {256}}, {1, {5}}};
    static const nt_shape whole[] = {{1, {512}}, {2, {16, 16}}};
    for (int i = 0; i < 2; i++) {
        nt_dtype dtype = i ? NT_F64 : NT_F32;
        check_sums(mixed, 7, dtype);
        check_sums(whole, 2, dtype);
        check_sums(stack, STACK, dtype);
        check_sums(whole, 1, dtype);
    }
}

/* Taken apart and put together again nothing has moved; each array came out in its shape. */
static void bundles_come_back_to_their_places(void **state) {
    (void)state;
    passage p;
    begin(&p, stack, STACK, NT_F32);
    nt__sheet sheet = nt__sheet_new(&p.u);
    for (size_t i = 0; i < p.u.bundle_count; i++)
        nt__sheet_put(&sheet, &p.u.bundles[i], nt__bundle_take(&p.u.bundles[i], p.flat));
    nt_tensor layers = nt__bundle_take(&p.u.bundles[1], p.flat);
    assert_true(nt_shape_equal(nt_shape_of(layers), nt_dims(3, 4, 4)));
    run(&p, nt__sheet_done(&sheet), layers);
    for (int64_t i = 0; i < 92; i++) assert_true(nt_array_get(p.results[0], i) == nt_array_get(p.arrays[FLAT], i));
    for (int64_t i = 0; i < 48; i++)
        assert_true(nt_array_get(p.results[1], i) == nt_array_get(p.arrays[FLAT], 20 + i / 16 * 20 + i % 16));
    end(&p);
}

/* A kind that did not say so has no tables. */
static void sums_need_uses_arrays(void **state) {
    (void)state;
    passage p;
    begin(&p, stack, STACK, NT_F32);
    p.u.places = NULL;
    nt_update_sums(&p.u, p.flat);
    assert_int_equal(nt__trace_status(p.graph), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "nt_update_sums: the rule's kind does not say .uses_arrays = true"));
    nt__trace_end(p.graph);
    end(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_layers_are_taken_together), cmocka_unit_test(arrays_of_other_shapes_stand_alone),
        cmocka_unit_test(sums_are_over_each_array),        cmocka_unit_test(bundles_come_back_to_their_places),
        cmocka_unit_test(sums_need_uses_arrays),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
