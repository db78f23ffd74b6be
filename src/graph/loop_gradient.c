/* The gradient of a scan: a scan in the other direction. */
#include <math.h>

#include "graph/region.h"

/* A cotangent that is a sum over rows in each iteration, as that of a matrix: one product of all rows after the loop
 * spares the loop to read, add to and write it each time. */
typedef struct product {
    const nt__node *dot; /* in the reverse scan; NULL: the cotangent is summed there */
    size_t results[2];   /* that stack the factors; those that are slices of a sequence have it as */
    nt_tensor sequences[2];
} product;

/* The scan in the other direction. Its carries are the cotangents of the carries, then sums over the iterations for
 * values of outside; its inputs are the cotangents of stacked results; it stacks the cotangents of slices. */
typedef struct reverse {
    const nt__backward *b;
    const nt__region *body;
    nt__control *control;
    nt__region *region;
    size_t results; /* of the scan, before more of its values are kept */
    nt__seed *seeds;
    size_t seed_count;
    nt__node **inputs;     /* parameters of the body whose cotangents are wanted: */
    nt_tensor *sums, *out; /* what it has summed so far; what arrives in an iteration */
    size_t input_count;
    product *products; /* for each of them: what is multiplied after the loop, if it is */
} reverse;

/* Outside of the reverse scan. */
static nt_tensor zeros_before(const reverse *r, nt__type type) {
    return nt__region_zeros(r->region->outer, type, r->b->site);
}

static nt_tensor arrived_or_zeros(const reverse *r, size_t result) {
    nt_tensor c = r->b->cotangents[result];
    return nt__has_cotangent(c) ? c : zeros_before(r, r->body->results.items[result]->type);
}

static bool is_wanted(const reverse *r, const nt__node *parameter) {
    if (parameter->attributes.choice == NT__CARRY) return nt_dtype_is_float(parameter->type.dtype);
    return r->b->wanted[parameter->attributes.index];
}

/* Another parameter of the reverse scan, whose first value or whose slices are `x`. */
static nt_tensor add_argument(const reverse *r, nt__parameter_kind kind, nt_tensor x) {
    const nt__node *parameter = nt__region_argument(r->region, kind, x);
    return parameter ? nt__tensor_of(parameter) : nt__failed();
}

/* Of the parameters of the body that are of `kind`: those that are wanted, each with its carry if it has one. */
static void add_inputs(reverse *r, nt__parameter_kind kind) {
    for (size_t i = 0; i < r->body->parameters.count; i++) {
        nt__node *parameter = r->body->parameters.items[i];
        if (parameter->attributes.choice != (int)kind || !is_wanted(r, parameter)) continue;
        if (kind == NT__CARRY)
            r->sums[r->input_count] = add_argument(r, NT__CARRY, arrived_or_zeros(r, i));
        else if (kind == NT__VALUE)
            r->sums[r->input_count] = add_argument(r, NT__CARRY, zeros_before(r, parameter->type));
        r->inputs[r->input_count++] = parameter;
    }
}

/* The cotangents of what the body returns. The sums of the carries are those. */
static void add_seeds(reverse *r) {
    for (size_t i = 0; i < r->input_count; i++)
        if (r->inputs[i]->attributes.choice == NT__CARRY)
            r->seeds[r->seed_count++] = (nt__seed){r->body->results.items[r->inputs[i]->attributes.index], r->sums[i]};
    for (size_t k = r->b->node->control->carries; k < r->results; k++)
        if (nt__has_cotangent(r->b->cotangents[k]))
            r->seeds[r->seed_count++] =
                (nt__seed){r->body->results.items[k], add_argument(r, NT__SLICE, r->b->cotangents[k])};
}

/* The input of the scan whose cotangents, which are stacked, are the node. */
static size_t input_stacking(const reverse *r, const nt__node *node) {
    size_t i = 0;
    while (i < r->input_count && (r->inputs[i]->attributes.choice != NT__SLICE || !nt__has_cotangent(r->out[i]) ||
                                  nt__node_of(r->out[i], r->b->site, "scan") != node))
        i++;
    return i;
}

static bool is_slice(const nt__node *node) {
    return node->op == NT__OP_region_parameter && node->attributes.choice == NT__SLICE;
}

/* Elements that an iteration has to write so that the factor is there after the loop; infinite where it has no axis
 * left to be stacked along. */
static double to_stack(const reverse *r, const nt__node *factor) {
    if (is_slice(factor) || input_stacking(r, factor) < r->input_count) return 0;
    return factor->type.shape.rank < NT_MAX_RANK ? (double)nt_shape_elements(factor->type.shape) : HUGE_VAL;
}

/* What arrives at the input, if a product of all rows after the loop writes fewer elements than a sum in it. */
static const nt__node *product_of(const reverse *r, size_t i) {
    if (r->inputs[i]->attributes.choice != NT__VALUE || !nt__has_cotangent(r->out[i])) return NULL;
    const nt__node *dot = nt__node_of(r->out[i], r->b->site, "scan");
    if (!dot || dot->region != r->region || !nt__dot_sums_rows(dot)) return NULL;
    double written = to_stack(r, dot->operands[0]) + to_stack(r, dot->operands[1]);
    return written <= (double)nt_shape_elements(dot->type.shape) ? dot : NULL;
}

static bool return_cotangent(const reverse *r, size_t i) {
    nt_tensor c = r->out[i];
    bool arrived = nt__has_cotangent(c);
    if (r->inputs[i]->attributes.choice == NT__VALUE)
        c = arrived && !r->products[i].dot ? nt_add_at(r->sums[i], c, r->b->site) : r->sums[i];
    else if (!arrived)
        c = nt__filled("scan", r->inputs[i]->type, 0, r->b->site);
    return nt__region_return(r->region, c);
}

static bool return_factors(const reverse *r, product *p) {
    for (int side = 0; p->dot && side < 2; side++) {
        nt__node *factor = p->dot->operands[side];
        if (is_slice(factor)) {
            p->sequences[side] = nt__tensor_of(r->control->operands.items[factor->attributes.index]);
            continue;
        }
        p->results[side] = input_stacking(r, factor);
        if (p->results[side] < r->input_count) continue;
        p->results[side] = r->region->results.count;
        if (!nt__region_return(r->region, nt__tensor_of(factor))) return false;
    }
    return true;
}

/* After the loop. */
static nt_tensor cotangent_of(const reverse *r, size_t i) {
    const product *p = &r->products[i];
    nt_tensor factors[2];
    for (int side = 0; p->dot && side < 2; side++)
        factors[side] =
            p->sequences[side].trace ? p->sequences[side] : nt__control_result(r->control, p->results[side]);
    return p->dot ? nt__dot_of_rows(factors[0], factors[1], r->b->site) : nt__control_result(r->control, i);
}

/* The vector-Jacobian product of the body, as the body of the reverse scan. */
static bool trace_reverse(reverse *r) {
    const nt__node *last = r->body->last;
    add_inputs(r, NT__CARRY);
    add_inputs(r, NT__VALUE);
    r->control->carries = r->input_count;
    add_inputs(r, NT__SLICE);
    add_seeds(r);
    if (!nt__trace_right() ||
        !nt__sweep(r->body->first, last, r->seeds, r->seed_count, r->inputs, r->input_count, r->out))
        return false;
    for (size_t i = 0; i < r->input_count; i++) r->products[i].dot = product_of(r, i);
    for (size_t i = 0; i < r->input_count; i++)
        if (!return_cotangent(r, i)) return false;
    for (size_t i = 0; i < r->input_count; i++)
        if (!return_factors(r, &r->products[i])) return false;
    return true;
}

static bool begin_reverse(reverse *r) {
    const nt__control *forward = r->b->node->control;
    size_t parameters = r->body->parameters.count;
    r->seeds = nt__trace_alloc(r->b->site, "scan", parameters + r->results, sizeof *r->seeds);
    r->inputs = nt__trace_alloc(r->b->site, "scan", parameters, sizeof(nt__node *));
    r->sums = nt__trace_alloc(r->b->site, "scan", parameters, sizeof *r->sums);
    r->out = nt__trace_alloc(r->b->site, "scan", parameters, sizeof *r->out);
    r->products = nt__trace_alloc(r->b->site, "scan", parameters, sizeof *r->products);
    r->control = nt__control_begin(NT__OP_scan, r->b->site);
    if (!r->seeds || !r->inputs || !r->sums || !r->out || !r->products || !r->control) return false;
    r->control->length = forward->length;
    r->control->backward = !forward->backward;
    r->region = nt__region_enter(r->control, r->body);
    return r->region != NULL;
}

void nt__gradient_scan(const nt__backward *b, nt_tensor *out) {
    const nt__control *forward = b->node->control;
    reverse r = {.b = b, .body = forward->regions[0], .results = forward->results.count};
    if (!begin_reverse(&r)) return;
    bool right = trace_reverse(&r);
    nt__region_leave(r.region);
    if (!right || !nt__control_end(r.control)) return;
    for (size_t i = 0; i < r.input_count; i++)
        if (b->wanted[r.inputs[i]->attributes.index]) out[r.inputs[i]->attributes.index] = cotangent_of(&r, i);
}
