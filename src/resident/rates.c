/* The scalars of the groups' rules on the device: the learning rate, with its ratio to the base rate, and other inputs.
 * Not here: when it gets another value (schedules.c).
 */
#include <math.h>

#include "resident/resident.h"

/* A rate that is finite as a double may be 0 or infinite in the parameters' type. A 0 that was asked for is right. */
static nt_status rate_element(const nt__traced *traced, const nt__rate *rate, double number, uint64_t *element) {
    *element = 0;
    nt__element_set(rate->dtype, element, number);
    double value = nt__element_get(rate->dtype, element);
    if (isfinite(value) && (value != 0 || number == 0)) return NT_OK;
    return nt__fail(NT_INVALID,
                    "%s %g is %g in %s, the type that the parameters of group '%s' are updated in; give another",
                    rate->scalar, nt__plain_nan(number), nt__plain_nan(value), nt_dtype_name(rate->dtype),
                    traced->layout.groups[rate->group].name);
}

nt_status nt__rate_write(nt__resident *resident, nt__rate *rate, double base) {
    double value = base * rate->ratio;
    uint64_t element;
    nt_status status = rate_element(resident->traced, rate, value, &element);
    if (status != NT_OK) return status;
    rate->value = value;
    if (rate->buffer.state == NT__BUFFER_ALIVE && rate->element == element) return NT_OK;
    nt__type scalar = {rate->dtype, {0}};
    status = nt__slot_write(resident, NT__RATE, rate->name, scalar, &element, &rate->buffer, &rate->former);
    if (status == NT_OK) rate->element = element;
    return status;
}

static nt_status find_ratio(nt__resident *resident, size_t g) {
    const nt__group *group = &resident->traced->layout.groups[g];
    const nt_hooks *hooks = &resident->task->experiment->hooks;
    nt__hook_begin(resident->task->experiment, "rate_ratio");
    double ratio = hooks->rate_ratio ? hooks->rate_ratio(resident->task->fields, group->name) : 1;
    nt_status status = nt__hook_end(resident->task->experiment, "rate_ratio", NT_OK);
    if (status != NT_OK) return status;
    const char *name = nt__arena_sprintf(&resident->task->arena, "learning_rate.%s", group->name);
    if (!name) return NT_OUT_OF_MEMORY;
    resident->rates[g] =
        (nt__rate){.group = g, .dtype = group->dtype, .ratio = ratio, .scalar = "learning_rate", .name = name};
    if (ratio >= 0 && isfinite(ratio)) return NT_OK;
    return nt__fail(NT_INVALID,
                    "the rate_ratio hook gave %g for group '%s'; give what the base rate is multiplied by: 1 for the "
                    "base rate, 0 for a group that is not trained",
                    nt__plain_nan(ratio), group->name);
}

/* The other inputs of a group's rule, with the values that the rule was made with. */
static nt_status list_inputs(nt__resident *resident, size_t g) {
    const nt__group *group = &resident->traced->layout.groups[g];
    nt__rate *inputs = resident->inputs + resident->traced->training[g].first_input;
    nt__named_input input;
    for (size_t i = 0; nt__rule_input(&resident->traced->training[g].rule, i, &input); i++) {
        const char *name = nt__arena_sprintf(&resident->task->arena, "%s.%s", input.name, group->name);
        if (!name) return NT_OUT_OF_MEMORY;
        inputs[i] = (nt__rate){.group = g,
                               .dtype = nt__arithmetic_type(group->dtype),
                               .ratio = 1,
                               .value = input.value,
                               .scalar = input.name,
                               .name = name};
    }
    return NT_OK;
}

nt_status nt__rates_list(nt__resident *resident) {
    resident->rates =
        nt__arena_alloc(&resident->task->arena, resident->traced->layout.group_count, sizeof *resident->rates);
    resident->inputs =
        nt__arena_alloc(&resident->task->arena, resident->traced->input_count + 1, sizeof *resident->inputs);
    nt_status status = resident->rates && resident->inputs ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t g = 0; status == NT_OK && g < resident->traced->layout.group_count; g++) {
        status = find_ratio(resident, g);
        if (status == NT_OK) status = list_inputs(resident, g);
    }
    return status;
}
