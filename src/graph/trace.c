/* Traces: graphs under construction, their first error, their nodes. */
#include <stdatomic.h>
#include <string.h>

#include "graph/region.h"

static _Thread_local nt__graph *current;

nt__graph *nt__trace_begin(void) {
    static atomic_uintptr_t traces;
    nt__graph *graph = nt__alloc(1, sizeof *graph);
    if (!graph) return NULL;
    /* NULL and NT_NUMBER_MARK are no marks of traces: a tensor never set, and a C number. */
    graph->trace = (nt__trace_mark)(atomic_fetch_add(&traces, 1) % (UINTPTR_MAX - 1) + 1);
    graph->outer = current;
    graph->region = &graph->program;
    if (!NT__GROW(graph->nodes, graph->node_count, graph->node_capacity)) {
        nt__free(graph);
        return NULL;
    }
    graph->nodes[graph->node_count++] = NULL;
    current = graph;
    return graph;
}

void nt__trace_end(nt__graph *graph) {
    if (!graph) return;
    current = graph->outer;
    nt__arena_free(&graph->arena);
    nt__captured_free(&graph->captured);
    nt__map_free(&graph->shared);
    nt__free(graph->claims);
    nt__free(graph->absent.items);
    nt__free(graph->nodes);
    nt__free(graph);
}

nt__graph *nt__trace_current(void) {
    return current;
}

nt_status nt__trace_status(const nt__graph *graph) {
    if (graph->status == NT_OK) return NT_OK;
    return nt__fail(graph->status, "%s", graph->message ? graph->message : "the host is out of memory while tracing");
}

/* ---- the first error -------------------------------------------------------------------------------------------- */

nt_tensor nt__failed(void) {
    return (nt_tensor){current ? current->trace : NULL, 0, 0};
}

/* Where there is no memory for the message, that becomes the error. */
static void keep_error(const char *message) {
    current->message = message ? nt__arena_strdup(&current->arena, message) : NULL;
    current->status = current->message ? NT_INVALID : NT_OUT_OF_MEMORY;
}

nt_tensor nt__trace_out_of_memory(void) {
    if (current && current->status == NT_OK) keep_error(NULL);
    return nt__failed();
}

/* What a tensor says of itself has no place; the operation that comes next, and may have asked for it, has one. */
static void give_place(nt_site site) {
    if (!current->unplaced || !site.file) return;
    nt__text text = {0};
    nt__text_add(&text, "%s:%d in %s: %s", site.file, site.line, site.function, current->unplaced);
    current->unplaced = NULL;
    keep_error(text.failed ? NULL : text.data);
    nt__text_free(&text);
}

nt_tensor nt__trace_fail(nt_site site, const char *what, const char *format, ...) {
    if (current && current->status != NT_OK) {
        give_place(site);
        return nt__failed();
    }
    nt__text text = {0};
    if (site.file) nt__text_add(&text, "%s:%d in %s: ", site.file, site.line, site.function);
    nt__text_add(&text, "%s: ", what);
    va_list arguments;
    va_start(arguments, format);
    nt__text_addv(&text, format, arguments);
    va_end(arguments);
    if (current)
        keep_error(text.failed ? NULL : text.data);
    else if (!text.failed)
        nt__calls_keep(nt__fail(NT_INVALID, "%s", text.data));
    nt__text_free(&text);
    return nt__failed();
}

bool nt__trace_given(const void *argument, nt_site site, const char *call, const char *name) {
    if (!argument) nt__trace_fail(site, call, "%s is NULL", name);
    return argument != NULL;
}

bool nt__trace_under_way(nt_site site, const char *what) {
    nt__hook_at(site.file, site.line);
    if (current) return true;
    nt__trace_fail(site, what, "no trace is under way: operations belong in traced hooks (forward, loss, ...)");
    return false;
}

bool nt__trace_right(void) {
    return current && current->status == NT_OK;
}

void *nt__trace_alloc(nt_site site, const char *what, size_t count, size_t size) {
    if (!nt__trace_under_way(site, what) || current->status != NT_OK) return NULL;
    void *memory = nt__arena_alloc(&current->arena, count, size);
    if (!memory) nt__trace_out_of_memory();
    return memory;
}

/* ---- nodes and tensors ------------------------------------------------------------------------------------------ */

/* Their ids are counted from the largest. */
nt_tensor nt__absent(const char *why) {
    if (!NT__GROW(current->absent.items, current->absent.count, current->absent.capacity))
        return nt__trace_out_of_memory();
    current->absent.items[current->absent.count++] = why;
    return (nt_tensor){current->trace, UINT32_MAX - (uint32_t)(current->absent.count - 1), 0};
}

/* NULL: it is none of these. */
static const char *why_absent(nt_tensor x) {
    uint32_t place = UINT32_MAX - x.id;
    return current && x.trace == current->trace && place < current->absent.count ? current->absent.items[place] : NULL;
}

bool nt__tensor_failed(nt_tensor x) {
    return !nt__is_number(x) && x.id == 0;
}

bool nt__is_number(nt_tensor x) {
    return x.trace == NT_NUMBER_MARK;
}

static nt__node *node_named(nt_tensor x, nt_site site, const char *what, const char *name) {
    if (!nt__trace_under_way(site, what)) return NULL;
    if (x.trace == current->trace && x.id < current->node_count && x.id > 0) {
        nt__node *node = current->nodes[x.id];
        return nt__region_sees(current->region, node, site, what) ? node : NULL;
    }
    if (nt__is_number(x))
        nt__trace_fail(site, what, "%s is the number %g and has to be a tensor; nt_full makes one", name,
                       nt__plain_nan(x.number));
    else if (why_absent(x))
        nt__trace_fail(site, what, "%s", why_absent(x));
    else if (!x.trace)
        nt__trace_fail(site, what, "%s was never set: it is zero bytes, not the result of an operation", name);
    else if (x.trace != current->trace)
        nt__trace_fail(
            site, what,
            "%s belongs to an earlier trace: a tensor lives as long as the call of the hook that made it, so "
            "do not keep one in a global or static variable",
            name);
    else
        nt__trace_fail(site, what, "%s is not the result of an operation of this trace", name);
    return NULL;
}

nt__node *nt__node_of(nt_tensor x, nt_site site, const char *what) {
    return node_named(x, site, what, nt__is_number(x) ? "an operand" : "the tensor");
}

bool nt__tensor_given(nt_tensor x, nt_site site, const char *what, const char *argument) {
    return node_named(x, site, what, argument) != NULL;
}

bool nt__type_possible(nt_site site, const char *what, nt__type type) {
    size_t bytes;
    if (nt__type_bytes(type, &bytes)) return true;
    char text[NT__TYPE_TEXT];
    nt__trace_fail(site, what,
                   "%s is not possible: it needs a known element type, at most %d axes, sizes from 0, and a number of "
                   "bytes that fits in memory",
                   nt__type_text(type, text), NT_MAX_RANK);
    return false;
}

bool nt__axis(nt_site site, const char *what, nt__type type, int64_t axis, int *out) {
    int rank = type.shape.rank;
    int64_t index = axis < 0 ? axis + rank : axis;
    *out = (int)index;
    if (index >= 0 && index < rank) return true;
    char text[NT__TYPE_TEXT];
    if (rank > 0)
        nt__trace_fail(site, what, "axis %lld of %s: its axes run from %d to %d", (long long)axis,
                       nt__type_text(type, text), -rank, rank - 1);
    else
        nt__trace_fail(site, what, "axis %lld of %s: a scalar has no axes", (long long)axis, nt__type_text(type, text));
    return false;
}

nt_tensor nt__tensor_of(const nt__node *node) {
    return (nt_tensor){current->trace, node->id, 0};
}

static bool same_in_each_iteration(const nt__node *node) {
    bool same = node->invariant || (node->op != NT__OP_region_parameter && !node->control);
    for (int i = 0; i < node->operand_count; i++) same = same && node->operands[i]->invariant;
    return same;
}

static void append(nt__region *region, nt__node *node) {
    node->region = region;
    node->position = region->count++;
    node->previous = region->last;
    *(region->last ? &region->last->next : &region->first) = node;
    region->last = node;
}

static bool copy_elements(nt__node *node) {
    if (!node->attributes.elements) return true;
    size_t bytes = nt__element_bytes(node);
    void *elements = nt__arena_alloc(&current->arena, 1, bytes);
    if (!elements) {
        nt__trace_out_of_memory();
        return false;
    }
    node->attributes.elements = memcpy(elements, node->attributes.elements, bytes);
    return true;
}

/* No engine compiles a program of so many, and gradients of gradients grow without an end. */
enum { MOST_NODES = 1 << 20 };

static bool has_room(const nt__node *node) {
    if (current->status != NT_OK) return false;
    if (current->node_count < MOST_NODES) return true;
    nt__trace_fail(node->site, nt__operations[node->op].name,
                   "this trace has %d operations, and that is the most: repeat a body by nt_scan, and take fewer "
                   "gradients of gradients",
                   MOST_NODES);
    return false;
}

nt__node *nt__add_node(nt__region *region, const nt__node *node) {
    if (!has_room(node)) return NULL;
    nt__node *kept = nt__arena_alloc(&current->arena, 1, sizeof *kept);
    size_t count = (size_t)node->operand_count;
    nt__node **operands = nt__arena_alloc(&current->arena, count, sizeof(nt__node *));
    if (!kept || !operands || !NT__GROW(current->nodes, current->node_count, current->node_capacity)) {
        nt__trace_out_of_memory();
        return NULL;
    }
    *kept = *node;
    if (!copy_elements(kept)) return NULL;
    kept->operands = operands;
    for (size_t i = 0; i < count; i++) operands[i] = node->operands[i];
    kept->invariant = same_in_each_iteration(node);
    append(region, kept);
    kept->id = (uint32_t)current->node_count;
    return current->nodes[current->node_count++] = kept;
}

static nt_tensor keep_node(const nt__node *node) {
    const nt__node *kept = nt__add_node(current->region, node);
    return kept ? nt__tensor_of(kept) : nt__failed();
}

static nt_tensor repeat_node(nt__node *node, nt_site site) {
    if (!node->repeated) node->again = site;
    node->repeated = true;
    return nt__tensor_of(node);
}

static nt_tensor share_node(const nt__node *node) {
    nt__hash hash = nt__node_hash(node, current->scope);
    uint32_t id = nt__map_find(&current->shared, hash);
    if (id) return repeat_node(current->nodes[id], node->site);
    if (!nt__map_put(&current->shared, hash, (uint32_t)current->node_count)) return nt__trace_out_of_memory();
    return keep_node(node);
}

nt_tensor nt__emit(nt__op op, nt_site site, nt__type type, int count, const nt_tensor *operands,
                   const nt__attributes *attributes) {
    const char *what = nt__operations[op].name;
    if (!nt__trace_under_way(site, what)) return nt__failed();
    if (current->status != NT_OK) {
        give_place(site);
        return nt__failed();
    }
    nt__node *own[NT__MAX_OPERANDS], node = {.op = op, .type = type, .operand_count = count, .site = site};
    node.operands = own;
    if (attributes) node.attributes = *attributes;
    for (int i = 0; i < count; i++) {
        nt__node *operand = nt__node_of(operands[i], site, what);
        if (!operand || !(own[i] = nt__region_image(current->region, operand))) return nt__failed();
    }
    if (!nt__operations[op].shape(&node) || !nt__type_possible(site, what, node.type)) return nt__failed();
    return node.attributes.alone ? keep_node(&node) : share_node(&node);
}

nt_tensor nt__input(int role, int index, const char *name, nt__type type) {
    const nt_site nowhere = {0};
    size_t size = strlen(name) + 1;
    char *copy = nt__trace_alloc(nowhere, name, 1, size);
    if (!copy) return nt__failed();
    if (!nt__type_possible(nowhere, "input", type)) return nt__failed();
    nt__attributes attributes = {.role = role, .index = index, .name = memcpy(copy, name, size)};
    const nt__node node = {.op = NT__OP_input, .type = type, .attributes = attributes};
    const nt__node *kept = nt__add_node(&current->program, &node);
    return kept ? nt__tensor_of(kept) : nt__failed();
}

nt_tensors nt__tensors_of(const struct nt_tensors_content *content) {
    return (nt_tensors){current ? current->trace : NULL, content};
}

bool nt__tensors_given(nt_tensors tensors, nt_site site, const char *what) {
    if (!nt__trace_under_way(site, what)) return false;
    bool is_current = tensors.content && tensors.trace == current->trace;
    if (is_current && !tensors.content->absent) return true;
    if (is_current)
        nt__trace_fail(site, what, "%s", tensors.content->absent);
    else if (tensors.content)
        nt__trace_fail(site, what,
                       "the nt_tensors belongs to an earlier trace: it lives as long as the call of the hook that made "
                       "it, so do not keep one in a global or static variable");
    else
        nt__trace_fail(site, what,
                       "the nt_tensors was never set: it is zero bytes, not a field of the view, nor what "
                       "nt_named_tensors or nt_parameter_grads made");
    return false;
}

static void fail_unknown_member(const struct nt_tensors_content *all, const char *name, nt_site site) {
    nt__text names = {0};
    for (size_t i = 0; i < all->count; i++) nt__text_add(&names, "%s%s", i ? ", " : "", all->names[i]);
    if (names.failed)
        nt__trace_out_of_memory();
    else
        nt__trace_fail(site, "member", "%s has no array '%s'; it has: %s", all->name, name,
                       names.length ? names.data : "none");
    nt__text_free(&names);
}

nt_tensor nt_member_at(nt_tensors tensors, const char *name, nt_site site) {
    const struct nt_tensors_content *all = tensors.content;
    if (!nt__trace_under_way(site, "member") || !nt__trace_given(name, site, "member", "name") ||
        !nt__tensors_given(tensors, site, "member"))
        return nt__failed();
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->names[i], name) == 0) return all->tensors[i];
    fail_unknown_member(all, name, site);
    return nt__failed();
}

/* Copies a name into the trace. */
static const char *keep_name(const char *name, nt_site site) {
    size_t size = strlen(name) + 1;
    char *copy = nt__trace_alloc(site, "named_tensors", 1, size);
    return copy ? memcpy(copy, name, size) : NULL;
}

nt_tensors nt_named_tensors_at(const char *const *names, const nt_tensor *tensors, size_t count, nt_site site) {
    const char *what = "named_tensors";
    if (!nt__trace_given(names, site, what, "names") || !nt__trace_given(tensors, site, what, "tensors"))
        return (nt_tensors){0};
    struct nt_tensors_content *content = nt__trace_alloc(site, what, 1, sizeof *content);
    const char **own_names = nt__trace_alloc(site, what, count + 1, sizeof *own_names);
    nt_tensor *own = nt__trace_alloc(site, what, count + 1, sizeof *own);
    if (!content || !own_names || !own) return (nt_tensors){0};
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; names[i] && j < i; j++)
            if (strcmp(names[i], names[j]) == 0) nt__trace_fail(site, what, "'%s' stands twice in the list", names[i]);
        if (!nt__trace_given(names[i], site, what, "a name") || !nt__node_of(tensors[i], site, what) ||
            !(own_names[i] = keep_name(names[i], site)))
            return (nt_tensors){0};
        own[i] = tensors[i];
    }
    *content = (struct nt_tensors_content){"the set", NULL, count, own_names, own};
    return nt__tensors_of(content);
}

void nt__gradients_are_refused(int role, const char *why) {
    if (!current) return;
    current->no_gradient = why;
    current->no_gradient_role = role;
}

void nt__quotient_keep(nt__quotient quotient) {
    if (current) current->quotient = quotient;
}

nt__quotient nt__quotient_kept(const nt__graph *graph) {
    return graph->quotient;
}

/* ---- what a tensor says of itself ------------------------------------------------------------------------------- */

/* To ask this of what is not there is to read it. */
static const nt__node *look(nt_tensor x) {
    const char *why = why_absent(x);
    if (why && current->status == NT_OK) {
        keep_error(why);
        current->unplaced = why;
    }
    return current && x.trace == current->trace && x.id > 0 && x.id < current->node_count ? current->nodes[x.id] : NULL;
}

bool nt__tensor_made(nt_tensor x) {
    return look(x) != NULL;
}

nt_dtype nt_dtype_of(nt_tensor x) {
    const nt__node *node = look(x);
    return node ? node->type.dtype : NT_F32;
}

nt_shape nt_shape_of(nt_tensor x) {
    const nt__node *node = look(x);
    if (node) return node->type.shape;
    nt_shape ones = {.rank = nt__is_number(x) ? 0 : NT_MAX_RANK};
    for (int i = 0; i < ones.rank; i++) ones.dims[i] = 1;
    return ones;
}

int nt_rank(nt_tensor x) {
    return nt_shape_of(x).rank;
}

int64_t nt_dim_at(nt_tensor x, int axis, nt_site site) {
    const nt__node *node = nt__node_of(x, site, "dim");
    int index;
    return node && nt__axis(site, "dim", node->type, axis, &index) ? node->type.shape.dims[index] : 1;
}
