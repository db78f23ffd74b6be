/* What the files of this folder share: the rows of a batch, the making of host batches, a pass, the calls of a source.
 * Not here: anything another folder may see; that is data.h.
 */
#ifndef NT_DATA_DATA_INTERNAL_H
#define NT_DATA_DATA_INTERNAL_H

#include "data/data.h"

/* ---- the rows of a batch (splits.c) ----------------------------------------------------------------------------- */

/* Numbers of rows, counted from the split's first: order[0] to order[count - 1], or, when order is NULL, first to
 * first + count - 1. */
typedef struct nt__rows {
    const uint32_t *order;
    int64_t first, count;
} nt__rows;

size_t nt__field_row_bytes(const nt__split_field *field);
/* Address of a row of an array, counted from the split's first. */
char *nt__split_row(const nt__split *split, const nt__split_field *field, int64_t row);
/* Copies the rows of an array, one after the other, to `out`. */
void nt__rows_gather(const nt__split *split, const nt__split_field *field, const nt__rows *rows, void *out);
/* The number of the i-th row in the whole array or source. */
int64_t nt__rows_at(const nt__split *split, const nt__rows *rows, int64_t i);

/* Type and shape of `rows` samples of a field. */
nt__type nt__field_type(const nt__split_field *field, int64_t rows);

/* NT_OK where the split names in .shares only splits that there are (shared.c). */
nt_status nt__split_check_shares(nt_data *data, const nt__split *split);

/* ---- what numbers have to be (claims.c) ------------------------------------------------------------------------- */

/* The elements of a row, which is number `row` in the whole. */
nt_status nt__check_bounds(const nt__split_field *field, const void *at, int64_t row, const nt__bounds *bounds);
/* The error with the advice after it, which may be NULL. */
nt_status nt__advise(nt_status status, const char *advice);

/* ---- memory of batches, used again (spare.c) -------------------------------------------------------------------- */

/* Zeros for a full batch of a field, fit to be lent to the engine; NULL when memory is short. Any thread. */
void *nt__spare_take(const nt__split *split, const nt__split_field *field);
void nt__spare_give(const nt__split_field *field, void *memory);
/* Frees what nobody uses. */
void nt__spare_free(const nt__split *split);

/* ---- host batches (host.c) -------------------------------------------------------------------------------------- */

/* NULL when memory is short. The order of the rows is copied: a batch may outlive the pass it comes from, not the
 * split. */
nt_host_batch *nt__host_batch_new(const nt__split *split, const nt__rows *rows);
void nt__host_batch_free(nt_host_batch *batch);
/* Memory of a full batch for a field, zeroed and fit to be lent to the engine. False when memory is short. */
bool nt__host_batch_make_room(nt_host_batch *batch, size_t field);
/* The rows of a field; their `data`, the memory of the full batch, is NULL where no room was made. */
nt_array *nt__host_batch_array(nt_host_batch *batch, size_t field);
/* Hands the memory of a field over to the caller. The batch goes on pointing to it. */
void *nt__host_batch_lend(nt_host_batch *batch, size_t field);
const nt__split *nt__host_batch_split(const nt_host_batch *batch);
const nt__rows *nt__host_batch_rows(const nt_host_batch *batch);

/* ---- a pass: its order and its fields (pass.c) ------------------------------------------------------------------ */

typedef struct nt__pass {
    const nt__split *split;
    nt__engine *engine;
    int device;
    size_t *fields; /* of the split, those that go to the device */
    size_t field_count;
    uint32_t *order; /* the split's rows as this pass takes them; NULL: as they lie */
    int64_t epoch, batches;
} nt__pass;

/* Fills in the order of a pass that has its split and its epoch; nt__pass_end frees it. */
nt_status nt__pass_order_rows(nt__pass *pass, uint64_t seed);
/* A checksum of it (checksum.c). */
nt__hash nt__pass_order(const nt__pass *pass);
nt_status nt__pass_begin(nt__pass *pass, const nt__split *split, const nt__stream_options *options);
void nt__pass_end(nt__pass *pass);
nt__rows nt__pass_rows(const nt__pass *pass, int64_t batch);

/* ---- one batch of a pass (batch.c) ------------------------------------------------------------------------------ */

/* Reads a batch to the host: any thread, any order. The caller frees what was made also after an error. */
nt_status nt__batch_read(const nt__pass *pass, int64_t index, nt__staged **out);
/* Copies or lends it to the device. */
nt_status nt__batch_stage(const nt__pass *pass, nt__staged *staged);

/* ---- what a split's source does (source.c) ---------------------------------------------------------------------- */

bool nt__split_has_source(const nt__split *split);
/* Whether the split can have the source. */
nt_status nt__source_check(const nt__split *split, const nt_source *source);
nt_status nt__source_begin(const nt__split *split, int64_t epoch, uint64_t seed);
/* Fills the fields of a batch, for which room was made, and checks what came. */
nt_status nt__source_read(const nt__split *split, int64_t epoch, int64_t index, nt_host_batch *batch);
void nt__source_close(nt_source *source);

#endif
