/* Dense layers, embeddings and convolutions. */
#include <string.h>

#include "nn/nn.h"

static nt_init given_or(nt_init given, nt_init otherwise) {
    return given.kind == NT_INIT_DEFAULT ? otherwise : given;
}

nt_tensor nt_dense_at(nt_model *m, const char *name, nt_tensor x, int64_t units, nt_dense_options options,
                      nt_site site) {
    if (!nt__layer_given(m, name, x, site, "dense")) return nt__failed();
    nt_shape shape = nt_shape_of(x);
    nt_dtype dtype = nt_dtype_of(x), kept = nt__parameter_dtype(m, x);
    if (shape.rank < 1 || units < 1 || !nt_dtype_is_float(dtype)) {
        char text[NT__TYPE_TEXT];
        return nt__trace_fail(site, "dense",
                              "'%s' needs a floating tensor with a last axis and at least 1 unit, got %s and %lld%s",
                              name, nt__type_text((nt__type){dtype, shape}, text), (long long)units,
                              nt_dtype_is_float(dtype) ? "" : "; nt_convert makes one");
    }
    if (!nt_scope_enter(m, site, "%s", name)) return nt__failed();
    nt_parameter_options weight = {kept, given_or(options.weight_init, nt_glorot_uniform())};
    nt_parameter_options bias = {kept, options.bias_init};
    nt_shape weight_shape = nt_dims(shape.dims[shape.rank - 1], units);
    x = nt_to_compute_at(m, x, site);
    nt_tensor y = nt_matmul_at(x, nt_parameter_at(m, "weight", weight_shape, weight, site), site);
    if (!options.no_bias) y = nt_add_at(y, nt_parameter_at(m, "bias", nt_dims(units), bias, site), site);
    nt_scope_leave(m);
    return y;
}

nt_tensor nt_embedding_at(nt_model *m, const char *name, nt_tensor integers, int64_t rows, int64_t depth,
                          nt_embedding_options options, nt_site site) {
    if (!nt__trace_given(m, site, "embedding", "m") || !nt__trace_given(name, site, "embedding", "name"))
        return nt__failed();
    if (!nt__tensor_given(integers, site, "embedding", "integers")) return nt__failed();
    nt_dtype dtype = nt_dtype_of(integers);
    if (rows < 1 || depth < 1 || dtype == NT_BOOL || nt_dtype_is_float(dtype))
        return nt__trace_fail(site, "embedding",
                              "'%s' needs an integer tensor and at least 1 row of depth 1, got %s and %lld rows of "
                              "depth %lld",
                              name, nt_dtype_name(dtype), (long long)rows, (long long)depth);
    nt__claim_range(integers, 0, rows, site);
    if (!nt_scope_enter(m, site, "%s", name)) return nt__failed();
    nt_parameter_options weight = {options.dtype, given_or(options.init, nt_normal(1))};
    nt_tensor y = nt_take_at(nt__parameter(m, "weight", nt_dims(rows, depth), weight, site), integers, 0, site);
    if (options.dtype == NT_F32) y = nt_to_compute_at(m, y, site);
    nt_scope_leave(m);
    return y;
}

/* ---- convolution ------------------------------------------------------------------------------------------------ */

/* What a layer of either kind says of its kernel. */
typedef struct kernel {
    nt_shape size;
    int64_t channels, groups;
    bool no_bias;
    nt_init weight_init, bias_init;
} kernel;

static bool check_conv(nt_model *m, const char *what, const char *name, nt_tensor x, const kernel *k, nt_site site) {
    if (!nt__layer_given(m, name, x, site, what)) return false;
    nt_shape shape = nt_shape_of(x);
    int axes = k->size.rank;
    char text[NT__TYPE_TEXT], size[NT__TYPE_TEXT];
    bool right = axes >= 1 && axes <= NT_CONV_AXES && shape.rank == axes + 2 && nt_dtype_is_float(nt_dtype_of(x));
    if (!right)
        nt__trace_fail(site, what,
                       "'%s' with a kernel of %s needs a floating tensor [samples, positions..., channels] with an "
                       "axis of positions for each of the kernel's 1 to 3, got %s",
                       name, nt__shape_text(k->size, size), nt__type_text((nt__type){nt_dtype_of(x), shape}, text));
    else if (nt_shape_elements(k->size) < 1)
        nt__trace_fail(site, what, "'%s' has a kernel of %s; each size is at least 1", name,
                       nt__shape_text(k->size, size));
    else if (k->channels < 1)
        nt__trace_fail(site, what, "'%s' has %lld channels; it needs at least 1", name, (long long)k->channels);
    else if (k->groups < 1 || k->channels % k->groups || shape.dims[axes + 1] % k->groups)
        nt__trace_fail(site, what, "'%s' has %lld channels of %lld in %lld groups, which has to divide both", name,
                       (long long)k->channels, (long long)shape.dims[axes + 1], (long long)k->groups);
    else
        return true;
    return false;
}

/* [kernel..., in / groups, channels] */
static nt_tensor declare_kernel(nt_model *m, nt_tensor x, const kernel *k, nt_site site) {
    nt_shape shape = k->size;
    shape.dims[shape.rank++] = nt_shape_of(x).dims[nt_rank(x) - 1] / k->groups;
    shape.dims[shape.rank++] = k->channels;
    nt_parameter_options options = {nt__parameter_dtype(m, x), given_or(k->weight_init, nt_glorot_uniform())};
    return nt_parameter_at(m, "weight", shape, options, site);
}

static nt_tensor add_bias(nt_model *m, nt_tensor y, const kernel *k, nt_site site) {
    if (k->no_bias) return y;
    nt_parameter_options options = {nt__parameter_dtype(m, y), k->bias_init};
    return nt_add_at(y, nt_parameter_at(m, "bias", nt_dims(k->channels), options, site), site);
}

nt_tensor nt_conv_layer_at(nt_model *m, const char *name, nt_tensor x, int64_t channels, nt_shape size,
                           nt_conv_layer_options options, nt_site site) {
    const kernel k = {
        size, channels, options.groups ? options.groups : 1, options.no_bias, options.weight_init, options.bias_init};
    if (!check_conv(m, "conv_layer", name, x, &k, site) || !nt_scope_enter(m, site, "%s", name)) return nt__failed();
    nt_conv_options conv = {.written = options.written, .same = options.same, .groups = k.groups};
    memcpy(conv.stride, options.stride, sizeof conv.stride);
    memcpy(conv.pad, options.pad, sizeof conv.pad);
    memcpy(conv.dilation, options.dilation, sizeof conv.dilation);
    x = nt_to_compute_at(m, x, site);
    nt_tensor y = nt_conv_at(x, declare_kernel(m, x, &k, site), size.rank, conv, site);
    y = add_bias(m, y, &k, site);
    nt_scope_leave(m);
    return y;
}

nt_tensor nt_conv_transposed_layer_at(nt_model *m, const char *name, nt_tensor x, int64_t channels, nt_shape size,
                                      nt_conv_transposed_layer_options options, nt_site site) {
    const kernel k = {
        size, channels, options.groups ? options.groups : 1, options.no_bias, options.weight_init, options.bias_init};
    if (!check_conv(m, "conv_transposed_layer", name, x, &k, site) || !nt_scope_enter(m, site, "%s", name))
        return nt__failed();
    nt_conv_transposed_options conv = {.written = options.written, .groups = k.groups};
    memcpy(conv.stride, options.stride, sizeof conv.stride);
    memcpy(conv.pad, options.pad, sizeof conv.pad);
    memcpy(conv.output_padding, options.output_padding, sizeof conv.output_padding);
    memcpy(conv.dilation, options.dilation, sizeof conv.dilation);
    x = nt_to_compute_at(m, x, site);
    nt_tensor y = nt_conv_transposed_at(x, declare_kernel(m, x, &k, site), size.rank, conv, site);
    y = add_bias(m, y, &k, site);
    nt_scope_leave(m);
    return y;
}
