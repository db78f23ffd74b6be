/* The programs of a run: which there are, what goes into each, and what comes out. A trace costs milliseconds, so a
 * handle traces everything when it is made, and the programs' text is their key.
 * Not here: what all traces have in common (trace.c), programs that update (updates.c), the step of manual mode
 * (manual.c), evaluations (evaluations.c).
 */

#include "run/trace.h"

/* ---- the parameters --------------------------------------------------------------------------------------------- */

/* The name is copied at once: a hook may write it into the same memory each time. */
static nt_status name_group(nt_run *run, const nt__leaf *leaf, const char **out) {
    nt__hook_begin(run->experiment, "param_group");
    const char *name = run->experiment->hooks.param_group(run->fields, leaf->path);
    nt_status status = nt__hook_end(run->experiment, "param_group", NT_OK);
    if (status != NT_OK) return status;
    if (name && !*name)
        return nt__fail(NT_INVALID,
                        "the param_group hook gave an empty name for parameter '%s'; NULL puts it into the group "
                        "'default'",
                        leaf->path);
    *out = nt__arena_strdup(&run->arena, name ? name : "default");
    return *out ? NT_OK : NT_OUT_OF_MEMORY;
}

static nt_status lay_out(nt_run *run) {
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(run->model, &count);
    if (!run->experiment->hooks.param_group) return nt__layout_build(leaves, count, NULL, &run->layout);
    const char **groups = nt__arena_alloc(&run->arena, count + 1, sizeof *groups);
    nt_status status = groups ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < count; i++) status = name_group(run, &leaves[i], &groups[i]);
    return status == NT_OK ? nt__layout_build(leaves, count, groups, &run->layout) : status;
}

static nt_status trace_model(nt_run *run) {
    nt__tracing t;
    nt_status status = nt__tracing_begin(&t, run, run->laid_out_by_training);
    if (status != NT_OK) return status;
    nt__tracing_forward(&t);
    nt__tracing_check_outputs(&t);
    if (run->train && run->experiment->hooks.loss) nt__tracing_loss(&t);
    run->weighted = t.loss.value.trace && !run->settings.manual;
    run->count_dtype = nt_dtype_of(t.loss.count);
    if (run->train && run->settings.manual) nt__tracing_learn_train_step(&t);
    status = nt__trace_status(t.graph);
    if (status == NT_OK) status = nt__tracing_check_claims(&t);
    nt__tracing_end(&t);
    if (status != NT_OK) return status;
    return lay_out(run);
}

/* ---- gradient --------------------------------------------------------------------------------------------------- */

/* One accumulator: the scaled gradient, added to what is there unless it is the first of its step. A choice and never a
 * product with 0: a nan must not survive the reset. With accum 1 every micro-batch is the first, and the old
 * accumulator is only memory to write to. Sums and counts are not scaled: the optimizer program divides. */
static nt_tensor accumulate(const nt_run *run, nt_tensor gradient, nt_tensor accumulator, nt_tensor first) {
    int64_t accum = run->settings.accum;
    if (accum == 1) return gradient;
    nt_tensor scaled = run->weighted ? gradient : nt_mul(gradient, 1.0 / (double)accum);
    return nt_where(first, scaled, nt_add(accumulator, scaled));
}

static nt_status warn_unreached(const nt_run *run, const bool *reached) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < run->layout.row_count; i++)
        if (!reached[i] && !run->training[run->layout.rows[i].group].frozen)
            status = nt__warn("%s: the loss does not depend on parameter '%s'; its gradient is zero",
                              run->experiment->name, run->layout.rows[i].path);
    return status;
}

/* What train_metrics reports, or the outputs for host_train_metrics: results of the gradient program after the
 * accumulators. Neither is differentiated. */
static nt_status report_training(nt__tracing *t) {
    nt_run *run = t->run;
    const nt_hooks *hooks = &run->experiment->hooks;
    nt_device_metrics reported = {0};
    if (hooks->train_metrics) {
        nt__tracing_hook_begin(t, "train_metrics");
        hooks->train_metrics(run->view, &reported, t->outputs, &run->batch);
        nt__tracing_hook_end(t, "train_metrics");
    }
    nt_status status = nt__traced_metrics_keep(run, &reported, &run->programs.train_metrics);
    if (status == NT_OK && hooks->host_train_metrics)
        run->programs.train_metrics.results[run->programs.train_metrics.result_count++] =
            (nt__result){"outputs", t->outputs, {0}};
    nt__device_metrics_free(&reported);
    return status;
}

size_t nt__loss_result_count(const nt_run *run) {
    size_t trained = 0;
    for (size_t g = 0; g < run->layout.group_count; g++) trained += !run->training[g].frozen;
    size_t before = 1 + run->programs.carried_count + trained;
    return before + (run->settings.manual ? run->state_count : run->weighted ? 2 : 0);
}

/* Which of the model's states this trace changes: results of the program that has the loss. */
nt_status nt__carried_list(nt_run *run) {
    size_t count;
    nt_tensor value, next;
    nt__model_states(run->model, &count);
    run->programs.carried_count = 0;
    run->programs.carried = nt__arena_alloc(&run->arena, count + 1, sizeof *run->programs.carried);
    if (!run->programs.carried) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        if (nt__model_update(run->model, i, &value, &next)) run->programs.carried[run->programs.carried_count++] = i;
    return NT_OK;
}

void nt__carried_add(const nt_run *run, nt__result *results, nt__port *ports) {
    size_t count;
    const nt__leaf *states = nt__model_states(run->model, &count);
    for (size_t i = 0; i < run->programs.carried_count; i++) {
        nt_tensor value, next;
        size_t state = run->programs.carried[i];
        nt__model_update(run->model, state, &value, &next);
        results[i] = (nt__result){states[state].path, next, value};
        ports[i] = (nt__port){.name = states[state].path, .purpose = NT__LAYER_STATE};
    }
}

/* The count of the step so far, and that of this micro-batch, which its loss is reported with. */
static void add_counts(nt__tracing *t, nt_tensor first, nt__result *results, nt__port *ports) {
    nt_tensor before = nt__input(NT__ROLE_COUNT, 0, "count", (nt__type){t->run->count_dtype, {0}});
    results[0] = (nt__result){"count", accumulate(t->run, t->loss.count, before, first), before};
    ports[0] = (nt__port){.name = "count", .purpose = NT__ACCUMULATOR};
    results[1] = (nt__result){.name = "loss.count", .value = t->loss.count};
    ports[1] = (nt__port){.name = "loss.count", .purpose = NT__OUTPUT};
}

/* One for each group that is trained, then the counts of a weighted loss. */
static void add_accumulators(nt__tracing *t, const nt_tensor *gradients, nt__result *results, nt__port *ports) {
    const nt__layout *layout = &t->run->layout;
    size_t count = 0;
    nt_tensor first = nt__input(NT__ROLE_FIRST, 0, "first", (nt__type){NT_BOOL, {0}});
    for (size_t g = 0; g < layout->group_count; g++) {
        const nt__group *group = &layout->groups[g];
        if (t->run->training[g].frozen) continue;
        nt_tensor accumulator =
            nt__tracing_input(t, NT__ROLE_ACCUMULATOR, (int)g, "accumulator", group->name, nt__gradients_type(group));
        nt_tensor flat = nt__layout_gather(layout, (int)g, gradients);
        nt_tensor sum = accumulate(t->run, flat, accumulator, first);
        results[count] = (nt__result){"accumulator", sum, accumulator};
        ports[count++] = (nt__port){.name = "accumulator", .purpose = NT__ACCUMULATOR};
    }
    if (t->run->weighted) add_counts(t, first, results + count, ports + count);
}

static nt_status make_gradient(nt__tracing *t, bool *reached) {
    nt_run *run = t->run;
    const nt__layout *layout = &run->layout;
    nt_tensor *gradients = nt__arena_alloc(&t->arena, layout->row_count, sizeof *gradients);
    if (!gradients) return NT_OUT_OF_MEMORY;
    nt__tracing_forward(t);
    nt_tensor loss = nt__tracing_loss(t);
    nt__gradient(run->weighted ? t->loss.sum : loss, t->leaves, layout->row_count, gradients, reached);
    nt_status status = nt__carried_list(run);
    if (status == NT_OK) status = report_training(t);
    const nt__traced_metrics *metrics = &run->programs.train_metrics;
    size_t before = nt__loss_result_count(run), count = before + metrics->result_count;
    nt__result *results = nt__arena_alloc(&t->arena, count, sizeof *results);
    nt__port *ports = nt__arena_alloc(&t->arena, count, sizeof *ports);
    const char *accum = nt__arena_sprintf(&t->arena, "%lld", (long long)run->settings.accum);
    if (status != NT_OK || !results || !ports || !accum) return status == NT_OK ? NT_OUT_OF_MEMORY : status;
    results[0] = (nt__result){.name = "loss", .value = loss};
    ports[0] = (nt__port){.name = "loss", .purpose = NT__OUTPUT};
    nt__carried_add(run, results + 1, ports + 1);
    size_t carried = run->programs.carried_count;
    add_accumulators(t, gradients, results + 1 + carried, ports + 1 + carried);
    for (size_t i = 0; i < metrics->result_count; i++) {
        results[before + i] = metrics->results[i];
        ports[before + i] = (nt__port){.name = metrics->results[i].name, .purpose = NT__OUTPUT};
    }
    const nt__part parts[] = {{"accum", accum}, nt__tracing_compute_part(t)};
    return nt__tracing_finish(t, "gradient", results, ports, count, parts, 2, &run->programs.gradient);
}

nt_status nt__trace_gradient(nt_run *run) {
    nt__tracing t;
    nt_status status = nt__tracing_begin(&t, run, true);
    if (status != NT_OK) return status;
    bool *reached = nt__arena_alloc(&t.arena, run->layout.row_count, sizeof *reached);
    status = reached ? make_gradient(&t, reached) : NT_OUT_OF_MEMORY;
    if (status == NT_OK && !run->is_check) status = warn_unreached(run, reached);
    nt__tracing_end(&t);
    return status;
}

static nt_status trace_training(nt_run *run) {
    nt_status status = nt__trace_gradient(run);
    return status == NT_OK ? nt__trace_optimizer(run) : status;
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* Kept for predictions, whose arrays no split has; they outlive the trace. */
static nt_status keep_claims(nt__tracing *t) {
    size_t count;
    nt__arena *arena = &t->run->arena;
    const nt__claim *claims = nt__claims(t->graph, &count);
    nt__claim *kept = nt__arena_alloc(arena, count + 1, sizeof *kept);
    if (!kept) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        kept[i] = claims[i];
        kept[i].site.file = nt__arena_strdup(arena, claims[i].site.file);
        kept[i].site.function = nt__arena_strdup(arena, claims[i].site.function);
        if (!kept[i].site.file || !kept[i].site.function) return NT_OUT_OF_MEMORY;
    }
    t->run->programs.forward_claims = kept;
    t->run->programs.forward_claim_count = count;
    return NT_OK;
}

/* forward as it is in evaluations, for the rows of the batch that is traced. */
static nt_status make_forward(nt__tracing *t, const char *rows, nt__program **out) {
    nt__result result = {.name = "outputs", .value = t->outputs};
    nt__port port = {.name = "outputs", .purpose = NT__OUTPUT};
    const nt__part parts[] = {nt__tracing_compute_part(t), {"rows", rows}};
    return nt__tracing_finish(t, "forward", &result, &port, 1, parts, rows ? 2 : 1, out);
}

static nt_status trace_forward(nt_run *run) {
    nt__tracing t;
    nt_status status = nt__tracing_begin(&t, run, false);
    if (status != NT_OK) return status;
    nt__tracing_forward(&t);
    nt__tracing_check_same_outputs(&t);
    run->programs.rows_are_apart = nt__rows_are_apart(t.outputs, NT__ROLE_BATCH, run->batch_size);
    status = keep_claims(&t);
    if (status == NT_OK) status = make_forward(&t, NULL, &run->programs.forward);
    nt__tracing_end(&t);
    return status;
}

/* A field that is read for so many rows only was not staged. */
static nt_status check_staged(const nt_run *run, const nt__program *program) {
    size_t count;
    const nt__argument *arguments = nt__program_arguments(program, &count);
    for (size_t i = 0; i < count; i++)
        if (arguments[i].role == NT__ROLE_BATCH && run->routes.prediction.position[arguments[i].index] < 0)
            return nt__fail(NT_INVALID, "forward reads field '%s' of a short batch, and not of a full one",
                            arguments[i].name);
    return NT_OK;
}

static nt_status trace_short_forward(nt_run *run, int64_t rows, nt__program **out) {
    nt__tracing t;
    nt_status status = nt__tracing_begin(&t, run, false);
    if (status != NT_OK) return status;
    run->batch.rows = rows;
    nt__tracing_forward(&t);
    nt__tracing_check_same_outputs(&t);
    const char *text = nt__arena_sprintf(&t.arena, "%lld", (long long)rows);
    status = text ? make_forward(&t, text, out) : NT_OUT_OF_MEMORY;
    nt__tracing_end(&t);
    return status == NT_OK ? check_staged(run, *out) : status;
}

nt_status nt__short_forward(nt_run *run, int64_t rows, nt__program **out) {
    nt__programs *programs = &run->programs;
    if (programs->short_forward && programs->short_rows == rows) {
        *out = programs->short_forward;
        return NT_OK;
    }
    if (!programs->short_rows && !run->settings.quiet)
        nt__notice("%s: in forward a row may depend on the other rows of its batch, so a last batch of a prediction "
                   "with fewer than %lld rows is not filled up: a program is compiled for its %lld rows",
                   run->experiment->name, (long long)run->batch_size, (long long)rows);
    nt__program_free(programs->short_forward);
    programs->short_forward = NULL;
    programs->short_rows = rows;
    nt_status status = trace_short_forward(run, rows, &programs->short_forward);
    *out = programs->short_forward;
    return status == NT_OK ? status : nt__fail_in(status, "a last batch of %lld rows", (long long)rows);
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

nt_status nt__trace_model(nt_run *run) {
    run->model = nt__model_new((nt__model_roles){NT__ROLE_LEAF, NT__ROLE_LAYER_STATE, NT__ROLE_SEED});
    if (run->model) nt__model_compute(run->model, nt__compute_dtype(&run->settings));
    return run->model ? trace_model(run) : NT_OUT_OF_MEMORY;
}

nt_status nt__trace_programs(nt_run *run) {
    nt_status status = nt__trace_model(run);
    if (status == NT_OK) nt__batch_name_field(run);
    if (status == NT_OK && run->train) status = nt__groups_resolve(run);
    if (status == NT_OK && run->train) status = run->settings.manual ? nt__trace_manual_step(run) : trace_training(run);
    if (status == NT_OK && run->train) status = nt__trace_average(run);
    if (status == NT_OK) status = trace_forward(run);
    return status == NT_OK ? nt__trace_evaluations(run) : status;
}

void nt__programs_free(nt_run *run) {
    nt__program_free(run->programs.gradient);
    nt__program_free(run->programs.optimizer);
    nt__program_free(run->programs.average);
    nt__program_free(run->programs.forward);
    nt__program_free(run->programs.manual_step);
    run->programs.gradient = run->programs.optimizer = run->programs.average = NULL;
    nt__program_free(run->programs.short_forward);
    run->programs.forward = run->programs.manual_step = run->programs.short_forward = NULL;
    run->programs.short_rows = 0;
    for (size_t i = 0; i < run->programs.evaluation_count; i++) nt__program_free(run->programs.evaluations[i].program);
    run->programs.evaluation_count = 0;
    nt__model_free(run->model);
    run->model = NULL;
    nt__layout_free(&run->layout);
}
