/* Writing records into a folder: order, names, what is displaced, the thread, and every failure in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "made.h"
#include "base/files.h"

static nt__record_writer *open_writer(const char *folder, const char *run, nt__retention retention) {
    nt__record_writer_options options = writer_options(folder, run);
    options.retention = retention;
    nt__record_writer *writer;
    assert_ok(nt__record_writer_open(&options, &writer));
    return writer;
}

/* "a b c": the names in a folder, sorted. */
static void assert_files(const char *folder, const char *wanted) {
    struct dirent **entries;
    char names[2048] = "";
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (*entries[i]->d_name != '.')
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? " " : "",
                     entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    assert_string_equal(names, wanted);
}

static void assert_latest(const char *folder, int64_t epoch) {
    nt__record_source source;
    nt__record record;
    int64_t got;
    assert_ok(nt__record_source_auto(folder, &source));
    assert_non_null(source.path);
    assert_ok(nt__record_load(source.path, &record));
    assert_made(&record);
    assert_ok(nt__record_integer(&record, "epoch", &got));
    assert_int_equal(got, epoch);
    nt__record_free(&record);
    nt__record_source_free(&source);
}

/* ---- what a folder has ------------------------------------------------------------------------------------------ */

static void two_epochs_are_two_records_and_a_manifest(void **state) {
    (void)state;
    const char *folder = test_folder("two/of/them");
    nt__record_writer_options options = writer_options(folder, "A1b2C3d4");
    options.parent = "runs/former/epoch-0001-step-4.safetensors";
    nt__record_writer *writer;
    assert_ok(nt__record_writer_open(&options, &writer));
    assert_ok(put_made(writer, 1, .5, NULL));
    assert_ok(put_made(writer, 2, .25, "completed"));
    assert_ok(nt__record_writer_close(writer));
    assert_files(folder, "checkpoints.json epoch-0001-step-4-val_loss=0.5.safetensors "
                         "epoch-0002-step-8-val_loss=0.25.safetensors");
    nt__manifest manifest;
    assert_ok(nt__manifest_read(folder, &manifest));
    assert_int_equal(manifest.count, 2);
    const nt__record_entry *entry = &manifest.entries[1];
    assert_string_equal(entry->run, "A1b2C3d4");
    assert_string_equal(entry->parent, options.parent);
    assert_string_equal(entry->metric, "val_loss");
    assert_string_equal(entry->stop_reason, "completed");
    assert_null(manifest.entries[0].stop_reason);
    assert_true(entry->scored && entry->score == .25 && entry->hashed && entry->epoch == 2 && entry->step == 8);
    assert_true(entry->written >= manifest.entries[0].written && entry->written > 1e9);
    nt__manifest_free(&manifest);

    json_t *facts;
    assert_ok(nt__record_read_facts(file_of_epoch(folder, "A1b2C3d4", 2), &facts));
    assert_int_equal(json_integer_value(json_object_get(facts, "format_version")), 1);
    assert_string_equal(json_string_value(json_object_get(facts, "framework_version")), "0.1.0");
    assert_string_equal(json_string_value(json_object_get(facts, "run")), "A1b2C3d4");
    assert_string_equal(json_string_value(json_object_get(facts, "parent")), options.parent);
    assert_int_equal(json_integer_value(json_object_get(facts, "seed")), 42);
    json_decref(facts);
    assert_latest(folder, 2);
}

static void the_last_epoch_is_written_again(void **state) {
    (void)state;
    const char *folder = test_folder("again");
    nt__record_writer *writer = open_writer(folder, "A", nt__retention_default());
    assert_ok(put_made(writer, 1, .5, NULL));
    assert_ok(put_made(writer, 1, .5, "early_stop"));
    assert_files(folder, "checkpoints.json epoch-0001-step-4-val_loss=0.5.safetensors");
    assert_ok(put_made(writer, 1, .25, "completed")); /* another name: the former file goes */
    assert_ok(nt__record_writer_close(writer));
    assert_files(folder, "checkpoints.json epoch-0001-step-4-val_loss=0.25.safetensors");
    assert_epochs(folder, "1");
}

static void displaced_records_are_deleted(void **state) {
    (void)state;
    const char *folder = test_folder("displaced");
    nt__retention retention = nt__retention_default();
    retention.best = 2;
    nt__record_writer *writer = open_writer(folder, "A", retention);
    for (int epoch = 1; epoch <= 4; epoch++) assert_ok(put_made(writer, epoch, epoch, NULL));
    assert_ok(nt__record_writer_close(writer));
    assert_epochs(folder, "1 2 4");
    assert_int_equal(scratch_entries(folder), 4);
}

static void records_within_an_epoch_give_way(void **state) {
    (void)state;
    const char *folder = test_folder("within");
    nt__record_writer *writer = open_writer(folder, "A", nt__retention_default());
    nt__record record;
    assert_ok(put_made(writer, 1, .5, NULL));
    for (int batch = 10; batch <= 20; batch += 10) {
        assert_ok(make_record(1, batch, 4 + batch, .5, NULL, &record));
        assert_ok(nt__record_writer_put(writer, &record, NULL));
    }
    assert_files(folder, "checkpoints.json epoch-0001-step-24-batch-20.safetensors "
                         "epoch-0001-step-4-val_loss=0.5.safetensors");
    assert_ok(put_made(writer, 2, .25, NULL));
    assert_ok(nt__record_writer_close(writer));
    assert_epochs(folder, "1 2");
}

/* ---- scores ----------------------------------------------------------------------------------------------------- */

static void a_score_that_is_none_is_refused(void **state) {
    (void)state;
    const char *folder = test_folder("scores");
    nt__record_writer *writer = open_writer(folder, "A", nt__retention_default());
    assert_fails(put_made(writer, 1, (double)INFINITY, NULL), NT_INVALID, "which is inf after epoch 1");
    nt__record record;
    assert_ok(make_record(1, 0, 4, .5, NULL, &record));
    assert_ok(nt__record_set(&record, "metrics", json_pack("{s:s}", "val_loss", "nan")));
    assert_fails(nt__record_writer_put(writer, &record, NULL), NT_INVALID,
                 "ranked by 'val_loss', which is nan after epoch 1: a score must be finite");
    assert_ok(make_record(1, 0, 4, .5, NULL, &record));
    assert_ok(nt__record_set(&record, "metrics", json_pack("{s:f,s:f}", "accuracy", .5, "loss", .1)));
    assert_fails(nt__record_writer_put(writer, &record, NULL), NT_INVALID,
                 "ranked by 'val_loss', which the validation does not report; it reports: accuracy, loss");
    assert_ok(make_record(1, 0, 4, .5, NULL, &record));
    assert_ok(nt__record_set(&record, "step", json_string("four")));
    assert_fails(nt__record_writer_put(writer, &record, NULL), NT_INVALID, "need 'step', an integer from 0");
    assert_null(record.facts);
    assert_ok(put_made(writer, 1, (double)NAN, NULL)); /* not validated */
    assert_ok(nt__record_writer_close(writer));
    assert_files(folder, "checkpoints.json epoch-0001-step-4.safetensors");
}

static bool wants(nt__record_writer *writer, int64_t epoch, double score) {
    bool wants;
    json_t *facts = json_pack("{s:I,s:i,s:i,s:{s:f}}", "epoch", (json_int_t)epoch, "batch", 0, "step", 1, "metrics",
                              "val_loss", score);
    assert_ok(nt__record_writer_wants(writer, facts, &wants));
    json_decref(facts);
    return wants;
}

static void without_the_latest_only_the_best_are_wanted(void **state) {
    (void)state;
    nt__retention retention = {.best = 2, .metric = "val_loss"};
    nt__record_writer *writer = open_writer(scratch("wanted"), "A", retention);
    assert_true(wants(writer, 1, 2));
    assert_ok(put_made(writer, 1, 2, NULL));
    assert_true(wants(writer, 2, 1));
    assert_ok(put_made(writer, 2, 1, NULL));
    assert_false(wants(writer, 3, 3));
    assert_false(wants(writer, 3, 2));
    assert_true(wants(writer, 3, .5));
    assert_ok(put_made(writer, 3, .5, NULL));
    json_t *facts = json_pack("{s:i,s:i,s:i,s:{}}", "epoch", 4, "batch", 0, "step", 16, "metrics");
    bool any;
    assert_fails(nt__record_writer_wants(writer, facts, &any), NT_INVALID, "a checkpoint of epoch 4 has no score");
    json_decref(facts);
    assert_ok(nt__record_writer_close(writer));
    assert_epochs(scratch("wanted"), "2 3");
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static nt_status put_named(nt__record_writer *writer, int64_t epoch, const char *name) {
    nt__record record;
    assert_ok(make_record(epoch, 0, epoch * 4, 1. / (double)epoch, NULL, &record));
    return nt__record_writer_put(writer, &record, name);
}

static void a_name_without_the_epoch_is_one_file(void **state) {
    (void)state;
    const char *folder = test_folder("named");
    nt__record_writer *writer = open_writer(folder, "A", nt__retention_default());
    for (int epoch = 1; epoch <= 3; epoch++) assert_ok(put_named(writer, epoch, "model.safetensors"));
    assert_fails(put_named(writer, 4, "a/b.safetensors"), NT_INVALID, "path separator");
    assert_ok(nt__record_writer_close(writer));
    assert_files(folder, "checkpoints.json model.safetensors");
    assert_epochs(folder, "3");
    assert_latest(folder, 3);
}

static void no_run_writes_over_the_files_of_another(void **state) {
    (void)state;
    const char *folder = test_folder("taken");
    nt__record_writer *writer = open_writer(folder, "A", nt__retention_default());
    assert_ok(put_named(writer, 1, "model.safetensors"));
    assert_ok(nt__record_writer_close(writer));
    scratch_put("taken/other.safetensors", "mine", 4);
    scratch_put("taken/model-run-B.safetensors", "mine", 4);
    writer = open_writer(folder, "B", nt__retention_default());
    assert_ok(put_named(writer, 1, "model.safetensors"));
    assert_ok(put_named(writer, 2, "other.safetensors"));
    assert_ok(nt__record_writer_close(writer));
    assert_files(folder, "checkpoints.json model-run-B-2.safetensors model-run-B.safetensors model.safetensors "
                         "other-run-B.safetensors other.safetensors");
    assert_epochs(folder, "1 1 2");
    assert_latest(folder, 2);
}

static void a_folder_without_a_free_name_is_told(void **state) {
    (void)state;
    const char *folder = test_folder("crowded");
    nt__record_writer *writer = open_writer(folder, "A", nt__retention_default());
    scratch_put("crowded/m.safetensors", "", 0);
    scratch_put("crowded/m-run-A.safetensors", "", 0);
    for (int turn = 2; turn <= 100; turn++) {
        char name[64];
        snprintf(name, sizeof name, "crowded/m-run-A-%d.safetensors", turn);
        scratch_put(name, "", 0);
    }
    assert_fails(put_named(writer, 1, "m.safetensors"), NT_INVALID,
                 "'m.safetensors' and 100 names made of it are taken in '");
    assert_ok(nt__record_writer_close(writer));
    assert_int_equal(scratch_entries(folder), 101);
}

/* ---- what a kill left ------------------------------------------------------------------------------------------- */

static void the_next_start_clears_what_a_kill_left(void **state) {
    (void)state;
    const char *folder = test_folder("killed");
    nt__retention retention = nt__retention_default();
    retention.best = 1;
    nt__record_writer *writer = open_writer(folder, "A", retention);
    assert_ok(put_made(writer, 1, 1, NULL));
    char *manifest, *bytes, *newest;
    size_t length, size, newest_size;
    assert_ok(nt__read_file(scratch("killed/checkpoints.json"), &manifest, &length));
    assert_ok(nt__read_file(file_of_epoch(folder, "A", 1), &bytes, &size));
    assert_ok(put_made(writer, 2, .5, NULL));
    assert_ok(nt__read_file(file_of_epoch(folder, "A", 2), &newest, &newest_size));
    assert_ok(nt__record_writer_close(writer));
    assert_epochs(folder, "2");

    /* Before the manifest: an unfinished file, a record of somebody, and the newest record is not listed. */
    scratch_put("killed/checkpoints.json", manifest, length);
    scratch_put("killed/epoch-0001-step-4-val_loss=1.safetensors", bytes, size);
    scratch_put("killed/epoch-0003.safetensors.new.12-0-345.tmp", bytes, size / 2);
    scratch_put("killed/mine.safetensors", bytes, size);
    writer = open_writer(folder, "B", retention);
    assert_epochs(folder, "1 2");
    assert_int_equal(scratch_entries(folder), 4);
    assert_ok(nt__record_writer_close(writer));
    assert_latest(folder, 2);

    /* The run itself goes on: what it saves next decides. */
    writer = open_writer(folder, "A", retention);
    assert_ok(put_made(writer, 3, .25, NULL));
    assert_ok(nt__record_writer_close(writer));
    assert_epochs(folder, "3");
    assert_int_equal(scratch_entries(folder), 3); /* with mine.safetensors */

    /* After the manifest: what it displaced was not deleted yet. */
    scratch_put("killed/epoch-0002-step-8-val_loss=0.5.safetensors", newest, newest_size);
    writer = open_writer(folder, "A", retention);
    assert_epochs(folder, "3");
    assert_int_equal(scratch_entries(folder), 3);
    assert_ok(put_made(writer, 4, .125, NULL));
    assert_ok(nt__record_writer_close(writer));
    assert_epochs(folder, "4");
    nt__free(manifest);
    nt__free(bytes);
    nt__free(newest);
}

/* Of a record that is written again, the kill leaves the new one under the hash of the old one. */
/* It is listed no more, and one that is there has its place among the best. */
static void a_record_that_somebody_deleted_is_forgotten(void **state) {
    (void)state;
    const char *folder = test_folder("deleted");
    nt__retention retention = nt__retention_default();
    retention.best = 2;
    nt__record_writer *writer = open_writer(folder, "A", retention);
    assert_ok(put_made(writer, 1, .25, NULL));
    assert_ok(put_made(writer, 2, .5, NULL));
    assert_ok(put_made(writer, 3, .75, NULL));
    assert_ok(nt__record_writer_close(writer));
    assert_epochs(folder, "1 2 3");
    assert_int_equal(unlink(file_of_epoch(folder, "A", 1)), 0);
    writer = open_writer(folder, "A", retention);
    assert_epochs(folder, "2 3");
    assert_ok(put_made(writer, 4, 1, NULL));
    assert_ok(nt__record_writer_close(writer));
    assert_epochs(folder, "2 3 4");
}

static void a_record_written_again_and_not_yet_listed_loads(void **state) {
    (void)state;
    const char *folder = test_folder("rewritten");
    nt__record_writer *writer = open_writer(folder, "A", nt__retention_default());
    char *manifest;
    size_t length;
    assert_ok(put_made(writer, 1, 1, NULL));
    assert_ok(nt__read_file(scratch("rewritten/checkpoints.json"), &manifest, &length));
    assert_ok(put_made(writer, 1, 1, "completed"));
    assert_ok(nt__record_writer_close(writer));
    scratch_put("rewritten/checkpoints.json", manifest, length);
    assert_latest(folder, 1);
    nt__free(manifest);
}

static void a_folder_in_use_is_refused(void **state) {
    (void)state;
    const char *folder = test_folder("in use");
    nt__record_writer *writer = open_writer(folder, "A", nt__retention_default()), *second;
    nt__record_writer_options options = writer_options(folder, "B");
    assert_fails(nt__record_writer_open(&options, &second), NT_INVALID, "in use' is in use");
    assert_null(second);
    assert_ok(nt__record_writer_close(writer));
    options.retention.best = 0;
    assert_fails(nt__record_writer_open(&options, &second), NT_INVALID, "0 of the best");
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

static void a_thread_writes_all_of_them_in_order(void **state) {
    (void)state;
    const char *folder = test_folder("thread");
    nt__record_writer_options options = writer_options(folder, "A");
    options.synchronous = false;
    options.retention.every_epochs = 1;
    nt__record_writer *writer;
    assert_ok(nt__record_writer_open(&options, &writer));
    for (int epoch = 1; epoch <= 10; epoch++) assert_ok(put_made(writer, epoch, epoch, NULL));
    assert_ok(nt__record_writer_wait(writer));
    assert_epochs(folder, "1 2 3 4 5 6 7 8 9 10");
    assert_ok(put_made(writer, 11, 11, NULL));
    assert_ok(nt__record_writer_close(writer));
    assert_latest(folder, 11);
    assert_ok(nt__record_writer_close(NULL));
}

static void an_error_of_the_thread_comes_out_once(void **state) {
    (void)state;
    const char *folder = test_folder("thread error");
    nt__record_writer_options options = writer_options(folder, "A");
    options.synchronous = false;
    nt__record_writer *writer;
    assert_ok(nt__record_writer_open(&options, &writer));
    assert_ok(put_made(writer, 1, 1, NULL));
    assert_ok(nt__record_writer_wait(writer));
    nt__files_fail_at(1, ENOSPC);
    assert_ok(put_made(writer, 2, .5, NULL));
    assert_fails(nt__record_writer_wait(writer), NT_IO, "a checkpoint was not written: writing the checkpoint '");
    assert_non_null(strstr(nt_error_message(), "No space left on device; free space there or choose another folder"));
    assert_ok(nt__record_writer_wait(writer));
    assert_latest(folder, 1);

    nt__files_fail_at(2, ENOSPC);
    assert_ok(put_made(writer, 2, .5, NULL));
    nt_status status = put_made(writer, 3, .25, NULL); /* the error of the former, here or at the end */
    nt_status end = nt__record_writer_close(writer);
    assert_true((status == NT_IO) != (end == NT_IO));
    assert_latest(folder, 3);
    assert_epochs(folder, "1 3");
}

static void memory_of_a_written_record_is_used_again(void **state) {
    (void)state;
    for (int synchronous = 0; synchronous < 2; synchronous++) {
        nt__record_writer_options options = writer_options(test_folder("memory"), "A");
        options.synchronous = synchronous;
        nt__record_writer *writer;
        nt__record record;
        assert_ok(nt__record_writer_open(&options, &writer));
        assert_ok(make_record(1, 0, 4, 1, NULL, &record));
        const void *memory = record.arrays[0].data;
        assert_ok(nt__record_writer_put(writer, &record, NULL));
        assert_ok(nt__record_writer_wait(writer));
        nt_array *other = nt__record_writer_array(writer, NT_F64, nt_dims(MADE_ELEMENTS));
        nt_array *first = nt__record_writer_array(writer, NT_F32, nt_dims(MADE_ELEMENTS));
        nt_array *second = nt__record_writer_array(writer, NT_F32, nt_dims(MADE_ELEMENTS));
        assert_ptr_equal(first->data, memory);
        assert_ptr_not_equal(second->data, memory);
        assert_int_equal(other->dtype, NT_F64);
        nt_array_free(other);
        nt_array_free(second);

        /* Two arrays in one are one piece of memory. */
        assert_ok(make_record(2, 0, 8, 1, NULL, &record));
        nt__type half = {NT_F32, nt_dims(MADE_ELEMENTS / 2)};
        assert_ok(nt__record_add_part(&record, "a", half, first->data, first));
        assert_ok(nt__record_add_part(&record, "b", half, (float *)first->data + MADE_ELEMENTS / 2, first));
        nt_array_free(first);
        assert_ok(nt__record_writer_put(writer, &record, NULL));
        assert_ok(nt__record_writer_wait(writer));
        nt_array_free(nt__record_writer_array(writer, NT_F32, nt_dims(MADE_ELEMENTS))); /* the record's own */
        first = nt__record_writer_array(writer, NT_F32, nt_dims(MADE_ELEMENTS));
        assert_ptr_equal(first->data, memory);

        /* What somebody else still holds is left alone. */
        assert_ok(nt__record_new(&record));
        assert_ok(nt__record_add(&record, "held", nt_array_retain(first)));
        for (int i = 0; i < 3; i++)
            assert_ok(nt__record_set(&record, ((const char *[]){"epoch", "batch", "step"})[i], json_integer(3)));
        assert_ok(nt__record_writer_put(writer, &record, NULL));
        assert_ok(nt__record_writer_wait(writer));
        second = nt__record_writer_array(writer, NT_F32, nt_dims(MADE_ELEMENTS));
        assert_ptr_not_equal(second, first);
        nt_array_free(first);
        nt_array_free(second);
        assert_ok(nt__record_writer_close(writer));
    }
}

static volatile sig_atomic_t handled;
static pthread_t handler_thread;
static void handle(int number) {
    (void)number;
    handled = 1;
    handler_thread = pthread_self();
}

/* With signals blocked here too, none could be delivered at all if the thread let them in. */
static void the_thread_takes_no_signals(void **state) {
    (void)state;
    nt__record_writer_options options = writer_options(scratch("signals"), "A");
    options.synchronous = false;
    nt__record_writer *writer;
    assert_ok(nt__record_writer_open(&options, &writer));
    void (*former)(int) = signal(SIGUSR1, handle);
    sigset_t only, before;
    sigemptyset(&only);
    sigaddset(&only, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &only, &before);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    assert_ok(put_made(writer, 1, 1, NULL));
    assert_ok(nt__record_writer_close(writer));
    assert_int_equal(handled, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(handled, 1);
    assert_true(pthread_equal(handler_thread, pthread_self()));
    signal(SIGUSR1, former);
}

/* ---- errors that may pass --------------------------------------------------------------------------------------- */

static int notices;
static void count_notice(const char *line, void *context) {
    (void)context;
    if (strstr(line, "; attempt ")) notices++;
}

static void an_error_that_may_pass_is_tried_again(void **state) {
    (void)state;
    const char *folder = test_folder("passing");
    nt__record_writer_options options = writer_options(folder, "A");
    options.retry_seconds = 0.001;
    nt__record_writer *writer;
    assert_ok(nt__record_writer_open(&options, &writer));
    nt_notice_function former = nt_set_notice(count_notice, NULL);
    notices = 0;
    nt__files_fail_at(2, EIO);
    assert_ok(put_made(writer, 1, 1, NULL));
    assert_int_equal(notices, 1);
    nt__files_fail_at(2, ENOSPC);
    assert_fails(put_made(writer, 2, 1, NULL), NT_IO, "No space left");
    assert_int_equal(notices, 1);
    nt__files_fail_at(0, 0);
    nt_set_notice(former, NULL);
    assert_ok(nt__record_writer_close(writer));
    assert_epochs(folder, "1");
}

/* The second attempt at the first record comes after a pause, in which one more may wait. */
static void a_disk_that_is_slower_is_told(void **state) {
    (void)state;
    const char *folder = test_folder("behind");
    nt__record_writer_options options = writer_options(folder, "A");
    options.synchronous = false;
    options.retry_seconds = 1;
    nt__record_writer *writer;
    assert_ok(nt__record_writer_open(&options, &writer));
    nt_notice_function former = nt_set_notice(count_notice, NULL);
    assert_false(nt__record_writer_is_behind(writer));
    nt__files_fail_at(2, EIO);
    assert_ok(put_made(writer, 1, 1, NULL));
    assert_false(nt__record_writer_is_behind(writer));
    assert_ok(put_made(writer, 2, 1, NULL)); /* waits until the first is being written */
    assert_true(nt__record_writer_is_behind(writer));
    assert_ok(nt__record_writer_wait(writer));
    assert_false(nt__record_writer_is_behind(writer));
    nt__files_fail_at(0, 0);
    nt_set_notice(former, NULL);
    assert_ok(nt__record_writer_close(writer));
    assert_epochs(folder, "1 2");
}

/* ---- every failure in turn -------------------------------------------------------------------------------------- */

/* One folder with epochs 1 and 2; epoch 3 displaces 1. Gives how many changes of files that takes, 0 for a failure. */
static nt_status save_third(const char *folder, void (*before)(size_t n), size_t n) {
    scratch_remove_path(folder);
    nt__retention retention = nt__retention_default();
    retention.best = 1;
    nt__record_writer *writer = open_writer(folder, "A", retention);
    assert_ok(put_made(writer, 1, .5, NULL));
    assert_ok(put_made(writer, 2, .75, NULL));
    assert_epochs(folder, "1 2");
    before(n);
    nt_status status = put_made(writer, 3, .25, NULL);
    before(0);
    assert_ok(nt__record_writer_close(writer));
    return status;
}

/* What a failure left: the state of before, or of after; no file beside the records and the manifest. */
static void assert_whole(const char *folder, nt_status status) {
    nt__manifest manifest;
    assert_ok(nt__manifest_read(folder, &manifest));
    bool is_new = manifest.entries[manifest.count - 1].epoch == 3;
    if (status == NT_OK) assert_true(is_new);
    for (size_t i = 0; i < manifest.count; i++) {
        nt__record record;
        char path[3 * SCRATCH_PATH];
        snprintf(path, sizeof path, "%s/%s", folder, manifest.entries[i].file);
        assert_ok(nt__record_load(path, &record));
        assert_made(&record);
        nt__record_free(&record);
    }
    nt__manifest_free(&manifest);
    assert_latest(folder, is_new ? 3 : 2);
}

static void fail_change(size_t n) {
    nt__files_fail_at(n, ENOSPC);
}

static void every_refused_change_leaves_a_whole_state(void **state) {
    (void)state;
    const char *folder = test_folder("changes");
    nt_notice_function former = nt_set_notice(NULL, NULL);
    size_t before = nt__file_changes();
    assert_ok(save_third(folder, fail_change, 0));
    size_t most = nt__file_changes() - before, failed = 0;
    for (size_t n = 1; n <= most; n++) {
        nt_status status = save_third(folder, fail_change, n);
        if (status != NT_OK) {
            assert_int_equal(status, NT_IO);
            failed++;
        }
        assert_whole(folder, status);
        bool left_behind = status == NT_OK && scratch_entries(folder) == 3; /* what was to be deleted stayed */
        if (!left_behind && status == NT_OK) assert_epochs(folder, "3");
        assert_true(scratch_entries(folder) <= 4);
        /* The next start finds a folder to go on with. */
        nt__retention retention = nt__retention_default();
        retention.best = 1;
        nt__record_writer *writer = open_writer(folder, "A", retention);
        assert_ok(put_made(writer, 4, .125, NULL));
        assert_ok(nt__record_writer_close(writer));
        assert_epochs(folder, "4");
        assert_int_equal(scratch_entries(folder), 2);
    }
    assert_true(failed >= 10); /* two files, each made, written, synced, renamed, its folder synced */
    nt_set_notice(former, NULL);
}

static void fail_allocation(size_t n) {
    nt__memory_fail_at(n);
}

static void every_refused_allocation_leaves_a_whole_state(void **state) {
    (void)state;
    const char *folder = test_folder("allocations");
    size_t live = nt__memory().live;
    nt_notice_function former = nt_set_notice(NULL, NULL);
    nt_status status = NT_OUT_OF_MEMORY;
    for (size_t n = 1; status != NT_OK || n < 40; n++) {
        status = save_third(folder, fail_allocation, n);
        if (status != NT_OK) assert_int_equal(status, NT_OUT_OF_MEMORY);
        assert_whole(folder, status);
        assert_int_equal(nt__memory().live, live);
        assert_true(n < 1000);
    }
    nt_set_notice(former, NULL);
}

static void opening_survives_every_refused_allocation(void **state) {
    (void)state;
    const char *folder = test_folder("opened");
    nt__record_writer *writer = open_writer(folder, "A", nt__retention_default());
    assert_ok(put_made(writer, 1, 1, NULL));
    assert_ok(nt__record_writer_close(writer));
    assert_int_equal(unlink(scratch("opened/checkpoints.json")), 0); /* so that the record is taken up */
    size_t live = nt__memory().live;
    nt_status status = NT_OUT_OF_MEMORY;
    for (size_t n = 1; status != NT_OK; n++) {
        nt__record_writer_options options = writer_options(folder, "B");
        options.synchronous = false;
        nt__memory_fail_at(n);
        status = nt__record_writer_open(&options, &writer);
        nt__memory_fail_at(0);
        if (status != NT_OK) assert_int_equal(status, NT_OUT_OF_MEMORY);
        assert_ok(nt__record_writer_close(writer));
        assert_int_equal(nt__memory().live, live);
        assert_true(n < 1000);
    }
    assert_epochs(folder, "1");
}

static void a_full_disk_leaves_the_former_state(void **state) {
    (void)state;
    const char *folder = test_folder("full");
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    nt__record_writer *writer = open_writer(folder, "A", nt__retention_default());
    assert_ok(put_made(writer, 1, 1, NULL));
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 0; room < 4000; room += 500) {
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){room, before.rlim_max}), 0);
        assert_fails(put_made(writer, 2, .5, NULL), NT_IO, "File too large; raise the limit for files");
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(scratch_entries(folder), 2);
        assert_latest(folder, 1);
    }
    signal(SIGXFSZ, handler);
    assert_ok(put_made(writer, 2, .5, NULL));
    assert_ok(nt__record_writer_close(writer));
    assert_latest(folder, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_epochs_are_two_records_and_a_manifest),
        cmocka_unit_test(the_last_epoch_is_written_again),
        cmocka_unit_test(displaced_records_are_deleted),
        cmocka_unit_test(records_within_an_epoch_give_way),
        cmocka_unit_test(a_score_that_is_none_is_refused),
        cmocka_unit_test(without_the_latest_only_the_best_are_wanted),
        cmocka_unit_test(a_name_without_the_epoch_is_one_file),
        cmocka_unit_test(no_run_writes_over_the_files_of_another),
        cmocka_unit_test(a_folder_without_a_free_name_is_told),
        cmocka_unit_test(the_next_start_clears_what_a_kill_left),
        cmocka_unit_test(a_record_that_somebody_deleted_is_forgotten),
        cmocka_unit_test(a_record_written_again_and_not_yet_listed_loads),
        cmocka_unit_test(a_folder_in_use_is_refused),
        cmocka_unit_test(a_thread_writes_all_of_them_in_order),
        cmocka_unit_test(an_error_of_the_thread_comes_out_once),
        cmocka_unit_test(memory_of_a_written_record_is_used_again),
        cmocka_unit_test(the_thread_takes_no_signals),
        cmocka_unit_test(an_error_that_may_pass_is_tried_again),
        cmocka_unit_test(a_disk_that_is_slower_is_told),
        cmocka_unit_test(every_refused_change_leaves_a_whole_state),
        cmocka_unit_test(every_refused_allocation_leaves_a_whole_state),
        cmocka_unit_test(opening_survives_every_refused_allocation),
        cmocka_unit_test(a_full_disk_leaves_the_former_state),
    };
    return cmocka_run_group_tests_name("record/writer", tests, scratch_make, scratch_remove);
}
