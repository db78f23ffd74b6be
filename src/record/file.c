/* A record as a file: a safetensors file whose metadata holds the facts and a hash of the whole content.
 * Not here: which records a folder has (manifest.c), what the facts say.
 *
 * The hash covers every byte of the file, with zeros in the place of its own digits. They are put into the header when
 * the last byte was written, so that one pass over the arrays hashes and writes them.
 */
#include "record/record_internal.h"
#include "base/files.h"

#include <stdlib.h>
#include <string.h>

enum { DIGITS = 32, CHUNK = 1 << 20 };

static const char hash_key[] = "content_hash", facts_key[] = "nitro_record";
static const char no_digits[DIGITS + 1] = "00000000000000000000000000000000";

/* Where the digits stand in a file's first bytes; NULL: nowhere. A quote within a string has a backslash before it, so
 * the key with its quotes stands nowhere else. */
static char *find_digits(char *header, size_t length) {
    static const char key[] = "\"content_hash\":\"";
    char *found = header ? memmem(header, length, key, sizeof key - 1) : NULL;
    size_t place = found ? (size_t)(found - header) + sizeof key - 1 : 0;
    return found && length - place > DIGITS ? header + place : NULL;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static nt_status print_header(const nt__record *record, nt__text *out) {
    char *facts = json_dumps(record->facts, JSON_COMPACT);
    if (!facts) return nt__fail(NT_OUT_OF_MEMORY, "out of host memory for the facts of a checkpoint");
    const char *metadata[][2] = {{hash_key, no_digits}, {facts_key, facts}};
    nt_status status = nt__safetensors_header(record->arrays, record->count, metadata, 2, out);
    free(facts);
    return status;
}

/* In parts that are still in the processor's cache when they are written. */
static nt_status put_hashed(nt__new_file *file, nt__hasher *hasher, const char *bytes, size_t length) {
    nt_status status = NT_OK;
    while (status == NT_OK && length > 0) {
        size_t part = length < CHUNK ? length : CHUNK;
        nt__hasher_add(hasher, bytes, part);
        status = nt__new_file_put(file, bytes, part);
        bytes += part;
        length -= part;
    }
    return status;
}

static nt_status put_content(nt__new_file *file, nt__hasher *hasher, const nt__record *record, const nt__text *header) {
    nt_status status = put_hashed(file, hasher, header->data, header->length);
    for (size_t i = 0; status == NT_OK && i < record->count; i++) {
        size_t bytes = 0;
        nt__type_bytes(record->arrays[i].type, &bytes);
        status = put_hashed(file, hasher, record->arrays[i].data, bytes);
    }
    return status;
}

static nt_status put_record(nt__new_file *file, const nt__record *record, nt__text *header, nt__hash *hash) {
    nt__hasher *hasher = nt__hasher_new();
    if (!hasher) return NT_OUT_OF_MEMORY;
    nt_status status = put_content(file, hasher, record, header);
    *hash = nt__hasher_end(hasher);
    if (status != NT_OK) return status;
    char digits[DIGITS + 1];
    nt__hash_hex(*hash, digits);
    return nt__new_file_put_at(file, (size_t)(find_digits(header->data, header->length) - header->data), digits,
                               DIGITS);
}

static nt_status write_record(const char *path, const nt__record *record, nt__text *header, nt__hash *hash) {
    nt__new_file file;
    nt_status status = print_header(record, header);
    if (status == NT_OK) status = nt__new_file_open(path, true, &file);
    if (status != NT_OK) return status;
    status = put_record(&file, record, header, hash);
    if (status == NT_OK) return nt__new_file_finish(&file);
    nt__new_file_drop(&file);
    return status;
}

nt_status nt__record_write(const char *path, const nt__record *record, nt__hash *hash) {
    nt__text header = {0};
    nt_status status = write_record(path, record, &header, hash);
    nt__text_free(&header);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "writing the checkpoint '%s'", path);
}

/* ---- what a header says ----------------------------------------------------------------------------------------- */

static nt_status fail_not_a_record(void) {
    return nt__fail(NT_INVALID, "it is a safetensors file, but no checkpoint: it can be loaded as weights alone");
}

static nt_status check_version(const json_t *facts) {
    const json_t *version = json_object_get(facts, "format_version");
    const char *writer = json_string_value(json_object_get(facts, "framework_version"));
    if (!json_is_integer(version)) return nt__fail(NT_INVALID, "the checkpoint's format_version is missing");
    if (json_integer_value(version) == NT__RECORD_FORMAT) return NT_OK;
    return nt__fail(NT_INVALID,
                    "the checkpoint has format version %lld, written by nitro %s; this is nitro %s, which reads format "
                    "version %d: load it with the version that wrote it",
                    (long long)json_integer_value(version), writer ? writer : "of an unknown version", NT__VERSION,
                    NT__RECORD_FORMAT);
}

nt_status nt__facts_read(const char *text, json_t **facts) {
    json_error_t error;
    *facts = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (*facts) return NT_OK;
    /* The library has a text for everything that can be wrong with JSON. */
    if (json_error_code(&error) == json_error_out_of_memory || !error.text[0])
        return nt__fail(NT_OUT_OF_MEMORY, "out of host memory for its facts");
    return nt__fail(NT_INVALID, "its facts are not JSON: %s", error.text);
}

static nt_status parse_facts(const char *text, json_t **facts) {
    *facts = NULL;
    if (!text) return fail_not_a_record();
    nt_status status = nt__facts_read(text, facts);
    if (status != NT_OK) return status;
    status = json_is_object(*facts) ? check_version(*facts) : fail_not_a_record();
    if (status == NT_OK) return NT_OK;
    json_decref(*facts);
    *facts = NULL;
    return status;
}

/* ---- reading a record ------------------------------------------------------------------------------------------- */

static const char *metadata_of(const nt__safetensors *file, const char *key) {
    for (size_t i = 0; i < file->metadata_count; i++)
        if (strcmp(file->metadata[i][0], key) == 0) return file->metadata[i][1];
    return NULL;
}

/* What is known of a file's content as it is read. The digits stand in its first part; zeros are put in their place. */
typedef struct content {
    nt__hasher *hasher;
    bool begun;
    char digits[DIGITS + 1]; /* "": there are none */
} content;

static void look_at_part(void *context, char *part, size_t length) {
    content *seen = context;
    char *place = seen->begun ? NULL : find_digits(part, length);
    if (place) {
        memcpy(seen->digits, place, DIGITS);
        memcpy(place, no_digits, DIGITS);
    }
    seen->begun = true;
    nt__hasher_add(seen->hasher, part, length);
}

static nt_status check_content(const content *seen, nt__hash hash) {
    char right[DIGITS + 1];
    nt__hash_hex(hash, right);
    if (!*seen->digits) return fail_not_a_record();
    if (strcmp(seen->digits, right) == 0) return NT_OK;
    return nt__fail(NT_INVALID, "its content was changed since it was written: its hash is %s, and it states %s", right,
                    seen->digits);
}

static nt_status check_record(nt__record *record, const content *seen, nt__hash hash) {
    nt_status status = parse_facts(metadata_of(&record->file, facts_key), &record->facts);
    if (status == NT_OK && record->file.unknown_count) status = nt__fail_unknown_array(&record->file.unknown[0]);
    if (status == NT_OK) status = check_content(seen, hash);
    record->arrays = record->file.arrays;
    record->count = record->file.count;
    return status == NT_OK ? nt__record_list_places(record) : status;
}

static nt_status read_record(const char *path, nt__record *out, nt__hash *hash) {
    char *bytes;
    size_t length;
    nt_status status = nt__safetensors_check_size(path);
    if (status != NT_OK) return status;
    content seen = {.hasher = nt__hasher_new()};
    if (!seen.hasher) return NT_OUT_OF_MEMORY;
    status = nt__read_looking(path, look_at_part, &seen, &bytes, &length);
    *hash = nt__hasher_end(seen.hasher);
    if (status == NT_OK) status = nt__safetensors_take(bytes, length, &out->file);
    if (status == NT_OK) status = check_record(out, &seen, *hash);
    if (status != NT_OK) nt__record_free(out);
    return status;
}

nt_status nt__record_read_hashed(const char *path, nt__record *out, nt__hash *hash) {
    *out = (nt__record){0};
    nt_status status = read_record(path, out, hash);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "reading the checkpoint '%s'", path);
}

nt_status nt__record_read(const char *path, nt__record *out) {
    nt__hash hash;
    return nt__record_read_hashed(path, out, &hash);
}

/* ---- reading the facts alone ------------------------------------------------------------------------------------ */

static nt_status take_header(const json_t *header, size_t there, json_t **facts, nt__hash *hash) {
    const json_t *metadata = json_object_get(header, "__metadata__");
    const char *digits = json_string_value(json_object_get(metadata, hash_key));
    size_t stated = nt__safetensors_data_end(header);
    if (!digits || !nt__hash_from_hex(digits, hash)) return fail_not_a_record();
    if (stated == there) return parse_facts(json_string_value(json_object_get(metadata, facts_key)), facts);
    return nt__fail(NT_INVALID, "it was cut: its arrays have %zu bytes, %zu are there", stated, there);
}

nt_status nt__record_read_header(const char *path, json_t **facts, nt__hash *hash) {
    json_t *header;
    size_t there;
    *facts = NULL;
    nt_status status = nt__safetensors_read_header(path, &header, &there);
    if (status == NT_OK) status = take_header(header, there, facts, hash);
    json_decref(header);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "reading the checkpoint '%s'", path);
}

nt_status nt__record_read_facts(const char *path, json_t **facts) {
    nt__hash hash;
    return nt__record_read_header(path, facts, &hash);
}
