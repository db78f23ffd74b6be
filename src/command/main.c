/* The nitro command: which command is meant, and how it ended.
 * Not here: the commands themselves, one file each.
 */
#include "command/command.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include <fcntl.h>
#include <string.h>

#include "base/base.h"
#include "base/closest.h"

/* ---- the commands ----------------------------------------------------------------------------------------------- */

#define COMMAND(name, flags, idle) &nt__##name##_command,
static const nt__command *const commands[] = {
#include "cli/commands.def"
    NULL};
#undef COMMAND

/* ---- how a command ended ---------------------------------------------------------------------------------------- */

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
    nt_status status = nt__arguments_read(nt__takes_of(command->name), count, words, &arguments);
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
    nt__commands_register(commands);
    nt__forbid_exit();
    nt__exit_code code = finish_output(run(count > 0 ? count - 1 : 0, words + 1), closed);
    nt__allow_exit();
    return code;
}
