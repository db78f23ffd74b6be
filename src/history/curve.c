/* Curves of any number of points in a bounded number of parts.
 * Not here: drawing them.
 */
#include <math.h>
#include <string.h>

#include "history/history.h"

double nt__part_x(const nt__curve_part *part) {
    return part->x_first + (part->x_last - part->x_first) / 2;
}

double nt__part_y(const nt__curve_part *part) {
    return part->sum / (double)part->count;
}

/* Two neighbours become one, so that as many points again find room. */
static void halve(nt__curve *curve) {
    for (size_t i = 0; i < curve->part_count / 2; i++) {
        const nt__curve_part a = curve->parts[2 * i], b = curve->parts[2 * i + 1];
        curve->parts[i] = (nt__curve_part){.x_first = a.x_first,
                                           .x_last = b.x_last,
                                           .sum = a.sum + b.sum,
                                           .low = fmin(a.low, b.low),
                                           .high = fmax(a.high, b.high),
                                           .count = a.count + b.count};
    }
    curve->part_count /= 2;
    curve->each *= 2;
}

nt_status nt__curve_add(nt__curve *curve, double x, double y) {
    if (!curve->parts && !(curve->parts = nt__alloc(NT__CURVE_PARTS, sizeof *curve->parts))) return NT_OUT_OF_MEMORY;
    if (!curve->each) curve->each = 1;
    nt__curve_part *last = curve->part_count ? &curve->parts[curve->part_count - 1] : NULL;
    bool is_full = !last || last->count == curve->each;
    if (is_full && curve->part_count == NT__CURVE_PARTS) halve(curve);
    if (is_full) {
        last = &curve->parts[curve->part_count++];
        *last = (nt__curve_part){.x_first = x, .low = y, .high = y};
    }
    last->x_last = x;
    last->sum += y;
    last->low = fmin(last->low, y);
    last->high = fmax(last->high, y);
    last->count++;
    curve->points++;
    return NT_OK;
}

void nt__curve_free(nt__curve *curve) {
    nt__free(curve->parts);
    *curve = (nt__curve){0};
}

/* ---- of a log --------------------------------------------------------------------------------------------------- */

typedef struct wanted {
    const char *context, *name;
    const char *axis;
    nt__curve *curve;
} wanted;

static nt_status take_line(const nt__log_line_text *line, void *context) {
    const wanted *w = context;
    double x, y;
    if (!nt__line_is_of(line->text, w->context) || !nt__line_number(line->text, w->axis, &x) ||
        !nt__line_number(line->text, w->name, &y))
        return NT_OK;
    return nt__curve_add(w->curve, x, y);
}

static nt_status read_lines(const nt__history *history, const char *context, const char *name, nt__axis axis,
                            nt__curve *out) {
    char *path;
    size_t torn;
    const wanted w = {context, name, axis == NT__AXIS_STEP ? "step" : "epoch", out};
    nt_status status = nt__log_path(history->folder, &path);
    if (status == NT_OK) status = nt__log_lines(path, take_line, (void *)(uintptr_t)&w, &torn);
    nt__free(path);
    if (status != NT_OK || out->points) return status;
    return nt__fail(
        NT_INVALID,
        "%s: no line of context '%s' has a value '%s'; the contexts are train, data, epoch and validate, as "
        "in train/loss",
        history->folder, context, name);
}

static nt_status read_column(const nt__history *history, const char *name, nt__axis axis, nt__curve *out) {
    size_t metric;
    nt_status status = nt__history_find_metric(history, name, &metric);
    for (size_t i = 0; status == NT_OK && i < history->row_count; i++) {
        const nt__history_row *row = &history->rows[i];
        const double *value = nt__row_value(row, metric);
        double x = (double)(axis == NT__AXIS_STEP ? row->step : row->epoch);
        if (value) status = nt__curve_add(out, x, *value);
    }
    return status;
}

nt_status nt__curve_read(const nt__history *history, const char *name, nt__axis axis, nt__curve *out) {
    const char *slash = strchr(name, '/');
    *out = (nt__curve){0};
    if (!slash || nt__history_metric(history, name) >= 0) return read_column(history, name, axis, out);
    char *context = nt__sprintf("%.*s", (int)(slash - name), name);
    nt_status status = context ? read_lines(history, context, slash + 1, axis, out) : NT_OUT_OF_MEMORY;
    nt__free(context);
    return status;
}
