/* What the files of this folder share: the loaded plugin, calls through its table, the client, the accounts.
 * Not here: anything another folder may see; that is xla.h.
 */
#ifndef NT_XLA_XLA_INTERNAL_H
#define NT_XLA_XLA_INTERNAL_H

#include <pjrt_c_api.h>
#include <sys/types.h>

#include "xla/xla.h"

/* ---- the plugin (plugin.c) -------------------------------------------------------------------------------------- */

enum { NT__PATH_SIZE = 4096 };

typedef struct nt__plugin {
    const PJRT_Api *api; /* NULL until a plugin was loaded */
    char path[NT__PATH_SIZE];
    char stablehlo_version[32];
    nt__hash hash;
} nt__plugin;

/* The plugin of the process. It is written once, before the first client is made, and never changes again. */
extern nt__plugin nt__loaded;
/* Finds and loads the plugin unless that was done. */
nt_status nt__plugin_load(void);
/* nt__option_check_range for each option in XLA_FLAGS, or in the file that it names. */
nt_status nt__flags_check_ranges(const char *flags);
/* The folder that is searched when no variable names one (folders.c). Returns out. */
const char *nt__plugin_folders(char out[NT__PATH_SIZE]);

/* ---- calls through the plugin's table (call.c) ------------------------------------------------------------------ */

/* Whether the running plugin has a slot. Its table may be shorter or longer than the one this was compiled with. */
#define NT__HAS(slot) (offsetof(PJRT_Api, slot) + sizeof(void *) <= nt__loaded.api->struct_size && nt__loaded.api->slot)
/* The argument struct of a call: its size, the given fields, and zeros. */
#define NT__ARGS(slot, name, ...) slot##_Args name = {.struct_size = slot##_Args_STRUCT_SIZE, __VA_ARGS__}
/* Calls a slot. A missing slot and an error of the plugin are a status with a message. */
#define NT__CALL(slot, arguments) \
    (NT__HAS(slot) ? nt__call_status(nt__loaded.api->slot(arguments)) : nt__call_missing(#slot))
/* Calls a slot where a failure changes nothing. The thread's message stays as it is. */
#define NT__CALL_QUIETLY(slot, arguments) (NT__HAS(slot) && nt__call_succeeded(nt__loaded.api->slot(arguments)))

/* The status and message of an error, which is destroyed. NULL is NT_OK. */
nt_status nt__call_status(PJRT_Error *error);
nt_status nt__call_missing(const char *slot);
/* Destroys the error; true when there was none. */
bool nt__call_succeeded(PJRT_Error *error);
/* Waits for an event, which is destroyed, and gives its status. NULL is NT_OK. */
nt_status nt__event_await(PJRT_Event *event);
/* The same where a failure changes nothing. */
void nt__event_await_quietly(PJRT_Event *event);
/* Forgets the text of the thread's last engine error. */
void nt__engine_forget_text(void);

/* ---- the client (client.c) -------------------------------------------------------------------------------------- */

enum { NT__MAX_DEVICES = 1024 };

struct nt__engine {
    bool open;
    pid_t process; /* that opened it */
    int devices_asked;
    PJRT_Client *client;
    PJRT_Device *const *devices; /* the client's */
    const char **device_texts;
    nt__engine_facts facts;
    nt__arena arena;
};

/* Error unless `engine` is the open engine. */
nt_status nt__engine_check(const nt__engine *engine);

/* ---- element types (buffer.c) ----------------------------------------------------------------------------------- */

PJRT_Buffer_Type nt__engine_type(nt_dtype dtype);
/* Checks element type and shape; gives the bytes of such an array. */
nt_status nt__type_check(nt__type type, size_t *bytes);
/* Error unless `purpose` is one. */
nt_status nt__purpose_check(nt__purpose purpose);

/* ---- buffers (buffer.c) ----------------------------------------------------------------------------------------- */

/* Makes an empty slot hold `raw`. Does not count it. */
void nt__buffer_fill(nt__buffer *buffer, PJRT_Buffer *raw, const char *name, nt__purpose purpose, nt__type type,
                     size_t bytes, int device);
/* Gives back the engine's handle and lent memory, without counting; `state` is what the buffer becomes. */
void nt__buffer_release(nt__buffer *buffer, nt__buffer_state state);
/* Copies a name, cut to what a buffer holds. */
void nt__buffer_copy_name(char out[NT__BUFFER_NAME], const char *name);

/* ---- executables (executable.c, run.c, options.c) --------------------------------------------------------------- */

struct nt__executable {
    nt__engine *engine;
    PJRT_LoadedExecutable *loaded;
    PJRT_Executable *description;
    const char *name;
    nt__signature signature;
    size_t *result_bytes;
    int device; /* number of the device it runs on */
    int64_t code_bytes;
    bool was_loaded; /* from saved bytes, and not compiled here */
    /* What a run works with, kept for the next one so that runs allocate nothing; NULL while a run has it. Runs of
     * other threads at the same time make one of their own. */
    _Atomic(struct nt__launch *) spare;
    nt__arena arena;
};

/* The lists of one run. */
typedef struct nt__launch {
    PJRT_Buffer **arguments, **results;
    bool *taken; /* an argument: the engine took its memory */
} nt__launch;
/* One block, for nt__free; NULL when memory is short. */
nt__launch *nt__launch_new(const nt__signature *signature);

/* Refuses bytes that would abort the engine, and programs for more than one device. */
nt_status nt__compile_options_check(const uint8_t *bytes, size_t length);

/* ---- accounts (account.c) --------------------------------------------------------------------------------------- */

void nt__account_made(nt__purpose purpose, size_t bytes);
void nt__account_gone(nt__purpose purpose, size_t bytes);
void nt__account_moved(nt__purpose from, nt__purpose to, size_t bytes);
void nt__account_upload(nt__purpose purpose, const char *name, size_t bytes);
void nt__account_download(nt__purpose purpose, const char *name, size_t bytes);
void nt__account_compile(size_t code_bytes);
void nt__account_load(size_t code_bytes);
void nt__account_executable_gone(size_t code_bytes);
void nt__account_run(void);

#endif
