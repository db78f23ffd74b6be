/* What a run tells its listener, and how it is told to stop.
 * Not here: the log (log.c).
 */
#include <stdatomic.h>

#include "run/run_internal.h"

/* Of all runs of the process. Handlers of signals set it, and all threads look at it. */
static atomic_bool stop;
_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a handler of signals may use it");

void nt_stop_request(void) {
    atomic_store(&stop, true);
}

void nt_stop_clear(void) {
    atomic_store(&stop, false);
}

bool nt__stop_requested(void) {
    return atomic_load_explicit(&stop, memory_order_relaxed);
}

void nt__tell(const nt_run *run, const nt_event *event) {
    if (!run->on_event) return;
    nt__hook_enter("listener", run->experiment->name);
    run->on_event(event, run->event_context);
    nt__hook_leave();
}
