/* When training writes a record, and which are kept.
 * Not here: what they are ranked by (ranking.c), what is in one (snapshot.c), its file and the thread that writes it
 * (the folder record).
 */
#include <math.h>
#include <string.h>

#include "run/folder.h"
#include "run/records.h"

bool nt__records(const nt_run *run) {
    return run->settings.checkpoint && !run->settings.no_log;
}

nt__retention nt__run_retention(const nt_run *run) {
    nt__retention kept = nt__retention_default();
    kept.best = run->settings.checkpoint_keep;
    kept.metric = run->settings.checkpoint_metric;
    kept.higher_is_better = run->settings.checkpoint_mode && strcmp(run->settings.checkpoint_mode, "max") == 0;
    kept.keep_latest = run->settings.checkpoint_keep_latest;
    kept.every_epochs = run->settings.checkpoint_keep_epochs;
    kept.every_steps = run->settings.checkpoint_keep_steps;
    kept.whole_folder = strcmp(run->settings.checkpoint_scope, "dir") == 0;
    return kept;
}

nt_status nt__recording_describe(nt_run *run) {
    if (!run->train || (!nt__records(run) && !run->recording.record.facts)) return NT_OK;
    run->recording.data = nt__record_data(run);
    return run->recording.data ? NT_OK : NT_OUT_OF_MEMORY;
}

/* ---- other runs' records in the folder -------------------------------------------------------------------------- */

static nt_status tell_others(const nt_run *run, size_t records, size_t runs) {
    const nt__settings *s = &run->settings;
    const char *plural = records == 1 ? "" : "s", *other_runs = runs == 1 ? "run" : "runs";
    if (nt__run_retention(run).whole_folder)
        return nt__warn("%s: '%s' holds %zu checkpoint%s of %zu other %s, and checkpoint_scope is dir: all are ranked "
                        "together, and those that are not kept (checkpoint_keep %lld) are deleted, whosever they are. "
                        "Give another run_dir, or checkpoint_scope run, to keep them",
                        run->experiment->name, s->run_dir, records, plural, runs, other_runs,
                        (long long)s->checkpoint_keep);
    if (!s->quiet)
        nt__notice(
            "%s: '%s' holds %zu checkpoint%s of %zu other %s, which stay%s: nothing deletes them. Another run_dir "
            "keeps runs apart",
            run->experiment->name, s->run_dir, records, plural, runs, other_runs, records == 1 ? "s" : "");
    return NT_OK;
}

static nt_status count_others(const nt_run *run, nt__manifest *manifest) {
    nt__run_summary *all;
    size_t count, records = 0, runs = 0;
    nt_status status = nt__manifest_runs(manifest, &all, &count);
    for (size_t i = 0; status == NT_OK && i < count; i++) {
        if (strcmp(all[i].id, run->recording.id) == 0) continue;
        records += all[i].entries;
        runs++;
    }
    return status == NT_OK && runs ? tell_others(run, records, runs) : status;
}

/* A list that cannot be read is an error when training begins. */
nt_status nt__recording_tell_others(const nt_run *run) {
    nt__manifest manifest;
    if (!run->train || !nt__records(run)) return NT_OK;
    nt_status status = nt__manifest_read_whole(run->settings.run_dir, &manifest);
    if (status == NT_OK) {
        status = count_others(run, &manifest);
    } else if (status != NT_OUT_OF_MEMORY) {
        nt__fail_nothing();
        status = NT_OK;
    }
    nt__manifest_free(&manifest);
    return status;
}

nt_status nt__recording_begin(nt_run *run) {
    nt__recording *recording = &run->recording;
    recording->written = nt__seconds();
    if (!nt__records(run)) return NT_OK;
    const nt__record_writer_options options = {.folder = run->settings.run_dir,
                                               .run = recording->id,
                                               .parent = recording->parent,
                                               .retention = nt__run_retention(run),
                                               .locked = true};
    return nt__record_writer_open(&options, &recording->writer);
}

bool nt__record_is_due(const nt_run *run) {
    const nt__settings *s = &run->settings;
    if (!run->recording.writer) return false;
    bool by_steps = s->checkpoint_every_steps > 0 && run->step % s->checkpoint_every_steps == 0;
    double minutes = (nt__seconds() - run->recording.written) / 60;
    return by_steps || (s->checkpoint_every_minutes > 0 && minutes >= s->checkpoint_every_minutes);
}

/* A score that is not finite is no reason to end a run where losses may be that. */
static bool can_be_ranked(const nt_run *run, const json_t *values) {
    const nt__settings *s = &run->settings;
    double score;
    const json_t *value = json_object_get(values, s->checkpoint_metric);
    if (!value) return nt__needs_metric(run) || json_object_size(values) == 0;
    return s->check_divergence || (nt__record_number_of(value, &score) && isfinite(score));
}

/* A record that is not ranked has its values under another name. */
static nt_status rank(const nt_run *run, nt__record *record) {
    json_t *values = json_object_get(record->facts, "metrics");
    if (can_be_ranked(run, values)) return NT_OK;
    nt_status status = nt__record_set(record, "unranked_metrics", json_incref(values));
    return status == NT_OK ? nt__record_set(record, "metrics", json_object()) : status;
}

/* The disk's failure is that of an earlier record, which is told; training goes on, and the next one may find room. */
static nt_status tell_earlier(nt_run *run, nt_status status) {
    if (status != NT_IO) return status;
    run->recording.score_count = 0; /* one of them may not be there */
    status = nt__warn("%s: %s", run->experiment->name, nt_error_message());
    if (status == NT_OK) nt__fail_nothing();
    return status;
}

/* ---- which of them can be spared -------------------------------------------------------------------------------- */

/* NULL: the values are without the metric, or with one that is no number. */
static const double *score_in(const nt_run *run, const nt_value *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(values[i].name, run->settings.checkpoint_metric) == 0)
            return isfinite(values[i].value) ? &values[i].value : NULL;
    return NULL;
}

/* How many of the scores are as good at least. */
static size_t place_of(const nt_run *run, double score) {
    const nt__recording *recording = &run->recording;
    bool higher = nt__run_retention(run).higher_is_better;
    size_t place = 0;
    while (place < recording->score_count &&
           (higher ? recording->scores[place] >= score : recording->scores[place] <= score))
        place++;
    return place;
}

static nt_status note_score(nt_run *run, double score) {
    nt__recording *recording = &run->recording;
    size_t place = place_of(run, score), most = (size_t)run->settings.checkpoint_keep;
    if (place >= most) return NT_OK;
    if (recording->score_count < most) {
        if (!NT__GROW(recording->scores, recording->score_count, recording->score_capacity)) return NT_OUT_OF_MEMORY;
        recording->score_count++;
    }
    memmove(&recording->scores[place + 1], &recording->scores[place],
            (recording->score_count - 1 - place) * sizeof *recording->scores);
    recording->scores[place] = score;
    return NT_OK;
}

/* Whether the record of the end of an epoch is kept whatever it scores, and newer ones come. */
static bool is_one_of_every(const nt_run *run) {
    nt__retention kept = nt__run_retention(run);
    const nt__record_entry unscored = {.run = run->recording.id, .epoch = run->epoch, .step = run->step};
    kept.keep_latest = false;
    return nt__retention_wants(&kept, NULL, 0, &unscored);
}

/* Epochs that are shorter than it takes to write a record do not wait for the disk: of those that would be kept as the
 * newest alone, until the next one comes, some are left out. The last one, and those that were asked for by steps or
 * minutes, never are. */
static bool can_be_spared(const nt_run *run, const nt__position *at, const char *reason, const nt_value *values,
                          size_t count) {
    const double *score = score_in(run, values, count);
    bool is_asked = run->settings.from.checkpoint_metric != NT__FROM_DEFAULT;
    if (reason || at->is_open || !run->settings.checkpoint_keep_latest || is_one_of_every(run)) return false;
    if (score ? place_of(run, *score) < (size_t)run->settings.checkpoint_keep : count && is_asked) return false;
    return nt__record_writer_is_behind(run->recording.writer);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static nt_status write_record(nt_run *run, nt__record *record) {
    nt__record_writer *writer = run->recording.writer;
    bool wants = false;
    nt_status status = tell_earlier(run, nt__record_writer_wants(writer, record->facts, &wants));
    if (status == NT_OK && wants) status = tell_earlier(run, nt__record_writer_put(writer, record, NULL));
    nt__record_free(record);
    return status;
}

nt_status nt__record_state(nt_run *run, const nt__position *at, const char *reason, const nt_value *values,
                           size_t count) {
    nt__recording *recording = &run->recording;
    nt__record record = {0};
    const double *score = at->is_open ? NULL : score_in(run, values, count);
    nt_status status = recording->writer && !at->is_open ? nt__ranking_tell(run, values, count) : NT_OK;
    if (status != NT_OK || !recording->writer || can_be_spared(run, at, reason, values, count)) return status;
    status = tell_earlier(run, nt__record_writer_ready(recording->writer));
    if (status == NT_OK) status = nt__snapshot_take(run, at, reason, values, count, &record);
    if (status == NT_OK) status = rank(run, &record);
    if (status == NT_OK) status = nt__transfers_tell(run, "a checkpoint");
    if (status == NT_OK) status = write_record(run, &record);
    if (status == NT_OK && score) status = note_score(run, *score);
    nt__record_free(&record);
    recording->written = nt__seconds();
    return status;
}

nt_status nt__recording_end(nt_run *run) {
    nt_status status = nt__record_writer_close(run->recording.writer);
    run->recording.writer = NULL;
    return status;
}

/* ---- the best one at the end ------------------------------------------------------------------------------------ */

/* NULL in *out: no record of this run was scored. */
static nt_status find_best(const nt_run *run, char **out) {
    const nt__retention kept = nt__run_retention(run);
    nt__manifest manifest = {0};
    *out = NULL;
    nt_status status = nt__manifest_read(run->settings.run_dir, &manifest);
    const nt__record_entry *best =
        status == NT_OK ? nt__manifest_best(&manifest, run->recording.id, false, &kept) : NULL;
    if (best) *out = nt__sprintf("%s/%s", run->settings.run_dir, best->file);
    if (best && !*out) status = NT_OUT_OF_MEMORY;
    nt__manifest_free(&manifest);
    return status;
}

nt_status nt__restore_best(nt_run *run) {
    char *path = NULL;
    if (!run->settings.restore_best || run->recording.restored || run->step == 0) return NT_OK;
    nt_status status = nt__records(run) ? find_best(run, &path) : NT_OK;
    if (status != NT_OK) return status;
    if (!path)
        return nt__fail(NT_NOT_FOUND,
                        "%s: restore_best finds no checkpoint of this run that was scored by %s, so the parameters are "
                        "those of the last step: the validation at the end of an epoch scores one, and none has ended "
                        "with a finite value",
                        run->experiment->name, run->settings.checkpoint_metric);
    status = nt__weights_load(run, path, NULL, 0);
    if (status == NT_OK)
        run->recording.restored = path;
    else
        nt__free(path);
    return status;
}

nt_status nt__check_not_restored(const nt_run *run) {
    const nt__recording *recording = &run->recording;
    if (!recording->restored) return NT_OK;
    return nt__fail(
        NT_INVALID,
        "run '%s' has the parameters of its best checkpoint (restore_best), and not those that its training "
        "ended with, so it trains no more. Make another run: with weights '%s', the same with "
        "restore_optimizer, or with resume '%s:best' or '%s:latest'",
        run->experiment->name, recording->restored, recording->id, recording->id);
}
