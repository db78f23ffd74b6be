/* The folders in which plugins are looked for when nobody names one: beside this very code, wherever it was installed.
 * Not here: which of the plugins is taken.
 */
#include "xla/xla_internal.h"
#include "base/files.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From the folder of the library or the program that this code is part of: of an installed library; of an installed
 * program; in a build folder, where `plugins` is a link; in the folder of its tests. */
static const char *const beside[] = {"nitro/plugins", "../" NT__LIBRARY_FOLDER "/nitro/plugins", "plugins",
                                     "../plugins"};

/* The program itself has no name in the linker's list. */
static bool own_folder(char folder[NT__PATH_SIZE]) {
    Dl_info info;
    void *entry = NULL;
    if (!dladdr1(&nt__loaded, &info, &entry, RTLD_DL_LINKMAP) || !entry) return false;
    const char *name = ((const struct link_map *)entry)->l_name;
    if (!realpath(*name ? name : "/proc/self/exe", folder)) return false;
    *strrchr(folder, '/') = 0;
    return true;
}

const char *nt__plugin_folders(char out[NT__PATH_SIZE]) {
    char own[NT__PATH_SIZE], folder[2 * NT__PATH_SIZE];
    for (size_t i = 0; own_folder(own) && i < sizeof beside / sizeof *beside; i++) {
        snprintf(folder, sizeof folder, "%s/%s", own, beside[i]);
        if (nt__is_folder(folder) && realpath(folder, out)) return out;
    }
    snprintf(out, NT__PATH_SIZE, "%s", NT__PLUGIN_FOLDER);
    return out;
}
