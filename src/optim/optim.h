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

/* Arrays of one shape that lie in a group at equal distances, as those of a model's equal layers do: what a rule does
 * to each of them it does to all at once. Bundles that repeat together share a stretch: `repeats` periods, one after
 * the other, each of which holds one array of every such bundle. */
typedef struct nt__bundle {
    nt_shape shape;        /* of one array */
    int64_t length;        /* its elements */
    int64_t repeats;       /* how many arrays; 1: the stretch is this array */
    int64_t start, period; /* of the stretch in the flat tensor, and of a period */
    int64_t offset;        /* of an array in its period */
} nt__bundle;

typedef struct nt__group {
    const char *name;
    nt_dtype dtype;
    int64_t length;
    const nt_rule_array *arrays;
    size_t array_count;
    const nt__bundle *bundles; /* these arrays, in the order of the flat tensor within a period */
    size_t bundle_count;
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
/* The type of the flat buffer of its gradients: zeros after the last element fill it up to a length that
 * nt__global_norm adds fastest. */
nt__type nt__gradients_type(const nt__group *group);

/* A leaf as a tensor: its slice of the group's flat tensor, in its shape. */
nt_tensor nt__layout_leaf(const nt__row *row, nt_tensor flat);
/* A group's flat gradients from one tensor a leaf, one after the other. */
nt_tensor nt__layout_gather(const nt__layout *layout, int group, const nt_tensor *leaves);
/* Flat gradients without what fills them up. */
nt_tensor nt__gradients_of(const nt__group *group, nt_tensor flat);

/* Tables by which an update sums over each array: inputs of the program, and what they hold. They have one axis, of
 * i32, for a group of 2^31 elements or more of i64. */
enum {
    NT__PLACE_ROWS,     /* the array of each row of elements; one past the last array: the row holds several */
    NT__PLACE_ELEMENTS, /* the elements of such rows, and those after the last whole row */
    NT__PLACE_ARRAYS,   /* the arrays of these elements */
    NT__PLACE_TABLES
};
nt__type nt__place_type(const nt__group *group, int table);
void nt__place_fill(const nt__group *group, int table, void *out);

/* ---- rules ------------------------------------------------------------------------------------------------------ */

/* States and inputs of a whole chain are counted through: those of its first rule, then of the next. */
enum {
    NT__MAX_STATES = NT_CHAIN_MAX * NT_RULE_MAX_STATES,
    NT__MAX_INPUTS = NT_CHAIN_MAX * NT_RULE_MAX_NUMBERS,
};

/* The rule with the default filled in, also in the places of a chain. */
nt_rule nt__rule_resolve(nt_rule rule);
/* Error that names rule, number, value and range, or what is wrong with a kind or a chain. */
nt_status nt__rule_check(const nt_rule *rule);
bool nt__rule_is_frozen(const nt_rule *rule);
bool nt__rule_has_decay(const nt_rule *rule);
/* Whether a rule of the chain spares what the no_decay hook says. */
bool nt__rule_uses_decayed(const nt_rule *rule);
/* Whether evaluations have other parameters than the chain trains. */
bool nt__rule_averages(const nt_rule *rule);
/* The chain with a moving average of the parameters after it, which evaluations have. */
nt_rule nt__rule_with_ema(nt_rule rule, double decay);
/* Whether a rule of the chain needs the tables of places. */
bool nt__rule_uses_arrays(const nt_rule *rule);
/* Whether one of its chain is multiplied by the learning rate. */
bool nt__rule_uses_rate(const nt_rule *rule);
/* Whether a rule of the chain has a number of this name; *is_input says which sort. */
bool nt__rule_has_number(const nt_rule *rule, const char *name, bool *is_input);
/* Whether numbers of this name may have the value; where one may not, *range says what it has to be: "above 0". */
bool nt__rule_takes(const nt_rule *rule, const char *name, double value, const char **range);
/* The first rule of the chain that has this number, NULL when none has. */
const char *nt__rule_owner(const nt_rule *rule, const char *name);
/* "Momentum(rho 0.9)"; a chain has " > " between its rules. `constants` leaves out the inputs, which are no part of the
 * program. */
void nt__rule_print(const nt_rule *rule, bool constants, nt__text *out);

/* A state of a chain with the rule that it belongs to; false beyond the last. */
typedef struct nt__state {
    const nt_rule_state *state;
    const nt_rule_link *link;
} nt__state;
bool nt__rule_state(const nt_rule *rule, size_t index, nt__state *out);
size_t nt__rule_state_count(const nt_rule *rule);
nt__type nt__state_type(const nt__state *state, const nt__group *group);
/* The first value of every element of a state that does not start at the parameters. */
double nt__state_start(const nt__state *state);

/* An input of a chain beside the rate; false beyond the last. */
typedef struct nt__named_input {
    const char *name;
    double value;
} nt__named_input;
bool nt__rule_input(const nt_rule *rule, size_t index, nt__named_input *out);
size_t nt__rule_input_count(const nt_rule *rule);
/* The type of an input, and of all arithmetic of an update. */
nt_dtype nt__arithmetic_type(nt_dtype dtype);

/* What an update of a group needs; `inputs` and `states` count through the chain. */
typedef struct nt__step {
    nt_tensor x, g, eta;
    const nt_tensor *inputs, *states;
    nt_tensor *next_states;
    const nt_tensor *decayed, *anchor; /* NULL: all, zero */
    const nt_tensor *places;           /* NT__PLACE_TABLES; NULL where no rule uses arrays */
    const nt__group *group;
} nt__step;
/* One update of a group: x - dx, in x's type. */
nt_tensor nt__rule_apply(const nt_rule *rule, const nt__step *step);
/* The parameters to evaluate a group with, in x's type, of a chain that averages; x, inputs and states are those after
 * a step. */
nt_tensor nt__rule_evaluated(const nt_rule *rule, const nt__step *step);

/* The L2 norm of all groups' flat gradients together, an f64 scalar right to f32 precision for 10^8 elements of f32. */
nt_tensor nt__global_norm(const nt_tensor *gradients, size_t count);
/* Scales the gradients so that their common L2 norm, which is `norm`, is at most `threshold`: g threshold / max(norm,
 * threshold). A threshold of 0 or less emits nothing. */
void nt__clip_by_global_norm(nt_tensor *gradients, size_t count, nt_tensor norm, double threshold);

/* ---- schedules -------------------------------------------------------------------------------------------------- */

struct nt_schedules {
    nt__arena arena;          /* the names */
    nt_named_schedule *items; /* with an entry of no name after the last; NULL when there is none */
    size_t count, capacity;
    nt_status status; /* of the first entry that could not be taken */
};
void nt__schedules_free(nt_schedules *schedules);
/* Adds "NAME=cosine:1e-3:0"; nt__schedule_spelling says what there is. */
nt_status nt__schedule_parse(const char *text, nt_schedules *out);

/* The value for `step`, counted from 1; as the function gives it, so it may be nan. */
double nt__schedule_value(const nt_schedule *schedule, int64_t step, int64_t total);
/* Error unless it is one, with numbers that make sense. */
nt_status nt__schedule_check(const nt_schedule *schedule);
/* False: one value for all steps. */
bool nt__schedule_varies(const nt_schedule *schedule);
/* Whether a function of the user's is part of it, which is called once for each step and not before. */
bool nt__schedule_has_function(const nt_schedule *schedule);
/* A copy whose points and parts live in the arena; false when memory is short. */
bool nt__schedule_copy(nt__arena *arena, const nt_schedule *from, nt_schedule *out);
/* How a kind is written after NAME=, "linear:FROM:TO", and what it is; NULL beyond the last. */
const char *nt__schedule_spelling(size_t index, const char **meaning);
/* "cosine(0.001 0)" */
void nt__schedule_print(const nt_schedule *schedule, nt__text *out);

#endif
