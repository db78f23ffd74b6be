/* The process's cache of compiled programs, its counters, and the report of each compile. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "program/program_internal.h"

static struct {
    pthread_mutex_t lock;
    nt__entry **entries;
    size_t count, capacity;
    nt_cache_report_t **reports; /* in the arena: a report keeps its address */
    size_t report_count, report_capacity;
    nt__arena arena; /* texts of the reports */
    nt_cache_stats_t stats;
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- entries ---------------------------------------------------------------------------------------------------- */

static nt__entry *find_entry(nt__hash key) {
    for (size_t i = 0; i < cache.count; i++)
        if (nt__hash_equal(cache.entries[i]->key, key)) return cache.entries[i];
    return NULL;
}

static void release(nt__entry *entry) {
    if (!entry || --entry->references > 0) return;
    nt__executable_free(&entry->executable);
    nt__free(entry);
}

/* ---- a miss ----------------------------------------------------------------------------------------------------- */

static nt_status compile_entry(const nt__program *program, nt__entry **out) {
    char name[160];
    snprintf(name, sizeof name, "%s of %s", program->role, program->experiment);
    nt__signature signature = {program->arguments, program->printed.argument_count, program->results,
                               program->result_count};
    nt__entry *entry = nt__alloc(1, sizeof *entry);
    if (!entry) return NT_OUT_OF_MEMORY;
    nt_status status =
        nt__executable_compile(program->engine, name, program->printed.text.data, program->printed.text.length,
                               &signature, program->options, program->options_length, &entry->executable);
    if (status != NT_OK) {
        nt__free(entry);
        return nt__program_explain(program, status);
    }
    entry->key = program->key;
    entry->references = 1;
    *out = entry;
    return NT_OK;
}

/* Everything about a miss that can fail. What moved comes last, because finding it remembers the program. */
static bool make_report(const nt__program *program, double seconds, nt_cache_report_t **out, char **notice) {
    nt_cache_report_t *report;
    if (!(report = *out = nt__arena_alloc(&cache.arena, 1, sizeof *report))) return false;
    *report = (nt_cache_report_t){.program = nt__arena_strdup(&cache.arena, program->role),
                                  .experiment = nt__arena_strdup(&cache.arena, program->experiment),
                                  .seconds = seconds};
    if (!report->program || !report->experiment || !NT__GROW(cache.entries, cache.count, cache.capacity) ||
        !NT__GROW(cache.reports, cache.report_count, cache.report_capacity))
        return false;
    report->moved = nt__describe_move(program, &cache.arena);
    if (report->moved && !program->quiet)
        *notice = nt__sprintf("compiled %s of %s in %.2f s (%s); %llu programs, %.2f s in all", report->program,
                              report->experiment, seconds, report->moved, (unsigned long long)cache.stats.misses + 1,
                              cache.stats.compile_seconds + seconds);
    return report->moved && (program->quiet || *notice);
}

/* Compiles and counts, or does neither. *notice: a line for a person, or NULL. */
static nt_status miss(const nt__program *program, nt__entry **out, char **notice) {
    nt_cache_report_t *report;
    double start = nt__seconds();
    nt_status status = compile_entry(program, out);
    if (status != NT_OK) return status;
    if (!make_report(program, nt__seconds() - start, &report, notice)) {
        release(*out);
        return NT_OUT_OF_MEMORY;
    }
    cache.entries[cache.count++] = *out;
    cache.reports[cache.report_count++] = report;
    cache.stats.misses++;
    cache.stats.compile_seconds += report->seconds;
    return NT_OK;
}

static nt_status hit(const nt__program *program) {
    if (!nt__describe_remember(program)) return NT_OUT_OF_MEMORY;
    cache.stats.hits++;
    return NT_OK;
}

/* The lock is held over a compile: one process compiles one program at a time, and never the same one twice. The notice
 * goes out after it, so that the function that takes it may ask for the counters. */
nt_status nt__program_ready(nt__program *program) {
    if (program->entry) return NT_OK;
    char *notice = NULL;
    pthread_mutex_lock(&cache.lock);
    nt__entry *entry = find_entry(program->key);
    nt_status status = entry ? hit(program) : miss(program, &entry, &notice);
    if (status == NT_OK && entry) {
        entry->references++;
        program->entry = entry;
    }
    pthread_mutex_unlock(&cache.lock);
    if (notice) nt__notice("%s", notice);
    nt__free(notice);
    return status;
}

void nt__program_free(nt__program *program) {
    if (!program) return;
    pthread_mutex_lock(&cache.lock);
    release(program->entry);
    pthread_mutex_unlock(&cache.lock);
    nt__printed_free(&program->printed);
    nt__arena_free(&program->arena);
    nt__free(program->options);
    nt__free(program);
}

/* ---- looking at it ---------------------------------------------------------------------------------------------- */

nt_cache_stats_t nt_cache_stats(void) {
    pthread_mutex_lock(&cache.lock);
    nt_cache_stats_t stats = cache.stats;
    stats.entries = cache.count;
    pthread_mutex_unlock(&cache.lock);
    return stats;
}

const nt_cache_report_t *nt_cache_report(size_t index) {
    pthread_mutex_lock(&cache.lock);
    const nt_cache_report_t *found = index < cache.report_count ? cache.reports[index] : NULL;
    pthread_mutex_unlock(&cache.lock);
    return found;
}

void nt_cache_reset(void) {
    pthread_mutex_lock(&cache.lock);
    for (size_t i = 0; i < cache.count; i++) release(cache.entries[i]);
    nt__free(cache.entries);
    nt__free(cache.reports);
    nt__arena_free(&cache.arena);
    cache.entries = NULL;
    cache.reports = NULL;
    cache.count = cache.capacity = cache.report_count = cache.report_capacity = 0;
    cache.stats = (nt_cache_stats_t){0};
    nt__descriptions_reset();
    pthread_mutex_unlock(&cache.lock);
}
