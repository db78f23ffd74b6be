/* What traced hooks report, as results of a program, and reading them back.
 * Not here: the passes that ask for them.
 */
#include "metric/metric.h"

/* ---- results of a program --------------------------------------------------------------------------------------- */

/* A number needs no result; a tensor becomes the next one. */
static nt__reading add_result(nt__traced_metrics *out, const char *name, nt_tensor x) {
    if (x.trace == NT_NUMBER_MARK) return (nt__reading){-1, x.number};
    out->results[out->result_count] = (nt__result){.name = name, .value = x};
    return (nt__reading){(int)out->result_count++, 0};
}

nt_status nt__traced_metrics_keep(nt__arena *arena, const nt_device_metrics *reported, nt__traced_metrics *out) {
    *out = (nt__traced_metrics){.count = reported->count};
    out->items = nt__arena_alloc(arena, reported->count + 1, sizeof *out->items);
    out->results = nt__arena_alloc(arena, 2 * reported->count + 1, sizeof *out->results);
    if (!out->items || !out->results) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < reported->count; i++) {
        const nt__device_metric *from = &reported->items[i];
        const char *name = nt__arena_strdup(arena, from->name);
        if (!name) return NT_OUT_OF_MEMORY;
        out->items[i] = (nt__traced_metric){.name = name, .combine = from->combine};
        out->items[i].value = add_result(out, name, from->value);
        out->items[i].count = add_result(out, name, from->count);
    }
    return NT_OK;
}

static nt_status read_number(nt__engine *engine, nt__reading from, nt__buffer *buffers, double *out) {
    *out = from.number;
    if (from.result < 0) return NT_OK;
    nt__buffer *buffer = &buffers[from.result];
    double element = 0;
    nt_status status = nt__buffer_read(engine, buffer, &element);
    if (status == NT_OK) *out = nt__element_get(buffer->type.dtype, &element);
    return status;
}

nt_status nt__traced_metrics_read(nt__engine *engine, const nt__traced_metrics *metrics, nt__buffer *buffers,
                                  nt_value *values, double *counts) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < metrics->count; i++) {
        values[i].name = metrics->items[i].name;
        status = read_number(engine, metrics->items[i].value, buffers, &values[i].value);
        if (status == NT_OK && counts) status = read_number(engine, metrics->items[i].count, buffers, &counts[i]);
    }
    return status;
}
