/* A run in words: the line when it is set up, and what nt_run_print shows.
 * Not here: fields as a table or a line (experiment/show.c).
 */
#include "run/run_internal.h"

/* ---- the setup -------------------------------------------------------------------------------------------------- */

/* A scheduled rate is its ratio times the schedule; one that stays has the ratio in its value. */
static void add_rate(const nt__rate *rate, nt__text *text) {
    if (!rate->binding) {
        nt__text_add(text, "%g", rate->value);
        return;
    }
    if (rate->ratio != 1) nt__text_add(text, "%g times ", rate->ratio);
    nt__schedule_print(&rate->binding->schedule, text);
}

static bool is_same_rate(const nt__rate *a, const nt__rate *b) {
    return a->binding == b->binding && a->ratio == b->ratio && a->value == b->value;
}

/* One rate where all groups that are trained have the same, else each with the name of its group. */
static void add_rates(const nt__resident *resident, nt__text *text) {
    const nt__rate *first = NULL;
    bool same = true;
    for (size_t g = 0; g < resident->traced->layout.group_count; g++) {
        if (resident->traced->training[g].frozen) continue;
        if (!first) first = &resident->rates[g];
        same = same && is_same_rate(first, &resident->rates[g]);
    }
    if (same && first) {
        nt__text_add(text, "%s", resident->traced->layout.group_count > 1 ? "; rate " : ", rate ");
        add_rate(first, text);
        return;
    }
    nt__text_add(text, "; rates");
    for (size_t g = 0, named = 0; g < resident->traced->layout.group_count; g++) {
        if (resident->traced->training[g].frozen) continue;
        nt__text_add(text, "%s%s ", named++ ? ", " : " ", resident->traced->layout.groups[g].name);
        add_rate(&resident->rates[g], text);
    }
}

/* Layer states are what forward declares; nothing is said where there is none. */
static void add_states(const nt__traced *traced, nt__text *text) {
    int64_t elements = 0;
    size_t count = 0;
    const nt__leaf *state;
    size_t place;
    for (; (state = nt__layer_state(traced, count, &place)); count++) elements += nt_shape_elements(state->type.shape);
    if (count)
        nt__text_add(text, ", %lld elements of layer state in %zu array%s", (long long)elements, count,
                     count == 1 ? "" : "s");
}

nt_status nt__tell_setup(const nt__resident *resident) {
    nt__text text = {0};
    int64_t elements = 0;
    for (size_t g = 0; g < resident->traced->layout.group_count; g++)
        elements += resident->traced->layout.groups[g].length;
    nt__text_add(&text, "%s: %lld parameter%s in %zu array%s", resident->task->experiment->name, (long long)elements,
                 elements == 1 ? "" : "s", resident->traced->layout.row_count,
                 resident->traced->layout.row_count == 1 ? "" : "s");
    add_states(resident->traced, &text);
    if (nt__compute_dtype(&resident->task->settings) != NT_F32)
        nt__text_add(&text, "; computes in %s", resident->task->settings.compute_dtype);
    if (resident->traced->train) {
        nt__text_add(&text, "; ");
        nt__rules_print(resident->traced, false, &text);
        add_rates(resident, &text);
        int64_t batches = nt__split_batches(resident->traced->train), steps = batches / resident->task->settings.accum;
        nt__text_add(&text, "; %lld batch%s of %lld, %lld step%s an epoch", (long long)batches,
                     batches == 1 ? "" : "es", (long long)resident->traced->batch_size, (long long)steps,
                     steps == 1 ? "" : "s");
    }
    nt_status status = text.failed ? NT_OUT_OF_MEMORY : NT_OK;
    if (status == NT_OK)
        nt__tell(
            resident->task,
            &(nt_event){.kind = NT_EVENT_SETUP, .text = text.data, .max_epochs = resident->task->settings.max_epochs});
    nt__text_free(&text);
    return status;
}

/* ---- printing --------------------------------------------------------------------------------------------------- */

static void add_settings(const nt__resident *resident, nt__text *out) {
    const nt__settings *s = &resident->task->settings;
    nt__text_add(out, "seed %lld, max_epochs %lld, accum %lld, gradient_clip_norm %g, learning_rate %g, ",
                 (long long)s->seed, (long long)s->max_epochs, (long long)s->accum, s->gradient_clip_norm,
                 s->learning_rate);
    nt__rules_print(resident->traced, false, out);
    nt__text_add(out, "; step %lld, epoch %lld", (long long)resident->step, (long long)resident->epoch);
}

nt_status nt_run_print(const nt_run *run, nt_form form, FILE *out) {
    NT__USE(run, "nt_run_print");
    if (!used || !nt__given(out, "nt_run_print", "out")) return NT_INVALID;
    const nt_experiment *experiment = run->task.experiment;
    nt__shown shown = {.experiment = experiment, .fields = run->task.fields, .derived = run->task.derived};
    nt__text text = {0};
    if (form == NT_LINE)
        nt__experiment_line(&shown, &text);
    else
        nt__text_add(&text, "%s (%s)", experiment->name, experiment->file);
    if (run->task.preset) nt__text_add(&text, ", preset %.64s", run->task.preset);
    if (form == NT_TABLE) {
        nt__text_add(&text, "\n");
        nt__experiment_table(&shown, &text);
    }
    nt__text_add(&text, form == NT_LINE ? "; " : "  ");
    add_settings(&run->resident, &text);
    if (form == NT_TABLE) nt__text_add(&text, "\n");
    return nt__text_write(&text, out);
}
