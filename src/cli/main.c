/* The nitro command: which command is meant, and how it ended.
 * Not here: the commands themselves, one file each.
 */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include <fcntl.h>
#include <string.h>

#include "base/base.h"
#include "base/closest.h"

/* ---- the commands ----------------------------------------------------------------------------------------------- */

static const char train_manual[] =
    "Compiles the files (only when one of them, or a header they use, has changed), trains the experiment in\n"
    "them, prints a line for each epoch, evaluates the split 'test' when there is one, and saves the\n"
    "parameters, also after Ctrl-C. Results go to standard output, progress and notices to standard error.";

static const char evaluate_manual[] =
    "Evaluates one split with parameters from a file and prints its metrics. GraphConst and Device fields, and what\n"
    "derive set, have the values in the file, with which the parameters were trained; a flag that gives a GraphConst\n"
    "field another one is an error.";

static const char predict_manual[] =
    "Runs forward on arrays from files, with parameters from a file, and writes what it returns, one row for\n"
    "each sample. The training data is not needed. Each --input is an array, whose field may be left out where\n"
    "forward reads only one, or a .safetensors file with an array for each field; arrays that forward does not\n"
    "read are ignored. Samples go through in batches of the experiment's field 'batch', else of 128. A\n"
    ".safetensors file gets one array, 'outputs'. GraphConst and Device fields, and what derive set, have the values\n"
    "in the file, with which the parameters were trained; a flag that gives a GraphConst field another one is an\n"
    "error.";

static const char shell_manual[] =
    "Compiles and loads the files and reads commands: new makes a run with the flags given here and there, train,\n"
    "validate and evaluate use it, help lists the rest. Files that changed are compiled and loaded before the next\n"
    "command; runs made before keep the code that they were made with, and say so. Commands may come from a pipe;\n"
    "then the exit code says whether one of them failed.";

static const char schedule_manual[] =
    "Prints the whole of each schedule that a run with these flags would have: steps, values, and a picture. --out\n"
    "writes every step. Reads the data for its number of steps; needs no engine and compiles no program. Takes all\n"
    "flags of nitro train; those that change no schedule have no effect.";

static const char summary_manual[] =
    "Prints every parameter of a model (path, shape, type, number of elements, bytes, group), its layer states and\n"
    "the totals, as a run with these flags would have them. Reads the data for its types and traces the hooks once;\n"
    "needs no engine and compiles no program. Takes all flags of nitro train. An experiment without data, which only\n"
    "predicts, has no summary before its first prediction: nt_run_summary in C.";

static const char help_manual[] =
    "Without operands the manual. With a command, its part of it. With files, every field of their\n"
    "experiments: flag, type, default, marker and meaning, and the defaults of the run. With --resolved a run is\n"
    "made up to its schedules, without an engine, and what follows from fields, hooks and flags is listed; it takes\n"
    "all flags of nitro train.";

static const char devices_manual[] = "Opens the engine as a run would and prints what it is.";

static const char cache_manual[] =
    "list: every program, the one used last first. stats: how many there are, and where. clear: removes all of\n"
    "them, and with --all the compiled experiments too; nothing is lost, what is needed is compiled again.";

static const char history_manual[] =
    "Prints a row for each epoch of a run: its mean loss and its validation metrics, the best epoch marked. On a\n"
    "terminal rows in the middle and columns on the right are left out where there is no room, and the last lines say\n"
    "so. RUN is a folder of a run or its log, also of one that is under way or was killed; without it, the run below\n"
    "runs/ that was written last.";

static const char runs_manual[] =
    "Prints a row for each run in a folder and up to four levels below, the one written last first. Its state is how\n"
    "training ended (completed, requested, error), running while a process holds the folder, else killed. A run that\n"
    "kept no metrics.jsonl, as with --log=tensorboard, has a row that says so, with the time of its newest file.";

static const char plot_manual[] =
    "Draws curves of one or more runs in the terminal, or with --out in a file: the mean loss and the validation\n"
    "metrics of the epochs, the best one marked, or what --metric names. CONTEXT/NAME is every line of a context, as\n"
    "train/loss; of many neighbours the mean is drawn. On a terminal without colours each run has a panel of its own.\n"
    "Without a RUN the one below runs/ that was written last.";

static const char diff_manual[] =
    "Prints in what two runs differ: fields and settings, environment, lines of the source files, and their metrics\n"
    "side by side.";

static const nt__command commands[] = {
    {"train", NT__TRAIN, "FILE.c [MORE.c ...] [flags]", "train an experiment", train_manual, nt__train_command},
    {"evaluate", NT__EVALUATE, "FILE.c [MORE.c ...] [flags]", "metrics of a split with saved parameters",
     evaluate_manual, nt__evaluate_command},
    {"predict", NT__PREDICT, "FILE.c [MORE.c ...] --input [FIELD=]FILE ... --out FILE [flags]",
     "outputs of the model for arrays from files", predict_manual, nt__predict_command},
    {"shell", NT__SHELL, "FILE.c [MORE.c ...] [flags]", "a prompt: train, edit, train again in one process",
     shell_manual, nt__shell_command},
    {"schedule", NT__SCHEDULE, "FILE.c [MORE.c ...] [flags]", "print and plot the schedules before a run",
     schedule_manual, nt__schedule_command},
    {"summary", NT__SUMMARY, "FILE.c [MORE.c ...] [flags]", "the parameters and layer states of a model",
     summary_manual, nt__summary_command},
    {"help", NT__HELP, "[COMMAND | FILE.c [MORE.c ...] [--resolved [flags]]]",
     "this manual, a command, or the fields of an experiment", help_manual, nt__help_command},
    {"devices", NT__DEVICES, "", "the engine: plugin, versions, devices, allocator", devices_manual,
     nt__devices_command},
    {"cache", NT__CACHE, "list | stats | clear [--all]", "the compiled programs on disk", cache_manual,
     nt__cache_command},
    {"history", NT__HISTORY, "[RUN] [flags]", "the epochs of a run, as a table", history_manual, nt__history_command},
    {"runs", NT__RUNS, "[FOLDER] [flags]", "the runs below runs/ or another folder", runs_manual, nt__runs_command},
    {"plot", NT__PLOT, "[RUN ...] [flags]", "the curves of runs, in the terminal or a file", plot_manual,
     nt__plot_command},
    {"diff", NT__DIFF, "RUN RUN", "in what two runs differ", diff_manual, nt__diff_command},
};

const nt__command *nt__command_at(size_t index) {
    return index < sizeof commands / sizeof *commands ? &commands[index] : NULL;
}

const nt__command *nt__command_find(const char *name) {
    for (size_t i = 0; nt__command_at(i); i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

/* ---- how a command ended ---------------------------------------------------------------------------------------- */

nt__exit_code nt__report(nt__exit_code code) {
    fflush(stdout);
    fprintf(stderr, "nitro: %s\n", nt_error_message());
    return code;
}

nt__exit_code nt__report_failure(nt_status status) {
    return nt__report(status == NT_INTERRUPTED ? nt__signals_exit_code() : NT__EXIT_FAILED);
}

nt__exit_code nt__report_wrong_use(nt_status status) {
    return nt__report(status == NT_OUT_OF_MEMORY ? NT__EXIT_FAILED : NT__EXIT_WRONG_USE);
}

/* A full disk shows when the last of the output is written. */
static nt__exit_code finish_output(nt__exit_code code, bool closed) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    nt__fail(NT_IO, "cannot write to standard output: %s", closed ? "it is closed" : strerror(errno));
    nt__report(NT__EXIT_FAILED);
    return code == NT__EXIT_DONE ? NT__EXIT_FAILED : code;
}

/* ---- choosing a command ----------------------------------------------------------------------------------------- */

static nt__exit_code report_unknown_command(const char *name) {
    nt__words names = {0};
    nt__text message = {0};
    const nt__command *command;
    for (size_t i = 0; (command = nt__command_at(i)); i++) nt__words_add(&names, command->name);
    nt__text_add(&message, "there is no command '%s'", name);
    nt__add_closest(&message, name, names.items, names.count, "nitro ");
    if (!message.failed) nt__fail(NT_INVALID, "%s; nitro --help lists the commands", message.data);
    nt__text_free(&message);
    nt__words_free(&names);
    return nt__report(NT__EXIT_WRONG_USE);
}

static bool asks_for_help(const nt__arguments *arguments) {
    for (size_t i = 0; i < arguments->flag_count; i++)
        if (strcmp(arguments->flags[i].name, "help") == 0) return true;
    return false;
}

static nt__exit_code run_command(const nt__command *command, int count, char *const *words) {
    nt__arguments arguments;
    nt__exit_code code;
    nt_status status = nt__arguments_read(command->bit, count, words, &arguments);
    if (status != NT_OK)
        code = nt__report_wrong_use(status);
    else if (asks_for_help(&arguments))
        code = nt__print_command_manual(command, stdout) ? NT__EXIT_DONE : nt__report(NT__EXIT_FAILED);
    else
        code = command->run(&arguments);
    nt__arguments_free(&arguments);
    return code;
}

static nt__exit_code show_version(void) {
    printf("nitro %s\n", NT__VERSION);
    return NT__EXIT_DONE;
}

static nt__exit_code run(int count, char *const *words) {
    if (count == 0) {
        nt__print_usage(stderr);
        return NT__EXIT_WRONG_USE;
    }
    bool wants_help = strcmp(words[0], "--help") == 0 || strcmp(words[0], "-h") == 0;
    if (wants_help) return nt__print_manual(stdout) ? NT__EXIT_DONE : nt__report(NT__EXIT_FAILED);
    if (strcmp(words[0], "--version") == 0) return show_version();
    const nt__command *command = nt__command_find(words[0]);
    return command ? run_command(command, count - 1, words + 1) : report_unknown_command(words[0]);
}

/* A closed standard stream would lend its number to the next file that is opened, and output would land in it. What
 * takes its place cannot be read, or written, either. Whether standard output was closed. */
static bool open_standard_streams(void) {
    static const int modes[] = {[STDIN_FILENO] = O_WRONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_RDWR};
    bool closed = false;
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
        if (fcntl(i, F_GETFD) >= 0) continue;
        int opened = open("/dev/null", modes[i]);
        closed |= opened == STDOUT_FILENO;
    }
    return closed;
}

int main(int count, char **words) {
    bool closed = open_standard_streams();
    /* A file that reaches the limit of the process is an error of the write, as on a full disk. */
    signal(SIGXFSZ, SIG_IGN);
    nt__crash_watch();
    nt__forbid_exit();
    nt__exit_code code = finish_output(run(count > 0 ? count - 1 : 0, words + 1), closed);
    nt__allow_exit();
    return code;
}
