/* From a command line to a run: files compiled, an experiment chosen, its fields set, the run made; and back.
 * Not here: what is done with the run.
 */
#include "cli/cli.h"
#include "base/files.h"

#include <string.h>
#include <unistd.h>

#include "run/run.h"
#include "xla/xla.h"

/* ---- the experiment --------------------------------------------------------------------------------------------- */

nt__exit_code nt__load_files(const nt__arguments *arguments, const nt__command_options *options, const char *command,
                             nt__built *built) {
    nt_status status = nt__arguments_check_files(arguments, command);
    if (status != NT_OK) return nt__report_wrong_use(status);
    nt__build_request request = {.files = arguments->files.items,
                                 .file_count = arguments->files.count,
                                 .cflags = options->cflags,
                                 .ldflags = options->ldflags};
    status = nt__build(&request, built);
    return status == NT_OK ? NT__EXIT_DONE : nt__report_failure(status);
}

/* `name` is the one that was asked for; NULL: none. */
static nt_status fail_with_names(const char *name, const char *advice) {
    nt__text names = {0};
    const nt_experiment *experiment;
    for (size_t i = 0; (experiment = nt_experiment_at(i)); i++)
        nt__text_add(&names, "%s%s", i ? ", " : "", experiment->name);
    nt_status status = NT_OUT_OF_MEMORY;
    if (!names.failed && name)
        status = nt__fail(NT_INVALID, "the files have no experiment '%s', they have: %s. %s", name, names.data, advice);
    else if (!names.failed)
        status = nt__fail(NT_INVALID, "the files have several experiments: %s. %s", names.data, advice);
    nt__text_free(&names);
    return status;
}

static nt_status choose_experiment(const nt__session *session, const nt_experiment **out) {
    const char *name = session->options.experiment;
    *out = name ? nt_experiment_find(name) : nt_experiment_at(0);
    if (!nt_experiment_at(0))
        return nt__fail(NT_INVALID,
                        "'%s' has no experiment: declare one with NT_EXPERIMENT and define it with NT_DEFINE",
                        session->arguments->files.items[0]);
    if (!*out) return fail_with_names(name, "Choose one of these");
    if (!name && nt_experiment_at(1)) return fail_with_names(NULL, "Choose one with --experiment=NAME");
    return NT_OK;
}

nt_status nt__set_start(const nt_experiment *experiment, const char *preset, void *fields) {
    if (preset) return nt_preset(experiment, preset, fields);
    experiment->set_defaults(fields);
    return NT_OK;
}

static nt_status set_fields(nt__session *session) {
    const nt_experiment *experiment = session->experiment;
    session->fields = nt__alloc(1, experiment->size);
    if (!session->fields) return NT_OUT_OF_MEMORY;
    nt_status status = nt__set_start(experiment, session->options.run.preset, session->fields);
    if (status != NT_OK) return status;
    return nt__arguments_fields(session->arguments, experiment, session->fields);
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

/* With the first step there is something to keep. */
static void hear(const nt_event *event, void *terminal) {
    if (event->kind == NT_EVENT_STEP) nt__signals_step_ended();
    nt__terminal_event(event, terminal);
}

void nt__open_terminal(nt__terminal *terminal, const nt__command_options *options) {
    bool live = isatty(STDERR_FILENO) == 1;
    nt__terminal_open(terminal, stdout, stderr, live, options->run.quiet);
    terminal->strict = options->strict;
    terminal->notices_before = nt_set_notice(nt__terminal_notice, terminal);
    nt_set_warning(nt__terminal_warning, terminal);
}

void nt__close_terminal(nt__terminal *terminal) {
    nt_set_warning(NULL, NULL);
    nt_set_notice(terminal->notices_before, NULL);
    nt__terminal_close(terminal);
}

nt__exit_code nt__session_fail(nt__session *session, nt_status status) {
    nt__terminal_clear(&session->terminal);
    return nt__report_failure(status);
}

static nt__exit_code open_run(nt__session *session, bool evaluates) {
    session->options.run.no_log = session->options.run.evaluate_only = evaluates;
    session->options.run.no_data = strcmp(session->arguments->command->command, "predict") == 0;
    session->engine_used = true;
    nt_status status = nt_run_new(session->experiment, session->fields, &session->options.run, &session->run);
    nt__forbid_exit();
    nt__signals_run_begins();
    return status == NT_OK ? NT__EXIT_DONE : nt__session_fail(session, status);
}

/* The counters are written at the very end, so that they cannot be is said at once. */
static nt_status check_stats(const char *path) {
    nt_status status = nt__check_can_write(path);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "--stats");
}

/* All before the run: files compiled and loaded, the experiment chosen, its fields set. */
static nt__exit_code open_experiment(const nt__arguments *arguments, const char *command, nt__session *out) {
    *out = (nt__session){.arguments = arguments};
    nt_status status = nt__arguments_options(arguments, &out->options);
    nt__open_terminal(&out->terminal, &out->options);
    out->has_terminal = true;
    if (status == NT_OK && out->options.stats) status = check_stats(out->options.stats);
    if (status != NT_OK) return nt__report_wrong_use(status);
    nt__exit_code code = nt__load_files(arguments, &out->options, command, &out->built);
    if (code != NT__EXIT_DONE) return code;
    status = nt__built_sources(&out->built, &arguments->files, &out->sources);
    if (status != NT_OK) return nt__report_failure(status);
    out->options.run.sources = out->sources.items;
    out->options.run.source_count = out->sources.count;
    status = choose_experiment(out, &out->experiment);
    if (status == NT_OK) status = set_fields(out);
    if (status == NT_OK) status = nt__arguments_given(arguments, out->experiment, &out->given);
    out->options.run.given_fields = out->given.items;
    out->options.run.given_field_count = out->given.count;
    return status == NT_OK ? NT__EXIT_DONE : nt__report_wrong_use(status);
}

nt__exit_code nt__session_open(const nt__arguments *arguments, const char *command, bool evaluates, nt__session *out) {
    nt__stop_on_signals();
    nt__exit_code code = open_experiment(arguments, command, out);
    if (code != NT__EXIT_DONE) return code;
    out->options.run.on_event = hear;
    out->options.run.event_context = &out->terminal;
    return open_run(out, evaluates);
}

nt__exit_code nt__session_plan(const nt__arguments *arguments, const char *command, nt__session *out) {
    nt__exit_code code = open_experiment(arguments, command, out);
    if (code != NT__EXIT_DONE) return code;
    nt_status status = nt__plan_new(out->experiment, out->fields, &out->options.run, &out->run);
    return status == NT_OK ? NT__EXIT_DONE : nt__report_failure(status);
}

/* The counters are written when the run is gone: what is still alive then is a leak. */
static nt__exit_code write_stats(const nt__session *session, nt__exit_code code) {
    const char *path = session->options.stats;
    if (!path || !session->engine_used || nt_stats_write(path) == NT_OK) return code;
    nt__report(NT__EXIT_FAILED);
    return code == NT__EXIT_DONE ? NT__EXIT_FAILED : code;
}

static nt__exit_code close_engine(nt__exit_code code) {
    nt_cache_reset();
    if (nt__engine_close() == NT_OK) return code;
    nt__report(NT__EXIT_FAILED);
    return code == NT__EXIT_DONE ? NT__EXIT_FAILED : code;
}

nt__exit_code nt__session_close(nt__session *session, nt__exit_code code) {
    nt_run_free(session->run);
    if (session->has_terminal) nt__close_terminal(&session->terminal);
    code = write_stats(session, code);
    if (session->engine_used) code = close_engine(code);
    nt__free(session->fields);
    nt__words_free(&session->sources);
    nt__words_free(&session->given);
    nt__built_free(&session->built);
    nt__command_options_free(&session->options);
    return code;
}

char *nt__session_weights(const nt__session *session) {
    return nt__sprintf("%s/parameters.safetensors", nt_run_dir(session->run));
}
