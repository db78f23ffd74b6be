/* Manual mode: an experiment whose train_step hook computes losses, gradients and updates itself, in the order it
 * wants.
 *
 *     static nt_tensor train_step(const Gan_view *e, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
 *                                 nt_device_metrics *metrics) {
 *         nt_tensor loss = discriminator_loss(e, m, batch), other = loss;
 *         nt_step(optimizers, nt_parameter_grads(m, loss, "discriminator"));
 *         NT_REUSE(m) other = generator_loss(e, m, batch);
 *         nt_step(optimizers, nt_parameter_grads(m, other, "generator"));
 *         nt_device_value(metrics, "generator_loss", other);
 *         return loss;
 *     }
 *
 * It is traced, and is one program, called once for each batch: a step is one batch (accum must be 1). What it returns
 * is the loss of the step; nt_device_value reports others beside it. Each parameter group has the rule, rate, decay and
 * schedules that the other hooks and options give it; nt_step applies them. After nt_step the model's parameters have
 * their new values, which are constants of what follows (an update is not differentiated): a layer that is called again
 * uses them, and a loss of before depends on the old ones.
 *
 * forward is what validation, evaluation and prediction use, as without train_step; what only train_step declares is
 * trained and saved, and left out if a run does not train. The loss hook may be left out; it gives val_loss.
 */
#ifndef NITRO_MANUAL_H
#define NITRO_MANUAL_H

#include "nitro/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The optimizers of a run, one for each parameter group, during a call of train_step. */
typedef struct nt_optimizers nt_optimizers;

/* Gradients of a floating scalar with respect to all parameters below a scope ("generator", "generator.block1"; the
 * path of one parameter; "" for all), as they are now: tensors named by the parameters' paths. A parameter that the
 * loss does not depend on has zeros; that it depends on none of them is an error. */
#define nt_parameter_grads(m, loss, scope) nt_parameter_grads_at(m, loss, scope, NT_SITE)
nt_tensors nt_parameter_grads_at(nt_model *m, nt_tensor loss, const char *scope, nt_site site);

/* Updates the parameters that the gradients are named after, by the rules of their groups, as a step of automatic
 * training does: if the run has a gradient_clip_norm, the norm of all these gradients together is clipped. A group
 * is updated as a whole, so all of its parameters must be there: the param_group hook makes the groups. Frozen groups
 * stay as they are. May be called several times; each call counts as a step of the groups it updates.
 * Not in a body of control flow (nitro/control.h). */
#define nt_step(optimizers, gradients) nt_step_at(optimizers, gradients, NT_SITE)
void nt_step_at(nt_optimizers *optimizers, nt_tensors gradients, nt_site site);

#ifdef __cplusplus
}
#endif

#endif
