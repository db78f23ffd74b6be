/* Folders: made with their parents, locked, and cleared of what a killed process left.
 * Not here: who may write into one (trust.c).
 */
#include "base/files.h"
#include "base/file_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

char *nt__folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return nt__strdup(".");
    return slash == path ? nt__strdup("/") : nt__sprintf("%.*s", (int)(slash - path), path);
}

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
    return nt__fail_from_errno("make the folder", path);
}

static nt_status make_folders(const char *path, mode_t mode) {
    char *part = nt__strdup(path);
    if (!part) return NT_OUT_OF_MEMORY;
    nt_status status = NT_OK;
    for (char *at = part; *at && status == NT_OK; at++) {
        if (*at != '/' || at == part) continue;
        *at = 0;
        status = make_one_folder(part, mode);
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

nt_status nt__lock_folder(const char *path, int *descriptor) {
    *descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*descriptor < 0) return nt__fail_from_errno("open the folder", path);
    if (flock(*descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return NT_OK;
    close(*descriptor);
    *descriptor = -1;
    return nt__fail(NT_INVALID, "the folder '%s' is in use", path);
}

void nt__unlock_folder(int descriptor) {
    if (descriptor >= 0) close(descriptor);
}

/* ---- what killed processes left --------------------------------------------------------------------------------- */

/* "<name>.new.<process>-<counter>-<time>.tmp", as nt__new_file_open names a file under the lock. */
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
