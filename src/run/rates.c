/* The learning rate of each group: its ratio to the base rate, its value on the device.
 * Not here: when it gets another value (schedules.c).
 */
#include <math.h>

#include "run/run_internal.h"

/* A rate that is finite as a double may be 0 or infinite in the parameters' type. A 0 that was asked for is right. */
static nt_status rate_element(const nt__group *group, double rate, uint64_t *element) {
    *element = 0;
    nt__element_set(group->dtype, element, rate);
    double value = nt__element_get(group->dtype, element);
    if (isfinite(value) && (value != 0 || rate == 0)) return NT_OK;
    return nt__fail(NT_INVALID, "learning_rate %g is %g in %s, the type of the parameters of group '%s'; give another",
                    nt__plain_nan(rate), nt__plain_nan(value), nt_dtype_name(group->dtype), group->name);
}

nt_status nt__rate_write(nt_run *run, size_t g, double base) {
    const nt__group *group = &run->layout.groups[g];
    nt__rate *rate = &run->rates[g];
    double value = base * rate->ratio;
    uint64_t element;
    nt_status status = rate_element(group, value, &element);
    if (status != NT_OK) return status;
    rate->value = value;
    if (rate->buffer.state == NT__BUFFER_ALIVE && rate->element == element) return NT_OK;
    nt__type scalar = {group->dtype, {0}};
    status = nt__slot_write(run, NT__RATE, rate->name, scalar, &element, &rate->buffer, &rate->former);
    if (status == NT_OK) rate->element = element;
    return status;
}

static nt_status find_ratio(nt_run *run, size_t g) {
    const nt__group *group = &run->layout.groups[g];
    const nt_hooks *hooks = &run->experiment->hooks;
    double ratio = hooks->rate_ratio ? hooks->rate_ratio(run->fields, group->name) : 1;
    run->rates[g].ratio = ratio;
    run->rates[g].name = nt__arena_sprintf(&run->arena, "learning_rate.%s", group->name);
    if (!run->rates[g].name) return NT_OUT_OF_MEMORY;
    if (ratio >= 0 && isfinite(ratio)) return NT_OK;
    return nt__fail(NT_INVALID,
                    "the rate_ratio hook gave %g for group '%s'; give what the base rate is multiplied by: 1 for the "
                    "base rate, 0 for a group that is not trained",
                    nt__plain_nan(ratio), group->name);
}

nt_status nt__rates_list(nt_run *run) {
    run->rates = nt__arena_alloc(&run->arena, run->layout.group_count, sizeof *run->rates);
    nt_status status = run->rates ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t g = 0; status == NT_OK && g < run->layout.group_count; g++) status = find_ratio(run, g);
    return status;
}
