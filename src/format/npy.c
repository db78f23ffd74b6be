/* Reads and writes NumPy files (.npy): the magic number, a version, the length of the header, the header, which is a
 * dictionary in Python's notation with the keys descr, fortran_order and shape, and the elements.
 * Not here: archives of several arrays (.npz), and byte orders other than this machine's.
 */
#include "format/input.h"
#include "base/files.h"

#include <inttypes.h>
#include <string.h>

enum { MAGIC_SIZE = 6, VERSION_SIZE = 2, PREFIX_SIZE = MAGIC_SIZE + VERSION_SIZE, HEADER_ALIGNMENT = 64 };

static const char magic[MAGIC_SIZE] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

/* Kind and size of an element in `descr`; bf16 has none there. */
static const char *const type_codes[NT_DTYPE_COUNT] = {
    [NT_F32] = "f4", [NT_F64] = "f8", [NT_F16] = "f2", [NT_I8] = "i1",  [NT_I16] = "i2", [NT_I32] = "i4",
    [NT_I64] = "i8", [NT_U8] = "u1",  [NT_U16] = "u2", [NT_U32] = "u4", [NT_U64] = "u8", [NT_BOOL] = "b1",
};

/* ---- the header's text ------------------------------------------------------------------------------------------ */

/* What is left of the header while it is read. The text ends with a NUL. */
typedef struct cursor {
    const char *at, *end;
} cursor;

typedef struct header {
    char descr[16];
    bool fortran_order, has_descr, has_order, has_shape;
    nt_shape shape;
} header;

static nt_status fail_syntax(const char *wanted, const cursor *c) {
    int rest = c->end - c->at > 40 ? 40 : (int)(c->end - c->at);
    return nt__fail(NT_INVALID, "the header needs %s where it has '%.*s'", wanted, rest, c->at);
}

static void skip_spaces(cursor *c) {
    while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at) c->at++;
}

/* Whether the text comes next; it is passed over then. */
static bool take(cursor *c, const char *text) {
    skip_spaces(c);
    size_t length = strlen(text);
    bool found = (size_t)(c->end - c->at) >= length && memcmp(c->at, text, length) == 0;
    if (found) c->at += length;
    return found;
}

/* A string without escapes: no name or type of the format has one. */
static nt_status read_string(cursor *c, char *out, size_t room) {
    skip_spaces(c);
    const char *start = c->at;
    char quote = start < c->end ? *start : 0;
    const char *close = quote == '\'' || quote == '"' ? memchr(start + 1, quote, (size_t)(c->end - start - 1)) : NULL;
    if (!close) return fail_syntax("a text in quotes", c);
    size_t length = (size_t)(close - start - 1);
    if (length >= room)
        return nt__fail(NT_INVALID, "'%.*s...' is no key or element type of an array", (int)room, start + 1);
    memcpy(out, start + 1, length);
    out[length] = 0;
    c->at = close + 1;
    return NT_OK;
}

/* A size; Python 2 wrote an L after long ones. */
static nt_status read_size(cursor *c, int64_t *out) {
    skip_spaces(c);
    const char *start = c->at;
    int64_t value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *c->at - '0', &value))
            return nt__fail(NT_INVALID, "a size in the header is beyond 2^63: %.*s", 24, start);
    if (c->at == start) return fail_syntax("a size", c);
    take(c, "L");
    *out = value;
    return NT_OK;
}

static nt_status read_shape(cursor *c, nt_shape *shape) {
    if (!take(c, "(")) return fail_syntax("a shape in parentheses", c);
    shape->rank = 0;
    while (!take(c, ")")) {
        if (shape->rank == NT_MAX_RANK)
            return nt__fail(NT_INVALID, "the header states more than %d axes, which arrays have at most", NT_MAX_RANK);
        nt_status status = read_size(c, &shape->dims[shape->rank++]);
        if (status != NT_OK) return status;
        if (take(c, ",")) continue;
        if (!take(c, ")")) return fail_syntax("',' or ')'", c);
        break;
    }
    return NT_OK;
}

static nt_status read_bool(cursor *c, bool *out) {
    *out = take(c, "True");
    return *out || take(c, "False") ? NT_OK : fail_syntax("True or False", c);
}

/* A structured type is a list where other types are a text. */
static nt_status read_descr(cursor *c, header *h) {
    if (take(c, "["))
        return nt__fail(NT_INVALID, "the elements are records of several values; save each as an array of its own");
    return read_string(c, h->descr, sizeof h->descr);
}

static nt_status read_value(cursor *c, const char *key, header *h) {
    bool *given = strcmp(key, "descr") == 0           ? &h->has_descr
                  : strcmp(key, "fortran_order") == 0 ? &h->has_order
                  : strcmp(key, "shape") == 0         ? &h->has_shape
                                                      : NULL;
    if (!given || *given)
        return nt__fail(NT_INVALID, "the header has the key '%s'%s", key,
                        given ? " twice" : ", which the format has not");
    *given = true;
    if (given == &h->has_descr) return read_descr(c, h);
    return given == &h->has_order ? read_bool(c, &h->fortran_order) : read_shape(c, &h->shape);
}

static nt_status read_entry(cursor *c, header *h) {
    char key[16];
    nt_status status = read_string(c, key, sizeof key);
    if (status != NT_OK) return status;
    return take(c, ":") ? read_value(c, key, h) : fail_syntax("':'", c);
}

static nt_status read_dictionary(cursor *c, header *h) {
    nt_status status = NT_OK;
    if (!take(c, "{")) return fail_syntax("'{'", c);
    while (!take(c, "}")) {
        status = read_entry(c, h);
        if (status != NT_OK) return status;
        if (take(c, ",")) continue;
        if (!take(c, "}")) return fail_syntax("',' or '}'", c);
        break;
    }
    skip_spaces(c);
    if (c->at < c->end) return fail_syntax("its end", c);
    if (h->has_descr && h->has_order && h->has_shape) return NT_OK;
    return nt__fail(NT_INVALID, "the header has no key '%s'",
                    !h->has_descr   ? "descr"
                    : !h->has_order ? "fortran_order"
                                    : "shape");
}

/* ---- element types ---------------------------------------------------------------------------------------------- */

static nt_status fail_type(const char *descr) {
    const char *advice = strcmp(descr, "<V2") == 0 || strcmp(descr, "|V2") == 0
                             ? "; a bf16 array has no type of NumPy's: save it as safetensors"
                             : "";
    return nt__fail(NT_INVALID,
                    "element type '%s' is not one of nitro's, which in NumPy are float16 to float64, int8 to int64, "
                    "uint8 to uint64 and bool%s",
                    descr, advice);
}

static nt_status find_type(const char *descr, nt_dtype *dtype) {
    for (int i = 0; *descr && i < NT_DTYPE_COUNT; i++) {
        if (!type_codes[i] || strcmp(type_codes[i], descr + 1) != 0) continue;
        *dtype = (nt_dtype)i;
        if (nt_dtype_size(*dtype) == 1 && strchr("<>|=", *descr)) return NT_OK;
        if (*descr == '<' || *descr == '=') return NT_OK;
        if (*descr == '>')
            return nt__fail(NT_INVALID,
                            "the elements are big-endian (%s): save the array as little-endian, in Python with "
                            "a.astype('<%s')",
                            descr, descr + 1);
    }
    return fail_type(descr);
}

/* ---- the whole header ------------------------------------------------------------------------------------------- */

static nt_status check_magic(const char *bytes, size_t length) {
    if (length == 0) return nt__fail(NT_INVALID, "the file is empty");
    if (length < PREFIX_SIZE || memcmp(bytes, magic, MAGIC_SIZE) != 0)
        return nt__fail(NT_INVALID, "not a NumPy file: it does not start with the byte 93 and the text NUMPY%s",
                        length >= 2 && memcmp(bytes, "PK", 2) == 0
                            ? "; it is an archive (.npz): save each of its arrays as .npy"
                            : "");
    return NT_OK;
}

/* How long the text of the header is. */
static nt_status read_size_of_text(nt__input *input, size_t *size) {
    unsigned char prefix[PREFIX_SIZE], bytes[4];
    size_t length;
    nt_status status = nt__input_read(input, prefix, PREFIX_SIZE, &length);
    if (status == NT_OK) status = check_magic((const char *)prefix, length);
    if (status != NT_OK) return status;
    int major = prefix[MAGIC_SIZE], minor = prefix[MAGIC_SIZE + 1];
    if ((major != 1 && major != 2) || minor != 0)
        return nt__fail(NT_INVALID, "format %d.%d; formats 1.0 and 2.0 are read", major, minor);
    size_t width = major == 1 ? 2 : 4;
    status = nt__input_read(input, bytes, width, &length);
    if (status != NT_OK) return status;
    *size = 0;
    for (size_t i = 0; i < length; i++) *size |= (size_t)bytes[i] << 8 * i;
    size_t position = nt__input_position(input), left = nt__input_left(input);
    if (length == width && *size <= left) return NT_OK;
    return nt__fail(NT_INVALID, "the file ends inside the header: it has %zu bytes, the header ends at byte %zu",
                    position + left, PREFIX_SIZE + width + *size);
}

static nt_status parse_header(const char *text, size_t size, nt__type *type) {
    header h = {0};
    cursor c = {text, text + size};
    nt_status status = read_dictionary(&c, &h);
    if (status == NT_OK) status = find_type(h.descr, &type->dtype);
    if (status != NT_OK) return status;
    type->shape = h.shape;
    /* With one axis both orders are the same. */
    if (!h.fortran_order || h.shape.rank < 2) return NT_OK;
    return nt__fail(NT_INVALID,
                    "the array lies in Fortran order (fortran_order True), the first axis fastest: save it in C order, "
                    "in Python with numpy.ascontiguousarray(a)");
}

static nt_status read_header(nt__input *input, nt__type *type) {
    enum { MOST = 1 << 20 }; /* bytes of text; a header of 8 axes has some 200 */
    size_t size = 0, length = 0;
    nt_status status = read_size_of_text(input, &size);
    if (status != NT_OK) return status;
    if (size > MOST)
        return nt__fail(NT_INVALID, "the header is stated to have %zu bytes; no more than %d are read", size, MOST);
    char *text = nt__alloc(size + 1, 1);
    if (!text) return NT_OUT_OF_MEMORY;
    status = nt__input_read(input, text, size, &length);
    if (status == NT_OK && length < size)
        status = nt__fail(NT_INVALID, "the file ends inside the header: %zu of its %zu bytes are there", length, size);
    if (status == NT_OK) status = parse_header(text, size, type);
    nt__free(text);
    return status;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* The engine's behaviour on a bool byte other than 0 and 1 is not defined. */
static nt_status check_bools(const nt_array *array) {
    const unsigned char *bytes = array->data;
    for (size_t i = 0; array->dtype == NT_BOOL && i < array->bytes; i++)
        if (bytes[i] > 1) return nt__fail(NT_INVALID, "bool element %zu is %d, it must be 0 or 1", i, bytes[i]);
    return NT_OK;
}

static nt_status decode(nt__input *input, nt_array **array) {
    nt__type type = {0};
    nt_status status = read_header(input, &type);
    if (status == NT_OK) status = nt__input_array(input, type, array);
    if (status == NT_OK) status = check_bools(*array);
    if (status == NT_OK) return NT_OK;
    nt_array_free(*array);
    *array = NULL;
    return status;
}

nt_array *nt_npy_read(const char *path) {
    nt_array *array = NULL;
    nt__input *input;
    if (!nt__given(path, "nt_npy_read", "path") || nt__input_open(path, &input) != NT_OK) return NULL;
    nt_status status = decode(input, &array);
    nt__input_close(input);
    if (status != NT_OK) nt__fail_in(status, "reading '%s'", path);
    return array;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

nt_status nt__npy_check(const char *path, const nt_array *array) {
    nt__type type = nt__array_type(array);
    char text[NT__TYPE_TEXT];
    size_t bytes;
    nt__type_text(type, text);
    if (!nt__type_bytes(type, &bytes) || bytes != array->bytes)
        return nt__fail(NT_INVALID, "writing '%s': the array is %s and states %zu bytes, which does not fit", path,
                        text, array->bytes);
    if (type_codes[array->dtype]) return NT_OK;
    return nt__fail(NT_INVALID, "writing '%s': NumPy has no type for %s; write a .safetensors file, which has", path,
                    nt_dtype_name(array->dtype));
}

/* The dictionary, without padding: "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }". */
static void add_dictionary(nt__text *text, const nt_array *array) {
    char order = nt_dtype_size(array->dtype) == 1 ? '|' : '<';
    nt__text_add(text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, type_codes[array->dtype]);
    for (int i = 0; i < array->shape.rank; i++) nt__text_add(text, "%s%" PRId64, i ? ", " : "", array->shape.dims[i]);
    nt__text_add(text, "%s), }", array->shape.rank == 1 ? "," : "");
}

/* Magic number, version 1.0, length and dictionary, which spaces and a newline fill up so that the elements start at a
 * multiple of 64. A header of 8 axes stays far below the 65,535 bytes of version 1.0. */
static void add_header(nt__text *text, const nt_array *array) {
    enum { START = PREFIX_SIZE + 2 };
    nt__text_put(text, magic, MAGIC_SIZE);
    nt__text_put(text, "\1\0\0\0", VERSION_SIZE + 2);
    add_dictionary(text, array);
    while (!text->failed && (text->length + 1) % HEADER_ALIGNMENT) nt__text_put(text, " ", 1);
    nt__text_put(text, "\n", 1);
    if (text->failed) return;
    size_t size = text->length - START;
    text->data[PREFIX_SIZE] = (char)(size & 0xFF);
    text->data[PREFIX_SIZE + 1] = (char)(size >> 8);
}

nt_status nt_npy_write(const char *path, const nt_array *array) {
    if (!nt__given(path, "nt_npy_write", "path") || !nt__given(array, "nt_npy_write", "array")) return NT_INVALID;
    nt_status status = nt__npy_check(path, array);
    if (status != NT_OK) return status;
    nt__text header_text = {0};
    add_header(&header_text, array);
    const nt__piece pieces[] = {{header_text.data, header_text.length}, {array->data, array->bytes}};
    status = header_text.failed ? NT_OUT_OF_MEMORY : nt__write_file_pieces(path, pieces, 2);
    nt__text_free(&header_text);
    return status;
}
