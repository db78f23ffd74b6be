/* nitro summary: the parameters and layer states of a model.
 * Not here: the table (run/summary.c).
 */
#include "cli/cli.h"

#include "base/base.h"

nt__exit_code nt__summary_command(const nt__arguments *arguments) {
    nt__session session;
    nt__exit_code code = nt__session_plan(arguments, "summary", &session);
    if (code == NT__EXIT_DONE && nt_run_summary(session.run, stdout) != NT_OK) code = nt__report(NT__EXIT_FAILED);
    return nt__session_close(&session, code);
}
