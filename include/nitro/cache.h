/* Compiled programs: what was compiled, what was reused, and what moved.
 *
 * The key of a program is its text: a handle traces its hooks when it is made, and a program whose text, compile
 * options and plugin are known is never compiled again in the process. Nothing that could change a program can be
 * missed, and nothing else compiles one.
 */
#ifndef NITRO_CACHE_H
#define NITRO_CACHE_H

#include <stddef.h>
#include <stdint.h>

typedef struct nt_cache_stats_t {
    uint64_t hits, misses, disk_hits, entries;
    double compile_seconds;
} nt_cache_stats_t;
/* Counters of the process. misses = programs compiled, entries = programs held. */
nt_cache_stats_t nt_cache_stats(void);

/* One compiled program. */
typedef struct nt_cache_report_t {
    const char *program;    /* "gradient", "optimizer", "forward", "metrics" */
    const char *experiment; /* its name */
    const char *moved;      /* what differs from the last program of the same kind: "GraphConst hidden: 256 -> 512", or
                               "first program of its kind" */
    double seconds;
} nt_cache_report_t;
/* Report of the index-th miss of the process, 0 the first. NULL beyond the last. Valid until nt_cache_reset. */
const nt_cache_report_t *nt_cache_report(size_t index);

/* Forgets all programs and sets the counters to 0. Handles keep the programs they hold. */
void nt_cache_reset(void);

#endif
