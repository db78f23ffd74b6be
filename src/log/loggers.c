/* The loggers of a run: chosen by name, and those of the user's.
 * Not here: the form of a line, a file each.
 */
#include <string.h>

#include "log/log.h"

static const nt_logger *const built_in[] = {&nt__jsonl_logger, &nt__csv_logger, &nt__tensorboard_logger};

const nt_logger *nt__logger_at(size_t index) {
    return index < sizeof built_in / sizeof *built_in ? built_in[index] : NULL;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static bool is_none(const char *names) {
    return strcmp(names, "none") == 0;
}

/* The logger of the name that `names` begins with; *length: of the name. */
static const nt_logger *next_logger(const char *names, size_t *length) {
    *length = strcspn(names, ",");
    const nt_logger *logger;
    for (size_t i = 0; (logger = nt__logger_at(i)); i++)
        if (strlen(logger->name) == *length && strncmp(logger->name, names, *length) == 0) return logger;
    return NULL;
}

static nt_status fail_without(const char *name, size_t length) {
    nt__text known = {0};
    const nt_logger *logger;
    for (size_t i = 0; (logger = nt__logger_at(i)); i++) nt__text_add(&known, "%s%s", i ? ", " : "", logger->name);
    nt_status status = NT_OUT_OF_MEMORY;
    if (!known.failed)
        status = nt__fail(NT_INVALID,
                          "there is no logger '%.*s'; they are %s: write one or more with commas between them, or none",
                          (int)length, name, known.data);
    nt__text_free(&known);
    return status;
}

nt_status nt__loggers_check(const char *names) {
    bool seen[sizeof built_in / sizeof *built_in] = {false};
    if (is_none(names)) return NT_OK;
    for (size_t length;; names += length + 1) {
        const nt_logger *logger = next_logger(names, &length);
        if (!logger) return fail_without(names, length);
        for (size_t i = 0; nt__logger_at(i); i++) {
            if (nt__logger_at(i) != logger) continue;
            if (seen[i]) return nt__fail(NT_INVALID, "the logger '%s' is named twice: leave one out", logger->name);
            seen[i] = true;
        }
        if (!names[length]) return NT_OK;
    }
}

nt_status nt__loggers_check_own(const nt_logger *loggers, size_t count) {
    if (count && !loggers) return nt__fail(NT_INVALID, "logger_count is %zu, and loggers is NULL", count);
    for (size_t i = 0; i < count; i++) {
        const char *missing = !loggers[i].name ? "name" : !loggers[i].open ? "open" : !loggers[i].line ? "line" : NULL;
        if (missing)
            return nt__fail(NT_INVALID, "loggers[%zu]%s%s%s has no %s, which a logger must have", i,
                            loggers[i].name ? " ('" : "", loggers[i].name ? loggers[i].name : "",
                            loggers[i].name ? "')" : "", missing);
    }
    return NT_OK;
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

typedef struct opened {
    nt_logger logger;
    bool is_own; /* of the user's: its failures are named after it */
    void *state;
    bool marked;
    int64_t mark;
} opened;

struct nt__log {
    opened *items;
    size_t count, capacity;
};

static nt_status named(const opened *o, nt_status status) {
    if (status == NT_OK || !o->is_own) return status;
    if (nt_error_status() == NT_OK)
        return nt__fail(status, "logger '%s' failed (%s) and does not say why: let it call nt_fail", o->logger.name,
                        nt_status_name(status));
    return nt__fail_in(status, "logger '%s'", o->logger.name);
}

/* What opening takes. */
typedef struct beginning {
    const nt_log_start *start;
    const nt__log_position *positions;
    size_t position_count;
} beginning;

static int64_t position_of(const beginning *begin, const char *name) {
    for (size_t i = 0; i < begin->position_count; i++)
        if (strcmp(begin->positions[i].name, name) == 0) return begin->positions[i].at;
    return -1;
}

static nt_status open_one(nt__log *log, const nt_logger *logger, bool is_own, const beginning *begin) {
    if (!NT__GROW(log->items, log->count, log->capacity)) return NT_OUT_OF_MEMORY;
    opened *o = &log->items[log->count];
    *o = (opened){.logger = *logger, .is_own = is_own};
    if (is_own) nt__fail_nothing();
    nt_log_start start = *begin->start;
    start.position = start.resumes ? position_of(begin, logger->name) : -1;
    nt__hook_enter("open", logger->name);
    nt_status status = logger->open(logger->context, &start, &o->state);
    nt__hook_leave();
    if (status == NT_OK) log->count++;
    return named(o, status);
}

static nt_status open_named(nt__log *log, const char *names, const beginning *begin) {
    nt_status status = NT_OK;
    if (is_none(names)) return NT_OK;
    for (size_t length; status == NT_OK; names += length + 1) {
        const nt_logger *logger = next_logger(names, &length);
        status = logger ? open_one(log, logger, false, begin) : fail_without(names, length);
        if (!names[length]) break;
    }
    return status;
}

nt_status nt__log_open(const char *names, const nt_logger *own, size_t count, const nt_log_start *start,
                       const nt__log_position *positions, size_t position_count, nt__log **out) {
    const beginning begin = {start, positions, position_count};
    nt__log *log = *out = nt__alloc(1, sizeof *log);
    if (!log) return NT_OUT_OF_MEMORY;
    nt_status status = open_named(log, names, &begin);
    for (size_t i = 0; status == NT_OK && i < count; i++) status = open_one(log, &own[i], true, &begin);
    if (status == NT_OK) return NT_OK;
    nt__log_close(log);
    *out = NULL;
    return status;
}

static nt_status check_utf8(const char *text, const char *what) {
    if (!text || nt__is_utf8(text, strlen(text))) return NT_OK;
    return nt__fail(NT_INVALID, "a line of the log cannot have the %s '%s', which is not valid UTF-8", what, text);
}

/* Files of text and TensorBoard hold nothing else. */
static nt_status check_texts(const nt_log_line *line) {
    nt_status status = check_utf8(line->context, "context");
    for (size_t i = 0; status == NT_OK && i < line->count; i++) {
        status = check_utf8(line->values[i].name, "name");
        if (status == NT_OK) status = check_utf8(line->values[i].text, "text");
    }
    return status;
}

nt_status nt__log_line(nt__log *log, const nt_log_line *line) {
    nt_status status = check_texts(line);
    for (size_t i = 0; status == NT_OK && i < log->count; i++) {
        opened *o = &log->items[i];
        if (o->is_own) nt__fail_nothing();
        nt__hook_enter("line", o->logger.name);
        status = o->logger.line(o->state, line);
        nt__hook_leave();
        status = named(o, status);
    }
    return status;
}

void nt__log_mark(nt__log *log) {
    for (size_t i = 0; i < log->count; i++) {
        opened *o = &log->items[i];
        o->marked = o->logger.position != NULL;
        if (o->marked) o->mark = o->logger.position(o->state);
    }
}

bool nt__log_position_at(const nt__log *log, size_t index, nt__log_position *out) {
    for (size_t i = 0; i < log->count; i++) {
        const opened *o = &log->items[i];
        if (!o->logger.position || index--) continue;
        *out = (nt__log_position){o->logger.name, o->marked ? o->mark : o->logger.position(o->state)};
        return true;
    }
    return false;
}

void nt__log_close(nt__log *log) {
    if (!log) return;
    for (size_t i = 0; i < log->count; i++)
        if (log->items[i].logger.close) log->items[i].logger.close(log->items[i].state);
    nt__free(log->items);
    nt__free(log);
}
