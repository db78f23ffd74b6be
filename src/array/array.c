/* Dense row-major arrays in host memory, reference counted.
 * Not here: reading them from files (the folder format), or device memory.
 */
#include "array/array.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static nt_array *new_array(nt_dtype dtype, nt_shape shape, void *(*allocate)(size_t bytes)) {
    nt__type type = {dtype, shape};
    char text[NT__TYPE_TEXT];
    size_t bytes;
    if (!nt__type_bytes(type, &bytes)) {
        nt__fail(NT_INVALID,
                 "new array: %s is not possible: it needs a known element type, at most %d axes, sizes from 0, and a "
                 "number of bytes that fits in memory",
                 nt__type_text(type, text), NT_MAX_RANK);
        return NULL;
    }
    nt_array *array = nt__alloc(1, sizeof *array);
    void *data = array ? allocate(bytes) : NULL;
    if (!data) {
        nt__free(array);
        nt__fail_in(NT_OUT_OF_MEMORY, "new array %s", nt__type_text(type, text));
        return NULL;
    }
    *array = (nt_array){.dtype = dtype, .shape = shape, .bytes = bytes, .data = data, .references = 1};
    return array;
}

nt_array *nt_array_new(nt_dtype dtype, nt_shape shape) {
    return new_array(dtype, shape, nt__alloc_aligned);
}

nt_array *nt__array_new_unset(nt_dtype dtype, nt_shape shape) {
    return new_array(dtype, shape, nt__alloc_aligned_unset);
}

nt_array *nt_array_from(nt_dtype dtype, nt_shape shape, const void *data) {
    if (nt_shape_elements(shape) > 0 && !nt__given(data, "nt_array_from", "data")) return NULL;
    nt_array *array = nt__array_new_unset(dtype, shape);
    if (array && array->bytes) memcpy(array->data, data, array->bytes);
    return array;
}

nt_array *nt_array_retain(nt_array *array) {
    if (array) __atomic_fetch_add(&array->references, 1, __ATOMIC_RELAXED);
    return array;
}

void nt_array_free(nt_array *array) {
    if (!array || __atomic_sub_fetch(&array->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    nt__free(array->data);
    nt__free(array);
}

/* ---- elements --------------------------------------------------------------------------------------------------- */

/* Address of an element; NULL with a message when there is none. */
static void *element_at(const nt_array *array, int64_t index) {
    size_t size = nt_dtype_size(array->dtype);
    if (index >= 0 && (uint64_t)index < array->bytes / size) return (char *)array->data + (size_t)index * size;
    char text[NT__TYPE_TEXT];
    nt__type type = nt__array_type(array);
    int64_t count = (int64_t)(array->bytes / size);
    nt__type_text(type, text);
    nt_status status =
        count ? nt__fail(NT_INVALID, "element %" PRId64 " of an array %s: it has the elements 0 to %" PRId64, index,
                         text, count - 1)
              : nt__fail(NT_INVALID, "element %" PRId64 " of an array %s: it has no elements", index, text);
    nt__calls_keep(status);
    return NULL;
}

double nt_array_get(const nt_array *array, int64_t index) {
    if (!nt__given(array, "nt_array_get", "array")) return (double)NAN;
    const void *at = element_at(array, index);
    return at ? nt__element_get(array->dtype, at) : (double)NAN;
}

void nt_array_set(nt_array *array, int64_t index, double value) {
    if (!nt__given(array, "nt_array_set", "array")) return;
    void *at = element_at(array, index);
    if (at) nt__element_set(array->dtype, at, value);
}
