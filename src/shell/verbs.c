/* The commands of the shell, a row each, and running a line.
 * Not here: making runs (shell_runs.c), loading code (shell_files.c).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/closest.h"
#include "base/files.h"
#include "shell/shell.h"
#include "show/show.h"
#include "experiment/experiment.h"

/* ---- using a run ------------------------------------------------------------------------------------------------ */

/* "3", "3 epochs", "100 steps"; nothing: to the end of max_epochs. */
static nt_status read_amount(const nt__words *words, int64_t *epochs, int64_t *steps) {
    const char *unit = words->count > 1 ? words->items[1] : "epochs";
    char *end;
    long long number = strtoll(words->items[0], &end, 10);
    bool is_epochs = strcmp(unit, "epochs") == 0 || strcmp(unit, "epoch") == 0;
    bool is_steps = strcmp(unit, "steps") == 0 || strcmp(unit, "step") == 0;
    if (*end || end == words->items[0] || number < 1 || (!is_epochs && !is_steps))
        return nt__fail(NT_INVALID, "'%s %s' is no amount of training: write train, train 3 epochs or train 100 steps",
                        words->items[0], unit);
    *epochs = is_epochs ? number : 0;
    *steps = is_steps ? number : 0;
    return NT_OK;
}

static nt_status train_to_the_end(nt__shell *shell) {
    int64_t before = nt_run_step(shell->current->run);
    nt_status status = nt_train(shell->current->run);
    if (status == NT_OK && nt_run_step(shell->current->run) == before)
        nt__terminal_line(&shell->terminal,
                          "nothing to train: max_epochs or max_steps is reached at step %" PRId64
                          "; train 1 epoch trains on",
                          before);
    return status;
}

static nt_status train(nt__shell *shell, const nt__words *words) {
    int64_t epochs = 0, steps = 0;
    nt__terminal_restart(&shell->terminal);
    if (!words->count) return train_to_the_end(shell);
    nt_status status = read_amount(words, &epochs, &steps);
    return status == NT_OK ? nt_train_more(shell->current->run, epochs, steps) : status;
}

static nt_status evaluate_split(nt__shell *shell, const char *split) {
    nt_results results;
    nt_status status = nt_evaluate(shell->current->run, split, &results);
    if (status == NT_OK) nt__terminal_results(&shell->terminal, split, &results);
    return status;
}

static nt_status validate(nt__shell *shell, const nt__words *words) {
    (void)words;
    return evaluate_split(shell, "val");
}

static nt_status evaluate(nt__shell *shell, const nt__words *words) {
    return evaluate_split(shell, words->count ? words->items[0] : "test");
}

static nt_status drift(nt__shell *shell, const nt__words *words) {
    (void)words;
    const char *report;
    const char *name = shell->current->experiment->name;
    if (!nt__shell_defines(shell, name)) {
        nt__terminal_line(&shell->terminal, "the files no longer define %s; the run keeps the code it has", name);
        return NT_OK;
    }
    nt_status status = nt_run_drift(shell->current->run, &report);
    if (status == NT_OK) nt__terminal_lines(&shell->terminal, *report ? report : "nothing differs");
    return status;
}

/* ---- parameters ------------------------------------------------------------------------------------------------- */

/* The file that was named, else the usual one of the run. The caller frees it. */
static char *weights(const nt__shell *shell, const nt__words *words) {
    return words->count ? nt__strdup(words->items[0])
                        : nt__sprintf("%s/parameters.safetensors", nt_run_dir(shell->current->run));
}

static nt_status save(nt__shell *shell, const nt__words *words) {
    char *path = weights(shell, words);
    nt_status status = path ? NT_OK : NT_OUT_OF_MEMORY;
    if (status == NT_OK && !words->count) status = nt__make_folder(nt_run_dir(shell->current->run));
    if (status == NT_OK) status = nt__keep_parameters(shell->current->run, shell->current->is_loaded, path);
    if (status == NT_OK) nt__terminal_line(&shell->terminal, "parameters in %s", path);
    nt__free(path);
    return status;
}

static nt_status load(nt__shell *shell, const nt__words *words) {
    char *path = weights(shell, words);
    nt_status status = path ? nt_run_load(shell->current->run, path) : NT_OUT_OF_MEMORY;
    if (status == NT_OK) shell->current->is_loaded = true;
    nt__free(path);
    return status;
}

/* ---- predictions ------------------------------------------------------------------------------------------------ */

/* A file of noise looks like results. */
static nt_status check_has_learned(const nt__shell_run *run) {
    if (nt_run_step(run->run) > 0 || run->is_loaded) return NT_OK;
    return nt__fail(NT_INVALID, "run %s has only the parameters that it was drawn with: train it, or load some",
                    run->name);
}

static nt_status read_prediction(const nt__arguments *arguments, nt__prediction *out) {
    nt__command_options options;
    nt_status status = nt__arguments_options(arguments, &options);
    if (status == NT_OK) status = nt__arguments_fields(arguments, NULL, NULL);
    if (status == NT_OK && arguments->files.count)
        status = nt__fail(NT_INVALID, "predict takes flags, and '%s' is none: write --input=%s",
                          arguments->files.items[0], arguments->files.items[0]);
    if (status == NT_OK) status = nt__prediction_read(&options, out);
    nt__command_options_free(&options);
    return status;
}

static nt_status predict(nt__shell *shell, const nt__words *words) {
    const nt__shell_run *run = shell->current;
    nt__arguments arguments = {0};
    nt__prediction prediction = {0};
    nt__arena arena = {0};
    nt_status status = nt__shell_arguments(&nt__takes_predict, words, &arena, &arguments);
    if (status == NT_OK) status = read_prediction(&arguments, &prediction);
    if (status == NT_OK) status = check_has_learned(run);
    if (status == NT_OK) status = nt__prediction_make(&prediction, run->experiment, run->run, &shell->terminal);
    nt__prediction_free(&prediction);
    nt__arguments_free(&arguments);
    nt__arena_free(&arena);
    return status;
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static nt_status find(const nt__shell *shell, const char *name, nt__shell_run **out) {
    *out = nt__shell_find(shell, name);
    if (*out) return NT_OK;
    return nt__fail(NT_NOT_FOUND, "there is no run %s; runs lists them", name);
}

static nt_status use(nt__shell *shell, const nt__words *words) {
    nt__shell_run *run;
    nt_status status = find(shell, words->items[0], &run);
    if (status == NT_OK) shell->current = run;
    return status;
}

static nt_status free_all(nt__shell *shell) {
    while (shell->run_count) nt__shell_free(shell, shell->runs[shell->run_count - 1]);
    return NT_OK;
}

static nt_status free_named(nt__shell *shell, const nt__words *words) {
    nt__shell_run *run = shell->current;
    if (words->count && strcmp(words->items[0], "all") == 0) return free_all(shell);
    nt_status status = words->count ? find(shell, words->items[0], &run) : NT_OK;
    if (status == NT_OK) nt__shell_free(shell, run);
    return status;
}

static void add_cells(nt__table *table, size_t count, const char *const *cells) {
    for (size_t i = 0; i < count; i++) nt__table_add(table, cells[i]);
}

static nt_status print_table(nt__table *table, size_t columns) {
    return nt__table_print(table, columns, stdout) ? NT_OK : NT_OUT_OF_MEMORY;
}

static nt_status list_runs(nt__shell *shell, const nt__words *words) {
    (void)words;
    nt__table table = {0};
    add_cells(&table, 5, (const char *const[]){"", "run", "experiment", "epoch", "step"});
    for (size_t i = 0; i < shell->run_count; i++) {
        const nt__shell_run *run = shell->runs[i];
        char epoch[24], step[24];
        snprintf(epoch, sizeof epoch, "%" PRId64, nt_run_epoch(run->run));
        snprintf(step, sizeof step, "%" PRId64, nt_run_step(run->run));
        const char *mark = run == shell->current ? "*" : " ";
        add_cells(&table, 5, (const char *const[]){mark, run->name, run->experiment->name, epoch, step});
    }
    return print_table(&table, 5);
}

/* ---- the process ------------------------------------------------------------------------------------------------ */

static nt_status show_cache(nt__shell *shell, const nt__words *words) {
    (void)words;
    nt_cache_stats_t stats = nt_cache_stats();
    const nt_cache_report_t *report;
    nt__terminal_line(&shell->terminal,
                      "%" PRIu64 " compiled in %.2f s, %" PRIu64 " from the cache on disk in %.2f s, %" PRIu64
                      " reused, %" PRIu64 " held",
                      stats.misses, stats.compile_seconds, stats.disk_hits, stats.load_seconds, stats.hits,
                      stats.entries);
    nt__text lines = {0};
    for (size_t i = 0; (report = nt_cache_report(i)); i++)
        nt__text_add(&lines, "%s  %s of %s, %.2f s: %s", i ? "\n" : "", report->program, report->experiment,
                     report->seconds, report->moved);
    nt_status status = lines.failed ? NT_OUT_OF_MEMORY : NT_OK;
    if (status == NT_OK && lines.length) nt__terminal_lines(&shell->terminal, lines.data);
    nt__text_free(&lines);
    return status;
}

static nt_status reload(nt__shell *shell, const nt__words *words) {
    (void)words;
    bool loaded;
    nt_status status = nt__shell_reload(shell, true, &loaded);
    if (status == NT_OK && !loaded) nt__terminal_line(&shell->terminal, "the files are those that are loaded");
    return status;
}

static nt_status quit(nt__shell *shell, const nt__words *words) {
    (void)words;
    shell->quit = true;
    return NT_OK;
}

static nt_status help(nt__shell *shell, const nt__words *words) {
    (void)shell, (void)words;
    const nt__shell_verb *command;
    nt__table table = {0};
    for (size_t i = 0; (command = nt__shell_verb_at(i)); i++) {
        const char *between = *command->operands ? " " : "";
        char *usage = nt__arena_sprintf(&table.arena, "%s%s%s", command->name, between, command->operands);
        nt__words_add(&table.cells, usage);
        nt__table_add(&table, command->summary);
    }
    return print_table(&table, 2);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static const nt__shell_verb commands[] = {
    {"new", "[NAME] [--field=value ...]", "make a run; the commands below use the newest", NT__FLAG_NAMES, 0, SIZE_MAX,
     false, true, nt__shell_new},
    {"train", "[N epochs | N steps]", "train on; without a number to the end of max_epochs", NT__UNITS, 0, 2, true,
     true, train},
    {"validate", "", "metrics of the split val", NT__NO_WORDS, 0, 0, true, true, validate},
    {"evaluate", "[SPLIT]", "metrics of a split: test", NT__SPLIT_NAMES, 0, 1, true, true, evaluate},
    {"predict", "--input=[FIELD=]FILE ... --out=FILE", "outputs of the model for arrays from files",
     NT__PREDICTION_FLAGS, 1, SIZE_MAX, true, true, predict},
    {"drift", "", "what differs between the run and the code of now", NT__NO_WORDS, 0, 0, true, true, drift},
    {"fields", "", "the run's fields and their values", NT__NO_WORDS, 0, 0, false, true, nt__shell_fields},
    {"get", "FIELD", "one field's value; of a Device field as it is on the device", NT__FIELD_NAMES, 1, 1, true, true,
     nt__shell_get},
    {"set", "FIELD=VALUE", "another value for a Device field, which compiles nothing", NT__FIELDS_TO_SET, 1, 1, true,
     true, nt__shell_set},
    {"save", "[FILE]", "write the parameters: to <run_dir>/parameters.safetensors", NT__NO_WORDS, 0, 1, true, true,
     save},
    {"load", "[FILE]", "read the parameters", NT__NO_WORDS, 0, 1, true, true, load},
    {"runs", "", "the runs there are", NT__NO_WORDS, 0, 0, false, true, list_runs},
    {"use", "NAME", "go on with another run", NT__RUN_NAMES, 1, 1, false, true, use},
    {"free", "[NAME | all]", "free the run and its memory", NT__RUN_NAMES, 0, 1, true, true, free_named},
    {"cache", "", "programs compiled, and why", NT__NO_WORDS, 0, 0, false, true, show_cache},
    {"reload", "", "compile and load the files, also when their times have not moved", NT__NO_WORDS, 0, 0, false, false,
     reload},
    {"help", "", "this list", NT__NO_WORDS, 0, 0, false, false, help},
    {"quit", "", "free everything and leave; so does the end of the input", NT__NO_WORDS, 0, 0, false, false, quit},
};

const nt__shell_verb *nt__shell_verb_at(size_t index) {
    return index < sizeof commands / sizeof *commands ? &commands[index] : NULL;
}

/* ---- a line ----------------------------------------------------------------------------------------------------- */

static nt_status fail_unknown(const char *name) {
    nt__words names = {0};
    nt__text message = {0};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) nt__words_add(&names, commands[i].name);
    nt__text_add(&message, "there is no command '%s'", name);
    nt__add_closest(&message, name, names.items, names.count, "");
    nt_status status =
        message.failed ? NT_OUT_OF_MEMORY : nt__fail(NT_INVALID, "%s; help lists the commands", message.data);
    nt__text_free(&message);
    nt__words_free(&names);
    return status;
}

static nt_status check(const nt__shell *shell, const nt__shell_verb *command, const nt__words *words) {
    if (words->count < command->fewest || words->count > command->most)
        return nt__fail(NT_INVALID, "%s is written: %s%s%s", command->name, command->name,
                        *command->operands ? " " : "", command->operands);
    if (command->uses_run && !shell->current)
        return nt__fail(NT_INVALID, "%s needs a run, and there is none; new makes one", command->name);
    return NT_OK;
}

/* Files that do not compile are reported, and the command goes on with the code there is. */
static void refresh(nt__shell *shell) {
    bool loaded;
    if (nt__shell_reload(shell, false, &loaded) == NT_OK) return;
    nt__terminal_clear(&shell->terminal);
    nt__report(NT__EXIT_FAILED);
    shell->failed = true;
}

static nt_status run_words(nt__shell *shell, const nt__words *words) {
    const nt__shell_verb *command = commands, *end = commands + sizeof commands / sizeof *commands;
    while (command < end && strcmp(command->name, words->items[0]) != 0) command++;
    if (command == end) return fail_unknown(words->items[0]);
    const nt__words behind = {.items = words->items + 1, .count = words->count - 1};
    if (command->uses_code) refresh(shell);
    nt_status status = check(shell, command, &behind);
    return status == NT_OK ? command->run(shell, &behind) : status;
}

void nt__shell_run_line(nt__shell *shell, const char *line) {
    nt__arena arena = {0};
    nt__words words = {0};
    const char *start = line + strspn(line, " \t");
    nt_status status = *start == '#' ? NT_OK : nt__words_split(&arena, "the command", start, &words);
    if (status == NT_OK && words.count) status = run_words(shell, &words);
    if (status != NT_OK) {
        nt__terminal_clear(&shell->terminal);
        nt__report(NT__EXIT_FAILED);
        shell->failed = true;
    }
    nt__words_free(&words);
    nt__arena_free(&arena);
}
