/* Gradients inside traced code: of a scalar with respect to tensors it was made of.
 *
 * A gradient is a tensor like any other: it may be part of a loss, which is differentiated again. All operations have
 * second derivatives; at the points where the first one jumps (a relu at 0, equal elements of a maximum) they are those
 * of the rule that "Gradient" in nitro/ops.h names.
 *
 *     A gradient penalty (Gulrajani et al. 2017):
 *     nt_tensor slope = nt_grad(nt_sum(discriminator(e, m, x)), x);
 *     nt_tensor penalty = nt_mean(nt_square(nt_sub(nt_norm(slope, -1), 1)));
 * The slope of the sum is that of each sample by itself only if samples do not mix: with a batch norm in the
 * discriminator it is not.
 */
#ifndef NITRO_GRADIENT_H
#define NITRO_GRADIENT_H

#include "nitro/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dy/dx in the shape of x: zeros if y does not depend on it. y is a floating scalar of this trace; x any floating
 * tensor of it, a parameter, a field, or a value on the way. nt_stop_gradient holds a value constant. Equal expressions
 * are one tensor, so an x that was computed twice is an error: compute it once and use it in both places. In a body of
 * control flow (nitro/control.h) y depends on an x of outside also through what else of outside was made of it; the
 * carry is a value of its own in each iteration, and slices of inputs that were made of x are an error. */
#define nt_grad(y, x) nt_grad_at(y, x, NT_SITE)
/* The same for `count` tensors at once, in gradients[i]. */
#define nt_grads(y, inputs, count, gradients) nt_grads_at(y, inputs, count, gradients, NT_SITE)

nt_tensor nt_grad_at(nt_tensor y, nt_tensor x, nt_site site);
void nt_grads_at(nt_tensor y, const nt_tensor *inputs, size_t count, nt_tensor *gradients, nt_site site);

#ifdef __cplusplus
}
#endif

#endif
