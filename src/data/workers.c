/* The threads of a stream: each takes what there is to do next, reading a batch or staging one, until nothing is left.
 * Not here: how a batch is read and staged (batch.c), the consumer's side (stream.c).
 *
 * A split of arrays with one worker has one thread, which does both. Otherwise one more thread stages, so that no
 * transfer waits for a slow read, or for a worker that a source has ended.
 */
#include "data/stream_internal.h"
#include "base/files.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>

nt__place *nt__stream_place(const nt__stream *stream, int64_t index) {
    return &stream->places[index % (stream->limits.host_batches + stream->limits.device_batches)];
}

void nt__stream_wait(nt__stream *stream, pthread_cond_t *condition, double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    double whole = floor(seconds);
    until.tv_sec += (time_t)whole;
    until.tv_nsec += (long)((seconds - whole) * 1e9);
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(condition, &stream->lock, &until);
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

nt_status nt__fail_at_batch(const nt__stream *stream, int64_t index, nt_status status) {
    return nt__fail_in(status, "split '%s', batch %" PRId64 " of %" PRId64, stream->pass.split->name, index + 1,
                       stream->pass.batches);
}

void nt__stream_fail(nt__stream *stream, int64_t index, nt_status status) {
    if (index < stream->end) {
        stream->end = index;
        stream->error.status = NT_OK;
        nt__error_keep(&stream->error, status);
    }
    pthread_cond_broadcast(&stream->work);
    pthread_cond_signal(&stream->arrived);
}

/* ---- what there is to do ---------------------------------------------------------------------------------------- */

typedef enum task { LEAVE, WAIT, READ, STAGE } task;

static bool can_stage(const nt__stream *s) {
    return !s->staging && s->staged < s->end && s->staged < s->read && nt__stream_place(s, s->staged)->batch &&
           s->staged - s->taken < s->limits.device_batches;
}

static bool can_read(const nt__stream *s) {
    return s->read < s->end && s->read - s->staged < s->limits.host_batches;
}

static task next_task(const nt__worker *worker) {
    const nt__stream *s = worker->stream;
    bool to_stage = worker->stages && s->staged < s->end, to_read = worker->reads && s->read < s->end;
    if (s->closing || (!to_stage && !to_read)) return LEAVE;
    if (worker->stages && can_stage(s)) return STAGE;
    return worker->reads && can_read(s) ? READ : WAIT;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static void begin_read(nt__worker *worker) {
    nt__stream *s = worker->stream;
    worker->index = s->read++;
    worker->reading = true;
    *nt__stream_place(s, worker->index) = (nt__place){.reader = worker->number, .since = nt__seconds()};
}

/* What came too late, of a pass that was closed or has failed before it, is dropped. */
static void end_read(nt__worker *worker, nt_status status) {
    nt__stream *s = worker->stream;
    nt__staged *batch = worker->in_hand;
    pthread_mutex_lock(&s->lock);
    worker->reading = false;
    worker->in_hand = NULL;
    bool wanted = status == NT_OK && !s->closing && worker->index < s->end;
    if (wanted) nt__stream_place(s, worker->index)->batch = batch;
    if (status != NT_OK) nt__stream_fail(s, worker->index, status);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (!wanted) nt__staged_free(batch);
}

static void leave(nt__worker *worker) {
    nt__stream *s = worker->stream;
    pthread_mutex_lock(&s->lock);
    worker->left = true;
    if (worker->behind) atomic_fetch_sub(s->pass.split->left_behind, 1);
    pthread_cond_signal(&s->arrived);
    nt__stream_release(s);
}

/* The source has ended the thread: it will never come back from its read. */
static void die(void *argument) {
    nt__worker *worker = argument;
    nt__fail(
        NT_INVALID,
        "worker %d ended while it read: the source '%s' called pthread_exit or cancelled the thread; it must return",
        worker->number, worker->stream->pass.split->source.name);
    end_read(worker, nt__fail_at_batch(worker->stream, worker->index, NT_INVALID));
    leave(worker);
}

static void read_batch(nt__worker *worker) {
    nt__stream *s = worker->stream;
    nt_status status = NT_OK;
    pthread_cleanup_push(die, worker);
    status = nt__batch_read(&s->pass, worker->index, &worker->in_hand);
    pthread_cleanup_pop(0);
    end_read(worker, status == NT_OK ? NT_OK : nt__fail_at_batch(s, worker->index, status));
}

/* ---- staging ---------------------------------------------------------------------------------------------------- */

static int64_t begin_stage(nt__stream *s) {
    s->staging = true;
    return s->staged;
}

/* A batch that could not be staged stays in its place and is freed there. */
static void stage_batch(nt__stream *s, int64_t index) {
    nt_status status = nt__batch_stage(&s->pass, nt__stream_place(s, index)->batch);
    if (status != NT_OK) status = nt__fail_at_batch(s, index, status);
    pthread_mutex_lock(&s->lock);
    s->staging = false;
    if (status == NT_OK)
        s->staged++;
    else
        nt__stream_fail(s, index, status);
    pthread_cond_signal(&s->arrived);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
}

/* ---- the life of a thread --------------------------------------------------------------------------------------- */

/* The next task, begun; LEAVE when there is none for this worker any more. */
static task take_task(nt__worker *worker, int64_t *index) {
    nt__stream *s = worker->stream;
    pthread_mutex_lock(&s->lock);
    task next;
    while ((next = next_task(worker)) == WAIT) pthread_cond_wait(&s->work, &s->lock);
    if (next == READ) begin_read(worker);
    if (next == STAGE) *index = begin_stage(s);
    pthread_mutex_unlock(&s->lock);
    return next;
}

/* A source may cancel its thread, but only within its read (nt__source_read): anywhere else the thread would end with
 * the lock in its hands. */
static void *work(void *argument) {
    nt__worker *worker = argument;
    int64_t index = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    for (task next; (next = take_task(worker, &index)) != LEAVE;) {
        if (next == READ)
            read_batch(worker);
        else
            stage_batch(worker->stream, index);
    }
    leave(worker);
    return NULL;
}

/* Signals that ask for something go to the program's own threads. Those that report a fault stay where the fault is:
 * blocked, they would end the process without the handler of a debugger or sanitizer. */
static void fill_blocked_signals(sigset_t *set) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigfillset(set);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(set, faults[i]);
}

static nt_status start(nt__stream *s, int number, bool reads, bool stages) {
    nt__worker *worker = &s->workers[s->worker_count];
    *worker = (nt__worker){.stream = s, .number = number, .reads = reads, .stages = stages};
    pthread_mutex_lock(&s->lock);
    s->owners++;
    pthread_mutex_unlock(&s->lock);
    int error = pthread_create(&worker->thread, NULL, work, worker);
    if (!error) {
        s->worker_count++;
        return NT_OK;
    }
    pthread_mutex_lock(&s->lock);
    s->owners--;
    pthread_mutex_unlock(&s->lock);
    return nt__fail(NT_OUT_OF_MEMORY, "the system refused a thread: %s", strerror(error));
}

/* A thread starts with the signal mask of the one that makes it. */
nt_status nt__workers_start(nt__stream *s) {
    sigset_t blocked, before;
    bool alone = s->limits.workers == 1 && !nt__split_has_source(s->pass.split);
    nt_status status = NT_OK;
    fill_blocked_signals(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    for (int i = 1; status == NT_OK && i <= s->limits.workers; i++) status = start(s, i, true, alone);
    if (status == NT_OK && !alone) status = start(s, 0, false, true);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

static const double patience = 1; /* seconds for reads under way when nobody wants their batches any more */

/* Staging and the reading of arrays end by themselves: they are always waited for. */
static bool worth_waiting(const nt__stream *s, bool patient) {
    patient = patient || !nt__split_has_source(s->pass.split);
    for (int i = 0; i < s->worker_count; i++) {
        const nt__worker *worker = &s->workers[i];
        if (!worker->left && (patient || !worker->reading)) return true;
    }
    return false;
}

static void leave_behind(nt__worker *worker) {
    worker->behind = true;
    atomic_fetch_add(worker->stream->pass.split->left_behind, 1);
    pthread_detach(worker->thread);
}

void nt__workers_end(nt__stream *s) {
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->work);
    double end = nt__seconds() + patience;
    while (worth_waiting(s, nt__seconds() < end)) nt__stream_wait(s, &s->arrived, patience);
    for (int i = 0; i < s->worker_count; i++)
        if (!s->workers[i].left) leave_behind(&s->workers[i]);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->worker_count; i++)
        if (!s->workers[i].behind) pthread_join(s->workers[i].thread, NULL);
}

static void destroy(nt__stream *s) {
    pthread_cond_destroy(&s->arrived);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    nt__pass_end(&s->pass);
    nt__free(s->places);
    nt__free(s->workers);
    nt__data_free(s->data);
    nt__free(s);
}

void nt__stream_release(nt__stream *s) {
    bool last = --s->owners == 0;
    pthread_mutex_unlock(&s->lock);
    if (last) destroy(s);
}
