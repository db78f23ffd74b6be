/* Reads IDX files, the format of MNIST and its successors: two zero bytes, a byte for the element type, a byte for the
 * number of axes, the sizes as 32-bit numbers, the elements; all big-endian.
 * Not here: what belongs together, such as images and their labels.
 */
#include "format/input.h"
#include "base/files.h"

#include <string.h>
#include <unistd.h>

/* ---- the header ------------------------------------------------------------------------------------------------- */

enum { MAGIC_SIZE = 4, AXIS_SIZE = 4 };

static const struct {
    unsigned char code;
    nt_dtype dtype;
} element_types[] = {
    {0x08, NT_U8}, {0x09, NT_I8}, {0x0B, NT_I16}, {0x0C, NT_I32}, {0x0D, NT_F32}, {0x0E, NT_F64},
};

static nt_status find_element_type(unsigned char code, nt_dtype *dtype) {
    for (size_t i = 0; i < sizeof element_types / sizeof *element_types; i++) {
        if (element_types[i].code != code) continue;
        *dtype = element_types[i].dtype;
        return NT_OK;
    }
    return nt__fail(NT_INVALID,
                    "element type 0x%02x is not one of IDX, which has 0x08 u8, 0x09 i8, 0x0b i16, 0x0c i32, 0x0d f32 "
                    "and 0x0e f64",
                    code);
}

static nt_status check_magic(const unsigned char *bytes, size_t length) {
    if (length == 0) return nt__fail(NT_INVALID, "the file is empty");
    if (length < MAGIC_SIZE)
        return nt__fail(NT_INVALID, "the file has %zu bytes, the magic number of IDX has %d", length, MAGIC_SIZE);
    if (bytes[0] == 0 && bytes[1] == 0) return NT_OK;
    return nt__fail(
        NT_INVALID,
        "not an IDX file (which starts with the bytes 00 00) and not gzip (1f 8b): it starts with %02x %02x", bytes[0],
        bytes[1]);
}

static int64_t big_endian_32(const unsigned char *at) {
    return (int64_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

static nt_status read_header(nt__input *input, nt__type *type) {
    unsigned char magic[MAGIC_SIZE], sizes[NT_MAX_RANK * AXIS_SIZE];
    size_t length;
    nt_status status = nt__input_read(input, magic, MAGIC_SIZE, &length);
    if (status == NT_OK) status = check_magic(magic, length);
    if (status == NT_OK) status = find_element_type(magic[2], &type->dtype);
    if (status != NT_OK) return status;
    int rank = magic[3];
    if (rank == 0) return nt__fail(NT_INVALID, "the header states no axis: an IDX file has at least one, the samples");
    if (rank > NT_MAX_RANK)
        return nt__fail(NT_INVALID, "the header states %d axes, arrays have at most %d", rank, NT_MAX_RANK);
    size_t needed = (size_t)rank * AXIS_SIZE;
    status = nt__input_read(input, sizes, needed, &length);
    if (status != NT_OK) return status;
    if (length < needed)
        return nt__fail(NT_INVALID, "the file ends inside the sizes: a header of %d axes has %zu bytes, %zu are there",
                        rank, MAGIC_SIZE + needed, MAGIC_SIZE + length);
    type->shape.rank = rank;
    for (int i = 0; i < rank; i++) type->shape.dims[i] = big_endian_32(sizes + i * AXIS_SIZE);
    return NT_OK;
}

/* ---- the elements ----------------------------------------------------------------------------------------------- */

static void turn_bytes(char *at, size_t count, size_t size) {
    for (size_t i = 0; i < count; i++, at += size) {
        for (size_t j = 0; j < size / 2; j++) {
            char byte = at[j];
            at[j] = at[size - 1 - j];
            at[size - 1 - j] = byte;
        }
    }
}

static nt_status decode(nt__input *input, nt_array **array) {
    nt__type type = {0};
    nt_status status = read_header(input, &type);
    if (status == NT_OK) status = nt__input_array(input, type, array);
    if (status != NT_OK) return status;
    size_t size = nt_dtype_size(type.dtype);
    if (size > 1) turn_bytes((*array)->data, (*array)->bytes / size, size);
    return NT_OK;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static nt_status read_path(const char *path, nt_array **array) {
    nt__input *input;
    nt_status status = nt__input_open(path, &input);
    if (status != NT_OK) return status;
    status = decode(input, array);
    nt__input_close(input);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "reading '%s'", path);
}

/* "name.gz" for "name", and the other way round. */
static char *other_name(nt__arena *arena, const char *name) {
    size_t length = strlen(name);
    bool packed = length > 3 && strcmp(name + length - 3, ".gz") == 0;
    return packed ? nt__arena_sprintf(arena, "%.*s", (int)length - 3, name) : nt__arena_sprintf(arena, "%s.gz", name);
}

static nt_status not_found(const char *folder, const char *file, const char *other) {
    if (!folder) return nt__fail(NT_NOT_FOUND, "found neither '%s' nor '%s': change the path", file, other);
    return nt__fail(NT_NOT_FOUND,
                    "found neither '%s' nor '%s' in '%s'%s: change the field or flag that names the folder, or put the "
                    "file there",
                    file, other, folder, nt__is_folder(folder) ? "" : ", which is not a folder");
}

static nt_status read_in(nt__arena *arena, const char *folder, const char *file, nt_array **array) {
    const char *path = folder ? nt__arena_sprintf(arena, "%s/%s", folder, file) : file;
    if (!path) return NT_OUT_OF_MEMORY;
    /* Looked at first: a name that is not there is no failure while the other one is. */
    return access(path, F_OK) == 0 ? read_path(path, array) : NT_NOT_FOUND;
}

static nt_status find_and_read(nt__arena *arena, const char *folder, const char *file, nt_array **array) {
    nt_status status = read_in(arena, folder, file, array);
    if (status != NT_NOT_FOUND) return status;
    const char *other = other_name(arena, file);
    if (!other) return NT_OUT_OF_MEMORY;
    status = read_in(arena, folder, other, array);
    return status == NT_NOT_FOUND ? not_found(folder, file, other) : status;
}

nt_array *nt_idx_read(const char *folder, const char *file) {
    nt__arena arena = {0};
    nt_array *array = NULL;
    if (!nt__given(file, "nt_idx_read", "file")) return NULL;
    find_and_read(&arena, folder, file, &array);
    nt__arena_free(&arena);
    return array;
}
