/* What a run has left in its folder, read back from the log alone: epochs with their metrics, curves, what made the
 * run, and how it ended. A run may be under way, or have been killed in the middle of a line. Not here: tables and
 * pictures of it (cli), writing a log (log).
 */
#ifndef NT_HISTORY_HISTORY_H
#define NT_HISTORY_HISTORY_H

#include <jansson.h>

#include "base/base.h"

/* ---- lines (lines.c) -------------------------------------------------------------------------------------------- */

typedef struct nt__log_line_text {
    const char *text; /* with a NUL, without the newline */
    size_t length;
    int64_t number; /* from 1 */
} nt__log_line_text;
/* A failure ends the reading. */
typedef nt_status (*nt__line_function)(const nt__log_line_text *line, void *context);

/* Gives each whole line of a log, one at a time. *torn: bytes of a last line without its end, which a kill or a write
 * under way leaves; they are left out. */
nt_status nt__log_lines(const char *path, nt__line_function function, void *context, size_t *torn);
/* Whether the line is of metrics of that context, without parsing it: what the writer makes of a line is one object
 * without others in it, and quotes inside texts are escaped. */
bool nt__line_is_of(const char *line, const char *context);
/* The number after a name, likewise. False: there is none. */
bool nt__line_number(const char *line, const char *name, double *out);

/* "<folder>/metrics.jsonl" for the folder of a run, a file as it is. The caller frees it. NT_NOT_FOUND says what is not
 * there. */
nt_status nt__log_path(const char *run, char **out);

/* ---- the epochs of a run (history.c) ---------------------------------------------------------------------------- */

typedef struct nt__history_value {
    size_t metric; /* its place among the names */
    double value;
} nt__history_value;

/* An epoch. Its values are in the order of the metrics. */
typedef struct nt__history_row {
    int64_t epoch, step; /* step: the last one of the epoch */
    nt__history_value *values;
    size_t count, capacity;
} nt__history_row;

typedef struct nt__history {
    nt__arena arena;
    const char *folder;
    nt__history_row *rows;
    size_t row_count, row_capacity;
    const char **metrics; /* names, "loss" first, then in the order of their appearance */
    size_t metric_count, metric_capacity;
    nt__map places;               /* one more than the place of each name */
    json_t *params, *environment; /* of the newest such lines; NULL: none */
    json_t *sources;              /* path to text, where it was asked for */
    int64_t step, epoch;          /* of the newest line of metrics */
    const char *status;           /* of the newest line `finish` when nothing follows it; else NULL */
    double seconds;               /* of the trainings that ended */
    int64_t first_started,
        newest_started;           /* seconds since 1970: of a run that was resumed, not the same; 0: not known */
    double seconds_before;        /* of training before the newest start */
    size_t torn;                  /* bytes of a torn last line */
    int64_t odd_lines, first_odd; /* whole lines that are no object: left out */
    int64_t changed;              /* when the file was written last: seconds since 1970 */
} nt__history;

enum { NT__METRIC_LOSS }; /* its place among the metrics */

/* `run` is the folder of a run or a log. Free the history also after a failure. */
nt_status nt__history_read(const char *run, bool with_sources, nt__history *out);
void nt__history_free(nt__history *history);
/* NULL: the row has no such value. */
const double *nt__row_value(const nt__history_row *row, size_t metric);
/* -1: there is none. */
int nt__history_metric(const nt__history *history, const char *name);
/* Error that lists the names. */
nt_status nt__history_find_metric(const nt__history *history, const char *name, size_t *out);
/* "experiment" of the environment, else the name of the folder. */
const char *nt__history_experiment(const nt__history *history);
/* Seconds since 1970 when the run began, the first time where it was resumed; when the log was written last where it
 * does not say. */
int64_t nt__history_started(const nt__history *history);

/* "completed", "requested", "error": how training ended. Else "running" when somebody holds the folder's lock, "killed"
 * when nobody does. */
const char *nt__history_state(const nt__history *history);
/* The newest optimizer step that the log has. */
int64_t nt__history_steps(const nt__history *history);
/* Seconds of training, up to now when it is running: without what was lost with the steps after the checkpoint that a
 * run was resumed from. */
double nt__history_seconds(const nt__history *history, const char *state, int64_t now);

/* ---- the best epoch (best.c, direction.c) ----------------------------------------------------------------------- */

typedef enum nt__direction { NT__DIRECTION_UNKNOWN, NT__SMALLER_IS_BETTER, NT__LARGER_IS_BETTER } nt__direction;
/* Which values of a metric are better, as its name says: accuracy, auc, f1 and what metric libraries have the larger
 * the better; losses, errors, distances and their like the smaller. Unknown where the name has a word of neither kind,
 * or of both. */
nt__direction nt__metric_direction(const char *name);

typedef struct nt__best {
    bool found;
    size_t metric, row;
    nt__direction direction; /* unknown: there is no best, since nothing says which values are better */
} nt__best;
/* `name` NULL: what the run was told to rank its checkpoints by (checkpoint_metric, and with it checkpoint_mode), else
 * val_loss when there is one, else the first metric beside the loss, else the loss. `mode` "min" or "max"; NULL: as the
 * name says. A name or mode that there is not is an error; a metric without a finite value has no best. */
nt_status nt__history_best(const nt__history *history, const char *name, const char *mode, nt__best *out);

/* ---- rows that fit (thin.c) ------------------------------------------------------------------------------------- */

/* Which of n rows (from 0) are shown in `budget` lines, a gap between rows that are not neighbours taking one: the
 * first, the last and `best` (n: none) always, then their neighbours in turn. Returns how many. */
size_t nt__thin_rows(size_t n, size_t best, size_t budget, bool *kept);

/* ---- curves (curve.c) ------------------------------------------------------------------------------------------- */

enum { NT__CURVE_PARTS = 1024 };

/* Points in the order of x, of neighbours the mean, so that any number of them fits: parts have `each` points. */
typedef struct nt__curve_part {
    double x_first, x_last, sum, low, high;
    int64_t count;
} nt__curve_part;
typedef struct nt__curve {
    nt__curve_part *parts;
    size_t part_count;
    int64_t each, points;
} nt__curve;
nt_status nt__curve_add(nt__curve *curve, double x, double y);
void nt__curve_free(nt__curve *curve);
double nt__part_x(const nt__curve_part *part);
double nt__part_y(const nt__curve_part *part);

typedef enum nt__axis { NT__AXIS_STEP, NT__AXIS_EPOCH } nt__axis;
/* `name` is a column of the history ("val_loss"), or "CONTEXT/NAME" for each line of that context ("train/loss"). */
nt_status nt__curve_read(const nt__history *history, const char *name, nt__axis axis, nt__curve *out);

/* ---- runs below a folder (runs.c) ------------------------------------------------------------------------------- */

typedef struct nt__run_folder {
    char *path;
    int64_t changed; /* when its log was written last, in nanoseconds; without one, the newest file of the run */
    bool has_log;    /* metrics.jsonl; else it has other logs, checkpoints or parameters */
} nt__run_folder;
typedef struct nt__run_folders {
    nt__run_folder *items;
    size_t count, capacity;
} nt__run_folders;
/* Folders with a log or other files of a run, `folder` itself or up to four levels below, the one written last first.
 */
nt_status nt__run_folders_find(const char *folder, nt__run_folders *out);
void nt__run_folders_free(nt__run_folders *folders);

#endif
