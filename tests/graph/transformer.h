/* A transformer written with operations, and its gradient program with the parameters flat, as a run makes it: a trace
 * of the size that people train. For the test of how traces grow and for the bench that times one.
 */
#ifndef NT_TESTS_GRAPH_TRANSFORMER_H
#define NT_TESTS_GRAPH_TRANSFORMER_H

#include <math.h>

#include "graph/emit.h"
#include "optim/optim.h"

typedef struct transformer {
    int layers;
    int64_t batch, length, width, heads;
} transformer;

/* The last axis to mean 0 and variance 1, then scaled and shifted (Ba et al. 2016). */
static inline nt_tensor transformer_norm(nt_model *m, const char *name, nt_tensor x) {
    nt_shape width = nt_dims(nt_dim(x, -1));
    nt_tensor centered = nt_sub(x, nt_mean(x, -1, NT_KEEP)), y = x;
    nt_tensor variance = nt_mean(nt_square(centered), -1, NT_KEEP);
    NT_SCOPE(m, "%s", name) {
        nt_tensor scale = nt_parameter(m, "scale", width, .init = nt_ones()), shift = nt_parameter(m, "shift", width);
        y = nt_add(nt_mul(nt_mul(centered, nt_rsqrt(nt_add(variance, 1e-5))), scale), shift);
    }
    return y;
}

/* [batch, length, width] as [batch, heads, length, width / heads]. */
static inline nt_tensor transformer_heads(const transformer *t, nt_tensor x) {
    return nt_transpose(nt_reshape(x, t->batch, t->length, t->heads, t->width / t->heads), 0, 2, 1, 3);
}

/* Scaled dot products of queries and keys, of which a place sees those up to itself (Vaswani et al. 2017). */
static inline nt_tensor transformer_attention(const transformer *t, nt_model *m, nt_tensor x) {
    nt_tensor queries = transformer_heads(t, nt_dense(m, "queries", x, t->width));
    nt_tensor keys = transformer_heads(t, nt_dense(m, "keys", x, t->width));
    nt_tensor values = transformer_heads(t, nt_dense(m, "values", x, t->width));
    nt_tensor scores =
        nt_mul(nt_matmul(queries, nt_transpose(keys, 0, 1, 3, 2)), 1 / sqrt((double)t->width / (double)t->heads));
    nt_shape square = nt_dims(t->length, t->length);
    nt_tensor seen = nt_greater_equal(nt_iota(NT_I32, square, 0), nt_iota(NT_I32, square, 1));
    nt_tensor mixed = nt_matmul(nt_softmax(nt_where(seen, scores, -1e9)), values);
    return nt_dense(m, "output", nt_reshape(nt_transpose(mixed, 0, 2, 1, 3), t->batch, t->length, t->width), t->width);
}

/* x logistic(1.702 x): Hendrycks and Gimpel 2016. */
static inline nt_tensor transformer_gelu(nt_tensor x) {
    return nt_mul(x, nt_logistic(nt_mul(x, 1.702)));
}

static inline nt_tensor transformer_layer(const transformer *t, nt_model *m, nt_tensor x) {
    x = nt_add(x, transformer_attention(t, m, transformer_norm(m, "before_attention", x)));
    nt_tensor wide = nt_dense(m, "wide", transformer_norm(m, "before_wide", x), 4 * t->width);
    return nt_add(x, nt_dense(m, "narrow", transformer_gelu(wide), t->width));
}

static inline nt_tensor transformer_loss(const transformer *t, nt_model *m) {
    nt_tensor x = nt__input(0, 0, "x", (nt__type){NT_F32, nt_dims(t->batch, t->length, t->width)});
    for (int i = 0; i < t->layers; i++) {
        NT_SCOPE(m, "layer%d", i) {
            x = transformer_layer(t, m, x);
        }
    }
    return nt_mean(nt_square(transformer_norm(m, "last", x)));
}

/* ---- the gradient program --------------------------------------------------------------------------------------- */

/* What the first trace learns. */
typedef struct transformer_parameters {
    nt_model *model;
    nt__layout layout;
} transformer_parameters;

static inline void transformer_forget(transformer_parameters *p) {
    nt__layout_free(&p->layout);
    nt__model_free(p->model);
}

/* transformer_forget frees it, also after a failure. */
static inline nt_status transformer_learn(const transformer *t, transformer_parameters *out) {
    *out = (transformer_parameters){.model = nt__model_new((nt__model_roles){.parameter = 2})};
    nt__graph *graph = out->model ? nt__trace_begin() : NULL;
    if (!graph) return NT_OUT_OF_MEMORY;
    nt__model_begin(out->model, true, NULL);
    transformer_loss(t, out->model);
    nt_status status = nt__trace_status(graph);
    nt__trace_end(graph);
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(out->model, &count);
    return status == NT_OK ? nt__layout_build(leaves, count, NULL, &out->layout) : status;
}

/* How much a trace made. */
typedef struct transformer_size {
    size_t nodes, bytes; /* bytes: of the trace's memory that its nodes take */
    size_t lines, text;
} transformer_size;

/* Traces, differentiates and prints the loss and the flat gradient. */
static inline nt_status transformer_program(const transformer *t, const transformer_parameters *p,
                                            transformer_size *out) {
    const nt__layout *layout = &p->layout;
    nt_tensor *leaves = nt__alloc(layout->row_count, sizeof *leaves);
    nt_tensor *gradients = nt__alloc(layout->row_count, sizeof *gradients);
    nt__graph *graph = leaves && gradients ? nt__trace_begin() : NULL;
    nt_status status = NT_OUT_OF_MEMORY;
    if (graph) {
        nt_tensor flat = nt__input(1, 0, "parameters", nt__group_type(&layout->groups[0]));
        for (size_t i = 0; i < layout->row_count; i++) leaves[i] = nt__layout_leaf(&layout->rows[i], flat);
        nt__model_begin(p->model, true, leaves);
        nt_tensor loss = transformer_loss(t, p->model);
        nt__gradient(loss, leaves, layout->row_count, gradients, NULL);
        nt__result results[] = {{"loss", loss, {0}}, {"gradient", nt__layout_gather(layout, 0, gradients), {0}}};
        nt__printed printed;
        status = nt__print("transformer", results, 2, &printed);
        if (status == NT_OK) {
            *out = (transformer_size){graph->node_count, nt__arena_bytes(&graph->arena), printed.line_count,
                                      printed.text.length};
            nt__printed_free(&printed);
        }
        nt__trace_end(graph);
    }
    nt__free(gradients);
    nt__free(leaves);
    return status;
}

#endif
