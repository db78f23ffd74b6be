/* Files and folders that nobody but this user and root could have written: what is loaded into the process, or decides
 * what is, must be one of these. A path is walked from its start, one open folder after the other, so that each step is
 * looked at before the next one is taken from it. A path that passed leads to the same file later: whoever could change
 * a step of it is this user or root. So dlopen may be given the path.
 * Not here: loading (object.c looks at the file's content).
 */
#include "base/files.h"
#include "base/file_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- one file or folder ----------------------------------------------------------------------------------------- */

/* The real name of what is open, for messages: steps of a path may be links. */
static const char *name_of(int file, const char *path, char out[PATH_MAX]) {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, out, PATH_MAX - 1);
    if (length <= 0) return path;
    out[length] = 0;
    return out;
}

/* The number that stands for users of whom this user namespace knows nothing; -1 outside of one. Root's files have it
 * there, where root is not one of the namespace's users. */
static long unknown_user(void) {
    char *map, *number;
    size_t length;
    long user = -1;
    unsigned inside, outside, count;
    if (nt__read_file("/proc/self/uid_map", &map, &length) != NT_OK) return -1;
    bool is_namespace = sscanf(map, "%u %u %u", &inside, &outside, &count) == 3 && count != UINT32_MAX;
    nt__free(map);
    if (!is_namespace || nt__read_file("/proc/sys/kernel/overflowuid", &number, &length) != NT_OK) return -1;
    if (sscanf(number, "%ld", &user) != 1) user = -1;
    nt__free(number);
    return user;
}

static bool is_trusted(uid_t owner) {
    return owner == 0 || owner == geteuid();
}

static nt_status check_owner(int file, const char *path, const struct stat *info) {
    char name[PATH_MAX];
    if (is_trusted(info->st_uid)) return NT_OK;
    /* A folder such as / and /home in a container that maps this user alone. */
    if (!S_ISREG(info->st_mode) && (long)info->st_uid == unknown_user()) return NT_OK;
    nt__fail_nothing();
    return nt__fail(NT_INVALID,
                    "'%s' belongs to user %ld, who is neither this user (%ld) nor root: delete it or use another one",
                    name_of(file, path, name), (long)info->st_uid, (long)geteuid());
}

static bool others_may_write(const struct stat *info) {
    return info->st_mode & (S_IWGRP | S_IWOTH);
}

/* A folder on the way. In a sticky one, as /tmp is, others can neither remove nor rename what belongs to this user. */
static nt_status check_step(int folder, const char *path) {
    struct stat info;
    char name[PATH_MAX];
    if (fstat(folder, &info) != 0) return nt__fail_from_errno("look at", path);
    nt_status status = check_owner(folder, path, &info);
    if (status != NT_OK || !others_may_write(&info) || (info.st_mode & S_ISVTX)) return status;
    return nt__fail(NT_INVALID,
                    "others may write into the folder '%s' (mode %03o), so all below it may be of their making: use a "
                    "folder elsewhere",
                    name_of(folder, path, name), (unsigned)info.st_mode & 07777);
}

/* ---- a path ----------------------------------------------------------------------------------------------------- */

/* Checks the folder that a relative path starts from and all above it. */
static nt_status check_upwards(int start, const char *path) {
    struct stat here, above;
    int at = fcntl(start, F_DUPFD_CLOEXEC, 0);
    nt_status status = at >= 0 ? NT_OK : nt__fail_from_errno("open", path);
    while (status == NT_OK && (status = check_step(at, path)) == NT_OK) {
        int parent = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        bool known = parent >= 0 && fstat(at, &here) == 0 && fstat(parent, &above) == 0;
        if (!known) status = nt__fail_from_errno("look at the folder above", path);
        close(at);
        at = parent;
        if (known && here.st_dev == above.st_dev && here.st_ino == above.st_ino) break;
    }
    if (at >= 0) close(at);
    return status;
}

/* A path that is walked: the folder that was reached, and what is left. */
typedef struct walk {
    const char *path; /* as it was given */
    int folder, links;
    char left[2 * PATH_MAX];
} walk;

static nt_status start(walk *w, const char *from) {
    if (w->folder >= 0) close(w->folder);
    w->folder = open(from, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (w->folder < 0) return nt__fail_from_errno("open the folder of", w->path);
    return strcmp(from, "/") == 0 ? check_step(w->folder, "/") : check_upwards(w->folder, w->path);
}

/* Puts what a link says in front of what is left. */
static nt_status follow(walk *w, int link, const char *rest) {
    enum { MOST_LINKS = 40 };
    char target[PATH_MAX], left[sizeof w->left];
    ssize_t length = readlinkat(link, "", target, sizeof target - 1);
    if (length < 0) return nt__fail_from_errno("follow the link", w->path);
    target[length] = 0;
    if (++w->links > MOST_LINKS || snprintf(left, sizeof left, "%s/%s", target, rest) >= (int)sizeof left) {
        errno = ELOOP;
        return nt__fail_from_errno("open", w->path);
    }
    memcpy(w->left, left, sizeof left);
    return target[0] == '/' ? start(w, "/") : NT_OK;
}

/* Takes the next step, which is `name`; `rest` is left behind it. */
static nt_status step(walk *w, const char *name, const char *rest) {
    struct stat info;
    int next = openat(w->folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0) return nt__fail_from_errno("open", w->path);
    nt_status status = fstat(next, &info) == 0 ? NT_OK : nt__fail_from_errno("look at", w->path);
    if (status == NT_OK && S_ISLNK(info.st_mode)) {
        status = check_owner(next, w->path, &info);
        if (status == NT_OK) status = follow(w, next, rest);
        close(next);
        return status;
    }
    if (status == NT_OK && !S_ISDIR(info.st_mode)) {
        errno = ENOTDIR;
        status = nt__fail_from_errno("open", w->path);
    }
    if (status == NT_OK) status = check_step(next, w->path);
    if (status != NT_OK) {
        close(next);
        return status;
    }
    close(w->folder);
    w->folder = next;
    memmove(w->left, rest, strlen(rest) + 1);
    return NT_OK;
}

static nt_status take_steps(walk *w) {
    nt_status status = NT_OK;
    while (status == NT_OK && w->left[strspn(w->left, "/")]) {
        char name[NAME_MAX + 1];
        const char *begin = w->left + strspn(w->left, "/");
        size_t length = strcspn(begin, "/");
        if (length > NAME_MAX) {
            errno = ENAMETOOLONG;
            return nt__fail_from_errno("open", w->path);
        }
        memcpy(name, begin, length);
        name[length] = 0;
        status = step(w, name, begin + length);
    }
    return status;
}

/* Opens a folder, each step to it checked, and the folder itself as well. */
static nt_status open_folder(const char *path, int *folder) {
    walk w = {.path = path, .folder = -1};
    *folder = -1;
    if (snprintf(w.left, PATH_MAX, "%s", path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return nt__fail_from_errno("open", path);
    }
    nt_status status = start(&w, *path == '/' ? "/" : ".");
    if (status == NT_OK) status = take_steps(&w);
    if (status == NT_OK)
        *folder = w.folder;
    else if (w.folder >= 0)
        close(w.folder);
    return status;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static nt_status check_file(int file, const char *path) {
    struct stat info;
    if (fstat(file, &info) != 0) return nt__fail_from_errno("look at", path);
    if (!S_ISREG(info.st_mode)) return nt__fail_not_regular(path, info.st_mode);
    nt_status status = check_owner(file, path, &info);
    if (status != NT_OK || !others_may_write(&info)) return status;
    return nt__fail(NT_INVALID,
                    "others may write to '%s' (mode %03o), so it may be of their making: delete it and make it anew, "
                    "with a umask of 022 (chmod would keep what they wrote)",
                    path, (unsigned)info.st_mode & 07777);
}

nt_status nt__open_trusted(const char *path, int *file) {
    int folder = -1;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *parent = nt__folder_of(path);
    *file = -1;
    nt_status status = parent ? open_folder(parent, &folder) : NT_OUT_OF_MEMORY;
    nt__free(parent);
    if (status != NT_OK) return status;
    *file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int error = errno;
    close(folder);
    errno = error;
    if (*file < 0 && error == ELOOP)
        return nt__fail(NT_IO, "'%s' is a link, which is not followed here: name the file that it leads to", path);
    if (*file < 0) return nt__fail_from_errno("open", path);
    status = check_file(*file, path);
    if (status == NT_OK) return NT_OK;
    close(*file);
    *file = -1;
    return status;
}

nt_status nt__read_trusted(const char *path, size_t most, char **data, size_t *length) {
    int file;
    *data = NULL;
    *length = 0;
    nt_status status = nt__open_trusted(path, &file);
    return status == NT_OK ? nt__read_open(file, path, most, data, length) : status;
}

/* ---- folders ---------------------------------------------------------------------------------------------------- */

static nt_status check_private(int folder, const char *path) {
    struct stat info;
    if (fstat(folder, &info) != 0) return nt__fail_from_errno("look at", path);
    if (info.st_uid != geteuid())
        return nt__fail(NT_INVALID, "the folder '%s' belongs to user %ld and this is user %ld: name another one", path,
                        (long)info.st_uid, (long)geteuid());
    if (!others_may_write(&info)) return NT_OK;
    return nt__fail(NT_INVALID,
                    "others may write into the folder '%s' (mode %03o), so what is in it may be of their making: "
                    "delete it with all that it holds, and it is made anew (chmod would keep what they put there)",
                    path, (unsigned)info.st_mode & 07777);
}

/* What is wrong with the folder itself is told first: it is the one that can be deleted. */
nt_status nt__check_private_folder(const char *path) {
    int place = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), folder;
    if (place < 0) return nt__fail_from_errno("open the folder", path);
    nt_status status = check_private(place, path);
    close(place);
    if (status == NT_OK) status = open_folder(path, &folder);
    if (status != NT_OK) return status;
    status = check_private(folder, path);
    close(folder);
    return status;
}

nt_status nt__check_trusted_folder(const char *path) {
    int folder;
    nt_status status = open_folder(path, &folder);
    if (status == NT_OK) close(folder);
    return status;
}

/* ---- file systems that no code may be loaded from --------------------------------------------------------------- */

static const char *pretended;

void nt__pretend_noexec(const char *beginning) {
    pretended = beginning;
}

bool nt__is_noexec(const char *path) {
    struct statvfs info;
    if (pretended && strncmp(path, pretended, strlen(pretended)) == 0) return true;
    return statvfs(path, &info) == 0 && (info.f_flag & ST_NOEXEC);
}
