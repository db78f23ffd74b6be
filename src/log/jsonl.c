/* JSON Lines: one object a line.
 * Not here: the file (file.c).
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "log/file.h"

/* They tell every f32 from its neighbours. */
enum { DIGITS = 9 };

struct nt__jsonl {
    nt__log_file file;
};

/* ---- a line ----------------------------------------------------------------------------------------------------- */

/* JSON holds nothing else. */
static nt_status check_text(const nt__jsonl *log, const nt_log_value *value) {
    if (!nt__is_utf8(value->name, strlen(value->name)))
        return nt__fail(NT_INVALID, "%s: the name of the value '%s' is not valid UTF-8", log->file.path, value->name);
    if (value->text && !nt__is_utf8(value->text, strlen(value->text)))
        return nt__fail(NT_INVALID, "%s: '%s' is the text '%s', which is not valid UTF-8", log->file.path, value->name,
                        value->text);
    return NT_OK;
}

static bool put(json_t *object, const char *name, json_t *value) {
    return json_object_set_new(object, name, value) == 0;
}

static json_t *number_of(double number) {
    return nt__log_is_whole(number) ? json_integer((json_int_t)number) : json_real(number);
}

static bool put_values(json_t *object, const nt_log_value *values, size_t count) {
    bool right = true;
    for (size_t i = 0; right && i < count; i++) {
        if (values[i].text)
            right = put(object, values[i].name, json_string(values[i].text));
        else if (isfinite(values[i].number))
            right = put(object, values[i].name, number_of(values[i].number));
    }
    return right;
}

/* The line as an object; NULL: memory is short. */
static json_t *object_of(const nt_log_line *line) {
    json_t *object = json_object();
    bool right =
        object && put_values(object, line->values, line->count) && put(object, "type", json_string(line->type));
    if (right && line->context)
        right = put(object, "context", json_string(line->context)) && put(object, "epoch", json_integer(line->epoch)) &&
                put(object, "step", json_integer(line->step));
    if (right) return object;
    json_decref(object);
    return NULL;
}

nt_status nt__jsonl_line(nt__jsonl *log, const nt_log_line *line) {
    if (line->array) return NT_OK;
    for (size_t i = 0; i < line->count; i++) {
        nt_status status = check_text(log, &line->values[i]);
        if (status != NT_OK) return status;
    }
    json_t *object = object_of(line);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)) : NULL;
    char *whole = text ? nt__sprintf("%s\n", text) : NULL;
    json_decref(object);
    free(text);
    if (!whole) return nt__fail(NT_OUT_OF_MEMORY, "%s: no memory for a line of the log", log->file.path);
    nt_status status = nt__log_file_add(&log->file, whole, line->once);
    nt__free(whole);
    return status;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

/* A log whose file did not open is none. */
static nt_status keep(nt_status status, nt__jsonl *log, nt__jsonl **out) {
    *out = status == NT_OK ? log : NULL;
    if (status != NT_OK) nt__free(log);
    return status;
}

nt_status nt__jsonl_open(const char *path, nt__jsonl **out) {
    nt__jsonl *log = *out = nt__alloc(1, sizeof *log);
    return log ? keep(nt__log_file_open(path, &log->file), log, out) : NT_OUT_OF_MEMORY;
}

nt_status nt__jsonl_continue(const char *path, int64_t length, nt__jsonl **out) {
    nt__jsonl *log = *out = nt__alloc(1, sizeof *log);
    return log ? keep(nt__log_file_continue(path, length, &log->file), log, out) : NT_OUT_OF_MEMORY;
}

int64_t nt__jsonl_length(const nt__jsonl *log) {
    return log->file.length;
}

void nt__jsonl_close(nt__jsonl *log) {
    if (!log) return;
    nt__log_file_close(&log->file);
    nt__free(log);
}

/* ---- as a logger ------------------------------------------------------------------------------------------------ */

static nt_status open_logger(void *context, const nt_log_start *start, void **state) {
    (void)context;
    nt__jsonl *log = nt__alloc(1, sizeof *log), *kept = NULL;
    nt_status status =
        log ? keep(nt__log_file_start(start, "metrics.jsonl", &log->file), log, &kept) : NT_OUT_OF_MEMORY;
    *state = kept;
    return status;
}

static nt_status log_line(void *state, const nt_log_line *line) {
    return nt__jsonl_line(state, line);
}

static void close_logger(void *state) {
    nt__jsonl_close(state);
}

static int64_t position(void *state) {
    return nt__jsonl_length(state);
}

const nt_logger nt__jsonl_logger = {
    .name = "jsonl", .open = open_logger, .line = log_line, .position = position, .close = close_logger};
