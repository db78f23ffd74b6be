/* The lines in which two texts differ, by the longest common subsequence of what lies between the lines that they begin
 * and end with alike.
 * Not here: how they are shown.
 */
#include "show/show.h"

#include <string.h>

/* The table of a comparison has a cell for each pair of lines; of texts with more all lines between count as replaced.
 */
enum { MOST_CELLS = 4 << 20 };

typedef struct lines {
    char *text;
    const char **items;
    size_t count, capacity;
} lines;

static nt_status split(const char *text, lines *out) {
    *out = (lines){.text = nt__strdup(text)};
    if (!out->text) return NT_OUT_OF_MEMORY;
    for (char *at = out->text; *at;) {
        char *end = at + strcspn(at, "\n"), *next = end + (*end != 0);
        if (!NT__GROW(out->items, out->count, out->capacity)) return NT_OUT_OF_MEMORY;
        *end = 0;
        out->items[out->count++] = at;
        at = next;
    }
    return NT_OK;
}

static void release(lines *l) {
    nt__free(l->text);
    nt__free(l->items);
}

typedef struct comparison {
    const char **a, **b; /* between the lines that are alike */
    size_t a_count, b_count, skipped;
    uint16_t *longest; /* common subsequence after a pair of lines, at most 65535; NULL: not compared */
    nt__line_difference function;
    void *context;
} comparison;

static uint16_t *cell(const comparison *c, size_t i, size_t j) {
    return &c->longest[i * (c->b_count + 1) + j];
}

static void fill_table(comparison *c) {
    for (size_t i = c->a_count; i-- > 0;)
        for (size_t j = c->b_count; j-- > 0;) {
            uint16_t down = *cell(c, i + 1, j), right = *cell(c, i, j + 1), both = *cell(c, i + 1, j + 1);
            bool same = strcmp(c->a[i], c->b[j]) == 0;
            *cell(c, i, j) = (uint16_t)(same ? both + (both < UINT16_MAX) : down > right ? down : right);
        }
}

static void tell(const comparison *c, bool is_new, size_t place) {
    c->function(is_new, c->skipped + place + 1, is_new ? c->b[place] : c->a[place], c->context);
}

static void walk(const comparison *c) {
    size_t i = 0, j = 0;
    while (i < c->a_count || j < c->b_count) {
        bool both = i < c->a_count && j < c->b_count;
        bool same = both && c->longest && strcmp(c->a[i], c->b[j]) == 0;
        bool is_old = !both ? i < c->a_count : !c->longest || *cell(c, i + 1, j) >= *cell(c, i, j + 1);
        if (same) {
            i++;
            j++;
        } else if (is_old)
            tell(c, false, i++);
        else
            tell(c, true, j++);
    }
}

static nt_status compare(comparison *c) {
    bool fits = (c->a_count + 1) * (c->b_count + 1) <= MOST_CELLS;
    c->longest = fits ? nt__alloc((c->a_count + 1) * (c->b_count + 1), sizeof *c->longest) : NULL;
    if (fits && !c->longest) return NT_OUT_OF_MEMORY;
    if (fits) fill_table(c);
    walk(c);
    nt__free(c->longest);
    return NT_OK;
}

nt_status nt__line_diff(const char *old_text, const char *new_text, nt__line_difference function, void *context) {
    lines a, b = {0};
    nt_status status = split(old_text, &a);
    if (status == NT_OK) status = split(new_text, &b);
    size_t least = a.count < b.count ? a.count : b.count, front = 0, back = 0;
    if (status == NT_OK) {
        while (front < least && strcmp(a.items[front], b.items[front]) == 0) front++;
        while (back < least - front && strcmp(a.items[a.count - 1 - back], b.items[b.count - 1 - back]) == 0) back++;
        comparison c = {.a = a.items + front,
                        .b = b.items + front,
                        .a_count = a.count - front - back,
                        .b_count = b.count - front - back,
                        .skipped = front,
                        .function = function,
                        .context = context};
        status = compare(&c);
    }
    release(&a);
    release(&b);
    return status;
}
