/* The record that a run goes on from: which one it is, and whose run goes on.
 * Not here: what the record says about the run (restore.c).
 */
#include <string.h>
#include <sys/stat.h>

#include "checkpoint/records.h"
#include "base/files.h"

static bool has_record(const nt__recording *recording) {
    return recording->record.facts != NULL;
}

/* ---- which record ----------------------------------------------------------------------------------------------- */

static nt_status check_use(const nt__task *task, const nt_run_options *options) {
    bool has_weights = options->weights && *options->weights;
    if (options->resume && has_weights)
        return nt__fail(NT_INVALID,
                        "resume is '%s' and weights is '%s': a run goes on from a checkpoint, or starts with weights; "
                        "leave one out",
                        options->resume, options->weights);
    if (options->restore_optimizer && (!has_weights || task->settings.evaluate_only))
        return nt__fail(NT_INVALID,
                        "restore_optimizer goes with weights from a checkpoint, and with training: resume restores the "
                        "optimizer by itself");
    if (!options->resume || !task->settings.evaluate_only) return NT_OK;
    return nt__fail(NT_INVALID,
                    "resume is for training, and run '%s' only evaluates or predicts: give the checkpoint as weights",
                    task->experiment->name);
}

static nt_status find(const nt__task *task, const char *source, nt__record_source *out) {
    const nt__retention kept = nt__retention_of(&task->settings);
    if (strcmp(source, "auto") == 0) return nt__record_source_auto(task->settings.run_dir, out);
    nt_status status = nt__ends_in(source, ":best") ? nt__check_direction(&task->settings) : NT_OK;
    return status == NT_OK ? nt__record_source_find(source, task->settings.run_dir, &kept, out) : status;
}

/* ---- whose run -------------------------------------------------------------------------------------------------- */

/* The newest record of a run continues it; another one is the start of a branch. */
static nt_status take_identity(nt__recording *recording, const nt__record_source *source) {
    const char *id = NULL, *parent = NULL;
    nt_status status = nt__record_text(&recording->record, "run", true, &id);
    if (status == NT_OK) status = nt__record_text(&recording->record, "parent", true, &parent);
    if (status != NT_OK) return status;
    bool continues = source->listed && source->is_newest && id && strlen(id) < sizeof recording->id;
    if (continues) snprintf(recording->id, sizeof recording->id, "%s", id);
    recording->parent =
        continues && !parent ? NULL : nt__arena_strdup(&recording->task->arena, continues ? parent : source->path);
    return continues && !parent ? NT_OK : recording->parent ? NT_OK : NT_OUT_OF_MEMORY;
}

static bool is_same_folder(const char *a, const char *b) {
    struct stat left, right;
    return stat(a, &left) == 0 && stat(b, &right) == 0 && left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

static nt_status take_positions(nt__recording *recording) {
    nt__recording *r = recording;
    json_t *logs = json_object_get(r->record.facts, "logs"), *at;
    const char *name;
    recording->reporting->log_positions = nt__arena_alloc(&recording->task->arena, json_object_size(logs) + 1,
                                                          sizeof *recording->reporting->log_positions);
    if (!recording->reporting->log_positions) return NT_OUT_OF_MEMORY;
    json_object_foreach(logs, name, at) {
        nt__log_position *position = &recording->reporting->log_positions[recording->reporting->log_position_count++];
        *position = (nt__log_position){nt__arena_strdup(&recording->task->arena, name), json_integer_value(at)};
        if (!position->name) return NT_OUT_OF_MEMORY;
    }
    return NT_OK;
}

/* Records of before it was noted have none. */
static void take_seconds(nt__recording *recording) {
    if (!nt__record_number_of(json_object_get(recording->record.facts, "seconds"), &recording->reporting->spent))
        recording->reporting->spent = 0;
}

/* The log goes on where the record lies beside it. */
static nt_status take_log(nt__recording *recording, const nt__record_source *source) {
    char *folder = nt__folder_of(source->path);
    if (!folder) return NT_OUT_OF_MEMORY;
    bool is_own = is_same_folder(folder, recording->task->settings.run_dir);
    nt__free(folder);
    recording->reporting->log_goes_on = is_own;
    if (is_own) take_seconds(recording);
    return is_own ? take_positions(recording) : NT_OK;
}

/* ---- telling ---------------------------------------------------------------------------------------------------- */

static void tell(const nt__recording *recording, const nt__record_source *source, int64_t epoch, int64_t batch,
                 int64_t step) {
    const char *name = recording->task->experiment->name, *id = source->run ? source->run : NT__LEGACY_RUN;
    char place[64] = "";
    if (batch) snprintf(place, sizeof place, " and %lld batches", (long long)batch);
    if (recording->task->settings.quiet) return;
    if (recording->parent && strcmp(recording->parent, source->path) == 0)
        nt__notice("%s: branches from run %s at epoch %lld%s, step %lld: %s (its newest checkpoint is of epoch %lld)",
                   name, id, (long long)epoch, place, (long long)step, source->path, (long long)source->newest_epoch);
    else
        nt__notice("%s: goes on with run %s after epoch %lld%s, step %lld: %s", name, id, (long long)epoch, place,
                   (long long)step, source->path);
}

/* To train up to where the run has been already cannot be meant; to train no further can. */
static nt_status refuse_fewer(const char *name, int64_t value, const char *what, int64_t done) {
    return nt__fail(NT_INVALID,
                    "the option %s is given as %lld, and the checkpoint is at %s %lld already: give more than that "
                    "to go on, or leave it out",
                    name, (long long)value, what, (long long)done);
}

/* `ended` epochs are whole. A record of a run that was killed has no reason. */
static nt_status warn_done(const nt__task *task, const char *reason, int64_t ended, int64_t step) {
    const char *name = task->experiment->name;
    int64_t epochs = task->settings.max_epochs, steps = task->settings.max_steps;
    if (ended > epochs && task->settings.from.max_epochs == NT__FROM_OPTION)
        return refuse_fewer("max_epochs", epochs, "epoch", ended);
    if (step > steps && task->settings.from.max_steps == NT__FROM_OPTION)
        return refuse_fewer("max_steps", steps, "step", step);
    if (ended >= epochs)
        return nt__warn("%s: the checkpoint is of a run that ended%s%s%s after epoch %lld of %lld, so training "
                        "returns at once: give a larger max_epochs to go on",
                        name, reason ? " (" : "", reason ? reason : "", reason ? ")" : "", (long long)ended,
                        (long long)epochs);
    if (step < steps) return NT_OK;
    return nt__warn("%s: the checkpoint is at step %lld, and max_steps is %lld, so training returns at once: give "
                    "a larger max_steps to go on; it counts from the first step of the run",
                    name, (long long)step, (long long)steps);
}

typedef struct where {
    int64_t epoch, batch, step;
    const char *reason;
} where;

static nt_status find_where(const nt__recording *recording, where *out) {
    const nt__record *record = &recording->record;
    nt_status status = nt__record_integer(record, "epoch", &out->epoch);
    if (status == NT_OK) status = nt__record_integer(record, "batch", &out->batch);
    if (status == NT_OK) status = nt__record_integer(record, "step", &out->step);
    return status == NT_OK ? nt__record_text(record, "stop_reason", true, &out->reason) : status;
}

static nt_status tell_source(const nt__recording *recording, const nt__record_source *source) {
    where w;
    nt_status status = find_where(recording, &w);
    if (status == NT_OK) tell(recording, source, w.epoch, w.batch, w.step);
    return status;
}

/* The seed that was asked for, where that is not the record's. */
static nt_status warn_seed(const nt__task *task, int64_t asked) {
    if (task->settings.from.seed == NT__FROM_DEFAULT || asked == task->settings.seed) return NT_OK;
    return nt__warn("%s: the seed is that of the checkpoint, %lld, not %lld as it was asked for",
                    task->experiment->name, (long long)task->settings.seed, (long long)asked);
}

/* ---- the steps of the setup ------------------------------------------------------------------------------------- */

static nt_status take(nt__recording *recording, nt__record_source *source) {
    nt_status status = nt__record_load(source->path, &recording->record);
    if (status == NT_OK) status = nt__model_facts_check(recording->record.facts);
    if (status == NT_OK) status = take_identity(recording, source);
    if (status == NT_OK) status = take_log(recording, source);
    if (status == NT_OK) status = tell_source(recording, source);
    if (status == NT_OK) status = nt__resume_seed(recording);
    recording->source = source->path;
    source->path = NULL;
    return status;
}

nt_status nt__resume_find(nt__recording *recording, const nt_run_options *options) {
    const char *text = options->resume;
    nt__record_source source = {0};
    nt_status status = nt__run_id(recording->id);
    if (status == NT_OK) status = check_use(recording->task, options);
    if (status != NT_OK || !text) return status;
    if (status == NT_OK) status = find(recording->task, text, &source);
    if (status == NT_OK && source.path) status = take(recording, &source);
    if (status == NT_OK && !recording->source)
        status = nt__warn("%s: there is nothing to resume in '%s', so the run begins anew",
                          recording->task->experiment->name, recording->task->settings.run_dir);
    nt__record_source_free(&source);
    return status;
}

/* The seed of the checkpoint stays. */
nt_status nt__resume_seed(nt__recording *recording) {
    int64_t seed;
    if (!has_record(recording)) return NT_OK;
    nt_status status = nt__record_integer(&recording->record, "seed", &seed);
    if (status != NT_OK) return status;
    recording->asked_seed = recording->task->settings.seed;
    recording->task->settings.seed = seed;
    return NT_OK;
}

static nt_status explain(const nt__recording *recording, nt_status status) {
    return status == NT_OK ? NT_OK : nt__fail_in(status, "resuming from %s", recording->source);
}

/* The settings are final, so each of these lines comes once. */
nt_status nt__resume_check(nt__recording *recording) {
    where w;
    if (!has_record(recording)) return NT_OK;
    nt_status status = find_where(recording, &w);
    if (status == NT_OK) status = warn_done(recording->task, w.reason, w.epoch - (w.batch > 0), w.step);
    if (status == NT_OK) status = warn_seed(recording->task, recording->asked_seed);
    return status == NT_OK ? explain(recording, nt__restore_check_config(recording->task, &recording->record)) : status;
}

nt_status nt__resume_take(nt__recording *recording) {
    if (!has_record(recording)) return NT_OK;
    nt_status status = explain(recording, nt__restore_take(recording, &recording->record));
    nt__record_free(&recording->record);
    return status;
}
