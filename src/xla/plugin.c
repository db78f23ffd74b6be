/* Finds the plugin of the process, loads it and checks that it is one. A plugin is never unloaded.
 * Not here: the client made with it.
 */
#include "xla/xla_internal.h"
#include "base/files.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <unistd.h>
#include <sys/wait.h>
#include <sys/stat.h>

nt__plugin nt__loaded;

static const char how_to_get_one[] = "get one with `make setup` in nitro's source folder, or download one with pip and "
                                     "set NITRO_PLUGIN=/path/to/plugin.so";

/* ---- opening one file ------------------------------------------------------------------------------------------- */

static nt_status check_file(const char *path, struct stat *info) {
    if (stat(path, info) != 0) return nt__fail(NT_NOT_FOUND, "plugin '%s': no such file; %s", path, how_to_get_one);
    if (S_ISDIR(info->st_mode))
        return nt__fail(NT_INVALID,
                        "plugin '%s' is a folder: NITRO_PLUGIN names one file, NITRO_PLUGIN_PATH names folders", path);
    return NT_OK;
}

/* Enough of the table to read the version and any error. */
static nt_status check_table(const char *path, const PJRT_Api *api) {
    size_t least = offsetof(PJRT_Api, PJRT_Error_GetCode) + sizeof(void *);
    if (!api) return nt__fail(NT_ENGINE, "plugin '%s': GetPjrtApi gave no table; use another plugin", path);
    if (api->struct_size < least)
        return nt__fail(NT_ENGINE, "plugin '%s': its table has %zu bytes, at least %zu are needed; use another plugin",
                        path, api->struct_size, least);
    int major = api->pjrt_api_version.major_version, minor = api->pjrt_api_version.minor_version;
    if (major != PJRT_API_MAJOR)
        return nt__fail(NT_ENGINE, "plugin '%s' has PJRT API %d.%d, nitro was built for major version %d; %s", path,
                        major, minor, PJRT_API_MAJOR, how_to_get_one);
    if (!api->PJRT_Error_Destroy || !api->PJRT_Error_Message || !api->PJRT_Error_GetCode)
        return nt__fail(NT_ENGINE, "plugin '%s' has no slots to read errors with; use another plugin", path);
    return NT_OK;
}

static nt_status fail_to_load(nt_status status, const char *path, const char *reason) {
    return nt__fail(status, "plugin '%s' cannot be loaded as a shared object: %s; %s", path, reason, how_to_get_one);
}

static nt_status fail_noexec(const char *path) {
    return nt__fail(
        NT_INVALID,
        "plugin '%s' lies on a file system that is mounted noexec, from which nothing can be loaded: copy it "
        "to another one and set NITRO_PLUGIN to its new path",
        path);
}

/* The table of a plugin that is not initialised. */
static nt_status open_table(const char *path, const PJRT_Api **out) {
    nt_status status = nt__check_shared_object(path);
    if (status != NT_OK) return fail_to_load(status, path, nt_error_message());
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle && nt__is_noexec(path)) return fail_noexec(path);
    if (!handle) return fail_to_load(NT_INVALID, path, dlerror());
    const PJRT_Api *(*get_api)(void);
    *(void **)&get_api = dlsym(handle, "GetPjrtApi");
    if (!get_api)
        return nt__fail(NT_INVALID, "'%s' is a shared object but no PJRT plugin: it has no GetPjrtApi; %s", path,
                        how_to_get_one);
    const PJRT_Api *api = get_api();
    status = check_table(path, api);
    if (status == NT_OK) *out = api;
    return status;
}

/* ---- the newest of several -------------------------------------------------------------------------------------- */

typedef struct search {
    char **paths;
    size_t count, capacity;
} search;

static void free_search(search *found) {
    for (size_t i = 0; i < found->count; i++) nt__free(found->paths[i]);
    nt__free(found->paths);
}

static bool add_path(search *found, const char *folder, int folder_length, const char *name) {
    if (!NT__GROW(found->paths, found->count, found->capacity)) return false;
    char *path = nt__sprintf("%.*s/%s", folder_length, folder, name);
    if (path) found->paths[found->count++] = path;
    return path != NULL;
}

/* Adds the .so files of a folder. A folder that cannot be read has none. */
static nt_status search_folder(search *found, const char *folder, int folder_length) {
    char *name = nt__sprintf("%.*s", folder_length, folder);
    if (!name) return NT_OUT_OF_MEMORY;
    DIR *entries = opendir(name);
    nt__free(name);
    if (!entries) return NT_OK;
    bool good = true;
    for (struct dirent *entry; good && (entry = readdir(entries));) {
        if (nt__ends_in(entry->d_name, ".so")) good = add_path(found, folder, folder_length, entry->d_name);
    }
    closedir(entries);
    return good ? NT_OK : NT_OUT_OF_MEMORY;
}

static nt_status search_folders(search *found, const char *folders) {
    nt_status status = NT_OK;
    for (const char *at = folders; status == NT_OK && *at;) {
        size_t length = strcspn(at, ":");
        if (length) status = search_folder(found, at, (int)length);
        at += length + (at[length] == ':');
    }
    return status;
}

/* The version beside the plugin, in a file <plugin>.api with the text "0 115": it spares loading a plugin of 200 MB
 * only to ask it. False when there is no such file or it holds something else. */
static bool read_version_beside(const char *path, int *major, int *minor) {
    char beside[NT__PATH_SIZE];
    if (snprintf(beside, sizeof beside, "%s.api", path) >= (int)sizeof beside) return false;
    enum { MOST = 64 };
    char *text;
    size_t length;
    bool good = nt__read_trusted(beside, MOST, &text, &length) == NT_OK && sscanf(text, "%d %d", major, minor) == 2;
    nt__free(text);
    if (!good) nt__fail_nothing();
    return good;
}

/* The minor version of a usable plugin. */
static nt_status version_of(const char *path, int *minor) {
    int major;
    nt_status whole = nt__check_shared_object(path);
    if (whole != NT_OK) return fail_to_load(whole, path, nt_error_message());
    if (read_version_beside(path, &major, minor)) {
        if (major == PJRT_API_MAJOR) return NT_OK;
        return nt__fail(NT_ENGINE, "plugin '%s' has PJRT API %d.%d, nitro was built for major version %d", path, major,
                        *minor, PJRT_API_MAJOR);
    }
    const PJRT_Api *api;
    nt_status status = open_table(path, &api);
    if (status == NT_OK) *minor = api->pjrt_api_version.minor_version;
    return status;
}

/* Who does not look would run with an older plugin, and other numbers, than the one he put there. */
static nt_status warn_of_others(const char *path) {
    int file;
    nt_status status = nt__open_trusted(path, &file);
    if (status == NT_OK) close(file);
    return status == NT_INVALID ? nt__warn("a plugin is passed over: %s", nt_error_message()) : NT_OK;
}

/* The newest; of equal ones the first by name, so that the choice does not hang on the order in the folder. *out is
 * NULL when none can be used. */
static nt_status newest(const search *found, const char **out) {
    int best_minor = 0;
    *out = NULL;
    for (size_t i = 0; i < found->count; i++) {
        const char *path = found->paths[i];
        int minor;
        nt_status status = warn_of_others(path);
        if (status != NT_OK) return status;
        if (version_of(path, &minor) != NT_OK) continue;
        if (*out && (minor < best_minor || (minor == best_minor && strcmp(path, *out) > 0))) continue;
        *out = path;
        best_minor = minor;
    }
    return NT_OK;
}

/* ---- which file ------------------------------------------------------------------------------------------------- */

static nt_status copy_path(const char *path) {
    /* dlopen looks for a name without a slash elsewhere. */
    const char *prefix = strchr(path, '/') ? "" : "./";
    if (snprintf(nt__loaded.path, NT__PATH_SIZE, "%s%s", prefix, path) < NT__PATH_SIZE) return NT_OK;
    return nt__fail(NT_INVALID, "the plugin's path has %zu bytes, at most %d are possible: %.80s...", strlen(path),
                    NT__PATH_SIZE - 1, path);
}

static nt_status choose(const search *found, const char *folders) {
    if (found->count == 0)
        return nt__fail(NT_NOT_FOUND, "no plugin found: no .so file in '%s'; %s", folders, how_to_get_one);
    /* A single one needs no comparison; loading it says what is wrong with it. */
    const char *path = found->paths[0];
    nt_status status = found->count == 1 ? NT_OK : newest(found, &path);
    if (status != NT_OK) return status;
    if (path) return copy_path(path);
    return nt__fail_in(NT_NOT_FOUND, "no plugin found: none of the %zu .so files in '%s' can be used, the last because",
                       found->count, folders);
}

/* Fills nt__loaded.path. */
static nt_status find(void) {
    const char *given = getenv("NITRO_PLUGIN");
    if (given && *given) return copy_path(given);
    const char *folders = getenv("NITRO_PLUGIN_PATH");
    char own[NT__PATH_SIZE];
    if (!folders || !*folders) folders = nt__plugin_folders(own);
    search found = {0};
    nt_status status = search_folders(&found, folders);
    if (status == NT_OK) status = choose(&found, folders);
    free_search(&found);
    return status;
}

/* ---- loading ---------------------------------------------------------------------------------------------------- */

static nt__hash hash_of(const char *path, const struct stat *info) {
    char text[NT__PATH_SIZE + 128];
    int length = snprintf(text, sizeof text, "%s\n%lld\n%lld.%09ld", path, (long long)info->st_size,
                          (long long)info->st_mtim.tv_sec, info->st_mtim.tv_nsec);
    return nt__hash_bytes(text, (size_t)length);
}

/* "1.13.3" from a list of integers. */
static void copy_version(const PJRT_NamedValue *value, char *out, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < value->value_size && used < size; i++)
        used +=
            (size_t)snprintf(out + used, size - used, "%s%lld", i ? "." : "", (long long)value->int64_array_value[i]);
}

/* A plugin that does not say leaves the text empty. Its own struct may be larger than ours: its size is the stride. */
static void read_stablehlo_version(void) {
    static const char name[] = "stablehlo_current_version";
    NT__ARGS(PJRT_Plugin_Attributes, attributes, .num_attributes = 0);
    if (!NT__CALL_QUIETLY(PJRT_Plugin_Attributes, &attributes)) return;
    const char *at = (const char *)attributes.attributes;
    for (size_t i = 0; i < attributes.num_attributes; i++) {
        const PJRT_NamedValue *value = (const PJRT_NamedValue *)at;
        if (value->struct_size < PJRT_NamedValue_STRUCT_SIZE) return;
        at += value->struct_size;
        if (value->type != PJRT_NamedValue_kInt64List || value->name_size != sizeof name - 1) continue;
        if (memcmp(value->name, name, sizeof name - 1) != 0) continue;
        copy_version(value, nt__loaded.stablehlo_version, sizeof nt__loaded.stablehlo_version);
    }
}

typedef struct needed_slot {
    const char *name;
    size_t offset;
} needed_slot;
#define SLOT(slot) \
    { #slot, offsetof(PJRT_Api, slot) }

/* Every function that nitro calls from here on, but for those it can do without: the plugin's attributes, whether a
 * buffer was deleted, the memory of a program. Checked before anything is made, so that nothing is made that cannot be
 * freed. */
static const needed_slot needed_slots[] = {
    SLOT(PJRT_Event_Destroy),
    SLOT(PJRT_Event_Await),
    SLOT(PJRT_Client_Create),
    SLOT(PJRT_Client_Destroy),
    SLOT(PJRT_Client_PlatformName),
    SLOT(PJRT_Client_PlatformVersion),
    SLOT(PJRT_Client_AddressableDevices),
    SLOT(PJRT_Client_Compile),
    SLOT(PJRT_Client_BufferFromHostBuffer),
    SLOT(PJRT_DeviceDescription_DebugString),
    SLOT(PJRT_Device_GetDescription),
    SLOT(PJRT_Executable_Destroy),
    SLOT(PJRT_Executable_NumOutputs),
    SLOT(PJRT_LoadedExecutable_Destroy),
    SLOT(PJRT_LoadedExecutable_GetExecutable),
    SLOT(PJRT_LoadedExecutable_AddressableDevices),
    SLOT(PJRT_LoadedExecutable_Execute),
    SLOT(PJRT_Buffer_Destroy),
    SLOT(PJRT_Buffer_ToHostBuffer),
    SLOT(PJRT_Executable_OutputElementTypes),
    SLOT(PJRT_Executable_OutputDimensions),
};

static bool has_slot(const PJRT_Api *api, const needed_slot *slot) {
    void (*function)(void) = NULL;
    if (slot->offset + sizeof function > api->struct_size) return false;
    memcpy(&function, (const char *)api + slot->offset, sizeof function);
    return function != NULL;
}

static nt_status check_slots(void) {
    for (size_t i = 0; i < sizeof needed_slots / sizeof *needed_slots; i++)
        if (!has_slot(nt__loaded.api, &needed_slots[i])) return nt__call_missing(needed_slots[i].name);
    return NT_OK;
}

/* An unknown name in XLA_FLAGS makes the engine end the process at its first use: a child process tries them. */
static nt_status try_flags(void) {
    const char *flags = getenv("XLA_FLAGS");
    const needed_slot called[] = {SLOT(PJRT_Plugin_Initialize), SLOT(PJRT_Client_Create)};
    if (!flags || !*flags || !has_slot(nt__loaded.api, &called[0]) || !has_slot(nt__loaded.api, &called[1]))
        return NT_OK;
    nt_status status = nt__flags_check_ranges(flags);
    if (status != NT_OK) return status;
    pid_t child = fork();
    if (child < 0) return nt__fail(NT_ENGINE, "cannot start a process that tries XLA_FLAGS: %s", strerror(errno));
    if (child == 0) {
        PJRT_Plugin_Initialize_Args start = {.struct_size = PJRT_Plugin_Initialize_Args_STRUCT_SIZE};
        PJRT_Client_Create_Args create = {.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE};
        nt__loaded.api->PJRT_Plugin_Initialize(&start);
        nt__loaded.api->PJRT_Client_Create(&create);
        _exit(0);
    }
    int how = 0;
    while (waitpid(child, &how, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0) return NT_OK;
    return nt__fail(NT_INVALID,
                    "the engine ends the process on XLA_FLAGS='%s' (its own words stand above): correct or unset it",
                    flags);
}

static nt_status initialise(void) {
    NT__ARGS(PJRT_Plugin_Initialize, args, .extension_start = NULL);
    nt_status status = try_flags();
    if (status == NT_OK) status = NT__CALL(PJRT_Plugin_Initialize, &args);
    if (status == NT_OK) status = check_slots();
    if (status == NT_OK) return NT_OK;
    status = nt__fail_in(status, "initialising the plugin '%s'", nt__loaded.path);
    nt__loaded.api = NULL;
    return status;
}

nt_status nt__plugin_load(void) {
    if (nt__loaded.api) return NT_OK;
    /* The plugins log to standard error unless told before they are loaded. A user's own setting stays. */
    setenv("TF_CPP_MIN_LOG_LEVEL", "2", 0);
    struct stat info;
    nt_status status = find();
    if (status == NT_OK) status = check_file(nt__loaded.path, &info);
    if (status != NT_OK) return status;
    status = open_table(nt__loaded.path, &nt__loaded.api);
    if (status == NT_OK) status = initialise();
    if (status != NT_OK) return status;
    nt__loaded.hash = hash_of(nt__loaded.path, &info);
    read_stablehlo_version();
    return NT_OK;
}
