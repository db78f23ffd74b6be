/* The hooks traced into programs. A trace costs milliseconds, so a handle traces everything when it is made and the
 * programs' text is their key. */
#include <string.h>

#include "run/run_internal.h"

/* One trace under way. */
typedef struct tracing {
    nt_run *run;
    nt__graph *graph;
    nt__arena arena;
    nt_tensor *parameters; /* one a group */
    nt_tensor *leaves;
    nt_tensor outputs;
} tracing;

/* ---- what every trace begins with ------------------------------------------------------------------------------- */

/* The view: GraphConst values as they are, Device fields as inputs, nothing of Host fields. */
static void fill_view(nt_run *run) {
    const nt_experiment *experiment = run->experiment;
    memset(run->view, 0, experiment->view_size);
    for (size_t i = 0; i < experiment->field_count; i++) {
        const nt_field_info *field = &experiment->fields[i];
        if (field->marker != NT_GRAPH_CONST) continue;
        memcpy((char *)run->view + field->view_offset, (const char *)run->fields + field->offset, field->size);
    }
    nt__device_fields_input(run);
}

static nt_tensor numbered_input(tracing *t, nt__role role, int index, const char *kind, const char *name,
                                nt__type type) {
    const char *full = nt__arena_sprintf(&t->arena, "%s.%s", kind, name);
    return full ? nt__input(role, index, full, type) : nt__trace_out_of_memory();
}

static bool input_parameters(tracing *t) {
    nt_run *run = t->run;
    const nt__layout *layout = &run->layout;
    t->parameters = nt__arena_alloc(&t->arena, layout->group_count + 1, sizeof *t->parameters);
    t->leaves = nt__arena_alloc(&t->arena, layout->row_count + 1, sizeof *t->leaves);
    if (!t->parameters || !t->leaves) return false;
    for (size_t g = 0; g < layout->group_count; g++) {
        const nt__group *group = &layout->groups[g];
        t->parameters[g] =
            numbered_input(t, NT__ROLE_PARAMETERS, (int)g, "parameters", group->name, nt__group_type(group));
    }
    for (size_t i = 0; i < layout->row_count; i++)
        t->leaves[i] = nt__layout_leaf(&layout->rows[i], t->parameters[layout->rows[i].group]);
    return true;
}

static nt_status begin(tracing *t, nt_run *run) {
    *t = (tracing){.run = run, .graph = nt__trace_begin()};
    if (!t->graph) return NT_OUT_OF_MEMORY;
    fill_view(run);
    memset(run->batch.inputs, 0, sizeof *run->batch.inputs * run->batch.count);
    run->batch.rows = 0;
    if (run->layout.row_count && !input_parameters(t)) {
        nt__trace_end(t->graph);
        nt__arena_free(&t->arena);
        return NT_OUT_OF_MEMORY;
    }
    nt__model_begin(run->model, run->layout.row_count ? t->leaves : NULL);
    return NT_OK;
}

static void end(tracing *t) {
    nt__trace_end(t->graph);
    nt__arena_free(&t->arena);
}

/* A hook may forget to return the result: what comes back then is zeros, or whatever the variable held. */
static void check_returned(tracing *t, const char *hook, nt_tensor returned) {
    const nt_experiment *experiment = t->run->experiment;
    if (nt__tensor_made(returned)) return;
    const char *what = nt__arena_sprintf(&t->arena, "%s: %s of %s", experiment->file, hook, experiment->name);
    if (!what)
        nt__trace_out_of_memory();
    else
        nt__trace_fail(
            (nt_site){0}, what,
            "it returned no tensor: what came back is not the result of an operation of this call; return what "
            "the last operation gave");
}

static void call_forward(tracing *t) {
    t->outputs = t->run->experiment->hooks.forward(t->run->view, t->run->model, &t->run->batch);
    check_returned(t, "forward", t->outputs);
    nt__model_end(t->run->model);
}

static nt_tensor call_loss(tracing *t) {
    nt_tensor loss = t->run->experiment->hooks.loss(t->run->view, t->outputs, &t->run->batch);
    check_returned(t, "loss", loss);
    return loss;
}

/* Checked before the loss is traced, which would find fault with it in its own words. */
static void check_outputs(tracing *t) {
    nt_run *run = t->run;
    run->outputs_type = (nt__type){nt_dtype_of(t->outputs), nt_shape_of(t->outputs)};
    nt_shape shape = run->outputs_type.shape;
    if (!nt__tensor_made(t->outputs) || (shape.rank >= 1 && shape.dims[0] == run->batch_size)) return;
    char text[NT__TYPE_TEXT];
    nt__trace_fail((nt_site){0}, run->experiment->file,
                   "forward returned %s; axis 0 of the outputs must be the %lld samples of the batch",
                   nt__type_text(run->outputs_type, text), (long long)run->batch_size);
}

/* ---- what every trace ends with --------------------------------------------------------------------------------- */

enum { MAX_EXTRA_PARTS = 4 };

static bool add_part(nt__arena *arena, nt__part *part, const char *kind, const char *name, const char *value) {
    part->name = nt__arena_sprintf(arena, "%s%s", kind, name);
    part->value = nt__arena_strdup(arena, value);
    return part->name && part->value;
}

static bool add_graph_consts(tracing *t, nt__part *parts, size_t *count) {
    const nt_experiment *experiment = t->run->experiment;
    bool right = true;
    for (size_t i = 0; right && i < experiment->field_count; i++) {
        if (experiment->fields[i].marker != NT_GRAPH_CONST) continue;
        nt__text value = {0};
        nt__field_print(&experiment->fields[i], t->run->fields, &value);
        right = !value.failed &&
                add_part(&t->arena, &parts[(*count)++], "GraphConst ", experiment->fields[i].name, value.data);
        nt__text_free(&value);
    }
    return right;
}

static bool add_arguments(tracing *t, const nt__printed *printed, nt__part *parts, size_t *count) {
    bool right = true;
    char text[NT__TYPE_TEXT];
    for (size_t i = 0; right && i < printed->argument_count; i++) {
        const nt__argument *argument = &printed->arguments[i];
        if (argument->role != NT__ROLE_BATCH && argument->role != NT__ROLE_PARAMETERS) continue;
        const char *kind = argument->role == NT__ROLE_BATCH ? "field " : "";
        right = add_part(&t->arena, &parts[(*count)++], kind, argument->name, nt__type_text(argument->type, text));
    }
    return right;
}

/* Prints the trace and makes a program of it. `extra` are parts beyond the GraphConst values and the arguments. */
static nt_status finish(tracing *t, const char *role, const nt__result *results, const nt__port *ports, size_t count,
                        const nt__part *extra, size_t extra_count, nt__program **out) {
    nt__printed printed;
    nt_status status = nt__print(role, results, count, &printed);
    if (status != NT_OK) return status;
    size_t most = t->run->experiment->field_count + printed.argument_count + extra_count, part_count = 0;
    nt__part *parts = nt__arena_alloc(&t->arena, most, sizeof *parts);
    nt__port *typed = nt__arena_alloc(&t->arena, count, sizeof *typed);
    bool right =
        parts && typed && add_graph_consts(t, parts, &part_count) && add_arguments(t, &printed, parts, &part_count);
    if (!right) {
        nt__printed_free(&printed);
        return NT_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < extra_count; i++) parts[part_count + i] = extra[i];
    for (size_t i = 0; i < count; i++) {
        typed[i] = ports[i];
        typed[i].type = (nt__type){nt_dtype_of(results[i].value), nt_shape_of(results[i].value)};
        typed[i].donated_to = -1;
    }
    nt__program_spec spec = {.role = role,
                             .experiment = t->run->experiment->name,
                             .results = typed,
                             .result_count = count,
                             .parts = parts,
                             .part_count = part_count + extra_count,
                             .options = t->run->compile_options,
                             .quiet = t->run->settings.quiet,
                             .no_disk = t->run->settings.no_disk_cache,
                             .failure_folder = t->run->settings.no_log ? NULL : t->run->settings.run_dir};
    return nt__program_new(t->run->engine, &spec, &printed, out);
}

/* Labels outside their range would make a wrong loss without a word: when a run is made the splits are looked through
 * once, and the batches of sources as they come. */
static nt_status check_claims(tracing *t) {
    if (t->run->is_check) return NT_OK;
    size_t count;
    const nt__claim *claims = nt__claims(t->graph, &count);
    nt_run *run = t->run;
    for (size_t i = 0; i < count; i++) {
        if (claims[i].role != NT__ROLE_BATCH) continue;
        const char *field = run->batch_fields[claims[i].index].name;
        nt_status status = nt__data_claim_range(run->data, field, claims[i].low, claims[i].limit);
        if (status != NT_OK)
            return nt__fail(status, "%s:%d in %s: %s; correct the data, or the number of classes", claims[i].site.file,
                            claims[i].site.line, claims[i].site.function, nt_error_message());
    }
    return NT_OK;
}

/* Kept for predictions, whose arrays no split has; they outlive the trace. */
static nt_status keep_claims(tracing *t) {
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
    t->run->forward_claims = kept;
    t->run->forward_claim_count = count;
    return NT_OK;
}

/* ---- the traces ------------------------------------------------------------------------------------------------- */

/* The name is copied at once: a hook may write it into the same memory each time. */
static nt_status name_group(nt_run *run, const nt__leaf *leaf, const char **out) {
    const char *name = run->experiment->hooks.param_group(run->fields, leaf->path);
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

nt_status nt__trace_model(nt_run *run) {
    tracing t;
    nt_status status = begin(&t, run);
    if (status != NT_OK) return status;
    call_forward(&t);
    check_outputs(&t);
    if (run->train) call_loss(&t);
    status = nt__trace_status(t.graph);
    if (status == NT_OK) status = check_claims(&t);
    end(&t);
    if (status != NT_OK) return status;
    return lay_out(run);
}

/* One accumulator: the scaled gradient, added to what is there unless it is the first of its step. A choice and never a
 * product with 0: a nan must not survive the reset. With accum 1 every micro-batch is the first, and the old
 * accumulator is only memory to write to. */
static nt_tensor accumulate(nt_tensor gradient, nt_tensor accumulator, nt_tensor first, int64_t accum) {
    if (accum == 1) return gradient;
    nt_tensor scaled = nt_mul(gradient, 1.0 / (double)accum);
    return nt_where(first, scaled, nt_add(accumulator, scaled));
}

static void report_unreached(const nt_run *run, const bool *reached) {
    for (size_t i = 0; i < run->layout.row_count && !run->settings.quiet; i++)
        if (!reached[i])
            nt__notice("%s: the loss does not depend on parameter '%s'; its gradient is zero", run->experiment->name,
                       run->layout.rows[i].path);
}

/* What train_metrics reports, or the outputs for host_train_metrics: results of the gradient program behind the
 * accumulators. Neither is differentiated. */
static nt_status report_training(tracing *t) {
    nt_run *run = t->run;
    const nt_hooks *hooks = &run->experiment->hooks;
    nt_device_metrics reported = {0};
    if (hooks->train_metrics) hooks->train_metrics(run->view, &reported, t->outputs, &run->batch);
    nt_status status = nt__traced_metrics_keep(run, &reported, &run->train_metrics);
    if (status == NT_OK && hooks->host_train_metrics)
        run->train_metrics.results[run->train_metrics.result_count++] = (nt__result){"outputs", t->outputs, {0}};
    nt__device_metrics_free(&reported);
    return status;
}

static void add_accumulators(tracing *t, const nt_tensor *gradients, nt__result *results, nt__port *ports) {
    const nt__layout *layout = &t->run->layout;
    nt_tensor first = nt__input(NT__ROLE_FIRST, 0, "first", (nt__type){NT_BOOL, {0}});
    for (size_t g = 0; g < layout->group_count; g++) {
        const nt__group *group = &layout->groups[g];
        nt_tensor accumulator =
            numbered_input(t, NT__ROLE_ACCUMULATOR, (int)g, "accumulator", group->name, nt__group_type(group));
        nt_tensor flat = nt__layout_gather(layout, (int)g, gradients);
        nt_tensor sum = accumulate(flat, accumulator, first, t->run->settings.accum);
        results[g] = (nt__result){"accumulator", sum, accumulator};
        ports[g] = (nt__port){.name = "accumulator", .purpose = NT__ACCUMULATOR};
    }
}

static nt_status trace_gradient(tracing *t, bool *reached) {
    nt_run *run = t->run;
    const nt__layout *layout = &run->layout;
    nt_tensor *gradients = nt__arena_alloc(&t->arena, layout->row_count, sizeof *gradients);
    if (!gradients) return NT_OUT_OF_MEMORY;
    call_forward(t);
    nt_tensor loss = call_loss(t);
    nt__gradient(loss, t->leaves, layout->row_count, gradients, reached);
    nt_status status = report_training(t);
    const nt__traced_metrics *metrics = &run->train_metrics;
    size_t groups = layout->group_count, count = 1 + groups + metrics->result_count;
    nt__result *results = nt__arena_alloc(&t->arena, count, sizeof *results);
    nt__port *ports = nt__arena_alloc(&t->arena, count, sizeof *ports);
    const char *accum = nt__arena_sprintf(&t->arena, "%lld", (long long)run->settings.accum);
    if (status != NT_OK || !results || !ports || !accum) return status == NT_OK ? NT_OUT_OF_MEMORY : status;
    results[0] = (nt__result){.name = "loss", .value = loss};
    ports[0] = (nt__port){.name = "loss", .purpose = NT__OUTPUT};
    add_accumulators(t, gradients, results + 1, ports + 1);
    for (size_t i = 0; i < metrics->result_count; i++) {
        results[1 + groups + i] = metrics->results[i];
        ports[1 + groups + i] = (nt__port){.name = metrics->results[i].name, .purpose = NT__OUTPUT};
    }
    return finish(t, "gradient", results, ports, count, &(nt__part){"accum", accum}, 1, &run->gradient);
}

nt_status nt__trace_gradient(nt_run *run) {
    tracing t;
    nt_status status = begin(&t, run);
    if (status != NT_OK) return status;
    bool *reached = nt__arena_alloc(&t.arena, run->layout.row_count, sizeof *reached);
    status = reached ? trace_gradient(&t, reached) : NT_OUT_OF_MEMORY;
    if (status == NT_OK) report_unreached(run, reached);
    end(&t);
    return status;
}

/* The optimizer's update of one group; fills the results of its parameters and states. */
static void update_group(tracing *t, size_t g, nt_tensor gradient, nt__result *results, nt__port *ports) {
    nt_run *run = t->run;
    const nt__group *group = &run->layout.groups[g];
    int state_count = run->rule.kind->state_count;
    size_t groups = run->layout.group_count, first_state = g * (size_t)state_count;
    nt_tensor states[NT__MAX_STATES], next[NT__MAX_STATES];
    for (int s = 0; s < state_count; s++) {
        const nt__state *state = &run->rule.kind->states[s];
        states[s] = numbered_input(t, NT__ROLE_STATE, (int)first_state + s, group->name, state->name,
                                   nt__state_type(state, group));
    }
    nt_tensor eta =
        numbered_input(t, NT__ROLE_RATE, (int)g, "learning_rate", group->name, (nt__type){group->dtype, {0}});
    nt_tensor x = nt__rule_apply(&run->rule, t->parameters[g], gradient, eta, states, next);
    results[g] = (nt__result){"parameters", x, t->parameters[g]};
    ports[g] = (nt__port){.name = "parameters", .purpose = NT__PARAMETERS};
    for (int s = 0; s < state_count; s++) {
        size_t at = groups + first_state + (size_t)s;
        results[at] = (nt__result){run->rule.kind->states[s].name, next[s], states[s]};
        ports[at] = (nt__port){.name = run->rule.kind->states[s].name, .purpose = NT__OPTIMIZER_STATE};
    }
}

nt_status nt__trace_optimizer(nt_run *run) {
    tracing t;
    nt_status status = begin(&t, run);
    if (status != NT_OK) return status;
    size_t groups = run->layout.group_count, count = groups * (1 + (size_t)run->rule.kind->state_count);
    nt__result *results = nt__arena_alloc(&t.arena, count, sizeof *results);
    nt__port *ports = nt__arena_alloc(&t.arena, count, sizeof *ports);
    nt_tensor *gradients = nt__arena_alloc(&t.arena, groups, sizeof *gradients);
    nt__text rule = {0};
    nt__rule_print(&run->rule, &rule);
    const char *clip = nt__arena_sprintf(&t.arena, "%g", run->settings.gradient_clip_norm);
    if (!results || !ports || !gradients || rule.failed || !clip) {
        nt__text_free(&rule);
        end(&t);
        return NT_OUT_OF_MEMORY;
    }
    for (size_t g = 0; g < groups; g++) {
        const nt__group *group = &run->layout.groups[g];
        gradients[g] =
            numbered_input(&t, NT__ROLE_ACCUMULATOR, (int)g, "accumulator", group->name, nt__group_type(group));
    }
    nt__clip_by_global_norm(gradients, groups, run->settings.gradient_clip_norm);
    for (size_t g = 0; g < groups; g++) update_group(&t, g, gradients[g], results, ports);
    nt__part parts[] = {{"gradient_clip_norm", clip}, {"rule", rule.data}};
    status = finish(&t, "optimizer", results, ports, count, parts, 2, &run->optimizer);
    nt__text_free(&rule);
    end(&t);
    return status;
}

nt_status nt__trace_forward(nt_run *run) {
    tracing t;
    nt_status status = begin(&t, run);
    if (status != NT_OK) return status;
    call_forward(&t);
    nt__result result = {.name = "outputs", .value = t.outputs};
    nt__port port = {.name = "outputs", .purpose = NT__OUTPUT};
    status = keep_claims(&t);
    if (status == NT_OK) status = finish(&t, "forward", &result, &port, 1, NULL, 0, &run->forward);
    end(&t);
    return status;
}

/* ---- metrics of an evaluation ----------------------------------------------------------------------------------- */

/* The outputs and fields that the hook sees are cut to the real rows. Without a hook for metrics the loss stands for
 * them: val_loss, the mean over samples, so that a short last batch counts for what it has. */
static void call_device_metrics(tracing *t, nt__metrics_program *added, nt_device_metrics *reported) {
    nt_run *run = t->run;
    const nt_hooks *hooks = &run->experiment->hooks;
    int64_t rows = added->rows;
    nt_tensor outputs = nt__input(NT__ROLE_OUTPUTS, 0, "outputs", run->outputs_type);
    nt_shape start = {.rank = run->outputs_type.shape.rank}, limit = run->outputs_type.shape;
    limit.dims[0] = rows;
    t->outputs = rows == run->batch_size ? outputs : nt_slice(outputs, start, limit);
    run->batch.rows = rows;
    added->weight = hooks->device_metrics ? 1 : (double)rows;
    if (hooks->device_metrics)
        hooks->device_metrics(run->view, reported, t->outputs, &run->batch);
    else
        nt_device_mean(reported, "val_loss", call_loss(t), 1);
}

static nt_status make_results(nt_run *run, nt__metrics_program *added) {
    size_t count = added->metrics.result_count;
    added->buffers = nt__arena_alloc(&run->arena, count + 1, sizeof *added->buffers);
    added->results = nt__arena_alloc(&run->arena, count + 1, sizeof *added->results);
    if (!added->buffers || !added->results) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) added->results[i] = &added->buffers[i];
    return NT_OK;
}

static nt_status finish_metrics(tracing *t, nt__metrics_program *added) {
    const nt__traced_metrics *metrics = &added->metrics;
    nt__port *ports = nt__arena_alloc(&t->arena, metrics->result_count + 1, sizeof *ports);
    const char *text = nt__arena_sprintf(&t->arena, "%lld", (long long)added->rows);
    if (!ports || !text) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < metrics->result_count; i++)
        ports[i] = (nt__port){.name = metrics->results[i].name, .purpose = NT__OUTPUT};
    nt__part part = {"rows", text};
    return finish(t, "metrics", metrics->results, ports, metrics->result_count, &part, 1, &added->program);
}

static nt_status trace_metrics(nt_run *run, nt__metrics_program *added) {
    tracing t;
    nt_status status = begin(&t, run);
    if (status != NT_OK) return status;
    nt_device_metrics reported = {.combined = true};
    call_device_metrics(&t, added, &reported);
    status = nt__trace_status(t.graph);
    if (status == NT_OK) status = check_claims(&t);
    if (status == NT_OK) status = nt__traced_metrics_keep(run, &reported, &added->metrics);
    if (status == NT_OK) status = make_results(run, added);
    if (status == NT_OK) status = finish_metrics(&t, added);
    nt__device_metrics_free(&reported);
    end(&t);
    return status;
}

static nt_status add_metrics(nt_run *run, int64_t rows) {
    if (rows == 0) return NT_OK;
    for (size_t i = 0; i < run->metrics_count; i++)
        if (run->metrics[i].rows == rows) return NT_OK;
    nt__metrics_program *added = &run->metrics[run->metrics_count];
    added->rows = rows;
    nt_status status = trace_metrics(run, added);
    if (status == NT_OK) run->metrics_count++;
    return status;
}

nt_status nt__trace_metrics(nt_run *run) {
    const nt_hooks *hooks = &run->experiment->hooks;
    if (!hooks->device_metrics && (hooks->metrics || !hooks->loss)) return NT_OK;
    size_t splits = nt__data_split_count(run->data);
    run->metrics = nt__arena_alloc(&run->arena, 2 * splits + 1, sizeof *run->metrics);
    if (!run->metrics) return NT_OUT_OF_MEMORY;
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < splits; i++) {
        const nt__split *split = nt__data_split_at(run->data, i);
        int64_t last = split->options.drop_last ? 0 : split->rows % run->batch_size;
        if (split->rows >= run->batch_size) status = add_metrics(run, run->batch_size);
        if (status == NT_OK) status = add_metrics(run, last);
    }
    return status;
}
