/* Ctrl-C. In a command: the first time the run ends at its next step and keeps what it has, the second time the
 * process ends. At a prompt: what is under way ends, and the prompt comes back.
 * Not here: what a run does when it is asked to stop.
 */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t stops;

/* Only what is safe in a signal handler. */
static void stop(int signal_number) {
    static const char line[] = "\nnitro: stopping after this step; once more ends at once, and nothing is saved\n";
    (void)signal_number;
    if (stops) _exit(NT__EXIT_INTERRUPTED);
    stops = 1;
    int error = errno;
    ssize_t written = write(STDERR_FILENO, line, sizeof line - 1);
    (void)written;
    nt_stop_request();
    errno = error;
}

/* ---- at a prompt ------------------------------------------------------------------------------------------------ */

static volatile sig_atomic_t working, interrupted, ended;

static void interrupt(int signal_number) {
    static const char line[] = "\nnitro: stopping after this step; Ctrl-\\ ends the process at once\n";
    int error = errno;
    if (signal_number == SIGINT)
        interrupted = 1;
    else
        ended = 1;
    nt_stop_request();
    ssize_t written = working ? write(STDERR_FILENO, line, sizeof line - 1) : 0;
    (void)written;
    errno = error;
}

void nt__interrupt_on_signals(void) {
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

bool nt__interrupt_take(void) {
    bool was = interrupted;
    interrupted = 0;
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

static volatile sig_atomic_t noted;
static const int notable[] = {SIGINT, SIGTERM};
enum { NOTABLE = sizeof notable / sizeof *notable };
static struct sigaction before[NOTABLE];

static void note(int signal_number) {
    (void)signal_number;
    noted = 1;
}

/* Who has a handler already, as the shell, keeps it. */
void nt__signals_note(void) {
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    noted = 0;
    for (size_t i = 0; i < NOTABLE; i++) {
        sigaction(notable[i], NULL, &before[i]);
        if (before[i].sa_handler == SIG_DFL) sigaction(notable[i], &action, NULL);
    }
}

bool nt__signals_noted(void) {
    return noted;
}

void nt__signals_note_end(void) {
    for (size_t i = 0; i < NOTABLE; i++) sigaction(notable[i], &before[i], NULL);
}

/* ---- in a single run -------------------------------------------------------------------------------------------- */

void nt__stop_on_signals(void) {
    struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* A reader that went away must not end a run: the write fails, and the run goes on and is saved. */
    signal(SIGPIPE, SIG_IGN);
}
