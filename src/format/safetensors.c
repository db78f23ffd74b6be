/* Writes and reads safetensors files: 8 bytes with the length of the header, the header (a JSON object with element
 * type, shape and place of every tensor), and the data, which the tensors cover without holes or overlaps.
 * Not here: what the names mean. Fields of a tensor's entry beyond the three of the format are ignored, as the format's
 * own library does; a header that starts with anything but '{', a name that occurs twice, and a BOOL byte other than 0
 * or 1 are refused, which that library lets pass.
 */
#include "format/format.h"
#include "base/files.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LENGTH_SIZE = 8, DATA_ALIGNMENT = 8, HEADER_LIMIT = 100 * 1000 * 1000 };

static const char metadata_key[] = "__metadata__";

static const char *const type_names[NT_DTYPE_COUNT] = {
    [NT_F32] = "F32", [NT_F64] = "F64", [NT_BF16] = "BF16", [NT_F16] = "F16", [NT_I8] = "I8",
    [NT_I16] = "I16", [NT_I32] = "I32", [NT_I64] = "I64",   [NT_U8] = "U8",   [NT_U16] = "U16",
    [NT_U32] = "U32", [NT_U64] = "U64", [NT_BOOL] = "BOOL",
};

/* Bytes of a tensor whose type was checked before. */
static size_t bytes_of(const nt__named_array *array) {
    size_t bytes = 0;
    nt__type_bytes(array->type, &bytes);
    return bytes;
}

/* The engine's behaviour on a BOOL byte other than 0 and 1 is not defined. */
static nt_status check_bools(const nt__named_array *array) {
    if (array->type.dtype != NT_BOOL) return NT_OK;
    const unsigned char *bytes = array->data;
    size_t count = bytes_of(array);
    for (size_t i = 0; i < count; i++)
        if (bytes[i] > 1) return nt__fail(NT_INVALID, "BOOL element %zu is %d, it must be 0 or 1", i, bytes[i]);
    return NT_OK;
}

/* ---- writing: the header ---------------------------------------------------------------------------------------- */

static nt_status no_memory_for_header(void) {
    return nt__fail(NT_OUT_OF_MEMORY, "out of host memory for the header");
}

/* A JSON string of text that may be anything. The JSON library fails alike on bad text and on lack of memory, so the
 * text is checked first. */
static nt_status new_string(const char *text, json_t **string) {
    if (!nt__is_utf8(text, strlen(text))) return nt__fail(NT_INVALID, "not valid UTF-8");
    *string = json_string(text);
    return *string ? NT_OK : no_memory_for_header();
}

/* Puts `value`, whose reference it takes, under a key that must be new. */
static nt_status add_member(json_t *object, const char *key, json_t *value) {
    nt_status status = NT_OK;
    if (!nt__is_utf8(key, strlen(key)))
        status = nt__fail(NT_INVALID, "not valid UTF-8");
    else if (json_object_get(object, key))
        status = nt__fail(NT_INVALID, "the name occurs twice");
    else if (json_object_set(object, key, value) != 0)
        status = no_memory_for_header();
    json_decref(value);
    return status;
}

static json_t *entry_of(nt__type type, size_t begin, size_t end) {
    json_t *entry = json_pack("{s:s,s:[],s:[I,I]}", "dtype", type_names[type.dtype], "shape", "data_offsets",
                              (json_int_t)begin, (json_int_t)end);
    json_t *shape = json_object_get(entry, "shape");
    for (int i = 0; shape && i < type.shape.rank; i++) {
        if (json_array_append_new(shape, json_integer(type.shape.dims[i])) == 0) continue;
        json_decref(entry);
        return NULL;
    }
    return entry;
}

/* Adds the tensor's entry; *offset is where its data starts and becomes where it ends. */
static nt_status add_entry(json_t *header, const nt__named_array *array, size_t *offset) {
    char text[NT__TYPE_TEXT];
    size_t bytes;
    size_t begin = *offset;
    if (!nt__type_bytes(array->type, &bytes) || __builtin_add_overflow(begin, bytes, offset) || *offset > PTRDIFF_MAX)
        return nt__fail(NT_INVALID, "%s is not possible or does not fit in a file", nt__type_text(array->type, text));
    if (strcmp(array->name, metadata_key) == 0) return nt__fail(NT_INVALID, "the format keeps this name for itself");
    nt_status status = check_bools(array);
    return status == NT_OK ? add_member(header, array->name, entry_of(array->type, begin, *offset)) : status;
}

static nt_status add_metadata(json_t *header, const char *const (*metadata)[2], size_t count) {
    if (count == 0) return NT_OK;
    json_t *object = json_object();
    if (json_object_set_new(header, metadata_key, object) != 0) return no_memory_for_header();
    for (size_t i = 0; i < count; i++) {
        json_t *value = NULL;
        nt_status status = new_string(metadata[i][1], &value);
        if (status == NT_OK) status = add_member(object, metadata[i][0], value);
        if (status != NT_OK) return nt__fail_in(status, "metadata '%s'", metadata[i][0]);
    }
    return NT_OK;
}

static int put_text(const char *bytes, size_t length, void *text) {
    nt__text_put(text, bytes, length);
    return ((nt__text *)text)->failed ? -1 : 0;
}

/* The JSON, padded with spaces so that the data is aligned. */
static nt_status print_padded(const json_t *header, nt__text *text) {
    static const char spaces[DATA_ALIGNMENT] = "       ";
    if (json_dump_callback(header, put_text, text, JSON_COMPACT) == 0) {
        size_t beyond = text->length % DATA_ALIGNMENT;
        nt__text_put(text, spaces, beyond ? DATA_ALIGNMENT - beyond : 0);
        if (!text->failed) return NT_OK;
    }
    return text->failed ? NT_OUT_OF_MEMORY : no_memory_for_header();
}

/* The length field and the header. */
static nt_status print_header(const json_t *header, nt__text *text) {
    uint64_t length = 0;
    nt__text_put(text, (const char *)&length, LENGTH_SIZE);
    nt_status status = print_padded(header, text);
    if (status != NT_OK) return status;
    length = text->length - LENGTH_SIZE;
    if (length > HEADER_LIMIT)
        return nt__fail(NT_INVALID, "the header has %zu bytes, the format allows %d", (size_t)length, HEADER_LIMIT);
    memcpy(text->data, &length, LENGTH_SIZE);
    return NT_OK;
}

static nt_status fill_header(json_t *header, const nt__named_array *arrays, size_t count,
                             const char *const (*metadata)[2], size_t metadata_count) {
    nt_status status = add_metadata(header, metadata, metadata_count);
    size_t offset = 0;
    for (size_t i = 0; status == NT_OK && i < count; i++) {
        status = add_entry(header, &arrays[i], &offset);
        if (status != NT_OK) nt__fail_in(status, "tensor '%s'", arrays[i].name);
    }
    return status;
}

/* ---- writing: the file ------------------------------------------------------------------------------------------ */

/* The data is written from where it lies, without a copy of the whole. */
static nt_status write_pieces(const char *path, const nt__text *header, const nt__named_array *arrays, size_t count) {
    nt__piece *pieces = nt__alloc(count + 1, sizeof *pieces);
    if (!pieces) return NT_OUT_OF_MEMORY;
    pieces[0] = (nt__piece){header->data, header->length};
    for (size_t i = 0; i < count; i++) pieces[i + 1] = (nt__piece){arrays[i].data, bytes_of(&arrays[i])};
    nt_status status = nt__write_file_pieces(path, pieces, count + 1);
    nt__free(pieces);
    return status;
}

nt_status nt__safetensors_header(const nt__named_array *arrays, size_t count, const char *const (*metadata)[2],
                                 size_t metadata_count, nt__text *out) {
    json_t *header = json_object();
    nt_status status = header ? fill_header(header, arrays, count, metadata, metadata_count) : no_memory_for_header();
    if (status == NT_OK) status = print_header(header, out);
    json_decref(header);
    return status;
}

nt_status nt__safetensors_write(const char *path, const nt__named_array *arrays, size_t count,
                                const char *const (*metadata)[2], size_t metadata_count) {
    nt__text text = {0};
    nt_status status = nt__safetensors_header(arrays, count, metadata, metadata_count, &text);
    if (status != NT_OK)
        nt__fail_in(status, "writing '%s'", path);
    else
        status = write_pieces(path, &text, arrays, count);
    nt__text_free(&text);
    return status;
}

/* ---- reading: one entry of the header --------------------------------------------------------------------------- */

/* The part of the file after the header. */
typedef struct data_part {
    const char *bytes;
    size_t length;
} data_part;

enum { JSON_TEXT = 64, MOST_AXES_SHOWN = 16 };

/* A value as it stands in the header, for messages. */
static const char *json_text(const json_t *value, char out[JSON_TEXT]) {
    if (!value) return "missing";
    memset(out, 0, JSON_TEXT);
    size_t length = json_dumpb(value, out, JSON_TEXT - 1, JSON_ENCODE_ANY | JSON_COMPACT);
    return length < JSON_TEXT ? out : "too long to be shown";
}

static nt_status read_size(const json_t *list, size_t index, const char *key, int64_t *out) {
    char text[JSON_TEXT];
    const json_t *element = json_array_get(list, index);
    *out = json_integer_value(element);
    if (json_is_integer(element) && *out >= 0) return NT_OK;
    return nt__fail(NT_INVALID, "element %zu of '%s' is %s, it must be an integer from 0", index, key,
                    json_text(element, text));
}

/* A list of integers from 0; the first of them, at most `limit`, in `sizes`. */
static nt_status read_sizes(const json_t *entry, const char *key, size_t limit, int64_t *sizes, size_t *count) {
    char text[JSON_TEXT];
    const json_t *list = json_object_get(entry, key);
    nt_status status = NT_OK;
    if (!json_is_array(list))
        return nt__fail(NT_INVALID, "'%s' is %s, it must be a list of integers", key, json_text(list, text));
    *count = json_array_size(list);
    for (size_t i = 0; status == NT_OK && i < *count; i++) {
        int64_t size;
        status = read_size(list, i, key, &size);
        if (i < limit) sizes[i] = size;
    }
    return status;
}

/* The name in the file, and the type: NT_DTYPE_COUNT where it is none of nitro's. */
static nt_status read_dtype(const json_t *entry, const char **name, nt_dtype *dtype) {
    char text[JSON_TEXT];
    const json_t *value = json_object_get(entry, "dtype");
    *name = json_string_value(value);
    if (!*name) return nt__fail(NT_INVALID, "'dtype' is %s, it must be a string", json_text(value, text));
    for (*dtype = 0; *dtype < NT_DTYPE_COUNT; (*dtype)++)
        if (strcmp(type_names[*dtype], *name) == 0) break;
    return NT_OK;
}

static nt_status read_offsets(const json_t *entry, size_t *begin, size_t *end) {
    int64_t offsets[2];
    size_t count;
    nt_status status = read_sizes(entry, "data_offsets", 2, offsets, &count);
    if (status != NT_OK) return status;
    if (count != 2) return nt__fail(NT_INVALID, "'data_offsets' has %zu elements, it must have 2", count);
    *begin = (size_t)offsets[0];
    *end = (size_t)offsets[1];
    if (*end >= *begin) return NT_OK;
    return nt__fail(NT_INVALID, "'data_offsets' end at %zu, before they begin at %zu", *end, *begin);
}

/* The tensor's bytes are in the file. */
static nt_status check_end(size_t end, size_t data_length) {
    if (end <= data_length) return NT_OK;
    return nt__fail(NT_INVALID, "its data ends at byte %zu, the file has %zu bytes of data: %zu are missing", end,
                    data_length, end - data_length);
}

/* They are as many as its type asks for. */
static nt_status check_size(nt__type type, size_t begin, size_t end) {
    char text[NT__TYPE_TEXT];
    size_t needed;
    nt__type_text(type, text);
    if (!nt__type_bytes(type, &needed)) return nt__fail(NT_INVALID, "%s has more bytes than fit in 64 bits", text);
    if (end - begin == needed) return NT_OK;
    return nt__fail(NT_INVALID, "%s needs %zu bytes, its offsets %zu to %zu hold %zu", text, needed, begin, end,
                    end - begin);
}

/* ---- reading: what no array can be ------------------------------------------------------------------------------ */

nt_status nt__fail_unknown_array(const nt__unknown_array *array) {
    return nt__fail(NT_INVALID, "tensor '%s': %s", array->name, array->problem);
}

/* "F8_E4M3[8]" */
static const char *unknown_type(const char *dtype, const json_t *shape, nt__arena *arena) {
    nt__text text = {0};
    size_t rank = json_array_size(shape);
    nt__text_add(&text, "%.32s[", dtype);
    for (size_t i = 0; i < rank && i < MOST_AXES_SHOWN; i++)
        nt__text_add(&text, "%s%lld", i ? "," : "", (long long)json_integer_value(json_array_get(shape, i)));
    nt__text_add(&text, "%s]", rank > MOST_AXES_SHOWN ? ",..." : "");
    const char *type = text.failed ? NULL : nt__arena_strdup(arena, text.data);
    nt__text_free(&text);
    return type;
}

static nt_status keep_unknown(const char *name, const char *dtype, const json_t *shape, bool is_of_known_type,
                              nt__safetensors *file) {
    nt__unknown_array *unknown = &file->unknown[file->unknown_count++];
    const char *type = unknown_type(dtype, shape, &file->arena);
    const char *problem =
        is_of_known_type
            ? nt__arena_sprintf(&file->arena, "'shape' has %zu elements, at most %d are possible",
                                json_array_size(shape), NT_MAX_RANK)
            : nt__arena_sprintf(&file->arena,
                                "unsupported element type %.32s: write the tensor as BOOL, U8 to U64, I8 to I64, F16, "
                                "BF16, F32 or F64",
                                dtype);
    *unknown = (nt__unknown_array){name, type, problem};
    return type && problem ? NT_OK : NT_OUT_OF_MEMORY;
}

/* ---- reading: an entry as a whole ------------------------------------------------------------------------------- */

/* Where the bytes of a tensor lie, whatever they are. */
typedef struct place {
    const char *name;
    size_t begin, end;
} place;

static nt_status read_entry(const json_t *entry, data_part data, place *at, nt__safetensors *file) {
    char text[JSON_TEXT];
    size_t rank = 0;
    const char *dtype;
    nt__named_array *array = &file->arrays[file->count];
    *array = (nt__named_array){.name = at->name};
    if (!json_is_object(entry))
        return nt__fail(NT_INVALID, "its entry is %s, it must be an object", json_text(entry, text));
    nt_status status = read_dtype(entry, &dtype, &array->type.dtype);
    if (status == NT_OK) status = read_sizes(entry, "shape", NT_MAX_RANK, array->type.shape.dims, &rank);
    if (status == NT_OK) status = read_offsets(entry, &at->begin, &at->end);
    if (status == NT_OK) status = check_end(at->end, data.length);
    if (status != NT_OK) return status;
    bool is_known = array->type.dtype != NT_DTYPE_COUNT;
    if (!is_known || rank > NT_MAX_RANK)
        return keep_unknown(at->name, dtype, json_object_get(entry, "shape"), is_known, file);
    array->type.shape.rank = (int)rank;
    status = check_size(array->type, at->begin, at->end);
    if (status != NT_OK) return status;
    array->data = data.bytes + at->begin;
    file->count++;
    return check_bools(array);
}

/* ---- reading: the header ---------------------------------------------------------------------------------------- */

static nt_status read_metadata(json_t *object, nt__safetensors *file) {
    char text[JSON_TEXT];
    if (!object) return NT_OK;
    if (!json_is_object(object))
        return nt__fail(NT_INVALID, "'%s' is %s, it must be an object", metadata_key, json_text(object, text));
    const char *(*pairs)[2] = nt__arena_alloc(&file->arena, json_object_size(object), sizeof *pairs);
    if (!pairs) return NT_OUT_OF_MEMORY;
    file->metadata = (const char *const(*)[2])pairs;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (!json_is_string(value))
            return nt__fail(NT_INVALID, "metadata '%s' is %s, it must be a string", key, json_text(value, text));
        const char **pair = pairs[file->metadata_count++];
        pair[0] = nt__arena_strdup(&file->arena, key);
        pair[1] = nt__arena_strdup(&file->arena, json_string_value(value));
        if (!pair[0] || !pair[1]) return NT_OUT_OF_MEMORY;
    }
    return NT_OK;
}

static nt_status read_entries(json_t *header, data_part data, place *places, nt__safetensors *file) {
    const char *name;
    json_t *entry;
    size_t count = 0;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, metadata_key) == 0) continue;
        place *at = &places[count++];
        at->name = nt__arena_strdup(&file->arena, name);
        if (!at->name) return NT_OUT_OF_MEMORY;
        nt_status status = read_entry(entry, data, at, file);
        if (status != NT_OK) return nt__fail_in(status, "tensor '%s'", name);
    }
    return NT_OK;
}

/* By place; tensors without bytes come before the one that starts where they lie, and by name among themselves. */
static int compare_places(const void *left, const void *right) {
    const place *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end) return a->end < b->end ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int compare_arrays(const void *left, const void *right) {
    const nt__named_array *a = left, *b = right;
    const char *at_a = a->data, *at_b = b->data;
    return compare_places(&(place){a->name, (size_t)at_a, (size_t)at_a + bytes_of(a)},
                          &(place){b->name, (size_t)at_b, (size_t)at_b + bytes_of(b)});
}

/* Sorted by place, each tensor begins where the one before ends, and the last ends with the file. */
static nt_status check_cover(const place *places, size_t count, data_part data) {
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        const place *at = &places[i];
        if (at->begin < end)
            return nt__fail(NT_INVALID,
                            "tensors '%s' and '%s' overlap: one ends at byte %zu of the data, the other begins at %zu",
                            places[i - 1].name, at->name, end, at->begin);
        if (at->begin > end)
            return nt__fail(NT_INVALID, "bytes %zu to %zu of the data, before tensor '%s', belong to no tensor", end,
                            at->begin, at->name);
        end = at->end;
    }
    if (end == data.length) return NT_OK;
    return nt__fail(NT_INVALID, "%zu bytes follow the last tensor, whose data ends at byte %zu", data.length - end,
                    end);
}

static nt_status read_tensors(json_t *header, data_part data, place *places, nt__safetensors *file) {
    nt_status status = read_entries(header, data, places, file);
    size_t count = file->count + file->unknown_count;
    if (status != NT_OK) return status;
    if (count > 1) qsort(places, count, sizeof *places, compare_places);
    if (file->count > 1) qsort(file->arrays, file->count, sizeof *file->arrays, compare_arrays);
    return check_cover(places, count, data);
}

static nt_status read_header(json_t *header, data_part data, nt__safetensors *file) {
    size_t most = json_object_size(header) + 1;
    nt_status status = read_metadata(json_object_get(header, metadata_key), file);
    if (status != NT_OK) return status;
    place *places = nt__alloc(most, sizeof *places);
    file->arrays = nt__arena_alloc(&file->arena, most, sizeof *file->arrays);
    file->unknown = nt__arena_alloc(&file->arena, most, sizeof *file->unknown);
    status = places && file->arrays && file->unknown ? read_tensors(header, data, places, file) : NT_OUT_OF_MEMORY;
    nt__free(places);
    return status;
}

/* ---- reading: the whole ----------------------------------------------------------------------------------------- */

/* `length` bytes of the file's `size` are at hand. */
static nt_status check_header_length(const char *bytes, size_t length, size_t size, uint64_t *header_length) {
    if (length < LENGTH_SIZE)
        return nt__fail(NT_INVALID, "the file has %zu bytes, a safetensors file starts with a length of %d bytes",
                        length, LENGTH_SIZE);
    if (memcmp(bytes, "PK\3\4", 4) == 0)
        return nt__fail(NT_INVALID, "not a safetensors file but a zip archive, as PyTorch's .pt files and NumPy's .npz "
                                    "files are: save it as safetensors");
    memcpy(header_length, bytes, LENGTH_SIZE);
    if (*header_length > HEADER_LIMIT || *header_length > size - LENGTH_SIZE)
        return nt__fail(NT_INVALID,
                        "the header's length is stated as %llu bytes, %zu follow and the format allows %d: the file is "
                        "cut or not a safetensors file",
                        (unsigned long long)*header_length, size - LENGTH_SIZE, HEADER_LIMIT);
    if (*header_length == 0) return nt__fail(NT_INVALID, "the header is empty, it must be a JSON object");
    if (bytes[LENGTH_SIZE] != '{')
        return nt__fail(NT_INVALID, "the header must begin with '{', its first byte is 0x%02x",
                        (unsigned char)bytes[LENGTH_SIZE]);
    return NT_OK;
}

/* What a value of JSON takes in memory is a hundred times the two bytes that it can have in the file. An entry of a
 * tensor has some 60 bytes and 8 values. */
static nt_status check_density(const char *text, size_t length) {
    enum { SMALL = 1 << 20, LEAST_OF_VALUE = 4, LEAST_OF_OBJECT = 32 };
    size_t values = 0, objects = 0;
    if (length < SMALL) return NT_OK;
    for (size_t i = 0; i < length; i++) {
        values += text[i] == ',';
        objects += text[i] == '{' || text[i] == '[';
    }
    if (values <= length / LEAST_OF_VALUE && objects <= length / LEAST_OF_OBJECT * 3) return NT_OK;
    return nt__fail(NT_INVALID, "the header is no list of tensors: its %zu bytes have %zu commas and %zu brackets",
                    length, values, objects);
}

static nt_status parse_header(const char *text, size_t length, json_t **header) {
    json_error_t error;
    nt_status status = check_density(text, length);
    if (status != NT_OK) return status;
    *header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (*header) return NT_OK;
    /* The library has a text for everything that can be wrong with JSON, and none for some failed allocations. Others
     * it takes for bad JSON, or passes over with a byte lost (jansson 2.14, its issue 362), which cannot be seen from
     * here. */
    if (json_error_code(&error) == json_error_out_of_memory || error.text[0] == 0) return no_memory_for_header();
    return nt__fail(NT_INVALID, "the header is not the JSON the format asks for, near byte %d of %zu: %s",
                    error.position, length, error.text);
}

static nt_status read_bytes(size_t length, nt__safetensors *file) {
    uint64_t header_length = 0;
    nt_status status = check_header_length(file->bytes, length, length, &header_length);
    if (status != NT_OK) return status;
    json_t *header = NULL;
    status = parse_header(file->bytes + LENGTH_SIZE, header_length, &header);
    size_t start = LENGTH_SIZE + header_length;
    if (status == NT_OK) status = read_header(header, (data_part){file->bytes + start, length - start}, file);
    json_decref(header);
    return status;
}

nt_status nt__safetensors_take(char *bytes, size_t length, nt__safetensors *out) {
    *out = (nt__safetensors){.bytes = bytes};
    nt_status status = read_bytes(length, out);
    if (status != NT_OK) nt__safetensors_free(out);
    return status;
}

/* ---- reading: the header alone ---------------------------------------------------------------------------------- */

size_t nt__safetensors_data_end(const json_t *header) {
    const char *name;
    const json_t *entry;
    json_int_t end = 0;
    json_object_foreach((json_t *)header, name, entry) {
        json_int_t one = json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 1));
        if (one > end) end = one;
    }
    return (size_t)end;
}

nt_status nt__safetensors_read_header(const char *path, json_t **header, size_t *data_length) {
    char *bytes;
    size_t length, size;
    uint64_t header_length = 0;
    *header = NULL;
    nt_status status = nt__read_beginning(path, LENGTH_SIZE + 1, &bytes, &length, &size);
    if (status != NT_OK) return status;
    status = check_header_length(bytes, length, size, &header_length);
    nt__free(bytes);
    if (status != NT_OK) return status;
    status = nt__read_beginning(path, LENGTH_SIZE + header_length, &bytes, &length, &size);
    if (status != NT_OK) return status;
    if (length < LENGTH_SIZE + header_length)
        status = nt__fail(NT_INVALID, "it was cut while it was read");
    else
        status = parse_header(bytes + LENGTH_SIZE, header_length, header);
    nt__free(bytes);
    *data_length = size - length;
    return status;
}

nt_status nt__safetensors_check_size(const char *path) {
    enum { LARGE = 64 << 20 };
    struct stat info;
    json_t *header;
    size_t there;
    if (stat(path, &info) != 0 || info.st_size < LARGE) return NT_OK;
    nt_status status = nt__safetensors_read_header(path, &header, &there);
    if (status != NT_OK) return status;
    size_t stated = nt__safetensors_data_end(header);
    json_decref(header);
    if (there <= stated) return NT_OK;
    return nt__fail(NT_INVALID, "%zu bytes follow the last tensor, whose data ends at byte %zu", there - stated,
                    stated);
}

/* ---- reading: the file ------------------------------------------------------------------------------------------ */

nt_status nt__safetensors_read(const char *path, nt__safetensors *out) {
    char *bytes;
    size_t length;
    *out = (nt__safetensors){0};
    nt_status status = nt__safetensors_check_size(path);
    if (status != NT_OK) return nt__fail_in(status, "reading '%s'", path);
    status = nt__read_file(path, &bytes, &length);
    if (status != NT_OK) return status;
    status = nt__safetensors_take(bytes, length, out);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "reading '%s'", path);
}

const nt__named_array *nt__safetensors_find(const nt__safetensors *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->arrays[i].name, name) == 0) return &file->arrays[i];
    return NULL;
}

void nt__safetensors_free(nt__safetensors *file) {
    nt__arena_free(&file->arena);
    nt__free(file->bytes);
    *file = (nt__safetensors){0};
}
