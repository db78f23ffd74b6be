/* Lists of words, and text split into words with the quoting of a shell.
 * Not here: variables, wildcards and everything else that a shell expands.
 */
#include "base/words.h"

#include <ctype.h>
#include <string.h>

void nt__words_add(nt__words *words, const char *word) {
    if (words->failed) return;
    words->failed = !word || !NT__GROW(words->items, words->count, words->capacity);
    if (!words->failed) words->items[words->count++] = word;
}

void nt__words_add_all(nt__words *words, const nt__words *more) {
    words->failed |= more->failed;
    for (size_t i = 0; i < more->count; i++) nt__words_add(words, more->items[i]);
}

void nt__words_free(nt__words *words) {
    nt__free(words->items);
    *words = (nt__words){0};
}

/* Copies one word to `out` without its quotes. Returns where it ends, NULL when a quote is left open. */
static const char *copy_word(const char *text, char *out) {
    char quote = 0;
    for (; *text && (quote || !isspace((unsigned char)*text)); text++) {
        if (quote == 0 && (*text == '\'' || *text == '"'))
            quote = *text;
        else if (quote && *text == quote)
            quote = 0;
        else if (*text == '\\' && quote != '\'' && text[1])
            *out++ = *++text;
        else
            *out++ = *text;
    }
    return quote ? NULL : text;
}

nt_status nt__words_split(nt__arena *arena, const char *what, const char *text, nt__words *words) {
    const char *at = text;
    while (true) {
        while (isspace((unsigned char)*at)) at++;
        if (!*at) return words->failed ? NT_OUT_OF_MEMORY : NT_OK;
        char *word = nt__arena_alloc(arena, strlen(at) + 1, 1);
        if (!word) return NT_OUT_OF_MEMORY;
        at = copy_word(at, word);
        if (!at) return nt__fail(NT_INVALID, "%s: a quote is opened and never closed in: %s", what, text);
        nt__words_add(words, word);
    }
}
