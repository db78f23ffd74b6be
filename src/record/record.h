/* Records: the full state of a run as one file; the manifest of a folder of them, and which of them are kept; finding
 * one; a thread that writes them.
 * Not here: what a live run puts into a record and takes out of one (run/).
 *
 * A record is a safetensors file of named arrays. Everything else is one JSON object, the facts, whose text stands in
 * the file's metadata. So a record is complete by itself, and other tools can read its arrays. It holds a hash of its
 * own content, which every read checks.
 *
 * A folder's manifest, checkpoints.json, lists the records of it. Whoever writes into a folder holds its lock
 * (nt__lock_folder); reading needs none, since every file is replaced whole.
 */
#ifndef NT_RECORD_RECORD_H
#define NT_RECORD_RECORD_H

#include <jansson.h>

#include "format/format.h"

/* ---- a record in memory (record.c) ------------------------------------------------------------------------------ */

enum { NT__RECORD_FORMAT = 1 };
#define NT__RECORD_EXTENSION ".safetensors"

typedef struct nt__record {
    json_t *facts;           /* an object */
    nt__named_array *arrays; /* borrowed from what is below; of a record that was read, data may lie at any address */
    size_t count, capacity;

    /* What keeps the arrays alive. */
    nt_array **held; /* of a record that was made: what each array lies in */
    size_t held_capacity;
    nt__map places;       /* among the arrays, by the hash of the name */
    nt__safetensors file; /* of a record that was read */
    nt__arena names;
} nt__record;

/* Facts that this folder reads or writes. Others may have any key.
 *
 *   by the writer     format_version    NT__RECORD_FORMAT
 *                     framework_version "0.1.0"
 *                     run, parent       the writer's; parent is null or the source of a branch
 *                     entry             {file, score, metric, mode, sequence, written}: what the manifest says of it
 *   by the run        step              integer: optimizer steps done
 *                     epoch             integer: epochs done
 *                     batch             integer: micro-batches done of the epoch under way; 0 between epochs
 *                     seed              integer
 *                     preset            string or null
 *                     metrics           object: name to number (nt__record_number) of the newest validation; may be {}
 *                     stop_reason       null, "completed", "early_stop" or "requested"
 *                     anchor_hashes     null, or a list with a hash as hexadecimal digits, or null, for each group
 *   read by others    micro_batch (within the step), order (a checksum of that of the rows in the epoch under way),
 *                     seconds (of training), data, settings, horizon, config, devices, host, derived, layout, groups
 */

/* An empty one: no arrays, facts {}. */
nt_status nt__record_new(nt__record *out);
/* Adds an array under a name that the record does not have. The reference to the array passes to the record, also when
 * the call fails. The array must not change from here on: another thread may be writing it. */
nt_status nt__record_add(nt__record *record, const char *name, nt_array *array);
/* The same of a part of `whole`: its bytes from `at` on, as many as the type asks for. The caller's reference stays the
 * caller's; the record takes one of its own. */
nt_status nt__record_add_part(nt__record *record, const char *name, nt__type type, const void *at, nt_array *whole);
/* Sets a fact. The reference to the value passes to the record; NULL is taken for a lack of memory. */
nt_status nt__record_set(nt__record *record, const char *key, json_t *value);
/* NULL when the record has no array of that name. */
const nt__named_array *nt__record_find(const nt__record *record, const char *name);
/* A fact that must be there: NT_INVALID with a message that says what stands there instead. */
nt_status nt__record_integer(const nt__record *record, const char *key, int64_t *out);
/* Borrowed from the record. NULL in *out for null where `may_be_null`. */
nt_status nt__record_text(const nt__record *record, const char *key, bool may_be_null, const char **out);
/* Leaves a record of zeros. */
void nt__record_free(nt__record *record);

/* A number as JSON, exact for every double: infinities and nan, which JSON has not, are the strings "inf", "-inf" and
 * "nan". NULL when memory is short. */
json_t *nt__record_number(double number);
/* False: it is neither a number nor one of those strings. */
bool nt__record_number_of(const json_t *value, double *out);

/* ---- files of records (file.c) ---------------------------------------------------------------------------------- */

/* Writes the record beside `path`, syncs it and renames it, under the folder's lock; *hash becomes the content's. The
 * arrays are written from where they lie. What a kill leaves of it, nt__remove_leftovers removes. */
nt_status nt__record_write(const char *path, const nt__record *record, nt__hash *hash);
/* Reads a whole record and checks it before it gives anything out: every size, the hash that the file states of its
 * content, the format version. */
nt_status nt__record_read(const char *path, nt__record *out);
/* JSON of facts; NULL after a failure. A name that is there twice is one. */
nt_status nt__facts_read(const char *text, json_t **facts);
/* Reads the facts alone, without the arrays: the header is checked, the arrays' bytes are only counted. */
nt_status nt__record_read_facts(const char *path, json_t **facts);

/* ---- the manifest of a folder (manifest.c) ---------------------------------------------------------------------- */

#define NT__MANIFEST_FILE "checkpoints.json"
/* The id by which records of before there were runs are named. */
#define NT__LEGACY_RUN "legacy"

typedef struct nt__record_entry {
    const char *file;           /* its name within the folder */
    const char *run, *parent;   /* NULL: none is known */
    int64_t epoch, batch, step; /* as in the facts */
    const char *metric;         /* what it was scored by; NULL: not scored, or not known */
    bool scored, higher_is_better;
    double score;            /* finite where scored */
    const char *stop_reason; /* NULL: it was still running */
    int64_t
        sequence;   /* the place in the folder's order of writing: from 1, it only grows; 0: of before there was one */
    double written; /* seconds of the wall clock since 1970, to be shown: no order comes from it; 0: not known */
    bool hashed;    /* `hash` is known */
    nt__hash hash;
} nt__record_entry;

typedef struct nt__manifest {
    nt__record_entry *entries; /* in the order in which they were written, whatever the clock said */
    size_t count, capacity;
    nt__arena arena; /* their texts */
} nt__manifest;

/* Of a folder; no manifest is an empty one. */
nt_status nt__manifest_read(const char *folder, nt__manifest *out);
/* The same with the records that lie in the folder and that no manifest lists (unlisted.c). Free it in any case. */
nt_status nt__manifest_read_whole(const char *folder, nt__manifest *out);
nt_status nt__manifest_write(const char *folder, const nt__manifest *manifest);
void nt__manifest_free(nt__manifest *manifest);

/* A new run id: 8 letters and digits from the system's entropy. */
enum { NT__RUN_ID = 9 };
nt_status nt__run_id(char out[NT__RUN_ID]);

/* A run as its entries tell it. */
typedef struct nt__run_summary {
    const char *id; /* NT__LEGACY_RUN where the entries have none */
    size_t entries;
    const int64_t *epochs; /* ascending, one an entry */
    const char *metric;    /* of the entry written last that is scored; NULL: none is */
    bool higher_is_better, scored;
    double best; /* under that metric and mode */
    int64_t last_epoch;
    double written;     /* of the entry written last */
    size_t last;        /* place of that among the entries */
    const char *parent; /* of the newest entry; NULL: none */
} nt__run_summary;
/* All of a manifest, that of the entry written last first, the unnamed run last. The list lives in the manifest's
 * arena.
 */
nt_status nt__manifest_runs(nt__manifest *manifest, nt__run_summary **out, size_t *count);

/* ---- which records are kept (retention.c) ----------------------------------------------------------------------- */

typedef struct nt__retention {
    int64_t best;       /* how many of the best are kept: 1 or more */
    const char *metric; /* what they are ranked by */
    bool higher_is_better;
    bool keep_latest;     /* keep the newest record of the run, whatever it scored */
    bool whole_folder;    /* rank the records of all runs together; else those of this run alone */
    int64_t every_epochs; /* keep each record of an epoch that is a multiple of this; 0: none for that */
    int64_t every_steps;  /* the same of a step */
} nt__retention;

/* 3 of the best by val_loss, lower is better, and the newest, of this run. */
nt__retention nt__retention_default(void);
nt_status nt__retention_check(const nt__retention *retention);
/* Which entries are kept when `run` is the run that writes: kept[i] for each. Pure. */
void nt__retention_apply(const nt__retention *retention, const char *run, const nt__record_entry *entries, size_t count,
                         bool *kept);
/* Whether `fresh`, an entry of the run that writes, would be kept: without keep_latest it may not be. */
bool nt__retention_wants(const nt__retention *retention, const nt__record_entry *entries, size_t count,
                         const nt__record_entry *fresh);

/* ---- finding a record (source.c) -------------------------------------------------------------------------------- */

/* The newest record of a run (NULL: of the run that wrote last), or the best under the metric and mode of `retention`
 * (all_runs: of the folder). The entry is borrowed from the manifest. NULL: there is none. */
const nt__record_entry *nt__manifest_latest(const nt__manifest *manifest, const char *run);
const nt__record_entry *nt__manifest_best(const nt__manifest *manifest, const char *run, bool all_runs,
                                          const nt__retention *retention);

/* What a source of a record turned out to be. */
typedef struct nt__record_source {
    char *path; /* owned: nt__record_source_free */
    char *run;  /* of the record; NULL: not known */
    int64_t epoch;
    bool listed;          /* in the manifest of the folder that was asked */
    bool is_newest;       /* and the newest record of its run: a resume continues the run */
    int64_t newest_epoch; /* of that run */
} nt__record_source;
/* `text` is PATH, or RUN:CHECKPOINT with RUN latest, all or an id and CHECKPOINT best or latest, looked up
 * in `folder`, or FOLDER:CHECKPOINT: that of the run written last in another folder, as if its path were given. What is
 * not found is NT_NOT_FOUND with a message that lists what there is. A record whose file is gone, cut or changed is
 * refused by nt__record_load. */
nt_status nt__record_source_find(const char *text, const char *folder, const nt__retention *retention,
                                 nt__record_source *out);
/* The newest record of the run that wrote last. NT_OK with a path of NULL: the folder has none. */
nt_status nt__record_source_auto(const char *folder, nt__record_source *out);
void nt__record_source_free(nt__record_source *source);

/* nt__record_read, and the hash is compared with the one of the manifest beside the file where that lists it. A record
 * that cannot be used is refused with the name of the next older one of its run that can be. */
nt_status nt__record_load(const char *path, nt__record *out);

/* ---- the writer (writer.c) -------------------------------------------------------------------------------------- */

typedef struct nt__record_writer nt__record_writer;

typedef struct nt__record_writer_options {
    const char *folder;       /* made where it is not there */
    const char *run, *parent; /* parent NULL: a new run */
    nt__retention retention;  /* its texts are copied */
    bool locked;              /* the caller holds the folder's lock, and keeps it for longer than the writer lives */
    double retry_seconds;     /* how long to wait before a second attempt; 0: half a second */
    bool synchronous;         /* write within nt__record_writer_put, without a thread */
} nt__record_writer_options;

/* Reads the manifest and clears the folder of what a kill left: unfinished files go, and records that the manifest does
 * not list yet are listed, and kept or deleted by the retention of now. */
nt_status nt__record_writer_open(const nt__record_writer_options *options, nt__record_writer **out);
/* Whether a record with these metrics (of the facts) would be written: always with keep_latest. With the score's
 * errors. Waits for what is being written only without keep_latest. */
nt_status nt__record_writer_wants(nt__record_writer *writer, const json_t *facts, bool *wants);
/* Waits until there is room for one more record, which is at once unless one is being written and another waits: call
 * it before the state is copied, so that no more than two records are ever in memory. Gives the error of an earlier
 * record, once. */
nt_status nt__record_writer_ready(nt__record_writer *writer);
/* One record is being written and another waits: the disk is slower than what asks for records. False also while an
 * error waits to be given out. */
bool nt__record_writer_is_behind(nt__record_writer *writer);
/* An array for the record that is put next, whose elements are not set: in memory of a record that was written where
 * that has an array of this type, which is faster than new memory; the writer keeps the memory of one record for
 * that. The caller's reference. A writer of NULL has no memory
 * to give. */
nt_array *nt__record_writer_array(nt__record_writer *writer, nt_dtype dtype, nt_shape shape);
/* Hands a record over, also when the call fails: *record becomes zeros. Returns at once where nt__record_writer_ready
 * was called, else waits as that does; no record is dropped. `name`: of its file, NULL for the usual one. Records
 * are written in order, each with the manifest and the deletions that follow from it. A record takes the place of
 * the run's record of the same epoch and batch. What is wrong with the record or the name comes out at once, and
 * nothing is written. An error of the disk comes out at the next call, which does its own work all the same: the folder
 * is as it was before that record. */
nt_status nt__record_writer_put(nt__record_writer *writer, nt__record *record, const char *name);
/* Waits until everything is on the disk; the error of what could not be written, once. */
nt_status nt__record_writer_wait(nt__record_writer *writer);
/* Waits, and ends the thread. The status is that of nt__record_writer_wait. NULL is allowed. */
nt_status nt__record_writer_close(nt__record_writer *writer);

#endif
