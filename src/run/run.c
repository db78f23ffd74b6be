/* Making and freeing a handle: the setup sequence, cheapest checks first. */

#include "run/run_internal.h"
#include "base/files.h"

/* ---- the data --------------------------------------------------------------------------------------------------- */

static nt_status resolve(nt__task *task, const nt_run_options *options) {
    const nt__setting_owner owner = {task->experiment, task->fields, &task->arena};
    return nt__settings_resolve(&owner, options, &task->declared, &task->settings);
}

/* Settings and the hooks they come from see what the fields are now. */
static nt_status resolve_again(nt_run *run, const nt_run_options *options) {
    nt_status status = resolve(&run->task, options);
    if (status == NT_OK) status = nt__resume_seed(&run->recording);
    return status == NT_OK ? nt__adopt_settings(&run->waiting) : status;
}

static nt_status derive(nt_run *run, const nt_run_options *options) {
    nt_status status = nt__fields_derive(&run->task, run->traced.data, !run->waiting.adopts);
    if (status == NT_OK) status = nt__adopt_again(&run->waiting);
    if (status == NT_OK && run->task.experiment->hooks.derive) status = resolve_again(run, options);
    return status == NT_OK ? nt__resume_check(&run->recording) : status;
}

static nt_status build_data(nt_run *run, const nt_run_options *options) {
    run->traced.data = nt__data_new();
    if (!run->traced.data) return NT_OUT_OF_MEMORY;
    if (run->task.settings.no_data) return NT_OK;
    nt__hook_begin(run->task.experiment, "build_data");
    nt_status status = run->task.experiment->hooks.build_data(run->task.fields, run->traced.data);
    nt_status kept = nt_data_status(run->traced.data);
    if (kept != NT_OK) status = kept;
    if (status == NT_OK) status = nt__calls_status();
    if (status == NT_OK) status = nt__data_check(run->traced.data);
    nt__data_complete(run->traced.data);
    status = nt__hook_end(run->task.experiment, "build_data", status);
    if (status != NT_OK) return status;
    status = derive(run, options);
    if (status != NT_OK) return status;
    run->traced.train = run->task.settings.evaluate_only ? NULL : nt__data_split_find(run->traced.data, "train");
    run->traced.laid_out_by_training = run->traced.train != NULL;
    if (run->traced.train) status = nt__train_split_check(&run->traced);
    if (status == NT_OK && !run->task.is_plan && !run->task.settings.evaluate_only)
        status = nt__data_warn_shared(run->traced.data);
    if (status == NT_OK) status = nt__ranking_check(&run->traced);
    return status == NT_OK ? nt__batch_list(&run->traced) : status;
}

/* ---- freeing ---------------------------------------------------------------------------------------------------- */

void nt__lay_out_undo(nt_run *run) {
    nt__device_free(&run->resident);
    run->resident.device.parameters = run->resident.device.accumulators = run->resident.device.states =
        run->resident.device.layer_states = NULL;
    run->resident.rates = run->resident.inputs = NULL;
    run->resident.fixed = NULL;
    run->traced.training = NULL;
    nt__programs_free(&run->traced);
    nt__device_claims_free(&run->traced);
    run->traced.batch = (nt_batch){0};
    run->traced.batch_fields = NULL;
    run->traced.routes.train = run->traced.routes.evaluation = run->traced.routes.prediction = (nt__routes){0};
}

static void free_run(nt_run *run) {
    nt__recording_free(&run->recording);
    nt__log_close(run->reporting.log);
    nt__unlock_folder(run->reporting.lock);
    nt__lay_out_undo(run);
    nt__device_fields_free(&run->resident);
    nt__text_free(&run->reporting.drift);
    nt__options_free(run->traced.compile_options);
    nt__data_free(run->traced.data);
    nt__forget_waiting(&run->waiting);
    nt__metrics_free(run->results);
    nt__fields_free(&run->task);
    nt__free(run->result_values);
    nt__transfers_free(&run->resident);
    nt__arena_free(&run->first);
    nt__arena_free(&run->task.arena);
    nt__free(run);
    nt__engine_release();
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

static nt_status trace_all(nt_run *run) {
    nt_status status = nt__trace_programs(&run->traced);
    return status == NT_OK ? nt__routes_list(&run->traced) : status;
}

nt_status nt__lay_out(nt_run *run) {
    nt_status status = trace_all(run);
    return status == NT_OK ? nt__device_setup(&run->resident) : status;
}

/* Without data the layout waits for the first prediction. */
static nt_status get_ready(nt_run *run, const nt_run_options *options) {
    if (run->task.settings.no_data) return nt__device_fields_upload(&run->resident);
    nt_status status = trace_all(run);
    if (status == NT_OK) status = nt__ranking_check_metric(&run->traced);
    if (status == NT_OK) status = nt__recording_describe(&run->recording);
    if (status == NT_OK && run->traced.train) status = nt__settings_warn(&run->task.settings, run->task.experiment);
    if (status == NT_OK && run->traced.train) status = nt__groups_warn(&run->traced);
    if (status == NT_OK && run->traced.train) status = nt__rates_list(&run->resident);
    if (status == NT_OK && run->traced.train) status = nt__schedules_bind(&run->resident, options->schedules);
    if (status == NT_OK) status = nt__device_fields_upload(&run->resident);
    if (status == NT_OK) status = nt__device_setup(&run->resident);
    if (status == NT_OK) status = nt__resume_take(&run->recording);
    if (status == NT_OK) status = nt__recording_tell_others(&run->recording);
    if (status == NT_OK) status = nt__load_waiting(&run->waiting);
    if (status == NT_OK && run->waiting.restores)
        status = nt__restore_optimizer(&run->resident, &run->waiting.weights->record);
    return status == NT_OK ? nt__settle_waiting(&run->waiting) : status;
}

/* What the layout, the rates and the schedules would be: one trace, no engine. */
static nt_status plan(nt_run *run, const nt_run_options *options) {
    nt_status status = nt__trace_model(&run->traced);
    if (status == NT_OK && run->traced.train) status = nt__groups_resolve(&run->traced);
    if (status == NT_OK && run->traced.train) status = nt__rates_list(&run->resident);
    return status == NT_OK && run->traced.train ? nt__schedules_bind(&run->resident, options->schedules) : status;
}

static nt_status set_up(nt_run *run, const void *fields, const nt_run_options *options) {
    nt_status status = nt__experiment_check(run->task.experiment);
    run->results = nt__metrics_new();
    if (status == NT_OK && !run->results) status = NT_OUT_OF_MEMORY;
    if (status == NT_OK) status = nt__fields_take(&run->task, fields, options);
    if (status == NT_OK) status = resolve(&run->task, options);
    if (status == NT_OK)
        status =
            nt__options_read(options->compile_options, options->compile_option_count, &run->traced.compile_options);
    if (status == NT_OK) status = nt__origin_take(&run->reporting, options);
    if (status == NT_OK && !run->task.is_plan) status = nt__resume_find(&run->recording, options);
    if (status == NT_OK && !run->task.is_plan) status = nt__weights_open(&run->waiting, options);
    if (status == NT_OK && run->waiting.adopts) status = resolve_again(run, options);
    if (status == NT_OK && !run->task.is_plan) status = nt__device_open(&run->resident);
    if (status == NT_OK) nt__transfers_begin(&run->resident);
    if (status == NT_OK) status = build_data(run, options);
    if (status == NT_OK && !run->task.is_plan) status = nt__settings_check_trained(&run->traced, options);
    if (status == NT_OK) status = nt__device_fields_list(&run->traced);
    if (status == NT_OK) status = run->task.is_plan ? plan(run, options) : get_ready(run, options);
    nt__transfers_end(&run->task);
    if (status != NT_OK || run->task.is_plan) return status;
    status = nt__transfers_tell(&run->resident, "the setup");
    return status == NT_OK && !run->task.settings.no_data ? nt__tell_setup(&run->resident) : status;
}

/* Each part knows those that it stands on. */
static void join(nt_run *run) {
    nt__task *task = &run->task;
    nt__traced *traced = &run->traced;
    nt__resident *resident = &run->resident;
    traced->task = resident->task = task;
    resident->traced = traced;
    run->reporting = (nt__reporting){.task = task, .traced = traced, .resident = resident, .lock = -1};
    run->waiting = (nt__waiting){.task = task, .traced = traced, .resident = resident};
    run->recording = (nt__recording){
        .task = task, .traced = traced, .resident = resident, .reporting = &run->reporting, .waiting = &run->waiting};
}

static nt_status make(const nt_experiment *experiment, const void *fields, const nt_run_options *options, bool is_plan,
                      nt_run **out) {
    static const nt_run_options defaults;
    *out = NULL;
    if (!experiment)
        return nt__fail(NT_INVALID, "nt_run_new: experiment is NULL; E_experiment() of NT_DEFINE(E, ...) is one");
    nt_run *run = nt__alloc(1, sizeof *run);
    if (!run) return NT_OUT_OF_MEMORY;
    nt__engine_hold();
    if (!options) options = &defaults;
    join(run);
    run->task.experiment = experiment;
    run->task.is_plan = is_plan;
    run->task.registered = nt_experiment_find(experiment->name);
    run->reporting.seen_generation = nt__experiment_generation();
    run->task.on_event = options->on_event;
    run->task.event_context = options->event_context;
    nt_status status = set_up(run, fields, options);
    if (status != NT_OK) {
        free_run(run);
        return status;
    }
    *out = run;
    return NT_OK;
}

nt_status nt_run_new(const nt_experiment *experiment, const void *fields, const nt_run_options *options, nt_run **out) {
    return nt__given(out, "nt_run_new", "out") ? make(experiment, fields, options, false, out) : NT_INVALID;
}

nt_status nt__plan_new(const nt_experiment *experiment, const void *fields, const nt_run_options *options,
                       nt_run **out) {
    return make(experiment, fields, options, true, out);
}

void nt_run_free(nt_run *run) {
    if (!run) return;
    if (nt__use_begin(run, "nt_run_free", true))
        free_run(run);
    else
        nt__notice("%s; it is not freed", nt_error_message());
}

/* What is refused changes nothing: with buffers alive the programs stay, and closing says what is alive. */
nt_status nt_shutdown(void) {
    if (nt__engine_counts_now().all_buffers.live_count == 0) nt_cache_reset();
    return nt__engine_close();
}

nt_status nt__check_has_data(const nt__task *task, const char *what) {
    if (!task->settings.no_data) return NT_OK;
    return nt__fail(NT_INVALID,
                    "run '%s' was made with no_data, so it only predicts: it has no split to %s. Make one without "
                    "no_data",
                    task->experiment->name, what);
}
