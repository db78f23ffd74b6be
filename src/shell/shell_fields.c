/* The shell's commands on the fields of a run: what they are on the device, and other values for those.
 * Not here: what a live run refuses (run/set_device.c).
 */
#include <string.h>

#include "array/array.h"
#include "shell/shell.h"
#include "show/show.h"
#include "experiment/experiment.h"

/* ---- values as text --------------------------------------------------------------------------------------------- */

/* The number of the field, wherever it lies. */
static void add_number(const nt_field_info *field, const void *at, nt__text *out) {
    nt_field_info alone = *field;
    alone.offset = 0;
    nt__field_print(&alone, at, out);
}

enum { MOST_ELEMENTS = 8 };

/* "f32[16,2]: 0.5, 1, ..." */
static void add_array(const nt_array *array, nt__text *out) {
    char type[NT__TYPE_TEXT];
    int64_t count = nt_shape_elements(array->shape);
    nt__text_add(out, "%s", nt__type_text((nt__type){array->dtype, array->shape}, type));
    for (int64_t i = 0; i < count && i < MOST_ELEMENTS; i++)
        nt__text_add(out, "%s%.6g", i ? ", " : ": ", nt__plain_nan(nt_array_get(array, i)));
    if (count > MOST_ELEMENTS) nt__text_add(out, ", ...");
}

static bool is_read_back(const nt_field_info *field) {
    return field->marker == NT_DEVICE && nt__field_is_number(field);
}

/* A number of a Device field as the device has it, the others as the run was given them. */
static nt_status add_value(const nt__shell_run *run, const nt_field_info *field, nt__text *out) {
    if (!is_read_back(field)) {
        nt__field_print(field, run->fields, out);
        return NT_OK;
    }
    nt_array *value = nt_get_device(run->run, field->name);
    if (!value) return nt_error_status();
    add_number(field, value->data, out);
    nt_array_free(value);
    return NT_OK;
}

/* ---- fields ----------------------------------------------------------------------------------------------------- */

static nt_status add_row(const nt__shell_run *run, const nt_field_info *field, nt__text *value, nt__table *table) {
    value->length = 0;
    nt_status status = add_value(run, field, value);
    nt__table_add(table, field->name);
    nt__table_add(table, nt__field_type_text(field));
    nt__table_add(table, value->length ? value->data : "");
    nt__table_add(table, nt__marker_name(field->marker));
    nt__table_add(table, field->doc);
    return status;
}

static nt_status list_values(const nt__shell_run *run) {
    static const char *const header[] = {"field", "type", "value", "marker", "meaning"};
    enum { COLUMNS = sizeof header / sizeof *header };
    nt__table table = {0};
    nt__text value = {0};
    nt_status status = NT_OK;
    for (size_t i = 0; i < COLUMNS; i++) nt__table_add(&table, header[i]);
    for (size_t i = 0; status == NT_OK && i < run->experiment->field_count; i++)
        status = add_row(run, &run->experiment->fields[i], &value, &table);
    table.cells.failed |= value.failed || status != NT_OK;
    nt__text_free(&value);
    bool printed = nt__table_print(&table, COLUMNS, stdout);
    return status == NT_OK && !printed ? NT_OUT_OF_MEMORY : status;
}

nt_status nt__shell_fields(nt__shell *shell, const nt__words *words) {
    (void)words;
    const nt_experiment *experiment;
    if (shell->current) return list_values(shell->current);
    nt_status status = nt__shell_choose(shell, shell->options.experiment, &experiment);
    if (status != NT_OK) return status;
    void *fields = nt__alloc(1, experiment->size + 1);
    if (!fields) return NT_OUT_OF_MEMORY;
    status = nt__set_start(experiment, shell->options.run.preset, fields);
    if (status == NT_OK && !nt__print_experiment(experiment, fields, stdout)) status = NT_OUT_OF_MEMORY;
    nt__free(fields);
    return status;
}

/* ---- get -------------------------------------------------------------------------------------------------------- */

/* Of an array its type and first elements; of a field that is not on the device the value that the run was given. */
static nt_status add_shown(const nt__shell_run *run, const char *name, nt__text *out) {
    const nt_field_info *field = nt__field_find(run->experiment, name);
    if (field && (field->marker != NT_DEVICE || is_read_back(field))) return add_value(run, field, out);
    nt_array *value = nt_get_device(run->run, name);
    if (!value) return nt_error_status();
    add_array(value, out);
    nt_array_free(value);
    return NT_OK;
}

static nt_status show(nt__shell *shell, const char *name) {
    nt__text text = {0};
    nt_status status = add_shown(shell->current, name, &text);
    if (status == NT_OK && text.failed) status = NT_OUT_OF_MEMORY;
    if (status == NT_OK) nt__terminal_line(&shell->terminal, "%s = %s", name, text.length ? text.data : "");
    nt__text_free(&text);
    return status;
}

nt_status nt__shell_get(nt__shell *shell, const nt__words *words) {
    return show(shell, words->items[0]);
}

/* ---- set -------------------------------------------------------------------------------------------------------- */

/* Text as an array of rank 0 of the field's own type, so that no digit is lost on the way. */
static nt_array *number_from_text(const nt_field_info *field, const char *text) {
    _Alignas(8) char value[8] = {0};
    nt_field_info alone = *field;
    alone.offset = 0;
    if (nt__field_parse(&alone, text, value) != NT_OK) return NULL;
    return nt_array_from(nt__field_dtype(field->type), (nt_shape){0}, value);
}

/* What cannot be set at all is refused before its value is looked at. `field` NULL: there is none of that name. */
static nt_status set_field(nt_run *run, const nt_field_info *field, const char *name, const char *text) {
    if (!field || field->marker != NT_DEVICE) return nt_set_device_number(run, name, 0);
    nt_array *value = nt__field_is_number(field) ? number_from_text(field, text) : nt_npy_read(text);
    nt_status status = value ? nt_set_device_array(run, name, value) : nt_error_status();
    nt_array_free(value);
    return status;
}

/* `name` is a field, or "field.member" of a set of arrays. */
static nt_status set_by_text(nt__shell *shell, nt__arena *arena, const char *name, const char *text) {
    const nt__shell_run *run = shell->current;
    char *of_field = nt__arena_sprintf(arena, "%.*s", (int)strcspn(name, "."), name);
    if (!of_field) return NT_OUT_OF_MEMORY;
    const nt_field_info *field = nt__field_find(run->experiment, of_field);
    nt_status status = set_field(run->run, field, name, text);
    return status == NT_OK ? show(shell, name) : status;
}

nt_status nt__shell_set(nt__shell *shell, const nt__words *words) {
    const char *word = words->items[0], *equals = strchr(word, '=');
    if (!equals || equals == word || !equals[1])
        return nt__fail(NT_INVALID, "'%s' sets nothing: write set FIELD=VALUE, of an array set FIELD=FILE.npy", word);
    nt__arena arena = {0};
    char *name = nt__arena_sprintf(&arena, "%.*s", (int)(equals - word), word);
    nt_status status = name ? set_by_text(shell, &arena, name, equals + 1) : NT_OUT_OF_MEMORY;
    nt__arena_free(&arena);
    return status;
}
