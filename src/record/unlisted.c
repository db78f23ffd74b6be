/* Records that lie in a folder and that its manifest does not list: a kill came between a record and its manifest, or
 * between the manifest and a deletion, or somebody deleted the manifest. It cannot be told which.
 * Not here: which records are kept (retention.c).
 */
#include <dirent.h>
#include <string.h>

#include "record/record_internal.h"

/* Where they are looked for. */
typedef struct search {
    const char *folder;
    nt__manifest *manifest;
    void (*outdated)(const char *path);
} search;

/* The run has another record of the same epoch and batch that was written later. */
static bool is_outdated(const nt__manifest *manifest, const nt__record_entry *entry) {
    for (size_t i = 0; i < manifest->count; i++) {
        const nt__record_entry *other = &manifest->entries[i];
        if (nt__takes_place_of(entry, other) && !nt__was_written_later(entry, other)) return true;
    }
    return false;
}

/* Whether the file `name` is a record that was written under this name: a copy that somebody made is not. `entry`
 * borrows its texts from *facts. */
static nt_status read_own(const char *path, const char *name, json_t **facts, nt__record_entry *entry, bool *own) {
    nt_status status = nt__record_read_header(path, facts, &entry->hash);
    nt__hash hash = entry->hash;
    if (status == NT_OK) status = nt__entry_from_facts(*facts, entry);
    *own = status == NT_OK && strcmp(entry->file, name) == 0;
    entry->hash = hash;
    entry->hashed = true;
    if (status == NT_OK || status == NT_OUT_OF_MEMORY) return status;
    nt__fail_nothing();
    return NT_OK;
}

static nt_status look_at(const search *s, const char *name) {
    json_t *facts = NULL;
    nt__record_entry entry = {0};
    bool own;
    if (!nt__ends_in(name, NT__RECORD_EXTENSION) || nt__manifest_find(s->manifest, name)) return NT_OK;
    char *path = nt__sprintf("%s/%s", s->folder, name);
    nt_status status = path ? read_own(path, name, &facts, &entry, &own) : NT_OUT_OF_MEMORY;
    if (status == NT_OK && own) {
        if (!is_outdated(s->manifest, &entry))
            status = nt__manifest_insert(s->manifest, &entry);
        else if (s->outdated)
            s->outdated(path);
    }
    json_decref(facts);
    nt__free(path);
    return status;
}

nt_status nt__unlisted_add(const char *folder, nt__manifest *manifest, void (*outdated)(const char *path)) {
    const search s = {folder, manifest, outdated};
    const struct dirent *entry;
    nt_status status = NT_OK;
    DIR *entries = opendir(folder);
    while (status == NT_OK && entries && (entry = readdir(entries))) status = look_at(&s, entry->d_name);
    if (entries) closedir(entries);
    return status;
}

nt_status nt__manifest_read_whole(const char *folder, nt__manifest *out) {
    nt_status status = nt__manifest_read(folder, out);
    return status == NT_OK ? nt__unlisted_add(folder, out, NULL) : status;
}
