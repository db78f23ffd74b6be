/* Rules that look at each array, by the number of arrays: the time to compile the optimizer program and that of a step.
 * The arrays have the same elements in all, as weights and biases of equal layers, or each of another shape; a rule's
 * program takes equal arrays together, or each by itself. Not here: the gradient program, the loop around them.
 *
 *     array_forms [ROUNDS [MOST_ARRAYS]]       the plugin is NITRO_PLUGIN, as everywhere
 */
#include <math.h>

#include "bench.h"
#include "base/files.h"
#include "optim/rules.h"

enum { ELEMENTS = 1 << 20 };
enum { ROLE_PARAMETERS, ROLE_GRADIENT, ROLE_RATE, ROLE_STATE, ROLE_INPUT, ROLE_IDS, ROLE_PLACES };

/* ---- other ways to a trust ratio than nitro's ---------------------------------------------------------------------
 */

static nt_tensor ids; /* of the trace under way: the array of each element */

static nt_tensor ratio_of(nt_tensor size, nt_tensor step) {
    nt_tensor known = nt_and(nt_greater(size, 0), nt_greater(step, 0));
    return nt_where(known, nt_div(size, nt_where(known, step, 1)), 1);
}

/* Sums are scattered by the index of each element's array, and ratios are taken by it. */
static nt_tensor indexed_ratio(const nt_update *u, nt_tensor direction) {
    nt_tensor zeros = nt_full(u->dtype, nt_dims((int64_t)u->array_count), 0);
    nt_tensor size = nt_sqrt(nt_scatter_add(zeros, ids, nt_square(u->x), 0));
    nt_tensor step = nt_sqrt(nt_scatter_add(zeros, ids, nt_square(direction), 0));
    return nt_take(ratio_of(size, step), ids, 0);
}

/* A slice for each bundle of arrays, or for each array where the bundles are split. */
static nt_tensor sliced_ratio(const nt_update *u, nt_tensor direction) {
    nt__sheet sheet = nt__sheet_new(u);
    for (size_t i = 0; i < u->bundle_count; i++) {
        const nt__bundle *bundle = &u->bundles[i];
        nt_shape rows = nt_dims(bundle->repeats, bundle->length);
        nt_tensor x = nt_reshape_at(nt__bundle_take(bundle, u->x), rows, NT_SITE);
        nt_tensor d = nt_reshape_at(nt__bundle_take(bundle, direction), rows, NT_SITE);
        nt_tensor ratio = ratio_of(nt_sqrt(nt_sum(nt_square(x), 1)), nt_sqrt(nt_sum(nt_square(d), 1)));
        nt__sheet_put(&sheet, bundle, nt_broadcast(nt_reshape(ratio, bundle->repeats, 1), rows));
    }
    return nt__sheet_done(&sheet);
}

static nt_tensor scaled_update(nt_update *u, nt_tensor (*ratio)(const nt_update *, nt_tensor)) {
    nt_tensor m = u->next_state[0] = nt__average(u, u->state[0], 0, u->g);
    nt_tensor v = u->next_state[1] = nt__average(u, u->state[1], 1, nt_square(u->g));
    nt_tensor direction = nt_div(m, nt_add(nt_sqrt(v), 1e-6));
    u->next_state[2] = nt_mul(u->state[2], u->numbers[0]);
    return nt_mul(u->eta, nt_mul(ratio(u, direction), direction));
}

static nt_tensor indexed_update(nt_update *u) {
    return scaled_update(u, indexed_ratio);
}

static nt_tensor sliced_update(nt_update *u) {
    return scaled_update(u, sliced_ratio);
}

#define LAMB_PARTS                                                                                               \
    .numbers = {{.name = "beta1", .range = NT_BETWEEN_0_AND_1}, {.name = "beta2", .range = NT_BETWEEN_0_AND_1}}, \
    .states = {{.name = "m"}, {.name = "v"}, {.name = "power1", .is_scalar = true}}, .uses_rate = true

static const nt_rule_kind indexed = {.name = "indexed LAMB", LAMB_PARTS, .update = indexed_update};
static const nt_rule_kind sliced = {.name = "sliced LAMB", LAMB_PARTS, .update = sliced_update};

static nt_rule indexed_rule(void) {
    return nt_rule_of(&indexed, 0.9, 0.999);
}

static nt_rule sliced_rule(void) {
    return nt_rule_of(&sliced, 0.9, 0.999);
}

/* ---- the forms -------------------------------------------------------------------------------------------------- */

static nt_rule adam_rule(void) {
    return nt_adam();
}

static nt_rule lamb_rule(void) {
    return nt_lamb();
}

static nt_rule adafactor_rule(void) {
    return nt_adafactor(.factored_from = 8);
}

static nt_rule muon_rule(void) {
    return nt_muon();
}

typedef struct form {
    const char *name;
    nt_rule (*rule)(void);
    bool apart;                        /* each array by itself, also where some are equal */
    size_t most_equal, most_different; /* arrays; beyond that a compile or a step would take minutes */
} form;

static const form forms[] = {
    {"Adam", adam_rule, false, 1000, 1000},
    {"LAMB", lamb_rule, false, 1000, 1000},
    {"LAMB, an index for each element", indexed_rule, false, 1000, 1000},
    {"LAMB, equal arrays together", sliced_rule, false, 1000, 100},
    {"LAMB, a slice for each array", sliced_rule, true, 100, 100},
    {"Adafactor", adafactor_rule, false, 1000, 100},
    {"Muon", muon_rule, false, 1000, 100},
};
enum { FORMS = sizeof forms / sizeof *forms };

/* ---- the arrays ------------------------------------------------------------------------------------------------- */

/* Weight, bias, weight, bias, ...: of equal layers, or of layers half to one and a half times as wide in no order. */
static nt__layout layout_of(size_t arrays, bool equal) {
    nt__leaf *leaves = room(arrays, sizeof *leaves);
    nt__layout layout;
    int64_t rows = (int64_t)sqrt(2.0 * ELEMENTS / (double)arrays);
    char path[] = "array";
    for (size_t i = 0; i < arrays; i++) {
        int64_t columns = equal ? rows : rows / 2 + (int64_t)(i / 2 * 7919 % 1009) % rows;
        leaves[i] = (nt__leaf){.path = path, .type = {NT_F32, i % 2 ? nt_dims(columns) : nt_dims(rows, columns)}};
    }
    must(nt__layout_build(leaves, arrays, NULL, &layout));
    nt__free(leaves);
    return layout;
}

static nt__bundle *split_bundles(const nt__group *group) {
    nt__bundle *bundles = room(group->array_count, sizeof *bundles);
    for (size_t i = 0; i < group->array_count; i++) {
        const nt_rule_array *a = &group->arrays[i];
        bundles[i] =
            (nt__bundle){.shape = a->shape, .length = a->length, .repeats = 1, .start = a->offset, .period = a->length};
    }
    return bundles;
}

/* ---- a program -------------------------------------------------------------------------------------------------- */

enum { MOST_ARGUMENTS = 4 + NT__PLACE_TABLES + NT__MAX_STATES + NT__MAX_INPUTS };

typedef struct program {
    nt__printed printed;
    nt__result results[1 + NT__MAX_STATES];
    nt__type types[1 + NT__MAX_STATES];
    size_t result_count;
    nt__executable *executable;
    nt__executable_memory memory;
    nt__buffer buffers[MOST_ARGUMENTS];
    nt__buffer *arguments[MOST_ARGUMENTS], *slots[1 + NT__MAX_STATES], *scalar;
    double compile_seconds, *seconds;
} program;

static void add_result(program *p, const char *name, nt_tensor value, nt_tensor takes) {
    p->types[p->result_count] = (nt__type){nt_dtype_of(value), nt_shape_of(value)};
    p->results[p->result_count++] = (nt__result){name, value, takes};
}

static void trace_update(const form *f, const nt__group *group, program *p) {
    nt_rule rule = f->rule();
    nt__type type = nt__group_type(group), scalar = {NT_F32, {0}};
    nt_tensor states[NT__MAX_STATES], next[NT__MAX_STATES], inputs[NT__MAX_INPUTS];
    nt__step step = {.x = nt__input(ROLE_PARAMETERS, 0, "parameters", type),
                     .g = nt__input(ROLE_GRADIENT, 0, "gradient", type),
                     .eta = nt__input(ROLE_RATE, 0, "rate", scalar),
                     .inputs = inputs,
                     .states = states,
                     .next_states = next,
                     .group = group};
    ids = nt__input(ROLE_IDS, 0, "ids", (nt__type){NT_I32, type.shape});
    nt_tensor places[NT__PLACE_TABLES];
    for (int i = 0; i < NT__PLACE_TABLES; i++)
        places[i] = nt__input(ROLE_PLACES, i, "places", nt__place_type(group, i));
    step.places = places;
    nt__state state;
    nt__named_input input;
    for (int s = 0; nt__rule_state(&rule, (size_t)s, &state); s++)
        states[s] = nt__input(ROLE_STATE, s, state.state->name, nt__state_type(&state, group));
    for (int i = 0; nt__rule_input(&rule, (size_t)i, &input); i++)
        inputs[i] = nt__input(ROLE_INPUT, i, input.name, scalar);
    add_result(p, "parameters", nt__rule_apply(&rule, &step), step.x);
    for (int s = 0; nt__rule_state(&rule, (size_t)s, &state); s++) add_result(p, state.state->name, next[s], states[s]);
}

static void compile_program(nt__engine *engine, const form *f, const nt__group *group, program *p) {
    nt__graph *graph = nt__trace_begin();
    if (!graph) must(NT_OUT_OF_MEMORY);
    trace_update(f, group, p);
    must(nt__trace_status(graph));
    must(nt__print("optimizer", p->results, p->result_count, &p->printed));
    nt__trace_end(graph);
    double start = nt__seconds();
    p->executable = compiled(engine, f->name, &p->printed, p->results, p->types, p->result_count);
    p->compile_seconds = nt__seconds() - start;
    must(nt__executable_memory_of(p->executable, &p->memory));
}

static void upload_places(nt__engine *engine, const nt__group *group, int table, nt__buffer *out) {
    size_t bytes;
    nt__type type = nt__place_type(group, table);
    if (!nt__type_bytes(type, &bytes)) must(NT_INVALID);
    void *elements = aligned_room(bytes);
    nt__place_fill(group, table, elements);
    must(nt__buffer_upload(engine, 0, "places", NT__OUTPUT, type, elements, out));
    nt__free(elements);
}

static void upload_ids(nt__engine *engine, const nt__group *group, nt__buffer *out) {
    int32_t *elements = aligned_room((size_t)group->length * sizeof *elements);
    for (size_t i = 0; i < group->array_count; i++)
        for (int64_t j = 0; j < group->arrays[i].length; j++) elements[group->arrays[i].offset + j] = (int32_t)i;
    must(nt__buffer_upload(engine, 0, "ids", NT__OUTPUT, (nt__type){NT_I32, nt_dims(group->length)}, elements, out));
    nt__free(elements);
}

static void bind_program(nt__engine *engine, const nt__group *group, program *p) {
    for (size_t i = 0; i < p->printed.argument_count; i++) {
        const nt__argument *argument = &p->printed.arguments[i];
        if (argument->role == ROLE_IDS)
            upload_ids(engine, group, &p->buffers[i]);
        else if (argument->role == ROLE_PLACES)
            upload_places(engine, group, argument->index, &p->buffers[i]);
        else
            upload_drawn(engine, argument->name, argument->type, argument->role == ROLE_RATE ? 1e-6 : 0.1,
                         &p->buffers[i]);
        p->arguments[i] = &p->buffers[i];
        if (argument->donated_to < 0) continue;
        p->slots[argument->donated_to] = &p->buffers[i];
        if (argument->type.shape.rank == 0) p->scalar = &p->buffers[i];
    }
}

/* Waits for the end by reading a scalar state. */
static double step(nt__engine *engine, program *p) {
    char element[8];
    double start = nt__seconds();
    must(nt__executable_run(p->executable, p->arguments, p->printed.argument_count, p->slots, p->result_count));
    must(nt__buffer_read(engine, p->scalar, element));
    return nt__seconds() - start;
}

static void free_program(program *p) {
    for (size_t i = 0; i < p->printed.argument_count; i++) nt__buffer_free(&p->buffers[i]);
    nt__executable_free(&p->executable);
    nt__printed_free(&p->printed);
    nt__free(p->seconds);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

/* The forms take turns, so that what else the machine does falls on all of them. */
static void compare(nt__engine *engine, size_t arrays, bool equal, size_t rounds) {
    nt__layout layout = layout_of(arrays, equal);
    nt__group group = layout.groups[0], apart = group;
    nt__bundle *bundles = split_bundles(&group);
    apart.bundles = bundles;
    apart.bundle_count = group.array_count;
    program programs[FORMS] = {0};
    for (int f = 0; f < FORMS; f++) {
        if (arrays > (equal ? forms[f].most_equal : forms[f].most_different)) continue;
        program *p = &programs[f];
        compile_program(engine, &forms[f], forms[f].apart ? &apart : &group, p);
        bind_program(engine, &group, p);
        p->seconds = room(rounds, sizeof *p->seconds);
        step(engine, p);
    }
    for (size_t round = 0; round < rounds; round++)
        for (int f = 0; f < FORMS; f++)
            if (programs[f].executable) programs[f].seconds[round] = step(engine, &programs[f]);
    for (int f = 0; f < FORMS; f++) {
        program *p = &programs[f];
        if (!p->executable) continue;
        printf("| %s | %zu %s | %s | %zu | %.3f | %.2f | %.3f |\n", plugin_name(engine), arrays,
               equal ? "equal" : "different", forms[f].name, p->printed.text.length / 1000, p->compile_seconds,
               (double)p->memory.temporary_bytes / 1e6, median(p->seconds, rounds) * 1e3);
        free_program(p);
    }
    nt__free(bundles);
    nt__layout_free(&layout);
    fflush(stdout);
}

int main(int argument_count, char **arguments) {
    static const size_t sizes[] = {10, 100, 1000};
    size_t rounds = argument_count > 1 ? strtoul(arguments[1], NULL, 10) : 20;
    size_t most_arrays = argument_count > 2 ? strtoul(arguments[2], NULL, 10) : 1000;
    nt__engine *engine;
    must(nt__engine_open(1, &engine));
    printf(
        "| plugin | arrays | rule | text kB | compile s | temporary MB | step ms |\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int equal = 1; equal >= 0; equal--)
            if (sizes[i] <= most_arrays) compare(engine, sizes[i], equal, rounds);
    must(nt__engine_close());
    return 0;
}
