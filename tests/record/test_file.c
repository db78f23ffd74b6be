/* A record as a file: what is written is read again to the bit, and what was cut or changed is never taken for good. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>

#include "made.h"
#include "base/files.h"
#include "format/format.h"

static void write_made(const char *path, int64_t version) {
    nt__record record;
    nt__hash hash;
    assert_ok(make_record(3, 0, 12, 0.25, NULL, &record));
    assert_ok(nt__record_set(&record, "format_version", json_integer(version)));
    assert_ok(nt__record_set(&record, "framework_version", json_string("9.8.7")));
    assert_ok(nt__record_set(&record, "run", json_string("A1b2C3d4")));
    assert_ok(nt__record_write(path, &record, &hash));
    nt__record_free(&record);
}

/* ---- reading what was written ----------------------------------------------------------------------------------- */

static void a_record_comes_back_to_the_bit(void **state) {
    (void)state;
    const char *path = scratch("whole.safetensors");
    write_made(path, NT__RECORD_FORMAT);
    nt__record record;
    assert_ok(nt__record_load(path, &record));
    assert_int_equal(record.count, 2);
    assert_made(&record);
    int64_t seed;
    const char *text;
    assert_ok(nt__record_integer(&record, "seed", &seed));
    assert_int_equal(seed, 42);
    assert_ok(nt__record_text(&record, "run", false, &text));
    assert_string_equal(text, "A1b2C3d4");
    assert_ok(nt__record_text(&record, "preset", true, &text));
    assert_null(text);
    assert_fails(nt__record_text(&record, "preset", false, &text), NT_INVALID, "'preset' is null, it must be a string");
    assert_fails(nt__record_integer(&record, "none", &seed), NT_INVALID, "'none' is missing, it must be an integer");
    nt__record_free(&record);
    assert_int_equal(scratch_entries(scratch_folder), 1);
}

static void a_record_without_arrays(void **state) {
    (void)state;
    nt__record record;
    nt__hash hash;
    assert_ok(nt__record_new(&record));
    assert_ok(nt__record_set(&record, "format_version", json_integer(NT__RECORD_FORMAT)));
    assert_ok(nt__record_write(scratch("none.safetensors"), &record, &hash));
    nt__record_free(&record);
    assert_ok(nt__record_read(scratch("none.safetensors"), &record));
    assert_int_equal(record.count, 0);
    nt__record_free(&record);
}

/* Other tools read the arrays: the file is what the format's own reader takes. */
static void the_file_is_a_safetensors_file(void **state) {
    (void)state;
    const char *path = scratch("tools.safetensors");
    write_made(path, NT__RECORD_FORMAT);
    nt__safetensors file;
    assert_ok(nt__safetensors_read(path, &file));
    assert_int_equal(file.count, 2);
    assert_int_equal(file.metadata_count, 2);
    nt__safetensors_free(&file);
}

static void numbers_are_exact_also_where_they_are_not_finite(void **state) {
    (void)state;
    const double numbers[] = {
        0.1, -0.0, 1e-308, 3.0, (double)INFINITY, -(double)INFINITY, (double)NAN, 0x1.fffffffffffffp1023};
    nt__record record;
    assert_ok(nt__record_new(&record));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        double back;
        assert_ok(nt__record_set(&record, "x", nt__record_number(numbers[i])));
        char *text = json_dumps(record.facts, 0);
        json_t *again = json_loads(text, 0, NULL);
        assert_true(nt__record_number_of(json_object_get(again, "x"), &back));
        if (numbers[i] == numbers[i])
            assert_memory_equal(&back, &numbers[i], sizeof back);
        else
            assert_true(back != back);
        json_decref(again);
        free(text);
    }
    double out;
    int64_t whole;
    assert_ok(nt__record_set(&record, "x", json_string("many")));
    assert_false(nt__record_number_of(json_object_get(record.facts, "x"), &out));
    assert_fails(nt__record_integer(&record, "x", &whole), NT_INVALID, "'x' is \"many\", it must be an integer");
    nt__record_free(&record);
}

static void an_array_has_a_name_of_its_own(void **state) {
    (void)state;
    nt__record record;
    assert_ok(make_record(0, 0, 1, 0, NULL, &record));
    assert_fails(nt__record_add(&record, "weights", nt_array_new(NT_F32, nt_dims(2))), NT_INVALID,
                 "has an array 'weights' already");
    assert_int_equal(record.count, 2);
    nt__record_free(&record);
}

/* Parts of one array, which is freed with the record. */
static void arrays_may_lie_in_one(void **state) {
    (void)state;
    nt__record record;
    nt__hash hash;
    const float elements[] = {1, 2, 3, 4, 5};
    nt_array *whole = nt_array_from(NT_F32, nt_dims(5), elements);
    const float *at = whole->data;
    assert_ok(nt__record_new(&record));
    assert_ok(nt__record_add_part(&record, "head", (nt__type){NT_F32, nt_dims(2)}, at, whole));
    assert_ok(nt__record_add_part(&record, "tail", (nt__type){NT_F32, nt_dims(3, 1)}, at + 2, whole));
    assert_fails(nt__record_add_part(&record, "tail", (nt__type){NT_F32, nt_dims(1)}, at, whole), NT_INVALID,
                 "has an array 'tail' already");
    nt_array_free(whole);
    assert_ok(nt__record_set(&record, "format_version", json_integer(NT__RECORD_FORMAT)));
    assert_ok(nt__record_write(scratch("parts.safetensors"), &record, &hash));
    nt__record_free(&record);
    assert_ok(nt__record_read(scratch("parts.safetensors"), &record));
    assert_int_equal(record.count, 2);
    assert_memory_equal(nt__record_find(&record, "head")->data, elements, 2 * sizeof(float));
    assert_memory_equal(nt__record_find(&record, "tail")->data, elements + 2, 3 * sizeof(float));
    assert_null(nt__record_find(&record, "middle"));
    nt__record_free(&record);
}

/* ---- what is not a record --------------------------------------------------------------------------------------- */

static void another_format_version_is_refused_with_both(void **state) {
    (void)state;
    const char *path = scratch("newer.safetensors");
    write_made(path, 7);
    nt__record record;
    json_t *facts;
    assert_fails(nt__record_read(path, &record), NT_INVALID,
                 "the checkpoint has format version 7, written by nitro 9.8.7; this is nitro 0.1.0, which reads format "
                 "version 1");
    assert_fails(nt__record_read_facts(path, &facts), NT_INVALID, "format version 7");
    assert_null(facts);
}

static void other_files_are_no_records(void **state) {
    (void)state;
    float element = 1;
    nt__record record;
    json_t *facts;
    const nt__named_array array = {"w", {NT_F32, nt_dims(1)}, &element};
    assert_ok(nt__safetensors_write(scratch("weights.safetensors"), &array, 1, NULL, 0));
    assert_fails(nt__record_read(scratch("weights.safetensors"), &record), NT_INVALID,
                 "but no checkpoint: it can be loaded as weights alone");
    assert_fails(nt__record_read_facts(scratch("weights.safetensors"), &facts), NT_INVALID, "but no checkpoint");
    scratch_put("short", "abc", 3);
    assert_fails(nt__record_read_facts(scratch("short"), &facts), NT_INVALID,
                 "the file has 3 bytes, a safetensors file starts with");
    assert_fails(nt__record_read(scratch("gone"), &record), NT_NOT_FOUND, "gone': No such file");
    assert_fails(nt__record_read_facts(scratch("gone"), &facts), NT_NOT_FOUND, "gone': No such file");
    assert_fails(nt__record_read(scratch_folder, &record), NT_IO, "it is a folder and no regular file");
}

/* ---- torn files ------------------------------------------------------------------------------------------------- */

static void a_record_cut_at_any_length_is_refused(void **state) {
    (void)state;
    const char *path = scratch("cut.safetensors");
    write_made(path, NT__RECORD_FORMAT);
    char *bytes;
    size_t length;
    assert_ok(nt__read_file(path, &bytes, &length));
    for (size_t cut = 0; cut < length; cut += cut < 1200 ? 1 : 37) {
        nt__record record;
        json_t *facts;
        scratch_put("cut.safetensors", bytes, cut);
        assert_int_equal(nt__record_read(path, &record), NT_INVALID);
        assert_int_equal(nt__record_read_facts(path, &facts), NT_INVALID);
        assert_null(record.facts);
    }
    char *longer = nt__alloc(length + 1, 1);
    memcpy(longer, bytes, length);
    scratch_put("cut.safetensors", longer, length + 1);
    nt__free(longer);
    nt__record record;
    assert_int_equal(nt__record_read(path, &record), NT_INVALID);
    nt__free(bytes);
}

/* Every byte of the header, and many of the arrays: a bit of each is flipped. */
static void a_record_with_a_flipped_bit_is_refused(void **state) {
    (void)state;
    const char *path = scratch("flipped.safetensors");
    write_made(path, NT__RECORD_FORMAT);
    char *bytes;
    size_t length;
    assert_ok(nt__read_file(path, &bytes, &length));
    for (size_t at = 0; at < length; at += at < 1200 ? 1 : 41) {
        nt__record record;
        char bit = (char)(1 << at % 8);
        bytes[at] ^= bit;
        scratch_put("flipped.safetensors", bytes, length);
        assert_int_equal(nt__record_read(path, &record), NT_INVALID);
        bytes[at] ^= bit;
    }
    bytes[length - 1] ^= 1;
    scratch_put("flipped.safetensors", bytes, length);
    nt__record record;
    assert_fails(nt__record_read(path, &record), NT_INVALID,
                 "flipped.safetensors': its content was changed since it was written");
    nt__free(bytes);
}

/* ---- failing memory --------------------------------------------------------------------------------------------- */

static void every_refused_allocation_leaves_nothing(void **state) {
    (void)state;
    const char *path = scratch("memory.safetensors");
    size_t live = nt__memory().live;
    nt_status status = NT_OUT_OF_MEMORY;
    for (size_t n = 1; status != NT_OK; n++) {
        nt__record record = {0};
        nt__hash hash;
        nt__memory_fail_at(n);
        status = make_record(1, 0, 4, 1, NULL, &record);
        if (status == NT_OK) status = nt__record_set(&record, "format_version", json_integer(NT__RECORD_FORMAT));
        if (status == NT_OK) status = nt__record_write(path, &record, &hash);
        nt__record_free(&record);
        if (status == NT_OK) status = nt__record_read(path, &record);
        nt__record_free(&record);
        nt__memory_fail_at(0);
        if (status != NT_OK) assert_int_equal(status, NT_OUT_OF_MEMORY);
        assert_int_equal(nt__memory().live, live);
        assert_true(n < 1000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_comes_back_to_the_bit),
        cmocka_unit_test(a_record_without_arrays),
        cmocka_unit_test(the_file_is_a_safetensors_file),
        cmocka_unit_test(numbers_are_exact_also_where_they_are_not_finite),
        cmocka_unit_test(an_array_has_a_name_of_its_own),
        cmocka_unit_test(arrays_may_lie_in_one),
        cmocka_unit_test(another_format_version_is_refused_with_both),
        cmocka_unit_test(other_files_are_no_records),
        cmocka_unit_test(a_record_cut_at_any_length_is_refused),
        cmocka_unit_test(a_record_with_a_flipped_bit_is_refused),
        cmocka_unit_test(every_refused_allocation_leaves_nothing),
    };
    return cmocka_run_group_tests_name("record/file", tests, scratch_make, scratch_remove);
}
