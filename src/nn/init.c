/* Initial values: drawn on the host, a stream of its own for each parameter. */
#include <math.h>

#include "nn/nn.h"

/* Standard deviation of a standard normal that is cut at two: samples are divided by it. */
static const double cut_deviation = 0.87962566103423978;

nt_init nt_zeros(void) {
    return (nt_init){.kind = NT_INIT_CONSTANT};
}

nt_init nt_ones(void) {
    return (nt_init){.kind = NT_INIT_CONSTANT, .value = 1};
}

nt_init nt_filled(double value) {
    return (nt_init){.kind = NT_INIT_CONSTANT, .value = value};
}

nt_init nt_uniform(double limit) {
    return (nt_init){.kind = NT_INIT_UNIFORM, .value = limit};
}

nt_init nt_normal(double standard_deviation) {
    return (nt_init){.kind = NT_INIT_NORMAL, .value = standard_deviation};
}

nt_init nt_truncated_normal(double standard_deviation) {
    return (nt_init){.kind = NT_INIT_TRUNCATED_NORMAL, .value = standard_deviation};
}

nt_init nt_glorot_uniform(void) {
    return (nt_init){.kind = NT_INIT_UNIFORM, .scale = NT_SCALE_GLOROT};
}

nt_init nt_glorot_normal(void) {
    return (nt_init){.kind = NT_INIT_TRUNCATED_NORMAL, .scale = NT_SCALE_GLOROT};
}

nt_init nt_he_uniform(void) {
    return (nt_init){.kind = NT_INIT_UNIFORM, .scale = NT_SCALE_HE};
}

nt_init nt_lecun_uniform(void) {
    return (nt_init){.kind = NT_INIT_UNIFORM, .scale = NT_SCALE_LECUN};
}

nt_init nt_he_normal(void) {
    return (nt_init){.kind = NT_INIT_TRUNCATED_NORMAL, .scale = NT_SCALE_HE};
}

nt_init nt_lecun_normal(void) {
    return (nt_init){.kind = NT_INIT_TRUNCATED_NORMAL, .scale = NT_SCALE_LECUN};
}

nt_init nt_orthogonal(double gain) {
    return (nt_init){.kind = NT_INIT_ORTHOGONAL, .value = gain};
}

nt_init nt_forget_bias(double value) {
    return (nt_init){.kind = NT_INIT_FORGET_BIAS, .value = value};
}

/* ---- what can be drawn ------------------------------------------------------------------------------------------ */

/* What the value of a kind is, where the scale is absolute. */
static const struct {
    const char *made_by, *value;
    bool any_sign; /* the value may be negative, and infinite */
} kinds[] = {
    [NT_INIT_DEFAULT] = {"zeros", "value", true},
    [NT_INIT_CONSTANT] = {"nt_filled", "value", true},
    [NT_INIT_UNIFORM] = {"nt_uniform", "limit", false},
    [NT_INIT_NORMAL] = {"nt_normal", "standard deviation", false},
    [NT_INIT_TRUNCATED_NORMAL] = {"nt_truncated_normal", "standard deviation", false},
    [NT_INIT_ORTHOGONAL] = {"nt_orthogonal", "gain", false},
    [NT_INIT_FORGET_BIAS] = {"nt_forget_bias", "value", true},
};

/* Enums of C hold any number. */
static bool is_known(nt_init init) {
    return (size_t)init.kind < sizeof kinds / sizeof *kinds && (size_t)init.scale <= NT_SCALE_LECUN;
}

static bool is_possible_value(nt_init init) {
    if (init.scale != NT_SCALE_ABSOLUTE) return true;
    return kinds[init.kind].any_sign ? !isnan(init.value) : isfinite(init.value) && init.value >= 0;
}

/* A bias of the gates of an LSTM, side by side. */
static bool has_forget_gate(nt_shape shape) {
    return shape.rank == 1 && shape.dims[0] % 4 == 0;
}

bool nt__init_possible(const nt__leaf *leaf, const char *what) {
    nt_init init = leaf->init;
    char text[NT__TYPE_TEXT];
    if (!is_known(init))
        nt__trace_fail(leaf->site, what,
                       "'%s' has an initial value of kind %d and scale %d, which there are not: "
                       "nt_normal, nt_glorot_uniform and the like make one",
                       leaf->path, (int)init.kind, (int)init.scale);
    else if (!is_possible_value(init))
        nt__trace_fail(leaf->site, what, "'%s' starts from %s(%g): the %s %s", leaf->path, kinds[init.kind].made_by,
                       nt__plain_nan(init.value), kinds[init.kind].value,
                       kinds[init.kind].any_sign ? "has to be a number" : "has to be finite and at least 0");
    else if (init.kind == NT_INIT_FORGET_BIAS && !has_forget_gate(leaf->type.shape))
        nt__trace_fail(leaf->site, what,
                       "'%s' starts from nt_forget_bias and is %s: only the bias of an LSTM, "
                       "[4 * units], has a forget gate",
                       leaf->path, nt__type_text(leaf->type, text));
    else
        return true;
    return false;
}

/* ---- drawing ---------------------------------------------------------------------------------------------------- */

/* Whether an element of [gates * units] is of the second of four gates. */
static bool is_of_forget_gate(nt_shape shape, size_t element) {
    return 4 * element / (size_t)shape.dims[0] == 1;
}

/* Inputs and outputs of one unit: [..., in, out], the leading axes being positions of a kernel. */
static void fans(nt_shape shape, double *in, double *out) {
    double positions = 1;
    for (int i = 0; i + 2 < shape.rank; i++) positions *= (double)shape.dims[i];
    *out = shape.rank > 0 ? (double)shape.dims[shape.rank - 1] * positions : 1;
    *in = shape.rank > 1 ? (double)shape.dims[shape.rank - 2] * positions : *out;
}

/* The limit or the standard deviation of the parent distribution. */
static double spread(nt_init init, nt_shape shape) {
    double in, out, variance;
    fans(shape, &in, &out);
    switch (init.scale) {
    case NT_SCALE_GLOROT: variance = 2 / (in + out); break;
    case NT_SCALE_HE: variance = 2 / in; break;
    case NT_SCALE_LECUN: variance = 1 / in; break;
    default: return init.value;
    }
    if (init.kind == NT_INIT_UNIFORM) return sqrt(3 * variance);
    return init.kind == NT_INIT_TRUNCATED_NORMAL ? sqrt(variance) / cut_deviation : sqrt(variance);
}

/* The x with erf(x) = y, |y| < 1: Winitzki's estimate (2008), then Newton on erf. */
static double inverse_erf(double y) {
    const double a = 0.147;
    double logarithm = log1p(-y * y), half = 2 / (M_PI * a) + logarithm / 2;
    double x = copysign(sqrt(sqrt(half * half - logarithm / a) - half), y);
    for (int i = 0; i < 3; i++) x -= (erf(x) - y) / (M_2_SQRTPI * exp(-x * x));
    return x;
}

/* A normal draw from a uniform one in [-edge, edge). */
static float normal_of_uniform(float uniform, float edge) {
    float y = uniform * (2 * edge) - edge;
    if (y < -edge) y = -edge;
    return (float)(M_SQRT2 * inverse_erf(y));
}

void nt__init_draw(nt_init init, nt_shape shape, nt__key key, size_t count, float *out) {
    float scale = (float)spread(init, shape);
    /* The whole normal uses all of (-1, 1); the one that is cut at two only the part that maps into (-2, 2). */
    float edge = init.kind == NT_INIT_TRUNCATED_NORMAL ? (float)erf(M_SQRT2) : nextafterf(1, 0);
    for (size_t i = 0; i < count; i++) {
        float uniform = nt__uniform_of_bits(nt__random_bits(key, i));
        switch (init.kind) {
        case NT_INIT_DEFAULT:
        case NT_INIT_CONSTANT: out[i] = (float)init.value; break;
        case NT_INIT_FORGET_BIAS: out[i] = is_of_forget_gate(shape, i) ? (float)init.value : 0; break;
        case NT_INIT_UNIFORM: out[i] = uniform * (2 * scale) - scale; break;
        default: out[i] = normal_of_uniform(uniform, edge) * scale; break;
        }
    }
}

nt_status nt__leaf_draw(const nt__leaf *leaf, nt__key seed, void *out) {
    size_t count = (size_t)nt_shape_elements(leaf->type.shape), size = nt_dtype_size(leaf->type.dtype);
    nt__key key = nt__key_fold_text(seed, leaf->path);
    if (leaf->init.kind == NT_INIT_ORTHOGONAL) return nt__orthogonal_draw(leaf->init.value, leaf->type, key, out);
    bool direct = leaf->type.dtype == NT_F32;
    float *draws = direct ? out : nt__alloc(count, sizeof *draws);
    if (!draws) return NT_OUT_OF_MEMORY;
    nt__init_draw(leaf->init, leaf->type.shape, key, count, draws);
    if (direct) return NT_OK;
    for (size_t i = 0; i < count; i++) nt__element_set(leaf->type.dtype, (char *)out + i * size, draws[i]);
    nt__free(draws);
    return NT_OK;
}
