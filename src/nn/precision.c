/* Mixed precision: the type that layers compute in, of a model and of a part of it.
 * Not here: which layers keep what in f32, which each of them says itself.
 */
#include "nn/model.h"

static bool is_short(nt_dtype dtype) {
    return dtype == NT_BF16 || dtype == NT_F16;
}

void nt__model_compute(nt_model *model, nt_dtype dtype) {
    model->outer = (nt__policy){dtype != NT_F32, dtype};
}

void nt__policy_begin(nt_model *model) {
    model->policy = model->outer;
    model->computed = model->policy.is_set;
    model->computes = 0;
}

void nt__policy_end(const nt_model *model) {
    if (model->computes)
        nt__trace_fail(model->policy_sites[model->computes - 1], "compute",
                       "NT_COMPUTE was entered and never left: leave its body at its end only, not by return or break");
}

bool nt_compute_enter(nt_model *m, nt_dtype dtype, nt_site site) {
    if (!nt__trace_given(m, site, "compute", "m")) return false;
    if (dtype != NT_F32 && !is_short(dtype)) {
        nt__trace_fail(site, "compute", "layers cannot compute in %s: give NT_F32, NT_BF16 or NT_F16",
                       nt_dtype_name(dtype));
        return false;
    }
    if (m->computes == NT__MAX_SCOPES) {
        nt__trace_fail(site, "compute", "NT_COMPUTE is more than %d deep", NT__MAX_SCOPES);
        return false;
    }
    m->policies[m->computes] = m->policy;
    m->policy_sites[m->computes++] = site;
    m->policy = (nt__policy){true, dtype};
    m->computed = true;
    return true;
}

bool nt_compute_leave(nt_model *m) {
    if (!nt__trace_given(m, (nt_site){0}, "compute", "m")) return false;
    if (m->computes > 0)
        m->policy = m->policies[--m->computes];
    else
        nt__trace_fail((nt_site){0}, "compute", "nt_compute_leave without nt_compute_enter; NT_COMPUTE does both");
    return false;
}

static bool applies(const nt_model *m, nt_dtype dtype) {
    return m->policy.is_set && (dtype == NT_F32 || is_short(dtype));
}

nt_dtype nt__compute_dtype_of(const nt_model *m, nt_tensor x) {
    nt_dtype dtype = nt_dtype_of(x);
    return applies(m, dtype) ? m->policy.dtype : dtype;
}

nt_tensor nt_to_compute_at(const nt_model *m, nt_tensor x, nt_site site) {
    if (!nt__trace_given(m, site, "to_compute", "m")) return nt__failed();
    if (!nt__tensor_given(x, site, "to_compute", "x")) return nt__failed();
    return nt_convert_at(x, nt__compute_dtype_of(m, x), site);
}

nt_dtype nt__parameter_dtype(const nt_model *m, nt_tensor x) {
    nt_dtype dtype = nt_dtype_of(x);
    return applies(m, dtype) ? NT_F32 : dtype;
}

nt_tensor nt__model_outputs(const nt_model *model, nt_tensor outputs) {
    bool narrow = model->computed && nt__tensor_made(outputs) && is_short(nt_dtype_of(outputs));
    return narrow ? nt_convert_at(outputs, NT_F32, (nt_site){0}) : outputs;
}
