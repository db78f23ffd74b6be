/* Loops: scan over the slices of sequences; while, which has no gradient. Not here: that of scan (loop_gradient.c). */
#include "graph/loop.h"

/* ---- lists of the user's ---------------------------------------------------------------------------------------- */

bool nt__count_values(const nt_tensor *list, const char *name, const char *what, nt_site site, size_t *count) {
    *count = 0;
    while (*count < NT_MAX_VALUES && list[*count].trace) ++*count;
    for (size_t i = *count; i < NT_MAX_VALUES; i++) {
        if (!list[i].trace) continue;
        nt__trace_fail(site, what, "%s[%zu] is set and %s[%zu] is not: a list ends before the first that is not set",
                       name, i, name, *count);
        return false;
    }
    return true;
}

nt_values nt__failed_values(void) {
    nt_values values;
    for (int i = 0; i < NT_MAX_VALUES; i++) values.at[i] = nt__failed();
    return values;
}

static nt_loop failed_loop(void) {
    nt_loop loop = {.index = nt__failed()};
    for (int i = 0; i < NT_MAX_VALUES; i++) loop.carry[i] = loop.inputs[i] = loop.outputs[i] = loop.index;
    return loop;
}

/* ---- carries ---------------------------------------------------------------------------------------------------- */

/* Parameters for `count` tensors of outside, as the body is to see them. */
static bool take(nt__region *region, nt__parameter_kind kind, const nt_tensor *from, size_t count, nt_tensor *to) {
    for (size_t i = 0; i < count; i++) {
        const nt__node *parameter = nt__region_argument(region, kind, from[i]);
        if (!parameter) return false;
        to[i] = nt__tensor_of(parameter);
    }
    return true;
}

static bool carry_fits(nt_tensor now, nt_tensor next, size_t index, const char *name, const char *what, nt_site site) {
    const nt__node *before = nt__node_of(now, site, what), *after = nt__node_of(next, site, what);
    if (!before || !after) return false;
    if (nt__type_equal(before->type, after->type)) return true;
    char one[NT__TYPE_TEXT], other[NT__TYPE_TEXT];
    nt__trace_fail(site, what, "carry[%zu] is %s and '%s' returns %s for it: it must keep its type", index,
                   nt__type_text(before->type, one), name, nt__type_text(after->type, other));
    return false;
}

/* The next carry becomes the results of the region. */
static bool return_carry(nt__region *region, const nt_tensor *now, const nt_tensor *next, size_t count,
                         const char *name, const char *what, nt_site site) {
    size_t returned;
    if (!nt__count_values(next, "carry", what, site, &returned)) return false;
    if (returned != count) {
        nt__trace_fail(site, what, "the carry has %zu tensors and '%s' returns %zu", count, name, returned);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        if (!carry_fits(now[i], next[i], i, name, what, site) || !nt__region_return(region, next[i])) return false;
    return true;
}

/* ---- scan: what is asked for ------------------------------------------------------------------------------------ */

typedef struct scan {
    nt_loop_body body;
    const char *name;
    void *context;
    const nt_scan_options *options;
    nt_site site;
    size_t carries, inputs, outputs;
    int64_t length;
    nt__control *control;
} scan;

static bool take_length(scan *s, int64_t length, size_t input) {
    if (s->length >= 0 && length != s->length) {
        if (input > 0)
            nt__trace_fail(s->site, "scan", "inputs[%zu] has %lld slices and inputs[0] %lld", input, (long long)length,
                           (long long)s->length);
        else
            nt__trace_fail(s->site, "scan", "inputs[0] has %lld slices and the length is given as %lld",
                           (long long)length, (long long)s->length);
        return false;
    }
    s->length = length;
    return true;
}

enum { LONGEST_UNROLLED = 1024 };

static bool length_is_right(const scan *s) {
    if (s->length < 0)
        nt__trace_fail(s->site, "scan", "there are no inputs to cut: .length says how many iterations, at least 1");
    else if (s->length > INT32_MAX)
        nt__trace_fail(s->site, "scan", "a length of %lld: it may be %d", (long long)s->length, INT32_MAX);
    else if (s->options->unroll && s->length > LONGEST_UNROLLED)
        nt__trace_fail(s->site, "scan",
                       "a length of %lld: with .unroll, which puts a copy of the body into the program for each "
                       "iteration, it may be %d; leave .unroll out",
                       (long long)s->length, LONGEST_UNROLLED);
    else
        return true;
    return false;
}

static bool find_length(scan *s) {
    s->length = s->options->length > 0 ? s->options->length : -1;
    for (size_t i = 0; i < s->inputs; i++) {
        const nt__node *node = nt__node_of(s->options->inputs[i], s->site, "scan");
        if (!node) return false;
        if (node->type.shape.rank == 0) {
            nt__trace_fail(s->site, "scan", "inputs[%zu] is a scalar: it has no axis to be cut along", i);
            return false;
        }
        if (!take_length(s, node->type.shape.dims[0], i)) return false;
    }
    return length_is_right(s);
}

static bool direction_is_known(const scan *s) {
    nt_direction direction = s->options->direction;
    if (direction == NT_FORWARD || direction == NT_BACKWARD) return true;
    nt__trace_fail(s->site, "scan", "the direction is %d: give NT_FORWARD or NT_BACKWARD", (int)direction);
    return false;
}

static bool is_right(scan *s) {
    return nt__trace_under_way(s->site, "scan") && nt__trace_right() &&
           nt__trace_given((const void *)(uintptr_t)s->body, s->site, "scan", "body") &&
           nt__count_values(s->options->carry, "carry", "scan", s->site, &s->carries) &&
           nt__count_values(s->options->inputs, "inputs", "scan", s->site, &s->inputs) && find_length(s) &&
           direction_is_known(s);
}

/* ---- scan: the body --------------------------------------------------------------------------------------------- */

static bool trace_body(scan *s, nt__region *region) {
    nt_loop now = {.index = nt__tensor_of(region->index)};
    if (!take(region, NT__CARRY, s->options->carry, s->carries, now.carry) ||
        !take(region, NT__SLICE, s->options->inputs, s->inputs, now.inputs))
        return false;
    nt_loop next = s->body(now, s->context);
    if (!return_carry(region, now.carry, next.carry, s->carries, s->name, "scan", s->site) ||
        !nt__count_values(next.outputs, "outputs", "scan", s->site, &s->outputs))
        return false;
    for (size_t i = 0; i < s->outputs; i++)
        if (!nt__region_return(region, next.outputs[i])) return false;
    return true;
}

static bool trace_scan(scan *s) {
    s->control = nt__control_begin(NT__OP_scan, s->site);
    if (!s->control) return false;
    s->control->carries = s->carries;
    s->control->length = s->length;
    s->control->backward = s->options->direction == NT_BACKWARD;
    nt__region *region = nt__region_enter(s->control, NULL);
    if (!region) return false;
    bool right = trace_body(s, region);
    nt__region_leave(region);
    return right;
}

static nt_loop results_of(const scan *s) {
    nt_loop all = {0};
    for (size_t i = 0; i < s->carries; i++) all.carry[i] = nt__control_result(s->control, i);
    for (size_t i = 0; i < s->outputs; i++) all.outputs[i] = nt__control_result(s->control, s->carries + i);
    return all;
}

/* ---- scan: without a loop --------------------------------------------------------------------------------------- */

/* The slice at `index`. */
static nt_tensor slice_at(nt_tensor x, int64_t index, nt_site site) {
    return nt_squeeze_at(nt_range_at(x, 0, index, index + 1, site), nt_dims(0), site);
}

/* What the parameters of the body are at one iteration. */
static bool bind(const scan *s, int64_t index, const nt_tensor *carry, nt__node **map) {
    const nt__region *body = s->control->regions[0];
    nt_tensor number = nt__filled("scan", (nt__type){NT_I32, {0}}, (double)index, s->site);
    map[body->index->position] = nt__node_of(number, s->site, "scan");
    for (size_t i = 0; i < body->parameters.count; i++) {
        const nt__node *parameter = body->parameters.items[i];
        nt_tensor x = nt__tensor_of(s->control->operands.items[parameter->attributes.index]);
        if (parameter->attributes.choice == NT__CARRY) x = carry[parameter->attributes.index];
        if (parameter->attributes.choice == NT__SLICE) x = slice_at(x, index, s->site);
        if (!(map[parameter->position] = nt__node_of(x, s->site, "scan"))) return false;
    }
    return map[body->index->position] != NULL;
}

static bool run_once(const scan *s, int64_t index, nt_tensor *carry, nt_tensor *outputs) {
    const nt__region *body = s->control->regions[0];
    nt__node **map = nt__region_map(body);
    if (!map || !bind(s, index, carry, map) || !nt__region_copy(body, nt__trace_current()->region, map)) return false;
    for (size_t i = 0; i < s->carries; i++) carry[i] = nt__tensor_of(map[body->results.items[i]->position]);
    for (size_t i = 0; i < s->outputs; i++)
        outputs[i] = nt__tensor_of(map[body->results.items[s->carries + i]->position]);
    return true;
}

/* Stacked, and what no iteration made. */
static nt_tensor stack(const scan *s, const nt_tensor *outputs, size_t index) {
    nt__type type = s->control->regions[0]->results.items[s->carries + index]->type;
    if (s->length > 0) return nt_stack_at(outputs, (int)s->length, 0, s->site);
    return nt__stack_type(&type, 0, s->site) ? nt__filled("scan", type, 0, s->site) : nt__failed();
}

static nt_loop unroll(const scan *s) {
    nt_loop all = {0};
    size_t length = (size_t)s->length;
    nt_tensor *outputs = nt__trace_alloc(s->site, "scan", length * s->outputs, sizeof *outputs);
    nt_tensor once[NT_MAX_VALUES];
    if (!outputs) return failed_loop();
    for (size_t i = 0; i < s->carries; i++) all.carry[i] = nt__tensor_of(s->control->operands.items[i]);
    for (size_t i = 0; i < length; i++) {
        size_t index = s->control->backward ? length - 1 - i : i;
        if (!run_once(s, (int64_t)index, all.carry, once)) return failed_loop();
        for (size_t k = 0; k < s->outputs; k++) outputs[k * length + index] = once[k];
    }
    for (size_t k = 0; k < s->outputs; k++) all.outputs[k] = stack(s, outputs + k * length, k);
    return all;
}

nt_loop nt_scan_at(nt_loop_body body, const char *name, void *context, nt_scan_options options, nt_site site) {
    scan s = {.body = body, .name = name, .context = context, .options = &options, .site = site};
    if (!is_right(&s) || !trace_scan(&s)) return failed_loop();
    if (options.unroll || s.length == 0) return unroll(&s);
    return nt__control_end(s.control) ? results_of(&s) : failed_loop();
}

/* ---- while ------------------------------------------------------------------------------------------------------ */

typedef struct repetition {
    nt_loop_condition condition;
    nt_loop_body body;
    const char *name;
    void *context;
    nt_site site;
    size_t carries;
    nt__control *control;
} repetition;

/* The carry as a further region sees it. */
static bool take_carry(const repetition *w, nt__region *region, nt_loop *now) {
    now->index = nt__tensor_of(region->index);
    for (size_t i = 0; i < w->carries; i++) {
        const nt__node *parameter = nt__region_parameter(region, NT__CARRY, i, w->control->operands.items[i]->type);
        if (!parameter) return false;
        now->carry[i] = nt__tensor_of(parameter);
    }
    return true;
}

static bool trace_condition(const repetition *w, nt__region *region) {
    nt_loop now = {0};
    if (!take_carry(w, region, &now)) return false;
    nt_tensor goes_on = w->condition(now, w->context);
    const nt__node *node = nt__node_of(goes_on, w->site, "while");
    if (!node) return false;
    if (node->type.dtype == NT_BOOL && node->type.shape.rank == 0) return nt__region_return(region, goes_on);
    char text[NT__TYPE_TEXT];
    nt__trace_fail(w->site, "while", "the condition must be a bool scalar, got %s", nt__type_text(node->type, text));
    return false;
}

static bool trace_repeated(const repetition *w, nt__region *region) {
    nt_loop now = {0};
    if (!take_carry(w, region, &now)) return false;
    nt_loop next = w->body(now, w->context);
    if (next.outputs[0].trace) {
        nt__trace_fail(w->site, "while", "'%s' returns outputs: only a scan, whose length is known, can stack them",
                       w->name);
        return false;
    }
    return return_carry(region, now.carry, next.carry, w->carries, w->name, "while", w->site);
}

static bool trace_region(const repetition *w, bool (*trace)(const repetition *w, nt__region *region)) {
    nt__region *region = nt__region_enter(w->control, NULL);
    if (!region) return false;
    bool right = trace(w, region);
    nt__region_leave(region);
    return right;
}

static bool trace_while(repetition *w, const nt_values *carry) {
    w->control = nt__control_begin(NT__OP_while, w->site);
    if (!w->control) return false;
    w->control->carries = w->carries;
    for (size_t i = 0; i < w->carries; i++)
        if (!nt__control_operand(w->control, carry->at[i])) return false;
    return trace_region(w, trace_condition) && trace_region(w, trace_repeated) && nt__control_end(w->control);
}

nt_loop nt_while_at(nt_loop_condition condition, nt_loop_body body, const char *name, void *context, nt_values carry,
                    nt_site site) {
    repetition w = {.condition = condition, .body = body, .name = name, .context = context, .site = site};
    bool right = nt__trace_under_way(site, "while") && nt__trace_right() &&
                 nt__trace_given((const void *)(uintptr_t)condition, site, "while", "condition") &&
                 nt__trace_given((const void *)(uintptr_t)body, site, "while", "body") &&
                 nt__count_values(carry.at, "carry", "while", site, &w.carries) && trace_while(&w, &carry);
    if (!right) return failed_loop();
    nt_loop last = {0};
    for (size_t i = 0; i < w.carries; i++) last.carry[i] = nt__control_result(w.control, i);
    return last;
}

void nt__gradient_while(const nt__backward *b, nt_tensor *out) {
    (void)out;
    nt__trace_fail(b->site, "while",
                   "a loop whose length depends on values has no gradient: nt_scan with a fixed length has one, and "
                   "nt_stop_gradient of what goes in or comes out says that none is wanted");
}

/* ---- for keys of random numbers --------------------------------------------------------------------------------- */

static const nt__region *next_loop(const nt__region *region) {
    while (region && !region->index) region = region->outer;
    return region;
}

size_t nt__trace_loops(void) {
    size_t count = 0;
    const nt__graph *graph = nt__trace_current();
    for (const nt__region *r = next_loop(graph ? graph->region : NULL); r; r = next_loop(r->outer)) count++;
    return count;
}

nt_tensor nt__trace_iteration(size_t loop) {
    size_t inside = nt__trace_loops() - 1 - loop;
    const nt__region *region = next_loop(nt__trace_current()->region);
    while (inside-- > 0) region = next_loop(region->outer);
    return nt__tensor_of(region->index);
}
