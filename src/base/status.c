/* Failures and their messages, and the lines meant for a person.
 * Not here: deciding what a message says; whoever finds the failure writes it.
 */
#include "base/base.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Of a fixed size, so that reporting that memory is short allocates nothing. */
static _Thread_local char message[NT__MESSAGE];
static _Thread_local nt_status newest;

static const char mark[] = "...";

/* Ends text that fills out[size] in "...", cut between two UTF-8 characters. */
static void mark_cut(char *out, size_t size) {
    size_t cut = size - sizeof mark;
    while (cut > 0 && ((unsigned char)out[cut] & 0xC0) == 0x80) cut--;
    memcpy(out + cut, mark, sizeof mark);
}

/* Formats a message. Texts of others, out of files and of the engine, may hold anything: what a terminal would obey
 * becomes an escape. */
static NT__PRINTF(2, 0) void format_cut(char out[NT__MESSAGE], const char *format, va_list arguments) {
    char text[NT__MESSAGE];
    int length = nt__vformat(text, sizeof text, format, arguments);
    if (length < 0) snprintf(text, sizeof text, "%s (this text could not be formatted)", format);
    if (length >= NT__MESSAGE) mark_cut(text, sizeof text);
    if (nt__show(text, "\n\t", out, NT__MESSAGE) < NT__MESSAGE) return;
    nt__show(text, "\n\t", out, NT__MESSAGE - (sizeof mark - 1));
    strcat(out, mark);
}

/* The text is built aside first: an argument may be the present message. */
static NT__PRINTF(2, 0) nt_status set_message(nt_status status, const char *format, va_list arguments) {
    char text[NT__MESSAGE];
    format_cut(text, format, arguments);
    memcpy(message, text, strlen(text) + 1);
    newest = status;
    return status;
}

nt_status nt__fail(nt_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_message(status, format, arguments);
    va_end(arguments);
    return status;
}

nt_status nt_fail(nt_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_message(status, format, arguments);
    va_end(arguments);
    return status;
}

void nt__fail_nothing(void) {
    *message = 0;
    newest = NT_OK;
}

nt_status nt__fail_in(nt_status status, const char *format, ...) {
    char where[NT__MESSAGE];
    va_list arguments;
    va_start(arguments, format);
    format_cut(where, format, arguments);
    va_end(arguments);
    return nt__fail(status, "%s: %s", where, message);
}

bool nt__given(const void *argument, const char *call, const char *name) {
    if (!argument) nt__fail(NT_INVALID, "%s: %s is NULL", call, name);
    return argument != NULL;
}

const char *nt_error_message(void) {
    return message;
}

nt_status nt_error_status(void) {
    return newest;
}

const char *nt_status_name(nt_status status) {
    static const char *const names[] = {
        [NT_OK] = "ok",
        [NT_INVALID] = "invalid",
        [NT_NOT_FOUND] = "not found",
        [NT_IO] = "input or output",
        [NT_OUT_OF_MEMORY] = "out of memory",
        [NT_ENGINE] = "engine",
        [NT_DIVERGED] = "diverged",
        [NT_INTERRUPTED] = "interrupted",
    };
    size_t index = (size_t)status;
    return index < sizeof names / sizeof *names ? names[index] : "unknown status";
}

/* ---- kept for later --------------------------------------------------------------------------------------------- */

nt_status nt__error_keep(nt__kept_error *kept, nt_status status) {
    if (status == NT_OK || kept->status != NT_OK) return status;
    kept->status = status;
    memcpy(kept->message, message, sizeof message);
    return status;
}

nt_status nt__error_raise(const nt__kept_error *kept) {
    return kept->status == NT_OK ? NT_OK : nt__fail(kept->status, "%s", kept->message);
}

/* ---- calls that return no status -------------------------------------------------------------------------------- */

/* A hook that makes a run of its own, with hooks, keeps what failed in it before. */
enum { KEPT_DEPTHS = 4 };
static _Thread_local nt__kept_error of_calls[KEPT_DEPTHS];

static nt__kept_error *kept_here(void) {
    int depth = nt__hook_depth();
    return &of_calls[depth < KEPT_DEPTHS ? depth : KEPT_DEPTHS - 1];
}

void nt__calls_watch(void) {
    kept_here()->status = NT_OK;
}

void nt__calls_keep(nt_status status) {
    nt__error_keep(kept_here(), status);
}

nt_status nt__calls_status(void) {
    return nt__error_raise(kept_here());
}

/* ---- notices and warnings --------------------------------------------------------------------------------------- */

static void notice_to_standard_error(const char *line, void *context) {
    (void)context;
    fprintf(stderr, "%s\n", line);
}

/* Each function changes together with its context, and any thread may send a line. */
static struct {
    pthread_mutex_t lock;
    nt_notice_function notice;
    void *notice_context;
    nt_warning_function warning; /* NULL: the default */
    void *warning_context;
} listeners = {PTHREAD_MUTEX_INITIALIZER, notice_to_standard_error, NULL, NULL, NULL};

nt_notice_function nt_set_notice(nt_notice_function function, void *context) {
    pthread_mutex_lock(&listeners.lock);
    nt_notice_function previous = listeners.notice;
    listeners.notice = function;
    listeners.notice_context = context;
    pthread_mutex_unlock(&listeners.lock);
    return previous;
}

nt_warning_function nt_set_warning(nt_warning_function function, void *context) {
    pthread_mutex_lock(&listeners.lock);
    nt_warning_function previous = listeners.warning;
    listeners.warning = function;
    listeners.warning_context = context;
    pthread_mutex_unlock(&listeners.lock);
    return previous;
}

/* The functions run outside the lock, so that they may set others. False: there is none. */
static bool send_notice(const char *line) {
    pthread_mutex_lock(&listeners.lock);
    nt_notice_function function = listeners.notice;
    void *context = listeners.notice_context;
    pthread_mutex_unlock(&listeners.lock);
    if (function) function(line, context);
    return function != NULL;
}

void nt__notice(const char *format, ...) {
    char line[NT__MESSAGE];
    va_list arguments;
    va_start(arguments, format);
    format_cut(line, format, arguments);
    va_end(arguments);
    send_notice(line);
}

nt_status nt__warn(const char *format, ...) {
    char line[NT__MESSAGE];
    va_list arguments;
    va_start(arguments, format);
    format_cut(line, format, arguments);
    va_end(arguments);

    pthread_mutex_lock(&listeners.lock);
    nt_warning_function function = listeners.warning;
    void *context = listeners.warning_context;
    pthread_mutex_unlock(&listeners.lock);
    nt_status status = function ? function(line, context) : NT_OK;
    if (!function && !send_notice(line)) notice_to_standard_error(line, NULL);
    return status == NT_OK ? NT_OK : nt__fail(status, "%s", line);
}
