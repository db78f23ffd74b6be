/* Finding records: the newest, the best, what a text names; manifests of other times and of nobody; and a record that
 * cannot be used is refused with the name of one that can.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <unistd.h>

#include "made.h"
#include "base/files.h"

static char told[4096]; /* the notices since it was emptied */

static void hear(const char *line, void *context) {
    (void)context;
    snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", line);
}

static void write_run(const char *folder, const char *run, bool higher_is_better, const char *metric,
                      const double *scores, int count) {
    nt__record_writer_options options = writer_options(folder, run);
    options.retention.best = 10;
    options.retention.higher_is_better = higher_is_better;
    options.retention.metric = metric;
    nt__record_writer *writer;
    assert_ok(nt__record_writer_open(&options, &writer));
    for (int i = 0; i < count; i++) {
        nt__record record;
        assert_ok(make_record(i + 1, 0, (i + 1) * 4, scores[i], NULL, &record));
        assert_ok(nt__record_set(&record, "metrics", json_pack("{s:f}", metric, scores[i])));
        assert_ok(nt__record_writer_put(writer, &record, NULL));
    }
    assert_ok(nt__record_writer_close(writer));
}
#define put_run(folder, run, ...) \
    write_run(folder, run, false, "val_loss", (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

/* Runs A (best .2 at 2), then B (best .5 at 1), each with the given epochs. */
static const char *two_runs(const char *name) {
    const char *folder = test_folder(name);
    put_run(folder, "A", .4, .2, .3);
    put_run(folder, "B", .5, .6);
    return folder;
}

static void assert_found(const char *text, const char *folder, const char *run, int64_t epoch, bool is_newest) {
    nt__retention retention = nt__retention_default();
    nt__record_source source;
    assert_ok(nt__record_source_find(text, folder, &retention, &source));
    assert_string_equal(source.run, run);
    assert_int_equal(source.epoch, epoch);
    assert_true(source.listed);
    assert_int_equal(source.is_newest, is_newest);
    assert_string_equal(source.path, file_of_epoch(folder, run, epoch));
    nt__record_source_free(&source);
}

static void assert_refused(const char *text, const char *folder, nt_status status, const char *part) {
    nt__retention retention = nt__retention_default();
    nt__record_source source;
    assert_fails(nt__record_source_find(text, folder, &retention, &source), status, part);
    assert_null(source.path);
}

/* ---- what is found ---------------------------------------------------------------------------------------------- */

static void each_pair_finds_its_record(void **state) {
    (void)state;
    const char *folder = two_runs("pairs");
    *told = 0;
    assert_found("latest:latest", folder, "B", 2, true);
    assert_non_null(strstr(told, "holds checkpoints of 2 runs; the one written last, B, is read"));
    assert_found("latest:best", folder, "B", 1, false);
    *told = 0;
    assert_found("A:latest", folder, "A", 3, true);
    assert_found("A:best", folder, "A", 2, false);
    assert_found("all:best", folder, "A", 2, false);
    assert_string_equal(told, "");
}

static void a_path_finds_its_record(void **state) {
    (void)state;
    const char *folder = two_runs("paths");
    char path[3 * SCRATCH_PATH], *bytes;
    snprintf(path, sizeof path, "%s", file_of_epoch(folder, "A", 3));
    assert_found(path, folder, "A", 3, true);
    snprintf(path, sizeof path, "%s", file_of_epoch(folder, "A", 2));
    assert_found(path, folder, "A", 2, false);

    /* A copy, which no manifest lists: the record says of itself what it is. */
    size_t length;
    nt__retention retention = nt__retention_default();
    nt__record_source source;
    assert_ok(nt__read_file(path, &bytes, &length));
    scratch_put("copy.safetensors", bytes, length);
    nt__free(bytes);
    assert_ok(nt__record_source_find(scratch("copy.safetensors"), folder, &retention, &source));
    assert_string_equal(source.run, "A");
    assert_true(!source.listed && !source.is_newest && source.epoch == 2);
    nt__record record;
    assert_ok(nt__record_load(source.path, &record));
    assert_made(&record);
    nt__record_free(&record);
    nt__record_source_free(&source);
    assert_refused(scratch("none.safetensors"), folder, NT_NOT_FOUND,
                   "give the path of one, or RUN:best or RUN:latest, where RUN is latest or the id of a run in '");
}

/* The run written last in another folder, as its path would be taken. */
static void a_folder_is_a_run_too(void **state) {
    (void)state;
    char own[2 * SCRATCH_PATH], text[3 * SCRATCH_PATH];
    snprintf(own, sizeof own, "%s", scratch("own"));
    assert_ok(nt__make_folder(own));
    const char *folder = two_runs("elsewhere");
    nt__retention retention = nt__retention_default();
    nt__record_source source;
    for (int latest = 0; latest < 2; latest++) {
        snprintf(text, sizeof text, "%s:%s", folder, latest ? "latest" : "best");
        assert_ok(nt__record_source_find(text, own, &retention, &source));
        assert_string_equal(source.path, file_of_epoch(folder, "B", latest ? 2 : 1));
        assert_string_equal(source.run, "B");
        assert_false(source.listed); /* so a resume branches from it */
        nt__record_source_free(&source);
        assert_found(text, folder, "B", latest ? 2 : 1, latest); /* of the folder itself it is that run */
    }
    assert_int_equal(chdir(scratch_folder), 0);
    assert_ok(nt__record_source_find("elsewhere:best", own, &retention, &source));
    assert_string_equal(source.path, "elsewhere/epoch-0001-step-4-val_loss=0.5.safetensors");
    nt__record_source_free(&source);
    assert_refused("elsewhere:newest", own, NT_INVALID, "'elsewhere:newest' names no checkpoint: a source is a path");
    assert_refused(
        "./elswhere:best", own, NT_NOT_FOUND,
        "'./elswhere:best' names no checkpoint: there is no folder './elswhere'; folders with checkpoints in "
        "'.' are: ");
    assert_non_null(strstr(nt_error_message(), "elsewhere"));
    assert_refused("own/none:best", own, NT_NOT_FOUND, "folders with checkpoints in 'own' are: none");
    assert_refused("./own:best", own, NT_NOT_FOUND, "found no checkpoint in './own'");
    assert_refused("elsewhere", own, NT_INVALID, "write elsewhere:best or elsewhere:latest");
    retention.metric = "accuracy";
    assert_fails(nt__record_source_find("elsewhere:best", own, &retention, &source), NT_NOT_FOUND,
                 "was scored by accuracy, lower is better; scored are: val_loss, lower is better (2)");
}

static void what_is_written_wrongly_is_refused_with_the_right_spelling(void **state) {
    (void)state;
    const char *folder = two_runs("spelling");
    assert_refused("best", folder, NT_INVALID, "write latest:best for the run written last");
    assert_refused("latest", folder, NT_INVALID, "write latest:latest for the run written last");
    assert_refused("all:latest", folder, NT_INVALID,
                   "write latest:latest for that of the run written last, or all:best");
    assert_refused("A", folder, NT_INVALID, "'A' is a run: write A:best or A:latest");
    assert_refused("A:newest", folder, NT_INVALID,
                   "'A:newest' names no checkpoint: a source is a path, or RUN:CHECKPOINT");
    assert_refused("A:current", folder, NT_INVALID, "is taken from its handle");
    assert_refused("anything", folder, NT_NOT_FOUND, "'anything' is no file: a source is a path, or RUN:CHECKPOINT");
    assert_refused("C:best", folder, NT_NOT_FOUND, "spelling' has no checkpoint of a run 'C'; it has those of: B, A");
    assert_refused("C:best", folder, NT_NOT_FOUND, "nt_checkpoint_runs lists them");
    assert_refused("latest:best", scratch("no such folder"), NT_NOT_FOUND, "found no checkpoint in '");
}

static void a_best_is_of_one_metric(void **state) {
    (void)state;
    const char *folder = test_folder("metrics");
    put_run(folder, "A", .4, .2);
    write_run(folder, "B", true, "accuracy", (double[]){.5, .9, .7}, 3);
    *told = 0;
    assert_found("all:best", folder, "A", 2, true);
    assert_non_null(strstr(told, "val_loss, lower is better (2); accuracy, higher is better (3)"));
    assert_non_null(strstr(told, "the best is by val_loss, lower is better"));
    assert_refused("B:best", folder, NT_NOT_FOUND, "no checkpoint of run B in '");
    assert_refused("B:best", folder, NT_NOT_FOUND,
                   "was scored by val_loss, lower is better; scored are: accuracy, higher is better (3). Name one of "
                   "these as checkpoint_metric (and checkpoint_mode), or ask for the latest");
    nt__retention retention = {.best = 1, .metric = "accuracy", .higher_is_better = true};
    nt__record_source source;
    assert_ok(nt__record_source_find("latest:best", folder, &retention, &source));
    assert_int_equal(source.epoch, 2);
    nt__record_source_free(&source);
}

static void an_empty_folder_has_nothing_to_resume(void **state) {
    (void)state;
    nt__record_source source;
    assert_ok(nt__record_source_auto(scratch("nothing here"), &source));
    assert_null(source.path);
    const char *folder = two_runs("auto");
    assert_ok(nt__record_source_auto(folder, &source));
    assert_string_equal(source.run, "B");
    assert_true(source.is_newest && source.epoch == 2);
    nt__record_source_free(&source);
}

static void a_manifest_that_is_gone_takes_no_record_with_it(void **state) {
    (void)state;
    const char *folder = two_runs("unlisted");
    char path[SCRATCH_PATH + 32];
    snprintf(path, sizeof path, "%s/" NT__MANIFEST_FILE, folder);
    assert_int_equal(unlink(path), 0);
    nt__record_source source;
    assert_ok(nt__record_source_auto(folder, &source));
    assert_string_equal(source.run, "B");
    assert_true(source.is_newest && source.epoch == 2);
    nt__record record;
    assert_ok(nt__record_load(source.path, &record));
    nt__record_free(&record);
    nt__record_source_free(&source);
}

static void a_listed_file_that_is_gone_is_told(void **state) {
    (void)state;
    const char *folder = two_runs("gone");
    assert_int_equal(unlink(file_of_epoch(folder, "B", 2)), 0);
    assert_refused("latest:latest", folder, NT_NOT_FOUND, "of run B, epoch 2, but that file is gone");
    nt__record_source source;
    assert_fails(nt__record_source_auto(folder, &source), NT_NOT_FOUND, "but that file is gone; an older one loads: '");
    assert_non_null(strstr(nt_error_message(), "(epoch 1, step 4)"));
    assert_refused(folder, folder, NT_INVALID, "is a folder: name the file of a checkpoint in it");
}

static void allocations_refused_while_looking(void **state) {
    (void)state;
    const char *folder = two_runs("memory");
    const char *texts[] = {"latest:best", "all:best", "A:latest", "C:best", "./memory:best", "./nothing:best"};
    nt__retention retention = nt__retention_default();
    size_t live = nt__memory().live;
    assert_int_equal(chdir(scratch_folder), 0);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        nt_status status = NT_OUT_OF_MEMORY;
        for (size_t n = 1; status == NT_OUT_OF_MEMORY; n++) {
            nt__record_source source;
            nt__memory_fail_at(n);
            status = nt__record_source_find(texts[i], folder, &retention, &source);
            nt__memory_fail_at(0);
            nt__record_source_free(&source);
            assert_int_equal(nt__memory().live, live);
            assert_true(n < 1000);
        }
        assert_int_equal(status, i == 3 || i == 5 ? NT_NOT_FOUND : NT_OK);
    }
}

/* ---- manifests -------------------------------------------------------------------------------------------------- */

static void an_old_manifest_is_one_unnamed_run(void **state) {
    (void)state;
    static const char old[] = "{\"checkpoints\": [{\"file\": \"a.safetensors\", \"epoch\": 1, \"score\": 0.5, "
                              "\"stop_reason\": null}, {\"file\": \"b.safetensors\", \"epoch\": 2, \"score\": 0.25, "
                              "\"stop_reason\": \"completed\"}]}";
    assert_ok(nt__make_folder(scratch("old")));
    scratch_put("old/checkpoints.json", old, sizeof old - 1);
    nt__manifest manifest;
    assert_ok(nt__manifest_read(scratch("old"), &manifest));
    assert_int_equal(manifest.count, 2);
    for (size_t i = 0; i < 2; i++) {
        const nt__record_entry *entry = &manifest.entries[i];
        assert_true(!entry->run && !entry->metric && !entry->parent && entry->written == 0 && !entry->hashed);
        assert_true(entry->scored);
    }
    nt__run_summary *runs;
    size_t count;
    assert_ok(nt__manifest_runs(&manifest, &runs, &count));
    assert_int_equal(count, 1);
    assert_string_equal(runs[0].id, NT__LEGACY_RUN);
    nt__manifest_free(&manifest);
    scratch_put("old/b.safetensors", "", 0);
    assert_found("legacy:latest", scratch("old"), NT__LEGACY_RUN, 2, true);
    assert_found("latest:best", scratch("old"), NT__LEGACY_RUN, 2, true);
}

static void a_manifest_that_is_none_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "line 1 is not JSON"},
        {"[]", "it has no list 'checkpoints'"},
        {"{\"format_version\":2,\"checkpoints\":[]}", "it has format version 2, and this is nitro 0.1.0"},
        {"{\"checkpoints\":[1]}", "checkpoint 1 of the list: 'NULL' is not a checkpoint filename"},
        {"{\"checkpoints\":[{\"epoch\":1}]}", "'NULL' is not a checkpoint filename"},
        {"{\"checkpoints\":[{\"file\":\"../../x.safetensors\",\"epoch\":1}]}", "path separator"},
        {"{\"checkpoints\":[{\"file\":\"x.safetensors\"}]}", "'epoch' is no integer from 0"},
        {"{\"checkpoints\":[{\"file\":\"x.safetensors\",\"epoch\":-1}]}", "'epoch' is no integer from 0"},
        {"{\"checkpoints\":[{\"file\":\"x.safetensors\",\"epoch\":1,\"score\":\"a\"}]}", "'score' is no number"},
        {"{\"checkpoints\":[{\"file\":\"x.safetensors\",\"epoch\":1,\"mode\":\"up\"}]}", "'mode' is 'up', it must be"},
        {"{\"checkpoints\":[{\"file\":\"x.safetensors\",\"epoch\":1,\"hash\":\"12\"}]}", "'hash' is '12', it must be"},
        {"{\"checkpoints\":[{\"file\":\"x.safetensors\",\"epoch\":1,\"run\":7}]}", "'run' is no string"},
        {"{\"checkpoints\":[{\"file\":\"x.safetensors\",\"epoch\":1},{\"file\":\"x.safetensors\",\"epoch\":2}]}",
         "'x.safetensors' is listed twice"},
    };
    assert_ok(nt__make_folder(scratch("broken")));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nt__manifest manifest;
        scratch_put("broken/checkpoints.json", cases[i].text, strlen(cases[i].text));
        assert_fails(nt__manifest_read(scratch("broken"), &manifest), NT_INVALID, cases[i].message);
        assert_non_null(strstr(nt_error_message(), "broken/checkpoints.json' cannot be read: "));
        assert_int_equal(manifest.count, 0);
    }
}

static void a_manifest_comes_back_as_it_was(void **state) {
    (void)state;
    const nt__record_entry entries[] = {{.file = "a.safetensors", .epoch = 1, .written = 1234567890.125},
                                        {.file = "b.safetensors",
                                         .run = "A",
                                         .parent = "p",
                                         .epoch = 2,
                                         .batch = 3,
                                         .step = 4,
                                         .metric = "m",
                                         .scored = true,
                                         .higher_is_better = true,
                                         .score = 0.1,
                                         .stop_reason = "requested",
                                         .hashed = true,
                                         .hash = {1, 2}}};
    nt__manifest manifest = {0}, again;
    assert_ok(nt__make_folder(scratch("round")));
    for (size_t i = 0; i < 2; i++) assert_ok(nt__manifest_add(&manifest, &entries[i]));
    assert_ok(nt__manifest_write(scratch("round"), &manifest));
    assert_ok(nt__manifest_read(scratch("round"), &again));
    assert_int_equal(again.count, 2);
    const nt__record_entry *first = &again.entries[0], *second = &again.entries[1];
    assert_true(first->written == 1234567890.125 && !first->run && !first->hashed && !first->scored);
    assert_true(second->epoch == 2 && second->batch == 3 && second->step == 4 && second->score == 0.1);
    assert_true(second->scored && second->higher_is_better && second->hashed && second->hash.high == 2);
    assert_string_equal(second->parent, "p");
    assert_string_equal(second->stop_reason, "requested");
    nt__manifest_free(&manifest);
    nt__manifest_free(&again);
}

/* ---- records that cannot be used -------------------------------------------------------------------------------- */

static void a_broken_record_is_refused_with_an_older_one(void **state) {
    (void)state;
    const char *folder = test_folder("advice");
    put_run(folder, "A", .4, .2, .3);
    char path[3 * SCRATCH_PATH];
    nt__record record;
    for (int epoch = 3; epoch >= 1; epoch--) {
        snprintf(path, sizeof path, "%s", file_of_epoch(folder, "A", epoch));
        assert_ok(nt__record_load(path, &record));
        nt__record_free(&record);
    }
    snprintf(path, sizeof path, "%s", file_of_epoch(folder, "A", 2));
    assert_int_equal(truncate(path, 1000), 0);
    snprintf(path, sizeof path, "%s", file_of_epoch(folder, "A", 3));
    assert_int_equal(truncate(path, 3000), 0);
    assert_fails(nt__record_load(path, &record), NT_INVALID, "are missing; an older one loads: '");
    assert_non_null(strstr(nt_error_message(), "epoch-0001-step-4-val_loss=0.4.safetensors' (epoch 1, step 4)"));
    assert_null(record.facts);
    assert_int_equal(unlink(file_of_epoch(folder, "A", 1)), 0);
    assert_fails(nt__record_load(path, &record), NT_INVALID, "the run has no older checkpoint that loads");
}

/* A whole record of another run under a listed name is not what the manifest promises. */
static void a_record_that_is_another_is_refused(void **state) {
    (void)state;
    const char *folder = two_runs("swapped");
    char from[3 * SCRATCH_PATH], *bytes;
    size_t length;
    snprintf(from, sizeof from, "%s", file_of_epoch(folder, "B", 1));
    assert_ok(nt__read_file(from, &bytes, &length));
    assert_ok(nt__write_file(file_of_epoch(folder, "A", 3), bytes, length));
    nt__free(bytes);
    nt__record record;
    assert_fails(nt__record_load(file_of_epoch(folder, "A", 3), &record), NT_INVALID,
                 "is another file than the one that checkpoints.json lists: it is of run B");
    assert_non_null(strstr(nt_error_message(), "an older one loads: '"));
    assert_non_null(strstr(nt_error_message(), "(epoch 2, step 8)"));
}

static int set_up(void **state) {
    nt_set_notice(hear, NULL);
    return scratch_make(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pair_finds_its_record),
        cmocka_unit_test(a_path_finds_its_record),
        cmocka_unit_test(a_folder_is_a_run_too),
        cmocka_unit_test(what_is_written_wrongly_is_refused_with_the_right_spelling),
        cmocka_unit_test(a_best_is_of_one_metric),
        cmocka_unit_test(an_empty_folder_has_nothing_to_resume),
        cmocka_unit_test(a_manifest_that_is_gone_takes_no_record_with_it),
        cmocka_unit_test(a_listed_file_that_is_gone_is_told),
        cmocka_unit_test(allocations_refused_while_looking),
        cmocka_unit_test(an_old_manifest_is_one_unnamed_run),
        cmocka_unit_test(a_manifest_that_is_none_is_refused),
        cmocka_unit_test(a_manifest_comes_back_as_it_was),
        cmocka_unit_test(a_broken_record_is_refused_with_an_older_one),
        cmocka_unit_test(a_record_that_is_another_is_refused),
    };
    return cmocka_run_group_tests_name("record/source", tests, set_up, scratch_remove);
}
