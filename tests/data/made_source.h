/* A source whose rows say which they are, that counts what it is asked and misbehaves when it is told to.
 * Include after cmocka.
 */
#ifndef NT_TESTS_DATA_MADE_SOURCE_H
#define NT_TESTS_DATA_MADE_SOURCE_H

#include "made.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { MOST_BATCHES = 256 };

typedef struct made {
    int64_t rows;
    bool in_order;
    /* What it does at a batch of a pass, counted from 1; 0: never. */
    int64_t fails_at, also_fails_at, exits_at, cancels_at, sticks_at, slow_at;
    double slow, pace; /* seconds: of the slow batch, of every batch */
    /* Overrides the first field, given with the batch `odd_at`. */
    nt_array *(*odd)(const nt_request *request);
    int64_t odd_at;
    nt_status begin_status;
    /* What happened. */
    pthread_mutex_t lock;
    pthread_cond_t released;
    bool release; /* what is stuck may come back */
    int begins, closes, reads, reading, most_reading;
    int reads_of[MOST_BATCHES];
    int64_t last_epoch, next_row;
    uint64_t last_seed;
} made;

#define MADE(count, ...)                                                                                      \
    (made) {                                                                                                  \
        .rows = (count), .lock = PTHREAD_MUTEX_INITIALIZER, .released = PTHREAD_COND_INITIALIZER, __VA_ARGS__ \
    }

static inline void made_sleep(double seconds) {
    long nanoseconds = (long)(seconds * 1e9);
    nanosleep(&(struct timespec){.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000}, NULL);
}

static inline nt_status made_begin(void *context, int64_t epoch, uint64_t seed) {
    made *m = context;
    pthread_mutex_lock(&m->lock);
    m->begins++;
    m->last_epoch = epoch;
    m->last_seed = seed;
    m->next_row = 0;
    pthread_mutex_unlock(&m->lock);
    return m->begin_status == NT_OK ? NT_OK : nt_fail(m->begin_status, "no pass today");
}

static inline void made_enter(made *m, int64_t batch) {
    pthread_mutex_lock(&m->lock);
    m->reads++;
    if (batch < MOST_BATCHES) m->reads_of[batch]++;
    if (++m->reading > m->most_reading) m->most_reading = m->reading;
    while (batch + 1 == m->sticks_at && !m->release) pthread_cond_wait(&m->released, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

static inline void made_leave(made *m) {
    pthread_mutex_lock(&m->lock);
    m->reading--;
    pthread_mutex_unlock(&m->lock);
}

static inline void made_release(made *m) {
    pthread_mutex_lock(&m->lock);
    m->release = true;
    pthread_cond_broadcast(&m->released);
    pthread_mutex_unlock(&m->lock);
}

/* "image": element (row, column) is 10 row + column; "label": the row. */
static inline void made_fill(made *m, nt_request *request) {
    int32_t *image = request->fields[0]->data;
    uint8_t *label = request->fields[1]->data;
    for (int64_t i = 0; i < request->count; i++) {
        int64_t row = request->rows[i];
        if (m->in_order) row = m->next_row++;
        for (int j = 0; j < COLUMNS; j++) image[i * COLUMNS + j] = (int32_t)(10 * row + j);
        label[i] = (uint8_t)row;
    }
}

static inline nt_status made_read(void *context, nt_request *request) {
    made *m = context;
    int64_t batch = request->batch + 1;
    made_enter(m, request->batch);
    made_sleep(batch == m->slow_at ? m->slow : m->pace);
    made_leave(m);
    if (batch == m->exits_at) pthread_exit(NULL);
    if (batch == m->cancels_at) return pthread_cancel(pthread_self()) == 0 ? NT_OK : NT_IO;
    if (batch == m->fails_at || batch == m->also_fails_at)
        return nt_fail(NT_IO, "file %lld is not there", (long long)batch);
    made_fill(m, request);
    if (batch == m->odd_at) request->fields[0] = m->odd(request);
    return NT_OK;
}

static inline void made_close(void *context) {
    made *m = context;
    pthread_mutex_lock(&m->lock);
    m->closes++;
    pthread_mutex_unlock(&m->lock);
}

static inline int made_closes(made *m) {
    pthread_mutex_lock(&m->lock);
    int closes = m->closes;
    pthread_mutex_unlock(&m->lock);
    return closes;
}

static const nt_source_field made_fields[] = {{"image", NT_I32, {1, {COLUMNS}}}, {"label", NT_U8, {0}}};

static inline nt_source source_of(made *m) {
    return (nt_source){.name = "made",
                       .context = m,
                       .rows = m->rows,
                       .fields = made_fields,
                       .field_count = 2,
                       .in_order = m->in_order,
                       .begin = made_begin,
                       .read = made_read,
                       .close = made_close};
}

/* Split "train" of the source. */
static inline nt_data *data_of(made *m, nt_split_options options) {
    nt_data *data = nt__data_new();
    nt_split_with(data, "train", options);
    nt_split_source(data, "train", source_of(m));
    if (nt__data_check(data) != NT_OK) fail_msg("%s", nt_error_message());
    return data;
}

/* ---- passes ----------------------------------------------------------------------------------------------------- */

static nt__engine *engine;

static inline int open_engine(void **state) {
    (void)state;
    return nt__engine_open(1, &engine) == NT_OK ? 0 : -1;
}

static inline int close_engine(void **state) {
    (void)state;
    return nt__engine_close() == NT_OK ? 0 : -1;
}

static const char *const both[] = {"image", "label"};

static inline nt__stream_options pass_options(void) {
    return (nt__stream_options){.engine = engine, .fields = both, .field_count = 2, .seed = 7, .epoch = 3};
}

static inline nt__stream *open_pass(const nt_data *data, nt__stream_options options) {
    nt__stream *stream;
    if (nt__stream_open(nt__data_split_at(data, 0), &options, &stream) != NT_OK) fail_msg("%s", nt_error_message());
    return stream;
}

static inline nt__staged *next(nt__stream *stream) {
    nt__staged *staged;
    if (nt__stream_next(stream, &staged) != NT_OK) fail_msg("%s", nt_error_message());
    return staged;
}

enum { MOST_ROWS = 1024 };

/* The real rows of a batch by their labels, on the device and on the host; also looks at the padding. */
static inline int64_t rows_of(nt__staged *staged, int64_t batch, int *rows) {
    static int32_t images[MOST_ROWS][COLUMNS];
    static uint8_t labels[MOST_ROWS];
    const nt_array *label = nt_host_field(staged->host, "label"), *image = nt_host_field(staged->host, "image");
    assert_int_equal(nt__buffer_read(engine, &staged->buffers[0], images), NT_OK);
    assert_int_equal(nt__buffer_read(engine, &staged->buffers[1], labels), NT_OK);
    assert_true(nt_shape_equal(image->shape, nt_dims(staged->rows, COLUMNS)));
    assert_true(nt_shape_equal(label->shape, nt_dims(staged->rows)));
    for (int64_t i = 0; i < batch; i++) {
        int64_t real = i < staged->rows ? i : staged->rows - 1;
        assert_int_equal(labels[i], labels[real]);
        assert_true(nt_array_get(label, real) == labels[i]);
        for (int j = 0; j < COLUMNS; j++) {
            assert_int_equal(images[i][j] % 256, (images[real][0] + j) % 256);
            assert_true(nt_array_get(image, real * COLUMNS + j) == images[i][j]);
        }
        assert_int_equal(images[i][0] / 10 % 256, labels[i]);
        if (i < staged->rows) rows[i] = images[i][0] / 10;
    }
    return staged->rows;
}

/* A whole pass; the number of its rows. */
static inline int64_t run_pass(nt__stream *stream, int64_t batch, int *rows) {
    int64_t total = 0, index = 0;
    for (nt__staged *staged; (staged = next(stream)); nt__staged_free(staged)) {
        assert_int_equal(staged->index, index++);
        total += rows_of(staged, batch, rows + total);
    }
    return total;
}

/* Batches until the end or an error, whose status it is. */
static inline nt_status count_batches(nt__stream *stream, int *batches) {
    nt_status status = NT_OK;
    nt__staged *staged;
    for (*batches = 0; (status = nt__stream_next(stream, &staged)) == NT_OK && staged; ++*batches)
        nt__staged_free(staged);
    return status;
}

/* ---- nothing is left -------------------------------------------------------------------------------------------- */

typedef struct living {
    uint64_t buffers;
    size_t blocks;
} living;

static inline living living_now(void) {
    return (living){nt__engine_counts_now().all_buffers.live_count, nt__memory().live};
}

static inline void assert_nothing_left(living before) {
    living now = living_now();
    assert_int_equal(now.buffers, before.buffers);
    assert_int_equal(now.blocks, before.blocks);
}

#endif
