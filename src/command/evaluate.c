/* nitro evaluate: the metrics of one split with parameters from a file.
 * Not here: how they are computed.
 */
#include "base/base.h"
#include "command/command.h"

/* As with a train_step hook and nothing else. */
static nt_status nothing_to_tell(const nt__session *session) {
    if (session->experiment->hooks.loss)
        return nt__fail(NT_INVALID,
                        "experiment '%s' has no metrics hook, and val_loss is false, so an evaluation has nothing to "
                        "report: leave val_loss true, or write .metrics or .device_metrics in its NT_DEFINE",
                        session->experiment->name);
    return nt__fail(NT_INVALID,
                    "experiment '%s' has no metrics hook and no loss, so an evaluation has nothing to report: write "
                    ".metrics, .device_metrics or .loss in its NT_DEFINE",
                    session->experiment->name);
}

static nt__exit_code evaluate(nt__session *session) {
    const char *split = session->options.split ? session->options.split : "test";
    nt_results results;
    nt_status status = nt_evaluate(session->run, split, &results);
    if (status != NT_OK) return nt__session_fail(session, status);
    if (results.count == 0) return nt__session_fail(session, nothing_to_tell(session));
    nt__terminal_programs(&session->terminal);
    nt__terminal_results(&session->terminal, split, &results);
    return NT__EXIT_DONE;
}

static nt__exit_code run_evaluate(const nt__arguments *arguments) {
    nt__session session;
    nt__exit_code code = nt__session_open(arguments, "evaluate", true, &session);
    if (code == NT__EXIT_DONE) code = evaluate(&session);
    return nt__session_close(&session, code);
}

static const char manual[] =
    "Evaluates one split with parameters from a file and prints its metrics. GraphConst and Device fields, and what\n"
    "derive set, have the values in the file, with which the parameters were trained; a flag that gives a GraphConst\n"
    "field another one is an error.";

const nt__command nt__evaluate_command = {
    .name = "evaluate",
    .does = NT__COMPILES | NT__OPENS_ENGINE | NT__TAKES_FIELDS | NT__MAKES_RUN | NT__READS_LOG | NT__KEEPS_PROGRAMS,
    .operands = "FILE.c [MORE.c ...] [flags]",
    .summary = "metrics of a split with saved parameters",
    .manual = manual,
    .run = run_evaluate,
};
