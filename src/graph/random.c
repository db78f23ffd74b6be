/* Random numbers in traced code: threefry2x32 with 20 rounds (Salmon et al. 2011) in integer operations, with the bits
 * of base/random.h, and what is drawn from them. A draw is a function of its key alone. Not here: where keys come from.
 */
#include <math.h>

#include "graph/emit.h"
#include "nitro/random.h"

#define NUMBER(x) nt_tensor_number(x)

/* ---- keys and blocks -------------------------------------------------------------------------------------------- */

typedef struct words {
    nt_tensor first, second;
} words;

static bool is_key(const char *what, nt_tensor key, nt_site site) {
    const nt__node *node = nt__node_of(key, site, what);
    if (!node) return false;
    if (node->type.dtype == NT_U32 && node->type.shape.rank == 1 && node->type.shape.dims[0] == 2) return true;
    char text[NT__TYPE_TEXT];
    nt__trace_fail(site, what, "a key is u32[2], got %s", nt__type_text(node->type, text));
    return false;
}

static nt_tensor word(nt_tensor key, int64_t index, nt_site site) {
    return nt_reshape_at(nt_slice_at(key, nt_dims(index), nt_dims(index + 1), site), (nt_shape){0}, site);
}

static nt_tensor rotate(nt_tensor x, int by, nt_site site) {
    return nt_or_at(nt_shift_left_at(x, NUMBER(by), site), nt_shift_right_logical_at(x, NUMBER(32 - by), site), site);
}

/* The blocks of the counters (high, low), of any shape. */
static words threefry(nt_tensor key, nt_tensor high, nt_tensor low, nt_site site) {
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    nt_tensor k[3] = {word(key, 0, site), word(key, 1, site)};
    k[2] = nt_xor_at(nt_xor_at(k[0], k[1], site), NUMBER(0x1BD11BDA), site);
    words x = {nt_add_at(high, k[0], site), nt_add_at(low, k[1], site)};
    for (int group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            x.first = nt_add_at(x.first, x.second, site);
            x.second = nt_xor_at(rotate(x.second, rotations[group % 2][i], site), x.first, site);
        }
        x.first = nt_add_at(x.first, k[(group + 1) % 3], site);
        nt_tensor second = nt_add_at(k[(group + 2) % 3], NUMBER(group + 1), site);
        x.second = nt_add_at(x.second, second, site);
    }
    return x;
}

/* A block for each element, counted in row-major order. */
static bool blocks(const char *what, nt_tensor key, nt_shape shape, nt_site site, words *out) {
    nt__type type = {NT_U32, shape};
    if (!is_key(what, key, site) || !nt__type_possible(site, what, type)) return false;
    int64_t elements = nt_shape_elements(shape);
    if (elements > UINT32_MAX) {
        char text[NT__TYPE_TEXT];
        nt__trace_fail(site, what, "%s: one key draws at most %u elements", nt__shape_text(shape, text), UINT32_MAX);
        return false;
    }
    nt_tensor counter = nt_reshape_at(nt_iota_at(NT_U32, nt_dims(elements), 0, site), shape, site);
    *out = threefry(key, nt__filled(what, (nt__type){NT_U32, {0}}, 0, site), counter, site);
    return true;
}

static nt_tensor bits32(const char *what, nt_tensor key, nt_shape shape, nt_site site) {
    words x;
    return blocks(what, key, shape, site, &x) ? nt_xor_at(x.first, x.second, site) : nt__failed();
}

/* Both words of each block, one after the other. */
static nt_tensor bits64(const char *what, nt_tensor key, nt_shape shape, nt_site site) {
    words x;
    if (!blocks(what, key, shape, site, &x)) return nt__failed();
    nt_tensor high = nt_shift_left_at(nt_convert_at(x.first, NT_U64, site), NUMBER(32), site);
    return nt_or_at(high, nt_convert_at(x.second, NT_U64, site), site);
}

nt_tensor nt_random_bits_at(nt_tensor key, nt_dtype dtype, nt_shape shape, nt_site site) {
    const char *what = "random_bits";
    if (dtype == NT_U64) return bits64(what, key, shape, site);
    if (dtype == NT_U32) return bits32(what, key, shape, site);
    if (dtype != NT_U16 && dtype != NT_U8)
        return nt__trace_fail(site, what, "draws u8, u16, u32 or u64; nt_bitcast reads them as another type");
    nt_tensor low = nt_and_at(bits32(what, key, shape, site), NUMBER(dtype == NT_U8 ? 0xFF : 0xFFFF), site);
    return nt_convert_at(low, dtype, site);
}

/* The block of a counter as a key. */
static nt_tensor block(nt_tensor key, nt_tensor high, nt_tensor low, nt_site site) {
    words x = threefry(key, high, low, site);
    nt_tensor both = nt_broadcast_at(x.first, nt_dims(2), site);
    return nt_update_slice_at(both, nt_reshape_at(x.second, nt_dims(1), site), nt_dims(1), site);
}

static nt_tensor number_u32(uint32_t value, nt_site site) {
    return nt__filled("random_fold", (nt__type){NT_U32, {0}}, value, site);
}

nt_tensor nt__random_fold_wide(nt_tensor key, uint64_t data, nt_site site) {
    if (!is_key("random_fold", key, site)) return nt__failed();
    return block(key, number_u32((uint32_t)(data >> 32), site), number_u32((uint32_t)data, site), site);
}

/* Word 0 (low) or 1 (high) of each number. */
static nt_tensor words_of(const uint64_t *data, size_t count, int word, nt_site site) {
    uint32_t *elements = nt__trace_alloc(site, "random_fold", count, sizeof *elements);
    if (!elements) return nt__failed();
    for (size_t i = 0; i < count; i++) elements[i] = (uint32_t)(data[i] >> 32 * word);
    return nt__emit(NT__OP_constant, site, (nt__type){NT_U32, nt_dims((int64_t)count)}, 0, NULL,
                    &(nt__attributes){.elements = elements, .splat = count == 1});
}

nt_tensor nt__random_fold_each(nt_tensor key, const uint64_t *data, size_t count, nt_site site) {
    if (!is_key("random_fold", key, site)) return nt__failed();
    words x = threefry(key, words_of(data, count, 1, site), words_of(data, count, 0, site), site);
    return nt_stack_at((nt_tensor[]){x.first, x.second}, 2, 1, site);
}

nt_tensor nt_random_fold_at(nt_tensor key, nt_tensor data, nt_site site) {
    if (!is_key("random_fold", key, site)) return nt__failed();
    if (nt__is_number(data)) data = nt__filled("random_fold", (nt__type){NT_U32, {0}}, data.number, site);
    const nt__node *node = nt__node_of(data, site, "random_fold");
    if (!node) return nt__failed();
    if (node->type.dtype != NT_U32 || node->type.shape.rank != 0) {
        char text[NT__TYPE_TEXT];
        return nt__trace_fail(site, "random_fold", "what is folded in is u32[], got %s",
                              nt__type_text(node->type, text));
    }
    return block(key, number_u32(0, site), data, site);
}

/* ---- uniform ---------------------------------------------------------------------------------------------------- */

static bool is_drawn(const char *what, nt_dtype dtype, nt_site site) {
    if (dtype == NT_F32 || dtype == NT_F64) return true;
    nt__trace_fail(site, what, "draws f32 or f64; nt_convert makes other types of them");
    return false;
}

/* In [0, 1): the random bits as those of a number from 1 to 2, less 1. */
static nt_tensor unit(const char *what, nt_tensor key, nt_dtype dtype, nt_shape shape, nt_site site) {
    if (!is_drawn(what, dtype, site)) return nt__failed();
    nt_tensor mantissa, exponent = NUMBER(dtype == NT_F32 ? 0x3F800000 : 0x3FF0000000000000);
    if (dtype == NT_F32) {
        mantissa = nt_shift_right_logical_at(bits32(what, key, shape, site), NUMBER(9), site);
    } else {
        mantissa = nt_shift_right_logical_at(bits64(what, key, shape, site), NUMBER(12), site);
    }
    return nt_sub_at(nt_bitcast_at(nt_or_at(mantissa, exponent, site), dtype, site), NUMBER(1), site);
}

/* The rounded product may fall below the lower end. */
static nt_tensor between(nt_tensor unit_draw, double low, double high, nt_site site) {
    nt_tensor wide = nt_add_at(nt_mul_at(unit_draw, NUMBER(high - low), site), NUMBER(low), site);
    return nt_max_at(wide, NUMBER(low), site);
}

nt_tensor nt_random_uniform_at(nt_tensor key, nt_dtype dtype, nt_shape shape, nt_site site) {
    return unit("random_uniform", key, dtype, shape, site);
}

nt_tensor nt_random_bernoulli_at(nt_tensor key, nt_tensor p, nt_shape shape, nt_site site) {
    const nt__bounds share = {.low = 0, .high = 1};
    if (!nt__is_number(p)) {
        nt__claim_bounds(p, &share, "random_bernoulli", "p", "correct the data", site);
    } else if (!(p.number >= 0 && p.number <= 1)) {
        return nt__trace_fail(site, "random_bernoulli", "p is %g; a probability is in 0..1", nt__plain_nan(p.number));
    }
    return nt_less_at(unit("random_bernoulli", key, NT_F32, shape, site), p, site);
}

/* ---- normal ----------------------------------------------------------------------------------------------------- */

static double before_one(nt_dtype dtype) {
    return dtype == NT_F32 ? (double)nextafterf(1, 0) : nextafter(1, 0);
}

nt_tensor nt_random_normal_at(nt_tensor key, nt_dtype dtype, nt_shape shape, nt_site site) {
    nt_tensor draw = unit("random_normal", key, dtype, shape, site);
    nt_tensor open = between(draw, -before_one(dtype), 1, site);
    return nt_mul_at(nt_erf_inv_at(open, site), NUMBER(M_SQRT2), site);
}

/* The number next to `x` on the way to 0, in the type. */
static double inside(nt_dtype dtype, double x) {
    return dtype == NT_F32 ? (double)nextafterf((float)x, 0) : nextafter(x, 0);
}

nt_tensor nt_random_truncated_normal_at(nt_tensor key, nt_dtype dtype, nt_shape shape, double cut, nt_site site) {
    const char *what = "random_truncated_normal";
    if (!(cut > 0) || isinf(cut))
        return nt__trace_fail(site, what, "cut at %g: it must be above 0", nt__plain_nan(cut));
    double edge = erf(cut / M_SQRT2);
    nt_tensor draw = between(unit(what, key, dtype, shape, site), -edge, edge, site);
    nt_tensor normal = nt_mul_at(nt_erf_inv_at(draw, site), NUMBER(M_SQRT2), site);
    return nt_max_at(nt_min_at(normal, NUMBER(inside(dtype, cut)), site), NUMBER(-inside(dtype, cut)), site);
}

/* ---- choices ---------------------------------------------------------------------------------------------------- */

nt_tensor nt_random_categorical_at(nt_tensor key, nt_tensor logits, nt_site site) {
    const char *what = "random_categorical";
    const nt__node *node = nt__node_of(logits, site, what);
    if (!node || !nt__type_floating(site, what, node->type)) return nt__failed();
    nt_dtype dtype = node->type.dtype;
    double tiny = dtype == NT_F64 ? 0x1p-1022 : 0x1p-126;
    nt_tensor draw = between(unit(what, key, dtype, node->type.shape, site), tiny, 1, site);
    nt_tensor gumbel = nt_neg_at(nt_log_at(nt_neg_at(nt_log_at(draw, site), site), site), site);
    return nt_argmax_at(nt_add_at(logits, gumbel, site), -1, site);
}

nt_tensor nt_random_permutation_at(nt_tensor key, int64_t count, nt_site site) {
    const char *what = "random_permutation";
    if (!is_key(what, key, site)) return nt__failed();
    if (count < 0 || count > INT32_MAX)
        return nt__trace_fail(site, what, "of %lld elements: there may be 0 to %d", (long long)count, INT32_MAX);
    nt_tensor order = nt_iota_at(NT_I32, nt_dims(count), 0, site);
    /* Equal words keep their order: sorting again makes that unlikely to matter. */
    int rounds = count > 1 ? (int)ceil(3 * log((double)count) / log(UINT32_MAX)) : 0;
    for (int i = 0; i < rounds; i++) {
        nt_tensor bits = bits32(what, nt_random_fold_at(key, NUMBER(1), site), nt_dims(count), site);
        order = nt_take_at(order, nt_argsort_at(bits, 0, NT_ASCENDING, site), 0, site);
        key = nt_random_fold_at(key, NUMBER(0), site);
    }
    return order;
}
