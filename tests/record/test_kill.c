/* A process that is killed at any moment while it saves leaves a state that loads, and what it left half-done is gone
 * with the next start.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "base/files.h"
#include "made.h"

enum { KILLS = 200, MOST_MICROSECONDS = 60000, BEST = 2 };

static nt__record_writer_options options_of(const char *folder) {
    nt__record_writer_options options = writer_options(folder, "A");
    options.synchronous = false;
    options.retention.best = BEST;
    return options;
}

/* Where the folder stands: the newest record, loaded and compared; -1 when there is none. */
static int64_t newest_epoch(const char *folder) {
    nt__record_source source;
    nt__record record;
    int64_t epoch;
    assert_ok(nt__record_source_auto(folder, &source));
    if (!source.path) return -1;
    assert_ok(nt__record_load(source.path, &record));
    assert_made(&record);
    assert_ok(nt__record_integer(&record, "epoch", &epoch));
    nt__record_free(&record);
    nt__record_source_free(&source);
    return epoch;
}

/* Saves for ever: an epoch, its end written again as at the end of a training, and some of the next one's batches. Says
 * through `alive` when the first record is under way, and in `done` which epochs are on the disk. */
static void save_for_ever(const char *folder, int64_t epoch, int alive, int done) {
    nt__record_writer_options options = options_of(folder);
    nt__record_writer *writer;
    nt_status status = nt__record_writer_open(&options, &writer);
    if (status == NT_OK && write(alive, "", 1) != 1) status = NT_IO;
    while (status == NT_OK) {
        nt__record record;
        epoch++;
        double score = (double)((epoch * 7919) % 101);
        status = put_made(writer, epoch, score, NULL);
        if (status == NT_OK) status = put_made(writer, epoch, score, "completed");
        for (int64_t batch = 1; status == NT_OK && batch < 3; batch++) {
            status = make_record(epoch, batch, epoch * 4 + batch, score, NULL, &record);
            if (status == NT_OK) status = nt__record_writer_put(writer, &record, NULL);
        }
        if (status == NT_OK) status = nt__record_writer_wait(writer);
        if (status == NT_OK && write(done, &epoch, sizeof epoch) != sizeof epoch) status = NT_IO;
    }
    _exit(1);
}

/* The last epoch that the child said was on the disk; -1: none. */
static int64_t last_done(int done) {
    int64_t epoch, last = -1;
    while (read(done, &epoch, sizeof epoch) == sizeof epoch) last = epoch;
    return last;
}

static int64_t kill_after(const char *folder, int64_t epoch, unsigned microseconds) {
    int alive[2], done[2], how;
    char byte;
    assert_int_equal(pipe(alive), 0);
    assert_int_equal(pipe(done), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) save_for_ever(folder, epoch, alive[1], done[1]);
    close(alive[1]);
    close(done[1]);
    assert_int_equal(read(alive[0], &byte, 1), 1);
    nanosleep(&(struct timespec){.tv_nsec = (long)microseconds * 1000}, NULL);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    int64_t last = last_done(done[0]);
    close(alive[0]);
    close(done[0]);
    return last;
}

/* Every file that the manifest lists loads, and there is no more than that, one record more, and unfinished files. */
static void assert_folder(const char *folder) {
    nt__manifest manifest;
    assert_ok(nt__manifest_read(folder, &manifest));
    assert_true(manifest.count <= BEST + 1);
    for (size_t i = 0; i < manifest.count; i++) {
        char path[3 * SCRATCH_PATH];
        nt__record record;
        snprintf(path, sizeof path, "%s/%s", folder, manifest.entries[i].file);
        assert_ok(nt__record_load(path, &record));
        assert_made(&record);
        nt__record_free(&record);
    }
    int most =
        (int)manifest.count + 1 + 2 + 1; /* the manifest, a record not listed or not deleted yet, one unfinished */
    assert_true(scratch_entries(folder) <= most);
    nt__manifest_free(&manifest);
}

/* After a start everything is listed, and there is nothing else. */
static void assert_cleared(const char *folder) {
    nt__record_writer_options options = options_of(folder);
    nt__record_writer *writer;
    nt__manifest manifest;
    assert_ok(nt__record_writer_open(&options, &writer));
    assert_ok(nt__record_writer_close(writer));
    assert_ok(nt__manifest_read(folder, &manifest));
    int files = manifest.count ? (int)manifest.count + 1 : 0;
    assert_int_equal(scratch_entries(folder), files);
    nt__manifest_free(&manifest);
}

static void a_kill_at_any_moment_leaves_a_state_that_loads(void **state) {
    (void)state;
    const char *folder = test_folder("killed");
    nt__key key = nt__key_of_seed((uint64_t)time(NULL));
    int64_t epoch = -1;
    int unfinished = 0, epochs = 0;
    assert_ok(nt__make_folder(folder));
    for (unsigned i = 0; i < KILLS; i++) {
        int64_t done = kill_after(folder, epoch < 0 ? 0 : epoch, nt__random_bits(key, i) % MOST_MICROSECONDS);
        int64_t newest = newest_epoch(folder);
        assert_true(newest >= epoch && newest >= done); /* nothing that was on the disk is lost */
        assert_folder(folder);
        struct dirent **entries;
        int count = scandir(folder, &entries, NULL, alphasort);
        for (int j = 0; j < count; j++) {
            unfinished += nt__ends_in(entries[j]->d_name, ".tmp");
            free(entries[j]);
        }
        free(entries);
        if (i % 4 == 0) assert_cleared(folder);
        assert_true(newest_epoch(folder) >= newest);
        epochs += newest > epoch;
        epoch = newest;
    }
    print_message("%d epochs, %d unfinished files\n", epochs, unfinished);
    assert_true(epochs > 0 && unfinished > 0); /* the kills came while it saved */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_at_any_moment_leaves_a_state_that_loads),
    };
    return cmocka_run_group_tests_name("record/kill", tests, scratch_make, scratch_remove);
}
