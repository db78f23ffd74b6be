/* Metrics: what the hooks report, on host arrays (metrics, host_train_metrics) or traced (device_metrics,
 * train_metrics). A pass over a split combines the values of its batches.
 */
#ifndef NITRO_METRICS_H
#define NITRO_METRICS_H

#include "nitro/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- metrics on the host ---------------------------------------------------------------------------------------- */

/* The rows of a batch on the host, padding cut off. */
typedef struct nt_host_batch nt_host_batch;
/* A field of the batch, also one that no traced hook reads. When there is none the hook gets zeros, one for each row,
 * and after it the evaluation fails with the name and the fields there are. It is valid until the hook returns; it may
 * be a part of the split's own array, so its memory need not be aligned to 64 bytes. */
const nt_array *nt_host_field(const nt_host_batch *batch, const char *field);

/* What a metrics hook adds to, once for each batch. Each value says how it is combined over the batches. Every batch
 * sets the same names, each once and combined the same way; anything else is an error that names the metric and the
 * batch. A nan stays a nan. A mean with a total count of 0 is nan. No metric may be called type, context, epoch or
 * step, which each line of a log has by itself, nor have a name that is not UTF-8.
 * Metrics of training may not be called loss or grad_norm either, which the line of a step has from the run itself. */
typedef struct nt_metrics nt_metrics;
void nt_metric_mean(nt_metrics *metrics, const char *name, double sum, double count); /* sum of sums / sum of counts */
void nt_metric_sum(nt_metrics *metrics, const char *name, double value);
void nt_metric_max(nt_metrics *metrics, const char *name, double value);
void nt_metric_min(nt_metrics *metrics, const char *name, double value);

/* The mean over samples of: is the largest of the scores [n, classes] at the label [n]? Ties go to the first, a row
 * with a nan is never right. Other shapes or types are an error of the evaluation. */
void nt_metric_accuracy(nt_metrics *metrics, const char *name, const nt_array *scores, const nt_array *labels);

/* How many rows of scores [n, classes] have their largest value at the label. Scores of any floating type, labels [n]
 * of any integer type. Of equal largest values the first counts. A row with a nan is never right, nor is one whose
 * label is not a class. -1 with a message when the types or shapes do not fit. */
int64_t nt_count_correct(const nt_array *scores, const nt_array *labels);

/* ---- metrics on the device: traced ------------------------------------------------------------------------------ */

/* What a traced hook reports to. A value is a scalar tensor of any type, or a C number. Each name once in a trace. They
 * never change a gradient: only the loss is differentiated. */
typedef struct nt_device_metrics nt_device_metrics;

/* How the values of the batches of a pass become one. */
typedef enum nt_combine { NT_COMBINE_MEAN, NT_COMBINE_SUM, NT_COMBINE_MAX, NT_COMBINE_MIN, NT_COMBINE_NONE } nt_combine;

/* In device_metrics. The hook sees the real rows of a batch only, also of a short last one: axis 0 of outputs and
 * fields is their number. nt_device_mean is sum of sums / sum of counts, which are at least 0. A nan stays a nan. */
#define nt_device_mean(m, name, sum, count) \
    nt_device_metric_at(m, name, NT_COMBINE_MEAN, NT_TENSOR(sum), NT_TENSOR(count), NT_SITE)
#define nt_device_sum(m, name, x) nt_device_metric_at(m, name, NT_COMBINE_SUM, NT_TENSOR(x), NT_TENSOR(0), NT_SITE)
#define nt_device_max(m, name, x) nt_device_metric_at(m, name, NT_COMBINE_MAX, NT_TENSOR(x), NT_TENSOR(0), NT_SITE)
#define nt_device_min(m, name, x) nt_device_metric_at(m, name, NT_COMBINE_MIN, NT_TENSOR(x), NT_TENSOR(0), NT_SITE)

/* In train_metrics and train_step: a value of the micro-batch. The line of a step in the log has those of its closing
 * micro-batch. */
#define nt_device_value(m, name, x) nt_device_metric_at(m, name, NT_COMBINE_NONE, NT_TENSOR(x), NT_TENSOR(0), NT_SITE)

void nt_device_metric_at(nt_device_metrics *metrics, const char *name, nt_combine combine, nt_tensor value,
                         nt_tensor count, nt_site site);

#ifdef __cplusplus
}
#endif

#endif
