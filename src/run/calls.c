/* What a user asks a run beside training: its parameters and layer states, files of them, what it says of itself.
 * Not here: values of Device fields (set_device.c), lines for the log (log_calls.c).
 */
#include <string.h>

#include "run/run_internal.h"
#include "base/files.h"

/* ---- parameters ------------------------------------------------------------------------------------------------- */

bool nt_run_parameter_at(const nt_run *run, size_t index, nt_parameter_info *out) {
    NT__USE(run, "nt_run_parameter_at");
    if (!used || !nt__given(out, "nt_run_parameter_at", "out")) return false;
    if (index >= run->traced.layout.row_count) return false;
    const nt__row *row = &run->traced.layout.rows[index];
    *out = (nt_parameter_info){.path = row->path,
                               .group = run->traced.layout.groups[row->group].name,
                               .offset = row->offset,
                               .length = row->length,
                               .dtype = row->type.dtype,
                               .shape = row->type.shape};
    return true;
}

static const nt__row *find_row(const nt__traced *traced, const char *path) {
    for (size_t i = 0; i < traced->layout.row_count; i++)
        if (strcmp(traced->layout.rows[i].path, path) == 0) return &traced->layout.rows[i];
    return NULL;
}

static void fail_unknown_parameter(const nt__traced *traced, const char *path) {
    nt__text paths = {0};
    for (size_t i = 0; i < traced->layout.row_count; i++)
        nt__text_add(&paths, "%s%s", i ? ", " : "", traced->layout.rows[i].path);
    nt__fail(NT_NOT_FOUND, "experiment '%s' has no parameter '%s'; its parameters are: %s",
             traced->task->experiment->name, path, paths.data ? paths.data : "");
    nt__text_free(&paths);
}

nt_array *nt_run_parameter(nt_run *run, const char *path) {
    NT__USE(run, "nt_run_parameter");
    if (!used || !nt__given(path, "nt_run_parameter", "path")) return NULL;
    if (nt__check_laid_out(&run->traced) != NT_OK) return NULL;
    const nt__row *row = find_row(&run->traced, path);
    if (!row) {
        fail_unknown_parameter(&run->traced, path);
        return NULL;
    }
    return nt__parameter_read(&run->resident, row);
}

/* ---- layer states ----------------------------------------------------------------------------------------------- */

bool nt_run_state_at(const nt_run *run, size_t index, nt_state_info *out) {
    size_t place;
    NT__USE(run, "nt_run_state_at");
    if (!used || !nt__given(out, "nt_run_state_at", "out")) return false;
    const nt__leaf *state = nt__is_laid_out(&run->traced) ? nt__layer_state(&run->traced, index, &place) : NULL;
    if (!state) return false;
    *out = (nt_state_info){.path = state->path, .dtype = state->type.dtype, .shape = state->type.shape};
    return true;
}

static void fail_unknown_state(const nt_run *run, const char *path) {
    nt__text paths = {0};
    nt_state_info info;
    for (size_t i = 0; nt_run_state_at(run, i, &info); i++) nt__text_add(&paths, "%s%s", i ? ", " : "", info.path);
    nt__fail(NT_NOT_FOUND, "experiment '%s' has no layer state '%s'; its layer states are: %s",
             run->task.experiment->name, path, paths.length ? paths.data : "none");
    nt__text_free(&paths);
}

nt_array *nt_run_state(nt_run *run, const char *path) {
    nt_state_info info;
    nt_array *copy;
    NT__USE(run, "nt_run_state");
    if (!used || !nt__given(path, "nt_run_state", "path")) return NULL;
    if (nt__check_laid_out(&run->traced) != NT_OK) return NULL;
    for (size_t i = 0; nt_run_state_at(run, i, &info); i++)
        if (strcmp(info.path, path) == 0) return nt__layer_state_read(&run->resident, i, &copy) == NT_OK ? copy : NULL;
    fail_unknown_state(run, path);
    return NULL;
}

/* ---- files of them ---------------------------------------------------------------------------------------------- */

nt_status nt_run_save(nt_run *run, const char *path) {
    NT__USE(run, "nt_run_save");
    if (!used || !nt__given(path, "nt_run_save", "path")) return NT_INVALID;
    return nt__check_laid_out(&run->traced) == NT_OK ? nt__weights_save(&run->resident, path) : NT_INVALID;
}

nt_status nt_run_load_mapped(nt_run *run, const char *source, const char *const *maps, size_t map_count) {
    NT__USE_ALONE(run, "nt_run_load_mapped");
    if (!used || !nt__given(source, "nt_run_load_mapped", "source")) return NT_INVALID;
    return nt__weights_load(&run->waiting, source, maps, map_count);
}

nt_status nt_run_load(nt_run *run, const char *path) {
    NT__USE_ALONE(run, "nt_run_load");
    return used && nt__given(path, "nt_run_load", "path") ? nt__weights_load(&run->waiting, path, NULL, 0) : NT_INVALID;
}

/* ---- what it says of itself ------------------------------------------------------------------------------------- */

int64_t nt_run_step(const nt_run *run) {
    NT__USE(run, "nt_run_step");
    return used ? used->resident.step : -1;
}

int64_t nt_run_epoch(const nt_run *run) {
    NT__USE(run, "nt_run_epoch");
    return used ? used->resident.epoch : -1;
}

const char *nt_run_dir(const nt_run *run) {
    NT__USE(run, "nt_run_dir");
    return used ? used->task.settings.run_dir : NULL;
}

bool nt_run_has_split(const nt_run *run, const char *split) {
    NT__USE(run, "nt_run_has_split");
    if (!used || !nt__given(split, "nt_run_has_split", "split")) return false;
    return nt__data_split_find(run->traced.data, split) != NULL;
}

nt_status nt_run_report(const nt_run *run, FILE *out) {
    NT__USE(run, "nt_run_report");
    if (!used || !nt__given(out, "nt_run_report", "out")) return NT_INVALID;
    nt__text text = {0};
    nt__report_add(&run->resident, &text);
    return nt__text_write(&text, out);
}

nt_status nt_run_summary(const nt_run *run, FILE *out) {
    NT__USE(run, "nt_run_summary");
    if (!used || !nt__given(out, "nt_run_summary", "out")) return NT_INVALID;
    if (!run->traced.model && nt__check_laid_out(&run->traced) != NT_OK) return NT_INVALID;
    nt__text text = {0};
    nt__summary_add(&run->traced, &text);
    return nt__text_write(&text, out);
}

nt_status nt_run_drift(nt_run *run, const char **report) {
    if (!nt__given(report, "nt_run_drift", "report")) return NT_INVALID;
    *report = "";
    NT__USE(run, "nt_run_drift");
    return used ? nt__drift_report(&run->reporting, report) : NT_INVALID;
}

/* ---- the end of training ---------------------------------------------------------------------------------------- */

void nt_stop_request(void) {
    nt__stop_set(true);
}

void nt_stop_clear(void) {
    nt__stop_set(false);
}
