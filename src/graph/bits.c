/* Logic, and integers as rows of bits. */
#include "graph/emit.h"

#define BINARY(name)                                                   \
    nt_tensor nt_##name##_at(nt_tensor a, nt_tensor b, nt_site site) { \
        return nt__binary(#name, NT__OP_##name, a, b, site, NULL);     \
    }
BINARY(and)
BINARY(or)
BINARY(xor)
BINARY(shift_left)
BINARY(shift_right_logical)

/* An unsigned integer has no sign to repeat. */
nt_tensor nt_shift_right_at(nt_tensor a, nt_tensor b, nt_site site) {
    nt_dtype dtype = nt_dtype_of(nt__is_number(a) ? b : a);
    nt__op op = nt__dtype_is_unsigned(dtype) ? NT__OP_shift_right_logical : NT__OP_shift_right;
    return nt__binary("shift_right", op, a, b, site, NULL);
}

#define UNARY(name)                                                       \
    nt_tensor nt_##name##_at(nt_tensor x, nt_site site) {                 \
        return nt__emit(NT__OP_##name, site, (nt__type){0}, 1, &x, NULL); \
    }
UNARY(not )
UNARY(popcount)
UNARY(count_leading_zeros)

/* The shape of the bits of `from` as elements of another size; false when they do not come out even. */
static bool bitcast_shape(nt__type from, nt_dtype to, nt_shape *out) {
    size_t own = nt_dtype_size(from.dtype), other = nt_dtype_size(to);
    int rank = from.shape.rank;
    *out = from.shape;
    if (own > other) {
        if (rank == NT_MAX_RANK) return false;
        out->dims[out->rank++] = (int64_t)(own / other);
    } else if (own < other) {
        if (rank == 0 || from.shape.dims[rank - 1] != (int64_t)(other / own)) return false;
        out->rank--;
    }
    return true;
}

nt_tensor nt_bitcast_at(nt_tensor x, nt_dtype dtype, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "bitcast");
    if (!node || !nt__type_possible(site, "bitcast", (nt__type){dtype, {0}})) return nt__failed();
    nt__type from = node->type, to = {.dtype = dtype};
    if (from.dtype == NT_BOOL || dtype == NT_BOOL || !bitcast_shape(from, dtype, &to.shape)) {
        char text[NT__TYPE_TEXT];
        return nt__trace_fail(site, "bitcast",
                              "%s does not become %s: a wider type takes a last axis with the parts of one element, a "
                              "narrower one adds such an axis, and bool has no bits of its own",
                              nt__type_text(from, text), nt_dtype_name(dtype));
    }
    if (from.dtype == dtype) return x;
    return nt__emit(NT__OP_bitcast, site, to, 1, &x, NULL);
}
