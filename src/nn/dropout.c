/* Dropout. */
#include "nitro/random.h"
#include "nn/model.h"

static bool is_number(nt_tensor x) {
    return x.trace == NT_NUMBER_MARK;
}

static bool check(const char *name, nt_tensor x, nt_tensor rate, nt_site site) {
    nt__type type = {nt_dtype_of(x), nt_shape_of(x)}, rates = {nt_dtype_of(rate), nt_shape_of(rate)};
    char text[NT__TYPE_TEXT];
    if (!nt_dtype_is_float(type.dtype)) {
        nt__trace_fail(site, "dropout", "'%s' needs a floating tensor, got %s", name, nt__type_text(type, text));
        return false;
    }
    if (is_number(rate) && !(rate.number >= 0 && rate.number < 1)) {
        nt__trace_fail(site, "dropout",
                       "the rate of '%s' is %g; it is the share of elements that become 0, at least 0 and below 1",
                       name, nt__plain_nan(rate.number));
        return false;
    }
    const nt__bounds share = {.low = 0, .high = 1, .below_high = true};
    if (!is_number(rate)) nt__claim_bounds(rate, &share, "dropout", "the rate", "correct the data", site);
    if (is_number(rate) || (nt_dtype_is_float(rates.dtype) && rates.shape.rank == 0)) return true;
    nt__trace_fail(site, "dropout", "the rate of '%s' is %s; it is one floating number", name,
                   nt__type_text(rates, text));
    return false;
}

/* The probability of an element to stay. */
static nt_tensor kept_share(nt_tensor rate, nt_dtype dtype, nt_site site) {
    if (is_number(rate)) return nt_tensor_number(1 - rate.number);
    nt_tensor share = nt_sub_at(nt_tensor_number(1), nt_convert_at(rate, dtype, site), site);
    return nt_clamp_at(share, nt_tensor_number(0), nt_tensor_number(1), site);
}

/* What stays is multiplied by this. 1 / 0 would never be seen, but its product with a cotangent of 0 is nan. */
static nt_tensor scale(nt_tensor rate, nt_dtype dtype, nt_site site) {
    nt_tensor one = nt_tensor_number(1);
    if (is_number(rate)) return nt_tensor_number(1 / (1 - rate.number));
    nt_tensor share = kept_share(rate, dtype == NT_F64 ? NT_F64 : NT_F32, site);
    nt_tensor none = nt_equal_at(share, nt_tensor_number(0), site);
    return nt_convert_at(nt_div_at(one, nt_where_at(none, one, share, site), site), dtype, site);
}

/* A rate of nan drops nothing and makes all of x nan: it should not pass for a model that works. */
static nt_tensor drop(nt_tensor key, nt_tensor x, nt_tensor rate, nt_site site) {
    nt_tensor draw = nt_random_uniform_at(key, NT_F32, nt_shape_of(x), site);
    nt_tensor dropped = nt_greater_equal_at(draw, kept_share(rate, NT_F32, site), site);
    nt_tensor scaled = nt_mul_at(x, scale(rate, nt_dtype_of(x), site), site);
    return nt_where_at(dropped, nt_tensor_number(0), scaled, site);
}

nt_tensor nt_dropout_at(nt_model *m, const char *name, nt_tensor x, nt_tensor rate, nt_site site) {
    if (!nt__draw_name(m, "dropout", name, site)) return nt__failed();
    if (!nt__tensor_given(x, site, "dropout", "x")) return nt__failed();
    if (!is_number(rate) && !nt__tensor_given(rate, site, "dropout", "the rate")) return nt__failed();
    if (!check(name, x, rate, site)) return nt__failed();
    bool never = is_number(rate) && rate.number == 0;
    return m->training && !never ? drop(nt__draw_key(m, name, site), x, rate, site) : x;
}
