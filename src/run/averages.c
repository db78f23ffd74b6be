/* The parameters that evaluations, predictions and saved files have: where a group's rule averages (a moving average,
 * schedule-free AdamW) they follow from its state, by a program of their own, for as long as they are looked at; of
 * other groups they are those that are trained. Not here: the trace of that program (updates.c).
 */
#include "run/run_internal.h"

static void free_averages(nt_run *run) {
    for (size_t g = 0; g < run->layout.group_count; g++) nt__buffer_free(&run->device.averages[g]);
}

nt_status nt__averages_begin(nt_run *run) {
    if (!run->programs.average || run->device.average_users++) return NT_OK;
    nt_status status = nt__launch(run, run->programs.average, NULL, NULL, false, run->device.average_results);
    if (status == NT_OK) return NT_OK;
    run->device.average_users--;
    free_averages(run);
    return nt__fail_in(status, "the parameters to evaluate %s with", run->experiment->name);
}

void nt__averages_end(nt_run *run) {
    if (run->programs.average && --run->device.average_users == 0) free_averages(run);
}

nt__buffer *nt__evaluated_parameters(nt_run *run, size_t g) {
    nt__buffer *average = &run->device.averages[g];
    return average->state == NT__BUFFER_ALIVE ? average : &run->device.parameters[g];
}
