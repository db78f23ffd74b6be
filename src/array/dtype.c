/* Element types: one table with a row for each, and the conversion of one element to and from double. Shapes: their
 * text, their equality, their size.
 * Not here: arrays with memory (array.c), and the names that files give the types (the file of each format).
 */
#include "array/array.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- 16-bit floats ---------------------------------------------------------------------------------------------- */

/* gcc 12 and clang 14 do not share a 16-bit float type on x86-64, so the two formats are described by numbers. Rounding
 * from double in one step avoids the double rounding of a way through float. */
typedef struct small_float {
    int mantissa_bits, least_exponent; /* of a normal number */
    uint16_t infinity;                 /* its bits */
} small_float;

static const small_float half = {.mantissa_bits = 10, .least_exponent = -14, .infinity = 0x7C00};
static const small_float brain = {.mantissa_bits = 7, .least_exponent = -126, .infinity = 0x7F80};

static double widen(small_float format, uint16_t bits) {
    int mantissa = bits & ((1 << format.mantissa_bits) - 1);
    int exponent = (bits & format.infinity) >> format.mantissa_bits;
    int normal = exponent > 0; /* normal numbers have a leading 1 that is not stored */
    double magnitude = ldexp(mantissa + (normal << format.mantissa_bits),
                             format.least_exponent + exponent - normal - format.mantissa_bits);
    if ((bits & format.infinity) == format.infinity) magnitude = mantissa ? (double)NAN : (double)INFINITY;
    return copysign(magnitude, bits & 0x8000 ? -1.0 : 1.0);
}

/* The magnitude in units of its last place is rounded to an integer, ties to even. Added to the exponent's bits, that
 * integer carries into them by itself, up to infinity. */
static uint16_t narrow(small_float format, double value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (isnan(value)) return sign | format.infinity | (uint16_t)(1 << (format.mantissa_bits - 1));
    if (value == 0) return sign;
    if (isinf(value)) return sign | format.infinity;
    int exponent = ilogb(value);
    if (exponent < format.least_exponent) exponent = format.least_exponent;
    int64_t units = (int64_t)nearbyint(ldexp(fabs(value), format.mantissa_bits - exponent));
    int64_t bits = ((int64_t)(exponent - format.least_exponent) << format.mantissa_bits) + units;
    return sign | (bits < format.infinity ? (uint16_t)bits : format.infinity);
}

/* ---- one element ------------------------------------------------------------------------------------------------ */

/* Elements may lie at any address, so they are copied, never dereferenced. */
#define GET_ELEMENT(name, type)                \
    static double get_##name(const void *at) { \
        type element;                          \
        memcpy(&element, at, sizeof element);  \
        return (double)element;                \
    }

#define FLOAT_ELEMENT(name, type)                    \
    GET_ELEMENT(name, type)                          \
    static void set_##name(void *at, double value) { \
        type element = (type)value;                  \
        memcpy(at, &element, sizeof element);        \
    }

#define SMALL_FLOAT_ELEMENT(name, format)            \
    static double get_##name(const void *at) {       \
        uint16_t bits;                               \
        memcpy(&bits, at, sizeof bits);              \
        return widen(format, bits);                  \
    }                                                \
    static void set_##name(void *at, double value) { \
        uint16_t bits = narrow(format, value);       \
        memcpy(at, &bits, sizeof bits);              \
    }

/* The limits of the 64-bit types are not doubles: as doubles they are one larger, hence the comparison with "or equal".
 */
#define INTEGER_ELEMENT(name, type, least, largest)  \
    GET_ELEMENT(name, type)                          \
    static void set_##name(void *at, double value) { \
        type element = 0;                            \
        if (value >= (double)(largest))              \
            element = (largest);                     \
        else if (value <= (double)(least))           \
            element = (least);                       \
        else if (!isnan(value))                      \
            element = (type)value;                   \
        memcpy(at, &element, sizeof element);        \
    }

FLOAT_ELEMENT(f32, float)
FLOAT_ELEMENT(f64, double)
SMALL_FLOAT_ELEMENT(bf16, brain)
SMALL_FLOAT_ELEMENT(f16, half)
INTEGER_ELEMENT(i8, int8_t, INT8_MIN, INT8_MAX)
INTEGER_ELEMENT(i16, int16_t, INT16_MIN, INT16_MAX)
INTEGER_ELEMENT(i32, int32_t, INT32_MIN, INT32_MAX)
INTEGER_ELEMENT(i64, int64_t, INT64_MIN, INT64_MAX)
INTEGER_ELEMENT(u8, uint8_t, 0, UINT8_MAX)
INTEGER_ELEMENT(u16, uint16_t, 0, UINT16_MAX)
INTEGER_ELEMENT(u32, uint32_t, 0, UINT32_MAX)
INTEGER_ELEMENT(u64, uint64_t, 0, UINT64_MAX)

/* True is anything but zero, as in C: nan is true. */
static double get_bool(const void *at) {
    return *(const unsigned char *)at != 0;
}
static void set_bool(void *at, double value) {
    *(unsigned char *)at = value != 0;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

typedef struct dtype_row {
    const char *name;
    size_t size;
    bool is_float;
    double (*get)(const void *at);
    void (*set)(void *at, double value);
} dtype_row;

static const dtype_row dtypes[NT_DTYPE_COUNT] = {
    [NT_F32] = {"f32", 4, true, get_f32, set_f32},      [NT_F64] = {"f64", 8, true, get_f64, set_f64},
    [NT_BF16] = {"bf16", 2, true, get_bf16, set_bf16},  [NT_F16] = {"f16", 2, true, get_f16, set_f16},
    [NT_I8] = {"i8", 1, false, get_i8, set_i8},         [NT_I16] = {"i16", 2, false, get_i16, set_i16},
    [NT_I32] = {"i32", 4, false, get_i32, set_i32},     [NT_I64] = {"i64", 8, false, get_i64, set_i64},
    [NT_U8] = {"u8", 1, false, get_u8, set_u8},         [NT_U16] = {"u16", 2, false, get_u16, set_u16},
    [NT_U32] = {"u32", 4, false, get_u32, set_u32},     [NT_U64] = {"u64", 8, false, get_u64, set_u64},
    [NT_BOOL] = {"bool", 1, false, get_bool, set_bool},
};

static bool is_dtype(nt_dtype dtype) {
    return (size_t)dtype < NT_DTYPE_COUNT;
}

const char *nt_dtype_name(nt_dtype dtype) {
    return is_dtype(dtype) ? dtypes[dtype].name : "unknown type";
}

size_t nt_dtype_size(nt_dtype dtype) {
    return is_dtype(dtype) ? dtypes[dtype].size : 0;
}

bool nt_dtype_is_float(nt_dtype dtype) {
    return is_dtype(dtype) && dtypes[dtype].is_float;
}

bool nt__dtype_is_integer(nt_dtype dtype) {
    return is_dtype(dtype) && dtype != NT_BOOL && !dtypes[dtype].is_float;
}

bool nt__dtype_is_unsigned(nt_dtype dtype) {
    return dtype == NT_U8 || dtype == NT_U16 || dtype == NT_U32 || dtype == NT_U64;
}

double nt__element_get(nt_dtype dtype, const void *at) {
    return dtypes[dtype].get(at);
}

void nt__element_set(nt_dtype dtype, void *at, double value) {
    dtypes[dtype].set(at, value);
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static bool is_rank(int rank) {
    return rank >= 0 && rank <= NT_MAX_RANK;
}

bool nt_shape_equal(nt_shape a, nt_shape b) {
    if (a.rank != b.rank || !is_rank(a.rank)) return false;
    return memcmp(a.dims, b.dims, (size_t)a.rank * sizeof *a.dims) == 0;
}

/* The sizes other than 0 must fit together also when another is 0, so that no product of some of them overflows. */
int64_t nt_shape_elements(nt_shape shape) {
    const int64_t limit = INT64_C(1) << 62;
    if (!is_rank(shape.rank)) return -1;
    int64_t product = 1;
    bool empty = false;
    for (int i = 0; i < shape.rank; i++) {
        int64_t size = shape.dims[i];
        if (size < 0) return -1;
        empty = empty || size == 0;
        if (size == 0) continue;
        if (__builtin_mul_overflow(product, size, &product) || product >= limit) return -1;
    }
    return empty ? 0 : product;
}

const char *nt__shape_text(nt_shape shape, char out[NT__TYPE_TEXT]) {
    if (!is_rank(shape.rank)) {
        snprintf(out, NT__TYPE_TEXT, "[rank %d]", shape.rank);
        return out;
    }
    size_t used = (size_t)snprintf(out, NT__TYPE_TEXT, "[");
    for (int i = 0; i < shape.rank; i++)
        used += (size_t)snprintf(out + used, NT__TYPE_TEXT - used, "%s%" PRId64, i ? "," : "", shape.dims[i]);
    snprintf(out + used, NT__TYPE_TEXT - used, "]");
    return out;
}

/* ---- types ------------------------------------------------------------------------------------------------------ */

const char *nt__type_text(nt__type type, char out[NT__TYPE_TEXT]) {
    char shape[NT__TYPE_TEXT];
    snprintf(out, NT__TYPE_TEXT, "%s%s", nt_dtype_name(type.dtype), nt__shape_text(type.shape, shape));
    return out;
}

nt__type nt__array_type(const nt_array *array) {
    return (nt__type){array->dtype, array->shape};
}

nt__type nt__row_type(nt__type type) {
    nt__type row = {type.dtype, {.rank = type.shape.rank - 1}};
    memcpy(row.shape.dims, type.shape.dims + 1, (size_t)row.shape.rank * sizeof *row.shape.dims);
    return row;
}

bool nt__type_equal(nt__type a, nt__type b) {
    return a.dtype == b.dtype && nt_shape_equal(a.shape, b.shape);
}

bool nt__type_bytes(nt__type type, size_t *bytes) {
    int64_t elements = nt_shape_elements(type.shape);
    if (elements < 0 || !is_dtype(type.dtype)) return false;
    return !__builtin_mul_overflow((size_t)elements, dtypes[type.dtype].size, bytes) && *bytes <= PTRDIFF_MAX;
}
