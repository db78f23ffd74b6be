/* Names that somebody may have meant: by the number of slips between two words.
 * Not here: which names there are.
 */
#include "base/closest.h"

#include <string.h>

enum { LONGEST = 64, FAR = 1000, MOST_SHOWN = 3 };

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Letters to add, drop, change or swap with their neighbour until the words are equal (optimal string alignment). A '*'
 * in `a` stands for any letters, so they are no slips. */
static size_t slips_between(const char *a, const char *b) {
    size_t rows[LONGEST + 1][LONGEST + 1];
    size_t m = strlen(a), n = strlen(b);
    if (m > LONGEST || n > LONGEST) return FAR;
    rows[0][0] = 0;
    for (size_t i = 1; i <= m; i++) rows[i][0] = rows[i - 1][0] + (a[i - 1] != '*');
    for (size_t j = 1; j <= n; j++) rows[0][j] = j;
    for (size_t i = 1; i <= m; i++) {
        for (size_t j = 1; j <= n; j++) {
            size_t price = a[i - 1] != '*', change = rows[i - 1][j - 1] + (price && a[i - 1] != b[j - 1]);
            rows[i][j] = smaller(change, smaller(rows[i - 1][j], rows[i][j - 1]) + price);
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) rows[i][j] = smaller(rows[i][j], rows[i - 2][j - 2] + 1);
        }
    }
    return rows[m][n];
}

/* A word that was cut short counts as one slip. */
static size_t distance(const char *typed, const char *candidate) {
    size_t length = strlen(typed);
    bool is_start = length >= 3 && strncmp(typed, candidate, length) == 0;
    size_t slips = slips_between(typed, candidate);
    return is_start ? smaller(slips, 1) : slips;
}

static size_t least_distance(const char *name, const char *const *candidates, size_t count) {
    size_t least = FAR;
    for (size_t i = 0; i < count; i++) least = smaller(least, distance(name, candidates[i]));
    return least;
}

void nt__add_closest(nt__text *out, const char *name, const char *const *candidates, size_t count, const char *before) {
    size_t least = least_distance(name, candidates, count), shown = 0;
    if (least > smaller(1 + strlen(name) / 4, 3)) return;
    for (size_t i = 0; i < count && shown < MOST_SHOWN; i++) {
        if (distance(name, candidates[i]) != least) continue;
        nt__text_add(out, "%s%s%s", shown ? " or " : " (did you mean ", before, candidates[i]);
        shown++;
    }
    nt__text_add(out, "?)");
}
