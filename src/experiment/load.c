/* Loading compiled experiments. The dynamic loader knows an object by its name and its file: asked for one that it has,
 * it gives the old code again and runs no constructor. So each load is of a copy that nothing else has, and the copy's
 * file is removed once it is mapped. Not here: compiling (cli), what the constructors of an object do (registry.c).
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "experiment/experiment.h"

/* ---- a copy ----------------------------------------------------------------------------------------------------- */

/* Beside the object, where what it looks for relative to itself is found and code may be run; else among the temporary
 * files. -1 when neither can be written. */
static int open_copy(const char *path, char **name) {
    const char *temporary = getenv("TMPDIR");
    if (!temporary || !*temporary) temporary = P_tmpdir;
    for (int place = 0; place < 2; place++) {
        *name = place == 0 ? nt__sprintf("%s.XXXXXX", path) : nt__sprintf("%s/nitro-object-XXXXXX", temporary);
        int file = *name ? mkostemp(*name, O_CLOEXEC) : -1;
        if (file >= 0 || !*name) return file;
        nt__free(*name);
        *name = NULL;
    }
    nt__fail(NT_IO, "'%s' cannot be copied: there is room for a file neither beside it nor in %s: %s", path, temporary,
             strerror(errno));
    return -1;
}

static nt_status write_all(int file, const char *name, const char *data, size_t length) {
    while (length > 0) {
        ssize_t written = write(file, data, length);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return nt__fail(NT_IO, "'%s' cannot be written: %s", name, strerror(errno));
        data += written;
        length -= (size_t)written;
    }
    return NT_OK;
}

/* Writes a copy of the object and gives its name, which the caller frees. */
static nt_status copy(const char *path, char **name) {
    char *data;
    size_t length;
    nt_status status = nt__read_file(path, &data, &length);
    if (status != NT_OK) return status;
    nt__fail_nothing();
    int file = open_copy(path, name);
    if (file < 0) {
        nt__free(data);
        return nt_error_status();
    }
    status = write_all(file, *name, data, length);
    close(file);
    nt__free(data);
    return status;
}

/* ---- loading ---------------------------------------------------------------------------------------------------- */

static nt_status open_object(const char *name) {
    if (dlopen(name, RTLD_NOW | RTLD_LOCAL)) return NT_OK;
    const char *problem = dlerror();
    /* The message has the copy's name, which nobody knows. */
    size_t length = strlen(name);
    if (strncmp(problem, name, length) == 0) problem += length + strspn(problem + length, ": ");
    return nt__fail(NT_INVALID, "%s", problem);
}

nt_status nt__object_load(const char *path) {
    char *name = NULL;
    nt_status status = nt__check_shared_object(path);
    if (status == NT_OK) status = copy(path, &name);
    if (status == NT_OK) status = open_object(name);
    if (name) unlink(name);
    nt__free(name);
    return status;
}

nt_status nt_experiment_load(const char *path) {
    if (!nt__given(path, "nt_experiment_load", "path")) return NT_INVALID;
    uint64_t before = nt__experiment_generation();
    nt_status status = nt__object_load(path);
    if (status != NT_OK) return nt__fail_in(status, "'%s' cannot be loaded", path);
    if (nt__experiment_generation() != before) return NT_OK;
    return nt__fail(NT_NOT_FOUND, "'%s' was loaded and has no experiment: define one with NT_DEFINE", path);
}
