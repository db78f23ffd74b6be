/* Which records of a folder are kept, from their entries alone.
 * Not here: deleting the others (folder.c).
 */
#include "record/record_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

nt__retention nt__retention_default(void) {
    return (nt__retention){.best = 3, .metric = "val_loss", .keep_latest = true};
}

nt_status nt__retention_check(const nt__retention *retention) {
    if (retention->best < 1)
        return nt__fail(NT_INVALID, "%" PRId64 " of the best checkpoints cannot be kept: keep 1 or more",
                        retention->best);
    if (!retention->metric || !*retention->metric)
        return nt__fail(NT_INVALID, "checkpoints need the name of a metric to be ranked by, such as val_loss");
    if (retention->every_epochs < 0 || retention->every_steps < 0)
        return nt__fail(NT_INVALID,
                        "checkpoints of every %" PRId64 " epochs and every %" PRId64
                        " steps cannot be kept: give 0 (none for that) or more",
                        retention->every_epochs, retention->every_steps);
    return NT_OK;
}

const char *nt__pair_text(const char *metric, bool higher_is_better, char out[NT__PAIR_TEXT]) {
    snprintf(out, NT__PAIR_TEXT, "%s, %s is better", metric ? metric : "an unknown metric",
             higher_is_better ? "higher" : "lower");
    return out;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------ */

/* An entry without a metric is of a time when there was only one. */
static bool is_of_pair(const nt__retention *retention, const nt__record_entry *entry) {
    return !entry->metric ||
           (strcmp(entry->metric, retention->metric) == 0 && entry->higher_is_better == retention->higher_is_better);
}

bool nt__is_ranked(const nt__retention *retention, const nt__record_entry *entry) {
    return entry->scored && is_of_pair(retention, entry);
}

static bool is_better(const nt__retention *retention, double a, double b) {
    return retention->higher_is_better ? a > b : a < b;
}

static bool is_in_scope(const nt__retention *retention, const char *run, const nt__record_entry *entry) {
    return retention->whole_folder || nt__same_run(entry->run, run);
}

static bool is_among_best(const nt__retention *retention, const char *run, const nt__record_entry *entries,
                          size_t count, size_t index) {
    int64_t before = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == index || !is_in_scope(retention, run, &entries[i]) || !nt__is_ranked(retention, &entries[i])) continue;
        double other = entries[i].score, own = entries[index].score;
        before += is_better(retention, other, own) || (other == own && i < index);
    }
    return before < retention->best;
}

/* ---- what is kept ----------------------------------------------------------------------------------------------- */

static bool is_one_of_every(const nt__retention *retention, const nt__record_entry *entry) {
    return (retention->every_epochs && !entry->batch && entry->epoch % retention->every_epochs == 0) ||
           (retention->every_steps && entry->step % retention->every_steps == 0);
}

/* count: the run has none. */
static size_t newest_of(const char *run, const nt__record_entry *entries, size_t count) {
    size_t newest = count;
    for (size_t i = 0; i < count; i++)
        if (nt__same_run(entries[i].run, run) && (newest == count || !nt__is_later(&entries[newest], &entries[i])))
            newest = i;
    return newest;
}

void nt__retention_apply(const nt__retention *retention, const char *run, const nt__record_entry *entries, size_t count,
                         bool *kept) {
    size_t newest = retention->keep_latest ? newest_of(run, entries, count) : count;
    for (size_t i = 0; i < count; i++) {
        const nt__record_entry *entry = &entries[i];
        bool of_another_pair = entry->scored && !is_of_pair(retention, entry);
        kept[i] = i == newest || !is_in_scope(retention, run, entry) || of_another_pair ||
                  is_one_of_every(retention, entry) ||
                  (entry->scored && is_among_best(retention, run, entries, count, i));
    }
}

/* A tie with the last of the best does not displace it. */
bool nt__retention_wants(const nt__retention *retention, const nt__record_entry *entries, size_t count,
                         const nt__record_entry *fresh) {
    if (retention->keep_latest || is_one_of_every(retention, fresh)) return true;
    if (!fresh->scored) return false;
    int64_t not_worse = 0;
    for (size_t i = 0; i < count; i++) {
        const nt__record_entry *entry = &entries[i];
        bool is_itself =
            nt__same_run(entry->run, fresh->run) && entry->epoch == fresh->epoch && entry->batch == fresh->batch;
        if (is_itself || !is_in_scope(retention, fresh->run, entry) || !nt__is_ranked(retention, entry)) continue;
        not_worse += !is_better(retention, fresh->score, entry->score);
    }
    return not_worse < retention->best;
}
