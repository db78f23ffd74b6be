/* Mixed precision in a run: what the programs compute in which type, what stays in f32, and that training stays near
 * that in f32. The types of single layers are tested in nn/test_precision.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/run_internal.h"
#include "toy.h"

#define MIXED(FIELD, DEVICE, GRAPH_CONST)                   \
    GRAPH_CONST(bool, last_in_f32, false, "the last layer") \
    GRAPH_CONST(bool, manual, false, "train_step trains")   \
    FIELD(int, batch, 16, "samples in a micro-batch")       \
    FIELD(const char *, compute_dtype, NULL, "of the experiment")
NT_EXPERIMENT(Mixed, MIXED)

static nt_status build_data(const Mixed *e, nt_data *data) {
    Toy toy = Toy_defaults();
    toy.batch = e->batch;
    return toy_build_data(&toy, data);
}

static nt_tensor forward(const Mixed_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_reshape(nt_field(batch, "x"), -1, 4, 1), logits = x;
    x = nt_conv_layer(m, "conv", x, 8, nt_dims(3), .same = true);
    x = nt_relu(nt_batch_norm(m, "norm", x));
    x = nt_avg_pool(x, nt_dims(3), .stride = {1}, .same = true);
    x = nt_tanh(nt_dense(m, "hidden", nt_reshape(x, nt_dim(x, 0), -1), 8));
    x = nt_layer_norm(m, "layer_norm", x);
    if (!e->last_in_f32) return nt_dense(m, "logits", x, 2);
    NT_COMPUTE(m, NT_F32) logits = nt_dense(m, "logits", x, 2);
    return logits;
}

static nt_tensor loss(const Mixed_view *e, nt_tensor logits, nt_batch *batch) {
    (void)e;
    assert_int_equal(nt_dtype_of(logits), NT_F32);
    return nt_cross_entropy(logits, nt_field(batch, "label"));
}

/* forward is the user's own call here, so the conversion is too. */
static nt_tensor train_step(const Mixed_view *e, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                            nt_device_metrics *metrics) {
    (void)metrics;
    nt_tensor all = loss(e, nt_convert(forward(e, m, batch), NT_F32), batch);
    nt_step(optimizers, nt_parameter_grads(m, all, ""));
    return all;
}

static bool manual_training(const Mixed *e) {
    return e->manual;
}

static nt_rule optimizer(const Mixed *e, const char *group) {
    (void)e;
    (void)group;
    return nt_adam();
}

static void metrics(const Mixed *e, nt_metrics *out, const nt_array *logits, const nt_host_batch *batch) {
    (void)e;
    nt_metric_accuracy(out, "accuracy", logits, nt_host_field(batch, "label"));
}

NT_DEFINE(Mixed, MIXED, .build_data = build_data, .forward = forward, .loss = loss, .train_step = train_step,
          .manual_training = manual_training, .optimizer = optimizer, .metrics = metrics);

static nt_run *make(Mixed e, const char *dtype, heard *h) {
    nt_run_options options = quiet_options(h);
    options.compute_dtype = dtype;
    options.learning_rate = (nt_maybe_double){true, 0.01};
    options.max_epochs = (nt_maybe_int){true, 5};
    nt_run *run;
    if (h) memset(h, 0, sizeof *h);
    assert_ok(nt_run_new(Mixed_experiment(), &e, &options, &run));
    return run;
}

/* ---- the programs' text ----------------------------------------------------------------------------------------- */

/* Lines that hold an operation, and of them those whose first operand has 16 bits. */
typedef struct found {
    int all, narrow;
} found;

static found find(const nt__program *program, const char *operation) {
    found count = {0};
    for (const char *at = nt__program_text(program); (at = strstr(at, operation)); at++) {
        const char *end = strchr(at, '\n'), *type = strstr(at, " : (tensor<");
        assert_true(type && type < end);
        const char *close = strchr(type, '>');
        count.all++;
        count.narrow += strncmp(close - 4, "bf16", 4) == 0;
    }
    return count;
}

static void assert_found(const nt__program *program, const char *operation, int all, int narrow) {
    found count = find(program, operation);
    if (count.all != all || count.narrow != narrow)
        fail_msg("%d of %d %s are narrow, not %d of %d, in\n%s", count.narrow, count.all, operation, narrow, all,
                 nt__program_text(program));
}

/* Products and convolutions in bf16, norms and sums in f32; the update is that of f32. */
static void products_are_narrow_and_norms_wide(void **state) {
    (void)state;
    nt_run *wide = make(Mixed_defaults(), NULL, NULL), *mixed = make(Mixed_defaults(), "bf16", NULL);
    const nt__program *forward_program = mixed->traced.programs.forward, *gradient = mixed->traced.programs.gradient;
    assert_found(forward_program, "stablehlo.dot_general", 2, 2);
    assert_found(forward_program, "stablehlo.convolution", 1, 1);
    assert_found(forward_program, "stablehlo.rsqrt", 2, 0);
    assert_found(wide->traced.programs.gradient, "stablehlo.dot_general", 6, 0);
    assert_found(gradient, "stablehlo.dot_general", 6, 6);
    assert_found(gradient, "stablehlo.rsqrt", 2, 0);
    assert_found(gradient, "stablehlo.exponential", find(wide->traced.programs.gradient, "stablehlo.exponential").all,
                 0);
    assert_null(strstr(nt__program_text(wide->traced.programs.gradient), "bf16"));
    assert_string_equal(nt__program_text(wide->traced.programs.optimizer),
                        nt__program_text(mixed->traced.programs.optimizer));
    nt_run_free(wide);
    nt_run_free(mixed);
}

/* The body of a reduction adds two scalars. */
static void no_sum_is_formed_in_16_bits(void **state) {
    (void)state;
    nt_run *mixed = make(Mixed_defaults(), "bf16", NULL);
    const char *text = nt__program_text(mixed->traced.programs.gradient);
    assert_non_null(strstr(text, "stablehlo.add\"(%a, %b) : (tensor<f32>, tensor<f32>)"));
    assert_null(strstr(text, "(tensor<bf16>, tensor<bf16>)"));
    nt_run_free(mixed);
}

static void a_part_computes_in_f32(void **state) {
    (void)state;
    Mixed e = Mixed_defaults();
    e.last_in_f32 = true;
    nt_run *mixed = make(e, "bf16", NULL);
    assert_found(mixed->traced.programs.forward, "stablehlo.dot_general", 2, 1);
    nt_run_free(mixed);
}

/* ---- what stays in f32 ------------------------------------------------------------------------------------------ */

static void parameters_states_and_outputs_are_f32(void **state) {
    (void)state;
    nt_run *mixed = make(Mixed_defaults(), "bf16", NULL);
    nt_parameter_info parameter;
    nt_state_info carried;
    size_t count = 0;
    for (; nt_run_parameter_at(mixed, count, &parameter); count++) assert_int_equal(parameter.dtype, NT_F32);
    assert_int_equal(count, 10);
    for (count = 0; nt_run_state_at(mixed, count, &carried); count++) assert_int_equal(carried.dtype, NT_F32);
    assert_int_equal(count, 2);
    nt_array *points = toy_points(20, false), *outputs;
    assert_ok(nt_train(mixed));
    assert_ok(nt_predict(mixed, &(nt_named_array){"x", points}, 1, &outputs));
    assert_int_equal(outputs->dtype, NT_F32);
    nt_array_free(points);
    nt_array_free(outputs);
    nt_run_free(mixed);
}

/* ---- training --------------------------------------------------------------------------------------------------- */

static double accuracy(nt_run *run) {
    nt_results results;
    assert_ok(nt_validate(run, &results));
    assert_string_equal(results.values[0].name, "accuracy");
    return results.values[0].value;
}

static double largest_difference(const char *path, nt_run *a, nt_run *b) {
    nt_array *first = nt_run_parameter(a, path), *second = nt_run_parameter(b, path);
    double largest = 0;
    assert_true(first && second);
    for (int64_t i = 0; i < nt_shape_elements(first->shape); i++)
        largest = fmax(largest, fabs(nt_array_get(first, i) - nt_array_get(second, i)));
    nt_array_free(first);
    nt_array_free(second);
    return largest;
}

/* bf16 has 8 bits: near f32, and not the same. */
static void train_near_f32(Mixed e) {
    static heard in_f32, in_bf16;
    nt_run *wide = make(e, NULL, &in_f32), *mixed = make(e, "bf16", &in_bf16);
    assert_ok(nt_train(wide));
    assert_ok(nt_train(mixed));
    assert_int_equal(in_bf16.count, 40);
    double largest = 0;
    for (size_t i = 0; i < in_f32.count; i++) largest = fmax(largest, fabs(in_f32.losses[i] - in_bf16.losses[i]));
    if (!(largest > 1e-5 && largest < 0.03)) fail_msg("losses differ by %g", largest);
    assert_true(in_bf16.losses[39] < 0.5 * in_bf16.losses[0]);
    assert_true(accuracy(mixed) >= 0.85 && fabs(accuracy(mixed) - accuracy(wide)) <= 0.05);
    assert_true(largest_difference("hidden.weight", wide, mixed) > 0);
    assert_true(largest_difference("hidden.weight", wide, mixed) < 0.2);
    nt_run_free(wide);
    nt_run_free(mixed);
}

static void training_is_near_that_in_f32(void **state) {
    (void)state;
    train_near_f32(Mixed_defaults());
}

static void a_train_step_is_near_that_in_f32(void **state) {
    (void)state;
    Mixed e = Mixed_defaults();
    e.manual = true;
    train_near_f32(e);
}

/* A file of one serves the other: what is saved is f32. */
static void parameters_move_between_the_types(void **state) {
    (void)state;
    nt_run *mixed = make(Mixed_defaults(), "bf16", NULL), *wide = make(Mixed_defaults(), NULL, NULL);
    assert_ok(nt_train(mixed));
    assert_ok(nt_run_save(mixed, scratch("mixed.safetensors")));
    assert_ok(nt_run_load(wide, scratch("mixed.safetensors")));
    assert_true(largest_difference("logits.weight", wide, mixed) == 0);
    assert_true(fabs(accuracy(mixed) - accuracy(wide)) <= 0.05);
    nt_run_free(wide);
    nt_run_free(mixed);
}

/* ---- the setting ------------------------------------------------------------------------------------------------ */

static const char *bf16(const void *e) {
    (void)e;
    return "bf16";
}

static nt_dtype taken_by(const nt_experiment *experiment, const char *field, const char *option) {
    nt_run_options options = {.no_log = true, .quiet = true, .compute_dtype = option};
    Mixed e = Mixed_defaults();
    nt_run *run;
    e.compute_dtype = field;
    assert_ok(nt_run_new(experiment, &e, &options, &run));
    nt_dtype taken = nt__compute_dtype(&run->task.settings);
    nt_run_free(run);
    return taken;
}

static void option_hook_and_field_set_it(void **state) {
    (void)state;
    nt_experiment hooked = *Mixed_experiment();
    hooked.hooks.compute_dtype = bf16;
    assert_int_equal(taken_by(Mixed_experiment(), NULL, NULL), NT_F32);
    assert_int_equal(taken_by(Mixed_experiment(), "f16", NULL), NT_F16);
    assert_int_equal(taken_by(&hooked, "f16", NULL), NT_BF16);
    assert_int_equal(taken_by(&hooked, "f16", "f32"), NT_F32);
}

static char told[4096];
static void keep_line(const char *line, void *context) {
    (void)context;
    strncat(told, line, sizeof told - strlen(told) - 1);
}

/* What setting up a run in this type says. */
static void set_up(const char *dtype, bool evaluates) {
    nt_run_options options = {.no_log = true, .compute_dtype = dtype, .evaluate_only = evaluates};
    nt_run *run;
    *told = 0;
    nt_notice_function before = nt_set_notice(keep_line, NULL);
    assert_ok(nt_run_new(Mixed_experiment(), NULL, &options, &run));
    nt_set_notice(before, NULL);
    nt_run_free(run);
}

static void training_in_f16_is_told(void **state) {
    (void)state;
    set_up("f16", false);
    assert_non_null(strstr(told, "layers compute in f16, whose gradients below 6e-8 become 0 without a word: there is "
                                 "no loss scaling. bf16 has the range of f32 and is meant for training"));
    set_up("f16", true);
    assert_null(strstr(told, "f16"));
    set_up("bf16", false);
    assert_null(strstr(told, "f16"));
}

static void another_type_is_refused(void **state) {
    (void)state;
    Mixed e = Mixed_defaults();
    nt_run_options options = {.no_log = true, .quiet = true, .compute_dtype = "f64"};
    nt_run *run;
    assert_fails(nt_run_new(Mixed_experiment(), &e, &options, &run), NT_INVALID,
                 "compute_dtype is 'f64' (from the option compute_dtype); layers compute in f32, bf16 or f16");
    e.compute_dtype = "half";
    options.compute_dtype = NULL;
    options.evaluate_only = true;
    assert_fails(nt_run_new(Mixed_experiment(), &e, &options, &run), NT_INVALID,
                 "compute_dtype is 'half' (from the field compute_dtype)");
}

static int tear_down(void **state) {
    int failed = shut_down(state);
    return scratch_remove(state) || failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_narrow_and_norms_wide),
        cmocka_unit_test(no_sum_is_formed_in_16_bits),
        cmocka_unit_test(a_part_computes_in_f32),
        cmocka_unit_test(parameters_states_and_outputs_are_f32),
        cmocka_unit_test(training_is_near_that_in_f32),
        cmocka_unit_test(a_train_step_is_near_that_in_f32),
        cmocka_unit_test(parameters_move_between_the_types),
        cmocka_unit_test(option_hook_and_field_set_it),
        cmocka_unit_test(training_in_f16_is_told),
        cmocka_unit_test(another_type_is_refused),
    };
    return cmocka_run_group_tests(tests, scratch_make, tear_down);
}
