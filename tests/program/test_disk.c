/* src/program: programs as files. What is damaged, cut short, of others, half-written or too much is never taken for a
 * program, whatever other processes do at the same time. No engine is involved.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "../base/scratch.h"
#include "base/files.h"
#include "disk/disk.h"

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

static nt__disk disk;

static void assert_ok(nt_status status) {
    if (status != NT_OK) fail_msg("%s: %s", nt_status_name(status), nt_error_message());
}

/* ---- a folder for each test ------------------------------------------------------------------------------------- */

static void use_folder(const char *name) {
    setenv("NITRO_CACHE_DIR", scratch(name), 1);
    unsetenv("NITRO_CACHE_SIZE");
}

static int open_disk(void **state) {
    (void)state;
    static int number;
    char name[32];
    snprintf(name, sizeof name, "cache-%d", number++);
    use_folder(name);
    return nt__disk_open(true, &disk) == NT_OK && disk.folder ? 0 : -1;
}

static int close_disk(void **state) {
    (void)state;
    nt__disk_close(&disk);
    if (nt__memory().live) print_error("%zu blocks of host memory were not freed\n", nt__memory().live);
    return nt__memory().live ? -1 : 0;
}

static const char *in_disk(const char *name) {
    static char path[4 * SCRATCH_PATH];
    snprintf(path, sizeof path, "%s/%s", disk.folder, name);
    return path;
}

/* ---- programs --------------------------------------------------------------------------------------------------- */

static nt__disk_key key_of(uint64_t number) {
    return (nt__disk_key){{number, 1}, {{2, 2}, {3, 3}, {4, 4}}};
}

static void name_of(const nt__disk_key *key, char name[NT__DISK_NAME]) {
    nt__disk_name(key, name);
}

static nt_status put(const nt__disk_key *key, const void *bytes, size_t length) {
    const nt__disk_program program = {
        .program = "gradient", .experiment = "Toy", .plugin = "a.so", .seconds = 1.5, .bytes = bytes, .length = length};
    return nt__disk_write(&disk, key, &program);
}

static nt__disk_answer answer_to(const nt__disk_key *key, char why[NT__DISK_WHY]) {
    nt__disk_program found;
    nt__disk_answer answer;
    assert_ok(nt__disk_read(&disk, key, &found, &answer, why));
    assert_int_equal(answer == NT__DISK_FOUND, found.data != NULL);
    nt__free(found.data);
    return answer;
}

#define assert_answer(key, wanted, reason)                      \
    do {                                                        \
        char why_[NT__DISK_WHY];                                \
        assert_int_equal(answer_to((key), why_), (wanted));     \
        if (!strstr(why_, (reason))) fail_msg("why: %s", why_); \
    } while (0)

static void what_is_written_is_read(void **state) {
    (void)state;
    const nt__disk_key key = key_of(7);
    nt__disk_program found;
    nt__disk_answer answer;
    char why[NT__DISK_WHY], name[NT__DISK_NAME];
    assert_answer(&key, NT__DISK_ABSENT, "");
    assert_ok(put(&key, "some\0bytes", 10));
    assert_ok(nt__disk_read(&disk, &key, &found, &answer, why));
    assert_int_equal(answer, NT__DISK_FOUND);
    assert_string_equal(found.program, "gradient");
    assert_string_equal(found.experiment, "Toy");
    assert_string_equal(found.plugin, "a.so");
    assert_true(found.seconds == 1.5);
    assert_in_range(time(NULL) - found.made, 0, 60);
    assert_int_equal(found.length, 10);
    assert_memory_equal(found.bytes, "some\0bytes", 10);
    nt__free(found.data);
    name_of(&key, name);
    assert_ok(nt__disk_look(&disk, name, &found));
    assert_string_equal(found.program, "gradient");
    nt__free(found.data);
    assert_true(nt__disk_remove(&disk, name));
    assert_answer(&key, NT__DISK_ABSENT, "");
}

/* ---- damage ----------------------------------------------------------------------------------------------------- */

static char *read_entry(const nt__disk_key *key, size_t *length, char name[NT__DISK_NAME]) {
    char *data;
    name_of(key, name);
    assert_ok(nt__read_file(in_disk(name), &data, length));
    return data;
}

static void overwrite(const char *name, const char *data, size_t length) {
    FILE *file = fopen(in_disk(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* A changed bit anywhere, in the head, the texts or the bytes (the engine may end the process on it). */
static void every_changed_byte_is_noticed(void **state) {
    (void)state;
    const nt__disk_key key = key_of(1);
    char name[NT__DISK_NAME];
    size_t length;
    assert_ok(put(&key, "0123456789abcdef0123456789abcdef", 32));
    char *data = read_entry(&key, &length, name);
    for (size_t i = 0; i < length; i++) {
        static const char flips[] = {0x01, (char)0x80, (char)0xFF};
        for (size_t f = 0; f < COUNT_OF(flips); f++) {
            data[i] = (char)(data[i] ^ flips[f]);
            overwrite(name, data, length);
            assert_answer(&key, NT__DISK_REFUSED, "the saved one is not used: it");
            data[i] = (char)(data[i] ^ flips[f]);
        }
    }
    overwrite(name, data, length);
    assert_answer(&key, NT__DISK_FOUND, "");
    nt__free(data);
}

static void every_other_length_is_noticed(void **state) {
    (void)state;
    const nt__disk_key key = key_of(1);
    char name[NT__DISK_NAME], longer[512] = "";
    size_t length;
    assert_ok(put(&key, "0123456789abcdef", 16));
    char *data = read_entry(&key, &length, name);
    assert_true(length + 100 < sizeof longer);
    memcpy(longer, data, length);
    for (size_t i = 0; i < length + 100; i++) {
        if (i == length) continue;
        overwrite(name, longer, i);
        assert_answer(&key, NT__DISK_REFUSED, "the saved one is not used: it");
    }
    overwrite(name, data, length);
    assert_answer(&key, NT__DISK_FOUND, "");
    nt__free(data);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    const nt__disk_key key = key_of(1), other = key_of(2);
    char name[NT__DISK_NAME], others[NT__DISK_NAME];
    size_t length;
    assert_ok(put(&key, "0123456789abcdef", 16));
    char *data = read_entry(&key, &length, name);
    const struct {
        size_t at, length;
        const char *why;
    } damages[] = {{0, length, "it is no program of nitro's"},
                   {8, length, "it has another format"},
                   {12, length, "its length is wrong"},
                   {16, length, "its length is wrong"},
                   {24, length, "its checksum is wrong"},
                   {length - 1, length, "its checksum is wrong"},
                   {0, 0, "it is cut short"},
                   {0, 119, "it is cut short"},
                   {length - 1, length - 1, "its length is wrong"}};
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        data[damages[i].at] ^= 4;
        overwrite(name, data, damages[i].length);
        data[damages[i].at] ^= 4;
        assert_answer(&key, NT__DISK_REFUSED, damages[i].why);
    }
    nt__disk_program found;
    assert_ok(nt__disk_look(&disk, name, &found));
    assert_null(found.data);
    /* A right file under a wrong name. */
    name_of(&other, others);
    overwrite(others, data, length);
    assert_answer(&other, NT__DISK_REFUSED, "it is another program's, under this one's name");
    nt__free(data);
}

/* Reading a pipe or a device would have no end, and so would writing into a pipe. */
static void what_is_no_file_is_refused_and_replaced(void **state) {
    (void)state;
    static const char *const small = "small.last";
    nt__disk_key key = key_of(1);
    char name[NT__DISK_NAME], why[NT__DISK_WHY], *data;
    size_t length;
    name_of(&key, name);
    for (int kind = 0; kind < 3; kind++) {
        const char *const names[] = {name, small};
        for (size_t i = 0; i < 2; i++) {
            unlink(in_disk(names[i]));
            int made = kind == 0   ? mkfifo(in_disk(names[i]), 0600)
                       : kind == 1 ? symlink("/dev/zero", in_disk(names[i]))
                                   : mkdir(in_disk(names[i]), 0700);
            assert_int_equal(made, 0);
        }
        assert_int_equal(answer_to(&key, why), NT__DISK_REFUSED);
        assert_string_equal(why, "the saved one is not used: it cannot be read");
        assert_ok(nt__disk_get(&disk, small, &data, &length));
        assert_null(data);
        assert_ok(put(&key, "bytes", 5));
        assert_int_equal(answer_to(&key, why), NT__DISK_FOUND);
        assert_ok(nt__disk_put(&disk, small, "ab", 2));
        assert_ok(nt__disk_get(&disk, small, &data, &length));
        assert_int_equal(length, 2);
        nt__free(data);
    }
}

/* What another plugin, processor or format left is not used and is left to them. */
static void programs_of_others_are_not_used_and_stay(void **state) {
    (void)state;
    const nt__disk_key mine = key_of(5);
    const struct {
        nt__disk_key key;
        const char *why;
    } others[] = {{{mine.content, {{9, 9}, {3, 3}, {4, 4}}}, "another plugin (a.so)"},
                  {{mine.content, {{2, 2}, {9, 9}, {4, 4}}}, "a processor of another model"},
                  {{mine.content, {{2, 2}, {3, 3}, {9, 9}}}, "other XLA_FLAGS"}};
    char name[NT__DISK_NAME];
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_ok(put(&others[i].key, "theirs", 6));
        assert_answer(&mine, NT__DISK_REFUSED, others[i].why);
        assert_ok(put(&mine, "mine", 4));
        assert_answer(&mine, NT__DISK_FOUND, "");
        assert_answer(&others[i].key, NT__DISK_FOUND, "");
        name_of(&mine, name);
        nt__disk_remove(&disk, name);
        name_of(&others[i].key, name);
        nt__disk_remove(&disk, name);
    }
    /* A format of the future has another name too. */
    size_t length;
    assert_ok(put(&mine, "mine", 4));
    char *data = read_entry(&mine, &length, name);
    nt__disk_remove(&disk, name);
    data[8] = 77;
    name[40] ^= 1;
    overwrite(name, data, length);
    assert_answer(&mine, NT__DISK_REFUSED, "it has another format");
    nt__free(data);
}

/* ---- how much --------------------------------------------------------------------------------------------------- */

static size_t count_of(const char *ending) {
    nt__disk_file *files;
    size_t count;
    assert_ok(nt__disk_files(&disk, ending, &files, &count));
    nt__free(files);
    return count;
}

static void age(const char *name, int64_t seconds) {
    const struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    assert_int_equal(utimensat(AT_FDCWD, in_disk(name), times, 0), 0);
}

static void what_was_used_longest_ago_goes(void **state) {
    (void)state;
    enum { BYTES = 1000, ROOM = 4 };
    char bytes[BYTES] = "", name[NT__DISK_NAME];
    disk.limit = ROOM * (BYTES + 150);
    for (uint64_t i = 0; i < ROOM; i++) {
        const nt__disk_key key = key_of(i);
        assert_ok(put(&key, bytes, BYTES));
        name_of(&key, name);
        age(name, 100 - (int64_t)i);
    }
    nt__disk_key first = key_of(0), fresh = key_of(50), second = key_of(1);
    name_of(&first, name);
    nt__disk_touch(&disk, name);
    assert_ok(put(&fresh, bytes, BYTES));
    assert_int_equal(count_of(nt__disk_program_ending), ROOM);
    assert_answer(&first, NT__DISK_FOUND, "");
    assert_answer(&fresh, NT__DISK_FOUND, "");
    assert_answer(&second, NT__DISK_ABSENT, "");
}

static void what_is_larger_than_all_may_be_is_not_written(void **state) {
    (void)state;
    char bytes[500] = "";
    const nt__disk_key small = key_of(0), large = key_of(1);
    disk.limit = 300;
    assert_ok(put(&small, bytes, 10));
    assert_int_equal(put(&large, bytes, sizeof bytes), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "the limit of all is 300"));
    assert_answer(&small, NT__DISK_FOUND, "");
    assert_int_equal(count_of(NULL), 1);
}

static void the_limit_is_read_with_its_unit(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {
        {"", 2147483648u}, {"1", 1},          {"100B", 100},        {"3K", 3072},           {"3KiB", 3072},
        {"3kB", 3000},     {"1.5M", 1572864}, {"500MB", 500000000}, {"2 GiB", 2147483648u}, {"1TB", 1000000000000}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        nt__disk other;
        setenv("NITRO_CACHE_SIZE", sizes[i].text, 1);
        assert_ok(nt__disk_open(true, &other));
        if (other.limit != sizes[i].bytes) fail_msg("'%s' is %llu", sizes[i].text, (unsigned long long)other.limit);
        assert_non_null(other.folder);
        nt__disk_close(&other);
    }
    static const char *const wrong[] = {"two", "-1", "5 apples", "nan", "inf", "1GiBs", "G"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        nt__disk other;
        setenv("NITRO_CACHE_SIZE", wrong[i], 1);
        assert_ok(nt__disk_open(true, &other));
        assert_null(other.folder);
        assert_false(other.is_unwanted);
        assert_non_null(strstr(other.why, "which is no size: write a number and a unit"));
    }
    setenv("NITRO_CACHE_SIZE", "0", 1);
    nt__disk other;
    assert_ok(nt__disk_open(true, &other));
    assert_null(other.folder);
    assert_true(other.is_unwanted);
}

/* ---- where ------------------------------------------------------------------------------------------------------ */

static void assert_place(const char *wanted) {
    nt__disk other;
    assert_ok(nt__disk_open(false, &other));
    if (wanted)
        assert_string_equal(other.folder, wanted);
    else
        assert_null(other.folder);
    nt__disk_close(&other);
}

static void the_folder_is_the_first_that_is_named(void **state) {
    (void)state;
    char path[2 * SCRATCH_PATH];
    setenv("NITRO_CACHE_DIR", "relative", 1);
    assert_place("relative/programs");
    setenv("NITRO_CACHE_DIR", "", 1);
    setenv("XDG_CACHE_HOME", scratch("xdg"), 1);
    snprintf(path, sizeof path, "%s/nitro/programs", scratch("xdg"));
    assert_place(path);
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", scratch("home"), 1);
    snprintf(path, sizeof path, "%s/.cache/nitro/programs", scratch("home"));
    assert_place(path);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_place(NULL);
    nt__disk other;
    assert_ok(nt__disk_open(true, &other));
    assert_non_null(strstr(other.why, "set NITRO_CACHE_DIR, XDG_CACHE_HOME or HOME"));
    assert_int_equal(access(scratch("home"), F_OK), -1);
}

static void assert_refused(const char *why) {
    nt__disk other;
    assert_ok(nt__disk_open(true, &other));
    assert_null(other.folder);
    if (!strstr(other.why, why)) fail_msg("why: %s", other.why);
    assert_string_equal(nt_error_message(), "");
}

static void the_folder_is_private(void **state) {
    (void)state;
    static const struct {
        mode_t mode;
        bool good;
    } modes[] = {{0700, true},  {0755, true},  {0750, true},  {0720, false},
                 {0702, false}, {0777, false}, {0775, false}, {01777, false}};
    struct stat info;
    assert_int_equal(stat(disk.folder, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        nt__disk other;
        assert_int_equal(chmod(disk.folder, modes[i].mode), 0);
        assert_ok(nt__disk_open(true, &other));
        assert_int_equal(other.folder != NULL, modes[i].good);
        if (!modes[i].good) assert_non_null(strstr(other.why, "others may write into the folder"));
        if (!modes[i].good) assert_non_null(strstr(other.why, "delete it with all that it holds"));
        nt__disk_close(&other);
    }
    chmod(disk.folder, 0700);
    /* Only root can give a folder away; the others look at one of root's. */
    if (geteuid() == 0) assert_int_equal(chown(disk.folder, 12345, (gid_t)-1), 0);
    nt_status status = nt__check_private_folder(geteuid() == 0 ? disk.folder : "/usr");
    assert_int_equal(status, NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "belongs to user "));
    nt__fail_nothing();
    if (geteuid() == 0) assert_refused("belongs to user 12345 and this is user 0");
    if (geteuid() == 0) assert_int_equal(chown(disk.folder, 0, (gid_t)-1), 0);
}

static void a_folder_that_cannot_be_made_is_no_failure(void **state) {
    (void)state;
    scratch_put("a-file", "x", 1);
    setenv("NITRO_CACHE_DIR", scratch("a-file"), 1);
    nt__fail_nothing();
    assert_refused("cannot make the folder");
}

/* ---- what is half-done ------------------------------------------------------------------------------------------ */

static void put_file(const char *name, const char *text) {
    overwrite(name, text, strlen(text));
}

/* Who uses it and who only looks hear the same. */
static void a_file_in_the_place_of_the_folder_is_told(void **state) {
    (void)state;
    nt__disk other;
    use_folder("with-file");
    assert_int_equal(mkdir(scratch("with-file"), 0700), 0);
    scratch_put("with-file/programs", "x", 1);
    for (int make = 0; make < 2; make++) {
        assert_ok(nt__disk_open(make, &other));
        assert_null(other.folder);
        assert_non_null(strstr(other.why, "is no folder; remove it or choose another"));
        nt__disk_close(&other);
    }
}

static void half_written_files_go_when_they_are_old(void **state) {
    (void)state;
    const nt__disk_key key = key_of(1);
    put_file("a.program.1-2-3.tmp", "half");
    put_file("b.program.1-2-3.tmp", "half");
    put_file("notes.txt", "somebody's own");
    age("a.program.1-2-3.tmp", 2 * 3600);
    assert_ok(put(&key, "bytes", 5));
    assert_int_equal(access(in_disk("a.program.1-2-3.tmp"), F_OK), -1);
    assert_int_equal(access(in_disk("b.program.1-2-3.tmp"), F_OK), 0);
    disk.limit = 1;
    assert_ok(nt__disk_shrink(&disk));
    assert_int_equal(access(in_disk("notes.txt"), F_OK), 0);
    assert_int_equal(count_of(nt__disk_program_ending), 0);
}

static void reopen(void) {
    nt__disk other;
    assert_ok(nt__disk_open(true, &other));
    nt__disk_close(&other);
}

/* A mark of a living process is left alone, one of an ended process removes the program that it was loading. */
static void a_program_that_ended_a_process_goes(void **state) {
    (void)state;
    const nt__disk_key key = key_of(1);
    char name[NT__DISK_NAME];
    nt__disk_guard guard = {.file = -1};
    name_of(&key, name);
    assert_ok(put(&key, "bytes", 5));
    nt__disk_guard_begin(&disk, name, &guard);
    assert_int_equal(count_of(".loading"), 1);
    reopen();
    assert_answer(&key, NT__DISK_FOUND, "");
    nt__disk_guard_end(&disk, &guard);
    nt__disk_guard_end(&disk, &guard);
    assert_int_equal(count_of(".loading"), 0);
    pid_t child = fork();
    if (child == 0) {
        nt__disk_guard_begin(&disk, name, &guard);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(count_of(".loading"), 1);
    reopen();
    assert_answer(&key, NT__DISK_ABSENT, "");
    assert_int_equal(count_of(".loading"), 0);
}

/* A mark that names nothing of ours removes nothing, and goes when it is old. */
static void marks_that_make_no_sense_remove_nothing(void **state) {
    (void)state;
    static const char *const names[] = {"", "../x.program", "notes.txt", "/etc/x.program"};
    const nt__disk_key key = key_of(1);
    assert_ok(put(&key, "bytes", 5));
    put_file("notes.txt", "somebody's own");
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        put_file("1-2-3.loading", names[i]);
        reopen();
        assert_int_equal(count_of(".loading"), 1);
        age("1-2-3.loading", 2 * 3600);
        reopen();
        assert_int_equal(count_of(".loading"), 0);
    }
    assert_int_equal(access(in_disk("notes.txt"), F_OK), 0);
    assert_answer(&key, NT__DISK_FOUND, "");
}

/* The limit of a file's size stands for a full disk. */
static void a_full_disk_leaves_nothing(void **state) {
    (void)state;
    static char bytes[1 << 16];
    const nt__disk_key small = key_of(1), large = key_of(2);
    struct rlimit before, now;
    assert_ok(put(&small, bytes, 10));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    now = before;
    now.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
    nt_status status = put(&large, bytes, sizeof bytes);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, NT_IO);
    assert_non_null(strstr(nt_error_message(), "cannot write"));
    assert_answer(&large, NT__DISK_ABSENT, "");
    assert_answer(&small, NT__DISK_FOUND, "");
    assert_int_equal(count_of(NULL), 1);
}

/* ---- several processes ------------------------------------------------------------------------------------------ */

enum { SHARED_BYTES = 200000, SHARED_TURNS = 60 };

static void write_again_and_again(int turns) {
    static char bytes[SHARED_BYTES];
    for (int i = 0; turns < 0 || i < turns; i++) {
        const nt__disk_key key = key_of((uint64_t)i % 3);
        memset(bytes, i % 3, sizeof bytes);
        if (put(&key, bytes, sizeof bytes) != NT_OK) _exit(1);
    }
}

/* Whatever is found is whole: all its bytes are those of its key. Whether it was found. */
static bool look_at_shared(uint64_t number) {
    const nt__disk_key key = key_of(number);
    nt__disk_program found;
    nt__disk_answer answer;
    char why[NT__DISK_WHY];
    assert_ok(nt__disk_read(&disk, &key, &found, &answer, why));
    assert_int_not_equal(answer, NT__DISK_REFUSED);
    for (size_t i = 0; i < found.length; i++) assert_int_equal(found.bytes[i], number);
    assert_int_equal(found.length, answer == NT__DISK_FOUND ? SHARED_BYTES : 0);
    nt__free(found.data);
    return answer == NT__DISK_FOUND;
}

static void processes_may_write_the_same_at_once(void **state) {
    (void)state;
    enum { WRITERS = 3 };
    pid_t children[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] > 0) continue;
        write_again_and_again(SHARED_TURNS);
        _exit(0);
    }
    for (int i = 0; i < WRITERS; i++) {
        int how;
        pid_t ended;
        while ((ended = waitpid(children[i], &how, WNOHANG)) == 0)
            for (uint64_t number = 0; number < 3; number++) look_at_shared(number);
        assert_int_equal(ended, children[i]);
        assert_int_equal(how, 0);
    }
    for (uint64_t number = 0; number < 3; number++) assert_true(look_at_shared(number));
    assert_int_equal(count_of(NULL), 3);
}

/* Killed at any moment a writer leaves whole programs, and half-written files that the next ones remove later. */
static void a_killed_writer_leaves_no_half_program(void **state) {
    (void)state;
    enum { KILLS = 40 };
    for (int i = 0; i < KILLS; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) write_again_and_again(-1);
        nanosleep(&(struct timespec){.tv_nsec = 1000000 + 311000L * i}, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        for (uint64_t number = 0; number < 3; number++) look_at_shared(number);
    }
    nt__disk_file *files;
    size_t count;
    assert_ok(nt__disk_files(&disk, ".tmp", &files, &count));
    for (size_t i = 0; i < count; i++) age(files[i].name, 2 * 3600);
    nt__free(files);
    assert_ok(nt__disk_shrink(&disk));
    assert_int_equal(count_of(".tmp"), 0);
    assert_true(count_of(nt__disk_program_ending) <= 3);
}

/* ---- what compiled ---------------------------------------------------------------------------------------------- */

static nt__environment environment_of(const char *path) {
    nt__environment environment;
    assert_ok(nt__environment_find(&disk, path, &environment));
    return environment;
}

static void the_plugin_is_known_by_its_content(void **state) {
    (void)state;
    unsetenv("XLA_FLAGS");
    scratch_put("one.so", "the same", 8);
    scratch_put("two.so", "the same", 8);
    scratch_put("three.so", "another", 7);
    nt__environment one = environment_of(scratch("one.so")), two = environment_of(scratch("two.so"));
    assert_true(nt__hash_equal(one.plugin, two.plugin));
    assert_true(nt__hash_equal(one.plugin, nt__hash_bytes("the same", 8)));
    assert_false(nt__hash_equal(one.plugin, environment_of(scratch("three.so")).plugin));
    assert_int_equal(count_of(".plugin"), 3);
    assert_true(nt__hash_equal(one.plugin, environment_of(scratch("one.so")).plugin));
    assert_int_equal(count_of(".plugin"), 3);
    scratch_put("one.so", "newer", 5);
    assert_true(nt__hash_equal(environment_of(scratch("one.so")).plugin, nt__hash_bytes("newer", 5)));
    nt__environment none;
    assert_int_equal(nt__environment_find(&disk, scratch("none.so"), &none), NT_NOT_FOUND);
}

/* What is remembered of a plugin is used, so that 200 MB are read once, unless it is damaged. */
static void a_remembered_plugin_is_not_read_again(void **state) {
    (void)state;
    nt__disk_file *files;
    size_t count;
    nt__hash wrong = {1, 2};
    scratch_put("one.so", "the same", 8);
    environment_of(scratch("one.so"));
    assert_ok(nt__disk_files(&disk, ".plugin", &files, &count));
    assert_int_equal(count, 1);
    assert_ok(nt__disk_put(&disk, files[0].name, &wrong, sizeof wrong));
    assert_true(nt__hash_equal(environment_of(scratch("one.so")).plugin, wrong));
    overwrite(files[0].name, "0123456789abcdef0123456789abcdef", 32);
    assert_true(nt__hash_equal(environment_of(scratch("one.so")).plugin, nt__hash_bytes("the same", 8)));
    overwrite(files[0].name, "", 0);
    assert_true(nt__hash_equal(environment_of(scratch("one.so")).plugin, nt__hash_bytes("the same", 8)));
    nt__free(files);
}

static void flags_of_the_engine_count_and_dumps_are_for_compiles(void **state) {
    (void)state;
    nt__environment dumping;
    scratch_put("one.so", "x", 1);
    nt__environment before = environment_of(scratch("one.so"));
    setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true", 1);
    nt__environment after = environment_of(scratch("one.so"));
    assert_false(nt__hash_equal(before.flags, after.flags));
    assert_true(nt__hash_equal(before.processor, after.processor));
    setenv("XLA_FLAGS", "--xla_dump_to=/tmp/x", 1);
    assert_int_equal(nt__environment_find(&disk, scratch("one.so"), &dumping), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "which only a compile writes"));
    unsetenv("XLA_FLAGS");
}

/* ---- short memory ----------------------------------------------------------------------------------------------- */

/* Everything that a process does with the folder. */
static nt_status use_everything(void) {
    nt__disk other;
    nt__disk_program found = {0};
    nt__disk_answer answer;
    nt__environment environment;
    nt__disk_file *files = NULL;
    size_t count;
    char why[NT__DISK_WHY], name[NT__DISK_NAME];
    const nt__disk_key key = key_of(3), relative = {key.content, {{1, 1}, {1, 1}, {1, 1}}};
    nt_status status = nt__disk_open(true, &other);
    if (status == NT_OK) status = nt__environment_find(&other, scratch("one.so"), &environment);
    if (status == NT_OK) status = put(&key, "bytes", 5);
    if (status == NT_OK) status = nt__disk_read(&other, &key, &found, &answer, why);
    nt__free(found.data);
    found.data = NULL;
    if (status == NT_OK) status = nt__disk_read(&other, &relative, &found, &answer, why);
    nt__free(found.data);
    if (status == NT_OK) status = nt__disk_files(&other, NULL, &files, &count);
    nt__free(files);
    nt__disk_name(&key, name);
    found.data = NULL;
    if (status == NT_OK) status = nt__disk_look(&other, name, &found);
    nt__free(found.data);
    nt__disk_close(&other);
    return status;
}

static void short_memory_is_said_and_leaves_nothing(void **state) {
    (void)state;
    scratch_put("one.so", "x", 1);
    size_t before = nt__memory().live, n = 1;
    for (bool failed = true; failed; n++) {
        nt__memory_fail_at(n);
        nt_status status = use_everything();
        nt__memory_fail_at(0);
        failed = status != NT_OK;
        if (failed) assert_int_equal(status, NT_OUT_OF_MEMORY);
        assert_int_equal(nt__memory().live, before);
    }
    assert_true(n > 20);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, open_disk, close_disk)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read),
        TEST(every_changed_byte_is_noticed),
        TEST(every_other_length_is_noticed),
        TEST(what_is_wrong_is_said),
        TEST(what_is_no_file_is_refused_and_replaced),
        TEST(programs_of_others_are_not_used_and_stay),
        TEST(what_was_used_longest_ago_goes),
        TEST(what_is_larger_than_all_may_be_is_not_written),
        TEST(the_limit_is_read_with_its_unit),
        TEST(the_folder_is_the_first_that_is_named),
        TEST(the_folder_is_private),
        TEST(a_folder_that_cannot_be_made_is_no_failure),
        TEST(a_file_in_the_place_of_the_folder_is_told),
        TEST(half_written_files_go_when_they_are_old),
        TEST(a_program_that_ended_a_process_goes),
        TEST(marks_that_make_no_sense_remove_nothing),
        TEST(a_full_disk_leaves_nothing),
        TEST(processes_may_write_the_same_at_once),
        TEST(a_killed_writer_leaves_no_half_program),
        TEST(the_plugin_is_known_by_its_content),
        TEST(a_remembered_plugin_is_not_read_again),
        TEST(flags_of_the_engine_count_and_dumps_are_for_compiles),
        TEST(short_memory_is_said_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
