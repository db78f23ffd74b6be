/* Lists of words, and text split into words. */
#ifndef NT_BASE_WORDS_H
#define NT_BASE_WORDS_H

#include "base/base.h"

/* A growing list; the words themselves are borrowed. After a failed allocation `failed` stays set and further calls do
 * nothing. */
typedef struct nt__words {
    const char **items;
    size_t count, capacity;
    bool failed;
} nt__words;
void nt__words_add(nt__words *words, const char *word);
void nt__words_add_all(nt__words *words, const nt__words *more);
void nt__words_free(nt__words *words);

/* Adds the words of `text` as a shell would see them: divided by spaces, '...' and "..." kept together, a backslash
 * outside '...' takes the next character as it is. Nothing is expanded. The words live in the arena. The error names
 * `what` the text is ("--cflags"). */
nt_status nt__words_split(nt__arena *arena, const char *what, const char *text, nt__words *words);

#endif
