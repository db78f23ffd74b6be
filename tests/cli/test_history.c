/* nitro history and nitro runs: their whole output, from made-up logs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <time.h>
#include <utime.h>

#include "../history/logs.h"
#include "base/files.h"
#include "show/show.h"
#include "command.h"

static const char finished[] = "{\"status\":\"completed\",\"seconds\":75,\"type\":\"finish\"}\n";

/* ---- the table on a screen -------------------------------------------------------------------------------------- */

static char *shown(const char *run, const char *metric, nt__screen screen) {
    char *text;
    size_t length;
    nt__history history;
    nt__best best;
    size_t columns[8];
    assert_int_equal(nt__history_read(run, false, &history), NT_OK);
    assert_int_equal(nt__history_best(&history, metric, NULL, &best), NT_OK);
    for (size_t i = 0; i < history.metric_count; i++) columns[i] = i;
    nt__history_view view = {.history = &history,
                             .best = &best,
                             .count = history.row_count,
                             .columns = columns,
                             .column_count = history.metric_count,
                             .screen = screen};
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_true(nt__history_show(&view, out));
    fclose(out);
    nt__history_free(&history);
    return text;
}

/* 24 lines have room for 15 of the table. */
static void a_long_history_is_thinned(void **state) {
    (void)state;
    char *text = shown(put_forty("Thinned", finished), NULL, (nt__screen){.columns = 80, .rows = 24}),
         title[SCRATCH_PATH];
    snprintf(title, sizeof title, "Regression (%s): 13 of 40 epochs (1 to 40), 2 metrics, completed\n",
             scratch("Thinned"));
    assert_memory_equal(text, title, strlen(title));
    assert_string_equal(text + strlen(title), "  epoch  step     loss     mae  rows\n"
                                              "      1     4  1.00000  3.2500   200\n"
                                              "      2     8  0.50000  3.1250   200\n"
                                              "      3    12  0.33333  3.0000   200\n"
                                              "      4    16  0.25000  2.8750   200\n"
                                              "      \u22ee\n"
                                              "     21    84  0.04762  0.7500   200\n"
                                              "     22    88  0.04545  0.6250   200\n"
                                              "     23    92  0.04348  0.5000   200 *\n"
                                              "     24    96  0.04167  0.6250   200\n"
                                              "     25   100  0.04000  0.7500   200\n"
                                              "     26   104  0.03846  0.8750   200\n"
                                              "      \u22ee\n"
                                              "     38   152  0.02632  2.3750   200\n"
                                              "     39   156  0.02564  2.5000   200\n"
                                              "     40   160  0.02500  2.6250   200\n"
                                              "* best mae (min): 0.5000 in epoch 23\n"
                                              "27 epochs are not shown: --epochs=16:30 shows those without a gap\n");
    free(text);
}

/* Epoch, step, loss and the best metric stay. */
static void a_narrow_screen_has_fewer_columns(void **state) {
    (void)state;
    char *text = shown(put_forty("Narrow", finished), NULL, (nt__screen){.columns = 37, .rows = 14});
    assert_has(text, "  epoch  step     loss     mae\n", "     23    92  0.04348  0.5000 *\n",
               "not shown, for want of width: rows; --metric=rows shows one\n");
    free(text);
    text = shown(put_forty("Narrow", finished), NULL, (nt__screen){.columns = 10, .rows = 14});
    assert_has(text, "  epoch  step     loss     mae\n");
    free(text);
}

static void a_screen_with_colours_has_the_best_in_green(void **state) {
    (void)state;
    char *text = shown(put_forty("Colours", finished), NULL, (nt__screen){.columns = 80, .rows = 14, .colours = true});
    assert_has(text, "\n\033[32m     23    92  0.04348  0.5000   200 *\033[0m\n", "\n\033[2m      \u22ee\033[0m\n");
    free(text);
}

static void numbers_have_the_digits_that_tell_them_apart(void **state) {
    (void)state;
    nt__text log = {0};
    add_epoch(&log, 1, 1, 2, "\"tiny\":0.00001,\"huge\":2500000,\"whole\":7,\"mixed\":7");
    add_epoch(&log, 2, 1, 123, "\"tiny\":0.5,\"huge\":2500000.5,\"whole\":-7,\"mixed\":1234.5");
    nt__text_say(&log, finished);
    char *text = shown(put_log("Digits", log.data), "tiny", (nt__screen){0});
    nt__text_free(&log);
    assert_has(text, "  epoch  step  loss   tiny     huge  whole     mixed\n"
                     "      1     1     2  1e-05  2.5e+06      7     7.000\n"
                     "      2     2   123    0.5  2.5e+06     -7  1234.500\n"
                     "no best is marked: the name 'tiny' does not say which values are better; give --mode=max or "
                     "min\n");
    free(text);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

/* A folder of its own for the command, in which runs/ is. */
static void go_to(const char *folder) {
    assert_int_equal(nt__make_folder(scratch(folder)), NT_OK);
    assert_int_equal(chdir(scratch(folder)), 0);
}

static void put_three(const char *folder, const char *behind) {
    nt__text log = {0};
    nt__text_say(&log, "{\"max_epochs\":5,\"type\":\"params\"}\n"
                       "{\"experiment\":\"Net\",\"started\":\"2026-01-02T03:04:05Z\",\"type\":\"environment\"}\n");
    add_epoch(&log, 1, 4, 0.75, "\"accuracy\":0.5,\"val_loss\":1.5");
    add_epoch(&log, 2, 4, 0.5, "\"accuracy\":0.75,\"val_loss\":1.25");
    add_epoch(&log, 3, 4, 0.25, "\"accuracy\":0.625,\"val_loss\":1.0");
    nt__text_say(&log, behind);
    put_log(folder, log.data);
    nt__text_free(&log);
}

static void assert_output(const ended *e, const char *out) {
    assert_string_equal(e->err, "");
    assert_string_equal(e->out, out);
    assert_int_equal(e->code, 0);
}

/* The metric of the best comes first; a name leaves out the others and the loss. */
static void the_command_prints_the_newest_run(void **state) {
    (void)state;
    go_to("newest");
    put_three("newest/runs/Net", finished);
    assert_output(nitro("history"), "Net (runs/Net): 3 epochs (1 to 3), 2 metrics, completed\n"
                                    "  epoch  step    loss  val_loss  accuracy\n"
                                    "      1     4  0.7500     1.500    0.5000\n"
                                    "      2     8  0.5000     1.250    0.7500\n"
                                    "      3    12  0.2500     1.000    0.6250 *\n"
                                    "* best val_loss (min): 1.000 in epoch 3\n");
    assert_output(nitro("history", "runs/Net", "--metric=accuracy"),
                  "Net (runs/Net): 3 epochs (1 to 3), 2 metrics, completed\n"
                  "  epoch  step  accuracy\n"
                  "      1     4    0.5000\n"
                  "      2     8    0.7500 *\n"
                  "      3    12    0.6250\n"
                  "* best accuracy (max): 0.7500 in epoch 2\n");
    assert_output(nitro("history", "runs/Net/metrics.jsonl", "--epochs=1:2", "--metric", "loss", "--mode=max"),
                  "Net (runs/Net): 2 of 3 epochs (1 to 3), 2 metrics, completed\n"
                  "  epoch  step    loss\n"
                  "      1     4  0.7500 *\n"
                  "      2     8  0.5000\n"
                  "* best loss (max): 0.7500 in epoch 1\n");
}

static void a_run_that_was_killed_is_shown_up_to_there(void **state) {
    (void)state;
    go_to("killed");
    put_three("killed/runs/Net", "{\"loss\":0.5,\"type\":\"metrics\",\"context\":\"train\",\"epoch\":4,\"step\":14}\n"
                                 "{\"loss\":0.5,\"type\":\"metr");
    assert_output(nitro("history"),
                  "Net (runs/Net): 3 epochs (1 to 3), 2 metrics, killed\n"
                  "  epoch  step    loss  val_loss  accuracy\n"
                  "      1     4  0.7500     1.500    0.5000\n"
                  "      2     8  0.5000     1.250    0.7500\n"
                  "      3    12  0.2500     1.000    0.6250 *\n"
                  "* best val_loss (min): 1.000 in epoch 3\n"
                  "the log ends at step 14 of epoch 4\n"
                  "the last line has no end (24 bytes) and is left out: it was being written, or the run was killed\n");
}

static void a_run_without_an_epoch_is_a_line(void **state) {
    (void)state;
    go_to("none");
    put_log("none/runs/Net", "{\"type\":\"params\"}\n{\"status\":\"error\",\"seconds\":1,\"type\":\"finish\"}\n");
    assert_output(nitro("history"), "Net (runs/Net): 0 epochs, 0 metrics, error\n");
}

static void assert_refused(const ended *e, int code, const char *message) {
    assert_string_equal(e->out, "");
    assert_string_equal(e->err, message);
    assert_int_equal(e->code, code);
}

static void what_there_is_not_is_said_with_what_there_is(void **state) {
    (void)state;
    go_to("wrong");
    assert_refused(nitro("history"), 1, "nitro: there is no folder runs/ here: name the folder of a run\n");
    assert_refused(nitro("runs"), 1,
                   "nitro: there is no folder 'runs': nitro train makes runs/, or name another folder\n");
    put_three("wrong/runs/Net", finished);
    assert_refused(nitro("history", "--epochs=7:9"), 1,
                   "nitro: --epochs is '7:9', and the log has the epochs 1 to 3\n");
    assert_refused(nitro("history", "--epochs=two"), 1,
                   "nitro: --epochs is 'two': write FIRST:LAST, as in --epochs=16:30\n");
    assert_refused(nitro("history", "--metric=nope"), 1,
                   "nitro: runs/Net: no epoch has a metric 'nope'; there are loss, accuracy, val_loss\n");
    assert_refused(nitro("history", "--mode=best"), 1, "nitro: the mode 'best' is neither min nor max\n");
    assert_refused(nitro("history", "a", "b"), 2,
                   "nitro: nitro history takes one run, and 2 were given; nitro runs lists several\n");
    assert_refused(nitro("runs", "--metric=a", "--metric=b"), 2,
                   "nitro: --metric is given 2 times, and nitro runs shows the best of one\n");
}

/* ---- nitro runs ------------------------------------------------------------------------------------------------- */

static void set_time(const char *log, time_t when) {
    assert_int_equal(utime(log, &(struct utimbuf){when, when}), 0);
}

static void runs_are_listed_the_newest_first(void **state) {
    (void)state;
    go_to("listed");
    setenv("TZ", "UTC", 1);
    const time_t started = 1767323045; /* 2026-01-02T03:04:05Z */
    put_three("listed/runs/first", finished);
    put_three("listed/runs/second", "{\"status\":\"requested\",\"seconds\":4000,\"type\":\"finish\"}\n");
    put_three("listed/runs/sub/third", "");
    put_log("listed/runs/fourth", "{\"max_epochs\":2,\"type\":\"params\"}\n");
    set_time("runs/first/metrics.jsonl", started + 1);
    set_time("runs/second/metrics.jsonl", started + 2);
    set_time("runs/sub/third/metrics.jsonl", started + 30);
    set_time("runs/fourth/metrics.jsonl", started + 40);
    assert_output(nitro("runs"),
                  "  run             state      epoch  step  best        in epoch  time        started\n"
                  "  runs/fourth     killed     0/2    0                           0.0 s       2026-01-02 03:04:45\n"
                  "  runs/sub/third  killed     3/5    12    val_loss 1  3         30.0 s      2026-01-02 03:04:05\n"
                  "  runs/second     requested  3/5    12    val_loss 1  3         1 h 06 min  2026-01-02 03:04:05\n"
                  "  runs/first      completed  3/5    12    val_loss 1  3         1 min 15 s  2026-01-02 03:04:05\n");
    assert_output(nitro("runs", "runs/first", "--metric=accuracy"),
                  "  run         state      epoch  step  best           in epoch  time        started\n"
                  "  runs/first  completed  3/5    12    accuracy 0.75  2         1 min 15 s  2026-01-02 03:04:05\n");
    assert_refused(nitro("runs", "runs/first", "--metric=accurcy"), 1,
                   "nitro: no run below runs/first has a metric 'accurcy' (did you mean accuracy?); there are loss, "
                   "accuracy, val_loss\n");
    put_three("listed/again", "{\"started\":\"2026-01-02T04:04:05Z\",\"seconds_before\":75,\"type\":\"environment\"}\n"
                              "{\"loss\":1,\"type\":\"metrics\",\"context\":\"train\",\"epoch\":4,\"step\":14}\n");
    set_time("again/metrics.jsonl", started + 3600 + 30);
    assert_output(nitro("runs", "again"),
                  "  run    state   epoch  step  best        in epoch  time        started\n"
                  "  again  killed  3/5    14    val_loss 1  3         1 min 45 s  2026-01-02 03:04:05\n");
    /* Resumed with fewer epochs than it had done. */
    put_three("listed/fewer", "{\"max_epochs\":2,\"type\":\"params\"}\n");
    assert_has(nitro("runs", "fewer")->out, "  fewer  killed  3      12    val_loss 1  3 ");
    put_three("listed/odd", "{\"status\":\"completed\",\"seconds\":1e300,\"type\":\"finish\"}\n");
    assert_output(nitro("runs", "odd"),
                  "  run  state      epoch  step  best        in epoch  time  started\n"
                  "  odd  completed  3/5    12    val_loss 1  3         ?     2026-01-02 03:04:05\n");
}

static void a_run_that_holds_its_folder_is_running(void **state) {
    (void)state;
    go_to("running");
    put_three("running/runs/Net", "");
    int lock;
    assert_int_equal(nt__lock_folder("runs/Net", &lock), NT_OK);
    assert_has(nitro("runs")->out, "  runs/Net  running  3/5    12    val_loss 1  3 ");
    nt__unlock_folder(lock);
    assert_has(nitro("runs")->out, "  runs/Net  killed  3/5    12    val_loss 1  3 ");
}

/* A run that logs for TensorBoard or as CSV alone is a run. */
static void runs_without_a_log_are_told(void **state) {
    (void)state;
    static const char *const files[] = {"board/events.out.tfevents.1.host", "table/metrics.csv",
                                        "kept/checkpoints.json", "weights/parameters.safetensors", "none/notes.txt"};
    for (size_t i = 0; i < 5; i++) {
        char path[SCRATCH_PATH], folder[SCRATCH_PATH];
        snprintf(path, sizeof path, "unlogged/%s", files[i]);
        snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
        assert_int_equal(nt__make_folder(scratch(folder)), NT_OK);
        put_text(path, "x");
    }
    const ended *e = nitro("runs", scratch("unlogged"));
    assert_int_equal(e->code, 0);
    assert_has(e->out, "unlogged/board ", "unlogged/table ", "unlogged/kept ", "unlogged/weights ", "no metrics.jsonl");
    assert_has_not(e->out, "unlogged/none");
    e = nitro("history", scratch("unlogged/board"));
    assert_int_equal(e->code, 1);
    assert_has(e->err, "has no log (metrics.jsonl)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_history_is_thinned),
        cmocka_unit_test(a_narrow_screen_has_fewer_columns),
        cmocka_unit_test(a_screen_with_colours_has_the_best_in_green),
        cmocka_unit_test(numbers_have_the_digits_that_tell_them_apart),
        cmocka_unit_test(the_command_prints_the_newest_run),
        cmocka_unit_test(a_run_that_was_killed_is_shown_up_to_there),
        cmocka_unit_test(a_run_without_an_epoch_is_a_line),
        cmocka_unit_test(what_there_is_not_is_said_with_what_there_is),
        cmocka_unit_test(runs_are_listed_the_newest_first),
        cmocka_unit_test(a_run_that_holds_its_folder_is_running),
        cmocka_unit_test(runs_without_a_log_are_told),
    };
    return cmocka_run_group_tests(tests, command_make, scratch_remove);
}
