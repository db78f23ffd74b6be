/* Line editing with libedit: history in a file, completion, and what has to be done while nobody types.
 * Not here: which words there are.
 */
#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "shell/lines.h"
#include "base/files.h"
#include "show/show.h"

enum { LINES_KEPT = 1000 };

struct nt__editor {
    EditLine *line;
    History *history;
    char *file; /* of the history; NULL: none */
    nt__line_hooks hooks;
    nt__line_result result; /* of the wait for the last character */
    nt__text text;
};

static nt__editor *editor_of(EditLine *line) {
    void *editor = NULL;
    el_get(line, EL_CLIENTDATA, &editor);
    return editor;
}

static char *prompt(EditLine *line) {
    static char text[] = "nitro> ";
    (void)line;
    return text;
}

/* ---- characters ------------------------------------------------------------------------------------------------- */

/* What was written while nobody typed stands where the line was: it is drawn again. */
static bool idle(void *context) {
    nt__editor *editor = context;
    if (!editor->hooks.idle || !editor->hooks.idle(editor->hooks.context)) return false;
    el_set(editor->line, EL_REFRESH);
    return true;
}

/* One byte of standard input: 1, 0 at its end, -1 when the line is over for another reason. */
static int read_byte(nt__editor *editor, char *byte) {
    for (;;) {
        editor->result = nt__input_wait(idle, editor);
        if (editor->result != NT__LINE_READ) return -1;
        ssize_t got = read(STDIN_FILENO, byte, 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        return got > 0 ? 1 : 0;
    }
}

/* ---- completion ------------------------------------------------------------------------------------------------- */

static size_t common_length(const nt__words *words) {
    size_t length = strlen(words->items[0]);
    for (size_t i = 1; i < words->count; i++) {
        size_t same = 0;
        while (same < length && words->items[i][same] == words->items[0][same]) same++;
        length = same;
    }
    return length;
}

static void list(const nt__words *words) {
    fputc('\n', stdout);
    for (size_t i = 0; i < words->count; i++)
        nt__say(stdout, "%s%s", words->items[i], i + 1 < words->count ? "  " : "");
    fputc('\n', stdout);
    fflush(stdout);
}

/* `typed` is the last word of the line. */
static void extend(nt__editor *editor, nt__arena *arena, const char *typed, const nt__words *words) {
    size_t length = common_length(words), there = strlen(typed);
    char *more = nt__arena_sprintf(arena, "%.*s%s", (int)(length - there), words->items[0] + there,
                                   words->count == 1 && words->items[0][length - 1] != '=' ? " " : "");
    if (more && *more) {
        el_insertstr(editor->line, more);
        return;
    }
    list(words);
}

static void complete(nt__editor *editor) {
    const LineInfo *info = el_line(editor->line);
    nt__arena arena = {0};
    nt__words words = {0};
    const char *text = nt__arena_sprintf(&arena, "%.*s", (int)(info->cursor - info->buffer), info->buffer);
    if (text) editor->hooks.complete(text, &arena, &words, editor->hooks.context);
    const char *space = text ? strrchr(text, ' ') : NULL;
    bool found = text && words.count > 0 && !words.failed;
    if (found) extend(editor, &arena, space ? space + 1 : text, &words);
    nt__words_free(&words);
    nt__arena_free(&arena);
    if (!found) return;
    /* The line is drawn over itself. */
    fputc('\r', stdout);
    el_set(editor->line, EL_REFRESH);
}

/* A byte that begins no character of the locale stands for itself. Tab is taken here and not bound to a function of
 * libedit's, which never frees the names of those. */
static int read_character(EditLine *line, wchar_t *out) {
    nt__editor *editor = editor_of(line);
    mbstate_t state = {0};
    for (;;) {
        char byte;
        int got = read_byte(editor, &byte);
        if (got <= 0) return got;
        size_t length = mbrtowc(out, &byte, 1, &state);
        if (length == (size_t)-2) continue;
        if (length == (size_t)-1) *out = (unsigned char)byte;
        if (byte != '\t') return 1;
        complete(editor);
    }
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

/* The library would wait for the other end of a pipe. */
static bool is_regular(const char *path) {
    int file;
    size_t size;
    bool good = nt__open_regular(path, &file, &size) == NT_OK;
    if (good) close(file);
    if (!good) nt__fail_nothing();
    return good;
}

/* A link of that name is not written through. What cannot be kept is no failure. */
static void save_history(nt__editor *editor) {
    HistEvent event;
    int file;
    FILE *out = nt__make_afresh(editor->file, &file) == NT_OK ? fdopen(file, "w") : NULL;
    if (!out) {
        nt__fail_nothing();
        if (file >= 0) close(file);
        return;
    }
    history(editor->history, &event, H_SAVE_FP, out);
    fclose(out);
}

static bool open_history(nt__editor *editor, const char *file) {
    HistEvent event;
    editor->history = history_init();
    if (!editor->history) return false;
    history(editor->history, &event, H_SETSIZE, LINES_KEPT);
    history(editor->history, &event, H_SETUNIQUE, 1);
    el_set(editor->line, EL_HIST, history, editor->history);
    if (!file) return true;
    if (is_regular(file)) history(editor->history, &event, H_LOAD, file);
    editor->file = nt__strdup(file);
    return editor->file != NULL;
}

nt__editor *nt__editor_open(const char *history_file, const nt__line_hooks *hooks) {
    nt__editor *editor = nt__alloc(1, sizeof *editor);
    if (!editor) return NULL;
    setlocale(LC_CTYPE, "");
    editor->hooks = *hooks;
    editor->line = el_init("nitro", stdin, stdout, stderr);
    if (!editor->line || !open_history(editor, history_file)) {
        nt__fail(NT_IO, "this terminal cannot be used for line editing");
        nt__editor_close(editor);
        return NULL;
    }
    el_set(editor->line, EL_CLIENTDATA, editor);
    el_set(editor->line, EL_PROMPT, prompt);
    el_set(editor->line, EL_EDITOR, "emacs");
    el_set(editor->line, EL_GETCFN, read_character);
    el_set(editor->line, EL_BIND, "^R", "em-inc-search-prev", NULL);
    return editor;
}

/* After a wait that gave no character the terminal and the half of a line are put in order. */
static nt__line_result give_up_line(nt__editor *editor) {
    el_reset(editor->line);
    fputc('\n', stdout);
    return editor->result;
}

nt__line_result nt__editor_read(nt__editor *editor, const char **line) {
    HistEvent event;
    int length = 0;
    *line = "";
    el_resize(editor->line);
    editor->result = NT__LINE_READ;
    const char *typed = el_gets(editor->line, &length);
    if (editor->result != NT__LINE_READ) return give_up_line(editor);
    if (!typed || length <= 0) {
        fputc('\n', stdout);
        return NT__LINE_NONE;
    }
    if (typed[strspn(typed, " \n")]) history(editor->history, &event, H_ENTER, typed);
    editor->text.length = 0;
    nt__text_put(&editor->text, typed, strcspn(typed, "\n"));
    *line = editor->text.length ? editor->text.data : "";
    return NT__LINE_READ;
}

void nt__editor_close(nt__editor *editor) {
    if (!editor) return;
    if (editor->history && editor->file) save_history(editor);
    if (editor->history) history_end(editor->history);
    if (editor->line) el_end(editor->line);
    nt__text_free(&editor->text);
    nt__free(editor->file);
    nt__free(editor);
}
