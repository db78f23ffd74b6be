/* One trace of a run's hooks: what each begins with, the calls of the hooks, and the program that it becomes.
 * Not here: which programs there are (programs.c).
 */
#include "step/tracing.h"

#include <string.h>

/* ---- what every trace begins with ------------------------------------------------------------------------------- */

/* The view: GraphConst values as they are, Device fields as inputs, nothing of Host fields. */
static void fill_view(nt__traced *traced) {
    const nt_experiment *experiment = traced->task->experiment;
    memset(traced->task->view, 0, experiment->view_size);
    for (size_t i = 0; i < experiment->field_count; i++) {
        const nt_field_info *field = &experiment->fields[i];
        if (field->marker != NT_GRAPH_CONST) continue;
        memcpy((char *)traced->task->view + field->view_offset, (const char *)traced->task->fields + field->offset,
               field->size);
    }
    nt__device_fields_input(traced);
}

nt_tensor nt__tracing_input(nt__tracing *t, nt__role role, int index, const char *kind, const char *name,
                            nt__type type) {
    const char *full = nt__arena_sprintf(&t->arena, "%s.%s", kind, name);
    return full ? nt__input(role, index, full, type) : nt__trace_out_of_memory();
}

static bool input_parameters(nt__tracing *t) {
    nt__traced *traced = t->traced;
    const nt__layout *layout = &traced->layout;
    t->parameters = nt__arena_alloc(&t->arena, layout->group_count + 1, sizeof *t->parameters);
    t->leaves = nt__arena_alloc(&t->arena, layout->row_count + 1, sizeof *t->leaves);
    if (!t->parameters || !t->leaves) return false;
    for (size_t g = 0; g < layout->group_count; g++) {
        const nt__group *group = &layout->groups[g];
        t->parameters[g] =
            nt__tracing_input(t, NT__ROLE_PARAMETERS, (int)g, "parameters", group->name, nt__group_type(group));
    }
    for (size_t i = 0; i < layout->row_count; i++)
        t->leaves[i] = nt__layout_leaf(&layout->rows[i], t->parameters[layout->rows[i].group]);
    return true;
}

nt_status nt__tracing_begin(nt__tracing *t, nt__traced *traced, bool training) {
    *t = (nt__tracing){.traced = traced, .graph = nt__trace_begin()};
    if (!t->graph) return NT_OUT_OF_MEMORY;
    nt__claims_are_checked(NT__ROLE_BATCH);
    nt__claims_are_checked(NT__ROLE_DEVICE);
    fill_view(traced);
    memset(traced->batch.inputs, 0, sizeof *traced->batch.inputs * traced->batch.count);
    traced->batch.rows = 0;
    if (traced->layout.row_count && !input_parameters(t)) {
        nt__trace_end(t->graph);
        nt__arena_free(&t->arena);
        return NT_OUT_OF_MEMORY;
    }
    nt__model_begin(traced->model, training, traced->layout.row_count ? t->leaves : NULL);
    return NT_OK;
}

void nt__tracing_end(nt__tracing *t) {
    nt__trace_end(t->graph);
    nt__arena_free(&t->arena);
}

/* A hook may forget to return the result: what comes back then is zeros, or whatever the variable held. */
static void check_returned(nt__tracing *t, const char *hook, nt_tensor returned) {
    const nt_experiment *experiment = t->traced->task->experiment;
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

void nt__tracing_hook_begin(nt__tracing *t, const char *hook) {
    nt__hook_begin(t->traced->task->experiment, hook);
}

void nt__tracing_hook_end(nt__tracing *t, const char *hook) {
    if (nt__hook_end(t->traced->task->experiment, hook, NT_OK) != NT_OK)
        nt__trace_fail((nt_site){0}, t->traced->task->experiment->file, "%s", nt_error_message());
}

void nt__tracing_forward(nt__tracing *t) {
    nt__tracing_hook_begin(t, "forward");
    t->outputs = t->traced->task->experiment->hooks.forward(t->traced->task->view, t->traced->model, &t->traced->batch);
    nt__tracing_hook_end(t, "forward");
    check_returned(t, "forward", t->outputs);
    t->outputs = nt__model_outputs(t->traced->model, t->outputs);
    nt__model_end(t->traced->model);
}

nt_tensor nt__tracing_loss(nt__tracing *t) {
    nt__tracing_hook_begin(t, "loss");
    nt_tensor loss = t->traced->task->experiment->hooks.loss(t->traced->task->view, t->outputs, &t->traced->batch);
    nt__tracing_hook_end(t, "loss");
    check_returned(t, "loss", loss);
    t->loss = nt__quotient_kept(t->graph);
    if (t->loss.value.trace && t->loss.value.id != loss.id)
        nt__trace_fail(
            (nt_site){0}, t->traced->task->experiment->file,
            "loss made an nt_weighted_loss and returned another tensor, so the count would be lost: return "
            "nt_weighted_loss(sum, count) itself, and add further terms to its sum: what is itself a sum over "
            "the samples as it is, what is not, as a penalty of the parameters, times the count: "
            "nt_weighted_loss(nt_add(sum, nt_mul(penalty, count)), count)");
    return loss;
}

/* What nothing else would find fault with. */
static void check_scalar(nt__tracing *t, nt_tensor loss) {
    const nt_experiment *experiment = t->traced->task->experiment;
    char text[NT__TYPE_TEXT];
    if (!nt__tensor_made(loss) || (nt_rank(loss) == 0 && nt_dtype_is_float(nt_dtype_of(loss)))) return;
    nt__trace_fail(
        (nt_site){0}, experiment->file,
        "train_step of %s returned %s; it returns the loss of the step, a floating scalar: nt_mean or nt_sum "
        "makes one",
        experiment->name, nt__type_text((nt__type){nt_dtype_of(loss), nt_shape_of(loss)}, text));
}

nt_tensor nt__tracing_train_step(nt__tracing *t, nt_optimizers *optimizers, nt_device_metrics *metrics) {
    nt__traced *traced = t->traced;
    nt__tracing_hook_begin(t, "train_step");
    nt_tensor loss = traced->task->experiment->hooks.train_step(traced->task->view, traced->model, &traced->batch,
                                                                optimizers, metrics);
    nt__tracing_hook_end(t, "train_step");
    check_returned(t, "train_step", loss);
    nt__model_end(traced->model);
    check_scalar(t, loss);
    return loss;
}

/* Rows of the batch that is traced. */
static int64_t rows_of(const nt__traced *traced) {
    return traced->batch.rows ? traced->batch.rows : traced->batch_size;
}

static bool has_sample_axis(const nt__tracing *t, nt__type outputs) {
    char text[NT__TYPE_TEXT];
    if (outputs.shape.rank >= 1 && outputs.shape.dims[0] == rows_of(t->traced)) return true;
    nt__trace_fail((nt_site){0}, t->traced->task->experiment->file,
                   "forward returned %s; axis 0 of the outputs must be the %lld samples of the batch",
                   nt__type_text(outputs, text), (long long)rows_of(t->traced));
    return false;
}

void nt__tracing_check_outputs(nt__tracing *t) {
    t->traced->outputs_type = (nt__type){nt_dtype_of(t->outputs), nt_shape_of(t->outputs)};
    if (nt__tensor_made(t->outputs)) has_sample_axis(t, t->traced->outputs_type);
}

void nt__tracing_check_same_outputs(nt__tracing *t) {
    nt__type now = {nt_dtype_of(t->outputs), nt_shape_of(t->outputs)}, full = now;
    if (!nt__tensor_made(t->outputs) || !has_sample_axis(t, now)) return;
    full.shape.dims[0] = t->traced->batch_size;
    if (nt__type_equal(full, t->traced->outputs_type)) return;
    char training[NT__TYPE_TEXT], evaluation[NT__TYPE_TEXT];
    nt__trace_fail(
        (nt_site){0}, t->traced->task->experiment->file,
        "forward returned %s in training and %s in evaluation; loss and metrics take the same outputs in both",
        nt__type_text(t->traced->outputs_type, training), nt__type_text(now, evaluation));
}

/* ---- what every trace ends with --------------------------------------------------------------------------------- */

enum { MAX_EXTRA_PARTS = 4 };

static bool add_part(nt__arena *arena, nt__part *part, const char *kind, const char *name, const char *value) {
    part->name = nt__arena_sprintf(arena, "%s%s", kind, name);
    part->value = nt__arena_strdup(arena, value);
    return part->name && part->value;
}

static bool add_graph_consts(nt__tracing *t, nt__part *parts, size_t *count) {
    const nt_experiment *experiment = t->traced->task->experiment;
    bool right = true;
    for (size_t i = 0; right && i < experiment->field_count; i++) {
        if (experiment->fields[i].marker != NT_GRAPH_CONST) continue;
        nt__text value = {0};
        nt__field_print(&experiment->fields[i], t->traced->task->fields, &value);
        right = !value.failed &&
                add_part(&t->arena, &parts[(*count)++], "GraphConst ", experiment->fields[i].name, value.data);
        nt__text_free(&value);
    }
    return right;
}

static bool add_arguments(nt__tracing *t, const nt__printed *printed, nt__part *parts, size_t *count) {
    bool right = true;
    char text[NT__TYPE_TEXT];
    for (size_t i = 0; right && i < printed->argument_count; i++) {
        const nt__argument *argument = &printed->arguments[i];
        bool shown = argument->role == NT__ROLE_BATCH || argument->role == NT__ROLE_PARAMETERS ||
                     argument->role == NT__ROLE_LAYER_STATE;
        if (!shown) continue;
        const char *kind = argument->role == NT__ROLE_BATCH         ? "field "
                           : argument->role == NT__ROLE_LAYER_STATE ? "layer state "
                                                                    : "";
        right = add_part(&t->arena, &parts[(*count)++], kind, argument->name, nt__type_text(argument->type, text));
    }
    return right;
}

nt__part nt__tracing_compute_part(const nt__tracing *t) {
    return (nt__part){"compute_dtype", t->traced->task->settings.compute_dtype};
}

nt_status nt__tracing_finish(nt__tracing *t, const char *role, const nt__result *results, const nt__port *ports,
                             size_t count, const nt__part *extra, size_t extra_count, nt__program **out) {
    nt__printed printed;
    nt_status status = nt__print(role, results, count, &printed);
    if (status != NT_OK) return status;
    size_t most = t->traced->task->experiment->field_count + printed.argument_count + extra_count, part_count = 0;
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
                             .experiment = t->traced->task->experiment->name,
                             .results = typed,
                             .result_count = count,
                             .parts = parts,
                             .part_count = part_count + extra_count,
                             .options = t->traced->compile_options,
                             .quiet = t->traced->task->settings.quiet,
                             .no_disk = t->traced->task->settings.no_disk_cache,
                             .failure_folder =
                                 t->traced->task->settings.no_log ? NULL : t->traced->task->settings.run_dir};
    return nt__program_new(t->traced->engine, &spec, &printed, out);
}

static nt_status check_claim(nt__traced *traced, const nt__claim *claim) {
    if (claim->role == NT__ROLE_DEVICE) return nt__device_claims_add(traced, claim);
    if (claim->role != NT__ROLE_BATCH) return NT_OK;
    nt_status status =
        nt__data_claim(traced->data, traced->batch_fields[claim->index].name, &claim->bounds, claim->advice);
    if (status == NT_OK) return NT_OK;
    return nt__fail_in(status, "%s:%d in %s", claim->site.file, claim->site.line, claim->site.function);
}

/* Labels outside their range would make a wrong loss without a word: when a run is made the splits are looked through
 * once, and the batches of sources as they come. Device fields are looked at now and whenever they get another value.
 */
nt_status nt__tracing_check_claims(nt__tracing *t) {
    if (t->traced->is_check) return NT_OK;
    size_t count;
    nt_status status = NT_OK;
    const nt__claim *claims = nt__claims(t->graph, &count);
    for (size_t i = 0; status == NT_OK && i < count; i++) status = check_claim(t->traced, &claims[i]);
    return status;
}
