/* Watching files by inode, size and time of change. The times say when to look; whether anything is compiled and
 * loaded is decided by contents.
 * Not here: compiling.
 */
#include "build/build.h"

#include <sys/stat.h>

struct timespec nt__watch_now(void) {
    struct timespec now;
    /* The coarse clock is the one that stamps files. */
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now;
}

struct timespec nt__watch_next(void) {
    const struct timespec before = nt__watch_now(), pause = {0, 500000};
    struct timespec now = before;
    while (now.tv_sec == before.tv_sec && now.tv_nsec == before.tv_nsec) {
        nanosleep(&pause, NULL);
        now = nt__watch_now();
    }
    return now;
}

bool nt__is_before(struct timespec a, struct timespec b) {
    return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}

static nt__watched look(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) return (nt__watched){.path = path};
    return (nt__watched){path, info.st_ino, info.st_size, info.st_ctim};
}

nt_status nt__watch_take(nt__watch *watch, const nt__words *files, struct timespec since) {
    nt__watch new = {.count = files->count};
    new.files = nt__arena_alloc(&new.arena, files->count + 1, sizeof *new.files);
    for (size_t i = 0; new.files &&i < files->count; i++) {
        const char *path = nt__arena_strdup(&new.arena, files->items[i]);
        if (!path) {
            nt__arena_free(&new.arena);
            return NT_OUT_OF_MEMORY;
        }
        new.files[i] = look(path);
        if (!nt__is_before(new.files[i].changed, since)) new.files[i].inode = 0;
    }
    if (!new.files) return NT_OUT_OF_MEMORY;
    nt__watch_free(watch);
    *watch = new;
    return NT_OK;
}

void nt__watch_again(nt__watch *watch) {
    for (size_t i = 0; i < watch->count; i++) watch->files[i] = look(watch->files[i].path);
}

static bool is_same(const nt__watched *a, const nt__watched *b) {
    return a->inode == b->inode && a->size == b->size && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

bool nt__watch_changed(const nt__watch *watch) {
    for (size_t i = 0; i < watch->count; i++) {
        nt__watched now = look(watch->files[i].path);
        if (!is_same(&watch->files[i], &now)) return true;
    }
    return false;
}

void nt__watch_free(nt__watch *watch) {
    nt__arena_free(&watch->arena);
    *watch = (nt__watch){0};
}
