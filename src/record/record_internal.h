/* What the files of this folder share, and others need not know. */
#ifndef NT_RECORD_RECORD_INTERNAL_H
#define NT_RECORD_RECORD_INTERNAL_H

#include "record/record.h"

/* record.c: lets nt__record_find find the arrays of a record that was read. */
nt_status nt__record_list_places(nt__record *record);

/* file.c: the facts of a record, and the hash that its header states of its content. */
nt_status nt__record_read_header(const char *path, json_t **facts, nt__hash *hash);
/* The same as nt__record_read; *hash becomes the content's. */
nt_status nt__record_read_hashed(const char *path, nt__record *out, nt__hash *hash);

/* manifest.c: nt__manifest_read of a file. */
nt_status nt__manifest_read_file(const char *path, nt__manifest *out);
/* Adds a copy of an entry. */
nt_status nt__manifest_add(nt__manifest *manifest, const nt__record_entry *entry);
/* Adds a copy of an entry that was not listed at its place in the order of writing. */
nt_status nt__manifest_insert(nt__manifest *manifest, const nt__record_entry *entry);
/* The sequence of the entry that is written next. */
int64_t nt__manifest_next(const nt__manifest *manifest);
bool nt__was_written_later(const nt__record_entry *a, const nt__record_entry *b);
/* NULL when it lists no such file. */
const nt__record_entry *nt__manifest_find(const nt__manifest *manifest, const char *file);
/* Whether both are the same run: none is NT__LEGACY_RUN. */
bool nt__same_run(const char *a, const char *b);
const char *nt__run_name(const char *run);
/* One entry an epoch and batch of a run, and one a file. */
bool nt__takes_place_of(const nt__record_entry *fresh, const nt__record_entry *entry);
/* The later of two records of a run, by epoch and batch. */
bool nt__is_later(const nt__record_entry *a, const nt__record_entry *b);
json_t *nt__entry_to_json(const nt__record_entry *entry);
/* The entry that a record's facts tell; its texts are borrowed from them. */
nt_status nt__entry_from_facts(const json_t *facts, nt__record_entry *out);

/* unlisted.c: adds the records that lie in the folder and are not listed. Of one in whose place a later one is listed
 * `outdated` is told, where it is not NULL, and it is not added. */
nt_status nt__unlisted_add(const char *folder, nt__manifest *manifest, void (*outdated)(const char *path));

/* retention.c: whether the entry was scored by the metric and the mode of `retention`. */
bool nt__is_ranked(const nt__retention *retention, const nt__record_entry *entry);
/* "val_loss, lower is better": an entry's metric and mode, `out` holds 128 bytes. */
enum { NT__PAIR_TEXT = 128 };
const char *nt__pair_text(const char *metric, bool higher_is_better, char out[NT__PAIR_TEXT]);

/* ---- a folder, as the run that writes into it has it (folder.c) ------------------------------------------------- */

typedef struct nt__record_folder {
    const char *path, *run, *parent;
    nt__retention retention;
    nt__manifest manifest; /* as it is on the disk */
    nt__arena texts;
    int lock;      /* -1: none is held here */
    bool may_pass; /* the newest failure of a save is one that may pass by itself */
} nt__record_folder;
nt_status nt__record_folder_open(const nt__record_writer_options *options, nt__record_folder *out);
/* The entry of a record with these facts, without file, hash and time; texts are borrowed. */
nt_status nt__record_folder_describe(const nt__record_folder *folder, const json_t *facts, nt__record_entry *out);
/* Writes the record, then the manifest, then deletes what that displaced. After a failure the folder is as it was, and
 * its manifest was read again. */
nt_status nt__record_folder_save(nt__record_folder *folder, nt__record *record, const char *name);
void nt__record_folder_close(nt__record_folder *folder);

/* ---- names (name.c) --------------------------------------------------------------------------------------------- */

/* "epoch-0003-step-120-val_loss=0.25.safetensors", without the metric where it is not scored, and
 * "epoch-0003-step-130-batch-20.safetensors" within an epoch. NULL when memory is short. */
char *nt__record_name(const nt__record_entry *entry);
/* Error unless an experiment's name for a record can be one. NULL, and what is not UTF-8, cannot. */
nt_status nt__record_name_check(const char *name);

#endif
