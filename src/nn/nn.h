/* Models and batches during a trace, and the initial values of parameters.
 * Not here: how parameters lie in flat buffers (optim), what a run does with them.
 */
#ifndef NT_NN_NN_H
#define NT_NN_NN_H

#include "base/random.h"
#include "graph/graph.h"
#include "nitro/layers.h"
#include "nitro/losses.h"

/* ---- arguments of layers and losses (checks.c) ------------------------------------------------------------------ */

/* Whether an argument that may be left out is integers of this shape, as nt__tensor_given. */
bool nt__option_of_integers(nt_tensor x, nt_shape wanted, nt_site site, const char *what, const char *argument);
/* Whether what every layer takes is given. */
bool nt__layer_given(const nt_model *m, const char *name, nt_tensor x, nt_site site, const char *what);

/* ---- models ----------------------------------------------------------------------------------------------------- */

/* A parameter or a layer state as its first trace declared it. */
typedef struct nt__leaf {
    const char *path;
    nt__type type;
    nt_init init;
    nt_site site;
} nt__leaf;

/* Roles of the inputs that a model makes. */
typedef struct nt__model_roles {
    int parameter; /* index: the parameter. In the first trace only: later ones are told what each is */
    int state;     /* index: the state */
    int seed;      /* u32[2], nt__model_seed */
} nt__model_roles;

/* A model that learns its parameters and states: in the first trace each new path becomes one. */
nt_model *nt__model_new(nt__model_roles roles);
void nt__model_free(nt_model *model);
const nt__leaf *nt__model_leaves(const nt_model *model, size_t *count); /* the parameters */
/* Starts another trace, of a model that trains or one that is evaluated, in which parameter i is `values[i]`; a path
 * that there is not is now an error. NULL: parameters and states are learned (the first trace). */
void nt__model_begin(nt_model *model, bool training, const nt_tensor *values);

/* Ends what nt__model_begin started. Errors of the trace: a scope that is still open; in an evaluation a parameter that
 * the first trace declared and this one did not. */
void nt__model_end(nt_model *model);

/* What layers compute in, in all traces from the next on; NT_F32: in the type of what they are given. */
void nt__model_compute(nt_model *model, nt_dtype dtype);
/* What forward returned as the loss gets it: in f32 where a part of it was computed in 16 bits. */
nt_tensor nt__model_outputs(const nt_model *model, nt_tensor outputs);
/* The type that a layer takes x in. */
nt_dtype nt__compute_dtype_of(const nt_model *m, nt_tensor x);
/* The type that a layer declares the parameters for x in. */
nt_dtype nt__parameter_dtype(const nt_model *m, nt_tensor x);
/* nt_parameter without the conversion to what layers compute in. */
nt_tensor nt__parameter(nt_model *m, const char *name, nt_shape shape, nt_parameter_options options, nt_site site);

/* ---- what a model carries from micro-batch to micro-batch ------------------------------------------------------- */

/* The states: those of layers, and where a trace that trains draws random numbers the counter of the micro-batches that
 * did, which has the path NT__DRAWS_PATH (no name of a user's has a space in it). */
const nt__leaf *nt__model_states(const nt_model *model, size_t *count);
#define NT__DRAWS_PATH "micro-batches drawn"
/* What state i is in the trace that ended and what it becomes. False when it stays what it is. */
bool nt__model_update(const nt_model *model, size_t index, nt_tensor *value, nt_tensor *next);

/* Whether a trace has drawn: its program may have the input `seed`. */
bool nt__model_is_seeded(const nt_model *model);
/* What that input is for a run's seed. */
nt__key nt__model_seed(uint64_t seed);

/* ---- initial values --------------------------------------------------------------------------------------------- */

/* Begins another hook of the same trace: each path may be declared once more, and is the same parameter. */
void nt__model_restart(nt_model *model);
/* A leaf of this trace as it is now, and another tensor in its place. */
nt_tensor nt__model_value(const nt_model *model, size_t leaf);
void nt__model_set_value(nt_model *model, size_t leaf, nt_tensor value);
/* Notes that a loss of this trace was differentiated by the leaf and depends on it. */
void nt__model_reach(nt_model *model, size_t leaf);
bool nt__model_reached(const nt_model *model, size_t leaf);

/* Whether a leaf has an initial value that can be drawn; false after keeping the error. `what` is the call. */
bool nt__init_possible(const nt__leaf *leaf, const char *what);
/* Draws the initial value of a leaf into `out` (its type's bytes) under the key of its path. Draws have the resolution
 * of f32 whatever the type; an orthogonal one is orthogonal to the resolution of its type. */
nt_status nt__leaf_draw(const nt__leaf *leaf, nt__key seed, void *out);
/* Fills `out` with count f32 values of `init`, which is not orthogonal, for a parameter of `shape` under `key`. */
void nt__init_draw(nt_init init, nt_shape shape, nt__key key, size_t count, float *out);
/* The orthogonal one (orthogonal.c). */
nt_status nt__orthogonal_draw(double gain, nt__type type, nt__key key, void *out);

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
    int64_t rows;               /* only so many rows are real: fields are cut to them when they are read. 0: all */
    nt_tensor *inputs;          /* one for each field, cut; zero: not read yet */
    char taken[NT__FIELD_NAME]; /* the name that the field without one took; "": none yet */
};

#endif
