/* What a run tells its listener, and how it is told to stop.
 * Not here: the log (log.c).
 */
#include "run/run_internal.h"

void nt_stop_request(void) {
    nt__stop_set(true);
}

void nt_stop_clear(void) {
    nt__stop_set(false);
}

bool nt__stop_requested(void) {
    return nt__stop_is_set();
}

void nt__tell(const nt_run *run, const nt_event *event) {
    if (!run->on_event) return;
    nt__hook_enter("listener", run->experiment->name);
    run->on_event(event, run->event_context);
    nt__hook_leave();
}
