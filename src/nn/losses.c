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

/* ---- classes ---------------------------------------------------------------------------------------------------- */

static nt_tensor number(double value) {
    return nt_tensor_number(value);
}

static nt_shape last_axis(void) {
    return nt_dims(-1);
}

/* Over the classes: what counts where `which`, and nothing elsewhere. A choice, not a product: a logit of minus
 * infinity elsewhere must not make 0 * infinity. */
static nt_tensor sum_where(nt_tensor which, nt_tensor x, nt_site site) {
    return nt_sum_at(nt_where_at(which, x, number(0), site), last_axis(), site);
}

/* Of labels: which class each is, [..., classes]; labels are claimed to be classes or the ignored one. */
static nt_tensor hits(nt_tensor labels, int64_t classes, bool ignores, int64_t ignored, nt_site site) {
    int64_t low = ignores && ignored < 0 ? ignored : 0, limit = ignores && ignored >= classes ? ignored + 1 : classes;
    nt__claim_range(labels, low, limit, site);
    return nt_one_hot_at(labels, classes, NT_BOOL, site);
}

/* The sum over what counts, 0 where nothing does. */
static nt_tensor divide_by_weights(nt_tensor each, nt_tensor weights, nt_site site) {
    nt_tensor total = nt_sum_at(weights, (nt_shape){0}, site);
    nt_tensor some = nt_where_at(nt_greater_at(total, number(0), site), total, number(1), site);
    return nt_div_at(nt_sum_at(each, (nt_shape){0}, site), some, site);
}

static bool weights_fit(nt_tensor weights, nt__type scores, nt_site site) {
    if (!weights.trace) return true;
    nt__type given = {nt_dtype_of(weights), nt_shape_of(weights)},
             wanted = {scores.dtype, nt_dims(scores.shape.dims[scores.shape.rank - 1])};
    char first[NT__TYPE_TEXT], second[NT__TYPE_TEXT];
    if (nt__tensor_failed(weights)) return false;
    if (nt__type_equal(given, wanted)) return true;
    nt__trace_fail(site, "cross_entropy", "class_weights are %s; they must be %s", nt__type_text(given, first),
                   nt__type_text(wanted, second));
    return false;
}

/* `target` part of each sample's loss, and with smoothing a part of all classes. */
static nt_tensor smoothed(nt_tensor own, nt_tensor weighted, nt_tensor smoothing, nt_site site) {
    nt_tensor each = nt_neg_at(own, site);
    if (!smoothing.trace) return each;
    return mix(each, nt_neg_at(nt_mean_at(weighted, last_axis(), site), site), smoothing, site);
}

static nt_tensor of_labels(nt_tensor logits, nt_tensor labels, const nt_cross_entropy_options *options, nt_site site) {
    nt_tensor log_probability = nt_log_softmax_at(logits, last_axis(), site), weighted = log_probability;
    nt_tensor hit =
        hits(labels, nt_shape_of(logits).dims[nt_rank(logits) - 1], options->ignores, options->ignored, site);
    bool has_weights = options->class_weights.trace;
    if (has_weights) weighted = nt_mul_at(log_probability, options->class_weights, site);
    nt_tensor each = smoothed(sum_where(hit, weighted, site), weighted, options->label_smoothing, site);
    if (!options->ignores && !has_weights) return reduce_loss(each, options->reduction, site);
    nt_tensor counted = nt_full_at(nt_dtype_of(each), nt_shape_of(each), 1, site);
    if (has_weights) counted = sum_where(hit, options->class_weights, site);
    if (options->ignores) {
        nt_tensor kept = nt_not_equal_at(labels, number((double)options->ignored), site);
        each = nt_where_at(kept, each, number(0), site);
        counted = nt_where_at(kept, counted, number(0), site);
    }
    return options->reduction == NT_MEAN ? divide_by_weights(each, counted, site)
                                         : reduce_loss(each, options->reduction, site);
}

static nt_tensor of_distributions(nt_tensor logits, nt_tensor targets, const nt_cross_entropy_options *options,
                                  nt_site site) {
    nt_tensor weighted = nt_log_softmax_at(logits, last_axis(), site);
    if (options->class_weights.trace) weighted = nt_mul_at(weighted, options->class_weights, site);
    nt_tensor some = nt_not_equal_at(targets, number(0), site);
    nt_tensor safe = nt_where_at(some, weighted, number(0), site);
    nt_tensor own = nt_sum_at(nt_mul_at(targets, safe, site), last_axis(), site);
    return reduce_loss(smoothed(own, weighted, options->label_smoothing, site), options->reduction, site);
}

nt_tensor nt_cross_entropy_at(nt_tensor logits, nt_tensor targets, nt_cross_entropy_options options, nt_site site) {
    nt__type scores = {nt_dtype_of(logits), nt_shape_of(logits)}, given = {nt_dtype_of(targets), nt_shape_of(targets)};
    if (nt__tensor_failed(logits) || nt__tensor_failed(targets)) return logits;
    bool floating = nt_dtype_is_float(given.dtype);
    char first[NT__TYPE_TEXT], second[NT__TYPE_TEXT];
    nt__type_text(scores, first);
    nt__type_text(given, second);
    bool same = nt__type_equal(scores, given);
    if (floating && scores.shape.rank == given.shape.rank && (options.ignores || !same))
        return nt__trace_fail(site, "cross_entropy",
                              "labels are integers [...], and floating targets are like the logits, with none ignored; "
                              "got %s and %s",
                              first, second);
    if (!nt_dtype_is_float(scores.dtype) || scores.shape.rank == 0 ||
        (!same && (floating || !labels_fit(scores, given))))
        return nt__trace_fail(site, "cross_entropy",
                              "needs floating logits [..., classes] and integer labels [...], got %s and %s", first,
                              second);
    if (!weights_fit(options.class_weights, scores, site)) return nt__failed();
    return floating ? of_distributions(logits, targets, &options, site) : of_labels(logits, targets, &options, site);
}

/* Two floating tensors of one type: what would broadcast is a mistake in a loss. */
static bool alike(const char *what, nt_tensor a, nt_tensor b, int least_rank, nt_site site) {
    nt__type first = {nt_dtype_of(a), nt_shape_of(a)}, second = {nt_dtype_of(b), nt_shape_of(b)};
    if (nt__tensor_failed(a) || nt__tensor_failed(b)) return false;
    if (nt_dtype_is_float(first.dtype) && nt__type_equal(first, second) && first.shape.rank >= least_rank) return true;
    char texts[2][NT__TYPE_TEXT];
    nt__trace_fail(site, what, "needs two floating tensors of one type and shape%s, got %s and %s",
                   least_rank ? " with a last axis" : "", nt__type_text(first, texts[0]),
                   nt__type_text(second, texts[1]));
    return false;
}

static nt_tensor softplus(nt_tensor x, nt_site site) {
    return nt_logaddexp_at(x, number(0), site);
}

nt_tensor nt_binary_cross_entropy_at(nt_tensor logits, nt_tensor targets, nt_binary_cross_entropy_options options,
                                     nt_site site) {
    if (!alike("binary_cross_entropy", logits, targets, 0, site)) return nt__failed();
    nt_tensor positive = nt_mul_at(targets, softplus(nt_neg_at(logits, site), site), site);
    nt_tensor others = nt_sub_at(number(1), targets, site);
    nt_tensor negative = nt_mul_at(others, softplus(logits, site), site);
    if (options.positive_weight != 0) positive = nt_mul_at(positive, number(options.positive_weight), site);
    return reduce_loss(nt_add_at(positive, negative, site), options.reduction, site);
}

/* How far below the margin. */
static nt_tensor short_of(nt_tensor x, const nt_hinge_options *options, nt_site site) {
    double margin = options->margin != 0 ? options->margin : 1;
    nt_tensor missing = nt_relu_at(nt_sub_at(number(margin), x, site), site);
    return options->squared ? nt_square_at(missing, site) : missing;
}

nt_tensor nt_hinge_at(nt_tensor scores, nt_tensor targets, nt_hinge_options options, nt_site site) {
    if (!alike("hinge", scores, targets, 0, site)) return nt__failed();
    return reduce_loss(short_of(nt_mul_at(scores, targets, site), &options, site), options.reduction, site);
}

nt_tensor nt_hinge_classes_at(nt_tensor scores, nt_tensor labels, nt_hinge_options options, nt_site site) {
    nt__type type = {nt_dtype_of(scores), nt_shape_of(scores)}, given = {nt_dtype_of(labels), nt_shape_of(labels)};
    if (nt__tensor_failed(scores) || nt__tensor_failed(labels)) return nt__failed();
    if (!nt_dtype_is_float(type.dtype) || nt_dtype_is_float(given.dtype) || !labels_fit(type, given)) {
        char first[NT__TYPE_TEXT], second[NT__TYPE_TEXT];
        return nt__trace_fail(site, "hinge_classes",
                              "needs floating scores [..., classes] and integer labels [...], got %s and %s",
                              nt__type_text(type, first), nt__type_text(given, second));
    }
    int64_t classes = type.shape.dims[type.shape.rank - 1];
    nt_tensor hit = hits(labels, classes, false, 0, site);
    nt_tensor own = nt_sum_at(nt_where_at(hit, scores, number(0), site), nt_dims(-1, NT_KEEP), site);
    nt_tensor missing = short_of(nt_sub_at(own, scores, site), &options, site);
    nt_tensor each = sum_where(nt_not_at(hit, site), missing, site);
    return reduce_loss(nt_div_at(each, number((double)classes), site), options.reduction, site);
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

nt_tensor nt_mse_at(nt_tensor prediction, nt_tensor target, nt_loss_options options, nt_site site) {
    if (!alike("mse", prediction, target, 0, site)) return nt__failed();
    return reduce_loss(nt_square_at(nt_sub_at(prediction, target, site), site), options.reduction, site);
}

nt_tensor nt_mae_at(nt_tensor prediction, nt_tensor target, nt_loss_options options, nt_site site) {
    if (!alike("mae", prediction, target, 0, site)) return nt__failed();
    return reduce_loss(nt_abs_at(nt_sub_at(prediction, target, site), site), options.reduction, site);
}

nt_tensor nt_huber_at(nt_tensor prediction, nt_tensor target, nt_loss_options options, nt_site site) {
    if (!alike("huber", prediction, target, 0, site)) return nt__failed();
    double delta = options.delta != 0 ? options.delta : 1;
    nt_tensor difference = nt_sub_at(prediction, target, site), size = nt_abs_at(difference, site);
    nt_tensor curve = nt_mul_at(nt_square_at(difference, site), number(0.5), site);
    nt_tensor line = nt_mul_at(nt_sub_at(size, number(delta / 2), site), number(delta), site);
    nt_tensor each = nt_where_at(nt_less_equal_at(size, number(delta), site), curve, line, site);
    return reduce_loss(each, options.reduction, site);
}

nt_tensor nt_kl_divergence_at(nt_tensor log_prediction, nt_tensor target, nt_loss_options options, nt_site site) {
    if (!alike("kl_divergence", log_prediction, target, 0, site)) return nt__failed();
    nt_tensor some = nt_greater_at(target, number(0), site);
    nt_tensor log_target = nt_log_at(nt_where_at(some, target, number(1), site), site);
    nt_tensor difference = nt_where_at(some, nt_sub_at(log_target, log_prediction, site), number(0), site);
    return reduce_loss(nt_mul_at(target, difference, site), options.reduction, site);
}

/* ---- vectors ---------------------------------------------------------------------------------------------------- */

nt_tensor nt_cosine_loss_at(nt_tensor a, nt_tensor b, nt_loss_options options, nt_site site) {
    if (!alike("cosine_loss", a, b, 1, site)) return nt__failed();
    nt_tensor product = nt_sum_at(nt_mul_at(a, b, site), last_axis(), site);
    nt_tensor sizes = nt_mul_at(nt_norm_at(a, last_axis(), site), nt_norm_at(b, last_axis(), site), site);
    nt_tensor cosine = nt_div_at(product, nt_max_at(sizes, number(1e-8), site), site);
    return reduce_loss(nt_sub_at(number(1), cosine, site), options.reduction, site);
}

static nt_tensor unit(nt_tensor x, nt_site site) {
    nt_tensor size = nt_norm_at(x, nt_dims(-1, NT_KEEP), site);
    return nt_div_at(x, nt_max_at(size, number(1e-8), site), site);
}

/* Of each row that its own column is the largest. */
static nt_tensor find_own(nt_tensor similarity, nt_site site) {
    nt_tensor own = nt_iota_at(NT_I32, nt_dims(nt_shape_of(similarity).dims[0]), 0, site);
    return nt_cross_entropy_at(similarity, own, (nt_cross_entropy_options){.reduction = NT_NONE}, site);
}

nt_tensor nt_info_nce_at(nt_tensor a, nt_tensor b, nt_tensor temperature, nt_loss_options options, nt_site site) {
    if (!alike("info_nce", a, b, 2, site)) return nt__failed();
    if (nt_rank(a) != 2) {
        char text[NT__TYPE_TEXT];
        return nt__trace_fail(site, "info_nce", "needs two tensors [pairs, depth], got %s twice",
                              nt__type_text((nt__type){nt_dtype_of(a), nt_shape_of(a)}, text));
    }
    nt_tensor turned = nt_transpose_at(unit(b, site), nt_dims(1, 0), site);
    nt_tensor similarity = nt_div_at(nt_matmul_at(unit(a, site), turned, site), temperature, site);
    nt_tensor rows = find_own(similarity, site);
    nt_tensor columns = find_own(nt_transpose_at(similarity, nt_dims(1, 0), site), site);
    return reduce_loss(nt_mul_at(nt_add_at(rows, columns, site), number(0.5), site), options.reduction, site);
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
