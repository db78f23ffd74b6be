/* Compiled experiments on disk: found again by the content of everything they were made of. */
#ifndef NT_CLI_OBJECTS_H
#define NT_CLI_OBJECTS_H

#include "cli/words.h"

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

#endif
