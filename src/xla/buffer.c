/* Device buffers: made from host memory, read back, freed, and counted whenever one of these happens.
 * Not here: buffers that a program makes (run.c fills them through nt__buffer_fill).
 */
#include "xla/xla_internal.h"

#include <string.h>

/* ---- element types and shapes ----------------------------------------------------------------------------------- */

static const PJRT_Buffer_Type engine_types[NT_DTYPE_COUNT] = {
    [NT_F32] = PJRT_Buffer_Type_F32,   [NT_F64] = PJRT_Buffer_Type_F64, [NT_BF16] = PJRT_Buffer_Type_BF16,
    [NT_F16] = PJRT_Buffer_Type_F16,   [NT_I8] = PJRT_Buffer_Type_S8,   [NT_I16] = PJRT_Buffer_Type_S16,
    [NT_I32] = PJRT_Buffer_Type_S32,   [NT_I64] = PJRT_Buffer_Type_S64, [NT_U8] = PJRT_Buffer_Type_U8,
    [NT_U16] = PJRT_Buffer_Type_U16,   [NT_U32] = PJRT_Buffer_Type_U32, [NT_U64] = PJRT_Buffer_Type_U64,
    [NT_BOOL] = PJRT_Buffer_Type_PRED,
};

PJRT_Buffer_Type nt__engine_type(nt_dtype dtype) {
    return engine_types[dtype];
}

nt_status nt__type_check(nt__type type, size_t *bytes) {
    char text[NT__TYPE_TEXT];
    if ((size_t)type.dtype >= NT_DTYPE_COUNT)
        return nt__fail(NT_INVALID, "element type %d is none: pass one of nt_dtype, 0 to %d", (int)type.dtype,
                        NT_DTYPE_COUNT - 1);
    if (type.shape.rank < 0 || type.shape.rank > NT_MAX_RANK)
        return nt__fail(NT_INVALID, "rank %d is not between 0 and %d", type.shape.rank, NT_MAX_RANK);
    if (nt__type_bytes(type, bytes)) return NT_OK;
    return nt__fail(NT_INVALID, "the shape of %s has a negative dimension or more bytes than memory can hold",
                    nt__type_text(type, text));
}

/* ---- slots ------------------------------------------------------------------------------------------------------ */

void nt__buffer_copy_name(char out[NT__BUFFER_NAME], const char *name) {
    size_t length = strnlen(name, NT__BUFFER_NAME - 1);
    memcpy(out, name, length);
    memset(out + length, 0, NT__BUFFER_NAME - length);
}

void nt__buffer_fill(nt__buffer *buffer, PJRT_Buffer *raw, const char *name, nt__purpose purpose, nt__type type,
                     size_t bytes, int device) {
    *buffer = (nt__buffer){
        .raw = raw,
        .type = type,
        .bytes = bytes,
        .purpose = purpose,
        .state = NT__BUFFER_ALIVE,
        .device = device,
    };
    nt__buffer_copy_name(buffer->name, name);
}

static void destroy(PJRT_Buffer *raw) {
    NT__ARGS(PJRT_Buffer_Destroy, args, .buffer = raw);
    (void)NT__CALL_QUIETLY(PJRT_Buffer_Destroy, &args);
}

/* The engine may read lent memory until the event fires, which it does once the buffer is destroyed and every run that
 * uses it has ended. */
void nt__buffer_release(nt__buffer *buffer, nt__buffer_state state) {
    destroy(buffer->raw);
    nt__event_await_quietly(buffer->done);
    nt__free(buffer->lent);
    buffer->raw = buffer->done = buffer->lent = NULL;
    buffer->state = state;
}

nt_status nt__buffer_check(const nt__buffer *buffer) {
    if (!buffer) return nt__fail(NT_INVALID, "no buffer (NULL)");
    switch (buffer->state) {
    case NT__BUFFER_ALIVE: return NT_OK;
    case NT__BUFFER_FREED: return nt__fail(NT_INVALID, "buffer '%s' was freed: it cannot be used again", buffer->name);
    case NT__BUFFER_DONATED:
        return nt__fail(NT_INVALID, "buffer '%s' was donated to '%s': it cannot be used again", buffer->name,
                        buffer->donated_to);
    case NT__BUFFER_EMPTY: break;
    }
    return nt__fail(NT_INVALID, "a buffer that nothing was uploaded to");
}

void nt__buffer_free(nt__buffer *buffer) {
    if (!buffer || buffer->state != NT__BUFFER_ALIVE) return;
    nt__buffer_release(buffer, NT__BUFFER_FREED);
    nt__account_gone(buffer->purpose, buffer->bytes);
}

void *nt__buffer_take_back(nt__buffer *buffer) {
    if (buffer->state != NT__BUFFER_ALIVE) return NULL;
    void *lent = buffer->lent;
    buffer->lent = NULL;
    nt__buffer_free(buffer);
    return lent;
}

void nt__buffer_account(nt__buffer *buffer, nt__purpose purpose) {
    if (!buffer || buffer->state != NT__BUFFER_ALIVE || nt__purpose_check(purpose) != NT_OK) return;
    nt__account_moved(buffer->purpose, purpose, buffer->bytes);
    buffer->purpose = purpose;
}

/* ---- from host memory ------------------------------------------------------------------------------------------- */

/* What an upload and a lend have in common. */
typedef struct source {
    nt__engine *engine;
    int device;
    const char *name;
    nt__purpose purpose;
    nt__type type;
    const void *data;
    size_t bytes;
} source;

/* Everything here would abort or crash the engine. Fills source->bytes. */
static nt_status check_source(source *from, const nt__buffer *buffer) {
    nt_status status = nt__engine_check(from->engine);
    if (status == NT_OK) status = nt__purpose_check(from->purpose);
    if (status == NT_OK) status = nt__type_check(from->type, &from->bytes);
    if (status != NT_OK) return status;
    int devices = from->engine->facts.device_count;
    if (from->device < 0 || from->device >= devices)
        return nt__fail(NT_INVALID, "device %d: there are %d, 0 to %d", from->device, devices, devices - 1);
    if (!from->data && from->bytes) return nt__fail(NT_INVALID, "no data (NULL) for %zu bytes", from->bytes);
    if (!buffer) return nt__fail(NT_INVALID, "no place for the buffer (NULL)");
    if (buffer->state == NT__BUFFER_ALIVE)
        return nt__fail(NT_INVALID, "its place holds buffer '%s', which is alive: free that first", buffer->name);
    return NT_OK;
}

/* Stands for no elements: a buffer without an address can be made but not read. */
static const _Alignas(64) char nothing[64];

/* A buffer of the engine. `done` is the event after which the engine no longer reads the data. */
static nt_status make(const source *from, PJRT_HostBufferSemantics semantics, PJRT_Buffer **raw, PJRT_Event **done) {
    NT__ARGS(PJRT_Client_BufferFromHostBuffer, args, .client = from->engine->client,
             .data = from->data ? from->data : nothing, .type = nt__engine_type(from->type.dtype),
             .dims = from->type.shape.dims, .num_dims = (size_t)from->type.shape.rank,
             .host_buffer_semantics = semantics, .device = from->engine->devices[from->device]);
    nt_status status = NT__CALL(PJRT_Client_BufferFromHostBuffer, &args);
    *raw = args.buffer;
    *done = args.done_with_host_buffer;
    return status;
}

static void enter(const source *from, PJRT_Buffer *raw, nt__buffer *buffer) {
    nt__buffer_fill(buffer, raw, from->name, from->purpose, from->type, from->bytes, from->device);
    nt__account_made(from->purpose, from->bytes);
    nt__account_upload(from->purpose, from->name, from->bytes);
}

static nt_status upload_checked(const source *from, nt__buffer *buffer) {
    PJRT_Buffer *raw;
    PJRT_Event *done;
    nt_status status = make(from, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall, &raw, &done);
    if (status != NT_OK) return status;
    status = nt__event_await(done);
    if (status == NT_OK)
        enter(from, raw, buffer);
    else
        destroy(raw);
    return status;
}

/* 2 is true for one operation of the engine and false for another. */
static bool has_odd_bools(const source *from) {
    const uint8_t *bytes = from->data;
    for (size_t i = 0; i < from->bytes; i++) {
        if (bytes[i] > 1) return true;
    }
    return false;
}

static nt_status upload_normalised(const source *from, nt__buffer *buffer) {
    const uint8_t *bytes = from->data;
    uint8_t *normal = nt__alloc(from->bytes, 1);
    if (!normal) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < from->bytes; i++) normal[i] = bytes[i] != 0;
    source replaced = *from;
    replaced.data = normal;
    nt_status status = upload_checked(&replaced, buffer);
    nt__free(normal);
    return status;
}

nt_status nt__buffer_upload(nt__engine *engine, int device, const char *name, nt__purpose purpose, nt__type type,
                            const void *data, nt__buffer *buffer) {
    source from = {engine, device, name ? name : "", purpose, type, data, 0};
    nt_status status = check_source(&from, buffer);
    bool odd = status == NT_OK && type.dtype == NT_BOOL && has_odd_bools(&from);
    if (status == NT_OK) status = odd ? upload_normalised(&from, buffer) : upload_checked(&from, buffer);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "uploading '%s'", from.name);
}

nt_status nt__buffer_lend(nt__engine *engine, int device, const char *name, nt__purpose purpose, nt__type type,
                          void *data, nt__buffer *buffer) {
    source from = {engine, device, name ? name : "", purpose, type, data, 0};
    PJRT_Buffer *raw;
    PJRT_Event *done;
    nt_status status = check_source(&from, buffer);
    if (status == NT_OK) status = make(&from, PJRT_HostBufferSemantics_kImmutableZeroCopy, &raw, &done);
    if (status != NT_OK) {
        nt__free(data);
        return nt__fail_in(status, "uploading '%s'", from.name);
    }
    enter(&from, raw, buffer);
    buffer->lent = data;
    buffer->done = done;
    return NT_OK;
}

/* ---- to host memory --------------------------------------------------------------------------------------------- */

/* The layout of a result on the device need not be row-major, so the copy asks for it. */
static nt_status copy_to_host(const nt__buffer *buffer, void *out) {
    int64_t minor_to_major[NT_MAX_RANK];
    int rank = buffer->type.shape.rank;
    for (int i = 0; i < rank; i++) minor_to_major[i] = rank - 1 - i;
    PJRT_Buffer_MemoryLayout layout = {
        .struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE,
        .type = PJRT_Buffer_MemoryLayout_Type_Tiled,
        .tiled = {.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE,
                  .minor_to_major = minor_to_major,
                  .minor_to_major_size = (size_t)rank},
    };
    NT__ARGS(PJRT_Buffer_ToHostBuffer, args, .src = buffer->raw, .host_layout = &layout, .dst = out,
             .dst_size = buffer->bytes);
    nt_status status = NT__CALL(PJRT_Buffer_ToHostBuffer, &args);
    return status == NT_OK ? nt__event_await(args.event) : status;
}

static nt_status read_checked(const nt__buffer *buffer, void *out) {
    char unused; /* without a destination the call would only ask for the size */
    if (!out && buffer->bytes) return nt__fail(NT_INVALID, "no place (NULL) for %zu bytes", buffer->bytes);
    return copy_to_host(buffer, out ? out : &unused);
}

nt_status nt__buffer_read(nt__engine *engine, nt__buffer *buffer, void *out) {
    nt_status status = nt__engine_check(engine);
    if (status == NT_OK) status = nt__buffer_check(buffer);
    if (status != NT_OK) return nt__fail_in(status, "reading a buffer");
    status = read_checked(buffer, out);
    if (status != NT_OK) return nt__fail_in(status, "reading '%s'", buffer->name);
    nt__account_download(buffer->purpose, buffer->name, buffer->bytes);
    return NT_OK;
}
