/* Experiments from source files: compiled, kept, loaded. */
#ifndef NT_BUILD_BUILD_H
#define NT_BUILD_BUILD_H

#include <sys/types.h>
#include <time.h>

#include "base/words.h"

typedef struct nt__build_request {
    const char *const *files;
    size_t file_count;
    const char *cflags, *ldflags; /* more flags as one text each; NULL: none */
    const char *loaded;           /* an object that is not loaded again; NULL: none */
} nt__build_request;

typedef struct nt__built {
    char *object;                         /* its path; other contents have another one */
    nt__words files;                      /* everything that the compiler read, the linker's files among them */
    bool loaded;                          /* false: it is the object that was loaded already */
    double compile_seconds, load_seconds; /* 0: found compiled; not loaded */
    nt__arena arena;
} nt__built;

/* Makes one shared object of the files, or finds the one that was made of the same contents, and loads it: its
 * experiments are registered afterwards. It stays loaded until the process ends. What the compiler says goes to
 * standard error. The caller frees what was built; after a failure there is nothing to free. */
nt_status nt__build(const nt__build_request *request, nt__built *out);
void nt__built_free(nt__built *built);
/* Adds the source files that a run keeps: the ones that were given, and headers that lie in their folders or below. */
nt_status nt__built_sources(const nt__built *built, const nt__words *given, nt__words *out);

/* ---- compiled experiments (objects.c, dependencies.c) ----------------------------------------------------------- */

/* Folder of the compiled experiments. */
typedef struct nt__objects {
    char *folder;
    bool temporary; /* no folder of the user's could be had; this one goes away when it is closed */
    char *why;      /* why the folder that comes first was refused; NULL: it was not */
} nt__objects;

/* $NITRO_CACHE_DIR/experiments, else $XDG_CACHE_HOME/nitro/experiments, else ~/.cache/nitro/experiments, else a new
 * temporary folder; that one also in place of the first of these that others may write into, and of a NITRO_CACHE_DIR
 * that cannot be used. */
nt_status nt__objects_open(nt__objects *out);
void nt__objects_close(nt__objects *objects);

/* What a build is asked for, the contents of files aside: compiler, flags, names and order of the files. */
typedef nt__hash nt__recipe;

/* The files that the last build of the recipe was made of; *data is NULL when there was none or it cannot be read.
 * `files` points into *data, which the caller frees. */
nt_status nt__objects_sources(const nt__objects *objects, nt__recipe recipe, char **data, nt__words *files);
/* Path of the object that the recipe makes of these files as they are now. The caller frees it. NT_NOT_FOUND or NT_IO:
 * one of the files cannot be read. */
nt_status nt__objects_path(const nt__objects *objects, nt__recipe recipe, const nt__words *files, char **path);
/* Keeps a finished object under its path, and the list of files for the recipe. */
nt_status nt__objects_keep(const nt__objects *objects, nt__recipe recipe, const nt__words *files, const char *finished,
                           const char *path);
/* *wrong is NULL when every byte of a kept object is as it was kept and nobody else could have written it; else what is
 * wrong. Short memory is the only failure. */
nt_status nt__objects_check(const char *path, const char **wrong);
/* Notes that the object was used today. */
void nt__objects_touch(const char *path);
/* Deletes what nobody used for 30 days, and what builds left that were killed: after ten minutes when the process is
 * gone, else after a day. */
void nt__objects_prune(const nt__objects *objects);

/* Deletes all objects and lists; how many files. */
size_t nt__objects_clear(const nt__objects *objects);

/* A new folder to build in, below the folder of the objects. The caller frees the path and removes the folder. */
nt_status nt__objects_workshop(const nt__objects *objects, char **path);
/* Removes a folder and the files in it; folders inside it stay. */
void nt__folder_remove(const char *path);

/* The files that a dependency list (as compilers and linkers write it for make) has for its first target. */
nt_status nt__dependencies_read(nt__arena *arena, const char *path, nt__words *files);

/* ---- files that change (watch.c) -------------------------------------------------------------------------------- */

typedef struct nt__watched {
    const char *path;
    ino_t inode; /* 0: the file was not there, or not at rest */
    off_t size;
    struct timespec changed;
} nt__watched;

typedef struct nt__watch {
    nt__arena arena;
    nt__watched *files;
    size_t count;
} nt__watch;

/* The time that files are stamped with now: for nt__watch_take. */
struct timespec nt__watch_now(void);
/* Waits a few milliseconds for the next such time: all files that are there have an earlier one. */
struct timespec nt__watch_next(void);
bool nt__is_before(struct timespec a, struct timespec b);
/* Takes the place of what was watched before. A file that changed after `since`, when its content was read, counts as
 * changed. After a failure (short memory) the former list is kept. */
nt_status nt__watch_take(nt__watch *watch, const nt__words *files, struct timespec since);
/* Looks at the same files again. */
void nt__watch_again(nt__watch *watch);
bool nt__watch_changed(const nt__watch *watch);
void nt__watch_free(nt__watch *watch);

#endif
