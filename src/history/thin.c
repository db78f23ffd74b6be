/* Which rows of a long table are shown where there is room for few.
 * Not here: the table.
 */
#include "history/history.h"

typedef struct thinning {
    bool *kept;
    size_t n, cost; /* lines that rows and gaps take */
} thinning;

/* Of rows and gaps, when the row is shown too: it closes a gap on one side, or opens one. */
static size_t cost_of(const bool *kept, size_t n) {
    size_t cost = 0;
    for (size_t i = 0; i < n; i++) cost += kept[i] || (i > 0 && kept[i - 1]);
    return cost;
}

/* Adds the row at the place, if there is one. */
static void keep(thinning *t, int64_t place) {
    if (place < 0 || place >= (int64_t)t->n || t->kept[place]) return;
    size_t i = (size_t)place;
    /* The first and the last row are there from the start, so each row has two neighbours. A gap is one line however
     * many rows it has. */
    t->kept[i] = true;
    bool before = t->kept[i - 1], behind = t->kept[i + 1];
    t->cost += before && behind ? 0 : before || behind ? 1 : 2;
}

size_t nt__thin_rows(size_t n, size_t best, size_t budget, bool *kept) {
    thinning t = {.kept = kept, .n = n};
    bool has_best = best < n, all = n <= budget;
    for (size_t i = 0; i < n; i++) kept[i] = all || i == 0 || i == n - 1 || i == best;
    if (all) return n;
    t.cost = cost_of(kept, n);
    for (int64_t move = 1; t.cost < budget; move++) {
        const int64_t places[] = {move, has_best ? (int64_t)best + move : -1, has_best ? (int64_t)best - move : -1,
                                  (int64_t)n - 1 - move};
        for (size_t i = 0; t.cost < budget && i < sizeof places / sizeof *places; i++) keep(&t, places[i]);
    }
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += kept[i];
    return count;
}
