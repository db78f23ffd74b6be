/* Loading compiled experiments. The dynamic loader knows an object by its name and its file: asked for one that it
 * has, it gives the old code again and runs no constructor. So each load is of a copy that nothing else has, and the
 * copy's file is removed once it is mapped. A copy also outlives what is written over the object.
 * Not here: compiling (cli), what the constructors of an object do (registry.c).
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "experiment/experiment.h"
#include "base/files.h"

/* ---- a copy ----------------------------------------------------------------------------------------------------- */

/* Beside the object, where what it looks for relative to itself is found and code may be run; else among the temporary
 * files. The caller frees the name. */
static nt_status open_copy(const char *path, char **name, int *file) {
    const char *temporary = getenv("TMPDIR");
    if (!temporary || !*temporary) temporary = P_tmpdir;
    for (int place = 0; place < 2; place++) {
        nt_status status = place == 0 ? NT_OK : nt__check_trusted_folder(temporary);
        if (status != NT_OK) return nt__fail_in(status, "it cannot be copied");
        *name = place == 0 ? nt__sprintf("%s.XXXXXX", path) : nt__sprintf("%s/nitro-object-XXXXXX", temporary);
        if (!*name) return NT_OUT_OF_MEMORY;
        *file = mkostemp(*name, O_CLOEXEC);
        if (*file >= 0) return NT_OK;
        nt__free(*name);
        *name = NULL;
    }
    return nt__fail(NT_IO, "it cannot be copied, neither beside it nor into %s: %s", temporary, strerror(errno));
}

/* Writes a copy of the object and gives its name, which the caller frees, and removes the file. */
static nt_status copy(const char *path, char **name) {
    char *data;
    size_t length;
    int file = -1;
    nt_status status = nt__read_trusted(path, SIZE_MAX, &data, &length);
    if (status != NT_OK) return status;
    status = open_copy(path, name, &file);
    if (status == NT_OK && !nt__write_all(file, data, length))
        status = nt__fail(NT_IO, "'%s' cannot be written: %s", *name, strerror(errno));
    if (file >= 0) close(file);
    nt__free(data);
    return status;
}

/* ---- loading ---------------------------------------------------------------------------------------------------- */

static nt_status open_object(const char *name) {
    /* It stays loaded: nothing asks for the handle again. */
    // cppcheck-suppress leakNoVarFunctionCall
    if (dlopen(name, RTLD_NOW | RTLD_LOCAL)) return NT_OK;
    const char *problem = dlerror();
    if (nt__is_noexec(name))
        return nt__fail(NT_INVALID,
                        "it lies on a file system that is mounted noexec, from which nothing can be loaded: put it on "
                        "another one");
    /* The message has the copy's name, which nobody knows. */
    size_t length = strlen(name);
    if (strncmp(problem, name, length) == 0) problem += length + strspn(problem + length, ": ");
    return nt__fail(NT_INVALID, "%s", problem);
}

static bool is_loaded(const char *path) {
    void *object = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (object) dlclose(object);
    return object != NULL;
}

nt_status nt__object_load(const char *path, bool lasts) {
    char *name = NULL;
    nt_status status = nt__check_shared_object(path);
    if (status == NT_OK && lasts && !is_loaded(path)) return open_object(path);
    if (status == NT_OK) status = copy(path, &name);
    if (!name) return status;
    if (status == NT_OK) status = open_object(name);
    unlink(name);
    nt__free(name);
    return status;
}

nt_status nt_experiment_load(const char *path) {
    if (!nt__given(path, "nt_experiment_load", "path")) return NT_INVALID;
    uint64_t before = nt__experiment_generation();
    nt_status status = nt__object_load(path, false);
    if (status != NT_OK) return nt__fail_in(status, "'%s' cannot be loaded", path);
    if (nt__experiment_generation() != before) return NT_OK;
    return nt__fail(NT_NOT_FOUND, "'%s' was loaded and has no experiment: define one with NT_DEFINE", path);
}
