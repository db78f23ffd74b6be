/* A run's folder, for what writes into it beside the run itself: its lock, and what else is there. */
#ifndef NT_RUN_FOLDER_H
#define NT_RUN_FOLDER_H

#include "base/base.h"
#include "nitro/run.h"

/* Locks the folder that `path` lies in for a file that `run` writes there. Nothing is locked (-1) where the run has
 * that lock already. NT_INVALID: another run has it. Close with nt__unlock_folder. */
nt_status nt__run_lock_for(const nt_run *run, const char *path, int *descriptor);
/* Whether its training writes records, from which a run can go on. */
bool nt__records(const nt_run *run);

#endif
