/* What a run is told: its settings (nitro/settings.h), each with where it came from, and its other options.
 * Not here: what a run does with them.
 */
#ifndef NT_SETTING_SETTING_H
#define NT_SETTING_SETTING_H

#include "experiment/experiment.h"
#include "nitro/run.h"
#include "record/record.h"

/* ---- rows (rows.c) ---------------------------------------------------------------------------------------------- */

/* The later ones win. */
typedef enum nt__source { NT__FROM_DEFAULT, NT__FROM_FIELD, NT__FROM_HOOK, NT__FROM_OPTION } nt__source;
/* "default", "field", "hook" or "option". */
const char *nt__source_name(nt__source source);

/* What of a run uses a setting. BEST: training, and what looks for its best checkpoint. */
typedef enum nt__scope {
    NT__SCOPE_MODEL,
    NT__SCOPE_RUN,
    NT__SCOPE_EVALUATION,
    NT__SCOPE_BEST,
    NT__SCOPE_TRAINING
} nt__scope;

/* Where a setting is told although it has its default; where it is never told, as something else there says it; and
 * whether a resume compares it with that of the checkpoint. */
enum { NT__LOG = 1, NT__REPORT = 2, NT__NOT_IN_LOG = 4, NT__NOT_IN_REPORT = 8, NT__COMPARE = 16 };

/* The member of the setting's type is in use. */
typedef struct nt__setting_value {
    int64_t whole;
    double real;
    bool truth;
    const char *text;
} nt__setting_value;

typedef struct nt__settings nt__settings;
typedef struct nt__task nt__task;

typedef struct nt__setting {
    const char *name;
    nt_field_type type; /* INT64, DOUBLE, BOOL or STRING */
    nt__scope scope;
    unsigned told;
    nt__setting_value initial;
    nt_status (*check)(const struct nt__setting *setting, const nt__settings *s, nt__setting_value value);
    size_t option, hook, value, from; /* in nt_run_options, nt_hooks, nt__settings and its `from` */
} nt__setting;
/* NULL beyond the last; NULL when there is none of that name. */
const nt__setting *nt__setting_at(size_t index);
const nt__setting *nt__setting_find(const char *name);
bool nt__setting_is_for_training(const nt__setting *setting);

/* ---- what a run has --------------------------------------------------------------------------------------------- */

#define NT__SETTING_MEMBER(E, TYPE, name, ...) NT_SETTING_##TYPE##_ name;
#define NT__SETTING_SOURCE(E, TYPE, name, ...) nt__source name;

typedef struct nt__sources {
    NT_SETTINGS_(NT__SETTING_SOURCE, )
    nt__source rule;
} nt__sources;

struct nt__settings {
    NT_SETTINGS_(NT__SETTING_MEMBER, )
    nt__sources from;
    const nt_logger *loggers; /* of the user's */
    size_t logger_count;
    int64_t batch; /* with no_data only */
    bool no_data, no_log, quiet, evaluate_only, trace_transfers, no_disk_cache, gradient_norm, histograms, restore_best;
    bool manual; /* train_step trains */
};

nt__setting_value nt__setting_of(const nt__setting *setting, const nt__settings *s);
nt__source nt__setting_source(const nt__setting *setting, const nt__settings *s);
/* Exact, and short where that is exact; "none" for a text that there is not. */
void nt__setting_print(const nt__setting *setting, const nt__settings *s, nt__text *out);

/* ---- finding them (resolve.c) ----------------------------------------------------------------------------------- */

/* Whose settings they are. Texts are copied into the arena. */
typedef struct nt__setting_owner {
    const nt_experiment *experiment;
    void *fields; /* those of a setting's name get the option's value */
    nt__arena *arena;
} nt__setting_owner;
/* What they would be without options: hooks, else fields, else defaults. */
nt_status nt__settings_declared(const nt__setting_owner *owner, nt__settings *out);
/* Options before these; checked. `declared` gets what nt__settings_declared gives. */
nt_status nt__settings_resolve(const nt__setting_owner *owner, const nt_run_options *options, nt__settings *declared,
                               nt__settings *out);
/* "min" or "max" of a metric's name, as `nitro history` marks the best; NULL: the name does not say it. */
const char *nt__usual_mode(const char *metric);
bool nt__is_manual(const nt_experiment *experiment, const void *fields);
bool nt__has_setting_hook(const nt_hooks *hooks, const nt__setting *setting);
/* Whether the experiment has a hook that gives the setting of this name. */
bool nt__setting_is_hooked(const nt_experiment *experiment, const char *name);
/* The field of a setting's name and kind, which gives its value where no hook does; NULL: there is none. */
const nt_field_info *nt__setting_field(const nt_experiment *experiment, const char *name);

/* ---- whether they are right ------------------------------------------------------------------------------------- */

/* check.c: those of training only where the run may train. */
nt_status nt__settings_check(const nt__settings *s);
/* Warns of what of a training run's settings is seldom meant. */
nt_status nt__settings_warn(const nt__settings *s, const nt_experiment *experiment);
nt_dtype nt__compute_dtype(const nt__settings *s); /* of settings that were checked */
bool nt__is_compute_dtype(const char *name);       /* also of NULL */

/* unused.c: error for an option that nothing of the run uses, as far as the settings tell. */
nt_status nt__options_check_used(const nt__settings *s, const nt_run_options *options);
/* That error: "the option NAME is given, and nothing would use it: REASON. Leave it out". */
nt_status nt__refuse_unused(const char *name, const char *reason);

/* ---- whose they are (task.c) ------------------------------------------------------------------------------------ */

/* What a run is made of and told: its experiment, its own copy of the fields, its settings, its listener. Everything
 * else of a run reads it. */
struct nt__task {
    nt__arena arena; /* for as long as the run */
    const nt_experiment *experiment;
    const nt_experiment *registered; /* under its name, when the run was made */
    void *fields, *view;             /* view: what hooks are called with in a trace */
    void *defaults;                  /* of the fields, when the run was made */
    void *underived;                 /* the fields before derive; NULL: there is none */
    bool *derived; /* one a field: did derive change it? Also of a run whose fields are those of a file */
    bool *given;   /* was it given in so many words? */
    bool *known;   /* does the file of the weights have its value? */
    bool *kept;    /* and the run another one, on purpose? */
    const char *preset;
    bool is_plan; /* the run is only looked at */
    nt__settings settings;
    nt__settings declared; /* what they would be without options */
    nt_event_function on_event;
    void *event_context;
};

/* Copies the caller's fields, or those of the preset, or the defaults; checked. */
nt_status nt__fields_take(nt__task *task, const void *fields, const nt_run_options *options);
/* Calls derive. `warns`: of what it replaces although it was given. */
nt_status nt__fields_derive(nt__task *task, const nt_data *data, bool warns);
void nt__fields_free(nt__task *task);
/* Tells the listener (listener.c). */
void nt__tell(const nt__task *task, const nt_event *event);

/* ---- what differs, in lines (differences.c) --------------------------------------------------------------------- */

typedef struct nt__differences {
    nt__text text;
    size_t count;
} nt__differences;
void nt__difference_add(nt__differences *l, const char *format, ...) NT__PRINTF(2, 3);
/* All of them as a text, the last ones as their number. */
const char *nt__differences_shown(nt__differences *l);

/* ---- checkpoints (kept.c) --------------------------------------------------------------------------------------- */

/* Whether training with these settings writes checkpoints. */
bool nt__keeps_checkpoints(const nt__settings *s);
/* Which of them are kept. */
nt__retention nt__retention_of(const nt__settings *s);
/* Error where neither the name of the metric nor the mode says which values are better. */
nt_status nt__check_direction(const nt__settings *s);

#endif
