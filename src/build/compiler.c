/* The C compiler: found in the environment, identified without asking it, run without a shell.
 * Not here: the flags it gets and what becomes of its output (build.c).
 */
#include "build/compiler_internal.h"
#include "show/show.h"

#include "process/process.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- finding ---------------------------------------------------------------------------------------------------- */

static bool is_program(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* The file that execvp would run for this name, in `path`. An empty entry of PATH is the current folder. */
static bool find_program(const char *name, char path[PATH_MAX]) {
    if (strchr(name, '/')) return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && is_program(path);
    const char *folders = getenv("PATH");
    while (folders) {
        int length = (int)strcspn(folders, ":");
        int written = snprintf(path, PATH_MAX, "%.*s/%s", length ? length : 1, length ? folders : ".", name);
        if (written < PATH_MAX && is_program(path)) return true;
        folders = folders[length] ? folders + length + 1 : NULL;
    }
    return false;
}

static nt_status use_first_known(nt__words *command) {
    static const char *const known[] = {"cc", "gcc", "clang"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!find_program(known[i], path)) continue;
        nt__words_add(command, known[i]);
        return command->failed ? NT_OUT_OF_MEMORY : NT_OK;
    }
    return nt__fail(NT_NOT_FOUND, "no C compiler found: there is no cc, gcc or clang in PATH. Install one (Debian: "
                                  "apt-get install gcc libc6-dev), or set CC to one that is elsewhere");
}

static nt_status use_named(nt__arena *arena, const char *named, nt__words *command) {
    char path[PATH_MAX];
    nt_status status = nt__words_split(arena, "the environment variable CC", named, command);
    if (status != NT_OK || find_program(command->items[0], path)) return status;
    return nt__fail(NT_NOT_FOUND,
                    "no C compiler found: the environment variable CC is '%s', and there is no program '%s'. Set CC to "
                    "another compiler or unset it (Debian: apt-get install gcc libc6-dev)",
                    named, command->items[0]);
}

/* Asking a compiler for its version takes longer than everything else in a start that compiles nothing. The file it
 * lies in says as well whether it is still the same one. */
static void add_identity(const char *word, nt__text *identity) {
    char path[PATH_MAX], real[PATH_MAX];
    struct stat info;
    nt__text_add(identity, "%s\n", word);
    if (word[0] == '-' || !find_program(word, path) || !realpath(path, real) || stat(real, &info) != 0) return;
    nt__text_add(identity, "%s %lld %lld.%09ld\n", real, (long long)info.st_size, (long long)info.st_mtim.tv_sec,
                 info.st_mtim.tv_nsec);
}

static nt_status identify(nt__arena *arena, nt__compiler *compiler) {
    nt__text identity = {0};
    for (size_t i = 0; i < compiler->command.count; i++) add_identity(compiler->command.items[i], &identity);
    compiler->identity = identity.failed ? NULL : nt__arena_strdup(arena, identity.data);
    nt__text_free(&identity);
    return compiler->identity ? NT_OK : NT_OUT_OF_MEMORY;
}

static bool is_blank(const char *text) {
    return text[strspn(text, " \t\n\v\f\r")] == 0;
}

nt_status nt__compiler_find(nt__arena *arena, nt__compiler *out) {
    *out = (nt__compiler){0};
    const char *named = getenv("CC");
    bool is_named = named && !is_blank(named);
    nt_status status = is_named ? use_named(arena, named, &out->command) : use_first_known(&out->command);
    return status == NT_OK ? identify(arena, out) : status;
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

/* In the new process: never returns. */
static void become(char **command) {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execvp(command[0], command);
    nt__say_line(stderr, "nitro: cannot run '%s': %s", command[0], strerror(errno));
    _exit(127);
}

static nt_status wait_for(pid_t process, const char *name, int *exit_code) {
    int how = 0;
    pid_t ended;
    do ended = waitpid(process, &how, 0);
    while (ended < 0 && errno == EINTR);
    if (ended < 0) return nt__fail(NT_IO, "cannot wait for '%s': %s", name, strerror(errno));
    if (WIFSIGNALED(how))
        return nt__fail(NT_IO, "'%s' was ended by signal %d (%s)", name, WTERMSIG(how), strsignal(WTERMSIG(how)));
    *exit_code = WEXITSTATUS(how);
    return NT_OK;
}

nt_status nt__process_run(const nt__words *command, int *exit_code) {
    char **arguments = nt__alloc(command->count + 1, sizeof *arguments);
    if (!arguments) return NT_OUT_OF_MEMORY;
    memcpy(arguments, command->items, command->count * sizeof *arguments);
    fflush(NULL);
    pid_t process = nt__signals_fork();
    if (process == 0) become(arguments);
    int error = errno;
    nt__free(arguments);
    if (process < 0) return nt__fail(NT_IO, "cannot start '%s': %s", command->items[0], strerror(error));
    nt_status status = wait_for(process, command->items[0], exit_code);
    nt__signals_child_ended();
    return status;
}
