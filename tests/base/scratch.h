/* A folder for the files that a test makes: new for each process, removed with all it holds.
 * Include after cmocka.
 */
#ifndef NT_TESTS_BASE_SCRATCH_H
#define NT_TESTS_BASE_SCRATCH_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SCRATCH_PATH = 4096 };

static char scratch_folder[SCRATCH_PATH];

/* Path of a file in the scratch folder; valid until the fourth next call. */
static inline const char *scratch(const char *name) {
    static char paths[4][2 * SCRATCH_PATH];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", scratch_folder, name);
    return path;
}

static inline int scratch_make(void **state) {
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(scratch_folder, sizeof scratch_folder, "%s/nitro-test-XXXXXX", parent && *parent ? parent : P_tmpdir);
    return mkdtemp(scratch_folder) ? 0 : -1;
}

static inline void scratch_remove_path(const char *path) {
    struct dirent *entry;
    DIR *folder = opendir(path);
    while (folder && (entry = readdir(folder))) {
        char inner[2 * SCRATCH_PATH];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        int length = snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (length < (int)sizeof inner) scratch_remove_path(inner);
    }
    if (folder) closedir(folder);
    remove(path);
}

static inline int scratch_remove(void **state) {
    (void)state;
    scratch_remove_path(scratch_folder);
    return 0;
}

/* Number of entries in a folder. */
static inline int scratch_entries(const char *path) {
    int count = -2; /* for "." and ".." */
    DIR *folder = opendir(path);
    while (folder && readdir(folder)) count++;
    if (folder) closedir(folder);
    return count;
}

static inline void scratch_put(const char *name, const void *bytes, size_t length) {
    FILE *file = fopen(scratch(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

#endif
