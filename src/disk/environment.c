/* What a compiled program depends on beside its text and options: the plugin, the processor, the engine's flags.
 * Not here: what is done when one of them is another.
 */
#include "disk/disk.h"
#include "base/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the plugin ------------------------------------------------------------------------------------------------- */

/* Everything that tells a file from another or changed one without reading it. */
static void name_of(const struct stat *info, char out[NT__DISK_NAME]) {
    const int64_t facts[] = {(int64_t)info->st_dev,         (int64_t)info->st_ino, (int64_t)info->st_size,
                             (int64_t)info->st_mtim.tv_sec, info->st_mtim.tv_nsec, (int64_t)info->st_ctim.tv_sec,
                             info->st_ctim.tv_nsec};
    char hex[33];
    nt__hash_hex(nt__hash_bytes(facts, sizeof facts), hex);
    snprintf(out, NT__DISK_NAME, "%s.plugin", hex);
}

static nt_status hash_content(int file, const char *path, const struct stat *info, nt__hash *out) {
    size_t length = (size_t)info->st_size;
    void *content = length ? mmap(NULL, length, PROT_READ, MAP_PRIVATE, file, 0) : NULL;
    if (content == MAP_FAILED) return nt__fail(NT_IO, "cannot read the plugin '%s': %s", path, strerror(errno));
    *out = nt__hash_bytes(content, length);
    if (content) munmap(content, length);
    return NT_OK;
}

static nt_status hash_plugin(const nt__disk *disk, int file, const char *path, nt__hash *out) {
    struct stat info;
    char name[NT__DISK_NAME], *remembered;
    size_t length;
    if (fstat(file, &info) != 0) return nt__fail(NT_IO, "cannot read the plugin '%s': %s", path, strerror(errno));
    name_of(&info, name);
    nt_status status = nt__disk_get(disk, name, &remembered, &length);
    bool known = remembered && length == sizeof *out;
    if (known) memcpy(out, remembered, sizeof *out);
    nt__free(remembered);
    if (known) nt__disk_touch(disk, name);
    if (status != NT_OK || known) return status;
    status = hash_content(file, path, &info, out);
    return status == NT_OK ? nt__disk_put(disk, name, out, sizeof *out) : status;
}

static nt_status find_plugin(const nt__disk *disk, const char *path, nt__hash *out) {
    int file;
    nt_status status = nt__open_trusted(path, &file);
    if (status != NT_OK) return nt__fail_in(status, "the plugin");
    status = hash_plugin(disk, file, path, out);
    close(file);
    return status;
}

/* ---- the processor ---------------------------------------------------------------------------------------------- */

/* Lines of /proc/cpuinfo that say which code a processor can run, and for which one it is tuned. The other lines
 * change from one moment to the next. */
static bool tells(const char *line, size_t length) {
    static const char *const names[] = {"vendor_id", "cpu family",      "model",       "model name", "flags",
                                        "Features",  "CPU implementer", "CPU variant", "CPU part",   "isa"};
    size_t name = strcspn(line, "\t:\n");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (name < length && strlen(names[i]) == name && memcmp(line, names[i], name) == 0) return true;
    return false;
}

/* The first processor stands for all. */
static nt_status find_processor(nt__hash *out) {
    char *data;
    size_t length;
    nt__text facts = {0};
    nt_status status = nt__read_file("/proc/cpuinfo", &data, &length);
    if (status != NT_OK) return status;
    for (const char *line = data; *line && *line != '\n';) {
        size_t size = strcspn(line, "\n");
        if (tells(line, size)) nt__text_put(&facts, line, size);
        line += size + (line[size] == '\n');
    }
    *out = nt__hash_bytes(facts.data, facts.length);
    if (facts.failed) status = NT_OUT_OF_MEMORY;
    if (status == NT_OK && facts.length == 0)
        status = nt__fail(NT_IO, "/proc/cpuinfo does not say what the processor can do");
    nt__text_free(&facts);
    nt__free(data);
    return status;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

/* Flags that ask for files are of no use when nothing is compiled. */
static nt_status find_flags(nt__hash *out) {
    const char *flags = getenv("XLA_FLAGS");
    if (!flags) flags = "";
    *out = nt__hash_bytes(flags, strlen(flags));
    if (!strstr(flags, "xla_dump")) return NT_OK;
    return nt__fail(NT_INVALID, "XLA_FLAGS asks for dumps, which only a compile writes");
}

nt_status nt__environment_find(const nt__disk *disk, const char *plugin_path, nt__environment *out) {
    nt_status status = find_flags(&out->flags);
    if (status == NT_OK) status = find_processor(&out->processor);
    return status == NT_OK ? find_plugin(disk, plugin_path, &out->plugin) : status;
}
