/* Metrics: what hooks report on the host over a pass, what traced hooks report in a program, and reading that back.
 * Not here: who calls the hooks (the folders step and run).
 */
#ifndef NT_METRIC_METRIC_H
#define NT_METRIC_METRIC_H

#include "graph/graph.h"
#include "nitro/event.h"
#include "nitro/metrics.h"
#include "xla/xla.h"

/* ---- metrics over a pass (host.c) ---------------------------------------------------------------------------- */

nt_metrics *nt__metrics_new(void);
void nt__metrics_free(nt_metrics *metrics);
/* Ends a batch: checks that the hook set the same names, combined the same way, as in the first batch, and each once.
 * The first error is kept: metrics with an error take nothing more. Messages count batches from 1. */
nt_status nt__metrics_end_batch(nt_metrics *metrics);
/* Combined values in the order of the first batch; names and values belong to the metrics. */
size_t nt__metrics_count(const nt_metrics *metrics);
const char *nt__metrics_name(const nt_metrics *metrics, size_t index);
double nt__metrics_value(const nt_metrics *metrics, size_t index);

/* ---- metrics of traced hooks (traced.c) ------------------------------------------------------------------------ */

typedef struct nt__device_metric {
    const char *name;
    nt_combine combine;
    nt_tensor value, count; /* scalars of the trace, or numbers */
    nt_site site;
} nt__device_metric;

/* What one call of a hook reported. Zeroed but for `combined` before the call. */
struct nt_device_metrics {
    bool combined; /* over the batches of a pass (device_metrics); else values of one micro-batch (train_metrics) */
    nt__arena arena;
    nt__device_metric *items;
    size_t count, capacity;
    nt__map places; /* one more than the place of each name */
};
void nt__device_metrics_free(nt_device_metrics *metrics);
/* Whether a run adds a value of this name to the line of a step itself, whichever hook reports the others. */
bool nt__is_own_metric(const char *name);

/* ---- as results of a program (results.c) ------------------------------------------------------------------------ */

/* Where a number of a traced metric comes from: a result of the program, or -1: it was a C number. */
typedef struct nt__reading {
    int result;
    double number;
} nt__reading;
typedef struct nt__traced_metric {
    const char *name;
    nt_combine combine;
    nt__reading value, count;
} nt__traced_metric;
typedef struct nt__traced_metrics {
    nt__traced_metric *items;
    size_t count;
    nt__result *results; /* those of the program, in order; tensors of the trace, so only for as long as it lasts */
    size_t result_count;
} nt__traced_metrics;
/* Takes over what was reported in one program; what it is lives in the arena. */
nt_status nt__traced_metrics_keep(nt__arena *arena, const nt_device_metrics *reported, nt__traced_metrics *out);
/* Values, and counts if they are wanted (else NULL), from the program's results in `buffers`. */
nt_status nt__traced_metrics_read(nt__engine *engine, const nt__traced_metrics *metrics, nt__buffer *buffers,
                                  nt_value *values, double *counts);

#endif
