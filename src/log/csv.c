/* Comma-separated values: a row for each value, so that a metric that appears late needs no new column.
 * Not here: the file (file.c).
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "log/file.h"

static const char header[] = "type,context,epoch,step,name,value\n";

void nt__csv_put(nt__text *row, const char *text) {
    if (!text[strcspn(text, ",\"\r\n")]) {
        nt__text_say(row, text);
        return;
    }
    nt__text_put(row, "\"", 1);
    for (const char *at = text; *at; at++) {
        if (*at == '"') nt__text_put(row, "\"", 1);
        nt__text_put(row, at, 1);
    }
    nt__text_put(row, "\"", 1);
}

static void put_number(nt__text *row, double number) {
    if (nt__log_is_whole(number))
        nt__text_integer(row, (int64_t)number);
    else
        nt__text_add(row, "%.9g", number);
}

static void begin_row(nt__text *rows, const nt_log_line *line, const char *name) {
    nt__csv_put(rows, line->type);
    nt__text_put(rows, ",", 1);
    if (line->context) nt__csv_put(rows, line->context);
    if (line->context)
        nt__text_add(rows, ",%" PRId64 ",%" PRId64 ",", line->epoch, line->step);
    else
        nt__text_say(rows, ",,,");
    nt__csv_put(rows, name);
    nt__text_put(rows, ",", 1);
}

static void add_row(nt__text *rows, const nt_log_line *line, const nt_log_value *value) {
    if (!value->text && !isfinite(value->number)) return;
    begin_row(rows, line, value->name);
    if (value->text)
        nt__csv_put(rows, value->text);
    else
        put_number(rows, value->number);
    nt__text_put(rows, "\n", 1);
}

/* A key and its value are one row. */
static void add_pair(nt__text *rows, const nt_log_line *line) {
    begin_row(rows, line, line->values[0].text);
    nt__csv_put(rows, line->values[1].text);
    nt__text_put(rows, "\n", 1);
}

static bool is_left_out(const nt_log_line *line) {
    return line->array || strcmp(line->type, "source") == 0;
}

static void add_rows(nt__text *rows, const nt_log_line *line) {
    bool is_pair = strcmp(line->type, "other") == 0 && line->count == 2 && line->values[0].text && line->values[1].text;
    if (is_pair)
        add_pair(rows, line);
    else
        for (size_t i = 0; i < line->count; i++) add_row(rows, line, &line->values[i]);
}

static nt_status log_line(void *state, const nt_log_line *line) {
    nt__log_file *log = state;
    nt__text rows = {0};
    if (is_left_out(line)) return NT_OK;
    if (log->length == 0) nt__text_say(&rows, header);
    add_rows(&rows, line);
    nt_status status = NT_OK;
    if (rows.failed)
        status = nt__fail(NT_OUT_OF_MEMORY, "%s: no memory for rows of the log", log->path);
    else if (rows.length)
        status = nt__log_file_add(log, rows.data, line->once);
    nt__text_free(&rows);
    return status;
}

static nt_status open_logger(void *context, const nt_log_start *start, void **state) {
    (void)context;
    nt__log_file *log = *state = nt__alloc(1, sizeof *log);
    nt_status status = log ? nt__log_file_start(start, "metrics.csv", log) : NT_OUT_OF_MEMORY;
    if (status != NT_OK) nt__free(log);
    return status;
}

static void close_logger(void *state) {
    nt__log_file_close(state);
    nt__free(state);
}

static int64_t position(void *state) {
    return ((const nt__log_file *)state)->length;
}

const nt_logger nt__csv_logger = {
    .name = "csv", .open = open_logger, .line = log_line, .position = position, .close = close_logger};
