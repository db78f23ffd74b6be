/* Building experiments: when the compiler runs and when not, what its failures look like, and damaged caches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>
#include <time.h>

#include "build/build.h"
#include "command.h"

/* ---- a compiler that is watched --------------------------------------------------------------------------------- */

/* A compiler that notes each call in the file "calls" of the scratch folder and then does what cc does. */
static const char *watched_compiler(void) {
    static char path[SCRATCH_PATH];
    char text[3 * SCRATCH_PATH];
    snprintf(path, sizeof path, "%s", scratch("watched-cc"));
    snprintf(text, sizeof text, "#!/bin/sh\necho call >>'%s'\nexec cc \"$@\"\n", scratch("calls"));
    put_text("watched-cc", text);
    assert_int_equal(chmod(path, 0755), 0);
    return path;
}

/* An empty cache, no other place for one, and the watched compiler for each test. */
static int start(void **state) {
    (void)state;
    put_text("a-file", "");
    setenv("XDG_CACHE_HOME", scratch("cache"), 1);
    setenv("HOME", scratch("a-file"), 1);
    unsetenv("TMPDIR");
    scratch_remove_path(scratch("cache"));
    unlink(scratch("calls"));
    setenv("CC", watched_compiler(), 1);
    return 0;
}

/* True when the compiler ran since the last question. */
static bool compiled(void) {
    bool called = access(scratch("calls"), F_OK) == 0;
    unlink(scratch("calls"));
    return called;
}

/* nitro help FILE with up to two more words. */
static const ended *help(const char *file, const char *more, const char *still_more) {
    char path[SCRATCH_PATH];
    snprintf(path, sizeof path, "%s", scratch(file));
    return more ? still_more ? nitro("help", path, more, still_more) : nitro("help", path, more) : nitro("help", path);
}

static void builds(const char *file, const char *more, bool anew, const char *shown) {
    const ended *e = help(file, more, NULL);
    assert_string_equal(e->err, "");
    assert_int_equal(e->code, 0);
    assert_has(e->out, shown);
    assert_int_equal(compiled(), anew);
}

/* ... because what was kept of it is no longer what was compiled. */
static void builds_with_a_word(const char *file, const char *shown) {
    const ended *e = help(file, NULL, NULL);
    assert_has(e->err, file, "' is compiled again: its compiled form, '", ".so', was changed on disk\n");
    assert_ptr_equal(strchr(e->err, '\n') + 1, e->err + strlen(e->err));
    assert_int_equal(e->code, 0);
    assert_has(e->out, shown);
    assert_true(compiled());
}

static void put_simple(const char *file, const char *name) {
    put_experiment(file, name, "", "");
}

/* ---- when the compiler runs ------------------------------------------------------------------------------------- */

static void the_second_start_compiles_nothing(void **state) {
    (void)state;
    put_simple("a.c", "First");
    builds("a.c", NULL, true, "First (");
    builds("a.c", NULL, false, "First (");
}

static void content_decides_and_not_time(void **state) {
    (void)state;
    put_simple("a.c", "First");
    builds("a.c", NULL, true, "First (");
    put_simple("a.c", "First");
    builds("a.c", NULL, false, "First (");
    put_simple("a.c", "Second");
    builds("a.c", NULL, true, "Second (");
    put_simple("a.c", "First");
    builds("a.c", NULL, false, "First (");
}

/* A header of the user's, found through a flag, in a folder whose name has everything that make must escape. */
static void a_changed_header_compiles_again(void **state) {
    (void)state;
    char flag[SCRATCH_PATH];
    mkdir(scratch("inc #1 $x"), 0777);
    put_text("inc #1 $x/size.h", "#define SIZE 7\n");
    put_experiment("h.c", "Sized", "#include \"size.h\"\n", "FIELD(int, size, SIZE, \"\")");
    snprintf(flag, sizeof flag, "--cflags=-I'%s'", scratch("inc #1 $x"));
    builds("h.c", flag, true, "--size   int   7 ");
    builds("h.c", flag, false, "--size   int   7 ");
    put_text("inc #1 $x/size.h", "#define SIZE 8\n");
    builds("h.c", flag, true, "--size   int   8 ");
    put_text("inc #1 $x/size.h", "#define SIZE 7\n");
    builds("h.c", flag, false, "--size   int   7 ");
}

static void flags_decide(void **state) {
    (void)state;
    put_experiment("f.c", "Flags", "", "FIELD(const char *, text, TEXT, \"\")");
    builds("f.c", "--cflags=-DTEXT='\"a b\"'", true, "\"a b\"");
    builds("f.c", "--cflags=-DTEXT='\"c\"'", true, "\"c\"");
    builds("f.c", "--cflags=-DTEXT='\"a b\"'", false, "\"a b\"");
    builds("f.c", "--cflags=-DTEXT=NULL -O0", true, "NULL");
}

static void the_compiler_decides(void **state) {
    (void)state;
    put_simple("a.c", "First");
    setenv("CC", "gcc", 1);
    assert_int_equal(help("a.c", NULL, NULL)->code, 0);
    setenv("CC", "clang", 1);
    assert_int_equal(help("a.c", NULL, NULL)->code, 0);
    assert_int_equal(scratch_entries(scratch("cache/nitro/experiments")), 4); /* two objects, two lists of files */
    unsetenv("CC");
    assert_int_equal(help("a.c", NULL, NULL)->code, 0);
}

static void a_changed_compiler_compiles_again(void **state) {
    (void)state;
    put_simple("a.c", "First");
    builds("a.c", NULL, true, "First (");
    FILE *file = fopen(scratch("watched-cc"), "a");
    assert_non_null(file);
    fprintf(file, "# another version\n");
    fclose(file);
    builds("a.c", NULL, true, "First (");
}

/* A file that the linker reads counts like one that the compiler reads. */
static void a_changed_library_links_again(void **state) {
    (void)state;
    char flag[2 * SCRATCH_PATH], source[SCRATCH_PATH], object[SCRATCH_PATH];
    snprintf(source, sizeof source, "%s", scratch("helper.c"));
    snprintf(object, sizeof object, "%s", scratch("helper.o"));
    snprintf(flag, sizeof flag, "--ldflags=%s", object);
    put_experiment("l.c", "Linked", "int helper(void);\n", "FIELD(int, size, helper(), \"\")");
    static const char *const versions[] = {"int helper(void) { return 11; }\n", "int helper(void) { return 12; }\n"};
    static const char *const shown[] = {"int   11 ", "int   12 "};
    for (size_t i = 0; i < 2; i++) {
        put_text("helper.c", versions[i]);
        assert_int_equal(run_words((const char *const[]){"cc", "-fPIC", "-c", source, "-o", object, NULL})->code, 0);
        builds("l.c", flag, true, shown[i]);
        builds("l.c", flag, false, shown[i]);
    }
}

/* ---- several files ---------------------------------------------------------------------------------------------- */

static void two_files_make_one_object(void **state) {
    (void)state;
    char second[SCRATCH_PATH];
    put_experiment("main part.c", "Parts", "int other_part(void);\n", "FIELD(int, size, other_part(), \"\")");
    put_text("other.c", "int other_part(void);\nint other_part(void) { return 21; }\n");
    snprintf(second, sizeof second, "%s", scratch("other.c"));
    builds("main part.c", second, true, "int   21 ");
    builds("main part.c", second, false, "int   21 ");
    put_text("other.c", "int other_part(void);\nint other_part(void) { return 22; }\n");
    builds("main part.c", second, true, "int   22 ");

    const ended *e = help("main part.c", NULL, NULL);
    assert_int_equal(e->code, 1);
    assert_has(e->err, "nitro: '", "main part.c' was compiled and cannot be loaded", "undefined symbol: other_part",
               "name every file (nitro COMMAND a.c b.c), and libraries with --ldflags");
}

static void relative_names_belong_to_their_folder(void **state) {
    (void)state;
    char before[SCRATCH_PATH];
    assert_non_null(getcwd(before, sizeof before));
    mkdir(scratch("one"), 0777);
    mkdir(scratch("two"), 0777);
    put_simple("one/same.c", "InOne");
    put_simple("two/same.c", "InTwo");
    static const char *const folders[] = {"one", "two"}, *const shown[] = {"InOne (same.c)", "InTwo (same.c)"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(chdir(scratch(folders[i % 2])), 0);
        const ended *e = nitro("help", "same.c");
        assert_int_equal(chdir(before), 0);
        assert_int_equal(e->code, 0);
        assert_has(e->out, shown[i % 2]);
        assert_int_equal(compiled(), i < 2);
    }
}

/* ---- failures --------------------------------------------------------------------------------------------------- */

static void compile_errors_are_shown_as_they_are(void **state) {
    (void)state;
    put_text("bad.c", "#include <nitro.h>\nint x = undeclared_name;\n");
    put_text("worse.c", "int y = another_name;\n");
    char second[SCRATCH_PATH];
    snprintf(second, sizeof second, "%s", scratch("worse.c"));
    const ended *e = help("bad.c", second, NULL);
    assert_int_equal(e->code, 1);
    assert_string_equal(e->out, "");
    assert_has(e->err, "bad.c:2:", "error:", "undeclared_name", "worse.c:1:", "another_name");
    const char *ours = strstr(e->err, "nitro: compiling '");
    assert_non_null(ours);
    assert_has(ours, "bad.c', '", "worse.c' failed; the messages of '", "watched-cc' are above\n");
    assert_null(strchr(strchr(ours, '\n') + 1, '\n'));
    assert_int_equal(scratch_entries(scratch("cache/nitro/experiments")), 0);
}

static void link_errors_are_shown_as_they_are(void **state) {
    (void)state;
    put_simple("a.c", "First");
    const ended *e = help("a.c", "--ldflags=-lno-such-library-anywhere", NULL);
    assert_int_equal(e->code, 1);
    assert_has(e->err, "no-such-library-anywhere", "nitro: linking failed; the messages of '");
    assert_int_equal(scratch_entries(scratch("cache/nitro/experiments")), 0);
}

static void flags_with_an_open_quote_are_refused(void **state) {
    (void)state;
    put_simple("a.c", "First");
    const ended *e = help("a.c", "--cflags=-DX='a", NULL);
    assert_int_equal(e->code, 1);
    assert_string_equal(e->err, "nitro: --cflags: a quote is opened and never closed in: -DX='a\n");
    assert_false(compiled());
}

static void a_missing_compiler_is_reported(void **state) {
    (void)state;
    char path[SCRATCH_PATH], before[1 << 14];
    snprintf(path, sizeof path, "%s", command_path());
    snprintf(before, sizeof before, "%s", getenv("PATH"));
    put_simple("a.c", "First");
    unsetenv("CC");
    setenv("PATH", scratch("absent"), 1);
    const ended *e = help("a.c", NULL, NULL);
    setenv("PATH", before, 1);
    assert_int_equal(e->code, 1);
    assert_has(e->err, "nitro: no C compiler found: there is no cc, gcc or clang in PATH.", "apt-get install gcc");
    setenv("CC", "no-such-compiler -O2", 1);
    e = help("a.c", NULL, NULL);
    assert_int_equal(e->code, 1);
    assert_has(e->err, "nitro: no C compiler found: the environment variable CC is 'no-such-compiler -O2'",
               "there is no program 'no-such-compiler'");
}

static void a_compiler_that_crashes_is_reported(void **state) {
    (void)state;
    put_simple("a.c", "First");
    put_text("watched-cc", "#!/bin/sh\nkill -9 $$\n");
    const ended *e = help("a.c", NULL, NULL);
    assert_int_equal(e->code, 1);
    assert_has(e->err, "watched-cc' was ended by signal 9");
}

/* Ctrl-C goes to the command and to the compiler; here the command alone is told. */
static void a_signal_during_a_compile_leaves_no_folder(void **state) {
    (void)state;
    static const char *const signals[] = {"INT", "TERM"};
    put_simple("a.c", "First");
    for (size_t i = 0; i < 2; i++) {
        char text[128];
        snprintf(text, sizeof text, "#!/bin/sh\nkill -%s $PPID\nexit 1\n", signals[i]);
        put_text("watched-cc", text);
        const ended *e = help("a.c", NULL, NULL);
        assert_int_equal(e->code, 130);
        assert_has(e->err, "nitro: stopped by a signal while '", "watched-cc' ran\n");
        assert_int_equal(scratch_entries(scratch("cache/nitro/experiments")), 0);
    }
}

/* A file that is saved during every compile has no content that an object could be named by. */
static void files_that_never_rest_are_reported(void **state) {
    (void)state;
    char text[4 * SCRATCH_PATH];
    put_simple("a.c", "First");
    snprintf(text, sizeof text, "#!/bin/sh\ncc \"$@\"\ncode=$?\necho '// more' >>'%s'\nexit $code\n", scratch("a.c"));
    put_text("watched-cc", text);
    const ended *e = help("a.c", NULL, NULL);
    assert_int_equal(e->code, 1);
    assert_has(e->err, "a.c' changed during each of 5 compiles");
    assert_int_equal(scratch_entries(scratch("cache/nitro/experiments")), 0);
}

/* ... and one that is saved during the first is compiled once more. */
static void a_file_saved_during_a_compile_is_compiled_again(void **state) {
    (void)state;
    char text[8 * SCRATCH_PATH], second[SCRATCH_PATH];
    put_simple("second.c", "Second");
    put_simple("a.c", "First");
    snprintf(second, sizeof second, "%s", scratch("second.c"));
    snprintf(text, sizeof text, "#!/bin/sh\ncc \"$@\"\ncode=$?\n[ -f '%s' ] && mv '%s' '%s'\nexit $code\n", second,
             second, scratch("a.c"));
    put_text("watched-cc", text);
    const ended *e = help("a.c", NULL, NULL);
    assert_int_equal(e->code, 0);
    assert_has(e->out, "Second (");
}

/* One that was saved a moment before, in the same tick of the clock that stamps files, was not: it is compiled once. */
static void a_file_saved_just_before_is_compiled_once(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        char text[64];
        snprintf(text, sizeof text, "static int unused%d(void) { return 0; }\n", i);
        put_text("a.c", text);
        const ended *e = help("a.c", NULL, NULL);
        const char *first = strstr(e->err, "[-Wunused-function]");
        assert_non_null(first);
        assert_null(strstr(first + 1, "[-Wunused-function]"));
    }
}

/* ---- the cache -------------------------------------------------------------------------------------------------- */

/* Calls `act` for the path of each entry that ends so. */
static int each_ending(const char *folder, const char *ending, void (*act)(const char *path)) {
    int count = 0;
    struct dirent *entry;
    DIR *opened = opendir(folder);
    assert_non_null(opened);
    while ((entry = readdir(opened))) {
        char path[2 * SCRATCH_PATH];
        size_t length = strlen(entry->d_name), wanted = strlen(ending);
        if (length < wanted || strcmp(entry->d_name + length - wanted, ending) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        act(path);
        count++;
    }
    closedir(opened);
    return count;
}

static void damage(const char *path) {
    assert_int_equal(truncate(path, 100), 0);
}

/* Leaves the headers whole: dlopen would map what is not there, and the first touch of it would end the process. */
static void halve(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size / 2), 0);
}

static void drop_last_byte(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 1), 0);
}

static void make_old(const char *path) {
    struct timespec times[2] = {{.tv_sec = time(NULL) - 40 * 24 * 3600}, {.tv_sec = time(NULL) - 40 * 24 * 3600}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void a_damaged_object_is_compiled_again(void **state) {
    (void)state;
    put_simple("a.c", "First");
    builds("a.c", NULL, true, "First (");
    assert_int_equal(each_ending(scratch("cache/nitro/experiments"), ".so", damage), 1);
    builds_with_a_word("a.c", "First (");
    builds("a.c", NULL, false, "First (");
    assert_int_equal(each_ending(scratch("cache/nitro/experiments"), ".so", halve), 1);
    builds_with_a_word("a.c", "First (");
    assert_int_equal(each_ending(scratch("cache/nitro/experiments"), ".so", drop_last_byte), 1);
    builds_with_a_word("a.c", "First (");
    assert_int_equal(each_ending(scratch("cache/nitro/experiments"), ".files", damage), 1);
    builds("a.c", NULL, true, "First (");
}

static long flip_tenths; /* where, from the start */
static void flip(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    long at = flip_tenths < 10 ? info.st_size * flip_tenths / 10 : info.st_size - 1;
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 0x41, file), byte ^ 0x41);
    assert_int_equal(fclose(file), 0);
}

/* A changed byte anywhere, the hash after the object among them, is seen before the code is loaded. */
static void a_changed_object_is_compiled_again(void **state) {
    (void)state;
    put_simple("a.c", "First");
    builds("a.c", NULL, true, "First (");
    for (flip_tenths = 0; flip_tenths <= 10; flip_tenths += 2) {
        assert_int_equal(each_ending(scratch("cache/nitro/experiments"), ".so", flip), 1);
        builds_with_a_word("a.c", "First (");
    }
    builds("a.c", NULL, false, "First (");
}

static void become_a_pipe(const char *path) {
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void become_a_device(const char *path) {
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/zero", path), 0);
}

static void become_a_folder(const char *path) {
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
}

/* Reading a pipe or a device would have no end. Something that is no object in an object's place is replaced. */
static void what_is_no_file_is_replaced(void **state) {
    (void)state;
    static void (*const acts[])(const char *path) = {become_a_pipe, become_a_device, become_a_folder};
    put_simple("a.c", "First");
    builds("a.c", NULL, true, "First (");
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        assert_int_equal(each_ending(scratch("cache/nitro/experiments"), ".so", acts[i]), 1);
        builds_with_a_word("a.c", "First (");
        builds("a.c", NULL, false, "First (");
        assert_int_equal(each_ending(scratch("cache/nitro/experiments"), ".files", acts[i]), 1);
        builds("a.c", NULL, true, "First (");
        builds("a.c", NULL, false, "First (");
    }
}

/* A source that became a pipe is no reason to wait for what comes out of it. */
static void a_source_that_is_no_file_is_refused(void **state) {
    (void)state;
    put_simple("pipe.c", "First");
    builds("pipe.c", NULL, true, "First (");
    become_a_pipe(scratch("pipe.c"));
    const ended *e = help("pipe.c", NULL, NULL);
    assert_int_equal(e->code, 2);
    assert_has(e->err, "pipe.c' is a pipe or a device; name the C source file");
    assert_false(compiled());
    assert_int_equal(unlink(scratch("pipe.c")), 0);
}

static void old_objects_are_deleted_when_a_new_one_is_made(void **state) {
    (void)state;
    char folder[SCRATCH_PATH];
    snprintf(folder, sizeof folder, "%s", scratch("cache/nitro/experiments"));
    put_simple("a.c", "First");
    put_simple("b.c", "Second");
    put_simple("c.c", "Third");
    builds("a.c", NULL, true, "First (");
    builds("b.c", NULL, true, "Second (");
    assert_int_equal(each_ending(folder, "", make_old), 6); /* with the two dots */
    builds("b.c", NULL, false, "Second (");
    builds("c.c", NULL, true, "Third (");
    /* The object that was used today is left, and the new one with its list. */
    assert_int_equal(each_ending(folder, ".so", make_old), 2);
    builds("b.c", NULL, true, "Second (");
}

static void make_aged(const char *path, int seconds) {
    struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* A process that has ended. */
static long ended_process(void) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return child;
}

/* What killed builds left is deleted when the next one starts; what another process is at work on is not. */
static void what_killed_builds_left_is_deleted(void **state) {
    (void)state;
    const struct {
        const char *before, *after; /* the number of the process */
        bool of_this_process;
        int age; /* seconds */
        bool stays;
    } rows[] = {
        {"build-", "-AbCdEf", false, 700, false},        {"build-", "-AbCdEg", false, 300, true},
        {"build-", "-AbCdEh", true, 700, true},          {"build-", "-AbCdEi", true, 25 * 3600, false},
        {"0123abcd.so.", "-1-2.tmp", false, 700, false}, {"0123abcd.so.", "-3-4.tmp", true, 700, true},
        {"0123.files.", "-1-2.tmp", false, 700, false},  {"0123.files.", "-3-4.tmp", true, 25 * 3600, false},
        {"build-XyZ", "", true, 25 * 3600, false},       {"build-XyY", "", true, 700, true},
    };
    enum { ROWS = sizeof rows / sizeof *rows };
    char names[ROWS][SCRATCH_PATH];
    long gone = ended_process();
    put_simple("a.c", "First");
    builds("a.c", NULL, true, "First (");
    for (size_t i = 0; i < ROWS; i++) {
        char name[128];
        snprintf(name, sizeof name, "cache/nitro/experiments/%s%ld%s", rows[i].before,
                 rows[i].of_this_process ? (long)getpid() : gone, rows[i].after);
        snprintf(names[i], sizeof names[i], "%s", scratch(name));
        if (strstr(name, ".tmp")) {
            scratch_put(name, "half", 4);
        } else {
            assert_int_equal(mkdir(names[i], 0700), 0);
            strcat(name, "/0.o");
            scratch_put(name, "half", 4);
        }
        make_aged(names[i], rows[i].age);
    }
    builds("a.c", NULL, false, "First (");
    assert_int_equal(access(names[0], F_OK), 0); /* nothing is compiled, and nothing looked at */
    put_simple("b.c", "Second");
    builds("b.c", NULL, true, "Second (");
    for (size_t i = 0; i < ROWS; i++)
        if ((access(names[i], F_OK) == 0) != rows[i].stays) fail_msg("%s", names[i]);
}

static void without_a_cache_folder_a_temporary_one_serves(void **state) {
    (void)state;
    mkdir(scratch("tmp"), 0777);
    put_simple("a.c", "First");
    setenv("TMPDIR", scratch("tmp"), 1);
    setenv("XDG_CACHE_HOME", scratch("a-file"), 1);
    builds("a.c", NULL, true, "First (");
    builds("a.c", NULL, true, "First (");
    assert_int_equal(scratch_entries(scratch("tmp")), 0);
    setenv("TMPDIR", scratch("absent"), 1);
    const ended *e = help("a.c", NULL, NULL);
    assert_int_equal(e->code, 1);
    assert_has(e->err, "nitro: there is no folder to compile in: '", "absent");
}

/* A shared object of somebody else's would run as this user. */
static void a_folder_that_others_may_write_into_is_not_used(void **state) {
    (void)state;
    mkdir(scratch("tmp"), 0777);
    put_simple("a.c", "First");
    setenv("TMPDIR", scratch("tmp"), 1);
    builds("a.c", NULL, true, "First (");
    struct stat info;
    assert_int_equal(stat(scratch("cache/nitro/experiments"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_int_equal(chmod(scratch("cache/nitro/experiments"), 0777), 0);
    for (int i = 0; i < 2; i++) {
        char wanted[4 * SCRATCH_PATH];
        const char *folder = scratch("cache/nitro/experiments");
        snprintf(
            wanted, sizeof wanted,
            "compiled experiments are not kept: others may write into the folder '%s' (mode 777), so what is in it may "
            "be "
            "of their making: delete it with all that it holds, and it is made anew (chmod would keep what they put "
            "there). They are compiled in a temporary folder each time\n",
            folder);
        const ended *e = help("a.c", NULL, NULL);
        assert_int_equal(e->code, 0);
        assert_string_equal(e->err, wanted);
        assert_has(e->out, "First (");
        assert_true(compiled());
    }
    assert_int_equal(scratch_entries(scratch("tmp")), 0);
    assert_int_equal(scratch_entries(scratch("cache/nitro/experiments")), 2);
    assert_int_equal(chmod(scratch("cache/nitro/experiments"), 0755), 0);
    builds("a.c", NULL, false, "First (");
}

static void the_home_folder_is_the_second_choice(void **state) {
    (void)state;
    static const char *const useless[] = {"relative", "",
                                          NULL}; /* the rule for this variable asks for absolute paths */
    mkdir(scratch("home"), 0777);
    setenv("HOME", scratch("home"), 1);
    put_simple("a.c", "First");
    for (size_t i = 0; i < 3; i++) {
        if (useless[i])
            setenv("XDG_CACHE_HOME", useless[i], 1);
        else
            unsetenv("XDG_CACHE_HOME");
        builds("a.c", NULL, i == 0, "First (");
    }
    assert_int_equal(scratch_entries(scratch("home/.cache/nitro/experiments")), 2);
}

static void processes_may_build_the_same_at_once(void **state) {
    (void)state;
    char line[4 * SCRATCH_PATH];
    put_simple("a.c", "First");
    snprintf(line, sizeof line,
             "for i in 1 2 3 4; do '%s' help '%s' >'%s/out.'$i & all=\"$all $!\"; done\n"
             "for one in $all; do wait $one || exit 1; done",
             command_path(), scratch("a.c"), scratch_folder);
    const ended *e = run_words((const char *const[]){"/bin/sh", "-c", line, NULL});
    assert_string_equal(e->err, "");
    assert_int_equal(e->code, 0);
    assert_int_equal(scratch_entries(scratch("cache/nitro/experiments")), 2);
    char out[MOST_OUTPUT];
    static const char *const names[] = {"out.1", "out.2", "out.3", "out.4"};
    for (size_t i = 0; i < 4; i++) {
        read_output(names[i], out);
        assert_has(out, "First (");
    }
}

/* ---- inside this process ---------------------------------------------------------------------------------------- */

/* A compiler that writes what the real one wrote once: it is quick, so every allocation of a build can be refused. */
static void put_quick_compiler(const char *object, const char *source) {
    char text[4 * SCRATCH_PATH];
    snprintf(text, sizeof text,
             "#!/bin/sh\n"
             "while [ $# -gt 0 ]; do\n"
             "    case $1 in -MF) list=$2 ;; -o) out=$2 ;; esac\n"
             "    shift\n"
             "done\n"
             "[ -z \"$list\" ] || echo 'object: %s' >\"$list\"\n"
             "cp '%s' \"$out\"\n",
             source, object);
    put_text("watched-cc", text);
}

static void every_refused_allocation_is_survived(void **state) {
    (void)state;
    char source[SCRATCH_PATH], object[SCRATCH_PATH];
    snprintf(source, sizeof source, "%s", scratch("plain.c"));
    snprintf(object, sizeof object, "%s", scratch("plain.so"));
    put_text("plain.c", "int plain = 1;\n");
    assert_int_equal(run_words((const char *const[]){"cc", "-shared", "-fPIC", source, "-o", object, NULL})->code, 0);
    put_quick_compiler(object, source);
    const char *const files[] = {source};
    const nt__build_request request = {.files = files, .file_count = 1, .cflags = "-O1 -g"};
    size_t live = nt__memory().live, refused = 0;
    for (int warm = 0; warm < 2; warm++) {
        size_t n = 0, made;
        do {
            nt__built built;
            if (!warm) scratch_remove_path(scratch("cache"));
            size_t before = nt__memory().total;
            nt__memory_fail_at(++n);
            nt_status status = nt__build(&request, &built);
            nt__memory_fail_at(0);
            made = nt__memory().total - before;
            assert_true(status == NT_OK || (status == NT_OUT_OF_MEMORY && n <= made));
            assert_int_equal(built.object != NULL, status == NT_OK);
            refused += status != NT_OK;
            nt__built_free(&built);
            assert_int_equal(nt__memory().live, live);
        } while (n <= made);
    }
    assert_true(refused > 50);
}

/* An object whose contents were loaded before is another copy all the same, unless it is the one that the
 * caller has. */
static void what_is_loaded_is_loaded_again_on_demand(void **state) {
    (void)state;
    char source[SCRATCH_PATH];
    snprintf(source, sizeof source, "%s", scratch("again.c"));
    const char *const files[] = {source};
    nt__build_request request = {.files = files, .file_count = 1};
    nt__built first, second, third;
    put_text("again.c", "int again = 1;\n");
    assert_int_equal(nt__build(&request, &first), NT_OK);
    assert_true(first.loaded && first.compile_seconds > 0 && first.load_seconds > 0);
    assert_int_equal(first.files.count > 0, 1);
    assert_string_equal(first.files.items[0], source);
    request.loaded = first.object;
    assert_int_equal(nt__build(&request, &second), NT_OK);
    assert_false(second.loaded);
    assert_true(second.compile_seconds == 0 && second.load_seconds == 0);
    request.loaded = NULL;
    assert_int_equal(nt__build(&request, &third), NT_OK);
    assert_true(third.loaded && third.compile_seconds == 0);
    assert_string_equal(third.object, first.object);
    nt__built_free(&first);
    nt__built_free(&second);
    nt__built_free(&third);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_second_start_compiles_nothing, start),
        cmocka_unit_test_setup(content_decides_and_not_time, start),
        cmocka_unit_test_setup(a_changed_header_compiles_again, start),
        cmocka_unit_test_setup(flags_decide, start),
        cmocka_unit_test_setup(the_compiler_decides, start),
        cmocka_unit_test_setup(a_changed_compiler_compiles_again, start),
        cmocka_unit_test_setup(a_changed_library_links_again, start),
        cmocka_unit_test_setup(two_files_make_one_object, start),
        cmocka_unit_test_setup(relative_names_belong_to_their_folder, start),
        cmocka_unit_test_setup(compile_errors_are_shown_as_they_are, start),
        cmocka_unit_test_setup(link_errors_are_shown_as_they_are, start),
        cmocka_unit_test_setup(flags_with_an_open_quote_are_refused, start),
        cmocka_unit_test_setup(a_missing_compiler_is_reported, start),
        cmocka_unit_test_setup(a_compiler_that_crashes_is_reported, start),
        cmocka_unit_test_setup(a_signal_during_a_compile_leaves_no_folder, start),
        cmocka_unit_test_setup(files_that_never_rest_are_reported, start),
        cmocka_unit_test_setup(a_file_saved_during_a_compile_is_compiled_again, start),
        cmocka_unit_test_setup(a_file_saved_just_before_is_compiled_once, start),
        cmocka_unit_test_setup(a_damaged_object_is_compiled_again, start),
        cmocka_unit_test_setup(a_changed_object_is_compiled_again, start),
        cmocka_unit_test_setup(what_is_no_file_is_replaced, start),
        cmocka_unit_test_setup(a_source_that_is_no_file_is_refused, start),
        cmocka_unit_test_setup(old_objects_are_deleted_when_a_new_one_is_made, start),
        cmocka_unit_test_setup(what_killed_builds_left_is_deleted, start),
        cmocka_unit_test_setup(without_a_cache_folder_a_temporary_one_serves, start),
        cmocka_unit_test_setup(a_folder_that_others_may_write_into_is_not_used, start),
        cmocka_unit_test_setup(the_home_folder_is_the_second_choice, start),
        cmocka_unit_test_setup(processes_may_build_the_same_at_once, start),
        cmocka_unit_test_setup(what_is_loaded_is_loaded_again_on_demand, start),
        cmocka_unit_test_setup(every_refused_allocation_is_survived, start),
    };
    return cmocka_run_group_tests_name("build", tests, command_make, scratch_remove);
}
