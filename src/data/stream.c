/* A pass over a split as its consumer sees it: opened, taken batch by batch, closed at any point.
 * Not here: the threads that read and stage (workers.c), the order of the rows (pass.c).
 */
#include "data/stream_internal.h"
#include "base/files.h"

#include <time.h>

/* ---- opening and closing ---------------------------------------------------------------------------------------- */

static int smaller(int limit, int64_t batches) {
    return batches < limit ? (int)(batches > 1 ? batches : 1) : limit;
}

/* A short pass needs no more of anything than it has batches. */
static void set_limits(nt__stream *stream, const nt_split_options *options) {
    stream->limits = *options;
    stream->limits.workers = smaller(options->workers, stream->pass.batches);
    stream->limits.host_batches = smaller(options->host_batches, stream->pass.batches);
    stream->limits.device_batches = smaller(options->device_batches, stream->pass.batches);
}

static void make_locks(nt__stream *stream) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->work, &monotonic);
    pthread_cond_init(&stream->arrived, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* A source that is read in order begins at its row 0 whatever was used before. */
static void set_first(nt__stream *stream, int64_t first) {
    if (stream->pass.split->source.in_order) first = 0;
    if (first > stream->pass.batches) first = stream->pass.batches;
    stream->read = stream->staged = stream->taken = first;
}

static nt_status prepare(nt__stream *stream, const nt__split *split, const nt__stream_options *options) {
    nt_status status = nt__pass_begin(&stream->pass, split, options);
    if (status != NT_OK) return status;
    set_limits(stream, &split->options);
    set_first(stream, options->first_batch);
    stream->end = stream->pass.batches;
    stream->stopping = options->stopping;
    stream->places =
        nt__alloc((size_t)stream->limits.host_batches + (size_t)stream->limits.device_batches, sizeof *stream->places);
    stream->workers = nt__alloc((size_t)stream->limits.workers + 1, sizeof *stream->workers);
    return stream->places && stream->workers ? nt__workers_start(stream) : NT_OUT_OF_MEMORY;
}

/* For a source that is read in order: the batches that were used before are read and dropped. */
static nt_status skip_to(nt__stream *stream, int64_t first) {
    nt_status status = NT_OK;
    for (nt__staged *staged; status == NT_OK && stream->taken < first;) {
        status = nt__stream_next(stream, &staged);
        if (status == NT_OK && !staged) break;
        nt__staged_free(staged);
    }
    return status;
}

nt_status nt__stream_open(const nt__split *split, const nt__stream_options *options, nt__stream **out) {
    *out = NULL;
    nt__stream *stream = nt__alloc(1, sizeof *stream);
    if (!stream) return nt__fail_in(NT_OUT_OF_MEMORY, "split '%s'", split->name);
    stream->owners = 1;
    stream->data = nt__data_retain(split->data);
    make_locks(stream);
    nt_status status = prepare(stream, split, options);
    if (status != NT_OK) nt__fail_in(status, "split '%s'", split->name);
    if (status == NT_OK) status = skip_to(stream, options->first_batch);
    if (status == NT_OK)
        *out = stream;
    else
        nt__stream_close(stream);
    return status;
}

void nt__stream_close(nt__stream *stream) {
    if (!stream) return;
    nt__workers_end(stream);
    pthread_mutex_lock(&stream->lock);
    for (int64_t i = stream->taken; i < stream->read; i++) {
        nt__place *place = nt__stream_place(stream, i);
        nt__staged_free(place->batch);
        place->batch = NULL;
    }
    nt__spare_free(stream->pass.split);
    nt__stream_release(stream);
}

/* ---- the consumer ----------------------------------------------------------------------------------------------- */

/* Is the reader of the batch that is waited for stuck? Then that is the batch's error. */
static void check_reader(nt__stream *stream) {
    int64_t index = stream->taken;
    const nt__place *place = nt__stream_place(stream, index);
    if (index >= stream->read || place->batch) return;
    double seconds = nt__seconds() - place->since;
    if (seconds < stream->limits.time_limit) return;
    const char *source = stream->pass.split->source.name;
    nt_status status = nt__fail(NT_IO,
                                "worker %d has been reading '%s' for %.1f seconds and has not come back: it is stuck, "
                                "or slower than .time_limit = %g of the split allows",
                                place->reader, source ? source : "the arrays", seconds, stream->limits.time_limit);
    nt__stream_fail(stream, index, nt__fail_at_batch(stream, index, status));
}

/* A stop is asked for by a signal or another thread, which cannot wake the consumer. */
static const double a_moment = 0.05;

/* Until the batch is there, or none comes. */
static nt_status wait_for_batch(nt__stream *stream) {
    while (stream->taken == stream->staged && stream->taken < stream->end) {
        if (stream->stopping && stream->stopping())
            return nt__fail_at_batch(stream, stream->taken, nt__fail(NT_INTERRUPTED, "stopped as asked"));
        nt__stream_wait(stream, &stream->arrived, a_moment);
        check_reader(stream);
    }
    return stream->taken < stream->end ? NT_OK : nt__error_raise(&stream->error);
}

/* The batch goes over to the consumer's account before another may be staged: what is staged keeps to its limit in the
 * accounts too. */
static nt__staged *take(nt__stream *stream) {
    if (stream->taken == stream->end) return NULL;
    nt__place *place = nt__stream_place(stream, stream->taken++);
    nt__staged *staged = place->batch;
    place->batch = NULL;
    for (size_t i = 0; i < staged->buffer_count; i++) nt__buffer_account(&staged->buffers[i], NT__BATCH);
    pthread_cond_broadcast(&stream->work);
    return staged;
}

nt_status nt__stream_next(nt__stream *stream, nt__staged **out) {
    double start = nt__seconds();
    pthread_mutex_lock(&stream->lock);
    bool first = !stream->started;
    nt_status status = wait_for_batch(stream);
    *out = status == NT_OK ? take(stream) : NULL;
    stream->started = stream->started || *out;
    pthread_mutex_unlock(&stream->lock);
    if (!first) stream->waited += nt__seconds() - start;
    return status;
}

nt__hash nt__stream_order(const nt__stream *stream) {
    return nt__pass_order(&stream->pass);
}

double nt__stream_waited(const nt__stream *stream) {
    return stream->waited;
}
