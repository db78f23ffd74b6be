/* Equal nodes are one: the same operation on the same operands with the same attributes and type, in the same scope. A
 * trace so has each expression once, however often the user's functions and the gradient rules write it.
 * Not here: operands in another order, which are another expression.
 */
#include "graph/emit.h"

/* ---- what tells nodes apart ------------------------------------------------------------------------------------- */

enum {
    LISTS = sizeof((nt__attributes){0}.lists) / sizeof(nt_shape),
    WINDOW_SHAPES = 9,
    NUMBERS = 16, /* of all other sorts */
    MOST = (1 + LISTS + WINDOW_SHAPES) * (1 + NT_MAX_RANK) + NT__MAX_OPERANDS + NUMBERS
};

typedef struct key {
    int64_t words[MOST];
    size_t count;
} key;

static void add(key *k, int64_t word) {
    k->words[k->count++] = word;
}

/* What stands after the rank counts for nothing. */
static void add_shape(key *k, const nt_shape *shape) {
    add(k, shape->rank);
    for (int i = 0; i < shape->rank; i++) add(k, shape->dims[i]);
}

static void add_window(key *k, const nt__window *w) {
    const nt_shape *const shapes[WINDOW_SHAPES] = {
        &w->size, &w->stride, &w->low, &w->high, &w->base_dilation, &w->window_dilation, &w->x, &w->kernel, &w->result,
    };
    for (int i = 0; i < WINDOW_SHAPES; i++) add_shape(k, shapes[i]);
    add(k, w->groups);
    add(k, w->reversed);
}

static void add_elements(key *k, const nt__node *node) {
    nt__hash hash = nt__hash_bytes(node->attributes.elements, nt__element_bytes(node));
    add(k, (int64_t)hash.low);
    add(k, (int64_t)hash.high);
}

#define NUMBER(type, name) attributes->name,
#define OTHER(type, name, size)

nt__hash nt__node_hash(const nt__node *node, uint32_t scope) {
    const nt__attributes *attributes = &node->attributes;
    key k;
    k.count = 0;
    const int64_t numbers[] = {node->op, scope, node->type.dtype, node->operand_count, NT__ATTRIBUTES(NUMBER, OTHER)};
    _Static_assert(sizeof numbers / sizeof *numbers <= NUMBERS, "a key has room for fewer numbers");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) add(&k, numbers[i]);
    add_shape(&k, &node->type.shape);
    for (int i = 0; i < node->operand_count; i++) add(&k, node->operands[i]->id);
    for (int i = 0; i < LISTS; i++) add_shape(&k, &attributes->lists[i]);
    if (attributes->window) add_window(&k, attributes->window);
    if (attributes->elements) add_elements(&k, node);
    return nt__hash_bytes(k.words, k.count * sizeof *k.words);
}

uint32_t nt__share_begin(void) {
    nt__graph *graph = nt__trace_current();
    uint32_t before = graph->scope;
    graph->scope = ++graph->scope_count;
    return before;
}

void nt__share_end(uint32_t before) {
    nt__trace_current()->scope = before;
}

size_t nt__element_bytes(const nt__node *node) {
    size_t bytes = nt_dtype_size(node->type.dtype);
    return node->attributes.splat ? bytes : bytes * (size_t)nt_shape_elements(node->type.shape);
}
