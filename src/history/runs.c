/* The folders of runs below a folder.
 * Not here: what a run has in it.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "history/history.h"
#include "base/files.h"

enum { MOST_LEVELS = 4 };

/* What a run leaves beside or without metrics.jsonl: other logs, checkpoints, parameters. */
static bool is_left_by_run(const char *name) {
    static const char *const names[] = {"metrics.csv", "checkpoints.json", "parameters.safetensors"};
    static const char events[] = "events.out.tfevents.";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return strncmp(name, events, sizeof events - 1) == 0;
}

static bool is_file(int directory, const char *name, struct stat *info) {
    return fstatat(directory, name, info, 0) == 0 && S_ISREG(info->st_mode);
}

static bool is_later(const struct stat *a, const struct stat *b) {
    return a->st_mtim.tv_sec != b->st_mtim.tv_sec ? a->st_mtim.tv_sec > b->st_mtim.tv_sec
                                                  : a->st_mtim.tv_nsec > b->st_mtim.tv_nsec;
}

/* The newest of the files that tell of a run without a log. */
static bool find_traces(DIR *directory, struct stat *out) {
    const struct dirent *entry;
    struct stat info;
    bool found = false;
    while ((entry = readdir(directory))) {
        if (!is_left_by_run(entry->d_name) || !is_file(dirfd(directory), entry->d_name, &info)) continue;
        if (!found || is_later(&info, out)) *out = info;
        found = true;
    }
    return found;
}

/* A folder with nothing of a run is none, and no failure. */
static nt_status add_run(const char *folder, nt__run_folders *out) {
    struct stat info;
    DIR *directory = opendir(folder);
    if (!directory) return NT_OK;
    bool has_log = is_file(dirfd(directory), "metrics.jsonl", &info);
    bool is_run = has_log || find_traces(directory, &info);
    closedir(directory);
    if (!is_run) return NT_OK;
    if (!NT__GROW(out->items, out->count, out->capacity)) return NT_OUT_OF_MEMORY;
    char *path = nt__strdup(folder);
    if (!path) return NT_OUT_OF_MEMORY;
    out->items[out->count++] =
        (nt__run_folder){path, (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec, has_log};
    return NT_OK;
}

static nt_status find(const char *folder, int levels, nt__run_folders *out);

static nt_status find_below(const char *folder, DIR *directory, int levels, nt__run_folders *out) {
    nt_status status = NT_OK;
    const struct dirent *entry;
    while (status == NT_OK && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.') continue;
        char *path = nt__sprintf("%s/%s", folder, entry->d_name);
        if (!path) return NT_OUT_OF_MEMORY;
        struct stat info;
        if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode)) status = find(path, levels - 1, out);
        nt__free(path);
    }
    return status;
}

/* A folder that may not be looked into has no runs. */
static nt_status find(const char *folder, int levels, nt__run_folders *out) {
    nt_status status = add_run(folder, out);
    DIR *directory = status == NT_OK && levels > 0 ? opendir(folder) : NULL;
    if (!directory) return status;
    status = find_below(folder, directory, levels, out);
    closedir(directory);
    return status;
}

static int newest_first(const void *a, const void *b) {
    const nt__run_folder *x = a, *y = b;
    if (x->changed != y->changed) return x->changed < y->changed ? 1 : -1;
    return strcmp(x->path, y->path);
}

nt_status nt__run_folders_find(const char *folder, nt__run_folders *out) {
    *out = (nt__run_folders){0};
    if (!nt__is_folder(folder))
        return nt__fail(NT_NOT_FOUND, "there is no folder '%s': nitro train makes runs/, or name another folder",
                        folder);
    nt_status status = find(folder, MOST_LEVELS, out);
    if (status == NT_OK && out->count) qsort(out->items, out->count, sizeof *out->items, newest_first);
    return status;
}

void nt__run_folders_free(nt__run_folders *folders) {
    for (size_t i = 0; i < folders->count; i++) nt__free(folders->items[i].path);
    nt__free(folders->items);
    *folders = (nt__run_folders){0};
}
