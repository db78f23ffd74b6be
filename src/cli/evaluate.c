/* nitro evaluate: the metrics of one split with parameters from a file.
 * Not here: how they are computed.
 */
#include "cli/cli.h"

#include "base/base.h"

static nt_status load_weights(nt__session *session) {
    const char *given = session->options.weights;
    char *usual = given ? NULL : nt__session_weights(session);
    const char *path = given ? given : usual;
    nt_status status = path ? nt_run_load(session->run, path) : NT_OUT_OF_MEMORY;
    nt__free(usual);
    if (status == NT_NOT_FOUND && !given)
        return nt__fail(status, "%s. Train first, or name the parameters with --weights=FILE", nt_error_message());
    return status;
}

static nt__exit_code evaluate(nt__session *session) {
    const char *split = session->options.split ? session->options.split : "test";
    nt_results results;
    nt_status status = load_weights(session);
    if (status == NT_OK) status = nt_evaluate(session->run, split, &results);
    if (status != NT_OK) return nt__session_fail(session, status);
    nt__terminal_results(&session->terminal, split, &results);
    return NT__EXIT_DONE;
}

nt__exit_code nt__evaluate_command(const nt__arguments *arguments) {
    nt__session session;
    nt__exit_code code = nt__session_open(arguments, "evaluate", true, &session);
    if (code == NT__EXIT_DONE) code = evaluate(&session);
    return nt__session_close(&session, code);
}
