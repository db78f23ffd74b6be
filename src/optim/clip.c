/* Norms of gradients, and clipping by the norm of all groups. */
#include <math.h>

#include "optim/optim.h"
#include "optim/rules.h"

/* The sum of a flat tensor as f64. A sum of 10^8 elements in f32 would stop growing. The tensor is cut into
 * NT__SUMMED_APART pieces of one length and these are added in f32, element by element; the elements of their sum are
 * added in f64. The engine makes one pass of the first addition and of what computes the elements, and it can use
 * vector instructions, which the sum of a row cannot. A length that does not divide costs a copy of the tensor on some
 * engines, which is why flat gradients are filled up. */
static nt_tensor exact_sum(nt_tensor x) {
    int64_t length = nt_shape_of(x).dims[0], columns = length / NT__SUMMED_APART, whole = columns * NT__SUMMED_APART;
    if (nt_dtype_of(x) == NT_F64 || columns == 0) return nt_convert(nt_sum(x), NT_F64);
    nt_tensor head = whole == length ? x : nt_slice(x, nt_dims(0), nt_dims(whole));
    nt_tensor sum = nt_sum(nt_convert(nt_sum(nt_reshape(head, NT__SUMMED_APART, columns), 0), NT_F64));
    if (whole == length) return sum;
    return nt_add(sum, nt_convert(nt_sum(nt_slice(x, nt_dims(whole), nt_dims(length))), NT_F64));
}

/* Gradients of 16 bits are squared in f32. */
static nt_tensor sum_of_squares(nt_tensor x) {
    return exact_sum(nt_square(nt_convert(x, nt__arithmetic_type(nt_dtype_of(x)))));
}

nt_tensor nt__norm(nt_tensor x, double p) {
    nt_dtype dtype = nt_dtype_of(x);
    if (isinf(p)) return nt_reduce_max(nt_abs(x));
    if (p == 2) return nt_convert(nt_sqrt(sum_of_squares(x)), dtype);
    if (p == 1) return nt_convert(exact_sum(nt_abs(x)), dtype);
    return nt_convert(nt_pow(exact_sum(nt_pow(nt_abs(x), p)), 1 / p), dtype);
}

nt_tensor nt__global_norm(const nt_tensor *gradients, size_t count) {
    nt_tensor sum = nt_tensor_number(0);
    for (size_t i = 0; i < count; i++) {
        nt_tensor squares = sum_of_squares(gradients[i]);
        sum = i ? nt_add(sum, squares) : squares;
    }
    return nt_sqrt(sum);
}

void nt__clip_by_global_norm(nt_tensor *gradients, size_t count, nt_tensor norm, double threshold) {
    if (!(threshold > 0)) return;
    /* A nan norm must reach the parameters, not be lost in the maximum: it stands first. */
    nt_tensor scale = nt_div(threshold, nt_max(norm, threshold));
    for (size_t i = 0; i < count; i++)
        gradients[i] = nt_mul(gradients[i], nt_convert(scale, nt_dtype_of(gradients[i])));
}
