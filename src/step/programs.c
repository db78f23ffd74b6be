/* The programs of a run: which there are, what goes into each, and what comes out. A trace costs milliseconds, so a
 * handle traces everything when it is made, and the programs' text is their key.
 * Not here: what all traces have in common (trace.c), programs that update (updates.c), the step of manual mode
 * (manual.c), evaluations (evaluations.c).
 */

#include "step/tracing.h"

/* ---- the parameters --------------------------------------------------------------------------------------------- */

/* The name is copied at once: a hook may write it into the same memory each time. */
static nt_status name_group(nt__task *task, const nt__leaf *leaf, const char **out) {
    nt__hook_begin(task->experiment, "param_group");
    const char *name = task->experiment->hooks.param_group(task->fields, leaf->path);
    nt_status status = nt__hook_end(task->experiment, "param_group", NT_OK);
    if (status != NT_OK) return status;
    if (name && !*name)
        return nt__fail(NT_INVALID,
                        "the param_group hook gave an empty name for parameter '%s'; NULL puts it into the group "
                        "'default'",
                        leaf->path);
    *out = nt__arena_strdup(&task->arena, name ? name : "default");
    return *out ? NT_OK : NT_OUT_OF_MEMORY;
}

static nt_status lay_out(nt__traced *traced) {
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(traced->model, &count);
    if (!traced->task->experiment->hooks.param_group) return nt__layout_build(leaves, count, NULL, &traced->layout);
    const char **groups = nt__arena_alloc(&traced->task->arena, count + 1, sizeof *groups);
    nt_status status = groups ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < count; i++) status = name_group(traced->task, &leaves[i], &groups[i]);
    return status == NT_OK ? nt__layout_build(leaves, count, groups, &traced->layout) : status;
}

static nt_status trace_model(nt__traced *traced) {
    nt__tracing t;
    nt_status status = nt__tracing_begin(&t, traced, traced->laid_out_by_training);
    if (status != NT_OK) return status;
    nt__tracing_forward(&t);
    nt__tracing_check_outputs(&t);
    if (traced->train && traced->task->experiment->hooks.loss) nt__tracing_loss(&t);
    traced->weighted = t.loss.value.trace && !traced->task->settings.manual;
    traced->count_dtype = nt_dtype_of(t.loss.count);
    if (traced->train && traced->task->settings.manual) nt__tracing_learn_train_step(&t);
    status = nt__trace_status(t.graph);
    if (status == NT_OK) status = nt__tracing_check_claims(&t);
    nt__tracing_end(&t);
    if (status != NT_OK) return status;
    return lay_out(traced);
}

/* ---- gradient --------------------------------------------------------------------------------------------------- */

/* One accumulator: the scaled gradient, added to what is there unless it is the first of its step. A choice and never a
 * product with 0: a nan must not survive the reset. With accum 1 every micro-batch is the first, and the old
 * accumulator is only memory to write to. Sums and counts are not scaled: the optimizer program divides. */
static nt_tensor accumulate(const nt__traced *traced, nt_tensor gradient, nt_tensor accumulator, nt_tensor first) {
    int64_t accum = traced->task->settings.accum;
    if (accum == 1) return gradient;
    nt_tensor scaled = traced->weighted ? gradient : nt_mul(gradient, 1.0 / (double)accum);
    return nt_where(first, scaled, nt_add(accumulator, scaled));
}

static nt_status warn_unreached(const nt__traced *traced, const bool *reached) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < traced->layout.row_count; i++)
        if (!reached[i] && !traced->training[traced->layout.rows[i].group].frozen)
            status = nt__warn("%s: the loss does not depend on parameter '%s'; its gradient is zero",
                              traced->task->experiment->name, traced->layout.rows[i].path);
    return status;
}

/* What train_metrics reports, or the outputs for host_train_metrics: results of the gradient program after the
 * accumulators. Neither is differentiated. */
static nt_status report_training(nt__tracing *t) {
    nt__traced *traced = t->traced;
    const nt_hooks *hooks = &traced->task->experiment->hooks;
    nt_device_metrics reported = {0};
    if (hooks->train_metrics) {
        nt__tracing_hook_begin(t, "train_metrics");
        hooks->train_metrics(traced->task->view, &reported, t->outputs, &traced->batch);
        nt__tracing_hook_end(t, "train_metrics");
    }
    nt_status status = nt__traced_metrics_keep(&traced->task->arena, &reported, &traced->programs.train_metrics);
    if (status == NT_OK && hooks->host_train_metrics)
        traced->programs.train_metrics.results[traced->programs.train_metrics.result_count++] =
            (nt__result){"outputs", t->outputs, {0}};
    nt__device_metrics_free(&reported);
    return status;
}

size_t nt__loss_result_count(const nt__traced *traced) {
    size_t trained = 0;
    for (size_t g = 0; g < traced->layout.group_count; g++) trained += !traced->training[g].frozen;
    size_t before = 1 + traced->programs.carried_count + trained;
    return before + (traced->task->settings.manual ? traced->state_count : traced->weighted ? 2 : 0);
}

/* Which of the model's states this trace changes: results of the program that has the loss. */
nt_status nt__carried_list(nt__traced *traced) {
    size_t count;
    nt_tensor value, next;
    nt__model_states(traced->model, &count);
    traced->programs.carried_count = 0;
    traced->programs.carried = nt__arena_alloc(&traced->task->arena, count + 1, sizeof *traced->programs.carried);
    if (!traced->programs.carried) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        if (nt__model_update(traced->model, i, &value, &next))
            traced->programs.carried[traced->programs.carried_count++] = i;
    return NT_OK;
}

void nt__carried_add(const nt__traced *traced, nt__result *results, nt__port *ports) {
    size_t count;
    const nt__leaf *states = nt__model_states(traced->model, &count);
    for (size_t i = 0; i < traced->programs.carried_count; i++) {
        nt_tensor value, next;
        size_t state = traced->programs.carried[i];
        nt__model_update(traced->model, state, &value, &next);
        results[i] = (nt__result){states[state].path, next, value};
        ports[i] = (nt__port){.name = states[state].path, .purpose = NT__LAYER_STATE};
    }
}

/* The count of the step so far, and that of this micro-batch, which its loss is reported with. */
static void add_counts(nt__tracing *t, nt_tensor first, nt__result *results, nt__port *ports) {
    nt_tensor before = nt__input(NT__ROLE_COUNT, 0, "count", (nt__type){t->traced->count_dtype, {0}});
    results[0] = (nt__result){"count", accumulate(t->traced, t->loss.count, before, first), before};
    ports[0] = (nt__port){.name = "count", .purpose = NT__ACCUMULATOR};
    results[1] = (nt__result){.name = "loss.count", .value = t->loss.count};
    ports[1] = (nt__port){.name = "loss.count", .purpose = NT__OUTPUT};
}

/* One for each group that is trained, then the counts of a weighted loss. */
static void add_accumulators(nt__tracing *t, const nt_tensor *gradients, nt__result *results, nt__port *ports) {
    const nt__layout *layout = &t->traced->layout;
    size_t count = 0;
    nt_tensor first = nt__input(NT__ROLE_FIRST, 0, "first", (nt__type){NT_BOOL, {0}});
    for (size_t g = 0; g < layout->group_count; g++) {
        const nt__group *group = &layout->groups[g];
        if (t->traced->training[g].frozen) continue;
        nt_tensor accumulator =
            nt__tracing_input(t, NT__ROLE_ACCUMULATOR, (int)g, "accumulator", group->name, nt__gradients_type(group));
        nt_tensor flat = nt__layout_gather(layout, (int)g, gradients);
        nt_tensor sum = accumulate(t->traced, flat, accumulator, first);
        results[count] = (nt__result){"accumulator", sum, accumulator};
        ports[count++] = (nt__port){.name = "accumulator", .purpose = NT__ACCUMULATOR};
    }
    if (t->traced->weighted) add_counts(t, first, results + count, ports + count);
}

static nt_status make_gradient(nt__tracing *t, bool *reached) {
    nt__traced *traced = t->traced;
    const nt__layout *layout = &traced->layout;
    nt_tensor *gradients = nt__arena_alloc(&t->arena, layout->row_count, sizeof *gradients);
    if (!gradients) return NT_OUT_OF_MEMORY;
    nt__tracing_forward(t);
    nt_tensor loss = nt__tracing_loss(t);
    nt__gradient(traced->weighted ? t->loss.sum : loss, t->leaves, layout->row_count, gradients, reached);
    nt_status status = nt__carried_list(traced);
    if (status == NT_OK) status = report_training(t);
    const nt__traced_metrics *metrics = &traced->programs.train_metrics;
    size_t before = nt__loss_result_count(traced), count = before + metrics->result_count;
    nt__result *results = nt__arena_alloc(&t->arena, count, sizeof *results);
    nt__port *ports = nt__arena_alloc(&t->arena, count, sizeof *ports);
    const char *accum = nt__arena_sprintf(&t->arena, "%lld", (long long)traced->task->settings.accum);
    if (status != NT_OK || !results || !ports || !accum) return status == NT_OK ? NT_OUT_OF_MEMORY : status;
    results[0] = (nt__result){.name = "loss", .value = loss};
    ports[0] = (nt__port){.name = "loss", .purpose = NT__OUTPUT};
    nt__carried_add(traced, results + 1, ports + 1);
    size_t carried = traced->programs.carried_count;
    add_accumulators(t, gradients, results + 1 + carried, ports + 1 + carried);
    for (size_t i = 0; i < metrics->result_count; i++) {
        results[before + i] = metrics->results[i];
        ports[before + i] = (nt__port){.name = metrics->results[i].name, .purpose = NT__OUTPUT};
    }
    const nt__part parts[] = {{"accum", accum}, nt__tracing_compute_part(t)};
    return nt__tracing_finish(t, "gradient", results, ports, count, parts, 2, &traced->programs.gradient);
}

nt_status nt__trace_gradient(nt__traced *traced) {
    nt__tracing t;
    nt_status status = nt__tracing_begin(&t, traced, true);
    if (status != NT_OK) return status;
    bool *reached = nt__arena_alloc(&t.arena, traced->layout.row_count, sizeof *reached);
    status = reached ? make_gradient(&t, reached) : NT_OUT_OF_MEMORY;
    if (status == NT_OK && !traced->is_check) status = warn_unreached(traced, reached);
    nt__tracing_end(&t);
    return status;
}

static nt_status trace_training(nt__traced *traced) {
    nt_status status = nt__trace_gradient(traced);
    return status == NT_OK ? nt__trace_optimizer(traced) : status;
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* Kept for predictions, whose arrays no split has; they outlive the trace. */
static nt_status keep_claims(nt__tracing *t) {
    size_t count;
    nt__arena *arena = &t->traced->task->arena;
    const nt__claim *claims = nt__claims(t->graph, &count);
    nt__claim *kept = nt__arena_alloc(arena, count + 1, sizeof *kept);
    if (!kept) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        kept[i] = claims[i];
        kept[i].site.file = nt__arena_strdup(arena, claims[i].site.file);
        kept[i].site.function = nt__arena_strdup(arena, claims[i].site.function);
        if (!kept[i].site.file || !kept[i].site.function) return NT_OUT_OF_MEMORY;
    }
    t->traced->programs.forward_claims = kept;
    t->traced->programs.forward_claim_count = count;
    return NT_OK;
}

/* forward as it is in evaluations, for the rows of the batch that is traced. */
static nt_status make_forward(nt__tracing *t, const char *rows, nt__program **out) {
    nt__result result = {.name = "outputs", .value = t->outputs};
    nt__port port = {.name = "outputs", .purpose = NT__OUTPUT};
    const nt__part parts[] = {nt__tracing_compute_part(t), {"rows", rows}};
    return nt__tracing_finish(t, "forward", &result, &port, 1, parts, rows ? 2 : 1, out);
}

static nt_status trace_forward(nt__traced *traced) {
    nt__tracing t;
    nt_status status = nt__tracing_begin(&t, traced, false);
    if (status != NT_OK) return status;
    nt__tracing_forward(&t);
    nt__tracing_check_same_outputs(&t);
    traced->programs.rows_are_apart = nt__rows_are_apart(t.outputs, NT__ROLE_BATCH, traced->batch_size);
    status = keep_claims(&t);
    if (status == NT_OK) status = make_forward(&t, NULL, &traced->programs.forward);
    nt__tracing_end(&t);
    return status;
}

/* A field that is read for so many rows only was not staged. */
static nt_status check_staged(const nt__traced *traced, const nt__program *program) {
    size_t count;
    const nt__argument *arguments = nt__program_arguments(program, &count);
    for (size_t i = 0; i < count; i++)
        if (arguments[i].role == NT__ROLE_BATCH && traced->routes.prediction.position[arguments[i].index] < 0)
            return nt__fail(NT_INVALID, "forward reads field '%s' of a short batch, and not of a full one",
                            arguments[i].name);
    return NT_OK;
}

static nt_status trace_short_forward(nt__traced *traced, int64_t rows, nt__program **out) {
    nt__tracing t;
    nt_status status = nt__tracing_begin(&t, traced, false);
    if (status != NT_OK) return status;
    traced->batch.rows = rows;
    nt__tracing_forward(&t);
    nt__tracing_check_same_outputs(&t);
    const char *text = nt__arena_sprintf(&t.arena, "%lld", (long long)rows);
    status = text ? make_forward(&t, text, out) : NT_OUT_OF_MEMORY;
    nt__tracing_end(&t);
    return status == NT_OK ? check_staged(traced, *out) : status;
}

nt_status nt__short_forward(nt__traced *traced, int64_t rows, nt__program **out) {
    nt__programs *programs = &traced->programs;
    if (programs->short_forward && programs->short_rows == rows) {
        *out = programs->short_forward;
        return NT_OK;
    }
    if (!programs->short_rows && !traced->task->settings.quiet)
        nt__notice("%s: in forward a row may depend on the other rows of its batch, so a last batch of a prediction "
                   "with fewer than %lld rows is not filled up: a program is compiled for its %lld rows",
                   traced->task->experiment->name, (long long)traced->batch_size, (long long)rows);
    nt__program_free(programs->short_forward);
    programs->short_forward = NULL;
    programs->short_rows = rows;
    nt_status status = trace_short_forward(traced, rows, &programs->short_forward);
    *out = programs->short_forward;
    return status == NT_OK ? status : nt__fail_in(status, "a last batch of %lld rows", (long long)rows);
}

bool nt__is_laid_out(const nt__traced *traced) {
    return traced->programs.forward != NULL;
}

/* Without data the first prediction says what the parameters are. */
nt_status nt__check_laid_out(const nt__traced *traced) {
    if (nt__is_laid_out(traced)) return NT_OK;
    return nt__fail(NT_INVALID,
                    "run '%s' has no parameters yet: it was made with no_data, and its first prediction says which "
                    "there are",
                    traced->task->experiment->name);
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

nt_status nt__trace_model(nt__traced *traced) {
    traced->model = nt__model_new((nt__model_roles){NT__ROLE_LEAF, NT__ROLE_LAYER_STATE, NT__ROLE_SEED});
    if (traced->model) nt__model_compute(traced->model, nt__compute_dtype(&traced->task->settings));
    return traced->model ? trace_model(traced) : NT_OUT_OF_MEMORY;
}

nt_status nt__trace_programs(nt__traced *traced) {
    nt_status status = nt__trace_model(traced);
    if (status == NT_OK) nt__batch_name_field(traced);
    if (status == NT_OK && traced->train) status = nt__groups_resolve(traced);
    if (status == NT_OK && traced->train)
        status = traced->task->settings.manual ? nt__trace_manual_step(traced) : trace_training(traced);
    if (status == NT_OK && traced->train) status = nt__trace_average(traced);
    if (status == NT_OK) status = trace_forward(traced);
    return status == NT_OK ? nt__trace_evaluations(traced) : status;
}

void nt__programs_free(nt__traced *traced) {
    nt__program_free(traced->programs.gradient);
    nt__program_free(traced->programs.optimizer);
    nt__program_free(traced->programs.average);
    nt__program_free(traced->programs.forward);
    nt__program_free(traced->programs.manual_step);
    traced->programs.gradient = traced->programs.optimizer = traced->programs.average = NULL;
    nt__program_free(traced->programs.short_forward);
    traced->programs.forward = traced->programs.manual_step = traced->programs.short_forward = NULL;
    traced->programs.short_rows = 0;
    for (size_t i = 0; i < traced->programs.evaluation_count; i++)
        nt__program_free(traced->programs.evaluations[i].program);
    traced->programs.evaluation_count = 0;
    nt__model_free(traced->model);
    traced->model = NULL;
    nt__layout_free(&traced->layout);
}
