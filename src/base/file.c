/* The clock, and whole files: read at once, written so that a reader never sees half of one.
 * Not here: what the bytes mean.
 */
#include "base/files.h"
#include "base/file_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

double nt__seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static _Thread_local int newest_error;

bool nt__file_error_may_pass(void) {
    static const int passing[] = {EIO, EAGAIN, EBUSY, ESTALE, ETIMEDOUT};
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        if (newest_error == passing[i]) return true;
    return false;
}

nt_status nt__fail_from_errno(const char *action, const char *path) {
    int error = errno;
    newest_error = error;
    nt_status status = error == ENOENT || error == ENOTDIR ? NT_NOT_FOUND : NT_IO;
    return nt__fail(status, "cannot %s '%s': %s%s", action, path, strerror(error), nt__write_advice(error));
}

const char *nt__write_advice(int error) {
    static const struct {
        int error;
        const char *advice;
    } table[] = {
        {ENOSPC, "; free space there or choose another folder"},
        {EDQUOT, "; delete files of yours there or choose another folder"},
        {EFBIG, "; raise the limit for files (ulimit -f) or choose another folder"},
        {EROFS, "; choose a folder that can be written"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].error == error) return table[i].advice;
    return "";
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* The size the system states is only a first guess: pipes state none, and a file may grow. */
static size_t stated_size(int file) {
    struct stat info;
    return fstat(file, &info) == 0 && info.st_size > 0 ? (size_t)info.st_size : 0;
}

static ssize_t read_some(int file, char *to, size_t room) {
    ssize_t got;
    do got = read(file, to, room);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Fewer bytes than the file was said to have are no error: it may have been cut since. */
static nt_status read_up_to(int file, const char *path, char *data, size_t most, size_t *length) {
    while (*length < most) {
        ssize_t got = read_some(file, data + *length, most - *length);
        if (got < 0) return nt__fail_from_errno("read", path);
        if (got == 0) return NT_OK;
        *length += (size_t)got;
    }
    return NT_OK;
}

static nt_status read_all(int file, const char *path, char **data, size_t *length) {
    size_t capacity = stated_size(file) + 2; /* one byte for the NUL, one to see the end in the first round */
    size_t used = 0;
    *data = nt__alloc(capacity, 1);
    while (*data && NT__GROW(*data, used + 1, capacity)) {
        ssize_t got = read_some(file, *data + used, capacity - used - 1);
        if (got < 0) return nt__fail_from_errno("read", path);
        if (got == 0) {
            (*data)[used] = 0;
            *length = used;
            return NT_OK;
        }
        used += (size_t)got;
    }
    return nt__fail_in(NT_OUT_OF_MEMORY, "reading '%s'", path);
}

nt_status nt__fail_not_regular(const char *path, mode_t mode) {
    static const struct {
        mode_t kind;
        const char *name;
    } kinds[] = {{S_IFDIR, "a folder"}, {S_IFIFO, "a pipe"}, {S_IFSOCK, "a socket"}, {S_IFLNK, "a link"}};
    const char *name = "a device";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((mode & S_IFMT) == kinds[i].kind) name = kinds[i].name;
    return nt__fail(NT_IO, "cannot read '%s': it is %s and no regular file", path, name);
}

/* A pipe is opened without waiting for its other end, and then refused. */
static nt_status open_regular(const char *path, int flags, int *file, size_t *size) {
    struct stat info;
    *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    if (*file < 0) return nt__fail_from_errno("open", path);
    nt_status status = NT_OK;
    if (fstat(*file, &info) != 0)
        status = nt__fail_from_errno("look at", path);
    else if (!S_ISREG(info.st_mode))
        status = nt__fail_not_regular(path, info.st_mode);
    *size = status == NT_OK ? (size_t)info.st_size : 0;
    if (status != NT_OK) close(*file);
    return status;
}

nt_status nt__open_regular(const char *path, int *file, size_t *size) {
    return open_regular(path, 0, file, size);
}

nt_status nt__read_open(int file, const char *path, size_t most, char **data, size_t *length) {
    size_t size = stated_size(file);
    *data = NULL;
    *length = 0;
    nt_status status = size <= most
                           ? read_all(file, path, data, length)
                           : nt__fail(NT_IO, "'%s' has %zu bytes, and no more than %zu are read", path, size, most);
    close(file);
    if (status == NT_OK) return NT_OK;
    nt__free(*data);
    *data = NULL;
    return status;
}

static nt_status read_regular(const char *path, int flags, size_t most, char **data, size_t *length) {
    int file;
    size_t size = 0;
    *data = NULL;
    *length = 0;
    nt_status status = open_regular(path, flags, &file, &size);
    return status == NT_OK ? nt__read_open(file, path, most, data, length) : status;
}

nt_status nt__read_some(int file, const char *path, void *to, size_t most, size_t *length) {
    *length = 0;
    return read_up_to(file, path, to, most, length);
}

/* A file that has grown since it was looked at is read as long as it was. */
static nt_status read_parts(int file, const char *path, size_t size, nt__look_function look, void *context, char *data,
                            size_t *length) {
    while (*length < size) {
        size_t begin = *length, most = size - begin < NT__READ_PART ? size : begin + NT__READ_PART;
        nt_status status = read_up_to(file, path, data, most, length);
        if (status != NT_OK) return status;
        if (*length > begin) look(context, data + begin, *length - begin);
        if (*length < most) return NT_OK;
    }
    return NT_OK;
}

nt_status nt__read_looking(const char *path, nt__look_function look, void *context, char **data, size_t *length) {
    int file;
    size_t size;
    *data = NULL;
    *length = 0;
    nt_status status = open_regular(path, 0, &file, &size);
    if (status != NT_OK) return status;
    *data = nt__alloc(size + 1, 1);
    status = *data ? read_parts(file, path, size, look, context, *data, length) : NT_OUT_OF_MEMORY;
    close(file);
    if (status == NT_OK) return NT_OK;
    nt__free(*data);
    *data = NULL;
    return status;
}

nt_status nt__read_beginning(const char *path, size_t most, char **data, size_t *length, size_t *size) {
    int file;
    *data = NULL;
    *length = 0;
    nt_status status = open_regular(path, 0, &file, size);
    if (status != NT_OK) return status;
    if (*size < most) most = *size;
    *data = nt__alloc(most + 1, 1);
    status = *data ? read_up_to(file, path, *data, most, length) : NT_OUT_OF_MEMORY;
    close(file);
    if (status == NT_OK) return NT_OK;
    nt__free(*data);
    *data = NULL;
    return status;
}

nt_status nt__read_file(const char *path, char **data, size_t *length) {
    return read_regular(path, 0, SIZE_MAX, data, length);
}

nt_status nt__read_kept(const char *path, size_t most, char **data, size_t *length) {
    return read_regular(path, O_NOFOLLOW, most, data, length);
}

/* ---- injected failures ------------------------------------------------------------------------------------------ */

static atomic_size_t file_changes;
static atomic_size_t changes_until_failure; /* 0: none is injected */
static atomic_int injected_error;

size_t nt__file_changes(void) {
    return atomic_load(&file_changes);
}

void nt__files_fail_at(size_t n, int error) {
    atomic_store(&injected_error, error);
    atomic_store(&changes_until_failure, n);
}

bool nt__file_change_fails(void) {
    atomic_fetch_add(&file_changes, 1);
    size_t left = atomic_load(&changes_until_failure);
    while (left > 0) {
        if (!atomic_compare_exchange_weak(&changes_until_failure, &left, left - 1)) continue;
        errno = atomic_load(&injected_error);
        return left == 1;
    }
    return false;
}

int nt__create_file(const char *path, mode_t mode) {
    if (nt__file_change_fails()) return -1;
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

bool nt__sync_file(int file) {
    return !nt__file_change_fails() && fsync(file) == 0;
}

static bool rename_file(const char *from, const char *to) {
    return !nt__file_change_fails() && rename(from, to) == 0;
}

nt_status nt__remove_file(const char *path) {
    if (!nt__file_change_fails() && unlink(path) == 0) return NT_OK;
    return errno == ENOENT ? NT_OK : nt__fail_from_errno("remove", path);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* Process, counter and time make the name unique, also between machines that share the folder. `part` stands in front
 * of them. */
char *nt__name_beside(const char *path, const char *part) {
    static atomic_uint counter;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return nt__sprintf("%s%s.%ld-%u-%ld.tmp", path, part, (long)getpid(), atomic_fetch_add(&counter, 1), now.tv_nsec);
}

/* "<name>.new.<process>-<counter>-<time>.tmp": the form that name_beside gives with the part `under_lock`. */
static const char under_lock[] = ".new";

/* An injected failure takes half of the bytes first, as a full disk does. */
bool nt__write_all(int file, const void *bytes, size_t length) {
    const char *at = bytes;
    bool fails = nt__file_change_fails();
    int error = errno;
    if (fails) length /= 2;
    while (length > 0) {
        ssize_t put = write(file, at, length);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return false;
        at += put;
        length -= (size_t)put;
    }
    if (fails) errno = error;
    return !fails;
}

/* Makes the new name survive a power failure. Some file systems cannot sync a folder and say EINVAL: nothing more can
 * be done on those. */
static bool sync_folder(const char *folder) {
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) return false;
    bool good = nt__sync_file(file) || errno == EINVAL;
    int error = errno;
    close(file);
    errno = error;
    return good;
}

nt_status nt__make_afresh(const char *path, int *file) {
    *file = -1;
    nt_status status = nt__remove_file(path);
    if (status != NT_OK) return status;
    *file = nt__create_file(path, 0666);
    return *file >= 0 ? NT_OK : nt__fail_from_errno("create", path);
}

nt_status nt__open_own(const char *path, int *file) {
    struct stat info;
    *file = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (*file < 0) return nt__fail_from_errno("open", path);
    bool known = fstat(*file, &info) == 0;
    if (known && S_ISREG(info.st_mode) && info.st_uid == geteuid() && info.st_nlink == 1) return NT_OK;
    close(*file);
    *file = -1;
    return nt__fail(
        NT_IO, "cannot change '%s': it is not a regular file of this user with this name alone; move it away", path);
}

/* ---- a file under construction ---------------------------------------------------------------------------------- */

static void forget(nt__new_file *fresh) {
    if (fresh->file >= 0) close(fresh->file);
    nt__free(fresh->path);
    nt__free(fresh->folder);
    nt__free(fresh->beside);
    *fresh = (nt__new_file){.file = -1};
}

static nt_status open_new(const char *path, bool locked, mode_t mode, nt__new_file *out) {
    *out = (nt__new_file){.file = -1,
                          .path = nt__strdup(path),
                          .folder = nt__folder_of(path),
                          .beside = nt__name_beside(path, locked ? under_lock : "")};
    nt_status status = NT_OUT_OF_MEMORY;
    if (out->path && out->folder && out->beside) {
        out->file = nt__create_file(out->beside, mode);
        status = out->file >= 0 ? NT_OK : nt__fail_from_errno("create", out->beside);
    }
    if (status != NT_OK) forget(out);
    return status;
}

nt_status nt__new_file_open(const char *path, bool locked, nt__new_file *out) {
    return open_new(path, locked, 0666, out);
}

/* Starts the way to the disk at once, so that the sync at the end has less to wait for. Where that cannot be asked for
 * it is not needed. */
static void begin_writing_back(const nt__new_file *fresh, size_t length) {
    sync_file_range(fresh->file, (off_t)(fresh->length - length), (off_t)length, SYNC_FILE_RANGE_WRITE);
}

enum { WRITTEN_BACK = 1 << 20 }; /* bytes; less is not worth a call */

nt_status nt__new_file_put(nt__new_file *fresh, const void *bytes, size_t length) {
    if (!nt__write_all(fresh->file, bytes, length)) return nt__fail_from_errno("write", fresh->beside);
    fresh->length += length;
    if (length >= WRITTEN_BACK) begin_writing_back(fresh, length);
    return NT_OK;
}

nt_status nt__new_file_put_at(nt__new_file *fresh, size_t offset, const void *bytes, size_t length) {
    bool good = lseek(fresh->file, (off_t)offset, SEEK_SET) >= 0 && nt__write_all(fresh->file, bytes, length) &&
                lseek(fresh->file, (off_t)fresh->length, SEEK_SET) >= 0;
    return good ? NT_OK : nt__fail_from_errno("write", fresh->beside);
}

static bool close_file(nt__new_file *fresh) {
    int file = fresh->file;
    fresh->file = -1;
    return close(file) == 0;
}

static nt_status finish(nt__new_file *fresh) {
    if (!nt__sync_file(fresh->file) || !close_file(fresh)) return nt__fail_from_errno("write", fresh->beside);
    if (!rename_file(fresh->beside, fresh->path))
        return nt__fail_from_errno("rename the finished file to", fresh->path);
    return NT_OK;
}

nt_status nt__new_file_finish(nt__new_file *fresh) {
    nt_status status = finish(fresh);
    if (status != NT_OK)
        unlink(fresh->beside);
    else if (!sync_folder(fresh->folder))
        status = nt__fail_from_errno("sync the folder after a write to it,", fresh->folder);
    forget(fresh);
    return status;
}

void nt__new_file_drop(nt__new_file *fresh) {
    if (fresh->beside) unlink(fresh->beside);
    forget(fresh);
}

/* ---- whole files ------------------------------------------------------------------------------------------------ */

static nt_status write_beside(const char *path, mode_t mode, const nt__piece *pieces, size_t count) {
    nt__new_file fresh;
    nt_status status = open_new(path, false, mode, &fresh);
    if (status != NT_OK) return status;
    for (size_t i = 0; status == NT_OK && i < count; i++)
        status = nt__new_file_put(&fresh, pieces[i].data, pieces[i].length);
    if (status == NT_OK) return nt__new_file_finish(&fresh);
    nt__new_file_drop(&fresh);
    return status;
}

static nt_status replace(const char *path, mode_t mode, const nt__piece *pieces, size_t count) {
    nt_status status = write_beside(path, mode, pieces, count);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "writing '%s'", path);
}

nt_status nt__write_file_pieces(const char *path, const nt__piece *pieces, size_t count) {
    return nt__is_special(path) ? nt__write_into(path, pieces, count) : replace(path, 0666, pieces, count);
}

/* A folder under that name. A rename takes the place of everything else. */
static nt_status move_folder_away(const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return NT_OK;
    char *aside = nt__name_beside(path, "");
    if (!aside) return NT_OUT_OF_MEMORY;
    nt_status status = rename(path, aside) == 0 ? NT_OK : nt__fail_from_errno("move the folder away that is", path);
    nt__free(aside);
    return status;
}

nt_status nt__write_kept(const char *path, const nt__piece *pieces, size_t count) {
    nt_status status = move_folder_away(path);
    /* Not writable by others, whatever the umask: it would not be read again. */
    return status == NT_OK ? replace(path, 0644, pieces, count) : status;
}

nt_status nt__write_file(const char *path, const void *data, size_t length) {
    return nt__write_file_pieces(path, &(nt__piece){data, length}, 1);
}

nt_status nt__check_can_write(const char *path) {
    if (nt__is_folder(path)) return nt__fail(NT_INVALID, "'%s' is a folder: name a file", path);
    if (nt__is_special(path)) return access(path, W_OK) == 0 ? NT_OK : nt__fail_from_errno("write", path);
    char *folder = nt__folder_of(path);
    if (!folder) return NT_OUT_OF_MEMORY;
    nt_status status = NT_OK;
    if (!nt__is_folder(folder))
        status = nt__fail(NT_NOT_FOUND, "cannot write '%s': there is no folder '%s'; make it or name another file",
                          path, folder);
    else if (access(folder, W_OK | X_OK) != 0)
        status = nt__fail_from_errno("write into the folder", folder);
    nt__free(folder);
    return status;
}

/* A second name for the file, so that "path" is there at every moment. Some file systems have no second names. */
static bool keep_as(const char *path, const char *previous) {
    struct stat info;
    if (lstat(path, &info) != 0) return errno == ENOENT;
    if (unlink(previous) != 0 && errno != ENOENT) return false;
    return link(path, previous) == 0 || rename(path, previous) == 0;
}

nt_status nt__keep_previous(const char *path) {
    char *previous = nt__sprintf("%s.previous", path);
    if (!previous) return NT_OUT_OF_MEMORY;
    nt_status status = NT_OK;
    if (!keep_as(path, previous))
        status = nt__fail(NT_IO, "%s: cannot keep the former file as %s: %s", path, previous, strerror(errno));
    nt__free(previous);
    return status;
}
