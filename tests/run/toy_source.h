/* The toy's data from sources instead of arrays: the same rows, read by several workers, and misbehaving on demand.
 * Include after cmocka.
 */
#ifndef NT_TESTS_RUN_TOY_SOURCE_H
#define NT_TESTS_RUN_TOY_SOURCE_H

#include <pthread.h>
#include <time.h>

#include "toy.h"

/* How the sources of all splits behave; set before a run is made. */
static struct toy_reading {
    int workers;
    double pace;          /* seconds for a batch */
    int64_t fails, exits; /* at this batch of a pass, from 1; 0: never */
    int64_t sticks;       /* until `release` */
    double time_limit;
    pthread_mutex_t lock;
    pthread_cond_t released;
    bool release;
    int made, closed;
} reading = {.lock = PTHREAD_MUTEX_INITIALIZER, .released = PTHREAD_COND_INITIALIZER};

/* Owned by the source. */
typedef struct toy_rows {
    nt_array *fields[3];
} toy_rows;

static inline void toy_release(bool release) {
    pthread_mutex_lock(&reading.lock);
    reading.release = release;
    pthread_cond_broadcast(&reading.released);
    pthread_mutex_unlock(&reading.lock);
}

static inline void toy_stick(void) {
    pthread_mutex_lock(&reading.lock);
    while (!reading.release) pthread_cond_wait(&reading.released, &reading.lock);
    pthread_mutex_unlock(&reading.lock);
}

static inline nt_status toy_read(void *context, nt_request *request) {
    const toy_rows *rows = context;
    long nanoseconds = (long)(reading.pace * 1e9);
    if (nanoseconds) nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL);
    int64_t batch = request->batch + 1;
    if (batch == reading.sticks) toy_stick();
    if (batch == reading.exits) pthread_exit(NULL);
    if (batch == reading.fails) return nt_fail(NT_IO, "the disk is gone");
    for (int f = 0; f < 3; f++) {
        const nt_array *whole = rows->fields[f];
        size_t bytes = whole->bytes / (size_t)whole->shape.dims[0];
        char *to = request->fields[f]->data;
        for (int64_t i = 0; i < request->count; i++)
            memcpy(to + (size_t)i * bytes, (char *)whole->data + (size_t)request->rows[i] * bytes, bytes);
    }
    return NT_OK;
}

static inline void toy_close(void *context) {
    toy_rows *rows = context;
    for (int f = 0; f < 3; f++) nt_array_free(rows->fields[f]);
    free(rows);
    pthread_mutex_lock(&reading.lock);
    reading.closed++;
    pthread_mutex_unlock(&reading.lock);
}

static const nt_source_field toy_source_fields[] = {
    {"x", NT_F32, {1, {4}}}, {"label", NT_U8, {0}}, {"number", NT_I64, {0}}};

static inline nt_status toy_source_split(const Toy *e, nt_data *data, const char *name, int rows, bool training) {
    toy_rows *made = calloc(1, sizeof *made);
    if (!made) return NT_OUT_OF_MEMORY;
    made->fields[0] = toy_points(rows, training && e->poison);
    made->fields[1] = toy_labels(rows, training ? e->bad_label : 0);
    made->fields[2] = nt_array_new(NT_I64, nt_dims(rows));
    bool right = made->fields[0] && made->fields[1] && made->fields[2];
    for (int i = 0; right && i < rows; i++) ((int64_t *)made->fields[2]->data)[i] = i;
    reading.made++;
    nt_source source = {.name = "toy rows",
                        .context = made,
                        .rows = rows,
                        .fields = toy_source_fields,
                        .field_count = 3,
                        .read = toy_read,
                        .close = toy_close};
    nt_split(data, name, .batch = e->batch, .shuffle = training, .drop_last = training, .workers = reading.workers,
             .time_limit = reading.time_limit);
    nt_status status = nt_split_source(data, name, source);
    return right ? status : NT_OUT_OF_MEMORY;
}

static inline nt_status toy_source_data(const void *fields, nt_data *data) {
    const Toy *e = fields;
    nt_status status = toy_source_split(e, data, "train", e->rows, true);
    if (status == NT_OK && e->val_rows) status = toy_source_split(e, data, "val", e->val_rows, false);
    return status;
}

/* Sources behave again, `workers` read them. */
static inline void toy_reading_reset(int workers) {
    reading.workers = workers;
    reading.pace = reading.time_limit = 0;
    reading.fails = reading.exits = reading.sticks = 0;
    reading.release = false;
    reading.made = reading.closed = 0;
}

#endif
