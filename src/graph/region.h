/* Inside of the graph folder: operations that run bodies. A body is a region: a scope of nodes that computes with its
 * parameters alone. A value of an outer region that a body uses becomes one more operand and a parameter that stands
 * for it, so that marking, differentiation and copying see all that an operation depends on in its operands.
 * Not here: what the operations mean (loop.c, cond.c, recompute.c), how they are printed (print_control.c).
 */
#ifndef NT_GRAPH_REGION_H
#define NT_GRAPH_REGION_H

#include "graph/emit.h"

/* What a parameter is in each run of its region. `attributes.index` is the operand it comes from, or, supplied, its
 * place among those supplied. */
typedef enum nt__parameter_kind {
    NT__VALUE,    /* the operand */
    NT__SLICE,    /* of the operand, along axis 0, at the iteration */
    NT__CARRY,    /* the operand at first, then the result of equal number of the run before */
    NT__INDEX,    /* the iteration, i32 */
    NT__SUPPLIED, /* what a copy of the region is given */
} nt__parameter_kind;

enum { NT__MAX_REGIONS = 2 };
/* Bodies in bodies. What works on them calls itself for each; with this many a thread with a stack of 512 KiB has room
 * for that and for the functions of the user's that make them. */
enum { NT__DEEPEST_BODY = 32 };

/* Of an operation with several results, which nt__OP_result nodes stand for, and with regions, if any.
 *
 *              operands                    regions              results
 *   scan       carries, sequences, ...     body                 carries, then stacked values
 *   while      carries, ...                condition, body      carries
 *   cond       which, ...                  true, false          those of the branch taken
 *   remat      any                         body                 those of the body
 *   custom     inputs, ...                 function, backward   those of the function
 *   barrier    any                         none                 the operands
 */
struct nt__control {
    nt__op op;
    nt_site site;
    nt__node *owner; /* NULL while the regions are being traced */
    nt__nodes operands, results;
    nt__region *regions[NT__MAX_REGIONS];
    int region_count;
    size_t carries; /* the first parameters, operands and results */
    int64_t length; /* scan: iterations */
    bool backward;  /* scan: the last slice comes first */
};

/* ---- what a region can see -------------------------------------------------------------------------------------- */

/* False after keeping the error that the node is known elsewhere only. */
bool nt__region_sees(const nt__region *region, const nt__node *node, nt_site site, const char *what);
/* What stands for a node that the region sees in it: the node itself, a parameter, or a copy. NULL after keeping an
 * error. */
nt__node *nt__region_image(nt__region *region, nt__node *node);
/* What a parameter stands for or cuts slices of; NULL: nothing. */
const nt__node *nt__region_original(const nt__node *node);
/* False in a branch, or in a loop that may have no iteration. */
bool nt__region_always_runs(const nt__region *region);

/* ---- making operations ------------------------------------------------------------------------------------------ */

/* An operation of the current region. NULL after keeping an error. */
nt__control *nt__control_begin(nt__op op, nt_site site);
/* Adds an operand. NULL after keeping an error. */
nt__node *nt__control_operand(nt__control *control, nt_tensor x);
/* A further region of the operation, which becomes the current one. `forward`: the region whose gradient it is, or
 * NULL. */
nt__region *nt__region_enter(nt__control *control, const nt__region *forward);
/* Makes the outer region the current one again. */
void nt__region_leave(const nt__region *region);
/* Another parameter; `index` as in nt__parameter_kind. */
nt__node *nt__region_parameter(nt__region *region, nt__parameter_kind kind, size_t index, nt__type type);
/* An operand and the parameter that comes from it. */
nt__node *nt__region_argument(nt__region *region, nt__parameter_kind kind, nt_tensor x);
/* Another result of the current region. False after keeping an error. */
bool nt__region_return(nt__region *region, nt_tensor x);
/* Zeros at the end of a region. */
nt_tensor nt__region_zeros(nt__region *region, nt__type type, nt_site site);
/* The type of so many of them, stacked by a scan. False after keeping an error. */
bool nt__stack_type(nt__type *type, int64_t length, nt_site site);
/* Adds the operation and its results to the trace. False after keeping an error. */
bool nt__control_end(nt__control *control);
/* A result of an operation that was ended; a failed tensor when it was not. */
nt_tensor nt__control_result(const nt__control *control, size_t index);
/* Of a loop: the region that makes the carries of the next iteration. Of others: the last one. */
nt__region *nt__control_body(const nt__control *control);

/* ---- copies ----------------------------------------------------------------------------------------------------- */

/* Copies the nodes of `from` to the end of `to`. map[i] is the copy of the node at position i; those of the parameters
 * are given. False after keeping an error. */
bool nt__region_copy(const nt__region *from, nt__region *to, nt__node **map);
/* A map for nt__region_copy. NULL after keeping an error. */
nt__node **nt__region_map(const nt__region *region);

/* ---- reverse mode within a region (gradient.c) ------------------------------------------------------------------ */

typedef struct nt__seed {
    const nt__node *node;
    nt_tensor cotangent;
} nt__seed;

/* Vector-Jacobian products through the nodes from `first` to `last`, which are of one region: of nodes with given
 * cotangents, with respect to `count` nodes. out[i] is a zero tensor where nothing arrives. The rules run in the
 * current region. False after keeping an error. */
bool nt__sweep(const nt__node *first, const nt__node *last, const nt__seed *seeds, size_t seed_count,
               nt__node *const *inputs, size_t count, nt_tensor *out);
/* Whether something arrived. */
bool nt__has_cotangent(nt_tensor x);

#endif
