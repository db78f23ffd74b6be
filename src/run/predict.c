/* Prediction: forward on host arrays that no split has, any number of rows. The arrays are taken as a split for the
 * time of the call, so that staging and padding are those of an evaluation.
 * Not here: where the arrays come from, metrics.
 */
#include <string.h>

#include "run/run_internal.h"

typedef struct prediction {
    nt_run *run;
    const nt_named_array *given;
    size_t given_count;
    nt__arena arena;
    nt__split split;   /* the given arrays that forward reads */
    nt_array *batch;   /* host copy of a batch's outputs */
    nt_array *outputs; /* of all rows */
} prediction;

/* ---- what was given --------------------------------------------------------------------------------------------- */

static nt_status check_given(const prediction *p) {
    size_t nameless = 0;
    if (p->given_count == 0) return nt__fail(NT_INVALID, "no array is given");
    for (size_t i = 0; i < p->given_count; i++) {
        const char *name = p->given[i].name;
        if (!p->given[i].array) return nt__fail(NT_INVALID, "the array of field '%s' is NULL", name ? name : "");
        if (name && !*name)
            return nt__fail(NT_INVALID, "the name of array %zu is empty; NULL stands for the only field", i + 1);
        nameless += !name;
    }
    return nameless < 2 ? NT_OK : nt__fail(NT_INVALID, "%zu arrays have no field's name: name each", nameless);
}

/* Adds "x f32[10,4], label u8[10]". */
static void list_given(const prediction *p, nt__text *out) {
    char text[NT__TYPE_TEXT];
    for (size_t i = 0; i < p->given_count; i++)
        nt__text_add(out, "%s%s %s", i ? ", " : "", p->given[i].name ? p->given[i].name : "(without a name)",
                     nt__type_text(nt__array_type(p->given[i].array), text));
}

static void list_read(const prediction *p, nt__text *out) {
    const nt__routes *routes = &p->run->traced.routes.prediction;
    for (size_t i = 0; i < routes->count; i++) nt__text_add(out, "%s%s", i ? ", " : "", routes->names[i]);
}

static nt_status fail_with_lists(const prediction *p, nt_status status, const char *problem) {
    nt__text read = {0}, given = {0};
    list_read(p, &read);
    list_given(p, &given);
    status = read.failed || given.failed
                 ? NT_OUT_OF_MEMORY
                 : nt__fail(status, "%s. forward reads: %s; given: %s", problem, read.data ? read.data : "nothing",
                            given.data ? given.data : "nothing");
    nt__text_free(&given);
    nt__text_free(&read);
    return status;
}

/* ---- the given arrays against what forward reads ---------------------------------------------------------------- */

/* A name may be left out where there is one field only. */
static nt_status check_nameless(const prediction *p) {
    if (p->run->traced.routes.prediction.count == 1) return NT_OK;
    for (size_t i = 0; i < p->given_count; i++)
        if (!p->given[i].name)
            return fail_with_lists(p, NT_INVALID,
                                   "an array without a name stands for the only field, and forward does "
                                   "not read exactly one: name each, as in --input FIELD=FILE");
    return NT_OK;
}

static nt_status fail_missing(prediction *p, const char *field) {
    const char *problem = nt__arena_sprintf(&p->arena, "field '%s' is missing", field);
    return problem ? fail_with_lists(p, NT_NOT_FOUND, problem) : NT_OUT_OF_MEMORY;
}

/* NULL: the status says why. */
static const nt_array *find_given(prediction *p, const char *field, nt_status *status) {
    const nt_array *found = NULL;
    for (size_t i = 0; i < p->given_count; i++) {
        const char *name = p->given[i].name;
        if (name && strcmp(name, field) != 0) continue;
        if (found) {
            *status = nt__fail(NT_INVALID, "field '%s' is given twice", field);
            return NULL;
        }
        found = p->given[i].array;
    }
    if (!found) *status = fail_missing(p, field);
    return found;
}

static nt_status check_array(const nt__batch_field *field, const nt_array *array) {
    char given[NT__TYPE_TEXT], wanted[NT__TYPE_TEXT];
    nt__type type = nt__array_type(array);
    if (type.shape.rank < 1)
        return nt__fail(NT_INVALID, "field '%s' is %s and has no sample axis: axis 0 must count the samples",
                        field->name, nt__type_text(type, given));
    nt__type row = nt__row_type(type), wanted_row = nt__row_type(field->type);
    if (nt__type_equal(row, wanted_row)) return NT_OK;
    return nt__fail(
        NT_INVALID,
        "field '%s' has rows of %s, and the model is laid out for rows of %s: save it with that element type "
        "and shape",
        field->name, nt__type_text(row, given), nt__type_text(wanted_row, wanted));
}

static nt_status check_rows(const nt__split *split, const char *field, const nt_array *array) {
    if (split->field_count == 0 || array->shape.dims[0] == split->rows) return NT_OK;
    return nt__fail(NT_INVALID, "field '%s' has %lld rows, field '%s' has %lld: give all the same number", field,
                    (long long)array->shape.dims[0], split->fields[0].name, (long long)split->rows);
}

static nt_status bind_field(prediction *p, const nt__batch_field *field) {
    nt_status status = NT_OK;
    const nt_array *array = find_given(p, field->name, &status);
    if (!array) return status;
    status = check_array(field, array);
    if (status == NT_OK) status = check_rows(&p->split, field->name, array);
    if (status != NT_OK) return status;
    nt__split_borrow(&p->split, field->name, array);
    return NT_OK;
}

/* What a traced hook claims of a field is checked, as it is for splits at setup. */
static nt_status check_claims(const prediction *p) {
    const nt_run *run = p->run;
    for (size_t i = 0; i < run->traced.programs.forward_claim_count; i++) {
        const nt__claim *claim = &run->traced.programs.forward_claims[i];
        const char *field = claim->role == NT__ROLE_BATCH ? run->traced.batch_fields[claim->index].name : NULL;
        if (!field || !nt__split_field_find(&p->split, field)) continue;
        nt_status status = nt__split_check_bounds(&p->split, field, &claim->bounds);
        if (status != NT_OK)
            return nt__fail(status, "%s:%d in %s: %s; %s", claim->site.file, claim->site.line, claim->site.function,
                            nt_error_message(), claim->advice);
    }
    return NT_OK;
}

/* Fills the split with the arrays that forward reads. */
static nt_status bind(prediction *p) {
    nt_run *run = p->run;
    const nt__routes *routes = &run->traced.routes.prediction;
    nt_status status = check_nameless(p);
    if (status != NT_OK) return status;
    if (routes->count == 0)
        return nt__fail(NT_INVALID, "forward reads no field of the batch, so there is nothing to predict from");
    nt__split_field *split_fields = nt__arena_alloc(&p->arena, routes->count, sizeof *split_fields);
    if (!split_fields) return NT_OUT_OF_MEMORY;
    p->split = nt__split_borrowing("prediction", run->traced.batch_size, split_fields);
    for (size_t i = 0; status == NT_OK && i < run->traced.batch.count; i++)
        if (routes->position[i] >= 0) status = bind_field(p, &run->traced.batch_fields[i]);
    return status == NT_OK ? check_claims(p) : status;
}

/* ---- the first prediction of a handle without data -------------------------------------------------------------- */

/* A field of a full batch with rows like the array's. One without axes is refused when forward turns out to read it. */
static nt_status batch_field(nt__task *task, const nt_named_array *given, nt__batch_field *out) {
    char text[NT__TYPE_TEXT];
    size_t bytes;
    *out = (nt__batch_field){given->name ? nt__arena_strdup(&task->arena, given->name) : NULL,
                             nt__array_type(given->array)};
    if (given->name && !out->name) return NT_OUT_OF_MEMORY;
    if (out->type.shape.rank < 1) out->type.shape.rank = 1;
    out->type.shape.dims[0] = task->settings.batch;
    if (nt__type_bytes(out->type, &bytes)) return NT_OK;
    return nt__fail(NT_INVALID,
                    "a batch of field '%s' would be %s, more bytes than memory can hold: choose a smaller "
                    "batch",
                    given->name ? given->name : "", nt__type_text(out->type, text));
}

static nt_status list_batch_fields(prediction *p) {
    nt__batch_field *fields = nt__batch_new(&p->run->traced, p->given_count, p->run->task.settings.batch);
    nt_status status = fields ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < p->given_count; i++)
        status = batch_field(&p->run->task, &p->given[i], &fields[i]);
    return status;
}

/* Rows without axes are what was laid out for such an array, and what forward says about those leads nowhere. */
static nt_status fail_to_lay_out(const prediction *p, nt_status status) {
    char text[NT__TYPE_TEXT];
    for (size_t i = 0; status == NT_INVALID && i < p->given_count; i++) {
        nt__type type = nt__array_type(p->given[i].array);
        if (type.shape.rank > 0) continue;
        return nt__fail(status, "field '%s' is %s and has no sample axis: axis 0 must count the samples (%s)",
                        p->given[i].name ? p->given[i].name : "", nt__type_text(type, text), nt_error_message());
    }
    return status;
}

/* The layout follows from the arrays, so a file that does not fit it may be right. */
static nt_status fail_to_load(prediction *p, nt_status status) {
    if (status != NT_INVALID) return status;
    const char *problem = nt__arena_sprintf(
        &p->arena,
        "%s\nThe model was laid out for the arrays that were given: if their element types or shapes are not those of "
        "training, they are wrong, else the file is",
        nt_error_message());
    return problem ? fail_with_lists(p, status, problem) : NT_OUT_OF_MEMORY;
}

/* What derive would set, such as the mean of the data, would be wrong without a word. */
static nt_status warn_underived(const nt__traced *traced) {
    size_t count;
    const nt__argument *arguments = nt__program_arguments(traced->programs.forward, &count);
    nt__text names = {0};
    for (size_t i = 0; i < count; i++) {
        bool is_field = arguments[i].role == NT__ROLE_DEVICE;
        if (is_field && !traced->task->known[traced->device_fields.slots[arguments[i].index].field])
            nt__text_add(&names, "%s%s", names.length ? ", " : "", arguments[i].name);
    }
    nt_status status = names.failed ? NT_OUT_OF_MEMORY : NT_OK;
    if (names.length && status == NT_OK)
        status = nt__warn("%s: derive is not called without data, so DEVICE fields that forward reads have the values "
                          "that the run was given: %s",
                          traced->task->experiment->name, names.data);
    nt__text_free(&names);
    return status;
}

static nt_status lay_out_and_load(prediction *p) {
    nt_status status = fail_to_lay_out(p, nt__lay_out(p->run));
    if (status == NT_OK) status = bind(p);
    return status == NT_OK ? fail_to_load(p, nt__load_waiting(&p->run->waiting)) : status;
}

/* Lays the run out for arrays like these. A failure leaves it as it was, so that other arrays can be tried. */
static nt_status lay_out_first(prediction *p) {
    nt_run *run = p->run;
    nt__arena before = run->task.arena;
    run->task.arena = (nt__arena){0};
    nt_status status = nt__inputs_check(&run->waiting, p->given, p->given_count);
    if (status == NT_OK) status = list_batch_fields(p);
    if (status == NT_OK) {
        status = lay_out_and_load(p);
        status = nt__inputs_explain(&run->waiting, p->given, p->given_count, status);
    }
    if (status == NT_OK) status = nt__settle_waiting(&run->waiting);
    if (status == NT_OK && run->task.experiment->hooks.derive) status = warn_underived(&run->traced);
    if (status == NT_OK) status = nt__tell_setup(&run->resident);
    if (status == NT_OK) {
        run->first = run->task.arena;
    } else {
        nt__lay_out_undo(run);
        nt__arena_free(&run->task.arena);
    }
    run->task.arena = before;
    return status;
}

/* ---- the pass --------------------------------------------------------------------------------------------------- */

/* A short batch is filled up with copies of its last row, which must not change what the others give. */
static nt_status choose_program(nt__traced *traced, int64_t rows, nt__program **out) {
    *out = traced->programs.forward;
    bool is_whole = rows == traced->batch_size || traced->programs.rows_are_apart;
    return is_whole ? NT_OK : nt__short_forward(traced, rows, out);
}

/* Padding is cut off here: on the device it would cost a program for each short width. */
static void keep_rows(const prediction *p, const nt__staged *staged) {
    size_t row_bytes = p->batch->bytes / (size_t)p->run->traced.batch_size;
    size_t first = (size_t)staged->index * (size_t)p->run->traced.batch_size;
    memcpy((char *)p->outputs->data + first * row_bytes, p->batch->data, (size_t)staged->rows * row_bytes);
}

static nt_status batch(void *context, nt__staged *staged) {
    const prediction *p = context;
    nt_run *run = p->run;
    nt__buffer *result = &run->resident.device.outputs;
    int64_t batches = nt__split_batches(&p->split);
    nt__transfers_take(&run->resident, staged);
    nt__program *program;
    nt_status status = choose_program(&run->traced, staged->rows, &program);
    if (status == NT_OK)
        status = nt__launch(&run->resident, program, &run->traced.routes.prediction, staged, false, &result);
    if (status == NT_OK) status = nt__buffer_read(run->traced.engine, &run->resident.device.outputs, p->batch->data);
    nt__buffer_free(&run->resident.device.outputs);
    if (status != NT_OK)
        return nt__fail_in(status, "batch %lld of %lld", (long long)staged->index + 1, (long long)batches);
    keep_rows(p, staged);
    nt__tell(&run->task, &(nt_event){.kind = NT_EVENT_PREDICTING,
                                     .epoch = run->resident.epoch,
                                     .max_epochs = run->task.settings.max_epochs,
                                     .step = run->resident.step,
                                     .batch = staged->index + 1,
                                     .batches = batches});
    return NT_OK;
}

static nt_status make_outputs(prediction *p) {
    nt__type type = p->run->traced.outputs_type;
    p->batch = nt_array_new(type.dtype, type.shape);
    type.shape.dims[0] = p->split.rows;
    p->outputs = p->batch ? nt_array_new(type.dtype, type.shape) : NULL;
    return p->outputs ? NT_OK : nt_error_status();
}

/* Without a row there is no batch, and nothing is compiled. */
static nt_status run_batches(prediction *p) {
    nt_status status = make_outputs(p);
    if (status != NT_OK || p->split.rows == 0) return status;
    return nt__pass_without_training(&p->run->resident, &p->split, &p->run->traced.routes.prediction, batch, p);
}

static nt_status predict(prediction *p) {
    nt_status status = check_given(p);
    if (status == NT_OK) status = nt__is_laid_out(&p->run->traced) ? bind(p) : lay_out_first(p);
    return status == NT_OK ? run_batches(p) : status;
}

nt_status nt_predict(nt_run *run, const nt_named_array *fields, size_t count, nt_array **out) {
    if (!nt__given(out, "nt_predict", "out")) return NT_INVALID;
    *out = NULL;
    NT__USE_ALONE(run, "nt_predict");
    if (!used) return NT_INVALID;
    if (count && !nt__given(fields, "nt_predict", "fields")) return NT_INVALID;
    prediction p = {.run = run, .given = fields, .given_count = count};
    nt__transfers_begin(&run->resident);
    nt_status status = predict(&p);
    nt__transfers_end(&run->task);
    if (status == NT_OK) status = nt__transfers_tell(&run->resident, "a prediction");
    nt_array_free(p.batch);
    nt__arena_free(&p.arena);
    if (status == NT_OK) {
        *out = p.outputs;
        return NT_OK;
    }
    nt_array_free(p.outputs);
    return nt__fail_in(status, "prediction of %s", run->task.experiment->name);
}
