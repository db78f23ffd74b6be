/* Values of a step for its listener and its log: those of train_metrics and host_train_metrics; and calls of host
 * hooks. Not here: results of programs (traced_metrics.c).
 */
#include "run/run_internal.h"

/* ---- host hooks ------------------------------------------------------------------------------------------------- */

nt_status nt__call_host_hook(nt__task *task, nt__host_hook hook, const char *name, const nt_array *outputs,
                             nt__staged *staged, nt_metrics *into) {
    nt_array real = *outputs;
    real.bytes = real.bytes / (size_t)real.shape.dims[0] * (size_t)staged->rows;
    real.shape.dims[0] = staged->rows;
    nt__hook_begin(task->experiment, name);
    hook(task->fields, into, &real, staged->host);
    nt__hook_leave();
    /* A call of ours that failed inside the hook made a wrong value: a count of -1, an operation outside a trace. */
    nt_status failed = nt_error_status();
    nt_status status = nt__host_batch_status(staged->host);
    if (status == NT_OK) status = failed;
    return status == NT_OK ? NT_OK : nt__fail_in(status, "%s of %s", name, task->experiment->name);
}

/* ---- train metrics ---------------------------------------------------------------------------------------------- */

nt_status nt__step_metrics_begin(const nt__traced *traced, nt__step_metrics *metrics) {
    size_t own = traced->task->settings.gradient_norm ? 2 : 1;
    *metrics = (nt__step_metrics){.own = own, .count = own + traced->programs.train_metrics.count};
    metrics->values = nt__alloc(metrics->count, sizeof *metrics->values);
    if (metrics->values) metrics->values[NT__VALUE_LOSS].name = "loss";
    if (metrics->values && own > 1) metrics->values[NT__VALUE_NORM].name = "grad_norm";
    bool on_host = traced->task->experiment->hooks.host_train_metrics && !traced->task->settings.manual;
    if (on_host) metrics->outputs = nt_array_new(traced->outputs_type.dtype, traced->outputs_type.shape);
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

static nt_status check_host_names(const nt__task *task, const nt_metrics *reported) {
    for (size_t i = 0; i < nt__metrics_count(reported); i++) {
        const char *name = nt__metrics_name(reported, i);
        if (!nt__is_own_metric(name)) continue;
        return nt__fail(NT_INVALID,
                        "host_train_metrics of %s: '%s' is a name of the run's own in the line of a step: give '%s' "
                        "another name",
                        task->experiment->name, name, name);
    }
    return NT_OK;
}

static nt_status call_on_host(nt__traced *traced, nt__step_metrics *metrics, nt__buffer *outputs, nt__staged *staged) {
    nt__metrics_free(metrics->on_host);
    metrics->count = metrics->own;
    metrics->on_host = nt__metrics_new();
    if (!metrics->on_host) return NT_OUT_OF_MEMORY;
    nt_status status = nt__buffer_read(traced->engine, outputs, metrics->outputs->data);
    if (status == NT_OK)
        status = nt__call_host_hook(traced->task, traced->task->experiment->hooks.host_train_metrics,
                                    "host_train_metrics", metrics->outputs, staged, metrics->on_host);
    if (status == NT_OK) status = nt__metrics_end_batch(metrics->on_host);
    if (status == NT_OK) status = check_host_names(traced->task, metrics->on_host);
    return status == NT_OK ? take_host_values(metrics) : status;
}

nt_status nt__step_metrics_read(nt__traced *traced, nt__step_metrics *metrics, nt__buffer *buffers,
                                nt__staged *staged) {
    if (metrics->outputs) return call_on_host(traced, metrics, buffers, staged);
    return nt__traced_metrics_read(traced->engine, &traced->programs.train_metrics, buffers,
                                   metrics->values + metrics->own, NULL);
}
