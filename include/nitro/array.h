/* Host arrays: element types, shapes, and dense row-major arrays in host memory.
 */
#ifndef NITRO_ARRAY_H
#define NITRO_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nitro/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nt_dtype {
    NT_F32,
    NT_F64,
    NT_BF16,
    NT_F16,
    NT_I8,
    NT_I16,
    NT_I32,
    NT_I64,
    NT_U8,
    NT_U16,
    NT_U32,
    NT_U64,
    NT_BOOL,
    NT_DTYPE_COUNT
} nt_dtype;

/* "f32", "i64", "bool", ... */
const char *nt_dtype_name(nt_dtype dtype);
/* Bytes of one element. */
size_t nt_dtype_size(nt_dtype dtype);
bool nt_dtype_is_float(nt_dtype dtype);

enum { NT_MAX_RANK = 8 };

/* Sizes of the axes, outermost first. Axis 0 of a batch is the sample. */
typedef struct nt_shape {
    int rank;
    int64_t dims[NT_MAX_RANK];
} nt_shape;

/* nt_dims(128, 784) is the shape [128,784]. */
#define NT_COUNT_(...) ((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define nt_dims(...) ((nt_shape){NT_COUNT_(__VA_ARGS__), {__VA_ARGS__}})

bool nt_shape_equal(nt_shape a, nt_shape b);
/* Number of elements; -1 when the shape is invalid (negative size, rank out of range) or the number does not fit in 62
 * bits. */
int64_t nt_shape_elements(nt_shape shape);

/* A dense, row-major array. Its memory is aligned to 64 bytes. Reference counted: nt_array_free gives one reference
 * back. */
typedef struct nt_array {
    nt_dtype dtype;
    nt_shape shape;
    size_t bytes;
    void *data;
    size_t references; /* owned by nt_array_retain and nt_array_free */
} nt_array;

/* A new array of zeros. NULL with a message when the shape is invalid or memory is short. */
nt_array *nt_array_new(nt_dtype dtype, nt_shape shape);
/* A new array with a copy of `data`, which holds as many elements as the shape asks for. */
nt_array *nt_array_from(nt_dtype dtype, nt_shape shape, const void *data);
/* Both take NULL, of which there is nothing to keep or to free. */
nt_array *nt_array_retain(nt_array *array);
void nt_array_free(nt_array *array);

/* Element `index` (row-major) of an array of any type, as a double; bool is 0 or 1. An index that the array does not
 * have gives nan, or changes nothing, with a message in nt_error_message; if it happens in a hook build_data or
 * derive, or in a source's begin or read, that hook has failed, whatever it returns. */
double nt_array_get(const nt_array *array, int64_t index);
void nt_array_set(nt_array *array, int64_t index, double value);

/* Arrays with names in one value, in the order they were put in: frozen weights, tables that belong together. Reference
 * counted like an array. */
typedef struct nt_arrays nt_arrays;
/* An empty one; NULL when memory is short. */
nt_arrays *nt_arrays_new(void);
/* Adds an array under a name that the set does not have. The reference to the array passes to the set, also when the
 * call fails. NULL (an array that could not be read) gives the thread's status. */
nt_status nt_arrays_put(nt_arrays *set, const char *name, nt_array *array);
/* The array of that name, borrowed; NULL with a message that lists the names. */
nt_array *nt_arrays_find(const nt_arrays *set, const char *name);
size_t nt_arrays_count(const nt_arrays *set);
/* Name and array at a place, NULL beyond the last. */
const char *nt_arrays_name(const nt_arrays *set, size_t index);
nt_array *nt_arrays_at(const nt_arrays *set, size_t index);
nt_arrays *nt_arrays_retain(nt_arrays *set);
void nt_arrays_free(nt_arrays *set);

/* Reads an IDX file (the format of MNIST), plain or gzip. Element types u8, i8, i16, i32, f32, f64. Checks the magic
 * number, that there is an axis, the sizes and that the file holds exactly the bytes they ask for; no more than that is
 * unpacked. Several gzip members are joined, and zeros after them are passed over, as gzip does. The file must be a
 * regular one, no pipe. `file` is looked for in `folder` when that is not NULL, with and without ".gz". NULL with a
 * message that names the file and the numbers. */
nt_array *nt_idx_read(const char *folder, const char *file);

/* Reads a NumPy file (.npy), plain or gzip as above, of format 1.0 or 2.0: every type of nitro's but bf16,
 * little-endian, in C order; one value without axes has rank 0. Checks that the file holds exactly the bytes that its
 * header states. NULL with a message that names the file and the numbers. */
nt_array *nt_npy_read(const char *path);
/* Writes format 1.0, beside the target and renamed: a reader sees the old file or the new one, whole. bf16, which NumPy
 * has not, is NT_INVALID. */
nt_status nt_npy_write(const char *path, const nt_array *array);

#ifdef __cplusplus
}
#endif

#endif
