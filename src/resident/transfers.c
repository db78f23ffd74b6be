/* Transfers told in lines: what each step, each evaluation and the setup moved to and from the device.
 * Not here: the counters of the process.
 */
#include <string.h>

#include "resident/resident.h"

/* ---- counting --------------------------------------------------------------------------------------------------- */

static nt__tally_row *find_row(nt__tally *tally, bool upload, nt__purpose purpose, const char *name, size_t bytes) {
    for (size_t i = 0; i < tally->count; i++) {
        nt__tally_row *row = &tally->rows[i];
        bool same = row->upload == upload && row->purpose == purpose && row->bytes == bytes;
        if (same && strncmp(row->name, name, sizeof row->name - 1) == 0) return row;
    }
    return NULL;
}

static void add(nt__tally *tally, bool upload, nt__purpose purpose, const char *name, size_t bytes) {
    nt__tally_row *row = find_row(tally, upload, purpose, name, bytes);
    if (!row && !NT__GROW(tally->rows, tally->count, tally->capacity)) {
        tally->failed = true;
        return;
    }
    if (!row) {
        row = &tally->rows[tally->count++];
        *row = (nt__tally_row){.upload = upload, .purpose = purpose, .bytes = bytes};
        memcpy(row->name, name, strnlen(name, sizeof row->name - 1));
    }
    row->count++;
}

static void heard(bool upload, nt__purpose purpose, const char *name, size_t bytes, void *context) {
    nt__resident *resident = context;
    add(resident->transfers.now, upload, purpose, name, bytes);
}

static void clear(nt__tally *tally) {
    tally->count = 0;
    tally->failed = false;
}

/* What a failure left untold is forgotten. */
void nt__transfers_begin(nt__resident *resident) {
    if (!resident->task->settings.trace_transfers) return;
    clear(&resident->transfers.steps[0]);
    clear(&resident->transfers.steps[1]);
    clear(&resident->transfers.others);
    nt__transfers_at(resident, NT__NO_STEP);
    nt__transfers_watch(heard, resident);
}

void nt__transfers_end(nt__task *task) {
    if (task->settings.trace_transfers) nt__transfers_watch(NULL, NULL);
}

void nt__transfers_at(nt__resident *resident, int64_t step) {
    resident->transfers.now = step == NT__NO_STEP ? &resident->transfers.others : &resident->transfers.steps[step % 2];
}

/* The worker uploads ahead; a batch belongs to the step that takes it. */
void nt__transfers_take(nt__resident *resident, const nt__staged *staged) {
    if (!resident->task->settings.trace_transfers) return;
    for (size_t i = 0; i < staged->buffer_count; i++) {
        const nt__buffer *buffer = &staged->buffers[i];
        add(resident->transfers.now, true, NT__BATCH, buffer->name, buffer->bytes);
    }
}

/* ---- telling ---------------------------------------------------------------------------------------------------- */

static void add_direction(const nt__tally *tally, bool upload, nt__text *text) {
    size_t found = 0;
    nt__text_add(text, "%s: ", upload ? "up" : "down");
    for (size_t i = 0; i < tally->count; i++) {
        const nt__tally_row *row = &tally->rows[i];
        if (row->upload != upload) continue;
        nt__text_add(text, "%s%s %s ", found++ ? ", " : "", nt__purpose_name(row->purpose), row->name);
        if (row->count > 1) nt__text_add(text, "%llu x ", (unsigned long long)row->count);
        nt__text_add(text, "%zu B", row->bytes);
    }
    if (!found) nt__text_add(text, "nothing");
}

static nt_status tell(nt__tally *tally, const char *what) {
    nt__text text = {0};
    add_direction(tally, true, &text);
    nt__text_add(&text, "; ");
    add_direction(tally, false, &text);
    bool failed = text.failed || tally->failed;
    if (!failed) nt__notice("transfers of %s: %s", what, text.data);
    nt__text_free(&text);
    clear(tally);
    return failed ? nt__fail(NT_OUT_OF_MEMORY, "no memory for the line of the transfers of %s", what) : NT_OK;
}

nt_status nt__transfers_tell_step(nt__resident *resident, int64_t step) {
    if (!resident->task->settings.trace_transfers) return NT_OK;
    char *what = nt__sprintf("step %lld", (long long)step);
    if (!what) return NT_OUT_OF_MEMORY;
    nt_status status = tell(&resident->transfers.steps[step % 2], what);
    nt__free(what);
    return status;
}

nt_status nt__transfers_tell(nt__resident *resident, const char *what) {
    return resident->task->settings.trace_transfers ? tell(&resident->transfers.others, what) : NT_OK;
}

void nt__transfers_free(nt__resident *resident) {
    nt__free(resident->transfers.steps[0].rows);
    nt__free(resident->transfers.steps[1].rows);
    nt__free(resident->transfers.others.rows);
}
