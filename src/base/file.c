/* The clock, and whole files: read at once, written so that a reader never sees half of one.
 * Not here: what the bytes mean.
 */
#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
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

/* "cannot <action> '<path>': <what the system says>", from errno. */
static nt_status fail_from_errno(const char *action, const char *path) {
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

static nt_status read_all(int file, const char *path, char **data, size_t *length) {
    size_t capacity = stated_size(file) + 2; /* one byte for the NUL, one to see the end in the first round */
    size_t used = 0;
    *data = nt__alloc(capacity, 1);
    while (*data && NT__GROW(*data, used + 1, capacity)) {
        ssize_t got = read_some(file, *data + used, capacity - used - 1);
        if (got < 0) return fail_from_errno("read", path);
        if (got == 0) {
            (*data)[used] = 0;
            *length = used;
            return NT_OK;
        }
        used += (size_t)got;
    }
    return nt__fail_in(NT_OUT_OF_MEMORY, "reading '%s'", path);
}

nt_status nt__read_file(const char *path, char **data, size_t *length) {
    *data = NULL;
    *length = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return fail_from_errno("open", path);
    nt_status status = read_all(file, path, data, length);
    close(file);
    if (status == NT_OK) return NT_OK;
    nt__free(*data);
    *data = NULL;
    return status;
}

/* A pipe is opened without waiting for its other end, and then refused. */
static nt_status open_regular(const char *path, int flags, int *file, size_t *size) {
    struct stat info;
    *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    if (*file < 0) return fail_from_errno("open", path);
    nt_status status = NT_OK;
    if (fstat(*file, &info) != 0)
        status = fail_from_errno("look at", path);
    else if (!S_ISREG(info.st_mode))
        status = nt__fail(NT_IO, "cannot read '%s': it is no regular file", path);
    *size = status == NT_OK ? (size_t)info.st_size : 0;
    if (status != NT_OK) close(*file);
    return status;
}

static nt_status read_regular(const char *path, int flags, size_t most, char **data, size_t *length) {
    int file;
    size_t size = 0;
    *data = NULL;
    *length = 0;
    nt_status status = open_regular(path, flags, &file, &size);
    if (status != NT_OK) return status;
    if (size > most)
        status = nt__fail(NT_IO, "'%s' has %zu bytes, and no more than %zu are read", path, size, most);
    else
        status = read_all(file, path, data, length);
    close(file);
    if (status == NT_OK) return NT_OK;
    nt__free(*data);
    *data = NULL;
    return status;
}

/* Fewer bytes than the file was said to have are no error: it may have been cut since. */
static nt_status read_up_to(int file, const char *path, char *data, size_t most, size_t *length) {
    while (*length < most) {
        ssize_t got = read_some(file, data + *length, most - *length);
        if (got < 0) return fail_from_errno("read", path);
        if (got == 0) return NT_OK;
        *length += (size_t)got;
    }
    return NT_OK;
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

nt_status nt__read_regular(const char *path, char **data, size_t *length) {
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

/* Counts a change; true, with errno, when it is the one that has to fail. */
static bool change_fails(void) {
    atomic_fetch_add(&file_changes, 1);
    size_t left = atomic_load(&changes_until_failure);
    while (left > 0) {
        if (!atomic_compare_exchange_weak(&changes_until_failure, &left, left - 1)) continue;
        errno = atomic_load(&injected_error);
        return left == 1;
    }
    return false;
}

static int create_file(const char *path) {
    return change_fails() ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

static bool sync_file(int file) {
    return !change_fails() && fsync(file) == 0;
}

static bool rename_file(const char *from, const char *to) {
    return !change_fails() && rename(from, to) == 0;
}

nt_status nt__remove_file(const char *path) {
    if (!change_fails() && unlink(path) == 0) return NT_OK;
    return errno == ENOENT ? NT_OK : fail_from_errno("remove", path);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* Process, counter and time make the name unique, also between machines that share the folder. `part` stands in front
 * of them. */
static char *name_beside(const char *path, const char *part) {
    static atomic_uint counter;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return nt__sprintf("%s%s.%ld-%u-%ld.tmp", path, part, (long)getpid(), atomic_fetch_add(&counter, 1), now.tv_nsec);
}

/* "<name>.new.<process>-<counter>-<time>.tmp": the form that name_beside gives with the part `under_lock`. */
static const char under_lock[] = ".new";

static bool is_leftover(const char *name) {
    const char *end = strstr(name, ".new.");
    long process, time;
    unsigned turn;
    int length = 0;
    if (!end || end == name) return false;
    return sscanf(end, ".new.%ld-%u-%ld.tmp%n", &process, &turn, &time, &length) == 3 && length > 0 && !end[length];
}

void nt__remove_leftovers(const char *folder) {
    const struct dirent *entry;
    DIR *entries = opendir(folder);
    while (entries && (entry = readdir(entries)))
        if (is_leftover(entry->d_name)) unlinkat(dirfd(entries), entry->d_name, 0);
    if (entries) closedir(entries);
}

/* An injected failure takes half of the bytes first, as a full disk does. */
bool nt__write_all(int file, const void *bytes, size_t length) {
    const char *at = bytes;
    bool fails = change_fails();
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
    bool good = sync_file(file) || errno == EINVAL;
    int error = errno;
    close(file);
    errno = error;
    return good;
}

char *nt__folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return nt__strdup(".");
    return slash == path ? nt__strdup("/") : nt__sprintf("%.*s", (int)(slash - path), path);
}

/* ---- a file under construction ---------------------------------------------------------------------------------- */

static void forget(nt__new_file *fresh) {
    if (fresh->file >= 0) close(fresh->file);
    nt__free(fresh->path);
    nt__free(fresh->folder);
    nt__free(fresh->beside);
    *fresh = (nt__new_file){.file = -1};
}

nt_status nt__new_file_open(const char *path, bool locked, nt__new_file *out) {
    *out = (nt__new_file){.file = -1,
                          .path = nt__strdup(path),
                          .folder = nt__folder_of(path),
                          .beside = name_beside(path, locked ? under_lock : "")};
    nt_status status = NT_OUT_OF_MEMORY;
    if (out->path && out->folder && out->beside) {
        out->file = create_file(out->beside);
        status = out->file >= 0 ? NT_OK : fail_from_errno("create", out->beside);
    }
    if (status != NT_OK) forget(out);
    return status;
}

/* Starts the way to the disk at once, so that the sync at the end has less to wait for. Where that cannot be asked for
 * it is not needed. */
static void begin_writing_back(const nt__new_file *fresh, size_t length) {
    sync_file_range(fresh->file, (off_t)(fresh->length - length), (off_t)length, SYNC_FILE_RANGE_WRITE);
}

enum { WRITTEN_BACK = 1 << 20 }; /* bytes; less is not worth a call */

nt_status nt__new_file_put(nt__new_file *fresh, const void *bytes, size_t length) {
    if (!nt__write_all(fresh->file, bytes, length)) return fail_from_errno("write", fresh->beside);
    fresh->length += length;
    if (length >= WRITTEN_BACK) begin_writing_back(fresh, length);
    return NT_OK;
}

nt_status nt__new_file_put_at(nt__new_file *fresh, size_t offset, const void *bytes, size_t length) {
    bool good = lseek(fresh->file, (off_t)offset, SEEK_SET) >= 0 && nt__write_all(fresh->file, bytes, length) &&
                lseek(fresh->file, (off_t)fresh->length, SEEK_SET) >= 0;
    return good ? NT_OK : fail_from_errno("write", fresh->beside);
}

static bool close_file(nt__new_file *fresh) {
    int file = fresh->file;
    fresh->file = -1;
    return close(file) == 0;
}

static nt_status finish(nt__new_file *fresh) {
    if (!sync_file(fresh->file) || !close_file(fresh)) return fail_from_errno("write", fresh->beside);
    if (!rename_file(fresh->beside, fresh->path)) return fail_from_errno("rename the finished file to", fresh->path);
    return NT_OK;
}

nt_status nt__new_file_finish(nt__new_file *fresh) {
    nt_status status = finish(fresh);
    if (status != NT_OK)
        unlink(fresh->beside);
    else if (!sync_folder(fresh->folder))
        status = fail_from_errno("sync the folder after a write to it,", fresh->folder);
    forget(fresh);
    return status;
}

void nt__new_file_drop(nt__new_file *fresh) {
    if (fresh->beside) unlink(fresh->beside);
    forget(fresh);
}

/* ---- whole files ------------------------------------------------------------------------------------------------ */

bool nt__is_special(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/* Devices and pipes cannot be synced. */
static nt_status write_into(const char *path, const nt__piece *pieces, size_t count) {
    int file = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (file < 0) return fail_from_errno("open", path);
    bool good = true;
    for (size_t i = 0; good && i < count; i++) good = nt__write_all(file, pieces[i].data, pieces[i].length);
    int error = errno;
    bool closed = close(file) == 0;
    if (!good) errno = error;
    return good && closed ? NT_OK : fail_from_errno("write", path);
}

static nt_status write_beside(const char *path, const nt__piece *pieces, size_t count) {
    nt__new_file fresh;
    nt_status status = nt__new_file_open(path, false, &fresh);
    if (status != NT_OK) return status;
    for (size_t i = 0; status == NT_OK && i < count; i++)
        status = nt__new_file_put(&fresh, pieces[i].data, pieces[i].length);
    if (status == NT_OK) return nt__new_file_finish(&fresh);
    nt__new_file_drop(&fresh);
    return status;
}

static nt_status replace(const char *path, const nt__piece *pieces, size_t count) {
    nt_status status = write_beside(path, pieces, count);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "writing '%s'", path);
}

nt_status nt__write_file_pieces(const char *path, const nt__piece *pieces, size_t count) {
    return nt__is_special(path) ? write_into(path, pieces, count) : replace(path, pieces, count);
}

/* A folder under that name. A rename takes the place of everything else. */
static nt_status move_folder_away(const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return NT_OK;
    char *aside = name_beside(path, "");
    if (!aside) return NT_OUT_OF_MEMORY;
    nt_status status = rename(path, aside) == 0 ? NT_OK : fail_from_errno("move the folder away that is", path);
    nt__free(aside);
    return status;
}

nt_status nt__write_kept(const char *path, const nt__piece *pieces, size_t count) {
    nt_status status = move_folder_away(path);
    return status == NT_OK ? replace(path, pieces, count) : status;
}

nt_status nt__write_file(const char *path, const void *data, size_t length) {
    return nt__write_file_pieces(path, &(nt__piece){data, length}, 1);
}

nt_status nt__check_can_write(const char *path) {
    if (nt__is_folder(path)) return nt__fail(NT_INVALID, "'%s' is a folder: name a file", path);
    if (nt__is_special(path)) return access(path, W_OK) == 0 ? NT_OK : fail_from_errno("write", path);
    char *folder = nt__folder_of(path);
    if (!folder) return NT_OUT_OF_MEMORY;
    nt_status status = NT_OK;
    if (!nt__is_folder(folder))
        status = nt__fail(NT_NOT_FOUND, "cannot write '%s': there is no folder '%s'; make it or name another file",
                          path, folder);
    else if (access(folder, W_OK | X_OK) != 0)
        status = fail_from_errno("write into the folder", folder);
    nt__free(folder);
    return status;
}

/* ---- folders ---------------------------------------------------------------------------------------------------- */

bool nt__is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Another process may make the same folder at the same time: what counts is that it is there afterwards. */
static nt_status make_one_folder(const char *path, mode_t mode) {
    if (mkdir(path, mode) == 0) return NT_OK;
    int error = errno;
    if (nt__is_folder(path)) return NT_OK;
    if (error == EEXIST)
        return nt__fail(NT_IO, "cannot make the folder '%s': %s and is no folder; remove it or choose another name",
                        path, strerror(error));
    errno = error;
    return fail_from_errno("make the folder", path);
}

static nt_status make_folders(const char *path, mode_t mode) {
    char *part = nt__strdup(path);
    if (!part) return NT_OUT_OF_MEMORY;
    nt_status status = NT_OK;
    for (char *at = part; *at && status == NT_OK; at++) {
        if (*at != '/' || at == part) continue;
        *at = 0;
        status = make_one_folder(part, 0777);
        *at = '/';
    }
    if (status == NT_OK) status = make_one_folder(part, mode);
    nt__free(part);
    return status;
}

nt_status nt__make_folder(const char *path) {
    return make_folders(path, 0777);
}

nt_status nt__make_private_folder(const char *path) {
    nt_status status = make_folders(path, 0700);
    return status == NT_OK ? nt__check_private_folder(path) : status;
}

nt_status nt__check_private_folder(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) return fail_from_errno("look at", path);
    if (info.st_uid != geteuid())
        return nt__fail(NT_INVALID, "the folder '%s' belongs to user %ld and this is user %ld: name another one", path,
                        (long)info.st_uid, (long)geteuid());
    if (info.st_mode & (S_IWGRP | S_IWOTH))
        return nt__fail(NT_INVALID, "others may write into the folder '%s' (mode %03o): chmod go-w '%s'", path,
                        (unsigned)info.st_mode & 0777, path);
    return NT_OK;
}

nt_status nt__lock_folder(const char *path, int *descriptor) {
    *descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*descriptor < 0) return fail_from_errno("open the folder", path);
    if (flock(*descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return NT_OK;
    close(*descriptor);
    *descriptor = -1;
    return nt__fail(NT_INVALID, "the folder '%s' is in use", path);
}

void nt__unlock_folder(int descriptor) {
    if (descriptor >= 0) close(descriptor);
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
