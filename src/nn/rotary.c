/* Rotary positions. */
#include <math.h>

#include "nn/attention.h"

static nt_tensor number(double value) {
    return nt_tensor_number(value);
}

/* Angles of `shape`: its last axis has the pairs, one of the others the positions. */
static nt_tensor angles(nt_dtype dtype, nt_shape shape, int axis, const nt_rotary_options *options, nt_site site) {
    double base = options->base != 0 ? options->base : 10000;
    int last = shape.rank - 1;
    nt_tensor position = nt_add_at(nt_iota_at(dtype, shape, axis, site), number((double)options->offset), site);
    if (options->position.trace) position = nt_add_at(position, nt_convert_at(options->position, dtype, site), site);
    nt_tensor pair = nt_iota_at(dtype, shape, last, site);
    nt_tensor rate = nt_exp_at(nt_mul_at(pair, number(-log(base) / (double)shape.dims[last]), site), site);
    return nt_mul_at(position, rate, site);
}

nt_tensor nt__rotate(nt_tensor x, int along, const nt_rotary_options *options, nt_site site) {
    nt_shape shape = nt_shape_of(x);
    nt_dtype dtype = nt_dtype_of(x), wide = dtype == NT_F64 ? NT_F64 : NT_F32;
    int64_t pairs = shape.dims[3] / 2;
    nt_shape apart = {.rank = 5, .dims = {shape.dims[0], shape.dims[1], shape.dims[2], pairs, pairs}};
    int axis = options->interleaved ? 4 : 3;
    apart.dims[axis] = 2;
    nt_shape start = {.rank = 5}, limit = apart;
    nt_tensor split = nt_reshape_at(nt_convert_at(x, wide, site), apart, site);
    nt_shape half = nt_dims(shape.dims[0], shape.dims[1], shape.dims[2], pairs), table = nt_dims(1, 1, pairs);
    limit.dims[axis] = 1;
    nt_tensor first = nt_reshape_at(nt_slice_at(split, start, limit, site), half, site);
    start.dims[axis] = 1;
    limit.dims[axis] = 2;
    nt_tensor second = nt_reshape_at(nt_slice_at(split, start, limit, site), half, site);
    table.dims[along - 1] = shape.dims[along];
    nt_tensor angle = angles(wide, table, along - 1, options, site);
    /* The engine would compute both anew for each sample and head. */
    nt_tensor cosine = nt__computed_once(nt_cos_at(angle, site), site);
    nt_tensor sine = nt__computed_once(nt_sin_at(angle, site), site);
    nt_tensor turned[2] = {
        nt_sub_at(nt_mul_at(first, cosine, site), nt_mul_at(second, sine, site), site),
        nt_add_at(nt_mul_at(first, sine, site), nt_mul_at(second, cosine, site), site),
    };
    nt_tensor joined = nt_stack_at(turned, 2, axis, site);
    return nt_convert_at(nt_reshape_at(joined, shape, site), dtype, site);
}

nt_tensor nt_rotary_at(nt_tensor x, nt_rotary_options options, nt_site site) {
    if (!nt__tensor_given(x, site, "rotary", "x")) return nt__failed();
    nt__type type = {nt_dtype_of(x), nt_shape_of(x)};
    if (type.shape.rank != 4 || type.shape.dims[3] % 2 != 0 || !nt_dtype_is_float(type.dtype)) {
        char text[NT__TYPE_TEXT];
        return nt__trace_fail(site, "rotary",
                              "needs a floating tensor [batch, length, heads, depth] of even depth, got %s",
                              nt__type_text(type, text));
    }
    if (!isfinite(options.base) || options.base < 0)
        return nt__trace_fail(site, "rotary",
                              ".base is %g and has to be a finite number above 0; not given, it is 10000",
                              nt__plain_nan(options.base));
    if (!nt__option_of_integers(options.position, (nt_shape){0}, site, "rotary", ".position")) return nt__failed();
    return nt__rotate(x, 1, &options, site);
}
