/* What the numbers of fields have to be: arrays are looked through when a claim is made, what a source reads as it
 * comes. Not here: where claims come from (graph), Device fields (run).
 */
#include <inttypes.h>

#include "data/data_internal.h"

static size_t row_elements(const nt__split_field *field) {
    return (size_t)nt_shape_elements(field->sample.shape);
}

/* Rows of a field, one after the other, of which the first is number `row` in the whole. Probabilities that go on in
 * the next row are not added up: their order is that of a pass. */
static nt_status check_rows(const nt__split_field *field, const void *at, size_t rows, int64_t row,
                            const nt__bounds *bounds) {
    nt__outside outside;
    nt__bounds each = *bounds;
    size_t count = row_elements(field);
    if (each.sums_to_1 && count % (size_t)each.sums_to_1 != 0) each.sums_to_1 = 0;
    if (nt__bounds_hold(&each, field->sample.dtype, at, rows * count, &outside)) return NT_OK;
    return nt__fail(NT_INVALID, "field '%s', row %" PRId64 ": %s", field->name,
                    row + (int64_t)(outside.element / count), outside.text);
}

nt_status nt__check_bounds(const nt__split_field *field, const void *at, int64_t row, const nt__bounds *bounds) {
    return check_rows(field, at, 1, row, bounds);
}

nt_status nt__advise(nt_status status, const char *advice) {
    return status == NT_OK || !advice ? status : nt__fail(status, "%s; %s", nt_error_message(), advice);
}

static nt_status check_integer(const nt__split_field *field, const nt__bounds *bounds) {
    if (!bounds->integers || !nt_dtype_is_float(field->sample.dtype)) return NT_OK;
    return nt__fail(NT_INVALID, "field '%s' is %s: it must hold integers in %.0f..%.0f", field->name,
                    nt_dtype_name(field->sample.dtype), bounds->low, bounds->high);
}

static nt_status check_field(const nt__split *split, const nt__split_field *field, const nt__bounds *bounds) {
    nt_status status = check_integer(field, bounds);
    if (status == NT_OK && field->array)
        status = check_rows(field, nt__split_row(split, field, 0), (size_t)split->rows, split->options.first, bounds);
    return status == NT_OK ? NT_OK : nt__fail(status, "split '%s', %s", split->name, nt_error_message());
}

nt_status nt__split_check_bounds(const nt__split *split, const char *name, const nt__bounds *bounds) {
    return check_field(split, nt__split_field_find(split, name), bounds);
}

static bool is_claimed(const nt__split_field *field, const nt__bounds *bounds) {
    for (size_t i = 0; i < field->claim_count; i++)
        if (nt__bounds_equal(&field->claims[i].bounds, bounds)) return true;
    return false;
}

static nt_status claim_of_split(const nt__split *split, nt__split_field *field, const nt__bounds *bounds,
                                const char *advice) {
    if (is_claimed(field, bounds)) return NT_OK;
    nt_status status = nt__advise(check_field(split, field, bounds), advice);
    if (status != NT_OK) return status;
    if (!NT__GROW(field->claims, field->claim_count, field->claim_capacity)) return NT_OUT_OF_MEMORY;
    field->claims[field->claim_count++] = (struct nt__field_claim){*bounds, advice};
    return NT_OK;
}

nt_status nt__data_claim(nt_data *data, const char *field, const nt__bounds *bounds, const char *advice) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < nt__data_split_count(data); i++) {
        const nt__split *split = nt__data_split_at(data, i);
        const nt__split_field *found = nt__split_field_find(split, field);
        if (found) status = claim_of_split(split, &split->fields[found - split->fields], bounds, advice);
    }
    return status;
}
