/* nitro train: trains, evaluates the test split, keeps the parameters.
 * Not here: the training loop.
 */
#include "command/command.h"

#include <string.h>

#include "base/files.h"
#include "run/run.h"

/* "test" is evaluated when the experiment has one, with the parameters that training ended with. */
static nt_status report_test(nt__session *session) {
    nt_results results;
    if (!nt_run_has_split(session->run, "test")) return NT_OK;
    nt_status status = nt_evaluate(session->run, "test", &results);
    if (status == NT_OK) nt__terminal_results(&session->terminal, "test", &results);
    return status;
}

static void tell_log(nt__session *session) {
    const char *loggers = nt__run_loggers(session->run), *folder = nt_run_dir(session->run);
    if (strcmp(loggers, "jsonl") == 0)
        nt__terminal_line(&session->terminal, "log in %s/metrics.jsonl", folder);
    else if (strcmp(loggers, "none") != 0)
        nt__terminal_line(&session->terminal, "logs (%s) in %s", loggers, folder);
}

static nt_status save_to(nt__session *session, const char *path) {
    nt_status status = nt__make_folder(nt_run_dir(session->run));
    if (status == NT_OK) status = nt__keep_parameters(session->run, false, path);
    if (status != NT_OK) return status;
    nt__terminal_line(&session->terminal, "parameters in %s", path);
    tell_log(session);
    return NT_OK;
}

static nt_status save(nt__session *session) {
    char *path = nt__session_weights(session);
    nt_status status = path ? save_to(session, path) : NT_OUT_OF_MEMORY;
    nt__free(path);
    return status;
}

/* Before hours of training: what is there may wait for ever for its other end, and keeps nothing. */
static nt_status check_place(const nt__session *session) {
    char *path = nt__session_weights(session);
    if (!path) return NT_OUT_OF_MEMORY;
    nt_status status = NT_OK;
    if (nt__is_special(path))
        status = nt__fail(NT_INVALID,
                          "'%s', where the parameters are to be kept, is a pipe or a device: remove it or name another "
                          "folder",
                          path);
    nt__free(path);
    return status;
}

/* A full disk or short memory leaves good parameters: they are saved if that can be done, and the first failure is
 * told. */
static nt__exit_code save_after_failure(nt__session *session, nt_status status, int64_t step) {
    nt__kept_error reason = {0};
    nt__error_keep(&reason, status);
    if (step > 0) save(session);
    return nt__session_fail(session, nt__error_raise(&reason));
}

/* What an interrupted run has reached is kept like that of a complete one, and before anything else can fail. A run
 * without a step keeps nothing: its initial values must not replace what an earlier run learned. */
static nt__exit_code train(nt__session *session) {
    nt_status status = check_place(session);
    if (status != NT_OK) return nt__session_fail(session, status);
    status = nt_train(session->run);
    if (status == NT_DIVERGED || status == NT_ENGINE) return nt__session_fail(session, status);
    int64_t step = nt_run_step(session->run);
    if (status != NT_OK && status != NT_INTERRUPTED) return save_after_failure(session, status, step);
    nt_status saved = step > 0 ? save(session) : NT_OK;
    if (saved != NT_OK) return nt__session_fail(session, saved);
    if (step == 0 && status == NT_OK)
        nt__terminal_line(&session->terminal,
                          "nothing was trained, since max_epochs or max_steps is 0; nothing is saved");
    if (status == NT_OK) status = report_test(session);
    if (status == NT_OK) return NT__EXIT_DONE;
    if (status == NT_INTERRUPTED)
        nt__fail(status, "stopped on request after step %lld; %s", (long long)step,
                 step == 0                                 ? "nothing was trained and nothing is saved"
                 : nt__run_keeps_checkpoints(session->run) ? "the parameters are saved, and --resume goes on from here"
                                                           : "the parameters are saved");
    return nt__session_fail(session, status);
}

static nt__exit_code run_train(const nt__arguments *arguments) {
    nt__session session;
    nt__exit_code code = nt__session_open(arguments, "train", false, &session);
    if (code == NT__EXIT_DONE) code = train(&session);
    return nt__session_close(&session, code);
}

static const char manual[] =
    "Compiles the files (only when one of them, or a header they use, has changed), trains the experiment in\n"
    "them, prints a line for each epoch, evaluates the split 'test' when there is one, and saves the\n"
    "parameters, also after Ctrl-C. Results go to standard output, progress and notices to standard error.";

const nt__command nt__train_command = {
    .name = "train",
    .does = NT__COMPILES | NT__OPENS_ENGINE | NT__TAKES_FIELDS | NT__MAKES_RUN | NT__TRAINS | NT__READS_LOG |
            NT__KEEPS_PROGRAMS,
    .operands = "FILE.c [MORE.c ...] [flags]",
    .summary = "train an experiment",
    .manual = manual,
    .run = run_train,
};
