/* The accounts: what is alive on the devices, what was moved, compiled and run.
 * Not here: who makes or frees anything. These counts are the truth about device memory: no plugin for the CPU has
 * statistics of its own.
 */
#include "xla/xla_internal.h"

#include <pthread.h>

/* Uploads happen on a worker thread while another thread runs programs. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nt__engine_counts counts;

static void add(nt__count *count, size_t bytes) {
    count->live_count++;
    count->live_bytes += bytes;
    if (count->live_count > count->peak_count) count->peak_count = count->live_count;
    if (count->live_bytes > count->peak_bytes) count->peak_bytes = count->live_bytes;
}

static void take(nt__count *count, size_t bytes) {
    count->live_count--;
    count->live_bytes -= bytes;
}

static void transfer(nt__transfer *total, size_t bytes) {
    total->count++;
    total->bytes += bytes;
}

void nt__account_made(nt__purpose purpose, size_t bytes) {
    pthread_mutex_lock(&lock);
    add(&counts.buffers[purpose], bytes);
    add(&counts.all_buffers, bytes);
    pthread_mutex_unlock(&lock);
}

void nt__account_gone(nt__purpose purpose, size_t bytes) {
    pthread_mutex_lock(&lock);
    take(&counts.buffers[purpose], bytes);
    take(&counts.all_buffers, bytes);
    pthread_mutex_unlock(&lock);
}

void nt__account_moved(nt__purpose from, nt__purpose to, size_t bytes) {
    pthread_mutex_lock(&lock);
    take(&counts.buffers[from], bytes);
    add(&counts.buffers[to], bytes);
    pthread_mutex_unlock(&lock);
}

/* A thread hears of its own transfers only, so that what it hears has an order. */
static _Thread_local struct {
    nt__transfer_watcher call;
    void *context;
} watching;

void nt__transfers_watch(nt__transfer_watcher watcher, void *context) {
    watching.call = watcher;
    watching.context = context;
}

void nt__account_upload(nt__purpose purpose, const char *name, size_t bytes) {
    pthread_mutex_lock(&lock);
    transfer(&counts.uploads[purpose], bytes);
    pthread_mutex_unlock(&lock);
    if (watching.call) watching.call(true, purpose, name, bytes, watching.context);
}

void nt__account_download(nt__purpose purpose, const char *name, size_t bytes) {
    pthread_mutex_lock(&lock);
    transfer(&counts.downloads[purpose], bytes);
    pthread_mutex_unlock(&lock);
    if (watching.call) watching.call(false, purpose, name, bytes, watching.context);
}

void nt__account_compile(size_t code_bytes) {
    pthread_mutex_lock(&lock);
    counts.compiles++;
    add(&counts.executables, code_bytes);
    pthread_mutex_unlock(&lock);
}

void nt__account_load(size_t code_bytes) {
    pthread_mutex_lock(&lock);
    counts.loads++;
    add(&counts.executables, code_bytes);
    pthread_mutex_unlock(&lock);
}

void nt__account_executable_gone(size_t code_bytes) {
    pthread_mutex_lock(&lock);
    take(&counts.executables, code_bytes);
    pthread_mutex_unlock(&lock);
}

void nt__account_run(void) {
    pthread_mutex_lock(&lock);
    counts.runs++;
    pthread_mutex_unlock(&lock);
}

nt__engine_counts nt__engine_counts_now(void) {
    pthread_mutex_lock(&lock);
    nt__engine_counts copy = counts;
    pthread_mutex_unlock(&lock);
    return copy;
}

const char *nt__purpose_name(nt__purpose purpose) {
    static const char *const names[NT__PURPOSE_COUNT] = {
        [NT__PARAMETERS] = "parameters",
        [NT__OPTIMIZER_STATE] = "optimizer state",
        [NT__LAYER_STATE] = "layer state",
        [NT__ACCUMULATOR] = "accumulator",
        [NT__BATCH] = "batch",
        [NT__STAGED] = "staged batch",
        [NT__DEVICE_FIELD] = "device field",
        [NT__RATE] = "rate",
        [NT__FLAG] = "flag",
        [NT__OUTPUT] = "output",
    };
    return (size_t)purpose < NT__PURPOSE_COUNT ? names[purpose] : "unknown purpose";
}

nt_status nt__purpose_check(nt__purpose purpose) {
    if ((size_t)purpose < NT__PURPOSE_COUNT) return NT_OK;
    return nt__fail(NT_INVALID, "purpose %d is none: pass one of nt__purpose, 0 to %d", (int)purpose,
                    NT__PURPOSE_COUNT - 1);
}
