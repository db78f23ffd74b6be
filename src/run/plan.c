/* What the command reads of a run beside the public calls (run.h).
 */
#include "run/run_internal.h"

const nt_schedule *nt__plan_schedule(const nt_run *run, size_t index, const char **name, const char **source) {
    if (index >= run->resident.binding_count) return NULL;
    *name = run->resident.bindings[index].name;
    *source = nt__schedules_source_name(&run->resident);
    return &run->resident.bindings[index].schedule;
}

int64_t nt__plan_steps(const nt_run *run) {
    return run->resident.horizon;
}

const char *nt__run_loggers(const nt_run *run) {
    return run->task.settings.log;
}

const char *nt__forward_field(const nt_run *run, size_t index) {
    return index < run->traced.routes.prediction.count ? run->traced.routes.prediction.names[index] : NULL;
}

bool nt__run_keeps_checkpoints(const nt_run *run) {
    return nt__keeps_checkpoints(&run->task.settings);
}

nt_status nt__run_lock_for(const nt_run *run, const char *path, int *descriptor) {
    return nt__log_lock_for(&run->reporting, path, descriptor);
}
