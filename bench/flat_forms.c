/* Three forms of the gradient program, side by side: how parameters and accumulators cross into the program, and how a
 * gradient gets to its place. Prints a table with the time to compile, the temporary bytes and the time of a step.
 * Not here: the optimizer program, for which the flat form is the only one.
 *
 *     flat_forms [ROUNDS]        the plugin is NITRO_PLUGIN, as everywhere
 */
#include "bench.h"

enum { BATCH = 128, COMPILES = 3 };
enum { ROLE_INPUT, ROLE_FIRST, ROLE_PARAMETERS, ROLE_ACCUMULATOR };

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

/* ---- the forms ----------------------------------------------------------------------------------------------------*/

/* One accumulator or piece of it. */
static nt_tensor accumulate(nt_tensor gradient, nt_tensor accumulator, nt_tensor first) {
    return nt_where(first, gradient, nt_add(accumulator, gradient));
}

static nt_tensor flat_input(const model *m, int role, const char *name) {
    return nt__input(role, 0, name, (nt__type){NT_F32, nt_dims(m->elements)});
}

static void slice_arrays(const model *m, nt_tensor flat, nt_tensor *arrays) {
    int64_t offset = 0;
    for (size_t i = 0; i < m->arrays; offset += array_elements(m, i++)) {
        nt_tensor piece = nt_slice(flat, nt_dims(offset), nt_dims(offset + array_elements(m, i)));
        arrays[i] = nt_reshape_at(piece, array_shape(m, i), NT_SITE);
    }
}

/* Each piece is written into zeros, and the whole is accumulated. */
static nt_tensor accumulate_whole(const model *m, const nt_tensor *gradients, nt_tensor accumulator, nt_tensor first) {
    nt_tensor flat = nt_full(NT_F32, nt_dims(m->elements), 0);
    int64_t offset = 0;
    for (size_t i = 0; i < m->arrays; offset += array_elements(m, i++))
        flat = nt_update_slice(flat, nt_reshape(gradients[i], array_elements(m, i)), nt_dims(offset));
    return accumulate(flat, accumulator, first);
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

typedef struct form {
    const char *name;
    accumulate_flat accumulate; /* NULL: every array is an argument of its own */
} form;

static const form forms[] = {
    {"flat, into zeros", accumulate_whole}, {"flat, in place", accumulate_pieces}, {"arrays apart", NULL}};
enum { FORMS = sizeof forms / sizeof *forms };

/* ---- a program of a form ------------------------------------------------------------------------------------------*/

typedef struct program {
    nt__printed printed;
    nt__result *results; /* the loss, then the accumulators */
    nt__type *types;
    size_t result_count;
    nt__executable *executable;
    nt__executable_memory memory;
    nt__buffer *buffers; /* one an argument */
    nt__buffer loss;
    nt__buffer **arguments, **slots;
    double *seconds, compile_seconds[COMPILES];
} program;

static void trace_flat(const model *m, const form *f, nt_tensor *arrays, nt_tensor *gradients, program *p) {
    slice_arrays(m, flat_input(m, ROLE_PARAMETERS, "parameters"), arrays);
    nt_tensor loss = loss_of(m, arrays);
    nt__gradient(loss, arrays, m->arrays, gradients, NULL);
    nt_tensor first = nt__input(ROLE_FIRST, 0, "first", (nt__type){NT_BOOL, {0}});
    nt_tensor accumulator = flat_input(m, ROLE_ACCUMULATOR, "accumulator");
    p->results[0] = (nt__result){.name = "loss", .value = loss};
    p->results[1] = (nt__result){"accumulator", f->accumulate(m, gradients, accumulator, first), accumulator};
    p->result_count = 2;
}

static void trace_apart(const model *m, nt_tensor *arrays, nt_tensor *gradients, program *p) {
    for (size_t i = 0; i < m->arrays; i++)
        arrays[i] = nt__input(ROLE_PARAMETERS, (int)i, "parameter", (nt__type){NT_F32, array_shape(m, i)});
    nt_tensor loss = loss_of(m, arrays);
    nt__gradient(loss, arrays, m->arrays, gradients, NULL);
    nt_tensor first = nt__input(ROLE_FIRST, 0, "first", (nt__type){NT_BOOL, {0}});
    p->results[0] = (nt__result){.name = "loss", .value = loss};
    for (size_t i = 0; i < m->arrays; i++) {
        nt__type type = {NT_F32, array_shape(m, i)};
        nt_tensor accumulator = nt__input(ROLE_ACCUMULATOR, (int)i, "accumulator", type);
        p->results[1 + i] = (nt__result){"accumulator", accumulate(gradients[i], accumulator, first), accumulator};
    }
    p->result_count = 1 + m->arrays;
}

static void trace_program(const model *m, const form *f, program *p) {
    nt_tensor *arrays = room(m->arrays, sizeof *arrays), *gradients = room(m->arrays, sizeof *gradients);
    nt__graph *graph = nt__trace_begin();
    if (!graph) must(NT_OUT_OF_MEMORY);
    p->results = room(1 + m->arrays, sizeof *p->results);
    p->types = room(1 + m->arrays, sizeof *p->types);
    if (f->accumulate)
        trace_flat(m, f, arrays, gradients, p);
    else
        trace_apart(m, arrays, gradients, p);
    must(nt__trace_status(graph));
    must(nt__print("gradient", p->results, p->result_count, &p->printed));
    for (size_t i = 0; i < p->result_count; i++)
        p->types[i] = (nt__type){nt_dtype_of(p->results[i].value), nt_shape_of(p->results[i].value)};
    nt__trace_end(graph);
    nt__free(gradients);
    nt__free(arrays);
}

static void compile_program(nt__engine *engine, const form *f, program *p, int time) {
    nt__executable_free(&p->executable);
    double start = nt__seconds();
    p->executable = compiled(engine, f->name, &p->printed, p->results, p->types, p->result_count);
    p->compile_seconds[time] = nt__seconds() - start;
}

/* Weights such that the values keep their size through the layers. */
static void bind_program(nt__engine *engine, const model *m, program *p, size_t rounds) {
    size_t count = p->printed.argument_count;
    p->buffers = room(count, sizeof *p->buffers);
    p->arguments = room(count, sizeof *p->arguments);
    p->slots = room(p->result_count, sizeof *p->slots);
    p->seconds = room(rounds, sizeof *p->seconds);
    p->slots[0] = &p->loss;
    for (size_t i = 0; i < count; i++) {
        const nt__argument *argument = &p->printed.arguments[i];
        double limit = argument->role == ROLE_PARAMETERS ? 2.45 / __builtin_sqrt((double)m->width) : 1;
        upload_drawn(engine, argument->name, argument->type, limit, &p->buffers[i]);
        p->arguments[i] = &p->buffers[i];
        if (argument->donated_to >= 0) p->slots[argument->donated_to] = &p->buffers[i];
    }
    must(nt__executable_memory_of(p->executable, &p->memory));
}

static double step(nt__engine *engine, program *p) {
    float loss;
    double start = nt__seconds();
    must(nt__executable_run(p->executable, p->arguments, p->printed.argument_count, p->slots, p->result_count));
    must(nt__buffer_read(engine, &p->loss, &loss));
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

/* The forms take turns, so that what else the machine does falls on all of them. */
static void compare(nt__engine *engine, const model *m, size_t rounds) {
    program programs[FORMS] = {0};
    for (int f = 0; f < FORMS; f++) trace_program(m, &forms[f], &programs[f]);
    for (int time = 0; time < COMPILES; time++)
        for (int f = 0; f < FORMS; f++) compile_program(engine, &forms[f], &programs[f], time);
    for (int f = 0; f < FORMS; f++) bind_program(engine, m, &programs[f], rounds);
    for (int f = 0; f < FORMS; f++) step(engine, &programs[f]);
    for (size_t round = 0; round < rounds; round++)
        for (int f = 0; f < FORMS; f++) programs[f].seconds[round] = step(engine, &programs[f]);
    double base_compile = 0, base_step = 0;
    for (int f = 0; f < FORMS; f++) {
        program *p = &programs[f];
        double compile = median(p->compile_seconds, COMPILES), step_time = median(p->seconds, rounds);
        if (f == 0) base_compile = compile, base_step = step_time;
        printf("| %s | %lld | %zu | %s | %.3f | %.2f | %.2f | %.3f | %.2f |\n", plugin_name(engine),
               (long long)m->width, m->arrays, forms[f].name, compile, compile / base_compile,
               (double)p->memory.temporary_bytes / 1e6, step_time * 1e3, step_time / base_step);
        free_program(p);
    }
    fflush(stdout);
}

int main(int argument_count, char **arguments) {
    static const struct {
        int64_t width;
        size_t arrays;
    } sizes[] = {{64, 10}, {64, 100}, {64, 1000}, {256, 10}, {256, 100}};
    size_t rounds = argument_count > 1 ? strtoul(arguments[1], NULL, 10) : 200;
    nt__engine *engine;
    must(nt__engine_open(1, &engine));
    printf("| plugin | width | arrays | form | compile s | ratio | temporary MB | step ms | ratio |\n"
           "|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        model m = {.width = sizes[i].width, .arrays = sizes[i].arrays};
        for (size_t a = 0; a < m.arrays; a++) m.elements += array_elements(&m, a);
        compare(engine, &m, rounds ? rounds : 1);
    }
    must(nt__engine_close());
    return 0;
}
