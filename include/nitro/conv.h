/* Convolution and pooling. The notes at the top of nitro/ops.h hold.
 */
#ifndef NITRO_CONV_H
#define NITRO_CONV_H

#include "nitro/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- convolution and pooling ------------------------------------------------------------------------------------ */

/* Options with an entry for each spatial axis. A list of fewer entries than axes goes on with its last one: .stride =
 * {2} is a stride of 2 along all axes, .pad = {{1, 1}} one zero at each end of all, .pad = {{1, 1}, {0, 0}} some along
 * the first axis alone. A list of none is the default; an entry for an axis that there is not is an error. The macros
 * count the entries of `pad` and `output_padding` in their own text; the functions nt_conv_at, ... take these as they
 * stand unless `written` has that text. A 0 in one of the other lists is the entry before it. */
enum { NT_CONV_AXES = 3 };
/* The text of the options, after their macros are expanded. */
#define NT_WRITTEN_(...) "" #__VA_ARGS__
#define NT_WRITTEN(...) NT_WRITTEN_(__VA_ARGS__)
#define NT_OPTIONS_(type, ...) ((type){.written = NT_WRITTEN(__VA_ARGS__), __VA_ARGS__})

typedef struct nt_conv_options {
    const char *written;            /* the macros': these options as text; NULL is none */
    int64_t stride[NT_CONV_AXES];   /* 1 */
    bool same;                      /* padding with zeros for ceil(size / stride) results, the odd one after */
    int64_t pad[NT_CONV_AXES][2];   /* or zeros before and after; negative ones cut off. None: only whole windows */
    int64_t dilation[NT_CONV_AXES]; /* of the kernel: 1 */
    int64_t input_dilation[NT_CONV_AXES]; /* zeros between the elements of x: 1 */
    int64_t groups;                       /* 1; as many as channels: each channel by itself */
    bool channels_first; /* x [n, c, h, w], kernel [out, in / groups, kh, kw]; slower on some engines */
} nt_conv_options;
/* nt_conv2d(x, kernel, .stride = {2}, .same = true): x [n, h, w, in], kernel [kh, kw, in / groups, out], result [n, h',
 * w', out] with h' = floor((h + padding - dilation (kh - 1) - 1) / stride) + 1:
 * y[n, p, q, o] = sum over i, j, c of x[n, stride p + dilation i - before, ..., c] kernel[i, j, c, o] (the kernel is
 * not flipped). Floating types. In one dimension x is [n, l, in], in three [n, d, h, w, in]. Gradient: convolutions of
 * c with the kernel, and of x with c. */
#define nt_conv1d(x, kernel, ...) nt_conv_at(x, kernel, 1, NT_OPTIONS_(nt_conv_options, __VA_ARGS__), NT_SITE)
#define nt_conv2d(x, kernel, ...) nt_conv_at(x, kernel, 2, NT_OPTIONS_(nt_conv_options, __VA_ARGS__), NT_SITE)
#define nt_conv3d(x, kernel, ...) nt_conv_at(x, kernel, 3, NT_OPTIONS_(nt_conv_options, __VA_ARGS__), NT_SITE)

typedef struct nt_conv_transposed_options {
    const char *written;
    int64_t stride[NT_CONV_AXES];         /* 1 */
    int64_t pad[NT_CONV_AXES][2];         /* what is cut off the result before and after */
    int64_t output_padding[NT_CONV_AXES]; /* 0; more of the result after, less than the stride */
    int64_t dilation[NT_CONV_AXES];       /* 1 */
    int64_t groups;                       /* 1 */
    bool channels_first;
} nt_conv_transposed_options;
/* What the gradient of a convolution does to c, with the layouts of nt_conv2d (the kernel is flipped): the result has
 * h' = (h - 1) stride - padding + dilation (kh - 1) + output_padding + 1. Gradient: convolutions. */
#define nt_conv1d_transposed(x, kernel, ...) \
    nt_conv_transposed_at(x, kernel, 1, NT_OPTIONS_(nt_conv_transposed_options, __VA_ARGS__), NT_SITE)
#define nt_conv2d_transposed(x, kernel, ...) \
    nt_conv_transposed_at(x, kernel, 2, NT_OPTIONS_(nt_conv_transposed_options, __VA_ARGS__), NT_SITE)
#define nt_conv3d_transposed(x, kernel, ...) \
    nt_conv_transposed_at(x, kernel, 3, NT_OPTIONS_(nt_conv_transposed_options, __VA_ARGS__), NT_SITE)

nt_tensor nt_conv_at(nt_tensor x, nt_tensor kernel, int axes, nt_conv_options options, nt_site site);
nt_tensor nt_conv_transposed_at(nt_tensor x, nt_tensor kernel, int axes, nt_conv_transposed_options options,
                                nt_site site);

typedef struct nt_pool_options {
    const char *written;
    int64_t stride[NT_CONV_AXES]; /* the window: side by side */
    bool same;                    /* padding for ceil(size / stride) results, the odd one after */
    int64_t pad[NT_CONV_AXES][2]; /* or before and after, less than the window. None: only whole windows */
    bool count_padding;           /* avg_pool: divide by the whole window, not by what of it is no padding */
    bool channels_first;          /* x [n, c, h, w] and not [n, h, w, c] */
} nt_pool_options;
/* nt_max_pool(x, nt_dims(2, 2), .stride = {2}): largest element of each window; floating types, 1 to 3 spatial axes,
 * [n, h, w, c] to [n, h', w', c] with h' = floor((h + padding - window) / stride) + 1. Padding is -infinity; a nan is
 * the result. Gradient: c to the first of the largest elements of the window, in row-major order, never to padding. */
#define nt_max_pool(x, window, ...) nt_max_pool_at(x, window, NT_OPTIONS_(nt_pool_options, __VA_ARGS__), NT_SITE)
/* Mean of each window, without its padding. Gradient: c / number to each element. */
#define nt_avg_pool(x, window, ...) nt_avg_pool_at(x, window, NT_OPTIONS_(nt_pool_options, __VA_ARGS__), NT_SITE)
/* The same with one window over all positions, of 1 to 3 axes: [n, h, w, c] to [n, c]. */
#define nt_global_max_pool(x) nt_global_max_pool_at(x, NT_SITE)
#define nt_global_avg_pool(x) nt_global_avg_pool_at(x, NT_SITE)

nt_tensor nt_max_pool_at(nt_tensor x, nt_shape window, nt_pool_options options, nt_site site);
nt_tensor nt_avg_pool_at(nt_tensor x, nt_shape window, nt_pool_options options, nt_site site);
nt_tensor nt_global_max_pool_at(nt_tensor x, nt_site site);
nt_tensor nt_global_avg_pool_at(nt_tensor x, nt_site site);

#ifdef __cplusplus
}
#endif

#endif
