/* What operations are written with: checks of operands, making nodes, and the rules of the table.
 */
#ifndef NT_GRAPH_EMIT_H
#define NT_GRAPH_EMIT_H

#include "graph/node.h"

/* ---- checks: false (NULL) after keeping an error; `what` names the operation in its message --------------------- */

bool nt__trace_under_way(nt_site site, const char *what);
/* Whether the current trace has no error yet. */
bool nt__trace_right(void);
/* The node of a tensor of the current trace. C numbers have none. */
nt__node *nt__node_of(nt_tensor x, nt_site site, const char *what);
/* Known element type, right shape, bytes that can be counted. */
bool nt__type_possible(nt_site site, const char *what, nt__type type);
bool nt__type_floating(nt_site site, const char *what, nt__type type);
/* Floating or integer. */
bool nt__type_numeric(nt_site site, const char *what, nt__type type);
bool nt__type_integer(nt_site site, const char *what, nt__type type);
/* Floating, or integer of 32 or 64 bits: what sums and products of many elements may be formed in. */
bool nt__type_adds_up(nt_site site, const char *what, nt__type type);
/* An axis of a tensor of `type`, counted from the end when negative, as an index from 0. */
bool nt__axis(nt_site site, const char *what, nt__type type, int64_t axis, int *out);

/* The axes of a reduction, sorted: negative ones resolved, NT_KEEP taken out (`keep` says whether it was there), all of
 * them when none is left. */
bool nt__axes(nt_site site, const char *what, nt__type type, nt_shape *axes, bool *keep);

/* Numbers and arrays of the user's that become constants (captured.c): false after keeping the error that they are
 * data.
 */
bool nt__take_number(const char *what, double value, nt_site site);
bool nt__take_constant(const nt_array *array, const char *expression, nt_site site);

/* ---- making nodes: a failed tensor after keeping an error ------------------------------------------------------- */

nt_tensor nt__tensor_of(const nt__node *node);
/* A copy of the node and of its list of operands, at the end of a region. NULL after keeping an error. */
nt__node *nt__add_node(nt__region *region, const nt__node *node);
bool nt__is_number(nt_tensor x);
/* A constant of `type` whose every element is `value`. */
nt_tensor nt__filled(const char *what, nt__type type, double value, nt_site site);
/* The same with a number of the user's, which counts as data that a program captures. */
nt_tensor nt__given_number(const char *what, nt__type type, double value, nt_site site);
/* bf16 and f16 in f32, other types as they are: what a sum is formed in. */
nt_tensor nt__widened(nt_tensor x, nt_site site);
/* The scalar that a reduction begins with: `value`, or the number of the type that is nearest to an infinity. */
nt_tensor nt__identity(nt_dtype dtype, double value, nt_site site);
/* A new node of two operands, broadcast against each other; `what` is the operation in the user's words. */
nt_tensor nt__binary(const char *what, nt__op op, nt_tensor a, nt_tensor b, nt_site site,
                     const nt__attributes *attributes);
/* A new node of one operand, which may be a number. */
nt_tensor nt__unary(nt__op op, nt_tensor x, nt_site site);
/* x with `updates` added at their indices along an axis: the reverse of nt_take_along. Indices are i32 or i64
 * (index.c). */
nt_tensor nt__put_along(nt_tensor x, nt_tensor indices, nt_tensor updates, int axis, nt_site site);
/* A node: a new one, or the one that it equals, which keeps its place in the user's source (share.c). Inputs are always
 * new. `type` matters to rows whose shape rule is `given`. */
nt_tensor nt__emit(nt__op op, nt_site site, nt__type type, int count, const nt_tensor *operands,
                   const nt__attributes *attributes);

/* The general contraction: batch axes of a, of b, contracting axes of a, of b. The axes of the result: batch, then the
 * free ones of a, then of b. Sizes and types must agree. */
nt_tensor nt__dot(nt_tensor a, nt_tensor b, const nt_shape lists[4], nt_site site);
/* Whether it is a product contracted over axis 0 of both factors: the sum over rows of their outer products. */
bool nt__dot_sums_rows(const nt__node *node);
/* Such a product of stacked factors, whose first two axes count the rows together. */
nt_tensor nt__dot_of_rows(nt_tensor a, nt_tensor b, nt_site site);

/* ---- equal nodes are one (share.c) ------------------------------------------------------------------------------ */

/* All that tells nodes of a scope apart, and the scope. */
nt__hash nt__node_hash(const nt__node *node, uint32_t scope);
/* Starts a scope of the current trace: nodes made from now on are shared with each other only. Gives the scope to go
 * back to, whose earlier nodes are shared again then. */
uint32_t nt__share_begin(void);
void nt__share_end(uint32_t before);
/* Of a constant: the bytes that its elements are given in. */
size_t nt__element_bytes(const nt__node *node);

/* ---- the table's rules ------------------------------------------------------------------------------------------ */

#define ROW(id, stablehlo, shape_rule, gradient_rule, print_rule, rows_rule, names) \
    bool nt__shape_##shape_rule(nt__node *node);                                    \
    void nt__gradient_##gradient_rule(const nt__backward *b, nt_tensor *out);       \
    void nt__print_##print_rule(const nt__node *node, nt__text *text);              \
    nt__row_axis nt__track_##rows_rule(const nt__node *node, const nt__row_axis *operands);
#include "graph/operations.def"
#undef ROW

/* Adds "tensor<128x784xf32>". */
void nt__type_print(nt__type type, nt__text *text);

#endif
