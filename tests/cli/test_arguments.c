/* The command line: words sorted into files and flags, flags given to options and fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "cli/arguments.h"

#define SOME(FIELD, DEVICE, GRAPH_CONST)                       \
    GRAPH_CONST(int, hidden_units, 256, "an int")              \
    DEVICE(float, smoothing, 0.1f, "a float")                  \
    FIELD(bool, shuffle, true, "a bool")                       \
    FIELD(bool, no_bias, false, "a bool with no in its name")  \
    FIELD(const char *, data_dir, "data", "a string")          \
    FIELD(int, max_epochs, 5, "a field with a keyword's name") \
    FIELD(double, input, 1.5, "a field with the name of a keyword of another command")

NT_EXPERIMENT(Some, SOME)
NT_DEFINE(Some, SOME, .build_data = NULL);

static nt__arguments arguments;
static nt__command_options options;
static Some fields;

/* All three steps; the arguments stay until the next call. */
#define read_words(command, ...) read_list(command, (const char *const[]){__VA_ARGS__, NULL})
static nt_status read_list(const char *command, const char *const *words) {
    int count = 0;
    while (words[count]) count++;
    nt__arguments_free(&arguments);
    nt__command_options_free(&options);
    options = (nt__command_options){0};
    fields = Some_defaults();
    nt_status status = nt__arguments_read(nt__takes_of(command), count, (char *const *)(uintptr_t)words, &arguments);
    if (status == NT_OK) status = nt__arguments_options(&arguments, &options);
    if (status == NT_OK) status = nt__arguments_fields(&arguments, Some_experiment(), &fields);
    return status;
}

#define reads(...) assert_int_equal(read_words("train", "a.c", __VA_ARGS__), NT_OK)
#define refuses(message, ...)                                                  \
    do {                                                                       \
        assert_int_equal(read_words("train", "a.c", __VA_ARGS__), NT_INVALID); \
        assert_string_equal(nt_error_message(), message);                      \
    } while (0)

static int release(void **state) {
    (void)state;
    nt__arguments_free(&arguments);
    nt__command_options_free(&options);
    return 0;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static void words_that_are_no_flags_are_files(void **state) {
    (void)state;
    assert_int_equal(read_words("train", "a.c", "b.c", "--quiet", "c.c", "--seed", "3", "d.c"), NT_OK);
    assert_int_equal(arguments.files.count, 4);
    assert_string_equal(arguments.files.items[2], "c.c");
    assert_string_equal(arguments.files.items[3], "d.c");
    assert_true(options.run.quiet);
}

static void files_are_checked(void **state) {
    (void)state;
    assert_int_equal(read_words("train", "--quiet"), NT_OK);
    assert_int_equal(nt__arguments_check_files(&arguments, "train"), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "no file was given"));
    assert_int_equal(read_words("train", "--no-shuffle=", "x"), NT_INVALID);
    assert_int_equal(read_words("train", "--data-dir", "x.c"), NT_OK);
    assert_int_equal(nt__arguments_check_files(&arguments, "train"), NT_INVALID);
    assert_string_equal(nt_error_message(),
                        "no file was given: 'x.c' was taken as the value of --data-dir. Files stand "
                        "before the flags: nitro train x.c --data-dir");
    assert_int_equal(read_words("train", ".c"), NT_OK);
    assert_int_equal(nt__arguments_check_files(&arguments, "train"), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "'.c' is no C source file"));
}

/* ---- fields ----------------------------------------------------------------------------------------------------- */

static void values_are_given_in_two_ways(void **state) {
    (void)state;
    reads("--hidden-units=512");
    assert_int_equal(fields.hidden_units, 512);
    reads("--hidden_units", "-3");
    assert_int_equal(fields.hidden_units, -3);
    reads("--smoothing", "0.5", "--data-dir", "-");
    assert_true(fields.smoothing == 0.5f);
    assert_string_equal(fields.data_dir, "-");
    reads("--data_dir=a=b --c");
    assert_string_equal(fields.data_dir, "a=b --c");
    reads("--data-dir=");
    assert_string_equal(fields.data_dir, "");
    reads("--hidden-units=1", "--hidden-units=2");
    assert_int_equal(fields.hidden_units, 2);
}

static void bools_can_stand_alone(void **state) {
    (void)state;
    reads("--shuffle=off");
    assert_false(fields.shuffle);
    reads("--no-shuffle");
    assert_false(fields.shuffle);
    reads("--no_shuffle", "--shuffle", "--hidden-units=1");
    assert_true(fields.shuffle);
    reads("--shuffle", "false");
    assert_false(fields.shuffle);
    reads("--no-bias");
    assert_true(fields.no_bias);
    reads("--no-bias", "--no-no-bias");
    assert_false(fields.no_bias);
}

static void wrong_values_are_refused(void **state) {
    (void)state;
    refuses("--hidden-units needs a value (int): write --hidden-units=VALUE", "--hidden-units");
    refuses("--data-dir needs a value (string): write --data-dir=VALUE", "--data-dir", "--shuffle");
    refuses("--no-shuffle takes no value, and 'yes' was given: write --no-shuffle or --shuffle=yes",
            "--no-shuffle=yes");
    refuses("shuffle (bool): 'b.c' is neither true nor false; write true or false (also 1/0, yes/no, on/off). Files "
            "stand before the flags",
            "--shuffle", "b.c");
    refuses("hidden_units (int): '' is not a whole number; write digits, for example 256", "--hidden-units=");
    refuses("'-x' is no flag: flags are written --name=value", "-x");
    refuses("'--=3' is no flag: flags are written --name=value", "--=3");
    refuses("'-' is no flag: flags are written --name=value", "-");
}

static void unknown_names_are_refused_with_the_closest(void **state) {
    (void)state;
    refuses("there is no flag --hiddenunits (did you mean --hidden-units?); nitro help a.c lists the flags",
            "--hiddenunits=3");
    refuses("there is no flag --max-epohcs (did you mean --max-epochs?); nitro help a.c lists the flags",
            "--max_epohcs=3");
    refuses("there is no flag --max (did you mean --max-epochs or --max-steps?); nitro help a.c lists the flags",
            "--max=3");
    refuses("there is no flag --no-smoothing (did you mean --smoothing?); nitro help a.c lists the flags",
            "--no-smoothing");
    refuses("there is no flag --y; nitro help a.c lists the flags", "--y");
}

/* ---- keywords --------------------------------------------------------------------------------------------------- */

static void keywords_set_options(void **state) {
    (void)state;
    reads("--run-dir=there", "--seed=0", "--max-steps", "7", "--accum=2", "--gradient-clip-norm=0.5",
          "--learning_rate=1e-4", "--stats=s.json", "--experiment=Some", "--cflags=-O0 -DX", "--ldflags", "-lm");
    assert_string_equal(options.run.run_dir, "there");
    assert_true(options.run.seed.given && options.run.seed.value == 0);
    assert_true(options.run.max_steps.given && options.run.max_steps.value == 7);
    assert_true(options.run.accum.given && options.run.accum.value == 2);
    assert_true(options.run.gradient_clip_norm.given && options.run.gradient_clip_norm.value == 0.5);
    assert_true(options.run.learning_rate.given && options.run.learning_rate.value == 1e-4);
    assert_false(options.run.max_epochs.given);
    assert_string_equal(options.stats, "s.json");
    assert_string_equal(options.experiment, "Some");
    assert_string_equal(options.cflags, "-O0 -DX");
    assert_string_equal(options.ldflags, "-lm");
    assert_false(options.run.quiet);
    reads("--quiet", "--no-quiet");
    assert_false(options.run.quiet);
    reads("--quiet=1");
    assert_true(options.run.quiet);
}

static void schedules_add_up(void **state) {
    (void)state;
    reads("--schedule=learning_rate=cosine:1e-3:0", "--schedule", "smoothing=linear:0.1:0", "--trace-transfers");
    assert_true(options.run.trace_transfers);
    assert_int_equal(options.parsed.count, 2);
    assert_string_equal(options.run.schedules[0].name, "learning_rate");
    assert_string_equal(options.run.schedules[1].name, "smoothing");
    assert_null(options.run.schedules[2].name);
    assert_int_equal(read_words("train", "a.c", "--schedule=learning_rate"), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "'learning_rate' is no schedule: write NAME=KIND:NUMBERS"));
}

static void a_keyword_goes_before_a_field_of_its_name(void **state) {
    (void)state;
    reads("--max-epochs=3");
    assert_true(options.run.max_epochs.given && options.run.max_epochs.value == 3);
    assert_int_equal(fields.max_epochs, 5);
}

static void a_keyword_of_another_command_leaves_its_name_to_fields(void **state) {
    (void)state;
    reads("--input=2.5");
    assert_true(fields.input == 2.5);
    assert_int_equal(options.inputs.count, 0);
    refuses("--split is a flag of nitro evaluate and not of this command: leave it out", "--split=val");
    refuses("--metric is a flag of nitro history and not of this command: leave it out", "--metric=accuracy");
    refuses("--x is a flag of nitro plot and not of this command: leave it out", "--x=step");
    assert_int_equal(read_words("evaluate", "a.c", "--weights=file", "--split", "val"), NT_OK);
    assert_true(fields.input == 1.5);
    assert_string_equal(options.weights, "file");
    assert_string_equal(options.split, "val");
}

/* A line of nitro train becomes one of these by its verb alone. */
static void what_looks_ahead_takes_every_flag_of_train(void **state) {
    (void)state;
    static const char *const commands[] = {"schedule", "summary", "help"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const nt__keyword *keyword;
        for (size_t k = 0; (keyword = nt__keyword_at(k)); k++)
            if (nt__uses(nt__takes_of("train"), keyword))
                assert_ptr_equal(nt__keyword_of(nt__takes_of(commands[i]), keyword->field.name), keyword);
        assert_int_equal(read_words(commands[i], "a.c", "--weights=w", "--weight-map", "a=b", "--resume", "--no-cache",
                                    "--quiet", "--stats=s", "--compile-option=a=1", "--gradient-norm"),
                         NT_OK);
        assert_true(options.run.quiet && options.run.gradient_norm);
        assert_string_equal(options.run.resume, "auto");
        assert_int_equal(read_words(commands[i], "a.c", "--qiet"), NT_INVALID);
        assert_non_null(strstr(nt_error_message(), "there is no flag --qiet (did you mean --quiet?)"));
        assert_int_equal(read_words(commands[i], "a.c", "--split=val"), NT_INVALID);
    }
    assert_null(nt__keyword_of(nt__takes_of("evaluate"), "resume"));
}

/* --resume alone, and after an equals sign only: a word after it is a file. */
static void resume_may_have_a_value(void **state) {
    (void)state;
    reads("--seed=1");
    assert_null(options.run.resume);
    reads("--resume", "--seed=1");
    assert_string_equal(options.run.resume, "auto");
    reads("--resume=latest:best", "--restore-best");
    assert_string_equal(options.run.resume, "latest:best");
    assert_true(options.run.restore_best);
    reads("--weights=others.safetensors", "--weight-map=a=b:transpose", "--weight-map", "=c.*");
    assert_string_equal(options.run.weights, "others.safetensors");
    assert_int_equal(options.run.weight_map_count, 2);
    assert_string_equal(options.run.weight_maps[0], "a=b:transpose");
    assert_string_equal(options.run.weight_maps[1], "=c.*");
}

static void help_never_takes_a_value(void **state) {
    (void)state;
    reads("--help", "b.c");
    assert_true(options.help);
    assert_int_equal(arguments.files.count, 2);
    reads("-h");
    assert_true(options.help);
}

static bool is_taken(const nt__keyword *keyword) {
    for (size_t i = 0; nt__takes_at(i); i++)
        if (nt__uses(nt__takes_at(i), keyword)) return true;
    return false;
}

/* Each word of a command's line in commands.def is the set of some flag. */
static void every_set_has_a_flag(void **state) {
    (void)state;
    for (size_t i = 0; nt__takes_at(i); i++) {
        char words[256], *rest;
        snprintf(words, sizeof words, "%s %s", nt__takes_at(i)->flags, nt__takes_at(i)->idle);
        for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
            const nt__keyword *keyword = nt__keyword_at(0);
            for (size_t k = 0; keyword && strcmp(keyword->set, word) != 0;) keyword = nt__keyword_at(++k);
            if (!keyword) fail_msg("nitro %s takes '%s', and no flag is of that set", nt__takes_at(i)->command, word);
        }
    }
}

static void every_keyword_is_complete(void **state) {
    (void)state;
    const nt__keyword *keyword;
    for (size_t i = 0; (keyword = nt__keyword_at(i)); i++) {
        assert_ptr_equal(nt__keyword_find(keyword->field.name), keyword);
        assert_true(strlen(keyword->field.doc) > 0 && strlen(keyword->field.default_text) > 0);
        assert_true(is_taken(keyword));
    }
    assert_null(nt__keyword_find("max"));
    assert_null(nt__keyword_find("max_epochs_"));
    assert_ptr_equal(nt__keyword_find("max-epochs"), nt__keyword_find("max_epochs"));
}

static void every_refused_allocation_is_survived(void **state) {
    (void)state;
    nt__arguments_free(&arguments);
    nt__command_options_free(&options);
    size_t live = nt__memory().live;
    static const char *const cases[] = {"--hiddenunits=3", "--hidden-units=3"};
    for (size_t i = 0; i < 2; i++) {
        nt_status status = NT_OUT_OF_MEMORY, expected = i == 0 ? NT_INVALID : NT_OK;
        for (size_t n = 1; status == NT_OUT_OF_MEMORY; n++) {
            nt__memory_fail_at(n);
            status = read_words("train", "a.c", "b.c", cases[i], "--seed=1");
            nt__memory_fail_at(0);
            nt__arguments_free(&arguments);
            assert_int_equal(nt__memory().live, live);
        }
        assert_int_equal(status, expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_that_are_no_flags_are_files),
        cmocka_unit_test(files_are_checked),
        cmocka_unit_test(values_are_given_in_two_ways),
        cmocka_unit_test(bools_can_stand_alone),
        cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(unknown_names_are_refused_with_the_closest),
        cmocka_unit_test(keywords_set_options),
        cmocka_unit_test(schedules_add_up),
        cmocka_unit_test(a_keyword_goes_before_a_field_of_its_name),
        cmocka_unit_test(a_keyword_of_another_command_leaves_its_name_to_fields),
        cmocka_unit_test(what_looks_ahead_takes_every_flag_of_train),
        cmocka_unit_test(resume_may_have_a_value),
        cmocka_unit_test(help_never_takes_a_value),
        cmocka_unit_test(every_keyword_is_complete),
        cmocka_unit_test(every_set_has_a_flag),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests_name("arguments", tests, NULL, release);
}
