/* Layers: parameters and operations put together. */
#include "nn/nn.h"

static nt_init given_or(nt_init given, nt_init otherwise) {
    return given.kind == NT_INIT_DEFAULT ? otherwise : given;
}

nt_tensor nt_dense_at(nt_model *m, const char *name, nt_tensor x, int64_t units, nt_dense_options options,
                      nt_site site) {
    if (!nt__trace_given(m, site, "dense", "m") || !nt__trace_given(name, site, "dense", "name")) return nt__failed();
    nt_shape shape = nt_shape_of(x);
    nt_dtype dtype = nt_dtype_of(x);
    if (shape.rank < 1 || units < 1 || !nt_dtype_is_float(dtype)) {
        char text[NT__TYPE_TEXT];
        return nt__trace_fail(site, "dense",
                              "'%s' needs a floating tensor with a last axis and at least 1 unit, got %s and %lld%s",
                              name, nt__type_text((nt__type){dtype, shape}, text), (long long)units,
                              nt_dtype_is_float(dtype) ? "" : "; nt_convert makes one");
    }
    if (!nt_scope_enter(m, site, "%s", name)) return x;
    nt_parameter_options weight = {dtype, given_or(options.weight_init, nt_glorot_uniform())};
    nt_parameter_options bias = {dtype, options.bias_init};
    nt_shape weight_shape = nt_dims(shape.dims[shape.rank - 1], units);
    nt_tensor y = nt_matmul_at(x, nt_parameter_at(m, "weight", weight_shape, weight, site), site);
    if (!options.no_bias) y = nt_add_at(y, nt_parameter_at(m, "bias", nt_dims(units), bias, site), site);
    nt_scope_leave(m);
    return y;
}
