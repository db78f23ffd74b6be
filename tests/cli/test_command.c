/* The nitro command as its user meets it: help, wrong use, exit codes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "command.h"

/* "path of the file" and what else the messages show of it. */
static const char *experiment_file(void) {
    static char path[SCRATCH_PATH];
    put_experiment("some.c", "Some", "",
                   "GRAPH_CONST(int, hidden_units, 256, \"units in the hidden layer\")"
                   "DEVICE(float, smoothing, 0.1f, \"label smoothing\")"
                   "FIELD(bool, shuffle, true, \"another order in each epoch\")"
                   "FIELD(const char *, data_dir, \"data\", \"folder of the files\")"
                   "FIELD(int, max_epochs, 5, \"passes over the data\")");
    snprintf(path, sizeof path, "%s", scratch("some.c"));
    return path;
}

/* ---- help ------------------------------------------------------------------------------------------------------- */

static void the_manual_has_everything(void **state) {
    (void)state;
    static const char *const ways[] = {"help", "--help", "-h"};
    for (size_t i = 0; i < 3; i++) {
        const ended *e = nitro(ways[i]);
        assert_int_equal(e->code, 0);
        assert_string_equal(e->err, "");
        assert_has(e->out, "usage: nitro train FILE.c", "nitro evaluate FILE.c", "nitro devices");
        assert_has(e->out, "--max-epochs", "--max-steps", "--seed", "--accum", "--gradient-clip-norm");
        assert_has(e->out, "--run-dir", "--learning-rate", "--quiet", "--stats", "--experiment", "--split",
                   "--weights");
        assert_has(e->out, "--cflags", "--ldflags", "NITRO_PLUGIN ", "NITRO_PLUGIN_PATH", "TF_CPP_MIN_LOG_LEVEL",
                   "CC ");
        assert_has(e->out, "parameters.safetensors", "exit codes", "130", "examples");
    }
}

/* Each is there, and none is explained: what the command uses would be lost among them. */
static void a_summary_only_names_flags_of_training(void) {
    const ended *e = nitro("summary", "--help");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "\n  --compute-dtype ", "`nitro help train`", "--max-epochs, --max-steps, ",
               "--checkpoint-scope", "--schedule");
    assert_has_not(e->out, "passes over the training data");
    assert_has_not(e->out, "one_cycle");
}

static void a_command_has_its_own_manual(void **state) {
    (void)state;
    char first[MOST_OUTPUT];
    const ended *e = nitro("train", "--help");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "usage: nitro train FILE.c [MORE.c ...] [flags]", "--max-epochs");
    assert_has_not(e->out, "--split");
    snprintf(first, sizeof first, "%s", e->out);
    assert_string_equal(nitro("help", "train")->out, first);
    assert_string_equal(nitro("train", "no-such-file.c", "--anything", "-h")->out, first);
    e = nitro("evaluate", "--help");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "usage: nitro evaluate", "--split", "--weights");
    assert_has_not(e->out, "--max-epochs");
    assert_has_not(nitro("predict", "--help")->out, "--schedule");
    a_summary_only_names_flags_of_training();
    e = nitro("summary", "--help");
    assert_has(e->out, "usage: nitro summary FILE.c [MORE.c ...] [flags]", "--preset", "--cflags", "nitro summary f");
    assert_has_not(e->out, "NITRO_PLUGIN");
    e = nitro("devices", "--help");
    assert_has(e->out, "usage: nitro devices\n");
    assert_has_not(e->out, "--cflags");
    assert_has(nitro("help", "--help")->out, "usage: nitro help");
}

/* They read logs: no engine, no compiler, no cache. */
static void commands_that_look_at_runs_have_manuals(void **state) {
    (void)state;
    static const struct {
        const char *name, *usage, *flag, *example;
    } commands[] = {
        {"history", "usage: nitro history [RUN] [flags]\n", "--epochs", "nitro history runs/"},
        {"runs", "usage: nitro runs [FOLDER] [flags]\n", "--metric", "nitro runs "},
        {"plot", "usage: nitro plot [RUN ...] [flags]\n", "--out", "nitro plot runs/"},
        {"diff", "usage: nitro diff RUN RUN\n", "--help", "nitro diff runs/"},
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const ended *e = nitro(commands[i].name, "--help");
        assert_int_equal(e->code, 0);
        assert_has(e->out, commands[i].usage, commands[i].flag, commands[i].example, "<run_dir>/metrics.jsonl");
        assert_has_not(e->out, "NITRO_PLUGIN");
        assert_has_not(e->out, "NITRO_CACHE_DIR");
        assert_has_not(e->out, "  CC ");
        assert_has_not(e->out, "--cflags");
        assert_has_not(e->out, "  130  ");
        assert_int_equal(nitro(commands[i].name, "--cflags=-O0")->code, 2);
    }
}

/* Usage, every flag with type and default, environment, files, exit codes and an example; and nothing of the others. */
static void a_manual_of_a_command_is_complete(void **state) {
    (void)state;
    static const char *const runs[] = {"train", "evaluate"};
    for (size_t i = 0; i < 2; i++) {
        char example[32];
        snprintf(example, sizeof example, "nitro %s fashion.c", runs[i]);
        const ended *e = nitro(runs[i], "--help");
        assert_has(e->out, "\n  --seed  ", " int64_t  42 ", "\nenvironment\n", "NITRO_PLUGIN ", "  CC ",
                   "XDG_CACHE_HOME", "\nfiles\n", "<run_dir>/metrics.jsonl", "\nexit codes\n", "  130  ",
                   "\nexamples\n", example);
        /* Which of them a mistake ends with is tested in test_catalogue.c. */
        assert_has(e->out, "  1    the run, the build, the engine or a file", "or the run refused a value",
                   "  2    wrong use, found before there is a run: an unknown command, flag, preset or experiment");
        assert_has_not(e->out, "nitro devices");
    }
    const ended *e = nitro("devices", "--help");
    assert_has(e->out, "NITRO_PLUGIN ", "\nexit codes\n", "\nexamples\n", "nitro devices");
    assert_has_not(e->out, "130");
    assert_has_not(e->out, "  CC ");
    assert_has_not(e->out, "\nfiles\n");
    e = nitro("help", "help");
    assert_has(e->out, "  CC ", "~/.cache/nitro", "\nexit codes\n", "nitro help fashion.c");
    assert_has_not(e->out, "NITRO_PLUGIN");
}

static void the_version_is_shown(void **state) {
    (void)state;
    const ended *e = nitro("--version");
    int major, minor, patch;
    assert_int_equal(e->code, 0);
    assert_int_equal(sscanf(e->out, "nitro %d.%d.%d", &major, &minor, &patch), 3);
}

static void help_lists_every_field_in_columns(void **state) {
    (void)state;
    const ended *e = nitro("help", experiment_file());
    assert_int_equal(e->code, 0);
    assert_string_equal(e->err, "");
    assert_has(e->out, "Some (", "some.c)");
    assert_has(e->out, "  flag            type    default  marker      meaning\n"
                       "  --batch         int     8        Host        samples\n"
                       "  --hidden-units  int     256      GraphConst  units in the hidden layer\n"
                       "  --smoothing     float   0.1      Device      label smoothing\n"
                       "  --shuffle       bool    true     Host        another order in each epoch\n"
                       "  --data-dir      string  \"data\"   Host        folder of the files\n"
                       "  max_epochs      int     5        Host        passes over the data\n");
    assert_has(e->out, "--max-epochs                int64_t  5 (the field)",
               "--seed                      int64_t  42 ");
}

/* Presets, and fields of types that have no text form. */
static void help_lists_presets_and_fields_without_a_flag(void **state) {
    (void)state;
    put_text("rich.c", "#include <nitro.h>\n"
                       "struct rows { int count; };\n"
                       "#define RICH(FIELD, DEVICE, GRAPH_CONST) \\\n"
                       "    GRAPH_CONST(int, hidden, 8, \"units\") \\\n"
                       "    DEVICE(nt_array *, table, NULL, \"an array\") \\\n"
                       "    FIELD(struct rows, all, {7}, \"a struct\") \\\n"
                       "    FIELD(size_t, width, 5, \"a size\")\n"
                       "NT_EXPERIMENT(Rich, RICH)\n"
                       "static void wide(Rich *e) { e->hidden = 512; }\n"
                       "NT_DEFINE(Rich, RICH, .presets = NT_PRESETS(Rich, {\"wide\", \"more units\", wide},\n"
                       "                                            {\"plain\", \"the defaults\", NULL}));\n");
    char file[SCRATCH_PATH];
    snprintf(file, sizeof file, "%s", scratch("rich.c"));
    const ended *e = nitro("help", file);
    assert_string_equal(e->err, "");
    assert_int_equal(e->code, 0);
    assert_has(e->out,
               "  flag      type         default  marker      meaning\n"
               "  --hidden  int          8        GraphConst  units\n"
               "  table     nt_array *   NULL     Device      an array\n"
               "  all       struct rows  {7}      Host        a struct\n"
               "  --width   size_t       5        Host        a size\n"
               "  (without dashes, of a type that has no text form: no flag, set in C)\n",
               "\npresets\n"
               "  --preset=wide   more units\n"
               "  --preset=plain  the defaults\n");
    e = nitro("help", file, "--preset=wide");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "--hidden  int          512  ");
    e = nitro("help", file, "--preset=tall");
    assert_int_equal(e->code, 2);
    assert_string_equal(e->out, "");
    assert_has(e->err, "nitro: experiment Rich has no preset 'tall'; it has: wide, plain\n");
    e = nitro("train", file, "--table=3");
    assert_int_equal(e->code, 2);
    assert_has(e->err, "--table: field table (nt_array *) has no text form and no flag; set it in C, in a preset or in "
                       "derive");
    assert_int_equal(nitro("train", file, "--no-all")->code, 2);
}

static void help_shows_all_experiments_or_one(void **state) {
    (void)state;
    put_experiment("one.c", "One", "", "");
    put_experiment("two.c", "Two", "", "");
    char one[SCRATCH_PATH], two[SCRATCH_PATH];
    snprintf(one, sizeof one, "%s", scratch("one.c"));
    snprintf(two, sizeof two, "%s", scratch("two.c"));
    const ended *e = nitro("help", one, two);
    assert_int_equal(e->code, 0);
    assert_has(e->out, "One (", "Two (");
    e = nitro("help", one, two, "--experiment=Two");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "Two (");
    assert_has_not(e->out, "One (");
    e = nitro("help", one, two, "--experiment", "Three");
    assert_int_equal(e->code, 2);
    assert_has(e->err, "no experiment of the name Three");
}

static void a_file_without_an_experiment_is_reported(void **state) {
    (void)state;
    put_text("plain.c", "int plain(void) { return 0; }\n");
    const ended *e = nitro("help", scratch("plain.c"));
    assert_int_equal(e->code, 2);
    assert_has(e->err, "nitro: '",
               "plain.c' has no experiment: declare one with NT_EXPERIMENT and define it with NT_DEFINE");
    assert_has(nitro("train", scratch("plain.c"))->err, "plain.c' has no experiment");
}

/* ---- wrong use -------------------------------------------------------------------------------------------------- */

static void misuse(const ended *e, const char *message) {
    assert_has(e->err, message);
    assert_int_equal(strncmp(e->err, "nitro: ", 7), 0);
    assert_string_equal(e->out, "");
    assert_int_equal(e->code, 2);
}

static void without_words_the_usage_is_shown(void **state) {
    (void)state;
    const ended *e = run_words((const char *const[]){command_path(), NULL});
    assert_int_equal(e->code, 2);
    assert_has(e->err, "usage: nitro train");
    assert_string_equal(e->out, "");
}

static void unknown_commands_are_refused(void **state) {
    (void)state;
    misuse(nitro("trian"), "there is no command 'trian' (did you mean nitro train?); nitro --help lists the commands");
    misuse(nitro("zzz"), "there is no command 'zzz'; nitro --help");
    misuse(nitro("--verbose"), "there is no command '--verbose'");
}

static void files_must_be_there(void **state) {
    (void)state;
    misuse(nitro("train"), "no file was given: write nitro train FILE.c");
    misuse(nitro("evaluate", "--quiet"), "no file was given: write nitro evaluate FILE.c");
    misuse(nitro("train", "absent.c"), "there is no file 'absent.c'");
    misuse(nitro("train", "model.o"), "'model.o' is no C source file: its name does not end in .c");
    misuse(nitro("help", "absent.c"), "there is no file 'absent.c'");
    assert_int_equal(mkdir(scratch("folder.c"), 0755), 0);
    misuse(nitro("summary", scratch("folder.c")), "' is a folder; name the C source file that has the experiment");
    misuse(nitro("train", "--shuffle", "some.c"), "'some.c' was taken as the value of --shuffle. Files stand before");
    misuse(nitro("devices", "x.c"), "nitro devices takes no file, and 'x.c' was given");
}

static void unknown_flags_are_refused(void **state) {
    (void)state;
    const char *file = experiment_file();
    misuse(nitro("train", file, "--hiden-units=3"),
           "there is no flag --hiden-units (did you mean --hidden-units?); nitro help ");
    misuse(nitro("train", file, "--max=3"), "there is no flag --max (did you mean --max-epochs or --max-steps?)");
    misuse(nitro("train", file, "--nothing-like-it"), "there is no flag --nothing-like-it; nitro help ");
    misuse(nitro("train", file, "--split=val"), "--split is a flag of nitro evaluate and not of this command");
    misuse(nitro("train", file, "-q"), "'-q' is no flag: flags are written --name=value");
    misuse(nitro("train", file, "--"), "'--' is no flag");
    misuse(nitro("help", file, "--hidden-units=3"), "there is no flag --hidden-units");
    misuse(nitro("devices", "--quiet"), "--quiet is a flag of nitro train and not of this command");
}

static void values_of_the_wrong_type_are_refused(void **state) {
    (void)state;
    const char *file = experiment_file();
    misuse(nitro("train", file, "--hidden-units=many"), "hidden_units (int): 'many' is not a whole number");
    misuse(nitro("train", file, "--hidden_units", "1e3"),
           "hidden_units (int): '1e3' is not written as a whole number; write 1000");
    misuse(nitro("train", file, "--smoothing=some"), "smoothing (float): 'some' is not a number");
    misuse(nitro("train", file, "--shuffle=maybe"), "shuffle (bool): 'maybe' is neither true nor false");
    misuse(nitro("train", file, "--hidden-units"), "--hidden-units needs a value (int): write --hidden-units=VALUE");
    misuse(nitro("train", file, "--no-shuffle=1"), "--no-shuffle takes no value, and '1' was given");
    misuse(nitro("train", file, "--max-epochs=1.5"), "max_epochs (int64_t): '1.5' is not a whole number");
    misuse(nitro("train", file, "--learning-rate=fast"), "learning_rate (double): 'fast' is not a number");
    misuse(nitro("train", file, "--schedule=smoothing=fast"), "'smoothing=fast' is no schedule");
}

static void one_experiment_has_to_be_chosen(void **state) {
    (void)state;
    put_experiment("one.c", "One", "", "");
    put_experiment("two.c", "Two", "", "");
    char one[SCRATCH_PATH], two[SCRATCH_PATH];
    snprintf(one, sizeof one, "%s", scratch("one.c"));
    snprintf(two, sizeof two, "%s", scratch("two.c"));
    misuse(nitro("train", one, two), "the files have several experiments: One, Two. Choose one with --experiment=NAME");
    misuse(nitro("train", one, two, "--experiment=Three"), "no experiment 'Three', they have: One, Two");
    /* The one that was chosen is used: it has no build_data hook. */
    const ended *e = nitro("train", one, two, "--experiment=Two", "--run-dir", scratch("run"));
    assert_int_equal(e->code, 1);
    assert_has(e->err, "experiment Two (", "has no build_data hook");
}

/* ---- output ----------------------------------------------------------------------------------------------------- */

static void output_that_cannot_be_written_is_a_failure(void **state) {
    (void)state;
    char line[2 * SCRATCH_PATH];
    snprintf(line, sizeof line, "'%s' --version >/dev/full", command_path());
    const ended *e = run_words((const char *const[]){"/bin/sh", "-c", line, NULL});
    assert_int_equal(e->code, 1);
    assert_has(e->err, "nitro: cannot write to standard output: No space left on device");
}

static void closed_output_is_a_failure(void **state) {
    (void)state;
    static const char *const commands[] = {"help", "--help", "--version", "cache stats"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char line[2 * SCRATCH_PATH];
        snprintf(line, sizeof line, "'%s' %s >&-", command_path(), commands[i]);
        const ended *e = run_words((const char *const[]){"/bin/sh", "-c", line, NULL});
        assert_int_equal(e->code, 1);
        assert_string_equal(e->err, "nitro: cannot write to standard output: it is closed\n");
    }
}

static void input_that_cannot_be_read_is_a_failure(void **state) {
    (void)state;
    static const struct {
        const char *input, *message;
    } rows[] = {{"<&-", "nitro: cannot read standard input: Bad file descriptor"},
                {"</", "nitro: cannot read standard input: Is a directory"}};
    put_experiment("one.c", "One", "", "");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[3 * SCRATCH_PATH];
        snprintf(line, sizeof line, "'%s' shell '%s' %s", command_path(), scratch("one.c"), rows[i].input);
        const ended *e = run_words((const char *const[]){"/bin/sh", "-c", line, NULL});
        assert_int_equal(e->code, 1);
        assert_has(e->err, rows[i].message);
    }
}

/* A new command is in the usage and the list, and its manual says how it is used and what it does. */
static void every_command_has_a_manual(void **state) {
    (void)state;
#define COMMAND(name, flags, idle) #name,
    static const char *const names[] = {
#include "cli/commands.def"
    };
#undef COMMAND
    char usage[64], listed[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(usage, sizeof usage, "nitro %s", names[i]);
        snprintf(listed, sizeof listed, "\n  %s ", names[i]);
        const ended *e = nitro("--help");
        assert_has(e->out, usage);
        assert_has(e->out, listed);
        e = nitro(names[i], "--help");
        assert_int_equal(e->code, 0);
        assert_string_equal(e->err, "");
        assert_has(e->out, usage);
        /* The usage, an empty line, then whole sentences. */
        const char *manual = strstr(e->out, "\n\n");
        if (!manual || strcspn(manual + 2, ".") < 20) fail_msg("nitro %s has no manual:\n%s", names[i], e->out);
        assert_has(e->out, "\nexamples\n");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_has_a_manual),
        cmocka_unit_test(the_manual_has_everything),
        cmocka_unit_test(a_command_has_its_own_manual),
        cmocka_unit_test(commands_that_look_at_runs_have_manuals),
        cmocka_unit_test(a_manual_of_a_command_is_complete),
        cmocka_unit_test(the_version_is_shown),
        cmocka_unit_test(help_lists_every_field_in_columns),
        cmocka_unit_test(help_lists_presets_and_fields_without_a_flag),
        cmocka_unit_test(help_shows_all_experiments_or_one),
        cmocka_unit_test(a_file_without_an_experiment_is_reported),
        cmocka_unit_test(without_words_the_usage_is_shown),
        cmocka_unit_test(unknown_commands_are_refused),
        cmocka_unit_test(files_must_be_there),
        cmocka_unit_test(unknown_flags_are_refused),
        cmocka_unit_test(values_of_the_wrong_type_are_refused),
        cmocka_unit_test(one_experiment_has_to_be_chosen),
        cmocka_unit_test(output_that_cannot_be_written_is_a_failure),
        cmocka_unit_test(closed_output_is_a_failure),
        cmocka_unit_test(input_that_cannot_be_read_is_a_failure),
    };
    return cmocka_run_group_tests_name("command", tests, command_make, scratch_remove);
}
