/* Inside of the nn folder: what a model holds from trace to trace, and the paths of what it names. */
#ifndef NT_NN_MODEL_H
#define NT_NN_MODEL_H

#include "nn/nn.h"

enum { NT__MAX_PATH = 256, NT__MAX_SCOPES = 32 };

/* What a path stands for in the trace under way. */
typedef struct nt__use {
    nt_tensor value;
    nt_tensor next; /* of a state that was set; else zero */
    bool declared;
    bool reached; /* a parameter: by a loss that was differentiated */
    nt_site declared_at, set_at;
} nt__use;

/* Leaves of one kind, with what they are in the trace under way. */
typedef struct nt__leaves {
    nt__leaf *items;
    nt__use *uses; /* beside items */
    size_t count, capacity, use_capacity;
    nt__map by_path;      /* one more than the place */
    bool has_more;        /* train_step was traced: */
    size_t forward_count; /* so many are those of forward, the others its own */
} nt__leaves;

/* What layers compute in. Not set: in the type of what they are given. */
typedef struct nt__policy {
    bool is_set;
    nt_dtype dtype;
} nt__policy;

/* A name that draws random numbers. */
typedef struct nt__draw {
    const char *path;
    uint32_t drawn; /* how often in this trace */
    nt_site site;
} nt__draw;

struct nt_model {
    nt__arena arena;
    nt__model_roles roles;
    nt__leaves parameters, states;
    bool learning, training;
    bool ended; /* the hook that has it returned */

    struct {
        nt__draw *items;
        size_t count, capacity;
        nt__map by_path; /* one more than the place among them */
    } draws;             /* of all traces so far */
    size_t known;        /* of them before this trace */
    nt_tensor root;      /* the key that all keys of this trace are made of; zero: none was asked for yet */
    nt_tensor keys;      /* u32[known, 2] */
    bool seeded;         /* a trace asked for one */

    char path[NT__MAX_PATH]; /* the scopes, each with its dot */
    size_t scope_ends[NT__MAX_SCOPES];
    nt_site scope_sites[NT__MAX_SCOPES]; /* where each was entered */
    int scopes;
    nt__policy policy;                   /* of the layers at this place */
    nt__policy outer;                    /* outside of every NT_COMPUTE */
    bool computed;                       /* a policy was in force in this trace, somewhere */
    nt__policy policies[NT__MAX_SCOPES]; /* around each NT_COMPUTE that was entered */
    nt_site policy_sites[NT__MAX_SCOPES];
    int computes;
    int reuses; /* NT_REUSE around the call: a path may be declared again */
    nt_site reuse_site;
};

/* Puts a name after the scopes, for the time that a call looks at model->path; *length is for nt__path_restore. False
 * after keeping an error. */
bool nt__path_extend(nt_model *m, nt_site site, const char *what, const char *name, size_t *length);
void nt__path_restore(nt_model *m, size_t length);
nt__hash nt__path_hash(const char *path);

/* Whether the hook that has the model is under way: it may be kept in a variable and given to a layer in another one.
 * False after keeping the error. `path` is what is asked for, `what` the call. */
bool nt__model_open(const nt_model *m, const char *path, const char *what, nt_site site);

/* The place of a path; the count when there is none. */
size_t nt__leaves_find(const nt__leaves *leaves, const char *path);
/* What a leaf is in this trace, its path looked up and in the first trace added; `kind` is the call in messages. A
 * failed tensor when it was declared already, has another type, or is new in a later trace. */
nt_tensor nt__declare(nt_model *m, nt__leaves *leaves, const nt__leaf *leaf, int role, const char *kind);

/* ---- mixed precision (precision.c) ------------------------------------------------------------------------------ */

void nt__policy_begin(nt_model *model);
/* The trace's error where an NT_COMPUTE is still open. */
void nt__policy_end(const nt_model *model);

/* ---- random numbers (random.c) ---------------------------------------------------------------------------------- */

/* Notes that a name draws; false after keeping the error that it did so already in this trace. `what` is the call. */
bool nt__draw_name(nt_model *m, const char *what, const char *name, nt_site site);
/* The key of a name that was noted. */
nt_tensor nt__draw_key(nt_model *m, const char *name, nt_site site);

#endif
