/* Losses: outputs and targets to a scalar. */
#include "nn/nn.h"

static nt_tensor reduce_loss(nt_tensor each, nt_reduction reduction, nt_site site) {
    nt_shape all = {0};
    if (reduction == NT_NONE) return each;
    return reduction == NT_SUM ? nt_sum_at(each, all, site) : nt_mean_at(each, all, site);
}

static bool labels_fit(nt__type logits, nt__type labels) {
    if (logits.shape.rank != labels.shape.rank + 1) return false;
    logits.shape.rank--;
    return nt_shape_equal(logits.shape, labels.shape);
}

/* (1 - s) a + s b for a number or a scalar tensor s. */
static nt_tensor mix(nt_tensor a, nt_tensor b, nt_tensor s, nt_site site) {
    nt_tensor weight = nt_convert_at(s, nt_dtype_of(a), site);
    return nt_add_at(a, nt_mul_at(weight, nt_sub_at(b, a, site), site), site);
}

nt_tensor nt_cross_entropy_at(nt_tensor logits, nt_tensor labels, nt_cross_entropy_options options, nt_site site) {
    nt__type scores = {nt_dtype_of(logits), nt_shape_of(logits)}, targets = {nt_dtype_of(labels), nt_shape_of(labels)};
    if (nt__tensor_failed(logits) || nt__tensor_failed(labels)) return logits;
    if (!nt_dtype_is_float(scores.dtype) || nt_dtype_is_float(targets.dtype) || !labels_fit(scores, targets)) {
        char first[NT__TYPE_TEXT], second[NT__TYPE_TEXT];
        return nt__trace_fail(site, "cross_entropy",
                              "needs floating logits [..., classes] and integer labels [...], got %s and %s",
                              nt__type_text(scores, first), nt__type_text(targets, second));
    }
    int64_t classes = scores.shape.dims[scores.shape.rank - 1];
    nt__claim_range(labels, 0, classes, site);
    nt_tensor log_probability = nt_log_softmax_at(logits, nt_dims(-1), site);
    nt_tensor hit = nt_one_hot_at(labels, classes, NT_BOOL, site);
    /* A choice, not a product: a logit of minus infinity elsewhere must not make 0 * infinity. */
    nt_tensor chosen = nt_where_at(hit, log_probability, nt_tensor_number(0), site);
    nt_tensor each = nt_neg_at(nt_sum_at(chosen, nt_dims(-1), site), site);
    if (options.label_smoothing.trace) {
        nt_tensor even = nt_neg_at(nt_mean_at(log_probability, nt_dims(-1), site), site);
        each = mix(each, even, options.label_smoothing, site);
    }
    return reduce_loss(each, options.reduction, site);
}

/* ---- a sum over a count ----------------------------------------------------------------------------------------- */

static bool is_scalar_of(nt_tensor x, bool floating, const char *name, nt_site site) {
    nt__type type = {nt_dtype_of(x), nt_shape_of(x)};
    bool right = type.shape.rank == 0 && type.dtype != NT_BOOL && (!floating || nt_dtype_is_float(type.dtype));
    if (right) return true;
    char text[NT__TYPE_TEXT];
    nt__trace_fail(site, "weighted_loss", "the %s is %s; it must be a %s scalar", name, nt__type_text(type, text),
                   floating ? "floating" : "numeric");
    return false;
}

/* Counts add up over the micro-batches of a step: f32 at least, which has all whole numbers up to 2^24. */
nt_tensor nt_weighted_loss_at(nt_tensor sum, nt_tensor count, nt_site site) {
    nt_dtype dtype = nt_dtype_of(sum) == NT_F64 ? NT_F64 : NT_F32;
    if (nt__tensor_failed(sum) || nt__tensor_failed(count)) return nt__failed();
    if (count.trace == NT_NUMBER_MARK) count = nt_full_at(dtype, (nt_shape){0}, count.number, site);
    if (!is_scalar_of(sum, true, "sum", site) || !is_scalar_of(count, false, "count", site)) return nt__failed();
    count = nt_stop_gradient_at(nt_convert_at(count, dtype, site), site);
    nt_tensor some = nt_where_at(nt_greater_at(count, nt_tensor_number(0), site), count, nt_tensor_number(1), site);
    nt_tensor value = nt_div_at(sum, nt_convert_at(some, nt_dtype_of(sum), site), site);
    nt__quotient_keep((nt__quotient){value, sum, count});
    return value;
}
