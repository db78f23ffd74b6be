/* The parameters that evaluations, predictions and saved files have: where a group's rule averages (a moving average,
 * schedule-free AdamW) they follow from its state, by a program of their own, for as long as they are looked at; of
 * other groups they are those that are trained. Not here: the trace of that program (updates.c).
 */
#include "resident/resident.h"

static void free_averages(nt__resident *resident) {
    for (size_t g = 0; g < resident->traced->layout.group_count; g++) nt__buffer_free(&resident->device.averages[g]);
}

nt_status nt__averages_begin(nt__resident *resident) {
    if (!resident->traced->programs.average || resident->device.average_users++) return NT_OK;
    nt_status status =
        nt__launch(resident, resident->traced->programs.average, NULL, NULL, false, resident->device.average_results);
    if (status == NT_OK) return NT_OK;
    resident->device.average_users--;
    free_averages(resident);
    return nt__fail_in(status, "the parameters to evaluate %s with", resident->task->experiment->name);
}

void nt__averages_end(nt__resident *resident) {
    if (resident->traced->programs.average && --resident->device.average_users == 0) free_averages(resident);
}

nt__buffer *nt__evaluated_parameters(nt__resident *resident, size_t g) {
    nt__buffer *average = &resident->device.averages[g];
    return average->state == NT__BUFFER_ALIVE ? average : &resident->device.parameters[g];
}
