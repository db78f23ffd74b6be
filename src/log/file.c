/* The file of a log that is text: whole lines, which a kill or a full disk leaves whole.
 * Not here: what is in a line.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log/file.h"
#include "base/files.h"

static nt_status fail_to_write(const nt__log_file *log) {
    int error = errno;
    return nt__fail(NT_IO, "%s: cannot write the log: %s%s", log->path, strerror(error), nt__write_advice(error));
}

nt_status nt__log_file_open(const char *path, nt__log_file *out) {
    *out = (nt__log_file){.file = -1};
    out->path = nt__strdup(path);
    out->fresh = out->path ? nt__sprintf("%s.new", path) : NULL;
    nt_status status = out->fresh ? nt__make_afresh(out->fresh, &out->file) : NT_OUT_OF_MEMORY;
    if (status == NT_OK) return NT_OK;
    if (status != NT_OUT_OF_MEMORY) status = nt__fail_in(NT_IO, "%s: cannot write the log", path);
    nt__log_file_close(out);
    return status;
}

/* ---- going on --------------------------------------------------------------------------------------------------- */

static bool ends_line(const char *bytes, size_t size, int64_t length) {
    return length >= 0 && (size_t)length <= size && (length == 0 || bytes[length - 1] == '\n');
}

static nt_status read_lines(const char *path, int64_t length, char **out) {
    size_t size;
    nt_status status = nt__read_file(path, out, &size);
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

nt_status nt__log_file_continue(const char *path, int64_t length, nt__log_file *out) {
    char *taken = NULL;
    *out = (nt__log_file){.file = -1};
    nt_status status = read_lines(path, length, &taken);
    if (status != NT_OK) return status;
    status = nt__log_file_open(path, out);
    if (status != NT_OK) {
        nt__free(taken);
        return status;
    }
    out->taken = taken;
    if (nt__write_all(out->file, taken, (size_t)length)) {
        out->length = length;
        return NT_OK;
    }
    status = fail_to_write(out);
    nt__log_file_close(out);
    return status;
}

nt_status nt__log_file_start(const nt_log_start *start, const char *name, nt__log_file *out) {
    char *path = nt__sprintf("%s/%s", start->run_dir, name);
    *out = (nt__log_file){.file = -1};
    if (!path) return NT_OUT_OF_MEMORY;
    bool goes_on = start->resumes && start->position >= 0;
    nt_status status = goes_on ? nt__log_file_continue(path, start->position, out) : nt__log_file_open(path, out);
    /* A log that somebody changed is kept, and another one begins. */
    if (goes_on && (status == NT_INVALID || status == NT_NOT_FOUND)) {
        status =
            nt__warn("the log does not go on where the checkpoint was made, so it begins anew: %s", nt_error_message());
        if (status == NT_OK) nt__fail_nothing();
        if (status == NT_OK) status = nt__log_file_open(path, out);
    }
    nt__free(path);
    return status;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static const double largest_whole = 9007199254740992;

bool nt__log_is_whole(double number) {
    return number == trunc(number) && fabs(number) <= largest_whole;
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static bool has_line(const char *lines, const char *line) {
    const char *at = lines ? strstr(lines, line) : NULL;
    while (at && at != lines && at[-1] != '\n') at = strstr(at + 1, line);
    return at != NULL;
}

/* Appends a whole line. What a full disk took of it is cut off again, so that the log has whole lines only. */
static nt_status append(nt__log_file *log, const char *line) {
    size_t length = strlen(line);
    if (!nt__write_all(log->file, line, length)) {
        nt_status status = fail_to_write(log);
        if (ftruncate(log->file, log->length) == 0) lseek(log->file, log->length, SEEK_SET);
        return status;
    }
    log->length += (int64_t)length;
    return NT_OK;
}

/* Gives the log its name. */
static nt_status begin(nt__log_file *log) {
    nt_status status = nt__keep_previous(log->path);
    if (status != NT_OK) return status;
    if (rename(log->fresh, log->path) != 0) return fail_to_write(log);
    log->begun = true;
    return NT_OK;
}

nt_status nt__log_file_add(nt__log_file *log, const char *lines, bool once) {
    bool is_there = once && has_line(log->taken, lines);
    nt_status status = is_there ? NT_OK : append(log, lines);
    if (!once) {
        nt__free(log->taken);
        log->taken = NULL;
    }
    return status == NT_OK && !is_there && !log->begun ? begin(log) : status;
}

void nt__log_file_close(nt__log_file *log) {
    if (log->file >= 0) close(log->file);
    if (log->file >= 0 && log->fresh && !log->begun) unlink(log->fresh);
    nt__free(log->taken);
    nt__free(log->fresh);
    nt__free(log->path);
    *log = (nt__log_file){.file = -1};
}
