/* Attention as an operation on queries, keys and values.
 * Not here: rotary positions (rotary.c), the layer (multi_head.c).
 */
#include <float.h>
#include <math.h>

#include "nn/attention.h"

static nt_tensor number(double value) {
    return nt_tensor_number(value);
}

/* Which keys a query sees, [queries, keys]. */
static nt_tensor causal_mask(int64_t queries, int64_t keys, int64_t offset, nt_site site) {
    nt_shape shape = nt_dims(queries, keys);
    nt_tensor query = nt_iota_at(NT_I32, shape, 0, site), key = nt_iota_at(NT_I32, shape, 1, site);
    return nt_less_equal_at(key, nt_add_at(query, number((double)offset), site), site);
}

/* Along the last axis, over what is seen: zeros where that is nothing. Hidden scores become finite ones that no weight
 * is left of, so that no infinity gets into a gradient. */
static nt_tensor masked_softmax(nt_tensor scores, nt_tensor seen, nt_site site) {
    double lowest = nt_dtype_of(scores) == NT_F64 ? -DBL_MAX : -FLT_MAX;
    nt_tensor weights = nt_softmax_at(nt_where_at(seen, scores, number(lowest), site), nt_dims(-1), site);
    return nt_where_at(seen, weights, number(0), site);
}

/* Keys before the length of each sample, [batch, 1, 1, keys]. */
static nt_tensor length_mask(nt_tensor lengths, int64_t batch, int64_t keys, nt_site site) {
    nt_tensor key = nt_iota_at(NT_I32, nt_dims(1, 1, 1, keys), 3, site);
    nt_tensor length = nt_reshape_at(nt_convert_at(lengths, NT_I32, site), nt_dims(batch, 1, 1, 1), site);
    return nt_less_at(key, length, site);
}

nt_tensor nt__seen_by_both(nt_tensor a, nt_tensor b, nt_site site) {
    if (!a.trace) return b;
    return b.trace ? nt_and_at(a, b, site) : a;
}

/* Not set where all keys are seen. */
static nt_tensor seen_keys(const nt_attention_options *options, nt_shape queries, nt_shape keys, nt_site site) {
    nt_tensor seen = options->mask;
    if (options->causal)
        seen = nt__seen_by_both(seen, causal_mask(queries.dims[2], keys.dims[2], options->query_offset, site), site);
    if (options->lengths.trace)
        seen = nt__seen_by_both(seen, length_mask(options->lengths, keys.dims[0], keys.dims[2], site), site);
    return seen;
}

/* Whether no query can be left without a key, whatever the values of the masks are. */
static bool all_see_some(const nt_attention_options *options) {
    return options->causal && options->query_offset >= 0 && !options->mask.trace && !options->lengths.trace;
}

/* What is not seen becomes -infinity: by a sum, which the engine can fuse with the product before it and the power
 * after it, where no score is infinite itself, as the products of f16 can be. */
static nt_tensor hide(nt_tensor scores, nt_tensor seen, nt_dtype dtype, nt_site site) {
    if (dtype == NT_F16) return nt_where_at(seen, scores, number(-INFINITY), site);
    nt_tensor hidden = nt_where_at(seen, number(0), number(-INFINITY), site);
    return nt_add_at(scores, nt_convert_at(hidden, nt_dtype_of(scores), site), site);
}

/* `dtype` is that of the product which the scores are made of. */
static nt_tensor weigh(nt_tensor scores, nt_dtype dtype, const nt_attention_options *options, nt_shape queries,
                       nt_shape keys, nt_site site) {
    nt_tensor seen = seen_keys(options, queries, keys, site);
    if (seen.trace && !all_see_some(options)) return masked_softmax(scores, seen, site);
    if (seen.trace) scores = hide(scores, seen, dtype, site);
    return nt_softmax_at(scores, nt_dims(-1), site);
}

/* Keys or values of each head: group h / (heads / groups). */
static nt_tensor for_heads(nt_tensor x, int64_t heads, nt_site site) {
    nt_shape shape = nt_shape_of(x);
    int64_t groups = shape.dims[1];
    if (groups == heads) return x;
    nt_tensor apart = nt_reshape_at(x, nt_dims(shape.dims[0], groups, 1, shape.dims[2], shape.dims[3]), site);
    nt_shape repeated = nt_dims(shape.dims[0], groups, heads / groups, shape.dims[2], shape.dims[3]);
    shape.dims[1] = heads;
    return nt_reshape_at(nt_broadcast_at(apart, repeated, site), shape, site);
}

static bool operands_fit(nt_shape q, nt_shape k, nt_shape v) {
    bool ranks = q.rank == 4 && k.rank == 4 && v.rank == 4;
    return ranks && q.dims[0] == k.dims[0] && k.dims[0] == v.dims[0] && k.dims[1] > 0 && q.dims[1] % k.dims[1] == 0 &&
           k.dims[1] == v.dims[1] && k.dims[2] == v.dims[2] && q.dims[3] == k.dims[3];
}

static bool check(nt_tensor queries, nt_tensor keys, nt_tensor values, nt_site site) {
    if (!nt__tensor_given(queries, site, "attention", "queries") ||
        !nt__tensor_given(keys, site, "attention", "keys") || !nt__tensor_given(values, site, "attention", "values"))
        return false;
    nt__type types[3] = {{nt_dtype_of(queries), nt_shape_of(queries)},
                         {nt_dtype_of(keys), nt_shape_of(keys)},
                         {nt_dtype_of(values), nt_shape_of(values)}};
    bool one_type = types[0].dtype == types[1].dtype && types[1].dtype == types[2].dtype;
    if (one_type && nt_dtype_is_float(types[0].dtype) && operands_fit(types[0].shape, types[1].shape, types[2].shape))
        return true;
    char texts[3][NT__TYPE_TEXT];
    nt__trace_fail(site, "attention",
                   "needs queries [batch, heads, queries, depth], keys [batch, groups, keys, depth] and values [batch, "
                   "groups, keys, width] of one floating type, where groups divides heads; got %s, %s and %s",
                   nt__type_text(types[0], texts[0]), nt__type_text(types[1], texts[1]),
                   nt__type_text(types[2], texts[2]));
    return false;
}

/* Whether a shape of as many axes or fewer broadcasts to `wanted` and enlarges nothing. */
static bool broadcasts_to(nt_shape shape, nt_shape wanted) {
    bool right = shape.rank <= wanted.rank;
    for (int i = 1; right && i <= shape.rank; i++) {
        int64_t size = shape.dims[shape.rank - i];
        right = size == 1 || size == wanted.dims[wanted.rank - i];
    }
    return right;
}

/* `scores` is [batch, heads, queries, keys]. */
static bool check_mask(const char *what, nt_tensor mask, nt_shape scores, nt_site site) {
    if (!mask.trace) return true;
    if (!nt__tensor_given(mask, site, what, ".mask")) return false;
    nt__type type = {nt_dtype_of(mask), nt_shape_of(mask)};
    if (type.dtype == NT_BOOL && broadcasts_to(type.shape, scores)) return true;
    char text[NT__TYPE_TEXT], wanted[NT__TYPE_TEXT];
    nt__trace_fail(site, what,
                   ".mask is %s and has to be bool that broadcasts to [batch, heads, queries, keys], here %s: aligned "
                   "at the last axis, each size is 1 or the same. One for the keys of each sample, as for padding, is "
                   "[batch, 1, 1, keys]",
                   nt__type_text(type, text), nt__shape_text(scores, wanted));
    return false;
}

bool nt__attention_seen(const char *what, nt_tensor mask, nt_tensor lengths, nt_shape scores, nt_site site) {
    return check_mask(what, mask, scores, site) &&
           nt__option_of_integers(lengths, nt_dims(scores.dims[0]), site, what, ".lengths");
}

static bool check_scale(double scale, nt_site site) {
    if (isfinite(scale)) return true;
    nt__trace_fail(site, "attention", ".scale is %g and has to be finite", nt__plain_nan(scale));
    return false;
}

nt_tensor nt__seen_by_any(nt_tensor mask, nt_site site) {
    nt_shape shape = {.rank = 4}, given = nt_shape_of(mask);
    for (int i = 0; i < shape.rank; i++)
        shape.dims[i] = i < shape.rank - given.rank ? 1 : given.dims[i - (shape.rank - given.rank)];
    nt_tensor any = nt_any_at(nt_reshape_at(mask, shape, site), nt_dims(1, 2), site);
    return nt_reshape_at(any, nt_dims(shape.dims[0], shape.dims[3], 1), site);
}

nt_tensor nt__before_lengths(nt_tensor lengths, nt_tensor places, nt_site site) {
    nt_tensor length = nt_reshape_at(nt_convert_at(lengths, NT_I32, site), nt_dims(-1, 1, 1), site);
    return nt_less_at(nt_reshape_at(places, nt_dims(1, -1, 1), site), length, site);
}

/* Which keys some query may see, [batch or 1, 1, keys, 1]; not set where that may be all. */
static nt_tensor seen_at_all(const nt_attention_options *options, nt_tensor keys, nt_site site) {
    nt_tensor seen = {0};
    if (options->mask.trace) seen = nt__seen_by_any(options->mask, site);
    if (options->lengths.trace) {
        nt_tensor places = nt_iota_at(NT_I32, nt_dims(nt_shape_of(keys).dims[2]), 0, site);
        seen = nt__seen_by_both(seen, nt__before_lengths(options->lengths, places, site), site);
    }
    if (!seen.trace) return seen;
    nt_shape shape = nt_shape_of(seen);
    return nt_reshape_at(seen, nt_dims(shape.dims[0], 1, shape.dims[1], 1), site);
}

nt_tensor nt_attention_at(nt_tensor queries, nt_tensor keys, nt_tensor values, nt_attention_options options,
                          nt_site site) {
    return nt__attention(queries, keys, values, &options, false, site);
}

nt_tensor nt__attention(nt_tensor queries, nt_tensor keys, nt_tensor values, const nt_attention_options *given,
                        bool is_clean, nt_site site) {
    nt_attention_options options = *given;
    if (!check(queries, keys, values, site)) return nt__failed();
    nt_shape shape = nt_shape_of(queries), scores_shape = shape;
    scores_shape.dims[3] = nt_shape_of(keys).dims[2];
    if (!nt__attention_seen("attention", options.mask, options.lengths, scores_shape, site)) return nt__failed();
    if (!check_scale(options.scale, site)) return nt__failed();
    nt_tensor seen = {0};
    if (!is_clean) seen = seen_at_all(&options, keys, site);
    if (seen.trace) {
        keys = nt_where_at(seen, keys, number(0), site);
        values = nt_where_at(seen, values, number(0), site);
    }
    nt_dtype dtype = nt_dtype_of(queries), wide = dtype == NT_F64 ? NT_F64 : NT_F32;
    double divisor = options.scale != 0 ? 1 / options.scale : sqrt((double)shape.dims[3]);
    nt_tensor turned = nt_transpose_at(for_heads(keys, shape.dims[1], site), nt_dims(0, 1, 3, 2), site);
    nt_tensor scores = nt_convert_at(nt_matmul_at(queries, turned, site), wide, site);
    scores = nt_div_at(scores, number(divisor), site);
    nt_tensor weights = weigh(scores, dtype, &options, shape, nt_shape_of(keys), site);
    return nt_matmul_at(nt_convert_at(weights, dtype, site), for_heads(values, shape.dims[1], site), site);
}
