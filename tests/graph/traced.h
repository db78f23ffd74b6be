/* The current trace as a program of the engine: compiles it and runs it on host arrays.
 * An input of the trace takes the array whose number is its `index`. Include after cmocka.
 */
#ifndef NT_TESTS_GRAPH_TRACED_H
#define NT_TESTS_GRAPH_TRACED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "xla/xla.h"

typedef struct traced {
    nt__engine *engine;
    nt__printed printed;
    nt__executable *executable;
    nt__port *results;
    size_t result_count;
} traced;

/* Fails the test with the library's message unless `status` is NT_OK. */
#define assert_ok(status) assert_status_ok((status), __FILE__, __LINE__)
static inline void assert_status_ok(nt_status status, const char *file, int line) {
    if (status == NT_OK) return;
    print_error("%s:%d: %s: %s\n", file, line, nt_status_name(status), nt_error_message());
    _fail(file, line);
}

static inline nt__engine *traced_engine(void) {
    nt__engine *engine = NULL;
    assert_ok(nt__engine_open(1, &engine));
    return engine;
}

/* The teardown of a group: fails when a buffer or an executable was left. */
static inline int traced_close_engine(void **state) {
    (void)state;
    return nt__engine_close() == NT_OK ? 0 : -1;
}

/* A tensor that stands for array number `index`. */
static inline nt_tensor traced_input(int index, nt__type type) {
    char name[32];
    snprintf(name, sizeof name, "input %d", index);
    return nt__input(0, index, name, type);
}

/* Shows the lines of the text around the engine's "-:LINE:COLUMN: error". */
static inline void traced_show_error(const nt__printed *printed) {
    const char *message = nt_error_message(), *at = strstr(message, "-:");
    print_error("%s\n", message);
    size_t line = at ? strtoul(at + 2, NULL, 10) : 0, first = (size_t)printed->first_line;
    if (line < first || line - first >= printed->line_count) return;
    const nt__line *made = &printed->lines[line - first];
    print_error("made by %s:%d in %s: %s\n", made->site.file, made->site.line, made->site.function, made->text);
}

static inline traced traced_compile(nt__engine *engine, const nt__result *results, size_t count) {
    traced t = {.engine = engine, .result_count = count};
    assert_ok(nt__print("traced", results, count, &t.printed));
    nt__port *arguments = nt__arena_alloc(&t.printed.arena, t.printed.argument_count, sizeof *arguments);
    t.results = nt__arena_alloc(&t.printed.arena, count, sizeof *t.results);
    assert_non_null(arguments);
    assert_non_null(t.results);
    for (size_t i = 0; i < t.printed.argument_count; i++) {
        const nt__argument *argument = &t.printed.arguments[i];
        arguments[i] = (nt__port){argument->name, argument->type, NT__BATCH, argument->donated_to};
    }
    for (size_t i = 0; i < count; i++) {
        nt__type type = {nt_dtype_of(results[i].value), nt_shape_of(results[i].value)};
        t.results[i] = (nt__port){"result", type, NT__OUTPUT, -1};
    }
    nt__signature signature = {arguments, t.printed.argument_count, t.results, count};
    uint8_t *options = NULL;
    size_t length = 0;
    assert_ok(nt__compile_options_encode(&(nt__compile_options){.partitions = 1}, &options, &length));
    nt_status status = nt__executable_compile(engine, "traced", t.printed.text.data, t.printed.text.length, &signature,
                                              options, length, &t.executable);
    nt__free(options);
    if (status != NT_OK) traced_show_error(&t.printed);
    assert_int_equal(status, NT_OK);
    return t;
}

/* results[i] becomes a new array. */
static inline void traced_run(const traced *t, nt_array *const *arrays, nt_array **results) {
    size_t argument_count = t->printed.argument_count, slots = argument_count + t->result_count;
    nt__buffer *buffers = nt__alloc(slots, sizeof *buffers);
    nt__buffer **pointers = nt__alloc(slots, sizeof *pointers);
    assert_non_null(buffers);
    assert_non_null(pointers);
    for (size_t i = 0; i < slots; i++) pointers[i] = &buffers[i];
    for (size_t i = 0; i < argument_count; i++) {
        const nt__argument *argument = &t->printed.arguments[i];
        const nt_array *array = arrays[argument->index];
        assert_true(nt__type_equal(argument->type, (nt__type){array->dtype, array->shape}));
        assert_ok(nt__buffer_upload(t->engine, 0, argument->name, NT__BATCH, argument->type, array->data, &buffers[i]));
    }
    assert_ok(nt__executable_run(t->executable, pointers, argument_count, pointers + argument_count, t->result_count));
    for (size_t i = 0; i < t->result_count; i++) {
        nt__type type = t->results[i].type;
        results[i] = nt_array_new(type.dtype, type.shape);
        assert_non_null(results[i]);
        assert_ok(nt__buffer_read(t->engine, pointers[argument_count + i], results[i]->data));
    }
    for (size_t i = 0; i < slots; i++) nt__buffer_free(&buffers[i]);
    nt__free(buffers);
    nt__free(pointers);
}

static inline void traced_free(traced *t) {
    nt__executable_free(&t->executable);
    nt__printed_free(&t->printed);
}

#endif
