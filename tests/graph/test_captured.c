/* Data that reaches a trace as constants: what the C compiler cannot see is refused with its size and its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "graph/graph.h"

/* A dataset that a hook reaches through a global pointer. */
static nt_array *dataset;
static float values[8192];

static nt_array *array_of(nt_dtype dtype, nt_shape shape) {
    nt_array *array = nt_array_new(dtype, shape);
    assert_non_null(array);
    return array;
}

static void fails_with(const nt__graph *graph, const char *const *parts) {
    assert_int_equal(nt__trace_status(graph), NT_INVALID);
    for (size_t i = 0; parts[i]; i++)
        if (!strstr(nt_error_message(), parts[i])) fail_msg("'%s' is not in: %s", parts[i], nt_error_message());
}
#define FAILS_WITH(graph, ...) fails_with(graph, (const char *const[]){__VA_ARGS__, NULL})

/* Elements that must not be read: the pages cannot be. */
static void a_captured_dataset_is_refused_unread(void **state) {
    (void)state;
    char place[128];
    void *pages = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    nt_array images = {.dtype = NT_U8, .shape = nt_dims(1024, 1024), .bytes = 1 << 20, .data = pages, .references = 1};
    dataset = &images;
    nt__graph *graph = nt__trace_begin();
    nt_tensor x = nt_constant(dataset);
    snprintf(place, sizeof place, "test_captured.c:%d in %s: constant: ", __LINE__ - 1, __func__);
    assert_true(nt__tensor_failed(x));
    FAILS_WITH(graph, place, "'dataset' is u8[1024,1024], 1048576 bytes", "all may have 65536 bytes", "a DEVICE field");
    nt__trace_end(graph);
    munmap(pages, 1 << 20);
}

static void many_constants_count_together(void **state) {
    (void)state;
    nt_array *table = array_of(NT_F64, nt_dims(512));
    nt__graph *graph = nt__trace_begin();
    for (int i = 0; i < 8; i++) {
        nt_array_set(table, 0, i);
        nt_constant(table);
        nt_array_set(table, 0, -1 - i);
        nt_constant(table);
    }
    for (int i = 0; i < 8; i++) nt_constant(table); /* the last one, which the program has */
    assert_int_equal(nt__trace_status(graph), NT_OK);
    nt_array_set(table, 0, 8);
    nt_constant(table);
    FAILS_WITH(graph, "'table' is f64[512], 4096 bytes, after 65536 bytes of other constants");
    nt__trace_end(graph);
    graph = nt__trace_begin();
    nt_constant(table);
    assert_int_equal(nt__trace_status(graph), NT_OK);
    nt__trace_end(graph);
    nt_array_free(table);
}

static nt_tensor add_numbers(nt_tensor x, int count) {
    for (int i = 0; i < count; i++) x = nt_add(x, values[i]);
    return x;
}

static void a_dataset_read_number_by_number_is_refused(void **state) {
    (void)state;
    for (int i = 0; i < 8192; i++) values[i] = (float)i;
    nt__graph *graph = nt__trace_begin();
    nt_tensor x = nt_full(NT_F32, nt_dims(2), 0);
    add_numbers(x, 4096);
    assert_int_equal(nt__trace_status(graph), NT_OK);
    add_numbers(x, 4097);
    FAILS_WITH(graph, "in add_numbers: add: ", "4097 different elements", "a line may make 4096", "a DEVICE field");
    nt__trace_end(graph);
}

/* The same numbers again are no data: a model of many layers uses its few numbers at one line. */
static void equal_numbers_count_once(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    nt_tensor x = nt_full(NT_F32, nt_dims(2), 0);
    for (int i = 0; i < 20000; i++) x = nt_mul(x, i % 2 ? 0.5 : 2);
    for (int i = 0; i < 3000; i++) x = nt_add(x, i);
    for (int i = 0; i < 3000; i++) x = nt_sub(x, i);
    assert_int_equal(nt__trace_status(graph), NT_OK);
    nt__trace_end(graph);
}

static void small_arrays_of_one_line_count_by_their_elements(void **state) {
    (void)state;
    nt_array *piece = array_of(NT_U8, nt_dims(64));
    nt__graph *graph = nt__trace_begin();
    for (int i = 0; i < 65; i++) {
        nt_array_set(piece, 0, i);
        nt_constant(piece);
        if (i < 64) assert_int_equal(nt__trace_status(graph), NT_OK);
    }
    FAILS_WITH(graph, "constant: this line has made constants of 4160 different elements");
    nt__trace_end(graph);
    nt_array_free(piece);
}

static void refused_memory_is_an_error_of_the_trace(void **state) {
    (void)state;
    size_t live = nt__memory().live;
    for (size_t n = 1; n < 8; n++) {
        nt__graph *graph = nt__trace_begin();
        nt__memory_fail_at(n);
        for (int i = 0; i < 200; i++) nt_full(NT_F32, nt_dims(2), i);
        nt__memory_fail_at(0);
        assert_int_equal(nt__trace_status(graph), NT_OUT_OF_MEMORY);
        nt__trace_end(graph);
    }
    assert_int_equal(nt__memory().live, live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_captured_dataset_is_refused_unread),
        cmocka_unit_test(many_constants_count_together),
        cmocka_unit_test(a_dataset_read_number_by_number_is_refused),
        cmocka_unit_test(equal_numbers_count_once),
        cmocka_unit_test(small_arrays_of_one_line_count_by_their_elements),
        cmocka_unit_test(refused_memory_is_an_error_of_the_trace),
    };
    return cmocka_run_group_tests_name("captured", tests, NULL, NULL);
}
