/* Experiments from source files: which flags they are compiled with, when they are compiled, and loading them.
 * Not here: where objects are kept and how they are found again (objects.c).
 */
#include "build/build.h"
#include "base/files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/process.h"
#include "build/compiler_internal.h"
#include "experiment/experiment.h"

/* Everything about one build. Words and paths live in the arena. */
typedef struct build {
    const nt__build_request *request;
    nt__built *out;
    nt__arena arena;
    nt__compiler compiler;
    nt__words flags;      /* of a compile */
    nt__words user_flags; /* --cflags: of a compile and of the link */
    nt__words link_flags; /* --ldflags: at the end of the link */
    nt__objects objects;
    nt__recipe recipe;
} build;

/* ---- flags ------------------------------------------------------------------------------------------------------ */

/* The four errors are warnings to gcc 12 and clang 14: a hook of the wrong type, a host batch given to a traced
 * operation, a misspelt function and a hook that returns nothing must not run. */
static const char *const compile_flags[] = {
    "-std=gnu17",
    "-O2",
    "-g",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wall",
    "-Werror=incompatible-pointer-types",
    "-Werror=implicit-function-declaration",
    "-Werror=int-conversion",
    "-Werror=return-type",
};

/* Symbols that an object has itself come first, so that two experiments in one process may use the same names. */
static const char *const link_flags[] = {"-shared", "-g", "-Wl,-Bsymbolic"};

static void add_known(nt__words *words, const char *const *known, size_t count) {
    for (size_t i = 0; i < count; i++) nt__words_add(words, known[i]);
}

static bool has_headers(const char *folder) {
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/nitro.h", folder) < (int)sizeof path && access(path, R_OK) == 0;
}

/* The include folder beside the command's own, of an installation and of a build folder in the source tree; or in it,
 * where a build folder has a link. */
static bool headers_beside_command(char folder[PATH_MAX]) {
    static const char *const places[] = {"../include", "include"};
    char command[PATH_MAX], path[PATH_MAX + 16];
    ssize_t length = readlink("/proc/self/exe", command, sizeof command - 1);
    if (length <= 0) return false;
    command[length] = 0;
    *strrchr(command, '/') = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", command, places[i]);
        if (realpath(path, folder) && has_headers(folder)) return true;
    }
    return false;
}

/* NT__INCLUDE_FOLDER is the one that was chosen when nitro was built. */
static bool find_headers(char folder[PATH_MAX]) {
    if (headers_beside_command(folder)) return true;
    snprintf(folder, PATH_MAX, "%s", NT__INCLUDE_FOLDER);
    return has_headers(folder);
}

static nt_status collect_flags(build *b) {
    char headers[PATH_MAX];
    if (!find_headers(headers))
        return nt__fail(NT_NOT_FOUND,
                        "the headers of nitro were not found: neither in '../include' beside the command nor in %s. "
                        "Install nitro again, or name their folder with --cflags=-I<folder>",
                        NT__INCLUDE_FOLDER);
    add_known(&b->flags, compile_flags, sizeof compile_flags / sizeof *compile_flags);
    nt__words_add(&b->flags, "-I");
    nt__words_add(&b->flags, nt__arena_strdup(&b->arena, headers));
    const char *cflags = b->request->cflags, *ldflags = b->request->ldflags;
    nt_status status = nt__words_split(&b->arena, "--cflags", cflags ? cflags : "", &b->user_flags);
    if (status == NT_OK) status = nt__words_split(&b->arena, "--ldflags", ldflags ? ldflags : "", &b->link_flags);
    return b->flags.failed ? NT_OUT_OF_MEMORY : status;
}

/* ---- the recipe ------------------------------------------------------------------------------------------------- */

static void describe_words(nt__text *text, const char *what, const nt__words *words) {
    nt__text_add(text, "%s\n", what);
    for (size_t i = 0; i < words->count; i++) nt__text_add(text, "%s\n", words->items[i]);
}

/* Variables with which compilers find headers, libraries and parts of themselves. */
static void describe_environment(nt__text *text) {
    static const char *const names[] = {"CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        nt__text_add(text, "%s=%s\n", names[i], value ? value : "");
    }
}

/* Names of files are taken as they were given, so the folder that they start from belongs to the recipe. */
static nt_status write_recipe(build *b) {
    char folder[PATH_MAX];
    nt__text text = {0};
    nt__text_add(&text, "nitro %s in %s\n%s", NT__VERSION, getcwd(folder, sizeof folder) ? folder : "",
                 b->compiler.identity);
    describe_environment(&text);
    describe_words(&text, "compile", &b->flags);
    describe_words(&text, "more", &b->user_flags);
    describe_words(&text, "link", &b->link_flags);
    for (size_t i = 0; i < b->request->file_count; i++) nt__text_add(&text, "file %s\n", b->request->files[i]);
    if (!text.failed) b->recipe = nt__hash_bytes(text.data, text.length);
    nt_status status = text.failed ? NT_OUT_OF_MEMORY : NT_OK;
    nt__text_free(&text);
    return status;
}

/* ---- compiling -------------------------------------------------------------------------------------------------- */

/* Path of a file in the folder where this build works. */
static const char *in_workshop(build *b, const char *workshop, size_t index, const char *ending) {
    return nt__arena_sprintf(&b->arena, "%s/%zu.%s", workshop, index, ending);
}

/* *good says whether the compiler was content. */
static nt_status run_compiler(const nt__words *command, bool *good) {
    int exit_code = 0;
    nt_status status = command->failed ? NT_OUT_OF_MEMORY : nt__process_run(command, &exit_code);
    *good = exit_code == 0;
    if (nt__signals_noted()) return nt__fail(NT_INTERRUPTED, "stopped by a signal while '%s' ran", command->items[0]);
    return status;
}

static nt_status fail_as_shown(const build *b, const char *what) {
    return nt__fail(NT_INVALID, "%s failed; the messages of '%s' are above", what, b->compiler.command.items[0]);
}

static nt_status compile_file(build *b, const char *workshop, size_t index, bool *good) {
    nt__words command = {0};
    nt__words_add_all(&command, &b->compiler.command);
    nt__words_add_all(&command, &b->flags);
    nt__words_add_all(&command, &b->user_flags);
    add_known(&command, (const char *const[]){"-MD", "-MT", "object", "-MF"}, 4);
    nt__words_add(&command, in_workshop(b, workshop, index, "d"));
    nt__words_add(&command, "-c");
    nt__words_add(&command, b->request->files[index]);
    nt__words_add(&command, "-o");
    nt__words_add(&command, in_workshop(b, workshop, index, "o"));
    nt_status status = run_compiler(&command, good);
    nt__words_free(&command);
    return status;
}

/* Every file is compiled, so that the messages of all are seen at once. */
static nt_status compile_files(build *b, const char *workshop) {
    nt__text failed = {0};
    nt_status status = NT_OK;
    for (size_t i = 0; i < b->request->file_count && status == NT_OK; i++) {
        bool good;
        status = compile_file(b, workshop, i, &good);
        if (!good) nt__text_add(&failed, "%s'%s'", failed.length ? ", " : "compiling ", b->request->files[i]);
    }
    if (failed.failed) status = NT_OUT_OF_MEMORY;
    if (status == NT_OK && failed.length) status = fail_as_shown(b, failed.data);
    nt__text_free(&failed);
    return status;
}

static bool user_links(const build *b) {
    return b->link_flags.count > 0;
}

/* The object and the linker's dependency list have the numbers after those of the files. The list is asked for only
 * where the user adds libraries: not every linker can write one. */
static nt_status link_files(build *b, const char *workshop) {
    size_t count = b->request->file_count;
    nt__words command = {0};
    nt__words_add_all(&command, &b->compiler.command);
    add_known(&command, link_flags, sizeof link_flags / sizeof *link_flags);
    nt__words_add_all(&command, &b->user_flags);
    for (size_t i = 0; i < count; i++) nt__words_add(&command, in_workshop(b, workshop, i, "o"));
    nt__words_add_all(&command, &b->link_flags);
    if (user_links(b))
        nt__words_add(&command, nt__arena_sprintf(&b->arena, "-Wl,--dependency-file=%s/%zu.d", workshop, count));
    nt__words_add(&command, "-o");
    nt__words_add(&command, in_workshop(b, workshop, count, "so"));
    bool good;
    nt_status status = run_compiler(&command, &good);
    nt__words_free(&command);
    return status == NT_OK && !good ? fail_as_shown(b, "linking") : status;
}

/* ---- what an object was made of --------------------------------------------------------------------------------- */

/* Files that the build made itself are no sources, and neither are those that the linker made and deleted again. */
static void add_sources(nt__words *files, const nt__words *read, const char *workshop) {
    size_t length = strlen(workshop);
    files->failed |= read->failed;
    for (size_t i = 0; i < read->count; i++) {
        const char *file = read->items[i];
        if (strncmp(file, workshop, length) != 0 && access(file, F_OK) == 0) nt__words_add(files, file);
    }
}

static nt_status collect_sources(build *b, const char *workshop, nt__words *files) {
    size_t lists = b->request->file_count + (user_links(b) ? 1 : 0);
    nt__words read = {0};
    nt_status status = NT_OK;
    for (size_t i = 0; i < lists && status == NT_OK; i++) {
        const char *path = in_workshop(b, workshop, i, "d");
        status = path ? nt__dependencies_read(&b->arena, path, &read) : NT_OUT_OF_MEMORY;
    }
    add_sources(files, &read, workshop);
    nt__words_free(&read);
    return files->failed ? NT_OUT_OF_MEMORY : status;
}

static bool any_changed_since(const nt__words *files, struct timespec start) {
    struct stat info;
    for (size_t i = 0; i < files->count; i++)
        if (stat(files->items[i], &info) != 0 || !nt__is_before(info.st_ctim, start)) return true;
    return false;
}

/* One compile; *path is what the object is kept as, by the contents that the files have after it. */
static nt_status compile_once(build *b, const char *workshop, nt__words *files, char **path) {
    nt_status status = compile_files(b, workshop);
    if (status == NT_OK) status = link_files(b, workshop);
    if (status == NT_OK) status = collect_sources(b, workshop, files);
    if (status == NT_OK) status = nt__objects_path(&b->objects, b->recipe, files, path);
    return status;
}

enum { MOST_COMPILES = 5 };

/* A file that is saved while it is compiled could give an object of the old content the name of the new one. So when
 * one changed since the compile began, it is compiled again, until the contents before and after are the same. */
static nt_status compile_until_still(build *b, const char *workshop, nt__words *files, char **path) {
    char *before = NULL;
    nt_status status = NT_OK;
    for (int turn = 0; turn < MOST_COMPILES && status == NT_OK; turn++) {
        struct timespec start = nt__watch_next();
        nt__words_free(files);
        nt__free(before);
        before = *path;
        *path = NULL;
        status = compile_once(b, workshop, files, path);
        if (status != NT_OK) break;
        if (!any_changed_since(files, start) || (before && strcmp(before, *path) == 0)) {
            nt__free(before);
            return NT_OK;
        }
    }
    nt__free(before);
    if (status != NT_OK) return status;
    return nt__fail(NT_IO,
                    "the source files of '%s' changed during each of %d compiles; try again when they are at rest",
                    b->request->files[0], MOST_COMPILES);
}

static nt_status compile_and_keep(build *b, const char *workshop, char **path) {
    nt__words files = {0};
    nt_status status = compile_until_still(b, workshop, &files, path);
    const char *finished = in_workshop(b, workshop, b->request->file_count, "so");
    if (status == NT_OK && !finished) status = NT_OUT_OF_MEMORY;
    if (status == NT_OK) status = nt__objects_keep(&b->objects, b->recipe, &files, finished, *path);
    nt__words_free(&files);
    if (status == NT_OK) return NT_OK;
    nt__free(*path);
    *path = NULL;
    return status;
}

/* A signal meanwhile goes to the compiler too, ends the build, and leaves no folder after. */
static nt_status compile(build *b, char **path) {
    char *workshop;
    nt__objects_prune(&b->objects);
    nt__signals_note();
    nt_status status = nt__objects_workshop(&b->objects, &workshop);
    if (status == NT_OK) {
        status = compile_and_keep(b, workshop, path);
        nt__folder_remove(workshop);
        nt__free(workshop);
    }
    if (!nt__signals_note_end() || status != NT_OK) return status;
    nt__free(*path);
    *path = NULL;
    return nt__fail(NT_INTERRUPTED, "stopped by a signal while '%s' was compiled", b->request->files[0]);
}

/* ---- finding and loading ---------------------------------------------------------------------------------------- */

/* The first load of changed code could end the process, or give wrong numbers. */
static nt_status refuse_changed(const build *b, char **path) {
    const char *wrong;
    nt_status status = nt__objects_check(*path, &wrong);
    if (status == NT_OK && !wrong) return NT_OK;
    if (status == NT_OK)
        nt__notice("'%s' is compiled again: its compiled form, '%s', %s", b->request->files[0], *path, wrong);
    nt__free(*path);
    *path = NULL;
    return status;
}

/* *path is NULL when no object fits. A listed file that is gone is a reason to compile, which says so if it matters. */
static nt_status find_compiled(build *b, char **path) {
    char *data;
    nt__words files = {0};
    *path = NULL;
    nt_status status = nt__objects_sources(&b->objects, b->recipe, &data, &files);
    if (status == NT_OK && files.count > 0) status = nt__objects_path(&b->objects, b->recipe, &files, path);
    nt__words_free(&files);
    nt__free(data);
    if (*path && access(*path, F_OK) != 0) {
        nt__free(*path);
        *path = NULL;
    }
    if (*path) status = refuse_changed(b, path);
    return status == NT_OUT_OF_MEMORY ? status : NT_OK;
}

static nt_status load(const build *b, const char *path) {
    nt__objects_touch(path);
    nt__crash_object(path);
    nt__hook_enter("a constructor", b->request->files[0]);
    nt_status status = nt__object_load(path, true);
    nt__hook_leave();
    return status;
}

static nt_status fail_to_load(const build *b) {
    const char *problem = nt_error_message();
    bool is_missing_symbol = strstr(problem, "undefined symbol");
    return nt__fail(NT_INVALID, "'%s' was compiled and cannot be loaded: %s%s", b->request->files[0], problem,
                    is_missing_symbol ? ". It is in a file or a library that was not given: name every file (nitro "
                                        "COMMAND a.c b.c), and libraries with --ldflags"
                                      : "");
}

/* Loads what the process does not have yet. */
static nt_status load_when_new(build *b, const char *path) {
    const char *loaded = b->request->loaded;
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): the path is there once the status says so */
    b->out->loaded = !loaded || strcmp(loaded, path) != 0;
    if (!b->out->loaded) return NT_OK;
    double start = nt__seconds();
    nt_status status = load(b, path);
    b->out->load_seconds = nt__seconds() - start;
    return status;
}

static nt_status compile_and_load(build *b, char **path) {
    double start = nt__seconds();
    nt_status status = compile(b, path);
    b->out->compile_seconds = nt__seconds() - start;
    if (status != NT_OK || (status = load_when_new(b, *path)) == NT_OK) return status;
    nt__free(*path);
    *path = NULL;
    return status == NT_OUT_OF_MEMORY ? status : fail_to_load(b);
}

/* An object that is there and cannot be loaded is compiled again: it may be damaged. */
static nt_status find_or_compile(build *b, char **path) {
    nt_status status = find_compiled(b, path);
    if (status != NT_OK) return status;
    if (*path && load_when_new(b, *path) == NT_OK) return NT_OK;
    nt__free(*path);
    *path = NULL;
    return compile_and_load(b, path);
}

/* The list that was written with the object, or is as good as the one that was. */
static nt_status list_files(build *b) {
    nt__built *out = b->out;
    char *data;
    nt__words files = {0};
    nt_status status = nt__objects_sources(&b->objects, b->recipe, &data, &files);
    for (size_t i = 0; status == NT_OK && i < files.count; i++)
        nt__words_add(&out->files, nt__arena_strdup(&out->arena, files.items[i]));
    if (out->files.failed) status = NT_OUT_OF_MEMORY;
    nt__words_free(&files);
    nt__free(data);
    return status;
}

/* Once in a process: a shell builds often. */
static void tell_refused_folder(const nt__objects *objects) {
    static bool told;
    if (!objects->why || told) return;
    told = true;
    nt__notice("compiled experiments are not kept: %s. They are compiled in a temporary folder each time",
               objects->why);
}

/* Before the compiler runs in vain. */
static nt_status check_can_load(const nt__objects *objects) {
    if (!nt__is_noexec(objects->folder)) return NT_OK;
    return nt__fail(NT_INVALID,
                    "compiled experiments cannot be loaded from '%s': it lies on a file system that is mounted noexec. "
                    "Set %s to a folder on another one",
                    objects->folder, objects->temporary ? "NITRO_CACHE_DIR or TMPDIR" : "NITRO_CACHE_DIR");
}

static nt_status prepare(build *b) {
    nt_status status = collect_flags(b);
    if (status == NT_OK) status = nt__compiler_find(&b->arena, &b->compiler);
    if (status == NT_OK) status = write_recipe(b);
    if (status == NT_OK) status = nt__objects_open(&b->objects);
    if (status == NT_OK) tell_refused_folder(&b->objects);
    if (status == NT_OK) status = check_can_load(&b->objects);
    return status;
}

static void release(build *b) {
    nt__objects_close(&b->objects);
    nt__words_free(&b->compiler.command);
    nt__words_free(&b->flags);
    nt__words_free(&b->user_flags);
    nt__words_free(&b->link_flags);
    nt__arena_free(&b->arena);
}

nt_status nt__build(const nt__build_request *request, nt__built *out) {
    *out = (nt__built){0};
    build b = {.request = request, .out = out};
    nt_status status = prepare(&b);
    if (status == NT_OK) status = find_or_compile(&b, &out->object);
    if (status == NT_OK) status = list_files(&b);
    release(&b);
    if (status != NT_OK) nt__built_free(out);
    return status;
}

void nt__built_free(nt__built *built) {
    nt__free(built->object);
    nt__words_free(&built->files);
    nt__arena_free(&built->arena);
    *built = (nt__built){0};
}

/* ---- the files of a user's -------------------------------------------------------------------------------------- */

/* Below the folder of a file that was given: "models/net.c" has "models/net.h" and "models/parts/x.h" beside it. */
static bool lies_beside(const char *file, const nt__words *given) {
    bool is_bare = file[0] != '/' && strncmp(file, "../", 3) != 0;
    for (size_t i = 0; i < given->count; i++) {
        const char *slash = strrchr(given->items[i], '/');
        size_t length = slash ? (size_t)(slash - given->items[i]) + 1 : 0;
        if (length ? strncmp(file, given->items[i], length) == 0 : is_bare) return true;
    }
    return false;
}

static bool is_among(const char *file, const nt__words *words) {
    for (size_t i = 0; i < words->count; i++)
        if (strcmp(file, words->items[i]) == 0) return true;
    return false;
}

nt_status nt__built_sources(const nt__built *built, const nt__words *given, nt__words *out) {
    nt__words_add_all(out, given);
    for (size_t i = 0; i < built->files.count; i++) {
        const char *file = built->files.items[i];
        bool is_source = nt__ends_in(file, ".h") || nt__ends_in(file, ".c") || nt__ends_in(file, ".inc");
        if (is_source && lies_beside(file, given) && !is_among(file, out)) nt__words_add(out, file);
    }
    return out->failed ? NT_OUT_OF_MEMORY : NT_OK;
}
