/* A run that only evaluates or predicts has the fields, the seed and the type to compute in of the weights it uses.
 * Not here: runs that have their own (model_compare.c).
 */
#include <string.h>

#include "run/model_pair.h"

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
    p->run->kept[p->index] = chosen && !is_free;
    if (chosen && !is_free) nt__pair_tell(&a->refused, p, "here");
    if (same || chosen) return NT_OK;
    add_taken(a, p->field->name);
    if (p->text) nt__text_add(&a->taken, " = %s", p->text);
    return nt__pair_take(p);
}

/* Another one that the run is to compute in; NULL: none. */
static const char *other_compute_dtype(const nt_run *run, const json_t *facts) {
    const char *dtype = json_string_value(json_object_get(facts, "compute_dtype"));
    bool is_free = run->settings.from.compute_dtype != NT__FROM_OPTION && nt__is_compute_dtype(dtype);
    return is_free && strcmp(dtype, run->settings.compute_dtype) != 0 ? dtype : NULL;
}

/* Another seed for what the model draws in an evaluation; -1: none. */
static int64_t other_seed(const nt_run *run, const json_t *facts) {
    const json_t *seed = json_object_get(facts, "seed");
    bool is_free = run->settings.from.seed != NT__FROM_OPTION && json_is_integer(seed);
    return is_free && json_integer_value(seed) != run->settings.seed ? json_integer_value(seed) : -1;
}

static void add_settings(const nt_run *run, const json_t *facts, adoption *a) {
    const char *dtype = other_compute_dtype(run, facts);
    int64_t seed = other_seed(run, facts);
    if (dtype) add_taken(a, "compute_dtype");
    if (dtype) nt__text_add(&a->taken, " = %s", dtype);
    if (seed >= 0) add_taken(a, "seed");
    if (seed >= 0) nt__text_add(&a->taken, " = %lld", (long long)seed);
}

/* With maps they may be meant. */
static nt_status refuse(const nt_run *run, const nt__weights *weights, const char *source, adoption *a) {
    const char *preset = run->preset ? run->preset : "", *by_preset = run->preset ? ", partly by the preset " : "";
    if (weights->is_mapped)
        return nt__warn("%s: %s was trained with other values of fields than are given here%s%s, which are used:%s",
                        run->experiment->name, source, by_preset, preset, nt__differences_shown(&a->refused));
    return nt__fail(
        NT_INVALID,
        "%s was trained with other values of fields than are given here%s%s:%s\nLeave these out, and the "
        "file's values are taken, or train with them; where they are meant for this use, the weight map '*=*' "
        "makes a warning of it",
        source, by_preset, preset, nt__differences_shown(&a->refused));
}

static nt_status adopt_all(nt_run *run, const nt__weights *weights, const char *source, adoption *a) {
    nt_status status = NT_OK;
    nt__pair p;
    for (size_t i = 0; i < run->experiment->field_count; i++)
        if (nt__pair_find(run, weights, i, &p, &status)) status = adopt_field(&p, a);
    add_settings(run, weights->facts, a);
    if (status == NT_INVALID) return nt__fail_in(status, "the fields that %s was trained with", source);
    if (status == NT_OK && (a->taken.failed || a->refused.text.failed)) status = NT_OUT_OF_MEMORY;
    if (status == NT_OK && a->refused.count) status = refuse(run, weights, source, a);
    if (status == NT_OK && a->taken.length && !run->settings.quiet)
        nt__notice("%s: fields from %s: %s", run->experiment->name, source, a->taken.data);
    return status;
}

/* A model may be shared by two experiments, as one that is trained and one that uses it in another way. */
static nt_status warn_of_other_experiment(const nt_run *run, const nt__weights *weights, const char *source) {
    const char *other = nt__model_other_experiment(run, weights);
    if (!other) return NT_OK;
    return nt__warn("%s: %s is of experiment '%s': fields are taken from it by their names", run->experiment->name,
                    source, other);
}

nt_status nt__adopt(nt_run *run, const nt__weights *weights, const char *source) {
    adoption a = {0};
    nt__differences changed = {0};
    if (!weights->facts) return weights->is_mapped ? NT_OK : nt__model_warn_of_nothing(run, source);
    nt_status status = warn_of_other_experiment(run, weights, source);
    if (status == NT_OK) status = adopt_all(run, weights, source, &a);
    nt__text_free(&a.taken);
    nt__text_free(&a.refused.text);
    if (status != NT_OK || nt__model_other_experiment(run, weights)) return status;
    nt__model_list_changes(run, weights->facts, &changed);
    return nt__model_warn(NT_OK, run, source, "fields were added, removed or retyped since it was written:", &changed);
}

/* What is not of the file's derive is the run's own. */
static nt_status adopt_derived(const nt__pair *p, nt__differences *l) {
    bool failed = false, same = nt__pair_is_same(p, &failed);
    bool is_set = p->field->marker == NT_GRAPH_CONST || p->derived || p->run->derived[p->index];
    if (failed) return NT_OUT_OF_MEMORY;
    if (!is_set || p->run->kept[p->index]) return NT_OK;
    nt__pair_note(p);
    if (same) return NT_OK;
    nt__pair_tell(l, p, "by this data");
    return nt__pair_take(p);
}

nt_status nt__adopt_again(nt_run *run) {
    const nt__weights *weights = run->waiting.weights;
    nt_status status = NT_OK;
    nt__differences l = {0};
    nt__pair p;
    if (!run->waiting.adopts || !weights->facts || !run->experiment->hooks.derive) return NT_OK;
    for (size_t i = 0; i < run->experiment->field_count; i++)
        if (nt__pair_find(run, weights, i, &p, &status)) status = adopt_derived(&p, &l);
    return nt__model_warn(status, run, run->waiting.source,
                          "derive sets other values than in training; those of the file are used:", &l);
}

nt_status nt__adopt_settings(nt_run *run) {
    if (!run->waiting.adopts) return NT_OK;
    const json_t *facts = run->waiting.weights->facts;
    const char *dtype = other_compute_dtype(run, facts);
    int64_t seed = other_seed(run, facts);
    if (seed >= 0) {
        run->settings.seed = seed;
        run->settings.from.seed = NT__FROM_OPTION; /* weights is one */
    }
    if (!dtype) return NT_OK;
    run->settings.compute_dtype = nt__arena_strdup(&run->arena, dtype);
    run->settings.from.compute_dtype = NT__FROM_OPTION;
    return run->settings.compute_dtype ? NT_OK : NT_OUT_OF_MEMORY;
}
