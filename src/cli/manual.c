/* The manual of the command: usage, commands, flags, environment, files, examples; and the fields of an experiment.
 * Not here: what the flags do.
 */
#include "cli/cli.h"

#include <string.h>

#include "show/show.h"
#include "experiment/experiment.h"
#include "run/run.h"
#include "setting/setting.h"

/* ---- texts ------------------------------------------------------------------------------------------------------ */

static const char flag_rules[] =
    "Files stand before flags. A flag is written --name=value or --name value, with dashes or underscores in its "
    "name;\n"
    "--name and --no-name set a bool. Of a flag that is given twice the last one counts.\n"
    "Every field of an experiment is a flag; `nitro help FILE.c` lists them. If a field has the name of a flag\n"
    "below, the flag below is meant; the field gets its value too.\n";

/* A row of a list. It is in the manuals of the commands that do one of these (nt__does); 0: of all. */
typedef struct entry {
    const char *name, *text;
    unsigned of;
} entry;

static const entry environment[] = {
    {"NITRO_PLUGIN", "the engine: path of a PJRT plugin", NT__OPENS_ENGINE},
    {"NITRO_PLUGIN_PATH", "folders to look for plugins in, divided by colons; the one with the newest API is used",
     NT__OPENS_ENGINE},
    {"CC", "the C compiler, with flags if needed; else cc, gcc or clang", NT__COMPILES},
    {"NITRO_CACHE_DIR", "folder of the compiled programs and experiments", NT__COMPILES | NT__OPENS_ENGINE},
    {"NITRO_CACHE_SIZE", "what compiled programs may take on disk, as in 500MB (2GiB); 0: none are kept",
     NT__OPENS_ENGINE},
    {"XDG_CACHE_HOME", "where that folder is when it is not set: nitro in this one (~/.cache)",
     NT__COMPILES | NT__OPENS_ENGINE},
    {"XLA_FLAGS", "options of the engine itself; one that it does not know is an error", NT__OPENS_ENGINE},
    {"TF_CPP_MIN_LOG_LEVEL", "messages of the engine itself: 0 all, 1 warnings, 2 errors, 3 fatal ones only",
     NT__OPENS_ENGINE},
};

static const entry files[] = {
    {"<run_dir>/parameters.safetensors", "the trained parameters, one array each", NT__MAKES_RUN | NT__IS_SHELL},
    {"<run_dir>/metrics.jsonl", "the log of the run", NT__READS_LOG},
    {"<run_dir>/epoch-*.safetensors",
     "checkpoints of the whole state, which --resume goes on from; checkpoints.json lists them", NT__TRAINS},
    {"~/.cache/nitro/shell-history", "what was typed in the shell", NT__IS_SHELL},
    {"~/.cache/nitro/programs/", "compiled programs; those used longest ago are deleted when they take too much",
     NT__KEEPS_PROGRAMS},
    {"~/.cache/nitro/experiments/", "compiled experiments; what was not used for 30 days is deleted",
     NT__COMPILES | NT__KEEPS_PROGRAMS},
};

static const entry exit_codes[] = {
    {"0", "done", 0},
    {"1",
     "the run, the build, the engine or a file that they use failed, or the run refused a value, as a negative rate",
     0},
    {"2",
     "wrong use, found before there is a run: an unknown command, flag, preset or experiment, a value of the wrong "
     "type, no source file",
     0},
    {"130", "interrupted (Ctrl-C, SIGTERM; 129 SIGHUP, 152 SIGXCPU): saved after its step; once more ends at once",
     NT__MAKES_RUN},
    {"130", "the shell: ended by a signal; Ctrl-C in a command only ends that command", NT__IS_SHELL},
};

/* A command's manual has those that name it. */
static const entry examples[] = {
    {"nitro train fashion.c", "train with the defaults", 0},
    {"nitro train fashion.c --hidden=512 --max-epochs=5", "other values of two fields", 0},
    {"nitro train fashion.c --max-epochs=10 --resume", "go on where the last run in the folder ended or was killed", 0},
    {"nitro train model.c layers.c --ldflags=-lm", "two files and a library", 0},
    {"nitro evaluate fashion.c --hidden=512 --split=val", "metrics of the saved parameters", 0},
    {"nitro predict fashion.c --input=images.npy --out=logits.npy", "what the model returns for other images", 0},
    {"nitro predict model.c --input x=points.npy --input mask=mask.npy --out out.npy", "if forward reads two fields",
     0},
    {"nitro shell fashion.c --watch", "a prompt: train, edit, train again in one process", 0},
    {"nitro help fashion.c", "which fields there are", 0},
    {"nitro help fashion.c --resolved", "where the settings of a run come from", 0},
    {"nitro summary fashion.c --hidden=512", "the parameters of a model, without training it", 0},
    {"nitro schedule fashion.c --schedule learning_rate=one_cycle:2e-3", "a schedule before the run", 0},
    {"nitro cache list", "the compiled programs on disk", 0},
    {"nitro history runs/Fashion --metric=accuracy", "the epochs of a run, the best one marked", 0},
    {"nitro plot runs/a runs/b --metric=val_loss --out=loss.svg", "a curve of two runs, in a file", 0},
    {"nitro diff runs/a runs/b", "what is different in another run", 0},
    {"nitro runs", "the runs below runs/, the newest first", 0},
    {"CC=clang nitro train fashion.c --cflags=-O0", "another compiler, for a debugger", 0},
    {"NITRO_PLUGIN=./plugin.so nitro devices", "whether another engine can be used", 0},
};

/* ---- pieces ----------------------------------------------------------------------------------------------------- */

/* Of a command, or of two; of all: NULL. */
typedef struct users {
    const nt__takes *one, *other;
} users;

static bool is_used(const nt__keyword *keyword, users by) {
    return !by.one || nt__uses(by.one, keyword) || (by.other && nt__uses(by.other, keyword));
}

/* The name stands in the text as a command does, "nitro train". */
static bool is_example_of(const nt__command *command, const char *text) {
    char words[64];
    snprintf(words, sizeof words, "nitro %s", command->name);
    return strstr(text, words);
}

/* `command` NULL: the manual of all of them. */
static bool belongs(const entry *row, const entry *list, const nt__command *command) {
    if (!command) return true;
    return list == examples ? is_example_of(command, row->name) : !row->of || (row->of & command->does);
}

static bool print_entries(const char *title, const entry *list, size_t count, const nt__command *command, FILE *out) {
    nt__table table = {0};
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        if (!belongs(&list[i], list, command)) continue;
        if (shown++ == 0) fprintf(out, "\n%s\n", title);
        nt__table_add(&table, list[i].name);
        nt__table_add(&table, list[i].text);
    }
    return nt__table_print(&table, 2, out);
}

#define PRINT(title, list, command, out) print_entries(title, list, sizeof(list) / sizeof *(list), command, out)

/* Of commands that use --schedule. */
static bool print_schedules(const nt__command *command, FILE *out) {
    const char *spelling, *meaning;
    nt__table table = {0};
    if (command && !nt__uses(nt__takes_of(command->name), nt__keyword_find("schedule"))) return true;
    fprintf(out, "\nschedules, after NAME= of --schedule\n");
    for (size_t i = 0; (spelling = nt__schedule_spelling(i, &meaning)); i++) {
        nt__table_add(&table, spelling);
        nt__table_add(&table, meaning);
    }
    return nt__table_print(&table, 2, out);
}

/* What stands after the flags. */
static bool print_surroundings(const nt__command *command, FILE *out) {
    return print_schedules(command, out) && PRINT("environment", environment, command, out) &&
           PRINT("files", files, command, out) && PRINT("exit codes", exit_codes, command, out) &&
           PRINT("examples", examples, command, out);
}

/* "--max-epochs" from "max_epochs". */
static void add_flag_cell(nt__table *table, const char *name) {
    char *dashed = nt__flag_name(&table->arena, name);
    nt__words_add(&table->cells, dashed ? nt__arena_sprintf(&table->arena, "--%s", dashed) : NULL);
}

/* The value of a field in a struct, as text in a cell. */
static void add_value_cell(nt__table *table, const nt_field_info *field, const void *fields, const char *behind) {
    nt__text text = {0};
    nt__field_show(field, fields, true, &text);
    nt__text_add(&text, "%s", behind);
    if (text.failed)
        table->cells.failed = true;
    else
        nt__table_add(table, text.data);
    nt__text_free(&text);
}

/* The experiment's hook of the same name gives the default, else its field. `experiment` NULL: there is none. */
static void add_default_cell(nt__table *table, const nt__keyword *keyword, const nt_experiment *experiment,
                             const void *fields) {
    const nt_field_info *field = experiment ? nt__setting_field(experiment, keyword->field.name) : NULL;
    if (experiment && nt__setting_is_hooked(experiment, keyword->field.name))
        nt__table_add(table, "the hook");
    else if (field)
        add_value_cell(table, field, fields, " (the field)");
    else
        nt__table_add(table, keyword->field.default_text);
}

static void add_keyword_row(nt__table *table, const nt__keyword *keyword, const nt_experiment *experiment,
                            const void *fields) {
    add_flag_cell(table, keyword->field.name);
    nt__table_add(table, nt__field_type_name(keyword->field.type));
    add_default_cell(table, keyword, experiment, fields);
    nt__table_add(table, keyword->field.doc);
}

static void add_cells(nt__table *table, const char *const *cells, size_t count) {
    for (size_t i = 0; i < count; i++) nt__table_add(table, cells[i]);
}

enum { KEYWORD_COLUMNS = 4, FIELD_COLUMNS = 5 };

static bool is_listed(const nt__keyword *keyword, nt__flag_group group, users by) {
    return keyword->group == group && is_used(keyword, by);
}

static bool print_group(const char *title, nt__flag_group group, users by, const nt_experiment *experiment,
                        const void *fields, FILE *out) {
    static const char *const header[KEYWORD_COLUMNS] = {"flag", "type", "default", "meaning"};
    const nt__keyword *keyword;
    nt__table table = {0};
    add_cells(&table, header, KEYWORD_COLUMNS);
    for (size_t i = 0; (keyword = nt__keyword_at(i)); i++)
        if (is_listed(keyword, group, by)) add_keyword_row(&table, keyword, experiment, fields);
    bool is_empty = table.cells.count == KEYWORD_COLUMNS;
    if (is_empty) table.cells.count = 0;
    if (!is_empty) fprintf(out, "\n%s\n", title);
    return nt__table_print(&table, KEYWORD_COLUMNS, out);
}

static bool print_flags(users by, FILE *out) {
    return print_group("flags: the run", NT__FLAGS_RUN, by, NULL, NULL, out) &&
           print_group("flags: what is written", NT__FLAGS_OUTPUT, by, NULL, NULL, out) &&
           print_group("flags: compiling the files", NT__FLAGS_BUILD, by, NULL, NULL, out);
}

/* Flags that the command takes and has no use for: names only. */
static bool print_idle_flags(const nt__command *command, FILE *out) {
    const nt__keyword *keyword;
    const nt__takes *takes = nt__takes_of(command->name);
    nt__arena arena = {0};
    size_t count = 0;
    bool complete = true;
    for (size_t i = 0; complete && (keyword = nt__keyword_at(i)); i++) {
        if (nt__uses(takes, keyword) || !nt__keyword_of(takes, keyword->field.name)) continue;
        const char *name = nt__flag_name(&arena, keyword->field.name);
        complete = name != NULL;
        if (count == 0)
            fprintf(out, "\nflags without effect here, taken so that a command line of training can be used again; "
                         "see `nitro help train`");
        if (complete) fprintf(out, "%s--%s", count % 5 ? ", " : count ? ",\n  " : "\n  ", name);
        count++;
    }
    if (count) fprintf(out, "\n");
    nt__arena_free(&arena);
    return complete;
}

/* ---- pages ------------------------------------------------------------------------------------------------------ */

void nt__print_usage(FILE *out) {
    const nt__command *command;
    for (size_t i = 0; (command = nt__command_at(i)); i++)
        fprintf(out, "%s nitro %s%s%s\n", i ? "      " : "usage:", command->name, *command->operands ? " " : "",
                command->operands);
    fprintf(out, "       nitro --help | --version\n");
}

static bool print_summaries(FILE *out) {
    const nt__command *command;
    nt__table table = {0};
    fprintf(out, "\ncommands\n");
    for (size_t i = 0; (command = nt__command_at(i)); i++) {
        nt__table_add(&table, command->name);
        nt__table_add(&table, command->summary);
    }
    return nt__table_print(&table, 2, out);
}

bool nt__print_manual(FILE *out) {
    fprintf(out, "nitro %s trains models written in C.\n\n", NT__VERSION);
    nt__print_usage(out);
    bool complete = print_summaries(out);
    fprintf(out, "\n%s", flag_rules);
    return complete && print_flags((users){0}, out) && print_surroundings(NULL, out);
}

bool nt__print_command_manual(const nt__command *command, FILE *out) {
    fprintf(out, "usage: nitro %s%s%s\n\n%s\n", command->name, *command->operands ? " " : "", command->operands,
            command->manual);
    if (command->does & NT__TAKES_FIELDS) fprintf(out, "\n%s", flag_rules);
    return print_flags((users){nt__takes_of(command->name), NULL}, out) && print_idle_flags(command, out) &&
           print_surroundings(command, out);
}

/* ---- an experiment ---------------------------------------------------------------------------------------------- */

/* A flag of the run's with the name of a field is meant instead of the field. */
static bool is_hidden(const nt_field_info *field) {
    const nt__keyword *keyword = nt__keyword_find(field->name);
    return keyword && nt__uses(nt__takes_of("train"), keyword);
}

/* What stands for a value that has no text form. The compiler has replaced the macro NULL, gcc and clang each in its
 * own way. */
static const char *default_text(const nt_field_info *field) {
    const char *text = field->default_text;
    bool is_null = strcmp(text, "((void *)0)") == 0 || strcmp(text, "((void*)0)") == 0;
    return is_null ? "NULL" : text;
}

/* With the words of a choice. */
static void add_meaning_cell(nt__table *table, const nt_field_info *field) {
    nt__text words = {0};
    nt__field_print_choices(field, &words);
    nt__words_add(&table->cells, words.data ? nt__arena_sprintf(&table->arena, "%s%sone of %s", field->doc,
                                                                *field->doc ? "; " : "", words.data)
                                            : field->doc);
    table->cells.failed |= words.failed;
    nt__text_free(&words);
}

static void add_field_row(nt__table *table, const nt_field_info *field, const void *fields) {
    if (is_hidden(field) || !nt__field_has_flag(field))
        nt__table_add(table, field->name);
    else
        add_flag_cell(table, field->name);
    nt__table_add(table, nt__field_type_text(field));
    if (field->type == NT_FIELD_OTHER)
        nt__table_add(table, default_text(field));
    else
        add_value_cell(table, field, fields, "");
    nt__table_add(table, nt__marker_name(field->marker));
    add_meaning_cell(table, field);
}

static bool print_fields(const nt_experiment *experiment, const void *fields, FILE *out) {
    static const char *const header[FIELD_COLUMNS] = {"flag", "type", "default", "marker", "meaning"};
    nt__table table = {0};
    bool any_hidden = false, any_without = false;
    add_cells(&table, header, experiment->field_count ? FIELD_COLUMNS : 0);
    for (size_t i = 0; i < experiment->field_count; i++) {
        const nt_field_info *field = &experiment->fields[i];
        add_field_row(&table, field, fields);
        any_hidden |= is_hidden(field) && nt__field_has_flag(field);
        any_without |= !nt__field_has_flag(field);
    }
    nt__say_line(out, "%s (%s)", experiment->name, experiment->file);
    fprintf(out, "\n%s\n", experiment->field_count ? "fields" : "no fields");
    bool complete = nt__table_print(&table, FIELD_COLUMNS, out);
    if (any_hidden) fprintf(out, "  (without dashes: the flag of that name below is meant)\n");
    if (any_without) fprintf(out, "  (without dashes, of a type that has no text form: no flag, set in C)\n");
    return complete;
}

static bool print_presets(const nt_experiment *experiment, FILE *out) {
    nt__table table = {0};
    const char *name, *doc;
    for (size_t i = 0; experiment->hooks.preset && (name = experiment->hooks.preset(i, &doc, NULL)); i++) {
        nt__words_add(&table.cells, nt__arena_sprintf(&table.arena, "--preset=%s", name));
        nt__table_add(&table, doc ? doc : "");
    }
    if (table.cells.count) fprintf(out, "\npresets\n");
    return nt__table_print(&table, 2, out);
}

static bool print_markers(FILE *out) {
    static const entry markers[] = {
        {"Host", "host code only; another value compiles nothing", 0},
        {"Device", "an input of the programs; another value compiles nothing", 0},
        {"GraphConst", "a constant of the programs; another value is another program", 0},
    };
    return PRINT("markers", markers, NULL, out);
}

bool nt__print_experiment(const nt_experiment *experiment, const void *fields, FILE *out) {
    return print_fields(experiment, fields, out) && print_presets(experiment, out) && print_markers(out) &&
           print_group("flags: the run", NT__FLAGS_RUN, (users){nt__takes_of("train"), nt__takes_of("evaluate")},
                       experiment, fields, out);
}
