/* Losses: outputs and targets to a scalar. */
#include <math.h>

#include "nn/nn.h"

/* ---- what several of them check --------------------------------------------------------------------------------- */

static nt_tensor reduce_loss(const char *what, nt_tensor each, nt_reduction reduction, nt_site site) {
    nt_shape all = {0};
    switch (reduction) {
    case NT_MEAN: return nt_mean_at(each, all, site);
    case NT_SUM: return nt_sum_at(each, all, site);
    case NT_NONE: return each;
    }
    return nt__trace_fail(site, what, "reduction is %d; it must be NT_MEAN, NT_SUM or NT_NONE", (int)reduction);
}

static bool is_number(nt_tensor x) {
    return x.trace == NT_NUMBER_MARK;
}

/* Of an option whose 0 stands for its default. */
static bool number_fits(const char *what, const char *name, double value, nt_site site) {
    if (value >= 0 && isfinite(value)) return true;
    nt__trace_fail(site, what, "%s is %g; it must be a finite number above 0, and 0 stands for 1", name,
                   nt__plain_nan(value));
    return false;
}

/* A C number, or a floating tensor of one element without axes. */
static bool scalar_fits(const char *what, const char *name, nt_tensor x, nt_site site) {
    if (is_number(x)) return true;
    if (!nt__tensor_given(x, site, what, name)) return false;
    nt__type type = {nt_dtype_of(x), nt_shape_of(x)};
    if (type.shape.rank == 0 && nt_dtype_is_float(type.dtype)) return true;
    char text[NT__TYPE_TEXT];
    nt__trace_fail(site, what, "%s is %s; it must be a floating scalar or a C number", name, nt__type_text(type, text));
    return false;
}

/* ---- what the numbers of tensors have to be --------------------------------------------------------------------- */

static const nt__bounds share = {.low = 0, .high = 1}, below_one = {.low = 0, .high = 1, .below_high = true},
                        positive = {.low = 0, .high = INFINITY, .above_low = true},
                        from_zero = {.low = 0, .high = INFINITY}, sign = {.low = -1, .high = 1, .signs = true};

/* The same of probabilities along the last axis. */
static nt__bounds distribution(nt_tensor x) {
    nt__bounds bounds = share;
    nt_shape shape = nt_shape_of(x);
    if (shape.rank > 0) bounds.sums_to_1 = shape.dims[shape.rank - 1];
    return bounds;
}

static const char missing_targets[] =
    "correct the data; targets that are missing are replaced with nt_where before the loss, and what they cost is left "
    "out with nt_where after it, with .reduction = NT_NONE";

static void claim_targets(const char *what, const char *name, nt_tensor targets, nt__bounds bounds, nt_site site) {
    const char *advice =
        bounds.signs ? "correct the data; nt_sub(nt_mul(y, 2), 1) makes -1 and 1 of 0 and 1" : missing_targets;
    nt__claim_bounds(targets, &bounds, what, name, advice, site);
}

/* Of what most often is a Device field. */
static void claim_option(const char *what, const char *name, nt_tensor x, const nt__bounds *bounds, nt_site site) {
    nt__claim_bounds(x, bounds, what, name, "correct the data", site);
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

/* Claims that labels are classes or the ignored one. True when the host makes sure of it: where the ignored one is
 * further from the classes than the next number, the range has labels that are neither. */
static bool claim_labels(nt_tensor labels, int64_t classes, const nt_cross_entropy_options *options, nt_site site) {
    if (!options->ignores)
        return nt__claim_range_advising(labels, 0, classes,
                                        "correct the data, or the number of classes; a label that marks what is not to "
                                        "count, as padding, is left out by .ignores = true with it in .ignored",
                                        site);
    int64_t ignored = options->ignored, low = ignored < 0 ? ignored : 0,
            limit = ignored >= classes ? ignored + 1 : classes;
    return nt__claim_range(labels, low, limit, site) && ignored >= -1 && ignored <= classes;
}

/* nan where a label is no class, so that training stops at it. */
static nt_tensor nan_without_class(nt_tensor each, nt_tensor labels, int64_t classes, nt_site site) {
    nt_tensor wide = nt_convert_at(labels, NT_I64, site); /* u64 that do not fit become negative */
    nt_tensor is_class =
        nt_and_at(nt_greater_equal_at(wide, number(0), site), nt_less_at(wide, number((double)classes), site), site);
    return nt_where_at(is_class, each, number(NAN), site);
}

/* The sum over what counts, 0 where nothing does. */
static nt_tensor divide_by_weights(nt_tensor each, nt_tensor weights, nt_site site) {
    nt_tensor total = nt_sum_at(weights, (nt_shape){0}, site);
    nt_tensor some = nt_where_at(nt_greater_at(total, number(0), site), total, number(1), site);
    return nt_div_at(nt_sum_at(each, (nt_shape){0}, site), some, site);
}

static bool weights_fit(nt_tensor weights, nt__type scores, nt_site site) {
    if (!weights.trace) return true;
    if (!nt__tensor_given(weights, site, "cross_entropy", "class_weights")) return false;
    nt__type given = {nt_dtype_of(weights), nt_shape_of(weights)},
             wanted = {scores.dtype, nt_dims(scores.shape.dims[scores.shape.rank - 1])};
    char first[NT__TYPE_TEXT], second[NT__TYPE_TEXT];
    if (nt__type_equal(given, wanted)) {
        claim_option("cross_entropy", "class_weights", weights, &from_zero, site);
        return true;
    }
    nt__trace_fail(site, "cross_entropy", "class_weights are %s; they must be %s", nt__type_text(given, first),
                   nt__type_text(wanted, second));
    return false;
}

static bool smoothing_fits(nt_tensor smoothing, nt_site site) {
    if (!smoothing.trace) return true;
    if (!scalar_fits("cross_entropy", "label_smoothing", smoothing, site)) return false;
    if (!is_number(smoothing)) claim_option("cross_entropy", "label_smoothing", smoothing, &below_one, site);
    if (!is_number(smoothing) || (smoothing.number >= 0 && smoothing.number < 1)) return true;
    nt__trace_fail(site, "cross_entropy", "label_smoothing is %g; it must be in 0 <= s < 1",
                   nt__plain_nan(smoothing.number));
    return false;
}

static bool is_label(nt_dtype dtype, int64_t value) {
    char element[8];
    double wanted = (double)value;
    nt__element_set(dtype, element, wanted);
    return fabs(wanted) <= 0x1p53 && nt__element_get(dtype, element) == wanted;
}

static bool ignored_fits(const nt_cross_entropy_options *options, nt_dtype labels, nt_site site) {
    long long ignored = options->ignored;
    if (options->ignores ? is_label(labels, ignored) : ignored == 0) return true;
    if (options->ignores)
        nt__trace_fail(site, "cross_entropy", "ignored is %lld, and no label of %s can be that: convert the labels",
                       ignored, nt_dtype_name(labels));
    else
        nt__trace_fail(site, "cross_entropy",
                       "ignored is %lld without .ignores = true, so that no label would be left out: give both",
                       ignored);
    return false;
}

/* `target` part of each sample's loss, and with smoothing a part of all classes. */
static nt_tensor smoothed(nt_tensor own, nt_tensor weighted, nt_tensor smoothing, nt_site site) {
    nt_tensor each = nt_neg_at(own, site);
    if (!smoothing.trace) return each;
    return mix(each, nt_neg_at(nt_mean_at(weighted, last_axis(), site), site), smoothing, site);
}

/* Zeros in place of the logits of samples that do not count: the gradient of what is nan there would be 0 * nan. */
static nt_tensor keep_rows(nt_tensor kept, nt_tensor logits, nt_site site) {
    nt_shape column = nt_shape_of(logits);
    column.dims[column.rank - 1] = 1;
    return nt_where_at(nt_reshape_at(kept, column, site), logits, number(0), site);
}

/* Nothing where the weight is 0, also of a logarithm of 0. */
static nt_tensor weigh(nt_tensor log_probability, nt_tensor weights, nt_site site) {
    nt_tensor some = nt_where_at(nt_not_equal_at(weights, number(0), site), log_probability, number(0), site);
    return nt_mul_at(some, weights, site);
}

/* `sure`: all labels are classes or the ignored one. */
static nt_tensor of_labels(nt_tensor logits, nt_tensor labels, bool sure, const nt_cross_entropy_options *options,
                           nt_site site) {
    nt_tensor kept = {0};
    if (options->ignores) {
        kept = nt_not_equal_at(labels, number((double)options->ignored), site);
        logits = keep_rows(kept, logits, site);
    }
    nt_tensor log_probability = nt_log_softmax_at(logits, last_axis(), site), weighted = log_probability;
    int64_t classes = nt_shape_of(logits).dims[nt_rank(logits) - 1];
    nt_tensor hit = nt_one_hot_at(labels, classes, NT_BOOL, site);
    bool has_weights = options->class_weights.trace;
    if (has_weights) weighted = weigh(log_probability, options->class_weights, site);
    nt_tensor each = smoothed(sum_where(hit, weighted, site), weighted, options->label_smoothing, site);
    if (!sure) each = nan_without_class(each, labels, classes, site);
    if (!options->ignores && !has_weights) return reduce_loss("cross_entropy", each, options->reduction, site);
    nt_tensor counted = nt_full_at(nt_dtype_of(each), nt_shape_of(each), 1, site);
    if (has_weights) counted = sum_where(hit, options->class_weights, site);
    if (options->ignores) {
        each = nt_where_at(kept, each, number(0), site);
        counted = nt_where_at(kept, counted, number(0), site);
    }
    return options->reduction == NT_MEAN ? divide_by_weights(each, counted, site)
                                         : reduce_loss("cross_entropy", each, options->reduction, site);
}

static nt_tensor of_distributions(nt_tensor logits, nt_tensor targets, const nt_cross_entropy_options *options,
                                  nt_site site) {
    claim_targets("cross_entropy", "targets", targets, distribution(targets), site);
    nt_tensor weighted = nt_log_softmax_at(logits, last_axis(), site);
    if (options->class_weights.trace) weighted = weigh(weighted, options->class_weights, site);
    nt_tensor some = nt_not_equal_at(targets, number(0), site);
    nt_tensor safe = nt_where_at(some, weighted, number(0), site);
    nt_tensor own = nt_sum_at(nt_mul_at(targets, safe, site), last_axis(), site);
    return reduce_loss("cross_entropy", smoothed(own, weighted, options->label_smoothing, site), options->reduction,
                       site);
}

static bool operands_fit(nt__type scores, nt__type given, bool ignores, nt_site site) {
    bool floating = nt_dtype_is_float(given.dtype), like = scores.shape.rank == given.shape.rank;
    bool labelled = !floating && given.dtype != NT_BOOL && labels_fit(scores, given);
    bool fits = floating ? like && !ignores && nt__type_equal(scores, given) : labelled;
    if (fits && nt_dtype_is_float(scores.dtype) && scores.shape.rank > 0) return true;
    char first[NT__TYPE_TEXT], second[NT__TYPE_TEXT];
    nt__trace_fail(site, "cross_entropy",
                   floating && like ? "labels are integers [...], and floating targets are like the logits, with none "
                                      "ignored; got %s and %s"
                                    : "needs floating logits [..., classes] and integer labels [...], got %s and %s",
                   nt__type_text(scores, first), nt__type_text(given, second));
    return false;
}

nt_tensor nt_cross_entropy_at(nt_tensor logits, nt_tensor targets, nt_cross_entropy_options options, nt_site site) {
    if (!nt__tensor_given(logits, site, "cross_entropy", "logits") ||
        !nt__tensor_given(targets, site, "cross_entropy", "targets"))
        return nt__failed();
    nt__type scores = {nt_dtype_of(logits), nt_shape_of(logits)}, given = {nt_dtype_of(targets), nt_shape_of(targets)};
    if (!operands_fit(scores, given, options.ignores, site) || !ignored_fits(&options, given.dtype, site) ||
        !weights_fit(options.class_weights, scores, site) || !smoothing_fits(options.label_smoothing, site))
        return nt__failed();
    if (nt_dtype_is_float(given.dtype)) return of_distributions(logits, targets, &options, site);
    bool sure = claim_labels(targets, scores.shape.dims[scores.shape.rank - 1], &options, site);
    return of_labels(logits, targets, sure, &options, site);
}

/* What is compared, with the names that the header has for it. */
typedef struct compared {
    const char *what, *name_a, *name_b;
    int least_rank;
} compared;

/* Two floating tensors of one type: what would broadcast is a mistake in a loss. */
static bool alike(compared names, nt_tensor a, nt_tensor b, nt_site site) {
    const char *what = names.what;
    int least_rank = names.least_rank;
    if (!nt__tensor_given(a, site, what, names.name_a) || !nt__tensor_given(b, site, what, names.name_b)) return false;
    nt__type first = {nt_dtype_of(a), nt_shape_of(a)}, second = {nt_dtype_of(b), nt_shape_of(b)};
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
    if (!alike((compared){"binary_cross_entropy", "logits", "targets", 0}, logits, targets, site) ||
        !number_fits("binary_cross_entropy", "positive_weight", options.positive_weight, site))
        return nt__failed();
    claim_targets("binary_cross_entropy", "targets", targets, share, site);
    nt_tensor ones = nt_mul_at(targets, softplus(nt_neg_at(logits, site), site), site);
    nt_tensor others = nt_sub_at(number(1), targets, site);
    nt_tensor zeros = nt_mul_at(others, softplus(logits, site), site);
    if (options.positive_weight != 0) ones = nt_mul_at(ones, number(options.positive_weight), site);
    return reduce_loss("binary_cross_entropy", nt_add_at(ones, zeros, site), options.reduction, site);
}

/* How far below the margin. */
static nt_tensor short_of(nt_tensor x, const nt_hinge_options *options, nt_site site) {
    double margin = options->margin != 0 ? options->margin : 1;
    nt_tensor missing = nt_relu_at(nt_sub_at(number(margin), x, site), site);
    return options->squared ? nt_square_at(missing, site) : missing;
}

nt_tensor nt_hinge_at(nt_tensor scores, nt_tensor targets, nt_hinge_options options, nt_site site) {
    if (!alike((compared){"hinge", "scores", "targets", 0}, scores, targets, site) ||
        !number_fits("hinge", "margin", options.margin, site))
        return nt__failed();
    claim_targets("hinge", "targets", targets, sign, site);
    return reduce_loss("hinge", short_of(nt_mul_at(scores, targets, site), &options, site), options.reduction, site);
}

nt_tensor nt_hinge_classes_at(nt_tensor scores, nt_tensor labels, nt_hinge_options options, nt_site site) {
    const char *what = "hinge_classes";
    if (!nt__tensor_given(scores, site, what, "scores") || !nt__tensor_given(labels, site, what, "labels") ||
        !number_fits(what, "margin", options.margin, site))
        return nt__failed();
    nt__type type = {nt_dtype_of(scores), nt_shape_of(scores)}, given = {nt_dtype_of(labels), nt_shape_of(labels)};
    if (!nt_dtype_is_float(type.dtype) || nt_dtype_is_float(given.dtype) || given.dtype == NT_BOOL ||
        !labels_fit(type, given)) {
        char first[NT__TYPE_TEXT], second[NT__TYPE_TEXT];
        return nt__trace_fail(site, what,
                              "needs floating scores [..., classes] and integer labels [...], got %s and %s",
                              nt__type_text(type, first), nt__type_text(given, second));
    }
    int64_t classes = type.shape.dims[type.shape.rank - 1];
    bool sure = nt__claim_range(labels, 0, classes, site);
    nt_tensor hit = nt_one_hot_at(labels, classes, NT_BOOL, site);
    nt_tensor own = nt_sum_at(nt_where_at(hit, scores, number(0), site), nt_dims(-1, NT_KEEP), site);
    nt_tensor missing = short_of(nt_sub_at(own, scores, site), &options, site);
    nt_tensor each = nt_div_at(sum_where(nt_not_at(hit, site), missing, site), number((double)classes), site);
    if (!sure) each = nan_without_class(each, labels, classes, site);
    return reduce_loss(what, each, options.reduction, site);
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

nt_tensor nt_mse_at(nt_tensor prediction, nt_tensor target, nt_loss_options options, nt_site site) {
    if (!alike((compared){"mse", "prediction", "target", 0}, prediction, target, site)) return nt__failed();
    return reduce_loss("mse", nt_square_at(nt_sub_at(prediction, target, site), site), options.reduction, site);
}

nt_tensor nt_mae_at(nt_tensor prediction, nt_tensor target, nt_loss_options options, nt_site site) {
    if (!alike((compared){"mae", "prediction", "target", 0}, prediction, target, site)) return nt__failed();
    return reduce_loss("mae", nt_abs_at(nt_sub_at(prediction, target, site), site), options.reduction, site);
}

nt_tensor nt_huber_at(nt_tensor prediction, nt_tensor target, nt_huber_options options, nt_site site) {
    if (!alike((compared){"huber", "prediction", "target", 0}, prediction, target, site) ||
        !number_fits("huber", "delta", options.delta, site))
        return nt__failed();
    double delta = options.delta != 0 ? options.delta : 1;
    nt_tensor difference = nt_sub_at(prediction, target, site), size = nt_abs_at(difference, site);
    nt_tensor curve = nt_mul_at(nt_square_at(difference, site), number(0.5), site);
    nt_tensor line = nt_mul_at(nt_sub_at(size, number(delta / 2), site), number(delta), site);
    nt_tensor each = nt_where_at(nt_less_equal_at(size, number(delta), site), curve, line, site);
    return reduce_loss("huber", each, options.reduction, site);
}

nt_tensor nt_kl_divergence_at(nt_tensor log_prediction, nt_tensor target, nt_loss_options options, nt_site site) {
    if (!alike((compared){"kl_divergence", "log_prediction", "target", 0}, log_prediction, target, site))
        return nt__failed();
    claim_targets("kl_divergence", "target", target, nt_rank(target) > 1 ? distribution(target) : share, site);
    nt_tensor some = nt_greater_at(target, number(0), site);
    nt_tensor log_target = nt_log_at(nt_where_at(some, target, number(1), site), site);
    nt_tensor difference = nt_where_at(some, nt_sub_at(log_target, log_prediction, site), number(0), site);
    return reduce_loss("kl_divergence", nt_mul_at(target, difference, site), options.reduction, site);
}

/* ---- vectors ---------------------------------------------------------------------------------------------------- */

nt_tensor nt_cosine_loss_at(nt_tensor a, nt_tensor b, nt_loss_options options, nt_site site) {
    if (!alike((compared){"cosine_loss", "a", "b", 1}, a, b, site)) return nt__failed();
    nt_tensor product = nt_sum_at(nt_mul_at(a, b, site), last_axis(), site);
    nt_tensor sizes = nt_mul_at(nt_norm_at(a, last_axis(), site), nt_norm_at(b, last_axis(), site), site);
    nt_tensor cosine = nt_div_at(product, nt_max_at(sizes, number(1e-8), site), site);
    return reduce_loss("cosine_loss", nt_sub_at(number(1), cosine, site), options.reduction, site);
}

static nt_tensor unit(nt_tensor x, nt_site site) {
    nt_tensor size = nt_norm_at(x, nt_dims(-1, NT_KEEP), site);
    return nt_div_at(x, nt_max_at(size, number(1e-8), site), site);
}

/* Of each row that its own column is the largest. */
static nt_tensor find_own(nt_tensor similarity, nt_site site) {
    nt_tensor own = nt_iota_at(NT_I32, nt_dims(nt_shape_of(similarity).dims[0]), 0, site);
    return of_labels(similarity, own, true, &(nt_cross_entropy_options){.reduction = NT_NONE}, site);
}

static bool temperature_fits(nt_tensor temperature, nt_site site) {
    if (!scalar_fits("info_nce", "temperature", temperature, site)) return false;
    if (!is_number(temperature)) claim_option("info_nce", "temperature", temperature, &positive, site);
    if (!is_number(temperature) || (temperature.number > 0 && isfinite(temperature.number))) return true;
    nt__trace_fail(site, "info_nce", "temperature is %g; it must be a finite number above 0",
                   nt__plain_nan(temperature.number));
    return false;
}

nt_tensor nt_info_nce_at(nt_tensor a, nt_tensor b, nt_tensor temperature, nt_loss_options options, nt_site site) {
    if (!alike((compared){"info_nce", "a", "b", 2}, a, b, site) || !temperature_fits(temperature, site))
        return nt__failed();
    if (nt_rank(a) != 2) {
        char text[NT__TYPE_TEXT];
        return nt__trace_fail(site, "info_nce", "needs two tensors [pairs, depth], got %s twice",
                              nt__type_text((nt__type){nt_dtype_of(a), nt_shape_of(a)}, text));
    }
    nt_tensor turned = nt_transpose_at(unit(b, site), nt_dims(1, 0), site);
    nt_tensor divisor = nt_convert_at(temperature, nt_dtype_of(a), site);
    nt_tensor similarity = nt_div_at(nt_matmul_at(unit(a, site), turned, site), divisor, site);
    nt_tensor rows = find_own(similarity, site);
    nt_tensor columns = find_own(nt_transpose_at(similarity, nt_dims(1, 0), site), site);
    return reduce_loss("info_nce", nt_mul_at(nt_add_at(rows, columns, site), number(0.5), site), options.reduction,
                       site);
}

/* ---- a sum over a count ----------------------------------------------------------------------------------------- */

static bool is_scalar_of(nt_tensor x, bool floating, const char *name, nt_site site) {
    if (!nt__tensor_given(x, site, "weighted_loss", name)) return false;
    nt__type type = {nt_dtype_of(x), nt_shape_of(x)};
    bool right = type.shape.rank == 0 && type.dtype != NT_BOOL && (!floating || nt_dtype_is_float(type.dtype));
    if (right) return true;
    char text[NT__TYPE_TEXT];
    nt__trace_fail(site, "weighted_loss", "the %s is %s; it must be a %s scalar", name, nt__type_text(type, text),
                   floating ? "floating" : "numeric");
    return false;
}

static bool count_fits(nt_tensor count, nt_site site) {
    if (!is_number(count)) {
        if (!is_scalar_of(count, false, "count", site)) return false;
        claim_option("weighted_loss", "the count", count, &from_zero, site);
        return true;
    }
    if (count.number >= 0 && isfinite(count.number)) return true;
    nt__trace_fail(site, "weighted_loss", "the count is %g; it must be a finite number from 0",
                   nt__plain_nan(count.number));
    return false;
}

/* Counts add up over the micro-batches of a step: f32 at least, which has all whole numbers up to 2^24. Where nothing
 * counts the sum is 0 and has no gradient, which is what a step adds up. */
nt_tensor nt_weighted_loss_at(nt_tensor sum, nt_tensor count, nt_site site) {
    if (!is_scalar_of(sum, true, "sum", site) || !count_fits(count, site)) return nt__failed();
    nt_dtype dtype = nt_dtype_of(sum) == NT_F64 ? NT_F64 : NT_F32;
    if (is_number(count)) count = nt_full_at(dtype, (nt_shape){0}, count.number, site);
    count = nt_stop_gradient_at(nt_convert_at(count, dtype, site), site);
    count = nt_where_at(nt_greater_equal_at(count, number(0), site), count, number(NAN), site);
    nt_tensor none = nt_equal_at(count, number(0), site);
    sum = nt_where_at(none, number(0), sum, site);
    nt_tensor divisor = nt_convert_at(nt_where_at(none, number(1), count, site), nt_dtype_of(sum), site);
    nt_tensor value = nt_div_at(sum, divisor, site);
    nt__quotient_keep((nt__quotient){value, sum, count});
    return value;
}
