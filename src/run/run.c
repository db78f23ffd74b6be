/* Making and freeing a handle: the setup sequence, cheapest checks first. */

#include "run/model_facts.h"
#include "run/plan.h"

/* ---- the data --------------------------------------------------------------------------------------------------- */

static nt_status check_train_split(const nt_run *run) {
    const nt__split *train = run->train;
    int64_t batches = nt__split_batches(train), accum = run->settings.accum, below = batches / accum * accum,
            above = below + accum;
    if (!run->experiment->hooks.loss && !run->settings.manual)
        return nt__fail(NT_INVALID,
                        "%s: experiment '%s' has a split 'train' but no loss hook: write .loss = loss in its NT_DEFINE",
                        run->experiment->file, run->experiment->name);
    if (train->options.batch > train->rows)
        return nt__fail(NT_INVALID,
                        "split 'train' has %lld rows, and a batch of %lld is larger than that: training needs full "
                        "batches, so choose one of at most %lld rows",
                        (long long)train->rows, (long long)train->options.batch, (long long)train->rows);
    if (!train->options.drop_last && train->rows % train->options.batch != 0)
        return nt__fail(NT_INVALID,
                        "split 'train' has %lld rows and batches of %lld, so its last batch is short, and training "
                        "needs full ones: add "
                        ".drop_last = true to its nt_split, or choose a batch that divides %lld",
                        (long long)train->rows, (long long)train->options.batch, (long long)train->rows);
    if (batches % accum == 0) return NT_OK;
    if (below == 0)
        return nt__fail(
            NT_INVALID,
            "split 'train' has %lld batches, and accum %lld is more than these: a step never spans two "
            "epochs. Choose an accum that divides %lld, or a batch or number of rows that gives %lld batches",
            (long long)batches, (long long)accum, (long long)batches, (long long)above);
    return nt__fail(
        NT_INVALID,
        "split 'train' has %lld batches, which accum %lld does not divide: a step never spans two epochs. The nearest "
        "numbers of batches that work are %lld and %lld: choose another accum, batch or number of rows",
        (long long)batches, (long long)accum, (long long)below, (long long)above);
}

static nt_status resolve(nt_run *run, const nt_run_options *options) {
    const nt__setting_owner owner = {run->experiment, run->fields, &run->arena};
    return nt__settings_resolve(&owner, options, &run->declared, &run->settings);
}

/* Settings and the hooks they come from see what the fields are now. */
static nt_status resolve_again(nt_run *run, const nt_run_options *options) {
    nt_status status = resolve(run, options);
    if (status == NT_OK) status = nt__resume_seed(run);
    return status == NT_OK ? nt__adopt_settings(run) : status;
}

static nt_status derive(nt_run *run, const nt_run_options *options) {
    nt_status status = nt__fields_derive(run);
    if (status == NT_OK) status = nt__adopt_again(run);
    if (status == NT_OK && run->experiment->hooks.derive) status = resolve_again(run, options);
    return status == NT_OK ? nt__resume_check(run) : status;
}

static nt_status build_data(nt_run *run, const nt_run_options *options) {
    run->data = nt__data_new();
    if (!run->data) return NT_OUT_OF_MEMORY;
    if (run->settings.no_data) return NT_OK;
    nt__hook_begin(run->experiment, "build_data");
    nt_status status = run->experiment->hooks.build_data(run->fields, run->data);
    nt_status kept = nt_data_status(run->data);
    if (kept != NT_OK) status = kept;
    if (status == NT_OK) status = nt__calls_status();
    if (status == NT_OK) status = nt__data_check(run->data);
    nt__data_complete(run->data);
    status = nt__hook_end(run->experiment, "build_data", status);
    if (status != NT_OK) return status;
    status = derive(run, options);
    if (status != NT_OK) return status;
    run->train = run->settings.evaluate_only ? NULL : nt__data_split_find(run->data, "train");
    run->laid_out_by_training = run->train != NULL;
    if (run->train) status = check_train_split(run);
    if (status == NT_OK && !run->is_plan && !run->settings.evaluate_only) status = nt__data_warn_shared(run->data);
    if (status == NT_OK) status = nt__ranking_check(run);
    return status == NT_OK ? nt__batch_list(run) : status;
}

/* ---- freeing ---------------------------------------------------------------------------------------------------- */

void nt__lay_out_undo(nt_run *run) {
    nt__device_free(run);
    run->device.parameters = run->device.accumulators = run->device.states = run->device.layer_states = NULL;
    run->rates = run->inputs = NULL;
    run->training = NULL;
    nt__programs_free(run);
    nt__device_claims_free(run);
    run->batch = (nt_batch){0};
    run->batch_fields = NULL;
    run->routes.train = run->routes.evaluation = run->routes.prediction = (nt__routes){0};
}

static void free_run(nt_run *run) {
    nt__record_writer_close(run->recording.writer);
    nt__record_free(&run->recording.record);
    json_decref(run->recording.data);
    nt__free(run->recording.source);
    nt__free(run->recording.restored);
    nt__free(run->recording.scores);
    nt__log_close(run->log);
    nt__unlock_folder(run->lock);
    nt__lay_out_undo(run);
    nt__device_fields_free(run);
    nt__text_free(&run->drift);
    nt__options_free(run->compile_options);
    nt__data_free(run->data);
    nt__forget_waiting(run);
    nt__metrics_free(run->results);
    nt__fields_free(run);
    nt__free(run->result_values);
    nt__transfers_free(run);
    nt__arena_free(&run->first);
    nt__arena_free(&run->arena);
    nt__free(run);
    nt__engine_release();
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

static nt_status trace_all(nt_run *run) {
    nt_status status = nt__trace_programs(run);
    return status == NT_OK ? nt__routes_list(run) : status;
}

nt_status nt__lay_out(nt_run *run) {
    nt_status status = trace_all(run);
    return status == NT_OK ? nt__device_setup(run) : status;
}

/* Without data the layout waits for the first prediction. */
static nt_status get_ready(nt_run *run, const nt_run_options *options) {
    if (run->settings.no_data) return nt__device_fields_upload(run);
    nt_status status = trace_all(run);
    if (status == NT_OK) status = nt__ranking_check_metric(run);
    if (status == NT_OK) status = nt__recording_describe(run);
    if (status == NT_OK && run->train) status = nt__settings_warn(&run->settings, run->experiment);
    if (status == NT_OK && run->train) status = nt__groups_warn(run);
    if (status == NT_OK && run->train) status = nt__rates_list(run);
    if (status == NT_OK && run->train) status = nt__schedules_bind(run, options->schedules);
    if (status == NT_OK) status = nt__device_fields_upload(run);
    if (status == NT_OK) status = nt__device_setup(run);
    if (status == NT_OK) status = nt__resume_take(run);
    if (status == NT_OK) status = nt__recording_tell_others(run);
    if (status == NT_OK) status = nt__load_waiting(run);
    return status == NT_OK ? nt__settle_waiting(run) : status;
}

/* What the layout, the rates and the schedules would be: one trace, no engine. */
static nt_status plan(nt_run *run, const nt_run_options *options) {
    nt_status status = nt__trace_model(run);
    if (status == NT_OK && run->train) status = nt__groups_resolve(run);
    if (status == NT_OK && run->train) status = nt__rates_list(run);
    return status == NT_OK && run->train ? nt__schedules_bind(run, options->schedules) : status;
}

static nt_status open_engine(nt_run *run) {
    nt_status status = nt__engine_open(1, &run->engine);
    return status == NT_OK ? nt__options_try(run->engine, run->compile_options) : status;
}

static nt_status set_up(nt_run *run, const void *fields, const nt_run_options *options) {
    nt_status status = nt__experiment_check(run->experiment);
    run->results = nt__metrics_new();
    if (status == NT_OK && !run->results) status = NT_OUT_OF_MEMORY;
    if (status == NT_OK) status = nt__fields_take(run, fields, options);
    if (status == NT_OK) status = resolve(run, options);
    if (status == NT_OK)
        status = nt__options_read(options->compile_options, options->compile_option_count, &run->compile_options);
    if (status == NT_OK) status = nt__origin_take(run, options);
    if (status == NT_OK && !run->is_plan) status = nt__resume_find(run, options);
    if (status == NT_OK && !run->is_plan) status = nt__weights_open(run, options);
    if (status == NT_OK && run->waiting.adopts) status = resolve_again(run, options);
    if (status == NT_OK && !run->is_plan) status = open_engine(run);
    if (status == NT_OK) nt__transfers_begin(run);
    if (status == NT_OK) status = build_data(run, options);
    if (status == NT_OK && !run->is_plan) status = nt__settings_check_trained(run, options);
    if (status == NT_OK) status = nt__device_fields_list(run);
    if (status == NT_OK) status = run->is_plan ? plan(run, options) : get_ready(run, options);
    nt__transfers_end(run);
    if (status != NT_OK || run->is_plan) return status;
    status = nt__transfers_tell(run, "the setup");
    return status == NT_OK && !run->settings.no_data ? nt__tell_setup(run) : status;
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
    run->experiment = experiment;
    run->lock = -1;
    run->is_plan = is_plan;
    run->registered = nt_experiment_find(experiment->name);
    run->seen_generation = nt__experiment_generation();
    run->on_event = options->on_event;
    run->event_context = options->event_context;
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

bool nt__is_laid_out(const nt_run *run) {
    return run->programs.forward != NULL;
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

nt_status nt__check_has_data(const nt_run *run, const char *what) {
    if (!run->settings.no_data) return NT_OK;
    return nt__fail(NT_INVALID,
                    "run '%s' was made with no_data, so it only predicts: it has no split to %s. Make one without "
                    "no_data",
                    run->experiment->name, what);
}

/* ---- what a handle says of itself ------------------------------------------------------------------------------- */

int64_t nt_run_step(const nt_run *run) {
    NT__USE(run, "nt_run_step");
    return used ? used->step : -1;
}

int64_t nt_run_epoch(const nt_run *run) {
    NT__USE(run, "nt_run_epoch");
    return used ? used->epoch : -1;
}

const char *nt_run_dir(const nt_run *run) {
    NT__USE(run, "nt_run_dir");
    return used ? used->settings.run_dir : NULL;
}

bool nt_run_has_split(const nt_run *run, const char *split) {
    NT__USE(run, "nt_run_has_split");
    if (!used || !nt__given(split, "nt_run_has_split", "split")) return false;
    return nt__data_split_find(run->data, split) != NULL;
}
