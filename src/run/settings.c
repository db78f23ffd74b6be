/* Settings of a run: for each the option, else the experiment's hook of that name, else its field of that name, else
 * the default. What an option gives, a field of that name gets too, so that hooks see what holds.
 */
#include <math.h>
#include <string.h>

#include "history/history.h"
#include "run/plan.h"
#include "run/run_internal.h"

#define SETTING(name_, type_, training_)                                                                            \
    {                                                                                                               \
        .name = #name_, .type = NT_FIELD_##type_, .training = training_, .option = offsetof(nt_run_options, name_), \
        .hook = offsetof(nt_hooks, name_), .offset = offsetof(nt__settings, name_),                                 \
        .from = offsetof(nt__sources, name_)                                                                        \
    }

static const nt__setting settings[] = {
    SETTING(run_dir, STRING, false),
    SETTING(seed, INT64, false),
    SETTING(max_epochs, INT64, true),
    SETTING(max_steps, INT64, true),
    SETTING(accum, INT64, true),
    SETTING(gradient_clip_norm, DOUBLE, true),
    SETTING(ema_decay, DOUBLE, true),
    SETTING(learning_rate, DOUBLE, true),
    SETTING(check_divergence, BOOL, true),
    SETTING(log, STRING, true),
    SETTING(compute_dtype, STRING, false),
    SETTING(checkpoint, BOOL, true),
    SETTING(checkpoint_every_steps, INT64, true),
    SETTING(checkpoint_every_minutes, DOUBLE, true),
    SETTING(checkpoint_keep, INT64, true),
    SETTING(checkpoint_metric, STRING, true),
    SETTING(checkpoint_mode, STRING, true),
    SETTING(checkpoint_keep_latest, BOOL, true),
    SETTING(checkpoint_keep_epochs, INT64, true),
    SETTING(checkpoint_keep_steps, INT64, true),
    SETTING(checkpoint_scope, STRING, true),
    SETTING(val_loss, BOOL, false),
};

/* That of run_dir has the experiment's name in it, that of checkpoint_mode goes by the metric's name. */
static const nt__settings defaults = {
    .seed = 42,
    .max_epochs = 1,
    .max_steps = INT64_MAX, /* no limit */
    .accum = 1,
    .gradient_clip_norm = 0,
    .ema_decay = 0,
    .learning_rate = 1e-3,
    .check_divergence = true,
    .log = "jsonl",
    .compute_dtype = "f32",
    .checkpoint = true,
    .checkpoint_keep = 3,
    .checkpoint_metric = "val_loss",
    .checkpoint_keep_latest = true,
    .checkpoint_scope = "run",
    .val_loss = true,
};

const nt__setting *nt__setting_at(size_t index) {
    return index < sizeof settings / sizeof *settings ? &settings[index] : NULL;
}

const nt__setting *nt__setting_find(const char *name) {
    for (size_t i = 0; nt__setting_at(i); i++)
        if (strcmp(settings[i].name, name) == 0) return &settings[i];
    return NULL;
}

/* ---- one setting ------------------------------------------------------------------------------------------------ */

/* The member of the setting's type is in use. */
typedef struct found {
    int64_t whole;
    double real;
    bool truth;
    const char *text;
} found;

#define AT(type, base, offset) (*(type *)((char *)(base) + (offset)))
#define CONST_AT(type, base, offset) (*(const type *)((const char *)(base) + (offset)))

typedef int64_t (*whole_hook)(const void *e);
typedef double (*real_hook)(const void *e);
typedef bool (*truth_hook)(const void *e);
typedef const char *(*text_hook)(const void *e);

static bool read_option(const nt_run_options *options, const nt__setting *setting, found *out) {
    nt_maybe_int whole = {0};
    nt_maybe_double real = {0};
    nt_maybe_bool truth = {0};
    if (setting->type == NT_FIELD_INT64) whole = CONST_AT(nt_maybe_int, options, setting->option);
    if (setting->type == NT_FIELD_DOUBLE) real = CONST_AT(nt_maybe_double, options, setting->option);
    if (setting->type == NT_FIELD_BOOL) truth = CONST_AT(nt_maybe_bool, options, setting->option);
    *out = (found){.whole = whole.value, .real = real.value, .truth = truth.value};
    if (setting->type == NT_FIELD_STRING) memcpy(&out->text, (const char *)options + setting->option, sizeof out->text);
    return whole.given || real.given || truth.given || (out->text && *out->text);
}

static bool read_hook(const nt_run *run, const nt__setting *setting, found *out) {
    const nt_hooks *hooks = &run->experiment->hooks;
    if (!nt__has_setting_hook(hooks, setting)) return false;
    if (setting->type == NT_FIELD_INT64) out->whole = CONST_AT(whole_hook, hooks, setting->hook)(run->fields);
    if (setting->type == NT_FIELD_DOUBLE) out->real = CONST_AT(real_hook, hooks, setting->hook)(run->fields);
    if (setting->type == NT_FIELD_BOOL) out->truth = CONST_AT(truth_hook, hooks, setting->hook)(run->fields);
    if (setting->type != NT_FIELD_STRING) return true;
    out->text = CONST_AT(text_hook, hooks, setting->hook)(run->fields);
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
static nt_status read_whole(const nt_run *run, const nt_field_info *field, int64_t *out) {
    double number = nt__field_number(field, run->fields);
    if (field->type == NT_FIELD_INT64)
        memcpy(out, (const char *)run->fields + field->offset, sizeof *out);
    else if (number == floor(number) && fabs(number) < 0x1p53)
        *out = (int64_t)number;
    else
        return nt__fail(NT_INVALID, "field %s is %g; it must be a whole number below 2^53", field->name,
                        nt__plain_nan(number));
    return NT_OK;
}

/* *is_given stays false where there is no field, or no text in it. */
static nt_status read_field(const nt_run *run, const nt__setting *setting, found *out, bool *is_given) {
    const nt_field_info *field = nt__setting_field(run->experiment, setting->name);
    *is_given = field != NULL;
    if (!field) return NT_OK;
    if (setting->type == NT_FIELD_INT64) return read_whole(run, field, &out->whole);
    if (setting->type == NT_FIELD_DOUBLE) out->real = nt__field_number(field, run->fields);
    if (setting->type == NT_FIELD_BOOL) out->truth = nt__field_number(field, run->fields) != 0;
    if (setting->type != NT_FIELD_STRING) return NT_OK;
    memcpy(&out->text, (const char *)run->fields + field->offset, sizeof out->text);
    *is_given = out->text && *out->text;
    return NT_OK;
}

static nt_status store(nt_run *run, const nt__setting *setting, const found *from, nt__settings *out) {
    char *at = (char *)out + setting->offset;
    if (setting->type == NT_FIELD_INT64) memcpy(at, &from->whole, sizeof from->whole);
    if (setting->type == NT_FIELD_DOUBLE) memcpy(at, &from->real, sizeof from->real);
    if (setting->type == NT_FIELD_BOOL) memcpy(at, &from->truth, sizeof from->truth);
    if (setting->type != NT_FIELD_STRING) return NT_OK;
    const char *copy = nt__arena_strdup(&run->arena, from->text);
    memcpy(at, &copy, sizeof copy);
    return copy ? NT_OK : NT_OUT_OF_MEMORY;
}

/* The hook, else the field, else what is there already: the default. */
static nt_status find_declared(nt_run *run, const nt__setting *setting, nt__settings *out) {
    found value = {0};
    bool is_given = false;
    nt_status status;
    nt__source *from = &AT(nt__source, &out->from, setting->from);
    *from = NT__FROM_DEFAULT;
    nt__hook_begin(run, setting->name);
    if (read_hook(run, setting, &value)) *from = NT__FROM_HOOK;
    status = nt__hook_end(run, setting->name, NT_OK);
    if (status == NT_OK && *from != NT__FROM_HOOK) {
        status = read_field(run, setting, &value, &is_given);
        if (is_given) *from = NT__FROM_FIELD;
    }
    return status == NT_OK && *from != NT__FROM_DEFAULT ? store(run, setting, &value, out) : status;
}

nt_status nt__settings_declared(nt_run *run, nt__settings *out) {
    nt_status status = NT_OK;
    *out = defaults;
    out->run_dir = nt__arena_sprintf(&run->arena, "runs/%s", run->experiment->name);
    if (!out->run_dir) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && nt__setting_at(i); i++) status = find_declared(run, nt__setting_at(i), out);
    return status;
}

/* The field of the setting's name, if there is one, gets the option's value. */
static nt_status set_field(nt_run *run, const nt__setting *setting, const found *value, const nt__settings *s) {
    const nt_field_info *field = nt__setting_field(run->experiment, setting->name);
    if (!field) return NT_OK;
    char *at = (char *)run->fields + field->offset;
    if (setting->type == NT_FIELD_STRING) {
        AT(const char *, at, 0) = CONST_AT(char *, s, setting->offset);
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

static nt_status take_options(nt_run *run, const nt_run_options *options, nt__settings *out) {
    nt_status status = NT_OK;
    found value;
    for (size_t i = 0; status == NT_OK && nt__setting_at(i); i++) {
        const nt__setting *setting = nt__setting_at(i);
        if (!read_option(options, setting, &value)) continue;
        AT(nt__source, &out->from, setting->from) = NT__FROM_OPTION;
        status = store(run, setting, &value, out);
        if (status == NT_OK) status = set_field(run, setting, &value, out);
    }
    return status;
}

bool nt__has_setting_hook(const nt_hooks *hooks, const nt__setting *setting) {
    typedef void (*any_hook)(void);
    return CONST_AT(any_hook, hooks, setting->hook) != NULL;
}

const char *nt__run_loggers(const nt_run *run) {
    return run->settings.log;
}

bool nt__setting_is_hooked(const nt_experiment *experiment, const char *name) {
    const nt__setting *setting = nt__setting_find(name);
    return setting && nt__has_setting_hook(&experiment->hooks, setting);
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

enum { ORIGIN = 64 };

/* Where a bad value came from: " (from the accum hook)". */
static const char *origin(const nt__settings *s, const char *name, char text[ORIGIN]) {
    static const struct {
        const char *before, *behind;
    } words[] = {[NT__FROM_FIELD] = {" (from the field ", ")"},
                 [NT__FROM_HOOK] = {" (from the ", " hook)"},
                 [NT__FROM_OPTION] = {" (from the option ", ")"}};
    nt__source from = CONST_AT(nt__source, &s->from, nt__setting_find(name)->from);
    text[0] = 0;
    if (words[from].before) snprintf(text, ORIGIN, "%s%s%s", words[from].before, name, words[from].behind);
    return text;
}

static nt_status refuse_whole(const nt__settings *s, const char *name, int64_t value, const char *advice) {
    char text[ORIGIN];
    return nt__fail(NT_INVALID, "%s is %lld%s; %s", name, (long long)value, origin(s, name, text), advice);
}

static nt_status refuse_real(const nt__settings *s, const char *name, double value, const char *advice) {
    char text[ORIGIN];
    return nt__fail(NT_INVALID, "%s is %g%s; %s", name, nt__plain_nan(value), origin(s, name, text), advice);
}

static const nt_dtype compute_dtypes[] = {NT_F32, NT_BF16, NT_F16};

/* NULL: layers cannot compute in it. */
static const nt_dtype *find_compute_dtype(const nt__settings *s) {
    for (size_t i = 0; i < sizeof compute_dtypes / sizeof *compute_dtypes; i++)
        if (strcmp(nt_dtype_name(compute_dtypes[i]), s->compute_dtype) == 0) return &compute_dtypes[i];
    return NULL;
}

bool nt__is_compute_dtype(const char *name) {
    return name && find_compute_dtype(&(nt__settings){.compute_dtype = name});
}

nt_dtype nt__compute_dtype(const nt__settings *s) {
    return *find_compute_dtype(s);
}

static nt_status check_compute_dtype(const nt__settings *s) {
    char text[ORIGIN];
    if (find_compute_dtype(s)) return NT_OK;
    return nt__fail(NT_INVALID, "compute_dtype is '%s'%s; layers compute in f32, bf16 or f16", s->compute_dtype,
                    origin(s, "compute_dtype", text));
}

/* E-8, H-39: a manual step is one batch, whatever it does with it. */
static nt_status check_accum(const nt__settings *s) {
    char text[ORIGIN];
    if (s->accum < 1) return refuse_whole(s, "accum", s->accum, "a step has at least 1 micro-batch: give 1 or more");
    if (!s->manual || s->accum == 1) return NT_OK;
    return nt__fail(NT_INVALID,
                    "accum is %lld%s, and training is manual (the train_step hook), which makes a step of each batch: "
                    "leave accum at 1, and let train_step split its batch if it must",
                    (long long)s->accum, origin(s, "accum", text));
}

static nt_status check_log(const nt__settings *s) {
    char text[ORIGIN];
    nt_status status = nt__loggers_check(s->log);
    return status == NT_OK ? status : nt__fail_in(status, "log is '%s'%s", s->log, origin(s, "log", text));
}

static nt_status refuse_text(const nt__settings *s, const char *name, const char *value, const char *advice) {
    char text[ORIGIN];
    return nt__fail(NT_INVALID, "%s is '%s'%s; %s", name, value, origin(s, name, text), advice);
}

static nt_status check_checkpoints(const nt__settings *s) {
    if (s->checkpoint_keep < 1)
        return refuse_whole(s, "checkpoint_keep", s->checkpoint_keep,
                            "give how many of the best are kept, 1 or more; checkpoint = false writes none");
    if (s->checkpoint_every_steps < 0)
        return refuse_whole(s, "checkpoint_every_steps", s->checkpoint_every_steps, "give 0 or more");
    if (!(s->checkpoint_every_minutes >= 0) || !isfinite(s->checkpoint_every_minutes))
        return refuse_real(s, "checkpoint_every_minutes", s->checkpoint_every_minutes,
                           "give a finite number, 0 for none");
    if (s->checkpoint_keep_epochs < 0)
        return refuse_whole(s, "checkpoint_keep_epochs", s->checkpoint_keep_epochs, "give 0 or more");
    if (s->checkpoint_keep_steps < 0)
        return refuse_whole(s, "checkpoint_keep_steps", s->checkpoint_keep_steps, "give 0 or more");
    if (strcmp(s->checkpoint_scope, "run") != 0 && strcmp(s->checkpoint_scope, "dir") != 0)
        return refuse_text(s, "checkpoint_scope", s->checkpoint_scope,
                           "give run, to keep other runs' checkpoints in run_dir, or dir, to rank them all together");
    bool is_mode =
        !s->checkpoint_mode || strcmp(s->checkpoint_mode, "min") == 0 || strcmp(s->checkpoint_mode, "max") == 0;
    if (!is_mode)
        return refuse_text(s, "checkpoint_mode", s->checkpoint_mode, "give min or max: which of two values is better");
    return NT_OK;
}

static nt_status check(const nt__settings *s) {
    if (s->seed < 0) return refuse_whole(s, "seed", s->seed, "give 0 or more");
    nt_status status = check_compute_dtype(s);
    if (status != NT_OK || s->evaluate_only) return status;
    status = check_log(s);
    if (status == NT_OK) status = check_accum(s);
    if (status != NT_OK) return status;
    if (s->gradient_norm && s->manual)
        return nt__fail(NT_INVALID,
                        "gradient_norm is given, and training is manual (the train_step hook), which has gradients of "
                        "its own: report nt_norm of those as a value of train_step, such as \"discriminator_norm\"");
    if (s->max_epochs < 0) return refuse_whole(s, "max_epochs", s->max_epochs, "give 0 or more");
    if (s->max_steps < 0) return refuse_whole(s, "max_steps", s->max_steps, "give 0 or more");
    if (!isfinite(s->gradient_clip_norm))
        return refuse_real(s, "gradient_clip_norm", s->gradient_clip_norm, "give a finite number, 0 for no clipping");
    if (!(s->ema_decay >= 0 && s->ema_decay < 1))
        return refuse_real(s, "ema_decay", s->ema_decay, "give a number below 1 such as 0.999, 0 for no average");
    if (s->learning_rate <= 0 || !isfinite(s->learning_rate))
        return refuse_real(s, "learning_rate", s->learning_rate, "give a finite number above 0");
    return check_checkpoints(s);
}

/* A line of flags may be used again for an evaluation, so settings and schedules are no mistake there. */
nt_status nt__settings_check_trained(const nt_run *run, const nt_run_options *options) {
    bool evaluates = run->settings.evaluate_only;
    const struct {
        const char *name;
        bool is_given;
    } all[] = {{"resume", options->resume != NULL},     {"restore_optimizer", options->restore_optimizer},
               {"restore_best", options->restore_best}, {"gradient_norm", options->gradient_norm},
               {"histograms", options->histograms},     {"schedules", options->schedules && !evaluates}};
    for (size_t i = 0; !run->train && i < sizeof all / sizeof *all; i++) {
        if (!all[i].is_given) continue;
        if (evaluates)
            return nt__fail(NT_INVALID, "%s is for training, and run '%s' only evaluates or predicts: leave it out",
                            all[i].name, run->experiment->name);
        return nt__fail(NT_INVALID,
                        "%s is for training, and experiment '%s' has no split 'train' (its splits: %s): leave it out, "
                        "or add the split in build_data",
                        all[i].name, run->experiment->name, nt__data_split_names(run->data));
    }
    return NT_OK;
}

/* Samples in a batch of a handle without data. A field of that name counts when it is an integer. */
static nt_status find_batch(nt_run *run, nt_maybe_int option) {
    const nt_field_info *field = nt__field_find(run->experiment, "batch");
    bool is_integer = field && (field->type == NT_FIELD_INT || field->type == NT_FIELD_INT64);
    if (option.given && !run->settings.no_data)
        return nt__fail(NT_INVALID,
                        "batch is given as %lld, but the splits say how large a batch is: give it with "
                        "no_data only",
                        (long long)option.value);
    run->settings.batch = option.given ? option.value : 128;
    nt_status status = !option.given && is_integer ? read_whole(run, field, &run->settings.batch) : NT_OK;
    if (status != NT_OK || run->settings.batch >= 1 || !run->settings.no_data) return status;
    return nt__fail(NT_INVALID, "batch is %lld; a batch has at least 1 sample", (long long)run->settings.batch);
}

/* H-35: frozen when a run is made. */
bool nt__is_manual(const nt_experiment *experiment, const void *fields) {
    const nt_hooks *hooks = &experiment->hooks;
    return hooks->train_step && (!hooks->manual_training || hooks->manual_training(fields));
}

static nt_status find_manual(nt_run *run) {
    nt__hook_begin(run, "manual_training");
    run->settings.manual = nt__is_manual(run->experiment, run->fields);
    return nt__hook_end(run, "manual_training", NT_OK);
}

static nt_status take_loggers(nt_run *run, const nt_run_options *options) {
    nt__settings *s = &run->settings;
    nt_status status = nt__loggers_check_own(options->loggers, options->logger_count);
    if (status != NT_OK || !options->logger_count) return status;
    nt_logger *copy = nt__arena_alloc(&run->arena, options->logger_count, sizeof *copy);
    if (!copy) return NT_OUT_OF_MEMORY;
    memcpy(copy, options->loggers, options->logger_count * sizeof *copy);
    s->loggers = copy;
    s->logger_count = options->logger_count;
    return NT_OK;
}

/* As `nitro history` marks the best. NULL: the name does not say it. */
static const char *usual_mode(const char *metric) {
    static const char *const modes[] = {[NT__SMALLER_IS_BETTER] = "min", [NT__LARGER_IS_BETTER] = "max"};
    return modes[nt__metric_direction(metric)];
}

nt_status nt__settings_warn(const nt_run *run) {
    if (nt__compute_dtype(&run->settings) != NT_F16) return NT_OK;
    return nt__warn("%s: layers compute in f16, whose gradients below 6e-8 become 0 without a word: there is no loss "
                    "scaling. bf16 has the range of f32 and is meant for training, f16 for evaluations and predictions",
                    run->experiment->name);
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

nt_status nt__settings_resolve(nt_run *run, const nt_run_options *options) {
    nt__settings *s = &run->settings;
    nt_status status = nt__settings_declared(run, &run->declared);
    *s = run->declared;
    if (status == NT_OK) status = take_options(run, options, s);
    if (status == NT_OK && !s->checkpoint_mode) s->checkpoint_mode = usual_mode(s->checkpoint_metric);
    s->from.rule = run->experiment->hooks.optimizer ? NT__FROM_HOOK : NT__FROM_DEFAULT;
    if (status == NT_OK) status = find_manual(run);
    s->no_data = options->no_data;
    s->no_log = options->no_log;
    s->evaluate_only = options->evaluate_only || options->no_data;
    s->quiet = options->quiet;
    s->trace_transfers = options->trace_transfers;
    s->gradient_norm = options->gradient_norm;
    s->histograms = options->histograms;
    s->restore_best = options->restore_best;
    s->no_disk_cache = options->no_disk_cache;
    if (status == NT_OK) status = take_loggers(run, options);
    if (status == NT_OK) status = find_batch(run, options->batch);
    if (status == NT_OK) status = check(s);
    if (status == NT_OK) status = nt__options_check_used(run, options);
    /* One value for no clipping, so that no two say it in the text of a program. */
    if (s->gradient_clip_norm < 0) s->gradient_clip_norm = 0;
    return status;
}
