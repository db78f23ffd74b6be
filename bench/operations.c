/* One operation at a time, forward or its gradient, as bench/compare/operations asks for it: reads lines "NAME forward"
 * or "NAME gradient", and for each writes the milliseconds of the fastest of many runs and of their median; "-" where
 * there is no gradient. The operations are those of operations.def. Not here: the other sides of the comparison.
 */
#include "bench.h"
#include "base/files.h"
#include "nitro/random.h"

enum { MAX_INPUTS = 3, MOST_RUNS = 400, LEAST_RUNS = 5, MAX_LINE = 128 };
static const double seconds_a_request = 0.1;

typedef struct operation {
    const char *name, *inputs;
    nt_tensor (*build)(nt_tensor a, nt_tensor b, nt_tensor c);
} operation;

/* The line above an operation's inputs stays readable when it names those that it has only. */
#define OPERATION(name, inputs, nitro, jax, torch)                         \
    static nt_tensor build_##name(nt_tensor a, nt_tensor b, nt_tensor c) { \
        (void)a, (void)b, (void)c;                                         \
        return nitro;                                                      \
    }
#include "operations.def"
#undef OPERATION
#define OPERATION(name, inputs, nitro, jax, torch) {#name, inputs, build_##name},
static const operation operations[] = {
#include "operations.def"
};
#undef OPERATION

typedef struct program {
    bool absent; /* no gradient */
    nt__printed printed;
    nt__executable *executable;
    nt__buffer arguments[MAX_INPUTS + 2], results[MAX_INPUTS + 1];
    size_t result_count;
} program;

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

typedef struct input {
    nt__type type;
    double limit; /* of integers */
} input;

/* Reads "f32[2,3] i32[5]<10". */
static size_t read_inputs(const char *text, input *out) {
    size_t count = 0;
    while (*text && count < MAX_INPUTS) {
        input *in = &out[count++];
        *in = (input){.type.dtype = text[0] == 'f' ? NT_F32 : text[0] == 'i' ? NT_I32 : NT_U32, .limit = 1000};
        const char *at = strchr(text, '[');
        while (at && *at != ']') {
            char *end;
            in->type.shape.dims[in->type.shape.rank++] = strtoll(at + 1, &end, 10);
            at = end;
        }
        if (at && at[1] == '<') in->limit = strtod(at + 2, NULL);
        text += strcspn(text, " ");
        text += *text == ' ';
    }
    return count;
}

/* By a fixed linear congruence. */
static void upload(nt__engine *engine, const input *in, uint32_t draw, nt__buffer *out) {
    size_t bytes, size = nt_dtype_size(in->type.dtype);
    if (!nt__type_bytes(in->type, &bytes)) must(nt__fail(NT_INVALID, "an input is too large"));
    char *data = room(bytes, 1);
    for (size_t at = 0; at < bytes; at += size) {
        draw = draw * 1664525u + 1013904223u;
        double unit = (double)draw / 4294967296.0;
        nt__element_set(in->type.dtype, data + at, in->type.dtype == NT_F32 ? 0.1 + 0.8 * unit : in->limit * unit);
    }
    must(nt__buffer_upload(engine, 0, "input", NT__OUTPUT, in->type, data, out));
    nt__free(data);
}

/* ---- a program -------------------------------------------------------------------------------------------------- */

/* The gradients with respect to the floating inputs; their number. */
static size_t gradients_of(nt_tensor y, nt_tensor cotangent, const nt_tensor *inputs, size_t count, nt_tensor *out) {
    nt_tensor floating[MAX_INPUTS];
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (nt_dtype_is_float(nt_dtype_of(inputs[i]))) floating[found++] = inputs[i];
    if (found && nt_dtype_is_float(nt_dtype_of(y))) nt__vjp(y, cotangent, floating, found, out, NULL);
    return nt_dtype_is_float(nt_dtype_of(y)) ? found : 0;
}

/* The last result is a scalar that was given: reading it waits for the end. */
static void trace(nt__engine *engine, const operation *op, bool gradient, program *p) {
    input in[MAX_INPUTS + 2];
    nt_tensor tensors[MAX_INPUTS] = {{0}};
    nt__result results[MAX_INPUTS + 1];
    nt__type types[MAX_INPUTS + 1];
    size_t count = read_inputs(op->inputs, in);
    nt__graph *graph = nt__trace_begin();
    if (!graph) must(NT_OUT_OF_MEMORY);
    for (size_t i = 0; i < count; i++) tensors[i] = nt__input(0, (int)i, "input", in[i].type);
    nt_tensor y = op->build(tensors[0], tensors[1], tensors[2]), values[MAX_INPUTS + 1] = {y};
    in[count] = (input){.type = {nt_dtype_of(y), nt_shape_of(y)}};
    in[count + 1] = (input){.type = {NT_F32, {0}}};
    nt_tensor cotangent = nt__input(0, (int)count, "cotangent", in[count].type);
    p->result_count = gradient ? gradients_of(y, cotangent, tensors, count, values) : 1;
    p->absent = p->result_count == 0;
    values[p->result_count] = nt__input(0, (int)count + 1, "end", in[count + 1].type);
    for (size_t i = 0; i <= p->result_count; i++) {
        types[i] = (nt__type){nt_dtype_of(values[i]), nt_shape_of(values[i])};
        results[i] = (nt__result){"result", values[i], {0}};
    }
    if (!p->absent) {
        must(nt__print("operation", results, p->result_count + 1, &p->printed));
        p->executable = compiled(engine, op->name, &p->printed, results, types, p->result_count + 1);
        for (size_t i = 0; i < p->printed.argument_count; i++)
            upload(engine, &in[p->printed.arguments[i].index], (uint32_t)i, &p->arguments[i]);
    }
    nt__trace_end(graph);
}

static void run(nt__engine *engine, program *p) {
    nt__buffer *arguments[MAX_INPUTS + 2], *results[MAX_INPUTS + 1];
    float end;
    for (size_t i = 0; i < p->printed.argument_count; i++) arguments[i] = &p->arguments[i];
    for (size_t i = 0; i <= p->result_count; i++) results[i] = &p->results[i];
    must(nt__executable_run(p->executable, arguments, p->printed.argument_count, results, p->result_count + 1));
    must(nt__buffer_read(engine, results[p->result_count], &end));
    for (size_t i = 0; i <= p->result_count; i++) nt__buffer_free(results[i]);
}

static void measure(nt__engine *engine, program *p) {
    double times[MOST_RUNS], start = nt__seconds();
    size_t count = 0;
    while (count < MOST_RUNS && (count < LEAST_RUNS || nt__seconds() - start < seconds_a_request)) {
        double before = nt__seconds();
        run(engine, p);
        times[count++] = 1e3 * (nt__seconds() - before);
    }
    double middle = median(times, count);
    printf("%.5f %.5f\n", times[0], middle);
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

enum { OPERATIONS = sizeof operations / sizeof *operations };

static void answer(nt__engine *engine, const char *name, bool gradient) {
    static program programs[OPERATIONS][2];
    size_t i = 0;
    while (i < OPERATIONS && strcmp(operations[i].name, name)) i++;
    if (i == OPERATIONS) must(nt__fail(NT_INVALID, "there is no operation '%s'", name));
    program *p = &programs[i][gradient];
    if (!p->executable && !p->absent) trace(engine, &operations[i], gradient, p);
    if (p->absent)
        printf("-\n");
    else
        measure(engine, p);
    fflush(stdout);
}

int main(void) {
    nt__engine *engine;
    char line[MAX_LINE];
    must(nt__engine_open(1, &engine));
    while (fgets(line, sizeof line, stdin)) {
        bool gradient = strstr(line, " gradient") != NULL;
        line[strcspn(line, " \n")] = 0;
        answer(engine, line, gradient);
    }
    return 0;
}
