/* The handle's own copy of the experiment: copied from the caller's, changed by derive, released.
 * Not here: Device fields as inputs of the programs (device_fields.c).
 */
#include <string.h>

#include "run/model_pair.h"
#include "run/run_internal.h"

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

static nt_status hold_all(nt_run *run) {
    nt_status status = NT_OK;
    for (size_t i = 0; i < run->experiment->field_count; i++) {
        const nt_field_info *field = &run->experiment->fields[i];
        if (!is_held(field)) continue;
        nt_status held = hold(field, run->fields);
        if (status == NT_OK) status = held;
    }
    return status;
}

void nt__fields_free(nt_run *run) {
    for (size_t i = 0; run->fields && i < run->experiment->field_count; i++)
        if (is_held(&run->experiment->fields[i])) release(&run->experiment->fields[i], run->fields);
}

/* ---- copying ---------------------------------------------------------------------------------------------------- */

static nt_status set_values(const nt_run *run, void *own, const void *fields, const char *preset) {
    size_t index;
    nt_status status = preset ? nt__preset_find(run->experiment, preset, &index) : NT_OK;
    if (status != NT_OK) return status;
    if (fields)
        memcpy(own, fields, run->experiment->size);
    else if (preset)
        return nt_preset(run->experiment, preset, own);
    else
        memcpy(own, run->defaults, run->experiment->size);
    return NT_OK;
}

/* Notes the fields that the caller names as given. */
static nt_status note_given(nt_run *run, const nt_run_options *options) {
    for (size_t i = 0; i < options->given_field_count; i++) {
        const nt_field_info *field = nt__field_find(run->experiment, options->given_fields[i]);
        if (!field)
            return nt__fail(NT_INVALID, "given_fields has '%s', which is no field of %s", options->given_fields[i],
                            run->experiment->name);
        run->given[field - run->experiment->fields] = true;
    }
    return NT_OK;
}

nt_status nt__fields_take(nt_run *run, const void *fields, const nt_run_options *options) {
    const char *preset = options->preset;
    size_t count = run->experiment->field_count + 1;
    void *own = nt__arena_alloc(&run->arena, 1, run->experiment->size + 1);
    run->view = nt__arena_alloc(&run->arena, 1, run->experiment->view_size + 1);
    run->defaults = nt__arena_alloc(&run->arena, 1, run->experiment->size + 1);
    run->derived = nt__arena_alloc(&run->arena, count, sizeof *run->derived);
    run->given = nt__arena_alloc(&run->arena, count, sizeof *run->given);
    run->known = nt__arena_alloc(&run->arena, count, sizeof *run->known);
    run->kept = nt__arena_alloc(&run->arena, count, sizeof *run->kept);
    run->preset = preset ? nt__arena_strdup(&run->arena, preset) : NULL;
    bool has_room = own && run->view && run->defaults && run->derived && run->given && run->known && run->kept;
    if (!has_room || (preset && !run->preset)) return NT_OUT_OF_MEMORY;
    run->experiment->set_defaults(run->defaults);
    nt_status status = set_values(run, own, fields, preset);
    if (status == NT_OK) status = nt__fields_check(run->experiment, own);
    if (status == NT_OK) status = note_given(run, options);
    if (status != NT_OK) return status;
    run->fields = own;
    return hold_all(run);
}

/* ---- derive ----------------------------------------------------------------------------------------------------- */

/* Notes the fields whose bytes changed. An array that derive put into a Device field is the run's, so the one before it
 * is given back. */
static void note_derived(nt_run *run, const void *before) {
    for (size_t i = 0; i < run->experiment->field_count; i++) {
        const nt_field_info *field = &run->experiment->fields[i];
        const char *old = (const char *)before + field->offset, *new = (const char *)run->fields + field->offset;
        run->derived[i] = memcmp(old, new, field->size) != 0;
        if (run->derived[i] && is_held(field)) release(field, before);
    }
}

/* Derive may keep or adjust what was given; what it replaces would be gone without a word. */
static nt_status warn_of_replaced(const nt_run *run) {
    nt__differences l = {0};
    for (size_t i = 0; i < run->experiment->field_count; i++) {
        nt__text was = {0}, now = {0};
        const nt_field_info *field = &run->experiment->fields[i];
        if (!run->derived[i] || !run->given[i]) continue;
        nt__field_show(field, run->underived, false, &was);
        nt__field_show(field, run->fields, false, &now);
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
                     run->experiment->name, nt__differences_shown(&l));
    nt__text_free(&l.text);
    return status;
}

nt_status nt__fields_derive(nt_run *run) {
    if (!run->experiment->hooks.derive) return NT_OK;
    void *before = nt__arena_alloc(&run->arena, 1, run->experiment->size + 1);
    if (!before) return NT_OUT_OF_MEMORY;
    memcpy(before, run->fields, run->experiment->size);
    run->underived = before;
    nt__hook_begin(run->experiment, "derive");
    nt_status status = run->experiment->hooks.derive(run->fields, run->data);
    note_derived(run, before);
    status = nt__hook_end(run->experiment, "derive", status);
    if (status == NT_OK) status = nt__fields_check(run->experiment, run->fields);
    return status == NT_OK && !run->waiting.adopts ? warn_of_replaced(run) : status;
}
