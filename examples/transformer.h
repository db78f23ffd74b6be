/* The model of transformer.c, which trains it, and sample.c, which writes with it: a transformer that tells the next
 * character from those before it, with rotary positions and norms before its parts.
 */
#ifndef EXAMPLES_TRANSFORMER_H
#define EXAMPLES_TRANSFORMER_H

#include <nitro.h>

/* Fields of both. */
#define TRANSFORMER_FIELDS(GRAPH_CONST)                               \
    GRAPH_CONST(int, layers, 4, "blocks of attention and perceptron") \
    GRAPH_CONST(int, heads, 4, "of each attention")                   \
    GRAPH_CONST(int, width, 128, "features of a character; the perceptrons have four times as many")

/* Characters [samples, length] to their features [samples, length, width]. */
static inline nt_tensor embed(nt_model *m, nt_tensor text, int width) {
    return nt_embedding(m, "character", text, 256, width, .init = nt_normal(0.02));
}

/* For all positions at once, or with a cache and the position that x begins at. */
static inline nt_tensor block(nt_model *m, nt_tensor x, int heads, nt_attention_cache *cache, nt_tensor position) {
    nt_tensor y = nt_rms_norm(m, "attention_norm", x);
    y = nt_multi_head_attention(m, "attention", y, heads, .causal = true, .rotary = true, .no_bias = true,
                                .cache = cache, .position = position);
    x = nt_add(x, y);
    y = nt_rms_norm(m, "hidden_norm", x);
    y = nt_gelu_tanh(nt_dense(m, "hidden", y, 4 * nt_dim(x, -1), .no_bias = true));
    return nt_add(x, nt_dense(m, "narrow", y, nt_dim(x, -1), .no_bias = true));
}

/* Features to logits of the next character [samples, length, 256]. */
static inline nt_tensor tell(nt_model *m, nt_tensor x) {
    return nt_dense(m, "next", nt_rms_norm(m, "norm", x), 256, .no_bias = true);
}

#endif
