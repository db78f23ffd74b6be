/* Buffers: their values there and back, what is refused, and what the accounts say. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine.h"

/* ---- accounts --------------------------------------------------------------------------------------------------- */

static void assert_live(nt__purpose purpose, uint64_t count, uint64_t bytes) {
    nt__engine_counts counts = nt__engine_counts_now();
    assert_int_equal(counts.buffers[purpose].live_count, count);
    assert_int_equal(counts.buffers[purpose].live_bytes, bytes);
}

static void assert_all_live(uint64_t count, uint64_t bytes) {
    nt__engine_counts counts = nt__engine_counts_now();
    assert_int_equal(counts.all_buffers.live_count, count);
    assert_int_equal(counts.all_buffers.live_bytes, bytes);
}

static const float numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* Runs first: counters and peaks are those of the process. */
static void counts_exactly(void **state) {
    (void)state;
    nt__buffer a = {0}, b = {0}, c = {0};
    assert_all_live(0, 0);
    upload_floats("a", NT__BATCH, numbers, 4, &a);
    upload_floats("b", NT__BATCH, numbers, 8, &b);
    upload_floats("c", NT__OUTPUT, numbers, 2, &c);
    assert_live(NT__BATCH, 2, 48);
    assert_live(NT__OUTPUT, 1, 8);
    assert_all_live(3, 56);
    nt__buffer_free(&a);
    assert_live(NT__BATCH, 1, 32);
    assert_floats(&b, numbers, 8);
    assert_floats(&b, numbers, 8);
    nt__buffer_free(&b);
    nt__buffer_free(&c);
    assert_all_live(0, 0);

    nt__engine_counts counts = nt__engine_counts_now();
    assert_int_equal(counts.buffers[NT__BATCH].peak_count, 2);
    assert_int_equal(counts.buffers[NT__BATCH].peak_bytes, 48);
    assert_int_equal(counts.all_buffers.peak_count, 3);
    assert_int_equal(counts.all_buffers.peak_bytes, 56);
    assert_int_equal(counts.uploads[NT__BATCH].count, 2);
    assert_int_equal(counts.uploads[NT__BATCH].bytes, 48);
    assert_int_equal(counts.uploads[NT__OUTPUT].count, 1);
    assert_int_equal(counts.downloads[NT__BATCH].count, 2);
    assert_int_equal(counts.downloads[NT__BATCH].bytes, 64);
    assert_int_equal(counts.downloads[NT__OUTPUT].count, 0);
    assert_int_equal(counts.runs, 0);
    assert_int_equal(counts.compiles, 0);
}

static void moves_between_accounts(void **state) {
    (void)state;
    nt__buffer buffer = {0};
    upload_floats("image", NT__STAGED, numbers, 4, &buffer);
    nt__buffer_account(&buffer, NT__BATCH);
    assert_int_equal(buffer.purpose, NT__BATCH);
    assert_live(NT__STAGED, 0, 0);
    assert_live(NT__BATCH, 1, 16);
    nt__buffer_account(&buffer, NT__PURPOSE_COUNT);
    assert_int_equal(buffer.purpose, NT__BATCH);
    nt__buffer_free(&buffer);
    nt__buffer_account(&buffer, NT__OUTPUT);
    assert_live(NT__BATCH, 0, 0);
    assert_live(NT__OUTPUT, 0, 0);
    nt__buffer_account(NULL, NT__OUTPUT);
}

static void names_purposes(void **state) {
    (void)state;
    for (int i = 0; i < NT__PURPOSE_COUNT; i++) {
        for (int j = 0; j < i; j++)
            assert_string_not_equal(nt__purpose_name((nt__purpose)i), nt__purpose_name((nt__purpose)j));
    }
    assert_string_equal(nt__purpose_name(NT__OPTIMIZER_STATE), "optimizer state");
    assert_string_equal(nt__purpose_name(NT__PURPOSE_COUNT), "unknown purpose");
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

/* Bytes that are different in every place; bool bytes are 0 or 1. */
static void fill(nt_dtype dtype, uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) bytes[i] = dtype == NT_BOOL ? i % 3 == 0 : (uint8_t)(17 * i + 1);
}

static void assert_round_trip(nt__type type, bool lend) {
    nt__buffer buffer = {0};
    size_t bytes;
    assert_true(nt__type_bytes(type, &bytes));
    uint8_t *data = nt__alloc_aligned(bytes), *got = nt__alloc(bytes + 1, 1), *wanted = nt__alloc(bytes + 1, 1);
    fill(type.dtype, wanted, bytes);
    memcpy(data, wanted, bytes);
    got[bytes] = 99;
    if (lend) {
        assert_ok(nt__buffer_lend(engine, 0, "x", NT__BATCH, type, data, &buffer));
    } else {
        assert_ok(nt__buffer_upload(engine, 0, "x", NT__BATCH, type, data, &buffer));
        memset(data, 0, bytes); /* the copy must be whole by now */
        nt__free(data);
    }
    assert_int_equal(buffer.bytes, bytes);
    assert_true(nt__type_equal(buffer.type, type));
    assert_ok(nt__buffer_read(engine, &buffer, got));
    assert_memory_equal(got, wanted, bytes);
    assert_int_equal(got[bytes], 99);
    nt__buffer_free(&buffer);
    nt__free(got);
    nt__free(wanted);
}

static void round_trips_every_type(void **state) {
    (void)state;
    const nt_shape shapes[] = {
        {0},
        nt_dims(1),
        nt_dims(5),
        nt_dims(3, 4),
        nt_dims(2, 3, 5),
        nt_dims(2, 1, 2, 1, 2, 1, 2, 3),
        nt_dims(1, 1024, 33),
    };
    for (int dtype = 0; dtype < NT_DTYPE_COUNT; dtype++) {
        for (size_t i = 0; i < COUNT_OF(shapes); i++) {
            assert_round_trip(type_of((nt_dtype)dtype, shapes[i]), false);
            assert_round_trip(type_of((nt_dtype)dtype, shapes[i]), true);
        }
    }
    assert_all_live(0, 0);
}

static void takes_no_elements(void **state) {
    (void)state;
    const nt_shape shapes[] = {nt_dims(0), nt_dims(0, 3), nt_dims(3, 0, 2)};
    for (int dtype = 0; dtype < NT_DTYPE_COUNT; dtype++) {
        for (size_t i = 0; i < COUNT_OF(shapes); i++) {
            nt__type type = type_of((nt_dtype)dtype, shapes[i]);
            assert_round_trip(type, false);
            assert_round_trip(type, true);
            nt__buffer buffer = {0};
            assert_ok(nt__buffer_upload(engine, 0, "none", NT__BATCH, type, NULL, &buffer));
            assert_ok(nt__buffer_read(engine, &buffer, NULL));
            nt__buffer_free(&buffer);
            assert_ok(nt__buffer_lend(engine, 0, "none", NT__BATCH, type, NULL, &buffer));
            assert_ok(nt__buffer_read(engine, &buffer, NULL));
            nt__buffer_free(&buffer);
        }
    }
}

static void normalises_bools(void **state) {
    (void)state;
    const uint8_t odd[] = {0, 1, 2, 255, 0, 128}, normal[] = {0, 1, 1, 1, 0, 1};
    uint8_t got[6];
    nt__buffer buffer = {0};
    size_t live = nt__memory().live;
    assert_ok(nt__buffer_upload(engine, 0, "mask", NT__BATCH, type_of(NT_BOOL, nt_dims(2, 3)), odd, &buffer));
    assert_int_equal(nt__memory().live, live);
    assert_int_equal(odd[2], 2);
    assert_ok(nt__buffer_read(engine, &buffer, got));
    assert_memory_equal(got, normal, sizeof normal);
    nt__buffer_free(&buffer);

    nt__memory_fail_at(1);
    nt_status status = nt__buffer_upload(engine, 0, "mask", NT__BATCH, type_of(NT_BOOL, nt_dims(2, 3)), odd, &buffer);
    nt__memory_fail_at(0);
    assert_failed(status, NT_OUT_OF_MEMORY, "uploading 'mask'", "out of host memory");
    assert_all_live(0, 0);
}

/* ---- lending ---------------------------------------------------------------------------------------------------- */

static void owns_lent_memory(void **state) {
    (void)state;
    nt__type type = type_of(NT_F32, nt_dims(16));
    nt__buffer buffer = {0};
    size_t live = nt__memory().live;
    float *data = nt__alloc_aligned(sizeof numbers);
    memcpy(data, numbers, sizeof numbers);
    assert_ok(nt__buffer_lend(engine, 0, "image", NT__STAGED, type, data, &buffer));
    assert_ptr_equal(buffer.lent, data);
    assert_live(NT__STAGED, 1, 64);
    assert_floats(&buffer, numbers, 16);
    nt__buffer_free(&buffer);
    assert_null(buffer.lent);
    assert_null(buffer.done);
    assert_int_equal(nt__memory().live, live);
}

static void frees_lent_memory_when_refused(void **state) {
    (void)state;
    nt__buffer buffer = {0};
    size_t live = nt__memory().live;
    void *data = nt__alloc_aligned(64);
    assert_failed(nt__buffer_lend(engine, 7, "image", NT__BATCH, type_of(NT_F32, nt_dims(16)), data, &buffer),
                  NT_INVALID, "uploading 'image'", "device 7");
    assert_int_equal(nt__memory().live, live);
    assert_int_equal(buffer.state, NT__BUFFER_EMPTY);
}

/* The engine copies memory that is not aligned to 64 bytes. calloc gives 16. */
static void lends_memory_of_another_alignment(void **state) {
    (void)state;
    nt__type type = type_of(NT_F32, nt_dims(16));
    nt__buffer buffers[8] = {0};
    for (size_t i = 0; i < COUNT_OF(buffers); i++) {
        float *data = nt__alloc(1, sizeof numbers + 16 * i);
        memcpy(data, numbers, sizeof numbers);
        assert_ok(nt__buffer_lend(engine, 0, "image", NT__BATCH, type, data, &buffers[i]));
    }
    for (size_t i = 0; i < COUNT_OF(buffers); i++) {
        assert_floats(&buffers[i], numbers, 16);
        nt__buffer_free(&buffers[i]);
    }
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void refuses_what_would_stop_the_engine(void **state) {
    (void)state;
    const nt__type one = type_of(NT_F32, nt_dims(1));
    const float value = 1;
    const struct {
        int device;
        nt__purpose purpose;
        nt__type type;
        const void *data;
        const char *message;
    } rows[] = {
        {1, NT__BATCH, one, &value, "device 1: there are 1, 0 to 0"},
        {-1, NT__BATCH, one, &value, "device -1"},
        {0, NT__PURPOSE_COUNT, one, &value, "purpose 10"},
        {0, NT__BATCH, one, NULL, "no data (NULL) for 4 bytes"},
        {0, NT__BATCH, type_of(NT_DTYPE_COUNT, nt_dims(1)), &value, "element type 13"},
        {0, NT__BATCH, type_of((nt_dtype)-1, nt_dims(1)), &value, "element type -1"},
        {0, NT__BATCH, type_of(NT_F32, (nt_shape){.rank = 9}), &value, "rank 9"},
        {0, NT__BATCH, type_of(NT_F32, (nt_shape){.rank = -1}), &value, "rank -1"},
        {0, NT__BATCH, type_of(NT_F32, nt_dims(-1)), &value, "f32[-1]"},
        {0, NT__BATCH, type_of(NT_F32, nt_dims(INT64_MAX, INT64_MAX)), &value, "more bytes than memory can hold"},
        {0, NT__BATCH, type_of(NT_F64, nt_dims((int64_t)1 << 61)), &value, "f64[2305843009213693952]"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        nt__buffer buffer = {0};
        assert_failed(nt__buffer_upload(engine, rows[i].device, "batch.image", rows[i].purpose, rows[i].type,
                                        rows[i].data, &buffer),
                      NT_INVALID, "uploading 'batch.image'", rows[i].message);
        assert_int_equal(buffer.state, NT__BUFFER_EMPTY);
        assert_null(buffer.raw);
    }
    assert_failed(nt__buffer_upload(engine, 0, "batch.image", NT__BATCH, one, &value, NULL), NT_INVALID,
                  "no place for the buffer (NULL)");
    assert_all_live(0, 0);
}

static void refuses_a_place_that_is_taken(void **state) {
    (void)state;
    nt__buffer buffer = {0};
    upload_floats("first", NT__BATCH, numbers, 1, &buffer);
    assert_failed(nt__buffer_upload(engine, 0, "second", NT__BATCH, type_of(NT_F32, nt_dims(1)), numbers, &buffer),
                  NT_INVALID, "uploading 'second'", "holds buffer 'first'");
    nt__buffer_free(&buffer);
    upload_floats("second", NT__BATCH, numbers, 1, &buffer);
    assert_string_equal(buffer.name, "second");
    nt__buffer_free(&buffer);
}

static void refuses_use_after_free(void **state) {
    (void)state;
    nt__buffer buffer = {0};
    float got;
    assert_failed(nt__buffer_read(engine, &buffer, &got), NT_INVALID, "nothing was uploaded");
    upload_floats("batch.image", NT__BATCH, numbers, 1, &buffer);
    assert_ok(nt__buffer_check(&buffer));
    assert_failed(nt__buffer_read(engine, &buffer, NULL), NT_INVALID, "reading 'batch.image'", "NULL", "4 bytes");
    assert_failed(nt__buffer_read(NULL, &buffer, &got), NT_INVALID, "no engine");
    nt__buffer_free(&buffer);
    assert_null(buffer.raw);
    assert_failed(nt__buffer_check(&buffer), NT_INVALID, "buffer 'batch.image' was freed");
    assert_failed(nt__buffer_read(engine, &buffer, &got), NT_INVALID, "buffer 'batch.image' was freed");
    assert_failed(nt__buffer_read(engine, NULL, &got), NT_INVALID, "no buffer (NULL)");
}

static void frees_twice_without_harm(void **state) {
    (void)state;
    nt__buffer buffer = {0};
    nt__buffer_free(NULL);
    nt__buffer_free(&buffer);
    assert_int_equal(buffer.state, NT__BUFFER_EMPTY);
    upload_floats("x", NT__BATCH, numbers, 4, &buffer);
    nt__buffer_free(&buffer);
    nt__buffer_free(&buffer);
    assert_int_equal(buffer.state, NT__BUFFER_FREED);
    assert_all_live(0, 0);
}

/* The buffer's own copy: where the name came from may be gone. */
static void keeps_its_name(void **state) {
    (void)state;
    nt__buffer buffer = {0};
    char name[200];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    upload_floats(name, NT__BATCH, numbers, 1, &buffer);
    memset(name, 'x', sizeof name);
    assert_int_equal(strlen(buffer.name), NT__BUFFER_NAME - 1);
    assert_int_equal(buffer.name[0], 'n');
    assert_int_equal(buffer.name[NT__BUFFER_NAME - 2], 'n');
    nt__buffer_free(&buffer);
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

enum { THREAD_UPLOADS = 200 };

static void *upload_often(void *failures) {
    nt__buffer buffer = {0};
    for (int i = 0; i < THREAD_UPLOADS; i++) {
        float *data = nt__alloc_aligned(sizeof numbers);
        memcpy(data, numbers, sizeof numbers);
        nt_status status =
            nt__buffer_lend(engine, 0, "staged", NT__STAGED, type_of(NT_F32, nt_dims(16)), data, &buffer);
        *(int *)failures += status != NT_OK;
        nt__buffer_account(&buffer, NT__BATCH);
        nt__buffer_free(&buffer);
    }
    return NULL;
}

static void counts_on_several_threads(void **state) {
    (void)state;
    pthread_t threads[3];
    int failures[3] = {0};
    uint64_t before = nt__engine_counts_now().uploads[NT__STAGED].count;
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, upload_often, &failures[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(failures[i], 0);
    }
    assert_int_equal(nt__engine_counts_now().uploads[NT__STAGED].count - before, 3 * THREAD_UPLOADS);
    assert_all_live(0, 0);
    assert_live(NT__STAGED, 0, 0);
    assert_live(NT__BATCH, 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_exactly),
        cmocka_unit_test(moves_between_accounts),
        cmocka_unit_test(names_purposes),
        cmocka_unit_test(round_trips_every_type),
        cmocka_unit_test(takes_no_elements),
        cmocka_unit_test(normalises_bools),
        cmocka_unit_test(owns_lent_memory),
        cmocka_unit_test(frees_lent_memory_when_refused),
        cmocka_unit_test(lends_memory_of_another_alignment),
        cmocka_unit_test(refuses_what_would_stop_the_engine),
        cmocka_unit_test(refuses_a_place_that_is_taken),
        cmocka_unit_test(refuses_use_after_free),
        cmocka_unit_test(frees_twice_without_harm),
        cmocka_unit_test(keeps_its_name),
        cmocka_unit_test(counts_on_several_threads),
    };
    return cmocka_run_group_tests_name("buffer", tests, open_one_device, close_engine);
}
