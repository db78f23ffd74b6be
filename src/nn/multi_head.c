/* The multi-head layer: dense layers around attention, and its cache for decoding. */
#include <stdio.h>

#include "nn/attention.h"
#include "nn/model.h"

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
    nt__type type = {dtype, nt_dims(batch, groups, length, head_size)};
    char text[NT__TYPE_TEXT];
    bool right = nt_dtype_is_float(dtype) && batch > 0 && groups > 0 && length > 0 && head_size > 0;
    nt_tensor zeros =
        right ? nt_full_at(dtype, type.shape, 0, site)
              : nt__trace_fail(site, "attention_cache_empty", "a cache is floating and has sizes of at least 1, got %s",
                               nt__type_text(type, text));
    return (nt_attention_cache){zeros, zeros};
}

/* Puts keys and values of x, [batch, groups, positions, size], into the cache and gives the mask of what the queries of
 * x see in it, [positions, length]. */
static nt_tensor write_cache(const nt_multi_head_options *options, nt_tensor keys, nt_tensor values, nt_site site) {
    nt_attention_cache *cache = options->cache;
    int64_t length = nt_shape_of(cache->keys).dims[2];
    nt_shape shape = nt_dims(nt_shape_of(keys).dims[2], length);
    nt_tensor position = nt_convert_at(options->position, NT_I32, site);
    nt_tensor place = nt_reshape_at(nt_mod_at(position, nt_tensor_number((double)length), site), nt_dims(1), site);
    nt_tensor start = nt_pad_at(place, nt_dims(2), nt_dims(1), nt_tensor_number(0), site);
    nt_dtype dtype = nt_dtype_of(cache->keys);
    cache->keys = nt_dynamic_update_at(cache->keys, nt_convert_at(keys, dtype, site), start, site);
    cache->values = nt_dynamic_update_at(cache->values, nt_convert_at(values, dtype, site), start, site);
    nt_tensor last = nt_add_at(nt_iota_at(NT_I32, shape, 0, site), position, site);
    return nt_less_equal_at(nt_iota_at(NT_I32, shape, 1, site), last, site);
}

/* ---- padding: zeros in its place before the dense layers, whose gradients would have 0 * nan -------------------- */

static nt_tensor zeros_unless(nt_tensor which, nt_tensor x, nt_site site) {
    return nt_where_at(which, x, nt_tensor_number(0), site);
}

/* The places of the positions of x among the keys. */
static nt_tensor places_of(const nt_multi_head_options *options, int64_t positions, nt_site site) {
    nt_tensor place = nt_iota_at(NT_I32, nt_dims(positions), 0, site);
    if (!options->cache) return place;
    nt_tensor length = nt_tensor_number((double)nt_shape_of(options->cache->keys).dims[2]);
    return nt_mod_at(nt_add_at(place, nt_convert_at(options->position, NT_I32, site), site), length, site);
}

/* What queries, and keys and values, are made of. A position beyond the length of its sample is padding; but with a
 * cache one may ask without being seen itself, so there only what is not finite goes. */
static void take_padding_out(const nt_multi_head_options *options, nt_tensor *x, nt_tensor *context, nt_site site) {
    bool is_own = !options->context.trace;
    if (options->lengths.trace) {
        nt_tensor places = places_of(options, nt_shape_of(*context).dims[1], site);
        nt_tensor kept = nt__before_lengths(options->lengths, places, site), own = kept;
        if (options->cache) own = nt_or_at(kept, nt_is_finite_at(*x, site), site);
        *context = zeros_unless(kept, *context, site);
        if (is_own) *x = zeros_unless(own, *x, site);
    }
    if (options->mask.trace && !options->cache)
        *context = zeros_unless(nt__seen_by_any(options->mask, site), *context, site);
}

/* ---- the layer's result ----------------------------------------------------------------------------------------- */

static nt_tensor attend(nt_model *m, nt_tensor x, int64_t heads, const nt_multi_head_options *options, nt_site site) {
    nt_shape shape = nt_shape_of(x);
    int64_t groups = options->groups, size = options->head_size;
    nt_tensor context = options->context.trace ? options->context : x;
    take_padding_out(options, &x, &context, site);
    nt_tensor queries = project(m, "query", x, heads, size, options, site);
    nt_tensor keys = project(m, "key", context, groups, size, options, site);
    nt_tensor values = project(m, "value", context, groups, size, options, site);
    if (options->rotary) {
        nt_rotary_options rotary = {.position = options->position};
        queries = nt__rotate(queries, 2, &rotary, site);
        keys = nt__rotate(keys, 2, &rotary, site);
    }
    nt_attention_options attention = {.mask = options->mask, .causal = options->causal, .lengths = options->lengths};
    if (options->cache) {
        attention.causal = false;
        attention.mask = nt__seen_by_both(options->mask, write_cache(options, keys, values, site), site);
        keys = nt_convert_at(options->cache->keys, nt_dtype_of(queries), site);
        values = nt_convert_at(options->cache->values, nt_dtype_of(queries), site);
    }
    bool is_clean = !options->cache || !options->mask.trace;
    nt_tensor y = nt__attention(queries, keys, values, &attention, is_clean, site);
    y = nt_reshape_at(heads_first(y, site), nt_dims(shape.dims[0], shape.dims[1], heads * size), site);
    nt_dense_options dense = {.no_bias = options->no_bias, .weight_init = options->weight_init};
    return nt_dense_at(m, "output", y, shape.dims[2], dense, site);
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

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
        !nt__option_of_integers(options->position, (nt_shape){0}, site, what, ".position"))
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
           nt__attention_seen(what, options->mask, options->lengths, scores_of(x, heads, options), site);
}

/* ---- the layer -------------------------------------------------------------------------------------------------- */

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
