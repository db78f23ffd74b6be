/* Element types and shapes as the other folders need them.
 * Not here: files that hold arrays (the folder format).
 */
#ifndef NT_ARRAY_ARRAY_H
#define NT_ARRAY_ARRAY_H

#include "base/base.h"
#include "nitro/array.h"

/* Elements go to the engine and to safetensors files as they lie in memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the library needs a little-endian machine");

/* Element type and shape: what an argument or a result of a program is. */
typedef struct nt__type {
    nt_dtype dtype;
    nt_shape shape;
} nt__type;

/* "f32[128,784]": `out` must hold NT__TYPE_TEXT bytes. Returns out. */
enum { NT__TYPE_TEXT = 192 };
const char *nt__type_text(nt__type type, char out[NT__TYPE_TEXT]);
/* "[128,784]" */
const char *nt__shape_text(nt_shape shape, char out[NT__TYPE_TEXT]);
bool nt__type_equal(nt__type a, nt__type b);
nt__type nt__array_type(const nt_array *array);
/* Type and shape of one of the rows along axis 0, which there must be. */
nt__type nt__row_type(nt__type type);
/* Bytes of an array of this type; false when the shape is invalid or the number does not fit. */
bool nt__type_bytes(nt__type type, size_t *bytes);

/* bool is neither. */
bool nt__dtype_is_integer(nt_dtype dtype);
bool nt__dtype_is_unsigned(nt_dtype dtype);

/* Conversion of one element between memory and double; every dtype. Integers saturate, nan gives 0. */
double nt__element_get(nt_dtype dtype, const void *at);
void nt__element_set(nt_dtype dtype, void *at, double value);

/* Writes a number as one element; false when the type does not have it: a fraction for an integer, more than the type
 * holds. A floating type rounds. */
bool nt__element_from_number(nt_dtype dtype, void *at, double number);
/* The array with elements of another type, a new reference; the array itself when it has that type. NULL with a message
 * that names the first element which the type does not have. */
nt_array *nt__array_convert(nt_array *array, nt_dtype dtype);

/* What the numbers of an array have to be. A nan is never right, and no infinity. */
typedef struct nt__bounds {
    double low, high;           /* an infinity: there is no bound on that side */
    bool above_low, below_high; /* the bound itself is outside */
    bool integers;              /* of an integer type; the bounds lie within 2^53 */
    bool signs;                 /* -1 or 1, and nothing between */
    int64_t sums_to_1; /* so many at a time, one after the other, are probabilities whose sum is 1 within 0.01; 0:
                          no sum is looked at */
} nt__bounds;
bool nt__bounds_equal(const nt__bounds *a, const nt__bounds *b);
/* The first element that is wrong, or the first of a wrong sum, and what is wrong: "255 is not in 0..1". */
typedef struct nt__outside {
    size_t element;
    char text[160];
} nt__outside;
/* Whether all elements are within the bounds; where one is not, *out is set. The type is not looked at. */
bool nt__bounds_hold(const nt__bounds *bounds, nt_dtype dtype, const void *elements, size_t count, nt__outside *out);

/* nt_array_new without the zeros, for elements that are all written next. */
nt_array *nt__array_new_unset(nt_dtype dtype, nt_shape shape);

/* A set of its own with the same arrays. */
nt_arrays *nt__arrays_copy(const nt_arrays *set);
/* Gives a name that the set has another array; the reference passes to the set. */
void nt__arrays_replace(nt_arrays *set, size_t index, nt_array *array);

/* An array of a file, under its name. `data` is borrowed. */
typedef struct nt__named_array {
    const char *name;
    nt__type type;
    const void *data;
} nt__named_array;

#endif
