/* The process's cache of compiled programs, its limit, its counters, and the report of each compile. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "program/program_internal.h"
#include "base/files.h"
#include "program/store.h"

enum { USUAL_LIMIT = 256 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t made; /* an entry that was being made is ready, or gone */
    nt__entry **entries;
    size_t count, capacity;
    size_t making; /* of the entries */
    size_t limit;  /* of entries that no program holds */
    uint64_t clock;
    bool told_of_limit;
    nt_cache_report_t **reports; /* in the arena: a report keeps its address */
    size_t report_count, report_capacity;
    nt__arena arena; /* texts of the reports */
    nt_cache_stats_t stats;
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER, .made = PTHREAD_COND_INITIALIZER, .limit = USUAL_LIMIT};

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

/* ---- the limit -------------------------------------------------------------------------------------------------- */

static bool is_unheld(const nt__entry *entry) {
    return entry->references == 1 && !entry->is_made_now;
}

/* The entry that was used longest ago of those that no program holds. */
static size_t oldest_unheld(size_t *unheld) {
    size_t oldest = cache.count;
    *unheld = 0;
    for (size_t i = 0; i < cache.count; i++) {
        if (!is_unheld(cache.entries[i])) continue;
        ++*unheld;
        if (oldest == cache.count || cache.entries[i]->used < cache.entries[oldest]->used) oldest = i;
    }
    return oldest;
}

static void tell_of_limit(const nt__entry *entry, nt__text *notices) {
    const nt_cache_report_t *report = entry->report;
    if (cache.told_of_limit || !notices) return;
    cache.told_of_limit = true;
    nt__text_add(notices,
                 "%zu compiled programs are held that no run uses, as many as the limit: those used longest ago "
                 "are dropped, first %s of %s (%s)\n",
                 cache.limit, report ? report->program : "one", report ? report->experiment : "the disk's",
                 report ? report->moved : "it was loaded");
}

/* Takes an entry out of the list. */
static void forget(const nt__entry *entry) {
    size_t index = 0;
    while (cache.entries[index] != entry) index++;
    cache.count--;
    for (size_t i = index; i < cache.count; i++) cache.entries[i] = cache.entries[i + 1];
}

static void drop(nt__entry *entry) {
    if (entry->report) entry->report->dropped = true;
    forget(entry);
    cache.stats.dropped++;
    release(entry);
}

/* `notices` NULL: nobody is told. */
static void keep_within_limit(nt__text *notices) {
    size_t unheld, oldest;
    while (oldest = oldest_unheld(&unheld), unheld > cache.limit) {
        tell_of_limit(cache.entries[oldest], notices);
        drop(cache.entries[oldest]);
    }
}

void nt_cache_set_limit(size_t programs) {
    pthread_mutex_lock(&cache.lock);
    cache.limit = programs;
    keep_within_limit(NULL);
    pthread_mutex_unlock(&cache.lock);
}

/* ---- a compile -------------------------------------------------------------------------------------------------- */

static nt_status compile_program(const nt__program *program, nt__executable **out) {
    char name[160];
    snprintf(name, sizeof name, "%s of %s", program->role, program->experiment);
    nt__signature signature = nt__program_signature(program);
    nt_status status =
        nt__executable_compile(program->engine, name, program->printed.text.data, program->printed.text.length,
                               &signature, program->options, program->options_length, out);
    return status == NT_OK ? NT_OK : nt__program_explain(program, status);
}

static void add_notice(const nt_cache_report_t *report, nt__text *notices) {
    const char *between = *report->disk ? "; on disk: " : "";
    unsigned long long count = cache.stats.misses + 1;
    nt__text_add(notices, "compiled %s of %s in %.2f s (%s%s%s); %llu program%s, %.2f s in all\n", report->program,
                 report->experiment, report->seconds, report->moved, between, report->disk, count,
                 count == 1 ? "" : "s", cache.stats.compile_seconds + report->seconds);
}

/* What can fail of a report. What moved comes last, because finding it remembers the program. */
static bool make_report(const nt__program *program, double seconds, const nt__store_result *looked,
                        nt_cache_report_t **out) {
    nt_cache_report_t *report;
    if (!(report = *out = nt__arena_alloc(&cache.arena, 1, sizeof *report))) return false;
    *report = (nt_cache_report_t){.program = nt__arena_strdup(&cache.arena, program->role),
                                  .experiment = nt__arena_strdup(&cache.arena, program->experiment),
                                  .disk = nt__arena_strdup(&cache.arena, looked->refused ? looked->why : ""),
                                  .seconds = seconds};
    if (!report->program || !report->experiment || !report->disk ||
        !NT__GROW(cache.reports, cache.report_count, cache.report_capacity))
        return false;
    report->moved = nt__describe_move(program, &cache.arena);
    return report->moved != NULL;
}

/* Makes the report and counts, or neither. */
static nt_status count_compile(const nt__program *program, const nt__store_result *looked, double seconds,
                               nt__entry *entry, nt__text *notices) {
    nt_cache_report_t *report;
    if (!make_report(program, seconds, looked, &report)) return NT_OUT_OF_MEMORY;
    if (!program->quiet) add_notice(report, notices);
    if (notices->failed) return NT_OUT_OF_MEMORY;
    entry->report = cache.reports[cache.report_count++] = report;
    cache.stats.misses++;
    cache.stats.disk_refused += looked->refused;
    cache.stats.compile_seconds += seconds;
    return NT_OK;
}

/* Compiles, keeps the program on disk and makes the report, or counts nothing. */
static nt_status compile(const nt__program *program, const nt__store_result *looked, nt__entry *entry,
                         nt__text *notices) {
    double start = nt__seconds();
    nt_status status = compile_program(program, &entry->executable);
    if (status != NT_OK) return status;
    double seconds = nt__seconds() - start;
    status = nt__store_recall(program);
    if (status == NT_OK) status = nt__store_keep(program, entry->executable, seconds, notices);
    if (status != NT_OK) return status;
    pthread_mutex_lock(&cache.lock);
    status = count_compile(program, looked, seconds, entry, notices);
    pthread_mutex_unlock(&cache.lock);
    return status;
}

/* ---- a miss ----------------------------------------------------------------------------------------------------- */

static nt_status count_load(const nt__program *program, double seconds) {
    if (!nt__describe_remember(program)) return NT_OUT_OF_MEMORY;
    pthread_mutex_lock(&cache.lock);
    cache.stats.disk_hits++;
    cache.stats.load_seconds += seconds;
    pthread_mutex_unlock(&cache.lock);
    return NT_OK;
}

/* Fills an entry from the disk or by compiling. The lock is not held: a compile takes long, and other threads go on. */
static nt_status fill_entry(const nt__program *program, nt__entry *entry, nt__text *notices) {
    nt__store_result looked;
    double start = nt__seconds();
    nt_status status = nt__store_find(program, &looked, notices);
    if (status != NT_OK) return status;
    entry->executable = looked.executable;
    if (looked.executable) return count_load(program, nt__seconds() - start);
    return compile(program, &looked, entry, notices);
}

/* The program is counted and kept, or neither. Call with the lock held, which is given up meanwhile. */
static nt_status miss(const nt__program *program, nt__entry **out, nt__text *notices) {
    nt__entry *entry = nt__alloc(1, sizeof *entry);
    if (!entry || !NT__GROW(cache.entries, cache.count, cache.capacity)) {
        nt__free(entry);
        return NT_OUT_OF_MEMORY;
    }
    *entry = (nt__entry){.key = program->key, .references = 1, .is_made_now = true};
    cache.entries[cache.count++] = entry;
    cache.making++;
    pthread_mutex_unlock(&cache.lock);
    nt_status status = fill_entry(program, entry, notices);
    pthread_mutex_lock(&cache.lock);
    entry->is_made_now = false;
    cache.making--;
    pthread_cond_broadcast(&cache.made);
    if (status == NT_OK) {
        *out = entry;
        return NT_OK;
    }
    forget(entry);
    release(entry);
    return status;
}

static nt_status hit(const nt__program *program) {
    if (!nt__describe_remember(program)) return NT_OUT_OF_MEMORY;
    cache.stats.hits++;
    return NT_OK;
}

/* One line a call. */
static void tell(nt__text *notices) {
    for (char *line = notices->data; line && *line;) {
        char *end = strchr(line, '\n');
        *end = 0;
        nt__notice("%s", line);
        line = end + 1;
    }
    nt__text_free(notices);
}

/* Waits for another thread that makes the same program. NULL: there is none, or that failed. */
static nt__entry *find_ready_entry(nt__hash key) {
    nt__entry *entry;
    while ((entry = find_entry(key)) && entry->is_made_now) pthread_cond_wait(&cache.made, &cache.lock);
    return entry;
}

/* Threads compile different programs at the same time, and never the same one twice. The notices go out without the
 * lock, so that the function that takes them may ask for the counters. */
nt_status nt__program_ready(nt__program *program) {
    if (program->entry) return NT_OK;
    nt__text notices = {0};
    pthread_mutex_lock(&cache.lock);
    nt__entry *entry = find_ready_entry(program->key);
    nt_status status = entry ? hit(program) : miss(program, &entry, &notices);
    if (status == NT_OK && entry) {
        entry->references++;
        entry->used = ++cache.clock;
        program->entry = entry;
        keep_within_limit(program->quiet ? NULL : &notices);
    }
    pthread_mutex_unlock(&cache.lock);
    tell(&notices);
    return status;
}

void nt__program_free(nt__program *program) {
    if (!program) return;
    nt__text notices = {0};
    pthread_mutex_lock(&cache.lock);
    if (program->entry) program->entry->used = ++cache.clock;
    release(program->entry);
    keep_within_limit(program->quiet ? NULL : &notices);
    pthread_mutex_unlock(&cache.lock);
    tell(&notices);
    nt__printed_free(&program->printed);
    nt__arena_free(&program->arena);
    nt__free(program->options);
    nt__free(program);
}

/* ---- looking at it ---------------------------------------------------------------------------------------------- */

nt_cache_stats_t nt_cache_stats(void) {
    pthread_mutex_lock(&cache.lock);
    nt_cache_stats_t stats = cache.stats;
    stats.entries = cache.count - cache.making;
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
    while (cache.making) pthread_cond_wait(&cache.made, &cache.lock);
    for (size_t i = 0; i < cache.count; i++) release(cache.entries[i]);
    nt__free(cache.entries);
    nt__free(cache.reports);
    nt__arena_free(&cache.arena);
    cache.entries = NULL;
    cache.reports = NULL;
    cache.count = cache.capacity = cache.report_count = cache.report_capacity = 0;
    cache.stats = (nt_cache_stats_t){0};
    cache.told_of_limit = false;
    nt__store_reset();
    nt__descriptions_reset();
    pthread_mutex_unlock(&cache.lock);
}
