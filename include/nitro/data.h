/* Data: named splits, each filled with named arrays or by a source that reads batches.
 */
#ifndef NITRO_DATA_H
#define NITRO_DATA_H

#include "nitro/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The splits of an experiment, filled by its build_data hook. The first error is kept and ends setup; later calls do
 * nothing. */
typedef struct nt_data nt_data;

typedef struct nt_split_options {
    int64_t batch;  /* samples in a micro-batch; required, the same in all splits */
    bool shuffle;   /* another order in each epoch, drawn from the run's seed */
    bool drop_last; /* leave out the last batch when it is short; training needs full batches */
    int64_t first; /* rows first <= row < limit of the arrays or source belong to the split; limit 0 means all, also a 0
                      that was computed: rows that another split has too are told */
    int64_t limit;
    /* The names of other splits that this one shares rows with on purpose, with commas between them: "train" of a split
     * that measures how well the training rows are learnt. Two splits that have rows of the same array (or of the same
     * source: context and read) without it are told in a warning with the ranges when a run is made. NULL: none. */
    const char *shares;
    /* A 0 below is the default. The order of the batches, and so the whole run, is the same for any of these numbers.
     * Host memory of a pass: up to host_batches + device_batches batches, and two with the program. Device memory:
     * device_batches, and two with the program. */
    int workers;        /* threads that read batches: 1 */
    int host_batches;   /* that are being read or wait for their transfer: 2 * workers, at least `workers` */
    int device_batches; /* that are on the device and wait for the program: 1 */
    double time_limit;  /* seconds after which a read that has not come back is an error: 60 */
} nt_split_options;
/* Declares a split: "train", "val", "test", or any name. */
#define nt_split(data, name, ...) nt_split_with(data, name, (nt_split_options){__VA_ARGS__})
nt_status nt_split_with(nt_data *data, const char *name, nt_split_options options);
/* Adds a field to a split: axis 0 of the array is the sample, and all fields of a split have the same number. The
 * reference to the array passes to the data; NULL (an array that could not be read) keeps the thread's status and
 * message as the error. Splits and fields are declared in build_data: once it has returned, nt_split, nt_split_field
 * and nt_split_source are NT_INVALID. */
nt_status nt_split_field(nt_data *data, const char *split, const char *field, nt_array *array);
/* NT_OK, or the first error as the thread's message: what build_data returns. */
nt_status nt_data_status(nt_data *data);

/* What a derive hook looks at: a field of a split as it was given to nt_split_field, whole, also the rows outside first
 * <= row < limit. Borrowed. NULL with a message that lists what there is. */
const nt_array *nt_data_array(const nt_data *data, const char *split, const char *field);
/* Rows of a split; -1 with a message when there is no such split. */
int64_t nt_data_rows(const nt_data *data, const char *split);

/* ---- sources: data that is not in memory ------------------------------------------------------------------------ */

/* A field that a source fills. */
typedef struct nt_source_field {
    const char *name;
    nt_dtype dtype;
    nt_shape sample; /* shape of one sample; all zeros: each is a scalar */
} nt_source_field;

/* What a source is asked for: one batch. To be read, but for what `fields` points to. */
typedef struct nt_request {
    int64_t epoch;       /* of the pass: the first of training is 1; evaluating before any training it is 0 */
    int64_t batch;       /* in the pass, from 0 */
    const int64_t *rows; /* the rows wanted, in this order; each is 0 <= row < rows of the source */
    int64_t count;       /* how many: as many as a batch has, only the last batch of a pass may have fewer */
    nt_array **fields; /* to be filled, one for each declared field: [count, sample...], 64-byte aligned zeros. A source
                        * that has its batch in an array may put that array here; its reference passes. */
} nt_request;

/* A source of samples. Its functions return NT_OK or a status with a message (nt_fail makes both); NT_INTERRUPTED and
 * NT_DIVERGED, which nitro says itself, become NT_IO. They may not call other functions of nitro than those of arrays
 * and nt_fail. */
typedef struct nt_source {
    const char *name;              /* for messages: the path, the kind; NULL: "source" */
    void *context;                 /* yours; passed to each function */
    int64_t rows;                  /* samples in a pass */
    const nt_source_field *fields; /* copied */
    size_t field_count;
    /* The samples can only be read one after the other: the split has one worker, is read from row 0 to its last, and
     * cannot be shuffled or cut by nitro. Default: any row at any time. */
    bool in_order;
    /* Starts a pass: called once before its first read, on the thread that trains or evaluates. Required when in_order,
     * else NULL is fine. `seed` is the run's. */
    nt_status (*begin)(void *context, int64_t epoch, uint64_t seed);
    /* Reads, decodes, transforms one batch. Unless in_order it is called by several threads at the same time when the
     * split has several workers, for different batches and in no certain order; what it gives must depend on the
     * request alone. The thread must come back: it may not be ended. exit, from here or from any hook, fails the
     * command; _exit ends the process like a command that is done, and nothing can see it: do not call it. */
    nt_status (*read)(void *context, nt_request *request);
    /* Frees the context, once, when nothing reads any more: with the run, and also when the split could not be
     * declared. NULL is fine. A read that did not come back in time is waited for: `close` comes after it. */
    void (*close)(void *context);
} nt_source;
/* Fills a split from a source instead of arrays. The source passes to the data, also when the call fails. */
nt_status nt_split_source(nt_data *data, const char *split, nt_source source);

#ifdef __cplusplus
}
#endif

#endif
