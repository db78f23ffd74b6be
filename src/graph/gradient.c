/* Reverse-mode differentiation: walks the trace backwards and applies each operation's gradient rule.
 * Reference: Griewank and Walther, Evaluating Derivatives, chapter 3 (the incremental reverse mode).
 */
#include "graph/node.h"
#include "nitro/gradient.h"

typedef struct sweep {
    nt__graph *graph;
    size_t count;          /* nodes that existed before the sweep */
    bool *depends;         /* does the node depend on an input of interest? */
    nt_tensor *cotangents; /* id 0: nothing has arrived yet */
} sweep;

/* What the user called is not known here. */
static const nt_site nowhere = {0};

static bool has_cotangent(nt_tensor x) {
    return x.trace != NULL;
}

static bool is_floating(const sweep *s, size_t id) {
    return nt_dtype_is_float(s->graph->nodes[id]->type.dtype);
}

/* Only floating values carry a cotangent. */
static void mark_dependents(sweep *s, const nt_tensor *inputs, size_t count) {
    for (size_t i = 0; i < count; i++) s->depends[inputs[i].id] = is_floating(s, inputs[i].id);
    for (size_t id = 1; id < s->count; id++) {
        const nt__node *node = s->graph->nodes[id];
        if (!is_floating(s, id)) continue;
        for (int i = 0; i < node->operand_count && !s->depends[id]; i++)
            s->depends[id] = s->depends[node->operands[i]->id];
    }
}

static void arrive(sweep *s, const nt__node *at, nt_tensor cotangent, nt_site site) {
    nt_tensor *sum = &s->cotangents[at->id];
    *sum = has_cotangent(*sum) ? nt_add_at(*sum, cotangent, site) : cotangent;
}

static void visit(sweep *s, const nt__node *node) {
    nt_tensor operands[NT__MAX_OPERANDS], cotangents[NT__MAX_OPERANDS] = {{0}};
    bool wanted[NT__MAX_OPERANDS], any = false;
    for (int i = 0; i < node->operand_count; i++) {
        operands[i] = nt__tensor_of(node->operands[i]);
        wanted[i] = s->depends[node->operands[i]->id];
        any = any || wanted[i];
    }
    if (!any) return;
    nt__backward backward = {node, nt__tensor_of(node), operands, s->cotangents[node->id], wanted, node->site};
    nt__operations[node->op].gradient(&backward, cotangents);
    for (int i = 0; i < node->operand_count; i++)
        if (wanted[i] && has_cotangent(cotangents[i])) arrive(s, node->operands[i], cotangents[i], node->site);
}

/* Applies the rules from y back to the first node, then collects what arrived at the inputs. */
static void run(sweep *s, nt_tensor y, nt_tensor cotangent, const nt_tensor *inputs, size_t count, nt_tensor *out,
                bool *reached) {
    mark_dependents(s, inputs, count);
    s->cotangents[y.id] = cotangent;
    for (size_t id = y.id; id > 0; id--)
        if (s->depends[id] && has_cotangent(s->cotangents[id])) visit(s, s->graph->nodes[id]);
    for (size_t i = 0; i < count; i++) {
        const nt__node *node = s->graph->nodes[inputs[i].id];
        nt_tensor sum = s->cotangents[node->id];
        bool found = has_cotangent(sum);
        out[i] = found ? sum : nt__filled("gradient", node->type, 0, s->graph->nodes[y.id]->site);
        if (reached) reached[i] = found;
    }
}

static bool cotangent_fits(nt_tensor y, nt_tensor cotangent) {
    const nt__node *value = nt__node_of(y, nowhere, "gradient"), *seed = nt__node_of(cotangent, nowhere, "gradient");
    if (!value || !seed) return false;
    if (nt__type_equal(value->type, seed->type)) return true;
    char own[NT__TYPE_TEXT], given[NT__TYPE_TEXT];
    nt__trace_fail(value->site, "gradient", "the cotangent of %s must have its type, got %s",
                   nt__type_text(value->type, own), nt__type_text(seed->type, given));
    return false;
}

void nt__vjp(nt_tensor y, nt_tensor cotangent, const nt_tensor *with_respect_to, size_t count, nt_tensor *out,
             bool *reached) {
    bool right = cotangent_fits(y, cotangent);
    for (size_t i = 0; i < count; i++) {
        right = right && nt__node_of(with_respect_to[i], nowhere, "gradient");
        out[i] = nt__failed();
        if (reached) reached[i] = false;
    }
    if (!right) return;
    sweep s = {.graph = nt__trace_current(), .count = nt__trace_current()->node_count};
    s.depends = nt__trace_alloc(nowhere, "gradient", s.count, sizeof *s.depends);
    s.cotangents = nt__trace_alloc(nowhere, "gradient", s.count, sizeof *s.cotangents);
    if (s.depends && s.cotangents) run(&s, y, cotangent, with_respect_to, count, out, reached);
}

/* A tensor of one where the loss is right for a gradient. */
static nt_tensor seed_of(nt_tensor loss) {
    const nt__node *node = nt__node_of(loss, nowhere, "loss");
    if (!node) return nt__failed();
    char text[NT__TYPE_TEXT];
    if (node->type.shape.rank != 0 || !nt_dtype_is_float(node->type.dtype))
        return nt__trace_fail(node->site, "loss", "must be a floating scalar, got %s; nt_mean or nt_sum makes one",
                              nt__type_text(node->type, text));
    return nt__filled("loss", node->type, 1, node->site);
}

void nt__gradient(nt_tensor loss, const nt_tensor *with_respect_to, size_t count, nt_tensor *gradients, bool *reached) {
    nt__vjp(loss, seed_of(loss), with_respect_to, count, gradients, reached);
}

/* ---- for traced code -------------------------------------------------------------------------------------------- */

/* Whether y and what it is differentiated by are what a gradient can be of. */
static bool can_differentiate(nt_tensor y, const nt_tensor *inputs, size_t count, nt_site site) {
    char text[NT__TYPE_TEXT];
    const nt__node *node = nt__node_of(y, site, "grad");
    if (!node) return false;
    if (node->type.shape.rank != 0 || !nt_dtype_is_float(node->type.dtype)) {
        nt__trace_fail(site, "grad", "of %s: only a floating scalar has a gradient; nt_sum or nt_mean makes one",
                       nt__type_text(node->type, text));
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        node = nt__node_of(inputs[i], site, "grad");
        if (!node || !nt__type_floating(site, "grad", node->type)) return false;
    }
    return true;
}

void nt_grads_at(nt_tensor y, const nt_tensor *inputs, size_t count, nt_tensor *gradients, nt_site site) {
    if (!nt__trace_given(gradients, site, "grad", "gradients")) return;
    for (size_t i = 0; i < count; i++) gradients[i] = nt__failed();
    if (nt__trace_given(inputs, site, "grad", "inputs") && can_differentiate(y, inputs, count, site))
        nt__gradient(y, inputs, count, gradients, NULL);
}

nt_tensor nt_grad_at(nt_tensor y, nt_tensor x, nt_site site) {
    nt_tensor gradient = nt__failed();
    nt_grads_at(y, &x, 1, &gradient, site);
    return gradient;
}
