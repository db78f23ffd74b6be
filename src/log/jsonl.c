/* JSON Lines. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/log.h"

/* 9 digits tell every f32 from its neighbours; whole numbers up to 2^53 are exact in a double. */
enum { DIGITS = 9 };
static const double largest_whole = 9007199254740992;

struct nt__log {
    FILE *file;
    char *path;
};

nt_status nt__log_open(const char *path, nt__log **out) {
    nt_status status = nt__keep_previous(path);
    nt__log *log = status == NT_OK ? nt__alloc(1, sizeof *log) : NULL;
    *out = NULL;
    if (!log) return status == NT_OK ? NT_OUT_OF_MEMORY : status;
    log->path = nt__strdup(path);
    log->file = log->path ? fopen(path, "w") : NULL;
    if (log->file) {
        *out = log;
        return NT_OK;
    }
    status = log->path ? nt__fail(NT_IO, "%s: cannot write the log: %s", path, strerror(errno)) : NT_OUT_OF_MEMORY;
    nt__log_close(log);
    return status;
}

/* JSON holds nothing else. */
static nt_status check_text(const nt__log *log, const nt__log_value *value) {
    if (!nt__is_utf8(value->name, strlen(value->name)))
        return nt__fail(NT_INVALID, "%s: the name of the value '%s' is not valid UTF-8", log->path, value->name);
    if (value->text && !nt__is_utf8(value->text, strlen(value->text)))
        return nt__fail(NT_INVALID, "%s: '%s' is the text '%s', which is not valid UTF-8", log->path, value->name,
                        value->text);
    return NT_OK;
}

static bool put(json_t *object, const char *name, json_t *value) {
    return json_object_set_new(object, name, value) == 0;
}

/* Counts and seeds are whole to the last digit, which the digits of a real number would not be. */
static json_t *number_of(double number) {
    bool whole = number == trunc(number) && fabs(number) <= largest_whole;
    return whole ? json_integer((json_int_t)number) : json_real(number);
}

static bool put_values(json_t *object, const nt__log_value *values, size_t count) {
    bool right = true;
    for (size_t i = 0; right && i < count; i++) {
        if (values[i].text)
            right = put(object, values[i].name, json_string(values[i].text));
        else if (isfinite(values[i].number))
            right = put(object, values[i].name, number_of(values[i].number));
    }
    return right;
}

nt_status nt__log_line(nt__log *log, const char *type, const char *context, int64_t step, int64_t epoch,
                       const nt__log_value *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        nt_status status = check_text(log, &values[i]);
        if (status != NT_OK) return status;
    }
    json_t *object = json_object();
    bool right = object && put_values(object, values, count) && put(object, "type", json_string(type));
    if (right && context)
        right = put(object, "context", json_string(context)) && put(object, "epoch", json_integer(epoch)) &&
                put(object, "step", json_integer(step));
    char *line = right ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(object);
    if (!line) return nt__fail(NT_OUT_OF_MEMORY, "%s: no memory for a line of the log", log->path);
    bool written = fprintf(log->file, "%s\n", line) > 0 && fflush(log->file) == 0;
    free(line);
    return written ? NT_OK : nt__fail(NT_IO, "%s: cannot write the log: %s", log->path, strerror(errno));
}

void nt__log_close(nt__log *log) {
    if (!log) return;
    if (log->file) fclose(log->file);
    nt__free(log->path);
    nt__free(log);
}
