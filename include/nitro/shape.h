/* Operations that make values, types and shapes, and move elements: slices, gather, sorting.
 * The notes at the top of nitro/ops.h hold.
 */
#ifndef NITRO_SHAPE_H
#define NITRO_SHAPE_H

#include "nitro/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- new values ------------------------------------------------------------------------------------------------- */

/* A tensor of `shape` filled with one number. */
#define nt_full(dtype, shape, value) nt_full_at(dtype, shape, value, NT_SITE)
/* A small host array as a constant of the program: its elements are written into the program's text. Data belongs in a
 * field of the batch, a DEVICE field or a parameter, and is refused here, before it is read: all constant arrays of a
 * trace that differ may have 65,536 bytes. Data that comes as many numbers is refused too: one line may make constants
 * of 4,096 different elements in a trace. */
#define nt_constant(array) nt_constant_at(array, #array, NT_SITE)
/* Index along `axis`: 0, 1, 2, ... in a tensor of `shape`. */
#define nt_iota(dtype, shape, axis) nt_iota_at(dtype, shape, axis, NT_SITE)
/* Integer labels [...] to [..., classes]: 1 at the label, else 0; a label outside 0..classes-1 gives a row of zeros. No
 * gradient. */
#define nt_one_hot(labels, classes, dtype) nt_one_hot_at(labels, classes, dtype, NT_SITE)

nt_tensor nt_full_at(nt_dtype dtype, nt_shape shape, double value, nt_site site);
nt_tensor nt_constant_at(const nt_array *array, const char *expression, nt_site site);
nt_tensor nt_iota_at(nt_dtype dtype, nt_shape shape, int axis, nt_site site);
nt_tensor nt_one_hot_at(nt_tensor labels, int64_t classes, nt_dtype dtype, nt_site site);

/* ---- types and shapes ------------------------------------------------------------------------------------------- */

/* Another element type. Floating to integer truncates and saturates, nan gives 0; to bool: whether it is not 0.
 * Gradient between floating types: c converted back; else none. */
#define nt_convert(x, dtype) nt_convert_at(x, dtype, NT_SITE)
/* The same elements, row-major, in another shape; one size may be -1: what is left. nt_reshape(x, -1, 784). Gradient: c
 * reshaped back. */
#define nt_reshape(x, ...) nt_reshape_at(x, nt_dims(__VA_ARGS__), NT_SITE)
/* Axis i of the result is axis axes[i] of x: nt_transpose(x, 1, 0). Gradient: c transposed back. */
#define nt_transpose(x, ...) nt_transpose_at(x, nt_dims(__VA_ARGS__), NT_SITE)
/* Stretches x to `shape` by numpy's rule. Gradient: c summed over what was stretched. */
#define nt_broadcast(x, shape) nt_broadcast_at(NT_TENSOR(x), shape, NT_SITE)
/* Elements start[i] <= index < limit[i] along each axis. Gradient: c in zeros at its place. */
#define nt_slice(x, start, limit) nt_slice_at(x, start, limit, NT_SITE)
/* Every strides[i]-th of them, from start[i]; strides are positive. Gradient: c at their places in zeros. */
#define nt_slice_strided(x, start, limit, strides) nt_slice_strided_at(x, start, limit, strides, NT_SITE)
/* low[i] elements before and high[i] after x along each axis, all of them `value` (a number or a scalar of the type of
 * x). A negative number cuts as many elements off. Gradient: c without them, zeros where x was cut; their sum for
 * value.
 */
#define nt_pad(x, low, high, value) nt_pad_at(x, low, high, NT_TENSOR(value), NT_SITE)
/* x with the block `update` written at `start` (constant). Gradient: c with zeros in the block; the block of c. */
#define nt_update_slice(x, update, start) nt_update_slice_at(x, update, start, NT_SITE)
/* The value of x; no gradient flows back. */
#define nt_stop_gradient(x) nt_stop_gradient_at(x, NT_SITE)

nt_tensor nt_convert_at(nt_tensor x, nt_dtype dtype, nt_site site);
nt_tensor nt_reshape_at(nt_tensor x, nt_shape shape, nt_site site);
nt_tensor nt_transpose_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_broadcast_at(nt_tensor x, nt_shape shape, nt_site site);
nt_tensor nt_slice_at(nt_tensor x, nt_shape start, nt_shape limit, nt_site site);
nt_tensor nt_slice_strided_at(nt_tensor x, nt_shape start, nt_shape limit, nt_shape strides, nt_site site);
nt_tensor nt_pad_at(nt_tensor x, nt_shape low, nt_shape high, nt_tensor value, nt_site site);
nt_tensor nt_update_slice_at(nt_tensor x, nt_tensor update, nt_shape start, nt_site site);
nt_tensor nt_stop_gradient_at(nt_tensor x, nt_site site);

/* ---- moving elements -------------------------------------------------------------------------------------------- */

/* A new axis of size 1 at `axis` of the result; -1 is the last one. Gradient: c without it. */
#define nt_expand(x, axis) nt_expand_at(x, axis, NT_SITE)
/* x without the axes named, all of size 1: nt_squeeze(x, 0, -1); without any such axis when none is named. Gradient: c
 * with them. */
#define nt_squeeze(x, ...) nt_squeeze_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* Tensors one after the other along an axis that they have, or along a new one: nt_concatenate(0, a, b, c). All other
 * sizes are equal; nt_concatenate_at and nt_stack_at take an array. Gradient: each gets its part of c. */
#define nt_concatenate(axis, ...) \
    nt_concatenate_at((nt_tensor[]){__VA_ARGS__}, NT_COUNT_TENSORS_(__VA_ARGS__), axis, NT_SITE)
#define nt_stack(axis, ...) nt_stack_at((nt_tensor[]){__VA_ARGS__}, NT_COUNT_TENSORS_(__VA_ARGS__), axis, NT_SITE)
#define NT_COUNT_TENSORS_(...) ((int)(sizeof((nt_tensor[]){__VA_ARGS__}) / sizeof(nt_tensor)))
/* Elements start <= index < limit along one axis. Gradient: c in zeros at its place. */
#define nt_range(x, axis, start, limit) nt_range_at(x, axis, start, limit, NT_SITE)
/* An axis in `parts` equal ones, which come in out[0], ... Gradient: each c at its place. */
#define nt_parts(x, axis, parts, out) nt_parts_at(x, axis, parts, out, NT_SITE)
/* Along the axes the other way around; none given means all. Gradient: c flipped back. */
#define nt_flip(x, ...) nt_flip_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* Element i of an axis goes to i + shift; what leaves at one end comes in at the other. Gradient: c rolled back. */
#define nt_roll(x, shift, axis) nt_roll_at(x, shift, axis, NT_SITE)
/* Copies: x as a whole repeats.dims[i] times along axis i (0 1 0 1); each element of one axis (0 0 1 1). Gradient: c
 * summed over the copies. */
#define nt_tile(x, repeats) nt_tile_at(x, repeats, NT_SITE)
#define nt_repeat(x, repeats, axis) nt_repeat_at(x, repeats, axis, NT_SITE)
/* Borders of low[i] elements before and high[i] after along each axis: of the element at the edge (a a | a b c), or of
 * those next to it (c b | a b c), fewer than the axis has. Gradient: c summed over the copies. */
#define nt_pad_edge(x, low, high) nt_pad_edge_at(x, low, high, NT_SITE)
#define nt_pad_reflect(x, low, high) nt_pad_reflect_at(x, low, high, NT_SITE)
/* bool [rows, columns]: where column <= row + diagonal. nt_not gives the rest. */
#define nt_triangle(rows, columns, diagonal) nt_triangle_at(rows, columns, diagonal, NT_SITE)
/* The matrices in the last two axes with zeros above, below the diagonal; 0 is the main one, 1 the next above it.
 * Gradient: the same of c. */
#define nt_lower_triangle(x, diagonal) nt_lower_triangle_at(x, diagonal, NT_SITE)
#define nt_upper_triangle(x, diagonal) nt_upper_triangle_at(x, diagonal, NT_SITE)

nt_tensor nt_expand_at(nt_tensor x, int64_t axis, nt_site site);
nt_tensor nt_squeeze_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_concatenate_at(const nt_tensor *tensors, int count, int64_t axis, nt_site site);
nt_tensor nt_stack_at(const nt_tensor *tensors, int count, int64_t axis, nt_site site);
nt_tensor nt_range_at(nt_tensor x, int64_t axis, int64_t start, int64_t limit, nt_site site);
void nt_parts_at(nt_tensor x, int64_t axis, int64_t parts, nt_tensor *out, nt_site site);
nt_tensor nt_flip_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_roll_at(nt_tensor x, int64_t shift, int64_t axis, nt_site site);
nt_tensor nt_tile_at(nt_tensor x, nt_shape repeats, nt_site site);
nt_tensor nt_repeat_at(nt_tensor x, int64_t repeats, int64_t axis, nt_site site);
nt_tensor nt_pad_edge_at(nt_tensor x, nt_shape low, nt_shape high, nt_site site);
nt_tensor nt_pad_reflect_at(nt_tensor x, nt_shape low, nt_shape high, nt_site site);
nt_tensor nt_triangle_at(int64_t rows, int64_t columns, int64_t diagonal, nt_site site);
nt_tensor nt_lower_triangle_at(nt_tensor x, int64_t diagonal, nt_site site);
nt_tensor nt_upper_triangle_at(nt_tensor x, int64_t diagonal, nt_site site);

/* ---- indexing --------------------------------------------------------------------------------------------------- */

/* Indices are integers from 0; a negative one does not count from the end. One that is out of range reads the nearest
 * element (below 0 the first, else the last) and writes nothing. The start of a block moves so far that the block lies
 * inside. */

/* Slices of x [.., n, ..] across an axis: its place takes the axes of the indices. The rows of an embedding are
 * nt_take(table, tokens, 0). Gradient: c added up at the slices read. */
#define nt_take(x, indices, axis) nt_take_at(x, indices, axis, NT_SITE)
/* y[.., i, ..] = x[.., indices[.., i, ..], ..]: indices have the shape of x but for one axis. Gradient: c added up at
 * the elements read. */
#define nt_take_along(x, indices, axis) nt_take_along_at(x, indices, axis, NT_SITE)
/* x with the slices of `updates`, in the shape that nt_take(x, indices, axis) has (or a number, or what broadcasts to
 * it), written over, added to, multiplied into, or as a larger (smaller) one put for, those at the indices. Floating
 * and integer; add and mul: integers as in nt_sum. Where indices of set are equal, one of the updates is written. A nan
 * of max or min is the result. Gradient: set: c with zeros there, c there; add: c, c there; mul: c times the product of
 * the others, at zeros too; max and min: c shared evenly among equal largest (smallest) ones. */
#define nt_scatter_set(x, indices, updates, axis) nt_scatter_set_at(x, indices, NT_TENSOR(updates), axis, NT_SITE)
#define nt_scatter_add(x, indices, updates, axis) nt_scatter_add_at(x, indices, NT_TENSOR(updates), axis, NT_SITE)
#define nt_scatter_mul(x, indices, updates, axis) nt_scatter_mul_at(x, indices, NT_TENSOR(updates), axis, NT_SITE)
#define nt_scatter_max(x, indices, updates, axis) nt_scatter_max_at(x, indices, NT_TENSOR(updates), axis, NT_SITE)
#define nt_scatter_min(x, indices, updates, axis) nt_scatter_min_at(x, indices, NT_TENSOR(updates), axis, NT_SITE)
/* The block of shape `sizes` at `start`, an integer tensor [rank of x], and x with a block written there. Gradient: c
 * in zeros at its place; c with zeros in the block, the block of c. */
#define nt_dynamic_slice(x, start, sizes) nt_dynamic_slice_at(x, start, sizes, NT_SITE)
#define nt_dynamic_update(x, update, start) nt_dynamic_update_at(x, update, start, NT_SITE)

nt_tensor nt_take_at(nt_tensor x, nt_tensor indices, int64_t axis, nt_site site);
nt_tensor nt_take_along_at(nt_tensor x, nt_tensor indices, int64_t axis, nt_site site);
nt_tensor nt_scatter_set_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site);
nt_tensor nt_scatter_add_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site);
nt_tensor nt_scatter_mul_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site);
nt_tensor nt_scatter_max_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site);
nt_tensor nt_scatter_min_at(nt_tensor x, nt_tensor indices, nt_tensor updates, int64_t axis, nt_site site);
nt_tensor nt_dynamic_slice_at(nt_tensor x, nt_tensor start, nt_shape sizes, nt_site site);
nt_tensor nt_dynamic_update_at(nt_tensor x, nt_tensor update, nt_tensor start, nt_site site);

/* ---- sorting: floating and integer ------------------------------------------------------------------------------ */

/* Along an axis; equal elements keep their order in both directions; a nan counts as larger than all numbers. Gradient:
 * c at the places that the elements came from. */
typedef enum nt_order { NT_ASCENDING, NT_DESCENDING } nt_order;
#define nt_sort(x, axis, order) nt_sort_at(x, axis, order, NT_SITE)
/* i32 indices of the elements in that order. No gradient. */
#define nt_argsort(x, axis, order) nt_argsort_at(x, axis, order, NT_SITE)
/* The k largest along the last axis, descending, the first of equal ones first: [..., n] to [..., k]. Their i32 indices
 * come in *indices, which may be NULL. Gradient: c at the places that the elements came from. */
#define nt_top_k(x, k, indices) nt_top_k_at(x, k, indices, NT_SITE)

nt_tensor nt_sort_at(nt_tensor x, int64_t axis, nt_order order, nt_site site);
nt_tensor nt_argsort_at(nt_tensor x, int64_t axis, nt_order order, nt_site site);
nt_tensor nt_top_k_at(nt_tensor x, int64_t k, nt_tensor *indices, nt_site site);

#ifdef __cplusplus
}
#endif

#endif
