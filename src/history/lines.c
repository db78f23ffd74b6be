/* The lines of a log, one at a time, and what can be told of one without parsing it.
 * Not here: what the lines say of a run.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "history/history.h"
#include "base/files.h"

/* ---- the file --------------------------------------------------------------------------------------------------- */

nt_status nt__log_path(const char *run, char **out) {
    *out = nt__is_folder(run) ? nt__sprintf("%s/metrics.jsonl", run) : nt__strdup(run);
    if (!*out) return NT_OUT_OF_MEMORY;
    if (access(*out, F_OK) == 0) return NT_OK;
    bool is_folder = nt__is_folder(run);
    nt__free(*out);
    *out = NULL;
    if (is_folder)
        return nt__fail(
            NT_NOT_FOUND,
            "'%s' has no log (metrics.jsonl), so it is no folder of a run, or its run kept none: nitro runs "
            "lists those that have one",
            run);
    return nt__fail(NT_NOT_FOUND,
                    "there is no folder and no file '%s': name the folder of a run; nitro runs lists them", run);
}

/* A line that is longer is none of nitro's: the text of an experiment's files, its longest, has a few MiB. */
enum { LONGEST = 64 << 20, FIRST_ROOM = 64 << 10 };

/* What was read of the file: lines that were given, the line at hand, what is after it. */
typedef struct reader {
    const char *path;
    int file;
    char *bytes;
    size_t begin, end, room; /* the line at hand begins at `begin`, and up to `end` was read */
    int64_t number;          /* of the line at hand */
} reader;

/* The end of the line is not counted. Empty lines are nothing. */
static nt_status give(reader *r, char *end, nt__line_function function, void *context) {
    char *text = r->bytes + r->begin;
    size_t length = (size_t)(end - text);
    *end = 0;
    r->begin += length + 1;
    int64_t number = r->number++;
    return length ? function(&(nt__log_line_text){text, length, number}, context) : NT_OK;
}

/* Reads more of the file after the line at hand; *got is 0 at its end. */
static nt_status read_more(reader *r, size_t *got) {
    memmove(r->bytes, r->bytes + r->begin, r->end - r->begin);
    r->end -= r->begin;
    r->begin = 0;
    if (r->end >= LONGEST)
        return nt__fail(NT_INVALID, "'%s' is no log of nitro's: line %lld has more than %d bytes", r->path,
                        (long long)r->number, LONGEST);
    if (r->end == r->room) {
        char *grown = nt__realloc(r->bytes, 2 * r->room, 1);
        if (!grown) return NT_OUT_OF_MEMORY;
        r->bytes = grown;
        r->room *= 2;
    }
    nt_status status = nt__read_some(r->file, r->path, r->bytes + r->end, r->room - r->end, got);
    r->end += *got;
    return status;
}

static nt_status read_lines(reader *r, nt__line_function function, void *context, size_t *torn) {
    nt_status status = NT_OK;
    size_t got = 1, seen = 0; /* no line ends in the first bytes of the line at hand */
    while (status == NT_OK && got) {
        char *end = memchr(r->bytes + r->begin + seen, '\n', r->end - r->begin - seen);
        if (end) {
            status = give(r, end, function, context);
            seen = 0;
        } else {
            seen = r->end - r->begin;
            status = read_more(r, &got);
        }
    }
    *torn = status == NT_OK ? r->end - r->begin : 0;
    return status;
}

nt_status nt__log_lines(const char *path, nt__line_function function, void *context, size_t *torn) {
    reader r = {.path = path, .room = FIRST_ROOM, .number = 1};
    size_t size;
    *torn = 0;
    nt_status status = nt__open_regular(path, &r.file, &size);
    if (status != NT_OK) return status;
    r.bytes = nt__alloc(r.room, 1);
    status = r.bytes ? read_lines(&r, function, context, torn) : NT_OUT_OF_MEMORY;
    nt__free(r.bytes);
    close(r.file);
    return status;
}

/* ---- a line as text --------------------------------------------------------------------------------------------- */

/* What stands after "name":, NULL when the line has no such name. */
static const char *value_of(const char *line, const char *name) {
    size_t length = strlen(name);
    for (const char *at = strstr(line, name); at; at = strstr(at + 1, name))
        if (at > line && at[-1] == '"' && at[length] == '"' && at[length + 1] == ':') return at + length + 2;
    return NULL;
}

bool nt__line_is_of(const char *line, const char *context) {
    const char *value = value_of(line, "context");
    size_t length = strlen(context);
    return value && *value == '"' && strncmp(value + 1, context, length) == 0 && value[length + 1] == '"';
}

bool nt__line_number(const char *line, const char *name, double *out) {
    const char *value = value_of(line, name);
    char *end;
    if (!value) return false;
    *out = nt__read_double(value, &end);
    return end != value;
}
