/* Files that hold arrays: IDX, NumPy, safetensors.
 */
#ifndef NT_FORMAT_FORMAT_H
#define NT_FORMAT_FORMAT_H

#include "array/array.h"

/* ---- NumPy (npy.c) ---------------------------------------------------------------------------------------------- */

/* Whether nt_npy_write can write an array like this one: NumPy has not every type. `path` is for the message. */
nt_status nt__npy_check(const char *path, const nt_array *array);

/* ---- safetensors (safetensors.c) -------------------------------------------------------------------------------- */

/* Writes a safetensors file (beside and renamed). `metadata` is a list of count pairs key, value, or NULL. */
nt_status nt__safetensors_write(const char *path, const nt__named_array *arrays, size_t count,
                                const char *const (*metadata)[2], size_t metadata_count);
/* What such a file has in front of the arrays' bytes: the length of the header and the header. */
nt_status nt__safetensors_header(const nt__named_array *arrays, size_t count, const char *const (*metadata)[2],
                                 size_t metadata_count, nt__text *out);

/* A tensor of a file that no array can be: its element type is not one of nitro's, or it has too many axes. */
typedef struct nt__unknown_array {
    const char *name, *type; /* "F8_E4M3[8]", as the file has it */
    const char *problem;     /* "unsupported element type F8_E4M3: ..." */
} nt__unknown_array;
/* What is said of one that is asked for: NT_INVALID. */
nt_status nt__fail_unknown_array(const nt__unknown_array *array);

/* A safetensors file read whole; arrays point into it. Everything the format forbids is refused with a message that
 * says what and where. */
typedef struct nt__safetensors {
    char *bytes;
    nt__named_array *arrays; /* in the order of their offsets; their data may lie at any address */
    size_t count;
    nt__unknown_array *unknown; /* tensors that are not among the arrays: an error only where one is asked for */
    size_t unknown_count;
    const char *const (*metadata)[2]; /* pairs key, value, as for nt__safetensors_write */
    size_t metadata_count;
    nt__arena arena; /* names, metadata and the list of arrays */
} nt__safetensors;
nt_status nt__safetensors_read(const char *path, nt__safetensors *out);
/* The header alone, and how many bytes follow it. The caller gives *header back with json_decref. */
struct json_t;
nt_status nt__safetensors_read_header(const char *path, struct json_t **header, size_t *data_length);
/* How many bytes of data the header states. */
size_t nt__safetensors_data_end(const struct json_t *header);
/* Refuses a large file that has more data than its header states, before it is read. */
nt_status nt__safetensors_check_size(const char *path);
/* The same of a file's bytes, which it takes over, also when the call fails; they came from nt__alloc. */
nt_status nt__safetensors_take(char *bytes, size_t length, nt__safetensors *out);
const nt__named_array *nt__safetensors_find(const nt__safetensors *file, const char *name);
void nt__safetensors_free(nt__safetensors *file);

#endif
