/* The shell's runs: made from flags, found by name, freed.
 * Not here: what is done with them.
 */
#include <string.h>

#include "shell/shell.h"
#include "experiment/experiment.h"

nt__shell_run *nt__shell_find(const nt__shell *shell, const char *name) {
    for (size_t i = 0; i < shell->run_count; i++)
        if (strcmp(shell->runs[i]->name, name) == 0) return shell->runs[i];
    return NULL;
}

static void free_run(nt__shell_run *run) {
    nt_run_free(run->run);
    nt__free(run->fields);
    nt__arguments_free(&run->arguments);
    nt__arena_free(&run->arena);
    nt__free(run);
}

void nt__shell_free(nt__shell *shell, nt__shell_run *run) {
    size_t place = 0;
    while (shell->runs[place] != run) place++;
    for (shell->run_count--; place < shell->run_count; place++) shell->runs[place] = shell->runs[place + 1];
    if (shell->current == run) shell->current = shell->run_count ? shell->runs[shell->run_count - 1] : NULL;
    free_run(run);
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

const nt__takes nt__takes_new = {"new", "choose model run evaluation best training train make", ""};
const nt__takes nt__takes_predict = {"predict", "input out", ""};

nt_status nt__shell_arguments(const nt__takes *verb, const nt__words *words, nt__arena *arena, nt__arguments *out) {
    char **copies = nt__arena_alloc(arena, words->count + 1, sizeof *copies);
    for (size_t i = 0; copies && i < words->count; i++)
        if (!(copies[i] = nt__arena_strdup(arena, words->items[i]))) return NT_OUT_OF_MEMORY;
    return copies ? nt__arguments_read(verb, (int)words->count, copies, out) : NT_OUT_OF_MEMORY;
}

static nt_status read_words(nt__shell_run *run, const nt__shell *shell, const nt__words *words) {
    nt_status status = nt__shell_arguments(&nt__takes_new, words, &run->arena, &run->arguments);
    return status == NT_OK ? nt__arguments_inherit(&run->arguments, shell->arguments) : status;
}

/* A name is part of the run's folder. */
static nt_status check_name(const char *name) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (*name && *name != '.' && !name[strspn(name, allowed)]) return NT_OK;
    return nt__fail(
        NT_INVALID,
        "'%s' is no name for a run: it is made of letters, digits, '.', '-' and '_', at least one, and does "
        "not begin with '.'",
        name);
}

static nt_status choose_name(nt__shell_run *run, nt__shell *shell) {
    const nt__words *names = &run->arguments.files;
    if (names->count > 1)
        return nt__fail(NT_INVALID, "new takes one name, and '%s' was given too; flags are written --name=value",
                        names->items[1]);
    run->name = names->count ? names->items[0] : nt__arena_sprintf(&run->arena, "%lld", (long long)shell->made + 1);
    if (!run->name) return NT_OUT_OF_MEMORY;
    nt_status status = check_name(run->name);
    if (status != NT_OK) return status;
    if (nt__shell_find(shell, run->name))
        return nt__fail(NT_INVALID, "there is a run %s already; give another name, or free it", run->name);
    return NT_OK;
}

static bool is_used(const nt__shell *shell, const char *folder) {
    for (size_t i = 0; i < shell->run_count; i++)
        if (strcmp(nt_run_dir(shell->runs[i]->run), folder) == 0) return true;
    return false;
}

/* A folder that the shell was started with is that of its first run. */
static nt_status choose_another(nt__shell_run *run, const nt__shell *shell, nt_run_options *options) {
    if (options->resume || !is_used(shell, options->run_dir)) return NT_OK;
    options->run_dir = nt__arena_sprintf(&run->arena, "%s-%s", options->run_dir, run->name);
    return options->run_dir ? NT_OK : NT_OUT_OF_MEMORY;
}

/* Two runs that live at the same time do not write to the same folder. */
static nt_status choose_folder(nt__shell_run *run, const nt__shell *shell, nt_run_options *options) {
    if (options->run_dir) return choose_another(run, shell, options);
    bool is_given = nt__field_find(run->experiment, "run_dir"), is_taken = false;
    for (size_t i = 0; i < shell->run_count; i++)
        is_taken |= strcmp(shell->runs[i]->experiment->name, run->experiment->name) == 0;
    if (is_given || !is_taken) return NT_OK;
    options->run_dir = nt__arena_sprintf(&run->arena, "runs/%s-%s", run->experiment->name, run->name);
    return options->run_dir ? NT_OK : NT_OUT_OF_MEMORY;
}

static nt_status set_fields(nt__shell_run *run, const char *preset) {
    run->fields = nt__alloc(1, run->experiment->size + 1);
    if (!run->fields) return NT_OUT_OF_MEMORY;
    nt_status status = nt__set_start(run->experiment, preset, run->fields);
    return status == NT_OK ? nt__arguments_fields(&run->arguments, run->experiment, run->fields) : status;
}

static nt_status make_with(nt__shell_run *run, nt__shell *shell, nt__command_options *options) {
    nt_status status = nt__shell_choose(shell, options->experiment, &run->experiment);
    if (status == NT_OK) status = choose_folder(run, shell, &options->run);
    if (status == NT_OK) status = set_fields(run, options->run.preset);
    if (status != NT_OK) return status;
    options->run.on_event = nt__terminal_event;
    options->run.event_context = &shell->terminal;
    nt__words sources = {0};
    status = nt__built_sources(&shell->built, &shell->arguments->files, &sources);
    options->run.sources = sources.items;
    options->run.source_count = sources.count;
    if (status == NT_OK) status = nt_run_new(run->experiment, run->fields, &options->run, &run->run);
    nt__words_free(&sources);
    return status;
}

static nt_status make(nt__shell_run *run, nt__shell *shell, const nt__words *words) {
    nt__command_options options = {0};
    nt_status status = read_words(run, shell, words);
    if (status == NT_OK) status = choose_name(run, shell);
    if (status == NT_OK) status = nt__arguments_options(&run->arguments, &options);
    if (status == NT_OK) status = make_with(run, shell, &options);
    nt__command_options_free(&options);
    return status;
}

nt_status nt__shell_new(nt__shell *shell, const nt__words *words) {
    nt__shell_run *run = nt__alloc(1, sizeof *run);
    if (!run) return NT_OUT_OF_MEMORY;
    nt_status status =
        NT__GROW(shell->runs, shell->run_count, shell->run_capacity) ? make(run, shell, words) : NT_OUT_OF_MEMORY;
    if (status != NT_OK) {
        free_run(run);
        return status;
    }
    shell->runs[shell->run_count++] = shell->current = run;
    if (!shell->made++) nt__forbid_exit();
    nt__terminal_line(&shell->terminal, "run %s is a new %s", run->name, run->experiment->name);
    return NT_OK;
}
