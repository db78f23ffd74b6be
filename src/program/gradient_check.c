/* The check of gradients against central differences: a program with the value and its gradients, run again for each
 * element that is moved.
 * Not here: differentiation (graph/gradient.c).
 */
#include "nitro/check.h"

#include <math.h>

#include "graph/graph.h"
#include "xla/xla.h"

typedef struct check {
    nt__arena arena;
    nt__engine *engine;
    nt__executable *executable;
    nt__printed printed;
    size_t count;         /* of inputs */
    nt_array **arrays;    /* the inputs, floating ones in f64 */
    nt_array **gradients; /* of the floating inputs; of the others NULL */
    nt__port *ports;      /* of the value, and of the gradient of each floating input */
    size_t port_count;
    nt__buffer *buffers; /* the arguments of a run, then its results */
    nt__buffer **pointers;
    double step, tolerance;
} check;

static bool is_floating(const check *c, size_t input) {
    return nt_dtype_is_float(c->arrays[input]->dtype);
}

static nt__type type_of(const nt_array *array) {
    return (nt__type){array->dtype, array->shape};
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static nt_status print(check *c, nt_checked_function function, void *context) {
    nt_tensor *inputs = nt__arena_alloc(&c->arena, c->count + 1, sizeof *inputs);
    nt_tensor *gradients = nt__arena_alloc(&c->arena, c->count + 1, sizeof *gradients);
    nt__result *results = nt__arena_alloc(&c->arena, c->count + 1, sizeof *results);
    if (!inputs || !gradients || !results) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < c->count; i++) inputs[i] = nt__input(0, (int)i, "input", type_of(c->arrays[i]));
    nt_tensor value = function(inputs, context);
    nt__gradient(value, inputs, c->count, gradients, NULL);
    results[c->port_count] = (nt__result){"value", value, {0}};
    c->ports[c->port_count++] = (nt__port){"value", {nt_dtype_of(value), {0}}, NT__OUTPUT, -1};
    for (size_t i = 0; i < c->count; i++) {
        if (!is_floating(c, i)) continue;
        results[c->port_count] = (nt__result){"gradient", gradients[i], {0}};
        c->ports[c->port_count++] = (nt__port){"gradient", type_of(c->arrays[i]), NT__OUTPUT, -1};
    }
    return nt__print("gradient_check", results, c->port_count, &c->printed);
}

static nt_status trace(check *c, nt_checked_function function, void *context) {
    nt__graph *graph = nt__trace_begin();
    if (!graph) return NT_OUT_OF_MEMORY;
    nt_status status = print(c, function, context);
    nt__trace_end(graph);
    return status;
}

static nt_status compile(check *c) {
    size_t count = c->printed.argument_count, length;
    nt__port *arguments = nt__arena_alloc(&c->arena, count + 1, sizeof *arguments);
    if (!arguments) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) arguments[i] = (nt__port){"input", c->printed.arguments[i].type, NT__BATCH, -1};
    uint8_t *options;
    nt_status status = nt__compile_options_encode(&(nt__compile_options){.partitions = 1}, &options, &length);
    if (status != NT_OK) return status;
    nt__signature signature = {arguments, count, c->ports, c->port_count};
    status = nt__executable_compile(c->engine, "the gradient check", c->printed.text.data, c->printed.text.length,
                                    &signature, options, length, &c->executable);
    nt__free(options);
    return status;
}

/* ---- a run ------------------------------------------------------------------------------------------------------ */

static void free_buffers(check *c) {
    for (size_t i = 0; i < c->printed.argument_count + c->port_count; i++) nt__buffer_free(&c->buffers[i]);
}

static nt_status launch(check *c) {
    size_t count = c->printed.argument_count;
    for (size_t i = 0; i < count; i++) {
        const nt_array *array = c->arrays[c->printed.arguments[i].index];
        nt_status status =
            nt__buffer_upload(c->engine, 0, "input", NT__BATCH, type_of(array), array->data, &c->buffers[i]);
        if (status != NT_OK) return status;
    }
    return nt__executable_run(c->executable, c->pointers, count, c->pointers + count, c->port_count);
}

static nt_status read_value(check *c, double *out) {
    char element[8];
    nt_status status = nt__buffer_read(c->engine, &c->buffers[c->printed.argument_count], element);
    if (status == NT_OK) *out = nt__element_get(c->ports[0].type.dtype, element);
    return status;
}

static nt_status read_gradients(check *c) {
    nt__buffer *next = &c->buffers[c->printed.argument_count + 1];
    for (size_t i = 0; i < c->count; i++) {
        if (!c->gradients[i]) continue;
        nt_status status = nt__buffer_read(c->engine, next++, c->gradients[i]->data);
        if (status != NT_OK) return status;
    }
    return NT_OK;
}

static nt_status run(check *c, bool gradients, double *value) {
    nt_status status = launch(c);
    if (status == NT_OK) status = read_value(c, value);
    if (status == NT_OK && gradients) status = read_gradients(c);
    free_buffers(c);
    return status;
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

/* How far `gradient` is from the numbers between the slopes before and after, or from the central difference. */
static double distance(double gradient, double before, double after) {
    double central = (before + after) / 2;
    if (!isfinite(gradient) || !isfinite(central)) {
        bool same = (isnan(gradient) && isnan(central)) || gradient == central;
        return same ? 0 : HUGE_VAL;
    }
    double scale = fmax(1, fmax(fabs(gradient), fabs(central)));
    bool kink = fabs(before - after) > 1e-4 * scale;
    double off = fabs(gradient - central);
    if (kink) off = fmax(0, fmax(fmin(before, after) - gradient, gradient - fmax(before, after)));
    return off / scale;
}

static nt_status compare_element(check *c, size_t input, int64_t element, double value, nt_gradient_report *worst) {
    nt_array *array = c->arrays[input];
    double x = nt_array_get(array, element), step = c->step * fmax(1, fabs(x)), above, below;
    nt_array_set(array, element, x + step);
    nt_status status = run(c, false, &above);
    nt_array_set(array, element, x - step);
    if (status == NT_OK) status = run(c, false, &below);
    nt_array_set(array, element, x);
    if (status != NT_OK) return status;
    double before = (value - below) / step, after = (above - value) / step;
    double gradient = nt_array_get(c->gradients[input], element), error = distance(gradient, before, after);
    if (worst->element < 0 || error > worst->error)
        *worst = (nt_gradient_report){error, gradient, (before + after) / 2, input, element};
    return NT_OK;
}

static nt_status compare(check *c, nt_gradient_report *worst) {
    double value;
    nt_status status = run(c, true, &value);
    for (size_t i = 0; i < c->count; i++) {
        int64_t elements = c->gradients[i] ? nt_shape_elements(c->gradients[i]->shape) : 0;
        for (int64_t j = 0; status == NT_OK && j < elements; j++) status = compare_element(c, i, j, value, worst);
    }
    if (status != NT_OK || worst->error <= c->tolerance) return status;
    return nt__fail(NT_INVALID,
                    "gradient check: element %lld of input %zu, which is %.17g: the gradient is %.17g and the central "
                    "difference %.17g, an error of %.3g where %.3g is allowed",
                    (long long)worst->element, worst->input, nt_array_get(c->arrays[worst->input], worst->element),
                    nt__plain_nan(worst->gradient), nt__plain_nan(worst->difference), worst->error, c->tolerance);
}

/* ---- the call --------------------------------------------------------------------------------------------------- */

/* Copies, for elements are moved. */
static nt_status take_inputs(check *c, nt_array *const *inputs) {
    c->arrays = nt__arena_alloc(&c->arena, c->count + 1, sizeof *c->arrays);
    c->gradients = nt__arena_alloc(&c->arena, c->count + 1, sizeof(nt_array *));
    c->ports = nt__arena_alloc(&c->arena, c->count + 1, sizeof *c->ports);
    c->buffers = nt__arena_alloc(&c->arena, 2 * c->count + 1, sizeof *c->buffers);
    c->pointers = nt__arena_alloc(&c->arena, 2 * c->count + 1, sizeof(nt__buffer *));
    if (!c->arrays || !c->gradients || !c->ports || !c->buffers || !c->pointers) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < 2 * c->count + 1; i++) c->pointers[i] = &c->buffers[i];
    for (size_t i = 0; i < c->count; i++) {
        if (!nt__given(inputs[i], "nt_check_gradient", "an input")) return NT_INVALID;
        bool floating = nt_dtype_is_float(inputs[i]->dtype);
        c->arrays[i] = nt_array_new(floating ? NT_F64 : inputs[i]->dtype, inputs[i]->shape);
        if (!c->arrays[i]) return NT_OUT_OF_MEMORY;
        if (floating) c->gradients[i] = nt_array_new(NT_F64, inputs[i]->shape);
        if (floating && !c->gradients[i]) return NT_OUT_OF_MEMORY;
        int64_t elements = nt_shape_elements(inputs[i]->shape);
        for (int64_t j = 0; j < elements; j++) nt_array_set(c->arrays[i], j, nt_array_get(inputs[i], j));
    }
    return NT_OK;
}

static void check_free(check *c) {
    for (size_t i = 0; c->arrays && c->gradients && i < c->count; i++) {
        nt_array_free(c->arrays[i]);
        nt_array_free(c->gradients[i]);
    }
    nt__executable_free(&c->executable);
    nt__printed_free(&c->printed);
    nt__arena_free(&c->arena);
}

nt_status nt_check_gradient_with(nt_checked_function function, void *context, nt_array *const *inputs, size_t count,
                                 nt_gradient_report *report, nt_gradient_check_options options) {
    if (!nt__given((const void *)(uintptr_t)function, "nt_check_gradient", "function") ||
        !nt__given(inputs, "nt_check_gradient", "inputs"))
        return NT_INVALID;
    check c = {.count = count, .step = options.step, .tolerance = options.tolerance};
    if (c.step == 0) c.step = 1e-6;
    if (c.tolerance == 0) c.tolerance = 1e-6;
    if (!(c.step > 0) || !(c.tolerance > 0))
        return nt__fail(NT_INVALID, "nt_check_gradient: step %g and tolerance %g must be above 0", c.step, c.tolerance);
    nt_gradient_report worst = {.element = -1};
    nt__engine_hold();
    nt_status status = nt__engine_open(1, &c.engine);
    if (status == NT_OK) status = take_inputs(&c, inputs);
    if (status == NT_OK) status = trace(&c, function, context);
    if (status == NT_OK) status = compile(&c);
    if (status == NT_OK) status = compare(&c, &worst);
    check_free(&c);
    nt__engine_release();
    if (report) *report = worst;
    return status;
}
