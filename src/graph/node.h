/* Inside of the graph folder: nodes, the operation table's row, and how operations are made.
 */
#ifndef NT_GRAPH_NODE_H
#define NT_GRAPH_NODE_H

#include "graph/graph.h"

typedef struct nt__node nt__node;
typedef struct nt__region nt__region;
typedef struct nt__control nt__control;

/* What a gradient rule gets: the node as tensors, the cotangent of its value, and the place of the user's call. */
typedef struct nt__backward {
    const nt__node *node;
    nt_tensor value;
    const nt_tensor *operands;
    nt_tensor cotangent;
    const nt_tensor *cotangents; /* of an operation with several results, one for each; zero: nothing has arrived */
    const bool *wanted;          /* one for each operand: does its cotangent matter? */
    nt_site site;
} nt__backward;

/* Where the rows of a batch lie in a value: along one axis, whose index is (outer index * rows + row) * inner + inner
 * index. What no row of the batch is in has none; what is mixed may depend on several rows in each element. */
typedef struct nt__row_axis {
    enum { NT__ROWS_MIXED, NT__ROWS_NONE, NT__ROWS_ALONG } kind;
    int axis;
    int64_t outer, inner;
} nt__row_axis;

/* One row an operation: operations.def. */
#define ROW(id, ...) NT__OP_##id,
typedef enum nt__op {
#include "graph/operations.def"
    NT__OP_COUNT
} nt__op;
#undef ROW

typedef struct nt__operation {
    const char *name; /* in messages */
    const char *text;
    bool (*shape)(nt__node *node);
    void (*gradient)(const nt__backward *backward, nt_tensor *cotangents);
    void (*print)(const nt__node *node, nt__text *text);
    nt__row_axis (*rows)(const nt__node *node, const nt__row_axis *operands);
    const char *lists;
} nt__operation;
extern const nt__operation nt__operations[NT__OP_COUNT];

enum { NT__MAX_OPERANDS = 2 + NT_MAX_RANK };

/* A window that moves over a tensor. Convolutions have an entry for each spatial axis, the others for each axis. */
typedef struct nt__window {
    nt_shape size, stride, low, high; /* low, high: padding before and after */
    nt_shape base_dilation, window_dilation;
    /* conv: what each axis of x, kernel and result is: a spatial axis from 0, or one of nt__channel */
    nt_shape x, kernel, result;
    int64_t groups; /* conv */
    bool reversed;  /* conv: the kernel runs backwards, as its operand does */
} nt__window;
/* Of a kernel: NT__SAMPLE is the axis of the input channels, NT__CHANNEL that of the output channels. */
enum nt__channel { NT__SAMPLE = -1, NT__CHANNEL = -2 };

/* What an operation knows beside its operands. Each is used by the operations named. Nodes that differ in a NUMBER are
 * different; of the others share.c says which tell nodes apart. */
#define NT__ATTRIBUTES(NUMBER, OTHER)                                                                         \
    /* as the row's `lists` names them; dot: batch a, b, contracting a, b */                                  \
    OTHER(nt_shape, lists, [4])                                                                               \
    /* compare: nt__comparison. Reductions, windows, scatter: nt__reducer. iota, concatenate: the axis. sort: \
     * nt_order. region_parameter: nt__parameter_kind. slice: NT__REAL_ROWS, or 0 */                          \
    NUMBER(int, choice)                                                                                       \
    OTHER(const void *, elements, ) /* constant: row-major; the node has a copy */                            \
    NUMBER(bool, splat)             /* constant: one element fills the shape */                               \
    /* sort, top_k: which result of its line the node is, and of how many: elements, i32 indices */           \
    NUMBER(int, result)                                                                                       \
    NUMBER(int, results)                                                                                      \
    OTHER(const char *, name, ) /* input; it has its role and index, too */                                   \
    NUMBER(int, role)           /* input */                                                                   \
    NUMBER(int, index)          /* input. region_parameter, result: which one (region.h) */                   \
    OTHER(const nt__window *,                                                                                 \
          window, )      /* conv, window_sum, window_max, cumulative, window_pick; as long as the trace */    \
    OTHER(bool, alone, ) /* a node of its own, also where there is an equal one */
#define NT__ATTRIBUTE_NUMBER(type, name) type name;
#define NT__ATTRIBUTE_OTHER(type, name, size) type name size;
typedef struct nt__attributes {
    NT__ATTRIBUTES(NT__ATTRIBUTE_NUMBER, NT__ATTRIBUTE_OTHER)
} nt__attributes;

/* A slice that is all of a field of the batch that is real: what is claimed of it, the whole field has. */
enum { NT__REAL_ROWS = 1 };

typedef enum nt__comparison { NT__EQ, NT__NE, NT__LT, NT__LE, NT__GT, NT__GE } nt__comparison;
/* The engine's maximum and minimum are the fastest, but may lose a nan. */
typedef enum nt__reducer {
    NT__ADD,
    NT__MULTIPLY,
    NT__MAXIMUM,
    NT__MAXIMUM_OR_NAN,
    NT__MINIMUM,
    NT__MINIMUM_OR_NAN,
    NT__EITHER,
    NT__BOTH,
    NT__SECOND,
    NT__LOG_SUM_EXP,  /* log(exp(a) + exp(b)); floating */
    NT__FIRST_MAXIMUM /* of select_and_scatter: does the first stay chosen? A nan is the largest. */
} nt__reducer;

struct nt__node {
    nt__op op;
    uint32_t id; /* position in the order of making; operands come first */
    nt__type type;
    int operand_count;
    nt__node **operands; /* all of the node's region */
    nt__attributes attributes;
    nt_site site;
    nt__region *region; /* in which it is computed */
    nt__node *previous, *next;
    uint32_t position;        /* among the nodes of its region, in the order of making */
    bool invariant;           /* the same in each iteration of the loop whose body it is in */
    nt__control *control;     /* of an operation with several results or with regions; NULL */
    struct nt__image *images; /* what stands for it in other regions (region.c) */
    nt__node *kept;           /* the result that hands it out of its region; NULL */
    bool repeated;            /* an equal expression was made since, at `again` */
    nt_site again;
};

/* Nodes in the arena of the trace. */
typedef struct nt__nodes {
    nt__node **items;
    size_t count, capacity;
} nt__nodes;

/* A scope of nodes: the program itself, or a body that an operation runs (region.h). */
struct nt__region {
    nt__region *outer;         /* NULL: the program itself */
    nt__control *control;      /* of the operation that runs it */
    const nt__region *forward; /* whose values it may use: its gradient is computed here; NULL */
    nt__node *first, *last;
    uint32_t count;
    int depth; /* of the program itself 0 */
    nt__nodes parameters, results;
    nt__node *index;        /* of a loop: the parameter that is the iteration */
    uint32_t scope_outside; /* in which equal nodes are one */
};

/* What has become constants of a trace. Elements count once for each line that brings them in. */
typedef struct nt__captured {
    size_t array_bytes;
    struct nt__captured_line {
        nt_site site;
        size_t elements;
    } * lines;
    size_t line_count, line_capacity;
    nt__map by_site; /* one more than the index of the line */
    nt__map seen;    /* line and content */
} nt__captured;
void nt__captured_free(nt__captured *captured);

typedef __typeof__(((nt_tensor *)NULL)->trace) nt__trace_mark;

struct nt__graph {
    nt__arena arena;
    nt__node **nodes; /* of all regions; nodes[0] is unused: id 0 is the failed tensor */
    size_t node_count, node_capacity;
    nt__region program, *region; /* the outermost region, and the one of nodes made now */
    nt__map shared;              /* ids of the nodes by nt__node_hash */
    uint32_t scope, scope_count; /* scope: of nodes made now; 0 is the program's own */
    nt__trace_mark trace;        /* differs between all traces of the process */
    nt_status status;
    char *message;
    const char *unplaced; /* the message again, of an error whose place is still to come */
    const char **absent;  /* why: of tensors that there are not */
    size_t absent_count, absent_capacity;
    nt__claim *claims;
    size_t claim_count, claim_capacity;
    uint32_t checked_roles;  /* bits: of the arguments whose claims the host checks */
    const char *no_gradient; /* why there is none with respect to arguments of no_gradient_role; NULL: there is */
    int no_gradient_role;
    nt__captured captured;
    nt__quotient quotient;
    nt__graph *outer;
};

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

/* ---- windows (conv.c, pool.c) ----------------------------------------------------------------------------------- */

/* Places of the window along an axis of `size` elements. */
int64_t nt__window_places(const nt__window *window, int axis, int64_t size);
/* Sets the padding for ceil(size / stride) places, the odd element after. */
void nt__window_pad_same(nt__window *window, int axis, int64_t size);
/* Sets the padding after so that the window stands at exactly `count` places. */
void nt__window_pad_for(nt__window *window, int axis, int64_t size, int64_t count);
/* The padding before of the window that runs the other way. */
int64_t nt__window_opposite_low(const nt__window *window, int axis);
/* ---- lists with a number for each spatial axis, as options have them (lists.c) ---------------------------------- */

/* Options as the user's call has them. */
typedef struct nt__list_options {
    const char *what, *written; /* written: their text, NULL where there is none */
    int axes;                   /* spatial ones */
    nt_site site;
} nt__list_options;
/* Numbers from 1: 0 takes the one before it, the first one `first`. False after keeping an error, also of a number for
 * an axis that there is not. */
bool nt__list_numbers(const nt__list_options *options, const char *name, const int64_t given[NT_CONV_AXES],
                      int64_t first, nt_shape *out);
/* A list in which 0 is a number too: the text says how many entries it was given. */
bool nt__list_output_padding(const nt__list_options *options, const int64_t given[NT_CONV_AXES], nt_shape *out);
bool nt__list_padding(const nt__list_options *options, const int64_t given[NT_CONV_AXES][2], bool same, nt_shape *low,
                      nt_shape *high);
/* The reduction of each place of the window, which has an entry for each axis of x. `start` is its identity, and what
 * padding is. */
nt_tensor nt__window_reduce(nt__op op, nt__reducer reducer, nt_tensor x, double start, const nt__window *window,
                            nt_site site);

/* ---- the table's rules ------------------------------------------------------------------------------------------ */

#define ROW(id, stablehlo, shape_rule, gradient_rule, print_rule, rows_rule, names) \
    bool nt__shape_##shape_rule(nt__node *node);                                    \
    void nt__gradient_##gradient_rule(const nt__backward *b, nt_tensor *out);       \
    void nt__print_##print_rule(const nt__node *node, nt__text *text);              \
    nt__row_axis nt__track_##rows_rule(const nt__node *node, const nt__row_axis *operands);
#include "graph/operations.def"
#undef ROW

/* Adds "padding = dense<[[0, 1], [0, 1]]> : tensor<2x2xi64>". */
void nt__padding_print(nt_shape low, nt_shape high, nt__text *text);
/* Adds ", name = array<i64: 1, 2>". */
void nt__list_print(const char *name, nt_shape list, nt__text *text);
/* Adds the body of a reduction or a choice of `type` (one of nt__reducer). */
void nt__reducer_print(int reducer, nt_dtype dtype, nt__text *text);

/* Adds "tensor<128x784xf32>". */
void nt__type_print(nt__type type, nt__text *text);

#endif
