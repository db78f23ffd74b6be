/* A pass over a split: its order, and the worker thread that stages one batch ahead of the consumer.
 * Not here: what the batches are used for; how the engine copies them (xla).
 */
#include "data/data_internal.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"

struct nt__stream {
    const nt__split *split;
    nt__engine *engine;
    int device;
    const nt__split_field **fields; /* those that go to the device */
    size_t field_count;
    uint32_t *order; /* the split's rows as this pass takes them; NULL: as they lie */
    int64_t batches;
    double waited;
    pthread_t worker;
    /* The lock guards what follows. Worker and consumer never wait at the same time: one waits for `ready` to be empty,
     * the other for it to be filled. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    nt__staged *ready;    /* staged and not yet taken */
    bool ended;           /* the worker stages no more */
    bool closing;         /* the consumer wants no more */
    nt__kept_error error; /* the worker's */
};

/* ---- staging a batch -------------------------------------------------------------------------------------------- */

static nt__rows rows_of_batch(const nt__stream *stream, int64_t index) {
    int64_t batch = stream->split->options.batch, first = index * batch, left = stream->split->rows - first;
    return (nt__rows){
        .order = stream->order ? stream->order + first : NULL,
        .first = first,
        .count = left < batch ? left : batch,
    };
}

static void repeat_last_row(char *data, size_t row_bytes, int64_t rows, int64_t batch) {
    const char *last = data + (size_t)(rows - 1) * row_bytes;
    for (int64_t i = rows; i < batch; i++) memcpy(data + (size_t)i * row_bytes, last, row_bytes);
}

static void normalise_bools(uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) bytes[i] = bytes[i] != 0;
}

/* The field of a full batch, in memory that can be lent to the engine; NULL when memory is short. */
static void *full_batch(const nt__stream *stream, const nt__split_field *field, const nt__rows *rows) {
    int64_t batch = stream->split->options.batch;
    size_t row_bytes = nt__field_row_bytes(field), bytes = (size_t)batch * row_bytes;
    void *data = nt__alloc_aligned(bytes);
    if (!data) return NULL;
    nt__rows_gather(stream->split, field, rows, data);
    repeat_last_row(data, row_bytes, rows->count, batch);
    if (field->array->dtype == NT_BOOL) normalise_bools(data, bytes);
    return data;
}

static nt_status upload(const nt__stream *stream, const nt__split_field *field, const nt__rows *rows,
                        nt__buffer *buffer) {
    char name[NT__BUFFER_NAME];
    snprintf(name, sizeof name, "batch.%s", field->name);
    void *data = full_batch(stream, field, rows);
    if (!data) return nt__fail_in(NT_OUT_OF_MEMORY, "field '%s'", field->name);
    return nt__buffer_lend(stream->engine, stream->device, name, NT__STAGED, nt__split_field_type(stream->split, field),
                           data, buffer);
}

static nt_status fill(const nt__stream *stream, int64_t index, nt__staged *staged) {
    nt__rows rows = rows_of_batch(stream, index);
    staged->index = index;
    staged->rows = rows.count;
    staged->host = nt__host_batch_new(stream->split, &rows);
    staged->buffers = staged->host ? nt__alloc(stream->field_count, sizeof *staged->buffers) : NULL;
    if (!staged->buffers) return NT_OUT_OF_MEMORY;
    staged->buffer_count = stream->field_count;
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < stream->field_count; i++)
        status = upload(stream, stream->fields[i], &rows, &staged->buffers[i]);
    return status;
}

static nt_status stage(const nt__stream *stream, int64_t index, nt__staged **out) {
    nt__staged *staged = nt__alloc(1, sizeof *staged);
    nt_status status = staged ? fill(stream, index, staged) : NT_OUT_OF_MEMORY;
    if (status == NT_OK) {
        *out = staged;
        return NT_OK;
    }
    nt__staged_free(staged);
    return nt__fail_in(status, "split '%s', batch %" PRId64 " of %" PRId64, stream->split->name, index + 1,
                       stream->batches);
}

void nt__staged_free(nt__staged *staged) {
    if (!staged) return;
    for (size_t i = 0; i < staged->buffer_count; i++) nt__buffer_free(&staged->buffers[i]);
    nt__free(staged->buffers);
    nt__host_batch_free(staged->host);
    nt__free(staged);
}

/* ---- the worker ------------------------------------------------------------------------------------------------- */

/* Waits until the batch staged before was taken. False when no more is wanted. */
static bool wait_for_room(nt__stream *stream) {
    pthread_mutex_lock(&stream->lock);
    while (stream->ready && !stream->closing) pthread_cond_wait(&stream->changed, &stream->lock);
    bool wanted = !stream->closing;
    pthread_mutex_unlock(&stream->lock);
    return wanted;
}

static void offer(nt__stream *stream, nt__staged *staged) {
    pthread_mutex_lock(&stream->lock);
    stream->ready = staged;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

/* The message is this thread's, so it is kept for the consumer's. */
static void finish(nt__stream *stream, nt_status status) {
    pthread_mutex_lock(&stream->lock);
    nt__error_keep(&stream->error, status);
    stream->ended = true;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

static void *work(void *argument) {
    nt__stream *stream = argument;
    nt_status status = NT_OK;
    for (int64_t i = 0; status == NT_OK && i < stream->batches && wait_for_room(stream); i++) {
        nt__staged *staged = NULL;
        status = stage(stream, i, &staged);
        if (status == NT_OK) offer(stream, staged);
    }
    finish(stream, status);
    return NULL;
}

/* Signals that ask for something go to the program's own threads. Those that report a fault stay where the fault is:
 * blocked, they would end the process without the handler of a debugger or sanitizer. */
static void fill_blocked_signals(sigset_t *set) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigfillset(set);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(set, faults[i]);
}

/* A thread starts with the signal mask of the one that makes it. */
static nt_status start_worker(nt__stream *stream) {
    sigset_t blocked, before;
    fill_blocked_signals(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int error = pthread_create(&stream->worker, NULL, work, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) return NT_OK;
    return nt__fail(NT_OUT_OF_MEMORY, "the system refused a thread: %s", strerror(error));
}

/* ---- opening and closing ---------------------------------------------------------------------------------------- */

static nt_status find_fields(nt__stream *stream, const nt__stream_options *options) {
    stream->fields = nt__alloc(options->field_count, sizeof *stream->fields);
    if (!stream->fields) return NT_OUT_OF_MEMORY;
    for (; stream->field_count < options->field_count; stream->field_count++) {
        const char *name = options->fields[stream->field_count];
        const nt__split_field *field = nt__split_field_find(stream->split, name);
        if (!field)
            return nt__fail(NT_NOT_FOUND, "there is no field '%s', there are: %s", name, stream->split->field_names);
        stream->fields[stream->field_count] = field;
    }
    return NT_OK;
}

static nt_status make_order(nt__stream *stream, const nt__stream_options *options) {
    if (!stream->split->options.shuffle) return NT_OK;
    size_t rows = (size_t)stream->split->rows;
    stream->order = nt__alloc(rows, sizeof *stream->order);
    if (!stream->order) return NT_OUT_OF_MEMORY;
    nt__key key = nt__key_fold_text(nt__key_of_seed(options->seed), "shuffle");
    nt__permutation(nt__key_fold(key, (uint32_t)options->epoch), rows, stream->order);
    return NT_OK;
}

static nt_status prepare(nt__stream *stream, const nt__split *split, const nt__stream_options *options) {
    stream->split = split;
    stream->engine = options->engine;
    stream->device = options->device;
    stream->batches = nt__split_batches(split);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    nt_status status = find_fields(stream, options);
    return status == NT_OK ? make_order(stream, options) : status;
}

/* The worker is not running. */
static void free_stream(nt__stream *stream) {
    nt__staged_free(stream->ready);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
    nt__free(stream->order);
    nt__free(stream->fields);
    nt__free(stream);
}

nt_status nt__stream_open(const nt__split *split, const nt__stream_options *options, nt__stream **out) {
    *out = NULL;
    nt__stream *stream = nt__alloc(1, sizeof *stream);
    if (!stream) return nt__fail_in(NT_OUT_OF_MEMORY, "split '%s'", split->name);
    nt_status status = prepare(stream, split, options);
    if (status == NT_OK) status = start_worker(stream);
    if (status == NT_OK) {
        *out = stream;
        return NT_OK;
    }
    free_stream(stream);
    return nt__fail_in(status, "split '%s'", split->name);
}

void nt__stream_close(nt__stream *stream) {
    if (!stream) return;
    pthread_mutex_lock(&stream->lock);
    stream->closing = true;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->worker, NULL);
    free_stream(stream);
}

/* ---- the consumer ----------------------------------------------------------------------------------------------- */

/* The batch goes over to the consumer's account before the worker may stage another: what is staged is one batch at
 * most, in the accounts too. */
static void account_as_taken(nt__staged *staged) {
    for (size_t i = 0; i < staged->buffer_count; i++) nt__buffer_account(&staged->buffers[i], NT__BATCH);
}

/* The staged batch, or NULL when no more come. */
static nt__staged *take_ready(nt__stream *stream) {
    pthread_mutex_lock(&stream->lock);
    while (!stream->ready && !stream->ended) pthread_cond_wait(&stream->changed, &stream->lock);
    nt__staged *staged = stream->ready;
    if (staged) account_as_taken(staged);
    stream->ready = NULL;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return staged;
}

nt_status nt__stream_next(nt__stream *stream, nt__staged **out) {
    double start = nt__seconds();
    *out = take_ready(stream);
    stream->waited += nt__seconds() - start;
    return *out ? NT_OK : nt__error_raise(&stream->error); /* the worker has ended: the error is nobody else's now */
}

double nt__stream_waited(const nt__stream *stream) {
    return stream->waited;
}
