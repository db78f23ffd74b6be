/* What a record says of the data and of the settings of its run: texts under names, so that a run that goes on can list
 * what has become another.
 * Not here: comparing them (resume_place.c, resume_changes.c), the other facts (snapshot.c).
 */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/records.h"

/* ---- texts under names ------------------------------------------------------------------------------------------ */

/* Sets a fact to a text, which is freed. Names and texts are of the user's, and JSON takes UTF-8 alone. */
static bool put_text(json_t *facts, const char *name, nt__text *text) {
    nt__text shown = {0};
    nt__text_show(&shown, text->data ? text->data : "", "");
    const char *value = shown.data ? shown.data : "";
    bool right = !text->failed && !shown.failed && json_object_set_new(facts, name, json_string(value)) == 0;
    nt__text_free(&shown);
    nt__text_free(text);
    return right;
}

static bool say(json_t *facts, const char *name, const char *value) {
    nt__text text = {0};
    nt__text_say(&text, value);
    return put_text(facts, name, &text);
}

static bool say_of_split(json_t *facts, const nt__split *split, const char *name, const char *value) {
    nt__text key = {0};
    nt__text_show(&key, split->name, "");
    nt__text_add(&key, ".%s", name);
    bool right = !key.failed && say(facts, key.data, value);
    nt__text_free(&key);
    return right;
}

static bool count_of_split(json_t *facts, const nt__split *split, const char *name, int64_t count) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)count);
    return say_of_split(facts, split, name, text);
}

/* ---- the data --------------------------------------------------------------------------------------------------- */

static const char *kind_of(const nt__split *split) {
    if (split->fields[0].array) return "arrays";
    return split->source.in_order ? "a source read in order" : "a source";
}

/* "x f32[3], label u8[]": the samples. */
static bool say_fields(json_t *facts, const nt__split *split) {
    nt__text text = {0};
    char type[NT__TYPE_TEXT];
    for (const nt__split_field *field = NULL; (field = nt__split_field_after(split, field));)
        nt__text_add(&text, "%s%s %s", text.length ? ", " : "", field->name, nt__type_text(field->sample, type));
    bool right = !text.failed && say_of_split(facts, split, "fields", text.data);
    nt__text_free(&text);
    return right;
}

static bool say_content(json_t *facts, const nt__split *split) {
    nt__hash hash;
    char digits[33];
    if (!split->fields[0].array) return say_of_split(facts, split, "source", split->source.name);
    if (nt__split_content(split, &hash) != NT_OK) return false;
    nt__hash_hex(hash, digits);
    return say_of_split(facts, split, "content", digits);
}

/* Whether it has rows of the arrays that are trained on: then those may move from one split to the other. */
static bool say_arrays(json_t *facts, const nt__traced *traced, const nt__split *split) {
    bool shares = split != traced->train && nt__split_shares_array(split, traced->train);
    return !shares || say_of_split(facts, split, "arrays", "those of train");
}

static bool add_split(json_t *facts, const nt__traced *traced, const nt__split *split) {
    const nt_array *array = split->fields[0].array;
    return count_of_split(facts, split, "rows", split->rows) &&
           count_of_split(facts, split, "first", split->options.first) &&
           count_of_split(facts, split, "whole", array ? array->shape.dims[0] : split->source.rows) &&
           count_of_split(facts, split, "batch", split->options.batch) &&
           say_of_split(facts, split, "shuffle", split->options.shuffle ? "true" : "false") &&
           say_of_split(facts, split, "drop_last", split->options.drop_last ? "true" : "false") &&
           say_of_split(facts, split, "kind", kind_of(split)) && say_fields(facts, split) &&
           say_content(facts, split) && say_arrays(facts, traced, split);
}

json_t *nt__record_data(const nt__traced *traced) {
    json_t *facts = json_object();
    bool right = facts != NULL;
    for (size_t i = 0; right && i < nt__data_split_count(traced->data); i++)
        right = add_split(facts, traced, nt__data_split_at(traced->data, i));
    if (right) return facts;
    json_decref(facts);
    return NULL;
}

/* ---- the settings ----------------------------------------------------------------------------------------------- */

/* Those that decide what a step computes, what is best and what is logged. Limits are free: a run goes on for longer.
 * The seed is that of the record. */
static bool add_settings(json_t *facts, const nt__task *task) {
    const nt__setting *setting;
    bool right = true;
    for (size_t i = 0; right && (setting = nt__setting_at(i)); i++) {
        nt__text text = {0};
        if (!(setting->told & NT__COMPARE)) continue;
        nt__setting_print(setting, &task->settings, &text);
        right = put_text(facts, setting->name, &text);
    }
    return right;
}

/* "biases 0.1": of the groups whose rate is not the base rate. */
static void add_ratios(const nt__resident *resident, nt__text *out) {
    for (size_t g = 0; g < resident->traced->layout.group_count; g++) {
        if (resident->rates[g].ratio == 1) continue;
        nt__text_add(out, "%s%s ", out->length ? ", " : "", resident->traced->layout.groups[g].name);
        nt__text_add_real(out, resident->rates[g].ratio);
    }
    if (!out->length) nt__text_say(out, "none");
}

json_t *nt__record_settings(const nt__resident *resident) {
    json_t *facts = json_object();
    nt__text rules = {0}, ratios = {0}, schedules = {0}, engine_text = {0};
    if (!facts) return NULL;
    nt__rules_print(resident->traced, false, &rules);
    add_ratios(resident, &ratios);
    nt__schedules_print(resident, &schedules);
    if (!resident->binding_count) nt__text_say(&schedules, "none");
    const nt__engine_facts *engine = nt__engine_facts_of(resident->traced->engine);
    const char *flags = getenv("XLA_FLAGS");
    const char *slash = strrchr(engine->plugin_path, '/');
    nt__text_add(&engine_text, "%s (%s)", slash ? slash + 1 : engine->plugin_path, engine->platform_version);
    const char *options =
        resident->traced->compile_options ? nt__options_text(resident->traced->compile_options) : "none";
    bool right = add_settings(facts, resident->task);
    right = put_text(facts, "optimizer", &rules) && right;
    right = put_text(facts, "ratios of rates", &ratios) && right;
    right = put_text(facts, "schedules", &schedules) && right;
    right = put_text(facts, "engine", &engine_text) && right;
    right = right && say(facts, "compile options", options) && say(facts, "XLA_FLAGS", flags ? flags : "none");
    right = right && say(facts, "training", resident->task->settings.manual ? "manual (train_step)" : "automatic");
    if (right) return facts;
    json_decref(facts);
    return NULL;
}

/* ---- what has become another ------------------------------------------------------------------------------------ */

static const char *shown(const json_t *value) {
    const char *text = json_string_value(value);
    return !value ? "absent" : text ? text : "?";
}

static void add_change(const char *name, const json_t *then, const json_t *now, nt__text *out) {
    nt__text_add(out, "\n  %s: %s -> %s", name, shown(then), shown(now));
}

size_t nt__list_changes(const nt__changes *changes, nt__text *out) {
    const char *name;
    json_t *value;
    size_t found = 0;
    json_object_foreach(changes->then, name, value) {
        const json_t *other = json_object_get(changes->now, name);
        if (json_equal(value, (json_t *)other) || (changes->counts && !changes->counts(changes, name))) continue;
        add_change(name, value, other, out);
        found++;
    }
    json_object_foreach(changes->now, name, value) {
        if (json_object_get(changes->then, name) || (changes->counts && !changes->counts(changes, name))) continue;
        add_change(name, NULL, value, out);
        found++;
    }
    return found;
}
