/* The client: opened once a process, its devices and facts, closed when nothing of it is alive.
 * Not here: finding the plugin, buffers, executables.
 */
#include "xla/xla_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One for the process, never freed: a pointer kept after the close is still an error with a message. */
static nt__engine the_engine;
static size_t holders; /* of the engine, open or yet to be opened */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- making the client ------------------------------------------------------------------------------------------ */

static const char count_option[] = "cpu_device_count";

static nt_status create_client(const PJRT_NamedValue *options, size_t option_count, PJRT_Client **client) {
    NT__ARGS(PJRT_Client_Create, args, .create_options = options, .num_options = option_count);
    nt_status status = NT__CALL(PJRT_Client_Create, &args);
    *client = args.client;
    return status;
}

/* The option's type must be int64 and its value sane: anything else aborts a plugin. Without the option the plugins for
 * the CPU make four devices. */
static nt_status create_client_with(int devices, PJRT_Client **client) {
    PJRT_NamedValue option = {
        .struct_size = PJRT_NamedValue_STRUCT_SIZE,
        .name = count_option,
        .name_size = sizeof count_option - 1,
        .type = PJRT_NamedValue_kInt64,
        .int64_value = devices,
        .value_size = 1,
    };
    nt_status status = create_client(&option, 1, client);
    if (status != NT_ENGINE) return status;
    /* A plugin for other hardware may not know the option, and says so by its name. */
    const char *text = nt__engine_last_text();
    return text && strstr(text, count_option) ? create_client(NULL, 0, client) : status;
}

static nt_status destroy_client(PJRT_Client *client) {
    NT__ARGS(PJRT_Client_Destroy, args, .client = client);
    return NT__CALL(PJRT_Client_Destroy, &args);
}

/* ---- devices and facts ------------------------------------------------------------------------------------------ */

static const char *copy(nt__engine *engine, const char *text, size_t length) {
    return nt__arena_sprintf(&engine->arena, "%.*s", (int)length, text ? text : "");
}

static nt_status read_devices(nt__engine *engine, int devices_asked) {
    NT__ARGS(PJRT_Client_AddressableDevices, args, .client = engine->client);
    nt_status status = NT__CALL(PJRT_Client_AddressableDevices, &args);
    if (status != NT_OK) return status;
    if (args.num_addressable_devices < (size_t)devices_asked)
        return nt__fail(NT_ENGINE, "%d devices were asked for, the plugin '%s' has %zu: ask for fewer", devices_asked,
                        nt__loaded.path, args.num_addressable_devices);
    engine->devices = args.addressable_devices;
    engine->facts.device_count = (int)args.num_addressable_devices;
    return NT_OK;
}

static nt_status read_device_text(nt__engine *engine, int device) {
    NT__ARGS(PJRT_Device_GetDescription, args, .device = engine->devices[device]);
    nt_status status = NT__CALL(PJRT_Device_GetDescription, &args);
    if (status != NT_OK) return status;
    NT__ARGS(PJRT_DeviceDescription_DebugString, text, .device_description = args.device_description);
    status = NT__CALL(PJRT_DeviceDescription_DebugString, &text);
    if (status != NT_OK) return status;
    engine->device_texts[device] = copy(engine, text.debug_string, text.debug_string_size);
    return engine->device_texts[device] ? NT_OK : NT_OUT_OF_MEMORY;
}

static nt_status read_device_texts(nt__engine *engine) {
    engine->device_texts =
        nt__arena_alloc(&engine->arena, (size_t)engine->facts.device_count, sizeof *engine->device_texts);
    nt_status status = engine->device_texts ? NT_OK : NT_OUT_OF_MEMORY;
    for (int i = 0; status == NT_OK && i < engine->facts.device_count; i++) status = read_device_text(engine, i);
    return status;
}

static nt_status read_platform(nt__engine *engine) {
    NT__ARGS(PJRT_Client_PlatformName, name, .client = engine->client);
    nt_status status = NT__CALL(PJRT_Client_PlatformName, &name);
    if (status != NT_OK) return status;
    NT__ARGS(PJRT_Client_PlatformVersion, version, .client = engine->client);
    status = NT__CALL(PJRT_Client_PlatformVersion, &version);
    if (status != NT_OK) return status;
    engine->facts.platform = copy(engine, name.platform_name, name.platform_name_size);
    engine->facts.platform_version = copy(engine, version.platform_version, version.platform_version_size);
    return engine->facts.platform && engine->facts.platform_version ? NT_OK : NT_OUT_OF_MEMORY;
}

static void read_plugin_facts(nt__engine *engine) {
    engine->facts.plugin_path = nt__loaded.path;
    engine->facts.api_major = nt__loaded.api->pjrt_api_version.major_version;
    engine->facts.api_minor = nt__loaded.api->pjrt_api_version.minor_version;
    engine->facts.stablehlo_version = nt__loaded.stablehlo_version;
    engine->facts.plugin_hash = nt__loaded.hash;
}

/* ---- opening and closing ---------------------------------------------------------------------------------------- */

static void clear(nt__engine *engine) {
    nt__arena_free(&engine->arena);
    *engine = (nt__engine){0};
}

static nt_status read_facts(nt__engine *engine, int devices) {
    read_plugin_facts(engine);
    nt_status status = read_devices(engine, devices);
    if (status == NT_OK) status = read_device_texts(engine);
    if (status == NT_OK) status = read_platform(engine);
    return status;
}

static nt_status open_client(nt__engine *engine, int devices) {
    nt_status status = nt__plugin_load();
    if (status != NT_OK) return status;
    status = create_client_with(devices, &engine->client);
    if (status != NT_OK) return nt__fail_in(status, "making a client of %d devices", devices);
    status = read_facts(engine, devices);
    if (status != NT_OK) {
        NT__ARGS(PJRT_Client_Destroy, args, .client = engine->client);
        (void)NT__CALL_QUIETLY(PJRT_Client_Destroy, &args);
        return nt__fail_in(status, "reading the facts of the client");
    }
    engine->devices_asked = devices;
    engine->process = getpid();
    engine->open = true;
    return NT_OK;
}

nt_status nt__engine_check_process(void) {
    if (!the_engine.open || the_engine.process == getpid()) return NT_OK;
    return nt__fail(
        NT_INVALID,
        "this process was forked from process %ld, which has the engine open: the engine's threads stayed "
        "there, so it cannot be used, nor closed, here. Fork before the first run is made, or start another "
        "program",
        (long)the_engine.process);
}

static nt_status open_or_reuse(nt__engine *engine, int devices) {
    nt_status own = nt__engine_check_process();
    if (own != NT_OK) return own;
    if (!engine->open) {
        nt_status status = open_client(engine, devices);
        if (status != NT_OK) clear(engine);
        return status;
    }
    if (engine->devices_asked == devices) return NT_OK;
    return nt__fail(NT_INVALID,
                    "the engine of this process is open with %d devices, now %d are asked for: the number cannot "
                    "change while it is open, use the same number or another process",
                    engine->devices_asked, devices);
}

nt_status nt__engine_open(int devices, nt__engine **out) {
    if (!out) return nt__fail(NT_INVALID, "opening the engine: no place for it was given (NULL)");
    *out = NULL;
    if (devices < 1 || devices > NT__MAX_DEVICES)
        return nt__fail(NT_INVALID, "opening the engine: %d devices, must be 1 to %d", devices, NT__MAX_DEVICES);
    pthread_mutex_lock(&lock);
    nt_status status = open_or_reuse(&the_engine, devices);
    if (status == NT_OK) *out = &the_engine;
    pthread_mutex_unlock(&lock);
    return status;
}

void nt__engine_hold(void) {
    pthread_mutex_lock(&lock);
    holders++;
    pthread_mutex_unlock(&lock);
}

void nt__engine_release(void) {
    pthread_mutex_lock(&lock);
    holders--;
    pthread_mutex_unlock(&lock);
}

/* "3 parameters, 1 output, 2 executables". The counts of every purpose fit. */
enum { LIVING_TEXT = 512 };

static size_t add_living(char *out, size_t used, uint64_t live, const char *what) {
    if (!live) return used;
    return used + (size_t)snprintf(out + used, LIVING_TEXT - used, "%s%llu %s", used ? ", " : "",
                                   (unsigned long long)live, what);
}

static nt_status refuse_while_alive(const nt__engine_counts *counts) {
    char list[LIVING_TEXT] = "";
    size_t used = 0;
    for (int i = 0; i < NT__PURPOSE_COUNT; i++)
        used = add_living(list, used, counts->buffers[i].live_count, nt__purpose_name((nt__purpose)i));
    add_living(list, used, counts->executables.live_count, "executables");
    return nt__fail(NT_INVALID, "closing the engine: still alive on the devices: %s; free them first", list);
}

static nt_status refuse_while_held(void) {
    return nt__fail(NT_INVALID,
                    "closing the engine: %zu run%s not freed, or just being made: call nt_run_free first, and nothing "
                    "of this from within a hook or listener",
                    holders, holders == 1 ? " is" : "s are");
}

static nt_status close_engine(nt__engine *engine) {
    nt_status own = nt__engine_check_process();
    if (own != NT_OK) return own;
    if (holders) return refuse_while_held();
    if (!engine->open) return NT_OK;
    nt__engine_counts counts = nt__engine_counts_now();
    if (counts.all_buffers.live_count || counts.executables.live_count) return refuse_while_alive(&counts);
    nt_status status = destroy_client(engine->client);
    if (status != NT_OK) status = nt__fail_in(status, "closing the engine");
    clear(engine);
    return status;
}

/* An engine that could not be opened may have left its text as well. */
nt_status nt__engine_close(void) {
    pthread_mutex_lock(&lock);
    nt_status status = close_engine(&the_engine);
    pthread_mutex_unlock(&lock);
    if (status == NT_OK) nt__engine_forget_text();
    return status;
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

nt_status nt__engine_check(const nt__engine *engine) {
    if (engine && engine->open) return NT_OK;
    return nt__fail(NT_INVALID, "%s: call nt__engine_open first", engine ? "the engine is closed" : "no engine (NULL)");
}

const nt__engine_facts *nt__engine_facts_of(const nt__engine *engine) {
    return engine ? &engine->facts : NULL;
}

const char *nt__device_text(const nt__engine *engine, int device) {
    if (nt__engine_check(engine) != NT_OK || device < 0 || device >= engine->facts.device_count) return "no device";
    return engine->device_texts[device];
}
