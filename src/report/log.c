/* The log of a run: the folder it lies in, its first line with every field and setting, the binding report, the values
 * of steps and epochs, and its end.
 * Not here: the form of a line (log/jsonl.c).
 */
#include <string.h>
#include <sys/stat.h>

#include "report/report.h"
#include "base/files.h"

nt_status nt__log_put(nt__reporting *reporting, const nt_log_line *line) {
    nt_log_line placed = *line;
    placed.step = reporting->resident->step;
    placed.epoch = reporting->resident->epoch;
    return nt__log_line(reporting->log, &placed);
}

/* ---- the first line --------------------------------------------------------------------------------------------- */

/* What a line can hold: Host fields without a text form are left out, and not looked at. */
static bool is_logged(const nt_field_info *field) {
    return field->marker != NT_HOST || nt__field_has_flag(field);
}

/* A string's text, "" for NULL; of arrays types and shapes; numbers as they are. False: memory is short. */
static bool field_value(nt__arena *texts, const nt_field_info *field, const void *fields, nt_log_value *out) {
    *out = (nt_log_value){.name = field->name, .number = nt__field_number(field, fields)};
    if (nt__field_is_number(field)) return true;
    if (field->type == NT_FIELD_STRING) {
        memcpy(&out->text, (const char *)fields + field->offset, sizeof out->text);
        if (!out->text) out->text = "";
        return true;
    }
    nt__text text = {0};
    nt__field_print(field, fields, &text);
    out->text = text.failed ? NULL : nt__arena_strdup(texts, text.data);
    nt__text_free(&text);
    return out->text != NULL;
}

/* NULL: memory is short. */
static const char *schedules_text(const nt__resident *resident, nt__arena *texts) {
    nt__text text = {0};
    nt__schedules_print(resident, &text);
    const char *kept = text.failed ? NULL : nt__arena_strdup(texts, text.data ? text.data : "");
    nt__text_free(&text);
    return kept;
}

/* A field whose name is that of something else in the line is there as "field.NAME"; one that gives a setting is the
 * setting. */
static bool name_field(nt__arena *texts, const nt_log_value *others, size_t count, nt_log_value *field) {
    const nt__setting *setting = nt__setting_find(field->name);
    bool is_taken = nt__value_name_problem(field->name) != NULL;
    for (size_t i = 0; i < count && !setting; i++) is_taken |= strcmp(others[i].name, field->name) == 0;
    if (is_taken) field->name = nt__arena_sprintf(texts, "field.%s", field->name);
    return field->name != NULL;
}

/* The loggers' own line would not say what is not used. */
static bool is_told(const nt__resident *resident, const nt__setting *setting) {
    if (setting->told & NT__NOT_IN_LOG) return false;
    if (strcmp(setting->name, "learning_rate") == 0) return nt__uses_base_rate(resident);
    return setting->told & NT__LOG || nt__setting_source(setting, &resident->task->settings) != NT__FROM_DEFAULT;
}

/* A whole number beyond 2^53 is not exact, as a number of JSON is not either. */
static nt_log_value setting_value(const nt__setting *setting, const nt__settings *s) {
    nt__setting_value value = nt__setting_of(setting, s);
    if (setting->type == NT_FIELD_STRING) return (nt_log_value){setting->name, value.text, 0};
    double number = setting->type == NT_FIELD_INT64 ? (double)value.whole : value.real;
    return (nt_log_value){setting->name, NULL, setting->type == NT_FIELD_BOOL ? value.truth : number};
}

/* Settings, rule and schedules into `out`, which has room for them. */
static nt_status list_settings(const nt__resident *resident, nt__arena *texts, nt_log_value *out, size_t *count) {
    const nt__setting *setting;
    const nt_log_value others[] = {{"rule", nt__rule_names(resident->traced, texts), 0},
                                   {"schedules", schedules_text(resident, texts), 0}};
    for (size_t i = 0; (setting = nt__setting_at(i)); i++)
        if (is_told(resident, setting)) out[(*count)++] = setting_value(setting, &resident->task->settings);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!others[i].text) return NT_OUT_OF_MEMORY;
        out[(*count)++] = others[i];
    }
    if (resident->task->preset) out[(*count)++] = (nt_log_value){"preset", resident->task->preset, 0};
    return NT_OK;
}

/* Every field and setting. */
static nt_status log_values(nt__reporting *reporting, nt__arena *texts) {
    enum { OTHERS = 3 };
    size_t field_count = reporting->task->experiment->field_count, rows = 0, own = 0;
    while (nt__setting_at(rows)) rows++;
    nt_log_value *settings = nt__arena_alloc(texts, rows + OTHERS, sizeof *settings);
    nt_log_value *values = nt__arena_alloc(texts, field_count + rows + OTHERS, sizeof *values);
    nt_status status =
        settings && values ? list_settings(reporting->resident, texts, settings, &own) : NT_OUT_OF_MEMORY;
    size_t count = 0;
    for (size_t i = 0; status == NT_OK && i < field_count; i++) {
        const nt_field_info *field = &reporting->task->experiment->fields[i];
        if (!is_logged(field)) continue;
        nt_log_value *value = &values[count++];
        bool right =
            field_value(texts, field, reporting->task->fields, value) && name_field(texts, settings, own, value);
        if (!right) status = NT_OUT_OF_MEMORY;
    }
    if (status != NT_OK) return status;
    memcpy(values + count, settings, own * sizeof *settings);
    return nt__log_put(reporting,
                       &(nt_log_line){.type = "params", .values = values, .count = count + own, .once = true});
}

static nt_status log_parameters(nt__reporting *reporting) {
    nt__arena texts = {0};
    nt_status status = log_values(reporting, &texts);
    nt__arena_free(&texts);
    return status;
}

/* ---- the second line -------------------------------------------------------------------------------------------- */

/* What stands in the report cannot fail a run: a text that the log does not take is left out. */
static nt_status log_report(nt__reporting *reporting) {
    nt__text text = {0};
    nt__report_add(reporting->resident, &text);
    const nt_log_value values[] = {{"key", "binding_report", 0}, {"value", text.data, 0}};
    nt_status status =
        text.failed
            ? NT_OUT_OF_MEMORY
            : nt__log_put(reporting, &(nt_log_line){.type = "other", .values = values, .count = 2, .once = true});
    nt__text_free(&text);
    if (status != NT_INVALID) return status;
    nt__fail_nothing();
    return NT_OK;
}

/* ---- begin and end ---------------------------------------------------------------------------------------------- */

/* Two runs in one folder would write over each other's log and parameters. */
static nt_status lock_folder(nt__reporting *reporting) {
    nt_status status = nt__make_folder(reporting->task->settings.run_dir);
    if (status == NT_OK) status = nt__lock_folder(reporting->task->settings.run_dir, &reporting->lock);
    if (status == NT_OK) return NT_OK;
    return nt__fail(status, "run_dir: %s%s", nt_error_message(),
                    status == NT_INVALID ? " by another run: wait for its end, or give this one another run_dir" : "");
}

static bool holds(const nt__reporting *reporting, const char *folder) {
    struct stat held, wanted;
    return reporting->lock >= 0 && fstat(reporting->lock, &held) == 0 && stat(folder, &wanted) == 0 &&
           held.st_dev == wanted.st_dev && held.st_ino == wanted.st_ino;
}

nt_status nt__log_lock_for(const nt__reporting *reporting, const char *path, int *descriptor) {
    *descriptor = -1;
    char *folder = nt__folder_of(path);
    if (!folder) return NT_OUT_OF_MEMORY;
    nt_status status = holds(reporting, folder) ? NT_OK : nt__lock_folder(folder, descriptor);
    nt__free(folder);
    if (status != NT_INVALID) return status;
    return nt__fail(status, "cannot write '%s': %s by another run: wait for its end, or name a file in another folder",
                    path, nt_error_message());
}

static nt_status open_log(nt__reporting *reporting) {
    const nt__settings *s = &reporting->task->settings;
    const nt_log_start start = {
        .run_dir = s->run_dir, .resumes = reporting->log_goes_on, .step = reporting->resident->step};
    nt_status status = nt__log_open(s->log, s->loggers, s->logger_count, &start, reporting->log_positions,
                                    reporting->log_position_count, &reporting->log);
    if (status == NT_OK) status = log_parameters(reporting);
    if (status == NT_OK) status = log_report(reporting);
    return status == NT_OK ? nt__origin_log(reporting) : status;
}

/* What fails is undone, so that a second try begins anew. */
nt_status nt__log_begin(nt__reporting *reporting) {
    if (reporting->task->settings.no_log || reporting->log) return NT_OK;
    nt_status status = lock_folder(reporting);
    if (status == NT_OK) nt__remove_leftovers(reporting->task->settings.run_dir);
    if (status == NT_OK) status = open_log(reporting);
    if (status == NT_OK) return NT_OK;
    nt__log_close(reporting->log);
    nt__unlock_folder(reporting->lock);
    reporting->log = NULL;
    reporting->lock = -1;
    return status;
}

enum { MOST_VALUES = 64 };

nt_status nt__log_values(nt__reporting *reporting, const char *context, int64_t step, int64_t epoch,
                         const nt_value *values, size_t count) {
    if (!reporting->log || count == 0) return NT_OK;
    nt_log_value few[MOST_VALUES], *all = count <= MOST_VALUES ? few : nt__alloc(count, sizeof *all);
    if (!all) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) all[i] = (nt_log_value){values[i].name, NULL, values[i].value};
    nt_status status = nt__log_line(
        reporting->log,
        &(nt_log_line){
            .type = "metrics", .context = context, .step = step, .epoch = epoch, .values = all, .count = count});
    if (all != few) nt__free(all);
    return status;
}

/* The line of a run that goes on is the only one: that of before was cut off with what was after the record. */
nt_status nt__log_end(nt__reporting *reporting, nt_status outcome, double seconds) {
    if (!reporting->log) return NT_OK;
    seconds += reporting->spent;
    reporting->spent = 0;
    const char *text = outcome == NT_OK ? "completed" : outcome == NT_INTERRUPTED ? "requested" : "error";
    const nt_log_value values[] = {{"status", text, 0}, {"seconds", NULL, seconds}};
    return nt__log_put(reporting, &(nt_log_line){.type = "finish", .values = values, .count = 2});
}

/* Of each parameter, where they are asked for. */
nt_status nt__log_histograms(nt__reporting *reporting) {
    nt_status status = NT_OK;
    if (!reporting->log || !reporting->task->settings.histograms) return NT_OK;
    for (size_t i = 0; status == NT_OK && i < reporting->traced->layout.row_count; i++) {
        const nt__row *row = &reporting->traced->layout.rows[i];
        nt_array *values = nt__parameter_read(reporting->resident, row);
        if (!values) return nt_error_status();
        status = nt__log_put(reporting, &(nt_log_line){.type = "histogram", .key = row->path, .array = values});
        nt_array_free(values);
    }
    return status;
}
