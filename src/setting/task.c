/* The handle's own copy of the experiment: copied from the caller's, changed by derive, released.
 * Not here: Device fields as inputs of the programs (device_fields.c).
 */
#include <string.h>

#include "setting/setting.h"

/* ---- arrays of Device fields: the run has references of its own ------------------------------------------------- */

static bool is_held(const nt_field_info *field) {
    return field->marker == NT_DEVICE && nt__field_holds_arrays(field);
}

/* Gives back what a value of the field in `fields` refers to. */
static void release(const nt_field_info *field, const void *fields) {
    const void *at = (const char *)fields + field->offset;
    if (field->type == NT_FIELD_ARRAY)
        nt_array_free(*(nt_array *const *)at);
    else
        nt_arrays_free(*(nt_arrays *const *)at);
}

/* A set is copied, so that the run can put another array in it. On failure the field is NULL. */
static nt_status hold(const nt_field_info *field, void *fields) {
    void *at = (char *)fields + field->offset;
    if (field->type == NT_FIELD_ARRAY) {
        nt_array_retain(*(nt_array **)at);
        return NT_OK;
    }
    nt_arrays *theirs = *(nt_arrays **)at, *own = theirs ? nt__arrays_copy(theirs) : NULL;
    *(nt_arrays **)at = own;
    return theirs && !own ? NT_OUT_OF_MEMORY : NT_OK;
}

static nt_status hold_all(nt__task *task) {
    nt_status status = NT_OK;
    for (size_t i = 0; i < task->experiment->field_count; i++) {
        const nt_field_info *field = &task->experiment->fields[i];
        if (!is_held(field)) continue;
        nt_status held = hold(field, task->fields);
        if (status == NT_OK) status = held;
    }
    return status;
}

void nt__fields_free(nt__task *task) {
    for (size_t i = 0; task->fields && i < task->experiment->field_count; i++)
        if (is_held(&task->experiment->fields[i])) release(&task->experiment->fields[i], task->fields);
}

/* ---- copying ---------------------------------------------------------------------------------------------------- */

static nt_status set_values(const nt__task *task, void *own, const void *fields, const char *preset) {
    size_t index;
    nt_status status = preset ? nt__preset_find(task->experiment, preset, &index) : NT_OK;
    if (status != NT_OK) return status;
    if (fields)
        memcpy(own, fields, task->experiment->size);
    else if (preset)
        return nt_preset(task->experiment, preset, own);
    else
        memcpy(own, task->defaults, task->experiment->size);
    return NT_OK;
}

/* Notes the fields that the caller names as given. */
static nt_status note_given(nt__task *task, const nt_run_options *options) {
    for (size_t i = 0; i < options->given_field_count; i++) {
        const nt_field_info *field = nt__field_find(task->experiment, options->given_fields[i]);
        if (!field)
            return nt__fail(NT_INVALID, "given_fields has '%s', which is no field of %s", options->given_fields[i],
                            task->experiment->name);
        task->given[field - task->experiment->fields] = true;
    }
    return NT_OK;
}

nt_status nt__fields_take(nt__task *task, const void *fields, const nt_run_options *options) {
    const char *preset = options->preset;
    size_t count = task->experiment->field_count + 1;
    void *own = nt__arena_alloc(&task->arena, 1, task->experiment->size + 1);
    task->view = nt__arena_alloc(&task->arena, 1, task->experiment->view_size + 1);
    task->defaults = nt__arena_alloc(&task->arena, 1, task->experiment->size + 1);
    task->derived = nt__arena_alloc(&task->arena, count, sizeof *task->derived);
    task->given = nt__arena_alloc(&task->arena, count, sizeof *task->given);
    task->known = nt__arena_alloc(&task->arena, count, sizeof *task->known);
    task->kept = nt__arena_alloc(&task->arena, count, sizeof *task->kept);
    task->preset = preset ? nt__arena_strdup(&task->arena, preset) : NULL;
    bool has_room = own && task->view && task->defaults && task->derived && task->given && task->known && task->kept;
    if (!has_room || (preset && !task->preset)) return NT_OUT_OF_MEMORY;
    task->experiment->set_defaults(task->defaults);
    nt_status status = set_values(task, own, fields, preset);
    if (status == NT_OK) status = nt__fields_check(task->experiment, own);
    if (status == NT_OK) status = note_given(task, options);
    if (status != NT_OK) return status;
    task->fields = own;
    return hold_all(task);
}

/* ---- derive ----------------------------------------------------------------------------------------------------- */

/* Notes the fields whose bytes changed. An array that derive put into a Device field is the run's, so the one before it
 * is given back. */
static void note_derived(nt__task *task, const void *before) {
    for (size_t i = 0; i < task->experiment->field_count; i++) {
        const nt_field_info *field = &task->experiment->fields[i];
        const char *old = (const char *)before + field->offset, *new = (const char *)task->fields + field->offset;
        task->derived[i] = memcmp(old, new, field->size) != 0;
        if (task->derived[i] && is_held(field)) release(field, before);
    }
}

/* Derive may keep or adjust what was given; what it replaces would be gone without a word. */
static nt_status warn_of_replaced(const nt__task *task) {
    nt__differences l = {0};
    for (size_t i = 0; i < task->experiment->field_count; i++) {
        nt__text was = {0}, now = {0};
        const nt_field_info *field = &task->experiment->fields[i];
        if (!task->derived[i] || !task->given[i]) continue;
        nt__field_show(field, task->underived, false, &was);
        nt__field_show(field, task->fields, false, &now);
        l.text.failed |= was.failed || now.failed;
        nt__difference_add(&l, "%s: %s given, %s by derive", field->name, was.data ? was.data : "",
                           now.data ? now.data : "");
        nt__text_free(&was);
        nt__text_free(&now);
    }
    nt_status status = l.text.failed ? NT_OUT_OF_MEMORY : NT_OK;
    if (status == NT_OK && l.count)
        status =
            nt__warn("%s: derive replaces values that were given, and its own are used:%s\nLeave these out, or let "
                     "derive keep what is given",
                     task->experiment->name, nt__differences_shown(&l));
    nt__text_free(&l.text);
    return status;
}

nt_status nt__fields_derive(nt__task *task, const nt_data *data, bool warns) {
    if (!task->experiment->hooks.derive) return NT_OK;
    void *before = nt__arena_alloc(&task->arena, 1, task->experiment->size + 1);
    if (!before) return NT_OUT_OF_MEMORY;
    memcpy(before, task->fields, task->experiment->size);
    task->underived = before;
    nt__hook_begin(task->experiment, "derive");
    nt_status status = task->experiment->hooks.derive(task->fields, data);
    note_derived(task, before);
    status = nt__hook_end(task->experiment, "derive", status);
    if (status == NT_OK) status = nt__fields_check(task->experiment, task->fields);
    return status == NT_OK && warns ? warn_of_replaced(task) : status;
}
