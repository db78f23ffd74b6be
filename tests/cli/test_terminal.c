/* What a person sees of a run: the table, the progress line, notices between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "cli/terminal.h"

/* A terminal that writes to memory. */
typedef struct screen {
    nt__terminal terminal;
    FILE *results, *notices;
    char *out, *err;
    size_t out_length, err_length;
} screen;

static screen *open_screen(bool live, bool quiet) {
    screen *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->results = open_memstream(&s->out, &s->out_length);
    s->notices = open_memstream(&s->err, &s->err_length);
    nt__terminal_open(&s->terminal, s->results, s->notices, live, quiet);
    return s;
}

/* What was written so far. */
static void sees(screen *s, const char *out, const char *err) {
    fflush(s->results);
    fflush(s->notices);
    assert_string_equal(s->out, out);
    assert_string_equal(s->err, err);
}

static void close_screen(screen *s) {
    nt__terminal_close(&s->terminal);
    fclose(s->results);
    fclose(s->notices);
    free(s->out);
    free(s->err);
    free(s);
}

static void step(screen *s, int64_t number, double loss, double seconds) {
    nt_event event = {.kind = NT_EVENT_STEP,
                      .epoch = 1,
                      .max_epochs = 2,
                      .step = number,
                      .steps = 1000,
                      .loss = loss,
                      .seconds = seconds};
    nt__terminal_event(&event, &s->terminal);
}

/* More time than there must be between two drawings. */
static void wait_to_draw(void) {
    usleep(110 * 1000);
}

static void epoch(screen *s, int64_t number, double loss, const nt_value *values, size_t count, double seconds) {
    nt_event event = {.kind = NT_EVENT_EPOCH,
                      .epoch = number,
                      .max_epochs = 100,
                      .loss = loss,
                      .values = values,
                      .value_count = count,
                      .seconds = seconds};
    nt__terminal_event(&event, &s->terminal);
}

static void predicting(screen *s, int64_t batch) {
    nt__terminal_event(&(nt_event){.kind = NT_EVENT_PREDICTING, .batch = batch, .batches = 7}, &s->terminal);
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

static void epochs_are_a_table(void **state) {
    (void)state;
    screen *s = open_screen(false, false);
    const nt_value values[] = {{"accuracy", 0.8512}, {"a_metric_with_a_long_name", 12345.678}, {"val_loss", 1.5e-5}};
    epoch(s, 1, 0.7633, values, 3, 1.336);
    epoch(s, 12, NAN, values, 3, 123.4);
    epoch(s, 13, 1e7, NULL, 0, 0.07);
    sees(s,
         "epoch  train loss  val accuracy  val a_metric_with_a_long_name    val_loss  seconds\n"
         "    1      0.7633        0.8512                     12345.6780   1.500e-05     1.34\n"
         "   12         nan        0.8512                     12345.6780   1.500e-05   123.40\n"
         "   13       1e+07                                                              0.07\n",
         "");
    close_screen(s);
}

static void a_table_without_validation_has_no_columns_for_it(void **state) {
    (void)state;
    screen *s = open_screen(false, true);
    epoch(s, 1, 0, NULL, 0, 1);
    epoch(s, 2, -0.25, NULL, 0, 1);
    sees(s,
         "epoch  train loss  seconds\n"
         "    1      0.0000     1.00\n"
         "    2     -0.2500     1.00\n",
         "");
    close_screen(s);
}

static void metrics_are_lines(void **state) {
    (void)state;
    screen *s = open_screen(false, false);
    const nt_value values[] = {{"accuracy", 0.88029}, {"test_loss", 0.3}, {"tests", 7}};
    nt__terminal_results(&s->terminal, "test", &(nt_results){values, 3});
    nt__terminal_line(&s->terminal, "log in %s", "runs/x");
    sees(s, "test accuracy 0.8803\ntest_loss 0.3000\ntest tests 7.0000\nlog in runs/x\n", "");
    close_screen(s);
}

/* ---- progress --------------------------------------------------------------------------------------------------- */

static void without_a_terminal_there_is_no_progress(void **state) {
    (void)state;
    screen *s = open_screen(false, false);
    step(s, 1, 1, 0.1);
    nt__terminal_event(&(nt_event){.kind = NT_EVENT_EVALUATING, .split = "val"}, &s->terminal);
    sees(s, "", "");
    close_screen(s);
}

static void progress_is_drawn_over_itself(void **state) {
    (void)state;
    screen *s = open_screen(true, false);
    step(s, 1, 2.5, 10);
    sees(s, "", "\repoch 1/2  step 1/1000  loss 2.5");
    wait_to_draw();
    step(s, 101, 0.12345, 12);
    sees(s, "",
         "\repoch 1/2  step 1/1000  loss 2.5"
         "\repoch 1/2  step 101/1000  loss 0.1235  50 steps/s  18 s left");
    close_screen(s);
}

static void a_prediction_shows_its_batches(void **state) {
    (void)state;
    screen *s = open_screen(true, false);
    predicting(s, 3);
    sees(s, "", "\rpredicting  batch 3/7");
    close_screen(s);
}

static void a_shorter_line_covers_a_longer_one(void **state) {
    (void)state;
    screen *s = open_screen(true, false);
    step(s, 1, 2.5, 10);
    wait_to_draw();
    nt__terminal_event(&(nt_event){.kind = NT_EVENT_EVALUATING, .split = "val", .batch = 3, .batches = 40},
                       &s->terminal);
    sees(s, "", "\repoch 1/2  step 1/1000  loss 2.5\revaluating val  batch 3/40      ");
    close_screen(s);
}

static void progress_is_drawn_ten_times_a_second_at_most(void **state) {
    (void)state;
    screen *s = open_screen(true, false);
    double start = nt__seconds();
    int64_t number = 0;
    while (nt__seconds() - start < 0.45) step(s, ++number, 1, nt__seconds() - start);
    fflush(s->notices);
    int drawn = 0;
    for (const char *at = s->err; *at; at++) drawn += *at == '\r';
    assert_true(drawn >= 2 && drawn <= 5);
    close_screen(s);
}

static void long_times_are_told_in_minutes_and_hours(void **state) {
    (void)state;
    static const struct {
        double seconds; /* of 10 steps; 990 are left after them */
        const char *left;
    } cases[] = {{10, "1.00 steps/s  16 min 29 s left"}, {100, "0.10 steps/s  2 h 44 min left"}};
    for (size_t i = 0; i < 2; i++) {
        screen *s = open_screen(true, false);
        step(s, 1, 1, 0);
        wait_to_draw();
        step(s, 11, 1, cases[i].seconds);
        fflush(s->notices);
        assert_non_null(strstr(s->err, cases[i].left));
        close_screen(s);
    }
}

static void a_long_line_is_cut_to_the_terminal(void **state) {
    (void)state;
    screen *s = open_screen(true, false);
    char split[200];
    memset(split, 's', sizeof split);
    split[sizeof split - 1] = 0;
    nt__terminal_event(&(nt_event){.kind = NT_EVENT_EVALUATING, .split = split}, &s->terminal);
    fflush(s->notices);
    assert_int_equal(strlen(s->err), 80); /* 79 columns and the return in front */
    close_screen(s);
}

static void other_lines_clear_the_progress_line(void **state) {
    (void)state;
    screen *s = open_screen(true, false);
    static const char line[] = "\repoch 1/2  step 1/1000  loss 1\r                              \r";
    char both[400];
    step(s, 1, 1, 1);
    nt__terminal_notice("compiled gradient", &s->terminal);
    snprintf(both, sizeof both, "%scompiled gradient\n", line);
    sees(s, "", both);
    step(s, 1, 1, 1);
    epoch(s, 1, 1, NULL, 0, 1);
    snprintf(both, sizeof both, "%scompiled gradient\n%s", line, line);
    sees(s, "epoch  train loss  seconds\n    1      1.0000     1.00\n", both);
    step(s, 1, 1, 1);
    nt__terminal_clear(&s->terminal);
    nt__terminal_clear(&s->terminal);
    snprintf(both, sizeof both, "%scompiled gradient\n%s%s", line, line, line);
    sees(s, "epoch  train loss  seconds\n    1      1.0000     1.00\n", both);
    close_screen(s);
}

/* ---- setup and quiet -------------------------------------------------------------------------------------------- */

static void the_setup_is_a_notice(void **state) {
    (void)state;
    screen *s = open_screen(false, false);
    nt__terminal_event(&(nt_event){.kind = NT_EVENT_SETUP, .text = "one\ntwo"}, &s->terminal);
    nt__terminal_event(&(nt_event){.kind = NT_EVENT_SETUP, .text = "three\n"}, &s->terminal);
    nt__terminal_event(&(nt_event){.kind = NT_EVENT_SETUP}, &s->terminal);
    sees(s, "", "one\ntwo\nthree\n");
    close_screen(s);
}

static void quiet_leaves_results_and_warnings(void **state) {
    (void)state;
    screen *s = open_screen(true, true);
    nt__terminal_event(&(nt_event){.kind = NT_EVENT_SETUP, .text = "setup"}, &s->terminal);
    step(s, 1, 1, 1);
    assert_int_equal(nt__terminal_warning("a reason", &s->terminal), NT_OK);
    nt__terminal_line(&s->terminal, "a result");
    sees(s, "a result\n", "warning: a reason\n");
    close_screen(s);
}

static void a_strict_terminal_refuses_warnings(void **state) {
    (void)state;
    screen *s = open_screen(false, false);
    s->terminal.strict = true;
    assert_int_equal(nt__terminal_warning("a reason", &s->terminal), NT_INVALID);
    sees(s, "", "");
    close_screen(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epochs_are_a_table),
        cmocka_unit_test(a_table_without_validation_has_no_columns_for_it),
        cmocka_unit_test(metrics_are_lines),
        cmocka_unit_test(without_a_terminal_there_is_no_progress),
        cmocka_unit_test(progress_is_drawn_over_itself),
        cmocka_unit_test(a_prediction_shows_its_batches),
        cmocka_unit_test(a_shorter_line_covers_a_longer_one),
        cmocka_unit_test(progress_is_drawn_ten_times_a_second_at_most),
        cmocka_unit_test(long_times_are_told_in_minutes_and_hours),
        cmocka_unit_test(a_long_line_is_cut_to_the_terminal),
        cmocka_unit_test(other_lines_clear_the_progress_line),
        cmocka_unit_test(the_setup_is_a_notice),
        cmocka_unit_test(quiet_leaves_results_and_warnings),
        cmocka_unit_test(a_strict_terminal_refuses_warnings),
    };
    return cmocka_run_group_tests_name("terminal", tests, NULL, NULL);
}
