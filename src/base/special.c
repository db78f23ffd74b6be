/* Devices and pipes that somebody named to be written to. What reads the other end of a pipe may be late, or never
 * come: the process waits for it until it is asked to stop. Not here: regular files (file.c).
 */
#include "base/files.h"
#include "base/file_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- asked to stop ---------------------------------------------------------------------------------------------- */

/* Of the whole process. Handlers of signals set it, and all threads look at it. */
static atomic_bool stop;
_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a handler of signals may use it");

void nt__stop_set(bool asked) {
    atomic_store(&stop, asked);
}

bool nt__stop_is_set(void) {
    return atomic_load_explicit(&stop, memory_order_relaxed);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

bool nt__is_special(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

enum { LOOK_MS = 50 }; /* how often it looks whether it is asked to stop */

static nt_status fail_stopped(const char *path, const char *what) {
    return nt__fail(NT_INTERRUPTED, "stopped while '%s' was to be written: nobody %s", path, what);
}

/* A pipe that nobody reads cannot be opened without waiting. */
static nt_status open_special(const char *path, int *file) {
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    struct stat info;
    for (;;) {
        *file = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (*file >= 0) return NT_OK;
        int error = errno;
        bool waits = error == ENXIO && stat(path, &info) == 0 && S_ISFIFO(info.st_mode);
        errno = error;
        if (!waits && error != EINTR) return nt__fail_from_errno("open", path);
        if (nt__stop_is_set()) return fail_stopped(path, "opened the other end of the pipe");
        nanosleep(&pause, NULL);
    }
}

static nt_status write_all(int file, const char *path, const nt__piece *piece) {
    const char *at = piece->data;
    for (size_t left = piece->length; left > 0;) {
        ssize_t put = write(file, at, left);
        if (put >= 0) {
            at += put;
            left -= (size_t)put;
        } else if (errno == EAGAIN) {
            if (nt__stop_is_set()) return fail_stopped(path, "takes what is written");
            poll(&(struct pollfd){.fd = file, .events = POLLOUT}, 1, LOOK_MS);
        } else if (errno != EINTR) {
            return nt__fail_from_errno("write", path);
        }
    }
    return NT_OK;
}

/* These cannot be synced. */
nt_status nt__write_into(const char *path, const nt__piece *pieces, size_t count) {
    int file;
    nt_status status = open_special(path, &file);
    if (status != NT_OK) return status;
    if (nt__file_change_fails()) status = nt__fail_from_errno("write", path);
    for (size_t i = 0; status == NT_OK && i < count; i++) status = write_all(file, path, &pieces[i]);
    if (close(file) != 0 && status == NT_OK) status = nt__fail_from_errno("write", path);
    return status;
}
