/* src/optim: the flat layout, its order and offsets, what it refuses, and the round trip through the engine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stepper.h"

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

static nt__leaf leaf(const char *path, nt_dtype dtype, nt_shape shape) {
    return (nt__leaf){.path = path, .type = {dtype, shape}, .site = {"model.c", "forward", 7}};
}

static void assert_row(const nt__layout *layout, size_t index, const char *path, int group, int64_t offset,
                       int64_t length) {
    const nt__row *row = &layout->rows[index];
    assert_string_equal(row->path, path);
    assert_int_equal(row->group, group);
    assert_int_equal(row->offset, offset);
    assert_int_equal(row->length, length);
}

static void assert_group(const nt__layout *layout, size_t index, const char *name, nt_dtype dtype, int64_t length) {
    const nt__group *group = &layout->groups[index];
    assert_string_equal(group->name, name);
    nt__type type = nt__group_type(group);
    assert_true(nt__type_equal(type, (nt__type){dtype, nt_dims(length)}));
}

static void assert_refused(const nt__leaf *leaves, size_t count, const char *const *names, const char *message) {
    nt__layout layout;
    size_t before = nt__memory().live;
    assert_int_equal(nt__layout_build(leaves, count, names, &layout), NT_INVALID);
    assert_string_equal(nt_error_message(), message);
    assert_int_equal(layout.row_count, 0);
    assert_int_equal(nt__memory().live, before);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

/* L1, L3, L6. */
static void without_names_all_leaves_are_one_group(void **state) {
    (void)state;
    nt__leaf leaves[] = {leaf("a.weight", NT_F32, nt_dims(2, 3)), leaf("a.bias", NT_F32, nt_dims(3)),
                         leaf("scale", NT_F32, (nt_shape){0})};
    nt__layout layout;
    assert_ok(nt__layout_build(leaves, COUNT_OF(leaves), NULL, &layout));
    assert_int_equal(layout.row_count, 3);
    assert_int_equal(layout.group_count, 1);
    assert_group(&layout, 0, "default", NT_F32, 10);
    assert_row(&layout, 0, "a.weight", 0, 0, 6);
    assert_row(&layout, 1, "a.bias", 0, 6, 3);
    assert_row(&layout, 2, "scale", 0, 9, 1);
    assert_true(nt__type_equal(layout.rows[0].type, leaves[0].type));
    nt__layout_free(&layout);
    assert_int_equal(layout.row_count, 0);
}

/* Groups by first appearance, but default first; leaves keep their order inside a group. */
static void groups_are_in_order_of_appearance_default_first(void **state) {
    (void)state;
    nt__leaf leaves[] = {leaf("a", NT_F32, nt_dims(2)), leaf("b", NT_F64, nt_dims(3)), leaf("c", NT_F32, nt_dims(4)),
                         leaf("d", NT_F32, nt_dims(5)), leaf("e", NT_F64, nt_dims(6)), leaf("f", NT_F32, nt_dims(7))};
    const char *names[] = {"late", "first", "default", "late", "first", "default"};
    nt__layout layout;
    assert_ok(nt__layout_build(leaves, COUNT_OF(leaves), names, &layout));
    assert_int_equal(layout.group_count, 3);
    assert_group(&layout, 0, "default", NT_F32, 11);
    assert_group(&layout, 1, "late", NT_F32, 7);
    assert_group(&layout, 2, "first", NT_F64, 9);
    assert_row(&layout, 0, "a", 1, 0, 2);
    assert_row(&layout, 1, "b", 2, 0, 3);
    assert_row(&layout, 2, "c", 0, 0, 4);
    assert_row(&layout, 3, "d", 1, 2, 5);
    assert_row(&layout, 4, "e", 2, 3, 6);
    assert_row(&layout, 5, "f", 0, 4, 7);
    nt__layout_free(&layout);
}

static void without_a_leaf_in_default_there_is_no_such_group_l4(void **state) {
    (void)state;
    nt__leaf leaves[] = {leaf("a", NT_F32, nt_dims(2)), leaf("b", NT_F32, nt_dims(3))};
    nt__layout layout;
    assert_ok(nt__layout_build(leaves, 2, (const char *const[]){"two", "one"}, &layout));
    assert_int_equal(layout.group_count, 2);
    assert_group(&layout, 0, "two", NT_F32, 2);
    assert_group(&layout, 1, "one", NT_F32, 3);
    nt__layout_free(&layout);
}

/* The layout outlives the model and the names it was made of. */
static void a_layout_keeps_its_own_texts(void **state) {
    (void)state;
    char path[] = "weight", name[] = "slow";
    nt__leaf leaves[] = {leaf(path, NT_F32, nt_dims(2))};
    nt__layout layout;
    assert_ok(nt__layout_build(leaves, 1, (const char *const[]){name}, &layout));
    path[0] = name[0] = '?';
    assert_row(&layout, 0, "weight", 0, 0, 2);
    assert_group(&layout, 0, "slow", NT_F32, 2);
    nt__layout_free(&layout);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void no_leaf_is_refused_l8(void **state) {
    (void)state;
    nt__layout layout;
    assert_int_equal(nt__layout_build(NULL, 0, NULL, &layout), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "no parameter"));
    assert_int_equal(layout.group_count, 0);
}

static void a_group_of_two_types_is_refused(void **state) {
    (void)state;
    nt__leaf leaves[] = {leaf("a", NT_F32, nt_dims(2)), leaf("b", NT_F64, nt_dims(3)), leaf("c", NT_F64, nt_dims(3))};
    assert_refused(
        leaves, 2, NULL,
        "model.c:7 in forward: parameter 'b' is f64 and 'a' is f32, and both are in group 'default': a group "
        "has one element type. The param_group hook puts them into two groups");
    assert_refused(
        leaves, 3, (const char *const[]){"head", "default", "head"},
        "model.c:7 in forward: parameter 'c' is f64 and 'a' is f32, and both are in group 'head': a group has "
        "one element type. The param_group hook puts them into two groups");
}

static void a_failed_allocation_leaves_nothing(void **state) {
    (void)state;
    nt__leaf leaves[] = {leaf("a", NT_F32, nt_dims(2)), leaf("b", NT_F32, nt_dims(3))};
    size_t before = nt__memory().live, n = 1;
    for (;; n++) {
        nt__layout layout;
        nt__memory_fail_at(n);
        nt_status status = nt__layout_build(leaves, 2, (const char *const[]){"one", "two"}, &layout);
        nt__memory_fail_at(0);
        if (status == NT_OK) {
            nt__layout_free(&layout);
            break;
        }
        assert_int_equal(status, NT_OUT_OF_MEMORY);
        assert_int_equal(nt__memory().live, before);
        assert_int_equal(layout.row_count, 0);
    }
    assert_true(n > 2);
    assert_int_equal(nt__memory().live, before);
}

/* ---- the round trip --------------------------------------------------------------------------------------------- */

/* Leaf i becomes part of its group's flat tensor and a leaf again. */
typedef struct trip {
    nt__layout layout;
    nt_array *arrays[8], *outputs[16];
    nt__result results[16];
    size_t result_count;
} trip;

static void fill(nt_array *array, size_t leaf_index) {
    for (int64_t i = 0; i < nt_shape_elements(array->shape); i++)
        nt_array_set(array, i, (double)leaf_index + 1 + (double)(i + 1) / 64);
}

static void trace_trip(trip *t, const nt__leaf *leaves) {
    nt_tensor values[8], flat[8];
    for (size_t i = 0; i < t->layout.row_count; i++) {
        t->arrays[i] = nt_array_new(leaves[i].type.dtype, leaves[i].type.shape);
        assert_non_null(t->arrays[i]);
        fill(t->arrays[i], i);
        values[i] = traced_input((int)i, leaves[i].type);
    }
    for (size_t g = 0; g < t->layout.group_count; g++) {
        flat[g] = nt__layout_gather(&t->layout, (int)g, values);
        t->results[t->result_count++] = (nt__result){"flat", flat[g], {0}};
    }
    for (size_t i = 0; i < t->layout.row_count; i++) {
        const nt__row *row = &t->layout.rows[i];
        t->results[t->result_count++] = (nt__result){"leaf", nt__layout_leaf(row, flat[row->group]), {0}};
    }
}

static void assert_same_array(const nt_array *got, const nt_array *wanted) {
    assert_true(nt__type_equal((nt__type){got->dtype, got->shape}, (nt__type){wanted->dtype, wanted->shape}));
    assert_memory_equal(got->data, wanted->data, wanted->bytes);
}

static void assert_in_place(const trip *t, size_t i) {
    const nt__row *row = &t->layout.rows[i];
    const nt_array *flat = t->outputs[row->group], *value = t->arrays[i];
    size_t size = nt_dtype_size(flat->dtype);
    assert_memory_equal((const char *)flat->data + (size_t)row->offset * size, value->data, value->bytes);
}

/* Gradients are filled up with zeros to a length that divides into 32 equal pieces. */
static void assert_filled_up(const trip *t, size_t g) {
    const nt__group *group = &t->layout.groups[g];
    const nt_array *flat = t->outputs[g];
    assert_true(nt__type_equal((nt__type){flat->dtype, flat->shape}, nt__gradients_type(group)));
    assert_true(group->length > 0 && group->length < 32);
    assert_int_equal(nt_shape_elements(flat->shape), 32);
    for (int64_t i = group->length; i < 32; i++) assert_true(nt_array_get(flat, i) == 0);
}

static void assert_gradients_length(int64_t length, int64_t wanted) {
    nt__type type = nt__gradients_type(&(nt__group){.name = "", .dtype = NT_F32, .length = length});
    assert_true(nt__type_equal(type, (nt__type){NT_F32, nt_dims(wanted)}));
}

static void gradients_are_filled_up(void **state) {
    (void)state;
    assert_gradients_length(1, 32);
    assert_gradients_length(32, 32);
    assert_gradients_length(33, 64);
    assert_gradients_length(235146, 235168);
}

static void leaves_survive_the_flat_buffers(void **state) {
    (void)state;
    nt__leaf leaves[] = {leaf("a", NT_F32, nt_dims(2, 3)), leaf("b", NT_F64, nt_dims(3)),
                         leaf("c", NT_F32, (nt_shape){0}), leaf("d", NT_BF16, nt_dims(2, 1, 2)),
                         leaf("e", NT_F64, nt_dims(1)),    leaf("f", NT_F32, nt_dims(4))};
    const char *names[] = {"default", "wide", "default", "narrow", "wide", "default"};
    trip t = {0};
    assert_ok(nt__layout_build(leaves, COUNT_OF(leaves), names, &t.layout));
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    trace_trip(&t, leaves);
    traced program = traced_compile(traced_engine(), t.results, t.result_count);
    nt__trace_end(graph);
    traced_run(&program, t.arrays, t.outputs);
    for (size_t i = 0; i < COUNT_OF(leaves); i++) {
        assert_same_array(t.outputs[t.layout.group_count + i], t.arrays[i]);
        assert_in_place(&t, i);
    }
    for (size_t g = 0; g < t.layout.group_count; g++) assert_filled_up(&t, g);
    for (size_t i = 0; i < t.result_count; i++) nt_array_free(t.outputs[i]);
    for (size_t i = 0; i < COUNT_OF(leaves); i++) nt_array_free(t.arrays[i]);
    traced_free(&program);
    nt__layout_free(&t.layout);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_names_all_leaves_are_one_group),
        cmocka_unit_test(groups_are_in_order_of_appearance_default_first),
        cmocka_unit_test(without_a_leaf_in_default_there_is_no_such_group_l4),
        cmocka_unit_test(a_layout_keeps_its_own_texts),
        cmocka_unit_test(no_leaf_is_refused_l8),
        cmocka_unit_test(a_group_of_two_types_is_refused),
        cmocka_unit_test(a_failed_allocation_leaves_nothing),
        cmocka_unit_test(gradients_are_filled_up),
        cmocka_unit_test(leaves_survive_the_flat_buffers),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
