/* What the command knows of a run beside the public calls.
 */
#ifndef NT_RUN_RUN_H
#define NT_RUN_RUN_H

#include "nitro/run.h"

/* ---- a plan ----------------------------------------------------------------------------------------------------- */

/* A run that is only looked at: its settings, splits, layout, rates and schedules, without an engine. Nothing is
 * uploaded or compiled, and it is never handed to code of the user's. What may be done with it: nt_run_report,
 * nt_run_summary, the functions below, nt_run_free. */
nt_status nt__plan_new(const nt_experiment *experiment, const void *fields, const nt_run_options *options,
                       nt_run **out);
/* A schedule that was bound; NULL beyond the last. The name is as it was given, `source` says where. */
const nt_schedule *nt__plan_schedule(const nt_run *run, size_t index, const char **name, const char **source);
/* Optimizer steps of all epochs. */
int64_t nt__plan_steps(const nt_run *run);

/* ---- a run ------------------------------------------------------------------------------------------------------ */

/* Names of the built-in loggers of a run, "jsonl,csv". */
const char *nt__run_loggers(const nt_run *run);
/* A field that forward reads, once the run is laid out; NULL beyond the last. */
const char *nt__forward_field(const nt_run *run, size_t index);
/* Whether its training writes checkpoints, from which a run can go on. */
bool nt__run_keeps_checkpoints(const nt_run *run);
/* Locks the folder that `path` lies in for a file that `run` writes there. Nothing is locked (-1) if the run has that
 * lock already. NT_INVALID: another run has it. Close with nt__unlock_folder. */
nt_status nt__run_lock_for(const nt_run *run, const char *path, int *descriptor);

#endif
