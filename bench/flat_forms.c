/* Flat buffers against arrays apart, side by side: how parameters, accumulators and optimizer state cross into the
 * gradient program and the optimizer program. Prints a table with the time to compile, the temporary bytes and the time
 * of a step. Not here: the loop around the programs.
 *
 *     flat_forms [ROUNDS [MOST_ARRAYS]]        the plugin is NITRO_PLUGIN, as everywhere
 */
#include <math.h>

#include "bench.h"
#include "base/files.h"
#include "optim/optim.h"

enum { BATCH = 128, MOST_COMPILES = 3 };
enum { ROLE_INPUT, ROLE_FIRST, ROLE_PARAMETERS, ROLE_ACCUMULATOR, ROLE_STATE, ROLE_RATE, ROLE_PLACE };

/* ---- the model: dense layers of one width, a weight and a bias each -----------------------------------------------*/

typedef struct model {
    int64_t width;
    size_t arrays;    /* even: weight, bias, weight, bias, ... */
    int64_t elements; /* of all arrays */
} model;

static int64_t array_elements(const model *m, size_t index) {
    return index % 2 ? m->width : m->width * m->width;
}

static nt_shape array_shape(const model *m, size_t index) {
    return index % 2 ? nt_dims(m->width) : nt_dims(m->width, m->width);
}

static nt_tensor loss_of(const model *m, const nt_tensor *arrays) {
    nt_tensor x = nt__input(ROLE_INPUT, 0, "input", (nt__type){NT_F32, nt_dims(BATCH, m->width)});
    for (size_t i = 0; i < m->arrays; i += 2) x = nt_relu(nt_add(nt_matmul(x, arrays[i]), arrays[i + 1]));
    return nt_mean(nt_square(x));
}

/* ---- the gradient program
 * ------------------------------------------------------------------------------------------*/

/* One accumulator or piece of it. */
static nt_tensor accumulate(nt_tensor gradient, nt_tensor accumulator, nt_tensor first) {
    return nt_where(first, gradient, nt_add(accumulator, gradient));
}

static nt__type flat_type(const model *m) {
    return (nt__type){NT_F32, nt_dims(m->elements)};
}

static nt__type array_type(const model *m, size_t index) {
    return (nt__type){NT_F32, array_shape(m, index)};
}

static void slice_arrays(const model *m, nt_tensor flat, nt_tensor *arrays) {
    int64_t offset = 0;
    for (size_t i = 0; i < m->arrays; offset += array_elements(m, i++)) {
        nt_tensor piece = nt_slice(flat, nt_dims(offset), nt_dims(offset + array_elements(m, i)));
        arrays[i] = nt_reshape_at(piece, array_shape(m, i), NT_SITE);
    }
}

/* Where array `index` begins, as an input: kernels of arrays of one shape are then the same, and compiled once. */
static nt_tensor place_of(size_t index) {
    return nt__input(ROLE_PLACE, (int)index, "place", (nt__type){NT_I32, nt_dims(1)});
}

static void slice_at_places(const model *m, nt_tensor flat, nt_tensor *arrays) {
    for (size_t i = 0; i < m->arrays; i++) {
        nt_tensor piece = nt_dynamic_slice(flat, place_of(i), nt_dims(array_elements(m, i)));
        arrays[i] = nt_reshape_at(piece, array_shape(m, i), NT_SITE);
    }
}

/* Each piece is written into zeros. */
static nt_tensor gather(const model *m, const nt_tensor *gradients) {
    nt_tensor flat = nt_full(NT_F32, nt_dims(m->elements), 0);
    int64_t offset = 0;
    for (size_t i = 0; i < m->arrays; offset += array_elements(m, i++))
        flat = nt_update_slice(flat, nt_reshape(gradients[i], array_elements(m, i)), nt_dims(offset));
    return flat;
}

static nt_tensor concatenate(const model *m, const nt_tensor *gradients) {
    nt_tensor *pieces = room(m->arrays, sizeof *pieces);
    for (size_t i = 0; i < m->arrays; i++) pieces[i] = nt_reshape(gradients[i], array_elements(m, i));
    nt_tensor flat = nt_concatenate_at(pieces, m->arrays, 0, NT_SITE);
    nt__free(pieces);
    return flat;
}

static nt_tensor accumulate_concatenated(const model *m, const nt_tensor *gradients, nt_tensor accumulator,
                                         nt_tensor first) {
    return accumulate(concatenate(m, gradients), accumulator, first);
}

static nt_tensor accumulate_whole(const model *m, const nt_tensor *gradients, nt_tensor accumulator, nt_tensor first) {
    return accumulate(gather(m, gradients), accumulator, first);
}

/* Each piece is accumulated and written into the donated accumulator. */
static nt_tensor accumulate_pieces(const model *m, const nt_tensor *gradients, nt_tensor accumulator, nt_tensor first) {
    int64_t offset = 0;
    for (size_t i = 0; i < m->arrays; offset += array_elements(m, i++)) {
        nt_tensor piece = nt_slice(accumulator, nt_dims(offset), nt_dims(offset + array_elements(m, i)));
        piece = accumulate(nt_reshape(gradients[i], array_elements(m, i)), piece, first);
        accumulator = nt_update_slice(accumulator, piece, nt_dims(offset));
    }
    return accumulator;
}

typedef nt_tensor (*accumulate_flat)(const model *m, const nt_tensor *gradients, nt_tensor accumulator,
                                     nt_tensor first);

/* One way to write one of the two programs. */
typedef struct form {
    const char *program, *name;
    size_t (*trace)(const struct form *f, const model *m, nt__result *results); /* gives the number of results */
    enum { APART, FLAT, PLACED } parameters; /* PLACED: flat, and where each array begins is an input */
    accumulate_flat accumulate;              /* of the gradient program; NULL: one accumulator for each array */
    size_t most_arrays;                      /* beyond that a compile or a step would take minutes */
} form;

static void input_parameters(const form *f, const model *m, nt_tensor *arrays) {
    if (f->parameters)
        (f->parameters == PLACED ? slice_at_places
                                 : slice_arrays)(m, nt__input(ROLE_PARAMETERS, 0, "parameters", flat_type(m)), arrays);
    else
        for (size_t i = 0; i < m->arrays; i++)
            arrays[i] = nt__input(ROLE_PARAMETERS, (int)i, "parameter", array_type(m, i));
}

static size_t output_accumulators(const form *f, const model *m, const nt_tensor *gradients, nt__result *results) {
    nt_tensor first = nt__input(ROLE_FIRST, 0, "first", (nt__type){NT_BOOL, {0}});
    if (f->accumulate) {
        nt_tensor accumulator = nt__input(ROLE_ACCUMULATOR, 0, "accumulator", flat_type(m));
        results[0] = (nt__result){"accumulator", f->accumulate(m, gradients, accumulator, first), accumulator};
        return 1;
    }
    for (size_t i = 0; i < m->arrays; i++) {
        nt_tensor accumulator = nt__input(ROLE_ACCUMULATOR, (int)i, "accumulator", array_type(m, i));
        results[i] = (nt__result){"accumulator", accumulate(gradients[i], accumulator, first), accumulator};
    }
    return m->arrays;
}

static size_t trace_gradient(const form *f, const model *m, nt__result *results) {
    nt_tensor *arrays = room(m->arrays, sizeof *arrays), *gradients = room(m->arrays, sizeof *gradients);
    input_parameters(f, m, arrays);
    nt_tensor loss = loss_of(m, arrays);
    nt__gradient(loss, arrays, m->arrays, gradients, NULL);
    results[0] = (nt__result){.name = "loss", .value = loss};
    size_t count = 1 + output_accumulators(f, m, gradients, results + 1);
    nt__free(gradients);
    nt__free(arrays);
    return count;
}

/* ---- the optimizer program: Adam
 * -----------------------------------------------------------------------------------*/

typedef struct update {
    nt_rule rule;
    nt_tensor rate;
    nt_tensor scalars[NT__MAX_STATES]; /* the scalar states, which all arrays share */
} update;

static update begin_update(const model *m) {
    update u = {.rule = nt_adam(), .rate = nt__input(ROLE_RATE, 0, "learning_rate", (nt__type){NT_F32, {0}})};
    const nt__group group = {.name = "", .dtype = NT_F32, .length = m->elements};
    nt__state state;
    for (size_t s = 0; nt__rule_state(&u.rule, s, &state); s++)
        if ((state.state->is_scalar || state.state->is_count))
            u.scalars[s] = nt__input(ROLE_STATE, 0, state.state->name, nt__state_type(&state, &group));
    return u;
}

/* Updates x, the flat buffer or one array, in place. Gives the number of results; the first array has the scalar
 * states' too. */
static size_t trace_update(const update *u, nt_tensor x, nt_tensor g, int index, nt__result *results) {
    nt__state state;
    nt__type type = {NT_F32, nt_shape_of(x)};
    nt_tensor states[NT__MAX_STATES], next[NT__MAX_STATES];
    for (size_t s = 0; nt__rule_state(&u->rule, s, &state); s++)
        states[s] = (state.state->is_scalar || state.state->is_count)
                        ? u->scalars[s]
                        : nt__input(ROLE_STATE, index, state.state->name, type);
    const nt__group group = {.name = "", .dtype = NT_F32, .length = nt_shape_elements(type.shape)};
    const nt__step step = {.x = x, .g = g, .eta = u->rate, .states = states, .next_states = next, .group = &group};
    size_t count = 0;
    results[count++] = (nt__result){"parameters", nt__rule_apply(&u->rule, &step), x};
    for (size_t s = 0; nt__rule_state(&u->rule, s, &state); s++)
        if (index == 0 || !(state.state->is_scalar || state.state->is_count))
            results[count++] = (nt__result){state.state->name, next[s], states[s]};
    return count;
}

static size_t trace_optimizer(const form *f, const model *m, nt__result *results) {
    update u = begin_update(m);
    size_t count = 0, buffers = f->parameters ? 1 : m->arrays;
    for (size_t i = 0; i < buffers; i++) {
        nt__type type = f->parameters ? flat_type(m) : array_type(m, i);
        nt_tensor x = nt__input(ROLE_PARAMETERS, (int)i, "parameters", type);
        nt_tensor g = nt__input(ROLE_ACCUMULATOR, (int)i, "accumulator", type);
        count += trace_update(&u, x, g, (int)i, results + count);
    }
    return count;
}

/* ---- both in one program, for what their being two costs
 * -----------------------------------------------------------*/

static size_t trace_both(const form *f, const model *m, nt__result *results) {
    nt_tensor *arrays = room(m->arrays, sizeof *arrays), *gradients = room(m->arrays, sizeof *gradients), flat = {0};
    if (f->parameters) {
        flat = nt__input(ROLE_PARAMETERS, 0, "parameters", flat_type(m));
        slice_arrays(m, flat, arrays);
    } else {
        input_parameters(f, m, arrays);
    }
    nt_tensor loss = loss_of(m, arrays);
    nt__gradient(loss, arrays, m->arrays, gradients, NULL);
    results[0] = (nt__result){.name = "loss", .value = loss};
    update u = begin_update(m);
    size_t count = 1;
    if (f->parameters)
        count += trace_update(&u, flat, gather(m, gradients), 0, results + count);
    else
        for (size_t i = 0; i < m->arrays; i++)
            count += trace_update(&u, arrays[i], gradients[i], (int)i, results + count);
    nt__free(gradients);
    nt__free(arrays);
    return count;
}

/* Forms of the same program stand together; ratios are to the first of them. */
static const form forms[] = {
    {"gradient", "flat, into zeros", trace_gradient, FLAT, accumulate_whole, 1000},
    {"gradient", "flat, concatenated", trace_gradient, FLAT, accumulate_concatenated, 1000},
    {"gradient", "places, concatenated", trace_gradient, PLACED, accumulate_concatenated, 1000},
    {"gradient", "flat, in place", trace_gradient, FLAT, accumulate_pieces, 100},
    {"gradient", "only parameters flat", trace_gradient, FLAT, NULL, 100},
    {"gradient", "only accumulator flat", trace_gradient, APART, accumulate_whole, 100},
    {"gradient", "arrays apart", trace_gradient, APART, NULL, 1000},
    {"optimizer", "flat", trace_optimizer, FLAT, NULL, 1000},
    {"optimizer", "arrays apart", trace_optimizer, APART, NULL, 1000},
    {"both", "flat", trace_both, FLAT, NULL, 100},
    {"both", "arrays apart", trace_both, APART, NULL, 100},
};
enum { FORMS = sizeof forms / sizeof *forms };

/* ---- a program of a form ------------------------------------------------------------------------------------------*/

typedef struct program {
    nt__printed printed;
    nt__result *results;
    nt__type *types;
    size_t result_count;
    nt__executable *executable;
    nt__executable_memory memory;
    nt__buffer *buffers; /* one an argument */
    nt__buffer loss;     /* of the gradient program */
    nt__buffer **arguments, **slots;
    nt__buffer *scalar; /* the slot that is read to wait for the end */
    double *seconds, compile_seconds[MOST_COMPILES];
} program;

static void trace_program(const form *f, const model *m, program *p) {
    nt__graph *graph = nt__trace_begin();
    if (!graph) must(NT_OUT_OF_MEMORY);
    size_t most = 1 + m->arrays * (1 + NT__MAX_STATES);
    p->results = room(most, sizeof *p->results);
    p->types = room(most, sizeof *p->types);
    p->result_count = f->trace(f, m, p->results);
    must(nt__trace_status(graph));
    must(nt__print(f->program, p->results, p->result_count, &p->printed));
    for (size_t i = 0; i < p->result_count; i++)
        p->types[i] = (nt__type){nt_dtype_of(p->results[i].value), nt_shape_of(p->results[i].value)};
    nt__trace_end(graph);
}

static void compile_program(nt__engine *engine, const form *f, program *p, int time) {
    nt__executable_free(&p->executable);
    double start = nt__seconds();
    p->executable = compiled(engine, f->name, &p->printed, p->results, p->types, p->result_count);
    p->compile_seconds[time] = nt__seconds() - start;
}

static void upload_place(nt__engine *engine, const model *m, const nt__argument *argument, nt__buffer *out) {
    int32_t *place = aligned_room(sizeof *place);
    *place = 0;
    for (int i = 0; i < argument->index; i++) *place += (int32_t)array_elements(m, (size_t)i);
    must(nt__buffer_upload(engine, 0, argument->name, NT__OUTPUT, argument->type, place, out));
    nt__free(place);
}

/* Weights such that the values keep their size through the layers. */
static void bind_program(nt__engine *engine, const model *m, program *p, size_t rounds) {
    size_t count = p->printed.argument_count;
    p->buffers = room(count, sizeof *p->buffers);
    p->arguments = room(count, sizeof *p->arguments);
    p->slots = room(p->result_count, sizeof *p->slots);
    p->seconds = room(rounds, sizeof *p->seconds);
    for (size_t i = 0; i < count; i++) {
        const nt__argument *argument = &p->printed.arguments[i];
        double limit = argument->role == ROLE_PARAMETERS ? 2.45 / sqrt((double)m->width) : 1;
        if (argument->role == ROLE_PLACE)
            upload_place(engine, m, argument, &p->buffers[i]);
        else
            upload_drawn(engine, argument->name, argument->type, limit, &p->buffers[i]);
        p->arguments[i] = &p->buffers[i];
        if (argument->donated_to >= 0) p->slots[argument->donated_to] = &p->buffers[i];
    }
    for (size_t i = 0; i < p->result_count; i++)
        if (!p->slots[i]) p->slots[i] = &p->loss;
    for (size_t i = 0; i < p->result_count && !p->scalar; i++)
        if (p->types[i].shape.rank == 0) p->scalar = p->slots[i];
    must(nt__executable_memory_of(p->executable, &p->memory));
}

/* Waits for the end by reading the smallest result: the loss, or the count of steps. */
static double step(nt__engine *engine, program *p) {
    char element[8];
    double start = nt__seconds();
    must(nt__executable_run(p->executable, p->arguments, p->printed.argument_count, p->slots, p->result_count));
    must(nt__buffer_read(engine, p->scalar, element));
    double seconds = nt__seconds() - start;
    nt__buffer_free(&p->loss);
    return seconds;
}

static void free_program(program *p) {
    for (size_t i = 0; i < p->printed.argument_count; i++) nt__buffer_free(&p->buffers[i]);
    nt__executable_free(&p->executable);
    nt__printed_free(&p->printed);
    nt__free(p->results);
    nt__free(p->types);
    nt__free(p->buffers);
    nt__free(p->arguments);
    nt__free(p->slots);
    nt__free(p->seconds);
}

/* ---- the table ----------------------------------------------------------------------------------------------------*/

typedef struct size {
    int64_t width;
    size_t arrays;
    int compiles;
    size_t rounds_divisor;
} size;

/* The forms take turns, so that what else the machine does falls on all of them. */
static void measure(nt__engine *engine, const model *m, const size *s, size_t rounds, program *programs) {
    bool in[FORMS];
    for (int f = 0; f < FORMS; f++) in[f] = m->arrays <= forms[f].most_arrays;
    for (int f = 0; f < FORMS; f++)
        if (in[f]) trace_program(&forms[f], m, &programs[f]);
    for (int time = 0; time < s->compiles; time++)
        for (int f = 0; f < FORMS; f++)
            if (in[f]) compile_program(engine, &forms[f], &programs[f], time);
    for (int f = 0; f < FORMS; f++)
        if (in[f]) bind_program(engine, m, &programs[f], rounds);
    for (int f = 0; f < FORMS; f++)
        if (in[f]) step(engine, &programs[f]);
    for (size_t round = 0; round < rounds; round++)
        for (int f = 0; f < FORMS; f++)
            if (in[f]) programs[f].seconds[round] = step(engine, &programs[f]);
}

static void compare(nt__engine *engine, const size *s, size_t rounds) {
    model m = {.width = s->width, .arrays = s->arrays};
    for (size_t i = 0; i < m.arrays; i++) m.elements += array_elements(&m, i);
    program programs[FORMS] = {0};
    measure(engine, &m, s, rounds, programs);
    double base_compile = 0, base_step = 0;
    for (int f = 0; f < FORMS; f++) {
        program *p = &programs[f];
        if (!p->executable) continue;
        double compile = median(p->compile_seconds, (size_t)s->compiles), step_time = median(p->seconds, rounds);
        bool base = f == 0 || strcmp(forms[f].program, forms[f - 1].program) != 0;
        if (base) base_compile = compile, base_step = step_time;
        printf("| %s | %zu of %lld | %s | %s | %.3f | %.2f | %.2f | %.3f | %.2f |\n", plugin_name(engine), m.arrays,
               (long long)m.width, forms[f].program, forms[f].name, compile, compile / base_compile,
               (double)p->memory.temporary_bytes / 1e6, step_time * 1e3, step_time / base_step);
        free_program(p);
    }
    fflush(stdout);
}

int main(int argument_count, char **arguments) {
    static const size sizes[] = {{256, 6, 3, 1},  {64, 10, 3, 1},   {64, 100, 1, 2},
                                 {256, 10, 3, 1}, {256, 100, 1, 8}, {64, 1000, 1, 20}};
    size_t rounds = argument_count > 1 ? strtoul(arguments[1], NULL, 10) : 200;
    size_t most_arrays = argument_count > 2 ? strtoul(arguments[2], NULL, 10) : 1000;
    nt__engine *engine;
    must(nt__engine_open(1, &engine));
    printf("| plugin | arrays of width | program | form | compile s | ratio | temporary MB | step ms | ratio |\n"
           "|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].arrays <= most_arrays) compare(engine, &sizes[i], 1 + rounds / sizes[i].rounds_divisor);
    must(nt__engine_close());
    return 0;
}
