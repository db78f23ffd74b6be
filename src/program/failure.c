/* A compile that failed: the message leads back to the user's line and shows the program's arguments, and a file has
 * everything. Not here: compiling.
 */
#include <stdlib.h>
#include <string.h>

#include "program/program_internal.h"
#include "base/files.h"

/* The engine says "-:LINE:COLUMN": the line of our text leads back to the user's call. NULL: it names no line of ours.
 */
static const nt__line *blamed_line(const nt__program *program, const char *engine_text) {
    const nt__printed *printed = &program->printed;
    for (const char *at = engine_text; at && (at = strstr(at, "-:")); at += 2) {
        char *end;
        long index = strtol(at + 2, &end, 10) - printed->first_line;
        if (*end == ':' && index >= 0 && (size_t)index < printed->line_count) return &printed->lines[index];
    }
    return NULL;
}

static void add_place(nt__text *message, const nt__line *line) {
    if (!line || !*line->site.file) return;
    nt__text_add(message, "%s:%d in %s: ", line->site.file, line->site.line, line->site.function);
}

enum { MOST_ARGUMENTS = 8 };

static void add_arguments(nt__text *message, const nt__program *program) {
    char type[NT__TYPE_TEXT];
    size_t count = program->printed.argument_count;
    nt__text_add(message, "; its arguments are ");
    for (size_t i = 0; i < count && i < MOST_ARGUMENTS; i++)
        nt__text_add(message, "%s%.60s %s", i ? ", " : "", program->arguments[i].name,
                     nt__type_text(program->arguments[i].type, type));
    if (count == 0) nt__text_add(message, "none");
    if (count > MOST_ARGUMENTS) nt__text_add(message, " and %zu more", count - MOST_ARGUMENTS);
}

/* Path of a new file with all there is to say, NULL when there is none. The caller frees it. */
static char *write_everything(const nt__program *program, const char *message, const char *engine_text) {
    static const char engine_title[] = "\n\n---- what the engine said ----\n",
                      program_title[] = "---- the program ----\n";
    const char *said = engine_text ? engine_text : "nothing\n";
    const nt__text *text = &program->printed.text;
    if (!program->failure_folder || nt__make_folder(program->failure_folder) != NT_OK) return NULL;
    char *path = nt__sprintf("%s/failed-%s.txt", program->failure_folder, program->role);
    const nt__piece pieces[] = {{message, strlen(message)},
                                {engine_title, sizeof engine_title - 1},
                                {said, strlen(said)},
                                {"\n", 1},
                                {program_title, sizeof program_title - 1},
                                {text->data, text->length}};
    if (path && !nt__is_folder(path) && nt__write_kept(path, pieces, sizeof pieces / sizeof *pieces) == NT_OK)
        return path;
    nt__free(path);
    return NULL;
}

nt_status nt__program_explain(const nt__program *program, nt_status status) {
    const char *engine_text = nt__engine_last_text();
    if (status == NT_OUT_OF_MEMORY && !engine_text) return status;
    nt__text message = {0};
    add_place(&message, blamed_line(program, engine_text));
    nt__text_add(&message, "%s", nt_error_message());
    add_arguments(&message, program);
    char *path = message.failed ? NULL : write_everything(program, message.data, engine_text);
    if (path) nt__text_add(&message, ". All that the engine said and the program's text are in '%s'", path);
    if (!message.failed)
        nt__fail(status, "%s", message.data);
    else
        status = NT_OUT_OF_MEMORY;
    nt__free(path);
    nt__text_free(&message);
    return status;
}
