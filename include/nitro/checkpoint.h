/* Checkpoints on disk: what is in one, which runs a folder has any of, and finding one.
 *
 * A checkpoint is the full state of a run in one file, which training writes into run_dir. The file is a safetensors
 * file, so that other tools can read its arrays; it holds a hash of its own content. "checkpoints.json" in the folder
 * lists them. Nothing here reads an array, so all of it is fast however large the model is; what loads one
 * checks every byte of it first. nt_remat of control.h, which saves memory in a gradient, is something else.
 */
#ifndef NITRO_CHECKPOINT_H
#define NITRO_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nitro/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nt_checkpoint_metric {
    const char *name;
    double value;
} nt_checkpoint_metric;

/* What a checkpoint says of itself. */
typedef struct nt_checkpoint_about {
    const char *path;
    int64_t format_version;
    const char *framework_version; /* of nitro, which wrote it */
    const char *run;               /* its id; "legacy" of those that have none */
    const char *parent;            /* the checkpoint that the run was branched from; NULL: none */
    int64_t epoch;                 /* epochs done */
    int64_t batch;                 /* micro-batches done of the epoch under way; 0 between epochs */
    int64_t step;                  /* optimizer steps done */
    int64_t seed;
    const char *preset;                  /* NULL: none */
    const char *stop_reason;             /* "completed", "early_stop", "requested"; NULL: the run was still training */
    double written;                      /* seconds since 1970; 0: not known */
    const nt_checkpoint_metric *metrics; /* of the newest validation */
    size_t metric_count;
    const char *const *anchor_hashes; /* one a group, NULL for a group without an anchor; NULL: no group has one */
    size_t anchor_count;
} nt_checkpoint_about;

/* Reads what a file says of itself. NT_NOT_FOUND: there is none; NT_INVALID: it is no checkpoint, was cut, or has
 * another format version. Free with nt_checkpoint_info_free, which takes NULL. */
nt_status nt_checkpoint_info(const char *path, nt_checkpoint_about **out);
void nt_checkpoint_info_free(nt_checkpoint_about *info);

/* A run, as its checkpoints that are left tell it. */
typedef struct nt_checkpoint_run {
    const char *id; /* "legacy": those of before runs had ids */
    size_t checkpoints;
    const int64_t *epochs; /* of each of them, ascending */
    bool scored;           /* there is a score, and so the next three */
    const char *metric;    /* that the newest scored one was ranked by; NULL: not known */
    bool higher_is_better;
    double best;        /* by that metric */
    double written;     /* seconds since 1970, of the newest one; 0: not known */
    const char *parent; /* the checkpoint that the run was branched from; NULL: none */
} nt_checkpoint_run;
typedef struct nt_checkpoint_run_list {
    const nt_checkpoint_run *runs; /* the one written last is the first; legacy is the last */
    size_t count;
} nt_checkpoint_run_list;

/* The runs that a folder has checkpoints of; none in a folder without any, or that is not there. Free with
 * nt_checkpoint_runs_free, which takes NULL. */
nt_status nt_checkpoint_runs(const char *folder, nt_checkpoint_run_list **out);
void nt_checkpoint_runs_free(nt_checkpoint_run_list *runs);

/* Finds the checkpoint that a text names in a folder: PATH, or RUN:CHECKPOINT, where RUN is latest (the run written
 * last), all (with best) or the id of a run, and CHECKPOINT is best or latest; or FOLDER:CHECKPOINT, of the run written
 * last in another folder. The best is by `metric` ("val_loss"
 * if that is NULL) in one direction, among the checkpoints that were ranked by it. NT_NOT_FOUND with a message that
 * lists what the folder has; NT_INVALID, with the right spelling, for a text that says something else. Free with
 * nt_checkpoint_info_free. */
nt_status nt_checkpoint_find(const char *text, const char *folder, const char *metric, bool higher_is_better,
                             nt_checkpoint_about **out);

#ifdef __cplusplus
}
#endif

#endif
