/* Models and batches during a trace, and the initial values of parameters.
 * Not here: how parameters lie in flat buffers (optim), what a run does with them.
 */
#ifndef NT_NN_NN_H
#define NT_NN_NN_H

#include "base/random.h"
#include "graph/graph.h"
#include "nitro/metrics.h"
#include "nitro/nn.h"

/* ---- parameters ------------------------------------------------------------------------------------------------- */

/* A parameter as its first trace declared it. */
typedef struct nt__leaf {
    const char *path;
    nt__type type;
    nt_init init;
    nt_site site;
} nt__leaf;

/* A model that learns its leaves: in the first trace each new path becomes an input of role `role`. */
nt_model *nt__model_new(int role);
void nt__model_free(nt_model *model);
const nt__leaf *nt__model_leaves(const nt_model *model, size_t *count);
/* Starts another trace in which leaf i is `values[i]`; a path that is not a leaf is now an error. NULL: leaves are
 * learned (the first trace). */
void nt__model_begin(nt_model *model, const nt_tensor *values);

/* Ends what nt__model_begin started: a scope that is still open is an error of the trace. */
void nt__model_end(nt_model *model);

/* Draws the initial value of a leaf into `out` (its type's bytes) under the key of its path. Draws have the resolution
 * of f32 whatever the type. */
nt_status nt__leaf_draw(const nt__leaf *leaf, nt__key seed, void *out);
/* Fills `out` with count f32 values of `init` for a parameter of `shape` under `key`. */
void nt__init_draw(nt_init init, nt_shape shape, nt__key key, size_t count, float *out);

/* ---- batches ---------------------------------------------------------------------------------------------------- */

typedef struct nt__batch_field {
    const char *name; /* NULL, for one field at most: it takes the first name that is read and that no other one has */
    nt__type type;    /* of a full batch */
} nt__batch_field;

enum { NT__FIELD_NAME = 128 };

/* The micro-batch of a trace: a field becomes an input (role, its index in the list) when a hook first reads it. */
struct nt_batch {
    const nt__batch_field *fields;
    size_t count;
    int role;
    int64_t rows;               /* only so many rows are real: fields are cut to them. 0: all */
    nt_tensor *inputs;          /* one for each field; zero: not read yet */
    char taken[NT__FIELD_NAME]; /* the name that the field without one took; "": none yet */
};

/* ---- metrics of traced hooks (metrics.c) ------------------------------------------------------------------------ */

typedef struct nt__device_metric {
    const char *name;
    nt_combine combine;
    nt_tensor value, count; /* scalars of the trace, or numbers */
    nt_site site;
} nt__device_metric;

/* What one call of a hook reported. Zeroed but for `combined` before the call. */
struct nt_device_metrics {
    bool combined; /* over the batches of a pass (device_metrics); else values of one micro-batch (train_metrics) */
    nt__arena arena;
    nt__device_metric *items;
    size_t count, capacity;
};
void nt__device_metrics_free(nt_device_metrics *metrics);

#endif
