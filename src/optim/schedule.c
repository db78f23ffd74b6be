/* Schedules: the kinds, one row each; what a schedules hook collects; schedules from text. Formulas: nitro/schedule.h.
 * Not here: which input of a program a name means, and the uploads.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"

/* ---- the kinds -------------------------------------------------------------------------------------------------- */

/* How much of the way is behind step t, from 0 to 1. */
static double progress(const nt_schedule *s, int64_t step, int64_t total) {
    int64_t made = step - 1 - s->begin, steps = s->steps > 0 ? s->steps : total - s->begin;
    if (made <= 0) return 0;
    return made >= steps ? 1 : (double)made / (double)steps;
}

static double constant_value(const nt_schedule *s, int64_t step, int64_t total) {
    (void)step;
    (void)total;
    return s->from;
}

static double linear_value(const nt_schedule *s, int64_t step, int64_t total) {
    double p = progress(s, step, total);
    return p < 1 ? s->from + (s->to - s->from) * p : s->to;
}

static double cosine_value(const nt_schedule *s, int64_t step, int64_t total) {
    double p = progress(s, step, total);
    return p < 1 ? s->to + (s->from - s->to) * (1 + cos(acos(-1) * p)) / 2 : s->to;
}

static double function_value(const nt_schedule *s, int64_t step, int64_t total) {
    return s->function(step, total, s->context);
}

struct nt_schedule_kind {
    const char *name;
    int numbers; /* that its text has: from, then to */
    bool varies;
    double (*value)(const nt_schedule *s, int64_t step, int64_t total);
};

enum { CONSTANT, LINEAR, COSINE, FUNCTION, KIND_COUNT };
static const struct nt_schedule_kind kinds[KIND_COUNT] = {
    [CONSTANT] = {"constant", 1, false, constant_value},
    [LINEAR] = {"linear", 2, true, linear_value},
    [COSINE] = {"cosine", 2, true, cosine_value},
    [FUNCTION] = {"function", 0, true, function_value},
};

nt_schedule nt_schedule_constant(double value) {
    return (nt_schedule){.kind = &kinds[CONSTANT], .from = value};
}

nt_schedule nt_schedule_linear_with(double from, double to, nt_schedule_options options) {
    return (nt_schedule){&kinds[LINEAR], from, to, options.steps, options.begin, NULL, NULL};
}

nt_schedule nt_schedule_cosine_with(double from, double to, nt_schedule_options options) {
    return (nt_schedule){&kinds[COSINE], from, to, options.steps, options.begin, NULL, NULL};
}

nt_schedule nt_schedule_of(nt_schedule_function function, void *context) {
    return (nt_schedule){.kind = &kinds[FUNCTION], .function = function, .context = context};
}

/* ---- what a run asks -------------------------------------------------------------------------------------------- */

double nt__schedule_value(const nt_schedule *schedule, int64_t step, int64_t total) {
    return schedule->kind->value(schedule, step, total);
}

nt_status nt__schedule_check(const nt_schedule *schedule) {
    if (!schedule->kind)
        return nt__fail(NT_INVALID, "it has no schedule: make one with nt_schedule_constant, nt_schedule_linear, "
                                    "nt_schedule_cosine or nt_schedule_of");
    if (schedule->kind == &kinds[FUNCTION] && !schedule->function)
        return nt__fail(NT_INVALID, "nt_schedule_of was given no function (NULL)");
    if (!isfinite(schedule->from) || !isfinite(schedule->to))
        return nt__fail(NT_INVALID, "%s from %g to %g: both must be finite", schedule->kind->name,
                        nt__plain_nan(schedule->from), nt__plain_nan(schedule->to));
    if (schedule->steps >= 0 && schedule->begin >= 0) return NT_OK;
    return nt__fail(NT_INVALID, "%s with steps %lld and begin %lld: both are 0 or more", schedule->kind->name,
                    (long long)schedule->steps, (long long)schedule->begin);
}

bool nt__schedule_varies(const nt_schedule *schedule) {
    return schedule->kind->varies;
}

void nt__schedule_print(const nt_schedule *schedule, nt__text *out) {
    const double numbers[] = {schedule->from, schedule->to};
    nt__text_add(out, "%s", schedule->kind->name);
    for (int i = 0; i < schedule->kind->numbers; i++) nt__text_add(out, "%c%g", i ? ' ' : '(', numbers[i]);
    if (schedule->steps > 0) nt__text_add(out, " steps %lld", (long long)schedule->steps);
    if (schedule->begin > 0) nt__text_add(out, " begin %lld", (long long)schedule->begin);
    if (schedule->kind->numbers) nt__text_add(out, ")");
}

/* ---- a table of schedules --------------------------------------------------------------------------------------- */

void nt_schedule_set(nt_schedules *schedules, const char *name, nt_schedule schedule) {
    if (!nt__given(schedules, "nt_schedule_set", "schedules") || schedules->status != NT_OK) return;
    if (!nt__given(name, "nt_schedule_set", "name")) {
        schedules->status = NT_INVALID;
        return;
    }
    const char *copy = nt__arena_strdup(&schedules->arena, name);
    if (!copy || !NT__GROW(schedules->items, schedules->count + 1, schedules->capacity)) {
        schedules->status = NT_OUT_OF_MEMORY;
        return;
    }
    schedules->items[schedules->count++] = (nt_named_schedule){copy, schedule};
    schedules->items[schedules->count] = (nt_named_schedule){0};
}

void nt__schedules_free(nt_schedules *schedules) {
    nt__free(schedules->items);
    nt__arena_free(&schedules->arena);
    *schedules = (nt_schedules){0};
}

/* ---- from text -------------------------------------------------------------------------------------------------- */

static nt_status refuse(const char *text) {
    return nt__fail(
        NT_INVALID,
        "'%s' is no schedule: write NAME=KIND:NUMBERS, which is NAME=constant:VALUE, NAME=linear:FROM:TO or "
        "NAME=cosine:FROM:TO, for example learning_rate=cosine:1e-3:0",
        text);
}

static const struct nt_schedule_kind *find_kind(const char *name, size_t length) {
    for (int i = 0; i < KIND_COUNT; i++)
        if (strlen(kinds[i].name) == length && memcmp(kinds[i].name, name, length) == 0) return &kinds[i];
    return NULL;
}

/* ":1e-3:0", as many numbers as the kind has. */
static bool read_numbers(const char *at, const struct nt_schedule_kind *kind, double *numbers) {
    for (int i = 0; i < kind->numbers; i++) {
        char *end = NULL;
        if (*at != ':') return false;
        numbers[i] = strtod(at + 1, &end);
        if (end == at + 1) return false;
        at = end;
    }
    return kind->numbers > 0 && *at == 0;
}

nt_status nt__schedule_parse(const char *text, nt_schedules *out) {
    const char *equals = strchr(text, '='), *value = equals ? equals + 1 : text;
    size_t length = strcspn(value, ":");
    const struct nt_schedule_kind *kind = equals ? find_kind(value, length) : NULL;
    double numbers[2] = {0, 0};
    if (!kind || equals == text || !read_numbers(value + length, kind, numbers)) return refuse(text);
    char *name = nt__sprintf("%.*s", (int)(equals - text), text);
    if (!name) return NT_OUT_OF_MEMORY;
    nt_schedule_set(out, name, (nt_schedule){.kind = kind, .from = numbers[0], .to = numbers[1]});
    nt__free(name);
    return out->status;
}
