/* Records of a run: its whole state at a place of its training, and back.
 * Not here: files of records, and which are kept (the folder record).
 */
#ifndef NT_RUN_RECORDS_H
#define NT_RUN_RECORDS_H

#include "record/record.h"
#include "run/run_internal.h"

/* ---- names of a record's arrays (snapshot.c) -------------------------------------------------------------------- */

/* "parameters/hidden.weight", "averages/..." (what evaluations have, where that differs), "states/..." of layers,
 * "optimizer/GROUP/0.Adam.m", within a step "accumulators/GROUP" and "accumulated", "device/FIELD". NULL when memory is
 * short. */
#define NT__RECORD_PARAMETERS "parameters/"
#define NT__RECORD_AVERAGES "averages/"
#define NT__RECORD_STATES "states/"
#define NT__RECORD_FIELDS "device/"
const char *nt__record_slot_name(const nt__device_slot *slot, nt__arena *arena);

/* Buffers that are one array each, in order, until a call fails: of layers, with the counter of draws; the states of
 * rules; the accumulators, which only a step under way has something in. `name` is NULL when memory is short. */
typedef nt_status nt__record_use(void *context, const char *name, nt__buffer *buffer);
nt_status nt__record_layer_states(nt_run *run, nt__arena *names, nt__record_use *use, void *context);
nt_status nt__record_optimizer(nt_run *run, nt__arena *names, nt__record_use *use, void *context);
nt_status nt__record_accumulators(nt_run *run, nt__arena *names, nt__record_use *use, void *context);

/* What a record says of the run beside its arrays, each also made anew to be compared. NULL when memory is short. */
json_t *nt__record_config(const nt_run *run);                   /* GraphConst fields: name to text */
json_t *nt__record_fields(const nt_run *run, nt_marker marker); /* those of a marker that are a number or a text */
json_t *nt__record_layout(const nt_run *run);                   /* a list of rows: path, group, offset, length, type */
json_t *nt__record_anchors(const nt_run *run);                  /* null, or one a group */
json_t *nt__record_device_starts(const nt_run *run); /* of Device fields: name to hash of the value at setup */
json_t *nt__record_groups(const nt_run *run);        /* name to {rule, states: list of types} */

/* Names to texts (record_facts.c). Of the data "train.rows", "train.first", "train.batch" and so on for each split,
 * with a checksum of the arrays; takes milliseconds for them. */
json_t *nt__record_data(const nt_run *run);
/* Of what decides about steps, the best and the log: settings, the optimizer, schedules. */
json_t *nt__record_settings(const nt_run *run);
json_t *nt__record_hash(nt__hash hash); /* as text */

/* Two objects of texts. */
typedef struct nt__changes {
    json_t *then, *now;
    bool (*counts)(const struct nt__changes *changes, const char *name); /* NULL: all do */
} nt__changes;
/* A line "\n  name: then -> now" for each that counts and differs, "absent" where one has it not. How many. */
size_t nt__list_changes(const nt__changes *changes, nt__text *out);

/* Everything of the run at `at` as a record of host arrays. Waits for the programs in flight; the buffers stay as they
 * are. `stop_reason`: NULL while training goes on; `values` are those of the newest validation. */
nt_status nt__snapshot_take(nt_run *run, const nt__position *at, const char *stop_reason, const nt_value *values,
                            size_t count, nt__record *out);

/* ---- back (restore.c) ------------------------------------------------------------------------------------------- */

/* A fact that must be there, borrowed. */
nt_status nt__record_fact(const nt__record *record, const char *key, json_type type, json_t **out);
/* The place that a record is of (resume_place.c). */
typedef struct nt__place_of_record {
    int64_t step, epoch, batch, batches, accum, micro_batch;
    nt__position at;
} nt__place_of_record;
nt_status nt__place_read(const nt__record *record, nt__place_of_record *out);
/* Between epochs the data and the accumulation may have become others; in the middle of one they decide what is left of
 * it: NT_INVALID, with what differs. */
nt_status nt__place_check(const nt_run *run, const nt__record *record, const nt__place_of_record *place);
/* A warning that lists what else has become another since the record (resume_changes.c). */
nt_status nt__resume_warn_changes(const nt_run *run, const nt__record *record, const nt__place_of_record *place);

/* The GraphConst fields are those of the record. */
nt_status nt__restore_check_config(const nt_run *run, const nt__record *record);
/* Puts everything of the record into the run, which has its layout and its initial values: */
nt_status nt__restore_take(nt_run *run, const nt__record *record);
/* The states of the rules alone, where rules and layout are those of the record. */
nt_status nt__restore_optimizer(nt_run *run, const nt__record *record);

#endif
