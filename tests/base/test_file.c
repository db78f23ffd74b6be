/* src/base: time, files and folders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ---- time, files ------------------------------------------------------------------------------------------------ */

static void seconds_pass(void **state) {
    (void)state;
    double start = nt__seconds();
    usleep(2000);
    double passed = nt__seconds() - start;
    assert_true(passed >= 0.002 && passed < 60);
}

static void assert_content(const char *name, const char *content) {
    char *data;
    size_t length;
    assert_int_equal(nt__read_file(scratch(name), &data, &length), NT_OK);
    assert_int_equal(length, strlen(content));
    assert_string_equal(data, content);
    nt__free(data);
}

static void a_file_is_written_and_replaced_whole(void **state) {
    (void)state;
    assert_int_equal(nt__make_folder(scratch("replaced")), NT_OK);
    assert_int_equal(nt__write_file(scratch("replaced/file"), "old", 3), NT_OK);
    assert_content("replaced/file", "old");
    const nt__piece pieces[] = {{"new ", 4}, {NULL, 0}, {"and longer", 10}};
    assert_int_equal(nt__write_file_pieces(scratch("replaced/file"), pieces, 3), NT_OK);
    assert_content("replaced/file", "new and longer");
    assert_int_equal(nt__write_file(scratch("replaced/empty"), NULL, 0), NT_OK);
    assert_content("replaced/empty", "");
    assert_int_equal(scratch_entries(scratch("replaced")), 2);
}

static void a_bare_name_is_written_to_the_current_folder(void **state) {
    (void)state;
    char before[SCRATCH_PATH];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(scratch_folder), 0);
    nt_status status = nt__write_file("bare", "content", 7);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, NT_OK);
    assert_content("bare", "content");
}

/* A limit on the size of files makes the system take a part of the data and refuse the rest, as a full disk does. */
static void a_failed_write_leaves_the_old_file(void **state) {
    (void)state;
    static char large[100000];
    assert_int_equal(nt__make_folder(scratch("kept")), NT_OK);
    assert_int_equal(nt__write_file(scratch("kept/file"), "old", 3), NT_OK);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 4096;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    nt_status status = nt__write_file(scratch("kept/file"), large, sizeof large);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, NT_IO);
    assert_non_null(strstr(nt_error_message(), "kept/file"));
    assert_non_null(strstr(nt_error_message(), "File too large"));
    assert_content("kept/file", "old");
    assert_int_equal(scratch_entries(scratch("kept")), 1);
}

static void a_failed_rename_leaves_no_file_behind(void **state) {
    (void)state;
    assert_int_equal(nt__make_folder(scratch("target/folder/inner")), NT_OK);
    assert_int_equal(nt__write_file(scratch("target/folder"), "x", 1), NT_IO);
    assert_non_null(strstr(nt_error_message(), "directory"));
    assert_int_equal(scratch_entries(scratch("target")), 1);
    assert_true(nt__is_folder(scratch("target/folder/inner")));
}

/* Each change of a file that a write takes fails in turn; only the last, the sync of the folder, comes too late to keep
 * the old content. */
static void a_write_survives_every_refused_change(void **state) {
    (void)state;
    const char *path = scratch("each_change");
    assert_int_equal(nt__write_file(path, "old", 3), NT_OK);
    size_t before = nt__file_changes();
    assert_int_equal(nt__write_file(path, "old", 3), NT_OK);
    size_t changes = nt__file_changes() - before;
    assert_int_equal(changes, 5); /* made, written, synced, renamed, its folder synced */
    for (size_t n = 1; n <= changes; n++) {
        char *text;
        size_t length;
        int entries = scratch_entries(scratch_folder);
        nt__files_fail_at(n, ENOSPC);
        assert_int_equal(nt__write_file(path, "new", 3), NT_IO);
        assert_non_null(strstr(nt_error_message(), "No space left on device; free space there"));
        nt__files_fail_at(0, 0);
        assert_int_equal(nt__read_file(path, &text, &length), NT_OK);
        assert_string_equal(text, n < changes ? "old" : "new");
        nt__free(text);
        assert_int_equal(scratch_entries(scratch_folder), entries);
    }
}

/* Bytes put over others, a file that is dropped, and one under the folder's lock that a kill leaves. */
static void a_file_under_construction(void **state) {
    (void)state;
    const char *path = scratch("constructed");
    nt__new_file fresh;
    char *text;
    size_t length;
    assert_int_equal(nt__new_file_open(path, true, &fresh), NT_OK);
    assert_int_equal(nt__new_file_put(&fresh, "abc", 3), NT_OK);
    assert_int_equal(nt__new_file_put_at(&fresh, 1, "X", 1), NT_OK);
    assert_int_equal(nt__new_file_put(&fresh, "def", 3), NT_OK);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(nt__new_file_finish(&fresh), NT_OK);
    assert_int_equal(nt__read_file(path, &text, &length), NT_OK);
    assert_string_equal(text, "aXcdef");
    nt__free(text);

    int entries = scratch_entries(scratch_folder);
    for (int locked = 0; locked < 2; locked++) {
        assert_int_equal(nt__new_file_open(path, locked, &fresh), NT_OK);
        assert_int_equal(scratch_entries(scratch_folder), entries + 1);
        nt__remove_leftovers(scratch_folder);
        assert_int_equal(scratch_entries(scratch_folder), entries + !locked);
        nt__new_file_drop(&fresh);
        assert_int_equal(scratch_entries(scratch_folder), entries);
    }
}

static void a_write_into_no_folder_says_so(void **state) {
    (void)state;
    assert_int_equal(nt__write_file(scratch("absent/file"), "x", 1), NT_NOT_FOUND);
    assert_non_null(strstr(nt_error_message(), "absent/file"));
    assert_non_null(strstr(nt_error_message(), "No such file or directory"));
}

static void a_write_survives_every_refused_allocation(void **state) {
    (void)state;
    assert_int_equal(nt__make_folder(scratch("refused")), NT_OK);
    size_t live = nt__memory().live;
    nt_status status = NT_OUT_OF_MEMORY;
    size_t n = 0;
    while (status == NT_OUT_OF_MEMORY) {
        assert_int_equal(scratch_entries(scratch("refused")), 0);
        nt__memory_fail_at(++n);
        status = nt__write_file(scratch("refused/file"), "x", 1);
        assert_int_equal(nt__memory().live, live);
    }
    nt__memory_fail_at(0);
    assert_int_equal(status, NT_OK);
    assert_true(n > 2);
}

static void what_cannot_be_read_is_named(void **state) {
    (void)state;
    char *data = (char *)1;
    size_t length = 1;
    assert_int_equal(nt__read_file(scratch("absent"), &data, &length), NT_NOT_FOUND);
    assert_null(data);
    assert_int_equal(length, 0);
    assert_non_null(strstr(nt_error_message(), "absent': No such file or directory"));
    assert_int_equal(nt__read_file(scratch_folder, &data, &length), NT_IO);
    assert_null(data);
    assert_non_null(strstr(nt_error_message(), "it is a folder and no regular file"));
    scratch_put("present", "12345", 5);
    nt__memory_fail_at(1);
    assert_int_equal(nt__read_file(scratch("present"), &data, &length), NT_OUT_OF_MEMORY);
    assert_null(data);
    assert_non_null(strstr(nt_error_message(), "present"));
}

/* Files of the system state no size, so the buffer has to grow. */
static void a_file_without_a_size_is_read_to_its_end(void **state) {
    (void)state;
    char *data;
    size_t length;
    assert_int_equal(nt__read_file("/proc/self/maps", &data, &length), NT_OK);
    assert_true(length > 100);
    assert_int_equal(data[length], 0);
    assert_int_equal(data[length - 1], '\n');
    nt__free(data);

    size_t live = nt__memory().live;
    nt__memory_fail_at(2);
    assert_int_equal(nt__read_file("/proc/self/maps", &data, &length), NT_OUT_OF_MEMORY);
    nt__memory_fail_at(0);
    assert_null(data);
    assert_int_equal(nt__memory().live, live);
}

/* What would hold the process up for ever, or have no end. */
static void what_is_no_regular_file_is_not_read(void **state) {
    (void)state;
    char *data;
    size_t length;
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_int_equal(mkfifo(scratch("pipe"), 0600), 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", scratch("socket"));
    assert_int_equal(bind(descriptor, (struct sockaddr *)&address, sizeof address), 0);
    close(descriptor);
    assert_int_equal(nt__read_file(scratch("pipe"), &data, &length), NT_IO);
    assert_non_null(strstr(nt_error_message(), "pipe': it is a pipe and no regular file"));
    assert_int_equal(nt__read_file("/dev/zero", &data, &length), NT_IO);
    assert_non_null(strstr(nt_error_message(), "'/dev/zero': it is a device and no regular file"));
    assert_int_equal(nt__read_file(scratch("socket"), &data, &length), NT_IO); /* it cannot even be opened */
    assert_non_null(strstr(nt_error_message(), "socket': No such device or address"));
}

/* ---- pipes and links in the place of a file that is written ----------------------------------------------------- */

static void *stop_soon(void *unused) {
    (void)unused;
    usleep(200000);
    nt__stop_set(true);
    return NULL;
}

/* A pipe without a reader, and one whose reader does not read, are given up when the process is asked to stop. */
static void a_pipe_is_waited_for_until_a_stop(void **state) {
    (void)state;
    static char much[1 << 20];
    pthread_t thread;
    assert_int_equal(mkfifo(scratch("out"), 0600), 0);
    for (int with_reader = 0; with_reader < 2; with_reader++) {
        int reader = with_reader ? open(scratch("out"), O_RDONLY | O_NONBLOCK) : -1;
        assert_int_equal(pthread_create(&thread, NULL, stop_soon, NULL), 0);
        assert_int_equal(nt__write_file(scratch("out"), much, sizeof much), NT_INTERRUPTED);
        assert_non_null(strstr(nt_error_message(), "out' was to be written: nobody"));
        pthread_join(thread, NULL);
        nt__stop_set(false);
        if (reader >= 0) close(reader);
    }
}

static void *read_all_of_it(void *count) {
    char block[4096];
    int file = open(scratch("late"), O_RDONLY);
    for (ssize_t got; (got = read(file, block, sizeof block)) > 0;) *(size_t *)count += (size_t)got;
    close(file);
    return NULL;
}

static void a_late_reader_gets_everything(void **state) {
    (void)state;
    static char much[1 << 20];
    size_t count = 0;
    pthread_t thread;
    assert_int_equal(mkfifo(scratch("late"), 0600), 0);
    assert_int_equal(pthread_create(&thread, NULL, read_all_of_it, &count), 0);
    assert_int_equal(nt__write_file(scratch("late"), much, sizeof much), NT_OK);
    pthread_join(thread, NULL);
    assert_int_equal(count, sizeof much);
}

static void a_file_made_afresh_takes_no_other_file(void **state) {
    (void)state;
    int file;
    scratch_put("precious", "gold", 4);
    assert_int_equal(symlink(scratch("precious"), scratch("link")), 0);
    assert_int_equal(link(scratch("precious"), scratch("second")), 0);
    assert_int_equal(mkfifo(scratch("a-pipe"), 0600), 0);
    const char *const names[] = {"link", "second", "a-pipe"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(nt__open_own(scratch(names[i]), &file), NT_IO);
        assert_int_equal(nt__make_afresh(scratch(names[i]), &file), NT_OK);
        assert_true(nt__write_all(file, "new", 3));
        close(file);
        assert_content(names[i], "new");
        assert_content("precious", "gold");
        assert_int_equal(nt__open_own(scratch(names[i]), &file), NT_OK);
        close(file);
    }
    assert_int_equal(mkdir(scratch("a-folder"), 0700), 0);
    assert_int_equal(nt__make_afresh(scratch("a-folder"), &file), NT_IO);
    assert_non_null(strstr(nt_error_message(), "cannot remove '"));
}

static void folders_are_made_with_their_parents(void **state) {
    (void)state;
    assert_int_equal(nt__make_folder(scratch("a/b//c/")), NT_OK);
    assert_true(nt__is_folder(scratch("a/b/c")));
    assert_int_equal(nt__make_folder(scratch("a/b")), NT_OK);
    scratch_put("a/file", "x", 1);
    assert_false(nt__is_folder(scratch("a/file")));
    assert_int_equal(nt__make_folder(scratch("a/file")), NT_IO);
    assert_non_null(
        strstr(nt_error_message(), "a/file': File exists and is no folder; remove it or choose another name"));
    assert_int_equal(nt__make_folder(scratch("a/file/below")), NT_IO);
    nt__memory_fail_at(1);
    assert_int_equal(nt__make_folder(scratch("a/d")), NT_OUT_OF_MEMORY);
}

/* Another file must not take the name of a device, which a rename would do for the superuser. */
static void devices_are_written_into(void **state) {
    (void)state;
    struct stat info;
    assert_int_equal(nt__write_file("/dev/null", "text", 4), NT_OK);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    assert_int_equal(nt__write_file("/dev/full", "text", 4), NT_IO);
    assert_string_equal(nt_error_message(), "cannot write '/dev/full': No space left on device; free "
                                            "space there or choose another folder");
    assert_int_equal(stat("/dev/full", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

static void a_place_to_write_to_is_looked_at_before(void **state) {
    (void)state;
    assert_int_equal(mkdir(scratch("place"), 0700), 0);
    assert_int_equal(nt__check_can_write(scratch("place/file")), NT_OK);
    assert_int_equal(nt__check_can_write("bare"), NT_OK);
    assert_int_equal(nt__check_can_write("/dev/null"), NT_OK);
    assert_int_equal(nt__check_can_write(scratch("place")), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "place' is a folder: name a file"));
    assert_int_equal(nt__check_can_write(scratch("no-place/file")), NT_NOT_FOUND);
    assert_non_null(strstr(nt_error_message(), "no-place'; make it or name another file"));
    assert_int_equal(scratch_entries(scratch("place")), 0);
}

static void a_locked_folder_is_locked_for_all_others(void **state) {
    (void)state;
    int first, second;
    assert_int_equal(mkdir(scratch("locked"), 0700), 0);
    assert_int_equal(nt__lock_folder(scratch("locked"), &first), NT_OK);
    assert_int_equal(nt__lock_folder(scratch("locked"), &second), NT_INVALID);
    assert_int_equal(second, -1);
    assert_non_null(strstr(nt_error_message(), "locked' is in use"));
    nt__unlock_folder(second);
    nt__unlock_folder(first);
    assert_int_equal(nt__lock_folder(scratch("locked"), &second), NT_OK);
    nt__unlock_folder(second);
    assert_int_equal(nt__lock_folder(scratch("nowhere"), &first), NT_NOT_FOUND);
}

static void a_nan_is_shown_without_a_sign(void **state) {
    (void)state;
    char text[64];
    volatile double zero = 0;
    snprintf(text, sizeof text, "%g %g %g", nt__plain_nan(zero / zero), nt__plain_nan(-(zero / zero)),
             nt__plain_nan(-1.5));
    assert_string_equal(text, "nan nan -1.5");
}

/* The file is there under its name until the next one takes that. */
static void the_former_file_keeps_its_name_too(void **state) {
    (void)state;
    assert_int_equal(mkdir(scratch("former"), 0700), 0);
    scratch_put("former/kept", "first", 5);
    scratch_put("former/kept.previous", "older", 5);
    assert_int_equal(nt__keep_previous(scratch("former/kept")), NT_OK);
    assert_content("former/kept", "first");
    assert_content("former/kept.previous", "first");
    scratch_put("former/kept.new", "second", 6);
    assert_int_equal(rename(scratch("former/kept.new"), scratch("former/kept")), 0);
    assert_int_equal(nt__keep_previous(scratch("former/kept")), NT_OK);
    assert_content("former/kept", "second");
    assert_content("former/kept.previous", "second");
    /* What was kept stays where nothing takes its place. */
    assert_int_equal(unlink(scratch("former/kept")), 0);
    assert_int_equal(nt__keep_previous(scratch("former/kept")), NT_OK);
    assert_content("former/kept.previous", "second");
    /* What cannot be kept stays too. */
    scratch_put("former/stuck", "here", 4);
    assert_int_equal(mkdir(scratch("former/stuck.previous"), 0700), 0);
    assert_int_equal(nt__keep_previous(scratch("former/stuck")), NT_IO);
    assert_content("former/stuck", "here");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seconds_pass),
        cmocka_unit_test(a_file_is_written_and_replaced_whole),
        cmocka_unit_test(a_bare_name_is_written_to_the_current_folder),
        cmocka_unit_test(a_failed_write_leaves_the_old_file),
        cmocka_unit_test(a_failed_rename_leaves_no_file_behind),
        cmocka_unit_test(a_write_into_no_folder_says_so),
        cmocka_unit_test(a_write_survives_every_refused_allocation),
        cmocka_unit_test(a_write_survives_every_refused_change),
        cmocka_unit_test(a_file_under_construction),
        cmocka_unit_test(what_cannot_be_read_is_named),
        cmocka_unit_test(a_file_without_a_size_is_read_to_its_end),
        cmocka_unit_test(what_is_no_regular_file_is_not_read),
        cmocka_unit_test(a_pipe_is_waited_for_until_a_stop),
        cmocka_unit_test(a_late_reader_gets_everything),
        cmocka_unit_test(a_file_made_afresh_takes_no_other_file),
        cmocka_unit_test(folders_are_made_with_their_parents),
        cmocka_unit_test(devices_are_written_into),
        cmocka_unit_test(a_place_to_write_to_is_looked_at_before),
        cmocka_unit_test(a_locked_folder_is_locked_for_all_others),
        cmocka_unit_test(a_nan_is_shown_without_a_sign),
        cmocka_unit_test(the_former_file_keeps_its_name_too),
    };
    return cmocka_run_group_tests_name("file", tests, scratch_make, scratch_remove);
}
