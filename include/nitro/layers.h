/* Layers: parameters and operations put together.
 *
 * A layer takes the model, a name and a tensor; its parameters are NAME.weight, NAME.bias and so on, of the tensor's
 * type. Axis 0 is the sample and the last axis the channels (features). Options are written by name, and the zero value
 * of each is its default: nt_dense(m, "q", x, 64, .no_bias = true).
 */
#ifndef NITRO_LAYERS_H
#define NITRO_LAYERS_H

#include "nitro/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- dense layers, embeddings, dropout -------------------------------------------------------------------------- */

typedef struct nt_dense_options {
    bool no_bias;
    nt_init weight_init; /* nt_glorot_uniform() */
    nt_init bias_init;   /* zeros */
} nt_dense_options;
/* x W + b: [..., n] to [..., units]. Parameters NAME.weight [n, units] and NAME.bias [units], of x's type. */
#define nt_dense(m, name, x, units, ...) nt_dense_at(m, name, x, units, (nt_dense_options){__VA_ARGS__}, NT_SITE)
nt_tensor nt_dense_at(nt_model *m, const char *name, nt_tensor x, int64_t units, nt_dense_options options,
                      nt_site site);

/* In training each element of x is 0 with probability `rate` and divided by 1 - rate otherwise, so that its mean stays
 * (Srivastava et al. 2014). In evaluation and prediction it is x. The rate is in 0 <= rate < 1: a C number, or
 * a DEVICE field, which is checked when a run is made, when it is set and when a schedule gives it a value. Of a
 * computed one, which only the program knows, below 0 counts as 0 and from 1 on all elements are 0. The name is that of
 * a random operation (nt_random_key). */
#define nt_dropout(m, name, x, rate) nt_dropout_at(m, name, x, NT_TENSOR(rate), NT_SITE)
nt_tensor nt_dropout_at(nt_model *m, const char *name, nt_tensor x, nt_tensor rate, nt_site site);

typedef struct nt_embedding_options {
    nt_dtype dtype; /* f32 */
    nt_init init;   /* nt_normal(1) */
} nt_embedding_options;
/* A vector of `depth` for each integer: [...] to [..., depth], rows of the parameter NAME.weight [rows, depth].
 * Integers outside 0..rows-1 in a field of the batch are found on the host before a batch is used. Those that the
 * program computes cannot be: below 0 they read the first row, else the last. */
#define nt_embedding(m, name, integers, rows, depth, ...) \
    nt_embedding_at(m, name, integers, rows, depth, (nt_embedding_options){__VA_ARGS__}, NT_SITE)
nt_tensor nt_embedding_at(nt_model *m, const char *name, nt_tensor integers, int64_t rows, int64_t depth,
                          nt_embedding_options options, nt_site site);

/* ---- convolution ------------------------------------------------------------------------------------------------ */

/* What nt_conv2d and nt_conv2d_transposed take, and what a layer has. */
typedef struct nt_conv_layer_options {
    const char *written;            /* as in nt_conv_options */
    int64_t stride[NT_CONV_AXES];   /* 1 */
    bool same;                      /* ceil(size / stride) results */
    int64_t pad[NT_CONV_AXES][2];   /* or zeros before and after */
    int64_t dilation[NT_CONV_AXES]; /* 1 */
    int64_t groups;                 /* 1 */
    bool no_bias;
    nt_init weight_init; /* nt_glorot_uniform() */
    nt_init bias_init;   /* zeros */
} nt_conv_layer_options;
/* nt_conv_layer(m, "conv", x, 32, nt_dims(3, 3), .same = true): a convolution with a kernel of that size, of 1 to 3
 * spatial axes, [n, h, w, in] to [n, h', w', channels], and a bias for each channel. Parameters NAME.weight
 * [kh, kw, in / groups, channels] and NAME.bias [channels]. */
#define nt_conv_layer(m, name, x, channels, kernel, ...) \
    nt_conv_layer_at(m, name, x, channels, kernel, NT_OPTIONS_(nt_conv_layer_options, __VA_ARGS__), NT_SITE)
nt_tensor nt_conv_layer_at(nt_model *m, const char *name, nt_tensor x, int64_t channels, nt_shape size,
                           nt_conv_layer_options options, nt_site site);

typedef struct nt_conv_transposed_layer_options {
    const char *written;                  /* as in nt_conv_options */
    int64_t stride[NT_CONV_AXES];         /* 1 */
    int64_t pad[NT_CONV_AXES][2];         /* what is cut off the result */
    int64_t output_padding[NT_CONV_AXES]; /* 0 */
    int64_t dilation[NT_CONV_AXES];       /* 1 */
    int64_t groups;                       /* 1 */
    bool no_bias;
    nt_init weight_init; /* nt_glorot_uniform() */
    nt_init bias_init;   /* zeros */
} nt_conv_transposed_layer_options;
/* The same with nt_conv2d_transposed: what the gradient of a convolution does. */
#define nt_conv_transposed_layer(m, name, x, channels, kernel, ...) \
    nt_conv_transposed_layer_at(m, name, x, channels, kernel,       \
                                NT_OPTIONS_(nt_conv_transposed_layer_options, __VA_ARGS__), NT_SITE)
nt_tensor nt_conv_transposed_layer_at(nt_model *m, const char *name, nt_tensor x, int64_t channels, nt_shape size,
                                      nt_conv_transposed_layer_options options, nt_site site);

/* ---- normalisation ---------------------------------------------------------------------------------------------- */

/* All subtract a mean and divide by sqrt(variance + epsilon), with the variance that divides by the number, computed in
 * f32 at least; then they multiply by NAME.scale (ones) and add NAME.shift (zeros). An epsilon is above 0. */
typedef struct nt_norm_options {
    int axes; /* how many of the last axes: 1. Fewer than x has, whose first is the sample, unless x is a vector */
    double epsilon; /* 1e-5; RMS norm 1e-6 */
    bool no_scale;
    bool no_shift;
} nt_norm_options;
/* Over the last axes of each sample (Ba et al. 2016). Parameters of the shape of these axes. */
#define nt_layer_norm(m, name, x, ...) nt_layer_norm_at(m, name, x, (nt_norm_options){__VA_ARGS__}, NT_SITE)
/* x / sqrt(mean of squares + epsilon) over the last axes, times NAME.scale (Zhang and Sennrich 2019). */
#define nt_rms_norm(m, name, x, ...) nt_rms_norm_at(m, name, x, (nt_norm_options){__VA_ARGS__}, NT_SITE)
typedef struct nt_group_norm_options {
    double epsilon; /* 1e-5 */
    bool no_scale;
    bool no_shift;
} nt_group_norm_options;
/* Over all positions and the channels of one group, for each sample and group (Wu and He 2018): x [n, ..., channels],
 * parameters [channels]. As many groups as channels is instance norm. */
#define nt_group_norm(m, name, x, groups, ...) \
    nt_group_norm_at(m, name, x, groups, (nt_group_norm_options){__VA_ARGS__}, NT_SITE)

nt_tensor nt_layer_norm_at(nt_model *m, const char *name, nt_tensor x, nt_norm_options options, nt_site site);
nt_tensor nt_rms_norm_at(nt_model *m, const char *name, nt_tensor x, nt_norm_options options, nt_site site);
nt_tensor nt_group_norm_at(nt_model *m, const char *name, nt_tensor x, int64_t groups, nt_group_norm_options options,
                           nt_site site);

typedef struct nt_batch_norm_options {
    double epsilon; /* 1e-5 */
    double rate;    /* running = (1 - rate) running + rate of this micro-batch: 0.1 */
    bool biased;    /* the running variance divides by the number, else by the number less 1 */
    bool no_scale;
    bool no_shift;
} nt_batch_norm_options;
/* In training over samples and positions of the micro-batch, for each channel; in evaluation and prediction with the
 * running mean and variance that training left (Ioffe and Szegedy 2015). x [n, ..., channels], parameters [channels],
 * layer states NAME.mean (zeros) and NAME.variance (ones), f32 at least, which move with each micro-batch. */
#define nt_batch_norm(m, name, x, ...) nt_batch_norm_at(m, name, x, (nt_batch_norm_options){__VA_ARGS__}, NT_SITE)
nt_tensor nt_batch_norm_at(nt_model *m, const char *name, nt_tensor x, nt_batch_norm_options options, nt_site site);

#ifdef __cplusplus
}
#endif

#endif
