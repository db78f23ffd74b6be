/* The place in training that a record is of, and whether it is one in the data of now: in the middle of an epoch the
 * rows must be those of then.
 * Not here: what else has become another (resume_changes.c), going there (restore.c).
 */
#include <string.h>

#include "checkpoint/records.h"

/* ---- what the record says --------------------------------------------------------------------------------------- */

static nt_status read_sums(const nt__record *record, nt__position *at) {
    json_t *sums;
    const struct {
        const char *name;
        double *at;
    } numbers[] = {{"loss_sum", &at->loss_sum},
                   {"loss_count", &at->loss_count},
                   {"step_sum", &at->step_sum},
                   {"step_count", &at->step_count}};
    nt_status status = nt__record_fact(record, "sums", JSON_OBJECT, &sums);
    for (size_t i = 0; status == NT_OK && i < sizeof numbers / sizeof *numbers; i++)
        if (!nt__record_number_of(json_object_get(sums, numbers[i].name), numbers[i].at))
            status = nt__fail(NT_INVALID, "the fact 'sums' of the checkpoint has no number '%s'", numbers[i].name);
    return status;
}

/* Compared when the epoch's order is made: see train.c. Records of before it was noted have none. */
static nt_status read_order(const nt__record *record, nt__position *at) {
    const char *order = json_string_value(json_object_get(record->facts, "order"));
    at->is_ordered = order && nt__hash_from_hex(order, &at->order);
    if (!order || at->is_ordered) return NT_OK;
    return nt__fail(NT_INVALID, "the fact 'order' of the checkpoint is '%s', which is no checksum", order);
}

nt_status nt__place_read(const nt__record *record, nt__place_of_record *out) {
    const struct {
        const char *name;
        int64_t *at;
    } integers[] = {{"step", &out->step},   {"epoch", &out->epoch},     {"batch", &out->batch},
                    {"accum", &out->accum}, {"batches", &out->batches}, {"micro_batch", &out->micro_batch}};
    nt_status status = read_sums(record, &out->at);
    if (status == NT_OK) status = read_order(record, &out->at);
    for (size_t i = 0; status == NT_OK && i < sizeof integers / sizeof *integers; i++) {
        status = nt__record_integer(record, integers[i].name, integers[i].at);
        if (status == NT_OK && *integers[i].at < 0)
            status = nt__fail(NT_INVALID, "the fact '%s' of the checkpoint is %lld", integers[i].name,
                              (long long)*integers[i].at);
    }
    return status;
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static bool is_of_train(const nt__changes *changes, const char *name) {
    (void)changes;
    return strncmp(name, "train.", strlen("train.")) == 0;
}

/* What decides which rows the batches of an epoch have, beside their order. */
static bool decides_rows(const nt__changes *changes, const char *name) {
    static const char *const names[] = {"rows", "first", "batch", "shuffle", "kind", "fields"};
    if (!is_of_train(changes, name)) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name + strlen("train."), names[i]) == 0) return true;
    return false;
}

/* A line for each difference; none: the rows are those of then, as far as the record tells. */
static void compare_rows(const nt__recording *recording, const nt__record *record, nt__text *lines) {
    nt__text decisive = {0};
    nt__changes changes = {json_object_get(record->facts, "data"), recording->data, decides_rows};
    bool others = changes.then && nt__list_changes(&changes, &decisive) > 0;
    nt__text_free(&decisive);
    changes.counts = is_of_train;
    if (others) nt__list_changes(&changes, lines);
}

static nt_status refuse_rows(const nt__traced *traced, const nt__place_of_record *p, const char *lines) {
    int64_t batches = nt__split_batches(traced->train);
    return nt__fail(NT_INVALID,
                    "the checkpoint is of batch %lld of %lld of an epoch, and split 'train' has %lld batches now%s, so "
                    "there is no such place in it: resume from the end of an epoch, or give it the data and the batch "
                    "size that it had%s%s",
                    (long long)p->batch, (long long)p->batches, (long long)batches,
                    batches == p->batches ? ", of other rows" : "", *lines ? ":" : "", lines);
}

static nt_status check_rows(const nt__recording *recording, const nt__record *record,
                            const nt__place_of_record *place) {
    nt__text lines = {0};
    compare_rows(recording, record, &lines);
    nt_status status = lines.failed ? NT_OUT_OF_MEMORY : NT_OK;
    bool others = lines.length || place->batches != nt__split_batches(recording->traced->train);
    if (status == NT_OK && others) status = refuse_rows(recording->traced, place, lines.data ? lines.data : "");
    nt__text_free(&lines);
    return status;
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

static nt_status check_accum(const nt__traced *traced, const nt__place_of_record *p) {
    int64_t accum = traced->task->settings.accum;
    bool is_same = p->micro_batch == 0 || p->accum == accum;
    if (p->batch % accum == p->micro_batch && is_same && p->batch <= nt__split_batches(traced->train)) return NT_OK;
    return nt__fail(
        NT_INVALID,
        "the checkpoint is of micro-batch %lld of an epoch in steps of %lld (accum), of which accum %lld makes "
        "another step: resume with --accum=%lld, or from the end of an epoch",
        (long long)p->batch, (long long)p->accum, (long long)accum, (long long)p->accum);
}

nt_status nt__place_check(const nt__recording *recording, const nt__record *record, const nt__place_of_record *place) {
    if (place->batch == 0) return NT_OK;
    nt_status status = check_rows(recording, record, place);
    return status == NT_OK ? check_accum(recording->traced, place) : status;
}
