/* What the command shows: lines with escapes for what a terminal would obey, tables, a history, plots, differences of
 * two texts.
 */
#ifndef NT_SHOW_SHOW_H
#define NT_SHOW_SHOW_H

#include <stdio.h>

#include "base/words.h"
#include "history/history.h"

/* ---- lines (print.c) -------------------------------------------------------------------------------------------- */

/* Writes a part of a line. A line break in it is an escape too; a tab is not. */
void nt__say(FILE *out, const char *format, ...) NT__PRINTF(2, 3);
void nt__vsay(FILE *out, const char *format, va_list arguments) NT__PRINTF(2, 0);
/* The same with a line break after it. */
void nt__say_line(FILE *out, const char *format, ...) NT__PRINTF(2, 3);
/* A text of several lines. */
void nt__say_lines(FILE *out, const char *text);
/* A cell of a table, of a text that was shown: at its left, or at its right; returns its columns. */
int nt__cell_left(FILE *out, size_t width, const char *shown);
int nt__cell_right(FILE *out, size_t width, const char *shown);

/* ---- the screen (screen.c) -------------------------------------------------------------------------------------- */

typedef struct nt__screen {
    size_t columns, rows; /* 0: no end, as of a file or a pipe */
    bool colours;
} nt__screen;
/* Of standard output. NO_COLOR turns colours off. */
nt__screen nt__screen_of_output(void);

/* ---- tables (table.c) ------------------------------------------------------------------------------------------- */

/* A moment, in seconds since 1970, as local time: "2026-03-01 14:05:09", or "?" where no calendar reaches. */
enum { NT__TIME = 32 };
const char *nt__time_text(int64_t seconds, char out[NT__TIME]);

/* "1 h 05 min", "12.5 s". */
enum { NT__DURATION = 32 };
const char *nt__duration_text(double seconds, char out[NT__DURATION]);

enum { NT__TABLE_COLUMNS = 8 };

/* Cells row by row; an empty text is an empty cell. The last column is as wide as it likes. */
typedef struct nt__table {
    nt__arena arena;
    nt__words cells;
} nt__table;
/* Adds a copy of the text, with escapes for what a terminal would obey. */
void nt__table_add(nt__table *table, const char *text);
/* Prints the cells in rows of `columns` and frees them. False when memory was short. */
bool nt__table_print(nt__table *table, size_t columns, FILE *out);

/* ---- a history (history_table.c) -------------------------------------------------------------------------------- */

/* The rows and columns of a history that are shown. */
typedef struct nt__history_view {
    const nt__history *history;
    const nt__best *best;
    size_t first, count;   /* rows */
    const size_t *columns; /* metrics, in order */
    size_t column_count;
    nt__screen screen;
    int64_t now; /* seconds since 1970 */
} nt__history_view;
/* Writes the title, the table and the notes. False: memory was short. */
bool nt__history_show(const nt__history_view *view, FILE *out);
/* The notes about the log itself: how far a run is that did not end, a torn line, lines that are no object. */
void nt__history_notes(const nt__history *history, FILE *out);

/* ---- plots (plot_text.c, plot_file.c) --------------------------------------------------------------------------- */

/* What is drawn: one panel a metric, in it one curve a run. */
typedef struct nt__plot_curve {
    const char *run;
    const nt__curve *points;
    bool is_marked; /* the best epoch */
    double mark_x, mark_y;
} nt__plot_curve;
typedef struct nt__plot_panel {
    const char *name, *note, *axis; /* note: "min 0.5 in epoch 23"; "" for none */
    nt__plot_curve *curves;
    size_t count;
} nt__plot_panel;
typedef struct nt__plot {
    const char *title;
    nt__plot_panel *panels;
    size_t count;
} nt__plot;
/* Braille dots, panel by panel. False: memory was short. */
bool nt__plot_draw(const nt__plot *plot, nt__screen screen, FILE *out);
/* An .svg or .png file. */
nt_status nt__plot_write(const nt__plot *plot, const char *path);
/* The range of x and y of a panel; false when it has no finite point. */
typedef struct nt__plot_range {
    double x_low, x_high, y_low, y_high;
} nt__plot_range;
bool nt__plot_range_of(const nt__plot_panel *panel, nt__plot_range *out);

/* ---- differences (line_diff.c) ---------------------------------------------------------------------------------- */

/* Called for each line that only one text has, in order; where lines were replaced, the old ones come first. `number`
 * is the line's in its own text, from 1. */
typedef void (*nt__line_difference)(bool is_new, size_t number, const char *line, void *context);
nt_status nt__line_diff(const char *old_text, const char *new_text, nt__line_difference function, void *context);

#endif
