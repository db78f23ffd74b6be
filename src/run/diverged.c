/* A loss that is not finite: whether its own batch, the gradient of the step before or too large a step is what to look
 * at. The parameters of then are gone when the loss is read, so the program is launched once more, with the initial
 * ones. Not here: the loop that reads the losses (train.c).
 */
#include <math.h>
#include <unistd.h>

#include "run/run_internal.h"

/* ---- a micro-batch once more, with the initial parameters ------------------------------------------------------- */

typedef struct tried {
    bool known, has_loss, has_gradient; /* it was launched; both are finite */
} tried;

static bool is_finite(nt__traced *traced, nt__buffer *buffer) {
    nt_array *copy = nt_array_new(buffer->type.dtype, buffer->type.shape);
    bool right = copy && nt__buffer_read(traced->engine, buffer, copy->data) == NT_OK &&
                 !nt__count_bad(buffer->type, copy->data, false);
    nt_array_free(copy);
    return right;
}

/* Of a manual step the gradient is seen by what it does to the parameters. */
static bool all_finite(nt__traced *traced, nt__buffer *buffers) {
    bool right = true;
    for (size_t g = 0; right && g < traced->layout.group_count; g++)
        right = traced->training[g].frozen || is_finite(traced, &buffers[g]);
    return right;
}

/* Results: the loss, what takes the place of arguments, then `others` that nobody wants, the count of a weighted loss
 * the first of them. */
static nt_status launch(nt__resident *resident, nt__staged *staged, nt__arena *arena, nt__buffer *loss,
                        nt__buffer *others) {
    size_t metrics = resident->traced->programs.train_metrics.result_count,
           before = nt__loss_result_count(resident->traced), norm;
    nt__buffer **results = nt__arena_alloc(arena, before + metrics, sizeof *results);
    nt__buffer **updated = nt__arena_alloc(
        arena, resident->traced->layout.group_count + resident->traced->state_count + 1, sizeof *updated);
    if (!results || !updated) return NT_OUT_OF_MEMORY;
    results[0] = loss;
    nt__bind_results(resident, results, updated, &norm);
    if (resident->traced->weighted) results[before - 1] = &others[0];
    for (size_t i = 0; i < metrics; i++) results[before + i] = &others[1 + i];
    nt__program *program =
        resident->task->settings.manual ? resident->traced->programs.manual_step : resident->traced->programs.gradient;
    return nt__launch(resident, program, &resident->traced->routes.train, staged, true, results);
}

/* Whether the parameters have room a second time, with the gradients that a launch makes and one copy on the host: what
 * is only to be told must not take the memory that the end of a run needs. */
static bool has_room(const nt__traced *traced) {
    enum { ALWAYS = 256 << 20 };
    double needed = 0, free_bytes = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    for (size_t g = 0; g < traced->layout.group_count; g++)
        needed += (double)traced->layout.groups[g].length * (double)nt_dtype_size(traced->layout.groups[g].dtype) *
                  (4 + (traced->task->settings.manual ? (double)nt__rule_state_count(&traced->training[g].rule) : 0));
    return needed < ALWAYS || needed < free_bytes / 2;
}

static tried try_batch(nt__resident *resident, nt__staged *staged) {
    tried found = {0};
    if (!has_room(resident->traced)) return found;
    nt__device own;
    nt__arena arena = {0};
    nt__buffer loss = {0};
    size_t count = 1 + resident->traced->programs.train_metrics.result_count;
    nt__buffer *others = nt__arena_alloc(&arena, count, sizeof *others);
    if (others && nt__device_swap(resident, &own) == NT_OK) {
        found.known = launch(resident, staged, &arena, &loss, others) == NT_OK;
        found.has_loss = found.known && is_finite(resident->traced, &loss);
        found.has_gradient = found.known && all_finite(resident->traced, resident->task->settings.manual
                                                                             ? resident->device.parameters
                                                                             : resident->device.accumulators);
        nt__device_swap_back(resident, &own);
    }
    nt__buffer_free(&loss);
    for (size_t i = 0; others && i < count; i++) nt__buffer_free(&others[i]);
    nt__arena_free(&arena);
    return found;
}

/* ---- the step before -------------------------------------------------------------------------------------------- */

/* Where the step before this micro-batch closed; step 0: there was none in this training. */
static nt__place step_before(const nt__traced *traced, const nt__divergence *d) {
    int64_t accum = traced->task->settings.accum, first = d->at.batch / accum * accum;
    nt__place closed = {d->at.step - 1, d->at.epoch, first - 1};
    if (closed.step <= d->began) return (nt__place){0};
    if (first > 0) return closed;
    return (nt__place){closed.step, closed.epoch - 1, nt__split_batches(traced->train) - 1};
}

/* Whether a micro-batch of the step has a finite loss and no finite gradient, with the initial parameters too. *batch
 * is which. Sources are not read again: that is seen by them. */
static bool has_bad_gradient(nt__resident *resident, const nt__place *closed, int64_t *batch) {
    nt__stream *stream;
    nt__staged *staged;
    bool bad = false;
    if (closed->step == 0 || resident->traced->train->source.read) return false;
    *batch = closed->batch - resident->task->settings.accum;
    nt_status status = nt__device_stream(resident, resident->traced->train, &resident->traced->routes.train,
                                         closed->epoch, *batch + 1, &stream);
    if (status != NT_OK) return false;
    while (!bad && ++*batch <= closed->batch && nt__stream_next(stream, &staged) == NT_OK && staged) {
        tried found = try_batch(resident, staged);
        bad = found.has_loss && !found.has_gradient;
        nt__staged_free(staged);
        if (bad) break;
    }
    nt__stream_close(stream);
    return bad;
}

/* ---- what to say ------------------------------------------------------------------------------------------------ */

static const char look_at_data[] =
    "look at the data of that batch for nan and infinity, at labels that are computed for "
    "one that is no class, ";
static const char look_at_gradient[] =
    "for what has a value and no finite gradient, as the root or the logarithm of 0, also if nt_where leaves it out";
static const char nothing_rolled_back[] = "Nothing is rolled back: start again, or with resume from a checkpoint";

/* A Device field whose number is not finite; NULL: none. */
static const nt_field_info *odd_field(const nt__task *task) {
    for (size_t i = 0; i < task->experiment->field_count; i++) {
        const nt_field_info *field = &task->experiment->fields[i];
        bool is_number = field->marker == NT_DEVICE && nt__field_is_number(field);
        if (is_number && !isfinite(nt__field_number(field, task->fields))) return field;
    }
    return NULL;
}

/* The largest of the groups: that of a frozen group is 0. */
static double largest_rate(const nt__resident *resident) {
    double largest = 0;
    for (size_t g = 0; g < resident->traced->layout.group_count; g++)
        if (resident->rates[g].value > largest) largest = resident->rates[g].value;
    return largest;
}

static void say_own_batch(const nt__task *task, const nt__divergence *d, nt__text *out) {
    bool is_first = d->at.step == 1 && !task->settings.manual;
    nt__text_add(out, "%s%s%sand at what the loss divides by or takes the logarithm of",
                 is_first ? ", before any update: " : ". The parameters are not the reason: ", look_at_data,
                 is_first ? "at the initial values, " : "");
    if (!is_first) nt__text_add(out, ". %s", nothing_rolled_back);
}

static void say_bad_gradient(const nt__divergence *d, const nt__place *before, int64_t batch, nt__text *out) {
    nt__text_add(out,
                 ": the parameters were not finite before step %lld, so the gradient of step %lld was not: look at its "
                 "batch",
                 (long long)d->at.step, (long long)before->step);
    nt__text_add(out, " (micro-batch %lld of epoch %lld), whose loss is finite, %s. %s", (long long)batch + 1,
                 (long long)before->epoch, look_at_gradient, nothing_rolled_back);
}

static void say_grown(const nt__resident *resident, const nt__divergence *d, nt__text *out) {
    bool clips = resident->task->settings.gradient_clip_norm > 0;
    nt__text_add(
        out,
        ". The losses had grown from %g to %g at step %lld: the steps are too large. %s, with a lower learning "
        "rate (now %g)%s",
        d->first_loss, d->before, (long long)d->at.step - 1, nothing_rolled_back, largest_rate(resident),
        clips ? "" : " or with gradient_clip_norm");
}

static void say_parameters(const nt__resident *resident, const nt__divergence *d, const nt__place *before,
                           nt__text *out) {
    if (before->step == 0) {
        nt__text_add(
            out, ", before any update of this training. Its batch has a finite loss with the initial parameters, so "
                 "those that training began with are not finite, or the loss is not at them: look at where they are "
                 "from");
        return;
    }
    nt__text_add(out,
                 ". Its batch has a finite loss with the initial parameters, so the parameters were not finite before "
                 "step %lld, or the loss is not at them. Look at the gradient of ",
                 (long long)d->at.step);
    nt__add_step(resident->task, before, out);
    nt__text_add(out, ": %s; if that is finite the step was too large. %s, with a lower learning rate (now %g)",
                 look_at_gradient, nothing_rolled_back, largest_rate(resident));
}

/* Nothing could be tried, as where memory is short. */
static void say_all(const nt__resident *resident, const nt__divergence *d, nt__text *out) {
    nt__text_add(
        out, ": %sand at the gradient of step %lld, %s. %s, with a lower learning rate (now %g) if the losses grew",
        look_at_data, (long long)d->at.step - 1, look_at_gradient, nothing_rolled_back, largest_rate(resident));
}

static bool has_grown(const nt__divergence *d) {
    return d->before > 10 * fabs(d->first_loss) && d->before > 1;
}

static void say_reason(nt__resident *resident, const nt__divergence *d, nt__text *out) {
    int64_t batch;
    nt__place before = step_before(resident->traced, d);
    bool is_first = d->at.step == 1 && !resident->task->settings.manual;
    tried found = {0};
    /* What is not finite stays so: finite ones now were finite then. */
    bool are_finite = is_first || all_finite(resident->traced, resident->device.parameters);
    if (!are_finite) found = try_batch(resident, d->staged);
    if (are_finite || (found.known && !found.has_loss))
        say_own_batch(resident->task, d, out);
    else if (found.known && has_bad_gradient(resident, &before, &batch))
        say_bad_gradient(d, &before, batch, out);
    else if (has_grown(d))
        say_grown(resident, d, out);
    else if (found.known)
        say_parameters(resident, d, &before, out);
    else
        say_all(resident, d, out);
}

nt_status nt__diverged(nt__resident *resident, const nt__divergence *d) {
    nt__text text = {0};
    const nt_field_info *field = odd_field(resident->task);
    nt__text_add(&text, "the loss is %g at step %lld of epoch %lld (micro-batch %lld of split 'train')",
                 nt__plain_nan(d->loss), (long long)d->at.step, (long long)d->at.epoch, (long long)d->at.batch + 1);
    if (field)
        nt__text_add(&text, ", and Device field %s is %g: give it a finite value", field->name,
                     nt__plain_nan(nt__field_number(field, resident->task->fields)));
    else
        say_reason(resident, d, &text);
    nt_status status = text.failed ? NT_OUT_OF_MEMORY : nt__fail(NT_DIVERGED, "%s", text.data);
    nt__text_free(&text);
    return status;
}
