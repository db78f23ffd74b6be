/* Metrics around the programs: the results that traced hooks add to a program, reading them back, and calls of host
 * hooks.
 * Not here: the passes that ask for them.
 */
#include "run/run_internal.h"

/* ---- results of a program --------------------------------------------------------------------------------------- */

/* A number needs no result; a tensor becomes the next one. */
static nt__reading add_result(nt__traced_metrics *out, const char *name, nt_tensor x) {
    if (x.trace == NT_NUMBER_MARK) return (nt__reading){-1, x.number};
    out->results[out->result_count] = (nt__result){.name = name, .value = x};
    return (nt__reading){(int)out->result_count++, 0};
}

nt_status nt__traced_metrics_keep(nt_run *run, const nt_device_metrics *reported, nt__traced_metrics *out) {
    *out = (nt__traced_metrics){.count = reported->count};
    out->items = nt__arena_alloc(&run->arena, reported->count + 1, sizeof *out->items);
    out->results = nt__arena_alloc(&run->arena, 2 * reported->count + 1, sizeof *out->results);
    if (!out->items || !out->results) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < reported->count; i++) {
        const nt__device_metric *from = &reported->items[i];
        const char *name = nt__arena_strdup(&run->arena, from->name);
        if (!name) return NT_OUT_OF_MEMORY;
        out->items[i] = (nt__traced_metric){.name = name, .combine = from->combine};
        out->items[i].value = add_result(out, name, from->value);
        out->items[i].count = add_result(out, name, from->count);
    }
    return NT_OK;
}

static nt_status read_number(nt_run *run, nt__reading from, nt__buffer *buffers, double *out) {
    *out = from.number;
    if (from.result < 0) return NT_OK;
    nt__buffer *buffer = &buffers[from.result];
    double element = 0;
    nt_status status = nt__buffer_read(run->engine, buffer, &element);
    if (status == NT_OK) *out = nt__element_get(buffer->type.dtype, &element);
    return status;
}

nt_status nt__traced_metrics_read(nt_run *run, const nt__traced_metrics *metrics, nt__buffer *buffers, nt_value *values,
                                  double *counts) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < metrics->count; i++) {
        values[i].name = metrics->items[i].name;
        status = read_number(run, metrics->items[i].value, buffers, &values[i].value);
        if (status == NT_OK && counts) status = read_number(run, metrics->items[i].count, buffers, &counts[i]);
    }
    return status;
}

/* ---- host hooks ------------------------------------------------------------------------------------------------- */

nt_status nt__call_host_hook(nt_run *run, nt__host_hook hook, const char *name, const nt_array *outputs,
                             nt__staged *staged, nt_metrics *into) {
    nt_array real = *outputs;
    real.bytes = real.bytes / (size_t)real.shape.dims[0] * (size_t)staged->rows;
    real.shape.dims[0] = staged->rows;
    nt__hook_begin(run->experiment, name);
    hook(run->fields, into, &real, staged->host);
    nt__hook_leave();
    /* A call of ours that failed inside the hook made a wrong value: a count of -1, an operation outside a trace. */
    nt_status failed = nt_error_status();
    nt_status status = nt__host_batch_status(staged->host);
    if (status == NT_OK) status = failed;
    return status == NT_OK ? NT_OK : nt__fail_in(status, "%s of %s", name, run->experiment->name);
}

/* ---- train metrics ---------------------------------------------------------------------------------------------- */

nt_status nt__step_metrics_begin(const nt_run *run, nt__step_metrics *metrics) {
    size_t own = run->settings.gradient_norm ? 2 : 1;
    *metrics = (nt__step_metrics){.own = own, .count = own + run->programs.train_metrics.count};
    metrics->values = nt__alloc(metrics->count, sizeof *metrics->values);
    if (metrics->values) metrics->values[NT__VALUE_LOSS].name = "loss";
    if (metrics->values && own > 1) metrics->values[NT__VALUE_NORM].name = "grad_norm";
    bool on_host = run->experiment->hooks.host_train_metrics && !run->settings.manual;
    if (on_host) metrics->outputs = nt_array_new(run->outputs_type.dtype, run->outputs_type.shape);
    bool right = metrics->values && (metrics->outputs || !on_host);
    return right ? NT_OK : NT_OUT_OF_MEMORY;
}

void nt__step_metrics_end(nt__step_metrics *metrics) {
    nt_array_free(metrics->outputs);
    nt__metrics_free(metrics->on_host);
    nt__free(metrics->values);
    *metrics = (nt__step_metrics){0};
}

/* The names belong to `on_host`, which lives until the next step. */
static nt_status take_host_values(nt__step_metrics *metrics) {
    size_t count = nt__metrics_count(metrics->on_host), own = metrics->own;
    nt_value *values = nt__realloc(metrics->values, own + count, sizeof *values);
    if (!values) return NT_OUT_OF_MEMORY;
    metrics->values = values;
    metrics->count = own + count;
    for (size_t i = 0; i < count; i++)
        values[own + i] = (nt_value){nt__metrics_name(metrics->on_host, i), nt__metrics_value(metrics->on_host, i)};
    return NT_OK;
}

static nt_status check_host_names(const nt_run *run, const nt_metrics *reported) {
    for (size_t i = 0; i < nt__metrics_count(reported); i++) {
        const char *name = nt__metrics_name(reported, i);
        if (!nt__is_own_metric(name)) continue;
        return nt__fail(NT_INVALID,
                        "host_train_metrics of %s: '%s' is a name of the run's own in the line of a step: give '%s' "
                        "another name",
                        run->experiment->name, name, name);
    }
    return NT_OK;
}

static nt_status call_on_host(nt_run *run, nt__step_metrics *metrics, nt__buffer *outputs, nt__staged *staged) {
    nt__metrics_free(metrics->on_host);
    metrics->count = metrics->own;
    metrics->on_host = nt__metrics_new();
    if (!metrics->on_host) return NT_OUT_OF_MEMORY;
    nt_status status = nt__buffer_read(run->engine, outputs, metrics->outputs->data);
    if (status == NT_OK)
        status = nt__call_host_hook(run, run->experiment->hooks.host_train_metrics, "host_train_metrics",
                                    metrics->outputs, staged, metrics->on_host);
    if (status == NT_OK) status = nt__metrics_end_batch(metrics->on_host);
    if (status == NT_OK) status = check_host_names(run, metrics->on_host);
    return status == NT_OK ? take_host_values(metrics) : status;
}

nt_status nt__step_metrics_read(nt_run *run, nt__step_metrics *metrics, nt__buffer *buffers, nt__staged *staged) {
    if (metrics->outputs) return call_on_host(run, metrics, buffers, staged);
    return nt__traced_metrics_read(run, &run->programs.train_metrics, buffers, metrics->values + metrics->own, NULL);
}
