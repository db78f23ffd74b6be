/* What is loaded is this user's or root's: owner and mode of the file, its folder and all above it, links on the way,
 * and the same as another user in a child process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

enum { STRANGER = 12345 };

static bool is_root(void) {
    if (geteuid() == 0) return true;
    print_message("not root: files cannot be given to another user, so these cases are left to a run as root\n");
    return false;
}

/* Scratch folders of mode 0755 with a file of mode 0644: "a/b/file", and "a/b/deeper". */
static int start(void **state) {
    (void)state;
    umask(022);
    scratch_remove_path(scratch("a"));
    assert_int_equal(chmod(scratch_folder, 0755), 0); /* for the child that is another user */
    assert_int_equal(mkdir(scratch("a"), 0755), 0);
    assert_int_equal(mkdir(scratch("a/b"), 0755), 0);
    assert_int_equal(mkdir(scratch("a/b/deeper"), 0755), 0);
    scratch_put("a/b/file", "text", 4);
    return 0;
}

static nt_status try(const char *name) {
    char *data;
    size_t length;
    nt_status status = nt__read_trusted(scratch(name), 100, &data, &length);
    if (status == NT_OK) assert_string_equal(data, "text");
    if (status != NT_OK) assert_null(data);
    nt__free(data);
    return status;
}

static void assert_trusted(const char *name) {
    if (try(name) != NT_OK) fail_msg("%s: %s", name, nt_error_message());
}

static void assert_refused(const char *name, nt_status status, const char *problem, const char *advice) {
    assert_int_equal(try(name), status);
    if (strstr(nt_error_message(), problem) && strstr(nt_error_message(), advice)) return;
    fail_msg("%s: %s", name, nt_error_message());
}

/* ---- modes ------------------------------------------------------------------------------------------------------ */

static void modes_of_the_file(void **state) {
    (void)state;
    static const mode_t good[] = {0644, 0600, 0755, 0400, 0700}, bad[] = {0664, 0646, 0666, 0620, 0602};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(chmod(scratch("a/b/file"), good[i]), 0);
        assert_trusted("a/b/file");
        assert_int_equal(chmod(scratch("a/b/file"), bad[i]), 0);
        assert_refused("a/b/file", NT_INVALID, "others may write to '", "delete it and make it anew");
    }
}

/* At any height, and also where a link leads through it. */
static void modes_of_every_folder_above(void **state) {
    (void)state;
    static const char *const folders[] = {"a", "a/b"};
    assert_int_equal(symlink("b", scratch("a/link")), 0);
    assert_int_equal(symlink(scratch("a/b"), scratch("a/far")), 0);
    static const char *const ways[] = {"a/b/file", "a/link/file", "a/far/file", "a/b/deeper/../file", "a/./b//file"};
    for (size_t way = 0; way < 5; way++) {
        assert_trusted(ways[way]);
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(chmod(scratch(folders[i]), 0775), 0);
            assert_refused(ways[way], NT_INVALID, "others may write into the folder '", "use a folder elsewhere");
            assert_non_null(strstr(nt_error_message(), folders[i]));
            assert_int_equal(chmod(scratch(folders[i]), 01777), 0); /* as /tmp */
            assert_trusted(ways[way]);
            assert_int_equal(chmod(scratch(folders[i]), 0755), 0);
        }
    }
}

static void a_relative_path_is_checked_up_to_the_root(void **state) {
    (void)state;
    char before[SCRATCH_PATH];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(scratch("a/b")), 0);
    int file;
    assert_int_equal(nt__open_trusted("file", &file), NT_OK);
    close(file);
    assert_int_equal(chmod(scratch("a"), 0777), 0);
    assert_int_equal(nt__open_trusted("file", &file), NT_INVALID);
    assert_int_equal(nt__open_trusted("deeper/../file", &file), NT_INVALID);
    assert_int_equal(chdir(before), 0);
}

/* ---- kinds ------------------------------------------------------------------------------------------------------ */

static void the_file_is_no_link_and_no_pipe(void **state) {
    (void)state;
    assert_int_equal(symlink("file", scratch("a/b/link")), 0);
    assert_int_equal(mkfifo(scratch("a/b/pipe"), 0600), 0);
    assert_refused("a/b/link", NT_IO, "is a link", "name the file that it leads to");
    assert_refused("a/b/pipe", NT_IO, "it is a pipe", "no regular file");
    assert_refused("a/b/deeper", NT_IO, "it is a folder", "no regular file");
    assert_refused("a/b/none", NT_NOT_FOUND, "none'", "No such file");
    assert_refused("a/none/file", NT_NOT_FOUND, "none", "No such file");
    assert_refused("a/b/file/x", NT_NOT_FOUND, "file", "Not a directory");
    assert_int_equal(symlink("self", scratch("a/self")), 0);
    assert_refused("a/self/file", NT_IO, "self", "Too many levels");
    scratch_put("a/b/large",
                "0123456789012345678901234567890123456789012345678901234567890123456789"
                "0123456789012345678901234567890123456789",
                110);
    assert_refused("a/b/large", NT_IO, "has 110 bytes", "no more than 100");
}

/* ---- other users ------------------------------------------------------------------------------------------------ */

static void owners_of_file_folders_and_links(void **state) {
    (void)state;
    static const char *const parts[] = {"a/b/file", "a/b", "a", "a/link"};
    if (!is_root()) return;
    assert_int_equal(symlink("b", scratch("a/link")), 0);
    for (size_t i = 0; i < 4; i++) {
        assert_trusted("a/link/file");
        assert_int_equal(lchown(scratch(parts[i]), STRANGER, STRANGER), 0);
        assert_refused("a/link/file", NT_INVALID, "belongs to user 12345", "delete it or use another one");
        assert_non_null(strstr(nt_error_message(), parts[i]));
        assert_int_equal(lchown(scratch(parts[i]), 0, 0), 0);
    }
    /* In a folder as /tmp is a stranger may have put anything. */
    assert_int_equal(chmod(scratch("a/b"), 01777), 0);
    scratch_put("a/b/planted", "text", 4);
    assert_int_equal(chown(scratch("a/b/planted"), STRANGER, STRANGER), 0);
    assert_refused("a/b/planted", NT_INVALID, "planted' belongs to user 12345", "delete it");
}

/* What a stranger finds of root's is trusted, of his own too, of a third one's not. */
static void a_user_trusts_root_and_himself(void **state) {
    (void)state;
    enum { THIRD = 54321 };
    static const struct {
        uid_t file, folder;
        bool good;
    } rows[] = {{0, 0, true},      {STRANGER, 0, true}, {STRANGER, STRANGER, true}, {0, STRANGER, true},
                {THIRD, 0, false}, {0, THIRD, false},   {THIRD, STRANGER, false},   {STRANGER, THIRD, false}};
    if (!is_root()) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int how = -1;
        assert_int_equal(chown(scratch("a/b/file"), rows[i].file, 0), 0);
        assert_int_equal(chown(scratch("a/b"), rows[i].folder, 0), 0);
        pid_t child = fork();
        if (child == 0) {
            bool other = setgid(STRANGER) == 0 && setuid(STRANGER) == 0;
            _exit(!other ? 99 : try("a/b/file"));
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_int_equal(WEXITSTATUS(how), rows[i].good ? NT_OK : NT_INVALID);
    }
}

/* ---- folders of nitro's own ------------------------------------------------------------------------------------- */

static void a_private_folder_has_trusted_parents(void **state) {
    (void)state;
    struct stat info;
    umask(0);
    assert_int_equal(nt__make_private_folder(scratch("a/new/one/more")), NT_OK);
    umask(022);
    assert_int_equal(stat(scratch("a/new/one"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_int_equal(chmod(scratch("a/new"), 0777), 0);
    assert_int_equal(nt__make_private_folder(scratch("a/new/one/more")), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "all below it may be of their making"));
    assert_int_equal(chmod(scratch("a/new"), 0755), 0);
    assert_int_equal(nt__make_private_folder(scratch("a/new/one/more")), NT_OK);
    assert_int_equal(nt__check_trusted_folder("/tmp"), NT_OK);
}

/* Whatever the umask, nitro reads again what it kept. */
static void what_is_kept_is_trusted(void **state) {
    (void)state;
    umask(0);
    assert_int_equal(nt__write_kept(scratch("a/b/kept"), &(nt__piece){"text", 4}, 1), NT_OK);
    umask(022);
    assert_trusted("a/b/kept");
}

static void noexec_is_seen(void **state) {
    (void)state;
    assert_false(nt__is_noexec("/usr"));
    nt__pretend_noexec(scratch_folder);
    assert_true(nt__is_noexec(scratch("a")));
    assert_false(nt__is_noexec("/usr"));
    nt__pretend_noexec(NULL);
}

static void every_refused_allocation_is_reported(void **state) {
    (void)state;
    size_t live = nt__memory().live;
    nt_status status = NT_OUT_OF_MEMORY;
    for (size_t n = 1; status == NT_OUT_OF_MEMORY; n++) {
        nt__memory_fail_at(n);
        status = try("a/b/file");
        assert_int_equal(nt__memory().live, live);
    }
    nt__memory_fail_at(0);
    assert_int_equal(status, NT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(modes_of_the_file, start),
        cmocka_unit_test_setup(modes_of_every_folder_above, start),
        cmocka_unit_test_setup(a_relative_path_is_checked_up_to_the_root, start),
        cmocka_unit_test_setup(the_file_is_no_link_and_no_pipe, start),
        cmocka_unit_test_setup(owners_of_file_folders_and_links, start),
        cmocka_unit_test_setup(a_user_trusts_root_and_himself, start),
        cmocka_unit_test_setup(a_private_folder_has_trusted_parents, start),
        cmocka_unit_test_setup(what_is_kept_is_trusted, start),
        cmocka_unit_test_setup(noexec_is_seen, start),
        cmocka_unit_test_setup(every_refused_allocation_is_reported, start),
    };
    return cmocka_run_group_tests_name("trust", tests, scratch_make, scratch_remove);
}
