/* Between the cache of the process and the disk: whether programs are kept there, under which key, and what happens
 * when that does not work, which never ends a run. Not here: files and their form.
 */
#include "program/store.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Disk and environment do not change from the opening to the reset, during which no program is made. */
static struct {
    pthread_mutex_t lock;  /* of what follows */
    bool opened, has_said; /* has_said: a person knows that the disk is not used */
    bool is_read_only;     /* a program could not be written */
    nt__disk disk;
    nt__environment environment;
} store = {.lock = PTHREAD_MUTEX_INITIALIZER};

void nt__store_reset(void) {
    pthread_mutex_lock(&store.lock);
    nt__disk_close(&store.disk);
    store.opened = store.has_said = store.is_read_only = false;
    store.disk = (nt__disk){0};
    store.environment = (nt__environment){0};
    pthread_mutex_unlock(&store.lock);
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static void turn_off(const char *why) {
    nt__disk_close(&store.disk);
    snprintf(store.disk.why, sizeof store.disk.why, "%s", why);
}

/* Short memory is the only failure; it leaves the store closed. */
static nt_status open_store(const nt__engine *engine) {
    if (store.opened) return NT_OK;
    nt_status status = nt__disk_open(true, &store.disk);
    const char *cannot = nt__engine_cannot_save(engine);
    if (status == NT_OK && store.disk.folder && cannot) {
        turn_off(cannot);
        store.disk.is_unwanted = true;
    }
    if (status == NT_OK && store.disk.folder) {
        status = nt__environment_find(&store.disk, nt__engine_facts_of(engine)->plugin_path, &store.environment);
        if (status != NT_OK && status != NT_OUT_OF_MEMORY) {
            turn_off(nt_error_message());
            nt__fail_nothing();
            status = NT_OK;
        }
    }
    store.opened = status == NT_OK;
    if (status != NT_OK) nt__disk_close(&store.disk);
    return status;
}

/* Call with the lock held. */
static void say_once(const nt__program *program, nt__text *notices, const char *what, const char *why) {
    if (store.has_said || program->quiet) return;
    store.has_said = true;
    nt__text_add(notices, "%s: %s\n", what, why);
}

static nt_status open_and_say(const nt__program *program, nt__text *notices, bool *use) {
    nt_status status = open_store(program->engine);
    if (status != NT_OK) return status;
    *use = store.disk.folder != NULL;
    if (!*use && !store.disk.is_unwanted)
        say_once(program, notices, "compiled programs are not kept on disk", store.disk.why);
    return NT_OK;
}

/* *use: the program may be looked up and kept. */
static nt_status enter(const nt__program *program, nt__text *notices, bool *use) {
    *use = false;
    if (program->no_disk) return NT_OK;
    pthread_mutex_lock(&store.lock);
    nt_status status = open_and_say(program, notices, use);
    pthread_mutex_unlock(&store.lock);
    return status;
}

static bool has_folder(void) {
    pthread_mutex_lock(&store.lock);
    bool has = store.opened && store.disk.folder;
    pthread_mutex_unlock(&store.lock);
    return has;
}

static bool is_read_only(void) {
    pthread_mutex_lock(&store.lock);
    bool is = store.is_read_only;
    pthread_mutex_unlock(&store.lock);
    return is;
}

static nt__disk_key key_of(const nt__program *program) {
    return (nt__disk_key){program->content, store.environment};
}

/* ---- finding ---------------------------------------------------------------------------------------------------- */

/* The bytes are those that the engine wrote: their checksum is right, and plugin and processor are the same. Should it
 * end the process all the same, it does so once. */
static nt_status load(const nt__program *program, const nt__disk_program *saved, const char *name,
                      nt__store_result *out) {
    char what[160];
    nt__disk_guard guard = {.file = -1};
    nt__signature signature = nt__program_signature(program);
    snprintf(what, sizeof what, "%s of %s", program->role, program->experiment);
    nt__disk_guard_begin(&store.disk, name, &guard);
    nt_status status =
        nt__executable_load(program->engine, what, saved->bytes, saved->length, &signature, &out->executable);
    nt__disk_guard_end(&store.disk, &guard);
    if (status == NT_OK) nt__disk_touch(&store.disk, name);
    return status;
}

/* What the engine refuses is removed, and written anew after the compile. Its memory may be what is short: then the
 * file is right, and the compile says so. */
static nt_status load_or_refuse(const nt__program *program, const nt__disk_program *saved, const char *name,
                                nt__store_result *out) {
    nt_status status = load(program, saved, name, out);
    if (status == NT_OK || (status == NT_OUT_OF_MEMORY && !nt__engine_last_text())) return status;
    snprintf(out->why, sizeof out->why, "the saved one was refused: %.250s", nt_error_message());
    out->refused = true;
    if (status != NT_OUT_OF_MEMORY) nt__disk_remove(&store.disk, name);
    nt__fail_nothing();
    return NT_OK;
}

nt_status nt__store_find(const nt__program *program, nt__store_result *out, nt__text *notices) {
    bool use;
    *out = (nt__store_result){0};
    nt_status status = enter(program, notices, &use);
    if (status != NT_OK || !use) {
        snprintf(out->why, sizeof out->why, "%s", use || status != NT_OK || program->no_disk ? "" : store.disk.why);
        return status;
    }
    nt__disk_program saved;
    nt__disk_answer answer;
    char name[NT__DISK_NAME];
    nt__disk_key key = key_of(program);
    nt__disk_name(&key, name);
    status = nt__disk_read(&store.disk, &key, &saved, &answer, out->why);
    out->refused = answer == NT__DISK_REFUSED;
    if (status == NT_OK && answer == NT__DISK_FOUND) status = load_or_refuse(program, &saved, name, out);
    nt__free(saved.data);
    return status;
}

/* ---- keeping ---------------------------------------------------------------------------------------------------- */

static nt_status write(const nt__program *program, const uint8_t *bytes, size_t length, double seconds) {
    const char *path = nt__engine_facts_of(program->engine)->plugin_path, *slash = strrchr(path, '/');
    nt__disk_key key = key_of(program);
    nt__disk_program saved = {.program = program->role,
                              .experiment = program->experiment,
                              .plugin = slash ? slash + 1 : path,
                              .seconds = seconds,
                              .bytes = bytes,
                              .length = length};
    return nt__disk_write(&store.disk, &key, &saved);
}

/* The description counts too, and the program is worth more: it is the newer of the two when there is no room. */
static nt_status keep_description(const nt__program *program) {
    char name[NT__DISK_NAME];
    nt__disk_key key = key_of(program);
    nt__text text = {0};
    nt__describe_write(program, &text);
    nt__describe_name(program, name);
    nt_status status = text.failed ? NT_OUT_OF_MEMORY : nt__disk_put(&store.disk, name, text.data, text.length);
    nt__text_free(&text);
    if (status != NT_OK) return status;
    nt__disk_name(&key, name);
    nt__disk_touch(&store.disk, name);
    return nt__disk_shrink(&store.disk);
}

nt_status nt__store_keep(const nt__program *program, const nt__executable *executable, double seconds,
                         nt__text *notices) {
    bool use;
    uint8_t *bytes = NULL;
    size_t length;
    nt_status status = enter(program, notices, &use);
    if (status != NT_OK || !use || is_read_only()) return status;
    status = nt__executable_save(executable, &bytes, &length);
    if (status == NT_OK) status = write(program, bytes, length, seconds);
    nt__free(bytes);
    if (status == NT_OK) return keep_description(program);
    if (status == NT_OUT_OF_MEMORY) return status;
    /* One that is too large for the limit says nothing of the next. */
    pthread_mutex_lock(&store.lock);
    store.is_read_only = store.is_read_only || status != NT_INVALID;
    say_once(program, notices, "a compiled program is not kept on disk", nt_error_message());
    pthread_mutex_unlock(&store.lock);
    nt__fail_nothing();
    return NT_OK;
}

nt_status nt__store_recall(const nt__program *program) {
    char name[NT__DISK_NAME], *data;
    size_t length;
    if (program->no_disk || !has_folder() || nt__describe_knows(program)) return NT_OK;
    nt__describe_name(program, name);
    nt_status status = nt__disk_get(&store.disk, name, &data, &length);
    if (status == NT_OK && data) status = nt__describe_read(program, data, length);
    nt__free(data);
    return status;
}
