/* Splits: named sets of named fields, of arrays that have their samples along axis 0 or of a source, and what is
 * checked about them. Not here: calling a source (source.c), the order of a pass (pass.c); what training needs of a
 * split.
 */
#include "data/data_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct nt_data {
    atomic_size_t owners;
    nt__arena arena;    /* splits, names, lists of names */
    nt__split **splits; /* pointers, so that a split stays where it is when the list grows */
    size_t count, capacity;
    const char *names; /* "train, val"; NULL without a split */
    bool is_complete;  /* nothing more is declared: others read it, in threads too */
    nt__kept_error error;
};

/* ---- making and finding ----------------------------------------------------------------------------------------- */

nt_data *nt__data_new(void) {
    nt_data *data = nt__alloc(1, sizeof *data);
    if (data) atomic_init(&data->owners, 1);
    return data;
}

nt_data *nt__data_retain(nt_data *data) {
    if (data) atomic_fetch_add(&data->owners, 1);
    return data;
}

static void free_split(nt__split *split) {
    nt__source_close(&split->source);
    nt__spare_free(split);
    for (size_t i = 0; i < split->field_count; i++) {
        nt_array_free(split->fields[i].array);
        nt__free(split->fields[i].claims);
    }
    nt__free(split->fields);
}

void nt__data_free(nt_data *data) {
    if (!data || atomic_fetch_sub(&data->owners, 1) > 1) return;
    for (size_t i = 0; i < data->count; i++) free_split(data->splits[i]);
    nt__free(data->splits);
    nt__arena_free(&data->arena);
    nt__free(data);
}

size_t nt__data_split_count(const nt_data *data) {
    return data->count;
}

const nt__split *nt__data_split_at(const nt_data *data, size_t index) {
    return data->splits[index];
}

static nt__split *find_split(const nt_data *data, const char *name) {
    for (size_t i = 0; i < data->count; i++) {
        if (strcmp(data->splits[i]->name, name) == 0) return data->splits[i];
    }
    return NULL;
}

const nt__split *nt__data_split_find(const nt_data *data, const char *name) {
    return find_split(data, name);
}

const char *nt__data_split_names(nt_data *data) {
    return data->names ? data->names : "none";
}

const nt__split_field *nt__split_field_find(const nt__split *split, const char *field) {
    for (size_t i = 0; i < split->field_count; i++) {
        if (strcmp(split->fields[i].name, field) == 0) return &split->fields[i];
    }
    return NULL;
}

/* ---- what derive sees ------------------------------------------------------------------------------------------- */

static const nt__split *find_or_fail(const nt_data *data, const char *call, const char *split) {
    if (!nt__given(data, call, "data") || !nt__given(split, call, "split")) return NULL;
    const nt__split *found = find_split(data, split);
    if (!found)
        nt__fail(NT_NOT_FOUND, "there is no split '%s'; the splits are: %s", split, data->names ? data->names : "none");
    return found;
}

const nt_array *nt_data_array(const nt_data *data, const char *split, const char *field) {
    const nt__split *found = find_or_fail(data, "nt_data_array", split);
    if (!found || !nt__given(field, "nt_data_array", "field")) return NULL;
    const nt__split_field *of_name = nt__split_field_find(found, field);
    if (of_name && of_name->array) return of_name->array;
    if (of_name)
        nt__fail(NT_INVALID,
                 "field '%s' of split '%s' comes from a source, so it is in no array: derive what you need "
                 "from nt_data_rows, or from the source itself",
                 field, split);
    else
        nt__fail(NT_NOT_FOUND, "split '%s' has no field '%s'; it has: %s", split, field, found->field_names);
    return NULL;
}

int64_t nt_data_rows(const nt_data *data, const char *split) {
    const nt__split *found = find_or_fail(data, "nt_data_rows", split);
    return found ? found->rows : -1;
}

/* ---- declaring a split ------------------------------------------------------------------------------------------ */

static nt_status check_name(const char *call, const char *what, const char *name) {
    if (!nt__given(name, call, what)) return NT_INVALID;
    return *name ? NT_OK : nt__fail(NT_INVALID, "%s: %s is an empty text: give it a name", call, what);
}

static nt_status check_options(const char *name, const nt_split_options *options) {
    if (options->batch < 1)
        return nt__fail(NT_INVALID, "split '%s': batch is %" PRId64 ", it must be at least 1: set .batch", name,
                        options->batch);
    if (options->first < 0 || options->limit < 0)
        return nt__fail(NT_INVALID,
                        "split '%s': first is %" PRId64 " and limit is %" PRId64 ", neither may be negative", name,
                        options->first, options->limit);
    if (options->limit && options->limit <= options->first)
        return nt__fail(NT_INVALID,
                        "split '%s': first is %" PRId64 " and limit is %" PRId64
                        ": the rows first <= row < limit are none; limit must be above first, or 0 for all rows",
                        name, options->first, options->limit);
    return NT_OK;
}

enum { MOST_WORKERS = 1024, MOST_WAITING = 1 << 20, USUAL_TIME_LIMIT = 60 };

/* What is 0 gets its default. */
static void fill_defaults(nt_split_options *options) {
    if (options->workers == 0) options->workers = 1;
    if (options->host_batches == 0) options->host_batches = 2 * options->workers;
    if (options->device_batches == 0) options->device_batches = 1;
    if (options->time_limit == 0) options->time_limit = USUAL_TIME_LIMIT;
}

static nt_status check_limits(const char *name, const nt_split_options *options) {
    if (options->workers < 0 || options->workers > MOST_WORKERS)
        return nt__fail(NT_INVALID, "split '%s': workers is %d, it must be 1 to %d, or 0 for 1", name, options->workers,
                        MOST_WORKERS);
    if (options->device_batches < 0 || options->device_batches > MOST_WAITING)
        return nt__fail(NT_INVALID, "split '%s': device_batches is %d, it must be 1 to %d, or 0 for 1", name,
                        options->device_batches, MOST_WAITING);
    int least = options->workers ? options->workers : 1;
    bool given = options->host_batches != 0;
    if (given && (options->host_batches < least || options->host_batches > MOST_WAITING))
        return nt__fail(NT_INVALID,
                        "split '%s': host_batches is %d, it must be %d (one for each worker) to %d, or 0 for twice the "
                        "workers",
                        name, options->host_batches, least, MOST_WAITING);
    if (isfinite(options->time_limit) && options->time_limit >= 0) return NT_OK;
    return nt__fail(NT_INVALID, "split '%s': time_limit is %g, it must be seconds above 0, or 0 for %d", name,
                    options->time_limit, USUAL_TIME_LIMIT);
}

/* The list of names with one more; NULL when memory is short. */
static const char *add_name(nt_data *data, const char *names, const char *name) {
    return names ? nt__arena_sprintf(&data->arena, "%s, %s", names, name) : nt__arena_strdup(&data->arena, name);
}

static nt_status append_split(nt_data *data, const char *name, const nt_split_options *options) {
    nt__split *split = nt__arena_alloc(&data->arena, 1, sizeof *split);
    const char *copy = split ? nt__arena_strdup(&data->arena, name) : NULL;
    const char *names = copy ? add_name(data, data->names, name) : NULL;
    atomic_int *left_behind = names ? nt__arena_alloc(&data->arena, 1, sizeof *left_behind) : NULL;
    const char *shares = options->shares ? nt__arena_strdup(&data->arena, options->shares) : NULL;
    if ((options->shares && !shares) || !left_behind || !NT__GROW(data->splits, data->count, data->capacity))
        return NT_OUT_OF_MEMORY;
    *split =
        (nt__split){.name = copy, .options = *options, .field_names = "none", .data = data, .left_behind = left_behind};
    atomic_init(left_behind, 0);
    split->options.shares = shares;
    fill_defaults(&split->options);
    data->splits[data->count++] = split;
    data->names = names;
    return NT_OK;
}

static nt_status add_split(nt_data *data, const char *name, const nt_split_options *options) {
    nt_status status = check_name("nt_split", "name", name);
    if (status == NT_OK) status = check_options(name, options);
    if (status == NT_OK) status = check_limits(name, options);
    if (status != NT_OK) return status;
    if (find_split(data, name))
        return nt__fail(NT_INVALID, "split '%s' is there already: declare each split once, with a name of its own",
                        name);
    status = append_split(data, name, options);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "split '%s'", name);
}

void nt__data_complete(nt_data *data) {
    data->is_complete = true;
}

/* The error is also that of the hook that calls, which may ignore it. */
static nt_status check_open(nt_data *data, const char *call) {
    if (!nt__given(data, call, "data")) return NT_INVALID;
    if (!data->is_complete) return nt_data_status(data);
    nt_status status = nt__fail(NT_INVALID,
                                "%s: the data is complete since build_data has returned: declare all splits and fields "
                                "in build_data",
                                call);
    nt__calls_keep(status);
    return status;
}

nt_status nt_split_with(nt_data *data, const char *name, nt_split_options options) {
    nt_status status = check_open(data, "nt_split");
    return status == NT_OK ? nt__error_keep(&data->error, add_split(data, name, &options)) : status;
}

nt_status nt_data_status(nt_data *data) {
    return nt__given(data, "nt_data_status", "data") ? nt__error_raise(&data->error) : NT_INVALID;
}

/* ---- fields ----------------------------------------------------------------------------------------------------- */

/* The list of fields may move: the array's place in it is not kept. */
static nt_status append_field(nt_data *data, nt__split *split, const char *name, nt__type sample, nt_array *array) {
    const char *copy = nt__arena_strdup(&data->arena, name);
    const char *names = copy ? add_name(data, split->field_count ? split->field_names : NULL, name) : NULL;
    void **spare = names ? nt__arena_alloc(&data->arena, 1, sizeof *spare) : NULL;
    if (!spare || !NT__GROW(split->fields, split->field_count, split->field_capacity)) return NT_OUT_OF_MEMORY;
    split->fields[split->field_count++] =
        (nt__split_field){.name = copy, .sample = sample, .array = array, .spare = spare};
    split->field_names = names;
    return NT_OK;
}

static void set_rows(nt__split *split, int64_t whole) {
    split->rows = (split->options.limit ? split->options.limit : whole) - split->options.first;
}

static nt_status check_batch_bytes(const nt__split *split, nt__type sample) {
    size_t bytes;
    char text[NT__TYPE_TEXT];
    nt__split_field field = {.sample = sample};
    nt__type type = nt__split_field_type(split, &field);
    if (nt__type_bytes(type, &bytes)) return NT_OK;
    return nt__fail(NT_INVALID, "a batch would be %s, more bytes than memory can hold: choose a smaller batch",
                    nt__type_text(type, text));
}

static nt_status check_new_field(const nt__split *split, const char *name, nt__type sample) {
    if (nt__split_field_find(split, name))
        return nt__fail(NT_INVALID, "the field is there already: add each field once, under a name of its own");
    return check_batch_bytes(split, sample);
}

static nt_status find_for_filling(const nt_data *data, const char *name, nt__split **out) {
    *out = find_split(data, name);
    if (!*out)
        return nt__fail(NT_NOT_FOUND, "there is no split '%s', there are: %s; declare it with nt_split first", name,
                        data->names ? data->names : "none");
    if (!nt__split_has_source(*out)) return NT_OK;
    return nt__fail(NT_INVALID, "the split has source '%s': fill a split from one source, or from arrays",
                    (*out)->source.name);
}

/* ---- from arrays ------------------------------------------------------------------------------------------------ */

static int64_t array_rows(const nt_array *array) {
    return array->shape.dims[0];
}

/* The thread's status and message are those of the call which could not make the array. */
static nt_status check_array(const nt_array *array) {
    if (!array && !*nt_error_message()) return nt__fail(NT_INVALID, "the array is NULL");
    if (!array) return nt_error_status();
    if (array->shape.rank > 0) return NT_OK;
    return nt__fail(NT_INVALID, "the array has no axes: axis 0 must count the samples");
}

static nt_status check_rows(const nt__split *split, const nt_array *array) {
    int64_t first = split->options.first, limit = split->options.limit, rows = array_rows(array);
    if (first < rows && limit <= rows) return NT_OK;
    if (limit)
        return nt__fail(NT_INVALID,
                        "the split has the rows %" PRId64 " <= row < %" PRId64 ", the array has only %" PRId64 " rows",
                        first, limit, rows);
    return nt__fail(NT_INVALID, "the split has the rows from %" PRId64 " on, the array has only %" PRId64 " rows",
                    first, rows);
}

static nt_status check_same_rows(const nt__split *split, const nt_array *array) {
    if (split->field_count == 0 || array_rows(split->fields[0].array) == array_rows(array)) return NT_OK;
    return nt__fail(NT_INVALID,
                    "%" PRId64 " rows, but field '%s' has %" PRId64 ": all fields of a split must have the same number",
                    array_rows(array), split->fields[0].name, array_rows(split->fields[0].array));
}

static nt_status add_to_split(nt_data *data, const char *split_name, const char *name, nt_array *array) {
    nt__split *split = NULL;
    nt_status status = check_name("nt_split_field", "split", split_name);
    if (status == NT_OK) status = check_name("nt_split_field", "field", name);
    if (status == NT_OK) status = find_for_filling(data, split_name, &split);
    if (status != NT_OK) return status;
    nt__type sample = nt__row_type(nt__array_type(array));
    status = check_same_rows(split, array);
    if (status == NT_OK) status = check_rows(split, array);
    if (status == NT_OK) status = check_new_field(split, name, sample);
    if (status == NT_OK) status = append_field(data, split, name, sample, array);
    if (status == NT_OK) set_rows(split, array_rows(array));
    return status;
}

/* The array comes first: when it is NULL, the thread's message is about it and must not be lost to another. */
static nt_status add_field(nt_data *data, const char *split, const char *field, nt_array *array) {
    nt_status status = check_array(array);
    if (status == NT_OK) status = add_to_split(data, split, field, array);
    if (status == NT_OK) return NT_OK;
    return nt__fail_in(status, "split '%s', field '%s'", split ? split : "NULL", field ? field : "NULL");
}

nt_status nt_split_field(nt_data *data, const char *split, const char *field, nt_array *array) {
    nt_status status = check_open(data, "nt_split_field");
    if (status == NT_OK) status = nt__error_keep(&data->error, add_field(data, split, field, array));
    if (status != NT_OK) nt_array_free(array);
    return status;
}

nt__split nt__split_borrowing(const char *name, int64_t batch, nt__split_field *fields) {
    nt__split split = {.name = name, .options = {.batch = batch}, .fields = fields, .field_names = "none"};
    fill_defaults(&split.options);
    return split;
}

/* A split of data owns its arrays and may free them; this one only reads. */
void nt__split_borrow(nt__split *split, const char *name, const nt_array *array) {
    split->fields[split->field_count++] =
        (nt__split_field){.name = name, .sample = nt__row_type(nt__array_type(array)), .array = (nt_array *)array};
    set_rows(split, array_rows(array));
}

/* ---- from a source ---------------------------------------------------------------------------------------------- */

static nt_status add_source_field(nt_data *data, nt__split *split, const nt_source_field *field) {
    nt__type sample = {field->dtype, field->sample};
    nt_status status = check_name("nt_split_source", "the name of a field", field->name);
    if (status == NT_OK) status = check_new_field(split, field->name, sample);
    if (status == NT_OK) status = append_field(data, split, field->name, sample, NULL);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "field '%s'", field->name ? field->name : "NULL");
}

/* From here on the split owns the source. */
static nt_status give_source(nt_data *data, nt__split *split, const nt_source *source) {
    const char *name = nt__arena_strdup(&data->arena, source->name ? source->name : "source");
    nt_status status = name ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < source->field_count; i++)
        status = add_source_field(data, split, &source->fields[i]);
    if (status != NT_OK) return status;
    set_rows(split, source->rows);
    split->source = *source;
    split->source.name = name;
    split->source.fields = NULL; /* the split has them, and the caller's may go */
    return NT_OK;
}

static nt_status add_source(nt_data *data, const char *split_name, const nt_source *source) {
    nt__split *split = NULL;
    nt_status status = check_name("nt_split_source", "split", split_name);
    if (status == NT_OK) status = find_for_filling(data, split_name, &split);
    if (status == NT_OK && split->field_count)
        status = nt__fail(NT_INVALID, "the split has the fields %s: fill a split from one source, or from arrays",
                          split->field_names);
    if (status == NT_OK) status = nt__source_check(split, source);
    if (status == NT_OK) status = give_source(data, split, source);
    if (status == NT_OK) return NT_OK;
    return nt__fail_in(status, "split '%s', source '%s'", split_name ? split_name : "NULL",
                       source->name ? source->name : "source");
}

nt_status nt_split_source(nt_data *data, const char *split, nt_source source) {
    nt_status status = check_open(data, "nt_split_source");
    if (status == NT_OK) status = nt__error_keep(&data->error, add_source(data, split, &source));
    if (status != NT_OK) nt__source_close(&source);
    return status;
}

/* ---- checks over all splits ------------------------------------------------------------------------------------- */

static nt_status check_size(const nt__split *split) {
    if (split->field_count == 0)
        return nt__fail(
            NT_INVALID,
            "split '%s' has no field: add its arrays with nt_split_field, or its source with nt_split_source",
            split->name);
    if (nt__split_batches(split) == 0)
        return nt__fail(NT_INVALID,
                        "split '%s' has %" PRId64 " rows, batches of %" PRId64
                        " and drop_last: no batch is left; make .batch %" PRId64
                        " or smaller, or, if nothing is trained, leave .drop_last out",
                        split->name, split->rows, split->options.batch, split->rows);
    if (split->options.shuffle && split->rows > UINT32_MAX)
        return nt__fail(NT_INVALID, "split '%s' has %" PRId64 " rows: at most %" PRIu32 " can be shuffled", split->name,
                        split->rows, UINT32_MAX);
    return NT_OK;
}

/* The field of one split against the other split. */
static nt_status compare_field(const nt__split *split, const nt__split_field *field, const nt__split *other) {
    char text[NT__TYPE_TEXT], other_text[NT__TYPE_TEXT];
    const nt__split_field *twin = nt__split_field_find(other, field->name);
    if (!twin)
        return nt__fail(NT_INVALID, "split '%s' has a field '%s', split '%s' has not (it has: %s): give all the same",
                        split->name, field->name, other->name, other->field_names);
    if (nt__type_equal(field->sample, twin->sample)) return NT_OK;
    return nt__fail(NT_INVALID, "field '%s' has samples %s in split '%s' and %s in split '%s': they must be the same",
                    field->name, nt__type_text(field->sample, text), split->name,
                    nt__type_text(twin->sample, other_text), other->name);
}

static nt_status compare_fields(const nt__split *split, const nt__split *other) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < split->field_count; i++)
        status = compare_field(split, &split->fields[i], other);
    return status;
}

static nt_status check_batch(const nt__split *split, const nt__split *first) {
    int64_t batch = split->options.batch, other = first->options.batch;
    if (batch == other) return NT_OK;
    return nt__fail(NT_INVALID,
                    "split '%s' has batches of %" PRId64 ", split '%s' of %" PRId64
                    ": give all the same, for a program has "
                    "one batch size",
                    first->name, other, split->name, batch);
}

static nt_status check_split(const nt__split *split, const nt__split *first) {
    nt_status status = check_size(split);
    if (status == NT_OK) status = check_batch(split, first);
    if (status == NT_OK) status = compare_fields(first, split);
    return status == NT_OK ? compare_fields(split, first) : status;
}

/* How many fields of all splits hold the array. */
static size_t uses_of(const nt_data *data, const nt_array *array) {
    size_t uses = 0;
    for (size_t s = 0; s < data->count; s++)
        for (size_t f = 0; f < data->splits[s]->field_count; f++) uses += data->splits[s]->fields[f].array == array;
    return uses;
}

/* Each field frees its own reference. What is missing is made up for, so that the error frees nothing twice. */
static nt_status check_references(nt_data *data, const nt__split *split) {
    for (size_t f = 0; f < split->field_count; f++) {
        nt_array *array = split->fields[f].array;
        size_t uses = array ? uses_of(data, array) : 0;
        if (!array || uses <= array->references) continue;
        size_t held = array->references;
        array->references = uses;
        return nt__fail(NT_INVALID,
                        "the array of field '%s' of split '%s' is given to %zu fields and has %zu references: give "
                        "nt_array_retain(array) to all but one",
                        split->fields[f].name, split->name, uses, held);
    }
    return NT_OK;
}

nt_status nt__data_check(nt_data *data) {
    nt_status status = nt_data_status(data);
    if (status == NT_OK && data->count == 0)
        status = nt__fail(NT_INVALID, "no split was declared: nt_split(data, \"train\", .batch = ...) declares one");
    for (size_t i = 0; status == NT_OK && i < data->count; i++) {
        status = check_references(data, data->splits[i]);
        if (status == NT_OK) status = nt__split_check_shares(data, data->splits[i]);
        if (status == NT_OK) status = check_split(data->splits[i], data->splits[0]);
    }
    return status;
}

/* ---- asking a split --------------------------------------------------------------------------------------------- */

int64_t nt__split_batches(const nt__split *split) {
    int64_t batch = split->options.batch;
    return split->rows / batch + (split->rows % batch > 0 && !split->options.drop_last);
}

nt__type nt__field_type(const nt__split_field *field, int64_t rows) {
    nt__type type = {field->sample.dtype, {.rank = field->sample.shape.rank + 1, .dims = {rows}}};
    memcpy(type.shape.dims + 1, field->sample.shape.dims, (size_t)field->sample.shape.rank * sizeof *type.shape.dims);
    return type;
}

nt__type nt__split_field_type(const nt__split *split, const nt__split_field *field) {
    return nt__field_type(field, split->options.batch);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* A batch of the split fits into memory, so a row does. */
size_t nt__field_row_bytes(const nt__split_field *field) {
    return (size_t)nt_shape_elements(field->sample.shape) * nt_dtype_size(field->sample.dtype);
}

int64_t nt__rows_at(const nt__split *split, const nt__rows *rows, int64_t i) {
    return split->options.first + (rows->order ? rows->order[i] : rows->first + i);
}

char *nt__split_row(const nt__split *split, const nt__split_field *field, int64_t row) {
    char *data = field->array->data;
    return data + (size_t)(split->options.first + row) * nt__field_row_bytes(field);
}

void nt__rows_gather(const nt__split *split, const nt__split_field *field, const nt__rows *rows, void *out) {
    size_t bytes = nt__field_row_bytes(field);
    char *to = out;
    if (!rows->order) {
        memcpy(to, nt__split_row(split, field, rows->first), (size_t)rows->count * bytes);
        return;
    }
    for (int64_t i = 0; i < rows->count; i++, to += bytes)
        memcpy(to, nt__split_row(split, field, rows->order[i]), bytes);
}
