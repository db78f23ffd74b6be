/* The epochs of a run, and what its log says of the run as a whole.
 * Not here: the lines of the file.
 */
#include "history/history.h"
#include "base/files.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/closest.h"

/* ---- rows and names --------------------------------------------------------------------------------------------- */

/* Where the metric is among the values of the row, or would be. */
static size_t place_in(const nt__history_row *row, size_t metric) {
    size_t low = 0, high = row->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (row->values[middle].metric < metric)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const double *nt__row_value(const nt__history_row *row, size_t metric) {
    size_t place = place_in(row, metric);
    return place < row->count && row->values[place].metric == metric ? &row->values[place].value : NULL;
}

static nt__hash hash_of(const char *name) {
    return nt__hash_bytes(name, strlen(name));
}

int nt__history_metric(const nt__history *history, const char *name) {
    return (int)nt__map_find(&history->places, hash_of(name)) - 1;
}

nt_status nt__history_find_metric(const nt__history *history, const char *name, size_t *out) {
    int metric = nt__history_metric(history, name);
    nt__text text = {0};
    *out = metric < 0 ? NT__METRIC_LOSS : (size_t)metric;
    if (metric >= 0) return NT_OK;
    nt__text_add(&text, "%s: no epoch has a metric '%s'", history->folder, name);
    nt__add_closest(&text, name, history->metrics, history->metric_count, "");
    nt__text_say(&text, "; there are ");
    for (size_t i = 0; i < history->metric_count; i++) nt__text_add(&text, "%s%s", i ? ", " : "", history->metrics[i]);
    nt_status status = text.failed ? NT_OUT_OF_MEMORY : nt__fail(NT_INVALID, "%s", text.data);
    nt__text_free(&text);
    return status;
}

static nt_status metric_of(nt__history *history, const char *name, size_t *out) {
    int known = nt__history_metric(history, name);
    *out = known < 0 ? history->metric_count : (size_t)known;
    if (known >= 0) return NT_OK;
    char *copy = nt__arena_strdup(&history->arena, name);
    if (!copy || !NT__GROW(history->metrics, history->metric_count, history->metric_capacity) ||
        !nt__map_put(&history->places, hash_of(name), (uint32_t)history->metric_count + 1))
        return NT_OUT_OF_MEMORY;
    history->metrics[history->metric_count++] = copy;
    return NT_OK;
}

/* A run goes forward, so it is the last row or a new one. */
static nt__history_row *row_of(nt__history *history, int64_t epoch) {
    if (history->row_count && history->rows[history->row_count - 1].epoch == epoch)
        return &history->rows[history->row_count - 1];
    if (!NT__GROW(history->rows, history->row_count, history->row_capacity)) return NULL;
    nt__history_row *row = &history->rows[history->row_count++];
    *row = (nt__history_row){.epoch = epoch};
    return row;
}

static nt_status set_value(nt__history_row *row, size_t metric, double value) {
    size_t place = place_in(row, metric);
    if (place < row->count && row->values[place].metric == metric) {
        row->values[place].value = value;
        return NT_OK;
    }
    if (!NT__GROW(row->values, row->count, row->capacity)) return NT_OUT_OF_MEMORY;
    memmove(&row->values[place + 1], &row->values[place], (row->count - place) * sizeof *row->values);
    row->values[place] = (nt__history_value){metric, value};
    row->count++;
    return NT_OK;
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

typedef struct reading {
    nt__history *history;
    bool with_sources;
    nt__text step; /* the newest line of a step */
} reading;

static bool is_place(const char *name) {
    static const char *const places[] = {"type", "context", "epoch", "step"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(name, places[i]) == 0) return true;
    return false;
}

/* A row has the mean loss of the epoch and its validation metrics, one named loss in its place. */
static nt_status take_metrics(nt__history *history, json_t *line) {
    nt__history_row *row = row_of(history, json_integer_value(json_object_get(line, "epoch")));
    if (!row) return NT_OUT_OF_MEMORY;
    row->step = json_integer_value(json_object_get(line, "step"));
    nt_status status = NT_OK;
    const char *name;
    json_t *value;
    json_object_foreach(line, name, value) {
        size_t metric;
        if (!json_is_number(value) || is_place(name)) continue;
        status = metric_of(history, name, &metric);
        if (status == NT_OK) status = set_value(row, metric, json_number_value(value));
        if (status != NT_OK) return status;
    }
    return NT_OK;
}

static void replace(json_t **kept, json_t *line) {
    json_decref(*kept);
    *kept = json_incref(line);
}

static nt_status take_source(nt__history *history, const json_t *line) {
    const char *path = json_string_value(json_object_get(line, "path"));
    json_t *text = json_object_get(line, "text");
    if (!path || !history->sources) return NT_OK;
    int failed = json_object_set(history->sources, path, text ? text : json_object_get(line, "left_out"));
    return failed ? nt__fail(NT_OUT_OF_MEMORY, "%s: no memory for the text of '%s'", history->folder, path) : NT_OK;
}

static nt_status take_finish(nt__history *history, const json_t *line) {
    const char *status = json_string_value(json_object_get(line, "status"));
    history->status = nt__arena_strdup(&history->arena, status ? status : "completed");
    history->seconds += json_number_value(json_object_get(line, "seconds"));
    return history->status ? NT_OK : NT_OUT_OF_MEMORY;
}

/* 0: the text is none. */
static int64_t seconds_of(const char *text) {
    struct tm parts = {0};
    const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%SZ", &parts) : NULL;
    return end && !*end ? (int64_t)timegm(&parts) : 0;
}

/* A start of the run: there are several where it was resumed, and what ended before each is already counted. */
static void take_environment(nt__history *history, json_t *line) {
    int64_t started = seconds_of(json_string_value(json_object_get(line, "started")));
    if (!history->first_started) history->first_started = started;
    history->newest_started = started;
    history->seconds_before = history->seconds + json_number_value(json_object_get(line, "seconds_before"));
    replace(&history->environment, line);
}

/* What steps ended with is not asked for, only how far the last one is: it is looked at in the end. */
static nt_status keep_step(reading *r, const nt__log_line_text *line) {
    r->step.length = 0;
    nt__text_put(&r->step, line->text, line->length);
    return r->step.failed ? NT_OUT_OF_MEMORY : NT_OK;
}

/* False: the line has no such number, or one that is no int64_t, as logs of others may. */
static bool whole_number(const char *line, const char *name, int64_t *out) {
    static const double end = 0x1p63;
    double number;
    if (!nt__line_number(line, name, &number) || !(number >= -end && number < end)) return false;
    *out = (int64_t)number;
    return true;
}

static void take_step(const reading *r) {
    int64_t step, epoch;
    if (!r->step.data || !whole_number(r->step.data, "step", &step) || !whole_number(r->step.data, "epoch", &epoch))
        return;
    r->history->step = step;
    r->history->epoch = epoch;
}

static nt_status take_object(reading *r, json_t *line) {
    nt__history *history = r->history;
    const char *type = json_string_value(json_object_get(line, "type"));
    const char *context = json_string_value(json_object_get(line, "context"));
    if (!type) return NT_OK;
    if (strcmp(type, "params") == 0) replace(&history->params, line);
    if (strcmp(type, "environment") == 0) take_environment(history, line);
    if (strcmp(type, "source") == 0) return take_source(history, line);
    if (strcmp(type, "finish") == 0) return take_finish(history, line);
    bool is_of_epoch = context && (strcmp(context, "validate") == 0 || strcmp(context, "epoch") == 0);
    return is_of_epoch ? take_metrics(history, line) : NT_OK;
}

static void note_odd(nt__history *history, int64_t number) {
    if (history->odd_lines++ == 0) history->first_odd = number;
}

/* The lines of steps are by far the most, and need not be parsed. */
static nt_status take_line(const nt__log_line_text *line, void *context) {
    reading *r = context;
    nt__history *history = r->history;
    history->status = NULL;
    if (nt__line_is_of(line->text, "train") || nt__line_is_of(line->text, "data")) return keep_step(r, line);
    json_t *object = json_loadb(line->text, line->length, 0, NULL);
    nt_status status = NT_OK;
    if (json_is_object(object))
        status = take_object(r, object);
    else
        note_odd(history, line->number);
    json_decref(object);
    return status;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static nt_status read_log(const char *path, reading *r) {
    nt__history *history = r->history;
    struct stat info;
    size_t loss;
    nt_status status = metric_of(history, "loss", &loss);
    if (status == NT_OK && stat(path, &info) == 0) history->changed = info.st_mtim.tv_sec;
    if (status == NT_OK && r->with_sources && !(history->sources = json_object()))
        status = nt__fail(NT_OUT_OF_MEMORY, "%s: no memory for the source files", path);
    return status == NT_OK ? nt__log_lines(path, take_line, r, &history->torn) : status;
}

nt_status nt__history_read(const char *run, bool with_sources, nt__history *out) {
    *out = (nt__history){0};
    reading r = {.history = out, .with_sources = with_sources};
    char *path;
    nt_status status = nt__log_path(run, &path);
    if (status != NT_OK) return status;
    char *folder = nt__folder_of(path);
    out->folder = folder ? nt__arena_strdup(&out->arena, nt__is_folder(run) ? run : folder) : NULL;
    nt__free(folder);
    status = out->folder ? read_log(path, &r) : NT_OUT_OF_MEMORY;
    take_step(&r);
    nt__text_free(&r.step);
    nt__free(path);
    return status;
}

void nt__history_free(nt__history *history) {
    for (size_t i = 0; i < history->row_count; i++) nt__free(history->rows[i].values);
    nt__free(history->rows);
    nt__free(history->metrics);
    nt__map_free(&history->places);
    json_decref(history->params);
    json_decref(history->environment);
    json_decref(history->sources);
    nt__arena_free(&history->arena);
    *history = (nt__history){0};
}

/* ---- of the run as a whole -------------------------------------------------------------------------------------- */

const char *nt__history_experiment(const nt__history *history) {
    const char *name = json_string_value(json_object_get(history->environment, "experiment"));
    const char *slash = strrchr(history->folder, '/');
    return name ? name : slash && slash[1] ? slash + 1 : history->folder;
}

int64_t nt__history_started(const nt__history *history) {
    return history->first_started ? history->first_started : history->changed;
}

int64_t nt__history_steps(const nt__history *history) {
    int64_t of_rows = history->row_count ? history->rows[history->row_count - 1].step : 0;
    return history->step > of_rows ? history->step : of_rows;
}

/* Whoever trains holds the lock from before the first line on. */
static bool is_held(const char *folder) {
    int lock;
    nt_status status = nt__lock_folder(folder, &lock);
    if (status == NT_OK) nt__unlock_folder(lock);
    if (status != NT_OK) nt__fail_nothing();
    return status == NT_INVALID;
}

const char *nt__history_state(const nt__history *history) {
    if (history->status) return history->status;
    return is_held(history->folder) ? "running" : "killed";
}

double nt__history_seconds(const nt__history *history, const char *state, int64_t now) {
    if (history->status) return history->seconds;
    int64_t until = strcmp(state, "running") == 0 ? now : history->changed;
    int64_t started = history->newest_started ? history->newest_started : history->changed;
    double since = until > started ? (double)until - (double)started : 0; /* the clock may have gone back */
    return fmax(fmax(history->seconds_before + since, history->seconds), 0);
}
