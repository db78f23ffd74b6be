/* Presets: fields set by name.
 * Not here: which preset the user asked for.
 */
#include <string.h>

#include "experiment/experiment.h"

/* ", they are: 'a', '', 'a'" after what is wrong with them. */
static nt_status fail_with_names(const nt_experiment *experiment, const char *problem) {
    nt__text names = {0};
    const char *name;
    for (size_t i = 0; (name = experiment->hooks.preset(i, NULL, NULL)); i++)
        nt__text_add(&names, "%s'%s'", i ? ", " : "", name);
    nt_status status = NT_OUT_OF_MEMORY;
    if (!names.failed)
        status = nt__fail(NT_INVALID, "experiment %s (%s): %s; its presets are: %s", experiment->name, experiment->file,
                          problem, names.data ? names.data : "");
    nt__text_free(&names);
    return status;
}

/* The second of two with one name could never be chosen, nor one that is called nothing be written. */
nt_status nt__presets_check(const nt_experiment *experiment) {
    const char *name, *other, *(*preset)(size_t, const char **, void *) = experiment->hooks.preset;
    for (size_t i = 0; preset && (name = preset(i, NULL, NULL)); i++) {
        if (!*name) return fail_with_names(experiment, "a preset has an empty name; give it one");
        for (size_t j = 0; j < i && (other = preset(j, NULL, NULL)); j++)
            if (strcmp(name, other) == 0)
                return fail_with_names(experiment, "two presets have the same name; rename one");
    }
    return NT_OK;
}

static nt_status fail_unknown(const nt_experiment *experiment, const char *name) {
    nt__text names = {0};
    const char *preset;
    for (size_t i = 0; experiment->hooks.preset && (preset = experiment->hooks.preset(i, NULL, NULL)); i++)
        nt__text_add(&names, "%s%s", i ? ", " : "", preset);
    nt_status status = NT_INVALID;
    if (names.failed)
        status = NT_OUT_OF_MEMORY;
    else if (names.length)
        nt__fail(status, "experiment %s has no preset '%s'; it has: %s", experiment->name, name, names.data);
    else
        nt__fail(status,
                 "experiment %s has no preset '%s': it declares none; .presets = NT_PRESETS(%s, ...) in its NT_DEFINE "
                 "does",
                 experiment->name, name, experiment->name);
    nt__text_free(&names);
    return status;
}

nt_status nt__preset_find(const nt_experiment *experiment, const char *name, size_t *out) {
    const char *preset;
    nt_status status = nt__presets_check(experiment);
    if (status != NT_OK) return status;
    for (size_t i = 0; experiment->hooks.preset && (preset = experiment->hooks.preset(i, NULL, NULL)); i++) {
        *out = i;
        if (strcmp(preset, name) == 0) return NT_OK;
    }
    return fail_unknown(experiment, name);
}

nt_status nt_preset(const nt_experiment *experiment, const char *name, void *fields) {
    size_t index;
    bool given = nt__given(experiment, "nt_preset", "experiment") && nt__given(name, "nt_preset", "name") &&
                 nt__given(fields, "nt_preset", "fields");
    if (!given) return NT_INVALID;
    nt_status status = nt__preset_find(experiment, name, &index);
    if (status != NT_OK) return status;
    experiment->set_defaults(fields);
    nt__hook_enter("preset", experiment->name);
    nt__calls_watch();
    experiment->hooks.preset(index, NULL, fields);
    status = nt__calls_status();
    nt__hook_leave();
    return status == NT_OK ? NT_OK : nt__fail_in(status, "preset %s of %s", name, experiment->name);
}
