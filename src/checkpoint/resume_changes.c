/* What a run that goes on has otherwise than its record, though it may go on: one warning that lists all of it.
 * Not here: what is refused (resume_place.c, restore.c), the seed (resume.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/records.h"

/* The lines so far. */
typedef struct report {
    const nt__recording *recording;
    const nt__record *record;
    const nt__place_of_record *place;
    nt__text lines;
    size_t count;
} report;

static json_t *fact_of(const report *r, const char *name) {
    return json_object_get(r->record->facts, name);
}

/* Lists what `now`, which is taken over, has otherwise than the fact; a record of before the fact says nothing. */
static void compare(report *r, const char *fact, json_t *now, bool (*counts)(const nt__changes *, const char *)) {
    const nt__changes changes = {fact_of(r, fact), now, counts};
    if (!now) r->lines.failed = true;
    if (now && json_is_object(changes.then)) r->count += nt__list_changes(&changes, &r->lines);
    json_decref(now);
}

/* ---- the experiment and its Host fields ------------------------------------------------------------------------- */

static void compare_experiment(report *r) {
    const char *then = json_string_value(fact_of(r, "experiment")), *now = r->recording->task->experiment->name;
    if (!then || strcmp(then, now) == 0) return;
    nt__text_add(&r->lines, "\n  experiment: %s -> %s", then, now);
    r->count++;
}

/* A field that gives a setting is compared as that. */
static bool is_no_setting(const nt__changes *changes, const char *name) {
    (void)changes;
    return !nt__setting_find(name);
}

/* ---- the data --------------------------------------------------------------------------------------------------- */

static bool is_same(const nt__changes *changes, const char *split, int length, const char *name) {
    char key[256];
    snprintf(key, sizeof key, "%.*s.%s", length, split, name);
    const json_t *then = json_object_get(changes->then, key), *now = json_object_get(changes->now, key);
    return then && now && json_equal((json_t *)then, (json_t *)now);
}

static bool is_there(const nt__changes *changes, const char *split, int length) {
    char key[256];
    snprintf(key, sizeof key, "%.*s.rows", length, split);
    return json_object_get(changes->then, key) && json_object_get(changes->now, key);
}

/* Of a split that only one of the two has, one line. Other rows have other values, which goes without saying. */
static bool is_worth_a_line(const nt__changes *changes, const char *name) {
    const char *what = strrchr(name, '.');
    if (!what) return true;
    int length = (int)(what - name);
    if (strcmp(what, ".rows") == 0) return true;
    if (!is_there(changes, name, length)) return false;
    if (strcmp(what, ".content") != 0) return true;
    return is_same(changes, name, length, "rows") && is_same(changes, name, length, "first") &&
           is_same(changes, name, length, "fields");
}

typedef struct rows {
    int64_t first, end;
} rows;

/* False: the facts have no such split. */
static bool rows_of(const json_t *data, const char *split, int length, rows *out) {
    char key[256];
    snprintf(key, sizeof key, "%.*s.first", length, split);
    const char *first = json_string_value(json_object_get(data, key));
    snprintf(key, sizeof key, "%.*s.rows", length, split);
    const char *count = json_string_value(json_object_get(data, key));
    if (!first || !count) return false;
    out->first = strtoll(first, NULL, 10);
    return !__builtin_add_overflow(out->first, strtoll(count, NULL, 10), &out->end);
}

static rows both(rows a, rows b) {
    return (rows){a.first > b.first ? a.first : b.first, a.end < b.end ? a.end : b.end};
}

/* Rows of the training's arrays that another split had for itself. */
static void compare_roles(report *r) {
    const char *name;
    json_t *value, *then = fact_of(r, "data"), *now = r->recording->data;
    rows trained, train;
    if (!rows_of(then, "train", 5, &trained) || !rows_of(now, "train", 5, &train)) return;
    json_object_foreach(then, name, value) {
        const char *what = strrchr(name, '.');
        rows held;
        if (!what || strcmp(what, ".arrays") != 0 || !rows_of(then, name, (int)(what - name), &held)) continue;
        rows was = both(held, trained), is = both(held, train);
        if (was.first < was.end || is.first >= is.end) continue;
        nt__text_add(&r->lines,
                     "\n  rows %lld..%lld of the arrays: of split '%.*s', not trained on -> trained on, so values of "
                     "that split from before cannot be compared",
                     (long long)is.first, (long long)is.end - 1, (int)(what - name), name);
        r->count++;
    }
}

/* ---- Device fields ---------------------------------------------------------------------------------------------- */

static void add_device(report *r, const nt__device_slot *slot) {
    const nt_field_info *field = &r->recording->task->experiment->fields[slot->field];
    const char *then = json_string_value(json_object_get(fact_of(r, "devices"), slot->name));
    nt__text_add(&r->lines, "\n  %s: ", slot->name);
    if (then && nt__field_is_number(field)) {
        nt__text_add(&r->lines, "%s -> ", then);
        nt__field_print(field, r->recording->task->fields, &r->lines);
    } else {
        nt__text_say(&r->lines, "other values than it began with then");
    }
    r->count++;
}

/* One that the run is given another value for than it began with then has the new one. */
static void compare_devices(report *r) {
    json_t *then = fact_of(r, "device_starts"), *now = nt__record_device_starts(r->recording->resident);
    if (!now) r->lines.failed = true;
    for (size_t i = 0; now && i < r->recording->traced->device_fields.count; i++) {
        const nt__device_slot *slot = &r->recording->traced->device_fields.slots[i];
        const json_t *was = json_object_get(then, slot->name);
        if (nt__field_scheduled(r->recording->resident, slot->field)) continue;
        if (was && !json_equal((json_t *)was, json_object_get(now, slot->name))) add_device(r, slot);
    }
    json_decref(now);
}

/* ---- schedules that spread over the run ------------------------------------------------------------------------- */

/* The optimizer steps that schedules took for all, -1: the record does not say. */
static int64_t horizon_then(const report *r) {
    const json_t *horizon = fact_of(r, "horizon");
    int64_t epochs = json_integer_value(fact_of(r, "max_epochs")), all;
    if (horizon) return json_integer_value(horizon);
    if (r->place->accum < 1 || epochs < 1) return -1;
    return __builtin_mul_overflow(r->place->batches / r->place->accum, epochs, &all) ? -1 : all;
}

/* The user's function may be asked for a step that it has no value for. */
static double value_at(const nt_schedule *schedule, int64_t step, int64_t total) {
    nt__calls_watch();
    double value = nt__schedule_value(schedule, step, total);
    if (nt__calls_status() != NT_OK) nt__fail_nothing();
    return value;
}

static void compare_schedule(report *r, const nt__binding *binding, int64_t then) {
    int64_t step = r->place->step + 1, now = r->recording->resident->horizon;
    double before = value_at(&binding->schedule, step, then), after = value_at(&binding->schedule, step, now);
    if (before == after || (isnan(before) && isnan(after))) return;
    nt__text_add(&r->lines, "\n  schedule %s at step %lld: %g of %lld steps -> %g of %lld", binding->name,
                 (long long)step, nt__plain_nan(before), (long long)then, nt__plain_nan(after), (long long)now);
    r->count++;
}

static void compare_horizon(report *r) {
    int64_t then = horizon_then(r);
    if (then < 0 || then == r->recording->resident->horizon) return;
    for (size_t i = 0; i < r->recording->resident->binding_count; i++)
        compare_schedule(r, &r->recording->resident->bindings[i], then);
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

nt_status nt__resume_warn_changes(const nt__recording *recording, const nt__record *record,
                                  const nt__place_of_record *place) {
    report r = {.recording = recording, .record = record, .place = place};
    compare_experiment(&r);
    compare(&r, "host", nt__record_fields(recording->task, NT_HOST), is_no_setting);
    compare_devices(&r);
    compare(&r, "data", json_incref(recording->data), is_worth_a_line);
    compare_roles(&r);
    compare(&r, "settings", nt__record_settings(recording->resident), NULL);
    compare_horizon(&r);
    nt_status status = r.lines.failed ? NT_OUT_OF_MEMORY : NT_OK;
    if (status == NT_OK && r.count)
        status = nt__warn("%s: %zu thing%s %s not as in the checkpoint, and the run goes on with what is now:%s",
                          recording->task->experiment->name, r.count, r.count == 1 ? "" : "s",
                          r.count == 1 ? "is" : "are", r.lines.data);
    nt__text_free(&r.lines);
    return status;
}
