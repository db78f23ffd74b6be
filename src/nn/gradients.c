/* Gradients of a loss with respect to the parameters below a scope.
 * Not here: differentiation (graph/gradient.c), what an optimizer does with them (step/manual.c).
 */
#include <string.h>

#include "nitro/manual.h"
#include "nn/nn.h"

static bool lies_below(const char *path, const char *scope) {
    size_t length = strlen(scope);
    return length == 0 || (strncmp(path, scope, length) == 0 && (path[length] == 0 || path[length] == '.'));
}

/* The scopes and parameters of the outermost level, each once. */
static void fail_no_parameter(const nt_model *m, const char *scope, nt_site site) {
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(m, &count);
    nt__text names = {0};
    for (size_t i = 0; i < count; i++) {
        const char *path = leaves[i].path;
        size_t length = strcspn(path, "."), j = 0;
        while (j < i && (strcspn(leaves[j].path, ".") != length || strncmp(leaves[j].path, path, length) != 0)) j++;
        if (j == i) nt__text_add(&names, "%s%.*s", names.length ? ", " : "", (int)length, path);
    }
    nt__trace_fail(site, "parameter_grads", "there is no parameter below '%s'; there are: %s", scope,
                   names.length ? names.data : "none");
    nt__text_free(&names);
}

/* A sub-tree of which nothing is reached would be trained by zeros. */
static bool note_reached(nt_model *m, const size_t *leaves, const bool *reached, size_t count) {
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        if (reached[i]) nt__model_reach(m, leaves[i]);
        any |= reached[i];
    }
    return any;
}

static nt_tensors differentiate(nt_model *m, nt_tensor loss, const char *scope, const size_t *leaves, size_t count,
                                nt_site site) {
    const char *what = "parameter_grads";
    size_t all_count;
    const nt__leaf *all = nt__model_leaves(m, &all_count);
    const char **names = nt__trace_alloc(site, what, count, sizeof *names);
    nt_tensor *values = nt__trace_alloc(site, what, count, sizeof *values);
    nt_tensor *gradients = nt__trace_alloc(site, what, count, sizeof *gradients);
    bool *reached = nt__trace_alloc(site, what, count, sizeof *reached);
    if (!names || !values || !gradients || !reached) return (nt_tensors){0};
    for (size_t i = 0; i < count; i++) {
        names[i] = all[leaves[i]].path;
        values[i] = nt__model_value(m, leaves[i]);
    }
    nt__gradient_apart(loss, values, count, gradients, reached);
    if (!note_reached(m, leaves, reached, count) && !nt__tensor_failed(gradients[0])) {
        nt__trace_fail(site, what,
                       "the loss depends on no parameter below '%s' as they are now: nt_step gives parameters new "
                       "values, so compute a loss after it anew; nt_stop_gradient holds what is in front of it "
                       "constant",
                       scope);
        return (nt_tensors){0};
    }
    return nt_named_tensors_at(names, gradients, count, site);
}

nt_tensors nt_parameter_grads_at(nt_model *m, nt_tensor loss, const char *scope, nt_site site) {
    const char *what = "parameter_grads";
    size_t all_count, count = 0;
    if (!nt__trace_given(m, site, what, "m") || !nt__trace_given(scope, site, what, "scope")) return (nt_tensors){0};
    const nt__leaf *all = nt__model_leaves(m, &all_count);
    size_t *leaves = nt__trace_alloc(site, what, all_count + 1, sizeof *leaves);
    if (!leaves) return (nt_tensors){0};
    for (size_t i = 0; i < all_count; i++)
        if (lies_below(all[i].path, scope)) leaves[count++] = i;
    if (count) return differentiate(m, loss, scope, leaves, count, site);
    fail_no_parameter(m, scope, site);
    return (nt_tensors){0};
}
