/* Compiled programs: what was compiled, what was reused, and what moved.
 *
 * The key of a program is its text: a handle traces its hooks when it is made, and a program whose text, compile
 * options and plugin are known is never compiled again in the process. Nothing that could change a program can be
 * missed, and nothing else compiles one. Other processes of the user find it on disk, in the folder `programs` below
 * NITRO_CACHE_DIR, else $XDG_CACHE_HOME/nitro, else ~/.cache/nitro, which must belong to the user and be writable for
 * nobody else; NITRO_CACHE_SIZE ("500MB", 2GiB unless set, 0 for no such cache) is what it may take.
 *
 * These calls may be made from any thread. Threads compile different programs at the same time; of two that need the
 * same one, one compiles and the other waits.
 */
#ifndef NITRO_CACHE_H
#define NITRO_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nt_cache_stats_t {
    uint64_t hits;         /* first uses of a program that the process had */
    uint64_t misses;       /* programs compiled */
    uint64_t disk_hits;    /* programs loaded from the disk */
    uint64_t disk_refused; /* of the misses: a program on disk could not be used; its report says why */
    uint64_t dropped;      /* programs let go because of the limit */
    uint64_t entries;      /* programs held */
    double compile_seconds, load_seconds;
} nt_cache_stats_t;
/* Counters of the process. */
nt_cache_stats_t nt_cache_stats(void);

/* One compiled program. */
typedef struct nt_cache_report_t {
    const char *program;    /* "gradient", "optimizer", "forward", "metrics" */
    const char *experiment; /* its name */
    const char *moved;      /* what differs from the last program of the same kind, also one of another process that is
                               on disk: "GraphConst hidden: 256 -> 512", or "first program of its kind" */
    const char *disk;       /* why a program on disk was not used: "the saved one is not used: its checksum is wrong";
                               "" when there was none */
    double seconds;
    bool dropped; /* let go because of the limit */
} nt_cache_report_t;
/* Report of the index-th miss of the process, 0 the first. NULL beyond the last. Valid until nt_cache_reset, of
 * whichever thread. */
const nt_cache_report_t *nt_cache_report(size_t index);

/* How many programs are held that no handle uses, 256 unless set; those used longest ago are dropped first. Programs of
 * handles do not count and stay. */
void nt_cache_set_limit(size_t programs);

/* Forgets all programs and sets the counters to 0, once no thread compiles one. Handles keep the programs they hold,
 * and the disk what is on it. */
void nt_cache_reset(void);

#ifdef __cplusplus
}
#endif

#endif
