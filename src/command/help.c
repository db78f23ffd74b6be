/* nitro help: the manual, or the fields of the experiments in files.
 * Not here: the texts (manual.c).
 */
#include "command/command.h"

#include <string.h>

#include "base/base.h"

static nt__exit_code printed(bool complete) {
    return complete ? NT__EXIT_DONE : nt__report(NT__EXIT_FAILED);
}

/* Its fields with the preset's values when one was given. */
static nt__exit_code print_experiment(const nt_experiment *experiment, const char *preset) {
    void *fields = nt__alloc(1, experiment->size + 1);
    if (!fields) return nt__report(NT__EXIT_FAILED);
    nt_status status = nt__set_start(experiment, preset, fields);
    nt__exit_code code =
        status == NT_OK ? printed(nt__print_experiment(experiment, fields, stdout)) : nt__report_wrong_use(status);
    nt__free(fields);
    return code;
}

static nt__exit_code print_experiments(const nt__arguments *arguments, const nt__command_options *options) {
    const nt_experiment *experiment;
    const char *name = options->experiment;
    nt__exit_code code = NT__EXIT_DONE;
    size_t shown = 0;
    for (size_t i = 0; code == NT__EXIT_DONE && (experiment = nt_experiment_at(i)); i++) {
        if (name && strcmp(experiment->name, name) != 0) continue;
        if (shown++) putchar('\n');
        code = print_experiment(experiment, options->run.preset);
    }
    if (shown) return code;
    nt__fail(NT_INVALID, "'%s' has no experiment%s%s", arguments->files.items[0], name ? " of the name " : "",
             name ? name : ": declare one with NT_EXPERIMENT and define it with NT_DEFINE");
    return nt__report(NT__EXIT_WRONG_USE);
}

static nt__exit_code print_resolved(const nt__arguments *arguments) {
    nt__session session;
    nt__exit_code code = nt__session_plan(arguments, "help", &session);
    if (code == NT__EXIT_DONE && nt_run_report(session.run, stdout) != NT_OK) code = nt__report(NT__EXIT_FAILED);
    return nt__session_close(&session, code);
}

/* What a run is made with says nothing of fields and their defaults, and no flag anything of the manual. */
static nt_status check_flags(const nt__arguments *arguments) {
    bool compiles = arguments->files.count && !nt__command_find(arguments->files.items[0]);
    if (!compiles && arguments->flag_count)
        return nt__fail(NT_INVALID, "--%s goes with a FILE.c: name it, or leave the flag out",
                        arguments->flags[0].name);
    for (size_t i = 0; i < arguments->flag_count; i++) {
        const nt__keyword *keyword = nt__keyword_of(arguments->command, arguments->flags[i].name);
        bool is_of_run = keyword && (keyword->group == NT__FLAGS_RUN || !nt__uses(arguments->command, keyword));
        if (is_of_run && strcmp(keyword->field.name, "preset") != 0)
            return nt__fail(NT_INVALID, "--%s goes with --resolved: add that, or leave it out",
                            arguments->flags[i].name);
    }
    return NT_OK;
}

static nt__exit_code run_help(const nt__arguments *arguments) {
    nt__command_options options;
    nt_status status = nt__arguments_options(arguments, &options);
    bool resolved = options.resolved;
    if (status == NT_OK && !resolved) status = check_flags(arguments);
    if (status == NT_OK && !resolved) status = nt__arguments_fields(arguments, NULL, NULL);
    if (status == NT_OK && resolved) {
        nt__command_options_free(&options);
        return print_resolved(arguments);
    }
    if (status != NT_OK) return nt__report_wrong_use(status);
    if (arguments->files.count == 0) return printed(nt__print_manual(stdout));
    const nt__command *command = nt__command_find(arguments->files.items[0]);
    if (command) return printed(nt__print_command_manual(command, stdout));
    nt__built built;
    nt__exit_code code = nt__load_files(arguments, &options, "help", &built);
    if (code != NT__EXIT_DONE) return code;
    nt__built_free(&built);
    return print_experiments(arguments, &options);
}

static const char manual[] =
    "Without operands the manual. With a command, its part of it. With files, every field of their\n"
    "experiments: flag, type, default, marker and meaning, and the defaults of the run. With --resolved a run is\n"
    "made up to its schedules, without an engine, and what follows from fields, hooks and flags is listed; it takes\n"
    "all flags of nitro train.";

const nt__command nt__help_command = {
    .name = "help",
    .does = NT__COMPILES,
    .operands = "[COMMAND | FILE.c [MORE.c ...] [--resolved [flags]]]",
    .summary = "this manual, a command, or the fields of an experiment",
    .manual = manual,
    .run = run_help,
};
