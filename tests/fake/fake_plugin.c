/* A plugin without an engine: the part of the PJRT C API that nitro calls. It counts every object that is made and
 * destroyed, notices the use of a destroyed one, and fails when it is told to.
 * Not here: computing. The results of a program are zeros of the declared types.
 *
 * NITRO_FAKE is a list of settings, separated by commas. How the table looks is read when the plugin is loaded, the
 * rest also whenever a client is made:
 *
 *   api=0.40         the version of the API, here 0.40
 *   missing=SLOT     the table has NULL for this function
 *   small-table      the table ends before the functions that came after version 0.29
 *   refuse-option    a client with the option cpu_device_count is refused, one without it has a single device
 *   forget           objects are not kept in a list: their use is not checked, and the plugin is fast, for measuring
 *   result-shape     the first result of a program is reported with one dimension more than it was declared with
 *   POINT=HOW        every call of this kind fails; POINT=HOW@N: the N-th one since the client was made
 *     points         client, compile, upload, run, readback, event (those of uploads and readbacks together), save and
 *                    load of a program (load=abort ends the process)
 *     ways           error (of a compile: at the line of an operation), oom, refused; for compiles also long: an error
 *                    of a megabyte; for runs also taken: donated
 *                    arguments are gone although the run failed; for events also slow: they come true 20 ms late
 *
 * What was counted is the JSON text of nitro_fake_counts, which also goes to the file NITRO_FAKE_COUNTS at exit.
 */
#include <pjrt_c_api.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORTED __attribute__((visibility("default")))
#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory) abort();
    return memory;
}

/* ---- objects ---------------------------------------------------------------------------------------------------- */

typedef enum object_kind { CLIENT, BUFFER, LOADED_EXECUTABLE, EXECUTABLE, EVENT, ERROR, KIND_COUNT } object_kind;
static const char *const kind_names[KIND_COUNT] = {
    "clients", "buffers", "loaded_executables", "executables", "events", "errors",
};

/* The head of every object. A destroyed one stays in the list, so that a later use of it is noticed. */
typedef struct object {
    struct object *next;
    object_kind kind;
    bool destroyed;
} object;

enum { MOST_DEVICES = 8, MOST_DIMENSIONS = 8, MOST_PORTS = 64, MOST_TEXT = 256, LONG_NOTES = 20000 };

typedef struct array_type {
    PJRT_Buffer_Type element;
    size_t rank, bytes;
    int64_t dims[MOST_DIMENSIONS];
} array_type;

typedef struct main_signature {
    size_t argument_count, result_count;
    array_type arguments[MOST_PORTS], results[MOST_PORTS];
    bool donated[MOST_PORTS];
} main_signature;

struct PJRT_DeviceDescription {
    char text[16];
};
struct PJRT_Device {
    struct PJRT_DeviceDescription description;
};
struct PJRT_Client {
    object object;
    size_t device_count;
};
struct PJRT_Error {
    object object;
    PJRT_Error_Code code;
    char *text;
};
struct PJRT_Buffer {
    object object;
    array_type type;
    void *data;       /* NULL when it was lent or deleted */
    const char *lent; /* the caller's memory */
    bool deleted, failed;
};
struct PJRT_Event {
    object object;
    const char *failure; /* NULL: none */
    double ready;
    PJRT_Buffer *lender; /* comes true when this buffer, made of lent memory, is destroyed; NULL: none */
};
struct PJRT_LoadedExecutable {
    object object;
    main_signature signature;
    bool was_saved; /* made of bytes */
};
struct PJRT_Executable {
    object object;
    main_signature signature;
    bool was_saved;
    /* As they are reported. */
    PJRT_Buffer_Type elements[MOST_PORTS];
    int64_t dims[MOST_PORTS * MOST_DIMENSIONS];
    size_t ranks[MOST_PORTS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static object *objects;
static PJRT_Device devices[MOST_DEVICES];
static PJRT_Device *device_list[MOST_DEVICES];
static struct {
    long made[KIND_COUNT], destroyed[KIND_COUNT], live_bytes, uploads, downloads, compiles, saves, loads, saved_alive,
        runs, misuses;
    char first_misuse[MOST_TEXT];
} counts;

static void misuse(const char *what) {
    if (!counts.misuses++) snprintf(counts.first_misuse, sizeof counts.first_misuse, "%s", what);
}

static bool forgets; /* objects are not kept in the list */

static void *make(object_kind kind, size_t size) {
    object *made = allocate(1, size);
    made->kind = kind;
    made->next = objects;
    if (!forgets) objects = made;
    counts.made[kind]++;
    return made;
}

/* Whether a pointer that came from outside is an object of this kind and alive. */
static bool alive(const void *pointer, object_kind kind, const char *call) {
    if (forgets) return true;
    const object *found = objects;
    char text[MOST_TEXT];
    while (found && found != pointer) found = found->next;
    if (found && found->kind == kind && !found->destroyed) return true;
    snprintf(text, sizeof text, "%s: %s of the %s", call, found ? "a destroyed one or one of another kind" : "none",
             kind_names[kind]);
    misuse(text);
    return false;
}

static bool destroy(void *pointer, object_kind kind, const char *call) {
    if (!alive(pointer, kind, call)) return false;
    ((object *)pointer)->destroyed = true;
    counts.destroyed[kind]++;
    return true;
}

/* ---- settings --------------------------------------------------------------------------------------------------- */

typedef enum fail_point {
    AT_CLIENT,
    AT_COMPILE,
    AT_UPLOAD,
    AT_RUN,
    AT_READBACK,
    AT_EVENT,
    AT_SAVE,
    AT_LOAD,
    POINT_COUNT
} fail_point;
static const char *const point_names[POINT_COUNT] = {"client",   "compile", "upload", "run",
                                                     "readback", "event",   "save",   "load"};

static struct {
    bool small_table, refuse_option, result_shape;
    int major, minor;
    char missing[MOST_TEXT];
    struct {
        char how[16];       /* "": no failure */
        unsigned at, calls; /* at 0: every call fails */
    } points[POINT_COUNT];
} settings;

/* "POINT=HOW" or "POINT=HOW@N". */
static bool set_point(const char *item) {
    size_t length = strcspn(item, "=");
    for (int i = 0; i < POINT_COUNT && item[length]; i++) {
        if (strlen(point_names[i]) != length || memcmp(item, point_names[i], length) != 0) continue;
        sscanf(item + length + 1, "%15[^@]@%u", settings.points[i].how, &settings.points[i].at);
        return true;
    }
    return false;
}

/* A setting that is none would let a test pass without testing anything. */
static void set(const char *item) {
    if (strcmp(item, "small-table") == 0)
        settings.small_table = true;
    else if (strcmp(item, "refuse-option") == 0)
        settings.refuse_option = true;
    else if (strcmp(item, "forget") == 0)
        forgets = true;
    else if (strcmp(item, "result-shape") == 0)
        settings.result_shape = true;
    else if (sscanf(item, "missing=%255s", settings.missing) != 1 &&
             sscanf(item, "api=%d.%d", &settings.major, &settings.minor) != 2 && !set_point(item)) {
        fprintf(stderr, "fake plugin: NITRO_FAKE has '%s', which is no setting\n", item);
        abort();
    }
}

static void read_settings(void) {
    const char *given = getenv("NITRO_FAKE");
    char text[1024], *rest = NULL;
    snprintf(text, sizeof text, "%s", given ? given : "");
    memset(&settings, 0, sizeof settings);
    settings.major = PJRT_API_MAJOR;
    settings.minor = PJRT_API_MINOR;
    for (char *item = strtok_r(text, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) set(item);
}

/* How this call is to go: "" when it is to succeed. */
static const char *outcome(fail_point point) {
    unsigned call = ++settings.points[point].calls, at = settings.points[point].at;
    return at == 0 || at == call ? settings.points[point].how : "";
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

static PJRT_Error *fail(PJRT_Error_Code code, const char *text) {
    PJRT_Error *error = make(ERROR, sizeof *error);
    error->code = code;
    error->text = allocate(strlen(text) + 1, 1);
    memcpy(error->text, text, strlen(text));
    return error;
}

/* The error for an outcome. */
static PJRT_Error *fail_as(const char *how) {
    if (strcmp(how, "oom") == 0)
        return fail(PJRT_Error_Code_RESOURCE_EXHAUSTED, "Out of memory allocating 4096 bytes.");
    if (strcmp(how, "refused") == 0)
        return fail(PJRT_Error_Code_INVALID_ARGUMENT, "Buffer passed to Execute() as argument 1 to replica 0 is on "
                                                      "device fake:1, but replica is assigned to device fake:0.");
    return fail(PJRT_Error_Code_INTERNAL, "The fake plugin fails as it was told to.");
}

static PJRT_Error *fail_misused(void) {
    return fail(PJRT_Error_Code_INTERNAL, "The fake plugin was misused.");
}

static pthread_mutex_t *enter(const char *call, bool size_is_right) {
    char text[MOST_TEXT];
    pthread_mutex_lock(&lock);
    snprintf(text, sizeof text, "%s: struct_size is wrong", call);
    if (!size_is_right) misuse(text);
    return &lock;
}

static void leave(pthread_mutex_t **held) {
    pthread_mutex_unlock(*held);
}

/* Holds the lock until the end of the function. */
#define ENTER(slot)                                                 \
    __attribute__((cleanup(leave), unused)) pthread_mutex_t *held = \
        enter(#slot, args->struct_size == slot##_Args_STRUCT_SIZE)

static void error_destroy(PJRT_Error_Destroy_Args *args) {
    ENTER(PJRT_Error_Destroy);
    if (!destroy(args->error, ERROR, "PJRT_Error_Destroy")) return;
    free(args->error->text);
    args->error->text = NULL;
}

static void error_message(PJRT_Error_Message_Args *args) {
    ENTER(PJRT_Error_Message);
    if (!alive(args->error, ERROR, "PJRT_Error_Message")) return;
    args->message = args->error->text;
    args->message_size = strlen(args->error->text);
}

static PJRT_Error *error_code(PJRT_Error_GetCode_Args *args) {
    ENTER(PJRT_Error_GetCode);
    if (!alive(args->error, ERROR, "PJRT_Error_GetCode")) return fail_misused();
    args->code = args->error->code;
    return NULL;
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Reads memory as an engine would, so that a sanitizer notices when it was freed too early. */
static void touch(const void *memory, size_t bytes) {
    const volatile char *at = memory;
    for (size_t i = 0; i < bytes; i++) (void)at[i];
}

/* An event that comes true at once, late, or not. */
static PJRT_Event *make_event(const char *how) {
    PJRT_Event *event = make(EVENT, sizeof *event);
    bool slow = strcmp(how, "slow") == 0;
    event->ready = slow ? now() + 0.02 : 0;
    event->failure = *how && !slow ? how : NULL;
    return event;
}

static bool lender_is_gone(const PJRT_Event *event) {
    if (!event->lender || event->lender->object.destroyed) return true;
    misuse("PJRT_Event_Await: the memory is still lent to a buffer, this would wait for ever");
    return false;
}

static PJRT_Error *event_await(PJRT_Event_Await_Args *args) {
    ENTER(PJRT_Event_Await);
    const PJRT_Event *event = args->event;
    if (!alive(event, EVENT, "PJRT_Event_Await") || !lender_is_gone(event)) return fail_misused();
    double left = event->ready - now();
    pthread_mutex_unlock(&lock);
    if (left > 0) nanosleep(&(struct timespec){.tv_nsec = (long)(left * 1e9)}, NULL);
    pthread_mutex_lock(&lock);
    if (event->lender) touch(event->lender->lent, event->lender->type.bytes);
    return event->failure ? fail_as(event->failure) : NULL;
}

static PJRT_Error *event_destroy(PJRT_Event_Destroy_Args *args) {
    ENTER(PJRT_Event_Destroy);
    destroy(args->event, EVENT, "PJRT_Event_Destroy");
    return NULL;
}

/* ---- plugin and client ------------------------------------------------------------------------------------------ */

static PJRT_Error *plugin_initialize(PJRT_Plugin_Initialize_Args *args) {
    ENTER(PJRT_Plugin_Initialize);
    for (int i = 0; i < MOST_DEVICES; i++) {
        snprintf(devices[i].description.text, sizeof devices[i].description.text, "fake:%d", i);
        device_list[i] = &devices[i];
    }
    return NULL;
}

static PJRT_Error *plugin_attributes(PJRT_Plugin_Attributes_Args *args) {
    ENTER(PJRT_Plugin_Attributes);
    static const int64_t version[] = {1, 2, 3};
    static const char name[] = "stablehlo_current_version";
    static const PJRT_NamedValue attribute = {
        .struct_size = PJRT_NamedValue_STRUCT_SIZE,
        .name = name,
        .name_size = sizeof name - 1,
        .type = PJRT_NamedValue_kInt64List,
        .int64_array_value = version,
        .value_size = COUNT_OF(version),
    };
    args->attributes = &attribute;
    args->num_attributes = 1;
    return NULL;
}

static PJRT_Error *client_create(PJRT_Client_Create_Args *args) {
    ENTER(PJRT_Client_Create);
    read_settings();
    const char *how = outcome(AT_CLIENT);
    if (*how) return fail_as(how);
    if (args->num_options && settings.refuse_option)
        return fail(PJRT_Error_Code_INVALID_ARGUMENT,
                    "Unexpected option name passed to PJRT_Client_Create: cpu_device_count");
    int64_t count = args->num_options ? args->create_options[0].int64_value : 1;
    PJRT_Client *client = make(CLIENT, sizeof *client);
    client->device_count = count < MOST_DEVICES ? (size_t)count : MOST_DEVICES;
    args->client = client;
    return NULL;
}

static PJRT_Error *client_destroy(PJRT_Client_Destroy_Args *args) {
    ENTER(PJRT_Client_Destroy);
    destroy(args->client, CLIENT, "PJRT_Client_Destroy");
    for (int i = 0; i < KIND_COUNT; i++)
        if (i != ERROR && counts.made[i] != counts.destroyed[i])
            misuse("PJRT_Client_Destroy: something of the client is alive");
    return NULL;
}

static PJRT_Error *client_devices(PJRT_Client_AddressableDevices_Args *args) {
    ENTER(PJRT_Client_AddressableDevices);
    if (!alive(args->client, CLIENT, "PJRT_Client_AddressableDevices")) return fail_misused();
    args->addressable_devices = device_list;
    args->num_addressable_devices = args->client->device_count;
    return NULL;
}

static PJRT_Error *client_platform(PJRT_Client_PlatformName_Args *args) {
    ENTER(PJRT_Client_PlatformName);
    args->platform_name = "fake";
    args->platform_name_size = strlen(args->platform_name);
    return NULL;
}

static PJRT_Error *client_version(PJRT_Client_PlatformVersion_Args *args) {
    ENTER(PJRT_Client_PlatformVersion);
    args->platform_version = "fake 1";
    args->platform_version_size = strlen(args->platform_version);
    return NULL;
}

static PJRT_Error *device_description(PJRT_Device_GetDescription_Args *args) {
    ENTER(PJRT_Device_GetDescription);
    args->device_description = &args->device->description;
    return NULL;
}

static PJRT_Error *device_text(PJRT_DeviceDescription_DebugString_Args *args) {
    ENTER(PJRT_DeviceDescription_DebugString);
    args->debug_string = args->device_description->text;
    args->debug_string_size = strlen(args->debug_string);
    return NULL;
}

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    PJRT_Buffer_Type type;
    size_t bytes;
} elements[] = {
    {"f32", PJRT_Buffer_Type_F32, 4},  {"f64", PJRT_Buffer_Type_F64, 8},  {"bf16", PJRT_Buffer_Type_BF16, 2},
    {"f16", PJRT_Buffer_Type_F16, 2},  {"i1", PJRT_Buffer_Type_PRED, 1},  {"i8", PJRT_Buffer_Type_S8, 1},
    {"i16", PJRT_Buffer_Type_S16, 2},  {"i32", PJRT_Buffer_Type_S32, 4},  {"i64", PJRT_Buffer_Type_S64, 8},
    {"ui8", PJRT_Buffer_Type_U8, 1},   {"ui16", PJRT_Buffer_Type_U16, 2}, {"ui32", PJRT_Buffer_Type_U32, 4},
    {"ui64", PJRT_Buffer_Type_U64, 8},
};

static void find_bytes(array_type *type) {
    type->bytes = 0;
    for (size_t i = 0; i < COUNT_OF(elements); i++)
        if (elements[i].type == type->element) type->bytes = elements[i].bytes;
    for (size_t i = 0; i < type->rank; i++) type->bytes *= (size_t)type->dims[i];
}

/* A buffer of zeros. */
static PJRT_Buffer *make_buffer(const array_type *type) {
    PJRT_Buffer *buffer = make(BUFFER, sizeof *buffer);
    buffer->type = *type;
    buffer->data = allocate(type->bytes, 1);
    counts.live_bytes += (long)type->bytes;
    return buffer;
}

/* Takes a buffer's memory away; the object stays. */
static void delete_memory(PJRT_Buffer *buffer) {
    if (buffer->deleted) return;
    buffer->deleted = true;
    counts.live_bytes -= (long)buffer->type.bytes;
    free(buffer->data);
    buffer->data = NULL;
}

static void lend(PJRT_Buffer *buffer, const void *memory, PJRT_Event *done) {
    free(buffer->data);
    buffer->data = NULL;
    buffer->lent = memory;
    done->lender = buffer;
}

static PJRT_Error *buffer_from_host(PJRT_Client_BufferFromHostBuffer_Args *args) {
    ENTER(PJRT_Client_BufferFromHostBuffer);
    if (!alive(args->client, CLIENT, "PJRT_Client_BufferFromHostBuffer")) return fail_misused();
    const char *how = outcome(AT_UPLOAD);
    if (*how) return fail_as(how);
    array_type type = {.element = args->type, .rank = args->num_dims};
    for (size_t i = 0; i < args->num_dims; i++) type.dims[i] = args->dims[i];
    find_bytes(&type);
    PJRT_Buffer *buffer = make_buffer(&type);
    PJRT_Event *done = make_event(outcome(AT_EVENT));
    buffer->failed = done->failure != NULL;
    if (args->host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy)
        lend(buffer, args->data, done);
    else
        memcpy(buffer->data, args->data, type.bytes);
    counts.uploads++;
    args->buffer = buffer;
    args->done_with_host_buffer = done;
    return NULL;
}

static PJRT_Error *buffer_to_host(PJRT_Buffer_ToHostBuffer_Args *args) {
    ENTER(PJRT_Buffer_ToHostBuffer);
    PJRT_Buffer *buffer = args->src;
    if (!alive(buffer, BUFFER, "PJRT_Buffer_ToHostBuffer")) return fail_misused();
    const char *how = outcome(AT_READBACK);
    if (*how) return fail_as(how);
    if (buffer->deleted)
        return fail(PJRT_Error_Code_INVALID_ARGUMENT, "ToLiteral() called on deleted or donated buffer");
    if (args->dst_size < buffer->type.bytes) return fail(PJRT_Error_Code_INVALID_ARGUMENT, "dst_size is too small");
    memcpy(args->dst, buffer->lent ? buffer->lent : buffer->data, buffer->type.bytes);
    how = outcome(AT_EVENT);
    args->event = make_event(buffer->failed ? "error" : how);
    counts.downloads++;
    return NULL;
}

static PJRT_Error *buffer_is_deleted(PJRT_Buffer_IsDeleted_Args *args) {
    ENTER(PJRT_Buffer_IsDeleted);
    if (!alive(args->buffer, BUFFER, "PJRT_Buffer_IsDeleted")) return fail_misused();
    args->is_deleted = args->buffer->deleted;
    return NULL;
}

static PJRT_Error *buffer_destroy(PJRT_Buffer_Destroy_Args *args) {
    ENTER(PJRT_Buffer_Destroy);
    if (destroy(args->buffer, BUFFER, "PJRT_Buffer_Destroy")) delete_memory(args->buffer);
    return NULL;
}

/* ---- the text of a program -------------------------------------------------------------------------------------- */

/* Reads "4x3xf32>", what follows "tensor<". */
static void read_type(const char *text, array_type *out) {
    char *end;
    *out = (array_type){.element = PJRT_Buffer_Type_INVALID};
    for (long size = strtol(text, &end, 10); *end == 'x' && out->rank < MOST_DIMENSIONS;
         size = strtol(text, &end, 10)) {
        out->dims[out->rank++] = size;
        text = end + 1;
    }
    size_t length = strcspn(text, ">");
    for (size_t i = 0; i < COUNT_OF(elements); i++)
        if (strlen(elements[i].name) == length && memcmp(elements[i].name, text, length) == 0)
            out->element = elements[i].type;
    find_bytes(out);
}

/* Reads the types between two places; an attribute after a type says whether the argument is donated. */
static size_t read_types(const char *from, const char *to, array_type *types, bool *donated) {
    static const char opening[] = "tensor<", alias[] = "tf.aliasing_output";
    size_t count = 0;
    const char *next;
    for (const char *at = strstr(from, opening); at && at < to && count < MOST_PORTS; at = next) {
        read_type(at + sizeof opening - 1, &types[count]);
        next = strstr(at + 1, opening);
        const char *attribute = strstr(at, alias), *end = next && next < to ? next : to;
        if (donated) donated[count] = attribute && attribute < end;
        count++;
    }
    return count;
}

/* The first line of @main: "(arguments) -> (results) {". */
static bool read_signature(const char *text, main_signature *out) {
    const char *main = strstr(text, "@main("), *arrow = main ? strstr(main, ") -> ") : NULL;
    if (!arrow) return false;
    out->argument_count = read_types(main, arrow, out->arguments, out->donated);
    out->result_count = read_types(arrow, arrow + strcspn(arrow, "\n"), out->results, NULL);
    return true;
}

/* ---- executables ------------------------------------------------------------------------------------------------ */

static PJRT_Error *compile_text(const char *text, PJRT_LoadedExecutable **out) {
    main_signature read;
    if (read_signature(text, &read)) {
        PJRT_LoadedExecutable *executable = make(LOADED_EXECUTABLE, sizeof *executable);
        executable->signature = read;
        counts.compiles++;
        *out = executable;
        return NULL;
    }
    return fail(PJRT_Error_Code_UNKNOWN, "conversion requires module with `main` function");
}

/* A refusal of one operation, at its place in the text: of tanh, or of the first one where there is none. A long one
 * goes on for as long as an engine's may that prints the whole module. */
static PJRT_Error *dislike(const char *text, bool long_winded) {
    const char *tanh = strstr(text, "\"stablehlo.tanh\"");
    char message[MOST_TEXT];
    int line = tanh ? 1 : 3;
    for (const char *at = text; at < tanh; at++) line += *at == '\n';
    snprintf(message, sizeof message,
             "-:%d:10: error: the fake plugin dislikes this operation\n"
             "<unknown>:0: error: Failed to parse using StableHLO v1.2.3, this could indicate forward incompatibility",
             line);
    if (!long_winded) return fail(PJRT_Error_Code_UNKNOWN, message);
    static const char note[] = "-:1:1: note: the fake plugin goes on and on about it\n";
    char *whole = allocate(LONG_NOTES * sizeof note + MOST_TEXT, 1);
    size_t used = (size_t)sprintf(whole, "-:%d:10: error: the fake plugin dislikes this operation\n", line);
    for (int i = 0; i < LONG_NOTES; i++, used += sizeof note - 1) memcpy(whole + used, note, sizeof note);
    sprintf(whole + used, "and here it ends\n");
    PJRT_Error *error = fail(PJRT_Error_Code_UNKNOWN, whole);
    free(whole);
    return error;
}

static PJRT_Error *client_compile(PJRT_Client_Compile_Args *args) {
    ENTER(PJRT_Client_Compile);
    if (!alive(args->client, CLIENT, "PJRT_Client_Compile")) return fail_misused();
    const char *how = outcome(AT_COMPILE);
    bool is_long = strcmp(how, "long") == 0;
    if (*how && !is_long && strcmp(how, "error") != 0) return fail_as(how);
    char *text = allocate(args->program->code_size + 1, 1);
    memcpy(text, args->program->code, args->program->code_size);
    PJRT_Error *error = *how ? dislike(text, is_long) : compile_text(text, &args->executable);
    free(text);
    return error;
}

static void report_result(PJRT_Executable *executable, size_t index, int64_t **dims) {
    const array_type *result = &executable->signature.results[index];
    executable->elements[index] = result->element;
    executable->ranks[index] = result->rank;
    memcpy(*dims, result->dims, result->rank * sizeof **dims);
    *dims += result->rank;
    if (index != 0 || !settings.result_shape) return;
    *(*dims)++ = 7;
    executable->ranks[index]++;
}

static PJRT_Error *get_executable(PJRT_LoadedExecutable_GetExecutable_Args *args) {
    ENTER(PJRT_LoadedExecutable_GetExecutable);
    if (!alive(args->loaded_executable, LOADED_EXECUTABLE, "PJRT_LoadedExecutable_GetExecutable"))
        return fail_misused();
    PJRT_Executable *executable = make(EXECUTABLE, sizeof *executable);
    int64_t *dims = executable->dims;
    executable->signature = args->loaded_executable->signature;
    executable->was_saved = args->loaded_executable->was_saved;
    for (size_t i = 0; i < executable->signature.result_count; i++) report_result(executable, i, &dims);
    args->executable = executable;
    return NULL;
}

static PJRT_Error *executable_outputs(PJRT_Executable_NumOutputs_Args *args) {
    ENTER(PJRT_Executable_NumOutputs);
    if (!alive(args->executable, EXECUTABLE, "PJRT_Executable_NumOutputs")) return fail_misused();
    args->num_outputs = args->executable->signature.result_count;
    return NULL;
}

static PJRT_Error *executable_elements(PJRT_Executable_OutputElementTypes_Args *args) {
    ENTER(PJRT_Executable_OutputElementTypes);
    if (!alive(args->executable, EXECUTABLE, "PJRT_Executable_OutputElementTypes")) return fail_misused();
    args->output_types = args->executable->elements;
    args->num_output_types = args->executable->signature.result_count;
    return NULL;
}

static PJRT_Error *executable_dimensions(PJRT_Executable_OutputDimensions_Args *args) {
    ENTER(PJRT_Executable_OutputDimensions);
    if (!alive(args->executable, EXECUTABLE, "PJRT_Executable_OutputDimensions")) return fail_misused();
    args->num_outputs = args->executable->signature.result_count;
    args->dims = args->executable->dims;
    args->dim_sizes = args->executable->ranks;
    return NULL;
}

static PJRT_Error *executable_memory(PJRT_Executable_GetCompiledMemoryStats_Args *args) {
    ENTER(PJRT_Executable_GetCompiledMemoryStats);
    if (!alive(args->executable, EXECUTABLE, "PJRT_Executable_GetCompiledMemoryStats")) return fail_misused();
    args->generated_code_size_in_bytes = 1000;
    return NULL;
}

static PJRT_Error *executable_devices(PJRT_LoadedExecutable_AddressableDevices_Args *args) {
    ENTER(PJRT_LoadedExecutable_AddressableDevices);
    if (!alive(args->executable, LOADED_EXECUTABLE, "PJRT_LoadedExecutable_AddressableDevices")) return fail_misused();
    args->addressable_devices = device_list;
    args->num_addressable_devices = 1;
    return NULL;
}

static PJRT_Error *executable_destroy(PJRT_Executable_Destroy_Args *args) {
    ENTER(PJRT_Executable_Destroy);
    destroy(args->executable, EXECUTABLE, "PJRT_Executable_Destroy");
    return NULL;
}

static PJRT_Error *loaded_destroy(PJRT_LoadedExecutable_Destroy_Args *args) {
    ENTER(PJRT_LoadedExecutable_Destroy);
    destroy(args->executable, LOADED_EXECUTABLE, "PJRT_LoadedExecutable_Destroy");
    return NULL;
}

/* ---- saving and loading ----------------------------------------------------------------------------------------- */

static const char saved_magic[8] = "fakesave";

/* Bytes that an engine could be ended by: anything but what was saved is a misuse. */
typedef struct saved_bytes {
    char magic[8];
    main_signature signature;
} saved_bytes;

static void delete_saved(PJRT_SerializedExecutable *saved) {
    pthread_mutex_lock(&lock);
    counts.saved_alive--;
    free(saved);
    pthread_mutex_unlock(&lock);
}

static PJRT_Error *executable_serialize(PJRT_Executable_Serialize_Args *args) {
    ENTER(PJRT_Executable_Serialize);
    if (!alive(args->executable, EXECUTABLE, "PJRT_Executable_Serialize")) return fail_misused();
    if (args->executable->was_saved) misuse("PJRT_Executable_Serialize: of an executable that was loaded itself");
    const char *how = outcome(AT_SAVE);
    if (*how) return fail_as(how);
    saved_bytes *saved = allocate(1, sizeof *saved);
    memcpy(saved->magic, saved_magic, sizeof saved_magic);
    saved->signature = args->executable->signature;
    args->serialized_bytes = (const char *)saved;
    args->serialized_bytes_size = sizeof *saved;
    args->serialized_executable = (PJRT_SerializedExecutable *)saved;
    args->serialized_executable_deleter = delete_saved;
    counts.saves++;
    counts.saved_alive++;
    return NULL;
}

static PJRT_Error *deserialize(PJRT_Executable_DeserializeAndLoad_Args *args) {
    ENTER(PJRT_Executable_DeserializeAndLoad);
    if (!alive(args->client, CLIENT, "PJRT_Executable_DeserializeAndLoad")) return fail_misused();
    const char *how = outcome(AT_LOAD);
    if (strcmp(how, "abort") == 0) abort();
    if (*how) return fail_as(how);
    saved_bytes saved;
    if (args->serialized_executable_size != sizeof saved ||
        memcmp(args->serialized_executable, saved_magic, sizeof saved_magic) != 0) {
        misuse("PJRT_Executable_DeserializeAndLoad: of bytes that were not saved");
        return fail_misused();
    }
    memcpy(&saved, args->serialized_executable, sizeof saved);
    PJRT_LoadedExecutable *executable = make(LOADED_EXECUTABLE, sizeof *executable);
    executable->signature = saved.signature;
    executable->was_saved = true;
    args->loaded_executable = executable;
    counts.loads++;
    return NULL;
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static PJRT_Error *check_argument(PJRT_Buffer *argument, const array_type *wanted) {
    if (!alive(argument, BUFFER, "PJRT_LoadedExecutable_Execute")) return fail_misused();
    if (argument->deleted)
        return fail(PJRT_Error_Code_INVALID_ARGUMENT, "Invalid buffer passed: buffer has been deleted or donated");
    if (argument->type.bytes != wanted->bytes)
        return fail(PJRT_Error_Code_INVALID_ARGUMENT, "Executable got a buffer with incompatible size");
    touch(argument->lent ? argument->lent : argument->data, argument->type.bytes);
    return NULL;
}

static PJRT_Error *check_execute(const PJRT_LoadedExecutable_Execute_Args *args) {
    if (!alive(args->executable, LOADED_EXECUTABLE, "PJRT_LoadedExecutable_Execute")) return fail_misused();
    const main_signature *signature = &args->executable->signature;
    if (args->num_devices != 1 || args->device_complete_events || args->num_args != signature->argument_count)
        return fail(PJRT_Error_Code_INVALID_ARGUMENT, "The fake plugin runs on one device, without events, with as "
                                                      "many arguments as the program has");
    PJRT_Error *error = NULL;
    for (size_t i = 0; !error && i < args->num_args; i++)
        error = check_argument(args->argument_lists[0][i], &signature->arguments[i]);
    return error;
}

static void take_donated(const PJRT_LoadedExecutable_Execute_Args *args) {
    for (size_t i = 0; i < args->num_args; i++)
        if (args->executable->signature.donated[i]) delete_memory(args->argument_lists[0][i]);
}

/* An argument whose upload failed makes results that cannot be read. */
static void make_results(const PJRT_LoadedExecutable_Execute_Args *args) {
    bool failed = false;
    for (size_t i = 0; i < args->num_args; i++) failed |= args->argument_lists[0][i]->failed;
    for (size_t i = 0; i < args->executable->signature.result_count; i++) {
        args->output_lists[0][i] = make_buffer(&args->executable->signature.results[i]);
        args->output_lists[0][i]->failed = failed;
    }
}

static PJRT_Error *execute(PJRT_LoadedExecutable_Execute_Args *args) {
    ENTER(PJRT_LoadedExecutable_Execute);
    PJRT_Error *error = check_execute(args);
    if (error) return error;
    const char *how = outcome(AT_RUN);
    if (!*how || strcmp(how, "taken") == 0) take_donated(args);
    if (*how) return fail_as(how);
    make_results(args);
    counts.runs++;
    return NULL;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static PJRT_Api table = {
    .struct_size = PJRT_Api_STRUCT_SIZE,
    .pjrt_api_version = {.struct_size = PJRT_Api_Version_STRUCT_SIZE},
};

#define SLOT(slot, function) \
    { #slot, offsetof(PJRT_Api, slot), (void (*)(void))(function) }
static const struct {
    const char *name;
    size_t offset;
    void (*function)(void);
} slots[] = {
    SLOT(PJRT_Error_Destroy, error_destroy),
    SLOT(PJRT_Error_Message, error_message),
    SLOT(PJRT_Error_GetCode, error_code),
    SLOT(PJRT_Plugin_Initialize, plugin_initialize),
    SLOT(PJRT_Plugin_Attributes, plugin_attributes),
    SLOT(PJRT_Event_Destroy, event_destroy),
    SLOT(PJRT_Event_Await, event_await),
    SLOT(PJRT_Client_Create, client_create),
    SLOT(PJRT_Client_Destroy, client_destroy),
    SLOT(PJRT_Client_PlatformName, client_platform),
    SLOT(PJRT_Client_PlatformVersion, client_version),
    SLOT(PJRT_Client_AddressableDevices, client_devices),
    SLOT(PJRT_Client_Compile, client_compile),
    SLOT(PJRT_Client_BufferFromHostBuffer, buffer_from_host),
    SLOT(PJRT_DeviceDescription_DebugString, device_text),
    SLOT(PJRT_Device_GetDescription, device_description),
    SLOT(PJRT_Executable_Destroy, executable_destroy),
    SLOT(PJRT_Executable_NumOutputs, executable_outputs),
    SLOT(PJRT_Executable_OutputElementTypes, executable_elements),
    SLOT(PJRT_Executable_OutputDimensions, executable_dimensions),
    SLOT(PJRT_Executable_GetCompiledMemoryStats, executable_memory),
    SLOT(PJRT_Executable_Serialize, executable_serialize),
    SLOT(PJRT_Executable_DeserializeAndLoad, deserialize),
    SLOT(PJRT_LoadedExecutable_Destroy, loaded_destroy),
    SLOT(PJRT_LoadedExecutable_GetExecutable, get_executable),
    SLOT(PJRT_LoadedExecutable_AddressableDevices, executable_devices),
    SLOT(PJRT_LoadedExecutable_Execute, execute),
    SLOT(PJRT_Buffer_Destroy, buffer_destroy),
    SLOT(PJRT_Buffer_IsDeleted, buffer_is_deleted),
    SLOT(PJRT_Buffer_ToHostBuffer, buffer_to_host),
};

static void fill_table(void) {
    bool found = !*settings.missing;
    for (size_t i = 0; i < COUNT_OF(slots); i++) {
        bool missing = strcmp(slots[i].name, settings.missing) == 0;
        found |= missing;
        if (!missing) memcpy((char *)&table + slots[i].offset, &slots[i].function, sizeof slots[i].function);
    }
    if (!found) abort(); /* the slot is none of nitro's */
    table.pjrt_api_version.major_version = settings.major;
    table.pjrt_api_version.minor_version = settings.minor;
    if (settings.small_table) table.struct_size = offsetof(PJRT_Api, PJRT_Executable_OutputElementTypes);
}

EXPORTED const PJRT_Api *GetPjrtApi(void);
const PJRT_Api *GetPjrtApi(void) {
    read_settings();
    fill_table();
    return &table;
}

/* ---- what was counted ------------------------------------------------------------------------------------------- */

static size_t add_count(char *out, size_t size, const char *name, const char *of, long value) {
    return (size_t)snprintf(out, size, "\"%s%s\": %ld, ", name, of, value);
}

/* Valid until the next call. */
EXPORTED const char *nitro_fake_counts(void);
const char *nitro_fake_counts(void) {
    static char text[4096];
    size_t used = (size_t)snprintf(text, sizeof text, "{");
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KIND_COUNT; i++) {
        used += add_count(text + used, sizeof text - used, kind_names[i], "_made", counts.made[i]);
        used += add_count(text + used, sizeof text - used, kind_names[i], "_destroyed", counts.destroyed[i]);
    }
    used += add_count(text + used, sizeof text - used, "live_bytes", "", counts.live_bytes);
    used += add_count(text + used, sizeof text - used, "uploads", "", counts.uploads);
    used += add_count(text + used, sizeof text - used, "downloads", "", counts.downloads);
    used += add_count(text + used, sizeof text - used, "compiles", "", counts.compiles);
    used += add_count(text + used, sizeof text - used, "saves", "", counts.saves);
    used += add_count(text + used, sizeof text - used, "loads", "", counts.loads);
    used += add_count(text + used, sizeof text - used, "saved_alive", "", counts.saved_alive);
    used += add_count(text + used, sizeof text - used, "runs", "", counts.runs);
    used += add_count(text + used, sizeof text - used, "misuses", "", counts.misuses);
    snprintf(text + used, sizeof text - used, "\"first_misuse\": \"%s\"}\n", counts.first_misuse);
    pthread_mutex_unlock(&lock);
    return text;
}

__attribute__((destructor)) static void write_counts(void) {
    const char *path = getenv("NITRO_FAKE_COUNTS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fputs(nitro_fake_counts(), file);
    fclose(file);
}
