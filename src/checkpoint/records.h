/* What is in a checkpoint, for those who write it and those who read it back.
 */
#ifndef NT_CHECKPOINT_RECORDS_H
#define NT_CHECKPOINT_RECORDS_H

#include "checkpoint/checkpoint.h"

/* After the first validation: by which value and in which direction, or that it has not the value. */
nt_status nt__ranking_tell(nt__recording *recording, const nt_value *values, size_t count);
/* Whether a validation without the metric is an error. */
bool nt__needs_metric(const nt__task *task);

/* ---- arrays (snapshot.c) ---------------------------------------------------------------------------------------- */

/* "device/FIELD". NULL when memory is short. */
const char *nt__record_slot_name(const nt__device_slot *slot, nt__arena *arena);

/* Buffers that are one array each, in order, until a call fails: of layers, with the counter of draws ("states/...");
 * the states of rules ("optimizer/GROUP/0.Adam.m"); the accumulators, which only a step under way has something in
 * ("accumulators/GROUP", "accumulated"). `name` is NULL when memory is short. */
typedef nt_status nt__record_use(void *context, const char *name, nt__buffer *buffer);
nt_status nt__record_layer_states(nt__resident *resident, nt__arena *names, nt__record_use *use, void *context);
nt_status nt__record_optimizer(nt__resident *resident, nt__arena *names, nt__record_use *use, void *context);
nt_status nt__record_accumulators(nt__resident *resident, nt__arena *names, nt__record_use *use, void *context);

/* What a checkpoint says of the run beside its arrays, each also made anew to be compared. NULL when memory is short.
 */
json_t *nt__record_layout(const nt__traced *traced);      /* a list of rows: path, group, offset, length, type */
json_t *nt__record_anchors(const nt__resident *resident); /* null, or one a group */
json_t *
nt__record_device_starts(const nt__resident *resident); /* of Device fields: name to hash of the value at setup */
json_t *nt__record_groups(const nt__traced *traced);    /* name to {rule, states: list of types} */

/* Names to texts (record_facts.c). Of the data "train.rows", "train.first", "train.batch" and so on for each split,
 * with a checksum of the arrays; takes milliseconds for them. */
json_t *nt__record_data(const nt__traced *traced);
/* Of what decides about steps, the best and the log: settings, the optimizer, schedules. */
json_t *nt__record_settings(const nt__resident *resident);
json_t *nt__record_hash(nt__hash hash); /* as text */

/* Two objects of texts. */
typedef struct nt__changes {
    json_t *then, *now;
    bool (*counts)(const struct nt__changes *changes, const char *name); /* NULL: all do */
} nt__changes;
/* A line "\n  name: then -> now" for each that counts and differs, "absent" where one has it not. How many. */
size_t nt__list_changes(const nt__changes *changes, nt__text *out);

/* Everything of the run at `at` as a checkpoint of host arrays. Waits for the programs in flight; the buffers stay as
 * they are. `stop_reason`: NULL while training goes on; `values` are those of the newest validation. */
nt_status nt__snapshot_take(nt__recording *recording, const nt__position *at, const char *stop_reason,
                            const nt_value *values, size_t count, nt__record *out);

/* ---- back (restore.c) ------------------------------------------------------------------------------------------- */

/* A fact that must be there, borrowed. */
nt_status nt__record_fact(const nt__record *record, const char *key, json_type type, json_t **out);
/* The place that a checkpoint is of (resume_place.c). */
typedef struct nt__place_of_record {
    int64_t step, epoch, batch, batches, accum, micro_batch;
    nt__position at;
} nt__place_of_record;
nt_status nt__place_read(const nt__record *record, nt__place_of_record *out);
/* Between epochs the data and the accumulation may have become others; in the middle of one they decide what is left of
 * it: NT_INVALID, with what differs. */
nt_status nt__place_check(const nt__recording *recording, const nt__record *record, const nt__place_of_record *place);
/* A warning that lists what else has become another since the checkpoint (resume_changes.c). */
nt_status nt__resume_warn_changes(const nt__recording *recording, const nt__record *record,
                                  const nt__place_of_record *place);

/* The GraphConst fields are those of the checkpoint. */
nt_status nt__restore_check_config(const nt__task *task, const nt__record *record);
/* Puts everything of the checkpoint into the run, which has its layout and its initial values: */
nt_status nt__restore_take(nt__recording *recording, const nt__record *record);

#endif
