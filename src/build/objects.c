/* Compiled experiments on disk, shared by processes.
 *
 * <recipe>.files lists the files that the last build of a recipe read; <key>.so is an object. The key is the hash of
 * the recipe and of every listed name and content, so an object is right for as long as it is found: what the compiler
 * would read is what it read then. (A new header that would be found before one of the list is not seen until a listed
 * file changes.) Files are written beside and renamed; two processes may build the same object at once. An object ends
 * in the hash of the bytes before, which the dynamic loader does not look at: code that was changed on disk is not run.
 *
 * Not here: making objects (build.c).
 */
#include "build/build.h"
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the folder ------------------------------------------------------------------------------------------------- */

static nt_status prepare(const char *folder) {
    nt_status status = nt__make_private_folder(folder);
    if (status != NT_OK || access(folder, R_OK | W_OK | X_OK) == 0) return status;
    int error = errno;
    return nt__fail(NT_IO, "the folder '%s' cannot be used: %s%s", folder, strerror(error), nt__write_advice(error));
}

/* What is loaded lies in it, so a folder that others may write into is no place for it: out->why says so. One that
 * cannot be made or used is passed over, and out->why says so of the one that the user named for nitro. */
static nt_status judge(nt__objects *out, const char *folder, bool is_own, bool *usable) {
    nt_status status = prepare(folder);
    *usable = status == NT_OK;
    if (status == NT_OK || status == NT_OUT_OF_MEMORY) return status;
    if (status == NT_INVALID || is_own) {
        out->why = nt__strdup(nt_error_message());
        if (!out->why) return NT_OUT_OF_MEMORY;
    }
    nt__fail_nothing();
    return NT_OK;
}

/* Takes the folder below a path in the environment when it can be used; out->folder stays NULL when not. Only nitro's
 * own variable may hold a relative path: the others must not, by their specifications. */
static nt_status try_below(nt__objects *out, const char *variable, const char *below) {
    const char *base = getenv(variable);
    bool is_own = strcmp(variable, "NITRO_CACHE_DIR") == 0, usable = false;
    if (!base || !*base || (base[0] != '/' && !is_own)) return NT_OK;
    char *folder = nt__sprintf("%s/%s", base, below);
    nt_status status = folder ? judge(out, folder, is_own, &usable) : NT_OUT_OF_MEMORY;
    if (status == NT_OK && usable)
        out->folder = folder;
    else
        nt__free(folder);
    return status;
}

static nt_status open_temporary(nt__objects *out) {
    const char *parent = getenv("TMPDIR");
    if (!parent || !*parent) parent = P_tmpdir;
    out->temporary = true;
    nt_status trusted = nt__check_trusted_folder(parent);
    if (trusted == NT_INVALID)
        return nt__fail(trusted, "there is no folder to compile in: %s, and name it with TMPDIR", nt_error_message());
    out->folder = nt__sprintf("%s/nitro-XXXXXX", parent);
    if (!out->folder) return NT_OUT_OF_MEMORY;
    if (mkdtemp(out->folder)) return NT_OK;
    nt_status status =
        nt__fail(NT_IO, "there is no folder to compile in: '%s' cannot be made: %s", out->folder, strerror(errno));
    nt__free(out->folder);
    out->folder = NULL;
    return status;
}

nt_status nt__objects_open(nt__objects *out) {
    static const char *const places[][2] = {{"NITRO_CACHE_DIR", "experiments"},
                                            {"XDG_CACHE_HOME", "nitro/experiments"},
                                            {"HOME", ".cache/nitro/experiments"}};
    *out = (nt__objects){0};
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && !out->folder && !out->why && i < sizeof places / sizeof *places; i++)
        status = try_below(out, places[i][0], places[i][1]);
    if (status == NT_OK && !out->folder) status = open_temporary(out);
    if (status != NT_OK) nt__objects_close(out);
    return status;
}

void nt__objects_close(nt__objects *objects) {
    if (objects->temporary && objects->folder) nt__folder_remove(objects->folder);
    nt__free(objects->folder);
    nt__free(objects->why);
    *objects = (nt__objects){0};
}

nt_status nt__objects_workshop(const nt__objects *objects, char **path) {
    *path = nt__sprintf("%s/build-%ld-XXXXXX", objects->folder, (long)getpid());
    if (!*path) return NT_OUT_OF_MEMORY;
    if (mkdtemp(*path)) return NT_OK;
    nt_status status = nt__fail(NT_IO, "cannot make the folder '%s' to compile in: %s", *path, strerror(errno));
    nt__free(*path);
    *path = NULL;
    return status;
}

/* ---- finding and keeping ---------------------------------------------------------------------------------------- */

enum { MOST_BYTES = 1 << 30 }; /* of an object and of a list: more is none of nitro's */

static char *list_path(const nt__objects *objects, nt__recipe recipe) {
    char hex[33];
    nt__hash_hex(recipe, hex);
    return nt__sprintf("%s/%s.files", objects->folder, hex);
}

/* One name a line; the line ends become the ends of the words. */
static void split_lines(char *data, nt__words *lines) {
    for (char *line = data; *line;) {
        size_t length = strcspn(line, "\n");
        char *next = line[length] ? line + length + 1 : line + length;
        line[length] = 0;
        nt__words_add(lines, line);
        line = next;
    }
}

nt_status nt__objects_sources(const nt__objects *objects, nt__recipe recipe, char **data, nt__words *files) {
    size_t length;
    *data = NULL;
    char *path = list_path(objects, recipe);
    nt_status status = path ? nt__read_trusted(path, MOST_BYTES, data, &length) : NT_OUT_OF_MEMORY;
    nt__free(path);
    if (status == NT_OUT_OF_MEMORY || !*data) return status == NT_OUT_OF_MEMORY ? status : NT_OK;
    split_lines(*data, files);
    return files->failed ? NT_OUT_OF_MEMORY : NT_OK;
}

static nt_status add_content(const char *path, nt__text *key) {
    char *data, hex[33];
    size_t length;
    nt_status status = nt__read_file(path, &data, &length);
    if (status != NT_OK) return status;
    nt__hash_hex(nt__hash_bytes(data, length), hex);
    nt__free(data);
    nt__text_add(key, "%s %s\n", hex, path);
    return NT_OK;
}

nt_status nt__objects_path(const nt__objects *objects, nt__recipe recipe, const nt__words *files, char **path) {
    *path = NULL;
    char hex[33];
    nt__hash_hex(recipe, hex);
    nt__text key = {0};
    nt__text_add(&key, "%s\n", hex);
    nt_status status = NT_OK;
    for (size_t i = 0; i < files->count && status == NT_OK; i++) status = add_content(files->items[i], &key);
    if (key.failed) status = NT_OUT_OF_MEMORY;
    if (status == NT_OK) {
        nt__hash_hex(nt__hash_bytes(key.data, key.length), hex);
        *path = nt__sprintf("%s/%s.so", objects->folder, hex);
        if (!*path) status = NT_OUT_OF_MEMORY;
    }
    nt__text_free(&key);
    return status;
}

static nt_status keep_list(const nt__objects *objects, nt__recipe recipe, const nt__words *files) {
    nt__text list = {0};
    for (size_t i = 0; i < files->count; i++) nt__text_add(&list, "%s\n", files->items[i]);
    char *path = list_path(objects, recipe);
    nt_status status = NT_OUT_OF_MEMORY;
    if (path && !list.failed) status = nt__write_kept(path, &(nt__piece){list.data, list.length}, 1);
    nt__free(path);
    nt__text_free(&list);
    return status;
}

nt_status nt__objects_keep(const nt__objects *objects, nt__recipe recipe, const nt__words *files, const char *finished,
                           const char *path) {
    char *data;
    size_t length;
    nt_status status = nt__read_file(finished, &data, &length);
    if (status != NT_OK) return status;
    const nt__hash hash = nt__hash_bytes(data, length);
    status = nt__write_kept(path, (const nt__piece[]){{data, length}, {&hash, sizeof hash}}, 2);
    nt__free(data);
    return status == NT_OK ? keep_list(objects, recipe, files) : status;
}

nt_status nt__objects_check(const char *path, const char **wrong) {
    char *data;
    size_t length;
    nt__hash kept;
    nt_status status = nt__read_trusted(path, MOST_BYTES, &data, &length);
    if (status == NT_OUT_OF_MEMORY) return status;
    *wrong = status == NT_INVALID ? "may have been written by another user" : "was changed on disk";
    if (status != NT_OK) nt__fail_nothing();
    if (data && length > sizeof kept) {
        memcpy(&kept, data + length - sizeof kept, sizeof kept);
        if (nt__hash_equal(kept, nt__hash_bytes(data, length - sizeof kept))) *wrong = NULL;
    }
    nt__free(data);
    return NT_OK;
}

/* ---- tidying up ------------------------------------------------------------------------------------------------- */

enum { DAY = 24 * 3600, UNUSED_KEPT = 30 * DAY, UNFINISHED_KEPT = DAY, ORPHAN_KEPT = 600 }; /* seconds */

void nt__objects_touch(const char *path) {
    utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
}

static bool is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Calls `visit` for the path of each entry of a folder; how often it was true. Without memory for a path the entry is
 * left alone. */
static size_t for_each_entry(const char *path, bool (*visit)(const char *path)) {
    DIR *folder = opendir(path);
    struct dirent *entry;
    size_t count = 0;
    while (folder && (entry = readdir(folder))) {
        char *inner = is_dots(entry->d_name) ? NULL : nt__sprintf("%s/%s", path, entry->d_name);
        if (inner && visit(inner)) count++;
        nt__free(inner);
    }
    if (folder) closedir(folder);
    return count;
}

static bool remove_file(const char *path) {
    return unlink(path) == 0;
}

void nt__folder_remove(const char *path) {
    for_each_entry(path, remove_file);
    rmdir(path);
}

/* How long an entry may lie untouched. "build-<process>-XXXXXX" and "<object>.<process>-<number>-<time>.tmp" are
 * unfinished, and stay after when a build is killed. They are kept a while although their process is gone: it may be
 * one of another machine that shares the folder. */
static time_t time_kept(const char *path) {
    const char *name = strrchr(path, '/') + 1;
    bool is_workshop = strncmp(name, "build-", 6) == 0;
    bool is_unfinished = is_workshop || nt__ends_in(name, ".tmp");
    long process = 0;
    if (!is_unfinished) return UNUSED_KEPT;
    bool has_process = sscanf(name, is_workshop ? "build-%ld-" : "%*[^.].%*[^.].%ld-", &process) == 1 && process > 0;
    return has_process && kill((pid_t)process, 0) != 0 && errno == ESRCH ? ORPHAN_KEPT : UNFINISHED_KEPT;
}

static bool remove_when_old(const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0 || time(NULL) - info.st_mtime < time_kept(path)) return false;
    if (S_ISDIR(info.st_mode)) {
        nt__folder_remove(path);
        return true;
    }
    return remove_file(path);
}

/* A folder in it belongs to a build that is under way. */
size_t nt__objects_clear(const nt__objects *objects) {
    return for_each_entry(objects->folder, remove_file);
}

void nt__objects_prune(const nt__objects *objects) {
    for_each_entry(objects->folder, remove_when_old);
}
