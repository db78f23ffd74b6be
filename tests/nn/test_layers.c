/* src/nn: activations and layers against trusted numbers, value and gradient, f32 and f64; what they declare and
 * refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_cases.h"
#include "layer_trace.h"
#include "nitro/activations.h"

/* ---- activations ------------------------------------------------------------------------------------------------ */

#define ACTIVATION(name)                                  \
    static nt_tensor build_##name(const golden_case *c) { \
        return nt_##name(c->inputs[0]);                   \
    }
ACTIVATION(relu6)
ACTIVATION(selu)
ACTIVATION(hard_tanh)
ACTIVATION(hard_sigmoid)
ACTIVATION(hard_swish)
ACTIVATION(gelu)
ACTIVATION(gelu_tanh)
ACTIVATION(silu)
ACTIVATION(softplus)
ACTIVATION(log_sigmoid)
ACTIVATION(softsign)
ACTIVATION(mish)

static nt_tensor build_leaky_relu(const golden_case *c) {
    return nt_leaky_relu(c->inputs[0], golden_number(c, "negative_slope"));
}

static nt_tensor build_elu(const golden_case *c) {
    return nt_elu(c->inputs[0], golden_number_or(c, "alpha", 1));
}

static nt_tensor build_celu(const golden_case *c) {
    return nt_celu(c->inputs[0], golden_number(c, "alpha"));
}

static nt_tensor build_glu(const golden_case *c) {
    return nt_glu(c->inputs[0], (int64_t)golden_number(c, "axis"));
}

static const golden_row activations[] = {
    {"relu6", build_relu6},
    {"leaky_relu", build_leaky_relu},
    {"elu", build_elu},
    {"celu", build_celu},
    {"selu", build_selu},
    {"hard_tanh", build_hard_tanh},
    {"hard_sigmoid", build_hard_sigmoid},
    {"hard_swish", build_hard_swish},
    {"gelu_exact", build_gelu},
    {"gelu_tanh", build_gelu_tanh},
    {"silu", build_silu},
    {"softplus", build_softplus},
    {"log_sigmoid", build_log_sigmoid},
    {"softsign", build_softsign},
    {"mish", build_mish},
    {"glu", build_glu},
};
static const golden_plan activation_plan = {
    "ops/elementwise.json", activations, sizeof activations / sizeof *activations, {NULL}};

static void activations_f32(void **state) {
    (void)state;
    golden_check(&activation_plan, NT_F32);
}

static void activations_f64(void **state) {
    (void)state;
    golden_check(&activation_plan, NT_F64);
}

/* Where the square of x overflows, the slope is that of the line: 0 below, 1 above. Numbers are activated as tensors.
 */
static void the_tanh_gelu_is_a_line_far_from_zero(void **state) {
    (void)state;
    static const double at[] = {-60000, -300, 300, 60000}, wanted[] = {0, 0, 1, 1};
    nt__graph *graph = nt__trace_begin();
    nt_array *x = nt_array_new(NT_F16, nt_dims(4)), *out[3];
    assert_non_null(x);
    for (int i = 0; i < 4; i++) nt_array_set(x, i, at[i]);
    nt_tensor input = traced_input(0, (nt__type){NT_F16, nt_dims(4)}), y = nt_gelu_tanh(input);
    nt__result results[] = {
        {.value = y}, {.value = nt_grad(nt_sum(y), input)}, {.value = nt_gelu_tanh(nt_tensor_number(1))}};
    assert_ok(nt__trace_status(graph));
    traced program = traced_compile(traced_engine(), results, 3);
    traced_run(&program, &x, out);
    for (int i = 0; i < 4; i++) {
        assert_true(nt_array_get(out[0], i) == wanted[i] * nt_array_get(x, i));
        assert_true(nt_array_get(out[1], i) == wanted[i]);
    }
    assert_true(fabs(nt_array_get(out[2], 0) - 0.84119199) < 1e-6);
    traced_free(&program);
    for (int i = 0; i < 3; i++) nt_array_free(out[i]);
    nt_array_free(x);
    nt__trace_end(graph);
}

/* ---- what activations refuse ------------------------------------------------------------------------------------ */

#define OF(name, ...)                         \
    static nt_tensor name##_of(nt_tensor x) { \
        return nt_##name(__VA_ARGS__);        \
    }
OF(relu6, x)
OF(leaky_relu, x, 0.1)
OF(elu, x, 1)
OF(celu, x, 1)
OF(selu, x)
OF(hard_tanh, x)
OF(hard_sigmoid, x)
OF(hard_swish, x)
OF(gelu, x)
OF(gelu_tanh, x)
OF(silu, x)
OF(softplus, x)
OF(log_sigmoid, x)
OF(softsign, x)
OF(mish, x)
OF(glu, x, -1)

static const struct {
    const char *name;
    nt_tensor (*of)(nt_tensor x);
} all_activations[] = {
    {"relu6", relu6_of},
    {"leaky_relu", leaky_relu_of},
    {"elu", elu_of},
    {"celu", celu_of},
    {"selu", selu_of},
    {"hard_tanh", hard_tanh_of},
    {"hard_sigmoid", hard_sigmoid_of},
    {"hard_swish", hard_swish_of},
    {"gelu", gelu_of},
    {"gelu_tanh", gelu_tanh_of},
    {"silu", silu_of},
    {"softplus", softplus_of},
    {"log_sigmoid", log_sigmoid_of},
    {"softsign", softsign_of},
    {"mish", mish_of},
    {"glu", glu_of},
};

static void assert_refused_activation(const char *name, nt_tensor (*of)(nt_tensor x), nt_tensor (*x)(void),
                                      const char *reason) {
    nt__graph *graph = nt__trace_begin();
    char wanted[256];
    snprintf(wanted, sizeof wanted, "in %s_of: %s: %s", name, name, reason);
    assert_true(nt__tensor_failed(of(x())));
    assert_int_equal(nt__trace_status(graph), NT_INVALID);
    if (!strstr(nt_error_message(), wanted)) fail_msg("%s, not %s", nt_error_message(), wanted);
    nt__trace_end(graph);
}

static nt_tensor integers(void) {
    return traced_input(0, (nt__type){NT_I32, nt_dims(2, 4)});
}

static nt_tensor never_set(void) {
    return (nt_tensor){0};
}

static void activations_take_floating_tensors_only(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof all_activations / sizeof *all_activations; i++) {
        const char *name = all_activations[i].name;
        nt_tensor (*of)(nt_tensor) = all_activations[i].of;
        assert_refused_activation(name, of, integers, "needs a floating tensor, got i32[2,4]; nt_convert makes one");
        assert_refused_activation(name, of, never_set,
                                  "x was never set: it is zero bytes, not the result of an operation");
    }
}

/* ---- normalisation ---------------------------------------------------------------------------------------------- */

static nt_tensor build_layer_norm(const golden_case *c, nt_model *m) {
    int axes = (int)json_array_size(json_object_get(c->attributes, "axes"));
    return nt_layer_norm(m, "n", golden_input(c, "x"), .axes = axes, .epsilon = golden_number(c, "eps"),
                         .no_scale = !golden_has(c, "scale"), .no_shift = !golden_has(c, "shift"));
}

static nt_tensor build_rms_norm(const golden_case *c, nt_model *m) {
    return nt_rms_norm(m, "n", golden_input(c, "x"), .no_scale = !golden_has(c, "scale"));
}

static nt_tensor build_group_norm(const golden_case *c, nt_model *m) {
    return nt_group_norm(m, "n", golden_input(c, "x"), (int64_t)golden_number(c, "groups"));
}

static nt_tensor build_batch_norm(const golden_case *c, nt_model *m) {
    const char *kind = golden_text(c, "running_variance");
    return nt_batch_norm(m, "n", golden_input(c, "x"), .biased = kind && strncmp(kind, "biased", 6) == 0,
                         .no_scale = !golden_has(c, "scale"), .no_shift = !golden_has(c, "shift"));
}

static const layer_input norm_inputs[] = {{"n.scale", "scale"},
                                          {"n.shift", "shift"},
                                          {"n.mean", "running_mean"},
                                          {"n.variance", "running_var"},
                                          {NULL, NULL}};

static const layer_row norms[] = {
    {"layer_norm", build_layer_norm, false, norm_inputs},
    {"rms_norm", build_rms_norm, false, norm_inputs},
    {"group_norm", build_group_norm, false, norm_inputs},
    {"batch_norm_train", build_batch_norm, false, norm_inputs},
    {"batch_norm_eval", build_batch_norm, true, norm_inputs},
};

static const layer_plan norm_plan = {"ops/norm.json", norms, sizeof norms / sizeof *norms, 20, NULL};

static void norms_f32(void **state) {
    (void)state;
    layers_check(&norm_plan, NT_F32);
}

static void norms_f64(void **state) {
    (void)state;
    layers_check(&norm_plan, NT_F64);
}

/* ---- embedding and convolution ---------------------------------------------------------------------------------- */

static nt_tensor build_embedding(const golden_case *c, nt_model *m) {
    nt_shape table = nt_shape_of(golden_input(c, "t"));
    return nt_embedding(m, "e", golden_input(c, "i"), table.dims[0], table.dims[1], .dtype = c->floating);
}

static const layer_row embedding[] = {
    {"embedding", build_embedding, false, (const layer_input[]){{"e.weight", "t"}, {NULL, NULL}}}};

static const layer_plan embedding_plan = {"ops/index.json", embedding, 1, 2, NULL};

static void embedding_f32(void **state) {
    (void)state;
    layers_check(&embedding_plan, NT_F32);
}

static void read_numbers(const golden_case *c, const char *name, int64_t *out) {
    nt_shape list = golden_list(c, name);
    memcpy(out, list.dims, sizeof *out * (size_t)list.rank);
}

static bool read_padding(const golden_case *c, int64_t (*out)[2]) {
    const json_t *padding = json_object_get(c->attributes, "padding");
    if (json_is_string(padding)) return true;
    for (size_t i = 0; i < json_array_size(padding); i++)
        for (size_t j = 0; j < 2; j++) out[i][j] = json_integer_value(json_array_get(json_array_get(padding, i), j));
    return false;
}

static nt_shape kernel_size(const golden_case *c, int64_t *channels) {
    nt_shape size = nt_shape_of(golden_input(c, "w"));
    *channels = size.dims[size.rank - 1];
    size.rank -= 2;
    return size;
}

static nt_tensor build_conv(const golden_case *c, nt_model *m) {
    int64_t channels;
    nt_shape size = kernel_size(c, &channels);
    nt_conv_layer_options options = {.no_bias = true, .groups = (int64_t)golden_number(c, "groups")};
    read_numbers(c, "stride", options.stride);
    read_numbers(c, "kernel_dilation", options.dilation);
    options.same = read_padding(c, options.pad);
    return nt_conv_layer_at(m, "c", golden_input(c, "x"), channels, size, options, NT_SITE);
}

static nt_tensor build_conv_transposed(const golden_case *c, nt_model *m) {
    int64_t channels;
    nt_shape size = kernel_size(c, &channels);
    nt_conv_transposed_layer_options options = {.no_bias = true};
    read_numbers(c, "stride", options.stride);
    read_numbers(c, "kernel_dilation", options.dilation);
    read_numbers(c, "output_padding", options.output_padding);
    read_padding(c, options.pad);
    return nt_conv_transposed_layer_at(m, "c", golden_input(c, "x"), channels, size, options, NT_SITE);
}

static const layer_input conv_inputs[] = {{"c.weight", "w"}, {NULL, NULL}};
static const layer_row convs[] = {
    {"conv1d", build_conv, false, conv_inputs},
    {"conv2d", build_conv, false, conv_inputs},
    {"conv3d", build_conv, false, conv_inputs},
    {"conv2d_transposed", build_conv_transposed, false, conv_inputs},
};

/* Layers have their channels last, and no zeros between the elements of x. */
static bool is_of_layers(const json_t *json) {
    const json_t *attributes = json_object_get(json, "attrs");
    const json_t *dilation = json_array_get(json_object_get(attributes, "input_dilation"), 0);
    return strncmp(json_string_value(json_object_get(attributes, "layout")), "NC", 2) != 0 &&
           (!dilation || json_integer_value(dilation) == 1);
}

static const layer_plan conv_plan = {"ops/conv.json", convs, sizeof convs / sizeof *convs, 25, is_of_layers};

static void convolutions_f32(void **state) {
    (void)state;
    layers_check(&conv_plan, NT_F32);
}

/* ---- what layers declare ---------------------------------------------------------------------------------------- */

static layer_trace begin(void) {
    return layer_trace_begin(nt_dims(8, 6, 6, 4));
}

/* "conv.weight f32[3,3,4,8], conv.bias f32[8]" */
static void assert_declared(const nt__leaf *leaves, size_t count, const char *wanted) {
    char text[1024] = "", type[NT__TYPE_TEXT];
    for (size_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s %s", i ? ", " : "", leaves[i].path,
                 nt__type_text(leaves[i].type, type));
    assert_string_equal(text, wanted);
}

static void assert_ends(layer_trace *f, const char *parameters, const char *states) {
    size_t count;
    assert_ok(nt__trace_status(f->graph));
    const nt__leaf *leaves = nt__model_leaves(f->model, &count);
    assert_declared(leaves, count, parameters);
    leaves = nt__model_states(f->model, &count);
    assert_declared(leaves, count, states);
    layer_trace_end(f);
}

static void layers_declare_what_they_say(void **state) {
    (void)state;
    layer_trace f = begin();
    nt_tensor y = nt_conv_layer(f.model, "conv", f.x, 8, nt_dims(3, 3), .stride = {2}, .same = true, .groups = 2);
    assert_true(nt_shape_equal(nt_shape_of(y), nt_dims(8, 3, 3, 8)));
    y = nt_conv_transposed_layer(f.model, "up", y, 2, nt_dims(2, 2), .stride = {2});
    assert_true(nt_shape_equal(nt_shape_of(y), nt_dims(8, 6, 6, 2)));
    assert_ends(&f, "conv.weight f32[3,3,2,8], conv.bias f32[8], up.weight f32[2,2,8,2], up.bias f32[2]", "");

    f = begin();
    nt_batch_norm(f.model, "batch", f.x);
    nt_layer_norm(f.model, "layer", f.x, .axes = 2);
    nt_rms_norm(f.model, "rms", f.x);
    nt_group_norm(f.model, "group", f.x, 2, .no_shift = true);
    assert_ends(&f,
                "batch.scale f32[4], batch.shift f32[4], layer.scale f32[6,4], layer.shift f32[6,4], rms.scale "
                "f32[4], group.scale f32[4]",
                "batch.mean f32[4], batch.variance f32[4]");
}

/* Short types have statistics of f32. */
/* A vector is one sample: the last axis is its only one. */
static void norms_take_vectors(void **state) {
    (void)state;
    layer_trace f = begin();
    nt_tensor x = traced_input(1, (nt__type){NT_F32, nt_dims(5)});
    assert_true(nt_shape_equal(nt_shape_of(nt_layer_norm(f.model, "layer", x)), nt_dims(5)));
    assert_true(nt_shape_equal(nt_shape_of(nt_rms_norm(f.model, "rms", x)), nt_dims(5)));
    assert_ends(&f, "layer.scale f32[5], layer.shift f32[5], rms.scale f32[5]", "");
}

static void norms_of_short_types_compute_in_f32(void **state) {
    (void)state;
    layer_trace f = begin();
    nt_tensor x = traced_input(1, (nt__type){NT_BF16, nt_dims(8, 4)});
    assert_int_equal(nt_dtype_of(nt_batch_norm(f.model, "batch", x)), NT_BF16);
    assert_int_equal(nt_dtype_of(nt_layer_norm(f.model, "layer", x)), NT_BF16);
    assert_ends(&f, "batch.scale bf16[4], batch.shift bf16[4], layer.scale bf16[4], layer.shift bf16[4]",
                "batch.mean f32[4], batch.variance f32[4]");
}

static void integers_of_an_embedding_are_claimed_to_be_rows(void **state) {
    (void)state;
    layer_trace f = begin();
    nt_tensor tokens = traced_input(5, (nt__type){NT_U16, nt_dims(8, 3)});
    nt_tensor y = nt_embedding(f.model, "e", nt_convert(tokens, NT_I32), 100, 16);
    assert_true(nt_shape_equal(nt_shape_of(y), nt_dims(8, 3, 16)));
    size_t count;
    const nt__claim *claims = nt__claims(f.graph, &count);
    assert_int_equal(count, 1);
    assert_true(claims[0].index == 5 && claims[0].bounds.low == 0 && claims[0].bounds.high == 99);
    assert_ends(&f, "e.weight f32[100,16]", "");
}

/* ---- what layers refuse ----------------------------------------------------------------------------------------- */

static void refused_conv_kernel(const layer_trace *f) {
    nt_conv_layer(f->model, "c", f->x, 8, nt_dims(3));
}

static void refused_conv_size(const layer_trace *f) {
    nt_conv_layer(f->model, "c", f->x, 8, nt_dims(3, 0));
}

static void refused_conv_groups(const layer_trace *f) {
    nt_conv_layer(f->model, "c", f->x, 8, nt_dims(3, 3), .groups = 3);
}

static void refused_transposed(const layer_trace *f) {
    nt_conv_transposed_layer(f->model, "c", f->x, 0, nt_dims(3, 3));
}

static void refused_embedding(const layer_trace *f) {
    nt_embedding(f->model, "e", f->x, 10, 4);
}

static void refused_norm_type(const layer_trace *f) {
    nt_layer_norm(f->model, "n", nt_convert(f->x, NT_I32));
}

static void refused_norm_axes(const layer_trace *f) {
    nt_rms_norm(f->model, "n", f->x, .axes = 5);
}

static void refused_sample(const layer_trace *f) {
    nt_layer_norm(f->model, "n", f->x, .axes = 4);
}

static void refused_negative_axes(const layer_trace *f) {
    nt_layer_norm(f->model, "n", f->x, .axes = -1);
}

static void refused_epsilon_layer(const layer_trace *f) {
    nt_layer_norm(f->model, "n", f->x, .epsilon = -1);
}

static void refused_epsilon_rms(const layer_trace *f) {
    nt_rms_norm(f->model, "n", f->x, .epsilon = -1e-6);
}

static void refused_epsilon_group(const layer_trace *f) {
    nt_group_norm(f->model, "n", f->x, 2, .epsilon = (double)NAN);
}

static void refused_epsilon_batch(const layer_trace *f) {
    nt_batch_norm(f->model, "n", f->x, .epsilon = (double)INFINITY);
}

static void refused_groups(const layer_trace *f) {
    nt_group_norm(f->model, "n", f->x, 3);
}

static void refused_rate(const layer_trace *f) {
    nt_batch_norm(f->model, "n", f->x, .rate = 1.5);
}

static void refused_single(const layer_trace *f) {
    nt_batch_norm(f->model, "n", nt_reshape(f->x, 1, -1));
}

static void refused_glu(const layer_trace *f) {
    nt_glu(nt_reshape(f->x, -1, 9), -1);
}

static void refused_slope(const layer_trace *f) {
    nt_leaky_relu(f->x, (double)INFINITY);
}

static void refused_elu(const layer_trace *f) {
    nt_elu(f->x, -1);
}

static void refused_celu(const layer_trace *f) {
    nt_celu(f->x, 0);
}

#define NEVER_SET(name, call)                             \
    static void name##_of_nothing(const layer_trace *f) { \
        nt_tensor nothing = {0};                          \
        call;                                             \
    }
NEVER_SET(dense, nt_dense(f->model, "n", nothing, 2))
NEVER_SET(embedding, nt_embedding(f->model, "n", nothing, 2, 2))
NEVER_SET(dropout, nt_dropout(f->model, "n", nothing, 0.5))
NEVER_SET(rate, nt_dropout(f->model, "n", f->x, nothing))
NEVER_SET(conv, nt_conv_layer(f->model, "n", nothing, 2, nt_dims(3)))
NEVER_SET(transposed, nt_conv_transposed_layer(f->model, "n", nothing, 2, nt_dims(3)))
NEVER_SET(layer_norm, nt_layer_norm(f->model, "n", nothing))
NEVER_SET(rms_norm, nt_rms_norm(f->model, "n", nothing))
NEVER_SET(group_norm, nt_group_norm(f->model, "n", nothing, 2))
NEVER_SET(batch_norm, nt_batch_norm(f->model, "n", nothing))
NEVER_SET(compute, nt_to_compute(f->model, nothing))
NEVER_SET(state_set, (nt_state(f->model, "s", nt_dims(2)), nt_state_set(f->model, "s", nothing)))
#define OF_NOTHING(name, what, argument) \
    { name##_of_nothing, what ": " argument " was never set: it is zero bytes, not the result of an operation" }

static const layer_refusal refusals[] = {
    OF_NOTHING(dense, "dense", "x"),
    OF_NOTHING(embedding, "embedding", "integers"),
    OF_NOTHING(dropout, "dropout", "x"),
    OF_NOTHING(rate, "dropout", "the rate"),
    OF_NOTHING(conv, "conv_layer", "x"),
    OF_NOTHING(transposed, "conv_transposed_layer", "x"),
    OF_NOTHING(layer_norm, "layer_norm", "x"),
    OF_NOTHING(rms_norm, "rms_norm", "x"),
    OF_NOTHING(group_norm, "group_norm", "x"),
    OF_NOTHING(batch_norm, "batch_norm", "x"),
    OF_NOTHING(compute, "to_compute", "x"),
    OF_NOTHING(state_set, "state_set", "value"),
    {refused_slope, "leaky_relu: the slope is a finite number, got inf"},
    {refused_elu, "elu: alpha is a finite number from 0 on, got -1"},
    {refused_celu, "celu: alpha is a finite number above 0, got 0"},
    {refused_conv_kernel, "conv_layer: 'c' with a kernel of [3] needs a floating tensor [samples, positions..., "
                          "channels] with an axis of positions for each of the kernel's 1 to 3, got f32[8,6,6,4]"},
    {refused_conv_size, "conv_layer: 'c' has a kernel of [3,0]; each size is at least 1"},
    {refused_conv_groups, "conv_layer: 'c' has 8 channels of 4 in 3 groups, which has to divide both"},
    {refused_transposed, "conv_transposed_layer: 'c' has 0 channels; it needs at least 1"},
    {refused_embedding, "embedding: 'e' needs an integer tensor and at least 1 row of depth 1, got f32 and 10 rows of "
                        "depth 4"},
    {refused_norm_type,
     "layer_norm: 'n' needs a floating tensor of 2 or more axes, the first of which is the sample, got i32[8,6,6,4]"},
    {refused_norm_axes,
     "rms_norm: 'n' needs a floating tensor of 6 or more axes, the first of which is the sample, got f32[8,6,6,4]"},
    {refused_sample, "layer_norm: 'n' needs a floating tensor of 5 or more axes, the first of which is the sample, got "
                     "f32[8,6,6,4]"},
    {refused_negative_axes, "layer_norm: 'n' is over the last -1 axes: give 1 or more, and fewer than 8"},
    {refused_epsilon_layer,
     "layer_norm: 'n' has epsilon -1; it is added to the variance and has to be a finite number above 0"},
    {refused_epsilon_rms,
     "rms_norm: 'n' has epsilon -1e-06; it is added to the variance and has to be a finite number above 0"},
    {refused_epsilon_group,
     "group_norm: 'n' has epsilon nan; it is added to the variance and has to be a finite number above 0"},
    {refused_epsilon_batch,
     "batch_norm: 'n' has epsilon inf; it is added to the variance and has to be a finite number above 0"},
    {refused_groups, "group_norm: 'n' has 4 channels, which 3 groups do not divide"},
    {refused_rate, "batch_norm: 'n' has rate 1.5; it is above 0 and at most 1"},
    {refused_single,
     "batch_norm: 'n' has 1 value for each channel, which has no variance: give more samples, or .biased"},
    {refused_glu, "glu: f32[128,9] has no axis -1 of even size to halve"},
};

static void wrong_layers_are_refused(void **state) {
    (void)state;
    layers_refuse(nt_dims(8, 6, 6, 4), refusals, sizeof refusals / sizeof *refusals);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_f32),
        cmocka_unit_test(activations_f64),
        cmocka_unit_test(the_tanh_gelu_is_a_line_far_from_zero),
        cmocka_unit_test(activations_take_floating_tensors_only),
        cmocka_unit_test(norms_f32),
        cmocka_unit_test(norms_f64),
        cmocka_unit_test(embedding_f32),
        cmocka_unit_test(convolutions_f32),
        cmocka_unit_test(layers_declare_what_they_say),
        cmocka_unit_test(norms_take_vectors),
        cmocka_unit_test(norms_of_short_types_compute_in_f32),
        cmocka_unit_test(integers_of_an_embedding_are_claimed_to_be_rows),
        cmocka_unit_test(wrong_layers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
