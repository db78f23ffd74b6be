/* Rows that two splits share, which are told; checksums by which a split is known again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "data/data_internal.h"
#include "made.h"

/* ---- warnings --------------------------------------------------------------------------------------------------- */

static char told[4096];
static int count_told;

static nt_status hear(const char *line, void *context) {
    snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", line);
    count_told++;
    return context ? NT_INVALID : NT_OK;
}

static void assert_told(const nt_data *data, int count, const char *part) {
    *told = 0;
    count_told = 0;
    assert_int_equal(nt__data_warn_shared(data), NT_OK);
    if (count_told != count || !strstr(told, part)) fail_msg("%d lines: %s", count_told, told);
}

/* ---- splits of one array ---------------------------------------------------------------------------------------- */

enum { ROWS = 20 };

typedef struct part {
    const char *name, *shares;
    int64_t first, limit;
} part;

/* Splits with the field x of one array and y of arrays of their own; checked. */
static nt_data *make(const part *parts, size_t count) {
    nt_data *data = nt__data_new();
    nt_array *grid = made_grid(ROWS);
    for (size_t i = 0; i < count; i++) {
        nt_split(data, parts[i].name, .batch = 2, .first = parts[i].first, .limit = parts[i].limit,
                 .shares = parts[i].shares);
        nt_split_field(data, parts[i].name, "x", nt_array_retain(grid));
        nt_split_field(data, parts[i].name, "y", made_line(NT_U8, ROWS));
    }
    nt_array_free(grid);
    return data;
}

static void assert_pair(part a, part b, int count, const char *text) {
    nt_data *data = make((const part[]){a, b}, 2);
    assert_int_equal(nt__data_check(data), NT_OK);
    assert_told(data, count, text);
    nt__data_free(data);
}

/* A limit that was computed as 0 is one of these. */
static void common_rows_are_told_with_the_ranges(void **state) {
    (void)state;
    assert_pair((part){"train", .limit = 15}, (part){"val", .first = 15}, 0, "");
    const part train = {.name = "train"}, val = {.name = "val"};
    assert_pair(train, val, 1,
                "splits 'train' and 'val' share the rows 0..19 of x, so what is measured on them was trained on: "
                "'train' has the rows 0..19 (.first = 0, .limit = 0: all), 'val' has the rows 0..19 (.first = 0, "
                ".limit = 0: all). Give each rows of its own, or say that it is meant: .shares = \"train\" in the "
                "nt_split of 'val'");
    assert_pair((part){"train", .limit = 16}, (part){"val", .first = 15}, 1, "share the rows 15..15 of x");
    assert_pair((part){"val", .first = 4, .limit = 8}, (part){"train", .first = 6}, 1, "share the rows 6..7 of x");
    assert_pair((part){"val", .limit = 8}, (part){"test", .limit = 9}, 1, "so they measure the same");
}

static void every_pair_is_looked_at(void **state) {
    (void)state;
    const part parts[] = {{"train", .limit = 12}, {"val", .first = 10, .limit = 16}, {"test", .first = 11}};
    nt_data *data = make(parts, 3);
    assert_told(data, 3, "splits 'val' and 'test' share the rows 11..15 of x");
    nt_set_warning(hear, data);
    assert_int_equal(nt__data_warn_shared(data), NT_INVALID);
    assert_message_has("share the rows");
    nt_set_warning(hear, NULL);
    nt__data_free(data);
}

/* Two arrays of the same memory, one of them a part of the other. */
static void memory_counts_not_the_array(void **state) {
    (void)state;
    nt_data *data = nt__data_new();
    nt_array *whole = made_line(NT_I32, ROWS), *last = made_line(NT_I32, 5);
    void *own = last->data;
    last->data = (int32_t *)whole->data + 10;
    nt_split(data, "train", .batch = 2, .limit = 12);
    nt_split_field(data, "train", "x", whole);
    nt_split(data, "val", .batch = 2);
    nt_split_field(data, "val", "x", last);
    assert_told(data, 1, "share the rows 10..11 of x");
    last->data = own;
    nt__data_free(data);
}

static void what_is_meant_is_not_told(void **state) {
    (void)state;
    assert_pair((part){.name = "train"}, (part){"again", .shares = "train"}, 0, "");
    assert_pair((part){"train", .shares = "train ,x"}, (part){"x", .limit = 2}, 0, "");
    nt_data *data = make((const part[]){{.name = "train"}, {"val", .shares = "train,tran"}}, 2);
    assert_int_equal(nt__data_check(data), NT_INVALID);
    assert_message_has("split 'val': shares is 'train,tran', and there is no split 'tran' (the splits: train, val)");
    nt__data_free(data);
}

/* ---- sources ---------------------------------------------------------------------------------------------------- */

static nt_status read_nothing(void *context, nt_request *request) {
    (void)context;
    (void)request;
    return NT_OK;
}

static nt_data *make_sources(void *context, void *other, int64_t first) {
    const nt_source_field field = {.name = "x", .dtype = NT_F32};
    nt_data *data = nt__data_new();
    nt_source source = {
        .name = "disk", .context = context, .rows = ROWS, .fields = &field, .field_count = 1, .read = read_nothing};
    nt_split(data, "train", .batch = 2, .limit = 12);
    nt_split_source(data, "train", source);
    source.context = other;
    nt_split(data, "val", .batch = 2, .first = first);
    nt_split_source(data, "val", source);
    return data;
}

static void rows_of_one_source_are_told_too(void **state) {
    (void)state;
    int one, two;
    nt_data *data = make_sources(&one, &one, 10);
    assert_told(data, 1, "share the rows 10..11 of source 'disk'");
    nt__data_free(data);
    data = make_sources(&one, &one, 12);
    assert_told(data, 0, "");
    nt__data_free(data);
    data = make_sources(&one, &two, 0);
    assert_told(data, 0, "");
    nt__data_free(data);
}

/* ---- checksums -------------------------------------------------------------------------------------------------- */

static nt__hash order_of(int64_t rows, bool shuffle, uint64_t seed, int64_t epoch) {
    nt_data *data = nt__data_new();
    nt_split(data, "train", .batch = 1, .shuffle = shuffle);
    nt_split_field(data, "train", "x", made_line(NT_I32, rows));
    nt__pass pass = {.split = nt__data_split_at(data, 0), .epoch = epoch};
    assert_int_equal(nt__pass_order_rows(&pass, seed), NT_OK);
    nt__hash hash = nt__pass_order(&pass);
    nt__pass_end(&pass);
    nt__data_free(data);
    return hash;
}

static void an_order_is_known_by_its_checksum(void **state) {
    (void)state;
    nt__hash order = order_of(100, true, 42, 1);
    assert_true(nt__hash_equal(order, order_of(100, true, 42, 1)));
    assert_false(nt__hash_equal(order, order_of(101, true, 42, 1)));
    assert_false(nt__hash_equal(order, order_of(100, true, 43, 1)));
    assert_false(nt__hash_equal(order, order_of(100, true, 42, 2)));
    assert_false(nt__hash_equal(order, order_of(100, false, 42, 1)));
    assert_true(nt__hash_equal(order_of(100, false, 42, 1), order_of(100, false, 43, 2)));
}

static nt__hash content_of(nt_array *array, int64_t first) {
    nt_data *data = nt__data_new();
    nt__hash hash;
    nt_split(data, "train", .batch = 1, .first = first);
    nt_split_field(data, "train", "x", nt_array_retain(array));
    assert_int_equal(nt__split_content(nt__data_split_at(data, 0), &hash), NT_OK);
    nt__data_free(data);
    return hash;
}

/* Of its rows alone; an array of 40 MiB is looked at in parts, with its ends. */
static void a_content_is_known_by_its_checksum(void **state) {
    (void)state;
    const int64_t sizes[] = {100, 10 << 20};
    for (size_t i = 0; i < 2; i++) {
        nt_array *array = nt_array_new(NT_F32, nt_dims(sizes[i]));
        assert_non_null(array);
        nt__hash before = content_of(array, 1);
        nt_array_set(array, 0, 1); /* no row of the split */
        assert_true(nt__hash_equal(before, content_of(array, 1)));
        nt_array_set(array, 1, 1);
        nt__hash first = content_of(array, 1);
        assert_false(nt__hash_equal(before, first));
        nt_array_set(array, sizes[i] - 1, 1);
        assert_false(nt__hash_equal(first, content_of(array, 1)));
        nt_array_free(array);
    }
}

static int begin(void **state) {
    (void)state;
    nt_set_warning(hear, NULL);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(common_rows_are_told_with_the_ranges), cmocka_unit_test(every_pair_is_looked_at),
        cmocka_unit_test(memory_counts_not_the_array),          cmocka_unit_test(what_is_meant_is_not_told),
        cmocka_unit_test(rows_of_one_source_are_told_too),      cmocka_unit_test(an_order_is_known_by_its_checksum),
        cmocka_unit_test(a_content_is_known_by_its_checksum),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
