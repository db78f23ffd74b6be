/* The lines of a log, one at a time, and what can be told of one without parsing it.
 * Not here: what the lines say of a run.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "history/history.h"

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

/* The end of the line is not counted. Empty lines are nothing. */
static nt_status give(char *text, size_t length, int64_t number, nt__line_function function, void *context) {
    text[length] = 0;
    return length ? function(&(nt__log_line_text){text, length, number}, context) : NT_OK;
}

static nt_status read_lines(FILE *file, nt__line_function function, void *context, size_t *torn) {
    char *text = NULL;
    size_t room = 0;
    ssize_t length;
    nt_status status = NT_OK;
    for (int64_t number = 1; status == NT_OK && (length = getline(&text, &room, file)) > 0; number++) {
        bool is_whole = text[length - 1] == '\n';
        if (is_whole) status = give(text, (size_t)length - 1, number, function, context);
        if (!is_whole) *torn = (size_t)length;
    }
    free(text);
    return status;
}

nt_status nt__log_lines(const char *path, nt__line_function function, void *context, size_t *torn) {
    FILE *file = fopen(path, "re");
    *torn = 0;
    if (!file) return nt__fail(NT_IO, "cannot read '%s': %s", path, strerror(errno));
    errno = 0;
    nt_status status = read_lines(file, function, context, torn);
    if (status == NT_OK && ferror(file)) status = nt__fail(NT_IO, "cannot read '%s': %s", path, strerror(errno));
    fclose(file);
    return status;
}

/* ---- a line as text --------------------------------------------------------------------------------------------- */

/* What stands behind "name":, NULL when the line has no such name. */
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
