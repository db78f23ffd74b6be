/* Numbers and arrays as values of another element type, where that type has them.
 * Not here: conversion of a tensor, which the engine does.
 */
#include <math.h>
#include <string.h>

#include "array/array.h"

/* nt__element_set takes any number as well as the type can; what it kept tells whether that is the same. The largest
 * values of the 64-bit types are no doubles. */
bool nt__element_from_number(nt_dtype dtype, void *at, double number) {
    char element[sizeof(double)];
    double too_large = dtype == NT_I64 ? 0x1p63 : dtype == NT_U64 ? 0x1p64 : HUGE_VAL;
    nt__element_set(dtype, element, number);
    double kept = nt__element_get(dtype, element);
    bool same = nt_dtype_is_float(dtype) ? isinf(kept) == isinf(number) : kept == number && number < too_large;
    if (same) memcpy(at, element, nt_dtype_size(dtype));
    return same;
}

/* A 64-bit integer beyond 2^53 may not be the double that it is read as. */
static bool is_exact(nt_dtype dtype, double number) {
    return (dtype != NT_I64 && dtype != NT_U64) || fabs(number) <= 0x1p53;
}

static bool convert_elements(const nt_array *from, nt_array *to) {
    size_t from_size = nt_dtype_size(from->dtype), to_size = nt_dtype_size(to->dtype);
    int64_t count = nt_shape_elements(from->shape);
    for (int64_t i = 0; i < count; i++) {
        double number = nt__element_get(from->dtype, (const char *)from->data + (size_t)i * from_size);
        if (is_exact(from->dtype, number) &&
            nt__element_from_number(to->dtype, (char *)to->data + (size_t)i * to_size, number))
            continue;
        nt__fail(NT_INVALID, "element %lld is %.15g, which %s cannot hold", (long long)i, number,
                 nt_dtype_name(to->dtype));
        return false;
    }
    return true;
}

nt_array *nt__array_convert(nt_array *array, nt_dtype dtype) {
    if (array->dtype == dtype) return nt_array_retain(array);
    nt_array *converted = nt_array_new(dtype, array->shape);
    if (!converted || convert_elements(array, converted)) return converted;
    nt_array_free(converted);
    return NULL;
}
