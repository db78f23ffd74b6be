/* Regions: what a body sees of the values around it, operations that run bodies, copies of bodies.
 *
 * The gradient of a body is computed in a region of its own, which may use the values of the body: a value that is
 * cheap to make, or the same in every iteration, is made again there; any other one becomes a further result of the
 * operation that ran the body, stacked where that is a loop.
 */
#include "graph/region.h"

#include <string.h>

/* What stands for a node in another region. The newest is first. */
struct nt__image {
    nt__node *node;
    struct nt__image *next;
};

static bool push(nt__nodes *list, nt__node *node) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 4;
        nt__node **items = nt__trace_alloc((nt_site){0}, "trace", capacity, sizeof(nt__node *));
        if (!items) return false;
        if (list->count) memcpy(items, list->items, list->count * sizeof(nt__node *));
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = node;
    return true;
}

/* ---- what a region can see -------------------------------------------------------------------------------------- */

static bool within_reach(const nt__region *region, const nt__node *node) {
    while (region && region != node->region && region->forward != node->region) region = region->outer;
    return region != NULL;
}

bool nt__region_sees(const nt__region *region, const nt__node *node, nt_site site, const char *what) {
    if (within_reach(region, node)) return true;
    const nt__control *control = node->region->control;
    nt__text made = {0};
    if (node->site.file) nt__text_add(&made, " at %s:%d", node->site.file, node->site.line);
    nt__trace_fail(site, what,
                   "the tensor was made%s in a body of the %s at %s:%d, and is known only there: what is used outside "
                   "must be among the values that the body returns",
                   made.length ? made.data : "", nt__operations[control->op].name, control->site.file,
                   control->site.line);
    nt__text_free(&made);
    return false;
}

static nt__node *known_image(const nt__region *region, const nt__node *node) {
    const struct nt__image *image = node->images;
    while (image && image->node->region != region) image = image->next;
    return image ? image->node : NULL;
}

static bool remember_image(nt__node *node, nt__node *image) {
    struct nt__image *entry = nt__trace_alloc(node->site, "trace", 1, sizeof *entry);
    if (!entry) return false;
    *entry = (struct nt__image){image, node->images};
    node->images = entry;
    return true;
}

/* Regions of one operation that use the same value share the operand. */
static bool operand_of(nt__control *control, nt__node *node, size_t *index) {
    const struct nt__image *image = node->images;
    while (image && image->node->region->control != control) image = image->next;
    *index = image ? (size_t)image->node->attributes.index : control->operands.count;
    return image || push(&control->operands, node);
}

static nt__node *capture(nt__region *region, nt__node *outer) {
    size_t index;
    if (!operand_of(region->control, outer, &index)) return NULL;
    return nt__region_parameter(region, NT__VALUE, index, outer->type);
}

static nt__node *slice(nt__region *region, nt__node *outer) {
    nt__type type = {outer->type.dtype, {.rank = outer->type.shape.rank - 1}};
    memcpy(type.shape.dims, outer->type.shape.dims + 1, (size_t)type.shape.rank * sizeof *type.shape.dims);
    size_t index = region->control->operands.count;
    return push(&region->control->operands, outer) ? nt__region_parameter(region, NT__SLICE, index, type) : NULL;
}

/* ---- values of the body in the region of its gradient ----------------------------------------------------------- */

static nt__node *add_result(nt__control *control, nt__type type) {
    nt__attributes attributes = {.index = (int)control->results.count};
    const nt__node content = {.op = NT__OP_result,
                              .type = type,
                              .operand_count = 1,
                              .operands = &control->owner,
                              .attributes = attributes,
                              .site = control->site};
    nt__node *node = nt__add_node(control->owner->region, &content);
    return node && push(&control->results, node) ? node : NULL;
}

bool nt__stack_type(nt__type *type, int64_t length, nt_site site) {
    nt_shape *shape = &type->shape;
    if (shape->rank == NT_MAX_RANK) {
        char text[NT__TYPE_TEXT];
        nt__trace_fail(site, "scan", "%s cannot be stacked: it would have more than %d axes",
                       nt__type_text(*type, text), NT_MAX_RANK);
        return false;
    }
    memmove(shape->dims + 1, shape->dims, (size_t)shape->rank++ * sizeof *shape->dims);
    shape->dims[0] = length;
    return nt__type_possible(site, "scan", *type);
}

nt_tensor nt__region_zeros(nt__region *region, nt__type type, nt_site site) {
    nt__graph *graph = nt__trace_current();
    nt__region *current = graph->region;
    uint32_t scope = nt__share_begin();
    graph->region = region;
    nt_tensor zeros = nt__filled("gradient", type, 0, site);
    graph->region = current;
    nt__share_end(scope);
    return zeros;
}

static nt__node *zeros_like(nt__region *region, const nt__node *node) {
    nt_tensor zeros = nt__region_zeros(region, node->type, node->site);
    return nt__tensor_failed(zeros) ? NULL : nt__trace_current()->nodes[zeros.id];
}

/* The result of the operation that hands the value out of its region. In other branches it is zero. */
static nt__node *keep(nt__node *node) {
    nt__control *control = node->region->control;
    nt__type type = node->type;
    if (node->kept) return node->kept;
    if (control->op == NT__OP_scan && !nt__stack_type(&type, control->length, node->site)) return NULL;
    for (int i = 0; i < control->region_count; i++) {
        nt__region *region = control->regions[i];
        nt__node *value = region == node->region ? node : zeros_like(region, node);
        if (!value || !push(&region->results, value)) return NULL;
    }
    return node->kept = add_result(control, type);
}

/* What is made again rather than kept. */
static bool is_cheap(const nt__node *node) {
    return node->invariant || node->op == NT__OP_broadcast || node->op == NT__OP_reshape;
}

/* A node with the operation of another one. */
static nt__node *add_like(nt__region *region, const nt__node *node, nt__node **operands) {
    const nt__node content = {.op = node->op,
                              .type = node->type,
                              .operand_count = node->operand_count,
                              .operands = operands,
                              .attributes = node->attributes,
                              .site = node->site};
    return nt__add_node(region, &content);
}

static bool is_made_again(const nt__node *node) {
    return node->op != NT__OP_region_parameter && is_cheap(node);
}

/* The first operand that has to be made again before the node can be; NULL: the operands are in `operands`, or one of
 * them is NULL after an error was kept. */
static nt__node *missing_operand(nt__region *region, const nt__node *node, nt__node **operands) {
    for (int i = 0; i < node->operand_count; i++) {
        nt__node *operand = node->operands[i];
        operands[i] = known_image(region, operand);
        if (!operands[i] && is_made_again(operand)) return operand;
        if (!operands[i] && !(operands[i] = nt__region_image(region, operand))) return NULL;
    }
    return NULL;
}

static nt__node *make_like(nt__region *region, const nt__node *node, nt__node **operands) {
    for (int i = 0; i < node->operand_count; i++)
        if (!operands[i]) return NULL;
    return add_like(region, node, operands);
}

/* Operands first: by a list of those that wait for theirs, since a chain may be as long as a program. */
static nt__node *make_again(nt__region *region, nt__node *node) {
    nt__nodes waiting = {0};
    for (nt__node *next = node, *made; next || waiting.count;) {
        nt__node *operands[NT__MAX_OPERANDS] = {0};
        if (next && !push(&waiting, next)) return NULL;
        nt__node *last = waiting.items[waiting.count - 1];
        if ((next = missing_operand(region, last, operands))) continue;
        if (!(made = make_like(region, last, operands))) return NULL;
        if (--waiting.count == 0) return made;
        if (!remember_image(last, made)) return NULL;
    }
    return NULL;
}

static nt__node *parameter_image(nt__region *region, const nt__node *node) {
    nt__node *operand = node->region->control->operands.items[node->attributes.index];
    if (node->attributes.choice == NT__VALUE) return nt__region_image(region, operand);
    operand = nt__region_image(region->outer, operand);
    return operand ? slice(region, operand) : NULL;
}

static nt__node *forward_image(nt__region *region, nt__node *node) {
    if (node->op == NT__OP_region_parameter) {
        nt__parameter_kind kind = (nt__parameter_kind)node->attributes.choice;
        if (kind == NT__INDEX) return region->index;
        if (kind == NT__VALUE || kind == NT__SLICE) return parameter_image(region, node);
    } else if (is_made_again(node)) {
        return make_again(region, node);
    }
    nt__node *kept = keep(node);
    nt__node *outer = kept ? nt__region_image(region->outer, kept) : NULL;
    if (!outer) return NULL;
    return region->control->op == NT__OP_scan ? slice(region, outer) : nt__region_image(region, outer);
}

static nt__node *new_image(nt__region *region, nt__node *node) {
    if (region->forward == node->region) return forward_image(region, node);
    nt__node *outer = nt__region_image(region->outer, node);
    if (!outer) return NULL;
    nt__node *image = outer == node ? NULL : known_image(region, outer);
    if (image) return image;
    image = capture(region, outer);
    return image && (outer == node || remember_image(outer, image)) ? image : NULL;
}

nt__node *nt__region_image(nt__region *region, nt__node *node) {
    if (node->region == region) return node;
    nt__node *image = known_image(region, node);
    if (image) return image;
    image = new_image(region, node);
    return image && (known_image(region, node) || remember_image(node, image)) ? image : NULL;
}

const nt__node *nt__region_original(const nt__node *node) {
    if (node->op != NT__OP_region_parameter || node->attributes.choice > NT__SLICE) return NULL;
    return node->region->control->operands.items[node->attributes.index];
}

bool nt__region_always_runs(const nt__region *region) {
    for (; region->control; region = region->outer)
        if (region->control->op == NT__OP_cond || region->control->op == NT__OP_while) return false;
    return true;
}

bool nt__trace_in_body(void) {
    const nt__graph *graph = nt__trace_current();
    return graph && graph->region->control;
}

nt__trace_place nt__trace_leave_bodies(void) {
    nt__graph *graph = nt__trace_current();
    if (!graph) return (nt__trace_place){0};
    nt__trace_place place = {graph->region, graph->scope};
    graph->region = &graph->program;
    graph->scope = 0;
    return place;
}

void nt__trace_go_back(nt__trace_place place) {
    nt__graph *graph = nt__trace_current();
    if (!graph) return;
    graph->region = place.region;
    graph->scope = place.scope;
}

bool nt__trace_runs_once(void) {
    const nt__graph *graph = nt__trace_current();
    const nt__region *region = graph ? graph->region : NULL;
    while (region && region->control && region->control->op == NT__OP_remat) region = region->outer;
    return !region || !region->control;
}

nt_tensor nt__trace_hand_out(nt_tensor x) {
    if (!nt__tensor_made(x)) return x;
    nt__node *node = nt__trace_current()->nodes[x.id];
    while (node && node->region->control && node->region->control->op == NT__OP_remat && node->region->control->owner)
        node = keep(node);
    return node ? nt__tensor_of(node) : nt__failed();
}

/* ---- making operations ------------------------------------------------------------------------------------------ */

nt__control *nt__control_begin(nt__op op, nt_site site) {
    nt__control *control = nt__trace_alloc(site, nt__operations[op].name, 1, sizeof *control);
    if (!control) return NULL;
    control->op = op;
    control->site = site;
    return control;
}

nt__node *nt__control_operand(nt__control *control, nt_tensor x) {
    nt__region *region = nt__trace_current()->region;
    nt__node *node = nt__node_of(x, control->site, nt__operations[control->op].name);
    nt__node *image = node ? nt__region_image(region, node) : NULL;
    return image && push(&control->operands, image) ? image : NULL;
}

static bool is_loop(nt__op op) {
    return op == NT__OP_scan || op == NT__OP_while;
}

nt__region *nt__region_enter(nt__control *control, const nt__region *forward) {
    nt__graph *graph = nt__trace_current();
    if (graph->region->depth == NT__DEEPEST_BODY) {
        nt__trace_fail(control->site, nt__operations[control->op].name,
                       "bodies are nested more than %d deep: a function that calls itself through its body needs an "
                       "end, or a loop, nt_scan, in its place",
                       NT__DEEPEST_BODY);
        return NULL;
    }
    nt__region *region = nt__trace_alloc(control->site, nt__operations[control->op].name, 1, sizeof *region);
    if (!region) return NULL;
    *region =
        (nt__region){.outer = graph->region, .control = control, .forward = forward, .depth = graph->region->depth + 1};
    control->regions[control->region_count++] = region;
    region->scope_outside = nt__share_begin();
    graph->region = region;
    if (!is_loop(control->op)) return region;
    region->index = nt__region_parameter(region, NT__INDEX, 0, (nt__type){NT_I32, {0}});
    if (region->index) return region;
    nt__region_leave(region);
    return NULL;
}

void nt__region_leave(const nt__region *region) {
    nt__share_end(region->scope_outside);
    nt__trace_current()->region = region->outer;
}

nt__node *nt__region_parameter(nt__region *region, nt__parameter_kind kind, size_t index, nt__type type) {
    const nt__control *control = region->control;
    const nt__node content = {.op = NT__OP_region_parameter,
                              .type = type,
                              .attributes = {.choice = kind, .index = (int)index},
                              .site = control->site,
                              .invariant = kind == NT__VALUE && is_loop(control->op)};
    nt__node *node = nt__add_node(region, &content);
    if (!node || kind == NT__INDEX) return node;
    return push(&region->parameters, node) ? node : NULL;
}

nt__node *nt__region_argument(nt__region *region, nt__parameter_kind kind, nt_tensor x) {
    nt__graph *graph = nt__trace_current();
    graph->region = region->outer;
    nt__node *operand = nt__control_operand(region->control, x);
    graph->region = region;
    if (!operand) return NULL;
    if (kind != NT__SLICE)
        return nt__region_parameter(region, kind, region->control->operands.count - 1, operand->type);
    region->control->operands.count--;
    return slice(region, operand);
}

bool nt__region_return(nt__region *region, nt_tensor x) {
    nt__node *node = nt__node_of(x, region->control->site, nt__operations[region->control->op].name);
    nt__node *image = node ? nt__region_image(region, node) : NULL;
    return image && push(&region->results, image);
}

nt__region *nt__control_body(const nt__control *control) {
    return control->regions[control->region_count - 1];
}

/* What the results are made of: of a barrier the operands, of the others values of a region. */
static const nt__nodes *values_of(const nt__control *control) {
    if (control->op == NT__OP_barrier) return &control->operands;
    return &(control->op == NT__OP_while ? nt__control_body(control) : control->regions[0])->results;
}

static bool add_results(nt__control *control) {
    const nt__nodes *values = values_of(control);
    size_t carries = control->op == NT__OP_scan ? control->carries : values->count;
    for (size_t i = 0; i < values->count; i++) {
        nt__type type = values->items[i]->type;
        if (i >= carries && !nt__stack_type(&type, control->length, control->site)) return false;
        nt__node *result = add_result(control, type);
        if (!result) return false;
        if (i >= carries) values->items[i]->kept = result;
    }
    return true;
}

bool nt__control_end(nt__control *control) {
    nt__graph *graph = nt__trace_current();
    if (!nt__trace_right()) return false;
    const nt__node content = {.op = control->op,
                              .type = {NT_BOOL, {0}},
                              .operand_count = (int)control->operands.count,
                              .operands = control->operands.items,
                              .site = control->site,
                              .control = control};
    control->owner = nt__add_node(graph->region, &content);
    return control->owner && add_results(control);
}

nt_tensor nt__control_result(const nt__control *control, size_t index) {
    bool made = nt__trace_right() && control && index < control->results.count;
    return made ? nt__tensor_of(control->results.items[index]) : nt__failed();
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */

nt__node **nt__region_map(const nt__region *region) {
    return nt__trace_alloc(region->control->site, "trace", region->count, sizeof(nt__node *));
}

static bool copy_list(const nt__nodes *from, nt__node *const *map, nt__nodes *to) {
    bool right = true;
    for (size_t i = 0; right && i < from->count; i++) right = push(to, map[from->items[i]->position]);
    return right;
}

static bool copy_parameters(const nt__region *from, nt__region *to, nt__node **map) {
    if (from->index) map[from->index->position] = to->index;
    for (size_t i = 0; i < from->parameters.count; i++) {
        const nt__node *own = from->parameters.items[i];
        nt__node *copy = nt__region_parameter(to, (nt__parameter_kind)own->attributes.choice,
                                              (size_t)own->attributes.index, own->type);
        if (!copy) return false;
        map[own->position] = copy;
    }
    return true;
}

static bool copy_nested(const nt__region *from, nt__control *control) {
    nt__region *to = nt__region_enter(control, NULL);
    if (!to) return false;
    nt__node **map = nt__region_map(from);
    bool right = map && copy_parameters(from, to, map) && nt__region_copy(from, to, map) &&
                 copy_list(&from->results, map, &to->results);
    nt__region_leave(to);
    return right;
}

static nt__node *copy_control(const nt__control *from, nt__node *const *map) {
    nt__control *control = nt__control_begin(from->op, from->site);
    if (!control) return NULL;
    control->carries = from->carries;
    control->length = from->length;
    control->backward = from->backward;
    bool right = copy_list(&from->operands, map, &control->operands);
    for (int i = 0; right && i < from->region_count; i++) right = copy_nested(from->regions[i], control);
    return right && nt__control_end(control) ? control->owner : NULL;
}

static nt__node *copy_node(const nt__node *node, nt__region *to, nt__node *const *map) {
    if (node->op == NT__OP_result)
        return map[node->operands[0]->position]->control->results.items[node->attributes.index];
    if (node->control) return copy_control(node->control, map);
    nt__node *operands[NT__MAX_OPERANDS];
    for (int i = 0; i < node->operand_count; i++) operands[i] = map[node->operands[i]->position];
    return add_like(to, node, operands);
}

/* Operations that run bodies are made in the current region. */
bool nt__region_copy(const nt__region *from, nt__region *to, nt__node **map) {
    nt__graph *graph = nt__trace_current();
    nt__region *current = graph->region;
    const nt__node *last = from->last;
    bool right = true;
    graph->region = to;
    for (const nt__node *node = from->first; right && node; node = node == last ? NULL : node->next) {
        if (node->op == NT__OP_region_parameter) continue;
        map[node->position] = copy_node(node, to, map);
        right = map[node->position] != NULL;
    }
    graph->region = current;
    return right;
}
