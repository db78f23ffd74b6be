/* What the commands that look at runs share.
 * Not here: reading a run (the folder history).
 */
#ifndef NT_CLI_HISTORY_H
#define NT_CLI_HISTORY_H

#include "cli/cli.h"
#include "cli/screen.h"
#include "history/history.h"

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

/* The folder that a command was given, else the newest run below runs/. The caller frees it. */
nt_status nt__choose_run(const nt__arguments *arguments, char **out);
/* "1 h 05 min", "12.5 s". */
enum { NT__DURATION = 32 };
const char *nt__duration_text(double seconds, char out[NT__DURATION]);

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

#endif
