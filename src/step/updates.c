/* Programs that update: what a rule is applied to in a trace, the optimizer program, and the parameters that
 * evaluations have where a rule averages. The step of manual mode (manual.c) updates with the same.
 */
#include "step/tracing.h"

/* ---- optimizer -------------------------------------------------------------------------------------------------- */

static void input_states(nt__tracing *t, size_t g, nt_tensor *states) {
    const nt__group *group = &t->traced->layout.groups[g];
    const nt__training *training = &t->traced->training[g];
    nt__state state;
    for (size_t s = 0; nt__rule_state(&training->rule, s, &state); s++)
        states[s] = nt__tracing_input(t, NT__ROLE_STATE, (int)(training->first_state + s), group->name,
                                      state.state->name, nt__state_type(&state, group));
}

static void input_scalars(nt__tracing *t, size_t g, nt_tensor *inputs) {
    const nt__group *group = &t->traced->layout.groups[g];
    const nt__training *training = &t->traced->training[g];
    nt__named_input input;
    for (size_t i = 0; nt__rule_input(&training->rule, i, &input); i++)
        inputs[i] = nt__tracing_input(t, NT__ROLE_INPUT, (int)(training->first_input + i), input.name, group->name,
                                      (nt__type){nt__arithmetic_type(group->dtype), {0}});
}

/* The step of a group, in place: x and g are set. */
static void input_decay(nt__tracing *t, size_t g, nt_tensor *decayed, nt_tensor *anchor, nt__step *step) {
    const nt__group *group = &t->traced->layout.groups[g];
    const nt__training *training = &t->traced->training[g];
    if (training->spared_count) {
        *decayed = nt__tracing_input(t, NT__ROLE_DECAYED, (int)g, "decayed", group->name,
                                     (nt__type){NT_BOOL, nt_dims(group->length)});
        step->decayed = decayed;
    }
    if (training->anchor.kind != NT_ANCHOR_ZERO) {
        *anchor = nt__tracing_input(t, NT__ROLE_ANCHOR, (int)g, "anchor", group->name, nt__group_type(group));
        step->anchor = anchor;
    }
}

/* The tables by which a rule sums over each array. */
static void input_places(nt__tracing *t, size_t g, nt_tensor *places, nt__step *step) {
    const nt__group *group = &t->traced->layout.groups[g];
    if (!nt__rule_uses_arrays(&t->traced->training[g].rule)) return;
    for (int i = 0; i < NT__PLACE_TABLES; i++)
        places[i] = nt__tracing_input(t, NT__ROLE_PLACES, (int)g * NT__PLACE_TABLES + i, "places", group->name,
                                      nt__place_type(group, i));
    step->places = places;
}

void nt__update_begin(nt__tracing *t, size_t g, nt__update *update) {
    const nt__group *group = &t->traced->layout.groups[g];
    nt__step *step = &update->step;
    *step = (nt__step){.x = t->parameters[g],
                       .inputs = update->inputs,
                       .states = update->states,
                       .next_states = update->next,
                       .group = group};
    input_states(t, g, update->states);
    step->eta =
        nt__tracing_input(t, NT__ROLE_RATE, (int)g, "learning_rate", group->name, (nt__type){group->dtype, {0}});
    input_scalars(t, g, update->inputs);
    input_decay(t, g, &update->decayed, &update->anchor, step);
    input_places(t, g, update->places, step);
}

void nt__update_add(nt__tracing *t, size_t g, size_t place, nt_tensor x, const nt_tensor *states,
                    const nt_tensor *taken, nt__updated *out) {
    nt__state state;
    out->results[place] = (nt__result){"parameters", x, t->parameters[g]};
    out->ports[place] = (nt__port){.name = "parameters", .purpose = NT__PARAMETERS};
    for (size_t s = 0; nt__rule_state(&t->traced->training[g].rule, s, &state); s++) {
        size_t at = out->groups + out->states++;
        out->results[at] = (nt__result){state.state->name, states[s], taken[s]};
        out->ports[at] = (nt__port){.name = state.state->name, .purpose = NT__OPTIMIZER_STATE};
    }
}

/* The optimizer's update of one group, the `place`-th that is trained. */
static void update_group(nt__tracing *t, size_t g, size_t place, nt_tensor gradient, nt__updated *out) {
    nt__update update;
    nt__update_begin(t, g, &update);
    update.step.g = gradient;
    nt_tensor x = nt__rule_apply(&t->traced->training[g].rule, &update.step);
    nt__update_add(t, g, place, x, update.next, update.states, out);
}

/* The accumulators of the trained groups, one after the other; which groups these are. */
static size_t input_gradients(nt__tracing *t, nt_tensor *gradients, size_t *trained) {
    const nt__traced *traced = t->traced;
    size_t count = 0;
    for (size_t g = 0; g < traced->layout.group_count; g++) {
        const nt__group *group = &traced->layout.groups[g];
        if (traced->training[g].frozen) continue;
        gradients[count] =
            nt__tracing_input(t, NT__ROLE_ACCUMULATOR, (int)g, "accumulator", group->name, nt__gradients_type(group));
        trained[count++] = g;
    }
    return count;
}

nt_tensor nt__clip_gradients(const nt__task *task, nt_tensor *gradients, size_t count) {
    double threshold = task->settings.gradient_clip_norm;
    if (!(threshold > 0) && !task->settings.gradient_norm) return (nt_tensor){0};
    nt_tensor norm = nt__global_norm(gradients, count);
    nt__clip_by_global_norm(gradients, count, norm, threshold);
    return norm;
}

/* Clips by the norm of all gradients, which is the last result where it is asked for. */
static void clip(const nt__traced *traced, nt_tensor *gradients, nt__updated *out) {
    nt_tensor norm = nt__clip_gradients(traced->task, gradients, out->groups);
    if (!traced->task->settings.gradient_norm) return;
    size_t last = out->groups + traced->state_count;
    out->results[last] = (nt__result){.name = "grad_norm", .value = norm};
    out->ports[last] = (nt__port){.name = "grad_norm", .purpose = NT__OUTPUT};
}

/* Of a weighted loss: the sums of the step over its count. A step that counts nothing has gradients of zero. */
static void divide_by_count(const nt__traced *traced, nt_tensor *gradients, size_t groups) {
    if (!traced->weighted) return;
    nt_tensor count = nt__input(NT__ROLE_COUNT, 0, "count", (nt__type){traced->count_dtype, {0}});
    nt_tensor some = nt_where(nt_greater(count, 0), count, 1);
    for (size_t g = 0; g < groups; g++)
        gradients[g] = nt_div(gradients[g], nt_convert(some, nt_dtype_of(gradients[g])));
}

nt_status nt__trace_optimizer(nt__traced *traced) {
    nt__tracing t;
    nt_status status = nt__tracing_begin(&t, traced, true);
    if (status != NT_OK) return status;
    size_t groups = traced->layout.group_count;
    size_t most = groups + traced->state_count + 1;
    nt__updated out = {.results = nt__arena_alloc(&t.arena, most, sizeof *out.results),
                       .ports = nt__arena_alloc(&t.arena, most, sizeof *out.ports)};
    nt_tensor *gradients = nt__arena_alloc(&t.arena, groups, sizeof *gradients);
    size_t *trained = nt__arena_alloc(&t.arena, groups, sizeof *trained);
    nt__text rule = {0};
    nt__rules_print(traced, true, &rule);
    const char *threshold = nt__arena_sprintf(&t.arena, "%g", traced->task->settings.gradient_clip_norm);
    if (!out.results || !out.ports || !gradients || !trained || rule.failed || !threshold) {
        nt__text_free(&rule);
        nt__tracing_end(&t);
        return NT_OUT_OF_MEMORY;
    }
    out.groups = input_gradients(&t, gradients, trained);
    divide_by_count(traced, gradients, out.groups);
    clip(traced, gradients, &out);
    for (size_t i = 0; i < out.groups; i++)
        update_group(&t, trained[i], i, nt__gradients_of(&traced->layout.groups[trained[i]], gradients[i]), &out);
    nt__part parts[] = {{"gradient_clip_norm", threshold}, {"rule", rule.data}};
    status = nt__tracing_finish(&t, "optimizer", out.results, out.ports,
                                out.groups + out.states + traced->task->settings.gradient_norm, parts, 2,
                                &traced->programs.optimizer);
    nt__text_free(&rule);
    nt__tracing_end(&t);
    return status;
}

/* ---- parameters to evaluate with -------------------------------------------------------------------------------- */

static void average_group(nt__tracing *t, size_t g, nt__result *out) {
    nt_tensor states[NT__MAX_STATES], inputs[NT__MAX_INPUTS];
    nt__step step = {.x = t->parameters[g], .inputs = inputs, .states = states, .group = &t->traced->layout.groups[g]};
    input_states(t, g, states);
    input_scalars(t, g, inputs);
    *out = (nt__result){.name = "averages", .value = nt__rule_evaluated(&t->traced->training[g].rule, &step)};
}

static bool any_averages(const nt__traced *traced) {
    for (size_t g = 0; g < traced->layout.group_count; g++)
        if (nt__rule_averages(&traced->training[g].rule)) return true;
    return false;
}

/* Of all groups whose rule averages; where none does there is no program. */
nt_status nt__trace_average(nt__traced *traced) {
    if (!any_averages(traced)) return NT_OK;
    nt__tracing t;
    nt_status status = nt__tracing_begin(&t, traced, false);
    if (status != NT_OK) return status;
    size_t count = 0, groups = traced->layout.group_count;
    nt__result *results = nt__arena_alloc(&t.arena, groups, sizeof *results);
    nt__port *ports = nt__arena_alloc(&t.arena, groups, sizeof *ports);
    if (!results || !ports) status = NT_OUT_OF_MEMORY;
    for (size_t g = 0; status == NT_OK && g < groups; g++) {
        if (!nt__rule_averages(&traced->training[g].rule)) continue;
        ports[count] = (nt__port){.name = "averages", .purpose = NT__PARAMETERS};
        average_group(&t, g, &results[count++]);
    }
    if (status == NT_OK)
        status = nt__tracing_finish(&t, "average", results, ports, count, NULL, 0, &traced->programs.average);
    nt__tracing_end(&t);
    return status;
}
