/* Whole runs that trusted implementations made: losses and gradient norms step by step, and final parameters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>

#include "toy.h"
#include "format/format.h"

static json_t *golden; /* the run under test */

static json_t *read_golden(const char *name) {
    char path[SCRATCH_PATH];
    snprintf(path, sizeof path, "%s/golden/train/%s.json", getenv("NT_TESTS"), name);
    json_error_t error;
    json_t *whole = json_load_file(path, 0, &error);
    if (!whole) fail_msg("%s: %s", path, error.text);
    return whole;
}

/* All batches one after another as one array. */
static nt_array *joined(const char *field, nt_dtype dtype) {
    json_t *batches = json_object_get(golden, "batches");
    size_t count = json_array_size(batches);
    nt_shape shape = {0};
    json_t *first = json_object_get(json_object_get(json_array_get(batches, 0), field), "shape");
    for (size_t i = 0; i < json_array_size(first); i++)
        shape.dims[shape.rank++] = json_integer_value(json_array_get(first, i));
    shape.dims[0] *= (int64_t)count;
    nt_array *array = nt_array_new(dtype, shape);
    int64_t at = 0;
    for (size_t b = 0; b < count; b++) {
        json_t *data = json_object_get(json_object_get(json_array_get(batches, b), field), "data");
        for (size_t i = 0; i < json_array_size(data); i++)
            nt_array_set(array, at++, json_number_value(json_array_get(data, i)));
    }
    return array;
}

#define PERCEPTRON(FIELD, DEVICE, GRAPH_CONST)             \
    GRAPH_CONST(int, hidden, 0, "hidden units")            \
    GRAPH_CONST(int, classes, 0, "classes")                \
    GRAPH_CONST(bool, relu, false, "relu instead of tanh") \
    GRAPH_CONST(bool, conv, false, "a convolution net")    \
    FIELD(int, batch, 0, "samples in a micro-batch")       \
    FIELD(bool, radam, false, "RAdam instead of Adam")
NT_EXPERIMENT(Perceptron, PERCEPTRON)

static nt_status build_data(const Perceptron *e, nt_data *data) {
    nt_split(data, "train", .batch = e->batch);
    nt_split_field(data, "train", "x", joined("x", NT_F32));
    nt_split_field(data, "train", "y", joined("y", NT_I32));
    return nt_data_status(data);
}

/* A convolution and max pooling, whose ties (zeros of relu) go to the first element. */
static nt_tensor convolve(const Perceptron_view *e, nt_model *m, nt_tensor x) {
    nt_tensor h = nt_relu(nt_conv_layer(m, "conv", x, e->hidden, nt_dims(3, 3), .same = true));
    return nt_dense(m, "logits", nt_reshape(nt_max_pool(h, nt_dims(2, 2)), nt_dim(x, 0), -1), e->classes);
}

static nt_tensor forward(const Perceptron_view *e, nt_model *m, nt_batch *batch) {
    if (e->conv) return convolve(e, m, nt_field(batch, "x"));
    nt_tensor h = nt_dense(m, e->relu ? "hidden" : "h", nt_field(batch, "x"), e->hidden);
    return nt_dense(m, e->relu ? "logits" : "o", e->relu ? nt_relu(h) : nt_tanh(h), e->classes);
}

static nt_tensor loss(const Perceptron_view *e, nt_tensor logits, nt_batch *batch) {
    (void)e;
    return nt_cross_entropy(logits, nt_field(batch, "y"));
}

static nt_rule optimizer(const Perceptron *e, const char *group) {
    (void)group;
    if (e->conv) return nt_momentum(.rho = 0.9);
    return e->radam ? nt_radam() : nt_adam();
}

NT_DEFINE(Perceptron, PERCEPTRON, .build_data = build_data, .forward = forward, .loss = loss, .optimizer = optimizer);

/* ---- a decoder -------------------------------------------------------------------------------------------------- */

#define DECODER(FIELD, DEVICE, GRAPH_CONST)            \
    GRAPH_CONST(int, vocabulary, 11, "tokens")         \
    GRAPH_CONST(int, width, 16, "features of a token") \
    GRAPH_CONST(int, heads, 2, "of the attention")     \
    FIELD(int, batch, 4, "sequences in a micro-batch")
NT_EXPERIMENT(Decoder, DECODER)

static nt_status read_sequences(const Decoder *e, nt_data *data) {
    nt_split(data, "train", .batch = e->batch);
    nt_split_field(data, "train", "tokens", joined("tokens", NT_I32));
    nt_split_field(data, "train", "targets", joined("targets", NT_I32));
    return nt_data_status(data);
}

static nt_tensor embed(const Decoder_view *e, nt_model *m, nt_tensor tokens) {
    nt_tensor x = tokens;
    NT_SCOPE(m, "embed") {
        nt_tensor table = nt_parameter(m, "tokens", nt_dims(e->vocabulary, e->width));
        x = nt_add(nt_take(table, tokens, 0), nt_parameter(m, "positions", nt_dims(nt_dim(tokens, 1), e->width)));
    }
    return x;
}

/* Part `index` of three, [batch, heads, length, size]. */
static nt_tensor heads_of(const Decoder_view *e, nt_tensor all, int64_t index) {
    nt_shape shape = nt_shape_of(all);
    nt_tensor part =
        nt_slice(all, nt_dims(0, 0, index * e->width), nt_dims(shape.dims[0], shape.dims[1], (index + 1) * e->width));
    part = nt_reshape(part, shape.dims[0], shape.dims[1], e->heads, e->width / e->heads);
    return nt_transpose(part, 0, 2, 1, 3);
}

static nt_tensor attend(const Decoder_view *e, nt_model *m, nt_tensor x) {
    nt_tensor y = x;
    NT_SCOPE(m, "attn") {
        nt_tensor all = nt_dense(m, "qkv", nt_layer_norm(m, "norm", x), 3 * e->width, .no_bias = true);
        y = nt_attention(heads_of(e, all, 0), heads_of(e, all, 1), heads_of(e, all, 2), .causal = true);
        y = nt_reshape(nt_transpose(y, 0, 2, 1, 3), nt_dim(x, 0), nt_dim(x, 1), e->width);
        y = nt_dense(m, "out", y, e->width);
    }
    return nt_add(x, y);
}

static nt_tensor decode(const Decoder_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = attend(e, m, embed(e, m, nt_field(batch, "tokens")));
    NT_SCOPE(m, "mlp") {
        nt_tensor h = nt_gelu_tanh(nt_dense(m, "up", nt_layer_norm(m, "norm", x), 2 * e->width));
        x = nt_add(x, nt_dense(m, "down", h, e->width));
    }
    NT_SCOPE(m, "final") x = nt_layer_norm(m, "norm", x);
    return nt_dense(m, "head", x, e->vocabulary, .no_bias = true);
}

static nt_tensor decoder_loss(const Decoder_view *e, nt_tensor logits, nt_batch *batch) {
    (void)e;
    return nt_cross_entropy(logits, nt_field(batch, "targets"));
}

static nt_rule decoder_optimizer(const Decoder *e, const char *group) {
    (void)e;
    (void)group;
    return nt_adam(.beta1 = 0.9, .beta2 = 0.95);
}

static double decoder_decay(const Decoder *e, const char *group) {
    (void)e;
    (void)group;
    return 0.1;
}

static double clip_norm(const Decoder *e) {
    (void)e;
    return 1;
}

/* Step 5 has the peak and is the first of the cosine, step 40 has 0. */
static void decoder_schedules(const Decoder *e, nt_schedules *out) {
    (void)e;
    nt_schedule_set(
        out, "learning_rate",
        nt_schedule_sequence({4, nt_schedule_linear(0.004, 0.02)}, {0, nt_schedule_cosine(0.02, 0, .steps = 35)}));
}

NT_DEFINE(Decoder, DECODER, .build_data = read_sequences, .forward = decode, .loss = decoder_loss,
          .optimizer = decoder_optimizer, .weight_decay = decoder_decay, .gradient_clip_norm = clip_norm,
          .schedules = decoder_schedules);

/* ---- the runs --------------------------------------------------------------------------------------------------- */

/* The golden files separate path components by slashes, nitro by dots; a kernel of theirs is a weight. */
static void our_path(const char *theirs, char out[64]) {
    char *name = out;
    snprintf(out, 64, "%s", theirs);
    for (char *at = out; (at = strchr(at, '/'));) {
        *at++ = '.';
        name = at;
    }
    if (strcmp(name, "kernel") == 0) strcpy(name, "weight");
}

static void load_initial(nt_run *run, const char *name) {
    char path[SCRATCH_PATH], names[16][64];
    snprintf(path, sizeof path, "%s/golden/train/%s.initial.safetensors", getenv("NT_TESTS"), name);
    nt__safetensors file;
    assert_ok(nt__safetensors_read(path, &file));
    nt__named_array arrays[16];
    for (size_t i = 0; i < file.count; i++) {
        our_path(file.arrays[i].name, names[i]);
        arrays[i] = file.arrays[i];
        arrays[i].name = names[i];
    }
    assert_ok(nt__safetensors_write(scratch("initial.safetensors"), arrays, file.count, NULL, 0));
    nt__safetensors_free(&file);
    assert_ok(nt_run_load(run, scratch("initial.safetensors")));
}

static double tolerance(const char *kind) {
    return json_number_value(json_object_get(json_object_get(json_object_get(golden, "tolerance"), kind), "atol"));
}

static void compare_final(nt_run *run, const char *name) {
    char path[SCRATCH_PATH];
    snprintf(path, sizeof path, "%s/golden/train/%s.final_f32.safetensors", getenv("NT_TESTS"), name);
    nt__safetensors file;
    assert_ok(nt__safetensors_read(path, &file));
    assert_int_equal(file.count, json_array_size(json_object_get(golden, "parameters")));
    for (size_t i = 0; i < file.count; i++) {
        char dotted[64];
        our_path(file.arrays[i].name, dotted);
        nt_array *ours = nt_run_parameter(run, dotted);
        assert_non_null(ours);
        assert_true(nt_shape_equal(ours->shape, file.arrays[i].type.shape));
        for (int64_t j = 0; j < nt_shape_elements(ours->shape); j++) {
            double difference = nt_array_get(ours, j) - ((const float *)file.arrays[i].data)[j];
            if (!(fabs(difference) <= tolerance("parameters_f32")))
                fail_msg("%s[%d] differs by %g", dotted, (int)j, difference);
        }
        nt_array_free(ours);
    }
    nt__safetensors_free(&file);
}

static double norms[MOST_LOSSES]; /* of the run under test */

static void listen_to_norms(const nt_event *event, void *context) {
    const heard *h = context;
    if (event->kind == NT_EVENT_STEP && h->count < MOST_LOSSES) norms[h->count] = event->values[0].value;
    listen(event, context);
}

/* The files' rule for whole runs: four times the distance of the f32 run from the f64 run, at least 2e-6. */
static double norm_tolerance(const json_t *in_f64, const json_t *in_f32) {
    double largest = 0;
    for (size_t i = 0; i < json_array_size(in_f64); i++)
        largest = fmax(
            largest, fabs(json_number_value(json_array_get(in_f64, i)) - json_number_value(json_array_get(in_f32, i))));
    return fmax(4 * largest, 2e-6);
}

static void compare_norms(size_t count) {
    const json_t *norm = json_object_get(golden, "gradient_norm"), *in_f64 = json_object_get(norm, "f64");
    double bound = norm_tolerance(in_f64, json_object_get(norm, "f32"));
    assert_int_equal(count, json_array_size(in_f64));
    for (size_t i = 0; i < count; i++) {
        double difference = norms[i] - json_number_value(json_array_get(in_f64, i));
        if (!(fabs(difference) <= bound)) fail_msg("gradient norm of step %zu differs by %g", i + 1, difference);
    }
}

static void compare_losses(const heard *h, double bound) {
    json_t *losses = json_object_get(json_object_get(golden, "loss"), "f64");
    assert_int_equal(h->count, json_array_size(losses));
    for (size_t i = 0; i < h->count; i++) {
        double difference = h->losses[i] - json_number_value(json_array_get(losses, i));
        if (!(fabs(difference) <= bound)) fail_msg("loss of step %zu differs by %g", i + 1, difference);
    }
}

/* With the golden file's initial parameters and settings; ends after its last step. */
static nt_run *train(const char *name, const nt_experiment *experiment, const void *fields, const char *compute_dtype,
                     heard *h) {
    memset(h, 0, sizeof *h);
    golden = read_golden(name);
    int64_t accum = json_integer_value(json_object_get(golden, "accum"));
    double rate = json_number_value(json_object_get(json_object_get(golden, "optimizer"), "eta"));
    nt_run_options options = quiet_options(h);
    options.on_event = listen_to_norms;
    options.compute_dtype = compute_dtype;
    options.gradient_norm = true;
    options.accum = (nt_maybe_int){true, accum};
    options.learning_rate = (nt_maybe_double){rate > 0, rate};
    options.max_epochs = (nt_maybe_int){true, 1000};
    options.max_steps = (nt_maybe_int){true, json_integer_value(json_object_get(golden, "steps_run"))};
    nt_run *run;
    assert_ok(nt_run_new(experiment, fields, &options, &run));
    load_initial(run, name);
    assert_ok(nt_train(run));
    return run;
}

static void reproduce(const char *name, const nt_experiment *experiment, const void *fields) {
    static heard h;
    nt_run *run = train(name, experiment, fields, NULL, &h);
    bool whole_steps = json_integer_value(json_object_get(golden, "accum")) == 1;
    if (whole_steps)
        compare_losses(&h, tolerance("loss_f32")); /* a step's event has the loss of its closing micro-batch only */
    compare_norms(h.count);
    compare_final(run, name);
    nt_run_free(run);
    json_decref(golden);
}

/* Mixed precision follows the run in f64 from afar. */
static void stay_near_in_bf16(const char *name, const nt_experiment *experiment, const void *fields, double bound) {
    static heard h;
    nt_run *run = train(name, experiment, fields, "bf16", &h);
    compare_losses(&h, bound);
    nt_run_free(run);
    json_decref(golden);
}

static void iris_adam(void **state) {
    (void)state;
    reproduce("mlp_iris_adam", Perceptron_experiment(),
              &(Perceptron){.hidden = 16, .classes = 3, .relu = true, .batch = 32});
}

static void digits_radam(void **state) {
    (void)state;
    reproduce("mlp_digits_radam", Perceptron_experiment(),
              &(Perceptron){.hidden = 12, .classes = 10, .batch = 16, .radam = true});
}

static void digits_merged(void **state) {
    (void)state;
    reproduce("mlp_digits_merged", Perceptron_experiment(), &(Perceptron){.hidden = 12, .classes = 10, .batch = 16});
}

static void digits_accumulated(void **state) {
    (void)state;
    reproduce("mlp_digits_accum4", Perceptron_experiment(), &(Perceptron){.hidden = 12, .classes = 10, .batch = 4});
}

static void conv_digits_momentum(void **state) {
    (void)state;
    reproduce("conv_digits_momentum", Perceptron_experiment(),
              &(Perceptron){.hidden = 4, .classes = 10, .batch = 8, .conv = true});
}

static void transformer_adamw_clip_cosine(void **state) {
    (void)state;
    const Decoder e = Decoder_defaults();
    reproduce("transformer_adamw_clip_cosine", Decoder_experiment(), &e);
}

static void conv_digits_in_bf16(void **state) {
    (void)state;
    stay_near_in_bf16("conv_digits_momentum", Perceptron_experiment(),
                      &(Perceptron){.hidden = 4, .classes = 10, .batch = 8, .conv = true}, 0.02);
}

static void transformer_in_bf16(void **state) {
    (void)state;
    const Decoder e = Decoder_defaults();
    stay_near_in_bf16("transformer_adamw_clip_cosine", Decoder_experiment(), &e, 0.02);
}

static int tear_down(void **state) {
    int failed = shut_down(state);
    return scratch_remove(state) || failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iris_adam),
        cmocka_unit_test(digits_radam),
        cmocka_unit_test(digits_merged),
        cmocka_unit_test(digits_accumulated),
        cmocka_unit_test(conv_digits_momentum),
        cmocka_unit_test(transformer_adamw_clip_cosine),
        cmocka_unit_test(conv_digits_in_bf16),
        cmocka_unit_test(transformer_in_bf16),
    };
    return cmocka_run_group_tests(tests, scratch_make, tear_down);
}
