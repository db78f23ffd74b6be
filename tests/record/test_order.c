/* The order of records is that of writing, whatever the clock says: which run wrote last, which record is outdated,
 * where records that no manifest lists have their place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "made.h"
#include "base/files.h"
#include "nitro/checkpoint.h"

/* ---- a clock that a test sets ----------------------------------------------------------------------------------- */

static time_t wall_offset; /* seconds */
static bool stands;        /* the wall clock gives the same time each time */

/* Takes the place of the C library's. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library has reserved names */
int clock_gettime(clockid_t id, struct timespec *out) {
    int result = (int)syscall(SYS_clock_gettime, id, out);
    if (id != CLOCK_REALTIME) return result;
    if (stands) *out = (struct timespec){.tv_sec = 1700000000};
    out->tv_sec += wall_offset;
    return result;
}

static int reset_clock(void **state) {
    (void)state;
    wall_offset = 0;
    stands = false;
    return 0;
}

enum { HOUR = 3600 };

/* ---- folders ---------------------------------------------------------------------------------------------------- */

static void put_run(const char *folder, const char *run, int epochs) {
    nt__record_writer_options options = writer_options(folder, run);
    options.retention.best = 10;
    nt__record_writer *writer;
    assert_ok(nt__record_writer_open(&options, &writer));
    for (int epoch = 1; epoch <= epochs; epoch++) assert_ok(put_made(writer, epoch, epoch, NULL));
    assert_ok(nt__record_writer_close(writer));
}

/* latest:latest and what a resume goes on from. */
static void assert_last(const char *folder, const char *run, int64_t epoch) {
    nt__retention retention = nt__retention_default();
    nt__record_source source;
    for (int is_auto = 0; is_auto < 2; is_auto++) {
        assert_ok(is_auto ? nt__record_source_auto(folder, &source)
                          : nt__record_source_find("latest:latest", folder, &retention, &source));
        assert_non_null(source.path);
        assert_string_equal(source.run, run);
        assert_int_equal(source.epoch, epoch);
        nt__record_source_free(&source);
    }
}

static void assert_first_of_runs(const char *folder, const char *run, size_t count) {
    nt_checkpoint_run_list *list;
    assert_ok(nt_checkpoint_runs(folder, &list));
    assert_int_equal(list->count, count);
    assert_string_equal(list->runs[0].id, run);
    nt_checkpoint_runs_free(list);
}

/* The sequence only grows, from 1. */
static void assert_grows(const char *folder, size_t count) {
    nt__manifest manifest;
    int64_t before = 0;
    assert_ok(nt__manifest_read(folder, &manifest));
    assert_int_equal(manifest.count, count);
    for (size_t i = 0; i < manifest.count; i++) {
        assert_true(manifest.entries[i].sequence > before);
        before = manifest.entries[i].sequence;
    }
    nt__manifest_free(&manifest);
}

/* ---- clocks ----------------------------------------------------------------------------------------------------- */

static void a_clock_that_went_back_changes_no_order(void **state) {
    (void)state;
    const char *folder = test_folder("back");
    put_run(folder, "A", 2);
    wall_offset = -HOUR;
    put_run(folder, "B", 3);
    assert_last(folder, "B", 3);
    assert_first_of_runs(folder, "B", 2);
    assert_grows(folder, 5);
    wall_offset = -24 * HOUR;
    put_run(folder, "C", 1);
    assert_last(folder, "C", 1);
    assert_first_of_runs(folder, "C", 3);
}

static void nor_does_one_that_was_in_the_future(void **state) {
    (void)state;
    const char *folder = test_folder("future");
    wall_offset = 1000 * HOUR;
    put_run(folder, "A", 3);
    wall_offset = 0;
    put_run(folder, "B", 1);
    assert_last(folder, "B", 1);
    assert_first_of_runs(folder, "B", 2);
}

static void nor_does_one_that_stands(void **state) {
    (void)state;
    const char *folder = test_folder("stands");
    stands = true;
    put_run(folder, "B", 2);
    put_run(folder, "A", 1);
    assert_last(folder, "A", 1);
    put_run(folder, "B", 2);
    assert_last(folder, "B", 2);
    assert_first_of_runs(folder, "B", 2);
    assert_grows(folder, 3);
}

/* ---- records that are not listed -------------------------------------------------------------------------------- */

static void without_a_manifest_the_records_tell_their_order(void **state) {
    (void)state;
    const char *folder = test_folder("no manifest");
    put_run(folder, "A", 2);
    wall_offset = -HOUR;
    put_run(folder, "B", 3);
    assert_int_equal(unlink(scratch("no manifest/checkpoints.json")), 0);
    nt__record_source source;
    assert_ok(nt__record_source_auto(folder, &source));
    assert_string_equal(source.run, "B");
    assert_int_equal(source.epoch, 3);
    nt__record_source_free(&source);
    put_run(folder, "C", 1); /* which lists them */
    assert_grows(folder, 6);
    assert_last(folder, "C", 1);
}

/* A manifest of before, as a kill or somebody who put it back leaves it. */
static void records_that_an_older_manifest_lacks_are_the_newest(void **state) {
    (void)state;
    const char *folder = test_folder("older manifest");
    char *manifest;
    size_t length;
    put_run(folder, "A", 2);
    assert_ok(nt__read_file(scratch("older manifest/checkpoints.json"), &manifest, &length));
    wall_offset = -HOUR;
    put_run(folder, "B", 2);
    scratch_put("older manifest/checkpoints.json", manifest, length);
    nt__free(manifest);
    nt__manifest whole;
    assert_ok(nt__manifest_read_whole(folder, &whole));
    assert_int_equal(whole.count, 4);
    assert_string_equal(whole.entries[3].run, "B");
    assert_int_equal(whole.entries[3].epoch, 2);
    nt__manifest_free(&whole);
}

/* Of two records of one place the one that was written later counts. */
static void an_outdated_record_is_known_by_the_order(void **state) {
    (void)state;
    const char *folder = test_folder("outdated"), *former = "outdated/epoch-0001-step-4-val_loss=0.5.safetensors";
    char *bytes;
    size_t length;
    nt__record_writer_options options = writer_options(folder, "A");
    nt__record_writer *writer;
    assert_ok(nt__record_writer_open(&options, &writer));
    assert_ok(put_made(writer, 1, .5, NULL));
    assert_ok(nt__read_file(scratch(former), &bytes, &length));
    wall_offset = -HOUR;
    assert_ok(put_made(writer, 1, .25, "completed"));
    assert_ok(nt__record_writer_close(writer));
    scratch_put(former, bytes, length); /* as a kill before the deletion leaves it */
    nt__free(bytes);
    assert_ok(nt__record_writer_open(&options, &writer));
    assert_ok(nt__record_writer_close(writer));
    assert_true(access(scratch(former), F_OK) != 0);
    nt__manifest manifest;
    assert_ok(nt__manifest_read(folder, &manifest));
    assert_int_equal(manifest.count, 1);
    assert_true(manifest.entries[0].score == .25);
    nt__manifest_free(&manifest);
}

/* ---- lists of before there was a sequence ----------------------------------------------------------------------- */

static void a_list_without_a_sequence_is_in_the_order_of_writing(void **state) {
    (void)state;
    static const char text[] =
        "{\"checkpoints\": [{\"file\": \"a.safetensors\", \"run\": \"A\", \"epoch\": 5, \"written\": 2000},"
        "{\"file\": \"b.safetensors\", \"run\": \"B\", \"epoch\": 1, \"written\": 1000}]}";
    nt__manifest manifest;
    assert_ok(nt__make_folder(scratch("former")));
    scratch_put("former/checkpoints.json", text, sizeof text - 1);
    assert_ok(nt__manifest_read(scratch("former"), &manifest));
    assert_string_equal(nt__manifest_latest(&manifest, NULL)->run, "B");
    assert_int_equal(nt__manifest_next(&manifest), 1);

    /* What is written from now on comes after, and what was not listed has its place by what is known of it. */
    const nt__record_entry later[] = {{.file = "d.safetensors", .run = "A", .epoch = 6, .sequence = 7, .written = 10},
                                      {.file = "c.safetensors", .run = "C", .epoch = 1, .sequence = 6, .written = 20},
                                      {.file = "e.safetensors", .run = "B", .epoch = 2, .written = 1}};
    for (size_t i = 0; i < 3; i++) assert_ok(nt__manifest_insert(&manifest, &later[i]));
    const char *const files[] = {"a.safetensors", "b.safetensors", "e.safetensors", "c.safetensors", "d.safetensors"};
    for (size_t i = 0; i < 5; i++) assert_string_equal(manifest.entries[i].file, files[i]);
    assert_int_equal(nt__manifest_next(&manifest), 8);
    nt__manifest_free(&manifest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_clock_that_went_back_changes_no_order, reset_clock),
        cmocka_unit_test_teardown(nor_does_one_that_was_in_the_future, reset_clock),
        cmocka_unit_test_teardown(nor_does_one_that_stands, reset_clock),
        cmocka_unit_test_teardown(without_a_manifest_the_records_tell_their_order, reset_clock),
        cmocka_unit_test_teardown(records_that_an_older_manifest_lacks_are_the_newest, reset_clock),
        cmocka_unit_test_teardown(an_outdated_record_is_known_by_the_order, reset_clock),
        cmocka_unit_test(a_list_without_a_sequence_is_in_the_order_of_writing),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
