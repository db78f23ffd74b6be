/* Writes the parameters of a run to a file, without losing what an earlier run learned.
 * Not here: the file's format.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "cli/cli.h"
#include "run/run.h"

/* Initial values teach nothing, and must not take the place of parameters that were trained. */
static nt_status check_has_learned(const nt_run *run, bool is_loaded, const char *path) {
    if (nt_run_step(run) > 0 || is_loaded || access(path, F_OK) != 0) return NT_OK;
    return nt__fail(NT_INVALID,
                    "'%s' is there already, and this run has only the parameters that it was drawn with: train it or "
                    "load some first, or name another file",
                    path);
}

/* Written beside and whole before the former file is moved away: a save that fails changes nothing. */
static nt_status replace(nt_run *run, const char *path) {
    char *fresh = nt__sprintf("%s.new", path);
    nt_status status = fresh ? nt__remove_file(fresh) : NT_OUT_OF_MEMORY; /* a link or a pipe is not to be written to */
    if (status == NT_OK) status = nt_run_save(run, fresh);
    if (status == NT_OK) status = nt__keep_previous(path);
    if (status == NT_OK && rename(fresh, path) != 0)
        status = nt__fail(NT_IO, "cannot rename '%s' to '%s': %s", fresh, path, strerror(errno));
    if (fresh && status != NT_OK) unlink(fresh);
    nt__free(fresh);
    return status;
}

nt_status nt__keep_parameters(nt_run *run, bool is_loaded, const char *path) {
    nt_status status = nt__check_can_write(path);
    if (status != NT_OK) return status;
    if (nt__is_special(path)) return nt_run_save(run, path);
    int lock;
    status = nt__run_lock_for(run, path, &lock);
    if (status != NT_OK) return status;
    status = check_has_learned(run, is_loaded, path);
    if (status == NT_OK) status = replace(run, path);
    nt__unlock_folder(lock);
    return status;
}
