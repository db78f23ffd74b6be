/* The training loop. The loss of a micro-batch is read one micro-batch late, so that the device is never idle; that
 * readback proves its program has finished, and the micro-batch's buffers are freed then.
 */
#include <math.h>
#include <stdio.h>

#include "run/run_internal.h"
#include "base/files.h"

/* A micro-batch whose program was launched and whose loss was not read yet. */
typedef struct pending {
    nt__staged *staged;     /* NULL: none */
    nt__buffer loss, count; /* count: of a weighted loss */
    nt__buffer norm;        /* of the step's gradients, where it is asked for */
    nt__buffer *metrics;    /* what the gradient program returns for train metrics */
    int64_t step;           /* completed steps before it */
    bool closes;            /* is it the last micro-batch of its step? */
} pending;

typedef struct loop {
    nt_run *run;
    nt__stream *stream;
    nt__buffer **loss_results; /* of the program that has the loss */
    nt__buffer **optimizer_results, **norm_result;
    pending slots[2];
    int newest;
    nt__position at; /* in the epoch under way */
    double started;
    double first_batch; /* nt__seconds when the first micro-batch of this pass was there; 0: none was yet */
    int64_t steps_in_all;
    int64_t began;                  /* steps made before this training */
    double first_loss, newest_loss; /* of the steps of this training that are complete; nan: there is none */
    nt__step_metrics metrics;
} loop;

/* ---- one micro-batch -------------------------------------------------------------------------------------------- */

static nt_status diverged(const loop *l, const pending *p, double loss) {
    const nt__divergence found = {.loss = loss,
                                  .at = {p->step + 1, l->run->resident.epoch, p->staged->index},
                                  .staged = p->staged,
                                  .began = l->began,
                                  .first_loss = l->first_loss,
                                  .before = l->newest_loss};
    return nt__diverged(&l->run->resident, &found);
}

static void drop(const loop *l, pending *p) {
    nt__buffer_free(&p->loss);
    nt__buffer_free(&p->count);
    nt__buffer_free(&p->norm);
    for (size_t i = 0; i < l->run->traced.programs.train_metrics.result_count; i++) nt__buffer_free(&p->metrics[i]);
    nt__staged_free(p->staged);
    p->staged = NULL;
}

static nt_status tell_step(loop *l, const pending *p, double loss) {
    nt_run *run = l->run;
    nt_value *values = l->metrics.values;
    l->newest_loss = loss;
    if (isnan(l->first_loss)) l->first_loss = loss;
    values[NT__VALUE_LOSS].value = loss;
    nt__tell(&run->task, &(nt_event){.kind = NT_EVENT_STEP,
                                     .epoch = run->resident.epoch,
                                     .max_epochs = run->task.settings.max_epochs,
                                     .step = p->step + 1,
                                     .steps = l->steps_in_all,
                                     .batch = p->staged->index + 1,
                                     .batches = nt__split_batches(run->traced.train),
                                     .split = "train",
                                     .loss = loss,
                                     .seconds = nt__seconds() - l->started,
                                     .values = values + 1,
                                     .value_count = l->metrics.count - 1});
    return nt__log_values(&run->reporting, "train", p->step + 1, run->resident.epoch, values, l->metrics.count);
}

/* An engine's failure with its place in the run. */
static nt_status at_step(const loop *l, const pending *p, nt_status status) {
    return nt__fail_in(status, "step %lld of epoch %lld, micro-batch %lld of split 'train'", (long long)p->step + 1,
                       (long long)l->run->resident.epoch, (long long)p->staged->index + 1);
}

static nt_status read_scalar(loop *l, nt__buffer *buffer, double *out) {
    double element = 0;
    nt_status status = nt__buffer_read(l->run->traced.engine, buffer, &element);
    if (status == NT_OK) *out = nt__element_get(buffer->type.dtype, &element);
    return status;
}

static double quotient(double sum, double count) {
    return count > 0 ? sum / count : 0;
}

/* Adds the loss of a micro-batch to that of its epoch; a weighted one also to that of its step, which is what the step
 * then reports. */
static nt_status account(loop *l, pending *p, double *loss) {
    double count = 1;
    nt_status status = l->run->traced.weighted ? read_scalar(l, &p->count, &count) : NT_OK;
    l->at.loss_sum += *loss * count;
    l->at.loss_count += count;
    if (status != NT_OK || !l->run->traced.weighted) return status;
    l->at.step_sum += *loss * count;
    l->at.step_count += count;
    if (!p->closes) return NT_OK;
    *loss = quotient(l->at.step_sum, l->at.step_count);
    l->at.step_sum = l->at.step_count = 0;
    return NT_OK;
}

/* Of the step that the micro-batch closes. */
static nt_status read_norm(loop *l, pending *p) {
    if (!l->run->task.settings.gradient_norm) return NT_OK;
    return read_scalar(l, &p->norm, &l->metrics.values[NT__VALUE_NORM].value);
}

/* Reads the loss: checks it, logs it when it closes a step, frees the micro-batch. */
static nt_status complete(loop *l, pending *p) {
    if (!p->staged) return NT_OK;
    double loss = 0;
    nt__transfers_at(&l->run->resident, p->step + 1);
    nt_status status = read_scalar(l, &p->loss, &loss);
    bool is_right = isfinite(loss) || !l->run->task.settings.check_divergence;
    if (status == NT_OK && is_right) status = account(l, p, &loss);
    if (status != NT_OK) status = at_step(l, p, status);
    if (status == NT_OK && !is_right) status = diverged(l, p, loss);
    if (status == NT_OK && p->closes) {
        status = read_norm(l, p);
        if (status == NT_OK) status = nt__step_metrics_read(&l->run->traced, &l->metrics, p->metrics, p->staged);
        status = status == NT_OK ? tell_step(l, p, loss) : at_step(l, p, status);
    }
    if (status == NT_OK && p->closes) status = nt__transfers_tell_step(&l->run->resident, p->step + 1);
    nt__transfers_at(&l->run->resident, NT__NO_STEP);
    drop(l, p);
    return status;
}

/* Of a micro-batch: the gradient program, and the optimizer's when it closes the step; or the one of a manual step. */
static nt_status launch(loop *l, pending *p, bool first) {
    nt_run *run = l->run;
    nt__program *program = run->task.settings.manual ? run->traced.programs.manual_step : run->traced.programs.gradient;
    nt_status status =
        nt__launch(&run->resident, program, &run->traced.routes.train, p->staged, first, l->loss_results);
    if (status == NT_OK && p->closes && !run->task.settings.manual) {
        *l->norm_result = &p->norm;
        status = nt__launch(&run->resident, run->traced.programs.optimizer, NULL, NULL, false, l->optimizer_results);
    }
    if (status == NT_OK && p->closes)
        run->resident.closed = (nt__place){++run->resident.step, run->resident.epoch, p->staged->index};
    return status;
}

/* Launches the programs of one micro-batch, then completes the one before it. */
static nt_status micro_batch(loop *l, nt__staged *staged) {
    nt_run *run = l->run;
    int64_t position = l->at.seen++ % run->task.settings.accum;
    pending *before = &l->slots[l->newest], *now = &l->slots[l->newest = 1 - l->newest];
    now->staged = staged;
    now->step = run->resident.step;
    now->closes = position == run->task.settings.accum - 1;
    size_t before_metrics = nt__loss_result_count(&run->traced);
    l->loss_results[0] = &now->loss;
    if (run->traced.weighted) l->loss_results[before_metrics - 1] = &now->count;
    for (size_t i = 0; i < run->traced.programs.train_metrics.result_count; i++)
        l->loss_results[before_metrics + i] = &now->metrics[i];
    nt__transfers_at(&run->resident, now->step + 1);
    nt__transfers_take(&run->resident, staged);
    nt_status status = position == 0 ? nt__schedules_apply(&run->resident) : NT_OK;
    if (status == NT_OK) status = launch(l, now, position == 0);
    if (status != NT_OK) return at_step(l, now, status);
    return complete(l, before);
}

/* ---- one epoch -------------------------------------------------------------------------------------------------- */

static bool steps_are_done(const nt__resident *resident) {
    return resident->step >= resident->task->settings.max_steps;
}

/* Where a record goes on: what the log has of the epoch after this is not part of the steps. */
static void note_log(const loop *l) {
    if (l->run->reporting.log) nt__log_mark(l->run->reporting.log);
}

/* Between two steps. */
static bool is_at_step(const loop *l) {
    return l->at.seen % l->run->task.settings.accum == 0;
}

/* Of an epoch that a record may go on in: its order is there for as long as the stream is. */
static void note_order(loop *l) {
    if (l->at.is_ordered || !l->run->recording.writer) return;
    l->at.order = nt__stream_order(l->stream);
    l->at.is_ordered = true;
}

/* The loss of the newest micro-batch is part of where the epoch is. */
static nt_status record_within(loop *l) {
    note_order(l);
    nt_status status = complete(l, &l->slots[l->newest]);
    note_log(l);
    return status == NT_OK ? nt__record_state(&l->run->recording, &l->at, NULL, NULL, 0) : status;
}

static nt_status pass(loop *l) {
    nt_status status = NT_OK;
    while (status == NT_OK && !steps_are_done(&l->run->resident) && !nt__stop_is_set()) {
        nt__staged *staged;
        status = nt__stream_next(l->stream, &staged);
        if (status == NT_INTERRUPTED && nt__stop_is_set()) status = NT_OK; /* stopped while it waited */
        if (status != NT_OK || !staged) break;
        if (l->first_batch == 0) l->first_batch = nt__seconds();
        status = micro_batch(l, staged);
        if (status == NT_OK && is_at_step(l) && nt__record_is_due(&l->run->recording)) status = record_within(l);
    }
    /* The last loss is read on both normal ends; after a failure nothing of it is believed. */
    if (status == NT_OK) status = complete(l, &l->slots[l->newest]);
    for (int i = 0; i < 2; i++)
        if (l->slots[i].staged) drop(l, &l->slots[i]);
    return status;
}

/* A share of the epoch, and seconds, below which nobody wants to hear of waiting. */
static const double much_waiting = 0.25, long_waiting = 0.5;

static void advise(nt_run *run, double waited, double share) {
    const nt_split_options *options = &run->traced.train->options;
    if (run->told_waiting || run->task.settings.quiet || share < much_waiting || waited < long_waiting) return;
    run->told_waiting = true;
    nt__notice(
        "%s: epoch %lld waited for data %.0f %% of its time (%.1f s); without that it would be %.1f times as fast. "
        "Split 'train' has %d worker%s, %d host batches and %d device batches: %s",
        run->task.experiment->name, (long long)run->resident.epoch, 100 * share, waited, 1 / fmax(1 - share, 0.001),
        options->workers, options->workers == 1 ? "" : "s", options->host_batches, options->device_batches,
        run->traced.train->source.in_order ? "its source is read in order, so only a faster source helps"
        : options->workers == 1            ? "more .workers read at the same time"
                                           : "look at what the source spends its time on, or add .workers");
}

/* From the first micro-batch on, for which everything had to start up. */
static nt_status log_waiting(loop *l) {
    double waited = nt__stream_waited(l->stream), seconds = nt__seconds() - l->first_batch;
    if (l->first_batch == 0 || seconds <= 0) return NT_OK;
    double share = fmin(waited / seconds, 1);
    const nt_value value = {"data_wait_frac", share};
    advise(l->run, waited, share);
    return nt__log_values(&l->run->reporting, "data", l->run->resident.step, l->run->resident.epoch, &value, 1);
}

/* The rest of an epoch is what is left of the order that it began in. */
static nt_status check_order(const loop *l) {
    nt__hash now = nt__stream_order(l->stream);
    char before[33], digits[33];
    if (!l->at.is_ordered || nt__hash_equal(now, l->at.order)) return NT_OK;
    nt__hash_hex(l->at.order, before);
    nt__hash_hex(now, digits);
    return nt__fail(
        NT_INVALID,
        "the checkpoint is of batch %lld of epoch %lld, and the rows of split 'train' come in another order "
        "now (checksum %s -> %s), so there is no such place in it: resume from the end of an epoch",
        (long long)l->at.seen, (long long)l->run->resident.epoch, before, digits);
}

static nt_status train_pass(loop *l) {
    nt_run *run = l->run;
    l->first_batch = 0;
    nt_status status = nt__device_stream(&run->resident, run->traced.train, &run->traced.routes.train,
                                         run->resident.epoch, l->at.seen, &l->stream);
    if (status != NT_OK) return status;
    status = check_order(l);
    if (status == NT_OK) status = pass(l);
    note_log(l);
    if (status == NT_OK) status = log_waiting(l);
    if (l->at.seen < nt__split_batches(run->traced.train)) note_order(l);
    nt__stream_close(l->stream);
    return status;
}

static double epoch_loss(const loop *l) {
    return l->at.loss_count > 0 ? l->at.loss_sum / l->at.loss_count : NAN;
}

/* A validation that was asked to stop gives nothing: the epoch ends as one that was cut short. *ended: it was not. */
static nt_status validate_epoch(nt_run *run, bool *ended) {
    const nt__split *val = nt__data_split_find(run->traced.data, "val");
    *ended = !val;
    if (!val || nt__stop_is_set()) return NT_OK;
    nt_status status = nt__drift_look(&run->reporting, true);
    if (status == NT_OK) status = nt__evaluate_split(run, val);
    if (status == NT_INTERRUPTED && nt__stop_is_set()) return NT_OK;
    size_t count;
    const nt_value *values = nt__result_values(run, &count);
    *ended = status == NT_OK;
    return status == NT_OK
               ? nt__log_values(&run->reporting, "validate", run->resident.step, run->resident.epoch, values, count)
               : status;
}

/* An epoch that was cut short has no line of its own, as it has no validation. */
static nt_status log_epoch(const loop *l) {
    const nt_run *run = l->run;
    bool is_cut = nt__stop_is_set() && l->at.seen < nt__split_batches(run->traced.train);
    if (l->at.seen == 0 || is_cut) return NT_OK;
    const nt_value value = {"loss", epoch_loss(l)};
    return nt__log_values(&l->run->reporting, "epoch", run->resident.step, run->resident.epoch, &value, 1);
}

/* The next one, or the rest of the one that the run was resumed in. */
static void begin_epoch(loop *l) {
    nt_run *run = l->run;
    l->at = run->resident.resumed;
    run->resident.resumed = (nt__position){0};
    if (!l->at.is_open) run->resident.epoch++;
    l->at.is_open = true;
}

/* Whether training ends here, and why; NULL: it goes on. */
static const char *stop_reason(const nt__resident *resident, bool epoch_ended) {
    if (nt__stop_is_set()) return "requested";
    return steps_are_done(resident) || (epoch_ended && resident->epoch >= resident->task->settings.max_epochs)
               ? "completed"
               : NULL;
}

/* A whole epoch is over; of one that was cut short the record goes on in it. */
static nt_status record_epoch(loop *l, bool validated) {
    nt_run *run = l->run;
    bool ended = validated && l->at.seen == nt__split_batches(run->traced.train);
    if (ended) {
        l->at = (nt__position){0};
        note_log(l);
    }
    size_t count;
    const nt_value *values = nt__result_values(run, &count);
    return nt__record_state(&run->recording, &l->at, stop_reason(&run->resident, ended), values, count);
}

static nt_status epoch(loop *l) {
    nt_run *run = l->run;
    bool validated;
    double start = nt__seconds();
    begin_epoch(l);
    nt__results_forget(run);
    nt_status status = train_pass(l);
    if (status == NT_OK) status = log_epoch(l);
    if (status == NT_OK) status = nt__log_histograms(&run->reporting);
    if (status == NT_OK) status = validate_epoch(run, &validated);
    if (status != NT_OK) return status;
    if (!l->at.seen) return NT_OK; /* stopped before the first one: there is nothing to tell */
    size_t count;
    const nt_value *values = nt__result_values(run, &count);
    nt__tell(&run->task, &(nt_event){.kind = NT_EVENT_EPOCH,
                                     .epoch = run->resident.epoch,
                                     .max_epochs = run->task.settings.max_epochs,
                                     .step = run->resident.step,
                                     .steps = l->steps_in_all,
                                     .loss = epoch_loss(l),
                                     .seconds = nt__seconds() - start,
                                     .values = values,
                                     .value_count = count});
    return record_epoch(l, validated);
}

/* ---- a call of nt_train ----------------------------------------------------------------------------------------- */

void nt__bind_results(nt__resident *resident, nt__buffer **loss_results, nt__buffer **optimizer_results, size_t *norm) {
    size_t trained = 0, carried = resident->traced->programs.carried_count;
    for (size_t i = 0; i < carried; i++)
        loss_results[1 + i] = &resident->device.layer_states[resident->traced->programs.carried[i]];
    nt__buffer **accumulators = loss_results + 1 + carried;
    nt__buffer **updated = resident->task->settings.manual ? accumulators : optimizer_results;
    for (size_t g = 0; g < resident->traced->layout.group_count; g++) {
        if (resident->traced->training[g].frozen) continue;
        if (!resident->task->settings.manual) accumulators[trained] = &resident->device.accumulators[g];
        updated[trained++] = &resident->device.parameters[g];
    }
    if (resident->traced->weighted) accumulators[trained] = &resident->device.count;
    for (size_t s = 0; s < resident->traced->state_count; s++) updated[trained + s] = &resident->device.states[s];
    *norm = trained + resident->traced->state_count;
}

static nt_status bind_results(loop *l, nt__arena *arena) {
    nt_run *run = l->run;
    size_t metrics = run->traced.programs.train_metrics.result_count, norm;
    size_t results = nt__loss_result_count(&run->traced) + metrics;
    l->loss_results = nt__arena_alloc(arena, results, sizeof *l->loss_results);
    l->optimizer_results = nt__arena_alloc(arena, run->traced.layout.group_count + run->traced.state_count + 1,
                                           sizeof *l->optimizer_results);
    for (int i = 0; i < 2; i++) {
        l->slots[i].metrics = nt__arena_alloc(arena, metrics + 1, sizeof *l->slots[i].metrics);
        if (!l->slots[i].metrics) return NT_OUT_OF_MEMORY;
    }
    if (!l->loss_results || !l->optimizer_results) return NT_OUT_OF_MEMORY;
    nt__bind_results(&run->resident, l->loss_results, l->optimizer_results, &norm);
    l->norm_result = &l->optimizer_results[norm]; /* read where the program has it */
    return NT_OK;
}

/* The one that the run was resumed in has an end to come. */
static int64_t epochs_ended(const nt__resident *resident) {
    return resident->epoch - resident->resumed.is_open;
}

/* The step at which this call ends, which may be past the horizon. */
static int64_t steps_in_all(const nt__resident *resident) {
    int64_t all, an_epoch = nt__split_batches(resident->traced->train) / resident->task->settings.accum;
    if (__builtin_mul_overflow(an_epoch, resident->task->settings.max_epochs - epochs_ended(resident), &all) ||
        __builtin_add_overflow(all, resident->step - resident->resumed.seen / resident->task->settings.accum, &all))
        all = INT64_MAX;
    return resident->task->settings.max_steps < all ? resident->task->settings.max_steps : all;
}

static nt_status check_may_train(const nt_run *run) {
    nt_status status = nt__check_has_data(&run->task, "train on");
    if (status != NT_OK) return status;
    if (run->task.settings.evaluate_only)
        return nt__fail(
            NT_INVALID,
            "nt_train: run '%s' was made with evaluate_only, which gets nothing ready to train: make another "
            "run without it",
            run->task.experiment->name);
    if (!run->traced.train)
        return nt__fail(NT_INVALID,
                        "experiment '%s' has no split 'train' (its splits: %s), so this handle only evaluates",
                        run->task.experiment->name, nt__data_split_names(run->traced.data));
    return nt__check_not_restored(&run->recording);
}

/* Epoch by epoch, until there is nothing left of it or somebody asks for the end. */
static nt_status go_on(loop *l) {
    nt_run *run = l->run;
    nt_status status = NT_OK;
    nt__transfers_begin(&run->resident);
    while (status == NT_OK && epochs_ended(&run->resident) < run->task.settings.max_epochs &&
           !steps_are_done(&run->resident) && !nt__stop_is_set())
        status = epoch(l);
    nt__transfers_end(&run->task);
    if (status != NT_OK || !nt__stop_is_set()) return status;
    return nt__fail(NT_INTERRUPTED, "stopped as asked at step %lld of epoch %lld", (long long)run->resident.step,
                    (long long)run->resident.epoch);
}

/* A log or a record that fails must not hide what ended the run. */
static nt_status end_early(nt_run *run, nt_status status, double seconds) {
    nt__kept_error reason = {0};
    nt__error_keep(&reason, status);
    nt_status ended = nt__recording_end(&run->recording);
    if (ended == NT_OK && status == NT_INTERRUPTED) nt__restore_best(&run->recording);
    nt__log_end(&run->reporting, status, seconds);
    return nt__error_raise(&reason);
}

static nt_status train(nt_run *run) {
    nt_status status = check_may_train(run);
    if (status == NT_OK) status = nt__drift_tell(&run->reporting, true);
    if (status != NT_OK) return status;
    nt__arena arena = {0};
    loop l = {.run = run,
              .started = nt__seconds(),
              .steps_in_all = steps_in_all(&run->resident),
              .began = run->resident.step,
              .first_loss = NAN,
              .newest_loss = NAN};
    run->recording.started = l.started;
    status = bind_results(&l, &arena);
    if (status == NT_OK) status = nt__step_metrics_begin(&run->traced, &l.metrics);
    if (status == NT_OK) status = nt__log_begin(&run->reporting);
    if (status == NT_OK) status = nt__recording_begin(&run->recording);
    if (status == NT_OK) status = go_on(&l);
    nt__step_metrics_end(&l.metrics);
    nt__arena_free(&arena);
    double seconds = nt__seconds() - l.started;
    if (status == NT_OK) status = nt__recording_end(&run->recording);
    if (status == NT_OK) status = nt__restore_best(&run->recording);
    return status == NT_OK ? nt__log_end(&run->reporting, status, seconds) : end_early(run, status, seconds);
}

nt_status nt_train(nt_run *run) {
    NT__USE_ALONE(run, "nt_train");
    return used ? train(run) : NT_INVALID;
}

/* ---- more of it ------------------------------------------------------------------------------------------------- */

static int64_t add_limited(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* Epochs that hold so many steps: what progress is measured by. */
static int64_t epochs_of(const nt__traced *traced, int64_t steps) {
    int64_t an_epoch = traced->train ? nt__split_batches(traced->train) / traced->task->settings.accum : 0;
    return an_epoch > 0 ? (steps - 1) / an_epoch + 1 : 1;
}

nt_status nt_train_more(nt_run *run, int64_t epochs, int64_t steps) {
    NT__USE_ALONE(run, "nt_train_more");
    if (!used) return NT_INVALID;
    if (epochs < 0 || steps < 0 || (!epochs && !steps))
        return nt__fail(NT_INVALID, "nt_train_more: %lld epochs and %lld steps; one of them has to be 1 or more",
                        (long long)epochs, (long long)steps);
    nt__settings before = run->task.settings;
    run->task.settings.max_epochs =
        add_limited(epochs_ended(&run->resident), epochs ? epochs : epochs_of(&run->traced, steps));
    run->task.settings.max_steps = steps ? add_limited(run->resident.step, steps) : INT64_MAX;
    nt_status status = train(run);
    run->task.settings.max_epochs = before.max_epochs;
    run->task.settings.max_steps = before.max_steps;
    return status;
}
