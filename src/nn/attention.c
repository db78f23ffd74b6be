/* Attention, rotary positions, and the multi-head layer. */
#include "nitro/attention.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "nn/model.h"

static nt_tensor number(double value) {
    return nt_tensor_number(value);
}

/* ---- attention -------------------------------------------------------------------------------------------------- */

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

/* What both masks show; one that is not set shows all. */
static nt_tensor both(nt_tensor a, nt_tensor b, nt_site site) {
    if (!a.trace) return b;
    return b.trace ? nt_and_at(a, b, site) : a;
}

/* Not set where all keys are seen. */
static nt_tensor seen_keys(const nt_attention_options *options, nt_shape queries, nt_shape keys, nt_site site) {
    nt_tensor seen = options->mask;
    if (options->causal)
        seen = both(seen, causal_mask(queries.dims[2], keys.dims[2], options->query_offset, site), site);
    if (options->lengths.trace)
        seen = both(seen, length_mask(options->lengths, keys.dims[0], keys.dims[2], site), site);
    return seen;
}

/* Whether no query can be left without a key, whatever the values of the masks are. */
static bool all_see_some(const nt_attention_options *options) {
    return options->causal && options->query_offset >= 0 && !options->mask.trace && !options->lengths.trace;
}

/* What is not seen becomes -infinity: by a sum, which the engine can fuse with the product before it and the power
 * behind it, where no score is infinite itself, as the products of f16 can be. */
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

/* Whether a tensor that may be left out has integers of this shape. */
static bool check_integers(const char *what, const char *which, nt_tensor x, nt_shape wanted, nt_site site) {
    if (!x.trace) return true;
    if (!nt__tensor_given(x, site, what, which)) return false;
    nt__type type = {nt_dtype_of(x), nt_shape_of(x)};
    char text[NT__TYPE_TEXT], shape[NT__TYPE_TEXT];
    if (type.dtype != NT_BOOL && !nt_dtype_is_float(type.dtype) && nt_shape_equal(type.shape, wanted)) return true;
    nt__trace_fail(site, what, "%s has to be integers %s, got %s", which, nt__shape_text(wanted, shape),
                   nt__type_text(type, text));
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

/* What says which keys are seen. */
static bool check_seen(const char *what, nt_tensor mask, nt_tensor lengths, nt_shape scores, nt_site site) {
    return check_mask(what, mask, scores, site) &&
           check_integers(what, ".lengths", lengths, nt_dims(scores.dims[0]), site);
}

static bool check_scale(double scale, nt_site site) {
    if (isfinite(scale)) return true;
    nt__trace_fail(site, "attention", ".scale is %g and has to be finite", nt__plain_nan(scale));
    return false;
}

nt_tensor nt_attention_at(nt_tensor queries, nt_tensor keys, nt_tensor values, nt_attention_options options,
                          nt_site site) {
    if (!check(queries, keys, values, site)) return nt__failed();
    nt_shape shape = nt_shape_of(queries), scores_shape = shape;
    scores_shape.dims[3] = nt_shape_of(keys).dims[2];
    if (!check_seen("attention", options.mask, options.lengths, scores_shape, site)) return nt__failed();
    if (!check_scale(options.scale, site)) return nt__failed();
    nt_dtype dtype = nt_dtype_of(queries), wide = dtype == NT_F64 ? NT_F64 : NT_F32;
    double divisor = options.scale != 0 ? 1 / options.scale : sqrt((double)shape.dims[3]);
    nt_tensor turned = nt_transpose_at(for_heads(keys, shape.dims[1], site), nt_dims(0, 1, 3, 2), site);
    nt_tensor scores = nt_convert_at(nt_matmul_at(queries, turned, site), wide, site);
    scores = nt_div_at(scores, number(divisor), site);
    nt_tensor weights = weigh(scores, dtype, &options, shape, nt_shape_of(keys), site);
    return nt_matmul_at(nt_convert_at(weights, dtype, site), for_heads(values, shape.dims[1], site), site);
}

/* ---- rotary positions ------------------------------------------------------------------------------------------- */

/* Angles of `shape`: its last axis has the pairs, one of the others the positions. */
static nt_tensor angles(nt_dtype dtype, nt_shape shape, int axis, const nt_rotary_options *options, nt_site site) {
    double base = options->base != 0 ? options->base : 10000;
    int last = shape.rank - 1;
    nt_tensor position = nt_add_at(nt_iota_at(dtype, shape, axis, site), number((double)options->offset), site);
    if (options->position.trace) position = nt_add_at(position, nt_convert_at(options->position, dtype, site), site);
    nt_tensor pair = nt_iota_at(dtype, shape, last, site);
    nt_tensor rate = nt_exp_at(nt_mul_at(pair, number(-log(base) / (double)shape.dims[last]), site), site);
    return nt_mul_at(position, rate, site);
}

/* Turns x, whose positions are along axis 1 or 2 of four. */
static nt_tensor rotate(nt_tensor x, int along, const nt_rotary_options *options, nt_site site) {
    nt_shape shape = nt_shape_of(x);
    nt_dtype dtype = nt_dtype_of(x), wide = dtype == NT_F64 ? NT_F64 : NT_F32;
    int64_t pairs = shape.dims[3] / 2;
    nt_shape apart = {.rank = 5, .dims = {shape.dims[0], shape.dims[1], shape.dims[2], pairs, pairs}};
    int axis = options->interleaved ? 4 : 3;
    apart.dims[axis] = 2;
    nt_shape start = {.rank = 5}, limit = apart;
    nt_tensor split = nt_reshape_at(nt_convert_at(x, wide, site), apart, site);
    nt_shape half = nt_dims(shape.dims[0], shape.dims[1], shape.dims[2], pairs), table = nt_dims(1, 1, pairs);
    limit.dims[axis] = 1;
    nt_tensor first = nt_reshape_at(nt_slice_at(split, start, limit, site), half, site);
    start.dims[axis] = 1;
    limit.dims[axis] = 2;
    nt_tensor second = nt_reshape_at(nt_slice_at(split, start, limit, site), half, site);
    table.dims[along - 1] = shape.dims[along];
    nt_tensor angle = angles(wide, table, along - 1, options, site);
    /* The engine would compute both anew for each sample and head. */
    nt_tensor cosine = nt__computed_once(nt_cos_at(angle, site), site);
    nt_tensor sine = nt__computed_once(nt_sin_at(angle, site), site);
    nt_tensor turned[2] = {
        nt_sub_at(nt_mul_at(first, cosine, site), nt_mul_at(second, sine, site), site),
        nt_add_at(nt_mul_at(first, sine, site), nt_mul_at(second, cosine, site), site),
    };
    nt_tensor joined = nt_stack_at(turned, 2, axis, site);
    return nt_convert_at(nt_reshape_at(joined, shape, site), dtype, site);
}

nt_tensor nt_rotary_at(nt_tensor x, nt_rotary_options options, nt_site site) {
    if (!nt__tensor_given(x, site, "rotary", "x")) return nt__failed();
    nt__type type = {nt_dtype_of(x), nt_shape_of(x)};
    if (type.shape.rank != 4 || type.shape.dims[3] % 2 != 0 || !nt_dtype_is_float(type.dtype)) {
        char text[NT__TYPE_TEXT];
        return nt__trace_fail(site, "rotary",
                              "needs a floating tensor [batch, length, heads, depth] of even depth, got %s",
                              nt__type_text(type, text));
    }
    if (!isfinite(options.base) || options.base < 0)
        return nt__trace_fail(site, "rotary",
                              ".base is %g and has to be a finite number above 0; not given, it is 10000",
                              nt__plain_nan(options.base));
    if (!check_integers("rotary", ".position", options.position, (nt_shape){0}, site)) return nt__failed();
    return rotate(x, 1, &options, site);
}

/* ---- the layer -------------------------------------------------------------------------------------------------- */

static nt_tensor heads_first(nt_tensor x, nt_site site) {
    return nt_transpose_at(x, nt_dims(0, 2, 1, 3), site);
}

/* A dense layer, cut into heads: [batch, heads, length, size]. */
static nt_tensor project(nt_model *m, const char *name, nt_tensor x, int64_t heads, int64_t size,
                         const nt_multi_head_options *options, nt_site site) {
    nt_shape shape = nt_shape_of(x);
    nt_dense_options dense = {.no_bias = options->no_bias, .weight_init = options->weight_init};
    nt_tensor y = nt_dense_at(m, name, x, heads * size, dense, site);
    return heads_first(nt_reshape_at(y, nt_dims(shape.dims[0], shape.dims[1], heads, size), site), site);
}

nt_attention_cache nt_attention_cache_empty_at(nt_dtype dtype, int64_t batch, int64_t groups, int64_t length,
                                               int64_t head_size, nt_site site) {
    nt_tensor zeros = nt_full_at(dtype, nt_dims(batch, groups, length, head_size), 0, site);
    return (nt_attention_cache){zeros, zeros};
}

/* Puts keys and values of x, [batch, groups, positions, size], into the cache and gives the mask of what the queries of
 * x see in it, [positions, length]. */
static nt_tensor write_cache(const nt_multi_head_options *options, nt_tensor keys, nt_tensor values, nt_site site) {
    nt_attention_cache *cache = options->cache;
    int64_t length = nt_shape_of(cache->keys).dims[2];
    nt_shape shape = nt_dims(nt_shape_of(keys).dims[2], length);
    nt_tensor position = nt_convert_at(options->position, NT_I32, site);
    nt_tensor place = nt_reshape_at(nt_mod_at(position, number((double)length), site), nt_dims(1), site);
    nt_tensor start = nt_pad_at(place, nt_dims(2), nt_dims(1), number(0), site);
    nt_dtype dtype = nt_dtype_of(cache->keys);
    cache->keys = nt_dynamic_update_at(cache->keys, nt_convert_at(keys, dtype, site), start, site);
    cache->values = nt_dynamic_update_at(cache->values, nt_convert_at(values, dtype, site), start, site);
    nt_tensor last = nt_add_at(nt_iota_at(NT_I32, shape, 0, site), position, site);
    return nt_less_equal_at(nt_iota_at(NT_I32, shape, 1, site), last, site);
}

static nt_tensor attend(nt_model *m, nt_tensor x, int64_t heads, const nt_multi_head_options *options, nt_site site) {
    nt_shape shape = nt_shape_of(x);
    int64_t groups = options->groups, size = options->head_size;
    nt_tensor context = options->context.trace ? options->context : x;
    nt_tensor queries = project(m, "query", x, heads, size, options, site);
    nt_tensor keys = project(m, "key", context, groups, size, options, site);
    nt_tensor values = project(m, "value", context, groups, size, options, site);
    if (options->rotary) {
        nt_rotary_options rotary = {.position = options->position};
        queries = rotate(queries, 2, &rotary, site);
        keys = rotate(keys, 2, &rotary, site);
    }
    nt_attention_options attention = {.mask = options->mask, .causal = options->causal, .lengths = options->lengths};
    if (options->cache) {
        attention.causal = false;
        attention.mask = both(options->mask, write_cache(options, keys, values, site), site);
        keys = nt_convert_at(options->cache->keys, nt_dtype_of(queries), site);
        values = nt_convert_at(options->cache->values, nt_dtype_of(queries), site);
    }
    nt_tensor y = nt_attention_at(queries, keys, values, attention, site);
    y = nt_reshape_at(heads_first(y, site), nt_dims(shape.dims[0], shape.dims[1], heads * size), site);
    nt_dense_options dense = {.no_bias = options->no_bias, .weight_init = options->weight_init};
    return nt_dense_at(m, "output", y, shape.dims[2], dense, site);
}

/* Fills in what was not given. */
static bool complete(const char *what, nt__type x, int64_t heads, nt_multi_head_options *options, nt_site site) {
    char text[NT__TYPE_TEXT];
    if (x.shape.rank != 3 || !nt_dtype_is_float(x.dtype))
        nt__trace_fail(site, what, "x has to be floating [batch, length, features], got %s", nt__type_text(x, text));
    else if (heads < 1)
        nt__trace_fail(site, what, "it has %lld heads and needs at least 1", (long long)heads);
    else if (options->head_size < 0)
        nt__trace_fail(site, what, ".head_size is %lld and has to be above 0; not given, it is the features / heads",
                       (long long)options->head_size);
    else if (!options->head_size && (x.shape.dims[2] < 1 || x.shape.dims[2] % heads != 0))
        nt__trace_fail(site, what,
                       "%lld heads do not divide the %lld features of x %s: give another number, or .head_size",
                       (long long)heads, (long long)x.shape.dims[2], nt__type_text(x, text));
    else if (options->groups < 0 || (options->groups && heads % options->groups != 0))
        nt__trace_fail(site, what, ".groups is %lld and has to divide the %lld heads", (long long)options->groups,
                       (long long)heads);
    else {
        if (!options->groups) options->groups = heads;
        if (!options->head_size) options->head_size = x.shape.dims[2] / heads;
        return true;
    }
    return false;
}

/* A context has the batch of x, and a type that layers compute in as that of x. */
static bool check_context(const nt_model *m, const char *what, nt_tensor context, nt_tensor x, nt_site site) {
    if (!context.trace) return true;
    if (!nt__tensor_given(context, site, what, ".context")) return false;
    nt__type type = {nt_dtype_of(context), nt_shape_of(context)}, own = {nt_dtype_of(x), nt_shape_of(x)};
    if (type.shape.rank == 3 && type.shape.dims[0] == own.shape.dims[0] &&
        nt__compute_dtype_of(m, context) == nt__compute_dtype_of(m, x))
        return true;
    char text[NT__TYPE_TEXT], own_text[NT__TYPE_TEXT];
    nt__trace_fail(site, what,
                   ".context is %s and has to be [batch, keys, features] with the batch and the type of x %s",
                   nt__type_text(type, text), nt__type_text(own, own_text));
    return false;
}

static bool check_rotary(const char *what, const nt_multi_head_options *options, nt_site site) {
    if (!options->rotary || options->head_size % 2 == 0) return true;
    nt__trace_fail(site, what, "the heads have size %lld, and rotary positions turn pairs: .head_size has to be even",
                   (long long)options->head_size);
    return false;
}

/* Keys or values of a cache: of the type of x, or one that layers take as that. */
static bool cache_fits(const nt_model *m, nt_tensor cache, nt_tensor x, const nt_multi_head_options *options) {
    nt_shape shape = nt_shape_of(cache), positions = nt_shape_of(x);
    bool types = nt__compute_dtype_of(m, cache) == nt__compute_dtype_of(m, x);
    return types && shape.rank == 4 && shape.dims[0] == positions.dims[0] && shape.dims[1] == options->groups &&
           shape.dims[2] >= positions.dims[1] && shape.dims[3] == options->head_size;
}

static bool check_cache(const nt_model *m, const char *what, nt_tensor x, const nt_multi_head_options *options,
                        nt_site site) {
    const nt_attention_cache *cache = options->cache;
    char text[3][NT__TYPE_TEXT];
    if (!cache && !options->position.trace) return true;
    if (!cache || !options->position.trace || options->context.trace) {
        nt__trace_fail(site, what, ".cache and .position go together, and without a .context");
        return false;
    }
    if (!nt__tensor_given(cache->keys, site, what, ".cache->keys") ||
        !nt__tensor_given(cache->values, site, what, ".cache->values") ||
        !check_integers(what, ".position", options->position, (nt_shape){0}, site))
        return false;
    if (cache_fits(m, cache->keys, x, options) && cache_fits(m, cache->values, x, options) &&
        nt_dtype_of(cache->keys) == nt_dtype_of(cache->values) &&
        nt_shape_equal(nt_shape_of(cache->keys), nt_shape_of(cache->values)))
        return true;
    nt__trace_fail(site, what,
                   "the cache has to be keys and values [batch, %lld groups, length, %lld], of the type of x and at "
                   "least as long; got %s and %s for x %s",
                   (long long)options->groups, (long long)options->head_size,
                   nt__type_text((nt__type){nt_dtype_of(cache->keys), nt_shape_of(cache->keys)}, text[0]),
                   nt__type_text((nt__type){nt_dtype_of(cache->values), nt_shape_of(cache->values)}, text[1]),
                   nt__type_text((nt__type){nt_dtype_of(x), nt_shape_of(x)}, text[2]));
    return false;
}

/* [batch, heads, queries, keys] */
static nt_shape scores_of(nt_tensor x, int64_t heads, const nt_multi_head_options *options) {
    nt_shape shape = nt_shape_of(x);
    int64_t keys = options->context.trace ? nt_shape_of(options->context).dims[1]
                   : options->cache       ? nt_shape_of(options->cache->keys).dims[2]
                                          : shape.dims[1];
    return nt_dims(shape.dims[0], heads, shape.dims[1], keys);
}

/* `what` is the call with the layer's name. */
static bool check_layer(const nt_model *m, const char *what, nt_tensor x, int64_t heads, nt_multi_head_options *options,
                        nt_site site) {
    return complete(what, (nt__type){nt_dtype_of(x), nt_shape_of(x)}, heads, options, site) &&
           check_rotary(what, options, site) && check_context(m, what, options->context, x, site) &&
           check_cache(m, what, x, options, site) &&
           check_seen(what, options->mask, options->lengths, scores_of(x, heads, options), site);
}

nt_tensor nt_multi_head_attention_at(nt_model *m, const char *name, nt_tensor x, int64_t heads,
                                     nt_multi_head_options options, nt_site site) {
    char what[NT__MAX_PATH];
    if (!nt__layer_given(m, name, x, site, "multi_head_attention")) return nt__failed();
    snprintf(what, sizeof what, "multi_head_attention: '%s'", name);
    if (!check_layer(m, what, x, heads, &options, site) || !nt_scope_enter(m, site, "%s", name)) return nt__failed();
    nt_tensor y = attend(m, x, heads, &options, site);
    nt_scope_leave(m);
    return y;
}
