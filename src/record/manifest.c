/* The manifest of a folder of records, checkpoints.json: reading, writing, and the runs that it tells of.
 * Not here: which entries are kept (retention.c), which one is looked for (source.c).
 */
#include "record/record_internal.h"
#include "base/files.h"

#include <stdlib.h>
#include <string.h>

static nt_status no_memory(void) {
    return nt__fail(NT_OUT_OF_MEMORY, "out of host memory for a list of checkpoints");
}

bool nt__same_run(const char *a, const char *b) {
    return strcmp(nt__run_name(a), nt__run_name(b)) == 0;
}

const char *nt__run_name(const char *run) {
    return run ? run : NT__LEGACY_RUN;
}

bool nt__is_later(const nt__record_entry *a, const nt__record_entry *b) {
    return a->epoch != b->epoch ? a->epoch > b->epoch : a->batch > b->batch;
}

/* ---- an entry as JSON ------------------------------------------------------------------------------------------- */

json_t *nt__entry_to_json(const nt__record_entry *entry) {
    char digits[33];
    nt__hash_hex(entry->hash, digits);
    return json_pack("{s:s,s:s?,s:s?,s:I,s:I,s:I,s:s?,s:s?,s:o,s:s?,s:I,s:f,s:s?}", "file", entry->file, "run",
                     entry->run, "parent", entry->parent, "epoch", (json_int_t)entry->epoch, "batch",
                     (json_int_t)entry->batch, "step", (json_int_t)entry->step, "metric", entry->metric, "mode",
                     !entry->metric            ? NULL
                     : entry->higher_is_better ? "max"
                                               : "min",
                     "score", entry->scored ? json_real(entry->score) : json_null(), "stop_reason", entry->stop_reason,
                     "sequence", (json_int_t)entry->sequence, "written", entry->written, "hash",
                     entry->hashed ? digits : NULL);
}

/* What may be missing, or null, is NULL then. */
static nt_status read_text(const json_t *object, const char *key, const char **out) {
    const json_t *value = json_object_get(object, key);
    *out = json_string_value(value);
    if (*out || !value || json_is_null(value)) return NT_OK;
    return nt__fail(NT_INVALID, "'%s' is no string", key);
}

static nt_status read_integer(const json_t *object, const char *key, bool may_miss, int64_t *out) {
    const json_t *value = json_object_get(object, key);
    *out = json_integer_value(value);
    if ((!value && may_miss) || (json_is_integer(value) && *out >= 0)) return NT_OK;
    return nt__fail(NT_INVALID, "'%s' is no integer from 0", key);
}

static nt_status read_score(const json_t *object, nt__record_entry *out) {
    const json_t *value = json_object_get(object, "score");
    out->scored = json_is_number(value);
    out->score = json_number_value(value);
    return out->scored || !value || json_is_null(value) ? NT_OK : nt__fail(NT_INVALID, "'score' is no number");
}

static nt_status read_mode(const json_t *object, nt__record_entry *out) {
    const char *mode;
    nt_status status = read_text(object, "mode", &mode);
    if (status != NT_OK) return status;
    out->higher_is_better = mode && strcmp(mode, "max") == 0;
    if (!mode || out->higher_is_better || strcmp(mode, "min") == 0) return NT_OK;
    return nt__fail(NT_INVALID, "'mode' is '%s', it must be min or max", mode);
}

static nt_status read_hash(const json_t *object, nt__record_entry *out) {
    const char *digits;
    nt_status status = read_text(object, "hash", &digits);
    if (status != NT_OK || !digits) return status;
    out->hashed = nt__hash_from_hex(digits, &out->hash);
    return out->hashed ? NT_OK : nt__fail(NT_INVALID, "'hash' is '%s', it must be 32 hexadecimal digits", digits);
}

static nt_status read_file_name(const json_t *object, const char **out) {
    nt_status status = read_text(object, "file", out);
    if (status == NT_OK) status = nt__record_name_check(*out);
    return !*out && status == NT_OK ? NT_INVALID : status;
}

/* What is no object has no 'file'. The texts are borrowed from the JSON. */
static nt_status entry_from_json(const json_t *value, nt__record_entry *out) {
    *out = (nt__record_entry){.written = json_number_value(json_object_get(value, "written"))};
    nt_status status = read_file_name(value, &out->file);
    if (status == NT_OK) status = read_text(value, "run", &out->run);
    if (status == NT_OK) status = read_text(value, "parent", &out->parent);
    if (status == NT_OK) status = read_integer(value, "epoch", false, &out->epoch);
    if (status == NT_OK) status = read_integer(value, "batch", true, &out->batch);
    if (status == NT_OK) status = read_integer(value, "step", true, &out->step);
    if (status == NT_OK) status = read_integer(value, "sequence", true, &out->sequence);
    if (status == NT_OK) status = read_text(value, "metric", &out->metric);
    if (status == NT_OK) status = read_text(value, "stop_reason", &out->stop_reason);
    if (status == NT_OK) status = read_score(value, out);
    if (status == NT_OK) status = read_mode(value, out);
    return status == NT_OK ? read_hash(value, out) : status;
}

nt_status nt__entry_from_facts(const json_t *facts, nt__record_entry *out) {
    nt_status status = entry_from_json(json_object_get(facts, "entry"), out);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "the checkpoint's 'entry'");
}

/* ---- the list --------------------------------------------------------------------------------------------------- */

/* False: memory is short. */
static bool copy_text(nt__manifest *manifest, const char **text) {
    if (*text) *text = nt__arena_strdup(&manifest->arena, *text);
    return *text != NULL;
}

nt_status nt__manifest_add(nt__manifest *manifest, const nt__record_entry *entry) {
    if (!NT__GROW(manifest->entries, manifest->count, manifest->capacity)) return NT_OUT_OF_MEMORY;
    nt__record_entry *copy = &manifest->entries[manifest->count];
    *copy = *entry;
    const char **texts[] = {&copy->file, &copy->run, &copy->parent, &copy->metric, &copy->stop_reason};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i] && !copy_text(manifest, texts[i])) return NT_OUT_OF_MEMORY;
    manifest->count++;
    return NT_OK;
}

/* Those without a sequence are of before there was one. A run goes forward; of two runs only the clock is left. */
bool nt__was_written_later(const nt__record_entry *a, const nt__record_entry *b) {
    if (a->sequence || b->sequence) return a->sequence > b->sequence;
    if (nt__same_run(a->run, b->run) && (a->epoch != b->epoch || a->batch != b->batch)) return nt__is_later(a, b);
    return a->written > b->written;
}

nt_status nt__manifest_insert(nt__manifest *manifest, const nt__record_entry *entry) {
    nt_status status = nt__manifest_add(manifest, entry);
    if (status != NT_OK) return status;
    size_t place = manifest->count - 1;
    const nt__record_entry added = manifest->entries[place];
    while (place > 0 && nt__was_written_later(&manifest->entries[place - 1], &added)) place--;
    memmove(&manifest->entries[place + 1], &manifest->entries[place],
            (manifest->count - 1 - place) * sizeof *manifest->entries);
    manifest->entries[place] = added;
    return NT_OK;
}

int64_t nt__manifest_next(const nt__manifest *manifest) {
    int64_t newest = 0;
    for (size_t i = 0; i < manifest->count; i++)
        if (manifest->entries[i].sequence > newest) newest = manifest->entries[i].sequence;
    return newest < INT64_MAX ? newest + 1 : newest;
}

bool nt__takes_place_of(const nt__record_entry *fresh, const nt__record_entry *entry) {
    if (!nt__same_run(fresh->run, entry->run)) return false;
    return (fresh->epoch == entry->epoch && fresh->batch == entry->batch) || strcmp(fresh->file, entry->file) == 0;
}

const nt__record_entry *nt__manifest_find(const nt__manifest *manifest, const char *file) {
    for (size_t i = 0; i < manifest->count; i++)
        if (strcmp(manifest->entries[i].file, file) == 0) return &manifest->entries[i];
    return NULL;
}

void nt__manifest_free(nt__manifest *manifest) {
    nt__free(manifest->entries);
    nt__arena_free(&manifest->arena);
    *manifest = (nt__manifest){0};
}

/* ---- its file --------------------------------------------------------------------------------------------------- */

static nt_status take_list(const json_t *list, nt__manifest *out) {
    size_t i;
    const json_t *value;
    if (!json_is_array(list)) return nt__fail(NT_INVALID, "it has no list 'checkpoints'");
    json_array_foreach((json_t *)list, i, value) {
        nt__record_entry entry;
        nt_status status = entry_from_json(value, &entry);
        if (status == NT_OK && nt__manifest_find(out, entry.file))
            status = nt__fail(NT_INVALID, "the file '%s' is listed twice", entry.file);
        if (status != NT_OK) return nt__fail_in(status, "checkpoint %zu of the list", i + 1);
        status = nt__manifest_add(out, &entry);
        if (status != NT_OK) return status;
    }
    return NT_OK;
}

static nt_status check_version(const json_t *version) {
    if (!version || json_integer_value(version) == NT__RECORD_FORMAT) return NT_OK;
    return nt__fail(NT_INVALID, "it has format version %lld, and this is nitro %s, which reads version %d",
                    (long long)json_integer_value(version), NT__VERSION, NT__RECORD_FORMAT);
}

static nt_status parse(const char *text, size_t length, nt__manifest *out) {
    json_error_t error;
    json_t *all = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!all) return nt__fail(NT_INVALID, "line %d is not JSON: %s", error.line, error.text);
    nt_status status = check_version(json_object_get(all, "format_version"));
    if (status == NT_OK) status = take_list(json_object_get(all, "checkpoints"), out);
    json_decref(all);
    return status;
}

enum { MOST_BYTES = 64 << 20 }; /* some 100,000 checkpoints */

nt_status nt__manifest_read_file(const char *path, nt__manifest *out) {
    *out = (nt__manifest){0};
    char *text;
    size_t length;
    nt_status status = nt__read_kept(path, MOST_BYTES, &text, &length);
    if (status == NT_NOT_FOUND) {
        nt__fail_nothing();
        return NT_OK;
    }
    if (status != NT_OK) return status;
    status = parse(text, length, out);
    nt__free(text);
    if (status == NT_OK) return NT_OK;
    nt__manifest_free(out);
    if (status != NT_INVALID) return nt__fail_in(status, "reading '%s'", path);
    return nt__fail(status,
                    "the list of checkpoints '%s' cannot be read: %s; put it right, or move it away and name a "
                    "checkpoint's file instead",
                    path, nt_error_message());
}

nt_status nt__manifest_read(const char *folder, nt__manifest *out) {
    *out = (nt__manifest){0};
    char *path = nt__sprintf("%s/" NT__MANIFEST_FILE, folder);
    nt_status status = path ? nt__manifest_read_file(path, out) : NT_OUT_OF_MEMORY;
    nt__free(path);
    return status;
}

static json_t *list_of(const nt__manifest *manifest) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < manifest->count; i++) {
        if (json_array_append_new(list, nt__entry_to_json(&manifest->entries[i])) == 0) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

static nt_status write_text(const char *path, const char *text) {
    nt__new_file file;
    nt_status status = nt__new_file_open(path, true, &file);
    if (status != NT_OK) return status;
    status = nt__new_file_put(&file, text, strlen(text));
    if (status == NT_OK) return nt__new_file_finish(&file);
    nt__new_file_drop(&file);
    return status;
}

nt_status nt__manifest_write(const char *folder, const nt__manifest *manifest) {
    char *path = nt__sprintf("%s/" NT__MANIFEST_FILE, folder);
    if (!path) return NT_OUT_OF_MEMORY;
    json_t *all = json_pack("{s:i,s:o}", "format_version", NT__RECORD_FORMAT, "checkpoints", list_of(manifest));
    char *text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
    nt_status status = text ? write_text(path, text) : no_memory();
    free(text);
    json_decref(all);
    if (status != NT_OK) nt__fail_in(status, "writing '%s'", path);
    nt__free(path);
    return status;
}

/* ---- the runs --------------------------------------------------------------------------------------------------- */

static int compare_epochs(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* The one written last first, and what has no name last. */
static int compare_runs(const void *a, const void *b) {
    const nt__run_summary *left = a, *right = b;
    bool legacy_left = strcmp(left->id, NT__LEGACY_RUN) == 0, legacy_right = strcmp(right->id, NT__LEGACY_RUN) == 0;
    if (legacy_left != legacy_right) return legacy_left ? 1 : -1;
    return left->last > right->last ? -1 : 1;
}

static void score_run(const nt__manifest *manifest, nt__run_summary *run, const nt__record_entry *newest_scored) {
    if (!newest_scored) return;
    nt__retention pair = {.metric = newest_scored->metric ? newest_scored->metric : "",
                          .higher_is_better = newest_scored->higher_is_better};
    run->metric = newest_scored->metric;
    run->higher_is_better = pair.higher_is_better;
    const nt__record_entry *best = nt__manifest_best(manifest, run->id, false, &pair);
    run->scored = best != NULL;
    run->best = best ? best->score : 0;
}

static nt_status sum_up(nt__manifest *manifest, const char *id, nt__run_summary *out) {
    const nt__record_entry *newest_scored = NULL;
    int64_t *epochs = nt__arena_alloc(&manifest->arena, manifest->count, sizeof *epochs);
    if (!epochs) return NT_OUT_OF_MEMORY;
    *out = (nt__run_summary){.id = id, .epochs = epochs};
    for (size_t i = 0; i < manifest->count; i++) {
        const nt__record_entry *entry = &manifest->entries[i];
        if (!nt__same_run(entry->run, id)) continue;
        epochs[out->entries++] = entry->epoch;
        out->last = i;
        out->written = entry->written;
        if (entry->scored) newest_scored = entry;
    }
    qsort(epochs, out->entries, sizeof *epochs, compare_epochs);
    const nt__record_entry *newest = nt__manifest_latest(manifest, id);
    out->last_epoch = newest ? newest->epoch : 0;
    out->parent = newest ? newest->parent : NULL;
    score_run(manifest, out, newest_scored);
    return NT_OK;
}

nt_status nt__manifest_runs(nt__manifest *manifest, nt__run_summary **out, size_t *count) {
    *count = 0;
    *out = nt__arena_alloc(&manifest->arena, manifest->count, sizeof **out);
    if (!*out) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < manifest->count; i++) {
        const char *id = nt__run_name(manifest->entries[i].run);
        bool known = false;
        for (size_t r = 0; r < *count; r++) known = known || strcmp((*out)[r].id, id) == 0;
        nt_status status = known ? NT_OK : sum_up(manifest, id, &(*out)[*count]);
        if (status != NT_OK) return status;
        *count += !known;
    }
    if (*count > 1) qsort(*out, *count, sizeof **out, compare_runs);
    return NT_OK;
}
