/* Metrics computed on the device: what the traced hooks device_metrics and train_metrics report. Metrics of host hooks
 * are in nitro/data.h.
 *
 * A value is a scalar tensor of any type, or a C number. Each name once in a trace. They never change a gradient: only
 * the loss is differentiated.
 */
#ifndef NITRO_METRICS_H
#define NITRO_METRICS_H

#include "nitro/tensor.h"

typedef struct nt_device_metrics nt_device_metrics;

/* How the values of the batches of a pass become one. */
typedef enum nt_combine { NT_COMBINE_MEAN, NT_COMBINE_SUM, NT_COMBINE_MAX, NT_COMBINE_MIN, NT_COMBINE_NONE } nt_combine;

/* In device_metrics. The hook sees the real rows of a batch only, also of a short last one: axis 0 of outputs and
 * fields is their number. nt_device_mean is sum of sums / sum of counts. A nan stays a nan. */
#define nt_device_mean(m, name, sum, count) \
    nt_device_metric_at(m, name, NT_COMBINE_MEAN, NT_TENSOR(sum), NT_TENSOR(count), NT_SITE)
#define nt_device_sum(m, name, x) nt_device_metric_at(m, name, NT_COMBINE_SUM, NT_TENSOR(x), NT_TENSOR(0), NT_SITE)
#define nt_device_max(m, name, x) nt_device_metric_at(m, name, NT_COMBINE_MAX, NT_TENSOR(x), NT_TENSOR(0), NT_SITE)
#define nt_device_min(m, name, x) nt_device_metric_at(m, name, NT_COMBINE_MIN, NT_TENSOR(x), NT_TENSOR(0), NT_SITE)

/* In train_metrics: a value of the micro-batch. The line of a step in the log has those of its closing micro-batch. */
#define nt_device_value(m, name, x) nt_device_metric_at(m, name, NT_COMBINE_NONE, NT_TENSOR(x), NT_TENSOR(0), NT_SITE)

void nt_device_metric_at(nt_device_metrics *metrics, const char *name, nt_combine combine, nt_tensor value,
                         nt_tensor count, nt_site site);

#endif
