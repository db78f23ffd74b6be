/* Signals that ask a command to end: Ctrl-C, SIGTERM, a terminal that is closed, the limit of processor time. A single
 * run ends at its next step and keeps what it has; where there is nothing to keep, at once. The second signal ends the
 * process. At a prompt what is under way ends, and the prompt comes back. One that was ignored when the command began,
 * as with nohup, stays ignored.
 * Not here: what a run does when it is asked to stop; signals of crashes (crash.c).
 */
#include "process/process.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "nitro/run.h"

static const int endings[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};
enum { ENDINGS = sizeof endings / sizeof *endings, PATIENCE = 2 /* seconds */ };

static struct sigaction before[ENDINGS]; /* nt__signals_note */
static volatile sig_atomic_t first;      /* the signal that came first; 0: none */
static volatile sig_atomic_t noted;      /* one came since nt__signals_note */
static atomic_bool is_compiling, has_run, has_something;
static atomic_int compiler; /* its process; 0: none runs */

/* ---- what is safe in a handler ---------------------------------------------------------------------------------- */

static void say(const char *line) {
    ssize_t written = write(STDERR_FILENO, line, strlen(line));
    (void)written;
}

/* The shells say the same of a process that a signal ended; the code of SIGTERM is the documented one. */
static nt__exit_code exit_code(void) {
    return first == SIGHUP || first == SIGXCPU ? (nt__exit_code)(128 + first) : NT__EXIT_INTERRUPTED;
}

static void end_at_once(int signal_number) {
    (void)signal_number;
    say("\nnitro: stopped; nothing is saved\n");
    _exit(exit_code());
}

/* Waiting for the first step is worth a moment, not minutes of building data or compiling. */
static void end_soon(void) {
    struct sigaction action = {.sa_handler = end_at_once};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    alarm(PATIENCE);
}

static void note(int signal_number) {
    int process = atomic_load(&compiler);
    if (!first) first = signal_number;
    noted = 1;
    if (process > 0) kill(process, SIGTERM);
}

/* Who ignores a signal goes on to. */
static void set(void (*handler)(int signal_number)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ENDINGS; i++)
        if (sigaction(endings[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(endings[i], &action, NULL);
}

nt__exit_code nt__signals_exit_code(void) {
    return exit_code();
}

/* ---- in a single run -------------------------------------------------------------------------------------------- */

static void stop(int signal_number) {
    int error = errno;
    if (first) _exit(exit_code());
    note(signal_number);
    nt_stop_request();
    if (atomic_load(&has_something)) {
        say("\nnitro: stopping after this step; once more ends at once, and nothing is saved\n");
    } else if (atomic_load(&has_run)) {
        say("\nnitro: stopping\n");
        end_soon();
    } else if (!atomic_load(&is_compiling)) {
        end_at_once(signal_number);
    }
    errno = error;
}

void nt__stop_on_signals(void) {
    set(stop);
    /* A reader that went away must not end a run: the write fails, and the run goes on and is saved. */
    signal(SIGPIPE, SIG_IGN);
}

void nt__signals_run_begins(void) {
    atomic_store(&has_run, true);
}

void nt__signals_step_ended(void) {
    if (atomic_exchange(&has_something, true)) return;
    alarm(0);
}

/* ---- at a prompt ------------------------------------------------------------------------------------------------ */

static volatile sig_atomic_t working, interrupted, ended;

static void interrupt(int signal_number) {
    int error = errno;
    if (signal_number == SIGINT)
        interrupted = 1;
    else
        ended = 1;
    note(signal_number);
    nt_stop_request();
    if (working) say("\nnitro: stopping after this step; Ctrl-\\ ends the process at once\n");
    errno = error;
}

void nt__interrupt_on_signals(void) {
    set(interrupt);
    signal(SIGPIPE, SIG_IGN);
}

bool nt__interrupt_take(void) {
    bool was = interrupted;
    interrupted = 0;
    if (!ended) first = 0;
    if (!ended) nt_stop_clear();
    return was;
}

void nt__work_begin(void) {
    working = 1;
}

void nt__work_end(void) {
    working = 0;
}

bool nt__end_requested(void) {
    return ended;
}

/* ---- while the compiler runs ------------------------------------------------------------------------------------ */

/* Who has a handler already, as a run or the shell, keeps it: that notes the signal too. */
void nt__signals_note(void) {
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    noted = 0;
    atomic_store(&is_compiling, true);
    for (size_t i = 0; i < ENDINGS; i++) {
        sigaction(endings[i], NULL, &before[i]);
        if (before[i].sa_handler == SIG_DFL) sigaction(endings[i], &action, NULL);
    }
}

bool nt__signals_noted(void) {
    return noted;
}

bool nt__signals_note_end(void) {
    for (size_t i = 0; i < ENDINGS; i++)
        if (before[i].sa_handler == SIG_DFL) sigaction(endings[i], &before[i], NULL);
    atomic_store(&is_compiling, false);
    return noted;
}

static sigset_t block(void) {
    sigset_t all, held;
    sigemptyset(&all);
    for (size_t i = 0; i < ENDINGS; i++) sigaddset(&all, endings[i]);
    sigprocmask(SIG_BLOCK, &all, &held);
    return held;
}

pid_t nt__signals_fork(void) {
    sigset_t held = block();
    pid_t process = fork();
    if (process > 0) atomic_store(&compiler, process);
    if (process > 0 && noted) kill(process, SIGTERM);
    sigprocmask(SIG_SETMASK, &held, NULL);
    return process;
}

void nt__signals_child_ended(void) {
    atomic_store(&compiler, 0);
}
