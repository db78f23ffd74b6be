/* Runs the nitro command as a child process, with the compiled experiments in the scratch folder.
 * Include after cmocka.
 */
#ifndef NT_TESTS_CLI_COMMAND_H
#define NT_TESTS_CLI_COMMAND_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../base/scratch.h"

enum { MOST_WORDS = 16, MOST_OUTPUT = 1 << 16 };

typedef struct ended {
    int code;                                /* 128 + the signal that ended it */
    char out[MOST_OUTPUT], err[MOST_OUTPUT]; /* cut where it is longer */
} ended;

/* The scratch folder, with an empty place for compiled experiments in it; the user's own is left alone. */
/* What starts the tests may ignore some of these, as nohup does, and the command leaves ignored what it finds ignored.
 */
static inline void heed_signals(void) {
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM, SIGXCPU, SIGPIPE};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) signal(numbers[i], SIG_DFL);
}

static inline int command_make(void **state) {
    heed_signals();
    if (scratch_make(state) != 0) return -1;
    unsetenv("CC");
    return setenv("XDG_CACHE_HOME", scratch("cache"), 1);
}

static inline void put_text(const char *name, const char *text) {
    scratch_put(name, text, strlen(text));
}

static inline void read_output(const char *name, char out[MOST_OUTPUT]) {
    FILE *file = fopen(scratch(name), "rb");
    assert_non_null(file);
    out[fread(out, 1, MOST_OUTPUT - 1, file)] = 0;
    fclose(file);
}

/* In the child. */
static inline void become_command(const char *const *words) {
    int out = open(scratch("out"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int err = open(scratch("err"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execvp(words[0], (char *const *)(uintptr_t)words);
    _exit(126);
}

/* Runs a program with the words up to NULL, the program first. The result is valid until the next call. */
static inline const ended *run_words(const char *const *words) {
    static ended result;
    int how;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) become_command(words);
    assert_int_equal(waitpid(child, &how, 0), child);
    result.code = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
    read_output("out", result.out);
    read_output("err", result.err);
    return &result;
}

static inline const char *command_path(void) {
    static char path[SCRATCH_PATH];
    const char *build = getenv("NITRO_BUILD");
    assert_non_null(build);
    snprintf(path, sizeof path, "%s/nitro", build);
    return path;
}

/* nitro("help", "file.c") */
#define nitro(...) run_nitro((const char *const[]){__VA_ARGS__, NULL})
static inline const ended *run_nitro(const char *const *words) {
    const char *all[MOST_WORDS] = {command_path()};
    for (size_t i = 0; words[i]; i++) {
        assert_true(i + 2 < MOST_WORDS);
        all[i + 1] = words[i];
    }
    return run_words(all);
}

/* The text holds all the pieces up to NULL. */
#define assert_has(text, ...) check_has(text, (const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)
static inline void check_has(const char *text, const char *const *pieces, const char *file, int line) {
    for (size_t i = 0; pieces[i]; i++) {
        if (strstr(text, pieces[i])) continue;
        print_error("'%s' is not in:\n%s\n", pieces[i], text);
        _fail(file, line);
    }
}

#define assert_has_not(text, piece) check_has_not(text, piece, __FILE__, __LINE__)
static inline void check_has_not(const char *text, const char *piece, const char *file, int line) {
    if (!strstr(text, piece)) return;
    print_error("'%s' is in:\n%s\n", piece, text);
    _fail(file, line);
}

/* An experiment that the C compiler takes. `before` stands before everything, `fields` are more rows of its list. */
static inline void put_experiment(const char *file, const char *name, const char *before, const char *fields) {
    char text[4096];
    int length = snprintf(text, sizeof text,
                          "%s"
                          "#include <nitro.h>\n"
                          "#define LIST(FIELD, DEVICE, GRAPH_CONST) FIELD(int, batch, 8, \"samples\") %s\n"
                          "NT_EXPERIMENT(%s, LIST)\n"
                          "NT_DEFINE(%s, LIST, .build_data = NULL);\n",
                          before, fields, name, name);
    assert_true(length < (int)sizeof text);
    put_text(file, text);
}

#endif
