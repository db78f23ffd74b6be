/* Loggers: where a run's lines go. The built-in ones are chosen by name (nt_run_options.log); a program may add others
 * of its own (nt_run_options.loggers).
 */
#ifndef NITRO_LOG_H
#define NITRO_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nitro/array.h"
#include "nitro/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nt_log_value {
    const char *name;
    const char *text; /* a string value; NULL: the number */
    double number;    /* one that is not finite is to be left out */
} nt_log_value;

/* One line of a run. By type:
 *   "params"     fields and settings, once, first; a field that has the name of another value is "field.NAME"
 *   "environment" experiment, started (UTC), nitro, compiler, plugin, plugin_api, platform, platform_version, host, and
 *                what was given of compile_options and of XLA_FLAGS and the like; one for each start of a run that was
 *                resumed, then with seconds_before: of training up to there
 *   "source"     path and text of a source file of the experiment, or path and left_out: why there is no text
 *   "other"      a text, as values "key" and "value": the report of what bound where, and texts of the user's
 *   "metrics"    of context "train" (each step: loss, train metrics), "validate" (each epoch: validation metrics),
 *                "data" (each epoch: data_wait_frac), "epoch" (each epoch: its mean loss)
 *   "histogram"  `array` is the values, of any shape, under the name `key`
 *   "image"      `array` is u8 [height, width, channels] with 1 (grey), 3 (RGB) or 4 (RGBA) channels, under `key`
 *   "finish"     status ("completed", "requested", "error") and seconds, at the end of each call of nt_train
 * All of it is borrowed. Of "params", "other" and "finish" the step and epoch are the newest ones. */
typedef struct nt_log_line {
    const char *type;
    const char *context; /* of metrics; else NULL */
    const char *key;     /* of a histogram and an image; else NULL */
    int64_t step, epoch;
    const nt_log_value *values;
    size_t count;
    const nt_array *array; /* of a histogram and an image; else NULL */
    bool once; /* in a log that goes on: is left out if what was kept of the log has the same line already */
} nt_log_line;

/* Where a log begins. */
typedef struct nt_log_start {
    const char *run_dir; /* it exists, and is locked */
    bool resumes;        /* goes on with the log that is there; else a new one takes its place */
    int64_t step;     /* resumes: what was logged after that step is to be forgotten, so that no step is there twice */
    int64_t position; /* resumes: what the logger's `position` gave when the state was saved that the run goes on from,
                         which is exact within a step; -1: not known */
} nt_log_start;

/* A logger is called on the training thread. What it returns other than NT_OK ends training; nt_fail says why. */
typedef struct nt_logger {
    const char *name; /* for messages */
    /* When training first begins. *state is passed on. Required. */
    nt_status (*open)(void *context, const nt_log_start *start, void **state);
    /* Takes a line, and writes it out so that a kill takes nothing back. A type that the logger has no form for is no
     * failure. Required. */
    nt_status (*line)(void *state, const nt_log_line *line);
    /* Where the log is now, 0 or more: kept with each state of the run that is saved, and given back to `open` when a
     * run goes on from that. NULL: the step alone says it. */
    int64_t (*position)(void *state);
    /* When the run is freed. NULL: nothing to do. Closing says nothing of how the run ended: "finish" does. */
    void (*close)(void *state);
    void *context;
} nt_logger;

#ifdef __cplusplus
}
#endif

#endif
