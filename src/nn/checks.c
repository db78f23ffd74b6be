/* What layers, activations and losses check of their arguments before they do anything, so that the message names
 * the call and not an operation inside of it.
 * Not here: what one layer alone demands.
 */
#include "nn/nn.h"

bool nt__tensor_given(nt_tensor x, nt_site site, const char *what, const char *argument) {
    if (nt__tensor_made(x)) return true;
    if (!nt__trace_current())
        nt__trace_fail(site, what, "no trace is under way: operations belong in traced hooks (forward, loss, ...)");
    else if (x.trace == NT_NUMBER_MARK)
        nt__trace_fail(site, what, "%s is the number %g and has to be a tensor; nt_full makes one", argument,
                       nt__plain_nan(x.number));
    else if (!x.trace)
        nt__trace_fail(site, what, "%s was never set: it is zero bytes, not the result of an operation", argument);
    else if (x.trace != nt__failed().trace)
        nt__trace_fail(site, what,
                       "%s belongs to an earlier trace: a tensor lives as long as the call of the hook that made it, "
                       "so do not keep one in a global or static variable",
                       argument);
    else
        nt__trace_fail(site, what, "%s is not the result of an operation of this trace", argument);
    return false;
}

bool nt__layer_given(const nt_model *m, const char *name, nt_tensor x, nt_site site, const char *what) {
    return nt__trace_given(m, site, what, "m") && nt__trace_given(name, site, what, "name") &&
           nt__tensor_given(x, site, what, "x");
}

bool nt__option_of_integers(nt_tensor x, nt_shape wanted, nt_site site, const char *what, const char *argument) {
    if (!x.trace) return true;
    if (!nt__tensor_given(x, site, what, argument)) return false;
    nt__type type = {nt_dtype_of(x), nt_shape_of(x)};
    char text[NT__TYPE_TEXT], shape[NT__TYPE_TEXT];
    if (type.dtype != NT_BOOL && !nt_dtype_is_float(type.dtype) && nt_shape_equal(type.shape, wanted)) return true;
    nt__trace_fail(site, what, "%s has to be integers %s, got %s", argument, nt__shape_text(wanted, shape),
                   nt__type_text(type, text));
    return false;
}
