/* src/data/splits.c: declaring splits and fields, what is refused with which message, the checks over all splits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "made.h"

#include <math.h>
#include <stdio.h>

/* ---- what is kept ----------------------------------------------------------------------------------------------- */

static void splits_keep_what_they_were_given(void **state) {
    (void)state;
    nt_data *data = nt__data_new();
    nt_array *grid = made_grid(10);
    assert_int_equal(nt__data_split_count(data), 0);
    assert_string_equal(nt__data_split_names(data), "none");
    assert_int_equal(nt_split(data, "train", .batch = 3, .shuffle = true, .limit = 7), NT_OK);
    assert_int_equal(nt_split_field(data, "train", "image", nt_array_retain(grid)), NT_OK);
    assert_int_equal(nt_split_field(data, "train", "label", made_line(NT_U8, 10)), NT_OK);
    assert_int_equal(nt_split(data, "val", .batch = 3, .first = 7), NT_OK);
    assert_int_equal(nt_split_field(data, "val", "label", made_line(NT_U8, 10)), NT_OK);
    assert_int_equal(nt_split_field(data, "val", "image", grid), NT_OK);
    assert_int_equal(nt_data_status(data), NT_OK);
    assert_int_equal(nt__data_check(data), NT_OK);

    assert_int_equal(nt__data_split_count(data), 2);
    assert_string_equal(nt__data_split_names(data), "train, val");
    assert_null(nt__data_split_find(data, "test"));
    const nt__split *train = nt__data_split_find(data, "train"), *val = nt__data_split_at(data, 1);
    assert_ptr_equal(train, nt__data_split_at(data, 0));
    assert_string_equal(val->name, "val");
    assert_string_equal(val->field_names, "label, image");
    assert_int_equal(train->rows, 7);
    assert_int_equal(val->rows, 3);
    assert_true(train->options.shuffle);
    assert_ptr_equal(train->fields[0].array, grid);
    assert_int_equal(grid->references, 2);
    assert_null(nt__split_field_find(train, "weight"));
    const nt__split_field *image = nt__split_field_find(val, "image");
    assert_ptr_equal(image, &val->fields[1]);
    assert_true(nt__type_equal(nt__split_field_type(val, image), (nt__type){NT_I32, nt_dims(3, COLUMNS)}));
    nt__data_free(data);
}

/* A split found early stays where it is. */
static void many_splits_with_many_fields(void **state) {
    (void)state;
    enum { SPLITS = 40, FIELDS = 20 };
    nt_data *data = nt__data_new();
    nt_array *line = made_line(NT_F32, 4);
    char name[16];
    const nt__split *first = NULL;
    for (int i = 0; i < SPLITS; i++) {
        snprintf(name, sizeof name, "split%d", i);
        assert_int_equal(nt_split(data, name, .batch = 1), NT_OK);
        if (i == 0) first = nt__data_split_find(data, "split0");
        for (int j = 0; j < FIELDS; j++) {
            char field[16];
            snprintf(field, sizeof field, "field%d", j);
            assert_int_equal(nt_split_field(data, name, field, nt_array_retain(line)), NT_OK);
        }
    }
    assert_int_equal(nt__data_check(data), NT_OK);
    assert_ptr_equal(nt__data_split_find(data, "split0"), first);
    assert_string_equal(nt__data_split_at(data, 39)->fields[19].name, "field19");
    assert_int_equal(line->references, 1 + SPLITS * FIELDS);
    nt__data_free(data);
    assert_int_equal(line->references, 1);
    nt_array_free(line);
}

static void batches_are_counted(void **state) {
    (void)state;
    static const struct {
        int64_t rows, batch;
        bool drop_last;
        int64_t batches;
    } rows[] = {
        {10, 5, false, 2}, {10, 5, true, 2}, {10, 4, false, 3},      {10, 4, true, 2},
        {3, 4, false, 1},  {3, 4, true, 0},  {10, 1, false, 10},     {1, 1, true, 1},
        {4, 3, false, 2},  {4, 3, true, 1},  {5, 1000000, false, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nt__split split = {.options = {.batch = rows[i].batch, .drop_last = rows[i].drop_last}, .rows = rows[i].rows};
        assert_int_equal(nt__split_batches(&split), rows[i].batches);
    }
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

enum { PARTS = 5 };

static void bad_splits_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name;
        nt_split_options options;
        const char *parts[PARTS];
    } rows[] = {
        {"train", {.batch = 0}, {"split 'train'", "batch is 0", "at least 1"}},
        {"train", {.batch = -3}, {"split 'train'", "batch is -3"}},
        {"train", {.batch = 1, .first = -1}, {"first is -1", "limit is 0", "negative"}},
        {"train", {.batch = 1, .limit = -5}, {"first is 0", "limit is -5", "negative"}},
        {"train", {.batch = 1, .first = 7, .limit = 7}, {"first is 7", "limit is 7", "above first"}},
        {"train", {.batch = 1, .first = 9, .limit = 7}, {"first is 9", "limit is 7"}},
        {"", {.batch = 1}, {"nt_split: name is an empty text"}},
        {NULL, {.batch = 1}, {"nt_split: name is NULL"}},
        {"there", {.batch = 1}, {"split 'there'", "already"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nt_data *data = nt__data_new();
        assert_int_equal(nt_split(data, "there", .batch = 1), NT_OK);
        assert_int_equal(nt_split_with(data, rows[i].name, rows[i].options), NT_INVALID);
        assert_message_has_all(rows[i].parts, PARTS);
        assert_int_equal(nt__data_split_count(data), 1);
        nt__data_free(data);
    }
}

/* Each row adds a field to split "part", which has rows 4 <= row < limit, or to another. */
static void bad_fields_are_refused(void **state) {
    (void)state;
    static const struct {
        int64_t batch, limit;
        const char *split, *field;
        nt_shape shape;
        nt_status status;
        const char *parts[PARTS];
    } rows[] = {
        {1, 8, "prat", "x", {1, {8}}, NT_NOT_FOUND, {"no split 'prat'", "part", "nt_split"}},
        {1, 8, NULL, "x", {1, {8}}, NT_INVALID, {"split is NULL", "field 'x'"}},
        {1, 8, "part", "", {1, {8}}, NT_INVALID, {"split 'part'", "field is an empty text"}},
        {1, 8, "part", NULL, {1, {8}}, NT_INVALID, {"split 'part'", "field is NULL"}},
        {1, 8, "part", "x", {0}, NT_INVALID, {"split 'part', field 'x'", "no axes", "axis 0"}},
        {1, 9, "part", "x", {1, {8}}, NT_INVALID, {"split 'part', field 'x'", "4 <= row < 9", "only 8 rows"}},
        {1, 0, "part", "x", {2, {4, 2}}, NT_INVALID, {"field 'x'", "rows from 4 on", "only 4 rows"}},
        {1, 0, "part", "x", {2, {0, 2}}, NT_INVALID, {"field 'x'", "rows from 4 on", "only 0 rows"}},
        {INT64_MAX / 2, 8, "part", "x", {2, {8, 2}}, NT_INVALID, {"field 'x'", "4611686018427387903,2", "smaller"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nt_data *data = nt__data_new();
        nt_array *array = nt_array_new(NT_I64, rows[i].shape);
        assert_int_equal(nt_split(data, "part", .batch = rows[i].batch, .first = 4, .limit = rows[i].limit), NT_OK);
        nt_status status = nt_split_field(data, rows[i].split, rows[i].field, nt_array_retain(array));
        assert_int_equal(status, rows[i].status);
        assert_message_has_all(rows[i].parts, PARTS);
        assert_int_equal(array->references, 1);
        nt_array_free(array);
        nt__data_free(data);
    }
}

static void fields_of_a_split_have_the_same_rows(void **state) {
    (void)state;
    nt_data *data = nt__data_new();
    nt_split(data, "train", .batch = 1, .limit = 5);
    nt_split_field(data, "train", "image", made_grid(10));
    assert_int_equal(nt_split_field(data, "train", "label", made_line(NT_U8, 9)), NT_INVALID);
    assert_message_has_all((const char *[]){"split 'train', field 'label'", "9 rows", "'image'", "10", "same"}, PARTS);
    nt__data_free(data);
}

static void a_field_is_added_once(void **state) {
    (void)state;
    nt_data *data = nt__data_new();
    nt_split(data, "train", .batch = 1);
    nt_split_field(data, "train", "image", made_grid(10));
    assert_int_equal(nt_split_field(data, "train", "image", made_grid(10)), NT_INVALID);
    assert_message_has_all((const char *[]){"split 'train', field 'image'", "already"}, 2);
    nt__data_free(data);
}

/* ---- the first error -------------------------------------------------------------------------------------------- */

static void the_first_error_is_kept(void **state) {
    (void)state;
    nt_data *data = nt__data_new();
    nt_array *line = made_line(NT_U8, 4);
    assert_int_equal(nt_split(data, "train", .batch = 0), NT_INVALID);
    assert_int_equal(nt_split_field(data, "train", "label", nt_array_retain(line)), NT_INVALID);
    assert_message_has("batch is 0");
    assert_int_equal(nt_split(data, "val", .batch = 1), NT_INVALID);
    assert_int_equal(nt__data_split_count(data), 0);
    assert_int_equal(line->references, 1);
    nt__fail(NT_IO, "something else");
    assert_int_equal(nt_data_status(data), NT_INVALID);
    assert_string_equal(nt_error_message(), "split 'train': batch is 0, it must be at least 1: set .batch");
    nt__fail(NT_IO, "something else");
    assert_int_equal(nt__data_check(data), NT_INVALID);
    assert_message_has("batch is 0");
    nt_array_free(line);
    nt__data_free(data);
}

static void an_array_that_could_not_be_read_keeps_its_message(void **state) {
    (void)state;
    nt_data *data = nt__data_new();
    nt_split(data, "train", .batch = 1);
    nt__fail(NT_IO, "file 'x': cut short");
    assert_int_equal(nt_split_field(data, "train", "image", NULL), NT_IO);
    assert_string_equal(nt_error_message(), "split 'train', field 'image': file 'x': cut short");
    nt__fail(NT_INVALID, "%s", "");
    assert_int_equal(nt_data_status(data), NT_IO);
    assert_message_has("cut short");
    nt__data_free(data);

    data = nt__data_new();
    nt__fail(NT_IO, "%s", "");
    assert_int_equal(nt_split_field(data, "train", "image", NULL), NT_INVALID);
    assert_string_equal(nt_error_message(), "split 'train', field 'image': the array is NULL");
    nt__data_free(data);
}

static void without_data_nothing_is_kept(void **state) {
    (void)state;
    nt_array *line = made_line(NT_U8, 4);
    assert_int_equal(nt_split(NULL, "train", .batch = 1), NT_INVALID);
    assert_int_equal(nt_split_field(NULL, "train", "label", nt_array_retain(line)), NT_INVALID);
    assert_int_equal(nt_data_status(NULL), NT_INVALID);
    assert_message_has("NULL");
    assert_int_equal(line->references, 1);
    nt_array_free(line);
    nt__data_free(NULL);
}

static nt_status declare(nt_data *data, nt_array *grid) {
    nt_split(data, "train", .batch = 2);
    nt_split_field(data, "train", "image", nt_array_retain(grid));
    nt_split(data, "val", .batch = 2);
    nt_split_field(data, "val", "image", nt_array_retain(grid));
    return nt_data_status(data);
}

static void every_refused_allocation_is_an_error(void **state) {
    (void)state;
    nt_array *grid = made_grid(4);
    size_t live = nt__memory().live, failures = 0;
    nt_status status = NT_OUT_OF_MEMORY;
    while (status == NT_OUT_OF_MEMORY) {
        nt_data *data = nt__data_new();
        nt__memory_fail_at(++failures);
        status = declare(data, grid);
        nt__memory_fail_at(0);
        if (status != NT_OK) assert_message_has_all((const char *[]){"split '", "out of host memory"}, 2);
        nt__data_free(data);
        assert_int_equal(nt__memory().live, live);
        assert_int_equal(grid->references, 1);
    }
    assert_int_equal(status, NT_OK);
    assert_true(failures > 3);
    nt__memory_fail_at(1);
    assert_null(nt__data_new());
    nt_array_free(grid);
}

/* ---- checks over all splits ------------------------------------------------------------------------------------- */

static void one_split_is_needed(void **state) {
    (void)state;
    nt_data *data = nt__data_new();
    assert_int_equal(nt__data_check(data), NT_INVALID);
    assert_message_has_all((const char *[]){"no split", "nt_split(data"}, 2);
    nt__data_free(data);
}

static void a_split_needs_a_field(void **state) {
    (void)state;
    nt_data *data = nt__data_new();
    nt_split(data, "train", .batch = 1);
    assert_int_equal(nt__data_check(data), NT_INVALID);
    assert_message_has_all((const char *[]){"split 'train' has no field", "nt_split_field"}, 2);
    assert_int_equal(nt_data_status(data), NT_OK); /* a check keeps nothing */
    nt__data_free(data);
}

/* A program has one batch size. */
static void splits_have_one_batch(void **state) {
    (void)state;
    nt_data *data = nt__data_new();
    nt_split(data, "train", .batch = 2);
    nt_split_field(data, "train", "image", made_grid(10));
    nt_split(data, "val", .batch = 5);
    nt_split_field(data, "val", "image", made_grid(10));
    assert_int_equal(nt__data_check(data), NT_INVALID);
    assert_message_has_all((const char *[]){"split 'train' has batches of 2", "split 'val' of 5"}, 2);
    nt__data_free(data);
}

static void a_split_needs_a_batch(void **state) {
    (void)state;
    nt_data *data = nt__data_new();
    nt_split(data, "train", .batch = 128, .drop_last = true);
    nt_split_field(data, "train", "image", made_grid(100));
    assert_int_equal(nt__data_check(data), NT_INVALID);
    assert_message_has_all((const char *[]){"split 'train'", "100 rows", "batches of 128", "drop_last"}, 4);
    nt__data_free(data);
}

/* Rows of no bytes, so that the array is small. */
static void what_can_be_shuffled_has_a_limit(void **state) {
    (void)state;
    const int64_t limit = UINT32_MAX;
    for (int64_t rows = limit; rows <= limit + 1; rows++) {
        nt_data *data = nt__data_new();
        nt_split(data, "train", .batch = 1, .shuffle = true);
        nt_split_field(data, "train", "nothing", nt_array_new(NT_U8, nt_dims(rows, 0)));
        assert_int_equal(nt__data_check(data), rows > limit ? NT_INVALID : NT_OK);
        if (rows > limit) assert_message_has_all((const char *[]){"'train'", "4294967296 rows", "4294967295"}, 3);
        nt__data_free(data);
    }
}

/* Whatever "val" has that "train" has not, or not in that form. "train" has image i32[.,3] and label u8[.]. */
static void splits_have_the_same_fields(void **state) {
    (void)state;
    static const struct {
        const char *names[3];
        nt__type types[3]; /* of a sample */
        const char *parts[PARTS];
    } rows[] = {
        {{"label", "image"}, {{NT_U8, {0}}, {NT_I32, {1, {3}}}}, {NULL}},
        {{"image"}, {{NT_I32, {1, {3}}}}, {"split 'train' has a field 'label'", "split 'val' has not", "image"}},
        {{"image", "label", "w"},
         {{NT_I32, {1, {3}}}, {NT_U8, {0}}, {NT_F32, {0}}},
         {"split 'val' has a field 'w'", "split 'train' has not", "image, label"}},
        {{"image", "label"},
         {{NT_I32, {1, {4}}}, {NT_U8, {0}}},
         {"field 'image'", "i32[3] in split 'train'", "i32[4] in split 'val'"}},
        {{"image", "label"}, {{NT_F32, {1, {3}}}, {NT_U8, {0}}}, {"i32[3] in split 'train'", "f32[3] in split 'val'"}},
        {{"image", "label"}, {{NT_I32, {2, {3, 1}}}, {NT_U8, {0}}}, {"i32[3]", "i32[3,1]"}},
        {{"image", "label"}, {{NT_I32, {1, {3}}}, {NT_U8, {1, {1}}}}, {"field 'label'", "u8[] in", "u8[1] in"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nt_data *data = nt__data_new();
        nt_split(data, "train", .batch = 2);
        nt_split_field(data, "train", "image", made_grid(10));
        nt_split_field(data, "train", "label", made_line(NT_U8, 10));
        nt_split(data, "val", .batch = 2);
        for (int j = 0; j < 3 && rows[i].names[j]; j++) {
            nt_shape shape = {rows[i].types[j].shape.rank + 1, {6}};
            memcpy(shape.dims + 1, rows[i].types[j].shape.dims, sizeof *shape.dims * (NT_MAX_RANK - 1));
            nt_split_field(data, "val", rows[i].names[j], nt_array_new(rows[i].types[j].dtype, shape));
        }
        assert_int_equal(nt_data_status(data), NT_OK);
        assert_int_equal(nt__data_check(data), rows[i].parts[0] ? NT_INVALID : NT_OK);
        assert_message_has_all(rows[i].parts, PARTS);
        nt__data_free(data);
    }
}

/* ---- the range of integers -------------------------------------------------------------------------------------- */

/* Integers in low <= value < limit. */
static nt_status claim(nt_data *data, const char *field, int64_t low, int64_t limit, const char *advice) {
    const nt__bounds bounds = {.low = (double)low, .high = (double)limit - 1, .integers = true};
    return nt__data_claim(data, field, &bounds, advice);
}

static void integers_out_of_range_are_named(void **state) {
    (void)state;
    nt_data *data = nt__data_new();
    nt_split(data, "train", .batch = 1, .first = 20, .limit = 50);
    nt_array *label = made_line(NT_I16, 60);
    nt_array *tokens = made_grid(60);
    nt_split_field(data, "train", "label", nt_array_retain(label));
    nt_split_field(data, "train", "tokens", nt_array_retain(tokens));
    nt_split_field(data, "train", "score", made_line(NT_F32, 60));

    assert_int_equal(claim(data, "label", 20, 50, NULL), NT_OK); /* rows outside the split do not count */
    assert_int_equal(claim(data, "label", 20, 49, NULL), NT_INVALID);
    assert_string_equal(nt_error_message(), "split 'train', field 'label', row 49: 49 is not in 20..48");
    assert_int_equal(claim(data, "label", 21, 50, NULL), NT_INVALID);
    assert_string_equal(nt_error_message(), "split 'train', field 'label', row 20: 20 is not in 21..49");
    nt_array_set(label, 37, -1);
    assert_int_equal(claim(data, "label", 0, 50, "look again"), NT_INVALID);
    assert_string_equal(nt_error_message(), "split 'train', field 'label', row 37: -1 is not in 0..49; look again");

    assert_int_equal(claim(data, "tokens", 200, 493, NULL), NT_OK);
    assert_int_equal(claim(data, "tokens", 200, 492, NULL), NT_INVALID);
    assert_string_equal(nt_error_message(), "split 'train', field 'tokens', row 49: 492 is not in 200..491");

    assert_int_equal(claim(data, "score", 0, 60, NULL), NT_INVALID);
    assert_message_has_all((const char *[]){"split 'train', field 'score'", "f32", "integers"}, 3);
    assert_int_equal(claim(data, "lable", 0, 60, NULL), NT_OK); /* no split has it */
    nt_array_free(label);
    nt_array_free(tokens);
    nt__data_free(data);
}

/* Numbers of any type: what is just outside is told with digits that show it. */
static void numbers_out_of_bounds_are_named(void **state) {
    (void)state;
    static const struct {
        double value;
        nt__bounds bounds;
        const char *wrong; /* "": right */
    } cases[] = {
        {1, {.low = 0, .high = 1}, ""},
        {-0.0, {.low = 0, .high = 1}, ""},
        {255, {.low = 0, .high = 1}, "255 is not in 0..1"},
        {1 + 0x1p-23, {.low = 0, .high = 1}, "1.0000001 is not in 0..1"},
        {-0.1, {.low = 0, .high = 1}, "-0.1 is not in 0..1"},
        {NAN, {.low = 0, .high = 1}, "nan is not in 0..1"},
        {INFINITY, {.low = 0, .high = INFINITY}, "inf is not a finite number from 0 on"},
        {1e30, {.low = 0, .high = INFINITY}, ""},
        {0, {.low = 0, .high = INFINITY}, ""},
        {0, {.low = 0, .high = INFINITY, .above_low = true}, "0 is not a finite number above 0"},
        {1e-30, {.low = 0, .high = INFINITY, .above_low = true}, ""},
        {1, {.low = 0, .high = 1, .below_high = true}, "1 is not in 0 <= x < 1"},
        {1 - 0x1p-24, {.low = 0, .high = 1, .below_high = true}, ""},
        {-1, {.low = -1, .high = 1, .signs = true}, ""},
        {1, {.low = -1, .high = 1, .signs = true}, ""},
        {0, {.low = -1, .high = 1, .signs = true}, "0 is not -1 or 1"},
        {NAN, {.low = -1, .high = 1, .signs = true}, "nan is not -1 or 1"},
        {1, {.low = 0, .high = 1, .sums_to_1 = 1}, ""},
        {0.5, {.low = 0, .high = 1, .sums_to_1 = 1}, "its 1 probabilities sum to 0.5 and not to 1 (within 0.01)"},
        {0.995, {.low = 0, .high = 1, .sums_to_1 = 1}, ""},
        {0.5, {.low = 0, .high = 1, .sums_to_1 = 2}, ""}, /* it goes on in another row */
    };
    static const nt_dtype types[] = {NT_F32, NT_F64};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = 0; t < 2; t++) {
            nt_data *data = nt__data_new();
            nt_array *x = nt_array_new(types[t], nt_dims(3));
            for (int row = 0; row < 3; row++)
                nt_array_set(x, row, cases[i].bounds.low == -1 || row == 0 ? 1 : 1 - 0x1p-24);
            nt_array_set(x, 2, cases[i].value);
            nt_split(data, "train", .batch = 1, .first = 1);
            nt_split_field(data, "train", "x", x);
            nt_status status = nt__data_claim(data, "x", &cases[i].bounds, NULL);
            char wanted[128] = "";
            if (*cases[i].wrong) snprintf(wanted, sizeof wanted, "split 'train', field 'x', row 2: %s", cases[i].wrong);
            assert_int_equal(status, *wanted ? NT_INVALID : NT_OK);
            if (*wanted && !(t == 1 && strstr(wanted, "1.0000001"))) assert_string_equal(nt_error_message(), wanted);
            nt__data_free(data);
        }
}

/* Probabilities of each sample, wherever their axis is reshaped to, and types that no fast loop is for. */
static void sums_and_other_types_are_looked_at(void **state) {
    (void)state;
    static const nt_dtype types[] = {NT_F32, NT_F64, NT_BF16, NT_F16, NT_U8, NT_I32, NT_BOOL};
    const nt__bounds shares = {.low = 0, .high = 1, .sums_to_1 = 3};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        nt_data *data = nt__data_new();
        nt_array *y = nt_array_new(types[t], nt_dims(4, 2, 3));
        for (int i = 0; i < 8; i++) nt_array_set(y, 3 * i + i % 3, 1);
        nt_split(data, "val", .batch = 2);
        nt_split_field(data, "val", "y", nt_array_retain(y));
        assert_int_equal(nt__data_claim(data, "y", &shares, NULL), NT_OK);
        nt_array_set(y, 19, 1);
        assert_int_equal(nt__data_claim(data, "y", &shares, NULL), NT_OK); /* an equal claim was checked */
        nt__bounds again = shares;
        again.high = 1.5;
        assert_int_equal(nt__data_claim(data, "y", &again, NULL), NT_INVALID);
        assert_string_equal(nt_error_message(),
                            "split 'val', field 'y', row 3: its 3 probabilities sum to 2 and not to 1 (within 0.01)");
        nt_array_free(y);
        nt__data_free(data);
    }
}

static void the_range_holds_for_large_numbers(void **state) {
    (void)state;
    nt_data *data = nt__data_new();
    nt_array *large = nt_array_new(NT_U64, nt_dims(2));
    ((uint64_t *)large->data)[1] = UINT64_MAX;
    nt_split(data, "train", .batch = 1);
    nt_split_field(data, "train", "id", large);
    const int64_t limit = INT64_C(1) << 53;
    assert_int_equal(claim(data, "id", 0, limit, NULL), NT_INVALID);
    assert_message_has_all((const char *[]){"row 1: 18446744073709551616", "0..9007199254740991"}, 2);
    ((uint64_t *)large->data)[1] = (uint64_t)limit + 1;
    assert_int_equal(claim(data, "id", 0, limit, NULL), NT_INVALID);
    ((uint64_t *)large->data)[1] = (uint64_t)limit - 1;
    assert_int_equal(claim(data, "id", 0, limit, NULL), NT_OK);
    nt__data_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_keep_what_they_were_given),
        cmocka_unit_test(many_splits_with_many_fields),
        cmocka_unit_test(batches_are_counted),
        cmocka_unit_test(bad_splits_are_refused),
        cmocka_unit_test(bad_fields_are_refused),
        cmocka_unit_test(fields_of_a_split_have_the_same_rows),
        cmocka_unit_test(a_field_is_added_once),
        cmocka_unit_test(the_first_error_is_kept),
        cmocka_unit_test(an_array_that_could_not_be_read_keeps_its_message),
        cmocka_unit_test(without_data_nothing_is_kept),
        cmocka_unit_test(every_refused_allocation_is_an_error),
        cmocka_unit_test(one_split_is_needed),
        cmocka_unit_test(a_split_needs_a_field),
        cmocka_unit_test(splits_have_one_batch),
        cmocka_unit_test(a_split_needs_a_batch),
        cmocka_unit_test(what_can_be_shuffled_has_a_limit),
        cmocka_unit_test(splits_have_the_same_fields),
        cmocka_unit_test(integers_out_of_range_are_named),
        cmocka_unit_test(the_range_holds_for_large_numbers),
        cmocka_unit_test(numbers_out_of_bounds_are_named),
        cmocka_unit_test(sums_and_other_types_are_looked_at),
    };
    return cmocka_run_group_tests_name("splits", tests, NULL, NULL);
}
