/* The arrays of a group one by one, for rules that see matrices in them: out of a flat tensor, and into one.
 * Not here: which arrays are taken together (layout.c).
 */
#include "optim/rules.h"

/* ---- out of a flat tensor --------------------------------------------------------------------------------------- */

/* [repeats, elements of an array] */
static nt_tensor take_flat(const nt__bundle *bundle, nt_tensor flat) {
    int64_t span = bundle->repeats * bundle->period;
    nt_tensor stretch = nt_slice(flat, nt_dims(bundle->start), nt_dims(bundle->start + span));
    stretch = nt_reshape(stretch, bundle->repeats, bundle->period);
    return nt_slice(stretch, nt_dims(0, bundle->offset), nt_dims(bundle->repeats, bundle->offset + bundle->length));
}

/* [repeats, the axes of an array...] */
static nt_shape shape_of(const nt__bundle *bundle) {
    nt_shape shape = {.rank = bundle->shape.rank + 1, .dims = {bundle->repeats}};
    for (int i = 0; i < bundle->shape.rank; i++) shape.dims[i + 1] = bundle->shape.dims[i];
    return shape;
}

nt_tensor nt__bundle_take(const nt__bundle *bundle, nt_tensor flat) {
    return nt_reshape_at(take_flat(bundle, flat), shape_of(bundle), NT_SITE);
}

/* ---- into a flat tensor ----------------------------------------------------------------------------------------- */

static bool shares_stretch(const nt__bundle *a, const nt__bundle *b) {
    return a && a->start == b->start;
}

static void close_stretch(nt__sheet *sheet) {
    const nt__bundle *open = sheet->open;
    if (!open) return;
    nt_tensor elements = nt_reshape(sheet->stretch, open->repeats * open->period);
    sheet->flat = nt_update_slice(sheet->flat, elements, nt_dims(open->start));
    sheet->open = NULL;
}

nt__sheet nt__sheet_new(const nt_update *u) {
    return (nt__sheet){.flat = nt_full(u->dtype, nt_shape_of(u->x), 0)};
}

void nt__sheet_put(nt__sheet *sheet, const nt__bundle *bundle, nt_tensor values) {
    nt_dtype dtype = nt_dtype_of(sheet->flat);
    if (!shares_stretch(sheet->open, bundle)) {
        close_stretch(sheet);
        sheet->open = bundle;
        sheet->stretch = nt_full(dtype, nt_dims(bundle->repeats, bundle->period), 0);
    }
    nt_tensor rows = nt_reshape(values, bundle->repeats, bundle->length);
    sheet->stretch = nt_update_slice(sheet->stretch, rows, nt_dims(0, bundle->offset));
}

nt_tensor nt__sheet_done(nt__sheet *sheet) {
    close_stretch(sheet);
    return sheet->flat;
}

/* ---- states of their own length --------------------------------------------------------------------------------- */

nt_tensor nt__packed_take(nt_tensor packed, int64_t at, nt_shape shape) {
    int64_t length = nt_shape_elements(shape);
    return nt_reshape_at(nt_slice(packed, nt_dims(at), nt_dims(at + length)), shape, NT_SITE);
}

int64_t nt__packed_put(nt_tensor *packed, int64_t at, nt_tensor values) {
    int64_t length = nt_shape_elements(nt_shape_of(values));
    *packed = nt_update_slice(*packed, nt_reshape(values, length), nt_dims(at));
    return at + length;
}

int64_t nt__last_axis(const nt__bundle *bundle) {
    return bundle->shape.rank ? bundle->shape.dims[bundle->shape.rank - 1] : 1;
}
