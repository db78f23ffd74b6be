/* Which records are kept, how they are named, and what the runs of a folder are: all from entries alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "made.h"

enum { MOST = 16 };

/* Entries of a run, epochs 1 to count, with these scores by val_loss; nan: not scored. */
static size_t entries_of(const char *run, const double *scores, size_t count, nt__record_entry *out) {
    for (size_t i = 0; i < count; i++)
        out[i] = (nt__record_entry){.file = "",
                                    .run = run,
                                    .epoch = (int64_t)i + 1,
                                    .step = (int64_t)(i + 1) * 4,
                                    .metric = scores[i] == scores[i] ? "val_loss" : NULL,
                                    .scored = scores[i] == scores[i],
                                    .score = scores[i],
                                    .written = (double)i};
    return count;
}
#define entries(run, out, ...) \
    entries_of(run, (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double), out)
static const double none = __builtin_nan("");

/* "1 2 4": the epochs that are kept at the end. */
static void assert_kept(const nt__retention *retention, const char *run, const nt__record_entry *all, size_t count,
                        const char *epochs) {
    bool kept[MOST];
    char text[128] = "";
    nt__retention_apply(retention, run, all, count, kept);
    for (size_t i = 0; i < count; i++)
        if (kept[i])
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", *text ? " " : "", (int)all[i].epoch);
    assert_string_equal(text, epochs);
}

/* The same where a record is saved after the other, each with the deletions that follow. */
static void assert_left(const nt__retention *retention, const double *scores, size_t count, const char *epochs) {
    nt__record_entry all[MOST], left[MOST];
    size_t lefts = 0;
    entries_of("A", scores, count, all);
    for (size_t i = 0; i < count; i++) {
        bool kept[MOST];
        size_t still = 0;
        left[lefts++] = all[i];
        nt__retention_apply(retention, "A", left, lefts, kept);
        for (size_t j = 0; j < lefts; j++)
            if (kept[j]) left[still++] = left[j];
        lefts = still;
    }
    bool kept[MOST];
    nt__retention_apply(retention, "A", left, lefts, kept);
    char text[128] = "";
    for (size_t i = 0; i < lefts; i++) {
        assert_true(kept[i]);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", *text ? " " : "", (int)left[i].epoch);
    }
    assert_string_equal(text, epochs);
}
#define left(retention, epochs, ...) \
    assert_left(retention, (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double), epochs)

/* ---- the best and the newest ------------------------------------------------------------------------------------ */

static void the_best_and_the_newest_are_kept(void **state) {
    (void)state;
    nt__retention retention = {.best = 2, .metric = "val_loss", .keep_latest = true};
    left(&retention, "1 2 4", 1, 2, 3, 4);
    left(&retention, "3 4", 4, 3, 2, 1);
    retention.best = 1;
    retention.higher_is_better = true;
    nt__record_entry all[MOST];
    size_t count = entries("A", all, .1, .9, .5);
    for (size_t i = 0; i < count; i++) all[i].higher_is_better = true;
    assert_kept(&retention, "A", all, count, "2 3");
    retention = (nt__retention){.best = 1, .metric = "val_loss", .keep_latest = true};
    left(&retention, "2 4", 3, 1, 2, 4);
}

static void ties_keep_the_earlier_one(void **state) {
    (void)state;
    nt__retention retention = {.best = 2, .metric = "val_loss"};
    left(&retention, "1 2", 1, 1, 1, 1);
}

static void what_is_not_scored_is_kept_as_the_newest_only(void **state) {
    (void)state;
    nt__retention retention = {.best = 2, .metric = "val_loss", .keep_latest = true};
    left(&retention, "2 3", none, 1, none);
    left(&retention, "3", none, none, none);
    retention.keep_latest = false;
    left(&retention, "2", none, 1, none);
}

static void a_record_within_an_epoch_is_newer_than_the_epoch(void **state) {
    (void)state;
    nt__retention retention = {.best = 1, .metric = "val_loss", .keep_latest = true};
    nt__record_entry all[MOST];
    size_t count = entries("A", all, 1, 2, none);
    all[2].epoch = 2;
    all[2].batch = 20;
    bool kept[MOST];
    nt__retention_apply(&retention, "A", all, count, kept);
    assert_true(kept[0] && !kept[1] && kept[2]);
}

static void every_nth_is_kept(void **state) {
    (void)state;
    nt__retention retention = {.best = 1, .metric = "val_loss", .keep_latest = true, .every_epochs = 3};
    left(&retention, "1 3 6 7", 1, 2, 3, 4, 5, 6, 7);
    retention.every_epochs = 0;
    retention.every_steps = 8; /* an epoch has 4 */
    left(&retention, "1 2 4 5", 1, 2, 3, 4, 5);
    nt__record_entry within = {.run = "A", .epoch = 3, .batch = 1, .step = 12};
    bool kept;
    retention = (nt__retention){.best = 1, .metric = "val_loss", .every_epochs = 3};
    nt__retention_apply(&retention, "A", &within, 1, &kept);
    assert_false(kept); /* epoch 4 is under way */
}

/* ---- metrics and runs ------------------------------------------------------------------------------------------- */

static void entries_of_another_metric_are_left_alone(void **state) {
    (void)state;
    nt__retention retention = {.best = 1, .metric = "accuracy", .higher_is_better = true, .keep_latest = true};
    nt__record_entry all[MOST];
    size_t count = entries("A", all, 1, 2, 3, .5, .7, .6);
    for (size_t i = 3; i < count; i++) {
        all[i].metric = "accuracy";
        all[i].higher_is_better = true;
    }
    assert_kept(&retention, "A", all, count, "1 2 3 5 6");
    retention.higher_is_better = false; /* the same metric, the other mode */
    assert_kept(&retention, "A", all, count, "1 2 3 4 5 6");
    for (size_t i = 0; i < count; i++) all[i].metric = NULL; /* no metric matches any */
    retention = (nt__retention){.best = 1, .metric = "any", .higher_is_better = true};
    assert_kept(&retention, "A", all, count, "3");
}

static void other_runs_are_left_alone_unless_the_folder_is_ranked(void **state) {
    (void)state;
    nt__retention retention = {.best = 2, .metric = "val_loss", .keep_latest = true};
    nt__record_entry all[MOST];
    size_t count = entries("A", all, .2, .4, .9);
    count += entries("B", all + count, .3, .8, .7);
    for (size_t i = 3; i < count; i++) all[i].epoch += 10;
    assert_kept(&retention, "B", all, count, "1 2 3 11 13");
    retention.whole_folder = true;
    assert_kept(&retention, "B", all, count, "1 11 13");
    retention.keep_latest = false;
    assert_kept(&retention, "B", all, count, "1 11");
}

static void the_unnamed_run_is_a_run(void **state) {
    (void)state;
    nt__retention retention = {.best = 1, .metric = "val_loss", .keep_latest = true};
    nt__record_entry all[MOST];
    size_t count = entries(NULL, all, 1, 2, 3);
    assert_kept(&retention, "A", all, count, "1 2 3");
    assert_kept(&retention, NT__LEGACY_RUN, all, count, "1 3");
}

/* ---- what is written at all ------------------------------------------------------------------------------------- */

static bool wants(const nt__retention *retention, const nt__record_entry *all, size_t count, int64_t epoch,
                  double score) {
    nt__record_entry fresh = {.run = "A",
                              .epoch = epoch,
                              .step = epoch * 4,
                              .metric = "val_loss",
                              .scored = score == score,
                              .score = score,
                              .higher_is_better = retention->higher_is_better};
    return nt__retention_wants(retention, all, count, &fresh);
}

static void without_the_latest_only_what_enters_is_written(void **state) {
    (void)state;
    nt__retention retention = {.best = 2, .metric = "val_loss"};
    nt__record_entry all[MOST] = {0};
    assert_true(wants(&retention, all, 0, 1, 2));
    assert_true(wants(&retention, all, entries("A", all, 2), 2, 1));
    size_t count = entries("A", all, 2, 1);
    assert_false(wants(&retention, all, count, 3, 3));
    assert_false(wants(&retention, all, count, 3, 2)); /* a tie */
    assert_true(wants(&retention, all, count, 3, .5));
    assert_true(wants(&retention, all, count, 2, 9)); /* its own epoch, written again */
    assert_false(wants(&retention, all, count, 3, none));
    for (size_t i = 0; i < count; i++) all[i].run = "B";
    assert_true(wants(&retention, all, count, 3, 9));
    retention.whole_folder = true;
    assert_false(wants(&retention, all, count, 3, 9));
    retention.every_epochs = 3;
    assert_true(wants(&retention, all, count, 3, 9));
    retention = (nt__retention){.best = 2, .metric = "val_loss", .higher_is_better = true};
    count = entries("A", all, -2, -1);
    for (size_t i = 0; i < count; i++) all[i].higher_is_better = true;
    assert_false(wants(&retention, all, count, 3, -2));
    assert_true(wants(&retention, all, count, 3, -.5));
    retention.keep_latest = true;
    assert_true(wants(&retention, all, count, 3, -9));
}

static void what_cannot_be_kept_is_refused(void **state) {
    (void)state;
    nt__retention retention = nt__retention_default();
    assert_int_equal(retention.best, 3);
    assert_string_equal(retention.metric, "val_loss");
    assert_true(retention.keep_latest && !retention.higher_is_better && !retention.whole_folder);
    assert_ok(nt__retention_check(&retention));
    retention.best = 0;
    assert_fails(nt__retention_check(&retention), NT_INVALID, "0 of the best checkpoints cannot be kept");
    retention = nt__retention_default();
    retention.metric = "";
    assert_fails(nt__retention_check(&retention), NT_INVALID, "need the name of a metric");
    retention = nt__retention_default();
    retention.every_steps = -1;
    assert_fails(nt__retention_check(&retention), NT_INVALID, "every -1 steps cannot be kept");
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static void assert_name(nt__record_entry entry, const char *name) {
    char *got = nt__record_name(&entry);
    assert_string_equal(got, name);
    nt__free(got);
}

static void names_sort_as_they_were_written(void **state) {
    (void)state;
    assert_name((nt__record_entry){.epoch = 3, .step = 120, .scored = true, .metric = "val_loss", .score = 0.25},
                "epoch-0003-step-120-val_loss=0.25.safetensors");
    assert_name((nt__record_entry){.epoch = 3, .step = 120}, "epoch-0003-step-120.safetensors");
    assert_name((nt__record_entry){.epoch = 3, .step = 130, .batch = 20}, "epoch-0003-step-130-batch-20.safetensors");
    assert_name((nt__record_entry){.scored = true, .metric = "loss", .score = 1234567.5},
                "epoch-0000-step-0-loss=1.23457e+06.safetensors");
    const int64_t epochs[] = {1, 2, 10, 100};
    char former[128] = "";
    for (size_t i = 0; i < 4; i++) {
        char *name = nt__record_name(&(nt__record_entry){.epoch = epochs[i], .step = epochs[i] * 4});
        assert_true(strcmp(former, name) < 0);
        snprintf(former, sizeof former, "%s", name);
        nt__free(name);
    }
}

static void metrics_are_made_fit_for_a_name(void **state) { /* C17, B12 */
    (void)state;
    nt__record_entry entry = {.scored = true, .metric = "val/acc*top|5 %"};
    assert_name(entry, "epoch-0000-step-0-val_acc_top_5__=0.safetensors");
    entry.metric = "../../x..y";
    assert_name(entry, "epoch-0000-step-0-.__.__x._y=0.safetensors");
    entry.metric = "";
    assert_name(entry, "epoch-0000-step-0-metric=0.safetensors");
    entry.metric = "12345678901234567890123456789012345678901234567890123456789012345678901234567890";
    assert_name(entry, "epoch-0000-step-0-1234567890123456789012345678901234567890=0.safetensors");
}

static void names_that_cannot_be_are_refused(void **state) {
    (void)state;
    assert_ok(nt__record_name_check("best.safetensors"));
    const char *no_names[] = {NULL, "", "best", "best.pt", ".safetensors", "a\xff.safetensors"};
    for (size_t i = 0; i < sizeof no_names / sizeof *no_names; i++)
        assert_fails(nt__record_name_check(no_names[i]), NT_INVALID, "is not a checkpoint filename");
    const char *paths[] = {"a/b.safetensors", "a\\b.safetensors", "..a.safetensors"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_fails(nt__record_name_check(paths[i]), NT_INVALID, "path separator");
}

static void run_ids_are_letters_and_digits(void **state) {
    (void)state;
    char id[NT__RUN_ID], former[NT__RUN_ID] = "";
    for (int i = 0; i < 100; i++) {
        assert_ok(nt__run_id(id));
        assert_int_equal(strlen(id), 8);
        for (const char *at = id; *at; at++)
            assert_true((*at >= '0' && *at <= '9') || (*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z'));
        assert_string_not_equal(id, former);
        memcpy(former, id, sizeof id);
    }
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static void runs_are_told_newest_first(void **state) {
    (void)state;
    nt__record_entry all[MOST];
    size_t count = entries("A", all, .2, .4);
    count += entries(NULL, all + count, .1);
    count += entries("B", all + count, .9, .3, .5);
    nt__manifest manifest = {0};
    for (size_t i = 0; i < count; i++) {
        char file[40];
        snprintf(file, sizeof file, "%zu.safetensors", i);
        all[i].file = file;
        all[i].written = (double)i;
        all[i].parent = i == 5 ? "where/from" : NULL;
        if (i == 3 || i == 4) all[i].metric = "accuracy";
        assert_ok(nt__manifest_add(&manifest, &all[i]));
    }
    nt__run_summary *runs;
    size_t run_count;
    assert_ok(nt__manifest_runs(&manifest, &runs, &run_count));
    assert_int_equal(run_count, 3);
    assert_string_equal(runs[0].id, "B");
    assert_int_equal(runs[0].entries, 3);
    assert_int_equal(runs[0].epochs[2], 3);
    assert_string_equal(runs[0].metric, "val_loss");
    assert_true(runs[0].scored && runs[0].best == .5 && runs[0].written == 5);
    assert_string_equal(runs[0].parent, "where/from");
    assert_string_equal(runs[1].id, "A");
    assert_true(runs[1].best == .2 && runs[1].last_epoch == 2);
    assert_null(runs[1].parent);
    assert_string_equal(runs[2].id, NT__LEGACY_RUN);
    nt__manifest_free(&manifest);
    assert_ok(nt__manifest_runs(&manifest, &runs, &run_count));
    assert_int_equal(run_count, 0);
    nt__manifest_free(&manifest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_and_the_newest_are_kept),
        cmocka_unit_test(ties_keep_the_earlier_one),
        cmocka_unit_test(what_is_not_scored_is_kept_as_the_newest_only),
        cmocka_unit_test(a_record_within_an_epoch_is_newer_than_the_epoch),
        cmocka_unit_test(every_nth_is_kept),
        cmocka_unit_test(entries_of_another_metric_are_left_alone),
        cmocka_unit_test(other_runs_are_left_alone_unless_the_folder_is_ranked),
        cmocka_unit_test(the_unnamed_run_is_a_run),
        cmocka_unit_test(without_the_latest_only_what_enters_is_written),
        cmocka_unit_test(what_cannot_be_kept_is_refused),
        cmocka_unit_test(names_sort_as_they_were_written),
        cmocka_unit_test(metrics_are_made_fit_for_a_name),
        cmocka_unit_test(names_that_cannot_be_are_refused),
        cmocka_unit_test(run_ids_are_letters_and_digits),
        cmocka_unit_test(runs_are_told_newest_first),
    };
    return cmocka_run_group_tests_name("record/retention", tests, NULL, NULL);
}
