/* What a run tells its listener, and how it is told to stop.
 * Not here: the log (log.c).
 */
#include <signal.h>

#include "run/run_internal.h"

static volatile sig_atomic_t stop;

void nt_stop_request(void) {
    stop = 1;
}

void nt_stop_clear(void) {
    stop = 0;
}

bool nt__stop_requested(void) {
    return stop != 0;
}

void nt__tell(const nt_run *run, const nt_event *event) {
    if (run->on_event) run->on_event(event, run->event_context);
}
