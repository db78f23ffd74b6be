/* NULL where a public function does not take one: an error with the call's and the argument's name, never a crash. And
 * hooks that return no tensor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "metric/metric.h"
#include "data/data_internal.h"
#include "graph/graph.h"
#include "nn/nn.h"
#include "toy.h"

/* ---- calls of host code ----------------------------------------------------------------------------------------- */

static nt_run *run;
static nt_data *data;
static nt_metrics *metrics;
static nt_array *array;
static nt_arrays *arrays;
static nt_host_batch *host_batch;

/* Each makes the call and returns its status: what it returned, or, of a call that returns none, the thread's. */
#define RETURNS(name, call)       \
    static nt_status name(void) { \
        return call;              \
    }
#define SETS(name, call)          \
    static nt_status name(void) { \
        (void)(call);             \
        return nt_error_status(); \
    }

SETS(array_from, nt_array_from(NT_F32, nt_dims(2), NULL))
SETS(array_get, isnan(nt_array_get(NULL, 0)))
SETS(array_set, (nt_array_set(NULL, 0, 1), 0))
SETS(idx_read, nt_idx_read("folder", NULL))
SETS(npy_read, nt_npy_read(NULL))
RETURNS(npy_write, nt_npy_write(NULL, array))
RETURNS(npy_write_array, nt_npy_write("file", NULL))
RETURNS(split_data, nt_split(NULL, "train", .batch = 1))
RETURNS(split_name, nt_split(data, NULL, .batch = 1))
RETURNS(source_data, nt_split_source(NULL, "train", (nt_source){.rows = 1}))
RETURNS(source_split, nt_split_source(data, NULL, (nt_source){.name = "rows", .rows = 1}))
RETURNS(field_data, nt_split_field(NULL, "train", "x", nt_array_new(NT_F32, nt_dims(2))))
RETURNS(field_split, nt_split_field(data, NULL, "x", nt_array_new(NT_F32, nt_dims(2))))
RETURNS(field_name, nt_split_field(data, "train", NULL, nt_array_new(NT_F32, nt_dims(2))))
RETURNS(data_status, nt_data_status(NULL))
SETS(host_field_batch, nt_host_field(NULL, "x"))
SETS(host_field_name, nt_host_field(host_batch, NULL))
SETS(mean, (nt_metric_mean(NULL, "a", 1, 1), 0))
SETS(mean_name, (nt_metric_mean(metrics, NULL, 1, 1), 0))
SETS(sum, (nt_metric_sum(NULL, "a", 1), 0))
SETS(sum_name, (nt_metric_sum(metrics, NULL, 1), 0))
SETS(max, (nt_metric_max(NULL, "a", 1), 0))
SETS(max_name, (nt_metric_max(metrics, NULL, 1), 0))
SETS(min, (nt_metric_min(NULL, "a", 1), 0))
SETS(min_name, (nt_metric_min(metrics, NULL, 1), 0))
SETS(accuracy, (nt_metric_accuracy(NULL, "a", array, array), 0))
SETS(accuracy_scores, (nt_metric_accuracy(metrics, "a", NULL, array), 0))
SETS(count_scores, nt_count_correct(NULL, array))
SETS(count_labels, nt_count_correct(array, NULL))
SETS(register_experiment, (nt_experiment_register(NULL), 0))
SETS(find_experiment, nt_experiment_find(NULL))
RETURNS(new_experiment, nt_run_new(NULL, NULL, NULL, &(nt_run *){NULL}))
RETURNS(new_out, nt_run_new(Toy_experiment(), NULL, NULL, NULL))
RETURNS(train, nt_train(NULL))
RETURNS(evaluate, nt_evaluate(NULL, "val", NULL))
RETURNS(validate, nt_validate(NULL, NULL))
RETURNS(predict, nt_predict(NULL, &(nt_named_array){"x", array}, 1, &(nt_array *){NULL}))
RETURNS(predict_fields, nt_predict(run, NULL, 1, &(nt_array *){NULL}))
RETURNS(predict_out, nt_predict(run, &(nt_named_array){"x", array}, 1, NULL))
SETS(run_step, nt_run_step(NULL) == -1 ? 0 : nt__fail_in(NT_IO, "not -1"))
SETS(run_epoch, nt_run_epoch(NULL) == -1 ? 0 : nt__fail_in(NT_IO, "not -1"))
SETS(run_dir, nt_run_dir(NULL))
SETS(has_split, nt_run_has_split(NULL, "val"))
SETS(has_split_name, nt_run_has_split(run, NULL))
SETS(parameter, nt_run_parameter(NULL, "hidden.weight"))
SETS(parameter_path, nt_run_parameter(run, NULL))
SETS(state_run, nt_run_state(NULL, "seen"))
SETS(state_path, nt_run_state(run, NULL))
SETS(state_at, nt_run_state_at(NULL, 0, &(nt_state_info){0}))
SETS(state_at_out, nt_run_state_at(run, 0, NULL))
RETURNS(save, nt_run_save(NULL, "file"))
RETURNS(save_path, nt_run_save(run, NULL))
RETURNS(load, nt_run_load(NULL, "file"))
RETURNS(load_path, nt_run_load(run, NULL))
SETS(set_device, nt_set_device((nt_run *)NULL, "smoothing", 1))
SETS(set_device_field, nt_set_device(run, NULL, 1))
SETS(set_device_value, nt_set_device(run, "smoothing", (nt_array *)NULL))
SETS(get_device, nt_get_device(NULL, "smoothing"))
SETS(get_device_field, nt_get_device(run, NULL))
RETURNS(print_run, nt_run_print(NULL, NT_LINE, stderr))
RETURNS(print_run_out, nt_run_print(run, NT_LINE, NULL))
RETURNS(summary_run, nt_run_summary(NULL, stderr))
RETURNS(summary_run_out, nt_run_summary(run, NULL))
RETURNS(report_run, nt_run_report(NULL, stderr))
RETURNS(report_run_out, nt_run_report(run, NULL))
RETURNS(print_experiment, nt_experiment_print(NULL, &data, NT_LINE, stderr))
RETURNS(print_fields, nt_experiment_print(Toy_experiment(), NULL, NT_LINE, stderr))
RETURNS(print_out, nt_experiment_print(Toy_experiment(), &(Toy){0}, NT_LINE, NULL))
RETURNS(preset, nt_preset(NULL, "a", &(Toy){0}))
RETURNS(preset_name, nt_preset(Toy_experiment(), NULL, &(Toy){0}))
RETURNS(preset_fields, nt_preset(Toy_experiment(), "a", NULL))
SETS(data_array, nt_data_array(NULL, "train", "x"))
SETS(data_array_split, nt_data_array(data, NULL, "x"))
SETS(data_rows, nt_data_rows(NULL, "train"))
RETURNS(arrays_put, nt_arrays_put(NULL, "a", nt_array_new(NT_F32, nt_dims(2))))
SETS(arrays_find, nt_arrays_find(NULL, "a"))
SETS(arrays_count, nt_arrays_count(NULL))
SETS(arrays_name, nt_arrays_name(NULL, 0))
SETS(arrays_at, nt_arrays_at(NULL, 0))
RETURNS(stats, nt_stats_write(NULL))
RETURNS(put_set, nt_arrays_put(NULL, "a", nt_array_retain(array)))
RETURNS(put_name, nt_arrays_put(arrays, NULL, nt_array_retain(array)))
SETS(find_set, nt_arrays_find(NULL, "a"))
SETS(find_name, nt_arrays_find(arrays, NULL))
SETS(count_set, nt_arrays_count(NULL))
SETS(name_set, nt_arrays_name(NULL, 0))
SETS(at_set, nt_arrays_at(NULL, 0))
SETS(parameter_at, nt_run_parameter_at(NULL, 0, &(nt_parameter_info){0}))
SETS(parameter_at_out, nt_run_parameter_at(run, 0, NULL))
SETS(schedule, (nt_schedule_set(NULL, "learning_rate", nt_schedule_constant(1)), 0))

static const struct {
    nt_status (*call)(void);
    const char *message; /* the end of the message */
} rows[] = {
    {array_from, "nt_array_from: data is NULL"},
    {array_get, "nt_array_get: array is NULL"},
    {array_set, "nt_array_set: array is NULL"},
    {idx_read, "nt_idx_read: file is NULL"},
    {npy_read, "nt_npy_read: path is NULL"},
    {npy_write, "nt_npy_write: path is NULL"},
    {npy_write_array, "nt_npy_write: array is NULL"},
    {split_data, "nt_split: data is NULL"},
    {split_name, "nt_split: name is NULL"},
    {source_data, "nt_split_source: data is NULL"},
    {source_split, "nt_split_source: split is NULL"},
    {field_data, "nt_split_field: data is NULL"},
    {field_split, "nt_split_field: split is NULL"},
    {field_name, "nt_split_field: field is NULL"},
    {data_status, "nt_data_status: data is NULL"},
    {host_field_batch, "nt_host_field: batch is NULL"},
    {host_field_name, "nt_host_field: field is NULL"},
    {mean, "nt_metric_mean: metrics is NULL"},
    {mean_name, "nt_metric_mean: name is NULL"},
    {sum, "nt_metric_sum: metrics is NULL"},
    {sum_name, "nt_metric_sum: name is NULL"},
    {max, "nt_metric_max: metrics is NULL"},
    {max_name, "nt_metric_max: name is NULL"},
    {min, "nt_metric_min: metrics is NULL"},
    {min_name, "nt_metric_min: name is NULL"},
    {accuracy, "nt_metric_accuracy: metrics is NULL"},
    {accuracy_scores, "nt_count_correct: scores is NULL"},
    {count_scores, "nt_count_correct: scores is NULL"},
    {count_labels, "nt_count_correct: labels is NULL"},
    {register_experiment, "nt_experiment_register: experiment is NULL"},
    {find_experiment, "nt_experiment_find: name is NULL"},
    {new_experiment, "nt_run_new: experiment is NULL; E_experiment() of NT_DEFINE(E, ...) is one"},
    {new_out, "nt_run_new: out is NULL"},
    {train, "nt_train: run is NULL"},
    {evaluate, "nt_evaluate: run is NULL"},
    {validate, "nt_validate: run is NULL"},
    {predict, "nt_predict: run is NULL"},
    {predict_fields, "nt_predict: fields is NULL"},
    {predict_out, "nt_predict: out is NULL"},
    {run_step, "nt_run_step: run is NULL"},
    {run_epoch, "nt_run_epoch: run is NULL"},
    {run_dir, "nt_run_dir: run is NULL"},
    {has_split, "nt_run_has_split: run is NULL"},
    {has_split_name, "nt_run_has_split: split is NULL"},
    {parameter, "nt_run_parameter: run is NULL"},
    {parameter_path, "nt_run_parameter: path is NULL"},
    {state_run, "nt_run_state: run is NULL"},
    {state_path, "nt_run_state: path is NULL"},
    {state_at, "nt_run_state_at: run is NULL"},
    {state_at_out, "nt_run_state_at: out is NULL"},
    {save, "nt_run_save: run is NULL"},
    {save_path, "nt_run_save: path is NULL"},
    {load, "nt_run_load: run is NULL"},
    {load_path, "nt_run_load: path is NULL"},
    {set_device, "nt_set_device: run is NULL"},
    {set_device_field, "nt_set_device: field is NULL"},
    {set_device_value, "nt_set_device: value is NULL"},
    {get_device, "nt_get_device: run is NULL"},
    {get_device_field, "nt_get_device: field is NULL"},
    {print_run, "nt_run_print: run is NULL"},
    {print_run_out, "nt_run_print: out is NULL"},
    {summary_run, "nt_run_summary: run is NULL"},
    {summary_run_out, "nt_run_summary: out is NULL"},
    {report_run, "nt_run_report: run is NULL"},
    {report_run_out, "nt_run_report: out is NULL"},
    {print_experiment, "nt_experiment_print: experiment is NULL"},
    {print_fields, "nt_experiment_print: fields is NULL"},
    {print_out, "nt_experiment_print: out is NULL"},
    {preset, "nt_preset: experiment is NULL"},
    {preset_name, "nt_preset: name is NULL"},
    {preset_fields, "nt_preset: fields is NULL"},
    {data_array, "nt_data_array: data is NULL"},
    {data_array_split, "nt_data_array: split is NULL"},
    {data_rows, "nt_data_rows: data is NULL"},
    {arrays_put, "nt_arrays_put: set is NULL"},
    {arrays_find, "nt_arrays_find: set is NULL"},
    {arrays_count, "nt_arrays_count: set is NULL"},
    {arrays_name, "nt_arrays_name: set is NULL"},
    {arrays_at, "nt_arrays_at: set is NULL"},
    {stats, "nt_stats_write: path is NULL"},
    {put_set, "nt_arrays_put: set is NULL"},
    {put_name, "nt_arrays_put: name is NULL"},
    {find_set, "nt_arrays_find: set is NULL"},
    {find_name, "nt_arrays_find: name is NULL"},
    {count_set, "nt_arrays_count: set is NULL"},
    {name_set, "nt_arrays_name: set is NULL"},
    {at_set, "nt_arrays_at: set is NULL"},
    {parameter_at, "nt_run_parameter_at: run is NULL"},
    {parameter_at_out, "nt_run_parameter_at: out is NULL"},
    {schedule, "nt_schedule_set: schedules is NULL"},
};

/* Calls that keep their first error get new ones to keep it in. */
static void make_keepers(void) {
    data = nt__data_new();
    metrics = nt__metrics_new();
    assert_non_null(data);
    assert_non_null(metrics);
}

static void assert_message_ends_in(const char *wanted) {
    const char *message = nt_error_message();
    size_t length = strlen(message), end = strlen(wanted);
    if (length < end || strcmp(message + length - end, wanted) != 0) fail_msg("'%s', wanted '%s'", message, wanted);
}

static void host_calls_name_what_is_null(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run_options options = quiet_options(NULL);
    assert_ok(nt_run_new(Toy_experiment(), &e, &options, &run));
    array = nt_array_new(NT_F32, nt_dims(2, 2));
    arrays = nt_arrays_new();
    assert_non_null(arrays);
    assert_non_null(array);
    nt_data *splits = nt__data_new();
    assert_ok(nt_split(splits, "val", .batch = 2));
    assert_ok(nt_split_field(splits, "val", "x", nt_array_retain(array)));
    host_batch = nt__host_batch_new(nt__data_split_find(splits, "val"), &(nt__rows){.count = 2});
    assert_non_null(host_batch);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_keepers();
        nt__fail_nothing();
        nt_status status = rows[i].call();
        if (status != NT_INVALID) fail_msg("'%s': %s", rows[i].message, nt_status_name(status));
        assert_message_ends_in(rows[i].message);
        nt__data_free(data);
        nt__metrics_free(metrics);
    }
    nt__host_batch_free(host_batch);
    nt__data_free(splits);
    nt_array_free(array);
    nt_arrays_free(arrays);
    nt_run_free(run);
}

/* An array that could not be read is passed on with its own message. */
static void what_may_be_null_is_no_error(void **state) {
    (void)state;
    nt__fail(NT_IO, "the reason");
    assert_null(nt_array_retain(NULL));
    nt_array_free(NULL);
    nt_run_free(NULL);
    assert_string_equal(nt_error_message(), "the reason");
}

/* ---- calls of traced hooks: the error is kept, with the place of the call --------------------------------------- */

static nt_model *model;
static nt_batch *batch;

static nt_tensor field_of_nothing(void) {
    return nt_field(NULL, "x");
}
static nt_tensor field_without_name(void) {
    return nt_field(batch, NULL);
}
static nt_tensor parameter_of_nothing(void) {
    return nt_parameter(NULL, "w", nt_dims(2));
}
static nt_tensor parameter_without_name(void) {
    return nt_parameter(model, NULL, nt_dims(2));
}
static nt_tensor dense_of_nothing(void) {
    return nt_dense(NULL, "layer", nt_full(NT_F32, nt_dims(2, 2), 1), 3);
}
static nt_tensor dense_without_name(void) {
    return nt_dense(model, NULL, nt_full(NT_F32, nt_dims(2, 2), 1), 3);
}
static nt_tensor key_of_nothing(void) {
    return nt_random_key(NULL, "a");
}

static nt_tensor key_without_name(void) {
    return nt_random_key(model, NULL);
}

static nt_tensor dropout_of_nothing(void) {
    return nt_dropout(NULL, "a", nt_tensor_number(1), 0.5);
}

static nt_tensor mode_of_nothing(void) {
    assert_false(nt_is_training(NULL));
    return nt__failed();
}

static nt_tensor state_of_nothing(void) {
    return nt_state(NULL, "a", nt_dims(2));
}

static nt_tensor state_without_name(void) {
    return nt_state(model, NULL, nt_dims(2));
}

static nt_tensor set_nothing(void) {
    nt_state_set(NULL, "a", nt__failed());
    return nt__failed();
}

static nt_tensor scope_of_nothing(void) {
    NT_SCOPE(NULL, "block") return (nt_tensor){0};
    return nt_full(NT_F32, nt_dims(2), 1);
}
static nt_tensor leave_nothing(void) {
    nt_scope_leave(NULL);
    return nt_full(NT_F32, nt_dims(2), 1);
}
static nt_tensor reuse_of_nothing(void) {
    NT_REUSE(NULL) return (nt_tensor){0};
    return nt_full(NT_F32, nt_dims(2), 1);
}
static nt_tensor end_reuse_of_nothing(void) {
    nt_reuse_leave(NULL);
    return nt_full(NT_F32, nt_dims(2), 1);
}
static nt_tensor grads_of_nothing(void) {
    nt_tensor x = nt_full(NT_F32, nt_dims(2), 1);
    return nt_parameter_grads(NULL, nt_sum(x), "").content ? x : nt_full(NT_F32, nt_dims(2), 1);
}
static nt_tensor set_of_nothing(void) {
    nt_named_tensors(NULL, NULL, 0);
    return nt_full(NT_F32, nt_dims(2), 1);
}
static nt_tensor constant_of_nothing(void) {
    return nt_constant(NULL);
}

static void traced_calls_name_what_is_null(void **state) {
    (void)state;
    static const struct {
        nt_tensor (*call)(void);
        const char *message;
    } traced[] = {
        {field_of_nothing, "in field_of_nothing: field: batch is NULL"},
        {field_without_name, "in field_without_name: field: name is NULL"},
        {parameter_of_nothing, "in parameter_of_nothing: parameter: m is NULL"},
        {parameter_without_name, "in parameter_without_name: parameter: name is NULL"},
        {dense_of_nothing, "in dense_of_nothing: dense: m is NULL"},
        {dense_without_name, "in dense_without_name: dense: name is NULL"},
        {key_of_nothing, "in key_of_nothing: random_key: m is NULL"},
        {key_without_name, "in key_without_name: random_key: name is NULL"},
        {dropout_of_nothing, "in dropout_of_nothing: dropout: m is NULL"},
        {mode_of_nothing, "in mode_of_nothing: is_training: m is NULL"},
        {state_of_nothing, "in state_of_nothing: state: m is NULL"},
        {state_without_name, "in state_without_name: state: name is NULL"},
        {set_nothing, "in set_nothing: state_set: m is NULL"},
        {scope_of_nothing, "in scope_of_nothing: scope: m is NULL"},
        {leave_nothing, "scope: m is NULL"},
        {reuse_of_nothing, "in reuse_of_nothing: reuse: m is NULL"},
        {end_reuse_of_nothing, "reuse: m is NULL"},
        {grads_of_nothing, "in grads_of_nothing: parameter_grads: m is NULL"},
        {set_of_nothing, "in set_of_nothing: named_tensors: names is NULL"},
        {constant_of_nothing, "in constant_of_nothing: constant: array is NULL: was it not read or made?"},
    };
    static nt_batch fields;
    batch = &fields;
    for (size_t i = 0; i < sizeof traced / sizeof *traced; i++) {
        nt__graph *graph = nt__trace_begin();
        model = nt__model_new((nt__model_roles){0});
        assert_non_null(graph);
        assert_non_null(model);
        nt__model_begin(model, true, NULL);
        assert_true(nt__tensor_failed(traced[i].call()));
        assert_int_equal(nt__trace_status(graph), NT_INVALID);
        assert_message_ends_in(traced[i].message);
        nt__model_free(model);
        nt__trace_end(graph);
    }
}

/* ---- hooks that return no tensor -------------------------------------------------------------------------------- */

static nt_tensor returns_zeros(const void *view, nt_model *m, nt_batch *b) {
    (void)view;
    nt_dense(m, "logits", nt_field(b, "x"), 2);
    return (nt_tensor){0};
}

/* What a variable holds that was never set. */
static nt_tensor returns_anything(const void *view, nt_model *m, nt_batch *b) {
    returns_zeros(view, m, b);
    nt_tensor anything;
    memset(&anything, 0x5a, sizeof anything);
    return anything;
}

static nt_tensor returns_a_number(const void *view, nt_model *m, nt_batch *b) {
    returns_zeros(view, m, b);
    return nt_tensor_number(3);
}

static nt_tensor loss_returns_zeros(const void *view, nt_tensor outputs, nt_batch *b) {
    (void)view;
    nt_cross_entropy(outputs, nt_field(b, "label"));
    return (nt_tensor){0};
}

static nt_tensor returns_a_scalar(const void *view, nt_model *m, nt_batch *b) {
    (void)view;
    return nt_sum(nt_dense(m, "logits", nt_field(b, "x"), 2));
}

static void a_hook_that_returns_no_tensor_is_named(void **state) {
    (void)state;
    static nt_tensor (*const forwards[])(const void *, nt_model *, nt_batch *) = {returns_zeros, returns_anything,
                                                                                  returns_a_number};
    nt_run_options options = quiet_options(NULL);
    nt_run *none;
    for (size_t i = 0; i < sizeof forwards / sizeof *forwards; i++) {
        nt_experiment wrong = *Toy_experiment();
        wrong.hooks.forward = forwards[i];
        assert_fails(nt_run_new(&wrong, NULL, &options, &none), NT_INVALID,
                     "toy.h: forward of Toy: it returned no tensor: what came back is not the result of an operation");
    }
    nt_experiment wrong = *Toy_experiment();
    wrong.hooks.loss = loss_returns_zeros;
    assert_fails(nt_run_new(&wrong, NULL, &options, &none), NT_INVALID, "toy.h: loss of Toy: it returned no tensor");
}

/* The loss would find fault with it in words that lead nowhere. */
static void outputs_without_the_axis_of_samples_are_named_before_the_loss(void **state) {
    (void)state;
    nt_run_options options = quiet_options(NULL);
    nt_run *none;
    nt_experiment wrong = *Toy_experiment();
    wrong.hooks.forward = returns_a_scalar;
    assert_fails(nt_run_new(&wrong, NULL, &options, &none), NT_INVALID,
                 "toy.h: forward returned f32[]; axis 0 of the outputs must be the 16 samples of the batch");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_calls_name_what_is_null),
        cmocka_unit_test(what_may_be_null_is_no_error),
        cmocka_unit_test(traced_calls_name_what_is_null),
        cmocka_unit_test(a_hook_that_returns_no_tensor_is_named),
        cmocka_unit_test(outputs_without_the_axis_of_samples_are_named_before_the_loss),
    };
    return cmocka_run_group_tests_name("null", tests, NULL, shut_down);
}
