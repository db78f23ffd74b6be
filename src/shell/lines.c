/* Lines from standard input. It is read byte by byte and never ahead, so that poll says whether more has come.
 * Not here: line editing (editor.c), what the lines mean.
 */
#include "shell/lines.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "process/process.h"

enum { PAUSE_MS = 200 };

/* A signal that came with input, or with its end, is looked at first. */
nt__line_result nt__input_wait(bool (*idle)(void *context), void *context) {
    for (;;) {
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        int ready = poll(&input, 1, PAUSE_MS);
        if (nt__end_requested()) return NT__LINE_NONE;
        if (nt__interrupt_take()) return NT__LINE_INTERRUPTED;
        if (ready > 0) return NT__LINE_READ;
        if (ready == 0 && idle) idle(context);
    }
}

void nt__lines_open(nt__lines *lines, const char *history, const nt__line_hooks *hooks) {
    *lines = (nt__lines){.hooks = *hooks};
    lines->prompts = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
    if (!lines->prompts) return;
    lines->editor = nt__editor_open(history, hooks);
    if (!lines->editor) fprintf(stderr, "nitro: %s\n", nt_error_message());
}

static void show_prompt(const nt__lines *lines) {
    if (!lines->prompts) return;
    fputs("nitro> ", stdout);
    fflush(stdout);
}

static nt__line_result fail_to_read(nt__lines *lines) {
    lines->failed = true;
    nt__fail(NT_IO, "cannot read standard input: %s", strerror(errno));
    return NT__LINE_NONE;
}

/* A last line may lack its line end. */
static nt__line_result read_plain(nt__lines *lines) {
    char byte;
    lines->line.length = 0;
    show_prompt(lines);
    for (;;) {
        nt__line_result result = nt__input_wait(lines->hooks.idle, lines->hooks.context);
        if (result != NT__LINE_READ) return result;
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) return fail_to_read(lines);
        if (got == 0) return lines->line.length ? NT__LINE_READ : NT__LINE_NONE;
        if (byte == '\n') return NT__LINE_READ;
        nt__text_put(&lines->line, &byte, 1);
    }
}

nt__line_result nt__lines_read(nt__lines *lines, const char **line) {
    if (lines->editor) return nt__editor_read(lines->editor, line);
    nt__line_result result = read_plain(lines);
    *line = lines->line.length ? lines->line.data : "";
    return lines->line.failed ? NT__LINE_NONE : result;
}

void nt__lines_close(nt__lines *lines) {
    nt__editor_close(lines->editor);
    nt__text_free(&lines->line);
}
