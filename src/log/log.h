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

/* Opens those of `names`, then those of the user's. */
nt_status nt__log_open(const char *names, const nt_logger *own, size_t count, const nt_log_start *start, nt__log **out);
/* To each of them; the first failure ends it. */
nt_status nt__log_line(nt__log *log, const nt_log_line *line);
void nt__log_close(nt__log *log);

/* ---- JSON Lines: <run_dir>/metrics.jsonl, one object a line, written line by line -------------------------------- */

extern const nt_logger nt__jsonl_logger;

typedef struct nt__jsonl nt__jsonl;
/* Starts the log at `path`. With its first line it takes the place of a log that is there already, which is kept as
 * "<path>.previous" and replaces an older one; a log without a line leaves everything as it was. */
nt_status nt__jsonl_open(const char *path, nt__jsonl **out);
/* One line: the values, then type, and with a context that, step and epoch (J3, J4), which win over values of the same
 * name. An error when a name or a text is not UTF-8. A line that cannot be written whole is not there. Whole numbers
 * have no point, others 9 digits. Histograms and images are left out. */
nt_status nt__jsonl_line(nt__jsonl *log, const nt_log_line *line);
void nt__jsonl_close(nt__jsonl *log);

#endif
