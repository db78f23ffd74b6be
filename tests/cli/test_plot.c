/* nitro plot and nitro diff, and the comparison of lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "../history/logs.h"
#include "base/files.h"
#include "show/show.h"
#include "command.h"

/* ---- curves in the terminal ------------------------------------------------------------------------------------- */

static void add_points(nt__curve *curve, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++) assert_int_equal(nt__curve_add(curve, (double)i + 1, values[i]), NT_OK);
}

static char *drawn(const nt__plot_panel *panel, nt__screen screen) {
    char *text;
    size_t length;
    nt__plot_panel copy = *panel;
    const nt__plot plot = {.title = "Net (runs/a)", .panels = &copy, .count = 1};
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_true(nt__plot_draw(&plot, screen, out));
    fclose(out);
    return text;
}

static void a_curve_goes_from_corner_to_corner(void **state) {
    (void)state;
    nt__curve points = {0};
    const double values[] = {0, 47};
    add_points(&points, values, 2);
    nt__plot_curve curve = {.run = "runs/a", .points = &points, .is_marked = true, .mark_x = 2, .mark_y = 47};
    const nt__plot_panel panel = {.name = "mae", .note = "max 47", .axis = "epoch", .curves = &curve, .count = 1};
    char *text = drawn(&panel, (nt__screen){.columns = 24});
    assert_string_equal(text, "Net (runs/a)\n\nmae, max 47\n"
                              "        47 │           *\n"
                              "           │          ⡜\n"
                              "           │         ⡜\n"
                              "           │        ⡜\n"
                              "           │       ⡜\n"
                              "           │      ⡜\n"
                              "           │     ⡜\n"
                              "           │    ⡜\n"
                              "           │   ⡜\n"
                              "           │  ⡜\n"
                              "           │ ⡜\n"
                              "         0 │⡜\n"
                              "           └────────────\n"
                              "            1  epoch   2\n");
    free(text);
    nt__curve_free(&points);
}

/* A value that is not finite breaks the line. */
static void a_gap_breaks_the_line(void **state) {
    (void)state;
    nt__curve points = {0};
    const double values[] = {1, 1, NAN, 0, 0};
    add_points(&points, values, 5);
    nt__plot_curve curve = {.run = "runs/a", .points = &points};
    const nt__plot_panel panel = {.name = "mae", .note = "", .axis = "epoch", .curves = &curve, .count = 1};
    char *text = drawn(&panel, (nt__screen){.columns = 24});
    assert_has(text, "         1 │⠉⠉⠉⠁\n           │\n", "         0 │        ⢀⣀⣀⣀\n");
    free(text);
    nt__curve_free(&points);
}

static void what_has_no_value_says_so(void **state) {
    (void)state;
    nt__curve points = {0};
    const double values[] = {NAN, INFINITY};
    add_points(&points, values, 2);
    nt__plot_curve curve = {.run = "runs/a", .points = &points};
    const nt__plot_panel panel = {.name = "mae", .note = "", .axis = "epoch", .curves = &curve, .count = 1};
    char *text = drawn(&panel, (nt__screen){0});
    assert_string_equal(text, "Net (runs/a)\n\nmae\n  no finite value\n");
    free(text);
    nt__curve_free(&points);
}

static void runs_have_colours(void **state) {
    (void)state;
    nt__curve points[2] = {{0}, {0}};
    const double values[] = {0, 1, 2, 2};
    add_points(&points[0], values, 2);
    add_points(&points[1], values + 2, 2);
    nt__plot_curve curves[] = {{.run = "runs/a", .points = &points[0]}, {.run = "runs/b", .points = &points[1]}};
    const nt__plot_panel panel = {.name = "mae", .note = "", .axis = "epoch", .curves = curves, .count = 2};
    char *text = drawn(&panel, (nt__screen){.columns = 24, .colours = true});
    assert_has(text, "mae\n  \033[34mruns/a\033[0m\n  \033[33mruns/b\033[0m\n", "         2 │\033[33m⠉\033[0m",
               "\033[34m");
    free(text);
    for (int i = 0; i < 2; i++) nt__curve_free(&points[i]);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static void go_to(const char *folder) {
    assert_int_equal(nt__make_folder(scratch(folder)), NT_OK);
    assert_int_equal(chdir(scratch(folder)), 0);
}

static const char finished[] = "{\"status\":\"completed\",\"seconds\":75,\"type\":\"finish\"}\n";

/* All columns, each with its best epoch. */
static void all_columns_are_drawn(void **state) {
    (void)state;
    go_to("columns");
    put_forty("columns/runs/a", finished);
    const ended *e = nitro("plot");
    assert_string_equal(e->err, "");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "Regression (runs/a)\n\nloss, min 0.025 in epoch 40\n", "\nmae, min 0.5 in epoch 23\n",
               "\nrows, no best without --mode=max or min\n",
               "            1                              epoch         ");
    e = nitro("plot", "runs/a", "--metric=mae", "--x=step");
    assert_has(e->out, "\nmae, min 0.5 in epoch 23\n      3.25 │", " step ", " 160\n");
}

/* Whether nitro was built with cairo. */
static bool draws_files(void) {
    const char *plots = getenv("NT_PLOTS");
    return plots && strcmp(plots, "1") == 0;
}

static void what_cannot_be_drawn_is_said(void **state) {
    (void)state;
    go_to("refused");
    put_forty("refused/runs/a", finished);
    static const struct {
        const char *flag, *message;
    } cases[] = {
        {"--metric=nope", "nitro: runs/a: no epoch has a metric 'nope'; there are loss, mae, rows\n"},
        {"--metric=train/nope",
         "nitro: runs/a: no line of context 'train' has a value 'nope'; the contexts are train, data, epoch and "
         "validate, as in train/loss\n"},
        {"--x=time", "nitro: --x is 'time': write epoch or step\n"},
        {"--out=plot.pdf", "nitro: --out is 'plot.pdf': a plot is an .svg or a .png file\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].flag, "--out=plot.pdf") == 0 && !draws_files()) continue;
        const ended *e = nitro("plot", "runs/a", cases[i].flag);
        assert_string_equal(e->out, "");
        assert_string_equal(e->err, cases[i].message);
        assert_int_equal(e->code, 1);
    }
    put_log("refused/runs/empty", "{\"type\":\"params\"}\n");
    assert_has(nitro("plot", "runs/empty")->err, "no line of context 'train' has a value 'loss'");
}

/* A pipe has no colours, so that runs are apart. */
static void several_runs_have_a_panel_each(void **state) {
    (void)state;
    go_to("several");
    put_forty("several/runs/a", finished);
    put_forty("several/runs/b", finished);
    const ended *e = nitro("plot", "runs/a", "runs/b", "--metric=mae");
    assert_string_equal(e->err, "");
    assert_has(e->out, "Regression: 2 runs\n\nruns/a: mae\n", "\nruns/b: mae\n");
}

static char *contents(const char *path, size_t *length) {
    char *text;
    if (nt__read_file(path, &text, length) != NT_OK) fail_msg("%s", nt_error_message());
    return text;
}

/* Two panels are beside one another. */
static void a_file_is_svg_or_png(void **state) {
    (void)state;
    size_t length;
    go_to("files");
    put_forty("files/runs/a", finished);
    if (!draws_files()) {
        assert_has(nitro("plot", "--out=a.png")->err, "--out is 'a.png', and this nitro was built without cairo");
        return;
    }
    const ended *e = nitro("plot", "runs/a", "--metric=mae", "--metric=loss", "--out=a.png");
    assert_string_equal(e->err, "");
    assert_string_equal(e->out, "a.png\n");
    char *png = contents("a.png", &length);
    const uint8_t *bytes = (const uint8_t *)png;
    assert_true(length > 1000);
    assert_memory_equal(bytes, "\x89PNG\r\n\x1a\n", 8);
    assert_int_equal(bytes[18] << 8 | bytes[19], 1040);
    assert_int_equal(bytes[22] << 8 | bytes[23], 384);
    nt__free(png);
    e = nitro("plot", "runs/a", "--metric=mae", "--out=a.svg");
    assert_string_equal(e->out, "a.svg\n");
    char *svg = contents("a.svg", &length);
    assert_has(svg, "<svg ", "width=\"520", "height=\"384", "</svg>");
    int white_stars = 0;
    for (const char *at = svg; (at = strstr(at, "fill:rgb(100%,100%,100%)")); at++) white_stars++;
    assert_int_equal(white_stars, 2); /* the background and the star */
    nt__free(svg);
}

/* ---- differences of lines --------------------------------------------------------------------------------------- */

static void note(bool is_new, size_t number, const char *line, void *context) {
    nt__text_add(context, "%c%zu%s ", is_new ? '+' : '-', number, line);
}

static void assert_difference(const char *a, const char *b, const char *expected) {
    nt__text text = {0};
    assert_int_equal(nt__line_diff(a, b, note, &text), NT_OK);
    assert_string_equal(text.data ? text.data : "", expected);
    nt__text_free(&text);
}

static void lines_that_differ_are_told(void **state) {
    (void)state;
    assert_difference("", "", "");
    assert_difference("a\nb\n", "a\nb\n", "");
    assert_difference("a\nb\nc\n", "a\nx\nc\n", "-2b +2x ");
    assert_difference("a\nb\nc\n", "a\nc\n", "-2b ");
    assert_difference("a\nc\n", "a\nb\nc\n", "+2b ");
    assert_difference("", "a\nb", "+1a +2b ");
    assert_difference("a", "", "-1a ");
    assert_difference("a\nb\nc\nd\n", "b\nx\nd\na\n", "-1a -3c +2x +4a ");
    assert_difference("a\na\n", "a\na\na\n", "+3a ");
    assert_difference("a\n\nb\n", "a\nb\n", "-2 ");
}

/* More lines than are compared one by one: what is between the ends that are alike counts as replaced. */
static void long_texts_are_replaced(void **state) {
    (void)state;
    nt__text a = {0}, b = {0}, text = {0};
    nt__text_say(&a, "same\n");
    nt__text_say(&b, "same\n");
    for (int i = 0; i < 3000; i++) {
        nt__text_add(&a, "a%d\n", i);
        nt__text_add(&b, "b%d\n", i);
    }
    assert_int_equal(nt__line_diff(a.data, b.data, note, &text), NT_OK);
    assert_memory_equal(text.data, "-2a0 -3a1 ", 10);
    assert_has(text.data, "-3001a2999 +2b0 ", "+3001b2999 ");
    nt__text_free(&a);
    nt__text_free(&b);
    nt__text_free(&text);
}

static void count_lines(bool is_new, size_t number, const char *line, void *context) {
    (void)is_new;
    (void)number;
    (void)line;
    ++*(size_t *)context;
}

static void a_comparison_without_memory_leaves_nothing(void **state) {
    (void)state;
    size_t before = nt__memory().live;
    nt_status status = NT_OUT_OF_MEMORY;
    for (size_t n = 1; status != NT_OK; n++) {
        size_t count = 0;
        nt__memory_fail_at(n);
        status = nt__line_diff("a\nb\nc\n", "a\nx\nc\n", count_lines, &count);
        nt__memory_fail_at(0);
        assert_true(status == NT_OK || status == NT_OUT_OF_MEMORY);
        assert_int_equal(nt__memory().live, before);
    }
}

/* ---- nitro diff ------------------------------------------------------------------------------------------------- */

static void put_run(const char *folder, int hidden, const char *host, const char *source, double accuracy) {
    nt__text log = {0};
    nt__text_add(
        &log,
        "{\"hidden\":%d,\"seed\":42,\"type\":\"params\"}\n"
        "{\"experiment\":\"Net\",\"started\":\"2026-01-02T03:04:0%dZ\",\"host\":\"%s\",\"type\":\"environment\"}\n"
        "{\"path\":\"net.c\",\"text\":\"%s\",\"type\":\"source\"}\n",
        hidden, hidden % 10, host, source);
    char metrics[64];
    snprintf(metrics, sizeof metrics, "\"accuracy\":%.9g", accuracy);
    add_epoch(&log, 1, 4, 0.75, metrics);
    add_epoch(&log, 2, 4, 0.5, "\"accuracy\":0.5");
    nt__text_say(&log, finished);
    put_log(folder, log.data);
    nt__text_free(&log);
}

static void differences_are_a_line_each(void **state) {
    (void)state;
    go_to("diff");
    put_run("diff/runs/a", 32, "one", "int x;\\nint y;\\n", 0.75);
    put_run("diff/runs/b", 64, "two", "int x;\\nint z;\\nint w;\\n", 0.625);
    const ended *e = nitro("diff", "runs/a", "runs/b");
    assert_string_equal(e->err, "");
    assert_string_equal(e->out, "first: Net (runs/a), 2 epochs, completed\n"
                                "second: Net (runs/b), 2 epochs, completed\n"
                                "\nfields and settings\n"
                                "  hidden  32  64\n"
                                "\nenvironment\n"
                                "  host  one  two\n"
                                "\nsource\n"
                                "  net.c:2 - int y;\n"
                                "  net.c:2 + int z;\n"
                                "  net.c:3 + int w;\n"
                                "\nmetrics\n"
                                "  metric    last  last  best (epoch)  best (epoch)\n"
                                "  loss      0.5   0.5   0.5 (2)       0.5 (2)\n"
                                "  accuracy  0.5   0.5   0.75 (1)      0.625 (1)\n");
    assert_int_equal(e->code, 0);
    e = nitro("diff", "runs/a", "runs/a");
    assert_has(e->out, "\nfields and settings: the same\n\nenvironment: the same\n\nsource: the same\n\nmetrics\n");
}

/* Of a run that was killed early, and of one with other fields and files. */
static void what_only_one_has_is_said(void **state) {
    (void)state;
    go_to("one");
    put_run("one/runs/a", 32, "one", "int x;\\n", 0.75);
    put_log("one/runs/b",
            "{\"width\":\"wide\",\"type\":\"params\"}\n{\"path\":\"other.c\",\"text\":\"\",\"type\":\"source\"}\n"
            "{\"a\":");
    const ended *e = nitro("diff", "runs/a", "runs/b");
    assert_string_equal(
        e->out, "first: Net (runs/a), 2 epochs, completed\n"
                "second: b (runs/b), 0 epochs, killed\n"
                "the last line has no end (5 bytes) and is left out: it was being written, or the run was killed\n"
                "\nfields and settings\n"
                "  hidden  32  -\n"
                "  seed    42  -\n"
                "  width   -   wide\n"
                "\nenvironment\n"
                "  experiment  Net  -\n"
                "  host        one  -\n"
                "\nsource\n"
                "  net.c: only in the first\n"
                "  other.c: only in the second\n"
                "\nmetrics\n"
                "  metric    last  last  best (epoch)  best (epoch)\n"
                "  loss      0.5   -     0.5 (2)       -\n"
                "  accuracy  0.5   -     0.75 (1)      -\n");
    e = nitro("diff", "runs/a");
    assert_string_equal(e->err, "nitro: nitro diff takes two runs, and 1 was given: write nitro diff RUN RUN\n");
    assert_int_equal(e->code, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_curve_goes_from_corner_to_corner),
        cmocka_unit_test(a_gap_breaks_the_line),
        cmocka_unit_test(what_has_no_value_says_so),
        cmocka_unit_test(runs_have_colours),
        cmocka_unit_test(all_columns_are_drawn),
        cmocka_unit_test(what_cannot_be_drawn_is_said),
        cmocka_unit_test(several_runs_have_a_panel_each),
        cmocka_unit_test(a_file_is_svg_or_png),
        cmocka_unit_test(lines_that_differ_are_told),
        cmocka_unit_test(long_texts_are_replaced),
        cmocka_unit_test(a_comparison_without_memory_leaves_nothing),
        cmocka_unit_test(differences_are_a_line_each),
        cmocka_unit_test(what_only_one_has_is_said),
    };
    return cmocka_run_group_tests(tests, command_make, scratch_remove);
}
