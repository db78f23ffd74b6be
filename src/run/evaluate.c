/* Passes over a split without training, and evaluations: each batch goes to the device at full size, and the program of
 * its real rows reads those.
 */
#include <math.h>
#include <string.h>

#include "run/run_internal.h"
#include "base/files.h"

/* ---- a pass ----------------------------------------------------------------------------------------------------- */

static nt_status each_batch(const nt__split *split, nt__stream *stream, nt__batch_function batch, void *context) {
    nt_status status = NT_OK;
    while (status == NT_OK) {
        nt__staged *staged;
        if (nt__stop_is_set()) return nt__fail(NT_INTERRUPTED, "split '%s': stopped as asked", split->name);
        status = nt__stream_next(stream, &staged);
        if (status != NT_OK || !staged) break;
        status = batch(context, staged);
        nt__staged_free(staged);
    }
    return status;
}

nt_status nt__pass_without_training(nt__resident *resident, const nt__split *split, const nt__routes *routes,
                                    nt__batch_function batch, void *context) {
    nt__stream *stream;
    nt_status status = nt__averages_begin(resident);
    if (status != NT_OK) return status;
    status = nt__device_stream(resident, split, routes, resident->epoch, 0, &stream);
    if (status == NT_OK) {
        status = each_batch(split, stream, batch, context);
        nt__stream_close(stream);
    }
    nt__averages_end(resident);
    return status;
}

/* ---- an evaluation ---------------------------------------------------------------------------------------------- */

typedef struct evaluation {
    nt_run *run;
    const nt__split *split;
    nt_array *outputs;  /* host copy of a batch's outputs; NULL: no hook reads them */
    double loss, count; /* sums over the batches: val_loss is their quotient */
    bool has_loss;
} evaluation;

static void fold(nt_metrics *into, const nt__traced_metric *metric, double value, double count) {
    switch (metric->combine) {
    case NT_COMBINE_MEAN: nt_metric_mean(into, metric->name, value, count); break;
    case NT_COMBINE_MAX: nt_metric_max(into, metric->name, value); break;
    case NT_COMBINE_MIN: nt_metric_min(into, metric->name, value); break;
    default: nt_metric_sum(into, metric->name, value); break;
    }
}

/* What device_metrics reported. */
static nt_status fold_metrics(nt_run *run, const nt__evaluation_program *from) {
    size_t count = from->metrics.count;
    nt__buffer *buffers = from->buffers + from->loss.result_count;
    nt_value *values = nt__alloc(count + 1, sizeof *values);
    double *counts = nt__alloc(count + 1, sizeof *counts);
    nt_status status = values && counts ? NT_OK : NT_OUT_OF_MEMORY;
    if (status == NT_OK) status = nt__traced_metrics_read(run->traced.engine, &from->metrics, buffers, values, counts);
    for (size_t i = 0; status == NT_OK && i < count; i++)
        fold(run->results, &from->metrics.items[i], values[i].value, counts[i]);
    nt__free(values);
    nt__free(counts);
    return status;
}

static nt_status add_loss(evaluation *ev, const nt__evaluation_program *from) {
    nt_value value;
    double count = 0;
    if (!from->loss.count) return NT_OK;
    nt_status status = nt__traced_metrics_read(ev->run->traced.engine, &from->loss, from->buffers, &value, &count);
    if (status != NT_OK) return status;
    ev->has_loss = true;
    ev->loss += value.value * from->weight;
    ev->count += count * from->weight;
    return NT_OK;
}

static nt_status call_metrics(const evaluation *ev, const nt__evaluation_program *from, nt__staged *staged) {
    nt_run *run = ev->run;
    if (from->outputs < 0) return NT_OK;
    nt_status status = nt__buffer_read(run->traced.engine, &from->buffers[from->outputs], ev->outputs->data);
    return status == NT_OK ? nt__call_host_hook(&run->task, run->task.experiment->hooks.metrics, "metrics", ev->outputs,
                                                staged, run->results)
                           : status;
}

/* One program, which is left out where all that is reported are C numbers; then what it says. */
static nt_status evaluate_batch(evaluation *ev, nt__staged *staged) {
    nt_run *run = ev->run;
    const nt__evaluation_program *from = nt__evaluation_program_find(&run->traced, staged->rows);
    nt_status status = NT_OK;
    if (!from) return status;
    if (from->program)
        status =
            nt__launch(&run->resident, from->program, &run->traced.routes.evaluation, staged, false, from->results);
    if (status == NT_OK) status = add_loss(ev, from);
    if (status == NT_OK) status = call_metrics(ev, from, staged);
    if (status == NT_OK) status = fold_metrics(run, from);
    for (size_t i = 0; i < from->result_count; i++) nt__buffer_free(&from->buffers[i]);
    return status;
}

static nt_status batch(void *context, nt__staged *staged) {
    evaluation *ev = context;
    nt_run *run = ev->run;
    nt__transfers_take(&run->resident, staged);
    nt_status status = evaluate_batch(ev, staged);
    if (status == NT_OK) status = nt__metrics_end_batch(run->results);
    if (status != NT_OK)
        return nt__fail_in(status, "batch %lld of split '%s'", (long long)staged->index + 1, ev->split->name);
    nt__tell(&run->task, &(nt_event){.kind = NT_EVENT_EVALUATING,
                                     .epoch = run->resident.epoch,
                                     .max_epochs = run->task.settings.max_epochs,
                                     .step = run->resident.step,
                                     .batch = staged->index + 1,
                                     .batches = nt__split_batches(ev->split),
                                     .split = ev->split->name});
    return NT_OK;
}

static bool has_own_loss(const nt_metrics *metrics) {
    for (size_t i = 0; i < nt__metrics_count(metrics); i++)
        if (strcmp(nt__metrics_name(metrics, i), NT__VAL_LOSS) == 0) return true;
    return false;
}

/* What the hooks report, then val_loss, unless one of them reports its own. */
static nt_status keep_results(const evaluation *ev) {
    nt_run *run = ev->run;
    size_t count = nt__metrics_count(run->results);
    nt_value *values = nt__alloc(count + 1, sizeof *values);
    if (!values) return NT_OUT_OF_MEMORY;
    nt__results_forget(run);
    run->result_values = values;
    for (size_t i = 0; i < count; i++)
        values[i] = (nt_value){nt__metrics_name(run->results, i), nt__metrics_value(run->results, i)};
    if (ev->has_loss && !has_own_loss(run->results))
        values[count++] = (nt_value){NT__VAL_LOSS, ev->count > 0 ? ev->loss / ev->count : NAN};
    run->result_count = count;
    return NT_OK;
}

/* Those of the pass before. */
void nt__results_forget(nt_run *run) {
    nt__free(run->result_values);
    run->result_values = NULL;
    run->result_count = 0;
}

static nt_status restart_results(nt_run *run) {
    nt_metrics *fresh = nt__metrics_new();
    if (!fresh) return NT_OUT_OF_MEMORY;
    nt__metrics_free(run->results);
    run->results = fresh;
    nt__results_forget(run);
    return NT_OK;
}

const nt_value *nt__result_values(const nt_run *run, size_t *count) {
    *count = run->result_count;
    return run->result_values;
}

static nt_status tell_transfers(const evaluation *ev) {
    char *what = nt__sprintf("an evaluation of split '%s'", ev->split->name);
    nt_status status = what ? nt__transfers_tell(&ev->run->resident, what) : NT_OUT_OF_MEMORY;
    nt__free(what);
    return status;
}

nt_status nt__evaluate_split(nt_run *run, const nt__split *split) {
    evaluation ev = {.run = run, .split = split};
    nt_status status = restart_results(run);
    if (status != NT_OK) return status;
    bool reads_outputs = run->task.experiment->hooks.metrics != NULL;
    if (reads_outputs) ev.outputs = nt_array_new(run->traced.outputs_type.dtype, run->traced.outputs_type.shape);
    if (reads_outputs && !ev.outputs) return NT_OUT_OF_MEMORY;
    status = nt__pass_without_training(&run->resident, split, &run->traced.routes.evaluation, batch, &ev);
    nt_array_free(ev.outputs);
    if (status == NT_OK) status = tell_transfers(&ev);
    return status == NT_OK ? keep_results(&ev) : status;
}

static nt_status evaluate(nt_run *run, const char *split_name, nt_results *out) {
    nt_status status = nt__check_has_data(&run->task, "evaluate");
    if (status != NT_OK) return status;
    const nt__split *split = nt__data_split_find(run->traced.data, split_name);
    if (!split)
        return nt__fail(NT_NOT_FOUND, "experiment '%s' has no split '%s'; its splits are: %s",
                        run->task.experiment->name, split_name, nt__data_split_names(run->traced.data));
    status = nt__drift_tell(&run->reporting, false);
    if (status != NT_OK) return status;
    nt__transfers_begin(&run->resident);
    status = nt__evaluate_split(run, split);
    nt__transfers_end(&run->task);
    if (status == NT_OK && out) out->values = nt__result_values(run, &out->count);
    return status;
}

nt_status nt_evaluate(nt_run *run, const char *split, nt_results *out) {
    NT__USE_ALONE(run, "nt_evaluate");
    return used ? evaluate(run, split ? split : "test", out) : NT_INVALID;
}

nt_status nt_validate(nt_run *run, nt_results *out) {
    NT__USE_ALONE(run, "nt_validate");
    return used ? evaluate(run, "val", out) : NT_INVALID;
}
