/* What comes back from the plugin: errors and events, turned into statuses and messages. Every error and event that
 * enters here is destroyed here.
 * Not here: the calls themselves; their macros are in xla_internal.h.
 */
#include "xla/xla_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- the complete text of the last engine error ----------------------------------------------------------------- */

static pthread_once_t text_once = PTHREAD_ONCE_INIT;
static pthread_key_t text_key;
static bool text_key_made;

/* The key frees a thread's text when the thread ends. */
static void make_text_key(void) {
    text_key_made = pthread_key_create(&text_key, nt__free) == 0;
}

/* Takes ownership of `text`, which may be NULL. */
static void set_text(char *text) {
    pthread_once(&text_once, make_text_key);
    if (!text_key_made) {
        nt__free(text);
        return;
    }
    nt__free(pthread_getspecific(text_key));
    if (pthread_setspecific(text_key, text) == 0) return;
    nt__free(text);
}

void nt__engine_forget_text(void) {
    if (nt__engine_last_text()) set_text(NULL);
}

const char *nt__engine_last_text(void) {
    pthread_once(&text_once, make_text_key);
    return text_key_made ? pthread_getspecific(text_key) : NULL;
}

/* When memory is short the text is lost, and the message, which allocates nothing, still says what happened. */
static void remember_text(const char *text, size_t length) {
    char *copy = nt__alloc(length + 1, 1);
    if (copy) memcpy(copy, text, length);
    set_text(copy);
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

enum { SHOWN_LINES = 4, SHOWN_BYTES = 1000 };

static size_t without_blanks(const char *text, size_t length) {
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\n')) length--;
    return length;
}

/* Both plugins end every parse error with this line, whatever was wrong. */
static size_t without_tail(const char *text, size_t length) {
    static const char tail[] = "<unknown>:0: error: Failed to parse using StableHLO";
    length = without_blanks(text, length);
    size_t line = length;
    while (line > 0 && text[line - 1] != '\n') line--;
    bool constant = line > 0 && length - line >= sizeof tail - 1 && memcmp(text + line, tail, sizeof tail - 1) == 0;
    return constant ? without_blanks(text, line) : length;
}

/* Bytes of the first lines. */
static size_t head_of(const char *text, size_t length) {
    size_t end = 0;
    for (int lines = 0; end < length && end < SHOWN_BYTES; end++) {
        if (text[end] == '\n' && ++lines == SHOWN_LINES) break;
    }
    return end;
}

static const char *code_name(int code) {
    static const char *const names[] = {
        [1] = "cancelled",           [2] = "unknown",        [3] = "invalid argument",  [4] = "deadline exceeded",
        [5] = "not found",           [6] = "already exists", [7] = "permission denied", [8] = "out of memory",
        [9] = "failed precondition", [10] = "aborted",       [11] = "out of range",     [12] = "not implemented",
        [13] = "internal",           [14] = "unavailable",   [15] = "data loss",        [16] = "not authenticated",
    };
    size_t index = (size_t)code;
    return index < sizeof names / sizeof *names && names[index] ? names[index] : "of no known kind";
}

/* What a message ends with: empty, or what can be done about it. */
static void advice_of(int code, char *out, size_t size) {
    nt__count held = nt__engine_counts_now().all_buffers;
    *out = 0;
    if (code == PJRT_Error_Code_RESOURCE_EXHAUSTED)
        snprintf(out, size,
                 " (%llu arrays of %llu bytes in all are on the devices: make the batch or the model smaller, or free "
                 "other runs)",
                 (unsigned long long)held.live_count, (unsigned long long)held.live_bytes);
}

static nt_status report(int code, const char *text, size_t length) {
    nt_status status = code == PJRT_Error_Code_RESOURCE_EXHAUSTED ? NT_OUT_OF_MEMORY : NT_ENGINE;
    char advice[200];
    advice_of(code, advice, sizeof advice);
    length = without_tail(text, length);
    size_t head = head_of(text, length);
    return nt__fail(status, "engine error %d (%s): %.*s%s%s", code, code_name(code), (int)head, text,
                    head < length ? " [...]" : "", advice);
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

/* The three slots that read and destroy an error are checked when the plugin is loaded. */
static void destroy_error(PJRT_Error *error) {
    NT__ARGS(PJRT_Error_Destroy, destroy, .error = error);
    nt__loaded.api->PJRT_Error_Destroy(&destroy);
}

bool nt__call_succeeded(PJRT_Error *error) {
    if (!error) return true;
    destroy_error(error);
    return false;
}

nt_status nt__call_status(PJRT_Error *error) {
    if (!error) return NT_OK;
    NT__ARGS(PJRT_Error_Message, message, .error = error);
    nt__loaded.api->PJRT_Error_Message(&message);
    NT__ARGS(PJRT_Error_GetCode, code, .error = error);
    if (!nt__call_succeeded(nt__loaded.api->PJRT_Error_GetCode(&code))) code.code = PJRT_Error_Code_UNKNOWN;
    const char *text = message.message ? message.message : "(no text)";
    size_t length = message.message ? message.message_size : strlen(text);
    remember_text(text, length);
    nt_status status = report((int)code.code, text, length);
    destroy_error(error);
    return status;
}

nt_status nt__call_missing(const char *slot) {
    return nt__fail(NT_ENGINE,
                    "the plugin '%s' (PJRT API %d.%d) has no %s: use a newer plugin (NITRO_PLUGIN=/path/to/plugin.so)",
                    nt__loaded.path, nt__loaded.api->pjrt_api_version.major_version,
                    nt__loaded.api->pjrt_api_version.minor_version, slot);
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

static void destroy_event(PJRT_Event *event) {
    NT__ARGS(PJRT_Event_Destroy, destroy, .event = event);
    (void)NT__CALL_QUIETLY(PJRT_Event_Destroy, &destroy);
}

nt_status nt__event_await(PJRT_Event *event) {
    if (!event) return NT_OK;
    NT__ARGS(PJRT_Event_Await, await, .event = event);
    nt_status status = NT__CALL(PJRT_Event_Await, &await);
    destroy_event(event);
    return status;
}

void nt__event_await_quietly(PJRT_Event *event) {
    if (!event) return;
    NT__ARGS(PJRT_Event_Await, await, .event = event);
    (void)NT__CALL_QUIETLY(PJRT_Event_Await, &await);
    destroy_event(event);
}
