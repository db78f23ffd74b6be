/* Who uses a run: one thread at a time, from the beginning of a call to its end. What its hooks and its listener call
 * on that thread is part of the call. Not here: which calls may be made from within another one; each says it by the
 * macro that it begins with.
 */
#include <stdatomic.h>

#include "run/run_internal.h"

/* Its address stands for the thread. */
static _Thread_local char this_thread;

/* True: the thread uses the run now. */
static bool take(nt__use *use) {
    const char *nobody = NULL;
    if (atomic_load(&use->thread) != &this_thread &&
        !atomic_compare_exchange_strong(&use->thread, &nobody, &this_thread))
        return false;
    use->depth++;
    return true;
}

static void give_back(nt__use *use) {
    if (--use->depth == 0) atomic_store(&use->thread, NULL);
}

nt_run *nt__use_begin(const nt_run *run, const char *call, bool alone) {
    if (!nt__given(run, call, "run") || nt__engine_check_process() != NT_OK) return NULL;
    nt_run *used = (nt_run *)run;
    if (!take(&used->use)) {
        nt__fail(NT_INVALID,
                 "%s: run '%s' is in use by another thread: a run belongs to one thread at a time, so wait until the "
                 "other call has returned",
                 call, run->task.experiment->name);
        return NULL;
    }
    if (!alone || used->use.depth == 1) return used;
    give_back(&used->use);
    nt__fail(NT_INVALID,
             "%s: run '%s' is training, evaluating or predicting; its hooks and listener cannot start that again, nor "
             "load or free it",
             call, run->task.experiment->name);
    return NULL;
}

void nt__use_end(nt_run *const *used) {
    if (*used) give_back(&(*used)->use);
}
