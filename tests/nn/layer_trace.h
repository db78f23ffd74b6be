/* Layers in a trace of their own: what they refuse, and what an allocation that fails leaves. Golden cases of layers
 * are in layer_cases.h. Include after cmocka.
 */
#ifndef NT_TESTS_NN_LAYER_TRACE_H
#define NT_TESTS_NN_LAYER_TRACE_H

#include <string.h>

#include "nn/nn.h"

typedef struct layer_trace {
    nt__graph *graph;
    nt_model *model;
    nt_tensor x; /* f32 */
} layer_trace;

static inline layer_trace layer_trace_begin(nt_shape shape) {
    layer_trace t = {nt__trace_begin(), nt__model_new((nt__model_roles){1, 2, 3}), {0}};
    assert_non_null(t.graph);
    assert_non_null(t.model);
    nt__model_begin(t.model, true, NULL);
    t.x = nt__input(0, 0, "input 0", (nt__type){NT_F32, shape});
    return t;
}

static inline void layer_trace_end(layer_trace *t) {
    nt__trace_end(t->graph);
    nt__model_free(t->model);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

typedef struct layer_refusal {
    void (*call)(const layer_trace *t);
    const char *message; /* after the place */
} layer_refusal;

/* Each call in a trace of its own, with an x of this shape. */
static inline void layers_refuse(nt_shape shape, const layer_refusal *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        layer_trace t = layer_trace_begin(shape);
        rows[i].call(&t);
        assert_int_equal(nt__trace_status(t.graph), NT_INVALID);
        const char *message = nt_error_message(), *place = strstr(message, ": ");
        assert_non_null(place);
        assert_string_equal(place + 2, rows[i].message);
        layer_trace_end(&t);
    }
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static inline nt_status layer_trace_failing(nt__model_roles roles, void (*build)(nt_model *m), size_t failing) {
    nt__memory_fail_at(failing);
    nt__graph *graph = nt__trace_begin();
    nt_model *model = nt__model_new(roles);
    nt_status status = graph && model ? NT_OK : NT_OUT_OF_MEMORY;
    if (status == NT_OK) {
        nt__model_begin(model, true, NULL);
        build(model);
        status = nt__trace_status(graph);
    }
    nt__memory_fail_at(0);
    if (graph) nt__trace_end(graph);
    nt__model_free(model);
    return status;
}

/* Lets each allocation of a trace fail in turn, which is told and leaves nothing; gives the number of the first one
 * that the trace does not reach. */
static inline size_t layer_trace_fail_each(nt__model_roles roles, void (*build)(nt_model *m)) {
    size_t n = 1, before = nt__memory().live;
    for (; layer_trace_failing(roles, build, n) != NT_OK; n++) {
        assert_non_null(strstr(nt_error_message(), "memory"));
        assert_int_equal(nt__memory().live, before);
    }
    assert_int_equal(nt__memory().live, before);
    return n;
}

#endif
