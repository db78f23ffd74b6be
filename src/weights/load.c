/* Weights into a run: whether they fit, and parameters and layer states from them, all or nothing.
 * Not here: reading the file (weights_file.c), saving (weights.c).
 */
#include <string.h>

#include "base/closest.h"
#include "weights/model_pair.h"

/* ---- the fit ---------------------------------------------------------------------------------------------------- */

enum { MOST_DIFFERENCES = 6 };

/* The arrays that a file of the model has: parameters, then layer states. False beyond the last. */
static bool array_at(const nt__traced *traced, size_t index, const char **path, nt__type *type) {
    size_t rows = traced->layout.row_count, place;
    const nt__leaf *state = index < rows ? NULL : nt__layer_state(traced, index - rows, &place);
    if (index >= rows && !state) return false;
    *path = state ? state->path : traced->layout.rows[index].path;
    *type = state ? state->type : traced->layout.rows[index].type;
    return true;
}

static bool has_array(const nt__traced *traced, const char *name) {
    const char *path;
    nt__type type;
    for (size_t i = 0; array_at(traced, i, &path, &type); i++)
        if (strcmp(path, name) == 0) return true;
    return false;
}

/* Numbers of a file that others wrote may have been kept in fewer bits, or in more. */
static bool fits(const nt__weights *weights, nt__type there, nt__type here) {
    if (nt__type_equal(there, here)) return true;
    bool converts = weights->is_mapped && nt_dtype_is_float(there.dtype) && nt_dtype_is_float(here.dtype);
    there.dtype = here.dtype;
    return converts && nt__type_equal(there, here);
}

/* What of the file does not fit the model, up to six lines. */
static size_t list_differences(const nt__traced *traced, const nt__weights *weights, nt__text *out) {
    size_t found = 0;
    const char *path;
    nt__type type;
    char here[NT__TYPE_TEXT], there[NT__TYPE_TEXT];
    for (size_t i = 0; array_at(traced, i, &path, &type); i++) {
        const nt__named_array *array = nt__weights_find(weights, path);
        if (array ? fits(weights, array->type, type) : nt__weights_keeps(weights, path)) continue;
        if (++found <= MOST_DIFFERENCES)
            nt__text_add(out, "\n  %s: %s in the model, %s in the file", path, nt__type_text(type, here),
                         array ? nt__type_text(array->type, there) : "missing");
    }
    /* A handle that does not train has not traced train_step, so what only that declares is not in the model. */
    bool may_have_more = weights->is_mapped || (traced->task->settings.manual && !traced->train);
    for (size_t i = 0; i < weights->count && !may_have_more; i++) {
        if (has_array(traced, weights->arrays[i].name)) continue;
        if (++found <= MOST_DIFFERENCES)
            nt__text_add(out, "\n  %s: not in the model, %s in the file", weights->arrays[i].name,
                         nt__type_text(weights->arrays[i].type, there));
    }
    return found;
}

/* With maps what the model has not is ignored, but this is an array of the model. */
static nt_status check_unknown(const nt__traced *traced, const char *path, const nt__weights *weights) {
    for (size_t i = 0; i < weights->unknown_count; i++)
        if (has_array(traced, weights->unknown[i].name))
            return nt__fail_in(nt__fail_unknown_array(&weights->unknown[i]), "%s", path);
    return NT_OK;
}

static nt_status check_file(const nt__traced *traced, const char *path, const nt__weights *weights) {
    nt__text differences = {0};
    const char *advice = weights->is_mapped
                             ? "change the maps (FROM=TO, FROM=TO:transpose, =TO for what keeps its values)"
                             : "give the GRAPH_CONST fields the values it was trained with, name another file, or say "
                               "with weight_map which array is which";
    size_t found = list_differences(traced, weights, &differences);
    nt_status status = NT_OK;
    if (found)
        status = nt__fail(NT_INVALID, "%s does not fit experiment '%s'; %s. %zu arrays differ:%s%s", path,
                          traced->task->experiment->name, advice, found, differences.data ? differences.data : "",
                          found > MOST_DIFFERENCES ? "\n  ..." : "");
    nt__text_free(&differences);
    return status;
}

/* ---- maps that fit nothing in the model ------------------------------------------------------------------------- */

/* Whether some array of the model is one that "=TO" lets keep what it has. */
static bool keeps_any(const nt__traced *traced, const char *pattern) {
    const char *path;
    nt__type type;
    for (size_t i = 0; array_at(traced, i, &path, &type); i++)
        if (nt__weights_fits(pattern, path)) return true;
    return false;
}

static nt_status fail_keeps_none(const nt__traced *traced, const nt__weights *weights) {
    nt__text text = {0};
    size_t count = traced->layout.row_count + nt__layer_state_count(traced);
    const char **paths = nt__alloc(count + 1, sizeof *paths);
    nt__type type;
    if (!paths) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && array_at(traced, i, &paths[i], &type); i++) continue;
    nt__text_add(&text,
                 "no map fits experiment '%s', so nothing would keep what it has:", traced->task->experiment->name);
    for (size_t i = 0; i < weights->kept_count; i++) {
        nt__text_add(&text, "\n  =%s", weights->kept[i]);
        nt__add_closest(&text, weights->kept[i], paths, count, "");
    }
    nt__text_say(&text, "\nCorrect the part after the '=', or leave the maps out. The model has: ");
    for (size_t i = 0; i < count && i <= MOST_DIFFERENCES; i++)
        nt__text_add(&text, "%s%s", i ? ", " : "", i < MOST_DIFFERENCES ? paths[i] : "...");
    nt_status status = text.failed ? NT_OUT_OF_MEMORY : nt__fail(NT_INVALID, "%s", text.data);
    nt__text_free(&text);
    nt__free(paths);
    return status;
}

/* Where there are maps of other kinds, some of them fit the file. */
static nt_status check_kept(const nt__traced *traced, const nt__weights *weights) {
    for (size_t i = 0; i < weights->kept_count; i++)
        if (keeps_any(traced, weights->kept[i])) return NT_OK;
    return weights->kept_count && !weights->has_renames ? fail_keeps_none(traced, weights) : NT_OK;
}

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

/* A buffer of the run with what is to take its place. */
typedef struct replaced {
    nt__buffer *buffer, fresh;
} replaced;

/* Puts what was uploaded into use, or frees it; the others are as they were. */
static void settle(replaced *all, size_t count, bool use) {
    for (size_t i = 0; i < count; i++) {
        if (all[i].fresh.state != NT__BUFFER_ALIVE) continue;
        nt__buffer_free(use ? all[i].buffer : &all[i].fresh);
        if (use) *all[i].buffer = all[i].fresh;
    }
}

static void copy_elements(const nt__named_array *from, nt_dtype dtype, int64_t count, char *to) {
    size_t there = nt_dtype_size(from->type.dtype), here = nt_dtype_size(dtype);
    if (from->type.dtype == dtype) {
        memcpy(to, from->data, (size_t)count * here);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        nt__element_set(dtype, to + (size_t)i * here,
                        nt__element_get(from->type.dtype, (const char *)from->data + (size_t)i * there));
}

/* Whether some parameter of the group keeps what it has. */
static bool keeps_some(const nt__traced *traced, int group, const nt__weights *weights) {
    for (size_t i = 0; i < traced->layout.row_count; i++)
        if (traced->layout.rows[i].group == group && !nt__weights_find(weights, traced->layout.rows[i].path))
            return true;
    return false;
}

/* Parameters of a group, and the states of its rule that start at them. */
static nt_status upload_group(nt__resident *resident, int group, const nt__weights *weights, nt__buffer *fresh,
                              nt__buffer *states) {
    nt__type type = nt__group_type(&resident->traced->layout.groups[group]);
    nt_array *flat = nt_array_new(type.dtype, type.shape);
    if (!flat) return NT_OUT_OF_MEMORY;
    nt_status status = keeps_some(resident->traced, group, weights)
                           ? nt__buffer_read(resident->traced->engine, &resident->device.parameters[group], flat->data)
                           : NT_OK;
    for (size_t i = 0; status == NT_OK && i < resident->traced->layout.row_count; i++) {
        const nt__row *row = &resident->traced->layout.rows[i];
        const nt__named_array *array = row->group == group ? nt__weights_find(weights, row->path) : NULL;
        if (array) copy_elements(array, row->type.dtype, row->length, nt__row_data(row, flat));
    }
    if (status == NT_OK)
        status = nt__upload(resident, resident->device.parameters[group].name, NT__PARAMETERS, type, flat->data, fresh);
    if (status == NT_OK && resident->traced->training)
        status = nt__states_restart(resident, (size_t)group, flat->data, states);
    nt_array_free(flat);
    return status;
}

static nt_status upload_state(const nt__resident *resident, const nt__leaf *state, const nt__weights *weights,
                              nt__buffer *fresh) {
    const nt__named_array *array = nt__weights_find(weights, state->path);
    if (!array) return NT_OK;
    nt_array *values = nt_array_new(state->type.dtype, state->type.shape);
    if (!values) return NT_OUT_OF_MEMORY;
    copy_elements(array, state->type.dtype, nt_shape_elements(state->type.shape), values->data);
    nt_status status = nt__upload(resident, state->path, NT__LAYER_STATE, state->type, values->data, fresh);
    nt_array_free(values);
    return status;
}

static nt_status upload_all(nt__resident *resident, const nt__weights *weights, replaced *all, nt__buffer *states) {
    nt_status status = NT_OK;
    const nt__leaf *state;
    size_t place, count = 0;
    for (size_t g = 0; status == NT_OK && g < resident->traced->layout.group_count; g++) {
        all[count].buffer = &resident->device.parameters[g];
        status = upload_group(resident, (int)g, weights, &all[count++].fresh, states);
    }
    for (size_t i = 0; status == NT_OK && (state = nt__layer_state(resident->traced, i, &place)); i++) {
        all[count].buffer = &resident->device.layer_states[place];
        status = upload_state(resident, state, weights, &all[count++].fresh);
    }
    return status;
}

/* ---- the report ------------------------------------------------------------------------------------------------- */

static void add_name(nt__text *text, size_t found, const char *name) {
    if (found < MOST_DIFFERENCES) nt__text_add(text, "%s%s", found ? ", " : ": ", name);
    if (found == MOST_DIFFERENCES) nt__text_add(text, ", ...");
}

static size_t list_kept(const nt__traced *traced, const nt__weights *weights, nt__text *names) {
    size_t found = 0;
    const char *path;
    nt__type type;
    for (size_t i = 0; array_at(traced, i, &path, &type); i++)
        if (!nt__weights_find(weights, path)) add_name(names, found++, path);
    return found;
}

static size_t list_unused(const nt__traced *traced, const nt__weights *weights, nt__text *names) {
    size_t found = 0;
    for (size_t i = 0; i < weights->count; i++)
        if (!has_array(traced, weights->arrays[i].name)) add_name(names, found++, weights->arrays[i].name);
    return found;
}

/* "; of a type that nitro has not, and not used: scale.q F8_E4M3[8]" */
static void add_unknown(const nt__weights *weights, nt__text *out) {
    for (size_t i = 0; i < weights->unknown_count && i <= MOST_DIFFERENCES; i++)
        nt__text_add(out, "%s%s %s", i ? ", " : "; of a type that nitro has not, and not used: ",
                     i < MOST_DIFFERENCES ? weights->unknown[i].name : "...",
                     i < MOST_DIFFERENCES ? weights->unknown[i].type : "");
}

/* "'head.*=', '=logit.*'" */
static void add_unfit(const nt__traced *traced, const nt__weights *weights, nt__text *out) {
    const char *between = "";
    for (size_t i = 0; i < weights->unfit_count; i++, between = ", ")
        nt__text_add(out, "%s'%s'", between, weights->unfit[i]);
    for (size_t i = 0; i < weights->kept_count; i++) {
        if (keeps_any(traced, weights->kept[i])) continue;
        nt__text_add(out, "%s'=%s'", between, weights->kept[i]);
        between = ", ";
    }
}

/* Maps that fit nothing, which may be misspelt. */
static nt_status warn_unfit(const nt__traced *traced, const char *source, const nt__weights *weights) {
    nt__text unfit = {0};
    add_unfit(traced, weights, &unfit);
    nt_status status = unfit.failed ? NT_OUT_OF_MEMORY : NT_OK;
    if (status == NT_OK && unfit.length)
        status = nt__warn("%s: of the weight maps for %s these fit nothing: %s", traced->task->experiment->name, source,
                          unfit.data);
    nt__text_free(&unfit);
    return status;
}

/* What matched, where names were changed. */
static nt_status report(const nt__traced *traced, const char *source, const nt__weights *weights) {
    nt__text kept = {0}, unused = {0};
    size_t kept_count = list_kept(traced, weights, &kept), unused_count = list_unused(traced, weights, &unused);
    add_unknown(weights, &unused);
    bool failed = kept.failed || unused.failed;
    if (!failed && !traced->task->settings.quiet)
        nt__notice("%s: %zu arrays of %s are taken (%zu renamed, %zu transposed); %zu of the model keep what they "
                   "have%s; %zu of the file are not used%s",
                   traced->task->experiment->name, weights->count - unused_count, source, weights->renamed,
                   weights->transposed, kept_count, kept.data ? kept.data : "", unused_count,
                   unused.data ? unused.data : "");
    nt__text_free(&kept);
    nt__text_free(&unused);
    return failed ? NT_OUT_OF_MEMORY : NT_OK;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

/* All or nothing: half of a file would be a model that nobody trained. `source` is for messages. */
static nt_status take(nt__resident *resident, const char *source, const nt__weights *weights) {
    nt_status status = check_kept(resident->traced, weights);
    if (status == NT_OK) status = check_unknown(resident->traced, source, weights);
    if (status == NT_OK) status = check_file(resident->traced, source, weights);
    if (status != NT_OK) return status;
    size_t arrays = resident->traced->layout.group_count + nt__layer_state_count(resident->traced),
           count = arrays + resident->traced->state_count;
    replaced *all = nt__alloc(count, sizeof *all);
    nt__buffer *states = nt__alloc(resident->traced->state_count + 1, sizeof *states);
    status = all && states ? upload_all(resident, weights, all, states) : NT_OUT_OF_MEMORY;
    if (status == NT_OK && weights->is_mapped) status = warn_unfit(resident->traced, source, weights);
    if (status == NT_OK && weights->is_mapped) status = report(resident->traced, source, weights);
    for (size_t i = 0; all && states && i < resident->traced->state_count; i++)
        all[arrays + i] = (replaced){&resident->device.states[i], states[i]};
    if (all && states) settle(all, count, status == NT_OK);
    nt__free(states);
    nt__free(all);
    return status;
}

/* ---- weights that wait for a layout ----------------------------------------------------------------------------- */

void nt__forget_waiting(nt__waiting *waiting) {
    if (waiting->weights) nt__weights_free(waiting->weights);
    nt__free(waiting->weights);
    nt__free(waiting->source);
    waiting->weights = NULL;
    waiting->source = NULL;
    waiting->adopts = waiting->restores = false;
}

/* Takes the weights over, in place of those that wait already. */
static nt_status keep_waiting(nt__waiting *waiting, const char *source, nt__weights *weights) {
    char *copy = nt__strdup(source);
    nt__weights *kept = nt__alloc(1, sizeof *kept);
    if (!copy || !kept) {
        nt__free(copy);
        nt__free(kept);
        nt__weights_free(weights);
        return NT_OUT_OF_MEMORY;
    }
    nt__forget_waiting(waiting);
    *kept = *weights;
    waiting->weights = kept;
    waiting->source = copy;
    return NT_OK;
}

nt_status nt__load_waiting(nt__waiting *waiting) {
    const nt__weights *weights = waiting->weights;
    if (!weights) return NT_OK;
    return take(waiting->resident, waiting->source, weights);
}

nt_status nt__settle_waiting(nt__waiting *waiting) {
    const nt__weights *weights = waiting->weights;
    const char *source = waiting->source;
    if (!weights) return NT_OK;
    nt_status status = waiting->task->settings.evaluate_only ? nt__model_check_numbers(waiting->traced, weights, source)
                                                             : nt__model_compare(waiting->task, weights, source, false);
    if (status == NT_OK) nt__forget_waiting(waiting);
    return status;
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

nt_status nt__weights_load(nt__waiting *waiting, const char *source, const char *const *maps, size_t map_count) {
    nt__weights weights;
    nt_status status = nt__weights_read(waiting->task, source, maps, map_count, &weights);
    if (status != NT_OK) return status;
    status = nt__model_compare(waiting->task, &weights, source, !weights.is_mapped);
    if (status == NT_OK && !nt__is_laid_out(waiting->traced)) return keep_waiting(waiting, source, &weights);
    if (status == NT_OK) status = take(waiting->resident, source, &weights);
    if (status == NT_OK) status = nt__model_check_numbers(waiting->traced, &weights, source);
    nt__weights_free(&weights);
    return status;
}

/* ---- weights to start with -------------------------------------------------------------------------------------- */

/* "run_dir/parameters.safetensors" where trained_weights says so. NULL: none are given, or memory is short. */
static char *start_source(const nt__task *task, const nt_run_options *options) {
    if (options->weights && *options->weights) return nt__strdup(options->weights);
    return options->trained_weights ? nt__sprintf("%s/parameters.safetensors", task->settings.run_dir) : NULL;
}

static nt_status check_restorable(const nt__weights *weights, const char *source) {
    if (weights->is_record) return NT_OK;
    return nt__fail(NT_INVALID,
                    "restore_optimizer is given, and '%s' is no checkpoint: it has no states of an optimizer", source);
}

static nt_status open_source(nt__waiting *waiting, const nt_run_options *options, const char *source) {
    nt__weights weights;
    nt_status status =
        nt__weights_read(waiting->task, source, options->weight_maps, options->weight_map_count, &weights);
    if (status == NT_NOT_FOUND && !(options->weights && *options->weights))
        return nt__fail(status, "%s. Train first, or name the parameters with --weights=FILE", nt_error_message());
    if (status != NT_OK) return status;
    bool adopts = waiting->task->settings.evaluate_only;
    if (options->restore_optimizer) status = check_restorable(&weights, source);
    if (status == NT_OK && adopts) status = nt__adopt(waiting->task, &weights, source);
    if (status != NT_OK) {
        nt__weights_free(&weights);
        return status;
    }
    status = keep_waiting(waiting, source, &weights);
    waiting->adopts = status == NT_OK && adopts;
    waiting->restores = status == NT_OK && options->restore_optimizer;
    return status;
}

nt_status nt__weights_open(nt__waiting *waiting, const nt_run_options *options) {
    bool is_given = (options->weights && *options->weights) || options->trained_weights;
    char *source = start_source(waiting->task, options);
    nt_status status = source ? open_source(waiting, options, source) : is_given ? NT_OUT_OF_MEMORY : NT_OK;
    nt__free(source);
    return status;
}
