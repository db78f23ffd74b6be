/* The public side: what a record says of itself, the runs of a folder, finding a record.
 * Not here: how a record is found (source.c).
 */
#include "nitro/checkpoint.h"

#include "record/record_internal.h"

/* ---- one record ------------------------------------------------------------------------------------------------- */

/* The public part comes first, so that its address is that of the whole. */
typedef struct whole_info {
    nt_checkpoint_about seen;
    nt__arena texts;
} whole_info;

void nt_checkpoint_info_free(nt_checkpoint_about *info) {
    whole_info *all = (whole_info *)info;
    if (!all) return;
    nt__arena_free(&all->texts);
    nt__free(all);
}

/* False: memory is short. Anything but a string is NULL. */
static bool copy_text(whole_info *all, const json_t *value, const char **out) {
    const char *text = json_string_value(value);
    *out = text ? nt__arena_strdup(&all->texts, text) : NULL;
    return *out || !text;
}

static nt_status copy_texts(whole_info *all, const char *path, const json_t *facts) {
    nt_checkpoint_about *seen = &all->seen;
    const struct {
        const char *key, **out;
    } texts[] = {{"framework_version", &seen->framework_version},
                 {"run", &seen->run},
                 {"parent", &seen->parent},
                 {"preset", &seen->preset},
                 {"stop_reason", &seen->stop_reason}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!copy_text(all, json_object_get(facts, texts[i].key), texts[i].out)) return NT_OUT_OF_MEMORY;
    if (!seen->run) seen->run = NT__LEGACY_RUN;
    seen->path = nt__arena_strdup(&all->texts, path);
    return seen->path ? NT_OK : NT_OUT_OF_MEMORY;
}

static void copy_numbers(nt_checkpoint_about *seen, const json_t *facts) {
    const struct {
        const char *key;
        int64_t *out;
    } numbers[] = {{"format_version", &seen->format_version},
                   {"epoch", &seen->epoch},
                   {"batch", &seen->batch},
                   {"step", &seen->step},
                   {"seed", &seen->seed}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i].out = json_integer_value(json_object_get(facts, numbers[i].key));
    seen->written = json_number_value(json_object_get(json_object_get(facts, "entry"), "written"));
}

static nt_status copy_metrics(whole_info *all, const json_t *metrics) {
    const char *name;
    const json_t *value;
    nt_checkpoint_metric *values = nt__arena_alloc(&all->texts, json_object_size(metrics), sizeof *values);
    if (!values) return NT_OUT_OF_MEMORY;
    all->seen.metrics = values;
    json_object_foreach((json_t *)metrics, name, value) {
        nt_checkpoint_metric *copy = &values[all->seen.metric_count];
        if (!nt__record_number_of(value, &copy->value)) continue;
        copy->name = nt__arena_strdup(&all->texts, name);
        if (!copy->name) return NT_OUT_OF_MEMORY;
        all->seen.metric_count++;
    }
    return NT_OK;
}

static nt_status copy_anchors(whole_info *all, const json_t *hashes) {
    size_t count = json_array_size(hashes);
    if (count == 0) return NT_OK;
    const char **copies = nt__arena_alloc(&all->texts, count, sizeof *copies);
    for (size_t i = 0; copies && i < count; i++)
        if (!copy_text(all, json_array_get(hashes, i), &copies[i])) return NT_OUT_OF_MEMORY;
    all->seen.anchor_hashes = copies;
    all->seen.anchor_count = count;
    return copies ? NT_OK : NT_OUT_OF_MEMORY;
}

static nt_status copy_facts(whole_info *all, const char *path, const json_t *facts) {
    copy_numbers(&all->seen, facts);
    nt_status status = copy_texts(all, path, facts);
    if (status == NT_OK) status = copy_metrics(all, json_object_get(facts, "metrics"));
    return status == NT_OK ? copy_anchors(all, json_object_get(facts, "anchor_hashes")) : status;
}

static nt_status read_info(const char *path, nt_checkpoint_about **out) {
    json_t *facts;
    nt_status status = nt__record_read_facts(path, &facts);
    if (status != NT_OK) return status;
    whole_info *all = nt__alloc(1, sizeof *all);
    status = all ? copy_facts(all, path, facts) : NT_OUT_OF_MEMORY;
    json_decref(facts);
    if (status == NT_OK)
        *out = &all->seen;
    else if (all)
        nt_checkpoint_info_free(&all->seen);
    return status;
}

nt_status nt_checkpoint_info(const char *path, nt_checkpoint_about **out) {
    if (!nt__given(path, "nt_checkpoint_info", "path") || !nt__given(out, "nt_checkpoint_info", "out"))
        return NT_INVALID;
    *out = NULL;
    return read_info(path, out);
}

nt_status nt_checkpoint_find(const char *text, const char *folder, const char *metric, bool higher_is_better,
                             nt_checkpoint_about **out) {
    if (!nt__given(text, "nt_checkpoint_find", "text") || !nt__given(folder, "nt_checkpoint_find", "folder") ||
        !nt__given(out, "nt_checkpoint_find", "out"))
        return NT_INVALID;
    *out = NULL;
    nt__retention by = nt__retention_default();
    if (metric) by.metric = metric;
    by.higher_is_better = higher_is_better;
    nt__record_source source;
    nt_status status = nt__record_source_find(text, folder, &by, &source);
    if (status == NT_OK) status = read_info(source.path, out);
    nt__record_source_free(&source);
    return status;
}

/* ---- the runs of a folder --------------------------------------------------------------------------------------- */

typedef struct run_list {
    nt_checkpoint_run_list seen;
    nt__manifest manifest; /* whose arena has everything that is pointed at */
} run_list;

void nt_checkpoint_runs_free(nt_checkpoint_run_list *runs) {
    run_list *all = (run_list *)runs;
    if (!all) return;
    nt__manifest_free(&all->manifest);
    nt__free(all);
}

static nt_status list_runs(run_list *all, const char *folder) {
    nt__run_summary *runs;
    nt_status status = nt__manifest_read(folder, &all->manifest);
    if (status == NT_OK) status = nt__manifest_runs(&all->manifest, &runs, &all->seen.count);
    if (status != NT_OK) return status;
    nt_checkpoint_run *copies = nt__arena_alloc(&all->manifest.arena, all->seen.count, sizeof *copies);
    for (size_t i = 0; copies && i < all->seen.count; i++)
        copies[i] = (nt_checkpoint_run){.id = runs[i].id,
                                        .checkpoints = runs[i].entries,
                                        .epochs = runs[i].epochs,
                                        .scored = runs[i].scored,
                                        .metric = runs[i].metric,
                                        .higher_is_better = runs[i].higher_is_better,
                                        .best = runs[i].best,
                                        .written = runs[i].written,
                                        .parent = runs[i].parent};
    all->seen.runs = copies;
    return copies ? NT_OK : NT_OUT_OF_MEMORY;
}

nt_status nt_checkpoint_runs(const char *folder, nt_checkpoint_run_list **out) {
    if (!nt__given(folder, "nt_checkpoint_runs", "folder") || !nt__given(out, "nt_checkpoint_runs", "out"))
        return NT_INVALID;
    *out = NULL;
    run_list *all = nt__alloc(1, sizeof *all);
    nt_status status = all ? list_runs(all, folder) : NT_OUT_OF_MEMORY;
    if (status == NT_OK)
        *out = &all->seen;
    else if (all)
        nt_checkpoint_runs_free(&all->seen);
    return status;
}
