/* Compiled programs on disk, shared by processes: one file each, found by the content of the program and by what
 * compiled it. Not here: what is looked up when, and what an engine does with the bytes.
 */
#ifndef NT_DISK_DISK_H
#define NT_DISK_DISK_H

#include "base/base.h"

/* ---- the folder (folder.c) -------------------------------------------------------------------------------------- */

enum { NT__DISK_WHY = 640 };

typedef struct nt__disk {
    char *folder;           /* NULL: none is used, */
    bool is_unwanted;       /* because the user said so, */
    char why[NT__DISK_WHY]; /* for this reason */
    uint64_t limit;         /* bytes of all files */
} nt__disk;

/* The folder `programs` below NITRO_CACHE_DIR, else $XDG_CACHE_HOME/nitro, else ~/.cache/nitro; the limit is
 * NITRO_CACHE_SIZE, else 2 GiB, and 0 is no cache. `make`: for use, so it is made when it is not there, and what ended
 * processes left in it is removed. A folder that cannot be used is no failure: out->why says why. */
nt_status nt__disk_open(bool make, nt__disk *out);
void nt__disk_close(nt__disk *disk);

enum { NT__DISK_NAME = 96 };
static const char nt__disk_program_ending[] = ".program";

typedef struct nt__disk_file {
    char name[NT__DISK_NAME];
    uint64_t bytes;
    int64_t used, used_ns; /* since 1970 */
} nt__disk_file;
/* The files that nitro made in the folder and whose names end so, the one used last first; `ending` NULL: all. Free
 * *files with nt__free. */
nt_status nt__disk_files(const nt__disk *disk, const char *ending, nt__disk_file **files, size_t *count);
/* Removes the files that were used longest ago until the others are within the limit, and what was left half-written
 * more than an hour ago. */
nt_status nt__disk_shrink(const nt__disk *disk);
/* The most bytes that a file is read of: who lowers the limit still reads what is there. */
size_t nt__disk_most(const nt__disk *disk);
bool nt__disk_remove(const nt__disk *disk, const char *name);
/* Notes that a file was used now. */
void nt__disk_touch(const nt__disk *disk, const char *name);

/* A small file with a checksum in front. Reading: *data is NULL when there is none, or it is damaged; free it with
 * nt__free. Writing: a failure but for short memory changes nothing. */
nt_status nt__disk_get(const nt__disk *disk, const char *name, char **data, size_t *length);
nt_status nt__disk_put(const nt__disk *disk, const char *name, const void *data, size_t length);

/* A process that the engine ends while it loads a program leaves a mark, and the next one that opens the folder removes
 * that program. */
typedef struct nt__disk_guard {
    int file; /* -1: none */
    char name[NT__DISK_NAME];
} nt__disk_guard;
void nt__disk_guard_begin(const nt__disk *disk, const char *program, nt__disk_guard *guard);
void nt__disk_guard_end(const nt__disk *disk, nt__disk_guard *guard);

/* ---- what compiled a program (environment.c) -------------------------------------------------------------------- */

typedef struct nt__environment {
    nt__hash plugin;    /* of the file's content */
    nt__hash processor; /* of its model and features */
    nt__hash flags;     /* of XLA_FLAGS */
} nt__environment;
/* The plugin's hash is remembered in the folder by device, number, size and times of the file. */
nt_status nt__environment_find(const nt__disk *disk, const char *plugin_path, nt__environment *out);

/* ---- programs (disk.c) ------------------------------------------------------------------------------------------ */

typedef struct nt__disk_key {
    nt__hash content; /* of text and compile options */
    nt__environment environment;
} nt__disk_key;
/* The name of a program's file. */
void nt__disk_name(const nt__disk_key *key, char out[NT__DISK_NAME]);

/* What a file says of its program. The texts lie in `data`. */
typedef struct nt__disk_program {
    char *data; /* the whole file; free it with nt__free */
    const char *program, *experiment, *plugin;
    double seconds; /* that compiling took */
    int64_t made;   /* since 1970 */
    const uint8_t *bytes;
    size_t length;
} nt__disk_program;

typedef enum nt__disk_answer { NT__DISK_FOUND, NT__DISK_ABSENT, NT__DISK_REFUSED } nt__disk_answer;
/* Reads a program and checks every byte of its file. REFUSED: there is one that cannot be used, or one of another
 * plugin, processor or format; `why` says. */
nt_status nt__disk_read(const nt__disk *disk, const nt__disk_key *key, nt__disk_program *out, nt__disk_answer *answer,
                        char why[NT__DISK_WHY]);
/* Reads whichever program is in a file, checked in the same way; out->data is NULL when it is damaged. */
nt_status nt__disk_look(const nt__disk *disk, const char *name, nt__disk_program *out);
/* Writes `program` with its texts and bytes. NT_INVALID: it is larger than the limit. */
nt_status nt__disk_write(const nt__disk *disk, const nt__disk_key *key, const nt__disk_program *program);

#endif
