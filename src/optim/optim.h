/* Optimization: the flat layout of the parameters, rules as traced updates, clipping, schedules.
 * Not here: the training loop, device buffers, what a schedule's name means in a run.
 */
#ifndef NT_OPTIM_OPTIM_H
#define NT_OPTIM_OPTIM_H

#include "graph/graph.h"
#include "nitro/optim.h"
#include "nitro/schedule.h"
#include "nn/nn.h"

/* ---- the flat layout: one buffer a group (L1 to L13) ------------------------------------------------------------ */

typedef struct nt__row {
    const char *path;
    nt__type type;
    int group;
    int64_t offset, length; /* elements, inside the group's own buffer */
} nt__row;

typedef struct nt__group {
    const char *name;
    nt_dtype dtype;
    int64_t length;
} nt__group;

/* Rows are in the order of their leaves: rows[i] is leaf i. */
typedef struct nt__layout {
    nt__arena arena;
    nt__row *rows;
    size_t row_count;
    nt__group *groups;
    size_t group_count;
} nt__layout;

/* Lays out the leaves: groups in the order of their first leaf, `default` first; inside a group leaves keep their
 * order. group_names[i] names the group of leaf i; NULL puts all in `default`. An error when there is no leaf, or when
 * a group's leaves differ in element type. */
nt_status nt__layout_build(const nt__leaf *leaves, size_t count, const char *const *group_names, nt__layout *out);
void nt__layout_free(nt__layout *layout);
/* The type of a group's flat buffer. */
nt__type nt__group_type(const nt__group *group);

/* A leaf as a tensor: its slice of the group's flat tensor, in its shape. */
nt_tensor nt__layout_leaf(const nt__row *row, nt_tensor flat);
/* A group's flat tensor from one tensor a leaf: each piece is written into zeros at its place (concatenation is 5 to 10
 * times slower in the engine). */
nt_tensor nt__layout_gather(const nt__layout *layout, int group, const nt_tensor *leaves);

/* ---- rules ------------------------------------------------------------------------------------------------------ */

enum { NT__MAX_STATES = 5 };

/* One array of a rule's state: one element for each parameter, or one scalar; f64 for f64 parameters, else f32. */
typedef struct nt__state {
    const char *name;
    bool scalar;
    bool counts;            /* a scalar i32 */
    int starts_at_constant; /* a scalar's first value is this constant of the rule; -1: `start` */
    double start;
} nt__state;

/* What an update sees: tensors of one group, already flat, in the type it computes in: f64 for f64 parameters, else
 * f32. It sets next_state and returns dx. */
typedef struct nt__update {
    const nt_rule *rule;
    nt_dtype dtype;
    nt_tensor x, g, eta;
    const nt_tensor *state;
    nt_tensor *next_state;
} nt__update;

struct nt_rule_kind {
    const char *name;
    const char *constants[NT_RULE_MAX_CONSTANTS]; /* their names; NULL ends the list */
    int state_count;
    nt__state states[NT__MAX_STATES];
    nt_tensor (*update)(nt__update *u);
};

/* The rule with the default filled in. */
nt_rule nt__rule_resolve(nt_rule rule);
nt__type nt__state_type(const nt__state *state, const nt__group *group);
/* The first value of every element of a state. */
double nt__state_start(const nt__state *state, const nt_rule *rule);
/* One update of a group: x - dx, in x's type. */
nt_tensor nt__rule_apply(const nt_rule *rule, nt_tensor x, nt_tensor g, nt_tensor eta, const nt_tensor *state,
                         nt_tensor *next_state);
/* Error that names the constant, its value and its range unless all lie inside: betas in (0, 1), epsilon above 0. */
nt_status nt__rule_check(const nt_rule *rule);
/* The scalars of a rule that are inputs of the program, one for each group, and may be scheduled; NULL beyond the last.
 * They are the same for every rule: its constants are part of the program (L23, H-29). */
const char *nt__rule_scalar(size_t index);
/* "RAdam(beta1 0.9, beta2 0.999, epsilon 1e-08)" */
void nt__rule_print(const nt_rule *rule, nt__text *out);

/* Scales the gradients of all groups so that their common L2 norm is at most `threshold`: g threshold / max(norm,
 * threshold). A threshold of 0 or less emits nothing (L51 to L53). */
void nt__clip_by_global_norm(nt_tensor *gradients, size_t count, double threshold);

/* ---- schedules -------------------------------------------------------------------------------------------------- */

struct nt_schedules {
    nt__arena arena;          /* the names */
    nt_named_schedule *items; /* with an entry of no name behind the last; NULL when there is none */
    size_t count, capacity;
    nt_status status; /* of the first entry that could not be taken */
};
void nt__schedules_free(nt_schedules *schedules);
/* Adds "NAME=cosine:1e-3:0". */
nt_status nt__schedule_parse(const char *text, nt_schedules *out);

/* The value for `step`, counted from 1; as the function gives it, so it may be nan. */
double nt__schedule_value(const nt_schedule *schedule, int64_t step, int64_t total);
/* Error unless it is one, with numbers that make sense. */
nt_status nt__schedule_check(const nt_schedule *schedule);
/* False: one value for all steps. */
bool nt__schedule_varies(const nt_schedule *schedule);
/* "cosine(0.001 0)" */
void nt__schedule_print(const nt_schedule *schedule, nt__text *out);

#endif
