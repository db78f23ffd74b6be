/* When training writes a record, and which are kept.
 * Not here: what they are ranked by (ranking.c), what is in one (snapshot.c), its file and the thread that writes it
 * (the folder record).
 */
#include <math.h>
#include <string.h>

#include "checkpoint/records.h"
#include "base/files.h"

nt_status nt__recording_describe(nt__recording *recording) {
    if (!recording->traced->train || (!nt__keeps_checkpoints(&recording->task->settings) && !recording->record.facts))
        return NT_OK;
    recording->data = nt__record_data(recording->traced);
    return recording->data ? NT_OK : NT_OUT_OF_MEMORY;
}

/* ---- other runs' records in the folder -------------------------------------------------------------------------- */

static nt_status tell_others(const nt__task *task, size_t records, size_t runs) {
    const nt__settings *s = &task->settings;
    const char *plural = records == 1 ? "" : "s", *other_runs = runs == 1 ? "run" : "runs";
    if (nt__retention_of(&task->settings).whole_folder)
        return nt__warn("%s: '%s' holds %zu checkpoint%s of %zu other %s, and checkpoint_scope is dir: all are ranked "
                        "together, and those that are not kept (checkpoint_keep %lld) are deleted, whosever they are. "
                        "Give another run_dir, or checkpoint_scope run, to keep them",
                        task->experiment->name, s->run_dir, records, plural, runs, other_runs,
                        (long long)s->checkpoint_keep);
    if (!s->quiet)
        nt__notice(
            "%s: '%s' holds %zu checkpoint%s of %zu other %s, which stay%s: nothing deletes them. Another run_dir "
            "keeps runs apart",
            task->experiment->name, s->run_dir, records, plural, runs, other_runs, records == 1 ? "s" : "");
    return NT_OK;
}

static nt_status count_others(const nt__recording *recording, nt__manifest *manifest) {
    nt__run_summary *all;
    size_t count, records = 0, runs = 0;
    nt_status status = nt__manifest_runs(manifest, &all, &count);
    for (size_t i = 0; status == NT_OK && i < count; i++) {
        if (strcmp(all[i].id, recording->id) == 0) continue;
        records += all[i].entries;
        runs++;
    }
    return status == NT_OK && runs ? tell_others(recording->task, records, runs) : status;
}

/* A list that cannot be read is an error when training begins. */
nt_status nt__recording_tell_others(const nt__recording *recording) {
    nt__manifest manifest;
    if (!recording->traced->train || !nt__keeps_checkpoints(&recording->task->settings)) return NT_OK;
    nt_status status = nt__manifest_read_whole(recording->task->settings.run_dir, &manifest);
    if (status == NT_OK) {
        status = count_others(recording, &manifest);
    } else if (status != NT_OUT_OF_MEMORY) {
        nt__fail_nothing();
        status = NT_OK;
    }
    nt__manifest_free(&manifest);
    return status;
}

nt_status nt__recording_begin(nt__recording *recording) {
    recording->written = nt__seconds();
    if (!nt__keeps_checkpoints(&recording->task->settings)) return NT_OK;
    const nt__record_writer_options options = {.folder = recording->task->settings.run_dir,
                                               .run = recording->id,
                                               .parent = recording->parent,
                                               .retention = nt__retention_of(&recording->task->settings),
                                               .locked = true};
    return nt__record_writer_open(&options, &recording->writer);
}

bool nt__record_is_due(const nt__recording *recording) {
    const nt__settings *s = &recording->task->settings;
    if (!recording->writer) return false;
    bool by_steps = s->checkpoint_every_steps > 0 && recording->resident->step % s->checkpoint_every_steps == 0;
    double minutes = (nt__seconds() - recording->written) / 60;
    return by_steps || (s->checkpoint_every_minutes > 0 && minutes >= s->checkpoint_every_minutes);
}

/* A score that is not finite is no reason to end a run where losses may be that. */
static bool can_be_ranked(const nt__task *task, const json_t *values) {
    const nt__settings *s = &task->settings;
    double score;
    const json_t *value = json_object_get(values, s->checkpoint_metric);
    if (!value) return nt__needs_metric(task) || json_object_size(values) == 0;
    return s->check_divergence || (nt__record_number_of(value, &score) && isfinite(score));
}

/* A record that is not ranked has its values under another name. */
static nt_status rank(const nt__task *task, nt__record *record) {
    json_t *values = json_object_get(record->facts, "metrics");
    if (can_be_ranked(task, values)) return NT_OK;
    nt_status status = nt__record_set(record, "unranked_metrics", json_incref(values));
    return status == NT_OK ? nt__record_set(record, "metrics", json_object()) : status;
}

/* The disk's failure is that of an earlier record, which is told; training goes on, and the next one may find room. */
static nt_status tell_earlier(nt__recording *recording, nt_status status) {
    if (status != NT_IO) return status;
    recording->score_count = 0; /* one of them may not be there */
    status = nt__warn("%s: %s", recording->task->experiment->name, nt_error_message());
    if (status == NT_OK) nt__fail_nothing();
    return status;
}

/* ---- which of them can be spared -------------------------------------------------------------------------------- */

/* NULL: the values are without the metric, or with one that is no number. */
static const double *score_in(const nt__task *task, const nt_value *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(values[i].name, task->settings.checkpoint_metric) == 0)
            return isfinite(values[i].value) ? &values[i].value : NULL;
    return NULL;
}

/* How many of the scores are as good at least. */
static size_t place_of(const nt__recording *recording, double score) {
    bool higher = nt__retention_of(&recording->task->settings).higher_is_better;
    size_t place = 0;
    while (place < recording->score_count &&
           (higher ? recording->scores[place] >= score : recording->scores[place] <= score))
        place++;
    return place;
}

static nt_status note_score(nt__recording *recording, double score) {
    size_t place = place_of(recording, score), most = (size_t)recording->task->settings.checkpoint_keep;
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
static bool is_one_of_every(const nt__recording *recording) {
    nt__retention kept = nt__retention_of(&recording->task->settings);
    const nt__record_entry unscored = {
        .run = recording->id, .epoch = recording->resident->epoch, .step = recording->resident->step};
    kept.keep_latest = false;
    return nt__retention_wants(&kept, NULL, 0, &unscored);
}

/* Epochs that are shorter than it takes to write a record do not wait for the disk: of those that would be kept as the
 * newest alone, until the next one comes, some are left out. The last one, and those that were asked for by steps or
 * minutes, never are. */
static bool can_be_spared(const nt__recording *recording, const nt__position *at, const char *reason,
                          const nt_value *values, size_t count) {
    const double *score = score_in(recording->task, values, count);
    bool is_asked = recording->task->settings.from.checkpoint_metric != NT__FROM_DEFAULT;
    if (reason || at->is_open || !recording->task->settings.checkpoint_keep_latest || is_one_of_every(recording))
        return false;
    if (score ? place_of(recording, *score) < (size_t)recording->task->settings.checkpoint_keep : count && is_asked)
        return false;
    return nt__record_writer_is_behind(recording->writer);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static nt_status write_record(nt__recording *recording, nt__record *record) {
    nt__record_writer *writer = recording->writer;
    bool wants = false;
    nt_status status = tell_earlier(recording, nt__record_writer_wants(writer, record->facts, &wants));
    if (status == NT_OK && wants) status = tell_earlier(recording, nt__record_writer_put(writer, record, NULL));
    nt__record_free(record);
    return status;
}

nt_status nt__record_state(nt__recording *recording, const nt__position *at, const char *reason, const nt_value *values,
                           size_t count) {
    nt__record record = {0};
    const double *score = at->is_open ? NULL : score_in(recording->task, values, count);
    nt_status status = recording->writer && !at->is_open ? nt__ranking_tell(recording, values, count) : NT_OK;
    if (status != NT_OK || !recording->writer || can_be_spared(recording, at, reason, values, count)) return status;
    status = tell_earlier(recording, nt__record_writer_ready(recording->writer));
    if (status == NT_OK) status = nt__snapshot_take(recording, at, reason, values, count, &record);
    if (status == NT_OK) status = rank(recording->task, &record);
    if (status == NT_OK) status = nt__transfers_tell(recording->resident, "a checkpoint");
    if (status == NT_OK) status = write_record(recording, &record);
    if (status == NT_OK && score) status = note_score(recording, *score);
    nt__record_free(&record);
    recording->written = nt__seconds();
    return status;
}

nt_status nt__recording_end(nt__recording *recording) {
    nt_status status = nt__record_writer_close(recording->writer);
    recording->writer = NULL;
    return status;
}

void nt__recording_free(nt__recording *recording) {
    nt__record_writer_close(recording->writer);
    nt__record_free(&recording->record);
    json_decref(recording->data);
    nt__free(recording->source);
    nt__free(recording->restored);
    nt__free(recording->scores);
}

/* ---- the best one at the end ------------------------------------------------------------------------------------ */

/* NULL in *out: no record of this run was scored. */
static nt_status find_best(const nt__recording *recording, char **out) {
    const nt__retention kept = nt__retention_of(&recording->task->settings);
    nt__manifest manifest = {0};
    *out = NULL;
    nt_status status = nt__manifest_read(recording->task->settings.run_dir, &manifest);
    const nt__record_entry *best = status == NT_OK ? nt__manifest_best(&manifest, recording->id, false, &kept) : NULL;
    if (best) *out = nt__sprintf("%s/%s", recording->task->settings.run_dir, best->file);
    if (best && !*out) status = NT_OUT_OF_MEMORY;
    nt__manifest_free(&manifest);
    return status;
}

nt_status nt__restore_best(nt__recording *recording) {
    char *path = NULL;
    if (!recording->task->settings.restore_best || recording->restored || recording->resident->step == 0) return NT_OK;
    nt_status status = nt__keeps_checkpoints(&recording->task->settings) ? find_best(recording, &path) : NT_OK;
    if (status != NT_OK) return status;
    if (!path)
        return nt__fail(NT_NOT_FOUND,
                        "%s: restore_best finds no checkpoint of this run that was scored by %s, so the parameters are "
                        "those of the last step: the validation at the end of an epoch scores one, and none has ended "
                        "with a finite value",
                        recording->task->experiment->name, recording->task->settings.checkpoint_metric);
    status = nt__weights_load(recording->waiting, path, NULL, 0);
    if (status == NT_OK)
        recording->restored = path;
    else
        nt__free(path);
    return status;
}

nt_status nt__check_not_restored(const nt__recording *recording) {
    if (!recording->restored) return NT_OK;
    return nt__fail(
        NT_INVALID,
        "run '%s' has the parameters of its best checkpoint (restore_best), and not those that its training "
        "ended with, so it trains no more. Make another run: with weights '%s', the same with "
        "restore_optimizer, or with resume '%s:best' or '%s:latest'",
        recording->task->experiment->name, recording->restored, recording->id, recording->id);
}
