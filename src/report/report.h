/* What a run says of itself: its log, what it was made of, the binding report, the summary, and what differs from the
 * code of now.
 * Not here: the form of a log (the folder log).
 */
#ifndef NT_REPORT_REPORT_H
#define NT_REPORT_REPORT_H

#include "log/log.h"
#include "resident/resident.h"

/* A source file of the experiment, as it was when the run was made. */
typedef struct nt__source_text {
    const char *path, *text; /* text NULL: left out */
    const char *why;         /* it was */
} nt__source_text;

typedef struct nt__reporting {
    nt__task *task;
    nt__traced *traced;
    nt__resident *resident;
    nt__log *log; /* NULL until training begins it */
    int lock;     /* of run_dir; -1: none */
    nt__source_text *source_texts;
    size_t source_text_count;

    /* Of a run that goes on from a checkpoint. */
    bool log_goes_on;                /* the logs in run_dir are those of the checkpoint: they go on after it */
    nt__log_position *log_positions; /* where they were then */
    size_t log_position_count;
    double spent; /* seconds of training before of which the log says nothing */

    /* Against the code of now. */
    bool checking;            /* its hooks are traced for a comparison */
    uint64_t seen_generation; /* of the experiments, when the run was last compared */
    nt__text drift;           /* the report that was asked for last */
} nt__reporting;

/* ---- the log in run_dir (log.c), begun once and ended by each training ------------------------------------------ */

nt_status nt__log_begin(nt__reporting *reporting);
nt_status nt__log_values(nt__reporting *reporting, const char *context, int64_t step, int64_t epoch,
                         const nt_value *values, size_t count);
/* `seconds`: of the training. */
nt_status nt__log_end(nt__reporting *reporting, nt_status outcome, double seconds);
/* Of each parameter, if they are asked for. */
nt_status nt__log_histograms(nt__reporting *reporting);
/* A line without a place of its own: that of now. */
nt_status nt__log_put(nt__reporting *reporting, const nt_log_line *line);
/* Locks the folder that `path` lies in for a file that the run writes there. Nothing is locked (-1) if the run has that
 * lock already. NT_INVALID: another run has it. Close with nt__unlock_folder. */
nt_status nt__log_lock_for(const nt__reporting *reporting, const char *path, int *descriptor);

/* origin.c: reads the source files, and logs what made the run. */
nt_status nt__origin_take(nt__reporting *reporting, const nt_run_options *options);
nt_status nt__origin_log(nt__reporting *reporting);

/* ---- texts ------------------------------------------------------------------------------------------------------ */

/* report.c, report_groups.c: what bound to what and from where, as sections of text. */
void nt__report_add(const nt__resident *resident, nt__text *out);
void nt__report_add_groups(const nt__resident *resident, nt__text *out);
/* summary.c: parameters and layer states as tables. */
void nt__summary_add(const nt__traced *traced, nt__text *out);
void nt__add_count(int64_t count, nt__text *out); /* 235146 as 235,146 */

/* ---- what differs from the code and the settings of now (drift.c) ----------------------------------------------- */

/* All of it as lines; *report lives until the next call. */
nt_status nt__drift_report(nt__reporting *reporting, const char **report);
/* As notices. `training` false: only what evaluations use. */
nt_status nt__drift_tell(nt__reporting *reporting, bool training);
/* The same when code was loaded since the last comparison; else it costs nothing. */
nt_status nt__drift_look(nt__reporting *reporting, bool training);
/* drift_groups.c: lines about groups that the code of now, traced as `now`, trains in another way. */
void nt__drift_compare_groups(const nt__resident *resident, const nt__traced *now, nt__text *report);

#endif
