/* Attention: as an operation on tensors, with rotary positions, and as a layer.
 */
#ifndef NITRO_ATTENTION_H
#define NITRO_ATTENTION_H

#include "nitro/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nt_attention_options {
    /* bool that broadcasts to [batch, heads, queries, keys]: true where a query may see a key. All when not given. Axes
     * are aligned at the last, and each is 1 or of that size: a mask of the keys of each sample, as for padding, is
     * [batch, 1, 1, keys], one that all samples share [queries, keys]. */
    nt_tensor mask;
    bool causal;          /* query i sees keys 0..i + query_offset only */
    int64_t query_offset; /* with a causal one: keys that came before the first query, as in decoding */
    /* Integers [batch]: of each sample only the first so many keys are seen, the others are padding. One below 0 counts
     * as 0, one above the number of keys as that. What keys and values hold that no query sees, by lengths or mask,
     * also infinity or nan, changes no result and no gradient. Those that are hidden from some queries alone, as by
     * `causal`, must be finite: 0 * nan is nan. */
    nt_tensor lengths;
    double scale; /* of the scores, finite: 1 / sqrt(depth) */
} nt_attention_options;
/* softmax(scale q k^T) v (Vaswani et al. 2017): queries [batch, heads, queries, depth], keys [batch, groups, keys,
 * depth], values [batch, groups, keys, width] to [batch, heads, queries, width]. Where there are fewer groups than
 * heads, head h reads group h / (heads / groups) (Ainslie et al. 2023). Floating types; the softmax is computed in f32
 * at least. A query that sees nothing gives 0, and has no gradient. */
#define nt_attention(queries, keys, values, ...) \
    nt_attention_at(queries, keys, values, (nt_attention_options){__VA_ARGS__}, NT_SITE)
nt_tensor nt_attention_at(nt_tensor queries, nt_tensor keys, nt_tensor values, nt_attention_options options,
                          nt_site site);

typedef struct nt_rotary_options {
    double base;        /* above 0: 10000 */
    int64_t offset;     /* of the first position: 0 */
    nt_tensor position; /* an integer scalar, added to the offset: for one that is not known before the program runs */
    bool interleaved;   /* pairs are elements 2i and 2i + 1; else i and i + depth / 2 */
} nt_rotary_options;
/* Turns pair i of x [batch, length, heads, depth] at position p by the angle p base^(-2 i / depth) (Su et al. 2021);
 * depth is even. */
#define nt_rotary(x, ...) nt_rotary_at(x, (nt_rotary_options){__VA_ARGS__}, NT_SITE)
nt_tensor nt_rotary_at(nt_tensor x, nt_rotary_options options, nt_site site);

/* Keys and values of the positions so far, for decoding: each [batch, groups, length, head_size], position p in place p
 * mod length, so one after the length takes the place of the first that is left. It may be the carry of a loop, or
 * what a program returns and the next run of it is given. */
typedef struct nt_attention_cache {
    nt_tensor keys, values;
} nt_attention_cache;
/* Before the first position: zeros. A floating type, all sizes at least 1. */
#define nt_attention_cache_empty(dtype, batch, groups, length, head_size) \
    nt_attention_cache_empty_at(dtype, batch, groups, length, head_size, NT_SITE)
nt_attention_cache nt_attention_cache_empty_at(nt_dtype dtype, int64_t batch, int64_t groups, int64_t length,
                                               int64_t head_size, nt_site site);

typedef struct nt_multi_head_options {
    int64_t groups;    /* heads of keys and values: as many as of queries. Divides them */
    int64_t head_size; /* features of a head: those of x / heads, which then divides them. Even with rotary positions */
    nt_tensor context; /* [batch, keys, features], of x's type: where keys and values come from; x when not given */
    nt_tensor mask;    /* as of nt_attention; keys are the positions of the context, or the places of the cache */
    /* The same. Positions of x or the context from the length on are padding: zeros stand in their place, whatever they
     * hold, before the dense layers, also if they ask as queries. With a cache the lengths count its places, and
     * a position of x whose place is hidden still asks with what it is, as far as that is finite. */
    nt_tensor lengths;
    bool causal;
    bool rotary; /* positions by nt_rotary, of queries and keys */
    /* Decoding: x are the positions from `position`, an integer scalar, on. Their keys and values are written into the
     * cache, which is set to what it is then, and each sees those of its own and of the positions before that the cache
     * still has: with one position in x the last `length`, further ones have taken the places of the first; with
     * several all, and they have to end within the length: only the program knows the position, and if they do not
     * it writes them into the last places, over others, so the result is wrong. As with `causal`, which gives the same
     * for all positions at once. */
    nt_attention_cache *cache;
    nt_tensor position;
    bool no_bias;
    nt_init weight_init; /* nt_glorot_uniform() */
} nt_multi_head_options;
/* Multi-head attention of x [batch, length, features] to [batch, length, features]. Four dense layers: NAME.query and
 * NAME.output with heads * head_size features between them, NAME.key and NAME.value with groups * head_size. */
#define nt_multi_head_attention(m, name, x, heads, ...) \
    nt_multi_head_attention_at(m, name, x, heads, (nt_multi_head_options){__VA_ARGS__}, NT_SITE)
nt_tensor nt_multi_head_attention_at(nt_model *m, const char *name, nt_tensor x, int64_t heads,
                                     nt_multi_head_options options, nt_site site);

#ifdef __cplusplus
}
#endif

#endif
