/* Losses: outputs and targets to a scalar.
 */
#ifndef NITRO_LOSSES_H
#define NITRO_LOSSES_H

#include "nitro/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All of them: what is given must be tensors of this trace, numbers must lie in the ranges that are named here, and the
 * error of anything else is kept for the place of the call, with its name and that of the argument.
 *
 * The ranges of tensors are checked on the host, if it has their numbers: of a field of the batch, also one that was
 * reshaped, converted, turned, stretched or joined with others, in all splits when a run is made ("loss.c:12 in loss:
 * split 'train', field 'y', row 0: 255 is not in 0..1"), of what a source reads batch by batch; of a DEVICE field when
 * a run is made, when it is set and when a schedule gives it a value; of constants at the call. A nan is in no range.
 * The sum of probabilities is checked only of a field whose numbers stay in their order, as they do in a reshape.
 * What the program computes, as field / 255, is not checked: only the device knows it, and a loss of it is as wrong as
 * it is.
 *
 * Of the losses of all samples (of mse and the like: of all elements) one number, or none. */
typedef enum nt_reduction { NT_MEAN, NT_SUM, NT_NONE } nt_reduction;

/* ---- classes ---------------------------------------------------------------------------------------------------- */

typedef struct nt_cross_entropy_options {
    /* Fraction s in 0 <= s < 1 spread evenly over all classes, for finite logits: one floating scalar for all samples,
     * as a DEVICE field, or NT_TENSOR(0.1); a bare number does not compile. None when not given. */
    nt_tensor label_smoothing;
    /* [classes], of the logits' type, finite and from 0: what each class counts; ones when not given. What counts 0
     * costs nothing, also at a logit of minus infinity. The mean of integer labels is divided by the sum of the weights
     * of the labels that are not ignored, that of floating targets by the number of samples whatever the weights are,
     * so one-hot targets have another mean than the labels that they stand for. */
    nt_tensor class_weights;
    bool ignores;    /* samples with the label `ignored` cost nothing and have no gradient, as padding; also if their
                        logits are infinite or nan */
    int64_t ignored; /* any integer that the labels' type has, within 2^53; only with .ignores = true */
    nt_reduction reduction; /* over all samples. The mean of integer labels divides by what counts, and is 0 if
                               nothing does */
} nt_cross_entropy_options;
/* -log softmax(logits)[label]: logits [..., classes], integer labels [...]; or -sum(target log softmax(logits)) for
 * floating targets of the logits' shape, probabilities in 0..1 whose sum along the last axis is 1 within 0.01; a class
 * of target 0 costs nothing even at a logit of minus infinity. With smoothing s the target is (1 - s) at the label plus
 * s / classes everywhere (Szegedy et al. 2016); weights multiply each class. A label outside 0..classes-1 that is not
 * the ignored one is an error that the host finds before the batch is used if the labels are a field of the batch,
 * also one that was reshaped or converted; if they are computed, as a part of a field, the loss of the sample is
 * nan, at which training stops. */
#define nt_cross_entropy(logits, targets, ...) \
    nt_cross_entropy_at(logits, targets, (nt_cross_entropy_options){__VA_ARGS__}, NT_SITE)
nt_tensor nt_cross_entropy_at(nt_tensor logits, nt_tensor targets, nt_cross_entropy_options options, nt_site site);

typedef struct nt_binary_cross_entropy_options {
    double positive_weight; /* p, of the targets' side of 1: above 0; 0 stands for 1 */
    nt_reduction reduction;
} nt_binary_cross_entropy_options;
/* -(p t log(sigmoid(z)) + (1 - t) log(1 - sigmoid(z))) of logits z and targets t in 0..1, of one shape and floating
 * type, without overflow. */
#define nt_binary_cross_entropy(logits, targets, ...) \
    nt_binary_cross_entropy_at(logits, targets, (nt_binary_cross_entropy_options){__VA_ARGS__}, NT_SITE)
nt_tensor nt_binary_cross_entropy_at(nt_tensor logits, nt_tensor targets, nt_binary_cross_entropy_options options,
                                     nt_site site);

typedef struct nt_hinge_options {
    double margin; /* above 0; 0 stands for 1 */
    bool squared;
    nt_reduction reduction;
} nt_hinge_options;
/* max(0, margin - t s) of scores s and targets t of -1 or 1, of one shape and floating type; squared if asked. */
#define nt_hinge(scores, targets, ...) nt_hinge_at(scores, targets, (nt_hinge_options){__VA_ARGS__}, NT_SITE)
/* The sum over all other classes j of max(0, margin - s[label] + s[j]), divided by the number of classes: scores
 * [..., classes], integer labels [...]. Labels that are no classes are what they are to nt_cross_entropy. */
#define nt_hinge_classes(scores, labels, ...) \
    nt_hinge_classes_at(scores, labels, (nt_hinge_options){__VA_ARGS__}, NT_SITE)
nt_tensor nt_hinge_at(nt_tensor scores, nt_tensor targets, nt_hinge_options options, nt_site site);
nt_tensor nt_hinge_classes_at(nt_tensor scores, nt_tensor labels, nt_hinge_options options, nt_site site);

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

/* Prediction and target have one shape and one floating type: nothing is broadcast. */
typedef struct nt_loss_options {
    nt_reduction reduction;
} nt_loss_options;
/* d d and |d| of the difference d. Gradient of |d|: 0 at 0. */
#define nt_mse(prediction, target, ...) nt_mse_at(prediction, target, (nt_loss_options){__VA_ARGS__}, NT_SITE)
#define nt_mae(prediction, target, ...) nt_mae_at(prediction, target, (nt_loss_options){__VA_ARGS__}, NT_SITE)
typedef struct nt_huber_options {
    nt_reduction reduction;
    double delta; /* above 0; 0 stands for 1 */
} nt_huber_options;
/* d d / 2 if |d| is at most delta, else delta (|d| - delta / 2) (Huber 1964). Divided by delta it is smooth L1. */
#define nt_huber(prediction, target, ...) nt_huber_at(prediction, target, (nt_huber_options){__VA_ARGS__}, NT_SITE)
/* t (log t - q) of log-probabilities q and probabilities t in 0..1, 0 if t is 0. With two axes or more the last one
 * is that of the classes, along which the sum of t is 1 within 0.01. The sum over the classes of a sample is the
 * Kullback-Leibler divergence; the mean divides by all elements. */
#define nt_kl_divergence(log_prediction, target, ...) \
    nt_kl_divergence_at(log_prediction, target, (nt_loss_options){__VA_ARGS__}, NT_SITE)

nt_tensor nt_mse_at(nt_tensor prediction, nt_tensor target, nt_loss_options options, nt_site site);
nt_tensor nt_mae_at(nt_tensor prediction, nt_tensor target, nt_loss_options options, nt_site site);
nt_tensor nt_huber_at(nt_tensor prediction, nt_tensor target, nt_huber_options options, nt_site site);
nt_tensor nt_kl_divergence_at(nt_tensor log_prediction, nt_tensor target, nt_loss_options options, nt_site site);

/* ---- vectors ---------------------------------------------------------------------------------------------------- */

/* 1 - a.b / max(|a| |b|, 1e-8) along the last axis of two tensors of one shape and floating type. */
#define nt_cosine_loss(a, b, ...) nt_cosine_loss_at(a, b, (nt_loss_options){__VA_ARGS__}, NT_SITE)
nt_tensor nt_cosine_loss_at(nt_tensor a, nt_tensor b, nt_loss_options options, nt_site site);
/* For pairs of vectors a, b [n, depth]: each is to find its own among all n by a.b / (|a| |b| temperature). Of each
 * pair the mean of its two cross entropies, over a's and over b's (van den Oord et al. 2018, Radford et al. 2021). The
 * temperature is a C number above 0 or a floating scalar above 0, as a DEVICE field. */
#define nt_info_nce(a, b, temperature, ...) \
    nt_info_nce_at(a, b, NT_TENSOR(temperature), (nt_loss_options){__VA_ARGS__}, NT_SITE)
nt_tensor nt_info_nce_at(nt_tensor a, nt_tensor b, nt_tensor temperature, nt_loss_options options, nt_site site);

/* ---- samples that count differently ----------------------------------------------------------------------------- */

/* For a loss whose samples count differently, as tokens that are not padding: `return nt_weighted_loss(sum, count);`.
 * `sum` is a floating scalar, `count` a scalar of any numeric type or a C number, at least 0. The value is sum / count.
 * Where the count is 0 it is 0 with a gradient of 0, whatever the sum is; if a count that is computed is negative or
 * nan it is nan. What training makes of it: the sums of a step's micro-batches are divided by their counts together, so
 * with any accum a step is that of all its samples in one batch, which a mean of means is not; the loss of a step, that
 * of an epoch and val_loss are such quotients too. A step that counts nothing has the loss 0; an epoch or a validation
 * in which nothing counted has no mean and reports nan, by which checkpoints are not ranked: that is an error. The
 * count is not differentiated.
 *
 * It must be what the loss hook returns, so further terms go into the sum, and the sum is divided by the count: a term
 * that is itself a sum over the samples is added as it is, one that does not depend on how many count, as a penalty of
 * the parameters, times the count: nt_weighted_loss(nt_add(sum, nt_mul(penalty, count)), count), with a count of the
 * sum's type (nt_convert). Added without the count it would weigh accum times as much, and less the more samples count.
 *
 * A sample of weight 0 that costs nan or infinity makes the sum nan when it is multiplied, for 0 * nan is nan: leave it
 * out with nt_where(nt_greater(w, 0), nt_mul(w, each), 0), and so that the gradient has none either, take what `each`
 * is made of, as logits, with nt_where first. */
#define nt_weighted_loss(sum, count) nt_weighted_loss_at(sum, NT_TENSOR(count), NT_SITE)
nt_tensor nt_weighted_loss_at(nt_tensor sum, nt_tensor count, nt_site site);

#ifdef __cplusplus
}
#endif

#endif
