/* Control flow in traced code: loops, branches, values computed again for the gradient, gradients of one's own.
 *
 * A C loop or condition in a hook runs while the hook is traced: a loop of a hundred steps makes a hundred copies of
 * its body, and a condition cannot ask for a tensor's value. The operations here take the body as a function. It is
 * called once, with tensors that stand for the values of every run, and the program runs it as often as it must.
 *
 * What else a body needs comes through its context pointer, which is passed on and read while the operation is called
 * and not later. Tensors made outside may be used inside, and gradients flow to them. Tensors made inside live there:
 * what is used outside must be among the values returned, or it is an error with both places. A parameter may be
 * declared inside; it is one parameter, shared by all iterations. Bodies may have bodies in them, 32 deep.
 */
#ifndef NITRO_CONTROL_H
#define NITRO_CONTROL_H

#include "nitro/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tensors in a list end before the first one that is not set. */
enum { NT_MAX_VALUES = 32 };

/* Tensors that a function of the user's takes and returns. */
typedef struct nt_values {
    nt_tensor at[NT_MAX_VALUES];
} nt_values;
typedef nt_values (*nt_function)(nt_values x, void *context);

/* ---- loops ------------------------------------------------------------------------------------------------------ */

/* What a body is given, what it returns, and what a loop returns. */
typedef struct nt_loop {
    nt_tensor carry[NT_MAX_VALUES];   /* given: from the iteration before; returned: for the next one, of equal types */
    nt_tensor inputs[NT_MAX_VALUES];  /* given, scan: the slices inputs[i][index] */
    nt_tensor outputs[NT_MAX_VALUES]; /* returned by the body of a scan; returned by the scan: all of them stacked, each
                                         in the place of its index along a new axis 0 */
    nt_tensor index;                  /* given: i32 scalar; scan: which slice, 0..length-1; while: iterations before */
} nt_loop;
typedef nt_loop (*nt_loop_body)(nt_loop now, void *context);

typedef struct nt_scan_options {
    nt_tensor carry[NT_MAX_VALUES];  /* as the first iteration gets it; may be none */
    nt_tensor inputs[NT_MAX_VALUES]; /* [length, ...]: cut into slices along axis 0; may be none */
    int64_t length;                  /* iterations: needed if there are no inputs */
    nt_direction direction;          /* backward: the last slice comes first */
    bool unroll;                     /* no loop in the program: a copy of the body for each iteration, 1024 at most */
} nt_scan_options;
/* Runs the body for each slice of the inputs, the carry going from one to the next:
 *
 *     static nt_loop step(nt_loop now, void *context) {
 *         nt_model *m = context;
 *         nt_tensor joined = nt_concatenate(-1, now.inputs[0], now.carry[0]);
 *         nt_tensor h = nt_tanh(nt_dense(m, "cell", joined, 64));
 *         return (nt_loop){.carry = {h}, .outputs = {h}};
 *     }
 *     nt_loop all = nt_scan(step, m, .carry = {h0}, .inputs = {x});    x [time, batch, features]
 *     all.outputs[0] is [time, batch, 64], all.carry[0] the last h.
 *
 * Inputs of length 0 give the carry back. Gradient: by a loop in the other direction, which keeps of each iteration the
 * values that it needs; what the body uses of outside gets the sum over the iterations. Any number of derivatives.
 * Errors: inputs of different length, no length, a carry that changes its type. */
#define nt_scan(body, context, ...) nt_scan_at(body, #body, context, (nt_scan_options){__VA_ARGS__}, NT_SITE)
nt_loop nt_scan_at(nt_loop_body body, const char *name, void *context, nt_scan_options options, nt_site site);

typedef nt_tensor (*nt_loop_condition)(nt_loop now, void *context);
/* Runs the body as long as the condition, a bool scalar, is true of the carry: nt_while(goes_on, step, &context, a, b).
 * Returns the carry that it is false of. A loop whose length depends on values has no gradient: asking for one is an
 * error. nt_scan has one; nt_stop_gradient says that none is wanted. */
#define nt_while(condition, body, context, ...) \
    nt_while_at(condition, body, #body, context, (nt_values){{__VA_ARGS__}}, NT_SITE)
nt_loop nt_while_at(nt_loop_condition condition, nt_loop_body body, const char *name, void *context, nt_values carry,
                    nt_site site);

/* ---- branches --------------------------------------------------------------------------------------------------- */

/* What `yes` makes of the tensors if the bool scalar `which` is true, else what `no` makes of them; only one of the
 * two runs: nt_cond(nt_greater(p, 0), square, exponential, NULL, x).at[0]. Both return as many tensors, of equal types.
 * Gradient: that of the branch taken. nt_where chooses between elements, and runs both. */
#define nt_cond(which, yes, no, context, ...) nt_cond_at(which, yes, no, context, (nt_values){{__VA_ARGS__}}, NT_SITE)

nt_values nt_cond_at(nt_tensor which, nt_function yes, nt_function no, void *context, nt_values x, nt_site site);

/* ---- what the gradient does ------------------------------------------------------------------------------------- */

/* What the body makes of the tensors: nt_remat(block, &context, x).at[0]. The gradient keeps only what goes into
 * the body and computes the rest of it again: less memory, for the time of one more forward pass. */
#define nt_remat(body, context, ...) nt_remat_at(body, context, (nt_values){{__VA_ARGS__}}, NT_SITE)
nt_values nt_remat_at(nt_function body, void *context, nt_values x, nt_site site);

/* Makes the cotangents of x, one for each floating tensor, of its type; one that is not set is zero. `c` are the
 * cotangents of y, zeros if none arrives. */
typedef nt_values (*nt_backward)(nt_values x, nt_values y, nt_values c, void *context);
/* What the function makes of the tensors, y, with the gradient that `backward` computes: nt_custom_gradient(forward,
 * backward, NULL, x).at[0]. Both are called at once. Gradients flow to the tensors given only; a floating tensor of
 * outside that the function uses otherwise is an error, so that no gradient is lost in silence. The gradient is traced
 * code and has a gradient itself. */
#define nt_custom_gradient(function, backward, context, ...) \
    nt_custom_gradient_at(function, backward, context, (nt_values){{__VA_ARGS__}}, NT_SITE)
nt_values nt_custom_gradient_at(nt_function function, nt_backward backward, void *context, nt_values x, nt_site site);

#ifdef __cplusplus
}
#endif

#endif
