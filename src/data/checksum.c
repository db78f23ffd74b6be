/* Checksums by which a split is known again: of the order of a pass, and of what its arrays hold.
 * Not here: what they are compared with (the folder run).
 */
#include <string.h>

#include "data/data_internal.h"

/* ---- the order -------------------------------------------------------------------------------------------------- */

nt__hash nt__pass_order(const nt__pass *pass) {
    bool shuffled = pass->order != NULL;
    return nt__hash_bytes(shuffled ? (const void *)pass->order : "",
                          shuffled ? (size_t)pass->split->rows * sizeof *pass->order : 0);
}

/* ---- the content ------------------------------------------------------------------------------------------------ */

/* An array of more bytes than BLOCKS of BLOCK_BYTES is looked at in so many blocks, from its first to its last. */
enum { BLOCK_BYTES = 64 << 10, BLOCKS = 256 };

static void add_array(nt__hasher *hasher, const char *data, size_t bytes) {
    if (bytes <= (size_t)BLOCKS * BLOCK_BYTES) {
        nt__hasher_add(hasher, data, bytes);
        return;
    }
    size_t step = (bytes - BLOCK_BYTES) / (BLOCKS - 1);
    for (size_t i = 0; i + 1 < BLOCKS; i++) nt__hasher_add(hasher, data + i * step, BLOCK_BYTES);
    nt__hasher_add(hasher, data + bytes - BLOCK_BYTES, BLOCK_BYTES);
}

const nt__split_field *nt__split_field_after(const nt__split *split, const nt__split_field *before) {
    const nt__split_field *next = NULL;
    for (size_t i = 0; i < split->field_count; i++) {
        const nt__split_field *field = &split->fields[i];
        if (before && strcmp(field->name, before->name) <= 0) continue;
        if (!next || strcmp(field->name, next->name) < 0) next = field;
    }
    return next;
}

nt_status nt__split_content(const nt__split *split, nt__hash *out) {
    nt__hasher *hasher = nt__hasher_new();
    if (!hasher) return NT_OUT_OF_MEMORY;
    for (const nt__split_field *field = NULL; (field = nt__split_field_after(split, field));)
        if (field->array)
            add_array(hasher, nt__split_row(split, field, 0), (size_t)split->rows * nt__field_row_bytes(field));
    *out = nt__hasher_end(hasher);
    return NT_OK;
}
