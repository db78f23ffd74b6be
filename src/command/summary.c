/* nitro summary: the parameters and layer states of a model.
 * Not here: the table (report/summary.c).
 */
#include "command/command.h"

#include "base/base.h"

static nt__exit_code run_summary(const nt__arguments *arguments) {
    nt__session session;
    nt__exit_code code = nt__session_plan(arguments, "summary", &session);
    if (code == NT__EXIT_DONE && nt_run_summary(session.run, stdout) != NT_OK) code = nt__report(NT__EXIT_FAILED);
    return nt__session_close(&session, code);
}

static const char manual[] =
    "Prints every parameter of a model (path, shape, type, number of elements, bytes, group), its layer states and\n"
    "the totals, as a run with these flags would have them. Reads the data for its types and traces the hooks once;\n"
    "needs no engine and compiles no program. Takes all flags of nitro train. An experiment without data, which only\n"
    "predicts, has no summary before its first prediction: nt_run_summary in C.";

const nt__command nt__summary_command = {
    .name = "summary",
    .does = NT__COMPILES | NT__TAKES_FIELDS,
    .operands = "FILE.c [MORE.c ...] [flags]",
    .summary = "the parameters and layer states of a model",
    .manual = manual,
    .run = run_summary,
};
