/* A trace as StableHLO text, in the generic form: one printer serves every operation, and only the table's print rules
 * differ. */
#include <string.h>

#include "graph/printer.h"
#include "graph/window.h"

/* ---- types and numbers ------------------------------------------------------------------------------------------ */

/* "f32", "ui8", "i1" */
const char *nt__dtype_text(nt_dtype dtype) {
    static const char *const names[NT_DTYPE_COUNT] = {
        [NT_F32] = "f32",  [NT_F64] = "f64",  [NT_BF16] = "bf16", [NT_F16] = "f16", [NT_I8] = "i8",
        [NT_I16] = "i16",  [NT_I32] = "i32",  [NT_I64] = "i64",   [NT_U8] = "ui8",  [NT_U16] = "ui16",
        [NT_U32] = "ui32", [NT_U64] = "ui64", [NT_BOOL] = "i1"};
    return names[dtype];
}

void nt__type_print(nt__type type, nt__text *text) {
    nt__text_put(text, "tensor<", 7);
    for (int i = 0; i < type.shape.rank; i++) {
        nt__text_integer(text, type.shape.dims[i]);
        nt__text_put(text, "x", 1);
    }
    nt__text_say(text, nt__dtype_text(type.dtype));
    nt__text_put(text, ">", 1);
}

/* One element: floating as the bits, which is exact and can say nan; integers decimal. */
static void print_element(nt_dtype dtype, const void *at, nt__text *text) {
    uint64_t bits = 0;
    memcpy(&bits, at, nt_dtype_size(dtype));
    if (dtype == NT_BOOL)
        nt__text_say(text, bits ? "true" : "false");
    else if (nt_dtype_is_float(dtype))
        nt__text_add(text, "0x%0*llX", (int)(2 * nt_dtype_size(dtype)), (unsigned long long)bits);
    else if (dtype == NT_U64 || dtype == NT_U32 || dtype == NT_U16 || dtype == NT_U8)
        nt__text_add(text, "%llu", (unsigned long long)bits);
    else {
        int unused = 64 - 8 * (int)nt_dtype_size(dtype);
        nt__text_integer(text, (int64_t)(bits << unused) >> unused);
    }
}

static void print_nested(nt__type type, const char **at, int axis, nt__text *text) {
    if (axis == type.shape.rank) {
        print_element(type.dtype, *at, text);
        *at += nt_dtype_size(type.dtype);
        return;
    }
    for (int64_t i = 0; i < type.shape.dims[axis]; i++) {
        nt__text_put(text, i ? ", " : "[", i ? 2 : 1);
        print_nested(type, at, axis + 1, text);
    }
    nt__text_put(text, "]", 1);
}

/* Adds "1, 2". */
static void print_numbers(nt_shape list, nt__text *text) {
    for (int i = 0; i < list.rank; i++) {
        if (i) nt__text_put(text, ", ", 2);
        nt__text_integer(text, list.dims[i]);
    }
}

static void print_list(nt_shape list, nt__text *text) {
    nt__text_put(text, "[", 1);
    print_numbers(list, text);
    nt__text_put(text, "]", 1);
}

/* Adds "array<i64: 1, 2>". */
static void print_array(nt_shape list, nt__text *text) {
    nt__text_say(text, list.rank ? "array<i64: " : "array<i64");
    print_numbers(list, text);
    nt__text_put(text, ">", 1);
}

/* ---- print rules of the table ----------------------------------------------------------------------------------- */

void nt__print_nothing(const nt__node *node, nt__text *text) {
    (void)node;
    (void)text;
}

/* <{name = array<i64: 1, 2>, ...}>: the names come from the row. */
static void print_named_lists(const nt__node *node, nt__text *text) {
    const char *name = nt__operations[node->op].lists;
    for (int i = 0; *name; i++) {
        size_t length = strcspn(name, ",");
        if (i) nt__text_put(text, ", ", 2);
        nt__text_put(text, name, length);
        nt__text_put(text, " = ", 3);
        print_array(node->attributes.lists[i], text);
        name += length + (name[length] == ',');
    }
}

void nt__print_lists(const nt__node *node, nt__text *text) {
    nt__text_put(text, " <{", 3);
    print_named_lists(node, text);
    nt__text_put(text, "}>", 2);
}

static void print_elements(nt__type type, const char *elements, bool splat, nt__text *text) {
    nt__text_put(text, " <{value = dense<", 17);
    bool empty = nt_shape_elements(type.shape) == 0;
    if (!empty && splat)
        print_element(type.dtype, elements, text);
    else if (!empty)
        print_nested(type, &elements, 0, text);
    nt__text_put(text, "> : ", 4);
    nt__type_print(type, text);
    nt__text_put(text, "}>", 2);
}

void nt__print_constant(const nt__node *node, nt__text *text) {
    print_elements(node->type, node->attributes.elements, node->attributes.splat, text);
}

void nt__print_filled(nt__type type, const void *element, nt__text *text) {
    print_elements(type, element, true, text);
}

void nt__print_iota(const nt__node *node, nt__text *text) {
    nt__text_add(text, " <{iota_dimension = %d : i64}>", node->attributes.choice);
}

/* Said in the text, for where it is not, some engine compares constants of signed types as if they were unsigned. */
static const char *comparison_type(nt_dtype dtype) {
    if (nt_dtype_is_float(dtype)) return "FLOAT";
    return dtype == NT_BOOL || nt__dtype_is_unsigned(dtype) ? "UNSIGNED" : "SIGNED";
}

void nt__print_compare(const nt__node *node, nt__text *text) {
    static const char *const names[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    nt__text_add(text,
                 " <{compare_type = #stablehlo<comparison_type %s>, comparison_direction = "
                 "#stablehlo<comparison_direction %s>}>",
                 comparison_type(node->operands[0]->type.dtype), names[node->attributes.choice]);
}

void nt__print_dot(const nt__node *node, nt__text *text) {
    static const char *const names[] = {"lhs_batching_dimensions", "rhs_batching_dimensions",
                                        "lhs_contracting_dimensions", "rhs_contracting_dimensions"};
    nt__text_say(text, " <{dot_dimension_numbers = #stablehlo.dot<");
    for (int i = 0; i < 4; i++) {
        nt__text_say(text, i ? ", " : "");
        nt__text_say(text, names[i]);
        nt__text_put(text, " = ", 3);
        print_list(node->attributes.lists[i], text);
    }
    nt__text_put(text, ">}>", 3);
}

/* What a reduction does with two elements, of type $. */
#define OF_TWO(operation) "      %r = \"stablehlo." operation "\"(%a, %b) : ($, $) -> $\n"
#define OR_NAN(direction)                                                                                          \
    "      %g = \"stablehlo.compare\"(%a, %b) <{comparison_direction = #stablehlo<comparison_direction " direction \
    ">}> : ($, $) -> tensor<i1>\n"                                                                                 \
    "      %n = \"stablehlo.compare\"(%a, %a) <{comparison_direction = #stablehlo<comparison_direction NE>}> : "   \
    "($, $) -> tensor<i1>\n"                                                                                       \
    "      %o = \"stablehlo.or\"(%g, %n) : (tensor<i1>, tensor<i1>) -> tensor<i1>\n"                               \
    "      %r = \"stablehlo.select\"(%o, %a, %b) : (tensor<i1>, $, $) -> $\n"
static const char *const reducers[] = {
    [NT__ADD] = OF_TWO("add"),
    [NT__MULTIPLY] = OF_TWO("multiply"),
    [NT__MAXIMUM] = OF_TWO("maximum"),
    [NT__MAXIMUM_OR_NAN] = OR_NAN("GT"),
    [NT__MINIMUM] = OF_TWO("minimum"),
    [NT__MINIMUM_OR_NAN] = OR_NAN("LT"),
    [NT__EITHER] = OF_TWO("or"),
    [NT__BOTH] = OF_TWO("and"),
    [NT__SECOND] = "",
    /* The larger plus log(1 + exp(-|a - b|)), of equal ones with a difference of 0: that of two infinities is nan. */
    [NT__LOG_SUM_EXP] = "      %e = \"stablehlo.compare\"(%a, %b) <{comparison_direction = "
                        "#stablehlo<comparison_direction EQ>}> : ($, $) -> tensor<i1>\n"
                        "      %z = \"stablehlo.constant\"() <{value = dense<0.0> : $}> : () -> $\n"
                        "      %s = \"stablehlo.subtract\"(%a, %b) : ($, $) -> $\n"
                        "      %d = \"stablehlo.select\"(%e, %z, %s) : (tensor<i1>, $, $) -> $\n"
                        "      %p = \"stablehlo.abs\"(%d) : ($) -> $\n"
                        "      %n = \"stablehlo.negate\"(%p) : ($) -> $\n"
                        "      %x = \"stablehlo.exponential\"(%n) : ($) -> $\n"
                        "      %l = \"stablehlo.log_plus_one\"(%x) : ($) -> $\n"
                        "      %m = \"stablehlo.maximum\"(%a, %b) : ($, $) -> $\n"
                        "      %r = \"stablehlo.add\"(%m, %l) : ($, $) -> $\n",
    [NT__FIRST_MAXIMUM] = "      %g = \"stablehlo.compare\"(%a, %b) <{comparison_direction = "
                          "#stablehlo<comparison_direction GE>}> : ($, $) -> tensor<i1>\n"
                          "      %n = \"stablehlo.compare\"(%a, %a) <{comparison_direction = "
                          "#stablehlo<comparison_direction NE>}> : ($, $) -> tensor<i1>\n"
                          "      %r = \"stablehlo.or\"(%g, %n) : (tensor<i1>, tensor<i1>) -> tensor<i1>\n",
};

/* Adds a piece of text with the type in place of each $. */
static void print_with_type(const char *piece, nt__type type, nt__text *text) {
    while (*piece) {
        size_t length = strcspn(piece, "$");
        nt__text_put(text, piece, length);
        piece += length;
        if (!*piece) break;
        nt__type_print(type, text);
        piece++;
    }
}

void nt__reducer_print(int reducer, nt_dtype dtype, nt__text *text) {
    nt__type scalar = {dtype, {0}};
    print_with_type("    ^bb0(%a: $, %b: $):\n", scalar, text);
    print_with_type(reducers[reducer], scalar, text);
    nt__text_add(text, "      \"stablehlo.return\"(%s) : (", reducer == NT__SECOND ? "%b" : "%r");
    print_with_type(reducer == NT__FIRST_MAXIMUM ? "tensor<i1>) -> ()\n" : "$) -> ()\n", scalar, text);
}

static void print_reducer(const nt__node *node, nt__text *text) {
    nt__text_add(text, " ({\n");
    nt__reducer_print(node->attributes.choice, node->type.dtype, text);
    nt__text_add(text, "    })");
}

void nt__print_reduce(const nt__node *node, nt__text *text) {
    nt__print_lists(node, text);
    print_reducer(node, text);
}

void nt__print_concatenate(const nt__node *node, nt__text *text) {
    nt__text_add(text, " <{dimension = %d : i64}>", node->attributes.choice);
}

/* The lists of gather and scatter under their names there: window, batching, batching of the indices, indexed. */
static void print_places(const nt__node *node, const char *const names[4], nt__text *text) {
    const nt_shape *lists = node->attributes.lists;
    const nt_shape values[] = {lists[0], lists[1], lists[1], lists[2]};
    for (int i = 0; i < 4; i++) {
        nt__text_add(text, "%s = ", names[i]);
        print_list(values[i], text);
        nt__text_put(text, ", ", 2);
    }
}

void nt__print_gather(const nt__node *node, nt__text *text) {
    static const char *const names[] = {"offset_dims", "operand_batching_dims", "start_indices_batching_dims",
                                        "start_index_map"};
    const nt_shape *lists = node->attributes.lists;
    nt__text_add(text, " <{dimension_numbers = #stablehlo.gather<");
    print_places(node, names, text);
    nt__text_add(text,
                 "collapsed_slice_dims = [%lld], index_vector_dim = %d>, slice_sizes = ", (long long)lists[2].dims[0],
                 node->operands[1]->type.shape.rank);
    print_array(lists[3], text);
    nt__text_put(text, "}>", 2);
}

void nt__print_scatter(const nt__node *node, nt__text *text) {
    static const char *const names[] = {"update_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
                                        "scatter_dims_to_operand_dims"};
    nt__text_add(text, " <{scatter_dimension_numbers = #stablehlo.scatter<");
    print_places(node, names, text);
    nt__text_add(text, "inserted_window_dims = [%lld], index_vector_dim = %d>}>",
                 (long long)node->attributes.lists[2].dims[0], node->operands[1]->type.shape.rank);
    print_reducer(node, text);
}

/* Elements $ with their indices. A nan counts as larger than all numbers: nothing is before the smaller one of two, the
 * first where they ascend, when that is no nan and the larger one is. */
void nt__print_sort(const nt__node *node, nt__text *text) {
    nt__type scalar = {node->operands[0]->type.dtype, {0}};
    bool descending = node->attributes.choice == NT_DESCENDING;
    nt__text_add(text, " <{dimension = %lld : i64, is_stable = true}>", (long long)node->attributes.lists[0].dims[0]);
    print_with_type(" ({\n    ^bb0(%a: $, %b: $, %i: tensor<i32>, %j: tensor<i32>):\n", scalar, text);
    const char *small = descending ? "%b" : "%a", *large = descending ? "%a" : "%b";
    static const struct {
        const char *name, *direction;
        bool small[2];
    } comparisons[] = {{"%c", "LT", {true, false}}, {"%m", "EQ", {true, true}}, {"%n", "NE", {false, false}}};
    for (int i = 0; i < 3; i++) {
        nt__text_add(text, "      %s = \"stablehlo.compare\"(%s, %s) <{compare_type = ", comparisons[i].name,
                     comparisons[i].small[0] ? small : large, comparisons[i].small[1] ? small : large);
        nt__text_add(text, "#stablehlo<comparison_type %s>, comparison_direction = ", comparison_type(scalar.dtype));
        nt__text_add(text, "#stablehlo<comparison_direction %s>}> : (", comparisons[i].direction);
        print_with_type("$, $) -> tensor<i1>\n", scalar, text);
    }
    nt__text_add(text, "      %%o = \"stablehlo.and\"(%%m, %%n) : (tensor<i1>, tensor<i1>) -> tensor<i1>\n"
                       "      %%r = \"stablehlo.or\"(%%c, %%o) : (tensor<i1>, tensor<i1>) -> tensor<i1>\n"
                       "      \"stablehlo.return\"(%%r) : (tensor<i1>) -> ()\n    })");
}

void nt__padding_print(nt_shape low, nt_shape high, nt__text *text) {
    nt__text_add(text, "padding = dense<[");
    for (int i = 0; i < low.rank; i++)
        nt__text_add(text, "%s[%lld, %lld]", i ? ", " : "", (long long)low.dims[i], (long long)high.dims[i]);
    nt__text_add(text, "]> : tensor<%dx2xi64>", low.rank);
}

void nt__list_print(const char *name, nt_shape list, nt__text *text) {
    nt__text_add(text, ", %s = ", name);
    print_array(list, text);
}

/* ---- what may be printed ---------------------------------------------------------------------------------------- */

static bool refuse_donation(const nt__result *result, const nt__node *value, const nt__node *input, const char *why) {
    char own[NT__TYPE_TEXT], taken[NT__TYPE_TEXT];
    nt__trace_fail(value->site, result->name, "a result of %s cannot take the memory of %s: %s",
                   nt__type_text(value->type, own), nt__type_text(input->type, taken), why);
    return false;
}

/* The engine would refuse these with a message that names none of the parts. Notes who takes the memory. */
static bool donation_is_right(nt__printer *p, size_t index) {
    const nt__result *result = &p->results[index];
    const nt__node *value = nt__node_of(result->value, (nt_site){0}, result->name);
    const nt__node *input = nt__node_of(result->takes, (nt_site){0}, result->name);
    size_t own = 0, taken = 0;
    if (!value || !input) return false;
    if (input->op != NT__OP_input) return refuse_donation(result, value, input, "that is not an argument");
    nt__type_bytes(value->type, &own);
    nt__type_bytes(input->type, &taken);
    if (own != taken) return refuse_donation(result, value, input, "the numbers of bytes differ");
    if (p->taken_by[input->id]) return refuse_donation(result, value, input, "another result takes it already");
    p->taken_by[input->id] = (uint32_t)index + 1;
    return true;
}

static bool results_are_right(nt__printer *p) {
    bool right = true;
    for (size_t i = 0; i < p->result_count; i++)
        right = right && nt__node_of(p->results[i].value, (nt_site){0}, p->results[i].name) &&
                (!p->results[i].takes.trace || donation_is_right(p, i));
    return right;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* Another node that has the value of this one; NULL when the node has a name of its own. Operations without a line hand
 * on an operand; the results of a body that is printed in its place, and what a body uses of outside, are those. */
static const nt__node *same_value(const nt__node *node) {
    int index = node->attributes.index;
    switch (node->op) {
    case NT__OP_input: return NULL;
    case NT__OP_region_parameter:
        return node->attributes.choice == NT__VALUE ? node->region->control->operands.items[index] : NULL;
    case NT__OP_result: {
        const nt__control *control = node->operands[0]->control;
        return nt__is_inline(control) ? control->regions[0]->results.items[index] : NULL;
    }
    default: return nt__operations[node->op].text ? NULL : node->operands[0];
    }
}

void nt__print_name(const nt__printer *p, const nt__node *node, nt__text *text) {
    for (const nt__node *same = same_value(node); same; same = same_value(node)) node = same;
    bool one_of_several = node->op == NT__OP_result;
    nt__text_say(text, node->op == NT__OP_input ? "%arg" : "%");
    nt__text_integer(text, p->number[one_of_several ? node->operands[0]->id : node->id]);
    if (one_of_several) nt__text_add(text, "#%u", p->number[node->id]);
    if (node->attributes.results > 1) nt__text_add(text, "#%d", node->attributes.result);
}

/* ---- the record of the lines ------------------------------------------------------------------------------------ */

/* Neighbours mostly share their file and function, so that one copy serves many lines. */
static bool copy_site(nt__printer *p, nt_site site) {
    nt__arena *arena = &p->out->arena;
    nt_site *kept = &p->kept_site;
    if (!kept->file || site.file != p->site.file) kept->file = nt__arena_strdup(arena, site.file ? site.file : "");
    if (!kept->function || site.function != p->site.function)
        kept->function = nt__arena_strdup(arena, site.function ? site.function : "");
    kept->line = site.line;
    p->site = site;
    return kept->file && kept->function;
}

/* One record for each line of the words; the body of a reduction has several. */
bool nt__keep_lines(nt__printer *p, nt_site site) {
    nt__printed *out = p->out;
    char *words = p->words.failed ? NULL : nt__arena_strdup(&out->arena, p->words.data);
    if (!words || !copy_site(p, site)) return false;
    while (words) {
        if (!NT__GROW(out->lines, out->line_count, p->line_capacity)) return false;
        char *end = strchr(words, '\n');
        if (end) *end = 0;
        out->lines[out->line_count++] = (nt__line){words + strspn(words, " "), p->kept_site};
        words = end ? end + 1 : NULL;
    }
    return true;
}

/* ---- the parts of the text -------------------------------------------------------------------------------------- */

static bool print_argument(nt__printer *p, const nt__node *node, size_t *capacity) {
    nt__printed *out = p->out;
    nt__text *text = &out->text;
    int taken = (int)p->taken_by[node->id] - 1;
    const char *name = nt__arena_strdup(&out->arena, node->attributes.name);
    if (!name || !NT__GROW(out->arguments, out->argument_count, *capacity)) return false;
    p->number[node->id] = (uint32_t)out->argument_count;
    nt__text_add(text, "%s%%arg%zu: ", out->argument_count ? ", " : "", out->argument_count);
    nt__type_print(node->type, text);
    if (taken >= 0) nt__text_add(text, " {tf.aliasing_output = %d : i32}", taken);
    out->arguments[out->argument_count++] =
        (nt__argument){name, node->type, node->attributes.role, node->attributes.index, taken};
    return true;
}

static bool print_arguments(nt__printer *p) {
    size_t capacity = 0;
    for (size_t id = 1; id < p->graph->node_count; id++) {
        const nt__node *node = p->graph->nodes[id];
        if (node->op == NT__OP_input && p->needed[id] && !print_argument(p, node, &capacity)) return false;
    }
    return true;
}

static void print_result_types(const nt__printer *p, nt__text *text) {
    for (size_t i = 0; i < p->result_count; i++) {
        if (i) nt__text_put(text, ", ", 2);
        nt__type_print(p->graph->nodes[p->results[i].value.id]->type, text);
    }
}

static void print_types(const nt__node *node, nt__text *text) {
    nt__text_put(text, " : (", 4);
    for (int i = 0; i < node->operand_count; i++) {
        if (i) nt__text_put(text, ", ", 2);
        nt__type_print(node->operands[i]->type, text);
    }
    nt__text_put(text, ") -> ", 5);
    if (node->attributes.results <= 1) {
        nt__type_print(node->type, text);
        return;
    }
    for (int i = 0; i < node->attributes.results; i++) {
        nt__text_put(text, i ? ", " : "(", i ? 2 : 1);
        nt__type_print((nt__type){i ? NT_I32 : node->operands[0]->type.dtype, node->type.shape}, text);
    }
    nt__text_put(text, ")", 1);
}

void nt__print_indent(const nt__printer *p) {
    for (int i = 0; i < p->depth; i++) nt__text_put(&p->out->text, "  ", 2);
}

static bool print_node(nt__printer *p, const nt__node *node) {
    const nt__operation *operation = &nt__operations[node->op];
    nt__text *text = &p->out->text, *words = &p->words;
    words->length = 0;
    nt__text_say(words, operation->text);
    size_t after_name = words->length;
    operation->print(node, words);
    print_types(node, words);
    if (!nt__keep_lines(p, node->site)) return false;
    nt__print_indent(p);
    nt__text_put(text, "%", 1);
    nt__text_integer(text, p->number[node->id]);
    if (node->attributes.results > 1) nt__text_add(text, ":%d", node->attributes.results);
    nt__text_say(text, strchr(operation->text, '.') ? " = \"" : " = \"stablehlo.");
    nt__text_say(text, operation->text);
    nt__text_put(text, "\"(", 2);
    for (int i = 0; i < node->operand_count; i++) {
        if (i) nt__text_put(text, ", ", 2);
        nt__print_name(p, node->operands[i], text);
    }
    nt__text_put(text, ")", 1);
    nt__text_put(text, words->data + after_name, words->length - after_name);
    nt__text_put(text, "\n", 1);
    return true;
}

bool nt__print_nodes(nt__printer *p, const nt__region *region) {
    for (const nt__node *node = region->first; node; node = node->next) {
        if (!p->needed[node->id] || node->op == NT__OP_result) continue;
        if (node->control) {
            if (!nt__print_control(p, node->control)) return false;
        } else if (nt__operations[node->op].text) {
            p->number[node->id] = p->next++;
            if (!print_node(p, node)) return false;
        }
    }
    return true;
}

static void print_return(const nt__printer *p, nt__text *text) {
    nt__text_add(text, "    return");
    for (size_t i = 0; i < p->result_count; i++) {
        nt__text_add(text, i ? ", " : " ");
        nt__print_name(p, p->graph->nodes[p->results[i].value.id], text);
    }
    if (p->result_count) nt__text_add(text, " : ");
    print_result_types(p, text);
}

static bool print_module(nt__printer *p, const char *module) {
    nt__text *text = &p->out->text;
    nt__text_add(text, "module @%s {\n  func.func public @main(", module);
    if (!nt__mark_needed(p) || !print_arguments(p)) return false;
    nt__text_add(text, ") -> (");
    print_result_types(p, text);
    nt__text_add(text, ") {\n");
    p->out->first_line = 3;
    p->depth = 2;
    if (!nt__print_nodes(p, &p->graph->program)) return false;
    print_return(p, text);
    nt__text_add(text, "\n  }\n}\n");
    return !text->failed;
}

nt_status nt__print(const char *module, const nt__result *results, size_t count, nt__printed *out) {
    *out = (nt__printed){0};
    nt__printer p = {.graph = nt__trace_current(), .results = results, .result_count = count, .out = out};
    if (!p.graph) return nt__fail(NT_INVALID, "printing '%s': no trace is under way", module);
    if (p.graph->status != NT_OK) return nt__trace_status(p.graph);
    p.needed = nt__alloc(p.graph->node_count, sizeof *p.needed);
    p.number = nt__alloc(p.graph->node_count, sizeof *p.number);
    p.taken_by = nt__alloc(p.graph->node_count, sizeof *p.taken_by);
    bool room = p.needed && p.number && p.taken_by, right = room && results_are_right(&p);
    bool printed = right && print_module(&p, module);
    nt__free(p.needed);
    nt__free(p.number);
    nt__free(p.taken_by);
    nt__text_free(&p.words);
    nt__text_free(&p.line);
    if (printed) return NT_OK;
    nt__printed_free(out);
    if (room && !right) return nt__trace_status(p.graph);
    return nt__fail(NT_OUT_OF_MEMORY, "the host is out of memory while printing '%s'", module);
}

void nt__printed_free(nt__printed *printed) {
    nt__arena_free(&printed->arena);
    nt__text_free(&printed->text);
    nt__free(printed->arguments);
    nt__free(printed->lines);
    *printed = (nt__printed){0};
}
