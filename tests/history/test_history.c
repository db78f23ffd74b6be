/* src/history: epochs, the best of them, and how a run stands, from its log.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <sys/stat.h>
#include <time.h>
#include <utime.h>

#include "history/history.h"
#include "base/files.h"
#include "logs.h"

static nt__history read_run(const char *run) {
    nt__history history;
    if (nt__history_read(run, false, &history) != NT_OK) fail_msg("%s", nt_error_message());
    return history;
}

static void assert_message(nt_status got, nt_status wanted, const char *message) {
    assert_int_equal(got, wanted);
    assert_string_equal(nt_error_message(), message);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static void a_row_is_an_epoch(void **state) {
    (void)state;
    nt__text log = {0};
    add_epoch(&log, 1, 4, 0.75, "\"mae\":0.5");
    add_epoch(&log, 2, 4, 0.25, "\"mae\":0.125,\"acc\":1");
    nt__history history = read_run(put_log("rows", log.data));
    nt__text_free(&log);
    assert_int_equal(history.row_count, 2);
    assert_int_equal(history.metric_count, 3);
    assert_string_equal(history.metrics[NT__METRIC_LOSS], "loss");
    assert_string_equal(history.metrics[1], "mae");
    assert_string_equal(history.metrics[2], "acc");
    assert_int_equal(history.rows[1].epoch, 2);
    assert_int_equal(history.rows[1].step, 8);
    assert_true(*nt__row_value(&history.rows[1], NT__METRIC_LOSS) == 0.25);
    assert_true(*nt__row_value(&history.rows[1], 1) == 0.125);
    assert_null(nt__row_value(&history.rows[0], 2)); /* A gap is missing, not 0 */
    nt__history_free(&history);
}

static void a_metric_named_loss_takes_its_place(void **state) {
    (void)state;
    nt__text log = {0};
    add_epoch(&log, 1, 4, 0.75, "\"loss\":3");
    nt__history history = read_run(put_log("named", log.data));
    nt__text_free(&log);
    assert_int_equal(history.metric_count, 1);
    assert_true(*nt__row_value(&history.rows[0], NT__METRIC_LOSS) == 3);
    nt__history_free(&history);
}

/* Not trained yet. */
static void a_log_without_an_epoch_is_empty(void **state) {
    (void)state;
    nt__history history = read_run(put_log("empty", "{\"hidden\":3,\"type\":\"params\"}\n"));
    nt__best best;
    assert_int_equal(history.row_count, 0);
    assert_int_equal(history.metric_count, 1);
    assert_int_equal(nt__history_best(&history, NULL, NULL, &best), NT_OK);
    assert_false(best.found);
    assert_int_equal(json_integer_value(json_object_get(history.params, "hidden")), 3);
    nt__history_free(&history);
}

static void what_is_no_run_is_said(void **state) {
    (void)state;
    nt__history history;
    char message[2 * SCRATCH_PATH];
    const char *path = scratch("nowhere");
    snprintf(message, sizeof message,
             "there is no folder and no file '%s': name the folder of a run; nitro runs lists them", path);
    assert_message(nt__history_read(path, false, &history), NT_NOT_FOUND, message);
    path = scratch("bare");
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(
        message, sizeof message,
        "'%s' has no log (metrics.jsonl), so it is no folder of a run, or its run kept none: nitro runs lists those "
        "that have one",
        path);
    assert_message(nt__history_read(path, false, &history), NT_NOT_FOUND, message);
}

static void a_log_is_a_run_too(void **state) {
    (void)state;
    put_forty("file", "");
    nt__history history = read_run(scratch("file/metrics.jsonl"));
    assert_int_equal(history.row_count, 40);
    assert_string_equal(history.folder, scratch("file"));
    assert_string_equal(nt__history_experiment(&history), "Regression");
    nt__history_free(&history);
}

/* ---- damage ----------------------------------------------------------------------------------------------------- */

/* A kill in the middle of a line. */
static void a_torn_last_line_is_left_out(void **state) {
    (void)state;
    const char *torn = "{\"mae\":0.25,\"type\":\"metrics\",\"context\":\"valid";
    nt__history history = read_run(put_forty("torn", torn));
    assert_int_equal(history.row_count, 40);
    assert_int_equal(history.torn, strlen(torn));
    assert_int_equal(history.odd_lines, 0);
    nt__history_free(&history);
}

static void lines_that_are_no_object_are_left_out(void **state) {
    (void)state;
    nt__history history = read_run(put_log("odd", "{\"type\":\"params\"}\n[1]\n\n{\"a\":}\n{\"status\":\"error\","
                                                  "\"seconds\":2,\"type\":\"finish\"}\n"));
    assert_int_equal(history.odd_lines, 2);
    assert_int_equal(history.first_odd, 2);
    assert_string_equal(history.status, "error");
    nt__history_free(&history);
}

static void a_reader_without_memory_fails_and_leaves_nothing(void **state) {
    (void)state;
    const char *path = put_forty("memory", "");
    size_t before = nt__memory().live;
    nt_status status = NT_OUT_OF_MEMORY;
    for (size_t n = 1; status != NT_OK; n++) {
        nt__history history;
        nt__memory_fail_at(n);
        status = nt__history_read(path, true, &history);
        nt__memory_fail_at(0);
        assert_true(status == NT_OK || status == NT_OUT_OF_MEMORY);
        nt__history_free(&history);
        assert_int_equal(nt__memory().live, before);
    }
}

/* ---- how a run stands ------------------------------------------------------------------------------------------- */

static void the_newest_finish_is_the_state(void **state) {
    (void)state;
    static const char first[] = "{\"status\":\"requested\",\"seconds\":2.5,\"type\":\"finish\"}\n",
                      both[] = "{\"status\":\"requested\",\"seconds\":2.5,\"type\":\"finish\"}\n"
                               "{\"status\":\"completed\",\"seconds\":1.25,\"type\":\"finish\"}\n";
    nt__history history = read_run(put_forty("first", first));
    assert_string_equal(nt__history_state(&history), "requested");
    assert_true(nt__history_seconds(&history, "requested", 0) == 2.5);
    nt__history_free(&history);
    history = read_run(put_forty("both", both));
    assert_string_equal(nt__history_state(&history), "completed");
    assert_true(nt__history_seconds(&history, "completed", 0) == 3.75);
    nt__history_free(&history);
}

/* The lock of the folder tells a run that goes on from one that was killed. */
static void without_a_finish_the_lock_is_the_state(void **state) {
    (void)state;
    const char *folder = put_forty("locked", "");
    int lock;
    const int64_t started = 1767323045; /* 2026-01-02T03:04:05Z */
    assert_int_equal(utime(scratch("locked/metrics.jsonl"), &(struct utimbuf){started + 60, started + 60}), 0);
    assert_int_equal(nt__lock_folder(folder, &lock), NT_OK);
    nt__history history = read_run(folder);
    assert_string_equal(nt__history_state(&history), "running");
    assert_true(nt__history_started(&history) == started);
    assert_true(nt__history_seconds(&history, "running", started + 90) == 90);
    assert_true(nt__history_seconds(&history, "running", started - 90) == 0); /* the clock went back */
    nt__unlock_folder(lock);
    assert_string_equal(nt__history_state(&history), "killed");
    assert_true(nt__history_seconds(&history, "killed", started + 90) == 60);
    assert_int_equal(history.step, 160);
    assert_int_equal(history.epoch, 40);
    nt__history_free(&history);
}

/* Started at 3:04:05, gone on from a record of 75 seconds of training at 4:04:05, killed a minute after that. */
static void a_run_that_was_resumed_is_one_run(void **state) {
    (void)state;
    const char *folder = put_forty("resumed", "{\"experiment\":\"Regression\",\"started\":\"2026-01-02T04:04:05Z\","
                                              "\"seconds_before\":75,\"type\":\"environment\"}\n"
                                              "{\"loss\":9.5,\"type\":\"metrics\",\"context\":\"train\","
                                              "\"epoch\":41,\"step\":162}\n");
    const int64_t first = 1767323045, second = first + 3600;
    assert_int_equal(utime(scratch("resumed/metrics.jsonl"), &(struct utimbuf){second + 60, second + 60}), 0);
    nt__history history = read_run(folder);
    assert_true(nt__history_started(&history) == first);
    assert_int_equal(nt__history_steps(&history), 162);
    assert_true(nt__history_seconds(&history, "killed", second + 90) == 75 + 60);
    assert_true(nt__history_seconds(&history, "running", second + 90) == 75 + 90);
    assert_true(nt__history_seconds(&history, "running", first - 90) == 75);
    nt__history_free(&history);
}

/* ---- the best --------------------------------------------------------------------------------------------------- */

static void assert_best(const nt__history *history, const char *name, const char *mode, size_t row) {
    nt__best best;
    assert_int_equal(nt__history_best(history, name, mode, &best), NT_OK);
    assert_true(best.found);
    assert_int_equal(best.row, row);
}

static void the_best_is_by_the_metric_and_the_mode(void **state) {
    (void)state;
    nt__text log = {0};
    add_epoch(&log, 1, 4, 0.75, "\"acc\":0.5,\"val_loss\":2");
    add_epoch(&log, 2, 4, 0.25, "\"acc\":0.75,\"val_loss\":1");
    add_epoch(&log, 3, 4, 0.50, "\"acc\":0.625,\"val_loss\":1");
    nt__history history = read_run(put_log("best", log.data));
    nt__text_free(&log);
    assert_best(&history, NULL, NULL, 1); /* val_loss; of equal ones the first */
    assert_best(&history, NULL, "max", 0);
    assert_best(&history, "acc", NULL, 1);
    assert_best(&history, "acc", "min", 0);
    nt__best best;
    char message[2 * SCRATCH_PATH];
    snprintf(message, sizeof message, "%s: no epoch has a metric 'nope'; there are loss, acc, val_loss",
             history.folder);
    assert_message(nt__history_best(&history, "nope", NULL, &best), NT_INVALID, message);
    assert_message(nt__history_best(&history, NULL, "most", &best), NT_INVALID,
                   "the mode 'most' is neither min nor max");
    nt__history_free(&history);
}

static void the_metric_of_the_checkpoints_comes_first(void **state) {
    (void)state;
    nt__text log = {0};
    nt__best best;
    nt__text_say(&log, "{\"checkpoint_metric\":\"f1\",\"checkpoint_mode\":\"min\",\"type\":\"params\"}\n");
    add_epoch(&log, 1, 4, 0.75, "\"acc\":0.5,\"val_loss\":2,\"f1\":0.5");
    add_epoch(&log, 2, 4, 0.25, "\"acc\":0.75,\"val_loss\":1,\"f1\":0.75");
    nt__history history = read_run(put_log("ranked", log.data));
    nt__text_free(&log);
    assert_best(&history, NULL, NULL, 0);
    assert_best(&history, NULL, "max", 1);
    assert_best(&history, "acc", NULL, 1);
    assert_int_equal(nt__history_best(&history, NULL, NULL, &best), NT_OK);
    assert_string_equal(history.metrics[best.metric], "f1");
    nt__history_free(&history);
}

/* Names as the metric libraries have them, with the words that stand around them. */
static const char *const larger[] = {"accuracy",
                                     "val_acc",
                                     "acc1",
                                     "top5",
                                     "top_5",
                                     "top1_acc",
                                     "top5_accuracy",
                                     "balanced_accuracy",
                                     "binary_accuracy",
                                     "valAccuracy",
                                     "validation.accuracy",
                                     "AUC",
                                     "auroc",
                                     "roc_auc",
                                     "pr_auc",
                                     "average_precision",
                                     "ap",
                                     "mAP",
                                     "mAP@0.5",
                                     "map50",
                                     "f1",
                                     "F1-score",
                                     "macro_f1",
                                     "f1_macro",
                                     "fbeta",
                                     "precision",
                                     "precision_at_5",
                                     "p@1",
                                     "recall@5",
                                     "sensitivity",
                                     "specificity",
                                     "dice",
                                     "iou",
                                     "mean_iou",
                                     "mIoU",
                                     "jaccard",
                                     "r2",
                                     "r2_score",
                                     "explained_variance",
                                     "exact_match",
                                     "em",
                                     "bleu",
                                     "BLEU-4",
                                     "rouge1",
                                     "rougeL",
                                     "rouge_l",
                                     "meteor",
                                     "cider",
                                     "spice",
                                     "ndcg",
                                     "ndcg@10",
                                     "mrr",
                                     "hits@10",
                                     "hit_rate",
                                     "corr",
                                     "pearson",
                                     "spearman",
                                     "kendalltau",
                                     "mcc",
                                     "matthews_corrcoef",
                                     "kappa",
                                     "psnr",
                                     "ssim",
                                     "elbo",
                                     "log_likelihood",
                                     "likelihood",
                                     "reward",
                                     "episode_return",
                                     "score",
                                     "win_rate",
                                     "success",
                                     "correct",
                                     "true_negative_rate",
                                     "cosine_similarity"};
static const char *const smaller[] = {"loss",
                                      "val_loss",
                                      "logloss",
                                      "log_loss",
                                      "f1_loss",
                                      "dice_loss",
                                      "error",
                                      "err",
                                      "top5_error",
                                      "accuracy_error",
                                      "error_rate",
                                      "rmse",
                                      "mse",
                                      "mae",
                                      "mape",
                                      "wer",
                                      "cer",
                                      "ter",
                                      "perplexity",
                                      "ppl",
                                      "nll",
                                      "negative_log_likelihood",
                                      "neg_elbo",
                                      "bits_per_dim",
                                      "bpc",
                                      "kl",
                                      "kl_div",
                                      "fid",
                                      "fid_score",
                                      "brier",
                                      "brier_score",
                                      "ece",
                                      "hinge",
                                      "distance",
                                      "cosine_distance",
                                      "cross_entropy",
                                      "false_positive_rate",
                                      "fpr"};
static const char *const unknown[] = {"",   "foo",  "delta",         "positive",      "gap",
                                      "n",  "time", "1-acc",         "loss_accuracy", "neg_mean_squared_error",
                                      "lr", "_",    "accuracy_drop", "temperature",   "\xc3\xa9"};

static void assert_directions(const char *const *names, size_t count, nt__direction wanted) {
    for (size_t i = 0; i < count; i++)
        if (nt__metric_direction(names[i]) != wanted)
            fail_msg("%s: %d, wanted %d", names[i], nt__metric_direction(names[i]), wanted);
}

static void names_say_which_way_is_better(void **state) {
    (void)state;
    assert_directions(larger, sizeof larger / sizeof *larger, NT__LARGER_IS_BETTER);
    assert_directions(smaller, sizeof smaller / sizeof *smaller, NT__SMALLER_IS_BETTER);
    assert_directions(unknown, sizeof unknown / sizeof *unknown, NT__DIRECTION_UNKNOWN);
}

/* Nothing is marked until a mode is given. */
static void a_name_that_says_nothing_has_no_best(void **state) {
    (void)state;
    nt__text log = {0};
    nt__best best;
    add_epoch(&log, 1, 4, 0.75, "\"delta\":0.5");
    add_epoch(&log, 2, 4, 0.25, "\"delta\":0.75");
    nt__history history = read_run(put_log("unknown", log.data));
    nt__text_free(&log);
    assert_int_equal(nt__history_best(&history, "delta", NULL, &best), NT_OK);
    assert_true(!best.found && best.direction == NT__DIRECTION_UNKNOWN);
    assert_best(&history, "delta", "max", 1);
    nt__history_free(&history);
}

/* Steps and epochs that no int64_t holds, as a log of others may say. */
static void places_beyond_all_numbers_are_none(void **state) {
    (void)state;
    nt__history history = read_run(
        put_log("beyond", "{\"loss\":1,\"type\":\"metrics\",\"context\":\"train\",\"epoch\":1e300,\"step\":-1e300}\n"));
    assert_int_equal(nt__history_steps(&history), 0);
    nt__history_free(&history);
}

/* ---- thinning --------------------------------------------------------------------------------------------------- */

/* "1 2 . 40"; `best` counts from 1, 0: none. */
static void assert_thinned(size_t n, size_t best, size_t budget, const char *expected) {
    bool kept[64];
    nt__text text = {0};
    size_t count = nt__thin_rows(n, best ? best - 1 : n, budget, kept), seen = 0;
    for (size_t i = 0; i < n; i++) {
        seen += kept[i];
        if (kept[i])
            nt__text_add(&text, "%s%zu", i ? " " : "", i + 1);
        else if (kept[i - 1])
            nt__text_say(&text, " .");
    }
    assert_string_equal(text.data ? text.data : "", expected);
    assert_int_equal(count, seen);
    nt__text_free(&text);
}

static void rows_in_the_middle_give_way(void **state) {
    (void)state;
    assert_thinned(40, 23, 12, "1 2 3 . 21 22 23 24 25 . 39 40");
    assert_thinned(40, 39, 9, "1 2 3 4 . 37 38 39 40");
    assert_thinned(40, 0, 8, "1 2 3 4 . 38 39 40");
    assert_thinned(40, 20, 3, "1 . 20 . 40"); /* The ends and the best are more than the budget */
    assert_thinned(5, 3, 5, "1 2 3 4 5");
    assert_thinned(6, 1, 5, "1 2 . 5 6");
    assert_thinned(1, 0, 1, "1");
    assert_thinned(0, 0, 5, "");
}

/* Of every size and place: the ends and the best are there, and the lines are as many as there is room for. */
static void thinning_uses_its_budget(void **state) {
    (void)state;
    bool kept[64];
    for (size_t n = 1; n < 64; n++) {
        for (size_t best = 0; best <= n; best++) {
            for (size_t budget = 5; budget < 64; budget++) {
                size_t count = nt__thin_rows(n, best, budget, kept), lines = 0;
                for (size_t i = 0; i < n; i++) lines += kept[i] || kept[i - 1];
                assert_true(kept[0] && kept[n - 1] && (best == n || kept[best]));
                assert_true(lines <= budget && count <= lines);
                assert_true(n <= budget ? lines == n : lines >= budget - 1);
            }
        }
    }
}

/* ---- curves ----------------------------------------------------------------------------------------------------- */

static void many_points_make_few_parts(void **state) {
    (void)state;
    nt__curve curve = {0};
    enum { POINTS = 1000000 };
    for (int i = 1; i <= POINTS; i++) assert_int_equal(nt__curve_add(&curve, i, i % 2 ? 1 : 3), NT_OK);
    assert_int_equal(curve.points, POINTS);
    assert_true(curve.part_count > NT__CURVE_PARTS / 2 && curve.part_count <= NT__CURVE_PARTS);
    int64_t count = 0;
    for (size_t i = 0; i < curve.part_count; i++) {
        const nt__curve_part *part = &curve.parts[i];
        count += part->count;
        assert_true(part->low == 1 && part->high == 3);
        assert_true(nt__part_y(part) == 2);
        assert_true(i == 0 || part->x_first == curve.parts[i - 1].x_last + 1);
    }
    assert_int_equal(count, POINTS);
    assert_true(curve.parts[0].x_first == 1 && curve.parts[curve.part_count - 1].x_last == POINTS);
    nt__curve_free(&curve);
}

static void a_curve_is_a_column_or_the_lines_of_a_context(void **state) {
    (void)state;
    nt__history history = read_run(put_forty("curves", ""));
    nt__curve curve;
    assert_int_equal(nt__curve_read(&history, "mae", NT__AXIS_EPOCH, &curve), NT_OK);
    assert_int_equal(curve.points, 40);
    assert_true(nt__part_x(&curve.parts[22]) == 23 && nt__part_y(&curve.parts[22]) == 0.5);
    nt__curve_free(&curve);
    assert_int_equal(nt__curve_read(&history, "mae", NT__AXIS_STEP, &curve), NT_OK);
    assert_true(nt__part_x(&curve.parts[22]) == 92);
    nt__curve_free(&curve);
    assert_int_equal(nt__curve_read(&history, "train/loss", NT__AXIS_STEP, &curve), NT_OK);
    assert_int_equal(curve.points, 40);
    assert_true(nt__part_x(&curve.parts[39]) == 160 && nt__part_y(&curve.parts[39]) == 9.5);
    nt__curve_free(&curve);
    assert_int_equal(nt__curve_read(&history, "train/nope", NT__AXIS_STEP, &curve), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "no line of context 'train' has a value 'nope'"));
    nt__curve_free(&curve);
    assert_int_equal(nt__curve_read(&history, "nope", NT__AXIS_STEP, &curve), NT_INVALID);
    nt__curve_free(&curve);
    nt__history_free(&history);
}

/* A text cannot pass for a context or a number: the writer escapes its quotes. */
static void a_text_is_no_number(void **state) {
    (void)state;
    double number;
    const char *line = "{\"note\":\"\\\"step\\\":7 \\\"context\\\":\\\"train\\\"\",\"loss\":2.5,\"type\":\"metrics\","
                       "\"context\":\"validate\",\"epoch\":3,\"step\":12}";
    assert_true(nt__line_number(line, "step", &number) && number == 12);
    assert_true(nt__line_number(line, "loss", &number) && number == 2.5);
    assert_false(nt__line_number(line, "los", &number));
    assert_false(nt__line_number(line, "note", &number));
    assert_true(nt__line_is_of(line, "validate"));
    assert_false(nt__line_is_of(line, "train"));
    assert_false(nt__line_is_of(line, "valid"));
}

/* ---- files that are no logs ------------------------------------------------------------------------------------- */

static nt_status try_to_read(const char *run) {
    nt__history history;
    nt_status status = nt__history_read(run, false, &history);
    nt__history_free(&history);
    return status;
}

/* Nothing waits for the other end of a pipe, and a line without an end is given up. */
static void what_is_no_log_is_refused_at_once(void **state) {
    (void)state;
    assert_int_equal(nt__make_folder(scratch("pipe")), NT_OK);
    assert_int_equal(mkfifo(scratch("pipe/metrics.jsonl"), 0600), 0);
    assert_int_equal(try_to_read(scratch("pipe")), NT_IO);
    assert_non_null(strstr(nt_error_message(), "pipe/metrics.jsonl': it is a pipe and no regular file"));
    assert_int_equal(nt__make_folder(scratch("folder/metrics.jsonl")), NT_OK);
    assert_int_equal(try_to_read(scratch("folder")), NT_IO);
    assert_non_null(strstr(nt_error_message(), "it is a folder and no regular file"));
    put_log("holes", "{\"type\":\"params\"}\n");
    assert_int_equal(truncate(scratch("holes/metrics.jsonl"), (off_t)1 << 40), 0);
    assert_int_equal(try_to_read(scratch("holes")), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "is no log of nitro's: line 2 has more than 67108864 bytes"));
}

/* Longer than what is read at once, and with bytes that end no line. */
static void a_long_line_is_a_line(void **state) {
    (void)state;
    nt__text log = {0};
    nt__text_say(&log, "{\"type\":\"params\",\"note\":\"");
    for (int i = 0; i < 300000; i++) nt__text_put(&log, "x", 1);
    nt__text_say(&log, "\"}\n\n");
    add_epoch(&log, 1, 4, 0.5, "\"mae\":1");
    put_log("long", log.data);
    nt__text_free(&log);
    nt__history history;
    assert_int_equal(nt__history_read(scratch("long"), false, &history), NT_OK);
    assert_int_equal(history.row_count, 1);
    assert_int_equal(json_string_length(json_object_get(history.params, "note")), 300000);
    nt__history_free(&history);
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static void runs_are_found_below_a_folder(void **state) {
    (void)state;
    static const char *const folders[] = {"all/old", "all/a/b/new", "all/a/b/c/d/too-deep", "all/.hidden/x"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char log[SCRATCH_PATH];
        snprintf(log, sizeof log, "%s/metrics.jsonl", put_log(folders[i], "{}\n"));
        assert_int_equal(utime(log, &(struct utimbuf){1000 + (time_t)i, 1000 + (time_t)i}), 0);
    }
    nt__run_folders runs;
    assert_int_equal(nt__run_folders_find(scratch("all"), &runs), NT_OK);
    assert_int_equal(runs.count, 2);
    assert_string_equal(runs.items[0].path, scratch("all/a/b/new"));
    assert_string_equal(runs.items[1].path, scratch("all/old"));
    nt__run_folders_free(&runs);
    assert_int_equal(nt__run_folders_find(scratch("all/old"), &runs), NT_OK);
    assert_int_equal(runs.count, 1);
    nt__run_folders_free(&runs);
    assert_int_equal(nt__run_folders_find(scratch("gone"), &runs), NT_NOT_FOUND);
    nt__run_folders_free(&runs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_an_epoch),
        cmocka_unit_test(a_metric_named_loss_takes_its_place),
        cmocka_unit_test(a_log_without_an_epoch_is_empty),
        cmocka_unit_test(what_is_no_run_is_said),
        cmocka_unit_test(a_log_is_a_run_too),
        cmocka_unit_test(a_torn_last_line_is_left_out),
        cmocka_unit_test(lines_that_are_no_object_are_left_out),
        cmocka_unit_test(a_reader_without_memory_fails_and_leaves_nothing),
        cmocka_unit_test(the_newest_finish_is_the_state),
        cmocka_unit_test(without_a_finish_the_lock_is_the_state),
        cmocka_unit_test(a_run_that_was_resumed_is_one_run),
        cmocka_unit_test(the_best_is_by_the_metric_and_the_mode),
        cmocka_unit_test(the_metric_of_the_checkpoints_comes_first),
        cmocka_unit_test(names_say_which_way_is_better),
        cmocka_unit_test(a_name_that_says_nothing_has_no_best),
        cmocka_unit_test(places_beyond_all_numbers_are_none),
        cmocka_unit_test(rows_in_the_middle_give_way),
        cmocka_unit_test(thinning_uses_its_budget),
        cmocka_unit_test(many_points_make_few_parts),
        cmocka_unit_test(a_curve_is_a_column_or_the_lines_of_a_context),
        cmocka_unit_test(a_text_is_no_number),
        cmocka_unit_test(what_is_no_log_is_refused_at_once),
        cmocka_unit_test(a_long_line_is_a_line),
        cmocka_unit_test(runs_are_found_below_a_folder),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
