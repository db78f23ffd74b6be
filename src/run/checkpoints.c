/* When training writes a record, and which are kept.
 * Not here: what is in one (snapshot.c), its file and the thread that writes it (the folder record).
 */
#include <math.h>
#include <string.h>

#include "run/folder.h"
#include "run/records.h"

bool nt__records(const nt_run *run) {
    return run->settings.checkpoint && !run->settings.no_log;
}

nt__retention nt__run_retention(const nt_run *run) {
    nt__retention kept = nt__retention_default();
    kept.best = run->settings.checkpoint_keep;
    kept.metric = run->settings.checkpoint_metric;
    kept.higher_is_better = strcmp(run->settings.checkpoint_mode, "max") == 0;
    kept.keep_latest = run->settings.checkpoint_keep_latest;
    return kept;
}

nt_status nt__recording_begin(nt_run *run) {
    nt__recording *recording = &run->recording;
    recording->written = nt__seconds();
    if (!nt__records(run)) return NT_OK;
    const nt__record_writer_options options = {.folder = run->settings.run_dir,
                                               .run = recording->id,
                                               .parent = recording->parent,
                                               .retention = nt__run_retention(run),
                                               .locked = true};
    return nt__record_writer_open(&options, &recording->writer);
}

bool nt__record_is_due(const nt_run *run) {
    const nt__settings *s = &run->settings;
    if (!run->recording.writer) return false;
    bool by_steps = s->checkpoint_every_steps > 0 && run->step % s->checkpoint_every_steps == 0;
    double minutes = (nt__seconds() - run->recording.written) / 60;
    return by_steps || (s->checkpoint_every_minutes > 0 && minutes >= s->checkpoint_every_minutes);
}

/* Values without the metric that nobody asked for by name are no reason to end a run: its records are not ranked. */
static size_t ranked(const nt_run *run, const nt_value *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(values[i].name, run->settings.checkpoint_metric) == 0) return count;
    return run->settings.from.checkpoint_metric == NT__FROM_DEFAULT ? 0 : count;
}

/* The disk's failure is that of an earlier record, which is told; training goes on, and the next one may find room. */
static nt_status tell_earlier(const nt_run *run, nt_status status) {
    if (status != NT_IO) return status;
    nt__notice("%s: %s", run->experiment->name, nt_error_message());
    nt__fail_nothing();
    return NT_OK;
}

static nt_status write_record(nt_run *run, nt__record *record) {
    nt__record_writer *writer = run->recording.writer;
    bool wants = false;
    nt_status status = tell_earlier(run, nt__record_writer_wants(writer, record->facts, &wants));
    if (status == NT_OK && wants) status = tell_earlier(run, nt__record_writer_put(writer, record, NULL));
    nt__record_free(record);
    return status;
}

nt_status nt__record_state(nt_run *run, const nt__position *at, const char *reason, const nt_value *values,
                           size_t count) {
    nt__recording *recording = &run->recording;
    nt__record record = {0};
    if (!recording->writer) return NT_OK;
    nt_status status = tell_earlier(run, nt__record_writer_ready(recording->writer));
    if (status == NT_OK) status = nt__snapshot_take(run, at, reason, values, ranked(run, values, count), &record);
    if (status == NT_OK) status = nt__transfers_tell(run, "a record");
    if (status == NT_OK) status = write_record(run, &record);
    nt__record_free(&record);
    recording->written = nt__seconds();
    return status;
}

nt_status nt__recording_end(nt_run *run) {
    nt_status status = nt__record_writer_close(run->recording.writer);
    run->recording.writer = NULL;
    return status;
}
