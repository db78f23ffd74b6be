/* A locale with a decimal comma and points between groups of digits, which localedef makes in the scratch folder from
 * the sources below: no locale of the system is needed. Include after scratch.h.
 */
#ifndef NT_TESTS_BASE_COMMA_H
#define NT_TESTS_BASE_COMMA_H

#include <locale.h>
#include <stdlib.h>

static inline void comma_put_characters(void) {
    char text[8192];
    int length = snprintf(text, sizeof text,
                          "<code_set_name> OWN\n<mb_cur_min> 1\n<mb_cur_max> 1\n<comment_char> %%\n"
                          "<escape_char> /\nCHARMAP\n");
    for (int i = 0; i < 128; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "<U%04X> /x%02x A\n", (unsigned)i, (unsigned)i);
    length += snprintf(text + length, sizeof text - (size_t)length, "END CHARMAP\n");
    scratch_put("characters", text, (size_t)length);
}

/* 0: it is there, and setlocale(LC_ALL, "comma") finds it. */
static inline int comma_make(void) {
    static const char numbers[] = "LC_NUMERIC\ndecimal_point \"<U002C>\"\nthousands_sep \"<U002E>\"\ngrouping 3;3\n"
                                  "END LC_NUMERIC\n";
    comma_put_characters();
    scratch_put("numbers", numbers, sizeof numbers - 1);
    char line[4 * SCRATCH_PATH];
    snprintf(line, sizeof line, "cd %s && localedef -c -i ./numbers -f ./characters ./comma >log 2>&1; test -d comma",
             scratch_folder);
    if (system(line) != 0) return -1;
    return setenv("LOCPATH", scratch_folder, 1);
}

/* A decimal comma is what the program has from here on; false: it has not. */
static inline bool comma_set(void) {
    char text[16];
    if (!setlocale(LC_ALL, "comma")) return false;
    snprintf(text, sizeof text, "%.1f", 0.5);
    return strcmp(text, "0,5") == 0;
}

#endif
