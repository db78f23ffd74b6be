/* What programs claim of Device fields: checked when a trace says it, and whenever a field gets another value.
 * Not here: claims about fields of a batch (the folder data).
 */
#include "step/tracing.h"

static nt_status check(const nt__traced *traced, const nt__device_claim *claim, const void *elements) {
    const nt__device_slot *slot = &traced->device_fields.slots[claim->slot];
    nt__outside outside;
    size_t count = (size_t)nt_shape_elements(slot->type.shape);
    if (nt__bounds_hold(&claim->bounds, slot->type.dtype, elements, count, &outside)) return NT_OK;
    if (slot->type.shape.rank == 0)
        return nt__fail(NT_INVALID, "%s: Device field '%s': %s", claim->place, slot->name, outside.text);
    return nt__fail(NT_INVALID, "%s: Device field '%s', element %zu: %s", claim->place, slot->name, outside.element,
                    outside.text);
}

static bool is_known(const nt__traced *traced, const nt__claim *claim) {
    for (size_t i = 0; i < traced->device_fields.claim_count; i++) {
        const nt__device_claim *known = &traced->device_fields.claims[i];
        if (known->slot == (size_t)claim->index && nt__bounds_equal(&known->bounds, &claim->bounds)) return true;
    }
    return false;
}

nt_status nt__device_claims_add(nt__traced *traced, const nt__claim *claim) {
    nt__device_fields *fields = &traced->device_fields;
    if (is_known(traced, claim)) return NT_OK;
    if (!NT__GROW(fields->claims, fields->claim_count, fields->claim_capacity)) return NT_OUT_OF_MEMORY;
    nt__device_claim *kept = &fields->claims[fields->claim_count];
    *kept = (nt__device_claim){(size_t)claim->index, claim->bounds,
                               nt__sprintf("%s:%d in %s", claim->site.file, claim->site.line, claim->site.function)};
    if (!kept->place) return NT_OUT_OF_MEMORY;
    fields->claim_count++;
    return check(traced, kept, nt__device_slot_data(traced, kept->slot));
}

nt_status nt__device_claims_check(const nt__traced *traced, size_t slot, const void *elements) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < traced->device_fields.claim_count; i++)
        if (traced->device_fields.claims[i].slot == slot)
            status = check(traced, &traced->device_fields.claims[i], elements);
    return status;
}

nt_status nt__device_claims_check_number(const nt__traced *traced, size_t field, double number) {
    char value[sizeof(double)];
    if (nt__field_from_number(&traced->task->experiment->fields[field], number, value) != NT_OK) return NT_OK;
    return nt__device_claims_check(traced, traced->device_fields.first[field], value);
}

void nt__device_claims_free(nt__traced *traced) {
    nt__device_fields *fields = &traced->device_fields;
    for (size_t i = 0; i < fields->claim_count; i++) nt__free(fields->claims[i].place);
    nt__free(fields->claims);
    fields->claims = NULL;
    fields->claim_count = fields->claim_capacity = 0;
}
