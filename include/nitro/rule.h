/* A rule with its numbers, chains of rules, and rules of one's own.
 */
#ifndef NITRO_RULE_H
#define NITRO_RULE_H

#include <stdbool.h>
#include <stddef.h>

#include "nitro/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NT_RULE_MAX_NUMBERS = 8, NT_RULE_MAX_STATES = 6, NT_CHAIN_MAX = 6 };

/* A rule with its numbers. */
typedef struct nt_rule_link {
    const struct nt_rule_kind *kind;
    double numbers[NT_RULE_MAX_NUMBERS];
} nt_rule_link;

/* A rule, or a chain of them. The zero value is the default rule, RAdam. */
typedef struct nt_rule {
    size_t count; /* of links; a chain of more than NT_CHAIN_MAX is refused when a run is made */
    nt_rule_link links[NT_CHAIN_MAX];
} nt_rule;

/* "RAdam", "Adam", "SGD"; of a chain "ClipGrad, Adam". Lives until the thread's next call. */
const char *nt_rule_name(nt_rule rule);

/* ---- chains ----------------------------------------------------------------------------------------------------- */

/* What a rule subtracts is the gradient of the next one; all see x as it was: nt_chain(nt_clip_grad(), nt_adam()).
 * Refused when a run is made: two rules with the same input (also: two that use the learning rate), none that uses the
 * rate, nt_decay elsewhere than at the end, nt_frozen, more than NT_CHAIN_MAX rules. */
#define nt_chain(...) \
    nt_chain_of((const nt_rule[]){__VA_ARGS__}, sizeof((const nt_rule[]){__VA_ARGS__}) / sizeof(nt_rule))
nt_rule nt_chain_of(const nt_rule *rules, size_t count);

/* ---- a rule of one's own ---------------------------------------------------------------------------------------- */

typedef enum nt_range {
    NT_ABOVE_0,
    NT_NOT_NEGATIVE,
    NT_BETWEEN_0_AND_1, /* neither of the two */
    NT_FROM_0_BELOW_1,  /* 0 too, as a schedule may give it */
    NT_YES_OR_NO,       /* 0 or 1 */
} nt_range;

/* A number of a rule. Its name is what a schedule calls it: opt.NAME. */
typedef struct nt_rule_number {
    const char *name;
    nt_range range;
    bool is_input; /* an input of the program; else a constant of it, which cannot be scheduled */
} nt_rule_number;

typedef enum nt_start { NT_START_AT_VALUE, NT_START_AT_NUMBER, NT_START_AT_PARAMETERS } nt_start;

/* An array of a group: a parameter as the model declared it, and its place in the group's flat tensor. */
typedef struct nt_rule_array {
    const char *path;
    nt_shape shape;
    int64_t offset, length; /* elements */
} nt_rule_array;

/* A part of a rule's state, for each group: one element for each parameter, a scalar, or as many elements as `length`
 * says. Of f64 for parameters of f64, else of f32. */
typedef struct nt_rule_state {
    const char *name;
    bool is_scalar;
    bool is_count; /* a scalar of i32 */
    /* Elements, from the group's arrays and the rule's numbers; NULL: one for each parameter. */
    int64_t (*length)(const nt_rule_array *arrays, size_t count, const double *numbers);
    nt_start start; /* with NT_START_AT_NUMBER `number` is the place among the rule's numbers */
    int number;
    double value;
} nt_rule_state;

/* What an update sees: tensors of a group, flat, in f64 for parameters of f64, else in f32. */
typedef struct nt_update {
    nt_dtype dtype;
    nt_tensor x, g, eta;      /* eta: a scalar */
    const nt_tensor *numbers; /* one for each number: a scalar, or the C number that a constant is */
    const double *constants;  /* the same as C numbers; nan for inputs */
    const nt_tensor *state;
    nt_tensor *next_state;       /* to be set, each in the type of its state */
    const nt_rule_array *arrays; /* of the group, in the order of their places */
    size_t array_count;
    const struct nt__bundle *bundles; /* the same for nitro's own rules */
    size_t bundle_count;
    const nt_tensor *places;  /* for nt_update_sums and nt_update_spread; NULL if the kind does not use arrays */
    const nt_tensor *decayed; /* bool: which elements decay; NULL: all */
    const nt_tensor *anchor;  /* what they decay to; NULL: zero */
} nt_update;

/* A static struct: it must live as long as the runs. */
typedef struct nt_rule_kind {
    const char *name;
    nt_rule_number numbers[NT_RULE_MAX_NUMBERS]; /* ends with the first that has no name, as the states do */
    nt_rule_state states[NT_RULE_MAX_STATES];
    nt_tensor (*update)(nt_update *u); /* traced; returns dx */
    /* Traced; the parameters that evaluations, predictions and saved files have, from x, the numbers and the state
     * (g and eta are not set). NULL: the parameters themselves. A rule with it is the last of its chain. */
    nt_tensor (*evaluated)(const nt_update *u);
    bool uses_rate;
    bool uses_decayed; /* the update looks at `decayed`, which the no_decay hook says; else it is NULL */
    bool uses_arrays;  /* the update calls nt_update_sums or nt_update_spread */
} nt_rule_kind;

/* Of each array of the group the sum over its elements of the flat tensor x: f64 [array_count]. And the other way: a
 * number for each array, [array_count] of any type, at each of its elements. Neither makes the program grow with the
 * number of arrays. */
nt_tensor nt_update_sums(const nt_update *u, nt_tensor x);
nt_tensor nt_update_spread(const nt_update *u, nt_tensor values);

/* The rule with numbers, in the order of its kind: nt_rule_of(&kind, 0.9, 1e-8). */
#define nt_rule_of(kind, ...) nt_rule_with(kind, (const double[NT_RULE_MAX_NUMBERS]){__VA_ARGS__})
nt_rule nt_rule_with(const nt_rule_kind *kind, const double *numbers);

#ifdef __cplusplus
}
#endif

#endif
