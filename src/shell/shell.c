/* nitro shell: a prompt in one process, in which files are edited, compiled, loaded and run again.
 * Not here: the commands.
 */
#include "shell/shell.h"

#include "build/build.h"
#include "experiment/experiment.h"

/* ---- lines ------------------------------------------------------------------------------------------------------ */

/* With --watch: code that changed is loaded while nobody types. */
static bool look(void *context) {
    nt__shell *shell = context;
    bool loaded;
    if (!nt__shell_is_stale(shell)) return false;
    fputc('\n', stderr);
    if (nt__shell_reload(shell, false, &loaded) != NT_OK) nt__report(NT__EXIT_FAILED);
    return true;
}

/* Beside the compiled experiments, when there is a folder for those that stays. The caller frees it. */
static char *history_file(void) {
    nt__objects objects;
    if (nt__objects_open(&objects) != NT_OK) return NULL;
    char *path = objects.temporary ? NULL : nt__sprintf("%s/../shell-history", objects.folder);
    nt__objects_close(&objects);
    return path;
}

static void open_lines(nt__shell *shell) {
    char *history = history_file();
    const nt__line_hooks hooks = {
        .idle = shell->options.watch ? look : NULL, .complete = nt__shell_complete, .context = shell};
    nt__lines_open(&shell->lines, history, &hooks);
    nt__free(history);
}

static void run_line(nt__shell *shell, const char *line) {
    nt__interrupt_take();
    nt__work_begin();
    nt__shell_run_line(shell, line);
    nt__work_end();
    nt__interrupt_take();
    fflush(stdout);
}

/* Ctrl-C gives up a line that is being typed; where nobody types it is the end. */
static nt__exit_code read_and_run(nt__shell *shell) {
    for (;;) {
        const char *line;
        nt__line_result result = nt__lines_read(&shell->lines, &line);
        if (result == NT__LINE_READ) run_line(shell, line);
        bool is_over = result == NT__LINE_INTERRUPTED && !shell->lines.prompts;
        if (is_over || nt__end_requested()) return nt__signals_exit_code();
        if (shell->lines.failed) return nt__report(NT__EXIT_FAILED);
        if (result == NT__LINE_NONE || shell->quit) break;
    }
    return shell->failed && !shell->lines.prompts ? NT__EXIT_FAILED : NT__EXIT_DONE;
}

/* ---- opening and closing ---------------------------------------------------------------------------------------- */

/* Flags that no experiment has are found before anything is done with them. */
static nt_status check_flags(const nt__shell *shell) {
    const nt_experiment *experiment;
    nt_status status = nt__shell_choose(shell, shell->options.experiment, &experiment);
    if (status != NT_OK) return shell->options.experiment ? status : NT_OK;
    void *fields = nt__alloc(1, experiment->size + 1);
    if (!fields) return NT_OUT_OF_MEMORY;
    status = nt__set_start(experiment, shell->options.run.preset, fields);
    if (status == NT_OK) status = nt__arguments_fields(shell->arguments, experiment, fields);
    nt__free(fields);
    return status;
}

static nt__exit_code open_shell(nt__shell *shell) {
    nt_status status = nt__arguments_options(shell->arguments, &shell->options);
    if (status == NT_OK) status = nt__arguments_check_files(shell->arguments, "shell");
    if (status != NT_OK) return nt__report_wrong_use(status);
    if (nt__shell_load(shell) != NT_OK) return nt__report(NT__EXIT_FAILED);
    status = check_flags(shell);
    return status == NT_OK ? NT__EXIT_DONE : nt__report_wrong_use(status);
}

static nt__exit_code work(nt__shell *shell) {
    nt__open_terminal(&shell->terminal, &shell->options);
    nt__interrupt_on_signals();
    open_lines(shell);
    nt__exit_code code = read_and_run(shell);
    nt__lines_close(&shell->lines);
    while (shell->run_count) nt__shell_free(shell, shell->runs[shell->run_count - 1]);
    nt__close_terminal(&shell->terminal);
    return code;
}

static nt__exit_code report_closing(nt_status status, nt__exit_code code) {
    if (status == NT_OK) return code;
    nt__report(NT__EXIT_FAILED);
    return code == NT__EXIT_DONE ? NT__EXIT_FAILED : code;
}

/* The counters are written when the runs are gone: what is still alive then is a leak. */
static nt__exit_code close_shell(nt__shell *shell, nt__exit_code code) {
    const char *stats = shell->options.stats;
    if (stats) code = report_closing(nt_stats_write(stats), code);
    if (shell->made) code = report_closing(nt_shutdown(), code);
    nt__free(shell->runs);
    nt__command_options_free(&shell->options);
    nt__watch_free(&shell->watch);
    nt__built_free(&shell->built);
    return code;
}

static nt__exit_code run_shell(const nt__arguments *arguments) {
    nt__shell shell = {.arguments = arguments};
    nt__exit_code code = open_shell(&shell);
    if (code == NT__EXIT_DONE) code = work(&shell);
    return close_shell(&shell, code);
}

static const char manual[] =
    "Compiles and loads the files and reads commands: new makes a run with the flags given here and there, train,\n"
    "validate and evaluate use it, help lists the rest. Files that changed are compiled and loaded before the next\n"
    "command; runs made before keep the code that they were made with, and say so. Commands may come from a pipe;\n"
    "then the exit code says whether one of them failed.";

const nt__command nt__shell_command = {
    .name = "shell",
    .does = NT__COMPILES | NT__OPENS_ENGINE | NT__TAKES_FIELDS | NT__IS_SHELL | NT__TRAINS | NT__READS_LOG |
            NT__KEEPS_PROGRAMS,
    .operands = "FILE.c [MORE.c ...] [flags]",
    .summary = "a prompt: train, edit, train again in one process",
    .manual = manual,
    .run = run_shell,
};
