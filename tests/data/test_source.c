/* src/data/source.c: declaring a source, what it is asked for, what is checked about what it gives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "made_source.h"

/* ---- declaring -------------------------------------------------------------------------------------------------- */

enum { PARTS = 4 };

static void bad_sources_are_refused(void **state) {
    (void)state;
    static const nt_source_field no_type[] = {{"x", NT_DTYPE_COUNT, {0}}}, deep[] = {{"x", NT_F32, {NT_MAX_RANK, {1}}}},
                                 negative[] = {{"x", NT_F32, {1, {-1}}}}, nameless[] = {{NULL, NT_F32, {0}}},
                                 twice[] = {{"x", NT_F32, {0}}, {"x", NT_F32, {0}}},
                                 large[] = {{"x", NT_F32, {1, {INT64_MAX / 8}}}};
    static const struct {
        const char *split;
        nt_split_options options;
        nt_source source; /* what is given here replaces the good source's */
        const char *parts[PARTS];
    } rows[] = {
        {"tarin", {.batch = 2}, {.rows = 9}, {"no split 'tarin'", "train"}},
        {NULL, {.batch = 2}, {.rows = 9}, {"nt_split_source: split is NULL", "source 'made'"}},
        {"train", {.batch = 2}, {.rows = 0}, {"split 'train', source 'made'", "rows is 0", ".rows"}},
        {"train", {.batch = 2}, {.rows = -3}, {"rows is -3"}},
        {"train", {.batch = 2, .first = 9}, {.rows = 9}, {"rows from 9", "source has 9"}},
        {"train", {.batch = 2, .limit = 10}, {.rows = 9}, {"from 0 to 10", "source has 9"}},
        {"train", {.batch = 2}, {.rows = 9, .fields = no_type, .field_count = 1}, {"field 'x'", "element type 13"}},
        {"train", {.batch = 2}, {.rows = 9, .fields = deep, .field_count = 1}, {"field 'x'", "rank", "8"}},
        {"train", {.batch = 2}, {.rows = 9, .fields = negative, .field_count = 1}, {"field 'x'", "negative"}},
        {"train",
         {.batch = 2},
         {.rows = 9, .fields = nameless, .field_count = 1},
         {"nt_split_source: the name of a field is NULL"}},
        {"train", {.batch = 2}, {.rows = 9, .fields = twice, .field_count = 2}, {"field 'x'", "already"}},
        {"train", {.batch = 64}, {.rows = 9, .fields = large, .field_count = 1}, {"field 'x'", "smaller batch"}},
        {"train", {.batch = 2, .shuffle = true}, {.rows = 9, .in_order = true}, {"shuffle", "in order"}},
        {"train", {.batch = 2, .first = 1}, {.rows = 9, .in_order = true}, {"first or limit", "in order"}},
        {"train", {.batch = 2, .workers = 2}, {.rows = 9, .in_order = true}, {"more than one worker", "in order"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        made m = MADE(9);
        living before = living_now();
        nt_data *data = nt__data_new();
        nt_source source = source_of(&m);
        source.rows = rows[i].source.rows;
        source.in_order = rows[i].source.in_order;
        if (rows[i].source.fields) source.fields = rows[i].source.fields;
        if (rows[i].source.fields) source.field_count = rows[i].source.field_count;
        assert_int_equal(nt_split_with(data, "train", rows[i].options), NT_OK);
        assert_int_not_equal(nt_split_source(data, rows[i].split, source), NT_OK);
        assert_message_has_all(rows[i].parts, PARTS);
        assert_int_equal(m.closes, 1); /* it passed to the data all the same */
        assert_int_not_equal(nt_data_status(data), NT_OK);
        nt__data_free(data);
        assert_int_equal(m.closes, 1);
        assert_nothing_left(before);
    }
}

static void functions_are_needed(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        made m = MADE(9, .in_order = true);
        nt_source source = source_of(&m);
        if (i == 0) source.read = NULL;
        if (i == 1) source.begin = NULL;
        if (i == 2) source.field_count = 0;
        nt_data *data = nt__data_new();
        nt_split(data, "train", .batch = 2);
        assert_int_equal(nt_split_source(data, "train", source), NT_INVALID);
        assert_message_has(i == 0 ? "set .read" : i == 1 ? "needs a begin function" : "no field");
        nt__data_free(data);
        assert_int_equal(m.closes, 1);
    }
}

static void a_split_has_arrays_or_one_source(void **state) {
    (void)state;
    made m = MADE(9), other = MADE(9);
    nt_data *data = data_of(&m, (nt_split_options){.batch = 2});
    assert_int_equal(nt_split_field(data, "train", "more", made_line(NT_U8, 9)), NT_INVALID);
    assert_message_has_all((const char *[]){"split 'train', field 'more'", "has source 'made'", "or from arrays"}, 3);
    nt__data_free(data);
    data = data_of(&m, (nt_split_options){.batch = 2});
    assert_int_equal(nt_split_source(data, "train", source_of(&other)), NT_INVALID);
    assert_message_has("has source 'made'");
    nt__data_free(data);
    data = nt__data_new();
    nt_split(data, "train", .batch = 2);
    nt_split_field(data, "train", "label", made_line(NT_U8, 9));
    assert_int_equal(nt_split_source(data, "train", source_of(&other)), NT_INVALID);
    assert_message_has_all((const char *[]){"has the fields label", "one source"}, 2);
    nt__data_free(data);
    assert_int_equal(m.closes, 2);
    assert_int_equal(other.closes, 2);
}

static void limits_are_checked(void **state) {
    (void)state;
    static const struct {
        nt_split_options options;
        const char *part;
    } rows[] = {
        {{.batch = 1, .workers = -1}, "workers is -1, it must be 1 to 1024"},
        {{.batch = 1, .workers = 5000}, "workers is 5000"},
        {{.batch = 1, .device_batches = -2}, "device_batches is -2"},
        {{.batch = 1, .host_batches = -1}, "host_batches is -1"},
        {{.batch = 1, .workers = 4, .host_batches = 3}, "host_batches is 3, it must be 4 (one for each worker)"},
        {{.batch = 1, .time_limit = -1}, "time_limit is -1"},
        {{.batch = 1, .time_limit = NAN}, "time_limit is nan"},
        {{.batch = 1, .time_limit = INFINITY}, "time_limit is inf"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nt_data *data = nt__data_new();
        assert_int_equal(nt_split_with(data, "train", rows[i].options), NT_INVALID);
        assert_message_has("split 'train': ");
        assert_message_has(rows[i].part);
        nt__data_free(data);
    }
}

static void limits_have_defaults(void **state) {
    (void)state;
    nt_data *data = nt__data_new();
    nt_split(data, "a", .batch = 1);
    nt_split(data, "b", .batch = 1, .workers = 3, .device_batches = 2, .time_limit = 0.5);
    nt_split(data, "c", .batch = 1, .workers = 3, .host_batches = 3);
    const nt_split_options *a = &nt__data_split_find(data, "a")->options, *b = &nt__data_split_find(data, "b")->options,
                           *c = &nt__data_split_find(data, "c")->options;
    assert_true(a->workers == 1 && a->host_batches == 2 && a->device_batches == 1 && a->time_limit == 60);
    assert_true(b->workers == 3 && b->host_batches == 6 && b->device_batches == 2 && b->time_limit == 0.5);
    assert_true(c->workers == 3 && c->host_batches == 3);
    nt__data_free(data);
}

static void every_refused_allocation_of_a_declaration_is_an_error(void **state) {
    (void)state;
    living before = living_now();
    nt_status status = NT_OUT_OF_MEMORY;
    size_t failures = 0;
    while (status == NT_OUT_OF_MEMORY) {
        made m = MADE(9);
        nt_data *data = nt__data_new();
        nt__memory_fail_at(++failures);
        nt_split(data, "train", .batch = 2);
        status = nt_split_source(data, "train", source_of(&m));
        nt__memory_fail_at(0);
        if (status != NT_OK) assert_message_has_all((const char *[]){"split 'train'", "out of host memory"}, 2);
        nt__data_free(data);
        assert_int_equal(m.closes, 1);
        assert_nothing_left(before);
    }
    assert_int_equal(status, NT_OK);
    assert_true(failures > 2);
}

/* ---- what it is asked for --------------------------------------------------------------------------------------- */

static void assert_same_batch(nt__staged *one, nt__staged *other) {
    if (!one || !other) {
        fail_msg("one pass is longer than the other");
        return;
    }
    static char bytes[2][MOST_ROWS * COLUMNS * 4];
    assert_int_equal(one->rows, other->rows);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(nt__buffer_read(engine, &one->buffers[i], bytes[0]), NT_OK);
        assert_int_equal(nt__buffer_read(engine, &other->buffers[i], bytes[1]), NT_OK);
        assert_memory_equal(bytes[0], bytes[1], one->buffers[i].bytes);
        assert_string_equal(one->buffers[i].name, other->buffers[i].name);
    }
}

/* A source and arrays with the same content give the same pass. */
static void it_is_as_good_as_arrays(void **state) {
    (void)state;
    static const nt_split_options passes[] = {
        {.batch = 5},  {.batch = 5, .drop_last = true}, {.batch = 5, .first = 3, .limit = 20},
        {.batch = 64}, {.batch = 4, .shuffle = true},   {.batch = 7, .shuffle = true, .first = 3, .limit = 13},
    };
    living before = living_now();
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        made m = MADE(23);
        nt_data *data = data_of(&m, passes[i]), *arrays = nt__data_new();
        nt_split_with(arrays, "train", passes[i]);
        nt_split_field(arrays, "train", "image", made_grid(23));
        nt_split_field(arrays, "train", "label", made_line(NT_U8, 23));
        nt__stream *stream = open_pass(data, pass_options()), *other = open_pass(arrays, pass_options());
        for (nt__staged *one; (one = next(stream)); nt__staged_free(one)) {
            int rows[MOST_ROWS];
            nt__staged *two = next(other);
            assert_non_null(two);
            assert_same_batch(one, two);
            rows_of(one, passes[i].batch, rows);
            nt__staged_free(two);
        }
        assert_null(next(other));
        nt__stream_close(stream);
        nt__stream_close(other);
        assert_int_equal(m.reads, nt__split_batches(nt__data_split_at(data, 0)));
        assert_int_equal(m.closes, 0);
        nt__data_free(data);
        nt__data_free(arrays);
        assert_int_equal(m.closes, 1);
    }
    assert_nothing_left(before);
}

static void begin_is_called_once_a_pass(void **state) {
    (void)state;
    made m = MADE(9);
    nt_data *data = data_of(&m, (nt_split_options){.batch = 2, .workers = 3});
    for (int pass = 1; pass <= 3; pass++) {
        int batches;
        nt__stream_options options = pass_options();
        options.epoch = pass;
        options.seed = UINT64_MAX - (uint64_t)pass;
        nt__stream *stream = open_pass(data, options);
        assert_int_equal(count_batches(stream, &batches), NT_OK);
        assert_int_equal(batches, 5);
        nt__stream_close(stream);
        assert_int_equal(m.begins, pass);
        assert_int_equal(m.last_epoch, pass);
        assert_true(m.last_seed == UINT64_MAX - (uint64_t)pass);
    }
    m.begin_status = NT_NOT_FOUND;
    living before = living_now();
    nt__stream *stream = NULL;
    nt__stream_options options = pass_options();
    assert_int_equal(nt__stream_open(nt__data_split_at(data, 0), &options, &stream), NT_NOT_FOUND);
    assert_null(stream);
    assert_string_equal(nt_error_message(), "split 'train': source 'made': no pass today");
    assert_nothing_left(before);
    nt__data_free(data);
}

static void a_source_in_order_starts_again_each_pass(void **state) {
    (void)state;
    made m = MADE(23, .in_order = true);
    nt_data *data = data_of(&m, (nt_split_options){.batch = 5, .host_batches = 4, .device_batches = 3});
    for (int pass = 0; pass < 3; pass++) {
        int rows[MOST_ROWS];
        nt__stream *stream = open_pass(data, pass_options());
        if (pass == 1) nt__staged_free(next(stream)); /* left early: what was read ahead is lost with the pass */
        if (pass != 1) assert_int_equal(run_pass(stream, 5, rows), 23);
        for (int i = 0; pass != 1 && i < 23; i++) assert_int_equal(rows[i], i);
        nt__stream_close(stream);
    }
    nt__data_free(data);
}

/* A pass may go on where an earlier one was left, also at its last batch and at its end. */
static void a_pass_may_begin_in_the_middle(void **state) {
    (void)state;
    for (int in_order = 0; in_order < 2; in_order++) {
        for (int64_t first = 0; first <= 6; first++) {
            made m = MADE(23, .in_order = in_order);
            int whole[MOST_ROWS], rows[MOST_ROWS];
            nt_data *data = data_of(&m, (nt_split_options){.batch = 5, .shuffle = !in_order});
            nt__stream *stream = open_pass(data, pass_options());
            assert_int_equal(run_pass(stream, 5, whole), 23);
            nt__stream_close(stream);
            nt__stream_options options = pass_options();
            options.first_batch = first;
            stream = open_pass(data, options);
            int64_t count = 0, index = first;
            for (nt__staged *staged; (staged = next(stream)); nt__staged_free(staged)) {
                assert_int_equal(staged->index, index++);
                count += rows_of(staged, 5, rows + count);
            }
            assert_int_equal(count, first >= 5 ? 0 : 23 - 5 * first);
            if (count) assert_memory_equal(rows, whole + 5 * first, (size_t)count * sizeof *rows);
            nt__stream_close(stream);
            nt__data_free(data);
        }
    }
}

/* ---- what it gives ---------------------------------------------------------------------------------------------- */

static nt_array *good_copy(const nt_request *request) {
    return nt_array_from(NT_I32, request->fields[0]->shape, request->fields[0]->data);
}

static nt_array *fewer_rows(const nt_request *request) {
    return nt_array_new(NT_I32, nt_dims(request->count - 1, COLUMNS));
}

static nt_array *other_type(const nt_request *request) {
    return nt_array_new(NT_F32, request->fields[0]->shape);
}

static nt_array *changed_in_place(const nt_request *request) {
    request->fields[0]->shape.dims[1] = 7;
    return request->fields[0];
}

static nt_array *freed(const nt_request *request) {
    nt_array_free(request->fields[0]); /* a mistake without consequences */
    return request->fields[0];
}

static nt_array *nothing(const nt_request *request) {
    (void)request;
    return NULL;
}

/* Nothing but the message tells of it, and another call that fails after it must not hide it. */
static nt_array *set_beyond_the_end(const nt_request *request) {
    nt_array_set(request->fields[0], 15, 1);
    nt_array_free(nt_array_new(NT_F32, nt_dims(-1)));
    return request->fields[0];
}

static nt_array *recovered(const nt_request *request) {
    nt_array_free(nt_array_new(NT_F32, nt_dims(-1)));
    return request->fields[0];
}

/* Split, batch, source and what differs. */
static void what_came_is_checked(void **state) {
    (void)state;
    static const struct {
        nt_array *(*odd)(const nt_request *request);
        const char *message; /* NULL: it is good */
    } rows[] = {
        {good_copy, NULL},
        {freed, NULL},
        {recovered, NULL},
        {fewer_rows, "field 'image' came as i32[4,3], it must be i32[5,3]"},
        {other_type, "field 'image' came as f32[5,3], it must be i32[5,3]"},
        {changed_in_place, "field 'image' came as i32[5,7], it must be i32[5,3]"},
        {set_beyond_the_end, "element 15 of an array i32[5,3]: it has the elements 0 to 14"},
        {nothing, "field 'image' is missing (NULL), it must be i32[5,3]"},
    };
    living before = living_now();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        made m = MADE(23, .odd = rows[i].odd, .odd_at = 3);
        int batches, all[MOST_ROWS];
        char message[256];
        nt_data *data = data_of(&m, (nt_split_options){.batch = 5});
        nt__stream *stream = open_pass(data, pass_options());
        if (rows[i].message) {
            snprintf(message, sizeof message, "split 'train', batch 3 of 5: source 'made': %s", rows[i].message);
            assert_int_equal(count_batches(stream, &batches), NT_INVALID);
            assert_int_equal(batches, 2);
            assert_string_equal(nt_error_message(), message);
        } else {
            assert_int_equal(run_pass(stream, 5, all), 23);
        }
        nt__stream_close(stream);
        nt__data_free(data);
        assert_nothing_left(before);
    }
}

static nt_status says_nothing(void *context, nt_request *request) {
    (void)context;
    (void)request;
    return NT_NOT_FOUND;
}

static void an_error_without_a_message_gets_one(void **state) {
    (void)state;
    int batches;
    made m = MADE(9);
    nt_data *data = nt__data_new();
    nt_source source = source_of(&m);
    source.read = says_nothing;
    source.name = NULL;
    nt_split(data, "val", .batch = 2);
    nt_split_source(data, "val", source);
    nt__stream *stream = open_pass(data, pass_options());
    assert_int_equal(count_batches(stream, &batches), NT_NOT_FOUND);
    assert_string_equal(nt_error_message(), "split 'val', batch 1 of 5: source 'source': read returned 'not found' and "
                                            "no message; nt_fail gives one");
    nt__stream_close(stream);
    nt__data_free(data);
}

static nt_status says_interrupted(void *context, nt_request *request) {
    (void)context;
    return request->batch ? NT_OK : nt_fail(NT_INTERRUPTED, "the camera was unplugged");
}

static nt_status says_diverged(void *context, nt_request *request) {
    (void)context;
    (void)request;
    return NT_DIVERGED;
}

/* A run that was stopped is saved, one that diverged is not: a source may decide neither. */
static void what_only_nitro_may_say_is_a_failure_to_read(void **state) {
    (void)state;
    static const struct {
        nt_status (*read)(void *context, nt_request *request);
        const char *message;
    } rows[] = {{says_interrupted, "the camera was unplugged"},
                {says_diverged, "read returned 'diverged' and no message; nt_fail gives one"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int batches;
        made m = MADE(9);
        nt_data *data = nt__data_new();
        nt_source source = source_of(&m);
        source.read = rows[i].read;
        nt_split(data, "train", .batch = 2);
        nt_split_source(data, "train", source);
        nt__stream *stream = open_pass(data, pass_options());
        assert_int_equal(count_batches(stream, &batches), NT_IO);
        assert_int_equal(batches, 0);
        assert_message_has("split 'train', batch 1 of 5: source 'made': ");
        assert_message_has(rows[i].message);
        nt__stream_close(stream);
        nt__data_free(data);
    }
}

static nt_status changes_its_request(void *context, nt_request *request) {
    static nt_array *own[2];
    static const int64_t rows[5];
    switch (*(const int *)context) {
    case 0: request->fields = NULL; break;
    case 1: request->fields = own; break;
    case 2: request->rows = rows; break;
    case 3: request->count = 1000000; break;
    case 4: request->batch = -1; break;
    default: request->epoch = 7; break;
    }
    return NT_OK;
}

static void a_request_is_not_for_the_source_to_change(void **state) {
    (void)state;
    static const char *const changed[] = {"fields", "fields", "rows", "count", "batch", "epoch"};
    living before = living_now();
    for (int i = 0; i < 6; i++) {
        int batches;
        char part[64];
        nt_data *data = nt__data_new();
        nt_split(data, "train", .batch = 2);
        nt_split_source(data, "train",
                        (nt_source){.name = "odd",
                                    .context = &i,
                                    .rows = 9,
                                    .fields = made_fields,
                                    .field_count = 2,
                                    .read = changes_its_request});
        nt__stream *stream = open_pass(data, pass_options());
        assert_int_equal(count_batches(stream, &batches), NT_INVALID);
        snprintf(part, sizeof part, "source 'odd': read changed %s of its request", changed[i]);
        assert_message_has(part);
        nt__stream_close(stream);
        nt__data_free(data);
        assert_nothing_left(before);
    }
}

/* Integers in low <= value < limit. */
static nt_status claim(nt_data *data, const char *field, int64_t low, int64_t limit, const char *advice) {
    const nt__bounds bounds = {.low = (double)low, .high = (double)limit - 1, .integers = true};
    return nt__data_claim(data, field, &bounds, advice);
}

/* Arrays are looked through at setup, what a source gives as it comes. */
static void labels_out_of_range_are_an_error_of_their_batch(void **state) {
    (void)state;
    int batches;
    made m = MADE(23);
    nt_data *data = data_of(&m, (nt_split_options){.batch = 5, .first = 2});
    assert_int_equal(claim(data, "label", 0, 50, NULL), NT_OK);
    assert_int_equal(claim(data, "label", 1, 19, "count again"), NT_OK); /* the narrower one counts */
    assert_int_equal(m.reads, 0);
    nt__stream *stream = open_pass(data, pass_options());
    assert_int_equal(count_batches(stream, &batches), NT_INVALID);
    assert_int_equal(batches, 3);
    assert_string_equal(
        nt_error_message(),
        "split 'train', batch 4 of 5: source 'made': field 'label', row 19: 19 is not in 1..18; count again");
    nt__stream_close(stream);
    nt__data_free(data);
}

static nt_status odd_bools(void *context, nt_request *request) {
    (void)context;
    memset(request->fields[0]->data, 128, request->fields[0]->bytes);
    return NT_OK;
}

static void bools_are_normalised(void **state) {
    (void)state;
    static const nt_source_field mask = {"mask", NT_BOOL, {0}};
    const char *const fields[] = {"mask"};
    nt_data *data = nt__data_new();
    nt_split(data, "train", .batch = 4);
    nt_split_source(data, "train", (nt_source){.rows = 3, .fields = &mask, .field_count = 1, .read = odd_bools});
    nt__stream *stream = open_pass(data, (nt__stream_options){.engine = engine, .fields = fields, .field_count = 1});
    nt__staged *staged = next(stream);
    uint8_t got[4];
    assert_int_equal(nt__buffer_read(engine, staged->buffers, got), NT_OK);
    assert_memory_equal(got, ((uint8_t[]){1, 1, 1, 1}), 4);
    assert_true(nt_array_get(nt_host_field(staged->host, "mask"), 2) == 1);
    nt__staged_free(staged);
    nt__stream_close(stream);
    nt__data_free(data);
}

static void a_freed_batch_is_named_when_it_is_read(void **state) {
    (void)state;
    made m = MADE(9);
    int32_t out[2 * COLUMNS];
    nt_data *data = data_of(&m, (nt_split_options){.batch = 2});
    nt__stream *stream = open_pass(data, pass_options());
    nt__staged *staged = next(stream);
    nt__buffer_free(&staged->buffers[0]);
    nt__buffer_free(&staged->buffers[0]);
    assert_null(staged->buffers[0].raw);
    assert_int_equal(nt__buffer_read(engine, &staged->buffers[0], out), NT_INVALID);
    assert_message_has_all((const char *[]){"'batch.image'", "was freed"}, 2);
    nt__staged_free(staged);
    nt__stream_close(stream);
    nt__data_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_sources_are_refused),
        cmocka_unit_test(functions_are_needed),
        cmocka_unit_test(a_split_has_arrays_or_one_source),
        cmocka_unit_test(limits_are_checked),
        cmocka_unit_test(limits_have_defaults),
        cmocka_unit_test(every_refused_allocation_of_a_declaration_is_an_error),
        cmocka_unit_test(it_is_as_good_as_arrays),
        cmocka_unit_test(begin_is_called_once_a_pass),
        cmocka_unit_test(a_source_in_order_starts_again_each_pass),
        cmocka_unit_test(a_pass_may_begin_in_the_middle),
        cmocka_unit_test(what_came_is_checked),
        cmocka_unit_test(an_error_without_a_message_gets_one),
        cmocka_unit_test(what_only_nitro_may_say_is_a_failure_to_read),
        cmocka_unit_test(a_request_is_not_for_the_source_to_change),
        cmocka_unit_test(labels_out_of_range_are_an_error_of_their_batch),
        cmocka_unit_test(bools_are_normalised),
        cmocka_unit_test(a_freed_batch_is_named_when_it_is_read),
    };
    return cmocka_run_group_tests_name("source", tests, open_engine, close_engine);
}
