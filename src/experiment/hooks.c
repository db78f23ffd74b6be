/* Around a call of a hook: what it did wrong is told with its name.
 * Not here: which hooks there are (nitro/hooks.h).
 */
#include "experiment/experiment.h"

void nt__hook_begin(const nt_experiment *experiment, const char *hook) {
    nt__hook_enter(hook, experiment->name);
    nt__fail_nothing();
    nt__calls_watch();
}

nt_status nt__hook_end(const nt_experiment *experiment, const char *hook, nt_status status) {
    if (status == NT_OK) status = nt__calls_status();
    nt__hook_leave();
    if (status == NT_OK) return NT_OK;
    if (!*nt_error_message()) nt__fail(status, "the hook returned '%s'", nt_status_name(status));
    return nt__fail_in(status, "%s of %s", hook, experiment->name);
}
