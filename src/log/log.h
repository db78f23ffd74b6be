/* The log of a run: JSON Lines, one object a line, flushed line by line.
 * Not here: what is logged when.
 */
#ifndef NT_LOG_LOG_H
#define NT_LOG_LOG_H

#include "base/base.h"

typedef struct nt__log nt__log;

typedef struct nt__log_value {
    const char *name;
    const char *text; /* a string value; NULL: the number */
    double number;    /* whole numbers without a point, others with 9 digits; not finite: left out of the line (G4) */
} nt__log_value;

/* Starts the log at `path`. With its first line it takes the place of a log that is there already, which is kept as
 * "<path>.previous" and replaces an older one; a log without a line leaves everything as it was. */
nt_status nt__log_open(const char *path, nt__log **out);
/* One line: the values, then type, context, step and epoch (J3, J4), which win over values of the same name. context
 * NULL: a line without context, step and epoch. An error when a name or a text is not UTF-8. A line that cannot be
 * written whole is not there. */
nt_status nt__log_line(nt__log *log, const char *type, const char *context, int64_t step, int64_t epoch,
                       const nt__log_value *values, size_t count);
void nt__log_close(nt__log *log);

#endif
