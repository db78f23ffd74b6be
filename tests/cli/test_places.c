/* The command among files of others and of other kinds: what it would load and who could have written it, file systems
 * without execution, links and pipes in the place of what it reads and writes. Nothing waits for ever.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>

#include "build/build.h"
#include "base/files.h"
#include "command.h"

enum { STRANGER = 12345, PATIENCE = 60 }; /* seconds, also under a load */

/* An experiment that trains in a moment. */
static const char small[] =
    "#include <nitro.h>\n"
    "#define SMALL(FIELD, DEVICE, GRAPH_CONST) FIELD(int, batch, 8, \"rows\") FIELD(int, max_epochs, 1, \"passes\")\n"
    "NT_EXPERIMENT(Small, SMALL)\n"
    "static nt_status build_data(const Small *e, nt_data *data) {\n"
    "    nt_array *x = nt_array_new(NT_F32, nt_dims(16, 2));\n"
    "    nt_split(data, \"train\", .batch = e->batch);\n"
    "    nt_split_field(data, \"train\", \"x\", x);\n"
    "    return nt_data_status(data);\n"
    "}\n"
    "static nt_tensor forward(const Small_view *e, nt_model *m, nt_batch *b) {\n"
    "    return nt_dense(m, \"out\", nt_field(b, \"x\"), 1);\n"
    "}\n"
    "static nt_tensor loss(const Small_view *e, nt_tensor o, nt_batch *b) { return nt_mean(nt_square(o)); }\n"
    "NT_DEFINE(Small, SMALL, .build_data = build_data, .forward = forward, .loss = loss);\n";

/* No other place for compiled experiments than the scratch folder's. */
static int start(void **state) {
    (void)state;
    umask(022);
    scratch_remove_path(scratch("own"));
    scratch_remove_path(scratch("cache"));
    scratch_remove_path(scratch("run"));
    setenv("XDG_CACHE_HOME", scratch("cache"), 1);
    unsetenv("NITRO_CACHE_DIR");
    unsetenv("TMPDIR");
    put_experiment("a.c", "First", "", "");
    put_text("small.c", small);
    return mkdir(scratch("run"), 0755);
}

static const ended *help(void) {
    return nitro("help", scratch("a.c"));
}

/* ---- what is loaded --------------------------------------------------------------------------------------------- */

static size_t each_object(void (*act)(const char *path)) {
    const struct dirent *entry;
    size_t count = 0;
    DIR *folder = opendir(scratch("cache/nitro/experiments"));
    assert_non_null(folder);
    while ((entry = readdir(folder))) {
        char path[2 * SCRATCH_PATH];
        if (!strstr(entry->d_name, ".so")) continue;
        snprintf(path, sizeof path, "%s/%s", scratch("cache/nitro/experiments"), entry->d_name);
        act(path);
        count++;
    }
    closedir(folder);
    return count;
}

static void open_to_others(const char *path) {
    assert_int_equal(chmod(path, 0666), 0);
}

static void give_away(const char *path) {
    assert_int_equal(chown(path, STRANGER, STRANGER), 0);
}

static void an_object_that_others_could_have_written_is_compiled_again(void **state) {
    (void)state;
    static void (*const acts[])(const char *path) = {open_to_others, give_away};
    assert_int_equal(help()->code, 0);
    for (size_t i = 0; i < (geteuid() == 0 ? 2 : 1); i++) {
        assert_int_equal(each_object(acts[i]), 1);
        const ended *e = help();
        assert_int_equal(e->code, 0);
        assert_has(e->err, "a.c' is compiled again: its compiled form, '", "may have been written by another user");
        assert_string_equal(help()->err, ""); /* the new one took its place */
    }
}

/* A folder above the cache: others could have put their own in its place. */
static void a_cache_below_a_folder_of_all_is_not_used(void **state) {
    (void)state;
    assert_int_equal(mkdir(scratch("own"), 0777), 0);
    assert_int_equal(chmod(scratch("own"), 0777), 0);
    setenv("NITRO_CACHE_DIR", scratch("own/deep"), 1);
    const ended *e = help();
    assert_int_equal(e->code, 0);
    assert_has(e->err, "compiled experiments are not kept: others may write into the folder '", "/own' (mode 777)",
               "use a folder elsewhere");
    assert_int_equal(chmod(scratch("own"), 0755), 0);
    assert_string_equal(help()->err, "");
    setenv("TMPDIR", scratch("own"), 1);
    assert_int_equal(chmod(scratch("own"), 0777), 0);
    e = help();
    assert_int_equal(e->code, 1);
    assert_has(e->err, "there is no folder to compile in: others may write into the folder '", "name it with TMPDIR");
}

/* A program that is loaded by its path. */
static void an_object_by_its_path_is_checked_too(void **state) {
    (void)state;
    assert_int_equal(help()->code, 0);
    assert_int_equal(each_object(open_to_others), 1);
    setenv("NITRO_PLUGIN", scratch("plugin.so"), 1);
    put_text("plugin.so", "x");
    assert_int_equal(chmod(scratch("plugin.so"), 0666), 0);
    const ended *e = nitro("devices");
    assert_int_not_equal(e->code, 0);
    assert_has(e->err, "others may write to '", "plugin.so' (mode 666)", "delete it and make it anew");
    unsetenv("NITRO_PLUGIN");
}

static void a_cache_that_cannot_be_used_is_named(void **state) {
    (void)state;
    put_text("a-file", "");
    char path[SCRATCH_PATH], longest[SCRATCH_PATH + 300];
    snprintf(path, sizeof path, "%s", scratch("a-file"));
    snprintf(longest, sizeof longest, "%s/%0300d", scratch("own"), 0);
    const char *const places[] = {path, longest, "/proc/none"};
    for (size_t i = 0; i < 3; i++) {
        setenv("NITRO_CACHE_DIR", places[i], 1);
        const ended *e = help();
        assert_int_equal(e->code, 0);
        assert_has(e->err, "compiled experiments are not kept: cannot make the folder '", places[i],
                   "compiled in a temporary folder each time");
    }
    unsetenv("NITRO_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    const char *given = getenv("HOME");
    char *home = strdup(given ? given : "");
    unsetenv("HOME"); /* nobody named a place: this is usual in a container */
    assert_string_equal(help()->err, "");
    setenv("HOME", home, 1);
    free(home);
}

/* ---- file systems without execution ----------------------------------------------------------------------------- */

static void assert_told(const char *message, const char *folder, const char *variable) {
    assert_has(message, "compiled experiments cannot be loaded from '", folder, "mounted noexec", variable);
}

/* The answer of the system is pretended: not everybody may mount. */
static void noexec_is_told_before_the_compiler_runs(void **state) {
    (void)state;
    char file[SCRATCH_PATH];
    snprintf(file, sizeof file, "%s", scratch("a.c"));
    const char *const files[] = {file};
    nt__built built;
    setenv("CC", "/bin/false", 1);
    nt__pretend_noexec(scratch_folder);
    assert_int_equal(nt__build(&(nt__build_request){.files = files, .file_count = 1}, &built), NT_INVALID);
    assert_told(nt_error_message(), "cache/nitro/experiments", "Set NITRO_CACHE_DIR to a folder on another one");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", scratch("a.c"), 1);
    setenv("TMPDIR", scratch("run"), 1);
    assert_int_equal(nt__build(&(nt__build_request){.files = files, .file_count = 1}, &built), NT_INVALID);
    assert_told(nt_error_message(), "run/nitro-", "Set NITRO_CACHE_DIR or TMPDIR");
    nt__pretend_noexec(NULL);
    unsetenv("CC");
    unsetenv("HOME");
}

/* In a child, which is the only one to see what is mounted. */
static void mount_and_build(const char *folder, const char *options) {
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) _exit(77);
    if (mount("none", folder, "tmpfs", MS_NOEXEC, options) != 0) _exit(77);
    setenv("NITRO_CACHE_DIR", folder, 1);
    const ended *e = help();
    if (strstr(e->err, "mounted noexec") && strstr(e->err, folder) && e->code == 1) _exit(0);
    fprintf(stderr, "exit %d: %s\n", e->code, e->err);
    _exit(1);
}

static void a_cache_that_is_mounted_noexec(void **state) {
    (void)state;
    int how;
    assert_int_equal(mkdir(scratch("own"), 0755), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) mount_and_build(scratch("own"), "size=16m,mode=755");
    assert_int_equal(waitpid(child, &how, 0), child);
    if (WEXITSTATUS(how) == 77) print_message("nothing may be mounted here: only the pretended case was tested\n");
    if (WEXITSTATUS(how) != 77) assert_int_equal(how, 0);
}

/* ---- pipes ------------------------------------------------------------------------------------------------------ */

/* Runs the command, which the alarm ends should it wait for a pipe. */
static const ended *ends(const char *const *words) {
    const char *all[MOST_WORDS] = {"timeout", "-k", "1", "60", command_path()};
    for (size_t i = 0; words[i]; i++) all[i + 5] = words[i];
    return run_words(all);
}
#define ends(...) ends((const char *const[]){__VA_ARGS__, NULL})

static void put_pipe(const char *name) {
    unlink(scratch(name));
    assert_int_equal(mkfifo(scratch(name), 0600), 0);
}

static void a_log_that_is_a_pipe(void **state) {
    (void)state;
    char run[SCRATCH_PATH];
    snprintf(run, sizeof run, "%s", scratch("run"));
    put_pipe("run/metrics.jsonl");
    const char *const commands[][4] = {{"history", run}, {"plot", run, "--metric=loss"}, {"diff", run, run}};
    for (size_t i = 0; i < 3; i++) {
        const ended *e = ends(commands[i][0], commands[i][1], commands[i][2], commands[i][3]);
        assert_int_equal(e->code, 1);
        assert_has(e->err, "run/metrics.jsonl': it is a pipe and no regular file");
    }
    assert_int_equal(ends("runs", run)->code, 0);
}

/* What is made anew takes the place of a pipe; what others will read is not thrown away for one. */
static void training_among_pipes_and_links(void **state) {
    (void)state;
    static const char *const anew[] = {"run/metrics.jsonl.new", "run/metrics.jsonl.previous",
                                       "run/parameters.safetensors.new"};
    char dir[SCRATCH_PATH], file[SCRATCH_PATH], option[SCRATCH_PATH];
    snprintf(dir, sizeof dir, "--run-dir=%s", scratch("run"));
    snprintf(file, sizeof file, "%s", scratch("small.c"));
    scratch_put("precious", "gold", 4);
    for (int kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < 3; i++) {
            unlink(scratch(anew[i]));
            if (kind == 0) put_pipe(anew[i]);
            if (kind == 1) assert_int_equal(symlink(scratch("precious"), scratch(anew[i])), 0);
        }
        const ended *e = ends("train", file, dir, "--quiet");
        if (e->code != 0) fail_msg("%s", e->err);
        char *kept;
        size_t length;
        assert_int_equal(nt__read_file(scratch("precious"), &kept, &length), NT_OK);
        assert_string_equal(kept, "gold");
        nt__free(kept);
    }
    put_pipe("run/parameters.safetensors");
    const ended *e = ends("train", file, dir, "--quiet");
    assert_int_equal(e->code, 1);
    assert_has(e->err, "run/parameters.safetensors', where the parameters are to be kept, is a pipe or a device");
    unlink(scratch("run/parameters.safetensors"));
    put_pipe("run/checkpoints.json");
    e = ends("train", file, dir, "--quiet");
    assert_int_equal(e->code, 1);
    assert_has(e->err, "run/checkpoints.json': it is a pipe and no regular file");
    snprintf(option, sizeof option, "--weights=%s", scratch("run/checkpoints.json"));
    e = ends("train", file, option, "--quiet");
    assert_int_not_equal(e->code, 0);
    assert_has(e->err, "it is a pipe and no regular file");
}

/* Someone may open the other end later, so the command waits; a signal ends it. */
static void a_pipe_without_a_reader_is_given_up_at_a_signal(void **state) {
    (void)state;
    char file[SCRATCH_PATH], dir[SCRATCH_PATH], stats[SCRATCH_PATH];
    int how = -1, gone = 0;
    snprintf(file, sizeof file, "%s", scratch("small.c"));
    snprintf(dir, sizeof dir, "--run-dir=%s", scratch("run"));
    snprintf(stats, sizeof stats, "--stats=%s", scratch("stats"));
    put_pipe("stats");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) become_command((const char *const[]){command_path(), "train", file, dir, stats, NULL});
    for (int tenths = 0; tenths < 10 * PATIENCE && access(scratch("run/parameters.safetensors"), F_OK) != 0; tenths++)
        usleep(100000);
    for (int tenths = 0; tenths < 10 * PATIENCE && gone == 0; tenths++) {
        if (tenths % 10 == 0) kill(child, SIGTERM);
        usleep(100000);
        gone = waitpid(child, &how, WNOHANG);
    }
    if (gone == 0) kill(child, SIGKILL);
    assert_int_equal(gone, child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) != 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_object_that_others_could_have_written_is_compiled_again, start),
        cmocka_unit_test_setup(a_cache_below_a_folder_of_all_is_not_used, start),
        cmocka_unit_test_setup(an_object_by_its_path_is_checked_too, start),
        cmocka_unit_test_setup(a_cache_that_cannot_be_used_is_named, start),
        cmocka_unit_test_setup(noexec_is_told_before_the_compiler_runs, start),
        cmocka_unit_test_setup(a_cache_that_is_mounted_noexec, start),
        cmocka_unit_test_setup(a_log_that_is_a_pipe, start),
        cmocka_unit_test_setup(training_among_pipes_and_links, start),
        cmocka_unit_test_setup(a_pipe_without_a_reader_is_given_up_at_a_signal, start),
    };
    return cmocka_run_group_tests_name("places", tests, command_make, scratch_remove);
}
