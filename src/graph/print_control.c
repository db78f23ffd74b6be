/* Operations that run bodies, as StableHLO: a scan becomes a while over a counter, with the slices cut at the start of
 * its body and the stacked values written at its end. Bodies use values of outside by name.
 */
#include "graph/printer.h"

/* ---- lines under construction ----------------------------------------------------------------------------------- */

static void begin_line(nt__printer *p) {
    p->words.length = p->line.length = 0;
}

/* What is the same whatever the numbers of the values. */
static void add(nt__printer *p, const char *words) {
    nt__text_say(&p->words, words);
    nt__text_say(&p->line, words);
}

static void add_type(nt__printer *p, nt__type type) {
    nt__type_print(type, &p->words);
    nt__type_print(type, &p->line);
}

/* What was added to the words alone. */
static void copy_words(nt__printer *p, size_t from) {
    if (!p->words.failed) nt__text_put(&p->line, p->words.data + from, p->words.length - from);
}

/* Value numbers and what stands around them. */
static void NT__PRINTF(2, 3) add_numbers(nt__printer *p, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    nt__text_addv(&p->line, format, arguments);
    va_end(arguments);
}

static void add_name(nt__printer *p, const nt__node *node) {
    nt__print_name(p, node, &p->line);
}

/* False when memory is short. */
static bool end_line(nt__printer *p, nt_site site) {
    if (p->line.failed || !nt__keep_lines(p, site)) return false;
    nt__print_indent(p);
    nt__text_put(&p->out->text, p->line.data, p->line.length);
    nt__text_put(&p->out->text, "\n", 1);
    return true;
}

/* "%7 = "stablehlo.add"(" */
static uint32_t begin_operation(nt__printer *p, const char *name) {
    uint32_t number = p->next++;
    begin_line(p);
    add_numbers(p, "%%%u = \"stablehlo.", number);
    add(p, name);
    add_numbers(p, "\"(");
    return number;
}

static const nt__type counter_type = {NT_I32, {0}};

/* ---- lines of the loop's own ------------------------------------------------------------------------------------ */

/* A line's value number; `made` is false when memory is short. */
typedef struct value {
    uint32_t number;
    bool made;
} value;

static value print_filled(nt__printer *p, nt_site site, nt__type type, int64_t number) {
    char element[8] = {0};
    nt__element_set(type.dtype, element, (double)number);
    uint32_t own = begin_operation(p, "constant");
    add_numbers(p, ")");
    size_t before = p->words.length;
    nt__print_filled(type, element, &p->words);
    copy_words(p, before);
    add(p, " : () -> ");
    add_type(p, type);
    return (value){own, end_line(p, site)};
}

static value print_counter(nt__printer *p, nt_site site, const char *name, value a, value b) {
    uint32_t own = begin_operation(p, name);
    add_numbers(p, "%%%u, %%%u)", a.number, b.number);
    add(p, " : (tensor<i32>, tensor<i32>) -> tensor<i32>");
    return (value){own, a.made && b.made && end_line(p, site)};
}

static value print_reshape(nt__printer *p, nt_site site, value x, nt__type from, nt__type to) {
    uint32_t own = begin_operation(p, "reshape");
    add_numbers(p, "%%%u)", x.number);
    add(p, " : (");
    add_type(p, from);
    add(p, ") -> ");
    add_type(p, to);
    return (value){own, x.made && end_line(p, site)};
}

/* One slice, with its axis of size 1. */
static nt__type slice_type(nt__type whole) {
    whole.shape.dims[0] = 1;
    return whole;
}

/* ---- the while: its values, its two regions --------------------------------------------------------------------- */

/* A scan under construction. Each list of its values is: the counter, the carries, what is stacked. */
typedef struct loop {
    nt__printer *p;
    const nt__control *control;
    nt_site site;
    bool counted;           /* has a counter */
    uint32_t *values;       /* of the list under construction */
    value index, zero, one; /* in the body: which slice; constants */
} loop;

static bool is_carry(const loop *l, size_t result) {
    return result < l->control->carries;
}

static const nt__node *parameter_of(const nt__region *region, size_t carry) {
    return region->parameters.items[carry];
}

/* The types of the list, for parentheses. */
static void add_list_types(const loop *l) {
    const nt__control *control = l->control;
    bool first = true;
    if (l->counted) add(l->p, "tensor<i32>");
    first = !l->counted;
    for (size_t i = 0; i < control->results.count; i++) {
        if (!nt__result_needed(l->p, control, i)) continue;
        if (!first) add(l->p, ", ");
        add_type(l->p, control->results.items[i]->type);
        first = false;
    }
}

/* Gives each result its place in the list, and says how many there are. */
static uint32_t number_results(const loop *l) {
    uint32_t count = l->counted;
    for (size_t i = 0; i < l->control->results.count; i++)
        if (nt__result_needed(l->p, l->control, i)) l->p->number[l->control->results.items[i]->id] = count++;
    return count;
}

/* "^bb0(%4: tensor<i32>, ...):", with numbers for what the region calls its values. Buffers of stacked values have
 * theirs in l->values. */
static bool print_parameters(const loop *l, const nt__region *region, value *counter) {
    nt__printer *p = l->p;
    const nt__control *control = l->control;
    const char *between = "";
    begin_line(p);
    add(p, "^bb0(");
    if (l->counted) {
        counter->number = p->next++;
        add_numbers(p, "%%%u: ", counter->number);
        add_type(p, counter_type);
        between = ", ";
    }
    for (size_t i = 0; i < control->results.count; i++) {
        if (!nt__result_needed(p, control, i)) continue;
        uint32_t own = p->next++;
        if (is_carry(l, i))
            p->number[parameter_of(region, i)->id] = own;
        else
            l->values[i] = own;
        add(p, between);
        add_numbers(p, "%%%u: ", own);
        add_type(p, control->results.items[i]->type);
        between = ", ";
    }
    add(p, "):");
    return end_line(p, l->site);
}

static bool print_text(const loop *l, const char *text) {
    begin_line(l->p);
    add(l->p, text);
    return end_line(l->p, l->site);
}

static bool return_predicate(const loop *l, const nt__node *node, value own) {
    begin_line(l->p);
    add(l->p, "\"stablehlo.return\"(");
    if (node)
        add_name(l->p, node);
    else
        add_numbers(l->p, "%%%u", own.number);
    add(l->p, ") : (tensor<i1>) -> ()");
    return end_line(l->p, l->site);
}

/* Of a scan: is the counter below the length? */
static bool print_condition(const loop *l) {
    nt__printer *p = l->p;
    const nt__region *region = l->control->regions[0];
    value counter = {0, true};
    if (!print_parameters(l, region, &counter)) return false;
    if (l->control->op == NT__OP_while) {
        if (region->index) p->number[region->index->id] = counter.number;
        return nt__print_nodes(p, region) && return_predicate(l, region->results.items[0], counter);
    }
    value length = print_filled(p, l->site, counter_type, l->control->length);
    uint32_t own = begin_operation(p, "compare");
    add_numbers(p, "%%%u, %%%u)", counter.number, length.number);
    add(p, " <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = "
           "#stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> "
           "tensor<i1>");
    return length.made && end_line(p, l->site) && return_predicate(l, NULL, (value){own, true});
}

/* ---- scan: slices and stacked values ---------------------------------------------------------------------------- */

static void add_places(const loop *l, int rank) {
    add_numbers(l->p, ", %%%u", l->index.number);
    for (int i = 1; i < rank; i++) add_numbers(l->p, ", %%%u", l->zero.number);
    add_numbers(l->p, ")");
}

static void add_place_types(const loop *l, int rank) {
    for (int i = 0; i < rank; i++) add(l->p, ", tensor<i32>");
    add(l->p, ") -> ");
}

static bool print_slice(const loop *l, const nt__node *parameter) {
    nt__printer *p = l->p;
    const nt__node *whole = l->control->operands.items[parameter->attributes.index];
    nt__type cut = slice_type(whole->type);
    uint32_t own = begin_operation(p, "dynamic_slice");
    add_name(p, whole);
    add_places(l, whole->type.shape.rank);
    size_t before = p->words.length;
    nt__text_add(&p->words, " <{slice_sizes = array<i64: 1");
    for (int i = 1; i < cut.shape.rank; i++) nt__text_add(&p->words, ", %lld", (long long)cut.shape.dims[i]);
    copy_words(p, before);
    add(p, ">}> : (");
    add_type(p, whole->type);
    add_place_types(l, whole->type.shape.rank);
    add_type(p, cut);
    if (!end_line(p, l->site)) return false;
    value reshaped = print_reshape(p, l->site, (value){own, true}, cut, parameter->type);
    p->number[parameter->id] = reshaped.number;
    return reshaped.made;
}

static bool print_slices(const loop *l, const nt__region *body) {
    for (size_t i = 0; i < body->parameters.count; i++) {
        const nt__node *parameter = body->parameters.items[i];
        bool cut = parameter->attributes.choice == NT__SLICE && l->p->needed[parameter->id];
        if (cut && !print_slice(l, parameter)) return false;
    }
    return true;
}

/* Writes a value of the body into its buffer, whose new number is l->values[result]. */
static bool print_stacked(const loop *l, size_t result) {
    nt__printer *p = l->p;
    const nt__node *element = l->control->regions[0]->results.items[result];
    nt__type whole = l->control->results.items[result]->type, cut = slice_type(whole);
    uint32_t row = begin_operation(p, "reshape");
    add_name(p, element);
    add_numbers(p, ")");
    add(p, " : (");
    add_type(p, element->type);
    add(p, ") -> ");
    add_type(p, cut);
    if (!end_line(p, l->site)) return false;
    uint32_t own = begin_operation(p, "dynamic_update_slice");
    add_numbers(p, "%%%u, %%%u", l->values[result], row);
    add_places(l, whole.shape.rank);
    add(p, " : (");
    add_type(p, whole);
    add(p, ", ");
    add_type(p, cut);
    add_place_types(l, whole.shape.rank);
    add_type(p, whole);
    l->values[result] = own;
    return end_line(p, l->site);
}

static bool print_all_stacked(const loop *l) {
    for (size_t i = l->control->carries; i < l->control->results.count; i++)
        if (nt__result_needed(l->p, l->control, i) && !print_stacked(l, i)) return false;
    return true;
}

/* Which slice this iteration is about, and constants. */
static bool print_start(loop *l, value counter) {
    nt__printer *p = l->p;
    const nt__node *index = nt__control_body(l->control)->index;
    l->index = counter;
    l->one = print_filled(p, l->site, counter_type, 1);
    if (l->control->op == NT__OP_scan) {
        l->zero = print_filled(p, l->site, counter_type, 0);
        value last = {0, true};
        if (l->control->backward) last = print_filled(p, l->site, counter_type, l->control->length - 1);
        if (l->control->backward) l->index = print_counter(p, l->site, "subtract", last, counter);
    }
    p->number[index->id] = l->index.number;
    return l->one.made && (l->control->op != NT__OP_scan || l->zero.made) && l->index.made;
}

static bool print_return(const loop *l, value next) {
    nt__printer *p = l->p;
    const nt__region *body = nt__control_body(l->control);
    const char *between = "";
    begin_line(p);
    add(p, "\"stablehlo.return\"(");
    if (l->counted) add_numbers(p, "%%%u", next.number);
    if (l->counted) between = ", ";
    for (size_t i = 0; i < l->control->results.count; i++) {
        if (!nt__result_needed(p, l->control, i)) continue;
        add_numbers(p, "%s", between);
        if (is_carry(l, i))
            add_name(p, body->results.items[i]);
        else
            add_numbers(p, "%%%u", l->values[i]);
        between = ", ";
    }
    add(p, ") : (");
    add_list_types(l);
    add(p, ") -> ()");
    return end_line(p, l->site);
}

static bool print_body(loop *l) {
    const nt__region *body = nt__control_body(l->control);
    value counter = {0, true}, next = {0, true};
    if (!print_parameters(l, body, &counter)) return false;
    if (l->counted && !print_start(l, counter)) return false;
    if (!print_slices(l, body) || !nt__print_nodes(l->p, body) || !print_all_stacked(l)) return false;
    if (l->counted) next = print_counter(l->p, l->site, "add", counter, l->one);
    return next.made && print_return(l, next);
}

/* ---- while ------------------------------------------------------------------------------------------------------ */

/* The counter and the buffers as they are at first. */
static bool print_first_values(const loop *l, value *counter) {
    if (l->counted) *counter = print_filled(l->p, l->site, counter_type, 0);
    for (size_t i = l->control->carries; i < l->control->results.count; i++) {
        if (!nt__result_needed(l->p, l->control, i)) continue;
        value buffer = print_filled(l->p, l->site, l->control->results.items[i]->type, 0);
        if (!buffer.made) return false;
        l->values[i] = buffer.number;
    }
    return counter->made;
}

static void add_first_values(const loop *l, value counter) {
    const char *between = "";
    if (l->counted) add_numbers(l->p, "%%%u", counter.number);
    if (l->counted) between = ", ";
    for (size_t i = 0; i < l->control->results.count; i++) {
        if (!nt__result_needed(l->p, l->control, i)) continue;
        add_numbers(l->p, "%s", between);
        if (is_carry(l, i))
            add_name(l->p, l->control->operands.items[i]);
        else
            add_numbers(l->p, "%%%u", l->values[i]);
        between = ", ";
    }
}

/* "%7:3 = "stablehlo.while"(%1, %2) ({" */
static bool print_head(const loop *l, value counter) {
    nt__printer *p = l->p;
    p->number[l->control->owner->id] = p->next++;
    begin_line(p);
    add_numbers(p, "%%%u:%u = \"stablehlo.", p->number[l->control->owner->id], number_results(l));
    add(p, "while");
    add_numbers(p, "\"(");
    add_first_values(l, counter);
    add_numbers(p, ")");
    add(p, " ({");
    return end_line(p, l->site);
}

static bool print_tail(const loop *l) {
    begin_line(l->p);
    add(l->p, "}) : (");
    add_list_types(l);
    add(l->p, ") -> (");
    add_list_types(l);
    add(l->p, ")");
    return end_line(l->p, l->site);
}

static bool print_parts(loop *l) {
    value counter = {0, true};
    if (!print_first_values(l, &counter) || !print_head(l, counter)) return false;
    l->p->depth++;
    bool printed = print_condition(l);
    l->p->depth--;
    if (!printed || !print_text(l, "}, {")) return false;
    l->p->depth++;
    printed = print_body(l);
    l->p->depth--;
    return printed && print_tail(l);
}

static bool print_loop(nt__printer *p, const nt__control *control) {
    loop l = {.p = p, .control = control, .site = control->site, .counted = control->op == NT__OP_scan};
    for (int i = 0; i < control->region_count; i++) l.counted = l.counted || p->needed[control->regions[i]->index->id];
    l.values = nt__alloc(control->results.count, sizeof *l.values);
    bool printed = l.values && print_parts(&l);
    nt__free(l.values);
    return printed;
}

/* ---- if --------------------------------------------------------------------------------------------------------- */

static bool return_results(const loop *l, const nt__region *branch) {
    nt__printer *p = l->p;
    const char *between = "";
    begin_line(p);
    add(p, "\"stablehlo.return\"(");
    for (size_t i = 0; i < l->control->results.count; i++) {
        if (!nt__result_needed(p, l->control, i)) continue;
        add_numbers(p, "%s", between);
        add_name(p, branch->results.items[i]);
        between = ", ";
    }
    add(p, ") : (");
    add_list_types(l);
    add(p, ") -> ()");
    return end_line(p, l->site);
}

static bool print_branch(const loop *l, const nt__region *branch) {
    l->p->depth++;
    bool printed = nt__print_nodes(l->p, branch) && return_results(l, branch);
    l->p->depth--;
    return printed;
}

static bool print_cond(nt__printer *p, const nt__control *control) {
    const loop l = {.p = p, .control = control, .site = control->site};
    p->number[control->owner->id] = p->next++;
    begin_line(p);
    add_numbers(p, "%%%u:%u = \"stablehlo.", p->number[control->owner->id], number_results(&l));
    add(p, "if");
    add_numbers(p, "\"(");
    add_name(p, control->operands.items[0]);
    add_numbers(p, ")");
    add(p, " ({");
    if (!end_line(p, l.site) || !print_branch(&l, control->regions[0]) || !print_text(&l, "}, {") ||
        !print_branch(&l, control->regions[1]))
        return false;
    begin_line(p);
    add(p, "}) : (tensor<i1>) -> (");
    add_list_types(&l);
    add(p, ")");
    return end_line(p, l.site);
}

/* ---- barrier ---------------------------------------------------------------------------------------------------- */

static bool print_barrier(nt__printer *p, const nt__control *control) {
    const loop l = {.p = p, .control = control, .site = control->site};
    const char *between = "";
    p->out->has_barriers = true;
    p->number[control->owner->id] = p->next++;
    begin_line(p);
    add_numbers(p, "%%%u:%u = \"stablehlo.", p->number[control->owner->id], number_results(&l));
    add(p, "optimization_barrier");
    add_numbers(p, "\"(");
    for (size_t i = 0; i < control->results.count; i++) {
        if (!nt__result_needed(p, control, i)) continue;
        add_numbers(p, "%s", between);
        add_name(p, control->operands.items[i]);
        between = ", ";
    }
    add_numbers(p, ")");
    add(p, " : (");
    add_list_types(&l);
    add(p, ") -> (");
    add_list_types(&l);
    add(p, ")");
    return end_line(p, l.site);
}

bool nt__print_control(nt__printer *p, const nt__control *control) {
    switch (control->op) {
    case NT__OP_cond: return print_cond(p, control);
    case NT__OP_barrier: return print_barrier(p, control);
    case NT__OP_remat:
    case NT__OP_custom_gradient: return nt__print_nodes(p, control->regions[0]);
    default: return print_loop(p, control);
    }
}
