/* Which of two values of a metric is better, by its name: the words of the name against two lists of what metric
 * libraries call theirs. A name that has a word of neither list, or of both, says nothing.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "history/history.h"

/* Words, and several words in a row with '_' between them. Those in a row count first, and their words no more. */
static const char *const larger[] = {
    /* classes */
    "acc", "bacc", "accuracy", "accuracies", "correct", "top", "topk", "precision", "recall", "sensitivity",
    "specificity", "selectivity", "tpr", "tnr", "ppv", "npv", "true_positive_rate", "true_negative_rate",
    "true_positives", "true_negatives", "positive_predictive_value", "negative_predictive_value", "f1", "f2", "f05",
    "f_1", "f1score", "fscore", "f_score", "fmeasure", "f_measure", "fbeta", "f_beta", "auc", "auroc", "roc", "rocauc",
    "auprc", "aupr", "prauc", "ap", "map", "ar", "average_precision", "mcc", "matthews", "phi_coefficient", "kappa",
    "cohen", "fleiss", "agreement", "informedness", "youden", "gmean", "g_mean",
    "gini", /* overlap, matching, clusters */
    "iou", "miou", "giou", "diou", "ciou", "jaccard", "dice", "dsc", "overlap", "pq", "pck", "oks", "em", "exact_match",
    "match", "purity", "nmi", "ami", "ari", "rand_index", "adjusted_rand", "silhouette", "homogeneity", "completeness",
    "v_measure", "fowlkes_mallows", "calinski_harabasz", "similarity",
    /* ranking */
    "ndcg", "dcg", "mrr", "reciprocal_rank", "hit", "hits", "hitrate", "p_at", "r_at", "gain", "concordance", "cindex",
    "c_index",
    /* regression */
    "r2", "r_2", "r2score", "r_squared", "rsquared", "explained_variance", "variance_explained", "explained_var", "evs",
    "nse", "corr", "correlation", "corrcoef", "pearson", "pearsonr", "pcc", "plcc", "spearman", "spearmanr", "srcc",
    "kendall", "kendalltau", "krcc", "ccc", /* text, speech, images */
    "bleu", "sacrebleu", "gleu", "bleurt", "rouge", "rougel", "rougelsum", "meteor", "cider", "spice", "chrf", "comet",
    "bertscore", "psnr", "ssim", "msssim", "vmaf", "vif", "uqi", "inception_score", "clip_score", "pesq", "stoi", "mos",
    "snr", "sdr", "sisnr", "sisdr",
    /* likelihoods */
    "elbo", "likelihood", "likelihoods", "loglikelihood", "loglik", "ll", "log_prob", "logprob", "log_probability",
    "mutual_information", "information_gain",
    /* what is won */
    "reward", "rewards", "return", "returns", "win", "wins", "winrate", "success", "successes", "solved", "elo",
    "profit", "utility", "sharpe", "quality", "fitness"};
static const char *const smaller[] = {"loss",
                                      "losses",
                                      "error",
                                      "errors",
                                      "err",
                                      "errs",
                                      "cost",
                                      "costs",
                                      "penalty",
                                      "regret",
                                      "risk",
                                      "residual",
                                      "residuals",
                                      "distance",
                                      "distances",
                                      "divergence",
                                      "distortion",
                                      "deviance",
                                      "discrepancy",
                                      "violation",
                                      "violations",
                                      "mistakes",
                                      "incorrect",
                                      "inaccuracy",
                                      "wrong",
                                      "misses",
                                      "miss",
                                      "miss_rate",
                                      "false_positive",
                                      "false_positives",
                                      "false_positive_rate",
                                      "false_negative",
                                      "false_negatives",
                                      "false_negative_rate",
                                      "false_discovery_rate",
                                      "false_alarm",
                                      "false_alarms",
                                      "fpr",
                                      "fnr",
                                      "fdr",
                                      "frr",
                                      "eer",
                                      "mse",
                                      "rmse",
                                      "nrmse",
                                      "msle",
                                      "rmsle",
                                      "mae",
                                      "mape",
                                      "smape",
                                      "wape",
                                      "mase",
                                      "medae",
                                      "mbe",
                                      "sse",
                                      "rss",
                                      "squared_log",
                                      "l1",
                                      "l2",
                                      "wer",
                                      "cer",
                                      "ter",
                                      "mer",
                                      "der",
                                      "perplexity",
                                      "ppl",
                                      "nll",
                                      "negative_log_likelihood",
                                      "neg_log_likelihood",
                                      "negative_likelihood",
                                      "negative_loglikelihood",
                                      "neg_ll",
                                      "negative_elbo",
                                      "neg_elbo",
                                      "nelbo",
                                      "bits",
                                      "bpc",
                                      "bpb",
                                      "bpd",
                                      "bpw",
                                      "kl",
                                      "kld",
                                      "js",
                                      "jsd",
                                      "crossentropy",
                                      "cross_entropy",
                                      "xent",
                                      "bce",
                                      "ce",
                                      "xe",
                                      "fid",
                                      "kid",
                                      "fvd",
                                      "lpips",
                                      "mmd",
                                      "wasserstein",
                                      "emd",
                                      "chamfer",
                                      "hausdorff",
                                      "hd95",
                                      "assd",
                                      "mcd",
                                      "dcf",
                                      "mindcf",
                                      "brier",
                                      "ece",
                                      "mce",
                                      "hinge",
                                      "huber",
                                      "hamming",
                                      "levenshtein",
                                      "edits",
                                      "davies_bouldin",
                                      "aic",
                                      "bic",
                                      "drawdown",
                                      "mean_rank",
                                      "median_rank"};
/* Where the name has none of the others. */
static const char *const larger_alone[] = {"score", "scores"};
/* As the last of the words they say what the whole is: a dice_loss is a loss. */
static const char *const heads[] = {"loss", "losses", "error", "errors", "err", "distance", "divergence", "cost"};
/* What turns the meaning of the rest, in a way that is not sure. */
static const char *const turns[] = {"negative",   "neg",  "minus", "inverse",  "inv",        "not",
                                    "complement", "drop", "gap",   "decrease", "degradation"};

#define COUNT(list) (sizeof(list) / sizeof *(list))

enum { MOST = 256 };

/* A name as "_val_top_5_acc_", what was counted taken out. */
typedef struct words {
    char text[MOST];
    size_t length;
    int larger, smaller;
    bool ends_in_head;
} words;

static void put(words *w, char c) {
    if (c == '_' && w->length && w->text[w->length - 1] == '_') return;
    if (w->length + 2 < sizeof w->text) w->text[w->length++] = c;
}

static bool begins_word(const char *at, bool camel, bool digits) {
    unsigned char before = (unsigned char)at[-1], now = (unsigned char)*at;
    return (camel && islower(before) && isupper(now)) || (digits && isdigit(before) != isdigit(now));
}

/* Words are divided by whatever is no letter or digit, and where asked for by "valAcc" and "top1". */
static void divide(const char *name, bool camel, bool digits, words *out) {
    *out = (words){0};
    put(out, '_');
    for (const char *at = name; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if (at > name && isalnum((unsigned char)at[-1]) && isalnum(c) && begins_word(at, camel, digits)) put(out, '_');
        if (c == '@') {
            put(out, '_');
            put(out, 'a');
            put(out, 't');
        }
        put(out, isalnum(c) ? (char)tolower(c) : '_');
    }
    put(out, '_');
    out->text[out->length] = 0;
}

/* Takes the words out of the name. False: it has them not. */
static bool take(words *w, const char *wanted) {
    char bounded[64];
    int length = snprintf(bounded, sizeof bounded, "_%s_", wanted);
    char *at = strstr(w->text, bounded);
    if (!at) return false;
    memset(at + 1, '.', (size_t)length - 2);
    return true;
}

static int take_all(words *w, const char *const *list, size_t count, bool in_a_row) {
    int found = 0;
    for (size_t i = 0; i < count; i++)
        if ((strchr(list[i], '_') != NULL) == in_a_row)
            while (take(w, list[i])) found++;
    return found;
}

static bool is_last(const words *w, const char *const *list, size_t count) {
    char bounded[64];
    for (size_t i = 0; i < count; i++) {
        snprintf(bounded, sizeof bounded, "_%s_", list[i]);
        if (nt__ends_in(w->text, bounded)) return true;
    }
    return false;
}

/* "logloss_" and "binaryaccuracy_" stand for their endings. */
static bool has_ending(const words *w, const char *ending) {
    return strstr(w->text, ending) != NULL;
}

static void count(words *w) {
    w->ends_in_head = is_last(w, heads, COUNT(heads));
    for (int in_a_row = 1; in_a_row >= 0; in_a_row--) {
        w->smaller += take_all(w, smaller, COUNT(smaller), in_a_row);
        w->larger += take_all(w, larger, COUNT(larger), in_a_row);
    }
    w->smaller += has_ending(w, "loss_") || has_ending(w, "error_");
    w->larger += has_ending(w, "accuracy_");
    if (!w->smaller && !w->larger) w->larger = take_all(w, larger_alone, COUNT(larger_alone), false);
}

nt__direction nt__metric_direction(const char *name) {
    words w = {0};
    bool is_rest = strncmp(name, "1-", 2) == 0 || strncmp(name, "1 -", 3) == 0;
    for (int way = 0; way < 3 && !w.larger && !w.smaller; way++) {
        divide(name, way > 0, way > 1, &w);
        count(&w);
    }
    if (is_rest || take_all(&w, turns, COUNT(turns), false)) return NT__DIRECTION_UNKNOWN;
    if (w.ends_in_head) return NT__SMALLER_IS_BETTER;
    if ((w.larger != 0) == (w.smaller != 0)) return NT__DIRECTION_UNKNOWN;
    return w.larger ? NT__LARGER_IS_BETTER : NT__SMALLER_IS_BETTER;
}
