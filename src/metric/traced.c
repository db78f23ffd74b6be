/* What traced metric hooks report during a trace: named scalars and how they are combined.
 * Not here: reading the values and combining them (run).
 */
#include <stdio.h>
#include <string.h>

#include "metric/metric.h"

static const struct {
    const char *function;
    bool combined; /* over the batches of a pass: only device_metrics can do that */
} kinds[] = {
    [NT_COMBINE_MEAN] = {"nt_device_mean", true},   [NT_COMBINE_SUM] = {"nt_device_sum", true},
    [NT_COMBINE_MAX] = {"nt_device_max", true},     [NT_COMBINE_MIN] = {"nt_device_min", true},
    [NT_COMBINE_NONE] = {"nt_device_value", false},
};

bool nt__is_own_metric(const char *name) {
    return strcmp(name, "loss") == 0 || strcmp(name, "grad_norm") == 0;
}

static nt__hash hash_of(const char *name) {
    return nt__hash_bytes(name, strlen(name));
}

static bool name_is_right(const nt_device_metrics *metrics, const char *name, const char *function, nt_site site) {
    const char *problem = name && *name ? nt__value_name_problem(name) : NULL;
    uint32_t other = name ? nt__map_find(&metrics->places, hash_of(name)) : 0;
    if (!name || !*name)
        nt__trace_fail(site, function, "a metric without a name: give it one");
    else if (problem)
        nt__trace_fail(site, function, "metric '%s' %s: give it another name", name, problem);
    else if (!metrics->combined && nt__is_own_metric(name))
        nt__trace_fail(site, function, "'%s' is a name of the run's own in the line of a step: give '%s' another name",
                       name, name);
    else if (other)
        nt__trace_fail(site, function, "metric '%s' was reported at %s:%d already: each name once", name,
                       metrics->items[other - 1].site.file, metrics->items[other - 1].site.line);
    else
        return true;
    return false;
}

static bool fits_hook(const nt_device_metrics *metrics, nt_combine combine, const char *name, nt_site site) {
    if (metrics->combined == kinds[combine].combined) return true;
    nt__trace_fail(site, kinds[combine].function,
                   metrics->combined
                       ? "metric '%s': device_metrics says how batches are combined: nt_device_mean, nt_device_sum, "
                         "nt_device_max or nt_device_min"
                       : "metric '%s': train_metrics and train_step report values of one batch: nt_device_value",
                   name);
    return false;
}

static bool is_scalar(nt_tensor x, const char *what, const char *name, const char *function, nt_site site) {
    char argument[128];
    if (x.trace == NT_NUMBER_MARK) return true;
    snprintf(argument, sizeof argument, "metric '%.80s': the %s", name, what);
    if (!nt__tensor_given(x, site, function, argument)) return false;
    if (nt_rank(x) == 0) return true;
    char text[NT__TYPE_TEXT];
    nt__trace_fail(site, function, "metric '%s': the %s is %s and must be a scalar: reduce it, as with nt_sum", name,
                   what, nt__type_text((nt__type){nt_dtype_of(x), nt_shape_of(x)}, text));
    return false;
}

/* A nan stays one; what divides must not turn the sign. */
static bool count_fits(nt_tensor count, const char *name, const char *function, nt_site site) {
    if (!is_scalar(count, "count", name, function, site)) return false;
    if (count.trace != NT_NUMBER_MARK || !(count.number < 0)) return true;
    nt__trace_fail(site, function, "metric '%s': the count is %g; it must be at least 0", name, count.number);
    return false;
}

void nt_device_metric_at(nt_device_metrics *metrics, const char *name, nt_combine combine, nt_tensor value,
                         nt_tensor count, nt_site site) {
    const char *function = kinds[combine].function;
    if (!metrics) {
        nt__trace_fail(site, function, "the metrics are NULL");
        return;
    }
    if (!name_is_right(metrics, name, function, site) || !fits_hook(metrics, combine, name, site) ||
        !is_scalar(value, combine == NT_COMBINE_MEAN ? "sum" : "value", name, function, site) ||
        !count_fits(count, name, function, site))
        return;
    const char *copy = nt__arena_strdup(&metrics->arena, name);
    if (!copy || !NT__GROW(metrics->items, metrics->count, metrics->capacity) ||
        !nt__map_put(&metrics->places, hash_of(copy), (uint32_t)metrics->count + 1)) {
        nt__trace_out_of_memory();
        return;
    }
    metrics->items[metrics->count++] = (nt__device_metric){copy, combine, value, count, site};
}

void nt__device_metrics_free(nt_device_metrics *metrics) {
    nt__free(metrics->items);
    nt__map_free(&metrics->places);
    nt__arena_free(&metrics->arena);
    *metrics = (nt_device_metrics){0};
}
