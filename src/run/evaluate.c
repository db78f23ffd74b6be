/* One pass over a split without training: every batch at full size, results cut back to the real rows. */
#include <string.h>

#include "run/run_internal.h"

typedef struct evaluation {
    nt_run *run;
    const nt__split *split;
    nt__stream *stream;
    nt_array *outputs; /* host copy of a batch's outputs */
    bool inside;
} evaluation;

static nt__program *loss_program(const nt_run *run, int64_t rows) {
    for (size_t i = 0; i < run->loss_count; i++)
        if (run->losses[i].rows == rows) return run->losses[i].program;
    return NULL;
}

/* val_loss stands for missing metrics: the mean over samples, so that a short last batch counts for what it has. */
static nt_status substitute_loss(evaluation *ev, nt__staged *staged) {
    nt_run *run = ev->run;
    nt__program *program = loss_program(run, staged->rows);
    nt__buffer loss = {0}, *result = &loss;
    double element = 0;
    nt_status status = nt__launch(run, program, &run->evaluation_routes, staged, false, &result);
    if (status == NT_OK) status = nt__buffer_read(run->engine, &loss, &element);
    if (status == NT_OK) {
        double value = nt__element_get(loss.type.dtype, &element);
        nt_metric_mean(run->results, "val_loss", value * (double)staged->rows, (double)staged->rows);
    }
    nt__buffer_free(&loss);
    return status;
}

static nt_status call_metrics(evaluation *ev, nt__staged *staged) {
    nt_run *run = ev->run;
    nt_status status = nt__buffer_read(run->engine, &run->outputs, ev->outputs->data);
    if (status != NT_OK) return status;
    nt_array real = *ev->outputs;
    real.bytes = real.bytes / (size_t)real.shape.dims[0] * (size_t)staged->rows;
    real.shape.dims[0] = staged->rows;
    nt__fail_nothing();
    run->experiment->hooks.metrics(run->fields, run->results, &real, staged->host);
    /* A call of ours that failed inside the hook made a wrong value: a count of -1, an operation outside a trace. */
    nt_status failed = nt_error_status();
    status = nt__host_batch_status(staged->host);
    if (status == NT_OK) status = failed;
    return status == NT_OK ? NT_OK : nt__fail_in(status, "metrics of %s", run->experiment->name);
}

static nt_status batch(evaluation *ev, nt__staged *staged) {
    nt_run *run = ev->run;
    nt__buffer *result = &run->outputs;
    nt_status status = nt__launch(run, run->forward, &run->evaluation_routes, staged, false, &result);
    if (status == NT_OK && run->experiment->hooks.metrics) status = call_metrics(ev, staged);
    if (status == NT_OK && run->loss_count) status = substitute_loss(ev, staged);
    if (status == NT_OK) status = nt__metrics_end_batch(run->results);
    nt__buffer_free(&run->outputs);
    if (status != NT_OK)
        return nt__fail_in(status, "batch %lld of split '%s'", (long long)staged->index + 1, ev->split->name);
    nt__tell(run, &(nt_event){.kind = NT_EVENT_EVALUATING,
                              .epoch = run->epoch,
                              .max_epochs = run->settings.max_epochs,
                              .step = run->step,
                              .batch = staged->index + 1,
                              .batches = nt__split_batches(ev->split),
                              .split = ev->split->name});
    return NT_OK;
}

static nt_status pass(evaluation *ev) {
    nt_status status = NT_OK;
    while (status == NT_OK) {
        nt__staged *staged;
        if (!ev->inside && nt__stop_requested())
            return nt__fail(NT_INTERRUPTED, "evaluation of split '%s' stopped as asked", ev->split->name);
        status = nt__stream_next(ev->stream, &staged);
        if (status != NT_OK || !staged) break;
        status = batch(ev, staged);
        nt__staged_free(staged);
    }
    return status;
}

static nt_status keep_results(nt_run *run) {
    size_t count = nt__metrics_count(run->results);
    nt__free(run->result_values);
    run->result_values = nt__alloc(count + 1, sizeof *run->result_values);
    if (!run->result_values) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        run->result_values[i] = (nt_value){nt__metrics_name(run->results, i), nt__metrics_value(run->results, i)};
    return NT_OK;
}

static nt_status restart_results(nt_run *run) {
    nt_metrics *fresh = nt__metrics_new();
    if (!fresh) return NT_OUT_OF_MEMORY;
    nt__metrics_free(run->results);
    run->results = fresh;
    nt__free(run->result_values);
    run->result_values = NULL;
    return NT_OK;
}

nt_status nt__evaluate_split(nt_run *run, const nt__split *split, bool inside) {
    evaluation ev = {.run = run, .split = split, .inside = inside};
    nt__stream_options options = {.engine = run->engine,
                                  .fields = run->evaluation_routes.names,
                                  .field_count = run->evaluation_routes.count,
                                  .seed = (uint64_t)run->settings.seed,
                                  .epoch = run->epoch};
    nt_status status = restart_results(run);
    if (status != NT_OK) return status;
    ev.outputs = nt_array_new(run->outputs_type.dtype, run->outputs_type.shape);
    if (!ev.outputs) return NT_OUT_OF_MEMORY;
    status = nt__stream_open(split, &options, &ev.stream);
    if (status == NT_OK) {
        status = pass(&ev);
        nt__stream_close(ev.stream);
    }
    nt_array_free(ev.outputs);
    return status == NT_OK ? keep_results(run) : status;
}

nt_status nt_evaluate(nt_run *run, const char *split_name, nt_results *out) {
    nt_status idle = nt__check_idle(run, "nt_evaluate");
    if (idle != NT_OK) return idle;
    const nt__split *split = nt__data_split_find(run->data, split_name ? split_name : "test");
    if (!split)
        return nt__fail(NT_NOT_FOUND, "experiment '%s' has no split '%s'; its splits are: %s", run->experiment->name,
                        split_name ? split_name : "test", nt__data_split_names(run->data));
    run->busy = true;
    nt_status status = nt__evaluate_split(run, split, false);
    run->busy = false;
    if (status == NT_OK && out) out->values = nt__result_values(run, &out->count);
    return status;
}

nt_status nt_validate(nt_run *run, nt_results *out) {
    return nt_evaluate(run, "val", out);
}
