/* What layers, activations and losses check of their arguments before they do anything, so that the message names
 * the call and not an operation inside of it.
 * Not here: what one layer alone demands.
 */
#include "nn/nn.h"

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
