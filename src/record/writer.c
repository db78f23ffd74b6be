/* The thread that writes records while a run goes on.
 * Not here: what a save does to the folder (folder.c).
 *
 * One record may wait while another is written. Both sides hold the lock only to look at the state and to move a record
 * from place to place; the folder is the thread's for as long as `writing` is set.
 */
#include "record/record_internal.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* A record that is to be written. */
typedef struct save_job {
    nt__record record;
    char *name; /* NULL: the usual one */
} save_job;

struct nt__record_writer {
    nt__record_folder folder;
    double retry_seconds;
    bool synchronous;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    save_job waiting;
    bool is_waiting, writing, closing;
    nt__kept_error error;
    nt_array **spares; /* of the record that was written last; NULL where one was given out */
    size_t spare_count;
};

static void free_job(save_job *job) {
    nt__record_free(&job->record);
    nt__free(job->name);
    job->name = NULL;
}

/* ---- one save, with its attempts -------------------------------------------------------------------------------- */

enum { ATTEMPTS = 5 };

static void sleep_for(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

/* Only what may pass is tried again: a full disk is told at once. */
static nt_status save(nt__record_writer *writer, save_job *job) {
    double wait = writer->retry_seconds;
    nt_status status = nt__record_folder_save(&writer->folder, &job->record, job->name);
    for (int attempt = 2; status != NT_OK && writer->folder.may_pass && attempt <= ATTEMPTS; attempt++, wait *= 2) {
        nt__notice("%s; attempt %d of %d in %g s", nt_error_message(), attempt, ATTEMPTS, wait);
        sleep_for(wait);
        status = nt__record_folder_save(&writer->folder, &job->record, job->name);
    }
    return status == NT_OK ? NT_OK : nt__fail_in(status, "a checkpoint was not written");
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

/* False: the writer is closed, and nothing waits. */
static bool take_job(nt__record_writer *writer, save_job *job) {
    pthread_mutex_lock(&writer->lock);
    while (!writer->is_waiting && !writer->closing) pthread_cond_wait(&writer->changed, &writer->lock);
    bool taken = writer->is_waiting;
    if (taken) {
        *job = writer->waiting;
        writer->waiting = (save_job){0};
        writer->is_waiting = false;
        writer->writing = true;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->lock);
    return taken;
}

static void free_spares(nt__record_writer *writer) {
    for (size_t i = 0; i < writer->spare_count; i++) nt_array_free(writer->spares[i]);
    nt__free(writer->spares);
    writer->spares = NULL;
    writer->spare_count = 0;
}

/* What the record lay in is kept, and what was kept before is freed; the lock is held. Arrays that lie in one come one
 * after the other. */
static void keep_spares(nt__record_writer *writer, nt__record *record) {
    free_spares(writer);
    writer->spares = record->held;
    writer->spare_count = record->held ? record->count : 0;
    for (size_t i = 1; i < writer->spare_count; i++) {
        if (writer->spares[i] != writer->spares[i - 1]) continue;
        nt_array_free(writer->spares[i - 1]);
        writer->spares[i - 1] = NULL;
    }
    nt__free(record->held ? record->arrays : NULL);
    record->held = NULL;
    record->arrays = NULL;
    record->count = 0;
}

static void end_job(nt__record_writer *writer, save_job *job, nt_status status) {
    pthread_mutex_lock(&writer->lock);
    keep_spares(writer, &job->record);
    writer->writing = false;
    nt__error_keep(&writer->error, status);
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
}

static void *write_jobs(void *argument) {
    nt__record_writer *writer = argument;
    save_job job;
    while (take_job(writer, &job)) {
        nt_status status = save(writer, &job);
        end_job(writer, &job, status);
        free_job(&job);
    }
    return NULL;
}

/* Signals are for the threads of the program. */
static nt_status start_thread(nt__record_writer *writer) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&writer->thread, NULL, write_jobs, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) return NT_OK;
    return nt__fail(NT_OUT_OF_MEMORY, "no thread can be started to write checkpoints: %s", strerror(error));
}

/* ---- the run's side --------------------------------------------------------------------------------------------- */

static void free_writer(nt__record_writer *writer) {
    free_spares(writer);
    nt__record_folder_close(&writer->folder);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    nt__free(writer);
}

nt_status nt__record_writer_open(const nt__record_writer_options *options, nt__record_writer **out) {
    *out = NULL;
    nt__record_writer *writer = nt__alloc(1, sizeof *writer);
    if (!writer) return NT_OUT_OF_MEMORY;
    writer->synchronous = options->synchronous;
    writer->retry_seconds = options->retry_seconds > 0 ? options->retry_seconds : 0.5;
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->changed, NULL);
    nt_status status = nt__record_folder_open(options, &writer->folder);
    if (status == NT_OK && !writer->synchronous) status = start_thread(writer);
    if (status == NT_OK) {
        *out = writer;
        return NT_OK;
    }
    free_writer(writer);
    return status;
}

/* Gives out an error that was kept; the lock is held. */
static nt_status raise_error(nt__record_writer *writer) {
    nt_status status = nt__error_raise(&writer->error);
    writer->error.status = NT_OK;
    return status;
}

nt_status nt__record_writer_ready(nt__record_writer *writer) {
    pthread_mutex_lock(&writer->lock);
    while (writer->is_waiting) pthread_cond_wait(&writer->changed, &writer->lock);
    nt_status status = raise_error(writer);
    pthread_mutex_unlock(&writer->lock);
    return status;
}

bool nt__record_writer_is_behind(nt__record_writer *writer) {
    pthread_mutex_lock(&writer->lock);
    bool is_behind = writer->writing && writer->is_waiting && writer->error.status == NT_OK;
    pthread_mutex_unlock(&writer->lock);
    return is_behind;
}

nt_status nt__record_writer_wait(nt__record_writer *writer) {
    pthread_mutex_lock(&writer->lock);
    while (writer->is_waiting || writer->writing) pthread_cond_wait(&writer->changed, &writer->lock);
    nt_status status = raise_error(writer);
    pthread_mutex_unlock(&writer->lock);
    return status;
}

nt_status nt__record_writer_wants(nt__record_writer *writer, const json_t *facts, bool *wants) {
    nt__record_entry entry;
    const nt__record_folder *folder = &writer->folder;
    *wants = false;
    nt_status status = nt__record_folder_describe(folder, facts, &entry);
    if (status == NT_OK && !folder->retention.keep_latest && !entry.scored && !entry.batch)
        status = nt__fail(NT_INVALID,
                          "a checkpoint of epoch %lld has no score, and without keep_latest only the best are kept: "
                          "give the run a validation split, or set keep_latest",
                          (long long)entry.epoch);
    if (status != NT_OK) return status;
    if (!folder->retention.keep_latest) status = nt__record_writer_wait(writer);
    *wants = folder->retention.keep_latest ||
             nt__retention_wants(&folder->retention, folder->manifest.entries, folder->manifest.count, &entry);
    return status;
}

/* NULL: there is none of this type that nobody else holds. */
static nt_array *take_spare(nt__record_writer *writer, nt__type type) {
    nt_array *found = NULL;
    pthread_mutex_lock(&writer->lock);
    for (size_t i = 0; i < writer->spare_count && !found; i++) {
        nt_array *spare = writer->spares[i];
        if (!spare || !nt__type_equal(nt__array_type(spare), type)) continue;
        if (__atomic_load_n(&spare->references, __ATOMIC_ACQUIRE) != 1) continue;
        found = spare;
        writer->spares[i] = NULL;
    }
    pthread_mutex_unlock(&writer->lock);
    return found;
}

nt_array *nt__record_writer_array(nt__record_writer *writer, nt_dtype dtype, nt_shape shape) {
    nt_array *spare = writer ? take_spare(writer, (nt__type){dtype, shape}) : NULL;
    return spare ? spare : nt__array_new_unset(dtype, shape);
}

/* What can be said of the record before it is written. */
static nt_status check_job(const nt__record_writer *writer, const nt__record *record, const char *name) {
    nt__record_entry entry;
    nt_status status = name ? nt__record_name_check(name) : NT_OK;
    return status == NT_OK ? nt__record_folder_describe(&writer->folder, record->facts, &entry) : status;
}

/* Takes the record over when it gives NT_OK. */
static nt_status make_job(const nt__record_writer *writer, nt__record *record, const char *name, save_job *out) {
    nt_status status = check_job(writer, record, name);
    *out = (save_job){.name = status == NT_OK && name ? nt__strdup(name) : NULL};
    if (status == NT_OK && name && !out->name) status = NT_OUT_OF_MEMORY;
    if (status == NT_OK)
        out->record = *record;
    else
        nt__record_free(record);
    *record = (nt__record){0};
    return status;
}

nt_status nt__record_writer_put(nt__record_writer *writer, nt__record *record, const char *name) {
    save_job job;
    nt_status status = make_job(writer, record, name, &job);
    if (status != NT_OK) return status;
    if (writer->synchronous) {
        status = save(writer, &job);
        keep_spares(writer, &job.record);
        free_job(&job);
        return status;
    }
    status = nt__record_writer_ready(writer);
    pthread_mutex_lock(&writer->lock);
    writer->waiting = job;
    writer->is_waiting = true;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    return status;
}

nt_status nt__record_writer_close(nt__record_writer *writer) {
    if (!writer) return NT_OK;
    nt_status status = nt__record_writer_wait(writer);
    pthread_mutex_lock(&writer->lock);
    writer->closing = true;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    if (!writer->synchronous) pthread_join(writer->thread, NULL);
    free_writer(writer);
    return status;
}
