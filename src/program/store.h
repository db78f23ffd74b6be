/* What the cache asks of the disk, from any thread. A reset waits until no other call is under way: the cache makes
 * sure of that. */
#ifndef NT_PROGRAM_STORE_H
#define NT_PROGRAM_STORE_H

#include "disk/disk.h"
#include "program/program_internal.h"

/* What came of a look at the disk. */
typedef struct nt__store_result {
    nt__executable *executable; /* NULL: the program has to be compiled */
    bool refused;               /* there was one that could not be used */
    char why[NT__DISK_WHY];     /* "" when it was found, or when the disk was not asked */
} nt__store_result;

/* Looks for a program. Lines for a person are added to `notices`. */
nt_status nt__store_find(const nt__program *program, nt__store_result *out, nt__text *notices);
/* Keeps a program that was compiled in `seconds`. A disk that is full or cannot be written is a line for a person. */
nt_status nt__store_keep(const nt__program *program, const nt__executable *executable, double seconds,
                         nt__text *notices);
/* Learns from the disk which program was the last of the kind, unless this process knows. */
nt_status nt__store_recall(const nt__program *program);
/* Forgets the folder and what is known of it: the next use looks at the environment again. */
void nt__store_reset(void);

#endif
