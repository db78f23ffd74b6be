/* A folder of records as the run that writes into it has it: one record more, with the manifest and the deletions that
 * follow; and the folder as a kill left it.
 * Not here: the thread (writer.c), which records are kept (retention.c).
 */
#include "record/record_internal.h"
#include "base/files.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double wall_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static char *path_of(const nt__record_folder *folder, const char *file) {
    return nt__sprintf("%s/%s", folder->path, file);
}

/* ---- the score of a record -------------------------------------------------------------------------------------- */

static nt_status fail_no_metric(const char *metric, const json_t *metrics) {
    nt__text names = {0};
    const char *name;
    const json_t *value;
    json_object_foreach((json_t *)metrics, name, value) nt__text_add(&names, "%s%s", names.length ? ", " : "", name);
    nt_status status = names.failed ? NT_OUT_OF_MEMORY
                                    : nt__fail(NT_INVALID,
                                               "checkpoints are ranked by '%s', which the validation does not report; "
                                               "it reports: %s. Rank them by one of these",
                                               metric, names.data);
    nt__text_free(&names);
    return status;
}

/* What was measured at the end of an epoch says nothing of a record within the next one. */
static nt_status find_score(const nt__retention *retention, const json_t *facts, nt__record_entry *out) {
    const json_t *metrics = json_object_get(facts, "metrics");
    if (out->batch || json_object_size(metrics) == 0) return NT_OK;
    const json_t *value = json_object_get(metrics, retention->metric);
    if (!value) return fail_no_metric(retention->metric, metrics);
    if (!nt__record_number_of(value, &out->score) || !isfinite(out->score))
        return nt__fail(NT_INVALID,
                        "checkpoints are ranked by '%s', which is %g after epoch %lld: a score must be finite",
                        retention->metric, out->score, (long long)out->epoch);
    out->scored = true;
    return NT_OK;
}

static nt_status read_place(const json_t *facts, const char *key, int64_t *out) {
    const json_t *value = json_object_get(facts, key);
    *out = json_integer_value(value);
    if (json_is_integer(value) && *out >= 0) return NT_OK;
    return nt__fail(NT_INVALID, "the facts of a checkpoint need '%s', an integer from 0", key);
}

nt_status nt__record_folder_describe(const nt__record_folder *folder, const json_t *facts, nt__record_entry *out) {
    *out = (nt__record_entry){.run = folder->run,
                              .parent = folder->parent,
                              .metric = folder->retention.metric,
                              .higher_is_better = folder->retention.higher_is_better,
                              .stop_reason = json_string_value(json_object_get(facts, "stop_reason"))};
    nt_status status = read_place(facts, "epoch", &out->epoch);
    if (status == NT_OK) status = read_place(facts, "batch", &out->batch);
    if (status == NT_OK) status = read_place(facts, "step", &out->step);
    if (status == NT_OK) status = find_score(&folder->retention, facts, out);
    if (!out->scored) out->metric = NULL;
    return status;
}

/* ---- the name of its file --------------------------------------------------------------------------------------- */

/* By another run's record, or by a file that no manifest lists. */
static nt_status look_whether_taken(const nt__record_folder *folder, const char *file, bool *taken) {
    const nt__record_entry *entry = nt__manifest_find(&folder->manifest, file);
    *taken = entry && !nt__same_run(entry->run, folder->run);
    if (entry) return NT_OK;
    char *path = path_of(folder, file);
    if (!path) return NT_OUT_OF_MEMORY;
    *taken = access(path, F_OK) == 0;
    nt__free(path);
    return NT_OK;
}

/* "<stem>-run-<id>.safetensors", then "<stem>-run-<id>-2.safetensors". */
static char *name_for_run(const nt__record_folder *folder, const char *name, int turn) {
    int stem = (int)(strlen(name) - strlen(NT__RECORD_EXTENSION));
    if (turn == 1) return nt__sprintf("%.*s-run-%s" NT__RECORD_EXTENSION, stem, name, folder->run);
    return nt__sprintf("%.*s-run-%s-%d" NT__RECORD_EXTENSION, stem, name, folder->run, turn);
}

enum { MOST_TURNS = 100 };

static char *name_of_turn(const nt__record_folder *folder, const char *name, int turn) {
    return turn == 0 ? nt__strdup(name) : name_for_run(folder, name, turn);
}

/* *file becomes a copy of the name, or one made of it. */
static nt_status choose_name(const nt__record_folder *folder, const char *name, char **file) {
    for (int turn = 0; turn <= MOST_TURNS; turn++) {
        bool taken = true;
        *file = name_of_turn(folder, name, turn);
        nt_status status = *file ? look_whether_taken(folder, *file, &taken) : NT_OUT_OF_MEMORY;
        if (status == NT_OK && !taken) return NT_OK;
        nt__free(*file);
        if (status != NT_OK) return status;
    }
    return nt__fail(NT_INVALID, "'%s' and %d names made of it are taken in '%s': clear the folder or name another one",
                    name, MOST_TURNS, folder->path);
}

/* ---- the manifest with one entry more --------------------------------------------------------------------------- */

static nt_status copy_kept(const nt__record_folder *folder, const nt__manifest *all, nt__manifest *out) {
    bool *kept = nt__alloc(all->count, sizeof *kept);
    nt_status status = kept ? NT_OK : NT_OUT_OF_MEMORY;
    if (kept) nt__retention_apply(&folder->retention, folder->run, all->entries, all->count, kept);
    for (size_t i = 0; status == NT_OK && i < all->count; i++)
        if (kept[i]) status = nt__manifest_add(out, &all->entries[i]);
    nt__free(kept);
    return status;
}

static nt_status plan(const nt__record_folder *folder, const nt__record_entry *fresh, nt__manifest *out) {
    nt__manifest all = {0};
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < folder->manifest.count; i++)
        if (!nt__takes_place_of(fresh, &folder->manifest.entries[i]))
            status = nt__manifest_add(&all, &folder->manifest.entries[i]);
    if (status == NT_OK) status = nt__manifest_add(&all, fresh);
    if (status == NT_OK) status = copy_kept(folder, &all, out);
    nt__manifest_free(&all);
    return status;
}

/* ---- deletions -------------------------------------------------------------------------------------------------- */

/* A record that cannot be deleted is in nobody's way; the next run in this folder tries again. */
static void remove_file(const char *path) {
    if (!path || nt__remove_file(path) != NT_OK) nt__notice("a checkpoint is left behind: %s", nt_error_message());
}

static void remove_record(const nt__record_folder *folder, const char *file) {
    char *path = path_of(folder, file);
    remove_file(path);
    nt__free(path);
}

static void remove_displaced(const nt__record_folder *folder, const nt__manifest *before, const nt__manifest *after) {
    for (size_t i = 0; i < before->count; i++)
        if (!nt__manifest_find(after, before->entries[i].file)) remove_record(folder, before->entries[i].file);
}

/* ---- one record more -------------------------------------------------------------------------------------------- */

static nt_status complete_facts(const nt__record_folder *folder, nt__record *record, const nt__record_entry *entry) {
    nt_status status = nt__record_set(record, "format_version", json_integer(NT__RECORD_FORMAT));
    if (status == NT_OK) status = nt__record_set(record, "framework_version", json_string(NT__VERSION));
    if (status == NT_OK) status = nt__record_set(record, "run", json_string(folder->run));
    if (status == NT_OK)
        status = nt__record_set(record, "parent", folder->parent ? json_string(folder->parent) : json_null());
    return status == NT_OK ? nt__record_set(record, "entry", nt__entry_to_json(entry)) : status;
}

static nt_status write_record(const nt__record_folder *folder, nt__record *record, nt__record_entry *entry) {
    nt_status status = complete_facts(folder, record, entry);
    if (status != NT_OK) return status;
    char *path = path_of(folder, entry->file);
    status = path ? nt__record_write(path, record, &entry->hash) : NT_OUT_OF_MEMORY;
    entry->hashed = status == NT_OK;
    nt__free(path);
    return status;
}

/* After a failure the disk says which manifest it has: that of before, or the new one where only the last sync failed.
 * A record that it does not list was not to be. */
static void undo(nt__record_folder *folder, const char *file) {
    nt__kept_error error = {0};
    nt__manifest now;
    nt__error_keep(&error, nt_error_status());
    if (nt__manifest_read(folder->path, &now) == NT_OK) {
        nt__manifest_free(&folder->manifest);
        folder->manifest = now;
        if (!nt__manifest_find(&now, file)) remove_record(folder, file);
    }
    nt__error_raise(&error);
}

static nt_status drop_manifest(nt__manifest *manifest, nt_status status) {
    nt__manifest_free(manifest);
    return status;
}

/* Writes the manifest that is to be, which it takes over, and deletes what it does not list any more. */
static nt_status put_manifest(nt__record_folder *folder, nt__manifest *after) {
    nt_status status = nt__manifest_write(folder->path, after);
    if (status != NT_OK) return drop_manifest(after, status);
    remove_displaced(folder, &folder->manifest, after);
    nt__manifest_free(&folder->manifest);
    folder->manifest = *after;
    return NT_OK;
}

static nt_status write_manifest(nt__record_folder *folder, const nt__record_entry *entry) {
    nt__manifest after = {0};
    nt_status status = plan(folder, entry, &after);
    return status == NT_OK ? put_manifest(folder, &after) : drop_manifest(&after, status);
}

static nt_status save_as(nt__record_folder *folder, nt__record *record, const char *name, nt__record_entry *entry) {
    char *file;
    nt_status status = choose_name(folder, name, &file);
    if (status != NT_OK) return status;
    entry->file = file;
    entry->sequence = nt__manifest_next(&folder->manifest);
    entry->written = wall_clock();
    status = write_record(folder, record, entry);
    if (status == NT_OK) status = write_manifest(folder, entry);
    if (status != NT_OK) {
        folder->may_pass = status == NT_IO && nt__file_error_may_pass();
        undo(folder, file);
    }
    nt__free(file);
    return status;
}

nt_status nt__record_folder_save(nt__record_folder *folder, nt__record *record, const char *name) {
    nt__record_entry entry;
    folder->may_pass = false;
    nt_status status = nt__record_folder_describe(folder, record->facts, &entry);
    if (status != NT_OK || name) return status == NT_OK ? save_as(folder, record, name, &entry) : status;
    char *usual = nt__record_name(&entry);
    status = usual ? save_as(folder, record, usual, &entry) : NT_OUT_OF_MEMORY;
    nt__free(usual);
    return status;
}

/* ---- what a kill left ------------------------------------------------------------------------------------------- */

/* A file that somebody deleted takes the place of none that is there. */
static nt_status forget_gone(nt__record_folder *folder, bool *changed) {
    nt__manifest there = {0};
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < folder->manifest.count; i++) {
        const nt__record_entry *entry = &folder->manifest.entries[i];
        char *path = path_of(folder, entry->file);
        if (!path)
            status = NT_OUT_OF_MEMORY;
        else if (access(path, F_OK) == 0 || errno != ENOENT)
            status = nt__manifest_add(&there, entry);
        else
            status = nt__warn("the checkpoint '%s' is gone, so " NT__MANIFEST_FILE " lists it no more", path);
        nt__free(path);
    }
    *changed = status == NT_OK && there.count < folder->manifest.count;
    if (!*changed) return drop_manifest(&there, status);
    nt__manifest_free(&folder->manifest);
    folder->manifest = there;
    return NT_OK;
}

static nt_status clear(nt__record_folder *folder) {
    nt__manifest after = {0};
    bool changed;
    nt_status status = forget_gone(folder, &changed);
    if (status != NT_OK) return status;
    size_t listed = folder->manifest.count;
    status = nt__unlisted_add(folder->path, &folder->manifest, remove_file);
    if (status != NT_OK || (!changed && folder->manifest.count == listed)) return status;
    status = copy_kept(folder, &folder->manifest, &after);
    return status == NT_OK ? put_manifest(folder, &after) : drop_manifest(&after, status);
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static bool copy_text(nt__record_folder *folder, const char *text, const char **out) {
    *out = text ? nt__arena_strdup(&folder->texts, text) : NULL;
    return *out || !text;
}

static nt_status open_folder(nt__record_folder *folder, const nt__record_writer_options *options) {
    folder->retention = options->retention;
    if (!copy_text(folder, options->folder, &folder->path) || !copy_text(folder, options->run, &folder->run) ||
        !copy_text(folder, options->parent, &folder->parent) ||
        !copy_text(folder, options->retention.metric, &folder->retention.metric))
        return NT_OUT_OF_MEMORY;
    nt_status status = nt__make_folder(folder->path);
    if (status == NT_OK && !options->locked) status = nt__lock_folder(folder->path, &folder->lock);
    if (status != NT_OK) return status;
    nt__remove_leftovers(folder->path);
    status = nt__manifest_read(folder->path, &folder->manifest);
    return status == NT_OK ? clear(folder) : status;
}

nt_status nt__record_folder_open(const nt__record_writer_options *options, nt__record_folder *out) {
    *out = (nt__record_folder){.lock = -1};
    nt_status status = nt__retention_check(&options->retention);
    if (status == NT_OK) status = open_folder(out, options);
    if (status != NT_OK) nt__record_folder_close(out);
    return status;
}

void nt__record_folder_close(nt__record_folder *folder) {
    nt__manifest_free(&folder->manifest);
    nt__arena_free(&folder->texts);
    nt__unlock_folder(folder->lock);
    *folder = (nt__record_folder){.lock = -1};
}
