/* safetensors: every golden file with its verdict, the writer, cut and damaged files, refused memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"
#include "base/files.h"
#include "format/format.h"

#include <math.h>

/* ---- golden files: what is refused ------------------------------------------------------------------------------ */

#define FILE_OF(name) "safetensors/" name ".safetensors"

/* 8-bit floats are refused by choice: arrays have no such type. */
static const char *const accepted_elsewhere = FILE_OF("valid_float8");

/* Too large to be kept: made by make_nested. */
static const char *const nested = FILE_OF("bad_header_nested_100000");

static const refusal refusals[] = {
    {FILE_OF("bad_empty"), {"0 bytes", "length of 8 bytes"}},
    {FILE_OF("bad_seven_bytes"), {"7 bytes", "length of 8 bytes"}},
    {FILE_OF("bad_header_longer_than_file"), {"5000 bytes", "64 follow"}},
    {FILE_OF("bad_header_length_huge"), {"9223372036854775813 bytes", "64 follow", "allows 100000000"}},
    {FILE_OF("bad_header_length_zero"), {"header is empty"}},
    {FILE_OF("bad_header_cut"), {"JSON", "of 48", "premature end of input"}},
    {FILE_OF("bad_header_text_after_json"), {"JSON", "end of file expected"}},
    {FILE_OF("bad_header_is_array"), {"must begin with '{'", "0x5b"}},
    {FILE_OF("bad_header_not_utf8"), {"JSON", "unable to decode byte"}},
    {FILE_OF("bad_header_nested_100000"), {"JSON", "maximum parsing depth"}},
    {FILE_OF("bad_duplicate_names"), {"duplicate object key", "\"a\""}},
    {FILE_OF("bad_duplicate_names_same_bytes"), {"duplicate object key", "\"a\""}},
    {FILE_OF("bad_overlap"), {"'a' and 'b' overlap", "ends at byte 8", "begins at 4"}},
    {FILE_OF("bad_hole"), {"bytes 4 to 8", "before tensor 'b'", "no tensor"}},
    {FILE_OF("bad_data_cut"), {"tensor 'a'", "byte 8", "5 bytes of data", "3 are missing"}},
    {FILE_OF("bad_trailing_bytes"), {"4 bytes follow the last tensor", "byte 8"}},
    {FILE_OF("bad_offsets_reversed"), {"tensor 'a'", "end at 0", "begin at 8"}},
    {FILE_OF("bad_offsets_beyond_2_64"), {"too big integer"}},
    {FILE_OF("bad_offsets_negative"), {"tensor 'a'", "'data_offsets' is -8", "integer from 0"}},
    {FILE_OF("bad_offsets_float"), {"tensor 'a'", "'data_offsets' is 0.0", "integer from 0"}},
    {FILE_OF("bad_shape_size_mismatch"), {"tensor 'a'", "f32[3] needs 12 bytes", "hold 8"}},
    {FILE_OF("bad_shape_overflow"), {"tensor 'a'", "f32[4294967296,4294967296]", "64 bits"}},
    {FILE_OF("bad_shape_negative"), {"tensor 'a'", "'shape' is -2", "integer from 0"}},
    {FILE_OF("bad_shape_null"), {"tensor 'a'", "'shape' is null", "list"}},
    {FILE_OF("bad_dtype_unknown"), {"tensor 'a'", "unsupported element type F33"}},
    {FILE_OF("bad_dtype_missing"), {"tensor 'a'", "'dtype' is missing"}},
    {FILE_OF("bad_offsets_missing"), {"tensor 'a'", "'data_offsets' is missing"}},
    {FILE_OF("bad_metadata_number"), {"metadata '", "is 5", "must be a string"}},
    {FILE_OF("bad_leading_space"), {"must begin with '{'", "0x20"}},
    {FILE_OF("bad_not_safetensors_zip"), {"zip archive", "PyTorch"}},
    {FILE_OF("odd_bool_two"), {"tensor '", "BOOL element", "is 2", "0 or 1"}},
    {FILE_OF("valid_float8"), {"tensor 'a'", "unsupported element type F8_E4M3"}},
};

/* A header whose one value is a list in a list in a list, 100,000 deep. */
static const char *make_nested(void) {
    enum { DEPTH = 100000, HEADER = 2 * DEPTH + 8 };
    static char bytes[8 + HEADER];
    uint64_t length = HEADER;
    memset(bytes, ' ', sizeof bytes);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, "{\"a\":", 5);
    memset(bytes + 13, '[', DEPTH);
    memset(bytes + 13 + DEPTH, ']', DEPTH);
    bytes[13 + 2 * DEPTH] = '}';
    const char *name = strchr(nested, '/') + 1;
    scratch_put(name, bytes, sizeof bytes);
    return scratch(name);
}

/* ---- golden files: what is read --------------------------------------------------------------------------------- */

static void assert_integer_text(nt_dtype dtype, const char *at, const char *expected) {
    char text[32];
    int64_t word = 0;
    memcpy(&word, at, nt_dtype_size(dtype));
    if (dtype == NT_I64)
        snprintf(text, sizeof text, "%lld", (long long)word);
    else if (dtype == NT_U64)
        snprintf(text, sizeof text, "%llu", (unsigned long long)word);
    else
        snprintf(text, sizeof text, "%.0f", nt__element_get(dtype, at));
    assert_string_equal(text, expected);
}

/* Integers are decimal strings, so that all 64 bits are compared. */
static void assert_element(nt_dtype dtype, const char *at, const json_t *expected) {
    if (json_is_string(expected) && !nt_dtype_is_float(dtype)) {
        assert_integer_text(dtype, at, json_string_value(expected));
        return;
    }
    double value = nt__element_get(dtype, at), wanted = golden_number(expected);
    assert_true(value == wanted && signbit(value) == signbit(wanted));
}

static void assert_array(const nt__safetensors *file, const json_t *expected) {
    const char *name = json_string_value(json_object_get(expected, "name"));
    const char *dtype = json_string_value(json_object_get(expected, "dtype"));
    const json_t *shape = json_object_get(expected, "shape"), *values = json_object_get(expected, "values");
    const nt__named_array *array = nt__safetensors_find(file, name);
    assert_non_null(array);
    if (dtype) assert_int_equal(strcasecmp(nt_dtype_name(array->type.dtype), dtype), 0);
    if (shape) assert_golden_shape(shape, array->type.shape);
    assert_int_equal(nt_shape_elements(array->type.shape), json_array_size(values));
    for (size_t i = 0; i < json_array_size(values); i++)
        assert_element(array->type.dtype, (const char *)array->data + i * nt_dtype_size(array->type.dtype),
                       json_array_get(values, i));
}

static const char *metadata_of(const nt__safetensors *file, const char *key) {
    for (size_t i = 0; i < file->metadata_count; i++)
        if (strcmp(file->metadata[i][0], key) == 0) return file->metadata[i][1];
    return NULL;
}

static void assert_metadata(const nt__safetensors *file, json_t *expected) {
    const char *key;
    json_t *value;
    assert_int_equal(file->metadata_count, json_object_size(expected));
    json_object_foreach(expected, key, value) assert_string_equal(metadata_of(file, key), json_string_value(value));
}

/* `expected` is a list of tensors, or an object with the metadata. */
static void assert_expected(const nt__safetensors *file, json_t *expected) {
    size_t index;
    json_t *row;
    if (json_is_object(expected)) assert_metadata(file, json_object_get(expected, "metadata"));
    if (!json_is_array(expected)) return;
    assert_int_equal(file->count, json_array_size(expected));
    json_array_foreach(expected, index, row) assert_array(file, row);
}

static void assert_empty(const nt__safetensors *file) {
    const nt__safetensors empty = {0};
    assert_memory_equal(file, &empty, sizeof empty);
}

static void check_golden(const char *file, bool accept, json_t *expected) {
    nt__safetensors read;
    const char *path = strcmp(file, nested) == 0 ? make_nested() : golden(file);
    nt_status status = nt__safetensors_read(path, &read);
    if (status == NT_OK && read.unknown_count) {
        status = nt__fail_in(nt__fail_unknown_array(&read.unknown[0]), "%s", file);
        nt__safetensors_free(&read);
    }
    if (accept != (status == NT_OK)) fail_msg("%s: %s", file, accept ? nt_error_message() : "was read");
    if (expected) assert_expected(&read, expected);
    if (!accept) {
        assert_int_equal(status, NT_INVALID);
        assert_refusal(refusals, sizeof refusals / sizeof *refusals, file);
        assert_empty(&read);
    }
    nt__safetensors_free(&read);
    assert_empty(&read);
}

static void every_golden_file_gets_its_verdict(void **state) {
    (void)state;
    json_t *cases = golden_cases("safetensors.json");
    size_t index, refused = 0, live = nt__memory().live;
    json_t *row;
    json_array_foreach(cases, index, row) {
        const char *file = json_string_value(json_object_get(row, "file"));
        bool accept = strcmp(json_string_value(json_object_get(row, "verdict")), "accept") == 0 &&
                      strcmp(file, accepted_elsewhere) != 0;
        check_golden(file, accept, json_object_get(row, "expect"));
        refused += !accept;
        assert_int_equal(nt__memory().live, live);
    }
    assert_int_equal(refused, sizeof refusals / sizeof *refusals);
    json_decref(cases);
}

static nt__safetensors read_golden(const char *file) {
    nt__safetensors read;
    if (nt__safetensors_read(golden(file), &read) != NT_OK) fail_msg("%s", nt_error_message());
    return read;
}

static void golden_files_without_expectations(void **state) {
    (void)state;
    nt__safetensors file = read_golden(FILE_OF("valid_empty_tensors"));
    assert_int_equal(file.count, 3);
    assert_true(nt__type_equal(file.arrays[0].type, (nt__type){NT_F32, {0}}));
    assert_true(nt__element_get(NT_F32, file.arrays[0].data) == 7);
    assert_true(nt__type_equal(nt__safetensors_find(&file, "none")->type, (nt__type){NT_F32, nt_dims(0)}));
    assert_true(nt__type_equal(nt__safetensors_find(&file, "none2")->type, (nt__type){NT_I32, nt_dims(3, 0, 2)}));
    nt__safetensors_free(&file);

    file = read_golden(FILE_OF("valid_no_tensors"));
    assert_int_equal(file.count, 0);
    assert_null(nt__safetensors_find(&file, ""));
    nt__safetensors_free(&file);

    file = read_golden(FILE_OF("valid_names"));
    assert_int_equal(file.count, 3);
    assert_string_equal(file.arrays[0].name, "encoder/layer.0/\"q\"");
    assert_string_equal(file.arrays[1].name, "\xe6\x97\xa5\xe6\x9c\xac");
    assert_string_equal(file.arrays[2].name, "");
    assert_true(nt__element_get(NT_F32, nt__safetensors_find(&file, "")->data) == 3);
    nt__safetensors_free(&file);

    file = read_golden(FILE_OF("valid_key_order"));
    assert_true(nt__type_equal(file.arrays[0].type, (nt__type){NT_F32, nt_dims(2)}));
    assert_true(nt__element_get(NT_F32, (const char *)file.arrays[0].data + 4) == 2);
    nt__safetensors_free(&file);
}

/* ---- headers made here ------------------------------------------------------------------------------------------ */

static nt_status read_bytes(const void *bytes, size_t length, nt__safetensors *out) {
    scratch_put("made.safetensors", bytes, length);
    return nt__safetensors_read(scratch("made.safetensors"), out);
}

static nt_status read_header(const char *header, size_t data_length, nt__safetensors *out) {
    nt__text text = {0};
    uint64_t length = strlen(header);
    nt__text_put(&text, (const char *)&length, 8);
    nt__text_add(&text, "%s", header);
    for (size_t i = 0; i < data_length; i++) nt__text_put(&text, "\1", 1);
    nt_status status = read_bytes(text.data, text.length, out);
    nt__text_free(&text);
    return status;
}

static void headers_the_format_forbids(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data_length;
        const char *message;
    } rows[] = {
        {"{\"a\":5}", 0, "tensor 'a': its entry is 5, it must be an object"},
        {"{\"a\":{\"dtype\":5,\"shape\":[],\"data_offsets\":[0,4]}}", 4, "'dtype' is 5, it must be a string"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[[1]],\"data_offsets\":[0,4]}}", 4, "element 0 of 'shape' is [1]"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"" /* a value longer than a message shows */
         "0123456789012345678901234567890123456789012345678901234567890123456789\"],\"data_offsets\":[0,4]}}",
         4, "element 0 of 'shape' is too long to be shown"},
        {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1,-1],\"data_offsets\":[0,1]}}", 1, "element 1 of 'shape' is -1"},
        {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[9],\"data_offsets\":[0,9]}}", 1, "8 are missing"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]},"
         "\"e\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]}}",
         4, "tensors 'a' and 'e' overlap: one ends at byte 2 of the data, the other begins at 1"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1]}}", 1, "'data_offsets' has 1 elements"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", 1, "'data_offsets' has 3 elements"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "duplicate object key"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[9223372036854775807,9223372036854775807]}}", 1,
         "its data ends at byte 9223372036854775807, the file has 1 bytes of data"},
        {"{\"__metadata__\":[]}", 0, "'__metadata__' is [], it must be an object"},
        {"{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "near byte"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]}}",
         4, "tensors 'a' and 'e' overlap: one ends at byte 4 of the data, the other begins at 2"},
        {"{}", 3, "3 bytes follow the last tensor"},
    };
    nt__safetensors file;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(read_header(rows[i].header, rows[i].data_length, &file), NT_INVALID);
        assert_message_has("made.safetensors");
        assert_message_has(rows[i].message);
    }
}

/* The list follows the data, whatever the order of the header; what the format does not name is passed over. */
/* Tensors that no array can be are no fault of the file, which may have others that are wanted. */
static void tensors_that_no_array_can_be_are_set_apart(void **state) {
    (void)state;
    static const struct {
        const char *entry; /* of eight bytes */
        const char *type, *problem;
    } rows[] = {
        {"\"dtype\":\"F8_E4M3\",\"shape\":[8]", "F8_E4M3[8]", "tensor 'q': unsupported element type F8_E4M3: write"},
        {"\"dtype\":\"F8_E5M2\",\"shape\":[2,4]", "F8_E5M2[2,4]", "unsupported element type F8_E5M2"},
        {"\"dtype\":\"F8_E8M0\",\"shape\":[8]", "F8_E8M0[8]", "unsupported element type F8_E8M0"},
        {"\"dtype\":\"F4\",\"shape\":[16]", "F4[16]", "unsupported element type F4"},
        {"\"dtype\":\"C64\",\"shape\":[]", "C64[]", "unsupported element type C64"},
        {"\"dtype\":\"F32\",\"shape\":[1,1,1,1,2,1,1,1,1]", "F32[1,1,1,1,2,1,1,1,1]",
         "tensor 'q': 'shape' has 9 elements, at most 8"},
        {"\"dtype\":\"U8\",\"shape\":[8,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "U8[8,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,...]",
         "'shape' has 18 elements"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char header[512];
        nt__safetensors file;
        snprintf(header, sizeof header,
                 "{\"q\":{%s,\"data_offsets\":[2,10]},\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                 "\"z\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[10,11]}}",
                 rows[i].entry);
        assert_int_equal(read_header(header, 11, &file), NT_OK);
        assert_int_equal(file.count, 2);
        assert_string_equal(file.arrays[1].name, "z");
        assert_null(nt__safetensors_find(&file, "q"));
        assert_int_equal(file.unknown_count, 1);
        assert_string_equal(file.unknown[0].name, "q");
        assert_string_equal(file.unknown[0].type, rows[i].type);
        assert_int_equal(nt__fail_unknown_array(&file.unknown[0]), NT_INVALID);
        assert_message_has(rows[i].problem);
        nt__safetensors_free(&file);
    }
}

static void arrays_are_in_the_order_of_their_data(void **state) {
    (void)state;
    nt__safetensors file;
    nt_status status = read_header("{\"c\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[3,6]},"
                                   "\"z\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[3,3]},"
                                   "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[3,3]},"
                                   "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3],\"more\":{}}}",
                                   6, &file);
    if (status != NT_OK) fail_msg("%s", nt_error_message());
    const char *const names[] = {"b", "a", "z", "c"};
    assert_int_equal(file.count, 4);
    for (int i = 0; i < 4; i++) assert_string_equal(file.arrays[i].name, names[i]);
    nt__safetensors_free(&file);
}

/* A file of holes is looked at by its size before it is read; what a header takes in memory is held against its size.
 */
static void huge_files_are_refused_before_they_are_read(void **state) {
    (void)state;
    enum { ZEROS = 4 << 20 };
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    uint64_t length = sizeof header - 1;
    char *bytes = nt__alloc(8 + ZEROS, 1);
    nt__safetensors file;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    scratch_put("holes.safetensors", bytes, 8 + length + 4);
    assert_int_equal(truncate(scratch("holes.safetensors"), (off_t)1 << 40), 0);
    assert_int_equal(nt__safetensors_read(scratch("holes.safetensors"), &file), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "bytes follow the last tensor, whose data ends at byte 4"));

    length = ZEROS;
    memcpy(bytes, &length, 8);
    memset(bytes + 8, '0', ZEROS);
    memcpy(bytes + 8, "{\"a\":[", 6);
    for (size_t i = 7; i + 4 < ZEROS; i += 2) bytes[8 + i] = ',';
    memcpy(bytes + 8 + ZEROS - 2, "]}", 2);
    scratch_put("dense.safetensors", bytes, 8 + ZEROS);
    assert_int_equal(nt__safetensors_read(scratch("dense.safetensors"), &file), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "the header is no list of tensors: its 4194304 bytes have 2097"));
    nt__free(bytes);

    assert_int_equal(mkfifo(scratch("pipe.safetensors"), 0600), 0);
    assert_int_equal(nt__safetensors_read(scratch("pipe.safetensors"), &file), NT_IO);
    assert_non_null(strstr(nt_error_message(), "it is a pipe and no regular file"));
}

static void a_missing_file_is_not_found(void **state) {
    (void)state;
    nt__safetensors file;
    assert_int_equal(nt__safetensors_read(scratch("absent.safetensors"), &file), NT_NOT_FOUND);
    assert_message_has("absent.safetensors");
    assert_empty(&file);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static const float floats[] = {1.5f, -2.5f, 3.25f, 0, 1e-40f, -0.0f};
static const int64_t longs[] = {INT64_MIN, INT64_MAX};
static const unsigned char truths[] = {1, 0, 1};

static const nt__named_array arrays[] = {
    {"flags", {NT_BOOL, {1, {3}}}, truths},
    {"layer/\"w\"", {NT_F32, {2, {2, 3}}}, floats},
    {"gr\xc3\xbc\xc3\x9f", {NT_I64, {1, {2}}}, longs},
    {"none", {NT_BF16, {2, {4, 0}}}, NULL},
    {"one", {NT_F32, {0}}, floats},
};
enum { ARRAYS = sizeof arrays / sizeof *arrays };

static const char *const metadata[][2] = {{"format", "pt"}, {"step", "10"}, {"", "\xe2\x9c\x93 \"quoted\"\n"}};
enum { METADATA = sizeof metadata / sizeof *metadata };

static nt_status write_arrays(const char *name) {
    return nt__safetensors_write(scratch(name), arrays, ARRAYS, metadata, METADATA);
}

static void assert_arrays(const nt__safetensors *file) {
    assert_int_equal(file->count, ARRAYS);
    assert_int_equal(file->metadata_count, METADATA);
    for (size_t i = 0; i < ARRAYS; i++) {
        size_t bytes;
        assert_string_equal(file->arrays[i].name, arrays[i].name);
        assert_true(nt__type_equal(file->arrays[i].type, arrays[i].type));
        assert_true(nt__type_bytes(arrays[i].type, &bytes));
        if (bytes) assert_memory_equal(file->arrays[i].data, arrays[i].data, bytes);
    }
    for (size_t i = 0; i < METADATA; i++) {
        assert_string_equal(file->metadata[i][0], metadata[i][0]);
        assert_string_equal(file->metadata[i][1], metadata[i][1]);
    }
}

static void what_is_written_is_read_again(void **state) {
    (void)state;
    nt__safetensors file;
    size_t live = nt__memory().live;
    if (write_arrays("written.safetensors") != NT_OK) fail_msg("%s", nt_error_message());
    assert_int_equal(nt__safetensors_read(scratch("written.safetensors"), &file), NT_OK);
    assert_arrays(&file);
    /* What was read may be written as it is, to the same bytes. */
    assert_int_equal(
        nt__safetensors_write(scratch("again"), file.arrays, file.count, file.metadata, file.metadata_count), NT_OK);
    char *first, *second;
    size_t first_length, second_length;
    assert_int_equal(nt__read_file(scratch("written.safetensors"), &first, &first_length), NT_OK);
    assert_int_equal(nt__read_file(scratch("again"), &second, &second_length), NT_OK);
    assert_int_equal(first_length, second_length);
    assert_memory_equal(first, second, first_length);
    nt__free(first);
    nt__free(second);
    nt__safetensors_free(&file);
    assert_int_equal(nt__memory().live, live);
}

static void the_written_bytes_are_the_format(void **state) {
    (void)state;
    static const char header[] = "{\"__metadata__\":{\"k\":\"v\"},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                                 "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[3,7]}}";
    const nt__named_array two[] = {{"b", {NT_U8, {1, {3}}}, "xyz"}, {"a", {NT_F32, {0}}, &floats[0]}};
    const char *const pair[][2] = {{"k", "v"}};
    char *bytes;
    size_t length;
    uint64_t header_length;
    assert_int_equal(nt__safetensors_write(scratch("format"), two, 2, pair, 1), NT_OK);
    assert_int_equal(nt__read_file(scratch("format"), &bytes, &length), NT_OK);
    memcpy(&header_length, bytes, 8);
    assert_int_equal(header_length, (strlen(header) + 7) / 8 * 8);
    assert_memory_equal(bytes + 8, header, strlen(header));
    for (size_t i = 8 + strlen(header); i < 8 + header_length; i++) assert_int_equal(bytes[i], ' ');
    assert_int_equal(length, 8 + header_length + 7);
    assert_memory_equal(bytes + 8 + header_length, "xyz\0\0\xc0\x3f", 7);
    nt__free(bytes);
}

static void a_file_without_arrays(void **state) {
    (void)state;
    nt__safetensors file;
    assert_int_equal(nt__safetensors_write(scratch("none"), NULL, 0, NULL, 0), NT_OK);
    assert_int_equal(nt__safetensors_read(scratch("none"), &file), NT_OK);
    assert_int_equal(file.count, 0);
    assert_int_equal(file.metadata_count, 0);
    nt__safetensors_free(&file);
}

/* Each is refused before a byte is written: the old file stays. */
static void what_must_not_be_written(void **state) {
    (void)state;
    const nt__type type = {NT_U8, nt_dims(1)}, truth = {NT_BOOL, nt_dims(2)};
    const struct {
        nt__named_array arrays[2];
        size_t count;
        const char *pairs[2][2];
        size_t pair_count;
        const char *message;
    } rows[] = {
        {{{"a", type, "x"}, {"a", type, "y"}}, 2, {{0}}, 0, "tensor 'a': the name occurs twice"},
        {{{"__metadata__", type, "x"}}, 1, {{0}}, 0, "tensor '__metadata__': the format keeps this name"},
        {{{"\xff", type, "x"}}, 1, {{0}}, 0, "not valid UTF-8"},
        {{{"a", {NT_F32, nt_dims(-2)}, "x"}}, 1, {{0}}, 0, "tensor 'a': f32[-2] is not possible"},
        {{{"a", {NT_DTYPE_COUNT, nt_dims(2)}, "x"}}, 1, {{0}}, 0, "tensor 'a': unknown type[2] is not possible"},
        {{{"a", truth, "\1\2"}}, 1, {{0}}, 0, "tensor 'a': BOOL element 1 is 2"},
        {{{0}}, 0, {{"k", "\xff"}}, 1, "metadata 'k': not valid UTF-8"},
        {{{0}}, 0, {{"\xc3", "v"}}, 1, "not valid UTF-8"},
        {{{0}}, 0, {{"k", "v"}, {"k", "v"}}, 2, "metadata 'k': the name occurs twice"},
    };
    const char *path = scratch("refused.safetensors");
    assert_int_equal(nt__write_file(path, "old", 3), NT_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *const(*pairs)[2] = (const char *const(*)[2])rows[i].pairs;
        assert_int_equal(nt__safetensors_write(path, rows[i].arrays, rows[i].count, pairs, rows[i].pair_count),
                         NT_INVALID);
        assert_message_has("writing '");
        assert_message_has("refused.safetensors");
        assert_message_has(rows[i].message);
    }
    char *bytes;
    size_t length;
    assert_int_equal(nt__read_file(path, &bytes, &length), NT_OK);
    assert_string_equal(bytes, "old");
    nt__free(bytes);
}

/* Two tensors of half the address space each fit alone, not together. */
static void sizes_that_no_file_holds(void **state) {
    (void)state;
    const nt__type huge = {NT_U8, nt_dims((INT64_C(1) << 62) - 1)};
    const nt__named_array three[] = {{"a", huge, NULL}, {"b", huge, NULL}, {"c", huge, NULL}};
    assert_int_equal(nt__safetensors_write(scratch("huge"), three, 3, NULL, 0), NT_INVALID);
    assert_message_has("tensor 'c': u8[4611686018427387903]");
}

static void a_write_into_no_folder_says_so(void **state) {
    (void)state;
    assert_int_equal(nt__safetensors_write(scratch("absent/file"), arrays, ARRAYS, NULL, 0), NT_NOT_FOUND);
    assert_message_has("absent/file");
}

/* ---- cut and damaged files -------------------------------------------------------------------------------------- */

static void every_cut_is_refused(void **state) {
    (void)state;
    static const char *const files[] = {FILE_OF("valid_all_types"), FILE_OF("valid_metadata")};
    nt__safetensors file;
    for (int i = 0; i < 2; i++) {
        char *bytes;
        size_t length;
        assert_int_equal(nt__read_file(golden(files[i]), &bytes, &length), NT_OK);
        for (size_t kept = 0; kept < length; kept++) {
            assert_int_equal(read_bytes(bytes, kept, &file), NT_INVALID);
            assert_message_has("made.safetensors");
        }
        nt__free(bytes);
    }
}

/* Any flipped bit gives another valid file or a refusal; what is read lies inside the file. */
static void every_flipped_bit_is_read_safely(void **state) {
    (void)state;
    char *bytes;
    size_t length, live = nt__memory().live;
    nt__safetensors file;
    assert_int_equal(nt__read_file(golden(FILE_OF("valid_unaligned")), &bytes, &length), NT_OK);
    for (size_t bit = 0; bit < length * 8; bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        nt_status status = read_bytes(bytes, length, &file);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        assert_true(status == NT_OK || status == NT_INVALID);
        for (size_t i = 0; i < file.count; i++) {
            size_t size;
            assert_true(nt__type_bytes(file.arrays[i].type, &size));
            const char *data = file.arrays[i].data;
            assert_true(data > file.bytes && data + size <= file.bytes + length);
        }
        nt__safetensors_free(&file);
    }
    nt__free(bytes);
    assert_int_equal(nt__memory().live, live);
}

/* ---- refused memory --------------------------------------------------------------------------------------------- */

static void every_refused_allocation_of_the_writer(void **state) {
    (void)state;
    assert_int_equal(nt__make_folder(scratch("memory")), NT_OK);
    size_t live = nt__memory().live, n = 0;
    nt_status status = NT_OUT_OF_MEMORY;
    while (status == NT_OUT_OF_MEMORY) {
        assert_int_equal(scratch_entries(scratch("memory")), 0);
        nt__memory_fail_at(++n);
        status = write_arrays("memory/file");
        nt__memory_fail_at(0);
        if (status == NT_OUT_OF_MEMORY) assert_message_has("out of host memory");
        assert_int_equal(nt__memory().live, live);
    }
    assert_int_equal(status, NT_OK);
    assert_true(n > 4);
}

static void every_refused_allocation_of_the_reader(void **state) {
    (void)state;
    assert_int_equal(write_arrays("memory.safetensors"), NT_OK);
    size_t live = nt__memory().live, n = 0;
    nt_status status = NT_OUT_OF_MEMORY;
    nt__safetensors file = {0};
    while (status == NT_OUT_OF_MEMORY) {
        assert_empty(&file);
        assert_int_equal(nt__memory().live, live);
        nt__memory_fail_at(++n);
        status = nt__safetensors_read(scratch("memory.safetensors"), &file);
        nt__memory_fail_at(0);
        if (status == NT_OUT_OF_MEMORY) assert_message_has("memory.safetensors': out of host memory");
    }
    assert_int_equal(status, NT_OK);
    assert_arrays(&file);
    assert_true(n > 2);
    nt__safetensors_free(&file);
    assert_int_equal(nt__memory().live, live);
}

/* Names and metadata that each need a block of their own, so that every allocation of the arena is a real one. */
static void refused_allocations_with_long_names(void **state) {
    (void)state;
    enum { LONG = 40000 };
    char *name = nt__alloc(LONG + 1, 1), *key = nt__alloc(LONG + 1, 1);
    memset(name, 'n', LONG);
    memset(key, 'k', LONG);
    const nt__named_array one[] = {{name, {NT_U8, {1, {1}}}, "x"}};
    const char *const pair[][2] = {{key, name}};
    assert_int_equal(nt__safetensors_write(scratch("long"), one, 1, pair, 1), NT_OK);
    size_t live = nt__memory().live, n = 0;
    nt_status status = NT_OUT_OF_MEMORY;
    nt__safetensors file;
    while (status == NT_OUT_OF_MEMORY) {
        nt__memory_fail_at(++n);
        status = nt__safetensors_read(scratch("long"), &file);
        nt__memory_fail_at(0);
        if (status == NT_OUT_OF_MEMORY) assert_int_equal(nt__memory().live, live);
    }
    assert_int_equal(status, NT_OK);
    assert_true(n > 5);
    assert_string_equal(file.arrays[0].name, name);
    nt__safetensors_free(&file);
    nt__free(name);
    nt__free(key);
}

/* The JSON library allocates by itself; in this process it is made to fail too. */
static size_t json_allocations_until_failure;

static void *json_alloc(size_t size) {
    if (json_allocations_until_failure > 0 && --json_allocations_until_failure == 0) return NULL;
    return malloc(size);
}

/* Makes each allocation of the JSON library fail in turn, until a round has no failure left to meet. */
static void refuse_json_memory(nt_status (*work)(void), void (*check)(nt_status status, bool met_failure)) {
    size_t live = nt__memory().live, n = 0, left = 0;
    json_set_alloc_funcs(json_alloc, free);
    while (left == 0) {
        json_allocations_until_failure = ++n;
        nt_status status = work();
        left = json_allocations_until_failure;
        json_allocations_until_failure = 0;
        check(status, left == 0);
        assert_int_equal(nt__memory().live, live);
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(n > 50);
}

static nt_status write_json(void) {
    return write_arrays("json");
}

static void check_write(nt_status status, bool met_failure) {
    assert_int_equal(status, met_failure ? NT_OUT_OF_MEMORY : NT_OK);
    if (met_failure) assert_message_has("out of host memory");
}

static void the_writer_reports_every_refused_allocation_of_the_json_library(void **state) {
    (void)state;
    refuse_json_memory(write_json, check_write);
}

static nt_status read_json(void) {
    nt__safetensors file;
    nt_status status = nt__safetensors_read(scratch("json"), &file);
    nt__safetensors_free(&file);
    return status;
}

/* Jansson 2.14 goes on after some of its parser's own failures, with a byte missing (its issue 362), so neither the
 * status nor the content of such a round is fixed. What is checked is that nothing crashes and nothing is lost. */
static void check_read(nt_status status, bool met_failure) {
    assert_true(status == NT_OK || status == NT_INVALID || status == NT_OUT_OF_MEMORY);
    if (!met_failure) assert_int_equal(status, NT_OK);
    if (status != NT_OK) assert_message_has("reading '");
}

static void the_reader_survives_every_refused_allocation_of_the_json_library(void **state) {
    (void)state;
    assert_int_equal(write_arrays("json"), NT_OK);
    refuse_json_memory(read_json, check_read);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_golden_file_gets_its_verdict),
        cmocka_unit_test(golden_files_without_expectations),
        cmocka_unit_test(headers_the_format_forbids),
        cmocka_unit_test(tensors_that_no_array_can_be_are_set_apart),
        cmocka_unit_test(arrays_are_in_the_order_of_their_data),
        cmocka_unit_test(huge_files_are_refused_before_they_are_read),
        cmocka_unit_test(a_missing_file_is_not_found),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(the_written_bytes_are_the_format),
        cmocka_unit_test(a_file_without_arrays),
        cmocka_unit_test(what_must_not_be_written),
        cmocka_unit_test(sizes_that_no_file_holds),
        cmocka_unit_test(a_write_into_no_folder_says_so),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(every_flipped_bit_is_read_safely),
        cmocka_unit_test(every_refused_allocation_of_the_writer),
        cmocka_unit_test(every_refused_allocation_of_the_reader),
        cmocka_unit_test(refused_allocations_with_long_names),
        cmocka_unit_test(the_writer_reports_every_refused_allocation_of_the_json_library),
        cmocka_unit_test(the_reader_survives_every_refused_allocation_of_the_json_library),
    };
    return cmocka_run_group_tests_name("safetensors", tests, scratch_make, scratch_remove);
}
