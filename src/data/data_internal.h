/* What the files of this folder share: errors kept for later, the rows of a batch, the making of host batches.
 * Not here: anything another folder may see; that is data.h.
 */
#ifndef NT_DATA_DATA_INTERNAL_H
#define NT_DATA_DATA_INTERNAL_H

#include "data/data.h"

/* ---- errors kept for later (error.c) ---------------------------------------------------------------------------- */

enum { NT__KEPT_MESSAGE = 4096 };

/* The first error of something that goes on being called. All zeros: none yet. The text has a place of its own, so that
 * keeping it cannot fail, and it can be carried from one thread to another. */
typedef struct nt__kept_error {
    nt_status status;
    char message[NT__KEPT_MESSAGE];
} nt__kept_error;
/* Keeps `status` with the thread's message, unless it is NT_OK or an error is kept already. Returns `status`. */
nt_status nt__error_keep(nt__kept_error *kept, nt_status status);
/* Makes the kept error the thread's; NT_OK when none is kept. */
nt_status nt__error_raise(const nt__kept_error *kept);

/* ---- the rows of a batch (splits.c) ----------------------------------------------------------------------------- */

/* Numbers of rows, counted from the split's first: order[0] to order[count - 1], or, when order is NULL, first to
 * first + count - 1. */
typedef struct nt__rows {
    const uint32_t *order;
    int64_t first, count;
} nt__rows;

size_t nt__field_row_bytes(const nt__split_field *field);
/* Address of a row, counted from the split's first. */
char *nt__split_row(const nt__split *split, const nt__split_field *field, int64_t row);
/* Copies the rows, one after the other, to `out`. */
void nt__rows_gather(const nt__split *split, const nt__split_field *field, const nt__rows *rows, void *out);

/* ---- host batches (host.c) -------------------------------------------------------------------------------------- */

/* NULL when memory is short. The order of the rows is copied: a batch may outlive the pass it comes from, not the
 * split.
 */
nt_host_batch *nt__host_batch_new(const nt__split *split, const nt__rows *rows);
void nt__host_batch_free(nt_host_batch *batch);

#endif
