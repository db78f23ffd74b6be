/* Clipping by the global norm of all groups' gradients. */
#include "optim/optim.h"

/* Norms of different element types meet in the widest: f64 when some group has it, else f32. */
static nt_dtype common_dtype(const nt_tensor *gradients, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (nt_dtype_of(gradients[i]) == NT_F64) return NT_F64;
    return NT_F32;
}

void nt__clip_by_global_norm(nt_tensor *gradients, size_t count, double threshold) {
    if (!(threshold > 0)) return;
    nt_dtype dtype = common_dtype(gradients, count);
    nt_tensor sum = nt_tensor_number(0);
    for (size_t i = 0; i < count; i++) {
        nt_tensor squares = nt_sum(nt_square(nt_convert(gradients[i], dtype)));
        sum = i ? nt_add(sum, squares) : squares;
    }
    nt_tensor norm = nt_sqrt(sum);
    /* A nan norm must reach the parameters, not be lost in the maximum: it stands first. */
    nt_tensor scale = nt_div(threshold, nt_max(norm, threshold));
    for (size_t i = 0; i < count; i++)
        gradients[i] = nt_mul(gradients[i], nt_convert(scale, nt_dtype_of(gradients[i])));
}
