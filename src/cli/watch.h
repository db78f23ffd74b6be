/* Files that may change: whether one of a list is another than it was. */
#ifndef NT_CLI_WATCH_H
#define NT_CLI_WATCH_H

#include <sys/types.h>
#include <time.h>

#include "cli/words.h"

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
