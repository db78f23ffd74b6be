/* What a person sees of a run: a progress line, a table of epochs, results. */
#ifndef NT_CLI_TERMINAL_H
#define NT_CLI_TERMINAL_H

#include <pthread.h>
#include <stdio.h>

#include "nitro/run.h"

typedef struct nt__terminal {
    FILE *results; /* the table and the metrics */
    FILE *notices; /* the progress line, what was set up, notices */
    bool live;     /* `notices` is a terminal: there is a progress line */
    bool quiet;    /* no progress, nothing about the setup */
    bool strict;   /* a warning is an error; set it when the terminal is open */

    nt_notice_function notices_before;
    pthread_mutex_t lock; /* notices come from any thread */
    int shown;            /* characters of the progress line that stand on the terminal */
    double drawn;         /* when it was drawn last */
    bool has_pace;        /* the first step was seen: */
    int64_t first_step;
    double first_seconds;
    bool has_header;   /* the table's */
    bool has_programs; /* it was said where the programs came from */
    int metrics_width; /* of all columns with metrics */
} nt__terminal;

void nt__terminal_open(nt__terminal *terminal, FILE *results, FILE *notices, bool live, bool quiet);
/* Erases the progress line. */
void nt__terminal_clear(nt__terminal *terminal);
/* Another training begins: the table has its header again, and the pace is measured anew. */
void nt__terminal_restart(nt__terminal *terminal);
void nt__terminal_close(nt__terminal *terminal);

/* An nt_event_function, an nt_notice_function and an nt_warning_function; the context is the terminal. A warning is
 * shown whatever `quiet` says, or is an error, which whoever called reports. */
void nt__terminal_event(const nt_event *event, void *context);
void nt__terminal_notice(const char *line, void *context);
nt_status nt__terminal_warning(const char *line, void *context);
/* One line a metric: "test accuracy 0.8803". */
void nt__terminal_results(nt__terminal *terminal, const char *split, const nt_results *results);
/* Says once how many programs came from the disk and how many were compiled, when any came from there. */
void nt__terminal_programs(nt__terminal *terminal);
/* A text of several lines among the results, without the last line break. */
void nt__terminal_lines(nt__terminal *terminal, const char *text);
/* Any other line among the results. */
void nt__terminal_line(nt__terminal *terminal, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
