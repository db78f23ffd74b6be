/* Many small cases, made from their numbers, of which one may end the process, as an engine's failed check does. They
 * run in a child, which goes from case to case; after one that ended it another child goes on. Include after cmocka.
 *
 *   program [--cases=N] [--first=F] [--only=I]     cases F to N - 1; N is the quick number; I: that case alone, here
 */
#ifndef NT_TESTS_GRAPH_GRID_H
#define NT_TESTS_GRAPH_GRID_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "traced.h"

typedef struct grid {
    size_t cases;                             /* the quick number */
    bool (*run)(size_t index);                /* in a child; prints what is wrong */
    void (*describe)(size_t index, FILE *to); /* one line, without its end */
} grid;

/* ---- numbers made from the number of a case --------------------------------------------------------------------- */

typedef struct grid_random {
    uint64_t state;
} grid_random;

/* Source: Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014. */
static inline uint64_t grid_next(grid_random *random) {
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline int64_t grid_from_to(grid_random *random, int64_t low, int64_t high) {
    return low + (int64_t)(grid_next(random) % (uint64_t)(high - low + 1));
}

static inline grid_random grid_begin(size_t index) {
    grid_random random = {(uint64_t)index * 1000003 + 17};
    grid_next(&random);
    return random;
}

/* ---- children --------------------------------------------------------------------------------------------------- */

typedef struct grid_event {
    size_t index;
    int state;
} grid_event;
enum { GRID_BEGUN, GRID_RIGHT, GRID_WRONG };

/* The child: the cases from `first` on, each told to the pipe before and after. */
static inline int grid_work(const grid *g, size_t first, size_t count, int pipe_end) {
    for (size_t i = first; i < count; i++) {
        grid_event event = {i, GRID_BEGUN};
        if (write(pipe_end, &event, sizeof event) != sizeof event) return 1;
        event.state = g->run(i) ? GRID_RIGHT : GRID_WRONG;
        if (write(pipe_end, &event, sizeof event) != sizeof event) return 1;
    }
    return nt__engine_close() == NT_OK ? 0 : 1;
}

static inline pid_t grid_start(const char *program, size_t first, size_t count, int *pipe_end) {
    int ends[2];
    if (pipe(ends)) return -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        char words[3][32];
        snprintf(words[0], sizeof words[0], "--child=%d", ends[1]);
        snprintf(words[1], sizeof words[1], "--first=%zu", first);
        snprintf(words[2], sizeof words[2], "--cases=%zu", count);
        close(ends[0]);
        execl("/proc/self/exe", program, words[0], words[1], words[2], (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *pipe_end = ends[0];
    return child;
}

static inline void grid_tell(const grid *g, size_t index, const char *what) {
    fprintf(stderr, "case %zu %s: ", index, what);
    g->describe(index, stderr);
    fprintf(stderr, "\n");
}

/* Runs a child to its end. The first case that is still to run; wrong ones are told and counted. */
static inline size_t grid_watch(const grid *g, const char *program, size_t first, size_t count, size_t *wrong) {
    int end = -1, status = 0;
    pid_t child = grid_start(program, first, count, &end);
    grid_event event;
    bool open = false;
    size_t next = first;
    while (child > 0 && read(end, &event, sizeof event) == sizeof event) {
        next = event.index + 1;
        open = event.state == GRID_BEGUN;
        if (event.state == GRID_WRONG) grid_tell(g, event.index, "is wrong");
        *wrong += event.state == GRID_WRONG;
    }
    if (child > 0) waitpid(child, &status, 0);
    close(end);
    if (open) grid_tell(g, next - 1, "ended the process");
    bool failed_between = !open && (child < 0 || status != 0);
    if (failed_between) fprintf(stderr, "the child from case %zu failed with status %d\n", first, status);
    *wrong += open || failed_between;
    return failed_between ? count : next;
}

static inline size_t grid_number(int argc, char **argv, const char *name, size_t otherwise) {
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0) return strtoull(argv[i] + length, NULL, 10);
    return otherwise;
}

static inline int grid_main(const grid *g, int argc, char **argv) {
    size_t count = grid_number(argc, argv, "--cases=", g->cases), none = SIZE_MAX, wrong = 0;
    size_t child = grid_number(argc, argv, "--child=", none), only = grid_number(argc, argv, "--only=", none);
    size_t first = grid_number(argc, argv, "--first=", 0);
    if (child != none) return grid_work(g, first, count, (int)child);
    if (only != none) {
        grid_tell(g, only, "runs");
        return g->run(only) ? 0 : 1;
    }
    for (size_t next = first; next < count;) next = grid_watch(g, argv[0], next, count, &wrong);
    printf("%zu cases, %zu wrong\n", count, wrong);
    return wrong ? 1 : 0;
}

#endif
