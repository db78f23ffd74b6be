/* Presets: fields set by name.
 * Not here: which preset the user asked for.
 */
#include <string.h>

#include "experiment/experiment.h"

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
    experiment->hooks.preset(index, NULL, fields);
    return NT_OK;
}
