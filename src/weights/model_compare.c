/* A run against what its weights were trained with: fields that differ, and numbers of the forward program.
 * Not here: a run that takes the values of the file (adopt.c).
 */
#include <string.h>

#include "weights/model_pair.h"

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static void compare_compute(const nt__task *task, const json_t *facts, nt__differences *l) {
    const char *then = json_string_value(json_object_get(facts, "compute_dtype"));
    if (then && strcmp(then, task->settings.compute_dtype) != 0)
        nt__difference_add(l, "compute_dtype: %s in the file, %s here", then, task->settings.compute_dtype);
}

static nt_status compare_fields(const nt__task *task, const nt__weights *weights, nt__differences *constants,
                                nt__differences *others) {
    nt_status status = NT_OK;
    nt__pair p;
    for (size_t i = 0; i < task->experiment->field_count; i++) {
        bool failed = false;
        if (!nt__pair_find(task, weights, i, &p, &status)) continue;
        bool is_constant = p.field->marker == NT_GRAPH_CONST;
        if ((is_constant || p.derived) && !nt__pair_is_same(&p, &failed))
            nt__pair_tell(is_constant ? constants : others, &p, "here");
        if (failed) return NT_OUT_OF_MEMORY;
    }
    return status;
}

static nt_status refuse_constants(const nt__task *task, const char *source, nt__differences *constants) {
    return nt__fail(
        NT_INVALID,
        "%s was trained with other GraphConst values than run '%s' has, whose model is another one:%s\nMake "
        "the run with those, or take the arrays all the same with the weight map '*=*'",
        source, task->experiment->name, nt__differences_shown(constants));
}

/* Takes the lines of `from` after those of `to`. */
static void join(nt__differences *to, nt__differences *from) {
    if (from->text.data) nt__text_say(&to->text, from->text.data);
    to->text.failed |= from->text.failed;
    to->count += from->count;
    nt__text_free(&from->text);
}

static nt_status fail_other_experiment(const nt__task *task, const char *source, const char *other) {
    return nt__fail(NT_INVALID,
                    "%s is of experiment '%s', and this is '%s': name a file of this one, or take its arrays all the "
                    "same with the weight map '*=*'",
                    source, other, task->experiment->name);
}

nt_status nt__model_compare(const nt__task *task, const nt__weights *weights, const char *source, bool refuses) {
    nt__differences constants = {0}, others = {0};
    if (!weights->facts) return weights->is_mapped ? NT_OK : nt__model_warn_of_nothing(task, source);
    const char *other = nt__model_other_experiment(task, weights);
    if (other && refuses) return fail_other_experiment(task, source, other);
    if (other) nt__difference_add(&others, "the experiment: %s in the file, %s here", other, task->experiment->name);
    nt_status status = compare_fields(task, weights, &constants, &others);
    if (status == NT_OK && constants.count && refuses) status = refuse_constants(task, source, &constants);
    nt__model_list_changes(task, weights->facts, &others);
    compare_compute(task, weights->facts, &others);
    join(&constants, &others);
    return nt__model_warn(status, task, source,
                          "its arrays were trained with other values than the run has:", &constants);
}

/* ---- numbers of the forward program ----------------------------------------------------------------------------- */

/* The first of a list that another has not; NULL: there is none. */
static const char *first_beyond(const json_t *list, const json_t *other) {
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)list, i, item) {
        if (json_is_string(item) && !nt__facts_list_has(other, item)) return json_string_value(item);
    }
    return NULL;
}

/* Without data a variable that derive or build_data should have set has its initial value. `gone`, `fresh`: a number of
 * then and one of now, NULL where there is none. */
static nt_status tell_numbers(const nt__task *task, const char *source, const char *gone, const char *fresh) {
    const char *name = task->experiment->name;
    bool is_without_derive = task->settings.no_data && task->experiment->hooks.derive;
    nt__text numbers = {0};
    if (gone) nt__text_add(&numbers, "%s is not among them any more", gone);
    if (fresh) nt__text_add(&numbers, "%s%s is a new one", gone ? ", " : "", fresh);
    nt_status status = NT_OUT_OF_MEMORY;
    if (!numbers.failed && is_without_derive && gone)
        status =
            nt__fail(NT_INVALID,
                     "forward of %s computes with other numbers than when %s was written (%s). Without data derive "
                     "is not called, so a variable that it sets has not its value: make it a DEVICE or GRAPH_CONST "
                     "field, whose value is kept with the weights, and train again; or predict with a run that has "
                     "data, as the shell does",
                     name, source, numbers.data);
    else if (!numbers.failed)
        status =
            nt__warn("%s: forward computes with other numbers than when %s was written (%s): the code was edited, or "
                     "a variable that build_data or derive sets has another value. The values of fields are kept "
                     "with the weights, those of variables are not",
                     name, source, numbers.data);
    nt__text_free(&numbers);
    return status;
}

nt_status nt__model_check_numbers(const nt__traced *traced, const nt__weights *weights, const char *source) {
    const json_t *then = json_object_get(weights->facts, "numbers");
    const char *dtype = json_string_value(json_object_get(weights->facts, "compute_dtype"));
    bool can_compare = json_is_array(then) && dtype && strcmp(dtype, traced->task->settings.compute_dtype) == 0;
    if (!can_compare || weights->is_mapped || nt__model_other_experiment(traced->task, weights)) return NT_OK;
    if (!nt__inputs_are_same(traced, weights)) return NT_OK;
    json_t *now = nt__record_numbers(traced);
    nt_status status = now ? NT_OK : NT_OUT_OF_MEMORY;
    const char *gone = json_is_array(now) ? first_beyond(then, now) : NULL;
    const char *fresh = json_is_array(now) ? first_beyond(now, then) : NULL;
    if (gone || fresh) status = tell_numbers(traced->task, source, gone, fresh);
    json_decref(now);
    return status;
}
