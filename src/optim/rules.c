/* What a run asks of a rule or a chain: its states and inputs counted through, and the traced update.
 * Not here: the rules themselves, and which chains are refused (chain.c).
 */
#include <math.h>
#include <string.h>

#include "optim/rules.h"

/* ---- arithmetic ------------------------------------------------------------------------------------------------- */

/* Parameters of 16 bits are updated in f32: in bf16 beta2 = 0.999 is 1, in f16 a second moment of 1e-8 is 0. */
nt_dtype nt__arithmetic_type(nt_dtype dtype) {
    return dtype == NT_F64 ? NT_F64 : NT_F32;
}

static double narrow(nt_dtype dtype, double value) {
    double element = 0;
    nt__element_set(dtype, &element, value);
    return nt__element_get(dtype, &element);
}

double nt__constant(const nt_update *u, int number) {
    return narrow(u->dtype, u->constants[number]);
}

nt_tensor nt__one_minus(const nt_update *u, int number) {
    if (isnan(u->constants[number])) return nt_sub(1, u->numbers[number]);
    return nt_tensor_number(narrow(u->dtype, 1 - nt__constant(u, number)));
}

nt_tensor nt__average(const nt_update *u, nt_tensor state, int number, nt_tensor value) {
    return nt_add(nt_mul(state, u->numbers[number]), nt_mul(value, nt__one_minus(u, number)));
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

static size_t count_states(const nt_rule_kind *kind) {
    size_t count = 0;
    while (count < NT_RULE_MAX_STATES && kind->states[count].name) count++;
    return count;
}

static size_t count_numbers(const nt_rule_kind *kind) {
    size_t count = 0;
    while (count < NT_RULE_MAX_NUMBERS && kind->numbers[count].name) count++;
    return count;
}

bool nt__rule_state(const nt_rule *rule, size_t index, nt__state *out) {
    for (size_t i = 0; i < rule->count; i++) {
        size_t count = count_states(rule->links[i].kind);
        if (index < count) {
            *out = (nt__state){&rule->links[i].kind->states[index], &rule->links[i]};
            return true;
        }
        index -= count;
    }
    return false;
}

size_t nt__rule_state_count(const nt_rule *rule) {
    size_t count = 0;
    for (size_t i = 0; i < rule->count; i++) count += count_states(rule->links[i].kind);
    return count;
}

nt__type nt__state_type(const nt__state *state, const nt__group *group) {
    const nt_rule_state *is = state->state;
    nt_dtype dtype = is->is_count ? NT_I32 : nt__arithmetic_type(group->dtype);
    if (is->is_scalar || is->is_count) return (nt__type){dtype, {0}};
    int64_t length = is->length ? is->length(group->arrays, group->array_count, state->link->numbers) : group->length;
    return (nt__type){dtype, nt_dims(length)};
}

double nt__state_start(const nt__state *state) {
    const nt_rule_state *is = state->state;
    return is->start == NT_START_AT_NUMBER ? state->link->numbers[is->number] : is->value;
}

bool nt__rule_input(const nt_rule *rule, size_t index, nt__named_input *out) {
    for (size_t i = 0; i < rule->count; i++) {
        const nt_rule_link *link = &rule->links[i];
        for (size_t n = 0; n < count_numbers(link->kind); n++) {
            if (!link->kind->numbers[n].is_input || index-- > 0) continue;
            *out = (nt__named_input){link->kind->numbers[n].name, link->numbers[n]};
            return true;
        }
    }
    return false;
}

size_t nt__rule_input_count(const nt_rule *rule) {
    size_t count = 0;
    nt__named_input input;
    while (nt__rule_input(rule, count, &input)) count++;
    return count;
}

/* The first number of that name in the chain. */
static const nt_rule_link *find_number(const nt_rule *rule, const char *name, const nt_rule_number **out) {
    for (size_t i = 0; i < rule->count; i++) {
        const nt_rule_kind *kind = rule->links[i].kind;
        for (size_t n = 0; n < count_numbers(kind); n++) {
            *out = &kind->numbers[n];
            if (strcmp(kind->numbers[n].name, name) == 0) return &rule->links[i];
        }
    }
    return NULL;
}

bool nt__rule_has_number(const nt_rule *rule, const char *name, bool *is_input) {
    const nt_rule_number *number;
    if (!find_number(rule, name, &number)) return false;
    *is_input = number->is_input;
    return true;
}

const char *nt__rule_owner(const nt_rule *rule, const char *name) {
    const nt_rule_number *number;
    const nt_rule_link *link = find_number(rule, name, &number);
    return link ? link->kind->name : NULL;
}

static void print_link(const nt_rule_link *link, bool constants, nt__text *out) {
    size_t printed = 0;
    nt__text_add(out, "%s(", link->kind->name);
    for (size_t i = 0; i < count_numbers(link->kind); i++)
        if (!constants || !link->kind->numbers[i].is_input)
            nt__text_add(out, "%s%s %g", printed++ ? ", " : "", link->kind->numbers[i].name, link->numbers[i]);
    nt__text_add(out, ")");
}

void nt__rule_print(const nt_rule *rule, bool constants, nt__text *out) {
    for (size_t i = 0; i < rule->count; i++) {
        if (i) nt__text_add(out, " > ");
        print_link(&rule->links[i], constants, out);
    }
}

/* ---- the update ------------------------------------------------------------------------------------------------- */

/* A hook of the user's may forget a state, or give it another type: the next step could not take it. */
static void check_state(const nt_rule_kind *kind, size_t index, nt_tensor now, nt_tensor next) {
    const char *name = kind->states[index].name;
    if (!nt__tensor_made(next)) {
        nt__trace_fail((nt_site){0}, kind->name, "its update set no next_state[%zu], the state '%s'", index, name);
        return;
    }
    if (nt_dtype_of(next) == nt_dtype_of(now) && nt_shape_equal(nt_shape_of(next), nt_shape_of(now))) return;
    char text[NT__TYPE_TEXT], other[NT__TYPE_TEXT];
    nt__trace_fail((nt_site){0}, kind->name, "its update made %s of the state '%s', which is %s",
                   nt__type_text((nt__type){nt_dtype_of(next), nt_shape_of(next)}, text), name,
                   nt__type_text((nt__type){nt_dtype_of(now), nt_shape_of(now)}, other));
}

static void check_update(const nt_rule_kind *kind, const nt_update *u, nt_tensor dx) {
    char text[NT__TYPE_TEXT];
    for (size_t i = 0; i < count_states(kind); i++) check_state(kind, i, u->state[i], u->next_state[i]);
    if (!nt__tensor_made(dx))
        nt__trace_fail((nt_site){0}, kind->name, "its update returned no tensor");
    else if (nt_dtype_of(dx) != u->dtype || !nt_shape_equal(nt_shape_of(dx), nt_shape_of(u->x)))
        nt__trace_fail((nt_site){0}, kind->name, "its update returned %s; it must be as the parameters are",
                       nt__type_text((nt__type){nt_dtype_of(dx), nt_shape_of(dx)}, text));
}

/* The numbers of a rule as tensors and as C numbers. */
typedef struct number_lists {
    nt_tensor tensors[NT_RULE_MAX_NUMBERS];
    double constants[NT_RULE_MAX_NUMBERS];
} number_lists;

/* `inputs` are those of this rule; returns how many it has. */
static size_t list_numbers(const nt_rule_link *link, const nt_tensor *inputs, nt_update *u, number_lists *lists) {
    size_t used = 0;
    for (size_t i = 0; i < count_numbers(link->kind); i++) {
        bool is_input = link->kind->numbers[i].is_input;
        lists->tensors[i] = is_input ? nt_convert(inputs[used++], u->dtype) : nt_tensor_number(link->numbers[i]);
        lists->constants[i] = is_input ? NAN : link->numbers[i];
    }
    u->numbers = lists->tensors;
    u->constants = lists->constants;
    return used;
}

static nt_tensor apply_link(const nt_rule_link *link, nt_update *u) {
    for (size_t i = 0; i < count_states(link->kind); i++) u->next_state[i] = (nt_tensor){0};
    nt_tensor dx = link->kind->update(u);
    check_update(link->kind, u, dx);
    return dx;
}

/* What all rules of a chain see. */
static nt_update begin_update(const nt__step *step) {
    nt_dtype dtype = nt__arithmetic_type(nt_dtype_of(step->x));
    return (nt_update){.dtype = dtype,
                       .x = nt_convert(step->x, dtype),
                       .arrays = step->group->arrays,
                       .array_count = step->group->array_count,
                       .bundles = step->group->bundles,
                       .bundle_count = step->group->bundle_count};
}

nt_tensor nt__rule_apply(const nt_rule *rule, const nt__step *step) {
    nt_update u = begin_update(step);
    nt_tensor anchor = step->anchor ? nt_convert(*step->anchor, u.dtype) : u.x;
    size_t state = 0, input = 0;
    u.g = nt_convert(step->g, u.dtype);
    u.eta = nt_convert(step->eta, u.dtype);
    u.anchor = step->anchor ? &anchor : NULL;
    for (size_t i = 0; i < rule->count; i++) {
        const nt_rule_kind *kind = rule->links[i].kind;
        number_lists numbers;
        input += list_numbers(&rule->links[i], step->inputs + input, &u, &numbers);
        u.state = step->states + state;
        u.next_state = step->next_states + state;
        u.places = kind->uses_arrays ? step->places : NULL;
        u.decayed = kind->uses_decayed ? step->decayed : NULL;
        u.g = apply_link(&rule->links[i], &u);
        state += count_states(kind);
    }
    return nt_convert(nt_sub(u.x, u.g), nt_dtype_of(step->x));
}

static size_t count_inputs(const nt_rule_kind *kind) {
    size_t count = 0;
    for (size_t i = 0; i < count_numbers(kind); i++) count += kind->numbers[i].is_input;
    return count;
}

nt_tensor nt__rule_evaluated(const nt_rule *rule, const nt__step *step) {
    const nt_rule_link *last = &rule->links[rule->count - 1];
    size_t states = nt__rule_state_count(rule), inputs = nt__rule_input_count(rule);
    nt_update u = begin_update(step);
    number_lists numbers;
    list_numbers(last, step->inputs + inputs - count_inputs(last->kind), &u, &numbers);
    u.state = step->states + states - count_states(last->kind);
    nt_tensor x = last->kind->evaluated(&u);
    char text[NT__TYPE_TEXT];
    if (!nt__tensor_made(x))
        nt__trace_fail((nt_site){0}, last->kind->name, "its evaluated returned no tensor");
    else if (nt_dtype_of(x) != u.dtype || !nt_shape_equal(nt_shape_of(x), nt_shape_of(u.x)))
        nt__trace_fail((nt_site){0}, last->kind->name, "its evaluated returned %s; it must be as the parameters are",
                       nt__type_text((nt__type){nt_dtype_of(x), nt_shape_of(x)}, text));
    return nt_convert(x, nt_dtype_of(step->x));
}
