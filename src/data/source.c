/* Sources: what is checked when a split gets one, and one read of it, with what is checked about what came.
 * Not here: which rows are asked for (pass.c), the threads that ask (workers.c).
 */
#include "data/data_internal.h"
#include "base/files.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

bool nt__split_has_source(const nt__split *split) {
    return split->source.read != NULL;
}

void nt__source_close(nt_source *source) {
    if (source->close) source->close(source->context);
    source->close = NULL;
}

/* ---- declaring -------------------------------------------------------------------------------------------------- */

static nt_status check_functions(const nt_source *source) {
    if (!source->read) return nt__fail(NT_INVALID, "there is no read function: set .read");
    if (source->in_order && !source->begin)
        return nt__fail(NT_INVALID,
                        "a source that is read in order needs a begin function: each pass starts at row 0 again");
    return NT_OK;
}

static nt_status check_rows(const nt__split *split, const nt_source *source) {
    int64_t first = split->options.first, limit = split->options.limit, rows = source->rows;
    if (rows < 1)
        return nt__fail(NT_INVALID,
                        "rows is %" PRId64 ": set .rows to the number of samples in a pass, which fixes the number of "
                        "batches",
                        rows);
    if (first < rows && limit <= rows) return NT_OK;
    return nt__fail(NT_INVALID, "the split has the rows from %" PRId64 " to %" PRId64 ", the source has %" PRId64,
                    first, limit ? limit : first, rows);
}

static nt_status check_order(const nt_split_options *options) {
    const char *asked = options->shuffle                   ? "shuffle"
                        : options->first || options->limit ? "first or limit"
                        : options->workers > 1             ? "more than one worker"
                                                           : NULL;
    if (!asked) return NT_OK;
    return nt__fail(NT_INVALID,
                    "the split asks for %s, but its source can only be read in order: leave that away, or let the "
                    "source read any row",
                    asked);
}

static nt_status check_type(const nt_source_field *field) {
    if ((size_t)field->dtype >= NT_DTYPE_COUNT)
        return nt__fail(NT_INVALID, "element type %d is none: pass one of nt_dtype", (int)field->dtype);
    if (field->sample.rank < 0 || field->sample.rank >= NT_MAX_RANK)
        return nt__fail(NT_INVALID, "the rank of a sample is %d, it must be between 0 and %d", field->sample.rank,
                        NT_MAX_RANK - 1);
    if (nt_shape_elements(field->sample) >= 0) return NT_OK;
    return nt__fail(NT_INVALID, "the shape of a sample has a negative size");
}

static nt_status check_fields(const nt_source *source) {
    if (source->field_count == 0) return nt__fail(NT_INVALID, "it has no field: set .fields and .field_count");
    for (size_t i = 0; i < source->field_count; i++) {
        const char *name = source->fields[i].name;
        nt_status status = check_type(&source->fields[i]);
        if (status != NT_OK) return nt__fail_in(status, "field '%s'", name ? name : "NULL");
    }
    return NT_OK;
}

nt_status nt__source_check(const nt__split *split, const nt_source *source) {
    nt_status status = check_functions(source);
    if (status == NT_OK) status = check_rows(split, source);
    if (status == NT_OK && source->in_order) status = check_order(&split->options);
    return status == NT_OK ? check_fields(source) : status;
}

/* ---- calling it ------------------------------------------------------------------------------------------------- */

/* That a run was asked to stop, or has diverged, is for nitro to say: the same word of a source is a failure to read.
 */
static nt_status status_of_source(nt_status status) {
    return status == NT_INTERRUPTED || status == NT_DIVERGED ? NT_IO : status;
}

/* The status of a function of the source, with a message in any case. */
static nt_status explain(const nt_source *source, const char *function, nt_status status) {
    if (status == NT_OK) return NT_OK;
    if (!*nt_error_message())
        nt__fail(status, "%s returned '%s' and no message; nt_fail gives one", function, nt_status_name(status));
    return nt__fail_in(status_of_source(status), "source '%s'", source->name);
}

/* A source that is read in order has one position: a thread that was left behind in it has to come out first. */
static nt_status wait_for_the_last_pass(const nt__split *split) {
    double limit = nt__seconds() + split->options.time_limit;
    while (split->source.in_order && atomic_load(split->left_behind)) {
        if (nt__seconds() > limit)
            return nt__fail(NT_IO,
                            "source '%s': a read of an earlier pass has not come back for %g seconds, so the next pass "
                            "cannot begin",
                            split->source.name, split->options.time_limit);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return NT_OK;
}

nt_status nt__source_begin(const nt__split *split, int64_t epoch, uint64_t seed) {
    const nt_source *source = &split->source;
    if (!source->begin) return NT_OK;
    nt_status status = wait_for_the_last_pass(split);
    if (status != NT_OK) return status;
    nt__hook_enter("begin", source->name);
    nt__fail_nothing();
    nt__calls_watch();
    status = source->begin(source->context, epoch, seed);
    if (status == NT_OK) status = nt__calls_status();
    nt__hook_leave();
    return explain(source, "begin", status);
}

/* ---- what came -------------------------------------------------------------------------------------------------- */

/* What a source is handed: copies of the batch's arrays, for it may change them. */
typedef struct handed {
    const nt__split *split;
    nt__arena arena;
    nt_request request; /* the source gets a copy of it */
    nt_array *arrays;
} handed;

/* More than any source gives back: the arrays are not its own. */
static const size_t held = SIZE_MAX / 2;

static nt_status hand_out(handed *h, int64_t epoch, int64_t index, nt_host_batch *batch) {
    const nt__split *split = h->split;
    const nt__rows *rows = nt__host_batch_rows(batch);
    int64_t *numbers = nt__arena_alloc(&h->arena, (size_t)rows->count, sizeof *numbers);
    h->arrays = nt__arena_alloc(&h->arena, split->field_count, sizeof *h->arrays);
    h->request = (nt_request){.epoch = epoch, .batch = index, .rows = numbers, .count = rows->count};
    h->request.fields = nt__arena_alloc(&h->arena, split->field_count, sizeof *h->request.fields);
    if (!numbers || !h->arrays || !h->request.fields) return NT_OUT_OF_MEMORY;
    for (int64_t i = 0; i < rows->count; i++) numbers[i] = nt__rows_at(split, rows, i);
    for (size_t i = 0; i < split->field_count; i++) {
        h->arrays[i] = *nt__host_batch_array(batch, i);
        h->arrays[i].references = held;
        h->request.fields[i] = &h->arrays[i];
    }
    return NT_OK;
}

static nt_status check_came(const nt__split_field *field, const nt_array *came, int64_t rows) {
    char wanted_text[NT__TYPE_TEXT], came_text[NT__TYPE_TEXT];
    nt__type wanted = nt__field_type(field, rows);
    nt__type_text(wanted, wanted_text);
    if (!came) return nt__fail(NT_INVALID, "field '%s' is missing (NULL), it must be %s", field->name, wanted_text);
    nt__type type = nt__array_type(came);
    if (nt__type_equal(type, wanted)) return NT_OK;
    return nt__fail(NT_INVALID, "field '%s' came as %s, it must be %s", field->name, nt__type_text(type, came_text),
                    wanted_text);
}

static nt_status check_claim(const nt__split_field *field, const nt_array *array, const int64_t *rows,
                             const struct nt__field_claim *claim) {
    nt_status status = NT_OK;
    size_t bytes = nt__field_row_bytes(field);
    const char *at = array->data;
    for (int64_t i = 0; status == NT_OK && i < array->shape.dims[0]; i++, at += bytes)
        status = nt__check_bounds(field, at, rows[i], &claim->bounds);
    return nt__advise(status, claim->advice);
}

static nt_status check_values(const nt__split_field *field, const nt_array *array, const int64_t *rows) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < field->claim_count; i++)
        status = check_claim(field, array, rows, &field->claims[i]);
    return status;
}

static nt_status take(const handed *h, nt_host_batch *batch) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < h->split->field_count; i++) {
        const nt__split_field *field = &h->split->fields[i];
        const nt_array *came = h->request.fields[i], *array = nt__host_batch_array(batch, i);
        status = check_came(field, came, h->request.count);
        if (status == NT_OK && came->data != array->data) memcpy(array->data, came->data, array->bytes);
        if (status == NT_OK) status = check_values(field, array, h->request.rows);
    }
    return status;
}

static void give_back(void *argument) {
    handed *h = argument;
    for (size_t i = 0; h->request.fields && i < h->split->field_count; i++)
        if (h->request.fields[i] != &h->arrays[i]) nt_array_free(h->request.fields[i]);
    nt__arena_free(&h->arena);
}

/* The only place where a worker may be cancelled, and where it is if the source has asked for it. */
static nt_status read_cancellable(const nt_source *source, nt_request *request) {
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    nt_status status = source->read(source->context, request);
    pthread_testcancel();
    pthread_setcancelstate(before, NULL);
    return status;
}

/* Arrays that hang from another list than the one that was handed out would be missed in silence. */
static nt_status check_request(const nt_request *before, const nt_request *after) {
    const char *changed = after->fields != before->fields ? "fields"
                          : after->rows != before->rows   ? "rows"
                          : after->count != before->count ? "count"
                          : after->batch != before->batch ? "batch"
                          : after->epoch != before->epoch ? "epoch"
                                                          : NULL;
    if (!changed) return NT_OK;
    return nt__fail(NT_INVALID,
                    "read changed %s of its request: it may fill the arrays in fields, or put others in their place, "
                    "and nothing else",
                    changed);
}

static nt_status call_read(handed *h, nt_host_batch *batch) {
    const nt_source *source = &h->split->source;
    nt_request request = h->request;
    nt__hook_enter("read", source->name);
    nt__fail_nothing();
    nt__calls_watch();
    nt_status status = read_cancellable(source, &request);
    if (status == NT_OK) status = check_request(&h->request, &request);
    if (status == NT_OK) status = nt__calls_status();
    nt__hook_leave();
    return explain(source, "read", status == NT_OK ? take(h, batch) : status);
}

/* What was handed out is given back also when the source ends the thread. */
nt_status nt__source_read(const nt__split *split, int64_t epoch, int64_t index, nt_host_batch *batch) {
    handed h = {.split = split};
    nt_status status = NT_OK;
    pthread_cleanup_push(give_back, &h);
    status = hand_out(&h, epoch, index, batch);
    if (status == NT_OK) status = call_read(&h, batch);
    pthread_cleanup_pop(1);
    return status;
}
