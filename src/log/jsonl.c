/* JSON Lines. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log/log.h"

/* 9 digits tell every f32 from its neighbours; whole numbers up to 2^53 are exact in a double. */
enum { DIGITS = 9 };
static const double largest_whole = 9007199254740992;

/* Until its first line is written the log stands beside the former one, under the name `fresh`. */
struct nt__jsonl {
    int file;
    off_t length; /* of the whole lines */
    bool begun;   /* it has its name */
    char *path, *fresh;
    char *taken; /* the lines of the former log that it began with, until one is added; else NULL */
};

static nt_status fail_to_write(const nt__jsonl *log) {
    int error = errno;
    return nt__fail(NT_IO, "%s: cannot write the log: %s%s", log->path, strerror(error), nt__write_advice(error));
}

nt_status nt__jsonl_open(const char *path, nt__jsonl **out) {
    *out = NULL;
    nt__jsonl *log = nt__alloc(1, sizeof *log);
    if (!log) return NT_OUT_OF_MEMORY;
    log->file = -1;
    log->path = nt__strdup(path);
    log->fresh = log->path ? nt__sprintf("%s.new", path) : NULL;
    if (log->fresh) log->file = open(log->fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (log->file >= 0) {
        *out = log;
        return NT_OK;
    }
    nt_status status = log->fresh ? fail_to_write(log) : NT_OUT_OF_MEMORY;
    nt__jsonl_close(log);
    return status;
}

/* ---- going on --------------------------------------------------------------------------------------------------- */

static bool ends_line(const char *bytes, size_t size, int64_t length) {
    return length >= 0 && (size_t)length <= size && (length == 0 || bytes[length - 1] == '\n');
}

static nt_status read_lines(const char *path, int64_t length, char **out) {
    size_t size;
    nt_status status = nt__read_regular(path, out, &size);
    if (status != NT_OK) return status;
    if (ends_line(*out, size, length)) {
        (*out)[length] = 0;
        return NT_OK;
    }
    nt__free(*out);
    *out = NULL;
    return nt__fail(NT_INVALID, "%s has %zu bytes, and no line of it ends at byte %lld: it was changed", path, size,
                    (long long)length);
}

nt_status nt__jsonl_continue(const char *path, int64_t length, nt__jsonl **out) {
    char *taken = NULL;
    *out = NULL;
    nt_status status = read_lines(path, length, &taken);
    if (status != NT_OK) return status;
    status = nt__jsonl_open(path, out);
    if (status != NT_OK) {
        nt__free(taken);
        return status;
    }
    nt__jsonl *log = *out;
    log->taken = taken;
    if (nt__write_all(log->file, taken, (size_t)length)) {
        log->length = (off_t)length;
        return NT_OK;
    }
    status = fail_to_write(log);
    nt__jsonl_close(log);
    *out = NULL;
    return status;
}

int64_t nt__jsonl_length(const nt__jsonl *log) {
    return (int64_t)log->length;
}

static bool has_line(const char *lines, const char *line) {
    const char *at = lines ? strstr(lines, line) : NULL;
    while (at && at != lines && at[-1] != '\n') at = strstr(at + 1, line);
    return at != NULL;
}

/* ---- a line ----------------------------------------------------------------------------------------------------- */

/* JSON holds nothing else. */
static nt_status check_text(const nt__jsonl *log, const nt_log_value *value) {
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

/* Appends a whole line. What a full disk took of it is cut off again, so that the log has whole lines only. */
static nt_status append(nt__jsonl *log, const char *line) {
    size_t length = strlen(line);
    if (!nt__write_all(log->file, line, length)) {
        nt_status status = fail_to_write(log);
        if (ftruncate(log->file, log->length) == 0) lseek(log->file, log->length, SEEK_SET);
        return status;
    }
    log->length += (off_t)length;
    return NT_OK;
}

/* Gives the log its name. */
static nt_status begin(nt__jsonl *log) {
    nt_status status = nt__keep_previous(log->path);
    if (status != NT_OK) return status;
    if (rename(log->fresh, log->path) != 0) return fail_to_write(log);
    log->begun = true;
    return NT_OK;
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
    if (!whole) return nt__fail(NT_OUT_OF_MEMORY, "%s: no memory for a line of the log", log->path);
    bool is_there = line->once && has_line(log->taken, whole);
    nt_status status = is_there ? NT_OK : append(log, whole);
    nt__free(whole);
    if (!line->once) {
        nt__free(log->taken);
        log->taken = NULL;
    }
    return status == NT_OK && !is_there && !log->begun ? begin(log) : status;
}

void nt__jsonl_close(nt__jsonl *log) {
    if (!log) return;
    if (log->file >= 0) close(log->file);
    if (log->file >= 0 && !log->begun) unlink(log->fresh);
    nt__free(log->taken);
    nt__free(log->fresh);
    nt__free(log->path);
    nt__free(log);
}

/* ---- as a logger ------------------------------------------------------------------------------------------------ */

static nt_status open_logger(void *context, const nt_log_start *start, void **state) {
    (void)context;
    nt__jsonl *log = NULL;
    char *path = nt__sprintf("%s/metrics.jsonl", start->run_dir);
    nt_status status = NT_OUT_OF_MEMORY;
    if (path) {
        bool goes_on = start->resumes && start->position >= 0;
        status = goes_on ? nt__jsonl_continue(path, start->position, &log) : nt__jsonl_open(path, &log);
        /* A log that somebody changed is kept, and another one begins. */
        if (goes_on && (status == NT_INVALID || status == NT_NOT_FOUND)) {
            nt__notice("the log does not go on where the checkpoint was made, so it begins anew: %s",
                       nt_error_message());
            status = nt__jsonl_open(path, &log);
        }
    }
    nt__free(path);
    *state = log;
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
