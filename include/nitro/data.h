/* Data: named splits of named arrays, and what metrics see of them.
 */
#ifndef NITRO_DATA_H
#define NITRO_DATA_H

#include "nitro/array.h"

/* The splits of an experiment, filled by its build_data hook. The first error is kept and ends setup; later calls do
 * nothing. */
typedef struct nt_data nt_data;

typedef struct nt_split_options {
    int64_t batch;  /* samples in a micro-batch; required, the same in all splits */
    bool shuffle;   /* another order in each epoch, drawn from the run's seed */
    bool drop_last; /* leave out the last batch when it is short; training needs full batches */
    int64_t first;  /* rows first <= row < limit of the arrays belong to the split; limit 0 means all */
    int64_t limit;
} nt_split_options;
/* Declares a split: "train", "val", "test", or any name. */
#define nt_split(data, name, ...) nt_split_with(data, name, (nt_split_options){__VA_ARGS__})
nt_status nt_split_with(nt_data *data, const char *name, nt_split_options options);
/* Adds a field to a split: axis 0 of the array is the sample, and all fields of a split have the same number. The
 * reference to the array passes to the data; NULL (an array that could not be read) keeps the thread's status and
 * message as the error. */
nt_status nt_split_field(nt_data *data, const char *split, const char *field, nt_array *array);
/* NT_OK, or the first error as the thread's message: what build_data returns. */
nt_status nt_data_status(nt_data *data);

/* What a derive hook looks at: a field of a split as it was given to nt_split_field, whole, also the rows outside first
 * <= row < limit. Borrowed. NULL with a message that lists what there is. */
const nt_array *nt_data_array(const nt_data *data, const char *split, const char *field);
/* Rows of a split; -1 with a message when there is no such split. */
int64_t nt_data_rows(const nt_data *data, const char *split);

/* ---- metrics on the host ---------------------------------------------------------------------------------------- */

/* The rows of a batch on the host, padding cut off. */
typedef struct nt_host_batch nt_host_batch;
/* A field of the batch, also one that no traced hook reads. When there is none the hook gets zeros, one for each row,
 * and after it the evaluation fails with the name and the fields there are. It is valid until the hook returns; it may
 * be a part of the split's own array, so its memory need not be aligned to 64 bytes. */
const nt_array *nt_host_field(const nt_host_batch *batch, const char *field);

/* What a metrics hook adds to, once for each batch. Each value says how it is combined over the batches. Every batch
 * sets the same names, each once and combined the same way; anything else is an error that names the metric and the
 * batch. A nan stays a nan. A mean with a total count of 0 is nan. */
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

#endif
