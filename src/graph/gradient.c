/* Reverse-mode differentiation: walks the trace backwards and applies each operation's gradient rule.
 * Reference: Griewank and Walther, Evaluating Derivatives, chapter 3 (the incremental reverse mode).
 */
#include "graph/region.h"
#include "nitro/gradient.h"

/* Arrays have an entry for each node from the first to the last. */
typedef struct sweep {
    const nt__node *first, *last;
    size_t count;
    bool *depends;                  /* does the node depend on an input of interest? */
    nt_tensor *cotangents;          /* zero: nothing has arrived yet */
    nt_tensor **several;            /* of nodes with several results, one for each; NULL: nothing has arrived yet */
    nt_tensor *operands, *products; /* of the node that is visited */
    bool *wanted;
} sweep;

/* What the user called is not known here. */
static const nt_site nowhere = {0};

bool nt__has_cotangent(nt_tensor x) {
    return x.trace != NULL;
}

/* Counted from the first; `count` for nodes that do not take part. */
static size_t place_of(const sweep *s, const nt__node *node) {
    bool inside =
        node->region == s->first->region && node->position >= s->first->position && node->position <= s->last->position;
    return inside ? node->position - s->first->position : s->count;
}

static bool depends(const sweep *s, const nt__node *node) {
    size_t place = place_of(s, node);
    return place < s->count && s->depends[place];
}

/* Only floating values carry a cotangent, and what has them among its results. */
static bool can_depend(const nt__node *node) {
    return node->control || nt_dtype_is_float(node->type.dtype);
}

/* What is held constant hands no cotangent on, so nothing after it is asked for one. */
static bool hands_on(const nt__node *node) {
    return can_depend(node) && node->op != NT__OP_stop_gradient;
}

static void mark_dependents(sweep *s, nt__node *const *inputs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t place = place_of(s, inputs[i]);
        if (place < s->count) s->depends[place] = can_depend(inputs[i]);
    }
    for (const nt__node *node = s->first; node; node = node == s->last ? NULL : node->next) {
        bool *own = &s->depends[node->position - s->first->position];
        for (int i = 0; hands_on(node) && i < node->operand_count && !*own; i++) *own = depends(s, node->operands[i]);
    }
}

static void add_to(nt_tensor *sum, nt_tensor cotangent, nt_site site) {
    *sum = nt__has_cotangent(*sum) ? nt_add_at(*sum, cotangent, site) : cotangent;
}

static void arrive(const sweep *s, const nt__node *at, nt_tensor cotangent, nt_site site) {
    size_t place = place_of(s, at);
    if (place < s->count) add_to(&s->cotangents[place], cotangent, site);
}

/* The cotangent of one of several results goes to the operation that has them. */
static void hand_on(const sweep *s, const nt__node *result) {
    const nt__node *owner = result->operands[0];
    size_t place = place_of(s, owner);
    if (place == s->count) return;
    nt_tensor **list = &s->several[place];
    if (!*list) *list = nt__trace_alloc(result->site, "gradient", owner->control->results.count, sizeof **list);
    if (*list) add_to(&(*list)[result->attributes.index], s->cotangents[place_of(s, result)], result->site);
}

static void visit(const sweep *s, const nt__node *node) {
    size_t place = place_of(s, node);
    bool any = false;
    for (int i = 0; i < node->operand_count; i++) {
        s->operands[i] = nt__tensor_of(node->operands[i]);
        s->products[i] = (nt_tensor){0};
        s->wanted[i] = nt_dtype_is_float(node->operands[i]->type.dtype) && depends(s, node->operands[i]);
        any = any || s->wanted[i];
    }
    if (!any) return;
    nt__backward backward = {.node = node,
                             .value = nt__tensor_of(node),
                             .operands = s->operands,
                             .cotangent = s->cotangents[place],
                             .cotangents = s->several[place],
                             .wanted = s->wanted,
                             .site = node->site};
    nt__operations[node->op].gradient(&backward, s->products);
    for (int i = 0; i < node->operand_count; i++)
        if (s->wanted[i] && nt__has_cotangent(s->products[i])) arrive(s, node->operands[i], s->products[i], node->site);
}

static void visit_all(const sweep *s) {
    for (const nt__node *node = s->last; node; node = node == s->first ? NULL : node->previous) {
        size_t place = place_of(s, node);
        if (!s->depends[place]) continue;
        bool arrived = node->control ? s->several[place] != NULL : nt__has_cotangent(s->cotangents[place]);
        if (arrived && node->op == NT__OP_result)
            hand_on(s, node);
        else if (arrived)
            visit(s, node);
    }
}

static bool begin_sweep(sweep *s) {
    size_t most = (size_t)s->first->operand_count;
    for (const nt__node *node = s->first; node != s->last; node = node->next)
        if ((size_t)node->next->operand_count > most) most = (size_t)node->next->operand_count;
    s->count = s->last->position - s->first->position + 1;
    s->depends = nt__trace_alloc(nowhere, "gradient", s->count, sizeof *s->depends);
    s->cotangents = nt__trace_alloc(nowhere, "gradient", s->count, sizeof *s->cotangents);
    s->several = nt__trace_alloc(nowhere, "gradient", s->count, sizeof *s->several);
    s->operands = nt__trace_alloc(nowhere, "gradient", most, sizeof *s->operands);
    s->products = nt__trace_alloc(nowhere, "gradient", most, sizeof *s->products);
    s->wanted = nt__trace_alloc(nowhere, "gradient", most, sizeof *s->wanted);
    return s->depends && s->cotangents && s->several && s->operands && s->products && s->wanted;
}

bool nt__sweep(const nt__node *first, const nt__node *last, const nt__seed *seeds, size_t seed_count,
               nt__node *const *inputs, size_t count, nt_tensor *out) {
    sweep s = {.first = first, .last = last};
    for (size_t i = 0; i < count; i++) out[i] = (nt_tensor){0};
    if (!begin_sweep(&s)) return false;
    mark_dependents(&s, inputs, count);
    for (size_t i = 0; i < seed_count; i++) arrive(&s, seeds[i].node, seeds[i].cotangent, seeds[i].node->site);
    visit_all(&s);
    for (size_t i = 0; i < count; i++) {
        size_t place = place_of(&s, inputs[i]);
        if (place < s.count) out[i] = s.cotangents[place];
    }
    return nt__trace_right();
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

/* ---- out of bodies ---------------------------------------------------------------------------------------------- */

/* A y in a body depends on what is outside through the values that the body uses of it. The cotangents of these go on,
 * in a sweep of each region around. What a loop gives its body anew in each iteration, the carry, is a value of its
 * own. */
typedef struct ascent {
    nt__node *const *inputs;
    size_t count;
    nt_tensor *sums;    /* of the inputs */
    nt__node **wanted;  /* in a region: the inputs, then parameters that depend on one */
    nt_tensor *arrived; /* at those */
    nt__seed *seeds;
} ascent;

/* Whether what a parameter of the region stands for, or cuts slices of, depends on an input. `outside` tells that of
 * the nodes of the region around. */
static bool brings_in(const nt__node *node, const bool *outside) {
    const nt__node *original = nt__region_original(node);
    return original && outside && outside[original->position] && can_depend(node);
}

/* Whether each node of the region depends on an input. NULL after keeping an error. */
static const bool *mark_region(const ascent *a, const nt__region *region) {
    const bool *outside = region->control ? mark_region(a, region->outer) : NULL;
    bool *marks = nt__trace_alloc(nowhere, "gradient", region->count, sizeof *marks);
    if (!marks || (region->control && !outside)) return NULL;
    for (size_t i = 0; i < a->count; i++)
        if (a->inputs[i]->region == region) marks[a->inputs[i]->position] = can_depend(a->inputs[i]);
    for (const nt__node *node = region->first; node; node = node->next) {
        bool *own = &marks[node->position];
        *own = *own || brings_in(node, outside);
        for (int i = 0; hands_on(node) && i < node->operand_count && !*own; i++)
            *own = marks[node->operands[i]->position];
    }
    return marks;
}

static bool begin_ascent(ascent *a, const nt__region *region) {
    size_t parameters = 1;
    for (; region; region = region->outer)
        if (region->parameters.count > parameters) parameters = region->parameters.count;
    a->wanted = nt__trace_alloc(nowhere, "gradient", a->count + parameters, sizeof(nt__node *));
    a->arrived = nt__trace_alloc(nowhere, "gradient", a->count + parameters, sizeof *a->arrived);
    a->seeds = nt__trace_alloc(nowhere, "gradient", parameters, sizeof *a->seeds);
    return a->wanted && a->arrived && a->seeds;
}

/* The inputs, then the parameters of the region that depend on one; how many that is. */
static size_t list_wanted(const ascent *a, const nt__region *region, const bool *outside) {
    size_t count = 0;
    for (; count < a->count; count++) a->wanted[count] = a->inputs[count];
    for (size_t i = 0; i < region->parameters.count; i++)
        if (brings_in(region->parameters.items[i], outside)) a->wanted[count++] = region->parameters.items[i];
    return count;
}

static bool refuse_slice(const nt__control *scan) {
    nt__trace_fail(
        scan->site, "grad",
        "in the body of this scan, with respect to a tensor of outside that its inputs are made of: the body "
        "has one slice of them. Compute them from the tensor inside, or take the gradient outside");
    return false;
}

/* Sweeps the region from its first node to `last`. What arrives at parameters becomes the seeds of the region around;
 * *seed_count is how many there are. */
static bool sweep_region(const ascent *a, const nt__region *region, const nt__node *last, size_t *seed_count) {
    const bool *outside = region->control ? mark_region(a, region->outer) : NULL;
    if (region->control && !outside) return false;
    size_t wanted = list_wanted(a, region, outside);
    if (!nt__sweep(region->first, last, a->seeds, *seed_count, a->wanted, wanted, a->arrived)) return false;
    *seed_count = 0;
    for (size_t i = 0; i < wanted; i++) {
        if (!nt__has_cotangent(a->arrived[i])) continue;
        if (i < a->count)
            a->sums[i] = a->arrived[i];
        else if (region->control && a->wanted[i]->attributes.choice == NT__SLICE)
            return refuse_slice(region->control);
        else
            a->seeds[(*seed_count)++] = (nt__seed){nt__region_original(a->wanted[i]), a->arrived[i]};
    }
    return true;
}

static bool ascend(ascent *a, const nt__node *y, nt_tensor cotangent) {
    const nt__region *region = y->region;
    const nt__node *last = y;
    size_t seed_count = 1;
    if (!begin_ascent(a, region)) return false;
    a->seeds[0] = (nt__seed){y, cotangent};
    for (; region && seed_count; region = region->outer, last = region ? region->last : NULL)
        if (!sweep_region(a, region, last, &seed_count)) return false;
    return nt__trace_right();
}

/* ---- of tensors ------------------------------------------------------------------------------------------------- */

static nt__node **nodes_of(const nt_tensor *tensors, size_t count) {
    nt__node **nodes = nt__trace_alloc(nowhere, "gradient", count, sizeof(nt__node *));
    for (size_t i = 0; nodes && i < count; i++)
        if (!(nodes[i] = nt__node_of(tensors[i], nowhere, "gradient"))) return NULL;
    return nodes;
}

void nt__vjp(nt_tensor y, nt_tensor cotangent, const nt_tensor *with_respect_to, size_t count, nt_tensor *out,
             bool *reached) {
    bool right = cotangent_fits(y, cotangent);
    for (size_t i = 0; i < count; i++) {
        out[i] = nt__failed();
        if (reached) reached[i] = false;
    }
    if (!right) return;
    const nt__node *last = nt__node_of(y, nowhere, "gradient");
    nt__node **inputs = nodes_of(with_respect_to, count);
    nt_tensor *sums = nt__trace_alloc(nowhere, "gradient", count, sizeof *sums);
    if (!inputs || !sums) return;
    ascent a = {.inputs = inputs, .count = count, .sums = sums};
    if (!ascend(&a, last, cotangent)) return;
    for (size_t i = 0; i < count; i++) {
        bool found = nt__has_cotangent(sums[i]);
        out[i] = found ? sums[i] : nt__filled("gradient", inputs[i]->type, 0, last->site);
        if (reached) reached[i] = found;
    }
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

void nt__gradient_apart(nt_tensor y, const nt_tensor *with_respect_to, size_t count, nt_tensor *gradients,
                        bool *reached) {
    uint32_t scope = nt__share_begin();
    nt__gradient(y, with_respect_to, count, gradients, reached);
    nt__share_end(scope);
}

/* ---- for traced code -------------------------------------------------------------------------------------------- */

/* Of two equal expressions, which are one node, the uses of one cannot be told from those of the other. */
static bool is_one_expression(const nt__node *node, nt_site site) {
    if (!node->repeated) return true;
    nt__text places = {0};
    const nt_site both[] = {node->site, node->again};
    for (int i = 0; i < 2; i++) {
        if (i) nt__text_say(&places, " and ");
        if (both[i].file)
            nt__text_add(&places, "%s:%d", both[i].file, both[i].line);
        else
            nt__text_say(&places, "a rule of nitro");
    }
    if (places.failed)
        nt__trace_out_of_memory();
    else
        nt__trace_fail(site, "grad",
                       "with respect to an expression that is made twice, by %s: equal expressions are one tensor, so "
                       "what depends on one of them depends on both. Make it once and use the variable in both places",
                       places.data);
    nt__text_free(&places);
    return false;
}

static bool is_refused(const nt__node *node, nt_site site) {
    const nt__graph *graph = nt__trace_current();
    while (nt__region_original(node)) node = nt__region_original(node);
    if (node->op == NT__OP_slice && node->attributes.choice == NT__REAL_ROWS) node = node->operands[0];
    bool refused = graph->no_gradient && node->op == NT__OP_input && node->attributes.role == graph->no_gradient_role;
    if (refused) nt__trace_fail(site, "grad", "with respect to %s: %s", node->attributes.name, graph->no_gradient);
    return refused;
}

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
        if (!node || !nt__type_floating(site, "grad", node->type) || is_refused(node, site) ||
            !is_one_expression(node, site))
            return false;
    }
    return true;
}

void nt_grads_at(nt_tensor y, const nt_tensor *inputs, size_t count, nt_tensor *gradients, nt_site site) {
    if (!nt__trace_given(gradients, site, "grad", "gradients")) return;
    for (size_t i = 0; i < count; i++) gradients[i] = nt__failed();
    if (nt__trace_given(inputs, site, "grad", "inputs") && can_differentiate(y, inputs, count, site))
        nt__gradient_apart(y, inputs, count, gradients, NULL);
}

nt_tensor nt_grad_at(nt_tensor y, nt_tensor x, nt_site site) {
    nt_tensor gradient = nt__failed();
    nt_grads_at(y, &x, 1, &gradient, site);
    return gradient;
}
