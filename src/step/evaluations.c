/* The programs of evaluations: forward, the loss and what device_metrics reports in one trace, one for each number of
 * real rows that a batch of the splits has. So forward sees the rows that there are and no others, and a gradient with
 * respect to a field of the batch is that of what training computes. A forward that is written for full batches alone
 * is given one, filled up with copies, where these cannot change what belongs to the real rows.
 * Not here: the passes that run them (evaluate.c).
 */
#include <string.h>

#include "step/tracing.h"

const nt__evaluation_program *nt__evaluation_program_find(const nt__traced *traced, int64_t rows) {
    for (size_t i = 0; i < traced->programs.evaluation_count; i++)
        if (traced->programs.evaluations[i].rows == rows) return &traced->programs.evaluations[i];
    return NULL;
}

/* ---- what one reports ------------------------------------------------------------------------------------------- */

static bool reports(const nt_device_metrics *reported, const char *name) {
    for (size_t i = 0; i < reported->count; i++)
        if (strcmp(reported->items[i].name, name) == 0) return true;
    return false;
}

/* The mean over samples, so that a short last batch counts for what it has; of a weighted loss, sum and count. */
static void report_loss(nt__tracing *t, nt__evaluation_program *added, nt_device_metrics *reported) {
    nt_tensor loss = nt__tracing_loss(t);
    added->weight = t->loss.value.trace ? 1 : (double)added->rows;
    if (t->loss.value.trace)
        nt_device_mean(reported, NT__VAL_LOSS, t->loss.sum, t->loss.count);
    else
        nt_device_mean(reported, NT__VAL_LOSS, loss, 1);
}

/* Whether there is anything that evaluations compute. */
static bool is_needed(const nt__task *task) {
    const nt_hooks *hooks = &task->experiment->hooks;
    return hooks->metrics || hooks->device_metrics || (hooks->loss && task->settings.val_loss);
}

/* Calls the hooks and keeps what they report. A val_loss of the user's takes the place of the loss. */
static nt_status report(nt__tracing *t, nt__evaluation_program *added) {
    nt__traced *traced = t->traced;
    const nt_hooks *hooks = &traced->task->experiment->hooks;
    nt_device_metrics loss = {.combined = true}, metrics = {.combined = true};
    if (hooks->device_metrics) {
        nt__tracing_hook_begin(t, "device_metrics");
        hooks->device_metrics(traced->task->view, &metrics, t->outputs, &traced->batch);
        nt__tracing_hook_end(t, "device_metrics");
    }
    if (hooks->loss && traced->task->settings.val_loss && !reports(&metrics, NT__VAL_LOSS))
        report_loss(t, added, &loss);
    nt_status status = nt__trace_status(t->graph);
    if (status == NT_OK) status = nt__tracing_check_claims(t);
    if (status == NT_OK) status = nt__traced_metrics_keep(&traced->task->arena, &loss, &added->loss);
    if (status == NT_OK) status = nt__traced_metrics_keep(&traced->task->arena, &metrics, &added->metrics);
    nt__device_metrics_free(&loss);
    nt__device_metrics_free(&metrics);
    return status;
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static nt_status bind_results(nt__task *task, nt__evaluation_program *added, size_t count) {
    added->buffers = nt__arena_alloc(&task->arena, count + 1, sizeof *added->buffers);
    added->results = nt__arena_alloc(&task->arena, count + 1, sizeof *added->results);
    if (!added->buffers || !added->results) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) added->results[i] = &added->buffers[i];
    return NT_OK;
}

/* The loss, the metrics, then the outputs where a hook on the host reads them. */
static size_t list_results(const nt__tracing *t, nt__evaluation_program *added, nt__result *results) {
    size_t count = 0;
    for (size_t i = 0; i < added->loss.result_count; i++) results[count++] = added->loss.results[i];
    for (size_t i = 0; i < added->metrics.result_count; i++) results[count++] = added->metrics.results[i];
    added->outputs = t->traced->task->experiment->hooks.metrics ? (int)count : -1;
    if (added->outputs >= 0) results[count++] = (nt__result){.name = "outputs", .value = t->outputs};
    return count;
}

static nt_status finish(nt__tracing *t, nt__evaluation_program *added) {
    size_t most = added->loss.result_count + added->metrics.result_count + 1;
    nt__result *results = nt__arena_alloc(&t->arena, most, sizeof *results);
    nt__port *ports = nt__arena_alloc(&t->arena, most, sizeof *ports);
    const char *rows = nt__arena_sprintf(&t->arena, "%lld", (long long)added->rows);
    if (!results || !ports || !rows) return NT_OUT_OF_MEMORY;
    added->result_count = list_results(t, added, results);
    for (size_t i = 0; i < added->result_count; i++)
        ports[i] = (nt__port){.name = results[i].name, .purpose = NT__OUTPUT};
    nt_status status = bind_results(t->traced->task, added, added->result_count);
    if (status != NT_OK || !added->result_count) return status;
    const nt__part parts[] = {{"rows", rows}, nt__tracing_compute_part(t)};
    return nt__tracing_finish(t, "evaluation", results, ports, added->result_count, parts, 2, &added->program);
}

/* forward on the rows that there are. */
static void call_forward(nt__tracing *t, int64_t rows) {
    t->traced->batch.rows = rows;
    nt__tracing_forward(t);
    nt__tracing_check_same_outputs(t);
}

/* forward on a full batch, of which the rest are copies of the last row, and its outputs for the real rows. */
static void call_full_forward(nt__tracing *t, int64_t rows) {
    nt_batch *batch = &t->traced->batch;
    nt__tracing_forward(t);
    nt__tracing_check_same_outputs(t);
    if (nt__trace_status(t->graph) != NT_OK) return;
    t->outputs = nt__real_rows(t->outputs, rows, (nt_site){0});
    batch->rows = rows;
    for (size_t i = 0; i < batch->count; i++)
        if (batch->inputs[i].trace) batch->inputs[i] = nt__real_rows(batch->inputs[i], rows, (nt_site){0});
    nt__gradients_are_refused(NT__ROLE_BATCH,
                              "forward cannot be traced for the rows of a short last batch, so it is given a full one "
                              "there, and its outputs do not depend on this field as the hook sees it. Let forward "
                              "take the number of rows from nt_dim(x, 0), or give the split .drop_last = true");
}

static nt_status trace_rows(nt__traced *traced, nt__evaluation_program *added,
                            void (*forward)(nt__tracing *, int64_t)) {
    nt__tracing t;
    nt_status status = nt__tracing_begin(&t, traced, false);
    if (status != NT_OK) return status;
    forward(&t, added->rows);
    status = nt__trace_status(t.graph);
    if (status == NT_OK) status = report(&t, added);
    if (status == NT_OK) status = finish(&t, added);
    nt__tracing_end(&t);
    return status;
}

/* ---- those of a run --------------------------------------------------------------------------------------------- */

/* What a hook that counts on full batches runs into, where copies of a row would change what forward gives, or the hook
 * is not forward. */
static nt_status fail_short(nt_status status, const nt__split *split, int64_t rows) {
    if (status != NT_INVALID) return status;
    return nt__fail(status,
                    "split '%s' has a last batch of %lld rows, for which forward, loss and device_metrics are traced "
                    "too: %s. Take the number of rows from nt_dim(x, 0), or give the split .drop_last = true",
                    split->name, (long long)rows, nt_error_message());
}

static nt_status add(nt__traced *traced, const nt__split *split, int64_t rows) {
    if (rows == 0 || nt__evaluation_program_find(traced, rows)) return NT_OK;
    nt__evaluation_program *added = &traced->programs.evaluations[traced->programs.evaluation_count];
    added->rows = rows;
    nt_status status = trace_rows(traced, added, call_forward);
    if (status == NT_INVALID && rows < traced->batch_size && traced->programs.rows_are_apart) {
        nt__fail_nothing();
        status = trace_rows(traced, added, call_full_forward);
    }
    if (status == NT_OK) traced->programs.evaluation_count++;
    return status == NT_OK || rows == traced->batch_size ? status : fail_short(status, split, rows);
}

nt_status nt__trace_evaluations(nt__traced *traced) {
    if (!is_needed(traced->task)) return NT_OK;
    size_t splits = nt__data_split_count(traced->data);
    traced->programs.evaluations =
        nt__arena_alloc(&traced->task->arena, 2 * splits + 1, sizeof *traced->programs.evaluations);
    if (!traced->programs.evaluations) return NT_OUT_OF_MEMORY;
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < splits; i++) {
        const nt__split *split = nt__data_split_at(traced->data, i);
        int64_t last = split->options.drop_last ? 0 : split->rows % traced->batch_size;
        if (split->rows >= traced->batch_size) status = add(traced, split, traced->batch_size);
        if (status == NT_OK) status = add(traced, split, last);
    }
    return status;
}
