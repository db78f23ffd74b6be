/* Files of data, plain or packed with gzip, read and unpacked a part at a time with zlib's inflate.
 * Not here: packing. zlib's own file reader is not used because it ignores what follows the last member, and because
 * its memory cannot be counted.
 */
#include "format/input.h"
#include "base/files.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>
#define ZLIB_CONST
#include <zlib.h>

enum { PART = 64 << 10 };

struct nt__input {
    const char *path;
    int file;
    size_t size, taken; /* bytes of the file, and those that were given on or unpacked */
    size_t made;        /* bytes that came out */
    size_t at, end;     /* what of `part` is left */
    bool is_packed;
    enum { IN_MEMBER, BEHIND_MEMBER, AT_END } place;
    z_stream stream;
    unsigned char part[PART];
};

/* ---- the bytes of the file -------------------------------------------------------------------------------------- */

/* Makes sure that a byte is at hand; *there is false at the end of the file. */
static nt_status fill(nt__input *input, bool *there) {
    nt_status status = NT_OK;
    if (input->at == input->end) {
        input->at = 0;
        status = nt__read_some(input->file, input->path, input->part, PART, &input->end);
    }
    *there = input->at < input->end;
    return status;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* What is at hand first, and the rest of a large read without a copy. */
static nt_status read_plain(nt__input *input, char *to, size_t most, size_t *length) {
    size_t held = smaller(input->end - input->at, most), more;
    memcpy(to, input->part + input->at, held);
    input->at += held;
    nt_status status = nt__read_some(input->file, input->path, to + held, most - held, &more);
    *length = held + more;
    input->taken += *length;
    return status;
}

/* ---- gzip ------------------------------------------------------------------------------------------------------- */

static voidpf count_alloc(voidpf context, uInt count, uInt size) {
    (void)context;
    return nt__alloc(count, size);
}

static void count_free(voidpf context, voidpf pointer) {
    (void)context;
    nt__free(pointer);
}

static nt_status fail_to_inflate(const nt__input *input, int code) {
    if (code == Z_MEM_ERROR) return nt__fail_in(NT_OUT_OF_MEMORY, "unpacking gzip data");
    return nt__fail(NT_INVALID, "the gzip data is damaged near byte %zu of %zu: %s", input->taken, input->size,
                    input->stream.msg ? input->stream.msg : "not understood");
}

/* zlib counts in unsigned int, which large arrays exceed. */
static uInt at_most_int(size_t length) {
    return length < UINT_MAX ? (uInt)length : UINT_MAX;
}

/* One call of inflate on what is at hand. */
static nt_status inflate_some(nt__input *input, char *to, size_t room, size_t *made) {
    z_stream *stream = &input->stream;
    const uInt offered = (uInt)(input->end - input->at), most = at_most_int(room);
    stream->next_in = input->part + input->at;
    stream->avail_in = offered;
    stream->next_out = (Bytef *)to;
    stream->avail_out = most;
    int code = inflate(stream, Z_NO_FLUSH);
    input->at += offered - stream->avail_in;
    input->taken += offered - stream->avail_in;
    *made = most - stream->avail_out;
    if (code == Z_STREAM_END) input->place = BEHIND_MEMBER;
    /* Z_BUF_ERROR: nothing could be done with what is at hand, so more of the file is needed. */
    bool good = code == Z_OK || code == Z_STREAM_END || (code == Z_BUF_ERROR && stream->avail_in == 0);
    return good ? NT_OK : fail_to_inflate(input, code);
}

static nt_status unpack_some(nt__input *input, char *to, size_t room, size_t *made) {
    bool there;
    *made = 0;
    nt_status status = fill(input, &there);
    if (status != NT_OK) return status;
    if (there) return inflate_some(input, to, room, made);
    return nt__fail(NT_INVALID,
                    "the gzip stream ends early: all %zu bytes are read and its end is not reached; the file is cut",
                    input->size);
}

/* Passes over the zeros that some copies and tapes fill a block with. */
static nt_status skip_padding(nt__input *input) {
    const unsigned char magic = 0x1F;
    bool there;
    nt_status status;
    while ((status = fill(input, &there)) == NT_OK && there && input->part[input->at] == 0) {
        input->at++;
        input->taken++;
    }
    if (status != NT_OK) return status;
    input->place = there ? IN_MEMBER : AT_END;
    if (!there) return NT_OK;
    if (input->part[input->at] != magic)
        return nt__fail(NT_INVALID,
                        "the gzip data ends before byte %zu of %zu, and what follows is neither zeros nor more gzip "
                        "data: it begins with %02x",
                        input->taken, input->size, input->part[input->at]);
    int code = inflateReset(&input->stream);
    return code == Z_OK ? NT_OK : fail_to_inflate(input, code);
}

static nt_status read_packed(nt__input *input, char *to, size_t most, size_t *length) {
    nt_status status = NT_OK;
    *length = 0;
    while (status == NT_OK && *length < most && input->place != AT_END) {
        size_t made = 0;
        status =
            input->place == IN_MEMBER ? unpack_some(input, to + *length, most - *length, &made) : skip_padding(input);
        *length += made;
    }
    return status;
}

static nt_status begin_unpacking(nt__input *input) {
    const int gzip_window = 16 + MAX_WBITS; /* 16 asks for the gzip format */
    input->stream = (z_stream){.zalloc = count_alloc, .zfree = count_free};
    int code = inflateInit2(&input->stream, gzip_window);
    if (code != Z_OK) return fail_to_inflate(input, code);
    input->is_packed = true;
    return NT_OK;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static bool is_gzip(const unsigned char *bytes, size_t length) {
    return length >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B;
}

nt_status nt__input_open(const char *path, nt__input **out) {
    int file;
    size_t size;
    *out = NULL;
    nt_status status = nt__open_regular(path, &file, &size);
    if (status != NT_OK) return status;
    nt__input *input = nt__alloc(1, sizeof *input);
    if (!input) {
        close(file);
        return NT_OUT_OF_MEMORY;
    }
    input->path = path;
    input->file = file;
    input->size = size;
    status = nt__read_some(file, path, input->part, PART, &input->end);
    if (status == NT_OK && is_gzip(input->part, input->end)) status = begin_unpacking(input);
    if (status == NT_OK)
        *out = input;
    else
        nt__input_close(input);
    return status;
}

nt_status nt__input_read(nt__input *input, void *to, size_t most, size_t *length) {
    *length = 0;
    if (most == 0) return NT_OK;
    nt_status status = input->is_packed ? read_packed(input, to, most, length) : read_plain(input, to, most, length);
    input->made += *length;
    return status;
}

size_t nt__input_left(const nt__input *input) {
    /* A copy of 258 bytes takes two bits at least; the window holds what was read and not unpacked yet. */
    enum { MOST_RATIO = 1032, MOST_HELD = 64 << 10 };
    size_t left = input->size > input->taken ? input->size - input->taken : 0, most;
    if (!input->is_packed) return left;
    return __builtin_mul_overflow(left, (size_t)MOST_RATIO, &most) || most > SIZE_MAX - MOST_HELD ? SIZE_MAX
                                                                                                  : most + MOST_HELD;
}

size_t nt__input_position(const nt__input *input) {
    return input->made;
}

void nt__input_close(nt__input *input) {
    if (!input) return;
    if (input->is_packed) inflateEnd(&input->stream);
    close(input->file);
    nt__free(input);
}

/* ---- arrays ----------------------------------------------------------------------------------------------------- */

static nt_status fail_cut(const char *type, size_t needed, size_t there) {
    return nt__fail(NT_INVALID,
                    "the header states %s, which needs %zu bytes; %zu are there: the file is cut; get it again", type,
                    needed, there);
}

/* What the size of the file says already. */
static nt_status check_size(const nt__input *input, nt__type type, size_t *needed) {
    char text[NT__TYPE_TEXT];
    size_t left = nt__input_left(input);
    nt__type_text(type, text);
    if (!nt__type_bytes(type, needed))
        return nt__fail(NT_INVALID, "the header states %s: that many bytes do not fit in 64 bits", text);
    if (input->is_packed && left < *needed)
        return nt__fail(NT_INVALID,
                        "the header states %s, which needs %zu bytes; the %zu bytes of the gzip file cannot hold "
                        "that many: it is cut; get it again",
                        text, *needed, input->size);
    if (left < *needed) return fail_cut(text, *needed, left);
    if (input->is_packed || left == *needed) return NT_OK;
    return nt__fail(NT_INVALID, "the header states %s, which needs %zu bytes; %zu bytes follow them", text, *needed,
                    left - *needed);
}

static nt_status read_elements(nt__input *input, nt__type type, nt_array *array) {
    char text[NT__TYPE_TEXT], more;
    size_t length, behind;
    nt__type_text(type, text);
    nt_status status = nt__input_read(input, array->data, array->bytes, &length);
    if (status != NT_OK) return status;
    if (length < array->bytes) return fail_cut(text, array->bytes, length);
    status = nt__input_read(input, &more, 1, &behind);
    if (status != NT_OK || behind == 0) return status;
    return nt__fail(NT_INVALID,
                    "the header states %s, which needs %zu bytes; more bytes follow them, which are not read", text,
                    array->bytes);
}

nt_status nt__input_array(nt__input *input, nt__type type, nt_array **out) {
    size_t needed;
    *out = NULL;
    nt_status status = check_size(input, type, &needed);
    if (status != NT_OK) return status;
    nt_array *array = nt__array_new_unset(type.dtype, type.shape);
    if (!array) return NT_OUT_OF_MEMORY;
    status = read_elements(input, type, array);
    if (status == NT_OK)
        *out = array;
    else
        nt_array_free(array);
    return status;
}
