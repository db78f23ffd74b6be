/* The record that a run goes on from: which one it is, and whose run goes on.
 * Not here: what the record says about the run (restore.c).
 */
#include <string.h>
#include <sys/stat.h>

#include "run/model_facts.h"
#include "run/records.h"

static bool has_record(const nt_run *run) {
    return run->recording.record.facts != NULL;
}

/* ---- which record ----------------------------------------------------------------------------------------------- */

static nt_status check_use(const nt_run *run, const nt_run_options *options) {
    bool has_weights = options->weights && *options->weights;
    if (options->resume && has_weights)
        return nt__fail(NT_INVALID,
                        "resume is '%s' and weights is '%s': a run goes on from a checkpoint, or starts with weights; "
                        "leave one out",
                        options->resume, options->weights);
    if (options->restore_optimizer && (!has_weights || run->settings.evaluate_only))
        return nt__fail(NT_INVALID,
                        "restore_optimizer goes with weights from a checkpoint, and with training: resume restores the "
                        "optimizer by itself");
    if (!options->resume || !run->settings.evaluate_only) return NT_OK;
    return nt__fail(NT_INVALID,
                    "resume is for training, and run '%s' only evaluates or predicts: give the checkpoint as weights",
                    run->experiment->name);
}

static nt_status find(const nt_run *run, const char *source, nt__record_source *out) {
    const nt__retention kept = nt__run_retention(run);
    if (strcmp(source, "auto") == 0) return nt__record_source_auto(run->settings.run_dir, out);
    nt_status status = nt__ends_in(source, ":best") ? nt__check_direction(run) : NT_OK;
    return status == NT_OK ? nt__record_source_find(source, run->settings.run_dir, &kept, out) : status;
}

/* ---- whose run -------------------------------------------------------------------------------------------------- */

/* The newest record of a run continues it; another one is the start of a branch. */
static nt_status take_identity(nt_run *run, const nt__record_source *source) {
    nt__recording *recording = &run->recording;
    const char *id = NULL, *parent = NULL;
    nt_status status = nt__record_text(&recording->record, "run", true, &id);
    if (status == NT_OK) status = nt__record_text(&recording->record, "parent", true, &parent);
    if (status != NT_OK) return status;
    bool continues = source->listed && source->is_newest && id && strlen(id) < sizeof recording->id;
    if (continues) snprintf(recording->id, sizeof recording->id, "%s", id);
    recording->parent = continues && !parent ? NULL : nt__arena_strdup(&run->arena, continues ? parent : source->path);
    return continues && !parent ? NT_OK : recording->parent ? NT_OK : NT_OUT_OF_MEMORY;
}

static bool is_same_folder(const char *a, const char *b) {
    struct stat left, right;
    return stat(a, &left) == 0 && stat(b, &right) == 0 && left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

static nt_status take_positions(nt_run *run) {
    nt__recording *r = &run->recording;
    json_t *logs = json_object_get(r->record.facts, "logs"), *at;
    const char *name;
    r->log_positions = nt__arena_alloc(&run->arena, json_object_size(logs) + 1, sizeof *r->log_positions);
    if (!r->log_positions) return NT_OUT_OF_MEMORY;
    json_object_foreach(logs, name, at) {
        nt__log_position *position = &r->log_positions[r->log_position_count++];
        *position = (nt__log_position){nt__arena_strdup(&run->arena, name), json_integer_value(at)};
        if (!position->name) return NT_OUT_OF_MEMORY;
    }
    return NT_OK;
}

/* Records of before it was noted have none. */
static void take_seconds(nt__recording *recording) {
    if (!nt__record_number_of(json_object_get(recording->record.facts, "seconds"), &recording->spent))
        recording->spent = 0;
}

/* The log goes on where the record lies beside it. */
static nt_status take_log(nt_run *run, const nt__record_source *source) {
    char *folder = nt__folder_of(source->path);
    if (!folder) return NT_OUT_OF_MEMORY;
    bool is_own = is_same_folder(folder, run->settings.run_dir);
    nt__free(folder);
    run->recording.log_goes_on = is_own;
    if (is_own) take_seconds(&run->recording);
    return is_own ? take_positions(run) : NT_OK;
}

/* ---- telling ---------------------------------------------------------------------------------------------------- */

static void tell(const nt_run *run, const nt__record_source *source, int64_t epoch, int64_t batch, int64_t step) {
    const char *name = run->experiment->name, *id = source->run ? source->run : NT__LEGACY_RUN;
    char place[64] = "";
    if (batch) snprintf(place, sizeof place, " and %lld batches", (long long)batch);
    if (run->settings.quiet) return;
    if (run->recording.parent && strcmp(run->recording.parent, source->path) == 0)
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
static nt_status warn_done(const nt_run *run, const char *reason, int64_t ended, int64_t step) {
    const char *name = run->experiment->name;
    int64_t epochs = run->settings.max_epochs, steps = run->settings.max_steps;
    if (ended > epochs && run->settings.from.max_epochs == NT__FROM_OPTION)
        return refuse_fewer("max_epochs", epochs, "epoch", ended);
    if (step > steps && run->settings.from.max_steps == NT__FROM_OPTION)
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

static nt_status find_where(const nt_run *run, where *out) {
    const nt__record *record = &run->recording.record;
    nt_status status = nt__record_integer(record, "epoch", &out->epoch);
    if (status == NT_OK) status = nt__record_integer(record, "batch", &out->batch);
    if (status == NT_OK) status = nt__record_integer(record, "step", &out->step);
    return status == NT_OK ? nt__record_text(record, "stop_reason", true, &out->reason) : status;
}

static nt_status tell_source(const nt_run *run, const nt__record_source *source) {
    where w;
    nt_status status = find_where(run, &w);
    if (status == NT_OK) tell(run, source, w.epoch, w.batch, w.step);
    return status;
}

/* The seed that was asked for, where that is not the record's. */
static nt_status warn_seed(const nt_run *run, int64_t asked) {
    if (run->settings.from.seed == NT__FROM_DEFAULT || asked == run->settings.seed) return NT_OK;
    return nt__warn("%s: the seed is that of the checkpoint, %lld, not %lld as it was asked for", run->experiment->name,
                    (long long)run->settings.seed, (long long)asked);
}

/* ---- the steps of the setup ------------------------------------------------------------------------------------- */

static nt_status take(nt_run *run, nt__record_source *source) {
    nt_status status = nt__record_load(source->path, &run->recording.record);
    if (status == NT_OK) status = nt__model_facts_check(run->recording.record.facts);
    if (status == NT_OK) status = take_identity(run, source);
    if (status == NT_OK) status = take_log(run, source);
    if (status == NT_OK) status = tell_source(run, source);
    if (status == NT_OK) status = nt__resume_seed(run);
    run->recording.source = source->path;
    source->path = NULL;
    return status;
}

nt_status nt__resume_find(nt_run *run, const nt_run_options *options) {
    const char *text = options->resume;
    nt__record_source source = {0};
    nt_status status = nt__run_id(run->recording.id);
    if (status == NT_OK) status = check_use(run, options);
    if (status != NT_OK || !text) return status;
    if (status == NT_OK) status = find(run, text, &source);
    if (status == NT_OK && source.path) status = take(run, &source);
    if (status == NT_OK && !run->recording.source)
        status = nt__warn("%s: there is nothing to resume in '%s', so the run begins anew", run->experiment->name,
                          run->settings.run_dir);
    nt__record_source_free(&source);
    return status;
}

/* The seed of the checkpoint stays. */
nt_status nt__resume_seed(nt_run *run) {
    int64_t seed;
    if (!has_record(run)) return NT_OK;
    nt_status status = nt__record_integer(&run->recording.record, "seed", &seed);
    if (status != NT_OK) return status;
    run->recording.asked_seed = run->settings.seed;
    run->settings.seed = seed;
    return NT_OK;
}

static nt_status explain(const nt_run *run, nt_status status) {
    return status == NT_OK ? NT_OK : nt__fail_in(status, "resuming from %s", run->recording.source);
}

/* The settings are final, so each of these lines comes once. */
nt_status nt__resume_check(nt_run *run) {
    where w;
    if (!has_record(run)) return NT_OK;
    nt_status status = find_where(run, &w);
    if (status == NT_OK) status = warn_done(run, w.reason, w.epoch - (w.batch > 0), w.step);
    if (status == NT_OK) status = warn_seed(run, run->recording.asked_seed);
    return status == NT_OK ? explain(run, nt__restore_check_config(run, &run->recording.record)) : status;
}

nt_status nt__resume_take(nt_run *run) {
    if (!has_record(run)) return NT_OK;
    nt_status status = explain(run, nt__restore_take(run, &run->recording.record));
    nt__record_free(&run->recording.record);
    return status;
}
