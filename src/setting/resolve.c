/* Where each setting of a run comes from: the option, else the experiment's hook of that name, else its field of that
 * name, else the default. What an option gives, a field of that name gets too, so that hooks see what holds.
 * Not here: which values are right (check.c).
 */
#include <math.h>
#include <string.h>

#include "history/history.h"
#include "log/log.h"
#include "setting/setting.h"

/* ---- one setting ------------------------------------------------------------------------------------------------ */

#define AT(type, base, offset) (*(type *)((char *)(base) + (offset)))
#define CONST_AT(type, base, offset) (*(const type *)((const char *)(base) + (offset)))

typedef int64_t (*whole_hook)(const void *e);
typedef double (*real_hook)(const void *e);
typedef bool (*truth_hook)(const void *e);
typedef const char *(*text_hook)(const void *e);

static bool read_option(const nt_run_options *options, const nt__setting *setting, nt__setting_value *out) {
    nt_maybe_int whole = {0};
    nt_maybe_double real = {0};
    nt_maybe_bool truth = {0};
    if (setting->type == NT_FIELD_INT64) whole = CONST_AT(nt_maybe_int, options, setting->option);
    if (setting->type == NT_FIELD_DOUBLE) real = CONST_AT(nt_maybe_double, options, setting->option);
    if (setting->type == NT_FIELD_BOOL) truth = CONST_AT(nt_maybe_bool, options, setting->option);
    *out = (nt__setting_value){.whole = whole.value, .real = real.value, .truth = truth.value};
    if (setting->type == NT_FIELD_STRING) memcpy(&out->text, (const char *)options + setting->option, sizeof out->text);
    return whole.given || real.given || truth.given || (out->text && *out->text);
}

static bool read_hook(const nt__setting_owner *owner, const nt__setting *setting, nt__setting_value *out) {
    const nt_hooks *hooks = &owner->experiment->hooks;
    if (!nt__has_setting_hook(hooks, setting)) return false;
    if (setting->type == NT_FIELD_INT64) out->whole = CONST_AT(whole_hook, hooks, setting->hook)(owner->fields);
    if (setting->type == NT_FIELD_DOUBLE) out->real = CONST_AT(real_hook, hooks, setting->hook)(owner->fields);
    if (setting->type == NT_FIELD_BOOL) out->truth = CONST_AT(truth_hook, hooks, setting->hook)(owner->fields);
    if (setting->type != NT_FIELD_STRING) return true;
    out->text = CONST_AT(text_hook, hooks, setting->hook)(owner->fields);
    return out->text && *out->text;
}

const nt_field_info *nt__setting_field(const nt_experiment *experiment, const char *name) {
    const nt__setting *setting = nt__setting_find(name);
    const nt_field_info *field = setting ? nt__field_find(experiment, name) : NULL;
    if (!field) return NULL;
    bool fits = setting->type == NT_FIELD_STRING ? field->type == NT_FIELD_STRING : nt__field_is_number(field);
    return fits ? field : NULL;
}

/* Fields of an integer type are read as they are; one of a floating type must hold a whole number that fits. */
static nt_status read_whole(const nt__setting_owner *owner, const nt_field_info *field, int64_t *out) {
    double number = nt__field_number(field, owner->fields);
    if (field->type == NT_FIELD_INT64)
        memcpy(out, (const char *)owner->fields + field->offset, sizeof *out);
    else if (number == floor(number) && fabs(number) < 0x1p53)
        *out = (int64_t)number;
    else
        return nt__fail(NT_INVALID, "field %s is %g; it must be a whole number below 2^53", field->name,
                        nt__plain_nan(number));
    return NT_OK;
}

/* *is_given stays false where there is no field, or no text in it. */
static nt_status read_field(const nt__setting_owner *owner, const nt__setting *setting, nt__setting_value *out,
                            bool *is_given) {
    const nt_field_info *field = nt__setting_field(owner->experiment, setting->name);
    *is_given = field != NULL;
    if (!field) return NT_OK;
    if (setting->type == NT_FIELD_INT64) return read_whole(owner, field, &out->whole);
    if (setting->type == NT_FIELD_DOUBLE) out->real = nt__field_number(field, owner->fields);
    if (setting->type == NT_FIELD_BOOL) out->truth = nt__field_number(field, owner->fields) != 0;
    if (setting->type != NT_FIELD_STRING) return NT_OK;
    memcpy(&out->text, (const char *)owner->fields + field->offset, sizeof out->text);
    *is_given = out->text && *out->text;
    return NT_OK;
}

static void put(const nt__setting *setting, nt__setting_value value, nt__settings *out) {
    char *at = (char *)out + setting->value;
    if (setting->type == NT_FIELD_INT64) memcpy(at, &value.whole, sizeof value.whole);
    if (setting->type == NT_FIELD_DOUBLE) memcpy(at, &value.real, sizeof value.real);
    if (setting->type == NT_FIELD_BOOL) memcpy(at, &value.truth, sizeof value.truth);
    if (setting->type == NT_FIELD_STRING) memcpy(at, &value.text, sizeof value.text);
}

/* With a copy of a text. */
static nt_status store(const nt__setting_owner *owner, const nt__setting *setting, nt__setting_value value,
                       nt__settings *out) {
    if (setting->type == NT_FIELD_STRING && !(value.text = nt__arena_strdup(owner->arena, value.text)))
        return NT_OUT_OF_MEMORY;
    put(setting, value, out);
    return NT_OK;
}

/* The hook, else the field, else what is there already: the default. */
static nt_status find_declared(const nt__setting_owner *owner, const nt__setting *setting, nt__settings *out) {
    nt__setting_value value = {0};
    bool is_given = false;
    nt_status status;
    nt__source *from = &AT(nt__source, out, setting->from);
    *from = NT__FROM_DEFAULT;
    nt__hook_begin(owner->experiment, setting->name);
    if (read_hook(owner, setting, &value)) *from = NT__FROM_HOOK;
    status = nt__hook_end(owner->experiment, setting->name, NT_OK);
    if (status == NT_OK && *from != NT__FROM_HOOK) {
        status = read_field(owner, setting, &value, &is_given);
        if (is_given) *from = NT__FROM_FIELD;
    }
    return status == NT_OK && *from != NT__FROM_DEFAULT ? store(owner, setting, value, out) : status;
}

nt_status nt__settings_declared(const nt__setting_owner *owner, nt__settings *out) {
    const nt__setting *setting;
    nt_status status = NT_OK;
    *out = (nt__settings){0};
    for (size_t i = 0; status == NT_OK && (setting = nt__setting_at(i)); i++) {
        put(setting, setting->initial, out);
        status = find_declared(owner, setting, out);
    }
    if (status != NT_OK || out->run_dir) return status;
    out->run_dir = nt__arena_sprintf(owner->arena, "runs/%s", owner->experiment->name);
    return out->run_dir ? NT_OK : NT_OUT_OF_MEMORY;
}

/* The field of the setting's name, if there is one, gets the option's value. */
static nt_status set_field(const nt__setting_owner *owner, const nt__setting *setting, const nt__setting_value *value,
                           const nt__settings *s) {
    const nt_field_info *field = nt__setting_field(owner->experiment, setting->name);
    if (!field) return NT_OK;
    char *at = (char *)owner->fields + field->offset;
    if (setting->type == NT_FIELD_STRING) {
        AT(const char *, at, 0) = CONST_AT(char *, s, setting->value);
        return NT_OK;
    }
    if (setting->type == NT_FIELD_INT64 && field->type == NT_FIELD_INT64) {
        memcpy(at, &value->whole, sizeof value->whole);
        return NT_OK;
    }
    double number = setting->type == NT_FIELD_INT64  ? (double)value->whole
                    : setting->type == NT_FIELD_BOOL ? value->truth
                                                     : value->real;
    return nt__field_from_number(field, number, at);
}

static nt_status take_options(const nt__setting_owner *owner, const nt_run_options *options, nt__settings *out) {
    nt_status status = NT_OK;
    nt__setting_value value;
    for (size_t i = 0; status == NT_OK && nt__setting_at(i); i++) {
        const nt__setting *setting = nt__setting_at(i);
        if (!read_option(options, setting, &value)) continue;
        AT(nt__source, out, setting->from) = NT__FROM_OPTION;
        status = store(owner, setting, value, out);
        if (status == NT_OK) status = set_field(owner, setting, &value, out);
    }
    return status;
}

bool nt__has_setting_hook(const nt_hooks *hooks, const nt__setting *setting) {
    typedef void (*any_hook)(void);
    return CONST_AT(any_hook, hooks, setting->hook) != NULL;
}

bool nt__setting_is_hooked(const nt_experiment *experiment, const char *name) {
    const nt__setting *setting = nt__setting_find(name);
    return setting && nt__has_setting_hook(&experiment->hooks, setting);
}

/* ---- other options ------------------------------------------------------------------------------------------------
 */

/* Samples in a batch of a handle without data. A field of that name counts when it is an integer. */
static nt_status find_batch(const nt__setting_owner *owner, nt_maybe_int option, nt__settings *s) {
    const nt_field_info *field = nt__field_find(owner->experiment, "batch");
    bool is_integer = field && (field->type == NT_FIELD_INT || field->type == NT_FIELD_INT64);
    if (option.given && !s->no_data)
        return nt__fail(NT_INVALID,
                        "batch is given as %lld, but the splits say how large a batch is: give it with "
                        "no_data only",
                        (long long)option.value);
    s->batch = option.given ? option.value : 128;
    nt_status status = !option.given && is_integer ? read_whole(owner, field, &s->batch) : NT_OK;
    if (status != NT_OK || s->batch >= 1 || !s->no_data) return status;
    return nt__fail(NT_INVALID, "batch is %lld; a batch has at least 1 sample", (long long)s->batch);
}

bool nt__is_manual(const nt_experiment *experiment, const void *fields) {
    const nt_hooks *hooks = &experiment->hooks;
    return hooks->train_step && (!hooks->manual_training || hooks->manual_training(fields));
}

static nt_status find_manual(const nt__setting_owner *owner, nt__settings *s) {
    nt__hook_begin(owner->experiment, "manual_training");
    s->manual = nt__is_manual(owner->experiment, owner->fields);
    return nt__hook_end(owner->experiment, "manual_training", NT_OK);
}

static nt_status take_loggers(const nt__setting_owner *owner, const nt_run_options *options, nt__settings *s) {
    nt_status status = nt__loggers_check_own(options->loggers, options->logger_count);
    if (status != NT_OK || !options->logger_count) return status;
    nt_logger *copy = nt__arena_alloc(owner->arena, options->logger_count, sizeof *copy);
    if (!copy) return NT_OUT_OF_MEMORY;
    memcpy(copy, options->loggers, options->logger_count * sizeof *copy);
    s->loggers = copy;
    s->logger_count = options->logger_count;
    return NT_OK;
}

static void take_switches(const nt_run_options *options, nt__settings *s) {
    s->no_data = options->no_data;
    s->no_log = options->no_log;
    s->evaluate_only = options->evaluate_only || options->no_data;
    s->quiet = options->quiet;
    s->trace_transfers = options->trace_transfers;
    s->gradient_norm = options->gradient_norm;
    s->histograms = options->histograms;
    s->restore_best = options->restore_best;
    s->no_disk_cache = options->no_disk_cache;
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

const char *nt__usual_mode(const char *metric) {
    static const char *const modes[] = {[NT__SMALLER_IS_BETTER] = "min", [NT__LARGER_IS_BETTER] = "max"};
    return modes[nt__metric_direction(metric)];
}

nt_status nt__settings_resolve(const nt__setting_owner *owner, const nt_run_options *options, nt__settings *declared,
                               nt__settings *out) {
    nt_status status = nt__settings_declared(owner, declared);
    *out = *declared;
    if (status == NT_OK) status = take_options(owner, options, out);
    if (status == NT_OK && !out->checkpoint_mode) out->checkpoint_mode = nt__usual_mode(out->checkpoint_metric);
    out->from.rule = owner->experiment->hooks.optimizer ? NT__FROM_HOOK : NT__FROM_DEFAULT;
    take_switches(options, out);
    if (status == NT_OK) status = find_manual(owner, out);
    if (status == NT_OK) status = take_loggers(owner, options, out);
    if (status == NT_OK) status = find_batch(owner, options->batch, out);
    if (status == NT_OK) status = nt__settings_check(out);
    if (status == NT_OK) status = nt__options_check_used(out, options);
    /* One value for no clipping, so that no two say it in the text of a program. */
    if (out->gradient_clip_norm < 0) out->gradient_clip_norm = 0;
    return status;
}
