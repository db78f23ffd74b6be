/* Inside of the graph folder: nodes, a row of the operation table, a trace.
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
    struct {
        const char **items;
        size_t count, capacity;
    } absent; /* why: of tensors that there are not */
    nt__claim *claims;
    size_t claim_count, claim_capacity;
    uint32_t checked_roles;  /* bits: of the arguments whose claims the host checks */
    const char *no_gradient; /* why there is none with respect to arguments of no_gradient_role; NULL: there is */
    int no_gradient_role;
    nt__captured captured;
    nt__quotient quotient;
    nt__graph *outer;
};

#endif
