/* Layer state: what a model carries from micro-batch to micro-batch beside its parameters.
 * Not here: where it lives between two micro-batches (the folder run).
 */

#include "nn/model.h"

nt_tensor nt_state_at(nt_model *m, const char *name, nt_shape shape, nt_state_options options, nt_site site) {
    nt__type type = {options.dtype, shape};
    char text[NT__TYPE_TEXT];
    size_t scopes;
    if (!nt__trace_given(m, site, "state", "m") || !nt__trace_given(name, site, "state", "name")) return nt__failed();
    if (nt_shape_elements(shape) < 1)
        return nt__trace_fail(site, "state", "'%s%s' cannot be %s: a state has at least 1 element", m->path, name,
                              nt__type_text(type, text));
    if (!nt__path_extend(m, site, "state", name, &scopes)) return nt__failed();
    const nt__leaf leaf = {m->path, type, options.init, site};
    nt_tensor value = nt__declare(m, &m->states, &leaf, m->roles.state, "state");
    nt__path_restore(m, scopes);
    return value;
}

/* NULL after keeping an error. */
static nt__use *declared_use(const nt_model *m, const char *path, nt_site site) {
    size_t index = nt__leaves_find(&m->states, path);
    if (index < m->states.count && m->states.uses[index].declared) return &m->states.uses[index];
    nt__trace_fail(site, "state_set", "there is no state '%s' in this trace: nt_state declares it first", path);
    return NULL;
}

static void set(const nt_model *m, nt_tensor value, nt_site site) {
    nt__use *use = nt__model_open(m, m->path, "state_set", site) ? declared_use(m, m->path, site) : NULL;
    if (!use) return;
    nt__type wanted = {nt_dtype_of(use->value), nt_shape_of(use->value)},
             got = {nt_dtype_of(value), nt_shape_of(value)};
    char first[NT__TYPE_TEXT], second[NT__TYPE_TEXT];
    if (!nt__trace_runs_once())
        nt__trace_fail(site, "state_set",
                       "'%s' is set in the body of a loop or a branch, which may run any number of times: return its "
                       "value from the body and set it outside",
                       m->path);
    else if (use->next.trace && !m->reuses)
        nt__trace_fail(site, "state_set", "'%s' was set at %s:%d already", m->path, use->set_at.file, use->set_at.line);
    else if (!nt__type_equal(wanted, got))
        nt__trace_fail(site, "state_set", "'%s' is %s and cannot become %s", m->path, nt__type_text(wanted, first),
                       nt__type_text(got, second));
    use->next = nt_stop_gradient_at(value, site);
    use->set_at = site;
}

void nt_state_set_at(nt_model *m, const char *name, nt_tensor value, nt_site site) {
    size_t scopes;
    if (!nt__trace_given(m, site, "state_set", "m") || !nt__trace_given(name, site, "state_set", "name")) return;
    if (!nt__path_extend(m, site, "state_set", name, &scopes)) return;
    if (nt__tensor_given(value, site, "state_set", "value")) set(m, value, site);
    nt__path_restore(m, scopes);
}

const nt__leaf *nt__model_states(const nt_model *model, size_t *count) {
    *count = model->states.count;
    return model->states.items;
}

bool nt__model_update(const nt_model *model, size_t index, nt_tensor *value, nt_tensor *next) {
    const nt__use *use = &model->states.uses[index];
    *value = use->value;
    *next = nt__trace_hand_out(use->next);
    return model->training && use->next.trace;
}
