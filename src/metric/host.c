/* Metrics over a pass: what hooks add batch by batch, combined the way each metric says.
 * Not here: computing the values.
 */
#include "metric/metric.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef enum mode { MEAN, SUM, MAX, MIN, MODE_COUNT } mode;

typedef struct metric {
    const char *name;
    mode mode;
    double value, count; /* `count` is that of a mean */
    int64_t batch;       /* the last one that set it */
} metric;

struct nt_metrics {
    nt__arena arena; /* names */
    metric *items;
    size_t count, capacity;
    nt__map places; /* one more than the place of each name */
    int64_t batch;  /* the present one; counts from 1, as messages do */
    nt__kept_error error;
};

/* ---- the modes -------------------------------------------------------------------------------------------------- */

static double add(double a, double b) {
    return a + b;
}
/* fmax and fmin would lose a nan. */
static double larger(double a, double b) {
    return isnan(a) || a > b ? a : b;
}
static double smaller(double a, double b) {
    return isnan(a) || a < b ? a : b;
}

static const struct {
    const char *name;
    double (*combine)(double before, double value);
} modes[MODE_COUNT] = {
    [MEAN] = {"mean", add},
    [SUM] = {"sum", add},
    [MAX] = {"max", larger},
    [MIN] = {"min", smaller},
};

/* ---- making and freeing ----------------------------------------------------------------------------------------- */

nt_metrics *nt__metrics_new(void) {
    nt_metrics *metrics = nt__alloc(1, sizeof *metrics);
    if (metrics) metrics->batch = 1;
    return metrics;
}

void nt__metrics_free(nt_metrics *metrics) {
    if (!metrics) return;
    nt__free(metrics->items);
    nt__map_free(&metrics->places);
    nt__arena_free(&metrics->arena);
    nt__free(metrics);
}

/* ---- adding ----------------------------------------------------------------------------------------------------- */

static nt__hash hash_of(const char *name) {
    return nt__hash_bytes(name, strlen(name));
}

static metric *find(const nt_metrics *metrics, const char *name) {
    uint32_t number = nt__map_find(&metrics->places, hash_of(name));
    return number ? &metrics->items[number - 1] : NULL;
}

/* A value of one batch. */
typedef struct entry {
    const char *call, *name;
    mode mode;
    double value, count;
} entry;

static nt_status check_entry(const entry *from) {
    if (!nt__given(from->name, from->call, "name")) return NT_INVALID;
    if (!*from->name) return nt__fail(NT_INVALID, "%s: a metric without a name: give it one", from->call);
    if (from->mode != MEAN || from->count >= 0) return NT_OK;
    return nt__fail(NT_INVALID, "metric '%s': the count of a mean is %g, it must be from 0 on", from->name,
                    nt__plain_nan(from->count));
}

static nt_status append(nt_metrics *metrics, const entry *from) {
    const char *problem = nt__value_name_problem(from->name);
    if (problem) return nt__fail(NT_INVALID, "metric '%s' %s: give it another name", from->name, problem);
    if (metrics->batch > 1) return nt__fail(NT_INVALID, "metric '%s' was not set in the first batch", from->name);
    const char *name = nt__arena_strdup(&metrics->arena, from->name);
    if (!name || !NT__GROW(metrics->items, metrics->count, metrics->capacity) ||
        !nt__map_put(&metrics->places, hash_of(name), (uint32_t)metrics->count + 1))
        return NT_OUT_OF_MEMORY;
    metrics->items[metrics->count++] = (metric){name, from->mode, from->value, from->count, metrics->batch};
    return NT_OK;
}

static nt_status combine(const nt_metrics *metrics, metric *into, const entry *from) {
    if (into->batch == metrics->batch)
        return nt__fail(NT_INVALID, "metric '%s' is set twice: each name once in a batch", into->name);
    if (into->mode != from->mode)
        return nt__fail(NT_INVALID, "metric '%s' is combined by %s, in the first batch it was by %s", into->name,
                        modes[from->mode].name, modes[into->mode].name);
    into->value = modes[into->mode].combine(into->value, from->value);
    into->count += from->count;
    into->batch = metrics->batch;
    return NT_OK;
}

static nt_status take(nt_metrics *metrics, const entry *from) {
    nt_status status = check_entry(from);
    if (status != NT_OK) return status;
    metric *known = find(metrics, from->name);
    return known ? combine(metrics, known, from) : append(metrics, from);
}

/* Keeps an error of the present batch. */
static nt_status keep(nt_metrics *metrics, nt_status status) {
    if (status == NT_OK) return NT_OK;
    return nt__error_keep(&metrics->error, nt__fail_in(status, "metrics of batch %" PRId64, metrics->batch));
}

static void set(nt_metrics *metrics, entry from) {
    if (nt__given(metrics, from.call, "metrics") && metrics->error.status == NT_OK) keep(metrics, take(metrics, &from));
}

void nt_metric_mean(nt_metrics *metrics, const char *name, double sum, double count) {
    set(metrics, (entry){"nt_metric_mean", name, MEAN, sum, count});
}

void nt_metric_accuracy(nt_metrics *metrics, const char *name, const nt_array *scores, const nt_array *labels) {
    if (!nt__given(metrics, "nt_metric_accuracy", "metrics")) return;
    int64_t correct = nt_count_correct(scores, labels);
    if (correct >= 0)
        nt_metric_mean(metrics, name, (double)correct, (double)labels->shape.dims[0]);
    else if (metrics->error.status == NT_OK)
        keep(metrics, nt_error_status());
}

void nt_metric_sum(nt_metrics *metrics, const char *name, double value) {
    set(metrics, (entry){"nt_metric_sum", name, SUM, value, 0});
}

void nt_metric_max(nt_metrics *metrics, const char *name, double value) {
    set(metrics, (entry){"nt_metric_max", name, MAX, value, 0});
}

void nt_metric_min(nt_metrics *metrics, const char *name, double value) {
    set(metrics, (entry){"nt_metric_min", name, MIN, value, 0});
}

static nt_status check_all_set(const nt_metrics *metrics) {
    for (size_t i = 0; i < metrics->count; i++) {
        if (metrics->items[i].batch == metrics->batch) continue;
        return nt__fail(NT_INVALID, "metric '%s' is not set, in the first batch it was", metrics->items[i].name);
    }
    return NT_OK;
}

nt_status nt__metrics_end_batch(nt_metrics *metrics) {
    if (metrics->error.status == NT_OK) keep(metrics, check_all_set(metrics));
    metrics->batch++;
    return nt__error_raise(&metrics->error);
}

/* ---- the results ------------------------------------------------------------------------------------------------ */

size_t nt__metrics_count(const nt_metrics *metrics) {
    return metrics->count;
}

const char *nt__metrics_name(const nt_metrics *metrics, size_t index) {
    return metrics->items[index].name;
}

double nt__metrics_value(const nt_metrics *metrics, size_t index) {
    const metric *item = &metrics->items[index];
    if (item->mode != MEAN) return item->value;
    return item->count > 0 ? item->value / item->count : (double)NAN;
}
