/* Which epoch was the best.
 * Not here: which one a run keeps.
 */
#include <math.h>
#include <string.h>

#include "history/history.h"

/* What the run ranks its checkpoints by, where it was told. */
static const char *chosen(const nt__history *history, const char *setting) {
    return json_string_value(json_object_get(history->params, setting));
}

static size_t usual_metric(const nt__history *history) {
    const char *given = chosen(history, "checkpoint_metric");
    int metric = given ? nt__history_metric(history, given) : -1;
    if (metric >= 0) return (size_t)metric;
    int val_loss = nt__history_metric(history, "val_loss");
    if (val_loss >= 0) return (size_t)val_loss;
    return history->metric_count > 1 ? 1 : NT__METRIC_LOSS;
}

static nt_status find_direction(const nt__history *history, const char *mode, size_t metric_place, nt__direction *out) {
    const char *metric = history->metrics[metric_place], *ranked = chosen(history, "checkpoint_metric");
    if (!mode && ranked && strcmp(ranked, metric) == 0) mode = chosen(history, "checkpoint_mode");
    *out = nt__metric_direction(metric);
    if (!mode) return NT_OK;
    *out = strcmp(mode, "max") == 0 ? NT__LARGER_IS_BETTER : NT__SMALLER_IS_BETTER;
    if (strcmp(mode, "max") == 0 || strcmp(mode, "min") == 0) return NT_OK;
    return nt__fail(NT_INVALID, "the mode '%s' is neither min nor max", mode);
}

nt_status nt__history_best(const nt__history *history, const char *name, const char *mode, nt__best *out) {
    *out = (nt__best){.metric = usual_metric(history)};
    nt_status status = name ? nt__history_find_metric(history, name, &out->metric) : NT_OK;
    if (status == NT_OK) status = find_direction(history, mode, out->metric, &out->direction);
    double best = 0;
    if (out->direction == NT__DIRECTION_UNKNOWN) return status;
    for (size_t i = 0; status == NT_OK && i < history->row_count; i++) {
        const double *value = nt__row_value(&history->rows[i], out->metric);
        if (!value || !isfinite(*value)) continue;
        bool is_better = !out->found || (out->direction == NT__LARGER_IS_BETTER ? *value > best : *value < best);
        if (!is_better) continue;
        out->found = true;
        out->row = i;
        best = *value;
    }
    return status;
}
