/* The graph of a trace: nodes, the operation table, reverse-mode differentiation, StableHLO text.
 * Not here: devices, programs, what a model or a loss is.
 */
#ifndef NT_GRAPH_GRAPH_H
#define NT_GRAPH_GRAPH_H

#include "array/array.h"
#include "nitro/ops.h"

typedef struct nt__graph nt__graph;

/* ---- a trace ---------------------------------------------------------------------------------------------------- */

/* A new, empty graph; it becomes the thread's current trace. Traces nest: ending one makes the outer one current again.
 */
nt__graph *nt__trace_begin(void);
/* Ends the trace that is current (the graph must be it). Text printed from it stays valid. */
void nt__trace_end(nt__graph *graph);
/* The current trace; NULL when none is under way. */
nt__graph *nt__trace_current(void);
/* NT_OK, or the trace's first error as the thread's message. */
nt_status nt__trace_status(const nt__graph *graph);
/* Keeps an error of the current trace: "FILE:LINE in FUNCTION: what: text", without the place when the site is all
 * zeros. The first one stays. Returns a failed tensor. With no trace under way it becomes the thread's message. */
nt_tensor nt__trace_fail(nt_site site, const char *what, const char *format, ...) NT__PRINTF(3, 4);
/* Whether an argument of a public call is there; a NULL keeps an error that names the call and the argument. */
bool nt__trace_given(const void *argument, nt_site site, const char *call, const char *name);
/* Keeps the error that the host is out of memory. */
nt_tensor nt__trace_out_of_memory(void);
/* Zeroed memory that lives as long as the trace; NULL after keeping an error. */
void *nt__trace_alloc(nt_site site, const char *what, size_t count, size_t size);
/* What an operation returns once an error was kept. */
nt_tensor nt__failed(void);
bool nt__tensor_failed(nt_tensor x);
/* x after an optimization barrier: the engine computes it once, and not anew in each operation that reads it. */
nt_tensor nt__computed_once(nt_tensor x, nt_site site);
/* Whether an argument of a call is a tensor of this trace. False after keeping the error, which names the call and the
 * argument, that it was never set, is a C number, or belongs to another trace; and in silence where an error was kept
 * already. */
bool nt__tensor_given(nt_tensor x, nt_site site, const char *what, const char *argument);
/* Whether it is the result of an operation of the current trace. */
bool nt__tensor_made(nt_tensor x);

/* Stands for a tensor that there is not: whoever reads it keeps the error `why`. The text outlives the trace. */
nt_tensor nt__absent(const char *why);

/* Tensors of the current trace as what a traced hook is given. */
nt_tensors nt__tensors_of(const struct nt_tensors_content *content);
/* Whether they are of the current trace: what they point at is gone with another one. False after keeping an error. */
bool nt__tensors_given(nt_tensors tensors, nt_site site, const char *what);

/* An argument of the program being traced. `role` and `index` mean something to the caller only and come back with the
 * printed text. `name` is copied. */
nt_tensor nt__input(int role, int index, const char *name, nt__type type);

/* The first rows of an argument, which are all that is real of it: the rest are copies, and a claim about the rows is
 * one about the argument. */
nt_tensor nt__real_rows(nt_tensor x, int64_t rows, nt_site site);

/* What an nt_tensors points at; it lives as long as the trace. */
struct nt_tensors_content {
    const char *name;   /* of the whole */
    const char *absent; /* why there is not even a set; NULL: there is one */
    size_t count;
    const char *const *names;
    const nt_tensor *tensors;
};

/* A claim about an argument that the host checks before the program runs: what its numbers have to be. It sticks to the
 * arguments whose elements `x` has: reshaped, converted, with axes in another order, stretched, joined, and where only
 * the sign matters multiplied by positive constants. On any other tensor it is forgotten, but for the elements of a
 * constant, which are checked at once. True when the host makes sure of it, so that the program need not. The advice is
 * a constant text, what to do where the check fails. */
typedef struct nt__claim {
    int role, index;
    nt__bounds bounds;
    const char *advice;
    nt_site site;
} nt__claim;
/* `call` and `argument` name a constant that is wrong. */
bool nt__claim_bounds(nt_tensor x, const nt__bounds *bounds, const char *call, const char *argument, const char *advice,
                      nt_site site);
/* Of integers in low <= value < limit; constants are not checked. */
bool nt__claim_range(nt_tensor x, int64_t low, int64_t limit, nt_site site); /* the advice: the data, or the number */
bool nt__claim_range_advising(nt_tensor x, int64_t low, int64_t limit, const char *advice, nt_site site);
/* The host checks what the current trace claims of arguments of this role, below 32, too. Until this is said it checks
 * none. */
void nt__claims_are_checked(int role);
/* From here on a gradient that a hook takes with respect to an argument of this role is an error that says why: a
 * constant text. */
void nt__gradients_are_refused(int role, const char *why);
/* The claims of a trace. */
const nt__claim *nt__claims(const nt__graph *graph, size_t *count);

/* The loops around what is traced now: how many, and the iteration of one, an i32 scalar; loop 0 is the outermost. What
 * must differ between iterations (the key of a random draw) depends on all of them. */
size_t nt__trace_loops(void);
nt_tensor nt__trace_iteration(size_t loop);
/* Whether a body of control flow is being traced: what is made now is known there only. */
bool nt__trace_in_body(void);
/* Between the two, what is made belongs to the program itself and not to the body that is being traced: values that are
 * made once and used in bodies and outside. They must not depend on those of a body. */
typedef struct nt__trace_place {
    struct nt__region *region;
    uint32_t scope;
} nt__trace_place;
nt__trace_place nt__trace_leave_bodies(void);
void nt__trace_go_back(nt__trace_place place);
/* Whether what is traced now runs exactly once, as in the body of nt_remat, and not in a loop or a branch. */
bool nt__trace_runs_once(void);
/* What stands for a value in the body of an nt_remat that has ended outside of it; other tensors are themselves. */
nt_tensor nt__trace_hand_out(nt_tensor x);

/* A scalar that its maker wants known as a quotient: a loss that is a sum over a count. A trace keeps the newest. */
typedef struct nt__quotient {
    nt_tensor value, sum, count; /* no value: there is none */
} nt__quotient;
void nt__quotient_keep(nt__quotient quotient);
nt__quotient nt__quotient_kept(const nt__graph *graph);

/* nt_random_fold with 64 bits that the program knows, so that no two names have one key. */
nt_tensor nt__random_fold_wide(nt_tensor key, uint64_t data, nt_site site);
/* The same with each of `count` numbers, one or more, at once: u32[count, 2]. The engine compiles it as fast as one. */
nt_tensor nt__random_fold_each(nt_tensor key, const uint64_t *data, size_t count, nt_site site);

/* ---- reverse mode ----------------------------------------------------------------------------------------------- */

/* Gradients of the scalar `loss` with respect to `with_respect_to[i]`, in gradients[i] (zeros where the loss does not
 * depend on it; reached[i] says which, may be NULL). */
void nt__gradient(nt_tensor loss, const nt_tensor *with_respect_to, size_t count, nt_tensor *gradients, bool *reached);
/* The same while hooks are traced: what the rules compute is not one with an equal expression that a hook writes, whose
 * own gradient could not be told from it then. */
void nt__gradient_apart(nt_tensor y, const nt_tensor *with_respect_to, size_t count, nt_tensor *gradients,
                        bool *reached);
/* Vector-Jacobian product: cotangents of `count` inputs for a given cotangent of `y`. */
void nt__vjp(nt_tensor y, nt_tensor cotangent, const nt_tensor *with_respect_to, size_t count, nt_tensor *out,
             bool *reached);

/* ---- rows of a batch (rows.c) ----------------------------------------------------------------------------------- */

/* Whether row i of `x`, along its axis 0, is made of row i of the arguments of this role and of no other of their
 * `count` rows. False also where that cannot be told. */
bool nt__rows_are_apart(nt_tensor x, int role, int64_t count);

/* ---- text ------------------------------------------------------------------------------------------------------- */

/* A result of the program. `takes` is an argument whose memory it may take over (donation); a zero tensor: none. */
typedef struct nt__result {
    const char *name;
    nt_tensor value;
    nt_tensor takes;
} nt__result;

/* An argument that the text has. */
typedef struct nt__argument {
    const char *name;
    nt__type type;
    int role, index;
    int donated_to; /* a result, or -1 */
} nt__argument;

/* What made a line of the text: for messages and for telling what moved. `text` is the line without its indentation and
 * its value numbers: "add : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>". The site is the user's call; its texts
 * are empty where that is not known. */
typedef struct nt__line {
    const char *text;
    nt_site site;
} nt__line;

/* A program as text. Deterministic: only nodes that a result needs, numbered in the order of their making; no source
 * places in the text. */
typedef struct nt__printed {
    nt__arena arena; /* owns everything below but the text */
    nt__text text;
    nt__argument *arguments;
    size_t argument_count;
    nt__line *lines; /* lines[i] belongs to line first_line + i of the text, counted from 1; the rest belong to none */
    size_t line_count;
    int first_line;
    bool has_barriers; /* optimization barriers, which the compile must respect */
} nt__printed;

/* Prints the current trace as module `module`, an identifier. An input appears when a result needs it, or when a result
 * takes its memory. */
nt_status nt__print(const char *module, const nt__result *results, size_t count, nt__printed *out);
/* The element type in StableHLO text: "f32", "ui8", "i1". */
const char *nt__dtype_text(nt_dtype dtype);
void nt__printed_free(nt__printed *printed);

#endif
