/* Random numbers in traced code, on explicit keys.
 *
 * A key is a tensor u32[2]. What is drawn is a function of the key and the shape alone: the same key draws the same
 * numbers, so each draw needs a key of its own, which nt_random_fold makes. The generator is threefry2x32 with 20
 * rounds (Salmon et al. 2011); element i in row-major order is made of block (0, i). No draw has a gradient in its key.
 */
#ifndef NITRO_RANDOM_H
#define NITRO_RANDOM_H

#include "nitro/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Another key: the block (0, data) of `key`; data is a u32 scalar tensor or a C number. Folding does not commute. */
#define nt_random_fold(key, data) nt_random_fold_at(key, NT_TENSOR(data), NT_SITE)
/* u8, u16, u32 or u64 of `shape`: u32 are both words of each block joined by exclusive or, narrower ones the low bits
 * of that, u64 the words one after the other, the first one high. */
#define nt_random_bits(key, dtype, shape) nt_random_bits_at(key, dtype, shape, NT_SITE)
/* f32 or f64 in [0, 1), with 23 or 52 random bits. */
#define nt_random_uniform(key, dtype, shape) nt_random_uniform_at(key, dtype, shape, NT_SITE)
/* f32 or f64, mean 0, variance 1: sqrt(2) erf_inv(u), u uniform in (-1, 1). */
#define nt_random_normal(key, dtype, shape) nt_random_normal_at(key, dtype, shape, NT_SITE)
/* The same with only values in (-cut, cut). */
#define nt_random_truncated_normal(key, dtype, shape, cut) \
    nt_random_truncated_normal_at(key, dtype, shape, cut, NT_SITE)
/* bool: true with probability p in 0..1, a C number or an f32 tensor that broadcasts with `shape`: a DEVICE field or a
 * field of the batch is checked (nitro/losses.h says when), a computed one below 0 counts as 0, above 1 as that. */
#define nt_random_bernoulli(key, p, shape) nt_random_bernoulli_at(key, NT_TENSOR(p), shape, NT_SITE)
/* i32: an index along the last axis of logits [..., classes], f32 or f64, with probability softmax(logits): the largest
 * of the logits plus Gumbel noise. A logit of -infinity is never drawn. */
#define nt_random_categorical(key, logits) nt_random_categorical_at(key, logits, NT_SITE)
/* i32[count]: 0..count-1 in random order, sorted by random words. */
#define nt_random_permutation(key, count) nt_random_permutation_at(key, count, NT_SITE)

nt_tensor nt_random_fold_at(nt_tensor key, nt_tensor data, nt_site site);
nt_tensor nt_random_bits_at(nt_tensor key, nt_dtype dtype, nt_shape shape, nt_site site);
nt_tensor nt_random_uniform_at(nt_tensor key, nt_dtype dtype, nt_shape shape, nt_site site);
nt_tensor nt_random_normal_at(nt_tensor key, nt_dtype dtype, nt_shape shape, nt_site site);
nt_tensor nt_random_truncated_normal_at(nt_tensor key, nt_dtype dtype, nt_shape shape, double cut, nt_site site);
nt_tensor nt_random_bernoulli_at(nt_tensor key, nt_tensor p, nt_shape shape, nt_site site);
nt_tensor nt_random_categorical_at(nt_tensor key, nt_tensor logits, nt_site site);
nt_tensor nt_random_permutation_at(nt_tensor key, int64_t count, nt_site site);

#ifdef __cplusplus
}
#endif

#endif
