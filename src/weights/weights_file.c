/* The file that weights are read from: which one it is, and what of it are weights.
 * Not here: other names for its arrays (weights_map.c), the model (load.c).
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "weights/model_pair.h"
#include "base/files.h"

const nt__named_array *nt__weights_find(const nt__weights *weights, const char *path) {
    for (size_t i = 0; i < weights->count; i++)
        if (strcmp(weights->arrays[i].name, path) == 0) return &weights->arrays[i];
    return NULL;
}

void nt__weights_free(nt__weights *weights) {
    for (size_t i = 0; i < weights->made_count; i++) nt_array_free(weights->made[i]);
    json_decref(weights->facts);
    nt__record_free(&weights->record);
    nt__arena_free(&weights->arena);
    *weights = (nt__weights){0};
}

/* ---- which file ------------------------------------------------------------------------------------------------- */

/* A file of that name comes first; else it is RUN:CHECKPOINT, which a bare word or a folder was perhaps to be. */
static nt_status find_path(nt__task *task, const char *source, nt__record_source *out) {
    *out = (nt__record_source){0};
    bool is_there = access(source, F_OK) == 0;
    if (!is_there && errno == ENOENT && !strpbrk(source, "/:"))
        return nt__fail(NT_NOT_FOUND,
                        "there is no file of weights '%s'; a checkpoint is named by its path, or as RUN:best or "
                        "RUN:latest, where RUN is latest or the id of a run in '%s', or the folder of another run",
                        source, task->settings.run_dir);
    if (nt__is_folder(source))
        return nt__fail(NT_INVALID,
                        "the weights '%s' are a folder: write %s:best or %s:latest for a checkpoint in it, or name a "
                        "file",
                        source, source, source);
    if (is_there || !strchr(source, ':')) {
        out->path = nt__strdup(source);
        return out->path ? NT_OK : NT_OUT_OF_MEMORY;
    }
    const nt__retention kept = nt__retention_of(&task->settings);
    nt_status status = nt__ends_in(source, ":best") ? nt__check_direction(&task->settings) : NT_OK;
    if (status == NT_OK) status = nt__record_source_find(source, task->settings.run_dir, &kept, out);
    if (status == NT_OK && !task->settings.quiet)
        nt__notice("%s: the weights are those of %s", task->experiment->name, out->path);
    return status;
}

/* ---- what of it are weights ------------------------------------------------------------------------------------- */

static const char *after_prefix(const char *name, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

static bool has_prefix(const nt__record *record, const char *prefix) {
    for (size_t i = 0; i < record->count; i++)
        if (after_prefix(record->arrays[i].name, prefix)) return true;
    return false;
}

/* Of a record the parameters that evaluations had, and the states of layers, without the counter of draws. */
static const char *path_in_record(const nt__record *record, const char *name) {
    bool averaged = has_prefix(record, NT__RECORD_AVERAGES);
    const char *path = after_prefix(name, averaged ? NT__RECORD_AVERAGES : NT__RECORD_PARAMETERS);
    if (path) return path;
    path = after_prefix(name, NT__RECORD_STATES);
    return path && strcmp(path, NT__DRAWS_PATH) != 0 ? path : NULL;
}

/* Of the arrays of Device fields that name one; NULL: it is none. */
static const char *field_of(const nt__weights *weights, const char *name) {
    if (weights->is_record) return after_prefix(name, NT__RECORD_FIELDS);
    return weights->facts ? after_prefix(name, NT__FIELD_ARRAYS) : NULL;
}

static void list_array(nt__weights *weights, const nt__named_array *array) {
    const char *path = weights->is_record ? path_in_record(&weights->record, array->name) : array->name;
    const char *field = field_of(weights, array->name);
    nt__named_array *to = field ? &weights->fields[weights->field_count] : &weights->arrays[weights->count];
    if (!field && !path) return;
    *to = *array;
    to->name = field ? field : path;
    weights->field_count += field != NULL;
    weights->count += !field;
}

static nt_status list_arrays(nt__weights *weights) {
    const nt__record *record = &weights->record;
    weights->arrays = nt__arena_alloc(&weights->arena, record->count + 1, sizeof *weights->arrays);
    weights->fields = nt__arena_alloc(&weights->arena, record->count + 1, sizeof *weights->fields);
    if (!weights->arrays || !weights->fields) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < record->count; i++) list_array(weights, &record->arrays[i]);
    weights->unknown = record->file.unknown;
    weights->unknown_count = record->file.unknown_count;
    return NT_OK;
}

static nt_status read_facts(const nt__safetensors *file, json_t **out) {
    for (size_t i = 0; i < file->metadata_count; i++)
        if (strcmp(file->metadata[i][0], NT__MODEL_KEY) == 0) return nt__model_facts_parse(file->metadata[i][1], out);
    return NT_OK;
}

static nt_status read_file(const char *path, nt__weights *out) {
    nt__record *record = &out->record;
    nt_status status = nt__safetensors_read(path, &record->file);
    if (status != NT_OK) return status;
    record->arrays = record->file.arrays;
    record->count = record->file.count;
    out->is_record = has_prefix(record, NT__RECORD_PARAMETERS);
    if (!out->is_record) {
        status = read_facts(&record->file, &out->facts);
        return status == NT_OK ? NT_OK : nt__fail_in(status, "reading '%s'", path);
    }
    nt__record_free(record);
    status = nt__record_load(path, record);
    out->facts = json_incref(record->facts);
    if (status == NT_OK) status = nt__model_facts_check(out->facts);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "reading '%s'", path);
}

nt_status nt__weights_read(nt__task *task, const char *source, const char *const *maps, size_t map_count,
                           nt__weights *out) {
    nt__record_source found;
    *out = (nt__weights){0};
    nt_status status = find_path(task, source, &found);
    if (status == NT_OK) status = read_file(found.path, out);
    if (status == NT_OK) status = list_arrays(out);
    if (status == NT_OK) status = nt__weights_map(out, maps, map_count);
    if (status == NT_OK && out->unknown_count && !out->is_mapped)
        status = nt__fail_in(nt__fail_unknown_array(&out->unknown[0]), "reading '%s'", found.path);
    nt__record_source_free(&found);
    if (status != NT_OK) nt__weights_free(out);
    return status;
}
