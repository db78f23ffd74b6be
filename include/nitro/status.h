/* Status codes and messages: how every call of nitro reports a failure.
 *
 * A function that can fail returns nt_status. The message of the newest failure of the calling thread is
 * nt_error_message(). It says what was wrong, where (file and line of the user's call, if there is one), with the
 * values, and what to do. A NULL that the header does not allow is NT_INVALID; the message names the
 * argument. The library never exits, never aborts, and never writes to standard output.
 *
 * Each thread has a message and a status of its own. The functions for notices and warnings are those of the process:
 * they may be called from any thread, from several at the same time too.
 */
#ifndef NITRO_STATUS_H
#define NITRO_STATUS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nt_status {
    NT_OK = 0,
    NT_INVALID,       /* an argument, field, flag, shape or file that the caller has to change */
    NT_NOT_FOUND,     /* a file, split, field, plugin or program that is not there */
    NT_IO,            /* the operating system refused a read or a write */
    NT_OUT_OF_MEMORY, /* of the host or of the device; the message says which */
    NT_ENGINE,        /* the plugin failed or refused */
    NT_DIVERGED,      /* the loss is not finite */
    NT_INTERRUPTED,   /* a stop was requested */
} nt_status;

/* The message of the newest failure of this thread, "" when there was none. Valid until the thread's next failing call.
 */
const char *nt_error_message(void);
/* Its status: what a call that returns a pointer failed with. NT_OK when there was none. */
nt_status nt_error_status(void);

/* Sets the thread's message and returns `status`: how a hook or a source says what is wrong. */
nt_status nt_fail(nt_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "ok", "invalid", ...: the name of a status, for logs. */
const char *nt_status_name(nt_status status);

/* Lines the library would like a person to see (a compiled program, a warning) go to this function, one line a call
 * without its newline. NULL silences them. The default writes to standard error. Returns the previous function. */
typedef void (*nt_notice_function)(const char *line, void *context);
nt_notice_function nt_set_notice(nt_notice_function function, void *context);

/* Lines about what changes a result (a run that begins anew because there is nothing to resume, a value that was given
 * and is not used) go to this function: no option such as `quiet` hides them. It returns NT_OK to go on; another status
 * makes the call that warns fail with it and with the line as its message. NULL stands for the default, which passes
 * the line to the notice function, to standard error if that is NULL, and goes on. Returns the previous function, NULL
 * for the default. */
typedef nt_status (*nt_warning_function)(const char *line, void *context);
nt_warning_function nt_set_warning(nt_warning_function function, void *context);

/* What code of the user's runs on this thread, called by nitro. */
typedef struct nt_running_hook_t {
    const char *hook; /* "forward", "read" of a source, "line" of a logger, "listener" */
    const char *of;   /* the name of the experiment, source, logger or schedule; NULL: none */
    const char *file; /* of the newest call there of an operation, a layer or the like; NULL: there was none */
    int line;
} nt_running_hook_t;
/* The innermost one; false when none runs. May be called in the handler of a signal that the thread itself has raised:
 * for a line about a crash. nitro installs no handler; its command does. */
bool nt_running_hook(nt_running_hook_t *out);

#ifdef __cplusplus
}
#endif

#endif
