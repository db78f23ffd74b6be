/* Operations that join elements: reductions, products of matrices, contractions. The notes at the top of nitro/ops.h
 * hold.
 */
#ifndef NITRO_REDUCE_H
#define NITRO_REDUCE_H

#include "nitro/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reductions ------------------------------------------------------------------------------------------------- */

/* Over `axes`: nt_sum(x, -1), nt_sum(x, 0, 1); none given means all: nt_sum(x). The axes are dropped; NT_KEEP among
 * them keeps them with size 1: nt_sum(x, -1, NT_KEEP). */
#define NT_KEEP (INT64_MIN + 1)
/* Sum and product: floating, and integer of 32 and 64 bits, which wrap around; of 8 and 16 bits they are an error, for
 * they soon overflow: nt_sum(nt_convert(x, NT_I32)). 0 and 1 of no elements. What is formed of many elements of bf16
 * and f16, here and below, is formed in f32 and rounded once. A sum over several axes is added up along the longest
 * first and then in f64, so that it is right to some 6 digits however many elements there are.
 * Gradient: c stretched; prod: c times the product of the others, at zeros too. Mean: floating, nan of no elements.
 * Gradient: c / number. */
#define nt_sum(x, ...) nt_sum_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
#define nt_prod(x, ...) nt_prod_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
#define nt_mean(x, ...) nt_mean_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* Largest and smallest element; a nan is the result. Of no elements: the smallest (largest) value of the type.
 * Gradient: c shared evenly among equal ones. */
#define nt_reduce_max(x, ...) nt_reduce_max_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
#define nt_reduce_min(x, ...) nt_reduce_min_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* sum((x - mean) (x - mean)) / (number - correction), floating, and its square root, the standard deviation. The
 * correction is 0 for all of a population and 1 for a sample of it; nan if nothing is left to divide by. Gradient:
 * 2 c (x - mean) / (number - correction); of the deviation nan if it is 0. */
#define nt_variance(x, correction, ...) nt_variance_at(x, correction, NT_AXES_(__VA_ARGS__), NT_SITE)
#define nt_deviation(x, correction, ...) nt_deviation_at(x, correction, NT_AXES_(__VA_ARGS__), NT_SITE)
/* log(sum(exp(x))), floating, without overflow; -inf counts nothing, -inf of no others. Gradient: c exp(x - y). */
#define nt_logsumexp(x, ...) nt_logsumexp_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* Whether any, all elements of a bool tensor are true; false, true of none. No gradient. */
#define nt_any(x, ...) nt_any_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
#define nt_all(x, ...) nt_all_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* i32 index of the largest, smallest element along one axis, which is dropped: the first of equal ones, and the first
 * nan if there is one. The axis may not be empty. No gradient. */
#define nt_argmax(x, axis) nt_argmax_at(x, axis, NT_SITE)
#define nt_argmin(x, axis) nt_argmin_at(x, axis, NT_SITE)
/* Running sum, product, largest and smallest element along one axis, in the shape of x: element i is made of elements
 * 0..i, backward of i..last. Floating and integer; a nan stays in all that follow. Gradient: of the sum, c summed the
 * other way; of the product, by the products of the others, at zeros too; of an extreme, c to the element that it is,
 * the first one met of equal ones. cumsum and cumprod: integers as in nt_sum. cumlogsumexp: log(sum(exp(x))), floating,
 * without overflow; -inf counts nothing. Gradient: exp(x[i]) times the sum of c[j] exp(-y[j]) over the j that i is part
 * of. */
typedef enum nt_direction { NT_FORWARD, NT_BACKWARD } nt_direction;
#define nt_cumsum(x, axis, direction) nt_cumsum_at(x, axis, direction, NT_SITE)
#define nt_cumprod(x, axis, direction) nt_cumprod_at(x, axis, direction, NT_SITE)
#define nt_cummax(x, axis, direction) nt_cummax_at(x, axis, direction, NT_SITE)
#define nt_cummin(x, axis, direction) nt_cummin_at(x, axis, direction, NT_SITE)
#define nt_cumlogsumexp(x, axis, direction) nt_cumlogsumexp_at(x, axis, direction, NT_SITE)

nt_tensor nt_sum_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_prod_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_mean_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_reduce_max_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_reduce_min_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_variance_at(nt_tensor x, double correction, nt_shape axes, nt_site site);
nt_tensor nt_deviation_at(nt_tensor x, double correction, nt_shape axes, nt_site site);
nt_tensor nt_logsumexp_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_any_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_all_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_argmax_at(nt_tensor x, int64_t axis, nt_site site);
nt_tensor nt_argmin_at(nt_tensor x, int64_t axis, nt_site site);
nt_tensor nt_cumsum_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site);
nt_tensor nt_cumprod_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site);
nt_tensor nt_cummax_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site);
nt_tensor nt_cummin_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site);
nt_tensor nt_cumlogsumexp_at(nt_tensor x, int64_t axis, nt_direction direction, nt_site site);

/* exp(x) / sum(exp(x)) over the axes named, without overflow, and its logarithm; floating. When none is named, along
 * the last axis: nt_softmax(x). Gradient: y (c - sum(c y)); c - exp(y) sum(c). */
#define nt_softmax(x, ...) nt_softmax_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
#define nt_log_softmax(x, ...) nt_log_softmax_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)

nt_tensor nt_softmax_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_log_softmax_at(nt_tensor x, nt_shape axes, nt_site site);

/* ---- linear algebra --------------------------------------------------------------------------------------------- */

/* Matrix product of the last two axes, [..., m, k] x [..., k, n] -> [..., m, n]. A vector operand has its missing axis
 * added and dropped again; leading axes broadcast (numpy.matmul). Floating, and integers as in nt_sum. Gradient: c b^T,
 * a^T c. */
#define nt_matmul(a, b) nt_matmul_at(a, b, NT_SITE)
/* Two vectors [m] and [n]: a[i] b[j], [m, n]. Gradient: c b, a c. */
#define nt_outer(a, b) nt_outer_at(a, b, NT_SITE)
/* Einstein summation: nt_einsum("bij,bjk->bik", a, b). One term an operand, one letter an axis; what the result does
 * not name is summed, after the product of the elements that share their letters. A letter twice in a term means the
 * diagonal. Without "->" the result has the letters that stand once, in the order of the alphabet. Operands are
 * contracted from left to right. Types as of nt_matmul. Letters of equal name have equal size. Gradient: the equation
 * with c in the place of the operand. */
#define nt_einsum(equation, ...) \
    nt_einsum_at(equation, (nt_tensor[]){__VA_ARGS__}, sizeof((nt_tensor[]){__VA_ARGS__}) / sizeof(nt_tensor), NT_SITE)

nt_tensor nt_matmul_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_outer_at(nt_tensor a, nt_tensor b, nt_site site);
nt_tensor nt_einsum_at(const char *text, const nt_tensor *operands, size_t count, nt_site site);

/* Norms over axes, which are dropped: nt_norm(x, -1); none given means all. 0 if there is no element. Euclidean, the
 * root of the sum of squares (infinite if the squares are). Gradient: c x / y, 0 if y is 0. */
#define nt_norm(x, ...) nt_norm_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* Sum of the absolute values. Gradient: c sign(x). */
#define nt_norm1(x, ...) nt_norm1_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)
/* Largest absolute value. Gradient: c sign(x) at the largest ones, shared evenly among equal ones. */
#define nt_norm_max(x, ...) nt_norm_max_at(x, NT_AXES_(__VA_ARGS__), NT_SITE)

nt_tensor nt_norm_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_norm1_at(nt_tensor x, nt_shape axes, nt_site site);
nt_tensor nt_norm_max_at(nt_tensor x, nt_shape axes, nt_site site);

#ifdef __cplusplus
}
#endif

#endif
