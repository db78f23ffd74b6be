/* Dependency lists: "target: file file ...", as compilers and linkers write them for make.
 * Not here: what is done with the files.
 */
#include "build/build.h"
#include "base/files.h"

#include <string.h>

/* The end of the target: the first colon that a space, a line's end or the text's end follows. */
static const char *after_target(const char *text) {
    const char *colon = strchr(text, ':');
    while (colon && colon[1] && !strchr(" \\\n", colon[1])) colon = strchr(colon + 1, ':');
    return colon ? colon + 1 : NULL;
}

/* Spaces and line ends that a backslash hides. */
static const char *skip_gap(const char *at) {
    while (*at == ' ' || (at[0] == '\\' && at[1] == '\n')) at += *at == ' ' ? 1 : 2;
    return at;
}

/* Copies one name to `out` without its escapes: "\ " is a space, "\#" is #, "$$" is $. */
static const char *copy_name(const char *at, char *out) {
    while (*at && *at != ' ' && *at != '\n' && !(at[0] == '\\' && at[1] == '\n')) {
        bool is_escape = (at[0] == '\\' && (at[1] == ' ' || at[1] == '#')) || (at[0] == '$' && at[1] == '$');
        *out++ = at[is_escape];
        at += is_escape ? 2 : 1;
    }
    return at;
}

static nt_status read_names(nt__arena *arena, const char *text, nt__words *files) {
    for (const char *at = skip_gap(text); *at && *at != '\n'; at = skip_gap(at)) {
        char *name = nt__arena_alloc(arena, strcspn(at, "\n") + 1, 1);
        if (!name) return NT_OUT_OF_MEMORY;
        at = copy_name(at, name);
        nt__words_add(files, name);
    }
    return files->failed ? NT_OUT_OF_MEMORY : NT_OK;
}

nt_status nt__dependencies_read(nt__arena *arena, const char *path, nt__words *files) {
    char *text;
    size_t length;
    nt_status status = nt__read_file(path, &text, &length);
    if (status != NT_OK) return status;
    const char *names = after_target(text);
    status = names ? read_names(arena, names, files)
                   : nt__fail(NT_INVALID, "'%s' is no dependency list: it has no target", path);
    nt__free(text);
    return status;
}
