/* The log of a run: lines for one or more loggers, of which each has a form and a file of its own.
 * Not here: what is logged when.
 */
#ifndef NT_LOG_LOG_H
#define NT_LOG_LOG_H

#include "base/base.h"
#include "nitro/log.h"

/* ---- all loggers of a run --------------------------------------------------------------------------------------- */

/* "jsonl", "csv", ...: the built-in loggers. NULL beyond the last. */
const nt_logger *nt__logger_at(size_t index);
/* Error when `names`, divided by commas, has one that is no logger or stands twice; "none" alone is none. */
nt_status nt__loggers_check(const char *names);
/* Error when one of the user's lacks a function that is required. */
nt_status nt__loggers_check_own(const nt_logger *loggers, size_t count);

typedef struct nt__log nt__log;

/* Where one of them is. */
typedef struct nt__log_position {
    const char *name;
    int64_t at;
} nt__log_position;

/* Opens those of `names`, then those of the user's. Where start->resumes, `positions` has those that were kept; others
 * are not known. */
nt_status nt__log_open(const char *names, const nt_logger *own, size_t count, const nt_log_start *start,
                       const nt__log_position *positions, size_t position_count, nt__log **out);
/* Notes where each logger is now. */
void nt__log_mark(nt__log *log);
/* Of the loggers that have a position, that of the one of that index when it was noted last, else now; false beyond the
 * last. The name is the logger's. */
bool nt__log_position_at(const nt__log *log, size_t index, nt__log_position *out);
/* To each of them; the first failure ends it. */
nt_status nt__log_line(nt__log *log, const nt_log_line *line);
void nt__log_close(nt__log *log);

/* ---- JSON Lines: <run_dir>/metrics.jsonl, one object a line, written line by line ------------------------------- */

extern const nt_logger nt__jsonl_logger;

typedef struct nt__jsonl nt__jsonl;
/* Starts the log at `path`. With its first line it takes the place of a log that is there already, which is kept as
 * "<path>.previous" and replaces an older one; a log without a line leaves everything as it was. */
nt_status nt__jsonl_open(const char *path, nt__jsonl **out);
/* The same for a run that goes on: the first `length` bytes of the log at `path` are the beginning of the new one. They
 * end a line; NT_INVALID where they do not, or where the log is shorter: then it is not the one that was written. */
nt_status nt__jsonl_continue(const char *path, int64_t length, nt__jsonl **out);
/* Bytes of its lines: what nt__jsonl_continue is given to go on after them. */
int64_t nt__jsonl_length(const nt__jsonl *log);
/* One line: the values, then type, and with a context that, step and epoch, which win over values of the same
 * name. An error when a name or a text is not UTF-8. A line that cannot be written whole is not there. Whole numbers
 * have no point, others 9 digits. Histograms and images are left out. */
nt_status nt__jsonl_line(nt__jsonl *log, const nt_log_line *line);
void nt__jsonl_close(nt__jsonl *log);

/* ---- CSV: <run_dir>/metrics.csv, a row for each value ----------------------------------------------------------- */

/* type,context,epoch,step,name,value; the three in the middle are empty for lines without a context. A number has the
 * digits that it has in JSON Lines. Sources, histograms and images are left out. */
extern const nt_logger nt__csv_logger;
/* Adds a cell. A text with a comma, a quote or a line end stands in quotes, and a quote in it twice (RFC 4180). */
void nt__csv_put(nt__text *row, const char *text);

/* ---- TensorBoard: event files in <run_dir> ---------------------------------------------------------------------- */

/* Metrics as "<context>/<name>" with "<context>/epoch"; fields, environment, report and sources as texts in Markdown;
 * histograms; images, where nitro was built with libpng. A new run keeps the files of the former one as
 * "previous.events.*"; one that goes on cuts them where it does, and tells readers with the record of a start. */
extern const nt_logger nt__tensorboard_logger;

/* Error when it is no array of an image: u8 [height, width, channels], 1, 3 or 4 channels. */
nt_status nt__check_image(const nt_array *pixels);

#endif
