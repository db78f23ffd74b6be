/* Finding a record: the newest, the best, one that a text names; and loading it with a look at the manifest.
 * Not here: what a run does with it (run/).
 */
#include "record/record_internal.h"
#include "base/files.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- in a manifest ---------------------------------------------------------------------------------------------- */

static const char *run_written_last(const nt__manifest *manifest) {
    return manifest->count ? nt__run_name(manifest->entries[manifest->count - 1].run) : NULL;
}

const nt__record_entry *nt__manifest_latest(const nt__manifest *manifest, const char *run) {
    const nt__record_entry *newest = NULL;
    if (!run) run = run_written_last(manifest);
    for (size_t i = 0; i < manifest->count; i++) {
        const nt__record_entry *entry = &manifest->entries[i];
        if (nt__same_run(entry->run, run) && (!newest || !nt__is_later(newest, entry))) newest = entry;
    }
    return newest;
}

const nt__record_entry *nt__manifest_best(const nt__manifest *manifest, const char *run, bool all_runs,
                                          const nt__retention *retention) {
    const nt__record_entry *best = NULL;
    if (!run) run = run_written_last(manifest);
    for (size_t i = 0; i < manifest->count; i++) {
        const nt__record_entry *entry = &manifest->entries[i];
        if ((!all_runs && !nt__same_run(entry->run, run)) || !nt__is_ranked(retention, entry)) continue;
        bool better = !best || (retention->higher_is_better ? entry->score > best->score : entry->score < best->score);
        if (better) best = entry;
    }
    return best;
}

/* ---- what a lookup says ----------------------------------------------------------------------------------------- */

/* "A1b2C3d4, legacy" */
static void add_runs(nt__manifest *manifest, nt__text *out) {
    nt__run_summary *runs;
    size_t count;
    if (nt__manifest_runs(manifest, &runs, &count) != NT_OK) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++) nt__text_add(out, "%s%s", i ? ", " : "", runs[i].id);
}

static bool same_pair(const nt__record_entry *a, const nt__record_entry *b) {
    bool same_metric = a->metric && b->metric ? strcmp(a->metric, b->metric) == 0 : a->metric == b->metric;
    return same_metric && a->higher_is_better == b->higher_is_better;
}

static bool is_looked_at(const nt__record_entry *entry, const char *run, bool all_runs) {
    return entry->scored && (all_runs || nt__same_run(entry->run, run));
}

/* "val_loss, lower is better (3), accuracy, higher is better (1)"; how many pairs there are. */
static size_t add_pairs(const nt__manifest *manifest, const char *run, bool all_runs, nt__text *out) {
    size_t pairs = 0;
    char text[NT__PAIR_TEXT];
    for (size_t i = 0; i < manifest->count; i++) {
        const nt__record_entry *entry = &manifest->entries[i];
        if (!is_looked_at(entry, run, all_runs)) continue;
        size_t count = 0;
        bool is_first = true;
        for (size_t j = 0; j < manifest->count; j++) {
            const nt__record_entry *other = &manifest->entries[j];
            if (!is_looked_at(other, run, all_runs) || !same_pair(entry, other)) continue;
            is_first = is_first && j >= i;
            count++;
        }
        if (!is_first) continue;
        nt__text_add(out, "%s%s (%zu)", pairs++ ? "; " : "",
                     nt__pair_text(entry->metric, entry->higher_is_better, text), count);
    }
    return pairs;
}

static nt_status fail_with(nt__text *text, nt_status status) {
    status = text->failed ? NT_OUT_OF_MEMORY : nt__fail(status, "%s", text->data);
    nt__text_free(text);
    return status;
}

static nt_status fail_no_run(nt__manifest *manifest, const char *folder, const char *run) {
    nt__text text = {0};
    nt__text_add(&text, "the folder '%s' has no checkpoint of a run '%s'; it has those of: ", folder, run);
    add_runs(manifest, &text);
    nt__text_add(&text, ". nt_checkpoint_runs lists them");
    return fail_with(&text, NT_NOT_FOUND);
}

static nt_status fail_no_best(const nt__manifest *manifest, const char *folder, const char *run, bool all_runs,
                              const nt__retention *retention) {
    char pair[NT__PAIR_TEXT];
    nt__text text = {0};
    nt__text_add(&text,
                 "no checkpoint %s%s in '%s' was scored by %s; scored are: ", all_runs ? "of any run" : "of run ",
                 all_runs ? "" : run, folder, nt__pair_text(retention->metric, retention->higher_is_better, pair));
    bool any = add_pairs(manifest, run, all_runs, &text) > 0;
    nt__text_say(&text, any ? ". Name one of these as checkpoint_metric (and checkpoint_mode), or ask for the latest"
                            : "none. Ask for the latest; a run that is given checkpoint_metric, a value of its "
                              "validation, scores its checkpoints by it");
    return fail_with(&text, NT_NOT_FOUND);
}

/* A best of several metrics is the best of one of them. */
static nt_status warn_of_pairs(const nt__manifest *manifest, const char *run, bool all_runs,
                               const nt__retention *retention) {
    char pair[NT__PAIR_TEXT];
    nt__text text = {0};
    bool several = add_pairs(manifest, run, all_runs, &text) > 1;
    nt_status status = text.failed ? NT_OUT_OF_MEMORY : NT_OK;
    if (several && status == NT_OK)
        status = nt__warn("the checkpoints looked at have several scores: %s; the best is by %s", text.data,
                          nt__pair_text(retention->metric, retention->higher_is_better, pair));
    nt__text_free(&text);
    return status;
}

static void tell_which_run(nt__manifest *manifest, const char *folder, const char *run) {
    nt__run_summary *runs;
    size_t count;
    if (nt__manifest_runs(manifest, &runs, &count) == NT_OK && count > 1)
        nt__notice("'%s' holds checkpoints of %zu runs; the one written last, %s, is read", folder, count, run);
}

/* ---- records that are not as they were written ------------------------------------------------------------------ */

/* A kill between the rename of a record that was written again and that of the manifest leaves a hash of before in the
 * manifest. The record is whole, by the hash that it states itself, and it is of that run; so it is taken. */
static nt_status check_listed(const nt__record_entry *entry, const nt__record *record, nt__hash hash) {
    const char *run = json_string_value(json_object_get(record->facts, "run"));
    if (!entry->hashed || nt__hash_equal(entry->hash, hash) || nt__same_run(entry->run, run)) return NT_OK;
    char listed[33], found[33];
    nt__hash_hex(entry->hash, listed);
    nt__hash_hex(hash, found);
    return nt__fail(NT_INVALID,
                    "'%s' is another file than the one that " NT__MANIFEST_FILE " lists: it is of run %s and has the "
                    "hash %s, listed is run %s and %s",
                    entry->file, nt__run_name(run), found, nt__run_name(entry->run), listed);
}

static nt_status load(const char *path, const nt__record_entry *entry, nt__record *out) {
    nt__hash hash;
    nt_status status = nt__record_read_hashed(path, out, &hash);
    if (status != NT_OK || !entry) return status;
    status = check_listed(entry, out, hash);
    if (status != NT_OK) nt__record_free(out);
    return status;
}

/* The newest record of the run before `bound` that loads. */
static const nt__record_entry *find_older(const nt__manifest *manifest, const char *folder,
                                          const nt__record_entry *bound) {
    while (bound) {
        const nt__record_entry *older = NULL;
        for (size_t i = 0; i < manifest->count; i++) {
            const nt__record_entry *entry = &manifest->entries[i];
            if (nt__same_run(entry->run, bound->run) && nt__is_later(bound, entry) &&
                (!older || nt__is_later(entry, older)))
                older = entry;
        }
        char *path = older ? nt__sprintf("%s/%s", folder, older->file) : NULL;
        nt__record record;
        bool good = path && load(path, older, &record) == NT_OK;
        if (good) nt__record_free(&record);
        nt__free(path);
        if (good) return older;
        bound = older;
    }
    return NULL;
}

static nt_status advise(nt_status status, const nt__manifest *manifest, const char *folder,
                        const nt__record_entry *entry) {
    char message[NT__MESSAGE];
    memcpy(message, nt_error_message(), sizeof message);
    const nt__record_entry *older = find_older(manifest, folder, entry);
    if (!older) return nt__fail(status, "%s; the run has no older checkpoint that loads", message);
    return nt__fail(status, "%s; an older one loads: '%s/%s' (epoch %lld, step %lld)", message, folder, older->file,
                    (long long)older->epoch, (long long)older->step);
}

/* ---- a source --------------------------------------------------------------------------------------------------- */

void nt__record_source_free(nt__record_source *source) {
    nt__free(source->path);
    nt__free(source->run);
    *source = (nt__record_source){0};
}

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

/* What is found out about a record that the manifest lists. */
static nt_status take_entry(const nt__manifest *manifest, const char *folder, const nt__record_entry *entry,
                            nt__record_source *out) {
    const nt__record_entry *newest = nt__manifest_latest(manifest, nt__run_name(entry->run));
    *out = (nt__record_source){.path = nt__sprintf("%s/%s", folder, entry->file),
                               .run = nt__strdup(nt__run_name(entry->run)),
                               .epoch = entry->epoch,
                               .listed = true,
                               .is_newest = entry == newest,
                               .newest_epoch = newest ? newest->epoch : 0};
    nt_status status = out->path && out->run ? NT_OK : NT_OUT_OF_MEMORY;
    if (status == NT_OK && !exists(out->path))
        status =
            advise(nt__fail(NT_NOT_FOUND, "'%s' lists the checkpoint '%s' of run %s, epoch %lld, but that file is gone",
                            folder, entry->file, out->run, (long long)entry->epoch),
                   manifest, folder, entry);
    if (status != NT_OK) nt__record_source_free(out);
    return status;
}

/* ---- a source that is a path ------------------------------------------------------------------------------------ */

static bool same_folder(const char *path, const char *folder) {
    struct stat one, other;
    char *own = nt__folder_of(path);
    bool same = own && stat(own, &one) == 0 && stat(folder, &other) == 0 && one.st_dev == other.st_dev &&
                one.st_ino == other.st_ino;
    nt__free(own);
    return same;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Of a file that no manifest lists, the record itself says what it is. */
static nt_status take_file(const char *path, nt__record_source *out) {
    json_t *facts;
    nt_status status = nt__record_read_facts(path, &facts);
    if (status != NT_OK) return status;
    const char *run = json_string_value(json_object_get(facts, "run"));
    *out = (nt__record_source){.path = nt__strdup(path),
                               .run = nt__strdup(nt__run_name(run)),
                               .epoch = json_integer_value(json_object_get(facts, "epoch"))};
    json_decref(facts);
    if (out->path && out->run) return NT_OK;
    nt__record_source_free(out);
    return NT_OUT_OF_MEMORY;
}

static nt_status find_path(const char *path, const char *folder, const nt__manifest *manifest, nt__record_source *out) {
    const nt__record_entry *entry = same_folder(path, folder) ? nt__manifest_find(manifest, base_name(path)) : NULL;
    if (entry) return take_entry(manifest, folder, entry, out);
    if (!exists(path))
        return nt__fail(NT_NOT_FOUND,
                        "there is no checkpoint '%s': give the path of one, or RUN:best or RUN:latest, "
                        "where RUN is latest or the id of a run in '%s', or the folder of another run",
                        path, folder);
    if (nt__is_folder(path))
        return nt__fail(NT_INVALID,
                        "'%s' is a folder: name the file of a checkpoint in it, write %s:best or %s:latest, or resume "
                        "with that folder as run_dir",
                        path, path, path);
    return take_file(path, out);
}

/* ---- a source that is a pair ------------------------------------------------------------------------------------ */

static const char forms[] =
    "a source is a path, or RUN:CHECKPOINT with the run latest, all, an id or a folder, and the "
    "checkpoint best or latest";

static bool is_word(const char *text, const char *word) {
    return strcmp(text, word) == 0;
}

static nt_status check_pair(const char *run, const char *checkpoint) {
    if (is_word(checkpoint, "current"))
        return nt__fail(NT_INVALID, "'%s:current' is no checkpoint: what a run has in memory is taken from its handle",
                        run);
    if (!is_word(checkpoint, "best") && !is_word(checkpoint, "latest"))
        return nt__fail(NT_INVALID, "'%s:%s' names no checkpoint: %s", run, checkpoint, forms);
    if (is_word(run, "all") && is_word(checkpoint, "latest"))
        return nt__fail(NT_INVALID, "'all:latest' could be of any run: write latest:latest for that of the run written "
                                    "last, or all:best");
    return NT_OK;
}

static nt_status find_pair(const char *word, const char *checkpoint, const char *folder, const nt__retention *retention,
                           nt__manifest *manifest, nt__record_source *out) {
    nt_status status = check_pair(word, checkpoint);
    if (status != NT_OK) return status;
    if (manifest->count == 0) return nt__fail(NT_NOT_FOUND, "found no checkpoint in '%s'", folder);
    bool all = is_word(word, "all"), last = is_word(word, "latest"), best = is_word(checkpoint, "best");
    const char *run = all || last ? run_written_last(manifest) : word;
    if (!nt__manifest_latest(manifest, run)) return fail_no_run(manifest, folder, run);
    if (last) tell_which_run(manifest, folder, run);
    const nt__record_entry *entry =
        best ? nt__manifest_best(manifest, run, all, retention) : nt__manifest_latest(manifest, run);
    if (!entry) return fail_no_best(manifest, folder, run, all, retention);
    status = best ? warn_of_pairs(manifest, run, all, retention) : NT_OK;
    return status == NT_OK ? take_entry(manifest, folder, entry, out) : status;
}

/* ---- a source that is a pair with a folder ---------------------------------------------------------------------- */

/* "digits, words": up to six of the folders in `parent` that have checkpoints. */
static void add_folders(const char *parent, nt__text *out) {
    enum { MOST = 6 };
    int found = 0;
    const struct dirent *entry;
    DIR *entries = opendir(parent);
    while (entries && found < MOST && (entry = readdir(entries))) {
        char *manifest = nt__sprintf("%s/%s/" NT__MANIFEST_FILE, parent, entry->d_name);
        out->failed |= !manifest;
        if (manifest && exists(manifest)) nt__text_add(out, "%s%s", found++ ? ", " : "", entry->d_name);
        nt__free(manifest);
    }
    if (entries) closedir(entries);
    if (!found) nt__text_say(out, "none");
}

static nt_status fail_no_folder(const char *name, const char *checkpoint) {
    nt__text text = {0};
    char *parent = nt__folder_of(name);
    nt__text_add(&text,
                 "'%s:%s' names no checkpoint: there is no folder '%s'; folders with checkpoints in '%s' are: ", name,
                 checkpoint, name, parent ? parent : "");
    if (parent) add_folders(parent, &text);
    text.failed |= !parent;
    nt__free(parent);
    return fail_with(&text, NT_NOT_FOUND);
}

/* That of the run written last in another folder, which is then a path like another. */
static nt_status find_elsewhere(const char *other, const char *checkpoint, const char *folder,
                                const nt__retention *retention, const nt__manifest *manifest, nt__record_source *out) {
    nt__manifest there;
    nt__record_source found = {0};
    nt_status status = check_pair(other, checkpoint);
    if (status == NT_OK && !nt__is_folder(other)) status = fail_no_folder(other, checkpoint);
    if (status == NT_OK) status = nt__manifest_read(other, &there);
    if (status != NT_OK) return status;
    status = find_pair("latest", checkpoint, other, retention, &there, &found);
    if (status == NT_OK && found.path) status = find_path(found.path, folder, manifest, out);
    nt__record_source_free(&found);
    nt__manifest_free(&there);
    return status;
}

/* A run comes before a folder of that name in the current one. */
static bool is_folder_name(const char *name, const nt__manifest *manifest) {
    if (strchr(name, '/')) return true;
    bool is_run = is_word(name, "latest") || is_word(name, "all") || nt__manifest_latest(manifest, name);
    return !is_run && nt__is_folder(name);
}

/* ---- a source that is a text ------------------------------------------------------------------------------------ */

/* Where the run or the folder of a pair ends; NULL: the text is a path. */
static const char *pair_colon(const char *text) {
    const char *colon = strrchr(text, ':');
    if (!colon || strchr(colon, '/') || nt__ends_in(text, NT__RECORD_EXTENSION) || exists(text)) return NULL;
    return colon;
}

static nt_status find_named(const char *name, const char *checkpoint, const char *folder,
                            const nt__retention *retention, nt__manifest *manifest, nt__record_source *out) {
    return is_folder_name(name, manifest) ? find_elsewhere(name, checkpoint, folder, retention, manifest, out)
                                          : find_pair(name, checkpoint, folder, retention, manifest, out);
}

static nt_status find(const char *text, const char *folder, const nt__retention *retention, nt__manifest *manifest,
                      nt__record_source *out) {
    const char *colon = pair_colon(text);
    if (colon) {
        char *run = nt__sprintf("%.*s", (int)(colon - text), text);
        nt_status status = run ? find_named(run, colon + 1, folder, retention, manifest, out) : NT_OUT_OF_MEMORY;
        nt__free(run);
        return status;
    }
    if (!exists(text) && (is_word(text, "best") || is_word(text, "latest")))
        return nt__fail(NT_INVALID, "'%s' does not say of which run: write latest:%s for the run written last", text,
                        text);
    if (!exists(text) && nt__manifest_latest(manifest, text))
        return nt__fail(NT_INVALID, "'%s' is a run: write %s:best or %s:latest", text, text, text);
    if (!exists(text) && !strchr(text, '/') && !nt__ends_in(text, NT__RECORD_EXTENSION))
        return nt__fail(NT_NOT_FOUND, "'%s' is no file: %s", text, forms);
    return find_path(text, folder, manifest, out);
}

nt_status nt__record_source_find(const char *text, const char *folder, const nt__retention *retention,
                                 nt__record_source *out) {
    nt__manifest manifest;
    *out = (nt__record_source){0};
    nt_status status = nt__manifest_read(folder, &manifest);
    if (status != NT_OK) return status;
    status = find(text, folder, retention, &manifest, out);
    nt__manifest_free(&manifest);
    return status;
}

nt_status nt__record_source_auto(const char *folder, nt__record_source *out) {
    nt__manifest manifest;
    *out = (nt__record_source){0};
    nt_status status = nt__manifest_read(folder, &manifest);
    if (status != NT_OK) return status;
    /* A manifest that is gone takes no record with it. */
    if (manifest.count == 0) status = nt__unlisted_add(folder, &manifest, NULL);
    if (status != NT_OK) {
        nt__manifest_free(&manifest);
        return status;
    }
    const nt__record_entry *entry = nt__manifest_latest(&manifest, NULL);
    if (entry) tell_which_run(&manifest, folder, nt__run_name(entry->run));
    status = entry ? take_entry(&manifest, folder, entry, out) : NT_OK;
    nt__manifest_free(&manifest);
    return status;
}

/* ---- loading ---------------------------------------------------------------------------------------------------- */

nt_status nt__record_load(const char *path, nt__record *out) {
    nt__manifest manifest;
    *out = (nt__record){0};
    char *folder = nt__folder_of(path);
    nt_status status = folder ? nt__manifest_read(folder, &manifest) : NT_OUT_OF_MEMORY;
    if (status == NT_OK) {
        const nt__record_entry *entry = nt__manifest_find(&manifest, base_name(path));
        status = load(path, entry, out);
        if (status != NT_OK && status != NT_OUT_OF_MEMORY && entry) status = advise(status, &manifest, folder, entry);
        nt__manifest_free(&manifest);
    }
    nt__free(folder);
    return status;
}
