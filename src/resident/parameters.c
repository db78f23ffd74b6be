/* Parameters from the flat buffers of the device to host arrays.
 * Not here: which parameters evaluations have (averages.c).
 */
#include "resident/resident.h"

nt_status nt__group_read(nt__resident *resident, int group, nt_array **out) {
    nt__type type = nt__group_type(&resident->traced->layout.groups[group]);
    *out = nt_array_new(type.dtype, type.shape);
    if (!*out) return NT_OUT_OF_MEMORY;
    nt_status status =
        nt__buffer_read(resident->traced->engine, nt__evaluated_parameters(resident, (size_t)group), (*out)->data);
    if (status == NT_OK) return NT_OK;
    nt_array_free(*out);
    *out = NULL;
    return status;
}

char *nt__row_data(const nt__row *row, const nt_array *flat) {
    return (char *)flat->data + (size_t)row->offset * nt_dtype_size(row->type.dtype);
}

nt_array *nt__parameter_read(nt__resident *resident, const nt__row *row) {
    nt_array *flat = NULL;
    if (nt__averages_begin(resident) != NT_OK) return NULL;
    nt__group_read(resident, row->group, &flat);
    nt__averages_end(resident);
    if (!flat) return NULL;
    nt_array *copy = nt_array_from(row->type.dtype, row->type.shape, nt__row_data(row, flat));
    nt_array_free(flat);
    return copy;
}
