/* What the bench programs share: giving up with a message, medians, compiling a printed trace, filled buffers.
 * Not here: anything the library or its tests use.
 */
#ifndef NT_BENCH_BENCH_H
#define NT_BENCH_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "xla/xla.h"

/* A bench has nothing to recover: the message is shown and the process ends. */
static inline void must(nt_status status) {
    if (status == NT_OK) return;
    fprintf(stderr, "bench: %s\n", nt_error_message());
    exit(1);
}

static inline void *room(size_t count, size_t size) {
    void *memory = nt__alloc(count, size);
    if (!memory) must(NT_OUT_OF_MEMORY);
    return memory;
}

/* As the engine wants elements that it is given. */
static inline void *aligned_room(size_t size) {
    void *memory = nt__alloc_aligned(size);
    if (!memory) must(NT_OUT_OF_MEMORY);
    return memory;
}

static inline int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values. */
static inline double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* The name of the plugin's file, without its folder. */
static inline const char *plugin_name(const nt__engine *engine) {
    const char *path = nt__engine_facts_of(engine)->plugin_path, *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Compiles a printed trace; `results` are those it was printed with. */
static inline nt__executable *compiled(nt__engine *engine, const char *name, const nt__printed *printed,
                                       const nt__result *results, const nt__type *types, size_t result_count) {
    nt__port *arguments = room(printed->argument_count + 1, sizeof *arguments);
    nt__port *ports = room(result_count, sizeof *ports);
    for (size_t i = 0; i < printed->argument_count; i++) {
        const nt__argument *argument = &printed->arguments[i];
        arguments[i] = (nt__port){argument->name, argument->type, NT__OUTPUT, argument->donated_to};
    }
    for (size_t i = 0; i < result_count; i++) ports[i] = (nt__port){results[i].name, types[i], NT__OUTPUT, -1};
    nt__signature signature = {arguments, printed->argument_count, ports, result_count};
    uint8_t *options;
    size_t length;
    nt__executable *executable;
    must(nt__compile_options_encode(&(nt__compile_options){0}, &options, &length));
    must(nt__executable_compile(engine, name, printed->text.data, printed->text.length, &signature, options, length,
                                &executable));
    nt__free(options);
    nt__free(ports);
    nt__free(arguments);
    return executable;
}

/* Uploads an array whose elements are drawn evenly from [-limit, limit) by a fixed linear congruence; of a bool, all
 * are true. */
static inline void upload_drawn(nt__engine *engine, const char *name, nt__type type, double limit, nt__buffer *out) {
    size_t bytes, size = nt_dtype_size(type.dtype);
    if (!nt__type_bytes(type, &bytes)) must(nt__fail(NT_INVALID, "%s is too large", name));
    char *data = aligned_room(bytes);
    uint32_t draw = 1;
    for (size_t at = 0; at < bytes; at += size) {
        draw = draw * 1664525u + 1013904223u;
        double value = limit * ((double)draw / 2147483648.0 - 1);
        nt__element_set(type.dtype, data + at, type.dtype == NT_BOOL ? 1 : value);
    }
    must(nt__buffer_upload(engine, 0, name, NT__OUTPUT, type, data, out));
    nt__free(data);
}

#endif
