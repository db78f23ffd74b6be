/* What the gradient does with a function of the user's: compute its values again, or run another function. The bodies
 * are regions that are printed in their place, as if they had been traced without one; the gradient copies them.
 */
#include "graph/loop.h"

/* ---- functions as regions --------------------------------------------------------------------------------------- */

/* Parameters for the tensors, as the function is to see them. */
static bool take_values(nt__region *region, const nt_values *from, size_t count, nt_values *to) {
    for (size_t i = 0; i < count; i++) {
        const nt__node *parameter = nt__region_argument(region, NT__VALUE, from->at[i]);
        if (!parameter) return false;
        to->at[i] = nt__tensor_of(parameter);
    }
    return true;
}

static bool return_values(nt__region *region, const nt_values *y, const char *what) {
    size_t count;
    if (!nt__count_values(y->at, "at", what, region->control->site, &count)) return false;
    for (size_t i = 0; i < count; i++)
        if (!nt__region_return(region, y->at[i])) return false;
    return true;
}

/* The function as the first region of the operation. */
static bool trace_function(nt__control *control, nt_function function, void *context, const nt_values *x,
                           const char *what) {
    size_t count;
    nt_values own = {0};
    if (!nt__count_values(x->at, "x", what, control->site, &count)) return false;
    nt__region *region = nt__region_enter(control, NULL);
    if (!region) return false;
    bool right = take_values(region, x, count, &own);
    if (right) {
        nt_values y = function(own, context);
        right = return_values(region, &y, what);
    }
    nt__region_leave(region);
    return right;
}

static nt_values results_of(const nt__control *control) {
    nt_values y = {0};
    for (size_t i = 0; i < control->results.count; i++) y.at[i] = nt__control_result(control, i);
    return y;
}

/* ---- remat ------------------------------------------------------------------------------------------------------ */

nt_values nt_remat_at(nt_function body, void *context, nt_values x, nt_site site) {
    nt__control *control = NULL;
    bool right = nt__trace_under_way(site, "remat") && nt__trace_right() &&
                 nt__trace_given((const void *)(uintptr_t)body, site, "remat", "body") &&
                 (control = nt__control_begin(NT__OP_remat, site)) &&
                 trace_function(control, body, context, &x, "remat") && nt__control_end(control);
    return right ? results_of(control) : nt__failed_values();
}

nt_tensor nt__computed_once(nt_tensor x, nt_site site) {
    nt__control *barrier = nt__trace_right() ? nt__control_begin(NT__OP_barrier, site) : NULL;
    bool right = barrier && nt__control_operand(barrier, x) && nt__control_end(barrier);
    return right ? nt__control_result(barrier, 0) : nt__failed();
}

/* The operands and the cotangents after a barrier, so that the engine can neither use the values of the forward pass
 * again nor compute them before the cotangents are there. */
static nt__control *hold_back(const nt__backward *b, size_t results) {
    nt__control *barrier = nt__control_begin(NT__OP_barrier, b->site);
    if (!barrier) return NULL;
    for (int i = 0; i < b->node->operand_count; i++)
        if (!nt__control_operand(barrier, b->operands[i])) return NULL;
    for (size_t i = 0; i < results; i++)
        if (nt__has_cotangent(b->cotangents[i]) && !nt__control_operand(barrier, b->cotangents[i])) return NULL;
    return nt__control_end(barrier) ? barrier : NULL;
}

typedef struct recomputation {
    const nt__backward *b;
    const nt__region *body;
    nt__control *barrier;
    nt__node **map, **inputs;
    nt__seed *seeds;
    nt_tensor *out;
    size_t results;
} recomputation;

static bool begin(recomputation *r) {
    size_t operands = (size_t)r->b->node->operand_count;
    r->barrier = hold_back(r->b, r->results);
    r->map = nt__region_map(r->body);
    r->inputs = nt__trace_alloc(r->b->site, "remat", operands, sizeof(nt__node *));
    r->seeds = nt__trace_alloc(r->b->site, "remat", r->results, sizeof *r->seeds);
    r->out = nt__trace_alloc(r->b->site, "remat", operands, sizeof *r->out);
    return r->barrier && r->map && r->inputs && r->seeds && r->out;
}

static bool copy_body(const recomputation *r) {
    for (size_t i = 0; i < r->body->parameters.count; i++) {
        const nt__node *parameter = r->body->parameters.items[i];
        r->map[parameter->position] = r->barrier->results.items[parameter->attributes.index];
    }
    return nt__region_copy(r->body, nt__trace_current()->region, r->map);
}

static size_t find_seeds(const recomputation *r) {
    size_t count = 0, next = (size_t)r->b->node->operand_count;
    for (size_t i = 0; i < r->results; i++)
        if (nt__has_cotangent(r->b->cotangents[i]))
            r->seeds[count++] =
                (nt__seed){r->map[r->body->results.items[i]->position], nt__control_result(r->barrier, next++)};
    return count;
}

void nt__gradient_remat(const nt__backward *b, nt_tensor *out) {
    recomputation r = {.b = b, .body = b->node->control->regions[0], .results = b->node->control->results.count};
    size_t count = 0, next = 0;
    if (!begin(&r) || !copy_body(&r)) return;
    for (int i = 0; i < b->node->operand_count; i++)
        if (b->wanted[i]) r.inputs[count++] = r.barrier->results.items[i];
    if (!nt__sweep(r.barrier->results.items[0], nt__trace_current()->region->last, r.seeds, find_seeds(&r), r.inputs,
                   count, r.out))
        return;
    for (int i = 0; i < b->node->operand_count; i++)
        if (b->wanted[i]) out[i] = r.out[next++];
}

void nt__gradient_barrier(const nt__backward *b, nt_tensor *out) {
    for (int i = 0; i < b->node->operand_count; i++) out[i] = b->cotangents[i];
}

/* ---- custom gradient -------------------------------------------------------------------------------------------- */

typedef struct custom {
    nt_backward backward;
    void *context;
    size_t inputs;
    nt__control *control;
} custom;

/* Here, or outside of the bodies around. */
static bool is_held_constant(const nt__node *node) {
    while (nt__region_original(node)) node = nt__region_original(node);
    return node->op == NT__OP_stop_gradient;
}

/* A tensor of outside that is none of the inputs has no way out for its gradient. */
static bool uses_inputs_only(const custom *c) {
    const nt__control *control = c->control;
    for (size_t i = c->inputs; i < control->operands.count; i++) {
        const nt__node *node = control->operands.items[i];
        if (!nt_dtype_is_float(node->type.dtype) || is_held_constant(node)) continue;
        char text[NT__TYPE_TEXT];
        nt__trace_fail(control->site, "custom_gradient",
                       "the function uses %s, made at %s:%d, that is none of its inputs: no gradient would flow to it. "
                       "Give it as one, or use nt_stop_gradient of it",
                       nt__type_text(node->type, text), node->site.file ? node->site.file : "?", node->site.line);
        return false;
    }
    return true;
}

static nt_tensor supplied(nt__region *region, size_t index, nt__type type) {
    const nt__node *parameter = nt__region_parameter(region, NT__SUPPLIED, index, type);
    return parameter ? nt__tensor_of(parameter) : nt__failed();
}

static bool return_cotangent(nt__region *region, nt_tensor cotangent, size_t index) {
    const nt__control *control = region->control;
    nt__type type = control->operands.items[index]->type;
    char own[NT__TYPE_TEXT], given[NT__TYPE_TEXT];
    if (!cotangent.trace) cotangent = nt__filled("custom_gradient", type, 0, control->site);
    const nt__node *node = nt__node_of(cotangent, control->site, "custom_gradient");
    if (!node) return false;
    if (nt__type_equal(node->type, type)) return nt__region_return(region, cotangent);
    nt__trace_fail(control->site, "custom_gradient", "x.at[%zu] is %s and 'backward' returns %s for its cotangent",
                   index, nt__type_text(type, own), nt__type_text(node->type, given));
    return false;
}

static bool trace_products(const custom *c, nt__region *region) {
    const nt__nodes *results = &c->control->regions[0]->results, *operands = &c->control->operands;
    nt_values x = {0}, y = {0}, cotangents = {0};
    for (size_t i = 0; i < c->inputs; i++) {
        const nt__node *parameter = nt__region_parameter(region, NT__VALUE, i, operands->items[i]->type);
        if (!parameter) return false;
        x.at[i] = nt__tensor_of(parameter);
    }
    for (size_t i = 0; i < results->count; i++) {
        y.at[i] = supplied(region, i, results->items[i]->type);
        cotangents.at[i] = supplied(region, results->count + i, results->items[i]->type);
    }
    nt_values products = c->backward(x, y, cotangents, c->context);
    for (size_t i = 0; i < c->inputs; i++)
        if (!return_cotangent(region, products.at[i], i)) return false;
    return true;
}

static bool trace_backward(const custom *c) {
    nt__region *region = nt__region_enter(c->control, NULL);
    if (!region) return false;
    bool right = trace_products(c, region);
    nt__region_leave(region);
    return right;
}

nt_values nt_custom_gradient_at(nt_function function, nt_backward backward, void *context, nt_values x, nt_site site) {
    const char *what = "custom_gradient";
    custom c = {.backward = backward, .context = context};
    bool right = nt__trace_under_way(site, what) && nt__trace_right() &&
                 nt__trace_given((const void *)(uintptr_t)function, site, what, "function") &&
                 nt__trace_given((const void *)(uintptr_t)backward, site, what, "backward") &&
                 nt__count_values(x.at, "x", what, site, &c.inputs) &&
                 (c.control = nt__control_begin(NT__OP_custom_gradient, site)) &&
                 trace_function(c.control, function, context, &x, what) && uses_inputs_only(&c) && trace_backward(&c) &&
                 nt__control_end(c.control);
    return right ? results_of(c.control) : nt__failed_values();
}

/* What a parameter of the backward function is. */
static nt_tensor supply(const nt__backward *b, const nt__node *parameter) {
    const nt__control *control = b->node->control;
    size_t index = (size_t)parameter->attributes.index, results = control->regions[0]->results.count;
    if (parameter->attributes.choice == NT__VALUE) return b->operands[index];
    if (index < results) return nt__tensor_of(control->results.items[index]);
    nt_tensor c = b->cotangents[index - results];
    return nt__has_cotangent(c) ? c : nt__filled("custom_gradient", parameter->type, 0, b->site);
}

void nt__gradient_custom_gradient(const nt__backward *b, nt_tensor *out) {
    const nt__region *products = b->node->control->regions[1];
    nt__region *region = nt__trace_current()->region;
    nt__node **map = nt__region_map(products);
    for (size_t i = 0; map && i < products->parameters.count; i++) {
        const nt__node *parameter = products->parameters.items[i];
        nt__node *node = nt__node_of(supply(b, parameter), b->site, "custom_gradient");
        if (!node || !(map[parameter->position] = nt__region_image(region, node))) return;
    }
    if (!map || !nt__region_copy(products, region, map)) return;
    for (size_t i = 0; i < products->results.count; i++)
        if (b->wanted[i]) out[i] = nt__tensor_of(map[products->results.items[i]->position]);
}
