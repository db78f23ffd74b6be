/* The examples on text: what they learn in a few steps, and that what is written with a cache, one character after the
 * other, is what the transformer tells of all characters at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "command.h"
#include "nitro/array.h"

enum { LENGTH = 160 }; /* more than the transformer learns from at once here */

/* Of the single characters of the text, in bits. */
static const double entropy = 4.357;
static const char begin[] = "And the LORD said";

static char transformer[SCRATCH_PATH], lstm[SCRATCH_PATH], sample[SCRATCH_PATH];

static double number_after(const char *text, const char *label) {
    const char *at = strstr(text, label);
    if (!at) fail_msg("'%s' is not in:\n%s", label, text);
    return at ? strtod(at + strlen(label), NULL) : NAN;
}

/* The flag with a path in the scratch folder, until the next 4 calls. */
static const char *flag(const char *name, const char *file) {
    static char texts[4][SCRATCH_PATH];
    static size_t next;
    char *text = texts[next++ % 4];
    snprintf(text, SCRATCH_PATH, "--%s%s", name, scratch(file));
    return text;
}

static const ended *assert_success(const ended *e) {
    if (e->code != 0) fail_msg("exit %d\n%s", e->code, e->err);
    return e;
}

/* Bits a character of the last twentieth of the text. */
static double bits_of_run(const char *folder) {
    char path[SCRATCH_PATH], log[MOST_OUTPUT];
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    read_output(path, log);
    return number_after(log, "\"bits\":");
}

static void the_transformer_learns(void **state) {
    (void)state;
    assert_success(
        nitro("train", transformer, "--length=32", "--max-steps=40", flag("run-dir=", "learned"), "--quiet"));
    double bits = bits_of_run("learned");
    assert_true(bits > 2 && bits < entropy);
}

static void the_lstm_learns(void **state) {
    (void)state;
    assert_success(
        nitro("train", lstm, "--units=64", "--length=32", "--max-steps=80", flag("run-dir=", "lstm"), "--quiet"));
    double bits = bits_of_run("lstm");
    assert_true(bits > 2 && bits < entropy);
}

/* Two texts at a time, the likeliest character each time. */
static void a_text_is_what_the_transformer_tells(void **state) {
    (void)state;
    nt_array *given = nt_array_new(NT_U8, nt_dims(2, LENGTH));
    memcpy(given->data, begin, sizeof begin - 1);
    memcpy((char *)given->data + LENGTH, "I", 1);
    assert_int_equal(nt_npy_write(scratch("begin.npy"), given), NT_OK);
    assert_success(nitro("predict", sample, "--batch=2", "--temperature=0", "--window=160",
                         flag("weights=", "learned/parameters.safetensors"), flag("input=begin=", "begin.npy"),
                         flag("out=", "text.npy")));
    nt_array *text = nt_npy_read(scratch("text.npy"));
    assert_non_null(text);
    assert_true(nt_shape_equal(text->shape, given->shape));
    assert_memory_equal(text->data, begin, sizeof begin - 1);
    assert_success(nitro("predict", transformer, "--batch=2", flag("weights=", "learned/parameters.safetensors"),
                         flag("input=text=", "text.npy"), flag("out=", "logits.npy")));
    nt_array *logits = nt_npy_read(scratch("logits.npy"));
    assert_non_null(logits);
    assert_true(nt_shape_equal(logits->shape, nt_dims(2, LENGTH - 1, 256)));
    for (int i = 0; i < 2 * (LENGTH - 1); i++) {
        int line = i / (LENGTH - 1), place = i % (LENGTH - 1) + 1;
        if (place < (line ? 1 : (int)sizeof begin - 1)) continue;
        double written = nt_array_get(logits, 256 * i + (int64_t)nt_array_get(text, line * LENGTH + place));
        for (int k = 0; k < 256; k++) assert_true(nt_array_get(logits, 256 * i + k) < written + 1e-4);
    }
    nt_array_free(given);
    nt_array_free(text);
    nt_array_free(logits);
}

static void texts_are_drawn_by_a_seed(void **state) {
    (void)state;
    char program[SCRATCH_PATH], weights[SCRATCH_PATH], first[MOST_OUTPUT];
    snprintf(program, sizeof program, "%s/examples/sample", getenv("NITRO_BUILD"));
    snprintf(weights, sizeof weights, "%s", scratch("learned/parameters.safetensors"));
    const char *one[] = {program, begin, "1", weights, NULL}, *other[] = {program, begin, "2", weights, NULL};
    const ended *e = assert_success(run_words(one));
    assert_int_equal(strncmp(e->out, begin, sizeof begin - 1), 0);
    snprintf(first, sizeof first, "%s", e->out);
    assert_string_not_equal(assert_success(run_words(other))->out, first);
    const char *absent[] = {program, begin, "1", "no/such/file", NULL};
    assert_int_equal(run_words(absent)->code, 1);
    assert_has(e->err, "no/such/file");
}

/* A folder with what compiles an experiment, and nothing else. */
static const char *compilers_alone(void) {
    const char *link = "mkdir \"$0\" && for tool in as ld cc gcc clang; do ln -s \"$(command -v $tool)\" \"$0\"; done";
    static char folder[SCRATCH_PATH];
    snprintf(folder, sizeof folder, "%s", scratch("tools"));
    assert_success(run_words((const char *const[]){"sh", "-c", link, folder, NULL}));
    return folder;
}

static void a_text_that_is_not_there_is_named(void **state) {
    (void)state;
    const ended *e = nitro("train", lstm, "--text=/no/such/text", flag("run-dir=", "none"));
    assert_int_equal(e->code, 1);
    assert_has(e->err, "no text could be read from '/no/such/text'");
    char folders[SCRATCH_PATH];
    snprintf(folders, sizeof folders, "%s", getenv("PATH"));
    assert_int_equal(setenv("PATH", compilers_alone(), 1), 0);
    e = nitro("train", lstm, flag("run-dir=", "none"));
    assert_int_equal(setenv("PATH", folders, 1), 0);
    assert_int_equal(e->code, 1);
    assert_has(e->err, "apt-get install bible-kjv", "--text=FILE");
}

static int set_up(void **state) {
    const char *tests = getenv("NT_TESTS");
    snprintf(transformer, sizeof transformer, "%s/../examples/transformer.c", tests);
    snprintf(lstm, sizeof lstm, "%s/../examples/lstm.c", tests);
    snprintf(sample, sizeof sample, "%s/../examples/sample.c", tests);
    return command_make(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_transformer_learns),
        cmocka_unit_test(a_text_is_what_the_transformer_tells),
        cmocka_unit_test(texts_are_drawn_by_a_seed),
        cmocka_unit_test(the_lstm_learns),
        cmocka_unit_test(a_text_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests_name("text", tests, set_up, scratch_remove);
}
