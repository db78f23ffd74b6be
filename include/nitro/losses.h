/* Losses: outputs and targets to a scalar.
 */
#ifndef NITRO_LOSSES_H
#define NITRO_LOSSES_H

#include "nitro/ops.h"

typedef enum nt_reduction { NT_MEAN, NT_SUM, NT_NONE } nt_reduction;

typedef struct nt_cross_entropy_options {
    /* Fraction s in [0, 1) spread evenly over all classes, for finite logits: a Device field or NT_TENSOR(0.1). None
     * when not given. */
    nt_tensor label_smoothing;
    nt_reduction reduction; /* over all samples; mean */
} nt_cross_entropy_options;
/* -log softmax(logits)[label]: logits [..., classes], integer labels [...]. With smoothing s the target is (1 - s) at
 * the label plus s / classes everywhere (Szegedy et al. 2016). Labels outside 0..classes-1 are found on the host before
 * a batch is used. */
#define nt_cross_entropy(logits, labels, ...) \
    nt_cross_entropy_at(logits, labels, (nt_cross_entropy_options){__VA_ARGS__}, NT_SITE)
nt_tensor nt_cross_entropy_at(nt_tensor logits, nt_tensor labels, nt_cross_entropy_options options, nt_site site);

/* For a loss whose samples count differently, as tokens that are not padding: `return nt_weighted_loss(sum, count);`.
 * `sum` is a floating scalar, `count` a scalar of any numeric type or a C number, at least 0. The value is sum / count,
 * 0 where the count is 0. What training makes of it: the sums of a step's micro-batches are divided by their counts
 * together, so with any accum a step is that of all its samples in one batch, which a mean of means is not; the loss of
 * a step, that of an epoch and val_loss are such quotients too. It must be what the loss hook returns: terms are added
 * to the sum. The count is not differentiated. */
#define nt_weighted_loss(sum, count) nt_weighted_loss_at(sum, NT_TENSOR(count), NT_SITE)
nt_tensor nt_weighted_loss_at(nt_tensor sum, nt_tensor count, nt_site site);

#endif
