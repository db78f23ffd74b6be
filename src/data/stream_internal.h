/* A stream as its consumer (stream.c) and its threads (workers.c) share it.
 * Not here: what a batch is (data_internal.h).
 *
 * The batches of a pass are numbered. Three numbers only grow: every batch below `taken` went to the consumer, below
 * `staged` it is or was on the device, below `read` a worker has or had it in hand. So
 *
 *     taken <= staged <= taken + device_batches,    staged <= read <= staged + host_batches
 *
 * and the place of a batch is its number modulo host_batches + device_batches. Each batch is read once and comes in its
 * turn, whatever worker read it: there is nothing to sort and nothing to lose.
 */
#ifndef NT_DATA_STREAM_INTERNAL_H
#define NT_DATA_STREAM_INTERNAL_H

#include <pthread.h>

#include "data/data_internal.h"

/* Where a batch lies between its reading and its taking. */
typedef struct nt__place {
    nt__staged *batch; /* NULL until it was read */
    int reader;        /* the worker that has or had it in hand, from 1 */
    double since;      /* nt__seconds when it began */
} nt__place;

typedef struct nt__worker {
    nt__stream *stream;
    pthread_t thread;
    int number;          /* of a reader, from 1 */
    bool reads, stages;  /* what it may do */
    bool reading;        /* it is in the split's source */
    bool left;           /* it touches the stream no more */
    bool behind;         /* nobody waits for it any more */
    int64_t index;       /* of the batch in hand */
    nt__staged *in_hand; /* being read */
} nt__worker;

struct nt__stream {
    nt__pass pass;
    nt_data *data; /* owned with others, so that a thread left behind has what it uses */
    nt_split_options limits;
    bool (*stopping)(void);
    double waited; /* the consumer's seconds, the first batch left out */
    bool started;  /* the first batch was taken */
    nt__worker *workers;
    int worker_count; /* threads that were started */
    /* The lock guards what follows. */
    pthread_mutex_t lock;
    pthread_cond_t work;    /* for the workers: there may be something to do */
    pthread_cond_t arrived; /* for the consumer: a batch, an error, the end of a thread */
    nt__place *places;
    int64_t read, staged, taken;
    bool staging; /* one thread at a time makes buffers */
    bool closing; /* the consumer wants no more */
    int64_t end;  /* the batches that can come: all, or those before the first that failed */
    nt__kept_error error;
    int owners; /* the consumer and the threads; the last one frees */
};

/* ---- workers.c -------------------------------------------------------------------------------------------------- */

nt_status nt__workers_start(nt__stream *stream);
/* Waits for the threads; one that a source keeps is waited for a second. The lock is not held. */
void nt__workers_end(nt__stream *stream);
nt__place *nt__stream_place(const nt__stream *stream, int64_t index);
/* Keeps the thread's error as that of a batch, unless one before it has failed. The lock is held. */
void nt__stream_fail(nt__stream *stream, int64_t index, nt_status status);
/* Puts "split 'train', batch 3 of 8" in front of the thread's message. */
nt_status nt__fail_at_batch(const nt__stream *stream, int64_t index, nt_status status);
/* Waits until the condition is signalled, `seconds` at most. The lock is held. */
void nt__stream_wait(nt__stream *stream, pthread_cond_t *condition, double seconds);
/* Gives one ownership back. The lock is held, and is not held afterwards. */
void nt__stream_release(nt__stream *stream);

#endif
