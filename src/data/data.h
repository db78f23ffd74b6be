/* Splits in memory, and streams over them: shuffled or in order, batches staged on the device by one background worker.
 * Not here: what the batches are used for.
 */
#ifndef NT_DATA_DATA_H
#define NT_DATA_DATA_H

#include "nitro/data.h"
#include "xla/xla.h"

/* ---- splits (splits.c) ------------------------------------------------------------------------------------------ */

typedef struct nt__split_field {
    const char *name;
    nt_array *array; /* the whole array; the split's rows are first <= row < limit */
} nt__split_field;

typedef struct nt__split {
    const char *name;
    nt_split_options options;
    nt__split_field *fields;
    size_t field_count, field_capacity;
    const char *field_names; /* "image, label": for messages; "none" without one */
    int64_t rows;
} nt__split;

nt_data *nt__data_new(void);
void nt__data_free(nt_data *data);
size_t nt__data_split_count(const nt_data *data);
const nt__split *nt__data_split_at(const nt_data *data, size_t index);
const nt__split *nt__data_split_find(const nt_data *data, const char *name);
/* "train, val, test": for messages; "none" without one. The text belongs to the data. */
const char *nt__data_split_names(nt_data *data);

/* Every split has a field, at least one batch and the same field names, types and sample shapes as the first. NT_OK or
 * an error that names the split and the numbers; an error of setup, kept from an earlier call, comes first. */
nt_status nt__data_check(nt_data *data);

int64_t nt__split_batches(const nt__split *split); /* counting a short last one unless it is dropped */
const nt__split_field *nt__split_field_find(const nt__split *split, const char *field);
/* Element type and shape of a field in a full batch. */
nt__type nt__split_field_type(const nt__split *split, const nt__split_field *field);
/* Error that names the first row of the split whose integer lies outside low <= value < limit: "split 'train', field
 * 'label', row 37: 10 is not in 0..9". The row is counted in the whole array, where the user can look it up. The two
 * bounds must lie within 2^53. */
nt_status nt__split_check_range(const nt__split *split, const char *field, int64_t low, int64_t limit);

/* ---- a pass over a split (stream.c) ----------------------------------------------------------------------------- */

/* One batch: fields on the device, and the same rows on the host. */
typedef struct nt__staged {
    int64_t index;       /* of the batch in its pass, from 0 */
    int64_t rows;        /* real ones; the rest repeats the last real row */
    nt__buffer *buffers; /* one for each staged field, in the order of the options */
    size_t buffer_count;
    nt_host_batch *host;
} nt__staged;

typedef struct nt__stream nt__stream;
typedef struct nt__stream_options {
    nt__engine *engine;
    int device;
    const char *const *fields; /* those that go to the device; needed only while opening */
    size_t field_count;
    uint64_t seed; /* with the epoch, decides the order of a shuffled split */
    int64_t epoch;
} nt__stream_options;

/* Starts the worker. It stages at most one batch ahead of the consumer (one staged and waiting, one in the consumer's
 * hands). A short last batch is padded to the full size with copies of its last row. The split must outlive the stream
 * and its batches. */
nt_status nt__stream_open(const nt__split *split, const nt__stream_options *options, nt__stream **out);
/* The next batch, or *out = NULL after the last. The consumer owns it, also after the stream was closed. An error of
 * the worker comes out here, after the batches before it, and at every later call. */
nt_status nt__stream_next(nt__stream *stream, nt__staged **out);
/* Frees the device buffers and the host rows. NULL is fine. */
void nt__staged_free(nt__staged *staged);
/* Ends the worker, also in the middle of the pass, and frees what it staged and nobody took. */
void nt__stream_close(nt__stream *stream);
/* Seconds the consumer has waited in nt__stream_next. */
double nt__stream_waited(const nt__stream *stream);

/* ---- the rows on the host (host.c) ------------------------------------------------------------------------------ */

/* NT_OK, or why nt_host_field has given NULL: a field that does not exist (the message lists those that do), or rows
 * for which memory was short. */
nt_status nt__host_batch_status(const nt_host_batch *batch);

/* ---- metrics over a pass (metrics.c) ---------------------------------------------------------------------------- */

nt_metrics *nt__metrics_new(void);
void nt__metrics_free(nt_metrics *metrics);
/* Ends a batch: checks that the hook set the same names, combined the same way, as in the first batch, and each once.
 * The first error is kept: metrics with an error take nothing more. Messages count batches from 1. */
nt_status nt__metrics_end_batch(nt_metrics *metrics);
/* Combined values in the order of the first batch; names and values belong to the metrics. */
size_t nt__metrics_count(const nt_metrics *metrics);
const char *nt__metrics_name(const nt_metrics *metrics, size_t index);
double nt__metrics_value(const nt_metrics *metrics, size_t index);

#endif
