/* The IDX reader: every golden file with its verdict, the look-up of files, cut and damaged files, refused memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"
#include "base/files.h"

#include <zlib.h>

/* ---- golden files ----------------------------------------------------------------------------------------------- */

static const refusal refusals[] = {
    {"idx/bad_empty.idx", {"empty"}},
    {"idx/bad_magic.idx", {"00 00", "01 00"}},
    {"idx/bad_type.idx", {"element type 0x0a"}},
    {"idx/bad_header_cut.idx", {"ends inside the sizes", "3 axes", "16 bytes", "10 are there"}},
    {"idx/bad_data_cut.idx", {"u8[3,4,5]", "60 bytes", "53 are there"}},
    {"idx/bad_trailing.idx", {"u8[3,4,5]", "60 bytes", "2 bytes follow"}},
    {"idx/bad_overflow.idx", {"u8[4294967295,4294967295,4294967295]", "64 bits"}},
    {"idx/bad_huge.idx", {"u8[2147483648,28,28]", "1683627180032 bytes", "4 are there"}},
    {"idx/bad_little_endian.idx", {"u8[50331648]", "50331648 bytes", "3 are there"}},
    {"idx/bad_gz_cut.idx.gz", {"gzip", "ends early", "83 bytes"}},
    {"idx/bad_gz_crc.idx.gz", {"gzip", "incorrect data check", "of 95"}},
    {"idx/bad_gz_header.idx.gz", {"not an IDX file", "not gzip", "1f 8c"}},
};

static nt_array *read_file(const char *path) {
    return nt_idx_read(NULL, path);
}

static void assert_expected(const nt_array *array, const json_t *expected) {
    const json_t *values = json_object_get(expected, "values");
    assert_golden_shape(json_object_get(expected, "shape"), array->shape);
    assert_int_equal(nt_shape_elements(array->shape), json_array_size(values));
    for (size_t i = 0; i < json_array_size(values); i++)
        assert_true(nt_array_get(array, (int64_t)i) == golden_number(json_array_get(values, i)));
}

static void every_golden_file_gets_its_verdict(void **state) {
    (void)state;
    json_t *cases = golden_cases("idx.json");
    size_t index, refused = 0, live = nt__memory().live;
    json_t *row;
    json_array_foreach(cases, index, row) {
        const char *file = json_string_value(json_object_get(row, "file"));
        const json_t *expected = json_object_get(row, "expect");
        bool accept = strcmp(json_string_value(json_object_get(row, "verdict")), "accept") == 0;
        nt_array *array = read_file(golden(file));
        if (accept != (array != NULL)) fail_msg("%s: wrong verdict (%s)", file, array ? "read" : nt_error_message());
        if (!accept) {
            refused++;
            assert_refusal(refusals, sizeof refusals / sizeof *refusals, file);
        }
        if (expected) assert_expected(array, expected);
        nt_array_free(array);
        assert_int_equal(nt__memory().live, live);
    }
    assert_int_equal(refused, sizeof refusals / sizeof *refusals);
    json_decref(cases);
}

static void golden_files_have_their_types(void **state) {
    (void)state;
    static const struct {
        const char *file;
        nt_dtype dtype;
    } rows[] = {
        {"idx/valid_images.idx3-ubyte", NT_U8}, {"idx/valid_i16.idx", NT_I16},          {"idx/valid_i32.idx", NT_I32},
        {"idx/valid_f32.idx", NT_F32},          {"idx/valid_labels.idx1-ubyte", NT_U8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nt_array *array = read_file(golden(rows[i].file));
        assert_int_equal(array->dtype, rows[i].dtype);
        nt_array_free(array);
    }
}

/* ---- files made here -------------------------------------------------------------------------------------------- */

static nt_array *read_bytes(const void *bytes, size_t length) {
    scratch_put("made.idx", bytes, length);
    return read_file(scratch("made.idx"));
}

static void types_without_a_golden_file(void **state) {
    (void)state;
    const unsigned char doubles[] = {0, 0, 0x0E, 1, 0,    0, 0, 2, 0x3F, 0xF8, 0, 0,
                                     0, 0, 0,    0, 0xC0, 4, 0, 0, 0,    0,    0, 0};
    const unsigned char chars[] = {0, 0, 0x09, 1, 0, 0, 0, 2, 0x80, 0x7F};
    const unsigned char one[] = {0, 0, 0x0C, 1, 0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFE};
    nt_array *array = read_bytes(doubles, sizeof doubles);
    assert_int_equal(array->dtype, NT_F64);
    assert_true(nt_array_get(array, 0) == 1.5 && nt_array_get(array, 1) == -2.5);
    nt_array_free(array);
    array = read_bytes(chars, sizeof chars);
    assert_int_equal(array->dtype, NT_I8);
    assert_true(nt_array_get(array, 0) == -128 && nt_array_get(array, 1) == 127);
    nt_array_free(array);
    array = read_bytes(one, sizeof one);
    assert_int_equal(array->shape.rank, 1);
    assert_true(nt_array_get(array, 0) == -2);
    nt_array_free(array);
}

static void headers_that_state_too_much(void **state) {
    (void)state;
    const unsigned char axes[] = {0, 0, 8, 9}, none[] = {0, 0, 8, 0, 5};
    assert_null(read_bytes(none, sizeof none));
    assert_message_has("the header states no axis");
    assert_null(read_bytes(axes, sizeof axes));
    assert_message_has("9 axes, arrays have at most 8");
    assert_null(read_bytes(axes, 3));
    assert_message_has("3 bytes, the magic number of IDX has 4");
}

/* ---- cut and damaged files -------------------------------------------------------------------------------------- */

static char *read_golden(const char *file, size_t *length) {
    char *bytes;
    assert_int_equal(nt__read_file(golden(file), &bytes, length), NT_OK);
    return bytes;
}

static void every_cut_is_refused(void **state) {
    (void)state;
    static const char *const files[] = {"idx/valid_images.idx3-ubyte", "idx/valid_images.idx3-ubyte.gz",
                                        "idx/valid_i32.idx"};
    for (int i = 0; i < 3; i++) {
        size_t length;
        char *bytes = read_golden(files[i], &length);
        for (size_t kept = 0; kept < length; kept++) {
            assert_null(read_bytes(bytes, kept));
            assert_message_has("made.idx");
        }
        nt__free(bytes);
    }
}

/* A damaged packed file is refused, unless the damage is in a field of the gzip header that says nothing of the data
 * (time, system). A damaged plain file may be read as other values, but never badly. */
static void every_flipped_bit_is_refused_or_harmless(void **state) {
    (void)state;
    size_t length, live = nt__memory().live;
    nt_array *whole = read_file(golden("idx/valid_images.idx3-ubyte"));
    char *packed = read_golden("idx/valid_images.idx3-ubyte.gz", &length);
    int refused = 0;
    for (size_t bit = 0; bit < length * 8; bit++) {
        packed[bit / 8] ^= (char)(1 << bit % 8);
        nt_array *array = read_bytes(packed, length);
        packed[bit / 8] ^= (char)(1 << bit % 8);
        refused += !array;
        if (array) assert_memory_equal(array->data, whole->data, whole->bytes);
        nt_array_free(array);
    }
    assert_true(refused > (int)length * 8 - 80);
    nt__free(packed);
    nt_array_free(whole);
    assert_int_equal(nt__memory().live, live);
}

static void bytes_after_the_last_member_are_refused(void **state) {
    (void)state;
    size_t length;
    char *packed = read_golden("idx/valid_labels.idx1-ubyte.gz", &length);
    packed = nt__realloc(packed, length + 3, 1);
    memcpy(packed + length, "abc", 3);
    assert_null(read_bytes(packed, length + 3));
    assert_message_has("what follows is neither zeros nor more gzip data: it begins with 61");
    memcpy(packed + length, "\0\0\1", 3); /* zeros, and then something */
    assert_null(read_bytes(packed, length + 3));
    assert_message_has("it begins with 01");
    memcpy(packed + length, "\x1f\x8b", 2); /* another member, which is cut */
    assert_null(read_bytes(packed, length + 2));
    assert_message_has("the gzip stream ends early");
    nt__free(packed);
}

/* ---- what gzip files are like ----------------------------------------------------------------------------------- */

/* The content in parts that are put together here. */
typedef struct content {
    unsigned char bytes[8192];
    size_t length;
} content;

static void add(content *out, const void *bytes, size_t length) {
    memcpy(out->bytes + out->length, bytes, length);
    out->length += length;
}

/* One member; `header` has the parts that a header may have. */
static void add_member(content *out, gz_header *header, const void *bytes, size_t length) {
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes,
                       .avail_in = (uInt)length,
                       .next_out = out->bytes + out->length,
                       .avail_out = (uInt)(sizeof out->bytes - out->length)};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    if (header) assert_int_equal(deflateSetHeader(&stream, header), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out->length = sizeof out->bytes - stream.avail_out;
    deflateEnd(&stream);
}

/* u8[5]: 1 2 3 4 5 */
static const unsigned char five[] = {0, 0, 8, 1, 0, 0, 0, 5, 1, 2, 3, 4, 5};
static const unsigned char zeros[600];

static void assert_five(const content *file) {
    nt_array *array = read_bytes(file->bytes, file->length);
    if (!array) {
        fail_msg("%s", nt_error_message());
        return;
    }
    assert_int_equal(array->bytes, 5);
    assert_memory_equal(array->data, five + 8, 5);
    nt_array_free(array);
}

/* Tapes and some copies fill the last block with zeros; gzip, zcat and Python read such files. */
static void zeros_after_the_end_are_padding(void **state) {
    (void)state;
    for (size_t padding = 0; padding <= sizeof zeros; padding += padding < 4 ? 1 : 149) {
        content file = {.length = 0};
        add_member(&file, NULL, five, sizeof five);
        add(&file, zeros, padding);
        assert_five(&file);
    }
}

static void members_with_nothing_in_them_and_between_padding(void **state) {
    (void)state;
    content file = {.length = 0};
    add_member(&file, NULL, "", 0);
    add_member(&file, NULL, five, 6);
    add(&file, zeros, 512);
    add_member(&file, NULL, "", 0);
    add_member(&file, NULL, five + 6, sizeof five - 6);
    add_member(&file, NULL, "", 0);
    add(&file, zeros, 3);
    assert_five(&file);
}

static void headers_may_have_all_their_parts(void **state) {
    (void)state;
    gz_header header = {.text = 1,
                        .time = 1700000000,
                        .os = 3,
                        .extra = (Bytef *)(uintptr_t) "AB\4\0data",
                        .extra_len = 8,
                        .name = (Bytef *)(uintptr_t) "a name.idx",
                        .comment = (Bytef *)(uintptr_t) "a comment",
                        .hcrc = 1};
    content file = {.length = 0};
    add_member(&file, &header, five, sizeof five);
    assert_five(&file);
    file.bytes[16] ^= 1; /* the header's own sum does not fit */
    assert_null(read_bytes(file.bytes, file.length));
    assert_message_has("header crc mismatch");
}

/* The sizes of the header are held against what comes out before all of it does. */
static void a_bomb_is_refused_at_its_first_byte_too_many(void **state) {
    (void)state;
    static unsigned char bytes[64 << 10];
    const unsigned char little[] = {0, 0, 8, 1, 0, 0, 0, 10};
    gzFile file = gzopen(scratch("bomb.gz"), "wb9");
    assert_int_equal(gzwrite(file, little, sizeof little), sizeof little);
    for (int i = 0; i < 1024; i++) assert_int_equal(gzwrite(file, bytes, sizeof bytes), sizeof bytes);
    assert_int_equal(gzclose(file), Z_OK);
    size_t before = nt__memory().total;
    assert_null(read_file(scratch("bomb.gz")));
    assert_message_has("the header states u8[10], which needs 10 bytes; more bytes follow them");
    assert_true(nt__memory().total - before < 20);
    /* The other way round: more is stated than the file can hold. */
    const unsigned char much[] = {0, 0, 8, 2, 0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 1, 2, 3};
    content small = {.length = 0};
    add_member(&small, NULL, much, sizeof much);
    assert_null(read_bytes(small.bytes, small.length));
    assert_message_has("u8[2147483647,2147483647]");
    assert_message_has("cannot hold that many");
}

/* A file of holes is looked at by its size, and not read. */
static void a_huge_file_of_holes_is_refused_by_its_size(void **state) {
    (void)state;
    scratch_put("holes.idx", five, sizeof five);
    assert_int_equal(truncate(scratch("holes.idx"), (off_t)1 << 40), 0);
    assert_null(read_file(scratch("holes.idx")));
    assert_message_has("1099511627763 bytes follow them");
}

static void a_pipe_is_refused(void **state) {
    (void)state;
    assert_int_equal(mkfifo(scratch("pipe.idx"), 0600), 0);
    assert_null(read_file(scratch("pipe.idx")));
    assert_message_has("it is a pipe and no regular file");
}

/* As large as a real set of images, so that unpacking needs many rounds. */
static void a_real_file_plain_packed_and_cut(void **state) {
    (void)state;
    const size_t pixels = 2000 * 28 * 28, length = 16 + pixels;
    const unsigned char header[16] = {0, 0, 8, 3, 0, 0, 0x07, 0xD0, 0, 0, 0, 28, 0, 0, 0, 28};
    unsigned char *bytes = nt__alloc(length, 1);
    memcpy(bytes, header, sizeof header);
    for (size_t i = 0; i < pixels; i++) bytes[16 + i] = (unsigned char)(i * i >> 7);
    scratch_put("large.idx", bytes, length);
    gzFile file = gzopen(scratch("large-packed.gz"), "wb1");
    assert_int_equal(gzwrite(file, bytes, (unsigned)length), length);
    assert_int_equal(gzclose(file), Z_OK);

    static const char *const names[] = {"large.idx", "large-packed.gz"};
    for (int i = 0; i < 2; i++) {
        nt_array *array = nt_idx_read(scratch_folder, names[i]);
        assert_true(nt_shape_equal(array->shape, nt_dims(2000, 28, 28)));
        assert_memory_equal(array->data, bytes + 16, pixels);
        nt_array_free(array);
        char *whole;
        size_t stored;
        assert_int_equal(nt__read_file(scratch(names[i]), &whole, &stored), NT_OK);
        assert_null(read_bytes(whole, stored / 2));
        assert_message_has("the file is cut");
        nt__free(whole);
    }
    nt__free(bytes);
}

/* ---- the look-up ------------------------------------------------------------------------------------------------ */

static nt_array *find(const char *folder, const char *file) {
    char path[SCRATCH_PATH];
    snprintf(path, sizeof path, "%s", golden(folder));
    return nt_idx_read(path, file);
}

static void files_are_found_packed_or_not(void **state) {
    (void)state;
    static const char *const names[] = {"valid_labels.idx1-ubyte", "valid_labels.idx1-ubyte.gz",
                                        "valid_two_members.idx1-ubyte", "valid_i16.idx.gz"};
    static const double firsts[] = {7, 7, 7, 1};
    for (int i = 0; i < 4; i++) {
        nt_array *array = find("idx", names[i]);
        if (!array) fail_msg("%s: %s", names[i], nt_error_message());
        assert_true(nt_array_get(array, 0) == firsts[i]);
        nt_array_free(array);
    }
}

/* The file by the given name comes first, whatever lies beside it. */
static void the_given_name_comes_first(void **state) {
    (void)state;
    const unsigned char one[] = {0, 0, 8, 1, 0, 0, 0, 1, 11}, two[] = {0, 0, 8, 1, 0, 0, 0, 1, 22};
    scratch_put("both", one, sizeof one);
    scratch_put("both.gz", two, sizeof two); /* not packed: the content decides, not the name */
    nt_array *plain = nt_idx_read(scratch_folder, "both");
    nt_array *packed = nt_idx_read(scratch_folder, "both.gz");
    assert_true(nt_array_get(plain, 0) == 11 && nt_array_get(packed, 0) == 22);
    nt_array_free(plain);
    nt_array_free(packed);
}

static void a_missing_file_is_explained(void **state) {
    (void)state;
    assert_null(find("idx", "train-images-idx3-ubyte"));
    assert_message_has("neither 'train-images-idx3-ubyte' nor 'train-images-idx3-ubyte.gz'");
    assert_message_has("golden/files/idx'");
    assert_message_has("change the field or flag that names the folder");
    assert_null(find("absent", "labels.gz"));
    assert_message_has("neither 'labels.gz' nor 'labels'");
    assert_message_has("golden/files/absent', which is not a folder");
    assert_null(nt_idx_read(NULL, "absent.idx"));
    assert_message_has("neither 'absent.idx' nor 'absent.idx.gz': change the path");
}

static void a_folder_is_not_a_file(void **state) {
    (void)state;
    assert_null(nt_idx_read(NULL, scratch_folder));
    assert_message_has("it is a folder and no regular file");
}

/* ---- refused memory --------------------------------------------------------------------------------------------- */

static void every_refused_allocation_is_reported(void **state) {
    (void)state;
    static const char *const files[] = {"valid_images.idx3-ubyte", "valid_two_members.idx1-ubyte"};
    for (int i = 0; i < 2; i++) {
        size_t live = nt__memory().live, n = 0;
        nt_array *array = NULL;
        while (!array) {
            nt__memory_fail_at(++n);
            array = find("idx", files[i]);
            nt__memory_fail_at(0);
            if (array) break;
            assert_message_has("out of host memory");
            assert_int_equal(nt__memory().live, live);
        }
        assert_true(n > 4);
        nt_array_free(array);
        assert_int_equal(nt__memory().live, live);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_golden_file_gets_its_verdict),
        cmocka_unit_test(golden_files_have_their_types),
        cmocka_unit_test(types_without_a_golden_file),
        cmocka_unit_test(headers_that_state_too_much),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused_or_harmless),
        cmocka_unit_test(bytes_after_the_last_member_are_refused),
        cmocka_unit_test(zeros_after_the_end_are_padding),
        cmocka_unit_test(members_with_nothing_in_them_and_between_padding),
        cmocka_unit_test(headers_may_have_all_their_parts),
        cmocka_unit_test(a_bomb_is_refused_at_its_first_byte_too_many),
        cmocka_unit_test(a_huge_file_of_holes_is_refused_by_its_size),
        cmocka_unit_test(a_pipe_is_refused),
        cmocka_unit_test(a_real_file_plain_packed_and_cut),
        cmocka_unit_test(files_are_found_packed_or_not),
        cmocka_unit_test(the_given_name_comes_first),
        cmocka_unit_test(a_missing_file_is_explained),
        cmocka_unit_test(a_folder_is_not_a_file),
        cmocka_unit_test(every_refused_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("idx", tests, scratch_make, scratch_remove);
}
