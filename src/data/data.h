/* Splits of arrays or sources, and streams over them: shuffled or in order, batches read and staged on the device by
 * background threads. Not here: what the batches are used for.
 */
#ifndef NT_DATA_DATA_H
#define NT_DATA_DATA_H

#include <stdatomic.h>

#include "nitro/data.h"
#include "nitro/metrics.h"
#include "xla/xla.h"

/* ---- splits (splits.c) ------------------------------------------------------------------------------------------ */

typedef struct nt__split_field {
    const char *name;
    nt__type sample; /* type and shape of one sample */
    nt_array *array; /* the whole array; the split's rows are first <= row < limit. NULL: a source fills the field */
    struct nt__field_claim {
        nt__bounds bounds;
        const char *advice; /* what to do where a number is outside, or NULL; a constant text */
    } * claims;             /* of an array: checked; of what a source reads: to be checked batch by batch */
    size_t claim_count, claim_capacity;
    void **spare; /* memory of full batches to be used again (spare.c); NULL: is not kept */
} nt__split_field;

typedef struct nt__split {
    const char *name;
    nt_split_options options; /* defaults filled in */
    nt__split_field *fields;
    size_t field_count, field_capacity;
    const char *field_names; /* "image, label": for messages; "none" without one */
    int64_t rows;
    nt_source source; /* without `read`: the split is made of arrays */
    nt_data *data;
    atomic_int *left_behind; /* threads still in a read of a pass that was closed */
} nt__split;

nt_data *nt__data_new(void);
/* One more owner: nt__data_free gives it back, the last one frees. */
nt_data *nt__data_retain(nt_data *data);
void nt__data_free(nt_data *data);
size_t nt__data_split_count(const nt_data *data);
const nt__split *nt__data_split_at(const nt_data *data, size_t index);
const nt__split *nt__data_split_find(const nt_data *data, const char *name);
/* "train, val, test": for messages; "none" without one. The text belongs to the data. */
const char *nt__data_split_names(nt_data *data);

/* Every split has a field, at least one batch and the same field names, types and sample shapes as the first. NT_OK or
 * an error that names the split and the numbers; an error of setup, kept from an earlier call, comes first. */
nt_status nt__data_check(nt_data *data);
/* From here on nothing can be declared. */
void nt__data_complete(nt_data *data);

/* A split outside any data, of arrays that somebody else owns, with the usual limits. The caller has room for its
 * fields. */
nt__split nt__split_borrowing(const char *name, int64_t batch, nt__split_field *fields);
/* Adds a field to such a split; the name and the array must outlive it. */
void nt__split_borrow(nt__split *split, const char *name, const nt_array *array);

/* A warning for each pair of splits that have rows of an array or a source in common, unless one of them says that it
 * shares rows with the other. */
nt_status nt__data_warn_shared(const nt_data *data);
/* Whether the two have an array of the same memory under the same name, or one source, whatever rows of it. */
bool nt__split_shares_array(const nt__split *a, const nt__split *b);

int64_t nt__split_batches(const nt__split *split); /* counting a short last one unless it is dropped */
const nt__split_field *nt__split_field_find(const nt__split *split, const char *field);
/* Element type and shape of a field in a full batch. */
nt__type nt__split_field_type(const nt__split *split, const nt__split_field *field);
/* ---- what numbers have to be (claims.c) ------------------------------------------------------------------------- */

/* Error unless the numbers of a field of arrays, which is there, are within the bounds. */
nt_status nt__split_check_bounds(const nt__split *split, const char *name, const nt__bounds *bounds);
/* Says of a field of all splits what its numbers have to be. Arrays are looked through now, once for equal claims, and
 * what a source reads is looked at batch by batch. The error names the first row outside: "split 'train', field
 * 'label', row 37: 10 is not in 0..9". The row is counted in the whole array or source, where the user can look it up.
 * A split without the field passes. The error ends with the advice, a constant text, unless it is NULL. */
nt_status nt__data_claim(nt_data *data, const char *field, const nt__bounds *bounds, const char *advice);

/* ---- checksums of a split (checksum.c) -------------------------------------------------------------------------- */

/* The fields in the order of their names, whatever order they were given in; NULL before the first and after the last.
 */
const nt__split_field *nt__split_field_after(const nt__split *split, const nt__split_field *before);
/* Of the rows of its arrays, in that order: all bytes up to 16 MiB a field, of larger ones 256 blocks of 64 KiB, the
 * first and the last among them. A split of a source has none: always the same. */
nt_status nt__split_content(const nt__split *split, nt__hash *out);

/* ---- a pass over a split (stream.c) ----------------------------------------------------------------------------- */

/* One batch: fields on the device, and the same rows on the host. */
typedef struct nt__staged {
    int64_t index;       /* of the batch in its pass, from 0 */
    int64_t rows;        /* real ones; the rest repeats the last real row */
    nt__buffer *buffers; /* one for each staged field, in the order of the options */
    size_t *fields;      /* of the split, one for each buffer */
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
    int64_t first_batch;    /* of the pass that is given: those before it were used already. 0: all */
    bool (*stopping)(void); /* asked while the consumer waits; NULL: never */
} nt__stream_options;

/* Starts the threads of a pass: the split's workers read batches ahead of the consumer, within the split's limits, and
 * one thread at a time stages them. Batches come in the order of the pass whatever thread read them. A short last batch
 * is padded to the full size with copies of its last row. The split must outlive the stream's batches. */
nt_status nt__stream_open(const nt__split *split, const nt__stream_options *options, nt__stream **out);
/* The next batch, or *out = NULL after the last. The consumer owns it, also after the stream was closed. What went
 * wrong with a batch comes out where that batch is asked for, after all before it, and at every later call: also that
 * its worker ended or has not come back within the split's time limit. NT_INTERRUPTED when `stopping` says so while the
 * batch is not there yet; it may be asked for again. */
nt_status nt__stream_next(nt__stream *stream, nt__staged **out);
/* A checksum of the order in which this pass takes the split's rows: 20 ms for 10^7 rows. */
nt__hash nt__stream_order(const nt__stream *stream);
/* Frees the device buffers and the host rows. NULL is fine. */
void nt__staged_free(nt__staged *staged);
/* Ends the threads, also in the middle of the pass, and frees what was read or staged and nobody took. A thread that a
 * source does not give back is waited for a second and then left behind: it ends by itself when the source returns, and
 * what it uses lives until then. NULL is fine. */
void nt__stream_close(nt__stream *stream);
/* Seconds the consumer has waited in nt__stream_next; the first batch, for which everything has to start up, is not
 * counted. */
double nt__stream_waited(const nt__stream *stream);

/* ---- the rows on the host (host.c) ------------------------------------------------------------------------------ */

/* NT_OK, or why nt_host_field has given NULL: a field that does not exist (the message lists those that do), or rows
 * for which memory was short. */
nt_status nt__host_batch_status(const nt_host_batch *batch);

#endif
