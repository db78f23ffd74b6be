/* Aligned tables of text: each column as wide as its widest cell.
 * Not here: what is in the cells, but for times.
 */
#include "show/show.h"

#include <math.h>
#include <string.h>
#include <time.h>

const char *nt__duration_text(double seconds, char out[NT__DURATION]) {
    bool is_time = seconds >= 0 && seconds < 1e12; /* logs of others may say anything */
    int64_t whole = is_time ? (int64_t)llround(seconds) : 0;
    if (!is_time)
        snprintf(out, NT__DURATION, "?");
    else if (seconds < 60)
        nt__format(out, NT__DURATION, "%.1f s", seconds);
    else if (whole < 3600)
        snprintf(out, NT__DURATION, "%lld min %02lld s", (long long)whole / 60, (long long)whole % 60);
    else
        snprintf(out, NT__DURATION, "%lld h %02lld min", (long long)whole / 3600, (long long)whole / 60 % 60);
    return out;
}

const char *nt__time_text(int64_t seconds, char out[NT__TIME]) {
    time_t when = (time_t)seconds;
    struct tm parts;
    if (!localtime_r(&when, &parts) || !strftime(out, NT__TIME, "%Y-%m-%d %H:%M:%S", &parts))
        snprintf(out, NT__TIME, "?");
    return out;
}

void nt__table_add(nt__table *table, const char *text) {
    nt__text shown = {0};
    nt__text_show(&shown, text, "");
    const char *kept = shown.failed ? NULL : nt__arena_strdup(&table->arena, shown.data ? shown.data : "");
    nt__words_add(&table->cells, kept);
    nt__text_free(&shown);
}

static size_t width_of_column(const nt__table *table, size_t columns, size_t column) {
    size_t widest = 0;
    for (size_t i = column; i < table->cells.count; i += columns) {
        size_t width = nt__shown_width(table->cells.items[i]);
        if (width > widest) widest = width;
    }
    return widest;
}

/* Cells after the last one that has text are left out, so that no line ends in spaces. */
static void print_row(const char *const *cells, const size_t *widths, size_t columns, FILE *out) {
    size_t last = columns;
    while (last > 0 && !*cells[last - 1]) last--;
    for (size_t i = 0; i < last; i++) {
        fputs("  ", out);
        nt__cell_left(out, i + 1 == last ? 0 : widths[i], cells[i]);
    }
    fputc('\n', out);
}

bool nt__table_print(nt__table *table, size_t columns, FILE *out) {
    size_t widths[NT__TABLE_COLUMNS] = {0};
    bool good = !table->cells.failed;
    for (size_t i = 0; i < columns; i++) widths[i] = width_of_column(table, columns, i);
    for (size_t i = 0; good && i + columns <= table->cells.count; i += columns)
        print_row(&table->cells.items[i], widths, columns, out);
    nt__words_free(&table->cells);
    nt__arena_free(&table->arena);
    return good;
}
