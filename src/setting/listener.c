/* What a run tells its listener.
 */
#include "setting/setting.h"

void nt__tell(const nt__task *task, const nt_event *event) {
    if (!task->on_event) return;
    nt__hook_enter("listener", task->experiment->name);
    task->on_event(event, task->event_context);
    nt__hook_leave();
}
