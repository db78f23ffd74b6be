/* Schedules: the kinds, one row each, and what a schedules hook collects. Formulas: nitro/schedule.h.
 * Not here: schedules from text (schedule_text.c), which input of a program a name means, and the uploads.
 */
#include <math.h>
#include <string.h>

#include "optim/schedule_kinds.h"

/* ---- the way ---------------------------------------------------------------------------------------------------- */

/* Steps made since it began. */
static double steps_made(const nt_schedule *s, int64_t step) {
    int64_t made = step - 1 - s->begin;
    return made > 0 ? (double)made : 0;
}

static int64_t steps_of_way(const nt_schedule *s, int64_t total) {
    return s->steps > 0 ? s->steps : total - s->begin;
}

/* How much of the way is after step t, from 0 to 1. */
static double progress(const nt_schedule *s, int64_t step, int64_t total) {
    double made = steps_made(s, step), steps = (double)steps_of_way(s, total);
    if (made <= 0) return 0;
    return made >= steps ? 1 : made / steps;
}

/* From `from` at p = 0 to `to` at p = 1. */
static double along_cosine(double from, double to, double p) {
    return to + (from - to) * (1 + cos(acos(-1) * p)) / 2;
}

/* ---- the kinds -------------------------------------------------------------------------------------------------- */

static double constant_value(const nt_schedule *s, int64_t step, int64_t total) {
    (void)step;
    (void)total;
    return s->numbers[0];
}

static double linear_value(const nt_schedule *s, int64_t step, int64_t total) {
    double p = progress(s, step, total), from = s->numbers[0], to = s->numbers[1];
    return p < 1 ? from + (to - from) * p : to;
}

static double cosine_value(const nt_schedule *s, int64_t step, int64_t total) {
    double p = progress(s, step, total);
    return p < 1 ? along_cosine(s->numbers[0], s->numbers[1], p) : s->numbers[1];
}

/* Where c lies in its period, from 0 to 1: k periods that grow by m take period (m^k - 1) / (m - 1) steps. The
 * logarithm may be off by one where a period begins. */
static double place_in_period(double c, double period, double m) {
    if (m == 1) return fmod(c, period) / period;
    double k = floor(log1p(c / period * (m - 1)) / log(m));
    if (period * (pow(m, k) - 1) / (m - 1) > c) k--;
    if (period * (pow(m, k + 1) - 1) / (m - 1) <= c) k++;
    double start = period * (pow(m, k) - 1) / (m - 1);
    return fmin(fmax((c - start) / (period * pow(m, k)), 0), 1);
}

static double restarts_value(const nt_schedule *s, int64_t step, int64_t total) {
    (void)total;
    double p = place_in_period(steps_made(s, step), s->numbers[2], s->numbers[3]);
    return along_cosine(s->numbers[0], s->numbers[1], p);
}

static double exponential_value(const nt_schedule *s, int64_t step, int64_t total) {
    (void)total;
    double rate = s->numbers[1], limit = s->numbers[3];
    double value = s->numbers[0] * pow(rate, steps_made(s, step) / s->numbers[2]);
    if (limit == 0) return value;
    return rate < 1 ? fmax(value, limit) : fmin(value, limit);
}

static double polynomial_value(const nt_schedule *s, int64_t step, int64_t total) {
    double from = s->numbers[0], to = s->numbers[1];
    return to + (from - to) * pow(1 - progress(s, step, total), s->numbers[2]);
}

static double step_value(const nt_schedule *s, int64_t step, int64_t total) {
    (void)total;
    return s->numbers[0] * pow(s->numbers[1], floor(steps_made(s, step) / s->numbers[2]));
}

static double one_cycle_value(const nt_schedule *s, int64_t step, int64_t total) {
    double peak = s->numbers[0], start = peak / s->numbers[2], end = start / s->numbers[3];
    double c = steps_made(s, step), steps = (double)steps_of_way(s, total), last = steps - 1;
    double up = fmax(s->numbers[1] * steps - 1, 0);
    if (c >= last) return last > 0 || c > 0 ? end : start;
    return c < up ? along_cosine(start, peak, c / up) : along_cosine(peak, end, (c - up) / (last - up));
}

static double inverse_sqrt_value(const nt_schedule *s, int64_t step, int64_t total) {
    (void)total;
    double t = steps_made(s, step) + 1, warmup = s->numbers[1];
    return s->numbers[0] * fmin(t / warmup, sqrt(warmup / t));
}

static double piecewise_value(const nt_schedule *s, int64_t step, int64_t total) {
    (void)total;
    double value = s->numbers[0];
    for (size_t i = 0; i < s->count && step > s->points[i].after; i++) value = s->points[i].value;
    return value;
}

static double interpolated_value(const nt_schedule *s, int64_t step, int64_t total) {
    (void)total;
    nt_schedule_point before = {0, s->numbers[0]};
    for (size_t i = 0; i < s->count; before = s->points[i++]) {
        nt_schedule_point next = s->points[i];
        if (step > next.after) continue;
        double p = (double)(step - 1 - before.after) / (double)(next.after - before.after);
        return before.value + (next.value - before.value) * p;
    }
    return before.value;
}

static double sequence_value(const nt_schedule *s, int64_t step, int64_t total) {
    const nt_schedule_part *part = s->parts;
    for (; part < s->parts + s->count - 1 && step > part->steps; part++) {
        step -= part->steps;
        total -= part->steps;
    }
    return nt__schedule_value(&part->schedule, step, part->steps > 0 ? part->steps : total);
}

static double function_value(const nt_schedule *s, int64_t step, int64_t total) {
    return s->function(step, total, s->context);
}

const nt_schedule_kind nt__schedule_kinds[] = {
    [NT__CONSTANT] = {"constant", ":VALUE", "one value", {{"value", NT__ANY, 0}}, 1, false, NT__PLAIN, constant_value},
    [NT__LINEAR] = {"linear",
                    ":FROM:TO",
                    "a straight line over all steps",
                    {{"from", NT__ANY, 0}, {"to", NT__ANY, 0}},
                    2,
                    true,
                    NT__PLAIN,
                    linear_value},
    [NT__COSINE] = {"cosine",
                    ":FROM:TO",
                    "half a cosine over all steps",
                    {{"from", NT__ANY, 0}, {"to", NT__ANY, 0}},
                    2,
                    true,
                    NT__PLAIN,
                    cosine_value},
    [NT__RESTARTS] =
        {"restarts",
         ":FROM:TO:PERIOD[:MULTIPLIER]",
         "a cosine every PERIOD steps, each MULTIPLIER times as long (1)",
         {{"from", NT__ANY, 0}, {"to", NT__ANY, 0}, {"period", NT__ONE_OR_MORE, 0}, {"multiplier", NT__ONE_OR_MORE, 1}},
         3,
         true,
         NT__PLAIN,
         restarts_value},
    [NT__EXPONENTIAL] =
        {"exponential",
         ":FROM:RATE:EVERY[:LIMIT]",
         "times RATE in EVERY steps, smoothly, up to LIMIT",
         {{"from", NT__ANY, 0}, {"rate", NT__POSITIVE, 0}, {"every", NT__POSITIVE, 0}, {"limit", NT__ANY, 0}},
         3,
         true,
         NT__PLAIN,
         exponential_value},
    [NT__POLYNOMIAL] = {"polynomial",
                        ":FROM:TO:POWER",
                        "a power of what is left over all steps",
                        {{"from", NT__ANY, 0}, {"to", NT__ANY, 0}, {"power", NT__POSITIVE, 0}},
                        3,
                        true,
                        NT__PLAIN,
                        polynomial_value},
    [NT__STEP] = {"step",
                  ":FROM:FACTOR:EVERY",
                  "times FACTOR at once after every EVERY steps",
                  {{"from", NT__ANY, 0}, {"factor", NT__ANY, 0}, {"every", NT__ONE_OR_MORE, 0}},
                  3,
                  true,
                  NT__PLAIN,
                  step_value},
    [NT__ONE_CYCLE] = {"one_cycle",
                       ":PEAK[:FRACTION_UP[:START_DIVISOR[:FINAL_DIVISOR]]]",
                       "up to PEAK and down, over all steps (0.3, 25, 10000)",
                       {{"peak", NT__ANY, 0},
                        {"fraction_up", NT__FRACTION, 0.3},
                        {"start_divisor", NT__POSITIVE, 25},
                        {"final_divisor", NT__POSITIVE, 1e4}},
                       1,
                       true,
                       NT__PLAIN,
                       one_cycle_value},
    [NT__INVERSE_SQRT] = {"inverse_sqrt",
                          ":PEAK:WARMUP",
                          "up to PEAK in WARMUP steps, then with the root of the step",
                          {{"peak", NT__ANY, 0}, {"warmup", NT__ONE_OR_MORE, 0}},
                          2,
                          true,
                          NT__PLAIN,
                          inverse_sqrt_value},
    [NT__PIECEWISE] = {"piecewise",
                       ":FROM:AFTER:VALUE[:AFTER:VALUE ...]",
                       "VALUE once AFTER steps are made",
                       {{"from", NT__ANY, 0}},
                       1,
                       true,
                       NT__POINTS,
                       piecewise_value},
    [NT__INTERPOLATED] = {"interpolated",
                          ":FROM:AFTER:VALUE[:AFTER:VALUE ...]",
                          "straight lines through these",
                          {{"from", NT__ANY, 0}},
                          1,
                          true,
                          NT__POINTS,
                          interpolated_value},
    [NT__SEQUENCE] = {"sequence", NULL, NULL, {{NULL, NT__ANY, 0}}, 0, true, NT__PARTS, sequence_value},
    [NT__FUNCTION] = {"function", NULL, NULL, {{NULL, NT__ANY, 0}}, 0, true, NT__PLAIN, function_value},
};

/* ---- making them ------------------------------------------------------------------------------------------------ */

void nt__schedule_fill(nt_schedule *schedule) {
    for (int i = 0; i < NT_SCHEDULE_NUMBERS; i++)
        if (schedule->numbers[i] == 0) schedule->numbers[i] = schedule->kind->numbers[i].default_value;
}

static nt_schedule make(int kind, nt_schedule_options options, double a, double b, double c, double d) {
    nt_schedule made = {
        .kind = &nt__schedule_kinds[kind], .numbers = {a, b, c, d}, .steps = options.steps, .begin = options.begin};
    nt__schedule_fill(&made);
    return made;
}

nt_schedule nt_schedule_constant(double value) {
    return make(NT__CONSTANT, (nt_schedule_options){0}, value, 0, 0, 0);
}

nt_schedule nt_schedule_linear_with(double from, double to, nt_schedule_options options) {
    return make(NT__LINEAR, options, from, to, 0, 0);
}

nt_schedule nt_schedule_cosine_with(double from, double to, nt_schedule_options options) {
    return make(NT__COSINE, options, from, to, 0, 0);
}

nt_schedule nt_schedule_restarts_with(double from, double to, double period, double multiplier,
                                      nt_schedule_options options) {
    return make(NT__RESTARTS, options, from, to, period, multiplier);
}

nt_schedule nt_schedule_exponential_with(double from, double rate, double every, double limit,
                                         nt_schedule_options options) {
    return make(NT__EXPONENTIAL, options, from, rate, every, limit);
}

nt_schedule nt_schedule_polynomial_with(double from, double to, double power, nt_schedule_options options) {
    return make(NT__POLYNOMIAL, options, from, to, power, 0);
}

nt_schedule nt_schedule_step_with(double from, double factor, double every, nt_schedule_options options) {
    return make(NT__STEP, options, from, factor, every, 0);
}

nt_schedule nt_schedule_one_cycle_with(double peak, double fraction_up, double start_divisor, double final_divisor,
                                       nt_schedule_options options) {
    return make(NT__ONE_CYCLE, options, peak, fraction_up, start_divisor, final_divisor);
}

nt_schedule nt_schedule_inverse_sqrt_with(double peak, double warmup, nt_schedule_options options) {
    return make(NT__INVERSE_SQRT, options, peak, warmup, 0, 0);
}

static nt_schedule through_points(int kind, double from, const nt_schedule_point *points, size_t count) {
    nt_schedule made = make(kind, (nt_schedule_options){0}, from, 0, 0, 0);
    made.points = points;
    made.count = count;
    return made;
}

nt_schedule nt_schedule_piecewise_with(double from, const nt_schedule_point *points, size_t count) {
    return through_points(NT__PIECEWISE, from, points, count);
}

nt_schedule nt_schedule_interpolated_with(double from, const nt_schedule_point *points, size_t count) {
    return through_points(NT__INTERPOLATED, from, points, count);
}

nt_schedule nt_schedule_sequence_with(const nt_schedule_part *parts, size_t count) {
    return (nt_schedule){.kind = &nt__schedule_kinds[NT__SEQUENCE], .parts = parts, .count = count};
}

nt_schedule nt_schedule_of(nt_schedule_function function, void *context) {
    return (nt_schedule){.kind = &nt__schedule_kinds[NT__FUNCTION], .function = function, .context = context};
}

nt_schedule nt_schedule_warmup(int64_t steps, double from, nt_schedule then) {
    then.warmup = steps;
    then.warmup_from = from;
    return then;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

double nt__schedule_value(const nt_schedule *schedule, int64_t step, int64_t total) {
    int64_t warmup = schedule->warmup;
    if (step > warmup) return schedule->kind->value(schedule, step - warmup, total - warmup);
    double first = schedule->kind->value(schedule, 1, total - warmup);
    return schedule->warmup_from + (first - schedule->warmup_from) * ((double)step / (double)warmup);
}

double nt_schedule_value(const nt_schedule *schedule, int64_t step, int64_t total) {
    bool right = nt__given(schedule, "nt_schedule_value", "schedule") && nt__schedule_check(schedule) == NT_OK;
    return right ? nt__schedule_value(schedule, step, total) : NAN;
}

bool nt__schedule_varies(const nt_schedule *schedule) {
    return schedule->warmup > 0 || schedule->kind->varies;
}

bool nt__schedule_has_function(const nt_schedule *schedule) {
    bool has = schedule->function != NULL;
    for (size_t i = 0; !has && schedule->kind->holds == NT__PARTS && i < schedule->count; i++)
        has = nt__schedule_has_function(&schedule->parts[i].schedule);
    return has;
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

static const char *const ranges[] = {
    [NT__ANY] = "must be finite",
    [NT__POSITIVE] = "must be above 0",
    [NT__ONE_OR_MORE] = "must be 1 or more",
    [NT__FRACTION] = "must lie between 0 and 1",
};

static bool in_range(nt__range range, double x) {
    if (!isfinite(x)) return false;
    switch (range) {
    case NT__POSITIVE: return x > 0;
    case NT__ONE_OR_MORE: return x >= 1;
    case NT__FRACTION: return x > 0 && x < 1;
    default: return true;
    }
}

static nt_status check_numbers(const nt_schedule *s) {
    for (int i = 0; i < NT_SCHEDULE_NUMBERS && s->kind->numbers[i].name; i++) {
        const nt__schedule_number *number = &s->kind->numbers[i];
        if (in_range(number->range, s->numbers[i])) continue;
        return nt__fail(NT_INVALID, "%s with %s %g: it %s", s->kind->name, number->name, nt__plain_nan(s->numbers[i]),
                        ranges[number->range]);
    }
    return NT_OK;
}

static nt_status check_points(const nt_schedule *s) {
    if (s->count == 0 || !s->points)
        return nt__fail(NT_INVALID, "%s without a point: give at least one, {AFTER, VALUE}", s->kind->name);
    int64_t before = 0;
    for (size_t i = 0; i < s->count; before = s->points[i++].after) {
        if (s->points[i].after <= before)
            return nt__fail(NT_INVALID,
                            "%s with a point after %lld steps that follows one after %lld: they must be in order, "
                            "the first after 1 or more",
                            s->kind->name, (long long)s->points[i].after, (long long)before);
        if (!isfinite(s->points[i].value))
            return nt__fail(NT_INVALID, "%s with value %g after %lld steps: it must be finite", s->kind->name,
                            nt__plain_nan(s->points[i].value), (long long)s->points[i].after);
    }
    return NT_OK;
}

static nt_status check_parts(const nt_schedule *s) {
    if (s->count == 0 || !s->parts) return nt__fail(NT_INVALID, "a sequence without a part: give at least one");
    for (size_t i = 0; i < s->count; i++) {
        bool is_last = i + 1 == s->count;
        nt_status status = nt__schedule_check(&s->parts[i].schedule);
        if (status != NT_OK) return nt__fail_in(status, "part %zu of the sequence", i + 1);
        if (s->parts[i].steps < (is_last ? 0 : 1))
            return nt__fail(NT_INVALID,
                            "part %zu of the sequence has %lld steps: only the last may have 0, which are "
                            "all that are left",
                            i + 1, (long long)s->parts[i].steps);
    }
    return NT_OK;
}

static nt_status check_steps(const nt_schedule *s) {
    if (!isfinite(s->warmup_from) || s->warmup < 0)
        return nt__fail(NT_INVALID, "warmup of %lld steps from %g: the steps are 0 or more, the value finite",
                        (long long)s->warmup, nt__plain_nan(s->warmup_from));
    if (s->steps >= 0 && s->begin >= 0) return NT_OK;
    return nt__fail(NT_INVALID, "%s with steps %lld and begin %lld: both are 0 or more", s->kind->name,
                    (long long)s->steps, (long long)s->begin);
}

/* Sequences in sequences; one that is a part of itself has no end. */
enum { DEEPEST_SEQUENCE = 8 };

static bool is_deeper(const nt_schedule *s, int most) {
    bool deeper = s->parts && most == 0;
    for (size_t i = 0; s->parts && !deeper && i < s->count; i++) deeper = is_deeper(&s->parts[i].schedule, most - 1);
    return deeper;
}

static nt_status check_depth(const nt_schedule *s) {
    if (!is_deeper(s, DEEPEST_SEQUENCE)) return NT_OK;
    return nt__fail(NT_INVALID, "sequences of schedules are nested more than %d deep: put their parts into one",
                    DEEPEST_SEQUENCE);
}

nt_status nt__schedule_check(const nt_schedule *schedule) {
    if (!schedule->kind)
        return nt__fail(NT_INVALID, "it has no schedule: make one with nt_schedule_constant, nt_schedule_linear, "
                                    "nt_schedule_cosine or another of nitro/schedule.h");
    if (schedule->kind == &nt__schedule_kinds[NT__FUNCTION] && !schedule->function)
        return nt__fail(NT_INVALID, "nt_schedule_of was given no function (NULL)");
    nt_status status = check_depth(schedule);
    if (status == NT_OK) status = check_numbers(schedule);
    if (status == NT_OK) status = check_steps(schedule);
    if (status == NT_OK && schedule->kind->holds == NT__POINTS) status = check_points(schedule);
    if (status == NT_OK && schedule->kind->holds == NT__PARTS) status = check_parts(schedule);
    return status;
}

/* ---- a table of schedules --------------------------------------------------------------------------------------- */

static const nt_schedule_point *copy_points(nt__arena *arena, const nt_schedule *from) {
    nt_schedule_point *points = nt__arena_alloc(arena, from->count + 1, sizeof *points);
    if (points && from->count) memcpy(points, from->points, from->count * sizeof *points);
    return points;
}

static const nt_schedule_part *copy_parts(nt__arena *arena, const nt_schedule *from) {
    nt_schedule_part *parts = nt__arena_alloc(arena, from->count + 1, sizeof *parts);
    bool right = parts != NULL;
    for (size_t i = 0; right && i < from->count; i++) {
        parts[i].steps = from->parts[i].steps;
        right = nt__schedule_copy(arena, &from->parts[i].schedule, &parts[i].schedule);
    }
    return right ? parts : NULL;
}

bool nt__schedule_copy(nt__arena *arena, const nt_schedule *from, nt_schedule *out) {
    *out = *from;
    if (from->points) out->points = copy_points(arena, from);
    if (from->parts) out->parts = copy_parts(arena, from);
    return !from->points == !out->points && !from->parts == !out->parts;
}

void nt_schedule_set(nt_schedules *schedules, const char *name, nt_schedule schedule) {
    if (!nt__given(schedules, "nt_schedule_set", "schedules") || schedules->status != NT_OK) return;
    if (!nt__given(name, "nt_schedule_set", "name")) {
        schedules->status = NT_INVALID;
        return;
    }
    schedules->status = check_depth(&schedule);
    if (schedules->status != NT_OK) return;
    nt_named_schedule copy = {.name = nt__arena_strdup(&schedules->arena, name)};
    bool copied = copy.name && nt__schedule_copy(&schedules->arena, &schedule, &copy.schedule);
    if (!copied || !NT__GROW(schedules->items, schedules->count + 1, schedules->capacity)) {
        schedules->status = NT_OUT_OF_MEMORY;
        return;
    }
    schedules->items[schedules->count++] = copy;
    schedules->items[schedules->count] = (nt_named_schedule){0};
}

void nt__schedules_free(nt_schedules *schedules) {
    nt__free(schedules->items);
    nt__arena_free(&schedules->arena);
    *schedules = (nt_schedules){0};
}
