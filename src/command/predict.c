/* nitro predict: outputs of a model for arrays from files.
 * Not here: the files (cli/prediction.c).
 */
#include "command/command.h"

static nt__exit_code predict(nt__session *session, const nt__prediction *p) {
    nt_status status = nt__prediction_make(p, session->experiment, session->run, &session->terminal);
    if (status != NT_OK) return nt__session_fail(session, status);
    nt__terminal_programs(&session->terminal);
    return NT__EXIT_DONE;
}

static nt__exit_code run(const nt__arguments *arguments, const nt__prediction *p) {
    nt__session session;
    nt__exit_code code = nt__session_open(arguments, "predict", true, &session);
    if (code == NT__EXIT_DONE) code = predict(&session, p);
    return nt__session_close(&session, code);
}

/* Everything that can be wrong with the words, before the files are compiled. */
static nt_status check_words(const nt__arguments *arguments, nt__prediction *p) {
    nt__command_options options;
    nt_status status = nt__arguments_options(arguments, &options);
    if (status == NT_OK) status = nt__arguments_check_files(arguments, "predict");
    if (status == NT_OK) status = nt__prediction_read(&options, p);
    nt__command_options_free(&options);
    return status;
}

static nt__exit_code run_predict(const nt__arguments *arguments) {
    nt__prediction p = {0};
    nt_status status = check_words(arguments, &p);
    nt__exit_code code = status == NT_OK ? run(arguments, &p) : nt__report_wrong_use(status);
    nt__prediction_free(&p);
    return code;
}

static const char manual[] =
    "Runs forward on arrays from files, with parameters from a file, and writes what it returns, one row for\n"
    "each sample. The training data is not needed. Each --input is an array, whose field may be left out if\n"
    "forward reads only one, or a .safetensors file with an array for each field; arrays that forward does not\n"
    "read are ignored. Samples go through in batches of the experiment's field 'batch', else of 128. A\n"
    ".safetensors file gets one array, 'outputs'. GraphConst and Device fields, and what derive set, have the values\n"
    "in the file, with which the parameters were trained; a flag that gives a GraphConst field another one is an\n"
    "error.";

const nt__command nt__predict_command = {
    .name = "predict",
    .does = NT__COMPILES | NT__OPENS_ENGINE | NT__TAKES_FIELDS | NT__MAKES_RUN | NT__READS_LOG | NT__KEEPS_PROGRAMS,
    .operands = "FILE.c [MORE.c ...] --input [FIELD=]FILE ... --out FILE [flags]",
    .summary = "outputs of the model for arrays from files",
    .manual = manual,
    .run = run_predict,
};
