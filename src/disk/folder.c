/* The folder of compiled programs: where it is, who may use it, how large it gets, and what ended processes left there.
 * Not here: what is in a program's file.
 */
#include "disk/disk.h"
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char mark_ending[] = ".loading", half_ending[] = ".tmp";
enum { HALF_WRITTEN_SECONDS = 3600 };

/* ---- the limit -------------------------------------------------------------------------------------------------- */

static const uint64_t usual_limit = (uint64_t)2 << 30;

static const struct {
    const char *name;
    double bytes;
} units[] = {
    {"", 1},         {"B", 1},      {"K", 0x1p10},   {"KiB", 0x1p10}, {"kB", 1e3},
    {"KB", 1e3},     {"M", 0x1p20}, {"MiB", 0x1p20}, {"MB", 1e6},     {"G", 0x1p30},
    {"GiB", 0x1p30}, {"GB", 1e9},   {"T", 0x1p40},   {"TiB", 0x1p40}, {"TB", 1e12},
};

/* "500MB", "2 GiB", "0". */
static bool read_size(const char *text, uint64_t *out) {
    char *end;
    double number = nt__read_double(text, &end);
    if (end == text || !isfinite(number) || number < 0) return false;
    end += strspn(end, " ");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) != 0) continue;
        *out = number * units[i].bytes < 0x1p62 ? (uint64_t)(number * units[i].bytes) : (uint64_t)1 << 62;
        return true;
    }
    return false;
}

size_t nt__disk_most(const nt__disk *disk) {
    return (size_t)(disk->limit > usual_limit ? disk->limit : usual_limit);
}

static void find_limit(nt__disk *disk) {
    const char *given = getenv("NITRO_CACHE_SIZE");
    disk->limit = usual_limit;
    if (!given || !*given) return;
    if (!read_size(given, &disk->limit))
        snprintf(disk->why, sizeof disk->why,
                 "NITRO_CACHE_SIZE is '%.100s', which is no size: write a number and a unit, as in 500MB or 2GiB",
                 given);
    disk->is_unwanted = !*disk->why && disk->limit == 0;
    if (disk->is_unwanted) snprintf(disk->why, sizeof disk->why, "NITRO_CACHE_SIZE is 0");
}

/* ---- the place -------------------------------------------------------------------------------------------------- */

static const char no_place[] = "no folder is named for it: set NITRO_CACHE_DIR, XDG_CACHE_HOME or HOME";

/* NULL when no variable names a folder, or when memory is short. */
static char *find_place(bool *named) {
    const char *own = getenv("NITRO_CACHE_DIR"), *caches = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    *named = true;
    if (own && *own) return nt__sprintf("%s/programs", own);
    if (caches && *caches == '/') return nt__sprintf("%s/nitro/programs", caches);
    if (home && *home == '/') return nt__sprintf("%s/.cache/nitro/programs", home);
    *named = false;
    return NULL;
}

static void give_up(nt__disk *disk, const char *why) {
    snprintf(disk->why, sizeof disk->why, "%s", why);
    nt__free(disk->folder);
    disk->folder = NULL;
}

/* What can be executed lies in it: nobody else may put anything there. */
static nt_status use_place(bool make, nt__disk *disk) {
    nt_status status = make ? nt__make_private_folder(disk->folder) : NT_OK;
    if (!make && access(disk->folder, F_OK) == 0 && !nt__is_folder(disk->folder))
        status = nt__fail(NT_IO, "'%s' is no folder; remove it or choose another place", disk->folder);
    if (status == NT_OK && nt__is_folder(disk->folder)) status = nt__check_private_folder(disk->folder);
    if (status == NT_OK && nt__is_folder(disk->folder) && access(disk->folder, R_OK | X_OK) != 0)
        status = nt__fail(NT_IO, "cannot read the folder '%s': %s", disk->folder, strerror(errno));
    if (status == NT_OK || status == NT_OUT_OF_MEMORY) return status;
    give_up(disk, nt_error_message());
    nt__fail_nothing();
    return NT_OK;
}

static nt_status recover(const nt__disk *disk);

nt_status nt__disk_open(bool make, nt__disk *out) {
    bool named;
    *out = (nt__disk){0};
    find_limit(out);
    /* Who only looks sees the folder of a cache that is not wanted, too. */
    if (*out->why && (make || !out->is_unwanted)) return NT_OK;
    out->folder = find_place(&named);
    if (!named) give_up(out, no_place);
    if (!out->folder) return named ? NT_OUT_OF_MEMORY : NT_OK;
    nt_status status = use_place(make, out);
    if (status == NT_OK && make && out->folder) status = recover(out);
    if (status != NT_OK) nt__disk_close(out);
    return status;
}

void nt__disk_close(nt__disk *disk) {
    nt__free(disk->folder);
    *disk = (nt__disk){0};
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static bool is_ours(const char *name) {
    static const char *const endings[] = {".program", ".plugin", ".last", ".loading", ".tmp"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (nt__ends_in(name, endings[i])) return true;
    return false;
}

/* False: it is too long, which no name of ours is, once the folder is a usual one. */
static bool path_of(const nt__disk *disk, const char *name, char out[PATH_MAX]) {
    return snprintf(out, PATH_MAX, "%s/%s", disk->folder, name) < PATH_MAX;
}

bool nt__disk_remove(const nt__disk *disk, const char *name) {
    char path[PATH_MAX];
    return path_of(disk, name, path) && unlink(path) == 0;
}

void nt__disk_touch(const nt__disk *disk, const char *name) {
    char path[PATH_MAX];
    if (path_of(disk, name, path)) utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
}

/* False: it is gone, or no regular file. */
static bool describe(const nt__disk *disk, const char *name, nt__disk_file *out) {
    char path[PATH_MAX];
    struct stat info;
    if (strlen(name) >= sizeof out->name || !path_of(disk, name, path)) return false;
    if (lstat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    *out =
        (nt__disk_file){.bytes = (uint64_t)info.st_size, .used = info.st_mtim.tv_sec, .used_ns = info.st_mtim.tv_nsec};
    snprintf(out->name, sizeof out->name, "%s", name);
    return true;
}

static int newest_first(const void *a, const void *b) {
    const nt__disk_file *left = a, *right = b;
    if (left->used != right->used) return left->used < right->used ? 1 : -1;
    if (left->used_ns != right->used_ns) return left->used_ns < right->used_ns ? 1 : -1;
    return strcmp(left->name, right->name);
}

nt_status nt__disk_files(const nt__disk *disk, const char *ending, nt__disk_file **files, size_t *count) {
    size_t capacity = 0;
    bool short_of_memory = false;
    DIR *folder = opendir(disk->folder);
    *files = NULL;
    *count = 0;
    for (struct dirent *entry; folder && !short_of_memory && (entry = readdir(folder));) {
        if (!is_ours(entry->d_name) || (ending && !nt__ends_in(entry->d_name, ending))) continue;
        short_of_memory = !NT__GROW(*files, *count, capacity);
        if (!short_of_memory && describe(disk, entry->d_name, &(*files)[*count])) ++*count;
    }
    if (folder) closedir(folder);
    if (*count) qsort(*files, *count, sizeof **files, newest_first);
    if (!short_of_memory) return NT_OK;
    nt__free(*files);
    *files = NULL;
    *count = 0;
    return NT_OUT_OF_MEMORY;
}

/* A file that is being written counts and is left alone. */
nt_status nt__disk_shrink(const nt__disk *disk) {
    nt__disk_file *files;
    size_t count;
    uint64_t kept = 0;
    nt_status status = nt__disk_files(disk, NULL, &files, &count);
    int64_t now = (int64_t)time(NULL);
    for (size_t i = 0; i < count; i++) {
        bool is_half = nt__ends_in(files[i].name, half_ending), is_mark = nt__ends_in(files[i].name, mark_ending);
        bool is_old = now - files[i].used > HALF_WRITTEN_SECONDS;
        bool goes = is_half ? is_old : !is_mark && kept + files[i].bytes > disk->limit;
        if (!goes || !nt__disk_remove(disk, files[i].name)) kept += files[i].bytes;
    }
    nt__free(files);
    return status;
}

/* ---- small files ------------------------------------------------------------------------------------------------ */

nt_status nt__disk_get(const nt__disk *disk, const char *name, char **data, size_t *length) {
    char path[PATH_MAX], *file = NULL;
    nt__hash wanted;
    size_t bytes = 0;
    *data = NULL;
    *length = 0;
    nt_status status =
        path_of(disk, name, path) ? nt__read_trusted(path, nt__disk_most(disk), &file, &bytes) : NT_NOT_FOUND;
    if (status == NT_OUT_OF_MEMORY) return status;
    if (status != NT_OK) nt__fail_nothing();
    bool whole = file && bytes >= sizeof wanted;
    if (whole) {
        memcpy(&wanted, file, sizeof wanted);
        whole = nt__hash_equal(wanted, nt__hash_bytes(file + sizeof wanted, bytes - sizeof wanted));
    }
    if (whole) {
        *length = bytes - sizeof wanted;
        memmove(file, file + sizeof wanted, *length + 1);
        *data = file;
    } else {
        nt__free(file);
    }
    return NT_OK;
}

nt_status nt__disk_put(const nt__disk *disk, const char *name, const void *data, size_t length) {
    char path[PATH_MAX];
    nt__hash hash = nt__hash_bytes(data, length);
    nt__piece pieces[] = {{&hash, sizeof hash}, {data, length}};
    if (!path_of(disk, name, path)) return NT_OK;
    nt_status status = nt__write_kept(path, pieces, 2);
    if (status == NT_OUT_OF_MEMORY) return status;
    if (status != NT_OK) nt__fail_nothing();
    return NT_OK;
}

/* ---- processes that ended while they loaded a program ----------------------------------------------------------- */

/* The lock tells a living process from one that ended: the system gives it back with the process. The program's name is
 * written when the lock is held, so that a mark without a name blames nobody. */
void nt__disk_guard_begin(const nt__disk *disk, const char *program, nt__disk_guard *guard) {
    static atomic_uint counter;
    char path[PATH_MAX];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(guard->name, sizeof guard->name, "%ld-%ld-%u%s", (long)getpid(), now.tv_nsec,
             atomic_fetch_add(&counter, 1), mark_ending);
    guard->file =
        path_of(disk, guard->name, path) ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    if (guard->file < 0) return;
    bool marked = flock(guard->file, LOCK_EX | LOCK_NB) == 0 &&
                  write(guard->file, program, strlen(program)) == (ssize_t)strlen(program);
    if (!marked) nt__disk_guard_end(disk, guard);
}

void nt__disk_guard_end(const nt__disk *disk, nt__disk_guard *guard) {
    if (guard->file < 0) return;
    nt__disk_remove(disk, guard->name);
    close(guard->file);
    guard->file = -1;
}

/* The program that a mark blames; "" for none. */
static void read_mark(int file, char out[NT__DISK_NAME]) {
    ssize_t length = read(file, out, NT__DISK_NAME - 1);
    out[length > 0 ? length : 0] = 0;
    if (strchr(out, '/') || !nt__ends_in(out, nt__disk_program_ending)) *out = 0;
}

static void look_at_mark(const nt__disk *disk, const nt__disk_file *mark) {
    char path[PATH_MAX], program[NT__DISK_NAME];
    int file;
    if (!path_of(disk, mark->name, path) || nt__open_trusted(path, &file) != NT_OK) {
        nt__fail_nothing();
        return;
    }
    if (flock(file, LOCK_EX | LOCK_NB) == 0) {
        read_mark(file, program);
        if (*program) nt__disk_remove(disk, program);
        bool is_old = (int64_t)time(NULL) - mark->used > HALF_WRITTEN_SECONDS;
        if (*program || is_old) nt__disk_remove(disk, mark->name);
    }
    close(file);
}

static nt_status recover(const nt__disk *disk) {
    nt__disk_file *marks;
    size_t count;
    nt_status status = nt__disk_files(disk, mark_ending, &marks, &count);
    for (size_t i = 0; i < count; i++) look_at_mark(disk, &marks[i]);
    nt__free(marks);
    return status;
}
