/* The process of the command: how it ends, what signals do to it, what is said of a crash.
 */
#ifndef NT_PROCESS_PROCESS_H
#define NT_PROCESS_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

typedef enum nt__exit_code {
    NT__EXIT_DONE = 0,
    NT__EXIT_FAILED = 1,       /* what was asked for did not work out, as when a run refuses a value of its type */
    NT__EXIT_WRONG_USE = 2,    /* found before there is a run: an unknown command or flag, a value of the wrong type */
    NT__EXIT_INTERRUPTED = 130 /* by SIGINT or SIGTERM; other signals: 128 and their number */
} nt__exit_code;

/* ---- signals (signals.c) ---------------------------------------------------------------------------------------- */

/* The signals that ask for an end are SIGINT, SIGTERM, SIGHUP and SIGXCPU; one that is ignored when the command begins
 * stays ignored. From the first call to the last they end nothing but the compiler; the others tell whether one came.
 */
void nt__signals_note(void);
bool nt__signals_noted(void);
bool nt__signals_note_end(void);
/* fork, of the process that such a signal ends too until it is said that it has ended. */
pid_t nt__signals_fork(void);
void nt__signals_child_ended(void);
/* Of a command that such a signal ended; else NT__EXIT_INTERRUPTED. */
nt__exit_code nt__signals_exit_code(void);

/* From here on a crash ends with a line that says in which hook, by which signal and where: the line in the source of
 * the object that was named last, else that of the newest traced call. */
void nt__crash_watch(void);
void nt__crash_object(const char *path);

/* From here on exit, which only the code of an experiment calls, is a failure that is told. To be said again when the
 * engine is open: what is registered last comes first, before the engine is taken down under its threads. */
void nt__forbid_exit(void);
void nt__allow_exit(void);

/* The first signal ends the process at once until nt__signals_run_begins; then it asks the run to stop, and ends the
 * process in a moment unless nt__signals_step_ended says that there is something to keep. The second ends the process.
 */
void nt__stop_on_signals(void);
void nt__signals_run_begins(void);
void nt__signals_step_ended(void);

/* At a prompt SIGINT ends what runs between nt__work_begin and nt__work_end, or the line that is typed; the others end
 * the shell after that. */
void nt__interrupt_on_signals(void);
void nt__work_begin(void);
void nt__work_end(void);
/* Whether there was a SIGINT since the last question; runs may go on again. */
bool nt__interrupt_take(void);
bool nt__end_requested(void);

#endif
