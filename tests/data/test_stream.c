/* src/data/stream.c, pass.c, batch.c and host.c on arrays: which rows a pass gives, in which order, on the device and
 * on the host; that nothing stays alive however a pass ends; what happens when the worker fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "made.h"
#include "base/files.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- an engine and splits of it --------------------------------------------------------------------------------- */

static nt__engine *engine;

static int open_engine(void **state) {
    (void)state;
    return nt__engine_open(1, &engine) == NT_OK ? 0 : -1;
}

static int close_engine(void **state) {
    (void)state;
    return nt__engine_close() == NT_OK ? 0 : -1;
}

/* What is alive: of the library's memory and of the device's. Equal before and after whatever a test does. */
typedef struct living {
    uint64_t buffers, bytes, staged, batch;
    size_t blocks;
} living;

static living living_now(void) {
    nt__engine_counts counts = nt__engine_counts_now();
    return (living){
        .buffers = counts.all_buffers.live_count,
        .bytes = counts.all_buffers.live_bytes,
        .staged = counts.buffers[NT__STAGED].live_count,
        .batch = counts.buffers[NT__BATCH].live_count,
        .blocks = nt__memory().live,
    };
}

static void assert_nothing_left(living before) {
    living now = living_now();
    assert_int_equal(now.buffers, before.buffers);
    assert_int_equal(now.bytes, before.bytes);
    assert_int_equal(now.staged, before.staged);
    assert_int_equal(now.batch, before.batch);
    assert_int_equal(now.blocks, before.blocks);
}

/* Split "train" of `rows` rows with the fields "image" (made_grid) and "label" (made_line). */
static nt_data *made_data(int64_t rows, nt_split_options options) {
    nt_data *data = nt__data_new();
    nt_split_with(data, "train", options);
    nt_split_field(data, "train", "image", made_grid(rows));
    nt_split_field(data, "train", "label", made_line(NT_U8, rows));
    assert_int_equal(nt__data_check(data), NT_OK);
    return data;
}

static const char *const both[] = {"image", "label"};

static nt__stream_options options_for(uint64_t seed, int64_t epoch) {
    return (nt__stream_options){.engine = engine, .fields = both, .field_count = 2, .seed = seed, .epoch = epoch};
}

static nt__stream *open_pass(const nt_data *data, uint64_t seed, int64_t epoch) {
    nt__stream *stream;
    nt__stream_options options = options_for(seed, epoch);
    if (nt__stream_open(nt__data_split_at(data, 0), &options, &stream) != NT_OK) fail_msg("%s", nt_error_message());
    return stream;
}

static nt__staged *next(nt__stream *stream) {
    nt__staged *staged;
    if (nt__stream_next(stream, &staged) != NT_OK) fail_msg("%s", nt_error_message());
    return staged;
}

/* ---- looking at a batch ----------------------------------------------------------------------------------------- */

enum { MOST = 64 };

/* The rows of a batch by their labels, padding included: each element of "image" must fit its row's label. */
static void read_device_rows(nt__staged *staged, int64_t batch, int *rows) {
    int32_t images[MOST][COLUMNS];
    uint8_t labels[MOST];
    assert_int_equal(staged->buffer_count, 2);
    assert_int_equal(staged->buffers[0].bytes, batch * COLUMNS * 4);
    assert_int_equal(nt__buffer_read(engine, &staged->buffers[0], images), NT_OK);
    assert_int_equal(nt__buffer_read(engine, &staged->buffers[1], labels), NT_OK);
    for (int64_t i = 0; i < batch; i++) {
        for (int j = 0; j < COLUMNS; j++) assert_int_equal(images[i][j], 10 * labels[i] + j);
        rows[i] = labels[i];
    }
}

/* The host has the real rows only. */
static void assert_host_rows(const nt__staged *staged, const int *rows) {
    const nt_array *image = nt_host_field(staged->host, "image"), *label = nt_host_field(staged->host, "label");
    assert_true(nt_shape_equal(image->shape, nt_dims(staged->rows, COLUMNS)));
    assert_true(nt_shape_equal(label->shape, nt_dims(staged->rows)));
    assert_int_equal(image->dtype, NT_I32);
    assert_int_equal(image->bytes, staged->rows * COLUMNS * 4);
    assert_int_equal(label->bytes, staged->rows);
    for (int64_t i = 0; i < staged->rows; i++) assert_true(nt_array_get(label, i) == rows[i]);
    for (int64_t i = 0; i < staged->rows * COLUMNS; i++) {
        int64_t made = 10 * rows[i / COLUMNS] + i % COLUMNS;
        assert_true(nt_array_get(image, i) == (double)made);
    }
    assert_ptr_equal(nt_host_field(staged->host, "image"), image);
}

/* Runs a pass; out gets the rows in the order they came. Returns how many. */
static int64_t run_pass(nt__stream *stream, int64_t batch, int *out) {
    int64_t total = 0, index = 0;
    nt__staged *staged;
    while ((staged = next(stream))) {
        int rows[MOST];
        read_device_rows(staged, batch, rows);
        assert_host_rows(staged, rows);
        assert_int_equal(staged->index, index++);
        for (int64_t i = staged->rows; i < batch; i++) assert_int_equal(rows[i], rows[staged->rows - 1]);
        for (int64_t i = 0; i < staged->rows; i++) out[total++] = rows[i];
        nt__staged_free(staged);
    }
    assert_null(next(stream)); /* the end stays the end */
    return total;
}

static void assert_each_once(const int *rows, int64_t count, int first) {
    char seen[MOST * 4] = {0};
    for (int64_t i = 0; i < count; i++) {
        assert_in_range(rows[i], first, first + count - 1);
        assert_int_equal(seen[rows[i]]++, 0);
    }
}

/* ---- which rows come -------------------------------------------------------------------------------------------- */

static const struct {
    nt_split_options options;
    int64_t batches;
    int64_t rows; /* that come, of 23 */
    int first;
} passes[] = {
    {{.batch = 5}, 5, 23, 0},
    {{.batch = 5, .drop_last = true}, 4, 20, 0},
    {{.batch = 5, .first = 3, .limit = 20}, 4, 17, 3},
    {{.batch = 23}, 1, 23, 0},
    {{.batch = 64}, 1, 23, 0},
    {{.batch = 1, .first = 22}, 1, 1, 22},
    {{.batch = 4, .shuffle = true}, 6, 23, 0},
    {{.batch = 4, .shuffle = true, .first = 3}, 5, 20, 3},
    {{.batch = 7, .shuffle = true, .first = 3, .limit = 13}, 2, 10, 3},
    {{.batch = 64, .shuffle = true}, 1, 23, 0},
};

static void each_row_comes_once(void **state) {
    (void)state;
    living before = living_now();
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        int rows[MOST];
        nt_data *data = made_data(23, passes[i].options);
        nt__stream *stream = open_pass(data, 1, 1);
        assert_int_equal(nt__split_batches(nt__data_split_at(data, 0)), passes[i].batches);
        assert_int_equal(run_pass(stream, passes[i].options.batch, rows), passes[i].rows);
        assert_each_once(rows, passes[i].rows, passes[i].first);
        for (int j = 0; !passes[i].options.shuffle && j < passes[i].rows; j++)
            assert_int_equal(rows[j], passes[i].first + j);
        nt__stream_close(stream);
        nt__data_free(data);
        assert_nothing_left(before);
    }
}

/* Of a shuffled split whose short batch is dropped, other rows stay away in each epoch. */
static void a_dropped_batch_differs_with_the_epoch(void **state) {
    (void)state;
    int rows[MOST], seen[23] = {0}, always = 0;
    nt_data *data = made_data(23, (nt_split_options){.batch = 10, .shuffle = true, .drop_last = true});
    for (int epoch = 1; epoch <= 20; epoch++) {
        nt__stream *stream = open_pass(data, 3, epoch);
        assert_int_equal(run_pass(stream, 10, rows), 20);
        for (int i = 0; i < 20; i++) seen[rows[i]]++;
        nt__stream_close(stream);
    }
    for (int i = 0; i < 23; i++) always += seen[i] == 20;
    assert_true(always < 8);
    nt__data_free(data);
}

static void order_of(const nt_data *data, uint64_t seed, int64_t epoch, int *rows) {
    nt__stream *stream = open_pass(data, seed, epoch);
    assert_int_equal(run_pass(stream, 8, rows), 50);
    assert_each_once(rows, 50, 0);
    nt__stream_close(stream);
}

static void each_epoch_and_seed_has_its_order(void **state) {
    (void)state;
    enum { ORDERS = 9 };
    int orders[ORDERS][MOST] = {{0}}, again[MOST] = {0};
    nt_data *data = made_data(50, (nt_split_options){.batch = 8, .shuffle = true});
    for (int i = 0; i < ORDERS; i++) {
        order_of(data, (uint64_t)(i / 3), 1 + i % 3, orders[i]);
        for (int j = 0; j < i; j++) assert_memory_not_equal(orders[i], orders[j], sizeof orders[i]);
    }
    for (int i = 0; i < ORDERS; i++) { /* the same on a second run */
        order_of(data, (uint64_t)(i / 3), 1 + i % 3, again);
        assert_memory_equal(again, orders[i], sizeof again);
    }
    order_of(data, UINT64_C(1) << 32, 1, again); /* the upper half of a seed counts */
    assert_memory_not_equal(again, orders[0], sizeof again);
    nt__data_free(data);
}

/* A resumed run must find the order that an older build drew: these numbers never change. */
static void the_order_is_fixed(void **state) {
    (void)state;
    static const int expected[] = {0, 7, 6, 4, 8, 3, 5, 9, 2, 1};
    int rows[MOST];
    nt_data *data = made_data(10, (nt_split_options){.batch = 8, .shuffle = true});
    nt__stream *stream = open_pass(data, 42, 7);
    assert_int_equal(run_pass(stream, 8, rows), 10);
    for (int i = 0; i < 10; i++) assert_int_equal(rows[i], expected[i]);
    nt__stream_close(stream);
    nt__data_free(data);
}

static void a_split_without_a_full_batch_has_no_batches(void **state) {
    (void)state;
    living before = living_now();
    nt_data *data = nt__data_new();
    nt_split(data, "train", .batch = 5, .drop_last = true, .shuffle = true);
    nt_split_field(data, "train", "image", made_grid(4));
    nt__stream_options options = {.engine = engine, .fields = both, .field_count = 1};
    nt__stream *stream;
    assert_int_equal(nt__stream_open(nt__data_split_at(data, 0), &options, &stream), NT_OK);
    assert_null(next(stream));
    nt__stream_close(stream);
    nt__data_free(data);
    assert_nothing_left(before);
}

/* ---- element types and fields ----------------------------------------------------------------------------------- */

static void every_element_type_arrives(void **state) {
    (void)state;
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        for (nt_dtype dtype = 0; dtype < NT_DTYPE_COUNT; dtype++) {
            const char *const fields[] = {"x"};
            char got[8 * 4];
            nt_data *data = nt__data_new();
            nt_split(data, "train", .batch = 4, .shuffle = shuffle);
            nt_split_field(data, "train", "x", made_line(dtype, 4));
            nt__stream_options options = {.engine = engine, .fields = fields, .field_count = 1};
            nt__stream *stream;
            assert_int_equal(nt__stream_open(nt__data_split_at(data, 0), &options, &stream), NT_OK);
            nt__staged *staged = next(stream);
            assert_int_equal(nt__buffer_read(engine, staged->buffers, got), NT_OK);
            const nt_array *x = nt_host_field(staged->host, "x");
            assert_memory_equal(got, x->data, x->bytes);
            assert_int_equal(x->bytes, 4 * nt_dtype_size(dtype));
            nt__staged_free(staged);
            nt__stream_close(stream);
            nt__data_free(data);
        }
    }
}

static void bools_are_normalised(void **state) {
    (void)state;
    const char *const fields[] = {"mask"};
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        uint8_t got[4];
        nt_data *data = nt__data_new();
        nt_array *mask = nt_array_new(NT_BOOL, nt_dims(3));
        memcpy(mask->data, (uint8_t[]){2, 128, 255}, 3);
        nt_split(data, "train", .batch = 4, .shuffle = shuffle);
        nt_split_field(data, "train", "mask", mask);
        nt__stream_options options = {.engine = engine, .fields = fields, .field_count = 1};
        nt__stream *stream;
        assert_int_equal(nt__stream_open(nt__data_split_at(data, 0), &options, &stream), NT_OK);
        nt__staged *staged = next(stream);
        assert_int_equal(nt__buffer_read(engine, staged->buffers, got), NT_OK);
        assert_memory_equal(got, ((uint8_t[]){1, 1, 1, 1}), 4);
        nt__staged_free(staged);
        nt__stream_close(stream);
        nt__data_free(data);
    }
}

static void only_the_fields_asked_for_are_staged(void **state) {
    (void)state;
    living before = living_now();
    nt_data *data = made_data(6, (nt_split_options){.batch = 4, .shuffle = true});
    for (size_t count = 0; count < 2; count++) {
        nt__stream_options options = {.engine = engine, .fields = both + 1, .field_count = count};
        nt__stream *stream;
        assert_int_equal(nt__stream_open(nt__data_split_at(data, 0), &options, &stream), NT_OK);
        nt__staged *staged = next(stream);
        assert_int_equal(staged->buffer_count, count);
        if (count) assert_string_equal(staged->buffers[0].name, "batch.label");
        assert_true(nt_array_get(nt_host_field(staged->host, "image"), 1) ==
                    nt_array_get(nt_host_field(staged->host, "label"), 0) * 10 + 1);
        nt__staged_free(staged);
        nt__stream_close(stream);
    }
    nt__data_free(data);
    assert_nothing_left(before);
}

static void samples_without_elements_pass(void **state) {
    (void)state;
    living before = living_now();
    const char *const fields[] = {"nothing"};
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        nt_data *data = nt__data_new();
        nt_split(data, "train", .batch = 4, .shuffle = shuffle);
        nt_split_field(data, "train", "nothing", nt_array_new(NT_F32, nt_dims(6, 0)));
        nt__stream_options options = {.engine = engine, .fields = fields, .field_count = 1};
        nt__stream *stream;
        nt__staged *staged;
        assert_int_equal(nt__stream_open(nt__data_split_at(data, 0), &options, &stream), NT_OK);
        for (int64_t rows = 4; (staged = next(stream)); rows -= 2) {
            assert_true(nt_shape_equal(nt_host_field(staged->host, "nothing")->shape, nt_dims(rows, 0)));
            assert_true(nt_shape_equal(staged->buffers[0].type.shape, nt_dims(4, 0)));
            nt__staged_free(staged);
        }
        nt__stream_close(stream);
        nt__data_free(data);
    }
    assert_nothing_left(before);
}

static void an_unknown_field_is_refused(void **state) {
    (void)state;
    living before = living_now();
    const char *const fields[] = {"image", "lable"};
    nt_data *data = made_data(6, (nt_split_options){.batch = 4, .shuffle = true});
    nt__stream_options options = {.engine = engine, .fields = fields, .field_count = 2};
    nt__stream *stream = (nt__stream *)data;
    assert_int_equal(nt__stream_open(nt__data_split_at(data, 0), &options, &stream), NT_NOT_FOUND);
    assert_null(stream);
    assert_message_has_all((const char *[]){"split 'train'", "'lable'", "image, label"}, 3);
    nt__data_free(data);
    assert_nothing_left(before);
}

/* ---- the rows on the host --------------------------------------------------------------------------------------- */

/* What goes to the device was read into memory that is lent to it; the hook sees that memory, or the split's array. */
static void rows_are_not_copied_for_a_hook(void **state) {
    (void)state;
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        nt_data *data = made_data(10, (nt_split_options){.batch = 4, .first = 1, .shuffle = shuffle});
        const char *whole = nt__data_split_at(data, 0)->fields[0].array->data;
        nt__stream_options options = {.engine = engine, .fields = both + 1, .field_count = 1};
        nt__stream *stream;
        assert_int_equal(nt__stream_open(nt__data_split_at(data, 0), &options, &stream), NT_OK);
        nt__staged *staged;
        for (int64_t i = 0; (staged = next(stream)); i++) {
            size_t blocks = nt__memory().total;
            assert_ptr_equal(nt_host_field(staged->host, "label")->data, staged->buffers[0].lent);
            if (!shuffle)
                assert_ptr_equal(nt_host_field(staged->host, "image")->data, whole + (1 + 4 * i) * COLUMNS * 4);
            if (i == 2) /* the worker is done: nobody else allocates */
                assert_int_equal(nt__memory().total, blocks);
            else
                assert_non_null(nt_host_field(staged->host, "image")->data);
            nt__staged_free(staged);
        }
        nt__stream_close(stream);
        nt__data_free(data);
    }
}

/* What a hook gets for a field that is not there: a zero for each row. */
static void assert_stand_in(const nt_array *array, int64_t rows) {
    assert_int_equal(array->dtype, NT_I64);
    assert_true(nt_shape_equal(array->shape, nt_dims(rows)));
    for (int64_t i = 0; i < rows; i++) assert_true(nt_array_get(array, i) == 0);
}

static void missing_fields_are_remembered(void **state) {
    (void)state;
    nt_data *data = made_data(10, (nt_split_options){.batch = 4});
    nt__stream *stream = open_pass(data, 1, 1);
    nt__staged *staged = next(stream);
    assert_non_null(nt_host_field(staged->host, "label"));
    assert_int_equal(nt__host_batch_status(staged->host), NT_OK);
    char name[] = "weight"; /* need not outlive the call */
    assert_stand_in(nt_host_field(staged->host, name), staged->rows);
    name[0] = 'h';
    assert_stand_in(nt_host_field(staged->host, name), staged->rows);
    assert_non_null(nt_host_field(staged->host, "label"));
    assert_int_equal(nt__host_batch_status(staged->host), NT_NOT_FOUND);
    assert_message_has_all((const char *[]){"'weight'", "split 'train'", "image, label"}, 3);
    nt__staged_free(staged);
    staged = next(stream);
    assert_stand_in(nt_host_field(staged->host, NULL), staged->rows);
    assert_int_equal(nt__host_batch_status(staged->host), NT_NOT_FOUND);
    assert_message_has_all((const char *[]){"NULL"}, 1);
    nt__staged_free(staged);
    nt__stream_close(stream);
    nt__data_free(data);
}

static void rows_that_memory_is_short_for_are_an_error(void **state) {
    (void)state;
    living before = living_now();
    nt_data *data = made_data(4, (nt_split_options){.batch = 4, .shuffle = true});
    nt__stream_options options = {.engine = engine, .fields = both + 1, .field_count = 1};
    nt__stream *stream;
    assert_int_equal(nt__stream_open(nt__data_split_at(data, 0), &options, &stream), NT_OK);
    nt__staged *staged = next(stream);
    assert_null(next(stream)); /* the worker is done: nobody else allocates */
    nt__memory_fail_at(1);
    assert_stand_in(nt_host_field(staged->host, "image"), staged->rows);
    assert_int_equal(nt__host_batch_status(staged->host), NT_OUT_OF_MEMORY);
    assert_message_has_all((const char *[]){"4 rows", "field 'image'", "split 'train'"}, 3);
    nt__staged_free(staged);
    nt__stream_close(stream);
    nt__data_free(data);
    assert_nothing_left(before);
}

/* ---- accounts --------------------------------------------------------------------------------------------------- */

static void take(nt__stream *stream, int batches) {
    for (int i = 0; i < batches; i++) nt__staged_free(next(stream));
}

/* Gives the worker time to stage: 0 to 2 milliseconds. */
static void linger(int turn) {
    nanosleep(&(struct timespec){.tv_nsec = turn % 5 * 500000}, NULL);
}

static void wait_until_staged(uint64_t buffers) {
    for (int i = 0; i < 5000 && living_now().staged < buffers; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* The worker has one batch ready and the consumer those that it took, no matter how long it takes over them. */
static void one_batch_is_staged_ahead(void **state) {
    (void)state;
    nt_data *data = made_data(20, (nt_split_options){.batch = 4});
    nt__stream *stream = open_pass(data, 1, 1);
    nt__staged *staged[5];
    for (uint64_t i = 0; i < 5; i++) {
        staged[i] = next(stream);
        wait_until_staged(i < 4 ? 2 : 0);
        linger(4);
        assert_int_equal(living_now().staged, i < 4 ? 2 : 0);
        assert_int_equal(living_now().batch, 2 * (i + 1));
        for (int j = 0; j < 2; j++) assert_int_equal(staged[i]->buffers[j].purpose, NT__BATCH);
    }
    for (int i = 0; i < 5; i++) nt__staged_free(staged[i]);
    nt__stream_close(stream);
    nt__data_free(data);
    assert_int_equal(nt__engine_counts_now().buffers[NT__STAGED].peak_count, 2); /* also in all passes so far */
}

static void uploads_are_counted_as_staged(void **state) {
    (void)state;
    nt__engine_counts before = nt__engine_counts_now();
    nt_data *data = made_data(20, (nt_split_options){.batch = 8});
    nt__stream *stream = open_pass(data, 1, 1);
    take(stream, 3);
    nt__stream_close(stream);
    nt__engine_counts after = nt__engine_counts_now();
    assert_int_equal(after.uploads[NT__STAGED].count - before.uploads[NT__STAGED].count, 6);
    assert_int_equal(after.uploads[NT__STAGED].bytes - before.uploads[NT__STAGED].bytes, 3 * 8 * (COLUMNS * 4 + 1));
    assert_int_equal(after.uploads[NT__BATCH].count, before.uploads[NT__BATCH].count);
    nt__data_free(data);
}

static void waiting_is_measured(void **state) {
    (void)state;
    nt_data *data = made_data(20, (nt_split_options){.batch = 8});
    nt__stream *stream = open_pass(data, 1, 1);
    assert_true(nt__stream_waited(stream) == 0);
    double start = nt__seconds();
    take(stream, 3);
    double waited = nt__stream_waited(stream);
    assert_true(waited > 0 && waited <= nt__seconds() - start);
    nt__stream_close(stream);
    nt__data_free(data);
}

/* A sanitizer keeps freed memory for a while. */
#ifdef __SANITIZE_ADDRESS__
enum { SLACK = 300 << 20 };
#else
enum { SLACK = 16 << 20 };
#endif

static long resident_bytes(void) {
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

/* The workers share the data. */
static void workers_have_no_copies_of_the_data(void **state) {
    (void)state;
    enum { ROWS = 256, ROW = 1 << 18, BATCH = 2 };
    static const char *const fields[] = {"x"};
    nt_data *data = nt__data_new();
    nt_array *array = nt_array_new(NT_U8, nt_dims(ROWS, ROW)); /* 64 MiB, batches of 512 KiB */
    assert_non_null(array);
    memset(array->data, 1, array->bytes);
    nt_split(data, "train", .batch = BATCH, .shuffle = true, .workers = 8, .host_batches = 8);
    nt_split_field(data, "train", "x", array);
    long before = resident_bytes();
    for (int epoch = 1; epoch <= 3; epoch++) {
        nt__stream_options options = {.engine = engine, .fields = fields, .field_count = 1, .epoch = epoch};
        nt__stream *stream;
        assert_int_equal(nt__stream_open(nt__data_split_at(data, 0), &options, &stream), NT_OK);
        for (nt__staged *staged; (staged = next(stream)); nt__staged_free(staged))
            assert_true(resident_bytes() - before < SLACK);
        nt__stream_close(stream);
    }
    nt__data_free(data);
}

/* ---- the ways a pass ends --------------------------------------------------------------------------------------- */

static void nothing_stays_alive_however_a_pass_ends(void **state) {
    (void)state;
    enum { BATCHES = 5 };
    living before = living_now();
    nt_data *data = made_data(20, (nt_split_options){.batch = 4, .shuffle = true});
    living with_data = living_now();
    for (int turn = 0; turn < 50; turn++) {
        nt__stream *stream = open_pass(data, 1, turn);
        take(stream, turn % (BATCHES + 1));
        linger(turn);
        nt__stream_close(stream);
        assert_nothing_left(with_data);
    }
    nt__stream_close(NULL);
    nt__staged_free(NULL);
    nt__data_free(data);
    assert_nothing_left(before);
}

static void a_thousand_passes_leave_nothing(void **state) {
    (void)state;
    nt_data *data = made_data(20, (nt_split_options){.batch = 8, .shuffle = true});
    living before = living_now();
    for (int epoch = 0; epoch < 1000; epoch++) {
        nt__stream *stream = open_pass(data, 1, epoch);
        take(stream, 3);
        assert_null(next(stream));
        nt__stream_close(stream);
    }
    assert_nothing_left(before);
    nt__data_free(data);
}

static void streams_may_follow_and_overlap(void **state) {
    (void)state;
    living before = living_now();
    int rows[MOST];
    nt_data *data = made_data(23, (nt_split_options){.batch = 5, .shuffle = true});
    nt__stream *first = open_pass(data, 1, 1);
    assert_int_equal(run_pass(first, 5, rows), 23);
    nt__stream_close(first);
    first = open_pass(data, 1, 2);
    take(first, 2);
    nt__stream *second = open_pass(data, 1, 3);
    assert_int_equal(run_pass(second, 5, rows), 23);
    assert_each_once(rows, 23, 0);
    take(first, 3);
    assert_null(next(first));
    nt__stream_close(first);
    nt__stream_close(second);
    nt__data_free(data);
    assert_nothing_left(before);
}

static void a_batch_outlives_its_stream(void **state) {
    (void)state;
    living before = living_now();
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        int rows[MOST];
        nt_data *data = made_data(23, (nt_split_options){.batch = 5, .shuffle = shuffle});
        nt__stream *stream = open_pass(data, 1, 1);
        nt__staged *one = next(stream), *other = next(stream);
        nt__stream_close(stream);
        read_device_rows(other, 5, rows);
        assert_host_rows(other, rows);
        nt__staged_free(other);
        read_device_rows(one, 5, rows);
        assert_host_rows(one, rows);
        nt__staged_free(one);
        nt__data_free(data);
    }
    assert_nothing_left(before);
}

/* ---- the worker fails ------------------------------------------------------------------------------------------- */

/* A pass to its end; the number of batches that came in *batches. */
static nt_status drain(const nt__split *split, int *batches) {
    nt__stream_options options = options_for(1, 1);
    nt__stream *stream;
    nt__staged *staged = NULL;
    nt_status status = nt__stream_open(split, &options, &stream);
    *batches = -1; /* not opened */
    if (status != NT_OK) return status;
    do {
        nt__staged_free(staged);
        ++*batches;
        status = nt__stream_next(stream, &staged);
    } while (staged);
    if (status != NT_OK) {
        char message[512];
        snprintf(message, sizeof message, "%s", nt_error_message());
        nt__fail(NT_IO, "something else");
        assert_int_equal(nt__stream_next(stream, &staged), status); /* again the same */
        assert_null(staged);
        assert_string_equal(nt_error_message(), message);
    }
    nt__stream_close(stream);
    return status;
}

/* Every allocation of a pass is refused once: those of opening it, and those of the worker, whose error comes after the
 * batches before it. */
static void every_refused_allocation_is_an_error(void **state) {
    (void)state;
    enum { BATCHES = 3 };
    nt_data *data = made_data(20, (nt_split_options){.batch = 8, .shuffle = true});
    living before = living_now();
    int batches, failed_at[BATCHES + 1] = {0};
    nt_status status = NT_OUT_OF_MEMORY;
    for (size_t n = 1; status != NT_OK; n++) {
        nt__memory_fail_at(n);
        status = drain(nt__data_split_at(data, 0), &batches);
        nt__memory_fail_at(0);
        assert_nothing_left(before);
        if (status == NT_OK) break;
        char where[64];
        snprintf(where, sizeof where, batches < 0 ? "split 'train'" : "split 'train', batch %d of 3: ", batches + 1);
        assert_int_equal(status, NT_OUT_OF_MEMORY);
        assert_message_has_all((const char *[]){where, "out of host memory"}, 2);
        failed_at[batches + 1]++;
    }
    assert_int_equal(batches, BATCHES);
    for (int i = 0; i <= BATCHES; i++) assert_true(failed_at[i] > 2);
    nt__data_free(data);
}

static void a_failed_pass_may_be_closed_without_looking(void **state) {
    (void)state;
    nt_data *data = made_data(20, (nt_split_options){.batch = 8});
    living before = living_now();
    for (size_t n = 5; n < 22; n++) { /* the first four are those of opening a pass in order */
        nt__memory_fail_at(n);
        nt__stream *stream = open_pass(data, 1, 1);
        if (n > 12) take(stream, 1);
        linger((int)n);
        nt__stream_close(stream);
        nt__memory_fail_at(0);
        assert_nothing_left(before);
    }
    nt__data_free(data);
}

static void what_the_engine_refuses_is_an_error(void **state) {
    (void)state;
    nt_data *data = made_data(20, (nt_split_options){.batch = 8});
    living before = living_now();
    nt__stream_options options = options_for(1, 1);
    options.device = 99;
    nt__stream *stream;
    nt__staged *staged;
    assert_int_equal(nt__stream_open(nt__data_split_at(data, 0), &options, &stream), NT_OK);
    assert_int_equal(nt__stream_next(stream, &staged), NT_INVALID);
    assert_message_has_all((const char *[]){"split 'train', batch 1 of 3: ", "'batch.image'", "device 99"}, 3);
    nt__stream_close(stream);
    assert_nothing_left(before);
    nt__data_free(data);
}

/* ---- signals ---------------------------------------------------------------------------------------------------- */

enum { MOST_THREADS = 256 };

static int list_threads(long *threads) {
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) && count < MOST_THREADS;) {
        long thread = strtol(entry->d_name, NULL, 10);
        if (thread) threads[count++] = thread;
    }
    closedir(folder);
    return count;
}

static bool holds(const long *threads, int count, long thread) {
    for (int i = 0; i < count; i++)
        if (threads[i] == thread) return true;
    return false;
}

/* The system's own record of the signals a thread blocks; bit n - 1 is signal n. */
static unsigned long long blocked_signals(long thread) {
    char path[64], line[256];
    unsigned long long mask = 0;
    snprintf(path, sizeof path, "/proc/self/task/%ld/status", thread);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) sscanf(line, "SigBlk: %llx", &mask);
    fclose(file);
    return mask;
}

static bool is_blocked(unsigned long long mask, int signal_number) {
    return mask >> (signal_number - 1) & 1;
}

static void an_interrupt_goes_to_the_main_thread(void **state) {
    (void)state;
    long before[MOST_THREADS], after[MOST_THREADS];
    nt_data *data = made_data(20, (nt_split_options){.batch = 4});
    int count_before = list_threads(before);
    nt__stream *stream = open_pass(data, 1, 1); /* five batches: its worker waits for us to take the first */
    wait_until_staged(2);                       /* a thread that starts blocks more for a moment */
    int count = list_threads(after), workers = 0;
    for (int i = 0; i < count; i++) {
        if (holds(before, count_before, after[i])) continue;
        unsigned long long mask = blocked_signals(after[i]);
        assert_true(is_blocked(mask, SIGINT) && is_blocked(mask, SIGTERM) && is_blocked(mask, SIGCHLD));
        assert_false(is_blocked(mask, SIGSEGV) || is_blocked(mask, SIGFPE));
        workers++;
    }
    assert_int_equal(workers, 1);
    sigset_t mine;
    sigprocmask(SIG_SETMASK, NULL, &mine);
    assert_false(sigismember(&mine, SIGINT));
    nt__stream_close(stream);
    nt__data_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_comes_once),
        cmocka_unit_test(a_dropped_batch_differs_with_the_epoch),
        cmocka_unit_test(each_epoch_and_seed_has_its_order),
        cmocka_unit_test(the_order_is_fixed),
        cmocka_unit_test(a_split_without_a_full_batch_has_no_batches),
        cmocka_unit_test(every_element_type_arrives),
        cmocka_unit_test(bools_are_normalised),
        cmocka_unit_test(only_the_fields_asked_for_are_staged),
        cmocka_unit_test(samples_without_elements_pass),
        cmocka_unit_test(an_unknown_field_is_refused),
        cmocka_unit_test(rows_are_not_copied_for_a_hook),
        cmocka_unit_test(missing_fields_are_remembered),
        cmocka_unit_test(rows_that_memory_is_short_for_are_an_error),
        cmocka_unit_test(one_batch_is_staged_ahead),
        cmocka_unit_test(uploads_are_counted_as_staged),
        cmocka_unit_test(waiting_is_measured),
        cmocka_unit_test(workers_have_no_copies_of_the_data),
        cmocka_unit_test(nothing_stays_alive_however_a_pass_ends),
        cmocka_unit_test(a_thousand_passes_leave_nothing),
        cmocka_unit_test(streams_may_follow_and_overlap),
        cmocka_unit_test(a_batch_outlives_its_stream),
        cmocka_unit_test(every_refused_allocation_is_an_error),
        cmocka_unit_test(a_failed_pass_may_be_closed_without_looking),
        cmocka_unit_test(what_the_engine_refuses_is_an_error),
        cmocka_unit_test(an_interrupt_goes_to_the_main_thread),
    };
    return cmocka_run_group_tests_name("stream", tests, open_engine, close_engine);
}
