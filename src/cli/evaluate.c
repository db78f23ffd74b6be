/* nitro evaluate: the metrics of one split with parameters from a file.
 * Not here: how they are computed.
 */
#include "cli/cli.h"

static nt__exit_code evaluate(nt__session *session) {
    const char *split = session->options.split ? session->options.split : "test";
    nt_results results;
    nt_status status = nt__session_load_weights(session);
    if (status == NT_OK) status = nt_evaluate(session->run, split, &results);
    if (status != NT_OK) return nt__session_fail(session, status);
    nt__terminal_programs(&session->terminal);
    nt__terminal_results(&session->terminal, split, &results);
    return NT__EXIT_DONE;
}

nt__exit_code nt__evaluate_command(const nt__arguments *arguments) {
    nt__session session;
    nt__exit_code code = nt__session_open(arguments, "evaluate", true, &session);
    if (code == NT__EXIT_DONE) code = evaluate(&session);
    return nt__session_close(&session, code);
}
