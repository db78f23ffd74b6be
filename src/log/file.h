/* The file of a log that is text, and what its forms share.
 * Not here: what is in a line.
 */
#ifndef NT_LOG_FILE_H
#define NT_LOG_FILE_H

#include "log/log.h"

/* Until its first lines are written the log stands beside the former one, under the name `fresh`. */
typedef struct nt__log_file {
    int file;
    int64_t length; /* of the whole lines */
    bool begun;     /* it has its name */
    char *path, *fresh;
    char *taken; /* the lines of the former log that it began with, until one is added; else NULL */
} nt__log_file;

/* As nt__jsonl_open and nt__jsonl_continue, for any lines. After a failure there is nothing to close. */
nt_status nt__log_file_open(const char *path, nt__log_file *out);
nt_status nt__log_file_continue(const char *path, int64_t length, nt__log_file *out);
/* The one of the two that `start` says, of the file of that name in the folder of the run. */
nt_status nt__log_file_start(const nt_log_start *start, const char *name, nt__log_file *out);
/* Appends one or more lines, each with its end, whole or not at all. `once`: not those that the log began with. */
nt_status nt__log_file_add(nt__log_file *log, const char *lines, bool once);
void nt__log_file_close(nt__log_file *log);

/* Whether a number is written without a point: it is whole, and up to 2^53, where a double is exact. Counts and seeds
 * are whole to the last digit, which the 9 digits of a real number would not be. */
bool nt__log_is_whole(double number);

#endif
