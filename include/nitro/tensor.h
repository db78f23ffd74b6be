/* Tensors: the values of a traced function.
 *
 * Inside `forward`, `loss` and the other traced hooks a tensor stands for an array that the compiled program will hold.
 * Operations (nitro/ops.h) make new tensors; nothing is computed while a hook runs. The first error of a trace is kept
 * with the file, line and function of the call that made it; later operations do nothing, so a hook needs no checks. A
 * tensor lives as long as its trace: one kept in a global variable from an earlier trace is an error.
 */
#ifndef NITRO_TENSOR_H
#define NITRO_TENSOR_H

#include "nitro/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a call stands in the user's source. */
typedef struct nt_site {
    const char *file, *function;
    int line;
} nt_site;
#define NT_SITE ((nt_site){__FILE__, __func__, __LINE__})

/* Three words joined into one name, after their macros are expanded. */
#define NT_JOIN3_(a, b, c) a##b##c
#define NT_JOIN3(a, b, c) NT_JOIN3_(a, b, c)

/* A value in the trace `trace`, or a plain number that takes the element type of the tensor it meets. Made by
 * operations and by NT_TENSOR. The trace is a mark that is compared and never followed; it is a pointer so that a C
 * number given where a tensor member is wanted does not compile, and the compiler's message has its name. */
typedef struct nt_tensor {
    const struct nt_a_tensor_is_wanted__NT_TENSOR_makes_one_of_a_number *trace;
    uint32_t id;
    double number;
} nt_tensor;
#define NT_NUMBER_MARK ((const struct nt_a_tensor_is_wanted__NT_TENSOR_makes_one_of_a_number *)UINTPTR_MAX)

/* Tensors with names: what a DEVICE field of type nt_arrays * is in a traced hook, and gradients of parameters. */
typedef struct nt_tensors {
    const struct nt_a_tensor_is_wanted__NT_TENSOR_makes_one_of_a_number *trace; /* as an nt_tensor's */
    const struct nt_tensors_content *content;
} nt_tensors;
/* nt_member(e->frozen, "weight"): the tensor of that name. An unknown name is an error that lists the names. */
#define nt_member(tensors, name) nt_member_at(tensors, name, NT_SITE)
nt_tensor nt_member_at(nt_tensors tensors, const char *name, nt_site site);

/* Tensors with names of one's own; both lists are copied. Each name once. */
#define nt_named_tensors(names, tensors, count) nt_named_tensors_at(names, tensors, count, NT_SITE)
nt_tensors nt_named_tensors_at(const char *const *names, const nt_tensor *tensors, size_t count, nt_site site);

/* Shape and type of a tensor. Dimensions of a failed tensor are 1 in every axis, so that arithmetic on them does not
 * trap. */
nt_dtype nt_dtype_of(nt_tensor x);
nt_shape nt_shape_of(nt_tensor x);
int nt_rank(nt_tensor x);
/* Size of an axis; axis -1 is the last. */
#define nt_dim(x, axis) nt_dim_at(x, axis, NT_SITE)
int64_t nt_dim_at(nt_tensor x, int axis, nt_site site);

/* Arguments of operations may be tensors or C numbers: nt_mul(x, 2) and nt_mul(2, x) are both right. A number travels
 * as a double, which has all integers up to 2^53; nt_constant takes larger ones. */
static inline nt_tensor nt_tensor_itself(nt_tensor x) {
    return x;
}
static inline nt_tensor nt_tensor_number(double number) {
    return (nt_tensor){NT_NUMBER_MARK, 0, number};
}
#define NT_TENSOR(x) _Generic((x), nt_tensor : nt_tensor_itself, default : nt_tensor_number)(x)

/* The axes of a reduction: a leading marker lets the list be empty. Always inline, for gcc warns where it makes a copy
 * of the function that does not read an empty list. */
#define NT_AXES_(...) nt_axes_list((int64_t[]){INT64_MIN, ##__VA_ARGS__}, NT_COUNT_(INT64_MIN, ##__VA_ARGS__))
static inline __attribute__((always_inline)) nt_shape nt_axes_list(const int64_t *marked, int count) {
    nt_shape axes = {count - 1, {0}};
    for (int i = 1; i < count && i <= NT_MAX_RANK; i++) axes.dims[i - 1] = marked[i];
    return axes;
}

#ifdef __cplusplus
}
#endif

#endif
