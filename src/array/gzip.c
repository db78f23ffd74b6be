/* Unpacking gzip data that is in memory, with zlib's inflate.
 * Not here: packing. zlib's own file reader is not used because it ignores what follows the last member, and because
 * its memory cannot be counted.
 */
#include "array/gzip.h"

#include <limits.h>
#define ZLIB_CONST
#include <zlib.h>

static voidpf count_alloc(voidpf context, uInt count, uInt size) {
    (void)context;
    return nt__alloc(count, size);
}

static void count_free(voidpf context, voidpf pointer) {
    (void)context;
    nt__free(pointer);
}

/* Data on both sides, and how far each is used. */
typedef struct unpacking {
    z_stream stream;
    const char *packed;
    size_t packed_length, taken;
    char *bytes;
    size_t capacity, made;
} unpacking;

/* zlib counts in unsigned int, which large files exceed. */
static uInt at_most_int(size_t length) {
    return length < UINT_MAX ? (uInt)length : UINT_MAX;
}

/* One call of inflate on what is left, with room for at least one byte. */
static int inflate_some(unpacking *u) {
    uInt offered = at_most_int(u->packed_length - u->taken);
    uInt room = at_most_int(u->capacity - u->made);
    u->stream.next_in = (const Bytef *)(u->packed + u->taken);
    u->stream.avail_in = offered;
    u->stream.next_out = (Bytef *)(u->bytes + u->made);
    u->stream.avail_out = room;
    int code = inflate(&u->stream, Z_NO_FLUSH);
    u->taken += offered - u->stream.avail_in;
    u->made += room - u->stream.avail_out;
    return code;
}

static nt_status inflate_failure(const unpacking *u, int code) {
    if (code == Z_MEM_ERROR) return nt__fail_in(NT_OUT_OF_MEMORY, "unpacking gzip data");
    if (code == Z_BUF_ERROR)
        return nt__fail(
            NT_INVALID,
            "the gzip stream ends early: all %zu bytes are read and its end is not reached; the file is cut",
            u->packed_length);
    return nt__fail(NT_INVALID, "the gzip data is damaged near byte %zu of %zu: %s", u->taken, u->packed_length,
                    u->stream.msg ? u->stream.msg : "not understood");
}

static bool make_room(unpacking *u) {
    if (u->made < u->capacity) return true;
    size_t wanted = u->capacity ? u->capacity * 2 : 64 * 1024;
    char *grown = nt__realloc(u->bytes, wanted, 1);
    if (!grown) return false;
    u->bytes = grown;
    u->capacity = wanted;
    return true;
}

static nt_status inflate_members(unpacking *u) {
    for (;;) {
        if (!make_room(u)) return inflate_failure(u, Z_MEM_ERROR);
        int code = inflate_some(u);
        if (code == Z_STREAM_END && u->taken == u->packed_length) return NT_OK;
        if (code == Z_STREAM_END) code = inflateReset(&u->stream);
        if (code != Z_OK) return inflate_failure(u, code);
    }
}

bool nt__is_gzip(const void *bytes, size_t length) {
    const unsigned char *start = bytes;
    return length >= 2 && start[0] == 0x1F && start[1] == 0x8B;
}

nt_status nt__gunzip(const void *packed, size_t packed_length, char **bytes, size_t *length) {
    unpacking u = {
        .stream = {.zalloc = count_alloc, .zfree = count_free}, .packed = packed, .packed_length = packed_length};
    const int gzip_window = 16 + MAX_WBITS; /* 16 asks for the gzip format */
    int code = inflateInit2(&u.stream, gzip_window);
    nt_status status = code == Z_OK ? inflate_members(&u) : inflate_failure(&u, code);
    if (code == Z_OK) inflateEnd(&u.stream);
    if (status != NT_OK) {
        nt__free(u.bytes);
        u.bytes = NULL;
        u.made = 0;
    }
    *bytes = u.bytes;
    *length = u.made;
    return status;
}
