/* Text of others on a terminal: no command sends what a terminal obeys, whoever named the folders, fields, metrics and
 * lines of a log; a row stays one line.
 */
/* NOLINTBEGIN(misc-misleading-bidirectional): characters that turn the direction are what is tried. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/files.h"
#include "command.h"

#define BAD "\\u001b]0;PWNED\\u0007\\u001b[31mRED\\u009b2J\\u202eRLO\\u2066\\n\\r\\t" /* in JSON */
#define RAW                             \
    "\x1b]0;PWNED\a\x1b[31mRED\xc2\x9b" \
    "2J\xe2\x80\xae"                    \
    "x\xe9" /* in a name of a file */

static const char log_text[] =
    "{\"type\":\"environment\",\"experiment\":\"Exp" BAD "\",\"host\":\"h" BAD "\",\"nitro\":\"0" BAD "\"}\n"
    "{\"type\":\"params\",\"max_epochs\":3,\"fie" BAD "ld\":\"v" BAD "X\"}\n"
    "{\"type\":\"source\",\"path\":\"a" BAD ".c\",\"text\":\"int x;" BAD "\\nint y;\\n\"}\n"
    "{\"loss\":0.5,\"type\":\"metrics\",\"context\":\"epoch\",\"step\":10,\"epoch\":1}\n"
    "{\"val_loss\":0.4,\"acc" BAD "\":0.1,\"type\":\"metrics\",\"context\":\"validate\",\"step\":10,\"epoch\":1}\n"
    "{\"loss\":0.25,\"type\":\"metrics\",\"context\":\"epoch\",\"step\":20,\"epoch\":2}\n"
    "{\"val_loss\":0.2,\"acc" BAD "\":0.2,\"type\":\"metrics\",\"context\":\"validate\",\"step\":20,\"epoch\":2}\n"
    "{\"status\":\"comp" BAD "leted\",\"seconds\":1.0,\"type\":\"finish\"}\n";

/* Of a text that a terminal may be given: the first part that it would obey, NULL if there is none. */
static const char *obeyed(const char *text) {
    for (const char *at = text; *at; at++) {
        const unsigned char *c = (const unsigned char *)at;
        bool control =
            (*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7f || (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0);
        bool turns = *c == 0xe2 && ((c[1] == 0x80 && c[2] >= 0xa8 && c[2] <= 0xae) || (c[1] == 0x81 && c[2] >= 0xa0));
        if (control || turns) return at;
    }
    return NULL;
}

#define assert_harmless(...) check_harmless(nitro(__VA_ARGS__), __LINE__)
static const ended *check_harmless(const ended *e, int line) {
    const char *out = obeyed(e->out), *err = obeyed(e->err);
    if (out || err || !nt__is_utf8(e->out, strlen(e->out)))
        fail_msg("line %d: exit %d, harmful from here:\n%.60s\nin\n%s%s", line, e->code,
                 out   ? out
                 : err ? err
                       : "",
                 e->out, e->err);
    return e;
}

static size_t lines_of(const char *text) {
    size_t count = 0;
    for (; *text; text++) count += *text == '\n';
    return count;
}

/* ---- logs of others --------------------------------------------------------------------------------------------- */

static void put_runs(void) {
    assert_int_equal(nt__make_folder("runs/a" RAW), NT_OK);
    assert_int_equal(nt__make_folder("runs/b"), NT_OK);
    put_text("runs/a" RAW "/metrics.jsonl", log_text);
    put_text("runs/b/metrics.jsonl", log_text + 3); /* the first line is no JSON */
}

static void the_log_of_a_stranger_does_no_harm(void **state) {
    (void)state;
    put_runs();
    const ended *e = assert_harmless("runs", "runs");
    assert_int_equal(e->code, 0);
    assert_int_equal(lines_of(e->out), 3);
    assert_has(e->out, "runs/a\\x1b]0;PWNED\\a\\x1b[31mRED\\u009b2J\\u202ex\\xe9");
    e = assert_harmless("history", "runs/a" RAW);
    assert_int_equal(e->code, 0);
    assert_has(e->out, "Exp\\x1b]0;PWNED\\a", "acc\\x1b]0;PWNED\\a");
    e = assert_harmless("diff", "runs/a" RAW, "runs/b");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "host ", "h\\x1b]0;PWNED");
    assert_int_equal(assert_harmless("plot", "runs/a" RAW)->code, 0);
    assert_int_equal(assert_harmless("plot", "runs/a" RAW, "runs/b")->code, 0);
    assert_harmless("history", "runs/a" RAW, "--metric=nope" RAW);
    assert_harmless("history", "runs/absent" RAW);
    assert_harmless("runs", "absent" RAW);
    assert_harmless("train", "absent" RAW ".c");
    assert_harmless("train", "x.c", "--flag" RAW "=" RAW);
    assert_harmless("cache", "list" RAW);
    assert_harmless("command" RAW);
}

/* What draws a file gets characters that it can draw. */
static void a_picture_has_the_text_that_is_shown(void **state) {
    (void)state;
    put_runs();
    const char *plots = getenv("NT_PLOTS");
    const ended *e = assert_harmless("plot", "runs/a" RAW, "--out=curve.svg");
    assert_int_equal(e->code, plots && *plots == '1' ? 0 : 1);
}

/* Columns begin one below the other whatever characters the cells have. */
static void columns_are_as_wide_as_what_is_shown(void **state) {
    (void)state;
    assert_int_equal(nt__make_folder("wide/gr\xc3\xbc\xc3\x9f"), NT_OK);
    assert_int_equal(nt__make_folder("wide/plain"), NT_OK);
    const char *line = "{\"loss\":1,\"type\":\"metrics\",\"context\":\"epoch\",\"step\":1,\"epoch\":1}\n"
                       "{\"status\":\"completed\",\"seconds\":1.0,\"type\":\"finish\"}\n";
    put_text("wide/gr\xc3\xbc\xc3\x9f/metrics.jsonl", line);
    put_text("wide/plain/metrics.jsonl", line);
    const ended *e = nitro("runs", "wide");
    assert_has(e->out, "  wide/gr\xc3\xbc\xc3\x9f   completed  ", "  wide/plain  completed  ");
}

/* ---- runs of one's own ------------------------------------------------------------------------------------------ */

static const char source[] =
    "#include <nitro.h>\n"
    "#define LIST(FIELD, DEVICE, GRAPH_CONST) FIELD(int, batch, 8, \"\") FIELD(const char *, note, \"x\", \"\")\n"
    "NT_EXPERIMENT(Noted, LIST)\n"
    "static nt_status build_data(const Noted *e, nt_data *data) {\n"
    "    nt_array *x = nt_array_new(NT_F32, nt_dims(32, 3));\n"
    "    for (int i = 0; i < 96; i++) nt_array_set(x, i, (i * 37 % 17 - 8) / 8.0);\n"
    "    nt_split(data, \"train\", .batch = e->batch);\n"
    "    nt_split(data, \"val\", .batch = e->batch, .limit = 8, .shares = \"train\");\n"
    "    nt_split_field(data, \"train\", \"x\", nt_array_retain(x));\n"
    "    nt_split_field(data, \"val\", \"x\", x);\n"
    "    return nt_data_status(data);\n"
    "}\n"
    "static nt_tensor forward(const Noted_view *e, nt_model *m, nt_batch *batch) {\n"
    "    return nt_dense(m, \"out\", nt_field(batch, \"x\"), 1);\n"
    "}\n"
    "static nt_tensor loss(const Noted_view *e, nt_tensor y, nt_batch *batch) {\n"
    "    return nt_mean(nt_square(y));\n"
    "}\n"
    "static void metrics(const Noted *e, nt_metrics *out, const nt_array *y, const nt_host_batch *batch) {\n"
    "    nt_metric_mean(out, \"m\", 1.0, 1);\n"
    "}\n"
    "NT_DEFINE(Noted, LIST, .build_data = build_data, .forward = forward, .loss = loss, .metrics = metrics);\n";

static void names_of_ones_own_do_no_harm(void **state) {
    (void)state;
    put_text("noted.c", source);
    const ended *e = assert_harmless("train", "noted.c", "--note=a\nb\x1b[31mred", "--run-dir=own/a");
    assert_int_equal(e->code, 0);
    e = assert_harmless("train", "noted.c", "--run-dir=own/b\x1b[31m\n", "--quiet");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "parameters in own/b\\x1b[31m\\n/parameters.safetensors\n");
    e = assert_harmless("diff", "own/a", "own/b\x1b[31m\n");
    assert_has(e->out, "  note  a\\nb\\x1b[31mred  x\n");
    assert_int_equal(lines_of(assert_harmless("runs", "own")->out), 3);
    assert_harmless("history", "own/a");
    assert_harmless("evaluate", "noted.c", "--split=val", "--run-dir=own/a");
    assert_harmless("evaluate", "noted.c", "--split=no\x1b[31m", "--run-dir=own/a");
    assert_harmless("help", "noted.c", "--resolved", "--run-dir=own/b\x1b[31m\n");
    assert_harmless("summary", "noted.c");
    assert_harmless("train", "noted.c", "--run-dir=own/a", "--resume=no\x1b[31m:best");
}

static int set_up(void **state) {
    return command_make(state) == 0 ? chdir(scratch_folder) : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_log_of_a_stranger_does_no_harm),
        cmocka_unit_test(a_picture_has_the_text_that_is_shown),
        cmocka_unit_test(columns_are_as_wide_as_what_is_shown),
        cmocka_unit_test(names_of_ones_own_do_no_harm),
    };
    return cmocka_run_group_tests_name("shown", tests, set_up, scratch_remove);
}
/* NOLINTEND(misc-misleading-bidirectional) */
