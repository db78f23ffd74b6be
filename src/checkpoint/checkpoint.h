/* Checkpoints of a run: its whole state at a place of its training, written while it trains, and back.
 * Not here: files of them, the list of a folder and which are kept (the folder record), parameters alone (the folder
 * weights).
 */
#ifndef NT_CHECKPOINT_CHECKPOINT_H
#define NT_CHECKPOINT_CHECKPOINT_H

#include "report/report.h"
#include "weights/weights.h"

/* Those that a run writes, and the one that it goes on from. */
typedef struct nt__recording {
    nt__task *task;
    nt__traced *traced;
    nt__resident *resident;
    nt__reporting *reporting;
    nt__waiting *waiting;
    nt__record_writer *writer; /* open while it trains */
    char id[NT__RUN_ID];
    const char *parent; /* the checkpoint that it branched from; NULL: none */
    double written;     /* nt__seconds of the newest one */
    double started;     /* nt__seconds at which this call of nt_train began */
    double *scores;     /* the best that this training wrote, the best first, at most checkpoint_keep */
    size_t score_count, score_capacity;
    bool told_ranking;  /* by what they are ranked, or that they are not: said once */
    nt__record record;  /* to go on from, until the run is set up; of no facts: none */
    int64_t asked_seed; /* that of the settings, in place of which the run has the checkpoint's */
    json_t *data;       /* what checkpoints say of the data; NULL: it writes none */
    char *source;       /* path of that it went on from; NULL: the run began anew */
    char *restored;     /* the best one, with whose parameters training ended; NULL: they are its last ones */
} nt__recording;

/* ---- writing (checkpoints.c): from begin to end there is a writer, if there are checkpoints at all -------------- */

nt_status nt__recording_begin(nt__recording *recording);
/* What they say of the data, and what the one that the run goes on from is compared with. */
nt_status nt__recording_describe(nt__recording *recording);
/* How many of other runs the folder has: a warning if they may be deleted, else a notice. */
nt_status nt__recording_tell_others(const nt__recording *recording);
/* Whether one is to be written here, between two steps of an epoch. */
bool nt__record_is_due(const nt__recording *recording);
/* Writes one, unless the newest is of the same place. `reason`: why training ends here, NULL while it goes on. */
nt_status nt__record_state(nt__recording *recording, const nt__position *at, const char *reason, const nt_value *values,
                           size_t count);
/* Waits until all are on the disk. */
nt_status nt__recording_end(nt__recording *recording);
void nt__recording_free(nt__recording *recording);
/* The parameters of the best one, if they are asked for. Once those on the disk are known to be whole. */
nt_status nt__restore_best(nt__recording *recording);
/* Error when that was done. */
nt_status nt__check_not_restored(const nt__recording *recording);

/* ---- what they are ranked by (ranking.c) ------------------------------------------------------------------------ */

/* What cannot have a best although it is asked for: before the traces, and once all is traced, when names are known;
 * there it also says if there is no best, and what to give. */
nt_status nt__ranking_check(const nt__traced *traced);
nt_status nt__ranking_check_metric(const nt__traced *traced);

/* ---- going on from one (resume.c, restore.c) -------------------------------------------------------------------- */

/* The one to go on from, found and read before anything is built; its seed; its identity. */
nt_status nt__resume_find(nt__recording *recording, const nt_run_options *options);
/* The checkpoint's seed in place of the one of the settings, which is kept. */
nt_status nt__resume_seed(nt__recording *recording);
/* Once the settings and the fields have their values: what must be as it was then, and what is told of the rest. */
nt_status nt__resume_check(nt__recording *recording);
/* Puts the run where the checkpoint was, and forgets it. */
nt_status nt__resume_take(nt__recording *recording);
/* The states of the rules alone, if rules and layout are those of the checkpoint. */
nt_status nt__restore_optimizer(nt__resident *resident, const nt__record *record);

#endif
