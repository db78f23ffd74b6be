/* A run that only evaluates or predicts has the fields, the seed and the type to compute in of the weights it uses.
 * Not here: runs that have their own (model_compare.c).
 */
#include <string.h>

#include "weights/model_pair.h"

typedef struct adoption {
    nt__text taken; /* "act = 1, scale = 0.5" */
    nt__differences refused;
} adoption;

static void add_taken(adoption *a, const char *name) {
    nt__text_add(&a->taken, "%s%s", a->taken.length ? ", " : "", name);
}

static nt_status adopt_field(const nt__pair *p, adoption *a) {
    bool failed = false, same = nt__pair_is_same(p, &failed), chosen = !same && nt__pair_is_chosen(p, &failed);
    bool is_free = p->field->marker == NT_DEVICE && !p->derived; /* it may be another one at any time */
    if (failed) return NT_OUT_OF_MEMORY;
    nt__pair_note(p);
    p->task->kept[p->index] = chosen && !is_free;
    if (chosen && !is_free) nt__pair_tell(&a->refused, p, "here");
    if (same || chosen) return NT_OK;
    add_taken(a, p->field->name);
    if (p->text) nt__text_add(&a->taken, " = %s", p->text);
    return nt__pair_take(p);
}

/* Another one that the run is to compute in; NULL: none. */
static const char *other_compute_dtype(const nt__task *task, const json_t *facts) {
    const char *dtype = json_string_value(json_object_get(facts, "compute_dtype"));
    bool is_free = task->settings.from.compute_dtype != NT__FROM_OPTION && nt__is_compute_dtype(dtype);
    return is_free && strcmp(dtype, task->settings.compute_dtype) != 0 ? dtype : NULL;
}

/* Another seed for what the model draws in an evaluation; -1: none. */
static int64_t other_seed(const nt__task *task, const json_t *facts) {
    const json_t *seed = json_object_get(facts, "seed");
    bool is_free = task->settings.from.seed != NT__FROM_OPTION && json_is_integer(seed);
    return is_free && json_integer_value(seed) != task->settings.seed ? json_integer_value(seed) : -1;
}

static void add_settings(const nt__task *task, const json_t *facts, adoption *a) {
    const char *dtype = other_compute_dtype(task, facts);
    int64_t seed = other_seed(task, facts);
    if (dtype) add_taken(a, "compute_dtype");
    if (dtype) nt__text_add(&a->taken, " = %s", dtype);
    if (seed >= 0) add_taken(a, "seed");
    if (seed >= 0) nt__text_add(&a->taken, " = %lld", (long long)seed);
}

/* With maps they may be meant. */
static nt_status refuse(const nt__task *task, const nt__weights *weights, const char *source, adoption *a) {
    const char *preset = task->preset ? task->preset : "", *by_preset = task->preset ? ", partly by the preset " : "";
    if (weights->is_mapped)
        return nt__warn("%s: %s was trained with other values of fields than are given here%s%s, which are used:%s",
                        task->experiment->name, source, by_preset, preset, nt__differences_shown(&a->refused));
    return nt__fail(NT_INVALID,
                    "%s was trained with other values of fields than are given here%s%s:%s\nLeave these out, and the "
                    "file's values are taken, or train with them; if they are meant for this use, the weight map '*=*' "
                    "makes a warning of it",
                    source, by_preset, preset, nt__differences_shown(&a->refused));
}

static nt_status adopt_all(nt__task *task, const nt__weights *weights, const char *source, adoption *a) {
    nt_status status = NT_OK;
    nt__pair p;
    for (size_t i = 0; i < task->experiment->field_count; i++)
        if (nt__pair_find(task, weights, i, &p, &status)) status = adopt_field(&p, a);
    add_settings(task, weights->facts, a);
    if (status == NT_INVALID) return nt__fail_in(status, "the fields that %s was trained with", source);
    if (status == NT_OK && (a->taken.failed || a->refused.text.failed)) status = NT_OUT_OF_MEMORY;
    if (status == NT_OK && a->refused.count) status = refuse(task, weights, source, a);
    if (status == NT_OK && a->taken.length && !task->settings.quiet)
        nt__notice("%s: fields from %s: %s", task->experiment->name, source, a->taken.data);
    return status;
}

/* A model may be shared by two experiments, as one that is trained and one that uses it in another way. */
static nt_status warn_of_other_experiment(const nt__task *task, const nt__weights *weights, const char *source) {
    const char *other = nt__model_other_experiment(task, weights);
    if (!other) return NT_OK;
    return nt__warn("%s: %s is of experiment '%s': fields are taken from it by their names", task->experiment->name,
                    source, other);
}

nt_status nt__adopt(nt__task *task, const nt__weights *weights, const char *source) {
    adoption a = {0};
    nt__differences changed = {0};
    if (!weights->facts) return weights->is_mapped ? NT_OK : nt__model_warn_of_nothing(task, source);
    nt_status status = warn_of_other_experiment(task, weights, source);
    if (status == NT_OK) status = adopt_all(task, weights, source, &a);
    nt__text_free(&a.taken);
    nt__text_free(&a.refused.text);
    if (status != NT_OK || nt__model_other_experiment(task, weights)) return status;
    nt__model_list_changes(task, weights->facts, &changed);
    return nt__model_warn(NT_OK, task, source, "fields were added, removed or retyped since it was written:", &changed);
}

/* What is not of the file's derive is the run's own. */
static nt_status adopt_derived(const nt__pair *p, nt__differences *l) {
    bool failed = false, same = nt__pair_is_same(p, &failed);
    bool is_set = p->field->marker == NT_GRAPH_CONST || p->derived || p->task->derived[p->index];
    if (failed) return NT_OUT_OF_MEMORY;
    if (!is_set || p->task->kept[p->index]) return NT_OK;
    nt__pair_note(p);
    if (same) return NT_OK;
    nt__pair_tell(l, p, "by this data");
    return nt__pair_take(p);
}

nt_status nt__adopt_again(nt__waiting *waiting) {
    const nt__weights *weights = waiting->weights;
    nt_status status = NT_OK;
    nt__differences l = {0};
    nt__pair p;
    if (!waiting->adopts || !weights->facts || !waiting->task->experiment->hooks.derive) return NT_OK;
    for (size_t i = 0; i < waiting->task->experiment->field_count; i++)
        if (nt__pair_find(waiting->task, weights, i, &p, &status)) status = adopt_derived(&p, &l);
    return nt__model_warn(status, waiting->task, waiting->source,
                          "derive sets other values than in training; those of the file are used:", &l);
}

nt_status nt__adopt_settings(nt__waiting *waiting) {
    if (!waiting->adopts) return NT_OK;
    const json_t *facts = waiting->weights->facts;
    const char *dtype = other_compute_dtype(waiting->task, facts);
    int64_t seed = other_seed(waiting->task, facts);
    if (seed >= 0) {
        waiting->task->settings.seed = seed;
        waiting->task->settings.from.seed = NT__FROM_OPTION; /* weights is one */
    }
    if (!dtype) return NT_OK;
    waiting->task->settings.compute_dtype = nt__arena_strdup(&waiting->task->arena, dtype);
    waiting->task->settings.from.compute_dtype = NT__FROM_OPTION;
    return waiting->task->settings.compute_dtype ? NT_OK : NT_OUT_OF_MEMORY;
}
