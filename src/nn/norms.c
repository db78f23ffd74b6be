/* Normalisation: layer, RMS, group and batch norm. The variance is that of differences from the mean: mean(x x) -
 * mean(x)^2 loses every digit where the mean is large. */
#include <math.h>

#include "nn/model.h"

static double given_or(double given, double otherwise) {
    return given != 0 ? given : otherwise;
}

/* Statistics of short types are computed in f32. */
static nt_dtype arithmetic(nt_tensor x) {
    return nt_dtype_of(x) == NT_F64 ? NT_F64 : NT_F32;
}

static bool check_epsilon(const char *what, const char *name, double epsilon, nt_site site) {
    if (epsilon > 0 && isfinite(epsilon)) return true;
    nt__trace_fail(site, what, "'%s' has epsilon %g; it is added to the variance and has to be a finite number above 0",
                   name, nt__plain_nan(epsilon));
    return false;
}

/* The first axis, the sample, is of no norm; `axes` is how many x has besides at least. */
static bool check(nt_model *m, const char *what, const char *name, nt_tensor x, int axes, double epsilon,
                  nt_site site) {
    if (!nt__layer_given(m, name, x, site, what)) return false;
    nt__type type = {nt_dtype_of(x), nt_shape_of(x)};
    char text[NT__TYPE_TEXT];
    if (nt_dtype_is_float(type.dtype) && type.shape.rank > axes) return check_epsilon(what, name, epsilon, site);
    nt__trace_fail(site, what,
                   "'%s' needs a floating tensor of %d or more axes, the first of which is the sample, got %s", name,
                   axes + 1, nt__type_text(type, text));
    return false;
}

/* y scale + shift, each unless it is left out, with parameters of `shape`, in the type that the layer returns for x. */
static nt_tensor finish(nt_model *m, nt_tensor y, nt_tensor x, nt_shape shape, bool no_scale, bool no_shift,
                        nt_site site) {
    nt_dtype dtype = nt__parameter_dtype(m, x), wide = nt_dtype_of(y);
    if (!no_scale) {
        nt_tensor scale = nt__parameter(m, "scale", shape, (nt_parameter_options){dtype, nt_ones()}, site);
        y = nt_mul_at(y, nt_convert_at(scale, wide, site), site);
    }
    if (!no_shift) {
        nt_tensor shift = nt__parameter(m, "shift", shape, (nt_parameter_options){dtype, nt_zeros()}, site);
        y = nt_add_at(y, nt_convert_at(shift, wide, site), site);
    }
    return nt_to_compute_at(m, nt_convert_at(y, dtype, site), site);
}

static nt_tensor times_rsqrt(nt_tensor x, nt_tensor variance, double epsilon, nt_site site) {
    return nt_mul_at(x, nt_rsqrt_at(nt_add_at(variance, nt_tensor_number(epsilon), site), site), site);
}

/* Over axes, which NT_KEEP among them keeps. */
static nt_tensor standardise(nt_tensor x, nt_shape axes, double epsilon, nt_site site) {
    nt_tensor centred = nt_sub_at(x, nt_mean_at(x, axes, site), site);
    return times_rsqrt(centred, nt_mean_at(nt_square_at(centred, site), axes, site), epsilon, site);
}

/* A vector is a sample by itself, whose features its only axis has. */
static int axes_besides(nt_tensor x, int axes) {
    return axes == 1 && nt_rank(x) == 1 ? 0 : axes;
}

/* ---- over the last axes ----------------------------------------------------------------------------------------- */

/* The last `count` axes, kept. */
static nt_shape last_axes(int count) {
    nt_shape axes = {.rank = count + 1};
    for (int i = 0; i < count; i++) axes.dims[i] = i - count;
    axes.dims[count] = NT_KEEP;
    return axes;
}

static nt_shape last_sizes(nt_tensor x, int count) {
    nt_shape all = nt_shape_of(x), sizes = {.rank = count};
    for (int i = 0; i < count; i++) sizes.dims[i] = all.dims[all.rank - count + i];
    return sizes;
}

static bool axes_are_possible(const char *what, const char *name, int axes, nt_site site) {
    if (!nt__trace_given(name, site, what, "name")) return false;
    if (axes > 0 && axes < NT_MAX_RANK) return true;
    nt__trace_fail(site, what, "'%s' is over the last %d axes: give 1 or more, and fewer than %d", name, axes,
                   NT_MAX_RANK);
    return false;
}

nt_tensor nt_layer_norm_at(nt_model *m, const char *name, nt_tensor x, nt_norm_options options, nt_site site) {
    int axes = options.axes ? options.axes : 1;
    double epsilon = given_or(options.epsilon, 1e-5);
    if (!axes_are_possible("layer_norm", name, axes, site)) return nt__failed();
    if (!check(m, "layer_norm", name, x, axes_besides(x, axes), epsilon, site)) return nt__failed();
    if (!nt_scope_enter(m, site, "%s", name)) return nt__failed();
    nt_tensor wide = nt_convert_at(x, arithmetic(x), site);
    nt_tensor y = standardise(wide, last_axes(axes), epsilon, site);
    y = finish(m, y, x, last_sizes(x, axes), options.no_scale, options.no_shift, site);
    nt_scope_leave(m);
    return y;
}

nt_tensor nt_rms_norm_at(nt_model *m, const char *name, nt_tensor x, nt_norm_options options, nt_site site) {
    int axes = options.axes ? options.axes : 1;
    double epsilon = given_or(options.epsilon, 1e-6);
    if (!axes_are_possible("rms_norm", name, axes, site)) return nt__failed();
    if (!check(m, "rms_norm", name, x, axes_besides(x, axes), epsilon, site)) return nt__failed();
    if (!nt_scope_enter(m, site, "%s", name)) return nt__failed();
    nt_tensor wide = nt_convert_at(x, arithmetic(x), site);
    nt_tensor squares = nt_mean_at(nt_square_at(wide, site), last_axes(axes), site);
    nt_tensor y = times_rsqrt(wide, squares, epsilon, site);
    y = finish(m, y, x, last_sizes(x, axes), options.no_scale, true, site);
    nt_scope_leave(m);
    return y;
}

/* ---- over groups of channels ------------------------------------------------------------------------------------ */

nt_tensor nt_group_norm_at(nt_model *m, const char *name, nt_tensor x, int64_t groups, nt_group_norm_options options,
                           nt_site site) {
    double epsilon = given_or(options.epsilon, 1e-5);
    if (!check(m, "group_norm", name, x, 1, epsilon, site)) return nt__failed();
    nt_shape shape = nt_shape_of(x);
    int64_t channels = shape.dims[shape.rank - 1];
    if (groups < 1 || channels % groups != 0)
        return nt__trace_fail(site, "group_norm", "'%s' has %lld channels, which %lld groups do not divide", name,
                              (long long)channels, (long long)groups);
    if (!nt_scope_enter(m, site, "%s", name)) return nt__failed();
    nt_tensor wide = nt_convert_at(x, arithmetic(x), site);
    nt_tensor split = nt_reshape_at(wide, nt_dims(shape.dims[0], -1, groups, channels / groups), site);
    nt_tensor y = standardise(split, nt_dims(1, 3, NT_KEEP), epsilon, site);
    y = nt_reshape_at(y, shape, site);
    y = finish(m, y, x, nt_dims(channels), options.no_scale, options.no_shift, site);
    nt_scope_leave(m);
    return y;
}

/* ---- over the batch --------------------------------------------------------------------------------------------- */

/* All but the last, dropped. */
static nt_shape all_but_last(nt_tensor x) {
    nt_shape axes = {.rank = nt_rank(x) - 1};
    for (int i = 0; i < axes.rank; i++) axes.dims[i] = i;
    return axes;
}

static void keep_running(nt_model *m, const char *name, nt_tensor running, nt_tensor now, double rate, nt_site site) {
    nt_tensor old = nt_mul_at(running, nt_tensor_number(1 - rate), site);
    nt_state_set_at(m, name, nt_add_at(old, nt_mul_at(now, nt_tensor_number(rate), site), site), site);
}

/* Values of a channel in the micro-batch. */
static int64_t values_each(nt_shape shape) {
    int64_t count = 1;
    for (int i = 0; i + 1 < shape.rank; i++) count *= shape.dims[i];
    return count;
}

/* With the statistics of x itself, which move the running ones. */
static nt_tensor standardise_batch(nt_model *m, nt_tensor x, nt_tensor mean, nt_tensor variance,
                                   const nt_batch_norm_options *options, nt_site site) {
    nt_shape axes = all_but_last(x);
    double count = (double)values_each(nt_shape_of(x));
    nt_tensor own_mean = nt_mean_at(x, axes, site), centred = nt_sub_at(x, own_mean, site);
    nt_tensor own_variance = nt_mean_at(nt_square_at(centred, site), axes, site);
    nt_tensor correction = nt_tensor_number(options->biased ? 1 : count / (count - 1));
    keep_running(m, "mean", mean, own_mean, options->rate, site);
    keep_running(m, "variance", variance, nt_mul_at(own_variance, correction, site), options->rate, site);
    return times_rsqrt(centred, own_variance, options->epsilon, site);
}

static bool check_batch(const nt_model *m, const char *name, nt_tensor x, const nt_batch_norm_options *options,
                        nt_site site) {
    if (!(options->rate > 0 && options->rate <= 1))
        nt__trace_fail(site, "batch_norm", "'%s' has rate %g; it is above 0 and at most 1", name,
                       nt__plain_nan(options->rate));
    else if (m->training && !options->biased && values_each(nt_shape_of(x)) < 2)
        nt__trace_fail(site, "batch_norm",
                       "'%s' has 1 value for each channel, which has no variance: give more samples, or .biased", name);
    else
        return true;
    return false;
}

nt_tensor nt_batch_norm_at(nt_model *m, const char *name, nt_tensor x, nt_batch_norm_options options, nt_site site) {
    options.rate = given_or(options.rate, 0.1);
    options.epsilon = given_or(options.epsilon, 1e-5);
    if (!check(m, "batch_norm", name, x, 1, options.epsilon, site)) return nt__failed();
    if (!check_batch(m, name, x, &options, site)) return nt__failed();
    if (!nt_scope_enter(m, site, "%s", name)) return nt__failed();
    nt_shape channels = nt_dims(nt_shape_of(x).dims[nt_rank(x) - 1]);
    nt_tensor wide = nt_convert_at(x, arithmetic(x), site);
    nt_tensor mean = nt_state_at(m, "mean", channels, (nt_state_options){nt_dtype_of(wide), nt_zeros()}, site);
    nt_tensor variance = nt_state_at(m, "variance", channels, (nt_state_options){nt_dtype_of(wide), nt_ones()}, site);
    nt_tensor y = m->training ? standardise_batch(m, wide, mean, variance, &options, site)
                              : times_rsqrt(nt_sub_at(wide, mean, site), variance, options.epsilon, site);
    y = finish(m, y, x, channels, options.no_scale, options.no_shift, site);
    nt_scope_leave(m);
    return y;
}
