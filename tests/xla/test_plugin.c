/* Finding and loading a plugin: every way in which there is none, or not a usable one, and which of several is taken.
 * Plugins that fail are built here; each fails before anything of it stays in the process, so only the last test, which
 * succeeds, loads one for good. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <dlfcn.h>
#include <limits.h>

#include <cmocka.h>

#include "../base/scratch.h"
#include "engine.h"

static char real_plugin[SCRATCH_PATH];

/* ---- plugins made for the purpose ------------------------------------------------------------------------------- */

/* The head of a plugin's table, as it is laid out in every version so far. What is not defined by a -D is sane, but for
 * the initialisation, which fails with a text that holds the minor version. */
static const char source[] =
    "#include <stddef.h>\n"
    "#ifndef MAJOR\n#define MAJOR 0\n#endif\n"
    "#ifndef MINOR\n#define MINOR 81\n#endif\n"
    "#ifndef SIZE\n#define SIZE sizeof table\n#endif\n"
    "#ifndef READ_ERROR\n#define READ_ERROR message\n#endif\n"
    "#ifndef INITIALISE\n#define INITIALISE initialise\n#endif\n"
    "#ifndef TABLE\n#define TABLE &table\n#endif\n"
    "#define TEXT_(x) #x\n"
    "#define TEXT(x) TEXT_(x)\n"
    "struct arguments { size_t size; void *next; void *error; const char *text; size_t length; };\n"
    "static void *destroy(struct arguments *a) { (void)a; return NULL; }\n"
    "static void *message(struct arguments *a) {\n"
    "    a->text = \"stubborn \" TEXT(MINOR); a->length = sizeof \"stubborn \" TEXT(MINOR) - 1; return NULL; }\n"
    "static void *code(struct arguments *a) { *(int *)&a->text = 13; return NULL; }\n"
    "static int error;\n"
    "static void *initialise(struct arguments *a) { (void)a; return &error; }\n"
    "static struct { size_t size; void *next; size_t version_size; void *version_next; int major, minor;\n"
    "    void *(*slots[8])(struct arguments *); } table = {\n"
    "    0, NULL, 24, NULL, MAJOR, MINOR, {destroy, READ_ERROR, code, INITIALISE}};\n"
    "void *GetPjrtApi(void); void *GetPjrtApi(void) { table.size = SIZE; return TABLE; }\n";

/* Builds the plugin scratch(name) with the C compiler. */
static void build_plugin(const char *name, const char *definitions) {
    char command[4 * SCRATCH_PATH];
    scratch_put("plugin.c", source, sizeof source - 1);
    snprintf(command, sizeof command, "cc -shared -fPIC -w %s -o '%s' '%s'", definitions, scratch(name),
             scratch("plugin.c"));
    assert_int_equal(system(command), 0);
}

static void put_text(const char *name, const char *text) {
    scratch_put(name, text, strlen(text));
}

static void make_folder(const char *name) {
    assert_int_equal(mkdir(scratch(name), 0700), 0);
}

/* ---- where to look ---------------------------------------------------------------------------------------------- */

static void use_file(const char *path) {
    setenv("NITRO_PLUGIN", path, 1);
}

static void use_folders(const char *folders) {
    unsetenv("NITRO_PLUGIN");
    setenv("NITRO_PLUGIN_PATH", folders, 1);
}

static int remember_the_real_plugin(void **state) {
    const char *path = getenv("NITRO_PLUGIN");
    if (!path || !*path) return -1;
    snprintf(real_plugin, sizeof real_plugin, "%s", path);
    unsetenv("TF_CPP_MIN_LOG_LEVEL");
    return scratch_make(state);
}

static int clean_up(void **state) {
    scratch_remove(state);
    return close_engine(state);
}

#define assert_no_engine(status, ...)                                      \
    do {                                                                   \
        assert_failed(nt__engine_open(1, &engine), (status), __VA_ARGS__); \
        assert_null(engine);                                               \
    } while (0)

/* ---- one file --------------------------------------------------------------------------------------------------- */

static void a_missing_file(void **state) {
    (void)state;
    use_file(scratch("nowhere.so"));
    assert_no_engine(NT_NOT_FOUND, scratch("nowhere.so"), "no such file", "make setup", "NITRO_PLUGIN=");
}

static void a_folder(void **state) {
    (void)state;
    use_file(scratch_folder);
    assert_no_engine(NT_INVALID, scratch_folder, "is a folder", "NITRO_PLUGIN_PATH");
}

static void not_a_shared_object(void **state) {
    (void)state;
    put_text("text.so", "this is text, and long enough to be read as the head of a shared object if it were one\n");
    use_file(scratch("text.so"));
    assert_no_engine(NT_INVALID, scratch("text.so"), "cannot be loaded as a shared object", "make setup");
}

/* The first touch of what is missing would end the process. */
static void a_plugin_that_is_cut_short(void **state) {
    (void)state;
    struct stat info;
    build_plugin("cut.so", "");
    assert_int_equal(stat(scratch("cut.so"), &info), 0);
    use_file(scratch("cut.so"));
    for (off_t length = info.st_size - 1; length > 64; length -= 1000) {
        assert_int_equal(truncate(scratch("cut.so"), length), 0);
        assert_no_engine(NT_INVALID, scratch("cut.so"), "cannot be loaded as a shared object", "it is cut short",
                         "make setup");
    }
    assert_int_equal(truncate(scratch("cut.so"), 0), 0);
    assert_no_engine(NT_INVALID, "the file has 0 bytes");
}

/* The real one's headers, in a file that ends after them. */
static void the_real_plugin_cut_short(void **state) {
    (void)state;
    char head[4096];
    FILE *file = fopen(real_plugin, "rb");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    fclose(file);
    scratch_put("head.so", head, sizeof head);
    use_file(scratch("head.so"));
    assert_no_engine(NT_INVALID, scratch("head.so"), "the file has 4096 bytes", "it is cut short");
    assert_int_equal(truncate(scratch("head.so"), 100 << 20), 0); /* the rest is a hole */
    assert_no_engine(NT_INVALID, scratch("head.so"), "the file has 104857600 bytes", "it is cut short");
}

/* A whole one is chosen, whatever a file beside the other one says. */
static void a_cut_one_among_several(void **state) {
    (void)state;
    make_folder("cut");
    build_plugin("cut/a.so", "-DMINOR=90");
    put_text("cut/a.so.api", "0 99\n");
    assert_int_equal(truncate(scratch("cut/a.so"), 2000), 0);
    build_plugin("cut/b.so", "-DMINOR=80");
    use_folders(scratch("cut"));
    assert_no_engine(NT_ENGINE, scratch("cut/b.so"), "stubborn 80");
}

static void a_shared_object_of_another_kind(void **state) {
    (void)state;
    Dl_info info;
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "_cmocka_run_group_tests"), &info), 0);
    char file[PATH_MAX];
    use_file(info.dli_fname);
    assert_no_engine(NT_IO, info.dli_fname, "is a link, which is not followed here");
    assert_non_null(realpath(info.dli_fname, file));
    use_file(file);
    assert_no_engine(NT_INVALID, file, "is a shared object but no PJRT plugin", "GetPjrtApi", "make setup");
}

static void an_overlong_path(void **state) {
    (void)state;
    char path[5001];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = 0;
    use_file(path);
    assert_no_engine(NT_INVALID, "5000 bytes", "4095");
}

static void tables_that_cannot_be_used(void **state) {
    (void)state;
    static const struct {
        const char *definitions;
        const char *message;
    } rows[] = {
        {"-DMAJOR=9 -DMINOR=5", "has PJRT API 9.5, nitro was built for major version 0"},
        {"-DTABLE=NULL", "GetPjrtApi gave no table"},
        {"-DSIZE=40", "its table has 40 bytes, at least 64 are needed"},
        {"-DREAD_ERROR=NULL", "has no slots to read errors with"},
        {"-DINITIALISE=NULL", "(PJRT API 0.81) has no PJRT_Plugin_Initialize"},
        {"-DSIZE=64", "(PJRT API 0.81) has no PJRT_Plugin_Initialize"},
        {"", "initialising the plugin"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char name[32];
        snprintf(name, sizeof name, "table-%zu.so", i); /* a file of its own: a loaded one stays */
        build_plugin(name, rows[i].definitions);
        use_file(scratch(name));
        assert_no_engine(NT_ENGINE, scratch(name), rows[i].message);
    }
    assert_non_null(strstr(nt_error_message(), "engine error 13 (internal): stubborn 81"));
    assert_string_equal(nt__engine_last_text(), "stubborn 81");
}

/* dlopen would look for it in the system's folders. */
static void a_name_without_a_folder(void **state) {
    (void)state;
    char before[SCRATCH_PATH];
    assert_non_null(getcwd(before, sizeof before));
    build_plugin("here.so", "-DMINOR=82");
    assert_int_equal(chdir(scratch_folder), 0);
    use_file("here.so");
    assert_no_engine(NT_ENGINE, "./here.so", "stubborn 82");
    assert_int_equal(chdir(before), 0);
}

/* ---- folders ---------------------------------------------------------------------------------------------------- */

static void no_plugin_at_all(void **state) {
    (void)state;
    char folders[2 * SCRATCH_PATH];
    make_folder("empty");
    snprintf(folders, sizeof folders, "%s::%s", scratch("empty"), scratch("nowhere"));
    use_folders(folders);
    assert_no_engine(NT_NOT_FOUND, "no plugin found", folders, "make setup", "pip", "NITRO_PLUGIN=/path/to/plugin.so");
    put_text("empty/plugin.so.txt", "");
    put_text("empty/.so", "");
    assert_no_engine(NT_NOT_FOUND, "no .so file in");
}

/* The reason is that of the file itself, not that there is none. */
static void a_single_bad_one(void **state) {
    (void)state;
    make_folder("single");
    build_plugin("single/old.so", "-DMAJOR=3");
    use_folders(scratch("single"));
    assert_no_engine(NT_ENGINE, scratch("single/old.so"), "has PJRT API 3.81");
}

static void several_bad_ones(void **state) {
    (void)state;
    make_folder("bad");
    put_text("bad/a.so", "text");
    put_text("bad/b.so", "text");
    use_folders(scratch("bad"));
    assert_no_engine(NT_NOT_FOUND, "none of the 2 .so files in", scratch("bad"), "cannot be loaded");
}

/* Without files beside them the plugins are asked; what is none of this major version does not count. */
static void the_newest_that_can_be_used(void **state) {
    (void)state;
    char folders[2 * SCRATCH_PATH];
    make_folder("left");
    make_folder("right");
    build_plugin("left/a.so", "-DMINOR=90");
    build_plugin("left/b.so", "-DMAJOR=1 -DMINOR=200");
    put_text("left/c.so", "text");
    build_plugin("right/a.so", "-DMINOR=101");
    build_plugin("right/b.so", "-DMINOR=99");
    snprintf(folders, sizeof folders, "%s:%s", scratch("left"), scratch("right"));
    use_folders(folders);
    assert_no_engine(NT_ENGINE, scratch("right/a.so"), "stubborn 101");
}

static void the_first_of_equals(void **state) {
    (void)state;
    make_folder("equal");
    build_plugin("equal/b.so", "-DMINOR=90");
    build_plugin("equal/a.so", "-DMINOR=90");
    build_plugin("equal/c.so", "-DMINOR=90");
    use_folders(scratch("equal"));
    assert_no_engine(NT_ENGINE, scratch("equal/a.so"), "stubborn 90");
}

/* A file beside a plugin is believed, so that the plugin need not be loaded: 90 would win if it were asked. */
static void versions_beside_plugins(void **state) {
    (void)state;
    make_folder("beside");
    build_plugin("beside/a.so", "-DMINOR=90");
    put_text("beside/a.so.api", "0 70\n");
    build_plugin("beside/b.so", "-DMINOR=80");
    put_text("beside/b.so.api", "0 80\n");
    put_text("beside/c.so", "text");
    put_text("beside/c.so.api", "1 95\n");
    use_folders(scratch("beside"));
    assert_no_engine(NT_ENGINE, scratch("beside/b.so"), "stubborn 80");
    put_text("beside/a.so.api", "nonsense");
    assert_no_engine(NT_ENGINE, scratch("beside/a.so"), "stubborn 90");
}

static void survives_failing_allocations(void **state) {
    (void)state;
    size_t failures = 0;
    use_folders(scratch("beside"));
    for (bool failed = true; failed; failures += failed) {
        size_t live = nt__memory().live;
        nt__memory_fail_at(failures + 1);
        nt_status status = nt__engine_open(1, &engine);
        nt__memory_fail_at(0);
        failed = status == NT_OUT_OF_MEMORY;
        assert_true(nt__memory().live <= live);
    }
    assert_true(failures > 0);
}

/* ---- success ---------------------------------------------------------------------------------------------------- */

/* A second name where it can have one; a link would not be loaded. */
static void put_real_plugin(const char *name) {
    char command[3 * SCRATCH_PATH];
    if (link(real_plugin, scratch(name)) == 0) return;
    snprintf(command, sizeof command, "cp '%s' '%s'", real_plugin, scratch(name));
    assert_int_equal(system(command), 0);
}

static nt_status keep_warning(const char *message, void *kept) {
    snprintf(kept, 1024, "%s", message);
    return NT_OK;
}

static void the_real_one_among_others(void **state) {
    (void)state;
    make_folder("real");
    put_text("real/a.so", "text");
    put_text("real/a.so.api", "0 2");
    put_real_plugin("real/b.so");
    put_text("real/b.so.api", "0 4");
    put_real_plugin("real/c.so");
    assert_int_equal(symlink(real_plugin, scratch("real/link.so")), 0); /* is not followed */
    put_text("real/link.so.api", "0 9");
    put_text("real/c.so.api", "0 3");
    put_text("real/open.so", "of anybody's making");
    put_text("real/open.so.api", "0 99");
    assert_int_equal(chmod(scratch("real/open.so"), 0666), 0);
    use_folders(scratch("real"));
    char warned[1024] = "";
    nt_set_warning(keep_warning, warned);
    assert_ok(nt__engine_open(1, &engine));
    nt_set_warning(NULL, NULL);
    assert_non_null(strstr(warned, "a plugin is passed over: others may write to '"));
    assert_non_null(strstr(warned, "real/open.so' (mode 666)"));
    assert_string_equal(nt__engine_facts_of(engine)->plugin_path, scratch("real/b.so"));
    assert_true(nt__engine_facts_of(engine)->api_minor >= 81);
    assert_string_equal(getenv("TF_CPP_MIN_LOG_LEVEL"), "2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_file),
        cmocka_unit_test(a_folder),
        cmocka_unit_test(not_a_shared_object),
        cmocka_unit_test(a_plugin_that_is_cut_short),
        cmocka_unit_test(the_real_plugin_cut_short),
        cmocka_unit_test(a_cut_one_among_several),
        cmocka_unit_test(a_shared_object_of_another_kind),
        cmocka_unit_test(an_overlong_path),
        cmocka_unit_test(tables_that_cannot_be_used),
        cmocka_unit_test(a_name_without_a_folder),
        cmocka_unit_test(no_plugin_at_all),
        cmocka_unit_test(a_single_bad_one),
        cmocka_unit_test(several_bad_ones),
        cmocka_unit_test(the_newest_that_can_be_used),
        cmocka_unit_test(the_first_of_equals),
        cmocka_unit_test(versions_beside_plugins),
        cmocka_unit_test(survives_failing_allocations),
        cmocka_unit_test(the_real_one_among_others),
    };
    return cmocka_run_group_tests_name("plugin", tests, remember_the_real_plugin, clean_up);
}
