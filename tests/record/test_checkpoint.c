/* The public side of checkpoints, and the records of earlier times that still load. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>

#include "made.h"
#include "nitro/checkpoint.h"

static const char *folder_of_two(const char *name) {
    const char *folder = test_folder(name);
    for (int i = 0; i < 2; i++) {
        nt__record_writer_options options = writer_options(folder, i ? "B" : "A");
        options.parent = i ? "runs/a.safetensors" : NULL;
        nt__record_writer *writer;
        assert_ok(nt__record_writer_open(&options, &writer));
        assert_ok(put_made(writer, 1, i ? .5 : .25, NULL));
        assert_ok(put_made(writer, 2, i ? .75 : .125, "completed"));
        assert_ok(nt__record_writer_close(writer));
    }
    return folder;
}

static void a_record_says_what_it_is(void **state) {
    (void)state;
    const char *folder = folder_of_two("info");
    nt_checkpoint_about *info;
    assert_ok(nt_checkpoint_info(file_of_epoch(folder, "B", 2), &info));
    assert_string_equal(info->path, file_of_epoch(folder, "B", 2));
    assert_int_equal(info->format_version, 1);
    assert_string_equal(info->framework_version, "0.1.0");
    assert_string_equal(info->run, "B");
    assert_string_equal(info->parent, "runs/a.safetensors");
    assert_string_equal(info->stop_reason, "completed");
    assert_null(info->preset);
    assert_true(info->epoch == 2 && info->batch == 0 && info->step == 8 && info->seed == 42 && info->written > 1e9);
    assert_int_equal(info->metric_count, 1);
    assert_string_equal(info->metrics[0].name, "val_loss");
    assert_true(info->metrics[0].value == .75);
    assert_null(info->anchor_hashes);
    nt_checkpoint_info_free(info);
    assert_fails(nt_checkpoint_info(scratch("none"), &info), NT_NOT_FOUND, "none': No such file");
    assert_null(info);
    nt_checkpoint_info_free(NULL);
}

static void what_is_unusual_is_told_too(void **state) {
    (void)state;
    nt__record record;
    nt__hash hash;
    nt_checkpoint_about *info;
    assert_ok(make_record(1, 3, 5, .5, NULL, &record));
    assert_ok(nt__record_set(&record, "format_version", json_integer(1)));
    assert_ok(nt__record_set(&record, "preset", json_string("small")));
    assert_ok(nt__record_set(&record, "anchor_hashes", json_pack("[s,n]", "0f")));
    assert_ok(nt__record_set(&record, "metrics", json_pack("{s:s,s:i,s:[]}", "a", "-inf", "b", 2, "c")));
    assert_ok(nt__record_write(scratch("unusual.safetensors"), &record, &hash));
    nt__record_free(&record);
    assert_ok(nt_checkpoint_info(scratch("unusual.safetensors"), &info));
    assert_string_equal(info->run, "legacy");
    assert_string_equal(info->preset, "small");
    assert_int_equal(info->anchor_count, 2);
    assert_string_equal(info->anchor_hashes[0], "0f");
    assert_null(info->anchor_hashes[1]);
    assert_int_equal(info->metric_count, 2);
    assert_true(info->metrics[0].value == -(double)INFINITY && info->metrics[1].value == 2);
    assert_true(info->batch == 3 && info->written == 0);
    nt_checkpoint_info_free(info);
}

static void a_folder_tells_its_runs(void **state) {
    (void)state;
    const char *folder = folder_of_two("runs");
    nt_checkpoint_run_list *runs;
    assert_ok(nt_checkpoint_runs(folder, &runs));
    assert_int_equal(runs->count, 2);
    const nt_checkpoint_run *run = &runs->runs[0];
    assert_string_equal(run->id, "B");
    assert_string_equal(run->parent, "runs/a.safetensors");
    assert_string_equal(run->metric, "val_loss");
    assert_true(run->checkpoints == 2 && run->epochs[0] == 1 && run->epochs[1] == 2 && run->scored && run->best == .5);
    assert_string_equal(runs->runs[1].id, "A");
    assert_null(runs->runs[1].parent);
    nt_checkpoint_runs_free(runs);
    assert_ok(nt_checkpoint_runs(scratch("no folder"), &runs));
    assert_int_equal(runs->count, 0);
    nt_checkpoint_runs_free(runs);
    nt_checkpoint_runs_free(NULL);
}

static void a_text_finds_a_record(void **state) {
    (void)state;
    const char *folder = folder_of_two("found");
    nt_checkpoint_about *info;
    assert_ok(nt_checkpoint_find("all:best", folder, NULL, false, &info));
    assert_true(strcmp(info->run, "A") == 0 && info->epoch == 2);
    nt_checkpoint_info_free(info);
    assert_ok(nt_checkpoint_find("B:latest", folder, "any", true, &info));
    assert_true(strcmp(info->run, "B") == 0 && info->epoch == 2);
    nt_checkpoint_info_free(info);
    assert_fails(nt_checkpoint_find("B:best", folder, "accuracy", true, &info), NT_NOT_FOUND,
                 "was scored by accuracy, higher is better; scored are: val_loss, lower is better (2)");
    assert_null(info);
}

static void arguments_that_are_missing_are_named(void **state) {
    (void)state;
    nt_checkpoint_about *info;
    assert_fails(nt_checkpoint_info(NULL, &info), NT_INVALID, "nt_checkpoint_info: path is NULL");
    assert_fails(nt_checkpoint_info("a", NULL), NT_INVALID, "nt_checkpoint_info: out is NULL");
    assert_fails(nt_checkpoint_runs(NULL, NULL), NT_INVALID, "nt_checkpoint_runs: folder is NULL");
    assert_fails(nt_checkpoint_runs("a", NULL), NT_INVALID, "nt_checkpoint_runs: out is NULL");
    assert_fails(nt_checkpoint_find(NULL, "a", NULL, false, &info), NT_INVALID, "nt_checkpoint_find: text is NULL");
    assert_fails(nt_checkpoint_find("a", NULL, NULL, false, &info), NT_INVALID, "nt_checkpoint_find: folder is NULL");
    assert_fails(nt_checkpoint_find("a", "a", NULL, false, NULL), NT_INVALID, "nt_checkpoint_find: out is NULL");
}

static void every_refused_allocation_is_told(void **state) {
    (void)state;
    const char *folder = folder_of_two("memory");
    size_t live = nt__memory().live;
    for (int call = 0; call < 2; call++) {
        nt_status status = NT_OUT_OF_MEMORY;
        for (size_t n = 1; status != NT_OK; n++) {
            nt_checkpoint_about *info = NULL;
            nt_checkpoint_run_list *runs = NULL;
            nt__memory_fail_at(n);
            status =
                call ? nt_checkpoint_runs(folder, &runs) : nt_checkpoint_find("A:best", folder, NULL, false, &info);
            nt__memory_fail_at(0);
            if (status != NT_OK) assert_int_equal(status, NT_OUT_OF_MEMORY);
            nt_checkpoint_info_free(info);
            nt_checkpoint_runs_free(runs);
            assert_int_equal(nt__memory().live, live);
            assert_true(n < 1000);
        }
    }
}

/* ---- earlier times ---------------------------------------------------------------------------------------------- */

/* What this version loads, every later one loads: the folder was written by the first version that writes records. */
static void records_of_the_first_version_load(void **state) {
    (void)state;
    char folder[SCRATCH_PATH];
    snprintf(folder, sizeof folder, "%s/golden/files/records-1", getenv("NT_TESTS"));
    nt__record_source source;
    nt__record record;
    assert_ok(nt__record_source_auto(folder, &source));
    assert_true(source.epoch == 2 && source.is_newest && strcmp(source.run, "f1Rst000") == 0);
    assert_ok(nt__record_load(source.path, &record));
    assert_int_equal(record.count, 2);
    assert_made(&record);
    nt__record_free(&record);
    nt_checkpoint_about *info;
    assert_ok(nt_checkpoint_info(source.path, &info));
    assert_string_equal(info->stop_reason, "completed");
    assert_true(info->seed == 42 && info->metric_count == 1);
    nt_checkpoint_info_free(info);
    nt__record_source_free(&source);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_says_what_it_is),
        cmocka_unit_test(what_is_unusual_is_told_too),
        cmocka_unit_test(a_folder_tells_its_runs),
        cmocka_unit_test(a_text_finds_a_record),
        cmocka_unit_test(arguments_that_are_missing_are_named),
        cmocka_unit_test(every_refused_allocation_is_told),
        cmocka_unit_test(records_of_the_first_version_load),
    };
    return cmocka_run_group_tests_name("record/checkpoint", tests, scratch_make, scratch_remove);
}
