/* Lines that a person types or a pipe gives, and what is done while none comes. */
#ifndef NT_SHELL_LINES_H
#define NT_SHELL_LINES_H

#include "base/words.h"

typedef enum nt__line_result { NT__LINE_READ, NT__LINE_INTERRUPTED, NT__LINE_NONE } nt__line_result;

typedef struct nt__line_hooks {
    /* Called a few times a second while nothing comes; true: it wrote lines. NULL: not wanted. */
    bool (*idle)(void *context);
    /* Adds the words that the last one of `line` may become. They live in the arena. */
    void (*complete)(const char *line, nt__arena *arena, nt__words *words, void *context);
    void *context;
} nt__line_hooks;

/* Waits until standard input has something or has ended. */
nt__line_result nt__input_wait(bool (*idle)(void *context), void *context);

/* ---- with line editing (editor.c, or editor_absent.c where libedit was not there) ------------------------------- */

typedef struct nt__editor nt__editor;
/* Line editing, history and completion on the terminal. `history` is its file; NULL: none is kept. NULL with a message
 * when the terminal cannot be used that way. */
nt__editor *nt__editor_open(const char *history, const nt__line_hooks *hooks);
/* *line is valid until the next call. */
nt__line_result nt__editor_read(nt__editor *editor, const char **line);
void nt__editor_close(nt__editor *editor);

/* ---- either way ------------------------------------------------------------------------------------------------- */

typedef struct nt__lines {
    nt__editor *editor; /* NULL: plain lines */
    bool prompts;       /* a person reads along */
    bool failed;        /* standard input could not be read; the thread's message says why */
    nt__line_hooks hooks;
    nt__text line;
} nt__lines;
/* On a terminal with line editing; when that cannot be had, it is said once and lines are read plainly. */
void nt__lines_open(nt__lines *lines, const char *history, const nt__line_hooks *hooks);
/* Without its line end, valid until the next call. NT__LINE_NONE: the end, also of a failure. */
nt__line_result nt__lines_read(nt__lines *lines, const char **line);
void nt__lines_close(nt__lines *lines);

#endif
